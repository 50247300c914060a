//! `Time`, in UTC or with an offset from it.
//!
//! A rendered file must not depend on the machine's time zone. A time in that zone, such as `Time.now`,
//! therefore supports only the methods that do not depend on it, such as `to_i` and `utc`.

mod strftime;

use std::rc::Rc;

use time::format_description::well_known::Rfc3339;
use time::{Date, Duration, Month, OffsetDateTime, UtcOffset};

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{Data, Object, Value};
use strftime::strftime;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
/// The maximum number of digits of a second that `iso8601` shows.
const MAX_DIGITS: i64 = 100;

/// A point in time.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    date_time: OffsetDateTime,
    is_utc: bool,
    /// True for a time in the machine's time zone, which is not known here.
    is_local: bool,
}

impl Moment {
    fn utc(date_time: OffsetDateTime) -> Moment {
        Moment { date_time: date_time.to_offset(UtcOffset::UTC), is_utc: true, is_local: false }
    }

    fn local(date_time: OffsetDateTime) -> Moment {
        Moment { date_time, is_utc: false, is_local: true }
    }

    /// Returns the form of `to_s`, or `None` for a local time.
    pub(crate) fn to_s(&self) -> Option<String> {
        self.with_fraction("")
    }

    /// Returns the form of `inspect`, which has the fraction of the second, or `None` for a local time.
    pub(crate) fn inspect(&self) -> Option<String> {
        let digits = format!("{:09}", self.date_time.nanosecond());
        let digits = digits.trim_end_matches('0');
        self.with_fraction(&if digits.is_empty() { String::new() } else { format!(".{digits}") })
    }

    fn with_fraction(&self, fraction: &str) -> Option<String> {
        if self.is_local {
            return None;
        }
        let zone = if self.is_utc { "UTC".to_owned() } else { offset_text(self.date_time.offset(), "") };
        Some(format!("{}{fraction} {zone}", strftime(self, "%Y-%m-%d %H:%M:%S")?))
    }

    /// Returns the nanoseconds since the Unix epoch.
    pub(crate) fn nanos(&self) -> i128 {
        self.date_time.unix_timestamp_nanos()
    }

    fn weekday(&self) -> u8 {
        self.date_time.weekday().number_days_from_sunday()
    }
}

/// Returns an offset from UTC as hours and minutes, with a separator between them.
fn offset_text(offset: UtcOffset, separator: &str) -> String {
    let (hours, minutes, _) = offset.as_hms();
    let sign = if offset.is_negative() { '-' } else { '+' };
    format!("{sign}{:02}{separator}{:02}", hours.abs(), minutes.abs())
}

/// Returns nanoseconds as seconds, rounded as in Ruby.
fn seconds(interpreter: &mut Interpreter, nanos: i128) -> EvalResult<Value> {
    if i64::try_from(nanos).is_err() {
        return Err(interpreter.unsupported_error("so many seconds as a float"));
    }
    Ok(Value::Float(if nanos % NANOS_PER_SECOND == 0 {
        (nanos / NANOS_PER_SECOND) as f64
    } else {
        nanos as f64 / 1e9
    }))
}

/// Returns a number of seconds in nanoseconds. Returns `None` if it is not a number, or has a fraction below
/// a nanosecond, which Ruby keeps.
fn nanos_of(value: &Value) -> Option<i128> {
    match value {
        Value::Int(seconds) => Some(i128::from(*seconds) * NANOS_PER_SECOND),
        Value::Float(seconds) if seconds.is_finite() && seconds.abs() < 1e12 => {
            let whole_seconds = seconds.trunc();
            // The difference is exact, and so is its product with a power of two.
            let mut fraction = seconds - whole_seconds;
            let mut shift = 0;
            while fraction.fract() != 0.0 && shift < 9 {
                fraction *= 2.0;
                shift += 1;
            }
            // The fraction is a whole number divided by a power of two. A second has ten to the ninth
            // nanoseconds, which can be halved nine times. If the power is higher, the time is no whole
            // number of nanoseconds.
            if fraction.fract() != 0.0 {
                return None;
            }
            let part = (fraction as i128) * (NANOS_PER_SECOND >> shift);
            Some(whole_seconds as i128 * NANOS_PER_SECOND + part)
        }
        _ => None,
    }
}

