//! `monopile vm-boot`: what a VM is made of, in two stages.
//!
//! 1. *namespaces*: leaves the caller's session, enters new mount, pid, IPC and UTS namespaces (and a
//!    user namespace where it lacks the rights), starts the second stage as pid 1 of them, and ends.
//! 2. *init*: builds the VM's file system, moves into it, starts the agent, and from then on reaps
//!    orphans and restarts the agent when it dies, as a real VM's init and runit do.
//!
//! Every mount is in the VM's mount namespace only, so all of it vanishes with init. The network is
//! the machine's, with 127.0.0.0/8 as the VM network, or a namespace that was made before.
//!
//! Both stages report on stdout, a JSON document per line ([`Report`]); init waits on stdin for one
//! byte before it lives on (see `launch.rs`).

#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod rootfs;

use std::ffi::OsString;

use base::{Error, Result};

/// The agent's settings, inside a VM's directory. Each boot copies them to where the agent looks.
#[cfg(target_os = "linux")]
pub(super) const SETTINGS: &str = "settings.json";
/// What stands in their place when they are in a registry.
#[cfg(target_os = "linux")]
pub(super) const USER_DATA: &str = "user_data.json";

/// What a stage has to say.
#[cfg(target_os = "linux")]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// Init was started and is this process.
    Init(crate::cpi::process::Identity),
    /// Something the VM has to do without.
    Note(String),
    /// Init and agent run.
    Ready,
    /// Neither does, for this reason.
    Failed(String),
}

#[cfg(target_os = "linux")]
impl Report {
    fn send(&self) -> std::io::Result<()> {
        use std::io::Write;
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&line)?;
        stdout.flush()
    }
}

/// Runs one stage: `--stage namespaces|init --vm-dir DIR --executable FILE [--network FILE]` (absolute paths).
///
/// Must be called before the process has a second thread: the kernel gives a user namespace to
/// single-threaded processes only.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let mut args = args.into_iter();
    let (mut stage, mut vm_dir, mut executable, mut network) = (None, None, None, None);
    while let Some(name) = args.next() {
        let slot = match name.to_str() {
            Some("--stage") => &mut stage,
            Some("--vm-dir") => &mut vm_dir,
            Some("--executable") => &mut executable,
            Some("--network") => &mut network,
            _ => return Err(Error::usage(format!("vm-boot does not know '{}'", name.display()))),
        };
        *slot = args.next();
    }
    let (Some(stage), Some(vm_dir), Some(executable)) = (stage, vm_dir, executable) else {
        return Err(Error::usage("vm-boot needs --stage, --vm-dir and --executable"));
    };
    dispatch(&stage, vm_dir.as_ref(), executable.as_ref(), network.as_deref().map(std::path::Path::new))
}

#[cfg(target_os = "linux")]
fn dispatch(
    stage: &std::ffi::OsStr,
    vm_dir: &std::path::Path,
    executable: &std::path::Path,
    network: Option<&std::path::Path>,
) -> Result<()> {
    if !vm_dir.is_absolute() || !executable.is_absolute() {
        return Err(Error::usage("vm-boot needs absolute paths"));
    }
    let outcome = match stage.to_str() {
        Some("namespaces") => namespaces::run(vm_dir, executable, network),
        Some("init") => init::run(vm_dir, executable),
        _ => return Err(Error::usage("vm-boot knows the stages 'namespaces' and 'init'")),
    };
    outcome.map_err(|why| {
        // Nobody may listen any more; the exit status tells as well.
        let _ = Report::Failed(why.clone()).send();
        Error::environment(why)
    })
}

#[cfg(not(target_os = "linux"))]
fn dispatch(
    _stage: &std::ffi::OsStr,
    _vm_dir: &std::path::Path,
    _executable: &std::path::Path,
    _network: Option<&std::path::Path>,
) -> Result<()> {
    Err(Error::environment("VMs of the built-in 'local' CPI need Linux"))
}
