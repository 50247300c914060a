//! Replaces the parts of texts that differ from run to run.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"expires \d{4}-\d\d-\d\d", "expires <date>"),
        (r"\d+ h \d\d min|\d+ min \d\d s|\d+(\.\d)? s\b", "<duration>"),
        (r#""elapsed_ms":\d+"#, r#""elapsed_ms":"<ms>""#),
        (r"(127\.0\.0\.1|localhost|\[::1\]):\d+", "$1:<port>"),
        (r"monopile-[A-Za-z0-9]{6}\b", "monopile-<random>"),
        (r"\d{8}T\d{6}\.\d{3}Z-([a-z-]+)-\d+\.log", "<time>-$1-<pid>.log"),
        (r"\b[0-9a-f]{128}\b", "<sha512>"),
        (r"\b[0-9a-f]{64}\b", "<sha256>"),
        (r"\b[0-9a-f]{40}\b", "<sha1>"),
    ]
    .into_iter()
    .map(|(pattern, replacement)| (Regex::new(pattern).unwrap(), replacement))
    .collect()
});

pub(super) fn normalise(text: &str, root: &Path) -> String {
    let mut text = text.replace(root.to_str().unwrap(), "<world>").replace(super::MONOPILE, "<monopile>");
    for (pattern, replacement) in RULES.iter() {
        text = pattern.replace_all(&text, *replacement).into_owned();
    }
    text
}

#[test]
fn volatile_values_are_replaced() {
    let text = "2026-01-02T03:04:05Z done in 1.2 s: /tmp/mp-x/work/a.yml 127.0.0.1:4711 \
                01234567-89ab-cdef-0123-456789abcdef";
    assert_eq!(
        normalise(text, Path::new("/tmp/mp-x")),
        "<time> done in <duration>: <world>/work/a.yml 127.0.0.1:<port> <uuid>"
    );
}
