//! `create-env` takes the steps that `plan` shows: every kind of change is planned, executed and compared.

use serde_json::Value;

use crate::support::hello::Hello;

const PROPERTIES_PATH: &str = "/instance_groups/name=hello/jobs/name=hello/properties";

/// An environment that changes repeatedly.
struct ChangingEnvironment {
    hello: Hello,
    change_count: usize,
    plan_text: String,
}

impl ChangingEnvironment {
    fn new() -> ChangingEnvironment {
        ChangingEnvironment { hello: Hello::new(), change_count: 0, plan_text: String::new() }
    }

    /// Returns a deployed environment.
    fn create_deployed() -> ChangingEnvironment {
        let environment = ChangingEnvironment::new();
        environment.hello.create(&["-n"]).success();
        environment
    }

    /// Changes the manifest by these operations, then plans and applies the change.
    fn apply_ops(&mut self, kind: &str, ops: &str) {
        self.change_count += 1;
        self.hello.add_ops(&format!("change-{}.yml", self.change_count), ops);
        self.plan_and_apply(kind, &[]);
    }

    /// Plans and applies the current change. Both must have the same steps.
    fn plan_and_apply(&mut self, kind: &str, options: &[&str]) {
        self.hello.take_requests();
        let stored_text_before =
            self.hello.world.exists("state.json").then(|| self.hello.world.read("state.json"));
        let plan =
            self.hello.world.finish(self.hello.command("plan", &[&["--json"], options].concat())).success();
        let text = self.hello.world.finish(self.hello.command("plan", options)).success();
        let stored_text_after =
            self.hello.world.exists("state.json").then(|| self.hello.world.read("state.json"));
        assert_eq!(stored_text_before, stored_text_after, "{kind}: the plan touched the state");
        assert!(self.hello.take_requests().is_empty(), "{kind}: the plan called the CPI");
        let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
        let steps = |values: &mut dyn Iterator<Item = &Value>| -> Vec<(String, String)> {
            values
                .map(|step| (step["step"].as_str().unwrap().into(), step["reason"].as_str().unwrap().into()))
                .collect()
        };
        let planned_steps = steps(&mut plan["steps"].as_array().unwrap().iter());

        let events = self.hello.create(&[&["-n", "--json"], options].concat()).success().json();
        let taken_steps = steps(&mut events.iter().filter(|event| event["event"] == "step_begun"));
        assert_eq!(planned_steps, taken_steps, "{kind}");
        let usual_times = regex::Regex::new(r"(?m)^  Expected.*\n").unwrap();
        let plan_text = usual_times.replace_all(&text.stdout, "").into_owned();
        let cids = regex::Regex::new(r"(vm|disk|stemcell)-[0-9a-f-]{8,}").unwrap();
        let plan_text = cids.replace_all(&plan_text, "$1-…").into_owned();
        self.plan_text.push_str(&format!("== {kind}\n{}\n", self.hello.normalise(&plan_text)));
    }

    fn finish(self, name: &str) {
        insta::assert_snapshot!(name, self.plan_text);
        self.hello.delete(&[]).success();
        assert_eq!(self.hello.leftovers(), Vec::<String>::new());
    }
}

/// A plan may take minutes. During that time, its stages are printed to a pipe, as those of `create-env` are.
#[test]
fn stages_are_printed_to_standard_error_in_a_pipe() {
    let hello = Hello::new();
    for (command, options) in [("plan", &[][..]), ("create-env", &["--dry-run"])] {
        let run = hello.world.finish(hello.command(command, options)).success();
        assert!(run.stdout.starts_with("Plan for "), "{}", run.stdout);
        for line in ["Validating ...\n", "  Rendering job templates: done in ", "\nValidating: done in "] {
            assert!(run.stderr.contains(line), "{line} is not in\n{}", run.stderr);
        }
    }
}

