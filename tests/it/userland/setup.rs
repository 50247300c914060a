//! An environment whose CPI is compiled and runs in a userland, and passes its calls to the built-in CPI.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};

use serde_json::Value;

use crate::cpi_release::setup::{Env, Machine};
use crate::support::process::{prepare, wait_until};
use crate::support::tarballs::ReleaseTarball;
use crate::support::userland::{Bridge, BridgedCall, ops};
use crate::support::{MONOPILE, Run, enter_world};

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
        "shopt -s nullglob globstar
        for file in {,/usr,/usr/local,/opt/*}/bin/{*gcc*,cc,c89*,c99*,*tcc,make,gmake,*g++*,c++,*clang*,cpp*,as,ld} \
            /usr/lib{,exec}/gcc/**/{cc1*,collect2}; do
            [[ ! -f $file ]] || mount --bind /dev/null \"$(realpath \"$file\")\"
        done
        for name in cc gcc tcc clang make; do
            if $name --version >/dev/null 2>&1; then
                echo \"$name is not hidden\" >&2
                exit 99
            fi
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
}

/// An environment with a CPI in a userland.
pub(super) struct UserlandEnv {
    pub env: Env,
    socket: PathBuf,
    gate: Arc<Gate>,
    _bridge: Bridge,
}

impl UserlandEnv {
    /// Creates an environment that is not deployed. `userland` is the value of the key in the manifest
    /// without its `files`, such as `url: root.tar`.
    pub(super) fn new(machine: &Machine, release: &ReleaseTarball, userland: &str) -> UserlandEnv {
        let mut env = Env::new(machine, release);
        let socket = env.hello.world.path("bridge.sock");
        env.hello.add_ops("userland.yml", &ops(userland, &socket));
        let gate = Arc::<Gate>::default();
        let (bridge_gate, world) = (Arc::clone(&gate), env.hello.world.root().to_owned());
        let bridge = Bridge::listen(&socket, move |call| bridge_gate.answer(call, &world));
        UserlandEnv { env, socket, gate, _bridge: bridge }
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
    }
}

impl Gate {
    /// Answers a call with the built-in CPI when the gate is open for its method.
    fn answer(&self, mut call: BridgedCall, world: &Path) -> u8 {
        let request = call.read_request();
        // A check of the CPI also sends requests that are none.
        let message: Value = serde_json::from_slice(&request).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        self.requests.lock().unwrap().push(message);
        let mut closed_for = self.closed_for.lock().unwrap();
        while *closed_for == Some(method.as_str()) {
            closed_for = self.opening.wait(closed_for).unwrap();
        }
        drop(closed_for);
        let config = tempfile::NamedTempFile::new_in(world).unwrap();
        std::fs::write(&config, &call.config).unwrap();
        let mut command = prepare(MONOPILE);
        enter_world(&mut command, world).args(["cpi-exec", "local", "--config"]).arg(config.path());
        call.answer_with(command, &request)
    }
}
