//! `logs`: prints, saves and follows logs of jobs, the agent and the system.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Running, parse_document, run};
use crate::support::hello::Hello;
use crate::support::peak_kib;
use crate::support::process::{WaitForEnd, prepare};
use crate::support::proxy::Exchange;

/// The memory limit, which is enough for a log of any size.
const MEMORY_LIMIT_KIB: u64 = 64 << 10;
/// The size of a long line, which exceeds the memory limit.
const LONG_LINE_BYTES: usize = 68 << 20;

/// The size of the log of the test that runs only on request.
const LARGEST_LOG_BYTES: u64 = 3 << 30;

/// Returns the command `logs` with the memory limit.
fn limited_logs(hello: &Hello, extra_args: &[&str]) -> Command {
    let command = hello.command("logs", extra_args);
    let mut shell = prepare("sh");
    hello.world.enter(&mut shell);
    let script = format!("ulimit -d {MEMORY_LIMIT_KIB}; exec \"$0\" \"$@\"");
    shell.args(["-c", &script]).arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

/// Adds a line to a log on the VM.
fn append(hello: &Hello, name: &str, line: &str) {
    let logs = hello.find("work/cloud", name);
    let mut file = File::options().append(true).open(&logs[0]).unwrap();
    writeln!(file, "{line}").unwrap();
}

#[test]
fn logs_of_every_kind_are_printed_and_saved() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let creds: Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let password = creds["mbus_bootstrap_password"].as_str().unwrap();
    append(&hello, "hello.stdout.log", &format!("the password is {password} \x1b[2Jindeed"));
    let vm = hello.world.path("cloud/vms").join(hello.state()["current_vm_cid"].as_str().unwrap());
    fs::write(vm.join("root/var/log/test-syslog"), "system line\n").unwrap();
    let blobs = || fs::read_dir(vm.join("root/var/vcap/data/blobs")).unwrap().count();
    let blobs_before = blobs();

    let jobs = run(&hello, "logs", &[]).success();
    assert!(jobs.stdout.contains("==> hello/hello.stdout.log <==\nlistening on "), "{}", jobs.stdout);
    assert!(jobs.stdout.contains("the password is <redacted> indeed"), "{}", jobs.stdout);
    assert!(!jobs.stdout.contains("system line") && !jobs.stdout.contains("packaging"), "{}", jobs.stdout);
    let job_run = run(&hello, "logs", &["--job", "hello"]).success();
    assert!(job_run.stdout.contains("listening on "), "{}", job_run.stdout);
    for extra_args in
        [&["--job", "helo"][..], &["--follow", "--job", "helo"], &["--job", "helo", "--dir", "."]]
    {
        let slip = run(&hello, "logs", extra_args).exits_with(3);
        assert!(slip.stderr.contains("job 'helo' is not on the VM"), "{}", slip.stderr);
        assert!(slip.stderr.contains("did you mean 'hello'?"), "{}", slip.stderr);
    }
    let agent = run(&hello, "logs", &["--agent", "-q"]).success();
    assert!(
        agent.stdout.contains("cp greeting/greeting.txt") && !agent.stdout.contains("==>"),
        "{}",
        agent.stdout
    );
    let system = run(&hello, "logs", &["--system"]).success();
    assert!(system.stdout.contains("==> var/log/test-syslog <==\nsystem line\n"), "{}", system.stdout);
    let all = run(&hello, "logs", &["--all-logs", "--num", "1"]).success();
    assert!(
        all.stdout.contains("system line")
            && all.stdout.contains("indeed")
            && !all.stdout.contains("listening"),
        "{}",
        all.stdout
    );
    let one = run(&hello, "logs", &["--job", "hello", "--filter", "none/*.log", "--num", "1"]).success();
    assert!(one.stdout.contains("hello/post-start.stdout.log"), "{}", one.stdout);
    let none = run(&hello, "logs", &["--filter", "helo/*"]).success();
    assert!(none.stdout.is_empty() && none.stderr.contains("no log of the jobs matches"), "{}", none.stderr);
    run(&hello, "logs", &["--job", "../x"]).exits_with(2);
    let glob = run(&hello, "logs", &["--filter", "["]).exits_with(2);
    assert!(glob.stderr.contains("error: --filter '[' is not a glob: unclosed"), "{}", glob.stderr);

    // The archive is saved as the agent packed it. It is private to its owner, and never replaces another
    // file.
    let report = parse_document(&run(&hello, "logs", &["--dir", ".", "--json"]).success());
    let path = std::path::PathBuf::from(report["path"].as_str().unwrap());
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(
        (metadata.len(), metadata.permissions().mode() & 0o777),
        (report["bytes"].as_u64().unwrap(), 0o600)
    );
    let files = crate::agent::agent_vm::untar(&fs::read(&path).unwrap());
    assert!(files.iter().any(|(name, text)| name == "hello/hello.stdout.log" && text.contains(password)));
    let second_run = run(&hello, "logs", &["--out", path.to_str().unwrap()]).exits_with(3);
    assert!(second_run.stderr.contains("(--out) already exists"), "{}", second_run.stderr);
    assert_eq!(blobs(), blobs_before, "nothing is left in the agent's blobstore");

    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn line_of_any_length_takes_little_memory() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let logs = hello.find("work/cloud", "hello.stdout.log");
    let mut file = File::options().append(true).open(&logs[0]).unwrap();
    let words = "some w%6frds aGVsbG8gd29ybGQ= ".repeat(1 << 16);
    (0..LONG_LINE_BYTES / words.len()).for_each(|_| file.write_all(words.as_bytes()).unwrap());
    writeln!(file, "end").unwrap();
    let (output_path, errors) = (hello.world.path("printed"), hello.world.path("errors"));
    let mut command = limited_logs(&hello, &["--job", "hello", "--num", "1"]);
    command.stdout(File::create(&output_path).unwrap()).stderr(File::create(&errors).unwrap());
    let status = command.spawn().unwrap().end();
    assert!(status.success(), "{}", fs::read_to_string(&errors).unwrap());
    assert!(fs::metadata(&output_path).unwrap().len() > LONG_LINE_BYTES as u64 / 10 * 9);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
#[ignore = "packs and prints logs of 3 GiB, for many minutes"]
fn log_of_three_gigabytes_takes_little_memory() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let logs = hello.find("work/cloud", "hello.stdout.log");
    let mut file = File::options().append(true).open(&logs[0]).unwrap();
    // One line of zeros, which takes no space on the disk of the VM.
    file.set_len(LARGEST_LOG_BYTES).unwrap();
    writeln!(file, "\nthe end").unwrap();
    let log = ["--job", "hello", "--filter", "hello/hello.stdout.log"];
    for extra_args in [&["--num", "2"][..], &[], &["--out", "saved.tgz"], &["--follow"]] {
        let output_path = hello.world.path("printed");
        let mut command = limited_logs(&hello, &[&log, extra_args].concat());
        command.stdout(File::create(&output_path).unwrap());
        let start = Instant::now();
        let mut child = command.spawn().unwrap();
        let (mut highest, mut follows) = (0, extra_args.contains(&"--follow"));
        let status = loop {
            highest = peak_kib(child.id()).unwrap_or(highest);
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            std::thread::sleep(Duration::from_millis(50));
            let has_end = || fs::read_to_string(&output_path).unwrap().contains("the end");
            if follows && has_end() {
                kill_process(Pid::from_child(&child), Signal::INT).unwrap();
                follows = false;
            }
        };
        eprintln!("logs {}: {highest} KiB, {} s", extra_args.join(" "), start.elapsed().as_secs());
        assert!(status.success() && highest <= MEMORY_LIMIT_KIB, "{extra_args:?}: {status}, {highest} KiB");
    }
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn follow_ends_at_a_signal() {
    let hello = Hello::new();
    hello.create(&[]).success();
    let process = Running::start(hello.command("logs", &["--follow", "--filter", "hello/hello.*.log"]));
    process.wait_for_line("listening on ");
    append(&hello, "hello.stdout.log", "first news");
    process.wait_for_line("first news");
    append(&hello, "hello.stderr.log", "trouble");
    assert_eq!(process.wait_for_line("==> "), "==> hello/hello.stderr.log <==");
    process.wait_for_line("trouble");
    assert_eq!(process.end(Signal::INT), Some(0));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// Puts a VM of the CPI `local` on record, which has a directory but does not run. Returns the directory.
fn record_vm(hello: &Hello) -> PathBuf {
    let cid = "vm-00000000-0000-4000-8000-000000000024";
    let state = json!({"director_id": "d", "installation_id": "i", "current_vm_cid": cid});
    hello.world.write("state.json", state.to_string());
    let root = hello.world.path("cloud");
    let cpi = json!({"builtin": "local", "properties": {"root": root}});
    let ops = json!([{"type": "replace", "path": "/cloud_provider/cpi", "value": cpi}]);
    hello.world.write("builtin.yml", ops.to_string());
    let vm = root.join("vms").join(cid);
    fs::create_dir_all(&vm).unwrap();
    vm
}

#[test]
fn console_needs_neither_agent_nor_cpi() {
    let hello = Hello::new();
    let vm = record_vm(&hello);
    let builtin = ["-o", "builtin.yml", "--console"];
    let console = |extra_args: &[&str]| run(&hello, "logs", &[&builtin, extra_args].concat());
    let missing = console(&[]).exits_with(1);
    assert!(missing.stderr.contains("has no console in '"), "{}", missing.stderr);

    let creds: Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let password = creds["mbus_bootstrap_password"].as_str().unwrap();
    let lines: String = (1..=150).map(|number| format!("line {number}\r\n")).collect();
    fs::write(vm.join("console.log.1"), lines).unwrap();
    let text = format!("\x1b[2J\x1b]0;title\x07SeaBIOS\r\nthe password is {password}\nÿlogin: \x08");
    fs::write(vm.join("console.log"), text).unwrap();
    let output = console(&[]).success().stdout;
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), 100);
    assert_eq!(lines[0], "line 54");
    assert_eq!(lines[96..], ["line 150", "SeaBIOS", "the password is <redacted>", "ÿlogin: "]);
    assert_eq!(console(&["--num", "2"]).success().stdout.lines().count(), 2);
    assert_eq!(console(&["--num", "1000"]).success().stdout.lines().count(), 153);
    assert_eq!(console(&["--num", "0"]).success().stdout, "");
    for extra_args in [
        &["--agent"][..],
        &["--system"],
        &["--all-logs"],
        &["--job", "hello"],
        &["--filter", "*"],
        &["--quiet"],
        &["--dir", "."],
        &["--out", "x.tgz"],
    ] {
        let failed_run = console(extra_args).exits_with(2);
        assert!(failed_run.stderr.contains("cannot be used with"), "{extra_args:?}: {}", failed_run.stderr);
    }

    // The size of a console does not matter.
    let file = File::create(vm.join("console.log")).unwrap();
    file.set_len(10 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"\nthe end\n", 10 << 30).unwrap();
    let run = hello.world.finish(limited_logs(&hello, &[&builtin[..], &["--num", "1"]].concat()));
    assert_eq!(run.success().stdout, "the end\n");
}

