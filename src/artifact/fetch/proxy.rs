//! Selects the proxy of a request from the environment variables.
//!
//! - `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, or the same in lower case, are read as in Go's `httpproxy`:
//!   a request to this machine itself never uses these proxies.
//! - `BOSH_ALL_PROXY` is for all connections, including those to the HTTP proxies. It is
//!   `socks5://[USER:PASSWORD@]HOST:PORT`, or `ssh+socks5://[USER@]HOST:PORT?private-key=PATH` for a jumpbox
//!   (docs-bosh `cli-env-vars.md`, `cli-tunnel.md`).
//!
//! An entry of `NO_PROXY` is a host (including the hosts below it), `.domain` (only the hosts below it), an
//! address, a network such as `10.0.0.0/8`, or `*`. Each may end in `:PORT`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use url::Url;

use crate::url::url_problem;
use base::encoding::percent_decode;
use base::{Error, Result};

/// The user and password of a proxy.
pub(super) type ProxyCredentials = (String, String);

/// A proxy's address. Displays without credentials.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ProxyServer {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) credentials: Option<ProxyCredentials>,
}

impl fmt::Display for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The route of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    Direct,
    Socks5(ProxyServer),
    /// Through a jumpbox, the machine of this SSH server.
    Ssh {
        server: ProxyServer,
        private_key: PathBuf,
    },
}

/// The proxies and exceptions from the environment variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proxies {
    http_proxy: Option<ProxyServer>,
    https_proxy: Option<ProxyServer>,
    default_route: Route,
    exceptions: Vec<ProxyException>,
}

/// An entry of `NO_PROXY`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProxyException {
    host: ExceptedHost,
    port: Option<u16>,
}

/// The hosts to which an entry of `NO_PROXY` applies.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ExceptedHost {
    Any,
    Address(IpAddr),
    Network(ipnet::IpNet),
    /// The host of this name and those below it.
    Name(String),
    /// Only the hosts below this domain, which has no leading dot.
    Below(String),
}

impl Proxies {
    /// Reads the variables. An error names the one that is not valid.
    pub(super) fn from_variables(env_vars: &[(String, String)]) -> Result<Self> {
        let parse_variable = |names| {
            find_variable(env_vars, names).map(|(name, value)| parse_http_proxy(name, value)).transpose()
        };
        Ok(Proxies {
            http_proxy: parse_variable(["HTTP_PROXY", "http_proxy"])?,
            https_proxy: parse_variable(["HTTPS_PROXY", "https_proxy"])?,
            ..Self::parse_without_http(env_vars)?
        })
    }

    /// Reads only `BOSH_ALL_PROXY` and the exceptions.
    fn parse_without_http(env_vars: &[(String, String)]) -> Result<Self> {
        Ok(Proxies {
            http_proxy: None,
            https_proxy: None,
            default_route: match find_variable(env_vars, ["BOSH_ALL_PROXY", "bosh_all_proxy"]) {
                None => Route::Direct,
                Some((name, value)) => parse_all_proxy(name, value)?,
            },
            exceptions: find_variable(env_vars, ["NO_PROXY", "no_proxy"])
                .map(|(_, value)| value.split([',', ' ']).filter_map(ProxyException::parse).collect())
                .unwrap_or_default(),
        })
    }

    /// Reads only `BOSH_ALL_PROXY` and the exceptions. Returns `None` if it is not set.
    pub(super) fn from_bosh_all_proxy(env_vars: &[(String, String)]) -> Result<Option<Self>> {
        let proxies = Self::parse_without_http(env_vars)?;
        Ok((proxies.default_route != Route::Direct).then_some(proxies))
    }

    /// Uses the proxy `url`, in the form of `BOSH_ALL_PROXY`, for all connections.
    pub(super) fn from_url(url: &str) -> Result<Self> {
        let default_route = parse_all_proxy("the SOCKS proxy", url)?;
        Ok(Proxies { http_proxy: None, https_proxy: None, default_route, exceptions: Vec::new() })
    }

    /// Returns the HTTP proxy for a request to this host.
    pub(super) fn http_proxy(&self, is_tls: bool, host: &str, port: u16) -> Option<&ProxyServer> {
        let proxy = if is_tls { self.https_proxy.as_ref() } else { self.http_proxy.as_ref() };
        proxy.filter(|_| !is_this_machine(host) && !self.is_excepted(host, port))
    }

    pub(super) fn route(&self, host: &str, port: u16) -> &Route {
        if self.is_excepted(host, port) { &Route::Direct } else { &self.default_route }
    }

    /// Returns the passwords, which must be redacted.
    pub(super) fn secrets(&self) -> Vec<String> {
        let default_route = match &self.default_route {
            Route::Direct => None,
            Route::Socks5(proxy) | Route::Ssh { server: proxy, .. } => Some(proxy),
        };
        let proxies =
            [self.http_proxy.as_ref(), self.https_proxy.as_ref(), default_route].into_iter().flatten();
        proxies.filter_map(|proxy| proxy.credentials.as_ref()).map(|(_, password)| password.clone()).collect()
    }

