//! `monopile cpi check`: checks that a CPI conforms to the protocol.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use serde_json::{Map, Value, json};

use super::source::{PreparedCpi, SourceArgs, hash};
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use crate::cli::table::{Layout, Table};
use crate::cli::{paths, reference};
use crate::conformance::check::{
    CheckContext, CheckSettings, Deviation, LeftoverLogLocation, Report, StemcellImage, Verdict, junit,
};
use crate::conformance::{self, AnswerSource};
use base::files::durable::write_atomically;
use base::{Error, Result};
use engine::cpis;
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
pub(super) struct CheckArgs {
    /// Manifest that names the CPI, and has the properties of VMs and disks
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
    #[arg(long, value_name = "MIB", conflicts_with = "replay",
          value_parser = clap::value_parser!(u64).range(1..))]
    disk_size: Option<u64>,

    /// Create disks with these `cloud_properties`: JSON, or @FILE [default: those of the manifest]
    #[arg(long, value_name = "JSON", value_hint = ValueHint::Other, conflicts_with = "replay")]
    disk_cloud_properties: Option<String>,

    /// Check only this contract [default: both]
    #[arg(long, value_name = "CONTRACT", value_parser = contract(), conflicts_with = "replay")]
    contract: Option<Contract>,

    /// Do not call this method (repeatable)
    #[arg(long, value_name = "METHOD", value_hint = ValueHint::Other, conflicts_with = "replay")]
    skip: Vec<String>,

    /// Write the results to this file, in the format of JUnit
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    junit: Option<PathBuf>,

    #[command(flatten)]
    source: SourceArgs,
}

/// Parses the name of a contract, with or without its letter.
fn contract() -> impl TypedValueParser<Value = Contract> {
    let values = [("v1", "1"), ("v2", "2")].map(|(name, number)| PossibleValue::new(name).alias(number));
    PossibleValuesParser::new(values).map(|name| match name.trim_start_matches('v') {
        "1" => Contract::V1,
        _ => Contract::V2,
    })
}

