//! The tree that the evaluator walks: Ruby's syntax tree with local variables resolved to slots.
//!
//! It has no node for a construct that is not supported. In an `Option<Option<…>>` the outer `None` means
//! that the construct is absent, and the inner `None` that it is present but empty or without a name: no
//! `else` and an empty `else`, no splat and `*` alone.

use std::sync::Arc;

/// The name of a method, a variable, a constant or a symbol.
pub(crate) type Name = Arc<str>;

/// An expression with its position.
#[derive(Debug)]
pub(crate) struct Expr {
    pub node: Node,
    /// The byte range in the generated Ruby source.
    pub span: (u32, u32),
}

/// A local variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The number of scopes to go outwards.
    pub depth: u32,
    /// The index of the variable in that scope.
    pub index: u32,
}

/// A piece of an interpolated literal.
#[derive(Debug)]
pub(crate) enum LiteralPart {
    Text(Arc<str>),
    Code(Expr),
}

/// The content of an expression.
#[derive(Debug)]
pub(crate) enum Node {
    Nil,
    True,
    False,
    /// `self`
    SelfValue,
    Int(i64),
    /// `__LINE__`
    Line,
    /// An integer beyond 64 bits, in decimal digits.
    BigInt(Arc<str>),
    Float(f64),
    Str(Arc<str>),
    /// A string that is not UTF-8.
    Binary(Arc<[u8]>),
    Interpolated(Vec<LiteralPart>),
    Symbol(Name),
    InterpolatedSymbol(Vec<LiteralPart>),
    Regexp {
        parts: Vec<LiteralPart>,
        options: Arc<str>,
    },
    Array(Vec<Expr>),
    Splat(Box<Expr>),
    Hash(Vec<Pair>),
    /// The pairs at the end of an array. If `**` leaves none, Ruby adds no hash.
    Pairs(Vec<Pair>),
    Range {
        begin: Option<Box<Expr>>,
        end: Option<Box<Expr>>,
        excludes_end: bool,
    },
    /// Appends a piece of the template's text to the output.
    Text(u32),
    /// Appends the value of `<%= … %>` to the output.
    Emit(Box<Expr>),
    Local(Slot),
    InstanceVariable(Name),
    ClassVariable(Name),
    Global(Name),
    Constant {
        scope: ConstScope,
        name: Name,
    },
    /// `$1`, `$2`, …
    NthMatch(u32),
    /// `$&`, `` $` ``, `$'` or `$+`, by its second character.
    BackReference(char),
    Assign(Target, Box<Expr>),
    OperatorAssign {
        target: Target,
        operator: Name,
        value: Box<Expr>,
    },
    OrAssign {
        target: Target,
        value: Box<Expr>,
    },
    AndAssign {
        target: Target,
        value: Box<Expr>,
    },
    MultipleAssign(MultiTarget, Box<Expr>),
    Call(Box<MethodCall>),
    Super {
        /// `None` passes the original arguments of the method.
        args: Option<Vec<Argument>>,
        block: Option<BlockArgument>,
    },
    Yield(Vec<Argument>),
    Sequence(Vec<Expr>),
    If {
        condition: Box<Expr>,
        then_branch: Option<Box<Expr>>,
        otherwise: Option<Box<Expr>>,
    },
    While {
        condition: Box<Expr>,
        body: Option<Box<Expr>>,
        /// True for `until`, which repeats while the condition is false.
        is_until: bool,
        /// True for `begin … end while`, which runs the body before the first check.
        runs_body_first: bool,
    },
    For {
        target: MultiTarget,
        /// True for a single variable, which receives each value whole.
        has_one_target: bool,
        iterable: Box<Expr>,
        body: Option<Box<Expr>>,
    },
    Case {
        subject: Option<Box<Expr>>,
        whens: Vec<When>,
        otherwise: Option<Box<Expr>>,
    },
    CaseIn {
        subject: Box<Expr>,
        arms: Vec<InArm>,
        otherwise: Option<Option<Box<Expr>>>,
    },
    MatchPattern {
        value: Box<Expr>,
        pattern: Box<Pattern>,
        /// True for `=>`, which raises an error if the pattern does not match. False for `in`.
        raises: bool,
    },
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Defined(Box<Expr>),
    Rescue {
        body: Option<Box<Expr>>,
        rescues: Vec<RescueArm>,
        otherwise: Option<Box<Expr>>,
    },
    Ensure {
        body: Option<Box<Expr>>,
        ensure: Option<Box<Expr>>,
    },
    Return(Option<Box<Expr>>),
    Break {
        value: Option<Box<Expr>>,
        /// True inside `while`, `until` or `for`. False directly in a block.
        in_loop: bool,
    },
    Next {
        value: Option<Box<Expr>>,
        in_loop: bool,
    },
    Retry,
    Lambda(Arc<Body>),
    Define {
        name: Name,
        body: Arc<Body>,
        /// The object of `def object.name`.
        on: Option<Box<Expr>>,
    },
    Class {
        name: Box<Expr>,
        superclass: Option<Box<Expr>>,
        body: Arc<Body>,
    },
    SingletonClass {
        object: Box<Expr>,
        body: Arc<Body>,
    },
    Module {
        name: Box<Expr>,
        body: Arc<Body>,
    },
    Alias {
        new_name: Name,
        old_name: Name,
    },
    /// `/(?<name>…)/ =~ value`, which sets local variables.
    MatchAssign {
        regexp: Box<Expr>,
        value: Box<Expr>,
        names: Vec<(Name, Slot)>,
    },
}

