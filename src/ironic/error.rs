//! The errors of exchanges with Ironic and Keystone, and the hints that go with them.

use std::borrow::Cow;

use serde_json::Value;

use super::version::Microversion;
use base::Error;
use base::text::shell_word;

/// A failed exchange with Ironic, or with the Keystone in front of it.
#[derive(Debug, thiserror::Error)]
pub enum IronicError {
    /// No server answers at the address.
    #[error("{address} cannot be reached: {problem}")]
    Unreachable {
        /// Scheme, host and port.
        address: String,
        /// The error of the connection.
        problem: String,
    },
    /// The server's TLS certificate is not trusted.
    #[error("{address} is not trusted: {problem}")]
    Untrusted {
        /// Scheme, host and port.
        address: String,
        /// The error of the TLS library.
        problem: String,
    },
    /// The server rejected the user and password, or the token.
    #[error("{address} refuses the credentials: {reason}")]
    Unauthorized {
        /// Scheme, host and port.
        address: String,
        /// The reason in the server's answer.
        reason: String,
    },
    /// Another server answers at the address.
    #[error("{address}/v1/ is not the API of Ironic: {problem}")]
    NotIronic {
        /// Scheme, host and port.
        address: String,
        /// The difference from an answer of Ironic.
        problem: String,
    },
    /// Keystone's service catalogue has no matching endpoint of Ironic.
    #[error("Keystone's catalogue has no '{interface}' endpoint of a service 'baremetal'{region}")]
    NotInCatalogue {
        /// The interface that was looked for: `public`, `internal` or `admin`.
        interface: String,
        /// ` in region 'x'`, or an empty string.
        region: String,
    },
    /// The API version in use does not have the feature.
    #[error("{feature} need version {required_version} of Ironic's API; {address} is at {version}")]
    TooOld {
        /// The feature, in the plural.
        feature: &'static str,
        /// The first version that has it.
        required_version: Microversion,
        /// The version in use.
        version: Microversion,
        /// Scheme, host and port.
        address: String,
    },
    /// The server does not serve the configured API version.
    #[error(
        "{address} does not serve version {requested_version} of Ironic's API, but {lowest} to {highest}"
    )]
    NotServed {
        /// The configured version.
        requested_version: Microversion,
        /// The lowest version that the server has.
        lowest: Microversion,
        /// The highest version that the server has.
        highest: Microversion,
        /// Scheme, host and port.
        address: String,
    },
    /// The server answered with an error status.
    #[error("{request} {} ({status}): {reason}", if *status < 500 { "was refused" } else { "failed" })]
    Refused {
        /// Method and path.
        request: String,
        /// The HTTP status.
        status: u16,
        /// The reason in the server's answer.
        reason: String,
    },
    /// The answer is not in the form that the API promises.
    #[error("the answer to {request} is not usable: {problem}")]
    Protocol {
        /// Method and path.
        request: String,
        /// The cause: a sentence with `it` for the answer, such as `it is not JSON`.
        problem: String,
    },
    /// A value that must not be sent to Ironic.
    #[error("{subject} {problem}")]
    BadValue {
        /// The path of the value in the object.
        subject: String,
        /// The rule that it breaks. Never quotes the value, which may be a secret.
        problem: &'static str,
    },
    /// A node did not reach the requested state.
    #[error("node {node} {problem}")]
    Node {
        /// Name or UUID.
        node: String,
        /// The state that it is in, or the error that it reports.
        problem: String,
    },
}

/// The cause of a refusal. One status stands for several causes, so Ironic's reason decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The object does not exist.
    NotFound,
    /// Another request has locked the node. The client repeats its own request for a while.
    Locked,
    /// The node must be powered off before its connectors and targets can be changed.
    NotPoweredOff,
    /// The node's provision or power state does not allow the action.
    WrongState,
    /// A connector of this type and id exists already, on this node or another.
    ConnectorExists,
    /// The node has a target with this boot index already.
    BootIndexTaken,
    /// The UUID in the request is in use.
    UuidTaken,
    /// The node in the request does not exist.
    NoSuchNode,
    /// Ironic has not enabled the driver of the node.
    NoSuchDriver,
    /// The patch removes a key that the object does not have.
    NoSuchKey,
    /// The user lacks the permission.
    Forbidden,
    /// Any other cause.
    Other,
}

