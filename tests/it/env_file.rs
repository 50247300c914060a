//! The env file: its settings apply unless the command line overrides them. An env file that was found, not
//! named, is used only after the operator allowed it.

use std::os::unix::fs::{PermissionsExt, symlink};

use crate::support::World;
use crate::support::hello::Hello;
use crate::support::pty::Pty;

const MANIFEST: &str = "name: ((name))\nvalues: [((a)), ((b)), ((c)), ((d))]\n";

/// Returns a world whose env file names all inputs of a manifest.
fn world() -> World {
    let world = World::new();
    world.write("env/bosh.yml", MANIFEST);
    world.write("env/ops.yml", "- {type: replace, path: /from?, value: file}\n");
    world.write("env/vars.yml", "a: vars file\nb: vars file\n");
    world.write("env/text", "text");
    world.write(
        "env/.monopile.yml",
        "manifest: bosh.yml\nops_files: [ops.yml]\nvars: {name: 'x: y', a: 5}\n\
         vars_files: [vars.yml]\nvar_files: {c: text}\nvars_env: [MP]\n",
    );
    world.finish(inside(&world, "env", &["trust"])).success();
    world
}

fn inside(world: &World, directory: &str, args: &[&str]) -> std::process::Command {
    let mut command = world.monopile(args);
    command.current_dir(world.path(directory)).env("MP_d", "from the environment");
    command
}

#[test]
fn command_without_options_uses_and_names_the_env_file() {
    let world = world();
    std::fs::create_dir_all(world.path("env/below/deeper")).unwrap();
    let expected = "from: file\nname: 'x: y'\nvalues:\n- 5\n- vars file\n- text\n- from the environment\n";
    for (directory, path) in [
        ("env", ".monopile.yml".to_owned()),
        ("env/below/deeper", world.path("env/.monopile.yml").display().to_string()),
    ] {
        let run = world.finish(inside(&world, directory, &["int"])).success();
        assert_eq!(run.stdout, expected);
        let keys = "manifest, ops_files, vars, vars_files, var_files and vars_env";
        assert!(run.stderr.contains(&format!("note: using {keys} of '{path}'")), "{}", run.stderr);
    }
    let by_option = world.finish(inside(&world, ".", &["int", "--env-file", "env/.monopile.yml"])).success();
    assert_eq!(by_option.stdout, expected);
}

#[test]
fn options_take_precedence_over_the_env_file() {
    let world = world();
    world.write("env/mine.yml", "a: mine\n");
    world.write("env/more.yml", "- {type: replace, path: /from, value: command line}\n");
    let value = |options: &[&str], path: &str| {
        let args: Vec<&str> = ["int", "--path", path].iter().chain(options).copied().collect();
        world.finish(inside(&world, "env", &args)).success().stdout
    };
    // A vars file on the command line overrides values of the env file. Among options, a value overrides a
    // vars file.
    assert_eq!(value(&["-l", "mine.yml"], "/values/0"), "mine\n");
    assert_eq!(value(&["--vars-env", "ZZ"], "/values/0"), "5\n");
    assert_eq!(value(&["-v", "c=1"], "/values/2"), "1\n");
    assert_eq!(value(&["--var-file", "b=text"], "/values/1"), "text\n");
    assert_eq!(value(&["-o", "more.yml"], "/from"), "command line\n");
}

#[test]
fn env_file_applies_only_to_its_manifest_unless_named() {
    let world = world();
    world.write("env/other.yml", "name: ((name))\n");
    let run = world.finish(inside(&world, "env", &["int", "other.yml"])).success();
    assert_eq!(run.stdout, "name: ((name))\n");
    assert!(
        run.stderr
            .contains("env file '.monopile.yml' names manifest 'bosh.yml', so it is ignored for 'other.yml'"),
        "{}",
        run.stderr
    );
    let args = ["int", "other.yml", "--env-file", ".monopile.yml"];
    assert_eq!(world.finish(inside(&world, "env", &args)).success().stdout, "from: file\nname: 'x: y'\n");
    // The same manifest with another path still matches.
    let absolute = world.path("env/../env/bosh.yml");
    let run = world.finish(inside(&world, "env", &["int", absolute.to_str().unwrap()])).success();
    assert!(run.stdout.contains("from: file"), "{}", run.stdout);
}

