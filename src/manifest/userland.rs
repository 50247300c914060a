//! The key `userland` of `cloud_provider` and of the CPIs of a CPI config: the root file system in which a
//! CPI is compiled and runs.
//!
//! ```yaml
//! userland: host                        # this machine; the default
//! userland: ubuntu.tgz                  # a directory, a tarball or a stemcell tarball: path or URL
//! userland:
//!   url: https://example.com/ubuntu.tgz
//!   sha1: sha256:…                      # any digest of BOSH
//!   files: [~/.aws/credentials]         # files and sockets of this machine that the CPI sees
//!   compile_with_network: true          # packaging scripts have the network of this machine
//! ```

use std::path::PathBuf;

use crate::reader::{Field, Problems};
use yaml::Data;

/// The name of the userland of this machine.
const HOST_USERLAND: &str = "host";

/// A root file system in which a CPI is compiled and runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserlandRef {
    /// A path, or a URL.
    pub url: String,
    /// Its digest in any BOSH notation.
    pub sha1: Option<String>,
    /// Files, directories and sockets of this machine that the CPI sees at the same paths.
    pub files: Vec<String>,
    /// True if packaging scripts have the network of this machine.
    pub compiles_with_network: bool,
    /// Its place in the manifest or CPI config. `None` for an option.
    pub place: Option<String>,
    /// The CPI config that names it, to which paths are relative. `None` for the manifest.
    pub file: Option<PathBuf>,
}

impl UserlandRef {
    /// Returns the userland that an option names; `None` for `host`.
    pub fn named(url: &str) -> Option<Self> {
        (url != HOST_USERLAND).then(|| UserlandRef {
            url: url.to_owned(),
            sha1: None,
            files: Vec::new(),
            compiles_with_network: false,
            place: None,
            file: None,
        })
    }

    /// Names the userland with its place, for messages.
    pub fn title(&self) -> String {
        let place = self.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        format!("{place}the userland")
    }
}

/// Reads the userland of a CPI. Returns `None` for this machine.
pub(crate) fn read(field: &Field<'_>, problems: &mut Problems) -> Option<UserlandRef> {
    let userland = field.get("userland")?;
    let file = userland.node.position.file().map(std::path::Path::to_owned);
    let place = Some(userland.node.position.describe());
    if !matches!(userland.node.data, Data::Map(_)) {
        let userland_ref = UserlandRef::named(&userland.text(problems)?)?;
        if userland_ref.url.trim().is_empty() {
            userland.add_problem(problems, "must be `host`, a path or a URL");
        }
        return Some(UserlandRef { file, place, ..userland_ref });
    }
    let url = userland.required_text("url", problems)?;
    let sha1 = userland.optional_text("sha1", problems).filter(|text| !text.trim().is_empty());
    let files = userland.texts("files", problems);
    for path in &files {
        if !(path.starts_with('/') || path.starts_with("~/")) {
            userland.add_problem(problems, format!("has '{path}' in `files`, which is not an absolute path"));
        }
    }
    let compiles_with_network = userland.get("compile_with_network").is_some_and(|flag| {
        let is_set = flag.node.as_bool();
        if is_set.is_none() {
            flag.add_mismatch("true or false", problems);
        }
        is_set.unwrap_or_default()
    });
    Some(UserlandRef { url, sha1, files, compiles_with_network, place, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Option<UserlandRef>, String) {
        let node = yaml::load(text, std::path::Path::new("m.yml")).unwrap();
        let mut problems = Problems::default();
        let userland = read(&Field::root(&node), &mut problems);
        match problems.into_result(Some(())) {
            Ok(()) => (userland, String::new()),
            Err(error) => (None, error.chain().join(": ")),
        }
    }

    #[test]
    fn userland_is_this_machine_a_path_or_a_url() {
        for host in ["{}", "userland: host", "userland: ~"] {
            assert_eq!(parse(host), (None, String::new()), "{host}");
        }
        let plain = parse("userland: a.tgz").0.unwrap();
        assert_eq!((plain.url.as_str(), plain.sha1), ("a.tgz", None));
        assert_eq!(plain.file, Some("m.yml".into()));
        let full = parse("userland: {url: a.tgz, sha1: abc, files: [~/x, /y]}").0.unwrap();
        assert_eq!(
            (full.sha1.as_deref(), full.files),
            (Some("abc"), vec!["~/x".to_owned(), "/y".to_owned()])
        );
        assert!(!full.compiles_with_network);
        assert!(parse("userland: {url: a, compile_with_network: true}").0.unwrap().compiles_with_network);
    }

    #[test]
    fn rejects_wrong_userlands_with_their_position() {
        for (text, expected) in [
            ("userland: []", "m.yml:1:11: `userland` must be a string"),
            ("userland: ' '", "`userland` must be `host`, a path or a URL"),
            ("userland: {sha1: a}", "`userland` needs `url: URL`"),
            (
                "userland: {url: a, compile_with_network: maybe}",
                "`userland.compile_with_network` must be true or false",
            ),
            (
                "userland: {url: a, files: [x]}",
                "`userland` has 'x' in `files`, which is not an absolute path",
            ),
        ] {
            let problem = parse(text).1;
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }
}
