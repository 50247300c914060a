//! Turns the parser's syntax tree into the evaluator's: resolves local variables, folds the parser's many
//! node kinds into few, and refuses what is not supported.

use std::collections::HashSet;
use std::sync::Arc;

use lib_ruby_parser::Node as Ast;
use lib_ruby_parser::nodes;

use super::ir::{
    Argument, BlockArgument, Body, Call, ConstScope, Expr, InArm, Name, Node, Pair, Params, Part, RescueArm,
    Slot, Target, When,
};
use crate::template::scanner::{BUFFER, TEXT_CALL};

/// The construct of an expression that is nested too deep.
pub(super) const TOO_DEEP: &str = "an expression nested this deep";

/// Something that is not supported.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) offset: usize,
    pub(super) construct: String,
}

pub(super) type Lowered<T> = Result<T, Refused>;

struct Scope {
    names: Vec<Name>,
    /// A block sees the variables around it; a method does not.
    transparent: bool,
}

/// The state of the walk.
pub(super) struct Lowerer {
    scopes: Vec<Scope>,
    names: HashSet<Name>,
    /// For each body we are in: how many loops around us in it.
    loops: Vec<u32>,
    /// The parameters of the method we are in, which a bare `super` passes on.
    method: Vec<Ast>,
    /// How deep the expression being lowered is nested.
    depth: u32,
}

/// Expressions nested deeper than this are refused. People's code stays below 50.
const MAX_DEPTH: u32 = 2_000;

/// Lowers a whole template.
pub(super) fn lower(ast: Option<&Ast>) -> Lowered<Body> {
    let mut lowerer = Lowerer {
        scopes: Vec::new(),
        names: HashSet::new(),
        loops: Vec::new(),
        method: Vec::new(),
        depth: 0,
    };
    lowerer.body(false, |_| Ok(Params::default()), ast)
}

pub(super) fn refuse<T>(node: &Ast, construct: impl Into<String>) -> Lowered<T> {
    Err(Refused { offset: node.expression().begin, construct: construct.into() })
}

impl Lowerer {
    pub(super) fn name(&mut self, text: &str) -> Name {
        if let Some(name) = self.names.get(text) {
            return Arc::clone(name);
        }
        let name: Name = Arc::from(text);
        self.names.insert(Arc::clone(&name));
        name
    }

    pub(super) fn find(&self, text: &str) -> Option<Slot> {
        for (depth, scope) in self.scopes.iter().rev().enumerate() {
            if let Some(index) = scope.names.iter().position(|name| &**name == text) {
                return Some(Slot { depth: depth as u32, index: index as u32 });
            }
            if !scope.transparent {
                return None;
            }
        }
        None
    }

    /// A new variable in the innermost scope, whatever is outside.
    pub(super) fn declare_here(&mut self, text: &str) -> u32 {
        let name = self.name(text);
        match self.scopes.last_mut() {
            Some(scope) => {
                scope.names.push(name);
                scope.names.len() as u32 - 1
            }
            None => 0,
        }
    }

    pub(super) fn slot(&mut self, text: &str) -> Slot {
        match self.find(text) {
            Some(slot) => slot,
            None => Slot { depth: 0, index: self.declare_here(text) },
        }
    }

    /// Lowers a body in a scope of its own.
    fn body(
        &mut self,
        transparent: bool,
        params: impl FnOnce(&mut Self) -> Lowered<Params>,
        code: Option<&Ast>,
    ) -> Lowered<Body> {
        self.scopes.push(Scope { names: Vec::new(), transparent });
        self.loops.push(0);
        let result = params(self).and_then(|params| Ok((params, self.maybe(code)?)));
        self.loops.pop();
        let locals = self.scopes.pop().map(|scope| scope.names).unwrap_or_default();
        let (params, code) = result?;
        Ok(Body { params, code, locals })
    }

    fn maybe(&mut self, ast: Option<&Ast>) -> Lowered<Option<Expr>> {
        ast.map(|ast| self.expr(ast)).transpose()
    }

    fn maybe_box(&mut self, ast: Option<&Ast>) -> Lowered<Option<Box<Expr>>> {
        Ok(self.maybe(ast)?.map(Box::new))
    }

