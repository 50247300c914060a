//! Tests of behaviour that a real Ironic does not show on demand: old versions, an expiring token, a lock
//! that goes away, a list that repeats itself. `tests/it/baremetal` tests the rest against a real Ironic.

use serde_json::json;

use super::http::{Request, Server, answer};
use super::*;
use crate::{AccessSettings, Collection, ListOptions, Patch};
use base::JsonObject;

const VERSIONS: [(&str, &str); 2] =
    [("X-OpenStack-Ironic-API-Minimum-Version", "1.1"), ("X-OpenStack-Ironic-API-Maximum-Version", "1.58")];

/// Starts a server that answers the request for its versions itself, and passes all others to `more`. The
/// second argument of `more` counts its calls from 0.
fn server(answer_others: impl Fn(&Request, usize) -> Vec<u8> + Send + Sync + 'static) -> Server {
    Server::start(move |request, number| match request.path() {
        "/v1/" => answer("200 OK", &VERSIONS, b"{}"),
        _ => answer_others(request, number - 1),
    })
}

fn settings(server: &Server) -> AccessSettings {
    AccessSettings { endpoint: Some(server.url("")), ..AccessSettings::default() }
}

fn connect(settings: AccessSettings) -> Result<Client, IronicError> {
    Client::connect(settings.check(&base::redact::Redactor::default()).unwrap())
}

fn fault(status: &str, reason: &str) -> Vec<u8> {
    let inner = json!({"faultcode": "Client", "faultstring": reason}).to_string();
    answer(status, &[], json!({"error_message": inner}).to_string().as_bytes())
}

fn ok(body: serde_json::Value) -> Vec<u8> {
    answer("200 OK", &[], body.to_string().as_bytes())
}

#[test]
fn requests_use_the_newest_common_version() {
    let server = server(|_, _| ok(json!({"targets": []})));
    let client = connect(settings(&server)).unwrap();
    assert_eq!(client.version().to_string(), "1.58");
    client.list(Collection::Targets, &ListOptions::default()).unwrap();
    let versions: Vec<Option<String>> = server
        .requests()
        .iter()
        .map(|request| request.header(&VERSION_HEADER.to_lowercase()).map(str::to_owned))
        .collect();
    assert_eq!(versions, [None, Some("1.58".to_owned())]);
}

#[test]
fn other_server_is_named_with_its_address() {
    let server = Server::start(|_, _| answer("404 Not Found", &[], b""));
    let error = connect(settings(&server)).err().unwrap().to_string();
    assert!(error.contains("/v1/ is not the API of Ironic"), "{error}");
}

#[test]
fn unsupported_requests_fail_with_a_pinned_version() {
    let server = server(|_, _| ok(json!({})));
    let connect_at =
        |version: &str| connect(AccessSettings { api_version: Some(version.into()), ..settings(&server) });
    let old_client = connect_at("1.31").unwrap();
    let error = old_client.list(Collection::Targets, &ListOptions::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("need version 1.32") && text.contains("is at 1.31"), "{text}");
    let error = connect_at("1.59").err().unwrap().to_string();
    assert!(error.contains("does not serve version 1.59") && error.contains("1.1 to 1.58"), "{error}");
    assert!(server.requests().iter().all(|request| request.path() == "/v1/"));
}

