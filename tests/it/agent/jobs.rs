//! Packages, jobs, scripts and the supervisor, as create-env uses them.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::json;

use super::agent_vm::{AgentVm, tarball, untar};
use crate::support::process::wait_until;

/// A job whose process sleeps. `{base}` is replaced.
const MONIT: &str = r#"check process NAME
  with pidfile {base}/sys/run/NAME/NAME.pid
  start program "{base}/jobs/NAME/bin/ctl start" with timeout 10 seconds
  stop program "{base}/jobs/NAME/bin/ctl stop"
  if totalmem > 100 Mb then alert
  group vcap
"#;
const CTL: &str = r#"#!/bin/bash
pidfile={base}/sys/run/NAME/NAME.pid
case $1 in
  start) echo start NAME >> {base}/order; exec setsid bash -c "echo \$\$ > $pidfile.new; mv $pidfile.new $pidfile; exec sleep 1000" ;;
  stop) echo stop NAME >> {base}/order; kill $(cat $pidfile); rm -f $pidfile ;;
esac
"#;

fn sleeper(name: &str, extra_lines: &str) -> (String, String) {
    (format!("{}{extra_lines}", MONIT.replace("NAME", name)), CTL.replace("NAME", name))
}

#[test]
fn packages_are_compiled_with_dependencies_and_applied() {
    let vm = AgentVm::new();
    let (source, digest) = vm.upload(&tarball(&[
        (
            "./packaging",
            "set -e\necho $BOSH_PACKAGE_NAME $BOSH_PACKAGE_VERSION > \
            $BOSH_INSTALL_TARGET/name\ncp lib/x $BOSH_INSTALL_TARGET\n[ $PWD = $BOSH_COMPILE_TARGET ]",
        ),
        ("./lib/", ""),
        ("./lib/x", "content of x"),
    ]));
    let base = vm.call("compile_package", json!([source, digest, "base", "fp-1", {}])).unwrap();
    let base = &base["result"];
    let archive =
        vm.request_blob("GET", &format!("/blobs/{}", base["blobstore_id"].as_str().unwrap()), b"").1;
    let files = untar(&archive);
    assert!(
        files.contains(&("./name".into(), "base fp-1\n".into()))
            || files.contains(&("name".into(), "base fp-1\n".into())),
        "{files:?}"
    );

    let dependency = json!({"base": {"name": "base", "version": "fp-1", "sha1": base["sha1"],
        "blobstore_id": base["blobstore_id"]}});
    let (source, digest) = vm.upload(&tarball(&[(
        "packaging",
        &format!("cat {}/packages/base/x > $BOSH_INSTALL_TARGET/y", vm.base().display()),
    )]));
    let top = vm.call("compile_package", json!([source, digest, "top", "fp-2", dependency])).unwrap();
    assert_eq!(
        std::fs::read_dir(vm.base().join("packages")).unwrap().count(),
        0,
        "compilation leaves no links"
    );
    assert_eq!(std::fs::read_dir(vm.base().join("data/compile")).unwrap().count(), 0);

    let top = json!({"name": "top", "version": "fp-2", "sha1": top["result"]["sha1"],
        "blobstore_id": top["result"]["blobstore_id"]});
    let job: &[(&str, &str)] = &[("bin/run", "#!/bin/sh\n"), ("config/x.yml", "x")];
    assert_eq!(vm.apply(&[("web", job)], json!({"top": top})), Ok(json!("applied")));
    let base = vm.base();
    assert_eq!(std::fs::read_to_string(base.join("packages/top/y")).unwrap(), "content of x");
    assert_eq!(std::fs::read_to_string(base.join("jobs/web/packages/top/y")).unwrap(), "content of x");
    assert!(!base.join("packages/base").exists() && !base.join("data/packages/base").exists());
    let mode = |path: &str| std::fs::metadata(base.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("jobs/web/bin/run"), 0o750);
    assert_eq!(mode("jobs/web/config/x.yml"), 0o640);
    assert_eq!(mode("sys/log/web"), 0o770);
    assert_eq!(std::fs::read_to_string(base.join("instance/deployment")).unwrap(), "dep");
    let state = vm.state();
    assert_eq!(state["packages"]["top"]["version"], "fp-2");
    assert_eq!(state["networks"]["default"]["ip"], "127.0.0.1");
    assert_eq!(state["job"]["templates"], json!([{"name": "web", "version": "v1"}]));
}

