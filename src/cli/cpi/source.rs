//! Which CPI is meant: a manifest's, an executable, or a transcript.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::super::choices::Templates;
use crate::cli::manifest_args::ManifestFlags;
use crate::cli::session::{RunContext, Session};
use crate::cli::{ConfigArgs, CpiVersionArgs, duration, paths};
use crate::conformance::{Bench, Called, Recorder, Source, Watching};
use base::{Error, Result};
use engine::cpi::Executable;
use engine::cpis::{self, OpenCpi, OpenedCpi};
use engine::protocol::HIGHEST_API_VERSION;

/// Which CPI, and how it is asked.
#[derive(Debug, Clone, Args)]
pub(super) struct SourceArgs {
    #[command(flatten)]
    flags: ManifestFlags,

    #[command(flatten)]
    configs: ConfigArgs,

    /// Use this CPI of the CPI config [default: that of the instance group's availability zone]
    #[arg(long = "cpi", value_name = "NAME", conflicts_with_all = ["path", "replay"], value_hint = ValueHint::Other)]
    cpi_name: Option<String>,

    /// Use this executable, without a manifest
    #[arg(long, value_name = "EXE", value_hint = ValueHint::ExecutablePath, conflicts_with = "replay")]
    path: Option<PathBuf>,

    /// An argument of the executable; several times for several
    #[arg(long = "path-arg", value_name = "ARG", requires = "path", allow_hyphen_values = true,
          value_hint = ValueHint::Other)]
    path_args: Vec<String>,

    /// Properties for the context of its requests, as from a CPI config: JSON, or @FILE
    #[arg(long, value_name = "JSON", requires = "path", value_hint = ValueHint::Other)]
    context: Option<String>,

    /// Let this transcript answer in the place of a CPI
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "record")]
    replay: Option<PathBuf>,

    /// Write down all that is asked and answered, without secrets
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    record: Option<PathBuf>,

    /// State file, which is only read [default: MANIFEST without its extension, and -state.json]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    state: Option<PathBuf>,

    /// How long one call may take before the CPI is killed
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration::parse)]
    timeout: Duration,

    /// What renders the templates of a CPI release
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    templates: Templates,

    #[command(flatten)]
    cpi: CpiVersionArgs,
}

/// A CPI ready to be asked, and what keeps it so.
pub(super) struct OnBench {
    pub(super) bench: Bench,
    /// What it is called.
    pub(super) name: String,
    /// What tells it from others, also the next time.
    pub(super) identity: String,
    pub(super) surroundings: RunContext,
    /// What the manifest says, where there is one.
    pub(super) opened: Option<OpenedCpi>,
    /// `--cpi-api-version`.
    pub(super) highest_api_version: u32,
}

impl SourceArgs {
    /// Whether a manifest must be named.
    pub(super) fn wants_manifest(&self) -> bool {
        self.path.is_none() && self.replay.is_none()
    }

    /// The manifest of the env file.
    pub(super) fn manifest_of_env_file(&self) -> Option<&PathBuf> {
        self.flags.manifest_of_env_file()
    }

