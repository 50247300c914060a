//! Arguments to a request, a request to one call of the library, a result to an exit code.
//!
//! [`main`] is the whole program. One file per command; what commands share is in `globals` (flags valid
//! everywhere), `manifest_args` (manifest, ops files, variables) and `session` (renderer, paths, signals).
//! This is the only module that reads the environment.

mod agent_args;
mod baremetal;
mod cache;
mod cloud_check;
mod complete;
mod completion;
mod config_args;
mod cpi;
mod cpi_args;
mod create_env;
mod delete_env;
mod deploy_args;
mod duration;
mod env_file;
mod environment_args;
mod finish;
mod gateway_args;
mod globals;
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
mod sealing;
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
mod vars;
mod vm_args;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::Result;
use crate::artifact::Algorithm;
use crate::state::Kind;
use env_file::CommandLine;
use finish::Finished;
use globals::Globals;
use session::{Conduct, Session};

pub use agent_args::AgentArgs;
pub use config_args::ConfigArgs;
pub use cpi_args::{CpiArgs, CpiVersionArgs};
pub use deploy_args::DeployArgs;
pub use manifest_args::ManifestArgs;
pub use place_args::PlaceArgs;
pub use state_args::StateArgs;
pub use stopping_args::StoppingArgs;

/// Bootstraps a deployment that is one VM from an ordinary BOSH manifest.
#[derive(Debug, Parser)]
#[command(
    name = "monopile",
    bin_name = "monopile",
    disable_version_flag = true,
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 110,
    after_help = "Exit codes: 0 success, 1 failure of the environment (CPI, agent, VM), 2 usage, 3 invalid input, \
                  4 state locked by another run, 5 agent not reachable, 6 the world is not as recorded, 7 something is to do \
                  (plan --detailed-exitcode), 130/143 interrupted with the state saved."
)]
pub struct Cli {
    /// Show the version
    // `-v` means `--var` after a command and the version before it, as upstream.
    #[arg(short = 'v', visible_short_alias = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,

    #[command(flatten)]
    globals: Globals,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    CreateEnv(Box<create_env::CreateEnvArgs>),
    Plan(Box<plan::PlanArgs>),
    DeleteEnv(delete_env::DeleteEnvArgs),
    StopEnv(stop_env::StopEnvArgs),
    StartEnv(start_env::StartEnvArgs),
    Restart(restart::RestartArgs),
    Recreate(recreate::RecreateArgs),
    Status(status::StatusArgs),
    History(history::HistoryArgs),
    Logs(logs::LogsArgs),
    Ssh(ssh::SshArgs),
    Scp(scp::ScpArgs),
    #[command(visible_alias = "cck")]
    CloudCheck(cloud_check::CloudCheckArgs),
    #[command(visible_alias = "int")]
    Interpolate(interpolate::InterpolateArgs),
    Vars(vars::VarsArgs),
    Render(render::RenderArgs),
    RenderTemplate(render_template::RenderTemplateArgs),
    InspectLocalRelease(inspect_local_release::InspectLocalReleaseArgs),
    InspectLocalStemcell(inspect_local_stemcell::InspectLocalStemcellArgs),
    RepackStemcell(repack_stemcell::RepackStemcellArgs),
    /// Convert a release tarball to SHA-1 digests
    #[command(name = "sha1ify-release")]
    Sha1ifyRelease(redigest_release::RedigestReleaseArgs),
    /// Convert a release tarball to SHA-256 digests
    #[command(name = "sha2ify-release")]
    Sha2ifyRelease(redigest_release::RedigestReleaseArgs),
    State(state::StateCommandArgs),
    UploadStemcell(resources::UploadStemcellArgs),
    Stemcells(resources::StemcellsArgs),
    DeleteStemcell(resources::DeleteStemcellArgs),
    /// Delete a VM: that of the environment, or any other that a CPI knows
    DeleteVm(resources::DeleteArgs),
    Disks(resources::DisksArgs),
    AttachDisk(resources::AttachDiskArgs),
    /// Delete a disk that is not in use
    DeleteDisk(resources::DeleteArgs),
    Snapshots(resources::SnapshotsArgs),
    TakeSnapshot(resources::TakeSnapshotArgs),
    /// Delete a snapshot of a disk
    DeleteSnapshot(resources::DeleteArgs),
    Cpis(resources::CpisArgs),
    Cpi(cpi::CpiCommandArgs),
    Cache(cache::CacheArgs),
    Baremetal(Box<baremetal::BaremetalArgs>),
    Completion(completion::CompletionArgs),
}

