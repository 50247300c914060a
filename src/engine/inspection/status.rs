//! `status`: collects the status of an environment from the state, the CPI and the agent.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{UNFINISHED_DEPLOY, is_deploy_unfinished, read_recorded_runs};
use crate::agent_client::other_credentials::OtherCredentials;
use crate::agent_client::{
    Agent, AgentEndpoint, AgentError, ForeignAgent, OtherAddress, PROXY_HINT, create_client,
    hint_for_silent_agent, resolve_endpoint, with_console,
};
use crate::cpi_set::{self, Cpis, OwnedCpiInputs, Presence, describe_off};
use crate::effects::{
    DENIED_MOUNT_NOTE, describe_denied, describe_denied_mount, describe_not_found, hint_for_denied_mount,
    probable_cause, probable_cause_of_denial,
};
use crate::history::{self, RecordedRun, RunOutcome, RunRecord};
use crate::prepare;
use crate::protocol::{DiskCid, Networks, ResourceKind};
use crate::record_commands::{self, StateOverview};
use crate::run_context::RunContext;
use crate::state::{DiskHandle, Resource, RunCredentials, State, VmHandle};
use base::console::LastBoot;
use base::events::Reporter;
use base::exit_code;
use base::{Error, ErrorKind, Result};
use erb::RendererChoice;
use manifest::{self, Inputs};

/// The number of recent runs shown.
const MAX_SHOWN_RUNS: usize = 5;

/// The request of `status`.
#[derive(Debug, Clone)]
pub struct StatusRequest {
    /// The manifest and its inputs; without them only records are shown.
    pub inputs: Option<Inputs>,
    /// True to ask the CPI which resources exist.
    pub asks_cpi: bool,
    /// `--renderer`: the renderer for the CPI's templates.
    pub renderer_choice: RendererChoice,
    /// `--cpi-api-version`: the highest API version to use with the CPI.
    pub cpi_api_version: Option<u32>,
    /// `--agent-timeout`: how long the agent may take to answer.
    pub agent_timeout: Duration,
    /// The directory with the records of runs.
    pub history_directory: Option<PathBuf>,
}

/// The status of an environment.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The time of this status, RFC 3339 UTC.
    pub time: String,
    /// The VM, if one is on record.
    pub vm: Option<VmStatus>,
    /// The agent at the address of the manifest, or the reason why it was not asked.
    pub agent: AgentStatus,
    /// The overall state of the jobs, such as `running`; `None` if the agent did not report it.
    pub job_state: Option<String>,
    /// The jobs on the VM.
    pub jobs: Vec<String>,
    /// The processes that the agent supervises; empty if it did not report them.
    pub processes: Vec<ProcessStatus>,
    /// Load, CPU, memory and disks, as the agent reports them.
    pub vitals: Option<Value>,
    /// The CPIs of VM and disks, if they were asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpis: Vec<CpiStatus>,
    /// The networks as the agent reports them, else as the CPI or the manifest names them.
    pub networks: Vec<NetworkStatus>,
    /// The persistent disks on record, also those that the VM does not use.
    pub disks: Vec<DiskStatus>,
    /// Disks that the agent has mounted and that are not on record.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untracked_disks: Vec<DiskCid>,
    /// The certificates of the manifest and its variables, by the day they expire.
    pub certificates: Vec<CertificateStatus>,
    /// All records, without secrets.
    pub record: StateOverview,
    /// The last runs on this machine, newest first.
    pub runs: Vec<RecordedRun>,
    /// The last boot of a VM whose agent does not answer, if its console shows a problem.
    #[serde(skip)]
    failed_boot: Option<LastBoot>,
    /// The error of a CPI that could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpi_problem: Option<CpiProblem>,
    /// The error of the first `has_vm` or `has_disk` that failed.
    #[serde(skip)]
    pub presence_error: Option<String>,
    /// The probable cause if the CPI denies resources that probably exist.
    #[serde(skip)]
    cause_of_denial: Option<String>,
    /// The hint for a CPI that denies the VM.
    #[serde(skip)]
    denied_vm_hint: Option<String>,
    /// The run that is in progress on this machine.
    #[serde(skip)]
    run_in_progress: Option<RecordedRun>,
    /// The last run that began to change the VM or its jobs.
    #[serde(skip)]
    last_changing_run: Option<RecordedRun>,
    /// True if a VM is on record, but the last deploy to it did not finish, and no run is in progress.
    #[serde(skip)]
    pub is_deploy_unfinished: bool,
    /// The hint for an agent that does not answer.
    #[serde(skip)]
    hint_for_silent_agent: &'static str,
}

/// The error of a CPI that could not be asked.
#[derive(Debug, Clone, Serialize)]
pub struct CpiProblem {
    /// The error with its causes.
    pub message: String,
    /// Hints for the operator.
    #[serde(skip)]
    hints: Vec<String>,
}

/// The CPI's answer to whether a resource exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PresenceStatus {
    /// The CPI confirms that it exists.
    Yes,
    /// The CPI denies that it exists.
    No,
    /// The CPI does not know.
    Unknown,
    /// The CPI was not asked.
    NotAsked,
}

