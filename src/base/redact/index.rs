//! Finds which of many spellings of secrets begin at a position of a text.
//!
//! Spellings are kept sorted in buckets by their first [`KEY_BYTES`]. Inserting needs no rebuild, so secrets
//! can be added at any time. A position where no spelling begins usually costs one lookup of a bit in a
//! [`KeyFilter`].

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// The number of bytes that select the bucket, and the minimum length of a spelling.
pub(super) const KEY_BYTES: usize = 4;
/// The number of words in the filter of an index. The filters of all indexes fit into the first cache of a
/// processor.
const FILTER_WORDS: usize = 1 << 10;

/// A spelling of a secret, or an exempt text.
pub(super) struct IndexedText {
    pub(super) bytes: Box<[u8]>,
    /// True if the spelling is secret only as a precaution; see [`super::Redactor::add_as_precaution`].
    pub(super) is_precaution: bool,
    /// The numbers of quotes and whitespace characters before and after the spelling in the secret; see
    /// [`super::view::compact`].
    pub(super) margins: (usize, usize),
}

/// A set of keys, which are [`KEY_BYTES`] bytes each. It may contain keys that were not inserted.
/// `WORDS` is a power of two.
pub(super) struct KeyFilter<const WORDS: usize> {
    /// One bit for each hash of a key. `None` if no key was inserted.
    words: Option<Box<[u64; WORDS]>>,
}

impl<const WORDS: usize> Default for KeyFilter<WORDS> {
    fn default() -> Self {
        KeyFilter { words: None }
    }
}

impl<const WORDS: usize> KeyFilter<WORDS> {
    fn insert(&mut self, key: u32) {
        let (index, bit) = Self::word_and_bit(key);
        self.words.get_or_insert_with(|| Box::new([0; WORDS]))[index] |= bit;
    }

    /// Inserts the keys at all positions of a text.
    pub(super) fn insert_all(&mut self, text: &[u8]) {
        text.windows(KEY_BYTES).filter_map(key).for_each(|key| self.insert(key));
    }

    /// Returns false if the key was not inserted.
    pub(super) fn may_contain(&self, key: u32) -> bool {
        let (index, bit) = Self::word_and_bit(key);
        self.words.as_ref().is_some_and(|words| words[index] & bit != 0)
    }

    /// Returns the index of the word of a key, and the key's bit in it.
    fn word_and_bit(key: u32) -> (usize, u64) {
        let hash = key.wrapping_mul(0x9e37_79b1);
        // The high bits of the product depend on all bits of the key.
        let index = (hash >> (u32::BITS - WORDS.trailing_zeros())) as usize % WORDS;
        (index, 1 << (hash >> (u32::BITS - 6 - WORDS.trailing_zeros()) & 63))
    }
}

/// A set of spellings.
#[derive(Default)]
pub(super) struct Index {
    buckets: HashMap<u32, Vec<IndexedText>, RandomState>,
    /// The first bytes of all spellings.
    filter: KeyFilter<FILTER_WORDS>,
    count: usize,
    max_bytes: usize,
}

impl Index {
    /// Adds a spelling. Spellings shorter than [`KEY_BYTES`] are ignored. A spelling that was once added as a
    /// secret stays a secret, even if it is later added as a precaution.
    pub(super) fn insert(&mut self, spelling: &[u8], is_precaution: bool) {
        self.insert_with_margins(spelling, is_precaution, (0, 0));
    }

    /// Adds a spelling. `margins` is the number of quotes and whitespace characters before and after it in
    /// the secret.
    pub(super) fn insert_with_margins(
        &mut self,
        spelling: &[u8],
        is_precaution: bool,
        margins: (usize, usize),
    ) {
        let Some(key) = key(spelling) else { return };
        let bucket = self.buckets.entry(key).or_default();
        match bucket.binary_search_by(|entry| entry.bytes.as_ref().cmp(spelling)) {
            Ok(offset) => {
                if let Some(entry) = bucket.get_mut(offset) {
                    entry.is_precaution &= is_precaution;
                    entry.margins = (entry.margins.0.max(margins.0), entry.margins.1.max(margins.1));
                }
            }
            Err(offset) => {
                bucket.insert(offset, IndexedText { bytes: spelling.into(), is_precaution, margins });
                self.count += 1;
                self.max_bytes = self.max_bytes.max(spelling.len());
                self.filter.insert(key);
            }
        }
    }

