//! Compares `cloud_provider.mbus` with the URL at which the agent of a new VM will listen. If they differ by
//! mistake, the new VM replaces a VM that works, and cannot be used.

use serde_json::Value;
use url::Url;

use base::encoding::percent_decode;
use base::{Error, Result};
use manifest::Deployment;

/// Fails if the agent of a new VM would refuse the user and password of this run.
pub(super) fn check_credentials(deployment: &Deployment) -> Result<()> {
    let provider = &deployment.cloud_provider;
    let credentials = |url: &str| {
        let url = https_url(url)?;
        Some((percent_decode(url.username()), percent_decode(url.password().unwrap_or_default())))
    };
    let Some((place, agent_url)) = agent_url(deployment) else { return Ok(()) };
    let (agent_credentials, run_credentials) = (credentials(agent_url), credentials(provider.mbus.expose()));
    if agent_credentials.is_none() || agent_credentials == run_credentials {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`cloud_provider.mbus` ({}) and `{place}` have different users or passwords",
        provider.mbus_place
    ))
    .with_source("the new VM's agent accepts those of the second, and this run uses those of the first")
    .with_note("nothing was changed in the IaaS")
    .with_hint("give both the same user and password: https://USER:PASSWORD@HOST:PORT"))
}

/// Returns the warning for ports that differ. They may differ on purpose, if something forwards the port.
pub(super) fn port_warning(deployment: &Deployment) -> Option<String> {
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
    // A CPI of the CPI config has properties of its own.
    let properties = deployment.cpi().is_none().then_some(&deployment.cloud_provider.properties);
    let property =
        properties.and_then(|properties| properties.get("agent")).and_then(|agent| agent.get("mbus"));
    let mbus_places = [("env.bosh.mbus.urls", env), ("cloud_provider.properties.agent.mbus", property)];
    mbus_places.into_iter().find_map(|(place, url)| Some((place, url.and_then(Value::as_str)?)))
}

/// Returns the port of an `https://` URL.
fn https_port(url: &str) -> Option<u16> {
    https_url(url)?.port_or_known_default()
}

/// Parses an `https://` URL.
fn https_url(url: &str) -> Option<Url> {
    Url::parse(url).ok().filter(|url| url.scheme() == "https")
}
