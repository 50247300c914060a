//! Prints Ironic's objects in the formats of OpenStack's clients: `table`, `json`, `yaml`, `value`, `csv` and
//! `shell`.

use std::cmp::Ordering;
use std::ffi::OsString;

use clap::builder::{FalseyValueParser, OsStringValueParser, PossibleValuesParser};
use clap::{Arg, ArgAction};
use serde_json::Value;

use super::call::Call;
use super::grid::Grid;
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use crate::ui;
use base::JsonObject;
use base::{Error, Result};
use yaml::Node;

/// Fields with links to other resources. They are not shown.
pub(super) const LINK_FIELDS: [&str; 5] = ["links", "ports", "portgroups", "states", "volume"];

/// The minimum width of a wrapped cell in a list, and in a single object.
const MIN_CELL_COLUMNS: (usize, usize) = (8, 16);

/// Describes the options of commands that print one object, or many.
pub(super) fn args(prints_many: bool) -> Vec<Arg> {
    let formats = match prints_many {
        true => ["table", "csv", "json", "value", "yaml"].as_slice(),
        false => &["table", "csv", "json", "shell", "value", "yaml"],
    };
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
    };
    let mut args = vec![
        option("format", "FORMAT", "Print the result in this format [default: table, or json with --json]")
            .short('f')
            .value_parser(PossibleValuesParser::new(formats)),
        // The id and type are those of the ignored global option of the bosh CLI, which this option replaces.
        option("column", "COLUMN", "Show only this column (repeatable)")
            .id(IGNORED_COLUMNS_ID)
            .short('c')
            .action(ArgAction::Append)
            .value_parser(OsStringValueParser::new()),
        switch("noindent", "Print JSON on one line"),
        option("max-width", "N", "Wrap the cells of a table to fit into N columns; 0 never wraps")
            .env("CLIFF_MAX_TERM_WIDTH")
            .hide_env_values(true)
            .allow_negative_numbers(true)
            .value_parser(clap::value_parser!(i32)),
        switch("fit-width", "Wrap the cells of a table to fit into the terminal")
            .env("CLIFF_FIT_WIDTH")
            .hide_env_values(true)
            .value_parser(FalseyValueParser::new()),
        switch("print-empty", "Print the header of a table without rows"),
    ];
    match prints_many {
        true => args.extend([
            option("quote", "WHEN", "Quote these values of CSV [default: nonnumeric]")
                .alias("quote-mode")
                .value_parser(PossibleValuesParser::new(["all", "minimal", "none", "nonnumeric"])),
            option("sort-column", "COLUMN", "Sort the printed rows by this column (repeatable)")
                .action(ArgAction::Append),
            switch("sort-ascending", "Sort by --sort-column in ascending order (the default)")
                .conflicts_with("sort-descending"),
            switch("sort-descending", "Sort by --sort-column in descending order"),
        ]),
        false => args.push(option("prefix", "PREFIX", "Begin the names of shell variables with this")),
    }
    args.into_iter().map(|arg| arg.help_heading("Output")).collect()
}

const IGNORED_COLUMNS_ID: &str = "ignored-column";

/// The options of a command that prints objects.
pub(super) struct Output {
    format: Option<String>,
    columns: Vec<OsString>,
    noindent: bool,
    max_width: i32,
    fit_width: bool,
    print_empty: bool,
    prefix: String,
    quote: String,
    sort_columns: Vec<String>,
    is_descending: bool,
}

impl Output {
    pub(super) fn of(call: &Call) -> Output {
        Output {
            format: call.text("format"),
            columns: call.all(IGNORED_COLUMNS_ID),
            noindent: call.has_switch("noindent"),
            max_width: call.get("max-width").unwrap_or_default(),
            fit_width: call.has_switch("fit-width"),
            print_empty: call.has_switch("print-empty"),
            prefix: call.text("prefix").unwrap_or_default(),
            quote: call.text("quote").unwrap_or_default(),
            sort_columns: call.texts("sort-column"),
            is_descending: call.has_switch("sort-descending"),
        }
    }

