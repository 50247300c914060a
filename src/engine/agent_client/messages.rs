//! Messages to the agent, each as a function with its own types.

use base::text::json_problem;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::running_task;
use super::client::Agent;
use super::error::AgentError;
use crate::protocol::{DiskCid, DiskHint};

/// A compiled package in the agent's blobstore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompiledPackage {
    /// The package's name.
    pub name: String,
    /// Its version, which is its fingerprint.
    pub version: String,
    /// The digest of the compiled archive, as the agent reported it.
    pub sha1: String,
    /// The id of the blob.
    pub blobstore_id: String,
}

/// A package's source in the agent's blobstore.
#[derive(Debug, Clone)]
pub struct PackageSource {
    /// The package's name.
    pub name: String,
    /// Its fingerprint.
    pub version: String,
    /// The digest of the source archive.
    pub digest: String,
    /// The id of the blob.
    pub blobstore_id: String,
}

/// The result of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainOutcome {
    /// All jobs finished their work.
    Done,
    /// A job was still draining at the deadline. A drain script that still ran was stopped.
    TimedOut,
}

/// A blob in the agent's blobstore.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Blob {
    /// The id of the blob.
    pub blobstore_id: String,
    /// The digest, in BOSH's format.
    pub sha1: String,
}

/// The address and the host key of a VM for an ssh session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SshHost {
    /// The VM's address, from the agent's settings.
    #[serde(default)]
    pub ip: String,
    /// The host key of its sshd, in OpenSSH's format.
    #[serde(default)]
    pub host_public_key: String,
}

/// The directory in which agents keep blobs (`settings/directories` of the agent).
const BLOBS_DIRECTORY: &str = "/var/vcap/data/blobs";

/// The reason for stopping the jobs.
#[derive(Debug, Clone, Copy)]
pub enum StopReason<'a> {
    /// The VM stays as it is.
    Stop,
    /// The VM is updated in place to this spec.
    Update(&'a Value),
    /// The VM is deleted, perhaps to be replaced.
    DeleteVm,
    /// The environment is deleted.
    DeleteEnvironment,
}

impl StopReason<'_> {
    /// Returns the environment variables of pre-stop scripts (`pre-stop.md` of docs-bosh).
    pub fn next_states(self) -> Value {
        let (vm, instance) = match self {
            StopReason::Stop | StopReason::Update(_) => ("keep", "keep"),
            StopReason::DeleteVm => ("delete", "keep"),
            StopReason::DeleteEnvironment => ("delete", "delete"),
        };
        json!({
            "BOSH_VM_NEXT_STATE": vm,
            "BOSH_INSTANCE_NEXT_STATE": instance,
            "BOSH_DEPLOYMENT_NEXT_STATE": instance,
        })
    }
}

impl Agent {
    /// Returns the agent's state, with the vitals of the VM.
    pub fn get_full_state(&self) -> Result<Value, AgentError> {
        self.send("get_state", json!(["full"]))
    }

    /// Creates a user on the VM who may log in with this key.
    pub fn set_up_ssh(&self, user: &str, public_key: &str) -> Result<SshHost, AgentError> {
        let value = self.perform("ssh", json!(["setup", {"user": user, "public_key": public_key}]))?;
        serde_json::from_value(value)
            .map_err(|error| AgentError::Protocol { method: "ssh".to_owned(), problem: json_problem(&error) })
    }

    /// Removes the user.
    pub fn clean_up_ssh(&self, user: &str) -> Result<(), AgentError> {
        self.clean_up("ssh", json!(["cleanup", {"user_regex": format!("^{user}$")}]))
    }

