//! `URI`: parses, builds and joins URIs.

use std::fmt;
use std::rc::Rc;

use super::escape::{percent, unpercent};
use crate::evaluator::eval::{Args, Interp, R};
use crate::evaluator::value::{Data, Object, Value};

/// The parts of a URI.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uri {
    scheme: Option<String>,
    userinfo: Option<String>,
    host: Option<String>,
    port: Option<i64>,
    path: String,
    opaque: Option<String>,
    query: Option<String>,
    fragment: Option<String>,
}

fn default_port(scheme: &str) -> Option<i64> {
    Some(match scheme {
        "http" | "ws" => 80,
        "https" | "wss" => 443,
        "ftp" => 21,
        "ldap" => 389,
        "ldaps" => 636,
        _ => return None,
    })
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = &self.scheme {
            write!(f, "{scheme}:")?;
        }
        if let Some(opaque) = &self.opaque {
            f.write_str(opaque)?;
        } else {
            if self.host.is_some() || matches!(self.scheme.as_deref(), Some("file")) {
                f.write_str("//")?;
            }
            if let Some(userinfo) = &self.userinfo {
                write!(f, "{userinfo}@")?;
            }
            f.write_str(self.host.as_deref().unwrap_or_default())?;
            if let Some(port) = self.port
                && Some(port) != self.scheme.as_deref().and_then(default_port)
            {
                write!(f, ":{port}")?;
            }
            f.write_str(&self.path)?;
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

/// Splits a URI into its parts. Returns `None` if it is not valid.
fn split_uri(text: &str) -> Option<Uri> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c);
    if !text.chars().all(allowed) {
        return None;
    }
    for (at, _) in text.match_indices('%') {
        let hex = text.get(at + 1..at + 3)?;
        if !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
    }
    let mut uri = Uri::default();
    let (rest, fragment) = match text.split_once('#') {
        Some((rest, fragment)) if !fragment.contains('#') => (rest, Some(fragment.to_owned())),
        Some(_) => return None,
        None => (text, None),
    };
    uri.fragment = fragment;
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query.to_owned())),
        None => (rest, None),
    };
    let mut rest = rest;
    if let Some((scheme, after)) = rest.split_once(':')
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    {
        uri.scheme = Some(scheme.to_ascii_lowercase());
        rest = after;
        if !rest.starts_with('/') && !rest.is_empty() {
            uri.opaque = Some(match query {
                Some(query) => format!("{rest}?{query}"),
                None => rest.to_owned(),
            });
            return Some(uri);
        }
    } else if rest.split('/').next().is_some_and(|first| first.contains(':')) {
        return None;
    }
    uri.query = query;
    if let Some(authority) = rest.strip_prefix("//") {
        let (authority, path) = match authority.find('/') {
            Some(at) => authority.split_at(at),
            None => (authority, ""),
        };
        path.clone_into(&mut uri.path);
        let host = match authority.rsplit_once('@') {
            Some((userinfo, host)) => {
                uri.userinfo = Some(userinfo.to_owned());
                host
            }
            None => authority,
        };
        let (host, port) = match host.rfind(':').filter(|at| !host[*at..].contains(']')) {
            Some(at) => (&host[..at], Some(&host[at + 1..])),
            None => (host, None),
        };
        if host.contains(['[', ']']) && !(host.starts_with('[') && host.ends_with(']'))
            || host.contains(':') && !host.starts_with('[')
        {
            return None;
        }
        uri.host = Some(host.to_owned());
        if let Some(port) = port.filter(|port| !port.is_empty()) {
            uri.port = Some(port.parse().ok().filter(|port| *port >= 0)?);
        }
    } else {
        if rest.contains(['[', ']']) {
            return None;
        }
        rest.clone_into(&mut uri.path);
    }
    if uri.port.is_none() && uri.host.is_some() {
        uri.port = uri.scheme.as_deref().and_then(default_port);
    }
    Some(uri)
}

