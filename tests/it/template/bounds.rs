//! Templates that need too much memory or time, rendered by the program itself within its documented limits.
//! The unit tests of the crate `erb` have more of them, with lower limits.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::process::{poll, prepare, wait_until};
use crate::support::{World, peak_kib};

/// The maximum memory of the program, in KiB.
const MEMORY: u64 = 512 << 10;
/// The maximum size of its data in KiB, with the 256 MiB that are reserved for the stack.
const DATA: u64 = MEMORY + (256 << 10);
/// The maximum time of the program. A debug build on a busy machine takes several times the documented time.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(60);
/// The time within which a signal must end the program.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(5);

const ARGUMENTS: [&str; 6] =
    ["render-template", "--renderer", "native", "--context", "context.json", "a.erb"];

/// Templates that need too much memory or time.
const HUNGRY: [&str; 9] = [
    "<% ('a' * 10**8).each_char {} %>",
    "<% a = []; a[2**63 - 1] = 1 %>",
    "<% [1].fill(2, 1, 2**62) %>",
    "<% s = 'a' * 10**7; (10**7).times { s.count('a') } %>",
    // These templates fill the memory or the stack before they end.
    "<% ('a'..'zzzzzzzzzzzz').to_a %>",
    "<% IPAddr.new('::/0').to_range.to_a %>",
    "<% class A; def method_missing(name, *list) = self.foo(name, *list); end\nA.new.bar %>",
    "<% a = nil; 5_000_000.times { a = [a] }; raise 'nested' %>",
    "<% loop { (@all ||= []) << 'a' * 1000 } %>",
];

/// Returns all of these templates.
fn hungry_templates() -> impl Iterator<Item = String> {
    let nested_functions = format!("<% {} %>", "def f(a=".repeat(20_000));
    HUNGRY.into_iter().map(str::to_owned).chain([nested_functions])
}

fn world(source: &str) -> World {
    let world = World::new();
    world.write("context.json", r#"{"default_properties": {}}"#);
    world.write("a.erb", source);
    world
}

/// Starts to render a template. The shell limits the memory, so that a mistake ends the program and not other
/// tests.
fn start(world: &World) -> Child {
    let script = format!("ulimit -d {DATA}; exec \"$0\" \"$@\"");
    let mut command = prepare("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_monopile")]).args(ARGUMENTS);
    world.enter(&mut command);
    let errors = std::fs::File::create(world.path("errors")).unwrap();
    command.stdout(Stdio::null()).stderr(errors).spawn().unwrap()
}

#[test]
fn oversized_template_work_is_an_error() {
    for source in hungry_templates() {
        let world = world(&source);
        let excerpt: String = source.chars().take(80).collect();
        let (begin, mut child, mut peak) = (Instant::now(), start(&world), 0);
        let status = poll(&format!("{excerpt} ends"), || {
            peak = peak.max(peak_kib(child.id()).unwrap_or(0));
            child.try_wait().unwrap()
        });
        let errors = world.read("errors");
        assert_eq!(status.code(), Some(3), "{excerpt}: {errors}");
        assert!(errors.contains("a.erb:"), "{excerpt}: {errors}");
        assert!(begin.elapsed() < PROGRAM_TIMEOUT, "{excerpt}: {:?}", begin.elapsed());
        assert!(peak < MEMORY, "{excerpt} needs {peak} KiB");
    }
}

#[test]
fn sigint_ends_a_template_at_once() {
    for source in hungry_templates().chain(["<% loop {} %>".to_owned()]) {
        let world = world(&source);
        let excerpt: String = source.chars().take(80).collect();
        let mut child = start(&world);
        let threads = format!("/proc/{}/task", child.id());
        let is_evaluated = || {
            let threads = std::fs::read_dir(&threads).into_iter().flatten().flatten();
            let mut names = threads.map(|thread| std::fs::read_to_string(thread.path().join("comm")));
            names.any(|name| name.is_ok_and(|name| name == "template\n"))
        };
        wait_until("the template is evaluated", || is_evaluated() || child.try_wait().unwrap().is_some());
        std::thread::sleep(Duration::from_millis(100));
        let start = Instant::now();
        if child.try_wait().unwrap().is_none() {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        }
        let status = poll(&format!("{excerpt} ends"), || child.try_wait().unwrap());
        assert!(start.elapsed() < SIGNAL_TIMEOUT, "{excerpt}: {:?}", start.elapsed());
        // The command leaves the signal to the operating system. Some of these templates end before it.
        let has_ended_itself = status.code() == Some(3) && source != "<% loop {} %>";
        assert!(status.signal() == Some(Signal::INT.as_raw()) || has_ended_itself, "{excerpt}: {status}");
    }
}
