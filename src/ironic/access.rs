//! The settings of a connection to Ironic: its endpoint and the credentials.

use std::fmt;

use rustls_pki_types::CertificateDer;
use serde::Deserialize;

use super::version::Microversion;
use base::redact::Redactor;
use base::secret::Secret;
use base::{Error, Result};
use net::tls_roots;

/// The settings of a connection, named like those of OpenStack's clients (`OS_ENDPOINT` and so on). Also the
/// form of the section `ironic` in the CPI's configuration.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AccessSettings {
    /// `none`, `http_basic` or `password`. Default: `password` if there is an `auth_url`, else `http_basic`
    /// if there is a `username`, else `none`.
    pub auth_type: Option<String>,
    /// Ironic's URL. Optional with `password`, where the service catalogue has it.
    pub endpoint: Option<String>,
    /// Keystone's URL, with or without `/v3`.
    pub auth_url: Option<String>,
    /// The name of the user.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// The domain of the user. Default: `Default`.
    pub user_domain_name: Option<String>,
    /// The project that the token is scoped to.
    pub project_name: Option<String>,
    /// The domain of the project. Default: `Default`.
    pub project_domain_name: Option<String>,
    /// `all` scopes the token to the whole system instead of a project.
    pub system_scope: Option<String>,
    /// The region of the endpoint in the catalogue. Default: any.
    pub region_name: Option<String>,
    /// The interface of the endpoint in the catalogue: `public`, `internal` or `admin`. Default: `public`.
    pub interface: Option<String>,
    /// Certificates of the trusted authorities in PEM. Default: those of the operating system.
    pub cacert: Option<String>,
    /// The API version to use, such as `1.72`. Default: the newest that client and server support.
    pub api_version: Option<String>,
}

/// The endpoint and credentials that [`AccessSettings`] describe, checked and parsed.
#[derive(Clone)]
pub struct CheckedAccess {
    pub(super) endpoint: Option<String>,
    pub(super) auth: Auth,
    pub(super) roots: Option<Vec<CertificateDer<'static>>>,
    pub(super) version: Option<Microversion>,
}

/// The authentication, with its credentials.
#[derive(Clone)]
pub(super) enum Auth {
    None,
    Basic { user: String, password: Secret },
    Keystone(Box<Keystone>),
}

/// The data of a token request (Identity API v3, "Password authentication").
#[derive(Clone)]
pub(super) struct Keystone {
    pub(super) url: String,
    pub(super) user: String,
    pub(super) password: Secret,
    pub(super) user_domain: String,
    pub(super) scope: Scope,
    pub(super) region: Option<String>,
    pub(super) interface: String,
}

/// The scope of a token: the whole system, or one project.
#[derive(Clone)]
pub(super) enum Scope {
    System,
    Project { name: String, domain: String },
}

