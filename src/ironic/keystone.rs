//! A token for a password, and the catalogue that says where Ironic is (Identity API v3).

use serde_json::{Value, json};
use ureq::http::Method;

use super::access::{self, Keystone, Scope};
use super::error::{IronicError, reason};
use super::wire;

/// What stands for the user until it expires.
pub(super) struct Token {
    /// The value of `X-Auth-Token`.
    pub(super) text: String,
    /// Where Ironic is.
    pub(super) endpoint: String,
}

/// Asks for a token. `endpoint`, where given, is not looked up.
pub(super) fn token(
    http: &ureq::Agent,
    keystone: &Keystone,
    endpoint: Option<&str>,
) -> Result<Token, IronicError> {
    let scope = match &keystone.scope {
        Scope::System => json!({"system": {"all": true}}),
        Scope::Project { name, domain } => json!({"project": {"name": name, "domain": {"name": domain}}}),
    };
    let user = json!({
        "name": keystone.user, "domain": {"name": keystone.user_domain}, "password": keystone.password,
    });
    let identity = json!({"methods": ["password"], "password": {"user": user}});
    let body = json!({"auth": {"identity": identity, "scope": scope}});
    let request = "POST /v3/auth/tokens";
    let url = format!("{}/v3/auth/tokens", keystone.url);
    let answer = wire::exchange(http, &Method::POST, &url, &[], Some(&body))?;
    match answer.status {
        200..=299 => {}
        401 => {
            let reason = reason(401, &answer.body);
            return Err(IronicError::Unauthorized { address: wire::address(&url), reason });
        }
        status => {
            let reason = reason(status, &answer.body);
            return Err(IronicError::Refused { request: request.to_owned(), status, reason });
        }
    }
    let protocol = |problem: &str| IronicError::Protocol { request: request.into(), problem: problem.into() };
    let text = answer.header("X-Subject-Token").ok_or_else(|| protocol("it holds no token"))?.to_owned();
    let endpoint = match endpoint {
        Some(endpoint) => endpoint.to_owned(),
        None => {
            let found = find(&answer.json(request)?, keystone)?;
            access::http_url(&found, "endpoint", "/v1")
                .map_err(|_| protocol("the endpoint in the catalogue is no URL"))?
        }
    };
    Ok(Token { text, endpoint })
}

/// Ironic's endpoint in the catalogue of a token.
fn find(document: &Value, keystone: &Keystone) -> Result<String, IronicError> {
    let list =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let services = document.pointer("/token").map(|token| list(token, "catalog")).unwrap_or_default();
    let is = |value: &Value, key: &str, text: &str| value.get(key).and_then(Value::as_str) == Some(text);
    services
        .iter()
        .filter(|service| is(service, "type", "baremetal"))
        .flat_map(|service| list(service, "endpoints"))
        .filter(|endpoint| is(endpoint, "interface", &keystone.interface))
        .filter(|endpoint| {
            let region = keystone.region.as_deref();
            region.is_none_or(|region| is(endpoint, "region", region) || is(endpoint, "region_id", region))
        })
        .find_map(|endpoint| endpoint.get("url").and_then(Value::as_str).map(str::to_owned))
        .ok_or_else(|| IronicError::NotInCatalogue {
            interface: keystone.interface.clone(),
            region: keystone
                .region
                .as_ref()
                .map(|region| format!(" in region '{region}'"))
                .unwrap_or_default(),
        })
}
