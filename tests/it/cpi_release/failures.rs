//! Defects of a CPI release are found and reported before anything is created.

use crate::support::process::WaitForEnd;
use std::os::unix::fs::symlink;

use super::setup::{Env, Machine, cpi_job, files};
use crate::support::tarballs::{JobTarball, ReleaseTarball};

/// Checks that nothing was called or written and nothing is left.
pub(super) fn assert_untouched(env: &Env) {
    assert!(!env.hello.world.exists("state.json") && !env.hello.world.exists("requests.jsonl"));
    assert_eq!(env.hello.leftovers(), Vec::<String>::new());
}

#[test]
fn failing_packaging_script_is_shown() {
    let machine = Machine::new();
    let mut release = machine.release();
    release.packages[0].files[0].1.push_str("for i in {1..40}; do echo line $i; done\nexit 7\n");
    let env = Env::new(&machine, &release);
    let run = env.create(&[]).exits_with(1);
    for text in [
        "package 'recorder' of the CPI's release 'test-cpi' cannot be compiled",
        "the packaging script exited with 7",
        "line 40",
        "--keep-scratch",
    ] {
        assert!(run.stderr.contains(text), "{text}: {}", run.stderr);
    }
    assert!(!run.stderr.contains("line 2\n"), "{}", run.stderr);
    let cache = machine.path("cache/monopile/cpi");
    let log = files(&cache).into_iter().filter(|path| path.ends_with("packaging.log"));
    let logs: Vec<_> =
        log.map(|log| cache.join(log)).filter(|log| run.stderr.contains(log.to_str().unwrap())).collect();
    assert_eq!(logs.len(), 1, "{}", run.stderr);
    assert!(std::fs::read_to_string(&logs[0]).unwrap().contains("line 2\n"));
    assert!(!files(&cache).iter().any(|path| path.ends_with("bin/recorder")));
    assert_untouched(&env);

    // Compiled packages are not compiled again, and `--keep-scratch` keeps the directory.
    let run = env.create(&["--keep-scratch"]).exits_with(1);
    assert_eq!(machine.compiled_packages()[4..], ["recorder"]);
    let scratch = env.hello.world.root().join("tmp");
    let scratch = std::fs::read_dir(scratch).unwrap().next().unwrap().unwrap().path();
    let packaging = files(&scratch).into_iter().find(|path| path.ends_with("source/packaging")).unwrap();
    assert!(
        run.stderr.contains(scratch.join(packaging).parent().unwrap().to_str().unwrap()),
        "{}",
        run.stderr
    );
    std::fs::remove_dir_all(scratch).unwrap();
    assert_untouched(&env);
}

#[test]
fn missing_tool_is_named() {
    let machine = Machine::new();
    let mut release = machine.release();
    for (package, script) in
        [(0, "./configure\nmake\n"), (1, "make install\n"), (2, "if false; then\n cmake .\nfi\n")]
    {
        let text = &mut release.packages[package].files[0].1;
        *text = format!("{script}{text}");
    }
    let env = Env::new(&machine, &release);
    // The machine has few tools besides a shell.
    let bin = machine.path("bin");
    std::fs::create_dir(&bin).unwrap();
    for tool in ["bash", "cat", "cp", "mkdir", "mv", "chmod", "stat"] {
        let program = ["/usr/bin", "/bin"]
            .iter()
            .map(|directory| std::path::Path::new(directory).join(tool))
            .find(|path| path.exists());
        symlink(program.unwrap(), bin.join(tool)).unwrap();
    }
    let mut command = env.command("create-env", &[]);
    command.env("PATH", &bin);
    let run = env.hello.world.finish(command).exits_with(1);
    assert!(run.stderr.contains("tools are missing"), "{}", run.stderr);
    assert!(run.stderr.contains("gcc (or another C compiler) (package 'recorder')"), "{}", run.stderr);
    assert!(run.stderr.contains("make (packages 'left', 'recorder')"), "{}", run.stderr);
    assert!(!run.stderr.contains("cmake"), "{}", run.stderr);
    assert!(run.stderr.contains("--cpi-userland FILE` (see"), "{}", run.stderr);
    assert!(machine.compiled_packages().is_empty());
    assert_untouched(&env);
}

