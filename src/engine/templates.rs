//! Renders job templates with the crate `erb`, and turns its errors into errors with hints.

use std::sync::Arc;

use serde_json::Value;

use crate::run_context::RunContext;

use artifact::release::Property;
use base::error::nearest;
use base::{Error, ErrorKind, Result};
use erb::{ChosenRenderer, Context, ContextError, RenderError, RendererChoice, StartError};

/// Checks the JSON text of an evaluation context, before it is read.
pub fn check_context(text: &str) -> Result<()> {
    Context::check_integers(text).map_err(context_error)
}

/// Reads an evaluation context in BOSH's JSON form.
pub fn context(json: &Value) -> Result<Context> {
    Context::from_json(json).map_err(context_error)
}

fn context_error(error: ContextError) -> Error {
    let invalid = Error::invalid(error.to_string());
    match error {
        ContextError::Integer(_) => invalid.with_hint("write it as a string"),
        ContextError::Nested { .. } => {
            invalid.with_hint("one of the two is wrong in the job's spec or in the manifest")
        }
        ContextError::NotAnObject | ContextError::Section(_) => invalid,
    }
}

/// Creates the renderer of a choice for a run. A signal interrupts the start of Ruby and each rendering.
pub(crate) fn create_run_renderer(run: &RunContext, choice: RendererChoice) -> Result<ChosenRenderer> {
    let signals = run.signals.clone();
    let signal_check = Arc::new(move || signals.first());
    ChosenRenderer::interruptible(choice, &run.env_vars, signal_check).map_err(start_error)
}

/// Creates the renderer of a choice. `env_vars` are the whole environment of a Ruby process.
pub fn create_renderer(choice: RendererChoice, env_vars: &[(String, String)]) -> Result<ChosenRenderer> {
    ChosenRenderer::new(choice, env_vars).map_err(start_error)
}

fn start_error(error: StartError) -> Error {
    let text = error.to_string();
    let hint = match error {
        StartError::Interrupted(signal) => return interrupted_error(signal, text),
        StartError::Missing(_) => "install Ruby, then run the same command again",
        StartError::Silent(_) => "see what Ruby says: `ruby --version`",
        StartError::TooOld { .. } => "install a newer Ruby, then run the same command again",
    };
    let error_with_hint = Error::failure(text)
        .with_hint(hint)
        .with_hint("to render without Ruby: `monopile SAME-COMMAND --renderer native`");
    match error {
        StartError::Missing(source) => error_with_hint.with_source(source),
        _ => error_with_hint,
    }
}

fn interrupted_error(signal: u8, text: String) -> Error {
    Error::new(ErrorKind::Interrupted(signal), text)
}

/// The source of an evaluation context, which decides where a missing property belongs.
#[derive(Debug, Clone, Copy)]
pub enum ContextSource<'a> {
    /// A manifest and the spec of a job.
    Manifest {
        /// The name of the job.
        job: &'a str,
        /// The properties that its spec declares.
        properties: &'a [Property],
    },
    /// The file of `--context`.
    File,
}

impl ContextSource<'_> {
    /// Returns the hint for a property that has no value.
    fn hint_for_property(self, name: &str) -> String {
        match self {
            ContextSource::Manifest { job, properties } if !declares(properties, name) => format!(
                "job '{job}' does not declare '{name}': declare it below `properties` in the job's spec"
            ),
            ContextSource::Manifest { .. } => {
                format!("set '{name}' below `properties` of the job in the manifest")
            }
            ContextSource::File => {
                format!("add '{name}' to `job_properties` or `default_properties` of the context")
            }
        }
    }
}

