//! Measures many packages in a deep graph, many jobs with many templates, and a CPI that takes no time.

use std::fmt::Write as _;

use serde_json::Value;

use super::{MEMORY_KIB, Row};
use crate::Suite;
use crate::findings::{Figure, Findings, Sample, Unit};
use crate::fixtures::{Timings, run_with_events};
use crate::process;
use crate::support::hello::Hello;
use crate::support::tarballs::{JobTarball, PackageTarball, ReleaseTarball};
use crate::worker;

pub(crate) const ROW: Row =
    Row { name: "packages", work: "200 packages in a deep graph, 60 jobs with 300 templates", measure };

/// The scale, the number of packages, and the levels of the graph.
const GRAPHS: [(u32, usize, usize); 3] = [(1, 50, 10), (4, 200, 20), (16, 800, 40)];
/// The scale at which the limits apply.
const JUDGED: u32 = 4;
const TEMPLATES_OF_A_JOB: usize = 5;
/// The number of bytes of noise in a package's source, in addition to its script.
const CONTENT: usize = 32 << 10;
/// The cheapest packaging script, so that only the work around it is measured.
const PACKAGING: &str = "cp data \"$BOSH_INSTALL_TARGET/\"\n";
/// The factor by which own work may outgrow the number of bytes, to allow for noise.
const TOLERANCE: f64 = 1.15;

const WORK_WHEN_COMPILING: &str = "own work, compiling all";
const WORK_WHEN_CACHED: &str = "own work, all cached";
const TASKS: &str = "tasks of the agent, all cached";
/// The factor by which the time of the agent's tasks may grow from ×4 to ×16.
const TASK_GROWTH: f64 = 4.5;

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    let mut uploaded_bytes = Vec::new();
    for (scale, packages, levels) in GRAPHS {
        let (packages, levels) = if suite.is_quick { (packages / 8, levels / 2) } else { (packages, levels) };
        let jobs = (packages * 3).div_ceil(10);
        let hello = environment(packages, levels, jobs);
        let size = format!(
            "{packages} packages, {levels} levels, {jobs} jobs, {} templates",
            jobs * TEMPLATES_OF_A_JOB
        );
        let mut samples: [Vec<Sample>; 4] = Default::default();
        let mut tasks = Vec::new();
        let mut add = |which: usize, events: &[Value], peak: u64| {
            let timings = Timings::of(events);
            let values = [timings.get("own_ms"), timings.get("total_ms")];
            for (samples, value) in samples[which..].iter_mut().zip(values) {
                samples.push(Sample { value, peak_kib: Some(peak) });
            }
            timings
        };
        for round in 0..suite.rounds(if scale == 16 { 3 } else { 5 }) {
            let options: &[&str] = if round == 0 { &["-n"] } else { &["-n", "--recreate"] };
            let _ = std::fs::remove_dir_all(hello.world.home().join(".cache/monopile/compiled"));
            let (cost, events) = run_with_events(&hello, hello.builtin_command(&["create-env"], options));
            let cold = add(0, &events, cost.peak_kib);
            let (cost, events_cached) =
                run_with_events(&hello, hello.builtin_command(&["create-env"], &["-n", "--recreate"]));
            let warm = add(2, &events_cached, cost.peak_kib);
            tasks.push(Sample { value: warm.get("agent_task_ms"), peak_kib: None });
            if round == 0 {
                uploaded_bytes.push(cold.get("bytes_sent"));
                findings.note(format!("×{scale}, compiling: {}", cold.sentence()));
                findings.note(format!("×{scale}, cached: {}", warm.sentence()));
                check_order(&mut findings, scale, &events, &cold);
            }
        }
        hello.world.finish(hello.builtin_command(&["delete-env"], &["-n", "--skip-drain"])).success();
        let names =
            [WORK_WHEN_COMPILING, "all of it, compiling all", WORK_WHEN_CACHED, "all of it, all cached"];
        for (what, samples) in names.iter().zip(&samples).chain([(&TASKS, &tasks)]) {
            findings.add_figure(Figure::new(what, scale, &size, Unit::Milliseconds, samples));
        }
    }
    judge(&mut findings, &uploaded_bytes);
    findings
}

fn judge(findings: &mut Findings, uploaded_bytes: &[f64]) {
    let bytes = uploaded_bytes[uploaded_bytes.len() - 1] / uploaded_bytes[0];
    for what in [WORK_WHEN_COMPILING, WORK_WHEN_CACHED] {
        let median = |scale| findings.find(what, scale).map_or(f64::NAN, |(_, figure)| figure.median);
        let growth = median(16) / median(1);
        let Some((number, _)) = findings.find(what, JUDGED) else { continue };
        let must = format!("{what}: linear in bytes (×{bytes:.1} the bytes: ×{growth:.1})");
        findings.demand(&must, number, Some(growth / bytes), growth <= bytes * TOLERANCE);
    }
    let median = |scale| findings.find(TASKS, scale).map_or(f64::NAN, |(_, figure)| figure.median);
    if let Some((number, _)) = findings.find(TASKS, 16) {
        let growth = median(16) / median(4);
        let must = format!("{TASKS}: at most {TASK_GROWTH} times the time of ×4 (×{growth:.1})");
        findings.demand(&must, number, Some(growth / TASK_GROWTH), growth <= TASK_GROWTH);
    }
    if let Some((number, figure)) = findings.find(WORK_WHEN_COMPILING, JUDGED) {
        let peak = figure.peak_kib.unwrap_or_default();
        findings.demand("under 64 MiB", number, Some(peak as f64 / MEMORY_KIB as f64), peak <= MEMORY_KIB);
    }
}

