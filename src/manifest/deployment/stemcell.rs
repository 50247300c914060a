//! The stemcell of the VM: that of its resource pool, or the one of `stemcells` with its alias.

use super::ArtifactRef;
use super::parse::read_artifact;
use super::sections::{Sections, nearest_or};
use crate::reader::{Field, Problems};
use base::{Error, Result};
use yaml::Data;

/// The name, operating system and version that an entry of `stemcells` gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StemcellSpec {
    name: Option<String>,
    os: Option<String>,
    /// A version, `latest`, or the latest of a line, such as `1.latest`.
    version: Option<String>,
    /// Position and path in the manifest, for messages.
    place: String,
}

impl StemcellSpec {
    /// Fails if a stemcell is not the one that the entry describes. A stemcell need not have an operating
    /// system.
    pub fn check(&self, name: &str, os: &str, version: &str) -> Result<()> {
        let differs = |expected: &Option<String>, actual: &str| {
            expected.as_ref().filter(|expected| *expected != actual && !actual.is_empty()).cloned()
        };
        let version_differs = self.version.as_ref().filter(|expected| !matches_version(expected, version));
        for (key, expected, actual) in [
            ("name", differs(&self.name, name), name),
            ("os", differs(&self.os, os), os),
            ("version", version_differs.cloned(), version),
        ] {
            let Some(expected) = expected else { continue };
            let place = &self.place;
            return Err(Error::invalid(format!(
                "{place} has the {key} '{expected}', but the stemcell at its `url` has the {key} \
                 '{actual}'"
            ))
            .with_note("nothing was changed")
            .with_hint(format!(
                "set the `{key}` to '{actual}', or the `url` (and `sha1`) to the other stemcell"
            )));
        }
        Ok(())
    }
}

fn matches_version(expected: &str, actual: &str) -> bool {
    match expected.strip_suffix("latest") {
        Some(line) => actual.starts_with(line),
        None => expected == actual,
    }
}

/// Reads the stemcell whose alias the instance group names.
pub(super) fn read(
    sections: &Sections<'_>,
    group: &Field<'_>,
    problems: &mut Problems,
) -> Option<(ArtifactRef, StemcellSpec)> {
    let alias = group.required_text("stemcell", problems)?;
    let mut aliases = Vec::new();
    let mut stemcell_entry = None;
    for entry in sections.root.list("stemcells", problems) {
        let Some(entry_alias) = entry.required_text("alias", problems) else { continue };
        if entry_alias == alias {
            if stemcell_entry.is_some() {
                entry.add_problem(problems, format!("defines the alias '{alias}' a second time"));
            }
            stemcell_entry = Some(entry);
        }
        aliases.push(entry_alias);
    }
    let Some(entry) = stemcell_entry else {
        let hint = nearest_or(&alias, aliases.iter().map(String::as_str), || match aliases.as_slice() {
            [] => String::new(),
            aliases => format!("; the aliases are {}", aliases.join(", ")),
        });
        let problem = format!("names the alias '{alias}', which no entry of `stemcells` has{hint}");
        group.get("stemcell")?.add_problem(problems, problem);
        return None;
    };
    let spec = read_spec(&entry, problems);
    if entry.get("url").is_none() {
        let problem = "needs a `url` (and its `sha1`), because there is no director that has the stemcell";
        entry.add_problem(problems, problem);
        return None;
    }
    Some((read_artifact(&entry, problems)?, spec?))
}

fn read_spec(entry: &Field<'_>, problems: &mut Problems) -> Option<StemcellSpec> {
    let (name, os) = (entry.optional_text("name", problems), entry.optional_text("os", problems));
    if let (Some(_), Some(_), Some(os)) = (&name, &os, entry.get("os")) {
        os.add_problem(problems, "and `name` cannot both be given");
    }
    if let Some(version) = entry.get("version")
        && matches!(version.node.data, Data::Float(_))
    {
        version.add_problem(problems, "must be in quotes, because YAML reads 1.10 as the number 1.1");
        return None;
    }
    let version = entry.optional_text("version", problems);
    Some(StemcellSpec { name, os, version, place: entry.place() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stemcell_must_match_its_entry() {
        let spec = |os: Option<&str>, name: Option<&str>, version: &str| StemcellSpec {
            name: name.map(str::to_owned),
            os: os.map(str::to_owned),
            version: Some(version.to_owned()),
            place: "m.yml:3:3: `stemcells[0]`".to_owned(),
        };
        for version in ["1.5", "latest", "1.latest"] {
            spec(Some("jammy"), None, version).check("n", "jammy", "1.5").unwrap();
            spec(None, Some("n"), version).check("n", "jammy", "1.5").unwrap();
            spec(Some("jammy"), None, version).check("n", "", "1.5").unwrap();
        }
        for (spec, expected) in [
            (
                spec(None, Some("m"), "1.5"),
                "has the name 'm', but the stemcell at its `url` has the name 'n'",
            ),
            (spec(Some("noble"), None, "1.5"), "has the os 'noble'"),
            (spec(None, None, "1.6"), "has the version '1.6'"),
            (spec(None, None, "2.latest"), "has the version '2.latest'"),
        ] {
            let error = spec.check("n", "jammy", "1.5").unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!error.hints().is_empty());
        }
    }
}
