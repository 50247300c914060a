//! Measures a first deployment in a model: a link of limited rate, a CPI that must be compiled and whose
//! calls take their usual times, and a VM that takes its time to boot.
//!
//! All sizes and durations are those of a usual director, divided by [`DIVISOR`]. The rates of the link are
//! real. The critical path is the duration of the model if work overlaps wherever the order of the steps
//! allows it, and the program needs no time of its own.

use std::sync::Arc;
use std::time::Duration;

use super::Row;
use crate::Suite;
use crate::findings::{Figure, Findings, Sample, Unit};
use crate::process;
use crate::support::MONOPILE;
use crate::support::hello::Hello;
use crate::support::http::{Server, part};
use crate::support::process::wait_until;
use crate::support::proxy::AgentProxy;
use crate::support::tarballs::{JobTarball, PackageTarball, ReleaseTarball, StemcellTarball, Tar, sha1};

pub(super) const ROW: Row =
    Row { name: "pipeline", work: "a first deployment at 10, 100 and 1,000 Mbit/s, in a model", measure };

/// The rates of the link, in Mbit/s.
const LINKS: [u32; 3] = [10, 100, 1000];
/// The divisor of all sizes and durations.
const DIVISOR: u32 = 20;
/// The limit of the elapsed time without own work, relative to the critical path.
const LIMIT: f64 = 1.05;

const STEMCELL_BYTES: usize = 500_000_000;
const CPI_RELEASE_BYTES: usize = 40_000_000;
const OTHER_RELEASE_BYTES: usize = 200_000_000;

const COMPILATION: Duration = Duration::from_secs(120);
const INFO: Duration = Duration::from_secs(2);
const CREATE_STEMCELL: Duration = Duration::from_secs(60);
const CREATE_VM: Duration = Duration::from_secs(30);
const BOOT: Duration = Duration::from_secs(40);

const OWN_WORK: &str = "own work: without waiting for link, CPI and boot";

/// The CPI: waits as the model says, and passes the request to the CPI `local`.
const CPI: &str = r#"#!/bin/bash
request=$(cat)
case $request in
*'"method":"info"'*) sleep INFO ;;
*'"method":"create_stemcell"'*) sleep CREATE_STEMCELL ;;
*'"method":"create_vm"'*) sleep CREATE_VM; created=yes ;;
esac
MONOPILE cpi-exec local --config "$BOSH_JOBS_DIR/model_cpi/config/cpi.json" <<<"$request"
[ -z "$created" ] || touch CREATED
"#;

/// Durations and the rate of the link.
struct Model {
    bytes_per_second: f64,
    compilation: Duration,
    info: Duration,
    create_stemcell: Duration,
    create_vm: Duration,
    boot: Duration,
}

/// The tarballs on the server, except the release of the CPI, which depends on the model.
struct Artifacts {
    stemcell: Vec<u8>,
    other_release: Vec<u8>,
    /// The noise in the release of the CPI.
    noise: String,
}

impl Model {
    fn with_link(mbit_per_second: u32, divisor: u32) -> Model {
        Model {
            bytes_per_second: f64::from(mbit_per_second) * 1e6 / 8.0,
            compilation: COMPILATION / divisor,
            info: INFO / divisor,
            create_stemcell: CREATE_STEMCELL / divisor,
            create_vm: CREATE_VM / divisor,
            boot: BOOT / divisor,
        }
    }

    /// Returns the model in which only the program's own work takes time.
    fn without_waiting() -> Model {
        let none = Duration::ZERO;
        Model {
            bytes_per_second: f64::INFINITY,
            compilation: none,
            info: none,
            create_stemcell: none,
            create_vm: none,
            boot: none,
        }
    }

    /// Returns the duration of the critical path. The CPI is compiled while other artifacts are downloaded.
    /// Its first call that changes something comes after all downloads, because an artifact may be faulty.
    fn critical_path(&self, cpi_release_bytes: usize, artifacts: &Artifacts) -> Duration {
        let download = |bytes: usize| Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        let all = cpi_release_bytes + artifacts.stemcell.len() + artifacts.other_release.len();
        let ready = download(all).max(download(cpi_release_bytes) + self.compilation);
        let calls = self.info + self.create_stemcell + self.create_vm;
        ready + calls + self.boot
    }

    /// Returns the release of the CPI of this environment.
    fn cpi_release(&self, hello: &Hello, artifacts: &Artifacts) -> Vec<u8> {
        let seconds = |duration: Duration| duration.as_secs_f64().to_string();
        let cpi = CPI
            .replace("INFO", &seconds(self.info))
            .replace("CREATE_STEMCELL", &seconds(self.create_stemcell))
            .replace("CREATE_VM", &seconds(self.create_vm))
            .replace("MONOPILE", MONOPILE)
            .replace("CREATED", &hello.world.path("created").display().to_string());
        let job = JobTarball::new("model_cpi")
            .spec("packages: [model]\nproperties:\n  root: {}\n  agent: {}\n")
            .template("cpi.erb", "bin/cpi", &cpi)
            .template(
                "cpi.json.erb",
                "config/cpi.json",
                r#"<%= JSON.dump({"root" => p("root"), "agent" => p("agent")}) %>"#,
            );
        let packaging = format!("sleep {}\ntouch $BOSH_INSTALL_TARGET/done\n", seconds(self.compilation));
        let package = PackageTarball::new("model", &packaging, &[]).file("noise", &artifacts.noise);
        ReleaseTarball::new("model-cpi", "1").job(job).package(package).build()
    }
}

