//! `URI`: parses, builds and joins URIs.

mod grammar;
mod merge;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use super::escape::{percent_decode, percent_encode};
use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::methods::dump;
use crate::evaluator::value::{Data, Object, Value};

/// The exception of Ruby for a text that is not a URI.
const INVALID_URI: &str = "URI::InvalidURIError";
/// The exception of Ruby for a part that a URI cannot have.
const INVALID_PART: &str = "URI::InvalidComponentError";

/// The class of a URI.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum UriKind {
    #[default]
    Generic,
    Http,
    Https,
    Ldap,
    File,
    /// A class of Ruby that is not supported.
    Other,
}

/// The parts of a URI.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uri {
    kind: UriKind,
    scheme: Option<String>,
    user: Option<String>,
    password: Option<String>,
    host: Option<String>,
    port: Option<i64>,
    path: Option<String>,
    opaque: Option<String>,
    query: Option<String>,
    fragment: Option<String>,
    /// True if the query has an escape that Ruby rejects.
    has_bad_query: bool,
    /// True for a result of `build`. Ruby checks its parts with the grammar of RFC 2396.
    is_built: bool,
}

impl UriKind {
    fn of(scheme: &str) -> UriKind {
        match scheme.to_ascii_lowercase().as_str() {
            "http" => UriKind::Http,
            "https" => UriKind::Https,
            "ldap" => UriKind::Ldap,
            "file" => UriKind::File,
            "ftp" | "ldaps" | "mailto" | "ws" | "wss" => UriKind::Other,
            _ => UriKind::Generic,
        }
    }

    fn class_name(self) -> &'static str {
        match self {
            UriKind::Http => "URI::HTTP",
            UriKind::Https => "URI::HTTPS",
            UriKind::Ldap => "URI::LDAP",
            UriKind::File => "URI::File",
            UriKind::Generic | UriKind::Other => "URI::Generic",
        }
    }
}

impl Uri {
    fn default_port(&self) -> Option<i64> {
        match self.kind {
            UriKind::Http => Some(80),
            UriKind::Https => Some(443),
            UriKind::Ldap => Some(389),
            UriKind::Generic | UriKind::File | UriKind::Other => None,
        }
    }

    fn is_file(&self) -> bool {
        self.kind == UriKind::File
    }

    fn is_http(&self) -> bool {
        matches!(self.kind, UriKind::Http | UriKind::Https)
    }

    fn userinfo(&self) -> Option<String> {
        let user = self.user.as_deref()?;
        Some(self.password.as_deref().map_or(user.to_owned(), |password| format!("{user}:{password}")))
    }

    /// Sets the user and password. Without a colon, the password is kept.
    fn set_userinfo(&mut self, userinfo: &str) {
        let (user, password) = match userinfo.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (userinfo, None),
        };
        self.user = (!userinfo.is_empty()).then(|| user.to_owned());
        if let Some(password) = password {
            self.password = Some(password.to_owned());
        }
    }

    /// Sets the host. The host of a `file` URI is never missing.
    fn set_host(&mut self, host: Option<String>) {
        self.host = match host {
            None if self.is_file() => Some(String::new()),
            Some(host) if self.is_file() && host == "localhost" => Some(String::new()),
            host => host,
        };
    }

    fn hostname(&self) -> Option<&str> {
        let host = self.host.as_deref()?;
        Some(host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host))
    }

    fn authority(&self) -> String {
        let host = self.host.as_deref().unwrap_or_default();
        match self.port {
            port if port == self.default_port() => host.to_owned(),
            port => format!("{host}:{}", port.map_or(String::new(), |port| port.to_string())),
        }
    }

    fn normalize(&mut self) {
        if self.path.as_deref() == Some("") {
            self.path = Some("/".into());
        }
        for part in [&mut self.scheme, &mut self.host].into_iter().flatten() {
            part.make_ascii_lowercase();
        }
    }

    /// Returns the parts that Ruby compares.
    fn components(&self) -> Vec<Option<String>> {
        let port = self.port.map(|port| port.to_string());
        let (scheme, host, path) = (self.scheme.clone(), self.host.clone(), self.path.clone());
        let (query, fragment) = (self.query.clone(), self.fragment.clone());
        match self.kind {
            UriKind::File => vec![scheme, host, path],
            UriKind::Http | UriKind::Https => {
                vec![scheme, self.userinfo(), host, port, path, query, fragment]
            }
            UriKind::Ldap => {
                let name = path.as_deref().and_then(|path| path.get(1..)).map(str::to_owned);
                let query = query.unwrap_or_default();
                let part = |part: &str| (!part.is_empty()).then(|| part.to_owned());
                let attributes = query.split('?').chain(std::iter::repeat("")).take(4).map(part);
                [scheme, host, port, name].into_iter().chain(attributes).collect()
            }
            UriKind::Generic | UriKind::Other => {
                vec![scheme, self.userinfo(), host, port, path, self.opaque.clone(), query, fragment]
            }
        }
    }

    /// Returns true if both are the same URI (`==`).
    pub(crate) fn is_same(&self, other: &Uri) -> bool {
        let normalized_components = |uri: &Uri| {
            let mut uri = uri.clone();
            // For LDAP, Ruby compares the path as it was before normalisation.
            let path = uri.path.clone();
            uri.normalize();
            if uri.kind == UriKind::Ldap {
                uri.path = path;
            }
            uri.components()
        };
        self.kind == other.kind && normalized_components(self) == normalized_components(other)
    }

    /// Returns true if both have the same parts (`eql?`).
    pub(crate) fn eql(&self, other: &Uri) -> bool {
        self.kind == other.kind && self.is_built == other.is_built && self.components() == other.components()
    }
}

