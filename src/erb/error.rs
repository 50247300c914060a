//! Why a template was not rendered, in the three cases callers tell apart.

use std::fmt;

/// A template that could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The template is wrong or raised: no renderer would render it.
    #[error(transparent)]
    Template(Box<TemplateError>),
    /// The template uses Ruby that the native renderer does not know; Ruby itself may.
    #[error("template '{template}' line {line}: {construct} is not supported by the native renderer")]
    Unsupported {
        /// The template's name.
        template: String,
        /// The line in the template, from 1.
        line: u32,
        /// What is not supported.
        construct: String,
    },
    /// The template wanted more steps, memory or depth than a template may have.
    #[error("template '{template}' line {line}: {limit}")]
    Limit {
        /// The template's name.
        template: String,
        /// The line in the template, from 1.
        line: u32,
        /// Which limit, with its size.
        limit: String,
    },
    /// The Ruby interpreter could not be run or broke off.
    #[error("{message}")]
    Ruby {
        /// What failed.
        message: String,
    },
}

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// The template's name, as the caller gave it.
    pub template: String,
    /// The line in the template, from 1; none where it is not known.
    pub line: Option<u32>,
    /// The expression that failed.
    pub expression: Option<String>,
    /// The Ruby class of the error, such as `NoMethodError`.
    pub class: String,
    /// What Ruby would say.
    pub message: String,
    /// The properties that the template asked for and that do not exist or have no value. Empty for other errors.
    pub unknown_properties: Vec<String>,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "template '{}'", self.template)?;
        if let Some(line) = self.line {
            write!(f, " line {line}")?;
        }
        write!(f, ": {} ({}", self.message, self.class)?;
        if let Some(expression) = &self.expression {
            write!(f, ", in `{expression}`")?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for TemplateError {}

impl RenderError {
    /// Whether the native renderer met Ruby it does not know.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, RenderError::Unsupported { .. })
    }
}

/// An evaluation context that is not in upstream's form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// The context is not an object.
    #[error("the evaluation context is not a JSON object")]
    NotAnObject,
    /// One of its sections is not an object.
    #[error("'{0}' in the evaluation context is not an object")]
    Section(&'static str),
    /// A property lies below another property that has a value.
    #[error("property '{name}' cannot be set: '{parent}' is already a value, not a group of properties")]
    Nested {
        /// The dotted name of the property.
        name: String,
        /// The last part of the name of the property above it.
        parent: String,
    },
}

/// Ruby could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no `ruby` in `PATH`, or it cannot be executed.
    #[error("there is no Ruby to render templates with")]
    Missing(#[source] std::io::Error),
    /// The interpreter did not answer.
    #[error("Ruby does not start: {0}")]
    Silent(String),
    /// The interpreter is too old.
    #[error("Ruby {version} is too old to render templates: at least {}.{} is needed", oldest.0, oldest.1)]
    TooOld {
        /// Its version.
        version: String,
        /// The oldest version that renders templates.
        oldest: (u32, u32),
    },
}
