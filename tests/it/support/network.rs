//! A network with a loopback interface alone, for tests of the examples: their addresses are free in it, even on a machine
//! on which the examples are deployed.

use std::process::{Child, Command, Stdio};

use super::process::{Ending, lines, next, prepare};

/// The network. It ends when this is dropped.
pub(crate) struct Network(Child);

impl Network {
    /// Needs root.
    pub(crate) fn new() -> Network {
        let mut unshare = prepare("unshare");
        unshare.args(["--net", "sh", "-ec", "ip link set lo up; echo up; exec sleep infinity"]);
        let mut holder =
            unshare.current_dir("/").stdout(Stdio::piped()).spawn().expect("unshare of util-linux");
        let output = lines(holder.stdout.take().unwrap());
        let network = Network(holder);
        let up = next("a network of its own is up", &output);
        assert!(up.is_some(), "this test needs root, network namespaces and iproute2");
        network
    }

    /// Prepares a program that runs in it.
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
