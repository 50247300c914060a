//! The methods of the CPI API, v1 to v3: their arguments and answers, their effect on the IaaS, their
//! callers, and whether a CPI may omit them.
//!
//! Sources: the method pages below `cpi-api-v1.md`, `cpi-api-v2.md` and `cpi-api-v3.md` of the BOSH
//! documentation, and their use by the director (`external_cpi.rb` and its callers) and by `bosh create-env`
//! (`cloud/cloud.go`).

mod table;

use std::fmt;
use std::str::FromStr;

use super::answer::ResultShape;

/// Defines an enum, and `ALL` with all its variants.
macro_rules! enum_with_all {
    ($(#[$attribute:meta])* pub enum $name:ident { $($variant:ident,)* }) => {
        $(#[$attribute])*
        pub enum $name {
            $($variant,)*
        }

        impl $name {
            const ALL: &[$name] = &[$($name::$variant,)*];
        }
    };
}

enum_with_all! {
    /// A method of the CPI API, in the order in which the life of a VM uses the methods.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[expect(missing_docs, reason = "each is described by its facts")]
    pub enum Method {
        Info,
        CreateStemcell,
        DeleteStemcell,
        CreateVm,
        SetVmMetadata,
        HasVm,
        RebootVm,
        CalculateVmCloudProperties,
        CreateDisk,
        HasDisk,
        AttachDisk,
        SetDiskMetadata,
        GetDisks,
        SnapshotDisk,
        DeleteSnapshot,
        ResizeDisk,
        UpdateDisk,
        DetachDisk,
        DeleteDisk,
        DeleteVm,
        CreateNetwork,
        DeleteNetwork,
        ConfigureNetworks,
        CurrentVmId,
        Ping,
    }
}

/// The facts about a method.
#[derive(Debug)]
pub struct MethodFacts {
    /// Its name in requests.
    pub name: &'static str,
    /// Its purpose, in a few words.
    pub purpose: &'static str,
    /// Its arguments, in order.
    pub arguments: &'static [Argument],
    /// True if it changes anything in the IaaS.
    pub changes_iaas: bool,
    /// The shape of its result for requests with `api_version` 1.
    pub result_in_v1: ResultShape,
    /// The shape of its result for requests with `api_version` 2 or higher.
    pub result_since_v2: ResultShape,
    /// The consequence if the CPI does not implement it.
    pub if_missing: MissingMethodConsequence,
    /// Its callers, and when they call it. `create-env` also stands for `recreate`, and for a repair of
    /// `cloud-check` that creates a VM.
    pub callers: &'static str,
}

/// The consequence of a missing method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingMethodConsequence {
    /// Callers fail without it.
    Breaks,
    /// Callers work without it.
    Tolerated,
    /// Callers work without it, but the feature that needs it does not.
    LosesFeature,
}

/// One argument of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the documentation; requests carry arguments by position.
    pub name: &'static str,
    /// Its type.
    pub kind: ArgumentKind,
    /// The lowest `api_version` whose requests carry it.
    pub min_api_version: u32,
    /// True if a caller may omit it.
    pub is_optional: bool,
}

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A string that may be empty.
    Text,
    /// The CID of an existing resource, never empty.
    Cid,
    /// A whole number.
    Integer,
    /// An object, such as `cloud_properties`.
    Hash,
    /// A list of CIDs.
    Cids,
}

impl ArgumentKind {
    /// Returns true if a value has this type.
    pub fn accepts(self, value: &serde_json::Value) -> bool {
        match self {
            ArgumentKind::Text => value.is_string(),
            ArgumentKind::Cid => value.as_str().is_some_and(|cid| !cid.trim().is_empty()),
            ArgumentKind::Integer => value.is_u64(),
            ArgumentKind::Hash => value.is_object(),
            ArgumentKind::Cids => {
                value.as_array().is_some_and(|cids| cids.iter().all(|cid| ArgumentKind::Cid.accepts(cid)))
            }
        }
    }
}

impl fmt::Display for ArgumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArgumentKind::Text => "a string",
            ArgumentKind::Cid => "a non-empty CID",
            ArgumentKind::Integer => "a whole number",
            ArgumentKind::Hash => "an object",
            ArgumentKind::Cids => "a list of CIDs",
        })
    }
}

impl Method {
    /// Returns all methods, in the order in which the life of a VM uses them.
    pub fn all() -> impl Iterator<Item = Method> {
        Method::ALL.iter().copied()
    }

