//! Runs every command in README.md and the book, and checks that the book is complete.
//!
//! A fenced block marked `sh` runs with `sh -e`. The blocks of a page run one after the other in one
//! directory, which contains `examples`; the program is on the path. A block that cannot run here names what
//! it needs: `` ```sh needs=a cloud ``. A command that runs until it is interrupted is marked `sh
//! until=Ctrl-C`: it is interrupted after its first output and must exit with success. Indented blocks and
//! blocks without a mark are not run, so they may not begin with the program's name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use engine::cpi::{Method, ResultShape};
use regex::Regex;

use crate::support::network::Network;
use crate::support::process::{WaitForEnd, lines, receive};
use crate::support::{MONOPILE, World, is_updating};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns README.md and all pages of the book, in order. The generated ones are among them.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![repository().join("README.md")];
    for entry in std::fs::read_dir(repository().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    pages
}

struct Block {
    line: usize,
    /// The text after the backticks.
    mark: String,
    text: String,
}

/// Returns the fenced blocks of a page, and its lines outside them.
fn blocks(page: &str) -> (Vec<Block>, Vec<(usize, &str)>) {
    let (mut blocks, mut outside, mut open) = (Vec::new(), Vec::new(), None::<Block>);
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => outside.push((index + 1, line)),
            (Some(mark), None) => {
                open = Some(Block { line: index + 1, mark: mark.trim().to_owned(), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
        }
    }
    assert!(open.is_none(), "a block is not closed");
    (blocks, outside)
}

fn copy(source: &Path, target: &Path) {
    for entry in walkdir::WalkDir::new(source).into_iter().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy();
        let copy_path = target.join(entry.path().strip_prefix(source).unwrap());
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(copy_path).unwrap();
        } else if !name.contains("-state.json") && !name.ends_with("-vars.yml") {
            std::fs::copy(entry.path(), copy_path).unwrap();
        }
    }
}

fn run(world: &World, command: Command) -> (i32, String) {
    let run = world.finish(command);
    (run.code, format!("{}\n{}", run.stdout, run.stderr))
}

/// Interrupts a command like Ctrl-C as soon as it has printed a line.
fn run_until_interrupted(mut command: Command) -> (i32, String) {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let output = lines(child.stdout.take().unwrap());
    let mut text = receive("the command prints a line", &output).unwrap_or_default();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    while let Some(line) = receive("the command prints its last line", &output) {
        text.push_str(&line);
    }
    let code = child.end().code().unwrap_or(-1);
    (if text.is_empty() { -1 } else { code }, text)
}

#[test]
fn every_documented_command_runs() {
    let mut block_count = 0;
    // The generated pages have usage lines, not commands.
    let is_generated = |path: &PathBuf| path.to_string_lossy().contains("docs/reference");
    for path in pages().into_iter().filter(|path| !is_generated(path)) {
        let page = std::fs::read_to_string(&path).unwrap();
        let (blocks, outside) = blocks(&page);
        for (line, text) in outside {
            let is_command = text.starts_with("    ") && text.trim_start().starts_with("monopile ");
            assert!(!is_command, "{}:{line}: a command in no block marked sh is not run", path.display());
        }
        let world = World::new();
        let bin = world.root().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(MONOPILE, bin.join("monopile")).unwrap();
        copy(&repository().join("examples"), &world.path("examples"));
        let network = Network::new();
        for block in blocks {
            let location = format!("{}:{}", path.display(), block.line);
            let Some(rest) = block.mark.strip_prefix("sh") else {
                let text = block.text.trim_start();
                assert!(
                    !text.starts_with("monopile ") || text.starts_with("monopile -> "),
                    "{location}: this block is not run"
                );
                continue;
            };
            if let Some(needs) = rest.trim().strip_prefix("needs=") {
                assert!(needs.len() > 3, "{location}: needs what?");
                continue;
            }
            let mut command = network.command("sh");
            let (text, endless) = match rest.trim() {
                "" => (block.text.clone(), false),
                "until=Ctrl-C" => (format!("exec {}", block.text), true),
                _ => panic!("{location}: a mark is `sh`, `sh until=Ctrl-C` or `sh needs=…`"),
            };
            world.enter(&mut command).args(["-ec", &text]);
            command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
            let (code, output) = if endless { run_until_interrupted(command) } else { run(&world, command) };
            if code != 0 {
                // The rest of the page would have deleted the environment.
                for manifest in ["examples/hello/manifest.yml", "hello/manifest.yml"] {
                    let mut command = network.command(MONOPILE);
                    command.args(["delete-env", manifest, "--no-env-file"]);
                    command.args(["--skip-drain", "--allow-missing"]);
                    world.enter(&mut command);
                    world.finish(command);
                }
            }
            assert_eq!(code, 0, "{location}:\n{}\n{output}", block.text);
            block_count += 1;
        }
        assert_eq!(world.leftovers(), Vec::<String>::new(), "{}", path.display());
    }
    assert!(block_count > 5, "only {block_count} blocks were run");
}

