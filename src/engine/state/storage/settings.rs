//! Access to a bucket, configured by the same environment variables as the tools of the services.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use serde::{Deserialize, Serialize};

use super::address::{BucketPrefix, BucketUrl, Service};
use super::bucket_client::plain_cause;
use super::http::{Interruption, RequestSender};
use super::lease::LEASE_SECONDS;
use artifact::{InterruptCheck, url_problem};
use base::redact::Redactor;
use base::{Error, Result};

/// The timeout of a request to a bucket, from the connection to the last byte of the answer. Objects are
/// small.
pub const BUCKET_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The timeout for sending a failed request to a bucket again. It is shorter than a lease.
pub const BUCKET_RETRY_TIMEOUT: Duration = Duration::from_secs(20);
/// The default length of a lease, without renewal.
pub(super) const DEFAULT_LEASE_DURATION: Duration = Duration::from_secs(60);

/// The address of a state in a bucket, and the settings to reach it.
#[derive(Clone, Serialize, Deserialize)]
pub struct BucketSettings {
    pub(super) address: BucketUrl,
    /// The relevant environment variables, with credentials and proxies.
    #[serde(rename = "variables")]
    env_vars: Vec<(String, String)>,
    /// The path of this program, which is also the keeper; `None` to run without a keeper.
    pub(super) executable: Option<PathBuf>,
    pub(super) lease_duration: Duration,
    /// Fails if a signal ends the run. The keeper does not get this check, because it ignores signals.
    #[serde(skip, default = "never_interrupted")]
    interrupt_check: InterruptCheck,
}

fn never_interrupted() -> InterruptCheck {
    Arc::new(|| Ok(()))
}

impl fmt::Debug for BucketSettings {
    // The variables hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BucketSettings({})", self.address)
    }
}

impl BucketSettings {
    /// Creates the settings for `address` from the environment `env_vars`. Adds the secrets among them to
    /// the redactor.
    pub fn new(
        address: BucketUrl,
        env_vars: &[(String, String)],
        executable: Option<PathBuf>,
        redactor: &Redactor,
    ) -> Self {
        let prefix = match address.service {
            Service::S3 => "AWS_",
            Service::Gcs => "GOOGLE_",
            Service::Azure => "AZURE_",
        };
        let is_proxy_variable = |name: &str| name.to_ascii_lowercase().ends_with("_proxy");
        let used_variables = env_vars.iter().filter(|(name, value)| {
            !value.is_empty()
                && (name.starts_with(prefix) || is_proxy_variable(name) || name == "IDENTITY_ENDPOINT")
        });
        let env_vars = used_variables.cloned().collect();
        let interrupt_check = never_interrupted();
        let settings = BucketSettings {
            address,
            env_vars,
            executable,
            lease_duration: DEFAULT_LEASE_DURATION,
            interrupt_check,
        };
        settings.secrets().iter().for_each(|secret| redactor.add(secret));
        settings
    }

    /// Creates the settings to list the states below `prefix`.
    pub fn for_listing(
        prefix: BucketPrefix,
        env_vars: &[(String, String)],
        interrupt_check: InterruptCheck,
        redactor: &Redactor,
    ) -> Self {
        BucketSettings::new(prefix.0, env_vars, None, redactor).with_interruption(interrupt_check)
    }

    /// Sets the length of a lease without renewal, limited to the range from 3 seconds to an hour.
    #[must_use]
    pub fn with_lease(self, lease_duration: Duration) -> Self {
        let (shortest_seconds, longest_seconds) = (*LEASE_SECONDS.start(), *LEASE_SECONDS.end());
        BucketSettings {
            lease_duration: lease_duration
                .clamp(Duration::from_secs(shortest_seconds), Duration::from_secs(longest_seconds)),
            ..self
        }
    }

    /// Sets the check that fails when a signal ends the run.
    #[must_use]
    pub fn with_interruption(self, interrupt_check: InterruptCheck) -> Self {
        BucketSettings { interrupt_check, ..self }
    }

    /// Returns the reaction of a new client's requests to a signal.
    pub(super) fn interruption(&self) -> Interruption {
        Interruption::new(Arc::clone(&self.interrupt_check))
    }

    /// Returns a text that identifies this state on this machine. It includes the server and the account,
    /// because buckets on different servers may have the same name.
    pub fn identity(&self) -> String {
        let account = self.variable("AZURE_STORAGE_ACCOUNT_NAME").unwrap_or_default();
        let server = self.endpoint().map(|(_, url)| url.trim_end_matches('/').to_owned()).unwrap_or_default();
        format!("{} {account} {server}", self.address)
    }

