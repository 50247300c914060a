//! Decides which values of a manifest are secret, and adds them to the redactor. Secrets from other sources,
//! such as environment variables, downloads and prompts, are added where they are read: by
//! [`Secret::new`](base::secret::Secret::new) or [`Redactor::add`].
//!
//! These values are always secret:
//! - values under keys and of variables that are named like secrets ([`NameClass`]), except paths of keys,
//!   public keys and certificates;
//! - private keys, and values of variables of the type `password`;
//! - the password of URLs, alone and with the user, those of the mbus included; and a user without password;
//! - values that the operator declares secret (`--redact`), and all that programs print (`--vars-exec`).
//!
//! A public text is never secret, unless the operator declares it secret: the name of the environment, or of
//! a CPI, release, stemcell, job, network, availability zone, or of a type or extension of VMs or disks, or a
//! key of the manifest that is a word. Messages contain these texts: redacting them would make messages
//! unreadable, and the places that were redacted would give the text away. If a value that should always be
//! secret is public, a warning says so.
//!
//! Every other text of a variable, a vars store or a CPI's properties is secret, unless it
//! - has fewer than [`MIN_SECRET_CHARS`] characters, and stands in the manifest under a key that is not
//!   named like a secret;
//! - is the path of a key.
//!
//! A number or a version is secret only if it is named like a secret or declared secret; a boolean
//! never is. Addresses, ranges and ports are secret only if the operator declares them secret, because errors
//! would be useless without them.

use std::collections::{BTreeSet, HashMap, HashSet};

use base::encoding::percent_decode;
use base::redact::{MIN_REDACTED_CHARS, NameClass, Redactor};
use foldhash::fast::RandomState;
use serde_json::{Map, Value};
use yaml::{Data, Mapping, Node, Position};

/// The minimum length of a text that is secret wherever it occurs.
const MIN_SECRET_CHARS: usize = 8;
/// The end of the first line of a private key in PEM.
const PRIVATE_KEY_LINE_END: &str = "PRIVATE KEY-----";

/// The manifest and its inputs, as far as they have been read.
#[derive(Default)]
pub(crate) struct KnownInputs<'d> {
    /// The manifest, the CPI config and the cloud config.
    pub(crate) documents: Vec<&'d Node>,
    /// Variables that are given or in the vars store.
    pub(crate) variables: Vec<(&'d str, &'d Node)>,
    /// The values that programs printed.
    pub(crate) outputs: &'d [Node],
    /// Variables declared as passwords.
    pub(crate) password_variables: HashSet<&'d str>,
    /// URLs in the manifest that contain no variable.
    pub(crate) urls: &'d [String],
}

/// Registers all secrets with the redactor by the rules of the module. Returns a warning if a value that
/// should always be secret is public.
pub(crate) fn register_secrets(inputs: &KnownInputs<'_>, redactor: &Redactor) -> Option<String> {
    let mut classified_texts = ClassifiedTexts::new(redactor);
    for document in &inputs.documents {
        collect_public_names(document, &mut classified_texts.public_texts);
        classified_texts.classify(document, "", NameClass::Plain, true);
    }
    for (name, value) in &inputs.variables {
        let least_class =
            if inputs.password_variables.contains(name) { NameClass::Secret } else { NameClass::Plain };
        let name_class = least_class.max(classified_texts.name_classes.name_class(name));
        classified_texts.classify(value, name, name_class, false);
    }
    inputs.outputs.iter().for_each(|value| classified_texts.classify(value, "", NameClass::Declared, false));
    classified_texts.add_to_redactor(redactor);
    inputs.urls.iter().for_each(|url| redactor.exempt_from_precautions(url));
    let mut texts = BTreeSet::new();
    inputs.variables.iter().for_each(|(_, value)| collect_texts(value, &mut texts));
    for (key, value) in inputs.documents.iter().flat_map(|document| properties(document)) {
        let mut property_texts = BTreeSet::new();
        match value.as_map().filter(|_| key == "registry") {
            // The user name is usually "registry", which must stay visible.
            Some(registry) => entries(registry)
                .filter(|(key, _)| !matches!(*key, "host" | "port" | "username"))
                .for_each(|(_, value)| collect_texts(value, &mut property_texts)),
            None => collect_texts(value, &mut property_texts),
        }
        // A text with a reference is skipped: the variable's value is handled by itself.
        texts.extend(property_texts.into_iter().filter(|text| !text.contains("((")));
    }
    texts
        .iter()
        .filter(|text| {
            !classified_texts.visible_texts.contains(text.trim())
                && !classified_texts.is_public_text(text.trim())
        })
        .for_each(|text| redactor.add_as_precaution(text));
    classified_texts.warning()
}

