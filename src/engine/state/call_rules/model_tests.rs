//! Explores the model by the rules of the code, and by rules with one mistake each.

use super::explorer::{Exploration, PROGRESS_PROPERTY, explore};
use super::model::{
    IMPLEMENTED_RULES, Model, RECORD_PROPERTY, RuleTable, SINGLE_CALL_PROPERTY, SINGLE_WRITER_PROPERTY,
    SIZE_PROPERTY, Setting,
};
use super::{
    CallOutcome, ConcludingStep, Evidence, EvidentProgress, FileState, Preparation, concluding_steps,
    progress,
};

/// A limit with which an exploration visits every state.
const ALL: usize = usize::MAX;

/// Checks the rules of the code in a setting in which a VM is created and deleted, and returns the number of
/// states.
fn check(setting: Setting, call_count: usize, limit: usize) -> usize {
    check_model(&Model { table: IMPLEMENTED_RULES, setting, call_count, resizes: false }, limit)
}

/// Like [`check`] for a VM that exists and is resized. The number of calls includes the one that created it.
fn check_resize(setting: Setting, call_count: usize, limit: usize) -> usize {
    check_model(&Model { table: IMPLEMENTED_RULES, setting, call_count, resizes: true }, limit)
}

fn check_model(model: &Model, limit: usize) -> usize {
    let Model { setting, call_count, .. } = *model;
    let start = std::time::Instant::now();
    let Exploration { is_complete, state_count, transition_count, counterexample } = explore(model, limit);
    let extent = if is_complete { "all" } else { "the first" };
    let duration = start.elapsed();
    println!(
        "{setting:?}, {call_count} calls: {extent} {state_count} states, {transition_count} transitions, \
         {duration:.1?}"
    );
    assert!(counterexample.is_none(), "{setting:?}: {counterexample:#?}");
    assert_eq!(is_complete, limit == ALL);
    state_count
}

#[test]
fn two_runs_keep_all_properties_in_every_order() {
    let states = check(Setting::Directory, 1, ALL);
    assert!(states > 1000, "the model covers too little: {states} states");
    check(Setting::OneMachine, 1, 5000);
    check(Setting::TwoMachines, 1, 5000);
}

#[test]
fn resized_resource_is_never_smaller_than_its_record() {
    let states = check_resize(Setting::Directory, 2, ALL);
    assert!(states > 1000, "the model covers too little: {states} states");
}

#[test]
#[ignore = "millions of states: see docs/journal.md"]
fn explores_resizing_twice_in_a_directory_and_once_in_a_bucket() {
    check_resize(Setting::Directory, 3, ALL);
    check_resize(Setting::OneMachine, 2, ALL);
    check_resize(Setting::TwoMachines, 2, ALL);
}

#[test]
#[ignore = "millions of states: see docs/journal.md"]
fn explores_three_calls_in_a_directory() {
    check(Setting::Directory, 3, ALL);
}

#[test]
#[ignore = "millions of states: see docs/journal.md"]
fn explores_one_call_in_a_bucket() {
    check(Setting::OneMachine, 1, ALL);
    check(Setting::TwoMachines, 1, ALL);
}

#[test]
#[ignore = "millions of states: see docs/journal.md"]
fn explores_two_calls_in_a_bucket() {
    check(Setting::OneMachine, 2, ALL);
    check(Setting::TwoMachines, 2, ALL);
}

#[test]
#[ignore = "needs more than 6 GB of memory: see docs/journal.md"]
fn explores_three_calls_in_a_bucket() {
    check(Setting::OneMachine, 3, ALL);
    check(Setting::TwoMachines, 3, ALL);
}

/// A mistake in the rules, and the property that it violates.
struct Mistake {
    name: &'static str,
    table: RuleTable,
    setting: Setting,
    call_count: usize,
    resizes: bool,
    property: &'static str,
}

fn settles_before_it_records(
    outcome: CallOutcome,
    creates: bool,
    may_forget: bool,
) -> &'static [ConcludingStep] {
    match concluding_steps(outcome, creates, may_forget) {
        [ConcludingStep::Record, ConcludingStep::Settle] => &[ConcludingStep::Settle, ConcludingStep::Record],
        steps => steps,
    }
}

fn forgets_unknown_outcomes(outcome: CallOutcome, creates: bool, _: bool) -> &'static [ConcludingStep] {
    concluding_steps(outcome, creates, true)
}

fn trusts_errors(outcome: CallOutcome, creates: bool, may_forget: bool) -> &'static [ConcludingStep] {
    match outcome {
        CallOutcome::Failed { .. } => &[ConcludingStep::Settle],
        outcome => concluding_steps(outcome, creates, may_forget),
    }
}

fn believes_in_success(outcome: CallOutcome, creates: bool, may_forget: bool) -> &'static [ConcludingStep] {
    match outcome {
        CallOutcome::Unknown if !creates => &[ConcludingStep::Record, ConcludingStep::Settle],
        outcome => concluding_steps(outcome, creates, may_forget),
    }
}

fn never_forgets(outcome: CallOutcome, creates: bool, _: bool) -> &'static [ConcludingStep] {
    concluding_steps(outcome, creates, false)
}

