//! `monopile cpi check`: checks that a CPI conforms to the protocol.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use serde_json::{Map, Value, json};

use super::source::{PreparedCpi, SourceArgs, parse_json_object};
use crate::cli::choices::number;
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use crate::cli::table::{Layout, Table};
use crate::cli::{env_vars, paths};
use crate::conformance::check::{
    Check, CheckContext, CheckSettings, CheckStemcell, LeftoverLogSettings, Report, Verdict, junit,
};
use crate::conformance::{self, AnswerSource};
use crate::ui;
use base::error::did_you_mean;
use base::events::Warning;
use base::files::directory::{check_directory, parent};
use base::text::{and_list, json_problem};
use base::{Error, Result};
use engine::cpi::Method;
use engine::cpi_set;
use engine::protocol::Contract;

/// Check that a CPI follows the CPI contract
///
/// Creates real stemcells, VMs, disks and snapshots, which may cost money, and deletes them at the end, also
/// after a failure or Ctrl-C. Lists those that it cannot delete; the next check of the same CPI deletes them.
/// Leaves all other resources alone, but give its VMs free addresses with --networks if the manifest is
/// deployed.
///
/// Checks the life cycle of stemcell, VM and disks, missing resources, repeated and parallel calls, and
/// malformed input. --parallel is the number of calls at once. With --path but without --stemcell, creates
/// no VM, and skips the checks that need one.
#[derive(Debug, Clone, Args)]
#[command(override_usage = "monopile cpi check [OPTIONS] [MANIFEST]\n       \
                      monopile cpi check [OPTIONS] --path EXE\n       \
                      monopile cpi check [OPTIONS] --replay FILE")]
pub(super) struct CheckArgs {
    /// Manifest that names the CPI, and has the properties of VMs and disks [default: from the env file]
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath, conflicts_with_all = ["path", "replay"])]
    manifest: Option<PathBuf>,

    /// Create VMs from this stemcell [default: that of the manifest]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, conflicts_with = "replay")]
    stemcell: Option<PathBuf>,

    /// Create VMs with these `cloud_properties`: JSON, or @FILE [default: those of the manifest]
    #[arg(long, value_name = "JSON", value_hint = ValueHint::Other, conflicts_with = "replay")]
    cloud_properties: Option<String>,

    /// Create VMs with these networks, by name: JSON, or @FILE [default: those of the manifest, or a dynamic
    /// one]
    #[arg(long, value_name = "JSON", value_hint = ValueHint::Other, conflicts_with = "replay")]
    networks: Option<String>,

    /// Create VMs with this `env`: JSON, or @FILE [default: that of the manifest]
    #[arg(long, value_name = "JSON", value_hint = ValueHint::Other, conflicts_with = "replay")]
    env: Option<String>,

    /// Create disks of this size in MiB [default: that of the manifest, or 1024]
    #[arg(long, value_name = "MIB", allow_negative_numbers = true, conflicts_with = "replay",
          value_parser = number(1_u64, None, 1024))]
    disk_size: Option<u64>,

    /// Create disks with these `cloud_properties`: JSON, or @FILE [default: those of the manifest]
    #[arg(long, value_name = "JSON", value_hint = ValueHint::Other, conflicts_with = "replay")]
    disk_cloud_properties: Option<String>,

    /// Check only this contract [default: both]
    #[arg(long, value_name = "CONTRACT", value_parser = contract_parser(), conflicts_with = "replay")]
    contract: Option<Contract>,

    /// Do not call this method (repeatable)
    #[arg(long, value_name = "METHOD", value_parser = parse_method, value_hint = ValueHint::Other,
          conflicts_with = "replay")]
    skip: Vec<String>,

    /// Write the results to this file, in the format of JUnit
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    junit: Option<PathBuf>,

    #[command(flatten)]
    source: SourceArgs,
}

/// Parses the name of a contract, with or without its letter.
fn contract_parser() -> impl TypedValueParser<Value = Contract> {
    let values = [("v1", "1"), ("v2", "2")].map(|(name, number)| PossibleValue::new(name).alias(number));
    PossibleValuesParser::new(values).map(|name| match name.trim_start_matches('v') {
        "1" => Contract::V1,
        _ => Contract::V2,
    })
}

