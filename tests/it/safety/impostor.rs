//! An old or foreign agent answers at the VM's address, accepts the password and obeys every message. It
//! receives only `ping` and `get_state`, and the run reports it.

use crate::support::hello::Hello;
use crate::support::proxy::AgentProxy;
use crate::support::scripted::{InfoAnswer, Reaction, Script};

const GREETING_PATH: &str = "/instance_groups/name=hello/jobs/name=hello/properties/greeting?";

const OTHER_AGENT_ID: &str = "11111111-2222-3333-4444-555555555555";
/// While this file exists, the agent has another id.
const DISGUISE_FILE: &str = "impostor";

fn disguise_agent(hello: &mut Hello) -> AgentProxy {
    let proxy = hello.proxy_agent();
    proxy.disguise(hello.world.path(DISGUISE_FILE));
    proxy
}

fn message_names(proxy: &AgentProxy) -> Vec<String> {
    proxy.take().iter().map(|exchange| exchange.name()).collect()
}

#[track_caller]
fn assert_harmless(proxy: &AgentProxy) {
    let messages = message_names(proxy);
    let mut other_messages = messages.iter().filter(|name| !["ping", "get_state"].contains(&name.as_str()));
    assert_eq!(other_messages.next(), None, "{messages:?}");
    assert!(messages.iter().any(|name| name == "get_state"), "it was never asked who it is: {messages:?}");
}

#[test]
fn foreign_agent_gets_no_commands() {
    let mut hello = Hello::new();
    let proxy = disguise_agent(&mut hello);
    for id in [OTHER_AGENT_ID, ""] {
        hello.world.write(DISGUISE_FILE, id);
        let expected =
            if id.is_empty() { "it gives no agent ID".to_owned() } else { format!("its agent ID is {id}") };

        // Two runs create a new VM. The second one deletes the VM of the first one without any other message
        // to the foreign agent.
        for _ in 0..2 {
            let run = hello.create(&[]).exits_with(5);
            for text in ["is not the agent of VM", expected.as_str(), "if no environment uses it, "] {
                assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
            }
            assert_harmless(&proxy);
        }
        std::fs::remove_file(hello.world.path(DISGUISE_FILE)).unwrap();
        hello.create(&[]).success();
        proxy.take();

        hello.world.write(DISGUISE_FILE, id);
        for command in ["stop-env", "start-env", "create-env"] {
            let run = hello.world.finish(hello.command(command, &[])).exits_with(5);
            assert!(
                run.stderr.contains("is not the agent of VM") && run.stderr.contains(&expected),
                "{}",
                run.stderr
            );
            assert_harmless(&proxy);
        }
        let run = hello.world.finish(hello.subcommand(&["state", "verify"], &[])).exits_with(6);
        assert!(
            run.stdout.contains("another VM answers") && run.stdout.contains(&expected),
            "{}",
            run.stdout
        );
        assert_harmless(&proxy);

        let vm_before = hello.state()["current_vm_cid"].clone();
        let run = hello.create(&["--recreate"]).exits_with(5);
        assert!(
            run.stdout.contains("another VM answers (") && run.stdout.contains(&expected),
            "{}",
            run.stdout
        );
        assert_ne!(hello.state()["current_vm_cid"], vm_before);
        assert_harmless(&proxy);
        let run = hello.delete(&[]).success();
        assert!(
            run.stdout.contains("another VM answers (") && run.stdout.contains(&expected),
            "{}",
            run.stdout
        );
        assert_harmless(&proxy);
        assert_eq!(hello.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn foreign_agent_gets_no_commands_during_a_deploy() {
    let mut hello = Hello::new();
    let proxy = disguise_agent(&mut hello);
    let smaller = "- {type: replace, path: /disk_pools/name=disks/disk_size, value: 512}\n";
    let steps = |methods: &[(&'static str, usize)]| methods.to_vec();
    for (ops, methods) in [
        ("[]\n", steps(&[("create_vm", 1), ("set_vm_metadata", 1), ("create_disk", 1), ("attach_disk", 1)])),
        (
            smaller,
            steps(&[
                ("delete_vm", 1),
                ("create_vm", 1),
                ("attach_disk", 1),
                ("attach_disk", 2),
                ("detach_disk", 1),
            ]),
        ),
    ] {
        hello.add_ops("disk.yml", ops);
        for (method, nth) in methods {
            // The foreign agent appears during a CPI call. Earlier messages do not count.
            let arrives = format!("printf %s {OTHER_AGENT_ID} > {DISGUISE_FILE}; cat");
            let script =
                Script::with_info(InfoAnswer::Local).on(method, (nth, nth), Reaction::After(arrives));
            hello.set_script(script);
            proxy.take();
            let run = hello.create(&[]).exits_with(5);
            assert!(run.stderr.contains("is not the agent of VM"), "{method} {nth}: {}", run.stderr);
            let exchanges = proxy.take();
            let position = exchanges
                .iter()
                .position(|exchange| exchange.answer["value"]["agent_id"] == OTHER_AGENT_ID)
                .unwrap();
            let messages_after_answer: Vec<String> =
                exchanges[position..].iter().map(|exchange| exchange.name()).collect();
            assert_eq!(messages_after_answer, ["get_state"], "{method} {nth}");
            let name_before = exchanges[..position].last().map(|exchange| exchange.name());
            assert_eq!(name_before.as_deref(), Some("ping"), "{method} {nth}: what was said between");
            std::fs::remove_file(hello.world.path(DISGUISE_FILE)).unwrap();
        }
        hello.set_script(Script::with_info(InfoAnswer::Local));
        hello.create(&[]).success();
        assert_eq!(hello.cloud(), hello.recorded_cids());
    }
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn foreign_agent_is_not_updated_in_place() {
    let mut hello = Hello::new();
    let proxy = disguise_agent(&mut hello);
    hello.create(&[]).success();
    let vm = hello.state()["current_vm_cid"].clone();
    hello.add_ops("greeting.yml", &format!("- {{type: replace, path: {GREETING_PATH}, value: Ahoy}}"));

    // The foreign agent appears after the VM's own agent has answered.
    let arrives = format!("printf %s {OTHER_AGENT_ID} > {DISGUISE_FILE}; cat");
    hello.set_script(Script::with_info(InfoAnswer::Local).first("info", 1, Reaction::After(arrives)));
    proxy.take();
    let run = hello.create(&[]).exits_with(5);
    assert!(
        run.stderr.contains("is not the agent of VM") && run.stderr.contains(OTHER_AGENT_ID),
        "{}",
        run.stderr
    );
    let exchanges = proxy.take();
    let messages: Vec<(String, bool)> = exchanges
        .iter()
        .map(|exchange| (exchange.name(), exchange.answer["value"]["agent_id"] == OTHER_AGENT_ID))
        .collect();
    assert_eq!(messages, [("get_state".to_owned(), false), ("get_state".to_owned(), true)]);
    assert_eq!(hello.state()["current_vm_cid"], vm);

    // The next run detects it at once, because there is nothing to update, and a new VM would have the same
    // agent at its address.
    hello.set_script(Script::with_info(InfoAnswer::Local));
    let run = hello.world.finish(hello.command("plan", &[])).success();
    assert!(run.stdout.contains("its agent cannot be used"), "{}", run.stdout);
    assert_harmless(&proxy);
    hello.create(&[]).exits_with(5);
    assert_harmless(&proxy);

    std::fs::remove_file(hello.world.path(DISGUISE_FILE)).unwrap();
    hello.create(&[]).success();
    assert_eq!(hello.ask_greeting(), "Ahoy");
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
