//! What the run has made. It is written down before anything else is looked at, whatever else is wrong with the
//! answer, and goes from the list only when it is certainly gone.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::diary::{Diary, Earlier};
use super::report::Left;
use base::Result;
use engine::cpi::Method;

/// A kind of thing that a CPI makes, in the order in which they are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResourceKind {
    Snapshot,
    Vm,
    Disk,
    Stemcell,
}

impl ResourceKind {
    /// What this method makes.
    pub(super) fn made_by(method: Method) -> Option<ResourceKind> {
        match method {
            Method::CreateStemcell => Some(ResourceKind::Stemcell),
            Method::CreateVm => Some(ResourceKind::Vm),
            // The disk may have become another one.
            Method::CreateDisk | Method::UpdateDisk => Some(ResourceKind::Disk),
            Method::SnapshotDisk => Some(ResourceKind::Snapshot),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            ResourceKind::Snapshot => "snapshot",
            ResourceKind::Vm => "vm",
            ResourceKind::Disk => "disk",
            ResourceKind::Stemcell => "stemcell",
        }
    }

    pub(super) fn delete(self) -> Method {
        match self {
            ResourceKind::Snapshot => Method::DeleteSnapshot,
            ResourceKind::Vm => Method::DeleteVm,
            ResourceKind::Disk => Method::DeleteDisk,
            ResourceKind::Stemcell => Method::DeleteStemcell,
        }
    }

    /// What tells whether it is there.
    pub(super) fn has(self) -> Option<Method> {
        match self {
            ResourceKind::Vm => Some(Method::HasVm),
            ResourceKind::Disk => Some(Method::HasDisk),
            ResourceKind::Snapshot | ResourceKind::Stemcell => None,
        }
    }

    /// The error type that says it is not there, where there is one.
    pub(super) fn not_found(self) -> Option<&'static str> {
        match self {
            ResourceKind::Vm => Some("VMNotFound"),
            ResourceKind::Disk => Some("DiskNotFound"),
            ResourceKind::Stemcell => Some("StemcellNotFound"),
            ResourceKind::Snapshot => None,
        }
    }
}

/// A thing that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Thing {
    pub(super) kind: ResourceKind,
    pub(super) cid: String,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    things: Vec<Thing>,
    /// Calls that may have made something and did not say what.
    doubtful: Vec<Left>,
    deleted: usize,
    /// The same on disk, where there is something that a later run could delete.
    diary: Option<Diary>,
}

impl Ledger {
    /// A ledger that outlives the run; with it comes what an earlier run left, which is in it already.
    pub(super) fn on_disk(directory: &Path, cpi: &str) -> Result<(Self, Earlier)> {
        let (diary, earlier) = Diary::begin(directory, cpi)?;
        let ledger = Ledger { things: earlier.things.clone(), diary: Some(diary), ..Ledger::default() };
        Ok((ledger, earlier))
    }

    /// Something is about to be made.
    pub(super) fn asked(&mut self, method: Method, request_id: &str) -> Result<()> {
        self.diary.as_mut().map_or(Ok(()), |diary| diary.asked(method.name(), request_id))
    }

    /// The call is over, and what it made is written down.
    pub(super) fn answered(&mut self, request_id: &str) {
        self.note(|diary| diary.answered(request_id));
    }

    /// The run is over. What is left stays on disk.
    pub(super) fn end(&mut self) {
        if let Some(diary) = self.diary.take() {
            diary.end(!self.things.is_empty());
        }
    }

    /// Without these notes a later run knows less; this one goes on.
    fn note(&mut self, write: impl FnOnce(&mut Diary) -> Result<()>) {
        if let Some(diary) = &mut self.diary
            && let Err(error) = write(diary)
        {
            tracing::warn!(error = %error.chain().join(": "), "what was made could not be noted");
        }
    }

    /// Something was made, as far as can be told from a result of whatever shape.
    pub(super) fn made(&mut self, kind: ResourceKind, result: &Value) -> Option<Thing> {
        let thing = Thing { kind, cid: any_cid(result)? };
        if !self.things.contains(&thing) {
            self.things.push(thing.clone());
            self.note(|diary| diary.made(&thing));
        }
        Some(thing)
    }

    /// Whether it may still be there.
    pub(super) fn has(&self, thing: &Thing) -> bool {
        self.things.contains(thing)
    }

    pub(super) fn gone(&mut self, thing: &Thing) {
        let before = self.things.len();
        self.things.retain(|known| known != thing);
        if self.things.len() < before {
            self.deleted += 1;
            self.note(|diary| diary.gone(thing));
        }
    }

    pub(super) fn doubt(&mut self, kind: ResourceKind, why: String) {
        self.doubtful.push(Left { kind: kind.name().to_owned(), cid: None, why });
    }

    /// What is there, in the order in which it must be deleted: the last made first, and nothing before what uses it.
    pub(super) fn to_delete(&self) -> Vec<Thing> {
        let mut things: Vec<Thing> = self.things.iter().rev().cloned().collect();
        things.sort_by_key(|thing| thing.kind);
        things
    }

    pub(super) fn deleted(&self) -> usize {
        self.deleted
    }

    pub(super) fn doubtful(&self) -> &[Left] {
        &self.doubtful
    }
}

/// The CID in a result that may have the wrong shape.
fn any_cid(result: &Value) -> Option<String> {
    match result {
        Value::String(cid) => Some(cid.clone()).filter(|cid| !cid.trim().is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(values) => values.first().filter(|first| !first.is_array()).and_then(any_cid),
        Value::Object(hash) => {
            ["cid", "id", "vm_cid", "disk_cid"].iter().find_map(|key| match hash.get(*key)? {
                Value::Object(_) => None,
                value => any_cid(value),
            })
        }
        Value::Null | Value::Bool(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_cid_is_found_in_any_shape() {
        for (result, cid) in [
            (json!("a"), Some("a")),
            (json!(["a", {}]), Some("a")),
            (json!(17), Some("17")),
            (json!({"cid": "a"}), Some("a")),
            (json!(""), None),
            (json!(null), None),
            (json!([[["a"]]]), None),
            (json!([]), None),
        ] {
            assert_eq!(any_cid(&result).as_deref(), cid, "{result}");
        }
    }

    #[test]
    fn what_uses_something_goes_before_it() {
        let mut ledger = Ledger::default();
        for (kind, cid) in [
            (ResourceKind::Stemcell, "s"),
            (ResourceKind::Disk, "d1"),
            (ResourceKind::Vm, "v"),
            (ResourceKind::Disk, "d2"),
            (ResourceKind::Snapshot, "n"),
            (ResourceKind::Disk, "d2"),
        ] {
            ledger.made(kind, &json!(cid));
        }
        let order: Vec<String> = ledger.to_delete().into_iter().map(|thing| thing.cid).collect();
        assert_eq!(order, ["n", "v", "d2", "d1", "s"]);
        ledger.gone(&Thing { kind: ResourceKind::Vm, cid: "v".to_owned() });
        ledger.gone(&Thing { kind: ResourceKind::Vm, cid: "v".to_owned() });
        assert_eq!((ledger.deleted(), ledger.to_delete().len()), (1, 4));
    }
}