/// Checks that README has the two commands of a fresh machine: the main job and the tests.
#[test]
fn readme_has_the_commands_of_a_fresh_machine() {
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let (command_blocks, _) = blocks(&readme);
    let commands: Vec<&str> = command_blocks
        .iter()
        .filter(|block| block.mark.starts_with("sh needs=Rust"))
        .filter_map(|block| block.text.lines().next())
        .collect();
    assert_eq!(
        commands,
        ["cargo run --release -- create-env examples/hello/manifest.yml", "tests/run"],
        "tests/fresh runs the first line of each block that needs Rust"
    );
}

#[test]
fn book_lists_every_page_and_no_link_is_broken() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let docs = repository().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed_pages: BTreeSet<String> =
        link.captures_iter(&summary).map(|captures| captures[1].to_owned()).collect();
    let existing_pages: BTreeSet<String> = pages()
        .iter()
        .filter(|page| page.parent() == Some(docs.as_path()) && !page.ends_with("SUMMARY.md"))
        .map(|page| page.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(listed_pages, existing_pages, "SUMMARY.md does not list the pages of docs/");
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for captures in link.captures_iter(&text) {
            let target = captures[1].split('#').next().unwrap();
            let is_here = !target.is_empty() && !target.contains("://");
            let target = page.parent().unwrap().join(target);
            assert!(!is_here || target.exists(), "{}: {} does not exist", page.display(), &captures[1]);
        }
    }
}

#[test]
fn finds_command_blocks_that_are_not_run() {
    let page = "a\n```sh\nmonopile x\n```\n\n    monopile y\n```sh needs=a cloud\nz\n```\n";
    let (command_blocks, outside) = blocks(page);
    let marks: Vec<(&str, usize)> =
        command_blocks.iter().map(|block| (block.mark.as_str(), block.line)).collect();
    assert_eq!(marks, [("sh", 2), ("sh needs=a cloud", 7)]);
    assert!(outside.contains(&(6, "    monopile y")));
}

/// Checks the table of bounds in docs/security.md against the constants that the program uses.
#[test]
fn table_of_bounds_matches_the_program() {
    let archive = artifact::archive::UnpackLimits::default();
    let template = erb::native::Limits::default();
    let size = |bytes: u64| match bytes {
        0..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    };
    // Digits in groups of three.
    let count = |number: u64| {
        let digits = number.to_string();
        let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group));
        groups.collect::<Vec<_>>().join(",")
    };
    let expected = [
        ("manifest, ops file, variables, vars store, state, plan", size(base::files::input::MAX_FILE_BYTES)),
        ("output of a vars program", size(manifest::vars_program::MAX_OUTPUT_BYTES)),
        ("YAML: depth of collections", yaml::MAX_DEPTH.to_string()),
        ("archive: unpacked size", size(archive.bytes)),
        ("archive: entries", count(archive.entries)),
        ("archive: unpacked bytes per byte", archive.ratio.to_string()),
        ("`stemcell.MF`, `release.MF`, `job.MF`: size", size(artifact::limits::MAX_DOCUMENT_BYTES)),
        ("`stemcell.MF`, `release.MF`, `job.MF`: nodes", count(artifact::limits::MAX_DOCUMENT_NODES as u64)),
        ("answer of a release feed", size(artifact::limits::MAX_FEED_BYTES)),
        ("answer of a CPI", size(engine::cpi::MAX_ANSWER_BYTES)),
        ("answer of an agent", size(engine::agent_client::MAX_ANSWER_BYTES)),
        ("answer of Ironic", size(ironic::MAX_ANSWER_BYTES)),
        ("logs of a VM: archive that the agent sends", size(engine::inspection::MAX_ARCHIVE_BYTES)),
        ("job template: size of all values", size(template.memory)),
        ("job template: steps", count(template.steps)),
        ("job template: time", format!("{} s", template.timeout.as_secs())),
    ];
    let page = std::fs::read_to_string(repository().join("docs/security.md")).unwrap();
    let (_, table) = page.split_once("<!-- bounds -->\n").unwrap();
    let (table, _) = table.split_once("<!-- /bounds -->").unwrap();
    let cell = |row: &str, number: usize| row.split('|').nth(number).unwrap().trim().to_owned();
    let rows: Vec<_> = table.lines().skip(2).map(|row| (cell(row, 1), cell(row, 2))).collect();
    assert_eq!(rows, expected.map(|(input, bound)| (input.to_owned(), bound)));
}

