//! Gets a token from Keystone for a password, and Ironic's endpoint from its catalogue (Identity API v3).

use serde_json::{Value, json};
use ureq::http::Method;

use super::access::{self, Keystone, Scope};
use super::error::{IronicError, reason};
use super::wire;

/// A token of Keystone, with the endpoint to use it at.
pub(super) struct Token {
    /// The value of the header `X-Auth-Token`.
    pub(super) text: String,
    /// Ironic's URL, without `/v1`.
    pub(super) endpoint: String,
}

/// Requests a token. Looks Ironic's endpoint up in the catalogue unless `endpoint` is given.
pub(super) fn request_token(
    http: &ureq::Agent,
    keystone: &Keystone,
    endpoint: Option<&str>,
) -> Result<Token, IronicError> {
    let scope = match &keystone.scope {
        Scope::System => json!({"system": {"all": true}}),
        Scope::Project { name, domain } => json!({"project": {"name": name, "domain": {"name": domain}}}),
    };
    let user = json!({
        "name": keystone.user, "domain": {"name": keystone.user_domain},
        "password": keystone.password.expose(),
    });
    let identity = json!({"methods": ["password"], "password": {"user": user}});
    let body = json!({"auth": {"identity": identity, "scope": scope}});
    let request = "POST /v3/auth/tokens";
    let url = format!("{}/v3/auth/tokens", keystone.url);
    let answer = wire::exchange(http, &Method::POST, &url, &[], Some(&body))?;
    match answer.status {
        200..=299 => {}
        401 => {
            let reason = reason(&answer.body);
            return Err(IronicError::Unauthorized { address: wire::address(&url), reason });
        }
        status => {
            let reason = reason(&answer.body);
            return Err(IronicError::Refused { request: request.to_owned(), status, reason });
        }
    }
    let protocol_error =
        |problem: &str| IronicError::Protocol { request: request.into(), problem: problem.into() };
    let text =
        answer.header("X-Subject-Token").ok_or_else(|| protocol_error("it holds no token"))?.to_owned();
    let endpoint = match endpoint {
        Some(endpoint) => endpoint.to_owned(),
        None => {
            let endpoint = find_endpoint(&answer.parse_json(request)?, keystone)?;
            access::check_http_url(&endpoint, "endpoint", &str::to_owned, "/v1").map_err(|_| {
                protocol_error("its catalogue has an endpoint of Ironic that is not a usable URL")
            })?
        }
    };
    Ok(Token { text, endpoint })
}

/// Returns Ironic's endpoint from the catalogue in `document`, the answer that holds the token.
fn find_endpoint(document: &Value, keystone: &Keystone) -> Result<String, IronicError> {
    let list =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let services = document.pointer("/token").map(|token| list(token, "catalog")).unwrap_or_default();
    let has_text =
        |value: &Value, key: &str, text: &str| value.get(key).and_then(Value::as_str) == Some(text);
    services
        .iter()
        .filter(|service| has_text(service, "type", "baremetal"))
        .flat_map(|service| list(service, "endpoints"))
        .filter(|endpoint| has_text(endpoint, "interface", &keystone.interface))
        .filter(|endpoint| {
            let region = keystone.region.as_deref();
            region.is_none_or(|region| {
                has_text(endpoint, "region", region) || has_text(endpoint, "region_id", region)
            })
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
