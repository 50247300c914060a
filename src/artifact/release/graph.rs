//! The dependency graph of packages: the packages needed, their order, and cycles.

use std::collections::{BTreeMap, HashMap};

use super::Package;
use base::{Error, Result};

/// Returns the packages named `roots` and their dependencies in levels, each sorted by name.
///
/// A package's level is one above its highest dependency. If several packages have the same name, the first
/// one is used. An unknown name and a dependency cycle are errors.
pub(super) fn levels<'p>(
    roots: &[&str],
    packages: impl IntoIterator<Item = &'p Package>,
) -> Result<Vec<Vec<&'p Package>>> {
    let mut by_name: HashMap<&str, &'p Package> = HashMap::new();
    for package in packages {
        by_name.entry(&package.name).or_insert(package);
    }
    let find = |name: &str| by_name.get(name).copied();
    let mut remaining_packages: BTreeMap<&'p str, &'p Package> = BTreeMap::new();
    let mut unvisited = Vec::new();
    for root in roots {
        unvisited.push(find(root).ok_or_else(|| unknown_package_error(root))?);
    }
    while let Some(package) = unvisited.pop() {
        if remaining_packages.insert(&package.name, package).is_none() {
            for name in &package.dependencies {
                unvisited.push(find(name).ok_or_else(|| unknown_package_error(name))?);
            }
        }
    }
    let mut dependents: HashMap<&str, Vec<&'p Package>> = HashMap::new();
    for package in remaining_packages.values() {
        for name in &package.dependencies {
            dependents.entry(name).or_default().push(package);
        }
    }
    // Number of dependencies that have no level yet.
    let mut unplaced_counts: HashMap<&str, usize> =
        remaining_packages.iter().map(|(name, package)| (*name, package.dependencies.len())).collect();
    let mut ready: Vec<&'p Package> =
        remaining_packages.values().copied().filter(|package| package.dependencies.is_empty()).collect();
    let mut levels = Vec::new();
    while !ready.is_empty() {
        let mut next_level = Vec::new();
        for package in &ready {
            remaining_packages.remove(package.name.as_str());
            for user in dependents.get(package.name.as_str()).into_iter().flatten() {
                let Some(count) = unplaced_counts.get_mut(user.name.as_str()) else { continue };
                *count -= 1;
                if *count == 0 {
                    next_level.push(*user);
                }
            }
        }
        next_level.sort_by(|a, b| a.name.cmp(&b.name));
        levels.push(std::mem::replace(&mut ready, next_level));
    }
    if !remaining_packages.is_empty() {
        return Err(Error::invalid(format!("dependency cycle: {}", cycle(&remaining_packages)))
            .with_hint("remove one of these dependencies from the `spec` of its package"));
    }
    Ok(levels)
}

fn unknown_package_error(name: &str) -> Error {
    Error::invalid(format!("the package '{name}' does not exist"))
}

/// Returns a cycle among packages without a level, such as `a -> b -> a`.
fn cycle(unplaced_packages: &BTreeMap<&str, &Package>) -> String {
    let mut path: Vec<&str> = Vec::new();
    let mut next_name = unplaced_packages.keys().next().copied();
    while let Some(name) = next_name {
        if let Some(start) = path.iter().position(|previous_name| *previous_name == name) {
            path.drain(..start);
            path.push(name);
            break;
        }
        path.push(name);
        // Each has a dependency without a level, or it would have a level itself.
        next_name = unplaced_packages.get(name).and_then(|package| {
            package.dependencies.iter().find_map(|dependency| {
                unplaced_packages.get_key_value(dependency.as_str()).map(|(key, _)| *key)
            })
        });
    }
    path.join(" -> ")
}
