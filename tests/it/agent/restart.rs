//! State that outlives the agent process, and the state after a VM's boot.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::agent_vm::AgentVm;
use crate::support::process::wait_until;

const MONIT: &str = "check process web with pidfile {base}/sys/run/web/web.pid
  start program \"{base}/jobs/web/bin/ctl start\" stop program \"{base}/jobs/web/bin/ctl stop\" group vcap";
const CTL: &str = "#!/bin/bash
pidfile={base}/sys/run/web/web.pid
case $1 in
  start) setsid sleep 1000 >/dev/null 2>&1 & echo $! > $pidfile ;;
  stop) kill $(cat $pidfile); rm $pidfile ;;
esac
";

fn with_running_job(vm: &AgentVm) -> i32 {
    let disk = vm.directory.path().join("dev/disk-1");
    std::fs::create_dir_all(&disk).unwrap();
    vm.call("add_persistent_disk", json!(["disk-1", {"path": disk}])).unwrap();
    vm.call("mount_disk", json!(["disk-1"])).unwrap();
    vm.apply(&[("web", &[("monit", MONIT), ("bin/ctl", CTL)])], json!({})).unwrap();
    vm.call("start", json!([])).unwrap();
    vm.wait_for("running");
    vm.pid("web")
}

#[test]
fn next_agent_supervises_running_jobs() {
    let mut vm = AgentVm::new();
    let pid = with_running_job(&vm);
    let spec = vm.state();
    for signal in [Signal::TERM, Signal::KILL] {
        let duration = vm.end_agent(signal);
        assert!(duration < Duration::from_secs(10), "{duration:?}");
        vm.start_agent(false);
        vm.wait_for("running");
        assert_eq!(vm.pid("web"), pid, "the job was not touched");
        assert_eq!(vm.state()["configuration_hash"], spec["configuration_hash"]);
    }
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    vm.wait_for("running");
    assert_ne!(vm.pid("web"), pid);
    vm.call("stop", json!([])).unwrap();
    vm.end_agent(Signal::TERM);
    vm.start_agent(false);
    assert_eq!(vm.state()["job_state"], "stopped");
    std::thread::sleep(Duration::from_millis(300));
    assert!(!vm.base().join("sys/run/web/web.pid").exists(), "a stopped job stays stopped");
}

#[test]
fn next_agent_does_not_restart_drained_jobs() {
    let mut vm = AgentVm::new();
    let pid = with_running_job(&vm);
    vm.call("drain", json!(["shutdown", {}])).unwrap();
    vm.end_agent(Signal::KILL);
    vm.start_agent(false);
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(vm.state()["processes"][0]["state"], "unknown");
    assert_eq!(vm.pid("web"), pid);
}

#[test]
fn boot_mounts_the_disk_and_starts_the_jobs() {
    let mut vm = AgentVm::new();
    let pid = with_running_job(&vm);
    vm.end_agent(Signal::KILL);
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    // After a boot, another process may have the PID in an old PID file.
    let stranger = std::process::id();
    std::fs::write(vm.base().join("sys/run/web/web.pid"), stranger.to_string()).unwrap();
    vm.start_agent(true);
    vm.wait_for("running");
    let new = vm.pid("web");
    assert!(new != pid && new != i32::try_from(stranger).unwrap());
    assert_eq!(vm.call("list_disk", json!([])), Ok(json!(["disk-1"])));
}

#[test]
fn boot_without_the_disk_starts_no_jobs() {
    let mut vm = AgentVm::new();
    let pid = with_running_job(&vm);
    vm.end_agent(Signal::KILL);
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    std::fs::remove_dir_all(vm.directory.path().join("dev")).unwrap();
    vm.start_agent(true);
    assert_eq!(vm.call("list_disk", json!([])), Ok(json!([])));
    assert!(vm.log().contains("mounting the persistent disk failed"), "{}", vm.log());
    // The jobs do not start by themselves on an empty store either.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(vm.state()["job_state"], "failing");
    assert!(!vm.base().join("sys/run/web/web.pid").exists());
    let answer = vm.call("unmount_disk", json!(["disk-1"])).unwrap();
    assert_eq!(answer, json!({"message": "Partition of disk 'disk-1' is not mounted"}));
}

#[test]
fn tasks_end_with_their_agent() {
    let mut vm = AgentVm::new();
    let pidfile = vm.base().join("sys/run/script.pid");
    let script =
        format!("#!/bin/bash\necho $$ > {0}.new; mv {0}.new {0}; exec sleep 1000", pidfile.display());
    vm.apply(&[("slow", &[("bin/pre-start", &script)])], json!({})).unwrap();
    let task = vm.begin("run_script", json!(["pre-start", {}]));
    wait_until("the script runs", || pidfile.exists());
    vm.end_agent(Signal::TERM);
    let pid = std::fs::read_to_string(&pidfile).unwrap();
    let start = std::time::Instant::now();
    while std::path::Path::new(&format!("/proc/{}", pid.trim())).exists() {
        assert!(start.elapsed() < Duration::from_secs(20), "the script lives on");
    }
    vm.start_agent(false);
    assert!(vm.finish(&task).unwrap_err().ends_with("could not be found"));
}
