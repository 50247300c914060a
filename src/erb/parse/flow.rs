//! Lowers control flow: sequences, branches, loops, `case`, `rescue`.

use lib_ruby_parser::Node as Ast;
use lib_ruby_parser::nodes;

use super::ir::{Expr, InArm, Node, RescueArm, When};
use super::lower::{LowerResult, Lowerer, refuse};

impl Lowerer {
    pub(super) fn lower_sequence(&mut self, list: &[Ast]) -> LowerResult<Node> {
        let mut exprs = self.lower_list(list)?;
        Ok(match (exprs.len(), exprs.pop()) {
            (1, Some(expr)) => expr.node,
            (_, Some(last)) => {
                exprs.push(last);
                Node::Sequence(exprs)
            }
            _ => Node::Nil,
        })
    }

    pub(super) fn lower_branch(
        &mut self,
        condition: &Ast,
        then_branch: Option<&Ast>,
        otherwise: Option<&Ast>,
    ) -> LowerResult<Node> {
        Ok(Node::If {
            condition: self.lower_condition(condition)?,
            then_branch: self.lower_optional_boxed(then_branch)?,
            otherwise: self.lower_optional_boxed(otherwise)?,
        })
    }

    pub(super) fn lower_condition(&mut self, ast: &Ast) -> LowerResult<Box<Expr>> {
        match ast {
            Ast::IFlipFlop(_) | Ast::EFlipFlop(_) => refuse(ast, "a flip-flop"),
            Ast::MatchCurrentLine(_) => refuse(ast, "a regular expression as a condition"),
            _ => self.lower_boxed(ast),
        }
    }

    /// Lowers the body of a loop by `inner`. `break` and `next` in it belong to the loop, not to a block.
    pub(super) fn lower_in_loop<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> LowerResult<T>,
    ) -> LowerResult<T> {
        if let Some(count) = self.loops.last_mut() {
            *count += 1;
        }
        let result = inner(self);
        if let Some(count) = self.loops.last_mut() {
            *count -= 1;
        }
        result
    }

    /// Returns true if a `break` here ends a loop, not a block.
    pub(super) fn is_in_loop(&self) -> bool {
        self.loops.last().is_some_and(|count| *count > 0)
    }

    pub(super) fn lower_loop(
        &mut self,
        condition: &Ast,
        body: Option<&Ast>,
        is_until: bool,
        runs_body_first: bool,
    ) -> LowerResult<Node> {
        let condition = self.lower_condition(condition)?;
        let body = self.lower_in_loop(|lowerer| lowerer.lower_optional_boxed(body))?;
        Ok(Node::While { condition, body, is_until, runs_body_first })
    }

    /// Lowers the value of `return`, `break` or `next`. Several values become an array.
    pub(super) fn lower_jump_value(&mut self, args: &[Ast]) -> LowerResult<Option<Box<Expr>>> {
        Ok(match args {
            [] => None,
            [Ast::Splat(_)] => {
                let span = args[0].expression();
                let list = self.lower_list(args)?;
                Some(Box::new(Expr { node: Node::Array(list), span: (span.begin as u32, span.end as u32) }))
            }
            [one] => Some(self.lower_boxed(one)?),
            [first, ..] => {
                let span = first.expression();
                let list = self.lower_list(args)?;
                Some(Box::new(Expr { node: Node::Array(list), span: (span.begin as u32, span.end as u32) }))
            }
        })
    }

    pub(super) fn lower_case(&mut self, case: &nodes::Case) -> LowerResult<Node> {
        let subject = self.lower_optional_boxed(case.expr.as_deref())?;
        let mut whens = Vec::new();
        for arm in &case.when_bodies {
            if let Ast::When(when) = arm {
                whens.push(When {
                    patterns: self.lower_list(&when.patterns)?,
                    body: self.lower_optional(when.body.as_deref())?,
                });
            }
        }
        Ok(Node::Case { subject, whens, otherwise: self.lower_optional_boxed(case.else_body.as_deref())? })
    }

    pub(super) fn lower_case_in(&mut self, case: &nodes::CaseMatch) -> LowerResult<Node> {
        let subject = self.lower_boxed(&case.expr)?;
        let mut arms = Vec::new();
        for arm in &case.in_bodies {
            if let Ast::InPattern(arm) = arm {
                let pattern = self.lower_pattern(&arm.pattern)?;
                let guard = match arm.guard.as_deref() {
                    Some(Ast::IfGuard(guard)) => Some((self.lower_expr(&guard.cond)?, true)),
                    Some(Ast::UnlessGuard(guard)) => Some((self.lower_expr(&guard.cond)?, false)),
                    _ => None,
                };
                arms.push(InArm { pattern, guard, body: self.lower_optional(arm.body.as_deref())? });
            }
        }
        let otherwise = match case.else_body.as_deref() {
            None => None,
            Some(Ast::EmptyElse(_)) => Some(None),
            Some(body) => Some(Some(self.lower_boxed(body)?)),
        };
        Ok(Node::CaseIn { subject, arms, otherwise })
    }

    pub(super) fn lower_rescue(&mut self, rescue: &nodes::Rescue) -> LowerResult<Node> {
        let body = self.lower_optional_boxed(rescue.body.as_deref())?;
        let mut rescues = Vec::new();
        for arm in &rescue.rescue_bodies {
            if let Ast::RescueBody(arm) = arm {
                let classes = match arm.exc_list.as_deref() {
                    Some(Ast::Array(list)) => self.lower_list(&list.elements)?,
                    Some(other) => vec![self.lower_expr(other)?],
                    None => Vec::new(),
                };
                let target = arm.exc_var.as_deref().map(|target| self.lower_target(target)).transpose()?;
                rescues.push(RescueArm { classes, target, body: self.lower_optional(arm.body.as_deref())? });
            }
        }
        Ok(Node::Rescue { body, rescues, otherwise: self.lower_optional_boxed(rescue.else_.as_deref())? })
    }
}
