//! `compile_package`: compiles a source blob to a blob with the compiled package. Several compilations may
//! run at once.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::directories::{self};
use super::process::{TaskControl, ending};
use super::spec::Package;
use super::{Agent, archive, packages};
use base::error::ResultExt;
use base::{Error, Result};

/// The maximum length of a failed script's output in the error, in bytes for each stream.
const MAX_TAIL_BYTES: u64 = 10 * 1024;

/// The PATH of packaging scripts.
const COMPILE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Agent {
    /// Compiles `package`, whose blob is its source, with its dependencies installed.
    pub(super) fn compile(
        &self,
        package: &Package,
        dependencies: &BTreeMap<String, Package>,
        task: &TaskControl,
    ) -> Result<Value> {
        package.check()?;
        self.compile_inner(package, dependencies, task)
            .map(|(id, digest)| json!({"result": {"blobstore_id": id, "sha1": digest}}))
            .context(|| format!("Compiling package {}", package.name))
    }

    /// Installs the dependencies, runs the packaging script, and stores the result as a blob. Returns the id
    /// and the digest of the blob.
    fn compile_inner(
        &self,
        package: &Package,
        dependencies: &BTreeMap<String, Package>,
        task: &TaskControl,
    ) -> Result<(String, String)> {
        let mut links = Vec::new();
        for dependency in dependencies.values() {
            let directory = packages::install(&self.directories, &self.blobs, dependency)
                .context(|| format!("Installing dependent package: '{}'", dependency.name))?;
            links.push((dependency.name.clone(), directory));
        }
        // Each attempt has its own directory. Two compilations of one package wait for each other when they
        // take the link.
        let parent = self.directories.data_packages().join(&package.name);
        directories::make_directory(&parent, 0o755)?;
        let install = tempfile::Builder::new()
            .prefix(".compile-")
            .tempdir_in(&parent)
            .map_err(|error| Error::io("Setting up new package bundle", error))?;
        directories::set_mode(install.path(), 0o755)?;
        links.push((package.name.clone(), install.path().to_path_buf()));
        let hold = self.links.hold(&self.directories, &links)?;
        task.check()?;

        let source = self.directories.compile().join(&package.name);
        let _clean = Cleanup(&source);
        directories::remove_tree(&source)?;
        let blob = self
            .blobs
            .open(&package.blobstore_id, &package.sha1)
            .context(|| format!("Fetching package {}", package.name))?;
        archive::unpack(blob, &format!("the source of package '{}'", package.name), &source)
            .context(|| format!("Uncompressing package {}", package.name))?;
        directories::set_mode(&source, 0o755)?;
        if source.join("packaging").is_file() {
            self.run_packaging(package, &source, task).context(|| "Running packaging script".to_owned())?;
        }
        let tarball = self.blobs.create_incoming()?;
        archive::pack(install.path(), tarball.as_file())
            .context(|| "Compressing compiled package".to_owned())?;
        task.check()?;
        let blob = self.blobs.store(tarball).context(|| "Uploading compiled package".to_owned())?;
        drop(hold);
        Ok(blob)
    }

    /// Runs the packaging script with the environment that BOSH promises. Its output goes to logs of the VM,
    /// and the end of them into an error.
    fn run_packaging(&self, package: &Package, source: &Path, task: &TaskControl) -> Result<()> {
        let logs = self.directories.agent_logs().join("compile").join(&package.name);
        directories::remove_tree(&logs)?;
        directories::make_directory(&logs, 0o750)?;
        let open = |name: &str| {
            let path = logs.join(name);
            File::options()
                .read(true)
                .append(true)
                .create(true)
                .open(&path)
                .map_err(|error| Error::io(format!("opening '{}'", path.display()), error))
        };
        let (mut stdout, mut stderr) = (open("packaging.stdout.log")?, open("packaging.stderr.log")?);
        let copy = |file: &File| file.try_clone().map_err(|error| Error::io("opening a log twice", error));
        let mut command = Command::new("bash");
        command
            .args(["-x", "packaging"])
            .current_dir(source)
            .env_clear()
            .env("PATH", COMPILE_PATH)
            .env("HOME", "/root")
            .env("TMPDIR", self.directories.tmp())
            .env("BOSH_COMPILE_TARGET", source)
            .env("BOSH_INSTALL_TARGET", self.directories.packages().join(&package.name))
            .env("BOSH_PACKAGE_NAME", &package.name)
            .env("BOSH_PACKAGE_VERSION", &package.version)
            .stdout(copy(&stdout)?)
            .stderr(copy(&stderr)?);
        let status = task.run(&mut command)?;
        if status.success() {
            return Ok(());
        }
        let (stdout_tail, stderr_tail) = (read_tail(&mut stdout), read_tail(&mut stderr));
        let with_title = |name: &str, text: &(String, bool)| {
            let title = if text.1 { format!("Truncated {}", name.to_lowercase()) } else { name.to_owned() };
            format!("{title}: {}", text.0)
        };
        Err(Error::failure(format!(
            "Command {}; {}, {}",
            ending(status),
            with_title("Stdout", &stdout_tail),
            with_title("Stderr", &stderr_tail)
        )))
    }
}

/// Returns the end of a log, and true if its beginning was cut off.
fn read_tail(file: &mut File) -> (String, bool) {
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let start = length.saturating_sub(MAX_TAIL_BYTES);
    let mut bytes = Vec::new();
    if file
        .seek(SeekFrom::Start(start))
        .and_then(|_| file.take(MAX_TAIL_BYTES).read_to_end(&mut bytes))
        .is_err()
    {
        return (String::new(), false);
    }
    let text = String::from_utf8_lossy(&bytes);
    let whole_lines = if start > 0 { text.split_once('\n').map_or(&*text, |(_, rest)| rest) } else { &text };
    (whole_lines.to_owned(), start > 0)
}

/// Removes a directory when it is dropped.
struct Cleanup<'a>(&'a Path);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0);
    }
}
