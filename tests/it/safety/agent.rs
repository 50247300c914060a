//! A dead agent, a missing VM, and an agent that cannot be verified.

use crate::support::hello::Hello;

#[test]
fn dead_environment_is_not_reported_unchanged() {
    let mut hello = Hello::new();
    let proxy = hello.proxy_agent();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    hello.take_requests();
    proxy.take();

    // A healthy agent gets one message, and no CPI process starts.
    let run = hello.create(&[]).success();
    assert!(
        run.stdout.contains("Nothing to do") && run.stdout.contains("the agent answers"),
        "{}",
        run.stdout
    );
    let messages: Vec<String> = proxy.take().iter().map(|exchange| exchange.name()).collect();
    assert_eq!(messages, ["get_state"]);
    // Scripts may still use the older name.
    for option in ["--skip-agent-check", "--no-verify"] {
        let run = hello.create(&[option]).success();
        assert!(run.stdout.contains("Nothing to do"), "{}", run.stdout);
        assert!(proxy.take().is_empty() && hello.take_requests().is_empty(), "{option}");
    }

    // Stopped jobs are reported, but are not a failure.
    hello.world.finish(hello.command("stop-env", &[])).success();
    let run = hello.create(&[]).success();
    let summary =
        "The manifest is as deployed, but the jobs are stopped. To start them: `monopile start-env ";
    assert!(run.stdout.contains(summary) && run.stderr.is_empty(), "{run:?}");
    hello.world.finish(hello.command("start-env", &[])).success();

    // The VM exists, and its agent is dead.
    hello.kill_vm();
    let state_before = hello.state();
    let plan = hello.world.finish(hello.command("plan", &[])).success().stdout;
    for text in [
        "Nothing changed in the manifest, but the agent does not answer (https://",
        "If the VM exists, create-env fails and changes nothing\n",
        "To see whether it exists: `monopile status hello/manifest.yml ",
    ] {
        assert!(plan.contains(text), "{text}: {plan}");
    }
    let run = hello.create(&[]).exits_with(5);
    for text in [
        "nothing changed since the last deploy, but the agent of VM",
        "cannot be reached",
        "--recreate",
        "--skip-agent-check",
    ] {
        assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
    }
    assert_eq!(Hello::methods(&hello.take_requests()), ["info", "has_vm"]);
    assert_eq!(hello.state(), state_before);
    for command in ["stop-env", "start-env"] {
        let run = hello.world.finish(hello.command(command, &["--agent-timeout", "1s"])).exits_with(5);
        assert!(!run.stdout.contains("Succeeded"), "{command}: {}", run.stdout);
        for text in ["the agent of VM 'vm-", "does not answer", "monopile cloud-check "] {
            assert!(run.stderr.contains(text), "{command}: {text}: {}", run.stderr);
        }
    }
    let run =
        hello.world.finish(hello.subcommand(&["state", "verify"], &["--agent-timeout", "1s"])).exits_with(6);
    assert!(run.stdout.contains("agent") && run.stdout.contains("NOT AS RECORDED"), "{}", run.stdout);
    hello.take_requests();

    // A missing VM is replaced.
    hello.call("delete_vm", serde_json::json!([state_before["current_vm_cid"]]));
    let run =
        hello.world.finish(hello.subcommand(&["state", "verify"], &["--agent-timeout", "1s"])).exits_with(6);
    assert!(run.stdout.contains("the CPI does not find it"), "{}", run.stdout);
    hello.take_requests();
    let run = hello.create(&[]).success();
    assert!(run.stderr.contains("the CPI does not find VM '"), "{}", run.stderr);
    assert_eq!(hello.ask_counter(), 2, "the disk's data is not what it was");
    assert_ne!(hello.state()["current_vm_cid"], state_before["current_vm_cid"]);
    assert_eq!(hello.state()["disks"][0]["cid"], state_before["disks"][0]["cid"]);

    // The state of another environment is not deleted without a question.
    hello.world.write("name.yml", "- {type: replace, path: /name, value: other}\n");
    let run = hello.delete(&["-o", "name.yml"]).exits_with(3);
    assert!(run.stderr.contains("this state records 'hello' at"), "{}", run.stderr);
    assert!(run.stderr.contains("nothing was deleted"), "{}", run.stderr);
    assert!(hello.state()["current_vm_cid"].is_string());
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn agent_without_a_ca_needs_insecure_agent() {
    let mut hello = Hello::new();
    hello.add_ops("no-ca.yml", "- {type: remove, path: /cloud_provider/cert/ca}\n");
    hello.add_ops("cert.yml", "[]\n");
    // The certificate itself stays, because the VM needs it.
    hello.world.write(
        "no-ca.yml",
        "- type: replace\n  path: /cloud_provider/cert\n  value:\n    certificate: \
         ((mbus_bootstrap_ssl.certificate))\n    private_key: ((mbus_bootstrap_ssl.private_key))\n",
    );
    for command in ["create-env", "stop-env", "start-env"] {
        if command != "create-env" {
            hello.world.write("state.json", r#"{"director_id": "d", "current_vm_cid": "vm-1"}"#);
        }
        let run = hello.world.finish(hello.command(command, &[])).exits_with(3);
        assert!(
            run.stderr.contains("`cloud_provider.cert.ca` is missing")
                && run.stderr.contains("--insecure-agent"),
            "{command}: {}",
            run.stderr
        );
        assert!(hello.take_requests().is_empty());
    }
    std::fs::remove_file(hello.world.path("state.json")).unwrap();
    let run = hello.create(&["--insecure-agent"]).success();
    assert!(run.stderr.contains("--insecure-agent"), "{}", run.stderr);
    assert_eq!(hello.ask_counter(), 1);
    hello.delete(&[]).exits_with(3);
    hello.delete(&["--insecure-agent"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
