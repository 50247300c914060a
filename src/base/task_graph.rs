//! Runs a graph of tasks on a few threads. A task starts as soon as its dependencies are done and a thread of
//! its lane is free. If several tasks are ready, the one with the highest priority starts first.

use std::collections::BinaryHeap;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{Error, Result};

/// A task of the graph.
#[derive(Debug, Clone, Default)]
pub struct Task {
    /// The indices of the tasks that must be done before it.
    pub dependencies: Vec<usize>,
    /// Ready tasks with a higher priority start first.
    pub priority: u64,
    /// The group of threads on which it runs.
    pub lane: Lane,
}

/// A group of threads. Transfers and compilations have separate threads, so that neither has to wait for the
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lane {
    /// Downloads and uploads.
    #[default]
    Transfer,
    /// Work of another process or machine, such as compiling a package.
    Work,
}

const LANES: [Lane; 2] = [Lane::Transfer, Lane::Work];

/// The progress of all tasks.
struct GraphProgress {
    /// For each task, the count of its dependencies that are not done.
    unfinished_dependency_counts: Vec<usize>,
    /// For each lane, the priority and index of its ready tasks. Among tasks with the same priority, the
    /// lowest index is first.
    ready_tasks: [BinaryHeap<(u64, std::cmp::Reverse<usize>)>; LANES.len()],
    /// Number of tasks that are not done.
    unfinished_task_count: usize,
    first_error: Option<Error>,
}

impl GraphProgress {
    fn make_ready(&mut self, index: usize, task: &Task) {
        self.ready_tasks[task.lane as usize].push((task.priority, std::cmp::Reverse(index)));
    }
}

/// Calls `work` with the index of each task, on up to `threads` threads per lane.
///
/// After a failure no further task starts. Returns the first error when the running tasks have ended. A
/// dependency cycle and a dependency on a task that does not exist are errors.
pub fn run(tasks: &[Task], threads: usize, work: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    let mut dependents = vec![Vec::new(); tasks.len()];
    for (index, task) in tasks.iter().enumerate() {
        for dependency in &task.dependencies {
            dependents
                .get_mut(*dependency)
                .ok_or_else(|| Error::failure(format!("task {index} depends on a missing task")))?
                .push(index);
        }
    }
    let unfinished_dependency_counts: Vec<usize> = tasks.iter().map(|task| task.dependencies.len()).collect();
    let mut progress = GraphProgress {
        unfinished_dependency_counts,
        ready_tasks: Default::default(),
        unfinished_task_count: tasks.len(),
        first_error: None,
    };
    for (index, task) in tasks.iter().enumerate().filter(|(_, task)| task.dependencies.is_empty()) {
        progress.make_ready(index, task);
    }
    let progress = Mutex::new(progress);
    let progress_changed = Condvar::new();
    std::thread::scope(|scope| {
        for lane in LANES.into_iter().flat_map(|lane| {
            let task_count = tasks.iter().filter(|task| task.lane == lane).count();
            std::iter::repeat_n(lane, threads.max(1).min(task_count))
        }) {
            let (progress, progress_changed, dependents) = (&progress, &progress_changed, &dependents);
            scope.spawn(move || {
                while let Some(index) = wait_for_task(progress.lock(), progress_changed, lane) {
                    let outcome = work(index);
                    let mut progress = progress.lock();
                    finish_task(&mut progress, index, outcome, dependents, tasks);
                    progress_changed.notify_all();
                }
            });
        }
    });
    let progress = progress.into_inner();
    match progress.first_error {
        Some(error) => Err(error),
        None if progress.unfinished_task_count > 0 => Err(Error::failure("dependency cycle of tasks")),
        None => Ok(()),
    }
}

