//! Plans `delete-env`.

use std::collections::BTreeSet;

use super::{Plan, Step};
use crate::state::{Resource, State};

/// Plans a `delete-env`: the VM with its jobs, then every snapshot, disk and stemcell on record.
pub fn delete(state: &State) -> Plan {
    const DELETION_REASON: &str = "the environment is deleted";
    let mut plan = Plan::default();
    if let Some(vm) = state.vm_handle() {
        plan.push(Step::StopJobs(vm), DELETION_REASON);
    }
    // Other tools may have recorded one stemcell of the IaaS under two versions.
    let mut planned_stemcells = BTreeSet::new();
    for resource in state.resources() {
        let is_planned_already = match &resource {
            Resource::Stemcell(stemcell) => !planned_stemcells.insert(stemcell.clone()),
            Resource::Vm(_) | Resource::Disk(_) | Resource::Snapshot(_) => false,
        };
        if !is_planned_already {
            plan.push_deletion(resource, DELETION_REASON);
        }
    }
    plan
}
