//! The store: the locked state, and the only way to write it.

use super::change::Change;
use super::journal::{Intent, Journal, OpenCall};
use super::lock::{Holder, LockConflictHandler, StateLock};
use super::records::State;
use super::storage::{BACKUP_DOCUMENT, STATE_DOCUMENT, Storage, VERSIONS_FOLDER};
use super::versions;
use base::error::ResultExt;
use base::{Error, ErrorKind, Result, text};
use serde::de::DeserializeOwned;

/// The locked state, which only this run may change.
#[derive(Debug)]
pub struct Store {
    storage: Storage,
    state: State,
    journal: Journal,
    /// False if no call of an earlier run was open when the state was locked.
    may_have_open_calls: bool,
    has_state: bool,
    /// True if this run need not keep a version before it writes, because it already kept one or created the
    /// state.
    has_kept_version: bool,
    lock: StateLock,
}

impl Store {
    /// Locks and reads the state, or starts a new one. Also encrypts documents for changed recipients, and
    /// removes what a killed run left. The state itself does not change.
    pub fn open(storage: &Storage, holder: &Holder) -> Result<Self> {
        Self::open_waiting(storage, holder, &mut Err)
    }

    /// Like [`Store::open`], but while another run holds the state, `on_conflict` decides whether to try
    /// again.
    pub fn open_waiting(
        storage: &Storage,
        holder: &Holder,
        on_conflict: &mut LockConflictHandler<'_>,
    ) -> Result<Self> {
        let storage = storage.resolve_links()?;
        storage.check_decrypts_own()?;
        let lock = storage.lock(holder, on_conflict)?;
        let stored_state = State::read_with_form(&storage)?;
        let has_state = stored_state.is_some();
        storage.reencrypt(stored_state.as_ref().map(|(_, stored_form)| *stored_form))?;
        let journal = Journal::held_by(&storage, holder);
        let no_call_is_open = storage.clean_up().and_then(|()| journal.clean_up()).map_err(|error| {
            let action = format!("removing the rest of an interrupted run beside '{storage}'");
            storage.with_path_hint(Error::io(action, error))
        })?;
        let state = stored_state.map_or_else(State::new, |(state, _)| state);
        let may_have_open_calls = !no_call_is_open;
        let store =
            Store { storage, state, journal, may_have_open_calls, has_state, has_kept_version: false, lock };
        // An open `create_vm` may have created a VM that needs the registry.
        if no_call_is_open && store.state.vm_cid().is_none() {
            store.remove_registry()?;
        }
        Ok(store)
    }

    /// Replaces the state with a kept version. The current state is kept as a version, even if it cannot be
    /// parsed.
    ///
    /// Before an existing state is replaced, `confirm` gets it, `None` if it cannot be used, and the
    /// version. Documents may have been encrypted for changed recipients before that.
    pub fn restore(
        storage: &Storage,
        holder: &Holder,
        on_conflict: &mut LockConflictHandler<'_>,
        version: &str,
        confirm: &mut dyn FnMut(Option<&State>, &State) -> Result<()>,
    ) -> Result<()> {
        let storage = storage.resolve_links()?;
        storage.check_decrypts_own()?;
        let lock = storage.lock(holder, on_conflict)?;
        let stored_form = storage.read_stored_form().map_err(|error| {
            let error = Error::io(format!("reading the state '{storage}'"), error);
            storage.with_path_hint(error)
        })?;
        storage.reencrypt(stored_form)?;
        let versions = versions::read_versions(&storage)?;
        let names: Vec<&str> = versions.iter().map(|version| version.name.as_str()).collect();
        let no_version_error = match names.as_slice() {
            [] => Error::invalid(format!("no earlier version of '{storage}' is kept")),
            names => {
                let names = names.join(", ");
                Error::invalid(format!("there is no version '{version}' of '{storage}' (kept: {names})"))
                    .with_hint(format!(
                        "list the versions with their dates: `monopile state backup --state {}`",
                        text::shell_word(&storage.to_string())
                    ))
            }
        };
        let requested_version = versions
            .into_iter()
            .find(|candidate| candidate.name == version)
            .ok_or_else(|| no_version_error.with_note("nothing was changed"))?;
        let requested_state =
            requested_version.state.context(|| format!("version '{version}' cannot be used"))?;
        // A state that cannot be parsed may be replaced.
        let (has_state, current_state) = match State::read(&storage) {
            Ok(state) => (state.is_some(), state),
            Err(error) if error.kind() == ErrorKind::InvalidInput => (true, None),
            Err(error) => return Err(error),
        };
        if has_state {
            confirm(current_state.as_ref(), &requested_state)?;
        }
        let journal = Journal::held_by(&storage, holder);
        let state = current_state.unwrap_or_default();
        let mut store = Store {
            storage,
            state,
            journal,
            may_have_open_calls: true,
            has_state,
            has_kept_version: false,
            lock,
        };
        store.commit(Change::Replaced(Box::new(requested_state)))
    }

