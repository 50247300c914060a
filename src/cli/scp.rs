//! `monopile scp`: copies files to or from the VM.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::finish::CommandResult;
use super::gateway_args::GatewayArgs;
use super::session::Session;
use super::vm_args::VmArgs;
use base::{Error, Result};
use engine::inspection::{self, CopyPath, SshAction};

#[derive(Debug, Clone, Args)]
pub(super) struct ScpArgs {
    #[command(flatten)]
    vm: VmArgs,

    /// Sources, then the destination; :PATH is on the VM
    #[arg(value_name = "PATH", num_args = 2.., required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<String>,

    /// Copy directories with their contents
    #[arg(short = 'r', long)]
    recursive: bool,

    #[command(flatten)]
    gateway: GatewayArgs,
}

impl ScpArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let (state, inputs) = self.vm.inputs()?;
        let request = self.gateway.request(inputs, copy_action(&self.paths, self.recursive)?)?;
        let prepared_run = self.vm.prepare_run(session, state)?;
        let code = inspection::ssh(&request, &prepared_run.run)?;
        Ok(CommandResult::Output(Vec::new()).with_exit_code(code))
    }
}

fn copy_action(paths: &[String], recursive: bool) -> Result<SshAction> {
    let paths = paths.iter().map(|text| parse_path(text)).collect::<Result<Vec<_>>>()?;
    if !paths.iter().any(|path| matches!(path, CopyPath::Remote(_))) {
        return Err(Error::usage("none of the paths is on the VM")
            .with_hint("write a colon before the path on the VM, such as :/tmp/file"));
    }
    match paths.split_last() {
        Some((target, sources)) if !sources.is_empty() => {
            Ok(SshAction::Copy { recursive, sources: sources.to_vec(), target: target.clone() })
        }
        _ => Err(Error::usage("scp needs a source and a destination")
            .with_hint("for example: `monopile scp MANIFEST :/var/vcap/sys/log/syslog .`")),
    }
}

fn parse_path(text: &str) -> Result<CopyPath> {
    if text.is_empty() {
        return Err(Error::usage("a path for scp is empty")
            .with_hint("for the working directory, write a dot: `monopile scp MANIFEST :/PATH .`"));
    }
    // An instance is `name` or `name/0`. With any other slash before the colon, the path is local.
    let instance = text.split_once(':').filter(|(host, _)| {
        let name = host.strip_suffix("/0").unwrap_or(host);
        !name.contains('/') && !name.starts_with('.')
    });
    Ok(match instance {
        Some((_, path)) => CopyPath::Remote(path.to_owned()),
        None => CopyPath::Local(PathBuf::from(text)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_a_leading_colon_are_on_the_vm() {
        let check_remote = |text: &str, path: &str| {
            assert_eq!(parse_path(text).unwrap(), CopyPath::Remote(path.into()), "{text}")
        };
        let check_local =
            |text: &str| assert_eq!(parse_path(text).unwrap(), CopyPath::Local(text.into()), "{text}");
        check_remote(":/tmp/x", "/tmp/x");
        check_remote("bosh:/tmp/x", "/tmp/x");
        check_remote("bosh/0:x:y", "x:y");
        check_remote(":", "");
        check_local("x");
        check_local("./a:b");
        check_local("/a:b");
        check_local("dir/a:b");
        copy_action(&["a".into(), "b".into()], false).unwrap_err();
        copy_action(&["a".into(), ":b".into()], false).unwrap();
    }
}
