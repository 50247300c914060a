//! What must not be shown of variables' values.

use base::encoding::percent_decode;
use yaml::{Data, Node};

/// Every text and number below `values`, and the single lines of texts of several lines. Certificates and
/// public keys are public and stay out.
pub(crate) fn collect<'n>(values: impl Iterator<Item = &'n Node>) -> Vec<String> {
    let mut secrets = std::collections::BTreeSet::new();
    for value in values {
        walk(value, &mut secrets);
    }
    secrets.into_iter().collect()
}

/// Every text below a CPI's properties. Numbers are left out: they are ports and sizes, and hiding them would only
/// garble what is shown.
pub fn texts(properties: &serde_json::Map<String, serde_json::Value>) -> Vec<String> {
    let mut texts = Vec::new();
    let mut open: Vec<&serde_json::Value> = properties.values().collect();
    while let Some(value) = open.pop() {
        match value {
            serde_json::Value::String(text) if !is_public(text) => texts.push(text.clone()),
            serde_json::Value::Array(items) => open.extend(items),
            serde_json::Value::Object(map) => open.extend(map.values()),
            _ => {}
        }
    }
    texts
}

/// Everything that the properties of CPIs hold. A reference to a variable is no secret; its value is known as one.
pub(crate) fn of_cpis(config: &Node) -> Vec<String> {
    let properties = list(config, "cpis").iter().filter_map(|entry| entry.get("properties")?.as_map());
    // What a CPI takes it says itself, to everyone.
    let values =
        properties.flat_map(|map| map.iter()).filter(|(key, _)| key.as_str() != Some("stemcell_formats"));
    let mut found = collect(values.map(|(_, value)| value));
    found.retain(|text| !text.contains("(("));
    found
}

/// Names and types of CPIs and availability zones. Hiding them would garble what is shown, so that a value which is one
/// of them is none of the secrets, wherever it came from.
pub(crate) fn names<'n>(configs: impl Iterator<Item = &'n Node>) -> std::collections::BTreeSet<String> {
    let mut names = std::collections::BTreeSet::new();
    for config in configs {
        let entries = list(config, "cpis").iter().chain(list(config, "azs"));
        names.extend(
            entries.flat_map(|entry| ["name", "type"].map(|key| entry.get(key).and_then(Node::as_str))),
        );
        let groups = list(config, "instance_groups").iter();
        names.extend(groups.flat_map(|group| list(group, "azs")).map(Node::as_str));
    }
    names.into_iter().flatten().map(str::to_owned).collect()
}

fn list<'n>(config: &'n Node, key: &str) -> &'n [Node] {
    config.get(key).and_then(Node::as_seq).unwrap_or_default()
}

/// What keys say is secret of what nobody declared to be: texts below a `password`, a `private_key` and the like,
/// and the passwords of URLs. For what stands in a manifest as it is, and for the hints of disks.
pub fn named(node: &Node) -> Vec<String> {
    let mut secrets = std::collections::BTreeSet::new();
    walk_named(node, false, &mut secrets);
    secrets.into_iter().collect()
}

/// As [`named`], below a JSON value.
pub fn named_in(value: &serde_json::Value) -> Vec<String> {
    named(&Node::from_json(value))
}

/// The password in a URL, as it is written and as it is meant.
pub fn of_url(text: &str) -> Vec<String> {
    let url = text.contains("://").then(|| url::Url::parse(text).ok()).flatten();
    let password = url.as_ref().and_then(url::Url::password).filter(|password| !password.is_empty());
    // A reference to a variable is no password.
    let password = password.filter(|password| !password.starts_with("(("));
    password.map(|password| vec![password.to_owned(), percent_decode(password)]).unwrap_or_default()
}

const NAMES: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "private_key",
    "access_key",
    "api_key",
    "token",
    "credential",
];

fn walk_named(node: &Node, secret: bool, secrets: &mut std::collections::BTreeSet<String>) {
    match &node.data {
        Data::String(text) => {
            // The path of a key is no secret.
            if secret && !is_public(text) && !text.starts_with('/') && !text.starts_with("((") {
                secrets.insert(text.clone());
            }
            secrets.extend(of_url(text));
        }
        Data::Seq(items) => items.iter().for_each(|item| walk_named(item, secret, secrets)),
        Data::Map(map) => {
            for (key, value) in map.iter() {
                let name = key.as_str().unwrap_or_default().to_ascii_lowercase().replace('-', "_");
                let secret = secret || NAMES.iter().any(|known| name.contains(known));
                walk_named(value, secret, secrets);
            }
        }
        _ => {}
    }
}

