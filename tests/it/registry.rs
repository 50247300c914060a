//! Contract v1: the registry, and the SSH tunnel for VMs that cannot reach it otherwise. The sshd is real.
//! The VM is one of the `local` CPI in its own network namespace.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::hello::Hello;
use crate::support::island::Island;
use crate::support::process::{RunToEnd, WaitForEnd, interrupt, pieces, prepare, receive};
use crate::support::pty::Pty;
use crate::support::scripted::{InfoAnswer, Interruption, Script, wait_until};
use crate::support::{MONOPILE, Run};

const PASSWORD: &str = "r3gistry-canary";

/// Returns the hello environment with a stemcell of version 1.
fn hello_with_contract_v1() -> Hello {
    use_old_stemcell(Hello::new())
}

fn use_old_stemcell(hello: Hello) -> Hello {
    let text = hello.world.read("hello/stemcell/stemcell.MF");
    assert!(text.contains("api_version: 3\n"));
    hello.world.write("hello/stemcell/stemcell.MF", text.replace("api_version: 3\n", ""));
    hello
}

/// Returns an ops file with a registry.
fn registry(port: u16) -> String {
    format!(
        "- type: replace\n  path: /cloud_provider/properties/registry?\n  \
         value: {{host: 127.0.0.1, port: {port}, username: registry, password: {PASSWORD}}}\n"
    )
}

/// Returns an ops file with a tunnel.
fn tunnel(host: &str, port: u16, key: &str) -> String {
    let user = prepare("id").arg("-un").run_to_end().stdout;
    let user = String::from_utf8(user).unwrap();
    let tunnel = serde_json::json!({"host": host, "port": port, "user": user.trim(), "private_key": key});
    serde_json::json!([{"type": "replace", "path": "/cloud_provider/ssh_tunnel?", "value": tunnel}])
        .to_string()
}

/// Writes a private key with this passphrase, and returns its path.
fn write_key(hello: &Hello, passphrase: &str) -> String {
    let path = hello.world.path("key").display().to_string();
    let mut keygen = prepare("ssh-keygen");
    let keygen = keygen.args(["-q", "-t", "ed25519", "-N", passphrase, "-f", &path]).run_to_end();
    assert!(keygen.status.success(), "{}", String::from_utf8_lossy(&keygen.stderr));
    path
}

/// Starts a run, and waits until it prints this text.
fn run_until(hello: &Hello, mut command: Command, text: &str) -> Child {
    let file = |name: &str| std::fs::File::create(hello.world.path(name)).unwrap();
    let child = command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr")).spawn().unwrap();
    wait_until(text, || ["stdout", "stderr"].iter().any(|name| hello.world.read(name).contains(text)));
    child
}

/// An environment whose VM is on an island.
struct RemoteEnvironment {
    // The environment is dropped before the island that has its VM.
    hello: Hello,
    island: Island,
    port: u16,
}

impl RemoteEnvironment {
    fn new() -> RemoteEnvironment {
        let subnet = crate::support::hello::far_subnet();
        let mut hello = use_old_stemcell(Hello::in_subnet(&subnet));
        let island = Island::new(&hello.world, &subnet);
        let port = crate::support::free_port();
        hello.add_ops("registry.yml", &registry(port));
        hello.add_ops(
            "far.yml",
            &format!(
                "- type: replace\n  path: /resource_pools/name=vms/cloud_properties\n  \
                 value: {{network_namespace: {}}}\n",
                island.namespace()
            ),
        );
        let remote = RemoteEnvironment { hello, island, port };
        remote.write_tunnel(&remote.island.file("key"));
        remote
    }

    /// Writes the ops file of the tunnel with this key.
    fn write_tunnel(&self, key: &str) {
        self.hello.world.write("tunnel.yml", tunnel(&self.island.ip(), 22, key));
    }

    fn create(&self, extra_args: &[&str]) -> Run {
        self.hello.create(&[&["-o", "tunnel.yml"], extra_args].concat())
    }

