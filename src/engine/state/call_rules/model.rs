//! A model of two runs on one state, with the CPI processes, keepers and operator around them.
//!
//! The runs decide by the functions of the parent module, given as a [`RuleTable`]. Everything else is the
//! environment: processes that are killed at any step, a lease that expires at any time, a lock that the
//! operator removes, and every outcome of a call.
//!
//! These simplifications hold:
//! - In a directory, a run checks the lock and replaces or removes a file in one step. In a bucket, anything
//!   may happen between the check and the request.
//! - A killed run's request has arrived before the kill, or never arrives.
//! - The operator passes `--forget-open-calls` while no run and no CPI process lives, and after deleting the
//!   resources of the open calls.

use super::explorer::System;
use super::model_state::{
    AnswerContent, AnswerFile, CALL_COUNT, Call, CallKind, CallSet, CpiProcess, ModelHolder, ModelRecord,
    ModelState, Phase, RUN_COUNT, Run, to_u8,
};
use super::{
    CallOutcome, ConcludingStep, Evidence, EvidentProgress, FileState, PREPARATIONS, Preparation,
    PublishedDocument, concluding_steps, may_give_back, must_fence, progress,
};

pub(super) const RECORD_PROPERTY: &str = "each resource is on record, a suspect or of an open call";
pub(super) const SINGLE_CALL_PROPERTY: &str =
    "no call is made again before its outcome is settled or a suspect";
pub(super) const SINGLE_VM_PROPERTY: &str = "no VM is made while a living one is on record";
pub(super) const SIZE_PROPERTY: &str = "no resource is on record as resized before it is";
pub(super) const SINGLE_WRITER_PROPERTY: &str = "only the holder of the lock writes the state";

/// The rules by which runs act.
#[derive(Clone, Copy)]
pub(super) struct RuleTable {
    pub(super) preparations: &'static [Preparation],
    pub(super) progress: fn(Evidence) -> EvidentProgress,
    pub(super) concluding_steps:
        fn(outcome: CallOutcome, creates: bool, may_forget: bool) -> &'static [ConcludingStep],
    pub(super) must_fence: fn(was_taken_over: bool) -> bool,
    pub(super) may_give_back: fn(is_unfenced: bool) -> bool,
}

/// The rules of the code.
pub(super) const IMPLEMENTED_RULES: RuleTable =
    RuleTable { preparations: &PREPARATIONS, progress, concluding_steps, must_fence, may_give_back };

/// The place of the state, and the machines of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    /// A directory, with both runs on one machine.
    Directory,
    /// A bucket, with both runs on one machine.
    OneMachine,
    /// A bucket, with each run on a machine of its own.
    TwoMachines,
}

/// The rules in a setting.
pub(super) struct Model {
    pub(super) table: RuleTable,
    pub(super) setting: Setting,
    /// The number of calls that the runs may make in all.
    pub(super) call_count: usize,
    /// True if a VM is on record at the start, as the result of the first call, and the runs resize it.
    /// Otherwise they create and delete one.
    pub(super) resizes: bool,
}

/// A transition. The numbers are those of the run and of the call.
#[derive(Debug, Clone, Copy)]
#[expect(dead_code, reason = "the fields are printed")]
pub(super) enum ModelAction {
    TakeLock { run: usize },
    TakeLockToForget { run: usize },
    Fence { run: usize },
    ReadState { run: usize },
    ReadJournal { run: usize },
    Examine { run: usize, call: usize, outcome: CallOutcome },
    Plan { run: usize, call: usize },
    Prepare { run: usize, call: usize, step: Preparation },
    Fork { run: usize, call: usize },
    StopWaiting { run: usize },
    CheckLease { run: usize },
    Conclude { run: usize, call: usize, step: ConcludingStep },
    WriteIsRefused { run: usize },
    LockIsLost { run: usize },
    End { run: usize },
    Kill { run: usize },
    ForkDies { call: usize },
    BecomeCpi { call: usize },
    CpiEnds { call: usize, was_made: bool, answer: &'static str },
    LeaseExpires,
    LeaseIsRenewed,
    OperatorRemovesLock,
    KeeperPublishes { run: usize, call: usize },
    KeeperEnds { run: usize },
    KeeperDies { run: usize },
}

impl Model {
    fn is_shared(&self) -> bool {
        self.setting != Setting::Directory
    }