#[test]
fn jobs_share_the_links_to_packages() {
    let vm = AgentVm::new();
    let base = &vm.base();
    let (blob, digest) = vm.upload(&tarball(&[("file", "content")]));
    let apply = |jobs: usize, packages: usize, version: &str| {
        let names: Vec<String> = (0..jobs).map(|number| format!("job{number}")).collect();
        // The rendered file is in the way of the job's packages.
        let jobs: Vec<_> = names.iter().map(|name| (name.as_str(), &[("packages/x", "")][..])).collect();
        let package = |number| {
            let name = format!("p{number}");
            (name.clone(), json!({"name": name, "version": version, "sha1": digest, "blobstore_id": blob}))
        };
        let packages: serde_json::Map<_, _> = (0..packages).map(package).collect();
        assert_eq!(vm.apply(&jobs, packages.into()), Ok(json!("applied")));
        walkdir::WalkDir::new(base)
            .into_iter()
            .filter(|entry| entry.as_ref().unwrap().path_is_symlink())
            .count()
    };
    let base_count = apply(0, 0, "1");
    // One link to each job and one in it, and two links to each package.
    assert_eq!(apply(3, 5, "1") - base_count, 2 * 3 + 2 * 5);
    assert_eq!(apply(6, 10, "1") - base_count, 2 * 6 + 2 * 10);
    assert_eq!(apply(6, 9, "2") - base_count, 2 * 6 + 2 * 9);
    for job in 0..6 {
        let packages = base.join(format!("jobs/job{job}/packages"));
        assert_eq!(std::fs::read_to_string(packages.join("p8/file")).unwrap(), "content");
        assert_eq!(std::fs::read_dir(packages).unwrap().count(), 9);
    }
}

#[test]
fn apply_without_jobs_sets_networks() {
    let vm = AgentVm::new();
    let spec = |networks| {
        json!([{
            "deployment": "d", "name": "g", "id": "0", "index": 0, "az": "unknown",
            "job": {"name": "g", "templates": []}, "packages": {}, "networks": networks,
            "configuration_hash": "unused-configuration-hash",
            "rendered_templates_archive": {"blobstore_id": "", "sha1": ""},
        }])
    };
    assert_eq!(vm.call("apply", spec(json!({"default": {"type": "dynamic"}}))), Ok(json!("applied")));
    assert_eq!(vm.state()["networks"]["default"]["netmask"], "255.0.0.0");
    let error = vm.call("apply", spec(json!({"other": {"type": "manual"}}))).unwrap_err();
    assert!(
        error.ends_with("Resolving dynamic networks: Network 'other' is not found in settings"),
        "{error}"
    );
    assert_eq!(vm.call("prepare", spec(json!({}))), Ok(json!("prepared")));
    // The next apply removes the half-unpacked directory of a killed agent.
    let scratch = vm.base().join("data/jobs/.unpack-x");
    std::fs::create_dir(&scratch).unwrap();
    std::fs::write(scratch.join("file"), "half").unwrap();
    vm.call("apply", spec(json!({}))).unwrap();
    assert!(!scratch.exists());
}

