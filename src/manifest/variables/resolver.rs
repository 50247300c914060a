//! Resolves variables, generates missing ones, and replaces references in a tree.

use std::collections::{BTreeSet, HashMap};
use std::ops::Deref;
use std::rc::Rc;

use foldhash::fast::RandomState;
use time::OffsetDateTime;

use super::descend::descend;
use super::missing;
use super::syntax::{self, Reference};
use super::{Definition, Definitions, GivenValues, MissingVariables, UpdateMode, VariableOrigin};
use crate::node_kind::kind_with_article;
use crate::vars_store::{Authority, CaReference, GeneratorSpec, KeyPool, VarsStore};
use base::error::ResultExt;
use base::{Error, Result};
use yaml::{Data, Mapping, Node, Position};

/// The maximum amount of text and nodes that variables add to all documents of one resolver, in bytes (a node
/// counts as [`NODE_BYTES`]). Without it, a small manifest could expand to terabytes.
const MAX_ADDED_BYTES: usize = 256 * 1024 * 1024;
/// The number of bytes as which a node counts, without its text.
const NODE_BYTES: usize = 16;

/// The value of a variable. Cheap to clone.
#[derive(Clone)]
pub enum ResolvedValue<'a> {
    /// A given value.
    Given(&'a Node),
    /// A value of the vars store.
    Stored(Rc<Node>),
}

impl Deref for ResolvedValue<'_> {
    type Target = Node;

    fn deref(&self) -> &Node {
        match self {
            ResolvedValue::Given(value) => value,
            ResolvedValue::Stored(value) => value,
        }
    }
}

/// Resolves references from the given values, then the vars store, then by generating a value.
pub struct Resolver<'a> {
    given_values: &'a GivenValues,
    definitions: &'a Definitions,
    store: Option<&'a mut VarsStore>,
    keys: KeyPool,
    now: OffsetDateTime,
    /// The values that were resolved, by the name of the variable. `None` for variables without a value.
    cache: HashMap<String, Option<ResolvedValue<'a>>, RandomState>,
    /// The declared variables that are being generated, outermost first, to find cycles.
    generating_names: Vec<String>,
    used_names: BTreeSet<String>,
    missing_variables: MissingVariables,
    /// The number of references without a value so far.
    unresolved_count: usize,
    /// The bytes that variables may still add to documents.
    budget: usize,
    /// True if missing values are not generated.
    is_read_only: bool,
    notes: Vec<String>,
    /// The positions at which a reference was a whole value, each with the name of its variable.
    replaced_references: Vec<(Position, String)>,
    /// The old values of stored variables that were generated again.
    replaced_values: Vec<(String, Node)>,
}

impl<'a> Resolver<'a> {
    /// Creates a resolver. `now` is the start of validity of new certificates.
    pub fn new(
        given_values: &'a GivenValues,
        definitions: &'a Definitions,
        store: Option<&'a mut VarsStore>,
        now: OffsetDateTime,
    ) -> Self {
        Resolver {
            given_values,
            definitions,
            store,
            keys: KeyPool::default(),
            now,
            cache: HashMap::default(),
            generating_names: Vec::new(),
            used_names: BTreeSet::new(),
            missing_variables: MissingVariables::default(),
            unresolved_count: 0,
            budget: MAX_ADDED_BYTES,
            is_read_only: false,
            notes: Vec::new(),
            replaced_references: Vec::new(),
            replaced_values: Vec::new(),
        }
    }

