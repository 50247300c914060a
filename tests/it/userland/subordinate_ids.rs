//! Packaging scripts that change owners and users, on machines with and without subordinate ids.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::compile::{packages, url_line};
use super::setup::UserlandEnv;
use crate::cpi_release::setup::{Machine, files};
use crate::support::MONOPILE;
use crate::support::process::{WaitForEnd, copy_program, prepare, wait_until};
use crate::support::userland::{release, root};

/// The user and group `nobody`.
const NOBODY: u32 = 65534;
/// The first id of the range.
const FIRST_ID: u32 = 200_000;
/// The ranges of a machine: others, and those of the users of these tests.
const RANGES: &str = "other:100000:65536\nnobody:200000:65536\nroot:200000:65536\n";
/// A script that changes owners and users, and leaves files of others everywhere.
const SCRIPT: &str = "touch a
    chown 5:6 a
    [[ $(stat -c %u:%g a) = 5:6 ]]
    [[ $(setpriv --reuid=5 --regid=6 --clear-groups id -u) = 5 ]]
    [[ $(setpriv --reuid=0 --regid=0 --clear-groups su -s /bin/sh nobody -c 'id -u') = 65534 ]]
    mkdir -p ~/d/e /tmp/d/e d/e $BOSH_INSTALL_TARGET/private/e
    echo secret > $BOSH_INSTALL_TARGET/private/e/file
    chown -R 5:6 ~/d /tmp/d d $BOSH_INSTALL_TARGET/private
    chmod 4710 $BOSH_INSTALL_TARGET/private/e/file
    chmod -R go-rwx ~/d /tmp/d d $BOSH_INSTALL_TARGET/private/e
    if mount -t tmpfs none /tmp; then exit 9; fi
    if mknod /tmp/null c 1 3; then exit 9; fi
    [[ $(id -u) = 1000 ]]";

/// An environment of another user than that of the test.
struct UserEnv<'m> {
    env: UserlandEnv,
    machine: &'m Machine,
    user_id: u32,
}

impl<'m> UserEnv<'m> {
    /// Creates it with a part of a packaging script. Returns `None` if the test cannot change users.
    fn create(machine: &'m Machine, user_id: u32, script: &str) -> Option<UserEnv<'m>> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not run: only root can run programs as another user");
            return None;
        }
        let tarball = machine.path("root.tar");
        std::fs::copy(root(), &tarball).unwrap();
        copy_program(MONOPILE.as_ref(), &machine.path("monopile"));
        let env = UserlandEnv::new(machine, &release(script), &format!("url: {}", tarball.display()));
        let user_env = UserEnv { env, machine, user_id };
        for entry in user_env.entries() {
            lchown(entry.path(), Some(user_id), Some(user_id)).unwrap();
        }
        Some(user_env)
    }

    /// Returns everything in the directories of the machine and the environment.
    fn entries(&self) -> impl Iterator<Item = walkdir::DirEntry> {
        let directories = [self.env.env.hello.world.root().to_owned(), self.machine.path("")];
        directories.into_iter().flat_map(walkdir::WalkDir::new).flatten()
    }

    /// Returns a command as the user runs it on a machine with the ranges `ranges`, which the shell commands
    /// `setup` change further.
    fn command_on_machine(&self, command: &Command, ranges: &str, setup: &str) -> Command {
        let ranges_file = self.machine.path("ranges");
        std::fs::write(&ranges_file, ranges).unwrap();
        let script = format!(
            "mount --bind \"$1\" /etc/subuid
            mount --bind \"$1\" /etc/subgid
            {setup}
            shift
            exec setpriv --reuid={id} --regid={id} --clear-groups \"$@\"",
            id = self.user_id
        );
        let mut unshare = prepare("unshare");
        unshare.args(["--mount", "bash", "-ec", &script, "bash"]).arg(&ranges_file);
        unshare.arg(self.machine.path("monopile")).args(command.get_args());
        for (name, value) in command.get_envs() {
            value.map(|value| unshare.env(name, value));
        }
        unshare.env("XDG_CACHE_HOME", self.machine.path("cache"));
        unshare.current_dir(command.get_current_dir().unwrap());
        unshare
    }

    /// Returns the command that compiles the CPI.
    fn info(&self, ranges: &str, setup: &str) -> Command {
        self.command_on_machine(&self.env.command(&["cpi", "info"], &[]), ranges, setup)
    }

    /// Compiles the CPI. Returns the error if that fails.
    fn compile(&self, ranges: &str, setup: &str) -> Option<String> {
        let run = self.env.env.hello.world.finish(self.info(ranges, setup));
        (run.code != 0).then_some(run.stderr)
    }

    /// Starts to compile the CPI, and waits until its script has written `ready`.
    fn start(&self) -> std::process::Child {
        let cache = self.machine.path("cache/monopile/cpi");
        let logs = || files(&cache).into_iter().filter(|path| path.ends_with("packaging.log"));
        logs().for_each(|log| std::fs::remove_file(cache.join(log)).unwrap());
        let mut command = self.info(RANGES, "");
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the script is ready", || {
            logs()
                .filter_map(|log| std::fs::read_to_string(cache.join(log)).ok())
                .any(|log| log.contains("\nready\n"))
        });
        child
    }

    /// Returns the files with subordinate ids.
    fn subordinate_files(&self) -> Vec<String> {
        let has_subordinate_id = |entry: &walkdir::DirEntry| {
            let metadata = entry.metadata().unwrap();
            metadata.uid() >= FIRST_ID || metadata.gid() >= FIRST_ID
        };
        self.entries().filter(has_subordinate_id).map(|entry| entry.path().display().to_string()).collect()
    }

    /// Removes the packages from the cache.
    fn prune(&self) {
        let world = &self.env.env.hello.world;
        let command = world.monopile(["cache", "prune", "--all"]);
        world.finish(self.command_on_machine(&command, RANGES, "")).success();
        let mut remaining_files = files(&self.machine.path("cache/monopile/cpi"));
        remaining_files.retain(|path| !path.starts_with('.'));
        assert_eq!(remaining_files, Vec::<String>::new());
    }
}

