//! Downloads of a run: verified, resumed, shared, through proxies, and never repeated.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::hello::{Hello, subnet};
use crate::support::http::{ForwardProxy, Server, answer, part};
use crate::support::process::{RunToEnd, WaitForEnd, prepare, wait_until};
use crate::support::tarballs::{JobTarball, ReleaseTarball, StemcellTarball, sha1, sha256};
use crate::support::{Run, World};

/// An environment whose manifest names a job that its release lacks. A run fetches and inspects all
/// artifacts, and then stops.
pub(crate) struct FetchEnvironment {
    pub world: World,
    /// The first three numbers of the network.
    subnet: String,
    pub release: Vec<u8>,
    pub stemcell: Vec<u8>,
}

impl FetchEnvironment {
    pub(crate) fn new() -> Self {
        Self::with_release(&ReleaseTarball::new("x", "1").job(JobTarball::new("there")))
    }

    fn with_release(release: &ReleaseTarball) -> Self {
        let stemcell = StemcellTarball { image: Some(b"image".to_vec()), ..StemcellTarball::default() };
        FetchEnvironment {
            world: World::new(),
            subnet: subnet(),
            release: release.build(),
            stemcell: stemcell.build(),
        }
    }

    fn write_manifest(&self, release: &str, release_sha1: &str) {
        let stemcell = self.world.write("stemcell.tgz", &self.stemcell);
        self.write_manifest_of(
            release,
            release_sha1,
            &format!("file://{}", stemcell.display()),
            &sha1(&self.stemcell),
        );
    }

    pub(crate) fn write_manifest_of(
        &self,
        release: &str,
        release_sha1: &str,
        stemcell: &str,
        stemcell_sha1: &str,
    ) {
        let subnet = &self.subnet;
        let text = format!(
            "name: e\n\
             releases: [{{name: x, url: '{release}', sha1: '{release_sha1}'}}]\n\
             resource_pools:\n\
             - name: vms\n  network: net\n  stemcell: {{url: '{stemcell}', sha1: '{stemcell_sha1}'}}\n\
             networks:\n- name: net\n  type: manual\n  subnets: [{{range: {subnet}.0/24, gateway: \
             {subnet}.1, static: [{subnet}.2]}}]\n\
             instance_groups:\n\
             - name: i\n  instances: 1\n  resource_pool: vms\n  networks: [{{name: net, static_ips: \
             [{subnet}.2]}}]\n  jobs: [{{name: absent, release: x}}]\n\
             cloud_provider:\n  cpi: {{builtin: local}}\n  mbus: https://u:p@{subnet}.2:6868\n"
        );
        self.world.write("e.yml", text);
    }

    pub(crate) fn command(&self, extra_args: &[&str]) -> Command {
        self.world.monopile(["create-env", "e.yml", "--insecure-agent"].iter().chain(extra_args))
    }

    /// Runs a command that must fetch all artifacts.
    #[track_caller]
    pub(crate) fn run_and_fetch_all(&self, command: Command) -> Run {
        let run = self.world.finish(command).exits_with(3);
        assert!(
            run.stderr.contains("has no job 'absent'") || run.stdout.contains("has no job 'absent'"),
            "{run:?}"
        );
        run
    }
}

#[test]
fn artifacts_are_downloaded_in_parallel_and_cached() {
    let environment = FetchEnvironment::new();
    let (release, stemcell) = (environment.release.clone(), environment.stemcell.clone());
    // The server answers only after both files were requested.
    let request_count = AtomicUsize::new(0);
    let server = Server::start(move |request, _| {
        request_count.fetch_add(1, Ordering::SeqCst);
        wait_until("both are asked for", || request_count.load(Ordering::SeqCst) > 1);
        part(request, if request.path() == "/x.tgz" { &release } else { &stemcell }, "\"1\"")
    });
    let digests = (sha256(&environment.release), sha1(&environment.stemcell));
    environment.write_manifest_of(&server.url("/x.tgz"), &digests.0, &server.url("/s.tgz"), &digests.1);
    let run = environment.run_and_fetch_all(environment.command(&["--json"]));
    let stage_starts: Vec<Value> =
        run.json().into_iter().filter(|event| event["event"] == "stage_started").collect();
    let parent = |name: &str| {
        stage_starts.iter().find(|event| event["name"] == name).map(|event| event["parent"].clone())
    };
    assert!(parent("Downloading release 'x'").is_some_and(|parent| !parent.is_null()), "{stage_starts:?}");
    assert!(parent("Downloading the stemcell").is_some(), "{stage_starts:?}");
    assert_eq!(server.requests().len(), 2);

    let second_run = environment.run_and_fetch_all(environment.command(&[]));
    assert!(!second_run.stdout.contains("Downloading"), "{}", second_run.stdout);
    assert_eq!(server.requests().len(), 2);
    // The operator chose the directory of the cache.
    environment.run_and_fetch_all(environment.command(&["--cache-dir", "elsewhere"]));
    assert_eq!(server.requests().len(), 4);
    assert!(environment.world.exists("elsewhere/downloads"));
}

