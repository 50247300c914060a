use serde_json::json;

use super::*;
use crate::ArtifactKind;
use crate::tarballs::{StemcellTarball, Tar, sha1, sha256, sha512};
use crate::testing::{identify, stage};
use base::ErrorKind;

struct OpenedStemcell {
    directory: tempfile::TempDir,
    result: Result<Stemcell>,
}

fn open_bytes(bytes: &[u8], expected: Option<&str>) -> OpenedStemcell {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stemcell.tgz");
    fs::write(&path, bytes).unwrap();
    let expected = expected.map(|text| text.parse().unwrap());
    let result = open(&Source::local(&path).unwrap(), expected.as_ref(), directory.path(), &stage());
    OpenedStemcell { directory, result }
}

#[test]
fn stemcell_is_loaded() {
    let bytes = StemcellTarball::default().build();
    let outcome = open_bytes(&bytes, None);
    let stemcell = outcome.result.unwrap();
    assert_eq!(stemcell.name, "bosh-local-test");
    assert_eq!(stemcell.version, "1.10");
    assert_eq!(stemcell.operating_system, "local");
    assert_eq!(stemcell.os_and_version(), "local/1.10");
    assert_eq!(stemcell.api_version, 3);
    assert_eq!(stemcell.stemcell_formats, ["local-directory"]);
    assert_eq!(stemcell.cloud_properties, json!({"name": "bosh-local-test", "root": {"size": 1}}));
    assert_eq!(stemcell.digest.to_string(), sha256(&bytes));
    assert_eq!(sha1(&fs::read(&stemcell.image).unwrap()), stemcell.image_digest.clone().unwrap().to_string());

    let source = Source::local(&outcome.directory.path().join("stemcell.tgz")).unwrap();
    let identity = identify(ArtifactKind::Stemcell, &source).unwrap();
    assert_eq!(identity, stemcell.identity());
}

#[test]
fn verifies_digests_of_every_algorithm() {
    let bytes = StemcellTarball::default().build();
    for digest in
        [sha1(&bytes), sha256(&bytes), sha512(&bytes), format!("{};{}", sha1(&bytes), sha256(&bytes))]
    {
        open_bytes(&bytes, Some(&digest)).result.unwrap();
    }
    for digest in [sha1(b""), sha256(b""), sha512(b""), format!("{};{}", sha1(&bytes), sha256(b""))] {
        let outcome = open_bytes(&bytes, Some(&digest));
        let error = outcome.result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("stemcell.tgz"), "{error}");
        assert_eq!(fs::read_dir(outcome.directory.path()).unwrap().count(), 1);
    }
}

#[test]
fn verifies_the_digest_of_the_image() {
    let image = Tar::default().file("x", "y").tgz();
    for digest in [sha1(&image), sha256(&image), sha512(&image)] {
        let tarball =
            StemcellTarball { image: Some(image.clone()), image_sha1: Some(digest), ..Default::default() };
        open_bytes(&tarball.build(), None).result.unwrap();
    }
    for digest in [sha1(b""), sha512(b"")] {
        let tarball = StemcellTarball { image_sha1: Some(digest.clone()), ..Default::default() };
        let outcome = open_bytes(&tarball.build(), None);
        let error = outcome.result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(text.contains("the image of the stemcell") && text.contains(&digest), "{text}");
        assert_eq!(fs::read_dir(outcome.directory.path()).unwrap().count(), 1);
    }
}

/// Keeps the texts of notes.
#[derive(Default)]
struct Notes(std::sync::Mutex<Vec<String>>);

impl base::events::Sink for Notes {
    fn receive(&self, event: &base::events::Event) {
        if let base::events::Event::Note { text } = event {
            self.0.lock().unwrap().push(text.clone());
        }
    }
}

