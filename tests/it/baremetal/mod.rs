//! `monopile baremetal` against a real Ironic.

#![cfg(target_os = "linux")]

mod compare;
mod connect;
mod errors;
mod node;
mod volume;

use serde_json::Value;

use crate::support::ironic::{ExclusiveIronic, lock_shared_ironic};
use crate::support::{Run, World};

/// A world with commands for the Ironic that tests share.
struct Bench {
    world: World,
    ironic: ExclusiveIronic,
}

impl Bench {
    fn new() -> Bench {
        Bench { world: World::new(), ironic: lock_shared_ironic() }
    }

    /// Runs `monopile baremetal …`.
    fn run(&self, arguments: &[&str]) -> Run {
        self.world.finish(self.ironic.monopile(&self.world, arguments))
    }

    /// Runs `monopile baremetal …` and parses its JSON.
    #[track_caller]
    fn run_json(&self, arguments: &[&str]) -> Value {
        let run = self.run(&[arguments, &["-f", "json"]].concat()).success();
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
    }

    /// Creates a resource and returns its UUID.
    #[track_caller]
    fn create(&self, arguments: &[&str]) -> String {
        self.run(&[arguments, &["-f", "value", "-c", "uuid"]].concat()).success().stdout.trim().to_owned()
    }

    /// Creates a target with a login and returns its UUID.
    #[track_caller]
    fn create_target(&self, node: &str, boot_index: &str) -> String {
        let volume = format!("volume-{boot_index}");
        let arguments =
            ["volume", "target", "create", "--node", node, "--type", "iscsi", "--volume-id", &volume];
        let login = ["--boot-index", boot_index, "--property", "auth_username=bosh", "--property"];
        self.create(&[&arguments[..], &login, &["auth_password=s3cretpw1234"]].concat())
    }

    /// Checks that the command fails with this exit code and these words. No run may print a password.
    #[track_caller]
    fn expect_error(&self, arguments: &[&str], code: i32, words: &[&str]) {
        let run = self.run(arguments).exits_with(code);
        for word in words {
            assert!(run.stderr.contains(word), "'{word}' is missing:\n{}", run.stderr);
        }
        assert!(!run.stderr.contains("s3cretpw1234") && run.stdout.is_empty(), "{run:?}");
    }
}
