//! Strings: shared, mutable, UTF-8 or binary.
//!
//! A binary string keeps each byte as the character of that number, so that its length, its indexes and its
//! bytes are those of Ruby.

use std::cell::{Cell, Ref, RefCell};

/// A string.
pub(crate) struct RString {
    text: RefCell<String>,
    /// A frozen string cannot be changed.
    pub(crate) frozen: Cell<bool>,
    /// Bytes, not text.
    pub(crate) binary: Cell<bool>,
}

impl RString {
    pub(crate) fn new(text: String) -> Self {
        RString { text: RefCell::new(text), frozen: Cell::new(false), binary: Cell::new(false) }
    }

    /// A binary string of these bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let string = RString::new(bytes.iter().map(|byte| char::from(*byte)).collect());
        string.binary.set(true);
        string
    }

    pub(crate) fn get(&self) -> Ref<'_, String> {
        self.text.borrow()
    }

    pub(crate) fn set(&self, text: String) {
        *self.text.borrow_mut() = text;
    }

    /// Appends text or, if `binary`, bytes. Nothing is appended, and false is the answer, where that would be bytes
    /// and letters beyond ASCII in one string.
    #[must_use]
    pub(crate) fn append(&self, text: &str, binary: bool) -> bool {
        if !text.is_ascii() && binary != self.binary.get() {
            if !self.get().is_ascii() {
                return false;
            }
            self.binary.set(binary);
        }
        self.text.borrow_mut().push_str(text);
        true
    }

    /// The bytes Ruby would have.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let text = self.text.borrow();
        if self.binary.get() {
            text.chars().map(|character| character as u32 as u8).collect()
        } else {
            text.as_bytes().to_vec()
        }
    }

    /// A copy that is not frozen.
    pub(crate) fn copy(&self) -> RString {
        let copy = RString::new(self.text.borrow().clone());
        copy.binary.set(self.binary.get());
        copy
    }
}
