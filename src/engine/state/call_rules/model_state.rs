//! The state of the model: state file, journal, lock, runs, CPI processes and cloud.

use super::CallOutcome;

/// The number of runs at a time. When a run ends, another one may follow.
pub(super) const RUN_COUNT: usize = 2;
/// The total number of calls.
pub(super) const CALL_COUNT: usize = 3;

/// A small set of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CallSet(pub(super) u8);

impl CallSet {
    pub(super) fn contains(self, call: usize) -> bool {
        self.0 & (1 << call) != 0
    }

    #[must_use]
    pub(super) fn with_call(self, call: usize) -> CallSet {
        CallSet(self.0 | (1 << call))
    }

    #[must_use]
    pub(super) fn without_call(self, call: usize) -> CallSet {
        CallSet(self.0 & !(1 << call))
    }

    pub(super) fn first(self) -> Option<usize> {
        (0..CALL_COUNT).find(|&call| self.contains(call))
    }
}

/// The content of the state. Resources are named by the calls that made them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ModelRecord {
    /// The VM on record; at most one.
    pub(super) vm: CallSet,
    /// True if the VM was resized.
    pub(super) is_resized: bool,
    /// The creating calls of the suspects on record.
    pub(super) suspects: CallSet,
}

/// The effect of a call. A number names the call that created the resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum CallKind {
    /// The call is not planned yet.
    #[default]
    Unused,
    Create,
    Delete(u8),
    /// Changes the resource and leaves it in its place, as `resize_disk` does.
    Resize(u8),
    /// The call is over and left no trace.
    Over,
}

/// The process of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum CpiProcess {
    #[default]
    None,
    /// Forked from the run, and not yet the CPI.
    Forked,
    Running,
}

/// The content of an answer file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum AnswerContent {
    #[default]
    Unusable,
    Result,
    Error,
    /// The error of a built-in CPI that states that it made nothing.
    MadeNothing,
}

/// The name of the file for the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum AnswerFile {
    #[default]
    Missing,
    Prepared,
    Answer,
}

/// A call, with its files, its process and its effect in the cloud.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) kind: CallKind,
    /// The run that makes it.
    pub(super) run: u8,
    /// True if the intent is in the journal.
    pub(super) is_announced: bool,
    pub(super) file: AnswerFile,
    /// True if the run holds the lock of the prepared file.
    pub(super) is_held: bool,
    pub(super) process: CpiProcess,
    /// True once the process became the CPI.
    pub(super) is_made: bool,
    pub(super) content: AnswerContent,
    /// True if a keeper published the outcome.
    pub(super) is_published: bool,
    /// True if the resource exists in the cloud.
    pub(super) is_alive: bool,
    /// True if the resource was resized in the cloud.
    pub(super) is_resized: bool,
}

/// The phase of a run. The first number is that of the call that it works on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Off,
    /// Has taken the lock, and writes the state first.
    Fencing,
    /// Has the lock, and reads the state.
    Reading,
    /// Has read the state, and reads the journal.
    Listing,
    /// Looks at one of the open calls. The model takes them in any order.
    Recovering,
    /// Takes the step of this number before the call.
    Preparing(u8, u8),
    /// Waits for the process of its call.
    Waiting(u8),
    /// Takes the step of this number to end a call with this outcome.
    Concluding(u8, CallOutcome, u8),
    /// Gives the lock back.
    Ending,
}

/// A run that makes and recovers calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) phase: Phase,
    /// True with `--forget-open-calls`.
    pub(super) forgets: bool,
    /// The open calls that it found and has not yet settled.
    pub(super) open: CallSet,
    /// The state as the run read or wrote it last.
    pub(super) view: ModelRecord,
    /// True if another run has written the state since.
    pub(super) is_stale: bool,
    /// True if the run found its lease good before the next request.
    pub(super) is_checked: bool,
}

