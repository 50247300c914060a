//! Stemcells of `examples/qemu/make-stemcell`, kept in `target/tmp` by their content.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::process::{poll_within, prepare};
use super::tarballs::sha256;
use super::{MONOPILE, create_directory};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/qemu/make-stemcell");
/// The time for downloading and installing Debian's packages.
const BUILD_TIMEOUT: Duration = Duration::from_secs(1200);

/// Returns the tarball of a stemcell whose agent is the program of the tests. Its image is that of a disk.
pub(crate) fn stemcell() -> PathBuf {
    kept_stemcell("disk", &[])
}

/// Returns the tarball of such a stemcell whose image is a root file system. The kernel and the initial RAM
/// disk are beside it, with the extensions of `make-stemcell`.
pub(crate) fn root_file_system() -> PathBuf {
    kept_stemcell("root", &["--root-file-system"])
}

fn kept_stemcell(form: &str, options: &[&str]) -> PathBuf {
    /// The lock of the thread that makes a stemcell.
    static BUILD_LOCK: Mutex<()> = Mutex::new(());
    let _build_lock = BUILD_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let work = create_directory();
    let agent = work.path().join("monopile");
    // Debug information makes the program ten times as large.
    run_shell(work.path(), &["strip --output-file \"$1\" \"$0\"", MONOPILE, &agent.display().to_string()]);
    let script = std::fs::read(SCRIPT).unwrap();
    let versioned_name =
        |content_name: &str, content: &[u8]| format!("{content_name}-{}", &sha256(content)[7..19]);
    let base_name = versioned_name("debian", &script);
    let stemcell_name = versioned_name("stemcell", &[script, std::fs::read(&agent).unwrap()].concat());
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = parent.join(format!("{stemcell_name}-{form}.tgz"));
    if !path.exists() {
        // Only the last ones are needed.
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_old = name.starts_with("stemcell-") || name.starts_with("debian-");
            if is_old && !name.starts_with(&base_name) && !name.starts_with(&stemcell_name) {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        make_stemcell(&parent.join(base_name + ".tar"), &agent, work.path(), &path, options);
    }
    path
}

/// Makes a stemcell with these options of the script. The base, a tar archive, is made if it does not exist.
pub(crate) fn make_stemcell(base: &Path, agent: &Path, work: &Path, stemcell: &Path, options: &[&str]) {
    let script = "
        cd \"$0\"
        . packaging/tools.sh
        apt_sources Debian >\"$4/sources\"
        apt_settings >\"$4/apt.conf\"
        TMPDIR=$4 examples/qemu/make-stemcell --base \"$1\" --agent \"$2\" --sources \"$4/sources\" \
            --apt \"$4/apt.conf\" \"${@:5}\" \"$3\"";
    let paths = [base, agent, stemcell, work].map(|path| path.display().to_string());
    let paths = paths.each_ref().map(String::as_str);
    let words = [&[script, env!("CARGO_MANIFEST_DIR")][..], &paths, options].concat();
    run_shell(work, &words);
}

/// Runs a script of bash, which must succeed.
fn run_shell(work: &Path, words: &[&str]) {
    let log = work.join("log");
    let file = std::fs::File::create(&log).unwrap();
    let mut command = prepare("bash");
    command.arg("-euc").args(words).stdout(file.try_clone().unwrap()).stderr(file);
    let mut child = command.spawn().unwrap();
    let status = poll_within(BUILD_TIMEOUT, "a stemcell is made", || child.try_wait().unwrap());
    let output = std::fs::read_to_string(log).unwrap();
    assert!(status.success(), "{output}\ntests/run installs what this needs");
}