fn overlooks_a_process_about_to_start(evidence: Evidence) -> EvidentProgress {
    match evidence {
        Evidence::Files { answer_file: FileState::Missing, .. } => EvidentProgress::NeverStarted,
        evidence => progress(evidence),
    }
}

fn goes_on(outcome: CallOutcome, creates: bool, may_forget: bool) -> &'static [ConcludingStep] {
    match concluding_steps(outcome, creates, may_forget) {
        [ConcludingStep::StayOpen] if outcome == CallOutcome::Unknown => &[],
        steps => steps,
    }
}

/// Returns the mistakes that are found in few states.
fn mistakes() -> [Mistake; 9] {
    use Preparation::{Announce, ConfirmLock, PrepareAnswer};

    [
        Mistake {
            name: "a run goes on after an unknown outcome",
            table: RuleTable { concluding_steps: goes_on, ..IMPLEMENTED_RULES },
            setting: Setting::Directory,
            call_count: 2,
            resizes: false,
            property: SINGLE_CALL_PROPERTY,
        },
        Mistake {
            name: "the intent is removed before the outcome is recorded",
            table: RuleTable { concluding_steps: settles_before_it_records, ..IMPLEMENTED_RULES },
            setting: Setting::Directory,
            call_count: 1,
            resizes: false,
            property: RECORD_PROPERTY,
        },
        Mistake {
            name: "the lock is confirmed before the call is announced",
            table: RuleTable { preparations: &[ConfirmLock, Announce, PrepareAnswer], ..IMPLEMENTED_RULES },
            setting: Setting::Directory,
            call_count: 1,
            resizes: false,
            property: RECORD_PROPERTY,
        },
        Mistake {
            name: "the answer file is created after the lock was confirmed",
            table: RuleTable { preparations: &[Announce, ConfirmLock, PrepareAnswer], ..IMPLEMENTED_RULES },
            setting: Setting::Directory,
            call_count: 1,
            resizes: false,
            property: RECORD_PROPERTY,
        },
        Mistake {
            name: "a creating call without a usable answer is settled",
            table: RuleTable { concluding_steps: forgets_unknown_outcomes, ..IMPLEMENTED_RULES },
            setting: Setting::TwoMachines,
            call_count: 1,
            resizes: false,
            property: RECORD_PROPERTY,
        },
        Mistake {
            name: "an error counts as proof that nothing was made",
            table: RuleTable { concluding_steps: trusts_errors, ..IMPLEMENTED_RULES },
            setting: Setting::Directory,
            call_count: 1,
            resizes: false,
            property: RECORD_PROPERTY,
        },
        Mistake {
            name: "a resize without a usable answer counts as done",
            table: RuleTable { concluding_steps: believes_in_success, ..IMPLEMENTED_RULES },
            setting: Setting::Directory,
            call_count: 2,
            resizes: true,
            property: SIZE_PROPERTY,
        },
        Mistake {
            name: "an expired lease is taken over without a write",
            table: RuleTable { must_fence: |_| false, ..IMPLEMENTED_RULES },
            setting: Setting::TwoMachines,
            call_count: 1,
            resizes: false,
            property: SINGLE_WRITER_PROPERTY,
        },
        Mistake {
            name: "the operator cannot forget a call with an unknown outcome",
            table: RuleTable { concluding_steps: never_forgets, ..IMPLEMENTED_RULES },
            setting: Setting::Directory,
            call_count: 1,
            resizes: false,
            property: PROGRESS_PROPERTY,
        },
    ]
}

/// Returns the mistakes that are found only in many states.
fn rarer_mistakes() -> [Mistake; 2] {
    [
        Mistake {
            name: "a prepared file that is locked counts as never asked",
            table: RuleTable { progress: overlooks_a_process_about_to_start, ..IMPLEMENTED_RULES },
            setting: Setting::OneMachine,
            call_count: 1,
            resizes: false,
            property: RECORD_PROPERTY,
        },
        Mistake {
            name: "a lease that was taken over is given back before the write",
            table: RuleTable { may_give_back: |_| true, ..IMPLEMENTED_RULES },
            setting: Setting::OneMachine,
            call_count: 1,
            resizes: false,
            property: SINGLE_WRITER_PROPERTY,
        },
    ]
}

#[test]
fn every_planted_mistake_has_a_counterexample() {
    find(&mistakes());
}

#[test]
#[ignore = "more than a hundred thousand states: see docs/journal.md"]
fn every_rare_planted_mistake_has_a_counterexample() {
    find(&rarer_mistakes());
}

fn find(mistakes: &[Mistake]) {
    for &Mistake { name, table, setting, call_count, resizes, property } in mistakes {
        let exploration = explore(&Model { table, setting, call_count, resizes }, ALL);
        let counterexample = exploration.counterexample.unwrap_or_else(|| panic!("{name}: not found"));
        println!("{name}: {} ({} states)", counterexample.property, exploration.state_count);
        counterexample.trace.iter().for_each(|action| println!("    {action}"));
        assert_eq!(counterexample.property, property, "{name}: {:#?}", counterexample.trace);
    }
}