/// The holder of the lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ModelHolder {
    #[default]
    None,
    Run(u8),
    /// A run that has ended, whose keeper may renew the lease.
    Gone(u8),
}

/// The keeper of a killed run: the calls whose outcome it still has to publish. `None` if it does not run.
pub(super) type ModelKeeper = Option<CallSet>;

/// The state of everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ModelState {
    pub(super) record: ModelRecord,
    pub(super) calls: [Call; CALL_COUNT],
    pub(super) runs: [Run; RUN_COUNT],
    pub(super) keepers: [ModelKeeper; RUN_COUNT],
    pub(super) holder: ModelHolder,
    /// True if another run may take over the lease.
    pub(super) has_expired: bool,
    /// True if the holder took over the lease and has not written the state yet.
    pub(super) is_unfenced: bool,
    /// True if the operator removed the lease. To the runs, it looks as if it was given back.
    pub(super) is_removed: bool,
    pub(super) violated_property: Option<&'static str>,
}

impl CallKind {
    fn without_target(self) -> CallKind {
        match self {
            CallKind::Delete(_) => CallKind::Delete(0),
            CallKind::Resize(_) => CallKind::Resize(0),
            kind => kind,
        }
    }

    pub(super) fn target(self) -> Option<usize> {
        match self {
            CallKind::Delete(target) | CallKind::Resize(target) => Some(target.into()),
            _ => None,
        }
    }
}

impl ModelRecord {
    pub(super) fn names(self, call: usize) -> bool {
        self.vm.contains(call) || self.suspects.contains(call)
    }

    /// Returns the record after a successful call. Returns `None` if the state rejects it: a second VM, or a
    /// change of a VM that is not on record.
    pub(super) fn record_after(self, kind: CallKind, call: usize) -> Option<ModelRecord> {
        let is_free_for = |vm| self.vm == CallSet::default() || self.vm.contains(vm);
        match kind {
            CallKind::Create => {
                is_free_for(call).then(|| ModelRecord { vm: self.vm.with_call(call), ..self })
            }
            CallKind::Delete(target) => is_free_for(target.into()).then(|| ModelRecord {
                vm: CallSet::default(),
                is_resized: false,
                ..self
            }),
            CallKind::Resize(target) => {
                self.vm.contains(target.into()).then_some(ModelRecord { is_resized: true, ..self })
            }
            CallKind::Unused | CallKind::Over => Some(self),
        }
    }
}

impl Phase {
    /// Returns the call that the run works on in this phase, if any.
    pub(super) fn call(self) -> Option<usize> {
        match self {
            Phase::Preparing(call, _) | Phase::Waiting(call) | Phase::Concluding(call, ..) => {
                Some(call.into())
            }
            _ => None,
        }
    }

    /// Returns true if the run has read the state.
    pub(super) fn has_read(self) -> bool {
        !matches!(self, Phase::Off | Phase::Fencing | Phase::Reading | Phase::Ending)
    }
}

/// Packs small numbers into one, so that a map finds a state quickly.
#[derive(Default)]
struct BitPacker(u128);

impl BitPacker {
    fn add(&mut self, bits: u32, numbers: impl IntoIterator<Item = u8>) {
        for number in numbers {
            debug_assert!(u32::from(number) < 1 << bits);
            self.0 = (self.0 << bits) | u128::from(number);
        }
    }

    fn add_call(&mut self, call: &Call) {
        let kind = match call.kind {
            CallKind::Unused => 0,
            CallKind::Create => 1,
            CallKind::Over => 2,
            CallKind::Delete(target) => 3 + target,
            CallKind::Resize(target) => 3 + to_u8(CALL_COUNT) + target,
        };
        self.add(4, [kind]);
        self.add(2, [call.file as u8, call.process as u8, call.content as u8]);
        let flags = [call.is_announced, call.is_held, call.is_made, call.is_published];
        self.add(1, flags.map(u8::from));
        self.add(1, [call.is_alive, call.is_resized].map(u8::from));
        self.add(1, [call.run]);
    }

