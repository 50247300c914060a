//! `monopile status`: shows the status of an environment.

use std::path::{Path, PathBuf};
use std::ptr;
use std::time::Duration;

use clap::{Args, ValueHint};
use serde_json::Value;
use time::OffsetDateTime;

use super::choices::RendererArgs;
use super::cpi::describe_versions;
use super::finish::CommandResult;
use super::manifest_args::{MANIFEST_OPTIONS, ManifestOptions};
use super::session::{PreparedRun, Session};
use super::status_all::{self, StatusAllRequest};
use super::table::Table;
use super::{AgentArgs, ConfigArgs, CpiArgs, StateArgs, duration, env_vars, history, paths};
use crate::ui;
use base::events::Reporter;
use base::{Error, Result};
use engine::history::RunRecord;
use engine::inspection::{
    AgentReply, CpiStatus, PresenceStatus, Status, StatusCollector, StatusRequest, StatusSources,
};
use engine::state::{State, Storage, SuspectGroup};
use manifest::SavePolicy;

/// The arguments that are about one environment, by id, in addition to [`MANIFEST_OPTIONS`].
const SINGLE_ENVIRONMENT_ARGS: [&str; 4] = ["state", "insecure_agent", "cpi_api_version", "watch"];

/// The number of remaining days at which a certificate is marked.
const EXPIRES_SOON_DAYS: i64 = 30;
/// The number of remaining days at which a certificate is shown on a terminal without --verbose.
const SHOWN_BEFORE_DAYS: i64 = 60;

#[derive(Debug, Clone, Args)]
pub(super) struct StatusArgs {
    /// Manifest of the environment, or a state file
    ///
    /// A state file, or the URL of a state in a bucket, does not name the address of the agent, so only the
    /// record is shown.
    #[arg(id = "manifest", value_name = "MANIFEST|STATE", value_hint = ValueHint::FilePath, required = true,
          conflicts_with = "all")]
    path: Option<PathBuf>,

    /// Show one line for each environment below a directory, or each state below a prefix of a bucket
    ///
    /// An environment is a directory with an env file .monopile.yml, which must be trusted. The exit code is
    /// the highest of all.
    #[arg(long, value_name = "DIR|URL", value_hint = ValueHint::DirPath, 
          conflicts_with_all = SINGLE_ENVIRONMENT_ARGS.into_iter().chain(MANIFEST_OPTIONS))]
    all: Option<PathBuf>,

    #[command(flatten)]
    options: ManifestOptions,

    #[command(flatten)]
    configs: ConfigArgs,

    #[command(flatten)]
    state: StateArgs,

    #[command(flatten)]
    agent: AgentArgs,

    /// Repeat until Ctrl-C, which then ends with exit code 0
    #[arg(long)]
    watch: bool,

    /// Ask the agent again after this time, with --watch
    #[arg(long, value_name = "DURATION", default_value = "2s", requires = "watch",
          value_parser = duration::parse)]
    interval: Duration,

    /// Do not ask the CPI whether VM and disks exist
    #[arg(long)]
    no_cpi: bool,

    /// Wait this long for the agent; the last attempt may take up to 10 seconds more
    #[arg(long, value_name = "DURATION", default_value = "3s",
          value_parser = duration::parse)]
    agent_timeout: Duration,

    #[command(flatten)]
    renderer: RendererArgs,

    #[command(flatten)]
    cpi: CpiArgs,
}

