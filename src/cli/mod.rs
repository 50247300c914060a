//! The command line: parses arguments, calls the engine, and turns the result into output and an exit code.
//!
//! [`main`] is the whole program. There is one file per command. Shared arguments are in files that end in
//! `_args`, global flags in `globals`, and the state of a run in `session`. Only this module reads
//! environment variables.

mod agent_args;
mod baremetal;
mod cache;
mod choices;
mod cid;
mod cloud_check;
mod complete;
mod completion;
mod config_args;
mod cpi;
mod cpi_args;
mod create_env;
mod delete_env;
mod deploy_args;
mod director;
mod duration;
mod encryption_args;
mod env_file;
mod environment_args;
mod example;
mod finish;
mod gateway_args;
mod globals;
mod grammar;
mod help;
mod history;
mod inspect_local_release;
mod inspect_local_stemcell;
mod internal;
mod interpolate;
mod jobs_args;
mod logging;
mod logs;
mod manifest_args;
mod paths;
mod place_args;
mod plan;
mod recreate;
mod redigest_release;
pub mod reference;
mod render;
mod render_template;
mod renewal_args;
mod repack_stemcell;
mod resources;
mod restart;
mod run_log;
mod run_record;
mod scp;
mod scratch;
mod session;
mod signals;
mod ssh;
mod start_env;
mod state;
mod state_args;
mod status;
mod stop_env;
mod stopping_args;
mod table;
mod trust;
mod vars;
mod vm_args;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use artifact::Algorithm;
use base::Result;
use base::exit_code;
use engine::protocol::ResourceKind;
use env_file::CommandLine;
use finish::Finished;
use globals::{Globals, JsonForm};
use grammar::Later;
use resources::View;
use session::{OutputMode, Session};

pub use agent_args::AgentArgs;
pub use config_args::ConfigArgs;
pub use cpi_args::{CpiArgs, CpiVersionArgs};
pub use deploy_args::DeployArgs;
pub use help::Notes;
pub use manifest_args::ManifestArgs;
pub use place_args::PlaceArgs;
pub use state_args::StateArgs;
pub use stopping_args::StoppingArgs;

/// Create and manage a single-VM BOSH deployment, as `bosh create-env` does.
#[derive(Debug, Parser)]
#[command(
    name = "monopile",
    bin_name = "monopile",
    disable_version_flag = true,
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 110,
    after_help = help::exit_codes(&exit_code::TABLE)
)]
pub struct Cli {
    /// Show the version
    // As upstream, `-v` means `--var` after a command and the version before it.
    #[arg(short = 'v', visible_short_alias = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,