#[test]
fn stemcell_is_unpacked_while_it_is_downloaded() {
    let environment = FetchEnvironment::new();
    let release = format!("file://{}", environment.world.write("x.tgz", &environment.release).display());
    let release_sha1 = sha1(&environment.release);
    let server = Server::for_file(&environment.stemcell);
    let url = server.url("/s.tgz");
    environment.write_manifest_of(&release, &release_sha1, &url, &sha1(&environment.stemcell));
    let events = environment.run_and_fetch_all(environment.command(&["--json"])).json();
    let start_index = |name: &str| {
        let is_start = |event: &Value| event["event"] == "stage_started" && event["name"] == name;
        events.iter().position(is_start).unwrap_or_else(|| panic!("no stage '{name}'"))
    };
    let end_index = |start_index: usize| {
        let id = &events[start_index]["id"];
        let is_end = |event: &Value| event["event"] == "stage_finished" && event["id"] == *id;
        events.iter().position(is_end).unwrap()
    };
    let unpacking_start = start_index("Unpacking the stemcell");
    assert!(unpacking_start < end_index(start_index("Downloading the stemcell")), "{events:?}");
    assert_eq!(events[end_index(unpacking_start)]["outcome"], "done", "{events:?}");

    // Nothing of a stemcell with a wrong digest stays.
    environment.write_manifest_of(&release, &release_sha1, &url, &sha1(b"other"));
    let command = environment.command(&["--keep-scratch", "--cache-dir", "elsewhere"]);
    let run = environment.world.finish(command).exits_with(3);
    assert!(run.stderr.contains(&sha1(b"other")), "{}", run.stderr);
    let scratch = environment.world.root().join("tmp");
    let files = walkdir::WalkDir::new(&scratch).into_iter().flatten();
    let files: Vec<_> = files.filter(|entry| entry.file_type().is_file()).collect();
    assert!(scratch.exists() && files.iter().all(|file| file.file_name() != "image"), "{files:?}");
}

#[test]
fn http_errors_and_digest_errors_differ() {
    let environment = FetchEnvironment::new();
    let server = Server::start(|_, _| answer("404 Not Found", &[], b"<html>"));
    environment.write_manifest(&server.url("/x.tgz"), &sha1(b"x"));
    let run = environment.world.finish(environment.command(&[])).exits_with(1);
    assert!(
        run.stderr.contains("404 Not Found") && run.stderr.contains("release 'x' cannot be used"),
        "{}",
        run.stderr
    );

    let server = Server::for_file(&environment.release);
    environment.write_manifest(&server.url("/x.tgz"), &sha1(b"x"));
    let run = environment.world.finish(environment.command(&[])).exits_with(3);
    assert!(run.stderr.contains("expected 11f6ad8ec52a2984abaafd7c3b516503785c2072"), "{}", run.stderr);
    assert!(run.stderr.contains(&sha1(&environment.release)), "{}", run.stderr);

    // A local file must match its digest as well.
    let path = environment.world.write("x.tgz", &environment.release);
    environment.write_manifest(&format!("file://{}", path.display()), &sha1(b"x"));
    let run = environment.world.finish(environment.command(&[])).exits_with(3);
    assert!(run.stderr.contains("expected 11f6ad8ec52a2984abaafd7c3b516503785c2072"), "{}", run.stderr);
    assert!(!environment.world.exists("e-state.json"), "nothing was deployed");
}

