//! Finds which of many byte strings begin at a position of a text.
//!
//! Strings are kept sorted in buckets by their first [`KEY_BYTES`]. Inserting needs no rebuild, so secrets
//! can be added at any time. A position where no string begins usually costs one lookup of a bit.

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// The number of bytes that select the bucket, and the minimum length of a string.
pub(super) const KEY_BYTES: usize = 4;
/// The binary logarithm of the number of bits in the filter.
const FILTER_BITS_LOG2: u32 = 18;

/// A spelling of a secret, as it is searched.
pub(super) struct IndexedString {
    pub(super) form: Box<[u8]>,
    /// True if the string is secret only as a precaution; see [`super::Redactor::add_as_precaution`].
    pub(super) is_precaution: bool,
    /// The numbers of quotes and whitespace characters before and after the string in the secret; see
    /// [`super::view::compact`].
    pub(super) around: (usize, usize),
}

/// A set of byte strings.
#[derive(Default)]
pub(super) struct Index {
    buckets: HashMap<u32, Vec<IndexedString>, RandomState>,
    /// One bit for each hash of first bytes. It is set if a string begins with them.
    filter: Vec<u64>,
    count: usize,
    longest: usize,
}

impl Index {
    /// Adds a string. Strings shorter than [`KEY_BYTES`] are ignored. A string that was once added as a
    /// secret stays a secret, even if it is later added as a precaution.
    pub(super) fn insert(&mut self, string: &[u8], is_precaution: bool) {
        self.insert_within(string, is_precaution, (0, 0));
    }

    /// Adds a string. `around` is the number of quotes and whitespace characters before and after it in the
    /// secret.
    pub(super) fn insert_within(&mut self, string: &[u8], is_precaution: bool, around: (usize, usize)) {
        let Some(key) = key(string) else { return };
        let bucket = self.buckets.entry(key).or_default();
        match bucket.binary_search_by(|entry| entry.form.as_ref().cmp(string)) {
            Ok(offset) => {
                if let Some(entry) = bucket.get_mut(offset) {
                    entry.is_precaution &= is_precaution;
                    entry.around = (entry.around.0.max(around.0), entry.around.1.max(around.1));
                }
            }
            Err(offset) => {
                bucket.insert(offset, IndexedString { form: string.into(), is_precaution, around });
                self.count += 1;
                self.longest = self.longest.max(string.len());
                if self.filter.is_empty() {
                    self.filter.resize(1 << (FILTER_BITS_LOG2 - 6), 0);
                }
                let bit = bit(key);
                if let Some(word) = self.filter.get_mut(bit >> 6) {
                    *word |= 1 << (bit & 63);
                }
            }
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

    /// Calls `on_match` with each string in `text` and its position.
    pub(super) fn visit_matches(&self, text: &[u8], mut on_match: impl FnMut(usize, &IndexedString)) {
        if self.count == 0 {
            return;
        }
        let mut key = 0;
        for (last, byte) in text.iter().enumerate() {
            key = key << 8 | u32::from(*byte);
            if last + 1 < KEY_BYTES || !self.may_begin(key) {
                continue;
            }
            let at = last + 1 - KEY_BYTES;
            let (Some(bucket), Some(rest)) = (self.buckets.get(&key), text.get(at..)) else { continue };
            let mut entry = longest_prefix(bucket, rest);
            while let Some(indexed) = entry {
                on_match(at, indexed);
                entry = indexed
                    .form
                    .len()
                    .checked_sub(1)
                    .and_then(|less| longest_prefix(bucket, rest.get(..less)?));
            }
        }
    }

    /// Returns the longest string that is a prefix of `text`.
    pub(super) fn longest_prefix(&self, text: &[u8]) -> Option<&IndexedString> {
        longest_prefix(self.bucket(text)?, text)
    }

    /// Returns a string that begins with `start`.
    pub(super) fn continuation(&self, start: &[u8]) -> Option<&IndexedString> {
        let bucket = self.bucket(start)?;
        let first = bucket.partition_point(|indexed| indexed.form.as_ref() < start);
        bucket.get(first).filter(|indexed| indexed.form.starts_with(start))
    }

    fn bucket(&self, text: &[u8]) -> Option<&Vec<IndexedString>> {
        let key = key(text)?;
        if self.may_begin(key) { self.buckets.get(&key) } else { None }
    }

    /// Returns false if no string begins with these bytes.
    fn may_begin(&self, key: u32) -> bool {
        let bit = bit(key);
        self.filter.get(bit >> 6).is_some_and(|word| word >> (bit & 63) & 1 == 1)
    }
}

fn longest_prefix<'b>(bucket: &'b [IndexedString], text: &[u8]) -> Option<&'b IndexedString> {
    let mut text = text;
    loop {
        // A prefix of `text` sorts at or below it, and the longest prefix sorts highest.
        let end = bucket.partition_point(|indexed| indexed.form.as_ref() <= text);
        let entry = bucket.get(end.checked_sub(1)?)?;
        let common = entry.form.iter().zip(text).take_while(|(one, other)| one == other).count();
        if common == entry.form.len() {
            return Some(entry);
        }
        // Any shorter prefix ends where `entry` and `text` differ.
        text = text.get(..common)?;
    }
}

