//! Processes long byte streams on several threads: while one part is inflated, the next one is read and
//! hashed, and the previous one is hashed and written.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

use super::digest::Hasher;

/// Size in bytes of a chunk that is sent from thread to thread.
const CHUNK_BYTES: usize = 256 << 10;
/// Number of chunks that may wait between two threads. It bounds the memory.
const MAX_WAITING_CHUNKS: usize = 8;

/// The minimum size in bytes at which a separate thread saves time.
pub(super) const MIN_THREAD_BYTES: u64 = 1 << 20;

/// A reader whose input is read ahead and hashed on a thread of its own.
pub(super) struct ReadAhead<'scope, R> {
    full_chunk_receiver: Receiver<io::Result<Vec<u8>>>,
    /// Returns chunks to the thread, which fills them again.
    empty_chunk_sender: Sender<Vec<u8>>,
    /// The chunk that is being consumed.
    chunk: Vec<u8>,
    /// The number of bytes of `chunk` that were consumed.
    position: usize,
    thread: ScopedJoinHandle<'scope, (R, Hasher)>,
}

impl<'scope, R: Read + Send + 'scope> ReadAhead<'scope, R> {
    /// Starts the thread, which adds the bytes of `input` to `hasher`.
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        mut input: R,
        mut hasher: Hasher,
    ) -> io::Result<Self> {
        let (full_chunk_sender, full_chunk_receiver) = sync_channel(MAX_WAITING_CHUNKS);
        let (empty_chunk_sender, empty_chunk_receiver) = channel();
        let thread = Builder::new().spawn_scoped(scope, move || {
            read_chunks(&mut input, &mut hasher, &full_chunk_sender, &empty_chunk_receiver);
            (input, hasher)
        })?;
        Ok(ReadAhead { full_chunk_receiver, empty_chunk_sender, chunk: Vec::new(), position: 0, thread })
    }

    /// Stops the thread and returns the input and the hasher. Both are at the same position, at or after the
    /// last byte consumed.
    pub(super) fn stop(self) -> (R, Hasher) {
        drop(self.full_chunk_receiver);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Reads and hashes the input, and sends it in chunks, until its end or until the receiver is dropped.
fn read_chunks(
    input: &mut impl Read,
    hasher: &mut Hasher,
    full_chunk_sender: &SyncSender<io::Result<Vec<u8>>>,
    empty_chunk_receiver: &Receiver<Vec<u8>>,
) {
    loop {
        let mut chunk = empty_chunk_receiver.try_recv().unwrap_or_default();
        chunk.resize(CHUNK_BYTES, 0);
        let send_result = match input.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => {
                chunk.truncate(count);
                hasher.update(&chunk);
                full_chunk_sender.send(Ok(chunk))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let _ = full_chunk_sender.send(Err(error));
                return;
            }
        };
        if send_result.is_err() {
            // The receiver was dropped by `stop`.
            return;
        }
    }
}

impl<R> BufRead for ReadAhead<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.position == self.chunk.len() {
            // At the end of the input the thread drops its sender.
            let next_chunk = self.full_chunk_receiver.recv().unwrap_or_else(|_| Ok(Vec::new()))?;
            self.position = 0;
            // The thread may have ended, and then the chunk is not needed.
            let _ = self.empty_chunk_sender.send(std::mem::replace(&mut self.chunk, next_chunk));
        }
        Ok(self.chunk.get(self.position..).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.position = self.chunk.len().min(self.position + count);
    }
}

impl<R> Read for ReadAhead<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

/// The side on which [`copy`] failed, with its error.
pub(super) enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies `data` to `file` and adds it to `hasher`, which is returned. If `size` is at least
/// [`MIN_THREAD_BYTES`], a separate thread hashes and writes. `size` is only an estimate.
pub(super) fn copy(
    data: &mut impl Read,
    size: u64,
    file: &File,
    hasher: Option<Hasher>,
) -> Result<Option<Hasher>, CopyError> {
    if size < MIN_THREAD_BYTES {
        return copy_on_this_thread(data, file, hasher);
    }
    scope(|scope| {
        let (full_chunk_sender, full_chunk_receiver) = sync_channel::<Vec<u8>>(MAX_WAITING_CHUNKS);
        let (empty_chunk_sender, empty_chunk_receiver) = channel();
        let write = move || -> io::Result<Option<Hasher>> {
            let (mut file, mut hasher) = (file, hasher);
            for chunk in full_chunk_receiver {
                if let Some(hasher) = &mut hasher {
                    hasher.update(&chunk);
                }
                file.write_all(&chunk)?;
                let _ = empty_chunk_sender.send(chunk);
            }
            Ok(hasher)
        };
        let writer = Builder::new().spawn_scoped(scope, write).map_err(CopyError::Write)?;
        let read_result = loop {
            let mut chunk = empty_chunk_receiver.try_recv().unwrap_or_default();
            chunk.resize(CHUNK_BYTES, 0);
            match fill(data, &mut chunk) {
                Ok(0) => break Ok(()),
                Ok(count) => chunk.truncate(count),
                Err(error) => break Err(error),
            }
            if full_chunk_sender.send(chunk).is_err() {
                // Writing failed; the error is returned below.
                break Ok(());
            }
        };
        drop(full_chunk_sender);
        let write_result = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        read_result.map_err(CopyError::Read)?;
        write_result.map_err(CopyError::Write)
    })
}

