//! Parses the subset of monit's control files that release jobs use (docs-bosh, "vm-monit"): `check process`
//! with pid file, start and stop program, group and dependencies. Other checks and all `if` rules are
//! ignored, with a log line.

use std::path::PathBuf;
use std::time::Duration;

use base::{Error, Result};

/// The timeout of a start or stop program without one in the file.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum timeout. A larger one could overflow the clock.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// One `check process`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProcessSpec {
    /// The name of the process, unique on the VM.
    pub name: String,
    /// The absolute path of its pid file.
    pub pidfile: PathBuf,
    pub start: Option<Program>,
    pub stop: Option<Program>,
    /// The names of processes that must run before this one is started.
    pub depends: Vec<String>,
}

/// A start or stop program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The user to run as.
    pub user: Option<String>,
    /// The group to run as.
    pub group: Option<String>,
    /// The time for the process to start or to end.
    pub timeout: Duration,
}

/// A word or a quoted string of a monit file, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    text: String,
    is_quoted: bool,
    line: usize,
}

/// Parses one control file. `source` is its name for errors.
pub(super) fn parse(text: &str, source: &str) -> Result<Vec<ProcessSpec>> {
    Parser { tokens: split_into_tokens(text, source)?, next: 0, source }.parse_file()
}

/// Splits a monit file into words and quoted strings, with their lines. `=`, `,` and comments are only
/// separators.
fn split_into_tokens(text: &str, source: &str) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' => line += 1,
            c if c.is_whitespace() || c == '=' || c == ',' => {}
            '#' => while rest.next_if(|character| *character != '\n').is_some() {},
            quote @ ('"' | '\'') => {
                let start = line;
                let mut word = String::new();
                loop {
                    match rest.next() {
                        Some(c) if c == quote => break,
                        // Only the quote itself can be escaped. Other backslashes are part of the command.
                        Some('\\') if rest.peek() == Some(&quote) => word.extend(rest.next()),
                        Some(c) => {
                            line += usize::from(c == '\n');
                            word.push(c);
                        }
                        None => {
                            return Err(Error::invalid(format!(
                                "{source}:{start}: a quoted string has no closing quote"
                            )));
                        }
                    }
                }
                tokens.push(Token { text: word, is_quoted: true, line: start });
            }
            c => {
                let mut word = String::from(c);
                while let Some(c) = rest.next_if(|character| {
                    !character.is_whitespace() && !matches!(character, '"' | '#' | ',' | '=')
                }) {
                    word.push(c);
                }
                tokens.push(Token { text: word, is_quoted: false, line });
            }
        }
    }
    Ok(tokens)
}

/// The tokens of a monit file, and the index of the next one.
struct Parser<'a> {
    tokens: Vec<Token>,
    next: usize,
    source: &'a str,
}

