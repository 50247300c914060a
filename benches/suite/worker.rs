//! Work in a separate process, so that its memory is measured alone. The process is this program, started
//! with the name of the work.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use base::redact::Redactor;
use base::secret::Secret;
use base::timing::Clock;
use engine::agent_client::{Agent, AgentEndpoint};
use flate2::bufread::MultiGzDecoder;

use crate::rows::packages;

/// The environment variable that names the work.
const VARIABLE: &str = "MONOPILE_BENCH_WORK";

/// Returns the command that does this work.
pub(crate) fn command(work: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(VARIABLE, work);
    command
}

/// Does the work if this process was started for it.
pub(crate) fn run_if_called() -> Option<ExitCode> {
    let work = std::env::var(VARIABLE).ok()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match (work.as_str(), arguments.as_slice()) {
        ("gunzip", [file]) => gunzip(Path::new(file)),
        ("write", [file, bytes]) => write(Path::new(file), bytes.parse().unwrap(), false),
        ("write-through", [file, bytes]) => write(Path::new(file), bytes.parse().unwrap(), true),
        ("put-blob", [mbus, ca, id, file]) => {
            agent(mbus, ca).put_blob(id, Path::new(file), &mut |_| {}).unwrap()
        }
        ("get-blob", [mbus, ca, id, file]) => {
            agent(mbus, ca).get_blob(id, &mut File::create(file).unwrap()).unwrap();
        }
        ("same-yaml", [one, other]) => {
            let read =
                |file| serde_yaml::from_reader::<_, serde_yaml::Value>(File::open(file).unwrap()).unwrap();
            return Some(if read(one) == read(other) { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        ("release-of-packages", [file, sizes @ ..]) => {
            let sizes: Vec<usize> = sizes.iter().map(|size| size.parse().unwrap()).collect();
            packages::release(sizes[0], sizes[1], sizes[2]).write(Path::new(file));
        }
        other => panic!("no such work: {other:?}"),
    }
    Some(ExitCode::SUCCESS)
}

/// Decompresses like `gzip -dc`, at the speed of zlib-ng.
fn gunzip(file: &Path) {
    let input = io::BufReader::with_capacity(256 << 10, File::open(file).unwrap());
    let mut output = io::stdout().lock();
    let mut decoder = MultiGzDecoder::new(input);
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = io::Read::read(&mut decoder, &mut buffer).unwrap();
        if count == 0 {
            return;
        }
        output.write_all(&buffer[..count]).unwrap();
    }
}

/// Writes `bytes` bytes and does nothing else.
fn write(file: &Path, bytes: u64, syncs: bool) {
    let mut file = File::create(file).unwrap();
    let buffer = vec![0x5a; 256 << 10];
    let mut remaining = bytes;
    while remaining > 0 {
        let count = remaining.min(buffer.len() as u64);
        file.write_all(&buffer[..usize::try_from(count).unwrap()]).unwrap();
        remaining -= count;
    }
    if syncs {
        file.sync_all().unwrap();
    }
}

/// Returns the program's agent client. `ca` is a file.
fn agent(mbus: &str, ca: &str) -> Agent {
    let redactor = Redactor::default();
    let mbus = Secret::new(mbus, &redactor);
    let endpoint = AgentEndpoint::new(&mbus, Some(&std::fs::read_to_string(ca).unwrap()), &redactor).unwrap();
    Agent::new(endpoint, "benches", Arc::new(|| None), Clock::start())
}
