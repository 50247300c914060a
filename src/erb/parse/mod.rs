//! From template source to the tree the evaluator walks.

mod call;
mod flow;
pub(super) mod ir;
mod literal;
mod lower;
mod params;
mod pattern;
mod target;

use std::sync::Arc;

use lib_ruby_parser::{Parser, ParserOptions, ParserResult};

use super::scanner;

/// Templates above this size are refused: parsing needs stack in proportion to nesting.
const MAX_SOURCE: usize = 1 << 20;

/// A template ready to be evaluated.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) body: Arc<ir::Body>,
    pub(super) texts: Vec<Arc<str>>,
    /// The generated Ruby source, for the expressions in errors.
    pub(super) ruby: String,
    line_starts: Vec<u32>,
    lines: Vec<u32>,
}

/// Why a template has no tree.
#[derive(Debug, Clone)]
pub(super) enum ParseError {
    /// Ruby would not parse it either.
    Syntax { line: u32, message: String },
    /// Ruby parses it, but it is not supported here.
    Unsupported { line: u32, construct: String },
    /// It is too large.
    TooLarge(String),
}

impl Template {
    /// The template line of a byte offset into the generated Ruby.
    pub(super) fn line_at(&self, offset: u32) -> u32 {
        line_at(&self.line_starts, &self.lines, offset)
    }

    /// The source text of a span, shortened to one line.
    pub(super) fn excerpt(&self, span: (u32, u32)) -> Option<String> {
        let text = self.ruby.get(span.0 as usize..span.1 as usize)?.trim();
        let first = text.lines().next()?.trim_end();
        let short: String = first.chars().take(120).collect();
        if short.is_empty() || short.contains(scanner::TEXT_CALL) {
            return None;
        }
        Some(if short.len() < text.len() { format!("{short}…") } else { short })
    }
}

fn line_at(starts: &[u32], lines: &[u32], offset: u32) -> u32 {
    let row = starts.partition_point(|start| *start <= offset).saturating_sub(1);
    lines.get(row).or(lines.last()).copied().unwrap_or(1)
}

/// Parses a template. Needs a deep stack: hostile nesting recurses as deep as the source is long.
pub(super) fn parse(source: &str) -> Result<Template, ParseError> {
    if source.len() > MAX_SOURCE {
        return Err(ParseError::TooLarge(format!("the template is larger than {MAX_SOURCE} bytes")));
    }
    let scanned = scanner::scan(source);
    let mut line_starts = vec![0];
    line_starts
        .extend(scanned.ruby.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i as u32 + 1));
    let options = ParserOptions { record_tokens: false, ..ParserOptions::default() };
    let ParserResult { ast, diagnostics, input, .. } =
        Parser::new(scanned.ruby.clone().into_bytes(), options).do_parse();
    let at = |offset: usize| line_at(&line_starts, &scanned.lines, offset as u32);
    if let Some(error) = diagnostics.iter().find(|diagnostic| diagnostic.is_error()) {
        return Err(ParseError::Syntax { line: at(error.loc.begin), message: error.render_message() });
    }
    drop(input);
    let body = match lower::lower(ast.as_deref()) {
        Ok(body) => body,
        Err(refused) => {
            if refused.construct == lower::TOO_DEEP {
                // Taking such a tree apart would recurse as deep as it is.
                std::mem::forget(ast);
            }
            return Err(ParseError::Unsupported { line: at(refused.offset), construct: refused.construct });
        }
    };
    Ok(Template {
        body: Arc::new(body),
        texts: scanned.texts.into_iter().map(Arc::from).collect(),
        ruby: scanned.ruby,
        line_starts,
        lines: scanned.lines,
    })
}
