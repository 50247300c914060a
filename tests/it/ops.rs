//! Ops files: tables with the effect or the error of each path.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "the helpers of tests fail the test")]

use std::fmt::Write;
use std::path::Path;

use manifest::ops::{self, Ops};
use proptest::prelude::*;
use yaml::{self, Node};

const DOCUMENT: &str = "\
name: bosh
releases:
- name: bosh
  version: 1
- name: bpm
  version: 2
- name: bpm
  version: 3
networks:
- name: default
  subnets:
  - {az: z1, range: 10.0.0.0/24}
  - {az: z2, range: 10.0.1.0/24}
list: [a, b, c]
map: {one: 1, two: {three: 3}}
empty: {}
none: ~
odd: {'a/b': 1, 'c:d': 2, 'e~f': 3, '': 4, '-': 5, '3': 6}
";

/// The path, the value, and the top-level keys that a `replace` changes, with their new values.
const REPLACE_CASES: &[(&str, &str, &str)] = &[
    ("/name", "x", "name: x\n"),
    ("/map/one", "2", "map:\n  one: 2\n  two:\n    three: 3\n"),
    ("/map/two/three", "[1]", "map:\n  one: 1\n  two:\n    three:\n    - 1\n"),
    ("/map/new?", "1", "map:\n  new: 1\n  one: 1\n  two:\n    three: 3\n"),
    ("/map/two/new?", "1", "map:\n  one: 1\n  two:\n    new: 1\n    three: 3\n"),
    ("/new?/a/b", "1", "new:\n  a:\n    b: 1\n"),
    ("/new?/-", "1", "new:\n- 1\n"),
    ("/new?/name=x", "{name: y}", "new:\n- name: true\n"),
    ("/new?/name=x/v", "1", "new:\n- name: x\n  v: 1\n"),
    ("/new?/name=x/subs/id=1/v", "1", "new:\n- name: x\n  subs:\n  - id: \"1\"\n    v: 1\n"),
    ("/empty/a?", "1", "empty:\n  a: 1\n"),
    ("/list/0", "x", "list:\n- x\n- b\n- c\n"),
    ("/list/-1", "x", "list:\n- a\n- b\n- x\n"),
    ("/list/-3", "x", "list:\n- x\n- b\n- c\n"),
    ("/list/-", "x", "list:\n- a\n- b\n- c\n- x\n"),
    ("/list/0:before", "x", "list:\n- x\n- a\n- b\n- c\n"),
    ("/list/0:after", "x", "list:\n- a\n- x\n- b\n- c\n"),
    ("/list/-1:after", "x", "list:\n- a\n- b\n- c\n- x\n"),
    ("/list/-1:before", "x", "list:\n- a\n- b\n- x\n- c\n"),
    ("/list/1:prev", "x", "list:\n- x\n- b\n- c\n"),
    ("/list/1:next", "x", "list:\n- a\n- b\n- x\n"),
    ("/list/0:next:next", "x", "list:\n- a\n- b\n- x\n"),
    ("/list/1:prev:before", "x", "list:\n- x\n- a\n- b\n- c\n"),
    ("/list/-1:next", "x", "list:\n- x\n- b\n- c\n"),
    ("/releases/name=bosh", "x", "releases:\n- x\n- name: bpm\n  version: 2\n- name: bpm\n  version: 3\n"),
    (
        "/releases/name=bosh/version",
        "9",
        "releases:\n- name: bosh\n  version: 9\n- name: bpm\n  version: 2\n- name: bpm\n  version: 3\n",
    ),
    (
        "/releases/name=bosh:before",
        "x",
        "releases:\n- x\n- name: bosh\n  version: 1\n- name: bpm\n  version: 2\n- name: bpm\n  version: 3\n",
    ),
    (
        "/releases/name=bosh:after",
        "x",
        "releases:\n- name: bosh\n  version: 1\n- x\n- name: bpm\n  version: 2\n- name: bpm\n  version: 3\n",
    ),
    (
        "/releases/name=bosh:next/version",
        "9",
        "releases:\n- name: bosh\n  version: 1\n- name: bpm\n  version: 9\n- name: bpm\n  version: 3\n",
    ),
    (
        "/releases/name=bosh:next:after",
        "x",
        "releases:\n- name: bosh\n  version: 1\n- name: bpm\n  version: 2\n- x\n- name: bpm\n  version: 3\n",
    ),
    (
        "/releases/name=uaa?",
        "{name: uaa}",
        "releases:\n- name: bosh\n  version: 1\n- name: bpm\n  version: 2\n- name: bpm\n  version: 3\n- \
            name: uaa\n",
    ),
    (
        "/releases/name=uaa?/version",
        "1",
        "releases:\n- name: bosh\n  version: 1\n- name: bpm\n  version: 2\n- name: bpm\n  version: 3\n- \
            name: uaa\n  version: 1\n",
    ),
    (
        "/releases/0/version",
        "9",
        "releases:\n- name: bosh\n  version: 9\n- name: bpm\n  version: 2\n- name: bpm\n  version: 3\n",
    ),
    (
        "/releases/-",
        "x",
        "releases:\n- name: bosh\n  version: 1\n- name: bpm\n  version: 2\n- name: bpm\n  version: 3\n- x\n",
    ),
    (
        "/networks/name=default/subnets/az=z2/range",
        "x",
        "networks:\n- name: default\n  subnets:\n  - az: z1\n    range: 10.0.0.0/24\n  - az: z2\n    range: \
            x\n",
    ),
    (
        "/networks/0/subnets/1/gateway?",
        "x",
        "networks:\n- name: default\n  subnets:\n  - az: z1\n    range: 10.0.0.0/24\n  - az: z2\n    \
            gateway: x\n    range: 10.0.1.0/24\n",
    ),
    (
        "/networks/name=default/subnets/-",
        "{az: z3}",
        "networks:\n- name: default\n  subnets:\n  - az: z1\n    range: 10.0.0.0/24\n  - az: z2\n    range: \
            10.0.1.0/24\n  - az: z3\n",
    ),
    ("/odd/a~1b", "x", "odd:\n  \"\": 4\n  '-': 5\n  \"3\": 6\n  a/b: x\n  c:d: 2\n  e~f: 3\n"),
    ("/odd/c~7d", "x", "odd:\n  \"\": 4\n  '-': 5\n  \"3\": 6\n  a/b: 1\n  c:d: x\n  e~f: 3\n"),
    ("/odd/e~0f", "x", "odd:\n  \"\": 4\n  '-': 5\n  \"3\": 6\n  a/b: 1\n  c:d: 2\n  e~f: x\n"),
    ("/odd/", "x", "odd:\n  \"\": x\n  '-': 5\n  \"3\": 6\n  a/b: 1\n  c:d: 2\n  e~f: 3\n"),
    ("/odd/-?", "x", "odd:\n  \"\": 4\n  '-': x\n  \"3\": 6\n  a/b: 1\n  c:d: 2\n  e~f: 3\n"),
    ("/odd/3?", "x", "odd:\n  \"\": 4\n  '-': 5\n  \"3\": x\n  a/b: 1\n  c:d: 2\n  e~f: 3\n"),
    ("/none", "1", "none: 1\n"),
    ("", "{whole: new}", "whole: new\n"),
    ("/map/two?/three", "1", "map:\n  one: 1\n  two:\n    three: 1\n"),
    ("/map/one", "~1", "map:\n  one: ~1\n  two:\n    three: 3\n"),
    ("/map/one", "1.0", ""),
    ("/map/one", "2001-01-01", "map:\n  one: \"2001-01-01\"\n  two:\n    three: 3\n"),
    (
        "/map/one",
        "{a: {b: [1.0, x, \"y\"]}}",
        "map:\n  one:\n    a:\n      b:\n      - 1\n      - x\n      - \"y\"\n  two:\n    three: 3\n",
    ),
    ("/list/+1", "x", "list:\n- a\n- x\n- c\n"),
    ("/list/01", "x", "list:\n- a\n- x\n- c\n"),
];

