use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicUsize;
use std::time::SystemTime;

use super::*;
use crate::cache::DamagedEntry;
use crate::tarballs::{sha1, sha512};
use base::events::{Event, Sink};

/// The digest of the inputs of a package.
const PACKAGE_KEY: &str = "0123456789abcdef";
const VM_PACKAGE: PackageId<'_> = PackageId { kind: PackageKind::Vm, key: PACKAGE_KEY };

/// Objects in memory, whose requests can fail.
#[derive(Default)]
struct Memory {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    /// The number of requests.
    requests: AtomicUsize,
    /// True if all requests fail.
    is_down: AtomicBool,
    /// True if writes fail.
    is_read_only: AtomicBool,
    /// The time that a read takes, in milliseconds.
    delay_ms: AtomicUsize,
    /// Bytes that are added to the size of an object in every answer.
    growth: AtomicUsize,
    /// True if writes wait until the run ends.
    stalls: AtomicBool,
    end_check: Mutex<Option<InterruptCheck>>,
}

/// The storage of a [`Memory`], which several caches can share.
struct MemoryStorage(Arc<Memory>);

impl SharedStorage for MemoryStorage {
    fn read(&self, object: &str, offset: u64, length: u64) -> io::Result<Option<ObjectPart>> {
        let memory = &self.0;
        let request_count_before = memory.requests.fetch_add(1, Ordering::SeqCst) as u64;
        std::thread::sleep(Duration::from_millis(memory.delay_ms.load(Ordering::SeqCst) as u64));
        if memory.is_down.load(Ordering::SeqCst) {
            return Err(io::Error::other(format!("reading '{object}': no answer")));
        }
        let objects = memory.objects.lock();
        let Some(content) = objects.get(object) else { return Ok(None) };
        let start = content.len().min(offset as usize);
        let end = content.len().min(start + length as usize);
        let growth = memory.growth.load(Ordering::SeqCst) as u64;
        let total = content.len() as u64 + growth * (request_count_before + 1);
        Ok(Some(ObjectPart { bytes: content[start..end].to_vec(), total }))
    }