impl StatusArgs {
    /// Shows one environment, named by its manifest or state, or all of a directory with `--all`. Follows it
    /// with `--watch`.
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        if let Some(path_or_url) = &self.all {
            let request = StatusAllRequest { path_or_url, options: self.options_for_each() };
            return status_all::run(session, &request);
        }
        // The path is missing only with --all, which the lines above handle.
        let path = self.path.clone().unwrap_or_default();
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        if is_json && !paths::is_url(&path) && !paths::exists(&path) {
            return Err(manifest::missing_manifest_or_state_error(&path));
        }
        let (state, inputs) = match is_state(&paths::expand(&path, paths::home().as_deref())) {
            true => (paths::state(Some(&path), Path::new(""))?, None),
            false => {
                let state = self.state.path_of_deployed(&path)?;
                let mut inputs = self.configs.add_to(self.options.inputs_with_default_store(&path, &state)?);
                inputs.save_policy = SavePolicy::Never;
                (state, Some(inputs))
            }
        };
        let request = StatusRequest {
            inputs,
            asks_cpi: !self.no_cpi,
            renderer_choice: self.renderer.into(),
            cpi_api_version: self.cpi.version.cpi_api_version,
            agent_timeout: self.agent_timeout,
            history_directory: env_vars::HISTORY.path().ok(),
        };
        let mut prepared_run = session.prepare_run(state, None, false)?;
        self.agent.apply(&mut prepared_run.run);
        self.cpi.apply(&mut prepared_run.run)?;
        let sources = StatusSources::new(&request, &prepared_run.run)?;
        let mut collector = sources.collector();
        if self.watch {
            return self.watch(session, &prepared_run, &mut collector);
        }
        let status = collector.collect(&prepared_run.run.reporter)?;
        let output = match session.globals.prints_json() {
            true => CommandResult::json(&status)?,
            false => CommandResult::Output(status_text(session, &status).into_bytes()),
        };
        if let Some(error) = &status.presence_error {
            session.reporter.warn(error);
        }
        Ok(match status.problem_error() {
            Some(error) => output.with_problem(error),
            None => output,
        })
    }

    /// Returns the options that `--all` passes on.
    fn options_for_each(&self) -> Vec<String> {
        let mut options = vec![format!("--agent-timeout={}ms", self.agent_timeout.as_millis())];
        options.extend(self.cpi.timeout().map(|time| format!("--cpi-timeout={}ms", time.as_millis())));
        options.extend(self.no_cpi.then(|| "--no-cpi".to_owned()));
        options
    }

    /// Prints the status repeatedly until a signal, which is a successful end.
    fn watch(
        &self,
        session: &Session,
        prepared_run: &PreparedRun,
        collector: &mut StatusCollector<'_>,
    ) -> Result<CommandResult> {
        let silent = Reporter::silent();
        let run = &prepared_run.run;
        let mut screen = ui::FullScreen::open(session.globals.prints_json());
        while run.signal().is_none() {
            let frame = match collector.collect(&silent) {
                Ok(status) if session.globals.prints_json() => json_line(&status)?,
                Ok(status) => status_text(session, &status),
                Err(_) if run.signal().is_some() => break,
                // The state may be in the middle of a deletion, so watching continues.
                Err(error) => match session.globals.prints_json() {
                    true => return Err(error),
                    false => format!("{}\n", session.redactor.clean_and_redact(&error.chain().join(": "))),
                },
            };
            if !screen.show(frame, self.interval, &|| run.signal().is_some()) {
                break;
            }
        }
        Ok(CommandResult::Output(screen.close().into_bytes()))
    }
}

/// Returns true if a file is a state and not a manifest. The URL of an object in a bucket is always one.
pub(super) fn is_state(path: &Path) -> bool {
    if paths::is_url(path) {
        return true;
    }
    let storage = Storage::from(path);
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    is_json && State::read(&storage).map_or_else(|_| paths::is_state_name(path), |state| state.is_some())
}

fn json_line(status: &Status) -> Result<String> {
    serde_json::to_string(status)
        .map(|line| format!("{line}\n"))
        .map_err(|error| Error::failure("encoding the status as JSON failed").with_source(error))
}

