//! Reads the entries of a tar stream: ustar, GNU long names and PAX, nothing more.
//!
//! The `tar` crate decodes the header fields. Its own entry iterator is not used: it reads names and
//! extension headers of any length into memory.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use tar::{EntryType, Header, PaxExtensions};

use super::{ArchiveError, UnpackLimits, printable};

const BLOCK_BYTES: usize = 512;
/// The maximum size of an extension header (long name, PAX records) in bytes. Real ones have some hundred
/// bytes, those with extended attributes some thousand.
const MAX_EXTENSION_BYTES: u64 = 256 << 10;

/// A reader of unpacked bytes that fails when the limits on bytes or ratio are exceeded.
pub(super) struct BudgetReader<R> {
    inner: R,
    limits: UnpackLimits,
    /// Bytes read from the archive file so far, before decompression.
    packed_bytes: Rc<Cell<u64>>,
    unpacked_bytes: u64,
}

impl<R: Read> BudgetReader<R> {
    pub(super) fn new(inner: R, limits: UnpackLimits, packed_bytes: Rc<Cell<u64>>) -> Self {
        BudgetReader { inner, limits, packed_bytes, unpacked_bytes: 0 }
    }
}

impl<R: Read> Read for BudgetReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.unpacked_bytes += count as u64;
        let result = self.limits.check_bytes(
            self.unpacked_bytes,
            self.packed_bytes.get(),
            "bytes per compressed byte",
        );
        result.map_err(io::Error::other)?;
        Ok(count)
    }
}

/// Converts a read error. If it contains an [`ArchiveError`], that error is returned.
pub(crate) fn read_error(error: io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ArchiveError::Truncated,
        // The decompressor reports corrupt data with these kinds.
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => ArchiveError::Damaged(error.to_string()),
        _ => match error.downcast::<ArchiveError>() {
            Ok(archive_error) => archive_error,
            Err(error) => ArchiveError::Read(error),
        },
    }
}

/// The header of one entry, with extension headers applied. Its data is next in the reader.
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: EntryType,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    /// User and group id, unless one of them is no number of 32 bits.
    pub(crate) owner: Option<(u32, u32)>,
    /// Modification time in seconds since 1970.
    pub(crate) mtime: u64,
}

/// An iterator over the entries of a tar stream.
pub(super) struct Entries<R> {
    inner: R,
    compression: Compression,
    /// Bytes of the current entry's data that have not been read.
    unread_bytes: u64,
    /// Bytes of padding after that data.
    padding_bytes: u64,
    count: u64,
    limits: UnpackLimits,
}

/// The compression of an archive file.
#[derive(Clone, Copy)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// Fields that extension headers set for the next entry.
#[derive(Default)]
struct ExtensionFields {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u64>,
    gid: Option<u64>,
}

impl<R: Read> Entries<R> {
    pub(super) fn new(inner: R, compression: Compression, limits: UnpackLimits) -> Self {
        Entries { inner, compression, unread_bytes: 0, padding_bytes: 0, count: 0, limits }
    }

    /// Returns the number of headers read so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the next entry, or `None` at the end-of-archive marker. Skips unread data of the current
    /// entry.
    pub(super) fn next_entry(&mut self) -> Result<Option<Entry>, ArchiveError> {
        let mut extension = ExtensionFields::default();
        let mut is_dangling = false;
        loop {
            self.skip_rest()?;
            let Some(header) = self.read_header()? else {
                return match is_dangling {
                    true => {
                        Err(ArchiveError::Damaged("an entry is missing after its extension header".into()))
                    }
                    false => Ok(None),
                };
            };
            self.count += 1;
            self.limits.check_entries(self.count)?;
            let kind = header.entry_type();
            let damaged_error = |error: io::Error| ArchiveError::Damaged(error.to_string());
            let size = header.entry_size().map_err(damaged_error)?;
            is_dangling = kind != EntryType::XGlobalHeader;
            match kind {
                EntryType::GNULongName => extension.name = Some(self.read_long_name(size)?),
                EntryType::GNULongLink => extension.link = Some(self.read_long_name(size)?),
                EntryType::XHeader => self.read_pax_fields(size, &mut extension)?,
                EntryType::XGlobalHeader => {
                    // `git archive` writes its commit here. A record that would rename every entry is
                    // refused.
                    let mut global = ExtensionFields::default();
                    self.read_pax_fields(size, &mut global)?;
                    if global.name.is_some() || global.link.is_some() || global.size.is_some() {
                        return Err(ArchiveError::Damaged(
                            "a global header sets the name or the size of entries".into(),
                        ));
                    }
                }
                _ => {
                    let name = extension.name.take().unwrap_or_else(|| header.path_bytes().into_owned());
                    let link =
                        extension.link.take().or(header.link_name_bytes().map(|link| link.into_owned()));
                    // Links and directories have no data, even if their size field is not 0 (POSIX pax).
                    let has_data = matches!(kind, EntryType::Regular | EntryType::Continuous);
                    let size = if has_data { extension.size.unwrap_or(size) } else { 0 };
                    self.begin_data(size);
                    let id = |extension_id: Option<u64>, header_id: io::Result<u64>| {
                        extension_id.or(header_id.ok()).and_then(|id| u32::try_from(id).ok())
                    };
                    return Ok(Some(Entry {
                        name,
                        kind,
                        link,
                        size,
                        mode: header.mode().map_err(damaged_error)?,
                        owner: id(extension.uid, header.uid()).zip(id(extension.gid, header.gid())),
                        // An unreadable time is not worth an error.
                        mtime: header.mtime().unwrap_or(0),
                    }));
                }
            }
        }
    }

