//! `monopile state forget`.

use clap::{Args, ValueHint};

use super::AgreeArgs;
use crate::cli::PlaceArgs;
use crate::cli::finish::Finished;
use crate::cli::session::Session;
use base::Result;
use engine::records::{self, Forgettable};
use engine::state::Kind;

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
    #[arg(long, value_name = "CID", value_hint = ValueHint::Other)]
    vm: Option<String>,

    /// A disk
    #[arg(long, value_name = "CID", value_hint = ValueHint::Other)]
    disk: Option<String>,

    /// A stemcell
    #[arg(long, value_name = "CID", value_hint = ValueHint::Other)]
    stemcell: Option<String>,

    /// A snapshot
    #[arg(long, value_name = "CID", value_hint = ValueHint::Other)]
    snapshot: Option<String>,

    /// An open call of an interrupted run, or one that failed and may have made something all the same
    #[arg(long, value_name = "REQUEST-ID", value_hint = ValueHint::Other)]
    call: Option<String>,
}

impl WhatArgs {
    fn forgettable(self, cpi: Option<&str>) -> Forgettable {
        let resource = |kind| move |cid| Forgettable::Resource(kind, cid, cpi.map(str::to_owned));
        let vm = self.vm.map(resource(Kind::Vm));
        let disk = self.disk.map(resource(Kind::Disk));
        let stemcell = self.stemcell.map(resource(Kind::Stemcell));
        let snapshot = self.snapshot.map(resource(Kind::Snapshot));
        // clap saw to it that there is exactly one.
        vm.or(disk)
            .or(stemcell)
            .or(snapshot)
            .unwrap_or_else(|| Forgettable::Call(self.call.unwrap_or_default()))
    }
}

impl ForgetArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let surroundings = self.place.surroundings(session, "state-forget")?;
        let agree = &mut |question: &str| self.agree.agree(session, question);
        records::forget(&surroundings.environment, &self.what.forgettable(self.cpi.as_deref()), agree)
            .map(Finished::Summary)
    }
}
