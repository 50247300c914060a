//! `logs --console`: prints or follows the console of a VM whose CPI keeps it on this machine. Needs neither
//! the agent nor the CPI.

use std::io::{self, BufReader, Read};
use std::path::PathBuf;
use std::time::Duration;

use super::lines::LineSplitter;
use super::logs::{FOLLOWED_LINES, printable_line};
use super::read_state;
use crate::cpi_set::{self, Cpis, OwnedCpiInputs};
use crate::deploy::boot;
use crate::prepare;
use crate::protocol::BuiltinCpi;
use crate::record_commands;
use crate::run_context::{RunContext, signals};
use crate::state::VmHandle;
use base::console::Console;
use base::text::shell_word;
use base::{Error, Result};
use erb::RendererChoice;
use manifest::{Inputs, cpi_label};

/// The number of lines that are printed if the request has none and does not follow.
const PRINTED_LINES: usize = 100;
/// The number of printed lines between two checks for signals.
const LINES_BETWEEN_SIGNAL_CHECKS: u64 = 256;
/// The pause between two looks at a console that is followed.
const FOLLOW_PAUSE: Duration = Duration::from_millis(200);

/// The request of `logs --console`.
#[derive(Debug, Clone)]
pub struct ConsoleRequest {
    /// The manifest, its ops files and variables.
    pub inputs: Inputs,
    /// The number of last lines.
    pub lines: Option<usize>,
    /// Continue with new lines until a signal arrives or the VM is deleted.
    pub follow: bool,
}

/// Prints the last lines of the console, redacted.
pub fn print_console(request: &ConsoleRequest, run: &RunContext, print: &mut dyn FnMut(&str)) -> Result<()> {
    let lines = request.lines.unwrap_or(if request.follow { FOLLOWED_LINES } else { PRINTED_LINES });
    let (vm, path) = find_vm_directory(run, &request.inputs)?;
    let read_error =
        |error: io::Error| Error::io(format!("reading the console in '{}'", path.display()), error);
    let console = Console::open(&path).map_err(read_error)?.ok_or_else(|| {
        Error::failure(format!("VM {vm} has no console in '{}'", path.display()))
            .with_hint("see whether the VM exists: `monopile status MANIFEST`")
    })?;
    let console = console.last_lines(lines).map_err(read_error)?;
    let mut line_count = 0_u64;
    let mut use_line = |line: &[u8]| {
        print(&printable_line(run, line));
        line_count += 1;
        if line_count.is_multiple_of(LINES_BETWEEN_SIGNAL_CHECKS) {
            signals::check_may_continue(run)
        } else {
            Ok(())
        }
    };
    let mut splitter = LineSplitter::default();
    if request.follow {
        let mut reader = BufReader::new(console);
        loop {
            match splitter.read(&mut reader, read_error, &mut use_line) {
                Ok(()) => {}
                Err(_) if run.signal().is_some() => break,
                Err(error) => return Err(error),
            }
            if reader.get_ref().is_deleted() {
                run.reporter.note(format!("VM {vm} was deleted"));
                break;
            }
            // A signal is the regular end.
            if signals::pause(run, FOLLOW_PAUSE).is_err() {
                break;
            }
        }
    } else {
        // A VM may write faster than lines are printed.
        let bytes = console.bytes_at_open();
        splitter.read(&mut BufReader::new(console.take(bytes)), read_error, &mut use_line)?;
    }
    splitter.finish(&mut use_line)
}

/// Returns the VM on record and its directory. Fails if its CPI keeps no console on this machine.
fn find_vm_directory(run: &RunContext, inputs: &Inputs) -> Result<(VmHandle, PathBuf)> {
    let state = read_state(run)?;
    let manifest = prepare::load_deployed(run, inputs, &state)?;
    let config = manifest.cpis()?;
    let (state, _) = cpi_set::apply_migrated_from(config.as_ref(), &state)?;
    let vm = record_commands::vm_on_record(run, &state)?;
    let builtin = boot::builtin_cpi(&vm, &manifest)?;
    // The releases of other CPIs are not opened.
    if !builtin.is_some_and(BuiltinCpi::keeps_vms_here) {
        return Err(no_console_error(&vm, builtin));
    }
    let preparing = run.reporter.begin_stage("Preparing");
    let cpi_inputs = OwnedCpiInputs::open(run, inputs, RendererChoice::default(), &manifest, &preparing)?;
    let cpis = Cpis::find(run, cpi_inputs.borrowed(), &state, None)?;
    let directory = cpis.checked_vm_directory(&vm)?;
    preparing.finish();
    match directory {
        Some(directory) => Ok((vm, directory)),
        None => Err(no_console_error(&vm, builtin)),
    }
}

/// Returns the error for a VM whose CPI keeps no console on this machine.
fn no_console_error(vm: &VmHandle, builtin: Option<BuiltinCpi>) -> Error {
    let (name, cid) = (cpi_label(vm.cpi()), &vm.cid);
    let error = Error::invalid(format!("{name} keeps no console of VM '{cid}' on this machine (--console)"));
    let cid = shell_word(cid.as_str());
    match builtin {
        Some(BuiltinCpi::Ironic) => error.with_hint(format!(
            "look at it through the BMC of the machine, whose UUID is the `node_uuid` of `monopile baremetal \
             allocation show {cid}`"
        )),
        _ => error.with_hint(format!(
            "look at it in the IaaS, for example with `openstack console log show {cid}` or `aws ec2 \
             get-console-output --instance-id {cid}`"
        )),
    }
}
