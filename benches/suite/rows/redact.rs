//! Measures the cost of redaction per line.

use std::hint::black_box;
use std::time::Instant;

use base::redact::Redactor;

use super::Row;
use crate::Suite;
use crate::findings::{Figure, Findings, Sample, Unit};

pub(super) const ROW: Row =
    Row { name: "redact", work: "a line of 130 bytes with 125, 500, 2,000 secrets to hide", measure };

const LINE: &str = "DEBUG request POST https://example.com/v1/instances \
                    {\"name\":\"vm-12345\",\"zone\":\"europe-1b\"} \
                    status=200 after 120 ms, 3 attempts";
/// The number of lines in one run.
const LINES: u32 = 2_000;

/// Returns a password of 20 characters. Every tenth secret is a private key of 25 lines.
fn secret(number: u64) -> String {
    let mut random = number.wrapping_add(1);
    let mut word = |length: usize| -> String {
        let digit = |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from_digit(u32::try_from((random >> 40) % 36).unwrap_or(0), 36).unwrap_or('0')
        };
        (0..length).map(digit).collect()
    };
    if !number.is_multiple_of(10) {
        return word(20);
    }
    let lines: String = (0..25).map(|_| word(64) + "\n").collect();
    format!("-----BEGIN RSA PRIVATE KEY-----\n{lines}-----END RSA PRIVATE KEY-----\n")
}

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    for scale in [1, 4, 16] {
        let secrets: Vec<String> = (0..125 * u64::from(scale)).map(secret).collect();
        let size = format!("{} secrets", secrets.len());
        let (mut adding, mut hiding) = (Vec::new(), Vec::new());
        for _ in 0..suite.rounds(20) {
            let redactor = Redactor::default();
            let start = Instant::now();
            secrets.iter().for_each(|secret| redactor.add(secret));
            // The first text needs all forms of the secrets.
            black_box(redactor.redact(LINE));
            adding.push(milliseconds(start));
            let start = Instant::now();
            for _ in 0..LINES {
                black_box(redactor.redact(LINE));
            }
            hiding.push(Sample { value: milliseconds(start).value / f64::from(LINES), peak_kib: None });
        }
        findings.add_figure(Figure::new("a line", scale, &size, Unit::Milliseconds, &hiding));
        findings.add_figure(Figure::new("learning the secrets", scale, &size, Unit::Milliseconds, &adding));
    }
    findings
}

fn milliseconds(start: Instant) -> Sample {
    Sample { value: start.elapsed().as_secs_f64() * 1000.0, peak_kib: None }
}
