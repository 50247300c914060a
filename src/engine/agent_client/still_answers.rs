//! Asks the agent of a VM whether the VM still exists although a CPI does not find it, because the CPI may
//! look in the wrong place.

use std::time::{Duration, Instant};

use super::identity;
use super::{Agent, AgentError};
use crate::state::State;
use base::events::{Reporter, Stage};

/// The time during which an agent that still answers is asked repeatedly. A VM may answer for a while during
/// its deletion.
const DELETION_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause between two requests.
const POLL_PAUSE: Duration = Duration::from_secs(1);

/// Returns true if the agent of the VM on record still answers after a minute. Returns false as soon as it
/// does not answer, or answers with another id. Without an id on record, any agent counts as the VM's own.
pub(crate) fn still_answers(agent: &Agent, state: &State, reporter: &Reporter) -> Result<bool, AgentError> {
    let expected = state.vm().map(|vm| vm.agent_id.as_str());
    let start = Instant::now();
    let mut asking_stage: Option<Stage> = None;
    loop {
        match agent.get_state() {
            Ok(agent_state) if expected.is_none_or(|expected| identity::id(&agent_state) == expected) => {}
            Err(error) if error.was_caused_by_this_run() => {
                return Err(match &asking_stage {
                    Some(stage) => error.with_stage(stage),
                    None => error,
                });
            }
            Ok(_) | Err(_) => {
                asking_stage.into_iter().for_each(Stage::finish);
                return Ok(false);
            }
        }
        if start.elapsed() >= DELETION_TIMEOUT {
            asking_stage.into_iter().for_each(Stage::finish);
            return Ok(true);
        }
        let stage = asking_stage.get_or_insert_with(|| {
            reporter.note(format!(
                "the CPI says that the VM does not exist, but its agent answers at {}: asking the agent \
                 again for up to {} s",
                agent.address(),
                DELETION_TIMEOUT.as_secs()
            ));
            reporter.begin_stage("Checking whether the agent still answers")
        });
        agent.pause(POLL_PAUSE).map_err(|error| error.with_stage(stage))?;
    }
}
