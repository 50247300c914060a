//! A text with its escapes decoded, and the position of each byte in the original.
//!
//! Secrets and texts are brought into the same spelling, so that a secret is found in any combination of
//! spellings. Three steps lead there:
//! - [`DecodedView::unescaped`] decodes the escapes of JSON, URLs, HTML, shells and debug output until none
//!   is left;
//! - [`compact`] drops the quotes, backslashes, spaces and line breaks that quoting and wrapping added;
//! - [`DecodedView::visit_texts`] decodes base64.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr3;

use crate::text::contains_any;

/// The maximum number of nested escapes.
const MAX_ESCAPE_LEVELS: usize = 12;
/// The maximum length of base64 that is decoded at the edge of a text.
const MAX_EDGE_BYTES: usize = 1024;
/// The number of base64 characters that are decoded for a first look at the start of a text.
const PREVIEW_CHARS: usize = 16;
/// The number of bytes that they stand for.
const PREVIEW_BYTES: usize = PREVIEW_CHARS / 4 * 3;
/// The first decoded byte of a text at the start of base64 is before this one, because the first character
/// may have been cut off.
const MAX_TEXT_START: usize = 4;
/// Marks a byte that is not base64 in [`SEXTETS`].
const NOT_BASE64: u8 = 0xff;
/// The value of each byte in base64, in the standard and the URL-safe alphabet.
static SEXTETS: [u8; 256] = sextets();

/// A text that was made from an original.
pub(super) struct DecodedView<'t> {
    pub(super) bytes: Cow<'t, [u8]>,
    origin: Origin,
}

/// The positions of a view's bytes in the original.
enum Origin {
    /// The bytes are the original from this position on.
    At(usize),
    /// The start and end of each byte's origin.
    Spans(Vec<(usize, usize)>),
}

/// Consecutive characters of base64 in a view: their values and positions, without line breaks.
pub(super) struct Base64Run {
    values: Vec<u8>,
    offsets: Vec<usize>,
}

impl<'t> DecodedView<'t> {
    /// Creates the view of a part of the original that begins at `offset`.
    pub(super) fn of(bytes: &'t [u8], offset: usize) -> Self {
        DecodedView { bytes: Cow::Borrowed(bytes), origin: Origin::At(offset) }
    }

    /// Returns the range of these bytes in the original.
    pub(super) fn original_range(&self, range: &Range<usize>) -> Range<usize> {
        let last = range.end.saturating_sub(1).max(range.start);
        self.original_span(range.start).0..self.original_span(last).1
    }

    fn original_span(&self, index: usize) -> (usize, usize) {
        match &self.origin {
            Origin::At(offset) => (offset + index, offset + index + 1),
            Origin::Spans(spans) => spans.get(index).copied().unwrap_or_default(),
        }
    }