#[test]
fn plan_for_job_changes() {
    let mut environment = ChangingEnvironment::new();
    environment.plan_and_apply("a first deploy", &[]);
    environment.plan_and_apply("nothing", &[]);
    environment.apply_ops(
        "a property is new",
        &format!("- {{type: replace, path: {PROPERTIES_PATH}/greeting?, value: Ahoy}}"),
    );
    environment.apply_ops(
        "a property changes",
        &format!("- {{type: replace, path: {PROPERTIES_PATH}/greeting, value: Hi}}"),
    );
    assert_eq!(environment.hello.ask_greeting(), "Hi");
    environment
        .apply_ops("a property goes", &format!("- {{type: remove, path: {PROPERTIES_PATH}/greeting}}"));
    environment.hello.world.write("secret.yml", "word: open-sesame\n");
    environment.hello.add_ops(
        "vars.yml",
        &format!("- {{type: replace, path: {PROPERTIES_PATH}/greeting?, value: ((word))}}"),
    );
    environment.plan_and_apply("a secret is new", &["--vars-file", "secret.yml"]);
    environment.hello.world.write("secret.yml", "word: open-barley\n");
    environment.plan_and_apply("a secret changes", &["--vars-file", "secret.yml"]);
    assert!(!environment.plan_text.contains("open-"), "{}", environment.plan_text);
    environment.plan_and_apply("a new VM is asked for", &["--vars-file", "secret.yml", "--recreate"]);
    environment.hello.world.write("secret.yml", "word: open-rye\n");
    environment.plan_and_apply(
        "a change by the old habit",
        &["--vars-file", "secret.yml", "--update-strategy", "recreate"],
    );
    environment
        .hello
        .add_ops("no-vars.yml", &format!("- {{type: remove, path: {PROPERTIES_PATH}/greeting}}"));
    environment.plan_and_apply("a secret goes", &[]);
    let greeting = environment.hello.world.read("hello/release/src/greeting/greeting.txt");
    environment.hello.world.write("hello/release/src/greeting/greeting.txt", format!("{greeting}more\n"));
    environment.plan_and_apply("a release has new content", &[]);
    environment.apply_ops(
        "the watch time changes",
        "- {type: replace, path: /update?, value: {update_watch_time: 0-60000}}",
    );
    environment.finish("plan_jobs");
}

#[test]
fn jobs_run_on_if_no_job_changes() {
    let mut environment = ChangingEnvironment::create_deployed();
    let read_service_pid = |environment: &ChangingEnvironment| {
        let pid_files = environment.hello.find("work/cloud", "hello.pid");
        std::fs::read_to_string(&pid_files[0]).unwrap()
    };
    let pid = read_service_pid(&environment);
    environment.apply_ops("tags", "- {type: replace, path: /tags?, value: {team: a}}");
    environment.apply_ops(
        "the watch time",
        "- {type: replace, path: /update?, value: {update_watch_time: 0-60000}}",
    );
    environment.apply_ops(
        "a property that no template reads",
        "- {type: replace, path: /properties?, value: {unused: true}}",
    );
    assert!(!environment.plan_text.contains("in place"), "{}", environment.plan_text);
    assert_eq!(read_service_pid(&environment), pid);

    // Jobs that do not run are started by any update.
    environment.hello.world.finish(environment.hello.command("stop-env", &[])).success();
    environment.apply_ops("tags while the jobs are stopped", "- {type: replace, path: /tags/team, value: b}");
    assert!(environment.hello.answers());
    assert_ne!(read_service_pid(&environment), pid);
    environment.finish("plan_without_job_changes");
}

#[test]
fn plan_for_vm_changes() {
    let mut environment = ChangingEnvironment::create_deployed();
    environment.apply_ops("tags are new", "- {type: replace, path: /tags?, value: {team: a}}");
    environment.apply_ops("tags change", "- {type: replace, path: /tags/team, value: b}");
    environment.apply_ops("tags go", "- {type: remove, path: /tags}");
    environment.apply_ops(
        "a cloud property of the VM",
        "- {type: replace, path: /resource_pools/0/cloud_properties/size?, value: large}",
    );
    environment.apply_ops(
        "the environment of the agent",
        "- {type: replace, path: /resource_pools/0/env/more?, value: 1}",
    );
    environment
        .apply_ops("a network", "- {type: replace, path: /networks/0/subnets/0/dns, value: [127.0.0.53]}");
    environment.apply_ops(
        "what the agent is told",
        "- {type: replace, path: /cloud_provider/properties/ntp?, value: [pool]}",
    );
    environment.apply_ops(
        "the name of the network",
        "- {type: replace, path: /networks/0/name, value: lan}\n\
         - {type: replace, path: /resource_pools/0/network, value: lan}\n\
         - {type: replace, path: /instance_groups/0/networks/0/name, value: lan}",
    );
    environment.finish("plan_vm");
}

