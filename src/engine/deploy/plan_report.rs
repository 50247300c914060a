//! `plan`: reports the steps of a `create-env` to operators and programs, and saves them for a later run.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::draft_plan::{DraftPlan, find_vm_that_is_off, keep_applied_jobs};
use super::request::{CreateEnvRequest, SKIP_AGENT_CHECK};
use super::validate::{ValidationInputs, validate};
use crate::effects::{Effect, instructions_to_forget};
use crate::jobs::PackageCounts;
use crate::plan::{Difference, LeafChange, Plan, PlannedStep, Step, differences};
use crate::recovery::open_calls::{self, OpenCallStatus};
use crate::recovery::{legacy_state, suspects};
use crate::run_context::{RunContext, state_lock};
use crate::state::{Intent, Journal, Resource, State, Storage};
use crate::{cpi_set, prepare, templates};
use base::events::{ReportedStep, Warning};
use base::text;
use base::text::json_problem;
use base::{Error, Result};

/// The only format of a saved plan that this version reads, and the format that it writes.
const FORMAT_VERSION: u32 = 1;

/// The maximum number of changed leaves of the manifest that are listed for the operator.
const MAX_LISTED_CHANGES: usize = 20;

/// The steps that a `create-env` would take. Its JSON is the output of `plan --json` and the file of `plan
/// --out`. The aliases are the keys of builds before the first release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanReport {
    /// The format of the document.
    pub format: u32,
    /// The name of the environment.
    pub deployment: String,
    /// The kind of change that the plan makes as a whole.
    pub action: PlanAction,
    /// The steps in their order.
    pub steps: Vec<ReportedStep>,
    /// The differences from the manifest as it was last deployed; absent if that is not on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<PlanChange>>,
    /// The existing VM, disks and other resources that the plan deletes, with their sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "deletes")]
    pub deleted_resources: Vec<String>,
    /// The persistent disk that the plan detaches and keeps, because the manifest has none any more.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "keeps")]
    pub kept_disk: Option<String>,
    /// The declared variables whose values differ from those last deployed.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "credentials")]
    pub changed_credentials: Vec<String>,
    /// A check that could not be made, as text for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "unchecked")]
    pub unchecked_reason: Option<String>,
    /// The number of packages by source; absent if no jobs are deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packages: Option<PackageCounts>,
    /// The expected duration in milliseconds, by the usual duration of the same steps; absent if one of them
    /// was never measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The expected time without running jobs, in milliseconds; measured like `duration_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "interruption_ms")]
    pub downtime_ms: Option<u64>,
    /// The trouble with the agent, with its cause, if the plan depends on it.
    #[serde(skip)]
    agent_trouble: Option<String>,
    /// The description of the VM, if nothing changed and it is stopped.
    #[serde(skip)]
    vm_that_is_off: Option<String>,
    /// The variables whose values were generated for this plan only. No later run has the same values.
    #[serde(skip)]
    pub generated_variables: Vec<String>,
    /// The inputs from which the plan was made.
    #[serde(alias = "basis")]
    inputs: PlanInputs,
    /// The name of the file from which the plan was read.
    #[serde(skip)]
    file: String,
}

/// The kind of change that a plan makes as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanAction {
    /// No steps.
    Nothing,
    /// Deploys nothing, but deletes resources that are not in use.
    CleanUp,
    /// Creates the first VM.
    Create,
    /// Keeps the VM and its running jobs, and records the manifest.
    KeepJobs,
    /// Keeps the VM and updates its jobs in place.
    UpdateInPlace,
    /// Deletes the VM and creates a new one.
    Recreate,
    /// Nothing changed, but the VM does not answer: it is created again if the CPI reports that it does not
    /// exist.
    Examine,
}