impl CheckArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let home = paths::home();
        let absolute = |path: &PathBuf| paths::absolute(&paths::expand(path, home.as_deref()));
        let stemcell = self.stemcell.as_ref().map(absolute).transpose()?;
        let junit_file = self.junit.as_ref().map(absolute).transpose()?;
        let prepared = self.source.open(session, self.manifest.as_ref(), true, stemcell.as_deref())?;
        let settings = self.settings(session, &prepared, stemcell.as_deref())?;
        if let Some(vm) = prepared.opened.as_ref().and_then(|opened| opened.deployed_vm.as_ref()) {
            session.reporter.warn(format!(
                "VM '{vm}' of this manifest is deployed: the VMs of the check must not have its address \
                 (set another one with --networks)"
            ));
        }
        let stage = session.reporter.stage("Checking the CPI");
        let environment = &prepared.run_context.run;
        let directory = reference::CPI_CHECK.path()?;
        let notes = LeftoverLogLocation { directory: &directory, cpi: &prepared.identity };
        let context = CheckContext {
            stage: &stage,
            // A replay creates no resources.
            notes: Some(notes).filter(|_| matches!(prepared.cpi.source, AnswerSource::Program(_))),
            interrupted: &|| environment.interrupted(),
            interrupted_twice: &|| environment.interrupted_twice(),
        };
        let report = conformance::check(&prepared.cpi, &settings, &context)?;
        match report.passed() {
            true => stage.finish(),
            false => drop(stage),
        }
        if let Some(path) = &junit_file {
            write_atomically(path, junit(&report).as_bytes())
                .map_err(|error| Error::io(format!("writing '{}'", path.display()), error))?;
        }
        let recorded = prepared.is_recording_complete(session);
        let exit_code = match report.interrupted {
            Some(signal) => 128 + signal,
            None => u8::from(!report.passed() || !recorded),
        };
        match session.globals.json() {
            true => CommandResult::json(&report).map(|finished| finished.with_exit_code(exit_code)),
            false => Ok(CommandResult::Verdict(
                report_text(&report, &session.report_layout()).into_bytes(),
                exit_code,
            )),
        }
    }

    /// Returns the settings. Flags override the manifest. A replay takes all settings from the transcript.
    fn settings(
        &self,
        session: &Session,
        prepared: &PreparedCpi,
        stemcell: Option<&Path>,
    ) -> Result<CheckSettings> {
        if let Some(recorded) = prepared.cpi.source.recorded_settings() {
            return serde_json::from_value(recorded).map_err(|error| {
                Error::invalid(format!("reading the settings in '{}' failed", prepared.name))
                    .with_source(error)
            });
        }
        if let AnswerSource::Transcript(_) = prepared.cpi.source {
            return Err(Error::invalid(format!("'{}' is not a transcript of a `cpi check`", prepared.name))
                .with_hint("monopile cpi check --record FILE writes one"));
        }
        let vm_and_disk = prepared.opened.as_ref().and_then(|opened| opened.vm_and_disk.as_ref());
        let stemcell = match (vm_and_disk, stemcell) {
            (Some(vm_and_disk), _) => Some(vm_and_disk.stemcell.clone()),
            (None, Some(path)) => {
                let stage = session.reporter.stage("Preparing the stemcell");
                let opened = cpis::open_stemcell(&prepared.run_context.run, path, &stage)?;
                stage.finish();
                Some(opened)
            }
            (None, None) => None,
        };
        let vm = vm_and_disk.map(|vm_and_disk| &vm_and_disk.deployment.vm);
        let disk = vm_and_disk.and_then(|vm_and_disk| vm_and_disk.deployment.disk.as_ref());
        if let Some(resources) = vm.and_then(|vm| vm.resources.as_ref())
            && self.cloud_properties.is_none()
        {
            let problem = format!("{} leaves the cloud properties of the VM to the CPI", resources.location);
            return Err(
                Error::invalid(problem).with_hint("pass those of the VM to check: --cloud-properties JSON")
            );
        }
        let given = |flag: &str, text: &Option<String>, otherwise: Option<&Map<String, Value>>| match text {
            Some(text) => hash(flag, text),
            None => Ok(otherwise.cloned().unwrap_or_default()),
        };
        let dynamic = json!({"type": "dynamic", "default": ["dns", "gateway"], "cloud_properties": {}});
        let dynamic = Map::from_iter([("default".to_owned(), dynamic)]);
        let networks = vm.map_or(&dynamic, |vm| &vm.networks);
        Ok(CheckSettings {
            name: prepared.name.clone(),
            highest_api_version: prepared.highest_api_version,
            contract: self.contract,
            stemcell: stemcell.map(|stemcell| StemcellImage {
                image: stemcell.image,
                cloud_properties: stemcell.cloud_properties,
                api_version: stemcell.api_version,
            }),
            vm_cloud_properties: given(
                "--cloud-properties",
                &self.cloud_properties,
                vm.map(|vm| &vm.cloud_properties),
            )?,
            networks: given("--networks", &self.networks, Some(networks))?,
            env: given("--env", &self.env, vm.map(|vm| &vm.env))?,
            disk_size: self.disk_size.or(disk.map(|disk| disk.size)).unwrap_or(1024),
            disk_cloud_properties: given(
                "--disk-cloud-properties",
                &self.disk_cloud_properties,
                disk.map(|disk| &disk.cloud_properties),
            )?,
            at_once: usize::from(session.globals.parallel),
            skip: self.skip.clone(),
        })
    }
}

/// The maximum number of checks in a report that does not repeat its failures below the table.
const SCREEN: usize = 20;

fn report_text(report: &Report, layout: &Layout) -> String {
    let mut checks = Table::new(["Group", "Check", "Result", "Time", "Reason"]);
    for check in &report.checks {
        checks.row([
            check.group.clone(),
            check.name.clone(),
            check.verdict(),
            format!("{} ms", check.duration.as_millis()),
            check.reasons.join("\n"),
        ]);
    }
    let mut timings = Table::new(["Method", "Calls", "Shortest", "Median", "Longest"]);
    for timing in &report.timings {
        let milliseconds = |duration: std::time::Duration| format!("{:.1} ms", duration.as_secs_f64() * 1e3);
        timings.row([
            timing.method.clone(),
            timing.calls.to_string(),
            milliseconds(timing.min),
            milliseconds(timing.median),
            milliseconds(timing.max),
        ]);
    }
    let mut text = format!("{}\n{}\n", checks.print(layout), timings.print(layout));
    let failed: Vec<_> = report.checks.iter().filter(|check| check.result == Verdict::Fail).collect();
    if !failed.is_empty() && report.checks.len() > SCREEN {
        text += "Failed:\n";
        for check in failed {
            let deviation = check.deviation.map_or("", Deviation::name);
            let reasons = check.reasons.join("; ");
            text += &format!("- {}: {} ({deviation}): {reasons}\n", check.group, check.name);
        }
        text.push('\n');
    }
    if !report.left_behind.is_empty() {
        let mut left = Table::new(["Left behind", "CID", "Why"]);
        for left_behind in &report.left_behind {
            left.row([
                left_behind.kind.clone(),
                left_behind.cid.clone().unwrap_or_default(),
                left_behind.why.clone(),
            ]);
        }
        text += &format!("{}\n", left.print(layout));
    }
    text + &report.summary() + "\n"
}