/// Returns true if one of these properties has this name, or is above or below it.
fn declares(properties: &[Property], name: &str) -> bool {
    let is_above = |one: &str, other: &str| {
        other.strip_prefix(one).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    properties.iter().any(|property| is_above(&property.name, name) || is_above(name, &property.name))
}

/// Returns true if a template calls `link`, which its context does not have.
pub(crate) fn asks_for_link(error: &RenderError) -> bool {
    let RenderError::Template(problem) = error else { return false };
    problem.class == "NoMethodError" && unknown_name(&problem.message) == Some("link")
}

/// Returns the name in a message such as "undefined method `link' for …". Ruby's quotes depend on its
/// version.
fn unknown_name(message: &str) -> Option<&str> {
    let message_starts = ["undefined method ", "undefined local variable or method "];
    let rest = message_starts.iter().find_map(|start| message.strip_prefix(start))?;
    rest.strip_prefix(['`', '\''])?.split_once('\'').map(|(name, _)| name)
}

/// Returns the error for a template that could not be rendered with `context`.
pub fn render_error(error: RenderError, context: &Context, source: ContextSource<'_>) -> Error {
    let text = error.to_string();
    if matches!(source, ContextSource::File) && asks_for_link(&error) {
        return Error::invalid("the template needs a link, which only a director can provide")
            .with_source(text);
    }
    match error {
        RenderError::Template(problem) => {
            let invalid = Error::invalid(text);
            match problem.unknown_properties.iter().find_map(|name| nearest_property(context, name)) {
                Some(name) => invalid.with_hint(format!("did you mean the property '{name}'?")),
                None if problem.class.ends_with("UnknownProperty") => {
                    let names = problem.unknown_properties.iter();
                    invalid.with_hints(names.take(1).map(|name| source.hint_for_property(name)))
                }
                None if problem.class == "NameError" && unknown_name(&problem.message).is_some() => {
                    let name = unknown_name(&problem.message).unwrap_or_default();
                    invalid.with_hint(format!("if '{name}' is a property of the job: `p(\"{name}\")`"))
                }
                None if problem.class == "SyntaxError" => invalid.with_hint(
                    "correct the Ruby code in that line or before it: usually, a bracket, a quote or an \
                     `end` is missing",
                ),
                None if problem.class == "NoMethodError" && problem.message.contains(" for nil") => invalid
                    .with_hint(
                        "the value before the method is nil: set the property that it comes from, or let \
                         the template check for nil first",
                    ),
                None => invalid,
            }
        }
        RenderError::Unsupported { .. } => Error::invalid(text)
            .with_hint("render it with Ruby, if it is installed: `monopile SAME-COMMAND --renderer ruby`"),
        RenderError::Interrupted { signal, .. } => interrupted_error(signal, text),
        RenderError::RendererFailed { .. } => Error::failure(text).with_hint(
            "to use the other renderer: `monopile SAME-COMMAND --renderer native`, or `--renderer ruby`",
        ),
        RenderError::Limit { .. } => Error::invalid(text).with_hint(
            "simplify the template, or render it with Ruby, if it is installed, which has no such \
                 limit: `monopile SAME-COMMAND --renderer ruby`",
        ),
    }
}

/// Returns the property with the most similar name, or one with the same last part under another parent.
fn nearest_property(context: &Context, name: &str) -> Option<String> {
    let names = context.property_names();
    let candidates = || names.iter().map(String::as_str);
    let last_part = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let property_elsewhere =
        || candidates().filter(|candidate| last_part(candidate) == last_part(name)).min();
    nearest(name, candidates()).or_else(property_elsewhere).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use erb::Renderer as _;

    use super::*;

    #[test]
    fn hint_for_a_property_without_a_value_is_where_it_belongs() {
        let properties = [Property { name: "nats.user".into(), description: String::new(), default: None }];
        let source = ContextSource::Manifest { job: "web", properties: &properties };
        for (name, hint) in [
            ("nats.user", "set 'nats.user' below `properties` of the job in the manifest"),
            ("nats", "set 'nats' below `properties` of the job in the manifest"),
            ("nope", "job 'web' does not declare 'nope': declare it below `properties` in the job's spec"),
        ] {
            assert_eq!(source.hint_for_property(name), hint);
        }
    }

    #[test]
    fn unknown_names_are_found_in_messages_of_each_version_of_ruby() {
        for message in [
            "undefined method `link' for #<TemplateEvaluationContext>",
            "undefined method 'link' for an instance of TemplateEvaluationContext",
            "undefined local variable or method `link' for #<TemplateEvaluationContext>",
        ] {
            assert_eq!(unknown_name(message), Some("link"), "{message}");
        }
        assert_eq!(unknown_name("uninitialized constant Foo"), None);
    }

    #[test]
    fn missing_property_suggests_the_nearest_name() {
        let json = serde_json::json!({
            "job": {"name": "web"}, "job_properties": {"nats": {"user": "u"}, "port": 80},
            "default_properties": {"nats.user": null, "port": 8080}
        });
        let context = context(&json).unwrap();
        let renderer = create_renderer(RendererChoice::Native, &[]).unwrap();
        for (template, hint) in [
            ("<%= p('nats.usr') %>", "did you mean the property 'nats.user'?"),
            ("<%= p('user') %>", "did you mean the property 'nats.user'?"),
            (
                "<%= p('wholly.different') %>",
                "job 'web' does not declare 'wholly.different': declare it below `properties` in the job's \
                 spec",
            ),
        ] {
            let error = renderer.render("a.erb", template, &context).unwrap_err();
            let source = ContextSource::Manifest { job: "web", properties: &[] };
            let error = render_error(error, &context, source);
            assert_eq!(error.hints(), [hint], "{template}");
        }
    }
}