fn parse_method(text: &str) -> std::result::Result<String, String> {
    match text.parse::<Method>() {
        Ok(method) => Ok(method.name().to_owned()),
        Err(unknown) => Err(format!("{unknown}{}", did_you_mean(text, Method::all().map(Method::name)))),
    }
}

/// The file of `--junit`, opened before the run so that no result is lost. Other users may read it, as far as
/// the umask permits, because it has no secrets.
struct JunitFile {
    path: PathBuf,
    file: File,
}

impl JunitFile {
    fn open(path: &Path) -> Result<Self> {
        check_directory(parent(path), "--junit")?;
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| {
            Error::input(format!("writing '{}'", path.display()), error).with_path_hint(path, "--junit FILE")
        })?;
        Ok(JunitFile { path: path.to_owned(), file })
    }

    fn write(mut self, text: &str) -> Result<()> {
        // A pipe or a device has no length.
        let _ = self.file.set_len(0);
        self.file
            .write_all(text.as_bytes())
            .map_err(|error| Error::io(format!("writing '{}'", self.path.display()), error))
    }
}

impl CheckArgs {
    /// Runs the checks on the CPI and prints their results. The JUnit file is opened first, so that a wrong
    /// path fails before resources are created.
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let home = paths::home();
        let absolute = |path: &PathBuf| paths::absolute(&paths::expand(path, home.as_deref()));
        let stemcell = self.stemcell.as_ref().map(|path| paths::expand(path, home.as_deref()));
        let junit_file = self.junit.as_ref().map(absolute).transpose()?;
        let junit_file = junit_file.map(|path| JunitFile::open(&path)).transpose()?;
        let prepared_cpi = self.source.open(session, self.manifest.as_ref(), true, stemcell.as_deref())?;
        let settings = self.settings(session, &prepared_cpi, stemcell.as_deref())?;
        if let Some(vm) = prepared_cpi.manifest_cpi.as_ref().and_then(|cpi| cpi.deployed_vm.as_ref()) {
            let warning = Warning::new(format!(
                "VM '{vm}' of this manifest is deployed: the VMs of the check must not have its address"
            ));
            session
                .reporter
                .warn(warning.with_hint("to set another address: `monopile SAME-COMMAND --networks @FILE`"));
        }
        let stage = session.reporter.begin_stage("Checking the CPI");
        let run = &prepared_cpi.prepared_run.run;
        let directory = env_vars::CPI_CHECK.path()?;
        let leftover_log = LeftoverLogSettings { directory: &directory, cpi: &prepared_cpi.stable_name };
        let context = CheckContext {
            stage: &stage,
            // A replay creates no resources.
            leftover_log: Some(leftover_log)
                .filter(|_| matches!(prepared_cpi.cpi.source, AnswerSource::Program(_))),
            signal_check: &|| run.signal(),
            must_stop_waiting: &|| run.must_stop_waiting(),
        };
        let in_flight = run.signals.begin_call("the CPI");
        let report = conformance::check(&prepared_cpi.cpi, &settings, &context)?;
        drop(in_flight);
        match report.has_passed() {
            true => stage.finish(),
            false => drop(stage),
        }
        let write_result = junit_file.map_or(Ok(()), |file| file.write(&junit(&report)));
        let is_recorded = prepared_cpi.is_recording_complete(session);
        let exit_code = match report.signal {
            Some(signal) => 128 + signal,
            None => u8::from(!report.has_passed() || !is_recorded),
        };
        let output = match session.globals.prints_json() {
            true => CommandResult::json(&report)?,
            false => {
                let mut text = report_text(&report, session.globals.verbose > 0, &session.layout());
                if settings.stemcell.is_none() {
                    text += "note: no VM was tested\n";
                }
                for hint in self.hints(&prepared_cpi, &report, settings.stemcell.is_some()) {
                    text += &format!("hint: {}\n", session.complete_commands(&hint));
                }
                let text = match session.columns() {
                    Some(columns) => ui::wrap(&text, columns),
                    None => text,
                };
                CommandResult::Output(text.into_bytes())
            }
        };
        Ok(match write_result {
            Ok(()) => output.with_exit_code(exit_code),
            Err(error) => output.with_problem(error),
        })
    }

    /// Returns what the operator can do about failed and missing checks, and about leftovers.
    fn hints(&self, prepared_cpi: &PreparedCpi, report: &Report, has_tested_vm: bool) -> Vec<String> {
        // The answers of a transcript stay as they are.
        if matches!(prepared_cpi.cpi.source, AnswerSource::Transcript(_)) {
            return Vec::new();
        }
        let mut hints = match report.counts.fail {
            0 => Vec::new(),
            _ => self.source.hints_for_failed_checks(report.repeatable_call()),
        };
        if !has_tested_vm {
            hints.push("to test a VM as well: `monopile SAME-COMMAND --stemcell PATH`".to_owned());
        }
        if report.leftovers.iter().any(|leftover| leftover.cid.is_some()) {
            hints.push("to try again to delete what is left, run the same command again".to_owned());
        }
        if report.leftovers.iter().any(|leftover| leftover.cid.is_none()) {
            hints.push("look in the IaaS for the resources without a CID, and delete them".to_owned());
        }
        hints
    }

    /// Returns the settings. Options override the manifest. A replay takes all settings from the transcript.
    fn settings(
        &self,
        session: &Session,
        prepared_cpi: &PreparedCpi,
        stemcell: Option<&Path>,
    ) -> Result<CheckSettings> {
        if let Some(settings) = prepared_cpi.cpi.source.recorded_settings() {
            return serde_json::from_value(settings).map_err(|error| {
                Error::invalid(format!("reading the settings in '{}' failed", prepared_cpi.name))
                    .with_source(json_problem(&error))
            });
        }
        if let AnswerSource::Transcript(_) = prepared_cpi.cpi.source {
            return Err(Error::invalid(format!(
                "'{}' is not a transcript of a `cpi check`",
                prepared_cpi.name
            ))
            .with_hint("to write one: `monopile cpi check --path EXE --record FILE`"));
        }
        let vm_and_disk = prepared_cpi.manifest_cpi.as_ref().and_then(|cpi| cpi.vm_and_disk.as_ref());
        let stemcell = match (vm_and_disk, stemcell) {
            (Some(vm_and_disk), _) => Some(vm_and_disk.stemcell.clone()),
            (None, Some(path)) => {
                let stage = session.reporter.begin_stage("Preparing the stemcell");
                let stemcell = cpi_set::open_stemcell(&prepared_cpi.prepared_run.run, path, &stage)?;
                stage.finish();
                Some(stemcell)
            }
            (None, None) => None,
        };
        let vm = vm_and_disk.map(|vm_and_disk| &vm_and_disk.deployment.vm);
        let disk = vm_and_disk.and_then(|vm_and_disk| vm_and_disk.deployment.disk.as_ref());
        if let Some(resources) = vm.and_then(|vm| vm.resources.as_ref())
            && self.cloud_properties.is_none()
        {
            let problem = format!("{} leaves the cloud properties of the VM to the CPI", resources.place);
            return Err(Error::invalid(problem).with_hint(
                "name those of the VM to check: `monopile SAME-COMMAND --cloud-properties JSON`",
            ));
        }
        let json = |option: &str, text: &Option<String>, otherwise: Option<&Map<String, Value>>| match text {
            Some(text) => parse_json_object(option, text),
            None => Ok(otherwise.cloned().unwrap_or_default()),
        };
        let default_networks =
            json!({"type": "dynamic", "default": ["dns", "gateway"], "cloud_properties": {}});
        let default_networks = Map::from_iter([("default".to_owned(), default_networks)]);
        let networks = vm.map_or(&default_networks, |vm| &vm.networks);
        Ok(CheckSettings {
            name: prepared_cpi.name.clone(),
            highest_api_version: prepared_cpi.highest_api_version,
            contract: self.contract,
            stemcell: stemcell.map(|stemcell| CheckStemcell {
                image: stemcell.image,
                cloud_properties: stemcell.cloud_properties,
                api_version: stemcell.api_version,
            }),
            vm_cloud_properties: json(
                "--cloud-properties",
                &self.cloud_properties,
                vm.map(|vm| &vm.cloud_properties),
            )?,
            networks: json("--networks", &self.networks, Some(networks))?,
            env: json("--env", &self.env, vm.map(|vm| &vm.env))?,
            disk_size: self.disk_size.or(disk.map(|disk| disk.size)).unwrap_or(1024),
            disk_cloud_properties: json(
                "--disk-cloud-properties",
                &self.disk_cloud_properties,
                disk.map(|disk| &disk.cloud_properties),
            )?,
            parallel_call_count: usize::from(session.globals.parallel),
            skip: self.skip.clone(),
        })
    }
}

