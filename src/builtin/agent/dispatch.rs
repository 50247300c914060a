//! Dispatches messages to actions: `{"method", "arguments", "reply_to"}` is answered with `{"value"}` or
//! `{"exception"}` (agent/action_dispatcher.go and agent/action of the bosh-agent).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::process::TaskControl;
use super::spec::{Package, Spec};
use super::{Agent, script, ssh, vitals};
use base::error::ResultExt;
use base::files::{JsonLayout, write_json};
use base::{Error, Result};

/// A message of a client.
#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    method: String,
    #[serde(default)]
    arguments: Option<Vec<Value>>,
    #[serde(default)]
    protocol: Option<i64>,
}

/// The arguments of a message, taken one after the other.
struct MessageArguments {
    values: std::vec::IntoIter<Value>,
    count: usize,
    taken_count: usize,
}

impl MessageArguments {
    fn new(values: Vec<Value>) -> Self {
        MessageArguments { count: values.len(), values: values.into_iter(), taken_count: 0 }
    }

    /// Takes the next argument, which is required.
    fn next<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.taken_count += 1;
        match self.values.next() {
            Some(value) => serde_json::from_value(value).map_err(|error| {
                Error::invalid(format!(
                    "Extracting method arguments from payload: Unmarshalling action argument {}",
                    self.taken_count
                ))
                .with_source(error)
            }),
            None => Err(Error::invalid(format!(
                "Extracting method arguments from payload: Not enough arguments, expected {}, got {}",
                self.taken_count, self.count
            ))),
        }
    }

    /// Takes the next argument. A missing or null argument becomes the default.
    fn next_or_default<T: DeserializeOwned + Default>(&mut self) -> Result<T> {
        if self.values.len() == 0 {
            Ok(T::default())
        } else {
            self.next::<Option<T>>().map(Option::unwrap_or_default)
        }
    }
}

/// The rule by which a task waits for others.
enum TaskConcurrency {
    /// Never waits.
    Free,
    /// Waits for `Exclusive` tasks.
    Shared,
    /// Waits for all but `Free` tasks.
    Exclusive,
}

/// Answers a message. Returns `None` if the text is not a message.
pub(super) fn answer(agent: &Arc<Agent>, text: &[u8]) -> Option<Value> {
    // The message is parsed as a map first, because serde would also accept an array.
    let result = serde_json::from_slice::<Map<String, Value>>(text)
        .and_then(|message| serde_json::from_value(Value::Object(message)));
    let message: Message = match result {
        Ok(message) => message,
        Err(error) => {
            tracing::warn!(%error, "parsing a message failed");
            return None;
        }
    };
    let method = message.method.clone();
    // Clients poll with these methods, so they would fill the log.
    if !matches!(method.as_str(), "get_task" | "get_state" | "ping") {
        tracing::info!(method, "received");
    }
    Some(match dispatch(agent, message) {
        Ok(value) => json!({"value": value}),
        Err(error) => {
            let text = super::error_text(&error);
            tracing::warn!(method, error = text, "answered with an error");
            json!({"exception": {"message": text}})
        }
    })
}

fn dispatch(agent: &Arc<Agent>, message: Message) -> Result<Value> {
    let method = message.method.as_str();
    let mut arguments = MessageArguments::new(message.arguments.unwrap_or_default());
    let method_context = || format!("Action Failed {method}");
    if let Some(outcome) = run_at_once(agent, method, &mut arguments, message.protocol.unwrap_or_default()) {
        return outcome.context(method_context);
    }
    match parse_task(method, &mut arguments) {
        Ok(Some((concurrency, work))) => {
            let agent = agent.clone();
            agent
                .tasks
                .clone()
                .start(method, move |task| agent.run_in_turn(&concurrency, task, work))
                .context(method_context)
        }
        Ok(None) => Err(Error::invalid(format!("unknown message {method}"))),
        Err(error) => Err(error.context(method_context())),
    }
}