impl Hash for Uri {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.components().hash(state);
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = &self.scheme {
            write!(f, "{scheme}:")?;
        }
        if let Some(opaque) = &self.opaque {
            f.write_str(opaque)?;
        } else {
            if self.host.is_some() || matches!(self.scheme.as_deref(), Some("file" | "postgres")) {
                f.write_str("//")?;
            }
            if let Some(userinfo) = self.userinfo() {
                write!(f, "{userinfo}@")?;
            }
            f.write_str(self.host.as_deref().unwrap_or_default())?;
            if let Some(port) = self.port.filter(|port| Some(*port) != self.default_port()) {
                write!(f, ":{port}")?;
            }
            f.write_str(self.path.as_deref().unwrap_or_default())?;
            if let Some(query) = &self.query {
                write!(f, "?{query}")?;
            }
        }
        if let Some(fragment) = &self.fragment {
            write!(f, "#{fragment}")?;
        }
        Ok(())
    }
}

fn create_uri(interpreter: &mut Interpreter, uri: Uri) -> Value {
    let class = interpreter.load_class(uri.kind.class_name());
    interpreter.create_object(class, Data::Uri(uri))
}

/// Implements `URI.parse`. An invalid URI raises `URI::InvalidURIError`.
fn parse_uri(interpreter: &mut Interpreter, text: &str) -> EvalResult<Uri> {
    interpreter.use_scratch(text.len() * 4)?;
    if !text.is_ascii() {
        return Err(interpreter.ruby_error(INVALID_URI, format!("URI must be ascii only {}", dump(text))));
    }
    let Some(mut uri) = grammar::split(text) else {
        // The grammar also rejects ports beyond 64 bits. Ruby may accept those, so they are unsupported.
        if text.bytes().filter(u8::is_ascii_digit).count() > 18 {
            return Err(interpreter.unsupported_error("a URI with a large number"));
        }
        let quoted_text = interpreter.inspect(&Value::str(text))?;
        return Err(interpreter.ruby_error(INVALID_URI, format!("bad URI(is not URI?): {quoted_text}")));
    };
    if uri.kind == UriKind::Other {
        let scheme = uri.scheme.unwrap_or_default();
        return Err(interpreter.unsupported_error(format!("a URI with the scheme '{scheme}'")));
    }
    if uri.has_bad_query {
        return Err(interpreter.unsupported_error("a query with an invalid escape"));
    }
    if uri.kind == UriKind::Ldap && (uri.opaque.is_some() || uri.fragment.is_some()) {
        return Err(interpreter.ruby_error(INVALID_URI, "bad LDAP URL"));
    }
    let host = uri.host.take();
    uri.set_host(host);
    if uri.is_file() {
        uri.user = None;
        uri.password = None;
        uri.port = None;
    }
    uri.port = uri.port.or(uri.default_port());
    Ok(uri)
}

