//! Measures the downtime of the hello environment's service while a property changes, in place and with a new
//! VM, and while a tag changes.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Row;
use crate::Suite;
use crate::findings::{Figure, Findings, Sample, Unit};
use crate::process;
use crate::support::hello::Hello;

pub(super) const ROW: Row = Row {
    name: "update",
    work: "a changed property, in place and with a new VM, and a changed tag",
    measure,
};

const VARIABLES: &str = "\
- type: replace
  path: /instance_groups/0/jobs/0/properties/greeting?
  value: ((greeting))
- {type: replace, path: /tags?/team, value: ((tag))}
";

/// The measured changes: the variable that changes, the strategy, and the name in the results.
const CHANGES: [(&str, &str, &str); 3] = [
    ("greeting", "in-place", "in place"),
    ("greeting", "recreate", "with a new VM"),
    ("tag", "in-place", "a tag"),
];

/// The values of the variables by name.
type Values = BTreeMap<&'static str, String>;

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    let mut hello = Hello::new();
    hello.add_ops("variables.yml", VARIABLES);
    let mut values = BTreeMap::from([("greeting", "first".to_owned()), ("tag", "first".to_owned())]);
    deploy(&hello, &values, "in-place");
    let mut changes: [Vec<[Sample; 2]>; 3] = Default::default();
    for round in 0..suite.rounds(7) {
        for ((variable, strategy, _), changes) in CHANGES.iter().zip(&mut changes) {
            values.insert(variable, format!("{strategy}-{round}"));
            changes.push(change(&hello, &values, strategy));
        }
    }
    let options = ["-n", "-v", "greeting=last", "-v", "tag=last"];
    hello.world.finish(hello.builtin_command(&["delete-env"], &options)).success();
    for ((_, _, name), changes) in CHANGES.iter().zip(&changes) {
        for (part, what) in ["the service is interrupted", "the command takes"].iter().enumerate() {
            let samples: Vec<Sample> = changes.iter().map(|change| change[part]).collect();
            findings.add_figure(Figure::new(
                &format!("{name}: {what}"),
                1,
                "one job",
                Unit::Milliseconds,
                &samples,
            ));
        }
    }
    findings
}

/// Returns the downtime of the service and the duration of the command.
fn change(hello: &Hello, values: &Values, strategy: &str) -> [Sample; 2] {
    let is_over = AtomicBool::new(false);
    let address: SocketAddr = format!("{}:8580", hello.ip()).parse().unwrap();
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (mut longest_outage, mut outage_start) = (Duration::ZERO, None);
            while !is_over.load(Ordering::SeqCst) {
                match TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok() {
                    true => outage_start = None,
                    false => {
                        longest_outage =
                            longest_outage.max(outage_start.get_or_insert_with(Instant::now).elapsed())
                    }
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            longest_outage
        });
        let run_time = deploy(hello, values, strategy);
        is_over.store(true, Ordering::SeqCst);
        let interruption = watch.join().unwrap().as_secs_f64() * 1000.0;
        [Sample { value: interruption, peak_kib: None }, run_time]
    })
}

fn deploy(hello: &Hello, values: &Values, strategy: &str) -> Sample {
    let [greeting, tag] = ["greeting", "tag"].map(|name| format!("{name}={}", values[name]));
    let options = ["-n", "-v", &greeting, "-v", &tag, "--update-strategy", strategy];
    Sample::of(&process::run(&mut hello.builtin_command(&["create-env"], &options)))
}