    fn delete(&self) -> Run {
        self.hello.delete(&["-o", "tunnel.yml"])
    }

    /// Returns the ids and settings of the registry on disk.
    fn stored_settings(&self) -> Vec<(String, Value)> {
        let path = self.hello.world.path("state.json.journal/registry.json");
        let Ok(text) = std::fs::read(&path) else { return Vec::new() };
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let entries: serde_json::Map<String, Value> = serde_json::from_slice(&text).unwrap();
        entries
            .into_iter()
            .map(|(id, settings)| (id, serde_json::from_str(settings.as_str().unwrap()).unwrap()))
            .collect()
    }

    /// Checks that nothing is left of the environment and the island.
    fn assert_gone(mut self) {
        self.island.stop_sshd();
        assert!(!self.hello.world.exists("state.json.journal"), "the registry outlives its VM");
        let mut leftovers = self.hello.leftovers();
        // Killed runs leave scratch files, which a later run removes.
        leftovers.retain(|leftover| !leftover.starts_with("file "));
        assert_eq!(leftovers, Vec::<String>::new());
    }
}

#[track_caller]
fn vm_of_v1(state: &Value) -> &Value {
    assert_eq!(state["monopile"]["vm"]["contract"], "v1", "{state}");
    &state["monopile"]["vm"]
}

#[test]
fn vm_reaches_the_registry_through_the_tunnel_only() {
    let mut remote = RemoteEnvironment::new();
    remote.island.start_sshd("");
    let run = remote.create(&["--verbose", "--verbose"]).success();
    assert!(run.stdout.contains("Opening the ssh tunnel to VM"), "{}", run.stdout);
    for text in [&run.stdout, &run.stderr] {
        assert!(!text.contains(PASSWORD), "{text}");
    }
    assert_eq!(remote.hello.ask_counter(), 1);
    let state = remote.hello.state();
    assert!(vm_of_v1(&state)["ssh_host_key"].as_str().unwrap().starts_with("ssh-ed25519 "));
    assert_eq!(vm_of_v1(&state)["networks"], Value::Null);
    assert_eq!(state["disks"][0].get("hint"), None);
    let cid = state["current_vm_cid"].as_str().unwrap().to_owned();
    let entries = remote.stored_settings();
    assert_eq!((entries.len(), entries[0].0.as_str()), (1, cid.as_str()));
    let disk = state["disks"][0]["cid"].as_str().unwrap();
    assert_eq!(entries[0].1["disks"]["persistent"][disk]["path"], format!("/dev/monopile/{disk}"));

    // The settings came through the tunnel, because the CPI gave the VM none, and the VM has no other
    // connection.
    assert!(remote.hello.find(&format!("work/cloud/vms/{cid}"), "user_data.json").len() == 2);
    assert!(!remote.hello.world.exists(format!("cloud/vms/{cid}/settings.json")));
    for host in ["127.0.0.1", &remote.island.ip(), &remote.island.ip().replace(".2", ".1")] {
        assert!(!remote.island.reaches(host, remote.port), "{host} leads to the registry without a tunnel");
    }
    assert!(remote.island.reaches(&remote.island.ip(), 22), "the island is not cut off as a whole");
    assert!(remote.island.log().contains("Accepted publickey"), "{}", remote.island.log());

    // An unchanged run needs neither the registry nor the tunnel.
    let run = remote.create(&[]).success();
    assert!(!run.stdout.contains("tunnel"), "{}", run.stdout);

    let command = |name: &str| {
        remote.hello.world.finish(remote.hello.command(name, &["-o", "tunnel.yml"])).success();
    };
    command("stop-env");
    command("start-env");
    assert_eq!(remote.hello.ask_counter(), 2);

    // With a new VM and a new disk, the agent queries the registry again.
    remote
        .hello
        .world
        .write("shrink.yml", "- {type: replace, path: /disk_pools/name=disks/disk_size, value: 512}\n");
    remote.hello.take_requests();
    remote.create(&["-o", "shrink.yml"]).success();
    assert_eq!(remote.hello.ask_counter(), 3);
    let requests = remote.hello.take_requests();
    let methods = Hello::methods(&requests);
    for method in ["delete_vm", "create_vm", "create_disk", "attach_disk", "detach_disk", "delete_disk"] {
        assert!(methods.contains(&method), "{methods:?}");
    }
    let state = remote.hello.state();
    let entries = remote.stored_settings();
    assert_eq!((entries.len(), entries[0].0.as_str()), (1, state["current_vm_cid"].as_str().unwrap()));
    let disks = entries[0].1["disks"]["persistent"].as_object().unwrap();
    assert_eq!(disks.keys().collect::<Vec<_>>(), [state["disks"][0]["cid"].as_str().unwrap()]);

    remote.delete().success();
    remote.assert_gone();
}

