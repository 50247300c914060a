//! Searches texts for secrets: as they are, unescaped, without quoting and wrapping, and in base64. At the
//! edges of a text, it also searches for the start or end of a secret that was cut off there.

use std::ops::Range;

use memchr::memchr2;

use super::index::{Index, IndexedText, KEY_BYTES, KeyFilter};
use super::spellings;
use super::view::{
    DecodedView, begins_with_less_base64, compact, compact_offsets, is_noise, is_quoted, next_escape,
};

/// The minimum length in bytes of a secret of letters alone that is also found inside longer words.
pub(super) const MIN_INSIDE_BYTES: usize = 8;
/// The minimum length in bytes of a compact spelling, which is a secret without quotes and whitespace. Two
/// adjacent short words are not a secret.
pub(super) const MIN_COMPACT_BYTES: usize = 12;
/// The number of times that base64 is decoded.
const MAX_BASE64_DEPTH: u8 = 2;
/// The possible lengths in bytes of a fragment of a secret at the edge of a text.
const FRAGMENT_BYTES: Range<usize> = 8..513;
/// The minimum length in characters of a fragment in base64 at the edge of a text.
const MIN_BASE64_FRAGMENT_CHARS: usize = 8;
/// The minimum length of a fragment that was decoded from base64, in bytes.
const MIN_DECODED_FRAGMENT_BYTES: usize = 5;
/// The maximum length in bytes of the rest of an escape that was cut off.
const MAX_RESIDUE_BYTES: usize = 16;
/// The maximum number of bytes (brackets, commas and dots) between a secret and an ellipsis.
const MAX_BYTES_BEFORE_ELLIPSIS: usize = 3;
/// The number of words in the filter of fragments.
const FRAGMENT_FILTER_WORDS: usize = 1 << 14;
/// The number of bytes that are searched at each edge of a text.
const EDGE_BYTES: usize = 4096;
/// The length in bytes of the parts in which a text is searched.
const WINDOW_BYTES: usize = 256 * 1024;
/// The length in bytes by which two adjacent parts overlap.
const OVERLAP_BYTES: usize = 16 * 1024;

/// A secret in a text.
pub(super) struct Match {
    pub(super) range: Range<usize>,
    /// True if it is secret only as a precaution; see [`super::Redactor::add_as_precaution`].
    pub(super) is_precaution: bool,
}

/// The secrets in the spellings that texts are searched for.
#[derive(Default)]
pub(super) struct Spellings {
    /// Secrets as they are, and all spellings of short ones.
    exact: Index,
    /// Unescaped secrets without quotes and whitespace.
    compact: Index,
    /// Compact spellings, reversed, to find the end of a secret at the start of a text.
    reversed: Index,
    /// The keys at all positions of the compact spellings. A fragment of a secret consists of such keys.
    fragments: KeyFilter<FRAGMENT_FILTER_WORDS>,
    /// True if a secret contains an ellipsis.
    has_ellipsis: bool,
}

/// One end of a text at which a secret may have been cut off.
#[derive(Clone, Copy)]
struct Edge {
    /// The position of the edge in the text.
    position: usize,
    /// True if an ellipsis shows that something was cut off.
    is_marked: bool,
}