/// Formats the report. Checks that passed are listed only if `is_verbose`.
fn report_text(report: &Report, is_verbose: bool, layout: &Layout) -> String {
    let mut text = String::new();
    if is_verbose {
        for check in report.checks.iter().filter(|check| check.verdict == Verdict::Pass) {
            let remarks = check.reasons.join("; ");
            let remarks = if remarks.is_empty() { remarks } else { format!(" ({remarks})") };
            text += &format!("pass: {}: {}{remarks}\n", check.group, check.name);
        }
    }
    for verdict in [Verdict::Skip, Verdict::Fail] {
        let checks: Vec<&Check> = report.checks.iter().filter(|check| check.verdict == verdict).collect();
        text += &result_lines(&checks);
    }
    if !text.is_empty() {
        text.push('\n');
    }
    let mut timings = Table::for_kind("method", ["Method", "Calls", "Shortest", "Median", "Longest"]);
    for timing in &report.timings {
        let milliseconds = |duration: std::time::Duration| format!("{:.1} ms", duration.as_secs_f64() * 1e3);
        timings.add_row([
            timing.method.clone(),
            timing.calls.to_string(),
            milliseconds(timing.min),
            milliseconds(timing.median),
            milliseconds(timing.max),
        ]);
    }
    text += &format!("{}\n", timings.format(layout));
    if !report.leftovers.is_empty() {
        let mut table = Table::for_kind("left behind", ["Left behind", "CID", "Why"]);
        for leftover in &report.leftovers {
            table.add_row([
                leftover.kind.clone(),
                leftover.cid.clone().unwrap_or_default(),
                leftover.reason.clone(),
            ]);
        }
        text += &format!("{}\n", table.format(layout));
    }
    text + &report.summary() + "\n"
}

