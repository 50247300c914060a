//! One CPI: reads its `info` once, and then makes calls.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::answer::{Answer, CheckedAnswer, Info};
use super::answer_envelope::parse_answer;
use super::error::{CpiError, CpiErrorKind};
use super::methods::Method;
use super::process::{self, Executable, OutputFiles, ProcessOutcome, create_scratch_files};
use super::request_envelope::RequestEnvelope;
use crate::protocol::{Contract, HIGHEST_API_VERSION, RequestId, Terms};

/// The keys that monopile itself puts into the context of a request.
const OWN_CONTEXT_KEYS: [&str; 3] = ["director_uuid", "request_id", "vm"];

/// The settings for calling a CPI.
#[derive(Debug, Clone)]
pub struct CpiSettings {
    /// The program.
    pub executable: Executable,
    /// The director id.
    pub director_uuid: String,
    /// A private directory for files of calls.
    pub scratch: PathBuf,
    /// The properties of the CPI's entry in the CPI config.
    pub context_properties: Map<String, Value>,
    /// `--cpi-api-version`: the highest version to use, even if the CPI supports a higher one.
    pub highest_api_version: Option<u32>,
    /// True if the CPI ships inside the program.
    pub is_builtin: bool,
}

/// A CPI whose `info` is known.
#[derive(Debug, Clone)]
pub struct Cpi {
    settings: CpiSettings,
    info: Info,
}

/// One request to a CPI.
#[derive(Debug, Clone)]
pub struct CpiRequest {
    /// The CPI method, by which the arguments are checked.
    pub method: Method,
    /// The arguments in order, for the highest version. Requests of older versions carry fewer.
    pub arguments: Vec<Value>,
    /// The `api_version` of the stemcell that the call refers to, if any.
    pub stemcell_api_version: Option<u32>,
    /// The request id. Each CPI process gets a new one.
    pub request_id: RequestId,
}

impl CpiRequest {
    /// Creates a request with a new id.
    pub fn new(method: Method, arguments: Vec<Value>, stemcell_api_version: Option<u32>) -> Self {
        CpiRequest { method, arguments, stemcell_api_version, request_id: RequestId::fresh() }
    }
}

/// The callbacks of a running call.
pub struct CallObserver<'a> {
    /// Gets each line of the CPI's log.
    pub on_log: Box<dyn FnMut(&str) + 'a>,
    /// Returns the cause to stop waiting, if any.
    pub stop_cause: Box<dyn Fn() -> Option<StopCause> + 'a>,
}

/// The cause to stop waiting for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    /// This signal arrived.
    Signal(u8),
    /// The call has taken this long.
    Timeout(Duration),
}

impl Cpi {
    /// Asks the CPI for its `info`, which is its first call of the run.
    pub fn connect(settings: CpiSettings, observer: &mut CallObserver<'_>) -> Result<Self, CpiError> {
        let mut cpi = Cpi::without_info(settings);
        let request = CpiRequest::new(Method::Info, Vec::new(), None);
        let files = create_scratch_files(&cpi.settings.scratch, &request.request_id)?;
        match cpi.exchange(&request, files, observer) {
            Ok(Answer::Info(info)) => cpi.info = info,
            Ok(_) => {}
            Err(error) if error.kind() == Some(&CpiErrorKind::NotImplemented) => {}
            Err(error) => return Err(error),
        }
        tracing::debug!(info = ?cpi.info, "the CPI answered `info`");
        Ok(cpi)
    }

    /// Returns a CPI of API version 1 that is not asked for its `info`.
    pub(crate) fn without_info(settings: CpiSettings) -> Self {
        Cpi { settings, info: Info { api_version: 1, stemcell_formats: None, version: None } }
    }

    /// Returns the CPI's `info`.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the API version of requests.
    pub fn api_version(&self) -> u32 {
        let configured_version = self.settings.highest_api_version.unwrap_or(HIGHEST_API_VERSION);
        self.info.api_version.min(HIGHEST_API_VERSION).min(configured_version)
    }

    /// Returns the contract with a stemcell of this `api_version`.
    pub fn contract(&self, stemcell_api_version: u32) -> Contract {
        Contract::negotiate(self.api_version(), stemcell_api_version)
    }

    /// Returns the terms by which an answer is read.
    pub fn terms(&self, stemcell_api_version: Option<u32>) -> Terms {
        Terms { is_builtin: self.settings.is_builtin, ..Terms::new(self.api_version(), stemcell_api_version) }
    }

