//! `lvm+targetcli`: volumes are thin ones of a pool of LVM's (lvmthin(7)), the kernel's own target (LIO) shows them, set
//! up by targetcli(8).
//!
//! A volume is a logical volume of its name; one that is being filled has `.partial` after it and does not count.
//! A clone is a thin snapshot, which is whole at once and does not need its origin.

mod lio;
mod volumes;

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use self::lio::Lio;
use self::volumes::Volumes;
use super::{Export, Initiators, Login, Storage, check_names, default_iqn, run};
use crate::cpi::failure::{Failure, Outcome};
use crate::cpi::files::private_dir;
use crate::ironic::volume::Volume;

/// Where volumes are, and how machines reach them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LvmSettings {
    volume_group: String,
    /// A thin pool of the group. It must zero new blocks, as pools do unless told not to.
    thin_pool: String,
    /// Where the target listens: `address:port`, several for several ways.
    portals: Vec<String>,
    /// What the targets' names begin with.
    #[serde(default = "default_iqn")]
    iqn: String,
}

/// Where locks are, so that two calls for one group take turns.
const LOCKS: &str = "/run/monopile";
const PARTIAL: &str = ".partial";

/// See the module.
pub(super) struct Lvm {
    volumes: Volumes,
    lio: Lio,
}

impl Lvm {
    pub(super) fn new(settings: LvmSettings) -> Outcome<Lvm> {
        let LvmSettings { volume_group, thin_pool, portals, iqn } = settings;
        check_names(&portals, &iqn)?;
        Ok(Lvm { volumes: Volumes::new(volume_group, thin_pool)?, lio: Lio::new(portals, iqn)? })
    }

    /// One call at a time changes volumes and targets. What a killed one was filling goes.
    fn lock(&self) -> Outcome<File> {
        let path = Path::new(LOCKS).join(format!("{}.lock", self.volumes.group()));
        let lock = || -> io::Result<File> {
            private_dir(Path::new(LOCKS))?;
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        let file =
            lock().map_err(|error| Failure::io(format_args!("locking '{}'", path.display()), error))?;
        for left in self.volumes.names()?.iter().filter(|name| name.ends_with(PARTIAL)) {
            self.volumes.remove(left)?;
        }
        Ok(file)
    }

    fn existing(&self, volume: &Volume) -> Outcome<u64> {
        self.size(volume)?.ok_or_else(|| volume.not_found())
    }
}

impl Storage for Lvm {
    fn import(&self, volume: &Volume, image: &Path) -> Outcome<()> {
        let _lock = self.lock()?;
        let what = format!("importing '{}'", image.display());
        let size = std::fs::metadata(image).map_err(|error| Failure::io(&what, error))?.len();
        let (name, partial) = (volume.to_string(), format!("{volume}{PARTIAL}"));
        self.volumes.create(&partial, size.div_ceil(1 << 20))?;
        let mut dd = Command::new("dd");
        let (from, to) =
            (format!("if={}", image.display()), format!("of={}", self.volumes.device(&partial).display()));
        // What is zero is so already, and takes no room.
        dd.args([from.as_str(), to.as_str(), "bs=1M", "conv=sparse,notrunc,fsync", "status=none"]);
        let filled = run(&mut dd, &what).and_then(|_| self.volumes.rename(&partial, &name));
        if filled.is_err() {
            // The next call tries again.
            let _ = self.volumes.remove(&partial);
        }
        filled
    }

    fn create(&self, volume: &Volume, mib: u64) -> Outcome<()> {
        let _lock = self.lock()?;
        self.volumes.create(&volume.to_string(), mib)
    }

    fn copy(&self, from: &Volume, to: &Volume) -> Outcome<()> {
        let _lock = self.lock()?;
        self.existing(from)?;
        self.volumes.snapshot(&from.to_string(), &to.to_string())
    }

    fn grow(&self, volume: &Volume, mib: u64) -> Outcome<()> {
        let _lock = self.lock()?;
        if self.existing(volume)? >= mib.saturating_mul(1 << 20) {
            return Ok(());
        }
        self.volumes.extend(&volume.to_string(), mib)
    }

    fn size(&self, volume: &Volume) -> Outcome<Option<u64>> {
        self.volumes.size(&volume.to_string())
    }

    fn delete(&self, volume: &Volume) -> Outcome<()> {
        let _lock = self.lock()?;
        match self.size(volume)? {
            Some(_) => self.volumes.remove(&volume.to_string()),
            None => Ok(()),
        }
    }

    fn export(&self, volume: &Volume, initiators: &Initiators, login: &Login) -> Outcome<Export> {
        let _lock = self.lock()?;
        self.existing(volume)?;
        let initiators = initiators.over_iscsi(volume)?;
        self.lio.hide(volume)?;
        let device = self.volumes.device(&volume.to_string());
        self.lio.show(volume, &device, initiators, login).or_else(|failure| {
            self.lio.hide(volume)?;
            Err(failure)
        })
    }

    fn unexport(&self, volume: &Volume) -> Outcome<()> {
        let _lock = self.lock()?;
        self.lio.hide(volume)
    }
}