/// A leaf of the manifest that differs from the last deploy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanChange {
    /// Its path, in the syntax of ops files.
    pub path: String,
    /// `added`, `changed` or `removed`.
    pub change: String,
    /// Its new value; absent if it was removed, and `<changed>` if it is a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its deployed value; absent if it is new, or if one of the values is a secret.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "old")]
    pub deployed_value: Option<String>,
    /// The change in one line, for the operator.
    pub text: String,
}

/// The inputs that must be unchanged when a saved plan is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PlanInputs {
    /// SHA-256 of the state.
    #[serde(alias = "state")]
    state_digest: String,
    /// The name of the state, see [`state_name`]. Empty in plans of builds before the first release.
    #[serde(default, alias = "place")]
    state_name: String,
    /// SHA-512, hex, of the deploy text (`manifest::deploy_text`).
    #[serde(alias = "manifest")]
    manifest_digest: String,
    /// The digests of stemcell and releases.
    artifacts: Vec<String>,
    /// The options on which the steps depend, as words of the command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "options")]
    step_options: Vec<String>,
}

/// Plans a `create-env`, and checks that releases, stemcell, templates and CPIs fit together. Changes nothing
/// and calls no CPI.
pub fn plan_env(request: &CreateEnvRequest, run: &RunContext) -> Result<PlanReport> {
    let storage = &run.paths.storage;
    run.reporter.report_state(storage);
    let state = match State::read(storage)? {
        Some(state) => state,
        None => match legacy_state::read(&request.inputs.manifest)? {
            Some((file, state)) => {
                run.reporter.note(format!("create-env will convert the old state '{}'", file.display()));
                state
            }
            None => {
                state_lock::refuse_lost_state(storage)?;
                State::new()
            }
        },
    };
    let is_vm_expected = report_open_calls(run, request, &state)?;
    suspects::report(run, &state);
    let validating = run.reporter.begin_stage("Validating");
    let CreateEnvRequest { inputs, overrides, .. } = request;
    let prepared_deployment = prepare::prepare(run, inputs, &state, *overrides, None, &validating)?;
    cpi_set::check_az(prepared_deployment.cpi_config.as_ref(), prepared_deployment.deployment.az.as_ref())?;
    let (state, _) = cpi_set::apply_migrated_from(prepared_deployment.cpi_config.as_ref(), &state)?;
    let mut draft = DraftPlan::create(run, request, prepared_deployment, &state, &validating)?;
    let mut packages = None;
    if !draft.has_nothing_to_do() {
        let artifacts = draft.prepared_deployment.open(run, &validating)?;
        let renderer = templates::create_run_renderer(run, request.renderer_choice)?;
        let validation_inputs = ValidationInputs {
            prepared_deployment: &draft.prepared_deployment,
            endpoint: &draft.endpoint,
            artifacts: &artifacts,
            renderer: &renderer,
        };
        let (mut deploy_run, cpis) = validate(run, request, validation_inputs, &state, &validating)?;
        let agent_state = draft.agent_state.as_ref();
        keep_applied_jobs(&mut draft.plan, agent_state, &mut deploy_run, &state, &validating)?;
        let deployment = &draft.prepared_deployment.deployment;
        cpis.check(deployment.cpi(), &state, &validating)?;
        draft.vm_that_is_off = find_vm_that_is_off(draft.unusable_agent.as_ref(), &cpis, &state)?;
        if !is_vm_expected {
            draft.prepared_deployment.check_untracked(run, inputs)?;
        }
        if draft.plan.deploys_jobs() {
            let (stemcell_ref, stemcell) = (&deployment.stemcell, &artifacts.stemcell);
            let cpi_packages = cpis.plan_packages_in_stemcell(deployment.cpi(), stemcell_ref, stemcell)?;
            packages = Some(deploy_run.packages.count_by_source(run, cpi_packages.as_ref())?);
        }
    }
    validating.finish();
    if draft.jobs_are_stopped {
        let warning = Warning::new("the jobs are stopped");
        run.reporter.warn(warning.with_hint("to start them: `monopile start-env MANIFEST`"));
    }
    Ok(PlanReport::from_draft(request, &draft, &state, packages, storage))
}