/// The path, and the top-level keys that a `remove` changes. `-` marks a removed key.
const REMOVE_CASES: &[(&str, &str)] = &[
    ("/name", "-name\n"),
    ("/map/one", "map:\n  two:\n    three: 3\n"),
    ("/map/two/three", "map:\n  one: 1\n  two: {}\n"),
    ("/map/nope?", ""),
    ("/nope?/a/b", ""),
    ("/list/0", "list:\n- b\n- c\n"),
    ("/list/-1", "list:\n- a\n- b\n"),
    ("/list/1:next", "list:\n- a\n- b\n"),
    ("/list/-1:prev", "list:\n- a\n- c\n"),
    ("/releases/name=bosh", "releases:\n- name: bpm\n  version: 2\n- name: bpm\n  version: 3\n"),
    ("/releases/name=bosh:next", "releases:\n- name: bosh\n  version: 1\n- name: bpm\n  version: 3\n"),
    ("/releases/name=nope?", ""),
    ("/releases/name=nope?/x", ""),
    (
        "/networks/name=default/subnets/az=z1",
        "networks:\n- name: default\n  subnets:\n  - az: z2\n    range: 10.0.1.0/24\n",
    ),
    ("/odd/a~1b", "odd:\n  \"\": 4\n  '-': 5\n  \"3\": 6\n  c:d: 2\n  e~f: 3\n"),
    ("/map/two", "map:\n  one: 1\n"),
    ("/none", "-none\n"),
];