#[test]
fn credentials_are_never_shown() {
    let environment = FetchEnvironment::new();
    for status in ["403 Forbidden", "200 OK"] {
        let server = Server::start(move |_, _| answer(status, &[], b"no tarball"));
        let url = format!("http://user:pa%73sword@localhost:{}/x.tgz?sig=t0ken", server.port());
        environment.write_manifest(&url, "sha1:zz");
        let unreadable = environment
            .world
            .finish(environment.command(&["--verbose", "--verbose", "--verbose"]))
            .exits_with(3);
        environment.write_manifest(&url, &sha1(b"x"));
        let mut command = environment.command(&["--verbose", "--verbose", "--verbose"]);
        command.env("HTTP_PROXY", "http://me:pr0xypass@nowhere.invalid:1");
        let run = environment.world.finish(command);
        assert_eq!(server.requests().len(), 1);
        for output in [run.stdout, run.stderr, unreadable.stdout, unreadable.stderr] {
            for secret in ["password", "pa%73sword", "t0ken", "pr0xypass", "dXNlcjpwYXNzd29yZA"] {
                assert!(!output.contains(secret), "{secret}: {output}");
            }
        }
    }
}

#[test]
fn killed_download_is_resumed() {
    let mut release = ReleaseTarball::new("x", "1").job(JobTarball::new("there"));
    release = release.job(JobTarball::new("big").template("t", "t", &"line\n".repeat(2_000_000)));
    let environment = FetchEnvironment::with_release(&release);
    let content = environment.release.clone();
    let half = content.len() / 2;
    // The first answer stops half way and does not end.
    let (server, wedge) = start_slow_server(content, half);
    environment.write_manifest(&format!("http://localhost:{}/x.tgz", server), &sha1(&environment.release));
    let mut child = environment.command(&[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let partial_directory = environment.world.home().join(".cache/monopile/partial");
    let fetched_bytes = || -> u64 {
        let files = std::fs::read_dir(&partial_directory).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).max().unwrap_or(0)
    };
    wait_until("half of it has come", || fetched_bytes() == half as u64);
    child.kill().unwrap();
    child.end();
    environment.run_and_fetch_all(environment.command(&[]));
    let ranges = wedge.lock().unwrap().clone();
    assert_eq!(ranges, ["", &format!("bytes={half}-")]);
    assert_eq!(std::fs::read_dir(&partial_directory).unwrap().count(), 0);
}

/// Answers the first request with half of the content and then stalls. Answers later requests in full.
/// Returns the port and the requested ranges.
fn start_slow_server(content: Vec<u8>, half: usize) -> (u16, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let ranges = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let server_ranges = std::sync::Arc::clone(&ranges);
    std::thread::spawn(move || {
        let mut open_streams = Vec::new();
        for begin in [0, half] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut range = String::new();
            for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
                if line.is_empty() {
                    break;
                }
                if let Some(value) = line.to_lowercase().strip_prefix("range: ") {
                    range = value.to_owned();
                }
            }
            server_ranges.lock().unwrap().push(range);
            let rest = &content[begin..];
            let total = content.len();
            let head = match begin {
                0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {total}\r\n\r\n"),
                _ => format!(
                    "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes \
                        {begin}-{}/{total}\r\n\r\n",
                    rest.len(),
                    total - 1
                ),
            };
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(if begin == 0 { &rest[..half] } else { rest }).unwrap();
            open_streams.push(stream);
        }
    });
    (port, ranges)
}

