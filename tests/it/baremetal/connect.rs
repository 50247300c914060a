//! How Ironic is reached.

use super::Bench;
use crate::support::World;
use crate::support::ironic::Ironic;

#[test]
fn where_ironic_is_must_be_said() {
    let world = World::new();
    let run = world.run(["baremetal", "node", "list"]).failure(3);
    assert!(run.stderr.contains("OS_ENDPOINT"), "{}", run.stderr);
    let run = world.run(["baremetal", "node", "list", "--os-endpoint", "http://127.0.0.1:9"]).failure(1);
    assert!(run.stderr.contains("http://127.0.0.1:9 cannot be reached"), "{}", run.stderr);
}

#[test]
fn a_version_may_be_chosen_and_one_that_is_too_old_is_told() {
    let bench = Bench::new();
    let node = bench.ironic.node();
    let list =
        |version| ["volume", "target", "list", "--node", &node.name, "--os-baremetal-api-version", version];
    bench.run(&list("1.32")).success();
    bench.refused(&list("1.31"), 1, &["need version 1.32", "is at 1.31"]);
    bench.refused(&list("1.900"), 1, &["does not serve version 1.900", "1.1 to 1.115"]);
    bench.refused(&list("new"), 3, &["'new' is no API version"]);
}

#[test]
fn a_user_and_a_password_are_given_and_wrong_ones_refused() {
    let ironic = Ironic::start(Some(("operator", "s3cretpw1234")));
    let world = World::new();
    let run = |password: &str| {
        let mut command = ironic.monopile(&world, &["node", "list", "-f", "value"]);
        command.env("OS_USERNAME", "operator").env("OS_PASSWORD", password);
        world.finish(command)
    };
    assert_eq!(run("s3cretpw1234").success().stdout, "");
    let wrong = run("wr0ngpassw0rd").failure(1);
    assert!(wrong.stderr.contains("refuses the credentials"), "{}", wrong.stderr);
    assert!(!wrong.stderr.contains("wr0ng"), "{}", wrong.stderr);
    let none = world.finish(ironic.monopile(&world, &["node", "list"])).failure(1);
    assert!(none.stderr.contains("refuses the credentials"), "{}", none.stderr);
}
