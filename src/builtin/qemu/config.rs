//! The CPI's configuration:
//!
//! ```json
//! {"root": "/abs/dir", "agent": {"mbus": "https://user:password@127.0.10.2:6868",
//!   "cert": {"ca": "PEM", "certificate": "PEM", "private_key": "PEM"}}, "ntp": ["host"],
//!   "accelerator": "auto", "restrict": false, "guest_timeout": 30, "program_directory": "/usr/bin",
//!   "kernel": "/abs/vmlinuz", "initrd": "/abs/initrd.img", "kernel_arguments": ["loglevel=4"],
//!   "stemcell_formats": ["openstack-qcow2"]}
//! ```
//!
//! `docs/qemu.md` describes the keys.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::cpi::agent_settings::AgentConfig;
use crate::cpi::config;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::qemu::properties::misspelt_key;
use base::JsonObject;
use base::error::did_you_mean_question;

/// The keys that this module reads.
const CONFIG_KEYS: [&str; 10] = [
    "root",
    "agent",
    "ntp",
    "accelerator",
    "restrict",
    "guest_timeout",
    "program_directory",
    "kernel",
    "initrd",
    "kernel_arguments",
];
/// Keys that other parts read, or that manifests share with other CPIs.
const OTHER_KEYS: [&str; 4] = ["stemcell_formats", "debug", "registry", "blobstore"];
/// The maximum size of `kernel_arguments` in bytes. Linux cuts off its command line after 2 KiB on x86.
const MAX_KERNEL_ARGUMENTS_BYTES: usize = 1800;

/// The configuration of one call.
#[derive(Debug, Deserialize)]
pub(super) struct QemuConfig {
    /// The absolute path of the directory with all VMs, disks, stemcells and snapshots.
    pub root: PathBuf,
    #[serde(default)]
    pub agent: AgentConfig,
    /// Time servers for the agent.
    #[serde(default)]
    pub ntp: Vec<String>,
    #[serde(default)]
    pub accelerator: AcceleratorChoice,
    /// True if VMs cannot open connections.
    #[serde(default, rename = "restrict")]
    pub is_restricted: bool,
    #[serde(default = "guest_timeout")]
    guest_timeout: u64,
    /// The directory of QEMU's programs; those of the usual directories by default.
    pub program_directory: Option<PathBuf>,
    /// The kernel for stemcells that are root file systems.
    pub kernel: Option<PathBuf>,
    /// The initial RAM disk of that kernel.
    pub initrd: Option<PathBuf>,
    kernel_arguments: Option<KernelArguments>,
}

/// The arguments of the kernel in addition to those that every kernel gets.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum KernelArguments {
    Text(String),
    List(Vec<String>),
}

/// The accelerator that the operator chose.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum AcceleratorChoice {
    /// KVM if it works, otherwise TCG.
    #[default]
    Auto,
    Kvm,
    Tcg,
}

fn guest_timeout() -> u64 {
    30
}

impl QemuConfig {
    /// Reads the file and overrides its keys with those of the context. Errors do not quote values.
    pub(super) fn load(file: &Path, context: &JsonObject) -> CpiResult<QemuConfig> {
        let properties = config::read(file, context, &CONFIG_KEYS)?;
        check_spelling(&properties)?;
        // serde's message may quote a value, and some values are secrets.
        let config: QemuConfig = serde_json::from_value(Value::Object(properties)).map_err(|_| {
            CpiFailure::cloud(format!(
                "the CPI's configuration '{}' is not valid. It needs: root (a path). Optional: agent.mbus (a \
                 URL), agent.cert (an object), ntp (a list of strings), accelerator (auto, kvm or tcg), \
                 restrict (true or false), guest_timeout (seconds), program_directory (a path), kernel (a \
                 path), initrd (a path), kernel_arguments (a string or a list of strings)",
                file.display()
            ))
        })?;
        config::check_path("root", &config.root)?;
        for (key, path) in [
            ("program_directory", &config.program_directory),
            ("kernel", &config.kernel),
            ("initrd", &config.initrd),
        ] {
            if let Some(path) = path {
                config::check_path(key, path)?;
            }
        }
        let arguments = config.kernel_arguments();
        if arguments.len() > MAX_KERNEL_ARGUMENTS_BYTES || arguments.contains(char::is_control) {
            return Err(CpiFailure::cloud(format!(
                "the CPI's kernel_arguments must have at most {MAX_KERNEL_ARGUMENTS_BYTES} bytes and no \
                 control characters: correct them in cloud_provider.properties"
            )));
        }
        Ok(config)
    }

