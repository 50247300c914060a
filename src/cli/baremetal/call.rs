//! One call of a command: its arguments, the connection, and questions to the operator.

use std::cell::OnceCell;
use std::time::Duration;

use clap::ArgMatches;
use serde_json::Value;

use super::commands::{ArgGroup, CommandSpec};
use super::connection::Connection;
use super::field::{Field, Purpose, ValueKind};
use super::output::Output;
use super::resource::Resource;
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use crate::ui;
use base::JsonObject;
use base::text::json_problem;
use base::{Error, ErrorKind, Result};
use ironic::{Client, Collection, Power};

/// The time in which a machine powers on or off, if the operator names none.
pub(super) const POWER_TIMEOUT: Duration = Duration::from_secs(300);

/// A call of a command.
pub(super) struct Call<'c> {
    pub session: &'c Session,
    spec: &'static CommandSpec,
    matches: &'c ArgMatches,
    connection: &'c Connection,
    client: OnceCell<Client>,
}

impl<'c> Call<'c> {
    pub(super) fn new(
        session: &'c Session,
        spec: &'static CommandSpec,
        matches: &'c ArgMatches,
        connection: &'c Connection,
    ) -> Self {
        Call { session, spec, matches, connection, client: OnceCell::new() }
    }

    /// Returns the resource that the command is about.
    pub(super) fn resource(&self) -> &'static Resource {
        self.spec.resource
    }

    /// Returns the options that the server takes as arguments of a list.
    pub(super) fn query(&self) -> impl Iterator<Item = &'static Field> + use<> {
        let queries = self.spec.args.iter().filter_map(|group| match group {
            ArgGroup::Query(fields) => Some(*fields),
            _ => None,
        });
        queries.flatten()
    }

    /// Returns the target of a change of the provision state, and the state that it ends in.
    pub(super) fn transition(&self) -> Option<(&'static str, &'static str)> {
        self.spec.transition
    }

    /// Returns the client, which connects on first use: errors of the arguments come first.
    pub(super) fn ironic(&self) -> Result<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = self.connection.connect(self.session)?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Returns the value of an option if it was given and the command has it.
    pub(super) fn get<T: Clone + Send + Sync + 'static>(&self, option: &str) -> Option<T> {
        self.matches.try_get_one(option).ok().flatten().cloned()
    }

    /// Returns the values of an option.
    pub(super) fn all<T: Clone + Send + Sync + 'static>(&self, option: &str) -> Vec<T> {
        let values = self.matches.try_get_many(option).ok().flatten();
        values.into_iter().flatten().cloned().collect()
    }

    pub(super) fn text(&self, option: &str) -> Option<String> {
        self.get(option)
    }

    pub(super) fn texts(&self, option: &str) -> Vec<String> {
        self.all(option)
    }

    /// Returns true if the option without a value was given.
    pub(super) fn has_switch(&self, option: &str) -> bool {
        self.get(option).unwrap_or_default()
    }

    /// Returns the positional argument.
    pub(super) fn id(&self) -> String {
        self.text("id").unwrap_or_default()
    }

    /// Returns the keys and values of an option. Redacts the secrets among them.
    pub(super) fn pairs(&self, option: &str) -> Vec<(String, Value)> {
        let pairs: Vec<(String, Value)> = self.all(option);
        for (_, value) in pairs.iter().filter(|(key, _)| ironic::is_secret(key)) {
            if let Value::String(text) = value {
                self.session.redactor.add(text);
            }
        }
        pairs
    }

    /// Returns the fields of the resource that have an option for this purpose.
    pub(super) fn fields(&self, purpose: Purpose) -> impl Iterator<Item = &'static Field> + use<> {
        self.resource().fields.iter().filter(move |field| field.has_option_for(purpose))
    }

    /// Returns the value for a field, unless its option was left out. Keys and values form an object.
    pub(super) fn value(&self, field: &Field) -> Result<Option<Value>> {
        let text = || self.text(field.option);
        Ok(match field.kind {
            ValueKind::Text | ValueKind::Choice(_) => text().map(Value::String),
            ValueKind::Number => self.get::<u32>(field.option).map(Value::from),
            ValueKind::Bool => text().map(|text| Value::Bool(text == "true")),
            ValueKind::Switch(value) => self.has_switch(field.option).then_some(Value::Bool(value)),
            ValueKind::Node => match text() {
                Some(node) => Some(Value::String(self.ironic()?.find_node_uuid(&node)?)),
                None => None,
            },
            ValueKind::Json => match text() {
                Some(text) => Some(serde_json::from_str(&text).map_err(|error| {
                    Error::invalid(format!("--{} is not JSON", field.option))
                        .with_source(json_problem(&error))
                })?),
                None => None,
            },
            ValueKind::Pairs => {
                let pairs = self.pairs(field.option);
                (!pairs.is_empty()).then(|| Value::Object(pairs.into_iter().collect()))
            }
            ValueKind::List | ValueKind::Sort | ValueKind::Duration | ValueKind::OptionalDuration => None,
        })
    }

    /// Asks the operator on a terminal. Without one, goes ahead.
    pub(super) fn confirm(&self, question: &str, refusal: &str) -> Result<()> {
        if !self.session.is_interactive() || ui::prompt::confirm(question)? {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Declined, format!("not confirmed: {refusal}")))
    }

    /// With `--power-off`, powers off the node of an object of the resource, which the operator must confirm.
    pub(super) fn power_off_node(&self, id: &str) -> Result<()> {
        if !self.has_switch("power-off") {
            return Ok(());
        }
        let ironic = self.ironic()?;
        let text =
            |object: &JsonObject, key: &str| object.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        let uuid = text(&ironic.get(self.resource().collection, id, &["node_uuid".to_owned()])?, "node_uuid");
        let fields = ["name", "power_state", "instance_uuid"].map(str::to_owned);
        let node = ironic.get(Collection::Nodes, &uuid, &fields)?;
        if text(&node, "power_state") == Power::Off.state() {
            return Ok(());
        }
        let name = Some(text(&node, "name")).filter(|name| !name.is_empty()).unwrap_or(uuid.clone());
        let instance = match text(&node, "instance_uuid") {
            instance if instance.is_empty() => String::new(),
            instance => format!(", which runs the instance {instance}"),
        };
        self.confirm(&format!("Power off node {name}{instance}?"), "the node stays as it is")?;
        ironic.set_power(&uuid, Power::Off, POWER_TIMEOUT)?;
        self.session.reporter.note(format!(
            "Node {name} is powered off; `monopile baremetal node power on {name}` powers it on"
        ));
        Ok(())
    }

    /// Does `action` for every object, also after a failure. `action` returns a sentence about its result.
    /// `name` and `failure` describe a failure: "volume target", "was not deleted". Returns the first
    /// failure.
    pub(super) fn run_for_each(
        &self,
        name: &str,
        ids: &[String],
        failure: &str,
        action: &dyn Fn(&str) -> Result<String>,
    ) -> Result<CommandResult> {
        // A problem with the connection is not one of an object.
        self.ironic()?;
        let mut failures = Vec::new();
        for id in ids {
            match action(id) {
                Ok(sentence) => self.session.reporter.note(sentence),
                Err(error) => failures.push((id, error)),
            }
        }
        let count = failures.len();
        let mut failures = failures.into_iter();
        let Some((id, first)) = failures.next() else { return Ok(CommandResult::Output(Vec::new())) };
        for (id, error) in failures {
            self.session.reporter.warn(format!("{name} {id} {failure}: {}", error.chain().join(": ")));
        }
        let more_failures = match count - 1 {
            0 => String::new(),
            1 => ", and another failed as well".to_owned(),
            hidden_count => format!(", and {hidden_count} others failed as well"),
        };
        Err(first.context(format!("{name} {id} {failure}{more_failures}")))
    }

    /// Prints one object.
    pub(super) fn show(&self, mut object: JsonObject) -> Result<CommandResult> {
        self.mask(&mut object);
        Output::of(self).show(self.session, object)
    }

    /// Prints a list.
    pub(super) fn list(&self, columns: &[&str], mut objects: Vec<JsonObject>) -> Result<CommandResult> {
        objects.iter_mut().for_each(|object| self.mask(object));
        Output::of(self).list(self.session, columns, objects)
    }

    /// Masks the user names of a volume target, unless `--show-usernames` was given.
    fn mask(&self, object: &mut JsonObject) {
        if self.resource().collection == Collection::Targets && !self.has_switch("show-usernames") {
            ironic::mask_usernames(object);
        }
    }
}
