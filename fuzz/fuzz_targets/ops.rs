//! Parses any text as a path, and writes an accepted path back unchanged. Following it never panics, and
//! neither does an ops file of any text.

#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use manifest::ops::{self, Ops};
use yaml::Node;

static DOCUMENT: LazyLock<Node> = LazyLock::new(|| {
    let text = "a: {b: [1, {name: x, c: [y]}, {name: z}]}\n'': ~\nlist: [1, 2, 3]\n";
    yaml::load(text, Path::new("document.yml")).unwrap_or_else(|error| panic!("{error:?}"))
});

fuzz_target!(|text: &str| {
    if let Ok(path) = text.parse::<ops::Path>() {
        let path_text = path.to_string();
        assert_eq!(path_text.parse::<ops::Path>().map(|path| path.to_string()).as_deref(), Ok(&*path_text));
        let _ = ops::find(&DOCUMENT, &path);
    }
    let quoted_path = text.replace('\'', "''").replace(['\n', '\r'], " ");
    for op in
        ["type: remove", "type: replace, value: {n: [m]}", "type: test, value: 1", "type: test, absent: true"]
    {
        let file = format!("- {{{op}, path: '{quoted_path}'}}\n");
        apply(&file);
    }
    apply(text);
});

fn apply(text: &str) {
    let _ = Ops::load(text, Path::new("ops.yml")).and_then(|ops| ops.apply(DOCUMENT.clone()));
}
