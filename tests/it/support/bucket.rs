//! Buckets on loopback servers. All tests of this process share one server per service, which ends with the
//! process:
//!
//! - S3: moto's;
//! - Azure: Azurite, Microsoft's own for tests, which checks signatures;
//! - Google: moto's behind a small adapter for Google's dialect, because no package registry has a server for
//!   it.
//!
//! `tests/run` installs them below the target directory, from PyPI and npm.

use super::process::{lines, prepare, receive};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::World;

/// The key that signs requests, which must never be shown. It is base64, as Azure's keys are.
pub(crate) const SECRET: &str = "bW9ub3BpbGUtY2FuYXJ5LXNlY3JldA==";

/// The name of Azure's account. With this name, the account is part of the URL's path.
const ACCOUNT: &str = "devstoreaccount1";

/// The protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    S3,
    Azure,
    Gcs,
}

/// A server. It ends with this process, whose end closes the server's standard input.
struct Server {
    port: u16,
    /// The query string with a token for access.
    query: String,
    _child: Child,
}

/// A bucket of one test.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    pub service: Service,
    pub endpoint: String,
    /// The endpoint of a proxy in front of the server, if any.
    pub front: Option<String>,
    pub name: String,
    /// The duration of leases in the bucket.
    pub lease: &'static str,
}

/// Returns the server of a service, which is started once for all tests.
fn server(service: Service) -> &'static Server {
    static SERVERS: [OnceLock<Server>; 3] = [const { OnceLock::new() }; 3];
    SERVERS[service as usize].get_or_init(|| {
        let support = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support");
        let tool = |name: &str, program: &str| -> PathBuf {
            let tool = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools").join(name);
            assert!(tool.join(program).exists(), "nothing in '{}': tests/run installs it", tool.display());
            tool
        };
        let mut command = match service {
            Service::S3 | Service::Gcs => {
                let mut python = prepare(tool("s3", "bin/python").join("bin/python"));
                python.arg(support.join("s3/serve.py"));
                python.arg(if service == Service::S3 { "s3" } else { "gs" });
                python
            }
            Service::Azure => {
                let mut node = prepare(tool("azure", "node").join("node"));
                node.arg(support.join("azure/serve.js"))
                    .arg(tool("azure", "node_modules"))
                    .args([ACCOUNT, SECRET]);
                node
            }
        };
        use std::os::unix::process::CommandExt;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let line =
            receive("the server says its port", &lines(child.stdout.take().unwrap())).unwrap_or_default();
        let (port, query) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        Server { port: port.parse().unwrap(), query: query.to_owned(), _child: child }
    })
}

impl Bucket {
    /// Creates an S3 bucket.
    pub(crate) fn new() -> Bucket {
        Bucket::of(Service::S3)
    }

    /// Creates a bucket of this service.
    pub(crate) fn of(service: Service) -> Bucket {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let endpoint = format!("http://127.0.0.1:{}", server(service).port);
        let name = format!("bucket-{}", NEXT.fetch_add(1, Ordering::SeqCst));
        // A machine that runs many tests may be slow to renew a lease.
        let bucket = Bucket { service, endpoint, front: None, name, lease: "12s" };
        let query = if service == Service::Azure { "restype=container" } else { "" };
        bucket.send_request("PUT", "", query, Some(b"")).unwrap();
        bucket
    }

    /// Returns the port of the bucket's server.
    pub(crate) fn port(&self) -> u16 {
        server(self.service).port
    }

    /// Returns the URL of a state in the bucket.
    pub(crate) fn url(&self, key: &str) -> String {
        let scheme = match self.service {
            Service::S3 => "s3",
            Service::Azure => "az",
            Service::Gcs => "gs",
        };
        format!("{scheme}://{}/{key}", self.name)
    }