fn uri_of(value: &Value) -> Option<Uri> {
    match value {
        Value::Object(object) => match &*object.data.borrow() {
            Data::Uri(uri) => Some(uri.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns a URI, or a string parsed as one. Another value raises `ArgumentError`.
pub(crate) fn convert_to_uri(interpreter: &mut Interpreter, value: &Value) -> EvalResult<Value> {
    if uri_of(value).is_some() {
        return Ok(value.clone());
    }
    if !matches!(value, Value::Str(_)) && !interpreter.responds_to(value, "to_str") {
        return interpreter.raise_argument_error("bad argument (expected URI object or URI string)");
    }
    let text = interpreter.string_arg(value)?;
    let uri = parse_uri(interpreter, &text)?;
    Ok(create_uri(interpreter, uri))
}

/// Implements `base + reference`.
fn merge_uris(interpreter: &mut Interpreter, base: &Value, reference: &Value) -> EvalResult<Value> {
    let reference = convert_to_uri(interpreter, reference)?;
    let (Some(base), Some(relative_uri)) = (uri_of(base), uri_of(&reference)) else {
        return Err(interpreter.unsupported_error("URI#merge of these values"));
    };
    if relative_uri.scheme.is_some() {
        return Ok(reference);
    }
    if base.scheme.is_none() {
        return Err(interpreter.ruby_error("URI::BadURIError", "both URI are relative"));
    }
    if base.kind == UriKind::Ldap {
        return Err(interpreter.unsupported_error("URI::LDAP#merge"));
    }
    match merge::merge(&base, &relative_uri) {
        Ok(uri) => Ok(create_uri(interpreter, uri)),
        Err(message) => Err(interpreter.ruby_error(INVALID_URI, message)),
    }
}

/// Encodes a text for a form, with `+` for spaces.
fn encode_component(text: &str) -> String {
    percent_encode(text, "*-._ ").replace(' ', "+")
}

/// Raises Ruby's error for a percent sign without two hexadecimal digits.
fn check_escapes(interpreter: &mut Interpreter, text: &str) -> EvalResult<()> {
    let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_valid = |percent: usize| text.get(percent + 1..percent + 3).is_some_and(is_hex);
    if text.match_indices('%').all(|(percent, _)| is_valid(percent)) {
        return Ok(());
    }
    interpreter.raise_argument_error(format!("invalid %-encoding ({text})"))
}

/// Implements `URI.encode_www_form`.
fn encode_form(interpreter: &mut Interpreter, value: &Value) -> EvalResult<String> {
    let mut pairs = Vec::new();
    for pair in interpreter.collect(value)? {
        let (key, value) = match &pair {
            Value::Array(pair) => {
                let pair = pair.to_vec();
                (pair.first().cloned(), pair.get(1).cloned())
            }
            key => (Some(key.clone()), None),
        };
        let key = encode_component(&interpreter.text_of(&key.unwrap_or(Value::Nil))?);
        let is_list = matches!(value, Some(Value::Array(_)));
        let values = match value.unwrap_or(Value::Nil) {
            Value::Array(list) => list.to_vec(),
            other => vec![other],
        };
        let mut parameters = Vec::new();
        for value in values {
            parameters.push(match value {
                // For a nil in a list, Ruby does not write the key.
                Value::Nil if is_list => String::new(),
                Value::Nil => key.clone(),
                value => format!("{key}={}", encode_component(&interpreter.text_of(&value)?)),
            });
        }
        let pair = parameters.join("&");
        interpreter.use_scratch(pair.len())?;
        pairs.push(pair);
    }
    Ok(pairs.join("&"))
}

/// Implements `URI.decode_www_form`.
fn decode_form(interpreter: &mut Interpreter, text: &str) -> EvalResult<Value> {
    if !text.is_ascii() {
        return interpreter
            .raise_argument_error("the input of URI.decode_www_form must be ASCII only string");
    }
    let mut pairs = Vec::new();
    if text.is_empty() {
        return Ok(Value::array(pairs));
    }
    // A trailing `&` starts no further pair.
    let text = text.strip_suffix('&').unwrap_or(text);
    for part in text.split('&') {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let mut pair = Vec::new();
        for text in [key, value] {
            match percent_decode(text, true) {
                Some(text) => pair.push(Value::str(text)),
                None => return Err(interpreter.unsupported_error("text that is not UTF-8")),
            }
        }
        pairs.push(Value::array(pair));
    }
    Ok(Value::array(pairs))
}

/// Calls a method of the module URI, or `build` of a class of URIs. Returns `None` if it does not implement
/// the method.
pub(crate) fn call_class_method(
    interpreter: &mut Interpreter,
    label: &str,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    if label != "URI" {
        // Only URIs of these classes come here: `URI::Generic`, `URI::HTTP` and `URI::HTTPS`.
        return if name == "build" { build_uri(interpreter, label, args).map(Some) } else { Ok(None) };
    }
    if args.len() > 1 && name != "join" {
        return Err(interpreter.unsupported_error(format!("URI.{name} with several arguments")));
    }
    Ok(Some(match name {
        "parse" => {
            let value = interpreter.arg(args, 0)?;
            if !matches!(value, Value::Str(_)) && !interpreter.responds_to(&value, "to_str") {
                let value_text = interpreter.inspect(&value)?;
                return Err(
                    interpreter.ruby_error(INVALID_URI, format!("bad URI(is not URI?): {value_text}"))
                );
            }
            convert_to_uri(interpreter, &value)?
        }
        "encode_www_form_component" | "encode_uri_component" => {
            let value = interpreter.arg(args, 0)?;
            let text = interpreter.text_of(&value)?;
            if name == "encode_uri_component" {
                return Ok(Some(Value::str(encode_component(&text).replace('+', "%20"))));
            }
            Value::str(encode_component(&text))
        }
        "decode_www_form_component" | "decode_uri_component" => {
            let value = interpreter.arg(args, 0)?;
            let text = interpreter.string_arg(&value)?;
            check_escapes(interpreter, &text)?;
            match percent_decode(&text, name == "decode_www_form_component") {
                Some(text) => Value::str(text),
                None => return Err(interpreter.unsupported_error("text that is not UTF-8")),
            }
        }
        "encode_www_form" => {
            let value = interpreter.arg(args, 0)?;
            Value::str(encode_form(interpreter, &value)?)
        }
        "decode_www_form" => {
            let value = interpreter.arg(args, 0)?;
            let text = interpreter.string_arg(&value)?;
            decode_form(interpreter, &text)?
        }
        "join" => {
            let base_value = args.get(0).cloned().unwrap_or(Value::Nil);
            let mut base = convert_to_uri(interpreter, &base_value)?;
            for part in args.list.iter().skip(1) {
                base = merge_uris(interpreter, &base, part)?;
            }
            base
        }
        "escape" | "encode" | "unescape" | "decode" => {
            let text = format!("undefined method `{name}' for URI:Module");
            return Err(interpreter.ruby_error("NoMethodError", text));
        }
        _ => return Ok(None),
    }))
}

/// Implements `URI::HTTP.build` and the like for parts that both grammars of Ruby accept.
fn build_uri(interpreter: &mut Interpreter, label: &str, args: &Args) -> EvalResult<Value> {
    let Value::Hash(parts) = interpreter.arg(args, 0)? else {
        return Err(interpreter.unsupported_error("URI.build from an array"));
    };
    let mut uri = Uri { is_built: true, ..Uri::default() };
    let scheme = match label {
        "URI::HTTP" => Some(Value::str("http")),
        "URI::HTTPS" => Some(Value::str("https")),
        _ => parts.get_symbol("scheme"),
    };
    let part_names = ["userinfo", "host", "port", "path", "query", "fragment"];
    let given_parts = part_names.into_iter().filter_map(|part| Some((part, parts.get_symbol(part)?)));
    for (part, value) in scheme.map(|scheme| ("scheme", scheme)).into_iter().chain(given_parts) {
        if part == "scheme" {
            uri.kind = match &value {
                // The class of a generic URI does not depend on the scheme.
                Value::Str(scheme) if label != "URI::Generic" => UriKind::of(&scheme.get()),
                _ => UriKind::Generic,
            };
        }
        set_part(interpreter, &mut uri, if part == "host" { "hostname" } else { part }, &value)?;
    }
    if ["opaque", "registry"]
        .into_iter()
        .any(|part| parts.get_symbol(part).is_some_and(|part| !part.is_nil()))
    {
        return Err(interpreter.unsupported_error("URI.build with these parts"));
    }
    uri.path = uri.path.or(Some(String::new()));
    uri.port = uri.port.or(uri.default_port());
    Ok(create_uri(interpreter, uri))
}

/// Implements `uri.part = value` with Ruby's checks.
fn set_part(interpreter: &mut Interpreter, uri: &mut Uri, part: &str, value: &Value) -> EvalResult<()> {
    let text = match value {
        Value::Nil => None,
        Value::Int(number) if part == "port" => Some(number.to_string()),
        Value::Str(_) => Some(interpreter.string_arg(value)?),
        _ => return Err(interpreter.unsupported_error(format!("URI#{part}= with this value"))),
    };
    let has_opaque = uri.opaque.is_some();
    if let Some(text) = &text
        && (uri.is_built && !grammar::is_plain(if part == "hostname" { "host" } else { part }, text)
            || uri.kind == UriKind::Ldap && matches!(part, "path" | "query"))
    {
        return Err(interpreter.unsupported_error(format!("URI#{part}= with '{text}'")));
    }
    let refuse = |interpreter: &mut Interpreter, expected: &str, text: &str| -> EvalResult<()> {
        Err(interpreter.ruby_error(INVALID_PART, format!("bad component(expected {expected}): {text}")))
    };
    match (part, text) {
        ("scheme", Some(text)) if !grammar::is_scheme(&text) => {
            return refuse(interpreter, "scheme component", &text);
        }
        ("scheme", text) => uri.scheme = text.map(|text| text.to_ascii_lowercase()),
        ("userinfo", None) => {}
        ("userinfo" | "user" | "password", _) if uri.is_file() => {
            return Err(interpreter.ruby_error(INVALID_URI, format!("can not set {part} for file URI")));
        }
        ("userinfo" | "user" | "password", _) if has_opaque => {
            let part = if part == "password" { part } else { "user" };
            return Err(interpreter.ruby_error(INVALID_URI, format!("can not set {part} with opaque")));
        }
        ("password", Some(_)) if uri.user.is_none() => {
            return Err(interpreter.ruby_error(INVALID_URI, "password component depends user component"));
        }
        ("password", Some(text)) if !grammar::is_user(&text) => {
            return Err(interpreter.ruby_error(INVALID_PART, "bad password component"));
        }
        ("password", text) => uri.password = text,
        ("user", None) => uri.user = None,
        ("userinfo" | "user", Some(text)) => {
            let user =
                if part == "user" { text.as_str() } else { text.split(':').next().unwrap_or_default() };
            if !grammar::is_user(user) {
                return refuse(interpreter, "userinfo component or user component", user);
            }
            if !grammar::is_user(&text) {
                return Err(interpreter.ruby_error(INVALID_PART, "bad password component"));
            }
            if part == "user" && uri.password.is_some() {
                uri.user = Some(text);
            } else {
                uri.set_userinfo(&text);
            }
        }
        ("host" | "hostname", Some(_)) if has_opaque => {
            return Err(interpreter.ruby_error(INVALID_URI, "can not set host with registry or opaque"));
        }
        ("host" | "hostname", Some(text)) => {
            let is_bare = part == "hostname" && !(text.starts_with('[') && text.ends_with(']'));
            let host = if is_bare && text.contains(':') { format!("[{text}]") } else { text };
            if !grammar::is_host(&host, false) {
                return refuse(interpreter, "host component", &host);
            }
            uri.set_host(Some(host));
        }
        ("host" | "hostname", None) => uri.set_host(None),
        ("port", Some(_)) if has_opaque => {
            return Err(interpreter.ruby_error(INVALID_URI, "can not set port with registry or opaque"));
        }
        ("port", Some(text)) => {
            let digits = text.trim_matches(['\t', '\n', '\u{c}', '\r', ' ']);
            if matches!(value, Value::Str(_)) && !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                let value_text = interpreter.inspect(value)?;
                return refuse(interpreter, "port component", &value_text);
            }
            if digits.is_empty() && !text.is_empty() || digits.len() > 18 {
                return Err(interpreter.unsupported_error(format!("URI#port= with '{text}'")));
            }
            if !uri.is_file() {
                uri.port = digits.parse().ok();
            }
        }
        ("port", None) => uri.port = None,
        ("path", Some(_)) if has_opaque => {
            return Err(interpreter.ruby_error(INVALID_URI, "path conflicts with opaque"));
        }
        ("path", Some(text)) => {
            if !text.is_empty() && !grammar::is_absolute_path(&text) {
                if uri.scheme.is_some() {
                    return refuse(interpreter, "absolute path component", &text);
                }
                if !grammar::is_relative_path(&text) {
                    return refuse(interpreter, "relative path component", &text);
                }
            }
            uri.path = Some(text);
        }
        ("path", None) => return Err(interpreter.unsupported_error("URI#path= with nil")),
        ("query", Some(_)) if has_opaque => {
            return Err(interpreter.ruby_error(INVALID_URI, "query conflicts with opaque"));
        }
        ("query", Some(text)) if grammar::has_bad_escape(&text) => {
            return Err(interpreter.unsupported_error("a query with an invalid escape"));
        }
        ("query", text) => uri.query = text.map(|text| grammar::escape(&text, true)),
        ("fragment", text) => uri.fragment = text.map(|text| grammar::escape(&text, false)),
        _ => return Err(interpreter.unsupported_error(format!("URI#{part}="))),
    }
    Ok(())
}

/// Calls a method of a URI. Returns `None` if URIs do not implement it.
pub(crate) fn call_method(
    interpreter: &mut Interpreter,
    object: &Rc<Object>,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    let Some(mut uri) = uri_of(&Value::Object(Rc::clone(object))) else { return Ok(None) };
    let text_or_nil = |text: &Option<String>| text.clone().map_or(Value::Nil, Value::str);
    if let Some(part) = name.strip_suffix('=')
        && (part == "hostname"
            || ["scheme", "host", "port", "path", "query", "fragment", "userinfo", "user", "password"]
                .contains(&part))
    {
        let value = interpreter.arg(args, 0)?;
        set_part(interpreter, &mut uri, part, &value)?;
        *object.data.borrow_mut() = Data::Uri(uri);
        return Ok(Some(value));
    }
    Ok(Some(match name {
        "to_s" => Value::str(uri.to_string()),
        "scheme" => text_or_nil(&uri.scheme),
        "host" => text_or_nil(&uri.host),
        "hostname" => uri.hostname().map_or(Value::Nil, Value::str),
        "port" => uri.port.map_or(Value::Nil, Value::Int),
        "path" => text_or_nil(&uri.path),
        "query" => text_or_nil(&uri.query),
        "fragment" => text_or_nil(&uri.fragment),
        "opaque" => text_or_nil(&uri.opaque),
        "registry" => Value::Nil,
        "userinfo" => uri.userinfo().map_or(Value::Nil, Value::str),
        "user" => text_or_nil(&uri.user),
        "password" => text_or_nil(&uri.password),
        "request_uri" if uri.is_http() => match &uri.path {
            Some(path) => {
                let query = uri.query.as_ref().map_or(String::new(), |query| format!("?{query}"));
                let slash = if path.starts_with('/') { "" } else { "/" };
                Value::str(format!("{slash}{path}{query}"))
            }
            None => Value::Nil,
        },
        "authority" if uri.is_http() => {
            if uri.host.is_none() && uri.port == uri.default_port() {
                return Ok(Some(Value::Nil));
            }
            Value::str(uri.authority())
        }
        "origin" if uri.is_http() => {
            let scheme = uri.scheme.clone().unwrap_or_default();
            Value::str(format!("{scheme}://{}", uri.authority()))
        }
        "absolute?" | "absolute" => Value::Bool(uri.scheme.is_some()),
        "relative?" => Value::Bool(uri.scheme.is_none()),
        "default_port" => uri.default_port().map_or(Value::Nil, Value::Int),
        "hierarchical?" => Value::Bool(uri.path.is_some() && uri.kind != UriKind::Ldap),
        "+" | "merge" => {
            let other = interpreter.arg(args, 0)?;
            merge_uris(interpreter, &Value::Object(Rc::clone(object)), &other)?
        }
        "normalize" => {
            uri.normalize();
            interpreter.create_object(Rc::clone(&object.class), Data::Uri(uri))
        }
        "inspect" => Value::str(format!("#<{} {uri}>", object.class.label())),
        _ => return Ok(None),
    }))
}