/// The path, and the value at it.
const VALUES: &[(&str, &str)] = &[
    ("/name", "bosh\n"),
    ("/map", "one: 1\ntwo:\n  three: 3\n"),
    ("/map/two/three", "3\n"),
    ("/list/0", "a\n"),
    ("/list/-1", "c\n"),
    ("/list/0:next", "b\n"),
    ("/list/-1:prev", "b\n"),
    ("/releases/name=bosh", "name: bosh\nversion: 1\n"),
    ("/releases/name=bosh:next/version", "2\n"),
    ("/releases/0/name", "bosh\n"),
    ("/odd/a~1b", "1\n"),
    ("/odd/c~7d", "2\n"),
    ("/odd/e~0f", "3\n"),
    ("/odd/", "4\n"),
    ("/nope?", "null\n"),
    ("/nope?/a", "null\n"),
    ("/nope?/name=x", "name: x\n"),
    ("/nope?/name=x/name", "x\n"),
    ("/releases/name=nope?", "name: nope\n"),
    ("/releases/name=nope?/x", "null\n"),
    ("/none", "null\n"),
    ("/networks/0/subnets/az=z2/range", "10.0.1.0/24\n"),
    ("/empty", "{}\n"),
];

fn document() -> Node {
    yaml::load(DOCUMENT, Path::new("bosh.yml")).unwrap()
}

/// Applies an ops file.
fn apply_to(root: Node, ops: &str) -> base::Result<Node> {
    Ops::load(ops, Path::new("change.yml"))?.apply(root)
}

fn apply(ops: &str) -> base::Result<Node> {
    apply_to(document(), ops)
}

fn op(kind: &str, path: &str, value: Option<&str>) -> String {
    let value = value.map_or(String::new(), |value| format!("  value: {value}\n"));
    format!("- type: {kind}\n  path: '{path}'\n{value}")
}

/// Returns the message chain and the hints of an ops file's error.
fn error_of(ops: &str) -> (Vec<String>, Vec<String>) {
    let error = apply(ops).expect_err(ops);
    assert_eq!(error.kind(), base::ErrorKind::InvalidInput);
    (error.chain(), error.hints().to_vec())
}

