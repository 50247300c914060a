//! The names of CPIs in the manifest, the CPI config and the state: checks that they match, and applies
//! `migrated_from`.

use crate::run_context::RunContext;
use crate::state::{Change, State, Store};
use base::text::comma_list;
use base::{Error, Result};
use manifest::deployment::Az;
use manifest::{CpiConfig, cpi_label};

/// Checks the CPI that `--cpi` names. The empty name means the default CPI, as in `migrated_from`.
pub(crate) fn check_named_cpi<'n>(config: Option<&CpiConfig>, name: &'n str) -> Result<Option<&'n str>> {
    match config {
        _ if name.is_empty() => Ok(None),
        Some(config) if config.find(name).is_some() => Ok(Some(name)),
        Some(config) => Err(config.unknown_cpi_error(name, "--cpi names")),
        None => Err(Error::invalid(format!("--cpi names CPI '{name}', but there is no CPI config"))
            .with_hint(
                "add `cpis` to the manifest, or name a CPI config: `monopile SAME-COMMAND --cpi-config FILE`",
            )),
    }
}

/// Checks that the CPI config has the CPI of the availability zone.
pub(crate) fn check_az(config: Option<&CpiConfig>, az: Option<&Az>) -> Result<()> {
    let cpi = az.and_then(|az| Some((az.name.as_str(), az.cpi.as_deref()?)));
    match (config, cpi) {
        (None, Some((az, cpi))) => Err(Error::invalid(format!(
            "availability zone '{az}' uses CPI '{cpi}', but there is no CPI config"
        ))
        .with_hint(
            "add `cpis` to the manifest, or name a CPI config: `monopile SAME-COMMAND --cpi-config FILE`",
        )),
        (Some(config), Some((az, cpi))) if config.find(cpi).is_none() => {
            Err(config.unknown_cpi_error(cpi, &format!("availability zone '{az}' uses")))
        }
        (Some(config), None) => match config.cpis.iter().find(|cpi| cpi.migrated_from.contains(&None)) {
            // The next run would assign anything created now to that CPI.
            Some(successor) => Err(Error::invalid(format!(
                "CPI '{0}' replaces the default CPI (`migrated_from`), but the VM would be created by the \
                 default CPI",
                successor.name
            ))
            .with_hint(format!(
                "give the instance group an availability zone (`azs`) whose `cpi` is '{}'",
                successor.name
            ))),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Returns the state with `migrated_from` applied, and the changes for it. A CPI that is on record but not in
/// the config is an error.
pub(crate) fn apply_migrated_from(config: Option<&CpiConfig>, state: &State) -> Result<(State, Vec<Change>)> {
    let mut changes = Vec::new();
    for cpi in config.into_iter().flat_map(|config| &config.cpis) {
        for old_name in &cpi.migrated_from {
            if state.resources().any(|resource| resource.cpi() == old_name.as_deref()) {
                changes.push(Change::CpiRenamed { old_name: old_name.clone(), new_name: cpi.name.clone() });
            }
        }
    }
    let mut migrated_state = state.clone();
    for change in &changes {
        migrated_state
            .apply(change.clone())
            .map_err(|error| Error::invalid("`migrated_from` cannot be applied").with_source(error))?;
    }
    check_records(config, &migrated_state)?;
    Ok((migrated_state, changes))
}

/// Applies `migrated_from` to the state durably, without a CPI call.
pub(crate) fn record_migrated_from(
    run: &RunContext,
    config: Option<&CpiConfig>,
    store: &mut Store,
) -> Result<()> {
    for change in apply_migrated_from(config, store.state())?.1 {
        if let Change::CpiRenamed { old_name, new_name } = &change {
            let old_label = cpi_label(old_name.as_deref());
            run.reporter.note(format!(
                "the resources of {old_label} now belong to CPI '{new_name}' (`migrated_from`)"
            ));
        }
        store.commit(change)?;
    }
    Ok(())
}

fn check_records(config: Option<&CpiConfig>, state: &State) -> Result<()> {
    let is_missing = |cpi: &str| config.is_none_or(|config| config.find(cpi).is_none());
    let mut orphans = state.resources().filter(|resource| resource.cpi().is_some_and(is_missing)).peekable();
    let Some(name) = orphans.peek().and_then(|resource| resource.cpi().map(str::to_owned)) else {
        return Ok(());
    };
    let orphan_names: Vec<String> = orphans.map(|resource| resource.to_string()).collect();
    let error = match config {
        None => Error::invalid(format!(
            "the state has resources of CPI '{name}', but there is no CPI config"
        ))
        .with_hint(
            "add `cpis` to the manifest, or name a CPI config: `monopile SAME-COMMAND --cpi-config FILE`",
        ),
        Some(_) => {
            Error::invalid(format!("the state has resources of CPI '{name}', which is not in the CPI config"))
                .with_hint(
                    "add the CPI again until none of its resources is on record, or put its name into \
                     `migrated_from` of the CPI that replaces it",
                )
        }
    };
    Err(error.with_note(format!("on record: {}", comma_list(&orphan_names))).with_note("nothing was changed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Resource, SnapshotHandle, SnapshotRecord};

    fn config(text: &str) -> CpiConfig {
        CpiConfig::parse(&yaml::load(text, std::path::Path::new("cpis.yml")).unwrap()).unwrap()
    }

    fn state(cpi: Option<&str>) -> State {
        let mut state = State::new();
        let cpi = cpi.map(str::to_owned);
        let snapshot = SnapshotRecord { cpi, ..SnapshotRecord::example("snap-1") };
        state.apply(Change::SnapshotCreated(snapshot)).unwrap();
        state
    }

    fn az(cpi: Option<&str>) -> Az {
        Az { name: "z1".into(), cpi: cpi.map(str::to_owned), cloud_properties: serde_json::Map::new() }
    }

    #[test]
    fn recorded_cpis_must_be_in_the_config() {
        let a = config("cpis: [{name: a, type: x}]");
        apply_migrated_from(Some(&a), &state(Some("a"))).unwrap();
        apply_migrated_from(Some(&a), &state(None)).unwrap();
        for config in [None, Some(&config("cpis: []"))] {
            let error = apply_migrated_from(config, &state(Some("a"))).unwrap_err();
            let chain = [error.chain(), error.notes().to_vec()].concat().join(": ");
            assert!(
                chain.contains("resources of CPI 'a'") && chain.contains("snapshot 'snap-1' of CPI 'a'"),
                "{chain}"
            );
        }
    }

    #[test]
    fn migrated_from_maps_old_names_to_the_new_one() {
        let successor = config("cpis: [{name: b, type: x, migrated_from: [{name: a}, {name: \"\"}]}]");
        for old_name in [Some("a"), None] {
            let (migrated_state, changes) = apply_migrated_from(Some(&successor), &state(old_name)).unwrap();
            assert_eq!(changes.len(), 1);
            let snapshot = SnapshotHandle::new("snap-1".parse().unwrap(), Some("b"));
            assert_eq!(migrated_state.resources().next(), Some(Resource::Snapshot(snapshot)));
        }
        assert!(apply_migrated_from(Some(&successor), &state(Some("b"))).unwrap().1.is_empty());
        assert!(
            check_az(Some(&successor), Some(&az(None))).is_err(),
            "an availability zone of the old CPI is accepted"
        );
        check_az(Some(&successor), Some(&az(Some("b")))).unwrap();
    }

    #[test]
    fn cpi_of_an_availability_zone_must_exist() {
        check_az(None, None).unwrap();
        check_az(None, Some(&az(None))).unwrap();
        assert!(check_az(None, Some(&az(Some("a")))).unwrap_err().to_string().contains("no CPI config"));
        let config = config("cpis: [{name: east, type: x}]");
        check_az(Some(&config), Some(&az(None))).unwrap();
        let error = check_az(Some(&config), Some(&az(Some("eats")))).unwrap_err();
        let expected = "availability zone 'z1' uses CPI 'eats', which the CPI config does not have";
        assert_eq!(error.to_string(), expected);
        assert!(!error.hints().is_empty());
    }
}
