//! What a row finds out: figures at several sizes, and whether they are good enough.

use serde::Serialize;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Milliseconds,
    MibPerSecond,
    Count,
    Bytes,
}

impl Unit {
    /// A value as people read it.
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

    /// What stands at an axis.
    pub(crate) fn axis(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::MibPerSecond => "MiB/s",
            Unit::Count => "count",
            Unit::Bytes => "bytes",
        }
    }
}

/// One of several runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub value: f64,
    /// The most memory that was held, in KiB, where that was measured.
    pub peak_kib: Option<u64>,
}

impl Sample {
    /// The time that a process took.
    pub(crate) fn of(took: &crate::process::Took) -> Sample {
        Sample { value: took.wall.as_secs_f64() * 1000.0, peak_kib: Some(took.peak_kib) }
    }
}

/// One thing, measured at one size.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    /// What was measured: `monopile`, `gzip -dc | tar x`.
    pub what: String,
    /// How many times the smallest size: 1, 4, 16.
    pub scale: u32,
    /// The size in words.
    pub size: String,
    pub unit: Unit,
    /// In the order in which they were measured.
    pub values: Vec<f64>,
    pub median: f64,
    pub least: f64,
    pub most: f64,
    /// The most memory of all runs, in KiB.
    pub peak_kib: Option<u64>,
    /// How many instructions one run takes.
    pub instructions: Option<u64>,
}

impl Figure {
    /// The figure that these runs give.
    pub(crate) fn new(what: &str, scale: u32, size: &str, unit: Unit, samples: &[Sample]) -> Figure {
        assert!(!samples.is_empty(), "{what} was not measured");
        let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        Figure {
            what: what.to_owned(),
            scale,
            size: size.to_owned(),
            unit,
            median: sorted[sorted.len() / 2],
            least: sorted[0],
            most: sorted[sorted.len() - 1],
            values,
            peak_kib: samples.iter().filter_map(|sample| sample.peak_kib).max(),
            instructions: None,
        }
    }

    /// The same with a number of instructions.
    pub(crate) fn with_instructions(self, instructions: Option<u64>) -> Figure {
        Figure { instructions, ..self }
    }

    /// The median and how far the runs lie from each other.
    pub(crate) fn shown(&self) -> (String, String) {
        let spread = format!("{} – {}", self.unit.show(self.least), self.unit.show(self.most));
        (self.unit.show(self.median), if self.values.len() > 1 { spread } else { "–".to_owned() })
    }
}

/// Whether something is good enough.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Check {
    /// What must be reached, in words.
    pub must: String,
    /// What it was measured by: an index into the figures.
    pub figure: usize,
    /// What was measured, in units of what it is compared with.
    pub ratio: Option<f64>,
    pub pass: bool,
}

/// All that a row found out.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Findings {
    pub figures: Vec<Figure>,
    pub checks: Vec<Check>,
    /// What else is to be known: where the time went, what was not measured and why.
    pub notes: Vec<String>,
}

impl Findings {
    /// Adds a figure; returns its number.
    pub(crate) fn figure(&mut self, figure: Figure) -> usize {
        self.figures.push(figure);
        self.figures.len() - 1
    }

    /// The figure of this thing at this scale.
    pub(crate) fn find(&self, what: &str, scale: u32) -> Option<(usize, &Figure)> {
        self.figures.iter().enumerate().find(|(_, figure)| figure.what == what && figure.scale == scale)
    }

    /// Adds a sentence.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Demands that a figure's median is at most this.
    pub(crate) fn at_most(&mut self, must: &str, figure: usize, limit: f64) {
        let median = self.figures[figure].median;
        let check =
            Check { must: must.to_owned(), figure, ratio: Some(median / limit), pass: median <= limit };
        self.checks.push(check);
    }

    /// Demands something else of a figure.
    pub(crate) fn demand(&mut self, must: &str, figure: usize, ratio: Option<f64>, pass: bool) {
        self.checks.push(Check { must: must.to_owned(), figure, ratio, pass });
    }
}

/// Somebody who does the work that is measured.
pub(crate) struct Contender<'a> {
    pub what: String,
    pub run: Box<dyn FnMut() -> Sample + 'a>,
}

impl<'a> Contender<'a> {
    pub(crate) fn new(what: impl Into<String>, run: impl FnMut() -> Sample + 'a) -> Contender<'a> {
        Contender { what: what.into(), run: Box::new(run) }
    }
}

/// Lets them do it in turn, `rounds` times (A B A B), after one turn that does not count.
pub(crate) fn interleaved(
    contenders: &mut [Contender<'_>],
    rounds: usize,
    (scale, size, unit): (u32, &str, Unit),
) -> Vec<Figure> {
    let mut samples = vec![Vec::new(); contenders.len()];
    for round in 0..=rounds {
        for (contender, samples) in contenders.iter_mut().zip(&mut samples) {
            let sample = (contender.run)();
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    let figure = |(contender, samples): (&Contender<'_>, &Vec<Sample>)| {
        Figure::new(&contender.what, scale, size, unit, samples)
    };
    contenders.iter().zip(&samples).map(figure).collect()
}
