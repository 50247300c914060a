//! Redaction by value: replaces a secret wherever it occurs, in all common spellings (`spellings`).
//! [`Redactor::naming`] tells which keys and variables hold secrets; `manifest::secrets` decides which values
//! are secret.
//!
//! Each line of a multi-line secret is a secret too, because logs are written line by line. A wrapped secret
//! (such as base64 in columns) is found across the line breaks of a text. For text that arrives line by line,
//! [`Redactor::line`] also hides the start of a secret at the end of a line and its end at the start of the
//! next.
//!
//! Some values are not redacted, because that would garble ordinary text and hide nothing: values shorter
//! than four characters; `true`, `false`, `null`; and short values of letters alone inside a longer word.
//! Paths and addresses that the operator gave stay whole ([`Redactor::keep`]).

mod index;
mod naming;
mod spellings;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

use index::Index;
pub use naming::Naming;

use crate::text::clean;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(test)]
use spellings::SHORTEST;

/// The length from which a secret of letters alone is also found inside longer words.
const SHORTEST_INSIDE: usize = 8;
/// The minimum length of a match across a line break, because two adjacent short words are not a secret.
const SHORTEST_WRAPPED: usize = 12;
/// The length of a fragment at the end or start of a line that counts as part of a secret.
const FRAGMENT: Range<usize> = 8..513;
/// The minimum length of a secret whose fragments are searched.
const SHORTEST_BROKEN: usize = 16;
/// The length from which a text may have been truncated.
const CUT: usize = 1024;
/// The length from which a text is not searched across line breaks. It is a whole log then, and its lines
/// were redacted one by one.
const LONGEST_JOINED: usize = 1 << 20;
const REPLACEMENT: &str = "<redacted>";
/// The maximum length of a text that [`Redactor::keep`] accepts.
const LONGEST_KEPT: usize = 4096;

/// The set of secrets of a run. Clones are cheap and share the set, so a secret added later takes effect
/// everywhere.
#[derive(Clone, Default)]
pub struct Redactor {
    shared: Arc<RwLock<Secrets>>,
}

#[derive(Default)]
struct Secrets {
    /// Secrets whose forms are not in the other fields yet, and whether they are values. Their forms are made
    /// when a text is redacted, because that takes long, and some runs show nothing.
    pending: Vec<(String, bool)>,
    forms: Index,
    /// Forms of at least [`SHORTEST_BROKEN`] bytes, reversed.
    reversed: Index,
    /// Forms of values that are secret only as a precaution; see [`Redactor::add_value`].
    values: HashSet<Box<[u8]>>,
    /// Texts inside which such values are not replaced.
    kept: Index,
    /// Names that the operator declared secret, normalized by [`naming::normal`].
    names: BTreeSet<String>,
}

impl Redactor {
    /// Adds a secret. Values too short to distinguish from ordinary text are ignored.
    pub fn add(&self, secret: &str) {
        self.insert(secret, false);
    }

    /// Adds a value that is secret as a precaution. Unlike a secret added with [`Self::add`], it stays
    /// visible inside paths and addresses added with [`Self::keep`].
    pub fn add_value(&self, value: &str) {
        self.insert(value, true);
    }

    fn insert(&self, secret: &str, is_value: bool) {
        self.shared.write().pending.push((secret.to_owned(), is_value));
    }

