//! Which renderer a run uses: `--templates`.

use std::sync::{Mutex, PoisonError};

use super::native::NativeRenderer;
use super::ruby::RubyRenderer;
use super::{Context, RenderError, Renderer, StartError};

/// What renders templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The native renderer, and Ruby, if there is one, for a template it does not support
    #[default]
    Auto,
    /// The native renderer alone: Ruby is never started
    Native,
    /// Ruby, which must be installed
    Ruby,
}

/// The renderer of a [`Mode`].
#[derive(Debug)]
pub struct ModeRenderer {
    native: NativeRenderer,
    ruby: Ruby,
}

#[derive(Debug)]
enum Ruby {
    Never,
    Always(RubyRenderer),
    /// Started for the first template that needs it. The variables are the environment it will have.
    Fallback {
        variables: Vec<(String, String)>,
        started: Mutex<Option<Result<RubyRenderer, String>>>,
    },
}

impl ModeRenderer {
    /// With [`Mode::Ruby`], Ruby is started now: that there is none, or too old a one, is known at once.
    pub fn new(mode: Mode, variables: &[(String, String)]) -> Result<Self, StartError> {
        let ruby = match mode {
            Mode::Native => Ruby::Never,
            Mode::Ruby => Ruby::Always(RubyRenderer::start(variables)?),
            Mode::Auto => Ruby::Fallback { variables: variables.to_vec(), started: Mutex::default() },
        };
        Ok(ModeRenderer { native: NativeRenderer::new(), ruby })
    }
}

impl Renderer for ModeRenderer {
    fn render(&self, template_name: &str, source: &str, context: &Context) -> Result<Vec<u8>, RenderError> {
        if let Ruby::Always(ruby) = &self.ruby {
            return ruby.render(template_name, source, context);
        }
        let unsupported = match self.native.render(template_name, source, context) {
            Err(error) if error.is_unsupported() => error,
            other => return other,
        };
        let Ruby::Fallback { variables, started } = &self.ruby else { return Err(unsupported) };
        let mut started = started.lock().unwrap_or_else(PoisonError::into_inner);
        let ruby =
            started.get_or_insert_with(|| RubyRenderer::start(variables).map_err(|error| error.to_string()));
        match ruby {
            Ok(ruby) => {
                tracing::info!(%unsupported, version = ruby.version(), "falling back to Ruby");
                ruby.render(template_name, source, context)
            }
            Err(reason) => {
                tracing::info!(%unsupported, reason, "there is no Ruby to fall back to");
                Err(unsupported)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Mode, ModeRenderer};
    use crate::{Context, Renderer};

    // Templates have no processes natively.
    const BEYOND: &str = "ok\n<%= ObjectSpace.count_objects.class %>";

    #[expect(clippy::disallowed_methods, reason = "a test finds Ruby as its caller would")]
    fn path() -> String {
        std::env::var("PATH").unwrap()
    }

    fn render(mode: Mode, path: &str, source: &str) -> Result<String, Box<dyn std::error::Error>> {
        let context = Context::from_json(&serde_json::json!({"default_properties": {}})).unwrap();
        let renderer = ModeRenderer::new(mode, &[("PATH".into(), path.into())])?;
        Ok(String::from_utf8(renderer.render("a.erb", source, &context)?).expect("these tests make text"))
    }

    #[test]
    fn auto_falls_back_to_ruby_only_for_what_is_unsupported() {
        let path = path();
        assert_eq!(render(Mode::Auto, &path, BEYOND).unwrap(), "ok\nHash");
        assert_eq!(render(Mode::Auto, "/nowhere", "<%= 1 %>").unwrap(), "1");
        assert_eq!(render(Mode::Ruby, &path, "<%= 1 %>").unwrap(), "1");
    }

    #[test]
    fn without_ruby_template_and_line_are_named() {
        let path = path();
        for (mode, path) in [(Mode::Auto, "/nowhere"), (Mode::Native, path.as_str())] {
            let error = render(mode, path, BEYOND).unwrap_err().to_string();
            assert!(error.contains("template 'a.erb' line 2: "), "{error}");
            assert!(error.contains("not supported by the native renderer"), "{error}");
        }
        assert!(render(Mode::Ruby, "/nowhere", "<%= 1 %>").is_err());
    }
}