/// Runs an action that answers with its result. Returns `None` if the method is not such an action.
fn run_at_once(
    agent: &Arc<Agent>,
    method: &str,
    arguments: &mut MessageArguments,
    protocol: i64,
) -> Option<Result<Value>> {
    Some(match method {
        "ping" => Ok(json!("pong")),
        "info" => Ok(json!({"api_version": 1})),
        "get_task" => arguments.next::<String>().and_then(|id| agent.tasks.get(&id)),
        "cancel_task" => arguments.next::<String>().and_then(|id| agent.tasks.cancel(&id)),
        "get_state" => arguments.next_or_default::<String>().and_then(|filter| agent.state(filter == "full")),
        "start" => agent.start(),
        "ssh" => arguments
            .next::<String>()
            .and_then(|command| Ok((command, arguments.next::<ssh::Params>()?)))
            .and_then(|(command, params)| agent.ssh(&command, &params)),
        "remove_file" => arguments.next::<String>().and_then(|path| remove_file(&path)),
        // Nothing to delete: the agent fills no ARP cache.
        "delete_arp_entries" => Ok(json!({})),
        // From protocol 3 on, `list_disk` is a task, see `parse_task`.
        "list_disk" if protocol < 3 => agent.list_disk(),
        "shutdown" => Err(Error::failure("not supported: the CPI ends this VM (delete_vm)")),
        _ => return None,
    })
}

/// `remove_file`: removes a file or a directory tree, which need not exist. Returns the path.
fn remove_file(path: &str) -> Result<Value> {
    if !Path::new(path).is_absolute() {
        return Err(Error::invalid(format!("'{path}' is not an absolute path")));
    }
    super::directories::remove_tree(Path::new(path))?;
    Ok(json!(path))
}

/// The work of a task, with its checked arguments.
type TaskFunction = Box<dyn FnOnce(&Arc<Agent>, &TaskControl) -> Result<Value> + Send>;

/// Checks the arguments of an action that becomes a task, and returns its work. Returns `None` for an unknown
/// method.
fn parse_task(
    method: &str,
    arguments: &mut MessageArguments,
) -> Result<Option<(TaskConcurrency, TaskFunction)>> {
    let exclusive_task = |work: TaskFunction| Ok(Some((TaskConcurrency::Exclusive, work)));
    match method {
        "apply" => {
            let spec: Spec = arguments.next()?;
            exclusive_task(Box::new(move |agent, _| agent.apply(spec)))
        }
        "prepare" => {
            let spec: Spec = arguments.next()?;
            exclusive_task(Box::new(move |agent, _| {
                agent.prepare(&spec).context(|| "Preparing apply spec".to_owned())
            }))
        }
        "compile_package" => {
            let (blobstore_id, sha1) = (arguments.next()?, arguments.next()?);
            let (name, version) = (arguments.next()?, arguments.next()?);
            let package = Package { name, version, sha1, blobstore_id };
            let dependencies: BTreeMap<String, Package> = arguments.next_or_default()?;
            let work: TaskFunction =
                Box::new(move |agent, task| agent.compile(&package, &dependencies, task));
            Ok(Some((TaskConcurrency::Shared, work)))
        }
        "run_script" => {
            let name: String = arguments.next()?;
            let options: script::ScriptOptions = arguments.next_or_default()?;
            exclusive_task(Box::new(move |agent, task| agent.run_script(&name, &options, task)))
        }
        "drain" => {
            let kind: String = arguments.next()?;
            // Some clients pass `{}` instead of a spec.
            let next_spec: Option<Value> = arguments.next_or_default()?;
            let next_spec = match next_spec {
                Some(Value::Object(map)) if !map.is_empty() => serde_json::from_value(Value::Object(map))
                    .map(Some)
                    .map_err(|error| Error::invalid("Unmarshalling action argument 2").with_source(error))?,
                _ => None,
            };
            exclusive_task(Box::new(move |agent, task| agent.drain(&kind, next_spec, task)))
        }
        "stop" => exclusive_task(Box::new(|agent, task| {
            agent.supervisor.stop(task).context(|| "Stopping Monitored Services".to_owned())?;
            Ok(json!("stopped"))
        })),
        "list_disk" => Ok(Some((TaskConcurrency::Free, Box::new(|agent, _| agent.list_disk())))),
        "add_persistent_disk" => {
            let (cid, hint): (String, Value) = (arguments.next()?, arguments.next()?);
            exclusive_task(Box::new(move |agent, _| agent.disks.store_hint(&cid, &hint).map(|()| json!({}))))
        }
        "remove_persistent_disk" => {
            let cid: String = arguments.next()?;
            exclusive_task(Box::new(move |agent, _| agent.disks.remove_hint(&cid).map(|()| json!({}))))
        }
        "mount_disk" => {
            let cid: String = arguments.next()?;
            let hint: Option<Value> = arguments.next_or_default()?;
            exclusive_task(Box::new(move |agent, _| {
                if let Some(hint) = hint {
                    agent.disks.store_hint(&cid, &hint)?;
                }
                agent.disks.mount(&agent.reread_settings()?, &cid).map(|()| json!({}))
            }))
        }
        "unmount_disk" => {
            let cid: String = arguments.next()?;
            exclusive_task(Box::new(move |agent, task| {
                let (was_mounted, disk) = agent.disks.unmount(&agent.settings()?, &cid, task)?;
                let message = if was_mounted {
                    format!("Unmounted partition of {disk}")
                } else {
                    format!("Partition of {disk} is not mounted")
                };
                Ok(json!({"message": message}))
            }))
        }
        "migrate_disk" => exclusive_task(Box::new(|agent, task| {
            agent
                .disks
                .migrate(&agent.settings()?, task)
                .context(|| "Migrating persistent disk".to_owned())
                .map(|()| json!({}))
        })),
        "fetch_logs" => {
            let types: String = arguments.next()?;
            let filters: Vec<String> = arguments.next_or_default()?;
            Ok(Some((TaskConcurrency::Free, Box::new(move |agent, _| agent.fetch_logs(&types, &filters)))))
        }
        "update_settings" => {
            let update: Value = arguments.next()?;
            exclusive_task(Box::new(move |agent, _| agent.update_settings(&update)))
        }
        _ => Ok(None),
    }
}

