//! Tests with a real sshd in the network of this machine. The tunnel's port on the loopback interface
//! therefore differs from the registry's port.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use base::secret::Secret;
use net::ssh::{KeyError, SshKey};

/// The script that runs sshd for tests.
const SSHD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/support/sshd/run");

/// An sshd on loopback that accepts the keys in its directory.
struct Sshd {
    directory: tempfile::TempDir,
    port: u16,
    process: Option<Child>,
}

fn shell(directory: &std::path::Path, script: &str) {
    let output = Command::new("bash").args(["-ec", script]).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the descendants of a process.
fn descendants(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let children = children.split_whitespace().map(|child| child.parse::<u32>().unwrap());
    children.flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Sshd {
    fn prepare(extra_config: &str) -> Sshd {
        let directory = tempfile::tempdir().unwrap();
        let port = free_port();
        shell(
            directory.path(),
            "ssh-keygen -q -t ed25519 -N '' -f host_key; ssh-keygen -q -t ed25519 -N '' -f good; cat \
                good.pub > authorized",
        );
        let path_of = |name: &str| directory.path().join(name).display().to_string();
        // The first occurrence of an option counts.
        let config = format!(
            "{extra_config}\nPort {port}\nListenAddress 127.0.0.1\nHostKey \"{}\"\nAuthorizedKeysFile \
             \"{}\"\nStrictModes no\n\
             UsePAM no\nPidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n",
            path_of("host_key"),
            path_of("authorized"),
        );
        std::fs::write(directory.path().join("config"), config).unwrap();
        Sshd { directory, port, process: None }
    }

    fn start(&mut self) {
        self.spawn(Command::new(SSHD));
    }

    /// Starts sshd with this password for root, in an `/etc/shadow` that only this sshd sees.
    fn start_with_password(&mut self, password: &str) {
        let script = format!(
            "hash=$(openssl passwd -6 {password})
             sed \"s|^root:[^:]*:|root:$hash:|\" /etc/shadow > shadow; chmod 600 shadow"
        );
        shell(self.directory.path(), &script);
        let shadow = self.directory.path().join("shadow").display().to_string();
        let mut command = Command::new("unshare");
        let script = format!("mount --bind '{shadow}' /etc/shadow && exec {SSHD} \"$@\"");
        command.args(["--mount", "bash", "-c", &script, "-"]);
        self.spawn(command);
    }

    fn spawn(&mut self, mut command: Command) {
        let process = command
            .args(["-D", "-e", "-f"])
            .arg(self.directory.path().join("config"))
            .stderr(std::fs::File::create(self.directory.path().join("log")).unwrap())
            .spawn()
            .expect("sshd (Debian: openssh-server) is needed");
        self.process = Some(process);
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(10), "sshd does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        // Sessions outlive the listener and keep their connections, so they are ended as well.
        let sessions = descendants(process.id());
        let _ = process.kill();
        let _ = process.wait();
        for pid in sessions {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }

    fn key(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn server(&self, key: &str, passphrase: Option<&str>) -> SshServer {
        let text = std::fs::read_to_string(self.key(key)).unwrap();
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        SshServer {
            host: "127.0.0.1".into(),
            port: self.port,
            user: String::from_utf8(user).unwrap().trim().into(),
            key: Some(SshKey::parse(&text, passphrase).unwrap()),
            password: None,
            host_key: None,
            forward_sender: None,
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop();
    }
}

struct TunnelEnds {
    runtime: tokio::runtime::Runtime,
    port: u16,
}

impl TunnelEnds {
    fn new() -> TunnelEnds {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        TunnelEnds { runtime, port: free_port() }
    }

    /// Opens a tunnel to a service that answers each line in capital letters.
    fn open(&self, server: SshServer, timeout: Duration) -> Tunnel {
        Tunnel::open(self.runtime.handle(), server, self.port, timeout, |mut stream| {
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    buffer[..count].make_ascii_uppercase();
                    if stream.write_all(&buffer[..count]).await.is_err() {
                        break;
                    }
                }
            })
        })
    }

    fn ask(&self) -> String {
        self.try_to_ask().unwrap()
    }

    fn try_to_ask(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(b"through\n")?;
        let mut answer = [0; 8];
        stream.read_exact(&mut answer)?;
        Ok(String::from_utf8(answer.into()).unwrap())
    }
}

const LONG_TIMEOUT: Duration = Duration::from_secs(20);

/// Waits for the tunnel. Returns the result, the reported problems and the host key.
fn wait(tunnel: &Tunnel) -> (Result<(), SshError>, Vec<String>, Option<String>) {
    let (mut problems, mut key) = (Vec::new(), None);
    let outcome =
        tunnel.wait_until_open(&|| None, &mut |problem| problems.push(problem), &mut |learned_key| {
            key = Some(learned_key);
            Ok(())
        });
    let outcome = outcome.map_err(|error| match error {
        TunnelError::Failed(cause) => cause,
        other => panic!("{other}"),
    });
    (outcome, problems, key)
}

#[test]
fn every_key_format_opens_the_tunnel() {
    let mut sshd = Sshd::prepare("");
    let keys: [(&str, &str, Option<&str>); 9] = [
        ("a", "ssh-keygen -q -t ed25519 -N '' -f a", None),
        ("b", "ssh-keygen -q -t ed25519 -N hushed -f b", Some("hushed")),
        ("c", "ssh-keygen -q -t rsa -b 2048 -N '' -f c", None),
        ("d", "ssh-keygen -q -t rsa -b 2048 -m PEM -N '' -f d", None),
        ("e", "ssh-keygen -q -t rsa -b 2048 -m PEM -N hushed -f e", Some("hushed")),
        ("f", "ssh-keygen -q -t rsa -b 2048 -m PKCS8 -N '' -f f", None),
        ("g", "ssh-keygen -q -t ecdsa -b 256 -N '' -f g", None),
        ("h", "ssh-keygen -q -t ecdsa -b 384 -m PKCS8 -N hushed -f h", Some("hushed")),
        (
            "i",
            "openssl ecparam -genkey -noout -name secp521r1 -out i; chmod 600 i; ssh-keygen -y -f i > i.pub",
            None,
        ),
    ];
    for (_, script, _) in keys {
        shell(sshd.directory.path(), script);
    }
    shell(sshd.directory.path(), "cat *.pub > authorized");
    sshd.start();
    for (name, script, passphrase) in keys {
        let ends = TunnelEnds::new();
        let tunnel = ends.open(sshd.server(name, passphrase), LONG_TIMEOUT);
        let (outcome, problems, key) = wait(&tunnel);
        outcome.unwrap_or_else(|error| panic!("{script}: {error}"));
        assert!(problems.is_empty(), "{script}: {problems:?}");
        assert!(key.unwrap().starts_with("ssh-ed25519 "));
        assert_eq!(ends.ask(), "THROUGH\n", "{script}");
    }
    let log = std::fs::read_to_string(sshd.key("log")).unwrap();
    assert_eq!(log.matches("Accepted publickey").count(), keys.len(), "{log}");
    assert_eq!(
        SshKey::parse(&std::fs::read_to_string(sshd.key("b")).unwrap(), None).unwrap_err(),
        KeyError::Encrypted
    );
}

#[test]
fn rsa_keys_sign_with_sha2() {
    // OpenSSH 8.8 and later have this setting by default.
    let mut sshd = Sshd::prepare("PubkeyAcceptedAlgorithms rsa-sha2-256");
    shell(sshd.directory.path(), "ssh-keygen -q -t rsa -b 2048 -N '' -f r; cat r.pub > authorized");
    sshd.start();
    let ends = TunnelEnds::new();
    let tunnel = ends.open(sshd.server("r", None), LONG_TIMEOUT);
    wait(&tunnel).0.unwrap();
    assert_eq!(ends.ask(), "THROUGH\n");
}

#[test]
fn tunnel_waits_for_sshd_and_reconnects() {
    let mut sshd = Sshd::prepare("");
    let ends = TunnelEnds::new();
    let start = Instant::now();
    let tunnel = ends.open(sshd.server("good", None), LONG_TIMEOUT);
    let wait_result = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(600));
            sshd.start();
        });
        wait(&tunnel)
    });
    assert!(start.elapsed() >= Duration::from_millis(600));
    wait_result.0.unwrap();
    assert!(wait_result.1.iter().any(|problem| problem.contains("TCP: ")), "{:?}", wait_result.1);
    assert_eq!(ends.ask(), "THROUGH\n");

    sshd.stop();
    sshd.start();
    let start = Instant::now();
    // A remaining process of the old sshd may accept a connection and then end.
    while ends.try_to_ask().ok().as_deref() != Some("THROUGH\n") {
        assert!(start.elapsed() < LONG_TIMEOUT, "the tunnel was not opened again");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(tunnel.last_error().is_none());
}

