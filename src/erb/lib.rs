//! BOSH job templates (ERB), rendered with or without Ruby.
//!
//! Uses only `yaml` of this workspace. `README.md` says what is supported, `ADDING_METHODS.md` how to add a
//! method.
//!
//! Entry points: [`Context`], the evaluation context as upstream hands it to its renderer in JSON;
//! [`Renderer`], which turns a template and a context into a file's content, and its three implementations.
//! [`native::NativeRenderer`] evaluates the Ruby itself, without access to files, processes, network or
//! environment, and within limits of steps, memory and depth. [`ruby::RubyRenderer`] leaves it to a Ruby
//! process. [`ModeRenderer`] chooses between them.
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

/// Compiles and runs the example in the README.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
struct Readme;

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
