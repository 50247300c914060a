//! A differential fuzzer: generated expressions, evaluated natively and in one Ruby process.
//!
//! The default run has [`BATCH`] expressions of a fixed seed. With `MONOPILE_FUZZ_SECONDS`, which
//! `tests/run --fuzz` sets, batches of a new seed are compared for that long. `MONOPILE_FUZZ_SEED` repeats a
//! run; the seed is printed. Expressions that are not supported natively are no difference, but most must be
//! supported.

mod generator;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use erb::native::{Limits, NativeRenderer};
use erb::{Context, RenderError, Renderer};
use serde_json::{Value, json};

use crate::support::number_from_environment;
use crate::support::process::{WaitForEnd, join, prepare};
use generator::Generator;

/// The number of expressions that one Ruby process evaluates.
const BATCH: usize = 1500;

/// Expressions whose native values once differed from Ruby's. A line that starts with `unsupported:` is one
/// that the native renderer does not support.
const REGRESSIONS: &str = include_str!("regressions.txt");

/// A value as `inspect` shows it, or the class of an exception.
type Outcome = Result<String, String>;

#[test]
fn regression_expressions_match_ruby() {
    let lines: Vec<&str> =
        REGRESSIONS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let sources: Vec<&str> =
        lines.iter().map(|line| line.strip_prefix("unsupported: ").unwrap_or(line)).collect();
    let native = Native::new();
    let mut differences = Vec::new();
    for ((line, source), expected) in lines.iter().zip(&sources).zip(values_of_ruby(&sources)) {
        let value = native.evaluate(source);
        let same = match &value {
            None => line.starts_with("unsupported:"),
            Some(value) => *value == expected,
        };
        if !same {
            differences.push(format!("{line}\n  Ruby:   {expected:?}\n  native: {value:?}"));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn generated_expressions_match_ruby() {
    let duration = number_from_environment("MONOPILE_FUZZ_SECONDS").map(Duration::from_secs);
    let seed = number_from_environment("MONOPILE_FUZZ_SEED").unwrap_or_else(|| match duration {
        Some(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_secs(),
        None => 1,
    });
    let start = Instant::now();
    let native = Native::new();
    let mut generator = Generator::new(seed);
    let mut differences = BTreeMap::new();
    let (mut compared_count, mut unsupported_count) = (0, 0);
    loop {
        let expressions: Vec<_> = (0..BATCH).map(|_| generator.expression()).collect();
        let sources: Vec<&str> = expressions.iter().map(|expression| expression.source.as_str()).collect();
        for (expression, expected) in expressions.iter().zip(values_of_ruby(&sources)) {
            compared_count += 1;
            let Some(value) = native.evaluate(&expression.source) else {
                unsupported_count += 1;
                continue;
            };
            // What Ruby cannot parse or finish has no value to compare with.
            let unknown = ["SyntaxError", "too much"];
            let same = match (&value, &expected) {
                (_, Err(class)) if unknown.contains(&class.as_str()) => true,
                (Err(_), _) | (_, Err(_)) if expression.has_any_arguments => true,
                _ => value == expected,
            };
            if same {
                continue;
            }
            // The shortest difference of each call is shown.
            let text = format!("{}\n  Ruby:   {expected:?}\n  native: {value:?}", expression.source);
            let shortest = differences.entry(expression.call.clone()).or_insert_with(|| text.clone());
            if text.len() < shortest.len() {
                *shortest = text;
            }
        }
        if duration.is_none_or(|duration| start.elapsed() >= duration) {
            break;
        }
    }
    eprintln!(
        "MONOPILE_FUZZ_SEED={seed}: {compared_count} expressions, {unsupported_count} of them not supported"
    );
    assert!(
        unsupported_count * 5 < compared_count,
        "{unsupported_count} of {compared_count} expressions are not supported"
    );
    let differing_calls: Vec<&str> = differences.values().map(String::as_str).collect();
    let count = differing_calls.len();
    assert!(
        differing_calls.is_empty(),
        "MONOPILE_FUZZ_SEED={seed}: {count} calls differ:\n{}",
        differing_calls.join("\n")
    );
}

/// The native renderer, with less memory than by default.
struct Native {
    renderer: NativeRenderer,
    context: Context,
}

impl Native {
    fn new() -> Native {
        // On a busy machine, a match takes long and counts as many steps.
        let limits = Limits { memory: 64 << 20, stack: 32 << 20, ..Limits::default() };
        let context = Context::from_json(&json!({"default_properties": {}})).unwrap();
        Native { renderer: NativeRenderer::with_limits(limits), context }
    }

    /// Evaluates an expression. Returns `None` if it is not supported, or exceeds a limit.
    fn evaluate(&self, source: &str) -> Option<Outcome> {
        let template = format!("<%= ({source}).inspect %>");
        match self.renderer.render("generated.erb", &template, &self.context) {
            Ok(text) => Some(Ok(String::from_utf8_lossy(&text).into_owned())),
            Err(RenderError::Template(error)) => Some(Err(error.class)),
            Err(RenderError::Unsupported { .. } | RenderError::Limit { .. }) => None,
            Err(error) => Some(Err(error.to_string())),
        }
    }
}

/// Returns the values that Ruby has for expressions.
fn values_of_ruby(sources: &[&str]) -> Vec<Outcome> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/template/differential/reference.rb");
    let mut ruby = prepare("ruby")
        .args([Path::new("-W0"), &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("ruby, which this test compares with, is not installed");
    let mut stdin = ruby.stdin.take().unwrap();
    let input = json!(sources).to_string();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = ruby.end_with_output();
    join("Ruby reads its input", writer).unwrap();
    assert!(output.status.success(), "reference.rb failed");
    let outcomes: Vec<Outcome> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let answer: Value = serde_json::from_str(line).unwrap();
            let text = |key: &str| answer[key].as_str().map(str::to_owned);
            text("value").ok_or_else(|| text("error").expect("a value or an error"))
        })
        .collect();
    assert_eq!(outcomes.len(), sources.len(), "reference.rb answers each expression");
    outcomes
}