    /// Deletes a blob on the VM. Agents delete no blobs on their own.
    pub fn remove_blob(&self, id: &str) -> Result<(), AgentError> {
        // The id comes from the agent and becomes part of a path on its VM.
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            let problem = "the ID of the blob is not valid".to_owned();
            return Err(AgentError::Protocol { method: "remove_file".to_owned(), problem });
        }
        self.clean_up("remove_file", json!([format!("{BLOBS_DIRECTORY}/{id}")]))
    }

    /// Returns the agent's state.
    pub fn get_state(&self) -> Result<Value, AgentError> {
        self.send("get_state", json!([]))
    }

    /// Adds a disk to the agent's settings. Returns false if the agent does not know the message. It then
    /// needs the hint with `mount_disk`.
    pub fn add_persistent_disk(&self, cid: &DiskCid, hint: &DiskHint) -> Result<bool, AgentError> {
        match self.perform("add_persistent_disk", json!([cid, hint])) {
            Ok(_) => Ok(true),
            Err(error) if error.is_unknown_message() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes a disk from the agent's settings.
    pub fn remove_persistent_disk(&self, cid: &DiskCid) -> Result<(), AgentError> {
        match self.perform("remove_persistent_disk", json!([cid])) {
            Ok(_) => Ok(()),
            Err(error) if error.is_unknown_message() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Mounts a disk. The hint is for agents that do not know `add_persistent_disk`.
    pub fn mount_disk(&self, cid: &DiskCid, hint: Option<&DiskHint>) -> Result<(), AgentError> {
        let arguments = match hint {
            Some(hint) => json!([cid, hint]),
            None => json!([cid]),
        };
        self.perform("mount_disk", arguments).map(drop)
    }

    /// Unmounts a disk.
    pub fn unmount_disk(&self, cid: &DiskCid) -> Result<(), AgentError> {
        self.perform("unmount_disk", json!([cid])).map(drop)
    }

    /// Returns the CIDs of the disks that the agent has mounted.
    pub fn list_disk(&self) -> Result<Vec<DiskCid>, AgentError> {
        let value = self.perform("list_disk", json!([]))?;
        let cids: Vec<String> = serde_json::from_value(value).map_err(|error| AgentError::Protocol {
            method: "list_disk".to_owned(),
            problem: json_problem(&error),
        })?;
        // Some agents answer `[""]` if there is no disk.
        Ok(cids.iter().filter_map(|cid| cid.parse().ok()).collect())
    }

    /// Copies the data of the mounted disk to the disk that was attached last. Calls `on_start` with the id
    /// of the task, so that another run can wait for it.
    pub fn migrate_disk<E: From<AgentError>>(
        &self,
        on_start: impl FnOnce(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        const METHOD: &str = "migrate_disk";
        let value = self.send(METHOD, json!([]))?;
        if let Some(task) = running_task(&value) {
            on_start(task)?;
        }
        self.follow(METHOD, value, None)?;
        Ok(())
    }

    /// Waits for the end of a task that an earlier run started. Also succeeds if the task failed, or if the
    /// agent does not know it: the caller must check the result itself.
    pub fn wait_for_task(&self, method: &str, task: &str) -> Result<(), AgentError> {
        let value = json!({"agent_task_id": task, "state": "running"});
        match self.follow(method, value, None) {
            Ok(_) => Ok(()),
            Err(AgentError::Exception { message, .. }) => {
                tracing::info!(method, task, exception = message, "the task of an earlier run is over");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the agent apply a spec: it installs packages and templates of the jobs, and keeps the spec.
    pub fn apply(&self, spec: &Value) -> Result<(), AgentError> {
        self.perform("apply", json!([spec])).map(drop)
    }

    /// Starts the jobs.
    pub fn start(&self) -> Result<(), AgentError> {
        self.perform("start", json!([])).map(drop)
    }

    /// Stops the jobs.
    pub fn stop(&self) -> Result<(), AgentError> {
        self.perform("stop", json!([])).map(drop)
    }

    /// Runs a lifecycle script of every job that has it, with additional environment variables. An agent that
    /// does not know the message runs no scripts.
    pub fn run_script(&self, name: &str, env_vars: Option<Value>) -> Result<(), AgentError> {
        let options = env_vars.map_or_else(|| json!({}), |env_vars| json!({"env": env_vars}));
        match self.perform("run_script", json!([name, options])) {
            Err(error) if error.is_unknown_message() => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Fetches the blobs that a spec needs. An agent that does not know the message fetches them when the
    /// spec is applied. Calls `on_wait` repeatedly while the agent works.
    pub fn prepare(&self, spec: &Value, on_wait: &mut dyn FnMut()) -> Result<(), AgentError> {
        const METHOD: &str = "prepare";
        let answer = self.send(METHOD, json!([spec]));
        match answer.and_then(|value| self.follow_with(METHOD, value, None, on_wait)) {
            Err(error) if error.is_unknown_message() => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Drains the jobs before they stop. A job with dynamic drain is asked again after the time that it
    /// returned, until it is done; older agents leave this to their caller. Drain scripts that still run
    /// after `timeout` are stopped.
    pub fn drain(&self, reason: StopReason<'_>, timeout: Duration) -> Result<DrainOutcome, AgentError> {
        let deadline = Instant::now() + timeout;
        let mut arguments = match reason {
            StopReason::Update(spec) => json!(["update", spec]),
            StopReason::Stop | StopReason::DeleteVm | StopReason::DeleteEnvironment => {
                json!(["shutdown", {}])
            }
        };
        loop {
            let Some(value) = self.perform_until("drain", arguments, Some(deadline))? else {
                return Ok(DrainOutcome::TimedOut);
            };
            let answer = value.as_i64().ok_or_else(|| AgentError::Protocol {
                method: "drain".to_owned(),
                problem: format!("{value} is not a number of seconds"),
            })?;
            let requested_pause = Duration::from_secs(answer.unsigned_abs());
            let remaining = deadline.saturating_duration_since(Instant::now());
            self.pause(requested_pause.min(remaining))?;
            if requested_pause > remaining {
                return Ok(DrainOutcome::TimedOut);
            }
            if answer >= 0 {
                return Ok(DrainOutcome::Done);
            }
            arguments = json!(["status", {}]);
        }
    }

    /// Packs the logs of these types (`job`, `agent`, `system`, joined by commas) whose paths below the log
    /// directory match one of the globs.
    pub fn fetch_logs(&self, log_types: &str, filters: &[String]) -> Result<Blob, AgentError> {
        let value = self.perform("fetch_logs", json!([log_types, filters]))?;
        serde_json::from_value(value).map_err(|error| AgentError::Protocol {
            method: "fetch_logs".to_owned(),
            problem: json_problem(&error),
        })
    }

    /// Compiles a package whose source and compiled dependencies are in the blobstore.
    pub fn compile_package(
        &self,
        source: &PackageSource,
        dependencies: &BTreeMap<String, CompiledPackage>,
    ) -> Result<CompiledPackage, AgentError> {
        let arguments =
            json!([source.blobstore_id, source.digest, source.name, source.version, dependencies]);
        let value = self.perform("compile_package", arguments)?;
        let field = |name: &str| {
            value
                .get("result")
                .and_then(|result| result.get(name))
                .and_then(Value::as_str)
                .map(str::to_owned)
                .ok_or_else(|| AgentError::Protocol {
                    method: "compile_package".to_owned(),
                    problem: format!("`result.{name}` is missing"),
                })
        };
        Ok(CompiledPackage {
            name: source.name.clone(),
            version: source.version.clone(),
            sha1: field("sha1")?,
            blobstore_id: field("blobstore_id")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pre_stop_scripts_get_the_next_states() {
        let next_states = |reason: StopReason<'_>| {
            let states = reason.next_states();
            ["VM", "INSTANCE", "DEPLOYMENT"].map(|name| states[format!("BOSH_{name}_NEXT_STATE")].clone())
        };
        assert_eq!(next_states(StopReason::Stop), ["keep", "keep", "keep"]);
        assert_eq!(next_states(StopReason::Update(&json!({}))), ["keep", "keep", "keep"]);
        assert_eq!(next_states(StopReason::DeleteVm), ["delete", "keep", "keep"]);
        assert_eq!(next_states(StopReason::DeleteEnvironment), ["delete", "delete", "delete"]);
    }
}
