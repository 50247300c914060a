//! A network namespace for a VM that cannot reach this machine's loopback interface. A pair of virtual
//! interfaces is the only connection, and an sshd inside is the only way to a registry outside.
//!
//! It needs root. Tests that use it fail without root and report that.

use super::process::{RunToEnd, WaitForEnd, prepare};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::World;
use super::scripted::wait_until;

/// A namespace and its sshd.
pub(crate) struct Island {
    holder: Child,
    sshd: Option<Child>,
    directory: PathBuf,
    subnet: String,
}

/// Runs a shell script. `what` describes it in the message of a failure.
#[track_caller]
fn run_shell(what: &str, script: &str) {
    let output = prepare("bash").args(["-ec", script]).current_dir("/").run_to_end();
    assert!(
        output.status.success(),
        "{what}: this test needs root, network namespaces, iproute2 and openssh-server, and cannot do \
            without: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Island {
    /// Creates a namespace. The VM's address is `<subnet>.2` and this machine's is `<subnet>.1`. Files are
    /// written to the world.
    pub(crate) fn new(world: &World, subnet: &str) -> Island {
        let holder = prepare("unshare")
            .args(["--net", "sleep", "infinity"])
            .current_dir("/")
            .stdin(Stdio::null())
            .spawn()
            .expect("unshare (util-linux) is needed");
        let directory = world.path("sshd");
        std::fs::create_dir_all(&directory).unwrap();
        let island = Island { holder, sshd: None, directory, subnet: subnet.to_owned() };
        let pid = island.holder.id();
        let own_namespace = std::fs::read_link("/proc/self/ns/net").unwrap();
        wait_until("the namespace is there", || {
            std::fs::read_link(island.namespace()).is_ok_and(|namespace| namespace != own_namespace)
                || !PathBuf::from(format!("/proc/{pid}/exe")).exists()
        });
        run_shell(
            "a network of its own",
            &format!(
                "ip link add mp{pid} type veth peer name eth0 netns {pid}
                 ip address add {subnet}.1/24 dev mp{pid}; ip link set mp{pid} up
                 nsenter --net=/proc/{pid}/ns/net bash -ec '
                   ip link set lo up; ip address add {subnet}.2/24 dev eth0; ip link set eth0 up'"
            ),
        );
        island.generate_key("host_key", "-t ed25519 -N ''");
        island.generate_key("key", "-t ed25519 -N ''");
        island.admit("key");
        island
    }

    /// Returns the path of the namespace.
    pub(crate) fn namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// Returns the VM's address.
    pub(crate) fn ip(&self) -> String {
        format!("{}.2", self.subnet)
    }

    /// Returns the path of a file next to sshd's configuration.
    pub(crate) fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// Generates a key pair.
    pub(crate) fn generate_key(&self, name: &str, options: &str) {
        let path = self.file(name);
        run_shell("a key", &format!("rm -f {path} {path}.pub; ssh-keygen -q {options} -f {path}"));
    }

    /// Authorises only this key.
    pub(crate) fn admit(&self, name: &str) {
        std::fs::copy(self.directory.join(format!("{name}.pub")), self.directory.join("authorized")).unwrap();
    }

    /// Starts sshd in the namespace on port 22, with additional lines of configuration.
    pub(crate) fn start_sshd(&mut self, extra_settings: &str) {
        let config = format!(
            "{extra_settings}\nPort 22\nListenAddress {}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
             UsePAM no\n\
             PidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n\
             LogLevel VERBOSE\n",
            self.ip(),
            self.file("host_key"),
            self.file("authorized"),
        );
        std::fs::write(self.directory.join("config"), config).unwrap();
        let log =
            std::fs::File::options().append(true).create(true).open(self.directory.join("log")).unwrap();
        let sshd = prepare("nsenter")
            .arg(format!("--net={}", self.namespace()))
            .args([
                concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/sshd/run"),
                "-D",
                "-e",
                "-f",
                &self.file("config"),
            ])
            .stderr(log)
            .stdin(Stdio::null())
            .current_dir("/")
            .spawn()
            .expect("nsenter (util-linux) is needed");
        self.sshd = Some(sshd);
        wait_until("sshd listens", || TcpStream::connect((self.ip().as_str(), 22)).is_ok());
    }

    /// Stops sshd and its sessions.
    pub(crate) fn stop_sshd(&mut self) {
        let Some(mut sshd) = self.sshd.take() else { return };
        let sessions = descendants(sshd.id());
        let _ = sshd.kill();
        sshd.stop();
        for pid in sessions {
            let _ = prepare("kill").args(["-9", &pid.to_string()]).run_to_end();
        }
    }

    /// Returns the log of sshd.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Returns true if a process in the namespace can connect to this address.
    pub(crate) fn reaches(&self, host: &str, port: u16) -> bool {
        let script = format!("exec 3<>/dev/tcp/{host}/{port}");
        let mut command = prepare("timeout");
        command.args(["3", "nsenter", &format!("--net={}", self.namespace()), "bash", "-c", &script]);
        command.run_to_end().status.success()
    }
}

impl Drop for Island {
    fn drop(&mut self) {
        self.stop_sshd();
        // The interfaces disappear with the namespace when its last process has ended.
        let _ = self.holder.kill();
        self.holder.stop();
        let link = PathBuf::from(format!("/sys/class/net/mp{}", self.holder.id()));
        let start = Instant::now();
        while link.exists() && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns all descendants of a process.
fn descendants(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let children = children.split_whitespace().map(|child| child.parse::<u32>().unwrap());
    children.flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}
