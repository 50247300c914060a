//! The root disk of a guest: the partition with the root file system grows to the end of the disk. The disk
//! is larger than the image of the stemcell if the cloud property `root_disk_size` says so.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::agent::tools;
use artifact::disk_image::boot_record::{
    ENTRIES_OFFSET, ENTRY_BYTES, LENGTH_OFFSET, SECTOR_BYTES, SIGNATURE, SIGNATURE_OFFSET, START_OFFSET,
    TYPE_OFFSET,
};
use base::{Error, Result};

/// The type of the only partition in the boot record of a disk with a GPT.
const PROTECTIVE_PARTITION: u8 = 0xee;
/// The number of sectors at the end of the disk that are not worth a change.
const SLACK_SECTORS: u64 = 2048;

/// Lets the root file system use the rest of the disk. Does nothing if it does already, or if it is not on a
/// partition.
pub(super) fn grow() -> Result<()> {
    let device = fs::metadata("/").map_err(|error| Error::io("reading '/'", error))?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let Ok(partition) = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")) else { return Ok(()) };
    let Ok(number) = read_number(&partition.join("partition")) else { return Ok(()) };
    let Some(disk) = partition.parent() else { return Ok(()) };
    let (start, length) = (read_number(&partition.join("start"))?, read_number(&partition.join("size"))?);
    let end = read_number(&disk.join("size"))?;
    if start + length + SLACK_SECTORS >= end {
        return Ok(());
    }
    let name = |path: &Path| format!("/dev/{}", path.file_name().unwrap_or_default().to_string_lossy());
    let (disk, partition) = (name(disk), name(&partition));
    let write_error = |error| Error::io(format!("changing the boot record of '{disk}'"), error);
    let file = OpenOptions::new().read(true).write(true).open(&disk).map_err(write_error)?;
    let mut record = [0; SECTOR_BYTES];
    file.read_exact_at(&mut record, 0).map_err(write_error)?;
    extend(&mut record, number, start, end)
        .map_err(|reason| Error::failure(format!("the partition '{partition}' cannot grow: {reason}")))?;
    file.write_all_at(&record, 0).and_then(|()| file.sync_all()).map_err(write_error)?;
    tools::run("partx", &["--update", "--nr", &number.to_string(), &disk])?;
    tools::run("resize2fs", &[&partition])?;
    tracing::info!(partition, "grew the root file system");
    Ok(())
}

fn read_number(path: &Path) -> Result<u64> {
    let read_error =
        |reason: String| Error::failure(format!("reading '{}' failed: {reason}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| read_error(error.to_string()))?;
    text.trim().parse().map_err(|_| read_error("it is not a number".to_owned()))
}

/// Extends the partition `number` with the first sector `start` to the sector `end`. It must be the last one.
fn extend(
    record: &mut [u8; SECTOR_BYTES],
    number: u64,
    start: u64,
    end: u64,
) -> std::result::Result<(), &'static str> {
    if record[SIGNATURE_OFFSET..] != SIGNATURE {
        return Err("the disk has no boot record");
    }
    let field = |record: &[u8; SECTOR_BYTES], index: usize, part: usize| {
        let offset = ENTRIES_OFFSET + ENTRY_BYTES * index + part;
        record.get(offset..offset + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    };
    if (0..4).any(|index| record[ENTRIES_OFFSET + ENTRY_BYTES * index + TYPE_OFFSET] == PROTECTIVE_PARTITION)
    {
        return Err("the disk has a GPT");
    }
    let index = match usize::try_from(number) {
        Ok(number @ 1..=4) => number - 1,
        _ => return Err("it is not a primary partition"),
    };
    if u64::from(field(record, index, START_OFFSET)) != start {
        return Err("the boot record has another partition there");
    }
    if (0..4).any(|other| other != index && u64::from(field(record, other, START_OFFSET)) > start) {
        return Err("another partition follows it");
    }
    let length = u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX);
    let offset = ENTRIES_OFFSET + ENTRY_BYTES * index + LENGTH_OFFSET;
    record[offset..offset + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a boot record with these partitions: type, first sector, number of sectors.
    fn record(partitions: &[(u8, u32, u32)]) -> [u8; SECTOR_BYTES] {
        let mut record = [0; SECTOR_BYTES];
        record[510..].copy_from_slice(&[0x55, 0xaa]);
        for (index, (kind, start, length)) in partitions.iter().enumerate() {
            let entry = &mut record[ENTRIES_OFFSET + ENTRY_BYTES * index..][..ENTRY_BYTES];
            entry[TYPE_OFFSET] = *kind;
            entry[START_OFFSET..START_OFFSET + 4].copy_from_slice(&start.to_le_bytes());
            entry[LENGTH_OFFSET..LENGTH_OFFSET + 4].copy_from_slice(&length.to_le_bytes());
        }
        record
    }

    #[test]
    fn last_partition_grows_to_the_end_of_the_disk() {
        let mut sector = record(&[(0x83, 2048, 1000)]);
        extend(&mut sector, 1, 2048, 9000).unwrap();
        assert_eq!(sector, record(&[(0x83, 2048, 6952)]));
        let mut sector = record(&[(0x83, 2048, 1000), (0x83, 4096, 100)]);
        extend(&mut sector, 2, 4096, u64::MAX).unwrap();
        assert_eq!(sector, record(&[(0x83, 2048, 1000), (0x83, 4096, u32::MAX)]));
    }

    #[test]
    fn other_partitions_are_not_changed() {
        for (mut sector, number, start) in [
            ([0; SECTOR_BYTES], 1, 2048),
            (record(&[(PROTECTIVE_PARTITION, 1, 9000)]), 1, 1),
            (record(&[(0x83, 2048, 1000)]), 1, 4096),
            (record(&[(0x83, 2048, 1000)]), 5, 2048),
            (record(&[(0x83, 2048, 1000), (0x83, 4096, 100)]), 1, 2048),
        ] {
            let original = sector;
            extend(&mut sector, number, start, 9000).unwrap_err();
            assert_eq!(sector, original);
        }
    }
}
