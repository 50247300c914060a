//! The hello environment of `examples/` at its own address, with the scripted CPI.

use super::process::RunToEnd;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::bucket::Bucket;
use super::keys::{Certificate, vars_store};
use super::proxy::{self, AgentProxy, Listener};
use super::scripted;
use super::stall::{self, StallPoint};
use super::tarballs::{JobTarball, PackageTarball, ReleaseTarball};
use super::{Run, World, reserve};

/// A copy of the example in its own world.
pub(crate) struct Hello {
    pub world: World,
    ip: String,
    options: Vec<String>,
    /// The bucket of its state, if several machines share it.
    bucket: Option<Bucket>,
    /// The index of the machine that runs commands.
    machine: AtomicUsize,
}

/// The ops file that makes the scripted CPI that of the environment.
pub(super) const SCRIPTED_CPI_OPS_FILE: &str = "record.yml";

/// The number of networks below 127.0.0.0/8 for tests.
const NETWORK_COUNT: u32 = 128 * 128;

/// The home directories of the machines that can share a state.
const MACHINES: [&str; 2] = ["home", "home-b"];

/// Returns a network below 127.0.0.0/8 that no other test on this machine uses, and no VM of a killed test.
/// All have the same length, because text is wrapped by it.
pub(crate) fn subnet() -> String {
    let subnet = |number: u32| format!("127.{}.{}", 100 + number / 128, 100 + number % 128);
    let is_free = |number| TcpListener::bind(format!("{}.2:6868", subnet(number))).is_ok();
    subnet(reserve("network", NETWORK_COUNT, is_free))
}

/// Returns a network of the benchmarking range (RFC 2544), for VMs outside this machine's network.
pub(crate) fn far_subnet() -> String {
    let number = reserve("network", NETWORK_COUNT, |_| true);
    format!("198.{}.{}", 18 + number / 256 % 2, number % 256)
}

impl Hello {
    /// Creates an environment that is not deployed. Its vars store has values of all variables.
    pub(crate) fn new() -> Hello {
        Hello::in_subnet(&subnet())
    }

    /// Creates an environment that is not deployed in this network, given by its first three bytes.
    pub(crate) fn in_subnet(subnet: &str) -> Hello {
        let hello = Hello::prepare(subnet);
        hello.write_vars_store(&Certificate { host: &hello.ip, days: (-1, 365), is_trusted: true });
        hello
    }

    /// Creates an environment that is not deployed and has no vars store. Its first run generates the values
    /// of variables.
    pub(crate) fn without_vars_store() -> Hello {
        Hello::prepare(&subnet())
    }

