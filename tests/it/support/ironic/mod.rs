//! A real Ironic on loopback with simulated machines (driver `fake-hardware`). Tests take turns with a few
//! Ironics, which end with the test process.
//!
//! `tests/run` installs it below the target directory, from PyPI.

use super::process::{RunToEnd, WAIT_TIMEOUT, WaitForEnd, name_wait, prepare};
use std::io::{BufRead, BufReader, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::keystone::Keystone;
use super::{World, free_port};

/// The timeout of its start: it imports much of OpenStack on a machine that may be compiling.
const START_TIMEOUT: Duration = WAIT_TIMEOUT;
const API_VERSION: &str = "1.115";

/// A running Ironic.
pub(crate) struct Ironic {
    port: u16,
    directory: PathBuf,
    http: ureq::Agent,
    /// The header that identifies the user of a request.
    identity: Option<(&'static str, String)>,
    child: Child,
}

/// The authentication that an Ironic requires.
pub(crate) enum RequiredAuth<'k> {
    /// No authentication.
    None,
    /// HTTP basic authentication with this user and password.
    Basic(&'static str, &'static str),
    /// Tokens of this Keystone.
    Keystone(&'k Keystone),
}

/// A simulated machine.
pub(crate) struct Node {
    pub name: String,
    pub uuid: String,
    pub initiator: String,
    pub resource_class: String,
}

/// The maximum number of Ironics that tests share. Tests spend most of their time in waits for it, and
/// starting one takes seconds of processor time.
const MAX_SHARED: usize = 3;

/// The Ironics that tests share.
struct Pool {
    state: Mutex<PoolState>,
    has_free: Condvar,
}

struct PoolState {
    free: Vec<&'static Ironic>,
    /// The number of Ironics that were started.
    start_count: usize,
}

static POOL: Pool =
    Pool { state: Mutex::new(PoolState { free: Vec::new(), start_count: 0 }), has_free: Condvar::new() };

/// Exclusive use of a shared Ironic.
pub(crate) struct ExclusiveIronic {
    ironic: &'static Ironic,
}

impl ExclusiveIronic {
    /// Returns the Ironic for a thread that ends before the exclusive use ends.
    pub(crate) fn for_thread(&self) -> &'static Ironic {
        self.ironic
    }
}

impl Deref for ExclusiveIronic {
    type Target = Ironic;

    fn deref(&self) -> &Ironic {
        self.ironic
    }
}

impl Drop for ExclusiveIronic {
    fn drop(&mut self) {
        POOL.lock().free.push(self.ironic);
        POOL.has_free.notify_one();
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for exclusive use of a shared Ironic. Its SQLite database fails when two requests write at once,
/// and a conductor may then forget its work.
pub(crate) fn lock_shared_ironic() -> ExclusiveIronic {
    let _wait = name_wait("a turn with an Ironic that tests share");
    let mut state = POOL.lock();
    loop {
        if let Some(ironic) = state.free.pop() {
            return ExclusiveIronic { ironic };
        }
        if state.start_count < MAX_SHARED {
            state.start_count += 1;
            drop(state);
            return ExclusiveIronic { ironic: Box::leak(Box::new(Ironic::start(&RequiredAuth::None))) };
        }
        state = POOL.has_free.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

pub(super) fn venv() -> PathBuf {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("tools/ironic");
    assert!(venv.join("bin/ironic").exists(), "no Ironic in '{}': tests/run installs it", venv.display());
    venv
}

/// Runs a service of the virtual environment until its standard input is closed.
pub(super) fn serve(directory: &Path, service: &[&str]) -> Child {
    use std::os::unix::process::CommandExt;
    prepare("sh")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/ironic/run"))
        .args([&venv(), directory])
        .args(service)
        .env("HOME", directory)
        .env("TMPDIR", directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Signals from the terminal must not reach the service, because it notices the end of the test by
        // itself.
        .process_group(0)
        .spawn()
        .unwrap()
}

/// Creates a directory that the service removes when it ends.
pub(super) fn create_scratch() -> PathBuf {
    tempfile::Builder::new().prefix("mp-ironic-").tempdir_in(super::scratch_root()).unwrap().keep()
}

/// Returns a client that accepts every status.
pub(crate) fn http() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false).max_idle_connections(0);
    config.proxy(None).timeout_global(Some(Duration::from_secs(60))).build().new_agent()
}

impl Ironic {
    /// Starts an Ironic for one test. It ends on drop.
    pub(crate) fn start(required_auth: &RequiredAuth) -> Ironic {
        let directory = create_scratch();
        for name in ["httpboot", "tftpboot/master_images", "master_images", "images"] {
            std::fs::create_dir_all(directory.join(name)).unwrap();
        }
        let (port, boot_port) = (free_port(), free_port());
        let auth = match required_auth {
            RequiredAuth::None => "noauth".to_owned(),
            RequiredAuth::Basic(user, password) => {
                let script = "import bcrypt, sys; print(bcrypt.hashpw(sys.argv[1].encode(), \
                    bcrypt.gensalt(4)).decode())";
                let hash = prepare(venv().join("bin/python")).args(["-c", script, password]).run_to_end();
                let line = format!("{user}:{}", String::from_utf8(hash.stdout).unwrap());
                std::fs::write(directory.join("htpasswd"), line).unwrap();
                format!("http_basic\nhttp_basic_auth_user_file={}/htpasswd", directory.display())
            }
            RequiredAuth::Keystone(_) => "keystone".to_owned(),
        };
        let mut config = include_str!("ironic.conf")
            .replace("@DIRECTORY@", directory.to_str().unwrap())
            .replace("@PORT@", &port.to_string())
            .replace("@BOOT_PORT@", &boot_port.to_string())
            .replace("@AUTH@", &auth);
        if let RequiredAuth::Keystone(keystone) = required_auth {
            config.push_str(&keystone.middleware());
        }
        std::fs::write(directory.join("ironic.conf"), config).unwrap();
        let child = serve(&directory, &["ironic"]);
        let identity = match required_auth {
            RequiredAuth::None => None,
            RequiredAuth::Basic(user, password) => {
                use base64::Engine;
                let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
                Some(("Authorization", format!("Basic {text}")))
            }
            RequiredAuth::Keystone(keystone) => Some(("X-Auth-Token", keystone.token().to_owned())),
        };
        let ironic = Ironic { port, directory, http: http(), identity, child };
        ironic.wait_until_ready();
        ironic
    }

    fn wait_until_ready(&self) {
        let start = Instant::now();
        while self.try_call("GET", "/v1/drivers/fake-hardware", None).map(|(status, _)| status) != Some(200) {
            if start.elapsed() > START_TIMEOUT {
                panic!("Ironic does not come up in '{}':\n{}", self.directory.display(), self.last_words());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns the end of its log and output.
    fn last_words(&self) -> String {
        let texts = ["output", "ironic.log"].map(|name| {
            let text = std::fs::read(self.directory.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&text[text.len().saturating_sub(8192)..]).into_owned()
        });
        texts.join("\n")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn try_call(&self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url()))
            .header("X-OpenStack-Ironic-API-Version", API_VERSION)
            .header("Content-Type", "application/json");
        if let Some((name, value)) = &self.identity {
            request = request.header(*name, value);
        }
        let text = body.map(Value::to_string).unwrap_or_default();
        let response = match body {
            Some(_) => self.http.run(request.body(text).unwrap()),
            None => self.http.run(request.body(()).unwrap()),
        };
        let mut response = response.ok()?;
        let text = response.body_mut().read_to_string().ok()?;
        Some((response.status().as_u16(), serde_json::from_str(&text).unwrap_or_default()))
    }

    /// Sends a request that must succeed.
    #[track_caller]
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let start = Instant::now();
        loop {
            let (status, answer) = self.try_call(method, path, body.as_ref()).expect("Ironic answers");
            // The request had no effect in this case.
            let is_busy = status >= 500 && answer.to_string().contains("database is locked");
            if !is_busy || start.elapsed() > START_TIMEOUT {
                if !(200..300).contains(&status) {
                    panic!("{method} {path}: {status} {answer}\n{}", self.last_words());
                }
                return answer;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns true if a GET of the path succeeds.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.try_call("GET", path, None).expect("Ironic answers").0 == 200
    }

    /// Creates an available machine that boots from iSCSI, with a network card, an initiator and its own
    /// resource class.
    pub(crate) fn create_node(&self) -> Node {
        let node = self.enroll_node("iscsi_boot:true");
        let connector = json!({"node_uuid": node.uuid, "type": "iqn", "connector_id": node.initiator});
        self.call("POST", "/v1/volume/connectors", Some(connector));
        for (target, state) in [("manage", "manageable"), ("provide", "available")] {
            let path = format!("/v1/nodes/{}/states/provision", node.uuid);
            self.call("PUT", &path, Some(json!({"target": target})));
            self.wait_for(&node, "provision_state", state);
        }
        self.set_power(&node, "power off");
        node
    }

    /// Creates a machine that is only enrolled.
    pub(crate) fn enroll_node(&self, capabilities: &str) -> Node {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let name = format!("machine-{number}");
        let resource_class = format!("class-{number}");
        let body = json!({
            "name": name, "driver": "fake-hardware", "resource_class": resource_class,
            "properties": {"capabilities": capabilities},
        });
        let uuid = self.call("POST", "/v1/nodes", Some(body))["uuid"].as_str().unwrap().to_owned();
        let address = format!("52:54:00:00:{:02x}:{:02x}", number / 256, number % 256);
        self.call("POST", "/v1/ports", Some(json!({"node_uuid": uuid, "address": address})));
        Node { initiator: format!("iqn.2026-11.test.monopile:{name}"), name, uuid, resource_class }
    }

    /// Changes the power state of a machine.
    pub(crate) fn set_power(&self, node: &Node, state: &str) {
        self.call("PUT", &format!("/v1/nodes/{}/states/power", node.uuid), Some(json!({"target": state})));
        self.wait_for(node, "power_state", state);
    }

    fn wait_for(&self, node: &Node, field: &str, value: &str) {
        let start = Instant::now();
        loop {
            let node_json = self.call("GET", &format!("/v1/nodes/{}", node.uuid), None);
            if node_json[field] == value && node_json["reservation"].is_null() {
                return;
            }
            assert!(
                start.elapsed() < START_TIMEOUT,
                "{}: {field} is {} and not {value}",
                node.name,
                node_json[field]
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs a statement in Ironic's database and returns the first column of the first row. Tests use it for
    /// data that the API hides, and for stale locks.
    pub(crate) fn run_sql(&self, statement: &str, arguments: &[&str]) -> String {
        let script = "import sqlite3, sys\n\
            base = sqlite3.connect(sys.argv[1], timeout=30)\n\
            row = base.execute(sys.argv[2], sys.argv[3:]).fetchone()\n\
            base.commit()\n\
            print('' if row is None else row[0], end='')";
        let output = prepare(venv().join("bin/python"))
            .args(["-c", script])
            .arg(self.directory.join("ironic.sqlite"))
            .arg(statement)
            .args(arguments)
            .run_to_end();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns `monopile baremetal` with these arguments.
    pub(crate) fn monopile(&self, world: &World, arguments: &[&str]) -> Command {
        let mut command = world.monopile(["baremetal"].iter().chain(arguments));
        command.env("OS_ENDPOINT", self.url());
        command
    }

    /// Returns the output of the client of OpenStack.
    #[track_caller]
    pub(crate) fn run_reference(&self, arguments: &[&str]) -> String {
        let environment = json!({"OS_AUTH_TYPE": "none", "OS_ENDPOINT": self.url()});
        let answer = ask_reference_client(&json!({"arguments": arguments, "environment": environment}));
        assert_eq!(answer["status"], 0, "{arguments:?}: {answer}");
        answer["stdout"].as_str().unwrap().to_owned()
    }

    /// Returns the JSON output of the client of OpenStack.
    #[track_caller]
    pub(crate) fn run_reference_json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.run_reference(&[arguments, &["-f", "json"]].concat())).unwrap()
    }

    /// Creates a file at a path at which Ironic will create a directory.
    pub(crate) fn obstruct(&self, relative: &str) {
        std::fs::write(self.directory.join(relative), "").unwrap();
    }

    /// Reads a file that Ironic wrote, such as a boot script.
    pub(crate) fn read_file(&self, relative: &str) -> String {
        let path = self.directory.join(relative);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

/// Runs the client of OpenStack once in the process that all tests share, and returns its answer. The process
/// ends with the test process, which holds its standard input.
fn ask_reference_client(request: &Value) -> Value {
    static CLIENT: Mutex<Option<(Child, BufReader<ChildStdout>)>> = Mutex::new(None);
    let _wait = name_wait("OpenStack's client");
    let mut client = CLIENT.lock().unwrap_or_else(PoisonError::into_inner);
    let (child, stdout) = client.get_or_insert_with(|| {
        let mut child = prepare(venv().join("bin/python3"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/ironic/client.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        (child, BufReader::new(stdout))
    });
    writeln!(child.stdin.as_ref().unwrap(), "{request}").unwrap();
    let mut answer = String::new();
    stdout.read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {request}"))
}

impl Drop for Ironic {
    fn drop(&mut self) {
        self.child.stop();
    }
}