/// A CPI that was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpiStatus {
    /// Its name; `None` for the default CPI.
    pub name: Option<String>,
    /// The version of the CPI itself, if it answers `info` with one.
    pub version: Option<String>,
    /// The release that it comes from: `NAME/VERSION`.
    pub release: Option<String>,
    /// The version of the CPI API that is used with it.
    pub api_version: u32,
}

/// The VM on record.
#[derive(Debug, Serialize)]
pub struct VmStatus {
    /// Its CID, and its CPI's name.
    #[serde(flatten)]
    pub handle: VmHandle,
    /// The instance, such as `bosh/0`; `None` if only the CID of the VM is on record.
    pub instance: Option<String>,
    /// The CPI's answer to whether it exists.
    pub presence: PresenceStatus,
    /// True if it is on this machine, and its processes have ended.
    #[serde(rename = "off", skip_serializing_if = "std::ops::Not::not")]
    pub is_off: bool,
}

/// The result of asking the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentReply {
    /// It answers.
    Yes,
    /// It does not answer.
    No,
    /// A foreign agent answers in its place.
    Foreign,
    /// It was not asked: there is no VM, or no manifest with its address.
    NotAsked,
}

/// The agent at the address of the manifest. It is asked only if a VM is on record.
#[derive(Debug, Serialize)]
pub struct AgentStatus {
    /// Its id, if known.
    pub id: Option<String>,
    /// The scheme, host and port.
    pub address: Option<String>,
    /// The result of asking the agent.
    pub reply: AgentReply,
    /// The reason why it does not answer.
    pub problem: Option<String>,
    /// True if nothing came from it; false if it refuses or cannot be trusted.
    #[serde(skip)]
    pub is_silent: bool,
    /// True if the connection failed in the proxy, so the agent may answer others.
    #[serde(skip)]
    pub is_proxy_failure: bool,
    /// Hints for the operator if it refuses.
    #[serde(skip)]
    hints: Vec<String>,
    /// True if it refuses the credentials of this run, which differ from the deployed ones.
    #[serde(skip)]
    has_other_credentials: bool,
    /// The address of this run, if it is not on record.
    #[serde(skip)]
    other_address: Option<OtherAddress>,
}

/// A process that the agent supervises.
#[derive(Debug, Serialize)]
pub struct ProcessStatus {
    /// The name, as the agent reports it.
    pub name: String,
    /// `running`, `failing` and so on.
    pub state: String,
    /// Seconds since its start; `None` if the agent did not report it.
    pub uptime_seconds: Option<u64>,
    /// Its memory in KiB.
    pub memory_kib: Option<u64>,
    /// Its share of the VM's memory, in percent.
    pub memory_percent: Option<f64>,
    /// Its share of a CPU, in percent.
    pub cpu_percent: Option<f64>,
}

/// A network of the VM.
#[derive(Debug, Serialize)]
pub struct NetworkStatus {
    /// The name in the manifest.
    pub name: String,
    /// `manual`, `dynamic` or `vip`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The VM's address on it.
    pub ip: Option<String>,
    /// The netmask; `None` if the source of the networks has none.
    pub netmask: Option<String>,
    /// The address of the gateway; `None` if the source of the networks has none.
    pub gateway: Option<String>,
}

/// A persistent disk.
#[derive(Debug, Serialize)]
pub struct DiskStatus {
    /// Its CID, and its CPI's name.
    #[serde(flatten)]
    pub handle: DiskHandle,
    /// Its size in MiB.
    pub size: u64,
    /// True if the VM uses it.
    pub in_use: bool,
    /// The CPI's answer to whether it exists.
    pub presence: PresenceStatus,
    /// True if the agent has mounted it; `None` if the agent did not report it.
    #[serde(rename = "mounted")]
    pub is_mounted: Option<bool>,
    /// Its usage in percent, if the agent reports it.
    pub used_percent: Option<String>,
    /// The disk hint for the agent, credentials redacted.
    pub hint: Option<Value>,
}

/// A certificate of the manifest or the vars store, with its end.
#[derive(Debug, Clone, Serialize)]
pub struct CertificateStatus {
    /// Its place: `cloud_provider.cert.ca`, or the name of a variable.
    pub path: String,
    /// The day on which it expires: `2026-11-21`.
    pub expires: String,
    /// The number of days until then; negative afterwards.
    pub days: i64,
}

/// The inputs of a status: the parts of the manifest that it needs.
pub struct StatusSources<'a> {
    run: &'a RunContext,
    request: &'a StatusRequest,
    endpoint: Option<AgentEndpoint>,
    /// The inputs from which CPIs are found, if the CPIs are to be asked.
    cpi_inputs: Option<OwnedCpiInputs>,
    manifest_networks: Map<String, Value>,
    /// The credentials of this run.
    run_credentials: RunCredentials,
    certificates: Vec<CertificateStatus>,
}

