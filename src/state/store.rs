//! The locked state: the only way to write it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::change::Change;
use super::file::{State, backup_path};
use super::journal::Journal;
use super::lock::{Holder, Lock, Waiting};
use super::versions;
use crate::durable::{parent, remove_durably, sweep_temporaries, temporary_path, write_atomically};
use crate::error::ResultExt;
use crate::{Error, Result};

/// A state that this run, and no other, may change.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    state: State,
    journal: Journal,
    on_disk: bool,
    /// A version was kept of what the file said when this run began to write.
    kept: bool,
    _lock: Lock,
}

impl Store {
    /// Locks the state at `path` and reads it; a new one begins where there is no file. Nothing but the lock is
    /// written before the first change.
    pub fn open(path: &Path, holder: &Holder) -> Result<Self> {
        Self::open_waiting(path, holder, &mut Err)
    }

    /// As [`Store::open`]; while another run holds the state, `held` is asked whether to try again.
    pub fn open_waiting(path: &Path, holder: &Holder, held: &mut Waiting<'_>) -> Result<Self> {
        let (path, lock) = lock(path, holder, held)?;
        let path = path.as_path();
        let read = State::read(path)?;
        let on_disk = read.is_some();
        let journal = Journal::at(path);
        [path, &backup_path(path)]
            .into_iter()
            .try_for_each(sweep_temporaries)
            .and_then(|()| journal.sweep())
            .and_then(|()| versions::sweep(path))
            .map_err(|error| {
                Error::io(format!("clearing up after an interrupted run beside '{}'", path.display()), error)
            })?;
        let state = read.unwrap_or_else(State::new);
        let store = Store { path: path.to_owned(), state, journal, on_disk, kept: false, _lock: lock };
        // A `create_vm` that is still open may have made one.
        if store.state.vm_cid().is_none() && store.journal.is_settled()? {
            store.forget_registry()?;
        }
        Ok(store)
    }

    /// Puts a kept version in the place of the state at `path`, which is kept itself, whether it can be used or
    /// not. `agree` gets both before anything is written; the present one is none where it cannot be used.
    pub fn restore(
        path: &Path,
        holder: &Holder,
        held: &mut Waiting<'_>,
        version: &str,
        agree: &mut dyn FnMut(Option<&State>, &State) -> Result<()>,
    ) -> Result<()> {
        let (path, lock) = lock(path, holder, held)?;
        let kept = versions::versions(&path)?;
        let names: Vec<&str> = kept.iter().map(|kept| kept.name.as_str()).collect();
        let known = if names.is_empty() { "none is kept".to_owned() } else { names.join(", ") };
        let no_such = format!("there is no version '{version}' of '{}': {known}", path.display());
        let wanted =
            kept.into_iter().find(|kept| kept.name == version).ok_or_else(|| Error::invalid(no_such))?;
        let wanted = wanted.state.context(|| format!("version '{version}' cannot be used"))?;
        let on_disk = path.exists();
        // What cannot be used is replaced by what can.
        let present = State::read(&path).ok().flatten();
        agree(present.as_ref(), &wanted)?;
        let journal = Journal::at(&path);
        let state = present.unwrap_or_default();
        let mut store = Store { path, state, journal, on_disk, kept: false, _lock: lock };
        store.commit(Change::Replaced(Box::new(wanted)))
    }

    /// Keeps the state as it is as a version of its own; returns its number.
    pub fn keep_version(&self) -> Result<u64> {
        versions::keep(&self.path)
            .map_err(|error| Error::io(format!("keeping a version of '{}'", self.path.display()), error))
    }

    /// What is recorded.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Where it is recorded.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The calls announced and not yet settled.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Whether the file exists.
    pub fn exists(&self) -> bool {
        self.on_disk
    }

    /// Applies a change and makes it durable.
    pub fn commit(&mut self, change: Change) -> Result<()> {
        let ends_vm = matches!(change, Change::VmDeleted(_));
        let mut next = self.state.clone();
        next.apply(change)
            .map_err(|rejected| Error::environment("the state refuses a change").with_source(rejected))?;
        self.write(next)?;
        if ends_vm { self.forget_registry() } else { Ok(()) }
    }

    /// What was for the VM's agent goes with the VM.
    fn forget_registry(&self) -> Result<()> {
        self.journal.forget_registry().map_err(|error| {
            Error::io(format!("removing '{}'", self.journal.registry_file().display()), error)
        })
    }

    /// Writes the state as it is, so that a director id sent to a CPI is on record before the CPI sees it.
    pub fn establish(&mut self) -> Result<()> {
        if self.on_disk { Ok(()) } else { self.write(self.state.clone()) }
    }

