//! Checks the width of lines. rustfmt keeps code within `max_width`, but not comments, strings and macros.

use std::path::Path;

use crate::layers::rust_files;

/// `max_width` of rustfmt.toml, in characters.
pub(crate) const WIDTH: usize = 110;
/// Tables that a script writes.
const GENERATED_TABLES: [&str; 1] = ["src/erb/evaluator/methods/names/facts.rs"];

/// Returns the numbers of lines that are too long. Text that cannot be broken does not count: raw strings,
/// and words of 60 characters.
fn too_long(text: &str) -> Vec<usize> {
    let unbreakable =
        regex::Regex::new(r###"\br"[^"]*"|\br#"[\s\S]*?"#|\br##"[\s\S]*?"##|[^"\s]{60,}"###).unwrap();
    let text = unbreakable
        .replace_all(text, |captures: &regex::Captures| "\n".repeat(captures[0].matches('\n').count()));
    let lines = text.lines().enumerate();
    lines.filter(|(_, line)| line.chars().count() > WIDTH).map(|(index, _)| index + 1).collect()
}

#[test]
fn comments_and_strings_fit_the_line_width() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut problems = Vec::new();
    for folder in ["src", "tests", "benches", "fuzz/fuzz_targets"] {
        for (path, text) in rust_files(&root.join(folder), &|_| true) {
            let path = format!("{folder}/{}", path.display());
            if !GENERATED_TABLES.contains(&path.as_str()) {
                problems.extend(too_long(&text).into_iter().map(|line| format!("{path}:{line}")));
            }
        }
    }
    assert!(problems.is_empty(), "break these lines at {WIDTH} characters:\n{}", problems.join("\n"));
}

#[test]
fn finds_wide_comments_and_strings() {
    let wide = "word ".repeat(WIDTH / 5);
    let raw = format!("let a = r#\"\n{wide} raw\n\"#;");
    let text =
        format!("/// {wide}\nlet a = \"{wide}\";\n{raw}\nlet b = \"{}\";\n// {wide}\n", "x".repeat(WIDTH));
    assert_eq!(too_long(&text), [1, 2, 7]);
}
