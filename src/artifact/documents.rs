//! The YAML documents inside artifacts: `stemcell.MF`, `release.MF`, `job.MF` (a job's `spec`), and a
//! package's `spec` and `config/final.yml` of releases in source form.
//!
//! Text fields have the type `String`, so that `version: 1.10` stays `1.10`: serde_yaml gives a plain scalar
//! unchanged to a string field.
//!
//! Formats: docs-bosh `stemcell.md` ("stemcell.MF"), `release.md`, `jobs.md` and `packages.md`.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::limits::{MAX_DOCUMENT_BYTES, MAX_DOCUMENT_NODES};
use base::text::data_problem;
use base::{Error, Result};

/// The number of opening brackets above which `yaml` parses a document first. `yaml` refuses a depth of more
/// than [`yaml::MAX_DEPTH`].
const MAX_BRACKETS: usize = 64;

/// Decodes the YAML document `text`. `file` names it in errors ("stemcell.MF of the stemcell '…'").
pub(super) fn decode<T: DeserializeOwned>(text: &[u8], file: &str) -> Result<T> {
    let text = std::str::from_utf8(text).map_err(|_| Error::invalid(format!("{file} is not UTF-8 text")))?;
    check_shape(text).map_err(|problem| Error::invalid(format!("{file} is not valid: {problem}")))?;
    serde_yaml::from_str(text).map_err(|error| decode_error(text, file, &error))
}

/// Returns the error for a document that cannot be decoded, in the words of the crate `yaml` if it is not
/// YAML.
fn decode_error(text: &str, file: &str, error: &serde_yaml::Error) -> Error {
    let invalid_error = |place: Option<(usize, usize)>, problem: &str| {
        let path = file.strip_prefix('\'').and_then(|file| file.strip_suffix('\''));
        Error::invalid(match (path, place) {
            (Some(path), Some((line, column))) => format!("{path}:{line}:{column}: {problem}"),
            (None, Some((line, column))) => {
                format!("{file} is not valid: line {line}, column {column}: {problem}")
            }
            (_, None) => format!("{file} is not valid: {problem}"),
        })
    };
    let description = match yaml::load(text, Path::new(file)) {
        Err(error) => {
            let yaml_error = invalid_error(Some((error.line, error.column)), &error.problem);
            return error.hint.into_iter().fold(yaml_error, Error::with_hint);
        }
        Ok(_) => error.to_string(),
    };
    let place = error.location().map(|location| (location.line(), location.column()));
    let message = description.split(" at line ").next().unwrap_or_default();
    let problem = match (message.split_once("missing field `"), message.split_once("invalid type: ")) {
        (Some((parent, key)), _) => {
            format!("`{}{}` is missing", parent.replace(": ", "."), key.trim_end_matches('`'))
        }
        (None, Some((path, _))) => {
            let value = data_problem(&message[path.len()..]);
            match path.strip_suffix(": ") {
                Some(path) => format!("`{path}` is {value}"),
                None => value,
            }
        }
        (None, None) => message.to_owned(),
    };
    invalid_error(place, &problem)
}

/// Refuses a document that would cost the parser of `serde_yaml` much time or memory. Its time grows with the
/// square of the depth of brackets, and its memory with the number of nodes.
fn check_shape(text: &str) -> Result<(), String> {
    if text.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(format!("it is larger than {MAX_DOCUMENT_BYTES} bytes"));
    }
    let (mut brackets, mut nodes) = (0_usize, 0);
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let next_byte = bytes.peek();
        let ends_word = next_byte.is_none_or(u8::is_ascii_whitespace);
        // Closing brackets may be inside quotes, so only those of empty collections count.
        let is_empty = matches!((byte, next_byte), (b'[', Some(b']')) | (b'{', Some(b'}')));
        brackets += usize::from(b"[{".contains(&byte) && !is_empty);
        nodes += usize::from(b"[{,\n".contains(&byte) || ends_word && b"-:?".contains(&byte));
    }
    if nodes > MAX_DOCUMENT_NODES {
        return Err(format!("it has more than {} nodes", MAX_DOCUMENT_NODES));
    }
    // Brackets in quotes and comments are also counted, so a parser of bounded depth decides.
    if brackets > MAX_BRACKETS {
        yaml::syntax_tree::parse(text, |_| ()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Decodes a `job.MF`.
///
/// It is the job's `spec` file, whose property defaults reach templates. The crate `yaml` reads the defaults,
/// because it resolves scalars as BOSH does: `yes` and `off` are booleans, `0644` is octal.
pub(super) fn decode_job_spec(text: &[u8], file: &str) -> Result<JobSpec> {
    let mut spec: JobSpec = decode(text, file)?;
    if spec.properties.is_empty() {
        return Ok(spec);
    }
    // `decode` has checked that the text is UTF-8.
    let tree = yaml::load(&String::from_utf8_lossy(text), Path::new(file))?;
    let Some(nodes) = tree.get("properties").and_then(yaml::Node::as_map) else { return Ok(spec) };
    // Properties are matched by position, because `yaml` does not read the names `on` and `1` as strings.
    // If the numbers of properties differ, as after a merge key, they are matched by name.
    let has_same_order = nodes.len() == spec.properties.len();
    for (index, (name, property)) in spec.properties.iter_mut().enumerate() {
        let by_position = nodes.iter().nth(index).map(|(_, node)| node).filter(|_| has_same_order);
        let node = by_position.or_else(|| nodes.get(name)).and_then(|node| node.get("default"));
        if let Some(default) = node.filter(|default| !default.is_null()) {
            property.get_or_insert_default().default = Some(default.to_json()?);
        }
    }
    Ok(spec)
}

/// `stemcell.MF`.
#[derive(Debug, Deserialize)]
pub(super) struct StemcellManifest {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) operating_system: Option<String>,
    /// Accepts any value, so that the error for a wrong one can name the key.
    #[serde(default)]
    pub(super) api_version: Option<serde_yaml::Value>,
    pub(super) sha1: Option<String>,
    #[serde(default)]
    pub(super) cloud_properties: Option<Value>,
    #[serde(default)]
    pub(super) stemcell_formats: Option<Vec<String>>,
}

/// `release.MF`.
#[derive(Debug, Deserialize)]
pub(super) struct ReleaseManifest {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) commit_hash: Option<String>,
    #[serde(default, rename = "uncommitted_changes")]
    pub(super) has_uncommitted_changes: Option<bool>,
    pub(super) jobs: Option<Vec<ReleaseEntry>>,
    pub(super) packages: Option<Vec<ReleaseEntry>>,
    pub(super) compiled_packages: Option<Vec<ReleaseEntry>>,
    pub(super) license: Option<LicenseEntry>,
}

