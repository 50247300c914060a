//! Writes a conformance run as a JUnit file: a suite per group and a test case per check. Uses only the
//! elements that all CI systems support (`testsuites`, `testsuite`, `testcase` with `failure` or `skipped`).

use std::fmt::Write;
use std::time::Duration;

use super::report::{Check, Counts, Deviation, Report, Verdict};

/// Formats the report as XML.
pub fn junit(report: &Report) -> String {
    let mut groups: Vec<(&str, Vec<&Check>)> = Vec::new();
    for check in &report.checks {
        match groups.iter_mut().find(|(group, _)| *group == check.group) {
            Some((_, checks)) => checks.push(check),
            None => groups.push((&check.group, vec![check])),
        }
    }
    let total = report.checks.iter().map(|check| check.duration).sum();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a String cannot fail.
    let _ = writeln!(xml, "<testsuites name=\"cpi check\"{}>", count_attributes(report.counts, total));
    for (group, checks) in groups {
        let group_checks: Vec<Check> = checks.iter().map(|check| (*check).clone()).collect();
        let total = group_checks.iter().map(|check| check.duration).sum();
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{}\"{}>",
            escape_xml(group),
            count_attributes(Counts::of(&group_checks), total)
        );
        for check in checks {
            write_case(&mut xml, check);
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn count_attributes(counts: Counts, total: Duration) -> String {
    let Counts { pass, fail, skip } = counts;
    format!(
        " tests=\"{}\" failures=\"{fail}\" errors=\"0\" skipped=\"{skip}\" time=\"{:.3}\"",
        pass + fail + skip,
        total.as_secs_f64()
    )
}

fn write_case(xml: &mut String, check: &Check) {
    let _ = write!(
        xml,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
        escape_xml(&check.group),
        escape_xml(&check.name),
        check.duration.as_secs_f64()
    );
    let first_reason = escape_xml(check.reasons.first().map_or("", String::as_str));
    let mut details = check.reasons.clone();
    if let Some(call) = &check.last_call {
        details.extend(Some(format!("request {}", call.request_id)).filter(|_| !call.request_id.is_empty()));
        details.extend(call.log.iter().cloned());
    }
    let details = escape_xml(&details.join("\n"));
    let content = match check.verdict {
        Verdict::Fail => {
            let kind = check.deviation.map_or("", Deviation::name);
            format!("<failure type=\"{kind}\" message=\"{first_reason}\">{details}</failure>")
        }
        Verdict::Skip => format!("<skipped message=\"{first_reason}\"/>"),
        Verdict::Pass if details.is_empty() => String::new(),
        Verdict::Pass => format!("<system-out>{details}</system-out>"),
    };
    let _ = match content.is_empty() {
        true => writeln!(xml, "/>"),
        false => writeln!(xml, ">{content}</testcase>"),
    };
}

/// Escapes text for an element or an attribute. Characters that XML 1.0 forbids are replaced.
fn escape_xml(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            '\n' => xml.push_str("&#10;"),
            '\t' => xml.push_str("&#9;"),
            '\r' => xml.push_str("&#13;"),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => xml.push('\u{fffd}'),
            other => xml.push(other),
        }
    }
    xml
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::check::LastCall;

    #[test]
    fn output_of_a_cpi_is_escaped_as_valid_xml() {
        let check = |verdict, reason: &str| Check {
            group: "contract <v2> & \"more\"".to_owned(),
            name: "a\u{0}b\u{1b}[31m 'c'".to_owned(),
            verdict,
            deviation: (verdict == Verdict::Fail).then_some(Deviation::NotPromised),
            reasons: vec![reason.to_owned(), "]]> second\nline".to_owned()],
            last_call: (verdict == Verdict::Fail).then(|| LastCall {
                request_id: "r1".to_owned(),
                words: Vec::new(),
                log: vec!["<log>".to_owned()],
            }),
            duration: Duration::from_millis(1500),
        };
        let checks =
            vec![check(Verdict::Fail, "<b>\u{ffff}"), check(Verdict::Skip, "&"), check(Verdict::Pass, "é")];
        let report = Report {
            cpi: "x".to_owned(),
            info: None,
            counts: Counts::of(&checks),
            checks,
            timings: Vec::new(),
            deleted_count: 0,
            leftovers: Vec::new(),
            signal: None,
        };
        let xml = junit(&report);
        let document = roxmltree::Document::parse(&xml).unwrap();
        let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
        assert_eq!(suite.attribute("name"), Some("contract <v2> & \"more\""));
        assert_eq!((suite.attribute("tests"), suite.attribute("failures")), (Some("3"), Some("1")));
        let failure = document.descendants().find(|node| node.has_tag_name("failure")).unwrap();
        assert_eq!(failure.attribute("message"), Some("<b>\u{fffd}"));
        assert_eq!(failure.attribute("type"), Some("expected by some callers, not required by the contract"));
        assert!(failure.text().unwrap().ends_with("]]> second\nline\nrequest r1\n<log>"));
    }
}
