use std::fs;
use std::os::unix::fs::PermissionsExt;

use tar::EntryType;

use super::*;
use crate::hostile::{self, Case};
use crate::tarballs::{Tar, gzip, sha1, sha256};
use base::ErrorKind;

struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // An archive that escapes would overwrite this file.
        fs::create_dir(directory.path().join("work")).unwrap();
        fs::write(directory.path().join("victim"), "untouched").unwrap();
        Scratch { directory }
    }

    fn destination(&self) -> PathBuf {
        self.directory.path().join("work").join("out")
    }

    fn unpack_with(&self, archive: &[u8], options: &UnpackOptions<'_>) -> base::Result<UnpackedArchive> {
        unpack_stream(archive, "the test archive", &self.destination(), None, options)
    }

    fn unpack(&self, archive: &[u8]) -> base::Result<UnpackedArchive> {
        self.unpack_with(archive, &UnpackOptions::default())
    }

    /// Checks that nothing was written outside and nothing is left inside.
    fn assert_untouched(&self, name: &str) {
        assert_eq!(fs::read_to_string(self.directory.path().join("victim")).unwrap(), "untouched", "{name}");
        let names: Vec<_> =
            fs::read_dir(self.directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{name}: {names:?}");
        let entries: Vec<_> = fs::read_dir(self.directory.path().join("work")).unwrap().collect();
        assert!(entries.is_empty(), "{name}: {entries:?}");
    }
}

fn tree_of(root: &Path) -> Vec<String> {
    super::list_tree(root).unwrap().into_iter().map(|(name, _)| name.display().to_string()).collect()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn rejects_hostile_archives_and_leaves_no_files() {
    for Case { name, archive, reason, is_fine_verbatim } in hostile::cases(&Tar::default) {
        for links in [Links::Inside, Links::Verbatim] {
            let scratch = Scratch::new();
            let result = scratch.unpack_with(&archive, &UnpackOptions { links, ..UnpackOptions::default() });
            let Some(reason) = reason.filter(|_| links == Links::Inside || !is_fine_verbatim) else {
                result.expect(name);
                continue;
            };
            let error = result.expect_err(name);
            let text = error.chain().join(": ");
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}: {text}");
            assert!(text.contains(reason), "{name}: '{text}' does not say '{reason}'");
            assert!(text.contains("the test archive"), "{name}: {text}");
            scratch.assert_untouched(name);
        }
    }
}

#[test]
fn rejects_archives_truncated_at_any_byte() {
    let archive = Tar::default().directory("d").file("d/f", "x".repeat(700)).symlink("l", "d/f").tgz();
    for length in 0..archive.len() {
        let scratch = Scratch::new();
        assert!(scratch.unpack(&archive[..length]).is_err(), "{length} of {} bytes", archive.len());
        scratch.assert_untouched("truncated");
    }
    Scratch::new().unpack(&archive).unwrap();
}

#[test]
fn limits_on_entries_and_bytes_are_enforced() {
    let limit = |entries, bytes| UnpackOptions {
        limits: UnpackLimits { entries, bytes, ..UnpackLimits::default() },
        ..UnpackOptions::default()
    };
    let archive = (0..50).fold(Tar::default(), |tar, number| tar.file(&format!("f{number}"), "x")).tgz();
    let scratch = Scratch::new();
    let error = scratch.unpack_with(&archive, &limit(49, 1 << 20)).unwrap_err();
    assert!(error.chain().join(": ").contains("more than 49 entries"));
    let error = scratch.unpack_with(&archive, &limit(50, 10_000)).unwrap_err();
    assert!(error.chain().join(": ").contains("more than 10000 bytes"), "{error:?}");
    scratch.assert_untouched("limits");
    scratch.unpack_with(&archive, &limit(50, 1 << 20)).unwrap();
}

