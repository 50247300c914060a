//! Finishes what an earlier run began and did not live to record.

use serde_json::Value;

use super::effect::Effect;
use super::request::Environment;
use super::signals;
use crate::agent::Backoff;
use crate::cpi::{CpiError, parse_answer};
use crate::state::{Answer, Intent, OpenCall, Store};
use crate::timing::Activity;
use crate::ui::Reporter;
use crate::{Error, Result};

/// Reads the answers to calls of earlier runs into the state. With `forget`, calls whose outcome cannot be known
/// are dropped instead of stopping the run.
pub(super) fn settle_open_calls(environment: &Environment, store: &mut Store, forget: bool) -> Result<()> {
    for (intent, call) in store.journal().open_calls::<Effect>()? {
        settle(environment, store, &intent, call, forget)?;
    }
    Ok(())
}

fn settle(
    environment: &Environment,
    store: &mut Store,
    intent: &Intent<Effect>,
    call: OpenCall,
    forget: bool,
) -> Result<()> {
    let reporter: &Reporter = &environment.reporter;
    let stage = reporter.stage(format!("Recovering the `{}` of an interrupted run", intent.method));
    let failed = |error| Error::io(format!("reading the answer to call {}", intent.request_id), error);
    let mut backoff = Backoff::up_to(std::time::Duration::from_millis(250));
    let bytes = loop {
        match call.answer().map_err(failed)? {
            Answer::NeverAsked => {
                call.settle()?;
                stage.skip("the CPI was not yet called");
                return Ok(());
            }
            Answer::Ended(bytes) => break bytes,
            Answer::Pending => {
                signals::check(environment)?;
                stage.log_line("the CPI process of the interrupted run is still at work");
                backoff.wait(&environment.clock, Activity::Waiting);
            }
        }
    };
    match parse_answer(&bytes, &intent.method, &intent.request_id) {
        Ok(result) => return recorded(store, intent, call, &result, stage),
        Err(CpiError::NoAnswer { problem, .. }) if intent.effect.creates() => {
            if !forget {
                return Err(unknown_outcome(&intent.effect, Error::environment(problem)));
            }
            reporter.warn(format!(
                "forgetting call {}: {} may exist and is not on record",
                intent.request_id,
                intent.effect.how_to_find()
            ));
        }
        // What failed, or is about things on record, is decided anew by this run's plan.
        Err(_) => {}
    }
    call.settle()?;
    stage.skip("it did not succeed");
    Ok(())
}

fn recorded(
    store: &mut Store,
    intent: &Intent<Effect>,
    call: OpenCall,
    result: &Value,
    stage: crate::ui::Stage,
) -> Result<()> {
    let changes = intent
        .effect
        .changes(result)
        .map_err(|problem| unknown_outcome(&intent.effect, Error::environment(problem)))?;
    for change in changes {
        store.commit(change)?;
    }
    call.settle()?;
    stage.finish();
    Ok(())
}

/// The error for a call that may have made something nobody has a CID of.
pub(super) fn unknown_outcome(effect: &Effect, cause: Error) -> Error {
    cause
        .context(format!("what the CPI's `{}` did is not known", effect.method()))
        .with_hint(format!("look in the IaaS for {}", effect.how_to_find()))
        .with_hint("delete it there, then run the same command again with --forget-open-calls")
}
