//! The collections of the API, and lists page by page.

use std::cmp::Ordering;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use ureq::http::Method;

use super::client::Client;
use super::error::IronicError;
use super::patch::Patch;
use super::values;
use super::version::Microversion;

/// A thing of the API.
pub type Object = Map<String, Value>;

/// How many things are asked for at once; a server may give fewer.
const PAGE: usize = 1000;
/// What stays as it is in a part of a URL.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A kind of thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collection {
    /// Machines.
    Nodes,
    /// Their network cards.
    Ports,
    /// Claims on nodes.
    Allocations,
    /// Initiators: who a node is to a storage network.
    Connectors,
    /// Volumes that a node is to use.
    Targets,
}

impl Collection {
    fn path(self) -> &'static str {
        match self {
            Collection::Nodes => "nodes",
            Collection::Ports => "ports",
            Collection::Allocations => "allocations",
            Collection::Connectors => "volume/connectors",
            Collection::Targets => "volume/targets",
        }
    }

    /// The key of the list in an answer.
    fn key(self) -> &'static str {
        self.path().trim_start_matches("volume/")
    }

    fn needs(self) -> (Microversion, &'static str) {
        match self {
            Collection::Nodes | Collection::Ports => (Microversion::NODE_NAMES, "names of nodes"),
            Collection::Allocations => (Microversion::ALLOCATIONS, "allocations"),
            Collection::Connectors | Collection::Targets => {
                (Microversion::VOLUMES, "volume connectors and targets")
            }
        }
    }
}

/// Which things of a list, in which order, with which fields.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Query arguments of the collection, such as `node`.
    pub arguments: Vec<(&'static str, String)>,
    /// With all fields; not together with `fields`.
    pub detail: bool,
    /// Only these fields.
    pub fields: Vec<String>,
    /// At most so many, of all that match.
    pub limit: Option<usize>,
    /// Only what follows the thing with this UUID.
    pub marker: Option<String>,
    /// The fields to sort by, each one where those before are equal, and whether backwards. The server sorts by one; by
    /// several, all things are asked for and sorted here: not together with `marker`.
    pub sort: Vec<(String, bool)>,
}

impl Filter {
    /// What belongs to this node, by name or UUID, with all fields.
    pub fn of_node(node: &str) -> Self {
        Filter { arguments: vec![("node", node.to_owned())], detail: true, ..Filter::default() }
    }

    fn query(&self, limit: usize, marker: Option<&str>) -> Vec<(&str, String)> {
        let mut query = self.arguments.clone();
        if self.detail {
            query.push(("detail", "true".to_owned()));
        }
        if !self.fields.is_empty() {
            let mut fields = self.fields.clone();
            // Needed to ask for the next page, and to sort.
            for needed in ["uuid"].into_iter().chain(self.sort.iter().map(|(key, _)| key.as_str())) {
                if !fields.iter().any(|field| field == needed) {
                    fields.push(needed.to_owned());
                }
            }
            query.push(("fields", fields.join(",")));
        }
        if let Some((key, backwards)) = self.sort.first() {
            query.push(("sort_key", key.clone()));
            query.push(("sort_dir", if *backwards { "desc" } else { "asc" }.to_owned()));
        }
        query.push(("limit", limit.to_string()));
        query.extend(marker.map(|marker| ("marker", marker.to_owned())));
        query
    }
}

impl Client {
    /// All things that match, however many pages they come in.
    pub fn list(&self, collection: Collection, filter: &Filter) -> Result<Vec<Object>, IronicError> {
        let further = filter.sort.get(1..).unwrap_or_default();
        if further.is_empty() {
            return self.pages(collection, filter);
        }
        for key in further {
            // Only the server knows what it can sort by.
            let probe = Filter { limit: Some(1), sort: vec![key.clone()], ..Filter::default() };
            self.pages(collection, &probe)?;
        }
        let detail = filter.detail || filter.fields.is_empty();
        let mut found = self.pages(collection, &Filter { limit: None, detail, ..filter.clone() })?;
        found.sort_by(|one, other| {
            let orders = filter.sort.iter().map(|(key, backwards)| {
                let order = order(one.get(key), other.get(key));
                if *backwards { order.reverse() } else { order }
            });
            orders.fold(Ordering::Equal, Ordering::then)
        });
        found.truncate(filter.limit.unwrap_or(usize::MAX));
        Ok(found)
    }

