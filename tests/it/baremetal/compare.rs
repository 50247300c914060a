//! Compares the output with that of OpenStack's own client.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Bench;

/// Returns our arguments: user names of targets are masked by default.
fn ours<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let is_about_targets = arguments[..2] == ["volume", "target"];
    arguments.iter().copied().chain(is_about_targets.then_some("--show-usernames")).collect()
}

/// Checks that both clients print the same JSON.
#[track_caller]
fn assert_same(bench: &Bench, arguments: &[&str]) {
    let theirs = bench.ironic.run_reference_json(arguments);
    assert_eq!(bench.run_json(&ours(arguments)), theirs, "{arguments:?}");
}

#[test]
fn connectors_and_targets_are_printed_like_openstack() {
    let bench = Bench::new();
    let node = bench.ironic.create_node();
    let targets = [bench.create_target(&node.name, "0"), bench.create_target(&node.name, "10")];
    let changes =
        ["--extra", "role=it's \\\"root\"", "--extra", "none=null", "--property", "target_luns=[1, 2]"];
    let name = "target_iqn=iqn.2026-11.test.monopile:a-name-that-is-longer-than-most-lines";
    let set = ["volume", "target", "set", &targets[0], "--property", name];
    bench.run(&[&set[..], &changes].concat()).success();
    let connectors = bench.run_json(&["volume", "connector", "list", "--node", &node.name]);
    let connector = connectors[0]["uuid"].as_str().unwrap();

    let mut commands: Vec<Vec<&str>> = Vec::new();
    let list_options = [
        vec!["-f", "json"],
        vec!["-f", "json", "--noindent", "--long"],
        vec!["-f", "json", "--fields", "extra", "uuid"],
        vec!["--long"],
        vec!["--max-width", "60"],
        vec!["-f", "value"],
        vec!["-f", "yaml"],
        vec!["-f", "csv", "--long"],
        vec!["-f", "csv", "--long", "--quote", "all"],
        vec!["-f", "csv", "--quote", "minimal"],
        vec!["-f", "csv", "--long", "--quote", "none"],
        vec!["-f", "value", "--sort-column", "Node UUID", "--sort-column", "uuid", "--sort-descending"],
    ];
    let show_options = [
        vec!["-f", "json"],
        vec![],
        vec!["--max-width", "60"],
        vec!["-f", "value"],
        vec!["-f", "shell", "--prefix", "my_", "-c", "uuid", "-c", "node_uuid"],
    ];
    for (kind, uuid) in [("target", targets[0].as_str()), ("connector", connector)] {
        for options in &list_options {
            commands.push([&["volume", kind, "list", "--node", &node.name][..], options].concat());
        }
        for options in &show_options {
            commands.push([&["volume", kind, "show", uuid][..], options].concat());
        }
    }
    // Columns are printed in the order of the list, not of the options.
    let list = ["volume", "target", "list", "--node", &node.name];
    commands.push([&list[..], &["-c", "volume_id", "-c", "uuid", "--sort-column", "boot_index"]].concat());
    commands.push([&list[..], &["--sort", "boot_index:desc"]].concat());
    let bare_node = bench.ironic.enroll_node("iscsi_boot:true");
    for extra_args in [&[][..], &["--print-empty"], &["-f", "csv"], &["-f", "yaml"]] {
        commands.push([&["volume", "connector", "list", "--node", &bare_node.name][..], extra_args].concat());
    }
    for arguments in &commands {
        let theirs = bench.ironic.run_reference(arguments);
        let output = bench.run(&ours(arguments)).success().stdout;
        match arguments.contains(&"--max-width") {
            // Both break a long word where they like, so only the widths of the columns are compared.
            true => assert_eq!(output.lines().next(), theirs.lines().next(), "{arguments:?}"),
            false => assert_eq!(output, theirs, "{arguments:?}"),
        }
    }
    let yaml = ["volume", "target", "show", &targets[0], "-f", "yaml"];
    let parse = |text: &str| serde_yaml::from_str::<Value>(text).unwrap();
    let document = parse(&bench.run(&ours(&yaml)).success().stdout);
    assert_eq!(document, parse(&bench.ironic.run_reference(&yaml)));
}

/// Options that only one of the clients has, with the end of their command.
const OURS: [(&str, &str); 9] = [
    ("list", "--detail"),
    ("volume connector list", "--type"),
    ("volume connector list", "--connector-id"),
    ("volume target list", "--type"),
    ("volume target list", "--volume-id"),
    ("volume target list", "--boot-index"),
    ("", "--show-usernames"),
    ("", "--power-off"),
    ("", "--volume-type"),
];

