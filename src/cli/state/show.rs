//! `monopile state show`: shows the records of a state.

use clap::Args;

use crate::cli::StateSelectionArgs;
use crate::cli::finish::CommandResult;
use crate::cli::resources::ListView;
use crate::cli::session::Session;
use crate::cli::table::{Layout, Table};
use base::Result;
use base::encoding::shorten;
use engine::record_commands::{self, OpenCallStatus, ShownCall, StateOverview};
use engine::state::{DiskHandle, Resource, StemcellHandle, SuspectGroup};

/// The maximum length of a CPI's message on a terminal, in bytes.
const MAX_ANSWER_BYTES: usize = 200;

/// Show the recorded VM, disks, stemcells, releases and open calls
///
/// Reads only the state, and asks neither CPI nor agent: `monopile cloud-check --report` does. Works while
/// another run holds the state.
///
/// `monopile disks`, `monopile snapshots` and `monopile stemcells` are short for --only.
#[derive(Debug, Clone, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    selection: StateSelectionArgs,

    /// List only records of this kind, with more columns
    #[arg(id = "only", long = "only", value_enum, value_name = "KIND")]
    view: Option<ListView>,
}

impl ShowArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let storage = session.storage(&self.selection.path()?)?;
        if let Some(view) = self.view {
            return view.show(session, &storage);
        }
        let overview = record_commands::show(&storage)?;
        match session.globals.prints_json() {
            true => CommandResult::json(&overview),
            false => Ok(CommandResult::Output(overview_text(&overview, &session.layout()).into_bytes())),
        }
    }
}

/// Describes an open call.
pub(in crate::cli) fn open_call(call: &ShownCall) -> String {
    let holder_suffix =
        call.holder.as_ref().map(|holder| format!(", started by {holder}")).unwrap_or_default();
    let pids: Vec<String> = call.processes.iter().map(u32::to_string).collect();
    let status = match (call.status, pids.as_slice()) {
        (OpenCallStatus::Settles, _) => "the next run records its outcome".to_owned(),
        (OpenCallStatus::Unknown, _) => "its outcome is unknown".to_owned(),
        (OpenCallStatus::Running, []) => "its CPI process is still running".to_owned(),
        (OpenCallStatus::Running, pids) => {
            format!("its CPI process is still running (pid {})", pids.join(", "))
        }
    };
    format!("`{}` of {}{holder_suffix}: {status}", call.method, call.target)
}

/// Returns the tables of `state show`: resources with their use and marks for deletion, suspects, and calls
/// without an answer.
fn overview_text(overview: &StateOverview, layout: &Layout) -> String {
    let yes_or_no = |in_use: bool| if in_use { "yes" } else { "no" }.to_owned();
    let mark = |resource: &Resource| {
        let mark = overview.undeleted.iter().find(|undeleted| undeleted.resource == *resource);
        mark.map(|mark| format!("\nto be deleted since {}: {}", mark.first_attempt_at, mark.reason))
            .unwrap_or_default()
    };
    let cpi_suffix = |cpi: Option<&str>| cpi.map(|cpi| format!(", CPI {cpi}")).unwrap_or_default();
    let mut table = Table::new(["Kind", "CID", "In use", "Details"]).with_details("Details");
    if let Some(vm) = &overview.vm {
        let mut details: Vec<String> =
            vm.instance.iter().map(|instance| format!("instance {instance}")).collect();
        details.extend(vm.agent_id.iter().map(|id| format!("agent ID {id}")));
        details.extend(vm.contract.iter().map(|contract| format!("contract {contract}")));
        details.extend(vm.cpi.iter().map(|cpi| format!("CPI {cpi}")));
        table.add_row(["VM".to_owned(), vm.cid.to_string(), yes_or_no(true), details.join(", ")]);
    }
    let earlier_resources = overview.undeleted.iter().map(|undeleted| &undeleted.resource);
    for vm in earlier_resources.filter(|resource| matches!(resource, Resource::Vm(_))) {
        let details = format!("{}{}", cpi_suffix(vm.cpi()), mark(vm));
        let details = details.trim_start_matches([',', ' ', '\n']).to_owned();
        table.add_row(["VM".to_owned(), vm.cid().to_owned(), yes_or_no(false), details]);
    }
    for disk in &overview.disks {
        let hint = disk.hint.as_ref().map(|hint| format!(", disk hint {hint}")).unwrap_or_default();
        let cpi = disk.cpi.as_deref();
        let deletion_mark = mark(&DiskHandle::new(disk.cid.clone(), cpi).into());
        let details = format!("{} MiB{hint}{}{deletion_mark}", disk.size, cpi_suffix(cpi));
        table.add_row(["disk".to_owned(), disk.cid.to_string(), yes_or_no(disk.in_use), details]);
    }
    for snapshot in &overview.snapshots {
        let cpi = snapshot.cpi.as_deref();
        let deletion_mark = mark(&snapshot.handle().into());
        let details =
            format!("of disk {}, {}{}{deletion_mark}", snapshot.disk, snapshot.created_at, cpi_suffix(cpi));
        table.add_row(["snapshot".to_owned(), snapshot.cid.to_string(), yes_or_no(false), details]);
    }
    for stemcell in &overview.stemcells {
        let cpi = stemcell.cpi.as_deref();
        let deletion_mark = mark(&StemcellHandle::new(stemcell.cid.clone(), cpi).into());
        let details = format!("{}/{}{}{deletion_mark}", stemcell.name, stemcell.version, cpi_suffix(cpi));
        table.add_row(["stemcell".to_owned(), stemcell.cid.to_string(), yes_or_no(stemcell.in_use), details]);
    }
    for release in &overview.releases {
        table.add_row(["release".to_owned(), String::new(), yes_or_no(true), release.clone()]);
    }
    for group in SuspectGroup::all(&overview.suspects) {
        let limit = if layout.is_for_programs() { usize::MAX } else { MAX_ANSWER_BYTES };
        let answers = group.cpi_answers();
        let answers: Vec<_> = answers.iter().map(|answer| shorten(answer, limit)).collect();
        let details = format!(
            "{}: {}\nmay have created {}",
            group.last_request(),
            answers.join("; "),
            group.describe_in_iaas()
        );
        let title = match group.suspects() {
            [suspect] => format!("failed call for a {}", suspect.kind),
            suspects => format!("{} failed calls for a {}", suspects.len(), suspects[0].kind),
        };
        table.add_row([title, String::new(), String::new(), details]);
    }
    for call in &overview.open_calls {
        let details = format!("{}\nrequest {}", open_call(call), call.request_id);
        table.add_row(["open call".to_owned(), String::new(), String::new(), details]);
    }
    let deploy_status = match (overview.is_deployed, overview.undeployed_reason) {
        (true, _) => "yes".to_owned(),
        (false, Some(reason)) => format!("no: {reason}"),
        (false, None) => "no: there is no VM".to_owned(),
    };
    let labelled_values = [
        ("State", overview.state.clone()),
        ("Director", overview.director_id.clone()),
        ("Deployed", deploy_status),
    ];
    format!("{}\n{}", layout.labelled_values(&labelled_values), table.format(layout))
}