    /// Returns true if the run and the call are on one machine.
    fn is_local(&self, call: &Call, run: usize) -> bool {
        self.setting != Setting::TwoMachines || usize::from(call.run) == run
    }

    fn progress(&self, call: &Call, run: usize) -> EvidentProgress {
        let state_of = |is_held| if is_held { FileState::Held } else { FileState::Free };
        let (mut prepared_file, mut answer_file) = (FileState::Missing, FileState::Missing);
        match call.file {
            AnswerFile::Missing => {}
            AnswerFile::Prepared => {
                prepared_file = state_of(call.is_held || call.process == CpiProcess::Forked)
            }
            AnswerFile::Answer => answer_file = state_of(call.process == CpiProcess::Running),
        }
        let evidence = if self.is_local(call, run) {
            Evidence::Files { prepared_file, answer_file }
        } else {
            let is_answer = call.file == AnswerFile::Answer;
            let document =
                if is_answer { PublishedDocument::Answer } else { PublishedDocument::NeverStarted };
            Evidence::Journal(call.is_published.then_some(document))
        };
        (self.table.progress)(evidence)
    }

    /// Returns the outcome of an open call for a run that recovers it, or `None` while the run has to wait.
    fn recovered_outcome(&self, state: &ModelState, run: usize, number: usize) -> Option<CallOutcome> {
        let call = &state.calls[number];
        match self.progress(call, run) {
            EvidentProgress::Running => None,
            EvidentProgress::NeverStarted => Some(CallOutcome::NeverStarted),
            EvidentProgress::OnOtherMachine => Some(CallOutcome::Unknown),
            EvidentProgress::Ended => Some(match outcome_of(call) {
                CallOutcome::Answered if state.runs[run].view.record_after(call.kind, number).is_none() => {
                    CallOutcome::Unknown
                }
                outcome => outcome,
            }),
        }
    }

    /// Returns true if a run still has the lock according to its own clock or the lock file.
    fn has_lock(&self, state: &ModelState, run: usize) -> bool {
        state.holder == ModelHolder::Run(to_u8(run)) && !state.has_expired
    }

    /// Writes the state. Returns false if the write is rejected.
    fn write(&self, state: &mut ModelState, run: usize, record: ModelRecord) -> bool {
        if self.is_shared() && state.runs[run].is_stale {
            return false;
        }
        let has_read = |other: usize| other != run && state.runs[other].phase.has_read();
        let is_replaced = matches!(state.holder, ModelHolder::Run(other) if has_read(other.into()));
        if state.runs[run].is_stale || (is_replaced && !state.is_removed) {
            state.violate(SINGLE_WRITER_PROPERTY);
        }
        state.record = record;
        state.runs[run].view = record;
        for (other, other_run) in state.runs.iter_mut().enumerate() {
            other_run.is_stale |= other != run && other_run.phase.has_read();
        }
        true
    }

    /// Ends the process of a run. The kernel frees its locks, and the keeper stays.
    fn end_process(&self, state: &mut ModelState, run: usize, is_killed: bool) {
        let is_holder = state.holder == ModelHolder::Run(to_u8(run));
        let mut unpublished = CallSet::default();
        for (number, call) in state.calls.iter_mut().enumerate() {
            if self.is_local(call, run) && call.is_announced && !call.is_published {
                unpublished = unpublished.with_call(number);
            }
            if usize::from(call.run) != run {
                continue;
            }
            call.is_held = false;
            // If no step of the call was taken yet, it may be planned again.
            if state.runs[run].phase == Phase::Preparing(to_u8(number), 0) {
                *call = Call::default();
            }
        }
        if self.is_shared() && (is_killed || unpublished != CallSet::default()) {
            let earlier_calls = state.keepers[run].unwrap_or_default();
            state.keepers[run] = Some(CallSet(earlier_calls.0 | unpublished.0));
            if is_holder {
                state.holder = ModelHolder::Gone(to_u8(run));
            }
        } else if is_holder {
            self.give_back(state, run);
        }
        state.runs[run] = Run::default();
    }

