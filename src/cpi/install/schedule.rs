//! Does work in the order of dependencies, as much of it at once as allowed.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Error, Result};

struct Board {
    /// What can be begun.
    ready: VecDeque<usize>,
    /// For each piece, how many it waits for.
    waits_for: Vec<usize>,
    /// How many are not done.
    left: usize,
    /// The first error; nothing is begun after it.
    error: Option<Error>,
}

/// Does each piece after those it depends on (by index), `parallel` at once. After the first error nothing new
/// is begun, and it is what is returned.
pub(super) fn run(
    dependencies: &[Vec<usize>],
    parallel: usize,
    work: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    let waits_for: Vec<usize> = dependencies.iter().map(Vec::len).collect();
    let ready =
        waits_for.iter().enumerate().filter(|(_, count)| **count == 0).map(|(index, _)| index).collect();
    let board = Mutex::new(Board { ready, left: waits_for.len(), waits_for, error: None });
    let changed = Condvar::new();
    let lock = || board.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || -> Option<usize> {
        let mut board: MutexGuard<'_, Board> = lock();
        loop {
            if board.error.is_some() || board.left == 0 {
                return None;
            }
            if let Some(index) = board.ready.pop_front() {
                return Some(index);
            }
            board = changed.wait(board).unwrap_or_else(PoisonError::into_inner);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..parallel.clamp(1, dependencies.len().max(1)) {
            scope.spawn(|| {
                while let Some(done) = next() {
                    let result = work(done);
                    let mut board = lock();
                    match result {
                        Ok(()) => {
                            board.left -= 1;
                            for (index, needs) in dependencies.iter().enumerate() {
                                if needs.contains(&done) {
                                    board.waits_for[index] -= 1;
                                    if board.waits_for[index] == 0 {
                                        board.ready.push_back(index);
                                    }
                                }
                            }
                        }
                        Err(error) => {
                            board.error.get_or_insert(error);
                        }
                    }
                    changed.notify_all();
                }
            });
        }
    });
    let board = board.into_inner().unwrap_or_else(PoisonError::into_inner);
    board.error.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn dependencies_come_first_and_independent_pieces_at_once() {
        // 0 and 1 are independent, 2 needs both, 3 needs 2.
        let dependencies = [vec![], vec![], vec![0, 1], vec![0, 1, 2]];
        for parallel in [1, 2, 8] {
            let order = Mutex::new(Vec::new());
            let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            run(&dependencies, parallel, &|index| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(30));
                now.fetch_sub(1, Ordering::SeqCst);
                order.lock().unwrap().push(index);
                Ok(())
            })
            .unwrap();
            let order = order.into_inner().unwrap();
            assert_eq!(order.len(), 4);
            assert_eq!(order[2..], [2, 3]);
            assert_eq!(most.into_inner(), parallel.min(2));
        }
    }

    #[test]
    fn nothing_begins_after_an_error() {
        let dependencies = [vec![], vec![0], vec![0, 1]];
        let begun = AtomicUsize::new(0);
        let error = run(&dependencies, 4, &|index| {
            begun.fetch_add(1, Ordering::SeqCst);
            if index == 1 { Err(Error::environment("no")) } else { Ok(()) }
        })
        .unwrap_err();
        assert_eq!(error.to_string(), "no");
        assert_eq!(begun.into_inner(), 2);
        run(&[], 4, &|_| Ok(())).unwrap();
    }
}
