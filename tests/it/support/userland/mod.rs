//! A root file system, and a release whose CPI is compiled and runs in it. The CPI is a C program that passes
//! its calls through a socket to the test, because the built-in CPI needs this machine.

use std::fs::File;
use std::io::{IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, Shutdown};

use super::process::{RunToEnd, WaitForEnd, prepare};
use super::tarballs::{JobTarball, PackageTarball, ReleaseTarball, sha256};

const MAKE_ROOT: &str = include_str!("make-root");
/// The source of the CPI.
const BRIDGE: &str = include_str!("bridge.c");
/// The most that is read of the configuration at once.
const BUFFER_BYTES: usize = 1 << 14;

/// Returns the tarball of a small root file system with a C compiler. Test processes share it.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
        std::fs::create_dir_all(parent).unwrap();
        let path = parent.join(format!("userland-{}.tar", &sha256(MAKE_ROOT.as_bytes())[7..19]));
        if !path.exists() {
            let work = super::create_directory();
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/userland/make-root");
            run("bash", &[script, "root"], work.path());
            // The same names in the same order give the same digest.
            let archive = format!("{}.{}", path.display(), std::process::id());
            run("tar", &["--sort=name", "--mtime=@0", "-C", "root", "-cf", &archive, "."], work.path());
            std::fs::rename(archive, &path).unwrap();
        }
        path
    })
}

/// Unpacks the root file system into a new directory.
pub(crate) fn unpack_root(directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    run("tar", &["-xf", root().to_str().unwrap()], directory);
}