    /// Frees the lock of a run or keeper, or lets the lease expire.
    fn give_back(&self, state: &mut ModelState, run: usize) {
        state.holder = ModelHolder::Gone(to_u8(run));
        if (self.table.may_give_back)(state.is_unfenced) {
            (state.holder, state.has_expired) = (ModelHolder::None, false);
        }
    }

    /// Removes the intent, and the files if they are on the machine of the run.
    fn settle(&self, state: &mut ModelState, run: usize, number: usize) {
        let is_local = self.is_local(&state.calls[number], run);
        let call = &mut state.calls[number];
        (call.is_announced, call.is_published) = (false, false);
        if is_local {
            (call.file, call.content) = (AnswerFile::Missing, AnswerContent::Unusable);
        }
    }

    /// Lists the next transitions of a run: it creates, deletes or resizes the VM, or ends.
    fn plan(&self, state: &ModelState, run: usize, transitions: &mut Vec<(ModelAction, ModelState)>) {
        let view = state.runs[run].view;
        let mut ended_state = *state;
        ended_state.runs[run].phase = Phase::Ending;
        transitions.push((ModelAction::End { run }, ended_state));
        let calls = &state.calls[..self.call_count];
        let Some(call) = calls.iter().position(|call| call.kind == CallKind::Unused) else { return };
        let kind = match view.vm.first() {
            None => CallKind::Create,
            Some(vm) if self.resizes => CallKind::Resize(to_u8(vm)),
            Some(vm) => CallKind::Delete(to_u8(vm)),
        };
        let mut next_state = *state;
        next_state.calls[call] = Call { kind, run: to_u8(run), ..Call::default() };
        next_state.runs[run].phase = Phase::Preparing(to_u8(call), 0);
        transitions.push((ModelAction::Plan { run, call }, next_state));
    }

    fn take_lock(&self, state: &ModelState, run: usize, transitions: &mut Vec<(ModelAction, ModelState)>) {
        if state.holder != ModelHolder::None && !state.has_expired {
            return;
        }
        let mut next_state = *state;
        next_state.is_unfenced = (self.table.must_fence)(state.has_expired);
        next_state.runs[run].phase = if next_state.is_unfenced { Phase::Fencing } else { Phase::Reading };
        (next_state.holder, next_state.has_expired) = (ModelHolder::Run(to_u8(run)), false);
        transitions.push((ModelAction::TakeLock { run }, next_state));
        let is_quiet = state.runs.iter().all(|run| run.phase == Phase::Off)
            && state.calls.iter().all(|call| call.process == CpiProcess::None);
        if is_quiet && state.calls.iter().any(|call| call.is_announced) {
            next_state.runs[run].forgets = true;
            transitions.push((ModelAction::TakeLockToForget { run }, next_state));
        }
    }

