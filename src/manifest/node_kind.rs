//! The kind of a YAML node in words, for errors.

use yaml::Node;

/// Returns the kind of a node with its article: `a string`, `an integer`.
pub fn kind_with_article(node: &Node) -> String {
    let kind = node.kind();
    match kind {
        "null" => "null".to_owned(),
        "integer" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}
