//! Renders with Ruby: one Ruby process renders all templates of a renderer.
//!
//! [`RubyRenderer::start`] starts the process and checks its version, so that a run without a usable Ruby
//! ends before it changes anything. Each template is rendered in a forked child, so its changes to Ruby's
//! classes do not affect other templates. Requests and answers are JSON documents, one per line, on standard
//! input and output. At the end of its input, the process kills itself and its children.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
#[cfg(unix)]
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;

use super::native::SignalCheck;
use super::{Context, RenderError, Renderer, StartError, TemplateError, has_code};

/// The program that the Ruby process runs.
const DRIVER_SOURCE: &str = include_str!("driver.rb");
/// The oldest Ruby whose ERB accepts the trim mode as a keyword argument, as the driver passes it.
const OLDEST_VERSION: (u32, u32) = (2, 6);
/// The timeout of starting Ruby and of rendering one template.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval between two checks for a signal.
const INTERRUPT_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The time for which the process may outlive the end of its input before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// The maximum size of an answer in bytes.
const MAX_ANSWER_BYTES: u64 = 256 * 1024 * 1024;

/// Renders with a Ruby process, which ends when the renderer is dropped. Templates are rendered one at a
/// time.
pub struct RubyRenderer {
    process: Mutex<RubyProcess>,
    version: String,
}

/// The Ruby process, with its input and output.
struct RubyProcess {
    child: Child,
    /// The process's input. `None` after a failure, which ends the process.
    requests: Option<ChildStdin>,
    /// The lines of the process's output. A thread reads them.
    answers: Receiver<std::io::Result<String>>,
    signal_check: Option<SignalCheck>,
    /// The reason why the process can no longer be used, after a failure.
    failure: Option<RubyFailure>,
}

/// The reason why there is no answer.
#[derive(Debug, Clone)]
enum RubyFailure {
    /// This signal interrupted the wait.
    Interrupted(u8),
    /// The process failed, as the text says.
    Process(String),
}

/// The answer to a request: either `output`, or an error with `class`. An answer with neither is from a child
/// that ended early.
#[derive(Deserialize)]
struct Answer {
    /// The rendered file in base64.
    output: Option<String>,
    class: Option<String>,
    message: Option<String>,
    line: Option<u32>,
    property: Option<String>,
}

impl RubyRenderer {
    /// Starts Ruby and checks its version. `env_vars` are the complete environment of the process; their
    /// `PATH` decides which `ruby` is started.
    ///
    /// # Errors
    ///
    /// Returns an error if `ruby` cannot be started, does not report its version within 60 seconds, or is
    /// older than 2.6.
    pub fn start(env_vars: &[(String, String)]) -> Result<Self, StartError> {
        Self::start_interruptible(env_vars, None)
    }

    /// Like [`Self::start`], but the start and each rendering end as soon as `signal_check` returns a signal.
    ///
    /// # Errors
    ///
    /// Like [`Self::start`]. Also returns [`StartError::Interrupted`] after a signal.
    pub fn start_interruptible(
        env_vars: &[(String, String)],
        signal_check: Option<SignalCheck>,
    ) -> Result<Self, StartError> {
        let mut command = Command::new("ruby");
        command
            .args(["-W0", "-Eutf-8:utf-8", "-e", DRIVER_SOURCE])
            .env_clear()
            .envs(env_vars.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // A Ctrl-C of the terminal must not reach templates, which could rescue it.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(StartError::Missing)?;
        let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(StartError::Silent("its standard input and output are not connected".to_owned()));
        };
        let (sender, answers) = sync_channel(1);
        // The thread ends when the process closes its output.
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = String::new();
                let read = output.by_ref().take(MAX_ANSWER_BYTES).read_line(&mut line);
                let is_last = !matches!(read, Ok(length) if length > 0);
                if sender.send(read.map(|_| line)).is_err() || is_last {
                    return;
                }
            }
        });
        let mut process =
            RubyProcess { child, requests: Some(requests), answers, signal_check, failure: None };
        let version_line = process.read_answer().map_err(|failure| match failure {
            RubyFailure::Interrupted(signal) => StartError::Interrupted(signal),
            RubyFailure::Process(reason) => StartError::Silent(reason),
        })?;
        let version = version_line.trim().to_owned();
        let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
        let major_minor = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if major_minor < OLDEST_VERSION {
            return Err(StartError::TooOld { version, oldest: OLDEST_VERSION });
        }
        Ok(RubyRenderer { process: Mutex::new(process), version })
    }

    /// Returns the version of Ruby, such as `3.1.2`.
    pub fn version(&self) -> &str {
        &self.version
    }
}

