//! Events of a machine: processes die, VMs are switched off or rebooted, or all of that happens at once.

use super::process::{WaitForEnd, prepare};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::hello::Hello;
use super::scripted::wait_until;

/// A foreign process with the former PID of one of our processes. It must not get a signal.
pub(crate) struct PidSuccessor(Child);

impl PidSuccessor {
    fn new() -> PidSuccessor {
        let mut sleep = prepare("sleep");
        sleep.arg("1000").env_clear().current_dir("/").process_group(0);
        sleep.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        PidSuccessor(sleep.spawn().unwrap())
    }

    /// Returns true if no signal has ended the process.
    pub(crate) fn is_well(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for PidSuccessor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.stop();
    }
}

/// Returns the PIDs of the VMs' inits.
fn inits(hello: &Hello) -> Vec<i32> {
    let leftovers = hello.world.leftovers();
    let inits = leftovers.iter().filter(|leftover| leftover.contains("vm-boot --stage init"));
    inits.map(|process| process.split(' ').nth(1).unwrap().parse().unwrap()).collect()
}

fn kill(pid: i32) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

/// Kills the agent. Its VM starts it again.
pub(crate) fn kill_agent(hello: &Hello) {
    for init in inits(hello) {
        let children = std::fs::read_to_string(format!("/proc/{init}/task/{init}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let command = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if command.contains("bosh-agent") {
                kill(child.parse().unwrap());
            }
        }
    }
}

/// Reboots the VM.
pub(crate) fn reboot(hello: &Hello) {
    let vms = std::fs::read_dir(hello.world.path("cloud/vms")).into_iter().flatten();
    for vm in vms {
        let cid = vm.unwrap().file_name().into_string().unwrap();
        let answer = hello.try_call("reboot_vm", json!([cid]));
        // While the agent works on a message, the program may continue and delete the VM.
        let error_type = answer["error"]["type"].as_str();
        assert!(error_type.is_none_or(|error_type| error_type == "Bosh::Clouds::VMNotFound"), "{answer}");
    }
}

/// Ends all processes of the program, the CPI and the VM, and gives their recorded PIDs to other processes.
/// This happens in the same boot, or with `has_rebooted` in another boot with equal start times.
pub(crate) fn restart(hello: &Hello, program: &mut Child, has_rebooted: bool) -> PidSuccessor {
    program.kill().unwrap();
    program.end();
    wait_until("all processes are gone", || {
        let leftovers = hello.world.leftovers();
        let mut pids = leftovers
            .iter()
            .filter_map(|leftover| leftover.strip_prefix("process ")?.split(' ').next())
            .peekable();
        let is_done = pids.peek().is_none();
        pids.for_each(|pid| kill(pid.parse().unwrap()));
        is_done
    });
    let successor = PidSuccessor::new();
    let pid = successor.0.id();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start_time: u64 =
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
    for path in hello.find("work/cloud", "process.json") {
        let mut identity: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        identity["pid"] = json!(pid);
        if has_rebooted {
            identity["start_time"] = json!(start_time);
            identity["boot_id"] = json!("another");
        }
        std::fs::write(&path, identity.to_string()).unwrap();
    }
    let lock = hello.world.path("state.json.lock");
    if let Ok(text) = std::fs::read_to_string(&lock)
        && let Ok(mut holder) = serde_json::from_str::<Value>(&text)
    {
        holder["pid"] = json!(pid);
        std::fs::write(&lock, holder.to_string()).unwrap();
    }
    successor
}