#[test]
fn tunnel_waits_for_a_late_sshd() {
    let mut remote = RemoteEnvironment::new();
    let start = Instant::now();
    let run = std::thread::scope(|scope| {
        let (hello, island) = (&remote.hello, &mut remote.island);
        scope.spawn(|| {
            wait_until("the VM is made", || {
                let state = std::fs::read_to_string(hello.world.path("state.json")).unwrap_or_default();
                state.contains("\"contract\"")
            });
            // The sshd starts this long after the VM exists.
            std::thread::sleep(Duration::from_secs(3));
            island.start_sshd("");
        });
        hello.create(&["-o", "tunnel.yml", "--verbose"])
    });
    let run = run.success();
    assert!(start.elapsed() >= Duration::from_secs(3));
    assert!((run.stdout + &run.stderr).contains("cannot be reached: TCP: "));
    remote.delete().success();
    remote.assert_gone();
}

#[test]
fn registry_content_survives_a_kill() {
    let mut remote = RemoteEnvironment::new();
    remote.island.start_sshd("");
    // The third call is `create_vm`, after `info` and `create_stemcell`.
    remote.hello.set_script(Script::with_interruption(3, Interruption::After));
    assert_eq!(remote.create(&[]).code, -1);
    let entries = remote.stored_settings();
    assert_eq!(entries.len(), 1, "the CPI's settings are lost");
    assert!(remote.hello.world.exists(format!("cloud/vms/{}", entries[0].0)));

    remote.hello.set_script(Script::with_info(InfoAnswer::Local));
    let run = remote.create(&["--verbose"]).success();
    assert!(run.stdout.contains("Recording the outcome of the `create_vm`"), "{}", run.stdout);
    let stored_after_rerun = remote.stored_settings();
    assert_eq!(
        (stored_after_rerun.len(), stored_after_rerun[0].0.as_str()),
        (1, remote.hello.state()["current_vm_cid"].as_str().unwrap())
    );
    assert_ne!(stored_after_rerun[0].0, entries[0].0, "the VM of the killed run was replaced");
    assert_eq!(remote.hello.ask_counter(), 1);
    assert_eq!(remote.hello.cloud(), remote.hello.recorded_cids());

    // The run is also killed in the middle of a deletion.
    remote.hello.set_script(Script::with_interruption(3, Interruption::After));
    assert_eq!(remote.delete().code, -1);
    remote.hello.set_script(Script::with_info(InfoAnswer::Local));
    remote.delete().success();
    remote.assert_gone();
}

/// Returns true if an HTTP server answers at this port of the loopback interface.
fn answers(port: u16) -> bool {
    let read_answer = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"GET /instances/none/settings HTTP/1.0\r\n\r\n")?;
        stream.read(&mut [0; 16])
    };
    read_answer().is_ok_and(|read| read > 0)
}

