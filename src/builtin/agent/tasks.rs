//! Long actions: each runs in its own thread and has a UUID. Clients poll its result with `get_task`.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::process::TaskControl;
use base::error::ResultExt;
use base::{Error, Result};

/// The number of finished tasks whose results are kept.
const MAX_KEPT_TASKS: usize = 500;
/// The number of tasks that may run at the same time.
const MAX_RUNNING: usize = 64;

/// All tasks of this agent process.
#[derive(Clone, Default)]
pub(super) struct Tasks {
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    running: HashMap<String, TaskControl>,
    finished: HashMap<String, std::result::Result<Value, String>>,
    order: VecDeque<String>,
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
            if table.running.len() >= MAX_RUNNING {
                return Err(Error::failure(format!(
                    "{MAX_RUNNING} tasks are running already: wait for one to end"
                )));
            }
            table.running.insert(id.clone(), control.clone());
        }
        let (tasks, task) = (self.clone(), id.clone());
        let run = move || {
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| work(&control)))
                .unwrap_or_else(|_| Err(Error::failure("the agent had an internal error (a panic)")));
            if let Err(error) = &outcome {
                tracing::error!(task, error = %super::error_text(error), "task failed");
            }
            tasks.finish(task, outcome.map_err(|error| super::error_text(&error)));
        };
        if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(run) {
            self.lock().running.remove(&id);
            return Err(Error::io("starting a task", error));
        }
        Ok(running(&id))
    }

    /// Returns the id and state of a task while it runs, and then its value or its error.
    pub(super) fn get(&self, id: &str) -> Result<Value> {
        let table = self.lock();
        if table.running.contains_key(id) {
            return Ok(running(id));
        }
        match table.finished.get(id) {
            Some(Ok(value)) => Ok(value.clone()),
            Some(Err(message)) => {
                Err(Error::failure(message.clone())).context(|| format!("Task {id} result"))
            }
            None => Err(unknown(id)),
        }
    }

    /// Ends the programs of a task. Succeeds if the task has ended already.
    pub(super) fn cancel(&self, id: &str) -> Result<Value> {
        let task = {
            let table = self.lock();
            if table.finished.contains_key(id) {
                return Ok(json!("canceled"));
            }
            table.running.get(id).cloned().ok_or_else(|| unknown(id))?
        };
        task.cancel();
        Ok(json!("canceled"))
    }

    /// Ends the programs of all tasks, when the agent ends.
    pub(super) fn cancel_all(&self) {
        for task in self.lock().running.values() {
            task.cancel();
        }
    }

    fn finish(&self, id: String, outcome: std::result::Result<Value, String>) {
        let mut table = self.lock();
        table.running.remove(&id);
        table.order.push_back(id.clone());
        table.finished.insert(id, outcome);
        if table.order.len() > MAX_KEPT_TASKS
            && let Some(oldest) = table.order.pop_front()
        {
            table.finished.remove(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }
}

fn running(id: &str) -> Value {
    json!({"agent_task_id": id, "state": "running"})
}

fn unknown(id: &str) -> Error {
    Error::invalid(format!("Task with id {id} could not be found"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(tasks: &Tasks, id: &str) -> Result<Value> {
        loop {
            match tasks.get(id) {
                Ok(value) if value["state"] == "running" => {
                    std::thread::sleep(std::time::Duration::from_millis(2))
                }
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
    fn only_the_latest_finished_tasks_are_kept() {
        let tasks = Tasks::default();
        let first = id(tasks.start("t", |_| Ok(json!(1))).unwrap());
        result(&tasks, &first).unwrap();
        for _ in 0..MAX_KEPT_TASKS {
            let next = id(tasks.start("t", |_| Ok(json!(1))).unwrap());
            result(&tasks, &next).unwrap();
        }
        tasks.get(&first).unwrap_err();
        assert_eq!(tasks.lock().finished.len(), MAX_KEPT_TASKS);
    }
}