/// Returns the output of `status`. Programs and `--verbose` get all tables; a terminal gets those that may
/// need attention.
fn status_text(session: &Session, status: &Status) -> String {
    let layout = &session.layout();
    let mut labelled_values = vec![("VM", describe_vm(status)), ("Agent", describe_agent(status))];
    if let Some(recorded_run) = status.run_in_progress() {
        let RunRecord { command, started_at, pid, .. } = &recorded_run.record;
        labelled_values.insert(0, ("In progress", format!("`{command}` since {started_at} (pid {pid})")));
    }
    if let Some(state) = &status.job_state {
        let stop_note = status
            .stopping_run()
            .map(|recorded_run| format!("  (stop-env, {})", recorded_run.record.started_at));
        let all_run = state == "running" && status.processes.iter().all(|process| process.state == "running");
        let state = if all_run && status.jobs.len() > 1 { "all running" } else { state };
        labelled_values.push((
            "Jobs",
            match status.jobs.as_slice() {
                [] => "none deployed".to_owned(),
                jobs => format!("{state}: {}{}", jobs.join(", "), stop_note.unwrap_or_default()),
            },
        ));
    }
    let unfinished_reason = status.record.undeployed_reason.filter(|_| status.run_in_progress().is_none());
    if let Some(reason) = unfinished_reason {
        labelled_values.push(("Deployed", format!("no: {reason}")));
    }
    labelled_values.extend(status.vitals.as_ref().map(|vitals| ("Load", describe_load(vitals))));
    let record = &status.record;
    for CpiStatus { name, version, release, api_version } in &status.cpis {
        let mut parts = vec![name.clone().unwrap_or_else(|| "default".to_owned())];
        parts.push(describe_versions(version.as_deref(), release.as_deref()));
        parts.push(format!("API\u{a0}version\u{a0}{api_version}"));
        parts.retain(|part| !part.is_empty());
        labelled_values.push(("CPI", parts.join("  ")));
    }
    for stemcell in record.stemcells.iter().filter(|stemcell| stemcell.in_use) {
        let cpi = cpi_note(stemcell.cpi.as_deref());
        labelled_values
            .push(("Stemcell", format!("{}/{}  {}{cpi}", stemcell.name, stemcell.version, stemcell.cid)));
    }
    if !record.releases.is_empty() {
        labelled_values.push(("Releases", record.releases.join(", ")));
    }
    labelled_values.push(("State", record.state.clone()));
    for call in &record.open_calls {
        labelled_values.push(("Open call", super::state::open_call(call)));
    }
    for group in SuspectGroup::all(&record.suspects) {
        let text = format!("may have created {}; see `monopile state show MANIFEST`", group.short_text());
        let label = if group.suspects().len() == 1 { "Failed call" } else { "Failed calls" };
        labelled_values.push((label, session.complete_commands(&text)));
    }
    labelled_values
        .extend(status.cpi_problem.iter().map(|problem| ("CPI", format!("NOT ASKED: {}", problem.message))));
    for undeleted in &record.undeleted {
        labelled_values.push(("To be deleted", format!("{}: {}", undeleted.resource, undeleted.reason)));
    }
    let mut sections = vec![layout.labelled_values(&labelled_values)];
    let shows_hints = session.globals.verbose > 0;
    // A program or --verbose gets everything; the screen has what may need attention.
    let shows_all = shows_hints || layout.is_for_programs();
    let tables = [
        processes(status),
        disks(status, shows_hints),
        networks(status).filter(|_| shows_all),
        certificates(status, if shows_all { i64::MAX } else { SHOWN_BEFORE_DAYS }),
    ];
    sections.extend(tables.into_iter().flatten().map(|table| table.format(layout)));
    if !status.runs.is_empty() {
        let mut table = Table::for_kind("run", ["Last runs", "Command", "Took", "Result"]);
        for recorded_run in &status.runs {
            let age = history::age(&recorded_run.record.started_at, OffsetDateTime::now_utc());
            table.add_row([
                age,
                recorded_run.record.command.clone(),
                history::run_duration(recorded_run),
                history::outcome_label(recorded_run),
            ]);
        }
        sections.push(table.format(layout));
    }
    // Tables break lines at blanks only, so cells have no-break spaces. The output has blanks instead.
    sections.join("\n").replace('\u{a0}', " ")
}