/// Registers the secrets in a CPI's properties with the redactor.
pub fn register_property_secrets(properties: &Map<String, Value>, redactor: &Redactor) {
    let entry = Map::from_iter([("properties".to_owned(), Value::Object(properties.clone()))]);
    let config = Node::from_json(&serde_json::json!({ "cpis": [entry] }));
    register_secrets(&KnownInputs { documents: vec![&config], ..KnownInputs::default() }, redactor);
}

/// Registers the values that are always secret in a document that a program wrote, such as a disk hint, with
/// the redactor.
pub fn register_named_secrets(value: &Value, redactor: &Redactor) {
    let node = Node::from_json(value);
    let mut classified_texts = ClassifiedTexts::new(redactor);
    classified_texts.classify(&node, "", NameClass::Plain, false);
    classified_texts.add_to_redactor(redactor);
}

/// Registers the credentials in a URL with the redactor.
pub fn register_url_secrets(url: &str, redactor: &Redactor) {
    credentials(url).iter().for_each(|secret| redactor.add(secret));
}

/// A cache of the classes of key names, because the same few keys repeat throughout a manifest.
struct NameClassCache<'n> {
    redactor: Redactor,
    classes: HashMap<&'n str, NameClass, RandomState>,
}

impl<'n> NameClassCache<'n> {
    fn new(redactor: &Redactor) -> Self {
        NameClassCache { redactor: redactor.clone(), classes: HashMap::default() }
    }

    fn name_class(&mut self, name: &'n str) -> NameClass {
        *self.classes.entry(name).or_insert_with(|| self.redactor.name_class(name))
    }

    /// Returns the stronger of the class of a key and that of the keys above it.
    fn stronger_class(&mut self, parent_class: NameClass, key: &'n Node) -> NameClass {
        key.as_str().map(|key| self.name_class(key)).unwrap_or_default().max(parent_class)
    }
}

/// The texts of the manifest and its variables, classified as secret, visible or public. Texts that are
/// secret only as a precaution are not among them.
struct ClassifiedTexts<'n> {
    name_classes: NameClassCache<'n>,
    /// Values that are always secret.
    secret_texts: BTreeSet<String>,
    /// Texts that the operator or a program declared secret.
    declared_secrets: HashSet<&'n str, RandomState>,
    /// Texts that stay visible: short texts under plainly named keys, paths of key files.
    visible_texts: HashSet<&'n str, RandomState>,
    /// Names in the documents and keys of the documents, with their descriptions.
    public_texts: PublicTexts<'n>,
    /// The values that are always secret, in their order, for the warning about those that are also public.
    always_secret_values: Vec<AlwaysSecretValue<'n>>,
}

/// Public texts, with descriptions such as `the name of a release`.
type PublicTexts<'n> = HashMap<&'n str, &'static str, RandomState>;

/// A value that is secret wherever it occurs: one that is named like a secret or declared secret, a private
/// key, or the password of a URL.
struct AlwaysSecretValue<'n> {
    /// The key of the value or of its URL, or the name of the variable.
    key: &'n str,
    text: String,
    position: &'n Position,
}

impl<'n> ClassifiedTexts<'n> {
    fn new(redactor: &Redactor) -> Self {
        ClassifiedTexts {
            name_classes: NameClassCache::new(redactor),
            secret_texts: BTreeSet::new(),
            declared_secrets: HashSet::default(),
            visible_texts: HashSet::default(),
            public_texts: HashMap::default(),
            always_secret_values: Vec::new(),
        }
    }

