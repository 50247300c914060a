//! `cloud-check`: detects and repairs changes made outside the program.

use serde_json::{Value, json};

use super::{document, run};
use crate::support::hello::Hello;
use crate::support::pty::Pty;
use crate::support::scripted::{Script, Speaks};

fn cid(hello: &Hello) -> (Value, Value) {
    let state = hello.state();
    (state["current_vm_cid"].clone(), state["disks"][0]["cid"].clone())
}

fn kinds(problems: &Value) -> Vec<&str> {
    problems.as_array().unwrap().iter().map(|problem| problem["kind"].as_str().unwrap()).collect()
}

const QUICK: [&str; 2] = ["--agent-timeout", "500ms"];

#[test]
fn where_nothing_is_wrong_nothing_is_done() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.requests();
    let before = hello.state();
    let told = run(&hello, "cck", &["--auto"]).success();
    assert_eq!(told.stdout, "No problem found with VM, agent and disks.\n");
    assert_eq!(Hello::methods(&hello.requests()), ["info", "has_vm", "has_disk", "get_disks"]);
    assert_eq!(hello.state(), before);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn a_disk_that_the_agent_has_mounted_is_attached_whatever_the_cpi_says() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let before = hello.state();
    // Some CPIs never implemented `get_disks`.
    hello.answer("get_disks", "instead", r#"{"result": [], "error": null, "log": ""}"#);
    hello.requests();
    let told = run(&hello, "cck", &["--auto"]).success();
    assert_eq!(told.stdout, "No problem found with VM, agent and disks.\n");
    assert_eq!(Hello::methods(&hello.requests()), ["info", "has_vm", "has_disk", "get_disks"]);

    // The CPI denies the disk, too. Its record stays, and no repair is offered.
    hello.answer("has_disk", "instead", r#"{"result": false, "error": null, "log": ""}"#);
    let more = ["--resolution", "delete_disk_reference", "--json"];
    let problems = document(&run(&hello, "cck", &more).failure(6));
    assert_eq!(kinds(&problems), ["contradiction"]);
    assert_eq!((&problems[0]["repairs"], &problems[0]["tried"]), (&json!([]), &json!([])));
    assert_eq!(hello.state(), before);
    hello.answer_truly();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn a_dead_vm_is_rebooted_and_its_disk_attached_again() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask().1, 1);
    let (vm, disk) = cid(&hello);
    hello.kill_vm();
    hello.call("detach_disk", json!([vm, disk]));
    hello.requests();

    // Without a terminal nothing is done unless flags ask for it.
    let told = run(&hello, "cloud-check", &[&["--report", "--json"][..], &QUICK].concat()).failure(6);
    let findings = document(&told);
    let drifted = findings.as_array().unwrap().iter().find(|one| one["status"] == "drifted").unwrap();
    assert_eq!((&drifted["what"], &drifted["problem"]), (&json!("agent"), &json!("unresponsive_agent")));
    assert_eq!(drifted["repairs"], json!(["reboot_vm", "recreate_vm"]));
    for more in [&["--json"][..], &["-n", "--json"]] {
        let told = run(&hello, "cloud-check", &[more, &QUICK].concat()).failure(6);
        let problems = document(&told);
        assert_eq!(kinds(&problems), ["unresponsive_agent"], "a dead agent hides what its disk is at");
        assert_eq!(problems[0]["repairs"], json!(["reboot_vm", "recreate_vm"]));
        assert_eq!(problems[0]["solved"], false);
    }
    let changes = ["reboot_vm", "create_vm", "attach_disk", "delete_vm"];
    assert!(!Hello::methods(&hello.requests()).iter().any(|method| changes.contains(method)));

    let told = run(&hello, "cloud-check", &[&["--auto", "--json"][..], &QUICK].concat()).success();
    let problems = document(&told);
    assert_eq!(kinds(&problems), ["unresponsive_agent", "detached_disk"]);
    for problem in problems.as_array().unwrap() {
        assert_eq!(problem["solved"], true, "{problem}");
    }
    assert_eq!(problems[0]["tried"], json!([{"repair": "reboot_vm", "error": null}]));
    assert_eq!(problems[1]["tried"], json!([{"repair": "reattach_disk", "error": null}]));
    assert_eq!(cid(&hello), (vm, disk), "it is the same VM");
    assert_eq!(hello.ask().1, 2, "the data are the same");
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn a_reboot_that_fails_is_followed_by_a_new_vm() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask().1, 1);
    let before = cid(&hello);
    hello.kill_vm();
    let unable = "Bosh::Clouds::NotSupported";
    hello.script(Script::speaking(Speaks::Local).fail("reboot_vm", 9, unable, false));
    let told = run(&hello, "cloud-check", &[&["--auto"][..], &QUICK].concat()).success();
    assert!(told.stdout.contains("repaired by reboot_vm, then recreate_vm"), "{}", told.stdout);
    assert!(told.stderr.contains("repair 'reboot_vm' failed: "), "{}", told.stderr);
    assert_ne!(cid(&hello).0, before.0);
    assert_eq!(hello.ask().1, 2);
    hello.script(Script::speaking(Speaks::Local));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn a_lost_disk_is_forgotten_only_when_that_is_said() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask().1, 1);
    let (vm, disk) = cid(&hello);
    hello.call("delete_vm", json!([vm]));
    hello.call("delete_disk", json!([disk]));
    let before = hello.state();

    // A new VM could not have the disk on record, so it is not created.
    let told = run(&hello, "cloud-check", &["--auto", "--json"]).failure(6);
    let problems = document(&told);
    assert_eq!(kinds(&problems), ["missing_disk", "missing_vm"]);
    assert_eq!((&problems[0]["tried"], &problems[1]["tried"]), (&json!([]), &json!([])));
    assert_eq!(hello.state(), before);

    let more = ["--resolution", "delete_disk_reference", "--resolution", "recreate_vm", "--json"];
    let told = run(&hello, "cloud-check", &more).success();
    let problems = document(&told);
    assert_eq!(problems[1]["tried"], json!([{"repair": "recreate_vm", "error": null}]));
    assert_eq!(hello.ask().1, 1, "the disk is a new one");
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn at_a_terminal_each_repair_is_asked_for() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.kill_vm();
    let mut pty = Pty::start(hello.command("cloud-check", &QUICK), (80, 24));
    pty.wait_for("the offer of a reboot", |screen| screen.ends_with("[y/N]"));
    pty.press("n");
    pty.wait_for("the offer of a new VM", |screen| screen.ends_with("[y/N]") && screen.contains("? no\n"));
    // Each question takes several lines, and is shown once.
    assert_eq!(pty.text().matches("https://").count(), 2, "{}", pty.text());
    pty.press("y");
    assert_eq!(pty.end(), 0, "{}", pty.text());
    assert!(pty.text().contains("repaired by recreate_vm"), "{}", pty.text());
    assert_eq!(hello.ask().1, 1);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn lost_directories_of_the_built_in_cpi_are_reported_and_replaced() {
    let hello = Hello::new();
    hello.create(&[]).success();
    assert_eq!(hello.ask().1, 1);
    let (vm, disk) = cid(&hello);
    // The VM's processes stay, and the data of its disk is in its directory.
    std::fs::remove_dir_all(hello.world.path(format!("cloud/vms/{}", vm.as_str().unwrap()))).unwrap();
    let problems = document(&run(&hello, "cck", &["--auto", "--json"]).failure(6));
    assert_eq!(kinds(&problems), ["missing_disk", "missing_vm"]);
    assert_eq!((&problems[0]["tried"], &problems[1]["tried"]), (&json!([]), &json!([])));

    let more = ["--resolution", "delete_disk_reference", "--resolution", "recreate_vm", "--json"];
    let problems = document(&run(&hello, "cloud-check", &more).success());
    assert_eq!(problems[1]["tried"], json!([{"repair": "recreate_vm", "error": null}]));
    assert_eq!(hello.ask().1, 1, "the disk is a new one");
    hello.call("delete_disk", json!([disk]));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn a_new_vm_that_cannot_be_made_is_no_repair() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.kill_vm();
    hello.script(Script::speaking(Speaks::Local).fail("reboot_vm", 9, "Busy", false).fail(
        "create_vm",
        9,
        "Bosh::Clouds::VMCreationFailed",
        false,
    ));
    let told = run(&hello, "cloud-check", &[&["--auto"][..], &QUICK].concat()).failure(6);
    assert!(told.stdout.contains("not solved by reboot_vm, then recreate_vm"), "{}", told.stdout);
    hello.script(Script::speaking(Speaks::Local));
    hello.forget_suspects();
    hello.create(&[]).success();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
