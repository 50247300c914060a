//! The arguments for programs that print variables.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Args, Command, ValueHint};

use super::paths;
use super::suggestions::error_with_hints;
use manifest::VarsProgram;

/// Programs that print variables.
#[derive(Debug, Clone, Args)]
pub(super) struct VarsExecArgs {
    /// Load variables from the output of a program (repeatable)
    ///
    /// COMMAND is a program with its arguments, split as a shell splits words, and run without a shell. It
    /// prints YAML or JSON: a mapping of names to values. It runs once, cannot ask questions, and has 60
    /// seconds. All values are redacted in output, except by commands that print values. For example,
    /// --vars-exec 'sops decrypt secrets.yml'.
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString, value_parser = CommandParser)]
    vars_exec: Vec<VarsProgram>,
}

impl VarsExecArgs {
    /// Returns the programs. Clones share their output.
    pub(super) fn programs(&self) -> Vec<VarsProgram> {
        self.vars_exec.clone()
    }
}

/// Parses a command. Errors do not show it, because its arguments may contain secrets.
#[derive(Clone)]
struct CommandParser;

impl TypedValueParser for CommandParser {
    type Value = VarsProgram;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, text: &OsStr) -> Result<VarsProgram, clap::Error> {
        parse(text).map_err(|problem| {
            let message = format!(
                "the command of --vars-exec is not valid: {problem}; it is not shown here, because it may \
                 contain a secret"
            );
            let hint = "quote the command as a whole: --vars-exec 'PROGRAM ARG'".to_owned();
            error_with_hints(ErrorKind::ValueValidation, &message, &[hint])
        })
    }
}

/// Splits a command into words.
fn parse(text: &OsStr) -> Result<VarsProgram, &'static str> {
    let text = text.to_str().ok_or("it is not UTF-8 text")?;
    let words = shell_words::split(text).map_err(|_| "a quote is not closed")?;
    program(words, None).ok_or("it names no program")
}

/// Creates a program from its words. `directory` is the one in which it runs, and the base of a relative
/// path. Returns none if the first word is missing or empty.
pub(super) fn program(words: Vec<String>, directory: Option<&Path>) -> Option<VarsProgram> {
    let mut words = words.into_iter();
    let name = words.next().filter(|name| !name.is_empty())?;
    let name = paths::expand(Path::new(&name), paths::home().as_deref());
    // A name without a slash is looked up in PATH.
    let is_path = name.as_os_str().as_encoded_bytes().contains(&b'/');
    let program = match directory {
        // Without the `.` of `./tool`.
        Some(directory) if is_path => directory.join(name).components().collect(),
        _ => name,
    };
    Some(VarsProgram::new(program, words.collect(), directory.map(PathBuf::from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_split_as_a_shell_does() {
        let words = |text: &str| parse(OsStr::new(text)).map(|program| program.command_line());
        assert_eq!(words("pass show  bosh/prod").unwrap(), "pass show bosh/prod");
        assert_eq!(words(r#"a 'b c' "d'e" f\ g $h"#).unwrap(), r"a 'b c' 'd'\''e' 'f g' '$h'");
        assert_eq!(words("''"), Err("it names no program"));
        assert_eq!(words(" "), Err("it names no program"));
        assert_eq!(words("a 'b"), Err("a quote is not closed"));
    }

    #[test]
    fn relative_path_of_a_program_starts_at_its_directory() {
        let program =
            |name: &str| program(vec![name.into()], Some(Path::new("/env"))).unwrap().command_line();
        assert_eq!(program("tools/secrets"), "/env/tools/secrets");
        assert_eq!(program("./secrets"), "/env/secrets");
        assert_eq!(program("secrets"), "secrets");
        assert_eq!(program("/bin/secrets"), "/bin/secrets");
    }
}
