//! Completes the commands in hints with the manifest and the options of this run, so that they can be pasted.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use clap::ArgMatches;
use clap::Command;

use super::grammar;
use super::paths::{default_vars_store, is_state_name, manifest_of_vars_store};
use base::events::{Event, Sink};
use base::text::shell_word;
use manifest::variables::PLACEHOLDER;

/// The start of a command in a hint.
const PROGRAM_PREFIX: &str = "monopile ";

/// The placeholder for the manifest in hints.
const MANIFEST_PLACEHOLDER: &str = "MANIFEST";

/// The placeholder for a vars store in hints.
const STORE_PLACEHOLDER: &str = "STORE";

/// Stands in hints for the words of this command line. Options may follow.
const SAME_COMMAND: &str = "SAME-COMMAND";

/// Options that the operator decides anew for each run. A hint does not repeat them: it would forget a call
/// of this run before the operator has looked in the IaaS.
const ONE_TIME_OPTIONS: [&str; 1] = ["--forget-open-calls"];

/// The options that a hint adds to the same options of the command line. Other options of a hint replace
/// them.
const REPEATABLE_OPTIONS: [&str; 4] = ["--var", "--var-file", "--vars-file", "--ops-file"];

/// The options that select an environment, by the id of the argument.
const ENVIRONMENT_OPTIONS: [(&str, &str); 11] = [
    ("ops_files", "ops-file"),
    ("vars", "var"),
    ("var_files", "var-file"),
    ("vars_files", "vars-file"),
    ("vars_exec", "vars-exec"),
    ("vars_env", "vars-env"),
    ("vars_store", "vars-store"),
    ("cpi_config", "cpi-config"),
    ("cloud_config", "cloud-config"),
    ("state", "state"),
    ("env_file", "env-file"),
];

/// The short forms of some of [`ENVIRONMENT_OPTIONS`].
const SHORT_FORMS: [(&str, &str); 3] = [("ops-file", "-o"), ("var", "-v"), ("vars-file", "-l")];

/// The options that decrypt and encrypt, which most commands take.
const GLOBAL_OPTIONS: [(&str, &str); 2] = [("encrypt_to", "encrypt-to"), ("identity", "identity")];