#[test]
fn two_processes_download_a_file_once() {
    let environment = FetchEnvironment::new();
    let release = environment.release.clone();
    let server = Server::start(move |request, _| {
        std::thread::sleep(Duration::from_millis(700));
        part(request, &release, "\"1\"")
    });
    environment.write_manifest(&server.url("/x.tgz"), &sha1(&environment.release));
    std::thread::scope(|scope| {
        for state in ["a.json", "b.json", "c.json"] {
            let environment = &environment;
            scope.spawn(move || environment.run_and_fetch_all(environment.command(&["--state", state])));
        }
    });
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn https_trusts_only_system_authorities() {
    let environment = FetchEnvironment::new();
    let release = environment.release.clone();
    let (server, certificate) = Server::start_tls(move |request, _| part(request, &release, "\"1\""));
    environment.write_manifest(&server.url("/x.tgz"), &sha1(&environment.release));
    let bundle = environment.world.write("ca.pem", certificate);
    let proxy = ForwardProxy::http();
    let mut command = environment.command(&[]);
    // Requests to this machine's own addresses never use such a proxy.
    command.env("SSL_CERT_FILE", &bundle).env("HTTPS_PROXY", format!("http://localhost:{}", proxy.port()));
    environment.run_and_fetch_all(command);
    assert!(proxy.targets().is_empty(), "{:?}", proxy.targets());
    assert_eq!(server.requests().len(), 1);
    // A certificate is not accepted later either, so there is no retry.
    let run = environment.world.finish(environment.command(&["--cache-dir", "other"])).exits_with(1);
    let expected = "the server is not trusted: its certificate is not signed by a certificate authority";
    assert!(run.stderr.contains(expected) && run.stderr.contains("SSL_CERT_FILE"), "{}", run.stderr);
    assert!(!run.stderr.contains("the download continues"), "{}", run.stderr);
}

#[test]
fn redirect_from_https_to_http_needs_a_digest() {
    let environment = FetchEnvironment::new();
    let plain = Server::for_file(&environment.stemcell);
    let target = plain.url("/stemcell.tgz");
    let (server, certificate) =
        Server::start_tls(move |_, _| answer("302 Found", &[("Location", &target)], b""));
    environment.write_manifest("file:///none", &sha1(b""));
    let bundle = environment.world.write("ca.pem", certificate);
    let upload = |extra_args: &[&str]| {
        let url = server.url("/stemcell.tgz");
        // The wrong name ends the command before it calls the CPI.
        let words = ["upload-stemcell", "e.yml", &url, "--name", "other", "--version", "1"];
        let mut command = environment.world.monopile(words.iter().chain(extra_args));
        command.env("SSL_CERT_FILE", &bundle);
        let run = environment.world.finish(command);
        assert!(run.code > 0, "{run:?}");
        run.stderr
    };
    let stderr = upload(&[]);
    assert!(stderr.contains("which is not encrypted"), "{stderr}");
    assert!(plain.requests().is_empty());
    let stderr = upload(&["--sha1", &sha256(&environment.stemcell)]);
    assert!(!stderr.contains("not encrypted") && stderr.contains("other"), "{stderr}");
    assert_eq!(plain.requests().len(), 1);
}

#[test]
fn proxy_variables_are_honoured() {
    let environment = FetchEnvironment::new();
    let server = Server::for_file(&environment.release);
    let url = format!("http://releases.test:{}/x.tgz", server.port());
    environment.write_manifest(&url, &sha1(&environment.release));
    let (http, socks) = (ForwardProxy::http(), ForwardProxy::socks5(None));
    for (index, (name, value)) in [
        ("http_proxy", format!("http://127.0.0.1:{}", http.port())),
        ("BOSH_ALL_PROXY", format!("socks5://127.0.0.1:{}", socks.port())),
    ]
    .into_iter()
    .enumerate()
    {
        let mut command = environment.command(&["--cache-dir", &format!("cache-{index}")]);
        command.env(name, value);
        environment.run_and_fetch_all(command);
    }
    assert_eq!(http.targets(), [format!("GET {url}")]);
    // The look for an agent goes through the SOCKS proxy as well.
    let downloads = || -> Vec<String> {
        socks.targets().into_iter().filter(|target| !target.ends_with(":6868")).collect()
    };
    assert_eq!(downloads(), [format!("releases.test:{}", server.port())]);
    // With both settings, the HTTP proxy is reached through the SOCKS proxy.
    let mut command = environment.command(&["--cache-dir", "cache-both"]);
    command
        .env("HTTP_PROXY", format!("http://proxy.test:{}", http.port()))
        .env("BOSH_ALL_PROXY", format!("socks5://127.0.0.1:{}", socks.port()));
    environment.run_and_fetch_all(command);
    assert_eq!(downloads().last(), Some(&format!("proxy.test:{}", http.port())));
    assert_eq!(http.targets().len(), 2);
    let mut command = environment.command(&[]);
    command.env("BOSH_ALL_PROXY", "gopher://x");
    let run = environment.world.finish(command).exits_with(3);
    assert!(run.stderr.contains("BOSH_ALL_PROXY"), "{}", run.stderr);
}

/// A real SSH server on loopback. It stops on drop.
struct Sshd {
    process: Child,
    port: u16,
}

impl Sshd {
    /// Starts a server that accepts the key in `client_key`.
    fn start(world: &World) -> Self {
        for name in ["host_key", "client_key"] {
            let mut command = prepare("ssh-keygen");
            world.enter(&mut command).args(["-q", "-t", "ed25519", "-N", "", "-f", name]);
            assert!(command.run_to_end().status.success());
        }
        let port = crate::support::free_port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM \
             no\n\
             PidFile none\nPasswordAuthentication no\nAllowTcpForwarding yes\n",
            world.path("host_key").display(),
            world.path("client_key.pub").display(),
        );
        let config = world.write("sshd_config", config);
        let process = prepare(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/sshd/run"))
            .args(["-D", "-e", "-f"])
            .arg(config)
            .stderr(std::fs::File::create(world.path("sshd.log")).unwrap())
            .spawn()
            .expect("sshd (Debian: openssh-server) is needed");
        let sshd = Sshd { process, port };
        wait_until("sshd listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        sshd
    }

    /// Returns `BOSH_ALL_PROXY` for this server as a jumpbox, with this private key.
    fn proxy(&self, world: &World, key: &str) -> String {
        let user = prepare("id").arg("-un").run_to_end().stdout;
        let user = String::from_utf8(user).unwrap().trim().to_owned();
        format!("ssh+socks5://{user}@127.0.0.1:{}?private-key={}", self.port, world.path(key).display())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        self.process.stop();
    }
}

#[test]
fn downloads_go_through_a_jumpbox() {
    let environment = FetchEnvironment::new();
    let sshd = Sshd::start(&environment.world);
    let (release, stemcell) = (environment.release.clone(), environment.stemcell.clone());
    let server = Server::start(move |request, _| {
        part(request, if request.path() == "/x" { &release } else { &stemcell }, "\"1\"")
    });
    environment.write_manifest_of(
        &server.url("/x"),
        &sha1(&environment.release),
        &server.url("/s"),
        &sha1(&environment.stemcell),
    );
    let proxy = |key: &str| sshd.proxy(&environment.world, key);
    let mut command = environment.command(&[]);
    command.env("BOSH_ALL_PROXY", proxy("client_key"));
    environment.run_and_fetch_all(command);
    assert_eq!(server.requests().len(), 2);
    let log = environment.world.read("sshd.log");
    assert_eq!(
        log.matches("Accepted publickey").count(),
        2,
        "one session for downloads, one for the agent: {log}"
    );

    let mut command = environment.command(&["--cache-dir", "other"]);
    command.env("BOSH_ALL_PROXY", proxy("host_key"));
    let run = environment.world.finish(command).exits_with(1);
    assert!(run.stderr.contains("does not accept the private key"), "{}", run.stderr);
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn agent_is_reached_through_a_proxy_or_a_jumpbox() {
    let hello = Hello::new();
    let sshd = Sshd::start(&hello.world);
    let jumpbox = |key: &str| sshd.proxy(&hello.world, key);
    let run = |command: &str, proxy: &str, extra_args: &[&str]| {
        let mut command = hello.command(command, extra_args);
        command.env("BOSH_ALL_PROXY", proxy);
        hello.world.finish(command)
    };
    run("create-env", &jumpbox("client_key"), &[]).success();
    assert_eq!(hello.ask_counter(), 1);
    let log = hello.world.read("sshd.log");
    assert_eq!(log.matches("Accepted publickey").count(), 1, "one session serves all messages: {log}");

    // Both agent and blobs use the proxy, and its password is a secret.
    let socks = ForwardProxy::socks5(Some(("me", "s3cret-of-a-proxy")));
    let url = |password: &str| format!("socks5://me:{password}@127.0.0.1:{}", socks.port());
    let status = run("status", &url("s3cret-of-a-proxy"), &["--verbose", "--verbose"]).success();
    assert!(status.stdout.contains("running"), "{}", status.stdout);
    assert!(!format!("{status:?}").contains("s3cret-of-a-proxy"));
    let agent = format!("{}:6868", hello.ip());
    assert!(socks.targets().contains(&agent), "{:?}", socks.targets());
    let request_count_before = socks.targets().len();
    let mut direct = hello.command("status", &[]);
    direct.env("BOSH_ALL_PROXY", url("s3cret-of-a-proxy")).env("NO_PROXY", "127.0.0.0/8");
    hello.world.finish(direct).success();
    assert_eq!(socks.targets().len(), request_count_before);

    let quick = ["--agent-timeout", "1s"];
    let failed_run = run("restart", &url("wr0ng"), &quick).exits_with(5);
    assert!(failed_run.stderr.contains("the SOCKS proxy 127.0.0.1"), "{}", failed_run.stderr);
    let failed_run = run("restart", &jumpbox("host_key"), &quick).exits_with(5);
    assert!(failed_run.stderr.contains("does not accept the private key"), "{}", failed_run.stderr);
    let invalid = run("status", "gopher://x", &[]).exits_with(3);
    assert!(invalid.stderr.contains("BOSH_ALL_PROXY"), "{}", invalid.stderr);

    // A broken proxy says nothing about the VM, which therefore is neither replaced nor deleted.
    let port = crate::support::free_port();
    let unreachable_proxy = format!("socks5://me:s3cret-of-a-proxy@127.0.0.1:{port}");
    let absent_proxy = (unreachable_proxy.as_str(), format!("{port} cannot be reached: Connection refused"));
    let refusing_proxy = url("wr0ng");
    let refusing_proxy =
        (refusing_proxy.as_str(), format!("{}: it refuses the user and password", socks.port()));
    for ((proxy, problem), command, extra_args) in [
        (&absent_proxy, "status", &quick[..]),
        (&absent_proxy, "restart", &quick),
        (&absent_proxy, "cloud-check", &["--auto", "--agent-timeout", "1s"]),
        (&refusing_proxy, "create-env", &[]),
        (&refusing_proxy, "create-env", &["--recreate"]),
        (&absent_proxy, "delete-env", &quick),
    ] {
        let failed_run = run(command, proxy, extra_args).exits_with(5);
        let proxy_error = format!("through BOSH_ALL_PROXY: the SOCKS proxy 127.0.0.1:{problem}");
        assert!(failed_run.stderr.contains(&proxy_error), "{command}: {}", failed_run.stderr);
        assert!(
            failed_run.stderr.contains("hint: check that the proxy runs"),
            "{command}: {}",
            failed_run.stderr
        );
        assert!(!failed_run.stderr.contains("check that the VM runs"), "{command}: {}", failed_run.stderr);
        assert!(!["s3cret-of-a-proxy", "wr0ng"].iter().any(|secret| failed_run.stderr.contains(secret)));
    }
    // A proxy that works, but reaches no agent.
    let failed_run =
        run("restart", &url("s3cret-of-a-proxy"), &["-v", "mbus_port=1", "--agent-timeout", "1s"]);
    assert!(failed_run.exits_with(5).stderr.contains("hint: check that the VM runs"));
    assert_eq!(hello.ask_counter(), 2, "the VM is the same");
    hello.delete(&[]).success();
    drop(sshd);
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Runs a command under a shell that then reports the bytes read by it and its children.
fn count_bytes_read(hello: &Hello, command: &Command) -> (Run, u64) {
    let mut shell = prepare("bash");
    hello.world.enter(&mut shell);
    // The kernel adds the counters of a child to those of its parent after the parent has waited for it.
    shell.args(["-c", "\"$@\" >&2; code=$?; sed -n 's/^rchar: //p' /proc/$$/io; exit $code", "-"]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let run = hello.world.finish(shell).success();
    let read = run.stdout.trim().parse().unwrap();
    (run, read)
}

#[test]
fn stemcell_is_read_once_and_not_if_unchanged() {
    const PADDING: u64 = 64 << 20;
    let mut hello = Hello::new();
    let script = format!(
        "cd hello/stemcell && tar czf ../../image -C image . && head -c {PADDING} /dev/urandom > \
            ../../padding &&
         cp stemcell.MF ../.. && cd ../.. && tar cf stemcell.tar stemcell.MF image padding && rm padding \
         image"
    );
    let mut shell = prepare("bash");
    hello.world.enter(&mut shell).args(["-ec", &script]);
    hello.world.finish(shell).success();
    let content = std::fs::read(hello.world.path("stemcell.tar")).unwrap();
    let digest = sha1(&content);
    drop(content);
    // `hello/` is the manifest's directory.
    let ops = |digest: &str| {
        format!(
            "- {{type: replace, path: /resource_pools/name=vms/stemcell, value: {{url: \
                'file://../stemcell.tar', sha1: {digest}}}}}\n"
        )
    };
    hello.add_ops("stemcell.yml", &ops(&sha1(b"another")));
    let run = hello.create(&[]).exits_with(3);
    assert!(run.stderr.contains(&format!("expected {}, found {digest}", sha1(b"another"))), "{}", run.stderr);
    assert_eq!(hello.take_requests().len(), 0, "no CPI was called");
    hello.world.write("stemcell.yml", ops(&digest));
    let create = hello.command("create-env", &[]);
    let (run, read) = count_bytes_read(&hello, &create);
    let stages = ["Unpacking the stemcell ...", "Reading the stemcell ..."];
    assert_eq!(stages.map(|stage| run.stderr.contains(stage)), [true, false], "{}", run.stderr);
    assert!((PADDING..PADDING * 3 / 2).contains(&read), "{read} bytes were read");
    let (run, read) = count_bytes_read(&hello, &create);
    assert!(run.stderr.contains("Nothing to do"), "{}", run.stderr);
    assert!(read < PADDING / 8, "{read} bytes were read");

    // A touched file is read again. Its content is unchanged.
    let file = std::fs::File::options().append(true).open(hello.world.path("stemcell.tar")).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(60)).unwrap();
    let (run, read) = count_bytes_read(&hello, &create);
    assert!(run.stderr.contains("Nothing to do"), "{}", run.stderr);
    assert!(read > PADDING, "{read} bytes were read");
    let (_, read) = count_bytes_read(&hello, &create);
    assert!(read < PADDING / 8, "{read} bytes were read");
    hello.delete(&[]).success();
}

#[test]
fn system_authorities_are_loaded_only_for_downloads() {
    const SIZE: u64 = 16 << 20;
    let hello = Hello::new();
    hello.create(&[]).success();
    let roots = hello.world.write("roots.pem", vec![b'#'; usize::try_from(SIZE).unwrap()]);
    let mut create = hello.command("create-env", &[]);
    create.env("SSL_CERT_FILE", &roots);
    let (run, read) = count_bytes_read(&hello, &create);
    assert!(run.stderr.contains("Nothing to do"), "{}", run.stderr);
    assert!(read < SIZE / 2, "{read} bytes were read");
    hello.delete(&[]).success();
}

#[test]
fn failed_download_stops_the_others() {
    let environment = FetchEnvironment::new();
    let server = Server::start(|_, _| {
        std::thread::sleep(Duration::from_millis(500));
        answer("404 Not Found", &[], b"")
    });
    // No attempt gets past half of the content.
    let (port, _) = start_slow_server(vec![7; 100_000], 50_000);
    let stemcell = format!("http://localhost:{port}/s.tgz");
    environment.write_manifest_of(&server.url("/x.tgz"), &sha1(b"x"), &stemcell, &sha1(b"s"));
    let start = Instant::now();
    let run = environment.world.finish(environment.command(&[])).exits_with(1);
    assert!(run.stderr.contains("404 Not Found"), "{}", run.stderr);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn all_failed_downloads_are_reported() {
    let environment = FetchEnvironment::new();
    // The stemcell fails a little later than the release.
    let server = Server::start(|request, _| {
        let pause_ms = if request.path() == "/s.tgz" { 500 } else { 0 };
        std::thread::sleep(Duration::from_millis(pause_ms));
        answer("404 Not Found", &[], b"")
    });
    let (release, stemcell) = (server.url("/x.tgz"), server.url("/s.tgz"));
    environment.write_manifest_of(&release, &sha1(b"x"), &stemcell, &sha1(b"s"));
    let run = environment.world.finish(environment.command(&[])).exits_with(1);
    for line in [
        "error: 2 artifacts cannot be used:\n".to_owned(),
        format!(": the stemcell: downloading '{stemcell}' failed: "),
        format!(": release 'x': downloading '{release}' failed: "),
        format!("hint: check the URL: `curl -IL '{stemcell}'`"),
        format!("hint: check the URL: `curl -IL '{release}'`"),
    ] {
        assert!(run.stderr.contains(&line), "{line} is not in {}", run.stderr);
    }
}
