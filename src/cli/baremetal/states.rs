//! Commands for the states of nodes: provisioning, power, maintenance, boot device and traits.

use std::time::Duration;

use serde_json::{Value, json};

use super::call::{Call, POWER_TIMEOUT};
use crate::cli::finish::CommandResult;
use crate::ui;
use base::JsonObject;
use base::text::json_problem;
use base::{Error, Result};
use ironic::Power;

/// The timeout of `--wait` without a duration: longer than any change takes.
const NO_TIMEOUT: Duration = Duration::from_secs(u32::MAX as u64);

/// Requests a provision state, and waits for its end with `--wait`.
pub(super) fn provision(call: &Call) -> Result<CommandResult> {
    let Some((target, end)) = call.transition() else { return Ok(CommandResult::Output(Vec::new())) };
    let mut body = json!({"target": target});
    if let Some(steps) = call.text("clean-steps") {
        body["clean_steps"] = serde_json::from_str(&steps).map_err(|error| {
            Error::usage("--clean-steps is not JSON").with_source(json_problem(&error)).with_hint(
                "for example: `--clean-steps '[{\"interface\": \"deploy\", \"step\": \
                     \"erase_devices\"}]'`",
            )
        })?;
    }
    let nodes = call.texts("id");
    if target == "deleted" {
        let question = format!("Undeploy {}? Its instance ends.", base::text::and_list(&nodes));
        call.confirm(&question, "nothing was undeployed")?;
    }
    if target == "rescue" {
        body["rescue_password"] = Value::String(ask_rescue_password(call)?);
    }
    let timeout: Option<Duration> = call.get("wait");
    call.run_for_each("node", &nodes, "did not change its state", &|node| {
        let ironic = call.ironic()?;
        ironic.put_part(node, &["states", "provision"], Some(&body))?;
        let Some(timeout) = timeout else { return Ok(format!("Requested '{target}' of node {node}")) };
        let timeout = if timeout.is_zero() { NO_TIMEOUT } else { timeout };
        ironic.wait_for_provision_state(node, end, timeout)?;
        Ok(format!("Node {node} is '{end}'"))
    })
}

/// Returns the password for the rescue system, and asks for it if it was not given.
fn ask_rescue_password(call: &Call) -> Result<String> {
    let password = match call.text("rescue-password") {
        Some(password) => password,
        None if call.session.is_interactive() => ui::prompt::ask_secret("Password for the rescue system")?,
        None => {
            return Err(Error::usage("--rescue-password is missing, and there is no terminal to ask for it"));
        }
    };
    if password.is_empty() {
        return Err(Error::usage("the password for the rescue system is empty"));
    }
    call.session.redactor.add(&password);
    Ok(password)
}

fn change_power(call: &Call, power: Power) -> Result<CommandResult> {
    let timeout = call.get("power-timeout").unwrap_or(POWER_TIMEOUT);
    call.run_for_each("node", &call.texts("id"), "did not change its power state", &|node| {
        call.ironic()?.set_power(node, power, timeout)?;
        Ok(format!("Node {node} is at '{}'", power.state()))
    })
}

/// Powers nodes on.
pub(super) fn power_on(call: &Call) -> Result<CommandResult> {
    change_power(call, Power::On)
}

/// Powers nodes off.
pub(super) fn power_off(call: &Call) -> Result<CommandResult> {
    change_power(call, if call.has_switch("soft") { Power::SoftOff } else { Power::Off })
}

/// Powers nodes off and on again.
pub(super) fn reboot(call: &Call) -> Result<CommandResult> {
    change_power(call, if call.has_switch("soft") { Power::SoftReboot } else { Power::Reboot })
}

/// Puts nodes into maintenance.
pub(super) fn set_maintenance(call: &Call) -> Result<CommandResult> {
    let body = json!({"reason": call.text("reason")});
    call.run_for_each("node", &call.texts("id"), "was not changed", &|node| {
        call.ironic()?.put_part(node, &["maintenance"], Some(&body))?;
        Ok(format!("Node {node} is in maintenance"))
    })
}

/// Ends the maintenance of nodes.
pub(super) fn unset_maintenance(call: &Call) -> Result<CommandResult> {
    call.run_for_each("node", &call.texts("id"), "was not changed", &|node| {
        call.ironic()?.delete_part(node, &["maintenance"])?;
        Ok(format!("Node {node} is out of maintenance"))
    })
}

const BOOT_DEVICE: &[&str] = &["management", "boot_device"];

/// Sets the device from which nodes boot next.
pub(super) fn set_boot_device(call: &Call) -> Result<CommandResult> {
    let device = call.text("device").unwrap_or_default();
    let body = json!({"boot_device": device, "persistent": call.has_switch("persistent")});
    call.run_for_each("node", &call.texts("id"), "was not changed", &|node| {
        call.ironic()?.put_part(node, BOOT_DEVICE, Some(&body))?;
        Ok(format!("Node {node} boots from '{device}'"))
    })
}

/// Shows the device from which a node boots, or those that it supports.
pub(super) fn show_boot_device(call: &Call) -> Result<CommandResult> {
    let mut part = BOOT_DEVICE.to_vec();
    part.extend(call.has_switch("supported").then_some("supported"));
    call.show(call.ironic()?.get_part(&call.id(), &part)?)
}

/// Lists the traits of a node.
pub(super) fn list_traits(call: &Call) -> Result<CommandResult> {
    let mut answer = call.ironic()?.get_part(&call.id(), &["traits"])?;
    let traits = match answer.remove("traits") {
        Some(Value::Array(traits)) => traits,
        _ => Vec::new(),
    };
    call.list(&["Traits"], traits.into_iter().map(|name| row([("Traits", name)])).collect())
}

/// Adds traits to a node.
pub(super) fn add_traits(call: &Call) -> Result<CommandResult> {
    let node = call.id();
    call.run_for_each("trait", &call.texts("trait"), "was not added", &|name| {
        call.ironic()?.put_part(&node, &["traits", name], None)?;
        Ok(format!("Added trait {name} to node {node}"))
    })
}

/// Removes traits from a node.
pub(super) fn remove_traits(call: &Call) -> Result<CommandResult> {
    let node = call.id();
    call.run_for_each("trait", &call.texts("trait"), "was not removed", &|name| {
        call.ironic()?.delete_part(&node, &["traits", name])?;
        Ok(format!("Removed trait {name} from node {node}"))
    })
}

/// Checks the interfaces of a node.
pub(super) fn validate(call: &Call) -> Result<CommandResult> {
    let mut interfaces = call.ironic()?.validate(&call.id())?;
    interfaces.sort_keys();
    let verdict = |(name, validation): (String, Value)| {
        let reason = validation.get("reason").filter(|reason| !reason.is_null()).cloned();
        let result = validation.get("result").cloned().unwrap_or_default();
        let reason = reason.unwrap_or_else(|| json!(""));
        row([("Interface", Value::String(name)), ("Result", result), ("Reason", reason)])
    };
    call.list(&["Interface", "Result", "Reason"], interfaces.into_iter().map(verdict).collect())
}

fn row<const N: usize>(cells: [(&str, Value); N]) -> JsonObject {
    cells.into_iter().map(|(column, value)| (column.to_owned(), value)).collect()
}
