//! The records of a state, for the operator: show, import, restore and forget them.
//!
//! Entry points: [`show()`], [`import()`], [`restore()`], [`forget()`]; [`find()`] for other modules.

mod find;
mod forget;
mod import;
mod restore;
mod show;

pub(super) use find::{find, find_any};
pub use forget::{ForgettableRecord, forget};
pub use import::{ImportRequest, ImportedStemcell, import};
pub use restore::{keep_version, restore};
pub use show::{ShownCall, StateOverview, show};
pub(super) use show::{explain_deletion, hints_for_open_calls, vm_on_record};

pub use crate::recovery::open_calls::OpenCallStatus;
use base::Result;

/// A change that the operator must confirm.
#[derive(Debug, Clone)]
pub struct ConsentRequest {
    /// The change as a gerund: "forgetting VM 'vm-1'".
    pub change: String,
    /// The consequence, in a sentence that begins in lower case; empty if there is none.
    pub consequence: String,
    /// The question for the operator, to which yes means consent.
    pub question: String,
}

/// Asks the operator to confirm a change. Returns an error if the operator declines.
pub type AskConsent<'a> = &'a mut dyn FnMut(&ConsentRequest) -> Result<()>;
