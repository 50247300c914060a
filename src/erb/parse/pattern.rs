//! Lowers the patterns of `case … in` and `=>`.

use lib_ruby_parser::Node as Ast;

use super::ir::{HashRest, Pattern, Slot};
use super::lower::{LowerResult, Lowerer, refuse};

impl Lowerer {
    /// Lowers a pattern of `case … in`, `=>` or `in`, and declares its variables.
    pub(super) fn lower_pattern(&mut self, ast: &Ast) -> LowerResult<Pattern> {
        Ok(match ast {
            Ast::MatchVar(var) if var.name == "_" => {
                self.find_or_declare("_");
                Pattern::Ignore
            }
            Ast::MatchVar(var) => Pattern::Bind(self.find_or_declare(&var.name)),
            Ast::MatchAs(node) => {
                let inner = Box::new(self.lower_pattern(&node.value)?);
                let Ast::MatchVar(var) = &*node.as_ else { return refuse(ast, "this pattern") };
                Pattern::As(inner, self.find_or_declare(&var.name))
            }
            Ast::MatchAlt(node) => Pattern::Either(
                Box::new(self.lower_pattern(&node.lhs)?),
                Box::new(self.lower_pattern(&node.rhs)?),
            ),
            Ast::Pin(pin) => Pattern::Value(self.lower_boxed(&pin.var)?),
            Ast::ArrayPattern(node) => self.lower_array_pattern(&node.elements, false)?,
            Ast::ArrayPatternWithTail(node) => self.lower_array_pattern(&node.elements, true)?,
            Ast::FindPattern(node) => self.lower_find_pattern(&node.elements)?,
            Ast::HashPattern(node) => self.lower_hash_pattern(&node.elements)?,
            Ast::ConstPattern(node) => {
                let class = self.lower_expr(&node.const_)?;
                match self.lower_pattern(&node.pattern)? {
                    Pattern::Array { leading_patterns, rest, trailing_patterns, .. } => {
                        Pattern::Array { constant: Some(class), leading_patterns, rest, trailing_patterns }
                    }
                    Pattern::Hash { entries, rest, .. } => {
                        Pattern::Hash { constant: Some(class), entries, rest }
                    }
                    Pattern::Find { slot_before, middle, slot_after, .. } => {
                        Pattern::Find { constant: Some(class), slot_before, middle, slot_after }
                    }
                    _ => Pattern::Constant(class),
                }
            }
            Ast::Begin(begin) if begin.statements.len() == 1 => self.lower_pattern(&begin.statements[0])?,
            other => Pattern::Value(self.lower_boxed(other)?),
        })
    }

    /// Returns the variable of a splat in a pattern: `None` for other patterns, `Some(None)` for a splat
    /// without a name.
    fn declare_rest_slot(&mut self, ast: &Ast) -> Option<Option<Slot>> {
        let Ast::MatchRest(rest) = ast else { return None };
        Some(match rest.name.as_deref() {
            Some(Ast::MatchVar(var)) => Some(self.find_or_declare(&var.name)),
            _ => None,
        })
    }

    /// Lowers `[pattern, *rest, pattern]`. With `allows_rest`, as for `[pattern, ]`, further items match
    /// without a splat.
    fn lower_array_pattern(&mut self, elements: &[Ast], allows_rest: bool) -> LowerResult<Pattern> {
        let mut leading_patterns = Vec::new();
        let mut rest = None;
        let mut trailing_patterns = Vec::new();
        for element in elements {
            if let Some(slot) = self.declare_rest_slot(element) {
                rest = Some(slot);
                continue;
            }
            let pattern = self.lower_pattern(element)?;
            if rest.is_some() { trailing_patterns.push(pattern) } else { leading_patterns.push(pattern) }
        }
        if allows_rest && rest.is_none() {
            rest = Some(None);
        }
        Ok(Pattern::Array { constant: None, leading_patterns, rest, trailing_patterns })
    }

    fn lower_find_pattern(&mut self, elements: &[Ast]) -> LowerResult<Pattern> {
        let mut splats = Vec::new();
        let mut middle = Vec::new();
        for element in elements {
            match self.declare_rest_slot(element) {
                Some(slot) => splats.push(slot),
                None => middle.push(self.lower_pattern(element)?),
            }
        }
        let slot_after = splats.pop().flatten();
        let slot_before = splats.pop().flatten();
        Ok(Pattern::Find { constant: None, slot_before, middle, slot_after })
    }

    /// Lowers `{key: pattern, key:, **rest}`.
    fn lower_hash_pattern(&mut self, elements: &[Ast]) -> LowerResult<Pattern> {
        let mut entries = Vec::new();
        let mut rest = HashRest::Any;
        for element in elements {
            match element {
                Ast::Pair(pair) => {
                    let Ast::Sym(key) = &*pair.key else { return refuse(element, "this hash pattern") };
                    let key = key.name.to_string_lossy();
                    let pattern = self.lower_pattern(&pair.value)?;
                    entries.push((self.intern_name(&key), Some(pattern), None));
                }
                Ast::MatchVar(var) => {
                    let slot = self.find_or_declare(&var.name);
                    entries.push((self.intern_name(&var.name), None, Some(slot)));
                }
                Ast::MatchNilPattern(_) => rest = HashRest::Nothing,
                Ast::MatchRest(_) => {
                    rest = match self.declare_rest_slot(element).flatten() {
                        Some(slot) => HashRest::Bind(slot),
                        None => HashRest::Any,
                    };
                }
                other => return refuse(other, "this hash pattern"),
            }
        }
        Ok(Pattern::Hash { constant: None, entries, rest })
    }
}
