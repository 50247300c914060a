//! Commands of the bosh CLI that monopile does not have.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use base::text::shell_word;

/// The commands and aliases that need a director.
const DIRECTOR_COMMANDS: [&str; 85] = [
    "alias-env",
    "cancel-task",
    "cancel-tasks",
    "cc",
    "clean-up",
    "cleanup",
    "cloud-config",
    "config",
    "configs",
    "cpi-config",
    "create-recovery-plan",
    "cs",
    "ct",
    "curl",
    "d",
    "dc",
    "deld",
    "delete-config",
    "delete-deployment",
    "delete-network",
    "delete-release",
    "delete-snapshots",
    "delr",
    "dels",
    "deploy",
    "deployment",
    "deployments",
    "deps",
    "diff-config",
    "dep",
    "ds",
    "env",
    "environment",
    "environments",
    "envs",
    "errands",
    "es",
    "event",
    "events",
    "export-release",
    "ignore",
    "inspect-release",
    "instances",
    "is",
    "l",
    "locks",
    "log-in",
    "log-out",
    "login",
    "logout",
    "man",
    "manifest",
    "networks",
    "orphan-disk",
    "orphaned-disks",
    "orphaned-vms",
    "pcap",
    "recover",
    "releases",
    "rs",
    "run-errand",
    "runtime-config",
    "rc",
    "ss",
    "start",
    "stop",
    "t",
    "take-snapshots",
    "task",
    "tasks",
    "ts",
    "ucc",
    "unalias-env",
    "unignore",
    "update-cloud-config",
    "update-config",
    "update-cpi-config",
    "update-resurrection",
    "update-runtime-config",
    "upload-release",
    "ur",
    "urc",
    "us",
    "variables",
    "vms",
];

/// The commands and aliases that work on the source of a release.
const RELEASE_COMMANDS: [&str; 14] = [
    "add-blob",
    "blobs",
    "cr",
    "create-release",
    "finalize-release",
    "generate-job",
    "generate-package",
    "init-release",
    "remove-blob",
    "reset-release",
    "sync-blobs",
    "upload-blobs",
    "vendor-package",
    "fr",
];

/// Explains an unknown command that upstream's CLI has. Other errors stay as they are. `file` is a file on
/// the command line.
pub(super) fn explain_bosh_only_command(error: clap::Error, file: Option<&str>) -> clap::Error {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    match explanation(name, file) {
        Some(text) => clap::Error::raw(ErrorKind::InvalidSubcommand, text),
        None => error,
    }
}

/// Returns the message and the hints for a command that upstream's CLI has.
pub(super) fn explanation(name: &str, file: Option<&str>) -> Option<String> {
    let message = if DIRECTOR_COMMANDS.contains(&name) {
        let env_purpose = "for an environment of create-env: ";
        let manifest = file.map_or("MANIFEST".into(), shell_word);
        let advice = match name {
            "deploy" => format!("\n  hint: {env_purpose}`monopile create-env {manifest}`"),
            "vms" | "instances" => format!("\n  hint: {env_purpose}`monopile status {manifest}`"),
            "events" => "\n  hint: for the events that monopile prints: `monopile help events`".to_owned(),
            "variables" => format!("\n  hint: {env_purpose}`monopile vars list STORE`"),
            "dels" => format!("\n  hint: {env_purpose}`monopile delete-stemcell {manifest} CID`"),
            "us" => format!("\n  hint: {env_purpose}`monopile upload-stemcell {manifest} PATH`"),
            "man" => "\n  hint: for the man pages: `monopile help install man-pages`".to_owned(),
            "ss" => format!("\n  hint: {env_purpose}`monopile stemcells {manifest}`"),
            "start" | "stop" => format!("\n  hint: {env_purpose}`monopile {name}-env {manifest}`"),
            _ => String::new(),
        };
        format!(
            "'{name}' needs a BOSH director\n  hint: with a director: `bosh -e ENVIRONMENT {name}`{advice}"
        )
    } else if RELEASE_COMMANDS.contains(&name) {
        format!("'{name}' is a command for developing releases\n  hint: use the bosh CLI: `bosh {name}`")
    } else {
        return None;
    };
    Some(message + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::grammar;

    fn error_text(line: &str) -> String {
        let error = grammar::for_all_commands().try_get_matches_from(line.split(' ')).unwrap_err();
        explain_bosh_only_command(error, Some("a b.yml")).to_string()
    }

    #[test]
    fn bosh_only_commands_get_an_explanation() {
        for name in DIRECTOR_COMMANDS {
            let text = error_text(&format!("monopile {name} -n"));
            let expected = format!(
                "error: '{name}' needs a BOSH director\n  hint: with a director: `bosh -e ENVIRONMENT \
                 {name}`"
            );
            assert!(text.starts_with(&expected), "{text}");
            assert!(!text.contains("similar"), "{text}");
        }
        for name in RELEASE_COMMANDS {
            assert!(
                error_text(&format!("monopile {name}"))
                    .contains(&format!("hint: use the bosh CLI: `bosh {name}`\n"))
            );
        }
        let hint = "for an environment of create-env: `monopile create-env 'a b.yml'`\n";
        assert!(error_text("monopile deploy").ends_with(hint));
        assert!(error_text("monopile creat-env").contains("unrecognized subcommand"));
    }
}
