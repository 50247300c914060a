//! The records of a state, for the operator: show, import, restore and forget them.
//!
//! Uses `recovery`, `effects`, `cpis`, `agent`, `prepare`, `environment` and `state`. Entry points:
//! [`show()`], [`import()`], [`restore()`], [`forget()`]; [`find`] for other modules.

mod find;
mod forget;
mod import;
mod restore;
mod show;

pub(super) use find::{find, find_any};
pub use forget::{Forgettable, forget};
pub use import::{ImportRequest, ImportedStemcell, import};
pub use restore::{keep_version, restore};
pub use show::{Overview, show};

use base::Result;

/// Asks the operator to confirm the question. Fails if the operator declines.
pub type AskConsent<'a> = &'a mut dyn FnMut(&str) -> Result<()>;
