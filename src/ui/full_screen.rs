//! Text that is redrawn on the whole screen of a terminal, cut to its size. Without a terminal, each text
//! follows the previous one.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;

use super::styled::Styled;

/// The time between two checks for a resize or an interrupt.
const TICK_INTERVAL: Duration = Duration::from_millis(50);

/// The screen, restored when this is closed or dropped.
pub struct FullScreen {
    /// True while the alternate screen of a terminal is open.
    is_screen_open: bool,
    /// True for output to a program: each text is one line, and no empty line separates them.
    is_one_line_per_text: bool,
    frame: String,
    /// True until a text was drawn.
    is_empty: bool,
}

impl FullScreen {
    /// Opens the alternate screen of a terminal (xterm's `?1049`). With `is_one_line_per_text`, a program
    /// reads the output, even from a terminal.
    pub fn open(is_one_line_per_text: bool) -> Self {
        let is_screen_open = !is_one_line_per_text && std::io::stdout().is_terminal();
        if is_screen_open {
            write("\x1b[?1049h\x1b[?25l");
        }
        FullScreen { is_screen_open, is_one_line_per_text, frame: String::new(), is_empty: true }
    }

    /// Shows a text for `interval`. Returns false if the user interrupts, or the reader is gone.
    pub fn show(&mut self, frame: String, interval: Duration, is_interrupted: &dyn Fn() -> bool) -> bool {
        self.frame = frame;
        let mut size = self.size();
        if !self.draw(size) {
            return false;
        }
        let start = Instant::now();
        while start.elapsed() < interval {
            if is_interrupted() {
                return false;
            }
            std::thread::sleep(TICK_INTERVAL.min(interval));
            let now = self.size();
            if now != size {
                size = now;
                self.draw(size);
            }
        }
        true
    }

    /// Restores the screen and returns the last text, to print it below.
    pub fn close(mut self) -> String {
        let was_open = self.is_screen_open;
        self.leave();
        if was_open { std::mem::take(&mut self.frame) } else { String::new() }
    }

    /// Returns the numbers of columns and rows.
    fn size(&self) -> (usize, usize) {
        let size = self.is_screen_open.then(|| tcgetwinsize(rustix::stdio::stdout()).ok()).flatten();
        size.filter(|size| size.ws_col > 0 && size.ws_row > 0)
            .map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)))
    }

    /// Draws the text. Returns false if the reader is gone.
    fn draw(&mut self, size: (usize, usize)) -> bool {
        if self.is_screen_open {
            return write(&fit_frame(&self.frame, size));
        }
        let separator = if self.is_empty || self.is_one_line_per_text { "" } else { "\n" };
        self.is_empty = false;
        write(&format!("{separator}{}", self.frame))
    }

    fn leave(&mut self) {
        if std::mem::take(&mut self.is_screen_open) {
            write("\x1b[?25h\x1b[?1049l");
        }
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Cuts the text to columns and rows, with the escape sequences to draw it. It starts in the top left corner,
/// each line is erased after its end (`K`), and all rows below the last line are erased (`J`).
fn fit_frame(text: &str, (columns, rows): (usize, usize)) -> String {
    let mut output = String::from("\x1b[H");
    let count = text.lines().count();
    for (index, line) in text.lines().take(rows).enumerate() {
        let has_more = index + 1 == rows && count > rows;
        let line = if has_more { format!("({} more lines)", count - rows + 1) } else { line.to_owned() };
        output.push_str(&Styled::plain(line).cut(columns, false, "…"));
        output.push_str("\x1b[K");
        // A line feed in the last row would scroll the screen.
        if index + 1 < rows.min(count) {
            output.push_str("\r\n");
        }
    }
    output.push_str("\x1b[J");
    output
}

/// Writes to standard output and flushes. Returns false if the reader is gone.
fn write(text: &str) -> bool {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_fits_the_terminal() {
        assert_eq!(fit_frame("ab\ncdef\n", (3, 5)), "\x1b[Hab\x1b[K\r\ncd…\x1b[K\x1b[J");
        assert_eq!(fit_frame("a\nb\nc\n", (20, 2)), "\x1b[Ha\x1b[K\r\n(2 more lines)\x1b[K\x1b[J");
        assert_eq!(fit_frame("", (3, 5)), "\x1b[H\x1b[J");
    }
}
