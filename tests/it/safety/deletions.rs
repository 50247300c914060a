//! Undeleted resources stay on record and are deleted later. A resource that is already gone is not a
//! failure.

use serde_json::{Value, json};

use crate::support::hello::Hello;

fn new_stemcell(hello: &Hello, version: &str) {
    let text = hello.world.read("hello/stemcell/stemcell.MF");
    hello.world.write("hello/stemcell/stemcell.MF", text.replace("\"1.0\"", &format!("\"{version}\"")));
}

fn undeleted(hello: &Hello) -> Vec<Value> {
    hello.state()["monopile"]["undeleted"].as_array().cloned().unwrap_or_default()
}

fn show_state(hello: &Hello) -> String {
    hello.world.run(["state", "show", "--state", "state.json"]).success().stdout
}

#[test]
fn undeletable_old_stemcell_does_not_fail_the_deploy() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let old = hello.state()["stemcells"][0]["cid"].clone();
    new_stemcell(&hello, "1.1");
    hello.set_answer(
        "delete_stemcell",
        "instead",
        &Hello::error("Bosh::Clouds::CloudError", "the image is busy"),
    );
    let run = hello.create(&[]).success();
    for text in ["the image is busy", "stays on record", "the next run tries again"] {
        assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
    }
    assert_eq!(hello.state()["stemcells"].as_array().unwrap().len(), 2);
    assert_eq!(
        (undeleted(&hello)[0]["cid"].clone(), undeleted(&hello)[0]["kind"].clone()),
        (old, json!("stemcell"))
    );
    assert!(show_state(&hello).contains("the image is busy"));
    assert_eq!(hello.ask_counter(), 1);

    // Every run tries again, even if nothing changed.
    hello.take_requests();
    hello.create(&[]).success();
    assert_eq!(Hello::methods(&hello.take_requests()), ["info", "delete_stemcell"]);
    assert_eq!(undeleted(&hello).len(), 1);
    hello.answer_truly();
    hello.create(&[]).success();
    assert_eq!(Hello::methods(&hello.take_requests()), ["info", "delete_stemcell"]);
    assert_eq!(hello.state()["stemcells"].as_array().unwrap().len(), 1);
    assert!(undeleted(&hello).is_empty());
    hello.take_requests();
    hello.create(&[]).success();
    assert!(hello.take_requests().is_empty());
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn untyped_not_found_is_confirmed_if_possible() {
    let hello = Hello::new();
    hello.create(&[]).success();
    // The deletion failed and the disk exists, so it stays on record.
    hello.set_answer("delete_disk", "instead", &Hello::error("Fog::Error", "no such volume"));
    let run = hello.delete(&[]).exits_with(1);
    for text in [
        "no such volume",
        "note: the CPI contradicts itself: its `has_disk` says that disk '",
        "hint: ask the CPI again: `monopile cpi call hello/manifest.yml ",
        "' stays on record\n",
    ] {
        assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
    }
    assert!(!run.stderr.contains("is gone, or the CPI looks"), "{}", run.stderr);
    let state = hello.state();
    assert_eq!((state["current_vm_cid"].clone(), state["disks"].as_array().unwrap().len()), (json!(""), 1));
    assert!(state["stemcells"].as_array().unwrap().is_empty(), "the rest was deleted");

    // The disk is gone, and only `has_disk` shows it.
    hello.take_requests();
    hello.set_answer("delete_disk", "after", &Hello::error("Fog::Error", "no such volume"));
    let run = hello.delete(&[]).success();
    assert!(run.stdout.contains("the CPI does not find it"), "{}", run.stdout);
    assert_eq!(Hello::methods(&hello.take_requests()), ["info", "delete_disk", "has_disk"]);
    assert!(!hello.world.exists("state.json"));
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn unconfirmed_not_found_stays_on_record() {
    let hello = Hello::new();
    hello.create(&[]).success();
    hello.set_answer("delete_stemcell", "after", &Hello::error("Bosh::Clouds::StemcellNotFound", "no image"));
    let stemcell = hello.state()["stemcells"][0]["cid"].as_str().unwrap().to_owned();
    let run = hello.delete(&[]).success();
    assert!(run.stderr.contains("cannot confirm that it is gone"), "{}", run.stderr);
    let forget = format!(
        "to forget the record: `monopile state forget hello/manifest.yml --state state.json --stemcell \
         {stemcell}`"
    );
    assert!(run.stderr.contains(&forget), "{forget}: {}", run.stderr);
    assert!(run.stdout.contains("stays on record"), "{}", run.stdout);
    assert_eq!(undeleted(&hello)[0]["not_found"], true);
    for file in ["state.json.lock", "state.json.journal"] {
        assert!(!hello.world.exists(file));
    }
    hello.delete(&[]).success();
    assert!(!hello.world.exists("state.json"));
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn vm_not_found_is_replaced_and_searched_again() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let old = hello.state()["current_vm_cid"].clone();
    hello.set_answer("has_vm", "instead", &Hello::error("Bosh::Clouds::NotImplemented", "has_vm"));
    hello.set_answer("delete_vm", "after", &Hello::error("Fog::Compute::Error", "404 Not Found"));
    let run = hello.create(&["--recreate"]).success();
    assert!(run.stderr.contains("cannot confirm that it is gone"), "{}", run.stderr);
    assert_eq!(undeleted(&hello)[0]["cid"], old);
    assert_ne!(hello.state()["current_vm_cid"], old);
    assert!(show_state(&hello).contains(old.as_str().unwrap()));

    hello.take_requests();
    hello.answer_truly();
    hello.create(&[]).success();
    let requests = hello.take_requests();
    assert_eq!(Hello::methods(&requests)[..2], ["info", "delete_vm"]);
    assert_eq!(requests[1]["arguments"][0], old);
    assert!(undeleted(&hello).is_empty());
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn undeletable_vm_is_not_replaced() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let state_before = hello.state();
    hello.set_answer("delete_vm", "instead", &Hello::error("Bosh::Clouds::CloudError", "locked"));
    hello.create(&["--recreate"]).exits_with(1);
    hello.delete(&["--skip-drain"]).exits_with(1);
    assert_eq!(hello.state()["current_vm_cid"], state_before["current_vm_cid"]);
    let requests = hello.take_requests();
    let methods = Hello::methods(&requests);
    assert_eq!(methods.iter().filter(|method| **method == "create_vm").count(), 1);
    assert!(!methods.contains(&"delete_disk"), "{methods:?}");
    hello.answer_truly();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