#[test]
fn rejects_jobs_without_a_cpi() {
    let machine = Machine::new();
    let mut release = machine.release();
    release.jobs[0].templates.remove(0);
    let env = Env::new(&machine, &release);
    let run = env.create(&[]).exits_with(3);
    assert!(run.stderr.contains("no job of `cloud_provider` has the template `bin/cpi`"), "{}", run.stderr);
    assert!(run.stderr.contains("'test_cpi' of release 'test-cpi' has config/cpi.json"), "{}", run.stderr);
    assert!(machine.compiled_packages().is_empty());
    assert_untouched(&env);
}

#[test]
fn rejects_jobs_with_two_cpis() {
    let machine = Machine::new();
    let mut env = Env::new(&machine, &machine.release().job(cpi_job("other_cpi")));
    env.set_templates("[{name: other_cpi, release: test-cpi}, {name: test_cpi, release: test-cpi}]");
    let run = env.create(&[]).exits_with(3);
    assert!(run.stderr.contains("2 jobs of `cloud_provider` have the template `bin/cpi`"), "{}", run.stderr);
    assert!(
        run.stderr.contains("'other_cpi' of release 'test-cpi' and 'test_cpi' of release 'test-cpi'"),
        "{}",
        run.stderr
    );
    assert!(machine.compiled_packages().is_empty());
    assert_untouched(&env);
}

#[test]
fn rejects_missing_and_duplicate_jobs() {
    let machine = Machine::new();
    let mut env = Env::new(&machine, &machine.release());
    env.set_templates("[{name: tset_cpi, release: test-cpi}]");
    let run = env.create(&[]).exits_with(3);
    assert!(
        run.stderr.contains("has no job 'tset_cpi'") && run.stderr.contains("'test_cpi'"),
        "{}",
        run.stderr
    );
    assert_untouched(&env);

    let mut env = Env::new(&machine, &machine.release());
    let twin = JobTarball::new("test_cpi").template("a", "config/a", "a");
    env.add_release(&ReleaseTarball::new("twins", "1").job(twin));
    env.set_templates("[{name: test_cpi, release: test-cpi}, {name: test_cpi, release: twins}]");
    let run = env.create(&[]).exits_with(3);
    assert!(run.stderr.contains("names job 'test_cpi' twice"), "{}", run.stderr);
    assert_untouched(&env);
}

#[test]
fn rejects_two_packages_of_one_name_in_package_dir() {
    let machine = Machine::new();
    let mut env = Env::new(&machine, &machine.release());
    let job = JobTarball::new("plug_in").spec("packages: [base]\n").template("a", "config/a", "a");
    let base = machine.package("base", &[], "true");
    env.add_release(&ReleaseTarball::new("plug-ins", "1").job(job).package(base));
    env.set_templates("[{name: test_cpi, release: test-cpi}, {name: plug_in, release: plug-ins}]");
    env.options = vec!["--package-dir".into(), machine.path("packages").display().to_string()];
    let run = env.create(&[]).exits_with(3);
    assert!(run.stderr.contains("two different packages 'base'"), "{}", run.stderr);
    assert!(machine.compiled_packages().is_empty());
    assert_untouched(&env);
}

#[test]
fn interrupting_a_compilation_ends_its_script() {
    let machine = Machine::new();
    let mut release = machine.release();
    release.packages[0].files[0].1.push_str("sleep 300 &\nsleep 300\n");
    let env = Env::new(&machine, &release);
    let child = env
        .command("create-env", &[])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let start = std::time::Instant::now();
    machine.wait_for("recorder");
    let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.end_with_output();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted while compiling the CPI"));
    assert!(start.elapsed().as_secs() < 60);
    assert_untouched(&env);
}
