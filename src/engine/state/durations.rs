//! How long things took in earlier runs, and so how long they usually take.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

/// What the names of stages begin with. Those of the plan's steps have nothing before them.
const STAGE: &str = "stage:";
/// How many runs are remembered of each thing.
const RUNS: usize = 5;
/// How many things are remembered. What was not measured lately goes when there are more.
const THINGS: usize = 400;

/// Per name, how long it took in the last runs, in milliseconds, the newest last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Durations(BTreeMap<String, Runs>);

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
struct Runs(Vec<u64>);

impl Durations {
    /// Whether nothing was measured yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How long this usually takes: the median of the last runs, the shorter one of two.
    pub fn usual(&self, name: &str) -> Option<Duration> {
        self.0.get(name).and_then(Runs::median)
    }

    /// The kinds of stages, with how long they usually take.
    pub fn stages(&self) -> impl Iterator<Item = (&str, Duration)> {
        self.0.iter().filter_map(|(name, runs)| Some((name.strip_prefix(STAGE)?, runs.median()?)))
    }

    /// The name under which stages of this kind are remembered.
    pub fn stage(kind: &str) -> String {
        format!("{STAGE}{kind}")
    }

    /// Remembers what a run took.
    pub fn record(&mut self, run: BTreeMap<String, Duration>) {
        let names: Vec<String> = run.keys().cloned().collect();
        for (name, took) in run {
            let runs = &mut self.0.entry(name).or_default().0;
            runs.push(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
            runs.drain(..runs.len().saturating_sub(RUNS));
        }
        if self.0.len() > THINGS {
            self.0.retain(|name, _| names.contains(name));
        }
    }
}

impl Runs {
    fn median(&self) -> Option<Duration> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let middle = sorted.len().checked_sub(1)? / 2;
        sorted.get(middle).copied().map(Duration::from_millis)
    }
}

/// The first version of the state file had the last run alone, as a number.
impl<'de> Deserialize<'de> for Runs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Last(u64),
            Runs(Vec<u64>),
        }
        Form::deserialize(deserializer).map(|form| match form {
            Form::Last(took) => Runs(vec![took]),
            Form::Runs(runs) => Runs(runs),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(runs: &[u64]) -> Durations {
        let mut durations = Durations::default();
        for took in runs {
            durations.record([("a".to_owned(), Duration::from_millis(*took))].into());
        }
        durations
    }

    #[test]
    fn one_run_that_was_out_of_the_ordinary_changes_nothing() {
        let usual = |runs: &[u64]| of(runs).usual("a").map(|took| took.as_millis());
        assert_eq!(usual(&[]), None);
        assert_eq!(usual(&[7]), Some(7));
        assert_eq!(usual(&[600, 7]), Some(7));
        assert_eq!(usual(&[7, 9, 600]), Some(9));
        // Only the last ones count.
        assert_eq!(usual(&[1, 1, 1, 1, 1, 8, 8, 8]), Some(8));
    }

    #[test]
    fn the_form_of_the_first_version_is_read() {
        let durations: Durations = serde_json::from_str(r#"{"a": 7, "b": [1, 2, 3]}"#).unwrap();
        assert_eq!(durations.usual("a"), Some(Duration::from_millis(7)));
        assert_eq!(durations.usual("b"), Some(Duration::from_millis(2)));
        assert_eq!(serde_json::to_string(&durations).unwrap(), r#"{"a":[7],"b":[1,2,3]}"#);
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let mut durations = Durations::default();
        for number in 0..=THINGS {
            durations.record([(Durations::stage(&format!("package {number}")), Duration::ZERO)].into());
        }
        assert_eq!(durations.stages().count(), 1);
    }
}
