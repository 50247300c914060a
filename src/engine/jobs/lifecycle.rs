//! The lifecycle of jobs on a VM: from pre-stop to post-stop, and from pre-start to post-start.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use super::failed_scripts;
use super::logs::{self, LogTail};
use crate::agent_client::{Agent, AgentError, Backoff, DrainOutcome, StopReason};
use crate::protocol::BuiltinCpi;
use crate::run_context::{RunContext, signals};
use base::events::{Stage, Warning};
use base::text;
use base::timing::Activity;
use base::{Error, ErrorKind, LogExcerpt, Result};
use manifest::Deployment;
use manifest::deployment::CpiSource;

/// The note of a script that fails before the jobs are stopped.
pub(crate) const JOBS_NOT_STOPPED: &str = "the jobs were not stopped";
/// The longest time that the run waits before it warns of a failing process, which may still restart.
const MAX_WARNING_DELAY: Duration = Duration::from_secs(10);

/// The jobs on a VM.
pub(crate) struct Jobs<'a> {
    pub(crate) run: &'a RunContext,
    pub(crate) agent: &'a Agent,
    /// The name of the instance in messages: `instance 'bosh/0'`.
    pub(crate) instance: String,
    /// True if jobs of an earlier run may have written to the logs on the VM.
    pub(crate) has_run_before: bool,
}