fn walk(node: &Node, secrets: &mut std::collections::BTreeSet<String>) {
    match &node.data {
        Data::String(text) => {
            if is_public(text) {
                return;
            }
            secrets.insert(text.clone());
            let trimmed = text.trim();
            if trimmed.contains('\n') {
                // A log shows a key line by line. Its first and last line are the same in all keys.
                let lines = trimmed.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
                secrets.extend(lines.filter(|line| !line.is_empty()).map(str::to_owned));
            }
            if trimmed.len() != text.len() && !trimmed.is_empty() {
                secrets.insert(trimmed.to_owned());
            }
        }
        Data::Int(number) => number_text(&number.to_string(), secrets),
        Data::UInt(number) => number_text(&number.to_string(), secrets),
        Data::Float(number) => number_text(&number.to_string(), secrets),
        Data::Seq(items) => items.iter().for_each(|item| walk(item, secrets)),
        Data::Map(map) => map.iter().for_each(|(_, value)| walk(value, secrets)),
        Data::Null | Data::Bool(_) => {}
    }
}

fn number_text(text: &str, secrets: &mut std::collections::BTreeSet<String>) {
    if !is_place(text) {
        secrets.insert(text.to_owned());
    }
}

/// Addresses, ranges and ports say where, not what with: an error without them would say nothing. Longer
/// numbers may be PINs and stay out of sight.
fn is_place(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
        || text.parse::<ipnet::IpNet>().is_ok()
        || text.parse::<u16>().is_ok()
}

fn is_public(text: &str) -> bool {
    text.is_empty()
        || is_place(text)
        || text.starts_with("ssh-rsa ")
        || pem::parse_many(text).is_ok_and(|blocks| {
            !blocks.is_empty()
                && blocks.iter().all(|block| matches!(block.tag(), "CERTIFICATE" | "PUBLIC KEY"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_properties_of_cpis_hold_is_secret() {
        let node = Node::from_json(&serde_json::json!({"cpis": [
            {"name": "east", "type": "openstack", "properties": {
                "auth_url": "https://cloud", "project": "east", "deep": [{"key": "s3cret"}], "pin": 12_345_678,
                "port": 5000, "later": "((var))", "stemcell_formats": ["raw-format"],
            }},
            {"name": "west", "type": "openstack", "properties": 7},
        ]}));
        assert_eq!(of_cpis(&node), ["12345678", "east", "https://cloud", "s3cret"]);
        let zones = Node::from_json(&serde_json::json!({
            "azs": [{"name": "z1"}, 7], "cpis": 7, "instance_groups": [{"azs": ["z2"]}],
        }));
        let names: Vec<String> = names([&node, &zones].into_iter()).into_iter().collect();
        assert_eq!(names, ["east", "openstack", "west", "z1", "z2"]);
        assert!(of_cpis(&Node::from_json(&serde_json::json!({"name": "x"}))).is_empty());
    }

    #[test]
    fn keys_and_urls_tell_what_is_secret() {
        let value = serde_json::json!({
            "path": "/dev/sdb",
            "iscsi_settings": {"username": "u", "password": "chap-secret", "target": "iqn.2004-04.com:1"},
            "url": "https://user:p%40ss-word@host/x", "plain": "https://host/x",
            "Private-Key": "k-e-y", "private_key_path": "/home/me/key", "secret": ["one-of-two", "((var))"],
        });
        assert_eq!(named_in(&value), ["chap-secret", "k-e-y", "one-of-two", "p%40ss-word", "p@ss-word"]);
    }

    #[test]
    fn keys_are_secret_as_a_whole_and_line_by_line_and_certificates_and_places_are_not() {
        let node = Node::from_json(&serde_json::json!({
            "private_key": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabcd\n-----END RSA PRIVATE KEY-----\n",
            "certificate": "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----\n",
            "list": [{"port": 25555}, "hunter2", 71_234_567, null, true, "", "10.0.0.6", "10.0.0.0/24"],
        }));
        assert_eq!(
            collect([&node].into_iter()),
            [
                "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabcd\n-----END RSA PRIVATE KEY-----",
                "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabcd\n-----END RSA PRIVATE KEY-----\n",
                "71234567",
                "MIIE",
                "abcd",
                "hunter2",
            ]
        );
    }
}
