//! `monopile state forget`: forgets a record.

use clap::{Args, ValueHint};

use super::ConsentArgs;
use crate::cli::StateSelectionArgs;
use crate::cli::cid::cid;
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use base::{Error, Result};
use engine::protocol::{
    AnyCid, DiskCid, DiskKind, RequestId, SnapshotCid, SnapshotKind, StemcellCid, StemcellKind, VmCid, VmKind,
};
use engine::record_commands::{self, ConsentRequest, ForgettableRecord};

/// The heading of the records to forget.
const RECORD_HEADING: &str = "Record (exactly one)";

/// Forget a record; nothing is deleted in the IaaS
///
/// Use it for a resource that no longer exists, or that another tool will manage. After this, no command
/// finds or deletes the resource. A new VM gets an empty disk in place of a forgotten one.
///
/// Asks first; without a terminal, or with -n, needs --yes. To undo it, restore the version before with
/// `monopile state backup --restore`. Only a forgotten open call cannot be restored.
#[derive(Debug, Clone, Args)]
#[command(override_usage = "monopile state forget [OPTIONS] [MANIFEST]\n           \
          (--vm <CID> | --disk <CID> | --stemcell <CID> | --snapshot <CID> |\n            \
          --call <REQUEST-ID> | --failed-calls)")]
pub(super) struct ForgetArgs {
    #[command(flatten)]
    selection: StateSelectionArgs,

    #[command(flatten)]
    record: RecordArgs,

    /// Use the record of this CPI, if several have the same CID
    #[arg(
        long,
        value_name = "NAME",
        value_hint = ValueHint::Other,
        conflicts_with_all = ["call", "failed_calls"]
    )]
    cpi: Option<String>,

    #[command(flatten)]
    consent: ConsentArgs,
}

#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
struct RecordArgs {
    /// Forget the VM
    #[arg(long, help_heading = RECORD_HEADING, value_name = "CID", value_parser = cid::<VmKind>(),
          value_hint = ValueHint::Other)]
    vm: Option<VmCid>,

    /// Forget a disk
    #[arg(long, help_heading = RECORD_HEADING, value_name = "CID", value_parser = cid::<DiskKind>(),
          value_hint = ValueHint::Other)]
    disk: Option<DiskCid>,

    /// Forget a stemcell
    #[arg(long, help_heading = RECORD_HEADING, value_name = "CID", value_parser = cid::<StemcellKind>(),
          value_hint = ValueHint::Other)]
    stemcell: Option<StemcellCid>,

    /// Forget a snapshot
    #[arg(long, help_heading = RECORD_HEADING, value_name = "CID", value_parser = cid::<SnapshotKind>(),
          value_hint = ValueHint::Other)]
    snapshot: Option<SnapshotCid>,

    /// Forget an open call, or a failed one that may have created something
    #[arg(long, help_heading = RECORD_HEADING, value_name = "REQUEST-ID", value_hint = ValueHint::Other)]
    call: Option<RequestId>,

    /// Forget all failed calls that may have created something
    #[arg(long, help_heading = RECORD_HEADING)]
    failed_calls: bool,
}

impl RecordArgs {
    fn into_forgettable(self, cpi: Option<String>) -> Result<ForgettableRecord> {
        let cid = self
            .vm
            .map(AnyCid::Vm)
            .or(self.disk.map(AnyCid::Disk))
            .or(self.stemcell.map(AnyCid::Stemcell))
            .or(self.snapshot.map(AnyCid::Snapshot));
        match (cid, self.call) {
            (Some(cid), _) => Ok(ForgettableRecord::Resource(cid, cpi)),
            (None, Some(call)) => Ok(ForgettableRecord::Call(call)),
            (None, None) if self.failed_calls => Ok(ForgettableRecord::FailedCalls),
            // clap ensures that exactly one is given.
            (None, None) => Err(Error::usage("no record to forget is named")),
        }
    }
}

impl ForgetArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let prepared_run = self.selection.prepare_run(session, "state forget")?;
        let record = self.record.into_forgettable(self.cpi)?;
        let agree = &mut |request: &ConsentRequest| self.consent.confirm(session, request);
        record_commands::forget(&prepared_run.run, &record, agree).map(CommandResult::Summary)
    }
}
