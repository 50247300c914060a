//! The choice between the native renderer and Ruby: `--renderer`.

use std::error::Error;
use std::fmt;

use parking_lot::Mutex;

use super::native::{NativeRenderer, SignalCheck};
use super::ruby::RubyRenderer;
use super::{Context, RenderError, Renderer, StartError};

/// The renderers that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RendererChoice {
    /// The native renderer, and Ruby, if it is installed, for templates that the native renderer does not
    /// support.
    #[default]
    Auto,
    /// Only the native renderer. Ruby is never started.
    Native,
    /// Only Ruby, which must be installed.
    Ruby,
}

/// Renders with the renderers of a [`RendererChoice`].
pub struct ChosenRenderer {
    native: NativeRenderer,
    ruby: RubyUse,
}

/// The use that a [`ChosenRenderer`] makes of Ruby.
enum RubyUse {
    Never,
    Always(RubyRenderer),
    /// Ruby, which starts for the first template that needs it.
    Fallback {
        /// The environment of the Ruby process.
        env_vars: Vec<(String, String)>,
        signal_check: Option<SignalCheck>,
        /// The started Ruby, or the reason why it did not start. `None` before the first use.
        renderer: Mutex<Option<Result<RubyRenderer, String>>>,
    },
}

impl ChosenRenderer {
    /// Creates the renderer of `choice`. `env_vars` are the complete environment of a Ruby process; their
    /// `PATH` decides which `ruby` is started.
    ///
    /// # Errors
    ///
    /// With [`RendererChoice::Ruby`], returns an error if Ruby cannot be started. With
    /// [`RendererChoice::Auto`], Ruby is started for the first template that needs it; if that fails,
    /// rendering the template returns [`RenderError::Unsupported`].
    pub fn new(choice: RendererChoice, env_vars: &[(String, String)]) -> Result<Self, StartError> {
        Self::start_with_signal_check(choice, env_vars, None)
    }

    /// Like [`Self::new`], but the start of Ruby and each rendering end as soon as `signal_check` returns a
    /// signal.
    ///
    /// # Errors
    ///
    /// Like [`Self::new`]. With [`RendererChoice::Ruby`], also returns [`StartError::Interrupted`] after a
    /// signal.
    pub fn interruptible(
        choice: RendererChoice,
        env_vars: &[(String, String)],
        signal_check: SignalCheck,
    ) -> Result<Self, StartError> {
        Self::start_with_signal_check(choice, env_vars, Some(signal_check))
    }

    fn start_with_signal_check(
        choice: RendererChoice,
        env_vars: &[(String, String)],
        signal_check: Option<SignalCheck>,
    ) -> Result<Self, StartError> {
        let native = match &signal_check {
            Some(signal_check) => NativeRenderer::new().with_signal_check(signal_check.clone()),
            None => NativeRenderer::new(),
        };
        let ruby = match choice {
            RendererChoice::Native => RubyUse::Never,
            RendererChoice::Ruby => {
                RubyUse::Always(RubyRenderer::start_interruptible(env_vars, signal_check)?)
            }
            RendererChoice::Auto => {
                RubyUse::Fallback { env_vars: env_vars.to_vec(), signal_check, renderer: Mutex::default() }
            }
        };
        Ok(ChosenRenderer { native, ruby })
    }
}

impl fmt::Debug for ChosenRenderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChosenRenderer").field("native", &self.native).finish_non_exhaustive()
    }
}

impl Renderer for ChosenRenderer {
    fn render(&self, template_name: &str, source: &str, context: &Context) -> Result<Vec<u8>, RenderError> {
        if let RubyUse::Always(ruby) = &self.ruby {
            return ruby.render(template_name, source, context);
        }
        let unsupported_error = match self.native.render(template_name, source, context) {
            Err(error) if error.is_unsupported() => error,
            other => return other,
        };
        let RubyUse::Fallback { env_vars, signal_check, renderer } = &self.ruby else {
            return Err(unsupported_error);
        };
        let mut renderer = renderer.lock();
        let ruby = match &mut *renderer {
            Some(ruby) => ruby,
            None => match RubyRenderer::start_interruptible(env_vars, signal_check.clone()) {
                Err(StartError::Interrupted(signal)) => {
                    return Err(RenderError::Interrupted { template: template_name.to_owned(), signal });
                }
                outcome => renderer.insert(outcome.map_err(|error| message_with_cause(&error))),
            },
        };
        match ruby {
            Ok(ruby) => {
                let version = ruby.version();
                tracing::info!(unsupported = %unsupported_error, version, "falling back to Ruby");
                ruby.render(template_name, source, context)
            }
            Err(reason) => {
                tracing::info!(unsupported = %unsupported_error, reason, "cannot fall back to Ruby");
                Err(unsupported_error)
            }
        }
    }
}

/// Returns the error and its cause, as one line for the log.
fn message_with_cause(error: &StartError) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{ChosenRenderer, RendererChoice, message_with_cause};
    use crate::{Context, Renderer, StartError};

    /// A template that only Ruby renders.
    const UNSUPPORTED_TEMPLATE: &str = "ok\n<%= ObjectSpace.count_objects.class %>";

    #[expect(clippy::disallowed_methods, reason = "a test finds Ruby as its caller would")]
    fn path() -> String {
        std::env::var("PATH").unwrap()
    }

    fn render(
        choice: RendererChoice,
        path: &str,
        source: &str,
    ) -> Result<String, Box<dyn std::error::Error>> {
        let context = Context::from_json(&serde_json::json!({"default_properties": {}})).unwrap();
        let renderer = ChosenRenderer::new(choice, &[("PATH".into(), path.into())])?;
        Ok(String::from_utf8(renderer.render("a.erb", source, &context)?).expect("these tests make text"))
    }

    #[test]
    fn auto_falls_back_to_ruby_only_for_unsupported_templates() {
        let path = path();
        assert_eq!(render(RendererChoice::Auto, &path, UNSUPPORTED_TEMPLATE).unwrap(), "ok\nHash");
        assert_eq!(render(RendererChoice::Auto, "/nowhere", "<%= 1 %>").unwrap(), "1");
        assert_eq!(render(RendererChoice::Ruby, &path, "<%= 1 %>").unwrap(), "1");
    }

    #[test]
    fn failed_start_of_ruby_is_logged_with_its_cause() {
        let missing = StartError::Missing(std::io::ErrorKind::NotFound.into());
        let message = message_with_cause(&missing);
        assert_eq!(message, "'ruby' cannot be run to render templates: entity not found");
        assert_eq!(message_with_cause(&StartError::Silent("killed".into())), "Ruby did not start: killed");
    }

    #[test]
    fn without_ruby_the_error_names_template_and_line() {
        let path = path();
        for (choice, path) in [(RendererChoice::Auto, "/nowhere"), (RendererChoice::Native, path.as_str())] {
            let error = render(choice, path, UNSUPPORTED_TEMPLATE).unwrap_err().to_string();
            assert!(error.contains("a.erb:2: "), "{error}");
            assert!(error.contains("not supported by the built-in renderer"), "{error}");
        }
        assert!(render(RendererChoice::Ruby, "/nowhere", "<%= 1 %>").is_err());
    }
}
