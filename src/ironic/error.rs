//! Why Ironic did not do as asked.

use serde_json::Value;

use super::version::Microversion;
use base::Error;

/// A failed exchange with Ironic, or with the Keystone in front of it.
#[derive(Debug, thiserror::Error)]
pub enum IronicError {
    /// There is nobody there, or the way is blocked.
    #[error("{address} cannot be reached: {problem}")]
    Unreachable {
        /// Scheme, host and port.
        address: String,
        /// The failure, in words.
        problem: String,
    },
    /// Whoever answers cannot prove to be the server.
    #[error("{address} is not trusted: {problem}")]
    Untrusted {
        /// Scheme, host and port.
        address: String,
        /// What TLS says.
        problem: String,
    },
    /// User and password, or the token, are not taken.
    #[error("{address} refuses the credentials: {reason}")]
    Unauthorized {
        /// Scheme, host and port.
        address: String,
        /// The server's words.
        reason: String,
    },
    /// The catalogue has no Ironic.
    #[error("Keystone's catalogue has no '{interface}' endpoint of a service 'baremetal'{region}")]
    NotInCatalogue {
        /// Which interface was looked for.
        interface: String,
        /// ` in region 'x'`, or nothing.
        region: String,
    },
    /// The server is older than what is asked of it.
    #[error("{what} need version {needed} of Ironic's API; {address} is at {used}")]
    TooOld {
        /// What was to be used.
        what: &'static str,
        /// The version that has it.
        needed: Microversion,
        /// The version in use.
        used: Microversion,
        /// Scheme, host and port.
        address: String,
    },
    /// The version asked for is not served.
    #[error("{address} does not serve version {asked} of Ironic's API, but {lowest} to {highest}")]
    NotServed {
        /// The version that was asked for.
        asked: Microversion,
        /// The lowest there is.
        lowest: Microversion,
        /// The highest there is.
        highest: Microversion,
        /// Scheme, host and port.
        address: String,
    },
    /// Ironic said no.
    #[error("{request} was refused ({status}): {reason}")]
    Refused {
        /// Method and path.
        request: String,
        /// The HTTP status.
        status: u16,
        /// Ironic's words.
        reason: String,
    },
    /// The answer makes no sense.
    #[error("the answer to {request} makes no sense: {problem}")]
    Protocol {
        /// Method and path.
        request: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A value that must not be written.
    #[error("{what} {problem}")]
    BadValue {
        /// Where it stands.
        what: String,
        /// What is wrong with it, never the value.
        problem: &'static str,
    },
    /// A node did not get where it was sent.
    #[error("node {node} {problem}")]
    Node {
        /// Name or UUID.
        node: String,
        /// What it does instead.
        problem: String,
    },
}

/// What a refusal is about, as far as it can be told: the status does not tell, so the words must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such thing.
    NotFound,
    /// The node is locked by another request; the one refusal that passes.
    Locked,
    /// Volumes of this node cannot be changed before it is off.
    NotPoweredOff,
    /// A connector of this type and id exists, at whichever node.
    ConnectorExists,
    /// The node has a target with this boot index.
    BootIndexTaken,
    /// The UUID that was asked for is taken.
    UuidTaken,
    /// The node to belong to does not exist.
    NoSuchNode,
    /// A key that is to be removed is not there.
    NoSuchKey,
    /// Whoever asks may not.
    Forbidden,
    /// Something else.
    Other,
}

impl IronicError {
    /// What a refusal is about.
    pub fn refusal(&self) -> Option<Refusal> {
        let IronicError::Refused { status, reason, .. } = self else { return None };
        let says = |words: &str| reason.contains(words);
        Some(match status {
            403 => Refusal::Forbidden,
            404 => Refusal::NotFound,
            409 if says("is locked by host") => Refusal::Locked,
            409 if says("volume connector with type") => Refusal::ConnectorExists,
            409 if says("with boot index") => Refusal::BootIndexTaken,
            409 if says("with UUID") => Refusal::UuidTaken,
            400 if says("can not be performed on node") && says("\"volume ") => Refusal::NotPoweredOff,
            400 if says("node_uuid") => Refusal::NoSuchNode,
            400 if says("can't remove a non-existent object") => Refusal::NoSuchKey,
            _ => Refusal::Other,
        })
    }

    /// Whether there is no such thing.
    pub fn is_not_found(&self) -> bool {
        self.refusal() == Some(Refusal::NotFound)
    }

