//! `monopile cache`: lists, prunes and verifies the cache of this machine, or a shared one. Carries artifacts
//! to the cache of a machine without a network.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};

use super::choices::RendererArgs;
use super::finish::CommandResult;
use super::session::Session;
use super::table::{Layout, Table};
use super::{ConfigArgs, CpiUserlandArgs, ManifestArgs, duration, paths, shared_cache};
use artifact::cache::{self, CacheEntry, PruneReport, VerifyReport};
use artifact::shared_cache::{BundleContent, SharedEntry};
use base::events::Warning;
use base::{Error, Result};
use engine::bundle::{self, ExportRequest};
use manifest::SavePolicy;

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
    /// Write everything that a manifest needs into a file, for a machine without a network
    ///
    /// Downloads what this machine lacks. The file has the stemcell, the releases and the userlands that the
    /// manifest names by URL; each needs a `sha1`. With --cache-sign, it also has compiled packages: those of
    /// CPIs with a userland, which are compiled if necessary, and those that were compiled on a VM before.
    Export(Box<ExportArgs>),
    /// Put the content of an exported file into the cache of this machine
    ///
    /// Verifies each entry: downloads by their digests, compiled packages by a signature of a key of
    /// --cache-trust. Then use create-env --offline with the same keys.
    Import {
        /// File that `cache export` has written
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

/// The artifacts to export.
#[derive(Debug, Clone, Args)]
struct ExportArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    /// Name of the new file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    bundle: PathBuf,

    #[command(flatten)]
    configs: ConfigArgs,

    /// Use this state [default: bosh-state.json next to bosh.yml]
    ///
    /// The state is only read. Without --vars-store, the vars store next to it is read.
    #[arg(long, value_name = "FILE|URL", value_hint = ValueHint::FilePath)]
    state: Option<PathBuf>,

    #[command(flatten)]
    renderer: RendererArgs,

    #[command(flatten)]
    userland: CpiUserlandArgs,
}

/// The side of the cache: that of this machine, or the shared one.
#[derive(Debug, Clone, Args)]
struct SideArgs {
    /// Use the shared cache of --cache instead of the cache of this machine
    #[arg(id = "shared", long = "shared")]
    is_shared: bool,
}

impl CacheArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let open_storage = || shared_cache::open_storage(&session.globals, &session.redactor);
        use CacheCommand::{List, Prune, Verify};
        if let List { side } | Prune { side, .. } | Verify { side } = &self.command
            && !side.is_shared
            && session.has_option("--cache")
        {
            session.reporter.warn(
                Warning::new("--cache has no effect: this is the cache of this machine")
                    .with_hint("for the shared one: `monopile SAME-COMMAND --shared`"),
            );
        }
        let prints_json = session.globals.prints_json();
        let local_directory = || -> Result<PathBuf> {
            let directory = session.cache_directory()?;
            if !directory.exists() {
                session.reporter.note(format!("the cache '{}' does not exist", directory.display()));
            }
            Ok(directory)
        };
        match self.command {
            CacheCommand::List { side } if side.is_shared => {
                let entries = artifact::shared_cache::list(&*open_storage()?)?;
                match prints_json {
                    true => CommandResult::json(&entries),
                    false => Ok(text_output(shared_entries_table(&entries, &session.layout()))),
                }
            }
            CacheCommand::List { .. } => {
                let entries = cache::list(&local_directory()?)?;
                match prints_json {
                    true => CommandResult::json(&entries),
                    false => Ok(text_output(entries_table(&entries, &session.layout()))),
                }
            }
            CacheCommand::Prune { unused, all, side } => {
                let age = if all { Duration::ZERO } else { unused };
                let removal = match side.is_shared {
                    true => artifact::shared_cache::prune(&*open_storage()?, age)?,
                    false => cache::prune(&local_directory()?, age)?,
                };
                match prints_json {
                    true => CommandResult::json(&removal),
                    false => Ok(text_output(removal_text(removal))),
                }
            }
            CacheCommand::Verify { side } => {
                let verification = match side.is_shared {
                    true => {
                        let keys = shared_cache::load_trusted_keys(&session.globals)?;
                        artifact::shared_cache::verify(&*open_storage()?, &keys)?
                    }
                    false => engine::cpi::install::verify_cache(&local_directory()?)?,
                };
                let output = match prints_json {
                    true => CommandResult::json(&verification)?,
                    false => text_output(verification_text(&verification, &session.layout())),
                };
                match verification.damaged_entries.len() {
                    0 => Ok(output),
                    count => Ok(output.with_problem(
                        Error::failure(format!(
                            "{count} of {} of the cache cannot be used",
                            entries_text(verification.entries)
                        ))
                        .with_hint(match side.is_shared {
                            true => {
                                "to replace those that a run needs: `monopile create-env MANIFEST \
                                     --cache-write`"
                            }
                            false => {
                                "to remove all entries, which the next run makes again: `monopile \
                                      cache prune --all`"
                            }
                        }),
                    )),
                }
            }
            CacheCommand::Export(args) => args.run(session),
            CacheCommand::Import { file } => import(&file, session),
        }
    }

    /// Returns true if the command shows progress although standard output is reserved.
    pub(super) fn shows_progress(&self) -> bool {
        matches!(self.command, CacheCommand::Export(_) | CacheCommand::Import { .. })
    }
}