    /// Returns true if a text is public, and was not declared secret.
    fn is_public_text(&self, text: &str) -> bool {
        self.public_texts.contains_key(text) && !self.declared_secrets.contains(text)
    }

    /// Returns the warning about the first value that should always be secret, and is public.
    fn warning(&self) -> Option<String> {
        // Shorter values are never redacted.
        let is_redacted = |text: &str| text.chars().nth(MIN_REDACTED_CHARS - 1).is_some();
        let mut public_values = self
            .always_secret_values
            .iter()
            .filter(|value| is_redacted(&value.text) && self.is_public_text(&value.text));
        let AlwaysSecretValue { key, text, position } = public_values.next()?;
        let place = if position.line == 0 { String::new() } else { format!("{}: ", position.describe()) };
        Some(format!(
            "{place}the value of `{key}` is also {}, so it is not redacted: choose another value",
            self.public_texts.get(text.as_str()).copied().unwrap_or_default()
        ))
    }

    /// Classifies the texts of a node, which has this key or is the value of this variable. Only the texts of
    /// a document can stay visible, not those of a variable.
    fn classify(&mut self, node: &'n Node, key: &'n str, name_class: NameClass, is_document: bool) {
        let secret_number =
            |number: &dyn ToString| Some(number.to_string()).filter(|_| name_class > NameClass::Plain);
        match &node.data {
            Data::String(text) => {
                let text: &'n str = text;
                let credentials = credentials(text);
                if let [password, _, _, _] = credentials.as_slice() {
                    self.always_secret_values.push(AlwaysSecretValue {
                        key,
                        text: password.clone(),
                        position: &node.position,
                    });
                }
                self.secret_texts.extend(credentials);
                let is_secret = match name_class {
                    NameClass::Plain => {
                        text.len() > PRIVATE_KEY_LINE_END.len() && text.contains(PRIVATE_KEY_LINE_END)
                    }
                    NameClass::Key => !has_public_form(text) && !is_path(text),
                    NameClass::Secret => !has_public_form(text),
                    NameClass::Declared => true,
                };
                // A reference to a variable is not secret itself; the variable's value is.
                if is_secret && !text.starts_with("((") {
                    self.add(text);
                    self.always_secret_values.push(AlwaysSecretValue {
                        key,
                        text: text.to_owned(),
                        position: &node.position,
                    });
                    if name_class == NameClass::Declared {
                        self.declared_secrets.insert(text);
                    }
                }
                let text = text.trim();
                let is_visible = match name_class {
                    NameClass::Plain => text.chars().nth(MIN_SECRET_CHARS - 1).is_none(),
                    NameClass::Key => is_path(text),
                    NameClass::Secret | NameClass::Declared => false,
                };
                if is_document && is_visible {
                    self.visible_texts.insert(text);
                }
            }
            Data::Int(int) => self.add_number(secret_number(int), name_class),
            Data::UInt(int) => self.add_number(secret_number(int), name_class),
            Data::Float(float) => self.add_number(secret_number(float), name_class),
            Data::Seq(items) => {
                items.iter().for_each(|item| self.classify(item, key, name_class, is_document));
            }
            Data::Map(map) => {
                for (child_key, value) in map.iter() {
                    let word = child_key.as_str().filter(|word| is_document && is_word(word));
                    if let Some(word) = word.filter(|_| name_class == NameClass::Plain) {
                        self.public_texts.entry(word).or_insert("a key of the manifest");
                    }
                    let name_class = self.name_classes.stronger_class(name_class, child_key);
                    self.classify(value, child_key.as_str().unwrap_or(key), name_class, is_document);
                }
            }
            Data::Null | Data::Bool(_) => {}
        }
    }

    fn add_number(&mut self, number: Option<String>, name_class: NameClass) {
        self.secret_texts
            .extend(number.filter(|number| name_class == NameClass::Declared || !is_address_or_port(number)));
    }

    fn add(&mut self, text: &str) {
        self.secret_texts.insert(text.to_owned());
        let text = text.trim();
        if text.contains('\n') {
            // Logs show keys line by line. The first and last line are the same in all keys, so they are not
            // secret.
            let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
            self.secret_texts.extend(lines.map(str::to_owned));
        }
    }

