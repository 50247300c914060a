//! The JSON of the bosh CLI's `--json`: one document with `Tables`, `Blocks` and `Lines`, encoded as by Go.
//!
//! `docs/events.md` describes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::renderer::RenderSink;
use super::text::OutputStreams;
use base::events::{Event, Outcome, Sink, StageId, Warning};

/// The title of a column. In rows its lower-case form is the key.
type Title = &'static str;

/// A table of the document.
#[derive(Debug)]
pub struct Table {
    /// The type of its rows; empty for a summary.
    pub row_type: &'static str,
    /// The titles of its columns.
    pub header: Vec<Title>,
    /// Its rows, which the bosh CLI sorts by the first column.
    pub rows: Vec<Vec<String>>,
}

/// The document of a run, printed at its end. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct BoshDocument {
    content: Arc<Mutex<DocumentContent>>,
    /// True if the command has output of its own. Stages and notes are then left out.
    has_output: bool,
    output: OutputStreams,
}

/// The content of the document so far.
#[derive(Default)]
struct DocumentContent {
    tables: Vec<Table>,
    blocks: Vec<String>,
    lines: Vec<String>,
    /// The running stages that are shown.
    stages: BTreeMap<StageId, ShownStage>,
}

/// A running stage that is shown.
struct ShownStage {
    name: String,
    is_outer: bool,
}

impl BoshDocument {
    pub(super) fn new(has_output: bool, output: OutputStreams) -> Self {
        BoshDocument { content: Arc::default(), has_output, output }
    }

    /// Adds a table.
    pub fn add_table(&self, mut table: Table) {
        table.rows.sort();
        self.content.lock().tables.push(table);
    }

    /// Adds a block of text, such as a manifest.
    pub fn add_block(&self, text: String) {
        self.content.lock().blocks.push(text);
    }

    /// Adds a line. The bosh CLI ends all lines except the last one with a line break.
    pub fn add_line(&self, text: impl Into<String>) {
        self.content.lock().lines.push(text.into());
    }

    fn stage_started(&self, id: StageId, parent: Option<StageId>, name: &str) {
        let mut content = self.content.lock();
        match parent {
            None => {
                let name = uncapitalize(name);
                content.lines.extend(["\n".to_owned(), format!("Started {name}\n")]);
                content.stages.insert(id, ShownStage { name, is_outer: true });
            }
            Some(parent) if content.stages.get(&parent).is_some_and(|stage| stage.is_outer) => {
                content.stages.insert(id, ShownStage { name: name.to_owned(), is_outer: false });
            }
            Some(_) => {}
        }
    }

    fn stage_finished(&self, id: StageId, outcome: &Outcome, elapsed: Duration) {
        let mut content = self.content.lock();
        let Some(ShownStage { name, is_outer }) = content.stages.remove(&id) else { return };
        let time = clock(elapsed);
        match (is_outer, outcome) {
            (true, Outcome::Failed) => content.lines.push(format!("Failed {name} ({time})\n")),
            (true, _) => content.lines.push(format!("Finished {name} ({time})\n")),
            (false, outcome) => {
                let end = match outcome {
                    Outcome::Done => format!(" Finished ({time})"),
                    Outcome::Failed => format!(" Failed ({time})"),
                    Outcome::Skipped { reason } => format!(" Skipped [{reason}] ({time})"),
                    Outcome::Unsuccessful { reason } => format!(" Failed [{reason}] ({time})"),
                };
                content.lines.extend([format!("  {name}..."), end]);
            }
        }
    }

    /// Prints the document. Like the bosh CLI, prints no line break after it.
    fn print(&self) {
        let text = self.content.lock().encode();
        let mut stdout = std::io::stdout().lock();
        // A closed standard output does not change the result of the run.
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }
}