impl ExportArgs {
    fn run(self, session: &Session) -> Result<CommandResult> {
        let state = paths::state(self.state.as_deref(), &self.manifest.manifest)?;
        let mut inputs = self.configs.add_to(self.manifest.inputs_with_default_store(&state)?);
        inputs.save_policy = SavePolicy::Never;
        let mut prepared_run = session.prepare_run(state, None, false)?;
        self.userland.apply(&mut prepared_run.run)?;
        let bundle_path = paths::expand(&self.bundle, paths::home().as_deref());
        let request = ExportRequest {
            inputs,
            renderer_choice: self.renderer.into(),
            signing_key: shared_cache::load_signing_key(&session.globals)?,
            bundle_path,
        };
        let content = bundle::export(&request, &prepared_run.run)?;
        if content.downloads == 0 && content.packages == 0 {
            let packages = match request.signing_key {
                Some(_) => {
                    "none of its packages was compiled on this machine, or signed by a key that \
                     --cache-trust names. To compile them: `monopile create-env MANIFEST`"
                }
                None => {
                    "no package is exported without a key. To export packages: `monopile SAME-COMMAND \
                     --cache-sign KEY`"
                }
            };
            session
                .reporter
                .warn(format!("nothing was exported: the manifest names no URL to download, and {packages}"));
        }
        match session.globals.prints_json() {
            true => CommandResult::json(&content),
            false => Ok(text_output(content_text(content))),
        }
    }
}

/// Imports a bundle, and reports the entries that cannot be used.
fn import(file: &Path, session: &Session) -> Result<CommandResult> {
    let file = paths::expand(file, paths::home().as_deref());
    let prepared_run = session.prepare_run(PathBuf::new(), None, false)?;
    let keys = shared_cache::load_trusted_keys(&session.globals)?;
    let verification = bundle::import(&file, &keys, &prepared_run.run)?;
    let count = verification.damaged_entries.len();
    if verification.entries == 0 {
        let text = format!("'{}' is empty: nothing was imported", file.display());
        session.reporter.warn(text);
    }
    let output = match (session.globals.prints_json(), count) {
        (true, _) => CommandResult::json(&verification)?,
        (false, 0) => text_output(format!("{} imported\n", entries_text(verification.entries))),
        (false, _) => text_output(verification_text(&verification, &session.layout())),
    };
    let problem = || {
        Error::failure(format!(
            "{count} of {} of '{}' cannot be used",
            entries_text(verification.entries),
            file.display()
        ))
        .with_hint(
            "for packages, trust the key that signed them: `monopile SAME-COMMAND --cache-trust KEY.pub`",
        )
        .with_hint(
            "for damaged entries, copy the file again, or make a new one: `monopile cache export MANIFEST \
             FILE`",
        )
    };
    Ok(if count == 0 { output } else { output.with_problem(problem()) })
}

fn text_output(text: String) -> CommandResult {
    CommandResult::Output(text.into_bytes())
}

fn entries_table(entries: &[CacheEntry], layout: &Layout) -> String {
    let mut table = Table::new(["Kind", "Name", "Size", "Used", "From"]);
    for entry in entries {
        let (size, url) = (base::text::format_bytes(entry.size), entry.url.clone().unwrap_or_default());
        table.add_row([entry.kind.clone(), entry.name.clone(), size, entry.last_use.clone(), url]);
    }
    with_total(table.format(layout), entries.iter().map(|entry| entry.size), layout)
}

fn shared_entries_table(entries: &[SharedEntry], layout: &Layout) -> String {
    let mut table = Table::new(["Kind", "Name", "Size", "Uploaded"]);
    for entry in entries {
        let size = base::text::format_bytes(entry.size);
        table.add_row([entry.kind.clone(), entry.name.clone(), size, entry.upload_time.clone()]);
    }
    with_total(table.format(layout), entries.iter().map(|entry| entry.size), layout)
}

/// Adds the number of entries and their size to a table for people.
fn with_total(table: String, sizes: impl ExactSizeIterator<Item = u64>, layout: &Layout) -> String {
    if layout.is_for_programs() {
        return table;
    }
    let count = sizes.len();
    format!("{table}\n{}, {}\n", entries_text(count), base::text::format_bytes(sizes.sum()))
}

fn entries_text(count: usize) -> String {
    count_text(count, "entry", "entries")
}

/// Formats a number with its noun.
fn count_text(count: usize, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

fn removal_text(removal: PruneReport) -> String {
    format!(
        "{} removed, {} freed; {} kept\n",
        removal.removed_count,
        base::text::format_bytes(removal.bytes),
        removal.kept_count
    )
}

fn content_text(content: BundleContent) -> String {
    let BundleContent { downloads, packages, bytes } = content;
    let downloads = count_text(downloads, "download", "downloads");
    let packages = count_text(packages, "compiled package", "compiled packages");
    format!("{downloads} and {packages} exported, {}\n", base::text::format_bytes(bytes))
}

fn verification_text(verification: &VerifyReport, layout: &Layout) -> String {
    let mut table = Table::new(["Kind", "Name", "Problem"]);
    for entry in &verification.damaged_entries {
        table.add_row([entry.kind.clone(), entry.name.clone(), entry.problem.clone()]);
    }
    match verification.damaged_entries.is_empty() {
        true => format!("{} verified\n", entries_text(verification.entries)),
        false => table.format(layout),
    }
}
