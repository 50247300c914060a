//! Every hint of an error leads to a section of docs/troubleshooting.md, and every section has a hint.
//! `hints.txt` lists them, below the section that explains them.
//! `MONOPILE_UPDATE=1 cargo test --test it hints` writes the list again. New hints are put below `## ?` at
//! its end; move them below a section.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use regex::Regex;

use crate::layers::rust_files;
use crate::support::is_updating;

/// A string literal, with its position in the code.
struct Literal {
    range: Range<usize>,
    text: String,
}

/// Returns the string literals of Rust code, without comments and without the tests at its end.
fn literals(code: &str) -> Vec<Literal> {
    let token = Regex::new(
        r##"(?s)//[^\n]*|br?#*"|r(?P<marks>#*)"|"(?P<text>(?:[^"\\]|\\.)*)"|'(?:[^'\\]|\\[^'\n]*.)'"##,
    )
    .unwrap();
    let continuation = Regex::new(r"\\\n\s*").unwrap();
    let (mut literals, mut position) = (Vec::new(), 0);
    while let Some(next) = token.captures_at(code, position) {
        let token_match = next.get(0).unwrap();
        position = token_match.end();
        if let Some(text) = next.name("text") {
            let text = continuation.replace_all(text.as_str(), "").replace("\\\"", "\"");
            literals.push(Literal { range: token_match.range(), text });
        } else if token_match.as_str().ends_with('"') && !token_match.as_str().starts_with("//") {
            // A raw string ends with as many number signs as it began with.
            let end = format!("\"{}", "#".repeat(token_match.as_str().matches('#').count()));
            position = code[position..].find(&end).map_or(code.len(), |length| position + length + end.len());
            let text = code[token_match.end()..position - end.len()].to_owned();
            literals.push(Literal { range: token_match.start()..position, text });
        }
    }
    literals
}

/// Returns the code without the tests at its end.
fn without_tests(code: &str) -> &str {
    code.split("#[cfg(test)]\nmod ").next().unwrap()
}

/// Returns the hints in the calls of `with_hint` and `with_rerun_hint`: their texts, or the code that creates
/// them.
fn hints(code: &str) -> Vec<String> {
    let call = Regex::new(r"\.with_(rerun_)?hint\(").unwrap();
    let code = without_tests(code);
    let literals = literals(code);
    let mut hints = Vec::new();
    for call_match in call.find_iter(code) {
        let start = call_match.start();
        let is_comment = code[..start].rsplit('\n').next().unwrap().trim_start().starts_with("//");
        if is_comment || literals.iter().any(|literal| literal.range.contains(&start)) {
            continue;
        }
        let (mut position, mut depth, mut texts) = (call_match.end(), 1, Vec::new());
        let argument = position;
        while depth > 0 {
            if let Some(literal) = literals.iter().find(|literal| literal.range.start == position) {
                texts.push(literal.text.as_str());
                position = literal.range.end;
                continue;
            }
            match code.as_bytes()[position] {
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ => {}
            }
            position += 1;
        }
        let words = || code[argument..position - 1].split_whitespace().collect::<Vec<_>>().join(" ");
        hints.push(if texts.is_empty() { format!("`{}`", words()) } else { texts.join(" ") });
    }
    hints
}

/// Returns the anchors of the sections of a page.
fn sections(page: &str) -> BTreeSet<String> {
    let mut in_block = false;
    let mut anchors = BTreeSet::new();
    for line in page.lines() {
        in_block ^= line.starts_with("```");
        let heading = line.strip_prefix("### ").or_else(|| line.strip_prefix("## "));
        anchors.extend(heading.filter(|_| !in_block).map(|title| title.to_lowercase().replace(' ', "-")));
    }
    anchors
}

/// The section of hints that have not been put into a section yet.
const NO_SECTION: &str = "?";

/// Parses the list. Returns the section of each hint.
fn parse_list(text: &str) -> BTreeMap<String, String> {
    let mut section = NO_SECTION;
    let mut hint_sections = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("## ") {
            Some(title) => section = title,
            None => drop(hint_sections.insert(line.to_owned(), section.to_owned())),
        }
    }
    hint_sections
}

