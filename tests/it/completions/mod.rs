//! Compares the completions in the repository with those that the program prints. The module `shells` types
//! into real shells.

mod shells;

use std::path::Path;

use crate::support::{World, is_updating};

const FILES: [(&str, &str); 5] = [
    ("bash", "monopile.bash"),
    ("zsh", "_monopile"),
    ("fish", "monopile.fish"),
    ("powershell", "_monopile.ps1"),
    ("elvish", "monopile.elv"),
];

fn checked_in(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("completions").join(file)
}

/// `MONOPILE_UPDATE=1 cargo test completions` writes them again.
#[test]
fn completions_are_up_to_date() {
    for (shell, file) in FILES {
        let script = World::new().run(["completion", shell]).success().stdout;
        assert!(script.contains("MONOPILE_COMPLETE"), "{shell}");
        if is_updating() {
            std::fs::write(checked_in(file), &script).unwrap();
        }
        let stored_script = std::fs::read_to_string(checked_in(file)).unwrap_or_default();
        assert!(
            stored_script == script,
            "completions/{file} is stale: run MONOPILE_UPDATE=1 cargo test completions"
        );
    }
}

#[test]
fn no_other_completions_are_checked_in() {
    let directory = checked_in("");
    let mut files: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let mut expected = FILES.map(|(_, file)| file.to_owned());
    expected.sort();
    assert_eq!(files, expected);
}