/// Returns the error of a tunnel that cannot be opened.
fn expect_failure(ends: &TunnelEnds, server: SshServer) -> SshError {
    let tunnel = ends.open(server, Duration::from_millis(300));
    let error = wait(&tunnel).0.unwrap_err();
    assert_eq!(tunnel.last_error().map(|error| error.to_string()), Some(error.to_string()));
    error
}

#[test]
fn each_failure_to_connect_has_its_own_error() {
    let sshd = Sshd::prepare("");
    let ends = TunnelEnds::new();
    let tcp = expect_failure(&ends, sshd.server("good", None));
    assert!(matches!(tcp, SshError::Tcp { .. }), "{tcp}");
    let dns =
        expect_failure(&ends, SshServer { host: "nowhere.invalid".into(), ..sshd.server("good", None) });
    assert!(matches!(dns, SshError::Dns { .. }), "{dns}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in silent.incoming().flatten() {
            let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let handshake = expect_failure(&ends, SshServer { port, ..sshd.server("good", None) });
    assert!(matches!(handshake, SshError::Handshake { .. }), "{handshake}");
}

#[test]
fn login_error_names_the_credentials() {
    let mut sshd = Sshd::prepare("");
    shell(sshd.directory.path(), "ssh-keygen -q -t ed25519 -N '' -f stranger");
    sshd.start();
    let ends = TunnelEnds::new();
    let ssh_error = expect_failure(&ends, sshd.server("stranger", None));
    assert!(matches!(ssh_error, SshError::Refused { credentials: "the private key", .. }), "{ssh_error}");
    let by_password = SshServer { key: None, password: Some(secret("s3cret")), ..sshd.server("good", None) };
    let ssh_error = expect_failure(&ends, by_password);
    assert!(matches!(ssh_error, SshError::Refused { credentials: "the password", .. }), "{ssh_error}");
    assert!(!ssh_error.to_string().contains("s3cret"));
    let error = Error::from(TunnelError::Failed(ssh_error));
    assert_eq!(error.kind(), ErrorKind::AgentUnreachable);
    assert!(!error.hints().is_empty());
}

#[test]
fn only_the_recorded_host_key_is_accepted() {
    let mut sshd = Sshd::prepare("");
    sshd.start();
    let ends = TunnelEnds::new();
    let learned_key = wait(&ends.open(sshd.server("good", None), LONG_TIMEOUT)).2.unwrap();
    let known_server = SshServer { host_key: Some(learned_key), ..sshd.server("good", None) };
    let tunnel = ends.open(known_server.clone(), LONG_TIMEOUT);
    let (outcome, _, host_key) = wait(&tunnel);
    outcome.unwrap();
    assert_eq!(host_key, None, "a known key was learned again");
    drop(tunnel);

    sshd.stop();
    shell(sshd.directory.path(), "rm host_key*; ssh-keygen -q -t ed25519 -N '' -f host_key");
    sshd.start();
    let start = Instant::now();
    let ssh_error = wait(&ends.open(known_server, LONG_TIMEOUT)).0.unwrap_err();
    assert!(matches!(ssh_error, SshError::HostKeyChanged { .. }), "{ssh_error}");
    assert!(start.elapsed() < LONG_TIMEOUT / 2, "failing took {:?}", start.elapsed());
}

#[test]
fn server_that_rejects_forwarding_is_reported() {
    let mut sshd = Sshd::prepare("AllowTcpForwarding no");
    sshd.start();
    let ends = TunnelEnds::new();
    let tunnel = ends.open(sshd.server("good", None), Duration::from_millis(300));
    let ssh_error = wait(&tunnel).0.unwrap_err();
    assert!(matches!(ssh_error, SshError::ForwardingRefused { .. }), "{ssh_error}");
    assert!(ssh_error.to_string().contains(&ends.port.to_string()), "{ssh_error}");
}

fn secret(text: &str) -> Secret {
    Secret::new(text, &base::redact::Redactor::default())
}

#[test]
fn password_opens_the_tunnel() {
    let mut sshd = Sshd::prepare("PasswordAuthentication yes\nPermitRootLogin yes");
    sshd.start_with_password("0pen-sesame");
    let ends = TunnelEnds::new();
    let server_with_password = |password: &str, key| SshServer {
        user: "root".into(),
        key,
        password: Some(secret(password)),
        ..sshd.server("good", None)
    };
    wait(&ends.open(server_with_password("0pen-sesame", None), LONG_TIMEOUT)).0.unwrap();
    // After a key that is not accepted, the password is tried.
    shell(sshd.directory.path(), "ssh-keygen -q -t ed25519 -N '' -f stranger");
    let stranger = sshd.server("stranger", None).key;
    let tunnel = ends.open(server_with_password("0pen-sesame", stranger.clone()), LONG_TIMEOUT);
    wait(&tunnel).0.unwrap();
    assert_eq!(ends.ask(), "THROUGH\n");
    drop(tunnel);
    let ssh_error =
        wait(&ends.open(server_with_password("wrong", stranger), Duration::from_millis(300))).0.unwrap_err();
    let refused_both =
        matches!(ssh_error, SshError::Refused { credentials: "the private key or the password", .. });
    assert!(refused_both, "{ssh_error}");
}

#[test]
fn signal_ends_the_wait_for_the_tunnel() {
    let sshd = Sshd::prepare("");
    let ends = TunnelEnds::new();
    let tunnel = ends.open(sshd.server("good", None), LONG_TIMEOUT);
    let outcome = tunnel.wait_until_open(&|| Some(15), &mut |_| {}, &mut |_| Ok(()));
    assert!(matches!(outcome, Err(TunnelError::Interrupted(15))));
}