    /// Makes a call that changes nothing on record, and therefore announces no intent. The call must be safe
    /// to repeat.
    pub fn call_unrecorded(
        &self,
        request: &CpiRequest,
        observer: &mut CallObserver<'_>,
    ) -> Result<Answer, CpiError> {
        let files = create_scratch_files(&self.settings.scratch, &request.request_id)?;
        self.call(request, files, observer)
    }

    /// Makes a call that writes its answer and log into these files.
    pub fn call(
        &self,
        request: &CpiRequest,
        files: OutputFiles,
        observer: &mut CallObserver<'_>,
    ) -> Result<Answer, CpiError> {
        request
            .method
            .check_arguments(HIGHEST_API_VERSION, &request.arguments)
            .map_err(|problem| CpiError::NotSent { method: request.method, problem })?;
        self.exchange(request, files, observer)
    }

    /// Returns the request as the CPI reads it. `info` carries no `api_version`, because its answer reports
    /// it.
    pub fn request_document(&self, request: &CpiRequest) -> Value {
        let argument_count =
            request.method.arguments(self.api_version()).count().min(request.arguments.len());
        let envelope = RequestEnvelope {
            method: request.method.name(),
            arguments: &request.arguments[..argument_count],
            api_version: Some(self.api_version()).filter(|_| request.method != Method::Info),
            properties: &self.settings.context_properties,
            director_uuid: &self.settings.director_uuid,
            request_id: &request.request_id,
            stemcell_api_version: request.stemcell_api_version,
        };
        envelope.to_json()
    }

    /// Redacts a request for a log: the properties of the CPI config, and all arguments that are objects.
    fn redact_request(&self, mut request: Value) -> Value {
        if let Some(context) = request.get_mut("context").and_then(Value::as_object_mut) {
            for (key, value) in context {
                if !OWN_CONTEXT_KEYS.contains(&key.as_str()) {
                    *value = json!("<redacted>");
                }
            }
        }
        for argument in request.get_mut("arguments").and_then(Value::as_array_mut).into_iter().flatten() {
            if argument.as_object().is_some_and(|object| !object.is_empty()) {
                *argument = json!("<redacted>");
            }
        }
        request
    }

    /// Runs the CPI's process for one request, and reads its answer. A process that was left running or
    /// killed gives no answer, and its log stays with the error.
    fn exchange(
        &self,
        request: &CpiRequest,
        files: OutputFiles,
        observer: &mut CallObserver<'_>,
    ) -> Result<Answer, CpiError> {
        let (method, request_id) = (request.method, &request.request_id);
        let document = self.request_document(request);
        tracing::debug!("External CPI request: {}", self.redact_request(document.clone()));
        let text = document.to_string();
        let end_path = files.end_path.clone();
        match self.settings.executable.run(
            text.as_bytes(),
            files,
            &mut *observer.on_log,
            &*observer.stop_cause,
        )? {
            ProcessOutcome::Abandoned(cause) => {
                Err(CpiError::Abandoned { method, request_id: request_id.clone(), cause })
            }
            ProcessOutcome::Killed(cause) => {
                Err(CpiError::Killed { method, request_id: request_id.clone(), cause })
            }
            ProcessOutcome::Unreadable(error) => {
                Err(CpiError::no_answer(method, request_id, format!("its answer cannot be read: {error}")))
            }
            ProcessOutcome::Answer { bytes, mut log, status } => {
                log.add_answer(&bytes, &mut *observer.on_log);
                let answer =
                    read_answer(&bytes, method, request_id, self.terms(request.stemcell_api_version));
                let (ok, request_id) = (answer.is_ok(), request_id.as_str());
                tracing::debug!(%method, request_id, ok, ?status, "the CPI answered");
                answer.map_err(|error| {
                    let end = status.and_then(process::describe_end);
                    if let (CpiError::NoAnswer { .. }, Some(path), Some(end)) = (&error, end_path, &end) {
                        process::keep_end(&path, end);
                    }
                    error.with_end(end, log.tail()).with_arguments(&request.arguments)
                })
            }
        }
    }
}