/// Fails if create-env would stop at an open call. Notes calls that it settles first. Returns true if one of
/// these may have created the VM, so that its agent answers.
fn report_open_calls(run: &RunContext, request: &CreateEnvRequest, state: &State) -> Result<bool> {
    let mut is_vm_expected = false;
    for (intent, call) in Journal::of(&run.paths.storage.resolve_links()?).read_open_calls::<Effect>()? {
        let Intent { method, request_id, .. } = &intent;
        is_vm_expected |= matches!(intent.effect, Effect::CreateVm { .. });
        match open_calls::read_status(state, &intent, &call)? {
            OpenCallStatus::Unknown if !request.forget_open_calls => {
                return Err(Error::failure(format!(
                    "create-env would stop: the outcome of the CPI's `{method}` (request {request_id}) \
                     is unknown"
                ))
                .with_hints(instructions_to_forget(&intent)));
            }
            OpenCallStatus::Running => run.reporter.note(format!(
                "create-env first waits for the `{method}` that is still running (request {request_id}), \
                 which changes the plan"
            )),
            OpenCallStatus::Unknown => run.reporter.note(format!(
                "create-env first forgets the `{method}` of an earlier run (request {request_id}): {} \
                 may exist",
                intent.effect.describe_in_iaas()
            )),
            OpenCallStatus::Settles => run.reporter.note(format!(
                "create-env first records the outcome of the `{method}` of an earlier run (request \
                 {request_id}), which may change the plan"
            )),
        }
    }
    Ok(is_vm_expected)
}

impl PlanReport {
    /// Describes a draft plan.
    pub(super) fn from_draft(
        request: &CreateEnvRequest,
        draft: &DraftPlan,
        state: &State,
        packages: Option<PackageCounts>,
        storage: &Storage,
    ) -> Self {
        let plan = &draft.plan;
        let deployed_leaves = state.monopile.manifest_leaves.as_ref();
        let durations = &state.monopile.durations;
        let changes = deployed_leaves.map(|leaves| differences(leaves, &draft.prepared_deployment.leaves));
        PlanReport {
            format: FORMAT_VERSION,
            deployment: draft.prepared_deployment.deployment.name.clone(),
            action: action(draft, state),
            steps: plan.reported_steps(&draft.prepared_deployment.deployment.instance()),
            changes: changes.map(|changes| changes.into_iter().map(PlanChange::from).collect()),
            deleted_resources: describe_deletions(plan, state),
            kept_disk: draft.detached_disk(state).map(|disk| {
                format!(
                    "{} with its data, detached; to delete it: `monopile delete-disk MANIFEST {}`",
                    state.describe(&Resource::Disk(disk.handle())),
                    disk.cid
                )
            }),
            changed_credentials: match plan.deploys_jobs() {
                true => draft.prepared_deployment.changed_credentials.clone(),
                false => Vec::new(),
            },
            unchecked_reason: draft.prepared_deployment.unchecked_reason.clone(),
            packages,
            duration_ms: plan.usual_duration(durations).map(to_milliseconds),
            downtime_ms: plan.downtime(durations).map(to_milliseconds),
            agent_trouble: draft
                .unusable_agent
                .as_ref()
                .map(|agent| format!("{} ({})", agent.predicate(), agent.error.summary())),
            vm_that_is_off: draft.vm_that_is_off.as_ref().map(cpi_set::describe_off),
            generated_variables: draft.prepared_deployment.generated_names.clone(),
            inputs: PlanInputs::of(request, draft, state, storage),
            file: String::new(),
        }
    }