    /// Keeps the current state as a version, and returns its number.
    pub fn keep_version(&self) -> Result<u64> {
        versions::keep(&self.storage)
            .map_err(|error| Error::io(format!("keeping a version of '{}'", self.storage), error))
            .map_err(|error| self.storage.with_path_hint(error))
    }

    /// Describes the earlier holder, if this run took over an expired lease.
    pub fn describe_previous_holder(&self) -> Option<&str> {
        self.lock.describe_previous_holder()
    }

    /// Returns the recorded state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the storage of the state.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Returns the journal of the state.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the calls of earlier runs that were never settled, oldest first. Makes no request if there
    /// were none when the state was locked, because no other run can add any.
    pub fn read_open_calls<E: DeserializeOwned>(&self) -> Result<Vec<(Intent<E>, OpenCall)>> {
        if self.may_have_open_calls { self.journal.read_open_calls() } else { Ok(Vec::new()) }
    }

    /// Returns true if the state has been written.
    pub fn has_state(&self) -> bool {
        self.has_state
    }

    /// Applies a change and writes the state. The change is durable when this returns.
    pub fn commit(&mut self, change: Change) -> Result<()> {
        let ends_vm = matches!(change, Change::VmDeleted(_));
        let mut next_state = self.state.clone();
        next_state
            .apply(change)
            .map_err(|rejection| Error::failure("the state rejects a change").with_source(rejection))?;
        self.write(next_state)?;
        if ends_vm { self.remove_registry() } else { Ok(()) }
    }

    /// Removes the content of the registry, which only the agent of a deleted VM could need.
    fn remove_registry(&self) -> Result<()> {
        self.journal
            .remove_registry()
            .map_err(|error| Error::io(format!("removing '{}'", self.journal.registry_document()), error))
    }

    /// Writes a state that does not exist yet, so that the director id is on record before a CPI sees it.
    pub fn write_if_new(&mut self) -> Result<()> {
        if self.has_state { Ok(()) } else { self.write(self.state.clone()) }
    }

    /// Writes the state if it changed. Checks the lock first, and keeps the version before the first change
    /// of this run and a backup before each.
    fn write(&mut self, next_state: State) -> Result<()> {
        if self.has_state && next_state == self.state {
            return Ok(());
        }
        self.storage.check_lock()?;
        let bytes = next_state.to_bytes()?;
        let failure_message = || format!("writing the state '{}' failed", self.storage);
        if self.has_state && !self.has_kept_version {
            // A version is kept only once per run, because a run writes often.
            self.keep_version().context(failure_message)?;
            self.has_kept_version = true;
        }
        if self.has_state {
            self.storage
                .keep_backup()
                .map_err(|error| {
                    let error = Error::io(format!("keeping a copy of '{}'", self.storage), error);
                    self.storage.with_path_hint(error)
                })
                .context(failure_message)?;
        }
        self.storage.write(STATE_DOCUMENT, &bytes).map_err(|error| {
            let rerun_hint = if self.storage.is_shared() {
                "the bucket probably has the state before this change; make sure that it can be written, \
                 then run the same command again"
            } else {
                "the state on disk is the one before this change; free space or fix permissions, then run \
                    the same command again"
            };
            let error = Error::failure(failure_message()).with_source(error);
            self.storage.with_path_hint(error).with_rerun_hint(rerun_hint)
        })?;
        self.state = next_state;
        self.has_state = true;
        // A state that this run created has no earlier version.
        self.has_kept_version = true;
        Ok(())
    }

