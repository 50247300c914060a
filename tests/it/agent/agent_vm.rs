//! A VM for the agent's tests: settings, a base directory, the agent process, and a client.

use crate::support::process::{WAIT_TIMEOUT, WaitForEnd, lines, prepare, receive};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

pub(crate) const USER: &str = "mbus-user";
pub(crate) const PASSWORD: &str = "mbus-p@ss";

/// A certificate authority with a certificate for 127.0.0.1.
pub(crate) struct Pki {
    pub ca: String,
    pub certificate: String,
    pub key: String,
}

impl Pki {
    pub(crate) fn new() -> Pki {
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca = params.self_signed(&ca_key).unwrap();
        let issuer = rcgen::Issuer::new(params, ca_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Pki { ca: ca.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// The VM. Dropping it ends all processes that it started.
pub(crate) struct AgentVm {
    pub directory: tempfile::TempDir,
    pub pki: Pki,
    agent: Option<Child>,
    pub port: u16,
    client: ureq::Agent,
    log: Arc<Mutex<String>>,
}

impl AgentVm {
    /// Creates a VM whose agent answers.
    pub(crate) fn new() -> AgentVm {
        let mut vm = AgentVm::without_agent();
        vm.start_agent(false);
        vm
    }

    pub(crate) fn without_agent() -> AgentVm {
        let pki = Pki::new();
        let client = client(Some(&pki.ca));
        let directory = crate::support::create_directory();
        let vm = AgentVm { directory, pki, agent: None, port: 0, client, log: Arc::default() };
        vm.write_settings(json!({}));
        vm
    }

    /// Writes settings like the CPI. `extra` replaces top-level keys.
    pub(crate) fn write_settings(&self, extra: Value) {
        let mut settings = json!({
            "agent_id": "agent-1",
            "vm": {"name": "vm-1", "id": "vm-cid-1"},
            "mbus": format!("https://{USER}:{}@127.0.0.1:0", PASSWORD.replace('@', "%40")),
            "networks": {"default": {"type": "dynamic"}},
            "disks": {"persistent": {}},
            "ntp": [],
            "blobstore": {"provider": "local",
            "options": {"blobstore_path": "/var/vcap/micro_bosh/data/cache"}},
            "env": {"bosh": {"mbus": {"cert": {
                "ca": self.pki.ca, "certificate": self.pki.certificate, "private_key": self.pki.key,
            }}}},
        });
        for (key, value) in extra.as_object().unwrap() {
            settings[key] = value.clone();
        }
        std::fs::write(self.settings(), settings.to_string()).unwrap();
    }

    pub(crate) fn settings(&self) -> PathBuf {
        self.directory.path().join("settings.json")
    }

    pub(crate) fn base(&self) -> PathBuf {
        self.directory.path().join("vcap")
    }

    /// Returns the agent's command line in its own mount namespace. With `has_init`, the agent is the child
    /// of another process.
    pub(crate) fn command(&self, has_init: bool) -> Command {
        let mut command = prepare("unshare");
        let is_root = rustix::process::geteuid().is_root();
        command.arg(if is_root { "-m" } else { "-rm" });
        if has_init {
            command.args(["sh", "-c", r#"trap 'kill $!' TERM; "$@" & wait; wait"#, "init"]);
        }
        command
            .arg(env!("CARGO_BIN_EXE_monopile"))
            .arg("agent")
            .arg("--settings")
            .arg(self.settings())
            .arg("--base")
            .arg(self.base())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn start_agent(&mut self, has_init: bool) {
        assert!(self.agent.is_none());
        let mut child = self.command(has_init).process_group(0).spawn().unwrap();
        let stderr = lines(child.stderr.take().unwrap());
        let mut first_lines = String::new();
        self.port = loop {
            let line = receive("the agent says its port", &stderr);
            let line = line.unwrap_or_else(|| panic!("the agent ended: {first_lines}")) + "\n";
            first_lines.push_str(&line);
            if let Some((_, port)) = line.trim().rsplit_once("address=127.0.0.1:") {
                break port.parse().unwrap();
            }
        };
        self.agent = Some(child);
        let log = self.log.clone();
        log.lock().unwrap().push_str(&first_lines);
        std::thread::spawn(move || {
            for line in stderr {
                log.lock().unwrap().push_str(&(line + "\n"));
            }
        });
    }

    /// Returns the agent's log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Ends the agent with this signal, and returns how long it took.
    pub(crate) fn end_agent(&mut self, signal: rustix::process::Signal) -> Duration {
        let mut agent = self.agent.take().unwrap();
        let start = Instant::now();
        let pid = rustix::process::Pid::from_child(&agent);
        rustix::process::kill_process(pid, signal).unwrap();
        agent.end();
        start.elapsed()
    }

    /// Returns a path as seen in the agent's mount namespace.
    pub(crate) fn inside(&self, path: &Path) -> PathBuf {
        let pid = self.agent.as_ref().unwrap().id();
        Path::new(&format!("/proc/{pid}/root")).join(path.strip_prefix("/").unwrap())
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn auth() -> String {
        use base64::Engine;
        let text = base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{PASSWORD}"));
        format!("Basic {text}")
    }

    /// Sends a message, and returns the status and the body.
    pub(crate) fn post(&self, body: &str) -> (u16, String) {
        let response = self
            .client
            .post(self.url("/agent"))
            .header("Authorization", AgentVm::auth())
            .send(body.as_bytes());
        read(response.unwrap())
    }

    /// Sends a message, and returns the whole answer.
    pub(crate) fn send(&self, method: &str, arguments: Value) -> Value {
        let body = json!({"method": method, "arguments": arguments, "reply_to": "director"}).to_string();
        let (status, text) = self.post(&body);
        assert_eq!(status, 200, "{method}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Sends a message, and waits for its task if it starts one. Returns the value or the exception's
    /// message.
    pub(crate) fn call(&self, method: &str, arguments: Value) -> Result<Value, String> {
        let mut answer = self.send(method, arguments);
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < WAIT_TIMEOUT, "{method} does not end: {answer}");
            if let Some(exception) = answer.get("exception") {
                return Err(exception["message"].as_str().unwrap().to_owned());
            }
            let value = answer["value"].clone();
            let Some(task) = value["agent_task_id"].as_str().filter(|_| value["state"] == "running") else {
                return Ok(value);
            };
            std::thread::sleep(Duration::from_millis(3));
            answer = self.send("get_task", json!([task]));
        }
    }

    /// Starts a task and returns its id.
    pub(crate) fn begin(&self, method: &str, arguments: Value) -> String {
        let answer = self.send(method, arguments);
        assert_eq!(answer["value"]["state"], "running", "{answer}");
        answer["value"]["agent_task_id"].as_str().unwrap().to_owned()
    }

    /// Waits for the end of a task.
    pub(crate) fn finish(&self, task: &str) -> Result<Value, String> {
        self.call("get_task", json!([task]))
    }

    pub(crate) fn state(&self) -> Value {
        self.call("get_state", json!([])).unwrap()
    }

    /// Waits until the instance has this state, and returns how long it took.
    pub(crate) fn wait_for(&self, job_state: &str) -> Duration {
        let start = Instant::now();
        loop {
            let state = self.state();
            if state["job_state"] == job_state {
                return start.elapsed();
            }
            assert!(start.elapsed() < Duration::from_secs(15), "not {job_state}: {state}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn request_blob(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(self.url(path))
            .header("Authorization", AgentVm::auth());
        let response = match method {
            "PUT" => self.client.run(request.body(body).unwrap()),
            _ => self.client.run(request.body(()).unwrap()),
        };
        let mut response = response.unwrap();
        let mut content = Vec::new();
        response.body_mut().as_reader().read_to_end(&mut content).unwrap();
        (response.status().as_u16(), content)
    }

    /// Uploads a blob, and returns its id and digest.
    pub(crate) fn upload(&self, content: &[u8]) -> (String, String) {
        let id = uuid::Uuid::new_v4().to_string();
        assert_eq!(self.request_blob("PUT", &format!("/blobs/ab/{id}"), content).0, 201);
        (id, format!("sha256:{}", hex(&Sha256::digest(content))))
    }

    /// Applies a spec with these jobs (name, files) and packages.
    pub(crate) fn apply(&self, jobs: &[(&str, &[(&str, &str)])], packages: Value) -> Result<Value, String> {
        let mut files = Vec::new();
        for (job, content) in jobs {
            files.push((format!("./{job}/"), String::new()));
            files.extend(content.iter().map(|(path, text)| {
                (format!("./{job}/{path}"), text.replace("{base}", self.base().to_str().unwrap()))
            }));
        }
        let entries: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (id, digest) = self.upload(&tarball(&entries));
        let templates: Vec<_> = jobs.iter().map(|(name, _)| json!({"name": name, "version": "v1"})).collect();
        self.call(
            "apply",
            json!([{
                "deployment": "dep", "name": "group", "id": "0", "index": 0, "az": "unknown",
                "job": {"name": "group", "templates": templates},
                "packages": packages,
                "networks": {"default": {"type": "dynamic", "default": ["dns"]}},
                "configuration_hash": digest,
                "rendered_templates_archive": {"blobstore_id": id, "sha1": digest},
            }]),
        )
    }

    /// Returns the PID that a job recorded.
    pub(crate) fn pid(&self, job: &str) -> i32 {
        let path = self.base().join(format!("sys/run/{job}/{job}.pid"));
        std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }
}

impl Drop for AgentVm {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            // The whole group is killed, because with an init the child is not the agent itself.
            let pid = rustix::process::Pid::from_child(&agent);
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
            agent.stop();
        }
        for file in walkdir::WalkDir::new(self.base().join("data/sys/run")).into_iter().flatten() {
            if file.path().extension().is_some_and(|ext| ext == "pid") {
                kill_recorded(file.path());
            }
        }
    }
}

/// Kills the process that a PID file names.
pub(crate) fn kill_recorded(pidfile: &Path) {
    let pid = std::fs::read_to_string(pidfile).ok().and_then(|text| text.trim().parse().ok());
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Returns a client that trusts this authority. Without an authority, it trusts any server.
pub(crate) fn client(ca: Option<&str>) -> ureq::Agent {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    let tls = match ca {
        Some(ca) => tls
            .root_certs(RootCerts::new_with_certs(&[Certificate::from_pem(ca.as_bytes()).unwrap()]))
            .build(),
        None => tls.disable_verification(true).build(),
    };
    ureq::Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .proxy(None)
        .timeout_global(Some(Duration::from_secs(60)))
        .build()
        .new_agent()
}

pub(crate) fn read(mut response: ureq::http::Response<ureq::Body>) -> (u16, String) {
    (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
}

/// Returns a gzip tarball. Names that end in a slash are directories.
pub(crate) fn tarball(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(text.len() as u64);
        if path.ends_with('/') {
            header.set_entry_type(tar::EntryType::Directory);
        }
        builder.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// Returns the names and contents in a gzip tarball.
pub(crate) fn untar(content: &[u8]) -> Vec<(String, String)> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(content));
    archive
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_string_lossy().into_owned();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            (name, text)
        })
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