#[test]
fn rejects_wrong_digests_and_escaping_paths() {
    let vm = AgentVm::new();
    let (id, digest) = vm.upload(&tarball(&[("packaging", "true")]));
    let bad_digest = format!("sha256:{}", "0".repeat(64));
    let error = vm.call("compile_package", json!([id, bad_digest, "p", "1", {}])).unwrap_err();
    assert!(
        error.contains(&format!(
            "Compiling package p: Fetching package p: Checking blob '{id}': Expected \
        stream to have digest '{bad_digest}' but was "
        )),
        "{error}"
    );
    let error = vm.call("compile_package", json!(["gone", digest, "p", "1", {}])).unwrap_err();
    assert!(error.contains("Blob 'gone' not found"), "{error}");
    for name in ["../p", "", "a/b"] {
        assert!(
            vm.call("compile_package", json!([id, digest, name, "1", {}]))
                .unwrap_err()
                .contains("is not a valid name of a package")
        );
    }
    assert!(vm.call("run_script", json!(["../../bin/sh", {}])).is_err());
    let bad = json!({"p": {"name": "p", "version": "1", "sha1": bad_digest, "blobstore_id": id}});
    let error = vm.apply(&[], bad).unwrap_err();
    assert!(error.contains("Applying: Applying package p: Fetching package blob: Checking blob"), "{error}");
    assert!(
        !vm.base().join("data/packages/p").exists()
            || std::fs::read_dir(vm.base().join("data/packages/p")).unwrap().count() == 0
    );
}

#[test]
fn failed_compilation_shows_the_end_of_its_output() {
    let vm = AgentVm::new();
    let script = "for i in $(seq 5000); do echo line $i; done; echo the last word; exit 7";
    let (id, digest) = vm.upload(&tarball(&[("packaging", script)]));
    let task = vm.begin("compile_package", json!([id, digest, "p", "1", {}]));
    let error = vm.finish(&task).unwrap_err();
    let start = format!(
        "Action Failed get_task: Task {task} result: Compiling package p: Running packaging script: Command \
            exited with 7; Truncated stdout: "
    );
    assert!(error.starts_with(&start), "{error:.300}");
    assert!(error.contains("line 5000\nthe last word\n, ") && error.contains("+ exit 7"), "{error}");
    assert!(!error.contains("line 100\n"));
}

#[test]
fn packages_compile_in_parallel() {
    let vm = AgentVm::new();
    let script = |name: &str, other: &str| {
        // Each script waits for the other one, so running them in sequence would never end.
        format!(
            "touch {0}/{name}; while [ ! -e {0}/{other} ]; do sleep 0.01; done",
            vm.directory.path().display()
        )
    };
    let tasks: Vec<_> = [("a", "b"), ("b", "a")]
        .iter()
        .map(|(name, other)| {
            let (id, digest) = vm.upload(&tarball(&[("packaging", &script(name, other))]));
            vm.begin("compile_package", json!([id, digest, name, "1", {}]))
        })
        .collect();
    for task in tasks {
        vm.finish(&task).unwrap();
    }
}

#[test]
fn scripts_run_in_all_jobs_and_failures_name_them() {
    let vm = AgentVm::new();
    let good: &[(&str, &str)] = &[
        ("bin/pre-start", "#!/bin/bash\necho out $EXTRA $PATH; echo err >&2"),
        ("bin/post-start", "#!/bin/sh\n"),
    ];
    let bad: &[(&str, &str)] = &[("bin/post-start", "#!/bin/sh\nexit 3\n")];
    vm.apply(&[("good", good), ("bad", bad), ("none", &[("x", "")])], json!({})).unwrap();
    assert_eq!(vm.call("run_script", json!(["pre-start", {"env": {"EXTRA": "more"}}])), Ok(json!({})));
    let log = |name: &str| std::fs::read_to_string(vm.base().join("sys/log/good").join(name)).unwrap();
    assert_eq!(log("pre-start.stdout.log"), "out more /usr/sbin:/usr/bin:/sbin:/bin\n");
    assert_eq!(log("pre-start.stderr.log"), "err\n");
    let error = vm.call("run_script", json!(["post-start", {}])).unwrap_err();
    assert!(
        error.ends_with("1 of 2 post-start scripts failed. Failed Jobs: bad. Successful Jobs: good."),
        "{error}"
    );
    assert_eq!(vm.call("run_script", json!(["post-deploy", {}])), Ok(json!({})));
    let logs = vm.call("fetch_logs", json!(["job", ["**/*.stdout.log"]])).unwrap();
    let content =
        vm.request_blob("GET", &format!("/blobs/{}", logs["blobstore_id"].as_str().unwrap()), b"").1;
    assert_eq!(
        untar(&content),
        [
            ("bad/post-start.stdout.log".into(), String::new()),
            ("good/post-start.stdout.log".into(), String::new()),
            ("good/pre-start.stdout.log".into(), "out more /usr/sbin:/usr/bin:/sbin:/bin\n".into()),
        ]
    );
    assert!(vm.call("fetch_logs", json!(["other", []])).unwrap_err().contains("Invalid log type"));
}

