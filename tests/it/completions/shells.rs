//! Completion as an operator sees it: a real shell on a pseudo-terminal, with the script of `completions/`.
//!
//! A wrapper replaces the program. It passes on requests of the shell, and records the arguments when the
//! shell runs it. A test types a line with tabs and Enter, and checks the recorded arguments.

use crate::support::process::{WaitForEnd, prepare};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::checked_in;
use crate::support::{MONOPILE, World};

const MANIFEST: &str = "\
name: x
instance_groups:
- name: bosh
  jobs: [{name: director, release: r}, {name: health_monitor, release: r}]
  ip: ((internal_ip))
cloud_provider: {template: {name: warden_cpi, release: r}, token: ((token))}
variables: [{name: admin_password, type: password}]
";

/// The state of `two.yml` with two CPIs. CIDs contain colons in some clouds.
const STATE: &str = r#"{
  "director_id": "d", "installation_id": "i", "current_vm_cid": "vm:1", "current_stemcell_id": "s",
  "current_disk_id": "k", "current_release_ids": [], "current_manifest_sha": "",
  "disks": [{"id": "k", "cid": "disk:7", "size": 1024, "cloud_properties": {}, "cpi": "polar"}],
  "stemcells": [{"id": "s", "name": "ubuntu", "version": "1.7", "cid": "sc-1"}], "releases": []
}"#;

