//! CPIs that restart or recreate the VM to attach a disk.

use std::process::Stdio;

use serde_json::json;

use crate::support::hello::Hello;
use crate::support::process::{WaitForEnd, lines, receive};
use crate::support::scripted::{Interruption, Script};

#[test]
fn waits_for_a_vm_that_restarts_to_attach_a_disk() {
    let hello = Hello::new();
    // The sixth call is `attach_disk`.
    hello.set_script(Script::with_interruption(6, Interruption::HoldAfterEffect));
    let mut command = hello.command("create-env", &[]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let output = lines(child.stdout.take().unwrap());
    hello.wait_until_held();
    assert_eq!(hello.calls("attach_disk"), 1);
    hello.kill_vm();
    hello.release_call();
    let is_said = |line: &String| line.contains("Waiting for the agent: the CPI has restarted");
    let mut output = std::iter::from_fn(|| receive("the next line", &output));
    assert!(output.any(|line| is_said(&line)), "nothing is said");
    let vms = std::fs::read_dir(hello.world.path("cloud/vms")).unwrap();
    for vm in vms {
        hello.call("reboot_vm", json!([vm.unwrap().file_name().to_str().unwrap()]));
    }
    let rest: Vec<String> = output.collect();
    assert!(child.end().success(), "{rest:?}");
    assert!(rest.iter().any(is_said), "its end is not shown: {rest:?}");
    assert_eq!(hello.ask_counter(), 1);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
