//! The hermetic environment of a test: a directory with home, cache, scratch space and working directory, no
//! other environment, and the real program run there.
//!
//! ```ignore
//! let world = World::new();
//! world.write("env.yml", "name: x\n");
//! let run = world.run(["create-env", "env.yml"]).exits_with(3);
//! insta::assert_snapshot!(world.normalise(&run.stderr));
//! assert_eq!(world.leftovers(), Vec::<String>::new());
//! ```

pub(crate) mod bosh;
pub(crate) mod bucket;
pub(crate) mod debian;
pub(crate) mod dice;
pub(crate) mod gate;
pub(crate) mod hello;
pub(crate) mod hostile;
pub(crate) mod http;
pub(crate) mod image_registry;
pub(crate) mod ironic;
pub(crate) mod island;
pub(crate) mod keys;
pub(crate) mod keystone;
mod leftovers;
pub(crate) mod machine;
pub(crate) mod network;
mod normalise;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod pty;
pub(crate) mod scripted;
pub(crate) mod stall;
pub(crate) mod tarballs;
pub(crate) mod tgt;
pub(crate) mod uml;
pub(crate) mod userland;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use process::{RunToEnd, prepare};

/// Returns true if `tests/run --sweep` asks for the long form of the suites. `.ci/run` does, with one life of
/// each kind.
pub(crate) fn is_long_form() -> bool {
    sweep_choice().is_some()
}

/// Returns true if `tests/run --sweep full` asks for every point of the suites.
pub(crate) fn is_full_sweep() -> bool {
    sweep_choice().is_some_and(|sweep| sweep == "full")
}

/// Returns `full`, or the number of lives of each kind that replaces the default sample.
pub(crate) fn sweep_choice() -> Option<String> {
    std::env::var("MONOPILE_SWEEP").ok().filter(|sweep| !sweep.is_empty())
}

/// The program under test.
pub(crate) const MONOPILE: &str = env!("CARGO_BIN_EXE_monopile");

/// A directory tree for one test, below `MONOPILE_TEST_ROOT` or `/tmp`. It is removed at the end, unless
/// `MONOPILE_TEST_KEEP` is set.
pub(crate) struct World {
    root: PathBuf,
    _directory: Option<tempfile::TempDir>,
}

/// The result of a run of the program.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit code; -1 after a signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Returns the number in an environment variable, unless that is unset or empty.
pub(crate) fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// Returns the parent of all test directories: `MONOPILE_TEST_ROOT` or `/tmp`. It does not depend on
/// `TMPDIR`, because sockets need short paths, and other users must be able to enter it.
fn scratch_root() -> PathBuf {
    std::env::var_os("MONOPILE_TEST_ROOT").unwrap_or_else(|| "/tmp".into()).into()
}

/// Creates an empty directory.
pub(crate) fn create_directory() -> tempfile::TempDir {
    process::watch();
    tempfile::Builder::new().prefix("mp-").tempdir_in(scratch_root()).unwrap()
}

/// Returns a number below `limit` that no concurrent test uses. An abstract Unix socket reserves it while
/// this process lives.
fn reserve(kind: &str, limit: u32, is_free: impl Fn(u32) -> bool) -> u32 {
    use std::os::linux::net::SocketAddrExt;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let next = std::process::id().wrapping_mul(64).wrapping_add(NEXT.fetch_add(1, Ordering::SeqCst));
        let address = format!("monopile-test-{kind}-{}", next % limit);
        let address = std::os::unix::net::SocketAddr::from_abstract_name(address).unwrap();
        if let Ok(socket) = std::os::unix::net::UnixListener::bind_addr(&address)
            && is_free(next % limit)
        {
            std::mem::forget(socket);
            return next % limit;
        }
    }
}

