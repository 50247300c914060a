//! Lowers the parser's syntax tree to the evaluator's tree (`ir`).
//!
//! Lowering resolves local variables to slots, maps the parser's many node kinds to few, and rejects
//! constructs that the evaluator does not support.

use std::collections::HashSet;
use std::sync::Arc;

use lib_ruby_parser::Node as Ast;

use super::call::group_names;
use super::ir::{Body, ConstScope, Expr, LiteralPart, MethodCall, Name, Node, Params, Slot};
use super::literal::lower_integer;

/// The construct that an error names if expressions nest deeper than [`MAX_DEPTH`].
pub(super) const DEEP_NESTING: &str = "an expression nested deeper than 2000 levels";

/// The maximum number of levels of nested expressions. Templates in practice stay below 50.
const MAX_DEPTH: u32 = 2_000;

/// A construct that the evaluator does not support, with its place in the source.
#[derive(Debug)]
pub(super) struct UnsupportedConstruct {
    /// The byte offset of the construct in the Ruby source.
    pub(super) offset: usize,
    /// The name of the construct in the error message.
    pub(super) construct: String,
}

/// The result of lowering a node.
pub(super) type LowerResult<T> = Result<T, UnsupportedConstruct>;

/// The local variables of one body.
struct LocalScope {
    /// The names of the variables, by slot.
    names: Vec<Name>,
    /// True for a block, which sees the variables around it. False for a method, class or template.
    sees_outer_variables: bool,
}

/// The state of lowering one template.
pub(super) struct Lowerer {
    scopes: Vec<LocalScope>,
    /// The names that [`Lowerer::intern_name`] has returned.
    names: HashSet<Name>,
    /// For each body that is being lowered, the number of loops in it that are being lowered.
    pub(super) loops: Vec<u32>,
    /// The parameters of the current method, which a bare `super` passes on.
    pub(super) method_parameters: Vec<Ast>,
    /// The nesting of the current expression.
    depth: u32,
}

/// Lowers a whole template.
pub(super) fn lower(ast: Option<&Ast>) -> LowerResult<Body> {
    let mut lowerer = Lowerer {
        scopes: Vec::new(),
        names: HashSet::new(),
        loops: Vec::new(),
        method_parameters: Vec::new(),
        depth: 0,
    };
    lowerer.lower_body(false, |_| Ok(Params::default()), ast)
}

/// Refuses a node that is not supported. `construct` completes "… is not supported".
pub(super) fn refuse<T>(node: &Ast, construct: impl Into<String>) -> LowerResult<T> {
    Err(UnsupportedConstruct { offset: node.expression().begin, construct: construct.into() })
}

impl Lowerer {
    /// Returns a name. Equal names share their memory.
    pub(super) fn intern_name(&mut self, text: &str) -> Name {
        if let Some(name) = self.names.get(text) {
            return Arc::clone(name);
        }
        let name: Name = Arc::from(text);
        self.names.insert(Arc::clone(&name));
        name
    }