#[test]
fn cancelling_a_task_ends_all_its_processes() {
    let vm = AgentVm::new();
    let mark = vm.directory.path().join("child");
    let script = format!("#!/bin/bash\nsleep 1000 & echo $! > {}.new; mv {0}.new {0}; wait", mark.display());
    vm.apply(&[("slow", &[("bin/pre-start", &script)])], json!({})).unwrap();
    let task = vm.begin("run_script", json!(["pre-start", {}]));
    wait_until("the script runs", || {
        let state = vm.send("get_task", json!([task]));
        assert_eq!(state, json!({"value": {"agent_task_id": task, "state": "running"}}));
        mark.exists()
    });
    // The agent answers meanwhile, and queued tasks wait.
    assert_eq!(vm.call("ping", json!([])), Ok(json!("pong")));
    let queued_task = vm.begin("run_script", json!(["post-start", {}]));
    let start = Instant::now();
    assert_eq!(vm.send("cancel_task", json!([task])), json!({"value": "canceled"}));
    assert!(vm.finish(&task).unwrap_err().ends_with("Script was cancelled by user request"));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    vm.finish(&queued_task).unwrap();
    let child = std::fs::read_to_string(&mark).unwrap();
    let wait_start = Instant::now();
    while std::fs::read_to_string(format!("/proc/{}/stat", child.trim()))
        .is_ok_and(|stat| !stat.contains(") Z "))
    {
        assert!(wait_start.elapsed() < Duration::from_secs(20), "its child lives");
    }
    assert_eq!(vm.send("cancel_task", json!([task])), json!({"value": "canceled"}));
}