impl Jobs<'_> {
    /// Drains the jobs and stops them. Without `drain_timeout` (`--skip-drain`), pre-stop and drain scripts
    /// do not run.
    pub(crate) fn stop(
        &self,
        drain_timeout: Option<Duration>,
        reason: StopReason<'_>,
        stage: &Stage,
    ) -> Result<()> {
        self.drain(drain_timeout, reason, stage)?;
        self.stop_drained(stage)
    }

    /// Runs the pre-stop and drain scripts, unless `drain_timeout` is `None`. If it fails, the jobs were not
    /// stopped.
    pub(crate) fn drain(
        &self,
        drain_timeout: Option<Duration>,
        reason: StopReason<'_>,
        stage: &Stage,
    ) -> Result<()> {
        let instance = &self.instance;
        self.run.signals.begin_change();
        if let Some(timeout) = drain_timeout {
            self.run_scripts("pre-stop", Some(reason.next_states()), stage)?;
            let draining =
                stage.reporter().begin_timed_stage("drain", format!("Draining the jobs of {instance}"));
            let start_time = SystemTime::now();
            let outcome = self.agent.drain(reason, timeout);
            match outcome.map_err(|error| self.explain(error.with_stage(&draining), "drain", start_time))? {
                DrainOutcome::Done => draining.finish(),
                DrainOutcome::TimedOut => {
                    let timeout_text = text::format_duration(timeout);
                    stage.reporter().warn(format!(
                        "the jobs of {instance} are still draining after {timeout_text} (--drain-timeout): \
                         stopping them anyway"
                    ));
                    draining.give_up(format!("gave up after {timeout_text}"));
                }
            }
        }
        Ok(())
    }

    /// Stops the jobs after [`Self::drain`].
    pub(crate) fn stop_drained(&self, stage: &Stage) -> Result<()> {
        let name = format!("Stopping the jobs of {}", self.instance);
        self.run_in_stage("stop", name, stage, || self.agent.stop())?;
        self.run_scripts("post-stop", None, stage)
    }

    /// Waits until no process of the jobs runs any more. Some agents answer `stop` earlier, and would start
    /// new jobs beside old ones.
    pub(crate) fn wait_until_gone(&self, timeout: Duration, stage: &Stage) -> Result<()> {
        let mut processes = running_processes(&self.agent.get_state()?);
        if processes.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        let mut backoff = Backoff::up_to(Duration::from_secs(1));
        let wait_stage = stage.reporter().begin_timed_stage(
            "wait_for_stop",
            format!("Waiting for the stopped jobs of {} to end", self.instance),
        );
        while !processes.is_empty() {
            if start.elapsed() >= timeout {
                return Err(Error::failure(format!(
                    "the jobs of {} were stopped, but are still running after {} \
                     (`update.update_watch_time`): {}",
                    self.instance,
                    text::format_duration(timeout),
                    processes.join(", ")
                ))
                .with_hint("see why: `monopile logs MANIFEST`"));
            }
            wait_stage.log_line(format!("still running: {}", processes.join(", ")));
            signals::check_may_continue(self.run)?;
            backoff.pause(&self.run.clock, Activity::Pause);
            processes = running_processes(&self.agent.get_state()?);
        }
        wait_stage.finish();
        Ok(())
    }

    /// Unmounts all persistent disks.
    pub(crate) fn unmount(&self, stage: &Stage) -> Result<()> {
        self.run.signals.begin_change();
        for disk in self.agent.list_disk()? {
            self.run_in_stage("unmount_disk", format!("Unmounting disk '{disk}'"), stage, || {
                self.agent.unmount_disk(&disk)
            })?;
        }
        Ok(())
    }

    /// Starts the jobs and waits until all of them run.
    pub(crate) fn start(&self, deployment: &Deployment, stage: &Stage) -> Result<()> {
        let instance = &self.instance;
        self.run.signals.begin_change();
        self.run_scripts("pre-start", None, stage)?;
        let start_time = SystemTime::now();
        self.run_in_stage("start", format!("Starting the jobs of {instance}"), stage, || self.agent.start())?;
        let wait_stage = stage
            .reporter()
            .begin_timed_stage("wait_for_jobs", format!("Waiting for {instance} to be running"));
        let mut agent_answer = Value::Null;
        self.wait_until_running(deployment, start_time, &mut agent_answer, &wait_stage)
            .map_err(|error| self.explain_interrupted_wait(error, &agent_answer))?;
        wait_stage.finish();
        self.run_scripts("post-start", None, stage)
    }

    fn run_in_stage(
        &self,
        kind: &str,
        name: String,
        stage: &Stage,
        action: impl FnOnce() -> Result<(), AgentError>,
    ) -> Result<()> {
        let action_stage = stage.reporter().begin_timed_stage(kind, name);
        action().map_err(|error| error.with_stage(&action_stage))?;
        action_stage.finish();
        Ok(())
    }

    fn run_scripts(&self, name: &str, env_vars: Option<Value>, stage: &Stage) -> Result<()> {
        let script_stage = stage
            .reporter()
            .begin_timed_stage(name, format!("Running the {name} scripts of {}", self.instance));
        let start_time = SystemTime::now();
        let outcome = self.agent.run_script(name, env_vars);
        outcome.map_err(|error| self.explain(error.with_stage(&script_stage), name, start_time))?;
        script_stage.finish();
        Ok(())
    }

    /// Names the jobs whose scripts failed, with the end of their logs. A script may write to only one of its
    /// logs. The other one is then from an earlier run, and is not shown.
    fn explain(&self, error: AgentError, script: &str, start_time: SystemTime) -> Error {
        let AgentError::Exception { message, .. } = &error else { return error.into() };
        let jobs = failed_scripts::failed_jobs(message);
        let see_why = format!("see why: `{}`", logs_command(&jobs));
        let with_skip_hint = |error: Error| match script {
            "pre-stop" | "drain" => error.with_note(JOBS_NOT_STOPPED).with_hint(&see_why).with_hint(
                "to stop the jobs without pre-stop and drain scripts: `monopile SAME-COMMAND \
                     --skip-drain`",
            ),
            _ => error,
        };
        if jobs.is_empty() {
            return with_skip_hint(error.into());
        }
        let filters: Vec<String> = jobs.iter().map(|job| format!("{job}/{script}.*.log")).collect();
        let script_error = with_skip_hint(Error::failure(failed_scripts::failure_message(script, &jobs)));
        match self.log_tails(&filters, |_| true, start_time.elapsed().unwrap_or(Duration::MAX)).as_deref() {
            // Agents do not log the output of drain scripts.
            Some([]) if script != "drain" => script_error.with_source(match jobs.len() {
                1 => "it wrote nothing to its logs",
                _ => "they wrote nothing to their logs",
            }),
            Some([]) | None => script_error,
            Some(tails) => script_error.with_source(self.excerpt(tails, start_time)),
        }
    }

    /// Returns the tails of logs as the cause of an error.
    fn excerpt(&self, tails: &[LogTail], start_time: SystemTime) -> LogExcerpt {
        LogExcerpt::new(logs::format_tails(tails, start_time, self.has_run_before))
    }

    /// Returns the ends of the newest logs that match one of the globs and that `is_shown` accepts, see
    /// [`logs::fetch_tails`]. Returns `None` if the logs cannot be fetched.
    fn log_tails(
        &self,
        filters: &[String],
        is_shown: fn(&Path) -> bool,
        span: Duration,
    ) -> Option<Vec<LogTail>> {
        logs::fetch_tails(self.agent, &self.run.paths.scratch, filters, is_shown, span)
            .inspect_err(|problem| {
                tracing::info!(problem = %problem.chain().join(": "), "fetching the logs failed");
            })
            .ok()
    }

    /// Waits until every job runs, for at most the manifest's `update_watch_time`. A process may fail and
    /// restart meanwhile, so a failure is only a warning until then. Keeps the agent's last answer in
    /// `agent_answer`. The jobs were started at `start_time`.
    fn wait_until_running(
        &self,
        deployment: &Deployment,
        start_time: SystemTime,
        agent_answer: &mut Value,
        stage: &Stage,
    ) -> Result<()> {
        let watch = deployment.update_watch_time;
        let wait_start = Instant::now();
        signals::pause(self.run, watch.start)?;
        let mut backoff = Backoff::up_to(Duration::from_secs(1));
        let mut last_line = String::new();
        let warning_delay = MAX_WARNING_DELAY.min(watch.end / 4);
        let mut has_warned = false;
        loop {
            *agent_answer = match self.agent.get_state() {
                Ok(state) => state,
                // The agent may be unreachable for a moment while the VM boots.
                Err(error) if error.is_transient() && wait_start.elapsed() < watch.end => {
                    stage.log_line(error.to_string());
                    Value::Null
                }
                Err(error) => return Err(error.into()),
            };
            let job_state = agent_answer.get("job_state").and_then(Value::as_str).unwrap_or("unknown");
            if job_state == "running" {
                return Ok(());
            }
            let problems = processes_not_running(agent_answer);
            let line = match problems.is_empty() {
                true => job_state.to_owned(),
                false => problems
                    .iter()
                    .map(|(name, state)| format!("{name}: {state}"))
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            if line != last_line {
                stage.log_line(line.clone());
                last_line = line;
            }
            let elapsed = wait_start.elapsed();
            if elapsed >= watch.end {
                return Err(self.never_ran_error(job_state, agent_answer, deployment, start_time));
            }
            let failing_processes: Vec<_> =
                problems.into_iter().filter(|(_, state)| state == "failing").collect();
            if !failing_processes.is_empty() && !has_warned && elapsed >= warning_delay {
                has_warned = true;
                stage.reporter().warn(self.failing_jobs_warning(
                    &failing_processes,
                    agent_answer,
                    deployment,
                    start_time,
                ));
            }
            signals::check_may_continue(self.run)?;
            backoff.pause(&self.run.clock, Activity::Pause);
        }
    }

    /// Returns the warning about processes that keep failing, with the last line of their logs. The error
    /// shows more of them.
    fn failing_jobs_warning(
        &self,
        failing_processes: &[(String, String)],
        agent_answer: &Value,
        deployment: &Deployment,
        start_time: SystemTime,
    ) -> Warning {
        let names = quoted_names(failing_processes);
        let jobs = jobs_of(agent_answer, failing_processes);
        let filters: Vec<String> = jobs.iter().map(|job| format!("{job}/**/*")).collect();
        let tails = self.log_tails(&filters, logs::is_of_process, Duration::MAX);
        let hint = logs_hint(tails.as_deref(), start_time, deployment, &logs_command(&jobs));
        let tails = tails.unwrap_or_default();
        let last_line =
            tails.iter().find(|tail| tail.is_of_this_run(start_time)).and_then(LogTail::last_line);
        Warning::new(format!(
            "{} of {} {} failing{}. This run waits for up to {} (`update.update_watch_time`)",
            text::comma_list(&names),
            self.instance,
            if names.len() == 1 { "is" } else { "are" },
            last_line.map(|line| format!(" ({line})")).unwrap_or_default(),
            text::format_duration(deployment.update_watch_time.end)
        ))
        .with_hint(hint)
    }

    /// Names the jobs that a signal did not let the run wait for. Other errors stay as they are.
    fn explain_interrupted_wait(&self, error: Error, agent_answer: &Value) -> Error {
        let ErrorKind::Interrupted(signal) = error.kind() else { return error };
        let problems = processes_not_running(agent_answer);
        let failing_processes: Vec<_> =
            problems.into_iter().filter(|(_, state)| state == "failing").collect();
        let text = format!("interrupted while waiting for the jobs of {} to run", self.instance);
        if failing_processes.is_empty() {
            return Error::new(ErrorKind::Interrupted(signal), text);
        }
        let names = text::comma_list(&quoted_names(&failing_processes));
        Error::new(ErrorKind::Interrupted(signal), format!("{text} (failing: {names})"))
            .with_hint(format!("see why: `{}`", logs_command(&jobs_of(agent_answer, &failing_processes))))
            .with_rerun_hint("run the same command again to continue")
    }

    fn never_ran_error(
        &self,
        job_state: &str,
        agent_answer: &Value,
        deployment: &Deployment,
        start_time: SystemTime,
    ) -> Error {
        let problems = processes_not_running(agent_answer);
        let job_problems: Vec<String> =
            problems.iter().map(|(name, state)| format!("'{name}' is {state}")).collect();
        let job_problems = match job_problems.as_slice() {
            [] => format!("they are '{job_state}'"),
            _ => job_problems.join(", "),
        };
        let error = Error::failure(format!(
            "the jobs of {} did not run within {} (`update.update_watch_time`): {job_problems}",
            self.instance,
            text::format_duration(deployment.update_watch_time.end)
        ));
        let filters: Vec<String> =
            jobs_of(agent_answer, &problems).into_iter().map(|job| format!("{job}/**/*")).collect();
        let tails = self.log_tails(&filters, logs::is_of_process, Duration::MAX);
        let hint = logs_hint(tails.as_deref(), start_time, deployment, "monopile logs MANIFEST");
        let error = error.with_hint(hint);
        match tails.as_deref() {
            Some([]) | None => error,
            Some(tails) => error.with_source(self.excerpt(tails, start_time)),
        }
    }
}

