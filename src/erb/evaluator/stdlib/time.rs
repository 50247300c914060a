//! `Time`, in UTC.
//!
//! A rendered file must not depend on the machine's time zone. `Time.now` therefore supports only the methods
//! that do not depend on it, such as `to_i` and `utc`.

use std::rc::Rc;

use time::format_description::well_known::Rfc3339;
use time::{Date, Month, OffsetDateTime, UtcOffset};

use crate::evaluator::eval::{Args, Interp, R};
use crate::evaluator::value::{Data, Object, Value};

/// A point in time.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    at: OffsetDateTime,
    utc: bool,
    /// True for a time in the machine's time zone, which is not known here.
    local: bool,
}

impl Moment {
    /// Returns the form of `to_s`, or `None` for a local time.
    pub(crate) fn to_s(&self) -> Option<String> {
        if self.local {
            return None;
        }
        let zone = if self.utc { "UTC".to_owned() } else { offset(self.at.offset(), "") };
        Some(format!("{} {zone}", strftime(self, "%Y-%m-%d %H:%M:%S")?))
    }

    /// Returns the nanoseconds since the Unix epoch.
    pub(crate) fn nanos(&self) -> i128 {
        self.at.unix_timestamp_nanos()
    }
}

/// Returns an offset from UTC as hours and minutes, with the text `between` them.
fn offset(offset: UtcOffset, between: &str) -> String {
    let (hours, minutes, _) = offset.as_hms();
    let sign = if offset.is_negative() { '-' } else { '+' };
    format!("{sign}{:02}{between}{:02}", hours.abs(), minutes.abs())
}

/// Implements `strftime`. Returns `None` if a directive is not supported.
fn strftime(moment: &Moment, layout: &str) -> Option<String> {
    let at = moment.at;
    let mut out = String::new();
    let mut characters = layout.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let mut directive = characters.next()?;
        let flag = matches!(directive, '-' | '^' | ':' | '0').then_some(directive);
        if flag.is_some() {
            directive = characters.next()?;
        }
        let two = |number: u8| if flag == Some('-') { number.to_string() } else { format!("{number:02}") };
        let upper = |text: String| if flag == Some('^') { text.to_uppercase() } else { text };
        let hour12 = match at.hour() % 12 {
            0 => 12,
            hour => hour,
        };
        match directive {
            'Y' => out.push_str(&at.year().to_string()),
            'C' => out.push_str(&(at.year() / 100).to_string()),
            'y' => out.push_str(&two((at.year() % 100) as u8)),
            'm' => out.push_str(&two(at.month() as u8)),
            'd' => out.push_str(&two(at.day())),
            'e' => out.push_str(&format!("{:2}", at.day())),
            'j' => out.push_str(&format!("{:03}", at.ordinal())),
            'H' => out.push_str(&two(at.hour())),
            'I' => out.push_str(&two(hour12)),
            'M' => out.push_str(&two(at.minute())),
            'S' => out.push_str(&two(at.second())),
            'L' => out.push_str(&format!("{:03}", at.millisecond())),
            'N' => out.push_str(&format!("{:09}", at.nanosecond())),
            'p' => out.push_str(if at.hour() < 12 { "AM" } else { "PM" }),
            'P' => out.push_str(if at.hour() < 12 { "am" } else { "pm" }),
            'A' => out.push_str(&upper(at.weekday().to_string())),
            'a' => out.push_str(&upper(at.weekday().to_string()[..3].to_owned())),
            'B' => out.push_str(&upper(at.month().to_string())),
            'b' | 'h' => out.push_str(&upper(at.month().to_string()[..3].to_owned())),
            'u' => out.push_str(&at.weekday().number_from_monday().to_string()),
            'w' => out.push_str(&at.weekday().number_days_from_sunday().to_string()),
            's' => out.push_str(&at.unix_timestamp().to_string()),
            'F' => out.push_str(&strftime(moment, "%Y-%m-%d")?),
            'T' | 'X' => out.push_str(&strftime(moment, "%H:%M:%S")?),
            'D' | 'x' => out.push_str(&strftime(moment, "%m/%d/%y")?),
            'R' => out.push_str(&strftime(moment, "%H:%M")?),
            'c' => out.push_str(&strftime(moment, "%a %b %e %H:%M:%S %Y")?),
            'z' => out.push_str(&offset(at.offset(), if flag == Some(':') { ":" } else { "" })),
            'Z' if moment.utc => out.push_str("UTC"),
            'Z' => {}
            '%' => out.push('%'),
            'n' => out.push('\n'),
            't' => out.push('\t'),
            _ => return None,
        }
    }
    Some(out)
}

