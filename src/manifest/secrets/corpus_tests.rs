//! Redacts the outputs of `tests/redaction`, in which secrets are marked.

use std::path::Path;

use super::*;

/// The maximum number of lines of the corpus in which text is redacted that is not secret.
const FALSE_POSITIVES: usize = 0;

fn read(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/redaction");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Replaces references to variables.
fn fill(value: &mut Value, variables: &Map<String, Value>) {
    match value {
        Value::String(text) => {
            for (name, variable) in variables {
                let reference = format!("(({name}))");
                if *text == reference {
                    *value = variable.clone();
                    return;
                }
                *text = text.replace(&reference, variable.as_str().unwrap_or_default());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, variables)),
        Value::Object(map) => map.values_mut().for_each(|item| fill(item, variables)),
        _ => {}
    }
}

/// Returns the redactor of a run with the manifest and variables of the corpus.
fn redactor() -> Redactor {
    let parse = |name: &str| yaml::load(&read(name), Path::new(name)).unwrap().to_json().unwrap();
    let variables = parse("vars.yml");
    let mut manifest = parse("manifest.yml");
    let urls = literal_urls(&Node::from_json(&manifest));
    fill(&mut manifest, variables.as_object().unwrap());
    let (manifest, variables) = (Node::from_json(&manifest), Node::from_json(&variables));
    let known_inputs = KnownInputs {
        documents: vec![&manifest],
        variables: entries(variables.as_map().unwrap()).collect(),
        urls: &urls,
        ..KnownInputs::default()
    };
    let redactor = Redactor::default();
    register_secrets(&known_inputs, &redactor);
    ["/home/op/bosh/bosh.yml", "/home/op/bosh/bosh-state.json", "/home/op/.local/state/monopile"]
        .iter()
        .for_each(|path| redactor.exempt_from_precautions(path));
    redactor
}

/// Returns a text of the corpus without its marks, and its expected redacted form.
fn split(source: &str) -> (String, String) {
    let text = source.replace(['⟦', '⟧'], "");
    let mut parts = source.split(['⟦', '⟧']);
    let mut expected = parts.next().unwrap_or_default().to_owned();
    while let (Some(_), Some(plain)) = (parts.next(), parts.next()) {
        expected.push_str("<redacted>");
        expected.push_str(plain);
    }
    (text, expected)
}

#[test]
fn corpus_outputs_are_redacted_as_marked() {
    let redactor = redactor();
    let corpus = read("outputs.txt");
    let (mut mismatches, mut false_positives) = (Vec::new(), Vec::new());
    let mut compare = |source: &str, expected: &str, text: &str| {
        if expected != text {
            let list = if source.contains('⟦') { &mut mismatches } else { &mut false_positives };
            list.push(format!("shown:    {text}\nexpected: {expected}"));
        }
    };
    for block in corpus.split("\n## ").skip(1) {
        for line in block.lines() {
            let (text, expected) = split(line);
            compare(line, &expected, &redactor.clean_and_redact(&text));
            compare(line, &expected, &redactor.clean_and_redact_line(&text));
        }
        let (text, expected) = split(block);
        // In a whole text, a key is one secret.
        let redacted_text = redactor.clean_and_redact(&text);
        for line in expected.lines().filter(|line| *line != "<redacted>" && !line.starts_with("-----")) {
            compare(
                "⟦",
                line,
                redacted_text.lines().find(|candidate| *candidate == line).unwrap_or("(changed)"),
            );
        }
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
    let count = false_positives.len();
    assert!(count == FALSE_POSITIVES, "{count} false positives:\n{}", false_positives.join("\n"));
}