#[test]
fn implicit_directories_count_as_entries() {
    let archive = (0..4)
        .fold(Tar::default(), |tar, number| tar.file(&format!("{number}{}f", "/d".repeat(40) + "/"), ""));
    let scratch = Scratch::new();
    let limits = UnpackLimits { entries: 100, ..UnpackLimits::default() };
    let error = scratch
        .unpack_with(&archive.tgz(), &UnpackOptions { limits, ..UnpackOptions::default() })
        .unwrap_err();
    assert!(error.chain().join(": ").contains("more than 100 entries"), "{error:?}");
    scratch.assert_untouched("directories");
}

#[test]
fn rejects_bombs_by_compression_ratio() {
    let bomb = hostile::bomb(&Tar::default);
    assert!(bomb.len() < 2 << 20);
    let scratch = Scratch::new();
    let error = scratch.unpack(&bomb).unwrap_err();
    assert!(error.chain().join(": ").contains("per compressed byte"), "{error:?}");
    scratch.assert_untouched("bomb");
    // A bomb is refused even if none of its entries are written.
    let none = |_: &Path| false;
    let error = scratch
        .unpack_with(&bomb, &UnpackOptions { selector: Some(&none), ..UnpackOptions::default() })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn unpacks_ordinary_archives_unchanged() {
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(120));
    let archive = Tar::default()
        .directory("./")
        .directory("./bin/")
        .file_with_mode("./bin/ctl", 0o755, "#!/bin/bash\n")
        .file_with_mode("setuid", 0o6755, "")
        .file_with_mode("secret", 0o400, "s")
        .file("no/parents/given", "x")
        .symlink("link", "bin/ctl")
        .symlink("bin/up", "../secret")
        .symlink("dangling", "nowhere")
        .hard_link("hard", "bin/ctl")
        .raw(EntryType::new(0), b"old", 0o644, b"", b"v7")
        .raw(EntryType::new(0), b"olddir/", 0o755, b"", b"")
        .long_name(EntryType::GNULongName, long.as_bytes())
        .file("short", "long")
        .pax(EntryType::XHeader, &[("path", "päth"), ("mtime", "1.5"), ("SCHILY.xattr.user.x", "y")])
        .file("other", "pax")
        .pax(EntryType::XGlobalHeader, &[("comment", "0123456789abcdef")])
        .file("Case", "1")
        .file("case", "2")
        .raw(EntryType::Directory, b"closed", 0o500, b"", b"")
        .file("closed/inside", "x");
    let tar = archive.tar();
    for archive in [tar.clone(), gzip(&tar)] {
        let scratch = Scratch::new();
        let algorithms = [Algorithm::Sha1];
        let content = scratch
            .unpack_with(&archive, &UnpackOptions { algorithms: &algorithms, ..UnpackOptions::default() })
            .unwrap();
        let destination = scratch.destination();
        assert_eq!(content.digest.to_string(), sha256(&archive));
        assert_eq!(content.file_digests[Path::new("bin/ctl")].to_string(), sha1(b"#!/bin/bash\n"));
        assert_eq!(content.file_digests[Path::new("hard")], content.file_digests[Path::new("bin/ctl")]);
        assert_eq!(mode(&destination.join("bin/ctl")), 0o755);
        assert_eq!(mode(&destination.join("setuid")), 0o755);
        assert_eq!(mode(&destination.join("secret")), 0o600);
        assert_eq!(mode(&destination.join("closed")), 0o700);
        assert_eq!(fs::read_link(destination.join("link")).unwrap(), Path::new("bin/ctl"));
        assert_eq!(fs::read_to_string(destination.join("bin/up")).unwrap(), "s");
        assert_eq!(fs::read_to_string(destination.join(&long)).unwrap(), "long");
        assert_eq!(fs::read_to_string(destination.join("päth")).unwrap(), "pax");
        assert_eq!(fs::read_to_string(destination.join("old")).unwrap(), "v7");
        assert_eq!(fs::read_to_string(destination.join("case")).unwrap(), "2");
        assert!(destination.join("olddir").is_dir());
        let modified = fs::metadata(destination.join("bin/ctl")).unwrap().modified().unwrap();
        assert_eq!(modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs(), 1_700_000_000);
        assert!(!tree_of(&destination).iter().any(|name| name.contains("PaxHeaders")));
    }
}