    /// Lists the steps of a run.
    fn act(&self, state: &ModelState, run: usize, transitions: &mut Vec<(ModelAction, ModelState)>) {
        let mut next_state = *state;
        match state.runs[run].phase {
            Phase::Off => self.take_lock(state, run, transitions),
            Phase::Fencing if !self.has_lock(state, run) => {
                next_state.runs[run].phase = Phase::Ending;
                transitions.push((ModelAction::LockIsLost { run }, next_state));
            }
            Phase::Fencing => {
                next_state.runs[run].phase = Phase::Reading;
                next_state.is_unfenced = false;
                for (other, other_run) in next_state.runs.iter_mut().enumerate() {
                    other_run.is_stale |= other != run && other_run.phase.has_read();
                }
                transitions.push((ModelAction::Fence { run }, next_state));
            }
            Phase::Reading => {
                let acting_run = &mut next_state.runs[run];
                (acting_run.phase, acting_run.view, acting_run.is_stale) =
                    (Phase::Listing, state.record, false);
                // Files of calls without an intent are removed.
                for call in
                    next_state.calls.iter_mut().filter(|call| !call.is_announced && self.is_local(call, run))
                {
                    call.file = AnswerFile::Missing;
                }
                transitions.push((ModelAction::ReadState { run }, next_state));
            }
            Phase::Listing => {
                let acting_run = &mut next_state.runs[run];
                acting_run.phase = Phase::Recovering;
                for number in (0..CALL_COUNT).filter(|&number| state.calls[number].is_announced) {
                    acting_run.open = acting_run.open.with_call(number);
                }
                transitions.push((ModelAction::ReadJournal { run }, next_state));
            }
            Phase::Recovering if state.runs[run].open == CallSet::default() => {
                self.plan(state, run, transitions);
            }
            // The calls are taken in any order, because their numbers do not show which one is the oldest.
            Phase::Recovering => {
                for call in (0..CALL_COUNT).filter(|&call| state.runs[run].open.contains(call)) {
                    let Some(outcome) = self.recovered_outcome(state, run, call) else { continue };
                    next_state.runs[run].phase = Phase::Concluding(to_u8(call), outcome, 0);
                    transitions.push((ModelAction::Examine { run, call, outcome }, next_state));
                }
            }
            Phase::Preparing(call, step) => self.prepare(state, run, call, step, transitions),
            Phase::Waiting(number) => {
                let call = &state.calls[usize::from(number)];
                let outcome = match call.process {
                    CpiProcess::None if !call.is_made => CallOutcome::NeverStarted,
                    // The answer file is gone.
                    CpiProcess::None if call.file != AnswerFile::Answer => CallOutcome::Unknown,
                    CpiProcess::None => outcome_of(call),
                    CpiProcess::Forked => return,
                    CpiProcess::Running => CallOutcome::Running,
                };
                next_state.runs[run].phase = Phase::Concluding(number, outcome, 0);
                let action = match outcome {
                    CallOutcome::Running => ModelAction::StopWaiting { run },
                    _ => ModelAction::Examine { run, call: number.into(), outcome },
                };
                transitions.push((action, next_state));
            }
            Phase::Concluding(call, outcome, step) => {
                self.end_call(state, run, (call, outcome, step), transitions);
            }
            Phase::Ending => {
                self.end_process(&mut next_state, run, false);
                transitions.push((ModelAction::End { run }, next_state));
            }
        }
    }

    /// Takes a step before the call, or starts its process after the last one.
    fn prepare(
        &self,
        state: &ModelState,
        run: usize,
        number: u8,
        step: u8,
        transitions: &mut Vec<(ModelAction, ModelState)>,
    ) {
        let mut next_state = *state;
        let call = &mut next_state.calls[usize::from(number)];
        next_state.runs[run].phase = Phase::Preparing(number, step + 1);
        let Some(&step) = self.table.preparations.get(usize::from(step)) else {
            (call.is_held, call.process) = (false, CpiProcess::Forked);
            next_state.runs[run].phase = Phase::Waiting(number);
            transitions.push((ModelAction::Fork { run, call: number.into() }, next_state));
            return;
        };
        let mut action = ModelAction::Prepare { run, call: number.into(), step };
        match step {
            Preparation::Announce => call.is_announced = true,
            Preparation::PrepareAnswer => (call.file, call.is_held) = (AnswerFile::Prepared, true),
            Preparation::ConfirmLock => {
                if state.holder != ModelHolder::Run(to_u8(run)) {
                    next_state.runs[run].phase = Phase::Ending;
                    action = ModelAction::LockIsLost { run };
                }
            }
        }
        transitions.push((action, next_state));
    }