    fn add_to_redactor(&self, redactor: &Redactor) {
        self.secret_texts
            .iter()
            .filter(|secret| !self.is_public_text(secret))
            .for_each(|secret| redactor.add(secret));
        self.public_texts
            .keys()
            .filter(|text| self.is_public_text(text))
            .for_each(|text| redactor.exempt(text));
    }
}

/// Collects the texts of a value and of everything below it, except those that are public by their form and
/// versions.
fn collect_texts<'n>(node: &'n Node, texts: &mut BTreeSet<&'n str>) {
    match &node.data {
        Data::String(text) if !has_public_form(text) && !is_version(text) => {
            texts.insert(text);
        }
        Data::Seq(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Data::Map(map) => map.iter().for_each(|(_, value)| collect_texts(value, texts)),
        _ => {}
    }
}

/// Returns the properties of all CPIs. Those of a built-in CPI in the manifest are left out: their meaning is
/// known, and only values that are always secret are secret there.
fn properties(document: &Node) -> Vec<(&str, &Node)> {
    let config_properties =
        list(document, "cpis").iter().filter_map(|entry| entry.get("properties")?.as_map());
    let provider = document.get("cloud_provider");
    let provider =
        provider.filter(|provider| provider.get("cpi").and_then(|cpi| cpi.get("builtin")).is_none());
    let parents = [provider, provider.and_then(|provider| provider.get("cpi"))];
    let provider_properties =
        parents.into_iter().flatten().filter_map(|parent| parent.get("properties")?.as_map());
    // A CPI reports its stemcell formats openly.
    config_properties
        .chain(provider_properties)
        .flat_map(entries)
        .filter(|(key, _)| *key != "stemcell_formats")
        .collect()
}

fn entries(map: &Mapping) -> impl Iterator<Item = (&str, &Node)> {
    map.iter().filter_map(|(key, value)| Some((key.as_str()?, value)))
}

/// Collects the names that a document gives to the environment, releases, networks and other things. They are
/// public, because most output contains them.
fn collect_public_names<'n>(document: &'n Node, names: &mut PublicTexts<'n>) {
    let text = |node: &'n Node, key: &str| node.get(key).and_then(Node::as_str);
    let mut add = |description: &'static str, name: Option<&'n str>| {
        if let Some(name) = name {
            names.entry(name).or_insert(description);
        }
    };
    add("the name of the environment", text(document, "name"));
    let named_sections = [
        ("releases", "the name of a release"),
        ("networks", "the name of a network"),
        ("azs", "the name of an availability zone"),
        ("cpis", "the name of a CPI"),
        ("stemcells", "the name of a stemcell"),
        ("vm_types", "the name of a VM type"),
        ("vm_extensions", "the name of a VM extension"),
        ("disk_types", "the name of a disk type"),
    ];
    for (key, description) in named_sections {
        list(document, key).iter().for_each(|item| add(description, text(item, "name")));
    }
    for stemcell in list(document, "stemcells") {
        ["alias", "os"].into_iter().for_each(|key| add("the name of a stemcell", text(stemcell, key)));
    }
    list(document, "cpis").iter().for_each(|cpi| add("the type of a CPI", text(cpi, "type")));
    for stemcell in list(document, "resource_pools").iter().filter_map(|pool| pool.get("stemcell")) {
        add("the name of a stemcell", text(stemcell, "name"));
    }
    for group in list(document, "instance_groups").iter().chain(list(document, "jobs")) {
        add("the name of an instance group", text(group, "name"));
        let jobs = list(group, "jobs").iter().chain(list(group, "templates"));
        jobs.for_each(|job| add("the name of a job", text(job, "name")));
        let azs = list(group, "azs").iter();
        azs.for_each(|az| add("the name of an availability zone", az.as_str()));
    }
    if let Some(provider) = document.get("cloud_provider") {
        let jobs = provider.get("template").into_iter().chain(list(provider, "templates"));
        jobs.for_each(|job| add("the name of a job", text(job, "name")));
        add("the name of a CPI", provider.get("cpi").and_then(|cpi| text(cpi, "builtin")));
    }
}

