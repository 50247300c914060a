//! Archives that are malicious, and archives that are damaged.
//!
//! The unit tests of the reader and the tests of the program share it. It does not use the library.

#![allow(dead_code, reason = "shared by two test crates")]

use std::io::{Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{EntryType, Header};

use super::tarballs::{Tar, gzip};

/// One test archive.
pub(crate) struct Case {
    /// The defect.
    pub name: &'static str,
    /// The archive.
    pub archive: Vec<u8>,
    /// Text that the error contains; `None` if the archive is harmless and accepted.
    pub reason: Option<&'static str>,
    /// True if the archive is harmless when links are stored without being followed.
    pub is_fine_verbatim: bool,
}

/// The name of files outside the root of an archive, relative to the parent of that root.
pub(crate) const VICTIM: &str = "victim";

/// Returns all cases. Each archive begins with the entries of `base`, so it can also be a stemcell, a job or
/// a release.
pub(crate) fn cases(base: &dyn Fn() -> Tar) -> Vec<Case> {
    let mut cases: Vec<Case> = names(base);
    cases.extend(extensions(base));
    cases.extend(types(base));
    cases.extend(sizes(base));
    for (name, archive, reason, is_fine_verbatim) in links(base) {
        cases.push(Case { name, archive, reason: Some(reason), is_fine_verbatim });
    }
    cases.extend(damage(base));
    cases.extend(harmless(base));
    cases
}

fn rejected_cases(cases: Vec<(&'static str, Vec<u8>, &'static str)>) -> Vec<Case> {
    let case =
        |(name, archive, reason)| Case { name, archive, reason: Some(reason), is_fine_verbatim: false };
    cases.into_iter().map(case).collect()
}

fn long(part: &str, count: usize) -> Vec<u8> {
    part.repeat(count).into_bytes()
}

/// Returns an absolute path at which no file exists.
#[expect(clippy::disallowed_methods, reason = "the file is outside every directory of the test")]
pub(crate) fn victim() -> String {
    std::env::temp_dir().join(format!("monopile-victim-{}", std::process::id())).display().to_string()
}

fn names(t: &dyn Fn() -> Tar) -> Vec<Case> {
    let name = |name: &[u8]| t().long_name(EntryType::GNULongName, name).file("ok", "x").tgz();
    rejected_cases(vec![
        ("parent", t().file("../victim", "x").tgz(), "leads out"),
        ("parent inside", t().directory("a").file("a/../../victim", "x").tgz(), "leads out"),
        ("parent at the end", t().directory("a/..").tgz(), "leads out"),
        ("parent alone", t().directory("..").tgz(), "leads out"),
        ("parent directory", t().directory("../new").tgz(), "leads out"),
        ("parent after dots", t().file("./.././victim", "x").tgz(), "leads out"),
        ("absolute", t().file(&victim(), "x").tgz(), "absolute"),
        ("absolute, twice", t().file(&format!("/{}", victim()), "x").tgz(), "absolute"),
        ("root", t().file("/", "x").tgz(), "absolute"),
        ("no name", t().file("", "x").tgz(), "empty"),
        ("only dots", t().file("./.", "x").tgz(), "empty"),
        ("long name, parent", name(b"../victim"), "leads out"),
        ("long name, absolute", name(victim().as_bytes()), "absolute"),
        ("long name, NUL", name(b"a\0b"), "NUL"),
        ("long name, empty", name(b""), "empty"),
        ("huge component", name(&long("x", 5000)), "too long"),
        ("component one too long", name(&long("x", 256)), "too long"),
        ("huge path", name(&long("ab/", 4000)), "too long"),
        ("name of a megabyte", name(&long("ab/", 400_000)), "extension header"),
        ("file twice", t().file("f", "x").file("./f", "y").tgz(), "twice"),
        ("file below file", t().file("f", "x").file("f/g", "y").tgz(), "'f' is not a directory"),
        ("directory over file", t().file("f", "x").directory("f").tgz(), "'f' is not a directory"),
        ("file over directory", t().directory("f").file("f", "x").tgz(), "twice"),
        ("name with escapes, parent", t().file("../\x1b[2Jvictim", "x").tgz(), "leads out"),
    ])
}

/// Returns archives whose extensions (PAX and GNU) lead out of the archive or contradict it.
fn extensions(t: &dyn Fn() -> Tar) -> Vec<Case> {
    let pax = |records: &[(&str, &str)]| t().pax(EntryType::XHeader, records).file("ok", "x").tgz();
    let raw = |body: &[u8]| t().raw(EntryType::XHeader, b"p", 0o644, b"", body).file("ok", "x").tgz();
    rejected_cases(vec![
        ("pax parent", pax(&[("path", "../victim")]), "leads out"),
        ("pax absolute", pax(&[("path", &victim())]), "absolute"),
        ("pax path twice, the last one out", pax(&[("path", "fine"), ("path", "../victim")]), "leads out"),
        ("pax path empty", pax(&[("path", "")]), "empty"),
        (
            "pax link out",
            t().pax(EntryType::XHeader, &[("linkpath", "../../victim")]).hard_link("ok", "fine").tgz(),
            "leads out",
        ),
        (
            "pax global path",
            t().pax(EntryType::XGlobalHeader, &[("path", "x")]).file("ok", "x").tgz(),
            "global",
        ),
        ("pax size", pax(&[("size", "minus")]), "size"),
        ("pax size negative", pax(&[("size", "-1")]), "size"),
        ("pax size too large", pax(&[("size", "99999")]), "truncated"),
        ("pax size beyond everything", pax(&[("size", "18446744073709551615")]), "truncated"),
        ("pax size beyond 64 bits", pax(&[("size", "99999999999999999999999")]), "size"),
        (
            "pax size too small",
            t().pax(EntryType::XHeader, &[("size", "1")]).file("ok", "x".repeat(2000)).tgz(),
            "checksum",
        ),
        ("pax garbage", raw(b"not records"), "damaged"),
        ("pax record longer than the header", raw(b"99 path=x\n"), "damaged"),
        ("pax record of no length", raw(b"0 path=x\n"), "damaged"),
        ("pax sparse", pax(&[("GNU.sparse.major", "1"), ("GNU.sparse.realsize", "1")]), "sparse"),
        (
            "pax of a megabyte",
            t().pax(EntryType::XHeader, &[("comment", &"x".repeat(1 << 20))]).file("ok", "x").tgz(),
            "extension header",
        ),
        (
            "long names without an end",
            (0..3).fold(t(), |tar, _| tar.long_name(EntryType::GNULongName, b"a")).tgz(),
            "an entry is missing",
        ),
        (
            "long name twice, the last one out",
            t().long_name(EntryType::GNULongName, b"fine")
                .long_name(EntryType::GNULongName, b"../victim")
                .file("ok", "x")
                .tgz(),
            "leads out",
        ),
        (
            "long name and pax, one of them out",
            t().long_name(EntryType::GNULongName, b"fine")
                .pax(EntryType::XHeader, &[("path", "../victim")])
                .file("ok", "x")
                .tgz(),
            "leads out",
        ),
    ])
}

fn types(t: &dyn Fn() -> Tar) -> Vec<Case> {
    let device = |kind| t().raw(kind, b"dev", 0o644, b"", b"").tgz();
    rejected_cases(vec![
        ("gnu sparse", device(EntryType::GNUSparse), "sparse"),
        ("character device", device(EntryType::Char), "character device"),
        ("block device", device(EntryType::Block), "block device"),
        ("fifo", device(EntryType::Fifo), "fifo"),
        ("multi-volume", device(EntryType::new(b'M')), "'M' entry"),
        ("volume label", device(EntryType::new(b'V')), "'V' entry"),
        ("dump directory", device(EntryType::new(b'D')), "'D' entry"),
        ("unknown type", device(EntryType::new(b'!')), "'!' entry"),
    ])
}

fn sizes(t: &dyn Fn() -> Tar) -> Vec<Case> {
    let archive_of_size = |size: [u8; 12]| {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.as_gnu_mut().unwrap().name[..1].copy_from_slice(b"n");
        header.as_gnu_mut().unwrap().size = size;
        t().header(header, b"").tgz()
    };
    rejected_cases(vec![
        ("negative size", archive_of_size(*b"-0000000001\0"), "damaged"),
        ("size of letters", archive_of_size(*b"abcdefghijk\0"), "damaged"),
        (
            "size beyond everything",
            archive_of_size([0x80, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            "truncated",
        ),
        (
            "size of 64 bits",
            archive_of_size([0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            "truncated",
        ),
        ("negative size in base 256", archive_of_size([0xff; 12]), "truncated"),
        ("old directory with data", t().raw(EntryType::new(0), b"d/", 0o755, b"", b"data").tgz(), "has data"),
    ])
}

/// The fields of a [`Case`], in their order.
type Link = (&'static str, Vec<u8>, &'static str, bool);

/// Returns archives with links that lead out. The last value is true if the link is accepted where links are
/// kept as they are.
fn links(t: &dyn Fn() -> Tar) -> Vec<Link> {
    vec![
        ("symlink out", t().symlink("l", "../victim").tgz(), "leads out", true),
        ("symlink far out", t().symlink("a/b/l", "../../../victim").tgz(), "leads out", true),
        ("symlink absolute", t().symlink("l", "/etc/passwd").tgz(), "absolute", true),
        ("symlink empty", t().symlink("l", "").tgz(), "empty", false),
        ("symlink up after a name", t().symlink("l", "a/../../victim").tgz(), "'..' after a name", true),
        ("symlink at the root", t().symlink("./", "a").tgz(), "root", false),
        ("symlink called parent", t().symlink("..", "a").tgz(), "leads out", false),
        (
            "chain of links",
            t().symlink("here", ".").symlink("there", "here/here/../..").tgz(),
            "'..' after a name",
            true,
        ),
        (
            "write through a link out",
            t().symlink("d", "..").file("d/victim", "x").tgz(),
            "", // The error names either the link or the file.
            false,
        ),
        (
            "write through a link inside",
            t().symlink("d", "e").directory("e").file("d/f", "x").tgz(),
            "'d' is not a directory",
            false,
        ),
        (
            "write through two links",
            t().symlink("a", ".").symlink("a/b", "..").file("a/b/victim", "x").tgz(),
            "'a' is not a directory",
            false,
        ),
        ("write over a link", t().symlink("l", "f").file("l", "x").tgz(), "twice", false),
        (
            "directory over link",
            t().directory("e").symlink("d", "e").directory("d").tgz(),
            "'d' is not a directory",
            false,
        ),
        ("link over file", t().file("f", "x").symlink("f", "g").tgz(), "twice", false),
        ("link over directory", t().directory("d").symlink("d", "e").tgz(), "twice", false),
        ("hard link out", t().hard_link("h", "../victim").tgz(), "leads out", false),
        ("hard link absolute", t().hard_link("h", "/etc/passwd").tgz(), "absolute", false),
        ("hard link to nothing", t().hard_link("h", "later").file("later", "x").tgz(), "no such file", false),
        ("hard link to itself", t().hard_link("h", "h").tgz(), "no such file", false),
        (
            "hard link to a link",
            t().file("f", "").symlink("l", "f").hard_link("h", "l").tgz(),
            "no such file",
            false,
        ),
        (
            "hard link through a link",
            t().directory("d").file("d/f", "").symlink("l", "d").hard_link("h", "l/f").tgz(),
            "not a directory",
            false,
        ),
        ("hard link to a directory", t().directory("d").hard_link("h", "d").tgz(), "no such file", false),
        (
            "hard link, then written",
            t().file("f", "x").hard_link("h", "f").file("h", "y").tgz(),
            "twice",
            false,
        ),
    ]
}

/// Returns archives that are cut off, changed or followed by other data.
fn damage(t: &dyn Fn() -> Tar) -> Vec<Case> {
    let archive = || t().file("a", "x".repeat(3000)).file("b", "y");
    let (plain, compressed) = (archive().tar(), archive().tgz());
    // This is the position of the file `a`.
    let header_start = t().tar().len() - 1024;
    let with_changed_byte = |index: usize| {
        let mut archive = plain.clone();
        archive[index] ^= 1;
        archive
    };
    let mut crc = compressed.clone();
    let last = crc.len() - 6;
    crc[last] ^= 0xff;
    let with_extra_bytes = |archive: &[u8], extra_bytes: &[u8]| [archive, extra_bytes].concat();
    let mut header = Header::new_gnu();
    header.set_path("x").unwrap();
    let flipped_deflate = {
        let mut flipped_archive = compressed.clone();
        let middle = flipped_archive.len() / 2;
        flipped_archive[middle..middle + 8].fill(0xff);
        flipped_archive
    };
    rejected_cases(vec![
        ("empty file", Vec::new(), "empty"),
        ("empty gzip", gzip(b""), "empty"),
        ("a text", b"<html>404 not found</html>".repeat(40), "nor a tar archive"),
        ("a short text", b"not found".to_vec(), "neither a gzip file"),
        ("zip", b"PK\x03\x04aaaaaaaaaaaaaa".to_vec(), "zip"),
        ("xz", b"\xfd7zXZ\0aaaaaaaaaaaa".to_vec(), "xz"),
        ("zstd", b"\x28\xb5\x2f\xfdaaaaaaaaaaaa".to_vec(), "zstd"),
        ("gzip of gzip", gzip(&compressed), ""),
        ("gzip truncated early", compressed[..12].to_vec(), "truncated"),
        ("gzip truncated", compressed[..compressed.len() / 2].to_vec(), "truncated"),
        ("gzip without its checksum", compressed[..compressed.len() - 8].to_vec(), "truncated"),
        ("gzip checksum", crc, "damaged"),
        ("gzip corrupt", flipped_deflate, ""),
        ("gzip of garbage", gzip(&b"garbage!".repeat(200)), "not a tar archive"),
        ("tar truncated in data", plain[..header_start + 1000].to_vec(), "truncated"),
        ("tar truncated in padding", plain[..header_start + 512 + 3001].to_vec(), "truncated"),
        ("tar truncated in header", plain[..header_start + 512 + 3072 + 100].to_vec(), "truncated"),
        ("tar without its end", plain[..header_start + 512 + 3072].to_vec(), "truncated"),
        (
            "first header changed",
            with_changed_byte(2),
            if header_start == 0 { "nor a tar archive" } else { "" },
        ),
        ("later header changed", with_changed_byte(header_start + 512 + 3072 + 1), "checksum"),
        ("data after the end of the tar", with_extra_bytes(&plain, &b"garbage".repeat(100)), "after its end"),
        (
            "data after the end of the gzip",
            with_extra_bytes(&compressed, b"garbage that is longer than a gzip header"),
            "damaged",
        ),
        (
            "second archive behind the first",
            with_extra_bytes(&compressed, &Tar::default().file("c", "z").tgz()),
            "after its end",
        ),
        (
            "long name truncated",
            {
                let tar = t().long_name(EntryType::GNULongName, &long("a/", 300)).file("x", "").tar();
                tar[..header_start + 700].to_vec()
            },
            "truncated",
        ),
        (
            "pax truncated",
            {
                let tar = t().pax(EntryType::XHeader, &[("comment", &"x".repeat(600))]).file("x", "").tar();
                tar[..header_start + 700].to_vec()
            },
            "truncated",
        ),
    ])
}

/// Returns unusual archives that are accepted, with a known outcome.
fn harmless(t: &dyn Fn() -> Tar) -> Vec<Case> {
    let odd =
        |name: &'static str, archive: Vec<u8>| Case { name, archive, reason: None, is_fine_verbatim: true };
    let halves = {
        let tar = t().file("f", "x".repeat(4000)).tar();
        let (first, second) = tar.split_at(tar.len() / 2);
        [gzip(first), gzip(second)].concat()
    };
    vec![
        odd("two gzip members", halves),
        odd("case clash", t().file("Case", "1").file("case", "2").tgz()),
        odd("setuid", t().file_with_mode("setuid", 0o6755, "").tgz()),
        odd("sticky directory", t().raw(EntryType::Directory, b"sticky", 0o1777, b"", b"").tgz()),
        odd("no permission at all", t().file_with_mode("closed", 0, "x").tgz()),
        odd("newline in a name", t().file("new\nline", "x").tgz()),
        odd("name that is no text", t().raw(EntryType::Regular, b"\xff\xfe", 0o644, b"", b"x").tgz()),
        odd("directory twice", t().directory("d").file("d/f", "x").directory("./d/").tgz()),
        odd("link with data", t().raw(EntryType::Symlink, b"l", 0o777, b"f", b"").file("f", "").tgz()),
        odd(
            "long name for the next but one",
            t().long_name(EntryType::GNULongName, b"first")
                .long_name(EntryType::GNULongName, b"second")
                .file("ok", "x")
                .tgz(),
        ),
        odd("link to itself", t().symlink("self", "self").tgz()),
        odd("time before all time", {
            let mut header = Header::new_gnu();
            header.set_path("old").unwrap();
            header.set_mode(0o644);
            header.set_size(0);
            header.as_gnu_mut().unwrap().mtime = [0xff; 12];
            t().header(header, b"").tgz()
        }),
    ]
}

/// Returns an archive of 300 MiB of zeros in about 300 KiB.
pub(crate) fn bomb(t: &dyn Fn() -> Tar) -> Vec<u8> {
    let size = 300u64 << 20;
    let mut header = Header::new_gnu();
    header.set_path("zeros").unwrap();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    let base = t().tar();
    let raw =
        base[..base.len() - 1024].chain(&header.as_bytes()[..]).chain(std::io::repeat(0).take(size + 1024));
    let mut bomb = Vec::new();
    flate2::read::GzEncoder::new(raw, Compression::best()).read_to_end(&mut bomb).unwrap();
    bomb
}

/// Returns an archive of `count` directories with different headers and names of this length.
pub(crate) fn entries(t: &dyn Fn() -> Tar, count: u32, name: usize) -> Vec<u8> {
    let mut archive = GzEncoder::new(Vec::new(), Compression::fast());
    let base = t().tar();
    archive.write_all(&base[..base.len() - 1024]).unwrap();
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Directory);
    // The mode is unusual, and the reader must remember it until the end.
    header.set_mode(0o711);
    header.set_size(0);
    header.as_gnu_mut().unwrap().name[..2].copy_from_slice(b"d/");
    header.set_cksum();
    let sum = header.cksum().unwrap();
    let mut block = *header.as_bytes();
    let mut random = 1u64;
    for number in 0..count {
        if name > 100 {
            let name = format!("{}{number:08}", ("d".repeat(200) + "/").repeat(name / 201));
            let long = Tar::default().long_name(EntryType::GNULongName, name.as_bytes()).tar();
            archive.write_all(&long[..long.len() - 1024]).unwrap();
        }
        // The link field is unused for directories, so it holds incompressible noise.
        let mut noise = 0;
        for start in (160..200).step_by(8) {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            for (place, byte) in (start..).zip((random >> 16).to_le_bytes()) {
                block[place] = byte;
                noise += u32::from(byte);
            }
        }
        block[148..156].copy_from_slice(format!("{:06o}\0 ", sum + noise).as_bytes());
        archive.write_all(&block).unwrap();
    }
    archive.write_all(&[0; 1024]).unwrap();
    archive.finish().unwrap()
}
