//! Runs tasks that wait for each other on a few threads: a task starts as soon as those before it are done and a
//! thread of its lane is free. Of those that could start, the one with the highest priority does.

use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{Error, Result};

/// One task.
#[derive(Debug, Clone, Default)]
pub struct Task {
    /// Numbers of the tasks that must be done before.
    pub after: Vec<usize>,
    /// Higher goes first.
    pub priority: u64,
    /// Which threads it runs on: those that wait for the network must not be held up by those that wait for a
    /// compiler, nor the other way round.
    pub lane: Lane,
}

/// A group of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lane {
    /// Moving bytes.
    #[default]
    Transfer,
    /// Waiting for work done elsewhere.
    Work,
}

const LANES: [Lane; 2] = [Lane::Transfer, Lane::Work];

struct Board {
    /// How many tasks each task still waits for.
    waits_for: Vec<usize>,
    /// Per lane: priority, and the number counted backwards, so that among equals the first goes first.
    ready: [BinaryHeap<(u64, std::cmp::Reverse<usize>)>; LANES.len()],
    left: usize,
    problem: Option<Error>,
}

impl Board {
    fn make_ready(&mut self, number: usize, task: &Task) {
        self.ready[task.lane as usize].push((task.priority, std::cmp::Reverse(number)));
    }
}

/// Runs all tasks by number on up to `threads` threads per lane. After a failure nothing new starts, what runs is waited
/// for, and the first error is returned.
pub fn run(tasks: &[Task], threads: usize, work: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    let mut followers = vec![Vec::new(); tasks.len()];
    for (number, task) in tasks.iter().enumerate() {
        for before in &task.after {
            followers
                .get_mut(*before)
                .ok_or_else(|| Error::environment("a task waits for one that does not exist"))?
                .push(number);
        }
    }
    let waits_for: Vec<usize> = tasks.iter().map(|task| task.after.len()).collect();
    let mut board = Board { waits_for, ready: Default::default(), left: tasks.len(), problem: None };
    for (number, task) in tasks.iter().enumerate().filter(|(_, task)| task.after.is_empty()) {
        board.make_ready(number, task);
    }
    let board = Mutex::new(board);
    let changed = Condvar::new();
    let lock = || board.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        for lane in LANES.into_iter().flat_map(|lane| {
            let tasks = tasks.iter().filter(|task| task.lane == lane).count();
            std::iter::repeat_n(lane, threads.max(1).min(tasks))
        }) {
            let (lock, changed, followers) = (&lock, &changed, &followers);
            scope.spawn(move || {
                while let Some(number) = next(lock(), changed, lane) {
                    let outcome = work(number);
                    let mut board = lock();
                    finish(&mut board, number, outcome, followers, tasks);
                    changed.notify_all();
                }
            });
        }
    });
    let board = board.into_inner().unwrap_or_else(PoisonError::into_inner);
    match board.problem {
        Some(problem) => Err(problem),
        None if board.left > 0 => Err(Error::environment("tasks wait for each other")),
        None => Ok(()),
    }
}

/// The next task to start; none when there will be none any more.
fn next(mut board: MutexGuard<'_, Board>, changed: &Condvar, lane: Lane) -> Option<usize> {
    loop {
        if board.problem.is_some() || board.left == 0 {
            return None;
        }
        if let Some((_, std::cmp::Reverse(number))) = board.ready[lane as usize].pop() {
            return Some(number);
        }
        board = changed.wait(board).unwrap_or_else(PoisonError::into_inner);
    }
}

fn finish(board: &mut Board, number: usize, outcome: Result<()>, followers: &[Vec<usize>], tasks: &[Task]) {
    board.left -= 1;
    if let Err(error) = outcome {
        board.problem.get_or_insert(error);
        return;
    }
    for follower in &followers[number] {
        board.waits_for[*follower] -= 1;
        if board.waits_for[*follower] == 0 {
            board.make_ready(*follower, &tasks[*follower]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    fn task(after: &[usize], priority: u64) -> Task {
        Task { after: after.to_vec(), priority, lane: Lane::Work }
    }

    #[test]
    fn tasks_start_when_those_before_are_done_and_the_important_ones_first() {
        let tasks = [task(&[], 1), task(&[0], 0), task(&[], 9), task(&[2], 5), task(&[1, 3], 0)];
        let order = Mutex::new(Vec::new());
        run(&tasks, 1, &|number| {
            order.lock().unwrap().push(number);
            Ok(())
        })
        .unwrap();
        assert_eq!(*order.lock().unwrap(), [2, 3, 0, 1, 4]);
    }

    #[test]
    fn independent_tasks_run_at_once_but_not_more_than_allowed() {
        let tasks = vec![Task::default(); 12];
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        run(&tasks, 3, &|_| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(10));
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        })
        .unwrap();
        assert_eq!(most.into_inner(), 3);
    }

    #[test]
    fn a_slow_task_holds_up_only_what_needs_it() {
        // 0 is slow and 1 needs it; 2, 3, 4 are a chain that must not wait for them as levels would.
        let tasks = [task(&[], 0), task(&[0], 0), task(&[], 0), task(&[2], 0), task(&[3], 0)];
        let done = Mutex::new(Vec::new());
        run(&tasks, 2, &|number| {
            if number == 0 {
                std::thread::sleep(Duration::from_millis(100));
            }
            done.lock().unwrap().push(number);
            Ok(())
        })
        .unwrap();
        assert_eq!(*done.lock().unwrap(), [2, 3, 4, 0, 1]);
    }

    #[test]
    fn the_lanes_do_not_hold_each_other_up() {
        let slow = Task { lane: Lane::Work, ..Task::default() };
        let tasks = [slow.clone(), slow, Task::default(), Task::default()];
        let done = Mutex::new(Vec::new());
        run(&tasks, 1, &|number| {
            if number < 2 {
                std::thread::sleep(Duration::from_millis(60));
            }
            done.lock().unwrap().push(number);
            Ok(())
        })
        .unwrap();
        assert_eq!(*done.lock().unwrap(), [2, 3, 0, 1]);
    }

    #[test]
    fn after_a_failure_nothing_new_starts() {
        let started = AtomicUsize::new(0);
        let error = run(&[task(&[], 1), task(&[0], 0), task(&[], 0)], 1, &|_| {
            started.fetch_add(1, Ordering::SeqCst);
            Err(Error::environment("no"))
        })
        .unwrap_err();
        assert_eq!((error.to_string().as_str(), started.into_inner()), ("no", 1));
    }

    #[test]
    fn nothing_to_do_is_done() {
        run(&[], 4, &|_| Ok(())).unwrap();
    }
}
