//! `monopile logs`: prints, follows or saves logs of the VM, or prints its console.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueHint};
use globset::Glob;
use time::OffsetDateTime;
use time::macros::format_description;

use super::agent_args::AgentTimeoutArgs;
use super::choices::number;
use super::finish::{CommandResult, output_error};
use super::paths;
use super::session::Session;
use super::vm_args::VmArgs;
use base::files::directory::{check_directory, parent};
use base::{Error, Result};
use engine::inspection::{self, ConsoleRequest, LogOrigin, LogsRequest};

/// The number of bytes that are printed at once.
const BUFFER_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Args)]
pub(super) struct LogsArgs {
    #[command(flatten)]
    vm: VmArgs,

    /// Read the logs of the agent instead of the jobs
    #[arg(long)]
    agent: bool,

    /// Read the logs of the system (/var/log) instead of the jobs
    #[arg(long)]
    system: bool,

    /// Read the logs of jobs, agent and system
    #[arg(long, conflicts_with_all = ["agent", "system"])]
    all_logs: bool,

    /// Read the console of the VM (of the CPIs `qemu` and `local`), also without the agent
    ///
    /// Prints the last 100 lines (10 with --follow), or as many as --num says. A VM of the CPI `qemu` has at
    /// most 1 MiB of it.
    #[arg(long,
          conflicts_with_all = ["agent", "system", "all_logs", "job", "filter", "quiet", "dir", "out"])]
    console: bool,

    /// Read only the logs of this job (repeatable)
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other)]
    job: Vec<String>,

    /// Read only logs whose name matches, such as 'hello/*.log' (repeatable, or separated by commas); with
    /// --job, also these
    #[arg(long, visible_alias = "only", value_name = "GLOB", value_delimiter = ',',
          value_hint = ValueHint::Other)]
    filter: Vec<String>,

    /// Follow the logs until Ctrl-C, which then ends with exit code 0
    #[arg(short = 'f', long, conflicts_with_all = ["dir", "out"])]
    follow: bool,

    /// Print only the last N lines of each file [default: all; 10 with --follow]
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with_all = ["dir", "out"],
          value_parser = number(0_usize, None, 10))]
    num: Option<usize>,

    /// Do not print the names of files
    #[arg(short = 'q', long)]
    quiet: bool,

    /// Save the logs as a new tarball in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "out")]
    dir: Option<PathBuf>,

    /// Save the logs to this tarball, which must not exist yet
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    #[command(flatten)]
    timeout_args: AgentTimeoutArgs,
}

impl LogsArgs {
    /// Saves the logs as an archive, or prints and follows their lines. A closed pipe ends the run without an
    /// error.
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let (state, inputs) = self.vm.inputs()?;
        let console = ConsoleRequest { inputs: inputs.clone(), lines: self.num, follow: self.follow };
        let request = LogsRequest {
            inputs,
            agent_timeout: self.timeout_args.agent_timeout,
            origins: self.origins(),
            jobs: self.jobs()?,
            filters: self.filters()?,
            lines: self.num,
            quiet: self.quiet,
        };
        let target = self.target()?;
        let prepared_run = self.vm.prepare_run(session, state)?;
        let run = &prepared_run.run;
        if let Some(path) = target {
            let archive = inspection::save_logs(&request, run, &path)?;
            return match session.globals.prints_json() {
                true => CommandResult::json(&archive),
                false => Ok(CommandResult::Output(
                    format!("{} ({})\n", archive.path.display(), base::text::format_bytes(archive.bytes))
                        .into_bytes(),
                )),
            };
        }
        // Logs are printed line by line, because they may exceed the memory. Followed lines appear at once.
        let mut stdout = BufWriter::with_capacity(BUFFER_BYTES, std::io::stdout().lock());
        let mut write_error = None;
        let is_followed = self.follow;
        let mut print = |line: &str| {
            let flush = |stdout: &mut BufWriter<_>| if is_followed { stdout.flush() } else { Ok(()) };
            if write_error.is_none()
                && let Err(error) = writeln!(stdout, "{line}").and_then(|()| flush(&mut stdout))
            {
                write_error = Some(error.kind());
                // The reader has closed the pipe, so the run ends as after a signal.
                run.end_by_sigpipe();
            }
        };
        let result = match (self.console, self.follow) {
            (true, _) => inspection::print_console(&console, run, &mut print),
            (false, true) => inspection::follow_logs(&request, run, &mut print),
            (false, false) => inspection::print_logs(&request, run, &mut print),
        };
        if write_error.is_none() {
            write_error = stdout.flush().err().map(|error| error.kind());
        }
        match write_error {
            Some(std::io::ErrorKind::BrokenPipe) => {}
            Some(kind) => return Err(output_error(kind.into())),
            None => result?,
        }
        Ok(CommandResult::Output(Vec::new()))
    }

    fn origins(&self) -> Vec<LogOrigin> {
        let origins = [
            (LogOrigin::Job, self.all_logs || !(self.agent || self.system)),
            (LogOrigin::Agent, self.all_logs || self.agent),
            (LogOrigin::System, self.all_logs || self.system),
        ];
        origins.into_iter().filter(|(_, is_selected)| *is_selected).map(|(origin, _)| origin).collect()
    }

    fn jobs(&self) -> Result<Vec<String>> {
        if let Some(bad_name) =
            self.job.iter().find(|job| job.is_empty() || job.contains(['/', '*', '?', '[', '{']))
        {
            return Err(Error::usage(format!("'{bad_name}' (--job) is not the name of a job"))
                .with_hint("to select files by name: --filter GLOB"));
        }
        Ok(self.job.clone())
    }

    /// Checks the globs, which the agent would otherwise reject.
    fn filters(&self) -> Result<Vec<String>> {
        for glob in &self.filter {
            Glob::new(glob).map_err(|error| {
                Error::usage(format!("--filter '{glob}' is not a glob: {}", error.kind()))
                    .with_hint("write it like this: --filter 'hello/*.log'")
            })?;
        }
        Ok(self.filter.clone())
    }

    /// Returns the file to save the logs to, if any.
    fn target(&self) -> Result<Option<PathBuf>> {
        let home = paths::home();
        let absolute = |path: &PathBuf| paths::absolute(&paths::expand(path, home.as_deref()));
        if let Some(path) = &self.out {
            check_directory(parent(path), "--out")?;
            let path = absolute(path)?;
            if path.symlink_metadata().is_ok() {
                return Err(Error::invalid(format!("'{}' (--out) already exists", path.display()))
                    .with_hint("name another file with --out, or a directory for a new file with --dir"));
            }
            return Ok(Some(path));
        }
        let Some(directory) = &self.dir else { return Ok(None) };
        check_directory(directory, "--dir")?;
        let now = OffsetDateTime::now_utc()
            .format(format_description!("[year][month][day]-[hour][minute][second]-[subsecond digits:9]"))
            .unwrap_or_default();
        let name = self.vm.manifest.manifest.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Some(absolute(directory)?.join(format!("{name}-logs-{now}.tgz"))))
    }
}