/// Returns a free loopback port for a server that cannot choose its own. It is outside the ephemeral range,
/// so it is still free when the server starts.
pub(crate) fn free_port() -> u16 {
    let port = |number: u32| u16::try_from(10_000 + number).unwrap();
    port(reserve("port", 20_000, |number| std::net::TcpListener::bind(("127.0.0.1", port(number))).is_ok()))
}

/// Gives `command` the environment and the working directory of the world with this root.
pub(crate) fn enter_world<'a>(command: &'a mut Command, root: &Path) -> &'a mut Command {
    process::clean(command);
    command
        .current_dir(root.join("work"))
        .env("HOME", root.join("home"))
        .env("TMPDIR", root.join("tmp"))
        .env("MONOPILE_TEST_WORLD", root)
}

impl World {
    /// Creates an empty world. Its path is short, because it may contain sockets.
    pub(crate) fn new() -> World {
        let directory = create_directory();
        let root = directory.path().canonicalize().unwrap();
        let directory = match std::env::var_os("MONOPILE_TEST_KEEP") {
            Some(_) => {
                eprintln!("kept: {}", directory.keep().display());
                None
            }
            None => Some(directory),
        };
        for name in ["home", "tmp", "work"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        World { root, _directory: directory }
    }

    /// Returns the root of the tree.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns `$HOME`.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Returns a path below the working directory.
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join("work").join(relative)
    }

    /// Writes a file below the working directory, with its parents.
    pub(crate) fn write(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Reads a file below the working directory.
    pub(crate) fn read(&self, relative: impl AsRef<Path>) -> String {
        let path = self.path(relative);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Returns true if a file exists at this path below the working directory.
    pub(crate) fn exists(&self, relative: impl AsRef<Path>) -> bool {
        self.path(relative).symlink_metadata().is_ok()
    }

    /// Gives `command` the environment and the working directory of this world.
    pub(crate) fn enter<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        enter_world(command, &self.root)
    }

    /// Prepares the program with these arguments.
    pub(crate) fn monopile<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = prepare(MONOPILE);
        self.enter(&mut command).args(args);
        command
    }

    /// Runs the program with these arguments and no input.
    #[track_caller]
    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Run {
        self.finish(self.monopile(args))
    }

    /// Runs a prepared command to its end.
    #[track_caller]
    pub(crate) fn finish(&self, mut command: Command) -> Run {
        let output = command.stdin(Stdio::null()).run_to_end();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Replaces the parts of `text` that differ from run to run: this world's paths, ids, times and ports.
    pub(crate) fn normalise(&self, text: &str) -> String {
        normalise::normalise(text, &self.root)
    }

    /// Returns the leftovers of the program in this world: processes, mounts and scratch files.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        leftovers::leftovers(&self.root)
    }
}

impl Drop for World {
    /// Fails a test that leaves a VM running.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let is_vm =
            |leftover: &String| leftover.contains("vm-boot --stage") || leftover.contains("qemu-system-");
        let start = Instant::now();
        loop {
            let vms: Vec<String> = self.leftovers().into_iter().filter(is_vm).collect();
            if vms.is_empty() {
                return;
            }
            // A VM whose deletion has begun may need time to end.
            assert!(start.elapsed() < Duration::from_secs(5), "left running: {vms:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Returns true if generated files are written again instead of compared.
pub(crate) fn is_updating() -> bool {
    std::env::var_os("MONOPILE_UPDATE").is_some()
}

/// Returns the peak memory of a process of the program in KiB; `None` if it has ended.
pub(crate) fn peak_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    // Before `exec`, a child still has the memory of the test process.
    status
        .strip_prefix("Name:\tmonopile\n")?
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
}

impl Run {
    /// Checks that the run succeeded.
    #[track_caller]
    pub(crate) fn success(self) -> Run {
        self.exits_with(0)
    }

    /// Checks the exit code.
    #[track_caller]
    pub(crate) fn exits_with(self, code: i32) -> Run {
        assert_eq!(self.code, code, "\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self
    }

    /// Parses standard output as JSON, one value per line.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }
}