fn key(text: &[u8]) -> Option<u32> {
    text.first_chunk::<KEY_BYTES>().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Returns the bit of the filter for the first bytes of a string.
fn bit(key: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b1) >> (u32::BITS - FILTER_BITS_LOG2)) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_the_longest_prefix_among_similar_strings() {
        let mut index = Index::default();
        for string in ["abcd", "abcdef", "abcdefgh", "abcdeg", "abcz", "ab", "abcd"] {
            index.insert(string.as_bytes(), false);
        }
        assert_eq!(index.len(), 5);
        let longest = |text: &str| index.longest_prefix(text.as_bytes()).map(|indexed| indexed.form.to_vec());
        assert_eq!(longest("abcdefgx").unwrap(), b"abcdef");
        assert_eq!(longest("abcdez").unwrap(), b"abcd");
        assert_eq!(longest("abcy"), None);
        assert_eq!(longest("abc"), None);
        assert_eq!(*index.continuation(b"abcdefg").unwrap().form, *b"abcdefgh");
        assert_eq!(*index.continuation(b"abcdefgh").unwrap().form, *b"abcdefgh");
        assert!(index.continuation(b"abcdefghi").is_none());
    }

    #[test]
    fn secret_overrides_precaution_in_any_order() {
        for order in [[true, false], [false, true]] {
            let mut index = Index::default();
            order.iter().for_each(|is_precaution| index.insert(b"abcd", *is_precaution));
            assert!(!index.longest_prefix(b"abcde").unwrap().is_precaution);
        }
    }

    proptest! {
        /// Finds the same strings as a search through all of them.
        #[test]
        fn finds_the_same_as_a_linear_search(
            strings in proptest::collection::vec("[ab]{4,9}", 0..20),
            text in "[ab]{0,12}"
        ) {
            let mut index = Index::default();
            strings.iter().for_each(|string| index.insert(string.as_bytes(), false));
            let actual = index.longest_prefix(text.as_bytes()).map(|actual| actual.form.len());
            let expected =
                strings.iter().filter(|form| text.starts_with(form.as_str())).map(String::len).max();
            prop_assert_eq!(actual, expected);
            let actual = index.continuation(text.as_bytes()).is_some();
            let expected = text.len() >= KEY_BYTES
                && strings.iter().any(|form| form.starts_with(&text));
            prop_assert_eq!(actual, expected);
            let mut actual = Vec::new();
            index.visit_matches(text.as_bytes(), |at, entry| actual.push((at, entry.form.to_vec())));
            let mut expected = Vec::new();
            for at in 0..text.len() {
                let begin = strings.iter().filter(|form| text[at..].starts_with(form.as_str()));
                expected.extend(begin.map(|form| (at, form.clone().into_bytes())));
            }
            actual.sort();
            expected.sort();
            expected.dedup();
            prop_assert_eq!(actual, expected);
        }
    }
}