    /// Whether it may pass by itself: the server is not there or fails, or another request has the node. What was asked
    /// may have been done all the same.
    pub fn is_transient(&self) -> bool {
        match self {
            IronicError::Unreachable { .. } => true,
            IronicError::Refused { status, .. } => {
                matches!(status, 429 | 500..=599) || self.refusal() == Some(Refusal::Locked)
            }
            _ => false,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            IronicError::Unreachable { .. } => {
                "check the endpoint, that Ironic runs there, and that no firewall is in between"
            }
            IronicError::Untrusted { .. } => {
                "give the authority that signed the server's certificate (`--os-cacert`, `cacert`); the certificate must name the host of the endpoint"
            }
            IronicError::Unauthorized { .. } => {
                "check user, password and, with Keystone, project and domains"
            }
            IronicError::NotInCatalogue { .. } => {
                "check region and interface, or give Ironic's URL (`--os-endpoint`, `endpoint`)"
            }
            IronicError::TooOld { .. } => {
                "if the server knows newer versions, ask for one (`--os-baremetal-api-version`, `api_version`); else it must be updated"
            }
            IronicError::NotServed { .. } => {
                "leave the version out, and the newest that both sides know is used"
            }
            IronicError::BadValue { .. } => "give the value itself, in one line",
            IronicError::Node { .. } => "`monopile baremetal node show` tells its state and last error",
            IronicError::Protocol { .. } => return None,
            IronicError::Refused { .. } => match self.refusal()? {
                Refusal::NotFound => {
                    "the lists (`monopile baremetal node list`, `… volume target list`, `… volume connector list`) show what there is"
                }
                Refusal::Locked => {
                    "another request or a deployment is at work on the node; try again when it is done"
                }
                Refusal::NotPoweredOff => {
                    "power the node off first; connectors and targets of a node can be changed only then (a new node's power state must be known: `manage` it, or power it off once)"
                }
                Refusal::ConnectorExists => {
                    "an id stands for one initiator of all nodes: `monopile baremetal volume connector list --long` shows whose it is; delete that connector or correct the id"
                }
                Refusal::BootIndexTaken => {
                    "choose the next free boot index; `monopile baremetal volume target list --node NODE` shows those in use"
                }
                Refusal::UuidTaken => "leave `--uuid` out, and a new one is made",
                Refusal::NoSuchNode => "`monopile baremetal node list` shows the nodes there are",
                Refusal::NoSuchKey => {
                    "nothing was changed; `show` of the same connector or target tells the keys it has"
                }
                Refusal::Forbidden => {
                    "the user lacks a role for that, or asks in a project (or the system) where it has none; Ironic's log says which rule it was"
                }
                Refusal::Other if self.is_transient() => {
                    "Ironic, or what stands before it, failed; its log says why. Try again after a while"
                }
                Refusal::Other => return None,
            },
        })
    }
}

impl From<IronicError> for Error {
    fn from(error: IronicError) -> Self {
        let text = error.to_string();
        let converted = match &error {
            IronicError::BadValue { .. } => Error::invalid(text),
            _ => Error::environment(text),
        };
        match error.hint() {
            Some(hint) => converted.with_hint(hint),
            None => converted,
        }
    }
}

/// The reason in an error's body. Ironic writes `{"error_message": "…"}` where the string is JSON again: with
/// `faultstring`, or with `title` and `description`. Old versions and proxies write other things.
pub(super) fn reason(status: u16, body: &[u8]) -> String {
    let outer: Option<Value> = serde_json::from_slice(body).ok();
    let inner = outer.as_ref().and_then(|outer| outer.get("error_message").or_else(|| outer.get("error")));
    let decoded = match inner {
        Some(Value::String(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        Some(other) => other.clone(),
        None => Value::Null,
    };
    let text =
        |key: &str| decoded.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let words = text("faultstring")
        .or_else(|| text("description"))
        .or_else(|| text("message"))
        .or_else(|| text("title"))
        .or_else(|| decoded.as_str());
    let words = words.map(|words| words.trim().chars().take(LONGEST_REASON).collect::<String>());
    words
        .filter(|words| !words.is_empty())
        .unwrap_or_else(|| format!("no reason given, HTTP status {status}"))
}

/// No reason is longer, in characters; what is is a page of a proxy, or a trace.
const LONGEST_REASON: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_of_an_error_are_decoded() {
        let fault = r#"{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"Node nope could not be found.\", \"debuginfo\": null}"}"#;
        assert_eq!(reason(404, fault.as_bytes()), "Node nope could not be found.");
        let titled =
            r#"{"error_message": "{\"code\": 404, \"title\": \"Not Found\", \"description\": \"\"}"}"#;
        assert_eq!(reason(404, titled.as_bytes()), "Not Found");
        let object = r#"{"error_message": {"faultstring": "x"}}"#;
        assert_eq!(reason(400, object.as_bytes()), "x");
        let keystone = r#"{"error": {"code": 401, "message": "The request requires authentication.", "title": "Unauthorized"}}"#;
        assert_eq!(reason(401, keystone.as_bytes()), "The request requires authentication.");
        assert_eq!(reason(400, br#"{"error_message": "plain words"}"#), "plain words");
        for nothing in
            [&b""[..], b"<html>", b"[]", b"{\"error_message\": null}", b"{\"error_message\": \"\"}"]
        {
            assert_eq!(reason(502, nothing), "no reason given, HTTP status 502");
        }
    }

    #[test]
    fn refusals_are_told_apart_by_their_words() {
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
                "The requested action \"volume target update\" can not be performed on node \"1\" while it is in state \"power on\".",
                Refusal::NotPoweredOff,
            ),
            (
                400,
                "The requested action \"active\" can not be performed on node \"1\" while it is in state \"enroll\".",
                Refusal::Other,
            ),
            (400, "Invalid input for field/attribute node_uuid. Value: '1'. ", Refusal::NoSuchNode),
            (400, "Couldn't apply patch. Reason: can't remove a non-existent object 'x'", Refusal::NoSuchKey),
            (409, "something else", Refusal::Other),
        ] {
            assert_eq!(refusal(status, words), expected, "{words}");
        }
    }
}
