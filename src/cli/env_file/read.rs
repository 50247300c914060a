//! Reads env files. Reports all errors at once, with file, line and column.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::find::{FILE_NAME, OpenedEnvFile};
use super::{Content, EnvFile, FileOption, OptionUse};
use crate::cli::{paths, vars_exec_args};
use base::error::{did_you_mean, did_you_mean_question};
use base::files::input;
use base::{Error, Result};
use manifest::{VarsProgram, kind_with_article};
use yaml::{self, Data, Mapping, Node};

/// The shape of the value of an option.
#[derive(Debug, Clone, Copy)]
enum ValueShape {
    Path,
    /// A path, or text that begins with this prefix.
    PathUnless(&'static str),
    /// A path, a URL, or this word.
    PathOrUrlUnless(&'static str),
    /// Text or a number.
    Text,
    /// Text or a number, or a list of them, for an option that can be repeated.
    Texts,
    /// True or false.
    Switch,
}

/// The options that an env file may set, with `_` for `-`. Options that request an action (`--recreate`) or
/// skip a question (`--non-interactive`) belong on the command line. `monopile trust` shows the use of each.
const ENV_FILE_OPTIONS: [(&str, ValueShape, OptionUse); 31] = [
    ("agent_timeout", ValueShape::Text, OptionUse::Setting),
    ("boot_timeout", ValueShape::Text, OptionUse::Setting),
    ("cache", ValueShape::Text, OptionUse::SharedCache),
    ("cache_dir", ValueShape::Path, OptionUse::ProgramDirectory),
    ("cache_sign", ValueShape::Path, OptionUse::File),
    ("cache_trust", ValueShape::PathUnless("ssh-"), OptionUse::File),
    ("cache_write", ValueShape::Switch, OptionUse::Setting),
    ("cloud_config", ValueShape::Path, OptionUse::File),
    ("cpi_api_version", ValueShape::Text, OptionUse::Setting),
    ("cpi_config", ValueShape::Path, OptionUse::CpiConfig),
    ("cpi_timeout", ValueShape::Text, OptionUse::Setting),
    ("cpi_userland", ValueShape::PathOrUrlUnless("host"), OptionUse::Userland),
    ("drain_timeout", ValueShape::Text, OptionUse::Setting),
    ("encrypt_to", ValueShape::PathUnless("age1"), OptionUse::Recipients),
    ("gw_host", ValueShape::Text, OptionUse::Server),
    ("gw_private_key", ValueShape::Path, OptionUse::File),
    ("gw_socks5", ValueShape::Text, OptionUse::Server),
    ("gw_user", ValueShape::Text, OptionUse::Setting),
    ("identity", ValueShape::Path, OptionUse::File),
    ("insecure_agent", ValueShape::Switch, OptionUse::Setting),
    ("log_format", ValueShape::Text, OptionUse::Setting),
    ("no_color", ValueShape::Switch, OptionUse::Setting),
    ("package_dir", ValueShape::Path, OptionUse::ProgramDirectory),
    ("parallel", ValueShape::Text, OptionUse::Setting),
    ("redact", ValueShape::Texts, OptionUse::Setting),
    ("renderer", ValueShape::Text, OptionUse::Renderer),
    ("sha2", ValueShape::Switch, OptionUse::Setting),
    ("tty", ValueShape::Switch, OptionUse::Setting),
    ("update_strategy", ValueShape::Text, OptionUse::Setting),
    ("verbose", ValueShape::Text, OptionUse::Setting),
    ("wait_for_lock", ValueShape::Text, OptionUse::Setting),
];

/// The hint for a mistake in an env file.
pub(super) const KEYS_HINT: &str =
    "see the keys of env files and their values: `monopile help env-file keys`";

/// The maximum size of an env file, in bytes.
pub(in crate::cli) const MAX_ENV_FILE_BYTES: u64 = 1 << 20;

/// The keys that describe the manifest, its variables and its state. Unlike [`ENV_FILE_OPTIONS`], each has
/// a field of its own.
const MANIFEST_KEYS: [&str; 9] = [
    "manifest",
    "ops_files",
    "vars",
    "var_files",
    "vars_files",
    "vars_exec",
    "vars_env",
    "vars_store",
    "state",
];

/// Reads an open env file. Relative paths in it start at the real directory of the file.
pub(super) fn read(opened_file: &OpenedEnvFile) -> Result<EnvFile> {
    let path = opened_file.display_path.as_path();
    let bytes =
        input::read_file(&opened_file.file, MAX_ENV_FILE_BYTES).map_err(|error| match error.kind() {
            std::io::ErrorKind::IsADirectory => {
                let file = path.join(FILE_NAME);
                let error = Error::invalid(format!("env file '{}' is a directory", path.display()));
                match file.exists() {
                    true => error.with_hint(did_you_mean_question(&file.to_string_lossy())),
                    false => error.with_note(format!("it has no {FILE_NAME}")),
                }
            }
            std::io::ErrorKind::FileTooLarge => Error::invalid(format!(
                "env file '{}' is larger than {} MiB",
                path.display(),
                MAX_ENV_FILE_BYTES >> 20
            )),
            _ => input::read_error("env file", path, error),
        })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::invalid(format!("env file '{}' is not UTF-8 text", path.display())))?;
    let root = yaml::load(&text, path)?;
    let empty = Mapping::new();
    let map = match &root.data {
        Data::Map(map) => map,
        Data::Null => &empty,
        _ => {
            return Err(Error::invalid(format!(
                "{}: the env file is {}, not a mapping",
                root.position.describe(),
                kind_with_article(&root)
            ))
            .with_hint(KEYS_HINT));
        }
    };
    let mut reader = Reader {
        directory: directory(opened_file),
        home: paths::home(),
        content: Content { text: text.into_bytes(), ..Content::default() },
        problems: Vec::new(),
    };
    for (key, value) in map.iter() {
        reader.read_entry(key, value);
    }
    // The key `manifest` is one of an env file. A manifest has none of its keys.
    if reader.content.keys.is_empty() && manifest::is_manifest(path) {
        let error = Error::invalid(format!("'{}' is a manifest, not an env file", path.display()));
        let env_file = path.with_file_name(FILE_NAME);
        return Err(match env_file.exists() {
            true => error.with_hint(format!("name the env file beside it: '{}'", env_file.display())),
            false => error.with_hint(KEYS_HINT),
        });
    }
    let error = match reader.problems.as_slice() {
        [] => {
            return Ok(EnvFile {
                path: path.to_owned(),
                real_path: opened_file.real_path.clone(),
                content: Arc::new(reader.content),
            });
        }
        [problem] => Error::from_problem(problem),
        problems => Error::invalid(format!(
            "the env file '{}' is not valid: {} problems",
            path.display(),
            problems.len()
        ))
        .with_source(problems.join("\n")),
    };
    Err(error.with_hint(KEYS_HINT))
}

/// Returns the base of relative paths. It is as short as the operator's path, unless that path is a link.
fn directory(opened_file: &OpenedEnvFile) -> PathBuf {
    let display_parent = opened_file.display_path.parent().unwrap_or(Path::new(""));
    let real_parent = opened_file.real_path.parent().unwrap_or(Path::new("/"));
    let directory_as_given =
        if display_parent.as_os_str().is_empty() { Path::new(".") } else { display_parent };
    match directory_as_given.canonicalize() {
        Ok(directory) if directory == real_parent => display_parent.to_owned(),
        _ => real_parent.to_owned(),
    }
}

/// Returns the name of the option for a key.
fn option_name(key: &str) -> String {
    key.replace('_', "-")
}

/// Collects the content of an env file, and the problems in it.
struct Reader {
    /// The base of relative paths.
    directory: PathBuf,
    home: Option<PathBuf>,
    content: Content,
    problems: Vec<String>,
}

impl Reader {
    fn read_entry(&mut self, key: &Node, value: &Node) {
        let Some(name) = key.as_str() else {
            return self.add_problem(key, format!("a key must be a string, not {}", kind_with_article(key)));
        };
        let option = ENV_FILE_OPTIONS.into_iter().find(|(option, ..)| *option == name);
        if option.is_none() && !MANIFEST_KEYS.contains(&name) {
            let hint =
                did_you_mean(name, MANIFEST_KEYS.into_iter().chain(ENV_FILE_OPTIONS.map(|(key, ..)| key)));
            return self.add_problem(key, format!("the env file has the unknown key '{name}'{hint}"));
        }
        self.content.keys.push(name.to_owned());
        if value.is_null() {
            return;
        }
        match option {
            Some((_, shape, option_use)) => self.read_option(name, shape, option_use, value),
            None => self.read_key(name, value),
        }
    }