/// Collects the status of an environment, once or repeatedly.
pub struct StatusCollector<'a> {
    sources: &'a StatusSources<'a>,
    /// The CPIs, if one was asked before.
    cpis: Option<Cpis<'a>>,
    /// The last answers of the CPIs.
    last_answers: Option<CpiAnswers>,
}

/// The answers of the CPIs, which are valid as long as the situation is the same.
struct CpiAnswers {
    situation: Situation,
    findings: Vec<(Resource, PresenceStatus)>,
    cpis: Vec<CpiStatus>,
    problem: Option<CpiProblem>,
    /// The error of the first `has_vm` or `has_disk` that failed.
    presence_error: Option<String>,
    /// The probable cause if the CPI denies resources that probably exist.
    cause_of_denial: Option<String>,
    /// The hint for a CPI that denies the VM.
    denied_vm_hint: String,
    /// True if the VM is on this machine, and its processes have ended.
    is_off: bool,
    /// The last boot of a VM whose agent did not answer, if its console is on this machine.
    last_boot: Option<LastBoot>,
}

/// The situation in which CPIs are asked.
#[derive(PartialEq)]
struct Situation {
    /// The VM on record.
    vm: Option<VmHandle>,
    /// True if its agent answered.
    has_agent_answered: bool,
}

impl<'a> StatusSources<'a> {
    /// Reads what the status needs before CPIs and agent are asked: manifest, state, certificates, and the
    /// inputs of the CPIs.
    pub fn new(request: &'a StatusRequest, run: &'a RunContext) -> Result<Self> {
        let mut sources = StatusSources {
            run,
            request,
            endpoint: None,
            cpi_inputs: None,
            manifest_networks: Map::new(),
            run_credentials: RunCredentials::default(),
            certificates: Vec::new(),
        };
        let Some(inputs) = &request.inputs else { return Ok(sources) };
        // Without a state there is nothing to report, so no CPI is installed.
        record_commands::show(&run.paths.storage)?;
        let preparing = run.reporter.begin_stage("Preparing");
        let state = State::read(&run.paths.storage)?.unwrap_or_default();
        let manifest = prepare::load_deployed(run, inputs, &state)?;
        sources.endpoint = Some(resolve_endpoint(run, &manifest.provider()?)?);
        sources.run_credentials = (&manifest).into();
        if request.asks_cpi {
            let cpi_inputs =
                OwnedCpiInputs::open(run, inputs, request.renderer_choice, &manifest, &preparing)?;
            sources.cpi_inputs = Some(cpi_inputs);
        }
        // The networks are omitted if the manifest cannot be deployed.
        if let Ok(deployment) = manifest.deployment() {
            sources.manifest_networks = deployment.vm.networks;
        }
        sources.certificates = manifest::certificate_expiries(&manifest)
            .into_iter()
            .map(|certificate| CertificateStatus {
                path: certificate.path,
                expires: manifest::day(certificate.not_after),
                days: (certificate.not_after - time::OffsetDateTime::now_utc()).whole_days(),
            })
            .collect();
        preparing.finish();
        Ok(sources)
    }

    /// Returns a collector that has not asked anything yet.
    pub fn collector(&self) -> StatusCollector<'_> {
        StatusCollector { sources: self, cpis: None, last_answers: None }
    }
}

