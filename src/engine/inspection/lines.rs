//! Splits text into lines with little memory, however long a line is.

use std::io::{self, BufRead};

use base::Result;

/// The maximum length of a line that is passed on whole. A longer line comes in several pieces.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Splits text that may still grow.
#[derive(Default)]
pub(super) struct LineSplitter {
    /// The beginning of a line whose end is still missing.
    line: Vec<u8>,
}

impl LineSplitter {
    /// Passes the lines of `reader`, up to its end, to `use_line`. Keeps a last line without a line break.
    /// `read_error` describes an error of `reader`.
    pub(super) fn read(
        &mut self,
        reader: &mut impl BufRead,
        read_error: impl Fn(io::Error) -> base::Error,
        use_line: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        loop {
            let buffer = reader.fill_buf().map_err(&read_error)?;
            if buffer.is_empty() {
                return Ok(());
            }
            let end = memchr::memchr(b'\n', buffer);
            let part = &buffer[..end.unwrap_or(buffer.len())];
            self.line.extend_from_slice(part);
            let length = part.len() + usize::from(end.is_some());
            reader.consume(length);
            if end.is_some() {
                use_line(&self.line)?;
                self.line.clear();
            } else if self.line.len() >= MAX_LINE_BYTES {
                // The line is split at a blank, so that no secret without blanks is cut in two.
                let blank_index = self.line.iter().rposition(u8::is_ascii_whitespace);
                let blank_index = blank_index.filter(|index| *index >= MAX_LINE_BYTES / 2);
                let next_line = self.line.split_off(blank_index.map_or(self.line.len(), |index| index + 1));
                use_line(&self.line)?;
                self.line = next_line;
            }
        }
    }

    /// Passes on the last line, if it has no line break.
    pub(super) fn finish(self, use_line: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.line.is_empty() { Ok(()) } else { use_line(&self.line) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// Splits texts that follow each other, and returns the lines.
    fn split(texts: &[&str]) -> Vec<String> {
        let (mut splitter, mut lines) = (LineSplitter::default(), Vec::new());
        let mut add = |line: &[u8]| {
            lines.push(String::from_utf8(line.to_vec()).unwrap());
            Ok(())
        };
        for text in texts {
            let mut reader = BufReader::with_capacity(7, text.as_bytes());
            splitter.read(&mut reader, |error| base::Error::io("reading", error), &mut add).unwrap();
        }
        splitter.finish(&mut add).unwrap();
        lines
    }

    #[test]
    fn line_may_come_in_parts() {
        assert_eq!(split(&["a\n\nb", "c\n", "", "d"]), ["a", "", "bc", "d"]);
        assert_eq!(split(&["a\n"]), ["a"]);
        assert_eq!(split(&[""]), [""; 0]);
    }

    #[test]
    fn long_lines_are_split_between_words() {
        let word = "0123456789 ";
        let text = word.repeat(5 * MAX_LINE_BYTES / word.len());
        let mut pieces = split(&[&format!("{text}\nlast\n")]);
        assert!(pieces.iter().all(|piece| piece.len() <= MAX_LINE_BYTES + 7));
        assert!(pieces.len() > 4 && pieces.pop().unwrap() == "last", "{}", pieces.len());
        assert!(pieces[..pieces.len() - 1].iter().all(|piece| piece.ends_with("9 ")));
        assert_eq!(pieces.concat(), text);
    }
}