#[test]
fn changes_are_retried_only_while_the_node_is_locked() {
    let lock_message = "Node 1 is locked by host ci, please retry after the current operation is completed.";
    let server = server(move |_, number| match number {
        0 => fault("409 Conflict", lock_message),
        1 => answer("200 OK", &[], br#"{"uuid": "1"}"#),
        2 => fault("409 Conflict", "A volume target with boot index '0' for the same node already exists."),
        3 => fault("503 Service Unavailable", "busy"),
        _ => fault("409 Conflict", lock_message),
    });
    let warnings = std::sync::Arc::new(Mutex::new(Vec::new()));
    let sink = warnings.clone();
    let client = connect(settings(&server)).unwrap().with_warnings(move |warning| sink.lock().push(warning));
    let client = Client { pause: Duration::from_millis(10), ..client };
    let create = || client.create(Collection::Targets, JsonObject::new());
    assert_eq!(create().unwrap()["uuid"], "1");
    let expected = "POST /v1/volume/targets was refused (409): Node 1 is locked by host ci, please retry \
                    after the current operation is completed; trying again for up to 1 min 00 s";
    assert_eq!(*warnings.lock(), [expected]);
    assert_eq!(create().unwrap_err().refusal(), Some(Refusal::BootIndexTaken));
    assert_eq!(create().unwrap_err().refusal(), Some(Refusal::Other));
    assert_eq!(server.requests().len(), 5);
    let client = connect(settings(&server)).unwrap().with_lock_retry_timeout(Duration::ZERO);
    assert_eq!(client.delete(Collection::Targets, "1").unwrap_err().refusal(), Some(Refusal::Locked));
}

#[test]
fn safe_requests_are_retried_on_server_errors() {
    let server_error = |reason| fault("500 Internal Server Error", reason);
    let server = server(move |_, number| match number {
        // A reading request is always safe to retry.
        0 => server_error("(sqlite3.OperationalError) database is locked"),
        1 => Vec::new(),
        2 => answer("504 Gateway Timeout", &[], b"<html>"),
        3 => ok(json!({"uuid": "1"})),
        // The server did not begin with the request.
        4 => fault("503 Service Unavailable", "no free conductor workers"),
        5 => ok(json!({"uuid": "2"})),
        // The server may have made the change.
        _ => server_error("database is locked"),
    });
    let mut client = connect(settings(&server)).unwrap();
    client.set_outage_timeout(Duration::from_secs(60));
    client.pause = Duration::from_millis(10);
    assert_eq!(client.get(Collection::Targets, "1", &[]).unwrap()["uuid"], "1");
    assert_eq!(client.create(Collection::Targets, JsonObject::new()).unwrap()["uuid"], "2");
    for error in [
        client.create(Collection::Targets, JsonObject::new()).unwrap_err(),
        client.delete(Collection::Targets, "1").unwrap_err(),
    ] {
        assert!(error.is_transient() && error.refusal() == Some(Refusal::Other), "{error}");
    }
    assert_eq!(server.requests().len(), 9);
    client.set_outage_timeout(Duration::ZERO);
    assert!(client.get(Collection::Targets, "1", &[]).unwrap_err().is_transient());
    assert_eq!(server.requests().len(), 10);
}

#[test]
fn list_that_repeats_its_page_is_an_error() {
    let page = |request: &Request, _: usize| {
        assert!(request.path().contains("node=n1"), "{}", request.path());
        ok(json!({"targets": [{"uuid": "1"}], "next": "http://elsewhere/"}))
    };
    let server = server(page);
    let error = connect(settings(&server)).unwrap().list(Collection::Targets, &ListOptions::for_node("n1"));
    assert!(error.unwrap_err().to_string().contains("it repeats the page before it"));
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn refused_values_are_not_sent() {
    let server = server(|_, _| ok(json!({})));
    let client = connect(settings(&server)).unwrap();
    let bad = json!({"properties": {"target_iqn": "iqn.x\nshell"}});
    assert!(client.create(Collection::Targets, bad.as_object().unwrap().clone()).is_err());
    let patch = Patch::new().set(&["properties", "auth_password"], "******");
    assert!(client.update(Collection::Targets, "1", &patch).is_err());
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn passwords_that_a_server_shows_are_masked() {
    let target = json!({"uuid": "1", "properties": {"auth_password": "hush", "auth_username": "u"}});
    let targets = json!({"targets": [target]});
    let server = server(move |request, _| match request.path().contains('?') {
        true => ok(targets.clone()),
        false => ok(target.clone()),
    });
    let client = connect(settings(&server)).unwrap();
    let one = client.get(Collection::Targets, "1", &[]).unwrap();
    let all = client.list(Collection::Targets, &ListOptions::default()).unwrap();
    for object in [&one, &all[0]] {
        assert_eq!(object["properties"], json!({"auth_password": "******", "auth_username": "u"}));
    }
}

#[test]
fn token_is_fetched_from_keystone_and_renewed() {
    let ironic = server(|request, _| match request.header("x-auth-token") {
        Some("second") => ok(json!({"targets": []})),
        _ => answer("401 Unauthorized", &[], b"expired"),
    });
    let catalogue = json!({"token": {"catalog": [
        {"type": "compute", "endpoints": [{"interface": "public", "region": "one", "url": "http://wrong"}]},
        {"type": "baremetal", "endpoints": [
            {"interface": "internal", "region": "one", "url": "http://wrong"},
            {"interface": "public", "region": "two", "url": "http://wrong"},
            {"interface": "public", "region": "one", "url": ironic.url("/v1")},
        ]},
    ]}});
    let keystone = Server::start(move |_, number| {
        let token = if number == 0 { "first" } else { "second" };
        answer("201 Created", &[("X-Subject-Token", token)], catalogue.to_string().as_bytes())
    });
    let settings = |region: &str| AccessSettings {
        auth_url: Some(keystone.url("/v3")),
        username: Some("me".into()),
        password: Some("s3cret".into()),
        project_name: Some("metal".into()),
        region_name: Some(region.into()),
        ..AccessSettings::default()
    };
    let client = connect(settings("one")).unwrap();
    client.list(Collection::Targets, &ListOptions::default()).unwrap();
    let requests = keystone.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].line, "POST /v3/auth/tokens HTTP/1.1");
    let body: serde_json::Value = serde_json::from_slice(&requests[0].body).unwrap();
    let user = json!({"name": "me", "domain": {"name": "Default"}, "password": "s3cret"});
    let expected = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": user}},
        "scope": {"project": {"name": "metal", "domain": {"name": "Default"}}},
    }});
    assert_eq!(body, expected);
    let error = connect(settings("three")).err().unwrap().to_string();
    assert!(error.contains("'public'") && error.contains("region 'three'"), "{error}");
}