/// Formats the list, with the sections in the order of the page.
fn format_list(hints: &BTreeMap<String, String>, page: &str) -> String {
    let place = |section: &str| page.to_lowercase().replace(' ', "-").find(&format!("##-{section}\n"));
    let mut by_section: Vec<(usize, &str, &str)> = hints
        .iter()
        .map(|(hint, section)| (place(section).unwrap_or(usize::MAX), section.as_str(), hint.as_str()))
        .collect();
    by_section.sort_unstable();
    let (mut text, mut last) = (String::new(), "");
    for (_, section, hint) in by_section {
        if section != last {
            let gap = if text.is_empty() { "" } else { "\n" };
            text += &format!("{gap}## {section}\n\n");
            last = section;
        }
        text += &format!("{hint}\n");
    }
    text
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap()
}

#[test]
fn every_hint_has_a_section_and_every_section_a_hint() {
    let mut current_hints = BTreeSet::new();
    for (path, code) in rust_files(&root().join("src"), &|path| !path.to_string_lossy().contains("tests")) {
        current_hints.extend(hints(&code).into_iter().map(|hint| format!("src/{}: {hint}", path.display())));
    }
    let list = root().join("tests/it/hints.txt");
    let page = page();
    let mut hint_sections = parse_list(&std::fs::read_to_string(&list).unwrap_or_default());
    if is_updating() {
        let section_of_moved_hint = |hint: &String| {
            let text = hint.split_once(": ").unwrap().1;
            hint_sections.iter().find(|(other, _)| other.ends_with(text)).map(|(_, section)| section.clone())
        };
        let section =
            |hint: &String| hint_sections.get(hint).cloned().or_else(|| section_of_moved_hint(hint));
        let current_sections = current_hints
            .iter()
            .map(|hint| (hint.clone(), section(hint).unwrap_or_else(|| NO_SECTION.into())))
            .collect();
        std::fs::write(&list, format_list(&current_sections, &page)).unwrap();
        hint_sections = current_sections;
    }
    let sections = sections(&page);
    let mut problems = Vec::new();
    problems.extend(
        current_hints
            .iter()
            .filter(|hint| !hint_sections.contains_key(*hint))
            .map(|hint| format!("not listed: {hint}")),
    );
    for (hint, section) in &hint_sections {
        if !current_hints.contains(hint) {
            problems.push(format!("no error has it any more: {hint}"));
        }
        if !sections.contains(section) {
            problems.push(format!("the page has no section '{section}': {hint}"));
        }
    }
    let used_sections: BTreeSet<&String> = hint_sections.values().collect();
    problems.extend(
        sections
            .iter()
            .filter(|one| !used_sections.contains(one))
            .map(|one| format!("no hint leads to '{one}'")),
    );
    assert!(problems.is_empty(), "{}\nsee the head of tests/it/hints.rs", problems.join("\n"));
}

/// Checks that the errors and hints that the page shows are in the code. Values may differ.
#[test]
fn page_quotes_existing_messages() {
    let mut patterns = Vec::new();
    // The session completes the last two.
    let value = Regex::new(r"\{[^{}]*\}|\bSAME-COMMAND\b|\bMANIFEST\b").unwrap();
    for (path, code) in rust_files(&root().join("src"), &|path| !path.to_string_lossy().contains("tests")) {
        // Ruby defines the messages of templates.
        if path.starts_with("erb") {
            continue;
        }
        for literal in literals(without_tests(&code)) {
            let parts: Vec<&str> = value.split(&literal.text).collect();
            if parts.iter().map(|part| part.len()).sum::<usize>() >= 10 {
                let parts: Vec<String> = parts.iter().map(|part| regex::escape(part)).collect();
                // An error that lists several problems ends with a colon.
                patterns.push(format!("^{}( failed|:)?$", parts.join(".*")));
            }
        }
    }
    let program = regex::RegexSetBuilder::new(&patterns).size_limit(1 << 26).build().unwrap();
    let message_line = Regex::new(r"^ *(?:error|cause|hint|warning): (.*)$").unwrap();
    let page = page();
    let messages: Vec<&str> =
        page.lines().filter_map(|line| Some(message_line.captures(line)?.get(1)?.as_str())).collect();
    assert!(messages.len() > 30, "{} messages", messages.len());
    let is_of_the_system =
        |message: &str| ["No space left on device", "Permission denied"].contains(&message);
    let missing =
        messages.into_iter().filter(|message| !is_of_the_system(message) && !program.is_match(message));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&str>::new(), "the program has no such messages");
}

