//! Splits an ERB template (trim mode `-`) into Ruby source and the text around it.
//!
//! Commands and line breaks are in the same places as in the source that Ruby's own ERB generates. Templates
//! depend on this: a comment at the end of a tag, for example, also comments out the text up to the end of
//! the line. The text itself is not part of the source. A call of [`TEXT_CALL`] with a number stands for each
//! piece, so that the parser has less to read.

/// The name of the call that stands for a piece of text in the Ruby source.
pub(super) const TEXT_CALL: &str = "__erb_text";
/// The variable in which ERB collects the output.
pub(super) const OUTPUT_VARIABLE: &str = "_erbout";
/// The end of the generated code of a tag whose value is written.
pub(super) const OUTPUT_END: &str = ").to_s)";

/// The result of [`scan`].
#[derive(Debug)]
pub(super) struct ScannedTemplate {
    /// The Ruby source.
    pub(super) ruby: String,
    /// The pieces of text. The argument of a [`TEXT_CALL`] is an index into them.
    pub(super) texts: Vec<String>,
    /// The template line of each line of the Ruby source. Lines count from 1, so index 0 is for line 1.
    pub(super) lines: Vec<u32>,
}

/// The Ruby source that [`scan`] has generated so far. See [`ScannedTemplate`] for the first three fields.
struct Output {
    ruby: String,
    texts: Vec<String>,
    lines: Vec<u32>,
    /// True while the current line has no command. Commands on one line are joined by `; `.
    is_line_empty: bool,
}

impl Output {
    /// Appends a command that starts at this template line.
    fn push(&mut self, command: &str, line: u32) {
        if !self.is_line_empty {
            self.ruby.push_str("; ");
        }
        self.is_line_empty = false;
        for (number, part) in command.split('\n').enumerate() {
            if number > 0 {
                self.ruby.push('\n');
                self.lines.push(line + number as u32);
            }
            self.ruby.push_str(part);
        }
    }

    /// Moves `text` to the pieces of text and appends the call that stands for it.
    fn push_text(&mut self, text: &mut String, line: u32) {
        if text.is_empty() {
            return;
        }
        let breaks = "\n".repeat(text.matches('\n').count());
        let command = format!("{TEXT_CALL}({}){breaks}", self.texts.len());
        self.texts.push(std::mem::take(text));
        self.push(&command, line);
    }

    /// Ends the line. The next one comes from this template line.
    fn push_line_break(&mut self, line: u32) {
        self.ruby.push('\n');
        self.lines.push(line);
        self.is_line_empty = true;
    }
}

/// Splits a template. Every text is a valid template: an unclosed tag is text.
pub(super) fn scan(source: &str) -> ScannedTemplate {
    let mut output = Output { ruby: String::new(), texts: Vec::new(), lines: vec![1], is_line_empty: true };
    output.push(&format!("{OUTPUT_VARIABLE} = +''"), 1);
    let mut rest = source;
    let mut line = 1u32;
    let mut text = String::new();
    let mut text_line = 1u32;
    while let Some(tag_start) = rest.find("<%") {
        let (text_before, tag) = rest.split_at(tag_start);
        // `<%%` is a literal `<%`.
        if let Some(text_after) = tag.strip_prefix("<%%") {
            text.push_str(text_before);
            if text_before == "\n" {
                output.push_text(&mut text, text_line);
                text_line = line;
            }
            text.push_str("<%");
            line += newlines(text_before);
            rest = text_after;
            continue;
        }
        let mut new_text = text_before;
        let (kind, code) = match tag.as_bytes().get(2) {
            Some(b'=') => ('=', &tag[3..]),
            Some(b'#') => ('#', &tag[3..]),
            Some(b'-') => {
                // `<%-` at the start of a line removes the spaces and tabs before it.
                let unindented_text = text_before.trim_end_matches([' ', '\t']);
                // Ruby's scanner also treats the position right after a tag as the start of a line.
                if unindented_text.ends_with('\n') || unindented_text.is_empty() {
                    new_text = unindented_text;
                }
                (' ', &tag[3..])
            }
            _ => (' ', &tag[2..]),
        };
        text.push_str(new_text);
        line += newlines(text_before);
        output.push_text(&mut text, text_line);
        let Some(tag) = find_tag_end(code) else {
            // Ruby's ERB drops the opening of an unclosed tag and treats the rest as text.
            rest = code;
            text_line = line;
            break;
        };
        push_tag(&mut output, kind, &tag.code, line);
        line += newlines(&code[..tag.length]);
        rest = &code[tag.length..];
        if tag.trims_line {
            if let Some(next) = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')) {
                line += 1;
                rest = next;
            }
            output.push_line_break(line);
        }
        text_line = line;
    }
    text.push_str(rest);
    output.push_text(&mut text, text_line);
    output.push(OUTPUT_VARIABLE, line);
    ScannedTemplate { ruby: output.ruby, texts: output.texts, lines: output.lines }
}

