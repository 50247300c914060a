//! Given values: `--var`, `--var-file`, `--vars-file`, `--vars-exec`, `--vars-env`, in this order of
//! precedence, then those of an env file. Within one kind, later values take precedence.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::document_kind::{is_ops_file, matched_state_key};
use crate::files;
use crate::node_kind::kind_with_article;
use crate::vars_store::previous;
use crate::{Inputs, VarsProgram};
use base::encryption::Encryption;
use base::text::shell_word;
use base::{Error, Result};
use yaml::{self, Data, Mapping, Node, Position};

/// Stands for a value in the command of a hint, because the value may be secret.
pub const PLACEHOLDER: &str = "…";

/// Values by variable name.
#[derive(Debug, Clone, Default)]
pub struct GivenValues {
    values: BTreeMap<String, Node>,
    /// The list of values that rotations replaced, if a vars file is a vars store.
    previous: Option<Node>,
    /// The outputs of programs.
    outputs: Vec<Node>,
}

impl GivenValues {
    /// Reads all values that `inputs` names, except the vars store.
    pub fn read(inputs: &Inputs) -> Result<Self> {
        let mut given_values = GivenValues::default();
        given_values.fill(inputs)?;
        Ok(given_values)
    }

    /// Reads into `self`. After an error, `self` keeps the values that were read before the error.
    pub(crate) fn fill(&mut self, inputs: &Inputs) -> Result<()> {
        let (mut env_file_values, mut command_line) = (SourceValues::default(), SourceValues::default());
        let outcome = read_all(inputs, &mut env_file_values, &mut command_line);
        let outputs = [&env_file_values, &command_line].into_iter().flat_map(|variables| &variables.programs);
        self.outputs.extend(outputs.map(|(_, value)| value.clone()));
        let set_result =
            env_file_values.in_order().chain(command_line.in_order()).try_for_each(|(name, value)| {
                if name == previous::PREVIOUS_KEY {
                    self.previous = Some(value);
                    return Ok(());
                }
                self.set(&name, value)
            });
        outcome.and(set_result)
    }

    /// Checks the variables on the command line before a run begins, without reading files or running
    /// programs.
    pub fn check_arguments(inputs: &Inputs) -> Result<()> {
        for (index, pair) in inputs.var_files.iter().enumerate() {
            split_var_file(pair, index, inputs)?;
        }
        for (index, pair) in inputs.vars.iter().enumerate() {
            parse_var(pair, &numbered_option("--var", index, inputs.vars.len()))?;
        }
        Ok(())
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.values.get(name)
    }

    /// Returns the list of values that rotations replaced, see [`previous`].
    pub(crate) fn previous(&self) -> Option<&Node> {
        self.previous.as_ref()
    }

    /// Returns the values that programs printed, also those that others replace.
    pub(crate) fn outputs(&self) -> &[Node] {
        &self.outputs
    }

    /// Replaces the value of a variable as a whole.
    pub(crate) fn replace(&mut self, name: &str, value: Node) {
        self.values.insert(name.to_owned(), value);
    }

    /// Returns all variables with their values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> + Clone {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Sets a variable. A dotted name sets one part: `tls.ca` is the key `ca` of `tls`.
    pub fn set(&mut self, name: &str, value: Node) -> Result<()> {
        let mut segments = name.split('.');
        let root = segments.next().unwrap_or(name).to_owned();
        let keys: Vec<&str> = segments.collect();
        if keys.len() > yaml::MAX_DEPTH {
            return Err(Error::invalid(format!(
                "a variable name has {} parts, more than the {} allowed",
                keys.len(),
                yaml::MAX_DEPTH
            )));
        }
        let Some((last, parents)) = keys.split_last() else {
            self.values.insert(root, value);
            return Ok(());
        };
        let empty_mapping = || Node { data: Data::Map(Mapping::new()), position: value.position.clone() };
        let mut node = self.values.entry(root).or_insert_with(empty_mapping);
        for key in parents {
            node = entry_or_insert(node, key, name, empty_mapping())?;
        }
        *entry_or_insert(node, last, name, Data::Null.into())? = value;
        Ok(())
    }
}

