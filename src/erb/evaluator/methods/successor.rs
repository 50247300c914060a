//! `succ`: the string after a string.

use std::sync::LazyLock;

use fancy_regex::Regex;

/// The next string: the rightmost letter or digit goes up, carrying to the left; where there is none, the
/// rightmost character does. Bytes, as characters, are what a binary string has.
pub(super) fn successor(text: &str, binary: bool) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    if characters.is_empty() {
        return String::new();
    }
    let width = if binary { |_: char| Width::BYTE } else { Width::of };
    let mut carry: Option<(usize, char)> = None;
    // Whether something that is neither letter nor digit stands between the last carry and here.
    let mut apart = false;
    for index in (0..characters.len()).rev() {
        let character = characters[index];
        if let Some((at, _)) = carry
            && apart
            && unlike(characters[at], character)
        {
            break;
        }
        match step(character, width(character), binary) {
            Step::Not => apart = true,
            Step::To(next) => {
                characters[index] = next;
                return characters.into_iter().collect();
            }
            Step::Wrapped(first, extra) => {
                apart = false;
                characters[index] = first;
                carry = Some((index, extra));
            }
        }
    }
    if carry.is_none() {
        for index in (0..characters.len()).rev() {
            let width = width(characters[index]);
            if let Some(next) = width.next(characters[index]) {
                characters[index] = next;
                return characters.into_iter().collect();
            }
            characters[index] = width.first;
        }
        carry = Some((0, '\u{1}'));
    }
    if let Some((at, extra)) = carry {
        characters.insert(at, extra);
    }
    characters.into_iter().collect()
}

/// Characters of as many bytes: a character goes up within them.
#[derive(Clone, Copy)]
struct Width {
    first: char,
    last: char,
}

impl Width {
    const BYTE: Width = Width { first: '\0', last: '\u{ff}' };

    fn of(character: char) -> Width {
        let (first, last) = match character.len_utf8() {
            1 => ('\0', '\u{7f}'),
            2 => ('\u{80}', '\u{7ff}'),
            3 => ('\u{800}', '\u{ffff}'),
            _ => ('\u{10000}', char::MAX),
        };
        Width { first, last }
    }

    fn next(self, character: char) -> Option<char> {
        (character..=self.last).nth(1)
    }

    fn previous(self, character: char) -> Option<char> {
        (self.first..=character).nth_back(1)
    }
}

/// What becomes of a character.
enum Step {
    /// It is neither letter nor digit.
    Not,
    To(char),
    /// It starts again, with another one to its left.
    Wrapped(char, char),
}

fn step(character: char, width: Width, binary: bool) -> Step {
    let Some(kind) = kind(character, binary) else { return Step::Not };
    let alike = |other: &char| self::kind(*other, binary) == Some(kind);
    // A gap of one is jumped over.
    let next = width.next(character);
    let after = next.and_then(|next| width.next(next));
    if let Some(next) = [next, after].into_iter().flatten().find(alike) {
        return Step::To(next);
    }
    let mut first = character;
    while let Some(previous) = width.previous(first).filter(alike) {
        first = previous;
    }
    if first == character {
        return Step::Not;
    }
    let extra = match kind {
        Kind::Digit => width.next(first).unwrap_or(first),
        Kind::Letter => first,
    };
    Step::Wrapped(first, extra)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Digit,
    Letter,
}

fn kind(character: char, binary: bool) -> Option<Kind> {
    if character.is_ascii() || binary {
        return match character {
            '0'..='9' => Some(Kind::Digit),
            'a'..='z' | 'A'..='Z' => Some(Kind::Letter),
            _ => None,
        };
    }
    #[expect(clippy::expect_used, reason = "the pattern is a constant")]
    static DIGIT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\A\p{Nd}\z").expect("a valid pattern"));
    if character.is_numeric() && DIGIT.is_match(character.encode_utf8(&mut [0; 4])).unwrap_or(false) {
        return Some(Kind::Digit);
    }
    character.is_alphabetic().then_some(Kind::Letter)
}

/// Whether of two characters of ASCII one is a letter and the other a digit.
fn unlike(one: char, other: char) -> bool {
    one.is_ascii_alphabetic() && other.is_ascii_digit() || one.is_ascii_digit() && other.is_ascii_alphabetic()
}
