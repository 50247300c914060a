//! The results as Markdown.

use std::fmt::Write as _;

use super::{machine, plot, plot_name};
use crate::Suite;
use crate::findings::{Check, Figure, Findings};
use crate::process;
use crate::rows::Row;

/// Returns the complete report.
pub(super) fn markdown(suite: &Suite, results: &[(&Row, Findings)]) -> String {
    let mut text = format!("# What monopile costs\n\nMeasured on {}.\n", machine());
    if suite.is_quick {
        text.push_str("\n**With `--quick`: at a sixteenth of the sizes, so the bars say little.**\n");
    }
    if process::find("valgrind").is_none() {
        text.push_str("\nInstructions were not counted: there is no valgrind.\n");
    }
    text.push_str(
        "\n## What must be reached\n\n\
         | work | must reach | measured (median) | spread | ratio | memory | instructions | |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (row, findings) in results {
        findings
            .checks
            .iter()
            .for_each(|check| text.push_str(&check_row(row, check, &findings.figures[check.figure])));
    }
    text.push_str("\n## How it grows\n");
    for (row, findings) in results {
        write!(text, "\n### {}: {}\n\n", row.name, row.work).unwrap();
        text.push_str("| | ×1 | ×4 | ×16 | memory | ×16 / ×1 |\n|---|---|---|---|---|---|\n");
        let mut names: Vec<&str> = Vec::new();
        for figure in &findings.figures {
            if !names.contains(&figure.name.as_str()) {
                names.push(&figure.name);
                text.push_str(&growth_row(findings, &figure.name));
            }
        }
        if plot::growth(row.work, findings).is_some() {
            write!(text, "\n![{}]({})\n", row.name, plot_name(row)).unwrap();
        }
        for note in &findings.notes {
            write!(text, "\n- {note}").unwrap();
        }
        if !findings.notes.is_empty() {
            text.push('\n');
        }
    }
    text
}

fn check_row(row: &Row, check: &Check, figure: &Figure) -> String {
    let (median, spread) = figure.median_and_spread();
    let ratio = check.ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
    let pass = if check.is_met { "pass" } else { "**fail**" };
    let work = format!("{}: {} ({})", row.name, figure.name, figure.size);
    format!(
        "| {} | {} | {median} | {spread} | {ratio} | {} | {} | {pass} |\n",
        cell(work.trim_end_matches(" ()")),
        cell(&check.must),
        memory(figure.peak_kib),
        instructions(figure.instructions),
    )
}

/// Returns a table row with one measurement at all its sizes.
fn growth_row(findings: &Findings, what: &str) -> String {
    let figure_at = |scale| findings.find(what, scale).map(|(_, figure)| figure);
    let mut line = format!("| {} |", cell(what));
    for scale in [1, 4, 16] {
        let text = figure_at(scale).map_or("–".to_owned(), |figure| {
            let (median, spread) = figure.median_and_spread();
            let instruction_count =
                figure.instructions.map(|count| format!(", {}", instructions(Some(count))));
            format!("{median} ({spread}){} · {}", instruction_count.unwrap_or_default(), figure.size)
        });
        write!(line, " {} |", cell(text.replace(" (–)", "").trim_end_matches(" · "))).unwrap();
    }
    let peak = [1, 4, 16].into_iter().filter_map(figure_at).filter_map(|figure| figure.peak_kib).max();
    let growth = figure_at(1).zip(figure_at(16)).map(|(small, large)| large.median / small.median);
    let growth =
        growth.filter(|growth| growth.is_finite()).map_or("–".to_owned(), |growth| format!("{growth:.1}"));
    writeln!(line, " {} | {growth} |", memory(peak)).unwrap();
    line
}

fn memory(kib: Option<u64>) -> String {
    kib.map_or("–".to_owned(), |kib| format!("{:.1} MiB", kib as f64 / 1024.0))
}

fn instructions(count: Option<u64>) -> String {
    count.map_or("–".to_owned(), |count| format!("{:.1} M instr.", count as f64 / 1e6))
}

/// Escapes the text of a cell, because a bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
