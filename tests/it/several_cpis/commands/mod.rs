//! The commands on single stemcells, VMs, disks and snapshots, with several CPIs at once.

mod cpis;
mod disks;
mod snapshots;
mod stemcells;
mod vms;

use serde_json::Value;

use super::Clouds;
use crate::support::Run;

impl Clouds {
    /// Returns a command on the environment.
    fn run(&self, command: &str, extra_args: &[&str]) -> Run {
        self.hello.world.finish(self.command(command, "z-east", extra_args))
    }

    /// Returns the JSON of a list.
    #[track_caller]
    fn list(&self, command: &str) -> Vec<Value> {
        let run = self.hello.world.run([command, "--state", "state.json", "--json"]).success();
        serde_json::from_str::<Value>(&run.stdout).unwrap().as_array().unwrap().clone()
    }

    /// Returns the only resource of a kind in a cloud.
    #[track_caller]
    fn only_resource(&self, cloud: &str, kind: &str) -> String {
        let all = self.resources(cloud, kind);
        assert_eq!(all.len(), 1, "{cloud}: {all:?}");
        all.into_iter().next().unwrap()
    }
}
