//! Finds the build tools that a packaging script runs by name and without a condition.

use std::collections::BTreeSet;

/// The programs that are checked: those that compile or unpack. Every machine has the others.
const TOOLS: [&str; 33] = [
    "ant",
    "autoconf",
    "automake",
    "autoreconf",
    "bison",
    "bundle",
    "bunzip2",
    "bzip2",
    "c++",
    "cargo",
    "cc",
    "clang",
    "cmake",
    "curl",
    "flex",
    "g++",
    "gcc",
    "gem",
    "git",
    "go",
    "javac",
    "m4",
    "make",
    "mvn",
    "ninja",
    "patch",
    "perl",
    "pkg-config",
    "python3",
    "ruby",
    "rustc",
    "unzip",
    "xz",
];

/// A tool that a script needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tool {
    /// The program of this name.
    Named(&'static str),
    /// Any C compiler, which `./configure` looks for first.
    CCompiler,
}

impl Tool {
    /// Returns the names of the programs. One of them must exist.
    pub(super) fn names(&self) -> Vec<&'static str> {
        match self {
            Tool::Named(name) => vec![name],
            Tool::CCompiler => vec!["gcc", "cc", "clang"],
        }
    }
}

impl std::fmt::Display for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Tool::Named(name) => f.write_str(name),
            Tool::CCompiler => f.write_str("gcc (or another C compiler)"),
        }
    }
}

/// Returns the tools that `script` runs by name and without a condition.
pub(super) fn tools(script: &str) -> BTreeSet<Tool> {
    let mut tools = BTreeSet::new();
    // The number of open `if`s, loops, `case`s and braces.
    let mut depth = 0usize;
    for line in lines(script) {
        for command in commands(&line) {
            let mut words = command.words.iter().map(String::as_str).peekable();
            // Words that precede a command.
            while let Some(word) = words.peek() {
                match *word {
                    "if" | "case" | "for" | "while" | "until" | "select" | "{" => depth += 1,
                    "fi" | "esac" | "done" | "}" => depth = depth.saturating_sub(1),
                    "then" | "else" | "elif" | "do" | "!" | "time" | "exec" | "env" | "sudo" | "nice" => {}
                    other if is_assignment(other) => {}
                    _ => break,
                }
                // Later programs may be found elsewhere.
                if command.words.iter().any(|word| sets_path(word)) {
                    return tools;
                }
                words.next();
            }
            let Some(word) = words.next() else { continue };
            match word {
                // After this, programs may be found in other directories.
                "source" | "." => return tools,
                "export" | "declare" if words.clone().any(sets_path) => return tools,
                // The script looks for a tool itself, so it may do without.
                "command" | "which" | "type" | "hash" => return tools,
                // A function may have the name of a tool, and its callers are unknown.
                "function" => return tools,
                _ if depth > 0 || command.is_conditional => {}
                "./configure" => {
                    tools.insert(Tool::CCompiler);
                }
                other => {
                    tools.extend(TOOLS.iter().find(|tool| **tool == other).map(|tool| Tool::Named(tool)))
                }
            }
        }
    }
    tools
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn sets_path(word: &str) -> bool {
    word.starts_with("PATH=") || word.starts_with("PATH+=")
}

/// Returns the lines of a script, with continued lines joined, without comments and here-documents.
fn lines(script: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut input = script.lines();
    while let Some(first) = input.next() {
        let mut line = first.to_owned();
        while line.ends_with('\\') && !line.trim_start().starts_with('#') {
            line.pop();
            match input.next() {
                Some(next) => line.push_str(next),
                None => break,
            }
        }
        let line = without_comment(&line);
        if let Some(end) = here_document(&line) {
            for next in input.by_ref() {
                if next.trim() == end {
                    break;
                }
            }
        }
        lines.push(line);
    }
    lines
}

fn without_comment(line: &str) -> String {
    let mut quote = None;
    let mut previous_char = ' ';
    for (index, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if previous_char.is_whitespace() || previous_char == ';' => {
                return line.get(..index).unwrap_or_default().to_owned();
            }
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
        previous_char = c;
    }
    line.to_owned()
}

/// Returns the word that ends the here-document which begins in this line.
fn here_document(line: &str) -> Option<String> {
    let (_, end_marker) = line.split_once("<<")?;
    if end_marker.starts_with('<') {
        return None;
    }
    let end_marker = end_marker.trim_start_matches('-').trim_start();
    let word: String = end_marker
        .trim_start_matches(['\'', '"', '\\'])
        .chars()
        .take_while(|character| character.is_alphanumeric() || *character == '_')
        .collect();
    (!word.is_empty()).then_some(word)
}

/// A command of a line.
#[derive(Default)]
struct ShellCommand {
    words: Vec<String>,
    /// True if it runs only when a test succeeds or another command fails.
    is_conditional: bool,
}

impl ShellCommand {
    fn is_test(&self) -> bool {
        matches!(self.words.first().map(String::as_str), Some("[" | "[[" | "test" | "!" | "grep"))
    }
}

/// Splits a line into commands. Quoted text belongs to its word, and the content of `$(…)` counts as separate
/// commands, which is accurate enough here.
fn commands(line: &str) -> Vec<ShellCommand> {
    let mut commands = Vec::new();
    let mut command = ShellCommand::default();
    let mut word = String::new();
    let mut quote = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if let Some(open) = quote {
            if c == open {
                quote = None;
            } else {
                word.push(c);
            }
            continue;
        }
        match c {
            '\'' | '"' => quote = Some(c),
            ' ' | '\t' => end_word(&mut word, &mut command),
            ';' | '&' | '|' | '(' | ')' | '`' => {
                end_word(&mut word, &mut command);
                let previous_command = std::mem::take(&mut command);
                if c == '(' && chars.next_if_eq(&')').is_some() {
                    // The definition of a function, not a command.
                    continue;
                }
                command.is_conditional = match c {
                    '&' if chars.next_if_eq(&'&').is_some() => {
                        previous_command.is_conditional || previous_command.is_test()
                    }
                    '|' => chars.next_if_eq(&'|').is_some() || previous_command.is_conditional,
                    _ => false,
                };
                commands.push(previous_command);
            }
            other => word.push(other),
        }
    }
    end_word(&mut word, &mut command);
    commands.push(command);
    commands
}

