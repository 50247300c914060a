//! Classifies names of keys and variables by whether their values are secret.

/// The class of a name, which determines whether its value is secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Naming {
    /// The name does not suggest a secret.
    #[default]
    Plain,
    /// The name of a key, which is secret, or of the path of a key, which is not.
    Key,
    /// The name of a password, a token or the like.
    Secret,
    /// A name that the operator declared secret (`--redact`).
    Requested,
}

/// Parts of the names of secrets.
const SECRETS: [&str; 6] = ["password", "passwd", "passphrase", "secret", "token", "credential"];
/// Parts of the names of keys and of equally secret values.
const KEYS: [&str; 6] = ["private_key", "privatekey", "access_key", "accesskey", "api_key", "apikey"];
/// Parts of the names of public keys.
const PUBLIC: [&str; 5] = ["public", "pubkey", "authorized", "known", "host_key"];
/// Last words of names that describe a secret without containing it: `token_url`, `key_name`.
const ABOUT: &[&str] = &[
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
    "signature_algorithm",
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
pub(super) fn normal(name: &str) -> String {
    let mut normal = String::with_capacity(name.len() + 4);
    let mut small = false;
    for character in name.chars() {
        if small && character.is_uppercase() {
            normal.push('_');
        }
        small = character.is_lowercase();
        match character {
            '-' | '.' | ' ' => normal.push('_'),
            other => normal.extend(other.to_lowercase()),
        }
    }
    normal
}

/// Classifies a normalized name.
pub(super) fn classify(name: &str) -> Naming {
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let last = name.rsplit('_').next().unwrap_or(name);
    if ABOUT.contains(&last) {
        return Naming::Plain;
    }
    if has(&SECRETS) {
        return Naming::Secret;
    }
    let key = matches!(last, "key" | "keys") || has(&KEYS);
    if key && !has(&PUBLIC) { Naming::Key } else { Naming::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_secret_names_from_names_about_secrets() {
        let naming = |name: &str| classify(&normal(name));
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
            assert_eq!(naming(name), Naming::Secret, "{name}");
        }
        for name in
            ["key", "keys", "private_key", "apiKey", "APIKEY", "access_key_id", "tls.key", "Private-Key"]
        {
            assert_eq!(naming(name), Naming::Key, "{name}");
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
            assert_eq!(naming(name), Naming::Plain, "{name}");
        }
        assert!(
            Naming::Plain < Naming::Key && Naming::Key < Naming::Secret && Naming::Secret < Naming::Requested
        );
    }
}
