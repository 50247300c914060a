//! Connects the methods of the protocol with their functions.

use std::path::Path;

use serde_json::Value;

use super::config::QemuConfig;
use super::programs::Programs;
use super::{disk, process, snapshot, stemcell, vm};
use crate::cpi::cid::Cid;
use crate::cpi::cloud::{Cloud, PrepareRemoval};
use crate::cpi::cloud_call::CloudCall;
use crate::cpi::cloud_rpc::{CallContext, CloudMethods, DiskAndVm};
use crate::cpi::failure::CpiResult;
use crate::cpi::records::CreateVmArguments;
use base::JsonObject;
use base::stemcell_formats;

/// The context of one request.
pub(super) type QemuCall<'a, 'l> = CallContext<'a, 'l, QemuConfig>;

impl QemuCall<'_, '_> {
    pub(super) fn programs(&self) -> Programs {
        Programs::new(self.config.program_directory.as_deref())
    }
}

impl CloudCall for QemuCall<'_, '_> {
    fn cloud_settings(&self) -> (&Path, PrepareRemoval) {
        (&self.config.root, process::prepare_removal)
    }

    fn log_line(&mut self, line: std::fmt::Arguments<'_>) {
        self.log(line);
    }
}

impl CloudMethods for QemuCall<'_, '_> {
    const NAME: &'static str = "qemu";
    const FORMATS: &'static [&'static str] = stemcell_formats::QEMU;

    fn create_stemcell(
        &mut self,
        cloud: &Cloud,
        image: &Path,
        cloud_properties: JsonObject,
    ) -> CpiResult<Value> {
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
        disk::attached_disks(&cloud.lock_existing(vm)?.path)
    }

    fn create_disk(&mut self, cloud: &Cloud, size: u64, cloud_properties: JsonObject) -> CpiResult<Value> {
        disk::create(self, cloud, size, &cloud_properties)
    }

    fn has_data(cloud: &Cloud, disk: &Cid) -> CpiResult<bool> {
        Ok(disk::has_image(&cloud.path(disk)))
    }

    fn vm_of_disk(cloud: &Cloud, disk: &Cid) -> CpiResult<Option<Cid>> {
        disk::vm_of_disk(cloud, disk)
    }

    fn update_disk(
        &mut self,
        cloud: &Cloud,
        disk: &Cid,
        size: u64,
        cloud_properties: Option<JsonObject>,
    ) -> CpiResult<()> {
        disk::update(self, cloud, disk, size, cloud_properties.as_ref())
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
