//! What rendering 90 job templates costs: natively, through one Ruby process, and through one Ruby process for
//! each template, as upstream does it.
//!
//! ```sh
//! cargo bench --bench templates -- DIRECTORY
//! ```
//!
//! `DIRECTORY` has templates (all its files whose name ends in `.erb`, at any depth) and the `context.json` they
//! are rendered in. Without it, templates are made of the corpus of the differential test. Fewer than 90 are
//! used several times, each time a little different, so that none is known already. Templates that fail in the
//! context, natively or in Ruby, are left out, and what is left must come out of both alike.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::panic, reason = "a benchmark that cannot run stops")]
#![expect(clippy::disallowed_methods, reason = "Ruby is found as the user would find it")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use monopile::template::native::NativeRenderer;
use monopile::template::ruby::RubyRenderer;
use monopile::template::{Context, Renderer};

const TEMPLATES: usize = 90;
/// The size of a template made of the corpus, in bytes: the average of the director's is below.
const SIZE: usize = 2048;
const ROUNDS: usize = 5;

fn main() {
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).map(PathBuf::from);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/templates");
    let context = read(&given.as_ref().unwrap_or(&corpus).join("context.json"));
    let context = serde_json::from_str(&context).unwrap_or_else(|error| panic!("context.json: {error}"));
    let context = Context::from_json(&context).unwrap_or_else(|error| panic!("{error:?}"));
    let pieces = match &given {
        Some(directory) => files(directory).iter().map(|file| read(file)).collect(),
        None => corpus_pieces(&corpus),
    };
    let (pieces, left_out) = usable(pieces, &context);
    // Pieces that are well alone may not be behind one another: what one assigns, the next may call.
    let (templates, unfit) = usable(fill(&pieces, if given.is_some() { 0 } else { SIZE }), &context);
    let bytes: usize = templates.iter().map(String::len).sum();
    println!(
        "{} templates, {} KiB, of {} different ones ({left_out} left out, {unfit} of {TEMPLATES} do not fit together)",
        templates.len(),
        bytes / 1024,
        pieces.len()
    );

    let ruby = || RubyRenderer::start(&environment()).unwrap_or_else(|error| panic!("{error:?}"));
    let mut native_runs = Vec::new();
    let mut one_runs = Vec::new();
    let mut each_runs = Vec::new();
    for _ in 0..ROUNDS {
        // A new renderer each time: it has parsed nothing yet.
        let (native_output, took) = timed(|| render_all(&NativeRenderer::new(), &templates, &context));
        native_runs.push(took);
        let (ruby_output, took) = timed(|| render_all(&ruby(), &templates, &context));
        one_runs.push(took);
        assert!(native_output == ruby_output, "native output differs from Ruby's");
        let (_, took) = timed(|| {
            for template in &templates {
                render_all(&ruby(), std::slice::from_ref(template), &context);
            }
        });
        each_runs.push(took);
    }
    let native = report("native", native_runs);
    let one = report("one Ruby process", one_runs);
    let each = report("one Ruby process per template", each_runs);
    println!("native is {:.0} times as fast as one Ruby process", one.as_secs_f64() / native.as_secs_f64());
    println!(
        "native is {:.0} times as fast as one Ruby process per template",
        each.as_secs_f64() / native.as_secs_f64()
    );
}

fn render_all(renderer: &dyn Renderer, templates: &[String], context: &Context) -> Vec<Vec<u8>> {
    let render = |template: &String| {
        renderer.render("bench.erb", template, context).unwrap_or_else(|error| panic!("{error}\n{template}"))
    };
    templates.iter().map(render).collect()
}

/// The templates that both renderers take, and the number of the others.
fn usable(templates: Vec<String>, context: &Context) -> (Vec<String>, usize) {
    let native = NativeRenderer::new();
    let ruby = RubyRenderer::start(&environment()).unwrap_or_else(|error| panic!("{error:?}"));
    let count = templates.len();
    let both = |template: &String| {
        native.render("bench.erb", template, context).is_ok()
            && ruby.render("bench.erb", template, context).is_ok()
    };
    let usable: Vec<String> = templates.into_iter().filter(both).collect();
    assert!(!usable.is_empty(), "no template renders in this context");
    let left_out = count - usable.len();
    (usable, left_out)
}

/// As many templates as are measured, each of as many pieces as it takes to reach `size` bytes.
fn fill(pieces: &[String], size: usize) -> Vec<String> {
    let mut next = pieces.iter().cycle();
    (0..TEMPLATES)
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

/// The templates of the corpus that can stand one after the other: those that define nothing for good.
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
    let lasting = ["def ", "class ", "module ", "return", "freeze", "spec.", "properties", "local_variables"];
    pieces.retain(|piece: &String| !lasting.iter().any(|word| piece.contains(word)));
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

fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = run();
    (value, start.elapsed())
}

fn report(name: &str, mut runs: Vec<Duration>) -> Duration {
    runs.sort_unstable();
    let median = runs[runs.len() / 2];
    println!("{name}: median {median:.2?}, fastest {:.2?}, slowest {:.2?}", runs[0], runs[runs.len() - 1]);
    median
}