impl Parser<'_> {
    /// Reads the checks of a monit file. Statements without an effect on processes are skipped.
    fn parse_file(mut self) -> Result<Vec<ProcessSpec>> {
        let mut processes: Vec<ProcessSpec> = Vec::new();
        // `None` before the first check, and inside a check that is ignored.
        let mut current: Option<ProcessSpec> = None;
        while let Some(token) = self.take_token() {
            let word = if token.is_quoted { String::new() } else { token.text.to_ascii_lowercase() };
            match word.as_str() {
                "check" => {
                    processes.extend(current.take());
                    current = self.parse_check(token.line)?;
                }
                "start" | "stop" | "restart" if self.peek_is(&["program"]) => {
                    let program = self.parse_program()?;
                    match (&mut current, word.as_str()) {
                        (Some(process), "start") => process.start = Some(program),
                        (Some(process), "stop") => process.stop = Some(program),
                        _ => self.log_ignored(&token),
                    }
                }
                "depends" => {
                    self.skip(&["on"]);
                    let names = self.take_names();
                    if let Some(process) = &mut current {
                        process.depends.extend(names);
                    }
                }
                "group" => {
                    let _ = self.take_word(token.line, "the group")?;
                }
                "if" => {
                    self.log_ignored(&token);
                    self.skip_rule();
                }
                _ => self.log_ignored(&token),
            }
        }
        processes.extend(current);
        Ok(processes)
    }

    fn parse_check(&mut self, line: usize) -> Result<Option<ProcessSpec>> {
        let kind = self.take_word(line, "the type of the check")?;
        let name = self.take_word(line, "the name of the check")?;
        if !kind.eq_ignore_ascii_case("process") {
            tracing::info!(file = self.source, line, kind, name, "check ignored");
            return Ok(None);
        }
        self.skip(&["with"]);
        if !self.peek_is(&["pidfile"]) {
            return Err(self.syntax_error(line, &format!("process '{name}' has no pidfile")));
        }
        self.next += 1;
        let pidfile = PathBuf::from(self.take_word(line, "the path of the pidfile")?);
        if !pidfile.is_absolute() {
            let pidfile = pidfile.display();
            return Err(self.syntax_error(
                line,
                &format!("the pidfile '{pidfile}' of process '{name}' is not an absolute path"),
            ));
        }
        Ok(Some(ProcessSpec { name, pidfile, start: None, stop: None, depends: Vec::new() }))
    }

    /// Reads the command of `start program` or `stop program`, and the user, group and timeout after it.
    fn parse_program(&mut self) -> Result<Program> {
        let line = self.tokens[self.next].line;
        self.next += 1;
        let text = self.take_word(line, "the program")?;
        let command =
            split(&text).ok_or_else(|| self.syntax_error(line, "a quoted argument has no closing quote"))?;
        if command.is_empty() {
            return Err(self.syntax_error(line, "the command of the program is empty"));
        }
        let mut program = Program { command, user: None, group: None, timeout: DEFAULT_TIMEOUT };
        loop {
            self.skip(&["as", "and", "with", "using"]);
            if self.peek_is(&["uid"]) {
                self.next += 1;
                program.user = Some(self.take_word(line, "the user")?);
            } else if self.peek_is(&["gid"]) {
                self.next += 1;
                program.group = Some(self.take_word(line, "the group")?);
            } else if self.peek_is(&["timeout"]) {
                self.next += 1;
                let count = self.take_word(line, "the timeout")?;
                let seconds: u64 = count
                    .parse()
                    .map_err(|_| self.syntax_error(line, &format!("'{count}' is not a number of seconds")))?;
                let in_minutes = self.peek_is(&["minute", "minutes"]);
                self.skip(&["second", "seconds", "minute", "minutes"]);
                let seconds = seconds.saturating_mul(if in_minutes { 60 } else { 1 });
                program.timeout = Duration::from_secs(seconds).min(MAX_TIMEOUT);
            } else {
                return Ok(program);
            }
        }
    }

    /// Skips the rest of an `if` rule, because its words could otherwise be taken for statements.
    fn skip_rule(&mut self) {
        loop {
            while let Some(token) = self.take_token() {
                if !token.is_quoted && token.text.eq_ignore_ascii_case("then") {
                    break;
                }
                if !token.is_quoted && token.text.eq_ignore_ascii_case("check") {
                    self.next -= 1;
                    return;
                }
            }
            if self.take_token().is_some_and(|action| action.text.eq_ignore_ascii_case("exec")) {
                self.next += 1;
                while self.peek_is(&["as", "and", "uid", "gid"]) {
                    let names_user = self.peek_is(&["uid", "gid"]);
                    self.next += 1 + usize::from(names_user);
                }
            }
            if !self.peek_is(&["else"]) {
                return;
            }
        }
    }

    fn take_names(&mut self) -> Vec<String> {
        const STATEMENTS: [&str; 13] = [
            "check", "start", "stop", "restart", "depends", "group", "if", "mode", "every", "alert",
            "noalert", "set", "include",
        ];
        let mut names = Vec::new();
        while self.next < self.tokens.len() && !self.peek_is(&STATEMENTS) {
            names.extend(self.take_token().map(|token| token.text));
        }
        names
    }

    fn take_token(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.next).cloned();
        self.next += 1;
        token
    }

    fn take_word(&mut self, line: usize, name: &str) -> Result<String> {
        self.take_token()
            .map(|token| token.text)
            .ok_or_else(|| self.syntax_error(line, &format!("{name} is missing")))
    }

    fn peek_is(&self, words: &[&str]) -> bool {
        self.tokens.get(self.next).is_some_and(|token| {
            !token.is_quoted && words.iter().any(|word| token.text.eq_ignore_ascii_case(word))
        })
    }

    fn skip(&mut self, words: &[&str]) {
        while self.peek_is(words) {
            self.next += 1;
        }
    }

    fn log_ignored(&self, token: &Token) {
        tracing::info!(file = self.source, line = token.line, word = token.text, "statement ignored");
    }

    fn syntax_error(&self, line: usize, message: &str) -> Error {
        Error::invalid(format!("{}:{line}: {message}", self.source))
    }
}

