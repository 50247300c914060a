//! Values that a rotation replaced and that the VM still has until the next deploy.
//!
//! The vars store keeps them under [`PREVIOUS_KEY`], as a list of rotations, the latest first. Each is a
//! mapping from variables to their earlier values, without private keys: only passwords and CAs are needed to
//! talk to the agent of the old VM.

use super::value::ValueKind;
use yaml::{Data, Mapping, Node};

/// The key in the vars store.
pub(crate) const PREVIOUS_KEY: &str = "monopile_previous";
/// The number of rotations that are kept.
const MAX_KEPT_ROTATIONS: usize = 5;

/// Returns the part of a replaced value that is kept, if there is one.
fn kept_values(old: &Node) -> Option<Node> {
    match ValueKind::infer(old) {
        ValueKind::Ssh | ValueKind::Rsa => None,
        ValueKind::Certificate(_) | ValueKind::BrokenCertificate(_) => {
            let mut old = old.clone();
            if let Data::Map(map) = &mut old.data {
                map.remove("private_key");
            }
            Some(old)
        }
        ValueKind::Text | ValueKind::Other => Some(old.clone()),
    }
}

/// Adds a rotation to the list under [`PREVIOUS_KEY`]. Returns the new list, or `None` if nothing has to be
/// kept.
pub(super) fn add_rotation(list: Option<&Node>, replaced_values: &[(String, Node)]) -> Option<Node> {
    let mut rotation = Mapping::new();
    for (name, old) in replaced_values.iter().filter_map(|(name, old)| Some((name, kept_values(old)?))) {
        rotation.insert(Node::string(name), old);
    }
    if rotation.is_empty() {
        return None;
    }
    let earlier_rotations = list.and_then(Node::as_seq).unwrap_or_default().iter().cloned();
    Some(
        Data::Seq(
            std::iter::once(Data::Map(rotation).into())
                .chain(earlier_rotations)
                .take(MAX_KEPT_ROTATIONS)
                .collect(),
        )
        .into(),
    )
}

/// Removes variables from the list under [`PREVIOUS_KEY`]. Returns the new list, which is empty if nothing is
/// left.
pub(super) fn without_variables(list: &Node, names: &[&str]) -> Node {
    let rotations = list.as_seq().unwrap_or_default().iter().filter_map(|rotation| {
        let mut rotation = rotation.as_map()?.clone();
        names.iter().for_each(|name| drop(rotation.remove(name)));
        (!rotation.is_empty()).then(|| Data::Map(rotation).into())
    });
    Data::Seq(rotations.collect()).into()
}

/// Returns the variables and values of each rotation in a list under [`PREVIOUS_KEY`], the latest first.
pub(crate) fn rotations(list: &Node) -> Vec<Vec<(&str, &Node)>> {
    list.as_seq().unwrap_or_default().iter().map(|rotation| entries(rotation).collect()).collect()
}

fn entries(rotation: &Node) -> impl Iterator<Item = (&str, &Node)> {
    let map = rotation.as_map().into_iter();
    map.flat_map(Mapping::iter).filter_map(|(name, value)| Some((name.as_str()?, value)))
}
