//! The image of a stemcell: that of a disk, or a root file system. A tar archive may contain either.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::failure::{CpiFailure, CpiResult, FailureKind};
use artifact::archive::{Attributes, Links, UnpackOptions, unpack_file};
use base::files::directory::parent;

/// The image that `create_stemcell` names.
pub(crate) enum StemcellImage {
    Disk(DiskImage),
    RootFileSystem(RootFileSystem),
}

/// A disk image. An unpacked one is removed on drop.
pub(crate) struct DiskImage {
    pub path: PathBuf,
    /// The beginning of the image, at most 1 KiB.
    pub head: Vec<u8>,
    _scratch: Option<TempDir>,
}

/// A root file system, unpacked into a directory that is removed on drop. Its links may lead anywhere: do not
/// follow them.
pub(crate) struct RootFileSystem {
    pub path: PathBuf,
    /// The attributes of the root and all entries, by path below the root.
    pub attributes: BTreeMap<PathBuf, Attributes>,
    _scratch: TempDir,
}

impl StemcellImage {
    /// Opens the image that `create_stemcell` names. If it is a tar archive, gzipped or not, unpacks it: it
    /// contains `root.img`, exactly one file, or a root file system. Fails if the image is empty.
    pub(crate) fn open(image: &Path) -> CpiResult<StemcellImage> {
        let open_error =
            |error| CpiFailure::io(format_args!("opening the stemcell's image '{}'", image.display()), error);
        if !is_archive(&read_head(image).map_err(open_error)?) {
            return DiskImage::open(image.to_owned(), None).map(StemcellImage::Disk);
        }
        // The directory is next to the image, because the file system with the image has room for such
        // sizes.
        let scratch = tempfile::tempdir_in(parent(image)).map_err(open_error)?;
        let path = scratch.path().join("image");
        // A root file system has absolute links and may have devices.
        let options = UnpackOptions {
            links: Links::Verbatim,
            skips_devices: true,
            returns_attributes: true,
            ..UnpackOptions::default()
        };
        let attributes = unpack_file(image, "the stemcell's image", &path, None, &options, &mut |_, _| {})
            .map_err(|error| CpiFailure::cloud(error.chain().join(": ")))?
            .attributes;
        if attributes.get(Path::new("etc")).is_some_and(Attributes::is_directory) {
            let root = RootFileSystem { path, attributes, _scratch: scratch };
            return Ok(StemcellImage::RootFileSystem(root));
        }
        DiskImage::open(disk_image(&path, &attributes)?, Some(scratch)).map(StemcellImage::Disk)
    }

    /// Returns the image of a disk. Fails for a root file system.
    pub(crate) fn into_disk(self) -> CpiResult<DiskImage> {
        match self {
            StemcellImage::Disk(disk) => Ok(disk),
            StemcellImage::RootFileSystem(_) => Err(CpiFailure::new(
                FailureKind::NotSupported,
                "the stemcell's image is a root file system (a stemcell for warden), and machines boot only \
                 from images of disks: use a stemcell for OpenStack in a raw format \
                 (bosh-openstack-kvm-…-raw)",
            )),
        }
    }
}

impl DiskImage {
    fn open(path: PathBuf, scratch: Option<TempDir>) -> CpiResult<DiskImage> {
        let head = read_head(&path).map_err(|error| CpiFailure::io("reading the stemcell's image", error))?;
        if head.is_empty() {
            return Err(CpiFailure::cloud(
                "the stemcell's image is empty: it is a light stemcell of an IaaS, or a download that is not \
                 complete; use the full stemcell",
            ));
        }
        Ok(DiskImage { path, head, _scratch: scratch })
    }
}

fn read_head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(1024).read_to_end(&mut head)?;
    Ok(head)
}

fn is_archive(head: &[u8]) -> bool {
    head.starts_with(&[0x1f, 0x8b]) || head.get(257..262) == Some(b"ustar")
}

/// Returns the disk image in an unpacked archive: `root.img`, or the only file at its top.
fn disk_image(tree: &Path, attributes: &BTreeMap<PathBuf, Attributes>) -> CpiResult<PathBuf> {
    let is_at_top = |path: &Path| path.components().count() == 1;
    let files: Vec<&PathBuf> = attributes
        .iter()
        .filter(|(path, attributes)| is_at_top(path) && attributes.is_file())
        .map(|(path, _)| path)
        .collect();
    let root_image = files.iter().find(|path| path.as_os_str() == "root.img");
    match (root_image, files.as_slice()) {
        (Some(image), _) | (None, [image]) => Ok(tree.join(image)),
        (None, files) => Err(CpiFailure::cloud(format!(
            "the stemcell's image is an archive with {} files, none of them root.img: it must contain \
             root.img, exactly one file, or a root file system with the directory etc",
            files.len()
        ))),
    }
}