    /// Takes a step that ends a call.
    fn end_call(
        &self,
        state: &ModelState,
        run: usize,
        (number, outcome, step): (u8, CallOutcome, u8),
        transitions: &mut Vec<(ModelAction, ModelState)>,
    ) {
        let call = usize::from(number);
        let kind = state.calls[call].kind;
        let Run { open, view, forgets, is_checked, .. } = state.runs[run];
        let is_recovery = open.contains(call);
        let steps = (self.table.concluding_steps)(outcome, kind == CallKind::Create, forgets && is_recovery);
        let mut next_state = *state;
        next_state.runs[run].phase = Phase::Concluding(number, outcome, step + 1);
        let Some(&step) = steps.get(usize::from(step)) else {
            next_state.runs[run].phase = Phase::Recovering;
            next_state.runs[run].open = open.without_call(call);
            return self.act(&next_state, run, transitions);
        };
        if step != ConcludingStep::StayOpen && !is_checked {
            if !self.has_lock(state, run) {
                next_state.runs[run].phase = Phase::Ending;
                return transitions.push((ModelAction::LockIsLost { run }, next_state));
            }
            if self.is_shared() {
                next_state.runs[run].phase = state.runs[run].phase;
                next_state.runs[run].is_checked = true;
                return transitions.push((ModelAction::CheckLease { run }, next_state));
            }
        }
        next_state.runs[run].is_checked = false;
        let mut action = ModelAction::Conclude { run, call, step };
        let is_written = match step {
            ConcludingStep::Record => {
                view.record_after(kind, call).is_some_and(|record| self.write(&mut next_state, run, record))
            }
            ConcludingStep::RecordSuspect => self.write(
                &mut next_state,
                run,
                ModelRecord { suspects: view.suspects.with_call(call), ..view },
            ),
            ConcludingStep::Settle => {
                if outcome == CallOutcome::Unknown && forgets && is_recovery {
                    // The operator deleted the resource before.
                    next_state.calls[call].is_alive = false;
                }
                self.settle(&mut next_state, run, call);
                true
            }
            ConcludingStep::StayOpen => {
                next_state.runs[run].phase = Phase::Ending;
                true
            }
        };
        if !is_written {
            next_state.runs[run].phase = Phase::Ending;
            action = ModelAction::WriteIsRefused { run };
        }
        transitions.push((action, next_state));
    }

    /// Lists the steps of CPI processes.
    fn run_cpis(&self, state: &ModelState, transitions: &mut Vec<(ModelAction, ModelState)>) {
        for call in 0..CALL_COUNT {
            let mut next_state = *state;
            match state.calls[call].process {
                CpiProcess::None => {}
                CpiProcess::Forked => {
                    next_state.calls[call].process = CpiProcess::None;
                    transitions.push((ModelAction::ForkDies { call }, next_state));
                    // A process that cannot rename its file ends.
                    if state.calls[call].file == AnswerFile::Prepared {
                        let this = &mut next_state.calls[call];
                        (this.file, this.process) = (AnswerFile::Answer, CpiProcess::Running);
                        this.is_made = true;
                        check_start(&mut next_state, call);
                        transitions.push((ModelAction::BecomeCpi { call }, next_state));
                    }
                }
                CpiProcess::Running => {
                    for (was_made, content, answer) in [
                        (true, AnswerContent::Result, "result"),
                        (true, AnswerContent::Error, "error"),
                        (true, AnswerContent::Unusable, "none"),
                        (false, AnswerContent::Error, "error"),
                        (false, AnswerContent::MadeNothing, "made nothing"),
                        (false, AnswerContent::Unusable, "none"),
                    ] {
                        let mut next_state = *state;
                        let this = &mut next_state.calls[call];
                        this.process = CpiProcess::None;
                        if this.file == AnswerFile::Answer {
                            this.content = content;
                        }
                        match this.kind {
                            CallKind::Delete(target) => {
                                next_state.calls[usize::from(target)].is_alive &= !was_made
                            }
                            CallKind::Resize(target) => {
                                next_state.calls[usize::from(target)].is_resized |= was_made
                            }
                            CallKind::Create | CallKind::Unused | CallKind::Over => this.is_alive = was_made,
                        }
                        transitions.push((ModelAction::CpiEnds { call, was_made, answer }, next_state));
                    }
                }
            }
        }
    }

    /// Lists the steps of keepers.
    fn run_keepers(&self, state: &ModelState, transitions: &mut Vec<(ModelAction, ModelState)>) {
        for (run, keeper) in state.keepers.iter().enumerate() {
            let Some(unpublished) = *keeper else { continue };
            let mut next_state = *state;
            next_state.keepers[run] = None;
            transitions.push((ModelAction::KeeperDies { run }, next_state));
            if unpublished == CallSet::default() {
                if state.holder == ModelHolder::Gone(to_u8(run)) {
                    self.give_back(&mut next_state, run);
                }
                transitions.push((ModelAction::KeeperEnds { run }, next_state));
            }
            for call in (0..CALL_COUNT).filter(|&call| unpublished.contains(call)) {
                if self.progress(&state.calls[call], run) == EvidentProgress::Running {
                    continue;
                }
                let mut next_state = *state;
                next_state.keepers[run] = Some(unpublished.without_call(call));
                next_state.calls[call].is_published = state.calls[call].is_announced;
                transitions.push((ModelAction::KeeperPublishes { run, call }, next_state));
            }
        }
    }