    /// Summarises the plan in one line, for the operator.
    pub fn headline(&self) -> String {
        let summary = match self.action {
            PlanAction::Nothing
                if self.inputs.step_options.iter().any(|option| option == SKIP_AGENT_CHECK) =>
            {
                "Nothing to do: the manifest is as deployed"
            }
            PlanAction::Nothing => "Nothing to do: the manifest is as deployed",
            PlanAction::CleanUp => "Deploy nothing; delete what is not in use",
            PlanAction::Create => "Create a VM",
            PlanAction::KeepJobs => "Update without stopping the jobs",
            PlanAction::UpdateInPlace => "Update the VM in place",
            PlanAction::Recreate => "Replace the VM",
            PlanAction::Examine if let Some(description) = &self.vm_that_is_off => {
                return format!("Nothing changed in the manifest, but {description}");
            }
            PlanAction::Examine => {
                let predicate = self.agent_trouble.as_deref().unwrap_or("does not answer");
                return format!("Nothing changed in the manifest, but the agent {predicate}");
            }
        };
        match self.reason() {
            Some(reason) => format!("{summary}: {reason}"),
            None => summary.to_owned(),
        }
    }

    /// Returns the reason for the deploy, if the plan deploys.
    fn reason(&self) -> Option<&str> {
        let is_deploy_step =
            |step: &&ReportedStep| matches!(step.step_kind.as_str(), "create_vm" | "update_vm" | "keep_jobs");
        self.steps.iter().find(is_deploy_step).map(|step| step.reason.as_str())
    }

    /// Returns the plan as text for a person: a heading, and the indented summary.
    pub fn text(&self) -> Vec<String> {
        let heading = format!("Plan for '{}':", self.deployment);
        std::iter::once(heading).chain(self.summary().iter().map(|line| format!("  {line}"))).collect()
    }

    /// Lists the plan, one step a line, for a person.
    fn summary(&self) -> Vec<String> {
        let mut lines = vec![self.headline()];
        let mut previous_reason = self.reason();
        // One for each step that deletes, in the order of the steps.
        let mut deleted_resources = self.deleted_resources.iter();
        lines.extend(self.steps.iter().enumerate().map(|(index, step)| {
            let number = index + 1;
            let deleted_resource =
                step.step_kind.starts_with("delete_").then(|| deleted_resources.next()).flatten();
            let description = match deleted_resource {
                Some(resource) => format!("Delete {resource}"),
                None => step.description.clone(),
            };
            // Steps in a row may have one reason, and the headline has that of the deploy.
            let reason = step.reason.as_str();
            let is_repeated = [previous_reason, self.reason()].contains(&Some(reason));
            previous_reason = Some(reason);
            match is_repeated {
                true => format!("{number}. {description}"),
                false => format!("{number}. {description}: {reason}"),
            }
        }));
        lines.splice(1..1, self.changed_leaves());
        match (self.action, &self.vm_that_is_off) {
            (PlanAction::Examine, Some(_)) => {
                lines.push("create-env fails and changes nothing".to_owned());
                lines.push("To start the VM and its jobs: `monopile start-env MANIFEST`".to_owned());
            }
            (PlanAction::Examine, None) => {
                lines.push("If the VM does not exist, create-env creates a new one".to_owned());
                lines.push("If the VM exists, create-env fails and changes nothing".to_owned());
                lines.push("To see whether it exists: `monopile status MANIFEST`".to_owned());
            }
            _ => {}
        }
        lines.extend(self.kept_disk.as_ref().map(|disk| format!("Keeps {disk}")));
        lines.extend(self.describe_changed_credentials());
        lines.extend(self.unchecked_reason.clone());
        if let Some(packages) = &self.packages {
            let PackageCounts { to_compile_count, cached_count, precompiled_count } = packages;
            let mut parts =
                vec![format!("{to_compile_count} to compile"), format!("{cached_count} from the cache")];
            if *precompiled_count > 0 {
                parts.push(format!("{precompiled_count} compiled in their release"));
            }
            lines.push(format!("Packages: {}", parts.join(", ")));
        }
        lines.extend(self.describe_duration());
        lines
    }

