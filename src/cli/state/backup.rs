//! `monopile state backup`: lists, keeps and restores versions of a state.

use clap::Args;
use serde::Serialize;
use time::OffsetDateTime;

use super::ConsentArgs;
use crate::cli::StateSelectionArgs;
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use crate::cli::table::{Layout, Table};
use base::{Result, encoding};
use engine::protocol::{Cid, DiskCid, StemcellCid, VmCid};
use engine::record_commands;
use engine::state::{self, Version};

/// List, keep or restore versions of a state
///
/// Each run that changes the state keeps the version before it; the last 10 are kept. A state file also has
/// the version `bak`, from before the last write. Without --keep and --restore, lists the versions.
///
/// --restore replaces the current state, and keeps it as a version: restore that one to undo. It lists the
/// VMs and disks that the restored version does not know, which no command then finds or deletes, and asks;
/// without a terminal it needs --yes. Nothing changes in the IaaS: compare with `monopile cloud-check
/// --report`.
#[derive(Debug, Clone, Args)]
pub(super) struct BackupArgs {
    #[command(flatten)]
    selection: StateSelectionArgs,

    /// Keep the current state as a version
    #[arg(long, conflicts_with = "restore")]
    keep: bool,

    /// Replace the state by this version; the current state is kept as a version
    #[arg(long, value_name = "VERSION")]
    restore: Option<String>,

    #[command(flatten)]
    consent: ConsentArgs,
}

/// The line below the list of versions.
const RESTORE_NOTE: &str = "\nTo restore one: `monopile state backup MANIFEST --restore VERSION`\n";

impl BackupArgs {
    pub(super) fn lists(&self) -> bool {
        !self.keep && self.restore.is_none()
    }

    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        if self.lists() {
            let versions = state::read_versions(&session.storage(&self.selection.path()?)?.resolve_links()?)?;
            let rows: Vec<ListedVersion> = versions.into_iter().map(ListedVersion::from).collect();
            return match session.globals.prints_json() {
                true => CommandResult::json(&rows),
                false => {
                    let mut text = versions_table(&rows, &session.layout());
                    if !rows.is_empty() && !session.layout().is_for_programs() {
                        text.push_str(&session.complete_commands(RESTORE_NOTE));
                    }
                    Ok(CommandResult::Output(text.into_bytes()))
                }
            };
        }
        let prepared_run = self.selection.prepare_run(session, "state backup")?;
        let summary = match &self.restore {
            Some(version) => record_commands::restore(&prepared_run.run, version, &mut |request| {
                self.consent.confirm(session, request)
            }),
            None => record_commands::keep_version(&prepared_run.run),
        };
        summary.map(CommandResult::Summary)
    }
}

/// A row of the list of kept versions. With `problem`, the version cannot be read.
#[derive(Serialize)]
struct ListedVersion {
    version: String,
    path: String,
    written_at: String,
    vm: Option<VmCid>,
    disks: Vec<DiskCid>,
    stemcells: Vec<StemcellCid>,
    #[serde(rename = "deployed")]
    is_deployed: bool,
    problem: Option<String>,
}

impl From<Version> for ListedVersion {
    fn from(version: Version) -> Self {
        let problem = version.state.as_ref().err().map(|error| error.chain().join(": "));
        let state = version.state.unwrap_or_default();
        ListedVersion {
            version: version.name,
            path: version.path_or_url,
            written_at: encoding::rfc3339(OffsetDateTime::from(version.written_at)),
            vm: state.vm_cid().cloned(),
            disks: state.disks.iter().map(|disk| disk.cid.clone()).collect(),
            stemcells: state.stemcells.iter().map(|stemcell| stemcell.cid.clone()).collect(),
            is_deployed: !state.current_deploy_digest.is_empty(),
            problem,
        }
    }
}

fn versions_table(versions: &[ListedVersion], layout: &Layout) -> String {
    if versions.is_empty() {
        return "No earlier version of the state is kept.\n".to_owned();
    }
    let mut table = Table::new(["Version", "Written", "VM", "Disks", "Stemcells", "Deployed"]);
    for version in versions {
        let status = match (&version.problem, version.is_deployed) {
            (Some(problem), _) => format!("unusable: {problem}"),
            (None, true) => "yes".to_owned(),
            (None, false) => "no".to_owned(),
        };
        table.add_row([
            version.version.clone(),
            version.written_at.clone(),
            version.vm.as_ref().map(VmCid::to_string).unwrap_or_default(),
            lines(&version.disks),
            lines(&version.stemcells),
            status,
        ]);
    }
    table.format(layout)
}

fn lines<K>(cids: &[Cid<K>]) -> String {
    cids.iter().map(Cid::as_str).collect::<Vec<_>>().join("\n")
}
