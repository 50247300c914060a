//! Templates that the bosh CLI also renders. docs/templates.md has a table of the names that the bosh CLI
//! lacks, and hello uses none of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::support::hello::Hello;

const TEMPLATES: &str = "hello/release/jobs/hello/templates";

/// Returns the evaluation context of `bosh create-env` (bosh-cli,
/// `templatescompiler/job_evaluation_context.go`) with exactly these keys.
fn upstream_context(hello: &Hello) -> Value {
    let spec: Value = serde_yaml::from_str(&hello.world.read("hello/release/jobs/hello/spec")).unwrap();
    let default = |property: &Value| property.get("default").cloned().unwrap_or_default();
    let defaults: Map<String, Value> = spec["properties"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, property)| (name.clone(), default(property)))
        .collect();
    json!({
        "index": 0,
        "id": "8b0e2f0a-6f0f-4c5b-9f0c-0d2f2c0b7a11",
        "az": "unknown",
        "bootstrap": true,
        "job": {"name": "hello"},
        "deployment": "hello",
        "address": hello.ip(),
        "networks": {"default": {"ip": "", "netmask": "", "gateway": ""}},
        "global_properties": {},
        "cluster_properties": {},
        "job_properties": {"port": 8580, "greeting": "Ahoy"},
        "default_properties": defaults,
    })
}

/// Returns the example in an availability zone, with a network that is not called `default`.
fn hello() -> Hello {
    let mut hello = Hello::new();
    hello.add_ops(
        "portable.yml",
        "- {type: replace, path: /instance_groups/0/jobs/0/properties/greeting?, value: Ahoy}\n\
         - {type: replace, path: /azs?, value: [{name: z1}]}\n\
         - {type: replace, path: /instance_groups/0/azs?, value: [z1]}\n\
         - {type: replace, path: /networks/0/name, value: private}\n\
         - {type: replace, path: /networks/0/subnets/0/az?, value: z1}\n\
         - {type: replace, path: /resource_pools/0/network, value: private}\n\
         - {type: replace, path: /instance_groups/0/networks/0/name, value: private}\n",
    );
    hello
}

/// Renders a template in a context with `render-template`.
fn render_template(hello: &Hello, context: &Value, template: &Path) -> String {
    hello.world.write("context.json", context.to_string());
    let template = template.to_str().unwrap();
    hello.world.run(["render-template", "--context", "context.json", template]).success().stdout
}

/// Returns the files that `render` writes.
fn render(hello: &Hello, extra_args: &[&str]) -> BTreeMap<String, String> {
    let mut options = vec!["--job", "hello", "--out", "files"];
    options.extend(extra_args);
    hello.world.finish(hello.render_command(&options)).success();
    let root = hello.world.path("files");
    let files = walkdir::WalkDir::new(&root).into_iter().map(Result::unwrap);
    files
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let name = entry.path().strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn hello_templates_use_only_names_that_bosh_has() {
    let hello = hello();
    let spec: Value = serde_yaml::from_str(&hello.world.read("hello/release/jobs/hello/spec")).unwrap();
    let context = upstream_context(&hello);
    let mut theirs: BTreeMap<String, String> = spec["templates"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(source, target)| {
            let template = hello.world.path(TEMPLATES).join(source);
            (target.as_str().unwrap().to_owned(), render_template(&hello, &context, &template))
        })
        .collect();
    let monit = hello.world.path("hello/release/jobs/hello/monit");
    theirs.insert("monit".into(), render_template(&hello, &context, &monit));
    assert_eq!(render(&hello, &[]), theirs);
    assert!(theirs["config/hello.conf"].contains(&format!("address={}\n", hello.ip())));
}

/// Returns the names in the first column of the table.
fn table() -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/templates.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("## Names that bosh lacks").nth(1).unwrap().split("\n## ").next().unwrap();
    let row = regex::Regex::new(r"(?m)^\| `spec\.([\w.]+)` \|").unwrap();
    row.captures_iter(section).map(|captures| captures[1].to_owned()).collect()
}

#[test]
fn table_lists_the_names_that_bosh_lacks() {
    let hello = hello();
    // The template prints the context that it sees, without the properties.
    hello.world.write(
        format!("{TEMPLATES}/hello.conf.erb"),
        "<% dump = lambda { |value| value.is_a?(PropertyStruct) ? value.instance_variable_get(:@members)\
         .to_h { |key, member| [key, dump.call(member)] } : value } -%>\n<%= JSON.generate(dump.call(spec)) \
         %>\n",
    );
    let files = render(&hello, &["--renderer", "ruby", "--show-secrets"]);
    let ours: Value = serde_json::from_str(&files["config/hello.conf"]).unwrap();
    let theirs = upstream_context(&hello);
    let mut differences = BTreeSet::new();
    for (name, value) in ours.as_object().unwrap() {
        match name.as_str() {
            // Each network is compared separately, and its values come from the manifest.
            "networks" => {
                for (network, value) in value.as_object().unwrap() {
                    if theirs["networks"].get(network) != Some(value) {
                        let label = if network == "default" { "default" } else { "NAME" };
                        differences.insert(format!("networks.{label}"));
                    }
                }
            }
            _ if theirs.get(name) != Some(value) => drop(differences.insert(name.clone())),
            _ => {}
        }
    }
    assert_eq!(differences, table(), "docs/templates.md and the evaluation context differ");
    let missing_names: Vec<&String> =
        theirs.as_object().unwrap().keys().filter(|key| ours.get(key).is_none()).collect();
    assert!(missing_names.is_empty(), "bosh has names that are missing here: {missing_names:?}");
}