#[test]
fn console_of_another_cpi_is_in_its_iaas() {
    let hello = Hello::new();
    record_vm(&hello);
    let other = run(&hello, "logs", &["--console"]).exits_with(3);
    assert!(other.stderr.contains("the default CPI keeps no console of VM 'vm-"), "{}", other.stderr);
    assert!(other.stderr.contains("`openstack console log show vm-"), "{}", other.stderr);
    let ops = json!([{"type": "replace", "path": "/cloud_provider/cpi", "value": {"builtin": "ironic"}}]);
    hello.world.write("builtin.yml", ops.to_string());
    let ironic = run(&hello, "logs", &["-o", "builtin.yml", "--console"]).exits_with(3);
    assert!(ironic.stderr.contains("`monopile baremetal allocation show vm-"), "{}", ironic.stderr);
    hello.world.write("state.json", json!({"director_id": "d", "installation_id": "i"}).to_string());
    let none = run(&hello, "logs", &["--console"]).exits_with(3);
    assert!(none.stderr.contains("no VM is on record"), "{}", none.stderr);
}

#[test]
fn console_is_followed_until_a_signal_or_the_end_of_the_vm() {
    let hello = Hello::new();
    let vm = record_vm(&hello);
    let path = vm.join("console.log");
    let add = |line: &str| {
        let mut file = File::options().create(true).append(true).open(&path).unwrap();
        writeln!(file, "{line}").unwrap();
    };
    add("first");
    let follow = || Running::start(hello.command("logs", &["-o", "builtin.yml", "--console", "--follow"]));
    let process = follow();
    assert_eq!(process.wait_for_line(""), "first");
    add("second");
    assert_eq!(process.wait_for_line(""), "second");
    // The file is full, and the next one begins.
    add("third");
    fs::rename(&path, vm.join("console.log.1")).unwrap();
    add("fourth");
    assert_eq!(process.wait_for_line(""), "third");
    assert_eq!(process.wait_for_line(""), "fourth");
    assert_eq!(process.end(Signal::INT), Some(0));

    let process = follow();
    process.wait_for_line("fourth");
    fs::remove_dir_all(&vm).unwrap();
    assert_eq!(process.wait_for_end(), Some(0));
}

#[test]
fn rejects_log_archives_with_a_wrong_digest() {
    let mut hello = Hello::new();
    let cloud = hello.world.path("cloud");
    // The blob changes between the agent's answer and the download.
    let _proxy = hello.proxy_agent_with(move |exchange: Exchange| {
        let answer = exchange.answer.pointer("/value/blobstore_id").and_then(Value::as_str);
        let is_packed = exchange.message["method"] == "get_task";
        let Some(id) = answer.filter(|_| is_packed) else { return };
        for entry in walkdir::WalkDir::new(&cloud).into_iter().flatten() {
            if entry.file_name() == id {
                let mut file = File::options().append(true).open(entry.path()).unwrap();
                file.write_all(b"more").unwrap();
            }
        }
    });
    hello.create(&[]).success();
    for extra_args in [&[][..], &["--out", "saved.tgz"], &["--follow"]] {
        let failed_run = run(&hello, "logs", extra_args).exits_with(3);
        assert!(failed_run.stdout.is_empty(), "{}", failed_run.stdout);
        assert!(failed_run.stderr.contains("the packed logs"), "{}", failed_run.stderr);
    }
    assert!(!hello.world.exists("saved.tgz"));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
