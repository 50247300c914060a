//! The file system ext4, read-only (Linux, `Documentation/filesystems/ext4`). It reads inodes by number, so
//! it finds hard links, and needs no index of a directory.
//!
//! Hostile images: a directory is entered once, the extents of a file must be in order, and everything that
//! is read counts against the budget. So a loop ends with an error.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};

use tar::EntryType;

use super::{Budget, ReadAt, damaged_error, le16, le32};
use crate::archive::{ArchiveError, Entry, UnpackedTree, read_error};

/// The hint for a file system with features that are not supported.
const FEATURES_HINT: &str = "make the file system with the features of `mke2fs -t ext4`";
const SUPER_BLOCK_OFFSET: u64 = 1024;
const SUPER_BLOCK_BYTES: usize = 1024;
const MAGIC_OFFSET: usize = 0x38;
const MAGIC: u16 = 0xef53;
/// The number of the inode of the root directory.
const ROOT_INODE: u32 = 2;
/// The maximum size of a block: 1 KiB shifted by this.
const MAX_BLOCK_SHIFT: u32 = 5;
/// The bytes of an inode that are read: those of ext2, to which ext4 adds only times and checksums.
const READ_INODE_BYTES: usize = 128;
/// The first bytes of a node in a tree of extents.
const EXTENT_MAGIC: u16 = 0xf30a;
/// The maximum depth of a tree of extents.
const MAX_DEPTH: u16 = 5;
/// The maximum number of extents of a file. One extent has up to 128 MiB.
const MAX_EXTENTS: usize = 1 << 20;
/// The maximum length of an extent in blocks. A higher number means an extent that was never written.
const MAX_EXTENT_BLOCKS: u16 = 32_768;
/// The maximum size of a directory in bytes.
const MAX_DIRECTORY_BYTES: u64 = 64 << 20;
/// The maximum length of a link's target in its inode.
const MAX_INLINE_TARGET_BYTES: u64 = 59;
/// The maximum length of a link's target in bytes (PATH_MAX of Linux).
const MAX_TARGET_BYTES: u64 = 4096;

/// The incompatible feature of a file system whose journal was not written back.
const FEATURE_RECOVER: u32 = 0x4;
/// The incompatible feature of block numbers with 64 bits.
const FEATURE_64_BIT: u32 = 0x80;
/// The incompatible features that this module reads, or that have no effect on it: types in directories,
/// extents, 64 bits, multiple mount protection, flexible block groups, attributes in inodes, a seed of
/// checksums, large directories, names without case.
const SUPPORTED_FEATURES: u32 =
    0x2 | 0x40 | FEATURE_64_BIT | 0x100 | 0x200 | 0x400 | 0x2000 | 0x4000 | 0x20000;

/// The flag of an inode whose content is encrypted.
const FLAG_ENCRYPTED: u32 = 0x800;
/// The flag of an inode whose blocks are listed as extents.
const FLAG_EXTENTS: u32 = 0x8_0000;
/// The flag of an inode that contains its content itself.
const FLAG_INLINE_DATA: u32 = 0x1000_0000;

/// Returns true if a disk that begins with these bytes is an ext4 file system.
pub(super) fn has_magic(disk: &[u8]) -> bool {
    disk.get(SUPER_BLOCK_OFFSET as usize..).is_some_and(|block| le16(block, MAGIC_OFFSET) == MAGIC)
}

/// The fields of a super block that are needed to find blocks and inodes.
#[derive(Clone, Copy)]
pub(super) struct FileSystem {
    /// The offset of the file system on the disk.
    start: u64,
    block_bytes: u64,
    inode_count: u32,
    inodes_per_group: u32,
    inode_bytes: u64,
    /// The offset of the descriptors of block groups in the file system.
    descriptors_offset: u64,
    descriptor_bytes: u64,
}

