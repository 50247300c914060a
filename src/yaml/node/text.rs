//! The text of a string node.

use std::fmt;
use std::ops::Deref;

/// The maximum number of bytes of a short text.
const MAX_SHORT_BYTES: usize = 22;

/// The text of a string. Up to 22 bytes are stored in place, so that most keys and values of a document need
/// no memory of their own.
#[derive(Clone)]
pub struct Text(Form);

/// The place of a text: in the node itself, or in memory of its own.
#[derive(Clone)]
enum Form {
    /// The first `length` bytes are copied from a `str`.
    Short {
        length: u8,
        bytes: [u8; MAX_SHORT_BYTES],
    },
    Long(Box<str>),
}

impl Text {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            // SAFETY: `From<&str>` copied these bytes from a whole `str`, and nothing changes them.
            Form::Short { length, bytes } => unsafe {
                std::str::from_utf8_unchecked(&bytes[..usize::from(*length)])
            },
            Form::Long(text) => text,
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        let mut bytes = [0; MAX_SHORT_BYTES];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(start), Ok(length)) => {
                start.copy_from_slice(text.as_bytes());
                Text(Form::Short { length, bytes })
            }
            _ => Text(Form::Long(text.into())),
        }
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        if text.len() > MAX_SHORT_BYTES { Text(Form::Long(text.into())) } else { text.as_str().into() }
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        match text.0 {
            Form::Long(text) => text.into(),
            Form::Short { .. } => text.as_str().to_owned(),
        }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_all_lengths_are_kept() {
        let long = "é€😀".repeat(8);
        for (end, _) in long.char_indices().chain([(long.len(), ' ')]) {
            let text = &long[..end];
            for copy in [Text::from(text), Text::from(text.to_owned()), Text::from(&text.to_owned())] {
                assert_eq!(copy.as_str(), text);
                assert_eq!(copy.clone(), copy);
                assert_eq!(format!("{copy:?}"), format!("{text:?}"));
                assert_eq!(String::from(copy), text);
            }
        }
        assert_ne!(Text::from("a"), Text::from("b"));
        assert_eq!(size_of::<Text>(), 24);
    }
}
