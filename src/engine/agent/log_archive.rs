//! Logs of a VM as its agent packs them: fetched, verified, and unpacked by the rules for untrusted archives.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::agent::Agent;
use artifact::Digest;
use artifact::archive::{self, Limits};
use base::files::durable::create_private;
use base::{Error, Result};

/// What may come out of an archive of logs: they compress well.
const LIMITS: Limits = Limits { entries: 200_000, bytes: 64 << 30, ratio: 1000 };

/// An archive of logs on this machine, whose digest was right. It goes when this is dropped.
pub(crate) struct LogArchive {
    scratch: tempfile::TempDir,
    digest: Digest,
}

impl LogArchive {
    /// Has the agent pack logs of these types (`job`, `agent`, `system`, joined by commas) whose names match
    /// one of the globs, and fetches them into a directory of their own below `work`; at most `limit` bytes
    /// of them.
    pub(crate) fn fetch(
        agent: &Agent,
        types: &str,
        filters: &[String],
        work: &Path,
        limit: u64,
    ) -> Result<Self> {
        let scratch = tempfile::Builder::new()
            .prefix("logs-")
            .tempdir_in(work)
            .map_err(|error| Error::io("making a directory for logs", error))?;
        let blob = agent.fetch_logs(types, filters)?;
        let path = scratch.path().join("logs.tgz");
        let file = create_private(&path).map_err(|error| Error::io("making a file for logs", error))?;
        let received = agent.get_blob(&blob.blobstore_id, &mut Limited { inner: file, left: limit });
        // Agents keep every blob, on a disk that the jobs need.
        match agent.remove_blob(&blob.blobstore_id) {
            Err(error) if !error.is_unknown_message() => {
                tracing::info!(%error, "the packed logs stay on the VM");
            }
            _ => {}
        }
        received?;
        let digest = Digest::parse(&blob.sha1, "the logs")?;
        let actual = Digest::of_file(&path, &[digest.strongest()])?;
        digest.check(&actual, "the packed logs")?;
        Ok(LogArchive { scratch, digest })
    }

    /// The archive itself.
    pub(crate) fn path(&self) -> PathBuf {
        self.scratch.path().join("logs.tgz")
    }

    /// Checks every entry and writes none.
    pub(crate) fn check(&self) -> Result<()> {
        self.unpack_only(Some(&|_: &Path| false)).map(drop)
    }

    /// Unpacks it; the tree goes with the archive.
    pub(crate) fn unpack(&self) -> Result<PathBuf> {
        self.unpack_only(None)
    }

    fn unpack_only(&self, only: Option<&dyn Fn(&Path) -> bool>) -> Result<PathBuf> {
        let tree = self.scratch.path().join("logs");
        let options = archive::Options { limits: LIMITS, only, ..archive::Options::default() };
        archive::unpack_file(&self.path(), "the logs", &tree, Some(&self.digest), &options, &mut |_, _| {})?;
        Ok(tree)
    }
}

/// A writer that takes no more than it is told to.
struct Limited {
    inner: File,
    left: u64,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = bytes.len() as u64;
        self.left = self.left.checked_sub(size).ok_or_else(|| io::Error::other("the logs are too large"))?;
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
    fn too_much_is_refused() {
        let mut limited = Limited { inner: tempfile::tempfile().unwrap(), left: 4 };
        limited.write_all(b"1234").unwrap();
        limited.write_all(b"5").unwrap_err();
    }
}