impl StatusCollector<'_> {
    /// Collects the status. Asks the agent each time. Asks the CPI, which takes one process per question,
    /// only the first time and when the VM on record changes or its agent starts or stops answering.
    pub fn collect(&mut self, reporter: &Reporter) -> Result<Status> {
        let record = record_commands::show(&self.sources.run.paths.storage)?;
        let state = State::read(&self.sources.run.paths.storage)?.unwrap_or_default();
        let (agent, agent_state, mounted_disks) = self.ask_agent(&state, reporter)?;
        let has_answered = agent.reply == AgentReply::Yes;
        self.ask_cpis(&state, has_answered, reporter)?;
        let text = |key: &str| agent_state.get(key).and_then(Value::as_str).map(str::to_owned);
        let vitals = agent_state.get("vitals").filter(|vitals| vitals.is_object()).cloned();
        let used_percent = vitals.as_ref().and_then(|vitals| vitals.pointer("/disk/persistent/percent"));
        let used_percent = used_percent.and_then(Value::as_str).map(str::to_owned);
        let vm = record.vm.as_ref().map(|vm| {
            let handle = VmHandle::new(vm.cid.clone(), vm.cpi.as_deref());
            VmStatus {
                instance: vm.instance.clone(),
                presence: self.presence_of(&handle.clone().into()),
                is_off: self.last_answers.as_ref().is_some_and(|answers| answers.is_off),
                handle,
            }
        });
        let disks = record
            .disks
            .iter()
            .map(|disk| {
                let handle = DiskHandle::new(disk.cid.clone(), disk.cpi.as_deref());
                // The agent knows only disks of the VM's CPI.
                let mounted_cids_of_cpi = mounted_disks
                    .as_ref()
                    .filter(|_| vm.as_ref().is_some_and(|vm| vm.handle.cpi == handle.cpi));
                let is_mounted = mounted_cids_of_cpi.map(|cids| cids.contains(&handle.cid));
                DiskStatus {
                    size: disk.size,
                    in_use: disk.in_use,
                    presence: self.presence_of(&handle.clone().into()),
                    handle,
                    is_mounted,
                    used_percent: used_percent.clone().filter(|_| disk.in_use && is_mounted == Some(true)),
                    hint: disk.hint.clone(),
                }
            })
            .collect();
        let mounted_disks = mounted_disks.unwrap_or_default().into_iter();
        let untracked_disks =
            mounted_disks.filter(|cid| record.disks.iter().all(|disk| disk.cid != *cid)).collect();
        let mut runs = match &self.sources.request.history_directory {
            Some(directory) => {
                let mut runs = read_recorded_runs(self.sources.run, directory)?;
                runs.retain(|recorded_run| !was_refused(recorded_run));
                runs
            }
            None => Vec::new(),
        };
        let run_in_progress =
            runs.iter().find(|recorded_run| recorded_run.outcome == RunOutcome::Running).cloned();
        let last_changing_run = history::find_last_change(&runs).cloned();
        let is_deploy_unfinished = run_in_progress.is_none() && is_deploy_unfinished(&state, &runs);
        runs.truncate(MAX_SHOWN_RUNS);
        Ok(Status {
            is_deploy_unfinished,
            hint_for_silent_agent: hint_for_silent_agent(&state),
            failed_boot: self
                .last_answers
                .as_ref()
                .and_then(|answers| answers.last_boot.clone())
                .filter(|boot| boot.problem().is_some()),
            cpi_problem: self.last_answers.as_ref().and_then(|answers| answers.problem.clone()),
            cause_of_denial: self.last_answers.as_ref().and_then(|answers| answers.cause_of_denial.clone()),
            denied_vm_hint: self.last_answers.as_ref().map(|answers| answers.denied_vm_hint.clone()),
            presence_error: self.last_answers.as_ref().and_then(|answers| answers.presence_error.clone()),
            run_in_progress,
            last_changing_run,
            time: base::encoding::now(),
            vm,
            agent,
            job_state: text("job_state"),
            jobs: super::job_names(&agent_state),
            processes: processes(&agent_state),
            vitals,
            cpis: self.last_answers.as_ref().map(|answers| answers.cpis.clone()).unwrap_or_default(),
            networks: self.networks(&agent_state, &state),
            disks,
            untracked_disks,
            certificates: self.sources.certificates.clone(),
            record,
            runs,
        })
    }

    /// Asks the agent for its state and its mounted disks. A foreign agent gets only `get_state`.
    fn ask_agent(
        &self,
        state: &State,
        reporter: &Reporter,
    ) -> Result<(AgentStatus, Value, Option<Vec<DiskCid>>)> {
        let expected_id = state.vm().map(|vm| vm.agent_id.clone());
        let mut agent_status = AgentStatus {
            id: expected_id.clone(),
            address: self.sources.endpoint.as_ref().map(|endpoint| endpoint.address().to_owned()),
            reply: AgentReply::NotAsked,
            problem: None,
            is_silent: false,
            is_proxy_failure: false,
            hints: Vec::new(),
            has_other_credentials: false,
            other_address: self
                .sources
                .endpoint
                .as_ref()
                .and_then(|endpoint| OtherAddress::find(endpoint, state)),
        };
        let (Some(_), Some(endpoint)) = (state.vm_cid(), &self.sources.endpoint) else {
            return Ok((agent_status, Value::Null, None));
        };
        let asking = reporter.begin_stage("Asking the agent for the state of the jobs");
        let agent = create_client(self.sources.run, endpoint.clone(), state);
        let agent_state = agent
            .wait_until_ready(self.sources.request.agent_timeout, &mut |problem| asking.log_line(problem))
            .and_then(|()| fetch_own_state(&agent, expected_id.as_deref()));
        let agent_state = match agent_state {
            Ok(Ok(agent_state)) => agent_state,
            Ok(Err(other)) => {
                agent_status.reply = AgentReply::Foreign;
                agent_status.problem = Some(format!("another VM answers at this address: {other}"));
                return Ok((agent_status, Value::Null, None));
            }
            Err(error @ AgentError::Interrupted { .. }) => return Err(error.into()),
            Err(error) => {
                agent_status.reply = AgentReply::No;
                agent_status.is_silent = error.is_transient();
                agent_status.is_proxy_failure = error.was_caused_by_this_run();
                let other_credentials =
                    OtherCredentials::explain(&error, self.sources.run, state, &self.sources.run_credentials);
                agent_status.has_other_credentials = other_credentials.is_some();
                let error = other_credentials.map_or_else(|| error.into(), Error::from);
                agent_status.problem = Some(error.to_string());
                agent_status.hints = if agent_status.is_silent { Vec::new() } else { error.hints().to_vec() };
                return Ok((agent_status, Value::Null, None));
            }
        };
        agent_status.reply = AgentReply::Yes;
        agent_status.id = agent_status
            .id
            .or_else(|| agent_state.get("agent_id").and_then(Value::as_str).map(str::to_owned));
        let mounted_disks = agent.list_disk().ok();
        asking.finish();
        Ok((agent_status, agent_state, mounted_disks))
    }

    /// Asks the CPIs about the VM and the disks on record. While status is followed, earlier answers stay
    /// valid in the same [`Situation`].
    fn ask_cpis(&mut self, state: &State, has_agent_answered: bool, reporter: &Reporter) -> Result<()> {
        let situation = Situation { vm: state.vm_handle(), has_agent_answered };
        if self.last_answers.as_ref().is_some_and(|answers| answers.situation == situation) {
            return Ok(());
        }
        let Some(cpi_inputs) = &self.sources.cpi_inputs else { return Ok(()) };
        let asking = reporter.begin_stage("Asking the CPI what exists");
        // Renames by `migrated_from` apply here, while the records may still have the old name.
        let (migrated_state, _) = cpi_set::apply_migrated_from(cpi_inputs.config.as_ref(), state)?;
        let cpis = match self.cpis.take() {
            Some(cpis) => cpis,
            None => {
                let (run, request) = (self.sources.run, self.sources.request);
                Cpis::find(run, cpi_inputs.borrowed(), &migrated_state, request.cpi_api_version)?
            }
        };
        let cpis = self.cpis.insert(cpis);
        let (mut findings, mut asked_cpis): (_, Vec<CpiStatus>) = (Vec::new(), Vec::new());
        let (is_off, last_boot) = match migrated_state.vm_handle() {
            Some(vm) if !has_agent_answered => (cpis.is_off(&vm)?, cpis.read_last_boot(&vm)),
            _ => (false, None),
        };
        let (mut problem, mut presence_error, mut denied_resources) = (None, None, Vec::new());
        for (record, resource) in state.resources().zip(migrated_state.resources()) {
            if !matches!(record, Resource::Vm(_) | Resource::Disk(_)) {
                continue;
            }
            let presence = cpis.connect(resource.cpi(), &asking).and_then(|cpi| {
                if asked_cpis.iter().all(|status| status.name.as_deref() != cpi.name()) {
                    let (version, release) = cpi.versions();
                    let (name, api_version) = (cpi.name().map(str::to_owned), cpi.api_version());
                    asked_cpis.push(CpiStatus { name, version, release, api_version });
                }
                cpi.ask_presence(&asking, &resource)
            });
            let presence_status = match presence {
                Ok(Presence::Exists) => PresenceStatus::Yes,
                Ok(Presence::Gone) => {
                    if migrated_state.undeleted(&resource).is_none() {
                        denied_resources.push(resource.clone());
                    }
                    PresenceStatus::No
                }
                Ok(Presence::Unknown(doubt)) => {
                    if doubt.is_failure && presence_error.is_none() {
                        presence_error =
                            Some(format!("the CPI could not say whether {resource} exists: {doubt}"));
                    }
                    asking.log_line(doubt.to_string());
                    PresenceStatus::Unknown
                }
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted(_)) => return Err(error),
                // The record and the agent are worth showing without the CPI, which is not asked again.
                Err(error) => {
                    let (message, hints) = (error.chain().join(": "), error.hints().to_vec());
                    problem = Some(CpiProblem { message, hints });
                    break;
                }
            };
            findings.push((record, presence_status));
        }
        let changed_properties =
            |cpi: Option<&str>| cpis.find_changed_location_properties(&migrated_state, cpi);
        let cause_of_denial =
            probable_cause_of_denial(&migrated_state, &denied_resources, changed_properties)?;
        let denied_cpi = denied_resources.first().and_then(Resource::cpi);
        let changed_properties = match denied_resources.is_empty() {
            true => Vec::new(),
            false => changed_properties(denied_cpi)?,
        };
        let denied_vm_hint = cpis.misplacement_hint(denied_cpi, &changed_properties);
        if problem.is_none() {
            asking.finish();
        }
        self.last_answers = Some(CpiAnswers {
            situation,
            findings,
            cpis: asked_cpis,
            problem,
            presence_error,
            cause_of_denial,
            denied_vm_hint,
            is_off,
            last_boot,
        });
        Ok(())
    }

    /// Returns the CPI's answer about a resource.
    fn presence_of(&self, resource: &Resource) -> PresenceStatus {
        let findings = self.last_answers.iter().flat_map(|answers| &answers.findings);
        let mut answers = findings.filter(|(record, _)| record == resource);
        answers.next().map_or(PresenceStatus::NotAsked, |(_, presence_status)| *presence_status)
    }

    /// Returns the networks as the agent reports them. Falls back to the CPI's answer, then to the manifest.
    fn networks(&self, agent_state: &Value, state: &State) -> Vec<NetworkStatus> {
        let agent_networks =
            agent_state.get("networks").and_then(Value::as_object).filter(|networks| !networks.is_empty());
        let cpi_networks = state.vm().and_then(|vm| vm.networks.as_ref()).map(Networks::as_map);
        let networks = agent_networks.or(cpi_networks).unwrap_or(&self.sources.manifest_networks);
        networks
            .iter()
            .map(|(name, network)| {
                let text = |key: &str| {
                    network
                        .get(key)
                        .and_then(Value::as_str)
                        .filter(|text| !text.is_empty())
                        .map(str::to_owned)
                };
                NetworkStatus {
                    name: name.clone(),
                    kind: text("type"),
                    ip: text("ip"),
                    netmask: text("netmask"),
                    gateway: text("gateway"),
                }
            })
            .collect()
    }
}

