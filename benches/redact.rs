//! What redaction costs a run with many secrets: adding them, and looking at each line that is shown.
//!
//!     cargo bench --bench redact

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::hint::black_box;
use std::time::Instant;

use monopile::ui::Redactor;

const LINE: &str = "DEBUG request POST https://example.com/v1/instances {\"name\":\"vm-12345\",\"zone\":\"europe-1b\"} \
                    status=200 after 120 ms, 3 attempts";

/// Passwords of 20 characters; every tenth secret is a private key of 25 lines.
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

fn main() {
    for count in [20, 200, 2000] {
        let secrets: Vec<String> = (0..count).map(secret).collect();
        let begun = Instant::now();
        let redactor = Redactor::default();
        secrets.iter().for_each(|secret| redactor.add(secret));
        let added = begun.elapsed();
        let begun = Instant::now();
        black_box(redactor.apply(LINE));
        let first = begun.elapsed();
        let begun = Instant::now();
        for _ in 0..10_000 {
            black_box(redactor.apply(LINE));
        }
        let each = begun.elapsed() / 10_000;
        println!(
            "{count} secrets: added in {added:.1?}, first line {first:.1?}, each further line {each:.1?}"
        );
    }
}