    /// Returns the facts about the method.
    pub fn facts(self) -> &'static MethodFacts {
        table::facts(self)
    }

    /// Returns its name in requests.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the arguments of requests with this `api_version`.
    pub fn arguments(self, api_version: u32) -> impl Iterator<Item = &'static Argument> {
        self.facts().arguments.iter().filter(move |argument| argument.min_api_version <= api_version)
    }

    /// Returns the shape of its result for requests with this `api_version`.
    pub fn result_shape(self, api_version: u32) -> ResultShape {
        if api_version >= 2 { self.facts().result_since_v2 } else { self.facts().result_in_v1 }
    }

    /// Describes a call: `create_disk SIZE CLOUD_PROPERTIES [VM_CID]`.
    pub fn usage(self, api_version: u32) -> String {
        self.arguments(api_version).fold(self.name().to_owned(), |usage, argument| {
            let name = argument.name.to_uppercase();
            if argument.is_optional { format!("{usage} [{name}]") } else { format!("{usage} {name}") }
        })
    }

    /// Checks the arguments of a request with this `api_version`. The error describes the problem.
    pub fn check_arguments(self, api_version: u32, values: &[serde_json::Value]) -> Result<(), String> {
        let arguments: Vec<&Argument> = self.arguments(api_version).collect();
        let minimum = arguments.iter().filter(|argument| !argument.is_optional).count();
        if values.len() < minimum || values.len() > arguments.len() {
            let expected_count = match (minimum, arguments.len()) {
                (0, 0) => "no arguments".to_owned(),
                (1, 1) => "1 argument".to_owned(),
                (minimum, maximum) if minimum == maximum => format!("{maximum} arguments"),
                (minimum, maximum) => format!("{minimum} to {maximum} arguments"),
            };
            return Err(format!(
                "`{}` takes {expected_count}, not {}: {}",
                self.name(),
                values.len(),
                self.usage(api_version)
            ));
        }
        // A caller may send null for an optional argument.
        let is_accepted = |argument: &Argument, value: &serde_json::Value| {
            argument.kind.accepts(value) || (argument.is_optional && value.is_null())
        };
        match arguments.iter().zip(values).find(|(argument, value)| !is_accepted(argument, value)) {
            Some((argument, _)) => {
                Err(format!("`{}`: {} must be {}", self.name(), argument.name, argument.kind))
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        Method::all().find(|method| method.name() == name).ok_or_else(|| UnknownMethod(name.to_owned()))
    }
}

/// The error for a name that no method has.
#[derive(Debug, thiserror::Error)]
#[error("the CPI API has no method '{0}'")]
pub struct UnknownMethod(pub String);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_method_has_facts_and_a_unique_name() {
        let names: std::collections::HashSet<&str> = Method::all().map(Method::name).collect();
        assert_eq!(names.len(), Method::ALL.len());
        for method in Method::all() {
            assert_eq!(method.name().parse::<Method>().unwrap(), method);
            let facts = method.facts();
            assert!(!facts.purpose.is_empty() && !facts.callers.is_empty(), "{method}");
        }
        assert!("create_vms".parse::<Method>().is_err());
    }

    #[test]
    fn arguments_follow_the_version_of_the_request() {
        assert_eq!(Method::CreateStemcell.usage(2), "create_stemcell IMAGE_PATH CLOUD_PROPERTIES");
        assert_eq!(Method::CreateStemcell.usage(3), "create_stemcell IMAGE_PATH CLOUD_PROPERTIES [ENV]");
        assert_eq!(Method::Info.usage(1), "info");
    }

    #[test]
    fn arguments_are_checked_in_number_and_type() {
        let check = |method: Method, values: &[serde_json::Value]| method.check_arguments(2, values);
        assert_eq!(check(Method::CreateDisk, &[json!(1024), json!({})]), Ok(()));
        assert_eq!(check(Method::CreateDisk, &[json!(1024), json!({}), json!("vm")]), Ok(()));
        assert_eq!(check(Method::CreateDisk, &[json!(1024), json!({}), json!(null)]), Ok(()));
        for (method, values, problem) in [
            (Method::DeleteVm, vec![], "`delete_vm` takes 1 argument, not 0: delete_vm VM_CID"),
            (Method::Info, vec![json!(1)], "`info` takes no arguments, not 1: info"),
            (Method::DeleteVm, vec![json!("")], "vm_cid must be"),
            (Method::DeleteVm, vec![json!(7)], "vm_cid must be"),
            (Method::DeleteVm, vec![json!(null)], "vm_cid must be"),
            (Method::CreateDisk, vec![json!("1"), json!({})], "size must be"),
            (Method::CreateStemcell, vec![json!("i"), json!({}), json!({})], "takes 2 arguments, not 3"),
            (
                Method::CreateVm,
                vec![json!("a"), json!("s"), json!({}), json!({}), json!([""])],
                "disk_cids must be",
            ),
        ] {
            let error = check(method, &values).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
