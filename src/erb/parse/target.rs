//! Lowers assignments: simple, with an operator, and multiple.

use lib_ruby_parser::Node as Ast;

use super::ir::{MultiTarget, Node, Target};
use super::lower::{LowerResult, Lowerer, refuse};

impl Lowerer {
    /// Lowers an assignment of any form.
    pub(super) fn lower_assignment(&mut self, ast: &Ast) -> LowerResult<Node> {
        match ast {
            Ast::Masgn(node) => {
                let Ast::Mlhs(list) = &*node.lhs else { return refuse(ast, "this multiple assignment") };
                let value = self.lower_boxed(&node.rhs)?;
                Ok(Node::MultipleAssign(self.lower_multi_target(&list.items)?, value))
            }
            Ast::OpAsgn(node) => {
                let target = self.lower_target(&node.recv)?;
                let operator = self.intern_name(node.operator.trim_end_matches('='));
                Ok(Node::OperatorAssign { target, operator, value: self.lower_boxed(&node.value)? })
            }
            Ast::OrAsgn(node) => {
                let target = self.lower_target(&node.recv)?;
                Ok(Node::OrAssign { target, value: self.lower_boxed(&node.value)? })
            }
            Ast::AndAsgn(node) => {
                let target = self.lower_target(&node.recv)?;
                Ok(Node::AndAssign { target, value: self.lower_boxed(&node.value)? })
            }
            _ => {
                let value = match ast {
                    Ast::Lvasgn(node) => node.value.as_deref(),
                    Ast::Ivasgn(node) => node.value.as_deref(),
                    Ast::Gvasgn(node) => node.value.as_deref(),
                    Ast::Cvasgn(node) => node.value.as_deref(),
                    Ast::Casgn(node) => node.value.as_deref(),
                    Ast::IndexAsgn(node) => node.value.as_deref(),
                    _ => None,
                };
                let Some(value) = value else { return refuse(ast, "an assignment without a value") };
                // The target is lowered first: in `a = a`, the value reads the new variable, which is nil.
                let target = self.lower_target(ast)?;
                Ok(Node::Assign(target, self.lower_boxed(value)?))
            }
        }
    }

    /// Lowers the left side of an assignment.
    pub(super) fn lower_target(&mut self, ast: &Ast) -> LowerResult<Target> {
        Ok(match ast {
            Ast::Lvasgn(node) => Target::Local(self.find_or_declare(&node.name)),
            Ast::Lvar(node) => Target::Local(self.find_or_declare(&node.name)),
            Ast::Arg(node) => Target::Local(self.find_or_declare(&node.name)),
            Ast::MatchVar(node) => Target::Local(self.find_or_declare(&node.name)),
            Ast::Ivasgn(node) => Target::InstanceVariable(self.intern_name(&node.name)),
            Ast::Ivar(node) => Target::InstanceVariable(self.intern_name(&node.name)),
            Ast::Gvasgn(node) => Target::Global(self.intern_name(&node.name)),
            Ast::Gvar(node) => Target::Global(self.intern_name(&node.name)),
            Ast::Cvasgn(node) => Target::ClassVariable(self.intern_name(&node.name)),
            Ast::Cvar(node) => Target::ClassVariable(self.intern_name(&node.name)),
            Ast::Casgn(node) => {
                let scope = node.scope.as_deref().map(|scope| self.lower_boxed(scope)).transpose()?;
                Target::Constant(scope, self.intern_name(&node.name))
            }
            Ast::Const(node) => {
                let scope = node.scope.as_deref().map(|scope| self.lower_boxed(scope)).transpose()?;
                Target::Constant(scope, self.intern_name(&node.name))
            }
            Ast::IndexAsgn(node) => {
                Target::Index(self.lower_boxed(&node.recv)?, self.lower_arguments(&node.indexes)?.0)
            }
            Ast::Index(node) => {
                Target::Index(self.lower_boxed(&node.recv)?, self.lower_arguments(&node.indexes)?.0)
            }
            Ast::Send(node) => match node.recv.as_deref() {
                Some(receiver) => Target::Attribute {
                    receiver: self.lower_boxed(receiver)?,
                    name: self.intern_name(node.method_name.trim_end_matches('=')),
                    is_safe_navigation: false,
                },
                None => return refuse(ast, "this assignment"),
            },
            Ast::CSend(node) => Target::Attribute {
                receiver: self.lower_boxed(&node.recv)?,
                name: self.intern_name(node.method_name.trim_end_matches('=')),
                is_safe_navigation: true,
            },
            Ast::Mlhs(node) => Target::Nested(self.lower_multi_target(&node.items)?),
            other => return refuse(other, "this assignment"),
        })
    }

    pub(super) fn lower_multi_target(&mut self, items: &[Ast]) -> LowerResult<MultiTarget> {
        let mut multi =
            MultiTarget { leading_targets: Vec::new(), splat: None, trailing_targets: Vec::new() };
        for item in items {
            match item {
                Ast::Splat(splat) => {
                    let inner = splat.value.as_deref().map(|inner| self.lower_target(inner)).transpose()?;
                    multi.splat = Some(inner.map(Box::new));
                }
                Ast::Restarg(rest) => {
                    let inner = rest.name.as_deref().map(|name| Target::Local(self.find_or_declare(name)));
                    multi.splat = Some(inner.map(Box::new));
                }
                other => {
                    let target = self.lower_target(other)?;
                    if multi.splat.is_some() {
                        multi.trailing_targets.push(target)
                    } else {
                        multi.leading_targets.push(target)
                    }
                }
            }
        }
        Ok(multi)
    }

    /// Lowers the variables of a `for`. Also returns true for a single variable, which receives each value
    /// whole.
    pub(super) fn lower_for_target(&mut self, ast: &Ast) -> LowerResult<(MultiTarget, bool)> {
        match ast {
            Ast::Mlhs(list) => Ok((self.lower_multi_target(&list.items)?, false)),
            one => {
                let leading_targets = vec![self.lower_target(one)?];
                Ok((MultiTarget { leading_targets, splat: None, trailing_targets: Vec::new() }, true))
            }
        }
    }
}
