//! The traffic of an environment in order: every request to the CPI and every message to the agent with its
//! answer, one per line, without the parts that differ from run to run.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use regex::Regex;
use serde_json::Value;

use super::setup::Env;
use crate::support::proxy::{AgentProxy, Exchange};

/// Records an environment's traffic.
pub(super) struct Traffic {
    log: Arc<Mutex<Vec<Message>>>,
    cpi: PathBuf,
    _proxy: AgentProxy,
}

enum Message {
    Cpi(Value),
    Agent(Exchange),
}

impl Traffic {
    /// Starts a proxy between the program and the agent of this environment.
    pub(super) fn of(env: &mut Env) -> Traffic {
        let cpi = env.hello.world.path("requests.jsonl.calls");
        let log = Arc::<Mutex<Vec<Message>>>::default();
        let proxy = env.hello.proxy_agent_with({
            let (log, cpi) = (log.clone(), cpi.clone());
            move |exchange: Exchange| {
                let mut log = log.lock().unwrap();
                // The recorded calls of the CPI came before this message, because the program talks to only
                // one of the two at a time.
                log.extend(take_calls(&cpi));
                log.push(Message::Agent(exchange));
            }
        });
        Traffic { log, cpi, _proxy: proxy }
    }

    /// Returns the traffic since the last call.
    pub(super) fn take(&self) -> Conversation {
        let mut log = self.log.lock().unwrap();
        log.extend(take_calls(&self.cpi));
        Conversation(std::mem::take(&mut log))
    }
}

/// Reads and removes the recorded calls of the CPI.
fn take_calls(path: &PathBuf) -> Vec<Message> {
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    std::fs::remove_file(path).unwrap();
    text.lines().map(|line| Message::Cpi(serde_json::from_str(line).unwrap())).collect()
}

/// The traffic of one run.
pub(super) struct Conversation(Vec<Message>);

impl Conversation {
    /// Counts the messages of this method to the agent.
    pub(super) fn count(&self, name: &str) -> usize {
        let has_name =
            |message: &&Message| matches!(message, Message::Agent(exchange) if exchange.name() == name);
        self.0.iter().filter(has_name).count()
    }

    /// Returns one line per exchange. Repeated queries appear once with their last answer, and tasks only
    /// with their result. Blobs are only counted, because their transfers overlap.
    pub(super) fn text(&self, env: &Env) -> String {
        let mut lines: Vec<(String, String)> = Vec::new();
        let (mut upload_count, mut download_count) = (0, 0);
        for message in &self.0 {
            let (question, answer) = match message {
                Message::Cpi(call) => cpi_line(call),
                Message::Agent(exchange) if exchange.message.is_null() => {
                    upload_count += usize::from(exchange.http_method == "PUT");
                    download_count += usize::from(exchange.http_method == "GET");
                    continue;
                }
                Message::Agent(exchange) if exchange.name() == "get_task" => {
                    if let Some((_, answer)) = lines.last_mut() {
                        *answer = agent_answer(exchange);
                    }
                    continue;
                }
                Message::Agent(exchange) => (
                    format!("agent {} {}", exchange.name(), exchange.message["arguments"]),
                    agent_answer(exchange),
                ),
            };
            match lines.last_mut() {
                Some((last, last_answer)) if *last == question && question.starts_with("agent get_state") => {
                    *last_answer = answer;
                }
                _ => lines.push((question, answer)),
            }
        }
        let mut text = String::new();
        for (question, answer) in lines {
            writeln!(text, "{question}\n    {answer}").unwrap();
        }
        writeln!(text, "blobs: {upload_count} put, {download_count} got").unwrap();
        normalise(&text, env)
    }
}

fn cpi_line(call: &Value) -> (String, String) {
    let request = &call["request"];
    let mut context = request["context"].clone();
    let id = context.as_object_mut().unwrap().remove("request_id").unwrap();
    assert!(id.as_str().is_some_and(|id| !id.is_empty()), "{request}");
    let line = format!(
        "cpi {} {} api_version={} context={context}",
        request["method"].as_str().unwrap(),
        request["arguments"],
        request["api_version"]
    );
    let answer = &call["answer"];
    match &answer["error"] {
        Value::Null => (line, answer["result"].to_string()),
        error => (line, format!("error {error}")),
    }
}

fn agent_answer(exchange: &Exchange) -> String {
    let value = &exchange.answer["value"];
    if value.is_null() {
        return exchange.answer.to_string();
    }
    match exchange.name().as_str() {
        // The vitals differ in every answer.
        "get_state" => format!("job_state={}", value["job_state"]),
        _ if value["state"] == "running" => "running".to_owned(),
        _ => value.to_string(),
    }
}

/// Replaces ids, digests, times and keys with numbers in order of appearance. Equal values get the same
/// number.
fn normalise(text: &str, env: &Env) -> String {
    let text = text
        .replace(env.hello.ip(), "<ip>")
        .replace(env.hello.ip().strip_suffix(".2").unwrap(), "<subnet>")
        .replace(env.hello.world.root().to_str().unwrap(), "<world>");
    let rules = [
        ("pem", r"-----BEGIN [A-Z ]+-----(?:\\n|[A-Za-z0-9+/=])+-----END [A-Z ]+-----(?:\\n)?"),
        ("id", r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
        ("sha512", r"\b[0-9a-f]{128}\b"),
        ("sha256", r"\b[0-9a-f]{64}\b"),
        ("sha1", r"\b[0-9a-f]{40}\b"),
        ("scratch", r"monopile-[A-Za-z0-9]{6}\b"),
    ];
    let mut text = Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
        .unwrap()
        .replace_all(&text, "<time>")
        .into_owned();
    for (name, pattern) in rules {
        let mut values: Vec<String> = Vec::new();
        let numbered_text =
            Regex::new(pattern).unwrap().replace_all(&text, |captures: &regex::Captures<'_>| {
                let number = values.iter().position(|value| *value == captures[0]).unwrap_or_else(|| {
                    values.push(captures[0].to_owned());
                    values.len() - 1
                });
                format!("<{name} {}>", number + 1)
            });
        text = numbered_text.into_owned();
    }
    text
}
