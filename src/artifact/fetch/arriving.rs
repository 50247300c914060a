//! Reads a file while it is downloaded.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use parking_lot::{Condvar, Mutex};

/// The part of a download that has arrived.
#[derive(Default)]
pub(super) struct Arrival {
    state: Mutex<ArrivalState>,
    change: Condvar,
}

/// The state of an arrival, which writer and readers share.
#[derive(Default)]
struct ArrivalState {
    /// The number of bytes in the file.
    bytes: u64,
    end: Option<End>,
}

/// The end of an arrival.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The file is complete and its digest is verified.
    Verified,
    /// The download failed, or it began again and replaced bytes that were read.
    Broken,
}

/// Ends an arrival as broken, unless it was verified before.
pub(super) struct BreakOnDrop<'a>(pub(super) &'a Arrival);

impl Drop for BreakOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end_as(End::Broken);
    }
}

impl Arrival {
    /// Records the size of the file. Before the file is truncated, call it with the smaller size, so that no
    /// reader takes replaced bytes for those of the first attempt.
    pub(super) fn set_bytes(&self, bytes: u64) {
        let mut state = self.state.lock();
        if bytes < state.bytes {
            state.end.get_or_insert(End::Broken);
        }
        state.bytes = bytes;
        self.change.notify_all();
    }

    /// Notes that the file is complete and has the expected digest.
    pub(super) fn mark_verified(&self) {
        self.end_as(End::Verified);
    }

    fn end_as(&self, end: End) {
        self.state.lock().end.get_or_insert(end);
        self.change.notify_all();
    }

    /// Waits until the file has bytes after `position`, and returns their number. It is 0 at the end of a
    /// verified file.
    fn wait_for_bytes(&self, position: u64) -> io::Result<u64> {
        let mut state = self.state.lock();
        loop {
            match (state.bytes.saturating_sub(position), state.end) {
                (_, Some(End::Broken)) => return Err(io::Error::other("its download failed or began again")),
                (0, None) => self.change.wait(&mut state),
                (bytes, _) => return Ok(bytes),
            }
        }
    }
}

/// A file that is being downloaded. A read waits for its bytes. The end of the file is read only after its
/// digest was verified; a download that fails or begins again is a read error.
pub struct ArrivingFile<'a> {
    file: File,
    position: u64,
    arrival: &'a Arrival,
}

impl<'a> ArrivingFile<'a> {
    pub(super) fn open(path: &Path, arrival: &'a Arrival) -> io::Result<Self> {
        Ok(ArrivingFile { file: File::open(path)?, position: 0, arrival })
    }
}

impl Read for ArrivingFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available_bytes = self.arrival.wait_for_bytes(self.position)?;
        let length = buffer.len().min(usize::try_from(available_bytes).unwrap_or(usize::MAX));
        let count = self.file.read(&mut buffer[..length])?;
        // The file may have been emptied during the read.
        self.arrival.wait_for_bytes(self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::thread;

    use super::*;

    /// Reads a file of this content while `write` writes it.
    fn read_while(write: impl FnOnce(&mut File, &Arrival)) -> io::Result<Vec<u8>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let arrival = Arrival::default();
        let mut arriving_file = ArrivingFile::open(file.path(), &arrival).unwrap();
        thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut content = Vec::new();
                arriving_file.read_to_end(&mut content).map(|_| content)
            });
            let guard = BreakOnDrop(&arrival);
            write(file.as_file_mut(), &arrival);
            drop(guard);
            reader.join().unwrap()
        })
    }

    #[test]
    fn reads_all_bytes_of_a_verified_file() {
        let content = read_while(|file, arrival| {
            for bytes in 1..=100 {
                file.write_all(b"x").unwrap();
                arrival.set_bytes(bytes);
            }
            arrival.mark_verified();
        });
        assert_eq!(content.unwrap(), [b'x'; 100]);
        assert_eq!(read_while(|_, arrival| arrival.mark_verified()).unwrap(), b"");
    }

    #[test]
    fn file_that_is_not_verified_has_no_end() {
        let error = read_while(|file, arrival| {
            file.write_all(b"x").unwrap();
            arrival.set_bytes(1);
        });
        assert!(error.is_err());
    }

    #[test]
    fn download_that_begins_again_is_a_read_error() {
        let error = read_while(|file, arrival| {
            file.write_all(b"xy").unwrap();
            arrival.set_bytes(2);
            arrival.set_bytes(0);
            arrival.set_bytes(2);
            arrival.mark_verified();
        });
        assert!(error.is_err());
    }
}