impl IronicError {
    /// Returns the cause of a refusal, or `None` for an error of another kind.
    pub fn refusal(&self) -> Option<Refusal> {
        let IronicError::Refused { status, reason, .. } = self else { return None };
        let mentions = |words: &str| reason.contains(words);
        Some(match status {
            403 => Refusal::Forbidden,
            404 => Refusal::NotFound,
            409 if mentions("is locked by host") => Refusal::Locked,
            409 if mentions("volume connector with type") => Refusal::ConnectorExists,
            409 if mentions("with boot index") => Refusal::BootIndexTaken,
            409 if mentions("with UUID") => Refusal::UuidTaken,
            400 if mentions("can not be performed on node") && mentions("\"volume ") => {
                Refusal::NotPoweredOff
            }
            400 if mentions("can not be performed on node") => Refusal::WrongState,
            400 if mentions("node_uuid") => Refusal::NoSuchNode,
            400 if mentions("supports driver") => Refusal::NoSuchDriver,
            400 if mentions("can't remove a non-existent object") => Refusal::NoSuchKey,
            _ => Refusal::Other,
        })
    }

    /// Returns true if the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.refusal() == Some(Refusal::NotFound)
    }

    /// Returns true if a retry can succeed: the server cannot be reached or failed, or the node is locked.
    /// The server may have carried out the request in spite of the error.
    pub fn is_transient(&self) -> bool {
        match self {
            IronicError::Unreachable { .. } => true,
            IronicError::Refused { status, .. } => {
                matches!(status, 429 | 500..=599) || self.refusal() == Some(Refusal::Locked)
            }
            _ => false,
        }
    }

    /// Returns advice for the operator, if there is any.
    fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            IronicError::Unreachable { address, .. } => {
                return Some(
                    format!(
                        "check the endpoint, and that Ironic runs there: `curl -i {}`",
                        shell_word(address)
                    )
                    .into(),
                );
            }
            IronicError::Node { node, .. } => {
                return Some(
                    format!(
                        "to see its state and last error: `monopile baremetal node show {}`",
                        shell_word(node)
                    )
                    .into(),
                );
            }
            IronicError::Refused { request, reason, .. } => {
                return self.refusal().and_then(|refusal| self.refusal_hint(refusal, request, reason));
            }
            IronicError::Untrusted { .. } => {
                "pass the CA that signed the server's certificate (`--os-cacert`, `cacert`); the certificate \
                 must name the host of the endpoint"
            }
            IronicError::Unauthorized { .. } => {
                "check user, password and, with Keystone, project and domains"
            }
            IronicError::NotIronic { .. } => {
                "correct the URL of Ironic, usually http://HOST:6385 (`--os-endpoint`, `OS_ENDPOINT`, \
                 `endpoint`)"
            }
            IronicError::NotInCatalogue { .. } => {
                "check region and interface, or set Ironic's URL (`--os-endpoint`, `endpoint`)"
            }
            IronicError::TooOld { .. } => {
                "if the server has newer versions, set one of them (`--os-baremetal-api-version`, \
                    `api_version`); otherwise update the server"
            }
            IronicError::NotServed { .. } => {
                "remove `--os-baremetal-api-version` or `api_version`: the default is the newest version \
                    that client and server support"
            }
            IronicError::BadValue { .. } => "pass the value itself, in one line",
            IronicError::Protocol { .. } => {
                "check the endpoint (`--os-endpoint`, `endpoint`): a proxy may have answered in \
                 the place of Ironic"
            }
        };
        Some(hint.into())
    }

    /// Returns advice after a refusal of `request`, with the commands that help.
    fn refusal_hint(&self, refusal: Refusal, request: &str, reason: &str) -> Option<Cow<'static, str>> {
        let (noun, object) = requested_object(request).unwrap_or(("node", "NODE"));
        let node = if noun == "node" { object } else { node_in(reason).unwrap_or("NODE") };
        let (object, node) = (shell_word(object), shell_word(node));
        Some(match refusal {
            Refusal::NotFound => format!("see what exists: `monopile baremetal {noun} list`").into(),
            Refusal::Locked => {
                "another request or a deployment is using the node: run the same command again \
                 when it has ended"
                    .into()
            }
            Refusal::NotPoweredOff => format!(
                "power the node off first, because connectors and targets cannot be changed before: \
                 `monopile baremetal node power off {node}`, or the option --power-off"
            )
            .into(),
            Refusal::WrongState => format!(
                "to see its state: `monopile baremetal node show {node}`. A new node can be deployed after \
                 `monopile baremetal node manage {node}` and `monopile baremetal node provide {node}`"
            )
            .into(),
            Refusal::ConnectorExists => {
                "no other node may have the same connector: find it with `monopile baremetal volume \
                 connector list --long`, and delete it, or correct the --connector-id"
                    .into()
            }
            Refusal::BootIndexTaken => format!(
                "choose a free boot index; to see those in use: `monopile baremetal volume target list \
                 --node {node}`"
            )
            .into(),
            Refusal::UuidTaken => "leave out --uuid: Ironic then chooses one".into(),
            Refusal::NoSuchNode => "to see the nodes: `monopile baremetal node list`".into(),
            Refusal::NoSuchDriver => {
                "name a driver of `enabled_hardware_types` in ironic.conf, or add it there".into()
            }
            Refusal::NoSuchKey => {
                format!("to see the keys that exist: `monopile baremetal {noun} show {object}`").into()
            }
            Refusal::Forbidden => {
                "give the user a role for this request in the project or system scope; Ironic's log names \
                 the rule"
                    .into()
            }
            Refusal::Other if self.is_transient() => {
                "see the log of Ironic or of the proxy in front of it, then run the same command again".into()
            }
            Refusal::Other => return None,
        })
    }
}

