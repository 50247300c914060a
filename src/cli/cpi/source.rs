//! The CPI of a `cpi` command: that of a manifest, an executable, or a transcript.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::cli::choices::RendererArgs;
use crate::cli::manifest_args::ManifestOptions;
use crate::cli::session::{PreparedRun, Session};
use crate::cli::{ConfigArgs, CpiUserlandArgs, CpiVersionArgs, duration, paths};
use crate::conformance::{AnswerSource, CpiUnderTest, ExchangeControl, FinishedCall, Recorder};
use base::files::directory::{check_directory, parent};
use base::files::input;
use base::text::{json_problem, shell_word};
use base::{Error, Result};
use engine::cpi::Executable;
use engine::cpi_set::{self, OpenCpiRequest, OpenedCpi};
use engine::protocol::HIGHEST_API_VERSION;
use manifest::SavePolicy;

/// The CPI and the options of its calls.
#[derive(Debug, Clone, Args)]
pub(super) struct SourceArgs {
    #[command(flatten)]
    options: ManifestOptions,

    #[command(flatten)]
    configs: ConfigArgs,

    /// Use this CPI of the CPI config [default: that of the availability zone]
    #[arg(long = "cpi", value_name = "NAME", conflicts_with_all = ["path", "replay"],
          value_hint = ValueHint::Other)]
    cpi_name: Option<String>,

    /// Call this executable, without a manifest
    #[arg(long, value_name = "EXE", value_hint = ValueHint::ExecutablePath, conflicts_with = "replay")]
    path: Option<PathBuf>,

    /// Pass this argument to the executable (repeatable)
    #[arg(long = "path-arg", value_name = "ARG", requires = "path", allow_hyphen_values = true,
          value_hint = ValueHint::Other)]
    path_args: Vec<String>,

    /// Send these properties in the context of requests, as in a CPI config: JSON, or @FILE
    #[arg(long, value_name = "JSON", requires = "path", value_hint = ValueHint::Other)]
    context: Option<String>,

    /// Replay this transcript instead of calling a CPI
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "record")]
    replay: Option<PathBuf>,

    /// Record requests and answers in this file, without secrets
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    record: Option<PathBuf>,

    /// Use this state [default: bosh-state.json next to bosh.yml]
    ///
    /// It is only read.
    #[arg(long, value_name = "FILE|URL",
          value_hint = ValueHint::FilePath)]
    state: Option<PathBuf>,

    /// Kill the CPI if one call takes longer
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration::parse_positive)]
    timeout: Duration,

    #[command(flatten)]
    renderer: RendererArgs,

    #[command(flatten)]
    version_args: CpiVersionArgs,

    #[command(flatten)]
    userland: CpiUserlandArgs,
}

/// A CPI ready for calls.
pub(super) struct PreparedCpi {
    pub(super) cpi: CpiUnderTest,
    /// The name that is shown.
    pub(super) name: String,
    /// A digest that names the same CPI in later runs, for the leftover log.
    pub(super) stable_name: String,
    pub(super) prepared_run: PreparedRun,
    /// The CPI of the manifest, if any.
    pub(super) manifest_cpi: Option<OpenedCpi>,
    /// `--cpi-api-version`.
    pub(super) highest_api_version: u32,
}

impl SourceArgs {
    /// Returns true if a manifest must be named.
    pub(super) fn needs_manifest(&self) -> bool {
        self.path.is_none() && self.replay.is_none()
    }

    /// Returns the manifest that the env file names.
    pub(super) fn manifest_of_env_file(&self) -> Option<&PathBuf> {
        self.options.manifest_of_env_file()
    }

