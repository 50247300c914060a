//! The command line: accepted and rejected arguments, and their errors.

use std::collections::BTreeSet;
use std::path::Path;

use crate::layers::rust_files;
use crate::support::World;
use crate::support::pty::Pty;

const SOME_COMMANDS: [&str; 19] = [
    "create-env",
    "plan",
    "delete-env",
    "interpolate",
    "inspect-local-release",
    "inspect-local-stemcell",
    "repack-stemcell",
    "sha1ify-release",
    "sha2ify-release",
    "upload-stemcell",
    "delete-stemcell",
    "delete-vm",
    "attach-disk",
    "delete-disk",
    "take-snapshot",
    "delete-snapshot",
    "cpi",
    "cache",
    "completion",
];

#[test]
fn without_a_command_help_is_shown_as_an_error() {
    let run = World::new().run::<&str>([]).exits_with(2);
    assert!(run.stderr.contains("Usage: monopile") && run.stdout.is_empty());
}

#[test]
fn version_options_name_version_and_target() {
    let version = regex::escape(env!("CARGO_PKG_VERSION"));
    // A release build also names its commit and the date of that.
    let commit = r"[0-9a-f]{9}(\+changes)? \d{4}-\d\d-\d\d, ";
    let pattern = format!(r"^monopile {version} \(({commit})?{}-[a-z0-9_-]+\)\n$", std::env::consts::ARCH);
    for option in ["-v", "-V", "--version"] {
        let run = World::new().run([option]).success();
        assert!(regex::Regex::new(&pattern).unwrap().is_match(&run.stdout), "{option}: {}", run.stdout);
    }
}

#[test]
fn help_has_groups_and_begins_with_the_everyday_commands() {
    let help = World::new().run(["--help"]).success().stdout;
    assert_eq!(World::new().run(["help"]).success().stdout, help);
    let (commands, _) = help.split_once("Exit codes:").unwrap();
    let headings: Vec<&str> =
        commands.lines().filter(|line| !line.starts_with(' ') && line.ends_with(':')).collect();
    let groups = [
        "Everyday",
        "Jobs and VM",
        "Records and repair",
        "Disks and stemcells",
        "Manifests",
        "Artifacts",
        "CPI and bare metal",
        "Setup",
    ];
    let expected: Vec<String> = groups.iter().chain(&["Options"]).map(|group| format!("{group}:")).collect();
    assert_eq!(headings, expected, "{help}");
    let (_, everyday) = help.split_once("Everyday:\n").unwrap();
    let names: Vec<&str> =
        everyday.lines().take(5).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names, ["create-env", "plan", "status", "logs", "delete-env"]);
}

#[test]
fn command_help_has_an_example_and_no_manifest_default() {
    let help = World::new().run(["help", "create-env"]).success().stdout;
    assert_eq!(World::new().run(["create-env", "--help"]).success().stdout, help);
    assert!(help.contains("Usage: monopile create-env [OPTIONS] [MANIFEST]"), "{help}");
    assert!(help.contains("Examples:\n  monopile create-env ") && !help.contains("[default: -]"), "{help}");
    assert!(help.contains("standard input; then pass --state."), "{help}");
    assert!(help.contains("[default: from the env file]"), "{help}");
    // The options of the command itself come first.
    let (own_options, shared_options) = help.split_once("Manifest and variables:\n").unwrap();
    assert!(own_options.contains("--recreate\n") && !own_options.contains("--ops-file"), "{help}");
    assert!(
        shared_options.contains("--ops-file") && !shared_options.contains("      --recreate\n"),
        "{help}"
    );
}

