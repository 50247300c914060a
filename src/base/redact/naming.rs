//! Classifies names of keys and variables by whether their values are secret.

/// The class of a name, which determines whether its value is secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameClass {
    /// The name does not suggest a secret.
    #[default]
    Plain,
    /// The name of a key, which is secret, or of the path of a key, which is not.
    Key,
    /// The name of a password, a token or the like.
    Secret,
    /// Declared secret: by the operator (`--redact`), or because a program printed the value (`--vars-exec`).
    Declared,
}

impl NameClass {
    /// Returns the class of a name that is not declared secret.
    pub fn of(name: &str) -> Self {
        classify(&normalize(name))
    }
}

/// Parts of the names of secrets.
const SECRET_PARTS: [&str; 6] = ["password", "passwd", "passphrase", "secret", "token", "credential"];
/// Parts of the names of keys and of equally secret values.
const KEY_PARTS: [&str; 6] = ["private_key", "privatekey", "access_key", "accesskey", "api_key", "apikey"];
/// Parts of the names of public keys.
const PUBLIC_KEY_PARTS: [&str; 5] = ["public", "pubkey", "authorized", "known", "host_key"];
/// Last words of names that describe a secret without containing it: `token_url`, `key_name`.
const DESCRIPTIVE_LAST_WORDS: &[&str] = &[
    "algorithm",
    "bits",
    "count",
    "enabled",
    "endpoint",
    "expiration",
    "expiry",
    "file",
    "files",
    "fingerprint",
    "format",
    "header",
    "interval",
    "length",
    "lifetime",
    "mode",
    "name",
    "names",
    "path",
    "paths",
    "policy",
    "provider",
    "required",
    "size",
    "source",
    "timeout",
    "ttl",
    "type",
    "uri",
    "url",
    "usage",
    "validity",
];

/// Converts a name to lower case with words separated by `_`: `accessKey` and `Access-Key` become
/// `access_key`.
pub(super) fn normalize(name: &str) -> String {
    let mut output = String::with_capacity(name.len() + 4);
    let mut was_lowercase = false;
    for character in name.chars() {
        if was_lowercase && character.is_uppercase() {
            output.push('_');
        }
        was_lowercase = character.is_lowercase();
        match character {
            '-' | '.' | ' ' => output.push('_'),
            other => output.extend(other.to_lowercase()),
        }
    }
    output
}

/// Classifies a normalised name.
pub(super) fn classify(name: &str) -> NameClass {
    let contains_any = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let last_word = name.rsplit('_').next().unwrap_or(name);
    if DESCRIPTIVE_LAST_WORDS.contains(&last_word) {
        return NameClass::Plain;
    }
    if contains_any(&SECRET_PARTS) {
        return NameClass::Secret;
    }
    let is_key = matches!(last_word, "key" | "keys") || contains_any(&KEY_PARTS);
    if is_key && !contains_any(&PUBLIC_KEY_PARTS) { NameClass::Key } else { NameClass::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_secret_names_from_names_about_secrets() {
        for name in [
            "password",
            "admin_password",
            "dbPasswd",
            "ssh-passphrase",
            "client_secret",
            "tokens",
            "Credentials",
            "secret_access_key",
            "session_token",
        ] {
            assert_eq!(NameClass::of(name), NameClass::Secret, "{name}");
        }
        for name in
            ["key", "keys", "private_key", "apiKey", "APIKEY", "access_key_id", "tls.key", "Private-Key"]
        {
            assert_eq!(NameClass::of(name), NameClass::Key, "{name}");
        }
        for name in [
            "default_key_name",
            "private_key_path",
            "token_url",
            "credentials_source",
            "public_key",
            "monkey",
            "name",
            "authorized_keys",
            "key_size",
            "keypair",
            "provider",
            "password_file",
            "ssh_host_key",
            "",
        ] {
            assert_eq!(NameClass::of(name), NameClass::Plain, "{name}");
        }
        assert!(
            NameClass::Plain < NameClass::Key
                && NameClass::Key < NameClass::Secret
                && NameClass::Secret < NameClass::Declared
        );
    }
}
