//! The layout of a userland: its root file system, and the files of this machine that are mounted in it.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{COMMAND, HOME_DIRECTORY, JOBS_DIRECTORY, PACKAGES_DIRECTORY, Userland, files};
use crate::cpi::create_private_directory;
use base::files::{JsonLayout, write_json};
use base::subordinate_ids::{IdRanges, SubordinateIds};
use base::{Error, Result};

/// A file or directory of this machine in a userland.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountPoint {
    /// The path on this machine.
    pub(crate) source: PathBuf,
    /// The absolute path in the userland.
    pub(crate) target: PathBuf,
    pub(crate) is_writable: bool,
}

impl MountPoint {
    /// Returns a mount that the userland can only read.
    pub(crate) fn read_only(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        MountPoint { source: source.into(), target: target.into(), is_writable: false }
    }

    /// Returns a mount that the userland can change.
    pub(crate) fn writable(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        MountPoint { is_writable: true, ..MountPoint::read_only(source, target) }
    }
}

/// The description of a userland for [`run`](super::run).
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// The root file system.
    pub(super) root: PathBuf,
    /// A directory of the run. The tree is built in `root` below it.
    pub(super) scratch: PathBuf,
    /// True if programs see this machine's network.
    pub(super) has_network: bool,
    /// The working directory, in the userland.
    pub(super) directory: PathBuf,
    /// Files and directories of this machine, parents before what is below them.
    pub(super) mounts: Vec<MountPoint>,
    /// Further ids that programs can have, beside the id of their user.
    pub(super) further_ids: Option<IdRanges>,
}

impl Layout {
    /// Describes the userland of a packaging script that runs in `directory`: with all ids of the userland,
    /// and with a network only if the manifest allows it.
    pub(crate) fn for_script(
        userland: &Userland,
        scratch: &Path,
        directory: PathBuf,
        mounts: Vec<MountPoint>,
    ) -> Result<Self> {
        let home = create_private_directory_in(scratch, "home")?;
        let mut all_mounts = vec![MountPoint::writable(home, HOME_DIRECTORY)];
        if userland.compiles_with_network {
            all_mounts.extend(files::name_resolution());
            all_mounts.extend(files::certificates(&[]));
        }
        all_mounts.extend(mounts);
        let layout = Layout::new(userland, scratch, userland.compiles_with_network, directory, all_mounts)?;
        let further_ids = userland.subordinate_ids.as_ref().ok().map(SubordinateIds::ranges_inside);
        Ok(Layout { further_ids, ..layout })
    }

    /// Describes the userland of a CPI: with the network of this machine, and with its packages and jobs.
    /// `env_vars` is the environment of the CPI. `images_directory` is the directory of this machine in which
    /// it finds stemcell images.
    pub(crate) fn for_cpi(
        userland: &Userland,
        scratch: &Path,
        packages: &[(String, PathBuf)],
        jobs_directory: &Path,
        images_directory: &Path,
        env_vars: &[(String, String)],
    ) -> Result<Self> {
        let home = env_vars.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
        let home = home.filter(|home| home.is_absolute() && home.parent().is_some());
        let mut mounts = vec![
            MountPoint::writable(
                create_private_directory_in(scratch, "home")?,
                home.unwrap_or_else(|| HOME_DIRECTORY.into()),
            ),
            MountPoint::read_only(jobs_directory, JOBS_DIRECTORY),
            MountPoint::read_only(images_directory, images_directory),
        ];
        let packages = packages.iter();
        mounts.extend(
            packages.map(|(name, target)| {
                MountPoint::read_only(target, Path::new(PACKAGES_DIRECTORY).join(name))
            }),
        );
        mounts.extend(files::name_resolution());
        mounts.extend(files::certificates(env_vars));
        mounts.extend(userland.files.iter().map(|path| MountPoint::read_only(path, path)));
        Layout::new(userland, scratch, true, PathBuf::from("/"), mounts)
    }

    fn new(
        userland: &Userland,
        scratch: &Path,
        has_network: bool,
        directory: PathBuf,
        mounts: impl IntoIterator<Item = MountPoint>,
    ) -> Result<Self> {
        create_private_directory_in(scratch, "root")?;
        let tmp = create_private_directory_in(scratch, "tmp")?;
        // On this machine, the directory above it is private.
        fs::set_permissions(&tmp, Permissions::from_mode(0o1777))
            .map_err(|error| Error::io(format!("setting the mode of '{}'", tmp.display()), error))?;
        let users = files::provide_user_lists(&userland.content.root, scratch)?;
        let temp_mounts = ["/tmp", "/var/tmp"].map(|target| MountPoint::writable(&tmp, target));
        // The last mount at a path counts, and parents come before what is below them.
        let by_target: BTreeMap<PathBuf, MountPoint> = temp_mounts
            .into_iter()
            .chain(users)
            .chain(mounts)
            .map(|mount| (mount.target.clone(), mount))
            .collect();
        Ok(Layout {
            root: userland.content.root.clone(),
            scratch: scratch.to_owned(),
            has_network,
            directory,
            mounts: by_target.into_values().collect(),
            further_ids: None,
        })
    }

    /// Writes the layout for the processes that enter it, and returns the arguments with which this
    /// program runs `program` in it.
    pub(crate) fn write(&self, program: &[&str]) -> Result<Vec<String>> {
        let path = self.scratch.join("layout.json");
        write_json(&path, self, JsonLayout::Compact)?;
        let mut arguments = vec![COMMAND.to_owned(), "--layout".to_owned(), path.display().to_string()];
        if !program.is_empty() {
            arguments.push("--".to_owned());
            arguments.extend(program.iter().map(|word| (*word).to_owned()));
        }
        Ok(arguments)
    }

    #[cfg(target_os = "linux")]
    pub(super) fn read(path: &Path) -> Result<Self> {
        base::files::read_json(path)?
            .ok_or_else(|| Error::failure(format!("the userland's layout '{}' is missing", path.display())))
    }
}

/// Creates a private directory below `parent`.
fn create_private_directory_in(parent: &Path, name: &str) -> Result<PathBuf> {
    let path = parent.join(name);
    create_private_directory(&path)?;
    Ok(path)
}