#[test]
fn running_cpi_gets_its_registry_back() {
    let mut hello = hello_with_contract_v1();
    let port = crate::support::free_port();
    // Each run generates a password. The CPI learns only that of its own run.
    let ops = "- type: replace\n  path: /cloud_provider/properties/registry?\n  value: {host: 127.0.0.1, \
        port: PORT}\n";
    hello.add_ops("registry.yml", &ops.replace("PORT", &port.to_string()));
    // The third call is `create_vm`, after `info` and `create_stemcell`.
    hello.set_script(Script::with_interruption(3, Interruption::Hold));
    let mut child = hello.command("create-env", &[]).stdout(Stdio::null()).spawn().unwrap();
    hello.wait_until_held();
    child.kill().unwrap();
    child.end();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the registry outlives its run");

    // Another program holds the port at first.
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let run = std::thread::scope(|scope| {
        let hello = &hello;
        scope.spawn(move || {
            std::thread::sleep(Duration::from_secs(2));
            drop(listener);
            // The wait is limited. Without the registry, the call fails.
            let end = Instant::now() + Duration::from_secs(20);
            // A starting program may briefly hold the port, so only a registry's answer counts.
            while !answers(port) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
            hello.release_call();
        });
        hello.create(&[])
    });
    let run = run.success();
    assert!(run.stdout.contains("the `create_vm` of an earlier run: done"), "{}", run.stdout);
    assert_eq!(run.stderr.matches("cannot be started again yet").count(), 1, "{}", run.stderr);
    let (created_cids, deleted_cids) = hello.effects();
    let vms: Vec<&String> = created_cids.iter().filter(|cid| cid.starts_with("vm-")).collect();
    // No job ever ran on the first VM.
    assert_eq!((vms.len(), vec![vms[0]]), (2, deleted_cids.iter().collect()), "{created_cids:?}");
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
    let mut leftovers = hello.leftovers();
    leftovers.retain(|leftover| !leftover.starts_with("file "));
    assert_eq!(leftovers, Vec::<String>::new());
}

#[test]
fn signal_ends_the_wait_for_the_registry() {
    let mut hello = hello_with_contract_v1();
    let port = crate::support::free_port();
    hello.add_ops("registry.yml", &registry(port));
    // The third call is `create_vm`, after `info` and `create_stemcell`.
    hello.set_script(Script::with_interruption(3, Interruption::Hold));
    let mut killed_run = hello.command("create-env", &[]).stdout(Stdio::null()).spawn().unwrap();
    hello.wait_until_held();
    killed_run.kill().unwrap();
    killed_run.end();

    // At first another program holds the port, and later the registry is available to the call.
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    interrupt(run_until(&hello, hello.command("create-env", &[]), "cannot be started again yet"));
    drop(listener);
    let waits =
        run_until(&hello, hello.command("create-env", &[]), "of an earlier run, which is still running");
    wait_until("the registry answers", || answers(port));
    interrupt(waits);
    let stderr = hello.world.read("stderr");
    for part in [
        "error: interrupted while waiting for the `create_vm` of an earlier run",
        "it waits for the same process and gets its answer",
        "if the CPI hangs, end its process: `kill ",
    ] {
        assert!(stderr.contains(part), "{stderr}");
    }

    let forgets = hello.command("create-env", &["--forget-open-calls"]);
    let mut goes_on = run_until(&hello, forgets, "of an earlier run, which is still running");
    wait_until("the registry answers", || answers(port));
    hello.release_call();
    assert!(goes_on.end().success(), "{}", hello.world.read("stderr"));
    let warning = "--forget-open-calls does not apply to the `create_vm` of an earlier run while it is \
                   still running\n  hint: wait for it, or end its process: `kill ";
    assert!(hello.world.read("stderr").contains(warning), "{}", hello.world.read("stderr"));
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
}

