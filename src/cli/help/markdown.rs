//! Renders a page of the book for a terminal. Wraps paragraphs and tables, and names the page or file behind
//! a link. Leaves out pictures within a paragraph.

use clap::builder::styling::Style;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::inline::{Inline, wrap};
use super::text_table::TextTable;
use crate::ui;

/// The indentation of text. Headings begin further to the left.
const BODY_INDENT: usize = 4;

/// Code up to this width stays on one line, so that it can be copied.
const MAX_WHOLE_CODE_COLUMNS: usize = 34;

/// Returns the name of the page in this file, if the program has it.
pub(super) type PageNames<'a> = &'a dyn Fn(&str) -> Option<&'static str>;

/// Renders a page for this number of columns.
pub(super) fn render(markdown: &str, columns: usize, is_styled: bool, page_name: PageNames<'_>) -> String {
    let mut page = Page::new(columns, is_styled, page_name);
    Parser::new_ext(markdown, Options::ENABLE_TABLES).for_each(|event| page.add(event));
    page.text.truncate(page.text.trim_end().len());
    page.text + "\n"
}

/// A section of a page, with the sections below it.
pub(super) struct Section {
    /// The words of its heading.
    pub(super) title: String,
    /// The anchor of its heading, as links name it.
    pub(super) anchor: String,
    /// Its text in Markdown, with the heading.
    pub(super) markdown: String,
}

/// Returns the sections of a page, in order. The heading of the page itself begins none.
pub(super) fn sections(markdown: &str) -> Vec<Section> {
    let mut headings: Vec<(HeadingLevel, usize, String)> = Vec::new();
    let mut is_in_heading = false;
    for (event, range) in Parser::new_ext(markdown, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                headings.push((level, range.start, String::new()));
                is_in_heading = true;
            }
            Event::End(TagEnd::Heading(_)) => is_in_heading = false,
            Event::Text(text) | Event::Code(text) if is_in_heading => {
                headings.iter_mut().last().into_iter().for_each(|(.., title)| title.push_str(&text));
            }
            _ => {}
        }
    }
    let section = |(index, (level, start, title)): (usize, &(HeadingLevel, usize, String))| {
        let next_heading = headings.iter().skip(index + 1).find(|(next_level, ..)| next_level <= level);
        let end = next_heading.map_or(markdown.len(), |(_, next_start, _)| *next_start);
        let text = markdown.get(*start..end).unwrap_or_default();
        Section { title: title.clone(), anchor: anchor(title), markdown: text.to_owned() }
    };
    let is_section = |(_, (level, ..)): &(usize, &(HeadingLevel, usize, String))| *level > HeadingLevel::H1;
    headings.iter().enumerate().filter(is_section).map(section).collect()
}

/// A row of a table that leads from messages to sections.
#[derive(Default)]
pub(super) struct MessageRow {
    /// The codes in its first cell.
    pub(super) messages: Vec<String>,
    /// The targets of the links in the other cells.
    pub(super) targets: Vec<String>,
}

/// Returns the rows of all tables that have codes in their first cell and links in another one.
pub(super) fn message_rows(markdown: &str) -> Vec<MessageRow> {
    let mut rows = Vec::new();
    let (mut row, mut column) = (MessageRow::default(), 0);
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::TableRow) => (row, column) = (MessageRow::default(), 0),
            Event::End(TagEnd::TableCell) => column += 1,
            Event::Code(code) if column == 0 => row.messages.push(code.trim().to_owned()),
            Event::Start(Tag::Link { dest_url, .. }) if column > 0 => {
                row.targets.push(dest_url.into_string())
            }
            Event::End(TagEnd::TableRow) if !row.messages.is_empty() && !row.targets.is_empty() => {
                rows.push(std::mem::take(&mut row));
            }
            _ => {}
        }
    }
    rows
}