    pub(super) fn boxed(&mut self, ast: &Ast) -> Lowered<Box<Expr>> {
        Ok(Box::new(self.expr(ast)?))
    }

    pub(super) fn exprs(&mut self, list: &[Ast]) -> Lowered<Vec<Expr>> {
        list.iter().map(|ast| self.expr(ast)).collect()
    }

    pub(super) fn expr(&mut self, ast: &Ast) -> Lowered<Expr> {
        let loc = ast.expression();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return refuse(ast, TOO_DEEP);
        }
        // Parentheses are no expression of their own: an error shows what is in them.
        if let Ast::Begin(begin) = ast
            && let [only] = begin.statements.as_slice()
        {
            let inner = self.expr(only);
            self.depth -= 1;
            return inner;
        }
        let node = self.node(ast)?;
        self.depth -= 1;
        Ok(Expr { node, span: (loc.begin as u32, loc.end as u32) })
    }

    fn node(&mut self, ast: &Ast) -> Lowered<Node> {
        Ok(match ast {
            Ast::Nil(_) | Ast::EmptyElse(_) => Node::Nil,
            Ast::True(_) => Node::True,
            Ast::False(_) => Node::False,
            Ast::Self_(_) => Node::Myself,
            Ast::Int(int) => number(&int.value),
            Ast::Float(float) => Node::Float(float.value.replace('_', "").parse().unwrap_or(f64::NAN)),
            Ast::Str(text) => match std::str::from_utf8(text.value.as_raw()) {
                Ok(text) => Node::Str(Arc::from(text)),
                Err(_) => Node::Binary(Arc::from(text.value.as_raw().as_slice())),
            },
            Ast::Dstr(text) => self.interpolated(&text.parts)?,
            Ast::Heredoc(text) => self.interpolated(&text.parts)?,
            Ast::Sym(symbol) => {
                let text = symbol.name.to_string_lossy();
                Node::Symbol(self.name(&text))
            }
            Ast::Dsym(symbol) => Node::InterpolatedSymbol(self.parts(&symbol.parts)?),
            Ast::Regexp(regexp) => self.regexp(regexp)?,
            Ast::Array(array) => Node::Array(self.exprs(&array.elements)?),
            Ast::Splat(splat) => match &splat.value {
                Some(value) => Node::Splat(self.boxed(value)?),
                None => return refuse(ast, "an anonymous splat"),
            },
            Ast::Hash(hash) => Node::Hash(self.pairs(&hash.pairs)?),
            Ast::Kwargs(hash) => Node::Hash(self.pairs(&hash.pairs)?),
            Ast::Irange(range) => self.range(range.left.as_deref(), range.right.as_deref(), false)?,
            Ast::Erange(range) => self.range(range.left.as_deref(), range.right.as_deref(), true)?,
            Ast::Lvar(var) => match self.find(&var.name) {
                Some(slot) => Node::Local(slot),
                None => Node::Local(self.slot(&var.name)),
            },
            Ast::Ivar(var) => Node::InstanceVariable(self.name(&var.name)),
            Ast::Cvar(var) => Node::ClassVariable(self.name(&var.name)),
            Ast::Gvar(var) => Node::Global(self.name(&var.name)),
            Ast::NthRef(nth) => Node::NthMatch(nth.name.trim_start_matches('$').parse().unwrap_or(0)),
            Ast::BackRef(back) => Node::BackReference(back.name.chars().nth(1).unwrap_or('&')),
            Ast::Const(constant) => {
                let scope = match constant.scope.as_deref() {
                    None => ConstScope::Lexical,
                    Some(Ast::Cbase(_)) => ConstScope::Top,
                    Some(scope) => ConstScope::In(self.boxed(scope)?),
                };
                Node::Constant { scope, name: self.name(&constant.name) }
            }
            Ast::Begin(begin) => self.sequence(&begin.statements)?,
            Ast::KwBegin(begin) => self.sequence(&begin.statements)?,
            Ast::If(branch) => {
                self.branch(&branch.cond, branch.if_true.as_deref(), branch.if_false.as_deref())?
            }
            Ast::IfMod(branch) => {
                self.branch(&branch.cond, branch.if_true.as_deref(), branch.if_false.as_deref())?
            }
            Ast::IfTernary(branch) => {
                self.branch(&branch.cond, Some(&branch.if_true), Some(&branch.if_false))?
            }
            Ast::And(and) => Node::And(self.boxed(&and.lhs)?, self.boxed(&and.rhs)?),
            Ast::Or(or) => Node::Or(self.boxed(&or.lhs)?, self.boxed(&or.rhs)?),
            Ast::Defined(defined) => Node::Defined(self.boxed(&defined.value)?),
            Ast::While(node) => self.repeat(&node.cond, node.body.as_deref(), false, false)?,
            Ast::Until(node) => self.repeat(&node.cond, node.body.as_deref(), true, false)?,
            Ast::WhilePost(node) => self.repeat(&node.cond, Some(&node.body), false, true)?,
            Ast::UntilPost(node) => self.repeat(&node.cond, Some(&node.body), true, true)?,
            Ast::For(node) => {
                let iterated = self.boxed(&node.iteratee)?;
                let (target, single) = self.for_target(&node.iterator)?;
                let body = self.in_loop(|it| it.maybe_box(node.body.as_deref()))?;
                Node::For { target, single, iterated, body }
            }
            Ast::Case(case) => self.case(case)?,
            Ast::CaseMatch(case) => self.case_in(case)?,
            Ast::MatchPattern(node) => {
                let value = self.boxed(&node.value)?;
                Node::MatchPattern { value, pattern: Box::new(self.pattern(&node.pattern)?), raises: true }
            }
            Ast::MatchPatternP(node) => {
                let value = self.boxed(&node.value)?;
                Node::MatchPattern { value, pattern: Box::new(self.pattern(&node.pattern)?), raises: false }
            }
            Ast::Rescue(rescue) => self.rescue(rescue)?,
            Ast::Ensure(ensure) => Node::Ensure {
                body: self.maybe_box(ensure.body.as_deref())?,
                ensure: self.maybe_box(ensure.ensure.as_deref())?,
            },
            Ast::Return(node) => Node::Return(self.jump_value(&node.args)?),
            Ast::Break(node) => {
                Node::Break { value: self.jump_value(&node.args)?, in_loop: self.inside_loop() }
            }
            Ast::Next(node) => {
                Node::Next { value: self.jump_value(&node.args)?, in_loop: self.inside_loop() }
            }
            Ast::Retry(_) => Node::Retry,
            Ast::Send(send) => self.send(send)?,
            Ast::CSend(send) => Node::Call(Box::new(Call {
                receiver: Some(self.expr(&send.recv)?),
                name: self.name(&send.method_name),
                args: self.arguments(&send.args)?.0,
                block: self.arguments(&send.args)?.1,
                safe: true,
            })),
            Ast::Index(index) => Node::Call(Box::new(Call {
                receiver: Some(self.expr(&index.recv)?),
                name: self.name("[]"),
                args: self.arguments(&index.indexes)?.0,
                block: None,
                safe: false,
            })),
            Ast::Super(node) => {
                let (args, block) = self.arguments(&node.args)?;
                Node::Super { args: Some(args), block }
            }
            Ast::ZSuper(_) => Node::Super { args: self.passed_on(ast), block: None },
            Ast::Yield(node) => Node::Yield(self.arguments(&node.args)?.0),
            Ast::Block(block) => {
                let body = self.block_body(block.args.as_deref(), block.body.as_deref())?;
                self.with_block(&block.call, body)?
            }
            Ast::Numblock(block) => {
                let count = u32::from(block.numargs);
                let body = self.body(
                    true,
                    |it| {
                        for number in 1..=count {
                            it.declare_here(&format!("_{number}"));
                        }
                        Ok(Params { numbered: count, ..Params::default() })
                    },
                    Some(&block.body),
                )?;
                self.with_block(&block.call, Arc::new(body))?
            }
            Ast::Def(def) => Node::Define {
                name: self.name(&def.name),
                body: self.method_body(def.args.as_deref(), def.body.as_deref())?,
                on: None,
            },
            Ast::Defs(def) => Node::Define {
                name: self.name(&def.name),
                on: Some(self.boxed(&def.definee)?),
                body: self.method_body(def.args.as_deref(), def.body.as_deref())?,
            },
            Ast::Class(class) => Node::Class {
                name: self.boxed(&class.name)?,
                superclass: self.maybe_box(class.superclass.as_deref())?,
                body: self.method_body(None, class.body.as_deref())?,
            },
            Ast::SClass(class) => Node::SingletonClass {
                of: self.boxed(&class.expr)?,
                body: self.method_body(None, class.body.as_deref())?,
            },
            Ast::Module(module) => Node::Module {
                name: self.boxed(&module.name)?,
                body: self.method_body(None, module.body.as_deref())?,
            },
            Ast::Alias(alias) => match (&*alias.to, &*alias.from) {
                (Ast::Sym(to), Ast::Sym(from)) => {
                    let (to, from) = (to.name.to_string_lossy(), from.name.to_string_lossy());
                    Node::Alias { to: self.name(&to), from: self.name(&from) }
                }
                _ => return refuse(ast, "an alias of a global variable"),
            },
            Ast::MatchWithLvasgn(node) => {
                let regexp = self.boxed(&node.re)?;
                let value = self.boxed(&node.value)?;
                let mut names = Vec::new();
                if let Node::Regexp { parts, .. } = &regexp.node
                    && let [Part::Text(source)] = parts.as_slice()
                {
                    for name in group_names(source) {
                        let slot = self.slot(&name);
                        names.push((self.name(&name), slot));
                    }
                }
                Node::MatchAssign { regexp, value, names }
            }
            Ast::Line(_) => Node::Int(0),
            Ast::File(_) => Node::Str(Arc::from("(erb)")),
            Ast::Lvasgn(_)
            | Ast::Ivasgn(_)
            | Ast::Gvasgn(_)
            | Ast::Cvasgn(_)
            | Ast::Casgn(_)
            | Ast::IndexAsgn(_)
            | Ast::Masgn(_)
            | Ast::OpAsgn(_)
            | Ast::OrAsgn(_)
            | Ast::AndAsgn(_) => self.assignment(ast)?,
            other => return refuse(other, construct_name(other)),
        })
    }

    fn sequence(&mut self, list: &[Ast]) -> Lowered<Node> {
        let mut exprs = self.exprs(list)?;
        Ok(match (exprs.len(), exprs.pop()) {
            (1, Some(only)) => only.node,
            (_, Some(last)) => {
                exprs.push(last);
                Node::Sequence(exprs)
            }
            _ => Node::Nil,
        })
    }

    fn branch(&mut self, condition: &Ast, then: Option<&Ast>, otherwise: Option<&Ast>) -> Lowered<Node> {
        Ok(Node::If {
            condition: self.condition(condition)?,
            then: self.maybe_box(then)?,
            otherwise: self.maybe_box(otherwise)?,
        })
    }

    fn condition(&mut self, ast: &Ast) -> Lowered<Box<Expr>> {
        match ast {
            Ast::IFlipFlop(_) | Ast::EFlipFlop(_) => refuse(ast, "a flip-flop"),
            Ast::MatchCurrentLine(_) => refuse(ast, "a regular expression as a condition"),
            _ => self.boxed(ast),
        }
    }

    fn in_loop<T>(&mut self, inner: impl FnOnce(&mut Self) -> Lowered<T>) -> Lowered<T> {
        if let Some(count) = self.loops.last_mut() {
            *count += 1;
        }
        let result = inner(self);
        if let Some(count) = self.loops.last_mut() {
            *count -= 1;
        }
        result
    }

    fn inside_loop(&self) -> bool {
        self.loops.last().is_some_and(|count| *count > 0)
    }

    fn repeat(
        &mut self,
        condition: &Ast,
        body: Option<&Ast>,
        until: bool,
        body_first: bool,
    ) -> Lowered<Node> {
        let condition = self.condition(condition)?;
        let body = self.in_loop(|it| it.maybe_box(body))?;
        Ok(Node::While { condition, body, until, body_first })
    }

    fn range(&mut self, from: Option<&Ast>, to: Option<&Ast>, exclusive: bool) -> Lowered<Node> {
        Ok(Node::Range { from: self.maybe_box(from)?, to: self.maybe_box(to)?, exclusive })
    }

    fn jump_value(&mut self, args: &[Ast]) -> Lowered<Option<Box<Expr>>> {
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

    fn case(&mut self, case: &nodes::Case) -> Lowered<Node> {
        let subject = self.maybe_box(case.expr.as_deref())?;
        let mut whens = Vec::new();
        for arm in &case.when_bodies {
            if let Ast::When(when) = arm {
                whens.push(When {
                    patterns: self.exprs(&when.patterns)?,
                    body: self.maybe(when.body.as_deref())?,
                });
            }
        }
        Ok(Node::Case { subject, whens, otherwise: self.maybe_box(case.else_body.as_deref())? })
    }

    fn case_in(&mut self, case: &nodes::CaseMatch) -> Lowered<Node> {
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
                arms.push(InArm { pattern, guard, body: self.maybe(arm.body.as_deref())? });
            }
        }
        let otherwise = match case.else_body.as_deref() {
            None => None,
            Some(Ast::EmptyElse(_)) => Some(None),
            Some(body) => Some(Some(self.boxed(body)?)),
        };
        Ok(Node::CaseIn { subject, arms, otherwise })
    }

    fn rescue(&mut self, rescue: &nodes::Rescue) -> Lowered<Node> {
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
                rescues.push(RescueArm { classes, target, body: self.maybe(arm.body.as_deref())? });
            }
        }
        Ok(Node::Rescue { body, rescues, otherwise: self.maybe_box(rescue.else_.as_deref())? })
    }

    fn send(&mut self, send: &nodes::Send) -> Lowered<Node> {
        if let Some(special) = self.output(send)? {
            return Ok(special);
        }
        if let Some(special) = self.named_groups(send)? {
            return Ok(special);
        }
        let receiver = self.maybe(send.recv.as_deref())?;
        let (args, block) = self.arguments(&send.args)?;
        Ok(Node::Call(Box::new(Call {
            receiver,
            name: self.name(&send.method_name),
            args,
            block,
            safe: false,
        })))
    }

    /// `/(?<name>…)/ =~ value` makes local variables, which the parser does not know to be some.
    fn named_groups(&mut self, send: &nodes::Send) -> Lowered<Option<Node>> {
        if send.recv.is_none() && send.args.is_empty() && send.begin_l.is_none() {
            return Ok(self.find(&send.method_name).map(Node::Local));
        }
        let (Some(regexp @ Ast::Regexp(_)), "=~", [value]) =
            (send.recv.as_deref(), send.method_name.as_str(), send.args.as_slice())
        else {
            return Ok(None);
        };
        let regexp = self.boxed(regexp)?;
        let Node::Regexp { parts, .. } = &regexp.node else { return Ok(None) };
        let names = match parts.as_slice() {
            [Part::Text(source)] => group_names(source),
            _ => Vec::new(),
        };
        let value = self.boxed(value)?;
        let names = names.iter().map(|name| (self.name(name), self.slot(name))).collect();
        Ok(Some(Node::MatchAssign { regexp, value, names }))
    }

    /// The two calls the scanner makes up: text, and `<%= … %>`.
    fn output(&mut self, send: &nodes::Send) -> Lowered<Option<Node>> {
        if send.recv.is_none() && send.method_name == TEXT_CALL {
            if let (Some(_), [Ast::Int(number)]) = (self.find(BUFFER), send.args.as_slice())
                && let Ok(number) = number.value.parse()
            {
                return Ok(Some(Node::Text(number)));
            }
            // Inside a method there is no buffer: the same error as Ruby's.
            let name = self.name(BUFFER);
            let call = Call { receiver: None, name, args: Vec::new(), block: None, safe: false };
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
        if buffer.name != BUFFER || to_s.method_name != "to_s" || !to_s.args.is_empty() {
            return Ok(None);
        }
        match to_s.recv.as_deref() {
            Some(value) => Ok(Some(Node::Emit(self.boxed(value)?))),
            None => Ok(None),
        }
    }

    pub(super) fn arguments(&mut self, list: &[Ast]) -> Lowered<(Vec<Argument>, Option<BlockArgument>)> {
        let mut args = Vec::new();
        let mut block = None;
        for ast in list {
            match ast {
                Ast::BlockPass(pass) => {
                    block = Some(BlockArgument::Pass(self.maybe_box(pass.value.as_deref())?))
                }
                Ast::Kwargs(hash) => args.push(Argument::Keywords(self.pairs(&hash.pairs)?)),
                Ast::Splat(splat) => match splat.value.as_deref() {
                    Some(value) => args.push(Argument::Splat(self.expr(value)?)),
                    None => return refuse(ast, "an anonymous splat"),
                },
                Ast::ForwardedArgs(_) => return refuse(ast, "argument forwarding (...)"),
                other => args.push(Argument::Value(self.expr(other)?)),
            }
        }
        Ok((args, block))
    }

    fn with_block(&mut self, call: &Ast, body: Arc<Body>) -> Lowered<Node> {
        let block = Some(BlockArgument::Literal(Arc::clone(&body)));
        match call {
            Ast::Lambda(_) => Ok(Node::Lambda(body)),
            _ => match self.node(call)? {
                Node::Call(mut call) => {
                    call.block = block;
                    Ok(Node::Call(call))
                }
                Node::Super { args, .. } => Ok(Node::Super { args, block }),
                _ => refuse(call, "a block on this expression"),
            },
        }
    }

    fn block_body(&mut self, params: Option<&Ast>, code: Option<&Ast>) -> Lowered<Arc<Body>> {
        Ok(Arc::new(self.body(true, |it| it.params(params), code)?))
    }

    fn method_body(&mut self, params: Option<&Ast>, code: Option<&Ast>) -> Lowered<Arc<Body>> {
        let own = match params {
            Some(Ast::Args(list)) => list.args.clone(),
            _ => Vec::new(),
        };
        let outer = std::mem::replace(&mut self.method, own);
        let body = self.body(false, |it| it.params(params), code);
        self.method = outer;
        Ok(Arc::new(body?))
    }

    /// What a bare `super` passes: the parameters as they now are. None where one has no name.
    fn passed_on(&mut self, ast: &Ast) -> Option<Vec<Argument>> {
        let span = (ast.expression().begin as u32, ast.expression().end as u32);
        let method = std::mem::take(&mut self.method);
        let mut args = Some(Vec::new());
        let mut pairs = Vec::new();
        for param in &method {
            let (name, kind) = match param {
                Ast::Arg(arg) => (Some(&arg.name), 'v'),
                Ast::Optarg(arg) => (Some(&arg.name), 'v'),
                Ast::Restarg(arg) => (arg.name.as_ref(), '*'),
                Ast::Kwarg(arg) => (Some(&arg.name), 'k'),
                Ast::Kwoptarg(arg) => (Some(&arg.name), 'k'),
                Ast::Kwrestarg(arg) => (arg.name.as_ref(), 'h'),
                _ => continue,
            };
            let Some((name, slot)) = name.and_then(|name| Some((name, self.find(name)?))) else {
                args = None;
                break;
            };
            let local = Expr { node: Node::Local(slot), span };
            match (kind, &mut args) {
                ('v', Some(args)) => args.push(Argument::Value(local)),
                ('*', Some(args)) => args.push(Argument::Splat(local)),
                ('k', _) => {
                    pairs.push(Pair::Entry(Expr { node: Node::Symbol(self.name(name)), span }, local));
                }
                _ => pairs.push(Pair::Splat(local)),
            }
        }
        self.method = method;
        if let (Some(args), false) = (&mut args, pairs.is_empty()) {
            args.push(Argument::Keywords(pairs));
        }
        args
    }

    pub(super) fn pairs(&mut self, list: &[Ast]) -> Lowered<Vec<Pair>> {
        let mut pairs = Vec::new();
        for ast in list {
            pairs.push(match ast {
                Ast::Pair(pair) => Pair::Entry(self.expr(&pair.key)?, self.expr(&pair.value)?),
                Ast::Kwsplat(splat) => Pair::Splat(self.expr(&splat.value)?),
                other => return refuse(other, construct_name(other)),
            });
        }
        Ok(pairs)
    }

    fn parts(&mut self, list: &[Ast]) -> Lowered<Vec<Part>> {
        let mut parts: Vec<Part> = Vec::new();
        for ast in list {
            match ast {
                Ast::Str(text) => match std::str::from_utf8(text.value.as_raw()) {
                    Ok(text) => parts.push(Part::Text(Arc::from(text))),
                    Err(_) => return refuse(ast, "a string that is not UTF-8 and has parts"),
                },
                // Adjacent literals nest.
                Ast::Dstr(inner) => parts.extend(self.parts(&inner.parts)?),
                other => parts.push(Part::Code(self.expr(other)?)),
            }
        }
        Ok(parts)
    }

    fn interpolated(&mut self, list: &[Ast]) -> Lowered<Node> {
        let parts = self.parts(list)?;
        if parts.iter().all(|part| matches!(part, Part::Text(_))) {
            let text: String =
                parts.iter().map(|part| if let Part::Text(text) = part { &**text } else { "" }).collect();
            return Ok(Node::Str(Arc::from(text)));
        }
        Ok(Node::Interpolated(parts))
    }

    fn regexp(&mut self, regexp: &nodes::Regexp) -> Lowered<Node> {
        let options = match regexp.options.as_deref() {
            Some(Ast::RegOpt(options)) => options.options.clone().unwrap_or_default(),
            _ => String::new(),
        };
        let parts = match self.interpolated(&regexp.parts)? {
            Node::Str(text) => vec![Part::Text(text)],
            Node::Interpolated(parts) => parts,
            _ => Vec::new(),
        };
        Ok(Node::Regexp { parts, options: Arc::from(options) })
    }

    /// The value an assignment target that is also an expression (`a ||= 1`) is read from.
    pub(super) fn target_of(&mut self, ast: &Ast) -> Lowered<Target> {
        self.target(ast)
    }
}