impl Spellings {
    /// Adds the spellings of a secret that are searched for: its text, its unescaped text and, if it is long,
    /// its compact spelling, forwards and reversed. A short secret gets all its spellings instead.
    pub(super) fn insert(&mut self, secret: &str, is_precaution: bool) {
        for part in spellings::parts(secret) {
            self.has_ellipsis |= ellipses(part.as_bytes()).next().is_some();
            self.exact.insert(part.as_bytes(), is_precaution);
            let view = DecodedView::of(part.as_bytes(), 0);
            let unescaped = view.unescaped();
            if let Some(unescaped) = &unescaped
                && unescaped.bytes.len() >= spellings::MIN_REDACTED_CHARS
            {
                self.exact.insert(&unescaped.bytes, is_precaution);
            }
            let plain_bytes = &unescaped.as_ref().unwrap_or(&view).bytes;
            let mut compact_bytes = compact(plain_bytes);
            if compact_bytes.len() >= MIN_COMPACT_BYTES {
                let offsets = compact_offsets(plain_bytes);
                let margin_after = plain_bytes.len() - offsets.last().map_or(0, |last| last + 1);
                self.compact.insert_with_margins(
                    &compact_bytes,
                    is_precaution,
                    (offsets.first().copied().unwrap_or(0), margin_after),
                );
                self.fragments.insert_all(&compact_bytes);
                compact_bytes.reverse();
                self.reversed.insert(&compact_bytes, is_precaution);
                // A text is searched both as it is and unescaped. If a backslash precedes an escaped secret,
                // unescaping takes it for the start of the first escape, so only the escaped spelling is
                // found.
                self.exact.insert(spellings::json(part).as_bytes(), is_precaution);
            } else {
                spellings::spellings(part)
                    .iter()
                    .for_each(|spelling| self.exact.insert(spelling.as_bytes(), is_precaution));
            }
        }
    }

    /// Returns the number of exact spellings. Every secret has at least one.
    pub(super) fn exact_count(&self) -> usize {
        self.exact.len()
    }

    /// Finds the secrets in a text. Without an ellipsis, fragments at its edges count only if `may_be_cut`.
    pub(super) fn find(&self, text: &str, may_be_cut: bool) -> Vec<Match> {
        let mut matches = Vec::new();
        let mut start = 0;
        loop {
            let end = text.ceil_char_boundary(start + WINDOW_BYTES);
            let part = text.get(start..end).unwrap_or_default();
            self.search(&DecodedView::of(part.as_bytes(), start), MAX_BASE64_DEPTH, &mut matches);
            if end == text.len() {
                break;
            }
            start = text.floor_char_boundary(end - OVERLAP_BYTES);
        }
        let mut start = 0;
        for ellipsis in ellipses(text.as_bytes()).chain(std::iter::once(text.len()..text.len())) {
            // An ellipsis may be a part of a secret.
            let part = if self.has_ellipsis { 0..ellipsis.start } else { start..ellipsis.start };
            if may_be_cut || ellipsis.start < text.len() {
                self.search_text_end(text, &part, ellipsis.start < text.len(), &mut matches);
            }
            if may_be_cut || start > 0 {
                let end = if self.has_ellipsis { text.len() } else { ellipsis.start };
                self.search_text_start(text, &(start..end), start > 0, &mut matches);
            }
            start = ellipsis.end;
        }
        matches
    }

    /// Adds the matches of secrets in a view and, while `depth` is not 0, in the base64 that it contains.
    fn search(&self, view: &DecodedView<'_>, depth: u8, matches: &mut Vec<Match>) {
        self.search_exact(view, matches);
        let unescaped = view.unescaped();
        if let Some(unescaped) = &unescaped {
            self.search_exact(unescaped, matches);
        }
        let plain_view = unescaped.as_ref().unwrap_or(view);
        if unescaped.is_some() || is_quoted(&plain_view.bytes) {
            self.search_compact(plain_view, matches);
        }
        if depth > 0 && self.compact.len() > 0 {
            plain_view.visit_texts(MIN_COMPACT_BYTES, |text| self.search(text, depth - 1, matches));
        }
    }

    /// Finds secrets as they are. They are valid UTF-8, so matches are at character boundaries.
    fn search_exact(&self, view: &DecodedView<'_>, matches: &mut Vec<Match>) {
        self.exact.visit_matches(&view.bytes, |start, IndexedText { bytes, is_precaution, .. }| {
            let range = start..start + bytes.len();
            if bytes.len() >= MIN_INSIDE_BYTES
                || !bytes.iter().all(u8::is_ascii_alphabetic)
                || is_word(&view.bytes, &range)
            {
                matches.push(Match { range: view.original_range(&range), is_precaution: *is_precaution });
            }
        });
    }

