//! `--json=bosh`, compared byte by byte with documents in the form of the bosh CLI's `--json`, and the table
//! of JSON output in `docs/events.md`.
//!
//! The expected documents follow the bosh CLI's `ui/json_ui.go` and Go's `encoding/json`: an indentation of
//! four spaces, sorted keys in rows, `null` for missing values, escapes for HTML, and no line break at the
//! end.

use serde_json::Value;

use crate::support::World;
use crate::support::hello::Hello;
use crate::support::tarballs::{JobTarball, PackageTarball, ReleaseTarball, StemcellTarball};

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn interpolate_prints_a_block() {
    let world = World::new();
    world.write("m.yml", "name: ((name))\nhtml: <a> & \"b\"\n");
    let run = world.run(["--json=bosh", "interpolate", "m.yml", "-v", "name=x"]).success();
    let expected = r#"{
    "Tables": null,
    "Blocks": [
        "html: \u003ca\u003e \u0026 \"b\"\nname: x\n"
    ],
    "Lines": [
        "Succeeded"
    ]
}"#;
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), (expected, ""));
    let path = world.run(["int", "m.yml", "-v", "name=x", "--path", "/name", "--json=bosh"]).success();
    assert!(path.stdout.contains("        \"x\\n\"\n"), "{}", path.stdout);
}

#[test]
fn error_is_a_line_before_the_exit_code() {
    let world = World::new();
    world.write("m.yml", "name: ((name))\n");
    let run = world.run(["--json=bosh", "interpolate", "m.yml", "--var-errs"]).exits_with(3);
    assert_eq!(run.stderr, "");
    let output = document(&run.stdout);
    let lines = output["Lines"].as_array().unwrap();
    assert!(lines[0].as_str().unwrap().contains("((name))"), "{output}");
    assert_eq!(lines.last().unwrap(), "Exit code 3");
    assert_eq!((&output["Tables"], &output["Blocks"]), (&Value::Null, &Value::Null));
}

#[test]
fn inspect_local_release_prints_three_tables() {
    let world = World::new();
    let release = ReleaseTarball::new("rel", "1.10")
        .job(JobTarball::new("zeta").spec("packages: [lib, app]\n").template("ctl", "bin/ctl", "x"))
        .job(JobTarball::new("alpha"))
        .package(PackageTarball::new("lib", "true", &[]))
        .package(PackageTarball::new("app", "true", &["lib"]));
    release.write(&world.path("rel.tgz"));
    let report = document(&world.run(["inspect-local-release", "rel.tgz", "--json"]).success().stdout);
    let text = |pointer: &str| report.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    let name_and_digest = |kind: &str, index: usize| {
        let text = |field: &str| text(&format!("/{kind}/{index}/{field}"));
        (format!("{}/{}", text("name"), text("fingerprint")), text("digest"))
    };
    let ((alpha, alpha_digest), (zeta, zeta_digest)) =
        (name_and_digest("jobs", 0), name_and_digest("jobs", 1));
    let ((app, app_digest), (lib, lib_digest)) =
        (name_and_digest("packages", 0), name_and_digest("packages", 1));
    let commit = text("/commit_hash");
    let commit = if report["uncommitted_changes"] == true { format!("{commit}+") } else { commit };
    let expected = format!(
        r#"{{
    "Tables": [
        {{
            "Content": "",
            "Header": {{
                "archive": "Archive",
                "commit_hash": "Commit Hash",
                "name": "Name",
                "version": "Version"
            }},
            "Rows": [
                {{
                    "archive": "rel.tgz",
                    "commit_hash": "{commit}",
                    "name": "rel",
                    "version": "1.10"
                }}
            ],
            "Notes": null
        }},
        {{
            "Content": "jobs",
            "Header": {{
                "digest": "Digest",
                "job": "Job",
                "packages": "Packages"
            }},
            "Rows": [
                {{
                    "digest": "{alpha_digest}",
                    "job": "{alpha}",
                    "packages": ""
                }},
                {{
                    "digest": "{zeta_digest}",
                    "job": "{zeta}",
                    "packages": "lib\napp"
                }}
            ],
            "Notes": null
        }},
        {{
            "Content": "packages",
            "Header": {{
                "dependencies": "Dependencies",
                "digest": "Digest",
                "package": "Package"
            }},
            "Rows": [
                {{
                    "dependencies": "lib",
                    "digest": "{app_digest}",
                    "package": "{app}"
                }},
                {{
                    "dependencies": "",
                    "digest": "{lib_digest}",
                    "package": "{lib}"
                }}
            ],
            "Notes": null
        }}
    ],
    "Blocks": null,
    "Lines": [
        "Succeeded"
    ]
}}"#
    );
    let run = world.run(["inspect-local-release", "rel.tgz", "--json=bosh"]).success();
    assert_eq!((run.stdout, run.stderr), (expected, String::new()));
}

