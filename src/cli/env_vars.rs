//! Environment variables and files. The program uses them, and the man pages and `docs/reference.md` list
//! them.

use std::ffi::OsString;
use std::path::PathBuf;

use super::env_file::FILE_NAME;
use super::paths;
use base::{Error, Result};
use engine::state::COMPANION_FILES;

/// An environment variable that the program reads, other than the variables of options.
#[derive(Debug)]
pub struct Variable {
    /// The name, such as `NO_COLOR`; `AWS_*` stands for a group.
    pub name: &'static str,
    /// Its effect.
    pub meaning: &'static str,
}

impl Variable {
    const fn new(name: &'static str, meaning: &'static str) -> Self {
        Variable { name, meaning }
    }

    /// Returns the value, if it is set and not empty.
    #[expect(clippy::disallowed_methods, reason = "cli is where the environment is read")]
    pub(super) fn value(&self) -> Option<OsString> {
        std::env::var_os(self.name).filter(|value| !value.is_empty())
    }
}

pub(super) static LOG_LEVEL: Variable =
    Variable::new("BOSH_LOG_LEVEL", "Level of the log on standard error: debug, info, warn, error or none");
pub(super) static LOG_PATH: Variable =
    Variable::new("BOSH_LOG_PATH", "File that gets this log instead of standard error");
pub(super) static STATE_LEASE: Variable = Variable::new(
    "MONOPILE_STATE_LEASE",
    "Duration of the lease on a state in a bucket, from 3s to 1h; 60s by default",
);
pub(super) static TMPDIR: Variable =
    Variable::new("TMPDIR", "Directory for scratch space; in the cache by default");
pub(super) static NO_COLOR: Variable = Variable::new("NO_COLOR", "Print without colours, unless it is empty");
pub(super) static TERM: Variable =
    Variable::new("TERM", "With dumb, print plain lines instead of redrawing progress");
/// The variables of the locale. The first one that is set counts.
pub(super) static LOCALE: [Variable; 3] = [
    Variable::new("LC_ALL", "Locale; one with UTF-8 allows non-ASCII characters"),
    Variable::new("LC_CTYPE", "Locale, unless LC_ALL is set"),
    Variable::new("LANG", "Locale, unless LC_ALL or LC_CTYPE is set"),
];
pub(super) static PAGER: Variable =
    Variable::new("PAGER", "Program that shows `monopile help …` on a terminal; `less -FRX` by default");
pub(super) static SUDO_UID: Variable =
    Variable::new("SUDO_UID", "User that called sudo; root accepts the env files of that user");
/// The shell that asks for completions. Completion scripts set it, so no document lists it.
pub(super) static COMPLETING_SHELL: Variable = Variable::new("MONOPILE_COMPLETE", "");
/// The index of the word to complete, by default the last one. Completion scripts also set it.
pub(super) static COMPLETED_WORD: Variable = Variable::new("_CLAP_COMPLETE_INDEX", "");

/// The variable of the home directory, which the standard library reads.
static HOME: Variable = Variable::new("HOME", "Home directory; that of the password database by default");
/// Variables that `cli` only passes on to other crates, which give them a meaning.
static PASSED_VARIABLES: [Variable; 7] = [
    Variable::new(
        "BOSH_ALL_PROXY",
        "Proxy for downloads, buckets and the agent, socks5:// or ssh+socks5://; sets --gw-socks5",
    ),
    Variable::new("HTTP_PROXY", "Proxy for http:// URLs; also in lower case"),
    Variable::new("HTTPS_PROXY", "Proxy for https:// URLs; also in lower case"),
    Variable::new("NO_PROXY", "Hosts that are reached without a proxy; also in lower case"),
    Variable::new("AWS_*", "Access to a state at s3://BUCKET/KEY, or to a shared cache"),
    Variable::new("GOOGLE_*", "Access to a state at gs://BUCKET/KEY, or to a shared cache"),
    Variable::new("AZURE_*", "Access to a state at az://CONTAINER/KEY, or to a shared cache"),
];

/// Returns the variables for documents.
pub fn variables() -> impl Iterator<Item = &'static Variable> {
    let file_variables =
        [&LOG_LEVEL, &LOG_PATH, &STATE_LEASE, &STATE_HOME.variable, &CACHE_HOME.variable, &HOME];
    let other_variables = [&TMPDIR, &SUDO_UID, &PAGER, &NO_COLOR, &TERM];
    file_variables.into_iter().chain(other_variables).chain(&LOCALE).chain(&PASSED_VARIABLES)
}

