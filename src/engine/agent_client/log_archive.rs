//! Archives of a VM's logs: packed by the agent, downloaded, verified, and unpacked as untrusted archives.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::agent_client::Agent;
use artifact::Digest;
use artifact::archive::{self, UnpackLimits};
use base::files::durable::create_private_file;
use base::{Error, Result};

/// The limits for unpacking an archive. The ratio is above the highest one that gzip reaches, 1032, because
/// the hole that `copytruncate` leaves in a log is packed that well.
const LIMITS: UnpackLimits = UnpackLimits { entries: 200_000, bytes: 64 << 30, ratio: 1100 };

/// A verified archive of logs on this machine. Dropping it removes the files.
pub(crate) struct LogArchive {
    scratch: tempfile::TempDir,
    digest: Digest,
}

impl LogArchive {
    /// Asks the agent to pack the logs of these types (`job`, `agent`, `system`, joined by commas) whose
    /// names match one of the globs. Downloads at most `limit` bytes into a new directory below `work`.
    pub(crate) fn fetch(
        agent: &Agent,
        types: &str,
        filters: &[String],
        work: &Path,
        limit: u64,
    ) -> Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("logs-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(work)
            .map_err(|error| Error::io(format!("creating a directory in '{}'", work.display()), error))?;
        let blob = agent.fetch_logs(types, filters)?;
        let path = scratch.path().join("logs.tgz");
        let file = create_private_file(&path)
            .map_err(|error| Error::io(format!("creating '{}'", path.display()), error))?;
        let result = agent.get_blob(&blob.blobstore_id, &mut LimitedWriter { inner: file, remaining: limit });
        // Agents never delete blobs on their own, and the jobs need the disk space.
        match agent.remove_blob(&blob.blobstore_id) {
            Err(error) if !error.is_unknown_message() => {
                tracing::info!(%error, "the packed logs stay on the VM");
            }
            _ => {}
        }
        result?;
        let digest = Digest::parse(&blob.sha1, "the logs")?;
        let actual = Digest::from_file(&path, &[digest.strongest()])?;
        digest.check(&actual, "the packed logs")?;
        Ok(LogArchive { scratch, digest })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.scratch.path().join("logs.tgz")
    }

    /// Checks all entries without writing them.
    pub(crate) fn check(&self) -> Result<()> {
        self.unpack_only(Some(&|_: &Path| false)).map(drop)
    }

    /// Unpacks the archive. Dropping the archive removes the files.
    pub(crate) fn unpack(&self) -> Result<PathBuf> {
        self.unpack_only(None)
    }

    fn unpack_only(&self, is_selected: Option<&dyn Fn(&Path) -> bool>) -> Result<PathBuf> {
        let tree = self.scratch.path().join("logs");
        let options = archive::UnpackOptions {
            limits: LIMITS,
            selector: is_selected,
            ..archive::UnpackOptions::default()
        };
        archive::unpack_file(&self.path(), "the logs", &tree, Some(&self.digest), &options, &mut |_, _| {})?;
        Ok(tree)
    }
}

/// A writer that fails beyond a limit.
struct LimitedWriter {
    inner: File,
    remaining: u64,
}

impl Write for LimitedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = bytes.len() as u64;
        self.remaining =
            self.remaining.checked_sub(size).ok_or_else(|| io::Error::other("the logs are too large"))?;
        self.inner.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_beyond_the_limit_fails() {
        let mut writer = LimitedWriter { inner: tempfile::tempfile().unwrap(), remaining: 4 };
        writer.write_all(b"1234").unwrap();
        writer.write_all(b"5").unwrap_err();
    }

    #[test]
    fn log_with_a_large_hole_is_accepted() {
        let logs = tempfile::tempdir().unwrap();
        let log = File::create(logs.path().join("rotated.log")).unwrap();
        log.set_len(UnpackLimits::RATIO_FLOOR_BYTES + (8 << 20)).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let digest = archive::pack_directory(logs.path(), &scratch.path().join("logs.tgz")).unwrap();
        LogArchive { scratch, digest }.check().unwrap();
    }
}
