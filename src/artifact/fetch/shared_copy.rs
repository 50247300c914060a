//! Copies a file from the shared cache instead of downloading it.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::download::{Download, entity_tag_path};
use crate::digest::Digest;
use crate::shared_cache::{CopiedPart, SharedCache};
use base::events::Unit;
use base::{Error, Result};

/// The pause between two reports of progress.
const REPORT_PAUSE: Duration = Duration::from_millis(100);

impl Download<'_> {
    /// Copies the file from the shared cache into `file`, whose path is `body_path`. Returns its verified
    /// digest, or `None` if the shared cache lacks it or has another content under its name.
    ///
    /// A beginning of the file that an earlier download left stays if the shared cache lacks the file.
    pub(super) fn copy_from(
        &self,
        shared_cache: &SharedCache,
        file: &File,
        body_path: &Path,
    ) -> Result<Option<Digest>> {
        let Some(expected) = self.expected else { return Ok(None) };
        let write_error = |error| Error::io(format!("writing '{}'", body_path.display()), error);
        let mut last_report = Instant::now();
        let mut has_begun = false;
        let result = shared_cache.copy_download(expected, &mut |part: CopiedPart<'_>| {
            (self.interrupt_check)()?;
            let mut writer = file;
            if part.offset == 0 {
                has_begun = true;
                self.empty(file).map_err(write_error)?;
                let _ = fs::remove_file(entity_tag_path(body_path));
                writer.seek(SeekFrom::Start(0)).map_err(write_error)?;
                self.stage.log_line("copying it from the shared cache");
            }
            writer.write_all(part.bytes).map_err(write_error)?;
            let position = part.offset + part.bytes.len() as u64;
            self.arrival.set_bytes(position);
            if last_report.elapsed() >= REPORT_PAUSE || position == part.total {
                last_report = Instant::now();
                self.stage.report_progress(position, Some(part.total), Unit::Bytes);
            }
            Ok(())
        });
        let digest = match result {
            Ok(digest) => digest,
            Err(error) => {
                (self.interrupt_check)()?;
                // The cache may have sent more than fits on this disk. A download fails in its own words.
                tracing::debug!(?error, "copying from the shared cache failed");
                None
            }
        };
        match &digest {
            Some(_) => file.sync_all().map_err(write_error)?,
            None if has_begun => self.empty(file).map_err(write_error)?,
            None => {}
        }
        Ok(digest)
    }
}
