//! `monopile interpolate`: a table of manifests, variables and results.

use crate::support::process::RunToEnd;
use std::collections::BTreeMap;

use serde::Deserialize;

use crate::support::World;

/// One entry of `cases.yml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// `None` if the case names its manifest in `args`.
    manifest: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    output: Option<String>,
    error: Option<String>,
    /// Marks an answer that differs from the bosh CLI's, for comparisons.
    #[serde(default, rename = "ours")]
    _ours: bool,
}

#[test]
fn output_equals_that_of_bosh_in_all_cases() {
    let cases: Vec<Case> = serde_yaml::from_str(include_str!("cases.yml")).unwrap();
    let failures: Vec<String> = cases.iter().filter_map(|case| run(case).err()).collect();
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// Runs a case and compares the output, or a part of the error. No error may contain the secret.
fn run(case: &Case) -> Result<(), String> {
    let world = World::new();
    if let Some(manifest) = &case.manifest {
        world.write("m.yml", manifest);
    }
    for (name, text) in &case.files {
        world.write(name, text);
    }
    let mut args = vec!["interpolate"];
    args.extend(case.manifest.is_some().then_some("m.yml"));
    args.extend(case.args.iter().map(String::as_str));
    let mut command = world.monopile(args);
    command.envs(&case.environment);
    let run = world.finish(command);
    let is_met = match (&case.output, &case.error) {
        (Some(output), None) => run.code == 0 && run.stdout == *output,
        (None, Some(error)) => {
            [2, 3].contains(&run.code)
                && run.stdout.is_empty()
                && run.stderr.contains(error.trim_end())
                && !run.stderr.contains("s3cret")
        }
        _ => return Err(format!("{}: a case has either an output or an error", case.name)),
    };
    if is_met {
        Ok(())
    } else {
        Err(format!("{}: {run:#?}\nexpected {:?}{:?}", case.name, case.output, case.error))
    }
}

#[test]
fn int_is_an_alias_of_interpolate() {
    let world = World::new();
    world.write("m.yml", "x: ((a))\n");
    assert_eq!(world.run(["int", "m.yml", "-v", "a=1"]).success().stdout, "x: 1\n");
}

#[test]
fn manifest_may_come_from_stdin() {
    let world = World::new();
    world.write("m.yml", "x: ((a))\n");
    let mut command = world.monopile(["int", "-", "-v", "a=1"]);
    command.stdin(std::fs::File::open(world.path("m.yml")).unwrap());
    let output = command.run_to_end();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "x: 1\n");
}

#[test]
fn errors_of_invalid_arguments_hide_their_values() {
    let world = World::new();
    world.write("m.yml", "x: 1\n");
    for args in [["-v", "s3cret"], ["-v", "=s3cret"], ["-v", "a=[s3cret"], ["--var-file", "s3cret"]] {
        let run = world.run(["int", "m.yml"].into_iter().chain(args));
        assert!([2, 3].contains(&run.code), "{run:?}");
        assert!(!run.stderr.contains("s3cret"), "{run:?}");
    }
}

#[test]
fn size_of_the_interpolated_document_is_limited() {
    let world = World::new();
    let items = "- ((a))\n".repeat(4000);
    world.write("m.yml", items);
    world.write("big", "x".repeat(100_000));
    let run = world.run(["int", "m.yml", "--var-file", "a=big"]).exits_with(3);
    assert!(run.stderr.contains("the document is larger than 256 MiB"), "{}", run.stderr);
}