    fn write(&self, object: &str, content: &mut dyn Read, size: u64) -> io::Result<()> {
        let memory = &self.0;
        memory.requests.fetch_add(1, Ordering::SeqCst);
        if memory.is_down.load(Ordering::SeqCst) || memory.is_read_only.load(Ordering::SeqCst) {
            return Err(io::Error::other(format!("writing '{object}': access is denied")));
        }
        while memory.stalls.load(Ordering::SeqCst) {
            memory.end_check.lock().as_ref().unwrap()().map_err(io::Error::other)?;
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        assert_eq!(bytes.len() as u64, size);
        memory.objects.lock().insert(object.to_owned(), bytes);
        Ok(())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<StoredObject>> {
        let objects = self.0.objects.lock();
        let names = objects.iter().filter_map(|(name, content)| {
            let name = name.strip_prefix(folder)?.strip_prefix('/')?.to_owned();
            Some(StoredObject { name, size: content.len() as u64, write_time: SystemTime::now() })
        });
        Ok(names.collect())
    }

    fn remove(&self, object: &str) -> io::Result<()> {
        self.0.objects.lock().remove(object);
        Ok(())
    }
}

struct WarningRecorder(Arc<Mutex<Vec<String>>>);

impl Sink for WarningRecorder {
    fn receive(&self, event: &Event) {
        if let Event::Warning(warning) = event {
            let texts = [std::slice::from_ref(&warning.text), &warning.hints].concat();
            self.0.lock().push(texts.join("; "));
        }
    }
}

/// A machine with access to a [`Memory`].
struct Machine {
    shared_cache: SharedCache,
    warnings: Arc<Mutex<Vec<String>>>,
    directory: tempfile::TempDir,
}

impl Machine {
    fn new(memory: &Arc<Memory>, signing_key: Option<&SshKey>, trusted_keys: &[&SshKey]) -> Self {
        let warnings = Arc::<Mutex<Vec<String>>>::default();
        let memory = Arc::clone(memory);
        let settings = SharedCacheSettings {
            url: "memory://cache".to_owned(),
            needs_network: true,
            open: Box::new(move |check| -> Result<Arc<dyn SharedStorage>> {
                *memory.end_check.lock() = Some(check);
                Ok(Arc::new(MemoryStorage(Arc::clone(&memory))))
            }),
            may_upload: true,
            signing_key: signing_key.cloned(),
            reporter: Reporter::new(Arc::new(WarningRecorder(Arc::clone(&warnings)))),
            interrupt_check: Arc::new(|| Ok(())),
        };
        let trusted_keys = trusted_keys.iter().map(|key| key.verifying_key().unwrap()).collect();
        let shared_cache = SharedCache::new(trusted_keys, settings);
        Machine { shared_cache, warnings, directory: tempfile::tempdir().unwrap() }
    }

    fn reader(memory: &Arc<Memory>, trusted_keys: &[&SshKey]) -> Self {
        Machine::new(memory, None, trusted_keys)
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.lock().clone()
    }

    /// Returns the only warning.
    #[track_caller]
    fn warning(&self) -> String {
        let warnings = self.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        warnings.concat()
    }

    /// Uploads a download, and waits for it.
    fn put(&self, content: &[u8], digest: &str) {
        let path = self.directory.path().join("file");
        fs::write(&path, content).unwrap();
        self.shared_cache.upload_download(&digest.parse().unwrap(), &path);
        self.shared_cache.finish();
    }

    fn get(&self, digest: &str) -> Option<Vec<u8>> {
        let expected: Digest = digest.parse().unwrap();
        let mut content = Vec::new();
        let result = self.shared_cache.copy_download(&expected, &mut |part| {
            assert_eq!(part.offset, content.len() as u64);
            content.extend_from_slice(part.bytes);
            Ok(())
        });
        let digest = result.unwrap()?;
        assert!(digest.hex(Algorithm::Sha256).is_some() && expected.check(&digest, "it").is_ok());
        Some(content)
    }

    /// Signs and uploads a package, and waits for it.
    fn put_package(&self, id: &PackageId<'_>, content: &[u8]) {
        let path = self.directory.path().join("package");
        fs::write(&path, content).unwrap();
        let digest = Digest::compute(content, &[Algorithm::Sha256]);
        self.shared_cache.upload_package(id, &path, &digest);
        self.shared_cache.finish();
    }

    fn get_package(&self, id: &PackageId<'_>) -> Option<Vec<u8>> {
        let package = self.shared_cache.find_package(id)?;
        let signature = self.directory.path().join("signature");
        fs::write(&signature, serde_json::to_vec(&package.signed_digest).unwrap()).unwrap();
        assert!(self.shared_cache.trusts(id, &signature));
        let mut content = Vec::new();
        let result = self.shared_cache.copy_package(&package, &mut |part| {
            content.extend_from_slice(part.bytes);
            Ok(())
        });
        result.unwrap().map(|_| content)
    }
}

fn key() -> SshKey {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).stdin(Stdio::null());
    assert!(keygen.status().unwrap().success());
    SshKey::parse(&fs::read_to_string(path).unwrap(), None).unwrap()
}

#[test]
fn downloads_are_found_by_their_digest() {
    let memory = Arc::<Memory>::default();
    let content = vec![7; usize::try_from(PART_BYTES).unwrap() + 1];
    for digest in [sha1(&content), sha512(&content)] {
        assert_eq!(Machine::reader(&memory, &[]).get(&digest), None);
        Machine::reader(&memory, &[]).put(&content, &digest);
        let machine = Machine::reader(&memory, &[]);
        assert_eq!(machine.get(&digest).as_ref(), Some(&content));
        assert!(machine.warnings().is_empty());
    }
    assert_eq!(memory.objects.lock().len(), 2);
}

#[test]
fn wrong_content_is_not_used_and_warned_of_once() {
    let memory = Arc::<Memory>::default();
    let machine = Machine::reader(&memory, &[]);
    for content in ["one", "two", "three"] {
        machine.put(content.as_bytes(), &sha1(content.as_bytes()));
    }
    let mut objects = memory.objects.lock();
    for content in ["one", "two"] {
        objects.insert(format!("downloads/sha1-{}", sha1(content.as_bytes())), b"evil".to_vec());
    }
    drop(objects);
    assert_eq!((machine.get(&sha1(b"one")), machine.get(&sha1(b"two"))), (None, None));
    assert_eq!(machine.get(&sha1(b"three")).unwrap(), b"three", "an undamaged entry was not used");
    let warning = machine.warning();
    for part in [&format!("downloads/sha1-{}", sha1(b"one")), "memory://cache", "does not match"] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
}

#[test]
fn package_needs_the_signature_of_a_trusted_key() {
    let memory = Arc::<Memory>::default();
    let (key, other) = (key(), key());
    Machine::new(&memory, Some(&key), &[]).put_package(&VM_PACKAGE, b"package");
    for trusted_keys in [&[&key][..], &[&other, &key]] {
        let machine = Machine::reader(&memory, trusted_keys);
        assert_eq!(machine.get_package(&VM_PACKAGE).unwrap(), b"package");
        assert!(machine.warnings().is_empty());
    }
    // The key of the machine itself is trusted.
    assert!(Machine::new(&memory, Some(&key), &[]).get_package(&VM_PACKAGE).is_some());
    let machine = Machine::reader(&memory, &[&other]);
    assert_eq!((machine.get_package(&VM_PACKAGE), machine.get_package(&VM_PACKAGE)), (None, None));
    let warning = machine.warning();
    assert!(warning.contains("signed by a key that is not trusted"), "{warning}");
    // Without any key, the cache is not even asked.
    let request_count_before = memory.requests.load(Ordering::SeqCst);
    assert_eq!(Machine::reader(&memory, &[]).get_package(&VM_PACKAGE), None);
    assert_eq!(memory.requests.load(Ordering::SeqCst), request_count_before);
}

#[test]
fn unsigned_machine_uploads_no_packages() {
    let memory = Arc::<Memory>::default();
    let machine = Machine::reader(&memory, &[]);
    assert!(!machine.shared_cache.uploads_packages());
    machine.put_package(&VM_PACKAGE, b"package");
    assert!(memory.objects.lock().is_empty());
}

#[test]
fn signed_package_is_of_no_use_under_another_name() {
    let memory = Arc::<Memory>::default();
    let key = key();
    Machine::new(&memory, Some(&key), &[]).put_package(&VM_PACKAGE, b"package");
    let sha256 = Digest::compute(b"package", &[Algorithm::Sha256]);
    let sha256 = sha256.hex(Algorithm::Sha256).unwrap();
    let object = |id: &PackageId<'_>| memory.objects.lock().get(&id.signed_digest_object()).cloned();
    let signed_digest = object(&VM_PACKAGE).unwrap();
    for other in [
        PackageId { key: "fedcba9876543210", ..VM_PACKAGE },
        PackageId { kind: PackageKind::Cpi, ..VM_PACKAGE },
    ] {
        let mut objects = memory.objects.lock();
        objects.insert(other.signed_digest_object(), signed_digest.clone());
        objects.insert(other.archive_object(sha256), b"package".to_vec());
        drop(objects);
        let machine = Machine::reader(&memory, &[&key]);
        assert_eq!(machine.get_package(&other), None);
        assert!(machine.warning().contains("signature is of another content"), "{}", machine.warning());
    }
}

#[test]
fn changed_package_is_not_used() {
    let memory = Arc::<Memory>::default();
    let key = key();
    Machine::new(&memory, Some(&key), &[]).put_package(&VM_PACKAGE, b"package");
    let sha256 = Digest::compute(b"package", &[Algorithm::Sha256]);
    let archive = VM_PACKAGE.archive_object(sha256.hex(Algorithm::Sha256).unwrap());
    let original = memory.objects.lock().get(&VM_PACKAGE.signed_digest_object()).cloned().unwrap();
    let signed_digest = String::from_utf8(original.clone()).unwrap();
    let evil = Digest::compute(b"evil!!!", &[Algorithm::Sha256]);
    let evil = evil.hex(Algorithm::Sha256).unwrap();
    for (name, content) in [
        (archive.clone(), "evil!!!".to_owned()),
        (archive.clone(), "a much longer file".to_owned()),
        (
            VM_PACKAGE.signed_digest_object(),
            signed_digest.replace(sha256.hex(Algorithm::Sha256).unwrap(), evil),
        ),
        (VM_PACKAGE.signed_digest_object(), signed_digest.replace("\"size\":7", "\"size\":8")),
        (VM_PACKAGE.signed_digest_object(), "{}".to_owned()),
        (
            VM_PACKAGE.signed_digest_object(),
            "x".repeat(usize::try_from(MAX_SIGNED_DIGEST_BYTES).unwrap() + 1),
        ),
        (
            VM_PACKAGE.signed_digest_object(),
            signed_digest.replace(sha256.hex(Algorithm::Sha256).unwrap(), "../../etc/passwd"),
        ),
    ] {
        let mut objects = memory.objects.lock();
        objects.insert(archive.clone(), b"package".to_vec());
        objects.insert(VM_PACKAGE.signed_digest_object(), original.clone());
        objects.insert(VM_PACKAGE.archive_object(evil), b"evil!!!".to_vec());
        objects.insert(name.clone(), content.clone().into_bytes());
        drop(objects);
        let machine = Machine::reader(&memory, &[&key]);
        assert_eq!(machine.get_package(&VM_PACKAGE), None, "{name}: {content}");
        machine.warning();
    }
}

#[test]
fn failure_ends_the_use_of_the_cache_with_one_warning() {
    let memory = Arc::<Memory>::default();
    let key = key();
    memory.is_down.store(true, Ordering::SeqCst);
    let machine = Machine::new(&memory, Some(&key), &[]);
    for _ in 0..3 {
        assert_eq!(machine.get(&sha1(b"x")), None);
        assert_eq!(machine.get_package(&VM_PACKAGE), None);
        machine.put(b"x", &sha1(b"x"));
        machine.put_package(&VM_PACKAGE, b"package");
    }
    assert_eq!(memory.requests.load(Ordering::SeqCst), 1);
    let warning = machine.warning();
    for part in ["'memory://cache' cannot be used", "goes on without it", "no answer"] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
}

#[test]
fn storage_that_cannot_be_opened_is_a_warning() {
    let warnings = Arc::<Mutex<Vec<String>>>::default();
    let settings = SharedCacheSettings {
        url: "s3://b".to_owned(),
        needs_network: true,
        open: Box::new(|_| -> Result<Arc<dyn SharedStorage>> {
            Err(Error::usage("no credentials").with_hint("set them"))
        }),
        may_upload: true,
        signing_key: None,
        reporter: Reporter::new(Arc::new(WarningRecorder(Arc::clone(&warnings)))),
        interrupt_check: Arc::new(|| Ok(())),
    };
    let shared_cache = SharedCache::new(Vec::new(), settings);
    let digest: Digest = sha1(b"x").parse().unwrap();
    for _ in 0..2 {
        assert_eq!(shared_cache.copy_download(&digest, &mut |_| Ok(())).unwrap(), None);
    }
    let warnings = warnings.lock();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].ends_with("goes on without it: no credentials; set them"), "{warnings:?}");
}

