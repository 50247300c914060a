//! The agent's credentials that a rotation replaced and that the VM still has.

use std::collections::BTreeSet;

use time::OffsetDateTime;

use super::syntax::{as_single_reference, referenced_variables};
use super::{Definitions, GivenValues, Resolver};
use crate::vars_store::{VarsStore, previous};
use yaml::Node;

/// `cloud_provider.mbus` and `cloud_provider.cert` with earlier values of variables.
#[derive(Clone)]
pub(crate) struct PreviousMbus {
    /// The URL, with user and password.
    pub(crate) mbus: String,
    /// The CA, as PEM.
    pub(crate) ca: Option<String>,
    /// The certificate of the agent, as PEM.
    pub(crate) certificate: Option<String>,
}

impl std::fmt::Debug for PreviousMbus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PreviousMbus(…)")
    }
}

/// `mbus` and `cert` of `cloud_provider`, before interpolation.
#[derive(Debug, Clone, Default)]
pub(crate) struct MbusOutline {
    mbus: Option<Node>,
    cert: Option<Node>,
}

impl MbusOutline {
    /// Takes the values from a manifest that is not interpolated yet.
    pub(crate) fn of(root: &Node) -> Self {
        let part = |key: &str| root.get("cloud_provider")?.get(key).cloned();
        MbusOutline { mbus: part("mbus"), cert: part("cert") }
    }

    /// Returns the names of the variables whose new values the agent of a deployed VM refuses. A certificate
    /// without a value is not among them if its CA has one: the agent's certificate is of the same CA.
    pub(super) fn names_for_agent(
        &self,
        definitions: &Definitions,
        has_value: impl Fn(&str) -> bool,
    ) -> BTreeSet<String> {
        let names_in = |part: &Option<Node>| part.as_ref().map(referenced_variables).unwrap_or_default();
        let mut names = names_in(&self.cert);
        names.retain(|name| {
            let options = definitions.get(name).and_then(|definition| definition.options.as_ref());
            let ca = options.and_then(|options| options.get("ca")?.as_str());
            let ca_name = ca.map(|ca| as_single_reference(ca).map_or(ca, |reference| reference.variable()));
            has_value(name) || !ca_name.is_some_and(&has_value)
        });
        names.extend(names_in(&self.mbus));
        names
    }

    /// Returns the earlier values, the latest first. Values that cannot be determined are left out.
    pub(crate) fn previous(
        &self,
        given_values: &GivenValues,
        definitions: &Definitions,
        store: Option<&mut VarsStore>,
        now: OffsetDateTime,
    ) -> Vec<PreviousMbus> {
        let stored_list = store.as_deref().and_then(VarsStore::previous).cloned();
        if stored_list.is_none() && given_values.previous().is_none() {
            return Vec::new();
        }
        let mut earlier_given_values = given_values.clone();
        let mut candidates = Vec::new();
        let mut store = store;
        let lists = stored_list
            .iter()
            .map(|list| (list, false))
            .chain(given_values.previous().map(|list| (list, true)));
        for (list, is_given) in lists {
            for rotation in previous::rotations(list) {
                // A given value takes precedence over the store, and did so before the rotation.
                let effective_values =
                    rotation.into_iter().filter(|(name, _)| is_given || given_values.get(name).is_none());
                effective_values.for_each(|(name, value)| earlier_given_values.replace(name, value.clone()));
                candidates.extend(self.interpolate(
                    &earlier_given_values,
                    definitions,
                    store.as_deref_mut(),
                    now,
                ));
            }
        }
        candidates
    }

    /// Interpolates the mbus URL and its certificate with older values. Returns `None` if one is missing,
    /// because a part of the credentials is of no use.
    fn interpolate(
        &self,
        given_values: &GivenValues,
        definitions: &Definitions,
        store: Option<&mut VarsStore>,
        now: OffsetDateTime,
    ) -> Option<PreviousMbus> {
        let mut resolver = Resolver::new(given_values, definitions, store, now).read_only();
        let mut mbus = self.mbus.clone()?;
        resolver.interpolate(&mut mbus).ok()?;
        // The private key is not kept, so only what is needed is interpolated.
        let [ca, certificate] = match &self.cert {
            Some(cert) if cert.as_str().is_some() => {
                let mut cert = cert.clone();
                resolver.interpolate(&mut cert).ok()?;
                ["ca", "certificate"].map(|key| cert.get(key).cloned())
            }
            Some(cert) => {
                let mut parts = ["ca", "certificate"].map(|key| cert.get(key).cloned());
                parts.iter_mut().flatten().try_for_each(|part| resolver.interpolate(part)).ok()?;
                parts
            }
            None => [None, None],
        };
        if !resolver.missing_names().is_empty() {
            return None;
        }
        let text = |part: Option<Node>| part.and_then(|part| part.as_str().map(str::to_owned));
        let (ca, certificate) = (text(ca), text(certificate));
        Some(PreviousMbus { mbus: mbus.as_str()?.to_owned(), ca, certificate })
    }
}