fn make(it: &mut Interp, at: OffsetDateTime, utc: bool) -> Value {
    let class = it.class("Time");
    it.object(class, Data::Time(Moment { at, utc, local: false }))
}

pub(crate) fn class_method(it: &mut Interp, label: &str, name: &str, args: &Args) -> R<Option<Value>> {
    if label != "Time" {
        return Err(it.unsupported(format!("{label}.{name}")));
    }
    Ok(Some(match name {
        "at" => {
            let seconds = it.arg(args, 0)?;
            let at = match &seconds {
                Value::Int(seconds) => OffsetDateTime::from_unix_timestamp(*seconds).ok(),
                Value::Float(seconds) => {
                    OffsetDateTime::from_unix_timestamp_nanos((seconds * 1e9).round() as i128).ok()
                }
                _ => None,
            };
            match at {
                // The time is in UTC, because a rendered file must not depend on the machine's time zone.
                Some(at) => make(it, at, true),
                None => return it.argument_error("argument out of range"),
            }
        }
        "utc" | "gm" => {
            let mut parts = [1970, 1, 1, 0, 0, 0];
            for (index, slot) in parts.iter_mut().enumerate() {
                *slot = it.int_or(args, index, *slot)?;
            }
            match civil(&parts) {
                Some(at) => make(it, at, true),
                None => return it.argument_error("argument out of range"),
            }
        }
        "parse" | "iso8601" | "xmlschema" => {
            let text = it.arg(args, 0)?;
            let text = it.string_arg(&text)?;
            let clean = text.trim().replacen(' ', "T", 1).replace(" UTC", "Z");
            match OffsetDateTime::parse(&clean, &Rfc3339) {
                Ok(at) => make(it, at, clean.ends_with(['Z', 'z'])),
                Err(_) => return Err(it.unsupported(format!("Time.{name} of '{text}'"))),
            }
        }
        "now" => {
            let class = it.class("Time");
            it.object(class, Data::Time(Moment { at: OffsetDateTime::now_utc(), utc: false, local: true }))
        }
        "new" | "local" | "mktime" => {
            return Err(it.unsupported(format!("Time.{name}, which depends on the machine's time zone")));
        }
        _ => return Ok(None),
    }))
}

/// Methods whose result does not depend on the time zone.
const ZONELESS: &[&str] = &[
    "utc", "getutc", "gmtime", "getgm", "utc?", "gmt?", "to_i", "tv_sec", "to_f", "nsec", "usec", "+", "-",
    "<", "<=", ">", ">=", "==", "<=>", "between?", "clamp", "class", "is_a?", "nil?", "dup", "freeze",
];

/// Converts year, month, day, hour, minute and second in UTC. Returns `None` if one is out of range.
fn civil(parts: &[i64; 6]) -> Option<OffsetDateTime> {
    let month = Month::try_from(u8::try_from(parts[1]).ok()?).ok()?;
    let date =
        Date::from_calendar_date(i32::try_from(parts[0]).ok()?, month, u8::try_from(parts[2]).ok()?).ok()?;
    let [hour, minute, second] = [parts[3], parts[4], parts[5]].map(|part| u8::try_from(part).ok());
    Some(date.with_hms(hour?, minute?, second?).ok()?.assume_utc())
}

