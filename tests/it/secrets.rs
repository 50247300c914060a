//! Secret and public values: the places that see secrets in plain text, and runs whose values look like
//! names, paths and addresses.

use std::path::Path;

use super::layers::{sources, without_tests};
use super::support::hello::Hello;
use super::support::scripted::{InfoAnswer, Reaction, Script};

/// The files that may call `Secret::expose`, by crate and name. They pass a secret to a CPI, an agent, a
/// server or a key parser. Every use has been reviewed.
const EXPOSE: [(&str, &str); 13] = [
    // For the agent's settings and the digests of the state, which a CPI gets as JSON.
    ("engine", "cpi_set/source/mod.rs"),
    ("engine", "prepare/deployment.rs"),
    ("manifest", "deployment/mod.rs"),
    // For the properties of a CPI, and to check a key in the manifest.
    ("manifest", "deployment/registry.rs"),
    // For requests.
    ("engine", "agent_client/client.rs"),
    ("engine", "agent_client/endpoint.rs"),
    ("engine", "registry_server/server.rs"),
    ("ironic", "client.rs"),
    ("ironic", "keystone.rs"),
    // For its port, and to compare user and password.
    ("engine", "deploy/mbus_url.rs"),
    // For SSH.
    ("engine", "ssh.rs"),
    ("net", "ssh/session.rs"),
    // For the parser of the tunnel's key.
    ("engine", "run_registry.rs"),
];

#[test]
fn every_caller_of_expose_is_listed() {
    let is_elsewhere = |path: &Path| !path.ends_with("base/secret.rs");
    let mut callers = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &is_elsewhere);
    callers.retain(|_, text| {
        let code = without_tests(text);
        code.contains(".expose()") || code.contains("Secret::expose")
    });
    let is_allowed =
        |path: &Path| EXPOSE.iter().any(|(part, name)| path.starts_with(part) && path.ends_with(name));
    let new: Vec<_> = callers.keys().filter(|path| !is_allowed(path)).collect();
    assert!(new.is_empty(), "new callers of Secret::expose, to be reviewed and listed here: {new:?}");
    for (part, name) in EXPOSE {
        let is_there = callers.keys().any(|path| path.starts_with(part) && path.ends_with(name));
        assert!(is_there, "{part}: {name} exposes no secret any more: take it from the list");
    }
}

/// Makes the CPI fail with this message when it is asked for `info`.
fn fail_with(hello: &Hello, message: &str) {
    let reaction = Reaction::Fail {
        error_type: "Bosh::Clouds::CloudError".into(),
        message: message.into(),
        ok_to_retry: false,
    };
    hello.set_script(Script::with_info(InfoAnswer::Version(2)).first("info", 9, reaction));
}

fn set_properties(hello: &mut Hello, properties: &str) {
    let path = "/instance_groups/0/jobs/0/properties";
    let lines: String = properties
        .split(", ")
        .map(|pair| pair.split_once(": ").unwrap())
        .map(|(key, value)| format!("- {{type: replace, path: '{path}/{key}?', value: {value}}}\n"))
        .collect();
    hello.add_ops("properties.yml", &lines);
}

#[test]
fn names_and_paths_are_shown_even_if_equal_to_values() {
    let mut hello = Hello::new();
    set_properties(&mut hello, "default_key_name: ((default_key_name)), kind: ((kind))");
    hello.add_ops(
        "provider.yml",
        "- {type: replace, path: '/cloud_provider/cpi/properties/provider?', value: local}\n\
         - {type: replace, path: '/cloud_provider/cpi/properties/project?', value: monopile}\n\
         - {type: replace, path: '/cloud_provider/cpi/properties/region?', value: eu-central-1}\n",
    );
    let values = ["-v", "default_key_name=hello", "-v", "kind=state"];
    fail_with(&hello, "instance hello/0 of project monopile in region eu-central-1 of provider local");
    let run = hello.create(&values).exits_with(1);
    let output = format!("{}{}", run.stdout, run.stderr);
    assert!(output.contains("instance hello/0 of project <redacted>"), "{output}");
    assert!(output.contains("in region <redacted> of provider local"), "{output}");
    let state = hello.world.path("state.json").display().to_string();
    assert!(output.contains(&format!("state: {state}")), "{output}");
    // The log's path contains this program's name, and the log names the state's path.
    let mut logs = hello.find("home", "-create-env-").into_iter();
    let log = logs.rfind(|path| path.display().to_string().contains("/monopile/logs/")).unwrap();
    assert!(output.contains(&log.display().to_string()), "{output}");
    assert!(std::fs::read_to_string(&log).unwrap().contains(&state));
}