    fn pages(&self, collection: Collection, filter: &Filter) -> Result<Vec<Object>, IronicError> {
        let mut found: Vec<Object> = Vec::new();
        let mut marker = filter.marker.clone();
        let path = format!("/v1/{}", collection.path());
        let problem = |problem: &str| IronicError::Protocol {
            request: format!("GET {path}"),
            problem: problem.to_owned(),
        };
        loop {
            let left = filter.limit.map_or(PAGE, |limit| limit.saturating_sub(found.len()).min(PAGE));
            if left == 0 {
                return Ok(found);
            }
            let url = format!("{path}?{}", encode(&filter.query(left, marker.as_deref())));
            let mut answer = self.call(&Method::GET, &url, None, collection.needs())?;
            let Some(Value::Array(page)) = answer.get_mut(collection.key()).map(Value::take) else {
                return Err(problem(&format!("it has no list `{}`", collection.key())));
            };
            let count = page.len();
            for item in page.into_iter().take(left) {
                let Value::Object(mut object) = item else {
                    return Err(problem("the list holds no objects"));
                };
                values::mask(&mut object);
                found.push(object);
            }
            // A server may give fewer than asked for, so only it knows whether there is more; that it says so
            // although there is not makes an empty page, which ends the loop as well.
            if count == 0 || answer.get("next").is_none_or(Value::is_null) {
                return Ok(found);
            }
            let last = found.last().and_then(|object| object.get("uuid")).and_then(Value::as_str);
            let last = last.ok_or_else(|| problem("an object of the list has no `uuid`"))?.to_owned();
            if marker.as_deref() == Some(last.as_str()) {
                return Err(problem("page after page is the same"));
            }
            marker = Some(last);
        }
    }

    /// One thing by its UUID (or name, where the kind has names). `fields`: only these, or all if there are none.
    pub fn get(&self, collection: Collection, id: &str, fields: &[String]) -> Result<Object, IronicError> {
        let mut path = one(collection, id);
        if !fields.is_empty() {
            path = format!("{path}?{}", encode(&[("fields", fields.join(","))]));
        }
        self.object(&Method::GET, &path, None, collection.needs())
    }

    /// One thing, if it exists.
    pub fn find(&self, collection: Collection, id: &str) -> Result<Option<Object>, IronicError> {
        match self.get(collection, id, &[]) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a thing; returns it as it is then.
    pub fn create(&self, collection: Collection, object: Object) -> Result<Object, IronicError> {
        let body = Value::Object(object);
        values::check(&body, "")?;
        let path = format!("/v1/{}", collection.path());
        self.object(&Method::POST, &path, Some(&body), collection.needs())
    }

    /// Changes single keys of a thing; returns it as it is then.
    pub fn update(&self, collection: Collection, id: &str, patch: &Patch) -> Result<Object, IronicError> {
        let body = patch.document()?;
        self.object(&Method::PATCH, &one(collection, id), Some(&body), collection.needs())
    }

    /// Deletes a thing.
    pub fn delete(&self, collection: Collection, id: &str) -> Result<(), IronicError> {
        self.call(&Method::DELETE, &one(collection, id), None, collection.needs()).map(drop)
    }

    fn object(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        needs: (Microversion, &'static str),
    ) -> Result<Object, IronicError> {
        match self.call(method, path, body, needs)? {
            Value::Object(mut object) => {
                values::mask(&mut object);
                Ok(object)
            }
            _ => Err(IronicError::Protocol {
                request: format!("{method} {path}"),
                problem: "it is no object".to_owned(),
            }),
        }
    }
}

/// The path of one thing. Whatever is in an id, it stays one part of the path.
pub(super) fn one(collection: Collection, id: &str) -> String {
    // Dots alone are steps of a path, however they are written.
    let id = match id.trim_matches('.') {
        "" => "%00".to_owned(),
        _ => utf8_percent_encode(id, PLAIN).to_string(),
    };
    format!("/v1/{}/{id}", collection.path())
}

/// Numbers by what they are, all else as text; what is not there comes first.
fn order(one: Option<&Value>, other: Option<&Value>) -> Ordering {
    let there = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
    match (there(one), there(other)) {
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal)
        }
        (one, other) => one.map(|one| one.to_string()).cmp(&other.map(|other| other.to_string())),
    }
}

fn encode(query: &[(&str, String)]) -> String {
    let pairs = query.iter().map(|(key, value)| format!("{key}={}", utf8_percent_encode(value, PLAIN)));
    pairs.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_leave_its_collection() {
        assert_eq!(one(Collection::Targets, "a/../b?c#d"), "/v1/volume/targets/a%2F..%2Fb%3Fc%23d");
        for dots in ["", ".", ".."] {
            assert_eq!(one(Collection::Nodes, dots), "/v1/nodes/%00");
        }
    }

    #[test]
    fn the_next_page_is_asked_for_with_the_filter() {
        let filter = Filter {
            arguments: vec![("node", "a b&c".to_owned())],
            fields: vec!["extra".to_owned()],
            sort: vec![("volume_id".to_owned(), true)],
            ..Filter::default()
        };
        assert_eq!(
            encode(&filter.query(5, Some("m"))),
            "node=a%20b%26c&fields=extra%2Cuuid%2Cvolume_id&sort_key=volume_id&sort_dir=desc&limit=5&marker=m"
        );
    }
}
