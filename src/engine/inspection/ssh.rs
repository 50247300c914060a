//! `ssh` and `scp`: run the operator's OpenSSH. By default the agent creates a user for the session, with a
//! fresh key pair, and reports the host key of the VM.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use super::gateway::{Gateway, SshConfig, SshRoute, VM_HOST_NAME};
use super::host_key::known_hosts_line;
use super::{find_vm_and_wait, load_agent_endpoint, read_state};
use crate::agent_client::{Agent, AgentError, Backoff};
use crate::cpi::create_private_directory;
use crate::deploy::boot;
use crate::protocol::BuiltinCpi;
use crate::run_context::{RunContext, signals};
use base::events::Warning;
use base::files::durable::write_atomically;
use base::timing::Activity;
use base::{Error, ErrorKind, Result};
use manifest::Inputs;
use manifest::vars_store::SshKeyPair;

/// The time that ssh has to end after it is told to.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The request of `ssh` or `scp`.
#[derive(Debug, Clone)]
pub struct SshRequest {
    /// The manifest, its ops files and variables.
    pub inputs: Inputs,
    /// `--agent-timeout`: how long the agent may take to answer.
    pub agent_timeout: Duration,
    /// The way to the VM's sshd.
    pub route: SshRoute,
    /// An existing user in place of one that the agent creates.
    pub login: Option<Login>,
    /// `--opts`: options passed to ssh unchanged.
    pub options: Vec<String>,
    /// The work of the session: a command, a shell or a copy.
    pub action: SshAction,
}

/// An existing user on the VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The name of the user.
    pub user: String,
    /// The file with the private key.
    pub private_key: PathBuf,
}

/// An action of ssh or scp on the VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SshAction {
    /// A command, or a login shell if it is empty.
    Run(Vec<String>),
    /// A copy of files.
    Copy {
        /// True if directories are copied with their content.
        recursive: bool,
        /// The files to copy, on this machine or the VM.
        sources: Vec<CopyPath>,
        /// The file or directory to copy to.
        target: CopyPath,
    },
}

/// A file or directory that scp copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyPath {
    /// On this machine.
    Local(PathBuf),
    /// On the VM.
    Remote(String),
}

impl SshAction {
    /// Returns the program and its arguments after `-F CONFIG`.
    fn command_line(&self, options: &[String]) -> Result<(&'static str, Vec<String>)> {
        let mut line = options.to_vec();
        match self {
            SshAction::Run(command) => {
                line.extend(["--".to_owned(), VM_HOST_NAME.to_owned()]);
                line.extend(command.iter().cloned());
                Ok(("ssh", line))
            }
            SshAction::Copy { recursive, sources, target } => {
                line.extend(recursive.then(|| "-r".to_owned()));
                line.push("--".to_owned());
                for place in sources.iter().chain([target]) {
                    line.push(place.as_argument()?);
                }
                Ok(("scp", line))
            }
        }
    }
}

impl CopyPath {
    fn as_argument(&self) -> Result<String> {
        match self {
            CopyPath::Remote(path) => Ok(format!("{VM_HOST_NAME}:{path}")),
            CopyPath::Local(path) => {
                let text = path
                    .to_str()
                    .ok_or_else(|| Error::usage(format!("the path '{}' is not UTF-8", path.display())))?;
                // scp takes the text before a colon for a host, unless a slash comes first.
                Ok(if text.starts_with(['/', '.']) { text.to_owned() } else { format!("./{text}") })
            }
        }
    }
}

/// Runs ssh or scp and returns its exit code.
pub fn ssh(request: &SshRequest, run: &RunContext) -> Result<u8> {
    let (program, arguments) = request.action.command_line(&request.options)?;
    if let SshRoute::Socks5(url) = &request.route {
        manifest::register_url_secrets(url, &run.redactor);
    }
    let scratch = SessionFiles::new(run)?;
    let session = match &request.login {
        Some(login) => VmSession::with_existing_user(login, request, run, &scratch)?,
        None => VmSession::with_new_user(request, run, &scratch)?,
    };
    let outcome = session
        .configure(request, run, &scratch)
        .and_then(|()| run_program(run, program, &scratch.config(), &arguments));
    session.end(run);
    // ssh and scp end with this exit code if they fail themselves.
    if matches!(outcome, Ok(NOT_CONNECTED_EXIT_CODE)) {
        run.reporter.warn(session.connection_warning(&request.route));
    }
    outcome
}

/// The directory with the files of a session, private to its owner.
struct SessionFiles(tempfile::TempDir);