/// Returns the hint for jobs that do not run. The program that starts a job may fail before the job writes a
/// log; only the agent, or the monitor on the VM, reports that.
fn logs_hint(
    tails: Option<&[LogTail]>,
    start_time: SystemTime,
    deployment: &Deployment,
    logs_command: &str,
) -> String {
    let has_logs = |tails: &[LogTail]| tails.iter().any(|tail| tail.is_of_this_run(start_time));
    if tails.is_none_or(has_logs) {
        return format!("see all logs: `{logs_command}`");
    }
    let (name, option) = match &deployment.cloud_provider.cpi {
        CpiSource::Builtin(name) if BuiltinCpi::named(name).is_some_and(BuiltinCpi::keeps_vms_here) => {
            ("the console of the VM", "--console")
        }
        _ => ("the logs of agent and system", "--all-logs"),
    };
    format!("the jobs wrote no log since their start; see {name}: `monopile logs MANIFEST {option}`")
}

/// Returns the names of processes in quotes.
fn quoted_names(processes: &[(String, String)]) -> Vec<String> {
    processes.iter().map(|(name, _)| format!("'{name}'")).collect()
}

/// Returns the command that shows the logs of these jobs.
fn logs_command(jobs: &[impl AsRef<str>]) -> String {
    let mut command = "monopile logs MANIFEST".to_owned();
    jobs.iter().for_each(|job| command.push_str(&format!(" --job {}", text::shell_word(job.as_ref()))));
    command
}

