//! `Time#strftime`.

use super::{Moment, offset_text};

/// The padding of a number.
#[derive(Clone, Copy)]
enum Padding {
    Zeros(usize),
    Blanks(usize),
}

/// Formats a time. Returns `None` if a directive, or a flag of one, is not supported.
pub(super) fn strftime(moment: &Moment, layout: &str) -> Option<String> {
    let date_time = moment.date_time;
    let mut output = String::new();
    let mut characters = layout.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            output.push(character);
            continue;
        }
        let mut directive = characters.next()?;
        let flag = matches!(directive, '-' | '^' | ':' | '0' | '_').then_some(directive);
        if flag.is_some() {
            directive = characters.next()?;
        }
        if let Some((number, padding)) = number(moment, directive) {
            let padding = match (flag, padding) {
                (None, padding) => padding,
                (Some('-'), _) => Padding::Zeros(0),
                (Some('0'), Padding::Zeros(width) | Padding::Blanks(width)) => Padding::Zeros(width),
                (Some('_'), Padding::Zeros(width) | Padding::Blanks(width)) => Padding::Blanks(width),
                _ => return None,
            };
            output.push_str(&match padding {
                Padding::Zeros(width) => format!("{number:0width$}"),
                Padding::Blanks(width) => format!("{number:width$}"),
            });
            continue;
        }
        if let Some(text) = name(moment, directive) {
            match flag {
                None => output.push_str(&text),
                Some('^') => output.push_str(&text.to_uppercase()),
                _ => return None,
            }
            continue;
        }
        if let Some(layout) = composite(directive) {
            output.push_str(&strftime(moment, flag.is_none().then_some(layout)?)?);
            continue;
        }
        match (flag, directive) {
            (None, 'L') => output.push_str(&format!("{:03}", date_time.millisecond())),
            (None, 'N') => output.push_str(&format!("{:09}", date_time.nanosecond())),
            (None, 'p') => output.push_str(if date_time.hour() < 12 { "AM" } else { "PM" }),
            (None, 'P') => output.push_str(if date_time.hour() < 12 { "am" } else { "pm" }),
            (None, 'z') => output.push_str(&offset_text(date_time.offset(), "")),
            (Some(':'), 'z') => output.push_str(&offset_text(date_time.offset(), ":")),
            (None, 'Z') if moment.is_utc => output.push_str("UTC"),
            (None, '%') => output.push('%'),
            (None, 'n') => output.push('\n'),
            (None, 't') => output.push('\t'),
            _ => return None,
        }
    }
    Some(output)
}

/// Returns the number of a directive, and its padding.
fn number(moment: &Moment, directive: char) -> Option<(i64, Padding)> {
    let date_time = moment.date_time;
    let hour = i64::from(date_time.hour());
    let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
    let year = i64::from(date_time.year());
    Some(match directive {
        // The width includes the minus sign.
        'Y' => (year, Padding::Zeros(if year < 0 { 5 } else { 4 })),
        'C' => (year.div_euclid(100), Padding::Zeros(2)),
        'y' => (year.rem_euclid(100), Padding::Zeros(2)),
        'm' => (i64::from(date_time.month() as u8), Padding::Zeros(2)),
        'd' => (date_time.day().into(), Padding::Zeros(2)),
        'e' => (date_time.day().into(), Padding::Blanks(2)),
        'j' => (date_time.ordinal().into(), Padding::Zeros(3)),
        'H' => (hour, Padding::Zeros(2)),
        'k' => (hour, Padding::Blanks(2)),
        'I' => (hour12, Padding::Zeros(2)),
        'l' => (hour12, Padding::Blanks(2)),
        'M' => (date_time.minute().into(), Padding::Zeros(2)),
        'S' => (date_time.second().into(), Padding::Zeros(2)),
        'u' => (date_time.weekday().number_from_monday().into(), Padding::Zeros(1)),
        'w' => (moment.weekday().into(), Padding::Zeros(1)),
        's' => (date_time.unix_timestamp(), Padding::Zeros(1)),
        _ => return None,
    })
}

/// Returns the name that a directive stands for, such as that of a month.
fn name(moment: &Moment, directive: char) -> Option<String> {
    let short_name = |name: String| name.chars().take(3).collect();
    let (day, month) = (moment.date_time.weekday().to_string(), moment.date_time.month().to_string());
    Some(match directive {
        'A' => day,
        'a' => short_name(day),
        'B' => month,
        'b' | 'h' => short_name(month),
        _ => return None,
    })
}

/// Returns the layout that a directive stands for.
fn composite(directive: char) -> Option<&'static str> {
    Some(match directive {
        'F' => "%Y-%m-%d",
        'T' | 'X' => "%H:%M:%S",
        'D' | 'x' => "%m/%d/%y",
        'R' => "%H:%M",
        'r' => "%I:%M:%S %p",
        'c' => "%a %b %e %H:%M:%S %Y",
        'v' => "%e-%^b-%Y",
        _ => return None,
    })
}
