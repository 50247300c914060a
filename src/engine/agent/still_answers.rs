//! Asks the agent of a VM whether the VM still exists although a CPI does not find it, because the CPI may
//! look in the wrong place.

use std::time::{Duration, Instant};

use super::identity;
use super::{Agent, AgentError};
use crate::state::State;
use base::events::Stage;

/// The time during which an agent that still answers is asked repeatedly. A VM may answer for a while during
/// its deletion.
const DELETION_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause between two requests.
const POLL_PAUSE: Duration = Duration::from_secs(1);

/// Returns true if the agent of the VM on record still answers after a minute. Returns false as soon as it
/// does not answer, or answers with another id. Without an id on record, any agent counts as the VM's own.
pub(crate) fn still_answers(agent: &Agent, state: &State, stage: &Stage) -> Result<bool, AgentError> {
    let expected = state.vm().map(|vm| vm.agent_id.as_str());
    let start = Instant::now();
    let mut is_reported = false;
    loop {
        match agent.get_state() {
            Ok(agent_state) if expected.is_none_or(|expected| identity::id(&agent_state) == expected) => {}
            Ok(_) => return Ok(false),
            Err(error) if error.was_caused_by_this_run() => return Err(error),
            Err(_) => return Ok(false),
        }
        if start.elapsed() >= DELETION_TIMEOUT {
            return Ok(true);
        }
        if !is_reported {
            is_reported = true;
            stage.log_line(format!(
                "the CPI says that the VM does not exist, but its agent answers at {}; asking the agent \
                 for up to {} s more",
                agent.address(),
                DELETION_TIMEOUT.as_secs()
            ));
        }
        agent.pause(POLL_PAUSE)?;
    }
}
