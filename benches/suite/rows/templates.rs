//! Measures rendering of job templates: natively, through one Ruby process, and through one Ruby process per
//! template like the bosh CLI.
//!
//! `--templates` names a directory with templates (all `.erb` files at any depth) and the `context.json` for
//! rendering them. Without it, templates are built from the corpus of the differential test. If there are too
//! few, they are reused with small differences, so that no renderer has seen them before. Templates that fail
//! in the context are left out, and both renderers must return the same text for the rest.

use std::path::{Path, PathBuf};
use std::time::Instant;

use erb::native::NativeRenderer;
use erb::ruby::RubyRenderer;
use erb::{Context, Renderer};

use super::Row;
use crate::Suite;
use crate::findings::{Candidate, Findings, Sample, Unit, measure_interleaved};
use crate::process;

pub(super) const ROW: Row =
    Row { name: "templates", work: "24, 96, 384 job templates, natively and by Ruby", measure };

const TEMPLATES: usize = 24;
/// The size in bytes of a template built from the corpus, near the average of the director's templates.
const SIZE: usize = 2048;

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    if process::find("ruby").is_none() {
        findings.note("there is no ruby to compare with");
        return findings;
    }
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/templates");
    let context = read(&suite.templates.as_ref().unwrap_or(&corpus).join("context.json"));
    let context = serde_json::from_str(&context).unwrap_or_else(|error| panic!("context.json: {error}"));
    let context = Context::from_json(&context).unwrap();
    let pieces = match &suite.templates {
        Some(directory) => files(directory).iter().map(|file| read(file)).collect(),
        None => corpus_pieces(&corpus),
    };
    let (pieces, left_out) = usable_templates(pieces, &context);
    for scale in [1, 4, 16] {
        // Pieces that work alone can fail together, because one may assign a name that the next one calls.
        let count = TEMPLATES * scale;
        let size = if suite.templates.is_some() { 0 } else { SIZE };
        let (templates, unfit) = usable_templates(fill(&pieces, count, size), &context);
        let bytes: usize = templates.iter().map(String::len).sum();
        findings.note(format!(
            "×{scale}: {} templates, {} KiB, of {} different ones ({left_out} left out, {unfit} of {count} \
             fail when joined)",
            templates.len(),
            bytes / 1024,
            pieces.len()
        ));
        let ruby = || RubyRenderer::start(&environment()).unwrap();
        let native = render_all(&NativeRenderer::new(), &templates, &context);
        assert!(native == render_all(&ruby(), &templates, &context), "native output differs from Ruby's");
        // Each measurement has a new renderer, which has parsed nothing yet.
        let mut candidates = vec![
            Candidate::new("native", || {
                time_call(|| drop(render_all(&NativeRenderer::new(), &templates, &context)))
            }),
            Candidate::new("one Ruby process", || {
                time_call(|| drop(render_all(&ruby(), &templates, &context)))
            }),
        ];
        if scale == 1 || !suite.is_quick && scale == 4 {
            candidates.push(Candidate::new("one Ruby process per template", || {
                time_call(|| {
                    for template in &templates {
                        render_all(&ruby(), std::slice::from_ref(template), &context);
                    }
                })
            }));
        }
        let scale_and_unit =
            (u32::try_from(scale).unwrap(), &*format!("{} templates", templates.len()), Unit::Milliseconds);
        for figure in measure_interleaved(&mut candidates, suite.rounds(3), scale_and_unit) {
            findings.add_figure(figure);
        }
    }
    let median = |what| findings.find(what, 4).map_or(f64::NAN, |(_, figure)| figure.median);
    let times = median("one Ruby process") / median("native");
    findings.note(format!("×4: native is {times:.0} times as fast as one Ruby process"));
    findings
}

fn render_all(renderer: &dyn Renderer, templates: &[String], context: &Context) -> Vec<Vec<u8>> {
    let render = |template: &String| {
        renderer.render("bench.erb", template, context).unwrap_or_else(|error| panic!("{error}\n{template}"))
    };
    templates.iter().map(render).collect()
}

/// Returns the templates that both renderers accept, and the number of the others.
fn usable_templates(templates: Vec<String>, context: &Context) -> (Vec<String>, usize) {
    let native = NativeRenderer::new();
    let ruby = RubyRenderer::start(&environment()).unwrap_or_else(|error| panic!("{error:?}"));
    let count = templates.len();
    let renders_with_both = |template: &String| {
        native.render("bench.erb", template, context).is_ok()
            && ruby.render("bench.erb", template, context).is_ok()
    };
    let usable_templates: Vec<String> = templates.into_iter().filter(renders_with_both).collect();
    assert!(!usable_templates.is_empty(), "no template renders in this context");
    let left_out = count - usable_templates.len();
    (usable_templates, left_out)
}

/// Builds `count` templates. Each has as many pieces as are needed to reach `size` bytes.
fn fill(pieces: &[String], count: usize, size: usize) -> Vec<String> {
    let mut next = pieces.iter().cycle();
    (0..count)
        .map(|number| {
            let mut template = format!("<%# {number} -%>\n");
            for piece in next.by_ref() {
                template.push_str(piece);
                if template.len() >= size {
                    break;
                }
            }
            template
        })
        .collect()
}

/// Returns the templates of the corpus that can be joined, because they leave no definitions behind.
fn corpus_pieces(corpus: &Path) -> Vec<String> {
    let mut pieces = Vec::new();
    for file in files(corpus) {
        for line in read(&file).split_inclusive('\n') {
            match (line.starts_with("#### "), pieces.last_mut()) {
                (true, _) => pieces.push(String::new()),
                (false, Some(piece)) => piece.push_str(line),
                (false, None) => {}
            }
        }
    }
    let lasting_words =
        ["def ", "class ", "module ", "return", "freeze", "spec.", "properties", "local_variables"];
    pieces.retain(|piece: &String| !lasting_words.iter().any(|word| piece.contains(word)));
    pieces
}

fn files(directory: &Path) -> Vec<PathBuf> {
    walkdir::WalkDir::new(directory)
        .sort_by_file_name()
        .into_iter()
        .map(|entry| entry.unwrap_or_else(|error| panic!("{error}")).into_path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "erb"))
        .collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn environment() -> Vec<(String, String)> {
    std::env::vars().filter(|(name, _)| name == "PATH").collect()
}

fn time_call(run: impl FnOnce()) -> Sample {
    let start = Instant::now();
    run();
    Sample { value: start.elapsed().as_secs_f64() * 1000.0, peak_kib: None }
}
