//! Runs a packaging script.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::package_store::{PackageLock, PackageSlot};
use super::{CompileSettings, StopCondition};
use crate::cpi::create_private_directory;
use crate::cpi::log::CallLog;
use crate::cpi::userland::{self, Layout, MountPoint, Userland};
use artifact::release::Package;
use base::events::Stage;
use base::subordinate_ids::MAX_ID;
use base::{Error, LogExcerpt, Result};

/// The time that a script has to stop after a signal.
const TERM_TIMEOUT: Duration = Duration::from_secs(2);
const BASH_ARGUMENTS: [&str; 2] = ["-x", "packaging"];
/// The variables that name proxies, in lower case. Programs read one or the other case.
const PROXY_VARIABLES: [&str; 4] = ["http_proxy", "https_proxy", "no_proxy", "all_proxy"];
/// The pause between two checks of a script.
const POLL_PAUSE: Duration = Duration::from_millis(25);

/// The run of a packaging script.
pub(super) struct ScriptRun<'a> {
    pub(super) package: &'a Package,
    /// Its unpacked source.
    pub(super) source: &'a Path,
    /// The packages that it is compiled with.
    pub(super) dependencies: &'a [PackageSlot],
    /// The place of the compiled package.
    pub(super) slot: &'a PackageSlot,
    /// The lock on that place, which the script holds as well.
    pub(super) lock: &'a PackageLock,
    pub(super) compile_settings: &'a CompileSettings<'a>,
    pub(super) stop_condition: &'a StopCondition<'a>,
    pub(super) stage: &'a Stage,
}