#[test]
fn password_that_equals_a_name_is_shown_with_a_warning() {
    let mut hello = Hello::new();
    fail_with(&hello, "cannot log in to default with default");
    let password = ["-v", "admin_password=default"];
    let run = hello.create(&password).exits_with(1);
    let output = format!("{}{}", run.stdout, run.stderr);
    assert!(output.contains("cannot log in to default with default"), "{output}");
    let warning = "the value of `admin_password` is also the name of a network, so it is not redacted: \
                   choose another value";
    assert_eq!(output.matches(warning).count(), 1, "{output}");
    let run = hello.create(&[&password[..], &["--redact", "admin_password"]].concat()).exits_with(1);
    let output = format!("{}{}", run.stdout, run.stderr);
    assert!(output.contains("cannot log in to <redacted> with <redacted>"), "{output}");
    assert!(!output.contains(warning), "{output}");

    // A key is as public as a name, and so is the path of the state.
    let state = hello.world.path("work-state/state.json");
    std::fs::create_dir(state.parent().unwrap()).unwrap();
    hello.replace_option("--state", &["--state", "work-state/state.json"]);
    fail_with(&hello, "no property 'admin_password' in state.json of work-state or disk_size");
    let run = hello.create(&["-v", "a_password=work-state", "-v", "b_password=disk_size"]).exits_with(1);
    let output = format!("{}{}", run.stdout, run.stderr);
    assert!(output.contains(&format!("state: {}", state.display())), "{output}");
    assert!(output.contains("state.json of <redacted> or disk_size"), "{output}");
}

#[test]
fn redact_option_hides_named_values() {
    let mut hello = Hello::new();
    set_properties(&mut hello, "colour: ((colour)), pin: 4711");
    fail_with(&hello, "the pin of green is 4711");
    let run = hello.create(&["-v", "colour=green"]).exits_with(1);
    assert!(run.stderr.contains("the pin of green is 4711"), "{}", run.stderr);
    for options in
        [["--redact", "colour", "--redact", "pin"], ["--redact=COLOUR", "--redact=pin", "-v", "unused=1"]]
    {
        let run = hello.create(&[&["-v", "colour=green"], &options[..]].concat()).exits_with(1);
        let output = format!("{}{}", run.stdout, run.stderr);
        assert!(output.contains("the pin of <redacted> is <redacted>"), "{output}");
        assert!(!output.contains("green") && !output.contains("4711"), "{output}");
    }
}

#[test]
fn secret_split_by_an_escape_sequence_is_hidden() {
    let hello = Hello::new();
    fail_with(&hello, "the password is quite-\u{1b}[31ma-sec\u{1b}[0mret");
    for extra_args in [&["--json"][..], &[]] {
        let run = hello.create(&[&["-v", "some_password=quite-a-secret"], extra_args].concat()).exits_with(1);
        let output = format!("{}{}", run.stdout, run.stderr);
        assert!(output.contains("the password is <redacted>") && !output.contains("quite-"), "{output}");
    }
    for log in hello.find("home", ".log") {
        let text = std::fs::read_to_string(&log).unwrap();
        assert!(!text.contains("quite-") && !text.contains("sec\u{1b}"), "{text}");
    }
}

#[test]
fn manifest_errors_show_no_secret() {
    let mut hello = Hello::new();
    hello.add_ops("wrong.yml", "- {type: replace, path: /networks/name=default/type, value: ((password))}\n");
    hello.add_ops(
        "key.yml",
        "- {type: replace, path: '/cloud_provider/ssh_tunnel?', value: {host: h, port: ((port_token))}}\n",
    );
    let run =
        hello.create(&["-v", "password=quite-a-secret", "-v", "port_token=t0ken-of-mine"]).exits_with(3);
    let output = format!("{}{}", run.stdout, run.stderr);
    assert!(!output.contains("quite-a-secret") && !output.contains("t0ken-of-mine"), "{output}");
}