#[test]
fn error_for_a_wrong_password_does_not_quote_it() {
    let body =
        br#"{"error": {"code": 401, "message": "The request you have made requires authentication."}}"#;
    let keystone = Server::start(|_, _| answer("401 Unauthorized", &[], body));
    let settings = AccessSettings {
        auth_url: Some(keystone.url("")),
        username: Some("me".into()),
        password: Some("s3cret".into()),
        system_scope: Some("all".into()),
        ..AccessSettings::default()
    };
    let error = connect(settings).err().unwrap();
    assert!(matches!(error, IronicError::Unauthorized { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("requires authentication") && !text.contains("s3cret"), "{text}");
}

#[test]
fn server_certificate_is_checked_against_the_given_ca() {
    let (server, pem) = Server::start_tls(|_, _| answer("200 OK", &VERSIONS, b"{}"));
    let connect_with_ca = |cacert| connect(AccessSettings { cacert, ..settings(&server) });
    assert!(connect_with_ca(Some(pem)).is_ok());
    let error = connect_with_ca(None).err().unwrap();
    assert!(matches!(error, IronicError::Untrusted { .. }), "{error}");
}

#[test]
fn server_other_than_ironic_is_an_error() {
    let server = Server::start(|_, _| answer("200 OK", &[], b"<html>"));
    let error = connect(settings(&server)).err().unwrap().to_string();
    assert!(error.contains("is not the API of Ironic"), "{error}");
    let settings =
        AccessSettings { endpoint: Some("http://127.0.0.1:9".into()), ..AccessSettings::default() };
    assert!(matches!(connect(settings), Err(IronicError::Unreachable { .. })));
}
