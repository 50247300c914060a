//! The file of generated values.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::previous;
use crate::document_kind::{MANIFEST_SECTIONS, matched_state_key};
use crate::files;
use crate::inputs::SavePolicy;
use crate::node_kind::kind_with_article;
use base::encryption::{Encryption, StoredForm};
use base::error::ResultExt;
use base::files::directory::{check_directory, parent};
use base::files::durable::{Replacement, remove_temporaries};
use base::files::{UnlockOnDrop, is_in_place};
use base::text::shell_word;
use base::{Error, Result};
use yaml::{self, Data, Mapping, Node};

/// A vars store: a YAML mapping from variable names to values, in the format of the bosh CLI.
///
/// A run that generates values locks the store and reads it again first. If two runs do so at once, the
/// second one uses the values of the first.
#[derive(Debug)]
pub struct VarsStore {
    path: PathBuf,
    values: Mapping,
    exists: bool,
    has_changed: bool,
    lock: Option<UnlockOnDrop>,
    /// True if [`Self::lock`] created the file.
    is_made_for_lock: bool,
    save_policy: SavePolicy,
    encryption: Encryption,
    /// The encryption of the file as last read or written.
    stored_form: StoredForm,
    /// The content of the file as last read or written, which is empty for a missing file. The run may have
    /// no identity to decrypt what it wrote.
    content: Vec<u8>,
}

impl VarsStore {
    /// Opens the store at `path`. A missing file is an empty store.
    pub fn open(path: &Path, encryption: &Encryption) -> Result<Self> {
        let mut store = VarsStore {
            path: path.to_owned(),
            values: Mapping::new(),
            exists: false,
            has_changed: false,
            lock: None,
            is_made_for_lock: false,
            save_policy: SavePolicy::AtOnce,
            encryption: encryption.clone(),
            stored_form: StoredForm::Plain,
            content: Vec::new(),
        };
        store.read()?;
        Ok(store)
    }

    /// Returns the same values, detached from the file: [`Self::save`] writes nothing, and no lock is taken.
    pub fn detach(self, save_policy: SavePolicy) -> Self {
        VarsStore { save_policy, ..self }
    }

    fn is_detached(&self) -> bool {
        self.save_policy != SavePolicy::AtOnce
    }

    /// Returns true if values that are set are never written.
    pub fn is_read_only(&self) -> bool {
        self.save_policy == SavePolicy::Never
    }

    /// Returns true if the caller has values to save with [`Self::attach_and_save`].
    pub fn is_unsaved(&self) -> bool {
        self.has_changed && self.save_policy == SavePolicy::ByCaller
    }

    /// Saves the values that were set while the store was detached. Fails if the file has changed since it
    /// was read.
    pub fn attach_and_save(mut self) -> Result<()> {
        let (values, content) = (std::mem::take(&mut self.values), self.content.clone());
        self.save_policy = SavePolicy::AtOnce;
        self.lock()?;
        let result = if self.content == content {
            self.values = values;
            self.save()
        } else {
            Err(Error::failure(format!(
                "vars store '{}' has changed since this run read it, so the generated values are not saved",
                self.path.display()
            ))
            .with_hint("run the same command again"))
        };
        self.unlock();
        result
    }

    fn read(&mut self) -> Result<()> {
        // A file that may not be read is no missing one: its values would be generated again.
        self.exists = self.path.try_exists().unwrap_or(true);
        if !self.exists {
            self.values = Mapping::new();
            self.content = Vec::new();
            return Ok(());
        }
        let bytes = files::read_bytes(&self.path, "vars store")?;
        if !bytes.is_empty() && self.content == bytes {
            return Ok(());
        }
        self.content = bytes.clone();
        self.stored_form = self.encryption.stored_form(&bytes);
        let bytes = self.encryption.decrypt(bytes).map_err(|error| {
            Error::invalid(format!("vars store '{}' cannot be read", self.path.display())).with_source(error)
        })?;
        let root = yaml::load(&files::utf8_text(bytes, &self.path, "vars store")?, &self.path)?;
        self.values = match root.data {
            Data::Map(map) => map,
            Data::Null => Mapping::new(),
            _ => {
                return Err(Error::invalid(format!(
                    "vars store '{}' is {}, not a mapping of names to values",
                    self.path.display(),
                    kind_with_article(&root)
                ))
                .with_hint("name the right file, or restore this one from a backup"));
            }
        };
        Ok(())
    }