fn create_time(interpreter: &mut Interpreter, moment: Moment) -> Value {
    let class = interpreter.load_class("Time");
    interpreter.create_object(class, Data::Time(moment))
}

/// Calls a method of the class Time itself. Returns `None` if it does not implement the method.
pub(crate) fn call_class_method(
    interpreter: &mut Interpreter,
    label: &str,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    if label != "Time" {
        return Err(interpreter.unsupported_error(format!("{label}.{name}")));
    }
    Ok(Some(match name {
        "at" => {
            let time = interpreter.arg(args, 0)?;
            if args.len() > 1 {
                return Err(interpreter.unsupported_error("Time.at with several arguments"));
            }
            if let Some(moment) = moment_of(&time) {
                return Ok(Some(create_time(interpreter, moment)));
            }
            if !matches!(time, Value::Int(_) | Value::Float(_) | Value::Big(_)) {
                return match &time {
                    Value::Nil | Value::Str(_) | Value::Symbol(_) | Value::Bool(_) => {
                        let class = interpreter.class_of(&time).label();
                        interpreter.raise_type_error(format!("can't convert {class} into an exact number"))
                    }
                    _ => Err(interpreter.unsupported_error("Time.at with this value")),
                };
            }
            let date_time =
                nanos_of(&time).and_then(|nanos| OffsetDateTime::from_unix_timestamp_nanos(nanos).ok());
            match date_time {
                Some(date_time) => create_time(interpreter, Moment::local(date_time)),
                None => return Err(interpreter.unsupported_error("Time.at with this number")),
            }
        }
        "utc" | "gm" => {
            let date_time = utc_from_parts(interpreter, args)?;
            create_time(interpreter, Moment::utc(date_time))
        }
        "parse" | "iso8601" | "xmlschema" => {
            let text = interpreter.arg(args, 0)?;
            let text = interpreter.string_arg(&text)?;
            match parse_time(&text, name == "parse").filter(|_| args.len() == 1) {
                Some(moment) => create_time(interpreter, moment),
                None => return Err(interpreter.unsupported_error(format!("Time.{name} of '{text}'"))),
            }
        }
        "now" => create_time(interpreter, Moment::local(OffsetDateTime::now_utc())),
        "new" | "local" | "mktime" => {
            return Err(interpreter
                .unsupported_error(format!("Time.{name}, which depends on the machine's time zone")));
        }
        _ => return Ok(None),
    }))
}

/// Reads a date and a time with a zone, as RFC 3339 writes them. `is_lenient` accepts spaces, as `Time.parse`
/// does.
fn parse_time(text: &str, is_lenient: bool) -> Option<Moment> {
    let text = text.trim_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
    let text = if is_lenient {
        text.replacen(' ', "T", 1).replace(" UTC", "Z").replace(" +", "+").replace(" -", "-")
    } else {
        text.to_owned()
    };
    // This type can hold neither leap seconds nor fractions below a nanosecond.
    let has_leap_second = text.get(17..19) == Some("60");
    let digits = text
        .get(19..)?
        .strip_prefix('.')
        .map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    if has_leap_second || digits > 9 || text.starts_with('0') {
        return None;
    }
    let date_time = OffsetDateTime::parse(&text, &Rfc3339).ok()?;
    let is_utc = text.ends_with(['Z', 'z']) || text.ends_with("-00:00");
    Some(if is_utc { Moment::utc(date_time) } else { Moment { date_time, is_utc: false, is_local: false } })
}

/// Methods whose result does not depend on the time zone.
const ZONELESS_METHODS: &[&str] = &[
    "utc", "getutc", "gmtime", "getgm", "utc?", "gmt?", "to_i", "tv_sec", "to_f", "nsec", "usec", "tv_nsec",
    "tv_usec", "+", "-", "<", "<=", ">", ">=", "==", "<=>", "between?", "clamp", "class", "is_a?", "nil?",
    "dup", "freeze", "httpdate", "eql?", "hash",
];