    fn write(&mut self, next: State) -> Result<()> {
        if self.on_disk && next == self.state {
            return Ok(());
        }
        let bytes = next.to_bytes()?;
        let what = || format!("writing the state '{}' failed", self.path.display());
        if self.on_disk && !self.kept {
            // What it said before this run: a run writes often.
            self.keep_version().context(what)?;
            self.kept = true;
        }
        if self.on_disk {
            keep_backup(&self.path)
                .map_err(|error| Error::io(format!("keeping a copy of '{}'", self.path.display()), error))
                .context(what)?;
        }
        write_atomically(&self.path, &bytes).map_err(|error| {
            Error::environment(what())
                .with_source(error)
                .with_hint("the state on disk is the one before this change; free space or fix permissions, then run the same command again")
        })?;
        self.state = next;
        self.on_disk = true;
        // What this run itself wrote first is nothing to go back to.
        self.kept = true;
        Ok(())
    }

    /// Removes the state, its versions and its journal: nothing that it described exists any more.
    pub fn remove(self) -> Result<()> {
        if !self.state.is_empty_of_resources() {
            return Err(Error::environment("the state still records resources, so it is kept"));
        }
        self.journal.remove()?;
        versions::remove(&self.path).map_err(|error| {
            Error::io(format!("removing the kept versions of '{}'", self.path.display()), error)
        })?;
        for path in [backup_path(&self.path), self.path.clone()] {
            remove_durably(&path)
                .map_err(|error| Error::io(format!("removing '{}'", path.display()), error))?;
        }
        Ok(())
    }
}

/// Takes the lock of the state at `path`; returns where that really lies.
fn lock(path: &Path, holder: &Holder, held: &mut Waiting<'_>) -> Result<(PathBuf, Lock)> {
    let directory = parent(path);
    if !directory.is_dir() {
        return Err(Error::invalid(format!(
            "the directory '{}' for the state file does not exist",
            directory.display()
        )));
    }
    let path = resolve(path)?;
    let lock = Lock::take(&path, holder, held)?;
    Ok((path, lock))
}

/// Where the state file at `path` really lies. Two names for one file must mean one lock, and writing must not
/// replace a link by a second state.
pub fn resolve(path: &Path) -> Result<PathBuf> {
    follow_links(path).map_err(|error| Error::io(format!("following the link '{}'", path.display()), error))
}

/// Where a file really lies whose name is a symbolic link, whether it exists or not.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    /// As many as the kernel follows.
    const LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = parent(&path).join(target),
            // Not a link, or nothing there.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Keeps the present version beside it: a link, then a rename over the old backup, so that both names always