    #[command(flatten)]
    globals: Globals,

    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// Returns the error for `--json=bosh` if upstream does not have the command.
    fn json_error(&self, grammar: &mut clap::Command) -> Option<clap::Error> {
        let wanted = self.globals.json == Some(JsonForm::Bosh) && !self.command.has_bosh_json();
        wanted.then(|| {
            grammar.error(
                clap::error::ErrorKind::ArgumentConflict,
                "--json=bosh works with create-env, delete-env, stop-env, start-env, interpolate, \
                 inspect-local-release and inspect-local-stemcell; other commands have --json",
            )
        })
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create or update an environment
    CreateEnv(Later<create_env::CreateEnvArgs>),
    /// Show what create-env would do, and why
    Plan(Later<plan::PlanArgs>),
    /// Delete an environment: VM, disks, stemcells and state
    DeleteEnv(Later<delete_env::DeleteEnvArgs>),
    /// Stop the jobs of an environment; VM and disks stay
    StopEnv(Later<stop_env::StopEnvArgs>),
    /// Start the jobs that stop-env stopped
    StartEnv(Later<start_env::StartEnvArgs>),
    /// Stop the jobs of an environment and start them again
    Restart(Later<restart::RestartArgs>),
    /// Replace the VM; persistent disks keep their data
    Recreate(Later<recreate::RecreateArgs>),
    /// Show VM, agent, jobs, disks, certificates, last runs
    Status(Later<status::StatusArgs>),
    /// List the runs on this machine with their results
    History(Later<history::HistoryArgs>),
    /// Print or save the logs of jobs, agent or system
    Logs(Later<logs::LogsArgs>),
    /// Log in to the VM as a temporary user
    Ssh(Later<ssh::SshArgs>),
    /// Copy files to or from the VM
    Scp(Later<scp::ScpArgs>),
    /// Compare the record with CPI and agent, and repair
    #[command(visible_aliases = ["cck", "cloudcheck"])]
    CloudCheck(Later<cloud_check::CloudCheckArgs>),
    /// Print a manifest with ops files and variables
    #[command(visible_alias = "int")]
    Interpolate(Later<interpolate::InterpolateArgs>),
    /// List, check and rotate the variables of a vars store
    Vars(Later<vars::VarsArgs>),
    /// Print the rendered files of a job, without deploying
    Render(Later<render::RenderArgs>),
    /// Render a template with an evaluation context
    RenderTemplate(Later<render_template::RenderTemplateArgs>),
    /// Show the jobs and packages of a release
    InspectLocalRelease(Later<inspect_local_release::InspectLocalReleaseArgs>),
    /// Show name, version and format of a stemcell
    InspectLocalStemcell(Later<inspect_local_stemcell::InspectLocalStemcellArgs>),
    /// Make a changed copy of a stemcell
    RepackStemcell(Later<repack_stemcell::RepackStemcellArgs>),
    /// Convert a release tarball to SHA-1 digests
    #[command(name = "sha1ify-release")]
    Sha1ifyRelease(Later<redigest_release::RedigestReleaseArgs>),
    /// Convert a release tarball to SHA-256 digests
    #[command(name = "sha2ify-release")]
    Sha2ifyRelease(Later<redigest_release::RedigestReleaseArgs>),
    /// Show, back up, import and repair the state
    State(Later<state::StateCommandArgs>),
    /// Upload a stemcell and keep it until delete-stemcell
    UploadStemcell(Later<resources::UploadStemcellArgs>),
    /// List the stemcells on record
    #[command(hide = true)]
    Stemcells(Later<resources::ViewArgs>),
    /// Delete a stemcell in every CPI that has it
    DeleteStemcell(Later<resources::DeleteStemcellArgs>),
    /// Delete the VM of the environment, or another by CID
    DeleteVm(Later<resources::DeleteArgs>),
    /// List the disks on record
    #[command(hide = true)]
    Disks(Later<resources::ViewArgs>),
    /// Choose the disk that the next create-env attaches
    AttachDisk(Later<resources::AttachDiskArgs>),
    /// Delete a disk that is not in use
    DeleteDisk(Later<resources::DeleteArgs>),
    /// List the snapshots on record
    #[command(hide = true)]
    Snapshots(Later<resources::ViewArgs>),
    /// Take a snapshot of a disk
    TakeSnapshot(Later<resources::TakeSnapshotArgs>),
    /// Delete a snapshot of a disk
    DeleteSnapshot(Later<resources::DeleteArgs>),
    /// Show API version and formats of every CPI
    #[command(hide = true)]
    Cpis(Later<cpi::ListArgs>),
    /// List, call, check and replay CPIs
    Cpi(Later<cpi::CpiCommandArgs>),
    /// Allow the env file that is found here
    Trust(Later<trust::TrustArgs>),
    /// List and prune the cache
    Cache(Later<cache::CacheArgs>),
    /// Show nodes and manage volumes of a standalone Ironic
    Baremetal(Later<baremetal::BaremetalArgs>),
    /// Write an example that ships with monopile
    Example(Later<example::ExampleArgs>),
    /// Print the completion script of a shell
    Completion(Later<completion::CompletionArgs>),
}

impl Command {
    fn run(self, session: &Session) -> Result<Finished> {
        match self {
            Command::CreateEnv(args) => args.0.run(session),
            Command::Plan(args) => args.0.run(session),
            Command::DeleteEnv(args) => args.0.run(session),
            Command::StopEnv(args) => args.0.run(session),
            Command::StartEnv(args) => args.0.run(session),
            Command::Restart(args) => args.0.run(session),
            Command::Recreate(args) => args.0.run(session),
            Command::Status(args) => args.0.run(session),
            Command::History(args) => args.0.run(session),
            Command::Logs(args) => args.0.run(session),
            Command::Ssh(args) => args.0.run(session),
            Command::Scp(args) => args.0.run(session),
            Command::CloudCheck(args) => args.0.run(session),
            Command::Interpolate(args) => args.0.run(session),
            Command::Vars(args) => args.0.run(session),
            Command::Render(args) => args.0.run(session),
            Command::RenderTemplate(args) => args.0.run(),
            Command::InspectLocalRelease(args) => args.0.run(session),
            Command::InspectLocalStemcell(args) => args.0.run(session),
            Command::RepackStemcell(args) => args.0.run(session),
            Command::Sha1ifyRelease(args) => args.0.run(session, Algorithm::Sha1),
            Command::Sha2ifyRelease(args) => args.0.run(session, Algorithm::Sha256),
            Command::State(args) => args.0.run(session),
            Command::UploadStemcell(args) => args.0.run(session),
            Command::Stemcells(args) => args.0.run(session, View::Stemcells),
            Command::DeleteStemcell(args) => args.0.run(session),
            Command::DeleteVm(args) => args.0.run(session, ResourceKind::Vm),
            Command::Disks(args) => args.0.run(session, View::Disks),
            Command::AttachDisk(args) => args.0.run(session),
            Command::DeleteDisk(args) => args.0.run(session, ResourceKind::Disk),
            Command::Snapshots(args) => args.0.run(session, View::Snapshots),
            Command::TakeSnapshot(args) => args.0.run(session),
            Command::DeleteSnapshot(args) => args.0.run(session, ResourceKind::Snapshot),
            Command::Cpis(args) => args.0.run(session),
            Command::Cpi(args) => args.0.run(session),
            Command::Trust(args) => args.0.run(session),
            Command::Cache(args) => args.0.run(session),
            Command::Baremetal(args) => args.0.run(session),
            Command::Example(args) => args.0.run(session),
            Command::Completion(args) => args.0.run(),
        }
    }

