//! Lowers the parser's syntax tree to the evaluator's tree (`ir`).
//!
//! Lowering resolves local variables to slots, maps the parser's many node kinds to few, and rejects
//! constructs that the evaluator does not support.

use std::collections::HashSet;
use std::sync::Arc;

use lib_ruby_parser::Node as Ast;

use super::call::group_names;
use super::ir::{Body, ConstScope, Expr, MethodCall, Name, Node, Params, Part, Slot};
use super::literal::number;

/// The name of the unsupported construct if expressions nest deeper than [`MAX_DEPTH`].
pub(super) const TOO_DEEP: &str = "an expression nested deeper than 2000 levels";

/// The maximum number of levels of nested expressions. Templates in practice stay below 50.
const MAX_DEPTH: u32 = 2_000;

/// A construct that the evaluator does not support.
#[derive(Debug)]
pub(super) struct Unsupported {
    /// The byte offset of the construct in the Ruby source.
    pub(super) offset: usize,
    /// The name of the construct in the error message.
    pub(super) construct: String,
}

pub(super) type Lowered<T> = Result<T, Unsupported>;

struct Scope {
    names: Vec<Name>,
    /// True for a block, which sees the variables around it. False for a method, class or template.
    sees_outer_variables: bool,
}

/// The state of lowering one template.
pub(super) struct Lowerer {
    scopes: Vec<Scope>,
    names: HashSet<Name>,
    /// For each body that is being lowered, the number of loops in it that are being lowered.
    pub(super) loops: Vec<u32>,
    /// The parameters of the current method, which a bare `super` passes on.
    pub(super) method_parameters: Vec<Ast>,
    /// The nesting of the current expression.
    depth: u32,
}

/// Lowers a whole template.
pub(super) fn lower(ast: Option<&Ast>) -> Lowered<Body> {
    let mut lowerer = Lowerer {
        scopes: Vec::new(),
        names: HashSet::new(),
        loops: Vec::new(),
        method_parameters: Vec::new(),
        depth: 0,
    };
    lowerer.body(false, |_| Ok(Params::default()), ast)
}

/// Refuses a node that is not supported. `construct` completes "… is not supported".
pub(super) fn refuse<T>(node: &Ast, construct: impl Into<String>) -> Lowered<T> {
    Err(Unsupported { offset: node.expression().begin, construct: construct.into() })
}

impl Lowerer {
    /// Returns a name. Equal names share their memory.
    pub(super) fn name(&mut self, text: &str) -> Name {
        if let Some(name) = self.names.get(text) {
            return Arc::clone(name);
        }
        let name: Name = Arc::from(text);
        self.names.insert(Arc::clone(&name));
        name
    }

    /// Finds a declared variable in this scope or those around it.
    pub(super) fn find(&self, text: &str) -> Option<Slot> {
        for (depth, scope) in self.scopes.iter().rev().enumerate() {
            if let Some(index) = scope.names.iter().position(|name| &**name == text) {
                return Some(Slot { depth: depth as u32, index: index as u32 });
            }
            if !scope.sees_outer_variables {
                return None;
            }
        }
        None
    }

    /// Declares a variable in the innermost scope, where it hides one of the same name around it.
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

    /// Finds a variable, or declares it in the innermost scope.
    pub(super) fn slot(&mut self, text: &str) -> Slot {
        match self.find(text) {
            Some(slot) => slot,
            None => Slot { depth: 0, index: self.declare_here(text) },
        }
    }

    /// Lowers a body in a new scope.
    pub(super) fn body(
        &mut self,
        sees_outer_variables: bool,
        params: impl FnOnce(&mut Self) -> Lowered<Params>,
        code: Option<&Ast>,
    ) -> Lowered<Body> {
        self.scopes.push(Scope { names: Vec::new(), sees_outer_variables });
        self.loops.push(0);
        let result = params(self).and_then(|params| Ok((params, self.maybe_expr(code)?)));
        self.loops.pop();
        let locals = self.scopes.pop().map(|scope| scope.names).unwrap_or_default();
        let (params, code) = result?;
        Ok(Body { params, code, locals })
    }

    pub(super) fn maybe_expr(&mut self, ast: Option<&Ast>) -> Lowered<Option<Expr>> {
        ast.map(|ast| self.expr(ast)).transpose()
    }

    pub(super) fn maybe_box(&mut self, ast: Option<&Ast>) -> Lowered<Option<Box<Expr>>> {
        Ok(self.maybe_expr(ast)?.map(Box::new))
    }

    pub(super) fn boxed(&mut self, ast: &Ast) -> Lowered<Box<Expr>> {
        Ok(Box::new(self.expr(ast)?))
    }

    pub(super) fn exprs(&mut self, list: &[Ast]) -> Lowered<Vec<Expr>> {
        list.iter().map(|ast| self.expr(ast)).collect()
    }

    /// Lowers the elements of an array. The last may be pairs without braces.
    pub(super) fn items(&mut self, elements: &[Ast]) -> Lowered<Vec<Expr>> {
        let pairs = match elements.last() {
            Some(Ast::Kwargs(hash)) => &hash.pairs,
            Some(Ast::Hash(hash)) if hash.begin_l.is_none() => &hash.pairs,
            _ => return self.exprs(elements),
        };
        let (items, last) = elements.split_at(elements.len() - 1);
        let is_empty = |pair: &Ast| matches!(pair, Ast::Kwsplat(_));
        if matches!(items.last(), Some(Ast::Splat(_))) && pairs.iter().all(is_empty) {
            // Whether Ruby adds an empty hash depends on the expression after `*`.
            return refuse(&last[0], "'**' after '*' in an array");
        }
        let mut list = self.exprs(items)?;
        let span = last[0].expression();
        let node = Node::Pairs(self.pairs(pairs)?);
        list.push(Expr { node, span: (span.begin as u32, span.end as u32) });
        Ok(list)
    }