/// Returns true for a run that was rejected before its plan, because of arguments, input or the lock, or by
/// the operator.
fn was_refused(recorded_run: &RecordedRun) -> bool {
    const EXIT_CODES: [u8; 3] = [exit_code::USAGE, exit_code::INVALID_INPUT, exit_code::LOCK_CONFLICT];
    let was_rejected =
        recorded_run.record.end.as_ref().is_some_and(|end| EXIT_CODES.contains(&end.exit_code));
    was_rejected && recorded_run.record.plan.is_none()
}

/// Returns the state of the VM's own agent, or the id of a foreign agent.
fn fetch_own_state(agent: &Agent, expected_id: Option<&str>) -> Result<Result<Value, String>, AgentError> {
    if let Some(expected_id) = expected_id
        && let Some(foreign) = ForeignAgent::ask(agent, expected_id)?
    {
        return Ok(Err(foreign.to_string()));
    }
    agent.get_full_state().map(Ok)
}

fn processes(agent_state: &Value) -> Vec<ProcessStatus> {
    let list = agent_state.get("processes").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(|process| {
            Some(ProcessStatus {
                name: process.get("name")?.as_str()?.to_owned(),
                state: process.get("state")?.as_str()?.to_owned(),
                uptime_seconds: process.pointer("/uptime/secs").and_then(Value::as_u64),
                memory_kib: process.pointer("/mem/kb").and_then(Value::as_u64),
                memory_percent: process.pointer("/mem/percent").and_then(Value::as_f64),
                cpu_percent: process.pointer("/cpu/total").and_then(Value::as_f64),
            })
        })
        .collect()
}

