//! The command line: parses arguments, calls the engine, and turns the result into output and an exit code.
//!
//! [`main`] is the whole program. Each command has a file or shares one with related commands. Most arguments
//! that commands share are in files whose names end in `_args`; those of one group are in the group. Global
//! options are in `globals`, and the renderer, logs and run context of a command in `session`. Only this
//! module reads environment variables.

mod agent_args;
mod baremetal;
mod bosh_only_commands;
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
mod duration;
mod encryption;
mod env_file;
pub mod env_vars;
mod environment_args;
mod example;
mod exit_codes;
mod finish;
mod gateway_args;
mod globals;
mod grammar;
mod help;
mod hint_commands;
mod history;
mod inspect_local_release;
mod inspect_local_stemcell;
mod internal;
mod interpolate;
mod jobs_args;
mod logging;
mod logs;
mod manifest_args;
mod named_file;
mod open_calls_args;
mod paths;
mod plan;
mod recreate;
mod redigest_release;
mod render;
mod render_template;
mod repack_stemcell;
mod replacement_args;
mod resources;
mod restart;
mod run_log;
mod run_recorder;
mod scope;
mod scp;
mod scratch;
mod scratch_args;
mod session;
mod shared_cache;
mod signals;
mod snapshot_args;
mod ssh;
mod start_env;
mod state;
mod state_args;
mod state_selection_args;
mod status;
mod status_all;
mod stop_env;
mod stopping_args;
mod suggestions;
mod table;
mod trust;
mod vars;
mod vars_exec_args;
mod version;
mod vm_args;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use artifact::Algorithm;
use base::Result;
use engine::protocol::ResourceKind;
use env_file::CommandLine;
use finish::CommandResult;
use globals::{Globals, JsonForm};
use grammar::LazyArgs;
use hint_commands::RepeatedArgs;
use resources::ListView;
use session::{OutputMode, Session};
use suggestions::RefusedCommandLine;

pub use agent_args::AgentArgs;
pub use config_args::ConfigArgs;
pub use cpi_args::{CpiArgs, CpiUserlandArgs, CpiVersionArgs};
pub use deploy_args::DeployArgs;
pub use exit_codes::ExitCodeMeaning;
pub use help::{
    COMMAND_GROUPS, DURATIONS_NOTE, FIRST_STEPS, GLOBAL_HEADING, HELP_COMMAND, HELP_DETAILS, HELP_EXAMPLES,
    HELP_EXIT_CODES, HELP_USAGE, HelpNotes, TOPICS, Topic, sections, takes_duration,
};
pub use manifest_args::ManifestArgs;
pub use state_args::StateArgs;
pub use state_selection_args::StateSelectionArgs;
pub use stopping_args::StoppingArgs;

/// Create and manage a single-VM BOSH deployment, as `bosh create-env` does.
///
/// An environment is a manifest with its ops files and variables, a vars store for generated credentials, and
/// a state file that records VM, disks and stemcells. Keep state and vars store: without the state, no
/// command knows the VM and its disks. Without the vars store, create-env stops until you allow it to
/// generate new passwords and certificates, and the jobs cannot be stopped before the VM is replaced or
/// deleted.
#[derive(Debug, Parser)]
#[command(
    name = "monopile",
    bin_name = "monopile",
    disable_version_flag = true,
    version = grammar::VERSION,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 110
)]
pub struct Cli {
    /// Show the version
    // As in upstream, `-v` means `--var` after a command and the version before it.
    #[arg(short = 'v', visible_short_alias = 'V', long, action = clap::ArgAction::Version)]
    version: Option<bool>,

    #[command(flatten)]
    globals: Globals,

    #[command(subcommand)]
    command: Command,
}

