//! Calls of a CPI whose cloud is a directory: they open the cloud, remove leftovers of killed calls, and
//! remove the cloud when it is empty.

use std::path::Path;

use serde_json::Value;

use super::cloud::{Cloud, PrepareRemoval};
use super::failure::CpiResult;

/// A call of a CPI whose cloud is a directory.
pub(crate) trait CloudCall {
    /// Returns the root of the cloud, and the function that prepares its directories for removal.
    fn cloud_settings(&self) -> (&Path, PrepareRemoval);

    /// Writes a line to the log. It must not contain secrets.
    fn log_line(&mut self, line: std::fmt::Arguments<'_>);
}

/// Runs `create` in the cloud, which it creates if necessary. If `create` fails, removes the cloud if it is
/// empty.
pub(crate) fn create_in_cloud<C: CloudCall>(
    call: &mut C,
    create: impl FnOnce(&mut C, &Cloud) -> CpiResult<Value>,
) -> CpiResult<Value> {
    let (root, prepare_removal) = call.cloud_settings();
    let cloud = Cloud::open_or_create(root, prepare_removal)?;
    remove_leftovers(call, &cloud)?;
    let result = create(call, &cloud);
    if result.is_err() {
        cloud.remove_if_empty();
    }
    result
}

/// Opens the cloud and removes leftovers of killed calls. Returns `None` if there is no cloud.
pub(crate) fn open_cloud(call: &mut impl CloudCall) -> CpiResult<Option<Cloud>> {
    let (root, prepare_removal) = call.cloud_settings();
    let cloud = Cloud::open(root, prepare_removal)?;
    if let Some(cloud) = &cloud {
        remove_leftovers(call, cloud)?;
    }
    Ok(cloud)
}

fn remove_leftovers(call: &mut impl CloudCall, cloud: &Cloud) -> CpiResult<()> {
    match cloud.remove_leftovers()? {
        0 => {}
        count => call.log_line(format_args!("removed {count} leftovers of calls that were killed")),
    }
    Ok(())
}

/// Runs `delete` in the cloud and removes the cloud if it is empty afterwards.
pub(crate) fn delete_in_cloud<C: CloudCall>(
    call: &mut C,
    delete: impl FnOnce(&mut C, &Cloud) -> CpiResult<()>,
) -> CpiResult<Value> {
    let Some(cloud) = open_cloud(call)? else {
        let root = call.cloud_settings().0.display().to_string();
        call.log_line(format_args!("nothing to delete: '{root}' does not exist"));
        return Ok(Value::Null);
    };
    delete(call, &cloud)?;
    cloud.remove_if_empty();
    Ok(Value::Null)
}
