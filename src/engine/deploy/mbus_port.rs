//! Compares the port of `cloud_provider.mbus` with that on which the agent of a new VM will listen. If they
//! differ by mistake, the new VM replaces a VM that works, and is never reached.

use serde_json::Value;
use url::Url;

use manifest::Deployment;

/// Returns the warning for ports that differ. They may differ on purpose, if something forwards the port.
pub(super) fn warning(deployment: &Deployment) -> Option<String> {
    let provider = &deployment.cloud_provider;
    let (place, agent_url) = agent_url(deployment)?;
    let agent_port = https_port(agent_url)?;
    let port = https_port(provider.mbus.expose()).filter(|port| *port != agent_port)?;
    let default = match Url::parse(provider.mbus.expose()).ok()?.port() {
        Some(_) => "",
        None => " (the default)",
    };
    Some(format!(
        "`cloud_provider.mbus` ({}) has port {port}{default}, but the new VM's agent will listen on port \
         {agent_port} (`{place}`): this run reaches it only if port {port} is forwarded to that",
        provider.mbus_place
    ))
}

/// Returns the URL at which the agent listens, with its place in the manifest, if it does not follow from
/// `cloud_provider.mbus`. An agent prefers the URL of its environment.
fn agent_url(deployment: &Deployment) -> Option<(&'static str, &str)> {
    let env = deployment.vm.env.get("bosh").and_then(|bosh| bosh.pointer("/mbus/urls/0"));
    let property = deployment.cloud_provider.properties.get("agent").and_then(|agent| agent.get("mbus"));
    let mbus_places = [("env.bosh.mbus.urls", env), ("cloud_provider.properties.agent.mbus", property)];
    mbus_places.into_iter().find_map(|(place, url)| Some((place, url.and_then(Value::as_str)?)))
}

/// Returns the port of an `https://` URL.
fn https_port(url: &str) -> Option<u16> {
    Url::parse(url).ok().filter(|url| url.scheme() == "https")?.port_or_known_default()
}
