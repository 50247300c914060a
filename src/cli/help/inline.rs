//! Text with styles, and its lines.

use clap::builder::styling::Style;

use crate::ui;

/// Text with styles. A non-breaking space keeps two words on one line; `\n` breaks a line.
#[derive(Debug, Clone, Default)]
pub(super) struct Inline(Vec<(Style, String)>);

impl Inline {
    /// Appends text.
    pub(super) fn push(&mut self, style: Style, text: &str) {
        match self.0.last_mut() {
            Some((last, end)) if *last == style => end.push_str(text),
            _ => self.0.push((style, text.to_owned())),
        }
    }

    pub(super) fn ends_with(&self, character: char) -> bool {
        self.0.last().is_some_and(|(_, text)| text.ends_with(character))
    }

    /// Returns the words. An empty one breaks the line.
    fn words(&self) -> Vec<Inline> {
        let (mut words, mut word) = (Vec::new(), Inline::default());
        for (style, text) in &self.0 {
            for part in text.split_inclusive([' ', '\n']) {
                let bare_part = part.trim_end_matches([' ', '\n']);
                if !bare_part.is_empty() {
                    word.push(*style, bare_part);
                }
                if part.len() > bare_part.len() && !word.0.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                if part.ends_with('\n') {
                    words.push(Inline::default());
                }
            }
        }
        if !word.0.is_empty() {
            words.push(word);
        }
        words
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| ui::width(text)).sum()
    }

    /// Returns the width of the widest word.
    pub(super) fn longest_word(&self) -> usize {
        self.words().iter().map(Inline::width).max().unwrap_or_default()
    }

    /// Returns the text with escape sequences for its styles.
    fn to_ansi_text(&self) -> String {
        let paint = |(style, text): &(Style, String)| {
            let text = text.replace('\u{a0}', " ");
            format!("{style}{text}{style:#}")
        };
        self.0.iter().map(paint).collect()
    }
}

/// A line with escape sequences.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) width: usize,
}

/// Breaks text between words, to at most `columns`. Wider words stay whole. Empty text has no line.
pub(super) fn wrap(text: &Inline, columns: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut is_new = true;
    for word in text.words() {
        let width = word.width();
        if width == 0 {
            is_new = true;
            continue;
        }
        match lines.last_mut() {
            Some(line) if !is_new && line.width + 1 + width <= columns => {
                line.text.push(' ');
                line.text.push_str(&word.to_ansi_text());
                line.width += 1 + width;
            }
            _ => lines.push(Line { text: word.to_ansi_text(), width }),
        }
        is_new = false;
    }
    lines
}