    /// Disables generation: a declared variable that is not in the store has no value.
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// Generates values for all declared variables that have a type and no value, and again for those with
    /// `update_mode: converge` whose value no longer fits, and writes the store. After a failure, values
    /// generated before it are kept.
    pub fn generate(&mut self) -> Result<()> {
        let Some(store) = self.store.as_deref_mut() else { return Ok(()) };
        let given_values = self.given_values;
        let candidates = |store: &VarsStore| -> Vec<&'a Definition> {
            self.definitions
                .iter()
                .filter(|definition| {
                    definition.kind.is_some()
                        && given_values.get(&definition.name).is_none()
                        && (store.get(&definition.name).is_none()
                            || definition.update_mode == UpdateMode::Converge)
                })
                .collect()
        };
        if candidates(store).is_empty() {
            return Ok(());
        }
        // Options are checked before time is spent on keys.
        for definition in candidates(store) {
            check_literal_definition(definition)?;
        }
        // Values that another run has generated in the meantime are used.
        store.lock()?;
        let definitions = candidates(store);
        let unstored_definitions =
            definitions.iter().filter(|definition| store.get(&definition.name).is_none());
        self.keys.fill(unstored_definitions.filter_map(|definition| {
            GeneratorSpec::key_size_guess(
                definition.kind.as_deref().unwrap_or_default(),
                definition.options.as_ref(),
            )
        }));
        let result = definitions
            .iter()
            .try_for_each(|definition| self.resolve(&definition.name, &definition.position).map(drop));
        let Some(store) = self.store.as_deref_mut() else { return result };
        store.keep_previous(&self.replaced_values);
        let save_result = store.save();
        store.unlock();
        result.and(save_result)
    }

    /// Returns the value of a variable, if it has one. `position` is that of the reference.
    pub fn resolve(&mut self, name: &str, position: &Position) -> Result<Option<ResolvedValue<'a>>> {
        let value = match self.cache.get(name) {
            Some(value) => value.clone(),
            None => {
                self.used_names.insert(name.to_owned());
                let value = self.resolve_uncached(name, position)?;
                self.cache.insert(name.to_owned(), value.clone());
                value
            }
        };
        if value.is_none() {
            self.unresolved_count += 1;
            self.missing_variables.add_variable(
                name,
                position,
                self.generating_names.last().map(String::as_str),
            );
        }
        Ok(value)
    }

    /// Returns the value of a variable without the cache of [`Self::resolve`].
    fn resolve_uncached(&mut self, name: &str, position: &Position) -> Result<Option<ResolvedValue<'a>>> {
        let given_values = self.given_values;
        if let Some(value) = given_values.get(name) {
            return Ok(Some(ResolvedValue::Given(value)));
        }
        Ok(self.obtain_stored(name, position)?.map(|value| ResolvedValue::Stored(Rc::new(value))))
    }

    /// Returns the value of a variable from the vars store. Generates it first if necessary.
    fn obtain_stored(&mut self, name: &str, position: &Position) -> Result<Option<Node>> {
        let Some(store) = self.store.as_deref() else { return Ok(None) };
        let stored_value = store.get(name).cloned();
        let definition = self.definitions.get(name);
        match (stored_value, definition) {
            (stored_value, Some(definition))
                if !self.is_read_only
                    && (stored_value.is_none() || definition.update_mode == UpdateMode::Converge) =>
            {
                let Some(kind) = definition.kind.clone() else { return Ok(stored_value) };
                if self.generating_names.iter().any(|other| other == name) {
                    let start =
                        self.generating_names.iter().position(|other| other == name).unwrap_or_default();
                    let mut cycle = self.generating_names[start..].to_vec();
                    cycle.push(name.to_owned());
                    let problem = match cycle.len() {
                        2 => format!("variable '{name}' depends on itself"),
                        _ => format!("dependency cycle of variables: {}", cycle.join(" -> ")),
                    };
                    return Err(Error::invalid(format!("{}: {problem}", position.describe())).with_hint(
                        "in `variables:`, correct the `ca` or the other option that refers back to it",
                    ));
                }
                self.generating_names.push(name.to_owned());
                let value = self.generate_value(definition, &kind, stored_value);
                self.generating_names.pop();
                value.context(|| generation_error_message(definition))
            }
            (stored_value, _) => Ok(stored_value),
        }
    }

    /// Generates the value of a declared variable, or returns the stored one if it still matches.
    fn generate_value(
        &mut self,
        definition: &Definition,
        kind: &str,
        stored_value: Option<Node>,
    ) -> Result<Option<Node>> {
        let Some((spec, authority)) = self.resolve_spec(definition, kind)? else { return Ok(stored_value) };
        if let Some(stored_value) = stored_value {
            let mismatches = spec.mismatches(&stored_value, authority.as_ref());
            if mismatches.is_empty() {
                return Ok(Some(stored_value));
            }
            let name = &definition.name;
            let mismatches = mismatches.join("; ");
            self.notes.push(match self.store.as_deref().is_some_and(VarsStore::is_read_only) {
                true => format!("create-env generates variable '{name}' again: {mismatches}"),
                false => format!("variable '{name}' is generated again: {mismatches}"),
            });
            self.replaced_values.push((definition.name.clone(), stored_value));
        }
        let value = spec.generate(&mut self.keys, authority.as_ref(), self.now)?;
        if let Some(store) = self.store.as_deref_mut() {
            store.set(&definition.name, value.clone());
        }
        Ok(Some(value))
    }

    /// Returns the type and options of a declared variable, and its CA. Returns `None` if its options refer
    /// to variables without a value.
    pub fn resolve_spec(
        &mut self,
        definition: &Definition,
        kind: &str,
    ) -> Result<Option<(GeneratorSpec, Option<Authority>)>> {
        let mut options = definition.options.clone();
        let count_before = self.unresolved_count;
        if let Some(options) = &mut options {
            self.interpolate(options)?;
        }
        if self.unresolved_count > count_before {
            return Ok(None);
        }
        let spec = GeneratorSpec::parse(kind, options.as_ref())?;
        let authority = match spec.ca() {
            None => None,
            Some(CaReference::Value(value)) => Some(Authority::from_value("ca", value)?),
            Some(CaReference::Name(ca)) => {
                let position = options.as_ref().and_then(|options| options.get("ca")).map(|ca| &ca.position);
                match self.resolve(ca, position.unwrap_or(&definition.position))? {
                    Some(value) => {
                        Some(Authority::from_value(ca, &value).map_err(|error| self.with_origin(ca, error))?)
                    }
                    None => {
                        if self.definitions.get(ca).is_none() {
                            self.missing_variables.mark_unknown_ca(ca);
                        }
                        return Ok(None);
                    }
                }
            }
        };
        Ok(Some((spec, authority)))
    }

    /// Replaces every reference below `node` that has a value. Others stay and are collected as missing.
    pub fn interpolate(&mut self, node: &mut Node) -> Result<()> {
        match &mut node.data {
            Data::String(text) => {
                if let Some(reference) = syntax::as_single_reference(text) {
                    if let Some(value) = self.resolve_reference(&reference, &node.position)? {
                        let variable = reference.variable().to_owned();
                        self.replaced_references.push((node.position.clone(), variable));
                        *node = with_position(value, &node.position);
                    }
                } else if text.contains("((") {
                    let new_text = self.interpolate_text(text, &node.position)?;
                    *text = new_text.into();
                }
            }
            Data::Seq(items) => {
                for item in items {
                    self.interpolate(item)?;
                }
            }
            Data::Map(map) => {
                if map.iter().any(|(key, _)| key.as_str().is_some_and(|text| text.contains("(("))) {
                    *map = self.interpolate_keys(map)?;
                } else {
                    for (_, value) in map.iter_mut() {
                        self.interpolate(value)?;
                    }
                }
            }
            Data::Null | Data::Bool(_) | Data::Int(_) | Data::UInt(_) | Data::Float(_) => {}
        }
        Ok(())
    }

    /// Returns a mapping with its keys and values interpolated.
    fn interpolate_keys(&mut self, map: &Mapping) -> Result<Mapping> {
        let mut result = Mapping::new();
        for (key, value) in map.iter() {
            let (mut new_key, mut new_value) = (key.clone(), value.clone());
            self.interpolate(&mut new_value)?;
            self.interpolate(&mut new_key)?;
            if matches!(new_key.data, Data::Seq(_) | Data::Map(_)) {
                let text = key.as_str().unwrap_or_default();
                let error = Error::invalid(format!(
                    "{}: the key {text} becomes {}, but a key must be a string or a number",
                    key.position.describe(),
                    kind_with_article(&new_key)
                ));
                return Err(match syntax::as_single_reference(text) {
                    Some(reference) => self.with_origin(reference.variable(), error),
                    None => error,
                });
            }
            if result.contains(&new_key) {
                return Err(Error::invalid(format!(
                    "{}: the key {} becomes a key that the mapping already has",
                    key.position.describe(),
                    key.as_str().unwrap_or_default(),
                )));
            }
            result.insert(new_key, new_value);
        }
        Ok(result)
    }

    /// Replaces the references in a text. Inserted values are not searched again, even if they look like
    /// references.
    fn interpolate_text(&mut self, text: &str, position: &Position) -> Result<String> {
        let mut result = String::with_capacity(text.len());
        let mut rest_start = 0;
        for reference in syntax::references(text) {
            let Some(value) = self.resolve_reference(&reference, position)? else { continue };
            if reference.has_spaces {
                self.notes.push(format!(
                    "{}: {} is not replaced: inside a text, write a reference without spaces",
                    position.describe(),
                    &text[reference.range.clone()],
                ));
                continue;
            }
            result.push_str(&text[rest_start..reference.range.start]);
            rest_start = reference.range.end;
            match &value.data {
                Data::String(piece) => result.push_str(piece),
                Data::Int(number) => result.push_str(&number.to_string()),
                Data::UInt(number) => result.push_str(&number.to_string()),
                _ => {
                    let error = Error::invalid(format!(
                        "{}: (({})) is {}, but only strings and integers can be inserted into a text",
                        position.describe(),
                        reference.name,
                        kind_with_article(&value)
                    ));
                    return Err(self.with_origin(reference.variable(), error));
                }
            }
        }
        result.push_str(&text[rest_start..]);
        Ok(result)
    }

    /// Returns a copy of the value that a reference stands for, if it has one. It counts against the budget.
    fn resolve_reference(&mut self, reference: &Reference<'_>, position: &Position) -> Result<Option<Node>> {
        let Some(value) = self.resolve(reference.variable(), position)? else { return Ok(None) };
        let part = match descend(&value, reference.keys()) {
            Ok(part) => part,
            Err(reason) => {
                self.unresolved_count += 1;
                let note = self.origin(reference.variable()).map(|origin| origin.note());
                self.missing_variables.add_part(reference.name, position, reason, note);
                return Ok(None);
            }
        };
        self.budget = self.budget.checked_sub(added_bytes(part)).ok_or_else(|| {
            Error::invalid(format!(
                "{}: with its variables, the document is larger than {} MiB",
                position.describe(),
                MAX_ADDED_BYTES / 1024 / 1024
            ))
        })?;
        Ok(Some(part.clone()))
    }

    /// Removes the definitions with values from `variables:`, as the bosh CLI does, and marks the variables
    /// in their options as used.
    pub fn remove_satisfied_definitions(&mut self, root: &mut Node) -> Result<()> {
        let mut satisfied_indices = BTreeSet::new();
        for definition in self.definitions.iter() {
            if self.resolve(&definition.name, &definition.position)?.is_some() {
                satisfied_indices.insert(definition.index);
            }
        }
        let Data::Map(map) = &mut root.data else { return Ok(()) };
        let Some(Node { data: Data::Seq(items), .. }) = map.get_mut("variables") else { return Ok(()) };
        let mut index = 0;
        items.retain(|item| {
            let is_satisfied = satisfied_indices.contains(&index);
            if is_satisfied {
                mark_used(item, &mut self.used_names);
            }
            index += 1;
            !is_satisfied
        });
        Ok(())
    }

    /// Marks the variables to which a document refers as used.
    pub fn mark_used(&mut self, node: &Node) {
        mark_used(node, &mut self.used_names);
    }

    /// Returns the names of the variables that were requested or marked as used.
    pub fn used_names(&self) -> impl Iterator<Item = &str> + Clone {
        self.used_names.iter().map(String::as_str)
    }

    /// Returns true if this variable was requested or marked as used.
    pub fn is_used(&self, name: &str) -> bool {
        self.used_names.contains(name)
    }

    /// Returns the error that lists the missing variables, and the missing parts of other variables. Without
    /// `reports_variables`, lists only the parts.
    pub fn missing_error(&self, reports_variables: bool) -> Option<Error> {
        self.missing_variables.error(reports_variables, |name| self.similar_variable(name))
    }

    /// Returns the origin of a variable's value.
    fn origin(&self, name: &str) -> Option<VariableOrigin> {
        VariableOrigin::of(name, self.given_values, self.store.as_deref(), self.definitions)
    }

    /// Adds to an error about a variable's value: the file that has the value, and how to correct it.
    fn with_origin(&self, name: &str, error: Error) -> Error {
        match self.origin(name) {
            Some(origin) => origin.explain(error),
            None => error,
        }
    }

    /// Takes the positions at which a reference was a whole value, each with the name of its variable.
    pub fn take_replaced_references(&mut self) -> Vec<(Position, String)> {
        std::mem::take(&mut self.replaced_references)
    }

    /// Returns the variable that was probably meant by the name of a missing variable.
    pub fn similar_variable(&self, name: &str) -> Option<&str> {
        let variable_names = self
            .given_values
            .iter()
            .map(|(name, _)| name)
            .chain(self.stored_names())
            .chain(self.definitions.iter().map(|definition| definition.name.as_str()))
            .filter(|name| !self.missing_variables.contains(name));
        missing::similar_variable(name, variable_names, |name| self.is_used(name))
    }

    /// Returns the names in the vars store.
    pub fn stored_names(&self) -> impl Iterator<Item = &str> {
        self.store.as_deref().into_iter().flat_map(VarsStore::names)
    }

    /// Returns the variables without a value.
    pub fn missing_names(&self) -> Vec<&str> {
        self.missing_variables.names().collect()
    }

    /// Returns the variables without a value to which the operator can give one.
    pub fn names_to_give(&self) -> Vec<&str> {
        self.missing_variables.names_to_give().collect()
    }

    /// Takes the notes for the operator.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