impl SessionFiles {
    fn new(run: &RunContext) -> Result<Self> {
        create_private_directory(&run.paths.scratch)?;
        let directory = tempfile::Builder::new()
            .prefix("ssh-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir_in(&run.paths.scratch);
        directory
            .map(SessionFiles)
            .map_err(|error| Error::io("making a directory for the ssh session", error))
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.file(name);
        write_atomically(&path, text.as_bytes())
            .map_err(|error| Error::io("writing a file of the ssh session", error))?;
        Ok(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn config(&self) -> PathBuf {
        self.file("config")
    }
}

/// Returns the error for an agent that cannot create the user of a session.
fn refused_user_error(error: AgentError) -> Error {
    let says = |text: &str| matches!(&error, AgentError::Exception { message, .. } if message.contains(text));
    let (has_no_host_key, has_one_user) = (says("host public key"), says("an ordinary user created this VM"));
    let error = Error::from(error);
    match has_no_host_key {
        true => error
            .context("no ssh session is possible: the VM has no ssh host key, so it runs no sshd")
            .with_note(LOCAL_VM_NOTE)
            .with_hint("see the logs instead: `monopile logs MANIFEST`"),
        false if has_one_user => error
            .context("the agent cannot create a user for this session")
            .with_hint("see the logs instead: `monopile logs MANIFEST`"),
        false => error
            .context("the agent cannot create a user for this session")
            .with_hint("see the log of the agent: `monopile logs MANIFEST --agent`"),
    }
}

/// The user and the address of an SSH session, with its files.
struct VmSession {
    user: String,
    address: String,
    key: PathBuf,
    known_hosts: PathBuf,
    is_pinned: bool,
    /// True if the VM is one of the CPI `local`.
    is_local: bool,
    /// The agent that created the user and must delete it.
    user_owner: Option<Agent>,
}

impl VmSession {
    /// Has the agent create a user for the session.
    fn with_new_user(request: &SshRequest, run: &RunContext, scratch: &SessionFiles) -> Result<Self> {
        let reached_vm =
            find_vm_and_wait(run, &request.inputs, request.agent_timeout, "monopile SAME-COMMAND")?;
        let opening = run.reporter.begin_stage("Creating a user for this session on the VM");
        let pair = SshKeyPair::generate(&run.redactor)?;
        let key = scratch.write("key", pair.private_key.expose())?;
        // Windows allows user names of at most 20 characters.
        let suffix = uuid::Uuid::new_v4().simple().to_string();
        let user = format!("bosh_{}", &suffix[..15]);
        signals::check_may_continue(run)?;
        let mut session = VmSession {
            user: user.clone(),
            address: reached_vm.endpoint.host().to_owned(),
            key,
            known_hosts: scratch.file("known_hosts"),
            is_pinned: true,
            is_local: reached_vm.builtin == Some(BuiltinCpi::Local),
            user_owner: Some(reached_vm.agent.clone()),
        };
        // The user may exist from here on, even if the agent reports an error.
        let host = match reached_vm.agent.set_up_ssh(&user, &pair.public_key) {
            Ok(host) => host,
            Err(error) => {
                session.end(run);
                return Err(refused_user_error(error));
            }
        };
        // Behind a gateway or proxy, ssh uses the VM's own address. From this machine, it uses the address at
        // which the agent was reached.
        if request.route != SshRoute::Direct && !host.ip.is_empty() {
            session.address = host.ip;
        }
        let line = known_hosts_line(VM_HOST_NAME, &host.host_public_key).inspect_err(|_| session.end(run))?;
        scratch.write("known_hosts", &line).inspect_err(|_| session.end(run))?;
        opening.finish();
        Ok(session)
    }

    /// Uses an existing user, without the agent.
    fn with_existing_user(
        login: &Login,
        request: &SshRequest,
        run: &RunContext,
        scratch: &SessionFiles,
    ) -> Result<Self> {
        let state = read_state(run)?;
        let (endpoint, manifest) = load_agent_endpoint(run, &request.inputs, &state)?;
        let builtin = state.vm_handle().map(|vm| boot::builtin_cpi(&vm, &manifest)).transpose()?.flatten();
        let recorded_key = state.vm().and_then(|vm| vm.ssh_host_key.clone());
        let line = recorded_key.as_deref().map(|key| known_hosts_line(VM_HOST_NAME, key)).transpose()?;
        if line.is_none() {
            run.reporter.warn(
                "the host key of the VM's sshd is unknown: any server at its address is accepted as the VM \
                 (--private-key)",
            );
        }
        Ok(VmSession {
            user: login.user.clone(),
            address: endpoint.host().to_owned(),
            key: login.private_key.clone(),
            known_hosts: scratch.write("known_hosts", line.as_deref().unwrap_or_default())?,
            is_pinned: line.is_some(),
            is_local: builtin == Some(BuiltinCpi::Local),
            user_owner: None,
        })
    }

    fn configure(&self, request: &SshRequest, run: &RunContext, scratch: &SessionFiles) -> Result<()> {
        let proxy = scratch.file("proxy");
        if let SshRoute::Socks5(url) = &request.route {
            scratch.write("proxy", url)?;
        }
        let ssh_config = SshConfig {
            address: &self.address,
            user: &self.user,
            key: &self.key,
            known_hosts: &self.known_hosts,
            is_pinned: self.is_pinned,
            route: &request.route,
            executable: &run.paths.executable,
            proxy_file: &proxy,
        };
        scratch.write("config", &ssh_config.text()?).map(drop)
    }

    /// Returns the warning after ssh has failed, which may have another reason than the connection.
    fn connection_warning(&self, route: &SshRoute) -> Warning {
        let check = match route {
            _ if self.is_local => return Warning::new(LOCAL_VM_NOTE).with_hint(LOGS_HINT),
            SshRoute::Direct => {
                "check that an sshd runs on the VM, and that no firewall blocks its port".to_owned()
            }
            SshRoute::Gateway(Gateway { host, .. }) => {
                format!("check the gateway '{host}' (--gw-host, --gw-user, --gw-private-key)")
            }
            SshRoute::Socks5(_) => "check the proxy (--gw-socks5, BOSH_ALL_PROXY)".to_owned(),
        };
        Warning::new(format!("perhaps ssh could not reach {}", self.sshd_address()))
            .with_hint(check)
            .with_hint(LOGS_HINT)
    }

    /// Returns the address of the sshd, with its port.
    fn sshd_address(&self) -> String {
        match self.address.contains(':') {
            true => format!("[{}]:22", self.address),
            false => format!("{}:22", self.address),
        }
    }

    /// Deletes the user, even after an interrupted session.
    fn end(&self, run: &RunContext) {
        let Some(agent) = &self.user_owner else { return };
        if let Err(error) = agent.clean_up_ssh(&self.user) {
            run.reporter.warn(format!(
                "deleting the user '{}' on the VM failed, but its key was deleted: {error}",
                self.user
            ));
        }
    }
}

/// The reason why no session on a VM of the CPI `local` is possible.
const LOCAL_VM_NOTE: &str = "a VM of the CPI `local` has no sshd, unless a job runs one";
/// The hint for a VM that ssh does not reach.
const LOGS_HINT: &str = "to read the logs without ssh: `monopile logs MANIFEST`";

/// The exit code of ssh and scp if they could not connect.
const NOT_CONNECTED_EXIT_CODE: u8 = 255;

/// Runs the program in this terminal and waits for it.
fn run_program(run: &RunContext, program: &str, config: &Path, arguments: &[String]) -> Result<u8> {
    signals::check_may_continue(run)?;
    let mut child = Command::new(program).arg("-F").arg(config).args(arguments).spawn().map_err(|error| {
        Error::io(format!("running '{program}'"), error)
            .with_hint("install an OpenSSH client, or add its directory to PATH")
    })?;
    let mut backoff = Backoff::up_to(Duration::from_millis(100));
    loop {
        let exit_status =
            child.try_wait().map_err(|error| Error::io(format!("waiting for '{program}'"), error))?;
        match (exit_status, run.signal()) {
            (Some(status), None) => {
                return Ok(exit_code(status));
            }
            (Some(_), Some(signal)) => return Err(interrupted_error(signal)),
            (None, Some(signal)) => {
                end(&mut child);
                return Err(interrupted_error(signal));
            }
            (None, None) => backoff.pause(&run.clock, Activity::Pause),
        }
    }
}

fn interrupted_error(signal: u8) -> Error {
    Error::new(ErrorKind::Interrupted(signal), "interrupted: the ssh session was ended")
}

/// Ends the program, with SIGTERM first so that it can restore the terminal.
fn end(child: &mut Child) {
    let pid = rustix::process::Pid::from_child(child);
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    let start = std::time::Instant::now();
    while start.elapsed() < EXIT_TIMEOUT {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the exit code as a shell does: 128 plus the number of a signal.
fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    u8::try_from(code).unwrap_or(255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_arguments_are_separate_words() {
        let run = SshAction::Run(vec!["ls".into(), "-l".into(), "; rm -rf /".into()]);
        let (program, line) = run.command_line(&["-p".into(), "2222".into()]).unwrap();
        assert_eq!(
            (program, line),
            ("ssh", ["-p", "2222", "--", VM_HOST_NAME, "ls", "-l", "; rm -rf /"].map(String::from).to_vec())
        );
        let copy = SshAction::Copy {
            recursive: true,
            sources: vec![CopyPath::Local("-x".into()), CopyPath::Local("a:b".into())],
            target: CopyPath::Remote("/tmp/a b".into()),
        };
        let (program, line) = copy.command_line(&[]).unwrap();
        assert_eq!(
            (program, line),
            ("scp", ["-r", "--", "./-x", "./a:b", "monopile-vm:/tmp/a b"].map(String::from).to_vec())
        );
    }
}
