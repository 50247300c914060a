//! The request document: the method, its arguments and the context of the call.

use serde_json::{Map, Value, json};

use crate::protocol::RequestId;

/// A request as a CPI reads it on standard input.
#[derive(Debug, Clone, Copy)]
pub struct RequestEnvelope<'a> {
    /// The name of the method, which need not belong to the CPI API.
    pub method: &'a str,
    /// Its arguments, in order.
    pub arguments: &'a [Value],
    /// The API version of the request; `None` for `info`, whose answer reports it.
    pub api_version: Option<u32>,
    /// The properties of the CPI's entry in the CPI config.
    pub properties: &'a Map<String, Value>,
    /// The director id of the state, `context.director_uuid`.
    pub director_uuid: &'a str,
    /// The id of this call, `context.request_id`.
    pub request_id: &'a RequestId,
    /// The `api_version` of the stemcell that the call refers to, if any.
    pub stemcell_api_version: Option<u32>,
}

impl RequestEnvelope<'_> {
    /// Returns the JSON document to send.
    pub fn to_json(self) -> Value {
        let mut context = self.properties.clone();
        context.insert("director_uuid".to_owned(), json!(self.director_uuid));
        context.insert("request_id".to_owned(), json!(self.request_id));
        if let Some(version) = self.stemcell_api_version {
            context.insert("vm".to_owned(), json!({"stemcell": {"api_version": version}}));
        }
        let mut request = json!({"method": self.method, "arguments": self.arguments, "context": context});
        if let Some(version) = self.api_version {
            request["api_version"] = json!(version);
        }
        request
    }
}
