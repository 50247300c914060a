//! Parses durations of the command line: timeouts such as `90s` and `1h30m`, ages such as `30d`.

use std::time::Duration;

/// A notation for durations: numbers, each with a unit.
struct Notation {
    /// The units, in milliseconds. `""` is that of a bare number.
    units: &'static [(&'static str, u64)],
    /// True if several numbers add up: `1h30m`.
    sums: bool,
    longest: Duration,
}

/// A mistake in a duration.
enum Mistake<'t> {
    Number,
    Unit(&'t str),
    TooLong,
}

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

const TIMEOUT: Notation = Notation {
    units: &[("ms", 1), ("s", SECOND), ("m", MINUTE), ("min", MINUTE), ("h", HOUR)],
    sums: true,
    // Longer timeouts are mistakes, and could overflow the clock.
    longest: Duration::from_millis(10 * 366 * DAY),
};

const AGE: Notation = Notation {
    units: &[("", DAY), ("h", HOUR), ("d", DAY), ("w", 7 * DAY)],
    sums: false,
    // A thousand years can be added to any date.
    longest: Duration::from_millis(366_000 * DAY),
};

/// Parses `90s`, `10m`, `1h30m`, `500ms`, or a number of seconds; a parser for clap.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let duration = match text.parse() {
        Ok(seconds) => TIMEOUT.limit(Duration::from_secs(seconds)),
        Err(_) => TIMEOUT.parse(text),
    };
    duration.map_err(|mistake| match mistake {
        Mistake::TooLong => {
            format!("the duration is longer than {} days", TIMEOUT.longest.as_secs() / 86_400)
        }
        Mistake::Number | Mistake::Unit(_) => {
            "expected seconds, or numbers with ms, s, m or h, such as 90s or 1h30m".to_owned()
        }
    })
}

/// Parses `30d`, `12h`, `2w`, or a number of days; a parser for clap.
pub(super) fn parse_age(text: &str) -> Result<Duration, String> {
    AGE.parse(text).map_err(|mistake| match mistake {
        Mistake::Number => "expected a number and a unit, such as 30d".to_owned(),
        Mistake::Unit(unit) => format!("unknown unit '{unit}': the units are h, d and w"),
        Mistake::TooLong => format!("the age is longer than {} days", AGE.longest.as_secs() / 86_400),
    })
}

impl Notation {
    fn parse<'t>(&self, text: &'t str) -> Result<Duration, Mistake<'t>> {
        let mut total = Duration::ZERO;
        let mut rest = text;
        loop {
            let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
            let (number, after) = rest.split_at(digits);
            let next = after.find(|character: char| self.sums && character.is_ascii_digit());
            let (unit, after) = after.split_at(next.unwrap_or(after.len()));
            let number: u64 = number.parse().map_err(|_| Mistake::Number)?;
            let (_, milliseconds) =
                self.units.iter().find(|(name, _)| *name == unit).ok_or(Mistake::Unit(unit))?;
            let part = number.checked_mul(*milliseconds).map(Duration::from_millis);
            total = part.and_then(|part| total.checked_add(part)).ok_or(Mistake::TooLong)?;
            if after.is_empty() {
                return self.limit(total);
            }
            rest = after;
        }
    }

    fn limit<'t>(&self, duration: Duration) -> Result<Duration, Mistake<'t>> {
        if duration > self.longest { Err(Mistake::TooLong) } else { Ok(duration) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts() {
        let seconds = |text| parse(text).map(|duration| duration.as_secs_f64());
        assert_eq!(seconds("90"), Ok(90.0));
        for long in ["18446744073709551615", "18446744073709551s", "100000h"] {
            assert_eq!(seconds(long), Err("the duration is longer than 3660 days".to_owned()), "{long}");
        }
        assert_eq!(seconds("1h30m"), Ok(5400.0));
        assert_eq!(seconds("2min5s"), Ok(125.0));
        assert_eq!(seconds("500ms"), Ok(0.5));
        for wrong in
            ["", "m", "5x", "-1s", "1.5s", "10 m", "1h30", "99999999999999999999h", "9999999999999999h"]
        {
            parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn ages() {
        let hours = |text| parse_age(text).map(|age| age.as_secs() / 3600);
        assert_eq!(hours("30d"), Ok(30 * 24));
        assert_eq!(hours("7"), Ok(7 * 24));
        assert_eq!(hours("12h"), Ok(12));
        assert_eq!(hours("2w"), Ok(14 * 24));
        assert_eq!(hours("366000d"), Ok(24 * 366_000));
        assert_eq!(hours("366001d"), Err("the age is longer than 366000 days".to_owned()));
        assert_eq!(hours("1w2d"), Err("unknown unit 'w2d': the units are h, d and w".to_owned()));
        for wrong in ["", "d", "-1d", "1y", "1.5d", "99999999999999999999d", "999999999w"] {
            parse_age(wrong).unwrap_err();
        }
    }
}
