//! Checks of values before they are sent to Ironic, and masking of secrets in its answers.

use serde_json::{Map, Value};

use super::error::IronicError;

/// The text that Ironic shows in place of a password.
pub(super) const MASK: &str = "******";

/// Returns an error if `value`, found at `path` of the object, contains control characters or a mask.
///
/// Ironic copies properties of a target into a boot script, where a line break would start a new command. A
/// mask would replace the password that it stands for.
pub(super) fn check(value: &Value, path: &str) -> Result<(), IronicError> {
    let refuse =
        |problem| Err(IronicError::BadValue { subject: format!("`{}`", path.escape_debug()), problem });
    match value {
        Value::String(text) if text.chars().any(char::is_control) => {
            refuse("must not have control characters (line breaks, tabs, …)")
        }
        Value::String(text) if text == MASK => {
            refuse("must not be the mask that stands for a password or user name")
        }
        Value::Array(items) => items.iter().try_for_each(|item| check(item, path)),
        Value::Object(map) => map.iter().try_for_each(|(key, value)| {
            if key.chars().any(char::is_control) {
                return refuse("must not have a key with control characters");
            }
            check(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") })
        }),
        _ => Ok(()),
    }
}

/// Masks the secrets in `object`. A server can be configured to show them.
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

/// Masks the user names of logins among the properties of a volume target, which Ironic shows.
pub fn mask_usernames(target: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = target.get_mut("properties") else { return };
    let is_username = |key: &str| key.to_ascii_lowercase().contains("auth_username");
    for (_, value) in properties.iter_mut().filter(|(key, value)| is_username(key) && !value.is_null()) {
        *value = Value::String(MASK.to_owned());
    }
}

/// Returns true if a property with this name holds a secret.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key.contains("password") || key.contains("secret")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rejects_control_characters_and_masks_without_quoting_them() {
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
    fn secrets_are_masked_and_user_names_are_not() {
        let mut target = json!({"properties": {
            "auth_password": "hush", "discovery_auth_password": 7, "auth_username": "u", "Secret": "s",
        }});
        mask(target.as_object_mut().unwrap());
        let expected = json!({"properties": {
            "auth_password": MASK, "discovery_auth_password": MASK, "auth_username": "u", "Secret": MASK,
        }});
        assert_eq!(target, expected);
        mask_usernames(target.as_object_mut().unwrap());
        assert_eq!(target["properties"]["auth_username"], MASK);
        assert_eq!(target["properties"].as_object().unwrap().len(), 4);
    }
}
