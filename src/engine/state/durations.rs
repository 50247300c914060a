//! Durations of steps and stages in earlier runs, and estimates from them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

/// The prefix of the names of stages. Names of steps have no prefix.
const STAGE_PREFIX: &str = "stage:";
/// The number of runs remembered for each name.
const REMEMBERED_RUNS: usize = 5;
/// The maximum number of names. Beyond it, names that the last run did not measure are dropped.
const MAX_NAMES: usize = 400;

/// Durations of the last runs by name, in milliseconds, the newest last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Durations(BTreeMap<String, RunDurations>);

/// The durations of one step or stage in the last runs, in milliseconds, the newest last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
struct RunDurations(Vec<u64>);

impl Durations {
    /// Returns true if nothing was measured yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the median of the last runs, or the lower of the two middle values.
    pub fn usual_duration(&self, name: &str) -> Option<Duration> {
        self.0.get(name).and_then(RunDurations::median)
    }

    /// Returns the kinds of stages with their usual durations.
    pub fn stages(&self) -> impl Iterator<Item = (&str, Duration)> {
        self.0
            .iter()
            .filter_map(|(name, durations)| Some((name.strip_prefix(STAGE_PREFIX)?, durations.median()?)))
    }

    /// Returns the name under which stages of this kind are remembered.
    pub fn stage_name(kind: &str) -> String {
        format!("{STAGE_PREFIX}{kind}")
    }

    /// Records the durations of a run.
    pub fn record(&mut self, run: BTreeMap<String, Duration>) {
        let names: Vec<String> = run.keys().cloned().collect();
        for (name, duration) in run {
            let durations = &mut self.0.entry(name).or_default().0;
            durations.push(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
            durations.drain(..durations.len().saturating_sub(REMEMBERED_RUNS));
        }
        if self.0.len() > MAX_NAMES {
            self.0.retain(|name, _| names.contains(name));
        }
    }
}

impl RunDurations {
    fn median(&self) -> Option<Duration> {
        let mut durations = self.0.clone();
        durations.sort_unstable();
        let middle = durations.len().checked_sub(1)? / 2;
        durations.get(middle).copied().map(Duration::from_millis)
    }
}

/// Reads both forms. The first version of the state file had only the last run, as a number.
impl<'de> Deserialize<'de> for RunDurations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Last(u64),
            All(Vec<u64>),
        }
        Form::deserialize(deserializer).map(|form| match form {
            Form::Last(milliseconds) => RunDurations(vec![milliseconds]),
            Form::All(durations) => RunDurations(durations),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations_of(measured_ms: &[u64]) -> Durations {
        let mut durations = Durations::default();
        for milliseconds in measured_ms {
            durations.record([("a".to_owned(), Duration::from_millis(*milliseconds))].into());
        }
        durations
    }

    #[test]
    fn median_ignores_one_unusual_run() {
        let usual_ms = |durations: &[u64]| {
            durations_of(durations).usual_duration("a").map(|duration| duration.as_millis())
        };
        assert_eq!(usual_ms(&[]), None);
        assert_eq!(usual_ms(&[7]), Some(7));
        assert_eq!(usual_ms(&[600, 7]), Some(7));
        assert_eq!(usual_ms(&[7, 9, 600]), Some(9));
        // Only the last runs count.
        assert_eq!(usual_ms(&[1, 1, 1, 1, 1, 8, 8, 8]), Some(8));
    }

    #[test]
    fn reads_the_format_of_the_first_version() {
        let durations: Durations = serde_json::from_str(r#"{"a": 7, "b": [1, 2, 3]}"#).unwrap();
        assert_eq!(durations.usual_duration("a"), Some(Duration::from_millis(7)));
        assert_eq!(durations.usual_duration("b"), Some(Duration::from_millis(2)));
        assert_eq!(serde_json::to_string(&durations).unwrap(), r#"{"a":[7],"b":[1,2,3]}"#);
    }

    #[test]
    fn number_of_names_is_limited() {
        let mut durations = Durations::default();
        for number in 0..=MAX_NAMES {
            durations.record([(Durations::stage_name(&format!("package {number}")), Duration::ZERO)].into());
        }
        assert_eq!(durations.stages().count(), 1);
    }
}
