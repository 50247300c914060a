//! Words that comments, documents and names avoid, and the length of comments (CONTRIBUTING.md, "Writing").

pub(crate) mod names;

use std::path::Path;

use regex::Regex;

use crate::layers::rust_files;
use crate::width::WIDTH;

/// Returns the numbers of lines on which a doc comment opens with a question word, or with a participle that
/// has no subject.
fn openings(text: &str) -> Vec<usize> {
    let comment = Regex::new(r"^\s*//[/!]").unwrap();
    let questions = "What|Whether|Who|Whom|Whose|How|Where";
    let participles = "(Called|Created|Held|Needed|Started|Used) (at|before|by|for|if|to|until|when|while)";
    let bad_start = Regex::new(&format!(r"^\s*//[/!] ({questions}|{participles})\b")).unwrap();
    let mut line_before = "";
    let mut numbers = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if bad_start.is_match(line) && !comment.is_match(line_before) {
            numbers.push(index + 1);
        }
        line_before = line;
    }
    numbers
}

/// Returns the numbers of lines that speak of unnamed people. Quoted text is exempt.
fn unnamed_people(text: &str) -> Vec<usize> {
    let quotation = Regex::new(r#"`[^`]*`|"[^"]*""#).unwrap();
    let words = Regex::new(r"(?i)\b(nobody|whoever|somebody)\b").unwrap();
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| words.is_match(&quotation.replace_all(line, "")))
        .map(|(index, _)| index + 1)
        .collect()
}

/// The maximum number of sentences in the doc comment of an item, without lists and sections.
const MAX_SENTENCES: usize = 4;

/// Returns the numbers of lines at which a doc comment of an item is too long. Heads of modules (`//!`) may
/// be longer.
fn too_long(text: &str) -> Vec<usize> {
    let quotation = Regex::new("`[^`]*`").unwrap();
    let end = Regex::new(r"[.!?](\s|$)").unwrap();
    let item = Regex::new(r"^(- |\d+\. |\|)").unwrap();
    let (mut numbers, mut comment, mut start) = (Vec::new(), String::new(), 0);
    for (index, line) in text.lines().chain([""]).enumerate() {
        if let Some(line) = line.trim_start().strip_prefix("///") {
            start = if comment.is_empty() { index + 1 } else { start };
            comment += &format!("{}\n", line.trim());
            continue;
        }
        let before_sections = comment.split("\n# ").next().unwrap_or_default();
        let text = before_sections.split("```").step_by(2).collect::<String>();
        let sentences = text.lines().filter(|line| !item.is_match(line)).collect::<Vec<_>>().join(" ");
        if end.find_iter(&quotation.replace_all(&sentences, "x")).count() > MAX_SENTENCES {
            numbers.push(start);
        }
        comment.clear();
    }
    numbers
}

/// Returns the numbers of lines at which a doc comment begins a sentence on a new line without need. There,
/// often the comment of an item that was moved away follows that of another one.
fn early_line_ends(text: &str) -> Vec<usize> {
    let end = Regex::new(r"^\s*/// .*\.$").unwrap();
    let list_item = Regex::new(r"^\s*/// (- |\d+\. |\|)").unwrap();
    let start = Regex::new(r"^\s*/// ([A-Z]\S*)").unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_early = |pair: &[&str]| {
        let first = start.captures(pair[1]).map(|word| word[1].chars().count());
        let has_room = |word: usize| pair[0].chars().count() + 1 + word <= WIDTH;
        end.is_match(pair[0]) && !list_item.is_match(pair[0]) && first.is_some_and(has_room)
    };
    lines.windows(2).enumerate().filter(|(_, pair)| is_early(pair)).map(|(index, _)| index + 2).collect()
}

/// Returns the strings and comments of Rust code, each on its line.
fn texts(code: &str) -> String {
    let strings = Regex::new(r#""([^"\\]|\\.)*"|//.*"#).unwrap();
    let inside = |text: &'_ str| {
        text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text).to_owned()
    };
    let line_texts =
        |line| strings.find_iter(line).map(|string| inside(string.as_str())).collect::<Vec<_>>().join(" ");
    code.lines().map(line_texts).collect::<Vec<_>>().join("\n")
}

