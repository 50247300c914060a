//! Reads any text as an env file and applies it to a command line: it is accepted or rejected. The
//! description of an accepted file, which an operator reads before trusting it, cannot control the terminal.

#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

/// The directory of the env file, with a manifest that the file can name.
static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let manifest = "name: x\ncloud_provider: {cpi: {path: ((cpi))}, mbus: https://u:p@h:1}\n";
    fs::write(directory.path().join("m.yml"), manifest).unwrap();
    directory
});

const COMMANDS: [&str; 3] = ["create-env", "status", "interpolate"];

fuzz_target!(|input: (&str, u8)| {
    let (text, command) = input;
    let path = DIRECTORY.path().join(".monopile.yml");
    fs::write(&path, text).unwrap();
    let command = COMMANDS[usize::from(command) % COMMANDS.len()];
    match monopile::cli::describe_env_file(&path, command) {
        Ok(description) => {
            assert!(description.starts_with("it decides "), "{description:?}");
            assert!(
                !description.chars().any(|character| character.is_control() && character != '\n'),
                "{description:?}"
            );
        }
        Err(error) => drop(error.chain()),
    }
});