    fn is_excepted(&self, host: &str, port: u16) -> bool {
        let host = plain_host(host).to_ascii_lowercase();
        self.exceptions.iter().any(|exception| exception.matches(&host, port))
    }
}

/// Returns the first of these variables that is set and not empty, with its value.
fn find_variable<'v>(
    env_vars: &'v [(String, String)],
    names: [&'static str; 2],
) -> Option<(&'static str, &'v str)> {
    names.into_iter().find_map(|name| {
        let variable = env_vars.iter().find(|(key, value)| key == name && !value.is_empty());
        variable.map(|(_, value)| (name, value.as_str()))
    })
}

fn parse_http_proxy(name: &str, value: &str) -> Result<ProxyServer> {
    let with_scheme = if value.contains("://") { value.to_owned() } else { format!("http://{value}") };
    let url = parse_url(name, &with_scheme)?;
    match url.scheme() {
        "http" => proxy_server(name, &url, 80),
        other => Err(Error::invalid(format!("{name} has the unsupported scheme '{other}://'"))
            .with_hint("use http://[USER:PASSWORD@]HOST:PORT, or BOSH_ALL_PROXY=socks5://HOST:PORT")),
    }
}

fn parse_all_proxy(name: &str, value: &str) -> Result<Route> {
    let url = parse_url(name, value)?;
    match url.scheme() {
        "socks5" | "socks5h" => Ok(Route::Socks5(proxy_server(name, &url, 1080)?)),
        "ssh+socks5" => {
            let key =
                url.query_pairs().find(|(key, _)| key == "private-key").map(|(_, path)| path.into_owned());
            let private_key = key.filter(|path| !path.is_empty()).ok_or_else(|| {
                Error::invalid(format!("{name} has no `private-key`"))
                    .with_hint("write ssh+socks5://USER@HOST:PORT?private-key=PATH")
            })?;
            let mut server = proxy_server(name, &url, 22)?;
            if url.username().is_empty() {
                server.credentials = Some(("jumpbox".to_owned(), String::new()));
            }
            Ok(Route::Ssh { server, private_key: PathBuf::from(private_key) })
        }
        other => Err(Error::invalid(format!("{name} has the unsupported scheme '{other}://'"))
            .with_hint("use socks5://HOST:PORT or ssh+socks5://USER@HOST:PORT?private-key=PATH")),
    }
}

fn parse_url(name: &str, value: &str) -> Result<Url> {
    // The value may contain a password, and is not part of the error.
    Url::parse(value.trim()).map_err(|error| {
        Error::invalid(format!("{name} is not a valid URL"))
            .with_source(url_problem(error))
            .with_hint("write SCHEME://[USER:PASSWORD@]HOST:PORT, with special characters percent-encoded")
    })
}

fn proxy_server(name: &str, url: &Url, default_port: u16) -> Result<ProxyServer> {
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or_else(|| {
        Error::invalid(format!("{name} has no host")).with_hint("write SCHEME://[USER:PASSWORD@]HOST:PORT")
    })?;
    let credentials = (!url.username().is_empty())
        .then(|| (percent_decode(url.username()), percent_decode(url.password().unwrap_or_default())));
    Ok(ProxyServer {
        host: plain_host(host).to_owned(),
        port: url.port().unwrap_or(default_port),
        credentials,
    })
}

/// Removes the brackets of an IPv6 address and the trailing dot of a name.
fn plain_host(host: &str) -> &str {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    inner.strip_suffix('.').unwrap_or(inner)
}

