//! A separate kernel as a process (user-mode Linux), for features that the machine's kernel may lack: LVM's
//! device mapper and an iSCSI target.
//!
//! It sees the machine's files, reaches the machine's loopback as 10.0.2.2, and has a volume group `vg` with
//! a thin pool `pool`. It ends on drop, and with the test process.

use super::process::{RunToEnd, WaitForEnd, lines, prepare, receive};
use std::cell::Cell;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::Receiver;

use super::Run;

/// Compiles `uml/ptrace.c`, and returns the library.
fn compile_ptrace_library(directory: &Path) -> PathBuf {
    let library = directory.join("ptrace.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/uml/ptrace.c");
    let output = prepare("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).run_to_end();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// A running kernel.
pub(crate) struct Uml {
    directory: PathBuf,
    child: Child,
    console: Receiver<String>,
    scripts: Cell<u32>,
}

impl Uml {
    /// Boots a kernel. Its output is written to `directory`.
    pub(crate) fn start(directory: &Path) -> Uml {
        let disk = directory.join("uml.disk");
        std::fs::File::create(&disk).unwrap().set_len(256 << 20).unwrap();
        let init = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/uml/init");
        let mut child = prepare("setpriv")
            .args(["--pdeathsig", "KILL", "linux.uml"])
            .args([
                "mem=256M",
                "root=/dev/root",
                "rootfstype=hostfs",
                "rootflags=/",
                "rw",
                "quiet",
                "con=null",
            ])
            .args(["con0=fd:0,fd:1", "ssl=null", "eth0=slirp,,/usr/bin/slirp-fullbolt"])
            .arg(format!("uml_dir={}", directory.display()))
            .arg(format!("ubda={}", disk.display()))
            .arg(format!("init={init}"))
            .arg(format!("work={}", directory.display()))
            // The network of the machine needs a home directory.
            .env("HOME", directory)
            .env("LD_PRELOAD", compile_ptrace_library(directory))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("setpriv runs");
        let console = lines(child.stdout.take().unwrap());
        let uml = Uml { directory: directory.to_owned(), child, console, scripts: Cell::new(0) };
        uml.wait_for("ready");
        uml
    }

    /// Waits for a line that begins with `beginning`, and returns the rest of it.
    fn wait_for(&self, beginning: &str) -> String {
        let mut lines = Vec::new();
        loop {
            let line = receive(&format!("the kernel says '{beginning}', after {lines:?}"), &self.console);
            let line = line.unwrap_or_else(|| panic!("linux.uml ended: {lines:?}"));
            if let Some(rest) = line.trim_end().strip_prefix(beginning) {
                return rest.trim().to_owned();
            }
            lines.push(line);
        }
    }

    /// Runs a shell script as root.
    pub(crate) fn run(&self, script: &str) -> Run {
        let number = self.scripts.replace(self.scripts.get() + 1);
        let path = self.directory.join(format!("uml-{number}"));
        std::fs::write(&path, script).unwrap();
        writeln!(self.child.stdin.as_ref().unwrap(), "{}", path.display()).unwrap();
        let code = self.wait_for("ended").parse().unwrap();
        let read = |extension| std::fs::read_to_string(path.with_extension(extension)).unwrap();
        Run { code, stdout: read("out"), stderr: read("err") }
    }
}

impl Drop for Uml {
    fn drop(&mut self) {
        // The kernel does not notice the end of its input.
        let _ = writeln!(self.child.stdin.as_ref().unwrap(), "halt");
        self.child.stop();
    }
}
