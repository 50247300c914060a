//! The stages under way, as the text renderers remember them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{StageId, Unit, text};

/// A stage under way.
#[derive(Debug)]
pub(super) struct Running {
    /// What it does.
    pub(super) name: String,
    /// How many stages it is inside of.
    pub(super) depth: usize,
    /// The stage it belongs to.
    pub(super) parent: Option<StageId>,
    /// Whether it has had stages of its own.
    pub(super) has_children: bool,
    /// When it began.
    pub(super) started: Instant,
    /// Done, total and unit.
    pub(super) progress: Option<(u64, Option<u64>, Unit)>,
    /// The newest line of its log.
    pub(super) log: Option<String>,
    /// When something was last shown about it.
    pub(super) shown: Instant,
}

impl Running {
    /// For how long it has run.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// How far it has come, with the rate of bytes: `12.0 MiB of 40.0 MiB, 3.1 MiB/s`.
    pub(super) fn amount(&self) -> Option<String> {
        let (done, total, unit) = self.progress?;
        let amount = text::amount(done, total, unit);
        let milliseconds = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        // The rate of the first half second tells nothing.
        if unit == Unit::Bytes && milliseconds > 500 {
            let rate = u128::from(done) * 1000 / u128::from(milliseconds);
            return Some(format!("{amount}, {}/s", text::bytes(u64::try_from(rate).unwrap_or(u64::MAX))));
        }
        Some(amount)
    }
}

/// All stages under way.
#[derive(Debug, Default)]
pub(super) struct Tree {
    stages: BTreeMap<StageId, Running>,
}

impl Tree {
    /// A stage began.
    pub(super) fn start(&mut self, id: StageId, parent: Option<StageId>, name: &str) -> &Running {
        let depth = match parent.and_then(|parent| self.stages.get_mut(&parent)) {
            Some(parent) => {
                parent.has_children = true;
                parent.depth + 1
            }
            None => 0,
        };
        let now = Instant::now();
        let running = Running {
            name: text::clean_line(name),
            depth,
            parent,
            has_children: false,
            started: now,
            progress: None,
            log: None,
            shown: now,
        };
        self.stages.entry(id).insert_entry(running).into_mut()
    }

    /// The stage, while it is under way.
    pub(super) fn get(&self, id: StageId) -> Option<&Running> {
        self.stages.get(&id)
    }

    /// The stage, while it is under way.
    pub(super) fn get_mut(&mut self, id: StageId) -> Option<&mut Running> {
        self.stages.get_mut(&id)
    }

    /// The stage ended.
    pub(super) fn finish(&mut self, id: StageId) -> Option<Running> {
        self.stages.remove(&id)
    }

    /// The innermost stages about which nothing was shown for `quiet`; they count as shown from now on.
    pub(super) fn take_quiet(&mut self, quiet: Duration) -> Vec<&Running> {
        let parents: Vec<StageId> = self.stages.values().filter_map(|stage| stage.parent).collect();
        let now = Instant::now();
        self.stages
            .iter_mut()
            .filter(|(id, stage)| !parents.contains(id) && now.duration_since(stage.shown) >= quiet)
            .map(|(_, stage)| {
                stage.shown = now;
                &*stage
            })
            .collect()
    }
}
