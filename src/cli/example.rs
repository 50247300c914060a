//! `monopile example`: writes an example that ships inside the binary.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueHint};
use serde::Serialize;

use super::finish::CommandResult;
use super::table::Table;
use super::{paths, session::Session};
use base::text::shell_word;
use base::{Error, Result};

#[derive(Debug, Clone, Args)]
pub(super) struct ExampleArgs {
    /// Example to write [default: list all examples]
    #[arg(value_name = "NAME",
          value_parser = PossibleValuesParser::new(EXAMPLES.map(possible_value)))]
    name: Option<String>,

    /// Write the directory of the example into this directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    directory: PathBuf,
}

/// A folder of `examples/`.
#[derive(Debug, Serialize)]
struct Example {
    name: &'static str,
    description: &'static str,
    /// Another example that this one refers to by `../NAME`.
    #[serde(skip)]
    uses: Option<&'static str>,
    /// The next action after the files are written.
    #[serde(skip)]
    next: &'static str,
    /// Paths below the folder, and contents.
    #[serde(skip)]
    files: &'static [(&'static str, &'static [u8])],
}

macro_rules! files {
    ($name:literal: $($path:literal),+ $(,)?) => {
        &[$((
            $path,
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/", $name, "/", $path)) as &[u8],
        )),+]
    };
}

const EXAMPLES: [Example; 8] = [
    Example {
        name: "hello",
        description: "An HTTP service with a counter on a persistent disk, on this machine",
        uses: None,
        next: "`monopile create-env hello/manifest.yml`, then `curl http://127.0.10.2:8580/`",
        files: files!("hello":
            "elsewhere.yml",
            "manifest.yml",
            "release/config/blobs.yml",
            "release/config/final.yml",
            "release/jobs/hello/monit",
            "release/jobs/hello/spec",
            "release/jobs/hello/templates/ctl.erb",
            "release/jobs/hello/templates/drain.erb",
            "release/jobs/hello/templates/hello.conf.erb",
            "release/jobs/hello/templates/post-start.erb",
            "release/jobs/hello/templates/post-stop.erb",
            "release/jobs/hello/templates/pre-start.erb",
            "release/jobs/hello/templates/pre-stop.erb",
            "release/packages/counter/packaging",
            "release/packages/counter/spec",
            "release/packages/greeting/packaging",
            "release/packages/greeting/spec",
            "release/src/counter/ask",
            "release/src/counter/counter",
            "release/src/greeting/greeting.txt",
            "stemcell/image/etc/monopile-release",
            "stemcell/stemcell.MF",
        ),
    },
    Example {
        name: "qemu",
        description: "The same service on a VM of this machine, under QEMU",
        uses: Some("hello"),
        next: "`qemu/make-stemcell debian.tgz`, then `monopile create-env qemu/manifest.yml -v \
            stemcell=file://$PWD/debian.tgz`",
        files: files!("qemu": "loopback.yml", "make-stemcell", "manifest.yml"),
    },
    Example {
        name: "two-clouds",
        description: "The same service in one of two clouds, chosen by availability zone",
        uses: Some("hello"),
        next: "`monopile create-env two-clouds/manifest.yml --cpi-config two-clouds/cpis.yml \
            -v clouds=\"$PWD/clouds\" -v az=north`",
        files: files!("two-clouds": "cpis.yml", "manifest.yml"),
    },
    Example {
        name: "director-manifest",
        description: "The same service as a manifest for a director, with its cloud config",
        uses: Some("hello"),
        next: "`monopile create-env director-manifest/manifest.yml --cloud-config \
            director-manifest/cloud-config.yml`",
        files: files!("director-manifest": "cloud-config.yml", "manifest.yml"),
    },
    Example {
        name: "director",
        description: "A BOSH director on AWS, with an env file that names versions, site and vars store",
        uses: None,
        next: "put your values into director/site.yml and director/versions.yml, export \
            AWS_access_key_id and AWS_secret_access_key, then: `cd director && monopile trust && \
            monopile plan`",
        files: files!("director": ".monopile.yml", "director.yml", "site.yml", "tunnel.yml", "versions.yml"),
    },
    Example {
        name: "bare-metal",
        description: "A jumpbox on bare metal, through a standalone Ironic",
        uses: None,
        next: "put versions and digests into bare-metal/versions.yml, then use the command at the head of \
            bare-metal/jumpbox.yml; `monopile help ironic` explains it",
        files: files!("bare-metal": "jumpbox.yml", "versions.yml"),
    },
    Example {
        name: "pipelines",
        description: "Pipelines for Concourse, GitHub Actions and GitLab that keep the state safe",
        uses: None,
        next: "read pipelines/concourse.yml",
        files: files!("pipelines": "concourse.yml", "github-actions.yml", "gitlab-ci.yml"),
    },
    Example {
        name: "cpi",
        description: "A small CPI in Python",
        uses: None,
        next: "`monopile cpi info --path cpi/cpi.py`",
        files: files!("cpi": "cpi.py"),
    },
];