    fn output_mode(&self) -> OutputMode {
        OutputMode {
            stdout_reserved: self.reserves_stdout(),
            shows_progress: self.shows_progress(),
            keeps_log: self.changes_environment(),
            ends_by_signal: matches!(
                self,
                Command::Status(_) | Command::Logs(_) | Command::Ssh(_) | Command::Scp(_)
            ),
        }
    }

    /// Returns true if upstream has the command, so that `--json=bosh` can print what upstream does.
    fn has_bosh_json(&self) -> bool {
        match self {
            Command::CreateEnv(args) => !args.0.reserves_stdout(),
            Command::DeleteEnv(_)
            | Command::StopEnv(_)
            | Command::StartEnv(_)
            | Command::Interpolate(_)
            | Command::InspectLocalRelease(_)
            | Command::InspectLocalStemcell(_) => true,
            _ => false,
        }
    }

    /// Returns true if the command can change an environment. Such commands keep a log.
    fn changes_environment(&self) -> bool {
        matches!(
            self,
            Command::CreateEnv(_)
                | Command::DeleteEnv(_)
                | Command::StopEnv(_)
                | Command::StartEnv(_)
                | Command::Restart(_)
                | Command::Recreate(_)
                | Command::CloudCheck(_)
                | Command::State(_)
                | Command::UploadStemcell(_)
                | Command::DeleteStemcell(_)
                | Command::DeleteVm(_)
                | Command::AttachDisk(_)
                | Command::DeleteDisk(_)
                | Command::TakeSnapshot(_)
                | Command::DeleteSnapshot(_)
        )
    }

