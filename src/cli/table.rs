//! Tables: aligned columns that fit the terminal, or tab-separated values for programs.

use crate::ui::{self, longest_word};
use base::redact::Redactor;

/// The number of columns between two cells.
const GAP_COLUMNS: usize = 2;
/// The maximum width of a column that is not wrapped.
const NARROW_COLUMNS: usize = 20;
/// The minimum width of a last column whose words are broken.
const MIN_LAST_COLUMNS: usize = 30;
/// The minimum width of a value beside its label.
const MIN_VALUE_COLUMNS: usize = 10;
/// The minimum number of columns above the details of a row.
const MIN_COLUMNS_ABOVE_DETAILS: usize = 2;
/// The text for a cell without a value.
const EMPTY_CELL: &str = "-";

/// Rows below a header. A cell may have several lines.
pub(super) struct Table {
    /// The first cell of each row in a pipe, which tells several tables of one output apart.
    kind: Option<&'static str>,
    header: Vec<String>,
    /// The first column that goes below its row if the columns do not fit the terminal.
    details: Option<usize>,
    rows: Vec<Vec<String>>,
}

/// The form in which tables are printed. Every cell is redacted and cleaned of control characters.
pub(super) struct Layout {
    form: Form,
    redactor: Redactor,
}

/// The form of a table: for a program, or for a terminal.
#[derive(Clone, Copy)]
enum Form {
    /// One line per row, without a header.
    Tabs,
    /// At most this many columns of a terminal.
    Columns(usize),
}

impl Layout {
    /// Returns the layout for a terminal of `columns`, or for a pipe.
    pub(super) fn new(columns: Option<usize>, redactor: Redactor) -> Self {
        Layout { form: columns.map_or(Form::Tabs, Form::Columns), redactor }
    }

    /// Returns true if a program reads the table.
    pub(super) fn is_for_programs(&self) -> bool {
        matches!(self.form, Form::Tabs)
    }

    /// Formats labelled values, one per line.
    pub(super) fn labelled_values(&self, labelled_values: &[(&str, String)]) -> String {
        let cells: Vec<(&str, Vec<String>)> =
            labelled_values.iter().map(|(label, value)| (*label, self.cell(value))).collect();
        match self.form {
            Form::Tabs => {
                cells.iter().map(|(label, lines)| format!("{label}\t{}\n", lines.join(", "))).collect()
            }
            Form::Columns(limit) => {
                label_lines(&cells, indent(labelled_values.iter().map(|(label, _)| *label)), limit)
            }
        }
    }

    fn cell(&self, text: &str) -> Vec<String> {
        let lines: Vec<String> =
            self.redactor.clean_and_redact(text).lines().map(base::text::clean_line).collect();
        if lines.iter().all(String::is_empty) { vec![EMPTY_CELL.to_owned()] } else { lines }
    }
}

