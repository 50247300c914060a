//! Images in the format qcow2, version 2 and 3 (QEMU, `docs/interop/qcow2.rst`): one file with its own data.
//!
//! The disk is divided into clusters. An entry of the table L1 has the offset of a table L2, and an entry of
//! that table has the offset of a cluster. The number of clusters that are held in memory is bounded.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::DeflateDecoder;

use super::{ReadAt, damaged_error, read_exact_at, unsupported_error};
use crate::archive::{ArchiveError, read_error};

pub(super) const MAGIC: [u8; 4] = *b"QFI\xfb";
/// The length of the header with the fields of version 3 that this module reads.
const HEADER_BYTES: u64 = 105;
/// The maximum size of the table L1 in bytes, as in QEMU.
const MAX_L1_BYTES: u64 = 32 << 20;
/// The maximum number of clusters, and of tables L2, in memory.
const MAX_CACHED_BLOCKS: usize = 16;

/// The incompatible feature of an image that QEMU found corrupt.
const FEATURE_CORRUPT: u64 = 1 << 1;
/// The incompatible feature of an image whose data are in another file.
const FEATURE_EXTERNAL_DATA: u64 = 1 << 2;
/// The incompatible feature of an image that names its compression in the header.
const FEATURE_COMPRESSION_TYPE: u64 = 1 << 3;
/// The features without an effect on reading: bit 0 says that counts of references may be wrong. An image
/// with a compression type still has its number in the header.
const IGNORED_FEATURES: u64 = 1 | FEATURE_COMPRESSION_TYPE;

/// The bits of an entry with an offset in the file.
const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
/// The bit of a compressed cluster in a table L2.
const COMPRESSED_BIT: u64 = 1 << 62;
/// The bit of a cluster of zeros in a table L2.
const ZEROS_BIT: u64 = 1;

/// An open image.
pub(super) struct Qcow2<R> {
    file: R,
    /// The size of the disk.
    bytes: u64,
    cluster_bits: u32,
    l1: Vec<u64>,
    tables: BlockCache,
    clusters: BlockCache,
}

/// The blocks of the file that were used last, by the entry that names them.
#[derive(Default)]
struct BlockCache(VecDeque<(u64, Vec<u8>)>);

impl BlockCache {
    fn get_or_read(&mut self, entry: u64, read: impl FnOnce() -> io::Result<Vec<u8>>) -> io::Result<&[u8]> {
        let block = match self.0.iter().position(|(cached_entry, _)| *cached_entry == entry) {
            Some(index) => self.0.remove(index),
            None => {
                self.0.truncate(MAX_CACHED_BLOCKS - 1);
                Some((entry, read()?))
            }
        };
        self.0.extend(block);
        self.0.rotate_right(1);
        Ok(self.0.front().map(|(_, bytes)| bytes.as_slice()).unwrap_or_default())
    }
}

impl<R: Read + Seek> Qcow2<R> {
    /// Reads the header and the table L1. `path` names the image in hints.
    pub(super) fn open(mut file: R, path: &Path) -> Result<Self, ArchiveError> {
        let mut header = Vec::new();
        file.seek(SeekFrom::Start(0)).map_err(read_error)?;
        file.by_ref().take(HEADER_BYTES).read_to_end(&mut header).map_err(read_error)?;
        if header.len() < 72 || !header.starts_with(&MAGIC) {
            return Err(ArchiveError::Truncated);
        }
        let version = be32(&header, 4);
        let features = match version {
            2 => 0,
            3 => be64(&header, 72),
            _ => return Err(unsupported_error(format!("the disk is in version {version} of qcow2"), path)),
        };
        let header_length = if version == 3 { be32(&header, 100) } else { 72 };
        let is_zlib = header_length <= 104 || header.get(104).is_none_or(|number| *number == 0);
        let problem = if be64(&header, 8) != 0 {
            "the disk needs another file, its backing file"
        } else if features & FEATURE_EXTERNAL_DATA != 0 {
            "the disk has its data in another file"
        } else if be32(&header, 32) != 0 {
            "the disk is encrypted"
        } else if features & FEATURE_COMPRESSION_TYPE != 0 && !is_zlib {
            "the disk is compressed with zstd"
        } else if features & FEATURE_CORRUPT != 0 {
            return Err(damaged_error("the disk is marked as corrupt"));
        } else if features & !IGNORED_FEATURES != 0 {
            "the disk has features of qcow2 that monopile does not know"
        } else {
            ""
        };
        if !problem.is_empty() {
            return Err(unsupported_error(problem.to_owned(), path));
        }
        let (cluster_bits, bytes) = (be32(&header, 20), be64(&header, 24));
        if !(9..=21).contains(&cluster_bits) {
            return Err(damaged_error("the size of its clusters is wrong"));
        }
        // A table L2 is a cluster with entries of 8 bytes.
        let tables = bytes.div_ceil(1 << (2 * cluster_bits - 3));
        if tables * 8 > MAX_L1_BYTES {
            return Err(ArchiveError::TooLarge { unit: "bytes in a table of qcow2", limit: MAX_L1_BYTES });
        }
        if tables > u64::from(be32(&header, 36)) {
            return Err(damaged_error("its table of clusters is too short"));
        }
        let mut l1 = vec![0; tables as usize * 8];
        read_exact_at(&mut file, be64(&header, 40), &mut l1).map_err(read_error)?;
        let l1 = l1.chunks_exact(8).map(|entry| be64(entry, 0) & OFFSET_MASK).collect();
        let (tables, clusters) = Default::default();
        Ok(Qcow2 { file, bytes, cluster_bits, l1, tables, clusters })
    }

