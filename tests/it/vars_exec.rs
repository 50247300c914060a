//! Variables from a program: `--vars-exec`, and `vars_exec` in an env file.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::hello::Hello;
use crate::support::process::{RunToEnd, WaitForEnd, prepare, wait_until};
use crate::support::pty::Pty;
use crate::support::{MONOPILE, Run, World};

const MANIFEST: &str = "name: env\nvalues: [((a)), ((b)), ((c)), ((d))]\n";

fn world() -> World {
    let world = World::new();
    world.write("m.yml", MANIFEST);
    world
}

/// Writes a script that can be run.
fn write_script(world: &World, path: &str, text: &str) {
    let path = world.write(path, format!("#!/bin/sh\n{text}\n"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the `values` of the manifest with these options.
fn values(world: &World, options: &[&str]) -> String {
    let args = ["int", "m.yml", "--path", "/values"].iter().chain(options);
    world.run(args).success().stdout.replace("- ", "").replace('\n', " ")
}

#[test]
fn output_is_yaml_or_json() {
    let world = world();
    world.write("vars.yml", "a: 1\nb: x # y\nc: [z]\nd: 'it''s'\n");
    world.write("vars.json", r#"{"a": true, "b": {"c": null}, "c": "\u00e9", "d": "x"}"#);
    assert_eq!(values(&world, &["--vars-exec", "cat vars.yml"]), "1 x z it's ");
    assert_eq!(values(&world, &["--vars-exec", "cat vars.json"]), "true c: null é x ");
    // Words are split as by a shell, which does not run.
    world.write("$HOME it's", "a: spaces\n");
    let command = r#"cat "\$HOME it's""#;
    assert_eq!(values(&world, &["--vars-exec", command, "-v", "b=1"]), "spaces 1 ((c)) ((d)) ");
    write_script(&world, "../home/mine", "echo \"a: $1\"");
    assert_eq!(values(&world, &["--vars-exec", "~/mine '$HOME'"]), "$HOME ((b)) ((c)) ((d)) ");
    // Standard error of a program that succeeds is not shown, and standard input is empty.
    write_script(&world, "wordy", "echo warning >&2; cat; echo 'a: 1'");
    let run = world.run(["int", "m.yml", "--vars-exec", "./wordy"]).success();
    assert_eq!(run.stderr, "");
}

#[test]
fn program_ranks_between_files_and_the_environment() {
    let world = world();
    world.write("first.yml", "{a: 1, b: 1, c: 1, d: 1}");
    world.write("second.yml", "{b: 2, c: 2}");
    world.write("file.yml", "{c: file}");
    world.write("store.yml", "{a: store, d: store}");
    let exec = ["--vars-exec", "cat first.yml", "--vars-exec", "cat second.yml"];
    let values_with = |extra_args: &[&str]| values(&world, &[&exec[..], extra_args].concat());
    assert_eq!(values_with(&[]), "1 2 2 1 ");
    assert_eq!(values_with(&["-l", "file.yml"]), "1 2 file 1 ");
    assert_eq!(values_with(&["-v", "a=var"]), "var 2 2 1 ");
    assert_eq!(values_with(&["--vars-store", "store.yml"]), "1 2 2 1 ");
    let mut command = world.monopile(["int", "m.yml", "--path", "/values", "--vars-env", "MP"]);
    command.args(&exec[2..]).env("MP_a", "env").env("MP_b", "env");
    assert_eq!(world.finish(command).success().stdout, "- env\n- 2\n- 2\n- ((d))\n");
}

#[test]
fn unusable_program_is_rejected_without_its_secrets() {
    let world = world();
    write_script(
        &world,
        "fails",
        "echo 'a: hush-hush-1'; echo \"denied: hush-hush-1, $STORE_TOKEN\" >&2; exit 1",
    );
    write_script(&world, "noexec", "echo hush-hush");
    std::fs::set_permissions(world.path("noexec"), std::fs::Permissions::from_mode(0o644)).unwrap();
    world.write("broken", "a: [hush-hush");
    world.write("list", "- hush-hush");
    world.write("text", "hush-hush");
    world.write("binary", b"a: hush-hush\nb: \xff");
    world.write("numbered", "{1.5: hush-hush}");
    for (command, code, expected) in [
        ("no-such-program a b", 3, "vars program 'no-such-program' cannot be run"),
        ("./no/such/program", 3, "it or its interpreter does not exist"),
        ("./noexec", 3, "Permission denied"),
        ("./fails", 3, "vars program './fails' exited with 1"),
        ("./fails", 3, "the end of its standard error:\n    denied: <redacted>, <redacted>"),
        ("false", 3, "it wrote nothing to standard error"),
        ("sh -c 'kill -9 $$'", 3, "vars program 'sh' was ended by signal 9"),
        ("cat broken", 3, "output of vars program 'cat':"),
        ("cat list", 3, "the output of vars program 'cat' is a list, not a mapping of names to values"),
        ("cat text", 3, "the output of vars program 'cat' is a string, not a mapping of names to values"),
        ("cat binary", 3, "output of vars program 'cat':2: the output is not UTF-8 text"),
        ("cat numbered", 3, "a variable's name must be a string, and this is a float"),
        ("true", 3, "vars program 'true' printed no variables"),
        ("yes hush-hush", 3, "vars program 'yes' printed more than 16.0 MiB"),
        ("", 2, "the command of --vars-exec is not valid: it names no program"),
        ("  ", 2, "it names no program"),
        ("'' hush-hush", 2, "it names no program"),
        ("cat 'hush-hush", 2, "a quote is not closed"),
    ] {
        for words in
            [&["int", "m.yml"][..], &["plan", "m.yml"], &["vars", "check", "list.yml", "-m", "m.yml"]]
        {
            world.write("list.yml", "{}");
            let mut monopile = world.monopile(words.iter().chain(&["--vars-exec", command]));
            monopile.env("STORE_TOKEN", "hush-hush-2");
            let run = world.finish(monopile).exits_with(code);
            let output: String = run.stdout + &run.stderr;
            let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(flat(&output).contains(&flat(expected)), "{words:?} {command}: {output}");
            assert!(!output.contains("hush-hush"), "{words:?} {command}: {output}");
        }
    }
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

/// Starts a command whose program does not end, and waits until the program runs.
fn start_hanging(world: &World, mut command: Command) -> Child {
    write_script(world, "hangs", "trap '' INT TERM; sleep 600 & touch hangs.running; sleep 600; sleep 600");
    let _ = std::fs::remove_file(world.path("hangs.running"));
    command.args(["--vars-exec", "./hangs x"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until("the program runs", || world.exists("hangs.running"));
    child
}

#[test]
fn signal_ends_the_program_and_the_run() {
    let world = world();
    world.write("store.yml", "{}");
    for (words, signal, code) in [
        (&["int", "m.yml"][..], Signal::INT, 130),
        (&["int", "m.yml"], Signal::TERM, 143),
        (&["plan", "m.yml"], Signal::INT, 130),
        (&["create-env", "m.yml"], Signal::TERM, 143),
        (&["vars", "check", "store.yml", "-m", "m.yml"], Signal::TERM, 143),
    ] {
        let child = start_hanging(&world, world.monopile(words));
        let start = Instant::now();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.end_with_output();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
        // Usually 0.4 s, of which the program gets 0.3 s to end by itself.
        assert!(start.elapsed() < Duration::from_secs(3), "{words:?}: {:?}", start.elapsed());
        wait_until("the program and its children have ended", || world.leftovers().is_empty());
    }
}

#[test]
fn program_cannot_ask_on_the_terminal() {
    let world = world();
    write_script(
        &world,
        "asks",
        "printf 'Passphrase: ' >/dev/tty; read answer </dev/tty; echo \"a: $answer\"",
    );
    let mut command = prepare("setsid");
    world.enter(&mut command).args(["--ctty", MONOPILE, "int", "m.yml", "--vars-exec", "./asks"]);
    command.env("TERM", "xterm-256color");
    let mut pty = Pty::start(command, (100, 30));
    assert_eq!(pty.end(), 3);
    let text = pty.text();
    assert!(text.contains("vars program './asks' asks on the terminal, which it cannot use here"), "{text}");
    assert!(text.contains("log in to the store or unlock it first"), "{text}");
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

/// Returns the secret texts of the vars store.
fn secrets(hello: &Hello) -> Vec<String> {
    fn collect(value: &serde_yaml::Value, texts: &mut Vec<String>) {
        match value {
            serde_yaml::Value::String(text) => texts.extend(text.lines().map(str::to_owned)),
            serde_yaml::Value::Mapping(map) => map.values().for_each(|value| collect(value, texts)),
            _ => {}
        }
    }
    let mut texts = Vec::new();
    collect(&serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap(), &mut texts);
    texts.retain(|text| text.len() >= 8 && !text.starts_with("-----"));
    assert!(texts.len() > 5);
    texts
}

#[test]
fn every_command_runs_the_program_once_and_keeps_its_values_in_memory() {
    let mut hello = Hello::new();
    write_script(&hello.world, "source", "echo run >>../source.runs; cat creds.yml");
    hello.world.write("../more.yml", "port_name: visible-nowhere\nnumber: 71234567\n");
    hello.replace_option("--vars-store", &["--vars-exec", "./source all", "--vars-exec", "cat ../more.yml"]);
    let path = "/instance_groups/0/jobs/0/properties";
    hello.add_ops(
        "kind.yml",
        &format!("- {{type: replace, path: '{path}/kind?', value: ((port_name)) ((number))}}\n"),
    );
    let secrets = secrets(&hello);
    let runs = || {
        let count = hello.world.read("../source.runs").lines().count();
        std::fs::remove_file(hello.world.path("../source.runs")).unwrap();
        count
    };
    let check = |run: Run| {
        let output = run.stdout + &run.stderr;
        for secret in secrets.iter().map(String::as_str).chain(["visible-nowhere", "71234567"]) {
            assert!(!output.contains(secret), "{secret} in {output}");
        }
        assert_eq!(runs(), 1, "{output}");
    };
    check(hello.create(&["--verbose"]).success());
    for words in [
        &["plan"][..],
        &["status"],
        &["logs"],
        &["cpi", "info"],
        &["cpi", "list"],
        &["stop-env"],
        &["start-env"],
        &["cloud-check", "--report"],
        &["create-env"],
    ] {
        check(hello.world.finish(hello.subcommand(words, &[])).success());
    }
    check(hello.world.finish(hello.render_command(&["--job", "hello"])).success());
    // Nothing that stays on this machine has a value: state, logs, history.
    let files = walkdir::WalkDir::new(hello.world.root()).into_iter().flatten();
    for file in files.filter(|entry| entry.file_type().is_file()) {
        let path = file.path().strip_prefix(hello.world.root()).unwrap();
        // The last one is the record of the scripted CPI.
        let secret_files = ["work/creds.yml", "more.yml", "requests.jsonl"];
        // The VM has its settings and jobs.
        if secret_files.iter().any(|name| path.ends_with(name)) || path.starts_with("work/cloud") {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(file.path()).unwrap_or_default()).into_owned();
        let leaked_secret =
            secrets.iter().map(String::as_str).chain(["visible-nowhere"]).find(|one| text.contains(one));
        assert!(leaked_secret.is_none(), "{} has {leaked_secret:?}", path.display());
    }
    check(hello.delete(&[]).success());
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn env_file_names_programs() {
    let world = world();
    std::fs::create_dir(world.path("env")).unwrap();
    write_script(
        &world,
        "env/tools/source",
        "echo \"a: $1\"; echo \"b: $(basename \"$PWD\")\"; echo \"c: $2\"",
    );
    world.write("env/below/deeper", "");
    for (text, expected) in [
        // A path and the working directory are relative to the file.
        ("[tools/source, two words, 3]", "two words env 3 ((d)) "),
        ("[./tools/source, '']", " env  ((d)) "),
        ("[[tools/source, 1], [echo, 'b: 2'], [cat, tools/more.yml]]", "1 2 more ((d)) "),
        ("null", "((a)) ((b)) ((c)) ((d)) "),
    ] {
        world.write("env/tools/more.yml", "c: more");
        world.write("env/.monopile.yml", format!("manifest: ../m.yml\nvars_exec: {text}\n"));
        let mut command = world.monopile(["int", "--path", "/values", "--env-file", "../.monopile.yml"]);
        command.current_dir(world.path("env/below"));
        let output = world.finish(command).success().stdout;
        let output: String =
            output.lines().map(|line| line[2..].trim_matches('\'').to_owned() + " ").collect();
        assert_eq!(output.replace("null", ""), expected, "{text}");
    }
    for (text, expected) in [
        ("[]", ".monopile.yml:1:12: `vars_exec` names no program: write [PROGRAM, ARG]"),
        ("['']", "`vars_exec` names no program"),
        ("[[a], []]", "`vars_exec` names no program"),
        ("'pass show x'", "`vars_exec` must be a list, not a string"),
        ("[[a], b]", "`vars_exec` must be a list, not a string"),
        ("[a, true]", ".monopile.yml:1:16: a word of `vars_exec` must be a string, not a boolean"),
        ("{a: b}", "`vars_exec` must be a list, not a mapping"),
    ] {
        world.write("bad/.monopile.yml", format!("vars_exec: {text}\n"));
        let run = world.run(["int", "m.yml", "--env-file", "bad/.monopile.yml"]).exits_with(3);
        assert!(run.stderr.contains(expected), "{text}: {}", run.stderr);
    }
    world.write("bad/.monopile.yml", "vars_exec: [pass show x]\n");
    let run = world.run(["int", "m.yml", "--env-file", "bad/.monopile.yml"]).exits_with(3);
    assert!(run.stderr.contains("vars_exec: [PROGRAM, ARG]"), "{}", run.stderr);
}

#[test]
fn program_of_an_env_file_runs_only_after_trust() {
    let world = world();
    write_script(&world, "evil", "touch ran; echo 'a: 1'");
    world
        .write(".monopile.yml", "manifest: m.yml\nvars_exec: [[./evil, all of it], [vault, \"a\\e[1mb\"]]\n");
    let shows = |text: &str| {
        assert!(
            text.contains(&format!("run `{} 'all of it'` for variables", world.path("evil").display())),
            "{text}"
        );
        assert!(text.contains("run `vault 'ab'` for variables") && !text.contains('\x1b'), "{text}");
    };
    for words in [&["int"][..], &["plan"], &["vars", "check", "m.yml"]] {
        shows(&world.run(words).exits_with(3).stderr);
    }
    // A broken manifest does not hide them.
    world.write("m.yml", "[");
    shows(&world.run(["int"]).exits_with(3).stderr);
    world.write("m.yml", MANIFEST);
    shows(&world.run(["trust"]).success().stdout);
    let mut pty = {
        let mut command = world.monopile(["int"]);
        world.run(["trust", "--revoke"]).success();
        command.env("TERM", "xterm-256color");
        Pty::start(command, (120, 30))
    };
    let screen = pty.wait_for("the question", |screen| screen.contains("Trust it?"));
    assert!(screen.contains("'all of it'` for variables"), "{screen}");
    pty.press("n\r");
    assert_eq!(pty.end(), 2);
    // Completion runs no program, whether the file is trusted or not.
    world.write(".monopile.yml", "manifest: m.yml\nvars_exec: [./evil]\n");
    for trust in [&["trust", "--revoke"][..], &["trust"]] {
        world.run(trust).success();
        let mut command = world.monopile(["--", "monopile", "int", "m.yml", "-v", ""]);
        command.env("MONOPILE_COMPLETE", "fish");
        assert!(world.finish(command).success().stdout.contains("a="));
    }
    assert!(!world.exists("ran"));
    world.run(["int"]).success();
    assert!(world.exists("ran"));
}

/// A password store with a key of its own, and without a passphrase.
struct PasswordStore<'w> {
    world: &'w World,
}

impl<'w> PasswordStore<'w> {
    fn new(world: &'w World) -> Self {
        // The first program, so that a machine without `pass` fails by its name.
        assert!(world.enter(prepare("pass").arg("version")).run_to_end().status.success());
        let store = PasswordStore { world };
        std::fs::create_dir(store.gnupg()).unwrap();
        std::fs::set_permissions(store.gnupg(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let key =
            ["--batch", "--passphrase", "", "--quick-generate-key", "operator", "ed25519", "sign", "never"];
        store.run("gpg", &key, "");
        let key_list = store.run("gpg", &["--batch", "--with-colons", "--list-keys"], "");
        let fingerprint = key_list.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).unwrap();
        let fingerprint = fingerprint.trim_end_matches(':');
        let subkey =
            ["--batch", "--passphrase", "", "--quick-add-key", fingerprint, "cv25519", "encr", "never"];
        store.run("gpg", &subkey, "");
        store.run("pass", &["init", fingerprint], "");
        store
    }

    fn gnupg(&self) -> std::path::PathBuf {
        self.world.home().join("gnupg")
    }

    fn enter(&self, command: &mut Command) {
        command.env("GNUPGHOME", self.gnupg());
    }

    fn run(&self, program: &str, args: &[&str], input: &str) -> String {
        let mut command = prepare(program);
        self.world.enter(&mut command).args(args);
        self.enter(&mut command);
        let output = command.run_with_input(input.as_bytes());
        assert!(output.status.success(), "{program} {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for PasswordStore<'_> {
    fn drop(&mut self) {
        // The agent of GnuPG outlives its callers.
        let mut command = prepare("gpgconf");
        self.world.enter(&mut command).args(["--kill", "all"]);
        self.enter(&mut command);
        if let Ok(mut child) = command.spawn() {
            child.stop();
        }
    }
}

#[test]
fn pass_is_a_source() {
    let world = world();
    {
        let store = PasswordStore::new(&world);
        let secret = "a: hush-hush-pass\nb: {c: 2}\n";
        store.run("pass", &["insert", "--multiline", "bosh/prod"], secret);
        let interpolate = |entry: &str| {
            let command = format!("pass show {entry}");
            let mut command = world.monopile(["int", "m.yml", "--path", "/values", "--vars-exec", &command]);
            store.enter(&mut command);
            world.finish(command)
        };
        let run = interpolate("bosh/prod").success();
        assert_eq!(run.stdout, "- hush-hush-pass\n- c: 2\n- ((c))\n- ((d))\n");
        let run = interpolate("bosh/test").exits_with(3);
        for part in ["vars program 'pass' exited with 1", "bosh/test is not in the password store"] {
            assert!(run.stderr.contains(part), "{}", run.stderr);
        }
        // The key is gone.
        store.run("gpgconf", &["--kill", "all"], "");
        std::fs::remove_dir_all(store.gnupg().join("private-keys-v1.d")).unwrap();
        let run = interpolate("bosh/prod").exits_with(3);
        assert!(run.stderr.contains("decryption failed"), "{}", run.stderr);
    }
    wait_until("the agent of GnuPG ends", || world.leftovers().is_empty());
}
