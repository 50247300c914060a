//! Job scripts: `run_script` (pre-start, post-start, pre-stop, post-stop, …) and `drain` run the scripts of
//! all jobs in parallel (docs-bosh, "job-lifecycle", "drain").

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::process::{SCRIPT_PATH, TaskControl, ending};
use super::spec::Spec;
use super::{Agent, directories};
use base::error::ResultExt;
use base::{Error, Result};

/// The second argument of `run_script`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScriptOptions {
    /// Variables to add to each script's environment.
    pub env: Option<BTreeMap<String, String>>,
}

impl Agent {
    /// Runs the script with this name of each job that has one.
    pub(super) fn run_script(
        &self,
        name: &str,
        options: &ScriptOptions,
        task: &TaskControl,
    ) -> Result<Value> {
        if !directories::is_safe_name(name) {
            return Err(Error::invalid(format!("'{name}' is not a valid name of a script")));
        }
        for key in options.env.iter().flat_map(|env| env.keys()) {
            if key.is_empty() || key.contains(['=', '\0']) {
                return Err(Error::invalid(format!(
                    "'{key}' is not a valid name of an environment variable"
                )));
            }
        }
        self.run_in_parallel(name, task, &|job, script, task| {
            let mut command = self.script_command(script);
            for (key, value) in options.env.iter().flatten() {
                command.env(key, value.replace('\0', ""));
            }
            let logs = self.directories.logs().join(job);
            if !logs.is_dir() {
                directories::make_directory(&logs, 0o750)?;
            }
            let open = |suffix: &str| {
                let path = logs.join(format!("{name}.{suffix}.log"));
                File::options()
                    .append(true)
                    .create(true)
                    .open(&path)
                    .map_err(|error| Error::io(format!("opening '{}'", path.display()), error))
            };
            let status = task.run(command.stdout(open("stdout")?).stderr(open("stderr")?))?;
            if status.success() {
                Ok(())
            } else {
                Err(Error::failure(format!("'{}' {}", script.display(), ending(status))))
            }
        })?;
        Ok(json!({}))
    }

    /// Stops restarting the jobs and runs their drain scripts.
    pub(super) fn drain(&self, kind: &str, next_spec: Option<Spec>, task: &TaskControl) -> Result<Value> {
        let current_spec = self.spec.get();
        let call = match (kind, &next_spec) {
            ("shutdown", next_spec) => DrainCall::for_shutdown(&current_spec, next_spec.as_ref()),
            ("update", Some(next_spec)) => DrainCall::for_update(&current_spec, next_spec),
            ("update", None) => return Err(Error::invalid("Drain update requires new spec")),
            (other, _) => return Err(Error::invalid(format!("Unexpected call with drain type '{other}'"))),
        };
        self.supervisor.unmonitor().context(|| "Unmonitoring services".to_owned())?;
        self.run_in_parallel("drain", task, &|_, script, task| self.drain_job(script, call.clone(), task))?;
        Ok(json!(0))
    }

    /// Runs one drain script and waits for the time that it prints. After a negative time, the script is run
    /// again.
    fn drain_job(&self, script: &Path, mut call: DrainCall, task: &TaskControl) -> Result<()> {
        loop {
            let seconds = self.drain_once(script, &call, task)?;
            task.sleep(Duration::from_secs(seconds.unsigned_abs()))?;
            if seconds >= 0 {
                return Ok(());
            }
            call = call.for_status_check();
        }
    }

    /// Runs a drain script once. Returns the number of seconds that it prints.
    fn drain_once(&self, script: &Path, call: &DrainCall, task: &TaskControl) -> Result<i64> {
        let mut command = self.script_command(script);
        command.args(&call.arguments).env("BOSH_JOB_STATE", &call.state);
        if let Some(next) = &call.next_state {
            command.env("BOSH_JOB_NEXT_STATE", next);
        }
        // A file is used instead of a pipe, which background processes of the script would keep open.
        let create_error = |error| Error::io("creating a file for the output of a drain script", error);
        let mut stdout = tempfile::tempfile_in(self.directories.tmp()).map_err(create_error)?;
        let output = stdout.try_clone().map_err(create_error)?;
        task.run(command.stdout(output).stderr(std::process::Stdio::null()))
            .context(|| "Running drain script".to_owned())?;
        let mut text = String::new();
        let read_result = stdout.rewind().and_then(|()| stdout.take(4096).read_to_string(&mut text));
        read_result.ok().and_then(|_| text.trim().parse().ok()).ok_or_else(|| {
            Error::failure(format!("The drain script must print a whole number, not '{}'", text.trim()))
        })
    }

    fn script_command(&self, script: &Path) -> Command {
        let mut command = Command::new(script);
        command.env_clear().env("PATH", SCRIPT_PATH).current_dir(self.directories.base());
        command
    }

