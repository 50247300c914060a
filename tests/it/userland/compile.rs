//! Packages are compiled in a userland, from which scripts cannot get out, and used on other machines.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::Path;
use std::time::Instant;

use super::setup::{UserlandEnv, without_compilers};
use crate::cpi_release::setup::{Machine, files};
use crate::support::hello::Hello;
use crate::support::process::wait_until;
use crate::support::tarballs::{JobTarball, PackageTarball, ReleaseTarball};
use crate::support::userland::{release, root, run, unpack_root};

pub(super) fn url_line() -> String {
    format!("url: {}", root().display())
}

/// Returns the files of the compiled packages with their contents.
pub(super) fn packages(cache: &Path) -> BTreeMap<String, Vec<u8>> {
    let root = cache.join("monopile/cpi");
    let is_package = |path: &String| path.contains("/packages/");
    let names = files(&root).into_iter().filter(is_package);
    names.map(|name| (name.clone(), std::fs::read(root.join(&name)).unwrap())).collect()
}

#[test]
fn compiled_packages_do_not_depend_on_the_machine() {
    let (one, other) = (Machine::new(), Machine::new());
    let userland_env = UserlandEnv::new(&one, &release(""), &url_line());
    let world = &userland_env.env.hello.world;
    world.finish(without_compilers(&userland_env.command(&["cpi", "info"], &[]))).success();
    let first_packages = packages(&one.path("cache"));
    assert_eq!(first_packages.len(), 2, "{:?}", first_packages.keys());

    // Another machine compiles the same bytes.
    let second = UserlandEnv::new(&other, &release(""), &url_line());
    second.run_info().success();
    assert_eq!(packages(&other.path("cache")), first_packages);
    // It also uses what the first one compiled, below another home directory.
    let third = Machine::new();
    std::fs::create_dir_all(third.path("")).unwrap();
    run(
        "cp",
        &["-a", &one.path("cache").display().to_string(), &third.path("cache").display().to_string()],
        Path::new("/"),
    );
    let userland_env = UserlandEnv::new(&third, &release("exit 9"), &url_line());
    userland_env.run_info().exits_with(1);
    let userland_env = UserlandEnv::new(&third, &release(""), &url_line());
    let info = userland_env.run_info().success();
    assert_eq!(
        info.stderr.matches("Compiling package").count() + info.stdout.matches("Compiling package").count(),
        0,
        "{info:?}"
    );
}

/// An interpreter of scripts that print lines.
const INTERPRETER: &str = r#"#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    char line[4096];
    FILE *script = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (!script) {
        perror("the script");
        return 1;
    }
    while (fgets(line, sizeof line, script))
        if (!strncmp(line, "print ", 6))
            fputs(line + 6, stdout);
        else if (*line != '#')
            return 1;
    return 0;
}
"#;

#[test]
fn cpi_is_a_script_for_an_interpreter_of_its_release() {
    let shebang = "#!/var/vcap/packages/interpreter/bin/interpreter";
    let compile = "mkdir $BOSH_INSTALL_TARGET/bin
        cc -o $BOSH_INSTALL_TARGET/bin/interpreter interpreter.c";
    // A script that a script makes when the package is compiled.
    let answer = "set -e
        chmod +x make-answer
        ./make-answer >$BOSH_INSTALL_TARGET/answer
        chmod +x $BOSH_INSTALL_TARGET/answer";
    let make_answer = format!(
        "{shebang}\nprint {shebang}\nprint print \
         {{\"result\": {{\"stemcell_formats\": [\"interpreted\"]}}, \"error\": null, \"log\": \"\"}}\n"
    );
    let job = JobTarball::new("test_cpi").spec("packages: [interpreter, answer]\n").template(
        "cpi",
        "bin/cpi",
        "#!/bin/bash\nexec $BOSH_PACKAGES_DIR/answer/answer\n",
    );
    let release = ReleaseTarball::new("test-cpi", "7")
        .job(job)
        .package(PackageTarball::new("interpreter", compile, &[]).file("interpreter.c", INTERPRETER))
        .package(PackageTarball::new("answer", answer, &["interpreter"]).file("make-answer", &make_answer));
    let machine = Machine::new();
    let userland_env = UserlandEnv::new(&machine, &release, &url_line());
    let command = without_compilers(&userland_env.command(&["cpi", "info"], &[]));
    let info = userland_env.env.hello.world.finish(command).success();
    assert!(info.stdout.contains("interpreted"), "{}", info.stdout);
}

