//! Errors of the YAML parser in plain English, with hints.

use std::borrow::Cow;

use granit_parser::{ErrorKind as NodeKind, ScanError};

use crate::position::{LineColumn, narrow};

/// The hint about a line with a wrong indentation.
const INDENT_HINT: &str = "indent the line like the lines around it";
/// The hint about a value that begins with a character of the syntax.
const QUOTE_HINT: &str = "put the value in quotes";
/// The hint about an open bracket.
pub(super) const CLOSE_BRACKET_HINT: &str =
    "add the closing bracket, or put a value that begins with it in quotes";

/// Returns the line and column of a key without a ':' after it. The parser takes such a line for the
/// beginning of a value of several lines, and reports its error in the next line.
pub(super) fn line_without_colon(text: &str, error: &ScanError) -> Option<LineColumn> {
    if !matches!(error.kind(), NodeKind::MappingValueNotAllowed) {
        return None;
    }
    let lines: Vec<&str> = text.lines().take(error.marker().line()).collect();
    let (last, lines_before) = lines.split_last()?;
    let indentation = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let index = lines_before.iter().rposition(|line| !is_blank(line))?;
    let line = lines_before.get(index)?;
    let is_key = line.trim_start().starts_with(|letter: char| letter.is_ascii_alphabetic());
    (is_key && !line.contains(':') && indentation(line) == indentation(last))
        .then(|| LineColumn { line: narrow(index + 1), column: narrow(indentation(line) + 1) })
}

/// Returns the line and column of the tab that indents a line. The parser reports the character after it, or
/// the beginning of the value that the line would continue.
pub(super) fn indenting_tab(text: &str, error: &ScanError) -> Option<LineColumn> {
    let value_line = error.marker().line().checked_sub(1)?;
    let first_index = match error.kind() {
        NodeKind::TabNotAllowed | NodeKind::TabInBlockIndentation | NodeKind::TabInIndentation => value_line,
        NodeKind::TabInPlainScalar | NodeKind::TabAtBlockScalarStart => value_line + 1,
        _ => return None,
    };
    let mut lines = text.lines().enumerate().skip(first_index).filter(|(_, line)| !line.trim().is_empty());
    lines.find_map(|(index, line)| {
        let column = line.find(|letter| letter != ' ').filter(|column| line[*column..].starts_with('\t'))?;
        Some(LineColumn { line: narrow(index + 1), column: narrow(column + 1) })
    })
}

/// Returns the line and column of the first bracket that is open at the error and was opened in an earlier
/// line, with the bracket. The parser reports a later line, whose text cannot be inside brackets.
pub(super) fn unclosed_bracket(text: &str, error: &ScanError) -> Option<(LineColumn, char)> {
    let is_of_brackets = matches!(
        error.kind(),
        NodeKind::InvalidColonPlacement
            | NodeKind::MappingValueNotAllowed
            | NodeKind::BlockEntryInFlowCollection
            | NodeKind::ExpectedFlowMappingSeparator
            | NodeKind::ExpectedFlowSequenceSeparator
    );
    if !is_of_brackets {
        return None;
    }
    let mut open_brackets = Vec::new();
    // The indentation of the key of a text block, whose lines are indented deeper.
    let mut block_key = None;
    for (index, line) in text.lines().enumerate().take(error.marker().line().saturating_sub(1)) {
        let indentation = line.len() - line.trim_start_matches(' ').len();
        if line.trim().is_empty() || block_key.is_some_and(|key| indentation > key) {
            continue;
        }
        scan_brackets(line, narrow(index + 1), &mut open_brackets);
        let last_word = line.split_whitespace().next_back().unwrap_or_default();
        let begins_block = open_brackets.is_empty() && last_word.starts_with(['|', '>']);
        block_key = begins_block.then_some(indentation);
    }
    open_brackets.into_iter().next()
}

