//! `monopile cache`: lists, prunes and verifies the cache of this machine, or a shared one.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::finish::CommandResult;
use super::session::Session;
use super::table::{Layout, Table};
use super::{duration, shared_cache};
use artifact::cache::{self, CacheEntry, Pruned, Verified};
use artifact::shared_cache::SharedEntry;
use base::{Error, Result};

#[derive(Debug, Clone, Args)]
pub(super) struct CacheArgs {
    #[command(subcommand)]
    command: CacheCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum CacheCommand {
    /// List the entries of the cache, with size and last use
    List {
        #[command(flatten)]
        side: SideArgs,
    },
    /// Delete entries that were not used for some time
    ///
    /// Deletes downloads, compiled packages and installed CPIs without asking. The next run that needs one
    /// downloads or compiles it again. State, vars store and history are not in the cache. Refuses while
    /// another run uses the cache. A shared cache does not know when an entry was used: with --shared, the
    /// time of its upload counts.
    Prune {
        /// Delete entries unused for this time, such as 14d
        #[arg(long, value_name = "AGE", default_value = "30d", value_parser = duration::parse_age)]
        unused: Duration,

        /// Delete all entries
        #[arg(long, conflicts_with = "unused")]
        all: bool,

        #[command(flatten)]
        side: SideArgs,
    },
    /// Compare the entries of the cache with their digests and signatures
    ///
    /// Reads all downloads and compiled packages. A run never uses a damaged entry, and replaces it. With
    /// --shared, downloads the entries, and needs the keys of --cache-trust.
    Verify {
        #[command(flatten)]
        side: SideArgs,
    },
}

/// The side of the cache: that of this machine, or the shared one.
#[derive(Debug, Clone, Args)]
struct SideArgs {
    /// Use the shared cache of --cache instead of the cache of this machine
    #[arg(long)]
    shared: bool,
}

impl CacheArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let storage = || shared_cache::storage(&session.globals, &session.redactor);
        let prints_json = session.globals.prints_json();
        match self.command {
            CacheCommand::List { side } if side.shared => {
                let entries = artifact::shared_cache::list(&*storage()?)?;
                match prints_json {
                    true => CommandResult::json(&entries),
                    false => Ok(text(shared_entries_table(&entries, &session.layout()))),
                }
            }
            CacheCommand::List { .. } => {
                let entries = cache::list(&session.cache_dir()?)?;
                match prints_json {
                    true => CommandResult::json(&entries),
                    false => Ok(text(entries_table(&entries, &session.layout()))),
                }
            }
            CacheCommand::Prune { unused, all, side } => {
                let age = if all { Duration::ZERO } else { unused };
                let pruned = match side.shared {
                    true => artifact::shared_cache::prune(&*storage()?, age)?,
                    false => cache::prune(&session.cache_dir()?, age)?,
                };
                match prints_json {
                    true => CommandResult::json(&pruned),
                    false => Ok(text(pruned_text(pruned))),
                }
            }
            CacheCommand::Verify { side } => {
                let verified = match side.shared {
                    true => {
                        let keys = shared_cache::trusted_keys(&session.globals)?;
                        artifact::shared_cache::verify(&*storage()?, &keys)?
                    }
                    false => engine::cpi::install::verify_cache(&session.cache_dir()?)?,
                };
                let output = match prints_json {
                    true => CommandResult::json(&verified)?,
                    false => text(verified_text(&verified, &session.layout())),
                };
                match verified.damaged.len() {
                    0 => Ok(output),
                    count => Ok(output.with_problem(
                        Error::failure(format!(
                            "{count} of {} entries of the cache cannot be used",
                            verified.entries
                        ))
                        .with_hint(
                            "a run replaces those that it needs; in a shared cache, one with --cache-write",
                        ),
                    )),
                }
            }
        }
    }
}

fn text(text: String) -> CommandResult {
    CommandResult::Output(text.into_bytes())
}

fn entries_table(entries: &[CacheEntry], layout: &Layout) -> String {
    let mut table = Table::new(["Kind", "Name", "Size", "Used", "From"]);
    for entry in entries {
        let (size, url) = (base::text::bytes(entry.size), entry.url.clone().unwrap_or_default());
        table.row([entry.kind.clone(), entry.name.clone(), size, entry.used.clone(), url]);
    }
    with_total(table.print(layout), entries.iter().map(|entry| entry.size), layout)
}

fn shared_entries_table(entries: &[SharedEntry], layout: &Layout) -> String {
    let mut table = Table::new(["Kind", "Name", "Size", "Uploaded"]);
    for entry in entries {
        let size = base::text::bytes(entry.size);
        table.row([entry.kind.clone(), entry.name.clone(), size, entry.written.clone()]);
    }
    with_total(table.print(layout), entries.iter().map(|entry| entry.size), layout)
}

/// Adds the number of entries and their size to a table for people.
fn with_total(table: String, sizes: impl ExactSizeIterator<Item = u64>, layout: &Layout) -> String {
    if layout.is_for_programs() {
        return table;
    }
    let count = sizes.len();
    format!("{table}\n{count} entries, {}\n", base::text::bytes(sizes.sum()))
}

fn pruned_text(pruned: Pruned) -> String {
    format!("{} removed, {} freed; {} kept\n", pruned.removed, base::text::bytes(pruned.bytes), pruned.kept)
}

fn verified_text(verified: &Verified, layout: &Layout) -> String {
    let mut table = Table::new(["Kind", "Name", "Problem"]);
    for entry in &verified.damaged {
        table.row([entry.kind.clone(), entry.name.clone(), entry.problem.clone()]);
    }
    match verified.damaged.is_empty() {
        true => format!("{} entries verified\n", verified.entries),
        false => table.print(layout),
    }
}