/// Converts year, month, day, hour, minute, second and microsecond in UTC. As in Ruby, the 31st of a shorter
/// month, the hour 24 and the second 60 belong to the next month, day and minute.
fn utc_from_parts(interpreter: &mut Interpreter, args: &Args) -> EvalResult<OffsetDateTime> {
    interpreter.arg(args, 0)?;
    let mut parts = [1970, 1, 1, 0, 0, 0, 0];
    if args.len() > parts.len() {
        return Err(interpreter.unsupported_error("Time.utc with ten arguments"));
    }
    for (part, value) in parts.iter_mut().zip(&args.list) {
        match value {
            Value::Nil => {}
            Value::Int(number) => *part = *number,
            _ => return Err(interpreter.unsupported_error("Time.utc with a value that is not an integer")),
        }
    }
    let [year, month, day, hour, minute, second, micros] = parts;
    // Ruby first rejects components that do not fit their bit fields, then those that are out of range.
    let limits = [(month, 15), (day, 31), (hour, 31), (minute, 63), (second, 63)];
    if limits.iter().any(|(part, max)| !(0..=*max).contains(part)) {
        return interpreter.raise_argument_error("argument out of range");
    }
    let is_over = hour == 24;
    let checks = [
        ("mon", (1..=12).contains(&month)),
        ("mday", day > 0),
        ("hour", hour <= 24),
        ("min", minute <= if is_over { 0 } else { 59 }),
        ("sec", second <= if is_over { 0 } else { 60 }),
        ("subsecx", (0..1_000_000).contains(&micros)),
    ];
    if let Some((part, _)) = checks.iter().find(|(_, is_valid)| !is_valid) {
        return interpreter.raise_argument_error(format!("{part} out of range"));
    }
    let date = i32::try_from(year)
        .ok()
        .zip(u8::try_from(month).ok().and_then(|month| Month::try_from(month).ok()))
        .and_then(|(year, month)| Date::from_calendar_date(year, month, 1).ok());
    let date_time = date.and_then(|date| {
        let duration = Duration::days(day - 1)
            + Duration::hours(hour)
            + Duration::minutes(minute)
            + Duration::seconds(second)
            + Duration::microseconds(micros);
        date.midnight().assume_utc().checked_add(duration)
    });
    date_time.ok_or_else(|| interpreter.unsupported_error("Time.utc with these numbers"))
}