fn number(text: &str) -> Node {
    let clean = text.replace('_', "").to_ascii_lowercase();
    let (negative, digits) = match clean.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, clean.as_str()),
    };
    let (radix, digits) = if let Some(hex) = digits.strip_prefix("0x") {
        (16, hex)
    } else if let Some(binary) = digits.strip_prefix("0b") {
        (2, binary)
    } else if let Some(octal) = digits.strip_prefix("0o") {
        (8, octal)
    } else if let Some(decimal) = digits.strip_prefix("0d") {
        (10, decimal)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (8, &digits[1..])
    } else {
        (10, digits)
    };
    match i64::from_str_radix(digits, radix) {
        Ok(value) => Node::Int(if negative { -value } else { value }),
        Err(_) => {
            let value = num_bigint::BigInt::parse_bytes(digits.as_bytes(), radix).unwrap_or_default();
            Node::BigInt(Arc::from((if negative { -value } else { value }).to_string()))
        }
    }
}

/// The names of the named groups of a regular expression, in order.
fn group_names(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in source.match_indices("(?<") {
        let rest = &source[at + 3..];
        if let Some(end) = rest.find('>')
            && !rest.starts_with(['=', '!'])
        {
            names.push(rest[..end].to_owned());
        }
    }
    names
}

/// What an error calls a node kind that is not supported.
fn construct_name(ast: &Ast) -> String {
    match ast {
        Ast::Xstr(_) | Ast::XHeredoc(_) => "running a command".into(),
        Ast::Redo(_) => "redo".into(),
        Ast::Undef(_) => "undef".into(),
        Ast::Rational(_) | Ast::Complex(_) => "a rational or complex number".into(),
        Ast::Preexe(_) | Ast::Postexe(_) => "BEGIN or END".into(),
        Ast::Encoding(_) => "__ENCODING__".into(),
        other => format!("the construct '{}'", other.str_type()),
    }
}