    /// Returns the words of a command that name this CPI.
    pub(super) fn words(&self, manifest: Option<&Path>) -> String {
        let source = match (&self.path, &self.replay) {
            (Some(path), _) => format!("--path {}", shell_word(&path.to_string_lossy())),
            (None, Some(transcript)) => format!("--replay {}", shell_word(&transcript.to_string_lossy())),
            (None, None) => match manifest {
                Some(manifest) => shell_word(&manifest.to_string_lossy()).into_owned(),
                None => "MANIFEST".to_owned(),
            },
        };
        let arguments = self.path_args.iter().map(|argument| format!(" --path-arg={}", shell_word(argument)));
        source + &arguments.collect::<String>()
    }

    /// Returns true if the CPI is a transcript, which creates nothing.
    pub(super) fn replays(&self) -> bool {
        self.replay.is_some()
    }

    /// Returns the hints after failed checks. `words` are the method and the arguments of a call that failed.
    pub(super) fn hints_for_failed_checks(&self, words: Option<&[String]>) -> Vec<String> {
        let call_hint = words.map(|words| {
            let words: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
            format!(
                "to see a request with its answer: `monopile cpi call {} {}`",
                self.words(None),
                words.join(" ")
            )
        });
        let record_hint = self.record.is_none().then(|| {
            "to record all requests with their answers: `monopile SAME-COMMAND --record run.jsonl`".to_owned()
        });
        call_hint.into_iter().chain(record_hint).collect()
    }

    /// Prepares the CPI. With `needs_vm_and_disk`, also prepares the properties of a VM and a disk.
    pub(super) fn open(
        &self,
        session: &Session,
        manifest: Option<&PathBuf>,
        needs_vm_and_disk: bool,
        stemcell: Option<&Path>,
    ) -> Result<PreparedCpi> {
        let home = paths::home();
        let expand = |path: &PathBuf| paths::absolute(&paths::expand(path, home.as_deref()));
        let state = match manifest {
            Some(manifest) => paths::state(self.state.as_deref(), manifest)?,
            None => PathBuf::new(),
        };
        let mut prepared_run = session.prepare_run(state.clone(), None, false)?;
        self.userland.apply(&mut prepared_run.run)?;
        let run = &prepared_run.run;
        // Any call may change something.
        run.signals.begin_change();
        let (mut context, mut director_uuid) = (Map::new(), None);
        let (mut manifest_cpi, name, source, stable_name);
        match (manifest, &self.path, &self.replay) {
            (Some(manifest), ..) => {
                check_no_program(manifest)?;
                let mut inputs =
                    self.configs.add_to(self.options.inputs_with_default_store(manifest, &state)?);
                // The VM is created with the generated values, so they are kept.
                if !needs_vm_and_disk {
                    inputs.save_policy = SavePolicy::Never;
                }
                let request = OpenCpiRequest {
                    inputs,
                    renderer_choice: self.renderer.into(),
                    cpi: self.cpi_name.clone(),
                    needs_vm_and_disk,
                    stemcell: stemcell.map(Path::to_owned),
                };
                let cpi = cpi_set::open_cpi(&request, run)?;
                context.clone_from(&cpi.context_properties);
                director_uuid.clone_from(&cpi.director_uuid);
                let cpi_label = self.cpi_name.as_ref();
                let cpi_label = cpi_label.map_or_else(|| "CPI".to_owned(), |name| format!("CPI '{name}'"));
                name = format!("{cpi_label} of {}", manifest.display());
                stable_name = match &self.cpi_name {
                    None => format!("manifest {}", state.display()),
                    Some(cpi) => format!("manifest {} {cpi}", state.display()),
                };
                source = AnswerSource::Program(cpi.executable.clone());
                manifest_cpi = Some(cpi);
            }
            (None, Some(path), _) => {
                if let Some(text) = &self.context {
                    context = parse_json_object("--context", text)?;
                    manifest::register_property_secrets(&context, &session.redactor);
                }
                check_executable(&paths::expand(path, home.as_deref()))?;
                name = path.display().to_string();
                stable_name = format!("{} {}", expand(path)?.display(), self.path_args.join(" "));
                source = AnswerSource::Program(Executable {
                    program: expand(path)?,
                    arguments: self.path_args.clone(),
                    env_vars: run.env_vars.clone(),
                });
                manifest_cpi = None;
            }
            (None, None, Some(replay)) => {
                name = replay.display().to_string();
                stable_name = name.clone();
                source = AnswerSource::open_transcript(&paths::expand(replay, home.as_deref()))?;
                manifest_cpi = None;
            }
            (None, None, None) => {
                return Err(Error::usage("no CPI is given")
                    .with_hint("name a manifest: `monopile SAME-COMMAND MANIFEST`")
                    .with_hint("or name an executable: `monopile SAME-COMMAND --path EXE`"));
            }
        }
        let record = self.record.as_ref().map(|path| {
            let path = expand(path)?;
            check_directory(parent(&path), "--record")?;
            Recorder::create(&path, &session.redactor)
        });
        let recorder = record.transpose()?;
        if let (Some(recorder), false) = (&recorder, needs_vm_and_disk) {
            recorder.begin(&Value::Null)?;
        }
        let cpi_under_test = CpiUnderTest {
            source,
            context,
            director_uuid: director_uuid.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
            recorder,
            redactor: session.redactor.clone(),
            timeout: self.timeout,
        };
        if let Some(vm_and_disk) = manifest_cpi.as_mut().and_then(|cpi| cpi.vm_and_disk.as_mut()) {
            // Requests name the image by an absolute path.
            vm_and_disk.stemcell.image = paths::absolute(&vm_and_disk.stemcell.image)?;
        }
        let highest_api_version = self.version_args.cpi_api_version.unwrap_or(HIGHEST_API_VERSION);
        // Arguments of a CPI may be secret, so the name is a digest.
        let stable_name = hex::encode(Sha256::digest(stable_name));
        Ok(PreparedCpi {
            cpi: cpi_under_test,
            name,
            stable_name,
            prepared_run,
            manifest_cpi,
            highest_api_version,
        })
    }
}