impl Artifacts {
    fn new(divisor: usize) -> Artifacts {
        let image = Tar::default()
            .directory("etc/")
            .file("etc/monopile-release", "model\n")
            .file("noise", noise(STEMCELL_BYTES / divisor))
            .tgz();
        let other = PackageTarball::new("other", "", &[]).file("noise", &text(OTHER_RELEASE_BYTES / divisor));
        Artifacts {
            stemcell: StemcellTarball { image: Some(image), ..StemcellTarball::default() }.build(),
            other_release: ReleaseTarball::new("other", "1")
                .job(JobTarball::new("other"))
                .package(other)
                .build(),
            noise: text(CPI_RELEASE_BYTES / divisor),
        }
    }
}

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    let divisor = if suite.is_quick { DIVISOR * 16 } else { DIVISOR };
    let artifacts = Artifacts::new(divisor as usize);
    let size = format!("sizes and durations / {divisor}");
    let mut add = |name: &str, samples: &[Sample]| {
        let index = findings.add_figure(Figure::new(name, 1, &size, Unit::Milliseconds, samples));
        (index, findings.figures[index].median)
    };
    let without_waiting = Model::without_waiting();
    let samples: Vec<Sample> =
        (0..suite.rounds(3)).map(|_| deploy(&without_waiting, &artifacts).elapsed).collect();
    let (_, own_time) = add(OWN_WORK, &samples);
    let mut checks = Vec::new();
    for rate in LINKS {
        let model = Model::with_link(rate, divisor);
        let deployments: Vec<Deployment> = (0..suite.rounds(1)).map(|_| deploy(&model, &artifacts)).collect();
        let [elapsed, critical_path]: [Vec<Sample>; 2] = [
            deployments.iter().map(|deployment| deployment.elapsed).collect(),
            deployments.iter().map(|deployment| deployment.critical_path).collect(),
        ];
        let (index, elapsed) = add(&format!("{rate} Mbit/s: elapsed"), &elapsed);
        let (_, critical_path) = add(&format!("{rate} Mbit/s: critical path"), &critical_path);
        checks.push((index, (elapsed - own_time) / critical_path, elapsed / critical_path));
    }
    for (index, ratio, with_own) in checks {
        let must =
            format!("without own work, at most {LIMIT} × the critical path (with own work: {with_own:.2} ×)");
        findings.demand(&must, index, Some(ratio), ratio <= LIMIT);
    }
    findings
}

/// A deployment in a model.
struct Deployment {
    elapsed: Sample,
    critical_path: Sample,
}

/// Deploys a new environment in this model.
fn deploy(model: &Model, artifacts: &Artifacts) -> Deployment {
    let mut hello = Hello::new();
    let (listen, agent, tls) = hello.stand_between();
    let cpi_release = model.cpi_release(&hello, artifacts);
    let critical_path = model.critical_path(cpi_release.len(), artifacts);
    let files = [
        ("/model-cpi.tgz", cpi_release),
        ("/stemcell.tgz", artifacts.stemcell.clone()),
        ("/other.tgz", artifacts.other_release.clone()),
    ];
    let sources = files.each_ref().map(|(path, content)| (*path, sha1(content)));
    let server = Server::start_with_rate(model.bytes_per_second, move |request, _| {
        let (_, content) = files.iter().find(|(path, _)| *path == request.path()).unwrap();
        part(request, content, "\"1\"")
    });
    let [cpi_release, stemcell, other_release] =
        sources.map(|(path, digest)| format!("url: '{}', sha1: {digest}", server.url(path)));
    hello.add_ops(
        "model.yml",
        &format!(
            "- {{type: remove, path: /cloud_provider/cpi}}\n\
             - {{type: replace, path: '/cloud_provider/template?', value: {{name: model_cpi, release: \
             model-cpi}}}}\n\
             - {{type: replace, path: /cloud_provider/properties, value: {{root: {root}, agent: {{mbus: \
             'https://mbus:((mbus_bootstrap_password))@((internal_ip)):((mbus_port))'}}}}}}\n\
             - {{type: replace, path: /resource_pools/name=vms/stemcell, value: {{{stemcell}}}}}\n\
             - {{type: replace, path: /releases/-, value: {{name: model-cpi, {cpi_release}}}}}\n\
             - {{type: replace, path: /releases/-, value: {{name: other, {other_release}}}}}\n",
            root = hello.world.path("cloud").display(),
        ),
    );
    let creation_mark = hello.world.path("created");
    let cost = std::thread::scope(|scope| {
        // Until the VM has booted, its port is closed.
        let boot_thread = scope.spawn(|| {
            wait_until("the VM is created", || creation_mark.exists());
            std::thread::sleep(model.boot);
            AgentProxy::start(listen, agent, Arc::clone(&tls))
        });
        let cost = process::run(&mut hello.command("create-env", &[]));
        let _agent = boot_thread.join().unwrap();
        hello.delete(&[]).success();
        cost
    });
    let sample = |duration: Duration| Sample { value: duration.as_secs_f64() * 1000.0, peak_kib: None };
    Deployment { elapsed: sample(cost.wall), critical_path: sample(critical_path) }
}

/// Returns bytes that cannot be compressed.
fn noise(length: usize) -> Vec<u8> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

/// Returns text that can hardly be compressed.
fn text(length: usize) -> String {
    noise(length).iter().map(|byte| char::from(b' ' + byte % 64)).collect()
}
