//! Lowers calls, their arguments and blocks. The output of a template also consists of calls, which `scanner`
//! generates.

use std::sync::Arc;

use lib_ruby_parser::Node as Ast;
use lib_ruby_parser::nodes;

use super::ir::{Argument, BlockArgument, Body, Expr, LiteralPart, MethodCall, Node, Pair};
use super::lower::{LowerResult, Lowerer, refuse};
use crate::scanner::{OUTPUT_VARIABLE, TEXT_CALL};

/// The form in which a bare `super` passes a parameter on.
#[derive(Clone, Copy)]
enum PassForm {
    Value,
    Splat,
    Keyword,
    Keywords,
}

impl Lowerer {
    pub(super) fn lower_send(&mut self, send: &nodes::Send) -> LowerResult<Node> {
        if let Some(node) = self.lower_output(send)? {
            return Ok(node);
        }
        if let Some(node) = self.lower_named_groups(send)? {
            return Ok(node);
        }
        let receiver = self.lower_optional(send.recv.as_deref())?;
        let (args, block) = self.lower_arguments(&send.args)?;
        Ok(Node::Call(Box::new(MethodCall {
            receiver,
            name: self.intern_name(&send.method_name),
            args,
            block,
            is_safe_navigation: false,
        })))
    }

    /// Lowers `/(?<name>…)/ =~ value`, which sets local variables, and calls that read such a variable. The
    /// parser does not recognise these variables, so it reports them as calls without arguments.
    pub(super) fn lower_named_groups(&mut self, send: &nodes::Send) -> LowerResult<Option<Node>> {
        if send.recv.is_none() && send.args.is_empty() && send.begin_l.is_none() {
            return Ok(self.find_slot(&send.method_name).map(Node::Local));
        }
        let (Some(regexp @ Ast::Regexp(_)), "=~", [value]) =
            (send.recv.as_deref(), send.method_name.as_str(), send.args.as_slice())
        else {
            return Ok(None);
        };
        let regexp = self.lower_boxed(regexp)?;
        let Node::Regexp { parts, .. } = &regexp.node else { return Ok(None) };
        let names = match parts.as_slice() {
            [LiteralPart::Text(source)] => group_names(source),
            _ => Vec::new(),
        };
        let value = self.lower_boxed(value)?;
        let names = names.iter().map(|name| (self.intern_name(name), self.find_or_declare(name))).collect();
        Ok(Some(Node::MatchAssign { regexp, value, names }))
    }

    /// Lowers the two calls that the scanner generates: text, and `<%= … %>`. Returns `None` for other calls.
    pub(super) fn lower_output(&mut self, send: &nodes::Send) -> LowerResult<Option<Node>> {
        if send.recv.is_none() && send.method_name == TEXT_CALL {
            if let (Some(_), [Ast::Int(number)]) = (self.find_slot(OUTPUT_VARIABLE), send.args.as_slice())
                && let Ok(number) = number.value.parse()
            {
                return Ok(Some(Node::Text(number)));
            }
            // The buffer is not visible in a method. A call of its name raises the same error as in Ruby.
            let name = self.intern_name(OUTPUT_VARIABLE);
            let call =
                MethodCall { receiver: None, name, args: Vec::new(), block: None, is_safe_navigation: false };
            return Ok(Some(Node::Call(Box::new(call))));
        }
        if send.method_name != "<<" {
            return Ok(None);
        }
        let (Some(Ast::Lvar(buffer)), [Ast::Begin(outer)]) = (send.recv.as_deref(), send.args.as_slice())
        else {
            return Ok(None);
        };
        let [Ast::Send(to_s)] = outer.statements.as_slice() else { return Ok(None) };
        if buffer.name != OUTPUT_VARIABLE || to_s.method_name != "to_s" || !to_s.args.is_empty() {
            return Ok(None);
        }
        match to_s.recv.as_deref() {
            Some(value) => Ok(Some(Node::Emit(self.lower_boxed(value)?))),
            None => Ok(None),
        }
    }