/// Implements `URI.parse`. An invalid URI raises `URI::InvalidURIError`.
pub(crate) fn parse(it: &mut Interp, text: &str) -> R<Value> {
    it.charge(text.len() * 2)?;
    let Some(uri) = split_uri(text) else {
        let shown = it.inspect(&Value::str(text))?;
        let ascii = text.is_ascii();
        let message = if ascii {
            format!("bad URI(is not URI?): {shown}")
        } else {
            format!("URI must be ascii only {}", ascii_inspect(text))
        };
        return Err(it.error("URI::InvalidURIError", message));
    };
    let class = match uri.scheme.as_deref() {
        Some("http") => "URI::HTTP",
        Some("https") => "URI::HTTPS",
        Some("ftp") => "URI::FTP",
        Some("ldap") => "URI::LDAP",
        Some("file") => "URI::File",
        Some("mailto") => "URI::MailTo",
        _ => "URI::Generic",
    };
    let class = it.class(class);
    Ok(it.object(class, Data::Uri(uri)))
}

/// Quotes a text and escapes all characters beyond ASCII, for an error.
fn ascii_inspect(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            out.push_str(&format!("\\u{:04X}", character as u32));
        }
    }
    out + "\""
}

/// Encodes a text for a form, with `+` for blanks.
fn encode_component(text: &str) -> String {
    percent(text, "*-._ ").replace(' ', "+")
}

pub(crate) fn class_method(it: &mut Interp, label: &str, name: &str, args: &Args) -> R<Option<Value>> {
    Ok(Some(match name {
        "parse" => {
            let value = it.arg(args, 0)?;
            if value.is_nil() {
                return Err(it.error("URI::InvalidURIError", "bad URI(is not URI?): nil"));
            }
            let text = match &value {
                Value::Str(text) => text.get().clone(),
                Value::Object(_) => it.text_of(&value)?,
                other => {
                    let shown = it.inspect(other)?;
                    return Err(it.error("URI::InvalidURIError", format!("bad URI(is not URI?): {shown}")));
                }
            };
            parse(it, &text)?
        }
        "encode_www_form_component" | "encode_uri_component" => {
            let value = it.arg(args, 0)?;
            let text = it.text_of(&value)?;
            if name == "encode_uri_component" {
                return Ok(Some(Value::str(encode_component(&text).replace('+', "%20"))));
            }
            Value::str(encode_component(&text))
        }
        "decode_www_form_component" | "decode_uri_component" => {
            let value = it.arg(args, 0)?;
            let text = it.string_arg(&value)?;
            match unpercent(&text, name == "decode_www_form_component") {
                Some(text) => Value::str(text),
                None => return Err(it.unsupported("text that is not UTF-8")),
            }
        }
        "encode_www_form" => {
            let value = it.arg(args, 0)?;
            let mut pairs = Vec::new();
            for pair in it.collect(&value)? {
                let pair = it.array_arg(&pair)?;
                let key = pair.first().cloned().unwrap_or(Value::Nil);
                let key = encode_component(&it.text_of(&key)?);
                let values = match pair.get(1) {
                    Some(Value::Array(list)) => list.to_vec(),
                    Some(other) => vec![other.clone()],
                    None => vec![Value::Nil],
                };
                for value in values {
                    pairs.push(match value {
                        Value::Nil => key.clone(),
                        value => format!("{key}={}", encode_component(&it.text_of(&value)?)),
                    });
                }
            }
            Value::str(pairs.join("&"))
        }
        "decode_www_form" => {
            let value = it.arg(args, 0)?;
            let text = it.string_arg(&value)?;
            let mut pairs = Vec::new();
            for part in text.split('&').filter(|part| !part.is_empty()) {
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                let decode = |text: &str| unpercent(text, true).map_or(Value::Nil, Value::str);
                pairs.push(Value::array(vec![decode(key), decode(value)]));
            }
            Value::array(pairs)
        }
        "join" => {
            let Some(first) = args.get(0).cloned() else { return it.argument_error("no URI given") };
            let mut base = it.text_of(&first)?;
            for part in &args.list[1..] {
                let part = it.text_of(part)?;
                base = resolve(it, &base, &part)?;
            }
            parse(it, &base)?
        }
        "build" if label != "URI" => {
            let Value::Hash(parts) = it.arg(args, 0)? else {
                return Err(it.unsupported("URI.build from an array"));
            };
            let mut text = |name: &str| match parts.get_symbol(name) {
                None | Some(Value::Nil) => Ok(None),
                Some(value) => it.text_of(&value).map(Some),
            };
            let scheme = match label {
                "URI::HTTP" => Some("http".to_owned()),
                "URI::HTTPS" => Some("https".to_owned()),
                _ => text("scheme")?,
            };
            let port = text("port")?.and_then(|port| port.parse().ok());
            let uri = Uri {
                port: port.or(scheme.as_deref().and_then(default_port)),
                scheme,
                userinfo: text("userinfo")?,
                host: text("host")?,
                path: text("path")?.unwrap_or_default(),
                opaque: text("opaque")?,
                query: text("query")?,
                fragment: text("fragment")?,
            };
            let class = it.class(label);
            it.object(class, Data::Uri(uri))
        }
        "escape" | "encode" | "unescape" | "decode" => {
            let text = format!("undefined method `{name}' for URI:Module");
            return Err(it.error("NoMethodError", text));
        }
        _ => return Ok(None),
    }))
}

