//! Ruby's strings: shared, mutable, UTF-8 or binary.
//!
//! A binary string stores each byte as the character with that code. So its length and its indices are the
//! same as in Ruby.

use std::cell::{Cell, Ref, RefCell};

use crate::evaluator::meter::Charge;

/// Ruby's String. The R avoids a clash with Rust's.
pub(crate) struct RString {
    text: RefCell<String>,
    /// True if the string must not be changed. Callers check it.
    pub(crate) is_frozen: Cell<bool>,
    /// True for bytes, false for UTF-8 text.
    pub(crate) is_binary: Cell<bool>,
    charge: Charge,
}

/// The memory of a string without its text.
const STRING_BYTES: usize = 112;

impl RString {
    pub(crate) fn new(text: String) -> Self {
        let charge = Charge::new(STRING_BYTES + text.capacity());
        RString { text: RefCell::new(text), is_frozen: Cell::new(false), is_binary: Cell::new(false), charge }
    }

    /// Creates a binary string.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let string = RString::new(bytes.iter().map(|byte| char::from(*byte)).collect());
        string.is_binary.set(true);
        string
    }

    pub(crate) fn get(&self) -> Ref<'_, String> {
        self.text.borrow()
    }

    pub(crate) fn set(&self, text: String) {
        self.charge.resize(STRING_BYTES + text.capacity());
        *self.text.borrow_mut() = text;
    }

    /// Appends text or, if `is_binary`, bytes. Returns false and appends nothing if the result would mix
    /// bytes and text beyond ASCII.
    #[must_use]
    pub(crate) fn append(&self, text: &str, is_binary: bool) -> bool {
        if !text.is_ascii() && is_binary != self.is_binary.get() {
            if !self.get().is_ascii() {
                return false;
            }
            self.is_binary.set(is_binary);
        }
        let mut content = self.text.borrow_mut();
        content.push_str(text);
        self.charge.resize(STRING_BYTES + content.capacity());
        true
    }

    /// Returns true for a binary string with bytes beyond ASCII, which are not text.
    pub(crate) fn has_bytes(&self) -> bool {
        self.is_binary.get() && !self.get().is_ascii()
    }

    /// Returns the bytes that the string has in Ruby.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let text = self.text.borrow();
        if self.is_binary.get() {
            text.chars().map(|character| character as u32 as u8).collect()
        } else {
            text.as_bytes().to_vec()
        }
    }

    /// Returns a copy that is not frozen.
    pub(crate) fn copy(&self) -> RString {
        let copy = RString::new(self.text.borrow().clone());
        copy.is_binary.set(self.is_binary.get());
        copy
    }
}
