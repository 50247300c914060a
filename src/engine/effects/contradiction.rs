//! A VM that the CPI denies while its agent answers. The agent is believed, so the record stays.

use super::executor::Executor;
use super::failed_call::forget_command_of;
use crate::agent_client::{Agent, still_answers};
use crate::cpi::Method;
use crate::protocol::ResourceKind;
use crate::state::{DiskHandle, DiskRecord, Resource, State, VmHandle, is_other_kind};
use base::events::Reporter;
use base::text::shell_word;
use base::{Error, Result};
use manifest::cpi_label;

/// A contradiction between a CPI and the agent of the VM on record.
pub(crate) struct Contradiction {
    description: String,
    /// The CPI's properties that have changed since the VM was created.
    changed_properties: Vec<String>,
    misplacement_hint: String,
    forget_command: String,
}

impl Contradiction {
    /// Asks the agent of the VM on record for up to a minute, after the CPI has denied the VM. Returns the
    /// contradiction if it still answers then.
    pub(crate) fn detect(
        executor: &Executor<'_>,
        agent: &Agent,
        vm: &VmHandle,
        reporter: &Reporter,
    ) -> Result<Option<Self>> {
        if !still_answers(agent, executor.state(), reporter)? {
            return Ok(None);
        }
        let id = executor.state().vm().map(|vm| format!(" (agent ID {})", vm.agent_id)).unwrap_or_default();
        let changed_properties = executor.find_changed_location_properties(vm.cpi())?;
        Ok(Some(Contradiction {
            description: describe_denied(vm, agent.address()) + &id,
            misplacement_hint: executor.cpis().misplacement_hint(vm.cpi(), &changed_properties),
            changed_properties,
            forget_command: forget_command_of(&vm.clone().into()),
        }))
    }

    /// Like [`Self::detect`], but a contradiction is an error.
    pub(crate) fn check(
        executor: &Executor<'_>,
        agent: &Agent,
        vm: &VmHandle,
        reporter: &Reporter,
    ) -> Result<()> {
        match Self::detect(executor, agent, vm, reporter)? {
            None => Ok(()),
            Some(contradiction) => Err(contradiction.contradiction_error()),
        }
    }

    fn contradiction_error(&self) -> Error {
        Error::failure(format!("{}; the VM stays on record", self.description))
            .with_note(probable_cause(&self.changed_properties, ResourceKind::Vm))
            .with_hints(self.hints())
    }

    /// Describes the contradiction with its probable cause.
    pub(crate) fn describe(&self) -> String {
        format!("{}; {}", self.description, probable_cause(&self.changed_properties, ResourceKind::Vm))
    }

    /// Returns the two hints: correct the properties of the CPI, or forget the record of the VM.
    pub(crate) fn hints(&self) -> [String; 2] {
        [self.misplacement_hint.clone(), self.hint_to_forget()]
    }

    fn hint_to_forget(&self) -> String {
        format!("to forget the record without deleting the VM: `{}`", self.forget_command)
    }
}

/// Describes that a CPI denies a VM whose agent answers at this address.
pub(crate) fn describe_denied(vm: &VmHandle, agent_address: &str) -> String {
    let cpi = label(vm.cpi());
    format!("{cpi} says that VM {vm} does not exist, but its agent answers at {agent_address}")
}

/// Describes that a CPI denies a disk that the agent has mounted.
pub(crate) fn describe_denied_mount(disk: &DiskHandle) -> String {
    format!("{} says that disk {disk} does not exist, but the agent has it mounted", label(disk.cpi()))
}

/// The note if a CPI finds the VM, and denies a disk that is mounted on it.
pub(crate) const DENIED_MOUNT_NOTE: &str =
    "the CPI finds the VM, but not its disk: its `has_disk` may be wrong";

/// Returns the hint for a disk that is mounted on a VM which the same CPI finds.
pub(crate) fn hint_for_denied_mount(disk: &DiskHandle) -> String {
    hint_to_ask_again(Method::HasDisk, &disk.clone().into())
}

/// Returns the hint for a CPI whose answers about a resource contradict others. `method` asks whether the
/// resource exists.
pub(super) fn hint_to_ask_again(method: Method, resource: &Resource) -> String {
    let cpi_option = resource.cpi().map(|cpi| format!(" --cpi {}", shell_word(cpi)));
    format!(
        "ask the CPI again: `monopile cpi call MANIFEST {method} {}{}`",
        shell_word(resource.cid()),
        cpi_option.unwrap_or_default()
    )
}

/// Describes that a CPI denies a resource, and that no agent shows that it exists. The CPI may look in the
/// wrong place, so this does not say that the resource is gone.
pub(crate) fn describe_not_found(resource: &Resource) -> String {
    format!("{} does not find {resource}", label(resource.cpi()))
}

fn label(cpi: Option<&str>) -> String {
    cpi.map_or_else(|| "the CPI".to_owned(), |name| cpi_label(Some(name)))
}

/// Returns the probable cause if CPIs deny these resources on record: properties of a CPI have changed, or
/// the VM and all disks are denied together. Returns `None` if they are probably gone.
/// `changed_properties_of` returns the properties of a CPI that have changed since its resources were
/// created.
pub(crate) fn probable_cause_of_denial(
    state: &State,
    denied_resources: &[Resource],
    changed_properties_of: impl Fn(Option<&str>) -> Result<Vec<String>>,
) -> Result<Option<String>> {
    for resource in denied_resources {
        let changed_properties = changed_properties_of(resource.cpi())?;
        if !changed_properties.is_empty() {
            return Ok(Some(probable_cause(&changed_properties, resource.kind())));
        }
    }
    let is_denied = |resource: Resource| denied_resources.contains(&resource);
    let mut disks = state.disks.iter().map(DiskRecord::handle);
    let denies_all = state.vm_handle().is_some_and(|vm| is_denied(vm.into()))
        && !state.disks.is_empty()
        && disks.all(|disk| is_denied(disk.into()));
    Ok(denies_all.then(|| probable_cause(&[], ResourceKind::Vm)))
}

/// Describes the probable cause if a CPI denies a resource. `changed_properties` are the CPI's properties
/// that have changed since the resource was created.
pub(crate) fn probable_cause(changed_properties: &[String], kind: ResourceKind) -> String {
    match changed_properties {
        [] => "the CPI probably looks in another account, region or project".to_owned(),
        changed_properties if is_other_kind(changed_properties) => {
            format!("the {kind} was created by another kind of CPI than that of the manifest")
        }
        changed_properties => format!(
            "the CPI probably looks in another account, region or project, because some of its properties \
             have changed since the {kind} was created: {}",
            changed_properties.join(", ")
        ),
    }
}
