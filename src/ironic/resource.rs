//! The collections of the API: listing (page by page), reading, creating, updating and deleting objects.

use std::cmp::Ordering;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use ureq::http::Method;

use super::client::Client;
use super::error::IronicError;
use super::patch::Patch;
use super::values;
use super::version::Microversion;
use base::JsonObject;

/// The number of objects to request per page. A server may return fewer.
const PAGE_OBJECTS: usize = 1000;
/// The characters to percent-encode in a part of a URL: all but the unreserved ones of RFC 3986.
const ESCAPED_CHARACTERS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A collection of objects of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collection {
    /// Nodes: the physical machines.
    Nodes,
    /// Ports: the network cards of nodes.
    Ports,
    /// Allocations: reservations of nodes.
    Allocations,
    /// Volume connectors: the initiator names of nodes in the storage network.
    Connectors,
    /// Volume targets: the volumes that nodes use.
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

    /// Returns the key of the list in an answer.
    fn key(self) -> &'static str {
        self.path().trim_start_matches("volume/")
    }

    /// Returns true if the server can sort by the field. It cannot sort other objects by the UUID of their
    /// node, so the client does.
    pub fn server_sorts_by(self, key: &str) -> bool {
        self == Collection::Nodes || key != "node_uuid"
    }

    /// Returns the lowest API version that has the collection, and the feature's name for messages.
    fn requirement(self) -> (Microversion, &'static str) {
        match self {
            Collection::Nodes | Collection::Ports => (Microversion::NODE_NAMES, "names of nodes"),
            Collection::Allocations => (Microversion::ALLOCATIONS, "allocations"),
            Collection::Connectors | Collection::Targets => {
                (Microversion::VOLUMES, "volume connectors and targets")
            }
        }
    }
}

