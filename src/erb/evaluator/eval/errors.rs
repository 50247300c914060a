//! Creates exceptions, and converts an exception that ends the rendering to a [`RenderError`].

use std::rc::Rc;

use super::{EvalResult, Flow, Interpreter, Stop};
use crate::error::{RenderError, TemplateError};
use crate::evaluator::meter::Abort;
use crate::evaluator::value::{Class, Data, Exception, Object, Value};

impl Interpreter {
    /// Creates an exception of one of Ruby's own classes, raised by the current expression.
    pub(crate) fn ruby_error(&mut self, class: &str, message: impl Into<String>) -> Flow {
        self.detailed_error(class, message, Value::Nil)
    }

    /// Creates an exception with a detail, such as the key of a `KeyError` or the name of a `NameError`.
    pub(crate) fn detailed_error(&mut self, class: &str, message: impl Into<String>, detail: Value) -> Flow {
        let class = self.load_class(class);
        let exception = self.create_exception(class, Value::str(message.into()));
        if let Data::Exception(inner) = &mut *exception.data.borrow_mut() {
            inner.span = Some(self.span);
            inner.detail = detail;
        }
        Flow::Raise(exception)
    }

    /// Creates an exception that has not been raised yet.
    pub(crate) fn create_exception(&mut self, class: Rc<Class>, message: Value) -> Rc<Object> {
        let data = Data::Exception(Exception {
            message,
            cause: Value::Nil,
            span: None,
            unknown_properties: Vec::new(),
            detail: Value::Nil,
        });
        self.create_raw_object(class, data)
    }

    pub(crate) fn raise_type_error<T>(&mut self, message: impl Into<String>) -> EvalResult<T> {
        Err(self.ruby_error("TypeError", message))
    }

    pub(crate) fn raise_argument_error<T>(&mut self, message: impl Into<String>) -> EvalResult<T> {
        Err(self.ruby_error("ArgumentError", message))
    }

    /// Raises Ruby's `TypeError` "no implicit conversion of … into …".
    pub(crate) fn raise_conversion_error<T>(&mut self, value: &Value, target: &str) -> EvalResult<T> {
        let source = match value {
            Value::Nil => "nil".to_owned(),
            Value::Bool(flag) => flag.to_string(),
            other => self.class_of(other).label(),
        };
        self.raise_type_error(format!("no implicit conversion of {source} into {target}"))
    }

    pub(crate) fn raise_frozen_error<T>(&mut self, value: &Value) -> EvalResult<T> {
        let class = self.class_of(value).label();
        let value_text = self.inspect(value)?;
        Err(self.ruby_error("FrozenError", format!("can't modify frozen {class}: {value_text}")))
    }

    /// Calls `message` on an exception.
    pub(crate) fn call_message(&mut self, exception: &Rc<Object>) -> EvalResult<String> {
        let message = self.call(&Value::Object(Rc::clone(exception)), "message", Vec::new())?;
        self.text_of(&message)
    }

    /// Converts the flow that ended the rendering to the renderer's error.
    pub(super) fn render_error(&mut self, name: &str, flow: Flow) -> RenderError {
        let template = name.to_owned();
        let line = self.template.line_at(self.span.0);
        match flow {
            Flow::Stop(stop) => match *stop {
                Stop::Unsupported(construct) => RenderError::Unsupported { template, line, construct },
                Stop::Abort(Abort::Limit(message)) => RenderError::Limit { template, line, message },
                Stop::Abort(Abort::Interrupted(signal)) => RenderError::Interrupted { template, signal },
            },
            Flow::Raise(exception) => {
                let (span, unknown_properties) = match &*exception.data.borrow() {
                    Data::Exception(inner) => (inner.span, inner.unknown_properties.clone()),
                    _ => (None, Vec::new()),
                };
                let message = match self.call_message(&exception) {
                    Ok(message) => message,
                    Err(_) => String::from("(no message)"),
                };
                RenderError::Template(Box::new(TemplateError {
                    template,
                    line: span.map(|span| self.template.line_at(span.0)),
                    expression: span.and_then(|span| self.template.excerpt(span)),
                    class: exception.class.label(),
                    message,
                    unknown_properties,
                }))
            }
            other => RenderError::Template(Box::new(TemplateError {
                template,
                line: Some(line),
                expression: self.template.excerpt(self.span),
                class: "LocalJumpError".into(),
                message: match other {
                    Flow::Throw(tag, _) => {
                        format!("uncaught throw {}", self.inspect(&tag).unwrap_or_default())
                    }
                    Flow::Return(..) => "unexpected return".into(),
                    Flow::Retry => "unexpected retry".into(),
                    _ => "break from proc-closure".into(),
                },
                unknown_properties: Vec::new(),
            })),
        }
    }
}
