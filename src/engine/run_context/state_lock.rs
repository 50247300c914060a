//! Locks the state for a run, at once or after waiting as long as the operator allows.

use std::time::{Duration, Instant};

use time::OffsetDateTime;

use super::{RunContext, signals};
use crate::state::{COMPARE_HINT, Holder, Storage, Store, read_versions, version_paths};
use base::{Error, Result};
use base::{encoding, text};

/// The pause between two attempts to take the lock.
const POLL_PAUSE: Duration = Duration::from_millis(100);
/// The same pause if each attempt is a request.
const REMOTE_POLL_PAUSE: Duration = Duration::from_secs(1);

/// Locks and reads the state for `command`. Reports once which run holds the lock.
pub(crate) fn open(run: &RunContext, command: &str) -> Result<Store> {
    let holder = Holder::this_process(command);
    let store = Store::open_waiting(&run.paths.storage, &holder, &mut lock_conflict_handler(run))?;
    if let Some(holder) = store.describe_previous_holder() {
        run.reporter.warn(format!("the lease of {holder} has expired; it is taken over"));
    }
    run.reporter.set_usual_durations(store.state().monopile.durations.stages());
    Ok(store)
}

/// Returns the handler for a lock that another run holds: it waits as long as the operator allows.
pub(crate) fn lock_conflict_handler(run: &RunContext) -> impl FnMut(Error) -> Result<()> {
    let start = Instant::now();
    let mut is_reported = false;
    move |conflict: Error| {
        let timeout = run.lock_timeout;
        let Some(remaining_time) =
            timeout.checked_sub(start.elapsed()).filter(|remaining| !remaining.is_zero())
        else {
            return Err(match timeout.is_zero() {
                true => conflict,
                false => Error::new(conflict.kind(), conflict.to_string())
                    .with_source(format!("it is still running after {}", text::format_duration(timeout)))
                    .with_hint("wait longer: `monopile SAME-COMMAND --wait-for-lock 30m`")
                    .with_hints(conflict.hints().iter().filter(|hint| !hint.contains("--wait-for-lock"))),
            });
        };
        if !is_reported {
            is_reported = true;
            run.reporter.note(format!(
                "{conflict}; waiting for up to {} (--wait-for-lock)",
                text::format_duration(timeout)
            ));
        }
        let interval = if run.paths.storage.is_shared() { REMOTE_POLL_PAUSE } else { POLL_PAUSE };
        signals::pause(run, interval.min(remaining_time))
    }
}

/// The hint for a state that is missing. The operator may have named it.
pub(crate) const OTHER_STATE_HINT: &str = "check the path of the state; --state FILE names another one";

/// The hint for a state that is missing although something is deployed.
pub(crate) const LOST_STATE_HINT: &str =
    "if it is lost, see how to record the VM again: `monopile plan MANIFEST`";

/// Returns the error for a command that needs a state when there is none.
pub(crate) fn no_state_error(storage: &Storage) -> Error {
    lost_state_error(storage).unwrap_or_else(|| {
        Error::invalid(format!("there is no state '{storage}'"))
            .with_hint(OTHER_STATE_HINT)
            .with_hint("if nothing is deployed yet: `monopile create-env MANIFEST`")
            .with_hint(LOST_STATE_HINT)
    })
}

/// Fails if a deploy would begin anew beside the earlier versions of a state that is missing.
pub(crate) fn refuse_lost_state(storage: &Storage) -> Result<()> {
    match lost_state_error(storage) {
        None => Ok(()),
        Some(error) => {
            let [versions, backup] = version_paths(storage);
            let (versions, backup) = (text::shell_word(&versions), text::shell_word(&backup));
            let error = match storage.is_shared() {
                true => error,
                false => error.with_hint(format!(
                    "if the directory is a copy of another environment's, remove the copied versions: `rm \
                     -rf {versions} {backup}`"
                )),
            };
            Err(error.with_hint(
                "to start anew instead, restore the state, then delete the old environment: `monopile \
                 delete-env MANIFEST`",
            ))
        }
    }
}

/// Returns the error for a state that is missing but has earlier versions. `delete-env` removes them with the
/// state, so an environment is probably deployed.
pub(crate) fn lost_state_error(storage: &Storage) -> Option<Error> {
    let newest_version = read_versions(storage).ok()?.into_iter().next()?;
    let error =
        Error::invalid(format!("there is no state '{storage}', but an earlier version of it is kept"));
    Some(
        error
            .with_note(format!(
                "the earlier version is '{}', written at {}",
                newest_version.path_or_url,
                encoding::rfc3339(OffsetDateTime::from(newest_version.written_at))
            ))
            .with_note("nothing was changed")
            .with_hint(format!(
                "restore it: `monopile state backup --restore {} --state {storage}`",
                newest_version.name
            ))
            .with_hint(COMPARE_HINT),
    )
}
