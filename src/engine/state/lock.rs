//! One run at a time: an OS lock on `<state>.lock` that dies with its holder, or a lease where several
//! machines share the state.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::storage::Lease;
use base::files::Locked;
use base::files::durable::give_file_to_owner_of;
use base::{Error, ErrorKind, Result};

/// Who holds a lock, as written into the lock file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Host name.
    pub host: String,
    /// The user, by name where it has one here.
    #[serde(default)]
    pub user: String,
    /// The command that runs (`create-env`).
    pub command: String,
    /// When it began, RFC 3339 UTC.
    pub since: String,
}

impl Holder {
    /// This process, running `command` from now on.
    pub fn this_process(command: &str) -> Self {
        Holder {
            pid: std::process::id(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            user: user(),
            command: command.to_owned(),
            since: base::encoding::now(),
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Holder { pid, host, user, command, since } = self;
        let by = if user.is_empty() { String::new() } else { format!("{user}@") };
        write!(f, "`{command}` on {by}{host} (pid {pid}, since {since})")
    }
}

/// Whoever runs this.
fn user() -> String {
    let id = rustix::process::getuid().as_raw().to_string();
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, uid) = (fields.next()?, fields.next()?, fields.next()?);
        (uid == id).then(|| name.to_owned())
    });
    named.unwrap_or(id)
}

/// Decides what to do about a lock that is held: gets the error that says by whom.
pub type Waiting<'w> = dyn FnMut(Error) -> Result<()> + 'w;

/// The lock, held until dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "what is held is only held")]
pub(super) enum Lock {
    /// Of a directory.
    File(FileLock),
    /// Of a bucket.
    Lease(Lease),
}

impl Lock {
    /// Whose it was who did not give it back, as it was taken over.
    pub(super) fn taken_over(&self) -> Option<&str> {
        match self {
            Lock::File(_) => None,
            Lock::Lease(lease) => lease.taken_over.as_deref(),
        }
    }
}

/// The lock of a state file, held until dropped.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: Locked,
    path: PathBuf,
}

impl FileLock {
    /// Takes the lock at `path`, which belongs to the owner of `state`. While another run holds it, `held` hears the error that says who, and passes
    /// it on or returns to have it tried again.
    pub(super) fn take(path: &Path, state: &Path, holder: &Holder, held: &mut Waiting<'_>) -> Result<Self> {
        let path = path.to_owned();
        let failed = |error| {
            Error::io(format!("locking '{}'", path.display()), error).with_owner_hint(&path, "--state FILE")
        };
        loop {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&path).map_err(failed)?;
            give_file_to_owner_of(&file, state).map_err(failed)?;
            let mut file = Locked::from(file);
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    held(in_use_by(&path, &mut file))?;
                    continue;
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // The holder before us removed the file when it was done: what we locked is no longer the lock.
            let ours = file.metadata().map_err(failed)?;
            if !std::fs::metadata(&path)
                .is_ok_and(|current| current.ino() == ours.ino() && current.dev() == ours.dev())
            {
                continue;
            }
            let text = serde_json::to_vec(holder).unwrap_or_default();
            file.set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| file.write_all(&text))
                .map_err(failed)?;
            return Ok(FileLock { _file: file, path });
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Removed while still held, so that nobody can lock a file that is about to vanish; see `take`.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The error for a state that another run holds.
pub(super) fn in_use(holder: Option<&Holder>, when: String) -> Error {
    let who = holder.map_or_else(|| "another run".to_owned(), Holder::to_string);
    Error::new(ErrorKind::Locked, format!("{who} is using this environment"))
        .with_hint(when)
        .with_hint("--wait-for-lock DURATION waits for it")
}

fn in_use_by(path: &Path, file: &mut File) -> Error {
    let when = format!("wait until it is done; the lock '{}' goes away with its holder", path.display());
    in_use(holder_of(file).as_ref(), when)
}

/// Who wrote itself into the lock file. A holder that has just taken the lock may not have got to it yet.
fn holder_of(file: &mut File) -> Option<Holder> {
    for _ in 0..20 {
        let mut text = String::new();
        let read = file.rewind().and_then(|()| Read::take(&mut *file, 4096).read_to_string(&mut text));
        if let (Ok(_), Ok(holder)) = (read, serde_json::from_str(&text)) {
            return Some(holder);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    None
}
