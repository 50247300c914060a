//! Accounts for the memory, the work and the time of one rendering.
//!
//! Each rendering has a thread of its own, and thread-local variables hold the account. So a value is counted
//! where it is created and where it is dropped, without access to the interpreter.
//!
//! Code of the interpreter gets an exceeded limit as an error. Code without access to the interpreter, such
//! as the comparison of two keys, unwinds the thread instead ([`step_or_unwind`], [`Charge`]); `eval::run`
//! catches that.

use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The resources that one rendering may use.
///
/// A template that exceeds `steps`, `memory` or `timeout` fails with
/// [`RenderError::Limit`](crate::RenderError::Limit).
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The work: expressions evaluated, elements visited, and bytes read or written. 16 bytes are one step.
    pub steps: u64,
    /// The bytes of all values at one time.
    pub memory: u64,
    /// The bytes of stack of the rendering thread. When three quarters are used, the template gets Ruby's
    /// `SystemStackError`.
    pub stack: usize,
    /// The timeout of evaluating a template.
    pub timeout: Duration,
}

impl Default for Limits {
    /// Returns limits of 50 million steps, 256 MiB of memory, 256 MiB of stack and 8 seconds.
    fn default() -> Self {
        Limits { steps: 50_000_000, memory: 256 << 20, stack: 256 << 20, timeout: Duration::from_secs(8) }
    }
}

/// Returns the signal that interrupted the run, if any.
pub type SignalCheck = Arc<dyn Fn() -> Option<u8> + Send + Sync>;

/// The number of steps after which time and signals are checked again. That many take about a millisecond.
const CHECK_INTERVAL_STEPS: u64 = 16_384;
/// The number of bytes that are read or written in one step.
const BYTES_PER_STEP: usize = 16;
/// Reading or writing fewer bytes than this counts no steps of its own.
const FREE_BYTES: usize = 512;

/// The reason to end a rendering early.
#[derive(Debug)]
pub(crate) enum Abort {
    /// A limit, as a sentence.
    Limit(String),
    /// The number of a signal.
    Interrupted(u8),
}

thread_local! {
    /// The steps counted so far.
    static STEPS: Cell<u64> = const { Cell::new(0) };
    /// The number of steps at which `check` runs next.
    static NEXT_CHECK: Cell<u64> = const { Cell::new(u64::MAX) };
    /// The bytes of all values, and of scratch memory.
    static MEMORY: Cell<u64> = const { Cell::new(0) };
    /// The part of `MEMORY` that is released when the current method of Ruby returns.
    static SCRATCH: Cell<u64> = const { Cell::new(0) };
    /// The limit of `MEMORY`.
    static MAX_MEMORY: Cell<u64> = const { Cell::new(u64::MAX) };
    /// The account of the rendering on this thread.
    static ACCOUNT: RefCell<Option<Account>> = const { RefCell::new(None) };
}

/// The values that `check` reads.
struct Account {
    limits: Limits,
    start: Instant,
    signal_check: Option<SignalCheck>,
}

/// Starts the account of a rendering on this thread.
pub(crate) fn start(limits: Limits, signal_check: Option<SignalCheck>) {
    STEPS.set(0);
    MEMORY.set(0);
    MAX_MEMORY.set(limits.memory);
    ACCOUNT.set(Some(Account { limits, start: Instant::now(), signal_check }));
    NEXT_CHECK.set(CHECK_INTERVAL_STEPS.min(limits.steps));
}

/// Ends the account, so that the thread can drop values and describe errors without limits.
pub(crate) fn end() {
    NEXT_CHECK.set(u64::MAX);
    MAX_MEMORY.set(u64::MAX);
}

#[inline(always)]
pub(crate) fn step(count: u64) -> Result<(), Abort> {
    let steps = STEPS.get().saturating_add(count);
    STEPS.set(steps);
    if steps > NEXT_CHECK.get() { check(steps) } else { Ok(()) }
}

/// Checks for signals, the limit of steps and the timeout, and sets the step of the next check.
#[cold]
fn check(steps: u64) -> Result<(), Abort> {
    ACCOUNT.with_borrow(|account| {
        let Some(account) = account else { return Ok(()) };
        if let Some(signal) = account.signal_check.as_ref().and_then(|signal_check| signal_check()) {
            return Err(Abort::Interrupted(signal));
        }
        let Limits { steps: limit, timeout, .. } = account.limits;
        if steps > limit {
            return Err(Abort::Limit(format!("the template ran for more than {limit} steps")));
        }
        if account.start.elapsed() > timeout {
            let text = format!("the template ran for more than {} s", timeout.as_secs_f64());
            return Err(Abort::Limit(text));
        }
        NEXT_CHECK.set(steps.saturating_add(CHECK_INTERVAL_STEPS).min(limit));
        Ok(())
    })
}