impl PreparedCpi {
    /// Returns true if nothing is recorded, or if the recorded transcript is complete. Warns otherwise.
    pub(super) fn is_recording_complete(&self, session: &Session) -> bool {
        match self.cpi.recorder.as_ref().and_then(Recorder::take_error) {
            Some(error) => {
                session.reporter.warn(format!("the transcript is incomplete: {}", error.chain().join(": ")));
                false
            }
            None => true,
        }
    }

    /// Makes a call in a stage that shows its log. A second signal ends the wait.
    pub(super) fn call_in_stage(
        &self,
        session: &Session,
        name: &str,
        call: impl FnOnce(&CpiUnderTest, &ExchangeControl<'_>) -> Result<FinishedCall>,
    ) -> Result<FinishedCall> {
        let stage = session.reporter.begin_stage(name);
        let run = &self.prepared_run.run;
        let _in_flight = run.signals.begin_call("the CPI");
        let control = ExchangeControl {
            on_log: &|line| stage.log_line(line),
            must_stop_waiting: &|| run.must_stop_waiting(),
            timeout: self.cpi.timeout,
        };
        let finished_call = call(&self.cpi, &control)?;
        match finished_call.has_succeeded {
            true => stage.finish(),
            false => drop(stage),
        }
        self.is_recording_complete(session);
        Ok(finished_call)
    }
}

/// Fails if the executable of `--path` does not exist or is a directory.
fn check_executable(path: &Path) -> Result<()> {
    let name = path.display();
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Err(Error::invalid(format!("'{name}' is a directory, not a CPI"))
                .with_hint(format!("name the executable in it: `ls {}`", shell_word(&name.to_string()))))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(input::bare_missing_error("the CPI", path, input::ANY_FILE)
                .with_hint("name an executable: --path EXE"))
        }
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 && manifest::is_manifest(path) => {
            Err(Error::invalid(format!("'{name}' is a manifest, not a CPI")).with_hint(format!(
                "leave out --path: `monopile cpi info {}`",
                shell_word(&name.to_string())
            )))
        }
        _ => Ok(()),
    }
}

