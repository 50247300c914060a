//! `YAML.load`, `safe_load` and `unsafe_load` of plain data, as in Psych 4.

use std::collections::HashMap;
use std::rc::Rc;

use super::resolve::{self, PlainValue};
use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::stdlib::base64;
use crate::evaluator::value::{RArray, RHash, Value};
use yaml::syntax_tree::{self, NodeId, RawContent, SyntaxTree};

/// The features that the caller permits in addition to plain data.
struct LoadRules {
    allows_symbols: bool,
    allows_aliases: bool,
    /// True if times and dates are permitted. They are then reported as unsupported, and otherwise raise
    /// `Psych::DisallowedClass`.
    allows_times: bool,
    symbolizes_names: bool,
}

/// Implements `YAML.load`, `safe_load` and `unsafe_load`.
pub(super) fn call_class_method(interpreter: &mut Interpreter, name: &str, args: &Args) -> EvalResult {
    let text = interpreter.arg(args, 0)?;
    let text = interpreter.string_arg(&text)?;
    let options = args.options();
    let option = |name: &str| options.as_ref().and_then(|options| options.get_symbol(name));
    let is_set = |name: &str| option(name).is_some_and(|value| value.is_truthy());
    let permitted_classes = match option("permitted_classes") {
        Some(Value::Array(classes)) => classes.to_vec(),
        _ => Vec::new(),
    };
    let permits = |label: &str| {
        permitted_classes.iter().any(|class| matches!(class, Value::Class(class) if class.label() == label))
    };
    if args.positional().len() > 1 || option("permitted_symbols").is_some() || is_set("freeze") {
        return Err(interpreter.unsupported_error(format!("YAML.{name} with these options")));
    }
    let rules = LoadRules {
        allows_symbols: match name {
            "load" => permits("Symbol") || option("permitted_classes").is_none(),
            "safe_load" => permits("Symbol"),
            _ => true,
        },
        allows_aliases: is_set("aliases") || name == "unsafe_load",
        allows_times: name == "unsafe_load" || permits("Date") || permits("Time") || permits("DateTime"),
        symbolizes_names: is_set("symbolize_names"),
    };
    interpreter.use_scratch(text.len().saturating_mul(4))?;
    let result = syntax_tree::parse(&text, |tree| match tree.root() {
        Some(root) => Loader { tree: &tree, rules, values: HashMap::new() }.load_node(interpreter, root),
        None => {
            let empty_value = if name == "unsafe_load" { Value::Bool(false) } else { Value::Nil };
            Ok(option("fallback").unwrap_or(empty_value))
        }
    });
    result.unwrap_or_else(|error| {
        let text = format!("(<unknown>): {} at line {} column {}", error.problem, error.line, error.column);
        Err(interpreter.ruby_error("Psych::SyntaxError", text))
    })
}

/// Converts the nodes of a document to values.
struct Loader<'a> {
    tree: &'a SyntaxTree<'a>,
    rules: LoadRules,
    /// The values of the nodes read so far, for aliases.
    values: HashMap<NodeId, Value>,
}

