//! Tables with borders, as OpenStack's clients print them.

use crate::ui;

/// The columns of a border and its blanks beside each cell.
const BORDER_COLUMNS: usize = 3;

/// A table and the way in which it is printed.
pub(super) struct Grid<'g> {
    pub header: Vec<&'g str>,
    pub rows: Vec<Vec<String>>,
    /// True for each column that is aligned to the right.
    pub is_right_aligned: Vec<bool>,
    /// The width of the terminal to fit into, in characters.
    pub max_width: Option<usize>,
    /// The minimum width, in characters, of a cell that is wrapped to fit.
    pub min_cell_width: usize,
}

impl Grid<'_> {
    /// Formats the table.
    pub(super) fn format(&self) -> String {
        let widths = self.widths();
        let line: String = widths.iter().map(|width| format!("+{}", "-".repeat(width + 2))).collect();
        let line = format!("{line}+\n");
        let header: Vec<String> = self.header.iter().map(|name| (*name).to_owned()).collect();
        let mut text =
            format!("{line}{}{line}", self.format_row(&header, &widths, &vec![false; widths.len()]));
        for row in &self.rows {
            text.push_str(&self.format_row(row, &widths, &self.is_right_aligned));
        }
        text.push_str(&line);
        text
    }

    /// Returns the width of each column. Wide columns share the room that narrow ones leave, but no column
    /// becomes narrower than its title.
    fn widths(&self) -> Vec<usize> {
        let titles: Vec<usize> = self.header.iter().map(|name| ui::width(name)).collect();
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| ui::width(cell));
            cells.max().unwrap_or(0).max(titles[column])
        };
        let mut widths: Vec<usize> = (0..titles.len()).map(widest).collect();
        let Some(max_width) = self.max_width else { return widths };
        let room = max_width.saturating_sub(BORDER_COLUMNS * widths.len() + 1);
        if widths.iter().sum::<usize>() <= room {
            return widths;
        }
        let fair_width = (room / widths.len().max(1)).max(self.min_cell_width);
        let (narrow_widths, wide_widths): (Vec<usize>, Vec<usize>) =
            widths.iter().partition(|width| **width <= fair_width);
        let wide_room = room.saturating_sub(narrow_widths.iter().sum());
        let share = (wide_room / wide_widths.len().max(1)).max(self.min_cell_width);
        let last_wide = widths.iter().rposition(|width| *width > fair_width);
        for (column, (width, title)) in widths.iter_mut().zip(&titles).enumerate() {
            if *width > fair_width {
                // The last one also gets the columns that the division leaves.
                let rest = if Some(column) == last_wide { wide_room % wide_widths.len().max(1) } else { 0 };
                *width = (*width).min(share + rest).max(*title);
            }
        }
        widths
    }

    fn format_row(&self, cells: &[String], widths: &[usize], is_right_aligned: &[bool]) -> String {
        let lines = |(cell, width): (&String, &usize)| match ui::width(cell) > *width {
            true => wrap(cell, *width),
            false => vec![cell.clone()],
        };
        let cells: Vec<Vec<String>> = cells.iter().zip(widths).map(lines).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let mut text = String::new();
        for line in 0..height {
            for ((cell, width), is_right_aligned) in cells.iter().zip(widths).zip(is_right_aligned) {
                let part = cell.get(line).map_or("", String::as_str);
                let blanks = " ".repeat(width.saturating_sub(ui::width(part)));
                match is_right_aligned {
                    true => text.extend(["| ", &blanks, part, " "]),
                    false => text.extend(["| ", part, &blanks, " "]),
                }
            }
            text.push_str("|\n");
        }
        text
    }
}

/// Breaks a text at blanks and behind hyphens, and words that are longer than a line anywhere. Keeps all
/// characters except the blanks at the breaks.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for mut word in text.split(' ') {
        loop {
            let gap = if line.is_empty() { "" } else { " " };
            let room = width.saturating_sub(ui::width(&line) + gap.len());
            if ui::width(word) <= room {
                line.extend([gap, word]);
                break;
            }
            let head = prefix(word, room);
            let cut = match head.rfind('-') {
                Some(hyphen) => hyphen + 1,
                None if ui::width(word) > width => head.len(),
                None => 0,
            };
            match cut {
                // Not even one character fits.
                0 if line.is_empty() => {
                    line.push_str(word);
                    break;
                }
                0 => {}
                cut => line.extend([gap, &word[..cut]]),
            }
            word = &word[cut..];
            lines.push(std::mem::take(&mut line));
        }
    }
    lines.push(line);
    lines
}

/// Returns the longest beginning of a word that fits into `room` columns.
fn prefix(word: &str, room: usize) -> &str {
    let ends = word.char_indices().map(|(start, letter)| start + letter.len_utf8());
    let end = ends.take_while(|end| ui::width(&word[..*end]) <= room).last().unwrap_or(0);
    &word[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(max_width: Option<usize>) -> String {
        let rows = [["a", "1", "several words in a long line"], ["字", "23", ""]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec()).to_vec();
        Grid {
            header: vec!["name", "n", "note"],
            rows,
            is_right_aligned: vec![false, true, false],
            max_width,
            min_cell_width: 8,
        }
        .format()
    }

    #[test]
    fn cells_have_borders_and_numbers_are_on_the_right() {
        let text = "+------+----+------------------------------+\n\
                    | name | n  | note                         |\n\
                    +------+----+------------------------------+\n\
                    | a    |  1 | several words in a long line |\n\
                    | 字   | 23 |                              |\n\
                    +------+----+------------------------------+\n";
        assert_eq!(grid(None), text);
        assert_eq!(grid(Some(44)), text);
    }

    #[test]
    fn words_break_at_hyphens_and_keep_every_character() {
        assert_eq!(
            wrap("fad71ea8-b2d0-49cc-2b59b6e4ff99", 8),
            ["fad71ea8", "-b2d0-", "49cc-", "2b59b6e4", "ff99"]
        );
        assert_eq!(wrap("{'iqn': 'iqn.2010-10.com:vol'}", 12), ["{'iqn': 'iqn", ".2010-", "10.com:vol'}"]);
        assert_eq!(wrap("日本語 x", 4), ["日本", "語 x"]);
        assert_eq!(wrap("日", 1), ["日"]);
    }

    #[test]
    fn wide_columns_wrap_and_keep_their_minimum() {
        assert!(grid(Some(30)).lines().all(|line| ui::width(line) == 30), "{}", grid(Some(30)));
        assert!(grid(Some(1)).lines().all(|line| ui::width(line) == 24), "{}", grid(Some(1)));
    }
}