impl Agent {
    /// Runs a task as soon as no task runs that must not run at the same time.
    fn run_in_turn(
        self: &Arc<Self>,
        concurrency: &TaskConcurrency,
        task: &TaskControl,
        work: TaskFunction,
    ) -> Result<Value> {
        match concurrency {
            TaskConcurrency::Free => work(self, task),
            TaskConcurrency::Shared => {
                let _turn = self.turn.read();
                task.check()?;
                work(self, task)
            }
            TaskConcurrency::Exclusive => {
                let _turn = self.turn.write();
                task.check()?;
                work(self, task)
            }
        }
    }

    fn start(&self) -> Result<Value> {
        self.configure_jobs()?;
        self.supervisor.start().context(|| "Starting Monitored Services".to_owned())?;
        Ok(json!("started"))
    }

    fn list_disk(&self) -> Result<Value> {
        Ok(json!(self.disks.mounted_cids(&self.settings()?)?))
    }

    fn state(&self, includes_vitals: bool) -> Result<Value> {
        let settings = self.settings()?;
        let mut state = serde_json::to_value(self.spec.get())
            .map_err(|error| Error::failure("Getting current spec").with_source(error))?;
        state["agent_id"] = settings.agent_id.into();
        state["job_state"] = self.supervisor.job_state().into();
        if includes_vitals {
            state["vitals"] = vitals::read_vitals(&self.directories);
        }
        let processes = self.supervisor.processes();
        if !processes.is_empty() {
            state["processes"] = processes.into();
        }
        state["vm"] = json!(settings.vm);
        Ok(state)
    }

    /// Stores the update. Rejects disk associations, because this agent gives disks no names.
    fn update_settings(&self, update: &Value) -> Result<Value> {
        let associations = update.get("disk_associations").and_then(Value::as_array);
        if associations.is_some_and(|list| !list.is_empty()) {
            return Err(Error::invalid(
                "disk_associations are not supported: this agent gives disks no names",
            ));
        }
        write_json(&self.directories.bosh().join("update_settings.json"), update, JsonLayout::Compact)?;
        Ok(json!("ok"))
    }
}
