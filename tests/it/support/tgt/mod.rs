//! A real iSCSI target (tgtd) on loopback, in a directory of the test. It ends on drop, and with the test
//! process.

use super::process::{RunToEnd, WaitForEnd, prepare};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A running tgtd.
pub(crate) struct Tgtd {
    pub portal: String,
    pub socket: PathBuf,
    pub control_port: u16,
    child: Child,
}

impl Tgtd {
    pub(crate) fn start(directory: &Path) -> Tgtd {
        let port = super::free_port();
        let portal = format!("127.0.0.1:{port}");
        // Any small number works, because the test has its own socket.
        let control_port = port % 1000;
        let run = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/tgt/run");
        let child = prepare("sh")
            .arg(run)
            .arg(directory)
            .args([control_port.to_string(), portal.clone()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let tgtd = Tgtd { portal, socket: directory.join("tgtd.socket"), control_port, child };
        let start = Instant::now();
        while tgtd.show().is_none() {
            let output = std::fs::read_to_string(directory.join("tgtd.output")).unwrap_or_default();
            assert!(start.elapsed() < Duration::from_secs(30), "tgtd does not come up:\n{output}");
            std::thread::sleep(Duration::from_millis(50));
        }
        tgtd
    }

    fn run_tgtadm(&self, arguments: &[&str]) -> Option<String> {
        let output = prepare("/usr/sbin/tgtadm")
            .env("TGT_IPC_SOCKET", &self.socket)
            .args(["-C", &self.control_port.to_string(), "--lld", "iscsi"])
            .args(arguments)
            .run_to_end();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    fn show(&self) -> Option<String> {
        self.run_tgtadm(&["--mode", "target", "--op", "show"])
    }

    /// Adds another address and returns its portal.
    pub(crate) fn add_portal(&self, address: &str) -> String {
        let portal = format!("{address}:{}", self.portal.split_once(':').unwrap().1);
        let parameter = format!("portal={portal}");
        self.run_tgtadm(&["--mode", "portal", "--op", "new", "--param", &parameter]).expect("tgtd listens");
        portal
    }

    /// Returns the names of all targets.
    pub(crate) fn targets(&self) -> Vec<String> {
        let text = self.show().expect("tgtd answers");
        let lines = text.lines().filter(|line| line.starts_with("Target "));
        lines.map(|line| line.split_once(": ").unwrap().1.to_owned()).collect()
    }

    /// Logs in as this initiator with these credentials. Returns the volume's identity.
    pub(crate) fn inquire(
        &self,
        initiator: &str,
        iqn: &str,
        user: &str,
        password: &str,
    ) -> Result<String, String> {
        self.inquire_at(&self.portal, initiator, iqn, user, password)
    }

    /// Like [`Self::inquire`], through a given portal.
    pub(crate) fn inquire_at(
        &self,
        portal: &str,
        initiator: &str,
        iqn: &str,
        user: &str,
        password: &str,
    ) -> Result<String, String> {
        let url = format!("iscsi://{user}%{password}@{portal}/{iqn}/1");
        let output = prepare("iscsi-inq").args(["-i", initiator, &url]).run_to_end();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(text) } else { Err(text) }
    }
}

impl Drop for Tgtd {
    fn drop(&mut self) {
        self.child.stop();
    }
}