#[test]
fn manifest_is_required_without_an_env_file() {
    let world = world();
    let failed_run = world.finish(inside(&world, "env", &["int", "--no-env-file"])).exits_with(2);
    let expected = "error: no manifest is given\n  hint: name it: `monopile int MANIFEST --no-env-file`\n";
    assert_eq!(failed_run.stderr, expected);
    for (args, expected) in [
        (
            &["status"][..],
            "error: no environment is given\n  hint: name it: `monopile status MANIFEST`\n  hint: or set \
             `manifest` in a file .monopile.yml, here or in a directory above\n",
        ),
        (
            &["vars", "list"],
            "error: no vars store is given\n  hint: name it: `monopile vars list STORE`\n  hint: or set \
             `vars_store` in ",
        ),
        (
            &["render"],
            "error: `render` needs a MANIFEST and --job NAME\n  hint: add them: `monopile render \
             MANIFEST --job NAME`\n",
        ),
        (
            &["vars", "rotate"],
            "error: `vars rotate` needs a STORE and a NAME\n  hint: add them: `monopile vars rotate STORE \
             NAME`\n",
        ),
        (
            &["render", "bosh.yml"],
            "needs --job NAME\n  hint: add it: `monopile render bosh.yml --job NAME`\n",
        ),
        (&["delete-disk", "x"], "error: `delete-disk` needs a CID\n  hint: name the manifest first"),
        (&["cpi", "call"], "error: no CPI method is given\n"),
        (
            &["-e", "x", "status"],
            "hint: -e names a director, not an environment; name it: `monopile status MANIFEST`\n",
        ),
        (
            &["vars", "get", "/x"],
            "error: no vars store is given\n  hint: name it: `monopile vars get STORE /x`\n",
        ),
    ] {
        let failed_run = world.finish(inside(&world, ".", args)).exits_with(2);
        assert!(failed_run.stderr.contains(expected), "{}", failed_run.stderr);
    }
    let run = world.finish(inside(&world, "env", &["int", "--no-env-file", "bosh.yml"])).success();
    assert!(run.stdout.contains("((name))") && run.stderr.is_empty(), "{}", run.stderr);
    // An env file without a manifest does not make the argument optional.
    world.write("env/.monopile.yml", "vars: {name: x}\n");
    world.finish(inside(&world, "env", &["trust"])).success();
    let failed_run = world.finish(inside(&world, "env", &["int"])).exits_with(2);
    assert!(
        failed_run.stderr.contains("hint: or add `manifest` to the env file '.monopile.yml'"),
        "{}",
        failed_run.stderr
    );
    let run = world.finish(inside(&world, "env", &["int", "bosh.yml", "--path", "/name"])).success();
    assert_eq!(run.stdout, "x\n");
}

#[test]
fn rejects_unknown_keys_and_names_their_line() {
    let world = World::new();
    world.write("bosh.yml", "name: x\n");
    for (text, expected) in [
        (
            "ops_file: [a]\n",
            ".monopile.yml:1:1: the env file has the unknown key 'ops_file'\n  hint: did you mean \
             'ops_files'?\n",
        ),
        (
            "recreate: true\n",
            "error: .monopile.yml:1:1: the env file has the unknown key 'recreate'\n  hint: see the \
             keys of env files and their values: `monopile help env-file keys`\n",
        ),
        ("manifest: bosh.yml\nops_files: ops.yml\n", ":2:12: `ops_files` must be a list, not a string"),
        ("parallel: [3]\n", ":1:11: `parallel` must be a string, not a list"),
        ("sha2: 1\n", ":1:7: `sha2` must be true or false, not an integer"),
        (
            "manifest: bosh.yml\nparallel: many\n",
            ":2:11: `parallel`: invalid value 'many': expected a whole number of at least 1, such as 5",
        ),
        ("- a\n", ".monopile.yml:1:1: the env file is a list, not a mapping"),
        ("manifest: bosh.yml\nmanifest: x\n", ".monopile.yml:2:1"),
        ("a: 1\nb: 2\n", "2 problems"),
    ] {
        world.write(".monopile.yml", text);
        // This fails if the file is not valid.
        world.run(["trust"]);
        let run = world.run(["create-env"]).exits_with(3);
        assert!(run.stderr.contains(expected), "{text}: {}", run.stderr);
        assert!(run.stderr.contains("--no-env-file`"), "{}", run.stderr);
        let json = world.run(["--json", "create-env"]).exits_with(3);
        assert_eq!(json.json().last().unwrap()["exit_code"], 3);
    }
    let run = world.run(["create-env", "--env-file", "none.yml"]).exits_with(3);
    assert!(run.stderr.contains("env file 'none.yml' does not exist"), "{}", run.stderr);
}

