//! A real S3 server on loopback: moto's. One for all tests of this process, with which it ends; a bucket for each.
//!
//! `tests/run` installs it below the target directory, from PyPI.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::World;

/// What signs requests; nobody may ever see it.
pub const SECRET: &str = "s3-canary-secret-access-key";

/// The server. It ends with this process, whose end of its standard input that closes.
struct Server {
    port: u16,
    _child: Child,
}

/// A bucket of one test.
#[derive(Debug, Clone)]
pub struct Bucket {
    pub endpoint: String,
    pub name: String,
    /// How long a lease lasts there.
    pub lease: &'static str,
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools/s3");
        let python = venv.join("bin/python");
        assert!(python.exists(), "no moto in '{}': tests/run installs it", venv.display());
        let serve = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/s3/serve.py");
        use std::os::unix::process::CommandExt;
        let mut child = Command::new(python)
            .arg(serve)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Server { port: line.trim().parse().unwrap(), _child: child }
    })
}

impl Bucket {
    /// A new one.
    pub fn new() -> Bucket {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let endpoint = format!("http://127.0.0.1:{}", server().port);
        let name = format!("bucket-{}", NEXT.fetch_add(1, Ordering::SeqCst));
        // A machine that runs many tests at a time may be slow to renew one.
        let bucket = Bucket { endpoint, name, lease: "12s" };
        bucket.ask("PUT", "", Some(b"")).unwrap();
        bucket
    }

    /// The URL of a state in it.
    pub fn url(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.name)
    }

    /// Lets a command get at it.
    pub fn let_in(&self, command: &mut Command) {
        command
            .env("AWS_ENDPOINT_URL", &self.endpoint)
            .env("AWS_ACCESS_KEY_ID", "AKIATESTS")
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env("AWS_REGION", "eu-central-1")
            .env("MONOPILE_STATE_LEASE", self.lease);
    }

    fn ask(&self, method: &str, path: &str, body: Option<&[u8]>) -> Option<Vec<u8>> {
        let url = format!("{}/{}{path}", self.endpoint, self.name);
        let request = ureq::http::Request::builder().method(method).uri(url);
        // It looks whether a request is signed, and not how.
        let request = request.header("authorization", "AWS tests:unsigned");
        let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().new_agent();
        let mut response = match body {
            Some(body) => agent.run(request.body(body).unwrap()),
            None => agent.run(request.body(()).unwrap()),
        }
        .unwrap();
        let bytes = response.body_mut().read_to_vec().unwrap();
        response.status().is_success().then_some(bytes)
    }

    /// An object.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.ask("GET", &format!("/{key}"), None)
    }

    /// An object that is there, as text.
    pub fn read(&self, key: &str) -> String {
        String::from_utf8(self.get(key).unwrap_or_else(|| panic!("no object '{key}'"))).unwrap()
    }

    /// Makes or replaces an object.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        self.ask("PUT", &format!("/{key}"), Some(bytes)).unwrap();
    }

    /// Removes an object.
    pub fn delete(&self, key: &str) {
        self.ask("DELETE", &format!("/{key}"), None).unwrap();
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<String> {
        let listed = String::from_utf8(self.ask("GET", "?list-type=2", None).unwrap()).unwrap();
        let keys = listed.split("<Key>").skip(1);
        keys.map(|rest| rest.split("</Key>").next().unwrap().to_owned()).collect()
    }

    /// Copies all of it into the working directory of a world, in the place of what was copied before.
    pub fn mirror(&self, state: &str, world: &World) {
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
