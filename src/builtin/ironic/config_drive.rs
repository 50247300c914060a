//! The volume with the config drive of a VM.

use super::storage::StorageTool;
use super::volume::VolumeName;
use crate::cpi::config_drive;
use crate::cpi::failure::{CpiFailure, CpiResult};
use base::JsonObject;

/// Creates the volume with the agent's settings.
pub(super) fn create_drive(
    storage: &dyn StorageTool,
    volume: &VolumeName,
    settings: &JsonObject,
) -> CpiResult<()> {
    let scratch =
        tempfile::tempdir().map_err(|error| CpiFailure::io("creating a scratch directory", error))?;
    let image = scratch.path().join("image");
    config_drive::create_image(&image, &volume.cid(), settings)?;
    storage.import(volume, &image)
}