impl Cli {
    /// Returns the error for `--json=bosh` if the command cannot print the document of the bosh CLI.
    fn json_error(&self) -> Option<clap::Error> {
        let lacks_bosh_json = self.globals.json == Some(JsonForm::Bosh) && !self.command.has_bosh_json();
        lacks_bosh_json.then(|| {
            let message = match self.command.is_dry_run() {
                true => "--json=bosh does not work with --dry-run".to_owned(),
                false => {
                    let commands = base::text::and_list(scope::BOSH_JSON);
                    format!("--json=bosh works only with {commands}")
                }
            };
            suggestions::error_with_hints(
                clap::error::ErrorKind::ArgumentConflict,
                &message,
                &["use --json".to_owned()],
            )
        })
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create or update an environment
    ///
    /// Compares the manifest with the state and makes the smallest change that works: creates the VM, updates
    /// its jobs in place, or replaces it. `monopile plan` shows the change first. After an error or an
    /// interruption, run the same command again: it continues. To go back, run it with the previous manifest.
    ///
    /// On a terminal, shows the plan and asks before it stops or deletes anything. With -n or --json, or
    /// without a terminal, goes ahead without asking.
    ///
    /// Waits at least 10 seconds for the agent of an existing VM. If that agent stays silent, a changed
    /// manifest replaces the VM without draining its jobs, and an unchanged one is an error (exit code 5).
    ///
    /// Replacing the VM deletes all data outside its persistent disk; the new VM gets that disk. Disks and
    /// stemcells that are no longer in use are deleted, a replaced disk only after its data was copied. One
    /// exception: with --recreate-persistent-disks, a move to another CPI or availability zone copies no
    /// data, and the old disk is deleted with its data.
    CreateEnv(LazyArgs<create_env::CreateEnvArgs>),
    /// Show what create-env would do, and why
    ///
    /// Accepts the options of create-env, except --dry-run and --plan, and validates all inputs. Makes no CPI
    /// call, and changes neither state nor vars store. Works while another run holds the state. Downloads
    /// stemcell and releases that are not in the cache yet.
    Plan(LazyArgs<plan::PlanArgs>),
    /// Delete an environment: VM, disks, stemcells and state
    ///
    /// Deletes everything on record: the VM, all persistent disks with their data, all snapshots and
    /// stemcells, then the state with its kept versions. This cannot be undone: copy data that you need
    /// first, for example with `monopile scp`.
    ///
    /// On a terminal, lists what it will delete and asks. With -n or --json, or without a terminal, deletes
    /// without asking.
    ///
    /// Drains and stops the jobs first. If the agent does not answer, deletes the VM without that. Keeps
    /// manifest, vars store, cache and history. What cannot be deleted stays on record: run the same command
    /// again.
    DeleteEnv(LazyArgs<delete_env::DeleteEnvArgs>),
    /// Stop the jobs of an environment; VM and disks stay
    ///
    /// Runs the pre-stop and drain scripts, then stops the jobs. Deletes nothing. The jobs stay stopped until
    /// `monopile start-env`, recreate, or a create-env that changes something.
    StopEnv(LazyArgs<stop_env::StopEnvArgs>),
    /// Start the jobs of an environment
    ///
    /// Starts the jobs that stop-env stopped. Boots a VM of the CPIs `local` and `qemu` first if its
    /// processes have ended, as after a reboot of this machine.
    StartEnv(LazyArgs<start_env::StartEnvArgs>),
    /// Stop the jobs of an environment and start them again
    ///
    /// Runs the pre-stop and drain scripts before the jobs stop. The VM stays, and nothing is deleted.
    Restart(LazyArgs<restart::RestartArgs>),
    /// Replace the VM; persistent disks keep their data
    ///
    /// Stops the jobs, deletes the VM with all data outside its persistent disk, creates a new one and
    /// attaches that disk to it. The manifest must be the deployed one; create-env deploys changes. After an
    /// error or an interruption, continue with create-env.
    ///
    /// Waits at least 10 seconds for the agent of the old VM. If that agent stays silent, replaces the VM
    /// without draining its jobs.
    ///
    /// On a terminal, shows the plan and asks first. With -n or --json, or without a terminal, goes ahead
    /// without asking.
    Recreate(LazyArgs<recreate::RecreateArgs>),
    /// Show VM, jobs, disks, expiring certificates, last runs
    ///
    /// Asks the agent how the VM and its jobs are, and the CPI whether VM and disks exist. Changes nothing,
    /// and works while another run holds the state.
    ///
    /// On a terminal, shows only certificates that expire within 60 days. --verbose shows all of them, and
    /// the networks.
    Status(LazyArgs<status::StatusArgs>),
    /// List the runs on this machine with their results
    ///
    /// Lists every run that could change something, and each cloud-check, with plan and result. Without an
    /// environment on the command line or in an env file, lists the runs of all environments. Keeps the
    /// newest 100 runs of each environment, also after delete-env.
    History(LazyArgs<history::HistoryArgs>),
    /// Print or save the logs of jobs, agent or system
    ///
    /// Needs the agent, but no sshd on the VM; if the agent does not answer, try --console or `monopile ssh
    /// --private-key`. Works while another run holds the state.
    ///
    /// Printed lines are redacted. Saved logs are not; only their owner can read them.
    Logs(LazyArgs<logs::LogsArgs>),
    /// Log in to the VM as a temporary user
    ///
    /// The agent creates the user for the session, and removes it at the end. Runs the `ssh` of this machine,
    /// with the host key that the agent reports. If the agent does not answer, log in with --private-key.
    /// Works while another run holds the state.
    Ssh(LazyArgs<ssh::SshArgs>),
    /// Copy files to or from the VM
    ///
    /// A path on the VM begins with a colon, such as `:/var/vcap/sys/log`. The name of the instance, such as
    /// `bosh/0`, may precede the colon. Write a local path whose first component contains a colon as `./a:b`.
    ///
    /// Runs the `scp` of this machine, which replaces existing files without asking.
    Scp(LazyArgs<scp::ScpArgs>),
    /// Compare record and IaaS, and repair
    ///
    /// Finds VMs, disks and agents that differ from the record, and asks before each repair. With -n or
    /// --json, or without a terminal, repairs only what --auto or --resolution allows. To look without
    /// changing anything, use --report.
    ///
    /// `recreate_vm` deletes the VM with all data outside its persistent disk. `delete_disk_reference`
    /// forgets a disk that the CPI does not find: the next create-env makes an empty one. `monopile state
    /// backup --restore` brings back a record, but no data.
    #[command(visible_alias = "cck", alias = "cloudcheck")]
    CloudCheck(LazyArgs<cloud_check::CloudCheckArgs>),
    /// Print a manifest with ops and variables
    ///
    /// Leaves variables without a value as they are; with --var-errs, fails. With --vars-store, generates
    /// missing variables that the manifest declares, and saves them there.
    ///
    /// Prints secrets in plain text.
    #[command(visible_alias = "int")]
    Interpolate(LazyArgs<interpolate::InterpolateArgs>),
    /// Print, check and rotate the variables of a vars store
    ///
    /// A vars store is the YAML file in which create-env --vars-store keeps generated passwords, keys and
    /// certificates.
    Vars(LazyArgs<vars::VarsArgs>),
    /// Print the rendered files of a job, without deploying
    ///
    /// Redacts secrets, unless --show-secrets is given. Generates missing variables for the output, and does
    /// not save them.
    Render(LazyArgs<render::RenderArgs>),
    /// Render one ERB template with values from a JSON file
    ///
    /// Needs no manifest. Prints secrets in plain text.
    RenderTemplate(LazyArgs<render_template::RenderTemplateArgs>),
    /// Show the jobs and packages of a release
    ///
    /// Prints name, version and commit of the release, and the digests of its jobs and packages.
    InspectLocalRelease(LazyArgs<inspect_local_release::InspectLocalReleaseArgs>),
    /// Show name, version and format of a stemcell
    ///
    /// Prints them as stemcell.MF in the tarball says.
    InspectLocalStemcell(LazyArgs<inspect_local_stemcell::InspectLocalStemcellArgs>),
    /// Write a changed copy of a stemcell
    ///
    /// Replaces RESULT if it exists. The original stays as it is.
    RepackStemcell(LazyArgs<repack_stemcell::RepackStemcellArgs>),
    /// Convert a release tarball to SHA-1 digests
    ///
    /// Writes a copy with SHA-1 digests, and lists its jobs and packages. Replaces RESULT if it exists.
    #[command(name = "sha1ify-release")]
    Sha1ifyRelease(LazyArgs<redigest_release::RedigestReleaseArgs>),
    /// Convert a release tarball to SHA-256 digests
    ///
    /// Writes a copy with SHA-256 digests, and lists its jobs and packages. Replaces RESULT if it exists.
    #[command(name = "sha2ify-release")]
    Sha2ifyRelease(LazyArgs<redigest_release::RedigestReleaseArgs>),
    /// Show, back up and import the state, and forget records
    ///
    /// The state records which VM, disks, snapshots and stemcells belong to an environment. Keep it: without
    /// it, no command knows what exists. `monopile help state-file` explains its files.
    State(LazyArgs<state::StateCommandArgs>),
    /// Upload a stemcell and keep it until delete-stemcell
    ///
    /// Uploads to every CPI that supports a format of the stemcell: those of the CPI config, and the default
    /// CPI if the environment uses it. create-env uses the upload and never deletes it; delete-stemcell and
    /// delete-env do.
    UploadStemcell(LazyArgs<resources::UploadStemcellArgs>),
    /// List the stemcells on record
    ///
    /// The same as `monopile state show --only stemcells`. Reads only the state, and asks no CPI. Works while
    /// another run holds the state.
    Stemcells(LazyArgs<resources::ViewArgs>),
    /// Delete a stemcell in every CPI that has it
    ///
    /// Deletes only stemcells on record, and refuses if the VM was created from it. `monopile
    /// upload-stemcell` uploads it again.
    ///
    /// On a terminal, asks first. With -n or --json, or without a terminal, deletes without asking.
    DeleteStemcell(LazyArgs<resources::DeleteStemcellArgs>),
    /// Delete a VM by its CID, on record or not
    ///
    /// Deletes the VM at once, without stopping its jobs: run stop-env first. All data outside its persistent
    /// disk is lost. The disk stays on record, and the next create-env attaches it to a new VM. A VM that is
    /// not on record is deleted in the first CPI that has it.
    ///
    /// On a terminal, asks first. With -n or --json, or without a terminal, deletes without asking.
    DeleteVm(LazyArgs<resources::DeleteArgs>),
    /// List the disks on record
    ///
    /// The same as `monopile state show --only disks`. Reads only the state, and asks neither CPI nor agent.
    /// Works while another run holds the state.
    Disks(LazyArgs<resources::ViewArgs>),
    /// Choose the disk that the next create-env attaches
    ///
    /// Only changes the record. The next create-env replaces the VM and attaches the disk. The disk in use
    /// until then keeps its data: attach-disk brings it back, and delete-disk deletes it.
    AttachDisk(LazyArgs<resources::AttachDiskArgs>),
    /// Delete a disk that is not in use
    ///
    /// Deletes a disk on record with all its data. This cannot be undone. Refuses if the disk is in use;
    /// delete-env deletes all disks.
    ///
    /// On a terminal, asks first. With -n or --json, or without a terminal, deletes without asking.
    DeleteDisk(LazyArgs<resources::DeleteArgs>),
    /// List the snapshots on record
    ///
    /// The same as `monopile state show --only snapshots`. Reads only the state, and asks no CPI. Works while
    /// another run holds the state.
    Snapshots(LazyArgs<resources::ViewArgs>),
    /// Take a snapshot of a disk
    ///
    /// The snapshot is as consistent as a disk after a power loss; run stop-env first for a clean one.
    /// delete-env deletes all snapshots.
    TakeSnapshot(LazyArgs<resources::TakeSnapshotArgs>),
    /// Delete a snapshot of a disk
    ///
    /// Deletes a snapshot on record. This cannot be undone. The disk stays as it is.
    ///
    /// On a terminal, asks first. With -n or --json, or without a terminal, deletes without asking.
    DeleteSnapshot(LazyArgs<resources::DeleteArgs>),
    /// Show API version and formats of every CPI
    #[command(hide = true)]
    Cpis(LazyArgs<cpi::ListArgs>),
    /// List, call, check and replay CPIs
    ///
    /// For authors of CPIs, and to see what a CPI answers. These commands need no deployed environment.
    Cpi(LazyArgs<cpi::CpiCommandArgs>),
    /// Trust the env file of this directory
    ///
    /// An env file chooses the CPI, the variables and the hosts that they are sent to. monopile uses one that
    /// it finds, here or in a directory above, only after you have trusted it. Prints what the file runs,
    /// reads and contacts. A changed file must be trusted again; `--env-file FILE` needs no trust.
    Trust(LazyArgs<trust::TrustArgs>),
    /// List, verify, prune, export and import the cache
    ///
    /// The cache holds downloads, compiled packages and installed CPIs of all environments, in --cache-dir.
    Cache(LazyArgs<cache::CacheArgs>),
    /// Manage nodes and volumes of a standalone Ironic
    ///
    /// Commands, options and variables have the names of `openstack baremetal`, and print the same. A node
    /// becomes deployable by `node create`, `port create`, `volume connector create`, `node manage` and `node
    /// provide`.
    Baremetal(LazyArgs<baremetal::BaremetalArgs>),
    /// Write an example that ships with monopile
    ///
    /// Writes a directory with a manifest and all that it needs, and prints the next command. Keeps existing
    /// files: one with other content is an error.
    Example(LazyArgs<example::ExampleArgs>),
    /// Print the completion script of a shell
    Completion(LazyArgs<completion::CompletionArgs>),
    /// Print the version, or ask for a newer release
    ///
    /// With --check, makes one request to the release feed and prints the newest release; changes nothing.
    /// No other command asks the feed.
    Version(LazyArgs<version::VersionArgs>),
}

impl Command {
    fn run(self, session: &Session) -> Result<CommandResult> {
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
            Command::Stemcells(args) => args.0.run(session, ListView::Stemcells),
            Command::DeleteStemcell(args) => args.0.run(session),
            Command::DeleteVm(args) => args.0.run(session, ResourceKind::Vm),
            Command::Disks(args) => args.0.run(session, ListView::Disks),
            Command::AttachDisk(args) => args.0.run(session),
            Command::DeleteDisk(args) => args.0.run(session, ResourceKind::Disk),
            Command::Snapshots(args) => args.0.run(session, ListView::Snapshots),
            Command::TakeSnapshot(args) => args.0.run(session),
            Command::DeleteSnapshot(args) => args.0.run(session, ResourceKind::Snapshot),
            Command::Cpis(args) => args.0.run(session),
            Command::Cpi(args) => args.0.run(session),
            Command::Trust(args) => args.0.run(session),
            Command::Cache(args) => args.0.run(session),
            Command::Baremetal(args) => args.0.run(session),
            Command::Example(args) => args.0.run(session),
            Command::Completion(args) => args.0.run(),
            Command::Version(args) => args.0.run(session),
        }
    }