    /// Decodes all escapes, including nested ones. Returns `None` if there are none.
    pub(super) fn unescaped(&self) -> Option<DecodedView<'static>> {
        let mut view = self.unescaped_once()?;
        for _ in 1..MAX_ESCAPE_LEVELS {
            match view.unescaped_once() {
                Some(next) => view = next,
                None => break,
            }
        }
        Some(view)
    }

    /// Decodes the escapes of one level, and keeps for each byte its span in the original. Returns `None` if
    /// there are none.
    fn unescaped_once(&self) -> Option<DecodedView<'static>> {
        let mut position = next_escape(&self.bytes)?;
        let mut bytes = Vec::new();
        let mut spans = Vec::new();
        let mut is_changed = false;
        let mut rest_start = 0;
        loop {
            let rest = self.bytes.get(position..).unwrap_or_default();
            if let Some((length, piece)) = decode(rest) {
                is_changed = true;
                bytes.extend_from_slice(self.bytes.get(rest_start..position).unwrap_or_default());
                spans.extend((rest_start..position).map(|position| self.original_span(position)));
                let origin = self.original_range(&(position..position + length));
                let mut buffer = [0; 4];
                let piece_bytes = match &piece {
                    DecodedEscape::Nothing => &[][..],
                    DecodedEscape::Byte(byte) => std::slice::from_ref(byte),
                    DecodedEscape::Character(character) => character.encode_utf8(&mut buffer).as_bytes(),
                };
                bytes.extend_from_slice(piece_bytes);
                spans.extend(piece_bytes.iter().map(|_| (origin.start, origin.end)));
                position += length;
                rest_start = position;
            } else {
                position += 1;
            }
            let rest = self.bytes.get(position..).unwrap_or_default();
            let Some(next) = next_escape(rest) else { break };
            position += next;
        }
        if !is_changed {
            return None;
        }
        bytes.extend_from_slice(self.bytes.get(rest_start..).unwrap_or_default());
        spans.extend((rest_start..self.bytes.len()).map(|position| self.original_span(position)));
        Some(DecodedView { bytes: Cow::Owned(bytes), origin: Origin::Spans(spans) })
    }

    /// Decodes base64, and calls `visit` with each decoded text of at least `min_bytes` bytes.
    pub(super) fn visit_texts(&self, min_bytes: usize, mut visit: impl FnMut(&DecodedView<'_>)) {
        let min_run_chars = (min_bytes * 4).div_ceil(3);
        let has_line_breaks = self.bytes.contains(&b'\n');
        let mut position = 0;
        while position < self.bytes.len() {
            if !has_line_breaks {
                match self.next_run(position, min_run_chars) {
                    Some(start) => position = start,
                    None => break,
                }
            }
            let (end, count) = self.run_from(position);
            if count >= min_run_chars {
                let is_text = self.alignments(&(position..end), min_bytes);
                if is_text.contains(&true) {
                    let base64_run = self.base64_run(position..end);
                    for (alignment, _) in is_text.iter().enumerate().filter(|(_, is_text)| **is_text) {
                        let (texts, _) = self.decode_run(&base64_run, alignment, min_bytes);
                        texts.iter().for_each(|(_, text)| visit(text));
                    }
                }
            }
            position = end + 1;
        }
    }

    /// Checks a run without its first 0, 1, 2 and 3 characters. Returns true for each rest that may decode to
    /// at least `min_bytes` bytes of text. Most words, paths and IDs do not, and are not decoded.
    fn alignments(&self, range: &Range<usize>, min_bytes: usize) -> [bool; 4] {
        let run = self.bytes.get(range.clone()).unwrap_or_default();
        let run = match run.contains(&b'\n') {
            true => Cow::Owned(run.iter().copied().filter(|byte| sextet(*byte) != NOT_BASE64).collect()),
            false => Cow::Borrowed(run),
        };
        std::array::from_fn(|alignment| run.get(alignment..).is_some_and(|run| may_be_text(run, min_bytes)))
    }

    /// Decodes the run at the start of the view, and calls `visit` with each text of at least `min_bytes`
    /// bytes at its start, until `visit` returns true. Returns true if it did. Runs of less than
    /// `min_run_chars` characters are ignored, and so are texts whose first bytes `may_match` rejects, which
    /// is cheaper.
    pub(super) fn visit_text_at_start(
        &self,
        min_run_chars: usize,
        min_bytes: usize,
        may_match: impl Fn(&[u8]) -> bool,
        mut visit: impl FnMut(&DecodedView<'_>) -> bool,
    ) -> bool {
        let (end, count) = self.run_from(0);
        if count < min_run_chars {
            return false;
        }
        let range = 0..end.min(MAX_EDGE_BYTES);
        let may_match_at = |alignment| self.may_match_start(&range, alignment, min_bytes, &may_match);
        self.visit_decoded_edges(&range, min_bytes, may_match_at, |texts| {
            let first_text = texts.into_iter().next().filter(|(start, _)| *start < MAX_TEXT_START);
            first_text.is_some_and(|(_, text)| visit(&text))
        })
    }

    /// Returns false if a run without its first `alignment` characters does not decode to a text of at least
    /// `min_bytes` bytes at its start, or to one whose first bytes `may_match` rejects.
    fn may_match_start(
        &self,
        range: &Range<usize>,
        alignment: usize,
        min_bytes: usize,
        may_match: &impl Fn(&[u8]) -> bool,
    ) -> bool {
        let run = self.bytes.get(range.start + alignment..range.end).unwrap_or_default();
        let preview = run.get(..PREVIEW_CHARS).unwrap_or(run);
        let mut values = [0; PREVIEW_CHARS];
        values.iter_mut().zip(preview).for_each(|(value, byte)| *value = sextet(*byte));
        if values.contains(&NOT_BASE64) {
            return true;
        }
        let mut buffer = [0; PREVIEW_BYTES];
        for (bytes, quantum) in buffer.chunks_exact_mut(3).zip(values.chunks_exact(4)) {
            bytes.copy_from_slice(&decode_quantum(quantum));
        }
        let first_bytes = &buffer[..decoded_bytes(preview.len())];
        let mut start = 0;
        for chunk in first_bytes.utf8_chunks() {
            let text = chunk.valid();
            if start >= MAX_TEXT_START {
                return false;
            }
            if text.len() >= min_bytes {
                return may_match(text.as_bytes());
            }
            start += text.len() + chunk.invalid().len();
        }
        // The last text may continue behind the preview.
        run.len() > preview.len()
    }

    /// Like [`Self::visit_text_at_start`], for the run that ends at `end` and the text at its end.
    pub(super) fn visit_text_at_end(
        &self,
        end: usize,
        min_run_chars: usize,
        min_bytes: usize,
        mut visit: impl FnMut(&DecodedView<'_>) -> bool,
    ) -> bool {
        let (start, count) = self.run_before(end);
        count >= min_run_chars
            && self.visit_decoded_edges(
                &(start..end),
                min_bytes,
                |_| true,
                |mut texts| texts.pop().is_some_and(|(_, text)| visit(&text)),
            )
    }

    /// Decodes a run, with each alignment that `may_match` accepts and at which it may be text, and passes
    /// the texts to `visit` until that returns true.
    fn visit_decoded_edges(
        &self,
        range: &Range<usize>,
        min_bytes: usize,
        may_match: impl Fn(usize) -> bool,
        mut visit: impl FnMut(Vec<(usize, DecodedView<'static>)>) -> bool,
    ) -> bool {
        let mut is_text = self.alignments(range, min_bytes);
        is_text
            .iter_mut()
            .enumerate()
            .for_each(|(alignment, is_text)| *is_text = *is_text && may_match(alignment));
        if !is_text.contains(&true) {
            return false;
        }
        let base64_run = self.base64_run(range.clone());
        is_text.into_iter().enumerate().any(|(alignment, is_text)| {
            is_text && visit(self.decode_run(&base64_run, alignment, min_bytes).0)
        })
    }

    /// Returns the start of the run that ends at `end`, and its number of base64 characters.
    fn run_before(&self, end: usize) -> (usize, usize) {
        let (mut start, mut count) = (end, 0);
        while start > 0 && end - start < MAX_EDGE_BYTES {
            let bytes_before = self.bytes.get(..start).unwrap_or_default();
            let gap = bytes_before.iter().rev().take_while(|byte| is_between_lines(**byte)).count();
            let length = start - gap;
            let is_break = gap == 0 || bytes_before.get(length..).is_some_and(|gap| gap.contains(&b'\n'));
            match bytes_before.get(length.wrapping_sub(1)) {
                Some(byte) if is_break && sextet(*byte) != NOT_BASE64 => {
                    start = length - 1;
                    count += 1;
                }
                _ => break,
            }
        }
        (start, count)
    }

    /// Returns the start of the next run of at least this number of base64 characters, in a text without line
    /// breaks. Most characters of a text are skipped without a look at them.
    fn next_run(&self, mut start: usize, min_run_chars: usize) -> Option<usize> {
        loop {
            let window = self.bytes.get(start..start + min_run_chars)?;
            match window.iter().rposition(|byte| sextet(*byte) == NOT_BASE64) {
                Some(last) => start += last + 1,
                None => return Some(start),
            }
        }
    }

    /// Returns the end of the run that begins at `start`, and its number of base64 characters.
    fn run_from(&self, start: usize) -> (usize, usize) {
        let (mut end, mut count) = (start, 0);
        while let Some(byte) = self.bytes.get(end) {
            if sextet(*byte) != NOT_BASE64 {
                count += 1;
                end += 1;
                continue;
            }
            let length = line_break(self.bytes.get(end..).unwrap_or_default());
            match self.bytes.get(end + length) {
                Some(next) if count > 0 && length > 0 && sextet(*next) != NOT_BASE64 => end += length,
                _ => break,
            }
        }
        (end, count)
    }

    fn base64_run(&self, range: Range<usize>) -> Base64Run {
        let mut run =
            Base64Run { values: Vec::with_capacity(range.len()), offsets: Vec::with_capacity(range.len()) };
        let characters = self.bytes.get(range.clone()).unwrap_or_default();
        for (offset, value) in range.zip(characters.iter().map(|byte| sextet(*byte))) {
            if value != NOT_BASE64 {
                run.values.push(value);
                run.offsets.push(offset);
            }
        }
        run
    }

    /// Decodes a run without its first `alignment` characters. Returns the texts of at least `min_bytes`
    /// bytes in it that are valid UTF-8, each with its position in the decoded bytes, and the number of
    /// all decoded bytes.
    pub(super) fn decode_run(
        &self,
        base64_run: &Base64Run,
        alignment: usize,
        min_bytes: usize,
    ) -> (Vec<(usize, DecodedView<'static>)>, usize) {
        let mut bytes = Vec::with_capacity(base64_run.values.len());
        for quantum in base64_run.values.get(alignment..).unwrap_or_default().chunks(4) {
            bytes.extend(decode_quantum(quantum).into_iter().take(decoded_bytes(quantum.len())));
        }
        let mut views = Vec::new();
        let mut start = 0;
        for chunk in bytes.utf8_chunks() {
            let text = chunk.valid();
            if text.len() >= min_bytes {
                let origin = |index: usize| {
                    let first = alignment + index / 3 * 4 + index % 3;
                    let offset = |index: usize| base64_run.offsets.get(index).copied().unwrap_or_default();
                    (self.original_span(offset(first)).0, self.original_span(offset(first + 1)).1)
                };
                let spans = (start..start + text.len()).map(origin).collect();
                let bytes = Cow::Owned(text.as_bytes().to_vec());
                views.push((start, DecodedView { bytes, origin: Origin::Spans(spans) }));
            }
            start += text.len() + chunk.invalid().len();
        }
        (views, bytes.len())
    }
}

/// Decodes the values of up to four base64 characters. Missing ones count as 0.
fn decode_quantum(values: &[u8]) -> [u8; 3] {
    let bits = values.iter().fold(0, |bits, value| bits << 6 | u32::from(*value));
    let [_, first, second, third] = (bits << (6 * (4 - values.len()))).to_be_bytes();
    [first, second, third]
}

/// Returns the number of bytes for which this number of base64 characters stands.
fn decoded_bytes(chars: usize) -> usize {
    chars / 4 * 3 + (chars % 4).saturating_sub(1)
}

/// Returns false if base64 without line breaks decodes to no text of `min_bytes` bytes.
///
/// Looks at each candidate from its end. The first two bytes that cannot follow each other exclude all
/// candidates that contain them, so most characters are not decoded.
fn may_be_text(run: &[u8], min_bytes: usize) -> bool {
    let decoded_bytes = decoded_bytes(run.len());
    let value = |offset: usize| run.get(offset).map_or(0, |byte| sextet(*byte));
    let decoded_byte = |index: usize| {
        let offset = index / 3 * 4 + index % 3;
        let (first, second) = (value(offset), value(offset + 1));
        match index % 3 {
            0 => first << 2 | second >> 4,
            1 => first << 4 | second >> 2,
            _ => first << 6 | second,
        }
    };
    let mut start = 0;
    while start + min_bytes <= decoded_bytes {
        let mut index = start + min_bytes - 1;
        let mut next_byte = decoded_byte(index);
        while index > start {
            let byte = decoded_byte(index - 1);
            let is_continuation = next_byte & 0xc0 == 0x80;
            // A byte of ASCII ends a character, and the first byte of a longer one does not.
            if (byte < 0x80 && is_continuation) || (byte >= 0xc0 && !is_continuation) {
                break;
            }
            index -= 1;
            next_byte = byte;
        }
        if index == start {
            return true;
        }
        start = index;
    }
    false
}

/// Returns true for characters that quoting and wrapping add to a text.
pub(super) fn is_noise(byte: u8) -> bool {
    byte <= b' ' || matches!(byte, b'"' | b'\'' | b'\\' | b'+' | 0x7f)
}

/// Returns true if a text without escapes contains quotes, backslashes, plus signs or line ends, which
/// [`compact`] drops.
pub(super) fn is_quoted(bytes: &[u8]) -> bool {
    contains_any(bytes, |byte| matches!(byte, b'"' | b'\'' | b'\\' | b'+' | b'\n' | b'\r'))
}

/// Returns a text without quotes, backslashes, whitespace and control characters. `+` is also dropped,
/// because it is a space in a URL.
pub(super) fn compact(bytes: &[u8]) -> Vec<u8> {
    let mut output = Vec::with_capacity(bytes.len());
    for byte in bytes {
        if !is_noise(*byte) {
            output.push(*byte);
        }
    }
    output
}

/// Returns the positions of the bytes that [`compact`] keeps.
pub(super) fn compact_offsets(bytes: &[u8]) -> Vec<usize> {
    bytes.iter().enumerate().filter(|(_, byte)| !is_noise(**byte)).map(|(index, _)| index).collect()
}

/// Returns the position of the first character of an escape.
pub(super) fn next_escape(bytes: &[u8]) -> Option<usize> {
    memchr3(b'\\', b'%', b'&', bytes)
}

/// The text that an escape stands for.
enum DecodedEscape {
    Nothing,
    Byte(u8),
    Character(char),
}

/// Decodes the escape at the start of a text. Also returns its length.
fn decode(text: &[u8]) -> Option<(usize, DecodedEscape)> {
    match text.first()? {
        b'\\' => Some(decode_backslash(text)),
        b'%' => Some((3, DecodedEscape::Byte(u8::try_from(parse_hex(text.get(1..3)?)?).ok()?))),
        b'&' => decode_entity(text),
        _ => None,
    }
}

/// Decodes an escape of JSON, debug output or a shell. The number of backslashes does not matter, because
/// each level of JSON doubles it.
fn decode_backslash(text: &[u8]) -> (usize, DecodedEscape) {
    let backslashes = text.iter().take_while(|byte| **byte == b'\\').count();
    let text_after = text.get(backslashes..).unwrap_or_default();
    let letter = |character| (backslashes + 1, DecodedEscape::Character(character));
    match text_after {
        [b'n', ..] => letter('\n'),
        [b't', ..] => letter('\t'),
        [b'r', ..] => letter('\r'),
        // `compact` drops every control character, so one stands for all.
        [b'b' | b'f' | b'v' | b'a' | b'e' | b'E', ..] => letter('\x1b'),
        [b'0'..=b'3', b'0'..=b'7', b'0'..=b'7', ..] => {
            let octal = text_after.iter().take(3).fold(0, |value, digit| value << 3 | (digit - b'0'));
            (backslashes + 3, DecodedEscape::Byte(octal))
        }
        [b'0', ..] => letter('\0'),
        [b'u' | b'U' | b'x', ..] => match decode_numeric_escape(text_after) {
            Some((length, character)) => (backslashes + length, DecodedEscape::Character(character)),
            None => (backslashes, DecodedEscape::Nothing),
        },
        _ => (backslashes, DecodedEscape::Nothing),
    }
}

/// Decodes `u00e4`, `u{e4}`, `U000000e4` or `xe4`. Also returns the length.
fn decode_numeric_escape(text: &[u8]) -> Option<(usize, char)> {
    let number = |range: Range<usize>| parse_hex(text.get(range)?);
    match text {
        [b'u', b'{', rest @ ..] => {
            let digits = rest.iter().take(7).position(|byte| *byte == b'}')?;
            Some((digits + 3, char::from_u32(number(2..2 + digits)?)?))
        }
        [b'u', ..] => {
            let unit = number(1..5)?;
            if !(0xd800..0xdc00).contains(&unit) {
                return Some((5, char::from_u32(unit)?));
            }
            // The low surrogate is an escape of its own.
            let rest = text.get(5..)?;
            let backslashes = rest.iter().take_while(|byte| **byte == b'\\').count();
            let low =
                rest.get(backslashes..)?.strip_prefix(b"u").and_then(|rest| parse_hex(rest.get(..4)?))?;
            let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            Some((10 + backslashes, char::from_u32(0x10000 + ((unit - 0xd800) << 10) + low)?))
        }
        [b'U', ..] => Some((9, char::from_u32(number(1..9)?)?)),
        _ => {
            let first = number(1..3)?;
            Some(decode_utf8(text).unwrap_or((3, char::from_u32(first)?)))
        }
    }
}

/// Decodes a character of several bytes that are escaped one by one, such as `xc3\xa4`. Also returns the
/// length.
fn decode_utf8(text: &[u8]) -> Option<(usize, char)> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while bytes.len() < 4 {
        let backslashes = rest.iter().take_while(|byte| **byte == b'\\').count();
        if (backslashes > 0) == bytes.is_empty() {
            return None;
        }
        rest = rest.get(backslashes..)?.strip_prefix(b"x")?;
        bytes.push(u8::try_from(parse_hex(rest.get(..2)?)?).ok()?);
        rest = rest.get(2..)?;
        if let Ok(character) = std::str::from_utf8(&bytes) {
            return Some((text.len() - rest.len(), character.chars().next()?));
        }
    }
    None
}

fn decode_entity(text: &[u8]) -> Option<(usize, DecodedEscape)> {
    let end = text.iter().take(12).position(|byte| *byte == b';')?;
    let character = match text.get(1..end)? {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        b"nbsp" => ' ',
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(parse_hex(digits)?)?,
        // `parse` would accept a sign.
        [b'#', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => {
            char::from_u32(std::str::from_utf8(digits).ok()?.parse().ok()?)?
        }
        _ => return None,
    };
    Some((end + 1, DecodedEscape::Character(character)))
}

fn parse_hex(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    digits.iter().try_fold(0, |value: u32, byte| Some(value << 4 | digit(byte)?))
}

/// Returns the length of a line break at the start of a text. It includes the indentation after the line
/// break, and quotes in which a shell encloses each line. Returns 0 if there is none.
fn line_break(text: &[u8]) -> usize {
    let length = text.iter().take_while(|byte| is_between_lines(**byte)).count();
    if text.get(..length).is_some_and(|line_gap| line_gap.contains(&b'\n')) { length } else { 0 }
}

/// Returns true if less than `max_chars` characters of base64 are at the start of a text, of which these are
/// the first bytes.
pub(super) fn begins_with_less_base64(first_bytes: &[u8], max_chars: usize) -> bool {
    let end = first_bytes.iter().position(|byte| sextet(*byte) == NOT_BASE64);
    end.is_some_and(|end| {
        end < max_chars && first_bytes.get(end).is_some_and(|byte| !is_between_lines(*byte))
    })
}

fn is_between_lines(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'')
}

fn sextet(byte: u8) -> u8 {
    SEXTETS[usize::from(byte)]
}

const fn sextets() -> [u8; 256] {
    let mut table = [NOT_BASE64; 256];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut value = 0;
    while value < 62 {
        table[alphabet[value as usize] as usize] = value;
        value += 1;
    }
    table[b'+' as usize] = 62;
    table[b'-' as usize] = 62;
    table[b'/' as usize] = 63;
    table[b'_' as usize] = 63;
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unescaped(text: &str) -> String {
        let view = DecodedView::of(text.as_bytes(), 0);
        let bytes = view.unescaped().map_or(text.as_bytes().to_vec(), |view| view.bytes.into_owned());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn decodes_nested_escapes() {
        for (text, plain) in [
            (r"a\u0026b\\u0026c\\\\u0026d", "a&b&c&d"),
            (r"\ud83d\ude00 \\ud83d\\ude00 \u{1f600} \U0001f600", "😀 😀 😀 😀"),
            (r"\xc3\xa4 \xe4 \303\244", "ä ä ä"),
            ("%2525 %c3%A4 %25%36%31", "% ä a"),
            ("&amp;amp;&#38;lt;&#x3c;&apos;&quot;", "&<<'\""),
            (r#"a\"b\\\"c\/d"#, r#"a"b"c/d"#),
            (r"a\nb\\nc\\\tz", "a\nb\nc\tz"),
            ("100% & more; &nothing; %zz &#+1;", "100% & more; &nothing; %zz &#+1;"),
        ] {
            assert_eq!(unescaped(text), plain, "{text}");
        }
    }

    #[test]
    fn decoded_bytes_map_to_their_positions() {
        let text = r"x%2526y\u00e4z";
        let view = DecodedView::of(text.as_bytes(), 10).unescaped().unwrap();
        assert_eq!(*view.bytes, *"x&yäz".as_bytes());
        assert_eq!(view.original_range(&(1..2)), 11..16);
        assert_eq!(view.original_range(&(2..5)), 16..23);
        assert_eq!(view.original_range(&(0..6)), 10..24);
    }

    #[test]
    fn decodes_base64_across_line_breaks() {
        let text = "-- aGVsbG8s\n  IHdvcmxk --";
        let view = DecodedView::of(text.as_bytes(), 0);
        let mut texts = Vec::new();
        view.visit_texts(4, |text| texts.push((text.bytes.to_vec(), text.original_range(&(5..8)))));
        assert!(texts.contains(&(b"hello, world".to_vec(), 9..17)), "{texts:?}");
    }
}