/// Returns true for a key that is a word, such as `admin_password`. A key with digits may be data.
fn is_word(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-'))
}

/// Returns the artifact URLs without variables in a manifest before interpolation. Queries and fragments are
/// removed, and URLs with credentials are left out.
pub(crate) fn literal_urls(manifest: &Node) -> Vec<String> {
    let releases = list(manifest, "releases").iter();
    let pools = list(manifest, "resource_pools").iter().filter_map(|pool| pool.get("stemcell"));
    let artifacts = releases.chain(pools).chain(list(manifest, "stemcells"));
    let urls = artifacts.filter_map(|artifact| artifact.get("url")?.as_str());
    urls.filter(|url| url.contains("://") && !url.contains("((") && !url.contains('@'))
        .map(|url| url.split(['?', '#']).next().unwrap_or(url).to_owned())
        .collect()
}

fn list<'n>(node: &'n Node, key: &str) -> &'n [Node] {
    node.get(key).and_then(Node::as_seq).unwrap_or_default()
}

/// Returns the credentials in a URL, both as written and decoded. A user is a credential together with the
/// password. Without a password the user may be a token, except in SSH URLs, where it is the name of an
/// account.
fn credentials(text: &str) -> Vec<String> {
    // Most URLs have no user, and parsing all of them would take a tenth of the time of loading.
    let has_user = text.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    let url = has_user.then(|| url::Url::parse(text).ok()).flatten();
    // A reference to a variable is not a password.
    let Some(url) = url.filter(|_| !text.contains("://((")) else { return Vec::new() };
    let user = url.username();
    match url.password().filter(|password| !password.is_empty()) {
        // The variable's value is the secret, and the user before it is a plain name.
        Some(reference) if reference.starts_with("((") => Vec::new(),
        Some(password) => {
            let decoded_password = percent_decode(password);
            let pair = format!("{user}:{password}");
            let decoded_pair = format!("{}:{decoded_password}", percent_decode(user));
            vec![password.to_owned(), decoded_password, pair, decoded_pair]
        }
        None if !url.scheme().contains("ssh") && url.scheme() != "sftp" && !user.is_empty() => {
            vec![user.to_owned(), percent_decode(user)]
        }
        None => Vec::new(),
    }
}

/// Returns true for addresses, ranges and ports. Errors would be useless without them.
fn is_address_or_port(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
        || text.parse::<ipnet::IpNet>().is_ok()
        || text.parse::<u16>().is_ok()
}

/// Returns true for versions such as `1.555` or `280.1.11`, which URLs of artifacts contain.
fn is_version(text: &str) -> bool {
    const MAX_DIGITS: usize = 4;
    let is_number =
        |part: &str| (1..=MAX_DIGITS).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    (2..=4).contains(&text.split('.').count()) && text.split('.').all(is_number)
}