#[test]
fn read_only_cache_is_still_read() {
    let memory = Arc::<Memory>::default();
    Machine::reader(&memory, &[]).put(b"x", &sha1(b"x"));
    memory.is_read_only.store(true, Ordering::SeqCst);
    let machine = Machine::reader(&memory, &[]);
    machine.put(b"y", &sha1(b"y"));
    machine.put(b"z", &sha1(b"z"));
    assert_eq!(machine.get(&sha1(b"x")).unwrap(), b"x");
    let warning = machine.warning();
    assert!(warning.contains("cannot be written") && warning.contains("access is denied"), "{warning}");
}

#[test]
fn slow_searches_end_the_use_of_the_cache() {
    let memory = Arc::<Memory>::default();
    let key = key();
    let machine = Machine::reader(&memory, &[&key]);
    let delay = SEARCH_TIMEOUT / 4;
    memory.delay_ms.store(usize::try_from(delay.as_millis()).unwrap(), Ordering::SeqCst);
    for number in 0..20 {
        let key = format!("{number:016}");
        assert_eq!(machine.get_package(&PackageId { key: &key, ..VM_PACKAGE }), None);
    }
    assert!(memory.requests.load(Ordering::SeqCst) <= 5);
    assert!(machine.warning().contains("its answers have taken"), "{}", machine.warning());
}

