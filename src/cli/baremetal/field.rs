//! Options and fields as data, from which the commands of `monopile baremetal` are described.

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction};

use super::pairs;
use crate::cli::choices::number;
use crate::cli::duration;
use ironic::SortKey;

/// The value that an option takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValueKind {
    /// A text.
    Text,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A number that is not negative.
    Number,
    /// A duration.
    Duration,
    /// A duration that may be missing.
    OptionalDuration,
    /// A key with its value, repeatable.
    Pairs,
    /// Several texts, separated by commas or blanks.
    List,
    /// Fields to sort by.
    Sort,
    /// A node, by name or UUID. The field has its UUID.
    Node,
    /// `true` or `false`.
    Bool,
    /// A JSON document.
    Json,
    /// No value: the option sets the field to this.
    Switch(bool),
}

/// A field of a resource with its option, or an option without a field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    /// The name of the option or of the positional argument.
    pub option: &'static str,
    /// The key in the JSON object, or in the query of a list.
    pub key: &'static str,
    /// The placeholder of its value in the help.
    pub value: &'static str,
    /// The short help.
    pub help: &'static str,
    /// The rest of the long help.
    pub long_help: &'static str,
    pub kind: ValueKind,
    /// Other spellings of the option. They are hidden, except the first with [`Field::with_visible_alias`].
    pub aliases: &'static [&'static str],
    shows_alias: bool,
    /// An option that must not be given as well.
    conflict: &'static str,
    /// The bits of its purposes and properties: `CREATE` to `IS_HIDDEN`.
    uses: u8,
}

/// The purpose of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Sets the field of a new object.
    Create,
    /// Changes the field.
    Set,
    /// Removes the field, or a key of it.
    Unset,
    /// Selects objects of a list.
    Filter,
    /// The option is not about a field.
    OfCommand,
}

const CREATE: u8 = 1;
const IS_REQUIRED: u8 = 2;
const SET: u8 = 4;
const UNSET: u8 = 8;
const FILTER: u8 = 16;
const IS_POSITIONAL: u8 = 32;
const IS_REPEATABLE: u8 = 64;
const IS_HIDDEN: u8 = 128;

impl Field {
    /// Describes a field that commands create and set.
    pub(super) const fn new(
        option: &'static str,
        key: &'static str,
        value: &'static str,
        kind: ValueKind,
        help: &'static str,
    ) -> Field {
        Field {
            option,
            key,
            value,
            help,
            long_help: "",
            kind,
            aliases: &[],
            shows_alias: false,
            conflict: "",
            uses: CREATE | SET,
        }
    }

    /// Describes an option without a value.
    pub(super) const fn switch(option: &'static str, help: &'static str) -> Field {
        Field::new(option, option, "", ValueKind::Switch(true), help)
    }

    pub(super) const fn as_required(self) -> Field {
        Field { uses: self.uses | IS_REQUIRED, ..self }
    }

    /// Makes the field a positional argument of a new object.
    pub(super) const fn as_positional(self) -> Field {
        Field { uses: CREATE | IS_REQUIRED | IS_POSITIONAL, ..self }
    }

    /// Only new objects take the field.
    pub(super) const fn only_created(self) -> Field {
        Field { uses: CREATE, ..self }
    }

    /// Only existing objects take the field.
    pub(super) const fn only_set(self) -> Field {
        Field { uses: SET | (self.uses & UNSET), ..self }
    }

    pub(super) const fn can_unset(self) -> Field {
        Field { uses: self.uses | UNSET, ..self }
    }

    pub(super) const fn can_filter(self) -> Field {
        Field { uses: self.uses | FILTER, ..self }
    }