/// Adds the brackets that a line opens, and removes those that it closes.
fn scan_brackets(line: &str, number: u32, open_brackets: &mut Vec<(LineColumn, char)>) {
    let mut quote = None;
    // A quote or a bracket is part of the syntax only at the beginning of a value.
    let mut begins_value = true;
    let mut follows_blank = true;
    for (column, letter) in line.chars().enumerate() {
        if quote.is_some() {
            quote = quote.filter(|quote| *quote != letter);
            continue;
        }
        match letter {
            '#' if follows_blank => break,
            '\'' | '"' if begins_value => quote = Some(letter),
            '[' | '{' if begins_value => {
                open_brackets.push((LineColumn { line: number, column: narrow(column + 1) }, letter));
            }
            ']' | '}' => {
                open_brackets.pop();
            }
            _ => {}
        }
        follows_blank = letter == ' ';
        begins_value = begins_value && follows_blank || matches!(letter, ':' | ',' | '-' | '[' | '{');
    }
}

/// Returns the line of the quote that is closed before the text at an error, if that is an earlier line.
fn line_of_opening_quote(text: &str, error: &ScanError) -> Option<usize> {
    let text_before = text.get(..error.marker().byte_offset()?)?.trim_end();
    let quote = text_before.chars().next_back().filter(|last| matches!(last, '\'' | '"'))?;
    let mut content = text_before.strip_suffix(quote)?;
    loop {
        content = &content[..content.rfind(quote)?];
        let backslashes = content.len() - content.trim_end_matches('\\').len();
        match quote {
            // In single quotes, two quotes stand for one.
            '\'' if content.ends_with(quote) => content = &content[..content.len() - 1],
            '"' if backslashes % 2 == 1 => {}
            _ => break,
        }
    }
    let line = content.lines().count().max(1) + usize::from(content.ends_with('\n'));
    (line < text_before.lines().count()).then_some(line)
}

/// Returns the name of the alias at an error.
fn alias<'t>(text: &'t str, error: &ScanError) -> Option<&'t str> {
    let rest = text.get(error.marker().byte_offset()?..)?.strip_prefix('*')?;
    let end = rest.find(|letter: char| letter.is_whitespace() || ",]}".contains(letter));
    Some(&rest[..end.unwrap_or(rest.len())]).filter(|name| !name.is_empty())
}

/// Returns true if the ':' of an error follows another one in its line.
fn follows_key(text: &str, error: &ScanError) -> bool {
    let text_before = error.marker().byte_offset().and_then(|offset| text.get(..offset));
    text_before
        .is_some_and(|text_before| text_before.rsplit('\n').next().is_some_and(|line| line.contains(": ")))
}

/// Describes the problem of a line that does not continue the block before it, with a hint. Compares its
/// indentation with those of the lines before it.
fn indentation_problem(text: &str, error: &ScanError) -> (Cow<'static, str>, Cow<'static, str>) {
    let indentation = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let lines = text.lines().enumerate().take(error.marker().line());
    let lines: Vec<(usize, &str)> = lines.filter(|(_, line)| !is_blank(line)).collect();
    match lines.split_last() {
        Some(((_, line), [lines_before @ .., (last_index, last)]))
            if lines_before.iter().all(|(_, other)| indentation(other) != indentation(line))
                && indentation(last) != indentation(line) =>
        {
            let count = indentation(line);
            let spaces = if count == 1 { "space" } else { "spaces" };
            (
                format!("this line is indented by {count} {spaces}, but no line before it is").into(),
                format!(
                    "indent it like the lines before it: line {} begins in column {}",
                    last_index + 1,
                    indentation(last) + 1
                )
                .into(),
            )
        }
        Some(((_, line), _)) if line.trim_start().starts_with("- ") => (
            "there is a list item ('-') where a key is expected".into(),
            "move the item to the others of its list".into(),
        ),
        _ => match error.kind() {
            NodeKind::ExpectedBlockSequenceEntry => (
                "there is a key where a list item ('-') is expected".into(),
                "indent the key like the others of its mapping".into(),
            ),
            _ => ("this line does not continue the lines before it".into(), INDENT_HINT.into()),
        },
    }
}