/// The scope in which a constant is looked up.
#[derive(Debug)]
pub(crate) enum ConstScope {
    /// `Name`
    Lexical,
    /// `::Name`
    Top,
    /// `expression::Name`
    In(Box<Expr>),
}

/// An entry of a hash literal.
#[derive(Debug)]
pub(crate) enum Pair {
    Entry(Expr, Expr),
    Splat(Expr),
}

/// An argument of a call.
#[derive(Debug)]
pub(crate) enum Argument {
    Value(Expr),
    Splat(Expr),
    Keywords(Vec<Pair>),
}

/// A call of a method, with or without a receiver.
#[derive(Debug)]
pub(crate) struct MethodCall {
    pub receiver: Option<Expr>,
    pub name: Name,
    pub args: Vec<Argument>,
    pub block: Option<BlockArgument>,
    /// True for `&.`, which returns nil for a receiver of nil.
    pub is_safe_navigation: bool,
}

/// The block of a call.
#[derive(Debug)]
pub(crate) enum BlockArgument {
    /// `{ … }` or `do … end`
    Literal(Arc<Body>),
    /// `&expression`, or `&` alone, which passes on the block of the current method.
    Pass(Option<Box<Expr>>),
}

/// The body of a block, lambda, method, class or template.
#[derive(Debug)]
pub(crate) struct Body {
    pub params: Params,
    pub code: Option<Expr>,
    /// The names of the local variables, by slot.
    pub locals: Vec<Name>,
}

/// The parameters of a block or method. Numbers are slots of the body's own scope.
#[derive(Debug, Default)]
pub(crate) struct Params {
    pub required_params: Vec<Parameter>,
    /// Slots with their default values.
    pub optional_params: Vec<(u32, Expr)>,
    pub rest: Option<Option<u32>>,
    /// The required parameters after optional ones or a splat.
    pub trailing_params: Vec<Parameter>,
    pub keywords: Vec<Keyword>,
    pub keyword_rest: Option<Option<u32>>,
    pub block: Option<u32>,
    /// True for `|a|`, which receives an array whole. False for `|a,|`, which receives its first item.
    pub is_single: bool,
    /// The number of parameters of a block that uses `_1`, `_2`, …; otherwise 0.
    pub numbered_param_count: u32,
}

/// A positional parameter.
#[derive(Debug)]
pub(crate) enum Parameter {
    Slot(u32),
    Nested(MultiTarget),
}

/// A keyword parameter.
#[derive(Debug)]
pub(crate) struct Keyword {
    pub name: Name,
    pub slot: u32,
    /// `None` for a required keyword.
    pub default: Option<Expr>,
}

/// The left side of an assignment.
#[derive(Debug)]
pub(crate) enum Target {
    Local(Slot),
    InstanceVariable(Name),
    ClassVariable(Name),
    Global(Name),
    Constant(Option<Box<Expr>>, Name),
    Index(Box<Expr>, Vec<Argument>),
    Attribute { receiver: Box<Expr>, name: Name, is_safe_navigation: bool },
    Nested(MultiTarget),
}

/// The left side of a multiple assignment.
#[derive(Debug)]
pub(crate) struct MultiTarget {
    /// The targets before the splat.
    pub leading_targets: Vec<Target>,
    /// The splat and its target.
    pub splat: Option<Option<Box<Target>>>,
    /// The targets after the splat.
    pub trailing_targets: Vec<Target>,
}

/// A `when` of a `case`.
#[derive(Debug)]
pub(crate) struct When {
    pub patterns: Vec<Expr>,
    pub body: Option<Expr>,
}

/// An `in` of a `case`.
#[derive(Debug)]
pub(crate) struct InArm {
    pub pattern: Pattern,
    /// The condition of `if` (true) or `unless` (false).
    pub guard: Option<(Expr, bool)>,
    pub body: Option<Expr>,
}

/// A `rescue` of a `begin`, `def` or block.
#[derive(Debug)]
pub(crate) struct RescueArm {
    /// The rescued classes. Empty for `rescue` alone, which rescues `StandardError`.
    pub classes: Vec<Expr>,
    pub target: Option<Target>,
    pub body: Option<Expr>,
}

/// A pattern of `case … in`.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// Compares by `===`.
    Value(Box<Expr>),
    Bind(Slot),
    /// `_`
    Ignore,
    /// `pattern => name`
    As(Box<Pattern>, Slot),
    /// `pattern | pattern`
    Either(Box<Pattern>, Box<Pattern>),
    Array {
        constant: Option<Expr>,
        leading_patterns: Vec<Pattern>,
        rest: Option<Option<Slot>>,
        trailing_patterns: Vec<Pattern>,
    },
    Find {
        constant: Option<Expr>,
        slot_before: Option<Slot>,
        middle: Vec<Pattern>,
        slot_after: Option<Slot>,
    },
    Hash {
        constant: Option<Expr>,
        /// Key, pattern of the value, variable. `{a: 1}` has a pattern, `{a:}` a variable.
        entries: Vec<(Name, Option<Pattern>, Option<Slot>)>,
        rest: HashRest,
    },
    Constant(Expr),
}

/// The part of a hash pattern that matches further keys.
#[derive(Debug)]
pub(crate) enum HashRest {
    /// Further keys are ignored.
    Any,
    /// `**nil`: further keys are a mismatch.
    Nothing,
    /// `**name`
    Bind(Slot),
}
