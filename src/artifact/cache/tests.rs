use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::*;
use crate::tarballs::{JobTarball, ReleaseTarball, sha1, sha256, sha512};
use crate::{ArtifactIdentity, Source};
use base::ErrorKind;
use base::events::{Event, Reporter, Sink};

struct Silent;

impl Sink for Silent {
    fn receive(&self, _event: &Event) {}
}

fn identify(cache: &Cache, path: &Path, expected: Option<&str>) -> Result<ArtifactIdentity> {
    let expected: Option<Digest> = expected.map(|text| text.parse().unwrap());
    let reporter = Reporter::new(Arc::new(Silent));
    cache.identify(ArtifactKind::Release, &Source::local(path)?, expected.as_ref(), "release 'x'", &reporter)
}

fn age(path: &Path, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Overwrites a file with other content of the same length, and restores its modification time.
fn forge(path: &Path) -> Vec<u8> {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    let garbage = vec![b'!'; usize::try_from(fs::metadata(path).unwrap().len()).unwrap()];
    fs::write(path, &garbage).unwrap();
    File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    garbage
}

#[test]
fn reads_an_unchanged_file_once() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::open(&directory.path().join("cache")).unwrap();
    let path = directory.path().join("x.tgz");
    let content = ReleaseTarball::new("x", "1.10").job(JobTarball::new("j")).build();
    fs::write(&path, &content).unwrap();
    age(&path, 10);
    let first = identify(&cache, &path, Some(&sha1(&content))).unwrap();
    assert_eq!((first.name.as_str(), first.version.as_str()), ("x", "1.10"));
    assert_eq!(first.digest.to_string(), sha256(&content));

    // Identifying would fail if the overwritten file were read.
    let garbage = forge(&path);
    assert_eq!(identify(&cache, &path, Some(&sha1(&content))).unwrap(), first);
    assert_eq!(identify(&cache, &path, None).unwrap(), first);
    // The file is read for an algorithm that the cache lacks.
    let error = identify(&cache, &path, Some(&sha512(&content))).unwrap_err();
    assert!(error.to_string().contains(&sha512(&garbage)), "{error}");
    // The file is read after its modification time has changed.
    age(&path, 5);
    assert!(identify(&cache, &path, None).is_err());
}

#[test]
fn wrong_digest_is_an_error_for_a_cached_file_too() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::open(directory.path()).unwrap();
    let path = directory.path().join("x.tgz");
    let content = ReleaseTarball::new("x", "1").build();
    fs::write(&path, &content).unwrap();
    age(&path, 10);
    for _ in 0..2 {
        let error = identify(&cache, &path, Some(&sha1(b"other"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(
            error.to_string().contains("x.tgz") && error.to_string().contains(&sha1(&content)),
            "{error}"
        );
    }
    identify(&cache, &path, Some(&sha1(&content))).unwrap();
}

#[test]
fn does_not_store_digests_of_files_written_just_before() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::open(directory.path()).unwrap();
    let path = directory.path().join("file");
    // The time that a file system without fractions of a second records: now, rounded down.
    let second = SystemTime::UNIX_EPOCH
        + Duration::from_secs(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs());
    let write = |content: &str| {
        fs::write(&path, content).unwrap();
        File::options().append(true).open(&path).unwrap().set_modified(second).unwrap();
    };
    let digest = || cache.obtain_digest(&path, &[Algorithm::Sha1], &mut |_, _| {}).unwrap().to_string();
    write("a");
    assert_eq!(digest(), sha1(b"a"));
    write("b");
    assert_eq!(digest(), sha1(b"b"));
}

#[test]
fn damaged_entry_is_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::open(&directory.path().join("cache")).unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "a").unwrap();
    age(&path, 10);
    let digest = || cache.obtain_digest(&path, &[Algorithm::Sha1], &mut |_, _| {}).unwrap().to_string();
    assert_eq!(digest(), sha1(b"a"));
    let entries =
        || fs::read_dir(directory.path().join("cache/digests")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(entries().count(), 1);
    for entry in entries() {
        fs::write(entry, "{\"stamp\":").unwrap();
    }
    assert_eq!(digest(), sha1(b"a"));
}

#[test]
fn verify_finds_content_with_another_digest() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    assert_eq!(verify(&root.join("none")).unwrap(), VerifyReport::default());
    let digits = sha256(b"content").replace("sha256:", "");
    for (name, content) in [
        (format!("downloads/{digits}.tgz"), "content"),
        (format!("compiled/key.{digits}.tgz"), "c0ntent"),
        ("downloads/name.tgz".to_owned(), "content"),
        ("userlands/name".to_owned(), "content"),
    ] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let verification = verify(root).unwrap();
    let problem = |entry: &DamagedEntry| format!("{}/{}: {}", entry.kind, entry.name, entry.problem);
    let problems: Vec<String> = verification.damaged_entries.iter().map(problem).collect();
    let mismatch = format!(
        "compiled/key.{digits}.tgz: the digest of the file does not match: expected {}, found {}",
        sha256(b"content"),
        sha256(b"c0ntent")
    );
    assert_eq!(
        (verification.entries, problems),
        (3, vec![mismatch, "downloads/name.tgz: its name has no digest".into()])
    );
}

#[test]
fn prune_removes_unused_entries_but_not_from_a_cache_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    assert!(list(&root.join("none")).unwrap().is_empty());
    assert_eq!(prune(&root.join("none"), Duration::ZERO).unwrap(), PruneReport::default());
    let cache = Cache::open(root).unwrap();
    let add = |content: &str, unused_seconds: u64| {
        let body = cache.create_partial_path(content).unwrap();
        fs::write(&body, content).unwrap();
        let digest = Digest::compute(content.as_bytes(), &[Algorithm::Sha256]);
        let path = cache.keep_download(&body, &digest, "https://host/x.tgz").unwrap();
        age(&path, 1000);
        age(&path.with_extension("json"), unused_seconds);
        path
    };
    let (old, new) = (add("old", 100), add("new", 1));
    let other = root.join("packages/p-1");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("file"), "12345").unwrap();
    fs::write(root.join("packages/p-1.lock"), "").unwrap();
    fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap();
    fs::create_dir_all(root.join("tmp/run")).unwrap();

    assert_eq!(verify(root).unwrap(), VerifyReport { entries: 2, damaged_entries: Vec::new() });
    let entries = list(root).unwrap();
    let kinds: Vec<(&str, u64)> = entries.iter().map(|entry| (entry.kind.as_str(), entry.size)).collect();
    assert_eq!(kinds, [("downloads", 3), ("downloads", 3), ("packages", 5)]);
    assert_eq!(entries[0].url.as_deref(), Some("https://host/x.tgz"));

    assert_eq!(prune(root, Duration::from_secs(50)).unwrap_err().kind(), ErrorKind::Locked);
    drop(cache);
    assert_eq!(
        prune(root, Duration::from_secs(50)).unwrap(),
        PruneReport { removed_count: 1, bytes: 3, kept_count: 2 }
    );
    assert!(!old.exists() && !old.with_extension("json").exists() && new.exists());
    assert_eq!(
        prune(root, Duration::ZERO).unwrap(),
        PruneReport { removed_count: 2, bytes: 8, kept_count: 0 }
    );
    assert!(list(root).unwrap().is_empty());
    assert_eq!(fs::read_dir(root.join("packages")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(root.join("digests")).unwrap().count(), 0);
    assert!(root.join("tmp/run").exists());
}