/// Checks when packages were sent and when they were compiled.
fn check_order(findings: &mut Findings, scale: u32, events: &[Value], timings: &Timings) {
    let uploads = stretches(events, "Uploading package ");
    let compilations = stretches(events, "Compiling package ");
    let (Some(last_upload_end), Some(first_compilation_start)) =
        (uploads.iter().map(|(_, end)| end).max(), compilations.iter().map(|(begin, _)| begin).min())
    else {
        return findings.note(format!("×{scale}: nothing was uploaded or compiled"));
    };
    let at_once = uploads.iter().filter(|(_, end)| end > first_compilation_start).count();
    let critical_path_ms = timings.get("packages_critical_path_ms");
    findings.note(format!(
        "×{scale}: {at_once} of {} uploads ended after the first compilation had begun, the last \
         {last_upload_end} ms into the run, the compilation {first_compilation_start} ms; packages took {} \
         ms, their critical path {critical_path_ms} ms",
        uploads.len(),
        timings.get("packages_ms"),
    ));
    if scale == JUDGED {
        let value = |value: f64| [Sample { value, peak_kib: None }];
        let overlap =
            Figure::new("uploads while others compile", scale, "", Unit::Count, &value(at_once as f64));
        let overlap = findings.add_figure(overlap);
        findings.demand("compile requests overlap uploads", overlap, None, at_once > 0);
        let path = Figure::new(
            "critical path of the packages",
            scale,
            "",
            Unit::Milliseconds,
            &value(critical_path_ms),
        );
        let path = findings.add_figure(path);
        findings.demand("critical path reported", path, None, critical_path_ms > 0.0);
    }
}

/// Returns the start and end of the stages whose names begin with `name`, in milliseconds since the first
/// event of the run.
fn stretches(events: &[Value], name: &str) -> Vec<(i64, i64)> {
    let time = |event: &Value| {
        let text = event["time"].as_str().unwrap();
        let format = &time::format_description::well_known::Rfc3339;
        (time::OffsetDateTime::parse(text, format).unwrap().unix_timestamp_nanos() / 1_000_000) as i64
    };
    let origin = time(&events[0]);
    let is_such = |event: &&Value| {
        event["event"] == "stage_started"
            && event["name"].as_str().is_some_and(|stage| stage.starts_with(name))
    };
    let end = |begin: &Value| {
        let ends = |event: &&Value| event["event"] == "stage_finished" && event["id"] == begin["id"];
        events.iter().find(ends).map_or(i64::MAX, &time)
    };
    events.iter().filter(is_such).map(|begin| (time(begin) - origin, end(begin) - origin)).collect()
}

fn environment(packages: usize, levels: usize, jobs: usize) -> Hello {
    let mut hello = Hello::new();
    let path = hello.world.path("release.tgz");
    // A separate process builds it, because the memory of this process counts for all processes that it
    // starts.
    let sizes = [packages, levels, jobs].map(|size| size.to_string());
    process::run(worker::command("release-of-packages").arg(&path).args(sizes));
    let mut group = String::new();
    for number in 0..jobs {
        write!(group, "{{name: job{number:03}, release: many}}, ").unwrap();
    }
    hello.add_ops(
        "many.yml",
        &format!(
            "- {{type: replace, path: /releases, value: [{{name: many, url: 'file://{}'}}]}}\n\
             - {{type: replace, path: /instance_groups/name=hello/jobs, value: [{group}]}}\n\
             - {{type: replace, path: /instance_groups/name=hello/properties?, value: {{greeting: Ahoy}}}}\n",
            path.display()
        ),
    );
    hello
}

/// Returns a release with these numbers of packages, levels and jobs.
pub(crate) fn release(packages: usize, levels: usize, jobs: usize) -> ReleaseTarball {
    let mut release = ReleaseTarball::new("many", "1");
    let width = packages.div_ceil(levels);
    let name = |number: usize| format!("p{number:04}");
    for number in 0..packages {
        let dependencies: Vec<String> = match number / width {
            0 => Vec::new(),
            level => (0..3).map(|step| name((level - 1) * width + (number + step) % width)).collect(),
        };
        let mut dependencies: Vec<&str> = dependencies.iter().map(String::as_str).collect();
        dependencies.sort_unstable();
        dependencies.dedup();
        let mut noise = String::with_capacity(CONTENT);
        let mut random = number as u64 + 1;
        while noise.len() < CONTENT {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            write!(noise, "{:x}", random >> 16).unwrap();
        }
        release = release
            .package(PackageTarball::new(&name(number), PACKAGING, &dependencies).file("data", &noise));
    }
    for number in 0..jobs {
        let job_packages: Vec<String> = (number..packages).step_by(jobs).map(name).collect();
        let mut job = JobTarball::new(&format!("job{number:03}")).spec(&format!(
            "packages: [{}]\nproperties:\n  greeting: {{default: Hello}}\n",
            job_packages.join(", ")
        ));
        for template in 0..TEMPLATES_OF_A_JOB {
            let text = "<% p('greeting').each_char do |letter| %><%= letter %>,<% end %> <%= spec.ip %>\n";
            job = job.template(&format!("t{template}.erb"), &format!("config/t{template}"), text);
        }
        job.monit = String::new();
        release = release.job(job);
    }
    release
}
