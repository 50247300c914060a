//! A file that lists the resources of a run. If the run is killed, the next run of the same CPI deletes them.
//!
//! Each run has one file and holds its lock. The JSON lines are `begun`, `asked` before and `answered` after
//! each creating call, `made` and `gone` for each resource. A call with `asked` and without `answered` may
//! have created an unknown resource.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ledger::CreatedResource;
use base::files::UnlockOnDrop;
use base::files::durable::create_private_directory;
use base::{Error, Result};

/// A line of a leftover log: its beginning, a call, an answer, or a resource that was created or deleted.
#[derive(Debug, Serialize, Deserialize)]
enum LogLine {
    /// The first line: the CPI of the run.
    #[serde(rename = "begun")]
    RunBegin { cpi: String },
    /// A creating call, before it is made.
    #[serde(rename = "asked")]
    CallBegin { method: String, request_id: String },
    /// The end of a call, after its resources.
    #[serde(rename = "answered")]
    CallEnd { request_id: String },
    /// A resource that was created.
    #[serde(rename = "made")]
    Created(CreatedResource),
    /// A resource that was deleted.
    #[serde(rename = "gone")]
    Deleted(CreatedResource),
}

/// The leftover log of one run.
#[derive(Debug)]
pub(super) struct LeftoverLog {
    file: UnlockOnDrop,
    path: PathBuf,
}

/// Leftovers of earlier runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Leftovers {
    /// Resources that were not deleted.
    pub(super) resources: Vec<CreatedResource>,
    /// Calls without an answer: method and request id.
    pub(super) unanswered_calls: Vec<(String, String)>,
}

impl LeftoverLog {
    /// Begins a leftover log in `directory`, and takes over those of ended runs of the same CPI.
    pub(super) fn begin(directory: &Path, cpi: &str) -> Result<(Self, Leftovers)> {
        let write_error = |error| {
            Error::io(format!("writing the list of leftovers below '{}'", directory.display()), error)
        };
        create_private_directory(directory).map_err(write_error)?;
        let mut earlier_leftovers = Leftovers::default();
        let mut ended_logs = Vec::new();
        for entry in fs::read_dir(directory).map_err(write_error)? {
            let path = entry.map_err(write_error)?.path();
            let Ok(file) = File::open(&path).map(UnlockOnDrop::from) else { continue };
            // A running check holds the lock of its leftover log.
            if file.try_lock().is_ok() && take_over(&file, cpi, &mut earlier_leftovers) {
                ended_logs.push((path, file));
            }
        }
        let path = directory.join(format!("{}.jsonl", uuid::Uuid::new_v4()));
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let file = UnlockOnDrop::from(file.map_err(write_error)?);
        file.lock().map_err(write_error)?;
        let mut leftover_log = LeftoverLog { file, path };
        leftover_log.write_line(&LogLine::RunBegin { cpi: cpi.to_owned() })?;
        for resource in &earlier_leftovers.resources {
            leftover_log.record_resource(resource)?;
        }
        for (path, _locked) in ended_logs {
            fs::remove_file(path).map_err(write_error)?;
        }
        Ok((leftover_log, earlier_leftovers))
    }

    /// Records a creating call before it is made.
    pub(super) fn record_call(&mut self, method: &str, request_id: &str) -> Result<()> {
        self.write_line(&LogLine::CallBegin { method: method.to_owned(), request_id: request_id.to_owned() })
    }

    /// Records the end of a call, after its resources.
    pub(super) fn record_answer(&mut self, request_id: &str) -> Result<()> {
        self.write_line(&LogLine::CallEnd { request_id: request_id.to_owned() })
    }

    pub(super) fn record_resource(&mut self, resource: &CreatedResource) -> Result<()> {
        self.write_line(&LogLine::Created(resource.clone()))
    }

    /// Records that a resource is gone.
    pub(super) fn record_deletion(&mut self, resource: &CreatedResource) -> Result<()> {
        self.write_line(&LogLine::Deleted(resource.clone()))
    }

