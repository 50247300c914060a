//! The answers of CPI methods. Only this module reads and checks the shape of a result.

use base::encoding::shorten;
use serde_json::{Map, Value};

use super::methods::Method;
use crate::protocol::{
    Cid, CidKind, Contract, DiskCid, DiskHint, Networks, ResourceKind, SnapshotCid, StemcellCid, Terms, VmCid,
};

/// The shape of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultShape {
    /// No result. Any value is accepted, because many CPIs return the value of their last statement.
    Nothing,
    /// Any value, which is returned as it is.
    Anything,
    /// The result of `info`.
    Info,
    /// The CID of a resource of this kind.
    Cid(ResourceKind),
    /// The CID of a disk, or null.
    DiskCidOrNothing,
    /// `[cid, networks]`, the result of `create_vm` under contract v2.
    CidAndNetworks,
    /// A disk hint, as a string or an object, or null if the agent needs none.
    Hint,
    /// True or false.
    Boolean,
    /// A list of disk CIDs.
    DiskCids,
    /// An object.
    Hash,
    /// `[id, addresses, cloud_properties]`.
    Network,
}

/// A result that was checked for its shape.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// No result.
    Nothing,
    /// Any value.
    Anything(Value),
    /// The result of `info`.
    Info(Info),
    /// The CID of a stemcell.
    Stemcell(StemcellCid),
    /// The result of `create_vm`: the CID, and the networks if the CPI returns them.
    Vm(CreatedVm),
    /// The CID of a disk.
    Disk(DiskCid),
    /// The CID of a snapshot.
    Snapshot(SnapshotCid),
    /// A disk hint; `None` if the agent needs none.
    Hint(Option<DiskHint>),
    /// True or false.
    Boolean(bool),
    /// The CIDs of disks.
    Disks(Vec<DiskCid>),
    /// An object.
    Hash(Map<String, Value>),
    /// A network's id, addresses and cloud properties.
    Network(String, Value, Map<String, Value>),
}

/// The result of `create_vm`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreatedVm {
    /// The VM's CID.
    pub cid: VmCid,
    /// The networks as the IaaS assigned them.
    pub networks: Option<Networks>,
}

/// The result of `info`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The CPI's API version; 1 if it reports none or does not implement `info`.
    pub api_version: u32,
    /// The stemcell formats that it accepts; `None` if unknown.
    pub stemcell_formats: Option<Vec<String>>,
    /// The version of the CPI itself, if it reports one.
    pub version: Option<String>,
}

/// The maximum length of the version of a CPI, in bytes.
const MAX_VERSION_BYTES: usize = 64;

/// A checked answer, and its tolerated violation of the contract, if any.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedAnswer {
    /// The result, in the shape of the method.
    pub answer: Answer,
    /// A tolerated violation of the contract, if any.
    pub violation: Option<String>,
}

impl From<Answer> for CheckedAnswer {
    fn from(answer: Answer) -> Self {
        CheckedAnswer { answer, violation: None }
    }
}

