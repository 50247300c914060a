//! The stages under way, as the text renderers remember them.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::text;
use base::events::{StageId, Unit};

/// The rate of bytes is that of so long: one that stalls shows it.
const WINDOW: Duration = Duration::from_secs(5);
/// How often the rate is looked at.
const SAMPLING: Duration = Duration::from_millis(200);

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
    /// How long it usually takes.
    pub(super) usual: Option<Duration>,
    /// Done, total and unit.
    progress: Option<(u64, Option<u64>, Unit)>,
    /// How much was done when, within the window.
    samples: VecDeque<(Instant, u64)>,
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

    /// It has come this far.
    pub(super) fn advance(&mut self, done: u64, total: Option<u64>, unit: Unit, now: Instant) {
        self.progress = Some((done, total, unit));
        if self.samples.back().is_none_or(|(at, _)| now.duration_since(*at) >= SAMPLING) {
            self.samples.push_back((now, done));
        }
        // The newest of those that are too old is where the window begins.
        while self.samples.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
            self.samples.pop_front();
        }
    }

    /// The bytes it has moved, where that is what it does.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.progress.filter(|(_, _, unit)| *unit == Unit::Bytes).map(|(done, ..)| done)
    }

    /// Done and total, where both are known.
    pub(super) fn part(&self) -> Option<(u64, u64)> {
        let (done, total, _) = self.progress?;
        total.filter(|total| *total > 0).map(|total| (done.min(total), total))
    }

    /// How far it has come, with the rate of bytes: `12.0 MiB of 40.0 MiB, 3.1 MiB/s`.
    pub(super) fn amount(&self, now: Instant) -> Option<String> {
        let (done, total, unit) = self.progress?;
        let amount = text::amount(done, total, unit);
        match self.rate(now).filter(|_| unit == Unit::Bytes) {
            Some(rate) => Some(format!("{amount}, {}/s", base::text::bytes(rate))),
            None => Some(amount),
        }
    }

    /// Per second, lately.
    fn rate(&self, now: Instant) -> Option<u64> {
        let (done, ..) = self.progress?;
        let old = self.samples.iter().rev().find(|(at, _)| now.duration_since(*at) >= WINDOW);
        let (at, before) = old.or(self.samples.front())?;
        let milliseconds = now.duration_since(*at).as_millis();
        // That of the first half second tells nothing.
        (milliseconds > 500).then(|| {
            let rate = u128::from(done.saturating_sub(*before)) * 1000 / milliseconds;
            u64::try_from(rate).unwrap_or(u64::MAX)
        })
    }
}

/// All stages under way.
#[derive(Debug, Default)]
pub(super) struct StageTree {
    stages: BTreeMap<StageId, Running>,
}

impl StageTree {
    /// A stage began.
    pub(super) fn start(
        &mut self,
        id: StageId,
        parent: Option<StageId>,
        name: &str,
        usual: Option<Duration>,
    ) -> &Running {
        let depth = match parent.and_then(|parent| self.stages.get_mut(&parent)) {
            Some(parent) => {
                parent.has_children = true;
                parent.depth + 1
            }
            None => 0,
        };
        let now = Instant::now();
        let running = Running {
            name: base::text::clean_line(name),
            depth,
            parent,
            has_children: false,
            started: now,
            usual,
            progress: None,
            samples: VecDeque::new(),
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

    /// All of them, in the order in which they began.
    pub(super) fn stages(&self) -> impl Iterator<Item = (StageId, &Running)> {
        self.stages.iter().map(|(id, stage)| (*id, stage))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut tree = StageTree::default();
        let begun = tree.start(1, None, "uploading", None).started;
        let stage = tree.get_mut(1).unwrap();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        stage.advance(0, Some(100 << 20), Unit::Bytes, begun);
        assert_eq!(stage.amount(begun).unwrap(), "0 B of 100.0 MiB");
        for second in 1..=10 {
            stage.advance(second << 20, Some(100 << 20), Unit::Bytes, at(second));
        }
        assert_eq!(stage.amount(at(10)).unwrap(), "10.0 MiB of 100.0 MiB, 1.0 MiB/s");
        for second in 11..=20 {
            stage.advance(((second - 8) * 5) << 20, Some(100 << 20), Unit::Bytes, at(second));
        }
        assert_eq!(stage.amount(at(20)).unwrap(), "60.0 MiB of 100.0 MiB, 5.0 MiB/s");
        // Nothing comes any more.
        assert_eq!(stage.amount(at(30)).unwrap(), "60.0 MiB of 100.0 MiB, 0 B/s");
        assert_eq!((stage.bytes(), stage.part()), (Some(60 << 20), Some((60 << 20, 100 << 20))));
    }
}
