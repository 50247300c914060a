//! The dependency graph of packages: which are needed, in which order, and which need themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::Package;
use crate::{Error, Result};

/// Looks a package up by name.
pub(super) type Find<'f, 'p> = &'f dyn Fn(&str) -> Option<&'p Package>;

/// What `roots` and their dependencies are, in levels: a package's level is one above its highest
/// dependency. Sorted by name within a level.
pub(super) fn levels<'p>(roots: &[&str], find: Find<'_, 'p>) -> Result<Vec<Vec<&'p Package>>> {
    let mut needed: BTreeMap<&'p str, &'p Package> = BTreeMap::new();
    let mut open = Vec::new();
    for root in roots {
        open.push(find(root).ok_or_else(|| unknown(root))?);
    }
    while let Some(package) = open.pop() {
        if needed.insert(&package.name, package).is_none() {
            for name in &package.dependencies {
                open.push(find(name).ok_or_else(|| unknown(name))?);
            }
        }
    }
    let mut levels = Vec::new();
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    while !needed.is_empty() {
        let ready: Vec<&'p Package> = needed
            .values()
            .copied()
            .filter(|package| package.dependencies.iter().all(|name| placed.contains(name.as_str())))
            .collect();
        if ready.is_empty() {
            return Err(Error::invalid(format!("packages need themselves: {}", cycle(&needed))));
        }
        for package in &ready {
            needed.remove(package.name.as_str());
            placed.insert(&package.name);
        }
        levels.push(ready);
    }
    Ok(levels)
}

fn unknown(name: &str) -> Error {
    Error::invalid(format!("there is no package '{name}'"))
}

/// One cycle among packages of which each waits for another: `a -> b -> a`.
fn cycle(waiting: &BTreeMap<&str, &Package>) -> String {
    let mut path: Vec<&str> = Vec::new();
    let mut next = waiting.keys().next().copied();
    while let Some(name) = next {
        if let Some(start) = path.iter().position(|seen| *seen == name) {
            path.drain(..start);
            path.push(name);
            break;
        }
        path.push(name);
        // Each waits for at least one that waits too, or it would have been placed.
        next = waiting.get(name).and_then(|package| {
            package
                .dependencies
                .iter()
                .find_map(|dependency| waiting.get_key_value(dependency.as_str()).map(|(key, _)| *key))
        });
    }
    path.join(" -> ")
}
