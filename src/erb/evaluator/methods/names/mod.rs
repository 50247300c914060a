//! Names, superclasses and methods of the built-in classes of Ruby 3.1, as Ruby's reflection lists them.
//!
//! A method that is listed but not implemented is unsupported. A method that is not listed does not exist.

mod facts;

use std::sync::{Arc, LazyLock};

use facts::FACTS;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

/// The facts about one class or module.
pub(crate) struct ClassFact {
    pub(crate) name: &'static str,
    pub(crate) superclass: Option<&'static str>,
    pub(crate) is_module: bool,
    /// Modules that it includes, separated by spaces.
    pub(crate) includes: &'static str,
    /// Public instance methods, separated by spaces. If the number of arguments is known, it follows a colon:
    /// `1`, `0..2`, `1+`.
    pub(crate) methods: &'static str,
    /// Class methods, separated by spaces.
    pub(crate) class_methods: &'static str,
}

/// Returns the facts about a class or module, by its full name.
pub(crate) fn fact(name: &str) -> Option<&'static ClassFact> {
    FACTS.iter().find(|fact| fact.name == name)
}

/// Returns true if a list such as [`ClassFact::methods`] contains this method.
pub(crate) fn list_contains(list: &str, name: &str) -> bool {
    list.split(' ').any(|entry| entry.split(':').next() == Some(name))
}

/// Methods that take keywords in addition to a known number of positional arguments.
pub(crate) const KEYWORD_METHODS: &[&str] = &[
    "clone",
    "each_line",
    "encode",
    "encode!",
    "exception",
    "full_message",
    "lines",
    "pack",
    "round",
    "sample",
    "shuffle",
    "shuffle!",
    "step",
    "to_json",
    "to_yaml",
    "unpack",
    "unpack1",
];

/// The minimum and maximum number of arguments. A maximum of `None` means any number.
pub(crate) type Arity = (usize, Option<usize>);

/// Returns the number of arguments of an instance method, inherited methods included. Returns `None` if the
/// method is not listed.
pub(crate) fn arity(class: &'static str, name: &str) -> Option<Arity> {
    type ClassArities = FxHashMap<&'static str, Arity>;
    static ARITIES: LazyLock<RwLock<FxHashMap<&'static str, Arc<ClassArities>>>> =
        LazyLock::new(RwLock::default);
    let cached_arities = ARITIES.read().get(class).cloned();
    let arities = cached_arities.unwrap_or_else(|| {
        let mut arities = FxHashMap::default();
        collect_arities(class, &mut arities);
        let arities = Arc::new(arities);
        ARITIES.write().insert(class, Arc::clone(&arities));
        arities
    });
    arities.get(name).copied()
}

/// Adds the methods of a class, its modules and its superclasses. The class itself takes precedence.
fn collect_arities(class: &'static str, arities: &mut FxHashMap<&'static str, Arity>) {
    let Some(fact) = fact(class) else { return };
    for method in fact.methods.split(' ') {
        let (name, count) = method.split_once(':').unwrap_or((method, "0+"));
        let (min, max) = match (count.strip_suffix('+'), count.split_once("..")) {
            (Some(min), _) => (min.parse(), None),
            (None, Some((min, max))) => (min.parse(), max.parse().ok()),
            (None, None) => (count.parse(), count.parse().ok()),
        };
        arities.entry(name).or_insert((min.unwrap_or(0), max));
    }
    for module in fact.includes.split_whitespace().chain(fact.superclass) {
        collect_arities(module, arities);
    }
}

/// Returns the modules that a class includes.
pub(crate) fn included_modules(name: &str) -> impl Iterator<Item = &'static str> {
    fact(name).map_or("", |fact| fact.includes).split_whitespace()
}

/// Constants of Ruby or its libraries that the evaluator does not implement.
#[rustfmt::skip]
pub(crate) const UNSUPPORTED_CONSTANTS: &[&str] = &[
    "ARGF", "ARGV", "Addrinfo", "BasicSocket", "Benchmark", "BigMath", "Bignum", "CROSS_COMPILING",
    "ConditionVariable", "Delegator", "ENV", "Errno", "Etc", "FiberError", "FileTest", "Fixnum",
    "IPSocket", "Queue", "RUBYGEMS_ACTIVATION_MONITOR", "RUBY_COPYRIGHT", "RUBY_DESCRIPTION",
    "RUBY_ENGINE", "RUBY_ENGINE_VERSION", "RUBY_PATCHLEVEL",
    "RUBY_PLATFORM", "RUBY_RELEASE_DATE", "RUBY_REVISION", "RUBY_VERSION", "RbConfig", "Refinement",
    "STDERR", "STDIN",
    "STDOUT", "ScanError", "SimpleDelegator", "SingleForwardable", "SizedQueue", "SocketError",
    "SortedSet", "StringScanner",
    "SystemCallError", "TCPServer", "TCPSocket", "TOPLEVEL_BINDING", "ThreadGroup", "TracePoint",
    "UDPSocket", "UNIXServer",
    "UNIXSocket", "UnicodeNormalize", "Warning",
];

/// Private methods of every object, separated by spaces.
pub(crate) const KERNEL_METHODS: &str = "Array BigDecimal Complex Float Hash Integer JSON Pathname Rational \
    String URI __callee__ __dir__ __method__ ` abort at_exit autoload autoload? binding block_given? caller \
    caller_locations catch eval exec exit exit! fail fork format gem gem_original_require gets \
    global_variables initialize_clone initialize_copy initialize_dup iterator? j jj lambda load \
    local_variables loop open p pp print printf proc putc puts raise rand readline readlines require \
    require_relative respond_to_missing? select set_trace_func sleep spawn sprintf srand syscall system test \
    throw trace_var trap untrace_var warn";
