//! Parses durations of the command line, such as `90s`, `1h30m` or `30d`.

use std::time::Duration;

const SECOND_MS: u64 = 1000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The units, in milliseconds.
const UNITS: [(&str, u64); 7] = [
    ("ms", 1),
    ("s", SECOND_MS),
    ("m", MINUTE_MS),
    ("min", MINUTE_MS),
    ("h", HOUR_MS),
    ("d", DAY_MS),
    ("w", 7 * DAY_MS),
];

/// The form of a duration, for errors.
const UNITS_HELP: &str = "a duration with the units ms, s, m, h, d or w, such as 90s or 1h30m";

/// The maximum timeout. Longer ones are mistakes, and could overflow the clock.
const MAX_TIMEOUT: Duration = Duration::from_millis(10 * 366 * DAY_MS);

/// The maximum age. A thousand years can be added to any date.
const MAX_AGE: Duration = Duration::from_millis(366_000 * DAY_MS);

/// A parser of clap for `90s`, `10m`, `1h30m`, `500ms`, `2d`, or a number of seconds.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => check_limit(Duration::from_secs(seconds), MAX_TIMEOUT),
        Err(_) => {
            let duration = parse_sum(text);
            check_limit(
                duration.ok_or(format!("expected a number of seconds, or {UNITS_HELP}"))?,
                MAX_TIMEOUT,
            )
        }
    }
}

/// Like [`parse`], for a timeout that must not be zero.
pub(super) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("expected a duration longer than 0, such as 90s or 1h30m".to_owned()),
        duration => Ok(duration),
    }
}

/// Like [`parse`], for an age with a higher limit. A number must have a unit, because an age in seconds is a
/// mistake.
pub(super) fn parse_age(text: &str) -> Result<Duration, String> {
    const FORM: &str = "expected an age with the units h, d or w, such as 12h or 30d";
    check_limit(parse_sum(text).ok_or(FORM)?, MAX_AGE)
}

/// Adds up numbers that each have a unit.
fn parse_sum(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    loop {
        let digit_count = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        let (number, text_after) = rest.split_at(digit_count);
        let unit_length = text_after.find(|character: char| character.is_ascii_digit());
        let (unit, text_after) = text_after.split_at(unit_length.unwrap_or(text_after.len()));
        let number: u64 = number.parse().ok()?;
        let (_, milliseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        // A number that overflows exceeds every limit.
        let part = Duration::from_millis(number.saturating_mul(*milliseconds));
        total = total.saturating_add(part);
        if text_after.is_empty() {
            return Some(total);
        }
        rest = text_after;
    }
}

fn check_limit(duration: Duration, max_duration: Duration) -> Result<Duration, String> {
    match duration > max_duration {
        true => Err(format!("expected at most {} days, such as 12h or 30d", max_duration.as_secs() / 86_400)),
        false => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_timeouts() {
        let seconds = |text| parse(text).map(|duration| duration.as_secs_f64());
        assert_eq!(seconds("90"), Ok(90.0));
        for long in ["18446744073709551615", "18446744073709551s", "100000h"] {
            let problem = "expected at most 3660 days, such as 12h or 30d".to_owned();
            assert_eq!(seconds(long), Err(problem), "{long}");
        }
        assert_eq!(seconds("1h30m"), Ok(5400.0));
        assert_eq!(seconds("2min5s"), Ok(125.0));
        assert_eq!(seconds("500ms"), Ok(0.5));
        assert_eq!(seconds("2d"), Ok(172_800.0));
        assert_eq!(seconds("1w1ms"), Ok(604_800.001));
        let problem = "expected a duration longer than 0, such as 90s or 1h30m".to_owned();
        assert_eq!(parse_positive("0ms"), Err(problem));
        assert_eq!(parse_positive("1ms"), parse("1ms"));
        for text in
            ["", "m", "5x", "5y", "-1s", "1.5s", "10 m", "1h30", "99999999999999999999h", "9999999999999999h"]
        {
            parse(text).unwrap_err();
        }
    }

    #[test]
    fn parses_ages() {
        let hours = |text| parse_age(text).map(|age| age.as_secs_f64() / 3600.0);
        assert_eq!(hours("30d"), Ok(30.0 * 24.0));
        assert_eq!(hours("12h"), Ok(12.0));
        assert_eq!(hours("90s"), Ok(0.025));
        assert_eq!(hours("1w2d"), Ok(9.0 * 24.0));
        assert_eq!(hours("366000d"), Ok(24.0 * 366_000.0));
        assert_eq!(hours("366001d"), Err("expected at most 366000 days, such as 12h or 30d".to_owned()));
        for text in ["", "7", "d", "-1d", "1y", "1.5d", "99999999999999999999d", "999999999w"] {
            parse_age(text).unwrap_err();
        }
    }
}