    /// Reads to the end of the stream. Only zeros may follow the last entry: tar pads to its record size.
    pub(super) fn finish(mut self) -> Result<(), ArchiveError> {
        let mut buffer = [0; 8192];
        loop {
            let count = retry_read(&mut self.inner, &mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            if buffer[..count].iter().any(|byte| *byte != 0) {
                return Err(ArchiveError::TrailingData);
            }
        }
    }

    fn begin_data(&mut self, size: u64) {
        self.unread_bytes = size;
        self.padding_bytes = (BLOCK_BYTES as u64 - size % BLOCK_BYTES as u64) % BLOCK_BYTES as u64;
    }

    fn read_header(&mut self) -> Result<Option<Header>, ArchiveError> {
        let mut header = Header::new_old();
        let block = header.as_mut_bytes();
        let mut length = 0;
        while length < BLOCK_BYTES {
            match retry_read(&mut self.inner, &mut block[length..])? {
                0 if length == 0 && self.count == 0 => return Err(ArchiveError::Empty),
                0 if self.count == 0 => return Err(self.not_an_archive_error()),
                0 => return Err(ArchiveError::Truncated),
                count => length += count,
            }
        }
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        // The checksum is computed with spaces in its own field.
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(index, byte)| if (148..156).contains(&index) { 32 } else { u32::from(*byte) })
            .sum();
        match header.cksum() {
            Ok(recorded_sum) if recorded_sum == sum => Ok(Some(header)),
            _ if self.count == 0 => Err(self.not_an_archive_error()),
            _ => Err(ArchiveError::Damaged("the checksum of an entry's header does not match".into())),
        }
    }

    fn not_an_archive_error(&self) -> ArchiveError {
        let text = match self.compression {
            Compression::None => "it is neither a gzip file nor a tar archive",
            Compression::Gzip => "it is a gzip file, but its content is not a tar archive",
            Compression::Zstd => "it is a zstd file, but its content is not a tar archive",
        };
        ArchiveError::NotAnArchive(text.into())
    }

    fn read_extension_body(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        if size > MAX_EXTENSION_BYTES {
            return Err(ArchiveError::TooLarge {
                unit: "bytes in one extension header",
                limit: MAX_EXTENSION_BYTES,
            });
        }
        self.begin_data(size);
        let mut body = Vec::new();
        self.entry_data().read_to_end(&mut body).map_err(read_error)?;
        if (body.len() as u64) < size {
            return Err(ArchiveError::Truncated);
        }
        Ok(body)
    }

    fn read_long_name(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        let mut name = self.read_extension_body(size)?;
        if name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    fn read_pax_fields(&mut self, size: u64, extension: &mut ExtensionFields) -> Result<(), ArchiveError> {
        let body = self.read_extension_body(size)?;
        for record in PaxExtensions::new(&body) {
            let record = record.map_err(|error| ArchiveError::Damaged(error.to_string()))?;
            match record.key_bytes() {
                b"path" => extension.name = Some(record.value_bytes().to_vec()),
                b"linkpath" => extension.link = Some(record.value_bytes().to_vec()),
                key @ (b"size" | b"uid" | b"gid") => {
                    let number = record.value().ok().and_then(|text| text.parse().ok());
                    let number = number.ok_or_else(|| {
                        let (key, value) = (printable(key), printable(record.value_bytes()));
                        ArchiveError::Damaged(format!("an extension header has the {key} '{value}'"))
                    })?;
                    let field = match key {
                        b"size" => &mut extension.size,
                        b"uid" => &mut extension.uid,
                        _ => &mut extension.gid,
                    };
                    *field = Some(number);
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    let name = extension.name.as_deref().map_or("?".into(), printable);
                    return Err(ArchiveError::Type { name, kind: "sparse file".into() });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn entry_data(&mut self) -> EntryData<'_, R> {
        EntryData { entries: self }
    }

    /// Returns a reader of the current entry's data.
    pub(super) fn data(&mut self) -> impl Read + '_ {
        self.entry_data()
    }

    fn skip_rest(&mut self) -> Result<(), ArchiveError> {
        self.unread_bytes = self.unread_bytes.saturating_add(std::mem::take(&mut self.padding_bytes));
        io::copy(&mut self.entry_data(), &mut io::sink()).map_err(read_error)?;
        Ok(())
    }
}

/// A reader of one entry's data. If the stream ends before the size in the header, reading fails.
struct EntryData<'a, R> {
    entries: &'a mut Entries<R>,
}

impl<R: Read> Read for EntryData<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(usize::try_from(self.entries.unread_bytes).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(0);
        }
        let count = self.entries.inner.read(&mut buffer[..length])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.entries.unread_bytes -= count as u64;
        Ok(count)
    }
}

fn retry_read(reader: &mut impl Read, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
    loop {
        match reader.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map_err(read_error),
        }
    }
}