/// The values of one source of arguments: the command line, or an env file.
#[derive(Default)]
struct SourceValues {
    env_vars: Vec<(String, Node)>,
    programs: Vec<(String, Node)>,
    files_and_arguments: Vec<(String, Node)>,
}

impl SourceValues {
    /// Returns the values from the lowest precedence to the highest, so that later ones replace earlier ones.
    fn in_order(self) -> impl Iterator<Item = (String, Node)> {
        self.env_vars.into_iter().chain(self.programs).chain(self.files_and_arguments)
    }
}

/// Reads the values of an env file and of the command line. Programs run last, because a mistake elsewhere
/// would make their output useless.
fn read_all(
    inputs: &Inputs,
    env_file_values: &mut SourceValues,
    command_line: &mut SourceValues,
) -> Result<()> {
    let defaults = &inputs.env_file_variables;
    read_prefixes_and_files(&defaults.vars_env, &defaults.vars_files, inputs, env_file_values)?;
    for (name, path) in &defaults.var_files {
        env_file_values.files_and_arguments.push(read_var_file(name, path)?);
    }
    env_file_values.files_and_arguments.extend(defaults.vars.iter().cloned());
    read_prefixes_and_files(&inputs.vars_env, &inputs.vars_files, inputs, command_line)?;
    for (index, pair) in inputs.var_files.iter().enumerate() {
        let (name, path) = split_var_file(pair, index, inputs)?;
        command_line.files_and_arguments.push(read_var_file(name, Path::new(path))?);
    }
    for (index, pair) in inputs.vars.iter().enumerate() {
        command_line
            .files_and_arguments
            .push(parse_var(pair, &numbered_option("--var", index, inputs.vars.len()))?);
    }
    run_programs(&defaults.vars_exec, inputs, env_file_values)?;
    run_programs(&inputs.vars_exec, inputs, command_line)
}

/// Runs programs and reads the variables that they print.
fn run_programs(programs: &[VarsProgram], inputs: &Inputs, source_values: &mut SourceValues) -> Result<()> {
    for program in programs {
        let mut variables = Vec::new();
        add_mapping(program.read_variables(&inputs.env_vars)?.clone(), &mut variables)?;
        source_values
            .programs
            .extend(variables.into_iter().map(|(name, value)| (name, without_positions(value))));
    }
    Ok(())
}

/// Returns the name of a repeated option for errors that cannot show its value: "--var number 2".
fn numbered_option(option: &str, index: usize, count: usize) -> String {
    if count > 1 { format!("{option} number {}", index + 1) } else { option.to_owned() }
}

/// Returns the value under `key` of `parent`, and inserts `default` if it is absent.
fn entry_or_insert<'n>(parent: &'n mut Node, key: &str, name: &str, default: Node) -> Result<&'n mut Node> {
    let place = parent.position.describe();
    let kind = kind_with_article(parent);
    let Data::Map(map) = &mut parent.data else {
        return Err(Error::invalid(format!(
            "variable '{name}' sets a part of a value that is {kind} ({place}), not a mapping"
        )));
    };
    if map.get(key).is_none() {
        map.insert(Node::string(key), default);
    }
    map.get_mut(key).ok_or_else(|| Error::invalid(format!("variable '{name}' cannot be set")))
}

/// Parses `NAME=VALUE`, where VALUE is YAML. Plain text stays as written, except for quotes around it.
fn parse_var(pair: &str, option: &str) -> Result<(String, Node)> {
    let (name, text) = split_pair(pair, option, "VALUE")?;
    if text == PLACEHOLDER {
        return Err(Error::usage(format!(
            "'{PLACEHOLDER}' in a hint stands for the value of variable '{name}'"
        ))
        .with_hint(format!("give the value: --var {name}=VALUE")));
    }
    let source = PathBuf::from(format!("--var {name}"));
    let value = yaml::load(text, &source).map_err(|error| {
        let yaml_error = Error::invalid(format!("--var {name}: {}", error.problem));
        yaml_error.with_hint(match text.chars().next() {
            // Only these characters are shown, because the text may be a secret.
            Some(first) if "[]{}&*!|>%@`,'\"".contains(first) => {
                format!("VALUE is YAML: quote text that begins with '{first}': --var '{name}=\"…\"'")
            }
            _ => format!("VALUE is YAML: quote text: --var '{name}=\"…\"'"),
        })
    })?;
    let value = match value.data {
        // YAML would fold line breaks and drop what looks like a comment.
        Data::String(_) => Node::string(without_quotes(text)),
        _ => without_positions(value),
    };
    Ok((name.to_owned(), value))
}