/// Returns the changed top-level keys as YAML.
fn changes(document_after: &Node) -> String {
    let document_before = document();
    let (Some(old), Some(new)) = (document_before.as_map(), document_after.as_map()) else {
        return yaml::emit(document_after);
    };
    let changed_entries = new.iter().filter(|(key, value)| old.get(key.as_str().unwrap()) != Some(*value));
    let changed_entries = changed_entries.map(|(key, value)| (key.clone(), value.clone()));
    let map: yaml::Mapping = changed_entries.collect();
    let mut text = if map.is_empty() { String::new() } else { yaml::emit(&yaml::Data::Map(map).into()) };
    if new.iter().any(|(key, _)| old.contains(key)) {
        for (key, _) in old.iter().filter(|(key, _)| !new.contains(key)) {
            writeln!(text, "-{}", key.as_str().unwrap()).unwrap();
        }
    }
    text
}

#[test]
fn replace_cases() {
    for (path, value, expected) in REPLACE_CASES {
        let document_after =
            apply(&op("replace", path, Some(value))).unwrap_or_else(|error| panic!("{path}: {error:?}"));
        assert_eq!(changes(&document_after), *expected, "{path}");
    }
}

#[test]
fn remove_cases() {
    for (path, expected) in REMOVE_CASES {
        let document_after =
            apply(&op("remove", path, None)).unwrap_or_else(|error| panic!("{path}: {error:?}"));
        assert_eq!(changes(&document_after), *expected, "{path}");
    }
}

#[test]
fn find_cases() {
    let document = document();
    for (path, expected) in VALUES {
        let node =
            ops::find(&document, &path.parse().unwrap()).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(yaml::emit(&node), *expected, "{path}");
    }
    assert_eq!(*ops::find(&document, &"".parse().unwrap()).unwrap(), document);
}

#[test]
fn test_operation_passes_or_fails() {
    let test =
        |path: &str, expectation: &str| apply(&format!("- type: test\n  path: '{path}'\n  {expectation}\n"));
    for (path, expectation) in [
        ("/name", "value: bosh"),
        ("/map", "value: {two: {three: 3}, one: 1}"),
        ("/list", "value: [a, b, c]"),
        ("/none", "absent: false"),
        ("/nope?", "absent: false"),
        ("/nope", "absent: true"),
        ("/map/two/nope", "absent: yes"),
        ("/list/3", "absent: true"),
        ("/releases/name=bosh/version", "value: 1"),
    ] {
        assert!(test(path, expectation).is_ok(), "{path} {expectation}");
    }
    for (path, expectation) in [
        ("/name", "value: uaa"),
        ("/name", "absent: true"),
        ("/map/one", "value: '1'"),
        ("/map/one", "value: 1.0"),
        ("/list", "value: [a, c, b]"),
        // Only the last token may be missing.
        ("/nope/deeper", "absent: true"),
        ("/releases/name=nope", "absent: true"),
        ("/nope?", "absent: true"),
    ] {
        assert!(test(path, expectation).is_err(), "{path} {expectation}");
    }
}

#[test]
fn operations_see_what_earlier_ones_did() {
    let ops = "\
- {type: replace, path: /new?, value: [{name: x}]}
- {type: replace, path: /new/name=x/v?, value: 1}
- {type: test, path: /new, value: [{name: x, v: 1}]}
- {type: remove, path: /new/0/name}
";
    assert_eq!(changes(&apply(ops).unwrap()), "new:\n- v: 1\n");
}

#[test]
fn value_is_not_shared_between_operations() {
    let ops = "\
- {type: replace, path: /x?, value: &v {a: 1}}
- {type: replace, path: /z?, value: *v}
- {type: replace, path: /x/a, value: 2}
";
    assert_eq!(changes(&apply(ops).unwrap()), "x:\n  a: 2\nz:\n  a: 1\n");
}

#[test]
fn empty_file_does_nothing() {
    for text in ["", "---\n", "[]\n", "# nothing\n"] {
        assert_eq!(apply(text).unwrap(), document(), "{text:?}");
    }
}

