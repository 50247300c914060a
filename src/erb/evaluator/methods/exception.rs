//! Methods of Exception and its subclasses.

use std::rc::Rc;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{Data, Object, Value};

impl Interpreter {
    /// Calls a method of an exception. Returns `None` if exceptions do not implement it.
    pub(super) fn call_exception_method(
        &mut self,
        object: &Rc<Object>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let (message, cause, detail, span) = match &*object.data.borrow() {
            Data::Exception(inner) => {
                (inner.message.clone(), inner.cause.clone(), inner.detail.clone(), inner.span)
            }
            _ => return Ok(None),
        };
        Ok(Some(match name {
            "message" | "to_s" | "detailed_message" => {
                if name == "message"
                    && self.find_user_method(&Value::Object(Rc::clone(object)), "to_s").is_some()
                {
                    return self.call(&Value::Object(Rc::clone(object)), "to_s", Vec::new()).map(Some);
                }
                match message {
                    Value::Nil => Value::str(object.class.label()),
                    text @ Value::Str(_) => text,
                    other => Value::str(self.text_of(&other)?),
                }
            }
            "full_message" => return Err(self.unsupported_error("Exception#full_message")),
            "inspect" => Value::str(self.inspect(&Value::Object(Rc::clone(object)))?),
            "cause" => cause,
            "backtrace" => match span {
                Some(span) => {
                    let line = self.template.line_at(span.0);
                    Value::array(vec![Value::str(format!("(erb):{line}"))])
                }
                None => Value::Nil,
            },
            "backtrace_locations" | "set_backtrace" => Value::Nil,
            "key" | "name" | "receiver" | "result" | "names" if !detail.is_nil() => detail,
            "exception" => {
                if args.is_empty() {
                    return Ok(Some(Value::Object(Rc::clone(object))));
                }
                let message = self.arg(args, 0)?;
                Value::Object(self.create_exception(Rc::clone(&object.class), message))
            }
            _ => return Ok(None),
        }))
    }
}
