//! YAML input and output. The tables have the result of BOSH's library for each text.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of tests fail the test"
)]

mod documents;
mod scalars;

use std::fmt::Write;
use std::path::Path;

use base::ErrorKind;
use proptest::prelude::*;
use yaml::{Data, Mapping, Node};

fn load(text: &str) -> Node {
    yaml::load(text, Path::new("test.yml")).unwrap_or_else(|error| panic!("{text:?}: {error:?}"))
}

fn error_text(text: &str) -> String {
    let error = base::Error::from(yaml::load(text, Path::new("test.yml")).expect_err(text));
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    error.to_string()
}

/// Compares a complete table, so that one run shows every failing case.
fn check<'a>(cases: impl Iterator<Item = (&'a str, String, &'a str)>) {
    let mut problems = String::new();
    for (name, actual, expected) in cases {
        if actual != expected {
            write!(problems, "\n{name:?}\n   is {actual:?}\n  not {expected:?}").unwrap();
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn plain_scalars_resolve_like_yaml_1_1() {
    check(scalars::PLAIN.iter().map(|(source, expected)| {
        let yaml_text = yaml::emit(&load(&format!("- {source}\n")));
        (*source, yaml_text.trim_start_matches("- ").trim_end_matches('\n').to_owned(), *expected)
    }));
}

#[test]
fn emitted_strings_stay_strings() {
    check(scalars::STRINGS.iter().map(|(text, expected)| {
        let map = Mapping::from_iter([(Node::string("k"), Node::string(*text))]);
        let yaml_text = yaml::emit(&Data::Map(map).into());
        assert_eq!(load(&yaml_text).get("k").and_then(Node::as_str), Some(*text), "{yaml_text:?}");
        (*text, yaml_text["k: ".len()..yaml_text.len() - 1].to_owned(), *expected)
    }));
}

#[test]
fn documents_are_emitted_as_expected() {
    check(documents::CASES.iter().map(|case| (case.name, yaml::emit(&load(case.text)), case.emitted)));
}

#[test]
fn positions_count_from_one() {
    let root = load("a: 1\nb:\n  - x\n  - {c: é, d: 2}\n");
    let place = |node: &Node| (node.position.line, node.position.column);
    assert_eq!(place(&root), (1, 1));
    assert_eq!(place(root.get("a").unwrap()), (1, 4));
    let items = root.get("b").unwrap().as_seq().unwrap();
    assert_eq!(place(&items[0]), (3, 5));
    assert_eq!(place(items[1].get("d").unwrap()), (4, 15));
    assert_eq!(items[1].get("d").unwrap().position.describe(), "test.yml:4:15");
}

#[test]
fn positions_stay_exact_after_multiline_strings() {
    let root = load("a: \"x\ny\"\nb: [c]\n");
    let c = &root.get("b").unwrap().as_seq().unwrap()[0];
    assert_eq!((c.position.line, c.position.column), (3, 5));
}

#[test]
fn errors_name_position_and_problem() {
    let cases = [
        ("a: 1\nb: 2\na: 3\n", "test.yml:3:1: the key 'a' is already set at line 1, column 1"),
        ("a:\n  1: x\n  0x1: y\n", "test.yml:3:3: the key '1' is already set at line 2, column 3"),
        ("a: *b\n", "test.yml:1:4: there is no anchor '&b' for the alias '*b'"),
        ("a: 1\n c\nb\n", "test.yml:3:1: this line is neither 'key: value' nor part of the value before it"),
        ("a:\n\t- b\n", "test.yml:2:1: a tab cannot indent a line"),
        ("a: b\n\n\tc: d\n", "test.yml:3:1: a tab cannot indent a line"),
        ("a:\n  b: c\n  \td: e\n \tf: g\n", "test.yml:3:3: a tab cannot indent a line"),
        ("a: |\n\tb\n", "test.yml:2:1: a tab cannot indent a line"),
        ("a: @b\n", "test.yml:1:4: a value cannot begin with '@'"),
        ("a: b: c\n", "test.yml:1:5: a value without quotes cannot contain ': '"),
        ("a: 1\n  b: 2\n", "test.yml:2:4: this key is indented as if it were part of the value before it"),
        ("a:\n  b: 1\n c: 2\n", "test.yml:3:2: this line is indented by 1 space, but no line before it is"),
        ("a:\n  - b: 1\n  c: 2\n", "test.yml:3:3: there is a key where a list item ('-') is expected"),
        ("a: 1\n- b\n", "test.yml:2:3: there is a list item ('-') where a key is expected"),
        (
            " a: 1\nb: 2\n",
            "test.yml:2:1: this line is indented less than line 1, with which the document begins",
        ),
        ("{a: 1}\nb: 2\n", "test.yml:2:1: the document ends before this line"),
        ("a: \"x\" y\n", "test.yml:1:8: there is text after the closing quote"),
        ("a: \"x\nb: \"y\"\n", "test.yml:2:5: there is text after the quote that closes the one of line 1"),
        (
            "a: 'x\n\nb: ''\nc: 'y'\n",
            "test.yml:4:5: there is text after the quote that closes the one of line 1",
        ),
        ("a: &b [*b]\n", "test.yml:1:8: this alias is inside the value that it refers to"),
        ("? [a]\n: b\n", "test.yml:1:3: a list cannot be a key"),
        ("{a: b}: c\n", "test.yml:1:1: a mapping cannot be a key"),
        ("a:\n  <<: 1\n", "test.yml:2:7: '<<' takes a mapping or a list of mappings"),
        ("a: !!int x\n", "test.yml:1:10: the value does not fit its tag: it is not an integer"),
        ("a: !!binary '*'\n", "test.yml:1:13: this !!binary value is not base64"),
        ("a: [b:, c]\n", "test.yml:1:6: ':' directly before ',', ']' or '}' is ambiguous: a key or text"),
        (
            "a: &b:c 1\n",
            "test.yml:1:4: the name of this anchor has characters other than letters, digits, '-' and '_'",
        ),
    ];
    check(cases.iter().map(|(text, expected)| (*text, error_text(text), *expected)));
}

#[test]
fn rejects_broken_documents_with_a_position() {
    for text in [
        "a: b: c\n",
        "a: [1\n",
        "a: 'x\n",
        "a:\n\t- b\n",
        "- a\nb: c\n",
        "a: @b\n",
        "%YAML 3.0\n---\na\n",
        "a: \u{1}\n",
    ] {
        let message = error_text(text);
        assert!(message.starts_with("test.yml:"), "{text:?}: {message}");
    }
}

#[test]
fn errors_do_not_show_values() {
    for text in ["a: !!int hunter2\n", "a: hunter2: x\n", "password: 'hunter2\n", "a: 1\na: hunter2\n"] {
        assert!(!error_text(text).contains("hunter2"), "{text:?}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let nested_list = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(load(&nested_list(yaml::MAX_DEPTH)).depth(), yaml::MAX_DEPTH);
    error_text(&nested_list(yaml::MAX_DEPTH + 1));
    error_text(&nested_list(1_000_000));
    error_text(&"- ".repeat(100_000));
    error_text(&"{a: ".repeat(100_000));
    let block: String = (0..2_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    error_text(&block);
    // Each alias adds the nodes of its anchor.
    let chain: String = (1..100)
        .map(|link| format!("- &a{link} {}*a{}{}\n", "[".repeat(50), link - 1, "]".repeat(50)))
        .collect();
    assert!(error_text(&format!("- &a0 x\n{chain}")).contains("nested deeper"));
}

#[test]
fn aliases_have_a_limit() {
    let laughs: String = (1..12)
        .map(|level| format!("a{level}: &a{level} [{}]\n", format!("*a{}, ", level - 1).repeat(10)))
        .collect();
    assert!(error_text(&format!("a0: &a0 lol\n{laughs}")).contains("aliases repeat too much"));
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(1000));
    assert!(error_text(&long).contains("aliases repeat too much"));
    let merges: String = (1..30)
        .map(|level| format!("a{level}: &a{level} {{<<: [*a{0}, *a{0}], k{level}: 1}}\n", level - 1))
        .collect();
    assert!(error_text(&format!("a0: &a0 {{k: 1}}\n{merges}")).contains("aliases repeat too much"));
    // Many aliases of small nodes are not an attack.
    let document = format!("a: &a {{b: c}}\nd: [{}]\n", "*a, ".repeat(20_000));
    assert_eq!(load(&document).get("d").unwrap().as_seq().unwrap().len(), 20_000);
}

#[test]
fn large_mappings_take_no_longer_per_key() {
    let text: String = (0..100_000).map(|key| format!("key{key}: value\n")).collect();
    let root = load(&text);
    assert_eq!(root.as_map().unwrap().len(), 100_000);
    assert_eq!(load(&yaml::emit(&root)), root);
}

#[test]
fn only_equal_values_are_equal() {
    assert_eq!(load("{a: 1, b: [x]}"), load("b: [x]\na: 1\n"));
    assert_ne!(load("{a: 1}"), load("{a: 1.0}"));
    assert_ne!(load("{a: 1}"), load("{a: '1'}"));
    assert_ne!(load("{a: 1, b: 2}"), load("{a: 1, c: 2}"));
    assert_ne!(load("[a, b]"), load("[b, a]"));
}

/// Generates texts that often look like YAML.
fn yamlish() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z0-9]{1,4}",
        6 => proptest::sample::select(vec![
            ": ", "- ", "\n", "\n  ", "\n    ", "  ", "[", "]", "{", "}", ", ", "\"", "'", "|\n", ">-\n",
            "&a ", "*a",
            "!!int ", "!", "<<: ", "? ", "#", " \
                #", "~", "%", "---\n", "...\n", "\t", "\r\n", "\\", "\u{85}", "\u{feff}",
        ])
        .prop_map(str::to_owned),
        1 => any::<char>().prop_map(|character| character.to_string()),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{0,12}",
        "[ -~\\n\\t]{0,12}",
        "[ab \\n\u{85}\u{2028}\u{2029}]{0,8}",
        "(word ){0,40}(\n(word  ){0,20}){0,3}",
        any::<String>(),
        proptest::sample::select(scalars::STRINGS).prop_map(|(text, _)| (*text).to_owned()),
        proptest::sample::select(scalars::PLAIN).prop_map(|(text, _)| (*text).to_owned()),
    ]
}

fn scalar() -> impl Strategy<Value = Node> {
    prop_oneof![
        Just(Data::Null),
        any::<bool>().prop_map(Data::Bool),
        any::<i64>().prop_map(Data::Int),
        (1u64 << 63..).prop_map(Data::UInt),
        // A float without a fraction is written as an integer, as by the bosh CLI.
        any::<f64>()
            .prop_filter("a fraction", |float| !float.is_nan()
                && (float.fract() != 0.0 || float.abs() > 1e21))
            .prop_map(Data::Float),
        string().prop_map(|text| Data::String(text.into())),
    ]
    .prop_map(Node::from)
}

fn tree() -> impl Strategy<Value = Node> {
    scalar().prop_recursive(4, 40, 6, |inner| {
        // The bosh CLI writes that key as a plain `<<`, which is read back as a merge.
        let key = scalar().prop_filter("no merge key", |key| key.as_str() != Some("<<"));
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Data::Seq),
            proptest::collection::vec((key, inner), 0..6).prop_map(|entries| {
                let mut map = Mapping::new();
                for (key, value) in entries {
                    map.insert(key, value);
                }
                Data::Map(map)
            }),
        ]
        .prop_map(Node::from)
    })
}

proptest! {
    #[test]
    fn emitted_documents_parse_back(tree in tree()) {
        let text = yaml::emit(&tree);
        let reloaded_tree = yaml::load(&text, Path::new("test.yml"));
        prop_assert_eq!(reloaded_tree.map_err(|error| format!("{text}\n{error:?}")), Ok(tree), "{}", text);
    }

    #[test]
    fn parser_never_panics(text in yamlish()) {
        if let Ok(node) = yaml::load(&text, Path::new("test.yml")) {
            yaml::emit(&node);
        }
    }
}