#[test]
fn errors_name_the_operation_and_suggest_the_nearest_key() {
    let cases: &[(&str, &str, &str)] = &[
        ("replace", "/nam", "'/nam' does not exist; did you mean '/name'?"),
        ("replace", "/map/ones", "'/map/ones' does not exist; did you mean '/map/one'?"),
        ("replace", "/map/zzz/x", "'/map/zzz' does not exist"),
        ("replace", "/empty/x", "'/empty/x' does not exist"),
        (
            "replace",
            "/releases/name=bosch/version",
            "'/releases/name=bosch' does not exist; did you mean '/releases/name=bosh'?",
        ),
        ("replace", "/releases/nam=bosh", "'/releases/nam=bosh' does not exist"),
        ("remove", "/releases/version=1", "'/releases/version=1' does not exist"),
        (
            "remove",
            "/releases/name=bpm",
            "'/releases/name=bpm' matches 2 items (lines 5, 7), but a path must lead to one",
        ),
        ("replace", "/list/3", "'/list/3' does not exist: '/list' has no index 3, it has 3 items"),
        ("replace", "/list/-4", "'/list/-4' does not exist: '/list' has no index -4, it has 3 items"),
        (
            "replace",
            "/list/-1:next:next:next:next:next",
            "'/list/-1:next:next:next:next:next' does not exist: '/list' has no index 4, it has 3 items",
        ),
        ("replace", "/name/x", "'/name/x' needs a mapping, but '/name' (bosh.yml:1:7) is a string"),
        ("replace", "/map/0", "'/map/0' needs a list, but '/map' (bosh.yml:15:6) is a mapping"),
        ("replace", "/none/x?", "'/none/x?' needs a mapping, but '/none' (bosh.yml:17:7) is null"),
        ("replace", "/0", "'/0' needs a list, but the document (bosh.yml:1:1) is a mapping"),
        ("replace", "/list/-/x", "'/list/-' needs a mapping, but '/list' (bosh.yml:14:7) is a list"),
    ];
    for (kind, path, expected) in cases {
        let ops = format!(
            "# first line\n{}{}",
            op("test", "/name", Some("bosh")),
            op(kind, path, (*kind == "replace").then_some("1"))
        );
        let (chain, hints) = error_of(&ops);
        assert_eq!(chain[0], format!("change.yml:6:9: operation 2 ({kind} {path}) failed"));
        let (problem, suggestion) = base::error::split_suggestion(expected);
        assert_eq!(chain[1..], [problem]);
        assert_eq!(
            hints.iter().find(|hint| hint.starts_with("did you mean")).map(String::as_str),
            suggestion
        );
    }
}

#[test]
fn errors_note_what_exists() {
    for (path, note) in [
        ("/map/zzz/x", "there are 'one', 'two'"),
        ("/empty/x", "nothing is there"),
        ("/releases/nam=bosh", "no item has a 'nam'"),
        ("/releases/version=1", "no item has a string as its 'version'"),
    ] {
        let error = apply(&op("remove", path, None)).unwrap_err();
        assert_eq!(error.notes(), [note], "{path}");
    }
}

#[test]
fn other_files_in_place_of_an_ops_file_are_named() {
    for (text, hint) in [
        ("a: b\n", "it has variables: pass it with `-l change.yml`"),
        (
            "ca: {certificate: c, private_key: k}\n",
            "it has variables: pass it with `--vars-store change.yml`",
        ),
        ("instance_groups: []\n", "it is a manifest: leave out `-o change.yml`"),
        (
            "type: remove\npath: /name\n",
            "begin each operation with `- type: replace`, `- type: remove` or `- type: test`",
        ),
        ("{}\n", "begin each operation with `- type: replace`, `- type: remove` or `- type: test`"),
    ] {
        assert_eq!(error_of(text).1, [hint]);
    }
}

