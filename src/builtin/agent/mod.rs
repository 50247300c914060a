//! The BOSH agent inside a `local` VM: the mbus over HTTPS, jobs and packages, a job supervisor, persistent
//! disks.
//!
//! [`run`] is the whole program. The VM's first process (part of the `local` CPI) starts it, starts it again
//! when it ends, and keeps its standard error as the agent's log. Messages come in through `server`, become
//! actions in `dispatch`, long ones tasks in `tasks`; actions are plain blocking code on threads. Everything
//! is under one base directory, `/var/vcap` in a VM.

mod apply;
mod archive;
mod blobs;
mod compile;
mod digest;
mod dirs;
mod disks;
mod dispatch;
mod logs;
mod migrate;
mod packages;
mod process;
mod script;
mod server;
mod settings;
mod source;
mod spec;
mod ssh;
mod supervisor;
mod tasks;
mod tls;
mod vitals;

use std::path::Path;
use std::sync::{Arc, RwLock};

use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;

use self::blobs::Blobs;
use self::dirs::Dirs;
use self::disks::Disks;
use self::packages::Links;
pub(crate) use self::process::SCRIPT_PATH;
use self::settings::{AgentSettings, Endpoint};
use self::source::Source;
use self::spec::SpecStore;
use self::supervisor::Supervisor;
use self::tasks::Tasks;
use base::error::ResultExt;
use base::{Error, Result};

/// What all actions share.
struct Agent {
    source: Source,
    endpoint: Endpoint,
    dirs: Dirs,
    blobs: Blobs,
    disks: Disks,
    links: Links,
    spec: SpecStore,
    supervisor: Supervisor,
    tasks: Tasks,
    /// Compilations hold it together, everything else alone.
    turn: RwLock<()>,
}

impl Agent {
    /// The settings as they are known here.
    fn settings(&self) -> Result<AgentSettings> {
        self.source.known().context(|| "Reading the settings".to_owned())
    }

    /// The settings as they are now: the CPI may have added a disk.
    fn fresh_settings(&self) -> Result<AgentSettings> {
        self.source.refresh().context(|| "Refreshing the settings".to_owned())
    }
}

/// Runs the agent until SIGTERM or SIGINT. Jobs keep running; the next agent process finds them.
pub fn run(settings: &Path, base: &Path) -> Result<()> {
    let source = Source::beside(settings)?;
    let given = source.first()?;
    let endpoint = given.endpoint()?;
    let tls = tls::server_config(&given.env.bosh.mbus.cert, &endpoint)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Error::io("starting the agent's runtime", e))?;
    let outcome = runtime.block_on(async {
        // Bound first: an agent that cannot be reached must not touch jobs or disks.
        let address = endpoint.address()?;
        let listener = tokio::net::TcpListener::bind(address)
            .await
            .map_err(|e| Error::io(format!("listening on {address}"), e))?;
        let mut terminate = signal(SignalKind::terminate()).map_err(|e| Error::io("handling SIGTERM", e))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|e| Error::io("handling SIGINT", e))?;
        let agent = Arc::new(set_up(source, base, &given, endpoint)?);
        if let Ok(bound) = listener.local_addr() {
            tracing::info!(agent_id = given.agent_id, address = %bound, "the agent listens");
        }
        let served = tokio::select! {
            served = server::serve(agent.clone(), listener, TlsAcceptor::from(tls)) => served,
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        };
        agent.tasks.cancel_all();
        served
    });
    // Threads in the middle of an action end with the process, as they would on a kill.
    runtime.shutdown_background();
    outcome
}

fn set_up(source: Source, base: &Path, settings: &AgentSettings, endpoint: Endpoint) -> Result<Agent> {
    let dirs = Dirs::new(base);
    dirs.set_up()?;
    let boot = dirs.bosh().join("boot");
    let now = supervisor::boot_identity();
    if std::fs::read_to_string(&boot).ok().as_deref() != Some(now.as_str()) {
        supervisor::forget_pid_files(&dirs.run());
        dirs::write_atomically(&boot, now.as_bytes(), 0o600)?;
    }
    let blobs = Blobs::new(dirs.blobs());
    blobs.sweep();
    let disks = Disks::new(dirs.clone());
    let restored = disks.restore(settings);
    if let Err(error) = &restored {
        // The client finds out with `list_disk`, and can mount it and start the jobs. By themselves they must
        // not come up: they would begin anew on an empty `store`.
        tracing::error!(error = %message(error), "the persistent disk could not be mounted; jobs stay down");
    }
    Ok(Agent {
        source,
        endpoint,
        blobs,
        disks,
        links: Links::default(),
        spec: SpecStore::load(dirs.bosh().join("spec.json"))?,
        supervisor: Supervisor::start_up(&dirs, restored.is_ok())?,
        tasks: Tasks::default(),
        turn: RwLock::new(()),
        dirs,
    })
}

/// An error as the protocol carries it: one line, causes joined by colons.
fn message(error: &Error) -> String {
    error.chain().join(": ")
}