    /// Returns the number of spellings.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns the length of the longest spelling.
    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Returns the positions of `text` at which a spelling may begin, each with its first bytes.
    pub(super) fn starts<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = (usize, u32)> + 't {
        let text = if self.count == 0 { &[] } else { text };
        let (first_bytes, other_bytes) = text.split_at_checked(KEY_BYTES - 1).unwrap_or_default();
        let mut key = first_bytes.iter().fold(0, next_key);
        let keys = other_bytes.iter().map(move |byte| {
            key = next_key(key, byte);
            key
        });
        keys.enumerate().filter(|(_, key)| self.filter.may_contain(*key))
    }

    /// Calls `on_match` with each spelling in `text` and its position.
    pub(super) fn visit_matches(&self, text: &[u8], mut on_match: impl FnMut(usize, &IndexedText)) {
        for (position, key) in self.starts(text) {
            let (Some(bucket), Some(rest)) = (self.buckets.get(&key), text.get(position..)) else { continue };
            let mut entry = longest_prefix(bucket, rest);
            while let Some(spelling) = entry {
                on_match(position, spelling);
                entry = spelling
                    .bytes
                    .len()
                    .checked_sub(1)
                    .and_then(|length| longest_prefix(bucket, rest.get(..length)?));
            }
        }
    }

    /// Returns the longest spelling that is a prefix of `text`.
    pub(super) fn longest_prefix(&self, text: &[u8]) -> Option<&IndexedText> {
        longest_prefix(self.bucket(text)?, text)
    }

    /// Returns a spelling that begins with `start`.
    pub(super) fn continuation(&self, start: &[u8]) -> Option<&IndexedText> {
        let bucket = self.bucket(start)?;
        let index = bucket.partition_point(|spelling| spelling.bytes.as_ref() < start);
        bucket.get(index).filter(|spelling| spelling.bytes.starts_with(start))
    }

    fn bucket(&self, text: &[u8]) -> Option<&Vec<IndexedText>> {
        let key = key(text)?;
        if self.filter.may_contain(key) { self.buckets.get(&key) } else { None }
    }
}

fn longest_prefix<'b>(bucket: &'b [IndexedText], text: &[u8]) -> Option<&'b IndexedText> {
    let mut text = text;
    loop {
        // A prefix of `text` sorts at or below it, and the longest prefix sorts highest.
        let end = bucket.partition_point(|spelling| spelling.bytes.as_ref() <= text);
        let entry = bucket.get(end.checked_sub(1)?)?;
        let common_bytes = entry.bytes.iter().zip(text).take_while(|(one, other)| one == other).count();
        if common_bytes == entry.bytes.len() {
            return Some(entry);
        }
        // Any shorter prefix ends where `entry` and `text` differ.
        text = text.get(..common_bytes)?;
    }
}

/// Returns the first bytes of a text as a key.
fn key(text: &[u8]) -> Option<u32> {
    text.first_chunk::<KEY_BYTES>().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Returns the key that ends with `byte`, from the one that ends before it.
fn next_key(key: u32, byte: &u8) -> u32 {
    key << 8 | u32::from(*byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_the_longest_prefix_among_similar_strings() {
        let mut index = Index::default();
        for spelling in ["abcd", "abcdef", "abcdefgh", "abcdeg", "abcz", "ab", "abcd"] {
            index.insert(spelling.as_bytes(), false);
        }
        assert_eq!(index.len(), 5);
        let longest_match =
            |text: &str| index.longest_prefix(text.as_bytes()).map(|spelling| spelling.bytes.to_vec());
        assert_eq!(longest_match("abcdefgx").unwrap(), b"abcdef");
        assert_eq!(longest_match("abcdez").unwrap(), b"abcd");
        assert_eq!(longest_match("abcy"), None);
        assert_eq!(longest_match("abc"), None);
        assert_eq!(*index.continuation(b"abcdefg").unwrap().bytes, *b"abcdefgh");
        assert_eq!(*index.continuation(b"abcdefgh").unwrap().bytes, *b"abcdefgh");
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
        /// Finds the same spellings as a search through all of them.
        #[test]
        fn finds_the_same_as_a_linear_search(
            strings in proptest::collection::vec("[ab]{4,9}", 0..20),
            text in "[ab]{0,12}"
        ) {
            let mut index = Index::default();
            strings.iter().for_each(|spelling| index.insert(spelling.as_bytes(), false));
            let actual = index.longest_prefix(text.as_bytes()).map(|actual| actual.bytes.len());
            let expected =
                strings.iter().filter(|spelling| text.starts_with(spelling.as_str())).map(String::len).max();
            prop_assert_eq!(actual, expected);
            let actual = index.continuation(text.as_bytes()).is_some();
            let expected = text.len() >= KEY_BYTES
                && strings.iter().any(|spelling| spelling.starts_with(&text));
            prop_assert_eq!(actual, expected);
            let mut actual = Vec::new();
            index.visit_matches(text.as_bytes(), |position, entry| {
                actual.push((position, entry.bytes.to_vec()));
            });
            let mut expected = Vec::new();
            for position in 0..text.len() {
                let begin = strings.iter().filter(|spelling| text[position..].starts_with(spelling.as_str()));
                expected.extend(begin.map(|spelling| (position, spelling.clone().into_bytes())));
            }
            actual.sort();
            expected.sort();
            expected.dedup();
            prop_assert_eq!(actual, expected);
        }
    }
}
