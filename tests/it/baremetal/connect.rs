//! Connections to Ironic: endpoints and authentication.

use base::redact::Redactor;
use ironic::{AccessSettings, Client, Collection, ListOptions};

use super::Bench;
use crate::support::Run;
use crate::support::World;
use crate::support::ironic::{Ironic, RequiredAuth};
use crate::support::keystone::{Keystone, PROJECT, REGION};

#[test]
fn endpoint_is_required() {
    let world = World::new();
    let run = world.run(["baremetal", "node", "list"]).exits_with(2);
    assert!(run.stderr.contains("OS_ENDPOINT"), "{}", run.stderr);
    let run = world.run(["baremetal", "node", "list", "--os-endpoint", "127.0.0.1:9"]).exits_with(2);
    let expected =
        "error: --os-endpoint must begin with http:// or https://\n  hint: write http://127.0.0.1:9 or ";
    assert!(run.stderr.starts_with(expected), "{}", run.stderr);
    let run = world.run(["baremetal", "node", "list", "--os-endpoint", "http://127.0.0.1:9"]).exits_with(1);
    assert!(run.stderr.contains("http://127.0.0.1:9 cannot be reached"), "{}", run.stderr);
}

#[test]
fn api_version_can_be_chosen_but_not_too_old() {
    let bench = Bench::new();
    let node = bench.ironic.create_node();
    let list =
        |version| ["volume", "target", "list", "--node", &node.name, "--os-baremetal-api-version", version];
    bench.run(&list("1.32")).success();
    bench.expect_error(&list("1.31"), 1, &["need version 1.32", "is at 1.31"]);
    bench.expect_error(&list("1.900"), 1, &["does not serve version 1.900", "1.1 to 1.115"]);
    bench.expect_error(&list("new"), 2, &["'new' is not an API version"]);
}

#[test]
fn basic_auth_works_and_wrong_passwords_fail() {
    let ironic = Ironic::start(&RequiredAuth::Basic("operator", "s3cretpw1234"));
    let world = World::new();
    let run = |password: &str| {
        let mut command = ironic.monopile(&world, &["node", "list", "-f", "value"]);
        command.env("OS_USERNAME", "operator").env("OS_PASSWORD", password);
        world.finish(command)
    };
    assert_eq!(run("s3cretpw1234").success().stdout, "");
    let failed_run = run("wr0ngpassw0rd").exits_with(1);
    assert!(failed_run.stderr.contains("refuses the credentials"), "{}", failed_run.stderr);
    assert!(!failed_run.stderr.contains("wr0ng"), "{}", failed_run.stderr);
    let none = world.finish(ironic.monopile(&world, &["node", "list"])).exits_with(1);
    assert!(none.stderr.contains("refuses the credentials"), "{}", none.stderr);
}

#[test]
fn keystone_authenticates_and_finds_the_endpoint() {
    let keystone = Keystone::start();
    let ironic = Ironic::start(&RequiredAuth::Keystone(&keystone));
    keystone.add_endpoint(&ironic.url());
    let operator = keystone.create_user("operator", "s3cretpw1234", "admin");
    let reader = keystone.create_user("reader", "r3aderpw1234", "reader");
    let node = ironic.enroll_node("iscsi_boot:true");
    let world = World::new();
    let run = |variables: &[(&str, &str)], arguments: &[&str]| -> Run {
        let mut command = world.monopile(["baremetal"].iter().chain(arguments));
        command.env("OS_AUTH_URL", keystone.url()).env("OS_SYSTEM_SCOPE", "all");
        command.env("OS_USERNAME", operator.name).env("OS_PASSWORD", operator.password);
        world.finish({
            command.envs(variables.iter().copied());
            command
        })
    };
    let list = ["node", "list", "-f", "value", "-c", "name"];
    assert_eq!(run(&[], &list).success().stdout, format!("{}\n", node.name));
    // With a given endpoint, no catalogue is needed. The catalogue has one Ironic per region and interface.
    run(&[("OS_REGION_NAME", REGION), ("OS_INTERFACE", "public")], &list).success();
    run(&[("OS_ENDPOINT", &ironic.url()), ("OS_REGION_NAME", "two")], &list).success();
    // A project sees only its own resources.
    let in_project = [("OS_SYSTEM_SCOPE", ""), ("OS_PROJECT_NAME", PROJECT)];
    assert_eq!(run(&in_project, &list).success().stdout, "");

    let expect_error = |variables: &[(&str, &str)], arguments: &[&str], words: &[&str]| {
        let stderr = run(variables, arguments).exits_with(1).stderr;
        for word in words {
            assert!(stderr.contains(word), "'{word}' is missing: {stderr}");
        }
        assert!(
            !stderr.contains("wr0ng") && !stderr.contains("s3cret") && !stderr.contains("r3ader"),
            "{stderr}"
        );
    };
    let credentials =
        [keystone.url(), "refuses the credentials".to_owned(), "project and domains".to_owned()];
    let credentials = credentials.each_ref().map(String::as_str);
    expect_error(&[("OS_PASSWORD", "wr0ngpassw0rd")], &list, &credentials);
    expect_error(&[("OS_USERNAME", "no-such-user")], &list, &credentials);
    expect_error(&[("OS_USER_DOMAIN_NAME", "elsewhere")], &list, &credentials);
    expect_error(&[("OS_SYSTEM_SCOPE", ""), ("OS_PROJECT_NAME", "another")], &list, &credentials);
    expect_error(&[("OS_REGION_NAME", "two")], &list, &["no 'public' endpoint", "region 'two'"]);
    expect_error(&[("OS_INTERFACE", "admin")], &list, &["no 'admin' endpoint"]);
    expect_error(&[("OS_INTERFACE", "internal")], &list, &["http://127.0.0.1:9 cannot be reached"]);
    // An authenticated user may still lack rights.
    let create = ["volume", "connector", "create", "--type", "iqn", "--connector-id", "iqn.2026-11.test:k"];
    let create = [&create[..], &["--node", &node.name]].concat();
    let as_reader = [("OS_USERNAME", reader.name), ("OS_PASSWORD", reader.password)];
    run(&as_reader, &list).success();
    expect_error(&as_reader, &create, &["(403)", "role"]);
    run(&[], &create).success();

    // A revoked token is replaced, unless the password is revoked as well.
    let settings = AccessSettings {
        auth_url: Some(keystone.url()),
        username: Some(operator.name.into()),
        password: Some(operator.password.into()),
        system_scope: Some("all".into()),
        ..AccessSettings::default()
    };
    let client = Client::connect(settings.check(&Redactor::default()).unwrap()).unwrap();
    let count_connectors = || {
        client
            .list(Collection::Connectors, &ListOptions::for_node(&node.name))
            .map(|connectors| connectors.len())
    };
    assert_eq!(count_connectors().unwrap(), 1);
    keystone.revoke_tokens(&operator);
    assert_eq!(count_connectors().unwrap(), 1);
    keystone.delete_user(&operator);
    let error = count_connectors().unwrap_err().to_string();
    assert!(error.contains("refuses the credentials"), "{error}");
}