impl Command {
    fn run(self, session: &Session) -> Result<Finished> {
        match self {
            Command::CreateEnv(args) => args.run(session),
            Command::Plan(args) => args.run(session),
            Command::DeleteEnv(args) => args.run(session),
            Command::StopEnv(args) => args.run(session),
            Command::StartEnv(args) => args.run(session),
            Command::Restart(args) => args.run(session),
            Command::Recreate(args) => args.run(session),
            Command::Status(args) => args.run(session),
            Command::History(args) => args.run(session),
            Command::Logs(args) => args.run(session),
            Command::Ssh(args) => args.run(session),
            Command::Scp(args) => args.run(session),
            Command::CloudCheck(args) => args.run(session),
            Command::Interpolate(args) => args.run(session),
            Command::Vars(args) => args.run(session),
            Command::Render(args) => args.run(session),
            Command::RenderTemplate(args) => args.run(),
            Command::InspectLocalRelease(args) => args.run(session),
            Command::InspectLocalStemcell(args) => args.run(session),
            Command::RepackStemcell(args) => args.run(session),
            Command::Sha1ifyRelease(args) => args.run(session, Algorithm::Sha1),
            Command::Sha2ifyRelease(args) => args.run(session, Algorithm::Sha256),
            Command::State(args) => args.run(session),
            Command::UploadStemcell(args) => args.run(session),
            Command::Stemcells(args) => args.run(session),
            Command::DeleteStemcell(args) => args.run(session),
            Command::DeleteVm(args) => args.run(session, Kind::Vm),
            Command::Disks(args) => args.run(session),
            Command::AttachDisk(args) => args.run(session),
            Command::DeleteDisk(args) => args.run(session, Kind::Disk),
            Command::Snapshots(args) => args.run(session),
            Command::TakeSnapshot(args) => args.run(session),
            Command::DeleteSnapshot(args) => args.run(session, Kind::Snapshot),
            Command::Cpis(args) => args.run(session),
            Command::Cpi(args) => args.run(session),
            Command::Cache(args) => args.run(session),
            Command::Baremetal(args) => args.run(session),
            Command::Completion(args) => args.run(),
        }
    }

    fn conduct(&self) -> Conduct {
        Conduct {
            product: self.has_product(),
            followed: self.is_followed(),
            logged: self.changes_the_world(),
            looks: matches!(self, Command::Status(_) | Command::Logs(_) | Command::Ssh(_) | Command::Scp(_)),
        }
    }

    /// Whether the command can change the world, and so keeps a log.
    fn changes_the_world(&self) -> bool {
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

    /// Whether the command prints something of its own, which has standard output to itself.
    fn has_product(&self) -> bool {
        match self {
            Command::CreateEnv(args) => args.has_product(),
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
            Command::State(args) => args.has_product(),
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
            | Command::Cache(_)
            | Command::Baremetal(_)
            | Command::Completion(_) => true,
        }
    }

    /// Whether a person follows the command, although it has a product.
    fn is_followed(&self) -> bool {
        match self {
            Command::Cpi(cpi) => cpi.is_followed(),
            Command::Status(_) | Command::Logs(_) | Command::Ssh(_) | Command::Scp(_) => true,
            Command::CloudCheck(_) => true,
            _ => false,
        }
    }
}

/// The command line's grammar, for completions and documentation.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program: parses the arguments of this process, does what they ask, and says how it went.
pub fn main() -> ExitCode {
    finish::install_panic_hook();
    std::panic::catch_unwind(run).unwrap_or_else(|_| finish::panicked())
}

fn run() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    // What monopile starts of itself comes first: it must not meet threads or signal handlers.
    if let Some(code) = internal::try_run(&args) {
        return code;
    }
    if let Some(code) = complete::try_answer(&args) {
        return code;
    }
    let (cli, remarks) = match env_file::understand(&command().args(globals::ignored()), &args) {
        CommandLine::Understood(cli, remarks) => (cli, Ok(remarks)),
        CommandLine::Unusable(cli, error) => (cli, Err(error)),
        CommandLine::Refused(error) => {
            return finish::usage(&error, args.iter().any(|arg| arg == "--json"));
        }
    };
    let session = Session::begin(&cli.globals, &cli.command.conduct());
    let result = remarks.and_then(|remarks| {
        session.remark(remarks);
        sealing::establish(&cli.globals)?;
        sealing::current().secrets().for_each(|secret| session.redactor.add(secret));
        cli.command.run(&session)
    });
    finish::finish(&session, result)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_grammar_is_sound() {
        super::command().args(super::globals::ignored()).debug_assert();
    }
}
