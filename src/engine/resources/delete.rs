//! `delete-vm`, `delete-disk`, `delete-stemcell`, `delete-snapshot`.

use super::target::{TargetEnvironment, agree};
use crate::cpis::{self, Alone, Presence};
use crate::effects::{Cloud, Registry, deletion};
use crate::environment::Environment;
use crate::records;
use crate::state::{Change, Handle, Kind, State, Undeleted};
use base::{Error, Result};
use manifest::cpi_label;

/// The deletion of something by hand.
#[derive(Debug, Clone)]
pub struct Delete {
    /// Where.
    pub on: TargetEnvironment,
    /// What.
    pub what: Kind,
    /// Its CID; of stemcells also `NAME/VERSION`.
    pub name: String,
    /// `--cpi`: only what is of this CPI; the empty name is that of the default one.
    pub cpi: Option<String>,
}

const WHY: &str = "an operator asked for it";

/// Deletes it; returns one sentence that says what came of it.
pub fn delete(request: &Delete, environment: &Environment) -> Result<String> {
    let Delete { on, what, name, cpi } = request;
    let opened = on.open(environment, &format!("delete-{}", what.name().to_lowercase()))?;
    let cpi = cpi.as_deref();
    if let Some(cpi) = cpi {
        cpis::named(opened.alone.config.as_ref(), cpi)?;
    }
    let mut cloud = on.cloud(environment, &opened.alone, opened.store)?;
    let unknown_vm = *what == Kind::Vm && !is_on_record(cloud.state(), *what, name, cpi);
    let targets = match what {
        Kind::Vm if unknown_vm => vec![seek(&cloud, environment, name, cpi)?],
        Kind::Stemcell => stemcells(cloud.state(), name, cpi)?,
        _ => vec![records::find(cloud.state(), *what, name, cpi)?],
    };
    for handle in &targets {
        refuse_used(cloud.state(), *what, handle)?;
        agree(environment, &question(cloud.state(), *what, handle))?;
    }
    let registry = match what {
        Kind::Vm => registry(environment, on, &opened.alone, &mut cloud, &targets[0])?,
        _ => None,
    };
    let deleting = environment.reporter.stage("Deleting");
    let mut left = Vec::new();
    for handle in &targets {
        if unknown_vm {
            put_on_record(&mut cloud, handle)?;
        }
        if let Some(error) = deletion::delete(&mut cloud, *what, handle, WHY, &deleting)? {
            return Err(error.with_hint(format!(
                "{what} {handle} stays on record; run the same command again, or drop the record with `monopile state \
                 forget`"
            )));
        }
        let mark = cloud.state().undeleted(*what, handle);
        if unknown_vm && mark.is_some_and(|mark| mark.not_found) {
            // Nothing but this command line says that it ever was.
            cloud.commit(Change::VmDeleted(handle.clone()))?;
            return Err(nobody_knows(name, cpi));
        }
        if cloud.state().records(*what, handle) {
            left.push(handle.to_string());
        }
    }
    drop(registry);
    deleting.finish();
    let named: Vec<String> = targets.iter().map(Handle::to_string).collect();
    Ok(match left.as_slice() {
        [] => format!("Deleted {what} {}", named.join(" and ")),
        left => format!(
            "The CPI does not find {what} {}, and nothing confirms that: it stays on record until the next run hears \
             the same",
            left.join(" and ")
        ),
    })
}

fn is_on_record(state: &State, what: Kind, cid: &str, cpi: Option<&str>) -> bool {
    let meant =
        |handle: &Handle| handle.cid == cid && cpi.is_none_or(|cpi| handle.cpi().unwrap_or_default() == cpi);
    state.resources().any(|(kind, handle)| kind == what && meant(&handle))
}

/// The CPI that knows a VM which is not on record: the one that is named, or the first that does not deny it.
fn seek(cloud: &Cloud<'_>, environment: &Environment, cid: &str, cpi: Option<&str>) -> Result<Handle> {
    if cid.trim().is_empty() {
        return Err(Error::usage("an empty CID names no VM"));
    }
    let all = || std::iter::once(None).chain(cloud.cpis().others(None));
    let asked: Vec<Option<String>> = match cpi {
        Some(name) => vec![Some(name.to_owned()).filter(|name| !name.is_empty())],
        None => all().collect(),
    };
    let mut undecided = None;
    for name in asked {
        let handle = Handle { cid: cid.to_owned(), cpi: name };
        cloud.cpis().get(handle.cpi())?;
        let asking = environment.reporter.stage(format!("Asking for VM {handle}"));
        let presence = cloud.presence(&asking, Kind::Vm, &handle)?;
        match presence {
            Presence::There => {
                asking.finish();
                return Ok(handle);
            }
            Presence::Gone => asking.skip("it does not exist there"),
            Presence::Unknown(reason) => {
                asking.skip(reason);
                undecided = undecided.or(Some(handle));
            }
        }
    }
    undecided.ok_or_else(|| nobody_knows(cid, cpi))
}

