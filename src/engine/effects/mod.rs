//! CPI calls that change something on record: announced in the journal before the call, recorded in the state
//! after it.
//!
//! Entry points: [`Executor`], which makes the calls; [`Effect`], one call with the record of its outcome;
//! [`deletion::delete`]; [`Contradiction`], a VM that the CPI denies and whose agent answers;
//! [`RunRegistry`], which serves calls and agents under contract v1.

mod contradiction;
pub(crate) mod deletion;
mod effect;
mod executor;
pub(crate) mod failed_call;
mod open_call_errors;
mod run_registry;

pub(crate) use contradiction::{
    Contradiction, DENIED_MOUNT_NOTE, describe_denied, describe_denied_mount, describe_not_found,
    hint_for_denied_mount, probable_cause, probable_cause_of_denial,
};
pub(crate) use effect::Effect;
pub(crate) use executor::{Executor, ParallelCall};
pub(crate) use open_call_errors::{
    explain_running_call, instruction_to_end, instructions_to_forget, unknown_outcome_error,
};
pub(crate) use run_registry::RunRegistry;
