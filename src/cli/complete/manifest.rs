//! What the manifest of a command line that is still being typed offers.

use clap::FromArgMatches as _;

use super::typed::Typed;
use crate::cli::manifest_args::ManifestFlags;
use crate::cli::paths;
use manifest::variables::Definitions;
use manifest::{self, Inputs, ops, read_text};
use yaml::{self, Data, Node};

impl Typed {
    fn inputs(&self) -> Option<Inputs> {
        let flags = ManifestFlags::from_arg_matches(self.matches()?).ok()?;
        Some(flags.inputs(&self.manifest()?))
    }

    /// The manifest with its ops files applied, as far as there is one.
    fn outline(&self) -> Option<(Inputs, Node)> {
        let inputs = self.inputs()?;
        let root = manifest::outline(&inputs).ok()?;
        Some((inputs, root))
    }

    /// The jobs of the instance groups; and of the CPI, where the command is about them too.
    pub(super) fn jobs(&self) -> Vec<String> {
        let Some((_, root)) = self.outline() else { return Vec::new() };
        let mut found = Vec::new();
        for group in items(root.get("instance_groups").or_else(|| root.get("jobs"))) {
            found.extend(names(items(group.get("jobs").or_else(|| group.get("templates")))));
        }
        if let Some(provider) = root.get("cloud_provider").filter(|_| !self.is(&["logs"])) {
            found.extend(names(provider.get("template").map(std::slice::from_ref).unwrap_or_default()));
            found.extend(names(items(provider.get("templates"))));
        }
        found.sort();
        found.dedup();
        found
    }

    /// The CPIs that the CPI config has, or the manifest itself.
    pub(super) fn configured_cpis(&self) -> Vec<String> {
        let config = self.path("cpi_config").and_then(|path| {
            let path = paths::expand(&path, paths::home().as_deref());
            yaml::load(&read_text(&path, "CPI config").ok()?, &path).ok()
        });
        let config = config.or_else(|| self.outline().map(|(_, root)| root));
        config.iter().flat_map(|config| names(items(config.get("cpis")))).collect()
    }

    /// The variables that have no value yet: those that are referred to, and those that are declared.
    pub(super) fn variables(&self) -> Vec<String> {
        let Some((inputs, root)) = self.outline() else { return Vec::new() };
        let mut names = manifest::variables::syntax::referred(&root);
        if let Ok(definitions) = Definitions::of(&root) {
            names.extend(definitions.iter().map(|definition| definition.name.clone()));
        }
        let has_value = manifest::variables::Sources::read(&inputs).unwrap_or_default();
        names.into_iter().filter(|name| has_value.get(name).is_none()).collect()
    }

    /// The paths in the manifest that go on from what is typed, one step of them; two where the first is clear.
    pub(super) fn paths(&self, typed: &str) -> Vec<String> {
        let Some((_, root)) = self.outline() else { return Vec::new() };
        let parent = typed.rfind('/').map_or("", |slash| &typed[..slash]);
        let mut found = steps(&root, parent);
        found.retain(|path| path.starts_with(typed));
        if let [only] = found.as_slice() {
            let below = steps(&root, only);
            found.extend(below);
        }
        found
    }
}

fn items(node: Option<&Node>) -> &[Node] {
    node.and_then(Node::as_seq).unwrap_or_default()
}

/// The names of things that have one.
fn names(things: &[Node]) -> impl Iterator<Item = String> {
    things.iter().filter_map(|thing| thing.get("name")?.as_str().map(str::to_owned))
}

/// The paths one step below a path.
fn steps(root: &Node, parent: &str) -> Vec<String> {
    let here = match parent {
        "" => Ok(std::borrow::Cow::Borrowed(root)),
        _ => match parent.parse() {
            Ok(path) => ops::find(root, &path),
            Err(_) => return Vec::new(),
        },
    };
    let Ok(here) = here else { return Vec::new() };
    let escaped = |text: &str| text.replace('~', "~0").replace('/', "~1");
    let tokens: Vec<String> = match &here.data {
        Data::Map(map) => map.iter().filter_map(|(key, _)| key.as_str().map(escaped)).collect(),
        Data::Seq(items) => {
            let name = |item: &Node| item.get("name").and_then(Node::as_str).map(escaped);
            let token = |(index, item): (usize, &Node)| {
                name(item).map_or_else(|| index.to_string(), |name| format!("name={name}"))
            };
            items.iter().enumerate().map(token).collect()
        }
        _ => Vec::new(),
    };
    tokens.into_iter().map(|token| format!("{parent}/{token}")).collect()
}
