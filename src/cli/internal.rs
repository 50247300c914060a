//! Internal commands that monopile starts itself: built-in CPIs, the first process of a VM, the keeper of its
//! console, the agent, programs in a userland, changes of owners, and SSH proxies. They are hidden from
//! operators. They start before any thread or signal handler, because entering namespaces requires that.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::{logging, paths};
use base::{Error, Result, exit_code, subordinate_ids};
use builtin::agent::Platform;
use engine::cpi::userland;
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
    /// Run a built-in CPI for one request on standard input
    CpiExec {
        /// Name of the CPI
        name: String,
        /// Configuration of the CPI
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Connect through a proxy on standard input and output, as `ProxyCommand` of ssh
    SshProxy {
        /// File with the URL of the proxy
        proxy: PathBuf,
        /// Target host
        host: String,
        /// Target port
        port: u16,
    },
    /// Guard the lease of a shared state after its run was killed
    StateKeeper,
    /// Run as the first process of a `local` VM
    #[command(disable_help_flag = true)]
    VmBoot {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Keep the console of a `qemu` VM, which is standard input
    VmConsole {
        /// Directory of the VM
        #[arg(long, value_name = "DIR")]
        vm_dir: PathBuf,
    },
    /// Run a program in the userland of a CPI
    UserlandExec {
        /// Description of the userland
        #[arg(long, value_name = "FILE")]
        layout: PathBuf,
        /// Run as the first process of its namespaces
        #[arg(long)]
        init: bool,
        /// The program with its arguments
        #[arg(last = true)]
        program: Vec<OsString>,
    },
    /// Give the files of a tree to the user of this process
    TakeFiles {
        /// The tree
        #[arg(value_name = "PATH")]
        root: PathBuf,
    },
    /// Run the agent of a VM
    Agent {
        /// Set up network and disks, in a VM with a kernel of its own
        #[arg(long)]
        guest: bool,
        /// Settings of the agent
        #[arg(long, value_name = "FILE")]
        settings: PathBuf,
        /// Base directory, `/var/vcap` inside a VM
        #[arg(long, value_name = "DIR")]
        base: PathBuf,
    },
}

const COMMAND_NAMES: [&str; 8] = [
    "cpi-exec",
    "ssh-proxy",
    "state-keeper",
    "vm-boot",
    "vm-console",
    userland::COMMAND,
    subordinate_ids::COMMAND,
    "agent",
];

/// Runs the internal command in `args`, if any. `args` begin with the program's name.
pub(super) fn try_run(args: &[OsString]) -> Option<ExitCode> {
    let name = args.get(1)?.to_str()?;
    if !COMMAND_NAMES.contains(&name) {
        return None;
    }
    let command = match Internal::try_parse_from(args) {
        Ok(internal) => internal.command,
        Err(error) => return Some(super::finish::print_clap_error(&error, false)),
    };
    logging::install_internal();
    Some(match run(command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // If standard error is closed, the exit code still shows the failure.
            let _ = writeln!(std::io::stderr(), "error: {}", error.chain().join(": "));
            ExitCode::from(error.kind().exit_code())
        }
    })
}

/// Runs a command, and returns its exit status.
fn run(command: InternalCommand) -> Result<u8> {
    match command {
        InternalCommand::UserlandExec { layout, init, program } => {
            return userland::run(&layout, init, &program, &paths::executable()?);
        }
        InternalCommand::CpiExec { name, config } => match BuiltinCpi::named(&name) {
            Some(BuiltinCpi::Local) => builtin::local::run(
                &config,
                &paths::executable()?,
                std::io::stdin().lock(),
                std::io::stdout().lock(),
                std::io::stderr(),
            ),
            Some(BuiltinCpi::Qemu) => builtin::qemu::run(
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
                .with_hint(format!("name one of the built-in CPIs: {}", BuiltinCpi::names(", ")))),
        },
        InternalCommand::SshProxy { proxy, host, port } => {
            let url = std::fs::read_to_string(&proxy)
                .map_err(|error| Error::io(format!("reading '{}'", proxy.display()), error))?;
            artifact::relay(url.trim(), &host, port, std::io::stdin(), std::io::stdout())
        }
        InternalCommand::StateKeeper => state::run_keeper(),
        InternalCommand::VmBoot { args } => builtin::local::boot::run(args),
        InternalCommand::VmConsole { vm_dir } => {
            builtin::qemu::keep_console(std::io::stdin().lock(), &vm_dir)
        }
        InternalCommand::TakeFiles { root } => subordinate_ids::take_tree(&root).map_err(|error| {
            Error::io(format!("changing the owners of files in '{}'", root.display()), error)
        }),
        InternalCommand::Agent { guest, settings, base } => {
            let platform = if guest { Platform::Guest } else { Platform::Namespaces };
            builtin::agent::run(platform, &settings, &base)
        }
    }
    .map(|()| exit_code::SUCCESS)
}
