use base64::Engine;

use super::search::MIN_INSIDE_BYTES;
use super::spellings::MIN_REDACTED_CHARS;
use super::*;
use proptest::prelude::*;

fn redactor(secrets: &[&str]) -> Redactor {
    let redactor = Redactor::default();
    for secret in secrets {
        redactor.add(secret);
    }
    redactor
}

#[test]
fn text_without_secrets_is_not_copied() {
    assert!(matches!(Redactor::default().redact("hello"), Cow::Borrowed("hello")));
}

#[test]
fn replaces_a_value_anywhere_in_text() {
    let redactor = redactor(&["hunter2!"]);
    assert_eq!(redactor.redact("hunter2! x hunter2!hunter2!"), "<redacted> x <redacted>");
}

#[test]
fn longest_matching_secret_wins() {
    assert_eq!(redactor(&["pass", "password1"]).redact("a password1"), "a <redacted>");
}

#[test]
fn short_values_and_booleans_are_not_redacted() {
    assert_eq!(redactor(&["abc", "true", " ", "x"]).redact("abc true x"), "abc true x");
}

#[test]
fn short_words_are_redacted_only_as_whole_words() {
    let redactor = redactor(&["port"]);
    assert_eq!(redactor.redact("port is important: /port/"), "<redacted> is important: /<redacted>/");
    assert_eq!(redactor.redact("-v port_2=1 -v mbus_port=port"), "-v port_2=1 -v mbus_port=<redacted>");
}

#[test]
fn short_values_with_digits_are_redacted_inside_words() {
    assert_eq!(redactor(&["vm-1"]).redact("avm-12"), "a<redacted>2");
}

#[test]
fn overlapping_secrets_are_hidden_to_the_last_end() {
    assert_eq!(redactor(&["abcd12", "d12345"]).redact("xabcd12345x"), "x<redacted>x");
}

#[test]
fn finds_html_and_shell_escaped_secrets() {
    let redactor = redactor(&["it's <\"b\"> & c"]);
    for text in [
        "it&#39;s &lt;&quot;b&quot;&gt; &amp; c",
        "it&#39;s &lt;&#34;b&#34;&gt; &amp; c",
        "it's &lt;\"b\"&gt; &amp; c",
        "it&apos;s &lt;&quot;b&quot;&gt; &amp; c",
        r#"it'"'"'s <"b"> & c"#,
        r#"it\'s <"b"> & c"#,
        r#"it'\''s <"b"> & c"#,
        r#"it\'s\ \<\"b\"\>\ \&\ c"#,
        r#"it's <\"b\"> & c"#,
    ] {
        assert_eq!(redactor.redact(text), "<redacted>", "{text}");
    }
}

#[test]
fn finds_secrets_in_ascii_json_and_with_escaped_slashes() {
    let redactor = redactor(&["pässwörd/😀"]);
    assert_eq!(redactor.redact(r"<p\u00e4ssw\u00f6rd/\ud83d\ude00>"), "<<redacted>>");
    assert_eq!(redactor.redact(r"<pässwörd\/😀>"), "<<redacted>>");
}

#[test]
fn finds_secrets_inside_base64_documents() {
    let secret = "quo\"ted\\secret";
    let redactor = redactor(&[secret]);
    for key in ["", "x", "xy"] {
        let document = serde_json::json!({ (key): secret }).to_string();
        let encoded_document = base64::engine::general_purpose::URL_SAFE.encode(document);
        assert!(redactor.redact(&encoded_document).contains("<redacted>"), "{key}");
    }
}

#[test]
fn finds_wrapped_base64_whole_and_line_by_line() {
    let secret = "Xk29dm20sLq81nZx7cVb45Tg";
    let redactor = redactor(&[secret]);
    for length in 0..70 {
        let document =
            format!("{{\"{}\": \"{secret}\", \"more\": \"{}\"}}", "k".repeat(length), "v".repeat(60));
        let encoded_document = base64::engine::general_purpose::STANDARD.encode(document);
        let lines: Vec<&str> =
            encoded_document.as_bytes().chunks(60).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let redacted_lines: Vec<String> =
            lines.iter().map(|line| redactor.redact_line(line).into_owned()).collect();
        // At most seven of 32 characters may stay visible at a line break.
        let hidden_count: usize = lines
            .iter()
            .zip(&redacted_lines)
            .map(|(line, redacted_line)| line.len() - redacted_line.replace(REPLACEMENT, "").len())
            .sum();
        assert!(hidden_count >= 22, "{length}: {redacted_lines:?}");
        for text in [lines.join("\n"), lines.join("\r\n  "), lines.join("\\n"), lines.join("\\\\n")] {
            let redacted_text = redactor.redact(&text);
            let hidden_count = text.len() - redacted_text.replace(REPLACEMENT, "").len();
            assert!(hidden_count >= 30, "{length}: {redacted_text}");
        }
    }
}

