//! Decompresses zstd (RFC 8878).

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Returns true if a file with these first bytes is in zstd: its first frame has content, or is skipped.
pub(super) fn is_zstd(start: &[u8]) -> bool {
    matches!(start, [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// Reads the content of zstd frames, one after the other, and verifies their checksums. Skips frames without
/// content. The decoder refuses a window of more than 100 MiB, which bounds its memory.
pub(super) struct ZstdReader<R> {
    source: ErrorKeeper<R>,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: BufRead> ZstdReader<R> {
    pub(super) fn new(source: R) -> Self {
        ZstdReader {
            source: ErrorKeeper { source, error: None },
            decoder: FrameDecoder::new(),
            is_in_frame: false,
        }
    }

    /// Reads the header of the next frame. Returns false at the end of the file.
    fn begin_frame(&mut self) -> io::Result<bool> {
        while !self.source.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.is_in_frame = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut self.source.by_ref().take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(self.explain(&error)),
            }
        }
        Ok(false)
    }

    /// Returns the error of the file if it caused the decoder's, or one for damaged data.
    fn explain(&mut self, error: &FrameDecoderError) -> io::Error {
        let damaged_error = || io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        self.source.error.take().unwrap_or_else(damaged_error)
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if !self.is_in_frame && !self.begin_frame()? {
                break;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let strategy = BlockDecodingStrategy::UptoBytes(buffer.len());
                if let Err(error) = self.decoder.decode_blocks(&mut self.source, strategy) {
                    return Err(self.explain(&error));
                }
            }
            let count = self.decoder.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            self.is_in_frame = false;
            let checksum = self.decoder.get_checksum_from_data();
            if checksum.is_some() && checksum != self.decoder.get_calculated_checksum() {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the checksum of a zstd frame is wrong",
                ));
            }
        }
        Ok(0)
    }
}

/// A reader that keeps its last error, because the decoder hides it in one of its own.
struct ErrorKeeper<R> {
    source: R,
    error: Option<io::Error>,
}

impl<R> ErrorKeeper<R> {
    /// Keeps an error, and returns another one of its kind.
    fn keep(&mut self, error: io::Error) -> io::Error {
        let kind = error.kind();
        self.error = Some(error);
        kind.into()
    }
}

impl<R: BufRead> Read for ErrorKeeper<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.source.read(buffer);
        let is_end = matches!(result, Ok(0)) && !buffer.is_empty();
        if is_end {
            self.error = Some(io::ErrorKind::UnexpectedEof.into());
        }
        result.map_err(|error| self.keep(error))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};
    use std::process::{Command, Stdio};

    use super::*;

    /// Compresses with the program `zstd`.
    fn compress(content: &[u8], options: &[&str]) -> Vec<u8> {
        let mut command = Command::new("zstd");
        command.args(["-q", "-c"]).args(options).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("zstd (tests/run installs it)");
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(content).unwrap());
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
            output.stdout
        })
    }

    fn decompress(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        ZstdReader::new(Cursor::new(bytes)).read_to_end(&mut content)?;
        Ok(content)
    }

    fn content() -> Vec<u8> {
        (0..300_000_u32).flat_map(|number| (number.wrapping_mul(number) >> 7).to_le_bytes()).collect()
    }

    #[test]
    fn frames_of_zstd_are_read() {
        let content = content();
        for options in [&["-1"][..], &["-19"], &["--no-check"], &["--long=26"], &["-B200000", "-T2"]] {
            assert!(decompress(&compress(&content, options)).unwrap() == content, "{options:?}");
        }
        let skippable = b"\x5f\x2a\x4d\x18\x03\0\0\0xyz";
        let frames = [&skippable[..], &compress(b"one", &[]), skippable, &compress(b"two", &[])].concat();
        assert!(is_zstd(&frames));
        assert_eq!(decompress(&frames).unwrap(), b"onetwo");
        assert_eq!(decompress(&compress(b"", &[])).unwrap(), b"");
    }

    #[test]
    fn damaged_frames_are_errors() {
        let frame = compress(&content(), &["--check"]);
        let kind = |bytes: &[u8]| decompress(bytes).unwrap_err().kind();
        assert_eq!(kind(&frame[..frame.len() / 2]), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(&frame[..frame.len() - 2]), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(b"\x5f\x2a\x4d\x18\x03\0\0\0x"), io::ErrorKind::UnexpectedEof);
        let mut changed_frame = frame.clone();
        *changed_frame.last_mut().unwrap() ^= 1;
        assert_eq!(kind(&changed_frame), io::ErrorKind::InvalidData);
        assert_eq!(kind(&[&frame[..], b"garbage"].concat()), io::ErrorKind::InvalidData);
        let large_window = compress(&content(), &["--long=30", "--ultra"]);
        let header = [&large_window[..4], &[0x00, 0xa0], &large_window[6..]].concat();
        assert_eq!(kind(&header), io::ErrorKind::InvalidData);
    }

    /// A reader that fails after some bytes.
    struct FailingReader<'a>(&'a [u8]);

    impl Read for FailingReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::other("the disk is gone")),
                count => Ok(count),
            }
        }
    }

    #[test]
    fn errors_of_the_file_stay_what_they_are() {
        let frame = compress(&content(), &[]);
        let source = io::BufReader::new(FailingReader(&frame[..frame.len() / 2]));
        let error = ZstdReader::new(source).read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "the disk is gone");
    }
}