#[test]
fn env_files_of_other_users_are_not_used() {
    let world = world();
    // Only root can change a file's owner, so the rest needs root.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::os::unix::fs::chown(world.path("env/.monopile.yml"), Some(4711), None).unwrap();
    let run = world.finish(inside(&world, "env", &["int", "bosh.yml"])).success();
    assert!(run.stdout.contains("((name))"), "{}", run.stdout);
    assert!(run.stderr.contains("is ignored, because it belongs to another user"), "{}", run.stderr);
    let mut called_by_sudo = inside(&world, "env", &["int"]);
    called_by_sudo.env("SUDO_UID", "4711");
    assert!(world.finish(called_by_sudo).success().stdout.contains("from: file"));
}

#[test]
fn vars_and_state_commands_use_the_env_file() {
    let world = World::new();
    world.write("bosh.yml", "name: x\nvariables: [{name: p, type: password}]\nv: ((p))((q))\n");
    world.write(
        ".monopile.yml",
        "manifest: bosh.yml\nvars: {q: 1}\nvars_store: creds.yml\nstate: dir/s.json\n",
    );
    world.run(["trust"]).success();
    world.run(["int"]).success();
    let output = world.run(["vars", "list"]).success().stdout;
    assert!(output.contains("p\t") && !output.contains("q\t"), "{output}");
    world.run(["vars", "check"]).success();
    let text_before = world.read("creds.yml");
    world.run(["vars", "rotate", "p"]).success();
    assert_ne!(world.read("creds.yml"), text_before);
    world.write("creds.yml", "p: {not: a password}\n");
    // The manifest of the env file declares the value.
    world.run(["vars", "check"]).exits_with(3);
    let run = world.run(["state", "show"]).exits_with(3);
    assert!(run.stderr.contains("dir/s.json"), "{}", run.stderr);
    let run = world.run(["state", "show", "--no-env-file"]).exits_with(2);
    assert!(run.stderr.contains("no environment is given"), "{}", run.stderr);
    let run = world.run(["state", "backup", "--state", "t.json", "--keep"]).exits_with(3);
    assert!(run.stderr.contains("t.json") && !run.stderr.contains("s.json"), "{}", run.stderr);
}

#[test]
fn options_in_the_file_are_validated_like_the_command_line() {
    let world = World::new();
    world.write(
        "bosh.yml",
        "name: x\ncloud_provider: {cpi: {builtin: local}, mbus: 'https://a:b@127.9.9.9:6868'}\n",
    );
    let stderr_of = |text: &str, args: &[&str], code: i32| {
        world.write(".monopile.yml", format!("manifest: bosh.yml\n{text}\n"));
        world.run(["trust"]).success();
        world.run(args).exits_with(code).stderr
    };
    // Each value is validated like the option.
    for (text, expected) in [
        ("update_strategy: never", "`update_strategy` must be one of auto, in-place, recreate, not 'never'"),
        ("log_format: xml", "`log_format` must be one of "),
        ("renderer: perl", "`renderer` must be one of "),
        // The earlier name of the key.
        ("cpi_api_version: 9", "invalid value '9': "),
        ("cpi_timeout: soon", "`cpi_timeout`: invalid value 'soon': "),
        ("wait_for_lock: soon", "`wait_for_lock`: invalid value 'soon': "),
        ("drain_timeout: soon", "`drain_timeout`: invalid value 'soon': "),
        ("cpi_config: cpis.yml", "CPI config 'cpis.yml' does not exist"),
        ("cloud_config: cloud.yml", "cloud config 'cloud.yml' does not exist"),
        ("vars_files: [no.yml]", "vars file 'no.yml' does not exist"),
        ("ops_files: [no.yml]", "ops file 'no.yml' does not exist"),
    ] {
        let stderr = stderr_of(text, &["create-env"], 3);
        assert!(stderr.contains(expected), "{text}: {stderr}");
    }
    world.write(
        "bosh-state.json",
        r#"{"director_id": "d", "installation_id": "i", "current_vm_cid": "vm-1", "current_stemcell_id": "",
            "current_disk_id": "", "current_release_ids": [], "current_manifest_sha": "", "disks": [],
            "stemcells": [], "releases": []}"#,
    );
    world.write("key", "");
    // The gateway to the VM: an option or variable overrides it.
    let stderr =
        stderr_of("gw_host: -oProxyCommand=x", &["ssh", "-c", "id", "-i", "key", "--insecure-agent"], 2);
    assert!(stderr.contains("has characters that ssh does not accept"), "{stderr}");
    let stderr = stderr_of(
        "gw_host: -oProxyCommand=x",
        &["ssh", "-c", "id", "-i", "key", "--insecure-agent", "--gw-disable"],
        255,
    );
    assert!(!stderr.contains("has characters that ssh does not accept"), "{stderr}");
    // A secret in the env file is redacted.
    world.write("secret.yml", "name: ((secret))\ninstance_groups: ((secret))\n");
    world.write(".monopile.yml", "manifest: secret.yml\nvars: {secret: s3cret-in-env-file}\n");
    let run = world.run(["trust"]).success();
    assert!(!run.stdout.contains("s3cret-in-env-file"), "{}", run.stdout);
    let run = world.run(["create-env"]).exits_with(3);
    assert!(!run.stderr.contains("s3cret-in-env-file"), "{}", run.stderr);
}

