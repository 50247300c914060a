//! Paths: resolves options, `$HOME` and the working directory to absolute paths.

use std::path::{Component, Path, PathBuf};

use base::{Error, Result};
use engine::state::{BucketUrl, STATE_SUFFIX};

/// Returns the home directory: `$HOME`, or the one in the password database.
#[expect(clippy::disallowed_methods, reason = "cli is where the environment is read")]
pub(super) fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute())
}

/// Replaces a leading `~` with the home directory.
pub(super) fn expand(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.to_owned(),
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// Formats a path for display, with `~` for the home directory.
pub(super) fn shorten_home(path: &Path) -> String {
    match home().and_then(|home| Some(Path::new("~").join(path.strip_prefix(home).ok()?))) {
        Some(short) => short.display().to_string(),
        None => path.display().to_string(),
    }
}

/// Returns the environment variables of this process that are UTF-8.
#[expect(clippy::disallowed_methods, reason = "cli is where the environment is read")]
pub(super) fn env_vars() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Replaces the extension of a path: `dir/bosh.yml` and `-state.json` give `dir/bosh-state.json`.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Returns the vars store that is used if none is named: `bosh-vars.yml` for `bosh.yml`, next to the state.
/// An environment whose state is in a bucket has none.
pub(super) fn default_vars_store(manifest: &Path, state: &Path) -> Option<PathBuf> {
    let store = with_suffix(manifest, "-vars.yml");
    store.file_name().filter(|_| !is_url(state)).map(|name| state.with_file_name(name))
}

/// Returns the existing manifest beside a file with the name of its default vars store.
pub(super) fn manifest_of_vars_store(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_suffix("-vars.yml")?;
    Some(path.with_file_name(format!("{name}.yml"))).filter(|path| manifest::is_manifest(path))
}

/// Returns true if the path exists, or if that cannot be found out.
pub(super) fn exists(word: impl AsRef<Path>) -> bool {
    expand(word.as_ref(), home().as_deref()).try_exists().unwrap_or(true)
}

/// Returns the path of this program.
pub(super) fn executable() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| Error::io("finding this executable", error))
}

#[expect(clippy::disallowed_methods, reason = "cli is where paths are made absolute")]
pub(super) fn working_directory() -> Result<PathBuf> {
    std::env::current_dir().map_err(|error| Error::io("finding the working directory", error))
}

/// Returns the path without symbolic links. If it does not exist, makes it absolute.
#[expect(clippy::disallowed_methods, reason = "cli is where paths are made absolute")]
pub(super) fn real_or_absolute(path: &Path) -> std::io::Result<PathBuf> {
    path.canonicalize().or_else(|_| std::path::absolute(path))
}

/// Makes a path absolute. If it has a `..`, and its directory exists, returns the path without it.
#[expect(clippy::disallowed_methods, reason = "cli is where paths are made absolute")]
pub(super) fn absolute(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path)
        .map_err(|error| Error::io(format!("finding the absolute path of '{}'", path.display()), error))?;
    // Only the file system knows the directory above one that is reached by a link.
    let real_path = || Some(absolute.parent()?.canonicalize().ok()?.join(absolute.file_name()?));
    let has_parent = absolute.components().any(|component| component == Component::ParentDir);
    Ok(has_parent.then(real_path).flatten().unwrap_or(absolute))
}

/// Returns the path or URL of the state: `--state`, or `<manifest without extension>-state.json`.
pub(super) fn state(option: Option<&Path>, manifest: &Path) -> Result<PathBuf> {
    let home = home();
    match option {
        // Opening the storage validates the URL.
        Some(url) if is_url(url) => Ok(url.to_owned()),
        Some(path) => absolute(&expand(path, home.as_deref())),
        None if manifest == Path::new("-") => {
            Err(Error::usage("a manifest from standard input ('-') has no default state file")
                .with_hint("name one: `monopile SAME-COMMAND --state FILE`"))
        }
        None if expand(manifest, home.as_deref()).is_dir() => {
            Err(manifest::manifest_directory_error(manifest))
        }
        None if is_state_name(manifest) => Err(state_as_manifest_error(manifest)),
        None => absolute(&with_suffix(&expand(manifest, home.as_deref()), STATE_SUFFIX)),
    }
}

/// Returns the error for a state in place of a manifest.
pub(super) fn state_as_manifest_error(file: &Path) -> Error {
    let path = expand(file, home().as_deref());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let manifest = name.strip_suffix(STATE_SUFFIX).map(|stem| path.with_file_name(format!("{stem}.yml")));
    Error::invalid(format!("'{}' is a state, not a manifest", file.display())).with_hint(
        match manifest.filter(|manifest| manifest::is_manifest(manifest)) {
            Some(manifest) => format!("name the manifest, which is beside it: '{}'", manifest.display()),
            None => "name the manifest, and a state with another name with --state FILE".to_owned(),
        },
    )
}

/// Returns true for the name of a state: `bosh-state.json`.
pub(super) fn is_state_name(path: &Path) -> bool {
    path.to_string_lossy().ends_with(STATE_SUFFIX)
}

/// Returns true for `scheme://…`.
pub(super) fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|text| !matches!(BucketUrl::parse(text), Ok(None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_directories_are_resolved() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(directory.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a/b", directory.join("link")).unwrap();
        for (path, expected) in [
            ("a/../s.json", "s.json"),
            ("link/../s.json", "a/s.json"),
            ("absent/../s.json", "absent/../s.json"),
        ] {
            assert_eq!(absolute(&directory.join(path)).unwrap(), directory.join(expected));
        }
    }
}
