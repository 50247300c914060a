//! Finds, before anything is compiled, programs that packaging scripts need and that this machine or the
//! userland lacks.
//!
//! In general the commands of a shell script cannot be known without running it. So only plain uses count: a
//! well-known build tool as the first word of an unconditional command, before the script changes its search
//! path. Other cases are left to the script.

mod shell;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use super::CompileSettings;
use super::needed_packages::NeededPackage;
use super::package_store::CpiPackageStore;
use crate::cpi::userland::{self, Userland};
use artifact::archive;
use base::files::open_inside;
use base::{Error, Result};

/// The maximum size of a packaging script that is read, in bytes.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;

/// Checks the scripts of the packages that must be compiled now.
pub(super) fn check(
    needed_packages: &[NeededPackage<'_>],
    package_store: &CpiPackageStore,
    compile_settings: &CompileSettings<'_>,
) -> Result<()> {
    let path =
        compile_settings.env_vars.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_str());
    let mut missing_tools: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for package in needed_packages {
        if package.package.compiled_for.is_some() || package_store.slot(package).is_complete() {
            continue;
        }
        let script = read_script(package)?;
        for tool in shell::tools(&script).into_iter().chain([shell::Tool::Named("bash")]) {
            let exists = |name: &&str| match compile_settings.userland {
                Some(userland) => is_executable_in(userland, name),
                None => is_executable_in_path(name, path),
            };
            if !tool.names().iter().any(exists) {
                missing_tools.entry(tool.to_string()).or_default().insert(&package.package.name);
            }
        }
    }
    if missing_tools.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = missing_tools
        .iter()
        .map(|(tool, packages)| {
            let packages: Vec<String> = packages.iter().map(|package| format!("'{package}'")).collect();
            let noun = if packages.len() == 1 { "package" } else { "packages" };
            format!("{tool} ({noun} {})", packages.join(", "))
        })
        .collect();
    let not_found = format!("not found: {}", list.join("; "));
    Err(match compile_settings.userland {
        Some(userland) => Error::failure(format!(
            "the CPI cannot be compiled in the userland '{}': tools are missing",
            userland.name
        ))
        .with_source(not_found)
        .with_hint("use a root file system that has these tools, or a compiled release of the CPI"),
        None => Error::failure("the CPI cannot be compiled on this machine: tools are missing")
            .with_source(not_found)
            .with_hint("install these tools, or use a compiled release of the CPI")
            .with_hint(
                "to compile and run the CPI in a root file system that has them, such as a stemcell for \
                 warden: `monopile SAME-COMMAND --cpi-userland FILE` (see `monopile help userland`)",
            ),
    })
}

fn read_script(package: &NeededPackage<'_>) -> Result<String> {
    let source_name = format!("the package '{}' of release '{}'", package.package.name, package.release.name);
    let file = File::open(&package.package.archive)
        .map_err(|error| Error::io(format!("reading '{}'", package.package.archive.display()), error))?;
    let script = archive::read_member(file, Path::new("packaging"), MAX_SCRIPT_BYTES)
        .map_err(|error| error.into_error(&source_name))?
        .ok_or_else(|| Error::invalid(format!("{source_name} has no packaging script")))?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Returns true if a userland has the program.
fn is_executable_in(userland: &Userland, name: &str) -> bool {
    userland::SEARCH_PATH.split(':').any(|directory| {
        let file = open_inside(&userland.content.root, &Path::new(directory).join(name));
        file.and_then(|file| file.metadata()).is_ok_and(|metadata| is_program(&metadata))
    })
}

fn is_program(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
}

/// Returns true if the program is found in `path`, or in the usual directories without `path`.
fn is_executable_in_path(name: &str, path: Option<&str>) -> bool {
    path.unwrap_or("/usr/local/bin:/usr/bin:/bin").split(':').any(|directory| {
        std::fs::metadata(Path::new(directory).join(name)).is_ok_and(|metadata| is_program(&metadata))
    })
}