impl Sink for BoshDocument {
    fn receive(&self, event: &Event) {
        match event {
            Event::Warning(Warning { text, hints }) => {
                let hints = hints.iter().map(|hint| format!("Hint: {hint}\n"));
                self.add_line(hints.fold(format!("Warning: {text}\n"), |text, hint| text + &hint));
            }
            Event::RunFinished { has_succeeded: true, summary, .. } => {
                if !summary.is_empty() {
                    self.add_line(format!("{summary}\n"));
                }
                self.add_line("Succeeded");
                self.print();
            }
            Event::RunFinished { has_succeeded: false, errors, notes, hints, exit_code, .. } => {
                self.add_line(format_causes(errors));
                notes.iter().for_each(|note| self.add_line(format!("Note: {note}")));
                hints.iter().for_each(|hint| self.add_line(format!("Hint: {hint}")));
                self.add_line(format!("Exit code {exit_code}"));
                self.print();
            }
            _ if self.has_output => {}
            Event::PlanShown { lines } => self.add_line(format!("{}\n", lines.join("\n"))),
            Event::State { path } => self.add_line(format!("Deployment state: '{path}'\n")),
            Event::Note { text } => self.add_line(format!("{text}\n")),
            Event::StageStarted { id, parent, name, .. } => self.stage_started(*id, *parent, name),
            Event::StageFinished { id, outcome, elapsed } => self.stage_finished(*id, outcome, *elapsed),
            Event::StageProgress { .. }
            | Event::StageLog { .. }
            | Event::Planned { .. }
            | Event::StepStarted { .. }
            | Event::StepApplied
            | Event::ChangeStarted => {}
        }
    }
}

impl RenderSink for BoshDocument {
    fn log_line(&self, line: &str) {
        self.output.print_err(line);
    }
}

fn uncapitalize(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}

/// Formats an error with its causes. Each cause is on its own line, indented more than the line before.
fn format_causes(errors: &[String]) -> String {
    let lines = errors.iter().enumerate().map(|(depth, error)| format!("{}{error}", "  ".repeat(depth)));
    lines.collect::<Vec<_>>().join(":\n")
}

/// Formats a duration as hours, minutes and seconds.
fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Returns the key of a column: its words in lower case, joined by `_`.
fn key(title: &str) -> String {
    let words = title.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("_")
}

impl DocumentContent {
    fn encode(&self) -> String {
        let mut json = GoJsonWriter::default();
        json.write_members(
            [
                ("Tables", list(&self.tables, Table::value)),
                ("Blocks", list(&self.blocks, |text| Value::Text(text.clone()))),
                ("Lines", list(&self.lines, |text| Value::Text(text.clone()))),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        json.text
    }
}

impl Table {
    fn value(&self) -> Value {
        let keys: Vec<String> = self.header.iter().map(|title| key(title)).collect();
        let cells = |texts: &mut dyn Iterator<Item = &str>| -> Value {
            let cells: BTreeMap<_, _> =
                keys.iter().cloned().zip(texts.map(|text| Value::Text(text.to_owned()))).collect();
            Value::Members(cells.into_iter().collect())
        };
        let rows = self.rows.iter().map(|row| cells(&mut row.iter().map(String::as_str))).collect();
        Value::Members(vec![
            ("Content".to_owned(), Value::Text(self.row_type.to_owned())),
            ("Header".to_owned(), cells(&mut self.header.iter().copied())),
            ("Rows".to_owned(), Value::Items(rows)),
            ("Notes".to_owned(), Value::Null),
        ])
    }
}

/// Returns a list, or null if it is empty.
fn list<T>(items: &[T], value: impl Fn(&T) -> Value) -> Value {
    if items.is_empty() { Value::Null } else { Value::Items(items.iter().map(value).collect()) }
}

/// A JSON value, with its members in the order of output.
enum Value {
    Null,
    Text(String),
    Items(Vec<Value>),
    Members(Vec<(String, Value)>),
}

/// Writes JSON with the indentation and the escapes of Go's `encoding/json`.
#[derive(Default)]
struct GoJsonWriter {
    text: String,
    depth: usize,
}

impl GoJsonWriter {
    fn write_value(&mut self, value: Value) {
        match value {
            Value::Null => self.text.push_str("null"),
            Value::Text(text) => self.write_string(&text),
            Value::Items(items) => self.write_items('[', ']', items, GoJsonWriter::write_value),
            Value::Members(members) => self.write_members(members),
        }
    }

    fn write_members(&mut self, members: impl IntoIterator<Item = (String, Value)>) {
        self.write_items('{', '}', members, |json, (name, value)| {
            json.write_string(&name);
            json.text.push_str(": ");
            json.write_value(value);
        });
    }

    fn write_items<T>(
        &mut self,
        open: char,
        close: char,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.text.push(open);
        self.depth += 1;
        let mut is_empty = true;
        for item in items {
            if !is_empty {
                self.text.push(',');
            }
            is_empty = false;
            self.start_line();
            write(self, item);
        }
        self.depth -= 1;
        if !is_empty {
            self.start_line();
        }
        self.text.push(close);
    }

    fn start_line(&mut self) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n("    ", self.depth));
    }

