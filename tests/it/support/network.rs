//! A network namespace with only a loopback interface, for tests of the examples. The addresses of the
//! examples are free in it even if the examples are deployed on this machine.

use std::process::{Child, Command, Stdio};

use super::process::{WaitForEnd, lines, prepare, receive};

/// A network namespace that ends on drop.
pub(crate) struct Network(Child);

impl Network {
    /// Creates a namespace. This needs root.
    pub(crate) fn new() -> Network {
        let mut unshare = prepare("unshare");
        unshare.args(["--net", "sh", "-ec", "ip link set lo up; echo up; exec sleep infinity"]);
        let mut holder =
            unshare.current_dir("/").stdout(Stdio::piped()).spawn().expect("unshare of util-linux");
        let output = lines(holder.stdout.take().unwrap());
        let network = Network(holder);
        let ready_line = receive("a network of its own is up", &output);
        assert!(ready_line.is_some(), "this test needs root, network namespaces and iproute2");
        network
    }

    /// Prepares a program that runs in the namespace.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = prepare("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.id())).args(["--", program]);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.stop();
    }
}
