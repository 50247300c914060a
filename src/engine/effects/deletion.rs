//! Deletes resources, and decides by the CPI's answer whether to forget the record.
//!
//! A record is forgotten only when the resource is known to be gone; otherwise the next run tries again. One
//! of these is proof:
//!
//! - The CPI deleted it.
//! - `has_vm` or `has_disk` denies that it exists.
//! - The CPI has no such method, an earlier run got a "not found", and this run got the CPI's error type for
//!   a missing resource (such as `DiskNotFound`).
//!
//! A denial by a CPI whose properties have changed since is no proof: it probably looks in another account or
//! region, where `delete_disk` of an unknown disk may succeed. For stemcells and snapshots, which no CPI can
//! be asked about, a "not found" of such a CPI keeps the record, and its success comes with a warning.
//!
//! With several CPIs, if the CPI on record does not find a disk, a snapshot or an earlier VM, every other
//! CPI is asked in turn.

use serde_json::{Map, json};

use super::contradiction::{hint_to_ask_again, probable_cause};
use super::effect::Effect;
use super::executor::Executor;
use super::failed_call::forget_command_of;
use crate::cpi::{self, CpiError, CpiErrorKind, Method};
use crate::cpi_set::{Presence, with_cpi_context};
use crate::protocol::ResourceKind;
use crate::state::{Change, Resource, UndeletedResource};
use base::events::{Stage, Warning};
use base::{Error, Result};
use manifest::cpi_label;

/// Deletes a resource as a stage of its own. Returns the error if the deletion failed, for the caller to
/// judge: a deploy that did everything else does not fail because of it.
pub(crate) fn delete(
    executor: &mut Executor<'_>,
    resource: &Resource,
    reason: &str,
    stage: &Stage,
) -> Result<Option<Error>> {
    let resource_kind = resource.kind();
    let deleting = stage
        .reporter()
        .begin_timed_stage(format!("delete_{resource_kind}").to_lowercase(), format!("Deleting {resource}"));
    let deletion = Deletion { resource, reason, effect: Effect::deletion_of(resource.clone()) };
    let other_cpis = deletion.other_cpis(executor);
    let changed_properties = executor.find_changed_location_properties(resource.cpi())?;
    if (!other_cpis.is_empty() || !changed_properties.is_empty())
        && executor.ask_presence(&deleting, resource)? == Presence::Gone
    {
        return match deletion.delete_at_other_cpi(executor, &other_cpis, &deleting)? {
            OtherCpiResult::Nowhere if !changed_properties.is_empty() => {
                Ok(Some(deletion.wrong_place_error(executor, &changed_properties)))
            }
            OtherCpiResult::Nowhere => {
                deletion.record_deletion(executor)?;
                deleting.skip("no CPI finds it");
                Ok(None)
            }
            other => deletion.report_result(executor, other, deleting),
        };
    }
    let arguments = vec![json!(resource.cid())];
    let error = match executor.attempt(resource.cpi(), &deleting, reason, &deletion.effect, &arguments)? {
        Ok(_) => {
            let cannot_be_asked_about =
                matches!(resource_kind, ResourceKind::Stemcell | ResourceKind::Snapshot);
            if cannot_be_asked_about && !changed_properties.is_empty() {
                let warning = Warning::new(format!(
                    "these properties of {} have changed since {resource} was created: {}. If the CPI looks \
                     in another account or region now, the {resource_kind} may still exist in the old one",
                    cpi_label(resource.cpi()),
                    changed_properties.join(", ")
                ));
                stage.reporter().warn(warning.with_hint("look for it there, and delete it"));
            }
            match executor.was_denied(resource) {
                // Some CPIs delete a resource that does not exist with success.
                true => deleting.skip("the CPI does not find it"),
                false => deleting.finish(),
            }
            return Ok(None);
        }
        Err(error @ (CpiError::Answered { .. } | CpiError::NoAnswer { .. })) => error,
        Err(error) => return Err(with_cpi_context(resource.cpi(), error)),
    };
    let not_found_form = not_found_form(resource_kind, &error);
    if not_found_form.is_some() && !other_cpis.is_empty() {
        match deletion.delete_at_other_cpi(executor, &other_cpis, &deleting)? {
            OtherCpiResult::Nowhere => {}
            other => return deletion.report_result(executor, other, deleting),
        }
    }
    match executor.ask_presence(&deleting, resource)? {
        Presence::Gone => {
            deletion.record_deletion(executor)?;
            deleting.skip("the CPI does not find it");
            Ok(None)
        }
        Presence::Unknown(_) if not_found_form.is_some() && !changed_properties.is_empty() => {
            deletion.record_undeleted(executor, &error, false)?;
            Ok(Some(deletion.wrong_place_error(executor, &changed_properties)))
        }
        Presence::Unknown(_)
            if not_found_form == Some(NotFound::Typed) && deletion.was_not_found_before(executor) =>
        {
            deletion.record_deletion(executor)?;
            deleting.skip("the CPI does not find it, as in the last run");
            Ok(None)
        }
        Presence::Unknown(doubt) if not_found_form.is_some() => {
            deletion.record_undeleted(executor, &error, true)?;
            let warning = Warning::new(format!(
                "the CPI does not find {resource}, but cannot confirm that it is gone: {doubt}. It stays on \
                 record, and the next run tries again"
            ));
            stage
                .reporter()
                .warn(warning.with_hint(format!("to forget the record: `{}`", forget_command_of(resource))));
            deleting.give_up("the CPI does not find it; it stays on record");
            Ok(None)
        }
        Presence::Exists | Presence::Unknown(_) => {
            deletion.record_undeleted(executor, &error, false)?;
            let forget = forget_command_of(resource);
            let is_faulty_answer = matches!(&error, CpiError::NoAnswer { .. });
            let error = match not_found_form {
                // A CPI that does not know whether it exists was handled before.
                Some(_) => deletion.contradiction_error(&error),
                None => error.into(),
            };
            let error = with_cpi_context(resource.cpi(), error);
            let error = match is_faulty_answer {
                true => error.with_rerun_hint(cpi::FAULTY_ANSWER_HINT),
                false => error,
            };
            Ok(Some(error.with_note(format!("{resource} stays on record")).with_retry_hint().with_hint(
                format!("only if the IaaS does not show it any more, forget its record: `{forget}`"),
            )))
        }
    }
}