    /// Prints objects with these columns.
    pub(super) fn list(
        &self,
        session: &Session,
        columns: &[&str],
        objects: Vec<JsonObject>,
    ) -> Result<CommandResult> {
        let cell = |object: &JsonObject, column: &str| object.get(column).cloned().unwrap_or_default();
        let rows = objects.iter().map(|object| columns.iter().map(|column| cell(object, column)).collect());
        let mut rows: Vec<Vec<Value>> = rows.collect();
        self.sort(columns, &mut rows);
        let selected_columns = self.select(columns)?;
        let keep = |row: Vec<Value>| -> Vec<Value> {
            let cells = row.into_iter().zip(columns).filter(|(_, column)| selected_columns.contains(column));
            cells.map(|(value, _)| value).collect()
        };
        let rows: Vec<Vec<Value>> = rows.into_iter().map(keep).collect();
        let objects = || -> Value {
            let pairs = |row: &Vec<Value>| {
                selected_columns.iter().map(ToString::to_string).zip(row.clone()).collect()
            };
            rows.iter().map(|row| Value::Object(pairs(row))).collect()
        };
        self.print(session, &selected_columns, &rows, MIN_CELL_COLUMNS.0, objects)
    }

    /// Prints one object, field by field.
    pub(super) fn show(&self, session: &Session, mut object: JsonObject) -> Result<CommandResult> {
        object.retain(|key, _| !LINK_FIELDS.contains(&key.as_str()));
        object.sort_keys();
        let field_names: Vec<String> = object.keys().cloned().collect();
        let selected_names = self.select(&field_names.iter().map(String::as_str).collect::<Vec<_>>())?;
        object.retain(|key, _| selected_names.contains(&key.as_str()));
        let fields = object.iter().map(|(key, value)| vec![Value::String(key.clone()), value.clone()]);
        let fields: Vec<Vec<Value>> = fields.collect();
        match self.format(session) {
            "value" => output(object.values().map(|value| plain(value) + "\n").collect()),
            "shell" => output(object.iter().map(|(key, value)| self.shell_line(key, value)).collect()),
            _ => {
                let to_object = || Value::Object(object.clone());
                self.print(session, &["Field", "Value"], &fields, MIN_CELL_COLUMNS.1, to_object)
            }
        }
    }

    fn print(
        &self,
        session: &Session,
        columns: &[&str],
        rows: &[Vec<Value>],
        min_cell_width: usize,
        objects: impl Fn() -> Value,
    ) -> Result<CommandResult> {
        let line = |row: &Vec<Value>| row.iter().map(plain).collect::<Vec<_>>().join(" ") + "\n";
        output(match self.format(session) {
            "json" if self.noindent => {
                let mut text = String::new();
                write_json(&objects(), &mut text);
                base::text::escape_json(&text).into_owned() + "\n"
            }
            "json" => return CommandResult::json(&objects()),
            "yaml" => yaml::emit(&Node::from_json(&objects())),
            "csv" => self.csv(columns, rows),
            "value" => rows.iter().map(line).collect(),
            // The clients of OpenStack print a blank line.
            _ if rows.is_empty() && !self.print_empty && session.columns().is_none() => "\n".to_owned(),
            _ if rows.is_empty() && !self.print_empty => "The list is empty.\n".to_owned(),
            _ => self.table(columns, rows, min_cell_width),
        })
    }

    fn format(&self, session: &Session) -> &str {
        self.format.as_deref().unwrap_or(if session.globals.prints_json() { "json" } else { "table" })
    }

