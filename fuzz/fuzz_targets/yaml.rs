//! Loads any text, or rejects it. A loaded document stays the same when it is written and read again.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use yaml::{Data, Node};

fuzz_target!(|text: &str| {
    let source = Path::new("fuzz.yml");
    let Ok(node) = yaml::load(text, source) else { return };
    let yaml_text = yaml::emit(&node);
    if !is_stable(&node) {
        return;
    }
    match yaml::load(&yaml_text, source) {
        Ok(reloaded_tree) => assert_eq!(yaml::emit(&reloaded_tree), yaml_text),
        Err(error) => panic!("{error:?}\n{yaml_text}"),
    }
});

/// Returns true if writing and reading keeps all of a tree. It does not for a `<<` (read as a merge),
/// distinct numbers that look alike as keys, and a negative zero (written as an integer).
fn is_stable(node: &Node) -> bool {
    match &node.data {
        Data::Seq(items) => items.iter().all(is_stable),
        Data::Map(map) => map.iter().all(|(key, value)| {
            !matches!(key.data, Data::Float(_)) && key.as_str() != Some("<<") && is_stable(value)
        }),
        Data::Float(number) => *number != 0.0 || number.is_sign_positive(),
        _ => true,
    }
}