/// Resolves a reference against a base URI.
fn resolve(it: &mut Interp, base: &str, reference: &str) -> R<String> {
    let (Some(base), Some(other)) = (split_uri(base), split_uri(reference)) else {
        let shown = it.inspect(&Value::str(reference))?;
        return Err(it.error("URI::InvalidURIError", format!("bad URI(is not URI?): {shown}")));
    };
    if other.scheme.is_some() {
        return Ok(other.to_string());
    }
    let mut joined = Uri { query: other.query.clone(), fragment: other.fragment.clone(), ..base.clone() };
    if other.host.is_some() {
        joined.host = other.host;
        joined.userinfo = other.userinfo;
        joined.port = other.port.or(joined.scheme.as_deref().and_then(default_port));
        joined.path = other.path;
        return Ok(joined.to_string());
    }
    if other.path.starts_with('/') {
        joined.path = normalize_path(&other.path);
    } else if !other.path.is_empty() {
        let folder = base.path.rfind('/').map_or("/", |at| &base.path[..=at]);
        joined.path = normalize_path(&format!("{folder}{}", other.path));
    } else if other.query.is_none() {
        joined.query = base.query;
    }
    Ok(joined.to_string())
}

/// Resolves `.` and `..` in a path, and removes empty segments.
fn normalize_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let mut trailing = false;
    for part in path.split('/').skip(1) {
        trailing = matches!(part, "." | ".." | "");
        match part {
            ".." => {
                parts.pop();
            }
            "." | "" => {}
            other => parts.push(other),
        }
    }
    let joined = format!("/{}", parts.join("/"));
    if trailing && joined != "/" { joined + "/" } else { joined }
}