#[test]
fn attributes_are_those_of_the_archive() {
    let archive = Tar::default()
        .file("no/parents/given", "abc")
        .owned_raw((1000, 1001), EntryType::Directory, b"home", 0o1777, b"", b"")
        .owned_file("home/setuid", 0o6755, (0, 42), "12345")
        .owned_raw((1000, 1000), EntryType::Symlink, b"home/link", 0o777, b"setuid", b"")
        .hard_link("hard", "home/setuid")
        .pax(EntryType::XHeader, &[("uid", "3000000"), ("gid", "7")])
        .file("large-id", "")
        .raw(EntryType::Fifo, b"fifo", 0o644, b"", b"");
    let options = UnpackOptions { returns_attributes: true, skips_devices: true, ..UnpackOptions::default() };
    let scratch = Scratch::new();
    let content = scratch.unpack_with(&archive.tgz(), &options).unwrap();
    let lines = content.attributes.iter().map(|(path, attributes)| {
        let Attributes { mode, uid, gid, size } = attributes;
        format!("{mode:o} {uid}:{gid} {size} {}", path.display())
    });
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            "40755 0:0 0 ",
            "106755 0:42 0 hard",
            "41777 1000:1001 0 home",
            "120777 1000:1000 0 home/link",
            "106755 0:42 5 home/setuid",
            "100644 3000000:7 0 large-id",
            "40755 0:0 0 no",
            "40755 0:0 0 no/parents",
            "100644 0:0 3 no/parents/given",
        ]
    );
    assert!(content.attributes[Path::new("hard")].is_file());
    assert!(!content.attributes[Path::new("home/link")].is_file());
    assert_eq!(mode(&scratch.destination().join("home/setuid")), 0o755, "an unpacked file is setuid");

    let root = Tar::default().owned_raw((3, 4), EntryType::Directory, b"./", 0o700, b"", b"").file("a", "");
    let content = Scratch::new().unpack_with(&root.tgz(), &options).unwrap();
    let expected = Attributes { mode: 0o40700, uid: 3, gid: 4, size: 0 };
    assert_eq!(content.attributes[Path::new("")], expected);
    let content = Scratch::new().unpack(&Tar::default().file("a", "").tgz()).unwrap();
    assert!(content.attributes.is_empty());
}

#[test]
fn verbatim_links_are_written_but_not_followed() {
    let options = UnpackOptions { links: Links::Verbatim, ..UnpackOptions::default() };
    let scratch = Scratch::new();
    scratch.unpack_with(&Tar::default().symlink("l", "/var/vcap/packages/x").tgz(), &options).unwrap();
    assert_eq!(fs::read_link(scratch.destination().join("l")).unwrap(), Path::new("/var/vcap/packages/x"));

    let scratch = Scratch::new();
    let outside = scratch.directory.path().display().to_string();
    for archive in [
        Tar::default().symlink("l", &outside).file("l/victim", "x").tgz(),
        Tar::default().symlink("l", "../..").file("l/victim", "x").tgz(),
        Tar::default().symlink("l", "../../victim").file("l", "x").tgz(),
        Tar::default().symlink("l", &outside).hard_link("h", "l/victim").tgz(),
        Tar::default().symlink("l", &format!("{outside}/victim")).hard_link("h", "l").tgz(),
    ] {
        scratch.unpack_with(&archive, &options).unwrap_err();
        scratch.assert_untouched("verbatim");
    }
}

