//! `lvm+targetcli`: volumes are thin volumes in a pool of LVM (lvmthin(7)), and the kernel's target (LIO),
//! configured by targetcli(8), exports them.
//!
//! A volume is a logical volume of the same name. A volume that is being filled has the suffix `.partial` and
//! does not count as existing. A clone is a thin snapshot, which is complete at once and independent of its
//! origin.

mod lio;
mod volumes;

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use self::lio::LioTargets;
use self::volumes::Volumes;
use super::{Export, Initiators, Login, StorageTool, check_names, default_iqn, run};
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::ironic::volume::VolumeName;
use base::files::durable::create_private_directory;

/// The settings of `lvm+targetcli`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LvmSettings {
    volume_group: String,
    /// A thin pool of the group. It must zero new blocks, which is the default of LVM.
    thin_pool: String,
    /// The addresses on which the target listens, `address:port`. Several addresses mean several paths to
    /// each volume.
    portals: Vec<String>,
    /// The beginning of the names of targets.
    #[serde(default = "default_iqn")]
    iqn: String,
}

/// The directory of the locks, one for each volume group.
const LOCKS_DIRECTORY: &str = "/run/monopile";
/// The end of the name of a volume that is being written.
const PARTIAL_SUFFIX: &str = ".partial";

/// The storage tool, see the module documentation.
pub(super) struct Lvm {
    volumes: Volumes,
    lio: LioTargets,
}

impl Lvm {
    /// Checks the settings and creates the storage tool.
    pub(super) fn new(settings: LvmSettings) -> CpiResult<Lvm> {
        let LvmSettings { volume_group, thin_pool, portals, iqn } = settings;
        check_names(&portals, &iqn)?;
        Ok(Lvm { volumes: Volumes::new(volume_group, thin_pool)?, lio: LioTargets::new(portals, iqn)? })
    }

    /// Takes the lock that serialises changes of volumes and targets, and removes incomplete volumes of
    /// killed calls.
    fn lock(&self) -> CpiResult<File> {
        let path = Path::new(LOCKS_DIRECTORY).join(format!("{}.lock", self.volumes.group()));
        let lock = || -> io::Result<File> {
            create_private_directory(Path::new(LOCKS_DIRECTORY))?;
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        let file =
            lock().map_err(|error| CpiFailure::io(format_args!("locking '{}'", path.display()), error))?;
        for partial_volume in self.volumes.list_names()?.iter().filter(|name| name.ends_with(PARTIAL_SUFFIX))
        {
            self.volumes.remove(partial_volume)?;
        }
        Ok(file)
    }

    /// Returns the size of a volume in bytes, or the error "not found".
    fn size_of_existing(&self, volume: &VolumeName) -> CpiResult<u64> {
        self.size(volume)?.ok_or_else(|| volume.not_found_error())
    }
}

impl StorageTool for Lvm {
    fn import(&self, volume: &VolumeName, image: &Path) -> CpiResult<()> {
        let _lock = self.lock()?;
        let action = format!("importing '{}'", image.display());
        let size = std::fs::metadata(image).map_err(|error| CpiFailure::io(&action, error))?.len();
        let (name, partial_name) = (volume.to_string(), format!("{volume}{PARTIAL_SUFFIX}"));
        self.volumes.create(&partial_name, size.div_ceil(1 << 20))?;
        let mut dd = Command::new("dd");
        let (input, output) = (
            format!("if={}", image.display()),
            format!("of={}", self.volumes.device(&partial_name).display()),
        );
        // A new thin volume reads as zeros, so blocks of zeros are skipped and take no space.
        dd.args([input.as_str(), output.as_str(), "bs=1M", "conv=sparse,notrunc,fsync", "status=none"]);
        let result = run(&mut dd, &action).and_then(|_| self.volumes.rename(&partial_name, &name));
        if result.is_err() {
            // If this fails, the next call removes the volume.
            let _ = self.volumes.remove(&partial_name);
        }
        result
    }

    fn create(&self, volume: &VolumeName, mib: u64) -> CpiResult<()> {
        let _lock = self.lock()?;
        self.volumes.create(&volume.to_string(), mib)
    }

    fn copy(&self, source: &VolumeName, target: &VolumeName) -> CpiResult<()> {
        let _lock = self.lock()?;
        self.size_of_existing(source)?;
        self.volumes.snapshot(&source.to_string(), &target.to_string())
    }

    fn grow(&self, volume: &VolumeName, mib: u64) -> CpiResult<()> {
        let _lock = self.lock()?;
        if self.size_of_existing(volume)? >= mib.saturating_mul(1 << 20) {
            return Ok(());
        }
        self.volumes.extend(&volume.to_string(), mib)
    }

    fn size(&self, volume: &VolumeName) -> CpiResult<Option<u64>> {
        self.volumes.size(&volume.to_string())
    }

    fn delete(&self, volume: &VolumeName) -> CpiResult<()> {
        let _lock = self.lock()?;
        match self.size(volume)? {
            Some(_) => self.volumes.remove(&volume.to_string()),
            None => Ok(()),
        }
    }

    fn export(&self, volume: &VolumeName, initiators: &Initiators, login: &Login) -> CpiResult<Export> {
        let _lock = self.lock()?;
        self.size_of_existing(volume)?;
        let initiators = initiators.iscsi_names(volume)?;
        self.lio.unexport(volume)?;
        let device = self.volumes.device(&volume.to_string());
        self.lio.export(volume, &device, initiators, login).or_else(|failure| {
            self.lio.unexport(volume)?;
            Err(failure)
        })
    }

    fn unexport(&self, volume: &VolumeName) -> CpiResult<()> {
        let _lock = self.lock()?;
        self.lio.unexport(volume)
    }
}