/// `monopile help …` uses a pager on a terminal, if there is one.
#[test]
fn help_is_paged_on_a_terminal() {
    let world = World::new();
    let on_terminal = |words: &[&str], pager: &str| {
        let mut command = world.monopile(words);
        command.env("TERM", "xterm-256color").env("PAGER", pager);
        let mut pty = Pty::start(command, (100, 200));
        assert_eq!(pty.end(), 0);
        pty.text()
    };
    for (words, first) in [(["help", "plan"], "Show what create-env would do"), (["help", "tour"], "A tour")]
    {
        let output = on_terminal(&words, "sed -n 1p");
        assert!(output.trim().starts_with(first) && output.trim().lines().count() == 1, "{output}");
        let output = on_terminal(&words, "/no/such/pager");
        assert!(output.trim().starts_with(first) && output.trim().lines().count() > 50, "{output}");
        // Not in a pipe.
        let mut command = world.monopile(words);
        command.env("PAGER", "sed -n 1p");
        assert!(world.finish(command).success().stdout.lines().count() > 50);
    }
    let output = on_terminal(&["plan", "--help"], "sed -n 1p");
    assert!(output.contains("Exit codes:"), "{output}");
}

/// Pages of the book fit into 80 columns in a pipe, except for commands and words that must not be broken.
#[test]
fn pages_of_the_book_are_rendered() {
    let world = World::new();
    for page in &monopile::cli::TOPICS {
        let text = world.run(["help", page.name]).success().stdout;
        assert!(text.lines().count() > 20, "{}: {text}", page.name);
        for line in text.lines() {
            let is_code = line.starts_with("        ") || line.contains('`');
            let words = line.split_whitespace().count();
            assert!(line.chars().count() <= 80 || is_code || words < 3, "{}: {line}", page.name);
            for markdown in ["](", "**", "![", "<br>", "&lt;", "|---"] {
                assert!(is_code || !line.contains(markdown), "{}: {line}", page.name);
            }
        }
    }
    let page = world.run(["help", "Troubleshooting"]).success().stdout;
    assert!(page.starts_with("When it breaks\n\n    Find"), "{page}");
    assert!(page.contains("an env file (monopile help env-file)"), "{page}");
    let list = world.run(["help", "help"]).success().stdout;
    assert!(
        list.contains("Usage: monopile help [COMMAND | PAGE [SECTION]]\n") && list.contains("\n  tour "),
        "{list}"
    );
    assert_eq!(world.run(["help", "--help"]).success().stdout, list);
}

#[test]
fn section_of_a_page_is_printed() {
    let world = World::new();
    let section = world.run(["help", "troubleshooting", "the-lock-is-held"]).success().stdout;
    assert!(section.starts_with("The lock is held\n\n"), "{section}");
    let page = world.run(["help", "troubleshooting"]).success().stdout;
    assert!(page.contains(&section) && section.lines().count() < 60, "{section}");
    for words in [&["The", "lock", "is"][..], &["the lock"], &["lock"], &["#the-lock-is-held"], &["held"]] {
        let words: Vec<&str> = ["help", "troubleshooting"].iter().chain(words).copied().collect();
        assert_eq!(world.run(&words).success().stdout, section, "{words:?}");
    }
    // A section has the sections below it.
    let section = world.run(["help", "troubleshooting", "the-agent"]).success().stdout;
    assert!(section.contains("\n  Another VM answers\n"), "{section}");
    // The references name their sections by command lines.
    let section = world.run(["help", "reference", "state", "show"]).success().stdout;
    assert!(section.starts_with("monopile state show\n"), "{section}");
}

/// The pages and sections that hints and help texts name exist.
#[test]
fn named_help_pages_exist() {
    let world = World::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let pattern = regex::Regex::new("`monopile (help [a-z0-9-]+(?: [a-z0-9-]+)?)`").unwrap();
    let mut command_lines = BTreeSet::new();
    for (_, code) in rust_files(&source, &|_| true) {
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap();
        command_lines.extend(pattern.captures_iter(code).map(|captures| captures[1].to_owned()));
    }
    assert!(command_lines.contains("help env-file keys"), "{command_lines:?}");
    for command_line in command_lines {
        world.run(command_line.split(' ').collect::<Vec<_>>()).success();
    }
}

