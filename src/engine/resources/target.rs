//! The target environment of a command on single resources: opens it with its state locked and settled.

use crate::cpi_set::{self, Cpis, OwnedCpiInputs};
use crate::effects::{Effect, Executor};
use crate::run_context::RunContext;
use crate::run_context::state_lock::{self, no_state_error};
use crate::state::{State, Store};
use crate::{prepare, recovery};
use base::error::Error;
use base::{ErrorKind, Result};
use erb::RendererChoice;
use manifest::{Inputs, LoadedManifest};

/// The environment that a command on single resources uses.
#[derive(Debug, Clone)]
pub struct TargetEnvironment {
    /// The manifest, its ops files and variables.
    pub inputs: Inputs,
    /// `--renderer`: the renderer for the CPI's templates.
    pub renderer_choice: RendererChoice,
    /// `--cpi-api-version`: the highest API version to use with a CPI.
    pub cpi_api_version: Option<u32>,
    /// `--forget-open-calls`: drop open calls of an earlier run whose outcome is unknown.
    pub forget_open_calls: bool,
}

/// The locked state, and the CPI sections of the manifest.
pub(super) struct OpenedEnvironment {
    pub(super) store: Store,
    pub(super) manifest: LoadedManifest,
    pub(super) cpi_inputs: OwnedCpiInputs,
}

impl TargetEnvironment {
    /// Opens an existing environment; fails if there is no state.
    pub(super) fn open(&self, run: &RunContext, command: &str) -> Result<OpenedEnvironment> {
        self.begin(run, command, false)
    }

    /// Like [`Self::open`], but starts a new state if there is none.
    pub(super) fn open_or_begin(&self, run: &RunContext, command: &str) -> Result<OpenedEnvironment> {
        self.begin(run, command, true)
    }

    fn begin(&self, run: &RunContext, command: &str, may_begin: bool) -> Result<OpenedEnvironment> {
        let mut store = state_lock::open(run, command)?;
        if !may_begin && !store.has_state() && store.read_open_calls::<Effect>()?.is_empty() {
            return Err(no_state_error(store.storage()));
        }
        run.reporter.report_state(store.storage());
        recovery::settle_open_calls(run, &self.inputs, &mut store, self.forget_open_calls)?;
        let validating = run.reporter.begin_stage("Validating");
        // Generated values are not saved: the next deploy would log in to the agent with them, which does not
        // know them.
        let inputs = prepare::read_only_inputs(&self.inputs, store.state());
        let manifest = prepare::load(run, &inputs)?;
        let cpi_inputs =
            OwnedCpiInputs::open(run, &self.inputs, self.renderer_choice, &manifest, &validating)?;
        cpi_set::record_migrated_from(run, cpi_inputs.config.as_ref(), &mut store)?;
        validating.finish();
        Ok(OpenedEnvironment { store, manifest, cpi_inputs })
    }

    /// Returns an executor for the state and the CPIs of the manifest. No CPI is asked yet.
    pub(super) fn create_executor<'a>(
        &self,
        run: &'a RunContext,
        cpi_inputs: &'a OwnedCpiInputs,
        store: Store,
    ) -> Result<Executor<'a>> {
        let cpis = self.find_cpis(run, cpi_inputs, store.state())?;
        Ok(Executor::new(run, cpis, store))
    }

    /// Returns the CPIs of the manifest. No CPI is asked yet.
    pub(super) fn find_cpis<'a>(
        &self,
        run: &'a RunContext,
        cpi_inputs: &'a OwnedCpiInputs,
        state: &State,
    ) -> Result<Cpis<'a>> {
        Cpis::find(run, cpi_inputs.borrowed(), state, self.cpi_api_version)
    }
}

/// Asks the operator at the terminal to confirm. Without a terminal, the command itself counts as consent.
pub(super) fn confirm(run: &RunContext, question: &str) -> Result<()> {
    match &run.confirm {
        Some(confirm) if !confirm(question)? => {
            Err(Error::new(ErrorKind::Declined, "not confirmed: nothing was changed"))
        }
        _ => Ok(()),
    }
}
