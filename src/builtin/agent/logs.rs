//! `fetch_logs`: packs the logs of jobs, agent or system into a blob
//! (`agent/logstarprovider/logs_tar_provider.go` of the bosh-agent).

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSetBuilder};
use serde_json::{Value, json};
use walkdir::WalkDir;

use super::{Agent, archive};
use base::error::ResultExt;
use base::{Error, Result};

impl Agent {
    /// Packs logs of these types (`job`, `agent`, `system`, separated by commas) whose names match one of the
    /// globs.
    pub(super) fn fetch_logs(&self, types: &str, filters: &[String]) -> Result<Value> {
        let all_filters = ["**/*".to_owned()];
        let mut globs = GlobSetBuilder::new();
        for filter in if filters.is_empty() { &all_filters[..] } else { filters } {
            let glob = GlobBuilder::new(filter).literal_separator(true).build();
            globs.add(
                glob.map_err(|error| Error::invalid(format!("'{filter}' is not a glob")).with_source(error))?,
            );
        }
        let globs = globs.build().map_err(|error| Error::invalid("too many filters").with_source(error))?;
        let mut files = Vec::new();
        for kind in types.split(',') {
            let (root, prefix) = match kind {
                "job" => (self.directories.logs(), ""),
                "agent" => (self.directories.agent_logs(), ""),
                // The prefix distinguishes the names from those of job logs.
                "system" => (PathBuf::from("/var/log"), "var/log"),
                _ => return Err(Error::invalid("Invalid log type")),
            };
            // `sys` is a link. Below the root, only regular files are logs.
            let root = std::fs::canonicalize(&root)
                .map_err(|error| Error::io(format!("reading logs in '{}'", root.display()), error))?;
            for entry in WalkDir::new(&root).sort_by_file_name().into_iter().flatten() {
                if let (true, Ok(name)) = (entry.file_type().is_file(), entry.path().strip_prefix(&root))
                    && globs.is_match(name)
                {
                    files.push((entry.path().to_path_buf(), Path::new(prefix).join(name)));
                }
            }
        }
        let tarball = self.blobs.create_incoming()?;
        archive::pack_files(&files, tarball.as_file())?;
        let (id, digest) = self.blobs.store(tarball).context(|| "Create file on blobstore".to_owned())?;
        Ok(json!({"blobstore_id": id, "sha1": digest}))
    }
}
