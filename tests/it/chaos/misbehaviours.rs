//! The misbehaviours of the CPI. Each is a reaction of the scripted CPI at chosen methods.

use serde_json::json;

use crate::support::hello::Hello;
use crate::support::scripted::{Interruption, Reaction, UNSCRIPTED};

/// The methods that create resources.
const CREATES: [&str; 4] = ["create_stemcell", "create_vm", "create_disk", "snapshot_disk"];
/// The methods that delete resources.
const DELETES: [&str; 4] = ["delete_stemcell", "delete_vm", "delete_disk", "delete_snapshot"];
/// Other methods that change something.
const CHANGES: [&str; 3] = ["attach_disk", "detach_disk", "reboot_vm"];
/// The methods that ask whether a resource exists.
const ASKS: [&str; 2] = ["has_vm", "has_disk"];
/// The error type of most failures.
const FAILED: &str = "Bosh::Clouds::CloudError";

/// The methods at which a CPI misbehaves in some way.
#[derive(Clone, Copy)]
enum At {
    /// All methods.
    Any,
    /// Methods that change something.
    Changes,
    /// Methods that create.
    Creates,
    /// Methods that delete.
    Deletes,
    /// `has_vm` and `has_disk`.
    Asks,
    /// `get_disks`.
    Disks,
}

/// A way in which a CPI misbehaves.
pub(super) struct Misbehaviour {
    /// Its name, as in the table of the module documentation.
    pub name: &'static str,
    at: At,
    reaction: fn(&str) -> Reaction,
}

impl Misbehaviour {
    /// Returns true if the CPI can misbehave in this way at this method.
    pub(super) fn fits(&self, method: &str) -> bool {
        match self.at {
            At::Any => true,
            At::Changes => [&CREATES[..], &DELETES, &CHANGES].concat().contains(&method),
            At::Creates => CREATES.contains(&method),
            At::Deletes => DELETES.contains(&method),
            At::Asks => ASKS.contains(&method),
            At::Disks => method == "get_disks",
        }
    }

    /// Returns the reaction at this method.
    pub(super) fn reaction(&self, method: &str) -> Reaction {
        (self.reaction)(method)
    }

    /// Returns true if the call hangs.
    pub(super) fn hangs(&self) -> bool {
        self.name == HANGS
    }

    /// Returns true if the CPI claims deletions that it does not make.
    pub(super) fn pretends(&self) -> bool {
        self.name == PRETENDS
    }
}

const HANGS: &str = "hangs";
const PRETENDS: &str = "pretends to delete";

/// Returns a command that replaces the answer with this text.
fn text(answer: &str) -> String {
    format!("cat >/dev/null; printf '%s' '{answer}'")
}

/// Returns a reaction that makes the call and answers with this text.
fn after(answer: &str) -> Reaction {
    Reaction::After(text(answer))
}

/// Returns a reaction that makes the call and answers with an error.
fn error_after(kind: &str, ok_to_retry: bool) -> Reaction {
    let error = json!({"type": kind, "message": "timed out", "ok_to_retry": ok_to_retry});
    after(&json!({"result": null, "error": error, "log": ""}).to_string())
}

/// Returns a reaction that answers with this result without making the call.
fn instead(result: serde_json::Value) -> Reaction {
    Reaction::Instead(text(&json!({"result": result, "error": null, "log": ""}).to_string()))
}

/// Returns the answer of a call that invents the resource it created.
fn invented(method: &str) -> Reaction {
    let kind = if method == "snapshot_disk" { "snapshot" } else { method.trim_start_matches("create_") };
    let cid = format!("{kind}-invented");
    instead(if method == "create_vm" { json!([cid, {}]) } else { json!(cid) })
}

/// Returns a reaction that answers with an error, and has the effect later.
fn later(method: &str) -> Reaction {
    let error = Hello::error(FAILED, &format!("{method}: no answer from the cloud in time"));
    Reaction::Instead(format!(
        "request=$(cat); (sleep 0.3; printf '%s' \"$request\" | {UNSCRIPTED}=1 \"$SCRIPTED_CPI/scripted\") \
         >/dev/null 2>&1 & printf '%s' '{error}'"
    ))
}

/// Creates a misbehaviour of any method.
const fn any(name: &'static str, reaction: fn(&str) -> Reaction) -> Misbehaviour {
    Misbehaviour { name, at: At::Any, reaction }
}

/// Creates a misbehaviour of methods that change something.
const fn changes(name: &'static str, reaction: fn(&str) -> Reaction) -> Misbehaviour {
    Misbehaviour { name, at: At::Changes, reaction }
}

/// The misbehaviours, in the order of the table in the module documentation.
pub(super) const MISBEHAVIOURS: [Misbehaviour; 25] = [
    any("dies before the effect", |_| Reaction::Interrupt(Interruption::DieBefore)),
    changes("dies during the effect", |_| Reaction::Interrupt(Interruption::DieDuring)),
    any("dies after the effect", |_| Reaction::Interrupt(Interruption::DieAfter)),
    any("answers nothing", |_| after("")),
    any("answers half", |_| Reaction::After("head -c 15".to_owned())),
    any("answers twice", |_| Reaction::After("a=$(cat); printf '%s%s' \"$a\" \"$a\"".to_owned())),
    any("answers with duplicate keys", |_| Reaction::After("sed '1s/{/{\"result\":\"other\",/'".to_owned())),
    any("answers in another encoding", |_| {
        Reaction::After("cat >/dev/null; printf '{\"result\":\"\\xff\\xfe\",\"error\":null}'".to_owned())
    }),
    any("logs into the answer", |_| Reaction::After("echo 'W, [1] deprecated option'; cat".to_owned())),
    any("answers junk", |_| after("<html><body><h1>502 Bad Gateway</h1></body></html>")),
    any("answers a result and an error", |_| {
        let error = json!({"type": FAILED, "message": "both", "ok_to_retry": false});
        Reaction::After(format!("sed 's/\"error\": *null/\"error\":{error}/'"))
    }),
    Misbehaviour {
        name: "answers with an empty CID",
        at: At::Creates,
        reaction: |_| after("{\"result\":\"\",\"error\":null,\"log\":\"\"}"),
    },
    Misbehaviour { name: "invents a CID", at: At::Creates, reaction: invented },
    any("fails after the effect", |_| error_after(FAILED, false)),
    changes("fails after the effect and wants a retry", |_| error_after(FAILED, true)),
    any("denies the method after the effect", |_| error_after("Bosh::Clouds::NotImplemented", false)),
    any("fails without the effect", |method| Reaction::Fail {
        error_type: FAILED.to_owned(),
        message: format!("{method}: quota exceeded"),
        ok_to_retry: false,
    }),
    any("leaves a child with the answer", |_| Reaction::After("sleep 2 & cat".to_owned())),
    changes("fails, and has the effect later", later),
    changes(HANGS, |_| Reaction::Interrupt(Interruption::Hold)),
    Misbehaviour { name: "denies what exists", at: At::Asks, reaction: |_| instead(json!(false)) },
    Misbehaviour { name: "knows no attached disks", at: At::Disks, reaction: |_| instead(json!([])) },
    Misbehaviour { name: "claims that everything exists", at: At::Asks, reaction: |_| instead(json!(true)) },
    Misbehaviour { name: PRETENDS, at: At::Deletes, reaction: |_| instead(json!(null)) },
    any("makes noise and exits with 3", |_| {
        Reaction::After("head -c 300000 /dev/urandom >&2; cat; exit 3".to_owned())
    }),
];