/// A shell that waits for input.
struct Shell {
    world: World,
    child: Child,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl Shell {
    /// Starts the shell on a terminal, in a directory with a file of each kind that is completed.
    fn start(name: &str) -> Shell {
        let world = World::new();
        world.write("boot.yml", MANIFEST);
        world.write("more.yml", "- {type: replace, path: /instance_groups/0/jobs/-, value: {name: uaa}}\n");
        world.write("two.yml", "name: x\ncpis: [{name: north, type: x}, {name: south, type: x}]\n");
        world.write("two-state.json", STATE);
        world.write("two-state.json.versions/12.json", STATE);
        world.write("config.yml", "cpis: [{name: west, type: x, properties: {key: ((key))}}]\n");
        world.write("boot.txt", "");
        world.write("boot.json", "{}");
        world.write(
            "sub/.monopile.yml",
            "manifest: ../boot.yml\nops_files: [../more.yml]\nvars: {token: t}\n",
        );
        world.run(["trust", "sub/.monopile.yml"]).success();
        let wrapper = "#!/bin/sh\n[ -n \"$MONOPILE_COMPLETE\" ] && exec \"$REAL\" \"$@\"\n\
                       printf '%s\\n' \"$@\" >\"$HOME/ran.new\" && mv \"$HOME/ran.new\" \"$HOME/ran\"\n";
        let bin = world.root().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("monopile"), wrapper).unwrap();
        std::fs::set_permissions(bin.join("monopile"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let (file, start) = match name {
            "bash" => ("monopile.bash", "bash --norc --noprofile".to_owned()),
            "zsh" => ("_monopile", "zsh -f".to_owned()),
            "fish" => ("monopile.fish", "fish --no-config".to_owned()),
            other => panic!("{other}"),
        };
        let script = checked_in(file);
        let mut command = prepare("script");
        world.enter(&mut command);
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        command.args(["-qfc", &format!("stty cols 200 rows 50; exec {start}"), "/dev/null"]);
        command.env("PATH", path).env("REAL", MONOPILE).env("TERM", "xterm").env("PS1", "$ ");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut output, thread_screen) = (child.stdout.take().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                thread_screen.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        let mut shell = Shell { world, child, screen };
        match name {
            "zsh" => shell.run(&format!("autoload -U compinit; compinit -u -D; source {}", script.display())),
            "bash" => shell.run(&format!("bind 'set completion-query-items 0'; source {}", script.display())),
            _ => shell.run(&format!("source {}", script.display())),
        }
        shell
    }

    fn type_text(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Runs a line to its end.
    fn run(&mut self, line: &str) {
        let mark = self.world.home().join("done");
        self.type_text(&format!("{line}; touch {}\r", mark.display()));
        self.wait("the shell", || mark.exists());
        std::fs::remove_file(mark).unwrap();
    }

    fn wait(&self, what: &str, is_there: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_there() {
            let screen_text = || String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned();
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "{what} never came; on the screen:\n{}",
                screen_text()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Types a line with tabs, and returns the arguments of the program that it runs.
    fn complete(&mut self, line: &str) -> Vec<String> {
        let arguments_file = self.world.home().join("ran");
        let _ = std::fs::remove_file(&arguments_file);
        // A shell that has more input to read may not stop to complete.
        for piece in line.split_inclusive('\t') {
            let count_before = self.screen.lock().unwrap().len();
            self.type_text(piece);
            if piece.ends_with('\t') {
                self.settle(count_before);
            }
        }
        self.type_text("\r");
        self.wait("the command", || arguments_file.exists());
        std::fs::read_to_string(arguments_file).unwrap().lines().map(str::to_owned).collect()
    }

    /// Returns the candidates after a line and two tabs.
    fn list_candidates(&mut self, line: &str, last: &str) -> String {
        let count_before = self.screen.lock().unwrap().len();
        self.type_text(line);
        self.type_text("\t");
        self.settle(count_before);
        self.type_text("\t");
        let screen_text =
            || String::from_utf8_lossy(&self.screen.lock().unwrap()[count_before..]).into_owned();
        self.wait(last, || screen_text().contains(last));
        let text = screen_text();
        // Ctrl-C cancels the line.
        self.type_text("\x03");
        self.run("true");
        text
    }

    /// Waits until the screen stops changing.
    fn settle(&self, old_size: usize) {
        let mut size = old_size;
        let mut unchanged_since = Instant::now();
        let start = Instant::now();
        while unchanged_since.elapsed() < Duration::from_millis(250) || size == old_size {
            std::thread::sleep(Duration::from_millis(10));
            let now = self.screen.lock().unwrap().len();
            if now != size {
                (size, unchanged_since) = (now, Instant::now());
            }
            if start.elapsed() > Duration::from_secs(10) {
                return;
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Closing the input ends `script` and the shell on its terminal.
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        self.child.stop();
    }
}

/// Types lines with tabs into the shell, and compares the words that the program then gets.
fn check_completions(name: &str) {
    let mut shell = Shell::start(name);
    for (line, expected) in [
        ("monopile creat\tx", "create-env x"),
        ("monopile create-env --recreate-p\tx", "create-env --recreate-persistent-disks x"),
        // Manifests are YAML, and states are JSON.
        ("monopile create-env boo\t--state boo\t", "create-env boot.yml --state boot.json"),
        ("monopile render boot.yml --job dir\t", "render boot.yml --job director"),
        ("monopile render boot.yml --job war\t", "render boot.yml --job warden_cpi"),
        // Ops files are applied.
        ("monopile render -o mor\tboot.yml --job ua\t", "render -o more.yml boot.yml --job uaa"),
        ("monopile int boot.yml --path /inst\t/\t", "int boot.yml --path /instance_groups/name=bosh"),
        (
            "monopile int boot.yml --path /instance_groups/name=bosh/jobs/name=h\t",
            "int boot.yml --path /instance_groups/name=bosh/jobs/name=health_monitor",
        ),
        (
            "monopile int boot.yml -v inter\t10.0.0.6 -v tok\tx",
            "int boot.yml -v internal_ip=10.0.0.6 -v token=x",
        ),
        // A variable with a value is not offered.
        ("monopile int boot.yml -v token=1 -v tok\tx", "int boot.yml -v token=1 -v tokx"),
        ("monopile int boot.yml --var-file tok\tboot.t\t", "int boot.yml --var-file token=boot.txt"),
        ("monopile int boot.yml --vars-exec sha256s\tx", "int boot.yml --vars-exec sha256sum x"),
        ("monopile cpi call boot.yml has_v\tx", "cpi call boot.yml has_vm x"),
        (
            "monopile int -o boo\t-l boo\t--vars-store boo\tx",
            "int -o boot.yml -l boot.yml --vars-store boot.yml x",
        ),
        ("monopile logs boot.yml --job hea\t", "logs boot.yml --job health_monitor"),
        // The CPI's job runs on this machine and has no logs on the VM.
        ("monopile logs boot.yml --job war\tx", "logs boot.yml --job warx"),
        // CPIs of the manifest, of a CPI config, and of the state.
        ("monopile cpi info two.yml --cpi nor\t", "cpi info two.yml --cpi north"),
        ("monopile cpi call two.yml --cpi sou\thas_vm vm\t", "cpi call two.yml --cpi south has_vm vm:1"),
        (
            "monopile upload-stemcell --cpi-config conf\t--cpi we\ttwo.yml x",
            "upload-stemcell --cpi-config config.yml --cpi west two.yml x",
        ),
        ("monopile delete-disk two.yml dis\t--cpi pol\t", "delete-disk two.yml disk:7 --cpi polar"),
        ("monopile delete-vm two.yml vm\t", "delete-vm two.yml vm:1"),
        ("monopile delete-stemcell two.yml ubu\t", "delete-stemcell two.yml ubuntu/1.7"),
        ("monopile state forget two.yml --stemcell sc\t", "state forget two.yml --stemcell sc-1"),
        ("monopile status two-\t", "status two-state.json"),
        ("monopile vars rotate boo\tinst\t", "vars rotate boot.yml instance_groups"),
        ("monopile vars get boo\t/na\t", "vars get boot.yml /name"),
        ("monopile state backup two.yml --restore 1\t", "state backup two.yml --restore 12"),
        ("monopile state show two.yml --only sn\t", "state show two.yml --only snapshots"),
    ] {
        assert_eq!(shell.complete(line).join(" "), expected, "{name}: {line:?}");
    }
    for (line, expected) in [
        ("monopile hel\ttroub\t", "help troubleshooting"),
        ("monopile help state fo\t", "help state forget"),
        ("monopile help troubleshooting the-l\t", "help troubleshooting the-lock-is-held"),
    ] {
        assert_eq!(shell.complete(line).join(" "), expected, "{name}: {line:?}");
    }
    // Full names are offered without aliases and hidden names, and without options.
    let candidates = shell.list_candidates("monopile ", "upload-stemcell");
    assert!(candidates.contains("interpolate") && candidates.contains("cloud-check"), "{candidates}");
    for hidden_name in ["--json", "--help", "cck", "cloudcheck", "cpis"] {
        assert!(!candidates.contains(hidden_name), "{name}: {hidden_name}: {candidates}");
    }
    // An env file is also read.
    shell.run("cd sub");
    assert_eq!(shell.complete("monopile render --job ua\t").join(" "), "render --job uaa", "{name}");
    shell.run("cd ..");
    let candidates = shell.list_candidates("monopile render boot.yml --job ", "warden_cpi");
    assert!(candidates.contains("director") && candidates.contains("health_monitor"), "{candidates}");
}

#[test]
fn bash_completes_words_and_values() {
    check_completions("bash");
}

#[test]
fn zsh_completes_words_and_values() {
    check_completions("zsh");
}

#[test]
fn fish_completes_words_and_values() {
    check_completions("fish");
}

/// Checks the answers to an empty word and to the beginning of an alias in each shell.
#[test]
fn empty_word_offers_full_names_only() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let answer = |word: &str| {
            let mut command = world.monopile(["--", "monopile", word]);
            command.env("MONOPILE_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "1").env("_CLAP_IFS", "\n");
            world.finish(command).success().stdout
        };
        let all = answer("");
        let names: Vec<&str> =
            all.lines().filter_map(|line| line.split([':', '\t']).next()).map(str::trim).collect();
        assert!(names.contains(&"interpolate") && names.contains(&"help"), "{shell}: {all}");
        for hidden_name in ["int", "cck", "cloudcheck", "cpis"] {
            assert!(!names.contains(&hidden_name), "{shell}: {hidden_name}: {all}");
        }
        assert!(!names.iter().any(|name| name.starts_with('-')), "{shell}: {all}");
        assert!(answer("cck").starts_with("cck") && answer("--js").starts_with("--json"), "{shell}");
    }
}