/// A job or package in `release.MF`.
#[derive(Debug, Deserialize)]
pub(super) struct ReleaseEntry {
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) fingerprint: Option<String>,
    pub(super) sha1: Option<String>,
    pub(super) dependencies: Option<Vec<String>>,
    /// `os/version` of the stemcell. Only compiled packages have it.
    pub(super) stemcell: Option<String>,
}

/// The license in `release.MF`.
#[derive(Debug, Deserialize)]
pub(super) struct LicenseEntry {
    pub(super) fingerprint: Option<String>,
    pub(super) version: Option<String>,
    pub(super) sha1: Option<String>,
}

/// `job.MF`, which is the job's `spec` file.
#[derive(Debug, Deserialize)]
pub(super) struct JobSpec {
    pub(super) name: String,
    #[serde(default, deserialize_with = "deserialize_pairs")]
    pub(super) templates: Vec<(String, String)>,
    pub(super) packages: Option<Vec<String>>,
    #[serde(default, deserialize_with = "deserialize_pairs")]
    pub(super) properties: Vec<(String, Option<PropertySpec>)>,
    pub(super) consumes: Option<Vec<Value>>,
    pub(super) provides: Option<Vec<Value>>,
}

/// A property in a job's `spec`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PropertySpec {
    pub(super) description: Option<String>,
    /// A value that [`decode_job_spec`] sets, not serde.
    #[serde(skip)]
    pub(super) default: Option<Value>,
}

/// A package's `spec`.
#[derive(Debug, Deserialize)]
pub(super) struct PackageSpec {
    pub(super) name: String,
    pub(super) dependencies: Option<Vec<String>>,
    pub(super) files: Option<Vec<String>>,
    pub(super) excluded_files: Option<Vec<String>>,
}

/// `config/final.yml` of a release in source form.
#[derive(Debug, Default, Deserialize)]
pub(super) struct FinalConfig {
    pub(super) name: Option<String>,
    pub(super) final_name: Option<String>,
}

