//! Build script: tells the program which commit and target it was built from, for `--version`, and packs the
//! pages of the book and the relocations of the program.
#![expect(clippy::disallowed_methods, reason = "cargo gives a build script its values in variables")]

use std::path::Path;
use std::process::Command;

fn main() {
    let variable = |name| std::env::var(name).unwrap_or_default();
    println!("cargo::rerun-if-changed=src/build.rs");
    // A development build names no commit, because each new commit would link all tests again.
    let commit = if variable("PROFILE") == "debug" { None } else { commit() };
    let commit = commit.map(|commit| format!("{commit}, ")).unwrap_or_default();
    println!("cargo::rustc-env=MONOPILE_BUILD={commit}{}", variable("TARGET"));
    if let Err(error) = pack_pages(Path::new(&variable("OUT_DIR"))) {
        println!("cargo::error=packing the pages of docs/ failed: {error}");
    }
    // Packs the relative relocations, which otherwise take 24 bytes for each pointer: saves 800 KB, and the
    // program starts faster. With musl, the program relocates itself.
    let loader_can_unpack = match variable("CARGO_CFG_TARGET_ENV").as_str() {
        "musl" => true,
        // The program needs the glibc of this machine or a newer one.
        "gnu" => variable("HOST") == variable("TARGET") && glibc_version() >= Some((2, 36)),
        _ => false,
    };
    if variable("CARGO_CFG_TARGET_OS") == "linux" && loader_can_unpack {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the major and minor version of this machine's glibc.
fn glibc_version() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Compresses the pages that SUMMARY.md lists, each into a file `NAME.deflate`. Pictures become text.
fn pack_pages(target: &Path) -> std::io::Result<()> {
    const COMPRESSION_LEVEL: u8 = 10;
    let docs = Path::new("docs");
    let summary = docs.join("SUMMARY.md");
    println!("cargo::rerun-if-changed={}", summary.display());
    let summary = std::fs::read_to_string(summary)?;
    for name in summary.split("](").skip(1).filter_map(|rest| rest.split_once(".md)")).map(|(name, _)| name) {
        let page = docs.join(name).with_extension("md");
        println!("cargo::rerun-if-changed={}", page.display());
        let text = with_pictures_as_text(&std::fs::read_to_string(page)?, docs)?;
        let compressed_text = miniz_oxide::deflate::compress_to_vec(text.as_bytes(), COMPRESSION_LEVEL);
        std::fs::write(target.join(name).with_extension("deflate"), compressed_text)?;
    }
    Ok(())
}

/// Replaces each picture of a page with a block of its text.
fn with_pictures_as_text(page: &str, docs: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    for line in page.lines() {
        let link = line.strip_prefix("![").and_then(|rest| rest.split_once("]("));
        let Some(target) = link.and_then(|(_, target)| target.strip_suffix(')')) else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let picture = docs.join(target);
        println!("cargo::rerun-if-changed={}", picture.display());
        let picture = std::fs::read_to_string(picture)?;
        text.push_str(&format!("```text\n{}```\n", text_of_picture(&picture)));
    }
    Ok(text)
}

/// Returns the text of a picture of a terminal, as tests/it/pictures.rs draws it.
fn text_of_picture(svg: &str) -> String {
    const MARGIN: f64 = 16.0;
    const COLUMN: f64 = 8.4;
    let mut text = String::new();
    for row in svg.lines().filter(|line| line.starts_with("<text ")) {
        let mut line = String::new();
        for part in row.split("<tspan x=\"").skip(1) {
            let Some((x, rest)) = part.split_once('"') else { continue };
            let Some((_, words)) = rest.split_once('>') else { continue };
            let words = words.split("</tspan>").next().unwrap_or_default();
            let column = x.parse().map_or(0.0, |x: f64| (x - MARGIN) / COLUMN).round() as usize;
            let gap = column.saturating_sub(line.chars().count());
            line.extend(std::iter::repeat_n(' ', gap));
            line.push_str(&words.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the commit of the checkout with its date, or nothing outside a checkout, as in a source archive.
fn commit() -> Option<String> {
    // The sources may be below the checkout of another project.
    if !Path::new(".git").exists() {
        return None;
    }
    let sources = ["src", "completions", "docs", "examples", "Cargo.toml", "Cargo.lock", ".cargo"];
    let head = git(&["log", "-1", "--format=%H %cs", "--no-show-signature"])?;
    let (hash, date) = head.split_once(' ')?;
    let changes = git(&[&["status", "--porcelain", "--untracked-files=no", "--"], &sources[..]].concat())?;
    for source in sources {
        println!("cargo::rerun-if-changed={source}");
    }
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let mark = if changes.is_empty() { "" } else { "+changes" };
    Some(format!("{}{mark} {date}", hash.get(..9)?))
}

/// Returns the output of git, or nothing if it fails or is not installed.
fn git(arguments: &[&str]) -> Option<String> {
    let directory = std::env::current_dir().ok()?;
    let output = Command::new("git")
        .args(["--no-optional-locks", "-c"])
        // Git would refuse the checkout of another user.
        .arg(format!("safe.directory={}", directory.display()))
        .args(arguments)
        // Variables that git sets in its hooks.
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
