//! Where things live: flags, `$XDG_*`, `$HOME` and the working directory become absolute paths here, once.

use std::path::{Path, PathBuf};

use base::{Error, Result};
use engine::state::Address;

/// The user's home directory: `$HOME`, or the password database's.
pub(super) fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute())
}

/// `~` and `~/x` replaced by the home directory; other paths as they are.
pub(super) fn expand(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.to_owned(),
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// A path as a person may read it: with `~` where it is below the home directory.
pub(super) fn shortened(path: &Path) -> String {
    match home().and_then(|home| Some(Path::new("~").join(path.strip_prefix(home).ok()?))) {
        Some(short) => short.display().to_string(),
        None => path.display().to_string(),
    }
}

/// This process's environment. Variables that are not UTF-8 are left out.
#[expect(clippy::disallowed_methods, reason = "cli is where the environment is read")]
pub(super) fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The value of an environment variable, if it is set and not empty.
#[expect(clippy::disallowed_methods, reason = "cli is where the environment is read")]
pub(super) fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// `path` with its extension replaced by `suffix`: `dir/bosh.yml` and `-state.json` give
/// `dir/bosh-state.json`.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Whether a word of a command line names something that exists.
pub(super) fn is_there(word: impl AsRef<Path>) -> bool {
    expand(word.as_ref(), home().as_deref()).exists()
}

/// This program.
pub(super) fn executable() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| Error::io("finding this executable", error))
}

/// The working directory.
#[expect(clippy::disallowed_methods, reason = "cli is where paths are made absolute")]
pub(super) fn working_directory() -> Result<PathBuf> {
    std::env::current_dir().map_err(|error| Error::io("finding the working directory", error))
}

/// `path`, absolute.
pub(super) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path)
        .map_err(|error| Error::io(format!("finding the absolute path of '{}'", path.display()), error))
}

/// The state: `--state`, which may be a URL, or `<manifest without extension>-state.json`.
pub(super) fn state(flag: Option<&Path>, manifest: &Path) -> Result<PathBuf> {
    let home = home();
    match flag {
        // Whether it can be used is for whoever opens it to say.
        Some(url) if is_url(url) => Ok(url.to_owned()),
        Some(path) => absolute(&expand(path, home.as_deref())),
        None if manifest == Path::new("-") => {
            Err(Error::usage("a manifest from standard input has no place for its state")
                .with_hint("name the state file with --state PATH"))
        }
        None => absolute(&with_suffix(&expand(manifest, home.as_deref()), "-state.json")),
    }
}

/// Whether it is `scheme://…` and no path.
pub(super) fn is_url(place: &Path) -> bool {
    place.to_str().is_some_and(|text| !matches!(Address::parse(text), Ok(None)))
}

/// A base directory of the XDG specification with this program's name in it. A relative value counts as
/// unset, as the specification says.
pub(super) fn base(variable_name: &str, below_home: &str) -> Result<PathBuf> {
    let base = match variable(variable_name).map(PathBuf::from).filter(|path| path.is_absolute()) {
        Some(path) => path,
        None => home().map(|home| home.join(below_home)).ok_or_else(|| {
            Error::usage("there is no home directory").with_hint(format!("set HOME or {variable_name}"))
        })?,
    };
    Ok(base.join("monopile"))
}
