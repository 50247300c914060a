//! Prints Ironic's objects in the formats of OpenStack's clients: `table`, `json`, `yaml`, `value`, `csv`.

use std::ffi::OsString;

use clap::builder::OsStringValueParser;
use clap::{ArgAction, Args, ValueEnum};
use serde_json::Value;

use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use crate::cli::table::{Layout, Table};
use base::redact::Redactor;
use base::{Error, Result};
use ironic::Object;
use yaml::{self, Node};

/// The format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Aligned columns
    Table,
    /// JSON, as `openstack` prints it
    Json,
    /// YAML
    Yaml,
    /// Values only: a line per object, or per field of a single object
    Value,
    /// Comma-separated values
    Csv,
}

/// Options of commands that print objects.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct Output {
    /// Print the result in this format [default: table, or json with --json]
    #[arg(short, long, value_enum, hide_possible_values = false)]
    format: Option<Format>,

    /// Show only this column (repeatable)
    // The id and type are those of the ignored global flag of the bosh CLI, which this flag replaces.
    #[arg(id = "ignored-column", short = 'c', long = "column", value_name = "COLUMN",
          action = ArgAction::Append,
          value_parser = OsStringValueParser::new())]
    columns: Vec<OsString>,
}

impl Output {
    /// Prints objects with these columns.
    pub(super) fn list(
        &self,
        session: &Session,
        columns: &[&str],
        objects: Vec<Object>,
    ) -> Result<CommandResult> {
        let columns = self.select(columns)?;
        let cell = |object: &Object, column: &str| object.get(column).cloned().unwrap_or_default();
        let rows = objects.iter().map(|object| columns.iter().map(|column| cell(object, column)).collect());
        let rows: Vec<Vec<Value>> = rows.collect();
        let objects = || -> Value {
            let pairs = |row: &Vec<Value>| columns.iter().map(ToString::to_string).zip(row.clone()).collect();
            rows.iter().map(|row| Value::Object(pairs(row))).collect()
        };
        Ok(CommandResult::Output(match self.format(session) {
            Format::Json => return CommandResult::json(&objects()),
            Format::Yaml => yaml::emit(&Node::from_json(&objects())).into_bytes(),
            Format::Table => table(columns, &rows).into_bytes(),
            Format::Csv => csv(columns, &rows).into_bytes(),
            Format::Value => {
                let line = |row: &Vec<Value>| row.iter().map(plain).collect::<Vec<_>>().join(" ") + "\n";
                rows.iter().map(line).collect::<String>().into_bytes()
            }
        }))
    }

    /// Prints one object, field by field.
    pub(super) fn show(&self, session: &Session, mut object: Object) -> Result<CommandResult> {
        object.retain(|key, _| !LINKS.contains(&key.as_str()));
        object.sort_keys();
        let known: Vec<String> = object.keys().cloned().collect();
        let kept = self.select(&known.iter().map(String::as_str).collect::<Vec<_>>())?;
        object.retain(|key, _| kept.contains(&key.as_str()));
        let fields = || object.iter().map(|(key, value)| vec![Value::String(key.clone()), value.clone()]);
        Ok(CommandResult::Output(match self.format(session) {
            Format::Json => return CommandResult::json(&object),
            Format::Yaml => yaml::emit(&Node::from_json(&Value::Object(object))).into_bytes(),
            Format::Table => table(vec!["field", "value"], &fields().collect::<Vec<_>>()).into_bytes(),
            Format::Csv => csv(vec!["field", "value"], &fields().collect::<Vec<_>>()).into_bytes(),
            Format::Value => {
                object.values().map(|value| plain(value) + "\n").collect::<String>().into_bytes()
            }
        }))
    }

    fn format(&self, session: &Session) -> Format {
        self.format.unwrap_or(if session.globals.json() { Format::Json } else { Format::Table })
    }

    /// Returns the columns that `-c` names, in the order of `known`. Without `-c`, returns all columns.
    /// Accepts old column titles such as `Node UUID`.
    fn select<'k>(&self, known: &[&'k str]) -> Result<Vec<&'k str>> {
        if self.columns.is_empty() {
            return Ok(known.to_vec());
        }
        let wanted: Vec<String> =
            self.columns.iter().map(|name| name.to_string_lossy().replace(' ', "_").to_lowercase()).collect();
        let is = |name: &str, wanted: &str| name.to_lowercase() == wanted;
        if let Some(unknown) = wanted.iter().find(|wanted| !known.iter().any(|name| is(name, wanted))) {
            let all = || Some(format!("the columns are: {}", known.join(", ")));
            return Err(Error::usage(format!("unknown column '{unknown}'")).with_nearest(
                unknown,
                known.iter().copied(),
                all,
            ));
        }
        Ok(known.iter().copied().filter(|name| wanted.iter().any(|wanted| is(name, wanted))).collect())
    }
}

/// Fields with links to other resources. They are not shown.
pub(super) const LINKS: [&str; 5] = ["links", "ports", "portgroups", "states", "volume"];

/// Formats a value on one line: `None`, `True` and `False` as scripts expect them, other values as JSON.
/// Escapes control characters.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
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
        other => other.to_string(),
    }
}

fn table(columns: Vec<&str>, rows: &[Vec<Value>]) -> String {
    let mut table = Table::new(columns);
    for row in rows {
        table.row(row.iter().map(|value| if value.is_null() { String::new() } else { plain(value) }));
    }
    table.print(&Layout::unlimited(Redactor::default()))
}

/// Formats rows as CSV (RFC 4180). All values except numbers are quoted.
fn csv(columns: Vec<&str>, rows: &[Vec<Value>]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let cell = |value: &Value| match value {
        Value::Number(number) => number.to_string(),
        Value::Null => quoted(""),
        Value::String(text) => quoted(text),
        other => quoted(&plain(other)),
    };
    let mut lines = vec![columns.into_iter().map(quoted).collect::<Vec<_>>().join(",")];
    lines.extend(rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(",")));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_stay_on_one_line() {
        let values = [json!(null), json!(true), json!("a\u{1b}[2Jb\nc"), json!({"a": [1]}), json!(7)];
        assert_eq!(
            values.map(|value| plain(&value)),
            ["None", "True", "a\\u{1b}[2Jb\\nc", "{\"a\":[1]}", "7"]
        );
    }

    #[test]
    fn only_numbers_are_not_quoted() {
        let rows = [vec![json!("say \"hi\""), json!(0)], vec![json!(null), json!(false)]];
        assert_eq!(csv(vec!["a", "b"], &rows), "\"a\",\"b\"\n\"say \"\"hi\"\"\",0\n\"\",\"False\"\n");
    }
}