#[test]
fn light_stemcell_may_state_the_digest_of_the_full_image() {
    for (image, declared_digest, is_light) in [
        (&b""[..], sha1(b"the full image"), true),
        (&b""[..], sha512(b"the full image"), true),
        (&b""[..], sha1(b""), false),
    ] {
        let tarball = StemcellTarball {
            image: Some(image.to_vec()),
            image_sha1: Some(declared_digest.clone()),
            ..Default::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stemcell.tgz");
        fs::write(&path, tarball.build()).unwrap();
        let notes = std::sync::Arc::new(Notes::default());
        let stage = base::events::Reporter::new(notes.clone()).begin_stage("testing");
        let stemcell = open(&Source::local(&path).unwrap(), None, directory.path(), &stage).unwrap();
        assert_eq!(stemcell.image_digest.is_none(), is_light, "{declared_digest}");
        let notes = notes.0.lock().unwrap();
        assert_eq!(notes.len(), usize::from(is_light), "{notes:?}");
        assert!(notes.iter().all(|note| note.contains("is a light stemcell")), "{notes:?}");
    }
}

#[test]
fn errors_name_the_key_or_file() {
    let cases = [
        (StemcellTarball { has_manifest: false, ..Default::default() }, "has no stemcell.MF"),
        (StemcellTarball { image: None, ..Default::default() }, "has no image"),
        (
            StemcellTarball { api_version: Some("two".into()), ..Default::default() },
            "api_version in stemcell.MF",
        ),
        (StemcellTarball { api_version: Some("-1".into()), ..Default::default() }, "not '-1'"),
        (StemcellTarball { api_version: Some("0".into()), ..Default::default() }, "not '0'"),
        (StemcellTarball { api_version: Some("1.5".into()), ..Default::default() }, "not '1.5'"),
        (StemcellTarball { api_version: Some("99999999999".into()), ..Default::default() }, "api_version"),
        (StemcellTarball { api_version: Some("[1]".into()), ..Default::default() }, "api_version"),
        (StemcellTarball { image_sha1: Some("abc".into()), ..Default::default() }, "digest of the image"),
        (StemcellTarball { name: "[a]".into(), ..Default::default() }, "stemcell.MF of"),
        (
            StemcellTarball { extra: "cloud_properties: [1]\n".into(), ..Default::default() },
            "must be a mapping",
        ),
        (StemcellTarball { extra: "\t{".into(), ..Default::default() }, "stemcell.MF of"),
    ];
    for (tarball, reason) in cases {
        let outcome = open_bytes(&tarball.build(), None);
        let error = outcome.result.unwrap_err();
        let text = error.chain().join(": ");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
        assert!(text.contains(reason) && text.contains("stemcell.tgz"), "'{text}' does not say '{reason}'");
        assert_eq!(fs::read_dir(outcome.directory.path()).unwrap().count(), 1, "{reason}");
    }
}

#[test]
fn missing_keys_have_defaults() {
    let tarball = StemcellTarball {
        api_version: None,
        extra: "cloud_properties:\nstemcell_formats: [1, raw]\n".into(),
        ..Default::default()
    };
    let stemcell = open_bytes(&tarball.build(), None).result.unwrap();
    assert_eq!(stemcell.api_version, 1);
    assert_eq!(stemcell.cloud_properties, json!({}));
    assert_eq!(stemcell.stemcell_formats, ["1", "raw"]);
}

#[test]
fn truncated_tarball_is_reported_as_truncated() {
    let bytes = StemcellTarball::default().build();
    let outcome = open_bytes(&bytes[..bytes.len() / 2], None);
    let error = outcome.result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.chain().join(": ").contains("truncated"), "{error:?}");
    assert_eq!(fs::read_dir(outcome.directory.path()).unwrap().count(), 1);
    let source = Source::local(&outcome.directory.path().join("stemcell.tgz")).unwrap();
    assert_eq!(identify(ArtifactKind::Stemcell, &source).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn missing_file_is_invalid_input() {
    let error = Source::local(Path::new("/nonexistent/stemcell.tgz")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("/nonexistent/stemcell.tgz"));
}