fn without_quotes(text: &str) -> &str {
    ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote)).unwrap_or(text)
}

/// Reads variables from the environment, then from files.
fn read_prefixes_and_files(
    prefixes: &[String],
    files: &[PathBuf],
    inputs: &Inputs,
    source_values: &mut SourceValues,
) -> Result<()> {
    for prefix in prefixes {
        read_environment(prefix, &inputs.env_vars, &mut source_values.env_vars)?;
    }
    files
        .iter()
        .try_for_each(|path| read_vars_file(path, &inputs.encryption, &mut source_values.files_and_arguments))
}

/// Splits the pair of `--var-file` with this index.
fn split_var_file<'p>(pair: &'p str, index: usize, inputs: &Inputs) -> Result<(&'p str, &'p str)> {
    split_pair(pair, &numbered_option("--var-file", index, inputs.var_files.len()), "FILE")
}

/// Reads a file whose text is the variable's value.
fn read_var_file(name: &str, path: &Path) -> Result<(String, Node)> {
    let text = files::read_text(path, &format!("var file of '{name}':"))?;
    let position = Position { source: Some(std::sync::Arc::new(path.to_owned())), line: 1, column: 1 };
    Ok((name.to_owned(), Node { data: Data::String(text.into()), position }))
}

fn split_pair<'p>(pair: &'p str, option: &str, value_name: &str) -> Result<(&'p str, &'p str)> {
    match pair.split_once('=') {
        Some((name, rest)) if !name.is_empty() && !rest.is_empty() => Ok((name, rest)),
        // The text is not shown, because it may be a secret if the name or `=` is missing.
        Some((name, _)) if !name.is_empty() => {
            let option = option_name(option);
            Err(Error::usage(format!("{option} {name}= has no {value_name}"))
                .with_hint(format!("for an empty text: {option} {name}=''")))
        }
        Some(_) => Err(malformed_option_error(option, value_name, "has no name before the '='")),
        None => Err(malformed_option_error(option, value_name, "has no '='")),
    }
}

fn malformed_option_error(option: &str, value_name: &str, problem: &str) -> Error {
    Error::usage(format!("{option} needs NAME={value_name}, and the text {problem}")).with_hint(format!(
        "write {} NAME={value_name}; the text is not shown here, because it may be a secret",
        option_name(option)
    ))
}

/// Returns the option without the number that [`numbered_option`] adds.
fn option_name(option: &str) -> &str {
    option.split(' ').next().unwrap_or(option)
}

fn read_vars_file(path: &Path, encryption: &Encryption, variables: &mut Vec<(String, Node)>) -> Result<()> {
    let root = yaml::load(&files::read_decrypted(path, "vars file", encryption)?, path)?;
    if let Some(key) = matched_state_key(|key| root.get(key).is_some()) {
        return Err(Error::invalid(format!(
            "vars file '{}' is a state, which has no variables: it has `{key}`",
            path.display()
        ))
        .with_hint(format!("pass it with `--state {}`", shell_word(&path.to_string_lossy()))));
    }
    match root.data {
        Data::Map(_) => add_mapping(root, variables),
        Data::Null => Ok(()),
        _ => {
            let error = Error::invalid(format!(
                "vars file '{}' is {}, not a mapping of names to values",
                path.display(),
                kind_with_article(&root)
            ));
            Err(match is_ops_file(&root) {
                true => error.with_hint(format!(
                    "pass it as an ops file: `-o {}`",
                    shell_word(&path.to_string_lossy())
                )),
                false => error.with_hint("write one variable a line: `NAME: VALUE`"),
            })
        }
    }
}

