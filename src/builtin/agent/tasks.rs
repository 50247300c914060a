//! Long actions: each runs in its own thread and has a UUID. Clients poll its result with `get_task`.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde_json::{Value, json};

use super::process::TaskControl;
use base::error::ResultExt;
use base::{Error, Result};

/// The number of finished tasks whose results are kept.
const MAX_KEPT_TASKS: usize = 500;
/// The number of tasks that may run at the same time.
const MAX_RUNNING_TASKS: usize = 64;
/// The maximum time that `get_task` waits for the end of a task, so that clients learn of it at once. It is
/// short, because an interrupted client waits for the answer.
const TASK_ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

/// All tasks of this agent process.
#[derive(Clone, Default)]
pub(super) struct Tasks {
    table: Arc<Mutex<TaskTable>>,
    /// Wakes the requests that wait for the end of a task.
    task_ended: Arc<Condvar>,
}

/// The tasks by id: those that run, and the outcomes of those that have ended.
#[derive(Default)]
struct TaskTable {
    running_tasks: HashMap<String, TaskControl>,
    outcomes: HashMap<String, std::result::Result<Value, String>>,
    /// The ids of finished tasks, the oldest first.
    finished_ids: VecDeque<String>,
}

impl Tasks {
    /// Starts a task and returns the answer to the action: the task's id and state.
    pub(super) fn start(
        &self,
        name: &str,
        work: impl FnOnce(&TaskControl) -> Result<Value> + Send + 'static,
    ) -> Result<Value> {
        let id = uuid::Uuid::new_v4().to_string();
        let control = TaskControl::default();
        {
            let mut table = self.lock();
            if table.running_tasks.len() >= MAX_RUNNING_TASKS {
                return Err(Error::failure(format!(
                    "{MAX_RUNNING_TASKS} tasks are running already: wait for one to end"
                )));
            }
            table.running_tasks.insert(id.clone(), control.clone());
        }
        let (tasks, task_id) = (self.clone(), id.clone());
        let run = move || {
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| work(&control)))
                .unwrap_or_else(|_| Err(Error::failure("the agent had an internal error (a panic)")));
            if let Err(error) = &outcome {
                tracing::error!(task = task_id, error = %super::error_text(error), "task failed");
            }
            tasks.finish(task_id, outcome.map_err(|error| super::error_text(&error)));
        };
        if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(run) {
            self.lock().running_tasks.remove(&id);
            return Err(Error::io("starting a task", error));
        }
        Ok(running_task_answer(&id))
    }

    /// Returns the value or the error of a task. If the task still runs after [`TASK_ANSWER_TIMEOUT`],
    /// returns its id and state.
    pub(super) fn get(&self, id: &str) -> Result<Value> {
        let mut table = self.lock();
        let deadline = Instant::now() + TASK_ANSWER_TIMEOUT;
        while table.running_tasks.contains_key(id) {
            if self.task_ended.wait_until(&mut table, deadline).timed_out() {
                return Ok(running_task_answer(id));
            }
        }
        match table.outcomes.get(id) {
            Some(Ok(value)) => Ok(value.clone()),
            Some(Err(message)) => {
                Err(Error::failure(message.clone())).context(|| format!("Task {id} result"))
            }
            None => Err(unknown_task_error(id)),
        }
    }

    /// Ends the programs of a task. Succeeds if the task has ended already.
    pub(super) fn cancel(&self, id: &str) -> Result<Value> {
        let task = {
            let table = self.lock();
            if table.outcomes.contains_key(id) {
                return Ok(json!("canceled"));
            }
            table.running_tasks.get(id).cloned().ok_or_else(|| unknown_task_error(id))?
        };
        task.cancel();
        Ok(json!("canceled"))
    }

    /// Ends the programs of all tasks, when the agent ends.
    pub(super) fn cancel_all(&self) {
        for task in self.lock().running_tasks.values() {
            task.cancel();
        }
    }

    fn finish(&self, id: String, outcome: std::result::Result<Value, String>) {
        let mut table = self.lock();
        table.running_tasks.remove(&id);
        table.finished_ids.push_back(id.clone());
        table.outcomes.insert(id, outcome);
        if table.finished_ids.len() > MAX_KEPT_TASKS
            && let Some(oldest) = table.finished_ids.pop_front()
        {
            table.outcomes.remove(&oldest);
        }
        drop(table);
        self.task_ended.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, TaskTable> {
        self.table.lock()
    }
}

/// Returns the answer for a task that still runs.
fn running_task_answer(id: &str) -> Value {
    json!({"agent_task_id": id, "state": "running"})
}

fn unknown_task_error(id: &str) -> Error {
    Error::invalid(format!("Task with id {id} could not be found"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(tasks: &Tasks, id: &str) -> Result<Value> {
        loop {
            match tasks.get(id) {
                Ok(value) if value["state"] == "running" => {}
                other => return other,
            }
        }
    }

    fn id(value: Value) -> String {
        value["agent_task_id"].as_str().unwrap().to_owned()
    }

    #[test]
    fn task_result_is_its_value_error_or_panic() {
        let tasks = Tasks::default();
        let good = id(tasks.start("t", |_| Ok(json!("done"))).unwrap());
        let bad = id(tasks.start("t", |_| Err(Error::failure("no"))).unwrap());
        let panic = id(tasks.start("t", |_| panic!("oh")).unwrap());
        assert_eq!(result(&tasks, &good).unwrap(), "done");
        assert_eq!(
            super::super::error_text(&result(&tasks, &bad).unwrap_err()),
            format!("Task {bad} result: no")
        );
        result(&tasks, &panic).unwrap_err();
        assert_eq!(tasks.get("x").unwrap_err().to_string(), "Task with id x could not be found");
    }

    #[test]
    fn request_waits_for_the_end_of_a_task_for_a_limited_time() {
        let tasks = Tasks::default();
        let (sender, receiver) = std::sync::mpsc::channel();
        let task = id(tasks.start("t", move |_| Ok(json!(receiver.recv().is_ok()))).unwrap());
        let start = Instant::now();
        assert_eq!(tasks.get(&task).unwrap(), running_task_answer(&task));
        assert!(start.elapsed() >= TASK_ANSWER_TIMEOUT);
        sender.send(()).unwrap();
        assert_eq!(result(&tasks, &task).unwrap(), true);
    }

    #[test]
    fn only_the_latest_finished_tasks_are_kept() {
        let tasks = Tasks::default();
        let first = id(tasks.start("t", |_| Ok(json!(1))).unwrap());
        result(&tasks, &first).unwrap();
        for _ in 0..MAX_KEPT_TASKS {
            let next = id(tasks.start("t", |_| Ok(json!(1))).unwrap());
            result(&tasks, &next).unwrap();
        }
        tasks.get(&first).unwrap_err();
        assert_eq!(tasks.lock().outcomes.len(), MAX_KEPT_TASKS);
    }
}