    /// Lists the changes of the manifest that the plan deploys, one a line, for a person.
    fn changed_leaves(&self) -> Vec<String> {
        let deploys = !matches!(self.action, PlanAction::Nothing | PlanAction::CleanUp | PlanAction::Examine);
        let changes = self.changes.iter().flatten().filter(|_| deploys);
        let mut lines: Vec<String> = changes.map(|change| change.text.clone()).collect();
        if lines.len() > MAX_LISTED_CHANGES {
            let remaining_count = lines.len() - MAX_LISTED_CHANGES;
            lines.truncate(MAX_LISTED_CHANGES);
            lines.push(format!("and {remaining_count} more changes: `monopile plan --json` lists all"));
        }
        lines
    }

    /// Lists the credentials that change, for a person.
    fn describe_changed_credentials(&self) -> Option<String> {
        let names = text::comma_list(&self.changed_credentials);
        (!names.is_empty()).then(|| format!("Credentials that change: {names}"))
    }

    /// Describes the expected duration, and the time without running jobs, in a sentence.
    fn describe_duration(&self) -> Option<String> {
        /// A shorter time is not worth a line.
        const MIN_SHOWN_MS: u64 = 1000;
        let duration_text = |milliseconds: u64| text::format_duration(Duration::from_millis(milliseconds));
        let notable = |milliseconds: Option<u64>| milliseconds.filter(|time| *time >= MIN_SHOWN_MS);
        match (notable(self.duration_ms), notable(self.downtime_ms)) {
            // The two durations may come from different runs.
            (Some(duration), Some(downtime)) if downtime >= duration => {
                Some(format!("Expected to take {}, all of it downtime", duration_text(duration)))
            }
            (Some(duration), Some(downtime)) => Some(format!(
                "Expected to take {}, with {} of downtime",
                duration_text(duration),
                duration_text(downtime)
            )),
            (Some(duration), None) => Some(format!("Expected to take {}", duration_text(duration))),
            (None, Some(downtime)) => Some(format!("Expected downtime: {}", duration_text(downtime))),
            (None, None) => None,
        }
    }