    pub(super) fn lower_arguments(
        &mut self,
        list: &[Ast],
    ) -> LowerResult<(Vec<Argument>, Option<BlockArgument>)> {
        let mut args = Vec::new();
        let mut block = None;
        for ast in list {
            match ast {
                Ast::BlockPass(pass) => {
                    block = Some(BlockArgument::Pass(self.lower_optional_boxed(pass.value.as_deref())?))
                }
                Ast::Kwargs(hash) => args.push(Argument::Keywords(self.lower_pairs(&hash.pairs)?)),
                Ast::Splat(splat) => match splat.value.as_deref() {
                    Some(value) => args.push(Argument::Splat(self.lower_expr(value)?)),
                    None => return refuse(ast, "an anonymous splat"),
                },
                Ast::ForwardedArgs(_) => return refuse(ast, "argument forwarding (...)"),
                other => args.push(Argument::Value(self.lower_expr(other)?)),
            }
        }
        Ok((args, block))
    }

    pub(super) fn attach_block(&mut self, call: &Ast, body: Arc<Body>) -> LowerResult<Node> {
        let block = Some(BlockArgument::Literal(Arc::clone(&body)));
        match call {
            Ast::Lambda(_) => Ok(Node::Lambda(body)),
            _ => match self.lower_node(call)? {
                Node::Call(mut call) => {
                    call.block = block;
                    Ok(Node::Call(call))
                }
                Node::Super { args, .. } => Ok(Node::Super { args, block }),
                _ => refuse(call, "a block on this expression"),
            },
        }
    }

    pub(super) fn lower_block_body(
        &mut self,
        params: Option<&Ast>,
        code: Option<&Ast>,
    ) -> LowerResult<Arc<Body>> {
        Ok(Arc::new(self.lower_body(true, |lowerer| lowerer.lower_params(params), code)?))
    }

    pub(super) fn lower_method_body(
        &mut self,
        params: Option<&Ast>,
        code: Option<&Ast>,
    ) -> LowerResult<Arc<Body>> {
        let parameters = match params {
            Some(Ast::Args(list)) => list.args.clone(),
            _ => Vec::new(),
        };
        let outer = std::mem::replace(&mut self.method_parameters, parameters);
        let body = self.lower_body(false, |lowerer| lowerer.lower_params(params), code);
        self.method_parameters = outer;
        Ok(Arc::new(body?))
    }

    /// Returns the arguments of a bare `super`: the current values of the method's parameters. Returns `None`
    /// if a splat has no name; then the evaluator passes the original arguments.
    pub(super) fn super_arguments(&mut self, ast: &Ast) -> Option<Vec<Argument>> {
        let span = (ast.expression().begin as u32, ast.expression().end as u32);
        let method = std::mem::take(&mut self.method_parameters);
        let mut args = Some(Vec::new());
        let mut pairs = Vec::new();
        for param in &method {
            let (name, kind) = match param {
                Ast::Arg(arg) => (Some(&arg.name), PassForm::Value),
                Ast::Optarg(arg) => (Some(&arg.name), PassForm::Value),
                Ast::Restarg(arg) => (arg.name.as_ref(), PassForm::Splat),
                Ast::Kwarg(arg) => (Some(&arg.name), PassForm::Keyword),
                Ast::Kwoptarg(arg) => (Some(&arg.name), PassForm::Keyword),
                Ast::Kwrestarg(arg) => (arg.name.as_ref(), PassForm::Keywords),
                _ => continue,
            };
            let Some((name, slot)) = name.and_then(|name| Some((name, self.find_slot(name)?))) else {
                args = None;
                break;
            };
            let local = Expr { node: Node::Local(slot), span };
            match (kind, &mut args) {
                (PassForm::Value, Some(args)) => args.push(Argument::Value(local)),
                (PassForm::Splat, Some(args)) => args.push(Argument::Splat(local)),
                (PassForm::Keyword, _) => {
                    pairs.push(Pair::Entry(Expr { node: Node::Symbol(self.intern_name(name)), span }, local));
                }
                _ => pairs.push(Pair::Splat(local)),
            }
        }
        self.method_parameters = method;
        if let (Some(args), false) = (&mut args, pairs.is_empty()) {
            args.push(Argument::Keywords(pairs));
        }
        args
    }
}

/// Returns the names of the named groups of a regular expression, in order.
pub(super) fn group_names(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (start, _) in source.match_indices("(?<") {
        let rest = &source[start + 3..];
        if let Some(end) = rest.find('>')
            && !rest.starts_with(['=', '!'])
        {
            names.push(rest[..end].to_owned());
        }
    }
    names
}