#[test]
fn object_that_grows_is_not_read_to_an_end() {
    let memory = Arc::<Memory>::default();
    let content = vec![7; usize::try_from(PART_BYTES).unwrap() + 1];
    Machine::reader(&memory, &[]).put(&content, &sha1(&content));
    memory.growth.store(1 << 30, Ordering::SeqCst);
    let machine = Machine::reader(&memory, &[]);
    assert_eq!(machine.get(&sha1(&content)), None);
    assert!(machine.warning().contains("another size than expected"), "{}", machine.warning());
}

#[test]
fn uploads_that_do_not_end_are_ended_with_the_run() {
    let memory = Arc::<Memory>::default();
    memory.stalls.store(true, Ordering::SeqCst);
    let machine = Machine::reader(&memory, &[]);
    let path = machine.directory.path().join("file");
    fs::write(&path, b"x").unwrap();
    for content in [b"x", b"y"] {
        machine.shared_cache.upload_download(&sha1(content).parse().unwrap(), &path);
    }
    let start = Instant::now();
    machine.shared_cache.finish();
    assert!(start.elapsed() >= END_TIMEOUT && start.elapsed() < END_TIMEOUT + Duration::from_secs(10));
    let warning = machine.warning();
    assert!(warning.starts_with("2 uploads to the cache"), "{warning}");
    machine.shared_cache.finish();
}

