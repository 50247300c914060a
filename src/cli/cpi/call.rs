//! `monopile cpi call`: calls a method of a CPI and shows the request and the answer.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::Value;

use super::source::{SourceArgs, call_error, call_report};
use crate::cli::finish::CommandResult;
use crate::cli::paths;
use crate::cli::session::Session;
use crate::conformance::{self, Versions};
use base::error::{did_you_mean_question, nearest};
use base::events::Warning;
use base::text::{json_problem, shell_word};
use base::{Error, Result};
use engine::cpi::Method;

/// Call a method of a CPI and show request and answer
///
/// An ARG is JSON or a plain word. Sends the call as it is: it does not ask, does not lock the state, and
/// records nothing. `delete_vm`, `delete_disk` and `delete_snapshot` delete at once, and cannot be undone.
/// Resources that a call creates are not in the state: delete them yourself.
#[derive(Debug, Clone, Args)]
#[command(override_usage = "monopile cpi call [OPTIONS] [MANIFEST] METHOD [ARG]...\n       \
                      monopile cpi call [OPTIONS] --path EXE METHOD [ARG]...\n       \
                      monopile cpi call [OPTIONS] --replay FILE METHOD [ARG]...")]
pub(super) struct CallArgs {
    /// Manifest, method and arguments
    ///
    /// Leave out the manifest with --path, --replay, or an env file that names one.
    #[arg(value_name = "MANIFEST METHOD ARG", allow_negative_numbers = true,
          value_hint = ValueHint::FilePath)]
    words: Vec<String>,

    /// Send this `api_version` of the stemcell [default: that in the state]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    stemcell_api_version: Option<u32>,

    #[command(flatten)]
    source: SourceArgs,
}

impl CallArgs {
    /// Calls a CPI method with the arguments on the command line. The first word is the manifest, unless the
    /// env file names it and the word is no file.
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let mut words = self.words.into_iter();
        let manifest = match (self.source.needs_manifest(), self.source.manifest_of_env_file()) {
            (false, _) => None,
            (true, Some(manifest)) if !words.as_slice().first().is_some_and(paths::exists) => {
                Some(manifest.clone())
            }
            (true, _) => words.next().map(PathBuf::from),
        };
        let Some(method) = words.next() else {
            let source = self.source.words(manifest.as_deref());
            return Err(Error::usage("no CPI method is given")
                .with_hint(format!("for example: `monopile cpi call {source} has_vm vm-1`")));
        };
        let words: Vec<String> = words.collect();
        for word in words.iter().filter(|word| word.starts_with(['{', '['])) {
            if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(word) {
                session.reporter.warn(format!(
                    "the argument '{word}' is not JSON, so it is sent as text: {}",
                    json_problem(&error)
                ));
            }
        }
        let arguments: Vec<Value> = words
            .into_iter()
            .enumerate()
            .map(|(position, word)| conformance::parse_argument(&method, position, &word))
            .collect();
        let prepared_cpi = self.source.open(session, manifest.as_ref(), false, None)?;
        let versions = match method == Method::Info.name() {
            true => Versions::default(),
            false => {
                let info = prepared_cpi.call_in_stage(
                    session,
                    "Asking the CPI for `info`",
                    conformance::call_info,
                )?;
                let api_version = info.info.as_ref().map(|info| info.api_version);
                if api_version.is_none() {
                    let reason = info.error.or_else(|| info.problems.first().cloned()).unwrap_or_default();
                    session
                        .reporter
                        .warn(format!("`info` failed, so the request has api_version 1: {reason}"));
                }
                let recorded_version =
                    prepared_cpi.manifest_cpi.as_ref().and_then(|cpi| cpi.stemcell_api_version);
                Versions {
                    api: Some(api_version.unwrap_or(1).min(prepared_cpi.highest_api_version)),
                    stemcell: self.stemcell_api_version.or(recorded_version),
                }
            }
        };
        advise(session, &method, versions, &arguments);
        let finished_call =
            prepared_cpi.call_in_stage(session, &format!("Calling {method}"), |cpi, watching| {
                conformance::call(cpi, &method, &arguments, versions, watching)
            })?;
        if let Some((kind, cid)) = finished_call.created_resource.as_ref().filter(|_| !self.source.replays())
        {
            session.reporter.note(format!(
                "this {kind} is not on record. To delete it: `monopile cpi call {} delete_{} {}`",
                self.source.words(manifest.as_deref()),
                kind.name().to_lowercase(),
                shell_word(cid)
            ));
        }
        let output = match session.globals.prints_json() {
            true => CommandResult::json(&finished_call)?,
            false => CommandResult::Output(call_report(&finished_call).into_bytes()),
        };
        Ok(match finished_call.has_succeeded {
            true => output,
            false => {
                let error = call_error(&method, &finished_call, prepared_cpi.cpi.timeout);
                output.with_problem(error.with_hints(suggest_method(&method)))
            }
        })
    }
}

/// Returns a suggestion for an unknown method.
fn suggest_method(method: &str) -> Option<String> {
    let is_known = method.parse::<Method>().is_ok();
    let nearest_name = nearest(method, Method::all().map(Method::name)).filter(|_| !is_known);
    nearest_name.map(did_you_mean_question)
}

/// Warns about an unknown method or unusual arguments. The call is made anyway.
fn advise(session: &Session, method: &str, versions: Versions, arguments: &[Value]) {
    match method.parse::<Method>() {
        Ok(cpi_method) => {
            if let Err(problem) = cpi_method.check_arguments(versions.api.unwrap_or(1), arguments) {
                session.reporter.warn(problem);
            }
        }
        Err(unknown) => {
            session.reporter.warn(Warning::new(unknown.to_string()).with_hints(suggest_method(method)));
        }
    }
}
