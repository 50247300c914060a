//! The pages of the book inside the program, because an installed binary may come without documents.

use std::ffi::OsString;

use super::HELP;

/// A page of the book.
pub(super) struct Topic {
    /// Its word in `monopile help WORD`, and the name of its file.
    pub(super) name: &'static str,
    /// Its subject.
    pub(super) about: &'static str,
    /// The text in Markdown.
    text: &'static str,
}

macro_rules! topic {
    ($name:literal, $about:literal) => {
        Topic {
            name: $name,
            about: $about,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/", $name, ".md")),
        }
    };
}

/// The pages that a new user or an operator with a failed run needs.
pub(super) const TOPICS: [Topic; 6] = [
    topic!("concepts", "The words of BOSH and monopile, in five minutes"),
    topic!("tour", "Deploy, change, kill and delete an example"),
    topic!("env-file", "Keep the flags of an environment in a file"),
    topic!("changes", "Which change keeps the VM"),
    topic!("troubleshooting", "Error messages, and what to do"),
    topic!("local", "The CPI `local`: VMs from processes of this machine"),
];

/// Returns the page that `monopile help PAGE` prints.
pub(in crate::cli) fn topic(words: &[OsString]) -> Option<&'static str> {
    let [_, help, name] = words else { return None };
    TOPICS.iter().find(|topic| help == HELP.0 && name == topic.name).map(|topic| topic.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::grammar;

    #[test]
    fn pages_have_names_that_no_command_has() {
        let grammar = grammar::whole();
        for Topic { name, about, text } in &TOPICS {
            assert!(grammar.find_subcommand(name).is_none(), "{name}");
            assert!(about.len() < 55 && text.starts_with("# "), "{name}");
            let words = ["monopile", "help", name].map(OsString::from);
            assert_eq!(topic(&words), Some(*text));
        }
        assert_eq!(topic(&["monopile", "help", "plan"].map(OsString::from)), None);
        assert_eq!(topic(&["monopile", "plan", "tour"].map(OsString::from)), None);
    }
}