impl ExampleArgs {
    /// Returns true if the command prints the list.
    pub(super) fn reserves_stdout(&self) -> bool {
        self.name.is_none()
    }

    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let Some(name) = self.name else { return list(session) };
        let directory = paths::absolute(&paths::expand(&self.directory, paths::home().as_deref()))?;
        let find = |name: &str| EXAMPLES.iter().find(|example| example.name == name);
        let Some(example) = find(&name) else {
            return Err(Error::invalid(format!("there is no example '{name}'"))
                .with_hint("list the examples: `monopile example`"));
        };
        let mut has_written = false;
        for example in example.uses.and_then(find).into_iter().chain([example]) {
            has_written |= write(example, &directory.join(example.name), &name)?;
        }
        let first_step = match self.directory == Path::new(".") {
            true => String::new(),
            false => format!("`cd {}`, then ", shell_word(&self.directory.to_string_lossy())),
        };
        let outcome = match has_written {
            true => format!("Wrote example '{name}'"),
            false => format!("The example '{name}' is there already, unchanged"),
        };
        Ok(CommandResult::Summary(format!("{outcome}\nnext: {first_step}{}", example.next)))
    }
}

/// Describes an example for the help.
fn possible_value(example: Example) -> PossibleValue {
    PossibleValue::new(example.name).help(example.description)
}

fn list(session: &Session) -> Result<CommandResult> {
    if session.globals.prints_json() {
        return CommandResult::json(&EXAMPLES);
    }
    let mut table = Table::new(["Example", "Description"]);
    for example in &EXAMPLES {
        table.add_row([example.name, example.description].map(str::to_owned));
    }
    Ok(CommandResult::Output(table.format(&session.layout()).into_bytes()))
}

/// Writes the files of an example, which `requested_name` is or uses. Returns false if all of them exist.
/// Fails if a file with other content exists, and leaves it unchanged.
fn write(example: &Example, folder: &Path, requested_name: &str) -> Result<bool> {
    let mut has_written = false;
    for (path, content) in example.files {
        let path = folder.join(path);
        let other_directory = format!("`monopile example {requested_name} DIR`");
        let write_error = |error| {
            Error::io(format!("writing '{}'", path.display()), error).with_path_hint(&path, &other_directory)
        };
        if fs::read(&path).is_ok_and(|old_content| old_content == *content) {
            continue;
        }
        let directory = path.parent().unwrap_or(folder);
        fs::create_dir_all(directory).map_err(|error| {
            Error::io(format!("creating directory '{}'", directory.display()), error)
                .with_path_hint(directory, &other_directory)
        })?;
        let mode = if content.starts_with(b"#!") { 0o777 } else { 0o666 };
        if path.exists() {
            let note = match example.name == requested_name {
                true => "it was not overwritten".to_owned(),
                false => {
                    format!("it was not overwritten; '{requested_name}' uses the example '{}'", example.name)
                }
            };
            return Err(Error::invalid(format!("'{}' already exists, with other content", path.display()))
                .with_note(note)
                .with_hint(format!("write the example into another directory: {other_directory}")));
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        let mut file = file.map_err(write_error)?;
        file.write_all(content).map_err(|error| {
            // The next attempt must not take a part of the file for one with other content.
            let _ = fs::remove_file(&path);
            write_error(error)
        })?;
        has_written = true;
    }
    Ok(has_written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_file_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
        let mut file_names = Vec::new();
        for entry in walkdir::WalkDir::new(&root).into_iter().map(std::result::Result::unwrap) {
            let name = entry.file_name().to_string_lossy();
            // A developer may have left an environment there.
            let is_of_environment = name.contains("-state.json") || name.ends_with("-vars.yml");
            if entry.file_type().is_file() && !is_of_environment {
                file_names.push(entry.path().strip_prefix(&root).unwrap().to_owned());
            }
        }
        let mut shipped_files: Vec<PathBuf> = EXAMPLES
            .iter()
            .flat_map(|example| example.files.iter().map(|(path, _)| Path::new(example.name).join(path)))
            .collect();
        file_names.sort();
        shipped_files.sort();
        assert_eq!(shipped_files, file_names);
    }
}