    /// Fails if the file is a manifest or a state. Saving it would replace its text. The error names the
    /// `option` that gave the path, such as ` (--vars-store)`.
    pub fn check_is_vars_store(&self, option: &str) -> Result<()> {
        let has_key = |key: &str| self.get(key).is_some();
        let manifest_key = || MANIFEST_SECTIONS.into_iter().find(|key| has_key(key));
        let state_match = matched_state_key(has_key).map(|key| ("state", key));
        match state_match.or_else(|| manifest_key().map(|key| ("manifest", key))) {
            None => Ok(()),
            Some((kind, key)) => Err(Error::invalid(format!(
                "'{}'{option} is a {kind}, not a vars store: it has `{key}`",
                self.path.display()
            ))),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the file existed when it was last read.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.values.get(name)
    }

    /// Returns the names of all variables.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.iter().map(|(name, _)| name).collect::<Vec<_>>().into_iter()
    }

    /// Returns all variables with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        let entries = self.values.iter().filter_map(|(key, value)| key.as_str().map(|name| (name, value)));
        entries.filter(|(name, _)| *name != previous::PREVIOUS_KEY)
    }

    /// Returns the content of the file, with the values that rotations replaced.
    pub fn root(&self) -> Node {
        Data::Map(self.values.clone()).into()
    }

    /// Sets a value. [`Self::save`] writes it.
    pub fn set(&mut self, name: &str, value: Node) {
        self.values.insert(Node::string(name), value);
        self.has_changed = true;
    }

    /// Returns the list of values that rotations replaced, see [`previous`].
    pub(crate) fn previous(&self) -> Option<&Node> {
        self.values.get(previous::PREVIOUS_KEY)
    }

    /// Keeps replaced values until [`Self::drop_previous_values`]. [`Self::save`] writes them.
    pub(crate) fn keep_previous(&mut self, replaced_values: &[(String, Node)]) {
        if let Some(list) = previous::add_rotation(self.previous(), replaced_values) {
            self.set(previous::PREVIOUS_KEY, list);
        }
    }

    /// Removes the replaced values of these variables from the file.
    pub fn drop_previous_values(&mut self, names: &[&str]) -> Result<()> {
        if self.previous().is_none() || self.is_detached() {
            return Ok(());
        }
        self.lock()?;
        let remaining_rotations = self.previous().map(|list| previous::without_variables(list, names));
        match remaining_rotations {
            Some(list) if list.as_seq().is_some_and(|rotations| !rotations.is_empty()) => {
                self.set(previous::PREVIOUS_KEY, list);
            }
            _ => {
                self.values.remove(previous::PREVIOUS_KEY);
                self.has_changed = true;
            }
        }
        let result = self.save();
        self.unlock();
        result
    }

    /// Returns the option that selects another path, for hints. It is empty if the store exists, because the
    /// store at another path would lack its values.
    fn new_path_option(&self) -> &'static str {
        if self.exists { "" } else { "--vars-store FILE" }
    }

    /// Locks the store against other runs until [`Self::unlock`], and reads it again. The lock ends with the
    /// process.
    pub fn lock(&mut self) -> Result<()> {
        if self.is_detached() {
            return Ok(());
        }
        let lock_error = |error| {
            Error::io(format!("locking vars store '{}'", self.path.display()), error)
                .with_path_hint(&self.path, self.new_path_option())
        };
        let is_absent = !self.path.exists();
        if is_absent {
            check_directory(parent(&self.path), "")
                .context(|| format!("vars store '{}' cannot be created", self.path.display()))?;
        }
        loop {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = UnlockOnDrop::from(options.open(&self.path).map_err(lock_error)?);
            file.lock().map_err(lock_error)?;
            // The previous holder of the lock may have replaced the file that this run waited for.
            if is_in_place(&file, &self.path).map_err(lock_error)? {
                self.lock = Some(file);
                self.is_made_for_lock = is_absent;
                break;
            }
        }
        self.read()
    }

    /// Releases the lock.
    pub fn unlock(&mut self) {
        if let Some(file) = &self.lock
            && self.is_made_for_lock
            && file.metadata().is_ok_and(|metadata| metadata.len() == 0)
        {
            // The file was created for the lock and is still empty. A run that waits for the lock notices
            // that it is gone.
            let _ = std::fs::remove_file(&self.path);
        }
        self.is_made_for_lock = false;
        self.lock = None;
    }

    /// Encrypts the file for the current recipients, unless it already is.
    pub fn reencrypt(mut self) -> Result<Self> {
        if self.exists && self.encryption.encrypts() && self.stored_form != StoredForm::CurrentRecipients {
            self.lock()?;
            self.has_changed = true;
            let result = self.save();
            self.unlock();
            result?;
        }
        Ok(self)
    }

    /// Writes the store if a value was set: a new file of mode 0600 is made durable, then replaces the old
    /// one.
    pub fn save(&mut self) -> Result<()> {
        if !self.has_changed || self.is_detached() {
            return Ok(());
        }
        let write_error = |error| {
            Error::io(format!("writing vars store '{}'", self.path.display()), error)
                .with_path_hint(&self.path, self.new_path_option())
        };
        // A store behind a symbolic link stays at the link's target.
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        if self.stored_form != StoredForm::Plain && !self.encryption.encrypts() {
            return Err(Error::usage(format!(
                "vars store '{}' is encrypted, but no recipients are given to encrypt it for",
                path.display()
            ))
            .with_hint(
                "name its recipients: `monopile SAME-COMMAND --encrypt-to RECIPIENT`, or MONOPILE_ENCRYPT_TO",
            ));
        }
        let text = yaml::emit(&self.root());
        let text = self.encryption.encrypt(text.as_bytes()).map_err(write_error)?;
        if self.lock.is_some() {
            // Only the holder of the lock writes, so leftover temporary files are garbage.
            remove_temporaries(&path).map_err(write_error)?;
        }
        let replacement = Replacement::write(&path, &text, 0o600).map_err(write_error)?;
        if self.lock.is_some() {
            // The new file is locked before it replaces the old one, so that waiting runs go on waiting.
            replacement.file().lock().map_err(write_error)?;
        }
        let file = replacement.put_in_place().map_err(write_error)?;
        if self.lock.is_some() {
            self.lock = Some(UnlockOnDrop::from(file));
        }
        self.has_changed = false;
        self.content = text;
        self.stored_form =
            if self.encryption.encrypts() { StoredForm::CurrentRecipients } else { StoredForm::Plain };
        Ok(())
    }
}