/// Returns the modes of the compiled packages.
fn modes(machine: &Machine) -> BTreeMap<String, u32> {
    let root = machine.path("cache/monopile/cpi");
    let is_package = |path: &String| path.contains("/packages/");
    let mode = |path: &String| std::fs::symlink_metadata(root.join(path)).unwrap().permissions().mode();
    files(&root).into_iter().filter(is_package).map(|path| (path.clone(), mode(&path))).collect()
}

#[test]
fn scripts_change_owners_and_users() {
    for user_id in [NOBODY, 0] {
        let machine = Machine::new();
        let Some(user_env) = UserEnv::create(&machine, user_id, SCRIPT) else { return };
        assert_eq!(user_env.compile(RANGES, ""), None, "tests/run installs uidmap, with newuidmap");
        assert_eq!(user_env.subordinate_files(), Vec::<String>::new());
        let package_modes = modes(&machine);
        let file = package_modes.iter().find(|(path, _)| path.ends_with("private/e/file")).unwrap();
        assert_eq!(*file.1 & 0o7777, 0o700, "the file is not set-uid for the user");
        user_env.prune();
    }
}

#[test]
fn packages_are_the_same_without_subordinate_ids() {
    let script = "mkdir -p $BOSH_INSTALL_TARGET/d
        echo x > $BOSH_INSTALL_TARGET/d/f
        chmod 4640 $BOSH_INSTALL_TARGET/d/f
        chmod 2510 $BOSH_INSTALL_TARGET/d
        if echo y 2>/dev/null > /etc/x; then exit 9; fi
        id > $BOSH_INSTALL_TARGET/id";
    let (plain, other) = (Machine::new(), Machine::new());
    let Some(user_env) = UserEnv::create(&other, NOBODY, script) else { return };
    assert_eq!(user_env.compile(RANGES, ""), None);
    UserlandEnv::new(&plain, &release(script), &url_line()).run_info().success();
    assert_eq!(packages(&other.path("cache")), packages(&plain.path("cache")));
    assert_eq!(modes(&other), modes(&plain));
}

#[test]
fn files_of_a_stopped_script_can_be_removed() {
    let script = format!("{SCRIPT}\ntrap '' TERM INT\necho ready\nwhile :; do sleep 1; done");
    for user_id in [NOBODY, 0] {
        let machine = Machine::new();
        let Some(user_env) = UserEnv::create(&machine, user_id, &script) else { return };
        let run = user_env.start();
        kill_process(Pid::from_child(&run), Signal::INT).unwrap();
        assert_eq!(run.end_with_output().status.code(), Some(130));
        assert_eq!(user_env.subordinate_files(), Vec::<String>::new());

        // The machine loses its power.
        let mut run = user_env.start();
        run.kill().unwrap();
        run.end();
        let path = machine.path("cache").display().to_string();
        let is_in_userland = |command: &str| command.contains("userland-exec") && command.contains(&path);
        wait_until("no process of the script is left", || {
            let processes = std::fs::read_dir("/proc").unwrap().flatten();
            let pids = processes.filter(|process| {
                std::fs::read_to_string(process.path().join("cmdline"))
                    .is_ok_and(|command| is_in_userland(&command))
            });
            let pids: Vec<i32> =
                pids.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect();
            for pid in &pids {
                let _ = kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL);
            }
            pids.is_empty()
        });
        assert!(!user_env.subordinate_files().is_empty());
        user_env.prune();
        // The next run removes the scratch directory, and compiles in the same place.
        let mut run = user_env.start();
        run.kill().unwrap();
        run.end();
    }
}

#[test]
fn missing_subordinate_ids_are_explained() {
    let machine = Machine::new();
    let Some(user_env) = UserEnv::create(&machine, NOBODY, "touch a; chown 5:6 a") else { return };
    let add = "`sudo usermod --add-subuids 165536-231071 --add-subgids 165536-231071 nobody`";
    let hide_program = "mount --bind /dev/null /usr/bin/newuidmap";
    let unprivileged = "cp /usr/bin/newuidmap \"$1.program\"; mount --bind \"$1.program\" /usr/bin/newuidmap";
    for (ranges, setup, expected) in [
        ("other:100000:65536\n", "", add),
        ("", hide_program, "`sudo apt-get install uidmap`"),
        (RANGES, hide_program, "this machine lacks `newuidmap` or `newgidmap`"),
        (RANGES, unprivileged, "they cannot be used here: '/usr/bin/newuidmap' failed"),
        ("65534:0:65536\n", "", "'/etc/subuid' is wrong in line 1"),
        ("\nnobody:65000:1000\n", "", "'/etc/subuid' is wrong in line 2"),
        ("65534:200000:4294967295\n", "", "'/etc/subuid' is wrong in line 1: not NAME:START:COUNT"),
    ] {
        let error = user_env.compile(ranges, setup).unwrap();
        for part in ["packaging scripts are not root", "only with subordinate ids", expected] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
    // Another id than those of the range.
    let machine = Machine::new();
    let user_env = UserEnv::create(&machine, NOBODY, "touch a; chown 70000 a").unwrap();
    let error = user_env.compile(RANGES, "").unwrap();
    assert!(error.contains("`setpriv --reuid=ID --regid=ID --clear-groups PROGRAM`"), "{error}");
    assert!(error.contains("with an ID up to 65535"), "{error}");
}
