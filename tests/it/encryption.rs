//! State and vars store encrypted with age, for operators who keep them in a repository.

use crate::support::process::{RunToEnd, prepare};
use std::path::PathBuf;

use age::secrecy::ExposeSecret;
use age::x25519::Identity;

use crate::support::Run;
use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Interruption, Script};

const ARMOR: &str = "-----BEGIN AGE ENCRYPTED FILE-----\n";

/// Generates an identity in `key.txt` and returns its recipient.
fn generate_identity(hello: &Hello) -> String {
    let identity = Identity::generate();
    hello.world.write("key.txt", format!("# mine\n{}\n", identity.to_string().expose_secret()));
    identity.to_public().to_string()
}

fn create(hello: &Hello, recipient: &str) -> Run {
    hello.create(&["--encrypt-to", recipient, "--identity", "key.txt"])
}

/// Returns the files that would be in a repository: the state with its documents, and the vars store.
fn repository_files(hello: &Hello) -> Vec<PathBuf> {
    let mut files = hello.find("work", "state.json");
    for folder in ["state.json.versions", "state.json.journal"] {
        let entries = std::fs::read_dir(hello.world.path(folder)).into_iter().flatten().flatten();
        files.extend(entries.map(|entry| entry.path()));
    }
    files.retain(|path| !path.ends_with("state.json.lock"));
    files.push(hello.world.path("creds.yml"));
    files
}

#[track_caller]
fn check_all_sealed(hello: &Hello, at_least: usize) {
    let files = repository_files(hello);
    assert!(files.len() >= at_least, "{files:?}");
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(ARMOR), "'{}' is plain: {text}", path.display());
    }
}

