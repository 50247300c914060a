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
    static PENDING_PARTS: RefCell<Vec<ValuePart>> = const { RefCell::new(Vec::new()) };
}

/// A part of a value that can have parts itself.
#[expect(dead_code, reason = "parts are kept to be dropped later")]
pub(crate) enum ValuePart {
    Value(Value),
    Kind(ProcKind),
    Env(Rc<Env>),
    Class(Rc<Class>),
}

pub(crate) fn deep_drop(parts: impl Iterator<Item = ValuePart>) {
    let depth = DEPTH.get();
    if depth >= MAX_DEPTH {
        // During thread exit, the thread-local list may already be destroyed.
        let _ = PENDING_PARTS.try_with(|list| list.borrow_mut().extend(parts.filter(ValuePart::nests)));
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
    deep_drop(values.map(ValuePart::Value));
}

impl ValuePart {
    /// Returns true for parts that can have parts themselves.
    fn nests(&self) -> bool {
        match self {
            ValuePart::Value(value) => value.nests(),
            ValuePart::Kind(_) | ValuePart::Env(_) | ValuePart::Class(_) => true,
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
