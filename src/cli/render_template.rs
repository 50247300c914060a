//! `monopile render-template`: renders a template with an evaluation context.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::choices::RendererArgs;
use super::{finish::CommandResult, paths};
use base::files::input;
use base::text::json_problem;
use base::{Error, Result};
use engine::templates::{self, ContextSource};
use erb::Renderer;

/// An example of values.
const SAMPLE_VALUES: &str = "\
With this context.json, the template `port=<%= p(\"port\") %>` prints `port=80`:\n
  {
    \"index\": 0,
    \"job\": {\"name\": \"web\"},
    \"job_properties\": {\"port\": 80},
    \"default_properties\": {\"port\": 8080}
  }";

#[derive(Debug, Clone, Args)]
#[command(after_help = SAMPLE_VALUES)]
pub(super) struct RenderTemplateArgs {
    /// Template to render (ERB)
    #[arg(value_name = "TEMPLATE", value_hint = ValueHint::FilePath)]
    template: PathBuf,

    /// Take the values from this JSON file
    ///
    /// Its keys are those that a director passes to a template: index, job, networks, job_properties,
    /// default_properties, …
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    context: PathBuf,

    #[command(flatten)]
    renderer: RendererArgs,
}

impl RenderTemplateArgs {
    pub(super) fn run(self) -> Result<CommandResult> {
        let home = paths::home();
        let read = |path: &PathBuf| {
            let path = paths::expand(path, home.as_deref());
            input::read_text(&path, input::MAX_FILE_BYTES)
                .map_err(|error| input::read_error("the file", &path, error))
        };
        let path = self.context.display();
        let text = read(&self.context)?;
        let json = serde_json::from_str(&text).map_err(|error| {
            Error::invalid(format!("'{path}' (--context) is not valid JSON: {}", json_problem(&error)))
        })?;
        let context_error = |error: Error| {
            Error::invalid(format!("'{path}' (--context) cannot be used: {error}")).with_advice_of(&error)
        };
        templates::check_context(&text).map_err(context_error)?;
        let context = templates::context(&json).map_err(|error| {
            context_error(error).with_hint("see its keys: `monopile render-template --help`")
        })?;
        let renderer = templates::create_renderer(self.renderer.into(), &paths::env_vars())?;
        let name = self.template.display().to_string();
        let result = renderer.render(&name, &read(&self.template)?, &context);
        let template_error = |error| templates::render_error(error, &context, ContextSource::File);
        Ok(CommandResult::Output(result.map_err(template_error)?))
    }
}
