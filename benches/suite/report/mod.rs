//! Writes the results: a Markdown table, JSON, and a plot for each row measured at several sizes.

mod plot;
mod table;

use std::fs;

use serde_json::json;

use crate::Suite;
use crate::findings::Findings;
use crate::rows::Row;

/// The name of the file with the table.
pub(crate) const TABLE_FILE: &str = "results.md";
const JSON_FILE: &str = "results.json";

/// Writes the results so far.
pub(crate) fn write(suite: &Suite, results: &[(&Row, Findings)]) {
    fs::write(suite.output_directory.join(TABLE_FILE), table::markdown(suite, results)).unwrap();
    let rows: Vec<_> = results
        .iter()
        .map(|(row, findings)| json!({"name": row.name, "work": row.work, "findings": findings}))
        .collect();
    let all = json!({"quick": suite.is_quick, "machine": machine(), "rows": rows});
    fs::write(suite.output_directory.join(JSON_FILE), serde_json::to_string_pretty(&all).unwrap()).unwrap();
    for (row, findings) in results {
        if let Some(plot) = plot::growth(row.work, findings) {
            fs::write(suite.output_directory.join(plot_name(row)), plot).unwrap();
        }
    }
}

fn plot_name(row: &Row) -> String {
    format!("{}.svg", row.name)
}

/// Describes the machine.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = read("/proc/loadavg");
    format!(
        "{} cores, {}, Linux {}, load {} at the end",
        cores,
        model.trim_start_matches([':', ' ', '\t']),
        read("/proc/sys/kernel/osrelease").trim(),
        load.split(' ').next().unwrap_or_default()
    )
}