impl fmt::Debug for AccessSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessSettings").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl AccessSettings {
    /// Checks the settings. The password becomes a secret of `redactor`.
    pub fn check(self, redactor: &Redactor) -> Result<CheckedAccess, SettingError> {
        self.check_named(redactor, &|setting| format!("`{setting}`"))
    }

    /// Like [`Self::check`]. `name` returns a setting as errors name it.
    pub fn check_named(
        self,
        redactor: &Redactor,
        name: &dyn Fn(&str) -> String,
    ) -> Result<CheckedAccess, SettingError> {
        let auth_type = match (self.auth_type.as_deref(), &self.auth_url, &self.username) {
            (Some(auth_type), ..) => auth_type,
            (None, Some(_), _) => "password",
            (None, None, Some(_)) => "http_basic",
            (None, None, None) => "none",
        };
        let require = |value: &Option<String>, setting| match value {
            Some(value) if !value.is_empty() => Ok(value.clone()),
            _ => Err(SettingError {
                setting,
                error: Error::usage(format!(
                    "authentication '{auth_type}' at Ironic needs {}",
                    name(setting)
                )),
                is_missing: true,
            }),
        };
        let password = || require(&self.password, "password").map(|password| Secret::new(password, redactor));
        let or_default = |value: &Option<String>| value.clone().unwrap_or_else(|| "Default".to_owned());
        let auth = match auth_type {
            "none" => Auth::None,
            "http_basic" => Auth::Basic { user: require(&self.username, "username")?, password: password()? },
            "password" | "v3password" => Auth::Keystone(Box::new(Keystone {
                url: check_url_setting(&require(&self.auth_url, "auth_url")?, "auth_url", name, "/v3")?,
                user: require(&self.username, "username")?,
                password: password()?,
                user_domain: or_default(&self.user_domain_name),
                scope: match self.system_scope.as_deref() {
                    None | Some("") => Scope::Project {
                        name: require(&self.project_name, "project_name")?,
                        domain: or_default(&self.project_domain_name),
                    },
                    Some("all") => Scope::System,
                    Some(other) => {
                        let problem = format!("{} must be 'all', not '{other}'", name("system_scope"));
                        return Err(SettingError::new("system_scope", problem));
                    }
                },
                region: self.region_name.clone(),
                interface: match self.interface.as_deref().unwrap_or("public") {
                    // The second form is from catalogues of the Identity API v2.
                    interface @ ("public" | "internal" | "admin") => interface.to_owned(),
                    url @ ("publicURL" | "internalURL" | "adminURL") => {
                        url.trim_end_matches("URL").to_owned()
                    }
                    other => {
                        let name = name("interface");
                        let problem = format!("{name} must be public, internal or admin, not '{other}'");
                        return Err(SettingError::new("interface", problem));
                    }
                },
            })),
            other => {
                let name = name("auth_type");
                let problem = format!("{name} must be none, http_basic or password, not '{other}'");
                return Err(SettingError::new("auth_type", problem));
            }
        };
        let endpoint = match &self.endpoint {
            Some(endpoint) => Some(check_url_setting(endpoint, "endpoint", name, "/v1")?),
            None if matches!(auth, Auth::Keystone(_)) => None,
            None => {
                return Err(SettingError {
                    setting: "endpoint",
                    error: Error::usage(format!("no URL of Ironic is given ({})", name("endpoint"))),
                    is_missing: true,
                });
            }
        };
        let roots = match &self.cacert {
            None => None,
            Some(pem) => Some(tls_roots::parse_pem_roots(pem).ok_or_else(|| {
                SettingError::new("cacert", format!("{} contains no certificate in PEM", name("cacert")))
            })?),
        };
        let version = match &self.api_version {
            Some(text) => {
                Some(text.parse().map_err(|problem: String| SettingError::new("api_version", problem))?)
            }
            None => None,
        };
        Ok(CheckedAccess { endpoint, auth, roots, version })
    }
}

/// The error for a setting that is missing or wrong. It names the setting.
#[derive(Debug)]
pub struct SettingError {
    /// The setting, a field of [`AccessSettings`].
    pub setting: &'static str,
    /// The error.
    pub error: Error,
    /// True if the setting is missing.
    pub is_missing: bool,
}

impl SettingError {
    fn new(setting: &'static str, problem: impl Into<String>) -> Self {
        SettingError { setting, error: Error::usage(problem), is_missing: false }
    }
}

impl From<SettingError> for Error {
    fn from(error: SettingError) -> Self {
        error.error
    }
}

/// Checks the URL of a setting with [`check_http_url`].
fn check_url_setting(
    text: &str,
    setting: &'static str,
    name: &dyn Fn(&str) -> String,
    suffix: &str,
) -> Result<String, SettingError> {
    check_http_url(text, setting, name, suffix).map_err(|error| SettingError {
        setting,
        error,
        is_missing: false,
    })
}