/// Returns the note that this run made the vars store.
pub fn new_store_note(path: &Path) -> String {
    format!("generated variables are saved in '{}'", path.display())
}

/// The end of the name of a default vars store, after the name of the manifest without its extension.
pub(crate) const DEFAULT_SUFFIX: &str = "-vars.yml";

/// Returns the path of the default vars store of a manifest, beside it.
pub(crate) fn default_store_path(manifest: &Path) -> PathBuf {
    let mut name = manifest.file_stem().unwrap_or_default().to_owned();
    name.push(DEFAULT_SUFFIX);
    manifest.with_file_name(name)
}

/// Returns a command line of `monopile vars`. `word` is the one after the store, or empty.
pub(crate) fn command_line(command: &str, store: &Path, word: &str) -> String {
    let line = format!("monopile vars {command} {}", shell_word(&store.to_string_lossy()));
    if word.is_empty() { line } else { format!("{line} {}", shell_word(word)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(text: Option<&str>) -> (tempfile::TempDir, VarsStore) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vars.yml");
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let store = VarsStore::open(&path, &Encryption::default()).unwrap();
        (directory, store)
    }

    #[test]
    fn unknown_entries_are_kept() {
        let (_directory, mut store) = store(Some("b: {x: [1, ~]}\n12: twelve\na: 0644\n"));
        store.set("c", Node::string("new"));
        store.save().unwrap();
        let text = std::fs::read_to_string(store.path()).unwrap();
        assert_eq!(text, "12: twelve\na: 420\nb:\n  x:\n  - 1\n  - null\nc: new\n");
    }

    #[test]
    fn unlock_releases_the_lock_although_a_child_process_has_a_copy() {
        let (_directory, mut store) = store(Some("a: 1\n"));
        store.lock().unwrap();
        let copy = store.lock.as_ref().unwrap().try_clone().unwrap();
        assert!(File::open(store.path()).unwrap().try_lock().is_err());
        store.unlock();
        File::open(store.path()).unwrap().try_lock().unwrap();
        drop(copy);
    }

    #[test]
    fn replaced_values_are_kept_as_previous() {
        let (_directory, mut store) = store(Some("a: new\nb: new\n"));
        let tls =
            yaml::load("{ca: one, certificate: two, private_key: three}", Path::new("tls.yml")).unwrap();
        let pair = yaml::load("{public_key: one, private_key: two}", Path::new("rsa.yml")).unwrap();
        store.keep_previous(&[("rsa".to_owned(), pair)]);
        assert!(store.previous().is_none(), "a key pair was kept as a previous value");
        store.keep_previous(&[("b".to_owned(), tls)]);
        for number in 1..=5 {
            store.keep_previous(&[("a".to_owned(), Node::string(format!("old-{number}")))]);
        }
        assert_eq!(store.names().collect::<Vec<_>>(), ["a", "b"]);
        let rotations = previous::rotations(store.previous().unwrap());
        let first = rotations[0][0].1.as_str();
        assert_eq!((rotations.len(), first), (5, Some("old-5")), "the latest rotation is not the first");
        store.save().unwrap();
        let text = std::fs::read_to_string(store.path()).unwrap();
        assert!(text.contains("monopile_previous:") && !text.contains("three"), "{text}");
        store.drop_previous_values(&["b"]).unwrap();
        assert_eq!(previous::rotations(store.previous().unwrap()).len(), 5);
        store.drop_previous_values(&["a", "b"]).unwrap();
        assert_eq!(std::fs::read_to_string(store.path()).unwrap(), "a: new\nb: new\n");
    }

    #[test]
    fn detached_values_are_saved_unless_the_file_has_changed() {
        let (_directory, store) = store(Some("a: 1\n"));
        let path = store.path().to_owned();
        let detached_store = || {
            let store = VarsStore::open(&path, &Encryption::default()).unwrap();
            let mut store = store.detach(SavePolicy::ByCaller);
            assert!(!store.is_unsaved());
            store.lock().unwrap();
            store.set("b", Node::string("new"));
            store.save().unwrap();
            assert!(store.is_unsaved());
            store
        };
        let (first, second) = (detached_store(), detached_store());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a: 1\n");
        first.attach_and_save().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a: 1\nb: new\n");
        let error = second.attach_and_save().unwrap_err().to_string();
        assert!(error.ends_with("has changed since this run read it, so the generated values are not saved"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a: 1\nb: new\n");
        File::open(&path).unwrap().try_lock().unwrap();
    }

    #[test]
    fn file_is_private_and_has_no_temporary_files() {
        use std::os::unix::fs::PermissionsExt;
        let (directory, mut store) = store(Some("a: b\n"));
        std::fs::set_permissions(store.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        store.set("c", Node::string("d"));
        store.save().unwrap();
        assert_eq!(std::fs::metadata(store.path()).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn next_writer_removes_files_of_a_killed_one() {
        let (directory, mut store) = store(None);
        std::fs::write(directory.path().join(".vars.yml.Xy3.tmp"), "a: secret\n").unwrap();
        store.lock().unwrap();
        store.set("a", Node::string("b"));
        store.save().unwrap();
        store.unlock();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn concurrent_writers_lose_no_values() {
        let (_directory, store) = store(None);
        let path = store.path().to_owned();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    let mut store = VarsStore::open(path, &Encryption::default()).unwrap();
                    store.lock().unwrap();
                    store.set(&format!("v{writer}"), Node::string("x"));
                    store.save().unwrap();
                    store.unlock();
                });
            }
        });
        assert_eq!(VarsStore::open(&path, &Encryption::default()).unwrap().names().count(), 8);
    }

    #[test]
    fn lock_without_a_write_leaves_no_file() {
        let (directory, mut store) = store(None);
        store.lock().unwrap();
        store.unlock();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        std::fs::write(store.path(), "").unwrap();
        store.lock().unwrap();
        store.unlock();
        assert!(store.path().exists(), "unlocking removed a file that existed before");
    }

    #[test]
    fn rejects_a_store_that_is_not_a_mapping() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vars.yml");
        std::fs::write(&path, "- a\n").unwrap();
        assert!(
            VarsStore::open(&path, &Encryption::default())
                .unwrap_err()
                .to_string()
                .ends_with("is a list, not a mapping of names to values")
        );
    }
}