#[test]
fn all_files_are_encrypted_from_the_first_write() {
    let hello = Hello::new();
    let recipient = generate_identity(&hello);
    create(&hello, &recipient).success();
    check_all_sealed(&hello, 3);

    let identity = ["--identity", "key.txt"];
    let show = |extra_args: &[&str]| {
        hello.world.finish(hello.state_command(&[&["state", "show"], extra_args].concat()))
    };
    let run = show(&[]).exits_with(3);
    assert!(run.stderr.contains("encrypted with age") && run.stderr.contains("--identity"), "{}", run.stderr);
    assert!(show(&identity).success().stdout.contains("vm-"));
    hello.world.write("other.txt", Identity::generate().to_string().expose_secret().as_bytes());
    let run = show(&["--identity", "other.txt"]).exits_with(3);
    assert!(run.stderr.contains("not for the identity"), "{}", run.stderr);

    // An operator who can decrypt the state still cannot write it in plain text by accident.
    let stored_text_before = hello.world.read("state.json");
    let run = hello.create(&["--identity", "key.txt", "--recreate"]).exits_with(2);
    assert!(run.stderr.contains("would write it in plain text"), "{}", run.stderr);
    assert!(run.stderr.contains("--encrypt-to"), "{}", run.stderr);
    assert_eq!(hello.world.read("state.json"), stored_text_before);
    let list = hello.world.run(["vars", "list", "creds.yml", "--identity", "key.txt"]).success();
    assert!(list.stdout.contains("mbus_bootstrap_password"), "{}", list.stdout);
    let run =
        hello.world.run(["vars", "rotate", "creds.yml", "mbus_bootstrap_password", "--identity", "key.txt"]);
    assert!(run.exits_with(2).stderr.contains("is encrypted, but no recipients are given"));

    // The recipients are in a file; the environment names both files.
    hello.world.write("recipients", format!("# all of us\n{recipient}\n\n"));
    let mut command = hello.command("create-env", &["--recreate"]);
    command.env("MONOPILE_ENCRYPT_TO", "recipients").env("MONOPILE_IDENTITY", "key.txt");
    hello.world.finish(command).success();
    check_all_sealed(&hello, 4);
    let versions = hello.world.finish(hello.state_command(&["state", "backup", "--identity", "key.txt"]));
    assert!(versions.success().stdout.contains("stemcell-"));
    hello.delete(&["--encrypt-to", &recipient, "--identity", "key.txt"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn encrypted_vars_store_is_read_with_its_identity() {
    let hello = Hello::new();
    let recipient = generate_identity(&hello);
    let world = &hello.world;
    world.write("m.yml", "password: ((password))\nvariables:\n- {name: password, type: password}\n");
    world.run(["int", "m.yml", "--vars-store", "s.yml", "--encrypt-to", &recipient]).success();
    let ciphertext = world.read("s.yml");
    assert!(ciphertext.starts_with(ARMOR));
    let get = ["vars", "get", "s.yml", "/password"];
    let run = world.run(get).exits_with(3);
    assert!(run.stderr.contains("--identity"), "{}", run.stderr);
    let read = |words: &[&str]| world.run([words, &["--identity", "key.txt"]].concat()).success().stdout;
    let password = read(&get);
    assert!(password.trim_end().len() >= 20, "{password}");
    assert_eq!(read(&["int", "s.yml", "--path", "/password"]), password);
    assert_eq!(read(&["int", "m.yml", "--vars-store", "s.yml", "--path", "/password"]), password);
    assert_eq!(read(&["int", "m.yml", "-l", "s.yml", "--path", "/password"]), password);
    assert!(read(&["vars", "list", "s.yml"]).contains("password"));
    assert!(read(&["vars", "check", "s.yml", "-m", "m.yml"]).contains("nothing needs attention"));
    assert_eq!(world.read("s.yml"), ciphertext, "the file was written");
    let run = world.run(["int", "s.yml", "--path", "/password"]).exits_with(3);
    assert!(run.stderr.contains("--identity"), "{}", run.stderr);
}

#[test]
fn plain_state_is_encrypted_with_all_its_files() {
    let mut hello = Hello::new();
    hello.create(&[]).success();
    hello.add_ops(
        "property.yml",
        "- {type: replace, path: /instance_groups/name=hello/jobs/name=hello/properties/changed?, value: \
            yes}\n",
    );
    hello.create(&[]).success();
    assert!(repository_files(&hello).len() >= 4 && hello.world.read("state.json").starts_with('{'));
    let recipient = generate_identity(&hello);
    assert!(create(&hello, &recipient).success().stdout.contains("Nothing to do"));
    check_all_sealed(&hello, 4);
    let bytes =
        || repository_files(&hello).iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>();
    let bytes_before = bytes();
    assert!(create(&hello, &recipient).success().stdout.contains("Nothing to do"));
    assert_eq!(bytes(), bytes_before, "a repository sees no change where there is none");
    hello.delete(&["--encrypt-to", &recipient, "--identity", "key.txt"]).success();
}

#[test]
fn killed_run_leaves_no_plain_text_and_can_resume() {
    let hello = Hello::new();
    let recipient = generate_identity(&hello);
    // The third call is `create_vm`, after `info` and `create_stemcell`.
    hello.set_script(Script::with_interruption(3, Interruption::After));
    assert_eq!(create(&hello, &recipient).code, -1);
    hello.wait_until_idle();
    check_all_sealed(&hello, 3);
    assert_eq!(hello.find("work/state.json.journal", "").len(), 1, "the answer is not where the state is");
    hello.set_script(Script::with_info(InfoAnswer::Local));
    let run = create(&hello, &recipient).success();
    assert!(run.stdout.contains("the `create_vm` of an earlier run: done"), "{}", run.stdout);
    assert_eq!(hello.cloud().iter().filter(|cid| cid.starts_with("vm-")).count(), 1);
    hello.delete(&["--encrypt-to", &recipient, "--identity", "key.txt"]).success();
    // The scratch directory of the killed run stays, because a CPI might still read it.
    assert!(
        hello.leftovers().iter().all(|leftover| leftover.contains("/tmp/monopile-")),
        "{:?}",
        hello.leftovers()
    );
}

#[test]
fn bucket_holds_no_plain_text() {
    let mut hello = Hello::new();
    let bucket = hello.share();
    let recipient = generate_identity(&hello);
    hello.set_script(Script::with_interruption(3, Interruption::After));
    assert_eq!(create(&hello, &recipient).code, -1);
    hello.wait_until_idle();
    hello.wait_for_keeper();
    let keys = bucket.keys();
    assert!(
        keys.iter().any(|key| key.ends_with(".answer")) && keys.iter().any(|key| key.ends_with(".intent")),
        "{keys:?}"
    );
    for key in keys {
        assert!(bucket.read(&key).starts_with(ARMOR), "{key}");
    }
    hello.change_machine();
    hello.set_script(Script::with_info(InfoAnswer::Local));
    let run = create(&hello, &recipient).success();
    assert!(run.stdout.contains("the `create_vm` of an earlier run: done"), "{}", run.stdout);
    hello.delete(&["--encrypt-to", &recipient, "--identity", "key.txt"]).success();
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

#[test]
fn rejects_invalid_recipients_and_identities() {
    let hello = Hello::new();
    hello.world.write("empty", "# none\n");
    hello.world.write("key.txt", "AGE-SECRET-KEY-1NOTREALLY\n");
    for (options, part) in [
        (["--encrypt-to", "age1nobody"], "is not an age recipient"),
        (["--encrypt-to", "key.txt"], "line 1 of 'key.txt' (--encrypt-to, MONOPILE_ENCRYPT_TO) is not valid"),
        (["--encrypt-to", "AGE-SECRET-KEY-1NOTREALLY"], "it is a private key, not an age recipient"),
        (["--identity", "AGE-SECRET-KEY-1NOTREALLY"], "takes the path of a file"),
        (["--encrypt-to", "/dev/zero"], "larger than"),
        (["--identity", "/dev/zero"], "larger than"),
        (
            ["--encrypt-to", "missing"],
            "'missing' (--encrypt-to, MONOPILE_ENCRYPT_TO) is neither an age recipient (age1…) nor a file",
        ),
        (["--encrypt-to", "empty"], "(--encrypt-to, MONOPILE_ENCRYPT_TO) has no recipient"),
        (["--identity", "missing"], "'missing' (--identity, MONOPILE_IDENTITY) does not exist"),
        (["--identity", "key.txt"], "not an age identity file"),
    ] {
        let code = if options == ["--identity", "missing"] { 3 } else { 2 };
        let run = hello.create(&options).exits_with(code);
        assert!(run.stderr.contains(part), "{options:?}: {}", run.stderr);
        let output = run.stdout + &run.stderr;
        assert!(!output.contains("NOTREALLY"), "{output}");
    }
    assert!(!hello.world.exists("state.json"));
    // A variable for all commands does not matter to those that encrypt and decrypt nothing.
    let mut version = hello.world.monopile(["version"]);
    version.env("MONOPILE_ENCRYPT_TO", "missing").env("MONOPILE_IDENTITY", "missing");
    hello.world.finish(version).success();
}

#[test]
fn changed_recipients_reencrypt_all_files_at_once() {
    let mut hello = Hello::new();
    let bucket = hello.share();
    let mine = generate_identity(&hello);
    let other = Identity::generate();
    hello.world.write("other.txt", other.to_string().expose_secret().as_bytes());
    let theirs = other.to_public().to_string();
    create(&hello, &mine).success();
    hello.add_ops(
        "property.yml",
        "- {type: replace, path: /instance_groups/name=hello/jobs/name=hello/properties/changed?, value: \
            yes}\n",
    );
    create(&hello, &mine).success();
    let all = || {
        let mut all: Vec<(String, Vec<u8>)> =
            bucket.keys().into_iter().map(|key| (key.clone(), bucket.get(&key).unwrap())).collect();
        all.push(("creds.yml".into(), hello.world.read("creds.yml").into_bytes()));
        all
    };
    let bytes_before = all();
    assert!(bytes_before.len() >= 3, "{bytes_before:?}");
    let assert_unchanged = |recipients: &str, key: &str| {
        let run = hello.create(&["--encrypt-to", recipients, "--identity", key]).success();
        assert!(run.stdout.contains("Nothing to do"), "{}", run.stdout);
    };
    assert_unchanged(&mine, "key.txt");
    assert_eq!(all(), bytes_before, "what nothing changed in is not encrypted anew");

    // A new recipient can read everything from now on, with the program and with age itself.
    let recipients = format!("{mine},{theirs}");
    hello.world.write("recipients", recipients.replace(',', "\n"));
    assert_unchanged("recipients", "key.txt");
    assert!(all().iter().zip(&bytes_before).all(|(new, old)| new.0 == old.0 && new.1 != old.1));
    for (name, ciphertext) in all() {
        hello.world.write("sealed", ciphertext);
        let mut age = prepare("age");
        age.args(["-d", "-i"]).arg(hello.world.path("other.txt")).arg(hello.world.path("sealed"));
        let decryption = age.run_to_end();
        assert!(decryption.status.success(), "{name}: {decryption:?}");
    }
    let bytes_before = all();
    assert_unchanged("recipients", "other.txt");
    assert_eq!(all(), bytes_before);

    // A removed recipient can no longer read anything.
    assert_unchanged(&theirs, "other.txt");
    let show = |key: &str| hello.world.finish(hello.state_command(&["state", "show", "--identity", key]));
    let failed_run = show("key.txt").exits_with(3);
    assert!(failed_run.stderr.contains("not for the identity"), "{}", failed_run.stderr);
    assert!(show("other.txt").success().stdout.contains("vm-"));
    let versions = hello.world.finish(hello.state_command(&["state", "backup", "--identity", "other.txt"]));
    assert!(versions.success().stdout.contains("stemcell-"));
    hello.create(&["--encrypt-to", &mine, "--identity", "key.txt"]).exits_with(3);
    hello.delete(&["--encrypt-to", &theirs, "--identity", "other.txt"]).success();
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

#[test]
fn run_that_could_not_read_again_what_it_encrypts_changes_nothing() {
    let hello = Hello::new();
    let recipient = generate_identity(&hello);
    hello.world.write("other.txt", Identity::generate().to_string().expose_secret().as_bytes());
    let text_before = hello.world.read("creds.yml");
    let no_identity = ["--encrypt-to", &recipient];
    let other_identity = ["--encrypt-to", &recipient, "--identity", "other.txt"];
    let is_refused = || {
        let run = hello.create(&no_identity).exits_with(2);
        for text in ["this run has no identity to read it again", "--identity FILE", "nothing was changed"] {
            assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
        }
        let run = hello.create(&other_identity).exits_with(2);
        for text in ["do not include the owner of the identity", "add your own public key"] {
            assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
        }
        assert_eq!(hello.world.read("creds.yml"), text_before);
    };
    is_refused();
    assert!(!hello.world.exists("state.json"));
    hello.create(&[]).success();
    let state = hello.world.read("state.json");
    is_refused();
    assert_eq!(hello.world.read("state.json"), state);
    hello.delete(&no_identity).exits_with(2);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn vars_store_is_encrypted_without_an_identity() {
    let hello = Hello::new();
    let recipient = generate_identity(&hello);
    let world = &hello.world;
    // A machine that only generates values needs no identity. The plain store is encrypted first.
    world.write("s.yml", "known: one\n");
    world.write("m.yml", "variables: [{name: password, type: password}]\nx: ((known))\n");
    world.run(["int", "m.yml", "--vars-store", "s.yml", "--encrypt-to", &recipient]).success();
    assert!(world.read("s.yml").starts_with(ARMOR));
    let read = ["int", "m.yml", "-l", "s.yml", "--identity", "key.txt", "--path", "/x"];
    assert_eq!(world.run(read).success().stdout, "one\n");
    let password = world.run(["vars", "get", "s.yml", "/password", "--identity", "key.txt"]).success().stdout;
    assert!(password.len() >= 20, "{password}");
}
