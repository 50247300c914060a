//! The BOSH agent of a `local` VM, and of a VM with a kernel of its own: the mbus over HTTPS, jobs and
//! packages, a job supervisor, persistent disks. `platform` has all that differs between these VMs.
//!
//! [`run`] is the whole program. The VM's init (part of the `local` CPI, or systemd) starts it, restarts it
//! when it ends, and keeps its standard error as the agent's log. `server` receives messages, `dispatch`
//! turns them into actions, and `tasks` runs long actions. Actions are blocking code on threads. All files
//! are below one base directory, `/var/vcap` in a VM.

mod apply;
mod archive;
mod blobs;
mod compile;
mod digest;
mod directories;
mod disk_copy;
mod disks;
mod dispatch;
mod logs;
mod packages;
mod platform;
mod process;
mod script;
mod server;
mod settings;
mod settings_source;
mod spec;
mod ssh;
mod supervisor;
mod tasks;
mod tls;
mod tools;
mod vitals;

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;

use self::blobs::Blobs;
use self::directories::Directories;
use self::disks::Disks;
use self::packages::Links;
pub use self::platform::Platform;
pub(crate) use self::process::SCRIPT_PATH;
use self::settings::{AgentSettings, MbusEndpoint};
use self::settings_source::SettingsSource;
use self::spec::SpecStore;
use self::supervisor::Supervisor;
use self::tasks::Tasks;
use base::error::ResultExt;
use base::{Error, Result};

/// The state that all actions share.
struct Agent {
    platform: Platform,
    source: SettingsSource,
    endpoint: MbusEndpoint,
    directories: Directories,
    blobs: Blobs,
    disks: Disks,
    links: Links,
    spec: SpecStore,
    supervisor: Supervisor,
    tasks: Tasks,
    /// Orders tasks: compilations take a read lock, most others the write lock, see
    /// `dispatch::TaskConcurrency`.
    turn: RwLock<()>,
}

impl Agent {
    /// Returns the settings that the agent read last.
    fn settings(&self) -> Result<AgentSettings> {
        self.source.load_saved().context(|| "Reading the settings".to_owned())
    }

    /// Reads the settings again. The CPI may have added a disk.
    fn reread_settings(&self) -> Result<AgentSettings> {
        self.source.load_current().context(|| "Refreshing the settings".to_owned())
    }
}

/// Runs the agent until SIGTERM or SIGINT. `settings` is the path of the settings file, `base` the base
/// directory.
///
/// Jobs keep running after the agent has ended. The next agent process finds them.
pub fn run(platform: Platform, settings: &Path, base: &Path) -> Result<()> {
    platform.fetch_settings(settings)?;
    let source = SettingsSource::read_beside(settings)?;
    let settings = source.load_at_start()?;
    platform.set_up_network(&settings)?;
    let endpoint = settings.parse_endpoint()?;
    let tls = tls::server_config(&settings.env.bosh.mbus.cert, &endpoint)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Error::io("starting the agent's runtime", error))?;
    let outcome = runtime.block_on(async {
        // The agent listens first, because an agent that cannot be reached must not change jobs or disks.
        let address = endpoint.resolve_address()?;
        let listener = tokio::net::TcpListener::bind(address)
            .await
            .map_err(|error| Error::io(format!("listening on {address}"), error))?;
        let mut terminate =
            signal(SignalKind::terminate()).map_err(|error| Error::io("handling SIGTERM", error))?;
        let mut interrupt =
            signal(SignalKind::interrupt()).map_err(|error| Error::io("handling SIGINT", error))?;
        let agent = Arc::new(set_up(platform, source, base, &settings, endpoint)?);
        if let Ok(bound) = listener.local_addr() {
            tracing::info!(agent_id = settings.agent_id, address = %bound, "the agent listens");
        }
        let result = tokio::select! {
            result = server::serve(agent.clone(), listener, TlsAcceptor::from(tls)) => result,
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        };
        agent.tasks.cancel_all();
        result
    });
    // Actions that still run end with the process, as when it is killed.
    runtime.shutdown_background();
    outcome
}

/// Prepares the directories, mounts the persistent disk and loads the jobs. If the disk cannot be mounted,
/// the agent answers, but the jobs stay stopped, because they must not write to an empty `store`.
fn set_up(
    platform: Platform,
    source: SettingsSource,
    base: &Path,
    settings: &AgentSettings,
    endpoint: MbusEndpoint,
) -> Result<Agent> {
    let directories = Directories::new(base);
    platform.set_up_data(settings, &directories)?;
    directories.set_up()?;
    let boot_file = directories.bosh().join("boot");
    let boot_identity = supervisor::read_boot_identity();
    if std::fs::read_to_string(&boot_file).ok().as_deref() != Some(boot_identity.as_str()) {
        supervisor::remove_run_files(&directories.run());
        directories::write_atomically(&boot_file, boot_identity.as_bytes(), 0o600)?;
    }
    let blobs = Blobs::new(directories.blobs());
    blobs.clean_up();
    let disks = Disks::new(platform, directories.clone());
    let restore_result = disks.restore(settings);
    if let Err(error) = &restore_result {
        // The jobs must not start on an empty `store`. The client sees the missing disk in `list_disk`, and
        // can mount it and start the jobs.
        tracing::error!(error = %error_text(error), "mounting the persistent disk failed; the jobs are not \
            started");
    }
    Ok(Agent {
        platform,
        source,
        endpoint,
        blobs,
        disks,
        links: Links::default(),
        spec: SpecStore::load(directories.bosh().join("spec.json"))?,
        supervisor: Supervisor::load(&directories, restore_result.is_ok())?,
        tasks: Tasks::default(),
        turn: RwLock::new(()),
        directories,
    })
}

/// Returns the text of an error for an answer: the message and its causes, separated by colons.
fn error_text(error: &Error) -> String {
    error.chain().join(": ")
}
