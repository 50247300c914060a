//! Completions from the manifest.

use clap::FromArgMatches as _;

use super::typed_command_line::TypedCommandLine;
use crate::cli::manifest_args::ManifestOptions;
use crate::cli::paths;
use manifest::variables::Definitions;
use manifest::{self, Inputs, ops, read_text};
use yaml::{self, Data, Node};

impl TypedCommandLine {
    fn inputs(&self) -> Option<Inputs> {
        let options = ManifestOptions::from_arg_matches(self.matches()?).ok()?;
        options.inputs(&self.manifest()?).ok()
    }

    /// Returns the manifest with its ops files applied.
    fn load_outline(&self) -> Option<(Inputs, Node)> {
        let inputs = self.inputs()?;
        let root = manifest::load_outline(&inputs).ok()?;
        Some((inputs, root))
    }

    /// Returns the jobs of the instance groups, and of the CPI except for `logs`.
    pub(super) fn jobs(&self) -> Vec<String> {
        let Some((_, root)) = self.load_outline() else { return Vec::new() };
        job_names(&root, !self.is(&["logs"]))
    }

    /// Returns the CPIs of the CPI config, or of the manifest.
    pub(super) fn configured_cpis(&self) -> Vec<String> {
        let config = self.path("cpi_config").and_then(|path| {
            let path = paths::expand(&path, paths::home().as_deref());
            yaml::load(&read_text(&path, "CPI config").ok()?, &path).ok()
        });
        let config = config.or_else(|| self.load_outline().map(|(_, root)| root));
        config.iter().flat_map(|config| names(items(config.get("cpis")))).collect()
    }

    /// Returns the referenced and declared variables without a value.
    pub(super) fn variables(&self) -> Vec<String> {
        let Some((inputs, root)) = self.load_outline() else { return Vec::new() };
        let mut names = manifest::variables::syntax::referenced_variables(&root);
        if let Ok(definitions) = Definitions::of(&root) {
            names.extend(definitions.iter().map(|definition| definition.name.clone()));
        }
        // A program may take long, and ask.
        let inputs = inputs.without_programs();
        let given_values = manifest::variables::GivenValues::read(&inputs).unwrap_or_default();
        names.into_iter().filter(|name| given_values.get(name).is_none()).collect()
    }

    /// Returns the manifest paths that continue the typed one by one step. If there is only one, also returns
    /// the paths a step below it.
    pub(super) fn paths(&self, prefix: &str) -> Vec<String> {
        self.load_outline().map(|(_, root)| continuing_paths(&root, prefix)).unwrap_or_default()
    }

    /// Returns the paths in the vars store of `vars get` that continue the typed one.
    pub(super) fn stored_paths(&self, prefix: &str) -> Vec<String> {
        let Some(store) = self.vars_store() else { return Vec::new() };
        let paths = continuing_paths(&store.root(), prefix);
        // The store also has the values that rotations replaced.
        let is_variable = |path: &String| {
            let name = path.split('/').nth(1).unwrap_or_default();
            store.names().any(|variable| variable == name)
        };
        paths.into_iter().filter(is_variable).collect()
    }
}

/// Returns the jobs of the instance groups of a manifest, and with `includes_cpi` those of the CPI.
pub(in crate::cli) fn job_names(root: &Node, includes_cpi: bool) -> Vec<String> {
    let mut job_names = Vec::new();
    for group in items(root.get("instance_groups").or_else(|| root.get("jobs"))) {
        job_names.extend(names(items(group.get("jobs").or_else(|| group.get("templates")))));
    }
    if let Some(provider) = root.get("cloud_provider").filter(|_| includes_cpi) {
        job_names.extend(names(provider.get("template").map(std::slice::from_ref).unwrap_or_default()));
        job_names.extend(names(items(provider.get("templates"))));
    }
    job_names.sort();
    job_names.dedup();
    job_names
}

/// Returns the paths that continue the typed one by one step. If there is only one, also returns the paths a
/// step below it.
fn continuing_paths(root: &Node, prefix: &str) -> Vec<String> {
    let parent = prefix.rfind('/').map_or("", |slash| &prefix[..slash]);
    let mut paths = steps(root, parent);
    paths.retain(|path| path.starts_with(prefix));
    if let [path] = paths.as_slice() {
        let next_paths = steps(root, path);
        paths.extend(next_paths);
    }
    paths
}

fn items(node: Option<&Node>) -> &[Node] {
    node.and_then(Node::as_seq).unwrap_or_default()
}

/// Returns the names of the items that have one.
fn names(items: &[Node]) -> impl Iterator<Item = String> {
    items.iter().filter_map(|item| item.get("name")?.as_str().map(str::to_owned))
}

/// Returns the paths one step below a path.
fn steps(root: &Node, parent: &str) -> Vec<String> {
    let parent_node = match parent {
        "" => Ok(std::borrow::Cow::Borrowed(root)),
        _ => match parent.parse() {
            Ok(path) => ops::find(root, &path),
            Err(_) => return Vec::new(),
        },
    };
    let Ok(parent_node) = parent_node else { return Vec::new() };
    let escape = |text: &str| text.replace('~', "~0").replace('/', "~1");
    let tokens: Vec<String> = match &parent_node.data {
        Data::Map(map) => map.iter().filter_map(|(key, _)| key.as_str().map(escape)).collect(),
        Data::Seq(items) => {
            let name = |item: &Node| item.get("name").and_then(Node::as_str).map(escape);
            let token = |(index, item): (usize, &Node)| {
                name(item).map_or_else(|| index.to_string(), |name| format!("name={name}"))
            };
            items.iter().enumerate().map(token).collect()
        }
        _ => Vec::new(),
    };
    tokens.into_iter().map(|token| format!("{parent}/{token}")).collect()
}
