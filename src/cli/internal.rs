//! What monopile starts of itself: the built-in CPIs, a VM's first process, the agent, ssh's way through a proxy. These are not for
//! people, so they stand outside the documented grammar; they start before anything makes a thread or
//! installs a signal handler, because entering namespaces needs a process without either.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::{logging, paths};
use base::{Error, Result};
use engine::protocol::BuiltinCpi;
use engine::state;

#[derive(Debug, Parser)]
#[command(name = "monopile")]
struct Internal {
    #[command(subcommand)]
    command: InternalCommand,
}

#[derive(Debug, Subcommand)]
enum InternalCommand {
    /// A built-in CPI: one request on standard input, its answer on standard output, its log on standard error
    CpiExec {
        /// Which
        name: String,
        /// The CPI's configuration
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// A connection through a proxy, on standard input and output: what ssh runs as its `ProxyCommand`
    SshProxy {
        /// A file with the proxy's URL
        proxy: PathBuf,
        /// Where to
        host: String,
        /// Where to
        port: u16,
    },
    /// What stays behind when a run on a shared state is killed
    StateKeeper,
    /// The first process of a `local` VM
    #[command(disable_help_flag = true)]
    VmBoot {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// The agent of a `local` VM
    Agent {
        /// Its settings
        #[arg(long, value_name = "FILE")]
        settings: PathBuf,
        /// Its base directory, `/var/vcap` inside a VM
        #[arg(long, value_name = "DIR")]
        base: PathBuf,
    },
}

const NAMES: [&str; 5] = ["cpi-exec", "ssh-proxy", "state-keeper", "vm-boot", "agent"];

/// Runs the internal command that `args` (with the program's name first) ask for, if they do.
pub(super) fn try_run(args: &[OsString]) -> Option<ExitCode> {
    let name = args.get(1)?.to_str()?;
    if !NAMES.contains(&name) {
        return None;
    }
    let command = match Internal::try_parse_from(args) {
        Ok(internal) => internal.command,
        Err(error) => return Some(super::finish::usage(&error, false)),
    };
    logging::install_internal();
    Some(match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Whoever started this reads standard error; if it is closed, the code still tells.
            let _ = writeln!(std::io::stderr(), "error: {}", error.chain().join(": "));
            ExitCode::from(error.kind().exit_code())
        }
    })
}

fn run(command: InternalCommand) -> Result<()> {
    match command {
        InternalCommand::CpiExec { name, config } => match BuiltinCpi::named(&name) {
            Some(BuiltinCpi::Local) => builtin::local::run(
                &config,
                &paths::executable()?,
                std::io::stdin().lock(),
                std::io::stdout().lock(),
                std::io::stderr(),
            ),
            Some(BuiltinCpi::Ironic) => builtin::ironic::run(
                &config,
                std::io::stdin().lock(),
                std::io::stdout().lock(),
                std::io::stderr(),
            ),
            None => Err(Error::usage(format!("there is no built-in CPI '{name}'"))
                .with_hint(format!("the built-in CPIs are: {}", BuiltinCpi::names(", ")))),
        },
        InternalCommand::SshProxy { proxy, host, port } => {
            let url = std::fs::read_to_string(&proxy)
                .map_err(|error| Error::io(format!("reading '{}'", proxy.display()), error))?;
            artifact::relay(url.trim(), &host, port, std::io::stdin(), std::io::stdout())
        }
        InternalCommand::StateKeeper => state::keep(),
        InternalCommand::VmBoot { args } => builtin::local::boot::run(args),
        InternalCommand::Agent { settings, base } => builtin::agent::run(&settings, &base),
    }
}
