//! Counts the CPI processes of a run: `info`, and one for each required call.

use super::Row;
use super::hello::add_jobs;
use crate::Suite;
use crate::findings::{Figure, Findings, Sample, Unit};
use crate::support::hello::Hello;

pub(super) const ROW: Row = Row { name: "cpi-calls", work: "CPI processes started by a create-env", measure };

const FIRST: [&str; 7] = [
    "info",
    "create_stemcell",
    "create_vm",
    "set_vm_metadata",
    "create_disk",
    "attach_disk",
    "set_disk_metadata",
];
const RECREATE: [&str; 7] =
    ["info", "has_vm", "delete_vm", "create_vm", "set_vm_metadata", "attach_disk", "set_disk_metadata"];

fn measure(_: &Suite) -> Findings {
    let mut findings = Findings::default();
    for scale in [1, 4, 16] {
        let mut hello = Hello::new();
        add_jobs(&mut hello, scale - 1);
        let mut run = |what: &str, options: &[&str], required_methods: &[&str]| {
            hello.create(options).success();
            let requests = hello.take_requests();
            let methods = Hello::methods(&requests);
            let sample = Sample { value: methods.len() as f64, peak_kib: None };
            let size = format!("{scale} job(s)");
            let figure = Figure::new(what, u32::try_from(scale).unwrap(), &size, Unit::Count, &[sample]);
            let figure = findings.add_figure(figure);
            let must = format!("{what}: 1 `info` + one per needed call ({})", required_methods.len());
            if scale == 1 || methods != required_methods {
                findings.demand(&must, figure, None, methods == required_methods);
            }
        };
        run("first create-env", &[], &FIRST);
        run("nothing changed", &[], &[]);
        run("--recreate", &["-n", "--recreate"], &RECREATE);
        hello.delete(&[]).success();
    }
    findings
}
