//! Durations of steps and stages in earlier runs, and estimates from them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

/// The prefix of the names of stages. Names of steps have no prefix.
const STAGE: &str = "stage:";
/// The number of runs remembered for each name.
const REMEMBERED_RUNS: usize = 5;
/// The maximum number of names. Beyond it, names that the last run did not measure are dropped.
const MAX_NAMES: usize = 400;

/// Durations of the last runs by name, in milliseconds, the newest last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Durations(BTreeMap<String, Runs>);

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
struct Runs(Vec<u64>);

impl Durations {
    /// Returns true if nothing was measured yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the median of the last runs, or the lower of the two middle values.
    pub fn usual_duration(&self, name: &str) -> Option<Duration> {
        self.0.get(name).and_then(Runs::median)
    }

    /// Returns the kinds of stages with their usual durations.
    pub fn stages(&self) -> impl Iterator<Item = (&str, Duration)> {
        self.0.iter().filter_map(|(name, runs)| Some((name.strip_prefix(STAGE)?, runs.median()?)))
    }

    /// Returns the name under which stages of this kind are remembered.
    pub fn stage_name(kind: &str) -> String {
        format!("{STAGE}{kind}")
    }

    /// Records the durations of a run.
    pub fn record(&mut self, run: BTreeMap<String, Duration>) {
        let names: Vec<String> = run.keys().cloned().collect();
        for (name, duration) in run {
            let runs = &mut self.0.entry(name).or_default().0;
            runs.push(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
            runs.drain(..runs.len().saturating_sub(REMEMBERED_RUNS));
        }
        if self.0.len() > MAX_NAMES {
            self.0.retain(|name, _| names.contains(name));
        }
    }
}

impl Runs {
    fn median(&self) -> Option<Duration> {
        let mut runs = self.0.clone();
        runs.sort_unstable();
        let middle = runs.len().checked_sub(1)? / 2;
        runs.get(middle).copied().map(Duration::from_millis)
    }
}

/// Reads both forms. The first version of the state file had only the last run, as a number.
impl<'de> Deserialize<'de> for Runs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Last(u64),
            Runs(Vec<u64>),
        }
        Form::deserialize(deserializer).map(|form| match form {
            Form::Last(milliseconds) => Runs(vec![milliseconds]),
            Form::Runs(runs) => Runs(runs),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations_of(runs: &[u64]) -> Durations {
        let mut durations = Durations::default();
        for milliseconds in runs {
            durations.record([("a".to_owned(), Duration::from_millis(*milliseconds))].into());
        }
        durations
    }

    #[test]
    fn median_ignores_one_unusual_run() {
        let usual =
            |runs: &[u64]| durations_of(runs).usual_duration("a").map(|duration| duration.as_millis());
        assert_eq!(usual(&[]), None);
        assert_eq!(usual(&[7]), Some(7));
        assert_eq!(usual(&[600, 7]), Some(7));
        assert_eq!(usual(&[7, 9, 600]), Some(9));
        // Only the last runs count.
        assert_eq!(usual(&[1, 1, 1, 1, 1, 8, 8, 8]), Some(8));
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