/// Options of [`Client::list`](super::Client::list).
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// Filters, such as `("node", "NAME")`.
    pub filters: Vec<(&'static str, String)>,
    /// The values that all returned objects have. The client compares them, because the server refuses these
    /// filters.
    pub matching: Vec<(&'static str, Value)>,
    /// True if the server returns all fields. Cannot be combined with `fields`.
    pub returns_all_fields: bool,
    /// The names of the fields to return. If empty, the server chooses.
    pub fields: Vec<String>,
    /// The maximum number of objects to return, over all pages.
    pub limit: Option<usize>,
    /// The UUID of the object after which the list begins.
    pub marker: Option<String>,
    /// The fields to sort by, most significant first. The server sorts by one field of its own; otherwise the
    /// client reads all objects and sorts them, so they cannot be combined with `marker`.
    pub sort: Vec<SortKey>,
}

/// A field to sort by.
#[derive(Debug, Clone)]
pub struct SortKey {
    /// The name of the field.
    pub field: String,
    /// True for descending order.
    pub is_descending: bool,
}

impl ListOptions {
    /// Selects the objects of one node, given by name or UUID, with all fields.
    pub fn for_node(node: &str) -> Self {
        ListOptions {
            filters: vec![("node", node.to_owned())],
            returns_all_fields: true,
            ..ListOptions::default()
        }
    }

    /// Returns the requested fields, and those that the client needs to ask for the next page, to sort and to
    /// compare.
    fn needed_fields(&self) -> Vec<String> {
        let mut fields = self.fields.clone();
        let keys =
            self.sort.iter().map(|key| key.field.as_str()).chain(self.matching.iter().map(|(key, _)| *key));
        for key in ["uuid"].into_iter().chain(keys) {
            if !fields.iter().any(|field| field == key) {
                fields.push(key.to_owned());
            }
        }
        fields
    }

    fn query(&self, limit: usize, marker: Option<&str>) -> Vec<(&str, String)> {
        let mut query = self.filters.clone();
        if self.returns_all_fields {
            query.push(("detail", "true".to_owned()));
        }
        if !self.fields.is_empty() {
            query.push(("fields", self.needed_fields().join(",")));
        }
        if let Some(key) = self.sort.first() {
            query.push(("sort_key", key.field.clone()));
            query.push(("sort_dir", if key.is_descending { "desc" } else { "asc" }.to_owned()));
        }
        query.push(("limit", limit.to_string()));
        query.extend(marker.map(|marker| ("marker", marker.to_owned())));
        query
    }
}

impl Client {
    /// Returns all objects that match the options, from as many pages as there are.
    pub fn list(
        &self,
        collection: Collection,
        options: &ListOptions,
    ) -> Result<Vec<JsonObject>, IronicError> {
        let sorts_here =
            options.sort.len() > 1 || options.sort.iter().any(|key| !collection.server_sorts_by(&key.field));
        if !sorts_here && options.matching.is_empty() {
            return self.list_pages(collection, options);
        }
        let mut request = ListOptions { limit: None, ..options.clone() };
        if sorts_here {
            for key in options.sort.iter().filter(|key| collection.server_sorts_by(&key.field)) {
                // Let the server refuse a field that cannot be sorted by, as it does with a single field.
                let probe = ListOptions { limit: Some(1), sort: vec![key.clone()], ..ListOptions::default() };
                self.list_pages(collection, &probe)?;
            }
            request.sort.clear();
        }
        match request.fields.is_empty() {
            true => request.returns_all_fields = true,
            false => request.fields = options.needed_fields(),
        }
        let mut objects = self.list_pages(collection, &request)?;
        objects.retain(|object| options.matching.iter().all(|(key, value)| object.get(*key) == Some(value)));
        if sorts_here {
            objects.sort_by(|one, other| {
                let orders = options.sort.iter().map(|key| {
                    let order = compare_values(one.get(&key.field), other.get(&key.field));
                    if key.is_descending { order.reverse() } else { order }
                });
                orders.fold(Ordering::Equal, Ordering::then)
            });
        }
        objects.truncate(options.limit.unwrap_or(usize::MAX));
        Ok(objects)
    }

    /// Lists a collection page by page, up to the limit. Fails if the server repeats a page, which would
    /// never end.
    fn list_pages(
        &self,
        collection: Collection,
        options: &ListOptions,
    ) -> Result<Vec<JsonObject>, IronicError> {
        let mut objects: Vec<JsonObject> = Vec::new();
        let mut marker = options.marker.clone();
        let path = format!("/v1/{}", collection.path());
        let protocol_error = |problem: &str| IronicError::Protocol {
            request: format!("GET {path}"),
            problem: problem.to_owned(),
        };
        loop {
            let size = options
                .limit
                .map_or(PAGE_OBJECTS, |limit| limit.saturating_sub(objects.len()).min(PAGE_OBJECTS));
            if size == 0 {
                return Ok(objects);
            }
            let url = format!("{path}?{}", encode(&options.query(size, marker.as_deref())));
            let mut answer = self.call(&Method::GET, &url, None, collection.requirement())?;
            let Some(Value::Array(page)) = answer.get_mut(collection.key()).map(Value::take) else {
                return Err(protocol_error(&format!("it has no list `{}`", collection.key())));
            };
            let count = page.len();
            for item in page.into_iter().take(size) {
                let Value::Object(mut object) = item else {
                    return Err(protocol_error("its list has an item that is not an object"));
                };
                values::mask(&mut object);
                objects.push(object);
            }
            // Only `next` shows the end, because a server may return fewer objects than requested. It may
            // also be present on the last page; then the next page is empty.
            if count == 0 || answer.get("next").is_none_or(Value::is_null) {
                return Ok(objects);
            }
            let last_uuid = objects.last().and_then(|object| object.get("uuid")).and_then(Value::as_str);
            let last_uuid = last_uuid
                .ok_or_else(|| protocol_error("its list has an object without a `uuid`"))?
                .to_owned();
            if marker.as_deref() == Some(last_uuid.as_str()) {
                return Err(protocol_error("it repeats the page before it"));
            }
            marker = Some(last_uuid);
        }
    }

    /// Returns one object by its UUID, or by its name if the collection has names. Empty `fields` returns all
    /// fields.
    pub fn get(
        &self,
        collection: Collection,
        id: &str,
        fields: &[String],
    ) -> Result<JsonObject, IronicError> {
        let mut path = object_path(collection, id);
        if !fields.is_empty() {
            path = format!("{path}?{}", encode(&[("fields", fields.join(","))]));
        }
        self.request_object(&Method::GET, &path, None, collection.requirement())
    }

    /// Returns one object with all fields, or `None` if it does not exist.
    pub fn find(&self, collection: Collection, id: &str) -> Result<Option<JsonObject>, IronicError> {
        match self.get(collection, id, &[]) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates an object and returns it as the server stored it.
    pub fn create(&self, collection: Collection, object: JsonObject) -> Result<JsonObject, IronicError> {
        let body = Value::Object(object);
        values::check(&body, "")?;
        let path = format!("/v1/{}", collection.path());
        self.request_object(&Method::POST, &path, Some(&body), collection.requirement())
    }

    /// Changes single keys of an object and returns the whole object.
    pub fn update(&self, collection: Collection, id: &str, patch: &Patch) -> Result<JsonObject, IronicError> {
        let body = patch.document()?;
        self.request_object(
            &Method::PATCH,
            &object_path(collection, id),
            Some(&body),
            collection.requirement(),
        )
    }

    /// Deletes an object. Fails with [`Refusal::NotFound`](crate::Refusal::NotFound) if it does not exist.
    pub fn delete(&self, collection: Collection, id: &str) -> Result<(), IronicError> {
        self.call(&Method::DELETE, &object_path(collection, id), None, collection.requirement()).map(drop)
    }

    pub(super) fn request_object(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        needs: (Microversion, &'static str),
    ) -> Result<JsonObject, IronicError> {
        match self.call(method, path, body, needs)? {
            Value::Object(mut object) => {
                values::mask(&mut object);
                Ok(object)
            }
            _ => Err(IronicError::Protocol {
                request: format!("{method} {path}"),
                problem: "it is not an object".to_owned(),
            }),
        }
    }
}

/// Returns the URL path of one object.
pub(super) fn object_path(collection: Collection, id: &str) -> String {
    format!("/v1/{}/{}", collection.path(), encode_segment(id))
}

/// Encodes a text so that it remains one segment of a URL's path.
pub(super) fn encode_segment(text: &str) -> String {
    // URL parsers resolve "." and ".." even if they are percent-encoded.
    match text.trim_matches('.') {
        "" => "%00".to_owned(),
        _ => utf8_percent_encode(text, ESCAPED_CHARACTERS).to_string(),
    }
}

/// Compares numbers by value and everything else as text. Missing and null values come first.
fn compare_values(one: Option<&Value>, other: Option<&Value>) -> Ordering {
    let non_null = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
    match (non_null(one), non_null(other)) {
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal)
        }
        (one, other) => one.map(|one| one.to_string()).cmp(&other.map(|other| other.to_string())),
    }
}

fn encode(query: &[(&str, String)]) -> String {
    let pairs =
        query.iter().map(|(key, value)| format!("{key}={}", utf8_percent_encode(value, ESCAPED_CHARACTERS)));
    pairs.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_cannot_escape_their_collection() {
        assert_eq!(object_path(Collection::Targets, "a/../b?c#d"), "/v1/volume/targets/a%2F..%2Fb%3Fc%23d");
        for dots in ["", ".", ".."] {
            assert_eq!(object_path(Collection::Nodes, dots), "/v1/nodes/%00");
        }
    }

    #[test]
    fn request_for_the_next_page_keeps_the_filter() {
        let filter = ListOptions {
            filters: vec![("node", "a b&c".to_owned())],
            fields: vec!["extra".to_owned()],
            sort: vec![SortKey { field: "volume_id".to_owned(), is_descending: true }],
            ..ListOptions::default()
        };
        assert_eq!(
            encode(&filter.query(5, Some("m"))),
            "node=a%20b%26c&fields=extra%2Cuuid%2Cvolume_id&sort_key=volume_id&sort_dir=desc&limit=5&marker=m"
        );
    }
}