#[test]
fn hides_fragments_of_truncated_secrets() {
    let redactor = redactor(&["Xk29dm20sLq81nZx7cVb45Tg"]);
    assert_eq!(redactor.redact("the answer was Xk29dm20sLq8…"), "the answer was <redacted>…");
    assert_eq!(redactor.redact_line("7cVb45Tg and so on"), "<redacted> and so on");
    assert_eq!(redactor.redact_line("see https://"), "see https://");
}

#[test]
fn finds_secrets_split_by_escape_sequences() {
    let redactor = redactor(&["hunter22", "Xk29dm20sLq81nZx7cVb45Tg"]);
    for text in ["hun\x1b[31mter22", "\x1b[1mh\x1b[0munter22", "hunter\x0822", "hunter2\x1b]0;title\x072"] {
        assert_eq!(redactor.clean_and_redact(&format!("it is {text}")), "it is <redacted>", "{text:?}");
    }
    assert_eq!(redactor.clean_and_redact_line("7c\x1b[0mVb45Tg and so on"), "<redacted> and so on");
    assert_eq!(redactor.clean_and_redact("plain\ttext\n"), "plain\ttext\n");
}

#[test]
fn secrets_added_later_apply_to_clones() {
    let redactor = redactor(&["first-secret"]);
    let clone = redactor.clone();
    assert_eq!(clone.redact("second-secret"), "second-secret");
    redactor.add("second-secret");
    assert_eq!(clone.redact("second-secret first-secret"), "<redacted> <redacted>");
}

#[test]
fn exempted_paths_are_not_redacted() {
    let redactor = Redactor::default();
    ["bosh", "local", "monopile", "hunter22", "state.json and more"]
        .iter()
        .for_each(|value| redactor.add_as_precaution(value));
    for path in ["/home/me/bosh/bosh-state.json", "bosh-state.json", "/home/me/.local/state/monopile", "bosh"]
    {
        redactor.exempt_from_precautions(path);
    }
    assert_eq!(
        redactor
            .redact("state /home/me/bosh/bosh-state.json.journal, log /home/me/.local/state/monopile/logs"),
        "state /home/me/bosh/bosh-state.json.journal, log /home/me/.local/state/monopile/logs"
    );
    assert_eq!(redactor.redact("bosh and bosh-state.json"), "<redacted> and bosh-state.json");
    // A value outside a whole exempted path is redacted, even next to one.
    assert_eq!(redactor.redact("bosh-state.json and more"), "bosh-<redacted>");
    assert_eq!(redactor.redact("/bosh-state.jsonhunter22"), "/bosh-state.json<redacted>");
    assert_eq!(redactor.redact("/home/me/bosh/x"), "/home/me/<redacted>/x");
}

#[test]
fn exempted_paths_do_not_reveal_secrets() {
    for secret_first in [true, false] {
        let redactor = Redactor::default();
        redactor.exempt_from_precautions("s3://bucket/hunter22-and-local.json");
        if secret_first {
            redactor.add("hunter22");
            redactor.add_as_precaution("hunter22");
        } else {
            redactor.add_as_precaution("hunter22");
            redactor.add("hunter22");
        }
        redactor.add_as_precaution("local");
        assert_eq!(
            redactor.redact("s3://bucket/hunter22-and-local.json"),
            "s3://bucket/<redacted>-and-local.json"
        );
    }
}

#[test]
fn names_added_by_the_operator_mark_secrets() {
    let redactor = Redactor::default();
    assert_eq!(redactor.name_class("region"), NameClass::Plain);
    redactor.add_name("Region");
    assert_eq!(redactor.name_class("region"), NameClass::Declared);
    assert_eq!(redactor.name_class("regions"), NameClass::Plain);
    assert_eq!(redactor.name_class("admin_password"), NameClass::Secret);
}

