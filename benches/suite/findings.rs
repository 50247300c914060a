//! The findings of a row: figures at several sizes, and checks against limits.

use serde::Serialize;

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Milliseconds,
    MibPerSecond,
    Count,
    Bytes,
}

impl Unit {
    /// Formats a value for the report.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Unit::Milliseconds if value >= 10_000.0 => format!("{:.1} s", value / 1000.0),
            Unit::Milliseconds if value >= 100.0 => format!("{value:.0} ms"),
            Unit::Milliseconds if value >= 1.0 => format!("{value:.1} ms"),
            Unit::Milliseconds => format!("{:.2} µs", value * 1000.0),
            Unit::MibPerSecond => format!("{value:.0} MiB/s"),
            Unit::Count => format!("{value:.0}"),
            Unit::Bytes if value >= 1048576.0 => format!("{:.1} MiB", value / 1048576.0),
            Unit::Bytes => format!("{value:.0} bytes"),
        }
    }

    /// Returns the label of an axis.
    pub(crate) fn axis(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::MibPerSecond => "MiB/s",
            Unit::Count => "count",
            Unit::Bytes => "bytes",
        }
    }
}

/// The result of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub value: f64,
    /// The peak memory in KiB, if measured.
    pub peak_kib: Option<u64>,
}

impl Sample {
    /// Returns the duration of a process as a sample.
    pub(crate) fn of(cost: &crate::process::ProcessCost) -> Sample {
        Sample { value: cost.wall.as_secs_f64() * 1000.0, peak_kib: Some(cost.peak_kib) }
    }
}

/// One measurement at one size.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    /// The name of the measurement, such as `monopile` or `gzip -dc | tar x`.
    #[serde(rename = "what")]
    pub name: String,
    /// The multiple of the smallest size: 1, 4, 16.
    pub scale: u32,
    /// The size as text.
    pub size: String,
    pub unit: Unit,
    /// The values in the order of measurement.
    pub values: Vec<f64>,
    pub median: f64,
    #[serde(rename = "least")]
    pub min: f64,
    #[serde(rename = "most")]
    pub max: f64,
    /// The peak memory of all runs, in KiB.
    pub peak_kib: Option<u64>,
    /// The number of instructions of one run.
    pub instructions: Option<u64>,
}

impl Figure {
    /// Builds the figure from these runs.
    pub(crate) fn new(name: &str, scale: u32, size: &str, unit: Unit, samples: &[Sample]) -> Figure {
        assert!(!samples.is_empty(), "{name} was not measured");
        let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
        let mut ordered_values = values.clone();
        ordered_values.sort_by(f64::total_cmp);
        Figure {
            name: name.to_owned(),
            scale,
            size: size.to_owned(),
            unit,
            median: ordered_values[ordered_values.len() / 2],
            min: ordered_values[0],
            max: ordered_values[ordered_values.len() - 1],
            values,
            peak_kib: samples.iter().filter_map(|sample| sample.peak_kib).max(),
            instructions: None,
        }
    }

    /// Adds a number of instructions.
    pub(crate) fn with_instructions(self, instructions: Option<u64>) -> Figure {
        Figure { instructions, ..self }
    }

    /// Returns the median and the spread.
    pub(crate) fn median_and_spread(&self) -> (String, String) {
        let spread = format!("{} – {}", self.unit.show(self.min), self.unit.show(self.max));
        (self.unit.show(self.median), if self.values.len() > 1 { spread } else { "–".to_owned() })
    }
}

/// One check of a requirement.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Check {
    /// The requirement as text.
    pub must: String,
    /// The index of the figure that was checked.
    pub figure: usize,
    /// The measured value relative to its limit or reference.
    pub ratio: Option<f64>,
    #[serde(rename = "pass")]
    pub is_met: bool,
}

/// The findings of one row.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Findings {
    pub figures: Vec<Figure>,
    pub checks: Vec<Check>,
    /// Additional remarks: where the time was spent, and what was not measured and why.
    pub notes: Vec<String>,
}

impl Findings {
    /// Adds a figure and returns its index.
    pub(crate) fn add_figure(&mut self, figure: Figure) -> usize {
        self.figures.push(figure);
        self.figures.len() - 1
    }

    /// Returns the figure with this name and scale.
    pub(crate) fn find(&self, name: &str, scale: u32) -> Option<(usize, &Figure)> {
        self.figures.iter().enumerate().find(|(_, figure)| figure.name == name && figure.scale == scale)
    }

    /// Adds a remark.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Requires that the median of a figure is at most `limit`.
    pub(crate) fn at_most(&mut self, must: &str, figure: usize, limit: f64) {
        let median = self.figures[figure].median;
        let check =
            Check { must: must.to_owned(), figure, ratio: Some(median / limit), is_met: median <= limit };
        self.checks.push(check);
    }

    /// Requires that the median of a figure is at least `min_factor` times smaller than that of `bosh`.
    /// `subject` begins the requirement.
    pub(crate) fn faster_than_bosh(&mut self, subject: &str, ours: usize, theirs: usize, min_factor: f64) {
        let factor = self.figures[theirs].median / self.figures[ours].median;
        let must = format!("{subject}at least {min_factor} times faster than bosh (×{factor:.1})");
        self.demand(&must, ours, Some(min_factor / factor), factor >= min_factor);
    }

    /// Adds a check whose result the caller determined.
    pub(crate) fn demand(&mut self, must: &str, figure: usize, ratio: Option<f64>, is_met: bool) {
        self.checks.push(Check { must: must.to_owned(), figure, ratio, is_met });
    }
}

/// One of several programs or methods that do the same work.
pub(crate) struct Candidate<'a> {
    pub name: String,
    pub run: Box<dyn FnMut() -> Sample + 'a>,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(name: impl Into<String>, run: impl FnMut() -> Sample + 'a) -> Candidate<'a> {
        Candidate { name: name.into(), run: Box::new(run) }
    }
}

/// Runs all candidates in turn (A B A B), `rounds` times, after one warm-up turn each.
pub(crate) fn measure_interleaved(
    candidates: &mut [Candidate<'_>],
    rounds: usize,
    (scale, size, unit): (u32, &str, Unit),
) -> Vec<Figure> {
    let mut samples = vec![Vec::new(); candidates.len()];
    for round in 0..=rounds {
        for (candidate, samples) in candidates.iter_mut().zip(&mut samples) {
            let sample = (candidate.run)();
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    let figure = |(candidate, samples): (&Candidate<'_>, &Vec<Sample>)| {
        Figure::new(&candidate.name, scale, size, unit, samples)
    };
    candidates.iter().zip(&samples).map(figure).collect()
}