#[test]
fn unknown_section_gets_a_list_and_a_hint() {
    let world = World::new();
    let error = world.run(["help", "troubleshooting", "the-lokc-is-held"]).exits_with(2).stderr;
    assert!(
        error.starts_with("error: page 'troubleshooting' has no section 'the-lokc-is-held'\n"),
        "{error}"
    );
    assert!(
        error.contains("  note: its sections:\n    the-agent-is-silent, another-vm-answers, "),
        "{error}"
    );
    let hint = "  hint: did you mean `monopile help troubleshooting the-lock-is-held`?\n";
    assert!(error.ends_with(hint) && error.lines().all(|line| line.len() <= 80), "{error}");
    let error = world.run(["help", "tour", "xyzzyxyzzy"]).exits_with(2).stderr;
    assert!(error.ends_with("  hint: to print one of them: `monopile help tour SECTION`\n"), "{error}");
    let error = world.run(["help", "tour", "lock", "is", "held"]).exits_with(2).stderr;
    let hint = "tour SECTION`\n  hint: read `monopile help troubleshooting the-lock-is-held`\n";
    assert!(error.ends_with(hint), "{error}");
    let error = world.run(["help", "changes", "s"]).exits_with(2).stderr;
    assert!(error.contains("page 'changes' has several sections for 's'\n"), "{error}");
    assert!(error.contains("\n    see-it-first, save-a-plan-apply-exactly-that\n"), "{error}");
}

#[test]
fn unknown_page_gets_a_hint() {
    let world = World::new();
    let error = world.run(["help", "troubleshoting"]).exits_with(2).stderr;
    assert!(error.starts_with("error: there is no command or page 'troubleshoting'\n"), "{error}");
    assert!(error.contains("hint: did you mean `monopile help troubleshooting`?"), "{error}");
    assert!(!error.contains("list the pages") && !error.contains("Usage"), "{error}");
    let error = world.run(["help", "xyzzyxyzzy"]).exits_with(2).stderr;
    assert!(
        error.contains("'\n  hint: to list the commands: `monopile help`\n  hint: to list the pages: "),
        "{error}"
    );
    let error = world.run(["help", "lock", "is", "held"]).exits_with(2).stderr;
    let expected = "error: there is no command or page 'lock is held'\n  hint: read `monopile help \
                    troubleshooting the-lock-is-held`\n";
    assert_eq!(error, expected);
    for (word, name) in [("destroy", "delete-env"), ("restart-env", "restart")] {
        let error = world.run(["help", word]).exits_with(2).stderr;
        assert!(error.ends_with(&format!("  hint: did you mean `monopile help {name}`?\n")), "{error}");
    }
    for (word, place) in [("rotate", "vars rotate"), ("vault", "vars-exec")] {
        let error = world.run(["help", word]).exits_with(2).stderr;
        assert!(error.ends_with(&format!("'\n  hint: read `monopile help {place}`\n")), "{error}");
    }
    let error = world.run(["help", "variables"]).exits_with(2).stderr;
    assert!(error.starts_with("error: 'variables' needs a BOSH director\n"), "{error}");
    assert!(error.contains("\n  hint: read `monopile help manifest variables`\n"), "{error}");
}

#[test]
fn program_alone_prints_its_main_commands_on_one_screen() {
    const SCREEN_LINES: usize = 45;
    let text = World::new().run([""; 0]).exits_with(2).stderr;
    assert!(text.lines().count() <= SCREEN_LINES, "{text}");
    assert!(text.contains("\n  create-env ") && !text.contains("\n  render "), "{text}");
    assert!(
        text.contains("\nGet started:\n") && text.contains("\n`monopile -h` lists all commands"),
        "{text}"
    );
}

#[test]
fn help_is_suggested_in_place_of_a_manifest() {
    let error = World::new().run(["create-env", "help"]).exits_with(2).stderr;
    assert!(
        error.ends_with("\n  hint: for the help of the command: `monopile help create-env`\n"),
        "{error}"
    );
}

