//! What a run has made, on disk while the run lives: when it is killed, the next run of the same CPI reads it and
//! deletes what was left.
//!
//! A file per run, locked by it: JSON lines, `begun`, then `asked` before and `answered` after each call that makes
//! something, `made` and `gone` for each thing. A call that was asked and not answered may have made something that
//! nobody knows the name of.

use std::fs::{self, DirBuilder, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ledger::Thing;
use base::files::Locked;
use base::{Error, Result};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Begun { cpi: String },
    Asked { method: String, request_id: String },
    Answered { request_id: String },
    Made(Thing),
    Gone(Thing),
}

/// The file of a run.
#[derive(Debug)]
pub(super) struct Diary {
    file: Locked,
    path: PathBuf,
}

/// What earlier runs left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Earlier {
    /// What was made, and not deleted.
    pub(super) things: Vec<Thing>,
    /// Calls without an answer: method and request id.
    pub(super) unanswered: Vec<(String, String)>,
}

impl Diary {
    /// Begins one in `directory`, and takes over what earlier runs of the same CPI left that live no more.
    pub(super) fn begin(directory: &Path, cpi: &str) -> Result<(Self, Earlier)> {
        let failed = |error| Error::io(format!("keeping notes in '{}'", directory.display()), error);
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let mut earlier = Earlier::default();
        let mut read = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let Ok(file) = File::open(&path).map(Locked::from) else { continue };
            // Whoever holds it lives.
            if file.try_lock().is_ok() && take(&file, cpi, &mut earlier) {
                read.push((path, file));
            }
        }
        let path = directory.join(format!("{}.jsonl", uuid::Uuid::new_v4()));
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let file = Locked::from(file.map_err(failed)?);
        file.lock().map_err(failed)?;
        let mut diary = Diary { file, path };
        diary.line(&Line::Begun { cpi: cpi.to_owned() })?;
        for thing in &earlier.things {
            diary.made(thing)?;
        }
        for (path, _locked) in read {
            fs::remove_file(path).map_err(failed)?;
        }
        Ok((diary, earlier))
    }

    /// Something is about to be made.
    pub(super) fn asked(&mut self, method: &str, request_id: &str) -> Result<()> {
        self.line(&Line::Asked { method: method.to_owned(), request_id: request_id.to_owned() })
    }

    /// The call is over, and what it made is written down.
    pub(super) fn answered(&mut self, request_id: &str) -> Result<()> {
        self.line(&Line::Answered { request_id: request_id.to_owned() })
    }

    pub(super) fn made(&mut self, thing: &Thing) -> Result<()> {
        self.line(&Line::Made(thing.clone()))
    }

    pub(super) fn gone(&mut self, thing: &Thing) -> Result<()> {
        self.line(&Line::Gone(thing.clone()))
    }

    /// Ends it. What is left is kept for the next run.
    pub(super) fn end(self, left: bool) {
        if !left {
            let _ = fs::remove_file(&self.path);
            // Only if no other run needs it.
            let _ = self.path.parent().map(fs::remove_dir);
        }
    }

    fn line(&mut self, line: &Line) -> Result<()> {
        let failed = |error| Error::io(format!("writing '{}'", self.path.display()), error);
        let mut text = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        self.file.write_all(&text).and_then(|()| self.file.sync_data()).map_err(failed)
    }
}

/// Adds what a diary of this CPI says is left. False for another CPI's, which is left alone.
fn take(file: &File, cpi: &str, earlier: &mut Earlier) -> bool {
    let mut lines = BufReader::new(file).lines().map_while(std::io::Result::ok);
    // A line that was cut off is the last one.
    let mut next = || lines.next().and_then(|line| serde_json::from_str::<Line>(&line).ok());
    if !matches!(next(), Some(Line::Begun { cpi: whose }) if whose == cpi) {
        return false;
    }
    while let Some(line) = next() {
        match line {
            Line::Begun { .. } => {}
            Line::Asked { method, request_id } => earlier.unanswered.push((method, request_id)),
            Line::Answered { request_id } => earlier.unanswered.retain(|(_, asked)| *asked != request_id),
            Line::Made(thing) => earlier.things.push(thing),
            Line::Gone(thing) => earlier.things.retain(|made| *made != thing),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::ledger::ResourceKind;
    use super::*;

    fn thing(cid: &str) -> Thing {
        Thing { kind: ResourceKind::Disk, cid: cid.to_owned() }
    }

    #[test]
    fn the_next_run_takes_over_what_a_killed_one_left() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("notes");
        let (mut diary, earlier) = Diary::begin(&directory, "a").unwrap();
        assert_eq!(earlier, Earlier::default());
        diary.asked("create_disk", "1").unwrap();
        diary.made(&thing("d1")).unwrap();
        diary.answered("1").unwrap();
        diary.made(&thing("d2")).unwrap();
        diary.gone(&thing("d2")).unwrap();
        diary.asked("create_vm", "2").unwrap();

        let (living, earlier) = Diary::begin(&directory, "a").unwrap();
        assert_eq!(earlier, Earlier::default(), "it lives");
        living.end(false);
        diary.file.write_all(b"{\"made\": {\"ki").unwrap();
        drop(diary);
        let (other, earlier) = Diary::begin(&directory, "b").unwrap();
        assert_eq!(earlier, Earlier::default(), "it is another CPI's");
        other.end(false);
        let (diary, earlier) = Diary::begin(&directory, "a").unwrap();
        let unanswered = vec![("create_vm".to_owned(), "2".to_owned())];
        assert_eq!(earlier, Earlier { things: vec![thing("d1")], unanswered });
        diary.end(true);
        let (diary, earlier) = Diary::begin(&directory, "a").unwrap();
        assert_eq!(earlier, Earlier { things: vec![thing("d1")], unanswered: Vec::new() });
        diary.end(false);
        assert!(!directory.exists());
    }
}
