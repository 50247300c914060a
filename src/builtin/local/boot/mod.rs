//! `monopile vm-boot`: boots a VM in two stages.
//!
//! 1. *namespaces*: leaves the caller's session, enters new mount, pid, IPC and UTS namespaces (also a user
//!    namespace if it lacks the privileges), starts the second stage as pid 1, and ends.
//! 2. *init*: builds the VM's file system, enters it and starts the agent. From then on it reaps orphans and
//!    restarts the agent when it ends, like init and runit of a real VM.
//!
//! All mounts are in the VM's mount namespace, so they end with init. The network is the machine's, or an
//! existing network namespace.
//!
//! Both stages report on standard output, one JSON document per line ([`Report`]). Init waits for one byte on
//! standard input before it continues (see `local::launch`).

mod init;
mod namespaces;
mod root_tree;

use std::ffi::OsString;

use base::{Error, Result};

/// The agent's settings, in the VM's directory. Each boot copies them into the VM's file system.
pub(super) const SETTINGS_FILE: &str = "settings.json";
/// The user data with the address of the registry, if the registry has the settings.
pub(super) const USER_DATA_FILE: &str = "user_data.json";

/// A report of a stage.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// Init has started, with this identity.
    Init(crate::cpi::process::ProcessIdentity),
    /// A limitation of the VM, for the log.
    Note(String),
    /// Init and the agent run.
    Ready,
    /// The boot has failed, for this reason.
    Failed(String),
}

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

/// Runs one stage: `--stage namespaces|init --vm-dir DIR --executable FILE [--network FILE]` (absolute
/// paths).
///
/// Must be called before the process starts a second thread, because the kernel allows only single-threaded
/// processes to enter a user namespace.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let mut args = args.into_iter();
    let (mut stage, mut vm_directory, mut executable, mut network) = (None, None, None, None);
    while let Some(name) = args.next() {
        let slot = match name.to_str() {
            Some("--stage") => &mut stage,
            Some("--vm-dir") => &mut vm_directory,
            Some("--executable") => &mut executable,
            Some("--network") => &mut network,
            _ => return Err(Error::usage(format!("vm-boot has no argument '{}'", name.display()))),
        };
        *slot = args.next();
    }
    let (Some(stage), Some(vm_directory), Some(executable)) = (stage, vm_directory, executable) else {
        return Err(Error::usage("vm-boot needs --stage, --vm-dir and --executable"));
    };
    dispatch(&stage, vm_directory.as_ref(), executable.as_ref(), network.as_deref().map(std::path::Path::new))
}

fn dispatch(
    stage: &std::ffi::OsStr,
    vm_directory: &std::path::Path,
    executable: &std::path::Path,
    network: Option<&std::path::Path>,
) -> Result<()> {
    if !vm_directory.is_absolute() || !executable.is_absolute() {
        return Err(Error::usage("vm-boot needs absolute paths"));
    }
    let outcome = match stage.to_str() {
        Some("namespaces") => namespaces::run(vm_directory, executable, network),
        Some("init") => init::run(vm_directory, executable),
        _ => return Err(Error::usage("vm-boot: --stage must be 'namespaces' or 'init'")),
    };
    outcome.map_err(|reason| {
        // The caller may have ended. The exit status also shows the failure.
        let _ = Report::Failed(reason.clone()).send();
        Error::failure(reason)
    })
}
