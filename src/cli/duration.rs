//! Durations on the command line: `90s`, `10m`, `1h30m`, `500ms`, or a number of seconds.

use std::time::Duration;

/// A longer one is a mistake, and might lie beyond the end of the clock.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

/// Parses one; a parser for clap.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let duration = sum(text)?;
    if duration > LONGEST { Err("the duration is too long".to_owned()) } else { Ok(duration) }
}

fn sum(text: &str) -> Result<Duration, String> {
    const FORM: &str = "a duration is a number of seconds, or numbers with ms, s, m or h: 90s, 1h30m";
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit()).ok_or(FORM)?;
        let (number, after) = rest.split_at(digits);
        let number: u64 = number.parse().map_err(|_| FORM)?;
        let end = after.find(|character: char| character.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let milliseconds = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            _ => return Err(FORM.to_owned()),
        };
        let part = number.checked_mul(milliseconds).map(Duration::from_millis);
        total = part.and_then(|part| total.checked_add(part)).ok_or("the duration is too long")?;
        rest = after;
    }
    if text.is_empty() { Err(FORM.to_owned()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let seconds = |text| parse(text).map(|duration| duration.as_secs_f64());
        assert_eq!(seconds("90"), Ok(90.0));
        for long in ["18446744073709551615", "18446744073709551s", "100000h"] {
            assert_eq!(seconds(long), Err("the duration is too long".to_owned()), "{long}");
        }
        assert_eq!(seconds("1h30m"), Ok(5400.0));
        assert_eq!(seconds("2min5s"), Ok(125.0));
        assert_eq!(seconds("500ms"), Ok(0.5));
        for wrong in ["", "m", "5x", "-1s", "1.5s", "10 m", "99999999999999999999h", "9999999999999999h"] {
            parse(wrong).unwrap_err();
        }
    }
}