    /// Calls `run` with the name and path of each job's script `name`. The error names all jobs that failed.
    fn run_in_parallel(
        &self,
        name: &str,
        task: &TaskControl,
        run: &(dyn Fn(&str, &Path, &TaskControl) -> Result<()> + Sync),
    ) -> Result<()> {
        let spec = self.spec.get();
        let scripts: Vec<_> = spec
            .jobs()
            .iter()
            .map(|job| (job.name.as_str(), self.directories.jobs().join(&job.name).join("bin").join(name)))
            .filter(|(_, path)| path.is_file())
            .collect();
        let outcomes: Vec<(&str, Result<()>)> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                scripts.iter().map(|(job, path)| (*job, scope.spawn(move || run(job, path, task)))).collect();
            threads
                .into_iter()
                .map(|(job, thread)| {
                    let panic_error = |_| Error::failure("the agent had an internal error (a panic)");
                    (job, thread.join().map_err(panic_error).flatten())
                })
                .collect()
        });
        let (mut failed_jobs, mut passed_jobs) = (Vec::new(), Vec::new());
        for (job, outcome) in &outcomes {
            match outcome {
                Ok(()) => passed_jobs.push(*job),
                Err(error) => {
                    tracing::error!(job, script = name, error = %super::error_text(error), "script failed");
                    failed_jobs.push(*job);
                }
            }
        }
        task.check()?;
        if failed_jobs.is_empty() {
            return Ok(());
        }
        let mut message = format!(
            "{} of {} {name} scripts failed. Failed Jobs: {}",
            failed_jobs.len(),
            outcomes.len(),
            failed_jobs.join(", ")
        );
        if !passed_jobs.is_empty() {
            message.push_str(&format!(". Successful Jobs: {}", passed_jobs.join(", ")));
        }
        message.push('.');
        Err(Error::failure(message))
    }
}

/// The arguments and environment of a drain script.
#[derive(Debug, Clone, PartialEq)]
struct DrainCall {
    arguments: Vec<String>,
    state: String,
    next_state: Option<String>,
}

impl DrainCall {
    fn for_shutdown(current_spec: &Spec, next_spec: Option<&Spec>) -> Self {
        Self::new(
            "job_shutdown",
            "hash_unchanged",
            Vec::new(),
            job_state_json(current_spec),
            next_spec.map(job_state_json),
        )
    }

    fn for_update(current_spec: &Spec, next_spec: &Spec) -> Self {
        let job = if current_spec.jobs().is_empty() { "job_new" } else { "job_changed" };
        let hash = match current_spec.configuration_hash.as_str() {
            "" => "hash_new",
            hash if hash == next_spec.configuration_hash => "hash_unchanged",
            _ => "hash_changed",
        };
        let changed_packages = next_spec
            .packages
            .iter()
            .filter(|(name, package)| {
                current_spec
                    .packages
                    .get(*name)
                    .is_none_or(|current_package| current_package.sha1 != package.sha1)
            })
            .map(|(name, _)| name.clone())
            .collect();
        Self::new(job, hash, changed_packages, job_state_json(current_spec), Some(job_state_json(next_spec)))
    }

    fn for_status_check(self) -> Self {
        Self::new("job_check_status", "hash_unchanged", Vec::new(), self.state, None)
    }

    fn new(job: &str, hash: &str, packages: Vec<String>, state: String, next_state: Option<String>) -> Self {
        let arguments = [job.to_owned(), hash.to_owned()].into_iter().chain(packages).collect();
        DrainCall { arguments, state, next_state }
    }
}

fn job_state_json(spec: &Spec) -> String {
    json!({"persistent_disk": spec.persistent_disk}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_scripts_get_the_changes_as_arguments() {
        let spec = |value: Value| serde_json::from_value::<Spec>(value).unwrap();
        let old = spec(json!({
            "configuration_hash": "1", "persistent_disk": 10, "rendered_templates_archive": {},
            "job": {"templates": [{"name": "a"}]}, "packages": {"p": {"sha1": "1"}, "q": {"sha1": "1"}},
        }));
        let new = spec(json!({
            "configuration_hash": "2", "packages": {"p": {"sha1": "1"}, "q": {"sha1": "2"},
            "r": {"sha1": "3"}},
        }));
        let call = DrainCall::for_update(&old, &new);
        assert_eq!(call.arguments, ["job_changed", "hash_changed", "q", "r"]);
        assert_eq!(call.state, r#"{"persistent_disk":10}"#);
        assert_eq!(call.next_state.as_deref(), Some(r#"{"persistent_disk":0}"#));
        assert_eq!(DrainCall::for_update(&spec(json!({})), &new).arguments[..2], ["job_new", "hash_new"]);
        let status = call.for_status_check();
        assert_eq!(status.arguments, ["job_check_status", "hash_unchanged"]);
        assert_eq!(status.next_state, None);
        assert_eq!(DrainCall::for_shutdown(&old, None).arguments, ["job_shutdown", "hash_unchanged"]);
    }
}
