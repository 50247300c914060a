//! The running stages, for the text renderers.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::text;
use base::events::{StageId, Unit};

/// The time window for byte rates. A stalled transfer soon shows a rate of zero.
const RATE_WINDOW: Duration = Duration::from_secs(5);
/// The minimum time between two samples of the rate, except the newest.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);

/// A stage that has not ended, with its progress.
#[derive(Debug)]
pub(super) struct RunningStage {
    pub(super) name: String,
    /// The number of enclosing stages.
    pub(super) depth: usize,
    /// The enclosing stage.
    pub(super) parent: Option<StageId>,
    /// True after its first child began.
    pub(super) has_children: bool,
    pub(super) start: Instant,
    pub(super) usual_duration: Option<Duration>,
    /// The amount done, the total and the unit.
    progress: Option<(u64, Option<u64>, Unit)>,
    /// Times and amounts within the window, and the last one before it.
    samples: VecDeque<(Instant, u64)>,
    /// The newest log line.
    pub(super) last_log_line: Option<String>,
    /// The time of the last printed line about the stage.
    pub(super) last_printed: Instant,
}

impl RunningStage {
    /// Returns the time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Records progress.
    pub(super) fn advance(&mut self, amount_done: u64, total: Option<u64>, unit: Unit, now: Instant) {
        self.progress = Some((amount_done, total, unit));
        // The newest sample is always the latest progress, so a stalled transfer gets a rate of zero.
        let previous_sample = self.samples.iter().rev().nth(1);
        if previous_sample.is_some_and(|(sample_time, _)| now.duration_since(*sample_time) < SAMPLE_INTERVAL)
        {
            self.samples.pop_back();
        }
        self.samples.push_back((now, amount_done));
        // Keep one sample that is older than the window, as its start.
        while self
            .samples
            .get(1)
            .is_some_and(|(sample_time, _)| now.duration_since(*sample_time) >= RATE_WINDOW)
        {
            self.samples.pop_front();
        }
    }

    /// Returns the number of transferred bytes, if this is a transfer.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.progress.filter(|(_, _, unit)| *unit == Unit::Bytes).map(|(amount_done, ..)| amount_done)
    }

    /// Returns the amount done and the total, if both are known.
    pub(super) fn done_and_total(&self) -> Option<(u64, u64)> {
        let (amount_done, total, _) = self.progress?;
        total.filter(|total| *total > 0).map(|total| (amount_done.min(total), total))
    }

    /// Formats the progress. For bytes, adds the rate: `12.0 MiB of 40.0 MiB, 3.1 MiB/s`.
    pub(super) fn amount(&self, now: Instant) -> Option<String> {
        let (amount_done, total, unit) = self.progress?;
        let amount = text::amount(amount_done, total, unit);
        Some(match self.rate_text(now) {
            Some(rate_text) => format!("{amount}, {rate_text}"),
            None => amount,
        })
    }

    /// Formats the rate of a transfer: `3.1 MiB/s`.
    pub(super) fn rate_text(&self, now: Instant) -> Option<String> {
        self.bytes()?;
        self.rate(now).map(|rate| format!("{}/s", base::text::format_bytes(rate)))
    }

    /// Returns the rate per second within the window.
    fn rate(&self, now: Instant) -> Option<u64> {
        let (amount_done, ..) = self.progress?;
        let old_sample = self
            .samples
            .iter()
            .rev()
            .find(|(sample_time, _)| now.duration_since(*sample_time) >= RATE_WINDOW);
        let (sample_time, amount_before) = old_sample.or(self.samples.front())?;
        let milliseconds = now.duration_since(*sample_time).as_millis();
        // A rate over less than half a second is not meaningful.
        (milliseconds > 500).then(|| {
            let rate = u128::from(amount_done.saturating_sub(*amount_before)) * 1000 / milliseconds;
            u64::try_from(rate).unwrap_or(u64::MAX)
        })
    }
}

/// All running stages.
#[derive(Debug, Default)]
pub(super) struct StageTree {
    stages: BTreeMap<StageId, RunningStage>,
}

