//! `monopile vars`: prints, checks and rotates the variables of a vars store.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};

use super::duration;
use super::env_file::{EnvFile, EnvFileArgs};
use super::finish::CommandResult;
use super::table::Table;
use super::vars_exec_args::VarsExecArgs;
use super::{encryption, paths, session::Session, signals};
use crate::ui;
use base::Result;
use manifest::Inputs;
use manifest::variables::GivenValues;
use manifest::vars_commands::command::{self, VarsRequest};
use manifest::vars_commands::report::VariableRow;

#[derive(Debug, Clone, Args)]
pub(super) struct VarsArgs {
    #[command(subcommand)]
    command: VarsCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum VarsCommand {
    /// List the variables of a vars store, without secrets
    ///
    /// Shows the type of each value, the fingerprint of a key, and the subject, expiry date and CA of a
    /// certificate. `vars get` prints a value.
    List {
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Print one value, such as a certificate or a password
    ///
    /// Prints secrets in plain text.
    #[command(allow_missing_positional = true)]
    Get {
        #[command(flatten)]
        store: StoreArgs,
        /// Path to the value, as in ops files, such as /mbus_bootstrap_ssl/ca
        #[arg(value_name = "OP-PATH", value_hint = ValueHint::Other)]
        path: String,
    },
    /// Check certificates and keys, and with -m the declarations of manifests
    ///
    /// Reports certificates that have expired or will soon, and values that do not match their declaration.
    /// Changes nothing.
    Check {
        #[command(flatten)]
        store: StoreArgs,
        #[command(flatten)]
        declarations: DeclarationArgs,
        /// Report certificates that expire within this time, such as 60d
        #[arg(id = "within", long = "within", value_name = "AGE", default_value = "30d",
              value_parser = duration::parse_age)]
        expiry_window: Duration,
    },
    /// Generate a new value; for a CA also for its certificates
    ///
    /// Replaces the value in the vars store without asking. Until the next create-env, the store keeps the
    /// old value under `monopile_previous`, without its private key. Copy the vars store first to be able to
    /// go back.
    ///
    /// A CA is rotated in two steps. The first also renews what the CA signed, and keeps the old CA beside
    /// the new one, so that both are trusted. After the next deploy, --finish removes the old CA; then deploy
    /// again.
    ///
    /// The next create-env replaces the VM if the certificate or the password of its agent changes.
    #[command(allow_missing_positional = true)]
    Rotate {
        #[command(flatten)]
        store: StoreArgs,
        /// Variable to rotate
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        declarations: DeclarationArgs,
        /// Finish the rotation of a CA: stop trusting its old certificate (needs no manifest)
        #[arg(long)]
        finish: bool,
    },
}

#[derive(Debug, Clone, Args)]
struct StoreArgs {
    /// Vars store: a YAML file
    #[arg(value_name = "STORE", value_hint = ValueHint::FilePath)]
    store: PathBuf,

    #[command(flatten)]
    env_file: EnvFileArgs,
}

#[derive(Debug, Clone, Args)]
struct DeclarationArgs {
    /// Read the declarations in `variables:` of this manifest (repeatable)
    #[arg(short = 'm', long = "manifest", value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    manifests: Vec<PathBuf>,

    /// Apply operations from a YAML file to the manifest (repeatable)
    #[arg(short = 'o', long = "ops-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    ops_files: Vec<PathBuf>,

    /// Set a variable; VALUE is YAML (repeatable)
    #[arg(short = 'v', long = "var", value_name = "NAME=VALUE", value_hint = ValueHint::Other)]
    vars: Vec<String>,

    /// Load variables from a YAML file (repeatable)
    #[arg(short = 'l', long = "vars-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    vars_files: Vec<PathBuf>,

    #[command(flatten)]
    vars_exec: VarsExecArgs,
}

impl DeclarationArgs {
    fn inputs(self, env_file: Option<&EnvFile>) -> Result<Vec<Inputs>> {
        let home = paths::home();
        let expand = |path: &PathBuf| paths::expand(path, home.as_deref());
        let inputs_for = |manifest: &PathBuf| {
            let mut inputs = Inputs {
                manifest: expand(manifest),
                ops_files: self.ops_files.iter().map(expand).collect(),
                vars: self.vars.clone(),
                vars_files: self.vars_files.iter().map(expand).collect(),
                vars_exec: self.vars_exec.programs(),
                env_vars: paths::env_vars(),
                encryption: encryption::current(),
                ..Inputs::default()
            };
            if let Some(file) = env_file {
                file.insert_into(&mut inputs);
            }
            GivenValues::check_arguments(&inputs)?;
            Ok(inputs)
        };
        self.manifests.iter().map(inputs_for).collect()
    }
}

impl VarsArgs {
    /// Lists the variables, or makes the request of another subcommand. A signal stops the programs that
    /// print variables.
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let expand = |store: &StoreArgs| paths::expand(&store.store, paths::home().as_deref());
        let (store, request) = match self.command {
            VarsCommand::List { store } => {
                let encryption = encryption::current();
                let rows = command::list(&expand(&store), &encryption, &session.reporter)?;
                return match session.globals.prints_json() {
                    true => CommandResult::json(&rows),
                    false => Ok(CommandResult::Output(
                        variables_table(rows).format(&session.layout()).into_bytes(),
                    )),
                };
            }
            VarsCommand::Get { store, path } => (store, VarsRequest::Get { path }),
            VarsCommand::Check { store, declarations, expiry_window } => {
                let manifests = declarations.inputs(store.env_file.file())?;
                (store, VarsRequest::Check { manifests, min_validity: expiry_window })
            }
            VarsCommand::Rotate { store, name, declarations, finish: false } => {
                let manifests = declarations.inputs(store.env_file.file())?;
                (store, VarsRequest::Rotate { manifests, name })
            }
            VarsCommand::Rotate { store, name, .. } => (store, VarsRequest::Finish { name }),
        };
        let store = expand(&store);
        let work = || command::run(&store, &encryption::current(), &request, &session.reporter);
        let mut text = match request.has_programs() {
            true => signals::count_during(work)?,
            false => work()?,
        };
        if let VarsRequest::Rotate { .. } | VarsRequest::Finish { .. } = &request {
            text = session.complete_commands(&text);
            if let Some(columns) = session.columns() {
                text = ui::wrap(&text, columns);
            }
        }
        Ok(CommandResult::Output(text.into_bytes()))
    }
}

fn variables_table(rows: Vec<VariableRow>) -> Table {
    let mut table = Table::new(["Name", "Type", "Expires", "Signed by", "Detail"]);
    for VariableRow { name, kind, expires, signed_by, rotation, mut detail } in rows {
        if let Some(progress) = rotation {
            detail = format!("{detail}, rotation {}", progress.text());
        }
        table.add_row([
            name,
            kind.to_owned(),
            expires.unwrap_or_default(),
            signed_by.unwrap_or_default(),
            detail,
        ]);
    }
    table
}