    /// Prepares the CPI. With `life`, what a VM and a disk are made from is prepared too.
    pub(super) fn open(
        &self,
        session: &Session,
        manifest: Option<&PathBuf>,
        life: bool,
        stemcell: Option<&Path>,
    ) -> Result<OnBench> {
        let home = paths::home();
        let expand = |path: &PathBuf| paths::absolute(&paths::expand(path, home.as_deref()));
        let state = match manifest {
            Some(manifest) => paths::state(self.state.as_deref(), manifest)?,
            None => PathBuf::new(),
        };
        let surroundings = session.surroundings(state.clone(), None, false)?;
        let environment = &surroundings.environment;
        let (mut context, mut director_uuid) = (Map::new(), None);
        let (mut opened, name, source, identity);
        match (manifest, &self.path, &self.replay) {
            (Some(manifest), ..) => {
                let request = OpenCpi {
                    inputs: self.configs.beside(self.flags.inputs_beside(manifest, &state)),
                    templates: self.templates.into(),
                    cpi: self.cpi_name.clone(),
                    life,
                    stemcell: stemcell.map(Path::to_owned),
                };
                let cpi = cpis::open_cpi(&request, environment)?;
                context.clone_from(&cpi.context);
                director_uuid.clone_from(&cpi.director_uuid);
                let which = self.cpi_name.as_ref();
                let which = which.map_or_else(|| "CPI".to_owned(), |name| format!("CPI '{name}'"));
                name = format!("{which} of {}", manifest.display());
                identity = match &self.cpi_name {
                    None => format!("manifest {}", state.display()),
                    Some(cpi) => format!("manifest {} {cpi}", state.display()),
                };
                source = Source::Program(cpi.executable.clone());
                opened = Some(cpi);
            }
            (None, Some(path), _) => {
                if let Some(text) = &self.context {
                    context = hash("--context", text)?;
                    manifest::learn_properties(&context, &session.redactor);
                }
                name = path.display().to_string();
                identity = format!("{} {}", expand(path)?.display(), self.path_args.join(" "));
                source = Source::Program(Executable {
                    program: expand(path)?,
                    arguments: self.path_args.clone(),
                    environment: environment.variables.clone(),
                });
                opened = None;
            }
            (None, None, Some(replay)) => {
                name = replay.display().to_string();
                identity = name.clone();
                source = Source::transcript(&expand(replay)?)?;
                opened = None;
            }
            (None, None, None) => {
                return Err(Error::usage("which CPI? Name a manifest, or an executable with --path EXE")
                    .with_hint("a transcript can stand in for it: --replay FILE"));
            }
        }
        let record = self.record.as_ref().map(|path| Recorder::create(&expand(path)?, &session.redactor));
        let recorder = record.transpose()?;
        if let (Some(recorder), false) = (&recorder, life) {
            recorder.begin(&Value::Null)?;
        }
        let bench = Bench {
            source,
            context,
            director_uuid: director_uuid.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
            recorder,
            redactor: session.redactor.clone(),
            limit: self.timeout,
        };
        if let Some(life) = opened.as_mut().and_then(|opened| opened.life.as_mut()) {
            // Its image is named in requests, from wherever the CPI runs.
            life.stemcell.image = paths::absolute(&life.stemcell.image)?;
        }
        let highest_api_version = self.cpi.cpi_api_version.unwrap_or(HIGHEST_API_VERSION);
        // Arguments of a CPI may be secret.
        let identity = hex::encode(Sha256::digest(identity));
        Ok(OnBench { bench, name, identity, surroundings, opened, highest_api_version })
    }
}

impl OnBench {
    /// Says if the transcript is not whole; whether it is.
    pub(super) fn is_on_record(&self, session: &Session) -> bool {
        match self.bench.recorder.as_ref().and_then(Recorder::problem) {
            Some(error) => {
                session.reporter.warn(format!("the transcript is not whole: {}", error.chain().join(": ")));
                false
            }
            None => true,
        }
    }

    /// Runs something that wants to be watched: log lines go to a stage, a second signal ends the wait.
    pub(super) fn watched(
        &self,
        session: &Session,
        name: &str,
        ask: impl FnOnce(&Bench, &Watching<'_>) -> Result<Called>,
    ) -> Result<Called> {
        let stage = session.reporter.stage(name);
        let environment = &self.surroundings.environment;
        let watching = Watching {
            on_log: &|line| stage.log_line(line),
            give_up: &|| environment.insisted(),
            limit: self.bench.limit,
        };
        let called = ask(&self.bench, &watching)?;
        match called.success {
            true => stage.finish(),
            false => drop(stage),
        }
        self.is_on_record(session);
        Ok(called)
    }
}

/// JSON from a flag, or from a file that it names with `@`.
fn document(flag: &str, text: &str) -> Result<Value> {
    let read;
    let text = match text.strip_prefix('@') {
        Some(path) => {
            let path = paths::expand(Path::new(path), paths::home().as_deref());
            read = std::fs::read_to_string(&path)
                .map_err(|error| Error::io(format!("reading '{}' ({flag})", path.display()), error))?;
            read.as_str()
        }
        None => text,
    };
    serde_json::from_str(text)
        .map_err(|error| Error::usage(format!("{flag} is not JSON")).with_source(error))
        .map_err(|error| error.with_hint(format!("{flag} takes JSON, or @FILE with JSON in it")))
}

/// A hash from a flag.
pub(super) fn hash(flag: &str, text: &str) -> Result<Map<String, Value>> {
    match document(flag, text)? {
        Value::Object(hash) => Ok(hash),
        _ => {
            Err(Error::usage(format!("{flag} must be a hash")).with_hint(format!("{flag} '{{\"key\": …}}'")))
        }
    }
}

/// Request, answer and log as a person reads them.
pub(super) fn transcript_of(called: &Called) -> String {
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    // What the CPI wrote stays as it wrote it: an author looks for what is wrong with it.
    let mut text = format!(
        "Request:\n{}\n\nAnswer ({}, {:.1} ms):\n{}\n",
        pretty(&called.request),
        called.ended,
        called.duration.as_secs_f64() * 1e3,
        called.answer.trim_end_matches('\n')
    );
    if !called.stderr.trim().is_empty() {
        text += &format!("\nLog:\n{}\n", called.stderr.trim_end());
    }
    for problem in &called.problems {
        text += &format!("\nProblem: {problem}\n");
    }
    text
}
