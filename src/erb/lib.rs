//! Job templates (ERB): the evaluation context and the renderer behind one trait.
//!
//! A [`Context`] is what upstream hands to its renderer as JSON. A [`Renderer`] makes a file's content of a
//! template and a context: [`native::NativeRenderer`] evaluates the Ruby in it here, without Ruby, without
//! file, process, network or environment access, and within limits of steps, memory and depth;
//! [`ruby::RubyRenderer`] leaves it to a Ruby process, and [`ModeRenderer`] chooses as the user wants it.
//!
//! ```
//! use erb::{Context, Renderer, native::NativeRenderer};
//!
//! let context = Context::from_json(&serde_json::json!({
//!     "index": 0, "job": {"name": "web"}, "job_properties": {"port": 80},
//!     "default_properties": {"port": 8080}
//! }))?;
//! let content = NativeRenderer::new().render("nginx.conf.erb", "listen <%= p('port') %>;", &context)?;
//! assert_eq!(content, b"listen 80;");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod context;
mod error;
mod evaluator;
mod mode;
pub mod native;
mod parse;
pub mod ruby;
mod scanner;

pub use context::Context;
pub use error::{ContextError, RenderError, StartError, TemplateError};
pub use mode::{Mode, ModeRenderer};

/// Makes the content of a file of a template and a context.
pub trait Renderer {
    /// Renders `source`, which errors call `template_name`. What comes out is mostly text, but need not be: templates
    /// decode keystores and licences.
    fn render(&self, template_name: &str, source: &str, context: &Context) -> Result<Vec<u8>, RenderError>;
}

/// Whether a template has any Ruby in it: one without is its own output and needs no renderer.
pub fn has_code(source: &str) -> bool {
    source.contains("<%")
}