#[test]
fn plan_for_disk_and_stemcell_changes() {
    let mut environment = ChangingEnvironment::create_deployed();
    environment.apply_ops("the disk grows", "- {type: replace, path: /disk_pools/0/disk_size, value: 2048}");
    environment.apply_ops(
        "a cloud property of the disk",
        "- {type: replace, path: /disk_pools/0/cloud_properties?, value: {type: ssd}}",
    );
    environment.plan_and_apply("a new disk is asked for", &["--recreate-persistent-disks"]);
    let stemcell = environment.hello.world.read("hello/stemcell/stemcell.MF").replace("\"1.0\"", "\"1.1\"");
    environment.hello.world.write("hello/stemcell/stemcell.MF", stemcell);
    environment.plan_and_apply("a new stemcell", &[]);
    environment.hello.world.write("hello/stemcell/image/etc/monopile-release", "of other content\n");
    environment.plan_and_apply("a stemcell has new content", &[]);
    assert_eq!(environment.hello.ask_counter(), 1, "the counter has come along");
    environment
        .apply_ops("no disk any more", "- {type: remove, path: /instance_groups/0/persistent_disk_pool}");
    environment.apply_ops(
        "nothing but a property",
        &format!("- {{type: replace, path: {PROPERTIES_PATH}/greeting?, value: Ahoy}}"),
    );
    environment.apply_ops(
        "a disk again",
        "- {type: replace, path: /instance_groups/0/persistent_disk_pool?, value: disks}",
    );
    assert_eq!(environment.hello.ask_counter(), 2, "the data was kept");
    environment.finish("plan_disk");
}

/// Changes the script `pre-start` so that it fails or succeeds.
fn set_failing(environment: &mut ChangingEnvironment, fails: bool) {
    let script = "hello/release/jobs/hello/templates/pre-start.erb";
    let text = environment.hello.world.read(script);
    let text =
        if fails { text.replacen('\n', "\nexit 7\n", 1) } else { text.replacen("\nexit 7\n", "\n", 1) };
    environment.hello.world.write(script, text);
}

#[test]
fn failed_in_place_update_is_repaired_in_place_on_request() {
    let mut environment = ChangingEnvironment::create_deployed();
    let vm = environment.hello.state()["current_vm_cid"].clone();
    set_failing(&mut environment, true);
    let run = environment.hello.create(&["-n"]).exits_with(1);
    assert!(
        run.stderr.contains("in place failed") && run.stderr.contains("to go back, restore the manifest"),
        "{}",
        run.stderr
    );
    assert!(!environment.hello.answers());
    // The failed update is reverted.
    set_failing(&mut environment, false);
    environment.plan_and_apply("the way back after a failed update", &["--update-strategy", "in-place"]);
    assert!(environment.hello.answers());
    // This is the same with another changed property.
    set_failing(&mut environment, true);
    environment.hello.create(&["-n"]).exits_with(1);
    set_failing(&mut environment, false);
    environment.hello.add_ops(
        "greeting.yml",
        &format!("- {{type: replace, path: {PROPERTIES_PATH}/greeting?, value: Ahoy}}"),
    );
    environment.plan_and_apply("forward after a failed update", &["--update-strategy", "in-place"]);
    assert_eq!(environment.hello.ask_greeting(), "Ahoy");
    assert_eq!(environment.hello.state()["current_vm_cid"], vm, "no VM was made for that");
    // A template that cannot be rendered has no effect.
    let conf = environment.hello.world.read("hello/release/jobs/hello/templates/hello.conf.erb");
    environment.hello.world.write("hello/release/jobs/hello/templates/hello.conf.erb", "<%= p('nope') %>");
    let run = environment.hello.world.finish(environment.hello.command("plan", &[])).exits_with(3);
    assert!(run.stderr.contains("nope"), "{}", run.stderr);
    environment.hello.create(&["-n"]).exits_with(3);
    assert!(environment.hello.answers());
    environment.hello.world.write("hello/release/jobs/hello/templates/hello.conf.erb", conf);
    environment.finish("plan_repair");
}