fn is_this_machine(host: &str) -> bool {
    let host = plain_host(host);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl ProxyException {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        if text.is_empty() {
            return None;
        }
        if let Ok(network) = text.parse() {
            return Some(ProxyException { host: ExceptedHost::Network(network), port: None });
        }
        if let Ok(address) = plain_host(&text).parse() {
            return Some(ProxyException { host: ExceptedHost::Address(address), port: None });
        }
        let (host, port) = match text.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
            Some((host, Ok(port))) => (host, Some(port)),
            _ => (text.as_str(), None),
        };
        let host = match plain_host(host) {
            "*" => ExceptedHost::Any,
            host => match (host.parse(), host.strip_prefix("*.").or(host.strip_prefix('.'))) {
                (Ok(address), _) => ExceptedHost::Address(address),
                (_, Some(domain)) => ExceptedHost::Below(domain.to_owned()),
                (_, None) => ExceptedHost::Name(host.to_owned()),
            },
        };
        Some(ProxyException { host, port })
    }

    /// Returns true for a host in this exception. `host` is in lower case and has passed through
    /// [`plain_host`].
    fn matches(&self, host: &str, port: u16) -> bool {
        let is_below = |domain: &str| host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
        let is_host = match &self.host {
            ExceptedHost::Any => true,
            ExceptedHost::Address(address) => host.parse() == Ok(*address),
            ExceptedHost::Network(network) => {
                host.parse::<IpAddr>().is_ok_and(|address| network.contains(&address))
            }
            ExceptedHost::Name(name) => host == name || is_below(name),
            ExceptedHost::Below(domain) => is_below(domain),
        };
        is_host && self.port.is_none_or(|excepted_port| excepted_port == port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(env_vars: &[(&str, &str)]) -> Result<Proxies> {
        let variables: Vec<(String, String)> =
            env_vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Proxies::from_variables(&variables)
    }

    fn text(proxy: Option<&ProxyServer>) -> String {
        proxy.map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn proxy_variables_are_read_in_both_cases() {
        let set = proxies(&[("HTTP_PROXY", "http://p:3128"), ("https_proxy", "q")]).unwrap();
        assert_eq!(text(set.http_proxy(false, "a.com", 80)), "p:3128");
        assert_eq!(text(set.http_proxy(true, "a.com", 443)), "q:80");
        let two_spellings =
            proxies(&[("http_proxy", "http://low:1"), ("HTTP_PROXY", "http://UP:2")]).unwrap();
        assert_eq!(text(two_spellings.http_proxy(false, "a.com", 80)), "up:2");
        let empty = proxies(&[("HTTP_PROXY", ""), ("http_proxy", "http://low:1")]).unwrap();
        assert_eq!(text(empty.http_proxy(false, "a.com", 80)), "low:1");
        assert_eq!(proxies(&[]).unwrap().http_proxy(true, "a.com", 443), None);
    }

    #[test]
    fn loopback_bypasses_proxies_except_bosh_all_proxy() {
        let set = proxies(&[("HTTP_PROXY", "p:1"), ("BOSH_ALL_PROXY", "socks5://s:2")]).unwrap();
        for host in ["localhost", "127.0.0.1", "127.9.9.9", "[::1]", "LOCALHOST."] {
            assert_eq!(set.http_proxy(false, host, 80), None, "{host}");
            assert!(matches!(set.route(host, 80), Route::Socks5(_)), "{host}");
        }
    }

    #[test]
    fn no_proxy_matches_names_domains_addresses_and_networks() {
        let list = "a.com, .b.com,*.c.com,10.0.0.0/8,192.168.1.1,d.com:8080,fd00::/8,[::2]";
        let set = proxies(&[("HTTP_PROXY", "p:1"), ("no_proxy", list)]).unwrap();
        let direct = |host: &str, port| set.http_proxy(false, host, port).is_none();
        for (host, port, expected) in [
            ("a.com", 80, true),
            ("A.com.", 80, true),
            ("x.a.com", 80, true),
            ("xa.com", 80, false),
            ("b.com", 80, false),
            ("x.b.com", 80, true),
            ("c.com", 80, false),
            ("y.x.c.com", 80, true),
            ("10.1.2.3", 80, true),
            ("11.1.2.3", 80, false),
            ("192.168.1.1", 443, true),
            ("d.com", 8080, true),
            ("d.com", 80, false),
            ("[fd00::1]", 80, true),
            ("[::2]", 80, true),
        ] {
            assert_eq!(direct(host, port), expected, "{host}:{port}");
        }
        let default_route = proxies(&[("BOSH_ALL_PROXY", "socks5://s"), ("NO_PROXY", "*")]).unwrap();
        assert_eq!(default_route.route("a.com", 80), &Route::Direct);
    }

    #[test]
    fn bosh_all_proxy_is_socks5_or_a_jumpbox() {
        let socks = proxies(&[("BOSH_ALL_PROXY", "socks5://u:p%40ss@s")]).unwrap();
        let expected =
            ProxyServer { host: "s".into(), port: 1080, credentials: Some(("u".into(), "p@ss".into())) };
        assert_eq!(socks.route("a.com", 80), &Route::Socks5(expected));
        assert_eq!(socks.secrets(), ["p@ss"]);
        let ssh = proxies(&[("BOSH_ALL_PROXY", "ssh+socks5://me@j:2222?private-key=/k%20ey")]).unwrap();
        let Route::Ssh { server, private_key } = ssh.route("a.com", 80) else { panic!("{ssh:?}") };
        assert_eq!((server.to_string().as_str(), private_key.to_str()), ("j:2222", Some("/k ey")));
        assert_eq!(server.credentials, Some(("me".into(), String::new())));
        let no_user = proxies(&[("BOSH_ALL_PROXY", "ssh+socks5://j?private-key=k")]).unwrap();
        let Route::Ssh { server, .. } = no_user.route("a.com", 80) else { panic!("{no_user:?}") };
        assert_eq!((server.port, server.credentials.as_ref().unwrap().0.as_str()), (22, "jumpbox"));
    }

    #[test]
    fn errors_name_the_variable_but_not_its_value() {
        for (name, value) in [
            ("BOSH_ALL_PROXY", "ssh+socks5://me:s3cret@j:22"),
            ("BOSH_ALL_PROXY", "ftp://me:s3cret@j:22"),
            ("HTTPS_PROXY", "socks5://me:s3cret@j:22"),
            ("http_proxy", "http://me:s3cret@j:port"),
        ] {
            let error = proxies(&[(name, value)]).unwrap_err();
            let text = format!("{error:?} {:?}", error.hints());
            assert!(text.contains(name) && !text.contains("s3cret"), "{text}");
        }
    }
}
