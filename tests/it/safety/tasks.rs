//! Work of the agent that outlives a run, or the agent's own answer.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::hello::Hello;
use crate::support::process::WaitForEnd;
use crate::support::proxy::{Exchange, Listener};
use crate::support::scripted::wait_until;

/// The messages so far, and the task that is reported as running.
#[derive(Default)]
struct SlowState {
    names: Vec<String>,
    task: Option<String>,
    /// The number of answers that still name a running process.
    remaining_answers: usize,
}

/// An agent whose `migrate_disk` never ends while the task is set, and whose stopped processes linger.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<SlowState>>);

impl Listener for Slow {
    fn replace(&self, exchange: &Exchange) -> Option<Value> {
        let mut state = self.0.lock().unwrap();
        let task = exchange.answer["value"]["agent_task_id"].as_str();
        if exchange.name() == "migrate_disk" {
            state.task = task.map(str::to_owned);
        }
        if exchange.name() == "get_task" && state.task.as_deref() == exchange.message["arguments"][0].as_str()
        {
            return Some(json!({"value": {"agent_task_id": state.task, "state": "running"}}));
        }
        if exchange.name() == "get_state"
            && state.remaining_answers > 0
            && state.names.iter().any(|name| name == "stop")
        {
            state.remaining_answers -= 1;
            let mut answer = exchange.answer.clone();
            answer["value"]["processes"] = json!([{"name": "hello", "state": "running"}]);
            return Some(answer);
        }
        None
    }

    fn hear_answer(&self, _asked: usize, exchange: Exchange) {
        self.0.lock().unwrap().names.push(exchange.name());
    }
}

#[test]
fn next_run_waits_for_a_running_task() {
    let mut hello = Hello::new();
    let slow = Slow::default();
    let _proxy = hello.proxy_agent_with(slow.clone());
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    hello.add_ops("disk.yml", "- {type: replace, path: /disk_pools/name=disks/disk_size, value: 512}\n");
    let spawn = || {
        let mut command = hello.command("create-env", &[]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut first = spawn();
    wait_until("the task is on record", || {
        hello.state()["monopile"]["agent_task"]["method"] == "migrate_disk"
    });
    first.kill().unwrap();
    first.end();

    slow.0.lock().unwrap().names.clear();
    let mut second = spawn();
    let names = || slow.0.lock().unwrap().names.clone();
    wait_until("the next run asks for the task", || {
        names().iter().filter(|name| *name == "get_task").count() > 3
    });
    for name in ["drain", "run_script", "stop", "unmount_disk"] {
        assert!(!names().iter().any(|method| method == name), "{name}: {:?}", names());
    }
    slow.0.lock().unwrap().task = None;
    // The new VM migrates again, from the old disk.
    wait_until("the copy begins again", || names().iter().any(|name| name == "migrate_disk"));
    slow.0.lock().unwrap().task = None;
    assert!(second.end().success());
    assert_eq!(hello.state()["monopile"].get("agent_task"), None);
    assert_eq!(hello.ask_counter(), 2, "the data was kept");
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
    // The killed run could not remove its scratch directory.
    let mut leftovers = hello.leftovers();
    leftovers.retain(|leftover| !leftover.contains("/tmp/monopile-"));
    assert_eq!(leftovers, Vec::<String>::new());
}

#[test]
fn in_place_update_waits_for_stopped_jobs() {
    let mut hello = Hello::new();
    let slow = Slow::default();
    let _proxy = hello.proxy_agent_with(slow.clone());
    hello.create(&[]).success();
    let greeting = "/instance_groups/name=hello/jobs/name=hello/properties/greeting?";
    hello.add_ops("greeting.yml", &format!("- {{type: replace, path: {greeting}, value: Ahoy}}"));
    *slow.0.lock().unwrap() = SlowState { remaining_answers: 4, ..SlowState::default() };
    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("Waiting for the stopped jobs"), "{}", run.stdout);
    let names = slow.0.lock().unwrap().names.clone();
    let position_of = |message: &str| names.iter().position(|name| name == message).unwrap();
    let query_count =
        names[position_of("stop")..position_of("apply")].iter().filter(|name| *name == "get_state").count();
    assert_eq!(query_count, 5, "{names:?}");
    assert_eq!(hello.ask_greeting(), "Ahoy");
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