#[test]
fn checks_unselected_entries_without_writing_them() {
    let scratch = Scratch::new();
    let is_needed = |path: &Path| path == Path::new("a");
    let options = UnpackOptions { selector: Some(&is_needed), ..UnpackOptions::default() };
    scratch.unpack_with(&Tar::default().file("b/c", "x").file("./a", "y").tgz(), &options).unwrap();
    assert_eq!(tree_of(&scratch.destination()), ["a"]);
    let scratch = Scratch::new();
    scratch.unpack_with(&Tar::default().file("a", "y").file("../b", "x").tgz(), &options).unwrap_err();
    scratch.assert_untouched("only");
}

#[test]
fn wrong_digest_leaves_no_files() {
    let archive = Tar::default().file("a", "x").tgz();
    let scratch = Scratch::new();
    for digest in [sha1(b"other"), sha256(b"other")] {
        let digest: Digest = digest.parse().unwrap();
        let error = unpack_stream(
            &archive[..],
            "the release 'x'",
            &scratch.destination(),
            Some(&digest),
            &UnpackOptions::default(),
        )
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&digest.to_string()), "{error}");
        scratch.assert_untouched("digest");
    }
    for digest in [sha1(&archive), sha256(&archive)] {
        let digest: Digest = digest.parse().unwrap();
        let scratch = Scratch::new();
        unpack_stream(&archive[..], "x", &scratch.destination(), Some(&digest), &UnpackOptions::default())
            .unwrap();
    }
}

#[test]
fn damaged_archive_with_wrong_digest_reports_the_digest() {
    let archive = Tar::default().file("a", "x".repeat(5000)).tgz();
    let expected: Digest = sha1(&archive).parse().unwrap();
    let truncated_archive = &archive[..archive.len() - 20];
    let scratch = Scratch::new();
    let error = unpack_stream(
        truncated_archive,
        "it",
        &scratch.destination(),
        Some(&expected),
        &UnpackOptions::default(),
    )
    .unwrap_err();
    let chain = error.chain();
    assert!(chain[0].contains("does not match") && chain[0].contains(&sha1(truncated_archive)), "{chain:?}");
    assert!(chain[1].contains("truncated"), "{chain:?}");
    scratch.assert_untouched("cut");
}

#[test]
fn keeps_existing_destination_and_removes_stale_partial_one() {
    let archive = Tar::default().file("a", "x").tgz();
    let scratch = Scratch::new();
    let partial_path = scratch.destination().with_file_name("out.partial");
    fs::create_dir(&partial_path).unwrap();
    fs::write(partial_path.join("half"), "").unwrap();
    scratch.unpack(&archive).unwrap();
    assert_eq!(tree_of(&scratch.destination()), ["a"]);
    assert!(!partial_path.exists());
    assert_eq!(scratch.unpack(&archive).unwrap_err().kind(), ErrorKind::Failure);
    assert_eq!(tree_of(&scratch.destination()), ["a"]);
}

#[test]
fn reads_a_member_by_name() {
    let archive = Tar::default().file("image", "x".repeat(2000)).file("./stemcell.MF", "name: x").tgz();
    let member = |name: &str, limit| read_member(&archive[..], Path::new(name), limit);
    assert_eq!(member("stemcell.MF", 100).unwrap().unwrap(), b"name: x");
    assert!(member("release.MF", 100).unwrap().is_none());
    assert!(matches!(member("image", 100), Err(ArchiveError::TooLarge { .. })));
}

#[test]
fn packing_is_deterministic() {
    let make = |order: &[&str]| {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("tree");
        fs::create_dir_all(root.join("sub")).unwrap();
        for name in order {
            fs::write(root.join(name), name).unwrap();
        }
        fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o775)).unwrap();
        std::os::unix::fs::symlink("sub/c", root.join("link")).unwrap();
        let archive = directory.path().join("out.tgz");
        let digest = pack_directory(&root, &archive).unwrap();
        (fs::read(archive).unwrap(), digest)
    };
    let (first, digest) = make(&["a", "b", "sub/c"]);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let (second, _) = make(&["sub/c", "b", "a"]);
    assert_eq!(first, second);
    assert_eq!(digest.hex(Algorithm::Sha1), Some(sha1(&first).as_str()));
    assert_eq!(&first[..10], &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);

    let scratch = Scratch::new();
    scratch.unpack(&first).unwrap();
    assert_eq!(tree_of(&scratch.destination()), ["a", "b", "link", "sub", "sub/c"]);
    assert_eq!(mode(&scratch.destination().join("a")), 0o755);
    assert_eq!(mode(&scratch.destination().join("b")), 0o644);
    assert_eq!(fs::read_link(scratch.destination().join("link")).unwrap(), Path::new("sub/c"));
}

