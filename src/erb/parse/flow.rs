//! Lowers control flow: sequences, branches, loops, `case`, `rescue`.

use lib_ruby_parser::Node as Ast;
use lib_ruby_parser::nodes;

use super::ir::{Expr, InArm, Node, RescueArm, When};
use super::lower::{Lowered, Lowerer, refuse};

impl Lowerer {
    pub(super) fn sequence(&mut self, list: &[Ast]) -> Lowered<Node> {
        let mut exprs = self.exprs(list)?;
        Ok(match (exprs.len(), exprs.pop()) {
            (1, Some(expr)) => expr.node,
            (_, Some(last)) => {
                exprs.push(last);
                Node::Sequence(exprs)
            }
            _ => Node::Nil,
        })
    }

    pub(super) fn branch(
        &mut self,
        condition: &Ast,
        then_branch: Option<&Ast>,
        otherwise: Option<&Ast>,
    ) -> Lowered<Node> {
        Ok(Node::If {
            condition: self.condition(condition)?,
            then_branch: self.maybe_box(then_branch)?,
            otherwise: self.maybe_box(otherwise)?,
        })
    }

    pub(super) fn condition(&mut self, ast: &Ast) -> Lowered<Box<Expr>> {
        match ast {
            Ast::IFlipFlop(_) | Ast::EFlipFlop(_) => refuse(ast, "a flip-flop"),
            Ast::MatchCurrentLine(_) => refuse(ast, "a regular expression as a condition"),
            _ => self.boxed(ast),
        }
    }

    /// Runs `inner` as the lowering of a loop body. `break` and `next` in it belong to the loop, not to a
    /// block.
    pub(super) fn in_loop<T>(&mut self, inner: impl FnOnce(&mut Self) -> Lowered<T>) -> Lowered<T> {
        if let Some(count) = self.loops.last_mut() {
            *count += 1;
        }
        let result = inner(self);
        if let Some(count) = self.loops.last_mut() {
            *count -= 1;
        }
        result
    }

    pub(super) fn inside_loop(&self) -> bool {
        self.loops.last().is_some_and(|count| *count > 0)
    }

    pub(super) fn repeat(
        &mut self,
        condition: &Ast,
        body: Option<&Ast>,
        is_until: bool,
        runs_body_first: bool,
    ) -> Lowered<Node> {
        let condition = self.condition(condition)?;
        let body = self.in_loop(|lowerer| lowerer.maybe_box(body))?;
        Ok(Node::While { condition, body, is_until, runs_body_first })
    }

    /// Lowers the value of `return`, `break` or `next`. Several values become an array.
    pub(super) fn jump_value(&mut self, args: &[Ast]) -> Lowered<Option<Box<Expr>>> {
        Ok(match args {
            [] => None,
            [Ast::Splat(_)] => {
                let span = args[0].expression();
                let list = self.exprs(args)?;
                Some(Box::new(Expr { node: Node::Array(list), span: (span.begin as u32, span.end as u32) }))
            }
            [one] => Some(self.boxed(one)?),
            [first, ..] => {
                let span = first.expression();
                let list = self.exprs(args)?;
                Some(Box::new(Expr { node: Node::Array(list), span: (span.begin as u32, span.end as u32) }))
            }
        })
    }

    pub(super) fn case(&mut self, case: &nodes::Case) -> Lowered<Node> {
        let subject = self.maybe_box(case.expr.as_deref())?;
        let mut whens = Vec::new();
        for arm in &case.when_bodies {
            if let Ast::When(when) = arm {
                whens.push(When {
                    patterns: self.exprs(&when.patterns)?,
                    body: self.maybe_expr(when.body.as_deref())?,
                });
            }
        }
        Ok(Node::Case { subject, whens, otherwise: self.maybe_box(case.else_body.as_deref())? })
    }

    pub(super) fn case_in(&mut self, case: &nodes::CaseMatch) -> Lowered<Node> {
        let subject = self.boxed(&case.expr)?;
        let mut arms = Vec::new();
        for arm in &case.in_bodies {
            if let Ast::InPattern(arm) = arm {
                let pattern = self.pattern(&arm.pattern)?;
                let guard = match arm.guard.as_deref() {
                    Some(Ast::IfGuard(guard)) => Some((self.expr(&guard.cond)?, true)),
                    Some(Ast::UnlessGuard(guard)) => Some((self.expr(&guard.cond)?, false)),
                    _ => None,
                };
                arms.push(InArm { pattern, guard, body: self.maybe_expr(arm.body.as_deref())? });
            }
        }
        let otherwise = match case.else_body.as_deref() {
            None => None,
            Some(Ast::EmptyElse(_)) => Some(None),
            Some(body) => Some(Some(self.boxed(body)?)),
        };
        Ok(Node::CaseIn { subject, arms, otherwise })
    }

    pub(super) fn rescue(&mut self, rescue: &nodes::Rescue) -> Lowered<Node> {
        let body = self.maybe_box(rescue.body.as_deref())?;
        let mut rescues = Vec::new();
        for arm in &rescue.rescue_bodies {
            if let Ast::RescueBody(arm) = arm {
                let classes = match arm.exc_list.as_deref() {
                    Some(Ast::Array(list)) => self.exprs(&list.elements)?,
                    Some(other) => vec![self.expr(other)?],
                    None => Vec::new(),
                };
                let target = arm.exc_var.as_deref().map(|target| self.target(target)).transpose()?;
                rescues.push(RescueArm { classes, target, body: self.maybe_expr(arm.body.as_deref())? });
            }
        }
        Ok(Node::Rescue { body, rescues, otherwise: self.maybe_box(rescue.else_.as_deref())? })
    }
}