fn describe_vm(status: &Status) -> String {
    let Some(vm) = &status.vm else { return "none on record".to_owned() };
    let instance = vm.instance.as_ref().map(|instance| format!("  {instance}")).unwrap_or_default();
    format!(
        "{}{}{instance}{}",
        vm.handle.cid,
        cpi_note(vm.handle.cpi()),
        match vm.presence {
            PresenceStatus::Yes if vm.is_off => "  STOPPED",
            PresenceStatus::Yes => "  exists",
            PresenceStatus::No => "  NOT FOUND BY THE CPI",
            PresenceStatus::Unknown => "  the CPI cannot confirm that it exists",
            PresenceStatus::NotAsked => "",
        }
    )
}

/// Formats the CPI of a resource. Returns an empty text for the default CPI.
fn cpi_note(cpi: Option<&str>) -> String {
    cpi.map(|cpi| format!(", CPI {cpi}")).unwrap_or_default()
}

fn describe_agent(status: &Status) -> String {
    let agent = &status.agent;
    let id = agent.id.as_ref().map(|id| format!("  ID\u{a0}{id}")).unwrap_or_default();
    let address_note = agent.address.as_ref().map(|address| format!(" at {address}")).unwrap_or_default();
    let problem = agent.problem.as_deref().unwrap_or_default();
    match agent.reply {
        AgentReply::Yes => format!("answers{address_note}{id}"),
        AgentReply::No if agent.is_proxy_failure => format!("NOT ASKED: {problem}"),
        AgentReply::No if agent.is_silent => format!("NO ANSWER: {problem}"),
        AgentReply::No => format!("NOT USABLE: {problem}"),
        AgentReply::Foreign => format!("NOT USABLE{address_note}: {problem}"),
        AgentReply::NotAsked if status.vm.is_none() => "none".to_owned(),
        AgentReply::NotAsked => format!("not asked: only the manifest has its address{id}"),
    }
}

fn describe_load(vitals: &Value) -> String {
    let text =
        |pointer: &str| vitals.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let averages = vitals.get("load").and_then(Value::as_array);
    let averages: Vec<&str> = averages.into_iter().flatten().filter_map(Value::as_str).collect();
    let mut parts = Vec::new();
    parts.extend((!averages.is_empty()).then(|| averages.join(" ")));
    let cpu = [("user", "/cpu/user"), ("sys", "/cpu/sys"), ("wait", "/cpu/wait")];
    let cpu: Vec<String> =
        cpu.iter().filter_map(|(name, pointer)| Some(format!("{name} {}%", text(pointer)?))).collect();
    parts.extend((!cpu.is_empty()).then(|| format!("CPU {}", cpu.join(" "))));
    for (name, pointer) in [("memory", "/mem"), ("swap", "/swap")] {
        let kb: Option<u64> = text(&format!("{pointer}/kb")).and_then(|kb| kb.parse().ok());
        if let (Some(percent), Some(kb)) = (text(&format!("{pointer}/percent")), kb) {
            let size = base::text::format_bytes(kb.saturating_mul(1024)).replace(' ', "\u{a0}");
            parts.push(format!("{name} {percent}%\u{a0}({size})"));
        }
    }
    for disk in ["system", "ephemeral"] {
        parts.extend(text(&format!("/disk/{disk}/percent")).map(|percent| format!("{disk} disk {percent}%")));
    }
    let uptime = vitals.pointer("/uptime/secs").and_then(Value::as_u64);
    parts.extend(
        uptime.map(|seconds| format!("up {}", base::text::format_duration(Duration::from_secs(seconds)))),
    );
    parts.join(", ")
}

fn processes(status: &Status) -> Option<Table> {
    let mut table = Table::for_kind("process", ["Process", "State", "Uptime", "Memory", "CPU"]);
    for process in &status.processes {
        let uptime =
            process.uptime_seconds.map(|seconds| base::text::format_duration(Duration::from_secs(seconds)));
        let memory = process.memory_kib.map(|kib| {
            let share = process.memory_percent.map(|percent| format!(" ({percent:.1}%)")).unwrap_or_default();
            format!("{}{share}", base::text::format_bytes(kib.saturating_mul(1024)))
        });
        let cpu = process.cpu_percent.map(|percent| format!("{percent:.1}%"));
        let or_empty = Option::unwrap_or_default;
        // Agents report no state of a process that they were told to stop.
        let is_stopped = status.job_state.as_deref() == Some("stopped") && process.state == "unknown";
        let state = if is_stopped { "stopped".to_owned() } else { process.state.clone() };
        table.add_row([process.name.clone(), state, or_empty(uptime), or_empty(memory), or_empty(cpu)]);
    }
    (!status.processes.is_empty()).then_some(table)
}

