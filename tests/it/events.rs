//! Validates the events of real runs against `docs/events.schema.json`, and checks that the schema names all
//! of their fields.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::hello::Hello;
use crate::support::{Run, World};

const SCHEMA: &str = include_str!("../../docs/events.schema.json");

/// Returns the fields of a definition, including those of its references.
fn fields(schema: &Value, definition: &Value) -> BTreeSet<String> {
    let referenced_fields = definition["$ref"].as_str().map(|reference| {
        let name = reference.strip_prefix("#/$defs/").unwrap();
        fields(schema, &schema["$defs"][name])
    });
    let own_fields = definition["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone());
    own_fields.chain(referenced_fields.into_iter().flatten()).collect()
}

/// Validates every line, and collects the names of the events.
fn check(run: &Run, event_names: &mut BTreeSet<String>) {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let lines = if run.stdout.is_empty() { &run.stderr } else { &run.stdout };
    for line in lines.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let problems: Vec<String> = validator.iter_errors(&event).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{line}\n{problems:?}");
        // Readers skip unknown fields, but the schema must be complete.
        let name = event["event"].as_str().unwrap();
        let described_fields = fields(&schema, &schema["$defs"][name]);
        let header = ["v", "time", "event"].map(str::to_owned);
        let unknown: Vec<_> = event
            .as_object()
            .unwrap()
            .keys()
            .filter(|field| !described_fields.contains(*field) && !header.contains(field))
            .collect();
        assert!(unknown.is_empty(), "the schema does not name {unknown:?} of {line}");
        event_names.insert(name.to_owned());
    }
}

#[test]
fn all_events_match_the_schema_and_every_kind_occurs() {
    let mut event_names = BTreeSet::new();
    let mut hello = Hello::new();
    let kept_nowhere = hello.world.write("no-directory", "");
    // A note says that the registry is not needed.
    let registry = format!("{{host: {}, port: 6901, username: registry, password: no-secret}}", hello.ip());
    hello.add_ops(
        "registry.yml",
        &format!("- {{type: replace, path: /cloud_provider/properties/registry?, value: {registry}}}\n"),
    );
    check(&hello.create(&["--json", "--verbose"]).success(), &mut event_names);
    check(&hello.create(&["--json"]).success(), &mut event_names);
    let mut command = hello.command("stop-env", &["--json"]);
    command.env("XDG_STATE_HOME", kept_nowhere);
    check(&hello.world.finish(command), &mut event_names);
    hello.world.write("two.yml", "- {type: replace, path: /instance_groups/0/instances, value: 2}\n");
    check(&hello.create(&["--json", "-o", "two.yml"]).exits_with(3), &mut event_names);
    check(&hello.delete(&["--json"]).success(), &mut event_names);
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let schema_names: BTreeSet<String> = schema["$defs"]
        .as_object()
        .unwrap()
        .keys()
        .filter(|name| name.contains('_') || ["note", "warning", "planned", "state"].contains(&name.as_str()))
        .cloned()
        .collect();
    assert_eq!(event_names, schema_names);
}

#[test]
fn events_of_early_failures_match_the_schema() {
    let world = World::new();
    let mut event_names = BTreeSet::new();
    for args in [
        vec!["--json", "create-env", "--no-such-flag"],
        vec!["--json", "create-env", "absent.yml"],
        vec!["--json", "interpolate", "absent.yml"],
        vec!["--json", "delete-env", "-"],
    ] {
        check(&world.run(args), &mut event_names);
    }
    assert!(event_names.contains("run_finished"));
}

#[test]
fn page_documents_every_event_and_field() {
    let page = include_str!("../../docs/events.md");
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        for field in fields(&schema, definition) {
            assert!(page.contains(&format!("`{field}`")), "docs/events.md does not name `{field}` of {name}");
        }
    }
}