impl StageTree {
    /// Adds a stage.
    pub(super) fn start(
        &mut self,
        id: StageId,
        parent: Option<StageId>,
        name: &str,
        usual_duration: Option<Duration>,
    ) -> &RunningStage {
        let depth = match parent.and_then(|parent| self.stages.get_mut(&parent)) {
            Some(parent) => {
                parent.has_children = true;
                parent.depth + 1
            }
            None => 0,
        };
        let now = Instant::now();
        let stage = RunningStage {
            name: base::text::clean_line(name),
            depth,
            parent,
            has_children: false,
            start: now,
            usual_duration,
            progress: None,
            samples: VecDeque::new(),
            last_log_line: None,
            last_printed: now,
        };
        self.stages.entry(id).insert_entry(stage).into_mut()
    }

    /// Returns a running stage, if it exists.
    pub(super) fn get(&self, id: StageId) -> Option<&RunningStage> {
        self.stages.get(&id)
    }

    /// Returns a running stage for changes, if it exists.
    pub(super) fn get_mut(&mut self, id: StageId) -> Option<&mut RunningStage> {
        self.stages.get_mut(&id)
    }

    /// Removes a stage at its end.
    pub(super) fn finish(&mut self, id: StageId) -> Option<RunningStage> {
        self.stages.remove(&id)
    }

    /// Returns all stages in the order of their starts.
    pub(super) fn stages(&self) -> impl Iterator<Item = (StageId, &RunningStage)> {
        self.stages.iter().map(|(id, stage)| (*id, stage))
    }

    /// Returns the innermost stages that have printed nothing for `quiet_time`, and marks them as shown.
    pub(super) fn take_quiet_stages(&mut self, quiet_time: Duration) -> Vec<&RunningStage> {
        let parents: Vec<StageId> = self.stages.values().filter_map(|stage| stage.parent).collect();
        let now = Instant::now();
        self.stages
            .iter_mut()
            .filter(|(id, stage)| {
                !parents.contains(id) && now.duration_since(stage.last_printed) >= quiet_time
            })
            .map(|(_, stage)| {
                stage.last_printed = now;
                &*stage
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_covers_the_last_seconds() {
        let mut tree = StageTree::default();
        let start = tree.start(1, None, "uploading", None).start;
        let stage = tree.get_mut(1).unwrap();
        let sample_time = |seconds: u64| start + Duration::from_secs(seconds);
        stage.advance(0, Some(100 << 20), Unit::Bytes, start);
        assert_eq!(stage.amount(start).unwrap(), "0 B of 100.0 MiB");
        for second in 1..=10 {
            stage.advance(second << 20, Some(100 << 20), Unit::Bytes, sample_time(second));
        }
        assert_eq!(stage.amount(sample_time(10)).unwrap(), "10.0 MiB of 100.0 MiB, 1.0 MiB/s");
        for second in 11..=20 {
            stage.advance(((second - 8) * 5) << 20, Some(100 << 20), Unit::Bytes, sample_time(second));
        }
        assert_eq!(stage.amount(sample_time(20)).unwrap(), "60.0 MiB of 100.0 MiB, 5.0 MiB/s");
        // A stalled transfer.
        assert_eq!(stage.amount(sample_time(30)).unwrap(), "60.0 MiB of 100.0 MiB, 0 B/s");
        // The transfer stalls just after a step that is too close to the one before.
        for milliseconds in [0, 150, 180] {
            stage.advance(
                (milliseconds + 70_000) << 10,
                None,
                Unit::Bytes,
                sample_time(40) + Duration::from_millis(milliseconds),
            );
        }
        assert_eq!(stage.amount(sample_time(50)).unwrap(), "68.5 MiB, 0 B/s");
        stage.advance(60 << 20, Some(100 << 20), Unit::Bytes, sample_time(51));
        assert_eq!((stage.bytes(), stage.done_and_total()), (Some(60 << 20), Some((60 << 20, 100 << 20))));
    }
}