/// Returns the anchor of a heading.
pub(super) fn anchor(title: &str) -> String {
    let anchor_character = |character: char| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        _ => character.is_alphanumeric().then_some(character),
    };
    title.to_lowercase().chars().filter_map(anchor_character).collect()
}

/// A page that is being written.
struct Page<'a> {
    columns: usize,
    is_styled: bool,
    page_name: PageNames<'a>,
    text: String,
    /// The text of the paragraph, heading, item or cell.
    inline: Inline,
    /// The numbers of open bold and of open emphasised texts.
    bold: usize,
    emphasised: usize,
    /// The targets of open links, with the text between a link and what it explains.
    links: Vec<(String, &'static str)>,
    /// The number of open pictures, whose text is left out.
    pictures: usize,
    /// The open lists, each with the number of the next item.
    lists: Vec<Option<u64>>,
    /// The widths of the marks of open items.
    marks: Vec<usize>,
    /// The mark of an item without text so far.
    mark: Option<String>,
    table: Option<TextTable>,
    code: Option<Code>,
}

/// A block of code.
struct Code {
    /// True for messages. Commands and files must not be broken.
    is_message: bool,
    text: String,
}

impl<'a> Page<'a> {
    fn new(columns: usize, is_styled: bool, page_name: PageNames<'a>) -> Self {
        Page {
            columns,
            is_styled,
            page_name,
            text: String::new(),
            inline: Inline::default(),
            bold: 0,
            emphasised: 0,
            links: Vec::new(),
            pictures: 0,
            lists: Vec::new(),
            marks: Vec::new(),
            mark: None,
            table: None,
            code: None,
        }
    }

    fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.text.push_str(&text),
                None => self.write(&text),
            },
            Event::Code(text) => self.write(&shown_code(&text)),
            Event::SoftBreak => self.write(" "),
            Event::HardBreak => self.write("\n"),
            Event::InlineHtml(tag) if &*tag == "<br>" => self.write("\n"),
            _ => {}
        }
    }

    /// Begins an element: text that came before it is written, and its style or indent applies from here on.
    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.add_blank_line(),
            Tag::Heading { .. } => {
                self.add_blank_line();
                self.bold += 1;
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                self.add_blank_line();
                let is_message = matches!(kind, CodeBlockKind::Fenced(mark) if &*mark == "text");
                self.code = Some(Code { is_message, text: String::new() });
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.add_blank_line();
                }
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::Table(_) => {
                self.add_blank_line();
                self.table = Some(TextTable::default());
            }
            Tag::TableHead => self.bold += 1,
            Tag::Strong => self.bold += 1,
            Tag::Emphasis => {
                self.emphasised += 1;
                self.quote_emphasis();
            }
            Tag::Link { dest_url, .. } => {
                let link = if self.inline.ends_with('(') { (": ", "") } else { (" (", ")") };
                self.links.push((dest_url.into_string(), link.0));
            }
            Tag::Image { .. } => self.pictures += 1,
            _ => {}
        }
    }

    /// Ends an element: writes the text or table that was collected for it, and undoes its style or indent.
    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.flush(),
            TagEnd::Heading(level) => {
                self.bold -= 1;
                let indent = if level <= HeadingLevel::H2 { 0 } else { BODY_INDENT / 2 };
                let heading = std::mem::take(&mut self.inline);
                for line in wrap(&heading, self.columns.saturating_sub(indent)) {
                    self.add_line(indent, &line.text);
                }
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => drop(self.lists.pop()),
            TagEnd::Item => {
                self.flush();
                self.mark = None;
                self.marks.pop();
            }
            TagEnd::Table => {
                let indent = self.indent();
                let rows = self.table.take().map(|table| table.lines(self.columns.saturating_sub(indent)));
                rows.iter().flatten().for_each(|line| self.add_line(indent, line));
            }
            TagEnd::TableHead => {
                self.bold -= 1;
                self.table.iter_mut().for_each(TextTable::end_row);
            }
            TagEnd::TableRow => self.table.iter_mut().for_each(TextTable::end_row),
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                self.table.iter_mut().for_each(|table| table.add(cell.clone()));
            }
            TagEnd::Strong => self.bold -= 1,
            TagEnd::Emphasis => {
                self.emphasised -= 1;
                self.quote_emphasis();
            }
            TagEnd::Link => {
                if let Some((target, text_before)) = self.links.pop()
                    && let Some(address) = self.link_target(&target)
                {
                    self.write(&format!(
                        "{text_before}{address}{}",
                        if text_before == " (" { ")" } else { "" }
                    ));
                }
            }
            TagEnd::Image => self.pictures -= 1,
            _ => {}
        }
    }

    /// Returns the command that prints the page or section behind a link, a file of the repository, or an
    /// address. Returns nothing for another section of the same page.
    fn link_target(&self, target: &str) -> Option<String> {
        if target.contains("://") {
            return Some(target.to_owned());
        }
        let (file, section) = target.split_once('#').unwrap_or((target, ""));
        if file.is_empty() {
            return None;
        }
        Some(match file.strip_suffix(".md").and_then(self.page_name) {
            Some(name) => {
                let command = unbroken(&format!("monopile help {name}"));
                unbroken_if_short(format!("{command} {section}").trim_end())
            }
            None => format!("{} in the repository", unbroken(&format!("docs/{file}"))),
        })
    }

    fn start_item(&mut self) {
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "- ".to_owned(),
        };
        self.marks.push(mark.len());
        self.mark = Some(mark);
    }

    fn end_code(&mut self) {
        let Some(code) = self.code.take() else { return };
        let width = code.text.lines().map(ui::width).max().unwrap_or_default();
        let (indent, spare_columns) = (self.indent() + BODY_INDENT, self.columns.checked_sub(width));
        // A drawing may need the whole width. Commands and files do not begin to the left of the text.
        let indent = match spare_columns {
            Some(spare_columns) if code.is_message => indent.min(spare_columns),
            None if code.is_message => indent,
            spare_columns => indent.min(spare_columns.unwrap_or_default()).max(self.indent()),
        };
        let text = match code.is_message && spare_columns.is_none() {
            true => ui::wrap(&code.text, self.columns.saturating_sub(indent)),
            false => code.text,
        };
        text.lines().for_each(|line| self.add_line(indent, line));
    }

    /// Adds to the text of the paragraph, heading, item or cell.
    fn write(&mut self, text: &str) {
        if self.pictures > 0 {
            return;
        }
        let mut style = Style::new();
        if self.is_styled && self.bold > 0 {
            style = style.bold();
        }
        if self.is_styled && self.emphasised > 0 {
            style = style.underline();
        }
        self.inline.push(style, text);
    }

    /// Begins or ends the quotes that show emphasised words without styles.
    fn quote_emphasis(&mut self) {
        if !self.is_styled {
            self.write("\"");
        }
    }

    /// Ends a paragraph or an item.
    fn flush(&mut self) {
        let indent = self.indent();
        let text = std::mem::take(&mut self.inline);
        for line in wrap(&text, self.columns.saturating_sub(indent)) {
            self.add_line(indent, &line.text);
        }
    }

    fn indent(&self) -> usize {
        BODY_INDENT + self.marks.iter().sum::<usize>()
    }

    /// Adds a line. The first one of an item begins with its mark.
    fn add_line(&mut self, indent: usize, line: &str) {
        let mark = self.mark.take().unwrap_or_default();
        let start = format!("{:1$}{mark}", "", indent - mark.len());
        self.text.push_str(format!("{start}{line}").trim_end());
        self.text.push('\n');
    }

    /// Separates two blocks.
    fn add_blank_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }
}

/// Returns code in backticks, as messages and `--help` write it.
fn shown_code(code: &str) -> String {
    let code = code.trim();
    let span = if code.contains('`') { code.to_owned() } else { format!("`{code}`") };
    unbroken_if_short(&span)
}

