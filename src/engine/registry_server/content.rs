//! The content of the registry: one document, which is read for every request. Removing the document empties
//! the registry.

use std::collections::BTreeMap;
use std::io;

use parking_lot::Mutex;

use crate::state::Document;

/// The maximum number of entries. An environment has one VM, and a few entries of failed attempts.
const MAX_ENTRIES: usize = 64;

/// Settings by instance id.
type Entries = BTreeMap<String, String>;

/// The stored settings. They are durable when a method that stores them returns.
#[derive(Debug)]
pub(super) struct RegistryContent {
    document: Document,
    /// Serialises changes.
    turn: Mutex<()>,
}

/// The outcome of storing settings.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StoreOutcome {
    New,
    Replaced,
    Full,
}

impl RegistryContent {
    /// Keeps the content in this document, which need not exist yet.
    pub(super) fn of(document: Document) -> Self {
        RegistryContent { document, turn: Mutex::new(()) }
    }

    /// Reads the document once, so that damage is found early.
    pub(super) fn check(&self) -> io::Result<()> {
        self.read().map(drop)
    }

    /// Returns the settings of an instance.
    pub(super) fn get(&self, id: &str) -> io::Result<Option<String>> {
        Ok(self.read()?.remove(id))
    }

    /// Stores the settings of an instance, unless there are too many entries.
    pub(super) fn put(&self, id: &str, settings: String) -> io::Result<StoreOutcome> {
        let _turn = self.turn.lock();
        let mut entries = self.read()?;
        if !entries.contains_key(id) && entries.len() >= MAX_ENTRIES {
            return Ok(StoreOutcome::Full);
        }
        let outcome = match entries.insert(id.to_owned(), settings) {
            Some(_) => StoreOutcome::Replaced,
            None => StoreOutcome::New,
        };
        self.write(&entries)?;
        Ok(outcome)
    }

    /// Removes an entry, if it exists.
    pub(super) fn delete(&self, id: &str) -> io::Result<()> {
        let _turn = self.turn.lock();
        let mut entries = self.read()?;
        match entries.remove(id) {
            Some(_) if entries.is_empty() => self.document.remove(),
            Some(_) => self.write(&entries),
            None => Ok(()),
        }
    }

    fn read(&self) -> io::Result<Entries> {
        let Some(text) = self.document.read()? else { return Ok(Entries::new()) };
        serde_json::from_slice(&text).map_err(|error| {
            // The parser's message may quote a value, and values are secrets.
            let place = format!("line {} column {}", error.line(), error.column());
            io::Error::new(io::ErrorKind::InvalidData, format!("'{}' is damaged at {place}", self.document))
        })
    }

    fn write(&self, entries: &Entries) -> io::Result<()> {
        self.document.write(&serde_json::to_vec(entries)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;
    use crate::state::{Journal, Storage};

    #[test]
    fn stored_settings_are_private_and_durable() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::of(&Storage::from(directory.path().join("state.json").as_path()));
        let path = directory.path().join("state.json.journal/registry.json");
        let content = RegistryContent::of(journal.registry_document());
        assert_eq!(content.get("vm").unwrap(), None);
        assert_eq!(content.put("vm", "{}".into()).unwrap(), StoreOutcome::New);
        assert_eq!(content.put("vm", "{\"a\":1}".into()).unwrap(), StoreOutcome::Replaced);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let reopened_content = RegistryContent::of(journal.registry_document());
        assert_eq!(reopened_content.get("vm").unwrap().as_deref(), Some("{\"a\":1}"));
        reopened_content.delete("vm").unwrap();
        reopened_content.delete("vm").unwrap();
        assert!(!path.exists(), "the file remained after its last entry");
    }

    #[test]
    fn number_of_entries_is_limited() {
        let directory = tempfile::tempdir().unwrap();
        let content = RegistryContent::of(directory.path().join("registry.json").as_path().into());
        for number in 0..MAX_ENTRIES {
            assert_eq!(content.put(&number.to_string(), "{}".into()).unwrap(), StoreOutcome::New);
        }
        assert_eq!(content.put("one more", "{}".into()).unwrap(), StoreOutcome::Full);
        assert_eq!(content.put("0", "{}".into()).unwrap(), StoreOutcome::Replaced);
    }

    #[test]
    fn error_of_a_damaged_file_does_not_quote_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registry.json");
        fs::write(&path, r#"{"vm": ["s3cret"]}"#).unwrap();
        let error = RegistryContent::of(path.as_path().into()).check().unwrap_err().to_string();
        assert!(error.contains("registry.json") && !error.contains("s3cret"), "{error}");
    }
}
