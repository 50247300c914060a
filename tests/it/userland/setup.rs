//! A root file system, and an environment whose CPI is compiled and runs in it. The CPI is a C program
//! that passes its requests through a socket to the built-in CPI, which needs this machine.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::cpi_release::setup::{Env, Machine};
use crate::support::process::{RunToEnd, join, prepare, wait_until};
use crate::support::tarballs::{JobTarball, PackageTarball, ReleaseTarball, sha256};
use crate::support::{MONOPILE, Run};

const MAKE_ROOT: &str = include_str!("../support/userland/make-root");

/// Returns the tarball of a small root file system with a C compiler. Test processes share it.
pub(super) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::create_dir_all(parent).unwrap();
        let path = parent.join(format!("userland-{}.tar", &sha256(MAKE_ROOT.as_bytes())[7..19]));
        if !path.exists() {
            let work = crate::support::create_directory();
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/userland/make-root");
            run("bash", &[script, "root"], work.path());
            // The same names in the same order give the same digest.
            let archive = format!("{}.{}", path.display(), std::process::id());
            run("tar", &["--sort=name", "--mtime=@0", "-C", "root", "-cf", &archive, "."], work.path());
            std::fs::rename(archive, &path).unwrap();
        }
        path
    })
}

/// Unpacks the root file system into a new directory.
pub(super) fn unpack_root(directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    run("tar", &["-xf", root().to_str().unwrap()], directory);
}

/// Runs a program, which must succeed.
#[track_caller]
pub(super) fn run(program: &str, arguments: &[&str], directory: &Path) {
    let output = prepare(program).args(arguments).current_dir(directory).run_to_end();
    assert!(
        output.status.success(),
        "{program} {arguments:?} (tests/run installs busybox-static and tcc): {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns the same command on a machine without compilers: other mounts hide them.
pub(super) fn without_compilers(command: &Command) -> Command {
    let mut unshare = prepare("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.args([
        "--mount",
        "bash",
        "-ec",
        "shopt -s nullglob
        for file in /usr/bin/{*gcc*,cc,c89*,c99*,*tcc,make,gmake,*g++*,c++,*clang*,cpp*,as,ld}; do
            [[ ! -f $file ]] || mount --bind /dev/null \"$(realpath \"$file\")\"
        done
        for name in cc gcc tcc make; do
            ! command -v $name
        done
        exec \"$@\"",
        "bash",
    ]);
    unshare.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => unshare.env(name, value),
            None => unshare.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        unshare.current_dir(directory);
    }
    unshare
}

/// Requests at the socket, and whether they are answered.
#[derive(Default)]
struct Gate {
    /// The method whose requests wait.
    closed_for: Mutex<Option<&'static str>>,
    opening: Condvar,
    requests: Mutex<Vec<Value>>,
    has_ended: AtomicBool,
}

/// An environment with a CPI in a userland.
pub(super) struct UserlandEnv {
    pub env: Env,
    socket: PathBuf,
    gate: Arc<Gate>,
    server: Option<JoinHandle<()>>,
}

/// Returns the release of the CPI. `script` is added to the script of the package `base`.
pub(super) fn release(script: &str) -> ReleaseTarball {
    let cpi = r#"#!/bin/bash
set -e
request=$(cat)
case $request in
*'"method":"create_stemcell"'*)
    image=${request#*'"arguments":["'}
    image=${image%%'"'*}
    [[ -s $image ]]
    if echo x 2>/dev/null >>"$image"; then exit 1; fi
    ;;
esac
[[ $PWD = / && -w $HOME && -w /tmp && ! -e <%= p("root") %> && ! -w /var/vcap/jobs && -s /etc/resolv.conf ]]
[[ $BOSH_PACKAGES_DIR = /var/vcap/packages && $BOSH_JOBS_DIR = /var/vcap/jobs && $OPERATOR = me ]]
printf %s "$request" | $BOSH_PACKAGES_DIR/bridge/bin/bridge <%= p("bridge") %> $BOSH_JOBS_DIR/test_cpi/config/cpi.json
"#;
    let job = JobTarball::new("test_cpi")
        .spec("packages: [bridge]\nproperties:\n  root: {}\n  agent: {}\n  bridge: {}\n")
        .template("cpi.erb", "bin/cpi", cpi)
        .template(
            "cpi.json.erb",
            "config/cpi.json",
            r#"<%= JSON.dump({"root" => p("root"), "agent" => p("agent")}) %>"#,
        );
    let compile = "set -e
        [[ $PWD = /var/vcap/data/compile/bridge && $BOSH_COMPILE_TARGET = $PWD ]]
        [[ $BOSH_INSTALL_TARGET = /var/vcap/packages/bridge && $BOSH_PACKAGES_DIR = /var/vcap/packages ]]
        [[ $(cat $BOSH_PACKAGES_DIR/base/share) = base ]]
        if touch $BOSH_PACKAGES_DIR/base/more; then exit 9; fi
        mkdir $BOSH_INSTALL_TARGET/bin ../beside
        cc -o $BOSH_INSTALL_TARGET/bin/bridge bridge.c";
    let base = format!("set -e\necho base > $BOSH_INSTALL_TARGET/share\n{script}\n");
    ReleaseTarball::new("test-cpi", "7")
        .job(job)
        .package(PackageTarball::new("bridge", compile, &["base"]).file("bridge.c", BRIDGE))
        .package(PackageTarball::new("base", &base, &[]))
}

/// A program that passes a file, a NUL and its input to a socket, and copies the answer.
const BRIDGE: &str = r#"#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void copy(int from, int to) {
    char buffer[4096];
    ssize_t count;
    while ((count = read(from, buffer, sizeof buffer)) > 0)
        write(to, buffer, count);
}