impl ScriptRun<'_> {
    /// Runs `packaging` with `bash -x` in the source, like the bosh CLI, in a process group of its own.
    pub(super) fn run(&self) -> Result<()> {
        let log_path = &self.slot.log_path;
        let write_error = |error| Error::io(format!("writing '{}'", log_path.display()), error);
        let log = File::options()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(log_path)
            .map_err(write_error)?;
        let mut command = match self.compile_settings.userland {
            Some(userland) => self.command_in(userland)?,
            None => self.command_on_this_machine(),
        };
        command
            .env("BOSH_PACKAGE_NAME", &self.package.name)
            .env("BOSH_PACKAGE_VERSION", &self.package.version)
            .envs(super::UNCHANGED_PACKAGES)
            .stdin(self.lock.to_input().map_err(write_error)?)
            .stdout(log.try_clone().map_err(write_error)?)
            .stderr(log)
            .process_group(0);
        let program = command.get_program().display().to_string();
        let spawn_result = match self.compile_settings.userland {
            Some(userland) => userland.spawn_script(command),
            None => command.spawn(),
        };
        let mut child = spawn_result.map_err(|error| {
            Error::failure(format!("'{program}' cannot be run"))
                .with_source(error)
                .with_hint("install bash, or add its directory to PATH")
        })?;
        let mut tail = CallLog::open(log_path);
        let mut show = |line: &str| {
            let line = self.compile_settings.redactor.clean_and_redact_line(line);
            tracing::debug!(target: "packaging", "{line}");
            self.stage.log_line(line);
        };
        let status = self.wait(&mut child, &mut || tail.follow(&mut show));
        let take_result = self.take_files();
        tail.read_rest(&mut show);
        // Scripts may print their environment, and their output stays in the cache.
        base::files::durable::rewrite(log_path, &|text| {
            self.compile_settings.redactor.clean_and_redact(text)
        })
        .map_err(write_error)?;
        let status = status?;
        if status.success() {
            return take_result;
        }
        let is_in_userland = self.compile_settings.userland.is_some();
        let end = match (status.code(), status.signal()) {
            (Some(code), _)
                if code == i32::from(userland::TOO_MANY_PROCESSES_EXIT_CODE) && is_in_userland =>
            {
                format!("was ended: it had more than {} processes at once", userland::MAX_PROCESSES)
            }
            (Some(code), _) => format!("exited with {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "failed".to_owned(),
        };
        let lines = tail.tail();
        let error = Error::failure(format!("the packaging script {end}"));
        let error = if lines.trim().is_empty() {
            error.with_source("it wrote nothing")
        } else {
            error.with_source(LogExcerpt::new(format!("the end of its output:\n{}", lines.trim_end())))
        };
        let error = error.with_note(format!("the whole output is in '{}'", log_path.display()));
        let error = match self.compile_settings.userland.map(|userland| &userland.subordinate_ids) {
            Some(Ok(_)) if is_about_ids(&lines) => error.with_hint(format!(
                "in a userland, packaging scripts are not root: `su` asks for a password. To run a program \
                 as another user: `setpriv --reuid=ID --regid=ID --clear-groups PROGRAM`, with an ID up to \
                 {MAX_ID}"
            )),
            Some(Err(problem)) if is_about_ids(&lines) => error.with_note(format!(
                "in a userland, packaging scripts are not root: they can change owners and users only with \
                 subordinate ids, and there are none: {problem}"
            )),
            _ => error,
        };
        Err(if self.compile_settings.keep_scratch {
            error
        } else {
            error.with_hint(
                "to keep the directory in which it was compiled: `monopile SAME-COMMAND --keep-scratch`",
            )
        })
    }

    /// Gives this user the files that the script gave to others, so that they can be read and removed.
    fn take_files(&self) -> Result<()> {
        let Some(userland) = self.compile_settings.userland else { return Ok(()) };
        userland.take_files(self.space())?;
        userland.take_files(&self.slot.package_directory)
    }

    /// Returns the directory of everything that the script writes, except for the package.
    fn space(&self) -> &Path {
        self.source.ancestors().nth(2).unwrap_or(self.source)
    }

    fn command_on_this_machine(&self) -> Command {
        let mut command = Command::new("bash");
        command
            .args(BASH_ARGUMENTS)
            .current_dir(self.source)
            .env_clear()
            .envs(self.compile_settings.env_vars.iter().map(|(name, value)| (name, value)))
            .env("BOSH_COMPILE_TARGET", self.source)
            .env("BOSH_INSTALL_TARGET", &self.slot.package_directory)
            .env("BOSH_PACKAGES_DIR", &self.slot.packages_directory);
        command
    }

    /// Returns the command that runs the script in a userland, with nothing of this machine's environment.
    fn command_in(&self, userland: &Userland) -> Result<Command> {
        let parent = self.source.parent().unwrap_or(self.source);
        let compile_target = Path::new(userland::COMPILE_DIRECTORY).join(&self.package.name);
        let install_target = Path::new(userland::PACKAGES_DIRECTORY).join(&self.package.name);
        let mut mounts = vec![
            MountPoint::writable(parent, userland::COMPILE_DIRECTORY),
            MountPoint::writable(&self.slot.package_directory, &install_target),
        ];
        mounts.extend(self.dependencies.iter().map(|slot| {
            MountPoint::read_only(
                &slot.package_directory,
                Path::new(userland::PACKAGES_DIRECTORY).join(&slot.name),
            )
        }));
        // The layout must not be in the directory that the script sees.
        let scratch = self.space().join("userland");
        create_private_directory(&scratch)?;
        // Other users of the script can search it. On this machine, the directory above it is private.
        fs::set_permissions(parent, Permissions::from_mode(0o755))
            .map_err(|error| Error::io(format!("setting the mode of '{}'", parent.display()), error))?;
        let layout = Layout::for_script(userland, &scratch, compile_target.clone(), mounts)?;
        let mut command = Command::new(&userland.executable);
        command
            .args(layout.write(&[&["bash"], &BASH_ARGUMENTS[..]].concat())?)
            .env_clear()
            .envs([("PATH", userland::SEARCH_PATH), ("HOME", userland::HOME_DIRECTORY), ("LANG", "C.UTF-8")])
            .envs(self.proxy_variables(userland))
            .env("BOSH_COMPILE_TARGET", compile_target)
            .env("BOSH_INSTALL_TARGET", install_target)
            .env("BOSH_PACKAGES_DIR", userland::PACKAGES_DIRECTORY);
        Ok(command)
    }

    /// Returns the variables that name proxies, without which a script may not reach other machines.
    fn proxy_variables(&self, userland: &Userland) -> impl Iterator<Item = (&str, &str)> {
        let is_proxy = |name: &str| PROXY_VARIABLES.contains(&name.to_lowercase().as_str());
        let variables = self.compile_settings.env_vars.iter().filter(|_| userland.compiles_with_network);
        variables.filter(move |(name, _)| is_proxy(name)).map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Waits for the end of the script. If it must stop, ends it and all processes that it started.
    fn wait(&self, child: &mut Child, follow: &mut dyn FnMut()) -> Result<ExitStatus> {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let wait_error = |error| Error::io("waiting for a packaging script", error);
        let mut deadline = None;
        loop {
            if has_ended(group) {
                // The process is not yet reaped, so the group's id is not reused. No process of the group may
                // write into the package after its script ended.
                signal(group, Signal::KILL);
                let status = child.wait().map_err(wait_error)?;
                // A successful script counts, even if a signal came in its last moments.
                if status.success() && deadline.is_none() {
                    return Ok(status);
                }
                self.stop_condition.check()?;
                return Ok(status);
            }
            match deadline {
                None if self.stop_condition.check().is_err() => {
                    signal(group, Signal::TERM);
                    deadline = Some(Instant::now() + TERM_TIMEOUT);
                }
                Some(end) if Instant::now() > end => signal(group, Signal::KILL),
                _ => {}
            }
            follow();
            std::thread::sleep(POLL_PAUSE);
        }
    }
}

/// Returns true if the process has ended. Does not reap it.
fn has_ended(pid: Option<Pid>) -> bool {
    let Some(pid) = pid else { return true };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    // An error means that there is no process to wait for.
    !matches!(rustix::process::waitid(WaitId::Pid(pid), options), Ok(None) | Err(rustix::io::Errno::INTR))
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

/// Returns true if the end of a script's output may be about a refused change of owner or user.
fn is_about_ids(lines: &str) -> bool {
    let words = ["chown", "chgrp", "not permitted", "setpriv", "setuid", "setgid", "setgroups", "su: "];
    words.iter().any(|word| lines.contains(word))
}