    fn write_string(&mut self, text: &str) {
        self.text.push('"');
        for character in text.chars() {
            match character {
                '"' | '\\' => self.text.extend(['\\', character]),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                // Go escapes these for HTML and JavaScript.
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..' ' => {
                    // Writing to a String cannot fail.
                    let _ = write!(self.text, "\\u{:04x}", u32::from(character));
                }
                _ => self.text.push(character),
            }
        }
        self.text.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(has_output: bool) -> BoshDocument {
        BoshDocument::new(has_output, OutputStreams::standard(true))
    }

    #[test]
    fn column_keys_are_lowercase_titles() {
        for (title, expected) in
            [("Commit Hash", "commit_hash"), ("OS", "os"), ("Header & ( foo )  1 ", "header_foo_1")]
        {
            assert_eq!(key(title), expected);
        }
    }

    #[test]
    fn strings_are_escaped_like_go_json() {
        let document = document(true);
        document.add_block("\"a\\b\"\t<&>\u{2028}\u{1}\u{7f}é\u{8}\n".to_owned());
        let expected = "{\n    \"Tables\": null,\n    \"Blocks\": [\n        \
                        \"\\\"a\\\\b\\\"\\t\\u003c\\u0026\\u003e\\u2028\\u0001\u{7f}é\\b\\n\"\n    ],\n    \
                        \"Lines\": null\n}";
        assert_eq!(document.content.lock().encode(), expected);
    }

    #[test]
    fn rows_are_sorted_and_an_empty_table_has_no_rows() {
        let document = document(true);
        let rows = vec![vec!["b/1".to_owned(), "x\ny".to_owned()], vec!["a/2".to_owned(), String::new()]];
        document.add_table(Table { row_type: "jobs", header: vec!["Job", "Packages"], rows });
        document.add_table(Table { row_type: "packages", header: vec!["Package"], rows: Vec::new() });
        insta::assert_snapshot!(document.content.lock().encode(), @r#"
        {
            "Tables": [
                {
                    "Content": "jobs",
                    "Header": {
                        "job": "Job",
                        "packages": "Packages"
                    },
                    "Rows": [
                        {
                            "job": "a/2",
                            "packages": ""
                        },
                        {
                            "job": "b/1",
                            "packages": "x\ny"
                        }
                    ],
                    "Notes": null
                },
                {
                    "Content": "packages",
                    "Header": {
                        "package": "Package"
                    },
                    "Rows": [],
                    "Notes": null
                }
            ],
            "Blocks": null,
            "Lines": null
        }
        "#);
    }

    #[test]
    fn stages_become_lines() {
        let document = document(false);
        document.stage_started(1, None, "Validating");
        document.stage_started(2, Some(1), "Reading release 'x'");
        document.stage_started(3, Some(2), "Downloading");
        document.stage_finished(3, &Outcome::Done, Duration::ZERO);
        document.stage_finished(2, &Outcome::Skipped { reason: "cached".into() }, Duration::from_secs(3661));
        document.stage_started(4, Some(1), "Waiting for the agent");
        let unsuccessful = Outcome::Unsuccessful { reason: "no answer".into() };
        document.stage_finished(4, &unsuccessful, Duration::from_secs(10));
        document.stage_finished(1, &Outcome::Failed, Duration::from_millis(2900));
        let lines = document.content.lock().lines.clone();
        assert_eq!(
            lines,
            [
                "\n",
                "Started validating\n",
                "  Reading release 'x'...",
                " Skipped [cached] (01:01:01)",
                "  Waiting for the agent...",
                " Failed [no answer] (00:00:10)",
                "Failed validating (00:00:02)\n",
            ]
        );
        assert_eq!(format_causes(&["a".into(), "b".into(), "c".into()]), "a:\n  b:\n    c");
    }
}
