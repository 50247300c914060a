//! Measures the life of an environment: creating it, changing it in several ways, and changing nothing. With
//! `bosh` beside it, which deploys the same manifest with the same CPI and agent.

use std::path::Path;
use std::process::Command;

use super::Row;
use crate::Suite;
use crate::findings::{Candidate, Findings, Sample, Unit, measure_interleaved};
use crate::fixtures;
use crate::process;
use crate::support::bosh;
use crate::support::hello::Hello;
use crate::support::tarballs::{JobTarball, ReleaseTarball};

pub(super) const ROW: Row = Row {
    name: "lifecycle",
    work: "one job: create, change a property, replace the VM, enlarge the disk, change nothing",
    measure,
};

/// Starts and stops the process of the job.
const CONTROL: &str = "#!/bin/bash
pidfile=/var/vcap/sys/run/sleeper/sleeper.pid
case $1 in
start)
    mkdir -p \"${pidfile%/*}\"
    echo $$ >\"$pidfile\"
    exec sleep infinity
    ;;
stop) kill \"$(<\"$pidfile\")\" && rm \"$pidfile\" ;;
esac
";
const MONIT: &str = "check process sleeper
  with pidfile /var/vcap/sys/run/sleeper/sleeper.pid
  start program \"/var/vcap/jobs/sleeper/bin/control start\"
  stop program \"/var/vcap/jobs/sleeper/bin/control stop\"
  group vcap
";

/// A kind of change, and the factor by which monopile must be faster than `bosh`.
struct Change {
    name: &'static str,
    kind: ChangeKind,
    min_factor: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum ChangeKind {
    Creation,
    Property,
    Replacement,
    DiskGrowth,
    Nothing,
}

const CHANGES: [Change; 5] = [
    Change { name: "create the environment", kind: ChangeKind::Creation, min_factor: 3.0 },
    Change { name: "change a property", kind: ChangeKind::Property, min_factor: 5.0 },
    Change { name: "replace the VM", kind: ChangeKind::Replacement, min_factor: 3.0 },
    Change { name: "enlarge the disk", kind: ChangeKind::DiskGrowth, min_factor: 2.0 },
    Change { name: "change nothing", kind: ChangeKind::Nothing, min_factor: 1.5 },
];

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    let mut ours = Environment::new(None);
    let mut theirs = suite.bosh.as_deref().map(|bosh| Environment::new(Some(bosh)));
    for Change { name, kind, min_factor } in CHANGES {
        let our_name = format!("monopile: {name}");
        let mut candidates = vec![Candidate::new(&*our_name, || ours.measure(kind))];
        if let Some(theirs) = &mut theirs {
            candidates.push(Candidate::new(format!("bosh: {name}"), || theirs.measure(kind)));
        }
        let figures = measure_interleaved(&mut candidates, suite.rounds(5), (1, "1 job", Unit::Milliseconds));
        drop(candidates);
        let numbers: Vec<usize> = figures.into_iter().map(|figure| findings.add_figure(figure)).collect();
        if let [ours, theirs] = numbers[..] {
            findings.faster_than_bosh(&format!("{name}: "), ours, theirs, min_factor);
        }
    }
    ours.delete();
    match theirs {
        Some(theirs) => theirs.delete(),
        None => findings.note("bosh was not measured: BOSH_CLI names no binary"),
    }
    findings
}

/// An environment that one of the two programs deploys.
struct Environment<'s> {
    hello: Hello,
    /// The `bosh` binary, if that deploys it.
    bosh: Option<&'s Path>,
    /// The value of the property, and the number of MiB by which the disk is larger than at first.
    greeting: u32,
    growth: u32,
}

impl<'s> Environment<'s> {
    fn new(bosh: Option<&'s Path>) -> Self {
        let mut hello = fixtures::for_bosh(Hello::new());
        let job = JobTarball::new("sleeper")
            .spec("packages: []\nproperties:\n  greeting: {default: 0}\n")
            .template("control", "bin/control", CONTROL)
            .template("config.erb", "config/file", "<%= p('greeting') %>\n");
        let job = JobTarball { monit: MONIT.to_owned(), ..job };
        let release = ReleaseTarball::new("sleeper", "1").job(job).write(&hello.world.path("sleeper.tgz"));
        let stemcell = hello.world.path("stemcell.tgz");
        fixtures::write_local_stemcell(&stemcell, 0);
        fixtures::compress(&stemcell);
        hello.add_ops(
            "lifecycle.yml",
            &format!(
                "- {{type: replace, path: /resource_pools/name=vms/stemcell, value: {{url: 'file://{}'}}}}\n\
                 - {{type: replace, path: /releases/-, value: {{name: sleeper, url: 'file://{}'}}}}\n\
                 - {{type: replace, path: /instance_groups/name=hello/jobs, value: [{{name: sleeper, \
                 release: sleeper, properties: {{greeting: ((greeting))}}}}]}}\n\
                 - {{type: replace, path: /disk_pools/name=disks/disk_size, value: ((disk_size))}}\n",
                stemcell.display(),
                release.display()
            ),
        );
        let environment = Environment { hello, bosh, greeting: 0, growth: 0 };
        process::run(&mut environment.command("create-env"));
        environment
    }

    fn command(&self, name: &str) -> Command {
        let mut command = match self.bosh {
            Some(bosh) => bosh::command(bosh, &self.hello, name),
            None => self.hello.builtin_command(&[name], &["-n"]),
        };
        command.args(["-v", &format!("greeting={}", self.greeting)]);
        command.args(["-v", &format!("disk_size={}", 1024 + self.growth)]);
        command
    }

    /// Makes the change, and measures `create-env`.
    fn measure(&mut self, kind: ChangeKind) -> Sample {
        match kind {
            ChangeKind::Creation => self.delete(),
            ChangeKind::Property => self.greeting += 1,
            ChangeKind::DiskGrowth => self.growth += 1,
            ChangeKind::Replacement | ChangeKind::Nothing => {}
        }
        let mut command = self.command("create-env");
        if kind == ChangeKind::Replacement {
            command.arg("--recreate");
        }
        Sample::of(&process::run(&mut command))
    }

    fn delete(&self) {
        process::run(&mut self.command("delete-env"));
    }
}
