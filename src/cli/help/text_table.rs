//! A table of text: columns side by side if they fit, else the cells of a row below each other.

use super::inline::{Inline, Line, wrap};

/// The blanks between two columns.
const GAP_COLUMNS: usize = 2;

/// A cell up to this width stays on one line, if there is room.
const SHORT_CELL_COLUMNS: usize = 14;

/// A table that is being collected. Its first row has the titles.
#[derive(Debug, Default)]
pub(super) struct TextTable {
    rows: Vec<Vec<Inline>>,
    /// The cells so far of the row that is being collected.
    row: Vec<Inline>,
}

impl TextTable {
    pub(super) fn add(&mut self, cell: Inline) {
        self.row.push(cell);
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    /// Returns the lines of the table in this number of columns.
    pub(super) fn lines(&self, columns: usize) -> Vec<String> {
        match self.widths(columns) {
            Some(widths) => self.side_by_side_lines(&widths),
            None => self.stacked_lines(columns),
        }
    }

    /// Returns the width of each column, or nothing if the longest words do not fit side by side.
    fn widths(&self, columns: usize) -> Option<Vec<usize>> {
        let count = self.rows.first()?.len();
        let widest = |cell_width: &dyn Fn(&Inline) -> usize| -> Vec<usize> {
            let in_column = |column| self.rows.iter().filter_map(move |row: &Vec<Inline>| row.get(column));
            (0..count).map(|column| in_column(column).map(cell_width).max().unwrap_or_default()).collect()
        };
        let natural_widths =
            widest(&|cell| wrap(cell, usize::MAX).iter().map(|line| line.width).max().unwrap_or(0));
        let mut widths = widest(&Inline::longest_word);
        let available = columns.checked_sub(GAP_COLUMNS * count.saturating_sub(1))?;
        let mut spare_columns = available.checked_sub(widths.iter().sum())?;
        for (width, natural_width) in widths.iter_mut().zip(&natural_widths) {
            let missing_columns =
                (*natural_width).min(SHORT_CELL_COLUMNS).saturating_sub(*width).min(spare_columns);
            *width += missing_columns;
            spare_columns -= missing_columns;
        }
        // The next column of blanks goes where most text must be wrapped.
        while let Some(column) = (0..count)
            .filter(|column| widths[*column] < natural_widths[*column])
            .max_by_key(|column| natural_widths[*column] * 100 / widths[*column].max(1))
            && spare_columns > 0
        {
            widths[column] += 1;
            spare_columns -= 1;
        }
        Some(widths)
    }

    fn side_by_side_lines(&self, widths: &[usize]) -> Vec<String> {
        let wrap_row = |row: &Vec<Inline>| -> Vec<Vec<Line>> {
            row.iter().zip(widths).map(|(cell, width)| wrap(cell, *width)).collect()
        };
        let rows: Vec<Vec<Vec<Line>>> = self.rows.iter().map(wrap_row).collect();
        let height = |row: &Vec<Vec<Line>>| row.iter().map(Vec::len).max().unwrap_or_default();
        let is_spaced = rows.iter().skip(1).any(|row| height(row) > 1);
        let mut lines = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            if index > 1 && is_spaced {
                lines.push(String::new());
            }
            for line_index in 0..height(row) {
                let mut text = String::new();
                for (cell, width) in row.iter().zip(widths) {
                    let (part, part_width) =
                        cell.get(line_index).map_or(("", 0), |line| (line.text.as_str(), line.width));
                    text.push_str(&format!(
                        "{part}{:1$}",
                        "",
                        width.saturating_sub(part_width) + GAP_COLUMNS
                    ));
                }
                lines.push(text.trim_end().to_owned());
            }
            if index == 0 {
                let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                lines.push(dashes.join("  "));
            }
        }
        lines
    }

    /// Returns the first cell of each row, and the others indented below it.
    fn stacked_lines(&self, columns: usize) -> Vec<String> {
        const INDENT: usize = 4;
        let mut lines = Vec::new();
        for (index, row) in self.rows.iter().skip(1).enumerate() {
            if index > 0 {
                lines.push(String::new());
            }
            for (column, cell) in row.iter().enumerate() {
                let indent = if column == 0 { 0 } else { INDENT };
                let parts = wrap(cell, columns.saturating_sub(indent));
                lines.extend(parts.iter().map(|part| format!("{:indent$}{}", "", part.text)));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::builder::styling::Style;

    fn table(rows: &[[&str; 2]]) -> TextTable {
        let mut table = TextTable::default();
        for row in rows {
            for text in row {
                let mut cell = Inline::default();
                cell.push(Style::new(), text);
                table.add(cell);
            }
            table.end_row();
        }
        table
    }

    #[test]
    fn columns_are_side_by_side_if_they_fit() {
        let rows = table(&[["file", "content"], ["a.yml", "the manifest"], ["b", "no"]]);
        let full_lines = ["file   content", "-----  ------------", "a.yml  the manifest", "b      no"];
        assert_eq!(rows.lines(80), full_lines);
        let narrow_lines =
            ["file   content", "-----  --------", "a.yml  the", "       manifest", "", "b      no"];
        assert_eq!(rows.lines(15), narrow_lines);
        assert_eq!(rows.lines(14), ["a.yml", "    the", "    manifest", "", "b", "    no"]);
        let rows = table(&[["new version of", "then"], ["a release", &"text ".repeat(40)]]);
        assert!(
            rows.lines(60)
                .starts_with(&["new version of  then".to_owned(), "-".repeat(14) + "  " + &"-".repeat(44)])
        );
    }
}
