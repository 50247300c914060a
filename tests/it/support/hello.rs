//! The hello environment of `examples/`, on an address of its own, with the scripted CPI as its CPI.

use super::process::Outcome;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::bucket::Bucket;
use super::proxy::{self, Listener, Proxy};
use super::scripted;
use super::stall::{self, Point};
use super::tarballs::{JobTarball, PackageTarball, ReleaseTarball};
use super::{Run, World, claim};

/// A copy of the example in a world of its own.
pub(crate) struct Hello {
    pub world: World,
    ip: String,
    flags: Vec<String>,
    /// Where its state is, if several machines share it.
    bucket: Option<Bucket>,
    /// Which of the machines commands run on.
    machine: AtomicUsize,
}

/// The home directories of the machines that can share a state.
const MACHINES: [&str; 2] = ["home", "home-b"];

/// An address below 127.0.0.0/8 that no other test on this machine uses.
fn subnet() -> String {
    let number = number();
    format!("127.{}.{}", 16 + number / 256 % 200, number % 256)
}

/// A network of the range for tests of equipment (RFC 2544), for VMs that are not in this machine's.
pub(crate) fn far_subnet() -> String {
    let number = number();
    format!("198.{}.{}", 18 + number / 256 % 2, number % 256)
}

fn number() -> u32 {
    claim("network", 51200, |_| true)
}

impl Hello {
    /// Not deployed yet.
    pub(crate) fn new() -> Hello {
        Hello::at(&subnet())
    }

