//! `bosh-deployments.yml`, the state of the tools before `bosh create-env`. Like the bosh CLI, a run without
//! a state converts the file beside the manifest.
//!
//! Format: `instances` has one entry with `vm_cid`, `disk_cid`, `stemcell_cid` and `stemcell_name`. In files
//! that Ruby wrote, the keys of the entry begin with a colon.

use std::path::{Path, PathBuf};

use serde_json::Map;
use sha2::{Digest as _, Sha256};

use crate::protocol::EmptyCid;
use crate::run_context::RunContext;
use crate::state::{Change, DiskRecord, State, StemcellRecord, Store};
use base::{Error, Result};
use manifest::Inputs;
use yaml::Node;

const FILE_NAME: &str = "bosh-deployments.yml";
/// The name of the converted file, so that a later run without a state does not read it again.
const MIGRATED_NAME: &str = "bosh-deployments.yml.migrated";

/// Reads the file beside this manifest as a state. Returns its path and the state, or `None` if no such file
/// records any resource.
pub(crate) fn read(manifest: &Path) -> Result<Option<(PathBuf, State)>> {
    let path = manifest.with_file_name(FILE_NAME);
    if !path.is_file() {
        return Ok(None);
    }
    let text = manifest::read_text(&path, "the old state")?;
    let root = yaml::load(&text, &path)?;
    let state = parse_state(&root, &text).map_err(|problem| {
        Error::invalid(format!("the old state '{}' cannot be converted", path.display()))
            .with_source(problem)
            .with_hint(
                "create a state from the CIDs in it: `monopile state import MANIFEST --vm CID --disk CID \
                 --stemcell CID=NAME/VERSION`",
            )
    })?;
    Ok(state.map(|state| (path, state)))
}

/// Converts the file beside the manifest if there is no state yet, and renames the file.
pub(crate) fn take_over(run: &RunContext, inputs: &Inputs, store: &mut Store) -> Result<()> {
    if store.has_state() {
        return Ok(());
    }
    let Some((path, state)) = read(&inputs.manifest)? else { return Ok(()) };
    store.commit(Change::Replaced(Box::new(state)))?;
    let migrated_path = path.with_file_name(MIGRATED_NAME);
    std::fs::rename(&path, &migrated_path).map_err(|error| {
        Error::io(format!("renaming '{}' to '{}'", path.display(), migrated_path.display()), error)
    })?;
    run.reporter
        .note(format!("converted the old state '{}', and renamed it to '{MIGRATED_NAME}'", path.display()));
    Ok(())
}

/// Converts the text of `bosh-deployments.yml`. Returns `None` if it records no resource. All ids are digests
/// of the text, so that a plan and the run that carries it out see the same state.
fn parse_state(root: &Node, text: &str) -> Result<Option<State>, String> {
    let instances = match root.get("instances").or_else(|| root.get(":instances")) {
        Some(instances) if !instances.is_null() => {
            instances.as_seq().ok_or("`instances` is not a list".to_owned())?
        }
        _ => return Ok(None),
    };
    let instance = match instances {
        [] => return Ok(None),
        [instance] => instance,
        instances => {
            return Err(format!("it has {} instances, but an environment has only one", instances.len()));
        }
    };
    let text_of = |key: &str| {
        let value = instance.get(key).or_else(|| instance.get(&format!(":{key}")));
        match value.filter(|value| !value.is_null()) {
            None => Ok(None),
            Some(value) => match value.as_str() {
                Some(text) => Ok(Some(text.to_owned()).filter(|text| !text.trim().is_empty())),
                None => Err(format!("`{key}` is not a string ({})", value.position.describe())),
            },
        }
    };
    let empty_cid_error = |error: EmptyCid| error.to_string();
    let vm = text_of("vm_cid")?.map(|cid| cid.parse()).transpose().map_err(empty_cid_error)?;
    let disk = text_of("disk_cid")?.map(|cid| cid.parse()).transpose().map_err(empty_cid_error)?;
    let stemcell = text_of("stemcell_cid")?.map(|cid| cid.parse()).transpose().map_err(empty_cid_error)?;
    let name = text_of("stemcell_name")?;
    if vm.is_none() && disk.is_none() && stemcell.is_none() {
        return Ok(None);
    }
    let mut state = State {
        // The ids depend only on the text, so a plan and the run that carries it out see the same state.
        director_id: id(text, "director"),
        installation_id: id(text, "installation"),
        current_vm_cid: vm,
        ..State::default()
    };
    if let Some(cid) = disk {
        state.current_disk_id = id(text, "disk");
        // The size is not on record. With size 0, the data moves to a new disk of the wanted size.
        state.disks.push(DiskRecord {
            id: state.current_disk_id.clone(),
            cid,
            size: 0,
            cloud_properties: Map::new(),
            hint: None,
            cpi: None,
            az: None,
            vm_at_replacement: None,
            unknown_keys: Map::new(),
        });
    }
    if let Some(cid) = stemcell {
        state.stemcells.push(StemcellRecord {
            id: id(text, "stemcell"),
            name: name.unwrap_or_else(|| "unknown-stemcell".to_owned()),
            // The version is not on record. An empty version matches no other stemcell.
            version: String::new(),
            api_version: None,
            cid,
            cpi: None,
            digest: None,
            is_kept: false,
            unknown_keys: Map::new(),
        });
    }
    Ok(Some(state))
}

/// Returns an ID that is the same each time the file is read.
fn id(text: &str, kind: &str) -> String {
    let digest = Sha256::new().chain_update(kind).chain_update(text).finalize();
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(digest).for_each(|(byte, digest_byte)| *byte = digest_byte);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_of(text: &str) -> Result<Option<State>, String> {
        parse_state(&yaml::load(text, Path::new(FILE_NAME)).unwrap(), text)
    }

    #[test]
    fn keys_may_be_ruby_symbols() {
        for colon in ["", ":"] {
            let text = format!(
                "---\ninstances:\n- {colon}id: 1\n  {colon}name: micro\n  {colon}stemcell_cid: ami-1\n  \
                 {colon}stemcell_name: light\n  {colon}vm_cid: i-1\n  {colon}disk_cid: vol-1\ndisks: []\n"
            );
            let state = state_of(&text).unwrap().unwrap();
            assert_eq!(state.current_vm_cid.as_ref().unwrap().as_str(), "i-1");
            let disk = state.current_disk().unwrap();
            assert_eq!((disk.cid.as_str(), disk.size), ("vol-1", 0));
            assert_eq!(
                (state.stemcells[0].cid.as_str(), state.stemcells[0].name.as_str()),
                ("ami-1", "light")
            );
            assert_eq!(state_of(&text).unwrap().unwrap(), state, "the ids differ each time");
            assert!(State::parse(&state.to_bytes().unwrap()).is_ok());
        }
    }

    #[test]
    fn file_without_records_is_ignored() {
        for text in ["{}", "instances: []", "instances: ~", "instances: [{vm_cid: ~, disk_cid: ''}]"] {
            assert_eq!(state_of(text), Ok(None), "{text}");
        }
        assert!(state_of("instances: [{vm_cid: a}, {vm_cid: b}]").unwrap_err().contains("2 instances"));
        assert!(state_of("instances: [{vm_cid: 7}]").unwrap_err().contains("`vm_cid` is not a string"));
    }
}
