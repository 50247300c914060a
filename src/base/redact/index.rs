//! Finds which of many spellings of secrets begin at a position of a text.
//!
//! Spellings are kept sorted in buckets by their first [`KEY_BYTES`]. Inserting needs no rebuild, so secrets
//! can be added at any time. A position where no spelling begins usually costs one lookup of a bit in a
//! [`KeyFilter`].

use std::collections::HashMap;

use foldhash::fast::RandomState;

/// The number of bytes that select the bucket, and the minimum length of a spelling.
pub(super) const KEY_BYTES: usize = 4;
/// The binary logarithm of the number of bits in the filter of an index. The filters of all indexes fit into
/// the first cache of a processor.
const FILTER_BITS_LOG2: u32 = 16;

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
pub(super) struct KeyFilter {
    /// One bit for each hash of a key. Empty if no key was inserted.
    words: Vec<u64>,
    bits_log2: u32,
}

impl KeyFilter {
    /// Creates an empty set with this binary logarithm of the number of its bits.
    pub(super) fn new(bits_log2: u32) -> Self {
        KeyFilter { words: Vec::new(), bits_log2 }
    }

    fn insert(&mut self, key: u32) {
        if self.words.is_empty() {
            self.words.resize(1 << (self.bits_log2 - 6), 0);
        }
        let bit = self.bit(key);
        if let Some(word) = self.words.get_mut(bit >> 6) {
            *word |= 1 << (bit & 63);
        }
    }

    /// Inserts the keys at all positions of a text.
    pub(super) fn insert_all(&mut self, text: &[u8]) {
        text.windows(KEY_BYTES).filter_map(key).for_each(|key| self.insert(key));
    }

    /// Returns false if the key was not inserted.
    pub(super) fn may_contain(&self, key: u32) -> bool {
        let bit = self.bit(key);
        self.words.get(bit >> 6).is_some_and(|word| word >> (bit & 63) & 1 == 1)
    }

    fn bit(&self, key: u32) -> usize {
        (key.wrapping_mul(0x9e37_79b1) >> (u32::BITS - self.bits_log2)) as usize
    }
}

/// A set of spellings.
pub(super) struct Index {
    buckets: HashMap<u32, Vec<IndexedText>, RandomState>,
    /// The first bytes of all spellings.
    filter: KeyFilter,
    count: usize,
    max_bytes: usize,
}

impl Default for Index {
    fn default() -> Self {
        Index {
            buckets: HashMap::default(),
            filter: KeyFilter::new(FILTER_BITS_LOG2),
            count: 0,
            max_bytes: 0,
        }
    }
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
        let keys = text.windows(KEY_BYTES).map(|window| key(window).unwrap_or_default());
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
        let longest =
            |text: &str| index.longest_prefix(text.as_bytes()).map(|spelling| spelling.bytes.to_vec());
        assert_eq!(longest("abcdefgx").unwrap(), b"abcdef");
        assert_eq!(longest("abcdez").unwrap(), b"abcd");
        assert_eq!(longest("abcy"), None);
        assert_eq!(longest("abc"), None);
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