#[test]
fn inspect_local_stemcell_prints_a_table() {
    let world = World::new();
    let stemcell = StemcellTarball { image: Some(b"image".to_vec()), ..StemcellTarball::default() };
    stemcell.write(&world.path("stemcell.tgz"));
    let report = document(&world.run(["inspect-local-stemcell", "stemcell.tgz", "--json"]).success().stdout);
    let [name, os, version] = ["name", "os", "version"].map(|field| report[field].as_str().unwrap());
    let expected = format!(
        r#"{{
    "Tables": [
        {{
            "Content": "stemcell-metadata",
            "Header": {{
                "hypervisor": "Hypervisor",
                "infrastructure": "Infrastructure",
                "name": "Name",
                "os": "OS",
                "version": "Version"
            }},
            "Rows": [
                {{
                    "hypervisor": "-",
                    "infrastructure": "unknown",
                    "name": "{name}",
                    "os": "{os}",
                    "version": "{version}"
                }}
            ],
            "Notes": null
        }}
    ],
    "Blocks": null,
    "Lines": [
        "Succeeded"
    ]
}}"#
    );
    let run = world.run(["--json=bosh", "inspect-local-stemcell", "stemcell.tgz"]).success();
    assert_eq!((run.stdout, run.stderr), (expected, String::new()));
}

#[test]
fn create_and_delete_print_lines() {
    let hello = Hello::new();
    let lines = |command: &str, extra_args: &[&str]| -> Vec<String> {
        let run =
            hello.world.finish(hello.command(command, &[&["--json=bosh"], extra_args].concat())).success();
        assert_eq!(run.stderr, "");
        let output = document(&run.stdout);
        assert_eq!((&output["Tables"], &output["Blocks"]), (&Value::Null, &Value::Null));
        output["Lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
    };
    let manifest = format!("Deployment manifest: '{}'\n", hello.world.path("hello/manifest.yml").display());
    let state = format!("Deployment state: '{}'\n", hello.world.path("state.json").display());
    let stages = [
        ("create-env", "deploying"),
        ("stop-env", "stopping"),
        ("start-env", "starting"),
        ("delete-env", "deleting"),
    ];
    for (command, stage) in stages {
        let lines = lines(command, &["-n"]);
        assert_eq!(lines[0], manifest, "{command}: {lines:?}");
        assert_eq!(lines.last().unwrap(), "Succeeded", "{lines:?}");
        assert!(lines.contains(&state), "{command}: {lines:?}");
        let position_of = |text: String| lines.iter().position(|line| line.starts_with(&text));
        let (start_index, end_index) =
            (position_of(format!("Started {stage}\n")), position_of(format!("Finished {stage} (00:0")));
        assert!(start_index.is_some() && end_index > start_index, "{command}: {lines:?}");
        assert_eq!(lines[start_index.unwrap() - 1], "\n", "{command}: {lines:?}");
    }
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn other_commands_reject_json_bosh() {
    let world = World::new();
    for (args, reason) in [
        (&["status", "m.yml"][..], "--json=bosh works only with create-env"),
        (&["plan", "m.yml"], "--json=bosh works only with create-env"),
        (&["create-env", "m.yml", "--dry-run"], "--json=bosh does not work with --dry-run"),
    ] {
        let run = world.run([args, &["--json=bosh"]].concat()).exits_with(2);
        assert!(run.stderr.contains(reason) && run.stdout.is_empty(), "{run:?}");
    }
    let run = world.run(["--json=yaml", "interpolate", "m.yml"]).exits_with(2);
    assert!(run.stderr.contains("lines and bosh"), "{}", run.stderr);
}

/// Without `=`, the next word is not the form of the output.
#[test]
fn bare_json_option_does_not_take_the_next_word() {
    let world = World::new();
    world.write("bosh", "a: 1\n");
    assert_eq!(world.run(["int", "--json", "bosh"]).success().stdout, "a: 1\n");
    let lines = world.run(["int", "--json=lines", "absent.yml"]).exits_with(3);
    assert!(lines.stderr.lines().all(|line| document(line)["v"] == 1), "{}", lines.stderr);
}

#[test]
fn output_of_every_command_is_documented() {
    fn leaves(command: &clap::Command, path: &str, paths: &mut Vec<String>) {
        for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            let path = format!("{path} {}", subcommand.get_name()).trim().to_owned();
            match subcommand.has_subcommands() {
                true => leaves(subcommand, &path, paths),
                false => paths.push(path),
            }
        }
    }
    let mut commands = Vec::new();
    leaves(&monopile::cli::grammar(), "", &mut commands);
    let page = include_str!("../../docs/events.md");
    let (_, rest) = page.split_once("## Output of each command").unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    let page_commands: Vec<&str> = section.split('`').skip(1).step_by(2).collect();
    for command in commands {
        let is_named = |name: &&str| command == *name || command.starts_with(&format!("{name} "));
        assert!(
            page_commands.iter().any(is_named),
            "docs/events.md does not say what {command} --json prints"
        );
    }
}