#[test]
fn comments_and_documents_avoid_listed_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut problems = Vec::new();
    for folder in ["src", "tests", "benches", "fuzz/fuzz_targets"] {
        for (path, code) in rust_files(&root.join(folder), &|path| !path.ends_with("prose/mod.rs")) {
            let lines = openings(&code).into_iter().chain(unnamed_people(&texts(&code)));
            problems.extend(lines.map(|line| format!("{folder}/{}:{line}", path.display())));
        }
    }
    let documents = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let root_pages = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(|name| root.join(name));
    for path in documents.filter(|path| path.extension().is_some_and(|end| end == "md")).chain(root_pages) {
        let lines = unnamed_people(&std::fs::read_to_string(&path).unwrap());
        problems.extend(lines.into_iter().map(|line| format!("{}:{line}", path.display())));
    }
    assert!(
        problems.is_empty(),
        "say what it is, or who does it (CONTRIBUTING.md):\n{}",
        problems.join("\n")
    );
}

#[test]
fn comments_of_items_are_short() {
    let too_long = in_comments_of_items(too_long);
    let hint = format!("at most {MAX_SENTENCES} sentences (CONTRIBUTING.md, \"Writing\")");
    assert!(too_long.is_empty(), "{hint}:\n{}", too_long.join("\n"));
}

#[test]
fn comment_of_an_item_is_one_text() {
    let early_ends = in_comments_of_items(early_line_ends);
    let hint = "a sentence begins on a new line although the line before has room: fill that line, begin a \
                paragraph, or move the comment to its item";
    assert!(early_ends.is_empty(), "{hint}:\n{}", early_ends.join("\n"));
}

/// Returns the places that a search finds in all files. Without `cli`, whose comments are help texts.
fn in_comments_of_items(search: fn(&str) -> Vec<usize>) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut places = Vec::new();
    for folder in ["src", "tests", "benches", "fuzz/fuzz_targets"] {
        let files = rust_files(&root.join(folder), &|path| !(folder == "src" && path.starts_with("cli")));
        for (path, code) in files {
            places
                .extend(search(&code).into_iter().map(|line| format!("{folder}/{}:{line}", path.display())));
        }
    }
    places
}

#[test]
fn finds_comments_of_two_items() {
    let code = "/// Returns one.\n/// Returns two.\nfn two() {}\n/// Is a.\n/// - b.\n/// C.\n///\n/// D.\n";
    assert_eq!(early_line_ends(code), [2]);
    let full = format!("/// {}.\n/// Returns it.\n", "x".repeat(100));
    assert_eq!(early_line_ends(&full), [0; 0]);
}

#[test]
fn finds_long_comments() {
    let four = "/// Is a. Is b.\n///\n/// Is `c. d.` Is e.\n/// - f. g. h.\n///\n/// # Errors\n///\n/// I.";
    assert_eq!(too_long(four), [0; 0]);
    let five = "fn f() {}\n    /// Is a. Is b.\n    ///\n    /// Is 1.5. Is d. Is e?\n    fn g() {}\n\
                //! A. B. C. D. E.";
    assert_eq!(too_long(five), [2]);
}

#[test]
fn finds_listed_words() {
    let code = "/// Whether it is.\nlet a = 1;\n//! Returns it.\n//! Who did it?\n/// Whereas.\n";
    assert_eq!(openings(code), [1]);
    assert_eq!(openings("/// Called before an effect.\nfn f() {}\n/// Used names.\nfn g() {}"), [1]);
    let code = "// Whoever calls.\nlet nobody = f(\"somebody\"); // `nobody`\nlet b = \"\\\"Nobody\\\"\";\n";
    assert_eq!(unnamed_people(&texts(code)), [1, 2]);
}