fn end_word(word: &mut String, command: &mut ShellCommand) {
    if !word.is_empty() {
        command.words.push(std::mem::take(word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(script: &str) -> Vec<String> {
        {
            let mut names: Vec<String> = tools(script).iter().map(Tool::to_string).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn finds_tools_run_as_plain_commands() {
        for (script, expected) in [
            (
                "set -e\ntar xzf x.tgz\ncd x\n./configure --prefix=$BOSH_INSTALL_TARGET\nmake -j4\nmake \
                    install",
                "gcc (or another C compiler),make",
            ),
            ("CFLAGS=-O2 gcc -o x x.c", "gcc"),
            ("cat x | patch -p1", "patch"),
            ("  time make \\\n  -j4", "make"),
            ("exec ruby build.rb", "ruby"),
            ("x=$(go env GOPATH)", "go"),
            ("set -e; make; cmake .", "cmake,make"),
            ("cd x && ./configure && make", "gcc (or another C compiler),make"),
        ] {
            assert_eq!(names(script).join(","), expected, "{script}");
        }
    }

    #[test]
    fn ignores_tools_in_other_contexts() {
        for script in [
            "# make\necho make gcc",
            "echo 'first; make'",
            "cat > x <<EOF\nmake\nEOF\n",
            "if [ -f Makefile ]; then\n  make\nfi",
            "for dir in a b; do make -C $dir; done",
            "cmake_version=3\n[ -f x ] && make",
            "test -x x || go build",
            "export PATH=$BOSH_PACKAGES_DIR/ruby/bin:$PATH\nbundle install",
            "PATH=$BOSH_PACKAGES_DIR/ruby/bin:$PATH bundle install",
            "source $BOSH_PACKAGES_DIR/golang/bosh/compile.env\ngo build",
            ". x.env; go build",
            "command -v gcc || exit 0\ngcc x.c",
            "make() {\n echo no\n}\n",
            "build() {\n  make\n}\n",
            "$CC x.c; ${BOSH_PACKAGES_DIR}/go/bin/go build",
        ] {
            assert_eq!(names(script), Vec::<String>::new(), "{script}");
        }
    }
}