/// Reads the variables of a mapping of names to values.
fn add_mapping(root: Node, variables: &mut Vec<(String, Node)>) -> Result<()> {
    let Data::Map(map) = root.data else { return Ok(()) };
    for (key, value) in map {
        let name = match key.data {
            Data::String(name) => name.into(),
            Data::Int(number) => number.to_string(),
            Data::UInt(number) => number.to_string(),
            _ => {
                return Err(Error::invalid(format!(
                    "{}: a variable's name must be a string, and this is {}",
                    key.position.describe(),
                    kind_with_article(&key)
                ))
                .with_hint("put the name in quotes"));
            }
        };
        variables.push((name, value));
    }
    Ok(())
}

/// Returns a warning for each `--vars-env` without an environment variable of its prefix.
pub(crate) fn prefix_warnings(inputs: &Inputs) -> Vec<String> {
    let is_used = |prefix: &&String| {
        let start = format!("{prefix}_");
        inputs.env_vars.iter().any(|(variable, _)| variable.starts_with(&start))
    };
    let unused_prefixes = inputs.vars_env.iter().filter(|prefix| !is_used(prefix));
    unused_prefixes
        .map(|prefix| format!("--vars-env {prefix}: no environment variable begins with {prefix}_"))
        .collect()
}

/// Reads every environment variable that begins with `PREFIX_`. Its value is YAML.
fn read_environment(
    prefix: &str,
    env_vars: &[(String, String)],
    variables: &mut Vec<(String, Node)>,
) -> Result<()> {
    if prefix.is_empty() {
        return Err(Error::usage("--vars-env needs a prefix")
            .with_hint("write one: --vars-env MY sets the variable `name` from MY_name"));
    }
    for (variable, text) in env_vars {
        let Some(name) = variable.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')) else {
            continue;
        };
        let source = PathBuf::from(format!("environment variable {variable}"));
        variables.push((name.to_owned(), without_positions(yaml::load(text, &source)?)));
    }
    Ok(())
}

