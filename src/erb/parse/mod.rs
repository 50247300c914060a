//! Parses a template into the tree that the evaluator walks.
//!
//! `scanner` turns the template into Ruby source, `lib-ruby-parser` parses that, and `lower` turns the syntax
//! tree into the smaller one of `ir`.

mod call;
mod flow;
pub(super) mod ir;
mod literal;
mod lower;
mod params;
mod pattern;
mod syntax;
mod target;

use std::sync::Arc;

use lib_ruby_parser::{Parser, ParserOptions, ParserResult};

use super::scanner;

/// The maximum size of a template in bytes. Parsing needs stack in proportion to nesting, and so to size.
const MAX_SOURCE_BYTES: usize = 1 << 20;

/// A parsed template.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) body: Arc<ir::Body>,
    /// The pieces of text, by the number in `Node::Text`.
    pub(super) texts: Vec<Arc<str>>,
    /// The generated Ruby source, from which errors quote expressions.
    pub(super) ruby: String,
    /// The byte offset of each line of the Ruby source.
    line_starts: Vec<u32>,
    /// The template line of each line of the Ruby source.
    lines: Vec<u32>,
}

/// The reason why a template cannot be parsed.
#[derive(Debug, Clone)]
pub(super) enum ParseError {
    /// Ruby cannot parse the template either.
    Syntax { line: u32, message: String },
    /// Ruby can parse the template, but the evaluator does not support this construct.
    Unsupported { line: u32, construct: String },
    /// The template is too large. The text is the message with the limit.
    TooLarge(String),
}

impl Template {
    /// Returns the template line of a byte offset into the Ruby source.
    pub(super) fn line_at(&self, offset: u32) -> u32 {
        line_at(&self.line_starts, &self.lines, offset)
    }

    /// Returns the source of a span, shortened to its first line and 120 characters. Returns `None` if it is
    /// template text.
    pub(super) fn excerpt(&self, span: (u32, u32)) -> Option<String> {
        let text = self.ruby.get(span.0 as usize..span.1 as usize)?.trim();
        let first_line = text.lines().next()?.trim_end();
        let short: String = first_line.chars().take(120).collect();
        if short.is_empty() || short.contains(scanner::TEXT_CALL) {
            return None;
        }
        Some(if short.len() < text.len() { format!("{short}…") } else { short })
    }
}

/// Returns the template line of a byte offset into the Ruby source. `starts` has the byte offset of each line
/// of that source, and `lines` its template line.
fn line_at(starts: &[u32], lines: &[u32], offset: u32) -> u32 {
    let row = starts.partition_point(|start| *start <= offset).saturating_sub(1);
    lines.get(row).or(lines.last()).copied().unwrap_or(1)
}

/// Parses a template. The caller's stack must be large: hostile nesting recurses as deep as the source is
/// long.
pub(super) fn parse(source: &str) -> Result<Template, ParseError> {
    if source.len() > MAX_SOURCE_BYTES {
        let text =
            format!("the template has {} bytes, more than the limit of {MAX_SOURCE_BYTES}", source.len());
        return Err(ParseError::TooLarge(text));
    }
    let scan = scanner::scan(source);
    let mut line_starts = vec![0];
    line_starts.extend(scan.ruby.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i as u32 + 1));
    let options = ParserOptions { record_tokens: false, ..ParserOptions::default() };
    let ParserResult { ast, diagnostics, input, .. } =
        Parser::new(scan.ruby.clone().into_bytes(), options).do_parse();
    let line_of = |offset: usize| line_at(&line_starts, &scan.lines, offset as u32);
    if let Some(error) = diagnostics.iter().find(|diagnostic| diagnostic.is_error()) {
        let is_after_code =
            scan.ruby.get(error.loc.begin..).is_some_and(|rest| rest.starts_with(scanner::OUTPUT_END));
        let message = match is_after_code {
            true => syntax::INCOMPLETE_CODE.to_owned(),
            false => syntax::plain_message(&error.render_message()),
        };
        return Err(ParseError::Syntax { line: line_of(error.loc.begin), message });
    }
    drop(input);
    let body = match lower::lower(ast.as_deref()) {
        Ok(body) => body,
        Err(error) => {
            if error.construct == lower::DEEP_NESTING {
                // Dropping the tree recurses as deep as the tree nests, and could overflow the stack.
                std::mem::forget(ast);
            }
            return Err(ParseError::Unsupported { line: line_of(error.offset), construct: error.construct });
        }
    };
    Ok(Template {
        body: Arc::new(body),
        texts: scan.texts.into_iter().map(Arc::from).collect(),
        ruby: scan.ruby,
        line_starts,
        lines: scan.lines,
    })
}
