//! The status of an environment, the logs of the VM on record, SSH to it, and `cloud-check`.
//!
//! Entry points: [`StatusCollector`], [`print_logs`], [`follow_logs`], [`save_logs`] and [`print_console`],
//! [`ssh()`], [`cloud_check`], and its [`create_report`]. Only the last two lock the state, and only
//! `cloud_check` changes it. The others wait for no run, and no run waits for them.

mod check;
mod console;
mod follow;
mod gateway;
mod host_key;
mod lines;
mod logs;
mod ssh;
mod status;

pub use check::{
    CloudCheckRequest, CloudCheckResult, CloudReport, Decision, Finding, FindingStatus, Problem, ProblemKind,
    Repair, RepairAttempt, RepairChoice, ReportRequest, TreatedProblem, cloud_check, create_report,
};
pub use console::{ConsoleRequest, print_console};
pub use gateway::{Gateway, SshRoute};
pub use logs::{LogOrigin, LogsRequest, MAX_ARCHIVE_BYTES, SavedLogs, follow_logs, print_logs, save_logs};
pub use ssh::{CopyPath, Login, SshAction, SshRequest, ssh};
pub use status::{
    AgentReply, AgentStatus, CertificateStatus, CpiStatus, DiskStatus, NetworkStatus, PresenceStatus,
    ProcessStatus, Status, StatusCollector, StatusRequest, StatusSources, VmStatus,
};

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::agent_client::{Agent, AgentEndpoint, resolve_endpoint, wait_for_own_agent};
use crate::deploy::boot;
use crate::history::{self, RecordedRun};
use crate::prepare;
use crate::protocol::BuiltinCpi;
use crate::record_commands;
use crate::run_context::RunContext;
use crate::run_context::state_lock::no_state_error;
use crate::state::State;
use base::{Error, ErrorKind, Result};
use manifest::{Inputs, LoadedManifest};

/// A VM whose own agent answers.
struct ReachedVm {
    endpoint: AgentEndpoint,
    agent: Agent,
    /// The built-in CPI of the VM, if it has one.
    builtin: Option<BuiltinCpi>,
}

/// Reads the state, which must exist.
fn read_state(run: &RunContext) -> Result<State> {
    let storage = run.paths.storage.resolve_links()?;
    State::read(&storage)?.ok_or_else(|| no_state_error(&storage))
}

/// Returns the endpoint of the agent according to the manifest, and the manifest.
fn load_agent_endpoint(
    run: &RunContext,
    inputs: &Inputs,
    state: &State,
) -> Result<(AgentEndpoint, LoadedManifest)> {
    let manifest = prepare::load_deployed(run, inputs, state)?;
    Ok((resolve_endpoint(run, &manifest.provider()?)?, manifest))
}

/// Finds the VM on record and waits until its own agent answers. `ssh_command` opens an ssh session, for
/// hints.
fn find_vm_and_wait(
    run: &RunContext,
    inputs: &Inputs,
    timeout: Duration,
    ssh_command: &str,
) -> Result<ReachedVm> {
    let state = read_state(run)?;
    let (endpoint, manifest) = load_agent_endpoint(run, inputs, &state)?;
    let vm = record_commands::vm_on_record(run, &state)?;
    let builtin = boot::builtin_cpi(&vm, &manifest)?;
    let agent = wait_for_own_agent(run, endpoint.clone(), &state, &vm, &(&manifest).into(), timeout)
        .map_err(|error| {
            let error = explain_silent_agent(error, builtin, ssh_command);
            let error = boot::explain_if_off(error, boot::off_error, run, inputs, &manifest, &state);
            record_commands::explain_deletion(error, run, &vm)
        })?;
    Ok(ReachedVm { endpoint, agent, builtin })
}

/// Adds the command that shows the VM without its agent to the error of an agent that does not answer.
fn explain_silent_agent(error: Error, builtin: Option<BuiltinCpi>, ssh_command: &str) -> Error {
    if error.kind() != ErrorKind::AgentUnreachable {
        return error;
    }
    error.with_hint(match builtin.is_some_and(BuiltinCpi::keeps_vms_here) {
        true => "without the agent: `monopile logs MANIFEST --console`".to_owned(),
        false => format!("without the agent: `{ssh_command} --private-key FILE`"),
    })
}

/// Returns the recorded runs of the environment in this directory, newest first.
fn read_recorded_runs(run: &RunContext, directory: &Path) -> Result<Vec<RecordedRun>> {
    history::list(directory, Some(&run.paths.storage.resolve_links()?.path_or_url()))
}

/// Returns true if a VM is on record, but the last deploy to it did not finish. The state does not show that
/// alone: dropping a record also makes the next create-env deploy.
fn is_deploy_unfinished(state: &State, runs: &[RecordedRun]) -> bool {
    state.vm_handle().is_some() && state.current_deploy_digest.is_empty() && history::has_failed_deploy(runs)
}

/// The problem that the last deploy did not finish.
const UNFINISHED_DEPLOY: &str = "the last deploy did not finish";

/// Returns the names of the jobs on the VM from the answer to `get_state`.
fn job_names(agent_state: &Value) -> Vec<String> {
    let templates = agent_state.pointer("/job/templates").and_then(Value::as_array);
    let names = templates.into_iter().flatten().filter_map(|job| job.get("name")?.as_str());
    names.map(str::to_owned).collect()
}
