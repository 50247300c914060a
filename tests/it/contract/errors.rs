//! The handling of each type of error, and of missing methods.

use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Reaction, Script};

#[test]
fn every_error_type_has_a_hint_and_is_not_retried() {
    let hello = Hello::new();
    for (error_type, hint) in [
        ("Bosh::Clouds::VMNotFound", "if the VM is gone, create a new one: `"),
        ("Bosh::Clouds::DiskNotFound", "the disk is gone, or the CPI looks in another"),
        ("Bosh::Clouds::StemcellNotFound", "; the next create-env uploads it again"),
        ("Bosh::Clouds::VMCreationFailed", "check the VM's `cloud_properties`"),
        ("Bosh::Clouds::NoDiskSpace", "free space in the IaaS"),
        ("Bosh::Clouds::NotSupported", "compare the `cloud_properties` with"),
        ("Bosh::Clouds::CloudError", "in the IaaS or in the CPI's properties"),
        ("Bosh::Clouds::CpiError", "in the IaaS or in the CPI's properties"),
        ("My::Own::Error", "in the IaaS or in the CPI's properties"),
        ("", "in the IaaS or in the CPI's properties"),
    ] {
        hello.set_script(Script::with_info(InfoAnswer::Local).fail(
            "create_vm",
            usize::MAX,
            error_type,
            false,
        ));
        let run = hello.create(&[]).exits_with(1);
        let error = "error: the CPI's `create_vm` failed: create_vm failed as the script says\n";
        assert!(run.stderr.contains(error), "{error_type}: {}", run.stderr);
        let type_part = if error_type.is_empty() { String::new() } else { format!("type {error_type}, ") };
        let note = format!("note: {type_part}request ID ");
        assert!(run.stderr.contains(&note), "{error_type}: {}", run.stderr);
        assert!(run.stderr.contains(hint), "{error_type}: {}", run.stderr);
        assert_eq!(hello.calls("create_vm"), 1, "{error_type}");
        assert_eq!(hello.cloud(), hello.recorded_cids(), "{error_type}");
        assert!(!hello.world.exists("state.json.journal"), "{error_type}");
    }
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn missing_required_method_is_named() {
    let mut hello = Hello::new();
    let local = || Script::with_info(InfoAnswer::Local);
    let missing = |hello: &Hello, method: &str, dialect: usize, command: &str| {
        let script = local().without_method(method, dialect);
        // A failed deletion does not stop the next one. The stemcell's deletion also fails, because a later
        // case needs the stemcell.
        let deletes_disks = method == "delete_disk";
        hello.set_script(if deletes_disks {
            script.without_method("delete_stemcell", dialect)
        } else {
            script
        });
        let options: &[&str] = if command == "delete-env" { &["-n"] } else { &[] };
        let calls = if deletes_disks { hello.state()["disks"].as_array().unwrap().len() } else { 1 };
        let run = hello.world.finish(hello.command(command, options)).exits_with(1);
        let version_hint = format!("use a version of the CPI that implements `{method}` (");
        assert!(run.stderr.contains(&version_hint), "{method}: {}", run.stderr);
        assert_eq!(hello.calls(method), calls, "{method}");
        assert_eq!(hello.cloud(), hello.recorded_cids(), "{method}");
    };
    for (dialect, method) in ["create_stemcell", "create_vm", "create_disk"].into_iter().enumerate() {
        missing(&hello, method, dialect, "create-env");
    }
    let tolerant = ["set_vm_metadata", "set_disk_metadata", "has_vm"].into_iter().enumerate();
    let script = tolerant.fold(local(), |script, (dialect, method)| script.without_method(method, dialect));
    hello.set_script(script);
    hello.create(&[]).success();
    assert_eq!((hello.calls("set_vm_metadata"), hello.calls("set_disk_metadata")), (1, 1));

    hello.add_ops("disk.yml", "- {type: replace, path: /disk_pools/name=disks/disk_size, value: 512}\n");
    missing(&hello, "attach_disk", 0, "create-env");
    missing(&hello, "detach_disk", 1, "create-env");
    for (dialect, method) in ["delete_vm", "delete_disk", "delete_stemcell"].into_iter().enumerate() {
        missing(&hello, method, dialect, "delete-env");
    }
    hello.set_script(local());
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn unknown_info_error_needs_cpi_api_version_1() {
    let hello = Hello::new();
    let fails = [
        Reaction::Fail { error_type: "X".into(), message: "unknown method info".into(), ok_to_retry: false },
        Reaction::Instead("echo 'cpi.rb:7: undefined method' >&2; exit 1".to_owned()),
    ];
    for reaction in fails {
        hello.set_script(Script::with_info(InfoAnswer::Version(1)).first(
            "info",
            usize::MAX,
            reaction.clone(),
        ));
        for options in [&[][..], &["--cpi-api-version", "2"]] {
            let run = hello.create(options).exits_with(1);
            assert!(run.stderr.contains("--cpi-api-version 1`"), "{}", run.stderr);
            assert!(!hello.world.exists("state.json"));
        }
        hello.take_requests();
        let run = hello.create(&["--cpi-api-version", "1"]).success();
        let output = format!("{}{}", run.stdout, run.stderr);
        assert!(output.contains("continuing with API version 1 and contract v1"), "{output}");
        let requests = hello.take_requests();
        let request = requests.iter().find(|request| request["method"] == "create_vm").unwrap();
        assert_eq!(request["api_version"], 1);
        assert_eq!(hello.state()["monopile"]["vm"]["contract"], "v1");
        hello.delete(&["--cpi-api-version", "1"]).success();
        assert_eq!(hello.leftovers(), Vec::<String>::new());
    }
    // A CPI that cannot be run differs from a CPI without `info`.
    hello.world.write("scripted", "#!/no/such/interpreter\n");
    let run = hello.create(&["--cpi-api-version", "1"]).exits_with(3);
    assert!(
        run.stderr.contains("cannot be run") && !run.stdout.contains("continuing with"),
        "{}",
        run.stderr
    );
}

#[test]
fn debug_property_limits_the_built_in_cpi_version() {
    let mut hello = Hello::new();
    hello.add_ops(
        "debug.yml",
        "- {type: replace, path: '/cloud_provider/cpi/properties?/debug?/cpi/api_version', value: 1}\n",
    );
    let run = hello.world.finish(hello.builtin_command(&["cpi", "info", "--json"], &[])).success();
    let info: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(info["info"]["api_version"], 1, "{info}");
}

#[test]
fn errors_after_create_vm_say_that_the_vm_is_on_record() {
    let hello = Hello::new();
    for (method, outcome) in [
        ("set_vm_metadata", "Created the VM of 'hello/0', then FAILED"),
        ("create_disk", "Created the VM of 'hello/0'\n"),
        ("attach_disk", "FAILED: Attach the new disk"),
        ("set_disk_metadata", "Attached the new disk, then FAILED"),
    ] {
        let cloud_error = "Bosh::Clouds::CloudError";
        hello.set_script(Script::with_info(InfoAnswer::Local).fail(method, 1, cloud_error, false));
        let run = hello.create(&[]).exits_with(1);
        let output = run.stdout + &run.stderr;
        let vm = hello.state()["current_vm_cid"].as_str().unwrap().to_owned();
        let note = format!("note: VM '{vm}' was created and is on record; the next run replaces it");
        for text in [&note, "correct the cause in the IaaS or in the CPI's properties, then run the", outcome]
        {
            assert!(output.contains(text), "{method}: {text}: {output}");
        }
    }
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.forget_suspects();
    hello.create(&[]).success();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn unknown_outcome_is_the_hint_of_commands_that_need_a_vm() {
    let hello = Hello::new();
    let reaction = Reaction::Instead("true".to_owned());
    hello.set_script(Script::with_info(InfoAnswer::Local).first("create_vm", 1, reaction));
    hello.create(&[]).exits_with(1);
    for command in ["status", "stop-env", "start-env", "logs"] {
        let run = hello.world.finish(hello.command(command, &[]));
        let hint = "hint: the outcome of `create_vm` is unknown: ";
        assert!(run.stderr.contains("no VM is on record") && run.stderr.contains(hint), "{}", run.stderr);
        assert!(run.stderr.contains(" --call "), "{command}: {}", run.stderr);
    }
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.create(&["--forget-open-calls"]).success();
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