    /// Finds secrets whose quoting or wrapping differs from that of the text.
    fn search_compact(&self, plain_view: &DecodedView<'_>, matches: &mut Vec<Match>) {
        let mut ranges = Vec::new();
        self.compact.visit_matches(
            &compact(&plain_view.bytes),
            |start, IndexedText { bytes, is_precaution, margins }| {
                ranges.push((start, start + bytes.len() - 1, *is_precaution, *margins));
            },
        );
        if ranges.is_empty() {
            return;
        }
        let offsets = compact_offsets(&plain_view.bytes);
        for (first_index, last_index, is_precaution, (margin_before, margin_after)) in ranges {
            let start = match_start(&offsets, first_index, margin_before);
            let next_offset = offsets.get(last_index + 1).copied().unwrap_or(plain_view.bytes.len());
            if let Some(last_offset) = offsets.get(last_index) {
                let end = next_offset.min(last_offset + 1 + margin_after);
                matches.push(Match { range: plain_view.original_range(&(start..end)), is_precaution });
            }
        }
    }

    /// Searches the end of a part of a text for the start of a secret.
    fn search_text_end(&self, text: &str, part: &Range<usize>, is_marked: bool, matches: &mut Vec<Match>) {
        let text = text.as_bytes().get(..part.end).unwrap_or_default();
        let is_text = |byte: &u8| !byte.is_ascii_whitespace() && !b"\"'\\".contains(byte);
        let end = text.iter().rposition(is_text).map_or(0, |last| last + 1);
        // The ellipsis may be in brackets. The text before it may end with a comma or a dot, and so may the
        // secret.
        let bytes_before = text.get(..end).unwrap_or_default().iter().rev();
        let gap =
            bytes_before.take(MAX_BYTES_BEFORE_ELLIPSIS).take_while(|byte| b"[(<,.".contains(byte)).count();
        for end in (end - gap..=end).rev() {
            let start = part.start.max(end.saturating_sub(EDGE_BYTES));
            let view = DecodedView::of(text.get(start..end).unwrap_or_default(), start);
            if self.find_secret_start(&view, Edge { position: end, is_marked }, MAX_BASE64_DEPTH, matches) {
                break;
            }
        }
    }

    /// Adds the match of a secret that begins in the text and continues behind its end, and returns true if
    /// there is one. Tries every end within the residue, because a cut-off escape leaves characters that do
    /// not belong to the secret.
    fn find_secret_start(
        &self,
        view: &DecodedView<'_>,
        edge: Edge,
        depth: u8,
        matches: &mut Vec<Match>,
    ) -> bool {
        let unescaped = view.unescaped();
        let plain_view = unescaped.as_ref().unwrap_or(view);
        let residue_length = max_residue_bytes(&view.bytes, &plain_view.bytes);
        let mut longest_match: Option<(usize, &IndexedText)> = None;
        let bytes = match self.may_end_with_fragment(&plain_view.bytes, residue_length) {
            true => compact(&plain_view.bytes),
            false => Vec::new(),
        };
        let tail_start = bytes.len().saturating_sub(residue_length + FRAGMENT_BYTES.end - 1);
        let starts = self.compact.starts(bytes.get(tail_start..).unwrap_or_default());
        let starts: Vec<usize> = starts.map(|(start_index, _)| tail_start + start_index).collect();
        for end in (bytes.len().saturating_sub(residue_length)..=bytes.len()).rev() {
            let min_length =
                min_fragment_bytes(depth).saturating_sub(bytes.len() - end).max(MIN_DECODED_FRAGMENT_BYTES);
            let indices_end = (end + 1).saturating_sub(min_length);
            let start_indices = end.saturating_sub(FRAGMENT_BYTES.end - 1)..indices_end;
            for start_index in
                starts.iter().copied().filter(|start_index| start_indices.contains(start_index))
            {
                let fragment = bytes.get(start_index..end).unwrap_or_default();
                let Some(entry) = self.compact.continuation(fragment) else { continue };
                if counts_as_secret(entry, fragment, edge, depth) {
                    // The rest of a cut-off escape can look like part of a shorter fragment.
                    if longest_match.is_none_or(|(longest_match, _)| start_index < longest_match) {
                        longest_match = Some((start_index, entry));
                    }
                    break;
                }
            }
        }
        if let Some((start_index, entry)) = longest_match {
            let offset = match_start(&compact_offsets(&plain_view.bytes), start_index, entry.margins.0);
            let start = plain_view.original_range(&(offset..offset + 1)).start;
            matches.push(Match { range: start..edge.position, is_precaution: entry.is_precaution });
            return true;
        }
        let length = plain_view.bytes.len();
        depth > 0
            && (length.saturating_sub(residue_length)..=length).rev().any(|end| {
                plain_view.visit_text_at_end(
                    end,
                    MIN_BASE64_FRAGMENT_CHARS,
                    MIN_DECODED_FRAGMENT_BYTES,
                    |text| self.find_secret_start(text, edge, depth - 1, matches),
                )
            })
    }