/// `-h` is a summary: it omits rare options and details, and has one word for each exit code.
#[test]
fn short_help_is_a_part_of_the_long_one() {
    for command in ["create-env", "status", "cloud-check"] {
        let [short, long] =
            ["-h", "--help"].map(|option| World::new().run([command, option]).success().stdout);
        assert!(short.lines().count() * 3 / 2 < long.lines().count(), "{short}");
        let options = |text: &str| -> Vec<String> {
            let words = text.split(|end: char| end.is_whitespace() || end == ',');
            words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
        };
        let all = options(&long);
        assert!(options(&short).iter().all(|option| all.contains(option)), "{short}");
        assert!(!short.contains("--cache-dir") && long.contains("--cache-dir"), "{short}");
        assert!(
            short.contains("\nExit codes: 0 success; 1 failure;") && short.contains("\nExample"),
            "{short}"
        );
    }
}

/// The help of commands that lose data or records describes what stays, and how to undo them, or that this is
/// impossible.
#[test]
fn help_says_what_is_lost() {
    for (command, promise) in [
        ("create-env", "deletes all data outside its persistent disk"),
        ("create-env", "the old disk is deleted with its data"),
        ("recreate", "deletes the VM with all data outside its persistent disk"),
        ("delete-env", "This cannot be undone"),
        ("delete-vm", "All data outside its persistent disk is lost"),
        ("delete-disk", "This cannot be undone"),
        ("delete-snapshot", "This cannot be undone"),
        ("delete-stemcell", "uploads it again"),
        ("upload-stemcell", "delete the upload that it replaces"),
        ("cloud-check", "deletes the VM with all data outside its persistent disk"),
        ("state forget", "restore the version before with `monopile state backup --restore`"),
        ("state backup", "restore that one to undo"),
        ("state import", "nothing is overwritten"),
        ("vars rotate", "Copy the vars store first"),
        ("cache prune", "downloads or compiles it again"),
        ("cpi call", "delete at once, and cannot be undone"),
        ("cpi check", "deletes them at the end"),
        ("baremetal volume target delete", "their data stay"),
    ] {
        let words: Vec<&str> = ["help"].into_iter().chain(command.split(' ')).collect();
        let help = World::new().run(&words).success().stdout;
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(promise), "{command}: {promise}\n{help}");
    }
    for command in ["create-env", "delete-env", "recreate", "delete-vm", "delete-disk"] {
        let help = World::new().run([command, "--help"]).success().stdout;
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("On a terminal, ") && help.contains("With -n or --json"), "{help}");
    }
}

/// An option without an effect is accepted, for scripts and env files, but hidden.
#[test]
fn commands_without_a_lock_do_not_offer_to_wait_for_it() {
    for (command, offers) in [
        ("create-env", true),
        ("state forget", true),
        ("state verify", true),
        ("plan", false),
        ("status", false),
    ] {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = World::new().run(&words).success().stdout;
        assert_eq!(help.contains("--wait-for-lock <"), offers, "{command}");
    }
    let run = World::new().run(["status", "absent.yml", "--wait-for-lock", "1s"]).exits_with(3);
    assert!(run.stderr.contains("absent.yml"), "{}", run.stderr);
}

#[test]
fn director_commands_are_not_taken_for_typos() {
    for words in
        [vec!["deploy", "m.yml"], vec!["-e", "vbox", "-d", "x", "vms"], vec!["-n", "run-errand", "smoke"]]
    {
        let run = World::new().run(&words).exits_with(2);
        assert!(run.stderr.contains("hint: with a director: `bosh -e "), "{}", run.stderr);
        assert!(!run.stderr.contains("did you mean"), "{}", run.stderr);
    }
    let run = World::new().run(["vars", "show"]).exits_with(2);
    assert!(
        run.stderr.contains("hint: the commands of `vars` are list, get, check and rotate\n"),
        "{}",
        run.stderr
    );
    let run = World::new().run(["cloudcheck", "absent.yml"]).exits_with(3);
    assert!(run.stderr.contains("absent.yml"), "{}", run.stderr);
}

