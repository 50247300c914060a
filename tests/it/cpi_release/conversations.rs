//! Every lifecycle with a CPI from a release and the built-in agent, with all requests and messages.

use super::setup::{Env, Machine};
use super::traffic::{Conversation, Traffic};
use crate::support::Run;
use crate::support::hello::Hello;
use crate::support::keys::Certificate;

/// An environment whose traffic is recorded.
struct Stage {
    machine: Machine,
    env: Env,
    traffic: Traffic,
}

impl Stage {
    /// Creates an environment that is not deployed.
    fn new() -> Stage {
        let machine = Machine::new();
        let mut env = Env::new(&machine, &machine.release());
        // Packages are compiled one by one, so that the order of messages is the same in every run.
        env.options = vec!["--parallel".into(), "1".into()];
        let traffic = Traffic::of(&mut env);
        Stage { machine, env, traffic }
    }

    fn create(&self, extra_args: &[&str]) -> Conversation {
        self.env.create(extra_args).success();
        self.traffic.take()
    }

    fn run(&self, command: &str, extra_args: &[&str]) -> Run {
        self.env.hello.world.finish(self.env.command(command, extra_args))
    }

    fn delete(&self) -> Conversation {
        self.env.delete(&[]).success();
        assert_eq!(self.env.hello.leftovers(), Vec::<String>::new());
        self.traffic.take()
    }

    /// Replaces the drain script of the job.
    fn set_drain_script(&self, script: &str) {
        let path = "hello/release/jobs/hello/templates/drain.erb";
        self.env.hello.world.write(path, format!("#!/bin/bash\n{script}\n"));
    }

    fn counter(&self) -> u64 {
        self.env.hello.ask_counter()
    }
}

macro_rules! snapshot {
    ($name:literal, $stage:expr, $conversation:expr) => {
        insta::assert_snapshot!($name, $conversation.text(&$stage.env))
    };
}

#[test]
fn conversation_of_create_change_recreate_and_delete() {
    let mut stage = Stage::new();
    let conversation = stage.create(&[]);
    snapshot!("created", stage, conversation);
    assert_eq!((conversation.count("compile_package"), stage.machine.compiled_packages().len()), (2, 4));
    assert_eq!(stage.counter(), 1);

    snapshot!("unchanged", stage, stage.create(&[]));

    let property = "{type: replace, path: /instance_groups/0/jobs/0/properties/greeting?, value: Ahoy}";
    let tags = "{type: replace, path: /tags?, value: {team: blue, cost_center: \"17\"}}";
    stage.env.hello.add_ops("change.yml", &format!("- {property}\n- {tags}\n"));
    let conversation = stage.create(&[]);
    snapshot!("changed", stage, conversation);
    assert_eq!(stage.env.hello.ask_greeting_and_counter(), ("Ahoy".to_owned(), 2));

    let conversation = stage.create(&["--recreate"]);
    snapshot!("recreated", stage, conversation);
    assert_eq!((conversation.count("compile_package"), stage.machine.compiled_packages().len()), (0, 4));
    assert_eq!(stage.counter(), 3);

    let conversation = stage.create(&["--recreate", "--skip-drain"]);
    snapshot!("recreated_without_drain", stage, conversation);

    snapshot!("deleted", stage, stage.delete());
    assert_eq!(stage.machine.compiled_packages().len(), 4);
}

#[test]
fn conversation_of_disk_changes() {
    let mut stage = Stage::new();
    stage.create(&[]);
    assert_eq!(stage.counter(), 1);

    stage.env.hello.add_ops("size.yml", "- {type: replace, path: /disk_pools/0/disk_size, value: 2048}\n");
    snapshot!("disk_size", stage, stage.create(&[]));
    assert_eq!(stage.counter(), 2);

    let properties = "- {type: replace, path: /disk_pools/0/cloud_properties?, value: {type: ssd}}\n";
    stage.env.hello.add_ops("properties.yml", properties);
    snapshot!("disk_cloud_properties", stage, stage.create(&[]));
    assert_eq!(stage.counter(), 3);

    snapshot!("disk_recreated", stage, stage.create(&["--recreate-persistent-disks"]));
    assert_eq!(stage.counter(), 4);
    stage.delete();
}

#[test]
fn conversation_of_stop_and_start() {
    let stage = Stage::new();
    stage.create(&[]);
    stage.run("stop-env", &[]).success();
    snapshot!("stopped", stage, stage.traffic.take());
    stage.run("start-env", &[]).success();
    snapshot!("started", stage, stage.traffic.take());
    stage.run("stop-env", &["--skip-drain"]).success();
    snapshot!("stopped_without_drain", stage, stage.traffic.take());
    stage.delete();
}