    /// Finds a declared variable in this scope or those around it.
    pub(super) fn find_slot(&self, text: &str) -> Option<Slot> {
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
    pub(super) fn declare(&mut self, text: &str) -> u32 {
        let name = self.intern_name(text);
        match self.scopes.last_mut() {
            Some(scope) => {
                scope.names.push(name);
                scope.names.len() as u32 - 1
            }
            None => 0,
        }
    }

    /// Finds a variable, or declares it in the innermost scope.
    pub(super) fn find_or_declare(&mut self, text: &str) -> Slot {
        match self.find_slot(text) {
            Some(slot) => slot,
            None => Slot { depth: 0, index: self.declare(text) },
        }
    }

    /// Lowers a body in a new scope.
    pub(super) fn lower_body(
        &mut self,
        sees_outer_variables: bool,
        params: impl FnOnce(&mut Self) -> LowerResult<Params>,
        code: Option<&Ast>,
    ) -> LowerResult<Body> {
        self.scopes.push(LocalScope { names: Vec::new(), sees_outer_variables });
        self.loops.push(0);
        let result = params(self).and_then(|params| Ok((params, self.lower_optional(code)?)));
        self.loops.pop();
        let locals = self.scopes.pop().map(|scope| scope.names).unwrap_or_default();
        let (params, code) = result?;
        Ok(Body { params, code, locals })
    }

    /// Lowers an expression that may be absent.
    pub(super) fn lower_optional(&mut self, ast: Option<&Ast>) -> LowerResult<Option<Expr>> {
        ast.map(|ast| self.lower_expr(ast)).transpose()
    }

    pub(super) fn lower_optional_boxed(&mut self, ast: Option<&Ast>) -> LowerResult<Option<Box<Expr>>> {
        Ok(self.lower_optional(ast)?.map(Box::new))
    }

    pub(super) fn lower_boxed(&mut self, ast: &Ast) -> LowerResult<Box<Expr>> {
        Ok(Box::new(self.lower_expr(ast)?))
    }

    pub(super) fn lower_list(&mut self, list: &[Ast]) -> LowerResult<Vec<Expr>> {
        list.iter().map(|ast| self.lower_expr(ast)).collect()
    }

    /// Lowers the elements of an array. The last may be pairs without braces.
    pub(super) fn lower_items(&mut self, elements: &[Ast]) -> LowerResult<Vec<Expr>> {
        let pairs = match elements.last() {
            Some(Ast::Kwargs(hash)) => &hash.pairs,
            Some(Ast::Hash(hash)) if hash.begin_l.is_none() => &hash.pairs,
            _ => return self.lower_list(elements),
        };
        let (items, last) = elements.split_at(elements.len() - 1);
        let may_be_empty = |pair: &Ast| matches!(pair, Ast::Kwsplat(_));
        if matches!(items.last(), Some(Ast::Splat(_))) && pairs.iter().all(may_be_empty) {
            // Whether Ruby adds an empty hash depends on the expression after `*`.
            return refuse(&last[0], "'**' after '*' in an array");
        }
        let mut list = self.lower_list(items)?;
        let span = last[0].expression();
        let node = Node::Pairs(self.lower_pairs(pairs)?);
        list.push(Expr { node, span: (span.begin as u32, span.end as u32) });
        Ok(list)
    }

    pub(super) fn lower_expr(&mut self, ast: &Ast) -> LowerResult<Expr> {
        let loc = ast.expression();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return refuse(ast, DEEP_NESTING);
        }
        // Parentheses are dropped, so that an error quotes the expression inside them.
        if let Ast::Begin(begin) = ast
            && let [statement] = begin.statements.as_slice()
        {
            let inner = self.lower_expr(statement);
            self.depth -= 1;
            return inner;
        }
        let node = self.lower_node(ast)?;
        self.depth -= 1;
        Ok(Expr { node, span: (loc.begin as u32, loc.end as u32) })
    }