/// Checks the type and options of a definition, if they contain no references.
fn check_literal_definition(definition: &Definition) -> Result<()> {
    let has_reference = |node: &Node| {
        let mut names = BTreeSet::new();
        mark_used(node, &mut names);
        !names.is_empty()
    };
    if definition.options.as_ref().is_some_and(has_reference) {
        return Ok(());
    }
    GeneratorSpec::parse(definition.kind.as_deref().unwrap_or_default(), definition.options.as_ref())
        .map(drop)
        .context(|| generation_error_message(definition))
}

/// Returns the message for a variable that cannot be generated.
fn generation_error_message(definition: &Definition) -> String {
    format!("{}: variable '{}' cannot be generated", definition.position.describe(), definition.name)
}

/// Gives `value` the `position` of its use. Nodes inside it keep the positions where they were written,
/// if they have any.
fn with_position(value: Node, position: &Position) -> Node {
    let mut node = fill_positions(value, position);
    node.position = position.clone();
    node
}

fn fill_positions(mut node: Node, position: &Position) -> Node {
    if node.position.line == 0 {
        node.position = position.clone();
    }
    node.data = match node.data {
        Data::Seq(items) => Data::Seq(items.into_iter().map(|item| fill_positions(item, position)).collect()),
        Data::Map(map) => Data::Map(
            map.into_iter()
                .map(|(key, value)| (fill_positions(key, position), fill_positions(value, position)))
                .collect(),
        ),
        other => other,
    };
    node
}

/// Returns the bytes that a value takes from the budget.
fn added_bytes(node: &Node) -> usize {
    NODE_BYTES
        + match &node.data {
            Data::String(text) => text.len(),
            Data::Seq(items) => items.iter().map(added_bytes).sum(),
            Data::Map(map) => map.iter().map(|(key, value)| added_bytes(key) + added_bytes(value)).sum(),
            _ => 0,
        }
}

fn mark_used(node: &Node, used_names: &mut BTreeSet<String>) {
    match &node.data {
        Data::String(text) => {
            used_names
                .extend(syntax::references(text).iter().map(|reference| reference.variable().to_owned()));
        }
        Data::Seq(items) => items.iter().for_each(|item| mark_used(item, used_names)),
        Data::Map(map) => map.iter().for_each(|(key, value)| {
            mark_used(key, used_names);
            mark_used(value, used_names);
        }),
        _ => {}
    }
}

#[cfg(test)]
#[path = "resolver_tests.rs"]
mod tests;
