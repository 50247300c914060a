//! The errors of exchanges with Ironic and Keystone, and the hints that go with them.

use serde_json::Value;

use super::version::Microversion;
use base::Error;

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
    #[error("{request} was refused ({status}): {reason}")]
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
    /// Another request has locked the node. This is the only temporary refusal.
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
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            IronicError::Unreachable { .. } => {
                "check the endpoint, that Ironic runs there, and that no firewall is in between"
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
            IronicError::Node { .. } => "`monopile baremetal node show` shows its state and last error",
            IronicError::Protocol { .. } => return None,
            IronicError::Refused { .. } => match self.refusal()? {
                Refusal::NotFound => {
                    "see what exists: `monopile baremetal node list`, `monopile baremetal volume target \
                     list` or `monopile baremetal volume connector list`"
                }
                Refusal::Locked => {
                    "another request or a deployment is working on the node; try again when it is done"
                }
                Refusal::NotPoweredOff => {
                    "power the node off first, with `monopile baremetal node power off NODE` or the option \
                        --power-off: connectors and targets can be changed only then (a new node's power \
                        state is unknown until it was powered off once)"
                }
                Refusal::WrongState => {
                    "`monopile baremetal node show NODE` shows the state; from enrolment to a machine that \
                        can be deployed: `node manage`, then `node provide`"
                }
                Refusal::ConnectorExists => {
                    "an id may exist only once among all nodes: `monopile baremetal volume connector list \
                        --long` shows its node; delete that connector or correct the id"
                }
                Refusal::BootIndexTaken => {
                    "choose the next free boot index; `monopile baremetal volume target list --node NODE` \
                        shows those in use"
                }
                Refusal::UuidTaken => "leave `--uuid` out to let Ironic choose one",
                Refusal::NoSuchNode => "`monopile baremetal node list` shows the nodes that exist",
                Refusal::NoSuchKey => "`show` of the same connector or target lists the keys it has",
                Refusal::Forbidden => {
                    "the user has no role for this request in the chosen project or system scope; Ironic's \
                        log names the rule"
                }
                Refusal::Other if self.is_transient() => {
                    "Ironic, or a proxy in front of it, failed; its log says why. Try again later"
                }
                Refusal::Other => return None,
            },
        })
    }
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