    /// Returns false if no fragment of a secret ends in the last bytes of a text. Most texts are not searched
    /// any further for one.
    fn may_end_with_fragment(&self, text: &[u8], residue_length: usize) -> bool {
        let last_bytes = text.iter().rev().filter(|byte| !is_noise(**byte)).take(residue_length + KEY_BYTES);
        let mut key = [0; KEY_BYTES];
        last_bytes.enumerate().any(|(index, byte)| {
            key.rotate_right(1);
            key[0] = *byte;
            index + 1 >= KEY_BYTES && self.fragments.may_contain(u32::from_be_bytes(key))
        })
    }

    /// Returns false if a text does not begin with a fragment of a secret.
    fn may_begin_with_fragment(&self, text: &[u8]) -> bool {
        let mut first_bytes = text.iter().filter(|byte| !is_noise(**byte)).copied();
        let mut key = [0; KEY_BYTES];
        key.iter_mut().all(|byte| first_bytes.next().map(|first| *byte = first).is_some())
            && self.fragments.may_contain(u32::from_be_bytes(key))
    }

    /// Searches the start of a part of a text for the end of a secret.
    fn search_text_start(&self, text: &str, part: &Range<usize>, is_marked: bool, matches: &mut Vec<Match>) {
        let text = text.as_bytes().get(part.clone()).unwrap_or_default();
        let is_text = |byte: &u8| !byte.is_ascii_whitespace() && !b"\"'])>".contains(byte);
        let offset = text.iter().position(is_text).unwrap_or(text.len());
        let end = text.len().min(offset + EDGE_BYTES);
        let start = part.start + offset;
        let view = DecodedView::of(text.get(offset..end).unwrap_or_default(), start);
        self.find_secret_end(&view, Edge { position: start, is_marked }, MAX_BASE64_DEPTH, matches);
    }

    /// Adds the match of a secret that ends in the text and began before it, and returns true if there is
    /// one.
    fn find_secret_end(
        &self,
        view: &DecodedView<'_>,
        edge: Edge,
        depth: u8,
        matches: &mut Vec<Match>,
    ) -> bool {
        let unescaped = view.unescaped();
        let plain_view = unescaped.as_ref().unwrap_or(view);
        let mut bytes = match self.may_begin_with_fragment(&plain_view.bytes) {
            true => compact(&plain_view.bytes),
            false => Vec::new(),
        };
        bytes.truncate(FRAGMENT_BYTES.end - 1);
        bytes.reverse();
        let end_of_starts = (bytes.len() + 1).saturating_sub(min_fragment_bytes(depth));
        for start_index in self
            .reversed
            .starts(&bytes)
            .map(|(start_index, _)| start_index)
            .take_while(|start_index| *start_index < end_of_starts)
        {
            let fragment = bytes.get(start_index..).unwrap_or_default();
            let Some(entry) = self.reversed.continuation(fragment) else { continue };
            if counts_as_secret(entry, fragment, edge, depth) {
                let offsets = compact_offsets(&plain_view.bytes);
                let last_offset = offsets.get(fragment.len() - 1).copied().unwrap_or_default();
                let end = plain_view.original_range(&(last_offset..last_offset + 1)).end;
                matches.push(Match { range: edge.position..end, is_precaution: entry.is_precaution });
                return true;
            }
        }
        depth > 0
            && plain_view.visit_text_at_start(
                MIN_BASE64_FRAGMENT_CHARS,
                MIN_DECODED_FRAGMENT_BYTES,
                |first_bytes| self.may_have_secret_end(first_bytes, depth - 1),
                |text| self.find_secret_end(text, edge, depth - 1, matches),
            )
    }