/// Returns the words by which `monopile baremetal` names the type of an object in a request, and the object.
fn requested_object(request: &str) -> Option<(&'static str, &str)> {
    let (_, path) = request.split_once("/v1/")?;
    let (noun, rest) = [
        ("node", "nodes"),
        ("port", "ports"),
        ("volume connector", "volume/connectors"),
        ("volume target", "volume/targets"),
    ]
    .into_iter()
    .find_map(|(noun, collection)| Some((noun, path.strip_prefix(collection)?)))?;
    let object = rest.trim_start_matches('/').split('/').next().unwrap_or_default();
    Some((noun, if object.is_empty() { "NAME" } else { object }))
}

/// Returns the node in a reason of Ironic: `… can not be performed on node "NODE" while …`.
fn node_in(reason: &str) -> Option<&str> {
    reason.split_once("on node \"")?.1.split_once('"').map(|(node, _)| node)
}

impl From<IronicError> for Error {
    fn from(error: IronicError) -> Self {
        let text = error.to_string();
        let project_error = match &error {
            IronicError::BadValue { .. } => Error::invalid(text),
            _ => Error::failure(text),
        };
        match error.hint() {
            Some(hint) => project_error.with_hint(hint),
            None => project_error,
        }
    }
}

/// Returns the reason in the body of an error answer. Ironic writes `{"error_message": "…"}`, where the
/// string is JSON with `faultstring`, or with `title` and `description`. Old versions and proxies use other
/// forms.
pub(super) fn reason(body: &[u8]) -> String {
    let outer: Option<Value> = serde_json::from_slice(body).ok();
    let inner = outer.as_ref().and_then(|outer| outer.get("error_message").or_else(|| outer.get("error")));
    let content = match inner {
        Some(Value::String(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        Some(other) => other.clone(),
        None => Value::Null,
    };
    let text =
        |key: &str| content.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let words = text("faultstring")
        .or_else(|| text("description"))
        .or_else(|| text("message"))
        .or_else(|| text("title"))
        .or_else(|| content.as_str());
    let words = words.map(|words| words.trim().chars().take(MAX_REASON_CHARS).collect::<String>());
    words.filter(|words| !words.is_empty()).unwrap_or_else(|| "the server gives no reason".to_owned())
}

/// The maximum length of a reason in characters. Longer ones are pages of a proxy, or stack traces.
const MAX_REASON_CHARS: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_of_an_error_are_decoded() {
        let fault = r#"{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"Node nope could not be found.\", \"debuginfo\": null}"}"#;
        assert_eq!(reason(fault.as_bytes()), "Node nope could not be found.");
        let title =
            r#"{"error_message": "{\"code\": 404, \"title\": \"Not Found\", \"description\": \"\"}"}"#;
        assert_eq!(reason(title.as_bytes()), "Not Found");
        let object = r#"{"error_message": {"faultstring": "x"}}"#;
        assert_eq!(reason(object.as_bytes()), "x");
        let keystone = r#"{"error": {"code": 401, "message": "The request requires authentication.", "title": "Unauthorized"}}"#;
        assert_eq!(reason(keystone.as_bytes()), "The request requires authentication.");
        assert_eq!(reason(br#"{"error_message": "plain words"}"#), "plain words");
        for nothing in
            [&b""[..], b"<html>", b"[]", b"{\"error_message\": null}", b"{\"error_message\": \"\"}"]
        {
            assert_eq!(reason(nothing), "the server gives no reason");
        }
    }

    #[test]
    fn hints_name_the_object_of_the_request() {
        let hint = |request: &str, status, reason: &str| {
            let (request, reason) = (request.to_owned(), reason.to_owned());
            IronicError::Refused { request, status, reason }.hint().unwrap().into_owned()
        };
        let not_found = hint("GET /v1/volume/targets/7", 404, "no");
        assert_eq!(not_found, "see what exists: `monopile baremetal volume target list`");
        let busy = "The requested action \"volume target update\" can not be performed on node \"n1\" while";
        let hint_of_busy_node = hint("PATCH /v1/volume/targets/7", 400, busy);
        assert!(hint_of_busy_node.contains("`monopile baremetal node power off n1`"), "{hint_of_busy_node}");
        let wrong_state = "The requested action \"active\" can not be performed on node \"n1\" while";
        let hint_of_node = hint("PUT /v1/nodes/metal/states/provision", 400, wrong_state);
        assert!(hint_of_node.contains("`monopile baremetal node show metal`"), "{hint_of_node}");
    }

    #[test]
    fn refusals_are_classified_by_their_reason() {
        let refusal = |status, reason: &str| {
            let (request, reason) = (String::new(), reason.to_owned());
            IronicError::Refused { request, status, reason }.refusal().unwrap()
        };
        for (status, words, expected) in [
            (
                409,
                "Node 1 is locked by host ci, please retry after the current operation is completed.",
                Refusal::Locked,
            ),
            (
                409,
                "A volume connector with type iqn and connector ID iqn.x already exists.",
                Refusal::ConnectorExists,
            ),
            (
                409,
                "A volume target with boot index '0' for the same node already exists.",
                Refusal::BootIndexTaken,
            ),
            (409, "A volume target with UUID 1 already exists.", Refusal::UuidTaken),
            (
                400,
                "The requested action \"volume target update\" can not be performed on node \"1\" while it \
                    is in state \"power on\".",
                Refusal::NotPoweredOff,
            ),
            (
                400,
                "The requested action \"active\" can not be performed on node \"1\" while it is in state \
                    \"enroll\".",
                Refusal::WrongState,
            ),
            (400, "Invalid input for field/attribute node_uuid. Value: '1'. ", Refusal::NoSuchNode),
            (400, "Couldn't apply patch. Reason: can't remove a non-existent object 'x'", Refusal::NoSuchKey),
            (409, "something else", Refusal::Other),
        ] {
            assert_eq!(refusal(status, words), expected, "{words}");
        }
    }
}
