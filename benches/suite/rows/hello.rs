//! Measures a new VM for the hello environment with a full cache: the time outside the CPI and the agent.

use super::{MEMORY_KIB, Row};
use crate::Suite;
use crate::findings::{Figure, Findings, Sample, Unit};
use crate::fixtures::{Timings, run_with_events};
use crate::support::hello::Hello;
use crate::support::tarballs::{JobTarball, ReleaseTarball};

pub(super) const ROW: Row =
    Row { name: "hello", work: "the hello environment, everything cached: `create-env --recreate`", measure };

const OURS: &str = "own work and waiting";

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    for scale in [1, 4, 16] {
        let mut hello = Hello::new();
        add_jobs(&mut hello, scale - 1);
        run_with_events(&hello, hello.builtin_command(&["create-env"], &["-n"]));
        let mut samples: [Vec<Sample>; 4] = Default::default();
        let mut sentence = String::new();
        for _ in 0..suite.rounds(if scale == 1 { 11 } else { 5 }) {
            let (cost, events) =
                run_with_events(&hello, hello.builtin_command(&["create-env"], &["-n", "--recreate"]));
            let timings = Timings::of(&events);
            let agent = timings.get("agent_ms") + timings.get("agent_task_ms");
            let values = [timings.overhead(), timings.get("cpi_ms"), agent, timings.get("total_ms")];
            for (samples, value) in samples.iter_mut().zip(values) {
                samples.push(Sample { value, peak_kib: Some(cost.peak_kib) });
            }
            sentence = timings.sentence();
        }
        hello.world.finish(hello.builtin_command(&["delete-env"], &["-n"])).success();
        let size = format!("{scale} job(s)");
        let number = u32::try_from(scale).unwrap();
        for (what, samples) in [OURS, "CPI", "agent and its tasks", "all of it"].iter().zip(&samples) {
            findings.add_figure(Figure::new(what, number, &size, Unit::Milliseconds, samples));
        }
        findings.note(format!("×{scale}, the last run: {sentence}"));
    }
    findings.at_most("own work and waiting under 0.2 s", 0, 200.0);
    let peak = findings.figures[0].peak_kib.unwrap_or_default();
    findings.demand("under 64 MiB", 0, Some(peak as f64 / MEMORY_KIB as f64), peak <= MEMORY_KIB);
    findings
}

/// Adds jobs that are rendered and sent but run no process.
pub(super) fn add_jobs(hello: &mut Hello, count: usize) {
    if count == 0 {
        return;
    }
    let mut release = ReleaseTarball::new("more", "1");
    let mut ops = String::new();
    for number in 0..count {
        let mut job = JobTarball::new(&format!("more{number}"))
            .spec("packages: []\nproperties:\n  greeting: {default: Hello}\n")
            .template("config.erb", "config/file", "<%= p('greeting') %> <%= spec.ip %>\n");
        job.monit = String::new();
        release = release.job(job);
        ops += &format!(
            "- {{type: replace, path: /instance_groups/name=hello/jobs/-, value: {{name: more{number}, \
                release: more}}}}\n"
        );
    }
    let path = release.write(&hello.world.path("more.tgz"));
    let release = format!("{{name: more, url: 'file://{}'}}", path.display());
    hello.add_ops("more.yml", &format!("- {{type: replace, path: /releases/-, value: {release}}}\n{ops}"));
}