/// Runs a program, which must succeed.
#[track_caller]
pub(crate) fn run(program: &str, arguments: &[&str], directory: &Path) {
    let output = prepare(program).args(arguments).current_dir(directory).run_to_end();
    assert!(
        output.status.success(),
        "{program} {arguments:?} (tests/run installs busybox-static and tcc): {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns the release of the CPI. `script` is added to the script of the package `base`.
pub(crate) fn release(script: &str) -> ReleaseTarball {
    let cpi = r#"#!/bin/bash
set -e
request=$(cat)
case $request in
*'"method":"create_stemcell"'*)
    image=${request#*'"arguments":["'}
    image=${image%%'"'*}
    [[ -s $image ]]
    if echo x 2>/dev/null >>"$image"; then exit 1; fi
    ;;
esac
[[ $PWD = / && -w $HOME && -w /tmp && ! -e <%= p("root") %> && ! -w /var/vcap/jobs && -s /etc/resolv.conf ]]
[[ $BOSH_PACKAGES_DIR = /var/vcap/packages && $BOSH_JOBS_DIR = /var/vcap/jobs && -n $MONOPILE_TEST_WORLD ]]
printf %s "$request" | $BOSH_PACKAGES_DIR/bridge/bin/bridge <%= p("bridge") %> $BOSH_JOBS_DIR/test_cpi/config/cpi.json
"#;
    let job = JobTarball::new("test_cpi")
        .spec("packages: [bridge]\nproperties:\n  root: {}\n  agent: {}\n  bridge: {}\n")
        .template("cpi.erb", "bin/cpi", cpi)
        .template(
            "cpi.json.erb",
            "config/cpi.json",
            r#"<%= JSON.dump({"root" => p("root"), "agent" => p("agent")}) %>"#,
        );
    let compile = "set -e
        [[ $PWD = /var/vcap/data/compile/bridge && $BOSH_COMPILE_TARGET = $PWD ]]
        [[ $BOSH_INSTALL_TARGET = /var/vcap/packages/bridge && $BOSH_PACKAGES_DIR = /var/vcap/packages ]]
        [[ $(cat $BOSH_PACKAGES_DIR/base/share) = base ]]
        if touch $BOSH_PACKAGES_DIR/base/more; then exit 9; fi
        mkdir $BOSH_INSTALL_TARGET/bin ../beside
        cc -o $BOSH_INSTALL_TARGET/bin/bridge bridge.c";
    let base = format!("set -e\necho base > $BOSH_INSTALL_TARGET/share\n{script}\n");
    ReleaseTarball::new("test-cpi", "7")
        .job(job)
        .package(PackageTarball::new("bridge", compile, &["base"]).file("bridge.c", BRIDGE))
        .package(PackageTarball::new("base", &base, &[]))
}

/// Returns an ops file that gives the CPI of the release a userland and a socket. `userland` is the value of
/// the key in the manifest without its `files`, such as `url: root.tar`.
pub(crate) fn ops(userland: &str, socket: &Path) -> String {
    let socket = socket.display();
    format!(
        "- {{type: replace, path: '/cloud_provider/userland?', value: {{{userland}, files: [{socket}]}}}}\n\
         - {{type: replace, path: '/cloud_provider/properties/bridge?', value: {socket}}}\n"
    )
}

/// A call of a CPI in a userland, with the standard streams of its process.
pub(crate) struct BridgedCall {
    /// The configuration in the job of the CPI.
    pub config: Vec<u8>,
    /// The pid of the run that makes the call.
    pub caller: i32,
    stdin: File,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl BridgedCall {
    /// Receives a call.
    fn receive(mut connection: &UnixStream) -> BridgedCall {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut buffer = [0; BUFFER_BYTES];
        let mut data = [IoSliceMut::new(&mut buffer)];
        // Other threads start programs, which must not inherit the streams.
        let flags = RecvFlags::CMSG_CLOEXEC;
        let length = rustix::net::recvmsg(connection, &mut data, &mut control, flags).unwrap().bytes;
        let mut streams = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                streams.extend(descriptors);
            }
        }
        let mut config = buffer[..length].to_vec();
        connection.read_to_end(&mut config).unwrap();
        let pid = rustix::net::sockopt::socket_peercred(connection).unwrap().pid.as_raw_pid();
        let [stdin, stdout, stderr] = <[OwnedFd; 3]>::try_from(streams).expect("three streams");
        BridgedCall { config, caller: find_caller(pid), stdin: stdin.into(), stdout, stderr }
    }

    /// Reads the request.
    pub(crate) fn read_request(&mut self) -> Vec<u8> {
        let mut request = Vec::new();
        self.stdin.read_to_end(&mut request).unwrap();
        request
    }

    /// Answers with a program that gets this request and the other streams of the CPI. Returns the exit
    /// status with which the CPI ends.
    pub(crate) fn answer_with(self, mut command: Command, request: &[u8]) -> u8 {
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(request).unwrap();
        input.rewind().unwrap();
        let mut child = command.stdin(input).stdout(self.stdout).stderr(self.stderr).spawn().unwrap();
        // The command holds the streams.
        drop(command);
        let status = child.end();
        // As the first process of a userland reports a signal.
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
        u8::try_from(code).unwrap()
    }
}

/// Returns the pid of the run that started the userland of a process.
fn find_caller(mut pid: i32) -> i32 {
    // The processes of the CPI are descendants of those that entered the userland.
    let mut was_entered = false;
    loop {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let enters_userland = command.contains("userland-exec");
        if was_entered && !enters_userland {
            return pid;
        }
        was_entered |= enters_userland;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        pid = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap();
    }
}

/// A socket for calls of CPIs in userlands.
pub(crate) struct Bridge(UnixListener);

impl Bridge {
    /// Listens at this path. Answers each call on a thread of its own with `answer`, which returns the exit
    /// status of the CPI.
    pub(crate) fn listen(
        socket: &Path,
        answer: impl Fn(BridgedCall) -> u8 + Send + Sync + 'static,
    ) -> Bridge {
        let listener = UnixListener::bind(socket).unwrap();
        let bridge = Bridge(listener.try_clone().unwrap());
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let Ok(mut connection) = connection else { return };
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || {
                    let status = answer(BridgedCall::receive(&connection));
                    // The process of the CPI may have been killed.
                    let _ = connection.write_all(&[status]);
                });
            }
        });
        bridge
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // The next `accept` fails.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}