    /// Returns the columns that `-c` names, in the order of `known_columns`. Without `-c`, returns all of
    /// them.
    fn select<'k>(&self, known_columns: &[&'k str]) -> Result<Vec<&'k str>> {
        if self.columns.is_empty() {
            return Ok(known_columns.to_vec());
        }
        let requested_columns: Vec<String> =
            self.columns.iter().map(|name| column_key(&name.to_string_lossy())).collect();
        let is_column = |name: &str, column: &str| name.to_lowercase() == column;
        if let Some(unknown) =
            requested_columns.iter().find(|column| !known_columns.iter().any(|name| is_column(name, column)))
        {
            let columns_hint = || Some(format!("the columns are: {}", known_columns.join(", ")));
            return Err(Error::usage(format!("there is no column '{unknown}'")).with_nearest(
                unknown,
                known_columns.iter().copied(),
                columns_hint,
            ));
        }
        Ok(known_columns
            .iter()
            .copied()
            .filter(|name| requested_columns.iter().any(|column| is_column(name, column)))
            .collect())
    }

    /// Sorts rows by `--sort-column`, the first column first. Like OpenStack's clients, ignores columns that
    /// do not exist.
    fn sort(&self, columns: &[&str], rows: &mut [Vec<Value>]) {
        let index =
            |name: &String| columns.iter().position(|column| column.to_lowercase() == column_key(name));
        let order: Vec<usize> = self.sort_columns.iter().filter_map(index).collect();
        rows.sort_by(|one, other| {
            let order = order.iter().map(|column| compare(&one[*column], &other[*column]));
            let order = order.fold(Ordering::Equal, Ordering::then);
            if self.is_descending { order.reverse() } else { order }
        });
    }

    fn table(&self, columns: &[&str], rows: &[Vec<Value>], min_cell_width: usize) -> String {
        let cells =
            |row: &Vec<Value>| row.iter().map(|value| base::text::clean_line(&plain(value))).collect();
        let header: Vec<String> = columns.iter().map(|name| base::text::clean_line(name)).collect();
        let is_numeric = |column: usize| rows.iter().all(|row| row[column].is_number());
        let max_width = match usize::try_from(self.max_width) {
            Ok(width) if width > 0 => Some(width),
            _ => self.fit_width.then(ui::stdout_columns),
        };
        let grid = Grid {
            header: header.iter().map(String::as_str).collect(),
            rows: rows.iter().map(cells).collect(),
            is_right_aligned: (0..columns.len())
                .map(|column| !rows.is_empty() && is_numeric(column))
                .collect(),
            max_width,
            min_cell_width,
        };
        grid.format()
    }

    /// Formats rows as CSV (RFC 4180), but like Python doubles backslashes. With `--quote none`, a backslash
    /// escapes what would need quotes.
    fn csv(&self, columns: &[&str], rows: &[Vec<Value>]) -> String {
        let quote = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\""));
        let is_special = |letter: char| matches!(letter, '"' | ',' | '\\' | '\n' | '\r');
        let cell = |text: &str, may_be_bare: bool| match self.quote.as_str() {
            "none" => {
                let escape = |letter| is_special(letter).then_some('\\').into_iter().chain([letter]);
                text.chars().flat_map(escape).collect()
            }
            "minimal" if !text.contains(is_special) => text.to_owned(),
            "all" | "minimal" => quote(text),
            _ if may_be_bare => text.to_owned(),
            _ => quote(text),
        };
        let value = |value: &Value| match value {
            Value::Null => cell("", false),
            value => cell(&plain(value), value.is_number() || value.is_boolean()),
        };
        let mut lines = vec![columns.iter().map(|name| cell(name, false)).collect::<Vec<_>>().join(",")];
        lines.extend(rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>().join(",")));
        lines.join("\n") + "\n"
    }

    /// Formats the assignment of a shell variable, which is safe to evaluate.
    fn shell_line(&self, key: &str, value: &Value) -> String {
        let name = |text: &str| text.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
        let mut line = format!("{}{}=\"", name(&self.prefix), name(key));
        for letter in plain(value).chars() {
            line.extend(matches!(letter, '"' | '$' | '`' | '\\').then_some('\\'));
            line.push(letter);
        }
        line + "\"\n"
    }
}

fn output(text: String) -> Result<CommandResult> {
    Ok(CommandResult::Output(text.into_bytes()))
}

/// Returns the key of a column, which old scripts call by its title, such as `Node UUID`.
fn column_key(name: &str) -> String {
    name.replace(' ', "_").to_lowercase()
}

/// Compares cells: numbers by value, then everything else as text. Missing values come last.
fn compare(one: &Value, other: &Value) -> Ordering {
    let rank = |value: &Value| (value.is_null(), !value.is_number());
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        _ => rank(one).cmp(&rank(other)).then_with(|| plain(one).cmp(&plain(other))),
    }
}

/// Formats a value on one line, like OpenStack's clients: objects and lists as Python prints them. Escapes
/// control characters.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let mut line = String::with_capacity(text.len());
            for character in text.chars() {
                match character.is_control() {
                    true => line.extend(character.escape_default()),
                    false => line.push(character),
                }
            }
            line
        }
        other => {
            let mut line = String::new();
            write_python(other, &mut line);
            line
        }
    }
}

/// Writes a value as a literal of Python.
fn write_python(value: &Value, output: &mut String) {
    match value {
        Value::Null => output.push_str("None"),
        Value::Bool(true) => output.push_str("True"),
        Value::Bool(false) => output.push_str("False"),
        Value::Number(number) => output.push_str(&number.to_string()),
        Value::String(text) => write_python_text(text, output),
        Value::Array(items) => join(items, ["[", "]"], output, write_python),
        Value::Object(fields) => join(fields, ["{", "}"], output, |(key, value), output| {
            write_python_text(key, output);
            output.push_str(": ");
            write_python(value, output);
        }),
    }
}

