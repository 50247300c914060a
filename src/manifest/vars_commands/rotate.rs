//! Rotates values of a vars store.
//!
//! A CA is rotated in two steps. The first generates a new CA and reissues everything that the old one
//! signed. The old certificate stays in the bundles (`certificate` of the CA, `ca` of what it signed), so
//! that machines trust both during the change. The second step removes it.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use time::OffsetDateTime;

use super::report::authority_of;
use crate::variables::Declarations;
use crate::variables::Resolver;
use crate::vars_store::authority::Authority;
use crate::vars_store::expiry::day;
use crate::vars_store::previous;
use crate::vars_store::rsa_key::KeyPool;
use crate::vars_store::spec::GeneratorSpec;
use crate::vars_store::store::{VarsStore, command_line};
use crate::vars_store::value::ValueKind;
use crate::vars_store::x509::Certificate;
use base::error::{ResultExt, did_you_mean_question, nearest};
use base::text::{comma_list, shell_word};
use base::{Error, Result};
use yaml::{Data, Node};

/// The outcome of a rotation.
#[derive(Debug, Default)]
pub struct RotationResult {
    /// The variables with new values, in order of generation.
    pub renewed_names: Vec<String>,
    /// The CAs whose old certificate stays trusted. After the second step, those whose old certificate was
    /// removed.
    pub authorities: Vec<String>,
}

/// Generates a new value for `name`, and if it is a CA, for everything that it signed. The store is written
/// once, so that the rotation is complete or has no effect.
pub fn rotate(
    store: &mut VarsStore,
    declarations: &Declarations,
    name: &str,
    now: OffsetDateTime,
) -> Result<RotationResult> {
    store.lock()?;
    let mut rotation = Rotation {
        declarations,
        now,
        keys: KeyPool::default(),
        result: RotationResult::default(),
        visited_names: BTreeSet::new(),
        replaced_values: Vec::new(),
    };
    let result = rotation.renew(store, name).and_then(|()| {
        store.keep_previous(&rotation.replaced_values);
        store.save()
    });
    store.unlock();
    result.map(|()| rotation.result)
}

/// The progress of a rotation that is not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RotationProgress {
    /// The last change of the CA is not deployed.
    NotDeployed,
    /// The new certificate is deployed, and the old one is still trusted.
    NotFinished,
}

impl RotationProgress {
    /// Returns the progress of the rotation of the CA with these certificates. Returns `None` if there is no
    /// rotation.
    pub(super) fn of(store: &VarsStore, name: &str, certificates: &[Certificate]) -> Option<Self> {
        let is_ca = certificates.first().is_some_and(|certificate| certificate.is_ca);
        if is_ca && has_previous(store, name) {
            Some(RotationProgress::NotDeployed)
        } else {
            old_generations(certificates).next().map(|_| RotationProgress::NotFinished)
        }
    }

    /// Returns the words for the operator.
    pub fn text(self) -> &'static str {
        match self {
            RotationProgress::NotDeployed => "not deployed",
            RotationProgress::NotFinished => "not finished",
        }
    }
}

/// Describes the rotations that are not finished, each with the next command. A CA that another one of them
/// signed is left out, because it is deployed and finished together with its signer.
pub(super) fn open_rotations(store: &VarsStore) -> Vec<String> {
    let mut open_rotations: Vec<(&str, Vec<Certificate>, RotationProgress)> = Vec::new();
    for (name, value) in store.iter() {
        if let ValueKind::Certificate(certificates) = ValueKind::infer(value)
            && let Some(progress) = RotationProgress::of(store, name, &certificates)
        {
            open_rotations.push((name, certificates, progress));
        }
    }
    let has_open_signer = |certificates: &[Certificate]| {
        let certificate = certificates.first().filter(|certificate| !certificate.is_self_signed());
        let mut signers = open_rotations.iter().filter_map(|(_, chain, _)| chain.first());
        certificate.is_some_and(|certificate| signers.any(|signer| certificate.is_signed_by(signer)))
    };
    open_rotations
        .iter()
        .filter(|(_, certificates, _)| !has_open_signer(certificates))
        .map(|(name, _, progress)| {
            let next_step = match progress {
                RotationProgress::NotDeployed => format!("deploy it: `{}`", deploy_command(store)),
                RotationProgress::NotFinished => finish_hint(store, name),
            };
            format!("the rotation of '{name}' is {} yet; {next_step}", progress.text())
        })
        .collect()
}

/// A rotation in progress.
struct Rotation<'a> {
    declarations: &'a Declarations,
    now: OffsetDateTime,
    keys: KeyPool,
    result: RotationResult,
    visited_names: BTreeSet<String>,
    /// The old values, by variable.
    replaced_values: Vec<(String, Node)>,
}

