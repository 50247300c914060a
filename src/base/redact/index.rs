//! Finds the longest of many byte strings that begins at a position of a text.
//!
//! Strings are kept sorted in buckets by their first [`KEY`] bytes. Inserting needs no rebuild, so secrets
//! can be added at any time. A position where no string begins costs one lookup of a bit.

use std::collections::HashMap;

/// The number of bytes that select the bucket, and the minimum length of a string.
pub(super) const KEY: usize = 4;
/// The number of values of a string's first two bytes.
const PAIRS: usize = 1 << 16;

/// A set of byte strings.
#[derive(Default)]
pub(super) struct Index {
    buckets: HashMap<[u8; KEY], Vec<Box<[u8]>>>,
    /// One bit for each pair of first bytes; set if a string begins with it.
    begins: Vec<u64>,
    count: usize,
    longest: usize,
}

impl Index {
    /// Adds a string. Strings shorter than [`KEY`] bytes are ignored.
    pub(super) fn insert(&mut self, string: &[u8]) {
        let Some(key) = string.first_chunk::<KEY>() else { return };
        let bucket = self.buckets.entry(*key).or_default();
        let Err(place) = bucket.binary_search_by(|known| known.as_ref().cmp(string)) else { return };
        bucket.insert(place, string.into());
        self.count += 1;
        self.longest = self.longest.max(string.len());
        if self.begins.is_empty() {
            self.begins.resize(PAIRS / 64, 0);
        }
        let pair = pair(key);
        if let Some(word) = self.begins.get_mut(pair / 64) {
            *word |= 1 << (pair % 64);
        }
    }

    /// Returns the number of strings.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns the length of the longest string.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the longest string that is a prefix of `text`.
    pub(super) fn longest_prefix(&self, text: &[u8]) -> Option<&[u8]> {
        let bucket = self.bucket(text)?;
        let mut text = text;
        loop {
            // A prefix of `text` sorts at or below it, and the longest prefix sorts highest.
            let below = bucket.partition_point(|known| known.as_ref() <= text);
            let known = bucket.get(below.checked_sub(1)?)?;
            let common = known.iter().zip(text).take_while(|(one, other)| one == other).count();
            if common == known.len() {
                return Some(known);
            }
            // Any shorter prefix ends where `known` and `text` differ.
            text = text.get(..common)?;
        }
    }

    /// Returns a string that is longer than `start` and begins with it.
    pub(super) fn continuation(&self, start: &[u8]) -> Option<&[u8]> {
        let bucket = self.bucket(start)?;
        let above = bucket.partition_point(|known| known.as_ref() <= start);
        bucket.get(above).map(AsRef::as_ref).filter(|known| known.starts_with(start))
    }

    fn bucket(&self, text: &[u8]) -> Option<&Vec<Box<[u8]>>> {
        let key = text.first_chunk::<KEY>()?;
        let pair = pair(key);
        let some = self.begins.get(pair / 64).is_some_and(|word| word >> (pair % 64) & 1 == 1);
        if some { self.buckets.get(key) } else { None }
    }
}

fn pair(key: &[u8; KEY]) -> usize {
    usize::from(key[0]) << 8 | usize::from(key[1])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_longest_is_found_past_others_that_are_near() {
        let mut index = Index::default();
        for string in ["abcd", "abcdef", "abcdefgh", "abcdeg", "abcz", "ab", "abcd"] {
            index.insert(string.as_bytes());
        }
        assert_eq!(index.len(), 5);
        let longest = |text: &str| index.longest_prefix(text.as_bytes()).map(<[u8]>::to_vec);
        assert_eq!(longest("abcdefgx").unwrap(), b"abcdef");
        assert_eq!(longest("abcdez").unwrap(), b"abcd");
        assert_eq!(longest("abcy"), None);
        assert_eq!(longest("abc"), None);
        assert_eq!(index.continuation(b"abcdefg").unwrap(), b"abcdefgh");
        assert_eq!(index.continuation(b"abcdefgh"), None);
    }

    proptest! {
        /// Finds the same prefix as a search through all strings.
        #[test]
        fn as_if_all_were_tried(
            strings in proptest::collection::vec("[ab]{4,9}", 0..20),
            text in "[ab]{0,12}"
        ) {
            let mut index = Index::default();
            strings.iter().for_each(|string| index.insert(string.as_bytes()));
            let found = index.longest_prefix(text.as_bytes()).map(<[u8]>::len);
            let wanted = strings.iter().filter(|one| text.starts_with(one.as_str())).map(String::len).max();
            prop_assert_eq!(found, wanted);
            let found = index.continuation(text.as_bytes()).is_some();
            let wanted = text.len() >= KEY
                && strings.iter().any(|one| one.len() > text.len() && one.starts_with(&text));
            prop_assert_eq!(found, wanted);
        }
    }
}
