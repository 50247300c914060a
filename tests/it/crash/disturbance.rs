//! The disturbances of a run, and the code that produces them.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::life::CrashLife;
use crate::support::Run;
use crate::support::gate::Moment;
use crate::support::machine;
use crate::support::process::{WAIT_TIMEOUT, WaitForEnd, prepare};
use crate::support::scripted::Interruption;

/// One disturbance of the program.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Disturbance {
    /// No disturbance.
    Never,
    /// At a call of the CPI, counted from 1; see [`Interruption`].
    Call(usize, Interruption),
    /// A kill before this system call of the main thread, counted from 1.
    Syscall(&'static str, usize),
    /// A kill after this many milliseconds.
    After(u64),
    /// An error of this system call of the main thread, counted from 1. It occurs once, or also for all later
    /// calls.
    Fault { name: &'static str, number: usize, errno: &'static str, is_lasting: bool },
    /// This signal, sent `times` times while a call of the CPI, counted from 1, is held.
    Signal { call: usize, signal: Signal, times: usize },
    /// An act at a point of the conversation.
    At(ConversationPoint, MachineAction),
}

/// A point in the conversation with the CPI and the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConversationPoint {
    /// A call of the CPI, counted from 1.
    Call(usize, Moment),
    /// A message to the agent, counted from 1. Repeated queries count once.
    Message(usize, Moment),
}

/// An act at a point of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MachineAction {
    /// Kills the program.
    Kill,
    /// Kills the agent, which its VM starts again.
    KillAgent,
    /// Reboots the VM.
    Reboot,
    /// Switches off the VM permanently.
    SwitchOff,
    /// Restarts the machine of the program, the CPI and the VM, and gives all their PIDs to other processes.
    /// With `has_rebooted`, the recorded boot id differs afterwards.
    Restart { has_rebooted: bool },
}

impl Disturbance {
    /// Returns true if the VM may be off afterwards.
    pub(super) fn switches_off(&self) -> bool {
        matches!(self, Disturbance::At(_, MachineAction::SwitchOff | MachineAction::Restart { .. }))
    }

    /// Returns true if the CPI's process is deliberately left running afterwards.
    pub(super) fn leaves_a_call(&self) -> bool {
        matches!(self, Disturbance::Call(_, Interruption::Slow))
    }
}

