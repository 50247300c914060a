//! Redaction by value: `search` replaces a secret wherever it occurs, in any combination of common spellings.
//! [`Redactor::name_class`] classifies the names of keys and variables; `manifest::secrets` decides which
//! values are secret.
//!
//! Each line of a multi-line secret is a secret too, because logs are written line by line. A wrapped secret
//! (such as base64 in columns) is found across the line breaks of a text. For text that arrives line by line,
//! [`Redactor::redact_line`] also hides the start of a secret at the end of a line and its end at the start
//! of the next.
//!
//! Some values are not redacted, because that would garble ordinary text and hide nothing: values shorter
//! than four characters; `true`, `false`, `null`; and short values of letters alone inside a longer word.
//! Local paths that the operator gave, keys of the manifest and names on record are never redacted
//! ([`Redactor::exempt`]). In addresses that the operator gave, values that are secret only as a precaution
//! stay visible ([`Redactor::exempt_from_precautions`]).

#[cfg(test)]
mod combined_tests;
mod index;
mod naming;
mod search;
mod spellings;
#[cfg(test)]
mod tests;
mod view;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use index::Index;
pub use naming::NameClass;
use search::{Match, Spellings};
pub use spellings::MIN_REDACTED_CHARS;

use crate::text::{clean, decode_line};

/// The length in bytes from which a text may have been truncated.
const MIN_CUT_BYTES: usize = 1024;
const REPLACEMENT: &str = "<redacted>";
/// The maximum length of an exempt text.
const MAX_EXEMPT_BYTES: usize = 4096;

/// The set of secrets of a run. Clones are cheap and share the set, so a secret added later takes effect
/// everywhere.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Arc<RwLock<Secrets>>,
}

/// A secret without its spellings.
struct PendingSecret {
    text: String,
    is_precaution: bool,
}

/// The content of a [`Redactor`].
#[derive(Default)]
struct Secrets {
    /// Secrets whose spellings are not made yet. That is done when a text is redacted, because it takes long
    /// and some runs show nothing.
    pending_secrets: Vec<PendingSecret>,
    spellings: Spellings,
    /// Texts inside which nothing is replaced or, for those marked as a precaution, only other secrets.
    exempt_texts: Index,
    /// Names that the operator declared secret, normalized by [`naming::normalize`].
    secret_names: BTreeSet<String>,
}

impl Redactor {
    /// Adds a secret. Values too short to distinguish from ordinary text are ignored.
    pub fn add(&self, secret: &str) {
        self.insert(secret, false);
    }

    /// Adds a value that is secret as a precaution. Unlike a secret added with [`Self::add`], it stays
    /// visible inside paths and addresses added with [`Self::exempt_from_precautions`].
    pub fn add_as_precaution(&self, value: &str) {
        self.insert(value, true);
    }

    fn insert(&self, secret: &str, is_precaution: bool) {
        self.secrets.write().pending_secrets.push(PendingSecret { text: secret.to_owned(), is_precaution });
    }

