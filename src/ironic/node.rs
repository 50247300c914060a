//! Changes of a node's power and provision state, and waiting for their end.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::http::Method;

use super::client::Client;
use super::error::IronicError;
use super::resource::{Collection, encode_segment, object_path};
use super::values;
use super::version::Microversion;
use base::JsonObject;

/// The pause between two checks of a node's state.
const POLL_PAUSE: Duration = Duration::from_millis(500);
/// The lowest API version that accepts names of nodes, and the feature's name for messages.
const NODE_NAMES_VERSION: (Microversion, &str) = (Microversion::NODE_NAMES, "names of nodes");

/// A change of a node's power state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// Powers on.
    On,
    /// Powers off.
    Off,
    /// Powers off and on again.
    Reboot,
    /// Asks the operating system to power off.
    SoftOff,
    /// Asks the operating system to reboot.
    SoftReboot,
}

impl Power {
    fn target(self) -> &'static str {
        match self {
            Power::On => "power on",
            Power::Off => "power off",
            Power::Reboot => "rebooting",
            Power::SoftOff => "soft power off",
            Power::SoftReboot => "soft rebooting",
        }
    }

    /// Returns the power state that the change ends in.
    pub fn state(self) -> &'static str {
        match self {
            Power::Off | Power::SoftOff => "power off",
            Power::On | Power::Reboot | Power::SoftReboot => "power on",
        }
    }
}

/// A change of a node's provision state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provision {
    /// From `enroll` to `manageable`.
    Manage,
    /// From `manageable` to `available`.
    Provide,
    /// Deploy: from `available` to `active`.
    Active,
    /// Undeploy: back to `available`.
    Deleted,
}

impl Provision {
    fn target(self) -> &'static str {
        match self {
            Provision::Manage => "manage",
            Provision::Provide => "provide",
            Provision::Active => "active",
            Provision::Deleted => "deleted",
        }
    }

    /// Returns the provision state that the change ends in.
    fn state(self) -> &'static str {
        match self {
            Provision::Manage => "manageable",
            Provision::Provide | Provision::Deleted => "available",
            Provision::Active => "active",
        }
    }
}

impl Client {
    /// Returns the UUID of a node, given by name or UUID.
    pub fn find_node_uuid(&self, node: &str) -> Result<String, IronicError> {
        let node_object = self.get(Collection::Nodes, node, &["uuid".to_owned()])?;
        text(&node_object, "uuid").map(str::to_owned).ok_or_else(|| IronicError::Protocol {
            request: format!("GET {}", object_path(Collection::Nodes, node)),
            problem: "it has no `uuid`".to_owned(),
        })
    }

    /// Returns Ironic's verdict on each interface of the node: name to `{"result": …, "reason": …}`.
    pub fn validate(&self, node: &str) -> Result<JsonObject, IronicError> {
        self.get_part(node, &["validate"])
    }

    /// Returns a part of a node, such as `traits`, given by its path below the node.
    pub fn get_part(&self, node: &str, part: &[&str]) -> Result<JsonObject, IronicError> {
        self.request_object(&Method::GET, &part_path(node, part), None, NODE_NAMES_VERSION)
    }

    /// Writes a part of a node, such as `maintenance`.
    pub fn put_part(&self, node: &str, part: &[&str], body: Option<&Value>) -> Result<(), IronicError> {
        body.map_or(Ok(()), |body| values::check(body, ""))?;
        self.call(&Method::PUT, &part_path(node, part), body, NODE_NAMES_VERSION).map(drop)
    }

    /// Deletes a part of a node, such as `maintenance`.
    pub fn delete_part(&self, node: &str, part: &[&str]) -> Result<(), IronicError> {
        self.call(&Method::DELETE, &part_path(node, part), None, NODE_NAMES_VERSION).map(drop)
    }

    /// Changes the power state and waits at most `timeout` until the node has reached it. Returns the node.
    pub fn set_power(&self, node: &str, power: Power, timeout: Duration) -> Result<JsonObject, IronicError> {
        self.put_part(node, &["states", "power"], Some(&json!({"target": power.target()})))?;
        let state = power.state();
        self.wait(node, timeout, &format!("'{state}'"), |node| {
            if text(node, "target_power_state").is_some() {
                return Ok(false);
            }
            if let Some(error) = text(node, "last_error") {
                return Err(format!("failed to go to '{state}': {error}"));
            }
            Ok(text(node, "power_state") == Some(state))
        })
    }

    /// Changes the provision state and waits at most `timeout` until the node has reached it. Returns the
    /// node.
    pub fn provision(
        &self,
        node: &str,
        target: Provision,
        timeout: Duration,
    ) -> Result<JsonObject, IronicError> {
        self.put_part(node, &["states", "provision"], Some(&json!({"target": target.target()})))?;
        self.wait_for_provision_state(node, target.state(), timeout)
    }

    /// Waits at most `timeout` until the node has reached a provision state. Returns the node.
    pub fn wait_for_provision_state(
        &self,
        node: &str,
        target_state: &str,
        timeout: Duration,
    ) -> Result<JsonObject, IronicError> {
        self.wait(node, timeout, &format!("'{target_state}'"), |node| {
            let state = text(node, "provision_state").unwrap_or_default();
            if state == target_state && text(node, "target_provision_state").is_none() {
                return Ok(true);
            }
            let is_stuck = state.ends_with("failed")
                || state == "error"
                || text(node, "target_provision_state").is_none();
            if is_stuck && text(node, "reservation").is_none() {
                let error = text(node, "last_error").unwrap_or("no reason given");
                return Err(format!("is '{state}' instead of '{target_state}': {error}"));
            }
            Ok(false)
        })
    }

    /// Polls the node until `is_done` returns true or an error, or `timeout` is over. Returns the node.
    ///
    /// `state` names the awaited state in the error after a timeout: "node N is not STATE after 60 s".
    pub fn wait(
        &self,
        node: &str,
        timeout: Duration,
        state: &str,
        is_done: impl Fn(&JsonObject) -> Result<bool, String>,
    ) -> Result<JsonObject, IronicError> {
        let start = Instant::now();
        let node_error = |problem| IronicError::Node { node: node.to_owned(), problem };
        loop {
            let node_object = self.get(Collection::Nodes, node, &[])?;
            if is_done(&node_object).map_err(node_error)? {
                return Ok(node_object);
            }
            if start.elapsed() >= timeout {
                let provision = text(&node_object, "provision_state").unwrap_or_default();
                let power = text(&node_object, "power_state").unwrap_or("unknown");
                let seconds = timeout.as_secs();
                return Err(node_error(format!(
                    "is not {state} after {seconds} s: provision state '{provision}', power state '{power}'"
                )));
            }
            std::thread::sleep(POLL_PAUSE);
        }
    }
}

/// Returns the URL path of a part of a node.
fn part_path(node: &str, part: &[&str]) -> String {
    let part: String = part.iter().map(|word| format!("/{}", encode_segment(word))).collect();
    format!("{}{part}", object_path(Collection::Nodes, node))
}

/// Returns a field if it is a string.
pub(super) fn text<'o>(object: &'o JsonObject, key: &str) -> Option<&'o str> {
    object.get(key).and_then(Value::as_str)
}
