//! Explains why an agent refuses the credentials of a run.

use super::AgentError;
use crate::run_context::RunContext;
use crate::state::{CredentialDigests, RunCredentials, State};
use base::text::and_list;
use base::{Error, ErrorKind};

/// The probable cause if an agent refuses the credentials: the operator gave others than the deployed ones.
pub(crate) struct OtherCredentials {
    /// The error of the agent, with the variables that differ.
    pub(crate) problem: String,
    /// The ways to pass the right credentials.
    pub(crate) hints: Vec<String>,
}

impl OtherCredentials {
    /// Returns the cause if the agent refuses the credentials, or presents the certificate of another CA, and
    /// values differ from those on record.
    pub(crate) fn explain(
        error: &AgentError,
        run: &RunContext,
        state: &State,
        run_credentials: &RunCredentials,
    ) -> Option<Self> {
        let deployed_digests =
            state.monopile.credential_digests.as_ref().filter(|_| error.is_of_other_credentials())?;
        let names = deployed_digests.names_unknown_to_agent(&run_credentials.values);
        let differ = match names.as_slice() {
            [] => return None,
            [name] => format!("{name} differs from the deployed value"),
            names => format!("{} differ from the deployed values", and_list(names)),
        };
        Some(OtherCredentials {
            problem: format!("{error}; {differ}"),
            hints: CredentialDigests::hints_to_pass(
                Some(deployed_digests),
                names.first()?,
                run_credentials,
                &run.redactor,
            ),
        })
    }
}

impl From<OtherCredentials> for Error {
    fn from(OtherCredentials { problem, hints }: OtherCredentials) -> Self {
        Error::new(ErrorKind::AgentUnreachable, problem).with_hints(hints)
    }
}

/// Returns the error of a run that needs the agent, with the way to pass the right credentials if others are
/// the probable cause.
pub(crate) fn explain_error(
    error: AgentError,
    run: &RunContext,
    state: &State,
    run_credentials: &RunCredentials,
) -> Error {
    OtherCredentials::explain(&error, run, state, run_credentials).map_or_else(|| error.into(), Error::from)
}

/// Returns true if the agent refuses the credentials, and they are not known to be the deployed ones, so that
/// other ones may be the cause.
pub(crate) fn may_explain(error: &AgentError, state: &State, run_credentials: &RunCredentials) -> bool {
    let deployed_digests = state.monopile.credential_digests.as_ref();
    let are_deployed = deployed_digests
        .is_some_and(|digests| digests.names_unknown_to_agent(&run_credentials.values).is_empty());
    error.is_of_other_credentials() && !are_deployed
}