impl Rotation<'_> {
    /// Gives a variable a new value, and everything that it signed. A CA keeps its old certificate in the
    /// bundle until `--finish`, so that both generations are trusted.
    fn renew(&mut self, store: &mut VarsStore, name: &str) -> Result<()> {
        if !self.visited_names.insert(name.to_owned()) {
            return Ok(());
        }
        let old_value = stored_value(store, name)?;
        let kind = ValueKind::infer(&old_value);
        if let ValueKind::Certificate(certificates) = &kind
            && old_generations(certificates).next().is_some()
        {
            check_deployed(store, name)?;
            return Err(Error::invalid(format!("the last rotation of '{name}' is not finished yet"))
                .with_note("nothing was changed")
                .with_hint(finish_hint(store, name)));
        }
        let old_certificate = kind.certificate();
        let (spec, authority) = self
            .find_spec(store, name, &old_value, old_certificate)
            .and_then(|(spec, authority)| {
                check_authority(store, authority.as_ref(), self.now).map(|()| (spec, authority))
            })
            .context(|| format!("'{name}' cannot be rotated"))?;
        let mut new_value = spec.generate(&mut self.keys, authority.as_ref(), self.now)?;
        self.result.renewed_names.push(name.to_owned());
        self.replaced_values.push((name.to_owned(), old_value.clone()));
        let Some(old_certificate) = old_certificate.filter(|certificate| certificate.is_ca) else {
            store.set(name, keep_unknown(&old_value, new_value));
            // The certificate of a CA that cannot be read does not show what it signed.
            if let ValueKind::BrokenCertificate(_) = kind {
                let declarations = self.declarations;
                for dependent in declarations.names_signed_by(name) {
                    if store.get(dependent).is_some() {
                        self.renew(store, dependent)?;
                    }
                }
            }
            return Ok(());
        };
        let old_pem = old_certificate.to_pem();
        append(&mut new_value, "certificate", &old_pem);
        if authority.is_none() {
            append(&mut new_value, "ca", &old_pem);
        }
        store.set(name, keep_unknown(&old_value, new_value));
        self.result.authorities.push(name.to_owned());
        for dependent in signed_by(store, old_certificate, name) {
            self.renew(store, &dependent)?;
        }
        Ok(())
    }

    /// Returns the spec and the CA of the new value: from the declaration, or modelled on the old value.
    fn find_spec(
        &mut self,
        store: &mut VarsStore,
        name: &str,
        old: &Node,
        certificate: Option<&Certificate>,
    ) -> Result<(GeneratorSpec, Option<Authority>)> {
        if let Some((definitions, definition)) = self.declarations.get(name) {
            let kind = definition.kind.clone().unwrap_or_default();
            let path = store.path().to_owned();
            let mut resolver =
                Resolver::new(&self.declarations.given_values, definitions, Some(store), self.now)
                    .read_only();
            if let Some(inputs) = resolver.resolve_spec(definition, &kind)? {
                return Ok(inputs);
            }
            let error = resolver
                .missing_error(true)
                .unwrap_or_else(|| Error::invalid(format!("the options of '{name}' cannot be resolved")));
            return Err(error.with_hints(hints_for_missing(
                &path,
                self.declarations,
                &resolver.missing_names(),
            )));
        }
        let undeclared_hint = |error: Error| {
            error.with_hint(match self.declarations.manifests.is_empty() {
                true => {
                    let command = rotate_command(store, name);
                    format!("name the manifest that declares '{name}': `{command} -m MANIFEST`")
                }
                false => format!("pass with -m the manifest that declares '{name}'"),
            })
        };
        let spec = GeneratorSpec::like_value(name, old).map_err(undeclared_hint)?;
        let authority = match certificate {
            // The old signer of a dependent is already replaced, so the renewed CA is found by name.
            Some(certificate) => match self.renewed_authority(store, certificate)? {
                Some(authority) => Some(authority),
                None => authority_of(store, name, certificate).map_err(undeclared_hint)?,
            },
            None => None,
        };
        Ok((spec, authority))
    }

    /// Returns the CA renewed in this rotation whose old certificate signed this one.
    fn renewed_authority(&self, store: &VarsStore, certificate: &Certificate) -> Result<Option<Authority>> {
        for name in &self.result.authorities {
            let value = stored_value(store, name)?;
            if let ValueKind::Certificate(certificates) = ValueKind::infer(&value)
                && old_generations(&certificates).any(|old| certificate.is_signed_by(old))
                && !certificate.is_self_signed()
            {
                return Authority::from_value(name, &value).map(Some);
            }
        }
        Ok(None)
    }
}