    /// Returns false if [`Self::find_secret_end`] would find nothing in a text that begins with these bytes.
    fn may_have_secret_end(&self, first_bytes: &[u8], depth: u8) -> bool {
        let has_key = first_bytes.iter().filter(|byte| !is_noise(**byte)).nth(KEY_BYTES - 1).is_some();
        !has_key
            || next_escape(first_bytes).is_some()
            || self.may_begin_with_fragment(first_bytes)
            || depth > 0 && !begins_with_less_base64(first_bytes, MIN_BASE64_FRAGMENT_CHARS)
    }
}

/// Returns the offset at which a match starts. `index` is that of its first byte in `offsets`. At most
/// `before` quotes and whitespace characters in front of it are included.
fn match_start(offsets: &[usize], index: usize, margin_before: usize) -> usize {
    let previous = index.checked_sub(1).and_then(|previous| offsets.get(previous));
    let offset = offsets.get(index).copied().unwrap_or_default();
    offset.saturating_sub(margin_before).max(previous.map_or(0, |previous| previous + 1))
}

/// Returns the maximum length of the rest of an escape that was cut off at the end of a text, such as `%2` or
/// `u00` without its backslash.
fn max_residue_bytes(text: &[u8], unescaped: &[u8]) -> usize {
    let tail = text.get(text.len().saturating_sub(MAX_RESIDUE_BYTES + 3)..).unwrap_or_default();
    if next_escape(tail).is_none() {
        return 0;
    }
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte < b' ' || b"%&#{\\".contains(*byte);
    unescaped.iter().rev().take(MAX_RESIDUE_BYTES).take_while(is_part).count()
}

/// Returns the minimum length of a fragment.
fn min_fragment_bytes(depth: u8) -> usize {
    if depth == MAX_BASE64_DEPTH { FRAGMENT_BYTES.start } else { MIN_DECODED_FRAGMENT_BYTES }
}

/// Returns true if a fragment at an edge belongs to a secret. One that was decoded from base64 always does.
/// Without an ellipsis, or if the secret is one only as a precaution, words and the starts of addresses do
/// not.
fn counts_as_secret(entry: &IndexedText, fragment: &[u8], edge: Edge, depth: u8) -> bool {
    depth < MAX_BASE64_DEPTH || edge.is_marked && !entry.is_precaution || is_opaque(fragment)
}

/// Returns true if no letter, digit or underscore adjoins the range.
fn is_word(text: &[u8], range: &Range<usize>) -> bool {
    let is_boundary =
        |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    is_boundary(range.start.checked_sub(1).and_then(|margin_before| text.get(margin_before)))
        && is_boundary(text.get(range.end))
}

/// Returns true if a fragment looks like part of a key rather than of a word or an address.
fn is_opaque(fragment: &[u8]) -> bool {
    let has_byte = |kind: fn(&u8) -> bool| fragment.iter().any(kind);
    let is_mixed = has_byte(u8::is_ascii_digit)
        || (has_byte(u8::is_ascii_lowercase) && has_byte(u8::is_ascii_uppercase));
    is_mixed && has_byte(u8::is_ascii_alphabetic)
}

/// Returns the ranges of `…` and `...` in a text. In a longer run of dots, the last three are the ellipsis.
fn ellipses(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut position = 0;
    std::iter::from_fn(move || {
        while let Some(rest) = text.get(position..).filter(|rest| !rest.is_empty()) {
            let next = memchr2(b'.', 0xe2, rest)?;
            let start = position + next;
            let rest = text.get(start..).unwrap_or_default();
            let dots = rest.iter().take_while(|byte| **byte == b'.').count();
            let length = if rest.starts_with("…".as_bytes()) { "…".len() } else { dots };
            position = start + length.max(1);
            if length >= 3 {
                return Some(position - 3..position);
            }
        }
        None
    })
}
