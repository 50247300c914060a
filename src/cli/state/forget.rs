//! `monopile state forget`.

use clap::{Args, ValueHint};

use super::AgreeArgs;
use crate::cli::PlaceArgs;
use crate::cli::cid::cid;
use crate::cli::finish::Finished;
use crate::cli::session::Session;
use base::{Error, Result};
use engine::protocol::{
    AnyCid, DiskCid, DiskKind, RequestId, SnapshotCid, SnapshotKind, StemcellCid, StemcellKind, VmCid, VmKind,
};
use engine::records::{self, Forgettable};

/// Drop a record on purpose: nothing will look after what it describes
#[derive(Debug, Clone, Args)]
pub(super) struct ForgetArgs {
    #[command(flatten)]
    place: PlaceArgs,

    #[command(flatten)]
    what: WhatArgs,

    /// Of this CPI, where several have the same CID
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other, conflicts_with = "call")]
    cpi: Option<String>,

    #[command(flatten)]
    agree: AgreeArgs,
}

#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
struct WhatArgs {
    /// The VM
    #[arg(long, value_name = "CID", value_parser = cid::<VmKind>(), value_hint = ValueHint::Other)]
    vm: Option<VmCid>,

    /// A disk
    #[arg(long, value_name = "CID", value_parser = cid::<DiskKind>(), value_hint = ValueHint::Other)]
    disk: Option<DiskCid>,

    /// A stemcell
    #[arg(long, value_name = "CID", value_parser = cid::<StemcellKind>(), value_hint = ValueHint::Other)]
    stemcell: Option<StemcellCid>,

    /// A snapshot
    #[arg(long, value_name = "CID", value_parser = cid::<SnapshotKind>(), value_hint = ValueHint::Other)]
    snapshot: Option<SnapshotCid>,

    /// An open call of an interrupted run, or one that failed and may have made something all the same
    #[arg(long, value_name = "REQUEST-ID", value_hint = ValueHint::Other)]
    call: Option<RequestId>,
}

impl WhatArgs {
    fn forgettable(self, cpi: Option<String>) -> Result<Forgettable> {
        let cid = self
            .vm
            .map(AnyCid::Vm)
            .or(self.disk.map(AnyCid::Disk))
            .or(self.stemcell.map(AnyCid::Stemcell))
            .or(self.snapshot.map(AnyCid::Snapshot));
        match (cid, self.call) {
            (Some(cid), _) => Ok(Forgettable::Resource(cid, cpi)),
            (None, Some(call)) => Ok(Forgettable::Call(call)),
            // clap has made sure that there is exactly one.
            (None, None) => Err(Error::usage("nothing to forget is named")),
        }
    }
}

impl ForgetArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let surroundings = self.place.surroundings(session, "state-forget")?;
        let what = self.what.forgettable(self.cpi)?;
        let agree = &mut |question: &str| self.agree.agree(session, question);
        records::forget(&surroundings.environment, &what, agree).map(Finished::Summary)
    }
}
