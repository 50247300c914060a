//! `monopile cache`: lists and prunes the cache.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::duration;
use super::finish::CommandResult;
use super::session::Session;
use super::table::{Layout, Table};
use artifact::cache::{self, CacheEntry, Pruned};
use base::Result;

#[derive(Debug, Clone, Args)]
pub(super) struct CacheArgs {
    #[command(subcommand)]
    command: CacheCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum CacheCommand {
    /// List the entries of the cache, with size and last use
    List,
    /// Delete entries that were not used for some time
    ///
    /// Deletes downloads, compiled packages and installed CPIs without asking. The next run that needs one
    /// downloads or compiles it again. State, vars store and history are not in the cache. Refuses while
    /// another run uses the cache.
    Prune {
        /// Delete entries unused for this time, such as 14d
        #[arg(long, value_name = "AGE", default_value = "30d", value_parser = duration::parse_age)]
        unused: Duration,

        /// Delete all entries
        #[arg(long, conflicts_with = "unused")]
        all: bool,
    },
}

impl CacheArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let root = session.cache_dir()?;
        match self.command {
            CacheCommand::List => {
                let entries = cache::list(&root)?;
                match session.globals.prints_json() {
                    true => CommandResult::json(&entries),
                    false => {
                        Ok(CommandResult::Output(entries_table(&entries, &session.layout()).into_bytes()))
                    }
                }
            }
            CacheCommand::Prune { unused, all } => {
                let pruned = cache::prune(&root, if all { Duration::ZERO } else { unused })?;
                match session.globals.prints_json() {
                    true => CommandResult::json(&pruned),
                    false => Ok(CommandResult::Output(pruned_text(pruned).into_bytes())),
                }
            }
        }
    }
}

fn entries_table(entries: &[CacheEntry], layout: &Layout) -> String {
    let mut table = Table::new(["Kind", "Name", "Size", "Used", "From"]);
    for entry in entries {
        let (size, url) = (base::text::bytes(entry.size), entry.url.clone().unwrap_or_default());
        table.row([entry.kind.clone(), entry.name.clone(), size, entry.used.clone(), url]);
    }
    if layout.is_for_programs() {
        return table.print(layout);
    }
    let total = entries.iter().map(|entry| entry.size).sum();
    format!("{}\n{} entries, {}\n", table.print(layout), entries.len(), base::text::bytes(total))
}

fn pruned_text(pruned: Pruned) -> String {
    format!("{} removed, {} freed; {} kept\n", pruned.removed, base::text::bytes(pruned.bytes), pruned.kept)
}