/// Checks the table of CPI methods in docs/cpi-authors.md against the facts that the program uses.
#[test]
fn table_of_methods_matches_the_program() {
    let result = |shape| match shape {
        ResultShape::Nothing | ResultShape::Anything => "none",
        ResultShape::Info => "an object with `api_version` and `stemcell_formats`",
        ResultShape::Cid(_) => "a CID",
        ResultShape::DiskCidOrNothing => "the CID of a new disk, or null",
        ResultShape::CidAndNetworks => "`[CID, networks]`",
        ResultShape::Hint => "a disk hint: text or an object",
        ResultShape::Boolean => "true or false",
        ResultShape::DiskCids => "a list of CIDs",
        ResultShape::Hash => "an object",
        ResultShape::Network => "`[ID, addresses, cloud properties]`",
    };
    let row = |method: Method| {
        let facts = method.facts();
        format!("| `{}` | {} | {} |\n", method.usage(3), result(facts.result_since_v2), facts.callers)
    };
    let rows = Method::all().map(row).collect::<String>();
    let table = format!("| method and arguments | result | called by |\n|---|---|---|\n{rows}");
    let path = repository().join("docs/cpi-authors.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (text_before, rest) = page.split_once("<!-- methods -->\n").unwrap();
    let (old_table, text_after) = rest.split_once("<!-- /methods -->").unwrap();
    if is_updating() && old_table != table {
        let page = format!("{text_before}<!-- methods -->\n{table}<!-- /methods -->{text_after}");
        return std::fs::write(&path, page).unwrap();
    }
    assert_eq!(old_table, table, "run MONOPILE_UPDATE=1 cargo test --test it table_of_methods");
}

/// Checks that docs/manifest.md has each key of the manifest that the program reads or knows.
#[test]
fn page_of_the_manifest_has_all_keys() {
    let directory = repository().join("src/manifest");
    let code = |name: &str| {
        let code = std::fs::read_to_string(directory.join(name)).unwrap();
        code.split("\n#[cfg(test)]").next().unwrap().to_owned()
    };
    let unknown_keys_code = code("unknown_keys.rs");
    let lists = unknown_keys_code.split("\npub fn").next().unwrap().to_owned();
    let options = code("vars_store/certificate_options.rs");
    let (_, options) = options.split_once("const OPTION_NAMES").unwrap();
    let literal = Regex::new(r#""([a-z_0-9]+)""#).unwrap();
    let readers = "get|text|texts|number|list|object|blank|value|length";
    let read = Regex::new(&format!(r#"(?:{readers})\((?:\w+, )?"([a-z_0-9]+)""#)).unwrap();
    let mut keys: BTreeSet<String> = BTreeSet::new();
    let mut add = |pattern: &Regex, code: &str| {
        keys.extend(pattern.captures_iter(code).map(|captures| captures[1].to_owned()));
    };
    add(&literal, &lists);
    add(&literal, options.split("];").next().unwrap());
    for entry in std::fs::read_dir(directory.join("deployment")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // That file works on what was read.
        if name != "mod.rs" {
            add(&read, &code(&format!("deployment/{name}")));
        }
    }
    for name in ["userland.rs", "variables/definitions.rs", "vars_store/spec.rs"] {
        add(&read, &code(name));
    }
    assert!(keys.len() > 80 && keys.contains("length") && keys.contains("key_usage"), "{keys:?}");
    let page = std::fs::read_to_string(repository().join("docs/manifest.md")).unwrap();
    let words: BTreeSet<&str> =
        page.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect();
    let missing: Vec<&String> = keys.iter().filter(|key| !words.contains(key.as_str())).collect();
    assert!(missing.is_empty(), "docs/manifest.md lacks {missing:?}");
}

/// Checks the table of limits in docs/operating.md against the constants that the program uses.
#[test]
fn table_of_limits_matches_the_program() {
    use artifact::{shared_cache, timeouts};
    use engine::agent_client::AGENT_TIMEOUTS;
    use engine::{registry_server, state};

    let format_limit = |limit: Option<std::time::Duration>| match limit.map(|limit| limit.as_secs()) {
        None => "none".to_owned(),
        Some(seconds @ 0..=119) => format!("{seconds} s"),
        Some(seconds) => format!("{} min", seconds / 60),
    };
    let expected = [
        ("agent: connection (name, TCP, TLS)", Some(AGENT_TIMEOUTS.connect)),
        ("agent: message, from the connection to the end of the answer", Some(AGENT_TIMEOUTS.message)),
        ("agent: task", None),
        ("agent: upload or download of a blob in which no byte moves", Some(AGENT_TIMEOUTS.stall)),
        ("agent: answer after an upload, while the agent computes the digest", Some(AGENT_TIMEOUTS.digest)),
        ("agent: cleanup message after a signal", Some(AGENT_TIMEOUTS.cleanup)),
        ("agent: check for an untracked VM", Some(AGENT_TIMEOUTS.search)),
        ("download: connection to a server, a proxy or from a jumpbox", Some(timeouts::CONNECT_TIMEOUT)),
        ("download: everything before the request", Some(timeouts::SETUP_TIMEOUT)),
        ("download: answer up to the end of its headers", Some(timeouts::HEADERS_TIMEOUT)),
        ("download: transfer in which no byte moves", Some(timeouts::STALL_TIMEOUT)),
        ("release feed of `version --check`: connection and answer", Some(timeouts::FEED_TIMEOUT)),
        ("bucket: request", Some(state::BUCKET_REQUEST_TIMEOUT)),
        ("bucket: sending a request again", Some(state::BUCKET_RETRY_TIMEOUT)),
        ("shared cache: reading or writing a part of a file", Some(state::SHARED_CACHE_PART_TIMEOUT)),
        ("shared cache: all searches for packages of a run", Some(shared_cache::SEARCH_TIMEOUT)),
        ("shared cache: uploads at the end of a run", Some(shared_cache::END_TIMEOUT)),
        ("Ironic: connection, and sending a request", Some(ironic::CONNECT_TIMEOUT)),
        ("Ironic: headers of an answer, and its body", Some(ironic::ANSWER_TIMEOUT)),
        ("SSH tunnel: name, TCP, handshake and login, each", Some(net::ssh::STEP_TIMEOUT)),
        ("SSH tunnel: login that the VM refuses", Some(registry_server::LOGIN_RETRY_TIMEOUT)),
        ("SSH tunnel: forwarding that the VM refuses", Some(registry_server::FORWARDING_RETRY_TIMEOUT)),
        ("vars program: from its start to its end", Some(manifest::vars_program::PROGRAM_TIMEOUT)),
        ("registry: headers of a request", Some(registry_server::HEADER_TIMEOUT)),
        ("registry: body of a request", Some(registry_server::BODY_TIMEOUT)),
    ];
    let expected = expected.map(|(wait, timeout)| (wait.to_owned(), format_limit(timeout)));

    let page = std::fs::read_to_string(repository().join("docs/operating.md")).unwrap();
    let (_, table) = page.split_once("<!-- limits -->\n").unwrap();
    let (table, _) = table.split_once("<!-- /limits -->").unwrap();
    let cell = |row: &str, number: usize| row.split('|').nth(number).unwrap().trim().to_owned();
    let rows: Vec<_> = table.lines().skip(2).map(|row| (cell(row, 1), cell(row, 2))).collect();
    assert_eq!(rows, expected);

    // These are the defaults where a VM boots, and where one exists.
    let reference = std::fs::read_to_string(repository().join("docs/reference.md")).unwrap();
    for line in reference.lines() {
        let boots = line.starts_with("| `--boot-timeout ");
        if !boots && !line.starts_with("| `--agent-timeout ") {
            continue;
        }
        let default = line.split_once("[default: ").unwrap().1.split(']').next().unwrap();
        assert!(if boots { default == "10m" } else { ["10s", "3s"].contains(&default) }, "{line}");
    }
}

/// Checks that the messages in docs/troubleshooting.md are in the order that the page describes:
/// alphabetical, without values, names, and an article at the beginning.
#[test]
fn messages_are_in_alphabetical_order() {
    let page = std::fs::read_to_string(repository().join("docs/troubleshooting.md")).unwrap();
    let (_, table) = page.split_once("| message | section |\n|---|---|\n").unwrap();
    let value = Regex::new("'[^']*'|`[A-Z]+`|\\b[A-BD-UW-Z][A-Z]*\\b|[^a-zA-Z ]").unwrap();
    let key = |message: &str| {
        let text = value.replace_all(message, "").to_lowercase();
        let words: Vec<&str> = text.split_whitespace().collect();
        let article = usize::from(["the", "a", "an"].contains(words.first().unwrap()));
        words[article..].join(" ")
    };
    let messages = table.lines().map_while(|row| row.strip_prefix("| `"));
    let keys: Vec<String> = messages.map(|row| key(row.split('|').next().unwrap())).collect();
    assert!(keys.len() > 50 && keys.is_sorted(), "{keys:#?}");
}

/// Checks the exit codes of `status` in docs/operating.md against its help.
#[test]
fn exit_codes_of_status_match_its_help() {
    let grammar = monopile::cli::grammar();
    let notes = grammar.find_subcommand("status").unwrap().get::<monopile::cli::HelpNotes>().unwrap();
    let page = std::fs::read_to_string(repository().join("docs/operating.md")).unwrap();
    let (_, rows) = page.split_once("| exit code | meaning |\n|---|---|\n").unwrap();
    let rows: Vec<&str> = rows.lines().take_while(|row| row.starts_with('|')).collect();
    let expected: Vec<String> =
        notes.exit_codes.iter().map(|(code, meaning)| format!("| {code} | {meaning} |")).collect();
    assert_eq!(rows, expected);
}
