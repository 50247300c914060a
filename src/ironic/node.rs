//! What nodes are told to do, and waiting until they have done it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::http::Method;

use super::client::Client;
use super::error::IronicError;
use super::resource::{Collection, Object, one};
use super::version::Microversion;

/// How often a node is looked at.
const POLL: Duration = Duration::from_millis(500);
const NAMES: (Microversion, &str) = (Microversion::NODE_NAMES, "names of nodes");

/// A power state to go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// On.
    On,
    /// Off.
    Off,
    /// Off and on again.
    Reboot,
}

impl Power {
    fn target(self) -> &'static str {
        match self {
            Power::On => "power on",
            Power::Off => "power off",
            Power::Reboot => "rebooting",
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
    /// From `available` to `active`: deploy.
    Active,
    /// Back to `available`: undeploy.
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

    fn state(self) -> &'static str {
        match self {
            Provision::Manage => "manageable",
            Provision::Provide | Provision::Deleted => "available",
            Provision::Active => "active",
        }
    }
}

impl Client {
    /// The UUID of a node by its name or UUID.
    pub fn node_uuid(&self, node: &str) -> Result<String, IronicError> {
        let found = self.get(Collection::Nodes, node, &["uuid".to_owned()])?;
        text(&found, "uuid").map(str::to_owned).ok_or_else(|| IronicError::Protocol {
            request: format!("GET {}", one(Collection::Nodes, node)),
            problem: "the node has no `uuid`".to_owned(),
        })
    }

    /// Whether each interface of the node is fit for use: name to `{"result": …, "reason": …}`.
    pub fn validate(&self, node: &str) -> Result<Object, IronicError> {
        let path = format!("{}/validate", one(Collection::Nodes, node));
        match self.call(&Method::GET, &path, None, NAMES)? {
            Value::Object(interfaces) => Ok(interfaces),
            _ => Err(IronicError::Protocol {
                request: format!("GET {path}"),
                problem: "it is no object".into(),
            }),
        }
    }

    /// Sends the node to a power state and waits until it is there.
    pub fn power(&self, node: &str, power: Power, patience: Duration) -> Result<Object, IronicError> {
        let path = format!("{}/states/power", one(Collection::Nodes, node));
        self.call(&Method::PUT, &path, Some(&json!({"target": power.target()})), NAMES)?;
        let state = if power == Power::Off { "power off" } else { "power on" };
        self.wait(node, patience, &format!("to be '{state}'"), |node| {
            if text(node, "target_power_state").is_some() {
                return Ok(false);
            }
            if let Some(error) = text(node, "last_error") {
                return Err(format!("failed to go to '{state}': {error}"));
            }
            Ok(text(node, "power_state") == Some(state))
        })
    }

    /// Sends the node to a provision state and waits until it is there.
    pub fn provision(&self, node: &str, to: Provision, patience: Duration) -> Result<Object, IronicError> {
        let path = format!("{}/states/provision", one(Collection::Nodes, node));
        self.call(&Method::PUT, &path, Some(&json!({"target": to.target()})), NAMES)?;
        self.wait(node, patience, &format!("to be '{}'", to.state()), |node| {
            let state = text(node, "provision_state").unwrap_or_default();
            if state == to.state() && text(node, "target_provision_state").is_none() {
                return Ok(true);
            }
            let stuck = state.ends_with("failed")
                || state == "error"
                || text(node, "target_provision_state").is_none();
            if stuck && text(node, "reservation").is_none() {
                let error = text(node, "last_error").unwrap_or("no reason given");
                return Err(format!("is '{state}' instead of '{}': {error}", to.state()));
            }
            Ok(false)
        })
    }

    /// Looks at the node until `done` says so, or says what is wrong.
    pub fn wait(
        &self,
        node: &str,
        patience: Duration,
        what: &str,
        done: impl Fn(&Object) -> Result<bool, String>,
    ) -> Result<Object, IronicError> {
        let begun = Instant::now();
        let failed = |problem| IronicError::Node { node: node.to_owned(), problem };
        loop {
            let seen = self.get(Collection::Nodes, node, &[])?;
            if done(&seen).map_err(failed)? {
                return Ok(seen);
            }
            if begun.elapsed() >= patience {
                let state = text(&seen, "provision_state").unwrap_or_default();
                let power = text(&seen, "power_state").unwrap_or("unknown power state");
                let seconds = patience.as_secs();
                return Err(failed(format!(
                    "was to come {what} within {seconds} s, but is '{state}', '{power}'"
                )));
            }
            std::thread::sleep(POLL);
        }
    }
}

/// A field that is text.
pub(super) fn text<'o>(object: &'o Object, key: &str) -> Option<&'o str> {
    object.get(key).and_then(Value::as_str)
}