impl fmt::Debug for RubyRenderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RubyRenderer").field("version", &self.version).finish_non_exhaustive()
    }
}

impl RubyProcess {
    /// Waits for the next line of output. After a failure the process is not used again, because a late
    /// answer would be taken for the answer to the next request.
    fn read_answer(&mut self) -> Result<String, RubyFailure> {
        let start = Instant::now();
        let reason = loop {
            if let Some(signal) = self.signal_check.as_ref().and_then(|signal_check| signal_check()) {
                return Err(self.fail(RubyFailure::Interrupted(signal)));
            }
            match self.answers.recv_timeout(INTERRUPT_CHECK_INTERVAL) {
                Ok(Ok(line)) if line.ends_with('\n') => return Ok(line),
                Ok(Ok(_)) | Err(RecvTimeoutError::Disconnected) => {
                    break "the Ruby process ended before it answered".to_owned();
                }
                Ok(Err(error)) => break format!("the answer of the Ruby process cannot be read: {error}"),
                Err(RecvTimeoutError::Timeout) if start.elapsed() < ANSWER_TIMEOUT => {}
                Err(RecvTimeoutError::Timeout) => {
                    break format!("the Ruby process did not answer within {} s", ANSWER_TIMEOUT.as_secs());
                }
            }
        };
        Err(self.fail(RubyFailure::Process(reason)))
    }