    /// Reads a part of one cluster.
    fn read_in_cluster(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let Qcow2 { file, cluster_bits, l1, tables, clusters, .. } = self;
        let cluster_bytes = 1_usize << *cluster_bits;
        let (cluster, start) = (offset >> *cluster_bits, (offset % cluster_bytes as u64) as usize);
        let entries_bits = *cluster_bits - 3;
        let table = l1.get((cluster >> entries_bits) as usize).copied().unwrap_or(0);
        if table == 0 {
            buffer.fill(0);
            return Ok(());
        }
        let table = tables.get_or_read(table, || {
            let mut bytes = vec![0; cluster_bytes];
            read_exact_at(file, table, &mut bytes)?;
            Ok(bytes)
        })?;
        let entry = be64(table, (cluster % (1 << entries_bits)) as usize * 8);
        if entry & COMPRESSED_BIT != 0 {
            let cluster = clusters.get_or_read(entry, || {
                let mut bytes = vec![0; cluster_bytes];
                inflate(file, entry, *cluster_bits, &mut bytes)?;
                Ok(bytes)
            })?;
            buffer.copy_from_slice(&cluster[start..start + buffer.len()]);
            return Ok(());
        }
        let place = entry & OFFSET_MASK;
        if place == 0 || entry & ZEROS_BIT != 0 {
            buffer.fill(0);
            return Ok(());
        }
        read_exact_at(file, place + start as u64, buffer)
    }
}

impl<R: Read + Seek> ReadAt for Qcow2<R> {
    fn read_at(&mut self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let cluster_bytes = 1 << self.cluster_bits;
        while !buffer.is_empty() {
            let length = buffer.len().min((cluster_bytes - offset % cluster_bytes) as usize);
            let (part, rest) = buffer.split_at_mut(length);
            self.read_in_cluster(offset, part)?;
            (offset, buffer) = (offset + length as u64, rest);
        }
        Ok(())
    }
}

/// Inflates a compressed cluster. Its entry has the offset of the data in the lower bits, and above them the
/// number of sectors after the first one that the data reaches into.
fn inflate(
    file: &mut (impl Read + Seek),
    entry: u64,
    cluster_bits: u32,
    cluster: &mut [u8],
) -> io::Result<()> {
    let offset_bits = 62 - (cluster_bits - 8);
    let offset = entry & ((1 << offset_bits) - 1);
    let sectors = (entry & (COMPRESSED_BIT - 1)) >> offset_bits;
    file.seek(SeekFrom::Start(offset))?;
    // The data may end before the last sector, and the file with it.
    let data = file.take((sectors + 1) * 512 - offset % 512);
    DeflateDecoder::new(data).read_exact(cluster)
}

fn be32(bytes: &[u8], offset: usize) -> u32 {
    u32::from_be_bytes(super::array(bytes, offset))
}

fn be64(bytes: &[u8], offset: usize) -> u64 {
    u64::from_be_bytes(super::array(bytes, offset))
}