/// Covers a server that accepts connections and is silent, a port without a server, and a name for which the
/// system's resolver waits.
#[test]
fn signal_ends_the_wait_for_the_tunnel() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener_port = listener.local_addr().unwrap().port();
    for (host, port) in [("127.0.0.1", listener_port), ("127.0.0.1", 1), ("sshd.invalid", 22)] {
        let mut hello = hello_with_contract_v1();
        hello.add_ops("registry.yml", &registry(crate::support::free_port()));
        hello.add_ops("tunnel.yml", &tunnel(host, port, &write_key(&hello, "")));
        let create = hello.command("create-env", &[]);
        let stage = "Opening the ssh tunnel";
        if host == "sshd.invalid" {
            let server = format!("{}3", hello.ip().strip_suffix('2').unwrap());
            let resolver = UdpSocket::bind((server.as_str(), 53)).unwrap();
            resolver.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let config = format!("nameserver {server}\noptions timeout:30 attempts:2\n");
            let config = hello.world.write("resolv.conf", config);
            let mut command = prepare("unshare");
            let script = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
            hello.world.enter(&mut command).args(["--mount", "bash", "-c", script]);
            command.arg(config).arg(MONOPILE).args(create.get_args());
            let run = run_until(&hello, command, stage);
            resolver.recv_from(&mut [0; 512]).expect("the name server is asked");
            interrupt(run);
        } else {
            interrupt(run_until(&hello, create, stage));
        }
        let state = hello.state();
        assert_eq!(vm_of_v1(&state).get("ssh_host_key"), None, "{host}:{port}");
        assert_eq!(hello.cloud(), hello.recorded_cids(), "{host}:{port}");
        hello.world.write("tunnel.yml", "[]\n");
        hello.delete(&["--agent-timeout", "1s"]).success();
        assert_eq!(hello.leftovers(), Vec::<String>::new(), "{host}:{port}");
    }
}

#[test]
fn signal_at_the_prompt_for_a_passphrase_ends_the_run() {
    let mut hello = hello_with_contract_v1();
    hello.add_ops("registry.yml", &registry(crate::support::free_port()));
    hello.add_ops("tunnel.yml", &tunnel("127.0.0.1", 22, &write_key(&hello, "open sesame")));
    let mut pty = Pty::start(hello.command("create-env", &[]), (120, 50));
    pty.wait_for("the prompt", |screen| screen.contains("Passphrase of the private key"));
    pty.signal(Signal::INT);
    // The signal ends the prompt or the process, whichever comes first.
    let (code, text) = (pty.end(), pty.text());
    assert!([130, -1].contains(&code), "{code}: {text}");
    assert!(text.contains("error: interrupted: nothing was done"), "{text}");
    assert!(!text.contains("received: waiting") && !hello.world.exists("cloud"), "{text}");
}

#[test]
fn every_tunnel_failure_is_explained_and_recoverable() {
    let mut remote = RemoteEnvironment::new();
    remote.island.start_sshd("");
    remote.island.generate_key("stranger", "-t ed25519 -N ''");
    remote.write_tunnel(&remote.island.file("stranger"));
    let run = remote.create(&["--agent-timeout", "2s"]).exits_with(5);
    assert!(run.stderr.contains("does not accept the private key for the user"), "{}", run.stderr);
    assert!(run.stderr.contains("`cloud_provider.ssh_tunnel`"), "a hint: {}", run.stderr);
    assert_eq!(vm_of_v1(&remote.hello.state()).get("ssh_host_key"), None, "no login succeeded");
    remote.write_tunnel(&remote.island.file("key"));

    remote.island.stop_sshd();
    remote.island.start_sshd("AllowTcpForwarding no");
    let run = remote.create(&["--agent-timeout", "2s"]).exits_with(5);
    assert!(run.stderr.contains(&format!("refuses to forward its port {}", remote.port)), "{}", run.stderr);
    assert!(run.stderr.contains("AllowTcpForwarding yes"), "{}", run.stderr);

    // The state has the host key of the VM. A server with another key is rejected.
    assert!(vm_of_v1(&remote.hello.state())["ssh_host_key"].is_string());
    remote.island.stop_sshd();
    remote.island.generate_key("host_key", "-t ed25519 -N ''");
    remote.island.start_sshd("");
    let run = remote.create(&[]).success();
    assert!(run.stderr.contains("the host key of"), "{}", run.stderr);
    assert!(run.stderr.contains("has changed: it was SHA256:"), "{}", run.stderr);
    // The host key was dropped with its VM, and that of the new VM was recorded.
    let public_key = std::fs::read_to_string(remote.island.file("host_key.pub")).unwrap();
    let known_host_key = vm_of_v1(&remote.hello.state())["ssh_host_key"].as_str().unwrap().to_owned();
    assert!(public_key.starts_with(&known_host_key), "{public_key} {known_host_key}");
    remote.delete().success();
    remote.assert_gone();
}