    /// Lists the transitions of the lock that no run causes.
    fn list_lock_transitions(&self, state: &ModelState, transitions: &mut Vec<(ModelAction, ModelState)>) {
        if state.holder == ModelHolder::None {
            return;
        }
        let mut next_state = *state;
        (next_state.holder, next_state.has_expired, next_state.is_unfenced) =
            (ModelHolder::None, false, false);
        next_state.is_removed = self.is_shared();
        transitions.push((ModelAction::OperatorRemovesLock, next_state));
        if !self.is_shared() {
            return;
        }
        let mut next_state = *state;
        next_state.has_expired = !state.has_expired;
        if next_state.has_expired {
            transitions.push((ModelAction::LeaseExpires, next_state));
        } else {
            transitions.push((ModelAction::LeaseIsRenewed, next_state));
        }
    }
}

/// Returns the outcome of a call whose process has ended.
fn outcome_of(call: &Call) -> CallOutcome {
    match call.content {
        AnswerContent::Unusable => CallOutcome::Unknown,
        AnswerContent::Result => CallOutcome::Answered,
        AnswerContent::Error => CallOutcome::Failed { made_nothing: false },
        AnswerContent::MadeNothing => CallOutcome::Failed { made_nothing: true },
    }
}

/// Checks the properties of a process that becomes the CPI.
fn check_start(state: &mut ModelState, number: usize) {
    let kind = state.calls[number].kind;
    if kind != CallKind::Create {
        return;
    }
    let is_again = |(other, call): (usize, &Call)| {
        other != number && call.kind == kind && call.is_made && call.is_announced
    };
    if state.calls.iter().enumerate().any(is_again) {
        state.violate(SINGLE_CALL_PROPERTY);
    }
    let vm = state.record.vm.first();
    if !state.is_removed && vm.is_some_and(|vm| state.calls[vm].is_alive) {
        state.violate(SINGLE_VM_PROPERTY);
    }
}

impl System for Model {
    type State = ModelState;
    type Action = ModelAction;

    fn key(&self, state: &ModelState) -> u128 {
        state.key().min(state.with_runs_swapped().key())
    }

    fn start(&self) -> ModelState {
        let mut start = ModelState::default();
        if self.resizes {
            start.calls[0] = Call { kind: CallKind::Create, is_alive: true, ..Call::default() };
            start.record.vm = CallSet::default().with_call(0);
        }
        start
    }

    fn add_transitions(&self, state: &ModelState, transitions: &mut Vec<(ModelAction, ModelState)>) {
        for run in 0..RUN_COUNT {
            self.act(state, run, transitions);
            if state.runs[run].phase != Phase::Off {
                let mut next_state = *state;
                self.end_process(&mut next_state, run, true);
                transitions.push((ModelAction::Kill { run }, next_state));
            }
        }
        self.run_cpis(state, transitions);
        self.run_keepers(state, transitions);
        self.list_lock_transitions(state, transitions);
        for (_, next_state) in transitions {
            if !self.is_shared() {
                next_state.forget_lost_runs();
            }
            next_state.tidy();
        }
    }

    fn violated_property(&self, state: &ModelState) -> Option<&'static str> {
        let is_known = |(number, call): (usize, &Call)| {
            !call.is_alive || call.is_announced || state.record.names(number)
        };
        let is_lost = !state.calls.iter().enumerate().all(is_known);
        let vm = state.record.vm.first().map(|vm| state.calls[vm]);
        let is_ahead = state.record.is_resized && vm.is_some_and(|vm| vm.is_alive && !vm.is_resized);
        state.violated_property.or(is_lost.then_some(RECORD_PROPERTY)).or(is_ahead.then_some(SIZE_PROPERTY))
    }

    fn is_settled(&self, state: &ModelState) -> bool {
        state.runs.iter().all(|run| run.phase == Phase::Off)
            && state.calls.iter().all(|call| call.process == CpiProcess::None && !call.is_announced)
            && (state.holder == ModelHolder::None || state.has_expired)
    }
}