impl CheckedAnswer {
    /// Reads the result of a method. The error describes why it cannot be used.
    pub fn parse(method: Method, terms: Terms, result: &Value) -> Result<Self, String> {
        let shape = method.result_shape(terms.api_version);
        let wrong_form_error =
            || format!("the result must be {}, not {}", shape.describe(), show_value(result));
        Ok(match (shape, result) {
            (ResultShape::Nothing, _) => Answer::Nothing.into(),
            (ResultShape::Anything, value) => Answer::Anything(value.clone()).into(),
            (ResultShape::Info, value) => Answer::Info(Info::from_result(value)?).into(),
            (ResultShape::DiskCidOrNothing, Value::Null) => Answer::Nothing.into(),
            // A VM must not be lost because of the form in which its CID is returned.
            (ResultShape::Cid(_), Value::Array(pair)) if method == Method::CreateVm => {
                let cid = created_vm(pair).ok_or_else(wrong_form_error)?.cid;
                let violation = "`create_vm` returned networks, which API version 1 does not have";
                CheckedAnswer {
                    answer: Answer::Vm(CreatedVm { cid, networks: None }),
                    violation: Some(violation.into()),
                }
            }
            (ResultShape::CidAndNetworks, Value::Array(pair)) => {
                Answer::Vm(created_vm(pair).ok_or_else(wrong_form_error)?).into()
            }
            (ResultShape::CidAndNetworks, Value::String(cid)) => {
                let cid = cid.parse().map_err(|_| wrong_form_error())?;
                CheckedAnswer {
                    answer: Answer::Vm(CreatedVm { cid, networks: None }),
                    violation: (terms.contract == Contract::V2)
                        .then(|| "`create_vm` returned a CID without networks".to_owned()),
                }
            }
            (ResultShape::Cid(kind), value) => {
                parse_cid_answer(method, kind, value).ok_or_else(wrong_form_error)?
            }
            (ResultShape::DiskCidOrNothing, value) => {
                parse_cid_answer(method, ResourceKind::Disk, value).ok_or_else(wrong_form_error)?
            }
            (ResultShape::Hint, Value::Null) => Answer::Hint(None).into(),
            (ResultShape::Hint, Value::String(text)) if text.is_empty() => Answer::Hint(None).into(),
            (ResultShape::Hint, hint) => {
                Answer::Hint(Some(DiskHint::new(hint).ok_or_else(wrong_form_error)?)).into()
            }
            (ResultShape::Boolean, Value::Bool(yes)) => Answer::Boolean(*yes).into(),
            (ResultShape::DiskCids, Value::Array(values)) => {
                let cids = values.iter().map(|value| value.as_str()?.parse().ok());
                Answer::Disks(cids.collect::<Option<_>>().ok_or_else(wrong_form_error)?).into()
            }
            (ResultShape::Hash, Value::Object(object)) => Answer::Hash(object.clone()).into(),
            (ResultShape::Network, Value::Array(values)) => match values.as_slice() {
                [Value::String(id), addresses, Value::Object(properties)]
                    if !id.trim().is_empty() && (addresses.is_object() || addresses.is_null()) =>
                {
                    Answer::Network(id.clone(), addresses.clone(), properties.clone()).into()
                }
                _ => return Err(wrong_form_error()),
            },
            _ => return Err(wrong_form_error()),
        })
    }
}

impl ResultShape {
    /// Describes the shape as text.
    pub fn describe(self) -> &'static str {
        match self {
            ResultShape::Nothing => "nothing",
            ResultShape::Anything => "something",
            ResultShape::Info => "an object with `api_version` and `stemcell_formats`",
            ResultShape::Cid(_) => "a non-empty CID",
            ResultShape::DiskCidOrNothing => "a non-empty CID, or null",
            ResultShape::CidAndNetworks => "[\"CID\", NETWORKS]",
            ResultShape::Hint => "a string, an object or null",
            ResultShape::Boolean => "true or false",
            ResultShape::DiskCids => "a list of non-empty CIDs",
            ResultShape::Hash => "an object",
            ResultShape::Network => "a list of an ID, addresses and cloud properties",
        }
    }
}

impl Info {
    /// Reads the result of `info`.
    fn from_result(result: &Value) -> Result<Self, String> {
        if !result.is_object() {
            return Err(format!("the result must be an object, not {}", show_value(result)));
        }
        let api_version = match result.get("api_version") {
            None | Some(Value::Null) => 1,
            Some(version) => version
                .as_u64()
                .and_then(|version| u32::try_from(version).ok())
                .filter(|version| *version > 0)
                .ok_or_else(|| {
                    format!("`api_version` must be a whole number above 0, not {}", show_value(version))
                })?,
        };
        let stemcell_formats = match result.get("stemcell_formats") {
            None | Some(Value::Null) => None,
            Some(formats) => Some(serde_json::from_value(formats.clone()).map_err(|_| {
                format!("`stemcell_formats` must be a list of strings, not {}", show_value(formats))
            })?),
        };
        // The API does not define this key, so any other value is ignored.
        let version = result.get("version").and_then(Value::as_str).map(str::trim);
        let version = version.filter(|version| !version.is_empty());
        let version = version.map(|version| shorten(version, MAX_VERSION_BYTES).into_owned());
        Ok(Info { api_version, stemcell_formats, version })
    }
}