#[test]
fn vm_without_jobs_after_a_failed_update_is_replaced() {
    let mut environment = ChangingEnvironment::create_deployed();
    assert_eq!(environment.hello.ask_counter(), 1);
    let vm = environment.hello.state()["current_vm_cid"].clone();
    set_failing(&mut environment, true);
    environment.hello.create(&["-n"]).exits_with(1);
    assert_eq!(environment.hello.state()["monopile"]["vm_of_failed_update"], vm);
    set_failing(&mut environment, false);
    let plan = environment.hello.world.finish(environment.hello.command("plan", &[])).success();
    for text in ["the last update in place failed, and the jobs are 'stopped'", "--update-strategy in-place"]
    {
        assert!(plan.stdout.contains(text), "{text}: {}", plan.stdout);
    }
    environment.hello.create(&["-n"]).success();
    assert_ne!(environment.hello.state()["current_vm_cid"], vm, "the VM is a new one");
    assert_eq!(environment.hello.state()["monopile"].get("vm_of_failed_update"), None);
    assert_eq!(environment.hello.ask_counter(), 2, "the data was kept");

    // If the jobs run after all, the VM stays.
    let mut state = environment.hello.state();
    let vm = state["current_vm_cid"].clone();
    state["monopile"]["vm_of_failed_update"] = vm.clone();
    state["current_manifest_sha"] = "".into();
    environment.hello.world.write("state.json", state.to_string());
    environment.hello.create(&["-n"]).success();
    assert_eq!(environment.hello.state()["current_vm_cid"], vm);
    environment.hello.delete(&[]).success();
    assert_eq!(environment.hello.leftovers(), Vec::<String>::new());
}

#[test]
fn unresponsive_vm_is_replaced_on_change() {
    let mut environment = ChangingEnvironment::create_deployed();
    environment.hello.kill_vm();
    environment.hello.add_ops(
        "greeting.yml",
        &format!("- {{type: replace, path: {PROPERTIES_PATH}/greeting?, value: Ahoy}}"),
    );
    let plan = environment
        .hello
        .world
        .finish(environment.hello.command("plan", &["--detailed-exitcode", "--agent-timeout", "1s"]))
        .exits_with(7);
    assert!(plan.stdout.contains("its agent does not answer"), "{}", plan.stdout);
    assert!(plan.stdout.contains("Stop the jobs on VM '"), "{}", plan.stdout);
    let run = environment.hello.create(&["-n"]).success();
    assert!(run.stdout.contains("Replace the VM: its agent"), "{}", run.stdout);
    assert_eq!(environment.hello.ask_greeting(), "Ahoy");
    let plan =
        environment.hello.world.finish(environment.hello.command("plan", &["--detailed-exitcode"])).success();
    assert!(plan.stdout.contains("Nothing to do"), "{}", plan.stdout);
    environment.hello.kill_vm();
    let plan =
        environment.hello.world.finish(environment.hello.command("create-env", &["--dry-run"])).success();
    assert!(plan.stdout.contains("the agent does not answer (https://"), "{}", plan.stdout);
    assert!(plan.stdout.contains(" cannot be reached: TCP: Connection refused"), "{}", plan.stdout);
    environment.plan_text.clear();
    environment.hello.delete(&[]).success();
}

