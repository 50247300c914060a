//! Images of disks: unpacks the root file system of a disk with ext4, without a mount and without root.
//!
//! The image is raw or qcow2. The file system is on the whole disk or in a partition. Images are untrusted
//! like archives: their files are written by the rules of [`archive`](crate::archive), and all numbers in
//! them are checked before they are used. Reading ends for any image, because each step uses up a part of
//! the [`Budget`].

pub mod boot_record;
mod ext4;
mod partitions;
mod qcow2;

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::archive::{self, ArchiveError, UnpackLimits, UnpackOptions, UnpackedTree, read_error};
use base::Result;
use base::text::shell_word;
use boot_record::{SECTOR_BYTES, SIGNATURE, SIGNATURE_OFFSET};
use ext4::Ext4;
use qcow2::Qcow2;

/// The number of bytes by which [`is_disk`] recognises a disk.
pub const HEAD_BYTES: u64 = 2048;

const OTHER_FORMATS: [(&[u8], &str); 4] =
    [(b"KDMV", "VMDK"), (b"# Disk DescriptorFile", "VMDK"), (b"conectix", "VHD"), (b"vhdxfile", "VHDX")];

/// A disk whose bytes can be read at any offset.
trait ReadAt {
    /// Fills `buffer`. Bytes after the end of the disk are an error.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// A raw image.
struct Raw<R>(R);

impl<R: Read + Seek> ReadAt for Raw<R> {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        read_exact_at(&mut self.0, offset, buffer)
    }
}

fn read_exact_at(file: &mut (impl Read + Seek), offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(buffer)
}

/// The work that was done for an image, and its limits.
#[derive(Clone, Copy)]
struct Budget {
    limits: UnpackLimits,
    image_bytes: u64,
    bytes: u64,
    entries: u64,
}

impl Budget {
    /// Counts bytes of files, directories and tables before they are read.
    fn spend(&mut self, bytes: u64) -> std::result::Result<(), ArchiveError> {
        self.bytes = self.bytes.saturating_add(bytes);
        // The content of a sparse file is not in the image.
        self.limits.check_bytes(self.bytes, self.image_bytes, "bytes per byte of the image")
    }

    fn count_entry(&mut self) -> std::result::Result<(), ArchiveError> {
        self.entries += 1;
        self.limits.check_entries(self.entries)
    }
}

/// Returns true if a file that begins with these [`HEAD_BYTES`] is the image of a disk and no archive.
pub fn is_disk(head: &[u8]) -> bool {
    let is_archive = head.starts_with(&[0x1f, 0x8b]) || head.get(257..262) == Some(b"ustar");
    let is_disk = head.starts_with(&qcow2::MAGIC)
        || other_format(head).is_some()
        || head.get(SIGNATURE_OFFSET..SECTOR_BYTES) == Some(&SIGNATURE)
        || ext4::has_magic(head);
    is_disk && !is_archive
}

fn other_format(head: &[u8]) -> Option<&'static str> {
    OTHER_FORMATS.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, format)| *format)
}

/// Unpacks the root file system of the disk `image` into the new directory `destination`, whose parent must
/// exist: the first ext4 file system that has `/bin` or `/usr/bin`. `source_name` names the image in errors,
/// and `file` in the command of a hint. `progress` is called with the bytes read so far.
pub fn unpack(
    image: impl Read + Seek,
    source_name: &str,
    file: &Path,
    destination: &Path,
    options: &UnpackOptions<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    archive::unpack_entries(source_name, destination, options, |tree| {
        unpack_root(image, file, options.limits, tree, progress)
    })
}

fn unpack_root(
    mut image: impl Read + Seek,
    file: &Path,
    limits: UnpackLimits,
    tree: &mut UnpackedTree<'_>,
    progress: &mut dyn FnMut(u64),
) -> std::result::Result<(), ArchiveError> {
    let image_bytes = image.seek(SeekFrom::End(0)).map_err(ArchiveError::Read)?;
    image.seek(SeekFrom::Start(0)).map_err(ArchiveError::Read)?;
    let mut head = Vec::new();
    image.by_ref().take(SECTOR_BYTES as u64).read_to_end(&mut head).map_err(ArchiveError::Read)?;
    if let Some(format) = other_format(&head) {
        return Err(unsupported_error(format!("the disk is in the format {format}"), file));
    }
    let (mut qcow2, mut raw);
    let disk: &mut dyn ReadAt = if head.starts_with(&qcow2::MAGIC) {
        qcow2 = Qcow2::open(image, file)?;
        &mut qcow2
    } else {
        raw = Raw(image);
        &mut raw
    };
    let budget = Budget { limits, image_bytes, bytes: 0, entries: 0 };
    open_root(disk, budget)?.unpack(tree, progress)
}

/// Opens the first file system that is a root file system.
fn open_root(disk: &mut dyn ReadAt, mut budget: Budget) -> std::result::Result<Ext4<'_>, ArchiveError> {
    let starts = partitions::read_starts(disk).map_err(read_error)?;
    let mut first_error = None;
    for start in starts {
        // A start after the end of the disk is that of no file system.
        let Ok(Some(file_system)) = ext4::FileSystem::read(disk, start) else { continue };
        let checked_file_system = file_system.and_then(|file_system| {
            let mut ext4 = Ext4 { disk: &mut *disk, file_system, budget };
            let has_programs = ext4.has_programs();
            budget = ext4.budget;
            has_programs.map(|has_programs| (file_system, has_programs))
        });
        match checked_file_system {
            Ok((file_system, true)) => return Ok(Ext4 { disk, file_system, budget }),
            Ok((_, false)) => {}
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| ArchiveError::Disk {
        problem: "the disk has no ext4 file system with /bin or /usr/bin".to_owned(),
        hint: "name a disk whose root file system is ext4, in a primary partition or on the whole disk"
            .to_owned(),
    }))
}

/// Returns the error for the image `file` of a disk that can be used after a conversion.
fn unsupported_error(problem: String, file: &Path) -> ArchiveError {
    let file = file.to_string_lossy();
    let hint = format!(
        "convert the disk: `qemu-img convert -O qcow2 {} userland.qcow2`, and use the new file as the \
         userland",
        shell_word(&file)
    );
    ArchiveError::Disk { problem, hint }
}

fn damaged_error(problem: &str) -> ArchiveError {
    ArchiveError::Damaged(problem.to_owned())
}

/// Returns the little-endian number at an offset, which the caller has checked.
fn le16(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array(bytes, offset))
}

fn le32(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array(bytes, offset))
}

fn le64(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array(bytes, offset))
}

/// Returns `N` bytes at an offset; zeros if they are not all there.
fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests;
