//! A text that is drawn again and again in the same place: the whole screen of a terminal, while it is open. It is
//! cut to the terminal's size, and drawn anew when that changes. Where there is no terminal, each text follows the one
//! before.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;

use super::styled::Styled;

/// How often to look whether the terminal has another size, or somebody wants out.
const TICK: Duration = Duration::from_millis(50);

/// The screen. It is given back when this is closed or dropped.
pub struct Screenful {
    terminal: bool,
    /// Each text is one line for a program, and nothing stands between them.
    lines: bool,
    frame: String,
    first: bool,
}

impl Screenful {
    /// Takes the terminal's other screen (xterm's `?1049`), so that what stands on the first one stays there. With
    /// `lines` there is a program that reads, terminal or not.
    pub fn open(lines: bool) -> Self {
        let terminal = !lines && std::io::stdout().is_terminal();
        if terminal {
            write("\x1b[?1049h\x1b[?25l");
        }
        Screenful { terminal, lines, frame: String::new(), first: true }
    }

    /// Shows a text for so long. Says whether to go on: not when somebody wants out or reads no more.
    pub fn show(&mut self, frame: String, interval: Duration, wants_out: &dyn Fn() -> bool) -> bool {
        self.frame = frame;
        let mut size = self.size();
        if !self.draw(size) {
            return false;
        }
        let shown = Instant::now();
        while shown.elapsed() < interval {
            if wants_out() {
                return false;
            }
            std::thread::sleep(TICK.min(interval));
            let now = self.size();
            if now != size {
                size = now;
                self.draw(size);
            }
        }
        true
    }

    /// Gives the screen back; returns what was last on it, which is to stay.
    pub fn close(mut self) -> String {
        let shown = self.terminal;
        self.leave();
        if shown { std::mem::take(&mut self.frame) } else { String::new() }
    }

    /// Columns and rows.
    fn size(&self) -> (usize, usize) {
        let size = self.terminal.then(|| tcgetwinsize(rustix::stdio::stdout()).ok()).flatten();
        size.filter(|size| size.ws_col > 0 && size.ws_row > 0)
            .map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)))
    }

    /// Says whether somebody reads it.
    fn draw(&mut self, size: (usize, usize)) -> bool {
        if self.terminal {
            return write(&fitted(&self.frame, size));
        }
        let between = if self.first || self.lines { "" } else { "\n" };
        self.first = false;
        write(&format!("{between}{}", self.frame))
    }

    fn leave(&mut self) {
        if std::mem::take(&mut self.terminal) {
            write("\x1b[?25h\x1b[?1049l");
        }
    }
}

impl Drop for Screenful {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The text cut to so many columns and rows, as the terminal takes it: from the top left corner, each line erased
/// behind its end (`K`), and everything below the last one (`J`).
fn fitted(text: &str, (columns, rows): (usize, usize)) -> String {
    let mut drawn = String::from("\x1b[H");
    let count = text.lines().count();
    for (index, line) in text.lines().take(rows).enumerate() {
        let more = index + 1 == rows && count > rows;
        let line = if more { format!("({} more lines)", count - rows + 1) } else { line.to_owned() };
        drawn.push_str(&Styled::plain(line).cut(columns, false, "…"));
        drawn.push_str("\x1b[K");
        // After the last row the screen would scroll.
        if index + 1 < rows.min(count) {
            drawn.push_str("\r\n");
        }
    }
    drawn.push_str("\x1b[J");
    drawn
}

/// Writes to standard output at once. Says whether somebody reads it.
fn write(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_the_terminal() {
        assert_eq!(fitted("ab\ncdef\n", (3, 5)), "\x1b[Hab\x1b[K\r\ncd…\x1b[K\x1b[J");
        assert_eq!(fitted("a\nb\nc\n", (20, 2)), "\x1b[Ha\x1b[K\r\n(2 more lines)\x1b[K\x1b[J");
        assert_eq!(fitted("", (3, 5)), "\x1b[H\x1b[J");
    }
}