    fn output_mode(&self) -> OutputMode {
        OutputMode {
            is_stdout_reserved: self.reserves_stdout(),
            shows_progress: self.shows_progress(),
            prints_stages: !self.reserves_stdout() || self.runs_long(),
            may_begin_log: self.changes_environment(),
            ends_by_signal: matches!(
                self,
                Command::Status(_) | Command::Logs(_) | Command::Ssh(_) | Command::Scp(_)
            ),
        }
    }

    /// Returns true if `--json=bosh` can print the document that the bosh CLI prints for the command. Other
    /// commands of the bosh CLI are not supported.
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

    /// Returns true for `create-env --dry-run`, the only form of the command that reserves standard output.
    fn is_dry_run(&self) -> bool {
        matches!(self, Command::CreateEnv(args) if args.0.reserves_stdout())
    }

    /// Returns true if the command can change an environment. Only such a command can begin a log, with
    /// [`Session::begin_log`].
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

    /// Returns true if the command has output of its own, for which standard output is reserved.
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
            | Command::Completion(_)
            | Command::Version(_) => true,
        }
    }

    /// Returns true if the command takes minutes although standard output is reserved.
    fn runs_long(&self) -> bool {
        match self {
            Command::Cpi(cpi) => cpi.0.shows_progress(),
            Command::Cache(cache) => cache.0.shows_progress(),
            Command::CloudCheck(args) => args.0.repairs_without_asking(),
            Command::CreateEnv(_) | Command::Plan(_) => true,
            _ => false,
        }
    }

    /// Returns true if the command shows progress although standard output is reserved.
    fn shows_progress(&self) -> bool {
        match self {
            Command::Cpi(cpi) => cpi.0.shows_progress(),
            Command::Cache(cache) => cache.0.shows_progress(),
            Command::Status(_) | Command::Logs(_) | Command::Ssh(_) | Command::Scp(_) => true,
            Command::CloudCheck(_) | Command::CreateEnv(_) | Command::Plan(_) => true,
            _ => false,
        }
    }
}

