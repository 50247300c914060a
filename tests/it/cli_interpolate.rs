//! `interpolate` as a command: outputs and exit codes.

use crate::support::World;

const MANIFEST: &str = "name: ((name))\njobs:\n- name: a\n  properties: {password: ((password)), port: 80}\n";

#[test]
fn output_is_on_stdout_with_its_secrets() {
    let world = World::new();
    world.write("m.yml", MANIFEST);
    world.write("ops.yml", "- type: replace\n  path: /jobs/name=a/properties/port\n  value: 8080\n");
    world.write("vars.yml", "password: hunter22-long\n");
    world.write("home-vars/name.txt", "from a file");
    let run = |name: &str| {
        let args =
            [name, "m.yml", "--ops-file=ops.yml", "-l", "vars.yml", "--var-file", "name=home-vars/name.txt"];
        world.run(args).success()
    };
    let full = run("interpolate");
    assert_eq!(full.stderr, "");
    insta::assert_snapshot!(full.stdout, @r"
    jobs:
    - name: a
      properties:
        password: hunter22-long
        port: 8080
    name: from a file
    ");
    assert_eq!(run("int").stdout, full.stdout);
}

#[test]
fn ops_files_have_the_nesting_limit_of_manifests() {
    let world = World::new();
    world.write("m.yml", "a: 1\n");
    // The operation adds two levels, and so does its destination.
    let deep = |levels: usize| format!("{}1{}", "{a: ".repeat(levels), "}".repeat(levels));
    for (levels, code) in [(497, 0), (499, 3), (100_000, 3)] {
        world.write("ops.yml", format!("- {{type: replace, path: /deep?, value: {}}}\n", deep(levels)));
        let run = world.run(["int", "m.yml", "-o", "ops.yml"]);
        assert_eq!(run.code, code, "{levels}: {}", run.stderr);
    }
}

#[test]
fn json_option_does_not_change_the_output() {
    let world = World::new();
    world.write("m.yml", "a: 1\n");
    assert_eq!(world.run(["--json", "int", "m.yml"]).success().stdout, "a: 1\n");
}

#[test]
fn path_prints_a_bare_value() {
    let world = World::new();
    world.write("m.yml", MANIFEST);
    let run = world.run(["int", "m.yml", "-v", "password=x y", "--path", "/jobs/name=a/properties/password"]);
    assert_eq!(run.success().stdout, "x y\n");
}

#[test]
fn variables_come_from_the_environment_and_a_tilde_is_home() {
    let world = World::new();
    std::fs::write(world.home().join("m.yml"), "a: ((x))\n").unwrap();
    let mut command = world.monopile(["int", "~/m.yml", "--vars-env", "MY"]);
    command.env("MY_x", "[1]").env("x", "wrong");
    assert_eq!(world.finish(command).success().stdout, "a:\n- 1\n");
}

#[test]
fn all_missing_variables_are_in_one_message() {
    let world = World::new();
    world.write("m.yml", MANIFEST);
    let run = world.run(["int", "m.yml", "--var-errs"]).exits_with(3);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("((name))") && run.stderr.contains("((password))"), "{}", run.stderr);
    world.write("open.yml", "a: ((b\n");
    let run = world.run(["int", "open.yml", "--var-errs"]).success();
    assert!(run.stderr.contains("open.yml:1:4: '((b' is not closed"), "{}", run.stderr);
    assert_eq!(world.run(["int", "open.yml"]).success().stderr, "");
    let run = world.run(["int", "m.yml", "--var-errs-unused", "-v", "other=1"]).exits_with(3);
    assert!(run.stderr.contains("other"), "{}", run.stderr);
}

#[test]
fn file_beside_the_manifest_that_has_the_values_is_named() {
    let world = World::new();
    world.write("env/m.yml", "a: ((x))\nb: ((ip))\nvariables: [{name: x, type: password}]\n");
    let hints = || {
        let run = world.run(["int", "env/m.yml", "--var-errs"]).exits_with(3);
        let hints = run.stderr.lines().filter_map(|line| line.trim().strip_prefix("hint: "));
        hints.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        hints(),
        [
            "for x, give the vars store, which keeps generated values: `monopile int env/m.yml --var-errs \
             --vars-store FILE`",
            "give a value for ip: `monopile int env/m.yml --var-errs --var ip=VALUE`",
            "to have create-env generate a value for ip, declare a type under `variables:`",
        ]
    );
    world.write("env/vars.yml", "ip: 10.0.0.6\nname: z\n");
    let vars_file_hint = "pass the variables beside the manifest (ip): `monopile int env/m.yml --var-errs \
                          --vars-file env/vars.yml`";
    let some = hints();
    assert!(some.len() == 2 && some[0] == vars_file_hint, "{some:?}");
    assert!(some[1].starts_with("give the vars store, which keeps generated values: "), "{some:?}");
    world.write("env/creds.yml", "x: secret\n");
    let options = " --var-errs --vars-store env/creds.yml --vars-file env/vars.yml`";
    let hints = hints();
    assert!(hints.len() == 1 && hints[0].ends_with(options), "{hints:?}");
}

#[test]
fn errors_name_file_line_and_column() {
    let world = World::new();
    world.write("broken.yml", "a: 1\nb: [1,\n");
    let run = world.run(["int", "broken.yml"]).exits_with(3);
    assert!(run.stderr.contains("broken.yml:"), "{}", run.stderr);
    let run = world.run(["int", "absent.yml"]).exits_with(3);
    assert!(run.stderr.contains("absent.yml"), "{}", run.stderr);
    world.write("directory/m.yml", "a: 1\n");
    let run = world.run(["int", "directory/n.yml"]).exits_with(3);
    let suggestion = "error: manifest 'directory/n.yml' does not exist\n  hint: did you mean \
                      'directory/m.yml'?\n";
    assert_eq!(run.stderr, suggestion);
    let run = world.run(["int", "directory"]).exits_with(3);
    assert!(run.stderr.contains("manifest 'directory' is a directory"), "{}", run.stderr);
    world.write("m.yml", "a: 1\n");
    // The error does not repeat the text, which may be a value without its name.
    let run = world.run(["int", "m.yml", "-v", "no-equals-sign"]).exits_with(2);
    assert!(run.stderr.contains("NAME=VALUE") && !run.stderr.contains("no-equals-sign"), "{run:?}");
}

#[test]
fn generated_values_are_stored_in_a_private_file() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.write("m.yml", "a: ((secret))\nvariables:\n- {name: secret, type: password}\n");
    let first = world.run(["int", "m.yml", "--vars-store", "store.yml", "--path", "/a"]).success();
    let second = world.run(["int", "m.yml", "--vars-store", "store.yml", "--path", "/a"]).success();
    assert_eq!(first.stdout, second.stdout);
    assert!(world.read("store.yml").contains(first.stdout.trim()));
    assert!(!first.stderr.contains(first.stdout.trim()), "{}", first.stderr);
    assert_eq!(world.path("store.yml").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // Without a store, nothing is generated.
    world.run(["int", "m.yml"]).success();
    assert!(!world.exists("m-vars.yml"));
}