fn copy_on_this_thread(
    data: &mut impl Read,
    mut file: &File,
    mut hasher: Option<Hasher>,
) -> Result<Option<Hasher>, CopyError> {
    let mut buffer = [0; 64 << 10];
    loop {
        let count = fill(data, &mut buffer).map_err(CopyError::Read)?;
        if count == 0 {
            return Ok(hasher);
        }
        if let Some(hasher) = &mut hasher {
            hasher.update(&buffer[..count]);
        }
        file.write_all(&buffer[..count]).map_err(CopyError::Write)?;
    }
}

/// Reads until `buffer` is full or the data ends. Returns the number of bytes read.
fn fill(data: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match data.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::super::digest::{Algorithm, Digest};
    use super::*;

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|index| (index / 7 % 251) as u8).collect()
    }

    /// A reader that returns irregular amounts and is interrupted sometimes. With `fails` it ends with an
    /// error.
    struct Uneven<'b> {
        rest: &'b [u8],
        turn: usize,
        fails: bool,
    }

    impl Read for Uneven<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.turn += 1;
            if self.turn.is_multiple_of(5) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if self.rest.is_empty() && self.fails {
                return Err(io::Error::other("broken"));
            }
            let count = buffer.len().min(1 + self.turn * 997 % 70_000);
            self.rest.read(&mut buffer[..count])
        }
    }

    #[test]
    fn read_ahead_returns_and_hashes_all_bytes() {
        let all = bytes(5_000_000);
        scope(|scope| {
            let input = Uneven { rest: &all, turn: 0, fails: false };
            let mut read_ahead = ReadAhead::start(scope, input, Hasher::new(&[Algorithm::Sha1])).unwrap();
            let mut read = Vec::new();
            read_ahead.read_to_end(&mut read).unwrap();
            assert!(read == all);
            assert_eq!(read_ahead.stop().1.finish(), Digest::compute(&all, &[Algorithm::Sha1]));
        });
    }

    #[test]
    fn stopped_reader_returns_the_rest_of_its_input() {
        let all = bytes(9_000_000);
        scope(|scope| {
            let input = Uneven { rest: &all, turn: 0, fails: false };
            let mut read_ahead = ReadAhead::start(scope, input, Hasher::new(&[Algorithm::Sha1])).unwrap();
            read_ahead.read_exact(&mut [0; 10]).unwrap();
            let (mut rest, mut hasher) = read_ahead.stop();
            assert!(!rest.rest.is_empty(), "reading ahead has no bound");
            io::copy(&mut rest, &mut hasher).unwrap();
            assert_eq!(hasher.finish(), Digest::compute(&all, &[Algorithm::Sha1]));
        });
    }

    #[test]
    fn read_error_comes_after_the_bytes_before_it() {
        let all = bytes(600_000);
        scope(|scope| {
            let input = Uneven { rest: &all, turn: 0, fails: true };
            let mut read_ahead = ReadAhead::start(scope, input, Hasher::new(&[])).unwrap();
            let mut read = Vec::new();
            assert_eq!(read_ahead.read_to_end(&mut read).unwrap_err().to_string(), "broken");
            assert!(read == all);
        });
    }

    #[test]
    fn copy_of_any_size_is_complete_and_hashed() {
        for count in [0, 1, 70_000, MIN_THREAD_BYTES as usize, 5_000_001] {
            let all = bytes(count);
            let mut file = tempfile::tempfile().unwrap();
            let mut data = Uneven { rest: &all, turn: 0, fails: false };
            let hasher = Some(Hasher::new(&[Algorithm::Sha1]));
            let Ok(Some(hasher)) = copy(&mut data, count as u64, &file, hasher) else { panic!("{count}") };
            assert_eq!(hasher.finish(), Digest::compute(&all, &[Algorithm::Sha1]));
            let mut content = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut content).unwrap();
            assert!(content == all, "{count}");
        }
    }

    #[test]
    fn copy_error_tells_reading_from_writing() {
        for size in [10, MIN_THREAD_BYTES * 5] {
            let all = bytes(size as usize);
            let file = tempfile::tempfile().unwrap();
            let mut data = Uneven { rest: &all, turn: 0, fails: true };
            assert!(matches!(copy(&mut data, size, &file, None), Err(CopyError::Read(_))), "{size}");
            let full = File::options().write(true).open("/dev/full").unwrap();
            let mut data = Uneven { rest: &all, turn: 0, fails: false };
            assert!(matches!(copy(&mut data, size, &full, None), Err(CopyError::Write(_))), "{size}");
        }
    }
}
