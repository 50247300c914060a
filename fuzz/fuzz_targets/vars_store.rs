//! Reads any text as a vars store, and any bytes as certificates and keys in it: the store is accepted or
//! rejected, can be listed and checked, and stays the same when it is written and read again.

#![no_main]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use base::encryption::Encryption;
use base::events::Reporter;
use libfuzzer_sys::fuzz_target;
use manifest::vars_commands::command::{VarsRequest, list, run};
use manifest::vars_store::VarsStore;
use tempfile::TempDir;
use yaml::{Data, Mapping, Node};

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir_in("/dev/shm").unwrap());

/// The text of a store, the DER of a certificate and of a key, and the kind of the key.
type Input<'a> = (&'a str, &'a [u8], &'a [u8], u8);

const KEYS: [&str; 3] = ["RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY"];

fuzz_target!(|input: Input| {
    let (text, certificate, key, kind) = input;
    let path = DIRECTORY.path().join("vars.yml");
    fs::write(&path, text).unwrap();
    let Some(mut store) = open_and_check(&path) else { return };
    if !is_stable(&store.root()) {
        return;
    }
    let mut pair = Mapping::new();
    let certificate = pem("CERTIFICATE", certificate);
    pair.insert(Node::string("ca"), Node::string(certificate.clone()));
    pair.insert(Node::string("certificate"), Node::string(certificate));
    let kind = KEYS[usize::from(kind) % KEYS.len()];
    pair.insert(Node::string("private_key"), Node::string(pem(kind, key)));
    store.set("pair", Data::Map(pair).into());
    store.save().unwrap();
    let contents = fs::read(&path).unwrap();
    let mut reopened_store = open_and_check(&path).expect("what a store writes can be read");
    assert!(reopened_store.get("pair").is_some());
    reopened_store.set("pair", reopened_store.get("pair").unwrap().clone());
    reopened_store.save().unwrap();
    assert_eq!(fs::read(&path).unwrap(), contents);
});

/// Opens a store and runs the commands that only read it. Returns `None` if it is rejected.
fn open_and_check(path: &Path) -> Option<VarsStore> {
    let encryption = Encryption::default();
    let store = VarsStore::open(path, &encryption).ok()?;
    let reporter = Reporter::silent();
    let check = VarsRequest::Check { manifests: Vec::new(), min_validity: Duration::from_secs(86_400) };
    let _ = list(path, &encryption, &reporter);
    if let Ok(text) = run(path, &encryption, &check, &reporter) {
        assert!(!text.chars().any(|character| character.is_control() && character != '\n'), "{text:?}");
    }
    let _ = run(path, &encryption, &VarsRequest::Finish { name: "pair".into() }, &reporter);
    Some(store)
}

/// Returns true if writing and reading keeps all of a tree, as in the target `yaml`.
fn is_stable(node: &Node) -> bool {
    match &node.data {
        Data::Seq(items) => items.iter().all(is_stable),
        Data::Map(map) => map.iter().all(|(key, value)| {
            !matches!(key.data, Data::Float(_)) && key.as_str() != Some("<<") && is_stable(value)
        }),
        Data::Float(number) => *number != 0.0 || number.is_sign_positive(),
        _ => true,
    }
}

/// Returns bytes in the form of a certificate or a key.
fn pem(label: &str, der: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for (number, chunk) in der.chunks(3).enumerate() {
        let bits = chunk.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        let digits = (0..4).map(|index| char::from(ALPHABET[bits >> (18 - 6 * index) & 63]));
        text.extend(digits.take(chunk.len() + 1));
        text.push_str(&"=".repeat(3 - chunk.len()));
        if number % 16 == 15 {
            text.push('\n');
        }
    }
    format!("{}\n-----END {label}-----\n", text.trim_end())
}
