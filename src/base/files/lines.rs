//! The last lines of a file.

use std::io;

/// The number of bytes that are read at once.
const BLOCK_BYTES: usize = 64 << 10;

/// Returns the position at which the last `count` lines of a text of `length` bytes begin. A last line
/// without a line break counts as a line.
///
/// `read_at` reads the text at a position, like `FileExt::read_at`. It is called from the end on, so that the
/// length of the text does not matter.
pub fn start_of_last_lines(
    length: u64,
    count: usize,
    mut read_at: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<u64> {
    if count == 0 {
        return Ok(length);
    }
    let mut block = vec![0; BLOCK_BYTES];
    let (mut end, mut breaks) = (length, 0);
    while end > 0 {
        let start = end.saturating_sub(BLOCK_BYTES as u64);
        let block = &mut block[..usize::try_from(end - start).unwrap_or(BLOCK_BYTES)];
        let mut filled_bytes = 0;
        while filled_bytes < block.len() {
            match read_at(&mut block[filled_bytes..], start + filled_bytes as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => filled_bytes += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        for (index, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let line_start = start + index as u64 + 1;
            // The line break at the end of the text ends the last line.
            if line_start < length {
                breaks += 1;
                if breaks == count {
                    return Ok(line_start);
                }
            }
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Reads at most 1000 bytes at once.
    fn start(text: &[u8], count: usize) -> u64 {
        start_of_last_lines(text.len() as u64, count, |buffer, position| {
            let rest = &text[usize::try_from(position).unwrap()..];
            let bytes = rest.len().min(buffer.len()).min(1000);
            buffer[..bytes].copy_from_slice(&rest[..bytes]);
            Ok(bytes)
        })
        .unwrap()
    }

    #[test]
    fn last_lines_begin_after_a_line_break() {
        for (text, count, expected) in [
            ("a\nb\nc\n", 0, 6),
            ("a\nb\nc\n", 1, 4),
            ("a\nb\nc\n", 2, 2),
            ("a\nb\nc\n", 3, 0),
            ("a\nb\nc\n", usize::MAX, 0),
            ("a\n\nb", 1, 3),
            ("a\n\nb", 2, 2),
            ("\n\n", 1, 1),
            ("", 1, 0),
        ] {
            assert_eq!(start(text.as_bytes(), count), expected, "{text:?}, {count}");
        }
        let long = ["x".repeat(3 * BLOCK_BYTES), "y".repeat(BLOCK_BYTES)].join("\n");
        assert_eq!(start(long.as_bytes(), 1), 3 * BLOCK_BYTES as u64 + 1);
        assert_eq!(start(long.as_bytes(), 2), 0);
    }

    #[test]
    fn only_the_end_is_read() {
        let calls = Cell::new(0);
        let start = start_of_last_lines(10 << 30, 10, |buffer, _| {
            calls.set(calls.get() + 1);
            buffer.fill(b'\n');
            Ok(buffer.len())
        });
        assert_eq!((start.unwrap(), calls.get()), ((10 << 30) - 10, 1));
    }

    #[test]
    fn text_that_became_shorter_is_an_error() {
        let error = start_of_last_lines(5, 1, |_, _| Ok(0)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
