//! Uploads to a shared cache, made by a thread in the background while the run goes on.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::storage::SharedStorage;
use crate::InterruptCheck;

/// The time for which a run waits at its end for uploads. Tests wait less.
pub const END_TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 60_000 });
/// The pause between two checks for the end of the uploads.
const POLL_PAUSE: Duration = Duration::from_millis(20);

/// The content of an object to write.
pub(super) enum UploadContent {
    /// The content of this file.
    File(PathBuf),
    Bytes(Vec<u8>),
}

/// Objects to write in this order. The last one makes the others visible.
pub(super) type Upload = Vec<(String, UploadContent)>;

/// The thread that uploads, and its queue.
pub(super) struct UploadQueue {
    sender: Sender<Upload>,
    /// The number of uploads that have not ended.
    unfinished_count: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl UploadQueue {
    /// Starts the thread. It passes each upload to `perform`.
    pub(super) fn start(perform: impl Fn(Upload) + Send + 'static) -> io::Result<Self> {
        let (sender, uploads) = mpsc::channel::<Upload>();
        let unfinished_count = Arc::<AtomicUsize>::default();
        let unfinished_of_thread = Arc::clone(&unfinished_count);
        let thread = thread::Builder::new().name("cache-uploads".into()).spawn(move || {
            for upload in uploads {
                perform(upload);
                unfinished_of_thread.fetch_sub(1, Ordering::SeqCst);
            }
        })?;
        Ok(UploadQueue { sender, unfinished_count, thread })
    }

    /// Adds an upload to the queue.
    pub(super) fn add(&self, upload: Upload) {
        self.unfinished_count.fetch_add(1, Ordering::SeqCst);
        // The thread ends after the sender. Sending fails only after a panic of the thread, which was
        // reported when it happened.
        let _ = self.sender.send(upload);
    }

    /// Returns the number of uploads that have not ended.
    pub(super) fn unfinished_count(&self) -> usize {
        self.unfinished_count.load(Ordering::SeqCst)
    }

    /// Waits for the uploads up to `timeout`, or until `interrupt_check` returns an error. Calls `cancel` if
    /// uploads are left then, and returns their number.
    pub(super) fn finish(
        self,
        timeout: Duration,
        interrupt_check: &InterruptCheck,
        cancel: impl Fn(),
    ) -> usize {
        let UploadQueue { sender, unfinished_count, thread } = self;
        drop(sender);
        let end = Instant::now() + timeout;
        while !thread.is_finished() && Instant::now() < end && interrupt_check().is_ok() {
            thread::sleep(POLL_PAUSE);
        }
        let unfinished_count = unfinished_count.load(Ordering::SeqCst);
        if !thread.is_finished() {
            cancel();
        }
        // A panic was reported when it happened, and must not end the run.
        let _ = thread.join();
        unfinished_count
    }
}

/// Writes the objects of an upload. Ends when `interrupt_check` returns an error.
pub(super) fn perform(
    upload: Upload,
    storage: &dyn SharedStorage,
    interrupt_check: &InterruptCheck,
) -> io::Result<()> {
    for (object, content) in upload {
        match content {
            UploadContent::File(path) => {
                let file = File::open(&path)?;
                let size = file.metadata()?.len();
                storage.write(&object, &mut InterruptedReader { inner: file, interrupt_check }, size)?;
            }
            UploadContent::Bytes(bytes) => {
                storage.write(&object, &mut bytes.as_slice(), bytes.len() as u64)?
            }
        }
    }
    Ok(())
}

/// A reader that fails when `interrupt_check` returns an error.
struct InterruptedReader<'a> {
    inner: File,
    interrupt_check: &'a InterruptCheck,
}

impl Read for InterruptedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (self.interrupt_check)().map_err(io::Error::other)?;
        self.inner.read(buffer)
    }
}