#[test]
fn packaging_scripts_see_nothing_of_the_machine() {
    let machine = Machine::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let outside = machine.path("outside");
    let script = format!(
        "if exec 3<>/dev/tcp/127.0.0.1/{port}; then exit 9; fi
        for path in / /etc /usr/bin /var/vcap/packages /var/vcap /run/secrets /proc/sys/kernel; do
            if touch $path/more 2>/dev/null; then echo \"$path is writable\"; exit 9; fi
        done
        [[ ! -e {machine} ]]
        if mount -t tmpfs none /tmp; then exit 9; fi
        if mknod /tmp/null c 1 3; then exit 9; fi
        if kill -9 1 && false; then exit 9; fi
        [[ $(id -u) = 1000 && $(ps | wc -l) -lt 12 ]]
        compgen -e | sort > $BOSH_INSTALL_TARGET/names
        echo x > /tmp/x && echo x > ~/x",
        machine = outside.parent().unwrap().display(),
    );
    let userland_env = UserlandEnv::new(&machine, &release(&script), &url_line());
    userland_env.run_info().success();
    let names =
        packages(&machine.path("cache")).into_iter().find(|(path, _)| path.ends_with("names")).unwrap().1;
    let names = String::from_utf8(names).unwrap();
    let expected = [
        "BOSH_COMPILE_TARGET",
        "BOSH_INSTALL_TARGET",
        "BOSH_PACKAGES_DIR",
        "BOSH_PACKAGE_NAME",
        "BOSH_PACKAGE_VERSION",
        "HOME",
        "LANG",
        "OLDPWD",
        "PATH",
        "PWD",
        "PYTHONDONTWRITEBYTECODE",
        "SHLVL",
        "_",
    ];
    let names: BTreeSet<&str> = names.lines().collect();
    let unexpected_names: Vec<_> = names.difference(&expected.into_iter().collect()).copied().collect();
    assert_eq!(unexpected_names, Vec::<&str>::new());
}

#[test]
fn scripts_have_a_network_if_the_manifest_allows_it() {
    let machine = Machine::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}
        [[ -s /etc/resolv.conf && -s /etc/hosts && $HTTPS_PROXY = http://proxy.test && -z ${{OPERATOR-}} ]]"
    );
    let compile = |keys: &str| {
        let userland_env = UserlandEnv::new(&machine, &release(&script), &format!("{}{keys}", url_line()));
        let mut command = userland_env.command(&["cpi", "info"], &[]);
        command.env("HTTPS_PROXY", "http://proxy.test");
        userland_env.env.hello.world.finish(command)
    };
    let network = ", compile_with_network: true";
    compile(network).success();
    // Without the key, the packages of that run are not used.
    compile("").exits_with(1);
    compile(", compile_with_network: false").exits_with(1);
    drop(listener);
    compile(network).success();
    let failed_run = compile(", compile_with_network: 1").exits_with(3);
    let problem = "`cloud_provider.userland.compile_with_network` must be true or false";
    assert!(failed_run.stderr.contains(problem), "{}", failed_run.stderr);
}

#[test]
fn endless_forks_are_stopped() {
    // One process after the other, so that the other tests still run.
    let machine = Machine::new();
    let userland_env = UserlandEnv::new(&machine, &release("while :; do sleep 100 & done"), &url_line());
    let start = Instant::now();
    let failed_run = userland_env.run_info().exits_with(1);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    assert!(
        failed_run.stderr.contains("was ended: it had more than 1000 processes at once"),
        "{}",
        failed_run.stderr
    );
    let world = machine.path("cache").display().to_string();
    wait_until("no process of the script is left", || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        !processes
            .filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok())
            .any(|command| command.contains("userland-exec") && command.contains(&world))
    });
}

#[test]
fn missing_tools_of_a_userland_are_named_before_compiling() {
    let machine = Machine::new();
    let mut release = release("");
    release.packages[1].files[0].1 = "cmake .\nmake\n".to_owned();
    let userland_env = UserlandEnv::new(&machine, &release, &url_line());
    let failed_run = userland_env.run_info().exits_with(1);
    for text in [
        "the CPI cannot be compiled in the userland",
        "not found: cmake (package 'base')",
        "use a root file system that has these tools",
    ] {
        assert!(failed_run.stderr.contains(text), "{text}: {}", failed_run.stderr);
    }
    // busybox has no make, but the link of cc, which is absolute, is found.
    assert!(!failed_run.stderr.contains("gcc"), "{}", failed_run.stderr);
}

