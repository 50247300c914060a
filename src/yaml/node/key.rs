//! Hashable keys of mappings.

use std::borrow::Cow;

use super::Data;

/// A scalar as a hash key.
#[derive(PartialEq, Eq, Hash)]
pub(crate) enum Key<'t> {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(u64),
    String(Cow<'t, str>),
}

impl<'t> Key<'t> {
    /// Returns the key of a scalar. Returns `None` for collections, and for NaN, which is not equal to
    /// itself.
    pub(crate) fn of(data: &'t Data) -> Option<Self> {
        Some(match data {
            Data::Null => Key::Null,
            Data::Bool(flag) => Key::Bool(*flag),
            Data::Int(int) => Key::Int(*int),
            Data::UInt(int) => Key::UInt(*int),
            Data::Float(float) if float.is_nan() => return None,
            // Adding 0.0 turns -0.0 into 0.0, so both are the same key.
            Data::Float(float) => Key::Float((float + 0.0).to_bits()),
            Data::String(text) => Key::String(text.as_str().into()),
            Data::Seq(_) | Data::Map(_) => return None,
        })
    }

    pub(crate) fn into_owned(self) -> Key<'static> {
        match self {
            Key::Null => Key::Null,
            Key::Bool(flag) => Key::Bool(flag),
            Key::Int(int) => Key::Int(int),
            Key::UInt(int) => Key::UInt(int),
            Key::Float(bits) => Key::Float(bits),
            Key::String(text) => Key::String(text.into_owned().into()),
        }
    }
}
