//! The layout of a boot record (MBR): the first sector of a disk, with at most four primary partitions.
//! Offsets are in bytes.

/// The size of a sector.
pub const SECTOR_BYTES: usize = 512;
/// The offset of the first partition's entry in the boot record.
pub const ENTRIES_OFFSET: usize = 446;
/// The size of an entry.
pub const ENTRY_BYTES: usize = 16;
/// The offset of the partition's type in its entry.
pub const TYPE_OFFSET: usize = 4;
/// The offset of the partition's first sector in its entry, a number of 32 bits.
pub const START_OFFSET: usize = 8;
/// The offset of the partition's number of sectors in its entry, a number of 32 bits.
pub const LENGTH_OFFSET: usize = 12;
/// The offset of the signature in the boot record.
pub const SIGNATURE_OFFSET: usize = SECTOR_BYTES - SIGNATURE.len();
/// The signature, without which no BIOS boots from the disk.
pub const SIGNATURE: [u8; 2] = [0x55, 0xaa];