/// Describes how to keep a disk that is not on record.
pub(super) fn untracked_disk_hint(cid: &DiskCid) -> String {
    format!("if it has the jobs' data, record it: `monopile attach-disk MANIFEST {cid}`")
}

/// A run in progress, or one that did not finish.
struct UnfinishedRun {
    /// The hints with the next commands.
    hints: Vec<String>,
    /// True if the state of the VM or of its jobs may be why the run failed. It then fails again unless that
    /// is corrected.
    would_fail: bool,
    /// True if the run only stops or starts jobs, so that it needs a VM whose agent answers.
    needs_agent: bool,
}

impl UnfinishedRun {
    /// A run that continues if the operator types the commands of the hints.
    fn continues(hints: Vec<String>) -> Self {
        UnfinishedRun { hints, would_fail: false, needs_agent: false }
    }
}

impl Status {
    /// Returns the run that is in progress on this machine, if any.
    pub fn run_in_progress(&self) -> Option<&RecordedRun> {
        self.run_in_progress.as_ref()
    }

    /// Returns the `stop-env` that stopped the jobs, if no other run has changed anything since.
    pub fn stopping_run(&self) -> Option<&RecordedRun> {
        let are_jobs_stopped = self.job_state.as_deref().is_some_and(|job_state| job_state != "running");
        let newest_change = self.last_changing_run.as_ref()?;
        (are_jobs_stopped
            && newest_change.outcome == RunOutcome::Succeeded
            && newest_change.record.command == "stop-env")
            .then_some(newest_change)
    }

    /// Returns true if the last run that changed something is one of this command.
    fn is_last_change(&self, command: &str) -> bool {
        self.last_changing_run.as_ref().is_some_and(|recorded_run| recorded_run.record.command == command)
    }