/// Checks an `http` or `https` URL and strips trailing slashes and `suffix` from it. `name` returns a setting
/// as errors name it.
pub(super) fn check_http_url(
    text: &str,
    setting: &str,
    name: &dyn Fn(&str) -> String,
    suffix: &str,
) -> Result<String> {
    let shown_setting = name(setting);
    let not_http_error = || {
        let error = format!("{shown_setting} must begin with http:// or https://");
        match text.split_once("://") {
            Some((scheme, _)) => Error::usage(format!("{error}, not {scheme}://")),
            // The rest of a URL is shown only if it has no password.
            None if text.contains('@') => Error::usage(error),
            None => Error::usage(error).with_hint(format!("write http://{text} or https://{text}")),
        }
    };
    let url = url::Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => not_http_error(),
        other => Error::usage(format!("{shown_setting} is not a URL")).with_source(other),
    })?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
        return Err(not_http_error());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::usage(format!("{shown_setting} must not contain a user or a password"))
            .with_hint(format!("set {} and {} instead", name("username"), name("password"))));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Error::usage(format!("{shown_setting} must not have a query or a fragment")));
    }
    let text = url.as_str().trim_end_matches('/');
    Ok(text.strip_suffix(suffix).unwrap_or(text).trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(value: serde_json::Value) -> Result<CheckedAccess> {
        serde_json::from_value::<AccessSettings>(value)
            .unwrap()
            .check(&Redactor::default())
            .map_err(Error::from)
    }

    #[test]
    fn authentication_follows_the_given_settings() {
        let auth = |value| settings(value).unwrap().auth;
        let endpoint = "http://h:6385/v1/";
        assert!(matches!(auth(serde_json::json!({"endpoint": endpoint})), Auth::None));
        let basic = serde_json::json!({"endpoint": endpoint, "username": "u", "password": "p"});
        assert!(matches!(auth(basic), Auth::Basic { .. }));
        let keystone = serde_json::json!({
            "auth_url": "https://k/identity/v3", "username": "u", "password": "p", "project_name": "x",
        });
        let Auth::Keystone(keystone) = auth(keystone) else { panic!() };
        assert_eq!((keystone.url.as_str(), keystone.user_domain.as_str()), ("https://k/identity", "Default"));
    }

    #[test]
    fn version_is_stripped_from_the_endpoint() {
        for text in ["http://h:6385", "http://h:6385/", "http://h:6385/v1", "http://h:6385/v1/"] {
            let access = settings(serde_json::json!({"endpoint": text})).unwrap();
            assert_eq!(access.endpoint.unwrap(), "http://h:6385");
        }
        let access = settings(serde_json::json!({"endpoint": "https://h/baremetal/v1"})).unwrap();
        assert_eq!(access.endpoint.unwrap(), "https://h/baremetal");
    }

    #[test]
    fn url_without_a_scheme_is_completed_unless_it_has_a_password() {
        let error = |endpoint: &str| settings(serde_json::json!({"endpoint": endpoint})).err().unwrap();
        let hint = "write http://localhost:6385 or https://localhost:6385";
        assert_eq!(error("localhost:6385").hints(), [hint]);
        assert!(error("u:s3cret@h").hints().is_empty());
        assert_eq!(
            error("ftp://h").to_string(),
            "`endpoint` must begin with http:// or https://, not ftp://"
        );
    }

    #[test]
    fn errors_name_the_setting_and_do_not_quote_secrets() {
        for (value, name) in [
            (serde_json::json!({}), "endpoint"),
            (serde_json::json!({"endpoint": "ftp://h"}), "endpoint"),
            (serde_json::json!({"endpoint": "http://u:s3cret@h"}), "username"),
            (
                serde_json::json!({"endpoint": "http://h", "auth_type": "http_basic", "username": "u"}),
                "password",
            ),
            (
                serde_json::json!({"auth_url": "http://h", "username": "u", "password": "s3cret"}),
                "project_name",
            ),
            (serde_json::json!({"endpoint": "http://h", "auth_type": "s3cret?"}), "must be none, http_basic"),
            (serde_json::json!({"endpoint": "http://h", "cacert": "s3cret"}), "cacert"),
            (serde_json::json!({"endpoint": "http://h", "api_version": "latest"}), "latest"),
        ] {
            let error = settings(value).err().unwrap();
            let text = format!("{error:?} {}", error.hints().join(" "));
            assert!(
                text.contains(name) && !text.contains("s3cret@") && !text.contains("\"s3cret\""),
                "{text}"
            );
        }
    }
}