    /// Reads a key that is not an option.
    fn read_key(&mut self, name: &str, value: &Node) {
        match name {
            "manifest" => self.content.manifest = self.read_path(name, value),
            "state" => self.content.state = self.read_path_or_url(name, value),
            "vars_store" => self.content.vars_store = self.read_path(name, value),
            "ops_files" => self.content.ops_files = self.read_paths(name, value),
            "vars_files" => self.content.env_file_variables.vars_files = self.read_paths(name, value),
            "vars_exec" => self.content.env_file_variables.vars_exec = self.read_programs(name, value),
            "vars_env" => {
                self.content.env_file_variables.vars_env = self
                    .read_list(name, value)
                    .iter()
                    .filter_map(|item| self.read_text(name, item))
                    .collect();
            }
            "vars" => self.content.env_file_variables.vars = self.read_hash(name, value),
            // This is `var_files`, the remaining one of `MANIFEST_KEYS`.
            _ => {
                let files = self.read_hash(name, value);
                self.content.env_file_variables.var_files = files
                    .into_iter()
                    .filter_map(|(variable, path)| Some((variable, self.read_path(name, &path)?)))
                    .collect();
            }
        }
    }

    fn read_option(&mut self, name: &str, shape: ValueShape, option_use: OptionUse, value: &Node) {
        let values: Vec<OsString> = match shape {
            ValueShape::Path => {
                self.read_path(name, value).into_iter().map(PathBuf::into_os_string).collect()
            }
            ValueShape::PathUnless(prefix) if value.as_str().is_some_and(|text| text.starts_with(prefix)) => {
                self.read_text(name, value).into_iter().map(OsString::from).collect()
            }
            ValueShape::PathUnless(_) => {
                self.read_path(name, value).into_iter().map(PathBuf::into_os_string).collect()
            }
            ValueShape::PathOrUrlUnless(word) if value.as_str() == Some(word) => vec![word.into()],
            ValueShape::PathOrUrlUnless(_) => {
                self.read_path_or_url(name, value).into_iter().map(PathBuf::into_os_string).collect()
            }
            ValueShape::Text => self.read_text(name, value).into_iter().map(OsString::from).collect(),
            ValueShape::Texts => {
                let items = value.as_seq().unwrap_or(std::slice::from_ref(value));
                items.iter().filter_map(|item| self.read_text(name, item)).map(OsString::from).collect()
            }
            ValueShape::Switch => match value.as_bool() {
                Some(on) => vec![on.to_string().into()],
                None => return self.report_wrong_type(name, "true or false", value),
            },
        };
        if !values.is_empty() {
            self.content.options.push(FileOption {
                name: option_name(name),
                values,
                option_use,
                place: format!("{}: `{name}`", value.position.describe()),
            });
        }
    }