/// Returns true for texts that are public by their form: addresses, ports, certificates and public keys. An
/// empty text is public, too.
fn has_public_form(text: &str) -> bool {
    const PUBLIC_KEY_PREFIXES: [&str; 5] =
        ["ssh-rsa ", "ssh-ed25519 ", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"];
    text.is_empty()
        || is_address_or_port(text)
        || PUBLIC_KEY_PREFIXES.iter().any(|kind| text.starts_with(kind))
        || pem::parse_many(text).is_ok_and(|blocks| {
            !blocks.is_empty()
                && blocks.iter().all(|block| matches!(block.tag(), "CERTIFICATE" | "PUBLIC KEY"))
        })
}

/// Returns true if a text is a file path. A key in base64 may also begin with a slash.
fn is_path(text: &str) -> bool {
    ["/", "~/", "./", "../"].iter().any(|start| text.starts_with(start))
        && !text.contains(['\n', '=', '+'])
        && (!text.starts_with('/') || text.len() < 32 || text.contains(['.', '-', '_']))
}

#[cfg(test)]
mod corpus_tests;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Redacts `text` with the secrets of a manifest and these variables.
    fn redact(manifest: Value, variables: Value, text: &str) -> String {
        register(&Redactor::default(), manifest, variables).redact(text).into_owned()
    }

    fn register(redactor: &Redactor, manifest: Value, variables: Value) -> Redactor {
        let (manifest, variables) = (Node::from_json(&manifest), Node::from_json(&variables));
        let urls = literal_urls(&manifest);
        let known_inputs = KnownInputs {
            documents: vec![&manifest],
            variables: variables.as_map().map(|map| entries(map).collect()).unwrap_or_default(),
            password_variables: HashSet::from(["pin"]),
            urls: &urls,
            ..KnownInputs::default()
        };
        register_secrets(&known_inputs, redactor);
        redactor.clone()
    }

    #[test]
    fn recorded_names_are_not_secret() {
        let manifest = json!({
            "name": "production", "releases": [{"name": "openstack-cpi", "url": "file:///x"}],
            "networks": [{"name": "privately"}], "azs": [{"name": "zone-east"}],
            "cpis": [{"name": "east-cloud", "type": "openstack"}],
            "resource_pools": [{"stemcell": {"name": "jammy-stemcell"}}],
            "stemcells": [{"alias": "the-default", "os": "ubuntu-noble"}],
            "vm_types": [{"name": "very-small"}],
            "instance_groups": [{"name": "directors", "azs": ["zone-west"], "jobs": [{"name": "blackbox"}]}],
            "cloud_provider": {"template": {"name": "the-cpi-job"}},
        });
        let names = "production openstack-cpi privately zone-east east-cloud openstack jammy-stemcell \
                     the-default ubuntu-noble very-small directors zone-west blackbox the-cpi-job";
        let variables: Map<String, Value> =
            names.split(' ').enumerate().map(|(index, name)| (format!("v{index}"), json!(name))).collect();
        let variables = Value::Object(variables);
        assert_eq!(redact(manifest.clone(), variables, names), names);
        // A name stays visible even if a password has the same text. A longer text is another one.
        let password = json!({"admin_password": "production", "other": "production-2"});
        assert_eq!(redact(manifest, password, "production production-2"), "production <redacted>");
    }

    #[test]
    fn public_secrets_are_shown_with_a_warning() {
        let yaml = "name: hello\nport_range: wide\nadmin_password: hello\nmbus: 'htps://mbus@10.0.0.6'\n\
                    token: port_range\nsecrets: {innermost: x}\ncode: innermost\nx_password: innermost\n";
        let manifest = yaml::load(yaml, std::path::Path::new("r.yml")).unwrap();
        let inputs = KnownInputs { documents: vec![&manifest], ..KnownInputs::default() };
        let redactor = Redactor::default();
        let warning = register_secrets(&inputs, &redactor).unwrap();
        assert_eq!(
            warning,
            "r.yml:3:17: the value of `admin_password` is also the name of the environment, so it is not \
             redacted: choose another value"
        );
        let text = "environment 'hello', `cloud_provider.mbus`, admin_password, port_range";
        assert_eq!(redactor.redact(text), text);
        // A key below a secret may be one.
        assert_eq!(redactor.redact("innermost"), "<redacted>");
        // The operator may declare a public text secret.
        let redactor = Redactor::default();
        redactor.add_name("admin-password");
        let warning = register_secrets(&inputs, &redactor).unwrap();
        assert!(warning.contains("the value of `token` is also a key of the manifest"), "{warning}");
        assert_eq!(redactor.redact("environment 'hello'"), "environment '<redacted>'");
    }

    #[test]
    fn short_values_are_secret_depending_on_their_key() {
        let manifest = json!({
            "name": "env", "instance_groups": [{"name": "bosh", "properties": {
                "default_key_name": "bosh", "mode": "quick", "listed": ["fifty"], "secret": "hush1",
                "text": "x-embed-x", "both": "twice", "password": "twice",
            }}],
            "cloud_provider": {"cpi": {"path": "x", "properties": {
                "provider": "local", "region": "eu-central-1",
            }}},
        });
        let variables = json!({
            "default_key_name": "bosh", "mode": "quick", "item": "fifty", "v": "hush1", "part": "embed",
            "again": "twice", "unused": "nosee", "flag": true, "number": 71_234_567, "long": "quite long",
        });
        assert_eq!(
            redact(
                manifest,
                variables,
                "bosh/0 bosh-state.json quick fifty hush1 embed twice nosee true 71234567 quite long local \
                 eu-central-1"
            ),
            "bosh/0 bosh-state.json quick fifty <redacted> <redacted> <redacted> <redacted> true 71234567 \
             <redacted> local <redacted>"
        );
    }

    #[test]
    fn versions_are_not_secret_unless_their_name_says_so() {
        let manifest =
            json!({"name": "env", "releases": [{"name": "r", "url": "https://h/r?v=((r.version))"}]});
        let variables = json!({"r": {"version": "280.1.11"}, "other": "12345.67", "password": "4711.0815"});
        assert_eq!(
            redact(manifest, variables, "https://h/r?v=280.1.11 12345.67 4711.0815"),
            "https://h/r?v=280.1.11 <redacted> <redacted>"
        );
    }

    #[test]
    fn secret_key_and_variable_names_mark_their_values() {
        let manifest = json!({
            "cloud_provider": {
                "cpi": {"builtin": "local", "properties": {"root": "/var/lib/cloud", "api_key": "k-e-y"}},
                "mbus": "https://mbus:p%40ss-w@10.0.0.6:6868",
                "ssh_tunnel": {"private_key": "~/keys/bosh.pem", "password": "t-p-w"},
            },
            "token": "((reference))", "url": "https://t0ken@git.example/x",
            "git": "git://t0ken2@git.example/x", "ssh": "ssh://jumpbox@h",
            "before_interpolation": "https://nats:((nats_password))@10.0.0.7:4222",
            "plain": "literal",
        });
        let variables = json!({
            "pin": "4711x", "uaa_secret": ["one-of", "two-of"],
            "ports": {"password": 25555, "token": 12_345_678},
            "key_file": "~/keys/bosh.pem", "ssh_key": "/base64/that/begins/with/a/slash/aaaaaaaaaaaa",
        });
        for secret in [
            "k-e-y",
            "p%40ss-w",
            "p@ss-w",
            "mbus:p@ss-w",
            "t-p-w",
            "t0ken",
            "t0ken2",
            "4711x",
            "one-of",
            "two-of",
        ] {
            assert_eq!(redact(manifest.clone(), variables.clone(), secret), "<redacted>", "{secret}");
        }
        for secret in ["12345678", "/base64/that/begins/with/a/slash/aaaaaaaaaaaa"] {
            assert_eq!(redact(manifest.clone(), variables.clone(), secret), "<redacted>", "{secret}");
        }
        for open in [
            "nats:4222",
            "10.0.0.6:6868",
            "25555",
            "~/keys/bosh.pem",
            "jumpbox",
            "literal",
            "/var/lib/cloud",
            "mbus",
            "reference",
        ] {
            assert_eq!(redact(manifest.clone(), variables.clone(), open), open);
        }
    }

    #[test]
    fn url_user_stays_visible_if_its_password_is_a_variable() {
        // Secrets are also learned before interpolation, when the password is still a reference.
        let manifest = json!({"cloud_provider": {"mbus": "https://mbus:((password))@10.0.0.6:6868"}});
        let text = "state import bosh.yml -v mbus_port=6868 -v password=<redacted>";
        assert_eq!(
            redact(manifest, json!({"password": "p-w-1"}), &text.replace("<redacted>", "p-w-1")),
            text
        );
    }

    #[test]
    fn names_given_with_redact_mark_secrets() {
        let manifest =
            json!({"name": "prod", "properties": {"zone_code": 4711, "colour": "blue", "list": ["x-ray"]}});
        let redactor = Redactor::default();
        for name in ["zone-code", "colour", "short", "list"] {
            redactor.add_name(name);
        }
        let redactor = register(&redactor, manifest, json!({"short": "prod", "other": "blue"}));
        assert_eq!(redactor.redact("prod 4711 blue x-ray"), "<redacted> <redacted> <redacted> <redacted>");
    }

    #[test]
    fn all_cpi_properties_are_secret() {
        let manifest = json!({
            "cpis": [
                {"name": "east", "type": "openstack", "properties": {
                    "auth_url": "https://cloud", "project": "east", "deep": [{"item": "s3cret-item"}],
                    "port": "5000", "later": "((var))", "stemcell_formats": ["raw-format"],
                    "range": "10.0.0.0/24",
                }},
                {"name": "west", "type": "openstack", "properties": 7},
            ],
            "cloud_provider": {"properties": {"registry": {
                "host": "reg.example.com", "username": "registry-user", "password": "r-p-w",
                "endpoint": "http://r",
            }}},
        });
        let text = "east https://cloud s3cret-item 5000 ((var)) raw-format 10.0.0.0/24 reg.example.com \
                    registry-user";
        assert_eq!(
            redact(manifest.clone(), json!({}), text),
            "east <redacted> <redacted> 5000 ((var)) raw-format 10.0.0.0/24 reg.example.com registry-user"
        );
        assert_eq!(redact(manifest, json!({}), "r-p-w http://r"), "<redacted> <redacted>");
        let redactor = Redactor::default();
        let Value::Object(context) = json!({"password": "p-w-1", "region": "eu", "project": "my-project"})
        else {
            panic!()
        };
        register_property_secrets(&context, &redactor);
        assert_eq!(redactor.redact("p-w-1 eu my-project"), "<redacted> eu <redacted>");
    }

    #[test]
    fn literal_urls_are_not_redacted() {
        let manifest = json!({
            "releases": [
                {"url": "https://bosh.io/d/github.com/cloudfoundry/bosh?v=1"},
                {"url": "https://h/cloudfoundry/((token))"},
                {"url": "https://user:pass-word@h/cloudfoundry/x"},
                {"url": "https://h/cloudfoundry/pass-word"},
            ],
            "resource_pools": [{"stemcell": {"url": "https://bosh.io/d/stemcells/cloudfoundry"}}],
        });
        let redact = |text: &str| redact(manifest.clone(), json!({"organisation": "cloudfoundry"}), text);
        for open in
            ["https://bosh.io/d/github.com/cloudfoundry/bosh?v=1", "https://bosh.io/d/stemcells/cloudfoundry"]
        {
            assert_eq!(redact(open), open);
        }
        assert_eq!(redact("https://h/cloudfoundry/x"), "https://h/<redacted>/x");
        assert_eq!(redact("https://h/cloudfoundry/pass-word"), "https://h/cloudfoundry/<redacted>");
    }

    #[test]
    fn disk_hints_are_redacted_by_key_name() {
        let redactor = Redactor::default();
        let hint = json!({
            "path": "/dev/sdb", "Private-Key": "k-e-y", "private_key_path": "/home/me/key",
            "secret": ["one-of-two"],
            "iscsi_settings": {"username": "u", "password": "chap-secret", "target": "iqn.2004-04.com:1"},
        });
        register_named_secrets(&hint, &redactor);
        assert_eq!(
            redactor.redact("/dev/sdb k-e-y /home/me/key one-of-two chap-secret iqn.2004-04.com:1"),
            "/dev/sdb <redacted> /home/me/key <redacted> <redacted> iqn.2004-04.com:1"
        );
    }

    #[test]
    fn keys_are_secret_but_certificates_and_addresses_are_not() {
        let variables = json!({
            "any": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabcd\n-----END RSA PRIVATE KEY-----\n",
            "tls_key": "-----BEGIN CERTIFICATE-----\nTUlJRQ==\n-----END CERTIFICATE-----\n",
            "list": ["hunter2-long", null, true, "", "10.0.0.6", "10.0.0.0/24"],
            "ssh_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 me",
        });
        let text =
            "MIIE abcd hunter2-long true 10.0.0.6 10.0.0.0/24 TUlJRQ== ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 me";
        assert_eq!(
            redact(json!({}), variables, text),
            "<redacted> <redacted> <redacted> true 10.0.0.6 10.0.0.0/24 TUlJRQ== ssh-ed25519 \
             AAAAC3NzaC1lZDI1NTE5 me"
        );
    }
}