/// Appends the code of a tag. `kind` is `=` for output, `#` for a comment, and a space for other code.
fn push_tag(output: &mut Output, kind: char, content: &str, line: u32) {
    match kind {
        '=' => output.push(&format!("{OUTPUT_VARIABLE}.<<(({content}{OUTPUT_END}"), line),
        '#' => {}
        _ => match content.strip_suffix('\n') {
            Some(without_break) => {
                output.push(without_break, line);
                output.push_line_break(line + newlines(content));
            }
            None => output.push(content, line),
        },
    }
}

fn newlines(text: &str) -> u32 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u32
}

/// The code of a tag, and its end.
struct ClosedTag {
    /// The code, with `%%>` replaced by `%>`.
    code: String,
    /// The number of bytes up to the end of the tag.
    length: usize,
    /// True if `-%>` at the end of a line closes the tag.
    trims_line: bool,
}

/// Finds the end of a tag whose code starts at the start of `code`. Returns `None` if the tag is not closed.
fn find_tag_end(code: &str) -> Option<ClosedTag> {
    let mut content = String::new();
    let mut start = 0;
    while let Some(offset) = code[start..].find("%>") {
        let end = start + offset;
        if code[start..end].ends_with('%') {
            content.push_str(&code[start..end - 1]);
            content.push_str("%>");
            start = end + 2;
            continue;
        }
        let text_after = &code[end + 2..];
        if code[start..end].ends_with('-') {
            content.push_str(&code[start..end - 1]);
            let trims_line =
                text_after.is_empty() || text_after.starts_with('\n') || text_after.starts_with("\r\n");
            return Some(ClosedTag { code: content, length: end + 2, trims_line });
        }
        content.push_str(&code[start..end]);
        return Some(ClosedTag { code: content, length: end + 2, trims_line: false });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::scan;

    #[test]
    fn compiles_code_and_text_like_ruby_erb() {
        let scan = scan("a\n<% if x -%>\nb <%= 1 %>\n<% end -%>\n");
        assert_eq!(
            scan.ruby,
            "_erbout = +''; __erb_text(0)\n;  if x \n__erb_text(1); _erbout.<<(( 1 ).to_s); \
                __erb_text(2)\n;  end \n_erbout"
        );
        assert_eq!(scan.texts, ["a\n", "b ", "\n"]);
        assert_eq!(scan.lines, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn trimming_tag_removes_the_blanks_before_it() {
        assert_eq!(scan("x\n  <%- 1 -%>\ny").texts, ["x\n", "y"]);
        assert_eq!(scan("x  <%- 1 %>").texts, ["x  "]);
    }

    #[test]
    fn literal_tags_are_text() {
        assert_eq!(scan("<%% a %>").texts, ["<% a %>"]);
        assert!(scan("<%= '%%>' %>").ruby.contains("'%>'"));
    }
}