#[test]
fn conversation_of_a_drain() {
    let stage = Stage::new();
    stage.set_drain_script("echo 1");
    stage.create(&[]);
    stage.run("stop-env", &[]).success();
    snapshot!("drained_static", stage, stage.traffic.take());

    stage.set_drain_script("[ $1 = job_check_status ] && echo 0 || echo -1");
    stage.create(&[]);
    stage.run("stop-env", &[]).success();
    snapshot!("drained_dynamic", stage, stage.traffic.take());

    stage.set_drain_script("sleep 200");
    stage.create(&[]);
    let run = stage.run("stop-env", &["--drain-timeout", "500ms"]).success();
    assert!(run.stderr.contains("(--drain-timeout): stopping them anyway"), "{}", run.stderr);
    snapshot!("drained_until_the_deadline", stage, stage.traffic.take());
    stage.env.delete(&["--skip-drain"]).success();
}

/// Returns the traffic and the error of a `create-env` that cannot reach the agent.
fn deploy_without_answers(fault: &str) -> String {
    let mut stage = Stage::new();
    let hello = &mut stage.env.hello;
    let ip = hello.ip().to_owned();
    let certify = |hello: &Hello, host| {
        hello.write_vars_store(&Certificate { host, days: (-1, 365), is_trusted: true })
    };
    let mut address = |host: &str| {
        let url = format!("https://mbus:((mbus_bootstrap_password))@{host}");
        hello.add_ops(
            "agent.yml",
            &format!("- {{type: replace, path: /cloud_provider/mbus, value: '{url}'}}\n"),
        );
    };
    match fault {
        "dns" => {
            address("agent.invalid:6868");
            certify(hello, "agent.invalid");
        }
        "tcp" => address(&format!("{ip}:6870")),
        // The agent presents a certificate of the previous CA.
        _ => certify(hello, &ip),
    }
    // The stage's agent listens before the VM is created.
    let run = stage.env.create(&["--agent-timeout", "500ms", "--ignore-untracked-vm"]).exits_with(5);
    let traffic = stage.traffic.take().text(&stage.env);
    // The VM is on record, and is deleted.
    assert_eq!(stage.env.hello.state()["disks"].as_array().map_or(0, Vec::len), 0);
    stage.env.delete(&["--agent-timeout", "200ms"]).success();
    assert_eq!(stage.env.hello.leftovers(), Vec::<String>::new());
    let error = run.stderr.split_once("error: ").unwrap().1;
    // The resolver's message depends on the machine.
    let error = regex::Regex::new(r"\(DNS\): .*").unwrap().replace(error, "(DNS): <problem>");
    format!("{traffic}---\n{}", stage.env.hello.normalise(&error))
}

#[test]
fn conversation_with_a_silent_agent() {
    for fault in ["dns", "tcp", "tls"] {
        insta::assert_snapshot!(format!("agent_{fault}"), deploy_without_answers(fault));
    }
}

#[test]
fn conversation_with_jobs_that_never_run() {
    let mut stage = Stage::new();
    stage
        .env
        .hello
        .add_ops("update.yml", "- {type: replace, path: /update?, value: {update_watch_time: 0-4000}}\n");
    stage.env.hello.world.write(
        "hello/release/jobs/hello/templates/ctl.erb",
        "#!/bin/bash\necho the key does not open >> /var/vcap/sys/log/hello/hello.stderr.log\nexit 1\n",
    );
    let run = stage.env.create(&[]).exits_with(1);
    let traffic = stage.traffic.take().text(&stage.env);
    // The logs are fetched twice, for the warning and for the error, and may be the same.
    let digests = regex::Regex::new("<(sha1|sha512) [34]>").unwrap();
    let traffic = digests.replace_all(&traffic, "<$1 of the logs>");
    let error = run.stderr.split_once("error: ").unwrap().1;
    // The number of retries differs from run to run.
    let times = regex::Regex::new("the key does not open \\([0-9]+ times\\)").unwrap();
    let error = times.replace_all(error, "the key does not open (<n> times)").into_owned();
    insta::assert_snapshot!("jobs_never_run", format!("{traffic}---\n{}", stage.env.hello.normalise(&error)));
    stage.env.delete(&["--skip-drain"]).success();
    assert_eq!(stage.env.hello.leftovers(), Vec::<String>::new());
}