    /// Returns the secrets among the variables.
    fn secrets(&self) -> Vec<String> {
        const SECRET: [&str; 5] = ["SECRET", "TOKEN", "KEY", "SAS", "PASSWORD"];
        // Variables with these endings only name something.
        const NAMES: [&str; 4] = ["_KEY_ID", "_FILE", "_URI", "_URL"];
        let is_secret = |name: &str| {
            SECRET.iter().any(|word| name.contains(word)) && !NAMES.iter().any(|end| name.ends_with(end))
        };
        let secret_values =
            self.env_vars.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.clone());
        // In a token in the form of a query, the signature is also secret. In a key in the form of a
        // document, so is the private key.
        let signatures = self.env_vars.iter().filter(|(name, _)| is_secret(name)).flat_map(|(_, value)| {
            let pairs = url::form_urlencoded::parse(value.trim_start_matches('?').as_bytes());
            pairs.filter(|(name, _)| name == "sig").map(|(_, value)| value.into_owned()).collect::<Vec<_>>()
        });
        let key = self.service_account().and_then(|key| Some(key.get("private_key")?.as_str()?.to_owned()));
        let proxies = artifact::create_client(&self.env_vars, BUCKET_REQUEST_TIMEOUT, never_interrupted())
            .map(|(_, secrets)| secrets);
        secret_values.chain(signatures).chain(key).chain(proxies.unwrap_or_default()).collect()
    }

    /// Returns the key of a Google service account, if the environment holds the key itself.
    fn service_account(&self) -> Option<serde_json::Value> {
        serde_json::from_str(self.variable("GOOGLE_SERVICE_ACCOUNT_KEY")?).ok()
    }

    /// Returns the configured server that replaces the service's own, and the variable that names it.
    pub(super) fn endpoint(&self) -> Option<(&'static str, String)> {
        let names: &[&str] = match self.address.service {
            Service::S3 => &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"],
            Service::Gcs => &["GOOGLE_BASE_URL"],
            Service::Azure => &["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"],
        };
        let variable = names.iter().find_map(|name| Some((*name, self.variable(name)?.to_owned())));
        variable.or_else(|| {
            let url = self.service_account()?.get("gcs_base_url")?.as_str()?.to_owned();
            Some(("GOOGLE_SERVICE_ACCOUNT_KEY", url))
        })
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.env_vars.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Creates the client of the bucket. Makes no request.
    pub(super) fn create_client(&self, interruption: &Interruption) -> Result<Arc<dyn ObjectStore>> {
        let client_interruption = interruption.clone();
        let (client, _) = artifact::create_client(
            &self.env_vars,
            BUCKET_REQUEST_TIMEOUT,
            Arc::new(move || client_interruption.check()),
        )?;
        let request_sender = RequestSender { client, interruption: interruption.clone() };
        let retry = RetryConfig {
            max_retries: 6,
            retry_timeout: BUCKET_RETRY_TIMEOUT,
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(200),
                max_backoff: Duration::from_secs(5),
                base: 2.,
            },
        };
        // `check_endpoint` checks URLs with http.
        let options = ClientOptions::new().with_allow_http(true);
        let settings_of = |prefix: &'static str| {
            let service_variables = self.env_vars.iter().filter(move |(name, _)| name.starts_with(prefix));
            service_variables.map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
        };
        self.check_endpoint()?;
        let bucket = &self.address.bucket;
        let store_result = match self.address.service {
            Service::S3 => {
                let mut builder = AmazonS3Builder::new().with_region("us-east-1");
                if let Some(region) = self.variable("AWS_DEFAULT_REGION") {
                    builder = builder.with_region(region);
                }
                for (key, value) in settings_of("AWS_") {
                    if let Ok(key) = key.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let builder = builder.with_bucket_name(bucket).with_client_options(options);
                builder
                    // Objects are deleted one at a time. Every server supports this, and some support a
                    // condition for it.
                    .with_disable_bulk_delete(true)
                    .with_retry(retry)
                    .with_http_connector(request_sender)
                    .build()
                    .map(|store| Arc::new(store) as _)
            }
            Service::Gcs => {
                let mut builder = GoogleCloudStorageBuilder::new();
                for (key, value) in settings_of("GOOGLE_") {
                    if let Ok(key) = key.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let builder = builder.with_bucket_name(bucket).with_client_options(options);
                builder
                    .with_retry(retry)
                    .with_http_connector(request_sender)
                    .build()
                    .map(|store| Arc::new(store) as _)
            }
            Service::Azure => {
                let mut builder = MicrosoftAzureBuilder::new();
                for (key, value) in settings_of("AZURE_") {
                    if let Ok(key) = key.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                if let Some(endpoint) = self.variable("IDENTITY_ENDPOINT") {
                    builder = builder.with_msi_endpoint(endpoint);
                }
                let builder = builder.with_container_name(bucket).with_client_options(options);
                builder
                    .with_retry(retry)
                    .with_http_connector(request_sender)
                    .build()
                    .map(|store| Arc::new(store) as _)
            }
        };
        store_result.map_err(|error| {
            Error::usage(format!(
                "the settings for '{}' in the environment variables cannot be used",
                self.address
            ))
            .with_source(plain_cause(&error.to_string()))
            .with_hints(self.advice().iter().copied())
        })
    }

    /// Returns hints about the variables to set.
    pub(super) fn advice(&self) -> &'static [&'static str] {
        match self.address.service {
            Service::S3
                if self.variable("AWS_PROFILE").is_some() && self.variable("AWS_ACCESS_KEY_ID").is_none() =>
            {
                &["monopile does not read profiles (AWS_PROFILE); to export the credentials of one: \
                   `eval \"$(aws configure export-credentials --format env)\"`"]
            }
            Service::S3 => &[
                "set the credentials: `export AWS_ACCESS_KEY_ID=KEY AWS_SECRET_ACCESS_KEY=SECRET \
                 AWS_REGION=REGION`",
                "set AWS_SESSION_TOKEN as well for temporary credentials, and AWS_ENDPOINT_URL for a server \
                 other than Amazon's",
                "allow the key to read, write, list and delete objects",
            ],
            Service::Gcs => &[
                "set the key file of a service account: `export GOOGLE_APPLICATION_CREDENTIALS=FILE`",
                "allow the account to read, write, list and delete objects",
            ],
            Service::Azure => &["set AZURE_STORAGE_ACCOUNT_NAME, and either AZURE_STORAGE_ACCOUNT_KEY, or \
                 AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"],
        }
    }

    /// Rejects endpoints that would send the state and signatures unencrypted over a network.
    fn check_endpoint(&self) -> Result<()> {
        let Some((name, endpoint)) = self.endpoint() else { return Ok(()) };
        let unusable_value_error = |reason: String| Error::usage(format!("{name} cannot be used: {reason}"));
        let url = url::Url::parse(&endpoint).map_err(|error| {
            unusable_value_error("it is not a URL".to_owned()).with_source(url_problem(error))
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(unusable_value_error(
                "it contains credentials, which belong in variables of their own".to_owned(),
            ));
        }
        let is_loopback = match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => return Err(unusable_value_error("it has no host".to_owned())),
        };
        let allow = match self.address.service {
            Service::S3 => "AWS_ALLOW_HTTP",
            Service::Gcs => "GOOGLE_ALLOW_HTTP",
            Service::Azure => "AZURE_ALLOW_HTTP",
        };
        let is_http_allowed = self.variable(allow).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        match url.scheme() {
            "https" => Ok(()),
            "http" if is_loopback || is_http_allowed => Ok(()),
            "http" => {
                Err(unusable_value_error("with http://, the whole network could read the state".into())
                    .with_hint(format!("use https://, or set {allow}=true")))
            }
            other => Err(unusable_value_error(format!("'{other}' is neither https nor http"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_interruption() -> Interruption {
        Interruption::new(never_interrupted())
    }

    fn settings(url: &str, env_vars: &[(&str, &str)]) -> BucketSettings {
        let env_vars: Vec<_> =
            env_vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        BucketSettings::new(BucketUrl::parse(url).unwrap().unwrap(), &env_vars, None, &Redactor::default())
    }

    #[test]
    fn credentials_are_secret_and_names_are_not() {
        let settings = settings(
            "s3://b/k",
            &[
                ("AWS_ACCESS_KEY_ID", "AKIA1"),
                ("AWS_SECRET_ACCESS_KEY", "s1"),
                ("AWS_SESSION_TOKEN", "s2"),
                ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
                ("HTTPS_PROXY", "http://me:s3@proxy:1"),
                ("UNRELATED_SECRET", "x"),
            ],
        );
        assert_eq!(settings.secrets(), ["s1", "s2", "s3"]);
        assert!(!format!("{settings:?}").contains("s1"));
    }

    #[test]
    fn signing_keys_are_secret_in_every_form() {
        let sas = settings("az://c/k", &[("AZURE_STORAGE_SAS_TOKEN", "?sv=2025&sig=a%2Bb%3D")]);
        assert!(sas.secrets().contains(&"a+b=".to_owned()), "{:?}", sas.secrets());
        let key = settings("gs://b/k", &[("GOOGLE_SERVICE_ACCOUNT_KEY", r#"{"private_key": "a\nb"}"#)]);
        assert!(key.secrets().contains(&"a\nb".to_owned()), "{:?}", key.secrets());
    }

    #[test]
    fn same_bucket_on_two_servers_is_two_states() {
        let identity = |url: &str, name: &str, value: &str| settings(url, &[(name, value)]).identity();
        let account = |name: &str| identity("az://c/k", "AZURE_STORAGE_ACCOUNT_NAME", name);
        assert_ne!(account("production"), account("trial"));
        let server = |url: &str| identity("s3://b/k", "AWS_ENDPOINT_URL", url);
        assert_ne!(server("https://a"), server("https://b"));
        assert_eq!(server("https://a"), server("https://a/"));
        assert_ne!(server("https://a"), settings("s3://b/k", &[]).identity());
    }

    #[test]
    fn each_service_reads_its_own_variables() {
        let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_REGION", "eu-west-1")];
        let store = settings("s3://bucket/k", &keys).create_client(&no_interruption()).unwrap();
        assert_eq!(store.to_string(), "AmazonS3(bucket)");
        let keys = [("AZURE_STORAGE_ACCOUNT_NAME", "account"), ("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")];
        let store = settings("az://container/k", &keys).create_client(&no_interruption()).unwrap();
        assert!(store.to_string().contains("account: account, container: container"), "{store}");
        let key = r#"{"private_key": "s", "private_key_id": "i", "client_email": "e", "gcs_base_url": "http://127.0.0.1:1", "disable_oauth": true}"#;
        let store = settings("gs://bucket/k", &[("GOOGLE_SERVICE_ACCOUNT_KEY", key)])
            .create_client(&no_interruption())
            .unwrap();
        assert_eq!(store.to_string(), "GoogleCloudStorage(bucket)");
    }

    #[test]
    fn missing_or_unsafe_settings_are_reported() {
        let error = settings("az://container/k", &[]).create_client(&no_interruption()).unwrap_err();
        assert!(error.hints()[0].contains("AZURE_STORAGE_ACCOUNT_NAME"), "{error:?}");
        for (endpoint, part) in [
            ("http://s3.example.com", "whole network"),
            ("s3.example.com", "not a URL"),
            ("ftp://s3.example.com", "neither https nor http"),
            ("https://me:secret@s3.example.com", "contains credentials"),
        ] {
            let error = settings("s3://b/k", &[("AWS_ENDPOINT_URL", endpoint)])
                .create_client(&no_interruption())
                .unwrap_err();
            let message = error.chain().join(" ");
            assert!(message.contains(part) && !message.contains("secret"), "{endpoint}: {error:?}");
        }
        let key = r#"{"private_key": "s", "private_key_id": "i", "client_email": "e", "gcs_base_url": "http://gcs.lan"}"#;
        for (url, name, endpoint) in [
            ("az://c/k", "AZURE_STORAGE_ENDPOINT", "http://blobs.lan"),
            ("gs://b/k", "GOOGLE_BASE_URL", "http://gcs.lan"),
            ("gs://b/k", "GOOGLE_SERVICE_ACCOUNT_KEY", key),
        ] {
            let error = settings(url, &[(name, endpoint)]).create_client(&no_interruption()).unwrap_err();
            let message = error.chain().join(" ");
            assert!(message.contains(name) && message.contains("whole network"), "{error:?}");
        }
        for env_vars in [
            vec![("AWS_ENDPOINT_URL", "http://127.0.0.1:9")],
            vec![("AWS_ENDPOINT_URL", "http://s3.lan:9"), ("AWS_ALLOW_HTTP", "true")],
            vec![("AWS_ENDPOINT_URL", "https://s3.lan:9")],
        ] {
            settings("s3://b/k", &env_vars).create_client(&no_interruption()).unwrap();
        }
        let profile = settings("s3://b/k", &[("AWS_PROFILE", "x")]);
        assert!(profile.advice()[0].contains("export-credentials"));
    }
}
