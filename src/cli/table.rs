//! Columns of text, as commands print them.

use std::fmt::Write;

/// Rows under a header. A cell may have several lines.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new<'h>(header: impl IntoIterator<Item = &'h str>) -> Self {
        Table { rows: vec![header.into_iter().map(str::to_owned).collect()] }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The header in capitals, the columns aligned, `-` where there is nothing.
    pub(super) fn print(&self) -> String {
        let columns = self.rows[0].len();
        let rows: Vec<Vec<Vec<String>>> =
            self.rows.iter().enumerate().map(|(index, row)| cells(row, columns, index == 0)).collect();
        let width = |column: usize| {
            let lines = rows.iter().flat_map(|row| &row[column]);
            lines.map(|line| line.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &rows {
            for index in 0..row.iter().map(Vec::len).max().unwrap_or(0) {
                let mut line = String::new();
                for (cell, width) in row.iter().zip(&widths) {
                    // Writing to a String cannot fail.
                    let _ = write!(line, "{:width$}  ", cell.get(index).map_or("", String::as_str));
                }
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        text
    }
}

fn cells(row: &[String], columns: usize, header: bool) -> Vec<Vec<String>> {
    let of = |cell: Option<&String>| -> Vec<String> {
        match cell.map(String::as_str).unwrap_or_default() {
            "" => vec!["-".to_owned()],
            text if header => vec![text.to_uppercase()],
            text => text.lines().map(str::to_owned).collect(),
        }
    };
    (0..columns).map(|column| of(row.get(column))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_may_have_lines() {
        let mut table = Table::new(["Name", "Needs", "Note"]);
        table.row(["a".to_owned(), "x\nlonger".to_owned(), String::new()]);
        table.row(["ab".to_owned(), String::new(), "n".to_owned()]);
        assert_eq!(table.print(), "NAME  NEEDS   NOTE\na     x       -\n      longer\nab    -       n\n");
    }
}