    /// Lowers a node of the parser's tree, and the nodes below it.
    pub(super) fn lower_node(&mut self, ast: &Ast) -> LowerResult<Node> {
        Ok(match ast {
            Ast::Nil(_) | Ast::EmptyElse(_) => Node::Nil,
            Ast::True(_) => Node::True,
            Ast::False(_) => Node::False,
            Ast::Self_(_) => Node::SelfValue,
            Ast::Int(int) => lower_integer(&int.value),
            Ast::Float(float) => Node::Float(float.value.replace('_', "").parse().unwrap_or(f64::NAN)),
            Ast::Str(text) => match std::str::from_utf8(text.value.as_raw()) {
                Ok(text) => Node::Str(Arc::from(text)),
                Err(_) => Node::Binary(Arc::from(text.value.as_raw().as_slice())),
            },
            Ast::Dstr(text) => self.lower_interpolation(&text.parts)?,
            Ast::Heredoc(text) => self.lower_interpolation(&text.parts)?,
            Ast::Sym(symbol) => {
                let text = symbol.name.to_string_lossy();
                Node::Symbol(self.intern_name(&text))
            }
            Ast::Dsym(symbol) => Node::InterpolatedSymbol(self.lower_parts(&symbol.parts)?),
            Ast::Regexp(regexp) => self.lower_regexp(regexp)?,
            Ast::Array(array) => Node::Array(self.lower_items(&array.elements)?),
            Ast::Splat(splat) => match &splat.value {
                Some(value) => Node::Splat(self.lower_boxed(value)?),
                None => return refuse(ast, "an anonymous splat"),
            },
            Ast::Hash(hash) => Node::Hash(self.lower_pairs(&hash.pairs)?),
            Ast::Kwargs(hash) => Node::Hash(self.lower_pairs(&hash.pairs)?),
            Ast::Irange(range) => self.lower_range(range.left.as_deref(), range.right.as_deref(), false)?,
            Ast::Erange(range) => self.lower_range(range.left.as_deref(), range.right.as_deref(), true)?,
            Ast::Lvar(var) => match self.find_slot(&var.name) {
                Some(slot) => Node::Local(slot),
                None => Node::Local(self.find_or_declare(&var.name)),
            },
            Ast::Ivar(var) => Node::InstanceVariable(self.intern_name(&var.name)),
            Ast::Cvar(var) => Node::ClassVariable(self.intern_name(&var.name)),
            Ast::Gvar(var) => Node::Global(self.intern_name(&var.name)),
            Ast::NthRef(nth) => Node::NthMatch(nth.name.trim_start_matches('$').parse().unwrap_or(0)),
            Ast::BackRef(node) => Node::BackReference(node.name.chars().nth(1).unwrap_or('&')),
            Ast::Const(constant) => {
                let scope = match constant.scope.as_deref() {
                    None => ConstScope::Lexical,
                    Some(Ast::Cbase(_)) => ConstScope::Top,
                    Some(scope) => ConstScope::In(self.lower_boxed(scope)?),
                };
                Node::Constant { scope, name: self.intern_name(&constant.name) }
            }
            Ast::Begin(begin) => self.lower_sequence(&begin.statements)?,
            Ast::KwBegin(begin) => self.lower_sequence(&begin.statements)?,
            Ast::If(branch) => {
                self.lower_branch(&branch.cond, branch.if_true.as_deref(), branch.if_false.as_deref())?
            }
            Ast::IfMod(branch) => {
                self.lower_branch(&branch.cond, branch.if_true.as_deref(), branch.if_false.as_deref())?
            }
            Ast::IfTernary(branch) => {
                self.lower_branch(&branch.cond, Some(&branch.if_true), Some(&branch.if_false))?
            }
            Ast::And(and) => Node::And(self.lower_boxed(&and.lhs)?, self.lower_boxed(&and.rhs)?),
            Ast::Or(or) => Node::Or(self.lower_boxed(&or.lhs)?, self.lower_boxed(&or.rhs)?),
            Ast::Defined(node) => Node::Defined(self.lower_boxed(&node.value)?),
            Ast::While(node) => self.lower_loop(&node.cond, node.body.as_deref(), false, false)?,
            Ast::Until(node) => self.lower_loop(&node.cond, node.body.as_deref(), true, false)?,
            Ast::WhilePost(node) => self.lower_loop(&node.cond, Some(&node.body), false, true)?,
            Ast::UntilPost(node) => self.lower_loop(&node.cond, Some(&node.body), true, true)?,
            Ast::For(node) => {
                let iterable = self.lower_boxed(&node.iteratee)?;
                let (target, has_one_target) = self.lower_for_target(&node.iterator)?;
                let body =
                    self.lower_in_loop(|lowerer| lowerer.lower_optional_boxed(node.body.as_deref()))?;
                Node::For { target, has_one_target, iterable, body }
            }
            Ast::Case(case) => self.lower_case(case)?,
            Ast::CaseMatch(case) => self.lower_case_in(case)?,
            Ast::MatchPattern(node) => {
                let value = self.lower_boxed(&node.value)?;
                Node::MatchPattern {
                    value,
                    pattern: Box::new(self.lower_pattern(&node.pattern)?),
                    raises: true,
                }
            }
            Ast::MatchPatternP(node) => {
                let value = self.lower_boxed(&node.value)?;
                Node::MatchPattern {
                    value,
                    pattern: Box::new(self.lower_pattern(&node.pattern)?),
                    raises: false,
                }
            }
            Ast::Rescue(rescue) => self.lower_rescue(rescue)?,
            Ast::Ensure(ensure) => Node::Ensure {
                body: self.lower_optional_boxed(ensure.body.as_deref())?,
                ensure: self.lower_optional_boxed(ensure.ensure.as_deref())?,
            },
            Ast::Return(node) => Node::Return(self.lower_jump_value(&node.args)?),
            Ast::Break(node) => {
                Node::Break { value: self.lower_jump_value(&node.args)?, in_loop: self.is_in_loop() }
            }
            Ast::Next(node) => {
                Node::Next { value: self.lower_jump_value(&node.args)?, in_loop: self.is_in_loop() }
            }
            Ast::Retry(_) => Node::Retry,
            Ast::Send(send) => self.lower_send(send)?,
            Ast::CSend(send) => Node::Call(Box::new(MethodCall {
                receiver: Some(self.lower_expr(&send.recv)?),
                name: self.intern_name(&send.method_name),
                args: self.lower_arguments(&send.args)?.0,
                block: self.lower_arguments(&send.args)?.1,
                is_safe_navigation: true,
            })),
            Ast::Index(index) => Node::Call(Box::new(MethodCall {
                receiver: Some(self.lower_expr(&index.recv)?),
                name: self.intern_name("[]"),
                args: self.lower_arguments(&index.indexes)?.0,
                block: None,
                is_safe_navigation: false,
            })),
            Ast::Super(node) => {
                let (args, block) = self.lower_arguments(&node.args)?;
                Node::Super { args: Some(args), block }
            }
            Ast::ZSuper(_) => Node::Super { args: self.super_arguments(ast), block: None },
            Ast::Yield(node) => Node::Yield(self.lower_arguments(&node.args)?.0),
            Ast::Block(block) => {
                let body = self.lower_block_body(block.args.as_deref(), block.body.as_deref())?;
                self.attach_block(&block.call, body)?
            }
            Ast::Numblock(block) => {
                let count = u32::from(block.numargs);
                let body = self.lower_body(
                    true,
                    |lowerer| {
                        for number in 1..=count {
                            lowerer.declare(&format!("_{number}"));
                        }
                        Ok(Params { numbered_param_count: count, ..Params::default() })
                    },
                    Some(&block.body),
                )?;
                self.attach_block(&block.call, Arc::new(body))?
            }
            Ast::Def(def) => Node::Define {
                name: self.intern_name(&def.name),
                body: self.lower_method_body(def.args.as_deref(), def.body.as_deref())?,
                on: None,
            },
            Ast::Defs(def) => Node::Define {
                name: self.intern_name(&def.name),
                on: Some(self.lower_boxed(&def.definee)?),
                body: self.lower_method_body(def.args.as_deref(), def.body.as_deref())?,
            },
            Ast::Class(class) => Node::Class {
                name: self.lower_boxed(&class.name)?,
                superclass: self.lower_optional_boxed(class.superclass.as_deref())?,
                body: self.lower_method_body(None, class.body.as_deref())?,
            },
            Ast::SClass(class) => Node::SingletonClass {
                object: self.lower_boxed(&class.expr)?,
                body: self.lower_method_body(None, class.body.as_deref())?,
            },
            Ast::Module(module) => Node::Module {
                name: self.lower_boxed(&module.name)?,
                body: self.lower_method_body(None, module.body.as_deref())?,
            },
            Ast::Alias(alias) => match (&*alias.to, &*alias.from) {
                (Ast::Sym(new_name), Ast::Sym(old_name)) => {
                    let (new_name, old_name) =
                        (new_name.name.to_string_lossy(), old_name.name.to_string_lossy());
                    Node::Alias {
                        new_name: self.intern_name(&new_name),
                        old_name: self.intern_name(&old_name),
                    }
                }
                _ => return refuse(ast, "an alias of a global variable"),
            },
            Ast::MatchWithLvasgn(node) => {
                let regexp = self.lower_boxed(&node.re)?;
                let value = self.lower_boxed(&node.value)?;
                let mut names = Vec::new();
                if let Node::Regexp { parts, .. } = &regexp.node
                    && let [LiteralPart::Text(source)] = parts.as_slice()
                {
                    for name in group_names(source) {
                        let slot = self.find_or_declare(&name);
                        names.push((self.intern_name(&name), slot));
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
            | Ast::AndAsgn(_) => self.lower_assignment(ast)?,
            other => return refuse(other, construct_name(other)),
        })
    }

    fn lower_range(
        &mut self,
        begin: Option<&Ast>,
        end: Option<&Ast>,
        excludes_end: bool,
    ) -> LowerResult<Node> {
        Ok(Node::Range {
            begin: self.lower_optional_boxed(begin)?,
            end: self.lower_optional_boxed(end)?,
            excludes_end,
        })
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
