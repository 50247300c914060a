//! What may be written to Ironic, and what of that is shown again.

use serde_json::{Map, Value};

use super::error::IronicError;

/// What Ironic shows in place of a password.
pub(super) const MASK: &str = "******";

/// Refuses what must never be written: control characters, which would be commands of their own in the boot script
/// that Ironic makes of a target's properties, and masks, which would replace the password that they stand for.
/// `path` says where the value stands.
pub(super) fn check(value: &Value, path: &str) -> Result<(), IronicError> {
    let bad = |problem| Err(IronicError::BadValue { what: format!("`{}`", path.escape_debug()), problem });
    match value {
        Value::String(text) if text.chars().any(char::is_control) => {
            bad("must not have control characters (line breaks, tabs, …)")
        }
        Value::String(text) if text == MASK => bad("must not be the mask that stands for a password"),
        Value::Array(items) => items.iter().try_for_each(|item| check(item, path)),
        Value::Object(map) => map.iter().try_for_each(|(key, value)| {
            if key.chars().any(char::is_control) {
                return bad("must not have a key with control characters");
            }
            check(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") })
        }),
        _ => Ok(()),
    }
}

/// Masks passwords, where the server is configured to show them.
pub(super) fn mask(object: &mut Map<String, Value>) {
    for name in ["properties", "driver_info", "instance_info"] {
        let Some(Value::Object(fields)) = object.get_mut(name) else { continue };
        for (key, value) in fields {
            if is_secret(key) && !value.is_null() {
                *value = Value::String(MASK.to_owned());
            }
        }
    }
}

/// Whether a property by this name holds a secret.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key.contains("password") || key.contains("secret")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn control_characters_and_masks_are_refused_wherever_they_stand_and_not_quoted() {
        for (value, place) in [
            (json!({"properties": {"target_iqn": "iqn.x\nchain http://evil"}}), "`properties.target_iqn`"),
            (json!({"properties": {"portals": ["a", "b\u{7f}"]}}), "`properties.portals`"),
            (json!({"a\tb": 1}), "``"),
            (json!({"properties": {"auth_password": "******"}}), "`properties.auth_password`"),
            (json!({"x": "c1 \u{85}"}), "`x`"),
        ] {
            let error = check(&value, "").unwrap_err().to_string();
            assert!(error.starts_with(place) && !error.contains("evil"), "{error}");
        }
        check(&json!({"properties": {"auth_password": "*****", "n": 1, "u": "ünïcode 字"}}), "").unwrap();
    }

    #[test]
    fn only_passwords_are_masked() {
        let mut target = json!({"properties": {
            "auth_password": "hush", "discovery_auth_password": 7, "auth_username": "u", "Secret": "s",
        }});
        mask(target.as_object_mut().unwrap());
        let expected = json!({"properties": {
            "auth_password": MASK, "discovery_auth_password": MASK, "auth_username": "u", "Secret": MASK,
        }});
        assert_eq!(target, expected);
    }
}