    /// Returns the time that the guest has to shut down, or to release a disk.
    pub(super) fn guest_timeout(&self) -> Duration {
        Duration::from_secs(self.guest_timeout)
    }

    /// Returns `kernel_arguments` as one text.
    pub(super) fn kernel_arguments(&self) -> String {
        match &self.kernel_arguments {
            None => String::new(),
            Some(KernelArguments::Text(text)) => text.trim().to_owned(),
            Some(KernelArguments::List(list)) => list.join(" "),
        }
    }
}

/// Rejects keys that look like a known one. Other unknown keys belong to the CPI of another cloud, in a
/// manifest that an ops file adapts to this one.
fn check_spelling(properties: &JsonObject) -> CpiResult<()> {
    let known_keys = CONFIG_KEYS.into_iter().chain(OTHER_KEYS);
    match misspelt_key(properties, known_keys) {
        Some((key, suggestion)) => Err(CpiFailure::cloud(format!(
            "the CPI's configuration has the unknown key '{}': {} (cloud_provider.properties)",
            key.escape_debug(),
            did_you_mean_question(suggestion)
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn load(file: Value, context: Value) -> CpiResult<QemuConfig> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        std::fs::write(&path, file.to_string()).unwrap();
        QemuConfig::load(&path, context.as_object().unwrap())
    }

    #[test]
    fn context_overrides_the_file() {
        let file = json!({"root": "/a", "accelerator": "kvm", "openstack": {}, "registry": {}});
        let config = load(file, json!({"accelerator": "tcg", "director_uuid": "d"})).unwrap();
        assert_eq!(config.accelerator, AcceleratorChoice::Tcg);
        assert_eq!((config.is_restricted, config.guest_timeout()), (false, Duration::from_secs(30)));
    }

    #[test]
    fn errors_name_misspelt_keys_and_quote_no_values() {
        let error = load(json!({"root": "/a", "acelerator": "s3cret"}), json!({})).unwrap_err();
        assert!(error.message.contains("did you mean 'accelerator'?"), "{error}");
        for bad in [
            json!({"root": "/a", "accelerator": "s3cret"}),
            json!({"root": "/a", "agent": "s3cret"}),
            json!({"root": "/a", "restrict": "s3cret"}),
        ] {
            let error = load(bad, json!({})).unwrap_err();
            assert!(!error.message.contains("s3cret"), "{error}");
        }
        for bad in [
            json!({}),
            json!({"root": "rel"}),
            json!({"root": "/"}),
            json!({"root": "/a", "program_directory": "b"}),
            json!({"root": "/a", "kernel": "vmlinuz"}),
            json!({"root": "/a", "initrd": "initrd.img"}),
            json!({"root": "/a", "kernel_arguments": 1}),
            json!({"root": "/a", "kernel_arguments": "a\nb"}),
            json!({"root": "/a", "kernel_arguments": ["x".repeat(2000)]}),
            json!({"root": "/a", "accelerator": "hvf"}),
        ] {
            assert!(load(bad.clone(), json!({})).is_err(), "{bad}");
        }
    }

    #[test]
    fn kernel_arguments_are_a_text_or_a_list() {
        let arguments = |value: Value| {
            load(json!({"root": "/a", "kernel_arguments": value}), json!({})).unwrap().kernel_arguments()
        };
        assert_eq!(arguments(json!("quiet loglevel=4 ")), "quiet loglevel=4");
        assert_eq!(arguments(json!(["quiet", "loglevel=4"])), "quiet loglevel=4");
        assert_eq!(arguments(json!(null)), "");
    }
}