/// Describes an error, with a hint if one helps.
pub(super) fn describe(text: &str, error: &ScanError) -> (Cow<'static, str>, Option<Cow<'static, str>>) {
    let (problem, hint) = match error.kind() {
        NodeKind::UnknownAnchor => {
            let problem = match alias(text, error) {
                Some(name) => format!("there is no anchor '&{name}' for the alias '*{name}'").into(),
                None => "this alias names an anchor that does not exist".into(),
            };
            return (problem, Some("put a value that begins with '*' in quotes".into()));
        }
        NodeKind::UnexpectedCharacter { character } => {
            let problem = match character {
                '@' | '`' | '%' => format!("a value cannot begin with '{character}'"),
                other => format!("the character '{}' cannot be here", other.escape_default()),
            };
            return (problem.into(), Some(QUOTE_HINT.into()));
        }
        NodeKind::MappingValueNotAllowed if follows_key(text, error) => {
            ("a value without quotes cannot contain ': '", QUOTE_HINT)
        }
        NodeKind::MappingValueNotAllowed => {
            ("this key is indented as if it were part of the value before it", INDENT_HINT)
        }
        NodeKind::ExpectedBlockMappingKey
        | NodeKind::InvalidIndentation
        | NodeKind::ExpectedBlockSequenceEntry => {
            let (problem, hint) = indentation_problem(text, error);
            return (problem, Some(hint));
        }
        NodeKind::SimpleKeyExpected | NodeKind::InvalidSimpleKey => (
            "this line is neither 'key: value' nor part of the value before it",
            "write 'key: value', or \
              indent the line deeper if it belongs to the value before it",
        ),
        NodeKind::TabNotAllowed
        | NodeKind::TabInBlockIndentation
        | NodeKind::TabInIndentation
        | NodeKind::TabInPlainScalar
        | NodeKind::TabAtBlockScalarStart => ("a tab cannot indent a line", "indent with spaces"),
        NodeKind::InvalidTrailingSingleQuotedScalar | NodeKind::InvalidTrailingDoubleQuotedScalar => {
            if let Some(line) = line_of_opening_quote(text, error) {
                return (
                    format!("there is text after the quote that closes the one of line {line}").into(),
                    Some(format!("if the value ends in line {line}, close its quote there").into()),
                );
            }
            (
                "there is text after the closing quote",
                "put the whole value in quotes; in single quotes, write a quote twice",
            )
        }
        NodeKind::UnclosedQuotedScalar => {
            ("the quote that begins here is not closed", "add the closing quote")
        }
        NodeKind::UnknownQuotedScalarEscape => (
            "'\\' before this character has no meaning in double quotes",
            "write '\\\\' for a backslash, or use \
              single quotes",
        ),
        NodeKind::BlockSequenceEntryNotAllowed => {
            ("a list cannot begin in the line of its key", "begin the list in the next line")
        }
        NodeKind::InvalidBlockScalarHeader => {
            ("there is text after '|' or '>'", "begin the text in the next line, or put the value in quotes")
        }
        NodeKind::ExpectedFlowMappingSeparator => {
            ("a ',' or '}' is missing", "close the mapping that '{' begins")
        }
        NodeKind::BlockEntryInFlowCollection => (
            "a list with '-' cannot be inside brackets, and a bracket before it is not closed",
            "close the bracket, or put a value that begins with '-' in quotes",
        ),
        NodeKind::ExpectedFlowSequenceSeparator => {
            ("a ',' or ']' is missing", "close the list that '[' begins")
        }
        NodeKind::UnclosedFlowCollection { open } => {
            return (format!("the bracket '{open}' is not closed").into(), Some(CLOSE_BRACKET_HINT.into()));
        }
        NodeKind::MismatchedFlowCollectionEnd { open, close } => {
            let problem = format!("the bracket '{open}' is closed by '{close}'");
            return (problem.into(), Some("close the brackets in the reverse order of their opening".into()));
        }
        NodeKind::MisplacedFlowCollectionEnd => {
            ("there is a closing bracket without an opening one", QUOTE_HINT)
        }
        NodeKind::UnsupportedYamlMajorVersion => {
            ("this version of YAML is not supported", "remove the line that begins with %YAML")
        }
        other => return (other.to_string().into(), None),
    };
    (problem.into(), Some(hint.into()))
}