pub(crate) fn method(it: &mut Interp, object: &Rc<Object>, name: &str, args: &Args) -> R<Option<Value>> {
    let moment = match &*object.data.borrow() {
        Data::Time(moment) => moment.clone(),
        _ => return Ok(None),
    };
    let at = moment.at;
    if moment.local
        && !ZONELESS.contains(&name)
        && !matches!(args.list.as_slice(), [Value::Str(layout)] if *layout.get() == "%s")
    {
        return Err(it.unsupported(format!("Time#{name} in the machine's time zone")));
    }
    Ok(Some(match name {
        "strftime" => {
            let layout = it.arg(args, 0)?;
            let layout = it.string_arg(&layout)?;
            match strftime(&moment, &layout) {
                Some(text) => Value::str(text),
                None => return Err(it.unsupported(format!("the time format '{layout}'"))),
            }
        }
        "to_s" | "inspect" => Value::str(moment.to_s().unwrap_or_default()),
        "iso8601" | "xmlschema" => {
            let zone = if moment.utc { "Z".to_owned() } else { offset(at.offset(), ":") };
            let digits = it.int_or(args, 0, 0)?.clamp(0, 100) as usize;
            let mut fraction = String::new();
            if digits > 0 {
                let nanos = format!("{:09}", at.nanosecond());
                fraction = format!(".{:0<digits$}", &nanos[..digits.min(9)]);
            }
            Value::str(strftime(&moment, "%Y-%m-%dT%H:%M:%S").unwrap_or_default() + &fraction + &zone)
        }
        "utc" | "getutc" | "gmtime" | "getgm" => make(it, at.to_offset(UtcOffset::UTC), true),
        "utc?" | "gmt?" => Value::Bool(moment.utc),
        "to_i" | "tv_sec" => Value::Int(at.unix_timestamp()),
        "to_f" => Value::Float(at.unix_timestamp_nanos() as f64 / 1e9),
        "year" => Value::Int(at.year().into()),
        "month" | "mon" => Value::Int(i64::from(at.month() as u8)),
        "day" | "mday" => Value::Int(at.day().into()),
        "hour" => Value::Int(at.hour().into()),
        "min" => Value::Int(at.minute().into()),
        "sec" => Value::Int(at.second().into()),
        "nsec" => Value::Int(at.nanosecond().into()),
        "usec" => Value::Int(at.microsecond().into()),
        "yday" => Value::Int(at.ordinal().into()),
        "wday" => Value::Int(at.weekday().number_days_from_sunday().into()),
        "zone" => {
            if moment.utc {
                Value::str("UTC")
            } else {
                Value::Nil
            }
        }
        "utc_offset" | "gmt_offset" => Value::Int(at.offset().whole_seconds().into()),
        "+" | "-" => {
            let by = it.arg(args, 0)?;
            if let Value::Object(other) = &by
                && let Data::Time(other) = &*other.data.borrow()
            {
                return Ok(Some(Value::Float((moment.nanos() - other.nanos()) as f64 / 1e9)));
            }
            let seconds = crate::evaluator::methods::to_f64(&by);
            let nanos = (seconds * 1e9) as i128 * if name == "+" { 1 } else { -1 };
            match OffsetDateTime::from_unix_timestamp_nanos(moment.nanos() + nanos) {
                Ok(new) => {
                    let moment = Moment { at: new.to_offset(at.offset()), ..moment };
                    let class = it.class("Time");
                    it.object(class, Data::Time(moment))
                }
                Err(_) => return it.argument_error("argument out of range"),
            }
        }
        "<" | "<=" | ">" | ">=" | "between?" | "clamp" => {
            return it.comparable_method(&Value::Object(Rc::clone(object)), name, args);
        }
        "monday?" | "tuesday?" | "wednesday?" | "thursday?" | "friday?" | "saturday?" | "sunday?" => {
            Value::Bool(at.weekday().to_string().to_lowercase() == name.trim_end_matches('?'))
        }
        _ => return Ok(None),
    }))
}
