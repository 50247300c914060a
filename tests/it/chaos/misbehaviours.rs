//! The misbehaviours of the CPI. Each is a reaction of the scripted CPI at chosen methods.

use serde_json::json;

use crate::support::hello::Hello;
use crate::support::scripted::{Interruption, Reaction, UNSCRIPTED_VARIABLE};

/// The methods that create resources.
const CREATES: [&str; 4] = ["create_stemcell", "create_vm", "create_disk", "snapshot_disk"];
/// The methods that delete resources.
const DELETES: [&str; 4] = ["delete_stemcell", "delete_vm", "delete_disk", "delete_snapshot"];
/// Other methods at which a CPI misbehaves as at a change. The methods for metadata are not among them, so
/// only misbehaviours at [`AffectedMethods::Any`] happen there. `schedule.rs` never chooses a method that
/// resizes.
const CHANGES: [&str; 3] = ["attach_disk", "detach_disk", "reboot_vm"];
/// The methods that return whether a resource exists.
const PRESENCE_QUERIES: [&str; 2] = ["has_vm", "has_disk"];
/// The error type of a general failure.
const CLOUD_ERROR: &str = "Bosh::Clouds::CloudError";

/// The methods at which a CPI can misbehave in one way.
#[derive(Clone, Copy)]
enum AffectedMethods {
    /// All methods.
    Any,
    /// Methods that change something.
    Changes,
    /// Methods that create.
    Creates,
    /// Methods that delete.
    Deletes,
    /// `has_vm` and `has_disk`.
    PresenceQueries,
    /// `get_disks`.
    GetDisks,
}

/// A way in which a CPI misbehaves.
pub(super) struct Misbehaviour {
    /// Its name, as in the table at the top of `mod.rs`.
    pub name: &'static str,
    affected_methods: AffectedMethods,
    reaction: fn(&str) -> Reaction,
}