/// Reads the CID of a resource of this kind.
fn parse_cid_answer(method: Method, kind: ResourceKind, value: &Value) -> Option<CheckedAnswer> {
    let (answer, violation) = match kind {
        ResourceKind::Vm => {
            let (cid, violation) = cid(method, value)?;
            (Answer::Vm(CreatedVm { cid, networks: None }), violation)
        }
        ResourceKind::Disk => cid(method, value).map(|(cid, violation)| (Answer::Disk(cid), violation))?,
        ResourceKind::Stemcell => {
            cid(method, value).map(|(cid, violation)| (Answer::Stemcell(cid), violation))?
        }
        ResourceKind::Snapshot => {
            cid(method, value).map(|(cid, violation)| (Answer::Snapshot(cid), violation))?
        }
    };
    Some(CheckedAnswer { answer, violation })
}

/// Reads a CID. A number is accepted, and returned with the violation of the contract.
fn cid<K: CidKind>(method: Method, value: &Value) -> Option<(Cid<K>, Option<String>)> {
    match value {
        Value::String(text) => Some((text.parse().ok()?, None)),
        Value::Number(number) if number.is_u64() => {
            let violation = format!("`{method}` returned a number as CID, which must be a string");
            Some((number.to_string().parse().ok()?, Some(violation)))
        }
        _ => None,
    }
}

fn created_vm(pair: &[Value]) -> Option<CreatedVm> {
    let [Value::String(cid), networks] = pair else { return None };
    let networks = match networks {
        Value::Null => None,
        Value::Object(networks) => Some(Networks::from(networks.clone())),
        _ => return None,
    };
    Some(CreatedVm { cid: cid.parse().ok()?, networks })
}

