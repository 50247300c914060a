//! Renders BOSH job templates (ERB), with or without Ruby.
//!
//! "Upstream" in this crate is the bosh CLI: its `create-env` renders with a Ruby script. A [`Context`] is
//! the evaluation context in the JSON form of that script. A [`Renderer`] turns a template and a context into
//! the bytes of a file. There are three renderers:
//!
//! - [`native::NativeRenderer`] evaluates the Ruby in a template itself. The template has no access to files,
//!   processes, network or environment, and its steps, memory and depth are limited.
//! - [`ruby::RubyRenderer`] renders in a Ruby process.
//! - [`ChosenRenderer`] chooses between the two.
//!
//! `README.md` lists the supported Ruby, and `ADDING_METHODS.md` shows how to add a method. The crate uses
//! only `yaml` of this workspace.
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
pub mod native;
mod parse;
mod renderer_choice;
pub mod ruby;
mod scanner;

pub use context::Context;
pub use error::{ContextError, RenderError, StartError, TemplateError};
pub use renderer_choice::{ChosenRenderer, RendererChoice};

/// Compiles and runs the example in the README.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
struct Readme;

/// Renders a template with a context.
pub trait Renderer {
    /// Renders the template `source` and returns the content of the file. The content may be binary:
    /// templates decode keystores, for example.
    ///
    /// `template_name` appears only in errors.
    ///
    /// # Errors
    ///
    /// See [`RenderError`]. A template that raises an exception also returns an error.
    fn render(&self, template_name: &str, source: &str, context: &Context) -> Result<Vec<u8>, RenderError>;
}

/// Returns true if a template contains Ruby. A template without Ruby is its own output and needs no renderer.
pub fn has_code(source: &str) -> bool {
    source.contains("<%")
}