/// Reads the output of a CPI from this run or an earlier one. Returns the result of the call, or the reason
/// why there is none. Only a built-in CPI is believed when it states that the call made nothing, and gives
/// hints.
pub fn read_answer(
    bytes: &[u8],
    method: Method,
    request_id: &RequestId,
    terms: Terms,
) -> Result<Answer, CpiError> {
    let result = parse_answer(bytes, method, request_id).map_err(|mut error| {
        if let CpiError::Answered { is_builtin, made_nothing, hints, .. } = &mut error {
            *is_builtin = terms.is_builtin;
            *made_nothing &= terms.is_builtin;
            if !terms.is_builtin {
                *hints = Box::default();
            }
        }
        error
    })?;
    let CheckedAnswer { answer, violation } = CheckedAnswer::parse(method, terms, &result)
        .map_err(|problem| CpiError::no_answer(method, request_id, problem))?;
    if let Some(violation) = violation {
        tracing::warn!(request_id = request_id.as_str(), "the CPI violates the contract: {violation}");
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpi(cpi_version: u32, cap: Option<u32>) -> Cpi {
        let executable = Executable { program: "cpi".into(), arguments: Vec::new(), env_vars: Vec::new() };
        let context_properties = Map::from_iter([("region".to_owned(), json!("r1"))]);
        let settings = CpiSettings {
            executable,
            director_uuid: "d".into(),
            scratch: PathBuf::new(),
            context_properties,
            highest_api_version: cap,
            is_builtin: false,
        };
        Cpi { settings, info: Info { api_version: cpi_version, stemcell_formats: None, version: None } }
    }

    #[test]
    fn requests_use_the_highest_common_version() {
        for (cpi_version, cap, version, arguments) in [
            (1, None, 1, 2),
            (2, None, 2, 2),
            (3, None, 3, 3),
            (99, None, 3, 3),
            (3, Some(2), 2, 2),
            (1, Some(3), 1, 2),
        ] {
            let call = CpiRequest::new(
                Method::CreateStemcell,
                vec![json!("image"), json!({}), json!({"tags": {}})],
                Some(2),
            );
            let request = cpi(cpi_version, cap).request_document(&call);
            assert_eq!(request["api_version"], version, "{cpi_version} {cap:?}");
            assert_eq!(request["arguments"].as_array().unwrap().len(), arguments);
            let context = json!({
                "region": "r1", "director_uuid": "d", "request_id": call.request_id,
                "vm": {"stemcell": {"api_version": 2}},
            });
            assert_eq!(request["context"], context);
        }
    }

    #[test]
    fn logged_requests_omit_cpi_properties() {
        let call = CpiRequest::new(
            Method::CreateDisk,
            vec![json!(1), json!({"key": "s3cret"}), json!("vm-1")],
            Some(2),
        );
        let cpi = cpi(2, None);
        let logged_request = cpi.redact_request(cpi.request_document(&call));
        assert_eq!(logged_request["arguments"], json!([1, "<redacted>", "vm-1"]));
        let context = json!({
            "region": "<redacted>", "director_uuid": "d", "request_id": call.request_id,
            "vm": {"stemcell": {"api_version": 2}},
        });
        assert_eq!(logged_request["context"], context);
    }

    #[test]
    fn info_request_has_no_version_and_no_vm() {
        let call = CpiRequest::new(Method::Info, Vec::new(), None);
        let request = cpi(2, None).request_document(&call);
        assert_eq!(
            request,
            json!({
                "method": "info", "arguments": [],
                "context": {"region": "r1", "director_uuid": "d", "request_id": call.request_id},
            })
        );
    }

    #[test]
    fn own_fields_are_trusted_from_built_in_cpis_only() {
        let answer = br#"{"result": null, "error": {"type": "X", "message": "m", "made_nothing": true,
            "hints": ["stop it"]}}"#;
        for is_builtin in [false, true] {
            let terms = Terms { is_builtin, ..Terms::new(2, None) };
            match read_answer(answer, Method::CreateVm, &RequestId::fresh(), terms) {
                Err(error @ CpiError::Answered { made_nothing, .. }) => {
                    assert_eq!(made_nothing, is_builtin);
                    let error = base::Error::from(error);
                    let own_hints = ["stop it", "then run the same command again"];
                    assert_eq!(error.hints() == own_hints, is_builtin, "{:?}", error.hints());
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn empty_cids_are_never_sent() {
        let directory = tempfile::tempdir().unwrap();
        let mut cpi = cpi(2, None);
        cpi.settings.scratch = directory.path().to_owned();
        let call = CpiRequest::new(Method::DeleteVm, vec![json!("")], None);
        let mut observer = CallObserver { on_log: Box::new(|_| {}), stop_cause: Box::new(|| None) };
        let error = cpi.call_unrecorded(&call, &mut observer).unwrap_err();
        assert!(matches!(error, CpiError::NotSent { .. }), "{error}");
    }
}
