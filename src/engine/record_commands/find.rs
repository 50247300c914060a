//! Resolves a CID that an operator names to a resource on record.

use crate::protocol::{AnyCid, Cid, CidKind, ResourceKind};
use crate::state::{DiskRecord, Handle, Resource, SnapshotRecord, State, StemcellRecord};
use base::text::comma_list;
use base::{Error, Result};
use manifest::cpi_label;

/// Finds the resource on record with this CID at the CPI `cpi`, where the empty name means the default CPI.
/// Without `cpi`, searches the resources of all CPIs.
pub(crate) fn find<K: CidKind>(
    handles: impl Iterator<Item = Handle<K>>,
    cid: &Cid<K>,
    cpi: Option<&str>,
) -> Result<Handle<K>> {
    let kind = K::KIND;
    let handles: Vec<Handle<K>> = handles.collect();
    let matches: Vec<&Handle<K>> =
        handles.iter().filter(|handle| handle.cid == *cid && handle.is_of(cpi)).collect();
    match matches.as_slice() {
        [one] => Ok((*one).clone()),
        [first, ..] if matches.iter().all(|other| other == first) => Ok((*first).clone()),
        [] => {
            let cids: Vec<&str> = handles.iter().map(|handle| handle.cid.as_str()).collect();
            let cpi_phrase = cpi.map_or_else(String::new, |cpi| {
                format!(" of {}", cpi_label(Some(cpi).filter(|cpi| !cpi.is_empty())))
            });
            let message = match cids.is_empty() {
                true => format!("no {kind} is on record"),
                false => format!("no {kind} '{cid}'{cpi_phrase} is on record"),
            };
            let error = Error::invalid(message).with_nearest(
                cid.as_str(),
                cids.iter().copied().filter(|other| *other != cid.as_str()),
                || (!cids.is_empty()).then(|| format!("on record: {}", comma_list(&cids))),
            );
            Err(match (cids.is_empty(), kind) {
                (true, _) => error,
                (false, ResourceKind::Vm) => error.with_hint("see the VM: `monopile state show MANIFEST`"),
                (false, kind) => error.with_hint(format!("list the {kind}s: `monopile {kind}s MANIFEST`")),
            })
        }
        found_handles => {
            let cpis: Vec<String> = found_handles.iter().map(|handle| cpi_label(handle.cpi())).collect();
            Err(Error::invalid(format!("several CPIs know a {kind} '{cid}': {}", cpis.join(", ")))
                .with_hint("choose one: `monopile SAME-COMMAND --cpi NAME`; --cpi '' is the default CPI"))
        }
    }
}

/// Like [`find`], for a CID of any kind.
pub(crate) fn find_any(state: &State, cid: &AnyCid, cpi: Option<&str>) -> Result<Resource> {
    Ok(match cid {
        AnyCid::Vm(cid) => find(state.vms(), cid, cpi)?.into(),
        AnyCid::Disk(cid) => find(state.disks.iter().map(DiskRecord::handle), cid, cpi)?.into(),
        AnyCid::Stemcell(cid) => find(state.stemcells.iter().map(StemcellRecord::handle), cid, cpi)?.into(),
        AnyCid::Snapshot(cid) => {
            find(state.monopile.snapshots.iter().map(SnapshotRecord::handle), cid, cpi)?.into()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Change;

    #[test]
    fn cid_without_cpi_works_if_unambiguous() {
        let mut state = State::new();
        let mut add = |cid: &str, cpi: Option<&str>| {
            let cpi = cpi.map(str::to_owned);
            let snapshot = SnapshotRecord { cpi, ..SnapshotRecord::example(cid) };
            state.apply(Change::SnapshotCreated(snapshot)).unwrap();
        };
        add("snap-1", Some("a"));
        add("both", Some("a"));
        add("both", None);
        let find =
            |cid: &str, cpi: Option<&str>| find_any(&state, &AnyCid::Snapshot(cid.parse().unwrap()), cpi);
        assert_eq!(find("snap-1", None).unwrap().to_string(), "snapshot 'snap-1' of CPI 'a'");
        assert_eq!(find("both", Some("a")).unwrap().cpi(), Some("a"));
        assert_eq!(find("both", Some("")).unwrap().cpi(), None);
        assert!(find("snap-1", Some("")).unwrap_err().to_string().contains("of the default CPI"));
        let error = find("both", None).unwrap_err();
        assert_eq!(error.to_string(), "several CPIs know a snapshot 'both': CPI 'a', the default CPI");
        assert!(find("snap-1", Some("b")).is_err());
        assert!(find("snap-2", None).unwrap_err().hints()[0].contains("snap-1"));
    }
}