/// show a whole file.
fn keep_backup(path: &Path) -> io::Result<()> {
    let backup = backup_path(path);
    // Named so that it is swept when this is killed.
    let staging = temporary_path(path, "bak");
    remove_if_there(&staging)?;
    match fs::hard_link(path, &staging) {
        Ok(()) => {
            fs::rename(&staging, &backup)?;
            // Renaming a link over another one of the same file does nothing.
            remove_if_there(&staging)
        }
        // File systems without hard links get a copy.
        Err(_) => write_atomically(&backup, &fs::read(path)?),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use std::os::unix::fs::PermissionsExt;

    fn holder() -> Holder {
        Holder::this_process("create-env")
    }

    #[test]
    fn a_second_run_is_told_who_holds_the_state() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let first = Store::open(&path, &holder()).unwrap();
        let error = Store::open(&path, &holder()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked);
        assert!(error.to_string().contains("create-env"), "{error}");
        drop(first);
        Store::open(&path, &holder()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "a lock leaves nothing behind");
    }

    #[test]
    fn what_a_killed_writer_left_is_swept_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let journal = directory.path().join("m-state.json.journal");
        fs::create_dir(&journal).unwrap();
        fs::write(directory.path().join(".m-state.json.abc.tmp"), "").unwrap();
        fs::write(temporary_path(&path, "bak"), "").unwrap();
        fs::write(directory.path().join(".other-state.json.abc.tmp"), "").unwrap();
        fs::write(journal.join(".r.intent.abc.tmp"), "").unwrap();
        drop(Store::open(&path, &holder()).unwrap());
        let left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".other-state.json.abc.tmp"]);
    }

    #[test]
    fn the_file_is_private_and_its_predecessor_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let mut store = Store::open(&path, &holder()).unwrap();
        store.establish().unwrap();
        let first = fs::read(&path).unwrap();
        store
            .commit(Change::Deployed {
                manifest_sha: "abc".into(),
                releases: Vec::new(),
                manifest: None,
                durations: Default::default(),
            })
            .unwrap();
        assert_eq!(fs::read(backup_path(&path)).unwrap(), first);
        for file in [&path, &backup_path(&path)] {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(State::read(&path).unwrap().unwrap().current_manifest_sha, "abc");
        assert!(versions::versions(&path).unwrap().iter().all(|version| version.name == "bak"));
        drop(store);
        let mut store = Store::open(&path, &holder()).unwrap();
        store.commit(Change::DeployBegun { in_place: false }).unwrap();
        store
            .commit(Change::Deployed {
                manifest_sha: "def".into(),
                releases: Vec::new(),
                manifest: None,
                durations: Default::default(),
            })
            .unwrap();
        let kept = versions::versions(&path).unwrap();
        let said: Vec<_> = kept
            .iter()
            .map(|kept| (kept.name.as_str(), kept.state.as_ref().unwrap().current_manifest_sha.as_str()))
            .collect();
        assert_eq!(said, [("bak", ""), ("1", "abc")], "one version for each run");
        store.remove().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
    #[test]
    fn a_backup_that_is_already_the_present_version_leaves_no_third_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let mut store = Store::open(&path, &holder()).unwrap();
        store.establish().unwrap();
        // Killed after the backup was kept and before the new version was written.
        fs::hard_link(&path, backup_path(&path)).unwrap();
        store
            .commit(Change::Deployed {
                manifest_sha: "abc".into(),
                releases: Vec::new(),
                manifest: None,
                durations: Default::default(),
            })
            .unwrap();
        drop(store);
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["m-state.json", "m-state.json.bak"]);
    }

    #[test]
    fn a_version_takes_the_place_of_a_state_that_cannot_be_used() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let mut store = Store::open(&path, &holder()).unwrap();
        store.establish().unwrap();
        let good = store.state().clone();
        assert_eq!(store.keep_version().unwrap(), 1);
        drop(store);
        fs::write(&path, "{").unwrap();
        let restore = |version: &str, agreed: bool| {
            Store::restore(&path, &holder(), &mut Err, version, &mut |present, _| {
                assert!(present.is_none());
                if agreed { Ok(()) } else { Err(Error::usage("no")) }
            })
        };
        assert_eq!(restore("7", true).unwrap_err().kind(), ErrorKind::InvalidInput);
        restore("1", false).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"{");
        restore("1", true).unwrap();
        assert_eq!(State::read(&path).unwrap(), Some(good));
        let kept = versions::versions(&path).unwrap();
        assert_eq!(fs::read(&kept.iter().find(|kept| kept.name == "2").unwrap().path).unwrap(), b"{");
    }

    #[test]
    fn a_link_to_the_state_shares_its_lock_and_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("real.json");
        let link = directory.path().join("link.json");
        std::os::unix::fs::symlink("real.json", &link).unwrap();
        let mut store = Store::open(&link, &holder()).unwrap();
        assert_eq!(Store::open(&path, &holder()).unwrap_err().kind(), ErrorKind::Locked);
        store.establish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(State::read(&path).unwrap().as_ref(), Some(store.state()));
        std::os::unix::fs::symlink("loop.json", directory.path().join("loop.json")).unwrap();
        assert!(Store::open(&directory.path().join("loop.json"), &holder()).is_err());
    }

    #[test]
    fn what_the_registry_holds_lives_as_long_as_the_vm_may() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let mut store = Store::open(&path, &holder()).unwrap();
        store.establish().unwrap();
        let intent = crate::state::Intent {
            request_id: "r".into(),
            method: "create_vm".into(),
            terms: crate::cpi::Terms::new(2, None),
            cpi: None,
            why: "test".into(),
            effect: serde_json::json!({}),
            registry: None,
        };
        let file = store.journal().registry_file();
        let call = store.journal().begin(&intent).unwrap();
        fs::write(&file, "{}").unwrap();
        drop(store);
        let mut store = Store::open(&path, &holder()).unwrap();
        assert!(file.exists(), "the call may have made a VM");
        let vm = crate::state::Vm {
            cid: "vm-1".into(),
            agent_id: "a".into(),
            contract: crate::cpi::Contract::V1,
            networks: None,
            cpi: None,
            instance: "bosh/0".into(),
            ssh_host_key: None,
            made_of: None,
            ready: false,
        };
        store.commit(Change::VmCreated(Box::new(vm))).unwrap();
        call.settle().unwrap();
        drop(store);
        let mut store = Store::open(&path, &holder()).unwrap();
        assert!(file.exists(), "there is a VM");
        store.commit(Change::VmDeleted(crate::state::Handle::new("vm-1", None))).unwrap();
        assert!(!file.parent().unwrap().exists());

        // Left by a run that was killed between the deletion and this.
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, "{}").unwrap();
        drop(store);
        drop(Store::open(&path, &holder()).unwrap());
        assert!(!file.parent().unwrap().exists());
    }

    #[test]
    fn a_state_with_an_open_call_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m-state.json");
        let mut store = Store::open(&path, &holder()).unwrap();
        store.establish().unwrap();
        let intent = crate::state::Intent {
            request_id: "r".into(),
            method: "create_disk".into(),
            terms: crate::cpi::Terms::new(2, None),
            cpi: None,
            why: "test".into(),
            effect: serde_json::json!({}),
            registry: None,
        };
        store.journal().begin(&intent).unwrap();
        assert!(store.remove().is_err());
        assert!(path.exists());
    }
}
