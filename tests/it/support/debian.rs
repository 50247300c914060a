//! Stemcells of `examples/qemu/make-stemcell`, kept in `target/tmp` by their content.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use super::process::{poll_within, prepare};
use super::tarballs::sha256;
use super::{MONOPILE, directory};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/qemu/make-stemcell");
/// The time for downloading and installing Debian's packages.
const LIMIT: Duration = Duration::from_secs(1200);

/// Returns the tarball of a stemcell whose agent is the program of the tests.
pub(crate) fn stemcell() -> &'static Path {
    static STEMCELL: OnceLock<PathBuf> = OnceLock::new();
    STEMCELL.get_or_init(|| {
        let work = directory();
        let agent = work.path().join("monopile");
        // Debug information makes the program ten times as large.
        run_shell(
            work.path(),
            &["strip --output-file \"$1\" \"$0\"", MONOPILE, &agent.display().to_string()],
        );
        let script = std::fs::read(SCRIPT).unwrap();
        let keep = |what: &str, content: &[u8], extension: &str| {
            let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
            parent.join(format!("{what}-{}.{extension}", &sha256(content)[7..19]))
        };
        let base = keep("debian", &script, "tar");
        let path = keep("stemcell", &[script, std::fs::read(&agent).unwrap()].concat(), "tgz");
        if !path.exists() {
            // Only the last ones are needed.
            for entry in std::fs::read_dir(base.parent().unwrap()).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let is_old = name.starts_with("stemcell-") || name.starts_with("debian-");
                if is_old && entry.path() != base {
                    std::fs::remove_file(entry.path()).unwrap();
                }
            }
            make_stemcell(&base, &agent, work.path(), &path);
        }
        path
    })
}

/// Makes a stemcell. The base, a tar archive, is made if it does not exist.
pub(crate) fn make_stemcell(base: &Path, agent: &Path, work: &Path, stemcell: &Path) {
    let script = "
        cd \"$0\"
        . packaging/tools.sh
        apt_sources Debian >\"$4/sources\"
        apt_settings >\"$4/apt.conf\"
        TMPDIR=$4 examples/qemu/make-stemcell --base \"$1\" --agent \"$2\" --sources \"$4/sources\" \
            --apt \"$4/apt.conf\" \"$3\"";
    let paths = [base, agent, stemcell, work].map(|path| path.display().to_string());
    let words = [&[script, env!("CARGO_MANIFEST_DIR")][..], &paths.each_ref().map(String::as_str)].concat();
    run_shell(work, &words);
}

/// Runs a script of bash, which must succeed.
fn run_shell(work: &Path, words: &[&str]) {
    let log = work.join("log");
    let file = std::fs::File::create(&log).unwrap();
    let mut command = prepare("bash");
    command.arg("-euc").args(words).stdout(file.try_clone().unwrap()).stderr(file);
    let mut child = command.spawn().unwrap();
    let status = poll_within(LIMIT, "a stemcell is made", || child.try_wait().unwrap());
    let output = std::fs::read_to_string(log).unwrap();
    assert!(status.success(), "{output}\ntests/run installs what this needs");
}