#[test]
fn every_key_format_opens_the_tunnel() {
    let mut remote = RemoteEnvironment::new();
    remote.island.start_sshd("");
    for (number, options) in
        ["-t rsa -b 2048 -m PEM -N ''", "-t ecdsa -m PKCS8 -N ''", "-t rsa -b 2048 -N ''"].iter().enumerate()
    {
        let name = format!("key{number}");
        remote.island.generate_key(&name, options);
        remote.island.admit(&name);
        let path = remote.island.file(&name);
        // The first key is given as a path, the others as text in the manifest.
        let text = std::fs::read_to_string(&path).unwrap();
        remote.write_tunnel(if number == 0 { &path } else { &text });
        let run = remote.create(&["--recreate", "--verbose", "--verbose"]).success();
        let line = text.lines().nth(2).unwrap();
        assert!(!run.stderr.contains(line) && !run.stdout.contains(line), "the key is shown");
    }
    remote.delete().success();
    remote.assert_gone();
}

/// Runs `create-env` on a terminal, types one of `answers` at each prompt for a passphrase, and returns the
/// screen.
fn run_on_terminal(remote: &RemoteEnvironment, answers: &[&str]) -> Run {
    use std::io::Write;
    let command = remote.hello.command("create-env", &["-o", "tunnel.yml"]);
    let line: Vec<String> = command.get_args().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let mut script = prepare("script");
    remote.hello.world.enter(&mut script).env("TERM", "xterm").args([
        "--quiet",
        "--return",
        "--command",
        &format!("{MONOPILE} {}", line.join(" ")),
        "/dev/null",
    ]);
    let mut child =
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), pieces(child.stdout.take().unwrap()));
    let (mut screen, mut prompt_count) = (Vec::new(), 0);
    while let Some(piece) = receive("the terminal shows more", &output) {
        screen.extend(piece);
        let text = String::from_utf8_lossy(&screen).into_owned();
        while prompt_count < answers.len()
            && text.matches("Passphrase of the private key").count() > prompt_count
        {
            std::thread::sleep(Duration::from_millis(200));
            input.write_all(format!("{}\r", answers[prompt_count]).as_bytes()).unwrap();
            input.flush().unwrap();
            prompt_count += 1;
        }
    }
    let code = child.end().code().unwrap();
    assert_eq!(prompt_count, answers.len(), "{}", String::from_utf8_lossy(&screen));
    Run { code, stdout: String::from_utf8_lossy(&screen).into_owned(), stderr: String::new() }
}

#[test]
fn passphrase_prompt_comes_before_any_effect() {
    let mut remote = RemoteEnvironment::new();
    remote.island.start_sshd("");
    remote.island.generate_key("locked", "-t ed25519 -N 'open sesame'");
    remote.island.admit("locked");
    remote.write_tunnel(&remote.island.file("locked"));
    let run = remote.create(&[]).exits_with(3);
    assert!(run.stderr.contains("it is protected by a passphrase"), "{}", run.stderr);
    assert!(run.stderr.contains("run the same command at a terminal"), "{}", run.stderr);
    assert!(!remote.hello.world.exists("cloud"), "something was made");

    let run = run_on_terminal(&remote, &["wrong one", "open sesame"]).exits_with(0);
    assert!(run.stdout.contains("the passphrase is wrong"), "{}", run.stdout);
    assert!(!run.stdout.contains("sesame"), "{}", run.stdout);
    assert_eq!(remote.hello.ask_counter(), 1);
    remote.write_tunnel(&remote.island.file("key"));
    remote.island.admit("key");
    remote.delete().success();
    remote.assert_gone();
}