impl Misbehaviour {
    /// Returns true if the CPI can misbehave in this way at this method.
    pub(super) fn fits(&self, method: &str) -> bool {
        match self.affected_methods {
            AffectedMethods::Any => true,
            AffectedMethods::Changes => [&CREATES[..], &DELETES, &CHANGES].concat().contains(&method),
            AffectedMethods::Creates => CREATES.contains(&method),
            AffectedMethods::Deletes => DELETES.contains(&method),
            AffectedMethods::PresenceQueries => PRESENCE_QUERIES.contains(&method),
            AffectedMethods::GetDisks => method == "get_disks",
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
    pub(super) fn pretends_to_delete(&self) -> bool {
        self.name == PRETENDS_TO_DELETE
    }
}

const HANGS: &str = "hangs";
const PRETENDS_TO_DELETE: &str = "pretends to delete";

/// Returns a shell command that prints this text instead of the CPI's answer.
fn print_command(answer: &str) -> String {
    format!("cat >/dev/null; printf '%s' '{answer}'")
}

/// Returns a reaction that makes the call, and then answers with this text.
fn answer_after_effect(answer: &str) -> Reaction {
    Reaction::After(print_command(answer))
}

/// Returns a reaction that makes the call, and then answers with an error.
fn error_after_effect(kind: &str, ok_to_retry: bool) -> Reaction {
    let error = json!({"type": kind, "message": "timed out", "ok_to_retry": ok_to_retry});
    answer_after_effect(&json!({"result": null, "error": error, "log": ""}).to_string())
}

/// Returns a reaction that answers with this result without making the call.
fn answer_without_effect(result: serde_json::Value) -> Reaction {
    Reaction::Instead(print_command(&json!({"result": result, "error": null, "log": ""}).to_string()))
}

/// Returns a reaction that answers with the CID of a resource that does not exist.
fn answer_invented_cid(method: &str) -> Reaction {
    let kind = if method == "snapshot_disk" { "snapshot" } else { method.trim_start_matches("create_") };
    let cid = format!("{kind}-invented");
    answer_without_effect(if method == "create_vm" { json!([cid, {}]) } else { json!(cid) })
}

/// Returns a reaction that answers with an error at once, and makes the call in the background.
fn error_before_effect(method: &str) -> Reaction {
    let error = Hello::error(CLOUD_ERROR, &format!("{method}: no answer from the cloud in time"));
    Reaction::Instead(format!(
        "request=$(cat); (sleep 0.3; printf '%s' \"$request\" | {UNSCRIPTED_VARIABLE}=1 \
         \"$SCRIPTED_CPI/scripted\") >/dev/null 2>&1 & printf '%s' '{error}'"
    ))
}

/// Returns a way to misbehave at all methods.
const fn at_any(name: &'static str, reaction: fn(&str) -> Reaction) -> Misbehaviour {
    Misbehaviour { name, affected_methods: AffectedMethods::Any, reaction }
}

/// Returns a way to misbehave at methods that change something.
const fn at_changes(name: &'static str, reaction: fn(&str) -> Reaction) -> Misbehaviour {
    Misbehaviour { name, affected_methods: AffectedMethods::Changes, reaction }
}

/// The misbehaviours, in the order of the table at the top of `mod.rs`.
pub(super) const MISBEHAVIOURS: [Misbehaviour; 25] = [
    at_any("dies before the effect", |_| Reaction::Interrupt(Interruption::DieBefore)),
    at_changes("dies during the effect", |_| Reaction::Interrupt(Interruption::DieDuring)),
    at_any("dies after the effect", |_| Reaction::Interrupt(Interruption::DieAfter)),
    at_any("answers nothing", |_| answer_after_effect("")),
    at_any("answers half", |_| Reaction::After("head -c 15".to_owned())),
    at_any("answers twice", |_| Reaction::After("a=$(cat); printf '%s%s' \"$a\" \"$a\"".to_owned())),
    at_any("answers with duplicate keys", |_| {
        Reaction::After("sed '1s/{/{\"result\":\"other\",/'".to_owned())
    }),
    at_any("answers in another encoding", |_| {
        Reaction::After("cat >/dev/null; printf '{\"result\":\"\\xff\\xfe\",\"error\":null}'".to_owned())
    }),
    at_any("logs into the answer", |_| Reaction::After("echo 'W, [1] deprecated option'; cat".to_owned())),
    at_any("answers junk", |_| answer_after_effect("<html><body><h1>502 Bad Gateway</h1></body></html>")),
    at_any("answers a result and an error", |_| {
        let error = json!({"type": CLOUD_ERROR, "message": "both", "ok_to_retry": false});
        Reaction::After(format!("sed 's/\"error\": *null/\"error\":{error}/'"))
    }),
    Misbehaviour {
        name: "answers with an empty CID",
        affected_methods: AffectedMethods::Creates,
        reaction: |_| answer_after_effect("{\"result\":\"\",\"error\":null,\"log\":\"\"}"),
    },
    Misbehaviour {
        name: "invents a CID",
        affected_methods: AffectedMethods::Creates,
        reaction: answer_invented_cid,
    },
    at_any("fails after the effect", |_| error_after_effect(CLOUD_ERROR, false)),
    at_changes("fails after the effect and wants a retry", |_| error_after_effect(CLOUD_ERROR, true)),
    at_any("denies the method after the effect", |_| {
        error_after_effect("Bosh::Clouds::NotImplemented", false)
    }),
    at_any("fails without the effect", |method| Reaction::Fail {
        error_type: CLOUD_ERROR.to_owned(),
        message: format!("{method}: quota exceeded"),
        ok_to_retry: false,
    }),
    at_any("leaves a child with the answer", |_| Reaction::After("sleep 2 & cat".to_owned())),
    at_changes("fails, and has the effect later", error_before_effect),
    at_changes(HANGS, |_| Reaction::Interrupt(Interruption::Hold)),
    Misbehaviour {
        name: "denies what exists",
        affected_methods: AffectedMethods::PresenceQueries,
        reaction: |_| answer_without_effect(json!(false)),
    },
    Misbehaviour {
        name: "knows no attached disks",
        affected_methods: AffectedMethods::GetDisks,
        reaction: |_| answer_without_effect(json!([])),
    },
    Misbehaviour {
        name: "claims that everything exists",
        affected_methods: AffectedMethods::PresenceQueries,
        reaction: |_| answer_without_effect(json!(true)),
    },
    Misbehaviour {
        name: PRETENDS_TO_DELETE,
        affected_methods: AffectedMethods::Deletes,
        reaction: |_| answer_without_effect(json!(null)),
    },
    at_any("makes noise and exits with 3", |_| {
        Reaction::After("head -c 300000 /dev/urandom >&2; cat; exit 3".to_owned())
    }),
];