#[test]
fn entries_are_listed_verified_and_removed() {
    let memory = Arc::<Memory>::default();
    let (key, other) = (key(), key());
    Machine::reader(&memory, &[]).put(b"x", &sha1(b"x"));
    Machine::reader(&memory, &[]).put(b"y", &sha512(b"y"));
    let cpi = PackageId { kind: PackageKind::Cpi, ..VM_PACKAGE };
    for name in [&VM_PACKAGE, &cpi] {
        Machine::new(&memory, Some(&key), &[]).put_package(name, b"package");
    }
    let storage = MemoryStorage(Arc::clone(&memory));
    let entries = list(&storage).unwrap();
    let kinds: Vec<(&str, u64)> = entries.iter().map(|entry| (entry.kind.as_str(), entry.size)).collect();
    assert_eq!(kinds, [("compiled", 7), ("cpi", 7), ("downloads", 1), ("downloads", 1)]);

    let problems = |keys: &[&SshKey]| -> Vec<String> {
        let keys: Vec<VerifyingKey> = keys.iter().map(|key| key.verifying_key().unwrap()).collect();
        let verification = verify(&storage, &keys).unwrap();
        assert!(verification.entries >= 4, "{verification:?}");
        let problem = |entry: DamagedEntry| format!("{}/{}: {}", entry.kind, entry.name, entry.problem);
        verification.damaged_entries.into_iter().map(problem).collect()
    };
    assert_eq!(problems(&[&key]), Vec::<String>::new());
    let untrusted = problems(&[&other]);
    assert_eq!(untrusted.len(), 2, "a package is not listed once: {untrusted:?}");
    assert!(untrusted[0].ends_with("signed by a key that is not trusted"), "{untrusted:?}");
    let download = format!("downloads/sha1-{}", sha1(b"x"));
    memory.objects.lock().insert(download.clone(), b"z".to_vec());
    memory.objects.lock().insert(VM_PACKAGE.archive_object("0"), b"orphan".to_vec());
    memory.objects.lock().remove(&format!("cpi/{}", entries[1].name));
    let problems = problems(&[&key]);
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems[0].starts_with(&download), "{problems:?}");
    assert!(problems[1].ends_with("no valid signature names it"), "{problems:?}");
    assert!(problems[2].ends_with("its content is missing"), "{problems:?}");

    assert_eq!(prune(&storage, Duration::from_secs(60)).unwrap().removed_count, 0);
    let counts = prune(&storage, Duration::ZERO).unwrap();
    assert_eq!((counts.removed_count, counts.kept_count), (4, 0));
    assert!(memory.objects.lock().is_empty());
}

#[test]
fn directory_is_read_by_others_and_never_waits() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("cache");
    let storage = SharedDirectory::new(&root, true);
    assert!(storage.read("downloads/a", 0, 10).unwrap().is_none());
    storage.write("downloads/a", &mut &b"content"[..], 7).unwrap();
    storage.write("downloads/a", &mut &b"content"[..], 7).unwrap();
    let part = storage.read("downloads/a", 2, 3).unwrap().unwrap();
    assert_eq!((part.bytes.as_slice(), part.total), (&b"nte"[..], 7));
    assert_eq!(fs::read_dir(root.join("downloads")).unwrap().count(), 1, "a temporary file was left");
    let mode = fs::metadata(root.join("downloads/a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o400, 0o400);

    let objects = storage.list("downloads").unwrap();
    assert_eq!((objects.len(), objects[0].name.as_str(), objects[0].size), (1, "a", 7));
    assert!(storage.list("compiled").unwrap().is_empty());
    storage.remove("downloads/a").unwrap();
    storage.remove("downloads/a").unwrap();
    assert!(storage.list("downloads").unwrap().is_empty());

    let status = Command::new("mkfifo").arg(root.join("downloads/fifo")).status().unwrap();
    assert!(status.success());
    let error = storage.read("downloads/fifo", 0, 10).unwrap_err();
    assert!(error.to_string().ends_with("it is not a regular file"), "{error}");
    let missing = SharedDirectory::new(&directory.path().join("missing"), false);
    let error = missing.read("downloads/a", 0, 10).unwrap_err();
    assert!(error.to_string().contains("missing' does not exist"), "{error}");
}