int main(int argc, char **argv) {
    struct sockaddr_un address;
    FILE *config;
    int wire = socket(AF_UNIX, SOCK_STREAM, 0);
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
    if (connect(wire, (struct sockaddr *)&address, sizeof address)) {
        perror(argv[1]);
        return 1;
    }
    config = fopen(argv[2], "r");
    if (!config) {
        perror(argv[2]);
        return 1;
    }
    copy(fileno(config), wire);
    write(wire, "", 1);
    copy(0, wire);
    shutdown(wire, SHUT_WR);
    copy(wire, 1);
    return 0;
}
"#;

impl UserlandEnv {
    /// Creates an environment that is not deployed. `userland` is the value of the key in the manifest
    /// without its `files`, such as `url: root.tar`.
    pub(super) fn new(machine: &Machine, release: &ReleaseTarball, userland: &str) -> UserlandEnv {
        let mut env = Env::new(machine, release);
        let socket = env.hello.world.path("bridge.sock");
        let socket_path = socket.display();
        env.hello.add_ops(
            "userland.yml",
            &format!(
                "- {{type: replace, path: '/cloud_provider/userland?', value: {{{userland}, files: \
                 [{socket_path}]}}}}\n\
                 - {{type: replace, path: '/cloud_provider/properties/bridge?', value: {socket_path}}}\n"
            ),
        );
        let listener = UnixListener::bind(&socket).unwrap();
        let gate = Arc::<Gate>::default();
        let (server_gate, directory) = (Arc::clone(&gate), env.hello.world.root().to_owned());
        let server = std::thread::spawn(move || serve(&listener, &server_gate, &directory));
        UserlandEnv { env, socket, gate, server: Some(server) }
    }

    /// Returns the socket of the CPI.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns a command.
    pub(super) fn command(&self, words: &[&str], extra_args: &[&str]) -> Command {
        let mut command = self.env.command(words[0], extra_args);
        if let [_, rest @ ..] = words
            && !rest.is_empty()
        {
            let options: Vec<&str> =
                self.env.options.iter().map(String::as_str).chain(extra_args.iter().copied()).collect();
            let cache = command.get_envs().find(|(name, _)| *name == "XDG_CACHE_HOME").unwrap();
            let cache = cache.1.unwrap().to_owned();
            command = self.env.hello.subcommand(words, &options);
            command.env("XDG_CACHE_HOME", cache);
        }
        command.env("OPERATOR", "me");
        command
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(super) fn run(&self, words: &[&str], extra_args: &[&str]) -> Run {
        self.env.hello.world.finish(self.command(words, extra_args))
    }

    /// Compiles the CPI and asks it for `info`.
    #[track_caller]
    pub(super) fn run_info(&self) -> Run {
        self.run(&["cpi", "info"], &[])
    }

    /// Makes requests of this method wait.
    pub(super) fn close_for(&self, method: &'static str) {
        *self.gate.closed_for.lock().unwrap() = Some(method);
    }

    /// Answers all requests.
    pub(super) fn open(&self) {
        *self.gate.closed_for.lock().unwrap() = None;
        self.gate.opening.notify_all();
    }

    /// Returns the methods of all requests.
    pub(super) fn methods(&self) -> Vec<String> {
        let requests = self.gate.requests.lock().unwrap();
        requests.iter().map(|request| request["method"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits for a request of this method.
    pub(super) fn wait_for(&self, method: &str) {
        wait_until(&format!("a request `{method}`"), || self.methods().iter().any(|other| other == method));
    }
}

impl Drop for UserlandEnv {
    fn drop(&mut self) {
        self.open();
        if self.env.hello.world.exists("state.json") {
            let _ = self.run(&["delete-env"], &["-n", "--skip-drain", "--forget-open-calls"]);
        }
        self.gate.has_ended.store(true, Ordering::SeqCst);
        let _ = UnixStream::connect(&self.socket);
        if let Some(server) = self.server.take() {
            join("the server of the socket ends", server);
        }
    }
}

/// Answers requests with the built-in CPI, each on its own thread.
fn serve(listener: &UnixListener, gate: &Arc<Gate>, world: &Path) {
    for connection in listener.incoming().flatten() {
        if gate.has_ended.load(Ordering::SeqCst) {
            return;
        }
        let (gate, world) = (Arc::clone(gate), world.to_owned());
        std::thread::spawn(move || serve_connection(connection, &gate, &world));
    }
}

fn serve_connection(mut connection: UnixStream, gate: &Gate, world: &Path) {
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).unwrap();
    let middle = bytes.iter().position(|byte| *byte == 0).expect("a configuration, NUL, a request");
    let (config, request) = (&bytes[..middle], &bytes[middle + 1..]);
    // A check of the CPI also sends requests that are none.
    let message: Value = serde_json::from_slice(request).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    gate.requests.lock().unwrap().push(message);
    let mut closed_for = gate.closed_for.lock().unwrap();
    while *closed_for == Some(method.as_str()) {
        closed_for = gate.opening.wait(closed_for).unwrap();
    }
    drop(closed_for);
    let file = tempfile::NamedTempFile::new_in(world).unwrap();
    std::fs::write(&file, config).unwrap();
    let mut command = prepare(MONOPILE);
    command.args(["cpi-exec", "local", "--config"]).arg(file.path()).current_dir(world.join("work"));
    command.env("HOME", world.join("home")).env("MONOPILE_TEST_WORLD", world);
    let output = command.run_with_input(request);
    // The process that asked may have been killed.
    let _ = connection.write_all(&output.stdout);
}
