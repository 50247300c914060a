//! The disk image of a stemcell: the file itself, or a file in a tar archive.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::failure::{CpiFailure, CpiResult};
use artifact::archive::{Options, unpack_file};
use base::files::directory::parent;

/// A disk image. An unpacked one is removed on drop.
pub(crate) struct StemcellImage {
    pub path: PathBuf,
    /// The beginning of the image, at most 1 KiB.
    pub head: Vec<u8>,
    _unpacked: Option<TempDir>,
}

impl StemcellImage {
    /// Opens the image that `create_stemcell` names. If it is a tar archive, gzipped or not, unpacks it and
    /// takes `root.img`, or the only file. Fails if the image is empty.
    pub(crate) fn open(image: &Path) -> CpiResult<StemcellImage> {
        let opening =
            |error| CpiFailure::io(format_args!("opening the stemcell's image '{}'", image.display()), error);
        let (path, unpacked) = if is_archive(&head(image).map_err(opening)?) {
            // The directory is next to the image, because the file system with the image has room for such
            // sizes.
            let unpacked = tempfile::tempdir_in(parent(image)).map_err(opening)?;
            let tree = unpacked.path().join("image");
            unpack_file(image, "the stemcell's image", &tree, None, &Options::default(), &mut |_, _| {})
                .map_err(|error| CpiFailure::cloud(error.chain().join(": ")))?;
            (disk_image(&tree)?, Some(unpacked))
        } else {
            (image.to_owned(), None)
        };
        let head = head(&path).map_err(|error| CpiFailure::io("reading the stemcell's image", error))?;
        if head.is_empty() {
            return Err(CpiFailure::cloud(
                "the stemcell's image is empty: it is a light stemcell of a cloud, or a download that is not \
                 complete; use the full stemcell",
            ));
        }
        Ok(StemcellImage { path, head, _unpacked: unpacked })
    }
}

fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(1024).read_to_end(&mut head)?;
    Ok(head)
}

fn is_archive(head: &[u8]) -> bool {
    head.starts_with(&[0x1f, 0x8b]) || head.get(257..262) == Some(b"ustar")
}

/// Returns the disk image in an unpacked archive: `root.img`, or the only file.
fn disk_image(tree: &Path) -> CpiResult<PathBuf> {
    let named = tree.join("root.img");
    if named.is_file() {
        return Ok(named);
    }
    let entries =
        fs::read_dir(tree).map_err(|error| CpiFailure::io("reading the stemcell's image", error))?;
    let files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    match files.as_slice() {
        [only] => Ok(only.clone()),
        files => Err(CpiFailure::cloud(format!(
            "the stemcell's image is an archive with {} files, none of them root.img: it must contain \
             root.img, or exactly one file",
            files.len()
        ))),
    }
}