/// Returns the options of a command of `baremetal`, without those of every command and hidden spellings.
fn our_options(words: &str) -> BTreeSet<String> {
    let mut command = &monopile::cli::grammar();
    for word in ["baremetal"].into_iter().chain(words.split(' ')) {
        command = command.find_subcommand(word).unwrap();
    }
    let general = |arg: &clap::Arg| {
        arg.is_hide_set() || arg.is_global_set() || arg.get_id().as_str().starts_with("os_")
    };
    let names = command.get_arguments().filter(|arg| !general(arg)).flat_map(|arg| {
        arg.get_long().into_iter().chain(arg.get_visible_aliases().into_iter().flatten()).map(str::to_owned)
    });
    let only_ours = |name: &String| {
        OURS.iter().any(|(end, option)| words.ends_with(end) && option.trim_start_matches('-') == name)
    };
    names.filter(|name| !only_ours(name)).collect()
}

#[test]
fn options_are_those_of_openstack() {
    let bench = Bench::new();
    let mut commands: Vec<String> = Vec::new();
    for kind in ["connector", "target"] {
        let verbs = ["create", "list", "show", "set", "unset", "delete"];
        commands.extend(verbs.map(|verb| format!("volume {kind} {verb}")));
    }
    let volume_count = commands.len();
    let nodes =
        ["create", "list", "show", "set", "unset", "delete", "manage", "clean", "rescue", "power off"];
    commands.extend(nodes.map(|verb| format!("node {verb}")));
    commands.extend(["create", "list", "delete"].map(|verb| format!("port {verb}")));
    let option = regex::Regex::new(r"--([a-z-]+)").unwrap();
    for (index, command) in commands.iter().enumerate() {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = bench.ironic.run_reference(&words);
        // The description of an option follows behind two blanks.
        let lines = help.lines().filter(|line| line.starts_with("  -"));
        let lines = lines.filter_map(|line| line.trim_start().split("  ").next());
        let options = lines.flat_map(|line| option.captures_iter(line).map(|name| name[1].to_owned()));
        let theirs: BTreeSet<String> = options.filter(|name| name != "help").collect();
        let ours = our_options(command);
        match index < volume_count {
            true => assert_eq!(ours, theirs, "{command}"),
            // Of nodes and ports, the options that a standalone Ironic needs.
            false => assert!(ours.is_subset(&theirs), "{command}: {:?}", ours.difference(&theirs)),
        }
    }
}

#[test]
fn created_objects_are_printed_like_openstack() {
    let bench = Bench::new();
    let node = bench.ironic.create_node();
    // The reference client accepts no name for this argument.
    let make = |node: &str, id: &str| -> Vec<String> {
        let options = [
            "volume",
            "target",
            "create",
            "--node",
            node,
            "--type",
            "iscsi",
            "--volume-id",
            id,
            "--boot-index",
            id,
        ];
        let extra_args = [
            "--property",
            "target_luns=[1, 2]",
            "--property",
            "auth_password=x",
            "--extra",
            "a=b",
            "--extra",
            "c=null",
        ];
        options.iter().chain(&extra_args).map(ToString::to_string).collect()
    };
    let texts =
        |arguments: &'_ [String]| arguments.iter().map(String::as_str).map(str::to_owned).collect::<Vec<_>>();
    let (ours, theirs) = (texts(&make(&node.name, "1")), texts(&make(&node.uuid, "2")));
    let ours: Vec<&str> = ours.iter().map(String::as_str).chain(["--show-usernames"]).collect();
    let ours = bench.run_json(&ours);
    let theirs = bench.ironic.run_reference_json(&theirs.iter().map(String::as_str).collect::<Vec<_>>());
    for (key, value) in theirs.as_object().unwrap() {
        match key.as_str() {
            "uuid" | "created_at" => assert!(ours[key].is_string()),
            "volume_id" => assert_eq!((&ours[key], value), (&Value::from("1"), &Value::from("2"))),
            "boot_index" => assert_eq!((&ours[key], value), (&Value::from(1), &Value::from(2))),
            _ => assert_eq!(&ours[key], value, "{key}"),
        }
    }
    assert_eq!(ours.as_object().unwrap().len(), theirs.as_object().unwrap().len());
}

#[test]
fn nodes_are_printed_like_openstack() {
    let bench = Bench::new();
    let node = bench.ironic.create_node();
    let list = ["node", "list", "--resource-class", &node.resource_class];
    assert_same(&bench, &list);
    assert_same(&bench, &[&list[..], &["--fields", "name", "driver"]].concat());
    assert_same(&bench, &["node", "show", &node.name, "--fields", "name", "properties", "provision_state"]);
    assert_same(&bench, &["node", "validate", &node.name]);
    // The reference client omits fields that are newer than itself.
    let includes = |ours: &Value, theirs: &Value| {
        for (key, value) in theirs.as_object().unwrap() {
            assert_eq!(&ours[key], value, "{key}");
        }
    };
    let show = ["node", "show", &node.name];
    includes(&bench.run_json(&show), &bench.ironic.run_reference_json(&show));
    let long = [&list[..], &["--long"]].concat();
    includes(&bench.run_json(&long)[0], &bench.ironic.run_reference_json(&long)[0]);
}