#[test]
fn saved_plan_is_executed_or_rejected() {
    let mut environment =
        ChangingEnvironment { hello: Hello::without_vars_store(), ..ChangingEnvironment::new() };
    let plan = |environment: &ChangingEnvironment| {
        environment.hello.world.finish(environment.hello.command("plan", &["--out", "plan.json"])).success()
    };
    // Values generated for a plan are discarded, so a run that takes the plan would generate other ones.
    let failed_plan = environment
        .hello
        .world
        .finish(environment.hello.command("plan", &["--out", "plan.json"]))
        .exits_with(3);
    for text in [
        "the plan was not saved to 'plan.json'",
        "have no saved values yet: mbus_bootstrap_password, default_ca, mbus_bootstrap_ssl",
        "`monopile interpolate hello/manifest.yml -o hello/elsewhere.yml",
        "--vars-store creds.yml --path /name`, which prints only the name; then run the same command again",
    ] {
        assert!(failed_plan.stderr.contains(text), "{text}: {}", failed_plan.stderr);
    }
    assert!(failed_plan.stdout.contains("Create a VM"), "{}", failed_plan.stdout);
    assert!(!environment.hello.world.exists("plan.json") && !environment.hello.world.exists("creds.yml"));
    let mut interpolate: Vec<&str> = environment.hello.options();
    let state = interpolate.iter().position(|option| *option == "--state").unwrap();
    interpolate.drain(state..state + 2);
    interpolate.splice(..0, ["interpolate", "hello/manifest.yml", "--path", "/name"]);
    assert_eq!(environment.hello.world.run(interpolate).success().stdout, "hello\n");
    plan(&environment);
    // A run that takes the plan generates nothing, even if a value is lost.
    let values = environment.hello.world.read("creds.yml");
    std::fs::remove_file(environment.hello.world.path("creds.yml")).unwrap();
    let failed_run = environment.hello.create(&["--plan", "plan.json"]).exits_with(3);
    assert!(
        failed_run.stderr.contains("variables have no saved values: mbus_bootstrap_password"),
        "{}",
        failed_run.stderr
    );
    assert!(!environment.hello.world.exists("creds.yml"));
    environment.hello.world.write("creds.yml", values);
    // The keys of builds before the first release are still read.
    let mut text = environment.hello.world.read("plan.json");
    let older_keys = [("inputs", "basis"), ("state_digest", "state"), ("state_name", "place")];
    for (key, older_key) in older_keys {
        let renamed_text = text.replace(&format!("\"{key}\":"), &format!("\"{older_key}\":"));
        assert_ne!(renamed_text, text, "the plan has no {key}");
        text = renamed_text;
    }
    environment.hello.world.write("plan.json", text);
    let run = environment.hello.create(&["--plan", "plan.json"]).success();
    assert!(run.stdout.contains("Create a VM"), "{}", run.stdout);
    environment.hello.add_ops(
        "greeting.yml",
        &format!("- {{type: replace, path: {PROPERTIES_PATH}/greeting?, value: Ahoy}}"),
    );
    plan(&environment);
    let run = environment.hello.create(&["--plan", "plan.json"]).success();
    assert!(run.stdout.contains("Update the VM in place"), "{}", run.stdout);
    assert_eq!(environment.hello.ask_greeting(), "Ahoy");
    let assert_out_of_date = |environment: &ChangingEnvironment, reason: &str| {
        let run = environment.hello.create(&["--plan", "plan.json"]).exits_with(3);
        assert!(run.stderr.contains(reason), "{}", run.stderr);
    };
    assert_out_of_date(&environment, "the plan is outdated: the state changed");
    environment
        .hello
        .add_ops("more.yml", &format!("- {{type: replace, path: {PROPERTIES_PATH}/greeting, value: Hi}}"));
    assert_out_of_date(&environment, "the manifest or a variable differs from that of the plan\n");
    plan(&environment);
    environment
        .hello
        .add_ops("again.yml", &format!("- {{type: replace, path: {PROPERTIES_PATH}/greeting, value: Hey}}"));
    let difference =
        format!("the manifest or a variable differs from that of the plan: {PROPERTIES_PATH}/greeting\n");
    assert_out_of_date(&environment, &difference);
    assert_out_of_date(&environment, "hint: pass the same ops files and variables as for the plan\n");
    plan(&environment);
    // A plan is valid for one state and one deployment.
    let text = environment.hello.world.read("plan.json");
    for (pointer, name, reason) in [
        ("/inputs/state_name", "other-state.json", "the plan is for the state 'other-state.json', not for"),
        ("/deployment", "other", "the plan is for deployment 'other', but the manifest is for"),
    ] {
        let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
        *document.pointer_mut(pointer).unwrap() = name.into();
        environment.hello.world.write("plan.json", document.to_string());
        let run = environment.hello.create(&["--plan", "plan.json"]).exits_with(3);
        assert!(run.stderr.contains(reason), "{}", run.stderr);
    }
    environment.hello.world.write("plan.json", text);
    let greeting = environment.hello.world.read("hello/release/src/greeting/greeting.txt");
    environment.hello.world.write("hello/release/src/greeting/greeting.txt", format!("{greeting}more\n"));
    assert_out_of_date(&environment, "a release changed");
    // The options of the plan belong to the command that applies it.
    let options = ["--recreate", "--snapshot", "--out", "plan.json"];
    let recreation = environment.hello.world.finish(environment.hello.command("plan", &options)).success();
    let command = "--recreate --snapshot --plan plan.json`";
    assert!(recreation.stdout.contains(command), "{}", recreation.stdout);
    let run = environment.hello.create(&["--plan", "plan.json"]).exits_with(3);
    assert!(run.stderr.contains("the plan was made with other options than those"), "{}", run.stderr);
    assert!(run.stderr.contains(command), "{}", run.stderr);
    environment.hello.create(&["--recreate", "--snapshot", "--plan", "plan.json"]).success();
    let mode = std::fs::metadata(environment.hello.world.path("plan.json")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
    environment.hello.world.write("plan.json", "{}");
    let run = environment.hello.create(&["--plan", "plan.json"]).exits_with(3);
    assert!(run.stderr.contains("is not a saved plan"), "{}", run.stderr);
    environment.hello.world.write("plan.json", r#"{"format": 1, "deployment": "hello"}"#);
    let run = environment.hello.create(&["--plan", "plan.json"]).exits_with(3);
    assert!(run.stderr.contains("is not a plan of this version"), "{}", run.stderr);
    environment.hello.world.finish(environment.hello.command("plan", &options)).success();
    let manifest = environment.hello.world.read("hello/manifest.yml");
    let overwriting_command = environment.hello.command("plan", &["--out", "hello/manifest.yml"]);
    let run = environment.hello.world.finish(overwriting_command).exits_with(3);
    assert!(run.stderr.contains("'hello/manifest.yml' exists, and is not a saved plan"), "{}", run.stderr);
    assert_eq!(environment.hello.world.read("hello/manifest.yml"), manifest);
    environment.hello.delete(&[]).success();
}

#[test]
fn credentials_that_the_new_agent_would_refuse_are_an_error() {
    let hello = Hello::new();
    for user in ["mbus:wrong-one@", ""] {
        let url = format!("https://{user}{}:6868", hello.ip());
        let ops = format!("- {{type: replace, path: /cloud_provider/mbus, value: \"{url}\"}}\n");
        hello.world.write("mbus.yml", ops);
        for command in ["plan", "create-env"] {
            let run = hello.world.finish(hello.command(command, &["-o", "mbus.yml"])).exits_with(3);
            let text = ") and `cloud_provider.properties.agent.mbus` have different users or passwords\n";
            assert!(run.stderr.contains("error: `cloud_provider.mbus` (mbus.yml:1:"), "{}", run.stderr);
            assert!(run.stderr.contains(text) && !run.stderr.contains("wrong-one"), "{}", run.stderr);
        }
    }
    assert!(hello.take_requests().is_empty(), "the CPI was called");
}

#[test]
fn plan_warns_of_a_port_on_which_the_agent_will_not_listen() {
    let hello = Hello::new();
    let plan = |mbus: &str, extra_args: &[&str]| {
        let url = format!("https://mbus:((mbus_bootstrap_password))@{mbus}");
        let ops = format!("- {{type: replace, path: /cloud_provider/mbus, value: \"{url}\"}}\n");
        hello.world.write("mbus.yml", ops);
        hello
            .world
            .finish(hello.command("plan", &[&["-o", "mbus.yml"], extra_args].concat()))
            .success()
            .stderr
    };
    let address = |port: &str| format!("{}{port}", hello.ip());
    let warning = plan(&address(":6869"), &[]);
    let text = "has port 6869, but the new VM's agent will listen on port 6868 \
                (`cloud_provider.properties.agent.mbus`): this run reaches it only if port 6869 is forwarded";
    assert!(warning.contains("warning: `cloud_provider.mbus` (mbus.yml:1:"), "{warning}");
    assert!(warning.contains(text), "{warning}");
    let warning = plan(&address(""), &[]);
    assert!(warning.contains(" has port 443 (the default), but the new VM's agent"), "{warning}");
    let is_silent = |output: &str| !output.contains("will listen on port");
    assert!(is_silent(&plan(&address(":6868"), &[])));
    // The agent prefers the URL of its environment.
    hello.world.write(
        "env.yml",
        "- type: replace\n  path: /resource_pools/name=vms/env/bosh/mbus/urls?\n  value: \
         [\"https://mbus:((mbus_bootstrap_password))@0.0.0.0:6869\"]\n",
    );
    assert!(is_silent(&plan(&address(":6869"), &["-o", "env.yml"])));
    let warning = plan(&address(":6868"), &["-o", "env.yml"]);
    assert!(warning.contains(" will listen on port 6869 (`env.bosh.mbus.urls`)"), "{warning}");
}