    /// Ends the leftover log. It stays for the next run if resources are left.
    pub(super) fn end(self, has_leftovers: bool) {
        if !has_leftovers {
            let _ = fs::remove_file(&self.path);
            // This fails while other runs use the directory.
            let _ = self.path.parent().map(fs::remove_dir);
        }
    }

    fn write_line(&mut self, line: &LogLine) -> Result<()> {
        let write_error = |error| Error::io(format!("writing '{}'", self.path.display()), error);
        let mut text = serde_json::to_vec(line).map_err(|error| write_error(error.into()))?;
        text.push(b'\n');
        self.file.write_all(&text).and_then(|()| self.file.sync_data()).map_err(write_error)
    }
}

/// Adds the leftovers in a leftover log of this CPI. Returns false for the log of another CPI.
fn take_over(file: &File, cpi: &str, earlier_leftovers: &mut Leftovers) -> bool {
    let mut lines = BufReader::new(file).lines().map_while(std::io::Result::ok);
    // Stop at a partial line, which can only be the last one.
    let mut next_line = || lines.next().and_then(|line| serde_json::from_str::<LogLine>(&line).ok());
    if !matches!(next_line(), Some(LogLine::RunBegin { cpi: log_cpi }) if log_cpi == cpi) {
        return false;
    }
    while let Some(line) = next_line() {
        match line {
            LogLine::RunBegin { .. } => {}
            LogLine::CallBegin { method, request_id } => {
                earlier_leftovers.unanswered_calls.push((method, request_id))
            }
            LogLine::CallEnd { request_id } => {
                earlier_leftovers.unanswered_calls.retain(|(_, pending_id)| *pending_id != request_id)
            }
            LogLine::Created(resource) => earlier_leftovers.resources.push(resource),
            LogLine::Deleted(resource) => {
                earlier_leftovers.resources.retain(|candidate| *candidate != resource)
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::protocol::ResourceKind;

    fn resource(cid: &str) -> CreatedResource {
        CreatedResource { kind: ResourceKind::Disk, cid: cid.to_owned() }
    }

    #[test]
    fn next_run_takes_over_leftovers_of_a_killed_run() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("notes");
        let (mut leftover_log, earlier_leftovers) = LeftoverLog::begin(&directory, "a").unwrap();
        assert_eq!(earlier_leftovers, Leftovers::default());
        leftover_log.record_call("create_disk", "1").unwrap();
        leftover_log.record_resource(&resource("d1")).unwrap();
        leftover_log.record_answer("1").unwrap();
        leftover_log.record_resource(&resource("d2")).unwrap();
        leftover_log.record_deletion(&resource("d2")).unwrap();
        leftover_log.record_call("create_vm", "2").unwrap();

        let (running_log, earlier_leftovers) = LeftoverLog::begin(&directory, "a").unwrap();
        assert_eq!(earlier_leftovers, Leftovers::default(), "the log of a running check was read");
        running_log.end(false);
        leftover_log.file.write_all(b"{\"made\": {\"ki").unwrap();
        drop(leftover_log);
        let (other, earlier_leftovers) = LeftoverLog::begin(&directory, "b").unwrap();
        assert_eq!(earlier_leftovers, Leftovers::default(), "the log of another CPI was read");
        other.end(false);
        let (leftover_log, earlier_leftovers) = LeftoverLog::begin(&directory, "a").unwrap();
        let unanswered_calls = vec![("create_vm".to_owned(), "2".to_owned())];
        assert_eq!(earlier_leftovers, Leftovers { resources: vec![resource("d1")], unanswered_calls });
        leftover_log.end(true);
        let (leftover_log, earlier_leftovers) = LeftoverLog::begin(&directory, "a").unwrap();
        assert_eq!(
            earlier_leftovers,
            Leftovers { resources: vec![resource("d1")], unanswered_calls: Vec::new() }
        );
        leftover_log.end(false);
        assert!(!directory.exists());
    }
}