impl FileSystem {
    /// Reads the super block of the file system at `start`. Returns `None` if there is no ext4.
    pub(super) fn read(
        disk: &mut dyn ReadAt,
        start: u64,
    ) -> io::Result<Option<Result<FileSystem, ArchiveError>>> {
        let mut block = [0; SUPER_BLOCK_BYTES];
        disk.read_at(start.saturating_add(SUPER_BLOCK_OFFSET), &mut block)?;
        Ok((le16(&block, MAGIC_OFFSET) == MAGIC).then(|| FileSystem::parse(&block, start)))
    }

    fn parse(block: &[u8], start: u64) -> Result<FileSystem, ArchiveError> {
        let (shift, features) = (le32(block, 0x18), le32(block, 0x60));
        if features & FEATURE_RECOVER != 0 {
            return Err(ArchiveError::Disk {
                problem: "its ext4 file system was not unmounted, so it is not complete".to_owned(),
                hint: "stop the machine before you copy its disk, or use the image of a stemcell".to_owned(),
            });
        }
        if features & !SUPPORTED_FEATURES != 0 {
            return Err(ArchiveError::Disk {
                problem: format!(
                    "its ext4 file system has unknown features ({:#x})",
                    features & !SUPPORTED_FEATURES
                ),
                hint: FEATURES_HINT.to_owned(),
            });
        }
        if shift > MAX_BLOCK_SHIFT {
            return Err(damaged_error("the size of its blocks is wrong"));
        }
        let block_bytes = 1024 << shift;
        let has_wide_descriptors = features & FEATURE_64_BIT != 0;
        // Revision 0 has inodes of a fixed size.
        let inode_bytes = if le32(block, 0x4c) == 0 { 128 } else { u64::from(le16(block, 0x58)) };
        let file_system = FileSystem {
            start,
            block_bytes,
            inode_count: le32(block, 0),
            inodes_per_group: le32(block, 0x28),
            inode_bytes,
            // The descriptors are in the block after that of the super block.
            descriptors_offset: (u64::from(le32(block, 0x14)) + 1) * block_bytes,
            descriptor_bytes: if has_wide_descriptors { u64::from(le16(block, 0xfe)) } else { 32 },
        };
        let is_too_short = inode_bytes < READ_INODE_BYTES as u64
            || has_wide_descriptors && file_system.descriptor_bytes < 64;
        match is_too_short || file_system.inodes_per_group == 0 {
            true => Err(damaged_error("its super block is not valid")),
            false => Ok(file_system),
        }
    }

    /// Returns the offset of a byte in a block on the disk.
    fn offset(&self, block: u64, byte: u64) -> u64 {
        // A wrong number leads to an offset after the end of the disk.
        block.saturating_mul(self.block_bytes).saturating_add(byte).saturating_add(self.start)
    }
}

/// An open file system.
pub(super) struct Ext4<'d> {
    pub(super) disk: &'d mut dyn ReadAt,
    pub(super) file_system: FileSystem,
    pub(super) budget: Budget,
}

/// The fields of an inode that are needed to unpack it.
struct Inode {
    mode: u32,
    owner: (u32, u32),
    bytes: u64,
    mtime: u64,
    link_count: u16,
    flags: u32,
    /// The root of the tree of extents, or the target of a short link.
    block: [u8; 60],
}

/// Blocks of a file that follow each other on the disk.
struct Extent {
    /// The index of the first block in the file.
    first_block: u64,
    block_count: u64,
    /// The first block on the disk. `None` for zeros.
    disk_block: Option<u64>,
}

/// The names in a directory with the numbers of their inodes.
type Names = Vec<(u32, Vec<u8>)>;

