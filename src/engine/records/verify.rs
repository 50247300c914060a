//! `state verify`: checks that everything on record exists.

use std::time::Duration;

use serde::Serialize;

use crate::agent::{AgentError, ForeignAgent, connect, endpoint, identity};
use crate::cpis::{self, Connection, Cpis, OwnedParts, Presence};
use crate::effects::Effect;
use crate::environment::Environment;
use crate::environment::lock::{self, no_state};
use crate::prepare;
use crate::recovery::suspects;
use crate::state::Resource;
use base::events::Stage;
use base::{Error, ErrorKind, Result};
use erb::Mode;
use manifest::Inputs;

/// `state verify`.
#[derive(Debug, Clone)]
pub struct Verify {
    /// The manifest and what goes into it.
    pub inputs: Inputs,
    /// `--templates`: the renderer for the CPI's templates.
    pub templates: Mode,
    /// `--cpi-api-version`: the highest API version to use with the CPI.
    pub cpi_api_version: Option<u32>,
    /// `--agent-timeout`: how long the agent may take to answer.
    pub agent_timeout: Duration,
}

/// The actual status of something on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The actual status is as recorded.
    There,
    /// The actual status differs from the record.
    Drifted,
    /// Neither CPI nor agent can tell.
    Unknown,
}

/// Something on record with its actual status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind: VM, disk, stemcell, snapshot, agent, open call or failed call.
    pub what: &'static str,
    /// Its CID; for an agent the CID of the VM, for a call the request id.
    pub cid: String,
    /// The name of its CPI; none for the default CPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// Its actual status.
    pub status: Status,
    /// Details in words.
    pub detail: String,
}

/// The result of the verification.
#[derive(Debug)]
pub struct Checked {
    /// One finding for everything on record.
    pub findings: Vec<Finding>,
}

impl Checked {
    /// Returns the error for drift, if there is any.
    pub fn drift(&self) -> Option<Error> {
        let drifted: Vec<String> = self
            .findings
            .iter()
            .filter(|finding| finding.status == Status::Drifted)
            .map(|finding| format!("{} '{}'", finding.what, finding.cid))
            .collect();
        (!drifted.is_empty()).then(|| {
            Error::new(ErrorKind::Drift, format!("not as recorded: {}", drifted.join(", "))).with_hint(
                "create-env replaces a VM that is gone; `monopile state forget` drops the record of anything \
                    else",
            )
        })
    }
}

/// Asks the CPI and the agent about everything on record.
pub fn verify(request: &Verify, environment: &Environment) -> Result<Checked> {
    let store = lock::open(environment, "state verify")?;
    if !store.exists() {
        return Err(no_state(store.storage()));
    }
    let validating = environment.reporter.stage("Validating");
    let loaded = prepare::load(environment, &request.inputs)?;
    let cpi_parts = OwnedParts::open(environment, &request.inputs, request.templates, &loaded, &validating)?;
    let endpoint = endpoint(environment, &cpi_parts.provider)?;
    // Renames by `migrated_from` apply here; the next run that changes something records them.
    let (state, _) = cpis::renamed(cpi_parts.config.as_ref(), store.state())?;
    let cpis = Cpis::find(environment, cpi_parts.parts(), &state, request.cpi_api_version)?;
    cpis.install_all_of(&state, &validating)?;
    validating.finish();
    let asking = environment.reporter.stage("Asking the CPI what exists");
    let mut findings = Vec::new();
    for known in state.resources() {
        let connection = cpis.connect(known.cpi(), &asking)?;
        let to_be_deleted = state.undeleted(&known).is_some();
        findings.push(resource(&connection, &asking, &known, to_be_deleted)?);
    }
    asking.finish();
    for call in store.journal().open_calls::<Effect>()? {
        findings.push(Finding {
            what: "open call",
            cid: call.0.request_id.to_string(),
            cpi: call.0.cpi.clone(),
            status: Status::Unknown,
            detail: format!(
                "an interrupted `{}`: the next create-env or delete-env settles it",
                call.0.method
            ),
        });
    }
    let met = suspects::find(environment, &endpoint, &state)?;
    for suspect in &state.monopile.suspects {
        let (status, detail) = match met.is_some_and(|met| met == suspect) {
            true => (Status::Drifted, identity::met(suspect)),
            false => (Status::Unknown, format!("it may have made {} all the same", suspect.looks_like)),
        };
        findings.push(Finding {
            what: "failed call",
            cid: suspect.request_id.to_string(),
            cpi: suspect.cpi.clone(),
            status,
            detail,
        });
    }
    if let Some(vm) = state.vm_handle() {
        let asking = environment.reporter.stage("Asking the agent who it is");
        let agent = connect(environment, endpoint, &state);
        let expected = state.vm().map(|vm| vm.agent_id.as_str());
        let answer = agent
            .wait_until_ready(request.agent_timeout, &mut |problem| asking.log_line(problem))
            .and_then(|()| expected.map_or(Ok(None), |expected| ForeignAgent::ask(&agent, expected)));
        let (status, detail) = match answer {
            Ok(None) => (Status::There, format!("answers at {}", agent.address())),
            Ok(Some(foreign)) => {
                (Status::Drifted, format!("another agent answers at {}: {foreign}", agent.address()))
            }
            Err(error @ AgentError::Interrupted { .. }) => return Err(error.into()),
            Err(error) => (Status::Drifted, error.to_string()),
        };
        asking.finish();
        findings.push(Finding { what: "agent", cid: vm.cid.to_string(), cpi: vm.cpi, status, detail });
    }
    Ok(Checked { findings })
}

fn resource(
    connection: &Connection<'_>,
    stage: &Stage,
    known: &Resource,
    to_be_deleted: bool,
) -> Result<Finding> {
    let mut detail = String::new();
    let status = match connection.presence(stage, known)? {
        Presence::There => Status::There,
        // It was to be deleted, so this is the desired status.
        Presence::Gone if to_be_deleted => {
            detail = "it was to be deleted and does not exist any more".to_owned();
            Status::There
        }
        Presence::Gone => {
            detail = "it does not exist".to_owned();
            Status::Drifted
        }
        Presence::Unknown(reason) => {
            detail = reason;
            Status::Unknown
        }
    };
    if to_be_deleted && detail.is_empty() {
        detail = "it was to be deleted; the next run tries again".to_owned();
    }
    let (cid, cpi) = (known.cid().to_owned(), known.cpi().map(str::to_owned));
    Ok(Finding { what: known.kind().name(), cid, cpi, status, detail })
}