/// Writes JSON on one line, with a blank after each comma and colon.
fn write_json(value: &Value, output: &mut String) {
    match value {
        Value::Array(items) => join(items, ["[", "]"], output, write_json),
        Value::Object(fields) => join(fields, ["{", "}"], output, |(key, value), output| {
            output.push_str(&Value::from(key.as_str()).to_string());
            output.push_str(": ");
            write_json(value, output);
        }),
        other => output.push_str(&other.to_string()),
    }
}

fn join<T>(
    items: impl IntoIterator<Item = T>,
    [open, close]: [&str; 2],
    output: &mut String,
    write: impl Fn(T, &mut String),
) {
    output.push_str(open);
    for (index, item) in items.into_iter().enumerate() {
        output.push_str(if index > 0 { ", " } else { "" });
        write(item, output);
    }
    output.push_str(close);
}

/// Writes a text in single quotes, or in double quotes if it contains only single ones.
fn write_python_text(text: &str, output: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    output.push(quote);
    for letter in text.chars() {
        match letter {
            '\n' => output.push_str("\\n"),
            '\r' => output.push_str("\\r"),
            '\t' => output.push_str("\\t"),
            // The control characters of Unicode are below U+0100.
            letter if letter.is_control() => output.push_str(&format!("\\x{:02x}", u32::from(letter))),
            letter => {
                output.extend((letter == quote || letter == '\\').then_some('\\'));
                output.push(letter);
            }
        }
    }
    output.push(quote);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn printer(quote: &str) -> Output {
        Output {
            format: None,
            columns: Vec::new(),
            noindent: false,
            max_width: 0,
            fit_width: false,
            print_empty: false,
            prefix: "my-".to_owned(),
            quote: quote.to_owned(),
            sort_columns: vec!["A b".to_owned(), "absent".to_owned()],
            is_descending: false,
        }
    }

    #[test]
    fn values_stay_on_one_line() {
        let values = [
            (json!(null), "None"),
            (json!(true), "True"),
            (json!("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc"),
            (json!(7), "7"),
            (json!({"a": [1, "it's", null], "b": "\"'\\"}), r#"{'a': [1, "it's", None], 'b': '"\'\\'}"#),
            (json!({"a\n": "\u{1b}\u{85}\t"}), r"{'a\n': '\x1b\x85\t'}"),
        ];
        for (value, expected) in values {
            assert_eq!(plain(&value), expected);
        }
        let mut line = String::new();
        write_json(&json!({"a": [1, {"b": "c\n"}], "d": {}}), &mut line);
        assert_eq!(line, r#"{"a": [1, {"b": "c\n"}], "d": {}}"#);
    }

    #[test]
    fn csv_quotes_as_requested() {
        let rows = [vec![json!("say \"hi\""), json!(0)], vec![json!(null), json!(false)], vec![json!("a,b")]];
        for (quote, expected) in [
            ("", "\"a\",\"b\"\n\"say \"\"hi\"\"\",0\n\"\",False\n\"a,b\"\n"),
            ("all", "\"a\",\"b\"\n\"say \"\"hi\"\"\",\"0\"\n\"\",\"False\"\n\"a,b\"\n"),
            ("minimal", "a,b\n\"say \"\"hi\"\"\",0\n,False\n\"a,b\"\n"),
            ("none", "a,b\nsay \\\"hi\\\",0\n,False\na\\,b\n"),
        ] {
            assert_eq!(printer(quote).csv(&["a", "b"], &rows), expected, "{quote}");
        }
    }

    #[test]
    fn shell_variables_are_safe_to_evaluate() {
        let line = printer("").shell_line("a.b;c", &json!("\"$(x)` \\ 'é"));
        assert_eq!(line, "my_a_b_c=\"\\\"\\$(x)\\` \\\\ 'é\"\n");
    }

    #[test]
    fn rows_are_sorted_by_value_with_missing_ones_last() {
        let mut rows = vec![vec![json!(10)], vec![json!(null)], vec![json!(9)], vec![json!("x")]];
        printer("").sort(&["a_b"], &mut rows);
        assert_eq!(rows[3], [json!(null)]);
        assert!(rows.iter().position(|row| row[0] == 9) < rows.iter().position(|row| row[0] == 10));
    }
}
