//! Where settings come from: a file that the CPI wrote, or, under contract v1, the registry that the VM's user
//! data name. What the registry said last is kept in the file, for the time when it cannot be reached: it is
//! there only while a run of the tool is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::dirs::write_atomically;
use super::settings::AgentSettings;
use crate::registry::Client;
use base::{Error, Result};

/// The file of user data, beside the settings.
const USER_DATA: &str = "user_data.json";
/// The pauses between two questions while there are no settings at all.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// How often the registry is asked for a change before what is known must do.
const TRIES: u32 = 4;
const RETRY: Duration = Duration::from_millis(500);

/// The source of a VM's settings.
pub(super) struct Source {
    file: PathBuf,
    registry: Option<Registry>,
}

struct Registry {
    client: Client,
    /// What the VM is called there.
    id: String,
}

/// User data as CPIs of contract v1 give them to a VM (`infrastructure/user_data` of agents of that time).
#[derive(Deserialize)]
struct UserData {
    registry: Endpoint,
    server: Server,
}

#[derive(Deserialize)]
struct Endpoint {
    endpoint: String,
}

#[derive(Deserialize)]
struct Server {
    name: String,
}

impl Source {
    /// The source that the files at `settings` and beside it make up.
    pub(super) fn beside(settings: &Path) -> Result<Self> {
        let path = settings.with_file_name(USER_DATA);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Source { file: settings.to_owned(), registry: None });
            }
            Err(error) => return Err(Error::io(format!("reading user data '{}'", path.display()), error)),
        };
        // The parser's words may quote the endpoint, which is a secret.
        let data: UserData = serde_json::from_slice(&text).map_err(|_| {
            Error::invalid(format!(
                "user data '{}' must have registry.endpoint and server.name",
                path.display()
            ))
        })?;
        let registry = Registry { client: Client::new(&data.registry.endpoint)?, id: data.server.name };
        Ok(Source { file: settings.to_owned(), registry: Some(registry) })
    }

    /// The settings to start with. The way to the registry may take its time: without any settings there is
    /// nothing to do but to ask again.
    pub(super) fn first(&self) -> Result<AgentSettings> {
        let Some(registry) = &self.registry else { return self.known() };
        let (mut pause, longest) = PAUSE;
        let mut told = String::new();
        loop {
            let error = match self.fetch(registry) {
                Ok(settings) => return Ok(settings),
                Err(error) => super::message(&error),
            };
            if let Ok(settings) = self.known() {
                tracing::warn!(error, "starting with the settings of the last time");
                return Ok(settings);
            }
            if error != told {
                tracing::info!(error, "waiting for settings");
                told = error;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
    }

    /// The settings as they are now, or as they were last.
    pub(super) fn refresh(&self) -> Result<AgentSettings> {
        let Some(registry) = &self.registry else { return self.known() };
        let mut tries = 1;
        loop {
            match self.fetch(registry) {
                Ok(settings) => return Ok(settings),
                Err(error) if tries >= TRIES => {
                    tracing::warn!(
                        error = super::message(&error),
                        "going on with the settings of the last time"
                    );
                    return self.known();
                }
                Err(_) => {}
            }
            tries += 1;
            std::thread::sleep(RETRY);
        }
    }

    /// The settings as they were last.
    pub(super) fn known(&self) -> Result<AgentSettings> {
        AgentSettings::load(&self.file)
    }

    fn fetch(&self, registry: &Registry) -> Result<AgentSettings> {
        let settings = registry.client.get(&registry.id)?.ok_or_else(|| {
            Error::environment(format!("the registry has no settings of '{}'", registry.id))
        })?;
        let text = serde_json::to_vec(&settings)
            .map_err(|error| Error::environment("encoding the settings failed").with_source(error))?;
        let parsed: AgentSettings = serde_json::from_slice(&text)
            .map_err(|_| Error::invalid("the settings in the registry are not what a CPI writes"))?;
        write_atomically(&self.file, &text, 0o600)?;
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_user_data_the_file_is_the_source() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        std::fs::write(&path, r#"{"agent_id": "a"}"#).unwrap();
        let source = Source::beside(&path).unwrap();
        for settings in [source.first(), source.refresh(), source.known()] {
            assert_eq!(settings.unwrap().agent_id, "a");
        }
    }

    #[test]
    fn a_registry_that_is_away_leaves_what_was_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let data = format!(
            r#"{{"registry": {{"endpoint": "http://u:p@127.0.0.1:{port}"}}, "server": {{"name": "vm"}}}}"#
        );
        std::fs::write(path.with_file_name(USER_DATA), data).unwrap();
        std::fs::write(&path, r#"{"agent_id": "known"}"#).unwrap();
        let source = Source::beside(&path).unwrap();
        assert_eq!(source.first().unwrap().agent_id, "known");
        assert_eq!(source.refresh().unwrap().agent_id, "known");
    }

    #[test]
    fn broken_user_data_are_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        std::fs::write(path.with_file_name(USER_DATA), r#"{"registry": {"endpoint": ["s3cret"]}}"#).unwrap();
        let error = Source::beside(&path).err().unwrap().to_string();
        assert!(error.contains("user_data.json") && !error.contains("s3cret"), "{error}");
    }
}