/// Returns the table of disks, whose states in capital letters need attention. `None` if there are none.
fn disks(status: &Status, shows_hints: bool) -> Option<Table> {
    let header = match shows_hints {
        true => vec!["Disk", "Size", "In use", "State", "Used", "Hint"],
        false => vec!["Disk", "Size", "In use", "State", "Used"],
    };
    let mut table = Table::for_kind("disk", header);
    for disk in &status.disks {
        let state = match (disk.presence, disk.is_mounted) {
            (PresenceStatus::No, Some(true)) => "mounted, NOT FOUND BY THE CPI",
            (PresenceStatus::No, _) => "NOT FOUND BY THE CPI",
            (_, Some(true)) => "mounted",
            (_, Some(false)) if disk.in_use => "NOT MOUNTED",
            (PresenceStatus::Yes, _) => "exists",
            (PresenceStatus::Unknown, _) => "not confirmed by the CPI",
            (PresenceStatus::NotAsked, _) => "",
        };
        let use_word = if disk.in_use { "yes" } else { "no" };
        let fill_level = disk.used_percent.as_ref().map(|percent| format!("{percent}%")).unwrap_or_default();
        let hint = disk.hint.as_ref().map(ToString::to_string).unwrap_or_default();
        let size = format!("{} MiB", disk.size);
        let cid = format!("{}{}", disk.handle.cid, cpi_note(disk.handle.cpi()));
        let mut row = vec![cid, size, use_word.to_owned(), state.to_owned(), fill_level];
        row.extend(shows_hints.then_some(hint));
        table.add_row(row);
    }
    for cid in &status.untracked_disks {
        let mut row = [cid.as_str(), "", "no", "NOT ON RECORD", ""].map(str::to_owned).to_vec();
        row.extend(shows_hints.then(String::new));
        table.add_row(row);
    }
    (!status.disks.is_empty() || !status.untracked_disks.is_empty()).then_some(table)
}

fn networks(status: &Status) -> Option<Table> {
    let mut table = Table::for_kind("network", ["Network", "Type", "Address", "Netmask", "Gateway"]);
    for network in &status.networks {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        table.add_row([
            network.name.clone(),
            text(&network.kind),
            text(&network.ip),
            text(&network.netmask),
            text(&network.gateway),
        ]);
    }
    (!status.networks.is_empty()).then_some(table)
}

/// Lists the certificates that expire in less than this number of days.
fn certificates(status: &Status, max_days: i64) -> Option<Table> {
    let mut table = Table::for_kind("certificate", ["Certificate", "Expires", "Expires in"]);
    let expiring_certificates =
        || status.certificates.iter().filter(|certificate| certificate.days < max_days);
    for certificate in expiring_certificates() {
        let note = match certificate.days {
            ..0 => "EXPIRED".to_owned(),
            0 => "LESS THAN A DAY".to_owned(),
            1 => "ONLY 1 DAY".to_owned(),
            days @ 2..EXPIRES_SOON_DAYS => format!("ONLY {days} DAYS"),
            days => format!("{days} days"),
        };
        // A text may have several certificates, such as the old and the new one of a rotation.
        let same_path = || status.certificates.iter().filter(|other| other.path == certificate.path);
        let same_path_count = same_path().count();
        let index = same_path().position(|other| ptr::eq(other, certificate));
        let number = match (same_path_count, index) {
            (2.., Some(index)) => format!(" ({} of {same_path_count})", index + 1),
            _ => String::new(),
        };
        table.add_row([format!("{}{number}", certificate.path), certificate.expires.clone(), note]);
    }
    expiring_certificates().next().is_some().then_some(table)
}
