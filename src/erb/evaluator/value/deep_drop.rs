//! Drops deeply nested values without equally deep recursion.
//!
//! Values nest through arrays, hashes, ranges, objects, classes, procs and scopes. Each of these hands its
//! parts to [`deep_drop`] when it is dropped. Parts up to [`MAX_DEPTH`] levels deep are dropped immediately.
//! Deeper parts are kept, and the outermost call drops them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::{Class, ProcKind, Value};
use crate::evaluator::eval::Env;

/// The levels that are dropped by recursion.
const MAX_DEPTH: u32 = 64;

thread_local! {
    /// The number of [`deep_drop`] calls that are running on this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The parts that the outermost call drops later.
    static PENDING_PARTS: RefCell<Vec<Part>> = const { RefCell::new(Vec::new()) };
}

/// A part of a value that can have parts itself.
#[expect(dead_code, reason = "parts are kept to be dropped later")]
pub(crate) enum Part {
    Value(Value),
    Kind(ProcKind),
    Env(Rc<Env>),
    Class(Rc<Class>),
}

/// Drops the parts of a value.
pub(crate) fn deep_drop(parts: impl Iterator<Item = Part>) {
    let depth = DEPTH.get();
    if depth >= MAX_DEPTH {
        // During thread exit, the thread-local list may already be destroyed.
        let _ = PENDING_PARTS.try_with(|list| list.borrow_mut().extend(parts.filter(Part::nests)));
        return;
    }
    DEPTH.set(depth + 1);
    parts.for_each(drop);
    if depth == 0 {
        while let Some(part) = PENDING_PARTS.try_with(|list| list.borrow_mut().pop()).ok().flatten() {
            drop(part);
        }
    }
    DEPTH.set(depth);
}

/// Drops values that are parts of another value.
pub(crate) fn deep_drop_values(values: impl Iterator<Item = Value>) {
    deep_drop(values.map(Part::Value));
}

impl Part {
    /// Returns true for parts that can have parts themselves.
    fn nests(&self) -> bool {
        match self {
            Part::Value(value) => value.nests(),
            Part::Kind(_) | Part::Env(_) | Part::Class(_) => true,
        }
    }
}

impl Value {
    /// Returns true for values that can have parts.
    pub(super) fn nests(&self) -> bool {
        matches!(
            self,
            Value::Array(_)
                | Value::Hash(_)
                | Value::Range(_)
                | Value::Object(_)
                | Value::Proc(_)
                | Value::Class(_)
        )
    }
}