impl CrashLife<'_> {
    /// Runs a stage's command with the disturbance. Returns true if the disturbance stopped it.
    pub(super) fn run_disturbed(&mut self, stage: usize, disturbance: &Disturbance) -> (bool, Run) {
        let mut command = self.command(stage);
        self.reset_disturbances();
        match disturbance {
            Disturbance::Never => (false, self.hello.world.finish(command)),
            Disturbance::Call(number, when) => {
                self.hello.set_script(self.script().stopped_at(*number, *when));
                let run = self.hello.world.finish(command);
                let dies = matches!(
                    when,
                    Interruption::DieBefore | Interruption::DieDuring | Interruption::DieAfter
                );
                // A deploy succeeds even if it cannot delete the resources that it replaced.
                let is_kept = run.stderr.contains("the next run tries again");
                (if dies { run.code != 0 || is_kept } else { run.code == -1 }, run)
            }
            Disturbance::Syscall(name, number) => {
                let run = self.run_with_fault(&command, name, &format!("signal=SIGKILL:when={number}"));
                (run.code == -1, run)
            }
            Disturbance::Fault { name, number, errno, is_lasting } => {
                let on = if *is_lasting { "+" } else { "" };
                let run = self.run_with_fault(&command, name, &format!("error={errno}:when={number}{on}"));
                self.check_code(&run, (0..=5).contains(&run.code));
                (run.code != 0, run)
            }
            Disturbance::Signal { call, signal, times } => {
                let run = self.run_and_signal(command, *call, *signal, *times);
                // After a signal during the last call, there is nothing left to stop.
                self.check_code(&run, run.code == 128 + signal.as_raw() || (run.code == 0 && *times == 1));
                (run.code != 0, run)
            }
            Disturbance::After(milliseconds) => {
                let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
                std::thread::sleep(Duration::from_millis(*milliseconds));
                child.kill().unwrap();
                let status = child.end();
                let run =
                    Run { code: status.code().unwrap_or(-1), stdout: String::new(), stderr: String::new() };
                (status.signal().is_some(), run)
            }
            Disturbance::At(point, act) => {
                if disturbance.switches_off() {
                    // The agent will not answer.
                    command.args(["--agent-timeout", "5s"]);
                }
                let run = self.run_and_act_at(command, *point, *act);
                let is_killed = matches!(act, MachineAction::Kill | MachineAction::Restart { .. });
                self.check_code(&run, (0..=5).contains(&run.code) || (is_killed && run.code == -1));
                (run.code != 0 || disturbance.switches_off(), run)
            }
        }
    }

    /// Runs the command under `strace`, which changes the result of a system call.
    fn run_with_fault(&self, command: &Command, name: &str, fault: &str) -> Run {
        let mut strace = prepare("strace");
        strace.args(["-qq", "-o", "/dev/null", "-e", &format!("trace={name}")]);
        strace.args(["-e", &format!("inject={name}:{fault}")]);
        self.hello.world.finish(wrap_command(strace, command))
    }

    /// Runs the command and signals it while a call is held.
    fn run_and_signal(&self, command: Command, call: usize, signal: Signal, times: usize) -> Run {
        self.hello.set_script(self.script().stopped_at(call, Interruption::Hold));
        let mut child = self.start(command);
        self.hello.wait_until_held();
        let pid = Pid::from_child(&child);
        kill_process(pid, signal).unwrap();
        if times == 1 {
            self.hello.release_call();
        }
        let start = Instant::now();
        let mut last_signal = start;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < WAIT_TIMEOUT, "{}: the command does not end", self.context);
            // Two pending signals arrive as one. More than two have the effect of two.
            if times > 1 && last_signal.elapsed() > Duration::from_millis(100) {
                kill_process(pid, signal).unwrap();
                last_signal = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        // A run that got two signals left the call running. The call ends while the next run waits for it.
        self.hello.release_call();
        self.run_of(status)
    }

    /// Runs the command, and acts when it reaches a point.
    fn run_and_act_at(&mut self, command: Command, point: ConversationPoint, act: MachineAction) -> Run {
        match point {
            ConversationPoint::Call(number, moment) => {
                let when =
                    if moment == Moment::Before { Interruption::Hold } else { Interruption::HoldAfterEffect };
                self.hello.set_script(self.script().stopped_at(number, when));
            }
            ConversationPoint::Message(number, moment) => self.gate.set(Some((number, moment))),
        }
        let mut child = self.start(command);
        let (mut start, mut has_acted) = (Instant::now(), false);
        let status = loop {
            if !has_acted && self.hello.world.exists("held") {
                match act {
                    MachineAction::Kill => child.kill().unwrap(),
                    MachineAction::KillAgent => machine::kill_agent(&self.hello),
                    MachineAction::Reboot => machine::reboot(&self.hello),
                    MachineAction::SwitchOff => self.hello.kill_vm(),
                    MachineAction::Restart { has_rebooted } => {
                        self.pid_successors.push(machine::restart(&self.hello, &mut child, has_rebooted));
                    }
                }
                self.hello.release_call();
                (start, has_acted) = (Instant::now(), true);
            }
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > WAIT_TIMEOUT {
                child.kill().unwrap();
                let Run { stdout, stderr, .. } = self.run_of(child.end());
                panic!("{}: the command does not end:\n{stdout}\n{stderr}", self.context);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        self.gate.set(None);
        self.run_of(status)
    }

    /// Starts a command whose output is written to files.
    fn start(&self, mut command: Command) -> Child {
        let file = |name: &str| std::fs::File::create(self.hello.world.path(name)).unwrap();
        command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr")).spawn().unwrap()
    }

    /// Returns the result of a command started by [`Self::start`].
    fn run_of(&self, status: ExitStatus) -> Run {
        let read = |name: &str| self.hello.world.read(name);
        Run { code: status.code().unwrap_or(-1), stdout: read("stdout"), stderr: read("stderr") }
    }
}

/// Turns `command` into the arguments of `wrapper`, with the same environment and directory.
pub(super) fn wrap_command(mut wrapper: Command, command: &Command) -> Command {
    wrapper.arg(command.get_program()).args(command.get_args()).env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            wrapper.env(name, value);
        }
    }
    if let Some(directory) = command.get_current_dir() {
        wrapper.current_dir(directory);
    }
    wrapper
}
