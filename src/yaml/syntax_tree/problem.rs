//! Errors of the YAML parser in plain English, with hints.

use std::borrow::Cow;

use granit_parser::{ErrorKind as Kind, ScanError};

use crate::position::{LineColumn, narrow};

const INDENT: &str = "indent the line like the lines around it";
const QUOTE: &str = "put the value in quotes";

/// Returns the place of a line without a ':' after its key. The parser takes such a line for the beginning of
/// a value that goes on, and finds its error in the next line.
pub(super) fn keyless_line(text: &str, error: &ScanError) -> Option<LineColumn> {
    if !matches!(error.kind(), Kind::MappingValueNotAllowed) {
        return None;
    }
    let lines: Vec<&str> = text.lines().take(error.marker().line()).collect();
    let (last, before) = lines.split_last()?;
    let indentation = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let index = before.iter().rposition(|line| !is_blank(line))?;
    let line = before.get(index)?;
    let is_key = line.trim_start().starts_with(|letter: char| letter.is_ascii_alphabetic());
    (is_key && !line.contains(':') && indentation(line) == indentation(last))
        .then(|| LineColumn { line: narrow(index + 1), column: narrow(indentation(line) + 1) })
}

/// Describes an error, with a hint if one helps.
pub(super) fn describe(kind: &Kind) -> (Cow<'static, str>, Option<&'static str>) {
    let (problem, hint) = match kind {
        Kind::UnknownAnchor => {
            ("this alias names an anchor that does not exist", "put a value that begins with '*' in quotes")
        }
        Kind::UnexpectedCharacter { character } => {
            let problem = match character {
                '@' | '`' | '%' => format!("a value cannot begin with '{character}'"),
                other => format!("the character '{}' cannot be here", other.escape_default()),
            };
            return (problem.into(), Some(QUOTE));
        }
        Kind::MappingValueNotAllowed => (
            "there cannot be a ': ' here",
            "indent the line like the lines around it, or put a value that contains ': ' in quotes",
        ),
        Kind::ExpectedBlockMappingKey | Kind::InvalidIndentation | Kind::ExpectedBlockSequenceEntry => {
            ("this line is indented in another way than the lines around it", INDENT)
        }
        Kind::SimpleKeyExpected | Kind::InvalidSimpleKey => (
            "this line is neither 'key: value' nor part of the value before it",
            "write 'key: value', or \
              indent the line deeper if it belongs to the value before it",
        ),
        Kind::TabNotAllowed | Kind::TabInBlockIndentation | Kind::TabInIndentation => {
            ("a tab cannot indent a line", "indent with spaces")
        }
        Kind::TabInPlainScalar | Kind::TabAtBlockScalarStart => (
            "there is a tab in a value without quotes or in its indentation",
            "indent with spaces, or put the \
              value in quotes",
        ),
        Kind::InvalidTrailingSingleQuotedScalar | Kind::InvalidTrailingDoubleQuotedScalar => (
            "there is text after the closing quote",
            "put the whole value in quotes; in single quotes, write a quote twice",
        ),
        Kind::UnclosedQuotedScalar => ("the quote that begins here is not closed", "add the closing quote"),
        Kind::UnknownQuotedScalarEscape => (
            "'\\' before this character has no meaning in double quotes",
            "write '\\\\' for a backslash, or use \
              single quotes",
        ),
        Kind::BlockSequenceEntryNotAllowed => {
            ("a list cannot begin in the line of its key", "begin the list in the next line")
        }
        Kind::InvalidBlockScalarHeader => {
            ("there is text after '|' or '>'", "begin the text in the next line, or put the value in quotes")
        }
        Kind::ExpectedFlowMappingSeparator => {
            ("a ',' or '}' is missing", "close the mapping that '{' begins")
        }
        Kind::BlockEntryInFlowCollection => (
            "a list with '-' cannot be inside brackets, and a bracket before it is not closed",
            "close the bracket, or put a value that begins with '-' in quotes",
        ),
        Kind::ExpectedFlowSequenceSeparator => ("a ',' or ']' is missing", "close the list that '[' begins"),
        Kind::UnclosedFlowCollection { open } => {
            return (format!("the bracket '{open}' is not closed").into(), None);
        }
        Kind::MismatchedFlowCollectionEnd { open, close } => {
            return (format!("the bracket '{open}' is closed by '{close}'").into(), None);
        }
        Kind::MisplacedFlowCollectionEnd => ("there is a closing bracket without an opening one", QUOTE),
        Kind::UnsupportedYamlMajorVersion => ("this version of YAML is not supported", "remove the line"),
        other => return (other.to_string().into(), None),
    };
    (problem.into(), Some(hint))
}
