//! `monopile render`: prints the rendered files of a job.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::choices::RendererArgs;
use super::finish::CommandResult;
use super::{ConfigArgs, ManifestArgs, paths, session::Session};
use base::files::durable::create_private_directory;
use base::redact::Redactor;
use base::{Error, Result};
use engine::deploy::{self, JobFile};
use manifest::SavePolicy;

#[derive(Debug, Clone, Args)]
pub(super) struct RenderArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    #[command(flatten)]
    configs: ConfigArgs,

    /// Render this job of the instance group or of the CPI
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other)]
    job: String,

    /// Use this state [default: bosh-state.json next to bosh.yml]
    ///
    /// The state is only read. Without --vars-store, the vars store next to it is read.
    #[arg(long, value_name = "FILE|URL",
          value_hint = ValueHint::FilePath)]
    state: Option<PathBuf>,

    /// Write the files to this directory; existing files are replaced
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// Do not redact secrets
    #[arg(long)]
    show_secrets: bool,

    #[command(flatten)]
    renderer: RendererArgs,
}

impl RenderArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let state = paths::state(self.state.as_deref(), &self.manifest.manifest)?;
        let mut inputs = self.configs.add_to(self.manifest.inputs_with_default_store(&state)?);
        inputs.save_policy = SavePolicy::Never;
        let request =
            deploy::RenderJobRequest { inputs, job: self.job, renderer_choice: self.renderer.into() };
        let prepared_run = session.prepare_run(state, None, false)?;
        let mut files = deploy::render_job(&request, &prepared_run.run)?;
        if !self.show_secrets {
            for file in &mut files {
                file.content = without_secrets(&file.content, &session.redactor);
            }
        }
        let Some(directory) = self.out else {
            return Ok(CommandResult::Output(files_with_headers(&files)));
        };
        let directory = paths::expand(&directory, paths::home().as_deref());
        for file in &files {
            write(&directory, file)?;
        }
        Ok(CommandResult::Output(Vec::new()))
    }
}

/// Formats files, each with a header like that of `head`.
fn files_with_headers(files: &[JobFile]) -> Vec<u8> {
    let mut output = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        output.extend(format!("{gap}==> {} <==\n", file.target).bytes());
        output.extend(&file.content);
        if !file.content.is_empty() && !file.content.ends_with(b"\n") {
            output.push(b'\n');
        }
    }
    output
}

/// Redacts the content. Omits binary content, such as a keystore, because secrets cannot be found in it.
fn without_secrets(content: &[u8], redactor: &Redactor) -> Vec<u8> {
    match std::str::from_utf8(content) {
        Ok(text) => redactor.redact(text).into_owned().into_bytes(),
        Err(_) => {
            let count = content.len();
            format!("<{count} bytes that are not UTF-8: --show-secrets prints them>\n").into_bytes()
        }
    }
}

/// Writes a file that only its owner can read, because it may hold credentials.
fn write(directory: &Path, file: &JobFile) -> Result<()> {
    let path = directory.join(&file.target);
    let write_error =
        |error| Error::io(format!("writing '{}'", path.display()), error).with_path_hint(&path, "--out DIR");
    if let Some(directory) = path.parent() {
        create_private_directory(directory).map_err(write_error)?;
    }
    // Otherwise, an existing file would keep its mode, and a link would be followed.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(write_error(error)),
        _ => {}
    }
    let mode = if file.is_executable { 0o700 } else { 0o600 };
    let mut target =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).map_err(write_error)?;
    target.write_all(&file.content).map_err(write_error)
}