fn nobody_knows(cid: &str, cpi: Option<&str>) -> Error {
    let who = match cpi {
        None => "no CPI knows a VM".to_owned(),
        Some(cpi) => format!("{} knows no VM", cpi_label(Some(cpi).filter(|cpi| !cpi.is_empty()))),
    };
    Error::invalid(format!("{who} '{cid}', and none is on record")).with_hint("nothing was changed")
}

/// Until it is gone, a later run deletes it if this one does not get to it.
fn put_on_record(cloud: &mut Cloud<'_>, handle: &Handle) -> Result<()> {
    let Handle { cid, cpi } = handle.clone();
    cloud.commit(Change::VmOrphaned(Undeleted {
        what: Kind::Vm,
        cid,
        cpi,
        said: "an operator asked for its deletion".to_owned(),
        since: base::encoding::now(),
        not_found: false,
    }))
}

/// Contract v1: a CPI may take what is for the VM's agent out of the registry.
fn registry<'a>(
    environment: &'a Environment,
    on: &TargetEnvironment,
    alone: &Alone,
    cloud: &mut Cloud<'_>,
    vm: &Handle,
) -> Result<Option<Registry<'a>>> {
    let contract = cloud.cpis().get(vm.cpi())?.contract();
    Registry::start(environment, &alone.provider, &on.inputs.manifest, contract, cloud)
}

/// The stemcells on record that a CID or `NAME/VERSION` means: of one CID one, of a version those of every CPI.
fn stemcells(state: &State, name: &str, cpi: Option<&str>) -> Result<Vec<Handle>> {
    let of_cpi = |handle: &Handle| cpi.is_none_or(|cpi| handle.cpi().unwrap_or_default() == cpi);
    let mut named: Vec<Handle> = state
        .stemcells
        .iter()
        .filter(|known| format!("{}/{}", known.name, known.version) == name)
        .map(crate::state::Stemcell::handle)
        .filter(of_cpi)
        .collect();
    named.sort();
    named.dedup();
    match named.is_empty() {
        false => Ok(named),
        true => records::find(state, Kind::Stemcell, name, cpi).map(|handle| vec![handle]),
    }
}

/// What the VM needs is not deleted by its name.
fn refuse_used(state: &State, what: Kind, handle: &Handle) -> Result<()> {
    match what {
        Kind::Disk if state.current_disk().is_some_and(|disk| disk.handle() == *handle) => {
            Err(Error::invalid(format!("disk {handle} is the persistent disk of this environment"))
                .with_hint("nothing was changed")
                .with_hint("attach-disk puts another one in its place; delete-env deletes all of them"))
        }
        Kind::Disk if state.disk_left_on_vm().is_some_and(|disk| disk.handle() == *handle) => Err(Error::invalid(
            format!("the VM uses disk {handle} until the next create-env attaches the one that takes its place"),
        )
        .with_hint("nothing was changed; run create-env first")),
        Kind::Stemcell
            if state.vm_handle().is_some()
                && state.current_stemcell().is_some_and(|known| known.handle() == *handle) =>
        {
            Err(Error::invalid(format!("the VM of this environment was made from stemcell {handle}"))
                .with_hint("nothing was changed; a create-env with another stemcell deletes it, and so does delete-env"))
        }
        _ => Ok(()),
    }
}

fn question(state: &State, what: Kind, handle: &Handle) -> String {
    match what {
        Kind::Vm if state.vm_handle().as_ref() == Some(handle) => format!(
            "Delete VM {handle}, which is the VM of this environment? Its jobs are not stopped before (stop-env), and \
             the next create-env makes a new one"
        ),
        Kind::Disk => {
            let size = state.disk(handle).map(|disk| format!(" of {} MiB", disk.size)).unwrap_or_default();
            format!("Delete disk {handle}{size} with all its data?")
        }
        _ => format!("Delete {what} {handle}?"),
    }
}
