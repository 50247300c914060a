//! The console of a VM: a process beside QEMU keeps its last lines in files of bounded size, which errors
//! quote ([`base::console`]).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base::console::{CONSOLE_FILE, PREVIOUS_CONSOLE_FILE};

/// The maximum size of each file, in bytes.
const MAX_FILE_BYTES: u64 = 512 << 10;

/// Copies `input` to the console in `directory` until it ends.
pub(super) fn keep(mut input: impl Read, directory: &Path) -> io::Result<()> {
    let open = || -> io::Result<(File, u64)> {
        let path = directory.join(CONSOLE_FILE);
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    };
    let (mut file, mut size) = open()?;
    let mut chunk = [0; 4096];
    loop {
        let count = match input.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if size + count as u64 > MAX_FILE_BYTES {
            fs::rename(directory.join(CONSOLE_FILE), directory.join(PREVIOUS_CONSOLE_FILE))?;
            (file, size) = open()?;
        }
        // A full file system must not stop the VM, which waits for this process to read.
        if file.write_all(&chunk[..count]).is_ok() {
            size += count as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_bounded_and_the_end_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let line = format!("{}\n", "x".repeat(99));
        let text = format!("{}the end\n", line.repeat(30_000));
        keep(text.as_bytes(), directory.path()).unwrap();
        keep(&b"after a reboot\n"[..], directory.path()).unwrap();
        let sizes: Vec<u64> = [CONSOLE_FILE, PREVIOUS_CONSOLE_FILE]
            .iter()
            .map(|name| fs::metadata(directory.path().join(name)).unwrap().len())
            .collect();
        assert!(sizes.iter().all(|size| *size <= MAX_FILE_BYTES), "{sizes:?}");
        let description = base::console::LastBoot::read(directory.path()).unwrap().describe("vm-1");
        assert!(description.ends_with("the end\n  after a reboot"), "{description}");
    }
}