impl Ext4<'_> {
    /// Returns true if the file system has `/bin` or `/usr/bin`.
    pub(super) fn has_programs(&mut self) -> Result<bool, ArchiveError> {
        let has_bin = |names: &Names| names.iter().any(|(_, name)| name == b"bin");
        let root = self.read_inode(ROOT_INODE)?;
        let names = self.read_names(&root)?;
        let usr = names.iter().find(|(_, name)| name == b"usr").map(|(number, _)| *number);
        if has_bin(&names) {
            return Ok(true);
        }
        let Some(usr) = usr else { return Ok(false) };
        let usr = self.read_inode(usr)?;
        Ok(usr.kind() == Some(EntryType::Directory) && has_bin(&self.read_names(&usr)?))
    }

    /// Adds all entries to a tree, a directory before its content.
    pub(super) fn unpack(
        &mut self,
        tree: &mut UnpackedTree<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), ArchiveError> {
        let mut visited_directories = HashSet::from([ROOT_INODE]);
        let mut first_paths: HashMap<u32, Vec<u8>> = HashMap::new();
        let mut path: Vec<u8> = Vec::new();
        let root = self.read_inode(ROOT_INODE)?;
        // The directories above, each with the length of its path and the rest of its names.
        let mut open_directories = vec![(0, self.read_names(&root)?.into_iter())];
        while let Some((length, names)) = open_directories.last_mut() {
            path.truncate(*length);
            let Some((number, name)) = names.next() else {
                open_directories.pop();
                continue;
            };
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend(name);
            let inode = self.read_inode(number)?;
            // Devices, fifos and sockets are left out.
            let Some(kind) = inode.kind() else { continue };
            let (name, mode, owner, mtime) =
                (path.clone(), inode.mode & 0o7777, Some(inode.owner), inode.mtime);
            let mut entry = Entry { name, kind, link: None, size: 0, mode, owner, mtime };
            match kind {
                EntryType::Directory => {
                    if !visited_directories.insert(number) {
                        return Err(damaged_error("a directory is in two places"));
                    }
                    tree.add(&entry, io::empty())?;
                    open_directories.push((path.len(), self.read_names(&inode)?.into_iter()));
                }
                EntryType::Symlink => {
                    entry.link = Some(self.read_target(&inode)?);
                    tree.add(&entry, io::empty())?;
                }
                _ => match first_paths.get(&number) {
                    Some(first) => {
                        (entry.kind, entry.link) = (EntryType::Link, Some(first.clone()));
                        tree.add(&entry, io::empty())?;
                    }
                    None => {
                        entry.size = inode.bytes;
                        self.budget.spend(inode.bytes)?;
                        tree.add(&entry, self.open_content(&inode)?)?;
                        progress(self.budget.bytes);
                        if inode.link_count > 1 {
                            tree.hold_name(path.len())?;
                            first_paths.insert(number, path.clone());
                        }
                    }
                },
            }
        }
        Ok(())
    }

    fn read_inode(&mut self, number: u32) -> Result<Inode, ArchiveError> {
        let FileSystem {
            inode_count,
            inodes_per_group,
            inode_bytes,
            descriptors_offset,
            descriptor_bytes,
            ..
        } = self.file_system;
        let Some(index) = number.checked_sub(1).filter(|_| number <= inode_count) else {
            return Err(damaged_error("an entry of a directory names an inode that does not exist"));
        };
        let group = u64::from(index / inodes_per_group);
        let mut descriptor = [0; 64];
        let descriptor = &mut descriptor[..if descriptor_bytes < 64 { 32 } else { 64 }];
        self.read(0, descriptors_offset + group * descriptor_bytes, descriptor)?;
        // The upper half is in a descriptor of 64 bytes only.
        let table = u64::from(le32(descriptor, 0x28)) << 32 | u64::from(le32(descriptor, 8));
        let mut inode = [0; READ_INODE_BYTES];
        self.read(table, u64::from(index % inodes_per_group) * inode_bytes, &mut inode)?;
        let half =
            |low: usize, high: usize| u32::from(le16(&inode, high)) << 16 | u32::from(le16(&inode, low));
        Ok(Inode {
            mode: u32::from(le16(&inode, 0)),
            owner: (half(2, 0x78), half(0x18, 0x7a)),
            bytes: u64::from(le32(&inode, 0x6c)) << 32 | u64::from(le32(&inode, 4)),
            mtime: u64::from(le32(&inode, 0x10)),
            link_count: le16(&inode, 0x1a),
            flags: le32(&inode, 0x20),
            block: super::array(&inode, 0x28),
        })
    }

    /// Returns the entries of a directory without `.` and `..`.
    fn read_names(&mut self, directory: &Inode) -> Result<Names, ArchiveError> {
        if directory.kind() != Some(EntryType::Directory) {
            return Err(damaged_error("its root is not a directory"));
        }
        if directory.bytes > MAX_DIRECTORY_BYTES {
            return Err(ArchiveError::TooLarge { unit: "bytes in a directory", limit: MAX_DIRECTORY_BYTES });
        }
        self.budget.spend(directory.bytes)?;
        let mut bytes = Vec::new();
        self.open_content(directory)?.read_to_end(&mut bytes).map_err(read_error)?;
        let mut names = Vec::new();
        for mut block in bytes.chunks(self.file_system.block_bytes as usize) {
            while !block.is_empty() {
                let (number, length) = (le32(block, 0), usize::from(le16(block, 4)));
                let name_length = block.get(6).copied().map_or(0, usize::from);
                if length < 8 || length > block.len() || 8 + name_length > length {
                    return Err(damaged_error("an entry of a directory has a wrong length"));
                }
                let (entry, rest) = block.split_at(length);
                let name = &entry[8..8 + name_length];
                block = rest;
                // An entry without a number is unused, or has a part of the directory's index.
                if number == 0 || name == b"." || name == b".." {
                    continue;
                }
                if name.is_empty() || name.contains(&b'/') {
                    return Err(damaged_error("an entry of a directory has no valid name"));
                }
                self.budget.count_entry()?;
                names.push((number, name.to_owned()));
            }
        }
        Ok(names)
    }

    fn read_target(&mut self, link: &Inode) -> Result<Vec<u8>, ArchiveError> {
        if link.bytes <= MAX_INLINE_TARGET_BYTES && link.flags & FLAG_EXTENTS == 0 {
            return Ok(link.block[..link.bytes as usize].to_owned());
        }
        if link.bytes > MAX_TARGET_BYTES {
            return Err(ArchiveError::TooLarge {
                unit: "bytes in the target of a link",
                limit: MAX_TARGET_BYTES,
            });
        }
        self.budget.spend(link.bytes)?;
        let mut target = Vec::new();
        self.open_content(link)?.read_to_end(&mut target).map_err(read_error)?;
        Ok(target)
    }

    /// Returns a reader of an inode's data.
    fn open_content(&mut self, inode: &Inode) -> Result<FileReader<'_>, ArchiveError> {
        let mut extents = Vec::new();
        if inode.bytes > 0 {
            if inode.flags & (FLAG_ENCRYPTED | FLAG_INLINE_DATA) != 0 || inode.flags & FLAG_EXTENTS == 0 {
                return Err(ArchiveError::Disk {
                    problem:
                        "its ext4 file system has files that are encrypted, in inodes or without extents"
                            .to_owned(),
                    hint: FEATURES_HINT.to_owned(),
                });
            }
            self.add_extents(&inode.block, None, &mut extents)?;
        }
        let Ext4 { disk, file_system, .. } = self;
        Ok(FileReader {
            disk: &mut **disk,
            file_system: *file_system,
            extents,
            position: 0,
            bytes: inode.bytes,
            next_extent: 0,
        })
    }

    /// Adds the extents of a node and the nodes below it. `depth` is that of a node that is not the root.
    fn add_extents(
        &mut self,
        node: &[u8],
        depth: Option<u16>,
        extents: &mut Vec<Extent>,
    ) -> Result<(), ArchiveError> {
        let (magic, count, node_depth) = (le16(node, 0), usize::from(le16(node, 2)), le16(node, 6));
        let entries = node.get(12..12 + 12 * count);
        let Some(entries) = entries.filter(|_| {
            magic == EXTENT_MAGIC && node_depth <= MAX_DEPTH && depth.is_none_or(|depth| depth == node_depth)
        }) else {
            return Err(damaged_error("the tree of a file's extents is not valid"));
        };
        for entry in entries.chunks_exact(12) {
            if node_depth > 0 {
                let child = u64::from(le16(entry, 8)) << 32 | u64::from(le32(entry, 4));
                self.budget.spend(self.file_system.block_bytes)?;
                let mut block = vec![0; self.file_system.block_bytes as usize];
                self.read(child, 0, &mut block)?;
                self.add_extents(&block, Some(node_depth - 1), extents)?;
                continue;
            }
            let (first_block, length) = (u64::from(le32(entry, 0)), le16(entry, 4));
            let disk_block = u64::from(le16(entry, 6)) << 32 | u64::from(le32(entry, 8));
            let (length, disk_block) = match length.checked_sub(MAX_EXTENT_BLOCKS) {
                None | Some(0) => (length, Some(disk_block)),
                Some(unwritten_length) => (unwritten_length, None),
            };
            let end = extents.last().map_or(0, |extent| extent.first_block + extent.block_count);
            if length == 0 || first_block < end {
                return Err(damaged_error("the extents of a file are not in order"));
            }
            if extents.len() >= MAX_EXTENTS {
                return Err(ArchiveError::TooLarge { unit: "extents in a file", limit: MAX_EXTENTS as u64 });
            }
            extents.push(Extent { first_block, block_count: length.into(), disk_block });
        }
        Ok(())
    }

    fn read(&mut self, block: u64, byte: u64, buffer: &mut [u8]) -> Result<(), ArchiveError> {
        self.disk.read_at(self.file_system.offset(block, byte), buffer).map_err(read_error)
    }
}

