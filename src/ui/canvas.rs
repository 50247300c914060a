//! The drawing area of indicatif: the last lines on the terminal, redrawn in place.
//!
//! The cursor rests at the start of the first of these lines, so erasing needs no row count and works after a
//! resize. Line wrapping is off while the lines are written.

use std::io::{self, Write};

use indicatif::TermLike;
use parking_lot::{Mutex, MutexGuard};

/// The size of a terminal that does not report one: columns and rows.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// The drawing area, on standard error.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    drawing: Mutex<Drawing>,
}

/// The lines to draw, and the state of the last drawing.
#[derive(Debug, Default)]
struct Drawing {
    /// The lines of the next drawing.
    lines: Vec<String>,
    /// True if the last drawing has lines.
    is_drawn: bool,
}

impl Canvas {
    fn lock(&self) -> MutexGuard<'_, Drawing> {
        self.drawing.lock()
    }
}

/// Returns true if standard error is a terminal with lines to redraw. Pseudo-terminals of some CI systems
/// report no columns, because their output ends in a file.
pub fn can_redraw() -> bool {
    rustix::termios::tcgetwinsize(rustix::stdio::stderr()).is_ok_and(|size| size.ws_col > 0)
}

/// Returns the number of columns of the terminal on standard output.
pub fn stdout_columns() -> usize {
    if let Ok(size) = rustix::termios::tcgetwinsize(rustix::stdio::stdout())
        && size.ws_col > 0
    {
        return usize::from(size.ws_col);
    }
    usize::from(DEFAULT_SIZE.0)
}

/// Returns the current numbers of columns and rows of the terminal on standard error.
pub(super) fn stderr_size() -> (u16, u16) {
    if let Ok(size) = rustix::termios::tcgetwinsize(rustix::stdio::stderr()) {
        let or_default = |count: u16, default| if count > 0 { count } else { default };
        return (or_default(size.ws_col, DEFAULT_SIZE.0), or_default(size.ws_row, DEFAULT_SIZE.1));
    }
    DEFAULT_SIZE
}

/// Returns the text that replaces the last drawing with these lines.
fn redraw_text(lines: &[String], is_drawn: bool) -> String {
    if lines.is_empty() {
        // Erase from the cursor to the end of the screen (ED).
        return if is_drawn { "\r\x1b[J".to_owned() } else { String::new() };
    }
    // Wrapping is off (DECAWM), each line is erased after its end (EL), and all rows below the last line are
    // erased (ED).
    let mut text = "\x1b[?7l\r".to_owned();
    text.push_str(&lines.join("\x1b[K\r\n"));
    text.push_str("\x1b[J");
    if lines.len() > 1 {
        text.push_str(&format!("\x1b[{}A", lines.len() - 1));
    }
    text.push_str("\r\x1b[?7h");
    text
}

impl TermLike for Canvas {
    fn width(&self) -> u16 {
        stderr_size().0
    }

    fn height(&self) -> u16 {
        stderr_size().1
    }

    // Only `flush` moves the cursor.
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.write_str(line)
    }

    /// Adds a line to the drawing. Ignores the spaces with which indicatif fills a line.
    fn write_str(&self, line: &str) -> io::Result<()> {
        if !line.trim().is_empty() {
            self.lock().lines.push(line.to_owned());
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut drawing = self.lock();
        let lines = std::mem::take(&mut drawing.lines);
        let text = redraw_text(&lines, drawing.is_drawn);
        drawing.is_drawn = !lines.is_empty();
        io::stderr().lock().write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_rests_at_the_first_line() {
        let lines = |count: usize| vec!["x".to_owned(); count];
        assert_eq!(redraw_text(&lines(1), false), "\x1b[?7l\rx\x1b[J\r\x1b[?7h");
        assert_eq!(redraw_text(&lines(3), true), "\x1b[?7l\rx\x1b[K\r\nx\x1b[K\r\nx\x1b[J\x1b[2A\r\x1b[?7h");
        assert_eq!((redraw_text(&[], true).as_str(), redraw_text(&[], false).as_str()), ("\r\x1b[J", ""));
    }
}