    /// Removes the state, its versions and its journal. Fails if the state still records resources or
    /// suspects.
    pub fn remove(self) -> Result<()> {
        if !self.state.is_empty_of_resources() || !self.state.monopile.suspects.is_empty() {
            return Err(Error::failure("the state still records resources, so it is kept"));
        }
        self.journal.remove()?;
        self.storage
            .remove_folder(VERSIONS_FOLDER)
            .map_err(|error| Error::io(format!("removing the kept versions of '{}'", self.storage), error))?;
        let backup = self.storage.keeps_backup().then_some(BACKUP_DOCUMENT);
        for document in backup.into_iter().chain([STATE_DOCUMENT]) {
            self.storage.remove(document).map_err(|error| {
                Error::io(format!("removing '{}'", self.storage.path_or_url_of(document)), error)
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::files::durable::temporary_path;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};

    fn storage_at(path: &Path) -> Storage {
        Storage::from(path)
    }

    fn backup_path(path: &Path) -> PathBuf {
        storage_at(path).path_or_url_of(BACKUP_DOCUMENT).into()
    }

    fn holder() -> Holder {
        Holder::this_process("create-env")
    }

    #[test]
    fn second_run_gets_an_error_that_names_the_holder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let first = Store::open(&storage_at(&path), &holder()).unwrap();
        let error = Store::open(&storage_at(&path), &holder()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert!(error.to_string().contains("create-env"), "{error}");
        drop(first);
        Store::open(&storage_at(&path), &holder()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "the lock left files");
    }

    #[test]
    fn removes_temporary_files_of_killed_writers_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let journal = directory.path().join("m-state.json.journal");
        fs::create_dir(&journal).unwrap();
        fs::write(directory.path().join(".m-state.json.abc.tmp"), "").unwrap();
        fs::write(temporary_path(&path, "bak"), "").unwrap();
        fs::write(directory.path().join(".other-state.json.abc.tmp"), "").unwrap();
        fs::write(journal.join(".r.intent.abc.tmp"), "").unwrap();
        drop(Store::open(&storage_at(&path), &holder()).unwrap());
        let names: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [".other-state.json.abc.tmp"]);
    }

    #[test]
    fn state_file_is_private_and_has_a_backup() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let mut store = Store::open(&storage_at(&path), &holder()).unwrap();
        store.write_if_new().unwrap();
        let first = fs::read(&path).unwrap();
        store
            .commit(Change::Deployed {
                deploy_digest: "abc".into(),
                releases: Vec::new(),
                manifest_leaves: None,
                credential_digests: None,
                durations: Default::default(),
            })
            .unwrap();
        assert_eq!(fs::read(backup_path(&path)).unwrap(), first);
        for file in [&path, &backup_path(&path)] {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(State::read(&storage_at(&path)).unwrap().unwrap().current_deploy_digest, "abc");
        assert!(
            versions::read_versions(&storage_at(&path)).unwrap().iter().all(|version| version.name == "bak")
        );
        drop(store);
        let mut store = Store::open(&storage_at(&path), &holder()).unwrap();
        store.commit(Change::DeployBegun { in_place: false }).unwrap();
        store
            .commit(Change::Deployed {
                deploy_digest: "def".into(),
                releases: Vec::new(),
                manifest_leaves: None,
                credential_digests: None,
                durations: Default::default(),
            })
            .unwrap();
        let kept_versions = versions::read_versions(&storage_at(&path)).unwrap();
        let digests: Vec<_> = kept_versions
            .iter()
            .map(|version| {
                (version.name.as_str(), version.state.as_ref().unwrap().current_deploy_digest.as_str())
            })
            .collect();
        assert_eq!(digests, [("bak", ""), ("1", "abc")], "not one version for each run");
        store.remove().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
    #[test]
    fn existing_backup_link_leaves_no_extra_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let mut store = Store::open(&storage_at(&path), &holder()).unwrap();
        store.write_if_new().unwrap();
        // The run was killed after it kept the backup and before it wrote the new version.
        fs::hard_link(&path, backup_path(&path)).unwrap();
        store
            .commit(Change::Deployed {
                deploy_digest: "abc".into(),
                releases: Vec::new(),
                manifest_leaves: None,
                credential_digests: None,
                durations: Default::default(),
            })
            .unwrap();
        drop(store);
        let mut names: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["m-state.json", "m-state.json.bak"]);
    }

