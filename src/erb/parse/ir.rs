//! The tree the evaluator walks: Ruby's syntax tree with local variables resolved to slots, and with all
//! that is not supported already refused.

use std::sync::Arc;

/// A name: of a method, a variable, a constant or a symbol.
pub(crate) type Name = Arc<str>;

/// An expression and where it stands.
#[derive(Debug)]
pub(crate) struct Expr {
    /// What it is.
    pub node: Node,
    /// Its byte range in the generated Ruby source.
    pub span: (u32, u32),
}

/// A local variable: how many scopes up, and which slot there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub depth: u32,
    pub index: u32,
}

/// A piece of an interpolated literal.
#[derive(Debug)]
pub(crate) enum Part {
    Text(Arc<str>),
    Code(Expr),
}

/// What an expression does.
#[derive(Debug)]
pub(crate) enum Node {
    Nil,
    True,
    False,
    Myself,
    Int(i64),
    BigInt(Arc<str>),
    Float(f64),
    Str(Arc<str>),
    Binary(Arc<[u8]>),
    Interpolated(Vec<Part>),
    Symbol(Name),
    InterpolatedSymbol(Vec<Part>),
    Regexp {
        parts: Vec<Part>,
        options: Arc<str>,
    },
    Array(Vec<Expr>),
    Splat(Box<Expr>),
    Hash(Vec<Pair>),
    Range {
        from: Option<Box<Expr>>,
        to: Option<Box<Expr>>,
        exclusive: bool,
    },
    /// Text of the template, appended to the output.
    Text(u32),
    /// `<%= … %>`.
    Emit(Box<Expr>),
    Local(Slot),
    InstanceVariable(Name),
    ClassVariable(Name),
    Global(Name),
    Constant {
        scope: ConstScope,
        name: Name,
    },
    NthMatch(u32),
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
    Call(Box<Call>),
    Super {
        args: Option<Vec<Argument>>,
        block: Option<BlockArgument>,
    },
    Yield(Vec<Argument>),
    Sequence(Vec<Expr>),
    If {
        condition: Box<Expr>,
        then: Option<Box<Expr>>,
        otherwise: Option<Box<Expr>>,
    },
    While {
        condition: Box<Expr>,
        body: Option<Box<Expr>>,
        until: bool,
        body_first: bool,
    },
    For {
        target: MultiTarget,
        single: bool,
        iterated: Box<Expr>,
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
        on: Option<Box<Expr>>,
    },
    Class {
        name: Box<Expr>,
        superclass: Option<Box<Expr>>,
        body: Arc<Body>,
    },
    SingletonClass {
        of: Box<Expr>,
        body: Arc<Body>,
    },
    Module {
        name: Box<Expr>,
        body: Arc<Body>,
    },
    Alias {
        to: Name,
        from: Name,
    },
    /// `/(?<name>…)/ =~ value`, which sets local variables.
    MatchAssign {
        regexp: Box<Expr>,
        value: Box<Expr>,
        names: Vec<(Name, Slot)>,
    },
}

/// Where a constant is looked up.
#[derive(Debug)]
pub(crate) enum ConstScope {
    Lexical,
    Top,
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

/// A call of a method.
#[derive(Debug)]
pub(crate) struct Call {
    pub receiver: Option<Expr>,
    pub name: Name,
    pub args: Vec<Argument>,
    pub block: Option<BlockArgument>,
    /// `&.`
    pub safe: bool,
}

/// The block of a call.
#[derive(Debug)]
pub(crate) enum BlockArgument {
    Literal(Arc<Body>),
    Pass(Option<Box<Expr>>),
}

/// The body of a block, lambda, method, class or template.
#[derive(Debug)]
pub(crate) struct Body {
    pub params: Params,
    pub code: Option<Expr>,
    /// The names of its local variables, by slot.
    pub locals: Vec<Name>,
}

/// The parameters of a block or method.
#[derive(Debug, Default)]
pub(crate) struct Params {
    pub required: Vec<Parameter>,
    pub optional: Vec<(u32, Expr)>,
    pub rest: Option<Option<u32>>,
    pub post: Vec<Parameter>,
    pub keywords: Vec<Keyword>,
    pub keyword_rest: Option<Option<u32>>,
    pub block: Option<u32>,
    /// `|a|` as opposed to `|a,|`: one parameter that takes its argument whole.
    pub lone: bool,
    /// `_1`, `_2` or `it`.
    pub numbered: u32,
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
    pub default: Option<Option<Expr>>,
}

/// What can be assigned to.
#[derive(Debug)]
pub(crate) enum Target {
    Local(Slot),
    InstanceVariable(Name),
    ClassVariable(Name),
    Global(Name),
    Constant(Option<Box<Expr>>, Name),
    Index(Box<Expr>, Vec<Argument>),
    Attribute { receiver: Box<Expr>, name: Name, safe: bool },
    Nested(MultiTarget),
}

/// The left side of a multiple assignment.
#[derive(Debug)]
pub(crate) struct MultiTarget {
    pub before: Vec<Target>,
    /// The splat, if there is one, and what it is assigned to.
    pub splat: Option<Option<Box<Target>>>,
    pub after: Vec<Target>,
}

/// A `when`.
#[derive(Debug)]
pub(crate) struct When {
    pub patterns: Vec<Expr>,
    pub body: Option<Expr>,
}

/// An `in` of a `case`.
#[derive(Debug)]
pub(crate) struct InArm {
    pub pattern: Pattern,
    pub guard: Option<(Expr, bool)>,
    pub body: Option<Expr>,
}

/// A `rescue`.
#[derive(Debug)]
pub(crate) struct RescueArm {
    pub classes: Vec<Expr>,
    pub target: Option<Target>,
    pub body: Option<Expr>,
}

/// A pattern of `case … in`.
#[derive(Debug)]
pub(crate) enum Pattern {
    Value(Box<Expr>),
    Bind(Slot),
    Ignore,
    As(Box<Pattern>, Slot),
    Either(Box<Pattern>, Box<Pattern>),
    Array { constant: Option<Expr>, before: Vec<Pattern>, rest: Option<Option<Slot>>, after: Vec<Pattern> },
    Find { constant: Option<Expr>, before: Option<Slot>, middle: Vec<Pattern>, after: Option<Slot> },
    Hash { constant: Option<Expr>, entries: Vec<(Name, Option<Pattern>, Option<Slot>)>, rest: HashRest },
    Constant(Expr),
}

/// What a hash pattern says of further keys.
#[derive(Debug)]
pub(crate) enum HashRest {
    Any,
    Nothing,
    Bind(Slot),
}