    /// Creates the environment without a vars store: the example, the scripted CPI before the CPI `local`,
    /// and an address of its own.
    fn prepare(subnet: &str) -> Hello {
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
            SCRIPTED_CPI_OPS_FILE,
            format!(
                "- type: replace\n  path: /cloud_provider/cpi\n  value: {{path: {}, properties: {{root: \
                    {}}}}}\n",
                path.display(),
                world.path("cloud").display()
            ),
        );
        let options = [
            "-o",
            "hello/elsewhere.yml",
            "-o",
            SCRIPTED_CPI_OPS_FILE,
            "--vars-store",
            "creds.yml",
            "--state",
            "state.json",
            "-v",
            "port=8580",
            "-v",
            "mbus_port=6868",
        ];
        let mut options: Vec<String> = options.iter().map(ToString::to_string).collect();
        for value in [
            format!("internal_ip={ip}"),
            format!("internal_cidr={subnet}.0/24"),
            format!("internal_gw={subnet}.1"),
        ] {
            options.extend(["-v".to_owned(), value]);
        }
        Hello { world, ip, options, bucket: None, machine: AtomicUsize::new(0) }
    }

    /// Writes a new vars store with this certificate of the agent.
    pub(crate) fn write_vars_store(&self, agent: &Certificate) {
        let path = self.world.write("creds.yml", vars_store(agent));
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }

    /// Moves the state to a new bucket.
    pub(crate) fn share(&mut self) -> Bucket {
        self.share_in(Bucket::new())
    }

    /// Moves the state to this bucket.
    pub(crate) fn share_in(&mut self, bucket: Bucket) -> Bucket {
        let index = self.options.iter().position(|option| option == "--state").unwrap() + 1;
        self.options[index] = bucket.url("state.json");
        self.bucket = Some(bucket.clone());
        std::fs::create_dir_all(self.world.root().join(MACHINES[1])).unwrap();
        bucket
    }

    /// Runs the following commands on the other machine.
    pub(crate) fn change_machine(&self) {
        self.machine.fetch_xor(1, Ordering::SeqCst);
    }

    /// Returns a command that knows only the path or URL of the state.
    pub(crate) fn state_command(&self, words: &[&str]) -> std::process::Command {
        let state = match &self.bucket {
            Some(bucket) => bucket.url("state.json"),
            None => "state.json".to_owned(),
        };
        self.use_current_machine(self.world.monopile(words.iter().copied().chain(["--state", &state])))
    }

    /// Adds the access to the bucket and the home of the current machine.
    fn use_current_machine(&self, mut command: std::process::Command) -> std::process::Command {
        if let Some(bucket) = &self.bucket {
            bucket.set_credentials(&mut command);
            command.env("HOME", self.world.root().join(MACHINES[self.machine.load(Ordering::SeqCst)]));
        }
        command
    }

    /// Waits until the keeper of a killed run has ended.
    pub(crate) fn wait_for_keeper(&self) {
        scripted::wait_until("the keeper ends", || {
            !self.world.leftovers().iter().any(|leftover| leftover.contains("state-keeper"))
        });
    }

    /// Copies the bucket's content to the path of an unshared state.
    pub(crate) fn copy_bucket(&self) {
        if let Some(bucket) = &self.bucket {
            bucket.mirror("state.json", &self.world);
        }
    }

    /// Returns the VM's address.
    pub(crate) fn ip(&self) -> &str {
        &self.ip
    }

    /// Returns the options of every command, with their values.
    pub(crate) fn options(&self) -> Vec<&str> {
        self.options.iter().map(String::as_str).collect()
    }

    /// Returns an env file with the content of the options, but with another state and vars store. Paths are
    /// relative to it.
    pub(crate) fn env_file(&self, state: &str, vars_store: &str) -> String {
        let path = |relative: &str| self.world.path(relative).display().to_string();
        let (mut ops, mut vars) = (Vec::new(), Vec::new());
        for pair in self.options.chunks(2) {
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

    /// Replaces an option and its value in all following commands with these options.
    pub(crate) fn replace_option(&mut self, option: &str, replacements: &[&str]) {
        let index = self.options.iter().position(|other| other == option).unwrap();
        self.options.splice(index..index + 2, replacements.iter().map(ToString::to_string));
    }

    /// Adds an ops file to all following commands.
    pub(crate) fn add_ops(&mut self, name: &str, text: &str) {
        self.world.write(name, text);
        self.options.extend(["-o".to_owned(), name.to_owned()]);
    }

    /// Returns a command with this environment's options and more.
    pub(crate) fn command(&self, command: &str, extra_args: &[&str]) -> std::process::Command {
        self.subcommand(&[command], extra_args)
    }

    /// Returns the command `render` with this environment's options, except `--state`, which it does not
    /// take.
    pub(crate) fn render_command(&self, extra_args: &[&str]) -> std::process::Command {
        let command = self.command("render", extra_args);
        let mut arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let index = arguments.iter().position(|argument| argument == "--state").unwrap();
        arguments.drain(index..index + 2);
        self.world.monopile(arguments)
    }

    /// Like [`Self::command`], for a command of several words.
    pub(crate) fn subcommand(&self, words: &[&str], extra_args: &[&str]) -> std::process::Command {
        let words = words.iter().chain(&["hello/manifest.yml"]);
        let arguments = words.map(ToString::to_string);
        let extra_args = extra_args.iter().map(ToString::to_string);
        self.use_current_machine(
            self.world.monopile(arguments.chain(self.options.iter().cloned()).chain(extra_args)),
        )
    }

    /// Returns a command on the unchanged example, with the built-in CPI and without the scripted CPI.
    pub(crate) fn builtin_command(&self, words: &[&str], extra_args: &[&str]) -> std::process::Command {
        let mut options = self.options.clone();
        if let Some(index) = options.iter().position(|option| option == SCRIPTED_CPI_OPS_FILE) {
            options.drain(index - 1..=index);
        }
        let words = words.iter().copied().chain(["hello/manifest.yml"]).map(str::to_owned);
        self.world.monopile(words.chain(options).chain(extra_args.iter().map(ToString::to_string)))
    }

    /// Puts a proxy between the program and the agent that records their exchanges.
    pub(crate) fn proxy_agent(&mut self) -> AgentProxy {
        let (proxy_address, agent, tls) = self.stand_between();
        AgentProxy::start(proxy_address, agent, tls)
    }

    /// Puts a proxy between the program and the agent that passes their exchanges to `listener`.
    pub(crate) fn proxy_agent_with(&mut self, listener: impl Listener + 'static) -> AgentProxy {
        let (proxy_address, agent, tls) = self.stand_between();
        AgentProxy::start_with(proxy_address, agent, tls, listener)
    }

    /// Replaces the agent with one that stalls at this point. The receiver gets a message when it stalls.
    pub(crate) fn stall_at(&mut self, point: StallPoint) -> Receiver<()> {
        let (proxy_address, _, tls) = self.stand_between();
        let id = self.state()["monopile"]["vm"]["agent_id"].as_str().unwrap().to_owned();
        stall::serve(TcpListener::bind(proxy_address).unwrap(), tls, &id, point)
    }

    /// Changes the agent's address for the program. Returns that address, the agent's real one, and its TLS
    /// identity.
    pub(crate) fn stand_between(&mut self) -> (SocketAddr, SocketAddr, Arc<rustls::ServerConfig>) {
        // The certificates must be created first, because the proxy presents the agent's.
        let options: Vec<&String> = self
            .options
            .iter()
            .filter(|option| *option != "--state" && !option.ends_with("state.json"))
            .collect();
        let command = ["interpolate", "hello/manifest.yml"].into_iter();
        self.world.run(command.chain(options.into_iter().map(String::as_str))).success();
        let creds: Value = serde_yaml::from_str(&self.world.read("creds.yml")).unwrap();
        let pair = |name: &str| creds["mbus_bootstrap_ssl"][name].as_str().unwrap();
        let tls = proxy::tls(pair("certificate"), pair("private_key"));
        let address = |port: u16| format!("{}:{port}", self.ip).parse().unwrap();
        let (proxy_address, agent) = (address(6869), address(6868));
        let url = format!("https://mbus:((mbus_bootstrap_password))@{}:6869", self.ip);
        self.add_ops(
            "proxy.yml",
            &format!("- {{type: replace, path: /cloud_provider/mbus, value: \"{url}\"}}\n"),
        );
        (proxy_address, agent, tls)
    }

    /// Returns the files with this name below `directory` of the world.
    pub(crate) fn find(&self, directory: &str, name: &str) -> Vec<PathBuf> {
        walkdir::WalkDir::new(self.world.root().join(directory))
            .into_iter()
            .flatten()
            .filter(|entry| entry.file_type().is_file() && entry.file_name().to_string_lossy().contains(name))
            .map(walkdir::DirEntry::into_path)
            .collect()
    }

    /// Runs `create-env` with more options.
    pub(crate) fn create(&self, extra_args: &[&str]) -> Run {
        self.world.finish(self.command("create-env", extra_args))
    }

    /// Runs `delete-env -n` with more options.
    pub(crate) fn delete(&self, extra_args: &[&str]) -> Run {
        let mut options = vec!["-n"];
        options.extend(extra_args);
        self.world.finish(self.command("delete-env", &options))
    }

    /// Requests the page of the service. Returns the greeting and the counter, which each request increases
    /// by one.
    pub(crate) fn ask_greeting_and_counter(&self) -> (String, u64) {
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

    /// Requests the page of the service and returns its greeting.
    pub(crate) fn ask_greeting(&self) -> String {
        self.ask_greeting_and_counter().0
    }

    /// Requests the page of the service and returns its counter.
    pub(crate) fn ask_counter(&self) -> u64 {
        self.ask_greeting_and_counter().1
    }

    /// Returns true if the service answers.
    pub(crate) fn answers(&self) -> bool {
        let address: SocketAddr = format!("{}:8580", self.ip).parse().unwrap();
        TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
    }

    /// Returns the CPI requests since the last call of this function, and removes their record.
    pub(crate) fn take_requests(&self) -> Vec<Value> {
        let path = self.world.path("requests.jsonl");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the answer of a CPI with an error of this type.
    pub(crate) fn error(kind: &str, message: &str) -> String {
        serde_json::json!({"result": null, "error": {"type": kind, "message": message, "ok_to_retry": false}})
            .to_string()
    }

    /// Calls the CPI directly, without the program.
    pub(crate) fn call(&self, method: &str, arguments: Value) -> Value {
        let answer = self.try_call(method, arguments);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// Calls the CPI like [`Self::call`], and returns errors to the test.
    pub(crate) fn try_call(&self, method: &str, arguments: Value) -> Value {
        self.try_call_at("local.json", method, arguments)
    }

    /// Calls the CPI like [`Self::try_call`], with this configuration.
    pub(crate) fn try_call_at(&self, config: &str, method: &str, arguments: Value) -> Value {
        let mut cpi = self.world.monopile(["cpi-exec", "local", "--config"]);
        cpi.arg(self.world.path(config));
        let request = serde_json::json!({
            "method": method, "arguments": arguments, "api_version": 2,
            "context": {"director_uuid": "test", "request_id": "test",
            "vm": {"stemcell": {"api_version": 3}}},
        });
        let run = cpi.run_with_input(request.to_string().as_bytes());
        serde_json::from_slice(&run.stdout).unwrap()
    }

    /// Kills the VM's processes. In the cloud, the VM still exists.
    pub(crate) fn kill_vm(&self) {
        let is_vm = |leftover: &String| leftover.contains("vm-boot") || leftover.contains("bosh-agent agent");
        let start = Instant::now();
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
            assert!(start.elapsed() < Duration::from_secs(20), "{vm:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the methods of requests.
    pub(crate) fn methods(requests: &[Value]) -> Vec<&str> {
        requests.iter().map(|request| request["method"].as_str().unwrap()).collect()
    }

    /// Returns the state.
    pub(crate) fn state(&self) -> Value {
        self.copy_bucket();
        serde_json::from_str(&self.world.read("state.json")).unwrap()
    }

    /// Replaces the parts of a text that differ between environments.
    pub(crate) fn normalise(&self, text: &str) -> String {
        let text = text.replace(&self.ip, "<ip>").replace(self.ip.strip_suffix(".2").unwrap(), "<subnet>");
        let version = regex::Regex::new(r"0\+dev\.[0-9a-f]+").unwrap();
        self.world.normalise(&version.replace_all(&text, "<version>"))
    }

    /// Returns the leftovers of the environment: processes, mounts and cloud resources. Waits a moment,
    /// because killed processes may need time to end.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let start = Instant::now();
        loop {
            let mut leftovers = self.world.leftovers();
            for cloud in ["cloud", "cloud-b"].map(|cloud| self.world.path(cloud)) {
                if cloud.exists() {
                    leftovers.push(format!("cloud: {:?}", tree(&cloud)));
                }
            }
            if leftovers.is_empty() || start.elapsed() > Duration::from_secs(5) {
                return leftovers;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Hello {
    fn drop(&mut self) {
        // A failed test must not leave a VM behind.
        if std::thread::panicking() && (self.bucket.is_some() || self.world.exists("state.json")) {
            // A second panic outside of this would end all tests of the process.
            let delete = || self.delete(&["--skip-drain", "--forget-open-calls"]);
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(delete));
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

fn copy(source: &Path, target: &Path) {
    std::fs::create_dir_all(target).unwrap();
    for entry in std::fs::read_dir(source).unwrap() {
        let entry = entry.unwrap();
        let copy_path = target.join(entry.file_name());
        let name = entry.file_name();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &copy_path);
        } else if !name.to_string_lossy().contains("-state") && !name.to_string_lossy().contains("-vars") {
            std::fs::copy(entry.path(), copy_path).unwrap();
        }
    }
}

/// Returns the example's release as a tarball in the format of `bosh create-release`.
pub(crate) fn release_tarball(hello: &Hello) -> ReleaseTarball {
    let read = |path: &str| hello.world.read(format!("hello/release/{path}"));
    let job_spec: serde_yaml::Value = serde_yaml::from_str(&read("jobs/hello/spec")).unwrap();
    let section = |key: &str| {
        let mut mapping = serde_yaml::Mapping::new();
        mapping.insert(key.into(), job_spec[key].clone());
        serde_yaml::to_string(&mapping).unwrap()
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

/// Returns an ops file that takes the release and the stemcell from these tarballs.
pub(crate) fn tarball_ops(release: &str, release_sha1: &str, stemcell: &str, stemcell_sha1: &str) -> String {
    format!(
        "- {{type: replace, path: /releases/name=hello/url, value: 'file://{release}'}}\n\
         - {{type: replace, path: /releases/name=hello/sha1?, value: '{release_sha1}'}}\n\
         - {{type: replace, path: /resource_pools/name=vms/stemcell/url, value: 'file://{stemcell}'}}\n\
         - {{type: replace, path: /resource_pools/name=vms/stemcell/sha1?, value: '{stemcell_sha1}'}}\n"
    )
}