    /// Returns the run in progress, or the one that was interrupted or failed and that no other has finished
    /// since, with its hint.
    fn unfinished_run(&self) -> Option<UnfinishedRun> {
        if let Some(recorded_run) = self.run_in_progress() {
            let RunRecord { command, pid, .. } = &recorded_run.record;
            return Some(UnfinishedRun::continues(vec![format!(
                "`{command}` is in progress (pid {pid}): watch it with `monopile status MANIFEST --watch`"
            )]));
        }
        // A cloud-check leaves a deploy unfinished only if it began to replace the VM.
        let newest_change = self.last_changing_run.as_ref();
        let newest_change = newest_change
            .filter(|recorded_run| recorded_run.record.command != "cloud-check" || !self.record.is_deployed);
        let (command, purpose) =
            match newest_change.map_or("create-env", |recorded_run| recorded_run.record.command.as_str()) {
                "create-env" | "recreate" | "cloud-check" => ("create-env", "to finish the deploy"),
                "delete-env" => ("delete-env", "to finish the deletion"),
                other => (other, "to run it again"),
            };
        let waiting_command = if command == "delete-env" { command } else { "create-env" };
        if let Some(hints) = record_commands::hints_for_open_calls(&self.record.open_calls, waiting_command) {
            return Some(UnfinishedRun::continues(hints));
        }
        let advice = format!("{purpose}: `monopile {command} MANIFEST`");
        let needs_agent = !["create-env", "delete-env"].contains(&command);
        match newest_change.map(|recorded_run| recorded_run.outcome) {
            Some(RunOutcome::Failed) => {
                // A deletion needs neither the agent nor the jobs.
                let would_fail = command != "delete-env" && self.record.open_calls.is_empty();
                // The next run may replace the VM, so its plan is worth a look.
                let hint = match command {
                    "create-env" => {
                        "the last deploy failed; see how create-env continues: `monopile plan MANIFEST`"
                            .to_owned()
                    }
                    _ => format!("the last run failed; {advice}"),
                };
                Some(UnfinishedRun { hints: vec![hint], would_fail, needs_agent })
            }
            Some(RunOutcome::Killed | RunOutcome::Interrupted) => {
                let hint = format!("a run was interrupted; {advice}");
                Some(UnfinishedRun { needs_agent, ..UnfinishedRun::continues(vec![hint]) })
            }
            _ if self.record.open_calls.is_empty() => None,
            _ => Some(UnfinishedRun::continues(vec![format!("a run was interrupted; {advice}")])),
        }
    }