    /// Returns the secrets with all their spellings.
    fn secrets(&self) -> RwLockReadGuard<'_, Secrets> {
        let secrets = self.secrets.read();
        if secrets.pending_secrets.is_empty() {
            return secrets;
        }
        drop(secrets);
        let mut secrets = self.secrets.write();
        secrets.make_spellings();
        RwLockWriteGuard::downgrade(secrets)
    }

    /// Keeps values added with [`Self::add_as_precaution`] visible inside this path or address. A text
    /// without a slash or dot is ignored, and so is one that is too short or too long for [`Self::exempt`].
    pub fn exempt_from_precautions(&self, text: &str) {
        if text.contains(['/', '.']) && text.len() <= MAX_EXEMPT_BYTES {
            self.secrets.write().exempt_texts.insert(text.as_bytes(), true);
        }
    }

    /// Keeps every secret visible inside this name or key. A text that is too short to contain a secret, or
    /// larger than [`MAX_EXEMPT_BYTES`], is ignored.
    pub fn exempt(&self, text: &str) {
        if text.len() <= MAX_EXEMPT_BYTES {
            self.secrets.write().exempt_texts.insert(text.as_bytes(), false);
        }
    }

    /// Keeps every secret visible inside this path. For a URL, it does the same as
    /// [`Self::exempt_from_precautions`], because a URL may have credentials. A path without a slash or dot
    /// is ignored, and so is one that is too short or too long for [`Self::exempt`].
    pub fn exempt_path(&self, path: &Path) {
        let text = path.to_string_lossy();
        if text.contains("://") {
            self.exempt_from_precautions(&text);
        } else if text.contains(['/', '.']) {
            self.exempt(&text);
        }
    }

    /// Declares the values of all variables and keys with this name secret.
    pub fn add_name(&self, name: &str) {
        let name = naming::normalize(name);
        self.secrets.write().secret_names.insert(name);
    }

    /// Returns the class of the name of a variable or key.
    pub fn name_class(&self, name: &str) -> NameClass {
        let name = naming::normalize(name);
        let is_registered = self.secrets.read().secret_names.contains(&name);
        if is_registered { NameClass::Declared } else { naming::classify(&name) }
    }

    /// Replaces every secret in `text` with `<redacted>`.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redact_with(text, text.len() >= MIN_CUT_BYTES)
    }

    /// Redacts one line of a text that arrives line by line.
    pub fn redact_line<'a>(&self, line: &'a str) -> Cow<'a, str> {
        self.redact_with(line, true)
    }

    /// Removes control characters from a text of another program, then redacts it. The order matters, because
    /// an escape sequence inside a secret would hide it.
    pub fn clean_and_redact(&self, text: &str) -> String {
        self.redact(&clean(text)).into_owned()
    }

    /// Removes control characters from one line of a text that arrives line by line, then redacts it like
    /// [`Self::redact_line`].
    pub fn clean_and_redact_line(&self, line: &str) -> String {
        self.redact_line(&clean(line)).into_owned()
    }

    /// Does the same as [`Self::clean_and_redact_line`] with many lines, and joins them with line breaks.
    /// Faster than one call for each line. Not generic, because the shipped program optimises this crate for
    /// speed, and the calling one for size.
    #[inline(never)]
    pub fn clean_and_redact_lines(&self, lines: &mut dyn Iterator<Item = &[u8]>) -> String {
        let secrets = self.secrets();
        let mut output = String::new();
        for (index, line) in lines.enumerate() {
            if index > 0 {
                output.push('\n');
            }
            output.push_str(&secrets.redact(&clean(&decode_line(line)), true));
        }
        output
    }

    fn redact_with<'a>(&self, text: &'a str, may_be_cut: bool) -> Cow<'a, str> {
        self.secrets().redact(text, may_be_cut)
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let secrets = self.secrets();
        write!(f, "Redactor({} exact spellings)", secrets.spellings.exact_count())
    }
}

impl Secrets {
    /// Makes the spellings of the pending secrets.
    fn make_spellings(&mut self) {
        for secret in std::mem::take(&mut self.pending_secrets) {
            self.spellings.insert(&secret.text, secret.is_precaution);
        }
    }

    fn redact<'a>(&self, text: &'a str, may_be_cut: bool) -> Cow<'a, str> {
        if self.spellings.exact_count() == 0 {
            return Cow::Borrowed(text);
        }
        let matches = self.spellings.find(text, may_be_cut).into_iter();
        let secret_matches = matches.filter(|each| !self.is_exempt(text.as_bytes(), each));
        replace(text, secret_matches.map(|each| each.range).collect())
    }

    /// Returns true if the secret is inside a text that is exempt from its redaction.
    fn is_exempt(&self, text: &[u8], secret: &Match) -> bool {
        let range = &secret.range;
        let first_start = range.end.saturating_sub(self.exempt_texts.max_bytes());
        (first_start..=range.start).any(|start| {
            let exempt = text.get(start..).and_then(|rest| self.exempt_texts.longest_prefix(rest));
            exempt.is_some_and(|exempt| {
                start + exempt.bytes.len() >= range.end && (secret.is_precaution || !exempt.is_precaution)
            })
        })
    }
}

/// Replaces the ranges. Adjacent ranges become one.
fn replace(text: &str, mut ranges: Vec<Range<usize>>) -> Cow<'_, str> {
    if ranges.is_empty() {
        return Cow::Borrowed(text);
    }
    ranges.sort_by_key(|range| range.start);
    let mut output = String::with_capacity(text.len());
    let mut end = 0;
    for range in ranges {
        if range.start > end || end == 0 {
            output.push_str(text.get(end..range.start).unwrap_or_default());
            output.push_str(REPLACEMENT);
        }
        end = end.max(range.end);
    }
    output.push_str(text.get(end..).unwrap_or_default());
    Cow::Owned(output)
}