/// The manifest and the options of this run, as the operator wrote them. Hints repeat them.
#[derive(Debug, Clone, Default)]
pub(super) struct RepeatedArgs {
    manifest: Option<String>,
    /// Pairs of long option and value.
    options: Vec<(&'static str, String)>,
    /// Pairs of long option and value, for global options.
    global_options: Vec<(&'static str, String)>,
    /// True if an env file that was found names the manifest.
    env_file_names_manifest: bool,
    /// The words after the program's name, without secrets.
    command_line: Vec<String>,
}

impl RepeatedArgs {
    /// Reads the manifest and the options from the command line. `is_given` returns true if an argument is on
    /// it.
    pub(super) fn of(matches: &ArgMatches, is_given: &dyn Fn(&str) -> bool) -> Self {
        let values = |id: &str| -> Vec<String> {
            let raw = matches.try_get_raw(id).ok().flatten().filter(|_| is_given(id));
            raw.into_iter().flatten().map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let values_of_option = |(id, option): &(&str, &'static str)| -> Vec<(&'static str, String)> {
            values(id).into_iter().map(|value| (*option, without_secrets(id, value))).collect()
        };
        let mut options: Vec<_> = ENVIRONMENT_OPTIONS.iter().flat_map(values_of_option).collect();
        let mut manifest = values("manifest").into_iter().next();
        // `vars rotate` takes manifests as options.
        if let [path] = values("manifests").as_slice() {
            manifest = Some(path.clone());
        }
        // The commands of `vars` take the vars store, which may be beside the manifest.
        if manifest.is_none()
            && let [store] = values("store").as_slice()
        {
            let path = manifest_of_vars_store(Path::new(store));
            manifest = path.map(|path| path.to_string_lossy().into_owned());
        }
        // Some commands take the state in place of the manifest.
        options.extend(manifest.take_if(|name| is_state_name(Path::new(name))).map(|state| ("state", state)));
        RepeatedArgs {
            manifest,
            options,
            global_options: GLOBAL_OPTIONS.iter().flat_map(values_of_option).collect(),
            env_file_names_manifest: false,
            command_line: Vec::new(),
        }
    }

    /// Keeps the whole command line, which begins with the program's name, for hints that repeat it.
    /// `command` is the grammar of the command in it.
    pub(super) fn with_command_line(mut self, args: &[OsString], command: &Command) -> Self {
        self.command_line = shown_words(args, command);
        self
    }

    /// Returns true if the command line has this long option.
    pub(super) fn has_option(&self, option: &str) -> bool {
        let words = self.command_line.iter().take_while(|word| *word != "--");
        words.map(|word| word.split('=').next().unwrap_or_default()).any(|name| name == option)
    }

    /// Returns the manifest on the command line.
    pub(super) fn manifest(&self) -> Option<&str> {
        self.manifest.as_deref()
    }

    /// Sets that an env file that was found names the manifest.
    pub(super) fn with_found_manifest(mut self) -> Self {
        self.env_file_names_manifest = true;
        self
    }

    /// Completes every command in a text that lacks its manifest.
    pub(super) fn complete(&self, text: &str) -> String {
        let is_empty = self.manifest.is_none() && self.options.is_empty() && self.global_options.is_empty();
        let is_complete = is_empty && !self.env_file_names_manifest && !text.contains(SAME_COMMAND);
        if is_complete || !text.contains(PROGRAM_PREFIX) {
            return text.to_owned();
        }
        let grammar = grammar::for_all_commands();
        let mut parts = text.split(PROGRAM_PREFIX);
        let mut complete_text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            complete_text.push_str(PROGRAM_PREFIX);
            let complete_part = match part.strip_prefix(SAME_COMMAND) {
                Some(rest) => Some(self.same_command(rest)),
                None => self.complete_command(&grammar, part),
            };
            complete_text.push_str(&complete_part.unwrap_or_else(|| part.to_owned()));
        }
        complete_text
    }

    /// Returns this command line with the options at the start of `rest`, which ends the command in a
    /// backtick. They replace the same options of the command line.
    fn same_command(&self, rest: &str) -> String {
        let (options, rest) = rest.split_at(rest.find('`').unwrap_or(rest.len()));
        let option_words: Vec<&str> = options.split_whitespace().collect();
        let mut words = self.command_line.clone();
        let double_dash = words.iter().position(|word| word == "--");
        let words_for_program = double_dash.map(|index| words.split_off(index)).unwrap_or_default();
        words.retain(|word| !ONE_TIME_OPTIONS.contains(&word.as_str()));
        for (index, option) in option_words.iter().enumerate().filter(|(_, word)| word.starts_with("--")) {
            if REPEATABLE_OPTIONS.contains(option) {
                continue;
            }
            let has_value = option_words.get(index + 1).is_some_and(|next| !next.starts_with("--"));
            let with_value = format!("{option}=");
            while let Some(index) =
                words.iter().position(|word| word == option || word.starts_with(&with_value))
            {
                let count = if has_value && words[index] == *option { 2 } else { 1 };
                words.drain(index..(index + count).min(words.len()));
            }
        }
        let line: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
        let end: String = words_for_program.iter().map(|word| format!(" {}", shell_word(word))).collect();
        format!("{}{}{end}{rest}", line.join(" "), options.trim_end())
    }

    /// Returns the form of an option that the operator used, or the long form if the operator used none.
    fn typed_form(&self, option: &str) -> String {
        let long = format!("--{option}");
        let short = SHORT_FORMS.iter().find(|(name, _)| *name == option).map(|(_, short)| *short);
        let is_typed = |short: &&str| self.command_line.iter().any(|word| word.starts_with(short));
        short.filter(|_| !self.has_option(&long)).filter(is_typed).map_or(long, str::to_owned)
    }

    /// Returns the vars store of this run, if its path is known.
    fn vars_store(&self) -> Option<String> {
        let value =
            |name: &str| self.options.iter().find(|(option, _)| *option == name).map(|(_, path)| path);
        if let Some(store) = value("vars-store") {
            return Some(store.clone());
        }
        let manifest = Path::new(self.manifest.as_ref()?);
        let store = default_vars_store(manifest, value("state").map_or(manifest, Path::new))?;
        store.exists().then(|| store.to_string_lossy().into_owned())
    }

    /// Completes a text that begins with the words of a command. Returns `None` if it needs nothing.
    fn complete_command(&self, grammar: &Command, text: &str) -> Option<String> {
        let command_end = text.find('`').unwrap_or(text.len());
        let (mut command, mut words_end) = (grammar, 0);
        while let Some((word, subcommand)) = first_word(&text[words_end..command_end])
            .and_then(|word| Some((word, command.find_subcommand(word)?)))
        {
            (command, words_end) = (subcommand, words_end + word.len());
            if !text[words_end..command_end].starts_with(' ') {
                break;
            }
            words_end += 1;
        }
        let rest = text[words_end..command_end].trim_start();
        let takes = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
        // `cpi call` takes the manifest as the first of its words.
        let takes_manifest = takes("manifest") || takes("words");
        let after_manifest = rest.strip_prefix(MANIFEST_PLACEHOLDER);
        let has_words =
            after_manifest.is_none() && rest.starts_with(|first: char| first != '-' && first != ',');
        if let (true, Some(rest)) = (takes("store"), rest.strip_prefix(STORE_PLACEHOLDER)) {
            let store = self.vars_store()?;
            return Some(format!(
                "{} {}{rest}{}",
                text[..words_end].trim_end(),
                shell_word(&store),
                &text[command_end..]
            ));
        }
        if words_end == 0 || rest.contains("--help") || !(takes_manifest || takes("state") || takes("store"))
        {
            return None;
        }
        // Only after a command in backticks is its end known.
        let is_quoted = command_end < text.len();
        let has_option = |option: &str| command.get_arguments().any(|arg| arg.get_long() == Some(option));
        let is_replaced = |option: &str| {
            let long_form = format!("--{option}");
            !REPEATABLE_OPTIONS.contains(&long_form.as_str())
                && rest.split_whitespace().any(|word| word == long_form)
        };
        let options = self.options.iter().filter(|(option, _)| has_option(option) && !is_replaced(option));
        // `vars rotate -m MANIFEST` names the manifest itself.
        let manifest_options = options.clone().filter(|_| takes("manifests") && rest.contains(" -m "));
        let extra_options = manifest_options.chain(&self.global_options).filter(|_| is_quoted);
        let mut extra_options = extra_options.fold(String::new(), |text, (option, value)| {
            format!("{text} {} {}", self.typed_form(option), shell_word(value))
        });
        // The same command again asks no more questions than now. Another command may delete more.
        if is_quoted && self.command_line.first().map(String::as_str) == Some(text[..words_end].trim_end()) {
            let is_typed = |word: &&String| ["-n", "--non-interactive"].contains(&word.as_str());
            extra_options.extend(self.command_line.iter().find(is_typed).map(|word| format!(" {word}")));
        }
        if !takes_manifest || has_words || rest.contains("--state ") {
            let command_words = match &self.manifest {
                Some(manifest) if takes("manifests") => {
                    text[..command_end].replace("-m MANIFEST", &format!("-m {}", shell_word(manifest)))
                }
                _ => text[..command_end].to_owned(),
            };
            let new_text = format!("{command_words}{extra_options}{}", &text[command_end..]);
            return (new_text != text).then_some(new_text);
        }
        let mut words: Vec<String> = Vec::new();
        words.extend(match &self.manifest {
            Some(manifest) => Some(shell_word(manifest).into_owned()),
            // An env file names the manifest.
            None if self.env_file_names_manifest
                || self.options.iter().any(|(option, _)| *option == "env-file") =>
            {
                None
            }
            None => after_manifest.map(|_| MANIFEST_PLACEHOLDER.to_owned()),
        });
        for (option, value) in options {
            words.push(format!("{} {}", self.typed_form(option), shell_word(value)));
        }
        let rest = after_manifest.unwrap_or(rest).trim_start();
        words.insert(0, text[..words_end].trim_end().to_owned());
        words.extend((!rest.is_empty()).then(|| rest.to_owned()));
        let command = words.join(" ").replace(" ,", ",");
        Some(format!("{command}{extra_options}{}", &text[command_end..]))
    }
}

/// Returns the words after the program's name as hints show them, without secrets. `command` is the grammar
/// of the command among them.
pub(super) fn shown_words(args: &[OsString], command: &Command) -> Vec<String> {
    let mut words: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    for index in 1..words.len() {
        let word = words[index].clone();
        let option = words[index - 1].as_str();
        words[index] = match word.split_once('=') {
            _ if option == "--var" || end_of_short_var(option, command) == Some(option.len()) => {
                without_secrets("vars", word)
            }
            _ if option == "--vars-exec" => PLACEHOLDER.to_owned(),
            Some(("--vars-exec", _)) => format!("--vars-exec={PLACEHOLDER}"),
            Some(("--var", value)) => format!("--var={}", without_secrets("vars", value.to_owned())),
            _ => match end_of_short_var(&word, command).filter(|end| *end < word.len()) {
                Some(end) => word[..end].to_owned() + &without_secrets("vars", word[end..].to_owned()),
                None => word,
            },
        };
    }
    words.into_iter().skip(1).collect()
}

/// Returns the end of the short form of `--var` in a word of short options, such as `-v` and `-nv`.
fn end_of_short_var(word: &str, command: &Command) -> Option<usize> {
    // Such an option takes the rest of the word as its value.
    let takes_value = |letter: char| {
        let mut options = command.get_arguments().filter(|arg| arg.get_action().takes_values());
        options.any(|option| option.get_short() == Some(letter))
    };
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    let (text_before, _) = letters.split_once('v')?;
    (!text_before.contains(takes_value)).then_some("-v".len() + text_before.len())
}

/// Leaves out what may be secret before the redactor knows it: values of variables that are no numbers,
/// booleans or addresses, and arguments of programs that print values.
fn without_secrets(id: &str, value: String) -> String {
    match id {
        "vars" => match value.split_once('=') {
            Some((_, text)) if is_plain(text) => value,
            Some((name, _)) => format!("{name}={PLACEHOLDER}"),
            None => String::new(),
        },
        "vars_exec" => PLACEHOLDER.to_owned(),
        _ => value,
    }
}

/// Returns true for a port or another short number, a boolean, an IP address or a range of addresses.
fn is_plain(text: &str) -> bool {
    let (address, length) = text.split_once('/').unwrap_or((text, "0"));
    text.parse::<u16>().is_ok()
        || text.parse::<bool>().is_ok()
        || address.parse::<IpAddr>().is_ok() && length.parse::<u8>().is_ok()
}

/// Returns the letters and hyphens at the start of a text.
fn first_word(text: &str) -> Option<&str> {
    let end =
        text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

/// A sink that completes the commands in plans, notes, warnings, hints and the summary.
pub(super) struct CompletingSink {
    pub(super) repeated_args: RepeatedArgs,
    pub(super) next: Arc<dyn Sink>,
}

impl Sink for CompletingSink {
    fn receive(&self, event: &Event) {
        match event {
            Event::Warning(warning) => {
                let complete = |text: &String| self.repeated_args.complete(text);
                self.next.receive(&Event::Warning(warning.map_texts(complete)));
            }
            Event::PlanShown { lines } => {
                let lines = lines.iter().map(|line| self.repeated_args.complete(line)).collect();
                self.next.receive(&Event::PlanShown { lines });
            }
            Event::Note { text } => {
                self.next.receive(&Event::Note { text: self.repeated_args.complete(text) })
            }
            Event::RunFinished { summary, hints, .. }
                if hints.iter().chain([summary]).any(|text| text.contains(PROGRAM_PREFIX)) =>
            {
                let mut event = event.clone();
                if let Event::RunFinished { summary, hints, .. } = &mut event {
                    *summary = self.repeated_args.complete(summary);
                    hints.iter_mut().for_each(|hint| *hint = self.repeated_args.complete(hint));
                }
                self.next.receive(&event);
            }
            _ => self.next.receive(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_get_the_words_of_the_run() {
        let repeated_args = RepeatedArgs {
            manifest: Some("my env/m.yml".to_owned()),
            options: vec![("ops-file", "o.yml".to_owned()), ("state", "s.json".to_owned())],
            ..RepeatedArgs::default()
        };
        for (text, expected) in [
            ("run it again", "run it again"),
            (
                "start them: `monopile start-env MANIFEST`",
                "start them: `monopile start-env 'my env/m.yml' --ops-file o.yml --state s.json`",
            ),
            (
                "`monopile cloud-check MANIFEST --report`, then `monopile logs`",
                "`monopile cloud-check 'my env/m.yml' --ops-file o.yml --state s.json --report`, then \
                 `monopile logs 'my env/m.yml' --ops-file o.yml --state s.json`",
            ),
            (
                "list them: monopile state show --only disks",
                "list them: monopile state show 'my env/m.yml' --state s.json --only disks",
            ),
            (
                "`monopile cpi call MANIFEST has_vm vm-1` shows the answer",
                "`monopile cpi call 'my env/m.yml' --ops-file o.yml --state s.json has_vm vm-1` shows the \
                 answer",
            ),
            // A complete command stays as it is.
            ("monopile state backup --state x.json", "monopile state backup --state x.json"),
            ("monopile plan a.yml", "monopile plan a.yml"),
            ("monopile vars rotate STORE NAME", "monopile vars rotate STORE NAME"),
            (
                "`monopile vars rotate s.yml a -m m.yml`",
                "`monopile vars rotate s.yml a -m m.yml --ops-file o.yml`",
            ),
            (
                "`monopile vars rotate s.yml a -m MANIFEST`",
                "`monopile vars rotate s.yml a -m 'my env/m.yml' --ops-file o.yml`",
            ),
            ("monopile example lists all", "monopile example lists all"),
        ] {
            assert_eq!(repeated_args.complete(text), expected);
        }
        let args = ["monopile", "-n", "create-env", "my m.yml", "-v", "pin=123456789", "--vars-store=a.yml"];
        let repeated_args = RepeatedArgs {
            manifest: Some("m.yml".to_owned()),
            options: vec![("var", "a=1".to_owned()), ("vars-file", "l.yml".to_owned())],
            ..repeated_args
        };
        let grammar = grammar::for_all_commands();
        let command = grammar.find_subcommand("create-env").unwrap();
        let same_command = repeated_args.with_command_line(&args.map(OsString::from), command);
        for (text, expected) in [
            (
                "`monopile SAME-COMMAND --yes` now",
                "`monopile -n create-env 'my m.yml' -v 'pin=…' --vars-store=a.yml --yes` now",
            ),
            (
                "`monopile SAME-COMMAND --vars-store b.yml`",
                "`monopile -n create-env 'my m.yml' -v 'pin=…' --vars-store b.yml`",
            ),
            ("`monopile vars check STORE`", "`monopile vars check STORE`"),
            ("`monopile logs MANIFEST`", "`monopile logs m.yml -v a=1 --vars-file l.yml`"),
        ] {
            assert_eq!(same_command.complete(text), expected);
        }
        for (words, expected) in [
            (&["-nv", "pin=123456789"][..], "-nv 'pin=…'"),
            (&["-nvpin=123456789"], "'-nvpin=…'"),
            (&["-n", "--forget-open-calls"], "-n"),
            (&["-v", "port=8580", "-o", "v=1.yml", "-ov=1.yml"], "-v port=8580 -o v=1.yml -ov=1.yml"),
        ] {
            let args = ["monopile", "plan"].iter().chain(words).map(OsString::from);
            let same_command = same_command.clone().with_command_line(&Vec::from_iter(args), command);
            assert_eq!(
                same_command.complete("`monopile SAME-COMMAND`"),
                format!("`monopile plan {expected}`")
            );
        }
        assert_eq!(without_secrets("vars", "admin_token=x=y".to_owned()), "admin_token=…");
        for plain in ["port=8580", "internal_ip=10.0.0.6", "cidr=fd00::/64", "secure=true"] {
            assert_eq!(without_secrets("vars", plain.to_owned()), plain);
        }
        assert_eq!(without_secrets("vars", "pin=12345678".to_owned()), "pin=…");
        assert_eq!(without_secrets("vars_exec", "vault --token=x".to_owned()), "…");
        assert_eq!(without_secrets("vars_store", "creds.yml".to_owned()), "creds.yml");
        assert_eq!(RepeatedArgs::default().complete("monopile plan MANIFEST"), "monopile plan MANIFEST");
        // An env file that was found names the manifest.
        let found_manifest = RepeatedArgs::default().with_found_manifest();
        assert_eq!(
            found_manifest.complete("`monopile create-env MANIFEST` again"),
            "`monopile create-env` again"
        );
        assert_eq!(found_manifest.complete("`monopile logs`, then wait"), "`monopile logs`, then wait");
        let encrypted_environment = RepeatedArgs {
            manifest: Some("m.yml".to_owned()),
            global_options: vec![("identity", "key.txt".to_owned())],
            ..RepeatedArgs::default()
        };
        for (text, expected) in [
            ("`monopile plan MANIFEST`, then", "`monopile plan m.yml --identity key.txt`, then"),
            (
                "`monopile state import m.yml --vm a`",
                "`monopile state import m.yml --vm a --identity key.txt`",
            ),
            ("`monopile vars rotate s.yml a`", "`monopile vars rotate s.yml a --identity key.txt`"),
            ("`monopile completion bash`", "`monopile completion bash`"),
        ] {
            assert_eq!(encrypted_environment.complete(text), expected);
        }
    }
}