    fn add_run(&mut self, run: &Run) {
        let (phase, call, outcome, step) = match run.phase {
            Phase::Off => (0, 0, 0, 0),
            Phase::Fencing => (1, 0, 0, 0),
            Phase::Reading => (2, 0, 0, 0),
            Phase::Listing => (3, 0, 0, 0),
            Phase::Recovering => (4, 0, 0, 0),
            Phase::Preparing(call, step) => (5, call, 0, step),
            Phase::Waiting(call) => (6, call, 0, 0),
            Phase::Ending => (7, 0, 0, 0),
            Phase::Concluding(call, outcome, step) => {
                let outcome = match outcome {
                    CallOutcome::NeverStarted => 0,
                    CallOutcome::Answered => 1,
                    CallOutcome::Failed { made_nothing: false } => 2,
                    CallOutcome::Failed { made_nothing: true } => 3,
                    CallOutcome::Unknown => 4,
                    CallOutcome::Running => 5,
                };
                (8, call, outcome, step)
            }
        };
        self.add(4, [phase]);
        self.add(3, [call, outcome, step, run.open.0, run.view.vm.0, run.view.suspects.0]);
        self.add(1, [run.forgets, run.is_stale, run.is_checked, run.view.is_resized].map(u8::from));
    }
}

pub(super) fn to_u8(number: usize) -> u8 {
    u8::try_from(number).unwrap()
}

impl ModelState {
    /// Exchanges the two runs, which makes no difference to any property.
    pub(super) fn with_runs_swapped(mut self) -> ModelState {
        self.runs.swap(0, 1);
        self.keepers.swap(0, 1);
        for (number, call) in self.calls.iter_mut().enumerate() {
            let Call { kind, is_alive, is_resized, .. } = *call;
            let is_over = *call == Call { kind, is_alive, is_resized, ..Call::default() };
            // A call that is over belongs to no run.
            if !is_over || self.runs.iter().any(|run| run.phase.call() == Some(number)) {
                call.run = 1 - call.run;
            }
        }
        self.holder = match self.holder {
            ModelHolder::None => ModelHolder::None,
            ModelHolder::Run(run) => ModelHolder::Run(1 - run),
            ModelHolder::Gone(run) => ModelHolder::Gone(1 - run),
        };
        self
    }

    /// Renumbers the calls, so that states that differ only in these numbers are mostly the same.
    fn renumbered(mut self) -> ModelState {
        let mut order: [usize; CALL_COUNT] = std::array::from_fn(|number| number);
        order.sort_by_cached_key(|&number| {
            let mut packer = BitPacker::default();
            packer.add_call(&Call { kind: self.calls[number].kind.without_target(), ..self.calls[number] });
            let sets = self.runs.iter().flat_map(|run| [run.open, run.view.vm, run.view.suspects]);
            let sets = sets.chain([self.record.vm, self.record.suspects]);
            packer.add(1, sets.map(|set| u8::from(set.contains(number))));
            packer.add(1, self.runs.iter().map(|run| u8::from(run.phase.call() == Some(number))));
            packer.0
        });
        let new_number = |old: usize| order.iter().position(|&number| number == old).unwrap_or_default();
        let renumber_set = |set: &mut CallSet| {
            let members = (0..CALL_COUNT).filter(|&number| set.contains(number));
            *set = members.fold(CallSet::default(), |members, number| members.with_call(new_number(number)));
        };
        let renumber = |number: &mut u8| *number = to_u8(new_number((*number).into()));
        for run in &mut self.runs {
            [&mut run.open, &mut run.view.vm, &mut run.view.suspects].into_iter().for_each(renumber_set);
            match &mut run.phase {
                Phase::Preparing(call, _) | Phase::Waiting(call) | Phase::Concluding(call, ..) => {
                    renumber(call)
                }
                _ => {}
            }
        }
        [&mut self.record.vm, &mut self.record.suspects].into_iter().for_each(renumber_set);
        self.keepers.iter_mut().flatten().for_each(renumber_set);
        for call in &mut self.calls {
            if let CallKind::Delete(target) | CallKind::Resize(target) = &mut call.kind {
                renumber(target);
            }
        }
        self.calls = order.map(|old| self.calls[old]);
        self
    }

