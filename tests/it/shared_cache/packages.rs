//! Packages that were compiled on a VM: used by other machines only if a trusted key has signed them.

use std::collections::BTreeMap;

use serde_json::json;

use super::{generate_key, warnings};
use crate::support::Run;
use crate::support::bucket::Bucket;
use crate::support::hello::Hello;
use crate::support::proxy::AgentProxy;

/// An environment that several machines deploy, with a shared cache in a bucket.
struct Team {
    hello: Hello,
    proxy: AgentProxy,
    bucket: Bucket,
}

impl Team {
    fn new() -> Self {
        let mut hello = Hello::new();
        let proxy = hello.proxy_agent();
        for name in ["ci", "other"] {
            generate_key(&hello.world.path(""), name);
        }
        Team { hello, proxy, bucket: Bucket::new() }
    }

    /// Runs a command on the machine with this home directory. Returns the run, and the number of packages
    /// that were compiled.
    #[track_caller]
    fn run(&self, words: &str, home: &str, extra_args: &[&str]) -> (Run, usize) {
        self.proxy.take();
        let mut command = self.hello.command(words, extra_args);
        self.bucket.set_credentials(&mut command);
        let home = self.hello.world.root().join(home);
        std::fs::create_dir_all(&home).unwrap();
        command.env("HOME", home);
        let run = self.hello.world.finish(command).success();
        let exchanges = self.proxy.take();
        (run, exchanges.iter().filter(|exchange| exchange.name() == "compile_package").count())
    }

    /// Replaces the VM from this machine, and returns the same.
    #[track_caller]
    fn recreate(&self, home: &str, extra_args: &[&str]) -> (Run, usize) {
        let url = self.bucket.url("cache");
        self.run("create-env", home, &[&["--recreate", "--cache", &url], extra_args].concat())
    }

    /// Returns the compiled packages of a machine with their contents.
    fn compiled_packages(&self, home: &str) -> BTreeMap<String, Vec<u8>> {
        let paths = self.hello.find(&format!("{home}/.cache/monopile/compiled"), ".tgz");
        paths
            .into_iter()
            .map(|path| {
                (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap())
            })
            .collect()
    }

    /// Returns the objects with this ending.
    fn objects(&self, ending: &str) -> Vec<String> {
        let mut keys = self.bucket.keys();
        keys.retain(|key| key.ends_with(ending));
        keys.sort();
        keys
    }

    fn delete(&self) {
        self.hello.delete(&["--skip-drain"]).success();
        assert_eq!(self.hello.leftovers(), Vec::<String>::new());
    }
}

const WRITE: [&str; 3] = ["--cache-write", "--cache-sign", "ci"];

#[test]
fn packages_compiled_by_one_machine_are_used_by_others() {
    let team = Team::new();
    let (run, count) = team.recreate("home", &WRITE);
    assert_eq!((count, warnings(&run)), (2, Vec::new()));
    let objects = (team.objects(".json").len(), team.objects(".tgz").len());
    assert_eq!(objects, (2, 2), "{:?}", team.bucket.keys());

    let url = team.bucket.url("cache");
    let trust_options = ["--json", "--recreate", "--cache", &url, "--cache-trust", "ci.pub"];
    let (plan, _) = team.run("plan", "home-b", &trust_options);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
    assert_eq!(
        plan["packages"],
        json!({"to_compile_count": 0, "cached_count": 2, "precompiled_count": 0}),
        "{plan}"
    );
    let (run, count) = team.recreate("home-b", &["--cache-trust", "ci.pub"]);
    assert_eq!((count, warnings(&run)), (0, Vec::new()));
    assert!(run.stdout.contains("Copying compiled package 'greeting/"), "{}", run.stdout);
    assert_eq!(team.compiled_packages("home-b"), team.compiled_packages("home"));
    assert_eq!(team.compiled_packages("home-b").len(), 2);
    assert_eq!(team.hello.ask_greeting(), "Hello from the VM");

    // Both are in the cache of this machine now, also without the shared one.
    let (_, count) = team.run("create-env", "home-b", &["--recreate", "--cache-trust", "ci.pub"]);
    assert_eq!(count, 0);
    team.delete();
}

