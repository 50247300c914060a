//! A VM that the CPI denies while its agent answers. The agent is believed, so the record stays.

use super::executor::Executor;
use crate::agent::{Agent, still_answers};
use crate::protocol::ResourceKind;
use crate::state::VmHandle;
use base::events::Stage;
use base::{Error, Result};
use manifest::cpi_label;

/// A contradiction between a CPI and the agent of the VM on record.
pub(crate) struct Contradiction {
    description: String,
    cause: String,
    forget: String,
}

impl Contradiction {
    /// Asks the agent of the VM on record for up to a minute, after the CPI has denied the VM. Returns the
    /// contradiction if it still answers then.
    pub(crate) fn detect(
        executor: &Executor<'_>,
        agent: &Agent,
        vm: &VmHandle,
        stage: &Stage,
    ) -> Result<Option<Self>> {
        if !still_answers(agent, executor.state(), stage)? {
            return Ok(None);
        }
        let id = executor.state().vm().map(|vm| format!(" (agent id {})", vm.agent_id)).unwrap_or_default();
        Ok(Some(Contradiction {
            description: format!(
                "{} says that VM {vm} does not exist, but its agent answers at {}{id}",
                cpi_label(vm.cpi()),
                agent.address()
            ),
            cause: probable_cause(&executor.changed_location_properties(vm.cpi())?, ResourceKind::Vm),
            forget: format!("monopile state forget --vm {}", vm.cid),
        }))
    }

    /// Like [`Self::detect`], but a contradiction is an error.
    pub(crate) fn check(executor: &Executor<'_>, agent: &Agent, vm: &VmHandle, stage: &Stage) -> Result<()> {
        match Self::detect(executor, agent, vm, stage)? {
            None => Ok(()),
            Some(contradiction) => Err(contradiction.error()),
        }
    }

    fn error(&self) -> Error {
        Error::failure(format!("{}; the VM stays on record", self.description))
            .with_note(self.cause.as_str())
            .with_hint(format!("to stop tracking the VM without deleting it: `{}`", self.forget))
    }

    /// Describes the contradiction with its probable cause and the way out.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{}; {}; to stop tracking the VM without deleting it: `{}`",
            self.description, self.cause, self.forget
        )
    }
}

/// Describes the probable cause if a CPI denies a resource. `changed` are the CPI's properties that have
/// changed since the resource was created.
pub(super) fn probable_cause(changed: &[String], kind: ResourceKind) -> String {
    const WRONG_PLACE: &str = "the CPI probably looks in the wrong place";
    match changed {
        [] => format!("{WRONG_PLACE}: check the account, region and project in its properties"),
        changed => format!(
            "{WRONG_PLACE}: these of its properties have changed since the {kind} was created: {}",
            changed.join(", ")
        ),
    }
}