#[test]
fn packed_tree_is_unpacked_as_it_was() {
    let scratch = Scratch::new();
    let root = scratch.directory.path().join("tree");
    let path = |name: &str| root.join(name);
    fs::create_dir_all(path("read-only/below")).unwrap();
    fs::write(path("read-only/below/file"), "content").unwrap();
    fs::write(path("program"), "#!/bin/sh").unwrap();
    fs::create_dir(path("empty")).unwrap();
    let long = "x".repeat(150);
    fs::write(path(&long), "").unwrap();
    std::os::unix::fs::symlink("/var/vcap/packages/other", path("link")).unwrap();
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::options().append(true).open(path("program")).unwrap().set_modified(time).unwrap();
    let set = |name: &str, mode: u32| {
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("read-only/below/file", 0o444);
    set("read-only/below", 0o555);
    set("read-only", 0o500);
    set("program", 0o4755);
    let archive = scratch.directory.path().join("tree.tgz");
    let digest = pack_tree(&root, &archive).unwrap();
    assert_eq!(digest, Digest::from_file(&archive, &[Algorithm::Sha1, Algorithm::Sha256]).unwrap());
    unpack_tree(fs::File::open(&archive).unwrap(), "the tree", &scratch.destination(), &digest).unwrap();

    let out_path = |name: &str| scratch.destination().join(name);
    assert_eq!(tree_of(&scratch.destination()), tree_of(&root));
    for (name, expected) in
        [("read-only", 0o500), ("read-only/below", 0o555), ("read-only/below/file", 0o444), ("empty", 0o755)]
    {
        assert_eq!(mode(&out_path(name)), expected, "{name}");
    }
    assert_eq!(mode(&out_path("program")), 0o755, "an unpacked file became setuid");
    assert_eq!(fs::metadata(out_path("program")).unwrap().modified().unwrap(), time);
    assert_eq!(fs::read_to_string(out_path("read-only/below/file")).unwrap(), "content");
    assert_eq!(fs::read_link(out_path("link")).unwrap(), Path::new("/var/vcap/packages/other"));
    base::files::remove_tree(&scratch.destination()).unwrap();
    base::files::remove_tree(&root).unwrap();
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]

    /// Damage never causes a panic or a write outside the destination.
    #[test]
    fn damage_never_panics(offset in 0usize..4096, damage in proptest::prelude::any::<[u8; 4]>()) {
        let mut tar = Tar::default()
            .pax(EntryType::XHeader, &[("path", "p"), ("size", "3")])
            .file("x", "abc")
            .long_name(EntryType::GNULongName, b"some/name")
            .file("y", "")
            .tar();
        let offset = offset.min(tar.len() - 4);
        tar[offset..offset + 4].copy_from_slice(&damage);
        let scratch = Scratch::new();
        if scratch.unpack(&tar).is_err() {
            scratch.assert_untouched("damage");
        }
    }
}

#[test]
fn full_file_system_has_its_hint() {
    let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
    let error = ArchiveError::Write { path: "/cache/x".into(), source }.into_error("the job 'a'");
    assert_eq!(error.kind(), ErrorKind::Failure);
    assert_eq!(error.chain()[..2], ["the job 'a' cannot be unpacked", "writing '/cache/x' failed"]);
    assert!(error.hints()[0].starts_with("free space on that file system, or "), "{:?}", error.hints());
}
