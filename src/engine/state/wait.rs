//! Waits for the answer of a CPI process that another run started.

use std::time::{Duration, Instant};

/// The time after which a complete answer counts although the file is still locked. A background process that
/// the CPI left running also holds the lock.
const FILE_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until the process of a call has ended, or until a complete answer has been there for
/// [`FILE_LOCK_TIMEOUT`].
///
/// `check_process` returns the outcome once the process has ended. `check_output` returns the outcome if the
/// output so far is a complete answer. `pause` sleeps between two checks.
pub fn wait_for_answer<T, E>(
    mut check_process: impl FnMut() -> Result<Option<T>, E>,
    mut check_output: impl FnMut() -> Result<Option<T>, E>,
    mut pause: impl FnMut() -> Result<(), E>,
) -> Result<T, E> {
    let mut complete_since: Option<Instant> = None;
    loop {
        if let Some(outcome) = check_process()? {
            return Ok(outcome);
        }
        match check_output()? {
            Some(outcome)
                if complete_since.get_or_insert_with(Instant::now).elapsed() > FILE_LOCK_TIMEOUT =>
            {
                return Ok(outcome);
            }
            Some(_) => {}
            None => complete_since = None,
        }
        pause()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_the_process_or_a_settled_answer() {
        let (mut checks, mut pauses) = (0, 0);
        let check_process = || {
            checks += 1;
            Ok((checks == 3).then_some("ended"))
        };
        let pause = || {
            pauses += 1;
            Ok(())
        };
        // The complete answer has not been there for long enough.
        assert_eq!(wait_for_answer::<_, ()>(check_process, || Ok(Some("whole")), pause), Ok("ended"));
        assert_eq!(pauses, 2);
    }

    #[test]
    fn interrupted_pause_ends_the_wait() {
        let outcome: Result<(), _> = wait_for_answer(|| Ok(None), || Ok(None), || Err("interrupted"));
        assert_eq!(outcome, Err("interrupted"));
    }
}
