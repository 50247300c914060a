//! Installs a CPI on a thread of its own, while other artifacts are downloaded and templates are checked.

use std::panic::resume_unwind;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::source::{OwnedCpiInputs, ResolvedCpis, ShareableInstallation};
use crate::run_context::RunContext;
use artifact::Release;
use base::events::Stage;
use base::signals::RunSignals;
use base::{Error, Result};
use erb::RendererChoice;
use manifest::{CpiConfig, Deployment};

/// The pause between two checks for the end of the installation.
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// A running installation. Dropping it ends the installation and all processes that it started.
pub(crate) struct EarlyInstallation {
    /// The signals that the installation sees. A signal to the run reaches it only through this.
    signals: RunSignals,
    thread: Option<JoinHandle<Result<ShareableInstallation>>>,
}

impl EarlyInstallation {
    /// Begins to install the CPI of a deployment from these releases, as a part of `stage`.
    pub(crate) fn begin(
        run: &RunContext,
        renderer_choice: RendererChoice,
        deployment: &Deployment,
        config: Option<&CpiConfig>,
        manifest: &Path,
        releases: Vec<Release>,
        stage: &Stage,
    ) -> Result<Self> {
        let signals = RunSignals::default();
        let run = RunContext { signals: signals.clone(), ..run.clone() };
        let (deployment, config) = (deployment.clone(), config.cloned());
        let (manifest, reporter) = (manifest.to_owned(), stage.reporter().clone());
        let install = move || {
            let preparing = reporter.begin_stage("Preparing the CPI");
            let cpi_inputs = OwnedCpiInputs::for_deployment(
                &run,
                renderer_choice,
                &deployment,
                config,
                manifest,
                releases,
            )?;
            let resolved_cpis = ResolvedCpis::find(&run, cpi_inputs.borrowed())?;
            let installation = resolved_cpis.install_for_others(deployment.cpi(), &preparing)?;
            preparing.finish();
            Ok(installation)
        };
        let thread = thread::Builder::new()
            .spawn(install)
            .map_err(|error| Error::io("starting the thread that installs the CPI", error))?;
        Ok(EarlyInstallation { signals, thread: Some(thread) })
    }

    /// Waits for the end of the installation. A signal to the run ends it.
    pub(crate) fn finish(mut self, run: &RunContext) -> Result<ShareableInstallation> {
        let Some(thread) = self.thread.take() else {
            return Err(Error::failure("the installation of the CPI was already awaited"));
        };
        while !thread.is_finished() {
            if let Some(signal) = run.signal() {
                self.signals.set_signal(signal);
            }
            thread::sleep(POLL_PAUSE);
        }
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Drop for EarlyInstallation {
    fn drop(&mut self) {
        const SIGTERM: u8 = 15;
        self.signals.set_signal(SIGTERM);
        if let Some(thread) = self.thread.take() {
            // An error of the installation is not the reason why the run ends.
            let _ = thread.join();
        }
    }
}