    /// Returns the error for the gravest problem, if there is one.
    pub fn problem_error(&self) -> Option<Error> {
        if let Some(CpiProblem { message, hints }) = &self.cpi_problem {
            let error = Error::failure(format!("the CPI could not be asked what exists: {message}"));
            return Some(
                error
                    .with_hints(hints)
                    .with_hint("see the record and the agent only: `monopile status MANIFEST --no-cpi`"),
            );
        }
        let drift_error = |text: String| Error::new(ErrorKind::Drift, text);
        let unfinished_run = self.unfinished_run();
        // Without its VM, disk or agent, a run that needs them would only fail again.
        let independent_run = unfinished_run.as_ref().filter(|unfinished_run| !unfinished_run.needs_agent);
        let next_hints = |usual_hint: &str| {
            independent_run
                .map_or_else(|| vec![usual_hint.to_owned()], |unfinished_run| unfinished_run.hints.clone())
        };
        let Some(vm) = &self.vm else {
            let run_in_progress = self
                .run_in_progress()
                .map(|recorded_run| format!(" while `{}` is in progress", recorded_run.record.command));
            return Some(
                Error::failure(format!("no VM is on record{}", run_in_progress.unwrap_or_default()))
                    .with_hints(next_hints("create one: `monopile create-env MANIFEST`")),
            );
        };
        let contradiction_error = |description: String, kind: ResourceKind| {
            let cause = self.cause_of_denial.clone().unwrap_or_else(|| probable_cause(&[], kind));
            drift_error(description)
                .with_note(cause)
                .with_hints(self.denied_vm_hint.as_slice())
                .with_hint("compare everything on record: `monopile cloud-check MANIFEST --report`")
        };
        let answering_address = self.agent.address.as_ref().filter(|_| self.agent.reply == AgentReply::Yes);
        // A VM may answer for a while during its deletion.
        if vm.presence == PresenceStatus::No
            && self.run_in_progress().is_none()
            && let Some(address) = answering_address
        {
            return Some(contradiction_error(describe_denied(&vm.handle, address), ResourceKind::Vm));
        }
        let not_found_error = |resource: Resource| {
            let error = drift_error(describe_not_found(&resource));
            match &self.cause_of_denial {
                Some(cause) => error.with_note(cause).with_hints(self.denied_vm_hint.as_slice()),
                None => error,
            }
        };
        if vm.presence == PresenceStatus::No {
            let error = not_found_error(vm.handle.clone().into());
            // A new VM could not have the address.
            if self.agent.reply == AgentReply::Foreign
                && let (Some(address), Some(problem)) = (&self.agent.address, &self.agent.problem)
            {
                return Some(error.with_note(format!("{address}: {problem}")).with_hint(
                    "if that VM is of this environment, an earlier version of the state may record it: \
                     `monopile state backup MANIFEST`",
                ));
            }
            return Some(match independent_run {
                Some(unfinished_run) => error.with_hints(&unfinished_run.hints),
                None => error
                    .with_hint(
                        "if the IaaS does not show the VM, check the disks: `monopile cloud-check MANIFEST \
                         --report`",
                    )
                    .with_hint("then create a new VM: `monopile create-env MANIFEST`"),
            });
        }
        if let Some(disk) = self.disks.iter().find(|disk| disk.in_use && disk.presence == PresenceStatus::No)
        {
            return Some(match disk.is_mounted {
                Some(true) if vm.presence == PresenceStatus::Yes => {
                    drift_error(describe_denied_mount(&disk.handle))
                        .with_note(DENIED_MOUNT_NOTE)
                        .with_hint(hint_for_denied_mount(&disk.handle))
                }
                Some(true) => contradiction_error(describe_denied_mount(&disk.handle), ResourceKind::Disk),
                _ => not_found_error(disk.handle.clone().into())
                    .with_hint("see what can be done: `monopile cloud-check MANIFEST`"),
            });
        }
        if vm.is_off && self.agent.reply == AgentReply::No && self.run_in_progress().is_none() {
            let error = Error::new(ErrorKind::AgentUnreachable, describe_off(&vm.handle));
            return Some(
                error.with_hints(next_hints("to start it and its jobs: `monopile start-env MANIFEST`")),
            );
        }
        match self.agent.reply {
            AgentReply::Yes => {}
            AgentReply::NotAsked => return None,
            AgentReply::No | AgentReply::Foreign => {
                let problem = self.agent.problem.clone().unwrap_or_default();
                let failure = match &self.agent {
                    AgentStatus { is_proxy_failure: true, .. } => "cannot be asked",
                    AgentStatus { is_silent: true, .. } => "does not answer",
                    AgentStatus { .. } => "cannot be used",
                };
                let text = format!("the agent of VM {} {failure}", vm.handle);
                let error = Error::new(ErrorKind::AgentUnreachable, text).with_source(problem);
                let error = match &self.failed_boot {
                    Some(boot) if self.agent.is_silent => with_console(error, &vm.handle, boot),
                    _ => error,
                };
                return Some(match independent_run {
                    _ if self.agent.is_proxy_failure => error.with_hint(PROXY_HINT),
                    _ if let Some(other) = &self.agent.other_address => other.explain(error),
                    Some(unfinished_run)
                        if !unfinished_run.would_fail && !self.agent.has_other_credentials =>
                    {
                        error.with_hints(&unfinished_run.hints)
                    }
                    _ if self.agent.hints.is_empty() => error.with_hint(self.hint_for_silent_agent),
                    _ => error.with_hints(&self.agent.hints),
                });
            }
        }
        if let Some(disk) = self.disks.iter().find(|disk| disk.in_use && disk.is_mounted == Some(false)) {
            if let Some(recorded_run) = self.run_in_progress() {
                let (disk, command) = (&disk.handle, &recorded_run.record.command);
                let text = format!("disk {disk} is not mounted while `{command}` is in progress");
                return Some(
                    Error::failure(text)
                        .with_hints(next_hints("watch it: `monopile status MANIFEST --watch`")),
                );
            }
            return Some(
                drift_error(format!("disk {} is not mounted on the VM", disk.handle))
                    .with_hints(next_hints("attach it again: `monopile cloud-check MANIFEST`")),
            );
        }
        if let Some(cid) = self.untracked_disks.first() {
            return Some(
                drift_error(format!("disk '{cid}' is mounted on the VM, but not on record"))
                    .with_note("the next create-env would leave it behind")
                    .with_hint(untracked_disk_hint(cid)),
            );
        }
        let job_state = self.job_state.as_deref().unwrap_or("running");
        if let Some(recorded_run) = self.run_in_progress() {
            // The run itself stops and starts jobs.
            let text =
                format!("the jobs are '{job_state}' while `{}` is in progress", recorded_run.record.command);
            return (job_state != "running").then(|| Error::failure(text));
        }
        let reason = match self.stopping_run() {
            Some(stop) => Some(format!("stop-env stopped the jobs at {}", stop.record.started_at)),
            // The `stop-env` may have run on another machine.
            None if job_state == "stopped" && unfinished_run.is_none() => {
                Some("the jobs are stopped".to_owned())
            }
            None => None,
        };
        if let Some(text) = reason {
            return Some(Error::failure(text).with_hint("start them: `monopile start-env MANIFEST`"));
        }
        if job_state == "running" && self.is_deploy_unfinished {
            return Some(
                Error::failure(UNFINISHED_DEPLOY)
                    .with_hints(next_hints("to finish it: `monopile create-env MANIFEST`")),
            );
        }
        (job_state != "running").then(|| {
            let error = Error::failure(format!("the jobs are '{job_state}', not 'running'"));
            let fails = self.processes.iter().any(|process| process.state == "failing");
            match &unfinished_run {
                Some(unfinished_run) if unfinished_run.would_fail || fails => {
                    error.with_hint("see why: `monopile logs MANIFEST`").with_hints(&unfinished_run.hints)
                }
                Some(unfinished_run) if self.is_last_change("stop-env") => error
                    .with_hints(&unfinished_run.hints)
                    .with_hint("to start them instead: `monopile start-env MANIFEST`"),
                Some(unfinished_run) => error.with_hints(&unfinished_run.hints),
                None => error
                    .with_hint("see why: `monopile logs MANIFEST`")
                    .with_hint("to stop and start them: `monopile restart MANIFEST`"),
            }
        })
    }
}