/// Returns the grammar of the command line, for completions and documents.
pub fn grammar() -> clap::Command {
    env_file::with_optional_positionals(grammar::for_all_commands())
}

/// Applies an env file to a command (`create-env`) without running it. Returns the programs, files and hosts
/// that it would use, or the error that the command would end with.
pub fn describe_env_file(path: &Path, command: &str) -> Result<String> {
    let words = ["monopile".into(), command.into()];
    env_file::describe(&grammar::for_words(&words), path, command)
}

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    finish::install_panic_hook();
    std::panic::catch_unwind(run).unwrap_or_else(|_| finish::panic_exit_code())
}

/// Answers help, version, completion and internal commands, then parses the command line with its env file
/// and runs the command in a session.
fn run() -> ExitCode {
    let process_args: Vec<OsString> = std::env::args_os().collect();
    match help::help_page(&process_args, Cli::command) {
        Some(Ok(page)) => {
            help::show_page(&page);
            return ExitCode::SUCCESS;
        }
        Some(Err(error)) => {
            return finish::print_clap_error(&error, false);
        }
        None => {}
    }
    let (args, is_help) = help::expand_help_command(process_args);
    // Internal commands come first, before any thread or signal handler.
    if let Some(code) = internal::try_run(&args) {
        return code;
    }
    if let Some(code) = complete::try_answer(&args) {
        return code;
    }
    if let Some(text) = grammar::version_answer(&args) {
        // A closed standard output is not an error.
        let _ = std::io::stdout().write_all(text.as_bytes());
        return ExitCode::SUCCESS;
    }
    let grammar = grammar::for_words(&args).args(globals::ignored_args());
    let grammar = if args.len() > 1 { grammar } else { help::with_first_screen(grammar) };
    let (cli, repeated_args, remarks) = match env_file::parse_command_line(&grammar, &args) {
        CommandLine::Understood(cli, repeated_args, remarks) => (cli, repeated_args, Ok(remarks)),
        CommandLine::Unusable(cli, error) => (cli, RepeatedArgs::default(), Err(error)),
        CommandLine::Refused(error) if is_help && !error.use_stderr() => {
            finish::print_help_page(&error);
            return ExitCode::SUCCESS;
        }
        CommandLine::Refused(error) => {
            let (name, command) = help::named_command(&grammar, &args);
            let line = RefusedCommandLine { args: &args, name: &name, command };
            let error = bosh_only_commands::explain_bosh_only_command(error, line.file().as_deref());
            let error = suggestions::explain(error, &line);
            let is_json = args.iter().any(|arg| arg == "--json" || arg == "--json=lines");
            return finish::print_clap_error(&error, is_json);
        }
    };
    let (name, command) = help::named_command(&grammar, &args);
    if let Some(error) = cli.json_error() {
        return finish::print_clap_error(&error, false);
    }
    let misread_error = suggestions::misread_manifest_error(&args, repeated_args.manifest(), command);
    let repeated_args = repeated_args.with_command_line(&args, command);
    let session = Session::begin(&cli.globals, &cli.command.output_mode(), repeated_args);
    let result = misread_error.map_or(remarks, Err).and_then(|remarks| {
        session.remark(remarks);
        let path = name.split_once(' ').map_or("", |(_, path)| path);
        let has_option = |option: &str| session.has_option(option);
        for warning in scope::warnings_of_options(command, path, has_option) {
            session.reporter.warn(warning);
        }
        // A command that only reads accepts the options of create-env, and refuses the same mistakes.
        let must_be_valid = |option: &str| option == "encrypt_to" && has_option("--encrypt-to");
        encryption::load_keys(&cli.globals, |option| {
            scope::has_effect(option, command, path) || must_be_valid(option)
        })?;
        encryption::current().secrets().for_each(|secret| session.redactor.add(secret));
        cli.command.run(&session)
    });
    finish::finish(&session, result)
}
