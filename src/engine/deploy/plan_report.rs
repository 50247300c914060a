//! `plan`: what a `create-env` would do, for a person, for a program, and to be done later exactly so.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::draft_plan::DraftPlan;
use super::request::CreateEnv;
use super::validate::validate;
use crate::environment::Environment;
use crate::jobs::Supply;
use crate::plan::{Alteration, Difference, differences};
use crate::recovery::{legacy_state, suspects};
use crate::state::State;
use crate::{cpis, prepare, templates};
use base::events::AnnouncedStep;
use base::text;
use base::{Error, Result};

/// The newest format of a saved plan that this version reads, and the one it writes.
const FORMAT: u32 = 1;

/// What a `create-env` would do. Its JSON is what `plan --json` prints and `plan --out` saves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanReport {
    /// The format of this document.
    pub format: u32,
    /// The deployment's name.
    pub deployment: String,
    /// What the plan is as a whole.
    pub action: Action,
    /// The steps in their order.
    pub steps: Vec<AnnouncedStep>,
    /// What is not in the manifest as it was when it was last deployed; absent where that is not on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<PlanChange>>,
    /// Where the packages of the jobs come from; absent where no jobs are brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<Supply>,
    /// How long it may take, in milliseconds, by what the same steps usually take; absent where one of them was never
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How long no job may run, in milliseconds; measured as `duration_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruption_ms: Option<u64>,
    /// What the plan was made from.
    basis: Basis,
}

/// What a plan is as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing is to be done.
    Nothing,
    /// Nothing is to be deployed, but something that is not in use is to be deleted.
    CleanUp,
    /// A VM is to be created where there is none.
    Create,
    /// The VM stays and gets its jobs anew.
    UpdateInPlace,
    /// The VM is to be deleted, and a new one created.
    Recreate,
    /// Nothing changed, but the VM cannot be counted on: a new one is made if the CPI says that it does not exist.
    Examine,
}

/// A leaf of the manifest that is not as it was deployed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanChange {
    /// Where it is, in the path language of ops files.
    pub path: String,
    /// `added`, `changed` or `removed`.
    pub change: String,
    /// What it is now; absent where it is gone, and `<changed>` where it is a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// What must be the same when the plan is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Basis {
    /// SHA-256 of the state.
    state: String,
    /// SHA-512 of the interpolated manifest.
    manifest: String,
    /// The content of stemcell and releases.
    artifacts: Vec<String>,
}

/// Thinks a `create-env` through: its steps, and whether releases, stemcell, templates and CPIs fit together. Nothing
/// in the world is changed, and no CPI is called.
pub fn plan_env(request: &CreateEnv, environment: &Environment) -> Result<PlanReport> {
    let path = &environment.paths.state;
    environment.reporter.note(format!("Deployment state: '{path}'"));
    let state = match State::read(path)? {
        Some(state) => state,
        None => match legacy_state::read(&request.inputs.manifest)? {
            Some((file, state)) => {
                environment
                    .reporter
                    .note(format!("create-env takes over the old state '{}'", file.display()));
                state
            }
            None => State::new(),
        },
    };
    suspects::report(environment, &state);
    let validating = environment.reporter.stage("Validating");
    let prepared = prepare::prepare(environment, &request.inputs, &state, &validating)?;
    cpis::check_az(prepared.cpis.as_ref(), prepared.deployment.az.as_ref())?;
    let (state, _) = cpis::renamed(prepared.cpis.as_ref(), &state)?;
    let draft = DraftPlan::form(environment, request, prepared, &state)?;
    let mut supply = None;
    if !draft.has_nothing_to_do() {
        let opened = draft.prepared.open(environment, &validating)?;
        let renderer = templates::renderer(request.templates, &environment.variables)?;
        let (run, cpis) = validate(environment, request, &draft, (&opened, &renderer), &state, &validating)?;
        cpis.check(draft.prepared.deployment.cpi(), &state, &validating)?;
        supply = draft.plan.deploys().then(|| run.packages.supply(&environment.paths.cache));
    }
    validating.finish();
    Ok(PlanReport::of(&draft, &state, supply))
}

impl PlanReport {
    /// Describes a draft plan.
    pub(super) fn of(draft: &DraftPlan, state: &State, packages: Option<Supply>) -> Self {
        let plan = &draft.plan;
        let known = state.monopile.manifest.as_ref();
        let durations = &state.monopile.durations;
        let changes = known.map(|known| differences(known, &draft.prepared.leaves));
        PlanReport {
            format: FORMAT,
            deployment: draft.prepared.deployment.name.clone(),
            action: action(draft, state),
            steps: plan.announced(&draft.prepared.deployment.instance()),
            changes: changes.map(|changes| changes.into_iter().map(PlanChange::from).collect()),
            packages,
            duration_ms: plan.usual(durations).map(milliseconds),
            interruption_ms: plan.interruption(durations).map(milliseconds),
            basis: Basis::of(draft, state),
        }
    }

    /// What it comes to in one line, for a person.
    pub fn headline(&self) -> String {
        let what = match self.action {
            Action::Nothing => "Nothing is to be done",
            Action::CleanUp => "Nothing is deployed anew; what is not in use is deleted",
            Action::Create => "A VM is created",
            Action::UpdateInPlace => "The VM stays and is updated in place",
            Action::Recreate => "The VM is deleted and a new one created",
            Action::Examine => {
                "Nothing changed, but the VM does not answer: should it not exist any more, a new one takes its place"
            }
        };
        match self.reason() {
            Some(reason) => format!("{what}: {reason}"),
            None => what.to_owned(),
        }
    }

    /// Why there is a deploy.
    fn reason(&self) -> Option<&str> {
        let decisive = |step: &&AnnouncedStep| matches!(step.step.as_str(), "create_vm" | "update_vm");
        self.steps.iter().find(decisive).map(|step| step.reason.as_str())
    }

    /// What it comes to, a line each, for a person.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = vec![self.headline()];
        lines.extend(self.steps.iter().enumerate().map(|(number, step)| {
            let number = number + 1;
            match self.reason() == Some(&step.reason) {
                true => format!("{number}. {}", step.what),
                false => format!("{number}. {}: {}", step.what, step.reason),
            }
        }));
        if let Some(supply) = &self.packages {
            let Supply { compile, cached, compiled } = supply;
            let mut parts = vec![format!("{compile} to compile"), format!("{cached} from the cache")];
            if *compiled > 0 {
                parts.push(format!("{compiled} compiled in their release"));
            }
            lines.push(format!("Packages: {}", parts.join(", ")));
        }
        lines.extend(self.expectation());
        lines
    }

    /// How long it may take, and how long no job may run, in a sentence.
    pub fn expectation(&self) -> Option<String> {
        let about = |milliseconds: u64| text::duration(Duration::from_millis(milliseconds));
        match (self.duration_ms, self.interruption_ms) {
            // They are not of the same runs.
            (Some(takes), Some(stands)) if stands >= takes => {
                Some(format!("Usually takes {}, in which no job runs", about(takes)))
            }
            (Some(takes), Some(stands)) => {
                Some(format!("Usually takes {}; no job runs for {} of that", about(takes), about(stands)))
            }
            (Some(takes), None) => Some(format!("Usually takes {}", about(takes))),
            (None, Some(stands)) => Some(format!("Usually no job runs for {}", about(stands))),
            (None, None) => None,
        }
    }

    /// Reads a saved plan.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let unreadable = || Error::invalid(format!("'{name}' is no plan of this version"));
        let plan_report: PlanReport =
            serde_json::from_str(text).map_err(|error| unreadable().with_source(error))?;
        match plan_report.format {
            FORMAT => Ok(plan_report),
            other => Err(unreadable().with_source(format!("it has format {other}, and {FORMAT} is known"))),
        }
    }

    /// Whether it is still what would be done now.
    pub(super) fn check(&self, now: &PlanReport) -> Result<()> {
        let moved = |what: &str| {
            Err(Error::invalid(format!("the plan is out of date: {what}"))
                .with_hint("nothing was done; make a new plan with `monopile plan`"))
        };
        match () {
            () if self.basis.manifest != now.basis.manifest => moved("the manifest is another one"),
            () if self.basis.artifacts != now.basis.artifacts => moved("the stemcell or a release changed"),
            () if self.basis.state != now.basis.state => moved("the state changed since it was made"),
            () if self.steps != now.steps => moved("other steps are needed now"),
            () => Ok(()),
        }
    }
}

fn action(draft: &DraftPlan, state: &State) -> Action {
    let plan = &draft.plan;
    match () {
        () if draft.unreachable.is_some() => Action::Examine,
        () if plan.updates_in_place() => Action::UpdateInPlace,
        () if plan.makes_vm() && state.vm_cid().is_some() => Action::Recreate,
        () if plan.makes_vm() => Action::Create,
        () if plan.is_empty() => Action::Nothing,
        () => Action::CleanUp,
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Basis {
    fn of(draft: &DraftPlan, state: &State) -> Self {
        let prepared = &draft.prepared;
        let mut artifacts = vec![prepared.stemcell_identity().digest.to_string()];
        artifacts.extend(prepared.release_identities().iter().map(|release| release.digest.to_string()));
        // A state that was never written has random ids.
        let written = state.is_empty_of_resources() && state.current_manifest_sha.is_empty();
        let bytes = if written { Vec::new() } else { state.to_bytes().unwrap_or_default() };
        Basis {
            state: hex::encode(Sha256::digest(bytes)),
            manifest: prepared.manifest_sha.clone(),
            artifacts,
        }
    }
}

impl From<Difference> for PlanChange {
    fn from(difference: Difference) -> Self {
        let shown = |value: Option<String>| Some(value.unwrap_or_else(|| "<changed>".to_owned()));
        let (change, value) = match difference.alteration {
            Alteration::Added(value) => ("added", shown(value)),
            Alteration::Changed(value) => ("changed", shown(value)),
            Alteration::Removed => ("removed", None),
        };
        PlanChange { path: difference.path, change: change.to_owned(), value }
    }
}