#[test]
fn packages_of_a_revoked_key_are_compiled_again() {
    let team = Team::new();
    team.recreate("home", &WRITE);
    let keys = ["ci.pub", "other.pub"].map(|name| team.hello.world.read(name)).concat();
    team.hello.world.write("keys", format!("# ours\n{keys}"));
    let (_, count) = team.recreate("home-b", &["--cache-trust", "keys"]);
    assert_eq!(count, 0);

    // They are neither taken from the shared cache nor from that of this machine.
    let (run, count) = team.recreate("home-b", &["--cache-trust", "other.pub"]);
    let warnings = warnings(&run);
    assert_eq!((count, warnings.len()), (2, 1), "{warnings:?}");
    assert!(warnings[0].contains("signed by a key that is not trusted"), "{warnings:?}");
    // Those that the machine has compiled itself need no signature.
    let (_, count) = team.recreate("home-b", &[]);
    assert_eq!(count, 0);
    team.delete();
}

#[test]
fn poisoned_packages_are_compiled() {
    let team = Team::new();
    team.recreate("home", &WRITE);
    let [first, second] = &team.objects(".json")[..] else { panic!("{:?}", team.bucket.keys()) };
    let trust_options = ["--cache-trust", "ci.pub"];
    let original: BTreeMap<String, Vec<u8>> =
        team.bucket.keys().into_iter().map(|key| (key.clone(), team.bucket.get(&key).unwrap())).collect();
    let restore = || original.iter().for_each(|(key, bytes)| team.bucket.put(key, bytes));

    let archive = team.objects(".tgz").remove(0);
    let mut poisoned_content = original[&archive].clone();
    poisoned_content[20] ^= 1;
    team.bucket.put(&archive, &poisoned_content);
    let (run, count) = team.recreate("home-b", &trust_options);
    assert_eq!((count, warnings(&run).len()), (1, 1), "{run:?}");
    assert_eq!(team.hello.ask_greeting(), "Hello from the VM");

    // The signed package is served under the name of the other one.
    restore();
    team.bucket.put(first, &original[second]);
    let stem = |key: &str| key.strip_suffix(".json").unwrap().to_owned();
    let archive_of = |key: &str| {
        original
            .keys()
            .find(|name| name.starts_with(&format!("{}.", stem(key))) && name.ends_with(".tgz"))
            .unwrap()
    };
    let new_key = archive_of(second).replace(&stem(second), &stem(first));
    team.bucket.put(&new_key, &original[archive_of(second)]);
    let (run, count) = team.recreate("home-c", &trust_options);
    assert_eq!((count, warnings(&run).len()), (1, 1), "{run:?}");
    assert_eq!(team.hello.ask_greeting(), "Hello from the VM");

    // Its signature is gone.
    restore();
    team.bucket.put(first, b"{}");
    let (run, count) = team.recreate("home-d", &trust_options);
    assert_eq!((count, warnings(&run).len()), (1, 1), "{run:?}");
    // Its archive is gone: the cache simply lacks it.
    restore();
    team.bucket.delete(&archive);
    let (run, count) = team.recreate("home-e", &trust_options);
    assert_eq!((count, warnings(&run).len()), (1, 0), "{run:?}");
    team.delete();
}

#[test]
fn openssh_verifies_the_signature() {
    let team = Team::new();
    team.recreate("home", &WRITE);
    let record = team.objects(".json").remove(0);
    let signed_record: serde_json::Value = serde_json::from_str(&team.bucket.read(&record)).unwrap();
    let world = &team.hello.world;
    let name = record.strip_prefix("cache/").unwrap().strip_suffix(".json").unwrap();
    let (sha256, size) = (signed_record["sha256"].as_str().unwrap(), &signed_record["size"]);
    world.write("message", format!("package {name}\nsha256 {sha256}\nsize {size}\n"));
    world.write("signature", signed_record["signature"].as_str().unwrap());
    world.write("allowed", format!("ci {}", world.read("ci.pub")));
    let mut verify = crate::support::process::prepare("bash");
    let script = "ssh-keygen -Y verify -f allowed -I ci -n monopile-cache -s signature <message";
    verify.args(["-ec", script]).current_dir(world.path(""));
    let verification = crate::support::process::RunToEnd::run_to_end(&mut verify);
    assert!(verification.status.success(), "{verification:?}");
    team.delete();
}