/// Fails if the file in place of the manifest is a program, because `--path` was left out.
fn check_no_program(manifest: &Path) -> Result<()> {
    let mut start = [0; 4];
    let read_result = std::fs::metadata(manifest)
        .is_ok_and(|metadata| metadata.is_file())
        .then(|| std::fs::File::open(manifest).and_then(|mut file| file.read_exact(&mut start)));
    let is_program =
        matches!(read_result, Some(Ok(()))) && (start.starts_with(b"#!") || start == *b"\x7fELF");
    if !is_program {
        return Ok(());
    }
    let name = manifest.display();
    Err(Error::invalid(format!("'{name}' is a program, not a manifest"))
        .with_hint(format!("name it with `--path {}`", shell_word(&name.to_string()))))
}

/// Returns the error for a call that failed. `timeout` is the longest time that it could take.
pub(super) fn call_error(method: &str, finished_call: &FinishedCall, timeout: Duration) -> Error {
    let problem = || finished_call.problems.first().map_or("it gave no usable answer", String::as_str);
    let reason = finished_call.error.as_deref().unwrap_or_else(problem);
    let error = Error::failure(format!("the CPI's `{method}` failed: {reason}"));
    match finished_call.duration >= timeout {
        true => error.with_hint("wait longer: `monopile SAME-COMMAND --timeout 1h`"),
        false => error,
    }
}

/// Parses JSON from an option, or from the file that it names with `@`.
fn parse_document(option: &str, text: &str) -> Result<Value> {
    let file_text;
    let text = match text.strip_prefix('@') {
        Some(path) => {
            let path = paths::expand(Path::new(path), paths::home().as_deref());
            file_text = input::read_text(&path, input::MAX_FILE_BYTES)
                .map_err(|error| input::read_error(&format!("the file of {option}"), &path, error))?;
            file_text.as_str()
        }
        None => text,
    };
    serde_json::from_str(text)
        .map_err(|error| Error::usage(format!("{option} is not JSON")).with_source(json_problem(&error)))
        .map_err(|error| error.with_hint(format!("pass JSON, or the name of a JSON file as {option} @FILE")))
}

/// Parses a JSON object from an option.
pub(super) fn parse_json_object(option: &str, text: &str) -> Result<Map<String, Value>> {
    match parse_document(option, text)? {
        Value::Object(object) => Ok(object),
        _ => Err(Error::usage(format!("{option} is not a JSON object"))
            .with_hint(format!("write it like this: {option} '{{\"key\": \"value\"}}'"))),
    }
}

/// Formats the request, the answer and the log.
pub(super) fn call_report(finished_call: &FinishedCall) -> String {
    let pretty = |value: &Value| {
        let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
        base::text::escape_json(&text).into_owned()
    };
    // The answer is printed unchanged, except for characters that control a terminal, because an author looks
    // for mistakes in it.
    let mut text = format!(
        "Request:\n{}\n\nAnswer ({}, {:.1} ms):\n{}\n",
        pretty(&finished_call.request),
        finished_call.end,
        finished_call.duration.as_secs_f64() * 1e3,
        base::text::escape_json(finished_call.answer.trim_end_matches('\n'))
    );
    if !finished_call.stderr.trim().is_empty() {
        text += &format!("\nLog:\n{}\n", base::text::clean(finished_call.stderr.trim_end()));
    }
    // The error below the report shows the first problem.
    let is_shown_below = finished_call.error.is_none() && !finished_call.has_succeeded;
    for problem in finished_call.problems.iter().skip(usize::from(is_shown_below)) {
        text += &format!("\nProblem: {}\n", base::text::clean(problem));
    }
    text
}
