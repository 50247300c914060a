//! Templates that need too much memory or time, rendered by the program itself within its documented limits.
//! Unit tests of the crate `erb` have more of them, with smaller limits.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::World;
use crate::support::process::{Ending, prepare, until};

/// The memory that the program may use, in KiB: 512 MiB, and the 256 MiB that are reserved for the stack.
const MEMORY: u32 = (512 + 256) << 10;
/// The time that the program may take. A debug build on a busy machine takes several times the documented
/// one.
const TIME: Duration = Duration::from_secs(60);

const ARGUMENTS: [&str; 6] =
    ["render-template", "--templates", "native", "--context", "context.json", "a.erb"];

fn world(source: &str) -> World {
    let world = World::new();
    world.write("context.json", r#"{"default_properties": {}}"#);
    world.write("a.erb", source);
    world
}

/// Renders a template that cannot be rendered.
fn rejected(source: &str) {
    let world = world(source);
    let begun = Instant::now();
    let mut command = prepare("sh");
    let script = format!("ulimit -d {MEMORY}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_monopile")]).args(ARGUMENTS);
    world.enter(&mut command);
    let run = world.finish(command);
    let shown: String = source.chars().take(80).collect();
    assert_eq!(run.code, 3, "{shown}: {}", run.stderr);
    assert!(run.stderr.contains("'a.erb' line"), "{shown}: {}", run.stderr);
    assert!(begun.elapsed() < TIME, "{shown}: {:?}", begun.elapsed());
}

#[test]
fn a_template_that_needs_too_much_ends_with_an_error() {
    rejected("<% ('a' * 10**8).each_char {} %>");
    rejected("<% a = []; a[2**63 - 1] = 1 %>");
    rejected("<% [1].fill(2, 1, 2**62) %>");
    rejected("<% s = 'a' * 10**7; (10**7).times { s.count('a') } %>");
    rejected(&format!("<% {} %>", "def f(a=".repeat(20_000)));
}

/// Templates that fill the memory or the stack before they end, which takes a debug build some seconds.
#[test]
fn a_template_that_fills_the_memory_ends_with_an_error() {
    if std::env::var_os("MONOPILE_FUZZ_SECONDS").is_none() {
        return;
    }
    rejected("<% ('a'..'zzzzzzzzzzzz').to_a %>");
    rejected("<% IPAddr.new('::/0').to_range.to_a %>");
    rejected("<% class A; def method_missing(name, *list) = self.foo(name, *list); end\nA.new.bar %>");
    let nest = "<% a = nil; 5_000_000.times { a = [a] }; raise 'nested' %>";
    rejected(nest);
}

#[test]
fn sigint_ends_a_template() {
    let world = world("<% loop {} %>");
    let mut command = world.monopile(ARGUMENTS);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let threads = format!("/proc/{}/task", child.id());
    until("the template is evaluated", || {
        let mut threads = std::fs::read_dir(&threads).unwrap();
        threads.any(|thread| {
            let name = std::fs::read_to_string(thread.unwrap().path().join("comm"));
            name.is_ok_and(|name| name == "template\n")
        })
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    // The command leaves the signal to the system.
    assert_eq!(child.end().signal(), Some(Signal::INT.as_raw()));
}