    /// Returns the secrets with all their forms.
    fn secrets(&self) -> RwLockReadGuard<'_, Secrets> {
        let secrets = self.shared.read();
        if secrets.pending.is_empty() {
            return secrets;
        }
        drop(secrets);
        let mut secrets = self.shared.write();
        secrets.make_forms();
        RwLockWriteGuard::downgrade(secrets)
    }

    /// Keeps values added with [`Self::add_value`] visible inside this path or address. A text without a
    /// slash or dot is ignored.
    pub fn keep(&self, text: &str) {
        if text.contains(['/', '.']) && text.len() <= LONGEST_KEPT {
            self.shared.write().kept.insert(text.as_bytes());
        }
    }

    /// Declares the values of all variables and keys with this name secret.
    pub fn add_name(&self, name: &str) {
        let name = naming::normal(name);
        self.shared.write().names.insert(name);
    }

    /// Returns the meaning of a variable's or key's name for its value.
    pub fn naming(&self, name: &str) -> Naming {
        let name = naming::normal(name);
        let asked = self.shared.read().names.contains(&name);
        if asked { Naming::Asked } else { naming::of(&name) }
    }

    /// Replaces every secret in `text` by `<redacted>`.
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redact(text, text.len() >= CUT || text.ends_with('…'))
    }

    /// Redacts one line of a longer text whose other lines are not at hand.
    pub fn line<'a>(&self, line: &'a str) -> Cow<'a, str> {
        self.redact(line, true)
    }

    /// Removes control characters from foreign text, then redacts it. The order matters, because an escape
    /// sequence inside a secret would hide it.
    pub fn show(&self, text: &str) -> String {
        self.apply(&clean(text)).into_owned()
    }

    /// Removes control characters from one line of a longer text, then redacts it like [`Self::line`].
    pub fn show_line(&self, line: &str) -> String {
        self.line(&clean(line)).into_owned()
    }

    fn redact<'a>(&self, text: &'a str, may_be_cut: bool) -> Cow<'a, str> {
        let secrets = self.secrets();
        if secrets.forms.len() == 0 {
            return Cow::Borrowed(text);
        }
        let mut found = secrets.within(text.as_bytes());
        secrets.across_breaks(text.as_bytes(), &mut found);
        if may_be_cut {
            secrets.at_the_edges(text, &mut found);
        }
        found.retain(|range| !secrets.is_kept(text.as_bytes(), range));
        replace(text, found)
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let secrets = self.secrets();
        write!(f, "Redactor({} forms)", secrets.forms.len())
    }
}

impl Secrets {
    /// Makes the forms of the pending secrets.
    fn make_forms(&mut self) {
        for (secret, is_value) in std::mem::take(&mut self.pending) {
            for form in spellings::of(&secret) {
                if !is_value {
                    self.values.remove(form.as_bytes());
                } else if self.forms.longest_prefix(form.as_bytes()) != Some(form.as_bytes()) {
                    self.values.insert(form.as_bytes().into());
                }
                self.forms.insert(form.as_bytes());
                if form.len() >= SHORTEST_BROKEN {
                    let reversed: Vec<u8> = form.bytes().rev().collect();
                    self.reversed.insert(&reversed);
                }
            }
        }
    }

    /// Finds the secrets in a text. They are valid UTF-8, so matches are at character boundaries.
    fn within(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for at in 0..text.len() {
            let Some(rest) = text.get(at..) else { break };
            if let Some(form) = self.forms.longest_prefix(rest) {
                let range = at..at + form.len();
                if form.len() >= SHORTEST_INSIDE
                    || !form.iter().all(u8::is_ascii_alphabetic)
                    || is_word(text, &range)
                {
                    found.push(range);
                }
            }
        }
        found
    }