#[test]
fn vm_on_the_local_network_needs_no_tunnel() {
    let mut hello = hello_with_contract_v1();
    let port = crate::support::free_port();
    hello.add_ops("registry.yml", &registry(port));
    let run = hello.create(&[]).success();
    assert!(!run.stdout.contains("tunnel"), "{}", run.stdout);
    assert_eq!(hello.ask_counter(), 1);
    assert!(hello.world.read("state.json.journal/registry.json").contains("agent_id"));

    // Another run's registry holds the port. The environment stays unchanged.
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    hello.take_requests();
    let run = hello.create(&["--recreate"]).exits_with(1);
    assert!(run.stderr.contains("starting the registry on 127.0.0.1:"), "{}", run.stderr);
    assert!(run.stderr.contains("registry.port"), "{}", run.stderr);
    assert_eq!(Hello::methods(&hello.take_requests()), ["info"]);
    drop(listener);

    hello.delete(&[]).success();
    assert!(!hello.world.exists("state.json.journal"));
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn v1_vm_without_registry_reads_settings_from_a_file() {
    let mut hello = hello_with_contract_v1();
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 1);
    assert_eq!(vm_of_v1(&hello.state()).get("ssh_host_key"), None);
    hello.add_ops("shrink.yml", "- {type: replace, path: /disk_pools/name=disks/disk_size, value: 512}\n");
    hello.create(&[]).success();
    assert_eq!(hello.ask_counter(), 2);
    assert!(!hello.world.exists("state.json.journal"));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn contract_v2_starts_no_registry_and_notes_it() {
    let mut hello = Hello::new();
    let port = crate::support::free_port();
    hello.add_ops("registry.yml", &registry(port));
    hello.add_ops(
        "tunnel.yml",
        "- type: replace\n  path: /cloud_provider/ssh_tunnel?\n  \
         value: {host: nowhere.invalid, user: vcap, private_key: /nowhere}\n",
    );
    // A registry could not start while the port is taken.
    let _held = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let run = hello.create(&[]).success();
    let output = run.stdout + &run.stderr;
    let note = "`cloud_provider.properties.registry` and `cloud_provider.ssh_tunnel` are no longer needed";
    assert_eq!(output.matches(note).count(), 1, "{output}");
    assert!(!output.contains(PASSWORD), "{output}");
    assert!(!hello.world.exists("state.json.journal"));
    assert_eq!(hello.state()["monopile"]["vm"]["contract"], "v2");
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn invalid_settings_fail_before_any_effect() {
    let mut hello = hello_with_contract_v1();
    hello.add_ops("registry.yml", &registry(6901).replace("127.0.0.1", "192.0.2.1"));
    let run = hello.create(&[]).exits_with(3);
    assert!(run.stderr.contains("`cloud_provider.properties.registry` cannot be used"), "{}", run.stderr);
    assert!(run.stderr.contains("192.0.2.1 is not a loopback address"), "{}", run.stderr);

    hello.add_ops("registry.yml", &registry(crate::support::free_port()));
    hello.add_ops(
        "tunnel.yml",
        "- type: replace\n  path: /cloud_provider/ssh_tunnel?\n  \
         value: {host: 127.0.0.1, user: vcap, private_key: ~/missing.pem}\n",
    );
    let run = hello.create(&[]).exits_with(3);
    assert!(run.stderr.contains("home/missing.pem' cannot be read"), "{}", run.stderr);
    hello.add_ops("tunnel2.yml", "- {type: replace, path: /cloud_provider/ssh_tunnel/port?, value: 70000}\n");
    let run = hello.create(&[]).exits_with(3);
    assert!(run.stderr.contains("`cloud_provider.ssh_tunnel.port` must be at most 65535"), "{}", run.stderr);
    assert!(!hello.world.exists("cloud") && !hello.world.exists("state.json"));
}
