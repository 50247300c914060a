//! Cleans any text for a terminal: no control character and no bidirectional mark is left, in text and in
//! JSON.

#![no_main]

use base::text::{clean, clean_line, escape_json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let clean_text = clean(text);
    assert!(
        !clean_text.chars().any(|character| is_harmful(character) && !"\n\t".contains(character)),
        "{clean_text:?}"
    );
    assert_eq!(clean(&clean_text), clean_text);
    assert!(!clean_line(text).contains('\n'));
    let escaped_json = escape_json(&serde_json::to_string(text).unwrap()).into_owned();
    assert!(!escaped_json.chars().any(is_harmful), "{escaped_json:?}");
    assert_eq!(serde_json::from_str::<String>(&escaped_json).unwrap(), text);
});

fn is_harmful(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(one, '\u{2066}'..='\u{2069}')
}