    /// Sends a request and waits for its answer.
    fn ask(&mut self, request: &str) -> Result<String, RubyFailure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let write_result = match &mut self.requests {
            Some(requests) => requests.write_all(request.as_bytes()).and_then(|()| requests.flush()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        match write_result {
            Ok(()) => self.read_answer(),
            Err(error) => {
                let reason = format!("the Ruby process does not accept templates: {error}");
                Err(self.fail(RubyFailure::Process(reason)))
            }
        }
    }

    /// Closes the input of the process, which ends it even if a template keeps it busy. Returns the failure.
    fn fail(&mut self, failure: RubyFailure) -> RubyFailure {
        self.requests = None;
        self.failure = Some(failure.clone());
        failure
    }
}

impl Drop for RubyProcess {
    fn drop(&mut self) {
        self.requests = None;
        let start = Instant::now();
        while start.elapsed() < EXIT_TIMEOUT && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        // Both fail only if the process has already ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Renderer for RubyRenderer {
    fn render(&self, template_name: &str, source: &str, context: &Context) -> Result<Vec<u8>, RenderError> {
        if !has_code(source) {
            return Ok(source.as_bytes().to_vec());
        }
        let request = json!({"source": source, "context": context.spec()});
        let renderer_error = |reason: String| RenderError::RendererFailed {
            message: format!("template '{template_name}' was not rendered: {reason}"),
        };
        let invalid_answer_error = |error: &dyn std::fmt::Display| {
            renderer_error(format!("the answer of the Ruby process is invalid: {error}"))
        };
        let answer = self.process.lock().ask(&format!("{request}\n")).map_err(|failure| match failure {
            RubyFailure::Interrupted(signal) => {
                RenderError::Interrupted { template: template_name.to_owned(), signal }
            }
            RubyFailure::Process(reason) => renderer_error(reason),
        })?;
        let answer: Answer = serde_json::from_str(&answer).map_err(|error| invalid_answer_error(&error))?;
        match answer {
            Answer { output: Some(output), .. } => {
                STANDARD.decode(output).map_err(|error| invalid_answer_error(&error))
            }
            Answer { class: Some(class), message, line, property, .. } => {
                Err(RenderError::Template(Box::new(TemplateError {
                    template: template_name.to_owned(),
                    line,
                    expression: None,
                    unknown_properties: property.into_iter().collect(),
                    class,
                    message: message.unwrap_or_default(),
                })))
            }
            Answer { .. } => Err(renderer_error("it ended the Ruby process that rendered it".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use super::RubyRenderer;
    use crate::{Context, RenderError, Renderer};

    #[expect(clippy::disallowed_methods, reason = "a test finds Ruby as its caller would")]
    fn env_vars() -> Vec<(String, String)> {
        vec![("PATH".into(), std::env::var("PATH").unwrap())]
    }

    fn ruby() -> RubyRenderer {
        RubyRenderer::start(&env_vars()).unwrap()
    }

    fn context() -> Context {
        Context::from_json(&serde_json::json!({
            "index": 0, "job": {"name": "web"}, "job_properties": {"port": 80},
            "default_properties": {"port": 8080, "host": null}
        }))
        .unwrap()
    }

    #[test]
    fn templates_do_not_affect_each_other() {
        let ruby = ruby();
        let patch = "<% class ::String; def size; 99; end; end %><%= 'é'.size %>";
        assert_eq!(ruby.render("a", patch, &context()).unwrap(), b"99");
        assert_eq!(ruby.render("b", "<%= 'é'.size %> <%= p('port') %>", &context()).unwrap(), b"1 80");
    }

    #[test]
    fn output_may_be_binary() {
        let source = "<%= ['fe00ff'].pack('H*') %>";
        assert_eq!(ruby().render("a", source, &context()).unwrap(), [0xfe, 0, 0xff]);
        let RenderError::Template(error) =
            ruby().render("a", "<% raise \"\\xff\" %>", &context()).unwrap_err()
        else {
            panic!("an error of the template")
        };
        assert_eq!(error.message, "\u{fffd}");
    }

    #[test]
    fn printed_output_of_a_template_is_discarded() {
        let source = "<% puts 'x'; $stdout.puts 'y'; STDOUT.puts 'z' %>ok";
        assert_eq!(ruby().render("a", source, &context()).unwrap(), b"ok");
    }

    #[test]
    fn errors_have_line_class_and_property() {
        let error = ruby().render("a.erb", "\n<%= p('prot') %>", &context()).unwrap_err();
        let RenderError::Template(error) = error else { panic!("{error:?}") };
        assert_eq!(error.line, Some(2));
        assert!(error.class.ends_with("UnknownProperty"), "{error:?}");
        assert_eq!(error.unknown_properties, ["prot"]);
    }

    #[test]
    fn template_that_exits_fails_and_the_next_one_renders() {
        let ruby = ruby();
        assert!(matches!(
            ruby.render("a", "<% exit! %>", &context()),
            Err(RenderError::RendererFailed { .. })
        ));
        assert_eq!(ruby.render("b", "<%= 1 + 1 %>", &context()).unwrap(), b"2");
    }

    /// Returns the child processes of a process.
    #[cfg(target_os = "linux")]
    fn children(pid: u32) -> Vec<String> {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        children.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn signal_ends_a_rendering_and_the_process_of_the_template() {
        let is_interrupted = Arc::new(AtomicBool::new(false));
        let interruption = Arc::clone(&is_interrupted);
        let signal_check = move || interruption.load(Ordering::SeqCst).then_some(15);
        let ruby = RubyRenderer::start_interruptible(&env_vars(), Some(Arc::new(signal_check))).unwrap();
        let driver = ruby.process.lock().child.id();
        let source = "<% begin; loop {}; rescue Exception; retry; end %>";
        let (error, start, template) = std::thread::scope(|scope| {
            let render_thread = scope.spawn(|| ruby.render("a.erb", source, &context()).unwrap_err());
            let template = loop {
                match children(driver).pop() {
                    Some(pid) => break pid,
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            is_interrupted.store(true, Ordering::SeqCst);
            let start = Instant::now();
            (render_thread.join().unwrap(), start, template)
        });
        assert_eq!(error, RenderError::Interrupted { template: "a.erb".into(), signal: 15 });
        let error = ruby.render("b.erb", "<%= 1 %>", &context()).unwrap_err();
        assert_eq!(error, RenderError::Interrupted { template: "b.erb".into(), signal: 15 });
        drop(ruby);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        // The parent of the process was also killed, so the first process of the machine reaps it.
        let is_at_work = || {
            let stat = std::fs::read_to_string(format!("/proc/{template}/stat"));
            stat.is_ok_and(|stat| !stat.contains(") Z "))
        };
        while is_at_work() {
            assert!(start.elapsed() < Duration::from_secs(20), "the template is still rendered");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn start_fails_without_ruby() {
        let error = RubyRenderer::start(&[("PATH".into(), "/nowhere".into())]).unwrap_err();
        assert!(error.to_string().contains("'ruby' cannot be run"), "{error}");
    }
}