#[test]
fn errors_show_the_name_and_the_error_text_of_an_operation() {
    let (chain, hints) =
        error_of("- {type: remove, name: drop it, path: /nope, error: is this a director?}\n");
    assert_eq!(
        chain[0],
        "change.yml:1:39: operation 1 \"drop it\" (remove /nope) failed: is this a director?"
    );
    assert_eq!(hints, ["did you mean '/none'?", "write '/nope?' if it need not exist"]);
    let (_, hints) = error_of(&op("replace", "/nope/later/0", Some("1")));
    assert_eq!(hints, ["did you mean '/none'?", "write '/nope?/later/0' if '/nope' need not exist"]);
}

#[test]
fn match_finds_strings_only_and_explains_it() {
    let (_, hints) = error_of(&op("remove", "/releases/version=1", None));
    assert_eq!(hints, ["a path matches only strings: put the value 1 of 'version' in quotes"]);
}

#[test]
fn failed_test_does_not_show_the_values() {
    let (chain, _) = error_of("- {type: test, path: /name, value: hunter2}\n");
    assert_eq!(chain[1], "'/name' does not have the expected value (set at bosh.yml:1:7)");
}

#[test]
fn malformed_operations_are_rejected_before_any_runs() {
    let cases = [
        ("a: b\n", "change.yml:1:1: an ops file must be a list of operations, not a mapping"),
        ("name: a\n", "change.yml:1:1: an ops file must be a list of operations, not a mapping"),
        ("- x\n", "change.yml:1:3: operation 1 is a string, not a mapping"),
        ("- {path: /a}\n", "change.yml:1:3: operation 1 has no type (replace, remove or test)"),
        ("- {type: replce, path: /a}\n", "change.yml:1:3: operation 1 has an unknown type, 'replce'"),
        ("- {type: remove}\n", "change.yml:1:3: operation 1 (remove) has no `path`"),
        (
            "- {type: remove, pth: /a}\n",
            "change.yml:1:3: operation 1 (remove) has no `path`; is 'pth' (change.yml:1:18) a misspelling?",
        ),
        ("- {type: replace, path: /a}\n", "change.yml:1:3: operation 1 (replace /a) has no value"),
        ("- type: replace\n  path: /a\n  value:\n", "change.yml:1:3: operation 1 (replace /a) has no value"),
        (
            "- {type: remove, path: /a, value: 1}\n",
            "change.yml:1:3: operation 1 (remove /a) has a value, but remove takes none",
        ),
        ("- {type: test, path: /a}\n", "change.yml:1:3: operation 1 (test /a) has neither value nor absent"),
        (
            "- {type: test, path: /a, absent: x}\n",
            "change.yml:1:3: operation 1 (test /a) needs true or false as absent, not a string",
        ),
        ("- {type: remove, path: a}\n", "change.yml:1:3: operation 1 (remove a) has an invalid path"),
        (
            "- {type: remove, path: [a]}\n",
            "change.yml:1:3: operation 1 needs a string as its path, not a list",
        ),
        ("- {type: remove, path: ''}\n", "change.yml:1:24: operation 1 (remove ) failed"),
    ];
    for (text, expected) in cases {
        let ops = text.to_owned();
        assert_eq!(error_of(&ops).0[0], expected, "{text:?}");
    }
    assert!(Ops::load("- {type: remove, path: /nope}\n- {type: remove}\n", Path::new("change.yml")).is_err());
}

#[test]
fn unknown_keys_are_reported() {
    let text = "- {type: remove, path: /a, extra: 1}\n- {type: remove, path: /b, eror: x}\n";
    let ops = Ops::load(text, Path::new("o.yml")).unwrap();
    assert_eq!(
        ops.warnings(),
        [
            "o.yml:1:28: operation 1 has the unknown key 'extra', which is ignored",
            "o.yml:2:28: operation 2 has the unknown key 'eror', which is ignored; did you mean 'error'?",
        ]
    );
}

#[test]
fn explicit_null_is_a_value() {
    let document_after =
        apply("- {type: replace, path: /name, value: ~}\n- {type: replace, path: /map/one, value: null}\n")
            .unwrap();
    assert_eq!(changes(&document_after), "map:\n  one: null\n  two:\n    three: 3\nname: null\n");
}