/// Splits a command line at spaces outside quotes. Returns `None` if a quote is not closed.
fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            quote @ ('"' | '\'') => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        c if c == quote => break,
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(rest.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typical_file_is_parsed() {
        let text = r#"
            # the web server
            check process web
              with pidfile /var/vcap/sys/run/web/web.pid
              start program "/var/vcap/jobs/web/bin/ctl start" with timeout 60 seconds
              stop program = '/bin/su - vcap -c "/x/ctl stop"' as uid vcap and gid vcap with timeout 2 minutes
              if totalmem > 500 Mb for 3 cycles then alert
              if failed host 127.0.0.1 port 80 protocol http then exec "/bin/start program x" as uid root
                 else if recovered then alert
              if 5 restarts within 5 cycles then timeout
              depends on db, cache
              group vcap

            check file log with path /x
              if changed timestamp then restart
              start program "/not/ours"

            check process db with pidfile "/run/db.pid" mode manual
              start program "/x/db"
              group vcap
            check system localhost
        "#;
        let specs = parse(text, "monit").unwrap();
        assert_eq!(specs.len(), 2);
        let (web, db) = (&specs[0], &specs[1]);
        assert_eq!(web.name, "web");
        let start = web.start.as_ref().unwrap();
        assert_eq!(start.command, ["/var/vcap/jobs/web/bin/ctl", "start"]);
        assert_eq!(start.timeout, Duration::from_secs(60));
        let stop = web.stop.as_ref().unwrap();
        assert_eq!(stop.command, ["/bin/su", "-", "vcap", "-c", "/x/ctl stop"]);
        assert_eq!((stop.user.as_deref(), stop.group.as_deref()), (Some("vcap"), Some("vcap")));
        assert_eq!(stop.timeout, Duration::from_secs(120));
        assert_eq!(web.depends, ["db", "cache"]);
        assert_eq!(db.pidfile, PathBuf::from("/run/db.pid"));
        assert_eq!(db.start.as_ref().unwrap().command, ["/x/db"]);
        assert_eq!(db.stop, None);
    }

    #[test]
    fn timeouts_are_limited() {
        let text =
            "check process x pidfile /p\n start program \"a\" with timeout 18446744073709551615 minutes\n";
        let services = parse(text, "monit").unwrap();
        assert_eq!(services[0].start.as_ref().unwrap().timeout, MAX_TIMEOUT);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line) in [
            ("\ncheck process x", 2),
            ("check process", 1),
            ("check process x pidfile", 1),
            ("check process x pidfile relative", 1),
            ("check process x pidfile /p\n start program \"", 2),
            ("check process x pidfile /p\n start program \"\"", 2),
            ("check process x pidfile /p\n start program \"a\" timeout soon", 2),
            ("check process x pidfile /p\n start program", 2),
        ] {
            let error = parse(text, "monit").unwrap_err().to_string();
            assert!(error.starts_with(&format!("monit:{line}: ")), "{text:?}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn parser_never_panics(text in "(check |process |pidfile |/x |start |program |if |then \
            |else |exec |\"|'|uid |depends |timeout |\\PC|\n){0,40}") {
            let _ = parse(&text, "monit");
        }
    }
}