/// Replaces the blanks of code that stays on one line.
fn unbroken_if_short(code: &str) -> String {
    if ui::width(code) <= MAX_WHOLE_CODE_COLUMNS { unbroken(code) } else { code.to_owned() }
}

/// Replaces blanks, so that the text stays on one line.
fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain_text(markdown: &str, columns: usize) -> String {
        render(markdown, columns, false, &|file| (file == "local").then_some("local"))
    }

    #[test]
    fn paragraphs_and_headings_are_wrapped() {
        let page =
            "# A page\n\nOne **two**\nthree *four* `five six`.\n\n## Second one\n\n### Third\n\ntext\n";
        let expected = "\
A page

    One two three
    \"four\"
    `five six`.

Second one

  Third

    text
";
        assert_eq!(plain_text(page, 18), expected);
        let styled = render("# A\n\n*b* **c d**\n", 80, true, &|_| None);
        assert_eq!(
            styled,
            "\u{1b}[1mA\u{1b}[0m\n\n    \u{1b}[4mb\u{1b}[0m \u{1b}[1mc\u{1b}[0m \u{1b}[1md\u{1b}[0m\n"
        );
    }

    #[test]
    fn sections_have_the_sections_below_them() {
        let page =
            "# A page\n\n## The CPI `local`, etc.\n\ntwo\n\n### Third\n\n## Last one\n\n```sh\n# x\n```\n";
        let sections = sections(page);
        let anchors: Vec<&str> = sections.iter().map(|section| section.anchor.as_str()).collect();
        assert_eq!(anchors, ["the-cpi-local-etc", "third", "last-one"]);
        assert_eq!(sections[0].title, "The CPI local, etc.");
        assert_eq!(sections[0].markdown, "## The CPI `local`, etc.\n\ntwo\n\n### Third\n\n");
        assert_eq!(sections[1].markdown, "### Third\n\n");
        assert!(sections[2].markdown.ends_with("# x\n```\n"));
    }

    #[test]
    fn links_name_a_page_or_an_address() {
        let page = "[a](local.md#x-y), ([b](local.md)), [c](#c), [d](other.md), [e](https://e.org).\n\n\
                    ![p](p.svg)\n";
        let expected = "    a (monopile help local x-y), (b: monopile help local), c, d (docs/other.md in \
                        the repository), e (https://e.org).\n";
        assert_eq!(plain_text(page, 120), expected);
    }

    #[test]
    fn lists_are_indented() {
        let page = "Text:\n\n- one two\n- three\n  - four\n\n1. five\n\n   ```sh\n   a  b\n   ```\n2. six\n";
        let expected = "
    Text:

    - one
      two
    - three
      - four

    1. five

        a  b

    2. six
";
        assert_eq!(plain_text(page, 12), expected[1..]);
    }

    #[test]
    fn code_stays_as_it_is_and_messages_are_wrapped() {
        assert_eq!(plain_text("```text\n┌──────────┐\n```\n", 15), "   ┌──────────┐\n");
        let page =
            "```sh needs=x\nmonopile plan a.yml -o b.yml\n```\n\n```text\nerror: one two three four\n```\n";
        let expected = "
    monopile plan a.yml -o b.yml

        error: one
          two three
          four
";
        assert_eq!(plain_text(page, 20), expected[1..]);
        for (columns, indent) in [(24, 8), (22, 6), (18, 4)] {
            let code = plain_text("```sh\nmonopile plan -n\n```\n", columns);
            assert_eq!(code, format!("{:indent$}monopile plan -n\n", ""));
        }
    }

    #[test]
    fn codes_keep_their_backticks() {
        assert_eq!(
            plain_text("``the CPI's `METHOD` `` <!-- x --> a&nbsp;b\n", 80),
            "    the CPI's `METHOD` a b\n"
        );
    }
}