impl Inode {
    /// Returns the type. `None` for devices, fifos and sockets.
    fn kind(&self) -> Option<EntryType> {
        match self.mode & 0o170_000 {
            0o040_000 => Some(EntryType::Directory),
            0o100_000 => Some(EntryType::Regular),
            0o120_000 => Some(EntryType::Symlink),
            _ => None,
        }
    }
}

/// A reader of the data of a file.
struct FileReader<'a> {
    disk: &'a mut dyn ReadAt,
    file_system: FileSystem,
    extents: Vec<Extent>,
    /// The index of the first extent that does not end before `position`.
    next_extent: usize,
    position: u64,
    bytes: u64,
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let block_bytes = self.file_system.block_bytes;
        let (block, byte) = (self.position / block_bytes, self.position % block_bytes);
        while self
            .extents
            .get(self.next_extent)
            .is_some_and(|extent| extent.first_block + extent.block_count <= block)
        {
            self.next_extent += 1;
        }
        // Between extents and after the last one are holes.
        let (end, disk_block) = match self.extents.get(self.next_extent) {
            Some(extent) if extent.first_block <= block => {
                let disk_block =
                    extent.disk_block.map(|disk_block| disk_block + (block - extent.first_block));
                (extent.first_block + extent.block_count, disk_block)
            }
            Some(extent) => (extent.first_block, None),
            None => (u64::MAX, None),
        };
        let available_bytes = end.saturating_mul(block_bytes).min(self.bytes) - self.position;
        let length = usize::try_from(available_bytes)
            .map_or(buffer.len(), |available_bytes| available_bytes.min(buffer.len()));
        let buffer = &mut buffer[..length];
        match disk_block {
            Some(disk_block) => self.disk.read_at(self.file_system.offset(disk_block, byte), buffer)?,
            None => buffer.fill(0),
        }
        self.position += length as u64;
        Ok(length)
    }
}
