//! The lock of a state: an OS lock on `<state>.lock` that ends with its process, or a lease for a state that
//! several machines share.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::storage::{Lease, other_state_option};
use base::files::durable::give_file_to_owner_of;
use base::files::{UnlockOnDrop, is_same_file};
use base::{Error, ErrorKind, Result};

/// The holder of a lock, as written into the lock file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Host name.
    pub host: String,
    /// The name of the user, or the user id if this machine has no name for it.
    #[serde(default)]
    pub user: String,
    /// The running command, such as `create-env`.
    pub command: String,
    /// The time at which it began, RFC 3339 UTC.
    #[serde(rename = "since")]
    pub held_since: String,
    /// True while it waits for an answer of the operator.
    #[serde(default, rename = "prompting", skip_serializing_if = "std::ops::Not::not")]
    pub is_prompting: bool,
}

impl Holder {
    /// Describes this process as running `command` from now on.
    pub fn this_process(command: &str) -> Self {
        Holder {
            pid: std::process::id(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            user: user(),
            command: command.to_owned(),
            held_since: base::encoding::now(),
            is_prompting: false,
        }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Holder { pid, host, user, command, held_since, .. } = self;
        let user_prefix = if user.is_empty() { String::new() } else { format!("{user}@") };
        write!(f, "`{command}` on {user_prefix}{host} (pid {pid}, since {held_since})")
    }
}

/// Returns the name of the user of this process, or its user id.
fn user() -> String {
    let id = rustix::process::getuid().as_raw().to_string();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user_name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, uid) = (fields.next()?, fields.next()?, fields.next()?);
        (uid == id).then(|| name.to_owned())
    });
    user_name.unwrap_or(id)
}

/// Decides whether to try again while another run has the lock. Gets the error that names the holder; returns
/// `Ok` to try again, or the error to give up.
pub type LockConflictHandler<'w> = dyn FnMut(Error) -> Result<()> + 'w;

/// The lock, held until dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "held only for its `Drop`")]
pub(super) enum StateLock {
    /// The lock of a state in a directory.
    File(FileLock),
    /// The lease of a state in a bucket.
    Lease(Lease),
}

impl StateLock {
    /// Describes the earlier holder, if this run took over an expired lease.
    pub(super) fn describe_previous_holder(&self) -> Option<&str> {
        match self {
            StateLock::File(_) => None,
            StateLock::Lease(lease) => lease.previous_holder.as_deref(),
        }
    }
}

/// The lock of a state file, held until dropped.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: UnlockOnDrop,
    lock_file: HeldLockFile,
}

/// A lock file that this run holds.
#[derive(Debug, Clone)]
pub(super) struct HeldLockFile {
    path: PathBuf,
    /// The device and inode of the locked file.
    file_id: (u64, u64),
}

impl HeldLockFile {
    /// Returns true if the path still leads to the locked file.
    fn is_in_place(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.file_id)
    }

    /// Fails if the lock file was removed or replaced, so another run may have taken the lock.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_in_place() {
            return Ok(());
        }
        let path = self.path.display();
        Err(Error::new(
            ErrorKind::Locked,
            format!(
                "the lock '{path}' was removed during this run, so another run may be using the environment"
            ),
        )
        .with_note("this run stops here; do not delete the lock file: the run that created it removes it")
        .with_rerun_hint(
            "wait until no other run works on this environment, then run the same command again: it reads \
             the answers of open calls",
        ))
    }
}

impl FileLock {
    /// Takes the lock at `path`, and gives the file the owner of `state`. While another run holds it, calls
    /// `on_conflict` with the error that names the holder, and tries again if `on_conflict` returns `Ok`.
    pub(super) fn take(
        path: &Path,
        state: &Path,
        holder: &Holder,
        on_conflict: &mut LockConflictHandler<'_>,
    ) -> Result<Self> {
        let path = path.to_owned();
        let option = other_state_option(state);
        let lock_error = |error: std::io::Error| {
            Error::failure(format!("the state '{}' cannot be locked", state.display()))
                .with_source(error)
                .with_path_hint(&path, option)
        };
        loop {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&path).map_err(lock_error)?;
            give_file_to_owner_of(&file, state).map_err(lock_error)?;
            let mut file = UnlockOnDrop::from(file);
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    on_conflict(in_use_by_error(&path, &mut file))?;
                    continue;
                }
                Err(TryLockError::Error(error)) => return Err(lock_error(error)),
            }
            // The earlier holder removed the file when it ended, so the locked file is no longer the lock.
            let ours = file.metadata().map_err(lock_error)?;
            if !std::fs::metadata(&path).is_ok_and(|current| is_same_file(&current, &ours)) {
                continue;
            }
            write_holder(&file, holder).map_err(lock_error)?;
            return Ok(FileLock {
                _file: file,
                lock_file: HeldLockFile { path, file_id: (ours.dev(), ours.ino()) },
            });
        }
    }

    pub(super) fn lock_file(&self) -> HeldLockFile {
        self.lock_file.clone()
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // The file is removed while it is still locked, so that no other run locks a file that is about to
        // vanish; see `take`. The lock file of another run stays.
        if self.lock_file.is_in_place() {
            let _ = std::fs::remove_file(&self.lock_file.path);
        }
    }
}

/// Records in a lock file of this process that it begins to wait at a prompt, or that it has an answer. Does
/// nothing to the lock file of another process.
pub(super) fn set_prompting(path: &Path, is_prompting: bool) -> std::io::Result<()> {
    let mut file = File::options().read(true).write(true).open(path)?;
    let this_process = Holder::this_process("");
    let is_own = |holder: &Holder| (holder.pid, &holder.host) == (this_process.pid, &this_process.host);
    match read_holder(&mut file).filter(is_own) {
        Some(holder) => write_holder(&file, &Holder { is_prompting, ..holder }),
        None => Ok(()),
    }
}

/// Writes the content of a lock file.
fn write_holder(mut file: &File, holder: &Holder) -> std::io::Result<()> {
    let text = serde_json::to_vec(holder).unwrap_or_default();
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&text)
}

/// Returns the error for a state that another run holds.
pub(super) fn in_use_error(holder: Option<&Holder>, lock_note: String) -> Error {
    let holder_name = holder.map_or_else(|| "another run".to_owned(), Holder::to_string);
    const WAIT_HINT: &str = "to wait for that run: `monopile SAME-COMMAND --wait-for-lock 30m`";
    match holder {
        Some(Holder { is_prompting: true, pid, host, .. }) => Error::new(
            ErrorKind::Locked,
            format!("{holder_name} is using this environment, and waits for an answer on its terminal"),
        )
        .with_hint(format!("answer its question there, or end that run on {host}: `kill -INT {pid}`"))
        .with_hint(WAIT_HINT),
        _ => Error::new(ErrorKind::Locked, format!("{holder_name} is using this environment"))
            .with_note(lock_note)
            .with_hint(WAIT_HINT)
            .with_hints(holder.map(|Holder { pid, host, .. }| {
                format!("if that run hangs, interrupt it on {host}: `kill -INT {pid}`")
            })),
    }
}

fn in_use_by_error(path: &Path, file: &mut File) -> Error {
    in_use_error(read_holder(file).as_ref(), format!("its lock is '{}'", path.display()))
}

/// Reads the holder from the lock file. Tries several times, because a new holder may not have written it
/// yet.
fn read_holder(file: &mut File) -> Option<Holder> {
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