/// Ends the rotation of CA `name` and of the CAs below it: removes old certificates from all bundles.
pub fn finish(store: &mut VarsStore, name: &str) -> Result<RotationResult> {
    store.lock()?;
    let result = drop_old(store, name).and_then(|rotation| store.save().map(|()| rotation));
    store.unlock();
    result
}

/// Removes the old certificates of a CA, and of the CAs that it signed, from all values. Fails if an old one
/// still signs a certificate.
fn drop_old(store: &mut VarsStore, name: &str) -> Result<RotationResult> {
    let mut result = RotationResult::default();
    // The deployed values, from before the first change.
    let mut replaced_values: Vec<(String, Node)> = Vec::new();
    let mut pending_names = vec![name.to_owned()];
    let mut visited_names = BTreeSet::new();
    while let Some(name) = pending_names.pop() {
        // One CA stored under two names counts as signed by itself, and this loop would not end.
        if !visited_names.insert(name.clone()) {
            continue;
        }
        let value = stored_value(store, &name)?;
        let ValueKind::Certificate(certificates) = ValueKind::infer(&value) else { continue };
        let old_certificates: Vec<Certificate> = old_generations(&certificates).cloned().collect();
        if let Some(current_certificate) = certificates.first() {
            pending_names.extend(signed_by(store, current_certificate, &name));
        }
        if old_certificates.is_empty() {
            continue;
        }
        check_deployed(store, &name)?;
        let signed_variables: Vec<String> =
            old_certificates.iter().flat_map(|certificate| signed_by(store, certificate, &name)).collect();
        if !signed_variables.is_empty() {
            let rotate_hint = |variable: &String| {
                format!("rotate '{variable}' first: `{}`", rotate_command(store, variable))
            };
            return Err(Error::invalid(format!(
                "the old certificate of '{name}' is still needed: it signed {}",
                signed_variables.join(", ")
            ))
            .with_hints(signed_variables.iter().map(rotate_hint)));
        }
        let names: Vec<String> = store.names().map(str::to_owned).collect();
        for holder in names {
            let old_value = stored_value(store, &holder)?;
            let mut value = old_value.clone();
            let mut has_changed = strip(&mut value, "ca", &old_certificates);
            if holder == name {
                has_changed |= strip(&mut value, "certificate", &old_certificates);
            }
            if has_changed {
                store.set(&holder, value);
                // Two CAs of a chain can change the same holder.
                if replaced_values.iter().all(|(name, _)| *name != holder) {
                    replaced_values.push((holder, old_value));
                }
            }
        }
        result.authorities.push(name);
    }
    if result.authorities.is_empty() {
        return Err(Error::invalid(format!("there is no rotation of '{name}' to finish"))
            .with_hint(format!("to begin one: `{}`", rotate_command(store, name))));
    }
    store.keep_previous(&replaced_values);
    Ok(result)
}

/// Checks that the new certificate of a CA is deployed. A deploy removes the replaced values from the store.
fn check_deployed(store: &VarsStore, name: &str) -> Result<()> {
    if !has_previous(store, name) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the last rotation of '{name}' is not deployed yet: '{}' still has its old value under `{}`",
        store.path().display(),
        previous::PREVIOUS_KEY
    ))
    .with_note("nothing was changed")
    .with_hint(format!("deploy it first, which removes the old value: `{}`", deploy_command(store)))
    .with_hint(format!(
        "if another program deployed it, remove `{}` from '{}'",
        previous::PREVIOUS_KEY,
        store.path().display()
    )))
}

/// Returns true if the store has a value of the variable that a rotation replaced.
fn has_previous(store: &VarsStore, name: &str) -> bool {
    let rotations = store.previous().map(previous::rotations).unwrap_or_default();
    rotations.iter().flatten().any(|(kept_name, _)| *kept_name == name)
}

/// Returns the certificates that earlier rotations left after the current one, with the same subject but
/// another key. Other certificates in the bundle are the chain above it.
fn old_generations(certificates: &[Certificate]) -> impl Iterator<Item = &Certificate> {
    let current_certificate = certificates.first();
    certificates.iter().skip(1).filter(move |other| {
        current_certificate.is_some_and(|current| {
            other.subject == current.subject && other.public_bits != current.public_bits
        })
    })
}

