//! Taking things away: what a CPI's answer to a deletion means for the record.
//!
//! A record goes only when the thing is known to be gone: the CPI says that it deleted it, or `has_vm` or
//! `has_disk` says that it is not there. Where nobody can be asked, a "not found" is written on the record, which
//! stays; when a later run is told the same by the CPI's own error type, that is believed. Whatever could not be
//! deleted stays on record and is tried again by the next run.

use serde_json::json;

use super::cloud::Cloud;
use super::connection::Presence;
use super::effect::Effect;
use crate::cpi::{CpiError, CpiErrorKind};
use crate::state::{Change, Kind, Undeleted};
use crate::ui::Stage;
use crate::{Error, Result};

/// Deletes something and shows it as a stage. Returns why it is still there, when it is, for the caller to judge: a
/// deploy that did everything else is none the worse for it.
pub(super) fn delete(
    cloud: &mut Cloud<'_>,
    what: Kind,
    cid: &str,
    why: &str,
    stage: &Stage,
) -> Result<Option<Error>> {
    let deleting = stage.reporter().stage(format!("Deleting {what} '{cid}'"));
    let effect = match what {
        Kind::Vm => Effect::DeleteVm { cid: cid.to_owned() },
        Kind::Disk => Effect::DeleteDisk { cid: cid.to_owned() },
        Kind::Stemcell => Effect::DeleteStemcell { cid: cid.to_owned() },
    };
    let error = match cloud.attempt(&deleting, why, &effect, vec![json!(cid)])? {
        Ok(_) => {
            deleting.finish();
            return Ok(None);
        }
        Err(error @ (CpiError::Answered { .. } | CpiError::NoAnswer { .. })) => error,
        Err(error) => return Err(error.into()),
    };
    let not_found = not_found(what, &error);
    match cloud.presence(&deleting, what, cid)? {
        Presence::Gone => {
            record_gone(cloud, &effect)?;
            deleting.skip("it does not exist any more");
            Ok(None)
        }
        Presence::Unknown(_) if not_found == Some(NotFound::Typed) && told_before(cloud, what, cid) => {
            record_gone(cloud, &effect)?;
            deleting.skip("the CPI does not find it, as before: it does not exist any more");
            Ok(None)
        }
        Presence::Unknown(reason) if not_found.is_some() => {
            mark(cloud, what, cid, &error, true)?;
            stage.reporter().warn(format!(
                "the CPI does not find {what} '{cid}', and that cannot be confirmed: {reason}. It stays on record, \
                 and the next run tries again; `monopile state forget` drops it"
            ));
            deleting.skip("the CPI does not find it; it stays on record");
            Ok(None)
        }
        Presence::There | Presence::Unknown(_) => {
            mark(cloud, what, cid, &error, false)?;
            Ok(Some(error.into()))
        }
    }
}

fn record_gone(cloud: &mut Cloud<'_>, effect: &Effect) -> Result<()> {
    effect.deleted().into_iter().try_for_each(|change| cloud.commit(change))
}

/// Whether the CPI said in an earlier run that it does not find it.
fn told_before(cloud: &Cloud<'_>, what: Kind, cid: &str) -> bool {
    cloud.state().undeleted(what, cid).is_some_and(|mark| mark.not_found)
}

fn mark(cloud: &mut Cloud<'_>, what: Kind, cid: &str, error: &CpiError, not_found: bool) -> Result<()> {
    let said = cloud.environment().redactor.apply(&error.to_string()).into_owned();
    let since = match cloud.state().undeleted(what, cid) {
        Some(before) => before.since.clone(),
        None => crate::notation::now(),
    };
    cloud.commit(Change::DeletionFailed(Undeleted { what, cid: cid.to_owned(), said, since, not_found }))
}

/// How a CPI says that what it was to delete does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotFound {
    /// By the error type that is meant for it.
    Typed,
    /// In words.
    InWords,
}

fn not_found(what: Kind, error: &CpiError) -> Option<NotFound> {
    let CpiError::Answered { kind, message, .. } = error else { return None };
    match (what, kind) {
        (Kind::Vm, CpiErrorKind::VmNotFound)
        | (Kind::Disk, CpiErrorKind::DiskNotFound)
        | (Kind::Stemcell, CpiErrorKind::StemcellNotFound) => Some(NotFound::Typed),
        (_, CpiErrorKind::NotImplemented | CpiErrorKind::NotSupported) => None,
        _ => {
            const WORDS: [&str; 7] =
                ["not found", "notfound", "not exist", "n't exist", "no such", "could not find", "404"];
            let message = message.to_lowercase();
            WORDS.iter().any(|words| message.contains(words)).then_some(NotFound::InWords)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpi::Method;

    fn answered(kind: CpiErrorKind, message: &str) -> CpiError {
        let (request_id, message) = (String::new(), message.to_owned());
        CpiError::Answered { method: Method::DeleteVm, request_id, kind, message, ok_to_retry: false }
    }

    #[test]
    fn not_found_in_types_and_in_words() {
        let unknown = |message: &str| answered(CpiErrorKind::Unknown("Fog::Error".to_owned()), message);
        for (what, error, expected) in [
            (Kind::Vm, answered(CpiErrorKind::VmNotFound, "x"), Some(NotFound::Typed)),
            (Kind::Disk, answered(CpiErrorKind::VmNotFound, "x"), None),
            (Kind::Stemcell, answered(CpiErrorKind::StemcellNotFound, "x"), Some(NotFound::Typed)),
            (Kind::Vm, unknown("Server `vm-1' Not Found"), Some(NotFound::InWords)),
            (Kind::Disk, unknown("The volume doesn't exist."), Some(NotFound::InWords)),
            (Kind::Disk, unknown("quota exceeded"), None),
            (Kind::Vm, answered(CpiErrorKind::NotImplemented, "method not found"), None),
            (Kind::Vm, CpiError::no_answer(Method::DeleteVm, "r", "not found"), None),
        ] {
            assert_eq!(not_found(what, &error), expected, "{what}: {error}");
        }
    }
}