#[test]
fn jobs_are_started_restarted_and_stopped() {
    let vm = AgentVm::new();
    let (monit, ctl) = sleeper("web", "");
    vm.apply(&[("web", &[("monit", &monit), ("bin/ctl", &ctl)])], json!({})).unwrap();
    assert_eq!(vm.call("stop", json!([])), Ok(json!("stopped")));
    assert_eq!(vm.state()["job_state"], "stopped");
    let begin = Instant::now();
    assert_eq!(vm.call("start", json!([])), Ok(json!("started")));
    vm.wait_for("running");
    let duration = begin.elapsed();
    println!("start to running: {duration:?}");
    assert!(duration < Duration::from_secs(8), "{duration:?}");
    let state = vm.state();
    assert_eq!(state["processes"][0]["name"], "web");
    assert_eq!(state["processes"][0]["state"], "running");
    assert!(state["processes"][0]["mem"]["kb"].as_u64().unwrap() > 0);

    let first = vm.pid("web");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(first).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    // The state shows the death at once, without waiting for the supervisor's next cycle.
    while std::fs::read_to_string(format!("/proc/{first}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {}
    assert_eq!(vm.state()["job_state"], "failing");
    vm.wait_for("running");
    assert_ne!(vm.pid("web"), first);

    assert_eq!(vm.call("stop", json!([])), Ok(json!("stopped")));
    assert_eq!(vm.state()["job_state"], "stopped");
    assert_eq!(vm.state()["processes"][0]["state"], "unknown");
    std::thread::sleep(Duration::from_millis(700));
    assert!(!vm.base().join("sys/run/web/web.pid").exists(), "a stopped job stays stopped");
}

#[test]
fn dependencies_start_first_and_stop_last() {
    let vm = AgentVm::new();
    let (db, db_ctl) = sleeper("db", "");
    let (web, web_ctl) = sleeper("web", "  depends on db\n");
    vm.apply(
        &[
            ("web", &[("monit", &web), ("bin/ctl", &web_ctl)]),
            ("db", &[("db.monit", &db), ("bin/ctl", &db_ctl)]),
        ],
        json!({}),
    )
    .unwrap();
    vm.call("start", json!([])).unwrap();
    vm.wait_for("running");
    vm.call("stop", json!([])).unwrap();
    assert_eq!(
        std::fs::read_to_string(vm.base().join("order")).unwrap(),
        "start db\nstart web\nstop web\nstop db\n"
    );
}

#[test]
fn job_that_never_runs_is_failing() {
    let vm = AgentVm::new();
    let monit = "check process p with pidfile {base}/p.pid start program \"{base}/jobs/p/bin/no\" group vcap";
    vm.apply(&[("p", &[("monit", monit), ("bin/no", "#!/bin/sh\nexit 1\n")])], json!({})).unwrap();
    vm.call("start", json!([])).unwrap();
    vm.wait_for("failing");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(vm.state()["job_state"], "failing");
    vm.apply(&[("p", &[("monit", "check process p with pidfile")])], json!({})).unwrap();
    let error = vm.call("start", json!([])).unwrap_err();
    assert!(error.starts_with("Action Failed start: Configuring jobs: 0000_p.monitrc:1: "), "{error}");
}

#[test]
fn drain_scripts_are_polled_until_done() {
    let vm = AgentVm::new();
    let drain = "#!/bin/bash\necho \"$@ $BOSH_JOB_STATE\" >> {base}/calls\n[ $1 = job_check_status ] && echo \
        0 || echo -1\n";
    let (monit, ctl) = sleeper("web", "");
    vm.apply(&[("web", &[("monit", &monit), ("bin/ctl", &ctl), ("bin/drain", drain)])], json!({})).unwrap();
    vm.call("start", json!([])).unwrap();
    vm.wait_for("running");
    let start = Instant::now();
    assert_eq!(vm.call("drain", json!(["shutdown", {}])), Ok(json!(0)));
    assert!(start.elapsed() >= Duration::from_secs(1), "a second was asked for");
    let calls = std::fs::read_to_string(vm.base().join("calls")).unwrap();
    assert_eq!(
        calls,
        "job_shutdown hash_unchanged {\"persistent_disk\":0}\njob_check_status hash_unchanged \
            {\"persistent_disk\":0}\n"
    );
    // A drained process is no longer supervised, but it still runs.
    let state = vm.state();
    assert_eq!(
        (&state["job_state"], &state["processes"][0]["state"]),
        (&json!("failing"), &json!("unknown"))
    );
    assert!(
        vm.call("drain", json!(["status", {}]))
            .unwrap_err()
            .ends_with("Unexpected call with drain type 'status'")
    );
    assert!(vm.call("drain", json!(["update"])).unwrap_err().ends_with("Drain update requires new spec"));
    assert_eq!(vm.call("stop", json!([])), Ok(json!("stopped")));

    let endless = "#!/bin/sh\necho -1000\n";
    vm.apply(&[("web", &[("bin/drain", endless)])], json!({})).unwrap();
    let task = vm.begin("drain", json!(["shutdown", {}]));
    std::thread::sleep(Duration::from_millis(100));
    vm.call("cancel_task", json!([task])).unwrap();
    vm.finish(&task).unwrap_err();
    vm.apply(&[("web", &[("bin/drain", "#!/bin/sh\necho soon\n")])], json!({})).unwrap();
    let error = vm.call("drain", json!(["shutdown"])).unwrap_err();
    assert!(error.ends_with("1 of 1 drain scripts failed. Failed Jobs: web."), "{error}");
}