    /// Not deployed yet, in this network, whose first three bytes are given.
    pub(crate) fn at(subnet: &str) -> Hello {
        let world = World::new();
        let ip = format!("{subnet}.2");
        copy(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/hello")), &world.path("hello"));
        let path = scripted::install(&world);
        world.write(
            "local.json",
            format!(
                r#"{{"root": "{}", "agent": {{"mbus": "https://unset:unset@{ip}:6868"}}}}"#,
                world.path("cloud").display()
            ),
        );
        world.write(
            "record.yml",
            format!(
                "- type: replace\n  path: /cloud_provider/cpi\n  value: {{path: {}, properties: {{root: {}}}}}\n",
                path.display(),
                world.path("cloud").display()
            ),
        );
        let flags = [
            "-o",
            "hello/elsewhere.yml",
            "-o",
            "record.yml",
            "--vars-store",
            "creds.yml",
            "--state",
            "state.json",
            "-v",
            "port=8580",
            "-v",
            "mbus_port=6868",
        ];
        let mut flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
        for value in [
            format!("internal_ip={ip}"),
            format!("internal_cidr={subnet}.0/24"),
            format!("internal_gw={subnet}.1"),
        ] {
            flags.extend(["-v".to_owned(), value]);
        }
        Hello { world, ip, flags, bucket: None, machine: AtomicUsize::new(0) }
    }

    /// Has the state be in a bucket.
    pub(crate) fn share(&mut self) -> Bucket {
        self.share_in(Bucket::new())
    }

    /// The same, in this one.
    pub(crate) fn share_in(&mut self, bucket: Bucket) -> Bucket {
        let at = self.flags.iter().position(|flag| flag == "--state").unwrap() + 1;
        self.flags[at] = bucket.url("state.json");
        self.bucket = Some(bucket.clone());
        std::fs::create_dir_all(self.world.root().join(MACHINES[1])).unwrap();
        bucket
    }

    /// Runs what comes now on the other machine.
    pub(crate) fn change_machine(&self) {
        self.machine.fetch_xor(1, Ordering::SeqCst);
    }

    /// A command that knows nothing but where the state is.
    pub(crate) fn state_command(&self, words: &[&str]) -> std::process::Command {
        let state = match &self.bucket {
            Some(bucket) => bucket.url("state.json"),
            None => "state.json".to_owned(),
        };
        self.here(self.world.monopile(words.iter().copied().chain(["--state", &state])))
    }

    /// The command on the machine that it is to run on.
    fn here(&self, mut command: std::process::Command) -> std::process::Command {
        if let Some(bucket) = &self.bucket {
            bucket.let_in(&mut command);
            command.env("HOME", self.world.root().join(MACHINES[self.machine.load(Ordering::SeqCst)]));
        }
        command
    }

    /// Waits until nothing of a killed run is at work any more.
    pub(crate) fn wait_for_keeper(&self) {
        scripted::until("what stayed behind ends", || {
            !self.world.leftovers().iter().any(|left| left.contains("state-keeper"))
        });
    }

    /// Makes what is in the bucket be where it is when nobody shares it.
    pub(crate) fn look(&self) {
        if let Some(bucket) = &self.bucket {
            bucket.mirror("state.json", &self.world);
        }
    }

    /// The VM's address.
    pub(crate) fn ip(&self) -> &str {
        &self.ip
    }

    /// What every command gets: flags and their values.
    pub(crate) fn flags(&self) -> Vec<&str> {
        self.flags.iter().map(String::as_str).collect()
    }

    /// An env file that says what the flags say, with state and vars store elsewhere, relative to it.
    pub(crate) fn env_file(&self, state: &str, vars_store: &str) -> String {
        let path = |relative: &str| self.world.path(relative).display().to_string();
        let (mut ops, mut vars) = (Vec::new(), Vec::new());
        for pair in self.flags.chunks(2) {
            match pair[0].as_str() {
                "-o" => ops.push(path(&pair[1])),
                "-v" => vars.push(pair[1].replacen('=', ": ", 1)),
                "--state" | "--vars-store" => {}
                other => panic!("{other}"),
            }
        }
        format!(
            "manifest: {}\nops_files: [{}]\nvars: {{{}}}\nstate: {state}\nvars_store: {vars_store}\n",
            path("hello/manifest.yml"),
            ops.join(", "),
            vars.join(", ")
        )
    }

    /// Adds an ops file that every following command gets.
    pub(crate) fn ops(&mut self, name: &str, text: &str) {
        self.world.write(name, text);
        self.flags.extend(["-o".to_owned(), name.to_owned()]);
    }

    /// A command with this environment's flags and more.
    pub(crate) fn command(&self, command: &str, more: &[&str]) -> std::process::Command {
        self.subcommand(&[command], more)
    }

    /// The command `render` with this environment's flags, of which it takes all but `--state`.
    pub(crate) fn render_command(&self, more: &[&str]) -> std::process::Command {
        let given = self.command("render", more);
        let mut arguments: Vec<_> = given.get_args().map(ToOwned::to_owned).collect();
        let at = arguments.iter().position(|argument| argument == "--state").unwrap();
        arguments.drain(at..at + 2);
        self.world.monopile(arguments)
    }

    /// As [`Self::command`], of a command that has several words.
    pub(crate) fn subcommand(&self, words: &[&str], more: &[&str]) -> std::process::Command {
        let words = words.iter().chain(&["hello/manifest.yml"]);
        let arguments = words.map(ToString::to_string);
        let more = more.iter().map(ToString::to_string);
        self.here(self.world.monopile(arguments.chain(self.flags.iter().cloned()).chain(more)))
    }

    /// A command on the example as it is, with the built-in CPI itself and no recorder before it.
    pub(crate) fn builtin_command(&self, words: &[&str], more: &[&str]) -> std::process::Command {
        let mut flags = self.flags.clone();
        if let Some(at) = flags.iter().position(|flag| flag == "record.yml") {
            flags.drain(at - 1..=at);
        }
        let words = words.iter().copied().chain(["hello/manifest.yml"]).map(str::to_owned);
        self.world.monopile(words.chain(flags).chain(more.iter().map(ToString::to_string)))
    }

    /// Puts a proxy between the program and the agent, which writes down what they say.
    pub(crate) fn listen(&mut self) -> Proxy {
        let (listen, agent, tls) = self.stand_between();
        Proxy::start(listen, agent, tls)
    }

    /// As [`Self::listen`], but somebody else writes it down.
    pub(crate) fn listen_with(&mut self, hear: impl Listener + 'static) -> Proxy {
        let (listen, agent, tls) = self.stand_between();
        Proxy::start_with(listen, agent, tls, hear)
    }

    /// Has the program look for the agent where one stalls at this point. Returns where that says that it has.
    pub(crate) fn stall_at(&mut self, point: Point) -> Receiver<()> {
        let (listen, _, tls) = self.stand_between();
        let id = self.state()["monopile"]["vm"]["agent_id"].as_str().unwrap().to_owned();
        stall::serve(TcpListener::bind(listen).unwrap(), tls, &id, point)
    }

    /// Has the program look for the agent at another address; returns that, the agent's own, and its identity.
    fn stand_between(&mut self) -> (SocketAddr, SocketAddr, Arc<rustls::ServerConfig>) {
        // The certificates come first: the proxy shows the agent's.
        let flags: Vec<&String> =
            self.flags.iter().filter(|flag| *flag != "--state" && !flag.ends_with("state.json")).collect();
        let command = ["interpolate", "hello/manifest.yml"].into_iter();
        self.world.run(command.chain(flags.into_iter().map(String::as_str))).success();
        let creds: Value = serde_yaml::from_str(&self.world.read("creds.yml")).unwrap();
        let pair = |name: &str| creds["mbus_bootstrap_ssl"][name].as_str().unwrap();
        let tls = proxy::tls(pair("certificate"), pair("private_key"));
        let at = |port: u16| format!("{}:{port}", self.ip).parse().unwrap();
        let (listen, agent) = (at(6869), at(6868));
        let url = format!("https://mbus:((mbus_bootstrap_password))@{}:6869", self.ip);
        self.ops(
            "proxy.yml",
            &format!("- {{type: replace, path: /cloud_provider/mbus, value: \"{url}\"}}\n"),
        );
        (listen, agent, tls)
    }

    /// The files below `directory` of this environment's cloud or home with this name.
    pub(crate) fn find(&self, directory: &str, name: &str) -> Vec<PathBuf> {
        walkdir::WalkDir::new(self.world.root().join(directory))
            .into_iter()
            .flatten()
            .filter(|entry| entry.file_type().is_file() && entry.file_name().to_string_lossy().contains(name))
            .map(walkdir::DirEntry::into_path)
            .collect()
    }

    /// `create-env` with more flags.
    pub(crate) fn create(&self, more: &[&str]) -> Run {
        self.world.finish(self.command("create-env", more))
    }

    /// `delete-env -n` with more flags.
    pub(crate) fn delete(&self, more: &[&str]) -> Run {
        let mut flags = vec!["-n"];
        flags.extend(more);
        self.world.finish(self.command("delete-env", &flags))
    }

    /// Asks the service for its page: the greeting and the counter, which goes up by one.
    pub(crate) fn ask(&self) -> (String, u64) {
        let address: SocketAddr = format!("{}:8580", self.ip).parse().unwrap();
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let body = text.split("\r\n\r\n").nth(1).unwrap_or_else(|| panic!("no body: {text}"));
        let (greeting, counter) = body.trim_end().rsplit_once("\ncounter: ").unwrap();
        (greeting.to_owned(), counter.parse().unwrap())
    }

    /// Whether the service answers.
    pub(crate) fn answers(&self) -> bool {
        let address: SocketAddr = format!("{}:8580", self.ip).parse().unwrap();
        TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
    }

    /// The CPI requests so far; forgets them.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let path = self.world.path("requests.jsonl");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The answer of an error of this type.
    pub(crate) fn error(kind: &str, message: &str) -> String {
        serde_json::json!({"result": null, "error": {"type": kind, "message": message, "ok_to_retry": false}})
            .to_string()
    }

    /// Calls the CPI behind the program's back.
    pub(crate) fn call(&self, method: &str, arguments: Value) -> Value {
        let answer = self.answer_of(method, arguments);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// As [`Self::call`], with an error for the test to judge.
    pub(crate) fn answer_of(&self, method: &str, arguments: Value) -> Value {
        let mut cpi = self.world.monopile(["cpi-exec", "local", "--config"]);
        cpi.arg(self.world.path("local.json"));
        let request = serde_json::json!({
            "method": method, "arguments": arguments, "api_version": 2,
            "context": {"director_uuid": "test", "request_id": "test", "vm": {"stemcell": {"api_version": 3}}},
        });
        let run = cpi.outcome_of(request.to_string().as_bytes());
        serde_json::from_slice(&run.stdout).unwrap()
    }

    /// Kills the VM's processes; as far as the cloud is concerned it is still there.
    pub(crate) fn kill_vm(&self) {
        let is_vm = |left: &String| left.contains("vm-boot") || left.contains("bosh-agent agent");
        let begun = Instant::now();
        loop {
            let vm: Vec<String> = self.world.leftovers().into_iter().filter(is_vm).collect();
            for process in &vm {
                let pid = process.split(' ').nth(1).unwrap().parse().unwrap();
                let pid = rustix::process::Pid::from_raw(pid).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            if vm.is_empty() {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{vm:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The methods of requests.
    pub(crate) fn methods(requests: &[Value]) -> Vec<&str> {
        requests.iter().map(|request| request["method"].as_str().unwrap()).collect()
    }

    /// The state file.
    pub(crate) fn state(&self) -> Value {
        self.look();
        serde_json::from_str(&self.world.read("state.json")).unwrap()
    }

    /// Text without what differs between environments.
    pub(crate) fn normalise(&self, text: &str) -> String {
        let text = text.replace(&self.ip, "<ip>").replace(self.ip.strip_suffix(".2").unwrap(), "<subnet>");
        let version = regex::Regex::new(r"0\+dev\.[0-9a-f]+").unwrap();
        self.world.normalise(&version.replace_all(&text, "<version>"))
    }

    /// What is left of the environment in processes, mounts and the cloud. Processes that were killed may take a
    /// moment to vanish.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let mut left = self.world.leftovers();
            for cloud in ["cloud", "cloud-b"].map(|cloud| self.world.path(cloud)) {
                if cloud.exists() {
                    left.push(format!("cloud: {:?}", tree(&cloud)));
                }
            }
            if left.is_empty() || begun.elapsed() > Duration::from_secs(5) {
                return left;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Hello {
    fn drop(&mut self) {
        // A failed test must not leave a VM behind.
        if std::thread::panicking() && (self.bucket.is_some() || self.world.exists("state.json")) {
            let _ = self.delete(&["--skip-drain", "--forget-open-calls"]);
        }
    }
}

fn tree(root: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        paths.push(entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && paths.len() < 40 {
            paths.extend(tree(&entry.path()));
        }
    }
    paths
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        let name = entry.file_name();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if !name.to_string_lossy().contains("-state") && !name.to_string_lossy().contains("-vars") {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The example's release as the tarball `bosh create-release` would make.
pub(crate) fn release_tarball(hello: &Hello) -> ReleaseTarball {
    let read = |path: &str| hello.world.read(format!("hello/release/{path}"));
    let job_spec: serde_yaml::Value = serde_yaml::from_str(&read("jobs/hello/spec")).unwrap();
    let section = |key: &str| {
        let mut only = serde_yaml::Mapping::new();
        only.insert(key.into(), job_spec[key].clone());
        serde_yaml::to_string(&only).unwrap()
    };
    let mut job = JobTarball::new("hello").spec(&section("packages")).spec(&section("properties"));
    for (source, target) in job_spec["templates"].as_mapping().unwrap() {
        let source = source.as_str().unwrap();
        let content = read(&format!("jobs/hello/templates/{source}"));
        job = job.template(source, target.as_str().unwrap(), &content);
    }
    job.monit = read("jobs/hello/monit");
    let greeting = PackageTarball::new("greeting", &read("packages/greeting/packaging"), &[])
        .file("greeting/greeting.txt", &read("src/greeting/greeting.txt"));
    let counter = PackageTarball::new("counter", &read("packages/counter/packaging"), &["greeting"])
        .file("counter/counter", &read("src/counter/counter"))
        .file("counter/ask", &read("src/counter/ask"));
    ReleaseTarball::new("hello", "1.10").job(job).package(counter).package(greeting)
}

/// An ops file that takes release and stemcell from these tarballs.
pub(crate) fn tarball_ops(release: &str, release_sha1: &str, stemcell: &str, stemcell_sha1: &str) -> String {
    format!(
        "- {{type: replace, path: /releases/name=hello/url, value: 'file://{release}'}}\n\
         - {{type: replace, path: /releases/name=hello/sha1?, value: '{release_sha1}'}}\n\
         - {{type: replace, path: /resource_pools/name=vms/stemcell/url, value: 'file://{stemcell}'}}\n\
         - {{type: replace, path: /resource_pools/name=vms/stemcell/sha1?, value: '{stemcell_sha1}'}}\n"
    )
}