impl Loader<'_> {
    /// Creates the value of a node. A collection is registered before its items, because they may have an
    /// alias of it.
    fn load_node(&mut self, interpreter: &mut Interpreter, id: NodeId) -> EvalResult {
        interpreter.step(1)?;
        interpreter.use_scratch(64)?;
        let tree = self.tree;
        match tree.content(id) {
            RawContent::Scalar { text, is_plain } => {
                let value = self.load_scalar(interpreter, text, is_plain, tree.tag(id))?;
                self.values.insert(id, value.clone());
                Ok(value)
            }
            RawContent::Alias(target) => {
                if !self.rules.allows_aliases {
                    return Err(interpreter.ruby_error("Psych::BadAlias", "Unknown alias"));
                }
                Ok(self.values.get(&target).cloned().unwrap_or(Value::Nil))
            }
            RawContent::Seq(contents) => {
                self.check_collection_tag(interpreter, tree.tag(id))?;
                let array = RArray::new(Vec::new());
                self.values.insert(id, Value::Array(Rc::clone(&array)));
                for item in tree.items(contents) {
                    let item = self.load_node(interpreter, item)?;
                    array.push(item);
                }
                Ok(Value::Array(array))
            }
            RawContent::Map(contents) => {
                self.check_collection_tag(interpreter, tree.tag(id))?;
                let hash = Rc::new(RHash::default());
                self.values.insert(id, Value::Hash(Rc::clone(&hash)));
                for (key, value) in tree.entries(contents) {
                    self.add_entry(interpreter, &hash, key, value)?;
                }
                Ok(Value::Hash(hash))
            }
        }
    }

    /// Adds one entry to a hash. The key `<<` merges the hash, or the list of hashes, that is its value.
    fn add_entry(
        &mut self,
        interpreter: &mut Interpreter,
        hash: &RHash,
        key: NodeId,
        value: NodeId,
    ) -> EvalResult<()> {
        let is_merge = self.tree.tag(key) != Some("tag:yaml.org,2002:str")
            && matches!(self.tree.content(key), RawContent::Scalar { text: "<<", .. });
        let is_list = matches!(self.tree.content(value), RawContent::Seq(_));
        let is_map = matches!(self.tree.content(value), RawContent::Map(_) | RawContent::Alias(_));
        let mut key = self.load_node(interpreter, key)?;
        let value = self.load_node(interpreter, value)?;
        if is_merge {
            match &value {
                Value::Hash(other) if is_map => {
                    for (key, value) in other.pairs() {
                        hash.insert(key, value);
                    }
                    return Ok(());
                }
                Value::Array(list) if is_list => {
                    let list = list.to_vec();
                    if list.iter().all(|item| matches!(item, Value::Hash(_))) {
                        for item in list.iter().rev() {
                            let Value::Hash(other) = item else { continue };
                            for (key, value) in other.pairs() {
                                hash.insert(key, value);
                            }
                        }
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        if self.rules.symbolizes_names
            && let Value::Str(text) = key.clone()
        {
            key = Value::symbol(&text.get());
        }
        hash.insert(key, value);
        Ok(())
    }

    /// Rejects the tags that give a collection another type. Psych ignores all other tags of collections.
    fn check_collection_tag(&self, interpreter: &mut Interpreter, tag: Option<&str>) -> EvalResult<()> {
        let is_special = |tag: &&str| {
            let name = tag.strip_prefix("tag:yaml.org,2002:").or(tag.strip_prefix('!')).unwrap_or(tag);
            matches!(name, "omap" | "set" | "str")
                || ["ruby/", "seq:", "map:", "str:"].iter().any(|prefix| name.starts_with(prefix))
        };
        match tag.filter(is_special) {
            Some(tag) => Err(interpreter.unsupported_error(format!("the YAML tag {tag}"))),
            None => Ok(()),
        }
    }

    /// Reads a scalar. If it has a tag, its quotes are ignored, unless the tag makes it a string.
    fn load_scalar(
        &self,
        interpreter: &mut Interpreter,
        text: &str,
        is_plain: bool,
        tag: Option<&str>,
    ) -> EvalResult {
        match tag {
            None if is_plain => self.load_plain(interpreter, text),
            None | Some("tag:yaml.org,2002:str" | "!str" | "!ruby/string") => Ok(Value::str(text)),
            Some("tag:yaml.org,2002:binary" | "!binary") => match base64::decode_lenient(text.as_bytes()) {
                Some(bytes) => Ok(base64::binary_string(&bytes)),
                None => Err(interpreter.unsupported_error("base64 with text after its padding")),
            },
            Some("tag:yaml.org,2002:float" | "!float") => {
                let value = self.load_plain(interpreter, text)?;
                interpreter.convert_to_float(&value)
            }
            Some(tag) if tag.starts_with("!ruby/") || tag.starts_with("!str:") => {
                Err(interpreter.unsupported_error(format!("the YAML tag {tag}")))
            }
            Some(_) => self.load_plain(interpreter, text),
        }
    }

    /// Reads a plain scalar. A type that is not permitted raises `Psych::DisallowedClass`.
    fn load_plain(&self, interpreter: &mut Interpreter, text: &str) -> EvalResult {
        let refuse = |interpreter: &mut Interpreter, class: &str| {
            Err(interpreter
                .ruby_error("Psych::DisallowedClass", format!("Tried to load unspecified class: {class}")))
        };
        Ok(match resolve::resolve(text) {
            PlainValue::Null => Value::Nil,
            PlainValue::Bool(flag) => Value::Bool(flag),
            PlainValue::Text => Value::str(text),
            PlainValue::Int(int) => Value::integer(int),
            PlainValue::Float(float) => Value::Float(float),
            PlainValue::Symbol(_) if !self.rules.allows_symbols => return refuse(interpreter, "Symbol"),
            PlainValue::Symbol(name) => Value::symbol(name),
            PlainValue::Date | PlainValue::Time if self.rules.allows_times => {
                return Err(interpreter.unsupported_error("YAML with a time or date"));
            }
            PlainValue::Date => return refuse(interpreter, "Date"),
            PlainValue::Time => return refuse(interpreter, "Time"),
        })
    }
}
