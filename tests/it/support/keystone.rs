//! A real Keystone on loopback, for an Ironic that authenticates users with it. It ends on drop, and with the
//! test process. `tests/run` installs it beside Ironic.

use super::process::WaitForEnd;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::free_port;
use super::ironic::{create_scratch, http, serve};

const START_TIMEOUT: Duration = super::process::WAIT_TIMEOUT;
const ADMIN: (&str, &str) = ("admin", "adm1npassword");
/// The name of the only project.
pub(crate) const PROJECT: &str = "metal";
/// The name of the only region.
pub(crate) const REGION: &str = "one";

/// A running Keystone.
pub(crate) struct Keystone {
    port: u16,
    http: ureq::Agent,
    /// The admin's token for the whole system.
    token: String,
    child: Child,
}

/// A user known to Keystone.
pub(crate) struct User {
    id: String,
    pub name: &'static str,
    pub password: &'static str,
}

impl Keystone {
    pub(crate) fn start() -> Keystone {
        let directory = create_scratch();
        let port = free_port();
        let config = include_str!("ironic/keystone.conf").replace("@DIRECTORY@", directory.to_str().unwrap());
        std::fs::write(directory.join("keystone.conf"), config).unwrap();
        let child = serve(&directory, &["keystone", &port.to_string(), ADMIN.0, ADMIN.1]);
        let mut keystone = Keystone { port, http: http(), token: String::new(), child };
        let start = Instant::now();
        keystone.token = loop {
            if let Some(token) = keystone.log_in() {
                break token;
            }
            if start.elapsed() > START_TIMEOUT {
                let output = std::fs::read_to_string(directory.join("output")).unwrap_or_default();
                panic!("Keystone does not come up in '{}':\n{output}", directory.display());
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        keystone
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns a token with all rights.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    fn log_in(&self) -> Option<String> {
        let user = json!({"name": ADMIN.0, "domain": {"id": "default"}, "password": ADMIN.1});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        let body = json!({"auth": {"identity": identity, "scope": {"system": {"all": true}}}});
        let request = ureq::http::Request::post(format!("{}/v3/auth/tokens", self.url()));
        let request = request.header("Content-Type", "application/json").body(body.to_string()).unwrap();
        let answer = self.http.run(request).ok().filter(|answer| answer.status() == 201)?;
        Some(answer.headers()["X-Subject-Token"].to_str().unwrap().to_owned())
    }

    /// Sends a request as admin, which must succeed.
    #[track_caller]
    fn call(&self, method: &str, path: &str, body: Value) -> Value {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}/v3/{path}", self.url()))
            .header("Content-Type", "application/json")
            .header("X-Auth-Token", &self.token);
        let mut answer = match body {
            Value::Null => self.http.run(request.body(()).unwrap()),
            body => self.http.run(request.body(body.to_string()).unwrap()),
        }
        .expect("Keystone answers");
        let text = answer.body_mut().read_to_string().unwrap();
        assert!(answer.status().is_success(), "{method} {path}: {} {text}", answer.status());
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Returns the id of the only resource with this name.
    fn id(&self, kind: &str, name: &str) -> String {
        let resources = self.call("GET", &format!("{kind}?name={name}"), Value::Null);
        resources[kind][0]["id"].as_str().unwrap().to_owned()
    }

    /// Creates a user with this role in the project and the system.
    pub(crate) fn create_user(&self, name: &'static str, password: &'static str, role: &str) -> User {
        let user = json!({"user": {"name": name, "domain_id": "default", "password": password}});
        let user = self.call("POST", "users", user);
        let id = user["user"]["id"].as_str().unwrap().to_owned();
        let (project, role) = (self.id("projects", PROJECT), self.id("roles", role));
        for place in ["system".to_owned(), format!("projects/{project}")] {
            self.call("PUT", &format!("{place}/users/{id}/roles/{role}"), Value::Null);
        }
        User { id, name, password }
    }

    /// Revokes all tokens of a user.
    pub(crate) fn revoke_tokens(&self, user: &User) {
        let same = json!({"user": {"password": user.password}});
        self.call("PATCH", &format!("users/{}", user.id), same);
        // Keystone stores the time of revocation in whole seconds, and tokens from a later second are valid.
        std::thread::sleep(Duration::from_millis(1100));
    }

    /// Deletes a user.
    pub(crate) fn delete_user(&self, user: &User) {
        self.call("DELETE", &format!("users/{}", user.id), Value::Null);
    }

    /// Registers Ironic's endpoint in the catalogue.
    pub(crate) fn add_endpoint(&self, ironic: &str) {
        let service = self.call("POST", "services", json!({"service": {"type": "baremetal"}}));
        let id = &service["service"]["id"];
        for (interface, url) in [("public", ironic), ("internal", "http://127.0.0.1:9")] {
            let endpoint = json!({"service_id": id, "interface": interface, "url": url, "region_id": REGION});
            self.call("POST", "endpoints", json!({"endpoint": endpoint}));
        }
    }

    /// Returns the part of Ironic's configuration that names this Keystone.
    pub(super) fn middleware(&self) -> String {
        let (url, (user, password)) = (self.url(), ADMIN);
        format!(
            "[keystone_authtoken]\nauth_type=password\nauth_url={url}\nwww_authenticate_uri={url}\n\
             username={user}\npassword={password}\nuser_domain_id=default\n\
             project_name={PROJECT}\nproject_domain_id=default\n\
             # Always asked, so that what is revoked is worthless at once.\ntoken_cache_time=-1\n"
        )
    }
}

impl Drop for Keystone {
    fn drop(&mut self) {
        self.child.stop();
    }
}
