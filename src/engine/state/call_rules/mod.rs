//! The rules of the journal as pure functions: the steps before a call, the evidence that it leaves behind,
//! and the steps that conclude it.
//!
//! The run that makes a call and the run that recovers it follow the same rules. `model.rs` explores every
//! interleaving of two runs that use these functions. Even the simplest rule is a function, so that the tests
//! can explore a wrong one in its place. The reasons are in `docs/journal.md`, "Rules of the journal".

#[cfg(test)]
mod explorer;
#[cfg(test)]
mod model;
#[cfg(test)]
mod model_state;
#[cfg(test)]
mod model_tests;

/// A step before the CPI process of a call starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preparation {
    /// Makes the intent durable.
    Announce,
    /// Creates the locked file for the answer.
    PrepareAnswer,
    /// Confirms that this run still has the lock.
    ConfirmLock,
}

/// The steps before a CPI process starts, in their order. They ensure that a run which takes the lock after
/// the confirmation finds the intent, and a file that is locked until the process has ended.
pub(crate) const PREPARATIONS: [Preparation; 3] =
    [Preparation::Announce, Preparation::PrepareAnswer, Preparation::ConfirmLock];

/// The state of one file of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileState {
    /// There is no such file.
    Missing,
    /// A process holds its lock.
    Held,
    /// No process holds its lock.
    Free,
}

/// A document in which another machine published the outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublishedDocument {
    Answer,
    /// The note that the call was never made.
    NeverStarted,
}

/// The sources from which a run learns the progress of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The files of the call on this machine. `prepared_file` must be checked first, because the file is only
    /// ever renamed from the first name to the second.
    Files {
        /// The file under its name before the process runs.
        prepared_file: FileState,
        /// The file under its name once the process runs.
        answer_file: FileState,
    },
    /// The journal, because another machine was to make the call.
    Journal(Option<PublishedDocument>),
}

/// The progress of a call's process, as far as [`Evidence`] proves it. Holds no output, so that the rules
/// stay pure functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EvidentProgress {
    /// The process was never started.
    NeverStarted,
    /// The process is about to start, or runs.
    Running,
    /// The process has ended.
    Ended,
    /// Another machine was to make the call, and its progress is unknown here.
    OnOtherMachine,
}

/// Returns the progress of a call according to the evidence.
pub(crate) fn progress(evidence: Evidence) -> EvidentProgress {
    match evidence {
        Evidence::Files { prepared_file: FileState::Held, .. } => EvidentProgress::Running,
        Evidence::Files { answer_file: FileState::Missing, .. } => EvidentProgress::NeverStarted,
        Evidence::Files { answer_file: FileState::Held, .. } => EvidentProgress::Running,
        Evidence::Files { answer_file: FileState::Free, .. } => EvidentProgress::Ended,
        Evidence::Journal(Some(PublishedDocument::Answer)) => EvidentProgress::Ended,
        Evidence::Journal(Some(PublishedDocument::NeverStarted)) => EvidentProgress::NeverStarted,
        Evidence::Journal(None) => EvidentProgress::OnOtherMachine,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// The CPI was not called.
    NeverStarted,
    /// The CPI answered, and the state accepts the changes that follow from the answer.
    Answered,
    /// The CPI answered with an error.
    Failed {
        /// True if the call certainly created nothing.
        made_nothing: bool,
    },
    /// There is no usable answer, or it is on another machine.
    Unknown,
    /// The process still runs, and the run has stopped waiting for it.
    Running,
}

/// A step that concludes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConcludingStep {
    /// Commits the changes that follow from the answer.
    Record,
    /// Commits a suspect.
    RecordSuspect,
    /// Removes the intent.
    Settle,
    /// Keeps the intent, and ends the run with an error.
    StayOpen,
}

/// Returns the steps that conclude a call with this outcome, in their order. `may_forget` is true if the
/// operator has looked for the resources of calls with an unknown outcome.
pub(crate) fn concluding_steps(
    outcome: CallOutcome,
    creates: bool,
    may_forget: bool,
) -> &'static [ConcludingStep] {
    use ConcludingStep::{Record, RecordSuspect, Settle, StayOpen};

    match outcome {
        CallOutcome::NeverStarted => &[Settle],
        CallOutcome::Answered => &[Record, Settle],
        CallOutcome::Failed { made_nothing: false } if creates => &[RecordSuspect, Settle],
        CallOutcome::Failed { .. } => &[Settle],
        CallOutcome::Unknown if creates && !may_forget => &[StayOpen],
        // Other effects are about recorded resources, and the plan of the run decides about them again.
        CallOutcome::Unknown => &[Settle],
        CallOutcome::Running => &[StayOpen],
    }
}

/// Returns true if a run must write the state before it reads it, so that the earlier holder of the lock can
/// no longer write. This is needed if the process of the earlier holder may still live.
pub(crate) fn must_fence(was_taken_over: bool) -> bool {
    was_taken_over
}

/// Returns true if a run may give its lease back, so that the next run takes it without a fence. A run that
/// ends before its fence lets the lease expire.
pub(crate) fn may_give_back(is_unfenced: bool) -> bool {
    !is_unfenced
}