#[test]
fn compiled_release_is_used_as_it_is_on_its_operating_system_alone() {
    let compiled_release = |system: &str| {
        let answer = r#"printf '{"result": {"stemcell_formats": ["compiled"]}, "error": null, "log": ""}'"#;
        let mut package = PackageTarball::new("answer", "exit 9\n", &[]).file("answer", answer);
        package.files.remove(0);
        package.compiled_for = Some(system.to_owned());
        let job = JobTarball::new("test_cpi").spec("packages: [answer]\n").template(
            "cpi",
            "bin/cpi",
            "#!/bin/bash\nexec bash $BOSH_PACKAGES_DIR/answer/answer\n",
        );
        ReleaseTarball::new("test-cpi", "7").job(job).package(package)
    };
    let machine = Machine::new();
    let userland_env = UserlandEnv::new(&machine, &compiled_release("testix-7/1.5"), &url_line());
    let command = without_compilers(&userland_env.command(&["cpi", "info"], &[]));
    let info = userland_env.env.hello.world.finish(command).success();
    assert!(info.stdout.contains("compiled"), "{}", info.stdout);
    let userland_env = UserlandEnv::new(&machine, &compiled_release("ubuntu-jammy/1.5"), &url_line());
    let failed_run = userland_env.run_info().exits_with(3);
    for text in ["is compiled for 'ubuntu-jammy/1.5'", "is 'testix-7'", "the source of the release"] {
        assert!(failed_run.stderr.contains(text), "{text}: {}", failed_run.stderr);
    }
}

#[test]
fn denied_change_of_owner_is_explained() {
    let machine = Machine::new();
    let userland_env = UserlandEnv::new(&machine, &release("touch a; chown 5:5 a"), &url_line());
    let failed_run = userland_env.run_info().exits_with(1);
    assert!(failed_run.stderr.contains("packaging scripts are not root"), "{}", failed_run.stderr);
}

#[test]
fn option_and_directory_name_a_userland() {
    let machine = Machine::new();
    let userland_env = UserlandEnv::new(&machine, &release(""), "url: /no/such/file.tar");
    let failed_run = userland_env.run_info().exits_with(3);
    assert!(
        failed_run.stderr.contains("userland.yml:1:61: the file '/no/such/file.tar' does not exist"),
        "{}",
        failed_run.stderr
    );
    // The key of an env file overrides the manifest. Its path is relative to the env file.
    userland_env.env.hello.world.write("env/userland.yml", "cpi_userland: missing.tar\n");
    let failed_run = userland_env.run(&["cpi", "info"], &["--env-file", "env/userland.yml"]).exits_with(3);
    assert!(failed_run.stderr.contains("env/missing.tar'"), "{}", failed_run.stderr);
    let directory = machine.path("root");
    unpack_root(&directory);
    // Its files are used where they are, with the socket of the option's machine.
    let failed_run =
        userland_env.run(&["cpi", "info"], &["--cpi-userland", &directory.display().to_string()]);
    // The option has no `files`, so the CPI does not see its socket.
    assert_eq!((failed_run.code, userland_env.methods().len()), (1, 0), "{}", failed_run.stderr);
    let userland_env = UserlandEnv::new(&machine, &release(""), &format!("url: {}", directory.display()));
    userland_env.run_info().success();
    assert_eq!(std::fs::read_dir(directory.join("var")).unwrap().count(), 1, "the directory is not changed");
}

#[test]
fn cpi_of_a_cpi_config_has_a_userland_of_its_own() {
    let machine = Machine::new();
    let userland_env = UserlandEnv::new(&machine, &release(""), "url: /no/such/file.tar");
    let config = |extra_keys: &str| {
        let (root, socket) = (root().display(), userland_env.socket().display());
        let userland = format!("userland: {{url: {root}, files: [{socket}]}}");
        userland_env
            .env
            .hello
            .world
            .write("cpis.yml", format!("cpis: [{{name: a, {userland}, {extra_keys}}}]"));
        userland_env.run(&["cpi", "info"], &["--cpi-config", "cpis.yml", "--cpi", "a"])
    };
    config("type: test").success();
    for other in ["type: local", "type: x, exec_path: /bin/sh"] {
        let failed_run = config(other).exits_with(3);
        let expected = "CPI 'a' has a `userland`, but it is not the job of a release";
        assert!(failed_run.stderr.contains(expected), "{}", failed_run.stderr);
    }
}

#[test]
fn built_in_cpi_has_no_userland() {
    let mut hello = Hello::new();
    hello.add_ops("u.yml", "- {type: replace, path: '/cloud_provider/userland?', value: root.tar}\n");
    let failed_run = hello.world.finish(hello.builtin_command(&["plan"], &[])).exits_with(3);
    assert!(
        failed_run.stderr.contains("has a `userland`, which is only for the CPI of a release"),
        "{}",
        failed_run.stderr
    );
    // The option is for CPIs of releases alone.
    let plain = Hello::new();
    plain.world.finish(plain.builtin_command(&["cpi", "info"], &["--cpi-userland", "root.tar"])).success();
}

#[test]
fn digest_of_a_userland_is_verified() {
    let machine = Machine::new();
    let bad_digest = format!("{}, sha1: 'sha256:{}'", url_line(), "a".repeat(64));
    let failed_run = UserlandEnv::new(&machine, &release(""), &bad_digest).run_info().exits_with(3);
    assert!(failed_run.stderr.contains("aaaaaaaa"), "{}", failed_run.stderr);
    assert!(!machine.path("cache/monopile/userlands").exists());
}