    pub(super) const fn with_aliases(self, aliases: &'static [&'static str]) -> Field {
        Field { aliases, ..self }
    }

    pub(super) const fn with_visible_alias(self, aliases: &'static [&'static str]) -> Field {
        Field { aliases, shows_alias: true, ..self }
    }

    pub(super) const fn with_long_help(self, long_help: &'static str) -> Field {
        Field { long_help, ..self }
    }

    /// Accepts the option several times.
    pub(super) const fn as_repeatable(self) -> Field {
        Field { uses: self.uses | IS_REPEATABLE, ..self }
    }

    /// Hides the option from the help.
    pub(super) const fn as_hidden(self) -> Field {
        Field { uses: self.uses | IS_HIDDEN, ..self }
    }

    /// Rejects the option together with another one.
    pub(super) const fn with_conflict(self, conflict: &'static str) -> Field {
        Field { conflict, ..self }
    }

    /// Returns true if the field has an option for this purpose.
    pub(super) fn has_option_for(&self, purpose: Purpose) -> bool {
        let purpose_bit = match purpose {
            Purpose::Create => CREATE,
            Purpose::Set => SET,
            Purpose::Unset => UNSET,
            Purpose::Filter => FILTER,
            Purpose::OfCommand => return true,
        };
        self.uses & purpose_bit != 0
    }

    /// Describes the option for clap.
    pub(super) fn arg(&self, purpose: Purpose) -> Arg {
        let arg = Arg::new(self.option);
        let is_positional = self.uses & IS_POSITIONAL != 0;
        let arg = match (is_positional, self.aliases) {
            (true, _) => arg,
            (false, [first, hidden_aliases @ ..]) if self.shows_alias => {
                arg.long(self.option).visible_alias(*first).aliases(hidden_aliases.iter().copied())
            }
            (false, aliases) => arg.long(self.option).aliases(aliases.iter().copied()),
        };
        let is_required =
            self.uses & IS_REQUIRED != 0 && matches!(purpose, Purpose::Create | Purpose::OfCommand);
        let arg = match purpose {
            Purpose::Filter => arg.help(format!("List only those with this `{}`", self.key)),
            Purpose::Unset => match self.kind {
                ValueKind::Pairs => {
                    let help = format!("Remove this key of `{}` (repeatable)", self.key);
                    return arg.value_name("KEY").action(ArgAction::Append).help(help);
                }
                _ => return arg.action(ArgAction::SetTrue).help(format!("Remove `{}`", self.key)),
            },
            _ => arg.help(self.help).required(is_required),
        };
        let arg = arg.hide(self.uses & IS_HIDDEN != 0);
        let arg = if self.uses & IS_REPEATABLE == 0 { arg } else { arg.action(ArgAction::Append) };
        let arg = if self.conflict.is_empty() { arg } else { arg.conflicts_with(self.conflict) };
        let arg = match self.long_help {
            "" => arg,
            long_help => arg.long_help(format!("{}\n\n{long_help}", self.help)),
        };
        match self.kind {
            ValueKind::Switch(_) => arg.action(ArgAction::SetTrue),
            kind => {
                with_value(arg.value_name(self.value), kind, is_positional && purpose == Purpose::OfCommand)
            }
        }
    }
}

/// Describes the value of an option. A positional argument that takes a list needs no commas.
fn with_value(arg: Arg, kind: ValueKind, is_positional: bool) -> Arg {
    match kind {
        ValueKind::Text | ValueKind::Node | ValueKind::Json | ValueKind::Switch(_) => arg,
        ValueKind::Choice(values) => arg.value_parser(PossibleValuesParser::new(values)),
        ValueKind::Bool => arg.value_parser(PossibleValuesParser::new(["true", "false"])),
        ValueKind::Number => arg.value_parser(number(0_u32, None, 10)),
        ValueKind::Duration => arg.value_parser(ValueParser::new(duration::parse)),
        ValueKind::OptionalDuration => {
            arg.num_args(0..=1).default_missing_value("0").value_parser(ValueParser::new(duration::parse))
        }
        ValueKind::Pairs => arg.action(ArgAction::Append).value_parser(ValueParser::new(pairs::parse)),
        ValueKind::List if is_positional => arg.action(ArgAction::Append).num_args(1..),
        ValueKind::List => arg.action(ArgAction::Append).num_args(1..).value_delimiter(','),
        ValueKind::Sort => {
            arg.action(ArgAction::Append).value_delimiter(',').value_parser(ValueParser::new(sort_key))
        }
    }
}

/// Parses a field to sort by.
fn sort_key(text: &str) -> Result<SortKey, String> {
    match text.split_once(':').unwrap_or((text, "asc")) {
        (key, direction @ ("asc" | "desc")) if !key.is_empty() => {
            Ok(SortKey { field: key.to_owned(), is_descending: direction == "desc" })
        }
        _ => Err("expected KEY, KEY:asc or KEY:desc, such as name:desc".to_owned()),
    }
}
