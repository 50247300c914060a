//! Connects the methods of the protocol with their functions.

use std::path::Path;

use serde_json::Value;

use super::config::LocalConfig;
use super::{disk, needs, snapshot, stemcell, vm};
use crate::cpi::cid::Cid;
use crate::cpi::cloud::{Cloud, PrepareRemoval};
use crate::cpi::cloud_call::CloudCall;
use crate::cpi::cloud_rpc::{CallContext, CloudMethods, DiskAndVm};
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::records::CreateVmArguments;
use base::JsonObject;
use base::stemcell_formats;

/// The context of one request.
pub(super) type LocalCall<'a, 'l> = CallContext<'a, 'l, LocalConfig>;

impl CloudCall for LocalCall<'_, '_> {
    fn cloud_settings(&self) -> (&Path, PrepareRemoval) {
        (&self.config.root, vm::prepare_removal)
    }

    fn log_line(&mut self, line: std::fmt::Arguments<'_>) {
        self.log(line);
    }
}

impl CloudMethods for LocalCall<'_, '_> {
    const NAME: &'static str = "local";
    const FORMATS: &'static [&'static str] = stemcell_formats::LOCAL;

    fn create_stemcell(
        &mut self,
        cloud: &Cloud,
        image: &Path,
        cloud_properties: JsonObject,
    ) -> CpiResult<Value> {
        needs::check(&cloud_properties).map_err(CpiFailure::before_any_effect)?;
        stemcell::create(self, cloud, image, cloud_properties)
    }

    fn create_vm(&mut self, cloud: &Cloud, arguments: CreateVmArguments) -> CpiResult<Value> {
        vm::create(self, cloud, arguments)
    }

    fn delete_vm(&mut self, cloud: &Cloud, cid: &Cid) -> CpiResult<()> {
        vm::delete(self, cloud, cid)
    }

    fn reboot_vm(&mut self, cloud: &Cloud, cid: &Cid) -> CpiResult<()> {
        vm::reboot(self, cloud, cid)
    }

    fn get_disks(&mut self, cloud: &Cloud, vm: &Cid) -> CpiResult<Vec<Cid>> {
        vm::disks(cloud, vm)
    }

    fn create_disk(&mut self, cloud: &Cloud, size: u64, cloud_properties: JsonObject) -> CpiResult<Value> {
        disk::create(self, cloud, size, cloud_properties)
    }

    fn has_data(cloud: &Cloud, disk: &Cid) -> CpiResult<bool> {
        disk::has_data(cloud, disk)
    }

    fn vm_of_disk(cloud: &Cloud, disk: &Cid) -> CpiResult<Option<Cid>> {
        disk::vm_of_disk(cloud, disk)
    }

    fn vm_that_blocks_deletion(cloud: &Cloud, disk: &Cid) -> CpiResult<Option<Cid>> {
        disk::vm_that_blocks_deletion(cloud, disk)
    }

    fn update_disk(
        &mut self,
        cloud: &Cloud,
        disk: &Cid,
        size: u64,
        cloud_properties: Option<JsonObject>,
    ) -> CpiResult<()> {
        disk::update(cloud, disk, size, cloud_properties)
    }

    fn attach_disk(&mut self, disk_and_vm: &DiskAndVm) -> CpiResult<Value> {
        disk::attach(self, disk_and_vm)
    }

    fn detach_disk(&mut self, disk_and_vm: &DiskAndVm) -> CpiResult<()> {
        disk::detach(self, disk_and_vm)
    }

    fn snapshot_disk(&mut self, cloud: &Cloud, disk: &Cid, metadata: JsonObject) -> CpiResult<Value> {
        snapshot::create(self, cloud, disk, metadata)
    }
}
