//! The configuration of a CPI: the `--config` file, with its keys overridden by those of the request's
//! context. With several CPIs, the director puts the properties of the CPI config into the context.

use std::path::Path;

use super::failure::{CpiFailure, CpiResult};
use super::files::read_json;
use base::JsonObject;

/// Reads the file and overrides `keys` with those of the context.
pub(crate) fn read(file: &Path, context: &JsonObject, keys: &[&str]) -> CpiResult<JsonObject> {
    let mut properties = read_json::<JsonObject>(file)?.ok_or_else(|| {
        CpiFailure::cloud(format!("the CPI's configuration file '{}' does not exist", file.display()))
    })?;
    for key in keys {
        if let Some(value) = context.get(*key) {
            properties.insert((*key).to_owned(), value.clone());
        }
    }
    Ok(properties)
}

/// Fails if a path in the configuration is relative, or the root of the file system.
pub(crate) fn check_path(key: &str, path: &Path) -> CpiResult<()> {
    if path.is_absolute() && path.parent().is_some() {
        return Ok(());
    }
    let path = path.display();
    Err(CpiFailure::cloud(format!("the CPI's {key} must be an absolute path below '/', not '{path}'")))
}

/// Returns the stemcell formats that `info` reports: those of the configuration, or all that the CPI can use.
pub(crate) fn stemcell_formats(
    file: &Path,
    context: &JsonObject,
    all_formats: &[&str],
) -> CpiResult<Vec<String>> {
    let properties = read_json::<JsonObject>(file)?.unwrap_or_default();
    match context.get("stemcell_formats").or(properties.get("stemcell_formats")) {
        None => Ok(all_formats.iter().map(|format| (*format).to_owned()).collect()),
        Some(formats) => serde_json::from_value(formats.clone())
            .map_err(|_| CpiFailure::cloud("the CPI's stemcell_formats must be a list of strings")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn configuration_can_limit_the_stemcell_formats() {
        let directory = tempfile::tempdir().unwrap();
        let missing_config = directory.path().join("config.json");
        let formats = |context: Value| {
            stemcell_formats(&missing_config, context.as_object().unwrap(), &["x", "y"])
                .map_err(|error| error.message)
        };
        assert_eq!(formats(json!({})).unwrap(), ["x", "y"]);
        assert_eq!(formats(json!({"stemcell_formats": ["a"]})).unwrap(), ["a"]);
        assert!(formats(json!({"stemcell_formats": "a"})).is_err());
    }

    #[test]
    fn context_overrides_only_the_keys_of_the_cpi() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        assert!(read(&path, &JsonObject::new(), &[]).is_err(), "a missing file is accepted");
        std::fs::write(&path, r#"{"root": "/a", "ntp": ["x"]}"#).unwrap();
        let context = json!({"root": "/b", "director_uuid": "d"});
        let properties = read(&path, context.as_object().unwrap(), &["root", "ntp"]).unwrap();
        assert_eq!(json!(properties), json!({"root": "/b", "ntp": ["x"]}));
    }
}