/// Returns the names of processes that run.
fn running_processes(agent_answer: &Value) -> Vec<String> {
    let is_running = |(_, state): &(String, String)| state == "running";
    processes(agent_answer).filter(is_running).map(|(name, _)| name).collect()
}

/// Returns the name and state of each process that does not run.
fn processes_not_running(agent_answer: &Value) -> Vec<(String, String)> {
    processes(agent_answer).filter(|(_, state)| state != "running").collect()
}

/// Returns the name and state of each process.
fn processes(agent_answer: &Value) -> impl Iterator<Item = (String, String)> {
    let text = |process: &Value, key: &str| process.get(key).and_then(Value::as_str).map(str::to_owned);
    agent_answer
        .get("processes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(move |process| Some((text(process, "name")?, text(process, "state")?)))
}

/// Returns the jobs whose names match these processes, or all jobs if none matches.
fn jobs_of(agent_answer: &Value, processes: &[(String, String)]) -> Vec<String> {
    let jobs: Vec<String> = agent_answer
        .pointer("/job/templates")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|job| job.get("name").and_then(Value::as_str).map(str::to_owned))
        .collect();
    let matching_jobs: Vec<String> = jobs
        .iter()
        .filter(|job| {
            processes.iter().any(|(name, _)| name.starts_with(job.as_str()) || job.starts_with(name))
        })
        .cloned()
        .collect();
    if matching_jobs.is_empty() { jobs } else { matching_jobs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn failing_processes_are_mapped_to_jobs() {
        let agent_answer = json!({
            "job": {"templates": [{"name": "director"}, {"name": "nats"}]},
            "processes": [
                {"name": "director_worker_1", "state": "failing"}, {"name": "nats", "state": "running"}
            ],
        });
        let problems = processes_not_running(&agent_answer);
        assert_eq!(problems, [("director_worker_1".to_owned(), "failing".to_owned())]);
        assert_eq!(jobs_of(&agent_answer, &problems), ["director"]);
        assert_eq!(running_processes(&agent_answer), ["nats"]);
        assert_eq!(jobs_of(&agent_answer, &[("other".into(), "failing".into())]), ["director", "nats"]);
    }
}