    /// Reads a saved plan.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        // A file that is no plan must not be overwritten with one.
        let not_a_plan_error = || {
            Error::invalid(format!("'{name}' is not a saved plan"))
                .with_hint("save a plan first: `monopile plan MANIFEST --out plan.json`")
        };
        let other_version_error = || {
            Error::invalid(format!("'{name}' is not a plan of this version of monopile")).with_hint(format!(
                "make a new plan: `monopile plan MANIFEST --out {}`",
                text::shell_word(name)
            ))
        };
        let mut plan_report: PlanReport = serde_json::from_str(text).map_err(|error| {
            if Self::is_saved_plan(text) {
                return other_version_error().with_source(json_problem(&error));
            }
            if serde_json::from_str::<serde_json::Value>(text).is_ok() {
                return not_a_plan_error().with_source("it is JSON, but not of `monopile plan --out`");
            }
            let is_yaml = || {
                yaml::load(text, Path::new(name))
                    .is_ok_and(|root| root.as_map().is_some() || root.as_seq().is_some())
            };
            not_a_plan_error().with_source(match text.trim_start().starts_with('{') {
                true => json_problem(&error),
                false if is_yaml() => "it is YAML, and a saved plan is JSON".to_owned(),
                false => "it is not JSON".to_owned(),
            })
        })?;
        name.clone_into(&mut plan_report.file);
        match plan_report.format {
            FORMAT_VERSION => Ok(plan_report),
            other => Err(other_version_error().with_source(format!(
                "it has format {other}, but this version reads format {FORMAT_VERSION}"
            ))),
        }
    }

    /// Returns true if a text is a saved plan of this or another version.
    pub fn is_saved_plan(text: &str) -> bool {
        serde_json::from_str::<serde_json::Value>(text)
            .is_ok_and(|value| value["format"].is_u64() && value["deployment"].is_string())
    }

    /// Names the paths of changes that only one of the two plans has, after a colon. Empty if there are none,
    /// as without a deploy on record, or if the deploy on record is another one.
    fn describe_new_changes(&self, now: &PlanReport) -> String {
        const MAX_PATHS: usize = 3;
        if self.inputs.state_digest != now.inputs.state_digest {
            return String::new();
        }
        let (saved_changes, current_changes) = (self.changes.as_deref(), now.changes.as_deref());
        let (saved_changes, current_changes) =
            (saved_changes.unwrap_or_default(), current_changes.unwrap_or_default());
        let only_current = current_changes.iter().filter(|change| !saved_changes.contains(change));
        let only_saved = saved_changes.iter().filter(|change| !current_changes.contains(change));
        let paths: BTreeSet<&str> =
            only_current.chain(only_saved).map(|change| change.path.as_str()).collect();
        let shown_paths: Vec<&str> = paths.iter().copied().take(MAX_PATHS).collect();
        match (shown_paths.len(), paths.len() - shown_paths.len()) {
            (0, _) => String::new(),
            (_, 0) => format!(": {}", text::comma_list(&shown_paths)),
            (_, hidden_count) => format!(": {} and {hidden_count} more", text::comma_list(&shown_paths)),
        }
    }

    /// Returns the command that applies the plan saved in `file`.
    pub fn command(&self, file: &str) -> String {
        format!("`monopile create-env MANIFEST{} --plan {}`", self.options(), text::shell_word(file))
    }

    /// Returns the options of the steps, each after a space.
    fn options(&self) -> String {
        self.inputs.step_options.iter().map(|option| format!(" {option}")).collect()
    }

    /// Returns the place of the state of this plan as a word of a command line. A plan has only the name of a
    /// file, which is looked for beside the state of this run.
    fn path_of_state(&self, storage: &Storage) -> String {
        let name = &self.inputs.state_name;
        let sibling = storage.path_or_url().with_file_name(name);
        let is_url = name.contains("://");
        match () {
            () if is_url => text::shell_word(name).into_owned(),
            () if !storage.is_shared() && sibling.is_file() => {
                text::shell_word(&sibling.to_string_lossy()).into_owned()
            }
            () => "FILE".to_owned(),
        }
    }

    /// Checks that a run would still take exactly the steps of the saved plan.
    pub(super) fn check(&self, now: &PlanReport, storage: &Storage) -> Result<()> {
        let new_plan_hint = format!(
            "make a new plan: `monopile plan MANIFEST{} --out {}`",
            self.options(),
            text::shell_word(&self.file)
        );
        let refuse = |problem: &str| {
            Err(Error::invalid(format!("the plan is outdated: {problem}"))
                .with_note("nothing was changed")
                .with_hint(&new_plan_hint))
        };
        match () {
            () if self.deployment != now.deployment => Err(Error::invalid(format!(
                "the plan is for deployment '{}', but the manifest is for '{}'",
                self.deployment, now.deployment
            ))
            .with_note("nothing was changed")
            .with_hint("use the manifest for which the plan was made")),
            () if !self.inputs.state_name.is_empty() && self.inputs.state_name != now.inputs.state_name => {
                Err(Error::invalid(format!(
                    "the plan is for the state '{}', not for '{storage}'",
                    self.inputs.state_name
                ))
                .with_note("nothing was changed")
                .with_hint(format!(
                    "use the state for which the plan was made: `monopile SAME-COMMAND --state {}`",
                    self.path_of_state(storage)
                )))
            }
            () if !now.generated_variables.is_empty() => refuse(&format!(
                "variables have no saved values: {}",
                text::comma_list(&now.generated_variables)
            )),
            () if self.inputs.manifest_digest != now.inputs.manifest_digest => Err(Error::invalid(format!(
                "the manifest or a variable differs from that of the plan{}",
                self.describe_new_changes(now)
            ))
            .with_note("nothing was changed")
            .with_hint("pass the same ops files and variables as for the plan")
            .with_hint(format!("if the manifest or a variable has changed, {new_plan_hint}"))),
            () if self.inputs.artifacts != now.inputs.artifacts => {
                refuse("the stemcell or a release changed")
            }
            () if self.inputs.state_digest != now.inputs.state_digest => refuse("the state changed"),
            () if self.steps != now.steps && self.inputs.step_options != now.inputs.step_options => {
                Err(Error::invalid("the plan was made with other options than those of this command")
                    .with_note("nothing was changed")
                    .with_hint(format!("use the options of the plan: {}", self.command(&self.file))))
            }
            () if self.steps != now.steps => refuse("other steps are needed now"),
            () => Ok(()),
        }
    }
}