    /// Adds the credentials and the endpoint to a command.
    pub(crate) fn set_credentials(&self, command: &mut Command) {
        command.env("MONOPILE_STATE_LEASE", self.lease);
        let endpoint = self.front.as_ref().unwrap_or(&self.endpoint);
        match self.service {
            Service::S3 => command
                .env("AWS_ENDPOINT_URL", endpoint)
                .env("AWS_ACCESS_KEY_ID", "AKIATESTS")
                .env("AWS_SECRET_ACCESS_KEY", SECRET)
                .env("AWS_REGION", "eu-central-1"),
            Service::Azure => command
                .env("AZURE_STORAGE_ENDPOINT", format!("{endpoint}/{ACCOUNT}"))
                .env("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
                .env("AZURE_STORAGE_ACCOUNT_KEY", SECRET),
            Service::Gcs => {
                let key = serde_json::json!({
                    "private_key": SECRET, "private_key_id": "tests", "client_email": "tests@example.com",
                    "gcs_base_url": endpoint, "disable_oauth": true,
                });
                command.env("GOOGLE_SERVICE_ACCOUNT_KEY", key.to_string())
            }
        };
    }

    /// Returns a token for access without the key (Azure's SAS), if the service has one.
    pub(crate) fn token(&self) -> &'static str {
        &server(self.service).query
    }

    fn send_request(&self, method: &str, path: &str, query: &str, body: Option<&[u8]>) -> Option<Vec<u8>> {
        let root = if self.service == Service::Azure { format!("/{ACCOUNT}") } else { String::new() };
        let query = format!("{query}&{}", server(self.service).query);
        let url = format!("{}{root}/{}{path}?{}", self.endpoint, self.name, query.trim_matches('&'));
        let mut request = ureq::http::Request::builder().method(method).uri(url.trim_end_matches('?'));
        request = match self.service {
            Service::Azure => {
                request.header("x-ms-version", "2021-12-02").header("x-ms-blob-type", "BlockBlob")
            }
            // The server checks only that a request is signed.
            Service::S3 | Service::Gcs => request.header("authorization", "AWS tests:unsigned"),
        };
        let agent = super::ironic::http();
        let mut response = match body {
            Some(body) => agent.run(request.body(body).unwrap()),
            None => agent.run(request.body(()).unwrap()),
        }
        .unwrap();
        // Without a limit of its own, the client refuses more than 10 MiB.
        let bytes = response.body_mut().with_config().limit(64 << 20).read_to_vec().unwrap();
        response.status().is_success().then_some(bytes)
    }

    /// Returns an object.
    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.send_request("GET", &format!("/{key}"), "", None)
    }

    /// Returns the text of an existing object.
    pub(crate) fn read(&self, key: &str) -> String {
        String::from_utf8(self.get(key).unwrap_or_else(|| panic!("no object '{key}'"))).unwrap()
    }

    /// Creates or replaces an object.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) {
        self.send_request("PUT", &format!("/{key}"), "", Some(bytes)).unwrap();
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, key: &str) {
        self.send_request("DELETE", &format!("/{key}"), "", None).unwrap();
    }

    /// Returns the keys of all objects.
    pub(crate) fn keys(&self) -> Vec<String> {
        let (query, tag) = match self.service {
            Service::Azure => ("restype=container&comp=list", "<Name>"),
            Service::S3 | Service::Gcs => ("list-type=2", "<Key>"),
        };
        let text = String::from_utf8(self.send_request("GET", "", query, None).unwrap()).unwrap();
        let keys = text.split(tag).skip(1);
        keys.map(|rest| rest.split("</").next().unwrap().to_owned()).filter(|key| *key != self.name).collect()
    }

    /// Copies all objects into the working directory of a world, and replaces earlier copies.
    pub(crate) fn mirror(&self, state: &str, world: &World) {
        for entry in std::fs::read_dir(world.path("")).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with(state) {
                let path = entry.path();
                let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
            }
        }
        for key in self.keys() {
            if let Some(bytes) = self.get(&key) {
                world.write(&key, bytes);
            }
        }
    }
}