    fn read_text(&mut self, name: &str, value: &Node) -> Option<String> {
        match &value.data {
            Data::String(text) if !text.is_empty() => Some(text.as_str().to_owned()),
            Data::Int(number) => Some(number.to_string()),
            _ => {
                self.report_wrong_type(name, "a string", value);
                None
            }
        }
    }

    /// Reads a path, relative to the directory of the file.
    fn read_path(&mut self, name: &str, value: &Node) -> Option<PathBuf> {
        let text = self.read_text(name, value)?;
        Some(self.directory.join(paths::expand(Path::new(&text), self.home.as_deref())))
    }

    fn read_path_or_url(&mut self, name: &str, value: &Node) -> Option<PathBuf> {
        let text = PathBuf::from(self.read_text(name, value)?);
        if paths::is_url(&text) { Some(text) } else { self.read_path(name, value) }
    }

    fn read_paths(&mut self, name: &str, value: &Node) -> Vec<PathBuf> {
        self.read_list(name, value).iter().filter_map(|item| self.read_path(name, item)).collect()
    }

    fn read_list<'n>(&mut self, name: &str, value: &'n Node) -> &'n [Node] {
        value.as_seq().unwrap_or_else(|| {
            self.report_wrong_type(name, "a list", value);
            &[]
        })
    }

    /// Reads a program with its arguments, or a list of such lists. It runs in the directory of the file.
    fn read_programs(&mut self, name: &str, value: &Node) -> Vec<VarsProgram> {
        let items = self.read_list(name, value);
        let is_list_of_lists = items.iter().any(|item| item.as_seq().is_some());
        let commands = if is_list_of_lists { items } else { std::slice::from_ref(value) };
        commands.iter().filter_map(|command| self.read_program(name, command)).collect()
    }

    fn read_program(&mut self, name: &str, value: &Node) -> Option<VarsProgram> {
        let problem_count = self.problems.len();
        let mut words = Vec::new();
        for item in self.read_list(name, value) {
            match &item.data {
                Data::String(word) => words.push(word.as_str().to_owned()),
                Data::Int(number) => words.push(number.to_string()),
                _ => {
                    let kind = kind_with_article(item);
                    self.add_problem(item, format!("a word of `{name}` must be a string, not {kind}"));
                }
            }
        }
        // The directory is empty if the file is in the working directory.
        let own_directory = self.directory.join(".");
        let directory = paths::absolute(&own_directory).unwrap_or(own_directory);
        let program = vars_exec_args::program(words, Some(&directory));
        if program.is_none() && self.problems.len() == problem_count {
            self.add_problem(value, format!("`{name}` names no program: write [PROGRAM, ARG]"));
        }
        program
    }

    /// Reads values by name.
    fn read_hash(&mut self, name: &str, value: &Node) -> Vec<(String, Node)> {
        let Some(map) = value.as_map() else {
            self.report_wrong_type(name, "a mapping of names to values", value);
            return Vec::new();
        };
        let mut entries = Vec::new();
        for (key, value) in map.iter() {
            match key.as_str() {
                Some(variable) => entries.push((variable.to_owned(), value.clone())),
                None => self.add_problem(
                    key,
                    format!("the name of a variable must be a string, not {}", kind_with_article(key)),
                ),
            }
        }
        entries
    }

    fn report_wrong_type(&mut self, name: &str, expected: &str, value: &Node) {
        self.add_problem(value, format!("`{name}` must be {expected}, not {}", kind_with_article(value)));
    }

    fn add_problem(&mut self, node: &Node, problem: String) {
        self.problems.push(format!("{}: {problem}", node.position.describe()));
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    /// Returns true if some command has this option.
    fn has_option(command: &Command, name: &str) -> bool {
        command.get_arguments().any(|arg| arg.get_long() == Some(name))
            || command.get_subcommands().any(|command| has_option(command, name))
    }

    #[test]
    fn options_that_can_be_repeated_take_lists() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("env.yml");
        for (text, expected) in [
            ("redact: region", &["region"][..]),
            ("redact: [region, 7]", &["region", "7"]),
            ("boot_timeout: 5m", &["5m"]),
            ("agent_timeout: 5", &["5"]),
        ] {
            std::fs::write(&path, text).unwrap();
            let file = read(&OpenedEnvFile::named(&path).unwrap()).unwrap();
            assert_eq!(file.content.options[0].values, expected, "{text}");
        }
        for text in ["redact: [[region]]", "boot_timeout: [5m]"] {
            std::fs::write(&path, text).unwrap();
            read(&OpenedEnvFile::named(&path).unwrap()).unwrap_err();
        }
    }

    #[test]
    fn every_key_is_documented_and_every_option_exists() {
        let page = include_str!("../../../docs/env-file.md");
        let grammar = crate::cli::grammar();
        for (key, ..) in ENV_FILE_OPTIONS {
            assert!(has_option(&grammar, &option_name(key)), "no command has an option for {key}");
        }
        for key in MANIFEST_KEYS.into_iter().chain(ENV_FILE_OPTIONS.map(|(key, ..)| key)) {
            assert!(page.contains(&format!("`{key}`")), "docs/env-file.md does not name {key}");
        }
    }
}
