//! Measures blob transfers to and from the built-in agent, with the program's client and with curl.

use std::path::Path;
use std::process::Command;

use super::{MEMORY_KIB, Row};
use crate::Suite;
use crate::findings::{Candidate, Findings, Sample, Unit, measure_interleaved};
use crate::fixtures::{self, run_with_events};
use crate::process;
use crate::support::hello::Hello;
use crate::worker;

pub(super) const ROW: Row =
    Row { name: "blobs", work: "a blob of 512 MiB to the agent and back, on loopback", measure };

const BLOB: u64 = 512 << 20;
/// The share of curl's throughput that the client must reach.
const SHARE: f64 = 0.8;

const DIRECTIONS: [(&str, &str); 2] = [("upload", "curl -T"), ("download", "curl -o")];

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    let Some(curl) = process::find("curl") else {
        findings.note("there is no curl to compare with");
        return findings;
    };
    let hello = Hello::new();
    run_with_events(&hello, hello.builtin_command(&["create-env"], &["-n"]));
    let server = Server::of(&hello, &curl);
    let directory = fixtures::fresh(suite, "blobs");
    for scale in [1, 4, 16] {
        let bytes = suite.size(BLOB) / 16 * u64::from(scale);
        let file = directory.join("file");
        process::run(worker::command("write").arg(&file).arg(bytes.to_string()));
        server.curl_put(&file, "there");
        let back = directory.join("back");
        let rate =
            |sample: Sample| Sample { value: bytes as f64 / 1048576.0 / (sample.value / 1000.0), ..sample };
        let mut candidates = [
            Candidate::new(DIRECTIONS[0].0, || rate(server.put(&file, "put"))),
            Candidate::new(DIRECTIONS[0].1, || rate(server.curl_put(&file, "put"))),
            Candidate::new(DIRECTIONS[1].0, || rate(server.get("there", &back))),
            Candidate::new(DIRECTIONS[1].1, || rate(server.curl_get("there", &back))),
        ];
        let size = format!("{} MiB", bytes >> 20);
        for figure in
            measure_interleaved(&mut candidates, suite.rounds(7), (scale, &size, Unit::MibPerSecond))
        {
            findings.add_figure(figure);
        }
    }
    hello.world.finish(hello.builtin_command(&["delete-env"], &["-n"])).success();
    std::fs::remove_dir_all(directory).unwrap();
    for (ours, curls) in DIRECTIONS {
        let (Some((number, figure)), Some((_, other))) = (findings.find(ours, 16), findings.find(curls, 16))
        else {
            continue;
        };
        let (ratio, peak) = (figure.median / other.median, figure.peak_kib.unwrap_or_default());
        findings.demand(
            &format!("{ours}: at least 80 % of curl's rate"),
            number,
            Some(ratio),
            ratio >= SHARE,
        );
        let share_of_limit = peak as f64 / MEMORY_KIB as f64;
        findings.demand(
            &format!("{ours}: streamed, under 64 MiB"),
            number,
            Some(share_of_limit),
            peak <= MEMORY_KIB,
        );
    }
    findings
}

/// The agent of an environment with its credentials, and the path of curl.
struct Server<'a> {
    mbus: String,
    ca: String,
    curl: &'a Path,
}

impl<'a> Server<'a> {
    fn of(hello: &Hello, curl: &'a Path) -> Server<'a> {
        let creds: serde_yaml::Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
        let password = creds["mbus_bootstrap_password"].as_str().unwrap();
        let ca = hello.world.write("ca.pem", creds["mbus_bootstrap_ssl"]["ca"].as_str().unwrap());
        Server {
            mbus: format!("https://mbus:{password}@{}:6868", hello.ip()),
            ca: ca.display().to_string(),
            curl,
        }
    }

    fn put(&self, file: &Path, id: &str) -> Sample {
        Sample::of(&process::run(worker::command("put-blob").args([&self.mbus, &self.ca, id]).arg(file)))
    }

    fn get(&self, id: &str, destination: &Path) -> Sample {
        Sample::of(&process::run(
            worker::command("get-blob").args([&self.mbus, &self.ca, id]).arg(destination),
        ))
    }

    fn curl_put(&self, file: &Path, id: &str) -> Sample {
        Sample::of(&process::run(self.curl().arg("-T").arg(file).arg(format!("{}/blobs/{id}", self.mbus))))
    }

    fn curl_get(&self, id: &str, destination: &Path) -> Sample {
        Sample::of(&process::run(
            self.curl().arg("-o").arg(destination).arg(format!("{}/blobs/{id}", self.mbus)),
        ))
    }

    fn curl(&self) -> Command {
        let mut command = Command::new(self.curl);
        command.args(["--silent", "--show-error", "--fail", "--noproxy", "*", "--cacert", &self.ca]);
        command
    }
}