    /// Returns true if the command prints output of its own, which has standard output to itself.
    fn reserves_stdout(&self) -> bool {
        match self {
            Command::CreateEnv(args) => args.0.reserves_stdout(),
            Command::DeleteEnv(_)
            | Command::StopEnv(_)
            | Command::StartEnv(_)
            | Command::Restart(_)
            | Command::Recreate(_)
            | Command::UploadStemcell(_)
            | Command::DeleteStemcell(_)
            | Command::DeleteVm(_)
            | Command::AttachDisk(_)
            | Command::DeleteDisk(_)
            | Command::TakeSnapshot(_)
            | Command::DeleteSnapshot(_)
            | Command::RepackStemcell(_) => false,
            Command::State(args) => args.0.reserves_stdout(),
            Command::Example(args) => args.0.reserves_stdout(),
            Command::Interpolate(_)
            | Command::Plan(_)
            | Command::Vars(_)
            | Command::Status(_)
            | Command::History(_)
            | Command::Logs(_)
            | Command::Ssh(_)
            | Command::Scp(_)
            | Command::CloudCheck(_)
            | Command::Render(_)
            | Command::RenderTemplate(_)
            | Command::InspectLocalRelease(_)
            | Command::InspectLocalStemcell(_)
            | Command::Sha1ifyRelease(_)
            | Command::Sha2ifyRelease(_)
            | Command::Stemcells(_)
            | Command::Disks(_)
            | Command::Snapshots(_)
            | Command::Cpis(_)
            | Command::Cpi(_)
            | Command::Trust(_)
            | Command::Cache(_)
            | Command::Baremetal(_)
            | Command::Completion(_) => true,
        }
    }

    /// Returns true if the command shows progress although standard output is reserved.
    fn shows_progress(&self) -> bool {
        match self {
            Command::Cpi(cpi) => cpi.0.shows_progress(),
            Command::Status(_) | Command::Logs(_) | Command::Ssh(_) | Command::Scp(_) => true,
            Command::CloudCheck(_) => true,
            _ => false,
        }
    }
}

/// Returns the grammar of the command line, for completions and documents.
pub fn command() -> clap::Command {
    grammar::whole()
}

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    finish::install_panic_hook();
    std::panic::catch_unwind(run).unwrap_or_else(|_| finish::panicked())
}

fn run() -> ExitCode {
    let args = help::expanded(std::env::args_os().collect());
    // Internal commands come first, before any thread or signal handler.
    if let Some(code) = internal::try_run(&args) {
        return code;
    }
    if let Some(code) = complete::try_answer(&args) {
        return code;
    }
    if let Some(text) = grammar::version(&args) {
        // A closed standard output is not an error.
        let _ = std::io::stdout().write_all(text.as_bytes());
        return ExitCode::SUCCESS;
    }
    let mut grammar = grammar::for_words(&args).args(globals::ignored());
    let (cli, remarks) = match env_file::understand(&grammar, &args) {
        CommandLine::Understood(cli, remarks) => (cli, Ok(remarks)),
        CommandLine::Unusable(cli, error) => (cli, Err(error)),
        CommandLine::Refused(error) => {
            let error = director::explained(error, grammar);
            let json = args.iter().any(|arg| arg == "--json" || arg == "--json=lines");
            return finish::usage(&error, json);
        }
    };
    if let Some(error) = cli.json_error(&mut grammar) {
        return finish::usage(&error, false);
    }
    let session = Session::begin(&cli.globals, &cli.command.output_mode());
    let result = remarks.and_then(|remarks| {
        session.remark(remarks);
        encryption_args::establish(&cli.globals)?;
        encryption_args::current().secrets().for_each(|secret| session.redactor.add(secret));
        cli.command.run(&session)
    });
    finish::finish(&session, result)
}