#[test]
fn parses_paths() {
    let cases = [
        ("", Ok("")),
        ("/", Ok("/")),
        ("/a/b", Ok("/a/b")),
        ("/a?/b/c", Ok("/a?/b/c")),
        ("/a?/b?/c?", Ok("/a?/b/c")),
        ("/a/-", Ok("/a/-")),
        ("/-/a", Ok("/-/a")),
        ("/0/-1/+2/003", Ok("/0/-1/2/3")),
        ("/a=b/c=d?:prev", Ok("/a=b/c=d?:prev")),
        ("/a=b?/c=d:next:before", Ok("/a=b?/c=d:next:before")),
        ("/a=b=c", Ok("/a=b=c")),
        ("/~0a~1b~7c~2~", Ok("/~0a~1b~7c~02~0")),
        ("/0:after", Ok("/0:after")),
        ("a", Err("starts with '/'")),
        ("/a:next", Err("only an index")),
        ("/a/-:before", Err("'-' takes no modifier")),
        ("/0:nxt", Err("':nxt' is none of")),
        ("/0:", Err("':' is none of")),
        ("/a?/0?/-?/b??", Ok("/a?/0?/-?/b??")),
        ("/99999999999999999999", Ok("/99999999999999999999")),
    ];
    for (text, expected) in cases {
        let result = text.parse::<ops::Path>().map(|path| path.to_string());
        match (&result, expected) {
            (Ok(path), Ok(expected)) => assert_eq!(path, expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{text}: {error}"),
            _ => panic!("{text}: {result:?}"),
        }
    }
}

#[test]
fn nesting_of_operations_is_limited() {
    let deep = format!("{}{}", "[".repeat(400), "]".repeat(400));
    let steps_down = "/0".repeat(399);
    let ops = format!(
        "- {{type: replace, path: /x?, value: {deep}}}\n- {{type: replace, path: /x{steps_down}/-, value: \
            {deep}}}\n"
    );
    assert!(error_of(&ops).0[0].contains("would nest deeper"));
}

/// Draws the text of an ops path from tokens that exist, that do not, and that are malformed.
fn path_text() -> impl Strategy<Value = String> {
    let token = proptest::sample::select(vec![
        "name",
        "list",
        "map",
        "one",
        "two",
        "three",
        "releases",
        "networks",
        "subnets",
        "empty",
        "none",
        "odd",
        "new",
        "name=bosh",
        "name=bpm",
        "name=x",
        "az=z1",
        "0",
        "1",
        "-1",
        "3",
        "-",
        "a~1b",
        "",
        "~0",
        "=",
        "+1",
    ]);
    let suffix = proptest::sample::select(vec![
        "", "", "", "?", ":prev", ":next", ":before", ":after", "?:next", ":x",
    ]);
    // `0?` and `-?` are keys, which only the `?` shows.
    let piece = (token, suffix).prop_filter("a key", |(token, suffix)| {
        !(suffix.starts_with('?')
            && token.starts_with(|first: char| "-+".contains(first) || first.is_ascii_digit()))
    });
    proptest::collection::vec(piece, 0..5)
        .prop_map(|tokens| tokens.iter().map(|(token, suffix)| format!("/{token}{suffix}")).collect())
}

proptest! {
    #[test]
    fn path_parser_never_panics(path in prop_oneof![path_text(), any::<String>(), "[/a-z0-9=?:~-]{0,20}"]) {
        if let Ok(parsed_path) = path.parse::<ops::Path>() {
            let reparsed_path: ops::Path = parsed_path.to_string().parse().unwrap();
            prop_assert_eq!(reparsed_path.to_string(), parsed_path.to_string());
        }
    }

    #[test]
    fn operations_never_panic(path in path_text(), kind in proptest::sample::select(vec!["replace", "remove",
        "test"])) {
        let _ = apply(&op(kind, &path, (kind != "remove").then_some("{a: [1]}")));
    }

    /// Checks that the inverse of a `replace` restores the document.
    #[test]
    fn operation_and_its_inverse_change_nothing(path in path_text()) {
        let document_before = document();
        let Ok(parsed_path) = path.parse::<ops::Path>() else { return Ok(()) };
        let Ok(document_after) = apply(&op("replace", &path, Some("{put: in}"))) else { return Ok(()) };
        let inverse = match (concrete(&document_before, &parsed_path), inserts(&parsed_path)) {
            // The value existed, so the inverse restores it.
            (Some(place), false) => {
                let old = ops::find(&document_before, &place).unwrap().to_json().unwrap();
                op("replace", &place.to_string(), Some(&old.to_string()))
            }
            (Some(place), true) => op("remove", &inserted_at(&place, &parsed_path), None),
            (None, _) => op("remove", &first_made(&document_before, &parsed_path), None),
        };
        let restore_error = |error| format!("{inverse}: {error:?}");
        let restored_document = apply_to(document_after, &inverse).map_err(restore_error);
        prop_assert_eq!(restored_document, Ok(document_before), "{}", inverse);
    }
}

/// Returns an existing path that has only keys and indices, which stay valid when the value changes.
fn concrete(document: &Node, path: &ops::Path) -> Option<ops::Path> {
    use ops::{Modifier, Token};
    let mut tokens: Vec<Token> = Vec::new();
    for token in path.tokens() {
        let holder = ops::find(document, &tokens.clone().into()).ok()?;
        let (index, modifiers) = match token {
            Token::Key { key, .. } => {
                holder.get(key)?;
                tokens.push(Token::Key { key: key.clone(), is_optional: true });
                continue;
            }
            Token::Index { index, modifiers } => (*index, modifiers),
            Token::Match { key, value, modifiers, .. } => {
                let matches = |item: &Node| item.get(key).and_then(Node::as_str) == Some(value);
                (i64::try_from(holder.as_seq()?.iter().position(matches)?).ok()?, modifiers)
            }
            Token::End => return None,
        };
        let moves = modifiers.iter().map(|modifier| match modifier {
            Modifier::Prev => -1,
            Modifier::Next => 1,
            Modifier::Before | Modifier::After => 0,
        });
        let index = index + moves.sum::<i64>();
        let length = i64::try_from(holder.as_seq()?.len()).ok()?;
        tokens.push(Token::Index {
            index: if index < 0 { index + length } else { index },
            modifiers: Vec::new(),
        });
    }
    Some(tokens.into())
}

fn inserts(path: &ops::Path) -> bool {
    use ops::{Modifier, Token};
    matches!(
        path.tokens().last(),
        Some(Token::Index { modifiers, .. } | Token::Match { modifiers, .. })
            if matches!(modifiers.last(), Some(Modifier::Before | Modifier::After))
    )
}

/// Returns the path of an item that was inserted beside `neighbour`.
fn inserted_at(neighbour: &ops::Path, path: &ops::Path) -> String {
    use ops::{Modifier, Token};
    let is_after = path.to_string().ends_with(&Modifier::After.to_string());
    let mut tokens = neighbour.tokens().to_vec();
    if let Some(Token::Index { index, .. }) = tokens.last_mut() {
        *index += i64::from(is_after);
    }
    ops::Path::from(tokens).to_string()
}

/// Returns the path of the first node that a `replace` had to create.
fn first_made(document: &Node, path: &ops::Path) -> String {
    let existing_path =
        (0..path.tokens().len()).rev().find_map(|count| concrete(document, &path.prefix(count))).unwrap();
    let mut tokens = existing_path.tokens().to_vec();
    tokens.push(match &path.tokens()[tokens.len()] {
        ops::Token::Key { key, .. } => ops::Token::Key { key: key.clone(), is_optional: true },
        // A new item is the last one.
        _ => ops::Token::Index { index: -1, modifiers: Vec::new() },
    });
    ops::Path::from(tokens).to_string()
}