impl Table {
    pub(super) fn new<'h>(header: impl IntoIterator<Item = &'h str>) -> Self {
        let clean = |name: &str| base::text::clean_line(name).to_uppercase();
        // The fields of `baremetal` are named by the server, so the header is also cleaned.
        let header = header.into_iter().map(clean).collect();
        Table { kind: None, header, details: None, rows: Vec::new() }
    }

    /// Creates one of several tables of an output. In a pipe, each row begins with `kind`.
    pub(super) fn for_kind<'h>(kind: &'static str, header: impl IntoIterator<Item = &'h str>) -> Self {
        Table { kind: Some(kind), ..Table::new(header) }
    }

    /// Sets the column of details, from which on columns go below their row if they do not fit beside it.
    pub(super) fn with_details(self, name: &str) -> Self {
        let details = self.header.iter().position(|column| *column == name.to_uppercase());
        Table { details, ..self }
    }

    /// Adds a row at the end.
    pub(super) fn add_row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Formats the table. If its columns do not fit the terminal, details go below their row. If the others
    /// do not fit either, each row becomes a list of labelled values.
    pub(super) fn format(&self, layout: &Layout) -> String {
        let count = self.header.len();
        let cell = |row: &Vec<String>, column| layout.cell(row.get(column).map_or("", String::as_str));
        let rows: Vec<Vec<Vec<String>>> =
            self.rows.iter().map(|row| (0..count).map(|column| cell(row, column)).collect()).collect();
        match layout.form {
            Form::Tabs => self.tabs(&rows),
            Form::Columns(limit) => {
                let header: Vec<Vec<String>> = self.header.iter().map(|name| vec![name.clone()]).collect();
                let all: Vec<&Vec<Vec<String>>> = std::iter::once(&header).chain(&rows).collect();
                match widths(&all, count, limit, false).or_else(|| widths(&all, count, limit, true)) {
                    Some(widths) => all.iter().map(|row| align_row(row, &widths)).collect(),
                    None => self
                        .with_details_below(&header, &rows, limit)
                        .unwrap_or_else(|| self.stacked_text(&rows, limit)),
                }
            }
        }
    }

    /// Formats the table with one line per row. On a terminal, cuts lines that do not fit.
    pub(super) fn format_lines(&self, layout: &Layout) -> String {
        let Form::Columns(limit) = layout.form else { return self.format(layout) };
        let header = self.header.clone();
        let line = |row: &Vec<String>| row.iter().map(|cell| layout.cell(cell).join(", ")).collect();
        let rows: Vec<Vec<String>> = std::iter::once(header).chain(self.rows.iter().map(line)).collect();
        let width = |column: usize| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| ui::width(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let format_line = |row: &Vec<String>| {
            let cells: Vec<Vec<String>> = row.iter().map(|cell| vec![cell.clone()]).collect();
            ui::cut(align_row(&cells, &widths).trim_end(), limit) + "\n"
        };
        rows.iter().map(format_line).collect()
    }

    fn tabs(&self, rows: &[Vec<Vec<String>>]) -> String {
        let line = |row: &Vec<Vec<String>>| {
            let cells = row.iter().map(|lines| lines.join(", "));
            let cells = self.kind.map(str::to_owned).into_iter().chain(cells);
            cells.collect::<Vec<_>>().join("\t") + "\n"
        };
        rows.iter().map(line).collect()
    }

    /// Formats the first columns as a table, and the others below their row. Returns `None` if not even
    /// [`MIN_COLUMNS_ABOVE_DETAILS`] columns fit.
    fn with_details_below(
        &self,
        header: &Vec<Vec<String>>,
        rows: &[Vec<Vec<String>>],
        limit: usize,
    ) -> Option<String> {
        let details = self.details?;
        let all: Vec<&Vec<Vec<String>>> = std::iter::once(header).chain(rows).collect();
        let counts = (MIN_COLUMNS_ABOVE_DETAILS..=details).rev();
        let widths = counts.filter_map(|count| widths(&all, count, limit, false)).next()?;
        let mut text = align_row(header, &widths);
        for row in rows {
            text.push_str(&align_row(row, &widths));
            for (column, lines) in row.iter().enumerate().skip(widths.len()) {
                if lines.iter().all(|line| line == EMPTY_CELL) {
                    continue;
                }
                let labelled_lines = match column == details {
                    true => lines.clone(),
                    false => vec![format!("{}: {}", self.header[column].to_lowercase(), lines.join(", "))],
                };
                for line in fit_lines(&labelled_lines, limit.saturating_sub(GAP_COLUMNS)) {
                    text.push_str(&" ".repeat(GAP_COLUMNS));
                    text.push_str(&line);
                    text.push('\n');
                }
            }
        }
        Some(text)
    }

    fn stacked_text(&self, rows: &[Vec<Vec<String>>], limit: usize) -> String {
        let indent = indent(self.header.iter().map(String::as_str));
        let block = |row: &Vec<Vec<String>>| {
            let cells: Vec<(&str, Vec<String>)> = self
                .header
                .iter()
                .map(String::as_str)
                .zip(row.iter().cloned())
                .filter(|(_, lines)| lines.iter().any(|line| line != EMPTY_CELL))
                .collect();
            label_lines(&cells, indent, limit)
        };
        rows.iter().map(block).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the width of each column, or `None` if the table cannot fit into `limit`. Words are not cut,
/// except those of the last column if `cuts_last` is true.
fn widths(rows: &[&Vec<Vec<String>>], count: usize, limit: usize, cuts_last: bool) -> Option<Vec<usize>> {
    let max_columns = |column: usize, length: &dyn Fn(&str) -> usize| {
        let lines = rows.iter().filter_map(|row| row.get(column)).flatten();
        lines.map(|line| length(line)).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..count).map(|column| max_columns(column, &ui::width)).collect();
    let minimum: Vec<usize> = widths
        .iter()
        .enumerate()
        .map(|(column, width)| match cuts_last && column + 1 == count {
            true => MIN_LAST_COLUMNS.min(*width),
            false => max_columns(column, &longest_word).max(NARROW_COLUMNS).min(*width),
        })
        .collect();
    while widths.iter().sum::<usize>() + GAP_COLUMNS * count.saturating_sub(1) > limit {
        let widest = (0..count).filter(|column| widths[*column] > minimum[*column]);
        let widest = widest.max_by_key(|column| widths[*column])?;
        widths[widest] -= 1;
    }
    Some(widths)
}

fn align_row(row: &[Vec<String>], widths: &[usize]) -> String {
    let cells: Vec<Vec<String>> =
        row.iter().zip(widths).map(|(cell, width)| fit_lines(cell, *width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let line = |index: usize| {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            let text = cell.get(index).map_or("", String::as_str);
            line.push_str(text);
            line.push_str(&" ".repeat((width + GAP_COLUMNS).saturating_sub(ui::width(text))));
        }
        line.trim_end().to_owned() + "\n"
    };
    (0..height).map(line).collect()
}

/// Breaks the lines of a cell to `width` columns.
fn fit_lines(lines: &[String], width: usize) -> Vec<String> {
    lines.iter().flat_map(|line| ui::fit(line, width)).collect()
}

/// Returns the column in which the values beside these labels begin.
fn indent<'l>(labels: impl Iterator<Item = &'l str>) -> usize {
    labels.map(ui::width).max().unwrap_or(0) + GAP_COLUMNS
}

/// Formats values beside their labels, wrapped to `limit` columns.
fn label_lines(cells: &[(&str, Vec<String>)], indent: usize, limit: usize) -> String {
    let room = limit.saturating_sub(indent).max(MIN_VALUE_COLUMNS);
    let mut text = String::new();
    for (label, lines) in cells {
        for (index, line) in fit_lines(lines, room).iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            text.push_str(label);
            text.push_str(&" ".repeat(indent - ui::width(label)));
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["Name", "Needs", "Note"]);
        table.add_row(["a".to_owned(), "x\nlonger".to_owned(), String::new()]);
        table.add_row(["ab".to_owned(), String::new(), "one note of several words, for one".to_owned()]);
        table
    }

    fn on_terminal(columns: usize) -> Layout {
        Layout::new(Some(columns), Redactor::default())
    }

    #[test]
    fn columns_are_aligned() {
        let text = "NAME  NEEDS   NOTE\na     x       -\n      longer\n\
                    ab    -       one note of several words, for one\n";
        assert_eq!(table().format(&on_terminal(80)), text);
    }

    #[test]
    fn wide_columns_wrap_between_words() {
        assert_eq!(
            table().format(&on_terminal(36)),
            "NAME  NEEDS   NOTE\na     x       -\n      longer\n\
             ab    -       one note of several\n              words, for one\n"
        );
    }

    #[test]
    fn rows_are_stacked_if_columns_do_not_fit() {
        assert_eq!(
            table().format(&on_terminal(24)),
            "NAME   a\nNEEDS  x\n       longer\n\n\
             NAME   ab\nNOTE   one note of\n       several words,\n       for one\n"
        );
    }

    #[test]
    fn details_go_below_their_row_if_they_do_not_fit() {
        let mut table = Table::new(["Kind", "CID", "Details", "Possible repairs"]).with_details("Details");
        let cid = "disk-8c7a1f00-0000-4000-8000";
        table.add_row(["VM", "vm-1", "", ""].map(str::to_owned));
        table.add_row(
            ["disk", cid, "is not attached to the VM", "reattach_disk\nmount_disk"].map(str::to_owned),
        );
        let expected = format!(
            "KIND  CID\nVM    vm-1\ndisk  {cid}\n  is not attached to the VM\n  possible repairs: \
             reattach_disk, mount_disk\n"
        );
        assert_eq!(table.format(&on_terminal(50)), expected);
        assert_eq!(table.format(&on_terminal(120)).lines().count(), 4, "columns that fit were wrapped");
        assert!(
            table.format(&on_terminal(20)).starts_with("KIND "),
            "a table that never fits has another form"
        );
        for columns in 30..120 {
            let text = table.format(&on_terminal(columns));
            assert!(text.lines().all(|line| ui::width(line) <= columns), "{columns}:\n{text}");
        }
    }

    #[test]
    fn only_the_last_column_cuts_words() {
        let mut table = Table::new(["Name", "Details"]);
        table.add_row(["short".to_owned(), format!("one {}", "x".repeat(50))]);
        let lines = format!("NAME   DETAILS\nshort  one\n       {}…\n", "x".repeat(32));
        assert_eq!(table.format(&on_terminal(40)), lines);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut table = table();
        table.add_row([
            "日本語".to_owned(),
            "/a/very/long/path/without/any/blank".to_owned(),
            "x".repeat(90),
        ]);
        for columns in 20..120 {
            let text = table.format(&on_terminal(columns));
            assert!(text.lines().all(|line| ui::width(line) <= columns), "{columns}:\n{text}");
        }
    }

    #[test]
    fn each_row_of_lines_is_one_line_of_the_terminal() {
        let text =
            "NAME  NEEDS      NOTE\na     x, longer  -\nab    -          one note of several words, for…\n";
        assert_eq!(table().format_lines(&on_terminal(48)), text);
        let pipe = Layout::new(None, Redactor::default());
        assert_eq!(table().format_lines(&pipe), table().format(&pipe));
    }

    #[test]
    fn pipe_gets_a_row_per_line() {
        let pipe = Layout::new(None, Redactor::default());
        assert_eq!(table().format(&pipe), "a\tx, longer\t-\nab\t-\tone note of several words, for one\n");
        assert_eq!(pipe.labelled_values(&[("VM", "vm-1".to_owned())]), "VM\tvm-1\n");
        let mut disks = Table::for_kind("disk", ["CID", "Size"]);
        disks.add_row(["d-1".to_owned(), "1 MiB".to_owned()]);
        assert_eq!(disks.format(&pipe), "disk\td-1\t1 MiB\n");
        assert_eq!(disks.format(&on_terminal(80)), "CID  SIZE\nd-1  1 MiB\n");
    }

    #[test]
    fn cells_are_redacted_before_they_are_wrapped_and_cleaned() {
        let redactor = Redactor::default();
        redactor.add("two words");
        let mut table = Table::new(["Name"]);
        table.add_row(["a secret of two words\x1b[2J\tend".to_owned()]);
        assert_eq!(table.format(&Layout::new(None, redactor)), "a secret of <redacted> end\n");
    }

    #[test]
    fn labelled_values_wrap_beside_their_labels() {
        let labelled_values =
            [("VM", "vm-1  there".to_owned()), ("Agent", "answers at some address".to_owned())];
        assert_eq!(
            on_terminal(22).labelled_values(&labelled_values),
            "VM     vm-1  there\nAgent  answers at some\n       address\n"
        );
    }
}