/// Returns the rows of the table of messages: a pattern for the message, and the anchors of its sections.
fn message_rows(page: &str) -> Vec<(Regex, Vec<String>)> {
    let (_, table) = page.split_once("| message | section |\n|---|---|\n").unwrap();
    let code = Regex::new("``(.+?)``|`([^`]+)`").unwrap();
    let anchor = Regex::new(r"\(#([^)]+)\)").unwrap();
    // Capital letters and dots stand for values.
    let value = Regex::new("[A-Z]{3,}|…").unwrap();
    let mut rows = Vec::new();
    for row in table.lines().take_while(|line| line.starts_with('|')) {
        let (message, sections) = row.rsplit_once(" | ").unwrap();
        let sections: Vec<String> =
            anchor.captures_iter(sections).map(|captures| captures[1].to_owned()).collect();
        for captures in code.captures_iter(message) {
            let text = captures.get(1).or(captures.get(2)).unwrap().as_str().trim();
            let parts: Vec<String> = value.split(text).map(regex::escape).collect();
            rows.push((Regex::new(&parts.join(".+")).unwrap(), sections.clone()));
        }
    }
    rows
}

/// Checks that the table leads from each error that a section shows to that section.
#[test]
fn table_of_messages_leads_to_every_section() {
    let page = page();
    let rows = message_rows(&page);
    let (mut section, mut in_block, mut errors) = (String::new(), false, 0);
    for line in page.lines() {
        in_block ^= line.starts_with("```");
        if let Some(title) = line.strip_prefix("## ").or(line.strip_prefix("### ")).filter(|_| !in_block) {
            section = title.to_lowercase().replace(' ', "-");
        }
        let Some(error) = line.strip_prefix("error: ").filter(|_| in_block) else { continue };
        let leads_here = |(message, sections): &(Regex, Vec<String>)| {
            message.is_match(error) && sections.contains(&section)
        };
        assert!(rows.iter().any(leads_here), "the table does not lead from '{error}' to '{section}'");
        errors += 1;
    }
    assert!(errors > 20, "{errors}");
}

/// A terminal breaks lines between words, but not in backticks.
#[test]
fn commands_in_hints_are_in_backticks() {
    let grammar = monopile::cli::grammar();
    let commands: Vec<&str> = grammar.get_subcommands().map(clap::Command::get_name).collect();
    let commands = commands.join("|");
    let program = "age-keygen|chmod|cp|curl|kill|mkdir|mv|openssl|rm|ssh|ssh-keygen|sudo";
    // A command of monopile, and of other programs one after a colon or with options.
    let command = format!(
        r"\bmonopile (?:{commands})\b|(?:^|: |with |run |or )(?:{program}) \S|\b(?:{program}|ruby) -"
    );
    let command = Regex::new(&command).unwrap();
    let backtick_text = Regex::new("`[^`]*`").unwrap();
    let mut problems = Vec::new();
    for (path, code) in rust_files(&root().join("src"), &|path| !path.to_string_lossy().contains("tests")) {
        let lacks_backticks = |hint: &String| command.is_match(&backtick_text.replace_all(hint, "``"));
        let unquoted_hints = hints(&code).into_iter().filter(lacks_backticks);
        problems.extend(unquoted_hints.map(|hint| format!("src/{}: {hint}", path.display())));
    }
    assert_eq!(problems, Vec::<String>::new(), "put the commands in backticks");
}

#[test]
fn finds_hints_and_sections() {
    let code = r#"
        // .with_hint("a comment")
        error.with_hint("one \
                         \"two\"").with_hint(format!("{a}: {}", f(')')));
        error.with_hint(
            RUN_AGAIN)
#[cfg(test)]
mod tests { x.with_hint("test") }"#;
    assert_eq!(hints(code), ["one \"two\"", "{a}: {}", "`RUN_AGAIN`"]);
    let literals = literals("let a = r#\"x\"y\"#; let b = '\"'; // \"no\"\nlet c = \"z\";");
    assert_eq!(literals.iter().map(|hint| hint.text.as_str()).collect::<Vec<_>>(), ["x\"y", "z"]);
    let page = "# T\n## The VM is gone\n```sh\n## no\n```\n### Another one\n";
    assert_eq!(sections(page), ["another-one", "the-vm-is-gone"].map(str::to_owned).into());
    let list = "## the-vm-is-gone\n\na: b\n\n## ?\n\nc: d\n";
    assert_eq!(format_list(&parse_list(list), page), list);
}
