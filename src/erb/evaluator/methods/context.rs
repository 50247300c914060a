//! The evaluation context of a job template: `p`, `if_p`, `spec`, `properties` and so on.

use std::rc::Rc;

use crate::evaluator::eval::{Args, EvalResult, Flow, Interpreter};
use crate::evaluator::value::{Data, Object, Value};

impl Interpreter {
    /// Calls a method of the evaluation context, such as `p`. Returns `None` if the context does not have it.
    pub(super) fn call_context_method(&mut self, name: &str, args: &Args) -> EvalResult<Option<Value>> {
        Ok(Some(match name {
            "p" => self.read_property(args)?,
            "if_p" => self.run_if_property(args)?,
            // The context has no links, so none is ever found.
            "if_link" => Value::Bool(false),
            "spec" => {
                if self.spec.is_nil() {
                    let spec = Value::from_json(&self.context.spec().clone());
                    self.spec = self.wrap_hashes(&spec)?;
                }
                self.spec.clone()
            }
            "properties" => {
                if self.properties.is_nil() {
                    let raw = self.properties_hash();
                    self.properties = self.wrap_hashes(&raw)?;
                }
                self.properties.clone()
            }
            "raw_properties" => self.properties_hash(),
            "name" => self.context.job_name().map_or(Value::Nil, Value::str),
            "index" => self.context.spec().get("index").map_or(Value::Nil, Value::from_json),
            "get_binding" => {
                let class = self.load_class("Binding");
                self.create_object(class, Data::Plain)
            }
            _ => return Ok(None),
        }))
    }

    /// Returns the job's properties as a hash, converted on first use.
    fn properties_hash(&mut self) -> Value {
        if self.raw_properties.is_nil() {
            self.raw_properties = Value::from_json(&self.context.raw_properties().clone());
        }
        self.raw_properties.clone()
    }

    /// Returns the value of a property by its dotted name, or nil if it has none.
    fn look_up_property(&mut self, name: &Value) -> EvalResult<Value> {
        let Value::Str(text) = name else {
            let description = self.describe_receiver(name)?;
            let text = format!("undefined method `split' for {description}");
            return Err(self.ruby_error("NoMethodError", text));
        };
        let text = text.get().clone();
        let mut value = self.properties_hash();
        for key in text.split('.') {
            value = match &value {
                Value::Hash(hash) => hash.get_text(key).unwrap_or(Value::Nil),
                other => self.call(&other.clone(), "[]", vec![Value::str(key)])?,
            };
            if value.is_nil() {
                break;
            }
        }
        Ok(value)
    }

    /// Implements `p(names, default)`.
    fn read_property(&mut self, args: &Args) -> EvalResult<Value> {
        let names = match args.get(0) {
            None | Some(Value::Nil) => Vec::new(),
            Some(Value::Array(names)) => names.to_vec(),
            Some(other) => vec![other.clone()],
        };
        for name in &names {
            let value = self.look_up_property(name)?;
            if !value.is_nil() {
                return Ok(value);
            }
        }
        if let (2, Some(default)) = (args.len(), args.get(1)) {
            return Ok(default.clone());
        }
        let mut property_names = Vec::new();
        for name in &names {
            property_names.push(self.text_of(name)?);
        }
        let text = format!("Can't find property '{}'", property_names.join("', or '"));
        let error =
            self.detailed_error("TemplateEvaluationContext::UnknownProperty", text, Value::array(names));
        if let Flow::Raise(exception) = &error
            && let Data::Exception(inner) = &mut *exception.data.borrow_mut()
        {
            inner.unknown_properties = property_names;
        }
        Err(error)
    }

    /// Implements `if_p`. Returns the object on which the template calls `else`.
    fn run_if_property(&mut self, args: &Args) -> EvalResult<Value> {
        let mut values = Vec::new();
        for name in &args.list {
            let value = self.look_up_property(name)?;
            if value.is_nil() {
                let class = self.load_class("TemplateEvaluationContext::ActiveElseBlock");
                return Ok(self.create_object(class, Data::ElseBlock { is_active: true }));
            }
            values.push(value);
        }
        let block = self.block_arg(args)?;
        self.yield_to(&block, values)?;
        let class = self.load_class("TemplateEvaluationContext::InactiveElseBlock");
        Ok(self.create_object(class, Data::ElseBlock { is_active: false }))
    }

    /// Calls `else` or `else_if_p` on the result of `if_p`.
    pub(super) fn call_else_block_method(
        &mut self,
        object: &Rc<Object>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let Data::ElseBlock { is_active } = *object.data.borrow() else { return Ok(None) };
        Ok(Some(match name {
            "else" if is_active => {
                let block = self.block_arg(args)?;
                self.yield_to(&block, Vec::new())?
            }
            "else" => Value::Nil,
            "else_if_p" if is_active => self.run_if_property(args)?,
            "else_if_p" => {
                let class = self.load_class("TemplateEvaluationContext::InactiveElseBlock");
                self.create_object(class, Data::ElseBlock { is_active: false })
            }
            _ => return Ok(None),
        }))
    }
}
