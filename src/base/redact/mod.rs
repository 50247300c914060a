//! Redaction by value: a secret is never shown, wherever it turns up and in whatever common spelling
//! (`spellings`). [`Redactor::naming`] says which keys and variables hold secrets; `manifest::secrets` says
//! which values are some.
//!
//! Every line of a secret that has several is a secret too, because logs come line by line. A secret that was
//! wrapped (base64 in columns, say) is found across the line breaks of a text; where the lines come one by one,
//! [`Redactor::line`] also hides a line's end that a secret begins with, and its start that one ends with.
//!
//! Some things are left alone, because replacing them would garble ordinary text and hide nothing: values
//! shorter than four characters; `true`, `false`, `null`; and short values of letters alone where they
//! are part of a longer word. Paths and addresses that the operator gave stay whole ([`Redactor::keep`]).

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

use parking_lot::RwLock;
#[cfg(test)]
use spellings::SHORTEST;

/// Letters alone, and fewer than this, are a secret as a word only.
const SHORTEST_INSIDE: usize = 8;
/// What is found across a line break is at least this long: two short words that meet are no secret.
const SHORTEST_WRAPPED: usize = 12;
/// How much of a secret at the end or start of a line is taken for one.
const FRAGMENT: Range<usize> = 8..513;
/// Only what is this long is looked for in fragments.
const SHORTEST_BROKEN: usize = 16;
/// A text from this length on may have been cut out of a longer one.
const CUT: usize = 1024;
/// A longer text is a whole log, whose lines were looked at one by one.
const LONGEST_JOINED: usize = 1 << 20;
const REPLACEMENT: &str = "<redacted>";
/// A longer text is not kept whole.
const LONGEST_KEPT: usize = 4096;

/// The secrets of a run. Cheap to clone; clones share the set, so a secret added late takes effect at once.
#[derive(Clone, Default)]
pub struct Redactor {
    shared: Arc<RwLock<Secrets>>,
}

#[derive(Default)]
struct Secrets {
    forms: Index,
    /// The long ones, back to front.
    reversed: Index,
    /// Forms of values that are secret only as a precaution, see [`Redactor::add_value`].
    values: HashSet<Box<[u8]>>,
    /// Texts in which no such value is replaced.
    kept: Index,
    /// Names that the operator called secret, as [`naming::normal`] writes them.
    names: BTreeSet<String>,
}

impl Redactor {
    /// Adds a secret. Values too short to be told from ordinary text are left out.
    pub fn add(&self, secret: &str) {
        self.insert(secret, false);
    }

    /// Adds a value that is secret as a precaution, because of where it came from. It is shown inside the paths
    /// and addresses that [`Self::keep`] keeps whole; a value that was also added with [`Self::add`] is not.
    pub fn add_value(&self, value: &str) {
        self.insert(value, true);
    }

    fn insert(&self, secret: &str, is_value: bool) {
        let forms = spellings::of(secret);
        if forms.is_empty() {
            return;
        }
        let mut secrets = self.shared.write();
        for form in forms {
            if !is_value {
                secrets.values.remove(form.as_bytes());
            } else if secrets.forms.longest_prefix(form.as_bytes()) != Some(form.as_bytes()) {
                secrets.values.insert(form.as_bytes().into());
            }
            secrets.forms.insert(form.as_bytes());
            if form.len() >= SHORTEST_BROKEN {
                let reversed: Vec<u8> = form.bytes().rev().collect();
                secrets.reversed.insert(&reversed);
            }
        }
    }

    /// Keeps a path or an address whole: a value of [`Self::add_value`] inside it is not replaced. A text without
    /// a slash or a dot is neither, and is not kept.
    pub fn keep(&self, text: &str) {
        if text.contains(['/', '.']) && text.len() <= LONGEST_KEPT {
            self.shared.write().kept.insert(text.as_bytes());
        }
    }

    /// Makes every value secret that a variable or key of this name holds.
    pub fn add_name(&self, name: &str) {
        let name = naming::normal(name);
        self.shared.write().names.insert(name);
    }

    /// Returns what the name of a variable or key says about its value.
    pub fn naming(&self, name: &str) -> Naming {
        let name = naming::normal(name);
        let asked = self.shared.read().names.contains(&name);
        if asked { Naming::Asked } else { naming::of(&name) }
    }

    /// `text` with every secret replaced by `<redacted>`.
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redact(text, text.len() >= CUT || text.ends_with('…'))
    }

    /// As [`Self::apply`], for one of several lines that are not seen together.
    pub fn line<'a>(&self, line: &'a str) -> Cow<'a, str> {
        self.redact(line, true)
    }

    /// Text from outside as it may be shown: first without control characters, then without secrets. In this
    /// order, because an escape sequence in the middle of a secret would hide it.
    pub fn show(&self, text: &str) -> String {
        self.apply(&clean(text)).into_owned()
    }

    /// As [`Self::show`], for one of several lines that are not seen together.
    pub fn show_line(&self, line: &str) -> String {
        self.line(&clean(line)).into_owned()
    }

    fn redact<'a>(&self, text: &'a str, may_be_cut: bool) -> Cow<'a, str> {
        let secrets = self.shared.read();
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
        let secrets = self.shared.read();
        write!(f, "Redactor({} forms)", secrets.forms.len())
    }
}

impl Secrets {
    /// Where secrets stand in a text. They are valid UTF-8, so each begins and ends at character boundaries.
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

    /// Where secrets stand with line breaks in them, written as such or as `\n`.
    fn across_breaks(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        if text.len() > LONGEST_JOINED
            || !text.contains(&b'\n') && !text.windows(2).any(|pair| pair == br"\n")
        {
            return;
        }
        // The text without its line breaks, and where each byte of it was.
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

    /// Returns true if a value stands here inside a text that is kept whole.
    fn is_kept(&self, text: &[u8], range: &Range<usize>) -> bool {
        let first = range.end.saturating_sub(self.kept.longest());
        text.get(range.clone()).is_some_and(|form| self.values.contains(form))
            && (first..=range.start).any(|at| {
                let kept = text.get(at..).and_then(|rest| self.kept.longest_prefix(rest));
                kept.is_some_and(|kept| at + kept.len() >= range.end)
            })
    }

    /// The start of a secret that goes on after the text, and the end of one that began before it.
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

/// Whether what stands there has no letter or digit beside it.
fn is_word(text: &[u8], range: &Range<usize>) -> bool {
    let apart = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
    apart(range.start.checked_sub(1).and_then(|before| text.get(before))) && apart(text.get(range.end))
}

/// Whether a fragment looks like part of a key rather than of a word or an address.
fn is_opaque(fragment: &[u8]) -> bool {
    let has = |kind: fn(&u8) -> bool| fragment.iter().any(kind);
    let mixed = has(u8::is_ascii_digit) || (has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase));
    mixed && has(u8::is_ascii_alphabetic) && !has(u8::is_ascii_whitespace)
}

/// The length of the line break that a text begins with, indentation after it included: `\n`, CR LF, or these as
/// JSON and debug output escape them, once or several times over.
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

/// Replaces ranges; those that touch become one.
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