/// Waits for a ready task of the lane and returns its index. Returns `None` when no more tasks will start.
fn wait_for_task(
    mut progress: MutexGuard<'_, GraphProgress>,
    progress_changed: &Condvar,
    lane: Lane,
) -> Option<usize> {
    loop {
        if progress.first_error.is_some() || progress.unfinished_task_count == 0 {
            return None;
        }
        if let Some((_, std::cmp::Reverse(index))) = progress.ready_tasks[lane as usize].pop() {
            return Some(index);
        }
        progress_changed.wait(&mut progress);
    }
}

/// Records the outcome of a task, and makes the tasks ready that waited only for it.
fn finish_task(
    progress: &mut GraphProgress,
    index: usize,
    outcome: Result<()>,
    dependents: &[Vec<usize>],
    tasks: &[Task],
) {
    progress.unfinished_task_count -= 1;
    if let Err(error) = outcome {
        progress.first_error.get_or_insert(error);
        return;
    }
    for dependent in &dependents[index] {
        progress.unfinished_dependency_counts[*dependent] -= 1;
        if progress.unfinished_dependency_counts[*dependent] == 0 {
            progress.make_ready(*dependent, &tasks[*dependent]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    fn task(dependencies: &[usize], priority: u64) -> Task {
        Task { dependencies: dependencies.to_vec(), priority, lane: Lane::Work }
    }

    #[test]
    fn tasks_start_after_their_dependencies_and_by_priority() {
        let tasks = [task(&[], 1), task(&[0], 0), task(&[], 9), task(&[2], 5), task(&[1, 3], 0)];
        let order = Mutex::new(Vec::new());
        run(&tasks, 1, &|index| {
            order.lock().push(index);
            Ok(())
        })
        .unwrap();
        assert_eq!(*order.lock(), [2, 3, 0, 1, 4]);
    }

    #[test]
    fn independent_tasks_run_in_parallel_up_to_the_limit() {
        let tasks = vec![Task::default(); 12];
        let (now, max_parallel) = (AtomicUsize::new(0), AtomicUsize::new(0));
        run(&tasks, 3, &|_| {
            max_parallel.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(10));
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        })
        .unwrap();
        assert_eq!(max_parallel.into_inner(), 3);
    }

    #[test]
    fn slow_task_delays_only_its_dependents() {
        // Task 0 is slow and task 1 depends on it. The chain 2, 3, 4 must not wait for them.
        let tasks = [task(&[], 0), task(&[0], 0), task(&[], 0), task(&[2], 0), task(&[3], 0)];
        let finished_tasks = Mutex::new(Vec::new());
        run(&tasks, 2, &|index| {
            if index == 0 {
                std::thread::sleep(Duration::from_millis(100));
            }
            finished_tasks.lock().push(index);
            Ok(())
        })
        .unwrap();
        assert_eq!(*finished_tasks.lock(), [2, 3, 4, 0, 1]);
    }

    #[test]
    fn lanes_run_independently() {
        let slow = Task { lane: Lane::Work, ..Task::default() };
        let tasks = [slow.clone(), slow, Task::default(), Task::default()];
        let finished_tasks = Mutex::new(Vec::new());
        run(&tasks, 1, &|index| {
            if index < 2 {
                std::thread::sleep(Duration::from_millis(60));
            }
            finished_tasks.lock().push(index);
            Ok(())
        })
        .unwrap();
        assert_eq!(*finished_tasks.lock(), [2, 3, 0, 1]);
    }

    #[test]
    fn after_a_failure_no_further_task_starts() {
        let start_count = AtomicUsize::new(0);
        let error = run(&[task(&[], 1), task(&[0], 0), task(&[], 0)], 1, &|_| {
            start_count.fetch_add(1, Ordering::SeqCst);
            Err(Error::failure("no"))
        })
        .unwrap_err();
        assert_eq!((error.to_string().as_str(), start_count.into_inner()), ("no", 1));
    }

    #[test]
    fn empty_graph_succeeds() {
        run(&[], 4, &|_| Ok(())).unwrap();
    }
}
