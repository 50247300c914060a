//! Why a template was not rendered, in the three cases callers tell apart.

use std::fmt;

use crate::Error;

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
    /// For a property that does not exist, the nearest that does.
    pub suggestion: Option<String>,
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

impl From<RenderError> for Error {
    fn from(error: RenderError) -> Self {
        let text = error.to_string();
        match error {
            RenderError::Template(inner) => match (inner.suggestion, inner.class) {
                (Some(name), _) => {
                    Error::invalid(text).with_hint(format!("did you mean the property '{name}'?"))
                }
                (None, class) if class.ends_with("UnknownProperty") => Error::invalid(text)
                    .with_hint("set the property in the manifest, or give it a default in the job's spec"),
                _ => Error::invalid(text),
            },
            RenderError::Unsupported { .. } => Error::invalid(text)
                .with_hint("with Ruby installed, --templates auto or ruby renders this template with it"),
            RenderError::Ruby { .. } => Error::environment(text),
            RenderError::Limit { .. } => Error::invalid(text),
        }
    }
}