/// A base directory of the XDG specification, according to which relative values are ignored.
pub(super) struct BaseDirectory {
    variable: Variable,
    below_home: &'static str,
}

pub(super) static STATE_HOME: BaseDirectory = BaseDirectory {
    variable: Variable::new(
        "XDG_STATE_HOME",
        "Base directory of logs and records; ~/.local/state by default",
    ),
    below_home: ".local/state",
};
pub(super) static CACHE_HOME: BaseDirectory = BaseDirectory {
    variable: Variable::new("XDG_CACHE_HOME", "Base directory of the cache; ~/.cache by default"),
    below_home: ".cache",
};

impl BaseDirectory {
    /// Returns the directory of this program below the base directory.
    pub(super) fn path(&self) -> Result<PathBuf> {
        let base = match self.variable.value().map(PathBuf::from).filter(|path| path.is_absolute()) {
            Some(path) => path,
            None => paths::home().map(|home| home.join(self.below_home)).ok_or_else(|| {
                Error::usage("this user has no home directory")
                    .with_hint(format!("set HOME or {}", self.variable.name))
            })?,
        };
        Ok(base.join("monopile"))
    }
}

/// A directory of this program that all environments of a user share.
pub(super) struct Directory {
    name: &'static str,
    content: &'static str,
}

impl Directory {
    pub(super) fn path(&self) -> Result<PathBuf> {
        Ok(STATE_HOME.path()?.join(self.name))
    }
}

pub(super) static LOGS: Directory = Directory {
    name: "logs",
    content: "A log of each run that can change something; the newest 20, of all environments together",
};
pub(super) static HISTORY: Directory = Directory {
    name: "history",
    content: "The records for history and status; the newest 100 of each environment",
};
pub(super) static CALLS: Directory = Directory {
    name: "calls",
    content: "Answers and logs of open CPI calls, if the state is encrypted or in a bucket",
};
pub(super) static TRUST: Directory = Directory { name: "trust", content: "The trusted env files" };
pub(super) static CPI_CHECK: Directory =
    Directory { name: "cpi-check", content: "The resources that an interrupted cpi check left" };
// The engine derives these directories from the base directory.
static LOCAL: Directory = Directory { name: "local", content: "VMs and disks of the local CPI" };
static QEMU: Directory = Directory { name: "qemu", content: "VMs and disks of the qemu CPI" };

/// Returns the state and the files beside it, with their descriptions. `STATE` stands for the path of the
/// state.
pub fn state_files() -> Vec<(String, &'static str)> {
    let state = ("NAME-state.json".to_owned(), "The state of the manifest NAME.yml, unless --state is given");
    let companions = COMPANION_FILES.map(|(suffix, content)| (format!("STATE{suffix}"), content));
    std::iter::once(state).chain(companions).collect()
}

/// Returns the name and the description of the default vars store.
pub fn vars_store() -> (String, &'static str) {
    let content = "The generated variables of NAME.yml, beside the state, unless --vars-store is given";
    ("NAME-vars.yml".to_owned(), content)
}

/// Returns the name and the description of an env file.
pub fn env_file() -> (String, &'static str) {
    (FILE_NAME.to_owned(), "Defaults for options and variables, here or in a directory above")
}

/// Returns the directories that all environments of a user share, with their descriptions.
pub fn directories() -> Vec<(String, &'static str)> {
    let path = |base: &BaseDirectory, name: &str| format!("${}/monopile{name}", base.variable.name);
    let state_directories = [&LOGS, &HISTORY, &CALLS, &TRUST, &CPI_CHECK, &LOCAL, &QEMU];
    let directories = state_directories
        .map(|directory| (path(&STATE_HOME, &format!("/{}", directory.name)), directory.content));
    let cache = (path(&CACHE_HOME, ""), "The cache: downloads, compiled packages, installed CPIs");
    let scratch = (format!("${}/monopile-*", TMPDIR.name), "Scratch space of a run");
    directories.into_iter().chain([cache, scratch]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_is_listed_once() {
        let mut names: Vec<&str> = variables().map(|variable| variable.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
