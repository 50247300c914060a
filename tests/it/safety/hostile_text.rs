//! Values from outside cannot control the terminal: hostile text in every file that a command shows.
//!
//! One text goes to every command. Random texts go to random commands: a few of a fixed seed in the default
//! run; with `MONOPILE_FUZZ_SECONDS`, which `tests/run --fuzz` sets, texts of a new seed for that long.
//! `MONOPILE_FUZZ_SEED` repeats a seed.

use std::time::{Duration, Instant, UNIX_EPOCH};

use serde_json::json;

use crate::support::dice::Dice;
use crate::support::http::{Server, answer};
use crate::support::pty::Pty;
use crate::support::tarballs::{JobTarball, ReleaseTarball, StemcellTarball};
use crate::support::{World, number_from_environment};

/// A title, a colour, a cleared screen, a bell, an eight-bit sequence, a backspace and bidirectional marks.
const HOSTILE: &str = "ev\u{1b}]0;pwned\u{7}il\u{1b}[31m\u{1b}[2J\u{9b}31m\u{8}\u{202e}\u{2066}\u{200f}end";

/// Writes a state, a manifest, a vars store and artifacts in which every value is this text.
fn write_world(hostile: &str) -> World {
    let world = World::new();
    let name = |what: &str| format!("{what}-{hostile}");
    let state = json!({
        "director_id": name("director"), "installation_id": "i", "current_vm_cid": name("vm"),
        "current_stemcell_id": "s", "current_disk_id": "d", "current_release_ids": ["r"],
        "current_manifest_sha": "",
        "disks": [
            {"id": "d", "cid": name("disk"), "size": 1, "cloud_properties": {name("key"): name("value")}},
            {"id": "e", "cid": name("other"), "size": 1, "cloud_properties": {}},
        ],
        "stemcells": [{"id": "s", "name": name("stemcell"), "version": name("1"), "cid": name("ami")}],
        "releases": [{"id": "r", "name": name("release"), "version": name("2")}],
        "monopile": {
            "format": 2,
            "undeleted": [{
                "kind": "vm", "cid": name("gone"), "reason": name("reason"), "first_attempt_at": name("when"),
            }],
            "suspects": [{
                "kind": "vm", "request_id": name("request"),
                "description": name("looks"), "cpi_message": name("message"),
                "called_at": name("time"),
            }],
        },
    });
    world.write("bosh-state.json", state.to_string());
    // YAML allows these characters only as escapes.
    let yaml_text: String =
        hostile.chars().map(|character| format!("\\U{:08x}", u32::from(character))).collect();
    let yaml_text = format!("\"{yaml_text}\"");
    world.write(
        "bosh.yml",
        format!(
            "name: {yaml_text}\nvariables: [{{name: {yaml_text}, type: password}}]\n\
             releases: [{{name: {yaml_text}, url: {yaml_text}}}]\n\
             cloud_provider: {{cpi: {{path: ./cpi}}, mbus: 'https://a:b@127.9.9.9:1'}}\n"
        ),
    );
    // A CPI whose log and answer are hostile.
    let answer = json!({
        "result": null, "log": hostile,
        "error": {"type": hostile, "message": hostile, "ok_to_retry": false},
    });
    world.write("answer.json", answer.to_string());
    world.write("log", hostile);
    let cpi = world.write("cpi", "#!/bin/sh\ncat >/dev/null\ncat log >&2\ncat answer.json\n");
    std::fs::set_permissions(cpi, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world.write("store.yml", format!("{yaml_text}: {yaml_text}\n"));
    let stemcell = StemcellTarball {
        name: yaml_text.clone(),
        version: yaml_text.clone(),
        extra: format!("stemcell_formats: [{yaml_text}]\ncloud_properties: {{a: {yaml_text}}}\n"),
        ..StemcellTarball::default()
    };
    stemcell.write(&world.path("stemcell.tgz"));
    let job = JobTarball::new("job").spec(&format!("properties: {{p: {{description: {yaml_text}}}}}\n"));
    let release = ReleaseTarball::new("release", &yaml_text).job(job);
    release.write(&world.path("release.tgz"));
    world.write("template.erb", format!("<%= p({yaml_text}) %>"));
    world.write("context.json", json!({"properties": {}}).to_string());
    world.write("out/.keep", "");
    world
}

/// The command lines. Together with [`BAREMETAL`] they name every command.
const COMMANDS: &[&[&str]] = &[
    &["create-env", "bosh.yml", "-n"],
    &["plan", "bosh.yml"],
    &["delete-env", "bosh.yml", "-n"],
    &["stop-env", "bosh.yml"],
    &["start-env", "bosh.yml"],
    &["restart", "bosh.yml"],
    &["recreate", "bosh.yml", "-n"],
    &["status", "bosh.yml"],
    &["history", "bosh.yml", "--steps"],
    &["history"],
    &["logs", "bosh.yml"],
    &["ssh", "bosh.yml", "-c", "true"],
    &["scp", "bosh.yml", ":/x", "."],
    &["cloud-check", "bosh.yml", "--report"],
    &["interpolate", "bosh.yml"],
    &["interpolate", "bosh.yml", "--path", "/name"],
    &["vars", "list", "store.yml"],
    &["vars", "check", "store.yml"],
    &["vars", "get", "store.yml", "/nothing"],
    &["vars", "rotate", "store.yml", "nothing"],
    &["render", "bosh.yml", "--job", "nothing"],
    &["render-template", "template.erb", "--context", "context.json"],
    &["trust", "bosh.yml"],
    &["inspect-local-release", "release.tgz"],
    &["inspect-local-stemcell", "stemcell.tgz"],
    &["repack-stemcell", "stemcell.tgz", "out/new.tgz"],
    &["sha1ify-release", "release.tgz", "out/one.tgz"],
    &["sha2ify-release", "release.tgz", "out/two.tgz"],
    &["state", "show", "bosh.yml"],
    &["state", "verify", "bosh.yml"],
    &["state", "backup", "bosh.yml"],
    &["state", "import", "bosh.yml", "--vm", HOSTILE],
    &["state", "forget", "bosh.yml", "--disk", HOSTILE],
    &["upload-stemcell", "bosh.yml", "stemcell.tgz"],
    &["stemcells", "bosh.yml"],
    &["delete-stemcell", "bosh.yml", HOSTILE],
    &["delete-vm", "bosh.yml", HOSTILE],
    &["disks", "bosh.yml"],
    &["attach-disk", "bosh.yml", HOSTILE],
    &["delete-disk", "bosh.yml", HOSTILE],
    &["snapshots", "bosh.yml"],
    &["take-snapshot", "bosh.yml"],
    &["delete-snapshot", "bosh.yml", HOSTILE],
    &["cpis", "bosh.yml"],
    &["cpi", "info", "bosh.yml"],
    &["cpi", "call", "bosh.yml", "has_vm", HOSTILE],
    &["cpi", "check", "--path", "./cpi", "--stemcell", "stemcell.tgz"],
    &["cpi", "replay", "log"],
    &["cache", "list"],
    &["cache", "prune"],
    &["cache", "verify"],
    &["cache", "export", "bosh.yml", "bundle.tgz"],
    &["cache", "import", "log"],
    &["example", HOSTILE],
    &["completion", HOSTILE],
    &["version"],
    &["baremetal", "node", "list", "--os-endpoint", HOSTILE],
    &["cpi", "list", "bosh.yml"],
];

/// The commands for an Ironic, without its address.
const BAREMETAL: &[&[&str]] = &[
    &["baremetal", "node", "list"],
    &["baremetal", "node", "list", "--long"],
    &["baremetal", "node", "show", "odd"],
    &["baremetal", "node", "validate", "odd"],
    &["baremetal", "node", "show", "absent"],
    &["baremetal", "volume", "connector", "list"],
    &["baremetal", "volume", "connector", "show", "odd"],
    &[
        "baremetal",
        "volume",
        "connector",
        "create",
        "--node",
        "odd",
        "--type",
        "ip",
        "--connector-id",
        HOSTILE,
    ],
    &["baremetal", "volume", "connector", "set", "odd", "--extra", "a=b"],
    &["baremetal", "volume", "connector", "unset", "odd", "--extra", HOSTILE],
    &["baremetal", "volume", "connector", "delete", "absent"],
    &["baremetal", "volume", "target", "list"],
    &["baremetal", "volume", "target", "show", "odd"],
    &[
        "baremetal",
        "volume",
        "target",
        "create",
        "--node",
        "odd",
        "--type",
        "iscsi",
        "--volume-id",
        HOSTILE,
        "--boot-index",
        "0",
    ],
    &["baremetal", "volume", "target", "set", "odd", "--property", "a=b"],
    &["baremetal", "volume", "target", "unset", "odd", "--property", HOSTILE],
    &["baremetal", "volume", "target", "delete", "absent"],
    &["baremetal", "node", "create", "--driver", HOSTILE],
    &["baremetal", "node", "set", HOSTILE, "--name", "a"],
    &["baremetal", "node", "unset", HOSTILE, "--property", HOSTILE],
    &["baremetal", "node", "delete", HOSTILE],
    &["baremetal", "node", "manage", HOSTILE],
    &["baremetal", "node", "provide", HOSTILE],
    &["baremetal", "node", "inspect", HOSTILE],
    &["baremetal", "node", "adopt", HOSTILE],
    &["baremetal", "node", "abort", HOSTILE],
    &["baremetal", "node", "undeploy", HOSTILE],
    &["baremetal", "node", "unrescue", HOSTILE],
    &["baremetal", "node", "rescue", HOSTILE, "--rescue-password", "a"],
    &["baremetal", "node", "clean", HOSTILE, "--clean-steps", "[]"],
    &["baremetal", "node", "power", "on", HOSTILE, "--power-timeout", "0"],
    &["baremetal", "node", "power", "off", HOSTILE, "--power-timeout", "0"],
    &["baremetal", "node", "reboot", HOSTILE, "--power-timeout", "0"],
    &["baremetal", "node", "boot", "device", "set", HOSTILE, HOSTILE],
    &["baremetal", "node", "boot", "device", "show", "odd"],
    &["baremetal", "node", "maintenance", "set", HOSTILE, "--reason", HOSTILE],
    &["baremetal", "node", "maintenance", "unset", HOSTILE],
    &["baremetal", "node", "trait", "add", HOSTILE, HOSTILE],
    &["baremetal", "node", "trait", "list", HOSTILE],
    &["baremetal", "node", "trait", "remove", HOSTILE, HOSTILE],
    &["baremetal", "port", "create", HOSTILE, "--node", "odd"],
    &["baremetal", "port", "list"],
    &["baremetal", "allocation", "list"],
    &["baremetal", "allocation", "show", "odd"],
    &["baremetal", "allocation", "delete", HOSTILE],
    &["baremetal", "port", "show", "odd"],
    &["baremetal", "port", "delete", HOSTILE],
    &["baremetal", "volume", "connector", "collect", "--node", "odd", "--type", "portgroup"],
];

/// Returns an Ironic in which every key, value and error is hostile.
fn start_hostile_ironic(hostile: &str) -> Server {
    let hostile = hostile.to_owned();
    Server::start(move |request, _| {
        let object = json!({
            "uuid": hostile, "name": hostile, "node_uuid": "odd", &hostile: hostile,
            "extra": {&hostile: [hostile]}, "properties": {&hostile: hostile},
        });
        let path = request.path().split('?').next().unwrap();
        let (status, body) = match path.trim_end_matches('/') {
            "/v1" => ("200 OK", json!({})),
            path if path.ends_with("/absent") => ("404 Not Found", json!({"error_message": hostile})),
            path if path.ends_with("/validate") => {
                ("200 OK", json!({&hostile: {"result": false, "reason": hostile}}))
            }
            path if path.ends_with("/odd") => ("200 OK", object),
            _ => (
                "200 OK",
                json!({
                    "uuid": hostile, "nodes": [object], "connectors": [object], "targets": [object],
                    "ports": [object], "allocations": [object],
                }),
            ),
        };
        let versions = [
            ("X-OpenStack-Ironic-API-Minimum-Version", "1.1"),
            ("X-OpenStack-Ironic-API-Maximum-Version", "1.80"),
        ];
        answer(status, &versions, body.to_string().as_bytes())
    })
}

/// Returns the words of every command below this one that has no commands of its own.
fn leaves(command: &clap::Command, words: &[&str]) -> Vec<String> {
    let child_leaves = |child: &clap::Command| leaves(child, &[words, &[child.get_name()]].concat());
    let commands: Vec<String> = command.get_subcommands().flat_map(child_leaves).collect();
    if commands.is_empty() { vec![words.join(" ")] } else { commands }
}

/// Returns the first character that a terminal would not just show. `allows_styles` allows colours, cursor
/// movements and other sequences of this program.
fn harmful(text: &str, allows_styles: bool) -> Option<char> {
    let is_own =
        |character: char| matches!(character, '\n' | '\t') || allows_styles && "\r\u{1b}".contains(character);
    text.chars().find(|character| {
        character.is_control() && !is_own(*character)
            || matches!(*character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(*character, '\u{2066}'..='\u{2069}')
    })
}

#[test]
fn no_command_prints_hostile_bytes() {
    let tested_commands: Vec<String> =
        COMMANDS.iter().chain(BAREMETAL).map(|args| format!("{} ", args.join(" "))).collect();
    for command in leaves(&monopile::cli::grammar(), &[]) {
        let is_named = tested_commands.iter().any(|line| line.starts_with(&format!("{command} ")));
        assert!(is_named, "`{command}` is not tested");
    }
    let world = write_world(HOSTILE);
    let seal = std::fs::read(world.path("bosh-state.json")).unwrap();
    for args in [["state", "show", "bosh.yml"], ["vars", "list", "store.yml"]] {
        let run = world.run(args).success();
        assert!(run.stdout.contains("evil") && run.stdout.contains("end"), "{}", run.stdout);
    }
    world.run(["inspect-local-stemcell", "stemcell.tgz"]).success();
    world.run(["inspect-local-release", "release.tgz"]).success();
    for args in COMMANDS {
        for extra_args in [&[][..], &["--json"], &["--verbose"]] {
            let run = world.run(extra_args.iter().chain(*args));
            // Interpolated values and files go to a pipe as they are.
            let is_raw = matches!(args[0], "interpolate" | "render-template" | "completion");
            let output = if is_raw { String::new() } else { run.stdout.clone() };
            for text in [&output, &run.stderr] {
                assert_eq!(harmful(text, false), None, "{extra_args:?} {args:?}: {text:?}");
            }
            std::fs::write(world.path("bosh-state.json"), &seal).unwrap();
        }
    }
}

#[test]
fn hostile_bytes_from_ironic_are_not_printed() {
    let (world, ironic) = (World::new(), start_hostile_ironic(HOSTILE));
    let (endpoint, mut hostile_count) = (ironic.url(""), 0);
    for args in BAREMETAL {
        for extra_args in [&[][..], &["--json"], &["--verbose"]] {
            let run = world.run(args.iter().chain(&["--os-endpoint", &endpoint]).chain(extra_args));
            assert!([0, 1, 2, 3].contains(&run.code), "{args:?}: {} {}", run.code, run.stderr);
            for text in [&run.stdout, &run.stderr] {
                assert_eq!(harmful(text, false), None, "{extra_args:?} {args:?}: {text:?}");
            }
            // Tables escape control characters; errors drop escape sequences.
            let shows = |text: &str| text.contains("pwned") || text.contains("evil");
            hostile_count += usize::from(shows(&run.stdout) || shows(&run.stderr));
        }
    }
    assert!(hostile_count > BAREMETAL.len(), "{hostile_count} outputs have hostile values");
    for format in ["table", "json", "yaml", "value", "csv"] {
        let mut command =
            world.monopile(["baremetal", "node", "list", "-f", format, "--os-endpoint", &endpoint]);
        command.env("TERM", "xterm-256color");
        let mut pty = Pty::start(command, (120, 40));
        assert_eq!(pty.end(), 0);
        assert_eq!(harmful(&pty.raw(), true), None, "{format}: {:?}", pty.raw());
        assert!(!pty.raw().contains("\u{1b}[2J"), "{format}: {:?}", pty.raw());
    }
}

/// An argument with control sequences, short enough for errors that are not wrapped, which have colors.
const HOSTILE_ARGUMENT: &str = "ev\u{1b}[2J\u{9b}2J\u{1b}]0;pwned\u{7}";

#[test]
fn terminal_gets_no_hostile_bytes() {
    let world = write_world(HOSTILE);
    for args in [
        &["interpolate", "bosh.yml", "--path", "/name"][..],
        &["state", "show", "bosh.yml"],
        &["disks", "bosh.yml"],
        &["stemcells", "bosh.yml"],
        &["cpi", "info", "bosh.yml"],
        &["status", "bosh.yml"],
        &["cloud-check", "bosh.yml", "--report"],
        &["inspect-local-stemcell", "stemcell.tgz"],
        &["vars", "list", "store.yml"],
        &["delete-env", "bosh.yml", "-n"],
        &["cpi", "call", "bosh.yml", "has_vm", "x", "--json"],
        &["completion", HOSTILE_ARGUMENT],
        &[HOSTILE_ARGUMENT],
        &["disks", "bosh.yml", HOSTILE_ARGUMENT],
    ] {
        let mut command = world.monopile(args);
        command.env("TERM", "xterm-256color");
        let mut pty = Pty::start(command, (120, 40));
        pty.end();
        let raw = pty.raw();
        assert_eq!(harmful(&raw, true), None, "{args:?}: {raw:?}");
        assert!(!raw.contains("\u{1b}]0;pwned") && !raw.contains("\u{1b}[2J"), "{args:?}: {raw:?}");
    }
}

/// Returns a random text with escape sequences, control characters, bidirectional marks, and what decoders of
/// several kinds would turn into them. The parameters of its sequences begin with 777.
fn random_text(dice: &mut Dice) -> String {
    let mut text = String::from("ev");
    for _ in 0..dice.number_between(1, 8) {
        let sequence = format!(
            "\u{1b}[777;{}{}",
            dice.number_below(100),
            char::from(dice.number_between(0x40, 0x7e) as u8)
        );
        let introducer =
            dice.pick(&["\u{1b}]", "\u{1b}P", "\u{1b}_", "\u{1b}^", "\u{1b}X", "\u{9d}", "\u{90}"]);
        text += &match dice.number_below(10) {
            0 | 1 => sequence,
            2 => format!("{introducer}777;pwned{}", dice.pick(&["\u{7}", "\u{1b}\\", "\u{9c}", ""])),
            3 => format!("\u{9b}777;{}m", dice.number_below(100)),
            4 => format!("\u{1b}[{sequence}777m"),
            5 => format!("\u{1b}{}", dice.pick(&["", "c", "[", "]", "(0", "#8", "7", "\u{1b}"])),
            6 => char::from_u32(dice.number_between(1, 0x9f) as u32).unwrap().to_string(),
            7 => {
                dice.pick(&["\u{202e}", "\u{2066}", "\u{200f}", "\u{61c}", "\u{2028}", "\u{feff}"]).to_owned()
            }
            8 => char::from_u32(dice.number_below(0x11_0000) as u32).unwrap_or('\u{fffd}').to_string(),
            _ => {
                let encoded_escapes =
                    ["\\u001b[777m", "\\x1b[777m", "\\e[777m", "%1b[777m", "&#27;[777m", "G1s3Nzdt"];
                let special = ["((", "))", "%s", "{}", "\\", "\"", "'", "\r\n", "\t", "…", "🦀"];
                if dice.chance(50) { dice.pick(&encoded_escapes) } else { dice.pick(&special) }.to_owned()
            }
        };
    }
    text + "end"
}

#[test]
fn no_command_prints_random_hostile_text() {
    let (start, duration) =
        (Instant::now(), number_from_environment("MONOPILE_FUZZ_SECONDS").map(Duration::from_secs));
    let seed = number_from_environment("MONOPILE_FUZZ_SEED").unwrap_or_else(|| match duration {
        Some(_) => UNIX_EPOCH.elapsed().unwrap().as_secs(),
        None => 1,
    });
    let goes_on = |round: &u64| duration.map_or(*round < 3, |duration| start.elapsed() < duration);
    let (mut dice, mut runs) = (Dice::new(seed), 0);
    for _ in (0..).take_while(goes_on) {
        let hostile = random_text(&mut dice);
        let (world, ironic) = (write_world(&hostile), start_hostile_ironic(&hostile));
        let endpoint = ironic.url("");
        let seal = std::fs::read(world.path("bosh-state.json")).unwrap();
        for _ in 0..12 {
            let with_ironic = dice.chance(25);
            let line = dice.pick(if with_ironic { BAREMETAL } else { COMMANDS });
            let mut args: Vec<&str> = dice.pick(&[&[][..], &["--json"], &["--verbose"]]).to_vec();
            args.extend(line.iter().map(|word| if *word == HOSTILE { hostile.as_str() } else { *word }));
            if with_ironic {
                args.extend(["--os-endpoint", &endpoint]);
            }
            let on_terminal = dice.chance(15);
            let texts = if on_terminal {
                eprintln!("MONOPILE_FUZZ_SEED={seed}: {args:?} on a terminal");
                let mut command = world.monopile(&args);
                command.env("TERM", "xterm-256color");
                let mut pty = Pty::start(command, (120, 40));
                pty.end_with_answers("n", Duration::from_secs(90));
                vec![pty.raw()]
            } else {
                let run = world.run(&args);
                assert!((0..100).contains(&run.code), "{args:?} ended with {}: {}", run.code, run.stderr);
                // Interpolated values and files go to a pipe as they are.
                let is_raw = matches!(line[0], "interpolate" | "render-template" | "completion");
                if is_raw { vec![run.stderr] } else { vec![run.stdout, run.stderr] }
            };
            for text in texts {
                let control = harmful(&text, on_terminal);
                let sequences =
                    ["\u{1b}[777", "\u{1b}]777", "\u{1b}P777", "\u{1b}_777", "\u{1b}^777", "\u{1b}X777"];
                let passes = sequences.into_iter().find(|sequence| text.contains(sequence));
                assert!(
                    control.is_none() && passes.is_none() && !text.contains("panicked"),
                    "MONOPILE_FUZZ_SEED={seed}: {args:?} with {hostile:?} printed {control:?} {passes:?}: \
                     {text:?}"
                );
            }
            std::fs::write(world.path("bosh-state.json"), &seal).unwrap();
            runs += 1;
        }
    }
    eprintln!("MONOPILE_FUZZ_SEED={seed}: {runs} commands");
}