/// One deletion of a resource on record.
struct Deletion<'d> {
    resource: &'d Resource,
    reason: &'d str,
    effect: Effect,
}

/// The result of looking for a resource at CPIs other than the one on record.
enum OtherCpiResult {
    /// This CPI deleted it.
    Deleted(String),
    /// No CPI knows it.
    Nowhere,
    /// Deletion failed at this CPI, which could not confirm that it is gone.
    Failed(Option<String>, CpiError),
}

impl Deletion<'_> {
    /// Returns the CPIs to ask if the one on record does not find the resource. The list is empty for
    /// stemcells and for the VM of this environment, whose records are reliable.
    fn other_cpis(&self, executor: &Executor<'_>) -> Vec<Option<String>> {
        let may_be_at_other_cpi = match self.resource {
            Resource::Disk(_) | Resource::Snapshot(_) => true,
            Resource::Vm(vm) => executor.state().vm_handle().as_ref() != Some(vm),
            Resource::Stemcell(_) => false,
        };
        if !may_be_at_other_cpi {
            return Vec::new();
        }
        let mut other_cpis = executor.cpis().other_cpis(self.resource.cpi());
        // If a CPI has its own record for this CID, the CID names another resource there.
        other_cpis.retain(|other| !executor.state().has_on_record(&self.resource.at_cpi(other.as_deref())));
        other_cpis
    }

    /// Deletes the resource at the first other CPI that does not deny it.
    fn delete_at_other_cpi(
        &self,
        executor: &mut Executor<'_>,
        other_cpis: &[Option<String>],
        stage: &Stage,
    ) -> Result<OtherCpiResult> {
        for other in other_cpis {
            let cpi = other.as_deref();
            let presence = executor.ask_presence(stage, &self.resource.at_cpi(cpi))?;
            if presence == Presence::Gone {
                continue;
            }
            stage.log_line(format!("asking {} to delete it", cpi_label(cpi)));
            let arguments = vec![json!(self.resource.cid())];
            match executor.attempt(cpi, stage, self.reason, &self.effect, &arguments)? {
                Ok(_) => return Ok(OtherCpiResult::Deleted(cpi_label(cpi))),
                Err(error) if presence != Presence::Exists && does_not_know(self.resource.kind(), &error) => {
                }
                Err(error @ (CpiError::Answered { .. } | CpiError::NoAnswer { .. })) => {
                    return Ok(OtherCpiResult::Failed(other.clone(), error));
                }
                Err(error) => return Err(with_cpi_context(cpi, error)),
            }
        }
        Ok(OtherCpiResult::Nowhere)
    }

    /// Reports and records the result of a search.
    fn report_result(
        &self,
        executor: &mut Executor<'_>,
        result: OtherCpiResult,
        deleting: Stage,
    ) -> Result<Option<Error>> {
        match result {
            OtherCpiResult::Failed(cpi, error) => {
                self.record_undeleted(executor, &error, false)?;
                Ok(Some(with_cpi_context(cpi.as_deref(), error)))
            }
            OtherCpiResult::Deleted(other_cpi) => {
                deleting.log_line(format!("{other_cpi} had it and deleted it"));
                deleting.finish();
                Ok(None)
            }
            OtherCpiResult::Nowhere => Ok(None),
        }
    }

    /// Returns the error for a resource that a CPI denies whose properties have changed.
    fn wrong_place_error(&self, executor: &Executor<'_>, changed_properties: &[String]) -> Error {
        let (resource, label) = (self.resource, cpi_label(self.resource.cpi()));
        Error::failure(format!("{label} says that {resource} does not exist; it stays on record"))
            .with_note(probable_cause(changed_properties, resource.kind()))
            .with_hint(executor.cpis().misplacement_hint(resource.cpi(), changed_properties))
            .with_hint(format!("if it is gone, forget its record: `{}`", forget_command_of(resource)))
    }

    /// Returns the error for a resource that the CPI does not find and says that it exists.
    fn contradiction_error(&self, error: &CpiError) -> Error {
        let method = match self.resource {
            Resource::Disk(_) => Method::HasDisk,
            Resource::Vm(_) | Resource::Stemcell(_) | Resource::Snapshot(_) => Method::HasVm,
        };
        error
            .without_hints()
            .with_note(format!(
                "the CPI contradicts itself: its `{method}` says that {} exists",
                self.resource
            ))
            .with_hint(hint_to_ask_again(method, self.resource))
    }

    fn record_deletion(&self, executor: &mut Executor<'_>) -> Result<()> {
        self.effect.changes_of_deletion().into_iter().try_for_each(|change| executor.commit(change))
    }

    /// Returns true if the CPI did not find the resource in an earlier run.
    fn was_not_found_before(&self, executor: &Executor<'_>) -> bool {
        executor.state().undeleted(self.resource).is_some_and(|mark| mark.was_not_found)
    }

    fn record_undeleted(
        &self,
        executor: &mut Executor<'_>,
        error: &CpiError,
        was_not_found: bool,
    ) -> Result<()> {
        let reason = executor.run_context().redactor.clean_and_redact(&error.to_string());
        let first_attempt_at = match executor.state().undeleted(self.resource) {
            Some(mark) => mark.first_attempt_at.clone(),
            None => base::encoding::now(),
        };
        let (resource, unknown_keys) = (self.resource.clone(), Map::new());
        executor.commit(Change::DeletionFailed(UndeletedResource {
            resource,
            reason,
            first_attempt_at,
            was_not_found,
            unknown_keys,
        }))
    }
}