    /// Returns a number that identifies this state. States that differ only in the numbers of calls may share
    /// it.
    pub(super) fn key(&self) -> u128 {
        self.renumbered().to_bits()
    }

    fn to_bits(self) -> u128 {
        let mut packer = BitPacker::default();
        self.calls.iter().for_each(|call| packer.add_call(call));
        self.runs.iter().for_each(|run| packer.add_run(run));
        packer.add(3, [self.record.vm.0, self.record.suspects.0]);
        packer.add(1, [u8::from(self.record.is_resized)]);
        packer.add(4, self.keepers.map(|keeper| keeper.map_or(0, |calls| 8 | calls.0)));
        let holder = match self.holder {
            ModelHolder::None => 0,
            ModelHolder::Run(run) => 1 + run,
            ModelHolder::Gone(run) => 3 + run,
        };
        packer.add(3, [holder]);
        packer.add(
            1,
            [self.has_expired, self.is_removed, self.is_unfenced, self.violated_property.is_some()]
                .map(u8::from),
        );
        packer.0
    }

    /// Clears the knowledge of runs that have lost the lock of a directory, because they only wait and end.
    pub(super) fn forget_lost_runs(&mut self) {
        for (number, run) in self.runs.iter_mut().enumerate() {
            let is_lost = self.holder != ModelHolder::Run(to_u8(number));
            if is_lost && matches!(run.phase, Phase::Waiting(_) | Phase::Concluding(_, _, 0)) {
                *run = Run { phase: run.phase, ..Run::default() };
            }
        }
    }

    /// Notes the first violated property.
    pub(super) fn violate(&mut self, property: &'static str) {
        self.violated_property = self.violated_property.or(Some(property));
    }

    /// Clears facts on which nothing depends any more, so that equivalent situations are equal states.
    pub(super) fn tidy(&mut self) {
        for run in &mut self.runs {
            if matches!(run.phase, Phase::Off | Phase::Fencing | Phase::Reading | Phase::Ending) {
                *run = Run { phase: run.phase, forgets: run.forgets, ..Run::default() };
            }
            let is_done =
                run.open == CallSet::default() && run.phase.has_read() && run.phase != Phase::Listing;
            if is_done || run.phase == Phase::Ending {
                run.forgets = false;
            }
        }
        if self.runs.iter().all(|run| run.phase == Phase::Off) {
            self.is_removed = false;
        }
        // No step depends on a suspect whose resource does not exist.
        for number in (0..CALL_COUNT).filter(|&number| !self.calls[number].is_alive) {
            for record in self.runs.iter_mut().map(|run| &mut run.view).chain([&mut self.record]) {
                record.suspects = record.suspects.without_call(number);
            }
        }
        for number in 0..CALL_COUNT {
            let is_busy = |run: &Run| run.phase.call() == Some(number) || run.open.contains(number);
            let call = self.calls[number];
            if call.is_announced || call.process != CpiProcess::None || self.runs.iter().any(is_busy) {
                continue;
            }
            let Call { kind, is_alive, is_resized, .. } = call;
            let is_target = |other: &Call| other.kind.target() == Some(number);
            let is_named = self.record.names(number) || self.runs.iter().any(|run| run.view.names(number));
            let matters =
                is_alive || is_named || self.calls.iter().any(is_target) || kind == CallKind::Unused;
            let kind = if matters { kind } else { CallKind::Over };
            let is_resized = is_resized && is_alive;
            self.calls[number] = Call { kind, is_alive, is_resized, ..Call::default() };
        }
    }
}
