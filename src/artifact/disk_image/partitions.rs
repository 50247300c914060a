//! The partitions of a disk, in the formats MBR (primary partitions) and GPT (UEFI specification, "GUID
//! Partition Table"). Sectors have 512 bytes.

use std::io;

use super::boot_record::{
    ENTRIES_OFFSET, ENTRY_BYTES, SECTOR_BYTES, SIGNATURE, SIGNATURE_OFFSET, START_OFFSET, TYPE_OFFSET,
};
use super::{ReadAt, le32, le64};

/// The type of the entry that covers a disk with a GPT.
const PROTECTIVE_TYPE: u8 = 0xee;
/// The maximum number of partitions in a GPT. It has at least 128 entries.
const MAX_PARTITIONS: u32 = 1024;

/// Returns the offsets at which a file system can begin: that of the disk itself, and those of its
/// partitions in the order of their table.
pub(super) fn read_starts(disk: &mut dyn ReadAt) -> io::Result<Vec<u64>> {
    let mut starts = vec![0];
    let mut sector = [0; SECTOR_BYTES];
    let offset_of = |sector_number: u64| sector_number.saturating_mul(SECTOR_BYTES as u64);
    disk.read_at(0, &mut sector)?;
    if sector[SIGNATURE_OFFSET..] != SIGNATURE {
        return Ok(starts);
    }
    let entries: Vec<&[u8]> = sector[ENTRIES_OFFSET..SIGNATURE_OFFSET].chunks(ENTRY_BYTES).collect();
    if !entries.iter().any(|entry| entry[TYPE_OFFSET] == PROTECTIVE_TYPE) {
        let partitions = entries.iter().filter(|entry| entry[TYPE_OFFSET] != 0);
        starts.extend(partitions.map(|entry| offset_of(le32(entry, START_OFFSET).into())));
        return Ok(starts);
    }
    disk.read_at(offset_of(1), &mut sector)?;
    let (table, count, entry_bytes) = (le64(&sector, 72), le32(&sector, 80), le32(&sector, 84));
    if !sector.starts_with(b"EFI PART") {
        return Ok(starts);
    }
    for index in 0..count.min(MAX_PARTITIONS) {
        let mut entry = [0; 40];
        let offset = offset_of(table);
        disk.read_at(offset.saturating_add(u64::from(index) * u64::from(entry_bytes)), &mut entry)?;
        // An unused entry has no type.
        if entry[..16] != [0; 16] {
            starts.push(offset_of(le64(&entry, 32)));
        }
    }
    Ok(starts)
}
