//! `monopile state show`.

use clap::Args;

use super::PlaceArgs;
use crate::Result;
use crate::apply::records::{self, Overview};
use crate::cli::finish::Finished;
use crate::cli::session::Session;
use crate::cli::table::Table;
use crate::state::Kind;

/// Show what is on record: VM, disks, stemcells, releases, calls that are open
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

impl ShowArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let overview = records::show(&self.place.path()?)?;
        match session.globals.json {
            true => Finished::json(&overview),
            false => Ok(Finished::Output(shown(&overview).into_bytes())),
        }
    }
}

fn shown(overview: &Overview) -> String {
    let used = |in_use: bool| if in_use { "yes" } else { "no" }.to_owned();
    let mark = |kind: Kind, cid: &str| {
        let mark = overview.undeleted.iter().find(|one| one.what == kind && one.cid == cid);
        mark.map(|mark| format!("\nto be deleted since {}: {}", mark.since, mark.said)).unwrap_or_default()
    };
    let mut table = Table::new(["What", "CID", "In use", "Details"]);
    if let Some(vm) = &overview.vm {
        let mut details: Vec<String> =
            vm.instance.iter().map(|instance| format!("instance {instance}")).collect();
        details.extend(vm.agent_id.iter().map(|id| format!("agent {id}")));
        details.extend(vm.contract.iter().map(|contract| format!("contract {contract}")));
        table.row(["VM".to_owned(), vm.cid.clone(), used(true), details.join(", ")]);
    }
    for earlier in overview.undeleted.iter().filter(|one| one.what == Kind::Vm) {
        let details = mark(Kind::Vm, &earlier.cid);
        table.row(["VM".to_owned(), earlier.cid.clone(), used(false), details.trim_start().to_owned()]);
    }
    for disk in &overview.disks {
        let hint = disk.hint.as_ref().map(|hint| format!(", hint {hint}")).unwrap_or_default();
        let details = format!("{} MiB{hint}{}", disk.size, mark(Kind::Disk, &disk.cid));
        table.row(["disk".to_owned(), disk.cid.clone(), used(disk.in_use), details]);
    }
    for stemcell in &overview.stemcells {
        let details =
            format!("{}/{}{}", stemcell.name, stemcell.version, mark(Kind::Stemcell, &stemcell.cid));
        table.row(["stemcell".to_owned(), stemcell.cid.clone(), used(stemcell.in_use), details]);
    }
    for release in &overview.releases {
        table.row(["release".to_owned(), String::new(), used(true), release.clone()]);
    }
    for suspect in &overview.suspects {
        let details = format!(
            "request {}, {}\nmay have made {} all the same: {}",
            suspect.request_id, suspect.since, suspect.looks_like, suspect.said
        );
        table.row([format!("failed call for a {}", suspect.what), String::new(), String::new(), details]);
    }
    for call in &overview.open_calls {
        let details = format!("request {}\n{}", call.request_id, call.why);
        table.row([format!("open {}", call.method), String::new(), String::new(), details]);
    }
    format!(
        "State     {}\nDirector  {}\nDeployed  {}\n\n{}",
        overview.state,
        overview.director_id,
        if overview.deployed {
            "yes"
        } else {
            "no: the last deploy did not finish, or the jobs were stopped"
        },
        table.print()
    )
}
