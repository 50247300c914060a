//! Compares the native renderer with Ruby on a corpus of small templates, one for each construct and method.
//! Outputs must be equal byte for byte, and both must fail on the same templates.

mod bounds;
mod certificates;
mod differential;
mod generated_templates;

use crate::support::process::{WaitForEnd, join, prepare};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use erb::{Context, RenderError, Renderer, native::NativeRenderer};
use serde_json::{Value, json};

struct Case {
    name: String,
    source: String,
    context: Value,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/templates")
}

fn context() -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder().join("context.json")).unwrap()).unwrap()
}

/// Returns the templates of the corpus. In each file, `#### name` begins a template.
fn corpus() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let context = context();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "erb")) {
        let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
        for line in std::fs::read_to_string(file).unwrap().split_inclusive('\n') {
            match line.strip_prefix("#### ") {
                Some(name) => {
                    cases.push(Case {
                        name: format!("{stem}: {}", name.trim_end()),
                        source: String::new(),
                        context: context.clone(),
                    });
                }
                None => cases.last_mut().expect("a file begins with a name").source.push_str(line),
            }
        }
    }
    cases
}

/// Returns Ruby's output or error for each case.
fn reference(cases: &[Case]) -> Vec<Result<Vec<u8>, String>> {
    // A process for all of them can take longer than a test may wait for one.
    const CASES_PER_PROCESS: usize = 50;
    cases.chunks(CASES_PER_PROCESS).flat_map(reference_from_one_process).collect()
}

fn reference_from_one_process(cases: &[Case]) -> Vec<Result<Vec<u8>, String>> {
    let input: Vec<Value> =
        cases.iter().map(|case| json!({"source": case.source, "context": case.context})).collect();
    let mut ruby = prepare("ruby")
        .arg(folder().join("reference.rb"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("ruby, which this test compares with, is not installed");
    let mut stdin = ruby.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(Value::Array(input).to_string().as_bytes()));
    let output = ruby.end_with_output();
    join("Ruby reads its input", writer).unwrap();
    assert!(output.status.success(), "reference.rb failed");
    let answers: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let read = |answer: Value| match answer["output"].as_str() {
        Some(output) => Ok(STANDARD.decode(output).unwrap()),
        None => Err(answer["error"].as_str().expect("an answer is an output or an error").to_owned()),
    };
    answers.into_iter().map(read).collect()
}

/// Returns a printable form of the output.
fn lossy_text<E>(result: &Result<Vec<u8>, E>) -> Result<std::borrow::Cow<'_, str>, &E> {
    result.as_ref().map(|output| String::from_utf8_lossy(output))
}

/// Compares the facts with the output of `facts.rb`. Only the same version of Ruby proves anything, because
/// other versions have other methods.
#[test]
fn method_facts_match_ruby() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/erb/evaluator/methods/names/facts.rb");
    let ruby = prepare("ruby")
        .arg("-W0")
        .arg(script)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ruby, which this test compares with, is not installed");
    let output = ruby.end_with_output();
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) {
        eprintln!("not compared: {complaint}");
        return;
    }
    assert!(output.status.success(), "facts.rb failed: {complaint}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "facts.rs and Ruby differ");
}

#[test]
fn templates_render_the_same_as_in_ruby() {
    let cases = corpus();
    assert!(cases.len() > 250, "only {} templates in the corpus", cases.len());
    let renderer = NativeRenderer::new();
    let context = Context::from_json(&context()).unwrap();
    let mut differences = Vec::new();
    for (case, expected) in cases.iter().zip(reference(&cases)) {
        let native = renderer.render(&case.name, &case.source, &context);
        let same = match (&native, &expected) {
            (Ok(ours), Ok(theirs)) => ours == theirs,
            (Err(RenderError::Template(_)), Err(_)) => true,
            _ => false,
        };
        if !same {
            let (ours, theirs) = (lossy_text(&native), lossy_text(&expected));
            differences.push(format!("{}\n  Ruby:   {theirs:?}\n  native: {ours:?}", case.name));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}
