//! Recognises the symbols that Ruby shows without quotes.

use super::show::is_printable;

/// The kind of thing that a name can refer to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameKind {
    /// A local variable, constant or method.
    Plain,
    /// A global, class or instance variable.
    Variable,
    /// A method that ends in `?` or `!`.
    Marked,
    Operator,
    /// A method that ends in `=`.
    Writer,
}

/// Returns true if Ruby shows a symbol with this name without quotes.
pub(super) fn is_plain(name: &str) -> bool {
    classify_name(name).is_some()
        && name.chars().all(|character| matches!(character, ' '..='~') || is_shown_unescaped(character))
}

fn is_shown_unescaped(character: char) -> bool {
    !character.is_ascii() && is_printable(character)
}

/// Classifies a name as Ruby's lexer does. Returns `None` for a name that only `:"…"` can write.
fn classify_name(name: &str) -> Option<NameKind> {
    const OPERATORS: &[&str] = &[
        "+", "-", "*", "/", "%", "**", "==", "!=", "<", ">", "<=", ">=", "<=>", "===", "[]", "[]=", "<<",
        ">>", "!", "=~", "!~", "&", "|", "^", "~", "+@", "-@", "`",
    ];
    if OPERATORS.contains(&name) {
        return Some(NameKind::Operator);
    }
    if let Some(global) = name.strip_prefix('$') {
        return if is_special_global(global) {
            Some(NameKind::Variable)
        } else {
            classify_identifier(name, global, true)
        };
    }
    if let Some(variable) = name.strip_prefix("@@").or(name.strip_prefix('@')) {
        return classify_identifier(name, variable, true);
    }
    // Only operators start with these characters, and `name` is not one of them.
    if name.starts_with(['+', '-', '*', '/', '%', '<', '>', '=', '!', '&', '|', '^', '~', '`', '\0'])
        || name.starts_with("[]")
    {
        return None;
    }
    classify_identifier(name, name, false)
}

/// Classifies an identifier. `body` is `name` without its `$`, `@` or `@@`.
fn classify_identifier(name: &str, body: &str, is_variable: bool) -> Option<NameKind> {
    let part =
        |character: char| character.is_ascii_alphanumeric() || character == '_' || !character.is_ascii();
    if !body.starts_with(|first: char| part(first) && !first.is_ascii_digit()) {
        // Ruby accepts any name before the `=` of a writer, except the name of a writer.
        let text_before = name.strip_suffix('=').filter(|text_before| !text_before.is_empty())?;
        return (classify_name(text_before) != Some(NameKind::Writer)).then_some(NameKind::Writer);
    }
    match (body.trim_start_matches(part), is_variable) {
        ("", true) => Some(NameKind::Variable),
        ("", false) => Some(NameKind::Plain),
        ("?" | "!", false) => Some(NameKind::Marked),
        ("=", false) => Some(NameKind::Writer),
        _ => None,
    }
}

/// Returns true for the names of `$~`, `$1`, `$-w` and the like, without their `$`.
fn is_special_global(name: &str) -> bool {
    if let Some(option) = name.strip_prefix('-') {
        let mut characters = option.chars();
        let first = characters.next();
        return characters.next().is_none()
            && first.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii());
    }
    let mut characters = name.chars();
    let starts_with_punctuation =
        characters.next().is_some_and(|first| "~*$?!@/\\;,.=:<>\"&`'+0_".contains(first));
    starts_with_punctuation && characters.next().is_none()
        || !name.is_empty() && name.bytes().all(|digit| digit.is_ascii_digit())
}
