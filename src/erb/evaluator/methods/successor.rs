//! `String#succ`.
//!
//! The rightmost letter or digit is incremented, with a carry to the letters and digits on its left: `az`
//! becomes `ba`. In a string without letters and digits the rightmost character is incremented.

use std::sync::LazyLock;

use fancy_regex::Regex;

/// Returns the successor of a string. If it `is_binary`, each character stands for one byte.
pub(super) fn successor(text: &str, is_binary: bool) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    if characters.is_empty() {
        return String::new();
    }
    let range_of = if is_binary { |_: char| CharRange::BYTE } else { CharRange::of };
    let mut carry: Option<(usize, char)> = None;
    // True if a character that is neither letter nor digit lies between the last carry and `index`.
    let mut is_separated = false;
    for index in (0..characters.len()).rev() {
        let character = characters[index];
        if let Some((carry_index, _)) = carry
            && is_separated
            && are_letter_and_digit(characters[carry_index], character)
        {
            break;
        }
        match increment(character, range_of(character), is_binary) {
            Step::Unchanged => is_separated = true,
            Step::Next(next) => {
                characters[index] = next;
                return characters.into_iter().collect();
            }
            Step::Carry(first, extra) => {
                is_separated = false;
                characters[index] = first;
                carry = Some((index, extra));
            }
        }
    }
    if carry.is_none() {
        for index in (0..characters.len()).rev() {
            let range = range_of(characters[index]);
            if let Some(next) = range.next(characters[index]) {
                characters[index] = next;
                return characters.into_iter().collect();
            }
            characters[index] = range.first;
        }
        carry = Some((0, '\u{1}'));
    }
    if let Some((carry_index, extra)) = carry {
        characters.insert(carry_index, extra);
    }
    characters.into_iter().collect()
}

/// The characters with the same number of UTF-8 bytes. A character is incremented within this range.
#[derive(Clone, Copy)]
struct CharRange {
    first: char,
    last: char,
}

impl CharRange {
    /// The range of a binary string.
    const BYTE: CharRange = CharRange { first: '\0', last: '\u{ff}' };

    fn of(character: char) -> CharRange {
        let (first, last) = match character.len_utf8() {
            1 => ('\0', '\u{7f}'),
            2 => ('\u{80}', '\u{7ff}'),
            3 => ('\u{800}', '\u{ffff}'),
            _ => ('\u{10000}', char::MAX),
        };
        CharRange { first, last }
    }

    fn next(self, character: char) -> Option<char> {
        (character..=self.last).nth(1)
    }

    fn previous(self, character: char) -> Option<char> {
        (self.first..=character).nth_back(1)
    }
}

/// The result of incrementing one character.
enum Step {
    /// The character is not a letter or digit, or has no neighbour of its kind.
    Unchanged,
    /// The next character of the same kind.
    Next(char),
    /// The first character of the same kind, with a carry. The second character is inserted to its left if no
    /// character there takes the carry.
    Carry(char, char),
}

/// Increments one character within its range.
fn increment(character: char, range: CharRange, is_binary: bool) -> Step {
    let Some(kind) = character_class(character, is_binary) else { return Step::Unchanged };
    let is_of_kind = |other: &char| self::character_class(*other, is_binary) == Some(kind);
    // A single character of another kind is skipped.
    let next = range.next(character);
    let second_next = next.and_then(|next| range.next(next));
    if let Some(next) = [next, second_next].into_iter().flatten().find(is_of_kind) {
        return Step::Next(next);
    }
    let mut first = character;
    while let Some(previous) = range.previous(first).filter(is_of_kind) {
        first = previous;
    }
    if first == character {
        return Step::Unchanged;
    }
    let inserted_character = match kind {
        CharacterClass::Digit => range.next(first).unwrap_or(first),
        CharacterClass::Letter => first,
    };
    Step::Carry(first, inserted_character)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CharacterClass {
    Digit,
    Letter,
}

fn character_class(character: char, is_binary: bool) -> Option<CharacterClass> {
    if character.is_ascii() || is_binary {
        return match character {
            '0'..='9' => Some(CharacterClass::Digit),
            'a'..='z' | 'A'..='Z' => Some(CharacterClass::Letter),
            _ => None,
        };
    }
    #[expect(clippy::expect_used, reason = "the pattern is a constant")]
    static DIGIT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\A\p{Nd}\z").expect("a valid pattern"));
    if character.is_numeric() && DIGIT.is_match(character.encode_utf8(&mut [0; 4])).unwrap_or(false) {
        return Some(CharacterClass::Digit);
    }
    character.is_alphabetic().then_some(CharacterClass::Letter)
}

/// Returns true if one character is an ASCII letter and the other an ASCII digit.
fn are_letter_and_digit(one: char, other: char) -> bool {
    one.is_ascii_alphabetic() && other.is_ascii_digit() || one.is_ascii_digit() && other.is_ascii_alphabetic()
}
