//! One CPI, asked once what it is and then called.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::contract::HIGHEST_API_VERSION;
use super::error::{CpiError, CpiErrorKind};
use super::process::{Executable, Files, Outcome, scratch_files};
use super::rpc::{Info, parse_answer};

/// A CPI that has said what it is.
#[derive(Debug, Clone)]
pub struct Cpi {
    executable: Executable,
    director_uuid: String,
    scratch: PathBuf,
    context: Map<String, Value>,
    info: Info,
}

/// One request.
#[derive(Debug)]
pub struct Call<'a> {
    /// The method.
    pub method: &'a str,
    /// Its arguments, in order.
    pub arguments: Vec<Value>,
    /// The `api_version` of the stemcell the call is about, where there is one.
    pub stemcell_api_version: Option<u32>,
    /// The request's id: fresh for every process.
    pub request_id: String,
}

/// What a caller sees of a call while it runs.
pub struct Watch<'a> {
    /// Gets each line of the CPI's log.
    pub on_log: Box<dyn FnMut(&str) + 'a>,
    /// Tells whether to stop waiting, and because of which signal.
    pub stop: Box<dyn Fn() -> Option<u8> + 'a>,
}

impl Cpi {
    /// Asks the CPI for its `info`, first of all and once. `context` holds the properties of its entry in the
    /// CPI config; `scratch` is a private directory.
    pub fn connect(
        executable: Executable,
        director_uuid: &str,
        scratch: &Path,
        context: Map<String, Value>,
        watch: &mut Watch<'_>,
    ) -> Result<Self, CpiError> {
        let unknown = Info { api_version: 1, stemcell_formats: None };
        let mut cpi = Cpi {
            executable,
            director_uuid: director_uuid.to_owned(),
            scratch: scratch.to_owned(),
            context,
            info: unknown,
        };
        let request_id = uuid::Uuid::new_v4().to_string();
        let request = json!({
            "method": "info",
            "arguments": [],
            "context": cpi.request_context(&request_id),
        });
        let files = scratch_files(scratch, &request_id)?;
        match cpi.exchange("info", &request_id, &request, files, watch) {
            Ok(result) => {
                cpi.info = Info::from_result(&result).map_err(|problem| CpiError::NoAnswer {
                    method: "info".to_owned(),
                    request_id,
                    problem,
                    log_tail: String::new(),
                })?;
            }
            Err(error) if error.kind() == Some(&CpiErrorKind::NotImplemented) => {}
            Err(error) => return Err(error),
        }
        tracing::debug!(info = ?cpi.info, "the CPI said what it is");
        Ok(cpi)
    }

    /// What it said it is.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The API version that requests carry.
    pub fn api_version(&self) -> u32 {
        self.info.api_version.min(HIGHEST_API_VERSION)
    }

    /// Makes a call that changes nothing, or whose effect nobody needs to find again.
    pub fn ask(&self, call: Call<'_>, watch: &mut Watch<'_>) -> Result<Value, CpiError> {
        let files = scratch_files(&self.scratch, &call.request_id)?;
        self.call(call, files, watch)
    }

    /// Makes a call whose answer and log go into the files given.
    pub fn call(&self, call: Call<'_>, files: Files, watch: &mut Watch<'_>) -> Result<Value, CpiError> {
        let mut context = self.request_context(&call.request_id);
        if let Some(version) = call.stemcell_api_version {
            context.insert("vm".to_owned(), json!({"stemcell": {"api_version": version}}));
        }
        let request = json!({
            "method": call.method,
            "arguments": call.arguments,
            "context": context,
            "api_version": self.api_version(),
        });
        self.exchange(call.method, &call.request_id, &request, files, watch)
    }

    fn request_context(&self, request_id: &str) -> Map<String, Value> {
        let mut context = self.context.clone();
        context.insert("director_uuid".to_owned(), self.director_uuid.clone().into());
        context.insert("request_id".to_owned(), request_id.into());
        context
    }

    fn exchange(
        &self,
        method: &str,
        request_id: &str,
        request: &Value,
        files: Files,
        watch: &mut Watch<'_>,
    ) -> Result<Value, CpiError> {
        tracing::debug!(method, request_id, "calling the CPI");
        let text = request.to_string();
        match self.executable.run(text.as_bytes(), files, &mut *watch.on_log, &*watch.stop)? {
            Outcome::Abandoned(signal) => Err(CpiError::Abandoned {
                method: method.to_owned(),
                request_id: request_id.to_owned(),
                signal,
            }),
            Outcome::Unreadable(error) => Err(CpiError::NoAnswer {
                method: method.to_owned(),
                request_id: request_id.to_owned(),
                problem: format!("it cannot be read: {error}"),
                log_tail: String::new(),
            }),
            Outcome::Answer { bytes, log_tail } => {
                let parsed = parse_answer(&bytes, method, request_id);
                tracing::debug!(method, request_id, ok = parsed.is_ok(), "the CPI answered");
                match parsed {
                    Err(CpiError::NoAnswer { method, request_id, problem, .. }) => {
                        Err(CpiError::NoAnswer { method, request_id, problem, log_tail })
                    }
                    other => other,
                }
            }
        }
    }
}
