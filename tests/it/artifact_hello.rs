//! The example's artifacts: its release, packed from source, compiles with bash, and its service counts
//! requests.

use crate::support::process::{RunToEnd, WaitForEnd, prepare};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use artifact::archive::{self, UnpackOptions};
use artifact::{Release, Source, release, stemcell};
use base::events::{Event, Reporter, Sink, Stage};

struct Silent;

impl Sink for Silent {
    fn receive(&self, _event: &Event) {}
}

fn stage() -> Stage {
    Reporter::new(Arc::new(Silent)).begin_stage("testing")
}

fn example(name: &str) -> Source {
    Source::local(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hello").join(name)).unwrap()
}

/// Compiles the packages of `jobs` like an agent, each into `packages/<name>`.
fn compile(release: &Release, jobs: &[&str], directory: &Path) {
    for package in release.package_levels(jobs).unwrap().into_iter().flatten() {
        let source = directory.join(format!("source-{}", package.name));
        archive::unpack_file(
            &package.archive,
            "it",
            &source,
            None,
            &UnpackOptions::default(),
            &mut |_, _| {},
        )
        .unwrap();
        let target = directory.join("packages").join(&package.name);
        fs::create_dir_all(&target).unwrap();
        // The script uses the path at which the agent installs dependencies, which differs here.
        let script = fs::read_to_string(source.join("packaging")).unwrap();
        let script = script.replace("/var/vcap/packages", &directory.join("packages").display().to_string());
        let output = prepare("bash")
            .args(["-c", &script])
            .current_dir(&source)
            .env("BOSH_INSTALL_TARGET", &target)
            .run_to_end();
        assert!(output.status.success(), "{}: {}", package.name, String::from_utf8_lossy(&output.stderr));
    }
}

struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.stop();
    }
}

fn ask(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn example_release_compiles_and_its_service_runs() {
    let directory = crate::support::create_directory();
    let directory = directory.path();
    let release = release::open(&example("release"), None, directory, &stage()).unwrap();
    assert_eq!(release.name, "hello");
    let job = release.job("hello").unwrap();
    assert!(job.monit.is_some());
    assert!(job.templates.iter().any(|template| template.target == "bin/ctl"));
    compile(&release, &["hello"], directory);

    let port = crate::support::free_port();
    let store = directory.join("store");
    fs::create_dir(&store).unwrap();
    let config = directory.join("hello.conf");
    fs::write(&config, format!("address=127.0.0.1\nport={port}\nstore={}\n", store.display())).unwrap();
    let start = || {
        let child = prepare("perl")
            .arg(directory.join("packages/counter/bin/counter"))
            .args([&config, &directory.join("pid")])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let service = Service(child);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !ask(port, "/health").is_some_and(|answer| answer.starts_with("HTTP/1.1 200")) {
            assert!(Instant::now() < deadline, "the service does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        service
    };
    let service = start();
    assert_eq!(fs::read_to_string(directory.join("pid")).unwrap().trim(), service.0.id().to_string());
    let askers: Vec<_> = (0..8).map(|_| std::thread::spawn(move || ask(port, "/").unwrap())).collect();
    let mut counts: Vec<u32> = askers
        .into_iter()
        .map(|asker| asker.join().unwrap().rsplit_once("counter: ").unwrap().1.trim().parse().unwrap())
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=8).collect::<Vec<_>>());
    assert!(ask(port, "/").unwrap().contains("Hello from the VM\n"));
    assert!(ask(port, "/nothing").unwrap().starts_with("HTTP/1.1 404"));
    drop(service);
    // The service was killed, and its count is kept.
    let _service = start();
    assert!(ask(port, "/").unwrap().ends_with("counter: 10\n"));
}

#[test]
fn example_stemcell_has_the_format_of_the_local_cpi() {
    let directory = crate::support::create_directory();
    let stemcell = stemcell::open(&example("stemcell"), None, directory.path(), &stage()).unwrap();
    assert_eq!(stemcell.api_version, 3);
    assert_eq!(stemcell.stemcell_formats, ["local-directory"]);
    let tree = directory.path().join("tree");
    archive::unpack_file(&stemcell.image, "it", &tree, None, &UnpackOptions::default(), &mut |_, _| {})
        .unwrap();
    assert!(tree.join("etc/monopile-release").is_file());
}