/// Counts the steps of reading or writing this many bytes.
#[inline(always)]
pub(crate) fn step_bytes(bytes: usize) -> Result<(), Abort> {
    if bytes < FREE_BYTES { Ok(()) } else { step((bytes / BYTES_PER_STEP) as u64) }
}

/// Counts steps, and unwinds the thread when a limit is exceeded.
#[inline(always)]
pub(crate) fn step_or_unwind(count: u64) {
    if let Err(abort) = step(count) {
        resume_unwind(Box::new(abort));
    }
}

/// Unwinds the thread because a limit is exceeded. `sentence` says which one.
pub(crate) fn unwind_with_limit_error(sentence: String) -> ! {
    resume_unwind(Box::new(Abort::Limit(sentence)))
}

/// Counts memory.
#[inline(always)]
pub(crate) fn charge(bytes: usize) -> Result<(), Abort> {
    let memory = MEMORY.get().saturating_add(bytes as u64);
    if memory > MAX_MEMORY.get() {
        return Err(memory_limit_error());
    }
    MEMORY.set(memory);
    Ok(())
}

/// Returns the error for too much memory.
#[cold]
fn memory_limit_error() -> Abort {
    Abort::Limit(format!("the values of the template need more than {} MiB", MAX_MEMORY.get() >> 20))
}

/// Checks that this much more memory would not exceed the limit.
#[inline(always)]
pub(crate) fn check_room(bytes: usize) -> Result<(), Abort> {
    if MEMORY.get().saturating_add(bytes as u64) > MAX_MEMORY.get() {
        Err(memory_limit_error())
    } else {
        Ok(())
    }
}

/// Memory that counts until this is dropped.
#[derive(Default)]
pub(crate) struct Charge(Cell<usize>);

impl Charge {
    /// Counts memory, and the work of filling it. Unwinds the thread when a limit is exceeded.
    #[inline(always)]
    pub(crate) fn new(bytes: usize) -> Charge {
        let charge = Charge::default();
        charge.grow(bytes);
        charge
    }

    /// Counts more memory. Unwinds the thread when a limit is exceeded.
    #[inline(always)]
    pub(crate) fn grow(&self, bytes: usize) {
        if let Err(abort) = charge(bytes).and_then(|()| {
            self.0.set(self.0.get() + bytes);
            step_bytes(bytes)
        }) {
            resume_unwind(Box::new(abort));
        }
    }

    /// Counts memory. Returns an error when a limit is exceeded.
    #[inline(always)]
    pub(crate) fn try_new(bytes: usize) -> Result<Charge, Abort> {
        charge(bytes)?;
        Ok(Charge(Cell::new(bytes)))
    }

    /// Returns the counted bytes.
    pub(crate) fn size(&self) -> usize {
        self.0.get()
    }

    /// Changes the counted memory to the new size of a value.
    #[inline(always)]
    pub(crate) fn resize(&self, bytes: usize) {
        let old_bytes = self.0.get();
        if bytes > old_bytes {
            self.grow(bytes - old_bytes);
        } else {
            MEMORY.set(MEMORY.get().saturating_sub((old_bytes - bytes) as u64));
            self.0.set(bytes);
        }
    }
}

impl Drop for Charge {
    #[inline(always)]
    fn drop(&mut self) {
        MEMORY.set(MEMORY.get().saturating_sub(self.0.get() as u64));
    }
}

/// Releases the scratch memory of a method of Ruby on drop, see [`use_scratch`]. The field is the scratch
/// memory of the calling method, which the drop restores.
pub(crate) struct MethodMemory(u64);

impl MethodMemory {
    #[inline(always)]
    pub(crate) fn begin() -> MethodMemory {
        MethodMemory(SCRATCH.replace(0))
    }
}

impl Drop for MethodMemory {
    #[inline(always)]
    fn drop(&mut self) {
        MEMORY.set(MEMORY.get().saturating_sub(SCRATCH.replace(self.0)));
    }
}

/// Counts scratch memory, and the work of filling it. It is released when the current method of Ruby returns.
#[inline(always)]
pub(crate) fn use_scratch(bytes: usize) -> Result<(), Abort> {
    count_scratch_memory(bytes)?;
    step_bytes(bytes)
}

/// Counts scratch memory without the work of filling it. It is released when the current method of Ruby
/// returns.
#[inline(always)]
pub(crate) fn count_scratch_memory(bytes: usize) -> Result<(), Abort> {
    charge(bytes)?;
    SCRATCH.set(SCRATCH.get().saturating_add(bytes as u64));
    Ok(())
}
