//! The errors for a call that stays open.

use super::effect::Effect;
use crate::state::OpenCall;
use base::Error;

/// Adds hints to the error for a call whose CPI process still runs.
pub(crate) fn still_at_work(error: Error, call: &OpenCall) -> Error {
    error.with_hint(format!("the CPI's log of this call is '{}'", call.log_path().display())).with_hint(
        format!(
            "if the CPI hangs, end its process, which `fuser '{}'` shows; the next run then says what to \
             look for in the IaaS",
            call.answer_path().display()
        ),
    )
}

/// Returns the error for a call that may have created something with an unknown CID.
pub(crate) fn unknown_outcome(effect: &Effect, call: &OpenCall, cause: Error) -> Error {
    let unknown = cause
        .context(format!("the outcome of the CPI's `{}` is unknown", effect.method()))
        .with_hint(format!("look in the IaaS for {}", effect.how_to_find()));
    // The log is on the machine that made the call.
    let unknown = match call.log_path() {
        log if log.exists() => {
            unknown.with_hint(format!("the CPI's log of this call is '{}'", log.display()))
        }
        _ => unknown,
    };
    match effect {
        // The new disk may have the only copy of the data.
        Effect::UpdateDisk { disk, .. } => unknown.with_hint(format!(
            "if disk {disk} is gone, the other disk has its data: `monopile attach-disk MANIFEST CID \
             --forget-open-calls`. Otherwise delete the other disk, if there is one, then run the same \
             command again with --forget-open-calls"
        )),
        _ => unknown.with_hint(
            "if it exists, delete it in the IaaS; then run the same command again with --forget-open-calls",
        ),
    }
}