/// Returns the name of a state in a plan: its URL, or its file name. A pipeline may use a plan in another
/// directory than the one in which it was made.
fn state_name(storage: &Storage) -> String {
    let path = storage.path_or_url();
    match (storage.is_shared(), path.file_name()) {
        (false, Some(name)) => name.to_string_lossy().into_owned(),
        _ => path.display().to_string(),
    }
}

fn action(draft: &DraftPlan, state: &State) -> PlanAction {
    let plan = &draft.plan;
    match () {
        () if draft.unusable_agent.is_some() => PlanAction::Examine,
        () if plan.keeps_jobs() => PlanAction::KeepJobs,
        () if plan.updates_in_place() => PlanAction::UpdateInPlace,
        () if plan.creates_vm() && state.vm_cid().is_some() => PlanAction::Recreate,
        () if plan.creates_vm() => PlanAction::Create,
        () if plan.is_empty() => PlanAction::Nothing,
        () => PlanAction::CleanUp,
    }
}

/// Describes the existing resources that a plan deletes.
fn describe_deletions(plan: &Plan, state: &State) -> Vec<String> {
    let resource = |planned_step: &PlannedStep| match &planned_step.step {
        Step::Delete(resource) => Some(state.describe(resource)),
        _ => None,
    };
    plan.steps.iter().filter_map(resource).collect()
}

fn to_milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl PlanInputs {
    fn of(request: &CreateEnvRequest, draft: &DraftPlan, state: &State, storage: &Storage) -> Self {
        let prepared_deployment = &draft.prepared_deployment;
        let mut artifacts = vec![prepared_deployment.stemcell_identity().digest.to_string()];
        artifacts.extend(
            prepared_deployment.release_identities().iter().map(|release| release.digest.to_string()),
        );
        // A state that was never written has random ids.
        let is_unwritten = state.is_empty_of_resources() && state.current_deploy_digest.is_empty();
        let bytes = if is_unwritten { Vec::new() } else { state.to_bytes().unwrap_or_default() };
        PlanInputs {
            state_digest: hex::encode(Sha256::digest(bytes)),
            state_name: state_name(storage),
            manifest_digest: prepared_deployment.deploy_digest.clone(),
            artifacts,
            step_options: request.step_options(),
        }
    }
}

impl From<Difference> for PlanChange {
    fn from(difference: Difference) -> Self {
        let value_or_mark = |value: Option<String>| Some(value.unwrap_or_else(|| "<changed>".to_owned()));
        let text = difference.to_string();
        let (change, deployed_value, value) = match difference.change {
            LeafChange::Added(value) => ("added", None, value_or_mark(value)),
            LeafChange::Changed { deployed_value, desired_value } => {
                ("changed", deployed_value, value_or_mark(desired_value))
            }
            LeafChange::Removed(value) => ("removed", value, None),
        };
        PlanChange { path: difference.path, change: change.to_owned(), value, deployed_value, text }
    }
}
