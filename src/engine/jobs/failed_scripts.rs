//! Reads the agent's messages about scripts that failed on the VM.

use super::logs;
use crate::agent_client::AgentError;
use base::text::comma_list;
use base::{Error, LogExcerpt};

/// Extracts the failed jobs from `1 of 2 pre-start scripts failed. Failed Jobs: a, b. Successful Jobs: c.`
pub(super) fn failed_jobs(message: &str) -> Vec<&str> {
    let Some((_, rest)) = message.split_once("Failed Jobs: ") else { return Vec::new() };
    let list = rest.split(". ").next().unwrap_or(rest).trim_end_matches('.');
    list.split(", ").filter(|name| !name.is_empty()).collect()
}

/// Returns the message for a script that failed in these jobs.
pub(super) fn failure_message(script: &str, jobs: &[&str]) -> String {
    let names: Vec<String> = jobs.iter().map(|job| format!("'{job}'")).collect();
    match names.as_slice() {
        [name] => format!("the {script} script of job {name} failed"),
        names => format!("the {script} scripts of these jobs failed: {}", comma_list(names)),
    }
}

/// Returns the error of a package that the agent could not compile. `package` is "package 'NAME/VERSION' of
/// release 'NAME'".
pub(super) fn compilation_error(error: AgentError, package: &str) -> Error {
    let summary = format!("{package} cannot be compiled");
    let script = match &error {
        AgentError::Exception { message, .. } => FailedScript::parse(message),
        AgentError::Interrupted { .. } => return error.into(),
        _ => None,
    };
    match script {
        Some(script) => Error::failure(format!("{summary}: its packaging script {}", script.ending))
            .with_source(LogExcerpt::new(script.excerpt())),
        None => Error::from(error).context(summary),
    }
}

/// A packaging script that failed, as agents report it: `Command exited with 7; Stdout: …, Stderr: …`. If
/// the beginning of an output was cut off, it is called `Truncated stdout` or `Truncated stderr`.
struct FailedScript<'m> {
    /// The end of its process, such as "exited with 7".
    ending: &'m str,
    stdout: &'m str,
    stderr: &'m str,
}

impl<'m> FailedScript<'m> {
    fn parse(message: &'m str) -> Option<Self> {
        let (text_before, output) = split_at_first(message, ["; Stdout: ", "; Truncated stdout: "])?;
        let (_, ending) = text_before.rsplit_once("Command ")?;
        let (stdout, stderr) =
            split_at_first(output, [", Stderr: ", ", Truncated stderr: "]).unwrap_or((output, ""));
        Some(FailedScript { ending, stdout, stderr })
    }

    /// Returns the end of its output, standard error first.
    fn excerpt(&self) -> String {
        let outputs = [("standard error", self.stderr), ("standard output", self.stdout)];
        let parts: Vec<String> = outputs
            .into_iter()
            .map(|(name, text)| (name, logs::last_lines(text)))
            .filter(|(_, lines)| !lines.is_empty())
            .map(|(name, lines)| format!("the end of its {name}:\n{}", lines.join("\n")))
            .collect();
        if parts.is_empty() { "it wrote nothing".to_owned() } else { parts.join("\n") }
    }
}

/// Splits a text at the first of these separators.
fn split_at_first<'t>(text: &'t str, separators: [&str; 2]) -> Option<(&'t str, &'t str)> {
    let splits = separators.iter().filter_map(|separator| text.split_once(separator));
    splits.min_by_key(|(text_before, _)| text_before.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_jobs_are_parsed_from_the_agents_message() {
        let message = "2 of 3 pre-start scripts failed. Failed Jobs: a, b.1. Successful Jobs: c.";
        assert_eq!(failed_jobs(message), ["a", "b.1"]);
        assert_eq!(failed_jobs("1 of 1 drain scripts failed. Failed Jobs: x."), ["x"]);
        assert!(failed_jobs("timed out").is_empty());
        assert_eq!(failure_message("pre-start", &["a"]), "the pre-start script of job 'a' failed");
        assert_eq!(failure_message("drain", &["a", "b"]), "the drain scripts of these jobs failed: 'a', 'b'");
    }

    #[test]
    fn packaging_script_is_parsed_from_the_agents_message() {
        let error_chain = |message: &str| {
            let (method, message) = ("compile_package".to_owned(), message.to_owned());
            compilation_error(AgentError::Exception { method, message }, "package 'a/1'").chain()
        };
        assert_eq!(
            error_chain(
                "Compiling package a: Running packaging script: Command exited with 7; Stdout: one\n, \
                 Truncated stderr: + exit 7\n"
            ),
            [
                "package 'a/1' cannot be compiled: its packaging script exited with 7",
                "the end of its standard error:\n+ exit 7\nthe end of its standard output:\none"
            ]
        );
        assert_eq!(error_chain("Command exited with 1; Stdout: , Stderr: ")[1], "it wrote nothing");
        let other = error_chain("Fetching package a: not found");
        assert_eq!(other[0], "package 'a/1' cannot be compiled");
        assert_eq!(other[1], "the agent's `compile_package` failed: Fetching package a: not found");
    }
}