/// Shows a value in an error.
fn show_value(value: &Value) -> String {
    /// The maximum length of a shown value, in bytes.
    const MAX_SHOWN_BYTES: usize = 200;
    shorten(&value.to_string(), MAX_SHOWN_BYTES).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const V1: Terms = Terms { api_version: 1, contract: Contract::V1, is_builtin: false };
    const MIXED_TERMS: Terms = Terms { api_version: 2, contract: Contract::V1, is_builtin: false };
    const V2: Terms = Terms { api_version: 2, contract: Contract::V2, is_builtin: false };

    fn vm(terms: Terms, result: Value) -> Option<(CreatedVm, bool)> {
        match CheckedAnswer::parse(Method::CreateVm, terms, &result) {
            Ok(CheckedAnswer { answer: Answer::Vm(vm), violation }) => Some((vm, violation.is_some())),
            Ok(other) => panic!("{other:?}"),
            Err(_) => None,
        }
    }

    #[test]
    fn created_vm_follows_the_terms_and_needs_a_cid() {
        let vm_without_networks = CreatedVm { cid: "vm".parse().unwrap(), networks: None };
        let networks = Map::from_iter([("a".to_owned(), json!({}))]);
        let vm_with_networks = CreatedVm { networks: Some(networks.into()), ..vm_without_networks.clone() };
        let pair = json!(["vm", {"a": {}}]);
        assert_eq!(vm(V1, json!("vm")), Some((vm_without_networks.clone(), false)));
        assert_eq!(
            vm(V1, pair.clone()),
            Some((vm_without_networks.clone(), true)),
            "v1 has no VM, or a VM with networks"
        );
        assert_eq!(vm(MIXED_TERMS, json!("vm")), Some((vm_without_networks.clone(), false)));
        assert_eq!(vm(MIXED_TERMS, pair.clone()), Some((vm_with_networks.clone(), false)));
        assert_eq!(vm(V2, pair), Some((vm_with_networks, false)));
        assert_eq!(vm(V2, json!(["vm", null])), Some((vm_without_networks.clone(), false)));
        assert_eq!(vm(V2, json!("vm")), Some((vm_without_networks, true)));
        for bad in [
            json!([]),
            json!(""),
            json!(" "),
            json!(["", {}]),
            json!(null),
            json!(["a"]),
            json!(["a", 1]),
            json!({}),
        ] {
            for terms in [V1, MIXED_TERMS, V2] {
                assert_eq!(vm(terms, bad.clone()), None, "{bad}");
            }
        }
    }

    #[test]
    fn disk_hints_need_api_version_2() {
        let hint =
            |terms, result| CheckedAnswer::parse(Method::AttachDisk, terms, &result).map(|read| read.answer);
        assert_eq!(hint(V2, json!("/dev/sdb")), Ok(Answer::Hint(DiskHint::new(&json!("/dev/sdb")))));
        assert_eq!(
            hint(MIXED_TERMS, json!({"lun": "0"})),
            Ok(Answer::Hint(DiskHint::new(&json!({"lun": "0"}))))
        );
        assert_eq!(hint(V2, json!(null)), Ok(Answer::Hint(None)));
        assert_eq!(hint(V2, json!("")), Ok(Answer::Hint(None)));
        assert!(
            hint(V2, json!(true)).is_err() && hint(V2, json!([])).is_err() && hint(V2, json!(3)).is_err()
        );
        assert_eq!(hint(V1, json!(true)), Ok(Answer::Nothing), "a disk hint was read in version 1");
    }

    #[test]
    fn rejects_results_of_the_wrong_shape() {
        let samples = [
            json!(null),
            json!(true),
            json!(1.5),
            json!(""),
            json!("a"),
            json!([""]),
            json!(["a"]),
            json!({}),
        ];
        // Counts the samples that each shape accepts, so that no shape accepts all of them by accident.
        for (method, accepted_count) in [
            (Method::Info, 1),
            (Method::CreateStemcell, 1),
            (Method::CreateDisk, 1),
            (Method::CreateVm, 1),
            (Method::HasVm, 1),
            (Method::HasDisk, 1),
            (Method::AttachDisk, 4),
            (Method::GetDisks, 1),
            (Method::SnapshotDisk, 1),
            (Method::UpdateDisk, 2),
            (Method::CalculateVmCloudProperties, 1),
            (Method::CreateNetwork, 0),
            (Method::CurrentVmId, 1),
            (Method::DeleteVm, 8),
            (Method::ResizeDisk, 8),
            (Method::SetVmMetadata, 8),
        ] {
            let accepted_samples =
                samples.iter().filter(|sample| CheckedAnswer::parse(method, V2, sample).is_ok()).count();
            assert_eq!(accepted_samples, accepted_count, "{method}");
        }
        let network = json!(["net", {"range": "10.0.0.0/24"}, {}]);
        assert!(matches!(
            CheckedAnswer::parse(Method::CreateNetwork, V2, &network).unwrap().answer,
            Answer::Network(id, ..) if id == "net"
        ));
        let huge = Value::String("x".repeat(1 << 20));
        assert!(CheckedAnswer::parse(Method::HasVm, V2, &huge).unwrap_err().len() < 1000);
    }

    #[test]
    fn info_without_api_version_means_version_1() {
        assert_eq!(Info::from_result(&json!({})).unwrap().api_version, 1);
        for bad in
            [json!({"api_version": "two"}), json!({"api_version": 0}), json!({"api_version": 2.5}), json!([])]
        {
            assert!(Info::from_result(&bad).is_err(), "{bad}");
        }
        assert!(Info::from_result(&json!({"stemcell_formats": "raw"})).is_err());
    }

    #[test]
    fn info_may_have_the_version_of_the_cpi() {
        let version = |version: Value| Info::from_result(&json!({"version": version})).unwrap().version;
        assert_eq!(version(json!(" 54.1.0\n")), Some("54.1.0".to_owned()));
        for none in [json!(null), json!(" "), json!(7), json!({})] {
            assert_eq!(version(none), None);
        }
        assert!(version(json!("x".repeat(1 << 20))).unwrap().len() < 100);
    }
}
