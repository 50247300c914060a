//! Parses `--property KEY=VALUE` and `--extra KEY=VALUE`.

use serde_json::Value;

/// Parses a key and its value. Like OpenStack's clients, reads the value as JSON if possible, and otherwise
/// as text. Values of logins are always text, because a password may consist of digits.
pub(super) fn parse(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, and the text has no '='")?;
    if key.is_empty() {
        return Err("expected KEY=VALUE, and the text has no key before the '='".to_owned());
    }
    let value = match key.contains("auth_") || ironic::is_secret(key) {
        true => Value::String(value.to_owned()),
        false => serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned())),
    };
    Ok((key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_json_if_possible_and_passwords_are_text() {
        let pair = |text: &str| parse(text).unwrap();
        assert_eq!(pair("target_lun=1"), ("target_lun".to_owned(), json!(1)));
        assert_eq!(pair("target_luns=[1, 2]"), ("target_luns".to_owned(), json!([1, 2])));
        assert_eq!(pair("target_iqn=iqn.x:a=b"), ("target_iqn".to_owned(), json!("iqn.x:a=b")));
        assert_eq!(pair("auth_password=0123"), ("auth_password".to_owned(), json!("0123")));
        assert_eq!(pair("auth_password=123"), ("auth_password".to_owned(), json!("123")));
        assert_eq!(pair("ipmi_password=1e3"), ("ipmi_password".to_owned(), json!("1e3")));
        assert_eq!(pair("auth_username="), ("auth_username".to_owned(), json!("")));
        assert!(parse("x").is_err() && parse("=x").is_err());
    }
}
