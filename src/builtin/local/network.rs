//! The network of a VM: the machine's, or the network namespace in the cloud property `network_namespace`,
//! which is the path of its file (`/run/netns/NAME`, `/proc/PID/ns/net`). The agent then listens on the
//! addresses of that namespace.

use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::cpi::args::type_name;
use crate::cpi::failure::{CpiFailure, CpiResult};
use base::JsonObject;

/// The name of the cloud property.
const NAMESPACE_PROPERTY: &str = "network_namespace";

/// Returns the path of the namespace in the cloud properties.
pub(super) fn namespace(cloud_properties: &JsonObject) -> CpiResult<Option<PathBuf>> {
    match cloud_properties.get(NAMESPACE_PROPERTY) {
        None | Some(serde_json::Value::Null) => Ok(None),
        Some(serde_json::Value::String(path)) if path.starts_with('/') => Ok(Some(PathBuf::from(path))),
        Some(other) => Err(CpiFailure::invalid_call(format!(
            "create_vm: cloud property {NAMESPACE_PROPERTY} must be an absolute path, not {}",
            type_name(other)
        ))),
    }
}

/// Moves the calling thread into a namespace.
pub(super) fn enter(namespace: &Path) -> Result<(), String> {
    let enter_error =
        |reason: String| format!("entering the network namespace '{}' failed: {reason}", namespace.display());
    let file = std::fs::File::open(namespace).map_err(|error| enter_error(error.to_string()))?;
    move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network))
        .map_err(|errno| enter_error(errno.to_string()))
}

/// Runs `check` inside a namespace.
pub(super) fn run_inside<T: Send>(
    namespace: Option<&Path>,
    check: impl FnOnce() -> CpiResult<T> + Send,
) -> CpiResult<T> {
    let Some(namespace) = namespace else { return check() };
    // Each thread has its own namespace, so a new thread enters it and this one stays outside.
    std::thread::scope(|scope| {
        let check_thread = scope.spawn(|| {
            enter(namespace).map_err(CpiFailure::cloud)?;
            check()
        });
        check_thread.join().unwrap_or_else(|_| {
            let path = namespace.display();
            Err(CpiFailure::cloud(format!("checking the network namespace '{path}' ended with a panic")))
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_absolute_path_names_a_namespace() {
        let namespace_of =
            |value: serde_json::Value| namespace(json!({ "network_namespace": value }).as_object().unwrap());
        assert_eq!(namespace_of(json!(null)).unwrap(), None);
        assert_eq!(namespace_of(json!("/run/netns/a")).unwrap(), Some(PathBuf::from("/run/netns/a")));
        assert!(namespace_of(json!("a")).is_err() && namespace_of(json!(1)).is_err());
        assert_eq!(namespace(&JsonObject::new()).unwrap(), None);
    }

    #[test]
    fn error_for_a_missing_namespace_names_it() {
        let error = run_inside(Some(Path::new("/nowhere")), || Ok(())).unwrap_err();
        assert!(error.message.contains("'/nowhere'"), "{error}");
        assert_eq!(run_inside(None, || Ok(7)).unwrap(), 7);
    }
}