#[test]
fn finds_json_and_debug_escaped_secrets() {
    let secret = "a\"b\\c\td<é>&";
    let redactor = redactor(&[secret]);
    let json = serde_json::to_string(&serde_json::json!({ "k": secret })).unwrap();
    assert_eq!(redactor.redact(&json), r#"{"k":"<redacted>"}"#);
    let nested_json = serde_json::to_string(&json).unwrap();
    assert_eq!(redactor.redact(&nested_json), r#""{\"k\":\"<redacted>\"}""#);
    assert_eq!(redactor.redact(&format!("{secret:?}")), "\"<redacted>\"");
    let go = r#"a\"b\\c\td\u003cé\u003e\u0026"#;
    assert_eq!(redactor.redact(go), "<redacted>");
    let quote = |text: &str| serde_json::to_string(text).unwrap();
    assert_eq!(redactor.redact(&quote(go)), "\"<redacted>\"");
    let quoted_three_times = quote(&quote(&quote(secret)));
    assert_eq!(redactor.redact(&quoted_three_times), r#""\"\\\"<redacted>\\\"\"""#);
}

#[test]
fn ellipsis_hides_cut_secrets_but_not_words() {
    let redactor = redactor(&["correct horse battery staple", "kU8-unlike/any+other"]);
    redactor.add_as_precaution("https://cloud.example.com/with/a/path");
    for (text, expected) in [
        (r#"bad password "correct hor..." of admin"#, r#"bad password "<redacted>..." of admin"#),
        ("correct%20hors…", "<redacted>…"),
        (r"kU8-unlike\/an... (9 more)", "<redacted>... (9 more)"),
        ("it ends with …/any+other, they say", "it ends with …<redacted>, they say"),
        ("correct... and horse...", "correct... and horse..."),
        (
            "Connecting to https://... Waiting for the agent...",
            "Connecting to https://... Waiting for the agent...",
        ),
    ] {
        assert_eq!(redactor.redact(text), expected);
    }
    // Without an ellipsis a word is no secret.
    assert_eq!(redactor.redact_line("this is not the correct horse"), "this is not the correct horse");
}

#[test]
fn finds_url_encoded_secrets() {
    let redactor = redactor(&["p@ss/w rd+"]);
    for url in [
        "p%40ss%2Fw%20rd%2B",
        "p%40ss%2fw%20rd%2b",
        "p%40ss%2Fw+rd%2B",
        "p%40ss%2Fw%20rd+",
        "p%40ss/w%20rd%2B",
    ] {
        assert_eq!(redactor.redact(&format!("https://u:{url}@h/")), "https://u:<redacted>@h/", "{url}");
    }
}

#[test]
fn finds_base64_of_user_and_password() {
    let secret = "correct-horse-battery";
    let redactor = redactor(&[secret]);
    for user in ["", "u", "us", "mbus", "mbus-user"] {
        let header = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{secret}"));
        let redacted_header = redactor.redact(&header);
        assert!(redacted_header.contains("<redacted>"), "{redacted_header}");
        let visible_count: usize = redacted_header.replace("<redacted>", "").len();
        assert!(visible_count <= (user.len() + 1) * 4 / 3 + 4, "{redacted_header}");
    }
}

#[test]
fn redacts_each_line_of_a_key() {
    let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nabcdefghijklmnop\nxY==\n-----END KEY-----\n";
    let redactor = redactor(&[key]);
    assert_eq!(redactor.redact("  MIIEvQIBADANBgkqhkiG9w0BAQ"), "  <redacted>");
    assert_eq!(redactor.redact("-----BEGIN KEY-----"), "-----BEGIN KEY-----");
    assert_eq!(redactor.redact(&serde_json::to_string(key).unwrap()), "\"<redacted>\\n\"");
}

#[test]
fn finds_very_long_values() {
    let long: String = (0..20_000).map(|number| format!("{number:x}é")).collect();
    assert_eq!(redactor(&[&long]).redact(&format!("<{long}>")), "<<redacted>>");
}

proptest! {
    #[test]
    fn no_added_secret_is_shown(
        secret in "\\PC{4,40}",
        text_before in "\\PC{0,8}",
        text_after in "\\PC{0,8}",
    ) {
        let redactor = redactor(&[&secret]);
        let secret = secret.trim();
        let text = format!("{text_before}{secret}{text_after}");
        prop_assume!(secret.chars().count() >= MIN_REDACTED_CHARS);
        prop_assume!(!["true", "null", "false"].contains(&secret));
        prop_assume!(!REPLACEMENT.contains(secret));
        // A short word is redacted only as a whole word.
        let is_word = secret.bytes().all(|byte| byte.is_ascii_alphabetic());
        prop_assume!(secret.len() >= MIN_INSIDE_BYTES || !is_word);
        let redacted_text = redactor.redact(&text).into_owned();
        let visible_text = redacted_text.replace(REPLACEMENT, "\u{0}");
        prop_assert!(!visible_text.contains(secret));
        let json = serde_json::to_string(&text).unwrap();
        let json_secret = serde_json::to_string(secret).unwrap();
        let redacted_json = redactor.redact(&json).replace(REPLACEMENT, "\u{0}");
        prop_assert!(!redacted_json.contains(&json_secret[1..json_secret.len() - 1]));
    }
}