/// Checks that the CA is valid, because clients reject certificates of an expired CA.
fn check_authority(store: &VarsStore, authority: Option<&Authority>, now: OffsetDateTime) -> Result<()> {
    let Some(authority) = authority.filter(|authority| authority.certificate().not_after < now) else {
        return Ok(());
    };
    let (name, expiry_day) = (authority.name(), day(authority.certificate().not_after));
    Err(Error::invalid(format!("its CA '{name}' expired on {expiry_day}")).with_hint(format!(
        "rotate the CA, and with it everything that it signed: `{}`",
        rotate_command(store, name)
    )))
}

/// Returns the command line that rotates the variable.
pub(super) fn rotate_command(store: &VarsStore, name: &str) -> String {
    command_line("rotate", store.path(), name)
}

/// Returns the command line that deploys with this vars store.
fn deploy_command(store: &VarsStore) -> String {
    command_with_store("create-env", store.path())
}

/// Returns the line of a command with this vars store.
pub(super) fn command_with_store(command: &str, store: &Path) -> String {
    format!("monopile {command} MANIFEST --vars-store {}", shell_word(&store.to_string_lossy()))
}

/// Returns the hints for variables without a value that the options of a variable refer to: those that are
/// generated but not in the store, and those that must be given.
fn hints_for_missing(store: &Path, declarations: &Declarations, names: &[&str]) -> Vec<String> {
    let (generated_names, other_names): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| declarations.get(name).is_some());
    let mut hints = Vec::new();
    if !generated_names.is_empty() {
        let path = store.to_string_lossy();
        hints.push(format!(
            "generate {} and save it in the vars store first: `monopile interpolate MANIFEST --vars-store {} \
             --path /name`",
            comma_list(&generated_names),
            shell_word(&path)
        ));
    }
    if !other_names.is_empty() {
        let names = comma_list(&other_names);
        hints.push(format!("give values to {names}: `monopile SAME-COMMAND --vars-file FILE`"));
    }
    hints
}

/// Returns the hint to finish the rotation of a CA that is deployed.
fn finish_hint(store: &VarsStore, name: &str) -> String {
    format!("once everything trusts the new CA: `{} --finish`", rotate_command(store, name))
}

/// Returns the value of a variable. Fails if the store has none.
pub(super) fn stored_value(store: &VarsStore, name: &str) -> Result<Node> {
    store.get(name).cloned().ok_or_else(|| missing_variable_error(store, name, did_you_mean_question))
}

/// Returns the error for a variable that the store does not have. `question` returns the hint for the
/// variable with the nearest name.
pub(super) fn missing_variable_error(
    store: &VarsStore,
    name: &str,
    question: impl FnOnce(&str) -> String,
) -> Error {
    let error = Error::invalid(format!("there is no variable '{name}' in '{}'", store.path().display()));
    match nearest(name, store.names()) {
        Some(suggestion) => error.with_hint(question(suggestion)),
        None => {
            let names: Vec<&str> = store.names().collect();
            error.with_note(format!("its variables are: {}", comma_list(&names)))
        }
    }
}

/// Returns the variables whose certificate `authority` signed, without `except`.
fn signed_by(store: &VarsStore, authority: &Certificate, except: &str) -> Vec<String> {
    store
        .iter()
        .filter(|(name, value)| {
            *name != except
                && ValueKind::infer(value)
                    .certificate()
                    .is_some_and(|certificate| certificate.is_signed_by(authority))
        })
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn append(value: &mut Node, key: &str, pem: &str) {
    if let Data::Map(map) = &mut value.data
        && let Some(Node { data: Data::String(text), .. }) = map.get_mut(key)
    {
        *text = format!("{}{pem}", text.as_str()).into();
    }
}

/// Removes certificates from a bundle, and returns true if it removed any.
fn strip(value: &mut Node, key: &str, old_certificates: &[Certificate]) -> bool {
    let Data::Map(map) = &mut value.data else { return false };
    let Some(Node { data: Data::String(text), .. }) = map.get_mut(key) else { return false };
    let Ok(bundle) = Certificate::from_pem(text) else { return false };
    let remaining_certificates: Vec<&Certificate> = bundle
        .iter()
        .filter(|certificate| {
            old_certificates.iter().all(|old_certificate| old_certificate.der != certificate.der)
        })
        .collect();
    if remaining_certificates.is_empty() || remaining_certificates.len() == bundle.len() {
        return false;
    }
    *text = remaining_certificates.into_iter().map(Certificate::to_pem).collect::<String>().into();
    true
}

/// Returns the new value with the unknown keys of the old one.
fn keep_unknown(old: &Node, mut new: Node) -> Node {
    if let (Data::Map(old), Data::Map(new)) = (&old.data, &mut new.data) {
        for (key, value) in old.iter() {
            if !new.contains(key) {
                new.insert(key.clone(), value.clone());
            }
        }
    }
    new
}
