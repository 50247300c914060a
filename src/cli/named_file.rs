//! The file on the command line of a command that needs a state: a manifest, or by mistake another file.

use std::path::Path;

use super::paths;
use base::{Error, Result};
use engine::state::{State, Storage};

/// Fails if there is no state at `state`, and the file cannot be a manifest: it is a state, a damaged one, an
/// ops file or a vars file. A file that does not exist is no error here.
pub(super) fn check_is_manifest(file: &Path, state: &Path) -> Result<()> {
    let path = paths::expand(file, paths::home().as_deref());
    if paths::is_url(state) || state.exists() || !path.is_file() {
        return Ok(());
    }
    let Some(reason) = manifest::non_manifest_reason(&path) else { return Ok(()) };
    if let Some(manifest) = paths::manifest_of_vars_store(&path) {
        return Err(Error::invalid(format!("'{}' is a vars store, not a manifest", file.display()))
            .with_hint(format!("name the manifest, which is beside it: '{}'", manifest.display())));
    }
    let error = Error::invalid(format!("'{}' is neither a manifest nor a state", file.display()));
    if path.extension().is_none_or(|extension| extension != "json") {
        return Err(error.with_source(reason).with_hint("name the manifest"));
    }
    match State::read(&Storage::from(path.as_path())) {
        Ok(Some(_)) => Err(paths::state_as_manifest_error(file)),
        Ok(None) => Ok(()),
        // The first text names the file.
        Err(damage) => Err(error
            .with_source(damage.chain().into_iter().skip(1).collect::<Vec<_>>().join(": "))
            .with_hint("restore a copy of the state, or name the manifest")),
    }
}
