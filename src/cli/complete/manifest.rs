//! What the manifest of a command line that is still being typed offers.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Command, FromArgMatches as _};

use crate::cli::env_file;
use crate::cli::manifest_args::ManifestFlags;
use crate::manifest::variables::Definitions;
use crate::manifest::yaml::{Data, Node};
use crate::manifest::{self, Inputs, ops};

/// A command line without the word that is being typed.
pub(super) struct Typed {
    matches: Option<ArgMatches>,
}

impl Typed {
    /// What can be understood of the words, an env file included.
    pub(super) fn of(grammar: &Command, words: &[OsString]) -> Typed {
        Typed { matches: env_file::guess(grammar, words) }
    }

    fn path(&self, id: &str) -> Option<PathBuf> {
        let mut paths = self.matches.as_ref()?.try_get_many::<PathBuf>(id).ok()??;
        paths.find(|path| path.as_os_str() != "-").cloned()
    }

    /// The vars store that is named.
    pub(super) fn store(&self) -> Option<PathBuf> {
        self.path("store")
    }

    fn inputs(&self) -> Option<Inputs> {
        let flags = ManifestFlags::from_arg_matches(self.matches.as_ref()?).ok()?;
        Some(flags.inputs(&self.path("manifest")?))
    }

    /// The manifest with its ops files applied, as far as there is one.
    fn outline(&self) -> Option<(Inputs, Node)> {
        let inputs = self.inputs()?;
        let root = manifest::outline(&inputs).ok()?;
        Some((inputs, root))
    }

    /// The jobs of the instance groups and of the CPI.
    pub(super) fn jobs(&self) -> Vec<String> {
        let Some((_, root)) = self.outline() else { return Vec::new() };
        let items =
            |node: Option<&Node>| node.and_then(Node::as_seq).map(<[Node]>::to_vec).unwrap_or_default();
        let mut jobs: Vec<Node> = items(root.get("instance_groups").or_else(|| root.get("jobs")))
            .iter()
            .flat_map(|group| items(group.get("jobs").or_else(|| group.get("templates"))))
            .collect();
        if let Some(provider) = root.get("cloud_provider") {
            jobs.extend(provider.get("template").cloned());
            jobs.extend(items(provider.get("templates")));
        }
        let mut names: Vec<String> =
            jobs.iter().filter_map(|job| job.get("name")?.as_str().map(str::to_owned)).collect();
        names.sort();
        names.dedup();
        names
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
