//! The plan of `delete-env`.

use std::collections::BTreeSet;

use super::{Plan, Step};
use crate::state::State;

/// Plans a `delete-env`: the VM with its jobs, then every disk and stemcell on record.
pub fn delete(state: &State) -> Plan {
    let mut plan = Plan::default();
    if let Some(cid) = state.vm_cid() {
        plan.push(Step::StopVm { cid: cid.to_owned() }, "the environment is deleted");
        plan.push(Step::DeleteVm { cid: cid.to_owned() }, "the environment is deleted");
    }
    for cid in state.undeleted_vms() {
        plan.push(Step::DeleteVm { cid: cid.to_owned() }, "the environment is deleted");
    }
    for disk in &state.disks {
        plan.push(Step::DeleteDisk { cid: disk.cid.clone() }, "the environment is deleted");
    }
    let mut cids = BTreeSet::new();
    for stemcell in &state.stemcells {
        // Other tools may have recorded one stemcell of the IaaS under two versions.
        if cids.insert(&stemcell.cid) {
            plan.push(Step::DeleteStemcell { cid: stemcell.cid.clone() }, "the environment is deleted");
        }
    }
    plan
}