#[test]
fn env_file_replaces_all_options_from_create_to_delete() {
    let hello = Hello::new();
    let text = hello.env_file("state.json", "creds.yml") + "parallel: 2\n";
    hello.world.write(".monopile.yml", text);
    hello.world.run(["trust"]).success();
    hello.world.run(["create-env"]).success();
    assert_eq!(hello.ask_counter(), 1);
    assert!(hello.world.exists("state.json") && hello.world.exists("creds.yml"));
    let run = hello.world.run(["render", "--job", "hello"]).success();
    assert!(run.stdout.contains("8580"), "{}", run.stdout);
    hello.world.run(["stop-env"]).success();
    hello.world.run(["start-env"]).success();
    assert!(hello.world.run(["state", "verify"]).success().stdout.contains("as recorded"));
    assert!(hello.world.run(["cpi", "info"]).success().stdout.contains("api_version"));
    assert!(hello.world.run(["cpi", "call", "has_disk", "none"]).success().stdout.contains("false"));
    hello.world.run(["-n", "delete-env"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Writes a repository whose manifest names a program of its own as CPI.
fn write_hostile_repository(world: &World) {
    let evil = world.write("repo/evil", "#!/bin/sh\ntouch ../ran\n");
    std::fs::set_permissions(evil, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.write(
        "repo/bosh.yml",
        "name: x\ncloud_provider: {cpi: {path: ((cpi))}, mbus: 'https://u:p4ssw0rd@evil.test:6868', \
         userland: {url: 'https://u:p4ssw0rd@root.test/fs.tgz', files: [~/.aws/credentials], \
         compile_with_network: true}}\n\
         releases: [{name: r, url: r.tgz}]\n",
    );
    world.write(
        "repo/cpis.yml",
        "cpis:\n- {name: a, type: x, exec_path: ./worse, userland: 'https://other.test/fs.tgz'}\n\
         - {name: b, type: local, userland: {url: b.tgz, files: [/etc/secret]}}\n\
         - {name: c, type: qemu, userland: host}\n",
    );
    world.write(
        "repo/.monopile.yml",
        "manifest: bosh.yml\nvars: {cpi: ./evil}\nvars_env: [AWS]\nstate: state.json\n\
         package_dir: packages\ncpi_config: cpis.yml\n\
         encrypt_to: age1hvrg7w20uq4m4gfmnrfgkedryx5wvpxcfhcuywt9f4d8fkvlm50q3q8qqe\n",
    );
    world.write(
        "repo/state.json",
        r#"{"director_id": "d", "installation_id": "i", "current_vm_cid": "vm-1", "current_stemcell_id": "",
            "current_disk_id": "", "current_release_ids": [], "current_manifest_sha": "", "disks": [],
            "stemcells": [], "releases": []}"#,
    );
}

#[test]
fn discovered_env_file_is_used_only_after_trust() {
    let world = World::new();
    write_hostile_repository(&world);
    for args in [
        &["status"][..],
        &["cloud-check", "--report"],
        &["create-env"],
        &["interpolate"],
        &["state", "show"],
        &["vars", "list"],
        &["history"],
        &["--json", "cpi", "info"],
        &["-n", "delete-env"],
    ] {
        let run = world.finish(inside(&world, "repo", args)).exits_with(3);
        let output = run.stdout + &run.stderr;
        for part in [
            "the env file '.monopile.yml' is not trusted yet",
            "run the program './evil' as CPI",
            "run compiled CPIs that are in 'packages'",
            "read 'bosh.yml'",
            "read the environment variables AWS_*",
            "contact evil.test:6868",
            "run the program './worse' as CPI 'a'",
            "run the CPI 'b' of type 'local'",
            "run packaging scripts with the network of this machine, in 'https://root.test/fs.tgz'",
            "read '~/.aws/credentials'",
            "read '/etc/secret'",
            "read 'b.tgz'",
            "read 'r.tgz'",
            "encrypt state and vars store for 'age1hvrg7w20",
            "contact root.test",
            "contact other.test",
            "`monopile trust ",
            "--env-file ",
        ] {
            assert!(output.contains(part), "{args:?}: no `{part}` in {output}");
        }
        assert!(!output.contains("p4ssw0rd") && !output.contains("read 'host'"), "{output}");
    }
    assert!(!world.exists("ran"));
    // The command of the hint can be pasted.
    let failed_run = world.finish(inside(&world, "repo", &["int"])).exits_with(3);
    let command = failed_run.stderr.lines().find_map(|line| line.split_once(": `monopile trust "));
    let file = command.unwrap().1.trim().trim_end_matches('`').to_owned();
    let trust = world.run(["trust", &file]).success();
    assert!(trust.stdout.contains("run the program './evil' as CPI"), "{}", trust.stdout);
    world.finish(inside(&world, "repo", &["int"])).success();
    // A change of the file ends the trust, and so does another path.
    let text = world.read("repo/.monopile.yml");
    world.write("repo/.monopile.yml", format!("{text}parallel: 2\n"));
    world.finish(inside(&world, "repo", &["int"])).exits_with(3);
    world.write("repo/.monopile.yml", &text);
    world.finish(inside(&world, "repo", &["int"])).success();
    world.write("copy/.monopile.yml", &text);
    world.write("copy/bosh.yml", "name: y\n");
    world.finish(inside(&world, "copy", &["int"])).exits_with(3);
    // `--env-file` names it, and needs no trust.
    world.finish(inside(&world, "copy", &["int", "--env-file", ".monopile.yml"])).success();
    let revocation = world.finish(inside(&world, "repo", &["trust", "--revoke", "--json"])).success();
    let document: serde_json::Value = serde_json::from_str(&revocation.stdout).unwrap();
    assert_eq!(document["trusted"], false);
    world.finish(inside(&world, "repo", &["int"])).exits_with(3);
    let second_run = world.finish(inside(&world, "repo", &["trust", "--revoke"])).success();
    assert!(second_run.stdout.contains("was not trusted"), "{}", second_run.stdout);
    let failed_trust = world.run(["trust"]).exits_with(2);
    assert!(failed_trust.stderr.contains("no env file .monopile.yml exists"), "{}", failed_trust.stderr);
}

#[test]
fn trust_shows_what_userlands_bring() {
    let world = World::new();
    world.write(
        "bosh.yml",
        "name: x\n\
         cloud_provider:\n  template: {name: a_cpi, release: r}\n  \
         userland: {url: 'oci://u:p4ssw0rd@images.test/root:1', files: [/run/agent.sock]}\n\
         releases: [{name: r, url: r.tgz}]\n",
    );
    let trust = |userland: &str| {
        world.write(".monopile.yml", format!("manifest: bosh.yml\ncpi_userland: '{userland}'\n"));
        world.run(["trust"]).success().stdout
    };
    let lines = |userland: &str| {
        let output = trust(userland);
        assert!(!output.contains("p4ssw0rd"), "{output}");
        let lines = output.lines().filter(|line| line.starts_with("  ")).map(str::trim);
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let cpi_job = "run the CPI job 'a_cpi' of release 'r' from r.tgz";
    let [socket, manifest, release, server] =
        ["read '/run/agent.sock'", "read 'bosh.yml'", "read 'r.tgz'", "contact images.test"];
    // This machine brings nothing.
    assert_eq!(lines("host"), [cpi_job, socket, manifest, release, server]);
    assert_eq!(
        lines("https://u:p4ssw0rd@root.test:8443/fs.tgz"),
        [
            "run CPIs of releases in 'https://root.test:8443/fs.tgz'",
            cpi_job,
            socket,
            manifest,
            release,
            server,
            "contact root.test:8443",
        ]
    );
    assert_eq!(
        lines("../fs.tgz"),
        ["run CPIs of releases in '../fs.tgz'", cpi_job, socket, manifest, release, server]
    );
}

#[test]
fn env_file_with_a_missing_manifest_is_not_trusted() {
    let world = World::new();
    world.write(".monopile.yml", "manifest: bosch.yml\n");
    world.write("bosh.yml", "name: a\n");
    let run = world.run(["trust"]).exits_with(3);
    let error = "error: manifest 'bosch.yml' does not exist\n  note: the env file '.monopile.yml' names it, \
                 and is not trusted\n  hint: did you mean 'bosh.yml'?\n";
    assert!(run.stderr.contains(error), "{}", run.stderr);
    let run = world.run(["plan"]).exits_with(3);
    assert!(run.stderr.contains("is not trusted yet"), "{}", run.stderr);
    assert!(
        run.stderr
            .contains("and its manifest 'bosch.yml' does not exist\n  hint: did you mean 'bosh.yml'?\n"),
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains("monopile trust"), "{}", run.stderr);
    assert!(run.stderr.contains("hint: correct `manifest` in '.monopile.yml'"), "{}", run.stderr);
    world.write(".monopile.yml", "manifest: bosh.yml\n");
    world.run(["trust"]).success();
}

#[test]
fn terminal_prompts_for_trust_once() {
    let world = World::new();
    write_hostile_repository(&world);
    let on_terminal = || {
        let mut command = inside(&world, "repo", &["int", "--path", "/name"]);
        command.env("TERM", "xterm-256color");
        Pty::start(command, (100, 30))
    };
    let mut pty = on_terminal();
    let screen = pty.wait_for("the question", |screen| screen.contains("Trust it?"));
    assert!(screen.contains("run the program './evil' as CPI"), "{screen}");
    pty.press("n\r");
    assert_eq!(pty.end(), 2);
    let mut pty = on_terminal();
    pty.wait_for("the question", |screen| screen.contains("Trust it?"));
    pty.press("y\r");
    assert_eq!(pty.end(), 0);
    assert!(pty.text().ends_with('x'), "{}", pty.text());
    let mut pty = on_terminal();
    assert_eq!(pty.end(), 0);
    assert!(!pty.text().contains("Trust it?"), "{}", pty.text());
    assert!(world.finish(inside(&world, "repo", &["int", "--path", "/name"])).success().stdout == "x\n");
}

#[test]
fn rejects_a_link_that_leaves_the_directory() {
    let world = world();
    std::fs::create_dir(world.path("evil")).unwrap();
    world.write("evil/bosh.yml", "name: evil\n");
    symlink(world.path("env/.monopile.yml"), world.path("evil/.monopile.yml")).unwrap();
    let run = world.finish(inside(&world, "evil", &["int"])).exits_with(3);
    assert!(run.stderr.contains("outside of its directory"), "{}", run.stderr);
    // If the file is named, its paths are relative to its real directory.
    let by_option = world.finish(inside(&world, "evil", &["int", "--env-file", ".monopile.yml"])).success();
    assert!(by_option.stdout.contains("from: file"), "{}", by_option.stdout);
    // A link inside the directory is treated like any other file.
    std::fs::rename(world.path("env/.monopile.yml"), world.path("env/real.yml")).unwrap();
    symlink("real.yml", world.path("env/.monopile.yml")).unwrap();
    world.finish(inside(&world, "env", &["trust"])).success();
    world.finish(inside(&world, "env", &["int"])).success();
    // A link of another user is treated like a file of another user.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(world.path("env/.monopile.yml"), Some(4711), None).unwrap();
        let run = world.finish(inside(&world, "env", &["int", "bosh.yml"])).success();
        assert!(run.stderr.contains("is ignored, because it belongs to another user"), "{}", run.stderr);
    }
}

#[test]
fn rejects_endless_files() {
    let world = World::new();
    symlink("/dev/zero", world.path("zero")).unwrap();
    let run = world.run(["int", "--env-file", "zero"]).exits_with(3);
    assert!(run.stderr.contains("larger than 1 MiB"), "{}", run.stderr);
}