/// Deserialises a mapping as pairs in the order of the document. Null is an empty mapping, and a key that
/// occurs twice is an error.
fn deserialize_pairs<'de, D, T>(deserializer: D) -> Result<Vec<(String, T)>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Pairs<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
        type Value = Vec<(String, T)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a mapping")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_none<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_map(self)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs: Vec<(String, T)> = Vec::new();
            while let Some((key, value)) = map.next_entry::<String, T>()? {
                if pairs.iter().any(|(other, _)| *other == key) {
                    return Err(serde::de::Error::custom(format!("the key '{key}' occurs twice")));
                }
                pairs.push((key, value));
            }
            Ok(pairs)
        }
    }

    deserializer.deserialize_option(Pairs(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_no_words_of_libraries() {
        for (text, problem) in [
            ("name: [", "line 1, column 7: the bracket '[' is not closed"),
            ("name: x\n", "line 1, column 1: `version` is missing"),
            ("name: x\nversion: []\n", "line 2, column 10: `version` is a list where a string is needed"),
            ("name: x\nversion: 1\njobs:\n- {version: 1}\n", "line 4, column 3: `jobs[0].name` is missing"),
        ] {
            let error = decode::<ReleaseManifest>(text.as_bytes(), "release.MF").unwrap_err();
            assert_eq!(error.chain(), [format!("release.MF is not valid: {problem}")], "{text}");
        }
        let error = decode::<ReleaseManifest>(b"name: [", "'a/spec'").unwrap_err();
        assert_eq!(error.chain(), ["a/spec:1:7: the bracket '[' is not closed"]);
    }

    #[test]
    fn version_is_read_as_text() {
        for version in ["1.10", "621.0", "0x10", "1e3", "'7'", "0+dev.1", "2_0", "2024-01-01"] {
            let text = format!("name: 12\nversion: {version}\n");
            let manifest: StemcellManifest = decode(text.as_bytes(), "stemcell.MF").unwrap();
            assert_eq!(manifest.version, version.trim_matches('\''));
            assert_eq!(manifest.name, "12");
        }
    }

    #[test]
    fn job_spec_keeps_order_and_types() {
        let text = b"name: j\ntemplates: {z.erb: bin/z, a.erb: bin/a}\nproperties:\n  z.port: {default: \
                     80}\n  a: {description: d}\n  bare:\n  list: {default: [1, {k: ~}]}\nconsumes: [{name: \
                     db, type: x}]\n";
        let spec = decode_job_spec(text, "job.MF").unwrap();
        assert_eq!(spec.templates, [("z.erb".into(), "bin/z".into()), ("a.erb".into(), "bin/a".into())]);
        let names: Vec<&str> = spec.properties.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["z.port", "a", "bare", "list"]);
        assert_eq!(spec.properties[0].1.as_ref().unwrap().default, Some(80.into()));
        assert!(spec.properties[1].1.as_ref().unwrap().default.is_none());
        assert!(spec.properties[2].1.is_none());
        let list = spec.properties[3].1.as_ref().unwrap().default.clone();
        assert_eq!(list, Some(serde_json::json!([1, {"k": null}])));
        assert_eq!(spec.consumes.unwrap().len(), 1);
    }

    #[test]
    fn property_defaults_are_typed_as_in_bosh() {
        let text = b"name: j\nproperties:\n  a: {default: yes}\n  b: {default: 'yes'}\n  c: {default: \
                     off}\n  d: {default: 0644}\n  e: {default: 1.10}\n  f: {default: }\n  g.h: {default: \
                     {<<: {x: 1}, k: 2}}\n  1: {default: one}\n";
        let spec = decode_job_spec(text, "job.MF").unwrap();
        let default = |index: usize| spec.properties[index].1.as_ref().and_then(|spec| spec.default.clone());
        let expected = serde_json::json!([true, "yes", false, 420, 1.1, null, {"x": 1, "k": 2}, "one"]);
        for (index, expected) in expected.as_array().unwrap().iter().enumerate() {
            assert_eq!(default(index), Some(expected.clone()).filter(|value| !value.is_null()), "{index}");
        }
        let error =
            decode_job_spec(b"name: j\nproperties: {a: {default: {1: 2}}}\n", "job.MF of j").unwrap_err();
        assert!(error.to_string().contains("job.MF of j:2"), "{error}");
    }

    #[test]
    fn rejects_deep_and_large_documents_quickly() {
        let start = std::time::Instant::now();
        for text in [
            "[".repeat(8 << 20),
            "{a: ".repeat(2 << 20),
            format!("name: '{}'\nversion: {}", "]".repeat(100), "[".repeat(1 << 20)),
            "- ".repeat(2 << 20),
            format!("name: {}", "[".repeat(1000)),
            // Closing brackets in quotes close nothing.
            "['}]', ".repeat(300_000),
        ] {
            let error = decode::<ReleaseManifest>(text.as_bytes(), "release.MF").unwrap_err();
            let reason = error.chain().join(": ");
            let is_refused =
                ["nested deeper", "recursion limit", "nodes"].iter().any(|word| reason.contains(word));
            assert!(is_refused, "{reason}");
        }
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "{:?}", start.elapsed());
        // Brackets in text do not count as depth.
        let text = format!("name: a\nversion: '{}'\n", "[".repeat(200));
        assert_eq!(decode::<ReleaseManifest>(text.as_bytes(), "release.MF").unwrap().version.len(), 200);
    }

    #[test]
    fn null_sections_are_empty_lists() {
        let spec: JobSpec = decode(b"name: j\ntemplates:\nproperties: {}\npackages: ~\n", "job.MF").unwrap();
        assert!(spec.templates.is_empty() && spec.properties.is_empty() && spec.packages.is_none());
    }

    #[test]
    fn errors_name_file_and_line() {
        let error = decode::<JobSpec>(b"name: j\ntemplates: [a]\n", "job.MF of job 'j'").unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("job.MF of job 'j'") && text.contains("line 2"), "{text}");
        assert!(decode::<JobSpec>(b"\xff", "x").is_err());
        assert!(decode::<JobSpec>(b"name: [", "x").is_err());
        assert!(decode::<ReleaseManifest>(b"version: 1", "x").unwrap_err().to_string().contains("name"));
    }
}