    pub(super) fn expr(&mut self, ast: &Ast) -> Lowered<Expr> {
        let loc = ast.expression();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return refuse(ast, TOO_DEEP);
        }
        // Parentheses are dropped, so that an error quotes the expression inside them.
        if let Ast::Begin(begin) = ast
            && let [statement] = begin.statements.as_slice()
        {
            let inner = self.expr(statement);
            self.depth -= 1;
            return inner;
        }
        let node = self.node(ast)?;
        self.depth -= 1;
        Ok(Expr { node, span: (loc.begin as u32, loc.end as u32) })
    }

    /// Translates a node of the parser's tree, and the nodes below it.
    pub(super) fn node(&mut self, ast: &Ast) -> Lowered<Node> {
        Ok(match ast {
            Ast::Nil(_) | Ast::EmptyElse(_) => Node::Nil,
            Ast::True(_) => Node::True,
            Ast::False(_) => Node::False,
            Ast::Self_(_) => Node::SelfValue,
            Ast::Int(int) => number(&int.value),
            Ast::Float(float) => Node::Float(float.value.replace('_', "").parse().unwrap_or(f64::NAN)),
            Ast::Str(text) => match std::str::from_utf8(text.value.as_raw()) {
                Ok(text) => Node::Str(Arc::from(text)),
                Err(_) => Node::Binary(Arc::from(text.value.as_raw().as_slice())),
            },
            Ast::Dstr(text) => self.interpolation(&text.parts)?,
            Ast::Heredoc(text) => self.interpolation(&text.parts)?,
            Ast::Sym(symbol) => {
                let text = symbol.name.to_string_lossy();
                Node::Symbol(self.name(&text))
            }
            Ast::Dsym(symbol) => Node::InterpolatedSymbol(self.parts(&symbol.parts)?),
            Ast::Regexp(regexp) => self.regexp(regexp)?,
            Ast::Array(array) => Node::Array(self.items(&array.elements)?),
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
            Ast::BackRef(node) => Node::BackReference(node.name.chars().nth(1).unwrap_or('&')),
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
            Ast::Defined(node) => Node::Defined(self.boxed(&node.value)?),
            Ast::While(node) => self.repeat(&node.cond, node.body.as_deref(), false, false)?,
            Ast::Until(node) => self.repeat(&node.cond, node.body.as_deref(), true, false)?,
            Ast::WhilePost(node) => self.repeat(&node.cond, Some(&node.body), false, true)?,
            Ast::UntilPost(node) => self.repeat(&node.cond, Some(&node.body), true, true)?,
            Ast::For(node) => {
                let iterable = self.boxed(&node.iteratee)?;
                let (target, has_one_target) = self.for_target(&node.iterator)?;
                let body = self.in_loop(|lowerer| lowerer.maybe_box(node.body.as_deref()))?;
                Node::For { target, has_one_target, iterable, body }
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
            Ast::CSend(send) => Node::Call(Box::new(MethodCall {
                receiver: Some(self.expr(&send.recv)?),
                name: self.name(&send.method_name),
                args: self.arguments(&send.args)?.0,
                block: self.arguments(&send.args)?.1,
                is_safe_navigation: true,
            })),
            Ast::Index(index) => Node::Call(Box::new(MethodCall {
                receiver: Some(self.expr(&index.recv)?),
                name: self.name("[]"),
                args: self.arguments(&index.indexes)?.0,
                block: None,
                is_safe_navigation: false,
            })),
            Ast::Super(node) => {
                let (args, block) = self.arguments(&node.args)?;
                Node::Super { args: Some(args), block }
            }
            Ast::ZSuper(_) => Node::Super { args: self.super_arguments(ast), block: None },
            Ast::Yield(node) => Node::Yield(self.arguments(&node.args)?.0),
            Ast::Block(block) => {
                let body = self.block_body(block.args.as_deref(), block.body.as_deref())?;
                self.with_block(&block.call, body)?
            }
            Ast::Numblock(block) => {
                let count = u32::from(block.numargs);
                let body = self.body(
                    true,
                    |lowerer| {
                        for number in 1..=count {
                            lowerer.declare_here(&format!("_{number}"));
                        }
                        Ok(Params { numbered_param_count: count, ..Params::default() })
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
                object: self.boxed(&class.expr)?,
                body: self.method_body(None, class.body.as_deref())?,
            },
            Ast::Module(module) => Node::Module {
                name: self.boxed(&module.name)?,
                body: self.method_body(None, module.body.as_deref())?,
            },
            Ast::Alias(alias) => match (&*alias.to, &*alias.from) {
                (Ast::Sym(new_name), Ast::Sym(old_name)) => {
                    let (new_name, old_name) =
                        (new_name.name.to_string_lossy(), old_name.name.to_string_lossy());
                    Node::Alias { new_name: self.name(&new_name), old_name: self.name(&old_name) }
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
            Ast::Line(_) => Node::Line,
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

    fn range(&mut self, begin: Option<&Ast>, end: Option<&Ast>, excludes_end: bool) -> Lowered<Node> {
        Ok(Node::Range { begin: self.maybe_box(begin)?, end: self.maybe_box(end)?, excludes_end })
    }
}

/// Returns the name of an unsupported node kind for error messages.
pub(super) fn construct_name(ast: &Ast) -> String {
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
