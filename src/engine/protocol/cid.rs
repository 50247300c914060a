//! Cloud IDs, a type for each kind of resource, so that one kind cannot be passed for another.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::ResourceKind;

/// A cloud ID: the name that a CPI gives to a resource of the kind `K`. Never blank. A string in JSON.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cid<K> {
    text: String,
    kind: PhantomData<K>,
}

/// The CID of a VM.
pub type VmCid = Cid<VmKind>;
/// The CID of a persistent disk.
pub type DiskCid = Cid<DiskKind>;
/// The CID of a stemcell.
pub type StemcellCid = Cid<StemcellKind>;
/// The CID of a snapshot of a disk.
pub type SnapshotCid = Cid<SnapshotKind>;

/// A kind of resource, as a type.
pub trait CidKind: fmt::Debug + Copy + Ord + Hash + Send + Sync + 'static {
    /// The kind as a value.
    const KIND: ResourceKind;
}

/// The kind of VMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VmKind {}
/// The kind of persistent disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskKind {}
/// The kind of stemcells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StemcellKind {}
/// The kind of snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SnapshotKind {}

impl CidKind for VmKind {
    const KIND: ResourceKind = ResourceKind::Vm;
}

impl CidKind for DiskKind {
    const KIND: ResourceKind = ResourceKind::Disk;
}

impl CidKind for StemcellKind {
    const KIND: ResourceKind = ResourceKind::Stemcell;
}

impl CidKind for SnapshotKind {
    const KIND: ResourceKind = ResourceKind::Snapshot;
}

/// The error for a blank CID, which would name no resource or all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the CID of a {0} is empty")]
pub struct EmptyCid(pub ResourceKind);

impl<K> Cid<K> {
    /// Returns the text of the CID as the CPI returned it.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl<K: CidKind> FromStr for Cid<K> {
    type Err = EmptyCid;

    fn from_str(text: &str) -> Result<Self, EmptyCid> {
        match text.trim().is_empty() {
            true => Err(EmptyCid(K::KIND)),
            false => Ok(Cid { text: text.to_owned(), kind: PhantomData }),
        }
    }
}

impl<K> fmt::Display for Cid<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<K> fmt::Debug for Cid<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl<K> Serialize for Cid<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de, K: CidKind> Deserialize<'de> for Cid<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A CID of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnyCid {
    /// The CID of a VM.
    Vm(VmCid),
    /// The CID of a disk.
    Disk(DiskCid),
    /// The CID of a stemcell.
    Stemcell(StemcellCid),
    /// The CID of a snapshot.
    Snapshot(SnapshotCid),
}

impl AnyCid {
    /// Reads the CID of a resource of this kind.
    pub fn parse(kind: ResourceKind, text: &str) -> Result<Self, EmptyCid> {
        Ok(match kind {
            ResourceKind::Vm => AnyCid::Vm(text.parse()?),
            ResourceKind::Disk => AnyCid::Disk(text.parse()?),
            ResourceKind::Stemcell => AnyCid::Stemcell(text.parse()?),
            ResourceKind::Snapshot => AnyCid::Snapshot(text.parse()?),
        })
    }

    /// Returns the CID as text.
    pub fn as_str(&self) -> &str {
        match self {
            AnyCid::Vm(cid) => cid.as_str(),
            AnyCid::Disk(cid) => cid.as_str(),
            AnyCid::Stemcell(cid) => cid.as_str(),
            AnyCid::Snapshot(cid) => cid.as_str(),
        }
    }

    /// Returns the kind of the resource.
    pub fn kind(&self) -> ResourceKind {
        match self {
            AnyCid::Vm(_) => ResourceKind::Vm,
            AnyCid::Disk(_) => ResourceKind::Disk,
            AnyCid::Stemcell(_) => ResourceKind::Stemcell,
            AnyCid::Snapshot(_) => ResourceKind::Snapshot,
        }
    }
}

/// A placeholder for the CID in a record of a resource that the CPI has not named yet. An empty string in
/// JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unnamed;

impl Serialize for Unnamed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("")
    }
}

impl<'de> Deserialize<'de> for Unnamed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.is_empty() {
            true => Ok(Unnamed),
            false => Err(de::Error::custom("it has a CID before the CPI gave one")),
        }
    }
}

/// Reads and writes an optional CID. `None` is an empty string in JSON.
pub mod cid_or_empty {
    use super::{Cid, CidKind, Deserialize, Deserializer, Serializer, de};

    /// Writes the CID, or an empty string.
    pub fn serialize<K, S: Serializer>(cid: &Option<Cid<K>>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(cid.as_ref().map_or("", Cid::as_str))
    }

    /// Reads a CID. An empty string is `None`; a blank one is an error.
    pub fn deserialize<'de, K: CidKind, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Cid<K>>, D::Error> {
        let text = String::deserialize(deserializer)?;
        (!text.is_empty()).then(|| text.parse().map_err(de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_blank_cids() {
        for blank in ["", " ", "\t\n"] {
            let error = blank.parse::<VmCid>().unwrap_err();
            assert_eq!(error, EmptyCid(ResourceKind::Vm));
            assert_eq!(error.to_string(), "the CID of a VM is empty");
            assert!(serde_json::from_value::<DiskCid>(blank.into()).is_err());
        }
        let cid: DiskCid = " disk 1".parse().unwrap();
        assert_eq!((cid.as_str(), cid.to_string().as_str()), (" disk 1", " disk 1"));
        assert_eq!(serde_json::to_string(&cid).unwrap(), "\" disk 1\"");
        assert_eq!(serde_json::from_str::<DiskCid>("\" disk 1\"").unwrap(), cid);
    }

    #[test]
    fn missing_cid_is_an_empty_string_in_json() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Record {
            #[serde(with = "cid_or_empty")]
            cid: Option<VmCid>,
        }
        for (text, cid) in [(r#"{"cid":""}"#, None), (r#"{"cid":"vm-1"}"#, Some("vm-1".parse().unwrap()))] {
            let record: Record = serde_json::from_str(text).unwrap();
            assert_eq!(record.cid, cid);
            assert_eq!(serde_json::to_string(&record).unwrap(), text);
        }
        serde_json::from_str::<Record>(r#"{"cid":" "}"#).unwrap_err();
    }

    #[test]
    fn unnamed_record_has_an_empty_cid() {
        assert_eq!(serde_json::to_string(&Unnamed).unwrap(), "\"\"");
        assert_eq!(serde_json::from_str::<Unnamed>("\"\"").unwrap(), Unnamed);
        serde_json::from_str::<Unnamed>("\"vm-1\"").unwrap_err();
    }
}