/// A reason with the verdict and the names of the checks that have it.
struct SharedReason<'a> {
    reasons: Vec<&'a str>,
    verdict: String,
    checks: Vec<&'a Check>,
}

/// Lists checks with the same verdict. A reason that several of them have is shown once, with their number
/// and names. Reasons of the same checks share a line.
fn result_lines(checks: &[&Check]) -> String {
    const MAX_SHOWN_NAMES: usize = 5;
    let mut shared_reasons: Vec<SharedReason<'_>> = Vec::new();
    for check in checks {
        let verdict = check.verdict_text();
        for reason in check.plain_reasons() {
            let is_same =
                |entry: &&mut SharedReason<'_>| entry.reasons == [reason] && entry.verdict == verdict;
            match shared_reasons.iter_mut().find(is_same) {
                Some(entry) => entry.checks.push(check),
                None => shared_reasons.push(SharedReason {
                    reasons: vec![reason],
                    verdict: verdict.clone(),
                    checks: vec![check],
                }),
            }
        }
    }
    let (single_reasons, shared_reasons): (Vec<_>, Vec<_>) =
        shared_reasons.into_iter().partition(|entry| entry.checks.len() == 1);
    let mut lines: Vec<SharedReason<'_>> = Vec::new();
    for entry in shared_reasons {
        let is_same = |line: &&mut SharedReason<'_>| {
            let mut pairs = line.checks.iter().zip(&entry.checks);
            let has_same_checks = line.checks.len() == entry.checks.len()
                && pairs.all(|(one, other)| std::ptr::eq::<Check>(*one, *other));
            has_same_checks && line.verdict == entry.verdict
        };
        match lines.iter_mut().find(is_same) {
            Some(line) => line.reasons.extend(entry.reasons),
            None => lines.push(entry),
        }
    }
    let mut text = String::new();
    for SharedReason { reasons, verdict, checks } in lines {
        let count = checks.len();
        let mut groups_of_names: Vec<(&str, Vec<&str>)> = Vec::new();
        for check in checks {
            match groups_of_names.iter_mut().find(|(name, _)| *name == check.name) {
                Some((_, groups)) => groups.push(&check.group),
                None => groups_of_names.push((&check.name, vec![&check.group])),
            }
        }
        let shown_names = &groups_of_names[..groups_of_names.len().min(MAX_SHOWN_NAMES)];
        let hidden_count = match count - shown_names.iter().map(|(_, groups)| groups.len()).sum::<usize>() {
            0 => String::new(),
            hidden_count => format!(" and {hidden_count} more"),
        };
        let names: Vec<String> = shown_names
            .iter()
            .map(|(name, groups)| match groups.len() {
                1 => (*name).to_owned(),
                _ => format!("{name} in {}", and_list(groups)),
            })
            .collect();
        let names = names.join(", ");
        text += &format!("{verdict}: {count} checks: {} ({names}{hidden_count})\n", reasons.join("; "));
    }
    for check in checks {
        let verdict = check.verdict_text();
        let is_single = |reason: &str| {
            single_reasons.iter().any(|entry| entry.reasons == [reason] && entry.verdict == verdict)
        };
        let plain = check.plain_reasons().zip(&check.reasons);
        // A check that is named like the method names it once.
        let method_prefix = format!("`{}`: ", check.name);
        let reasons: Vec<&str> = plain
            .filter(|(plain, _)| is_single(plain))
            .map(|(_, full_reason)| full_reason.strip_prefix(&method_prefix).unwrap_or(full_reason))
            .collect();
        if reasons.is_empty() {
            continue;
        }
        text += &format!("{verdict}: {}: {}: {}\n", check.group, check.name, reasons.join("; "));
        if let Some(call) = &check.last_call {
            if !call.request_id.is_empty() {
                text += &format!("  request {}\n", call.request_id);
            }
            call.log.iter().for_each(|line| text += &format!("  | {line}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::check::{Deviation, LastCall};
    use std::time::Duration;

    #[test]
    fn equal_reasons_are_shown_once() {
        let check = |name: &str, reasons: &[&str]| Check {
            group: "rpc".to_owned(),
            name: name.to_owned(),
            verdict: Verdict::Fail,
            deviation: Some(Deviation::Violation),
            reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
            last_call: Some(LastCall {
                request_id: "r1".to_owned(),
                words: Vec::new(),
                log: vec!["the log".to_owned()],
            }),
            duration: Duration::ZERO,
        };
        let checks = [
            check("a", &["`info`: no log"]),
            Check { group: "contract v2".to_owned(), ..check("a", &["`info`: no log"]) },
            check("b", &["`has_vm`: no log", "`has_vm`: it lies", "`b`: it ends"]),
        ];
        let lines = result_lines(&checks.iter().collect::<Vec<_>>());
        let expected = "FAIL: violates the contract: 3 checks: no log (a in rpc and contract v2, b)\n\
                        FAIL: violates the contract: rpc: b: `has_vm`: it lies; it ends\n  request \
                        r1\n  | the log\n";
        assert_eq!(lines, expected);
    }

    #[test]
    fn only_methods_of_the_cpi_api_can_be_skipped() {
        assert_eq!(parse_method("reboot_vm"), Ok("reboot_vm".to_owned()));
        assert!(parse_method("rebot_vm").unwrap_err().contains("did you mean 'reboot_vm'?"));
    }
}
