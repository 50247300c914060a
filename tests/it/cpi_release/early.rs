//! The CPI is compiled as soon as its release is on this machine, while other artifacts are still downloaded.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::failures::assert_untouched;
use super::setup::{Env, Machine};
use crate::support::http::{Server, answer, part};
use crate::support::process::{interrupt, wait_until};
use crate::support::tarballs::{JobTarball, ReleaseTarball, StemcellTarball, sha1};

/// Returns true if the packaging script of this package has begun.
fn has_begun(log: &PathBuf, name: &str) -> bool {
    std::fs::read_to_string(log).unwrap_or_default().lines().any(|line| line == name)
}

/// Takes the stemcell from this URL.
fn use_stemcell(env: &mut Env, url: &str, sha1: &str) {
    let stemcell = format!("{{url: '{url}', sha1: {sha1}}}");
    env.hello.add_ops(
        "stemcell.yml",
        &format!("- {{type: replace, path: /resource_pools/name=vms/stemcell, value: {stemcell}}}\n"),
    );
}

/// Returns the release of a CPI whose compilation does not end in time.
fn endless_release(machine: &Machine) -> ReleaseTarball {
    let mut release = machine.release();
    let base = release.packages.iter_mut().find(|package| package.name == "base").unwrap();
    base.files[0].1.push_str("sleep 300 &\nsleep 300\n");
    release
}

#[test]
fn cpi_is_compiled_while_the_stemcell_is_downloaded() {
    let machine = Machine::new();
    let (release, stemcell) = (machine.release(), StemcellTarball::default().build());
    let mut env = Env::new(&machine, &release);
    let release = release.build();
    let (release_sha1, stemcell_sha1) = (sha1(&release), sha1(&stemcell));
    // The last package is compiled before the server sends the stemcell.
    let log = machine.path("compiled");
    let server = Server::start(move |request, _| {
        if request.path() == "/test-cpi.tgz" {
            return part(request, &release, "\"1\"");
        }
        wait_until("the CPI is compiled", || has_begun(&log, "recorder"));
        part(request, &stemcell, "\"1\"")
    });
    let url = server.url("/test-cpi.tgz");
    env.hello.add_ops(
        "download.yml",
        &format!(
            "- {{type: replace, path: /releases/name=test-cpi, value: {{name: test-cpi, url: '{url}', sha1: \
             {release_sha1}}}}}\n"
        ),
    );
    use_stemcell(&mut env, &server.url("/stemcell.tgz"), &stemcell_sha1);
    let run = env.create(&[]).success();
    assert_eq!(machine.compiled_sorted(), ["base", "left", "recorder", "right"]);
    assert_eq!(run.stdout.matches("Compiling package 'recorder").count(), 2, "start and end: {}", run.stdout);
    assert!(run.stdout.contains("Unpacking the stemcell"), "{}", run.stdout);
    assert!(!run.stdout.contains("Unpacking stemcell"), "it was unpacked once: {}", run.stdout);
    let paths: Vec<String> = server.requests().iter().map(|request| request.path().to_owned()).collect();
    assert_eq!(paths, ["/test-cpi.tgz", "/stemcell.tgz"]);

    // A run without changes needs no CPI.
    std::fs::remove_dir_all(machine.path("cache/monopile/cpi")).unwrap();
    let run = env.create(&[]).success();
    assert!(run.stdout.contains("Nothing to do"), "{}", run.stdout);
    assert_eq!(machine.compiled_packages().len(), 4);
    env.delete(&[]).success();
}

#[test]
fn faulty_input_ends_a_running_compilation_and_is_reported() {
    let template = |machine: &Machine, env: &mut Env| {
        let job = JobTarball::new("faulty").template("a.erb", "config/a", "<%= p('missing') %>");
        let release = ReleaseTarball::new("faulty", "1").job(job).build();
        let (log, sha1) = (machine.path("compiled"), sha1(&release));
        let server = Server::start(move |request, _| {
            wait_until("the compilation begins", || has_begun(&log, "base"));
            part(request, &release, "\"1\"")
        });
        let url = server.url("/faulty.tgz");
        env.hello.add_ops(
            "faulty.yml",
            &format!(
                "- {{type: replace, path: /releases/-, value: {{name: faulty, url: '{url}', sha1: \
                 {sha1}}}}}\n\
                 - {{type: replace, path: /instance_groups/name=hello/jobs/-, value: {{name: faulty, \
                 release: faulty}}}}\n"
            ),
        );
        server
    };
    let stemcell = |machine: &Machine, env: &mut Env| {
        let log = machine.path("compiled");
        let server = Server::start(move |_, _| {
            wait_until("the compilation begins", || has_begun(&log, "base"));
            answer("404 Not Found", &[], b"")
        });
        use_stemcell(env, &server.url("/stemcell.tgz"), &sha1(b""));
        server
    };
    type Prepare<'a> = &'a dyn Fn(&Machine, &mut Env) -> Server;
    let cases: [(Prepare<'_>, i32, &str); 2] = [(&template, 3, "'missing'"), (&stemcell, 1, "404 Not Found")];
    for (prepare, code, expected) in cases {
        let machine = Machine::new();
        let mut env = Env::new(&machine, &endless_release(&machine));
        let _server = prepare(&machine, &mut env);
        let run = env.create(&[]).exits_with(code);
        assert!(run.stderr.contains(expected), "{}", run.stderr);
        assert!(!run.stderr.contains("compil"), "{}", run.stderr);
        assert_eq!(machine.compiled_packages(), ["base"]);
        assert_untouched(&env);
    }
}

#[test]
fn interrupt_ends_download_and_compilation() {
    let machine = Machine::new();
    let mut env = Env::new(&machine, &endless_release(&machine));
    let is_over = Arc::new(AtomicBool::new(false));
    let server = Server::start({
        let is_over = is_over.clone();
        move |_, _| {
            wait_until("the test is over", || is_over.load(Ordering::SeqCst));
            answer("404 Not Found", &[], b"")
        }
    });
    use_stemcell(&mut env, &server.url("/stemcell.tgz"), &sha1(b""));
    let mut command = env.command("create-env", &[]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    machine.wait_for("base");
    wait_until("the stemcell is asked for", || !server.requests().is_empty());
    interrupt(child);
    is_over.store(true, Ordering::SeqCst);
    assert_untouched(&env);
}