    /// Finds secrets with line breaks inside, written as newlines or as `\n`.
    fn across_breaks(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        if text.len() > LONGEST_JOINED
            || !text.contains(&b'\n') && !text.windows(2).any(|pair| pair == br"\n")
        {
            return;
        }
        // The text without line breaks, and the original position of each byte.
        let (mut joined, mut origin) = (Vec::with_capacity(text.len()), Vec::with_capacity(text.len()));
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            let length = line_break(text.get(at..).unwrap_or_default());
            if length == 0 {
                joined.push(*byte);
                origin.push(at);
            }
            at += length.max(1);
        }
        for range in self.within(&joined) {
            let (Some(first), Some(last)) = (origin.get(range.start), origin.get(range.end - 1)) else {
                continue;
            };
            if range.len() >= SHORTEST_WRAPPED && last - first >= range.len() {
                found.push(*first..last + 1);
            }
        }
    }

    /// Returns true if the range is a value inside a text that is kept whole.
    fn is_kept(&self, text: &[u8], range: &Range<usize>) -> bool {
        let first = range.end.saturating_sub(self.kept.longest());
        text.get(range.clone()).is_some_and(|form| self.values.contains(form))
            && (first..=range.start).any(|at| {
                let kept = text.get(at..).and_then(|rest| self.kept.longest_prefix(rest));
                kept.is_some_and(|kept| at + kept.len() >= range.end)
            })
    }

    /// Finds a secret that continues after the text, and one that began before it.
    fn at_the_edges(&self, text: &str, found: &mut Vec<Range<usize>>) {
        let end = text
            .trim_end_matches(|character: char| character.is_whitespace() || "…\"',\\".contains(character));
        let shown = end.as_bytes();
        let first = shown.len().saturating_sub(FRAGMENT.end - 1);
        for at in first..shown.len().saturating_sub(FRAGMENT.start - 1) {
            let Some(fragment) = shown.get(at..) else { break };
            if is_opaque(fragment)
                && self.forms.continuation(fragment).is_some_and(|form| form.len() >= SHORTEST_BROKEN)
            {
                found.push(at..shown.len());
                break;
            }
        }
        let start = text
            .trim_start_matches(|character: char| character.is_whitespace() || "…\"'".contains(character));
        let skipped = text.len() - start.len();
        let reversed: Vec<u8> =
            start.bytes().take(FRAGMENT.end - 1).collect::<Vec<_>>().into_iter().rev().collect();
        for at in 0..reversed.len().saturating_sub(FRAGMENT.start - 1) {
            let Some(fragment) = reversed.get(at..) else { break };
            if is_opaque(fragment) && self.reversed.continuation(fragment).is_some() {
                found.push(skipped..skipped + fragment.len());
                break;
            }
        }
    }
}

/// Returns true if no letter or digit adjoins the range.
fn is_word(text: &[u8], range: &Range<usize>) -> bool {
    let apart = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
    apart(range.start.checked_sub(1).and_then(|before| text.get(before))) && apart(text.get(range.end))
}

/// Returns true if a fragment looks like part of a key rather than of a word or an address.
fn is_opaque(fragment: &[u8]) -> bool {
    let has = |kind: fn(&u8) -> bool| fragment.iter().any(kind);
    let mixed = has(u8::is_ascii_digit) || (has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase));
    mixed && has(u8::is_ascii_alphabetic) && !has(u8::is_ascii_whitespace)
}

/// Returns the length of a line break at the start of a text, with following indentation: `\n`, CR LF, or
/// these escaped by JSON or debug output, also repeatedly.
fn line_break(text: &[u8]) -> usize {
    let escapes = text.iter().take_while(|byte| **byte == b'\\').count();
    let after = |skipped: usize| text.get(skipped..).unwrap_or_default();
    let length = match (escapes, after(escapes)) {
        (0, [b'\r', b'\n', ..]) => 2,
        (0, [b'\n', ..]) => 1,
        (1.., [b'n', ..]) => escapes + 1,
        (1.., [b'r', ..]) if after(escapes + 1).starts_with(b"\\") => escapes + 1,
        _ => return 0,
    };
    length + after(length).iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Replaces the ranges; adjoining ones become one.
fn replace(text: &str, mut found: Vec<Range<usize>>) -> Cow<'_, str> {
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_by_key(|range| range.start);
    let mut output = String::with_capacity(text.len());
    let mut shown = 0;
    for range in found {
        if range.start > shown || shown == 0 {
            output.push_str(text.get(shown..range.start).unwrap_or_default());
            output.push_str(REPLACEMENT);
        }
        shown = shown.max(range.end);
    }
    output.push_str(text.get(shown..).unwrap_or_default());
    Cow::Owned(output)
}
