//! Finds which of many byte strings begin at a place of a text.
//!
//! Strings are kept in buckets by their first [`KEY`] bytes, sorted. Adding one costs a look-up and an insertion
//! and nothing has to be built before the first search, so secrets can be added at any time; a place of a text
//! where nothing begins costs one look at a bit.

use std::collections::HashMap;

/// How many bytes choose the bucket; no shorter string can be kept.
pub(super) const KEY: usize = 4;
/// The first two bytes of a string, as a number of 16 bits.
const PAIRS: usize = 1 << 16;

/// A set of byte strings.
#[derive(Default)]
pub(super) struct Index {
    buckets: HashMap<[u8; KEY], Vec<Box<[u8]>>>,
    /// A bit for each pair of bytes that some string begins with.
    begins: Vec<u64>,
    count: usize,
    longest: usize,
}

impl Index {
    /// Adds a string of at least [`KEY`] bytes; shorter ones are left out.
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

    /// How many strings there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The length of the longest string.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// The longest string that `text` begins with.
    pub(super) fn longest_prefix(&self, text: &[u8]) -> Option<&[u8]> {
        let bucket = self.bucket(text)?;
        let mut text = text;
        loop {
            // What `text` begins with is not above it, and the longest such is the highest.
            let below = bucket.partition_point(|known| known.as_ref() <= text);
            let known = bucket.get(below.checked_sub(1)?)?;
            let common = known.iter().zip(text).take_while(|(one, other)| one == other).count();
            if common == known.len() {
                return Some(known);
            }
            // Whatever else `text` begins with ends where the two part.
            text = text.get(..common)?;
        }
    }

    /// A string that is longer than `start` and begins with it.
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
        /// The same as a search through all of them.
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