pub(crate) fn method(it: &mut Interp, object: &Rc<Object>, name: &str, args: &Args) -> R<Option<Value>> {
    let uri = match &*object.data.borrow() {
        Data::Uri(uri) => uri.clone(),
        _ => return Ok(None),
    };
    let text_or_nil = |text: &Option<String>| text.clone().map_or(Value::Nil, Value::str);
    // Index 0 is the user, and 1 the password.
    let userinfo_part = |index: usize| {
        let userinfo = uri.userinfo.as_deref()?;
        let (user, password) = match userinfo.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (userinfo, None),
        };
        if index == 0 { Some(user.to_owned()) } else { password.map(str::to_owned) }
    };
    if let Some(member) = name.strip_suffix('=')
        && matches!(
            member,
            "scheme" | "host" | "port" | "path" | "query" | "fragment" | "userinfo" | "user" | "password"
        )
    {
        let value = it.arg(args, 0)?;
        let text = if value.is_nil() { None } else { Some(it.text_of(&value)?) };
        if let Data::Uri(uri) = &mut *object.data.borrow_mut() {
            match member {
                "scheme" => uri.scheme = text,
                "host" => uri.host = text,
                "port" => uri.port = text.and_then(|port| port.parse().ok()),
                "path" => uri.path = text.unwrap_or_default(),
                "query" => uri.query = text,
                "fragment" => uri.fragment = text,
                "userinfo" => uri.userinfo = text,
                "user" => {
                    let password =
                        userinfo_part(1).map(|password| format!(":{password}")).unwrap_or_default();
                    uri.userinfo = text.map(|user| user + &password);
                }
                _ => {
                    let user = userinfo_part(0).unwrap_or_default();
                    uri.userinfo = Some(text.map_or(user.clone(), |password| format!("{user}:{password}")));
                }
            }
        }
        return Ok(Some(value));
    }
    Ok(Some(match name {
        "to_s" | "to_str" if name == "to_s" => Value::str(uri.to_string()),
        "scheme" => text_or_nil(&uri.scheme),
        "host" => text_or_nil(&uri.host),
        "hostname" => match &uri.host {
            Some(host) => Value::str(host.trim_start_matches('[').trim_end_matches(']')),
            None => Value::Nil,
        },
        "port" => uri.port.map_or(Value::Nil, Value::Int),
        "path" => {
            if uri.opaque.is_some() {
                Value::Nil
            } else {
                Value::str(uri.path.clone())
            }
        }
        "query" => text_or_nil(&uri.query),
        "fragment" => text_or_nil(&uri.fragment),
        "opaque" => text_or_nil(&uri.opaque),
        "userinfo" => text_or_nil(&uri.userinfo),
        "user" => userinfo_part(0).map_or(Value::Nil, Value::str),
        "password" => userinfo_part(1).map_or(Value::Nil, Value::str),
        "request_uri" => {
            let path = if uri.path.is_empty() { "/" } else { &uri.path };
            Value::str(uri.query.as_ref().map_or(path.to_owned(), |query| format!("{path}?{query}")))
        }
        "absolute?" | "absolute" => Value::Bool(uri.scheme.is_some()),
        "relative?" => Value::Bool(uri.scheme.is_none()),
        "default_port" => uri.scheme.as_deref().and_then(default_port).map_or(Value::Nil, Value::Int),
        "hierarchical?" => Value::Bool(uri.opaque.is_none()),
        "+" | "merge" => {
            let other = it.arg(args, 0)?;
            let other = it.text_of(&other)?;
            let joined = resolve(it, &uri.to_string(), &other)?;
            parse(it, &joined)?
        }
        "normalize" => {
            let mut normal = uri.clone();
            normal.scheme = normal.scheme.map(|scheme| scheme.to_lowercase());
            normal.host = normal.host.map(|host| host.to_lowercase());
            if normal.path.is_empty() && normal.host.is_some() {
                normal.path = "/".into();
            }
            let class = Rc::clone(&object.class);
            it.object(class, Data::Uri(normal))
        }
        "origin" => match (&uri.scheme, &uri.host) {
            (Some(scheme), Some(host)) => {
                let port = uri.port.filter(|port| Some(*port) != default_port(scheme));
                Value::str(format!(
                    "{scheme}://{host}{}",
                    port.map_or(String::new(), |port| format!(":{port}"))
                ))
            }
            _ => Value::Nil,
        },
        "select" | "component" | "route_to" | "route_from" => {
            return Err(it.unsupported(format!("URI#{name}")));
        }
        "inspect" => Value::str(it.inspect(&Value::Object(Rc::clone(object)))?),
        _ => return Ok(None),
    }))
}