    #[test]
    fn restore_replaces_an_unreadable_state() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let mut store = Store::open(&storage_at(&path), &holder()).unwrap();
        store.write_if_new().unwrap();
        let good = store.state().clone();
        assert_eq!(store.keep_version().unwrap(), 1);
        drop(store);
        fs::write(&path, "{").unwrap();
        let restore = |version: &str, agrees: bool| {
            Store::restore(&storage_at(&path), &holder(), &mut Err, version, &mut |current_state, _| {
                assert!(current_state.is_none());
                if agrees { Ok(()) } else { Err(Error::usage("no")) }
            })
        };
        assert_eq!(restore("7", true).unwrap_err().kind(), ErrorKind::InvalidInput);
        restore("1", false).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"{");
        restore("1", true).unwrap();
        assert_eq!(State::read(&storage_at(&path)).unwrap(), Some(good));
        let kept_versions = versions::read_versions(&storage_at(&path)).unwrap();
        assert_eq!(
            fs::read(&kept_versions.iter().find(|version| version.name == "2").unwrap().path_or_url).unwrap(),
            b"{"
        );
    }

    #[test]
    fn symlinked_state_shares_the_lock_and_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("real.json");
        let link = directory.path().join("link.json");
        std::os::unix::fs::symlink("real.json", &link).unwrap();
        let mut store = Store::open(&storage_at(&link), &holder()).unwrap();
        assert_eq!(Store::open(&storage_at(&path), &holder()).unwrap_err().kind(), ErrorKind::Locked);
        store.write_if_new().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(State::read(&storage_at(&path)).unwrap().as_ref(), Some(store.state()));
        std::os::unix::fs::symlink("loop.json", directory.path().join("loop.json")).unwrap();
        assert!(Store::open(&storage_at(&directory.path().join("loop.json")), &holder()).is_err());
    }

    #[test]
    fn registry_content_is_kept_while_the_vm_may_exist() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let mut store = Store::open(&storage_at(&path), &holder()).unwrap();
        store.write_if_new().unwrap();
        let intent = crate::state::Intent {
            request_id: "r".parse().unwrap(),
            method: "create_vm".into(),
            terms: crate::protocol::Terms::new(2, None),
            cpi: None,
            reason: "test".into(),
            effect: serde_json::json!({}),
            registry: None,
            holder: None,
        };
        let file = PathBuf::from(store.journal().registry_document().to_string());
        let call = store.journal().new_call(&intent.request_id);
        store.journal().announce(&call, &intent).unwrap();
        fs::write(&file, "{}").unwrap();
        drop(store);
        let mut store = Store::open(&storage_at(&path), &holder()).unwrap();
        assert!(file.exists(), "the registry of a VM that may exist was removed");
        let vm = crate::state::VmRecord {
            cid: "vm-1".parse().unwrap(),
            agent_id: "a".into(),
            contract: crate::protocol::Contract::V1,
            networks: None,
            cpi: None,
            instance: "bosh/0".into(),
            ssh_host_key: None,
            property_digests: None,
            is_ready: false,
            unknown_keys: serde_json::Map::new(),
        };
        store.commit(Change::VmCreated(Box::new(vm))).unwrap();
        store.journal().new_call(&intent.request_id).settle().unwrap();
        drop(store);
        let mut store = Store::open(&storage_at(&path), &holder()).unwrap();
        assert!(file.exists(), "the registry of the VM was removed");
        store.commit(Change::VmDeleted(crate::state::Handle::new("vm-1".parse().unwrap(), None))).unwrap();
        assert!(!file.parent().unwrap().exists());

        // A run was killed between the deletion and this removal.
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, "{}").unwrap();
        drop(store);
        drop(Store::open(&storage_at(&path), &holder()).unwrap());
        assert!(!file.parent().unwrap().exists());
    }

    #[test]
    fn state_with_an_open_call_cannot_be_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let mut store = Store::open(&storage_at(&path), &holder()).unwrap();
        store.write_if_new().unwrap();
        let intent = crate::state::Intent {
            request_id: "r".parse().unwrap(),
            method: "create_disk".into(),
            terms: crate::protocol::Terms::new(2, None),
            cpi: None,
            reason: "test".into(),
            effect: serde_json::json!({}),
            registry: None,
            holder: None,
        };
        store.journal().announce(&store.journal().new_call(&intent.request_id), &intent).unwrap();
        assert!(store.remove().is_err());
        assert!(path.exists());
    }
}
