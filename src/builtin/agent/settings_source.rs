//! The source of settings. It is a file that the CPI wrote, or, under contract v1, the registry whose address
//! is in the VM's user data. User data with an agent id are the settings themselves: CPIs of contract v2
//! write them.
//!
//! The registry runs only during a run of monopile. So its last answer is kept in the file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::directories::write_atomically;
use super::settings::AgentSettings;
use crate::registry_client::Client;
use base::{Error, Result};

/// The file of user data, in the directory of the settings.
pub(super) const USER_DATA_FILE: &str = "user_data.json";
/// The first pause between requests while the agent has no settings. It doubles each time.
const FIRST_REQUEST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two requests.
const MAX_REQUEST_PAUSE: Duration = Duration::from_secs(1);
/// The number of requests for current settings before the agent uses those of the file.
const MAX_SETTINGS_REQUESTS: u32 = 4;
/// The pause between two requests for current settings.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The source of a VM's settings.
pub(super) struct SettingsSource {
    file: PathBuf,
    registry: Option<RegistrySource>,
}

/// The registry, and the VM whose settings it holds.
struct RegistrySource {
    client: Client,
    /// The id of the VM in the registry.
    id: String,
}

/// The user data that CPIs of contract v1 give to a VM (`infrastructure/user_data` of old agents).
#[derive(Deserialize)]
struct RegistryUserData {
    registry: RegistryLocation,
    server: Server,
}

/// User data that are the settings themselves. Only the agent id is read: user data that name a registry have
/// none.
#[derive(Deserialize)]
struct SettingsUserData {
    #[serde(default)]
    agent_id: String,
}

/// The URL of the registry, in user data.
#[derive(Deserialize)]
struct RegistryLocation {
    endpoint: String,
}

/// The name by which the registry knows the VM, in user data.
#[derive(Deserialize)]
struct Server {
    name: String,
}

impl SettingsSource {
    /// Reads the user data beside the file `settings`, and returns the source that they give. Without user
    /// data, that is the file.
    pub(super) fn read_beside(settings: &Path) -> Result<Self> {
        let path = settings.with_file_name(USER_DATA_FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(SettingsSource { file: settings.to_owned(), registry: None });
            }
            Err(error) => return Err(Error::io(format!("reading user data '{}'", path.display()), error)),
        };
        if serde_json::from_slice::<SettingsUserData>(&text).is_ok_and(|data| !data.agent_id.is_empty()) {
            return Ok(SettingsSource { file: path, registry: None });
        }
        // serde's message may quote the endpoint, which is a secret.
        let data: RegistryUserData = serde_json::from_slice(&text).map_err(|_| {
            Error::invalid(format!(
                "user data '{}' must have registry.endpoint and server.name",
                path.display()
            ))
        })?;
        let registry = RegistrySource { client: Client::new(&data.registry.endpoint)?, id: data.server.name };
        Ok(SettingsSource { file: settings.to_owned(), registry: Some(registry) })
    }

    /// Returns the settings at the start of the agent. If the file has none, waits for the registry without a
    /// limit.
    pub(super) fn load_at_start(&self) -> Result<AgentSettings> {
        let Some(registry) = &self.registry else { return self.load_saved() };
        let mut pause = FIRST_REQUEST_PAUSE;
        let mut last_error = String::new();
        loop {
            let error = match self.fetch(registry) {
                Ok(settings) => return Ok(settings),
                Err(error) => super::error_text(&error),
            };
            if let Ok(settings) = self.load_saved() {
                tracing::warn!(error, "the registry gave no settings, starting with the last ones");
                return Ok(settings);
            }
            if error != last_error {
                tracing::info!(error, "waiting for settings");
                last_error = error;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(MAX_REQUEST_PAUSE);
        }
    }

    /// Returns the current settings, or the last ones if the registry cannot be reached.
    pub(super) fn load_current(&self) -> Result<AgentSettings> {
        let Some(registry) = &self.registry else { return self.load_saved() };
        let mut tries = 1;
        loop {
            match self.fetch(registry) {
                Ok(settings) => return Ok(settings),
                Err(error) if tries >= MAX_SETTINGS_REQUESTS => {
                    tracing::warn!(
                        error = super::error_text(&error),
                        "the registry gave no settings, using the last ones"
                    );
                    return self.load_saved();
                }
                Err(_) => {}
            }
            tries += 1;
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    /// Returns the last settings.
    pub(super) fn load_saved(&self) -> Result<AgentSettings> {
        AgentSettings::load(&self.file)
    }

    /// Gets the settings from the registry and stores them in the file.
    fn fetch(&self, registry: &RegistrySource) -> Result<AgentSettings> {
        let settings = registry
            .client
            .get(&registry.id)?
            .ok_or_else(|| Error::failure(format!("the registry has no settings of '{}'", registry.id)))?;
        let text = serde_json::to_vec(&settings)
            .map_err(|error| Error::failure("encoding the settings failed").with_source(error))?;
        let agent_settings: AgentSettings = serde_json::from_slice(&text).map_err(|_| {
            let id = &registry.id;
            Error::invalid(format!("the registry's settings of '{id}' are not in the format of BOSH"))
        })?;
        write_atomically(&self.file, &text, 0o600)?;
        Ok(agent_settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_from_the_file_without_user_data() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("settings.json");
        std::fs::write(&path, r#"{"agent_id": "a"}"#).unwrap();
        let source = SettingsSource::read_beside(&path).unwrap();
        for settings in [source.load_at_start(), source.load_current(), source.load_saved()] {
            assert_eq!(settings.unwrap().agent_id, "a");
        }
    }

    #[test]
    fn user_data_with_an_agent_id_are_settings() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("settings.json");
        std::fs::write(&path, r#"{"agent_id": "old"}"#).unwrap();
        // A registry that is named beside the agent id is not asked. CPIs of contract v2 may still name it.
        let registry = r#""registry": {"endpoint": "http://127.0.0.1:1"}, "server": {"name": "vm"}"#;
        std::fs::write(path.with_file_name(USER_DATA_FILE), format!(r#"{{"agent_id": "b", {registry}}}"#))
            .unwrap();
        let source = SettingsSource::read_beside(&path).unwrap();
        for settings in [source.load_at_start(), source.load_current(), source.load_saved()] {
            assert_eq!(settings.unwrap().agent_id, "b");
        }
        // Without an agent id, they are not complete.
        std::fs::write(path.with_file_name(USER_DATA_FILE), r#"{"agent_id": "", "mbus": "x"}"#).unwrap();
        assert!(SettingsSource::read_beside(&path).is_err());
    }

    #[test]
    fn last_settings_are_used_if_the_registry_is_down() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("settings.json");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let data = format!(
            r#"{{"registry": {{"endpoint": "http://u:p@127.0.0.1:{port}"}}, "server": {{"name": "vm"}}}}"#
        );
        std::fs::write(path.with_file_name(USER_DATA_FILE), data).unwrap();
        std::fs::write(&path, r#"{"agent_id": "known"}"#).unwrap();
        let source = SettingsSource::read_beside(&path).unwrap();
        assert_eq!(source.load_at_start().unwrap().agent_id, "known");
        assert_eq!(source.load_current().unwrap().agent_id, "known");
    }

    #[test]
    fn errors_do_not_quote_malformed_user_data() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("settings.json");
        std::fs::write(path.with_file_name(USER_DATA_FILE), r#"{"registry": {"endpoint": ["s3cret"]}}"#)
            .unwrap();
        let error = SettingsSource::read_beside(&path).err().unwrap().to_string();
        assert!(error.contains("user_data.json") && !error.contains("s3cret"), "{error}");
    }
}
