//! The errors of this crate: of a template, of a context, and of starting Ruby.

use std::fmt;

/// A template that could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The template has a syntax error or raised an exception. Every renderer fails on it.
    #[error(transparent)]
    Template(Box<TemplateError>),
    /// The template uses Ruby that the native renderer does not support.
    /// [`RubyRenderer`](crate::ruby::RubyRenderer) may render it.
    #[error("{template}:{line}: {construct} is not supported by the built-in renderer")]
    Unsupported {
        /// The template's name.
        template: String,
        /// The line in the template, from 1.
        line: u32,
        /// The unsupported method or construct, such as `String#to_r`.
        construct: String,
    },
    /// The template exceeds a limit of the native renderer: its size, steps, memory or time.
    #[error("{template}:{line}: {message}")]
    Limit {
        /// The template's name.
        template: String,
        /// The line in the template, from 1.
        line: u32,
        /// The exceeded limit and its value, as a sentence.
        message: String,
    },
    /// A signal interrupted the rendering.
    #[error("template '{template}': interrupted while it was rendered")]
    Interrupted {
        /// The template's name.
        template: String,
        /// The number of the signal.
        signal: u8,
    },
    /// The Ruby process ended, timed out or sent no valid answer, or the thread of the native renderer
    /// failed. The template may be the cause, for example by calling `exit!`.
    #[error("{message}")]
    RendererFailed {
        /// The failure, with the name of the template.
        message: String,
    },
}

/// An error in a template, or an exception that the template raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The template's name, as the caller gave it.
    pub template: String,
    /// The line in the template, from 1. `None` if it is unknown.
    pub line: Option<u32>,
    /// The source of the expression that failed. `None` if it is unknown, and always with the Ruby renderer.
    pub expression: Option<String>,
    /// The Ruby class of the error, such as `NoMethodError`.
    pub class: String,
    /// Ruby's message for the error.
    pub message: String,
    /// The properties that the template requires and that do not exist or have no value. Empty for other
    /// errors.
    pub unknown_properties: Vec<String>,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.template, self.message)?,
            None => write!(f, "template '{}': {}", self.template, self.message)?,
        }
        match &self.expression {
            Some(expression) => write!(f, " (in `{expression}`)"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TemplateError {}

impl RenderError {
    /// Returns true if the native renderer does not support the template.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, RenderError::Unsupported { .. })
    }
}

/// An evaluation context that does not have upstream's form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// The context is not a JSON object.
    #[error("the evaluation context is not a JSON object")]
    NotAnObject,
    /// This section of the context is neither an object nor null.
    #[error("'{0}' in the evaluation context is not a JSON object")]
    Section(&'static str),
    /// An integer in the JSON text does not fit into 64 bits. The JSON reader would round it.
    #[error("the evaluation context has the integer {0}, which does not fit into 64 bits")]
    Integer(String),
    /// A property is below another property that is a value and not a group.
    #[error("property '{name}' cannot be set: '{parent}' is already a value, not a group of properties")]
    Nested {
        /// The dotted name of the property.
        name: String,
        /// The part of `name` that is already a value.
        parent: String,
    },
}

/// A failure to start Ruby.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no `ruby` in `PATH`, or it cannot be executed.
    #[error("'ruby' cannot be run to render templates")]
    Missing(#[source] std::io::Error),
    /// A signal with this number interrupted the start.
    #[error("interrupted while Ruby was started")]
    Interrupted(u8),
    /// The process started, but did not report its version. The text says why.
    #[error("Ruby did not start: {0}")]
    Silent(String),
    /// The version of Ruby is too old.
    #[error("Ruby {version} is too old to render templates: at least {}.{} is needed", oldest.0, oldest.1)]
    TooOld {
        /// The version of the installed Ruby.
        version: String,
        /// The oldest supported version: major and minor.
        oldest: (u32, u32),
    },
}