fn moment_of(value: &Value) -> Option<Moment> {
    match value {
        Value::Object(object) => match &*object.data.borrow() {
            Data::Time(moment) => Some(moment.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Calls a method of a Time. Returns `None` if Time does not implement it.
pub(crate) fn call_method(
    interpreter: &mut Interpreter,
    object: &Rc<Object>,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    let Some(moment) = moment_of(&Value::Object(Rc::clone(object))) else { return Ok(None) };
    let date_time = moment.date_time;
    if moment.is_local
        && !ZONELESS_METHODS.contains(&name)
        && !matches!(args.list.as_slice(), [Value::Str(layout)] if *layout.get() == "%s")
    {
        return Err(interpreter.unsupported_error(format!("Time#{name} in the machine's time zone")));
    }
    let format_time =
        |interpreter: &mut Interpreter, moment: &Moment, layout: &str| match strftime(moment, layout) {
            Some(text) => Ok(text),
            None => Err(interpreter.unsupported_error(format!("the time format '{layout}'"))),
        };
    Ok(Some(match name {
        "strftime" => {
            let layout = interpreter.arg(args, 0)?;
            let layout = interpreter.string_arg(&layout)?;
            Value::str(format_time(interpreter, &moment, &layout)?)
        }
        "to_s" => Value::str(moment.to_s().unwrap_or_default()),
        "inspect" => Value::str(moment.inspect().unwrap_or_default()),
        "iso8601" | "xmlschema" => {
            let zone = if moment.is_utc { "Z".to_owned() } else { offset_text(date_time.offset(), ":") };
            let digits = match args.get(0) {
                None | Some(Value::Nil) => 0,
                Some(Value::Int(digits)) if *digits <= MAX_DIGITS => (*digits).max(0) as usize,
                Some(_) => return Err(interpreter.unsupported_error(format!("Time#{name} with this value"))),
            };
            let mut fraction = String::new();
            if digits > 0 {
                let nanos = format!("{:09}", date_time.nanosecond());
                fraction = format!(".{:0<digits$}", &nanos[..digits.min(9)]);
            }
            Value::str(format_time(interpreter, &moment, "%Y-%m-%dT%H:%M:%S")? + &fraction + &zone)
        }
        "asctime" | "ctime" => Value::str(format_time(interpreter, &moment, "%c")?),
        "httpdate" => Value::str(format_time(interpreter, &Moment::utc(date_time), "%a, %d %b %Y %T GMT")?),
        "rfc2822" | "rfc822" => {
            let zone = if moment.is_utc { "-0000".to_owned() } else { offset_text(date_time.offset(), "") };
            Value::str(format_time(interpreter, &moment, "%a, %d %b %Y %T ")? + &zone)
        }
        "utc" | "gmtime" => {
            *object.data.borrow_mut() = Data::Time(Moment::utc(date_time));
            Value::Object(Rc::clone(object))
        }
        "getutc" | "getgm" => create_time(interpreter, Moment::utc(date_time)),
        "utc?" | "gmt?" => Value::Bool(moment.is_utc),
        "to_i" | "tv_sec" => Value::Int(date_time.unix_timestamp()),
        "to_f" => seconds(interpreter, moment.nanos())?,
        "year" => Value::Int(date_time.year().into()),
        "month" | "mon" => Value::Int(i64::from(date_time.month() as u8)),
        "day" | "mday" => Value::Int(date_time.day().into()),
        "hour" => Value::Int(date_time.hour().into()),
        "min" => Value::Int(date_time.minute().into()),
        "sec" => Value::Int(date_time.second().into()),
        "nsec" | "tv_nsec" => Value::Int(date_time.nanosecond().into()),
        "usec" | "tv_usec" => Value::Int(date_time.microsecond().into()),
        "yday" => Value::Int(date_time.ordinal().into()),
        "wday" => Value::Int(moment.weekday().into()),
        "zone" if moment.is_utc => Value::str("UTC"),
        "zone" => return Err(interpreter.unsupported_error("the name of a time zone")),
        "utc_offset" | "gmt_offset" | "gmtoff" => Value::Int(date_time.offset().whole_seconds().into()),
        "dst?" | "isdst" => Value::Bool(false),
        "+" | "-" => {
            let operand = interpreter.arg(args, 0)?;
            if let Some(other) = moment_of(&operand) {
                if name == "+" {
                    return interpreter.raise_type_error("time + time?");
                }
                return seconds(interpreter, moment.nanos() - other.nanos()).map(Some);
            }
            let nanos = nanos_of(&operand).map(|nanos| if name == "+" { nanos } else { -nanos });
            let Some(nanos) = nanos else {
                if matches!(operand, Value::Nil | Value::Str(_) | Value::Symbol(_) | Value::Bool(_)) {
                    let class = interpreter.class_of(&operand).label();
                    return interpreter
                        .raise_type_error(format!("can't convert {class} into an exact number"));
                }
                return Err(interpreter.unsupported_error(format!("Time#{name} with this value")));
            };
            match OffsetDateTime::from_unix_timestamp_nanos(moment.nanos() + nanos) {
                Ok(new) => create_time(
                    interpreter,
                    Moment { date_time: new.to_offset(date_time.offset()), ..moment },
                ),
                Err(_) => return Err(interpreter.unsupported_error("a time so far away")),
            }
        }
        "<" | "<=" | ">" | ">=" | "between?" | "clamp" => {
            return interpreter.call_comparable_method(&Value::Object(Rc::clone(object)), name, args);
        }
        "monday?" | "tuesday?" | "wednesday?" | "thursday?" | "friday?" | "saturday?" | "sunday?" => {
            Value::Bool(date_time.weekday().to_string().to_lowercase() == name.trim_end_matches('?'))
        }
        _ => return Ok(None),
    }))
}
