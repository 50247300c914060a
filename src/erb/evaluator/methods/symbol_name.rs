//! Which symbols Ruby writes without quotes.

use super::show::is_printable;

/// What a name could name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
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

/// Whether Ruby shows a symbol of this name without quotes.
pub(super) fn is_plain(name: &str) -> bool {
    kind(name).is_some() && name.chars().all(|character| matches!(character, ' '..='~') || shown(character))
}

fn shown(character: char) -> bool {
    !character.is_ascii() && is_printable(character)
}

fn kind(name: &str) -> Option<Names> {
    const OPERATORS: &[&str] = &[
        "+", "-", "*", "/", "%", "**", "==", "!=", "<", ">", "<=", ">=", "<=>", "===", "[]", "[]=", "<<",
        ">>", "!", "=~", "!~", "&", "|", "^", "~", "+@", "-@", "`",
    ];
    if OPERATORS.contains(&name) {
        return Some(Names::Operator);
    }
    if let Some(global) = name.strip_prefix('$') {
        return if is_special_global(global) {
            Some(Names::Variable)
        } else {
            identifier(name, global, true)
        };
    }
    if let Some(variable) = name.strip_prefix("@@").or(name.strip_prefix('@')) {
        return identifier(name, variable, true);
    }
    // What begins like an operator and is none is nothing.
    if name.starts_with(['+', '-', '*', '/', '%', '<', '>', '=', '!', '&', '|', '^', '~', '`', '\0'])
        || name.starts_with("[]")
    {
        return None;
    }
    identifier(name, name, false)
}

/// A name without its `$`, `@` or `@@`.
fn identifier(name: &str, body: &str, variable: bool) -> Option<Names> {
    let part =
        |character: char| character.is_ascii_alphanumeric() || character == '_' || !character.is_ascii();
    if !body.starts_with(|first: char| part(first) && !first.is_ascii_digit()) {
        // Whatever ends in `=` could be a writer, if what is before it is not one.
        let before = name.strip_suffix('=').filter(|before| !before.is_empty())?;
        return (kind(before) != Some(Names::Writer)).then_some(Names::Writer);
    }
    match (body.trim_start_matches(part), variable) {
        ("", true) => Some(Names::Variable),
        ("", false) => Some(Names::Plain),
        ("?" | "!", false) => Some(Names::Marked),
        ("=", false) => Some(Names::Writer),
        _ => None,
    }
}

/// `$~`, `$1`, `$-w` and the like, without the `$`.
fn is_special_global(name: &str) -> bool {
    if let Some(option) = name.strip_prefix('-') {
        let mut characters = option.chars();
        let first = characters.next();
        return characters.next().is_none()
            && first.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii());
    }
    let mut characters = name.chars();
    let punctuation = characters.next().is_some_and(|first| "~*$?!@/\\;,.=:<>\"&`'+0_".contains(first));
    punctuation && characters.next().is_none()
        || !name.is_empty() && name.bytes().all(|digit| digit.is_ascii_digit())
}