/// Returns true if a CPI answers that it has no such resource, or does not implement the method.
fn does_not_know(resource_kind: ResourceKind, error: &CpiError) -> bool {
    error.kind() == Some(&CpiErrorKind::NotImplemented) || not_found_form(resource_kind, error).is_some()
}

/// The form in which a CPI reports that a resource does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotFound {
    /// By the dedicated error type.
    Typed,
    /// Only in the text of the message.
    InWords,
}

fn not_found_form(resource_kind: ResourceKind, error: &CpiError) -> Option<NotFound> {
    let CpiError::Answered { kind, message, .. } = error else { return None };
    match (resource_kind, kind) {
        (ResourceKind::Vm, CpiErrorKind::VmNotFound)
        | (ResourceKind::Disk, CpiErrorKind::DiskNotFound)
        | (ResourceKind::Stemcell, CpiErrorKind::StemcellNotFound)
        // Snapshots have no error type of their own.
        | (ResourceKind::Snapshot, CpiErrorKind::DiskNotFound) => Some(NotFound::Typed),
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
    use crate::protocol::RequestId;

    fn answered_error(kind: CpiErrorKind, message: &str) -> CpiError {
        let (request_id, message) = (RequestId::fresh(), message.into());
        CpiError::Answered {
            method: Method::DeleteVm,
            request_id,
            kind,
            error_type: Box::default(),
            message,
            ok_to_retry: false,
            is_builtin: false,
            made_nothing: false,
            hints: Box::default(),
            log_tail: Box::default(),
        }
    }

    #[test]
    fn not_found_is_recognised_by_type_or_message() {
        let unknown_error =
            |message: &str| answered_error(CpiErrorKind::Unknown("Fog::Error".to_owned()), message);
        for (resource_kind, error, expected) in [
            (ResourceKind::Vm, answered_error(CpiErrorKind::VmNotFound, "x"), Some(NotFound::Typed)),
            (ResourceKind::Disk, answered_error(CpiErrorKind::VmNotFound, "x"), None),
            (
                ResourceKind::Stemcell,
                answered_error(CpiErrorKind::StemcellNotFound, "x"),
                Some(NotFound::Typed),
            ),
            (ResourceKind::Vm, unknown_error("Server `vm-1' Not Found"), Some(NotFound::InWords)),
            (ResourceKind::Disk, unknown_error("The volume doesn't exist."), Some(NotFound::InWords)),
            (ResourceKind::Disk, unknown_error("quota exceeded"), None),
            (ResourceKind::Vm, answered_error(CpiErrorKind::NotImplemented, "method not found"), None),
            (ResourceKind::Vm, CpiError::no_answer(Method::DeleteVm, &RequestId::fresh(), "not found"), None),
        ] {
            assert_eq!(not_found_form(resource_kind, &error), expected, "{resource_kind}: {error}");
        }
    }
}