#[test]
fn old_names_of_merged_commands_still_work() {
    let world = World::new();
    for (old, new) in [
        (&["disks"][..], &["state", "show", "--only", "disks"][..]),
        (&["snapshots"], &["state", "show", "--only", "snapshots"]),
        (&["stemcells"], &["state", "show", "--only", "stemcells"]),
        (&["cpis"], &["cpi", "list"]),
    ] {
        let [old, new] = [old, new].map(|words| world.run([words, &["absent.yml"]].concat()).exits_with(3));
        assert_eq!((&old.stdout, &old.stderr), (&new.stdout, &new.stderr));
    }
}

#[test]
fn help_lists_public_commands_only() {
    let help = World::new().run(["--help"]).success().stdout;
    for command in SOME_COMMANDS {
        assert!(help.contains(command), "{command}");
    }
    for internal in ["cpi-exec", "vm-boot", "  agent"] {
        assert!(!help.contains(internal), "{internal}");
    }
}

#[test]
fn clap_errors_exit_with_usage_code() {
    for args in [
        vec!["no-such-command"],
        vec!["create-env"],
        vec!["create-env", "a.yml", "b.yml"],
        vec!["create-env", "a.yml", "--no-such-flag"],
        vec!["create-env", "a.yml", "--parallel", "0"],
        vec!["create-env", "a.yml", "--parallel", "many"],
        vec!["completion", "tcsh"],
        vec!["cpi-exec"],
        vec!["cpi-exec", "no-such-cpi", "--config", "x"],
    ] {
        let run = World::new().run(&args).exits_with(2);
        assert!(run.stdout.is_empty() && run.stderr.starts_with("error: "), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn usage_errors_are_json_with_json_option() {
    let run = World::new().run(["--json", "create-env", "--no-such-flag"]).exits_with(2);
    let lines = run.json();
    assert_eq!(lines.len(), 1, "{}", run.stdout);
    assert_eq!(lines[0]["event"], "run_finished");
    assert_eq!(lines[0]["exit_code"], 2);
    assert!(lines[0]["summary"].as_str().unwrap().contains("--no-such-flag"), "{}", lines[0]);
    assert!(run.stderr.is_empty());
}

/// Every error has hints, also that of an argument.
#[test]
fn errors_of_arguments_have_hints() {
    let text = World::new().run(["create-env", "--vars-stor", "x"]).exits_with(2).stderr;
    assert!(text.contains("\n  hint: did you mean '--vars-store'?\n"), "{text}");
    let line = World::new().run(["--json", "creat-env"]).exits_with(2).json().remove(0);
    let hint = line["hints"][0].as_str().unwrap();
    assert!(hint.starts_with("did you mean 'create-env'?"), "{hint}");
    // The only word is the manifest or the CID.
    let world = World::new();
    world.write("m.yml", "name: x\n");
    for (word, hint) in [
        ("m.yml", "add the CID; to see those on record: `monopile status m.yml`"),
        ("vm-1", "name the manifest first: `monopile delete-vm MANIFEST CID`"),
    ] {
        let run = world.run(["delete-vm", word]).exits_with(2);
        assert!(run.stderr.contains(&format!("\n  hint: {hint}\n")), "{}", run.stderr);
    }
}

#[test]
fn state_in_place_of_the_manifest_is_named() {
    let world = World::new();
    world.write("bosh-state.json", "");
    for (command, expected) in [
        ("delete-env", "error: 'bosh-state.json' is a state, not a manifest\n  hint: name the manifest"),
        ("logs", "error: 'bosh-state.json' is a state, not a manifest\n  hint: name the manifest"),
        ("status", "bosh-state.json' cannot be used\n  cause: the file is empty"),
    ] {
        let run = world.run([command, "bosh-state.json"]).exits_with(3);
        assert!(run.stderr.contains(expected), "{command}: {}", run.stderr);
    }
    let run = world.run(["state", "show", "a-state.json"]).exits_with(3);
    assert!(run.stderr.contains("/a-state.json'\n"), "{}", run.stderr);
    assert!(run.stderr.contains("`monopile create-env MANIFEST --state a-state.json`"), "{}", run.stderr);
    world.write("empty.json", "");
    world.write("other.json", "{\"a\": 1}");
    world.write("cut.json", "{\n  \"director_id\": \"a\",\n  \"vm");
    world.write("vars.yml", "a: 1\n");
    world.write("ops.yml", "- {type: remove, path: /a}\n");
    world.write("manifest.json", "{\"instance_groups\": []}");
    for command in [&["status"][..], &["state", "show"], &["logs"], &["history"], &["delete-env"]] {
        for (file, cause) in [
            ("empty.json", "the file is empty\n  hint: restore a copy of the state"),
            (
                "other.json",
                "it has no `director_id`, which every state has: it is another JSON file\n  hint: restore",
            ),
            ("cut.json", "not valid JSON, line 3: it ends too early\n  hint: restore"),
            ("vars.yml", "it has no key of a manifest, such as `instance_groups`\n  hint: name the manifest"),
            ("ops.yml", "it is an ops file\n  hint: name the manifest"),
        ] {
            let run = world.run([command, &[file]].concat()).exits_with(3);
            let expected = format!("error: '{file}' is neither a manifest nor a state\n  cause: {cause}");
            assert!(run.stderr.contains(&expected), "{command:?}: {}", run.stderr);
        }
    }
    let run = world.run(["status", "manifest.json"]).exits_with(3);
    assert!(run.stderr.contains("`monopile create-env manifest.json`"), "{}", run.stderr);
    world.write("envs/bosh.yml", "");
    for command in ["create-env", "status", "logs", "delete-env"] {
        let run = world.run([command, "envs"]).exits_with(3);
        assert!(run.stderr.contains("manifest 'envs' is a directory"), "{command}: {}", run.stderr);
    }
}

#[test]
fn errors_have_no_words_of_libraries() {
    let world = World::new();
    world.write("bosh.yml", "name: ((a))\nvariables: [{name: a, type: password}]\n");
    for (words, code, expected) in [
        (
            &["logs", "bosh.yml", "--num", "x"][..],
            2,
            "--num must be a whole number of at least 0, not 'x'\n  hint: for example: `monopile logs \
             bosh.yml --num 10`\n",
        ),
        (&["logs", "bosh.yml", "--num", "-1"], 2, "--num must be a whole number of at least 0, not '-1'"),
        (
            &["create-env", "bosh.yml", "--wait-for-lock", "-5"],
            2,
            "for example: `monopile create-env bosh.yml --wait-for-lock 1h30m`",
        ),
        (&["history", "--limit", "-1"], 2, "--limit must be a whole number of at least 1, not '-1'"),
        (
            &["history", "-n", "5"],
            2,
            "error: '5' is taken as the manifest, but does not exist\n  hint: -n means --non-interactive; \
             for a number: --limit 5\n",
        ),
        (&["logs", "-n", "5"], 2, "for a number: --num 5\n"),
        (
            &["cpi", "call", "--path", "/bin/true", "--context", "{a: 1}", "info"],
            2,
            "--context is not JSON\n  cause: line 1, column 2: a key is not in double quotes",
        ),
        (
            &["create-env", "bosh.yml", "--plan", "bosh.yml"],
            3,
            "'bosh.yml' is not a saved plan\n  cause: it is YAML, and a saved plan is JSON",
        ),
        (
            &["interpolate", "bosh.yml", "--vars-store", "absent/creds.yml"],
            3,
            "vars store 'absent/creds.yml' cannot be created\n  cause: the directory",
        ),
    ] {
        let run = world.run(words.iter()).exits_with(code);
        assert!(run.stderr.contains(expected), "{words:?}: {}", run.stderr);
    }
    let run = world.run(["plan", "--json", "bosh"]).exits_with(2);
    assert!(run.stderr.contains("\"hints\":[\"write --json=bosh\"]"), "{}", run.stderr);
}

/// Variables are checked before the first stage, so standard output stays empty.
#[test]
fn malformed_variables_are_refused_before_the_run() {
    let world = World::new();
    world.write("bosh.yml", "name: ((a))\n");
    for command in ["create-env", "plan", "status", "interpolate"] {
        for (option, value, code, expected) in [
            ("-v", "foo", 2, "error: --var needs NAME=VALUE, and the text has no '='\n"),
            ("--var-file", "foo", 2, "error: --var-file needs NAME=FILE, and the text has no '='\n"),
            ("-v", "foo=[1", 3, "hint: VALUE is YAML: quote text that begins with '[': --var 'foo=\"…\"'\n"),
        ] {
            let run = world.run([command, "bosh.yml", option, value]).exits_with(code);
            assert!(run.stderr.contains(expected) && run.stderr.starts_with("error: "), "{}", run.stderr);
            assert_eq!(run.stdout, "", "{command} {option} {value}");
        }
    }
}

#[test]
fn bosh_json_names_its_commands() {
    let run = World::new().run(["status", "a.yml", "--json=bosh"]).exits_with(2);
    assert!(run.stderr.ends_with(" and stop-env\n  hint: use --json\n"), "{}", run.stderr);
}

#[test]
fn directory_of_out_is_checked_before_the_manifest() {
    let run = World::new().run(["plan", "absent.yml", "--out", "absent/p.plan"]).exits_with(3);
    assert!(
        run.stderr.starts_with("error: the directory 'absent' for --out does not exist\n"),
        "{}",
        run.stderr
    );
}

#[test]
fn history_of_an_absent_manifest_says_so() {
    let run = World::new().run(["history", "absent.yml"]).exits_with(3);
    assert!(run.stderr.starts_with("error: manifest 'absent.yml' does not exist\n"), "{}", run.stderr);
}

#[test]
fn manifest_in_place_of_a_cpi_is_named() {
    let world = World::new();
    world.write("bosh.yml", "name: a\ncloud_provider: {}\n");
    let run = world.run(["cpi", "info", "--path", "bosh.yml"]).exits_with(3);
    assert!(run.stderr.contains("bosh.yml' is a manifest, not a CPI\n"), "{}", run.stderr);
    assert!(run.stderr.contains("hint: leave out --path: `monopile cpi info "), "{}", run.stderr);
}

#[test]
fn manifest_from_standard_input_needs_a_state_path() {
    for command in ["create-env", "delete-env"] {
        let run = World::new().run(["-n", command, "-"]).exits_with(2);
        assert!(run.stderr.contains("--state"), "{}", run.stderr);
    }
}

/// Options of the bosh CLI without a meaning here must not break scripts: the command ends as it would
/// without them. Two of them look like a choice of what the command acts on, so a warning names these.
#[test]
fn director_options_are_ignored() {
    let world = World::new();
    let plain = world.run(["interpolate", "absent.yml"]);
    assert_ne!(plain.code, 2, "{}", plain.stderr);
    let ignored_options = "-e vbox -d dep --environment=x --deployment x --config c --ca-cert c --client u \
                   --client-secret s --column a --column=b";
    for is_before_command in [true, false] {
        let mut args: Vec<&str> = ignored_options.split_whitespace().collect();
        match is_before_command {
            true => args.extend(["interpolate", "absent.yml"]),
            false => drop(args.splice(0..0, ["interpolate", "absent.yml"])),
        }
        let run = world.run(&args);
        let warnings =
            [("-e x", "a director"), ("-d x", "a deployment of a director")].map(|(option, noun)| {
                format!("warning: {option} has no effect: it names {noun}, and monopile uses no director\n")
            });
        assert_eq!((run.code, run.stderr), (plain.code, format!("{}{}", warnings.concat(), plain.stderr)));
    }
}