/// Removes positions, because lines of an argument do not help. Such values take the position of their use.
fn without_positions(node: Node) -> Node {
    let data = match node.data {
        Data::Seq(items) => Data::Seq(items.into_iter().map(without_positions).collect()),
        Data::Map(map) => Data::Map(
            map.iter()
                .map(|(key, value)| (without_positions(key.clone()), without_positions(value.clone())))
                .collect(),
        ),
        other => other,
    };
    data.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given_values(inputs: Inputs) -> GivenValues {
        GivenValues::read(&inputs).unwrap()
    }

    fn json(given_values: &GivenValues, name: &str) -> serde_json::Value {
        given_values.get(name).map_or(serde_json::Value::from("<absent>"), |node| node.to_json().unwrap())
    }

    fn prints(text: &str) -> VarsProgram {
        VarsProgram::new("echo", vec![text.to_owned()], None)
    }

    #[test]
    fn command_line_overrides_programs_of_the_env_file() {
        let env_file_variables = crate::EnvFileVariables {
            vars: vec![("a".into(), Node::string("preset"))],
            vars_exec: vec![prints("{a: preset program, b: preset program, c: preset program}")],
            ..Default::default()
        };
        let given_values = given_values(Inputs {
            env_file_variables,
            vars_exec: vec![prints("b: program")],
            vars_env: vec!["MY".into()],
            env_vars: vec![("MY_b".into(), "env".into()), ("MY_c".into(), "env".into())],
            ..Inputs::default()
        });
        assert_eq!(json(&given_values, "a"), "preset");
        assert_eq!(json(&given_values, "b"), "program");
        assert_eq!(json(&given_values, "c"), "env");
        let outputs: Vec<_> = given_values.outputs().iter().map(|node| node.as_str().unwrap()).collect();
        assert_eq!(outputs, ["preset program", "preset program", "preset program", "program"]);
    }

    #[test]
    fn programs_do_not_run_after_a_mistake_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let touch = VarsProgram::new("touch", vec!["ran".into()], Some(directory.path().into()));
        let inputs = Inputs { vars: vec!["a".into()], vars_exec: vec![touch], ..Inputs::default() };
        assert_eq!(GivenValues::read(&inputs).unwrap_err().kind(), base::ErrorKind::Usage);
        assert!(!directory.path().join("ran").exists());
        assert!(
            GivenValues::read(&Inputs { vars: Vec::new(), ..inputs }).is_err(),
            "a program without output is accepted"
        );
        assert!(directory.path().join("ran").exists());
    }

    #[test]
    fn var_values_are_yaml_and_strings_stay_as_written() {
        for (text, expected) in [
            ("5", serde_json::json!(5)),
            ("'5'", serde_json::json!("5")),
            ("\"a b\"", serde_json::json!("a b")),
            ("a # b", serde_json::json!("a # b")),
            ("a\nb", serde_json::json!("a\nb")),
            ("''", serde_json::json!("")),
            ("'", serde_json::json!("'")),
            ("yes", serde_json::json!(true)),
            ("~", serde_json::Value::Null),
            ("[a, 1]", serde_json::json!(["a", 1])),
            ("{a: b=c}", serde_json::json!({"a": "b=c"})),
            ("x=y", serde_json::json!("x=y")),
        ] {
            if text == "'" {
                assert!(parse_var("a='", "--var").is_err(), "an open quote is accepted");
                continue;
            }
            let (name, value) = parse_var(&format!("a={text}"), "--var").unwrap();
            assert_eq!((name.as_str(), value.to_json().unwrap()), ("a", expected), "{text}");
        }
    }

    #[test]
    fn errors_of_malformed_pairs_hide_their_text() {
        for pair in ["s3cret", "=s3cret", "", "="] {
            let error = parse_var(pair, "--var").unwrap_err();
            assert_eq!(error.kind(), base::ErrorKind::Usage);
            assert!(!format!("{error:?}").contains("s3cret"));
        }
    }

    #[test]
    fn precedence_is_var_var_file_vars_file_program_environment() {
        let directory = tempfile::tempdir().unwrap();
        let text = directory.path().join("text");
        std::fs::write(&text, "from var-file\n").unwrap();
        let vars = directory.path().join("vars.yml");
        std::fs::write(&vars, "a: vars-file\nb: vars-file\nc: vars-file\n12: number\n").unwrap();
        let later_path = directory.path().join("later.yml");
        std::fs::write(&later_path, "c: later vars-file\n").unwrap();
        let given_values = given_values(Inputs {
            vars: vec!["a=var".into()],
            var_files: vec![format!("a={}", text.display()), format!("b={}", text.display())],
            vars_files: vec![vars, later_path],
            vars_exec: vec![prints("{a: program, c: program, d: program}"), prints("d: later program")],
            vars_env: vec!["MY".into()],
            env_vars: ["a", "b", "c", "d", "f"]
                .iter()
                .map(|name| (format!("MY_{name}"), "env".to_owned()))
                .chain([("MYx_e".to_owned(), "no".to_owned()), ("MY_n".to_owned(), "".to_owned())])
                .collect(),
            ..Inputs::default()
        });
        assert_eq!(json(&given_values, "a"), "var");
        assert_eq!(json(&given_values, "b"), "from var-file\n");
        assert_eq!(json(&given_values, "c"), "later vars-file");
        assert_eq!(json(&given_values, "d"), "later program");
        assert_eq!(json(&given_values, "f"), "env");
        assert_eq!(json(&given_values, "e"), "<absent>");
        assert_eq!(json(&given_values, "n"), serde_json::Value::Null);
        assert_eq!(json(&given_values, "12"), "number");
    }

    #[test]
    fn dotted_names_set_parts() {
        let given_values = given_values(Inputs {
            vars: ["t.a.b=1", "t.a.c=2", "t.d=3"].map(str::to_owned).to_vec(),
            ..Inputs::default()
        });
        assert_eq!(json(&given_values, "t"), serde_json::json!({"a": {"b": 1, "c": 2}, "d": 3}));
        let mut given_values = given_values;
        assert!(given_values.set("t.d.e", Node::string("x")).is_err());
        assert!(given_values.set(&".".repeat(1_000_000), Node::string("x")).is_err());
    }
}
