//! Commands that every resource has: create, list, show, set, unset and delete.

use serde_json::Value;

use super::call::Call;
use super::field::{Purpose, ValueKind};
use super::output::LINK_FIELDS;
use crate::cli::finish::CommandResult;
use base::JsonObject;
use base::{Error, Result};
use ironic::{Collection, ListOptions, Patch};

/// Creates an object from the options.
pub(super) fn create(call: &Call) -> Result<CommandResult> {
    let mut object = JsonObject::new();
    for field in call.fields(Purpose::Create) {
        if let Some(value) = call.value(field)? {
            object.insert(field.key.to_owned(), value);
        }
    }
    call.show(call.ironic()?.create(call.resource().collection, object)?)
}

/// Lists objects.
pub(super) fn list(call: &Call) -> Result<CommandResult> {
    let mut options = ListOptions {
        returns_all_fields: call.has_switch("long"),
        fields: call.texts("fields"),
        limit: call.get("limit").map(|limit: u32| limit as usize).filter(|limit| *limit > 0),
        marker: call.text("marker"),
        sort: call.all("sort"),
        ..ListOptions::default()
    };
    let collection = call.resource().collection;
    let is_sorted_by_server = options.sort.iter().all(|key| collection.server_sorts_by(&key.field));
    if options.marker.is_some() && (options.sort.len() > 1 || !is_sorted_by_server) {
        return Err(Error::usage("--marker cannot be combined with several fields, or node_uuid, in --sort")
            .with_hint("sort by one other field, such as --sort uuid"));
    }
    for field in call.fields(Purpose::Filter) {
        options.matching.extend(call.value(field)?.map(|value| (field.key, value)));
    }
    for field in call.query() {
        options.filters.extend(call.text(field.option).map(|value| (field.key, value)));
    }
    let objects = call.ironic()?.list(collection, &options)?;
    let all_of_server;
    let columns: Vec<&str> = match (options.fields.is_empty(), options.returns_all_fields) {
        (false, _) => options.fields.iter().map(String::as_str).collect(),
        (true, true) if call.resource().long.is_empty() && !objects.is_empty() => {
            all_of_server = field_names(&objects);
            all_of_server.iter().map(String::as_str).collect()
        }
        (true, true) if !call.resource().long.is_empty() => call.resource().long.to_vec(),
        _ => call.resource().short.to_vec(),
    };
    call.list(&columns, objects)
}

/// Returns the names of all fields that the server sends.
fn field_names(objects: &[JsonObject]) -> Vec<String> {
    let mut names: Vec<String> = objects.first().map(|one| one.keys().cloned().collect()).unwrap_or_default();
    names.retain(|name| !LINK_FIELDS.contains(&name.as_str()));
    names.sort();
    names
}

/// Shows an object.
pub(super) fn show(call: &Call) -> Result<CommandResult> {
    call.show(call.ironic()?.get(call.resource().collection, &call.id(), &call.texts("fields"))?)
}

/// Changes the named fields of objects.
pub(super) fn set(call: &Call) -> Result<CommandResult> {
    let mut patch = Patch::new();
    for field in call.fields(Purpose::Set) {
        match (field.kind, call.value(field)?) {
            // Each key is set separately, so that other keys keep their values.
            (ValueKind::Pairs, Some(Value::Object(pairs))) => {
                for (key, value) in pairs {
                    patch = patch.set(&[field.key, &key], value);
                }
            }
            (_, Some(value)) => patch = patch.set(&[field.key], value),
            (_, None) => {}
        }
    }
    update(call, &patch, "set")
}

/// Removes the named fields and keys of objects.
pub(super) fn unset(call: &Call) -> Result<CommandResult> {
    if call.has_switch("boot-index") {
        return Err(Error::usage("--boot-index cannot be unset: every volume target has one")
            .with_hint("to change it: `monopile baremetal volume target set UUID --boot-index N`"));
    }
    let mut patch = Patch::new();
    for field in call.fields(Purpose::Unset) {
        match field.kind {
            ValueKind::Pairs => {
                let keys = call.texts(field.option);
                patch = keys.iter().fold(patch, |patch, key| patch.remove(&[field.key, key]));
            }
            _ if call.has_switch(field.option) => patch = patch.remove(&[field.key]),
            _ => {}
        }
    }
    update(call, &patch, "unset")
}

fn update(call: &Call, patch: &Patch, verb: &str) -> Result<CommandResult> {
    if patch.is_empty() {
        let example = if verb == "set" { "--extra KEY=VALUE" } else { "--extra KEY" };
        return Err(Error::usage(format!("no field to {verb} is given"))
            .with_hint(format!("name at least one, for example: `monopile SAME-COMMAND {example}`")));
    }
    let (name, collection) = (call.resource().name, call.resource().collection);
    call.run_for_each(name, &call.texts("id"), "was not changed", &|id| {
        call.power_off_node(id)?;
        call.ironic()?.update(collection, id, patch)?;
        Ok(format!("Changed {name} {id}"))
    })
}

/// Deletes objects.
pub(super) fn delete(call: &Call) -> Result<CommandResult> {
    let (name, collection) = (call.resource().name, call.resource().collection);
    let ids = call.texts("id");
    if collection == Collection::Nodes {
        let nodes = base::text::and_list(&ids);
        let question = format!("Delete {nodes} with their ports, connectors and targets from Ironic?");
        call.confirm(&question, "nothing was deleted")?;
    }
    call.run_for_each(name, &ids, "was not deleted", &|id| {
        call.power_off_node(id)?;
        call.ironic()?.delete(collection, id)?;
        Ok(format!("Deleted {name} {id}"))
    })
}
