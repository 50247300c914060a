//! The address, credentials and CA of the agent, from the mbus URL and the certificate of `cloud_provider`.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use url::Url;

use artifact::{AgentProxy, url_problem};
use base::encoding::percent_decode;
use base::redact::Redactor;
use base::secret::Secret;
use base::{Error, Result};
use net::tls_roots;

/// The port of a URL without one.
const HTTPS_PORT: u16 = 443;

/// The address, credentials and CA of an agent.
#[derive(Clone)]
pub struct AgentEndpoint {
    pub(super) address: String,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    pub(super) user: String,
    pub(super) password: Secret,
    pub(super) trust: ServerTrust,
    /// Certificates that are accepted even if they have expired: those that the VM on record got.
    pub(super) known_certificates: Vec<CertificateDer<'static>>,
    /// The credentials and CAs that the agent of a VM may still have from before a rotation.
    pub(super) previous_endpoints: Vec<AgentEndpoint>,
    /// The proxy on the way to the agent.
    pub(super) proxy: Option<AgentProxy>,
}

/// The servers that are accepted as the agent.
#[derive(Clone)]
pub(super) enum ServerTrust {
    /// Servers with a certificate signed by one of these CAs.
    Roots(Vec<CertificateDer<'static>>),
    AnyServer,
}

impl AgentEndpoint {
    /// Creates an endpoint from `cloud_provider.mbus` and `cloud_provider.cert.ca`.
    pub fn new(mbus: &Secret, ca: Option<&str>, redactor: &Redactor) -> Result<Self> {
        Self::unverified(mbus, redactor)?.verified_by(ca)
    }

    /// Returns the endpoint of a server whose certificate this CA signed.
    pub(super) fn verified_by(mut self, ca: Option<&str>) -> Result<Self> {
        let ca = ca
            .filter(|ca| !ca.trim().is_empty())
            .ok_or_else(|| Error::invalid("`cloud_provider.cert.ca` is missing"))?;
        let roots = tls_roots::parse_pem_roots(ca)
            .ok_or_else(|| Error::invalid("`cloud_provider.cert.ca` has no certificate in PEM format"))?;
        self.trust = ServerTrust::Roots(roots);
        Ok(self)
    }

    /// Creates an endpoint from `cloud_provider.mbus` alone. Any server that answers is accepted as the
    /// agent.
    pub fn unverified(mbus: &Secret, redactor: &Redactor) -> Result<Self> {
        let mbus_error = |message: &str| {
            Error::invalid(message).with_hint("for example https://USER:PASSWORD@10.0.0.5:6868")
        };
        let url = Url::parse(mbus.expose()).map_err(|error| {
            mbus_error("`cloud_provider.mbus` is not a URL").with_source(url_problem(error))
        })?;
        if url.scheme() != "https" {
            let problem = format!("`cloud_provider.mbus` must be an https:// URL, not {}://", url.scheme());
            return Err(mbus_error(&problem));
        }
        let Some(host) = url.host_str() else {
            return Err(mbus_error("`cloud_provider.mbus` has no host"));
        };
        let port = url.port().unwrap_or(HTTPS_PORT);
        Ok(AgentEndpoint {
            address: format!("https://{host}:{port}"),
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            user: percent_decode(url.username()),
            password: Secret::new(percent_decode(url.password().unwrap_or_default()), redactor),
            trust: ServerTrust::AnyServer,
            known_certificates: Vec::new(),
            previous_endpoints: Vec::new(),
            proxy: None,
        })
    }

    /// Accepts an agent with exactly this certificate even if it has expired. Uses only the first certificate
    /// of a PEM text, because the others belong to CAs.
    #[must_use]
    pub(super) fn with_known_certificate(mut self, certificate: Option<&str>) -> Self {
        self.known_certificates =
            certificate.and_then(tls_roots::parse_pem_roots).into_iter().flatten().take(1).collect();
        self
    }

    /// Adds the credentials and CA from before a rotation, unless they are known already.
    pub(super) fn add_previous(&mut self, endpoint: AgentEndpoint) {
        if !std::iter::once(&*self)
            .chain(&self.previous_endpoints)
            .any(|known_endpoint| known_endpoint.is_same(&endpoint))
        {
            self.previous_endpoints.push(endpoint);
        }
    }

    fn is_same(&self, other: &AgentEndpoint) -> bool {
        let roots = |endpoint: &AgentEndpoint| match &endpoint.trust {
            ServerTrust::Roots(roots) => Some(roots.clone()),
            ServerTrust::AnyServer => None,
        };
        (&self.address, &self.user, self.password.expose())
            == (&other.address, &other.user, other.password.expose())
            && roots(self) == roots(other)
            && other
                .known_certificates
                .iter()
                .all(|certificate| self.known_certificates.contains(certificate))
    }

    /// Returns the error with which this client would reject an agent that presents the certificates in a PEM
    /// text, the agent's own first. Makes the same checks as a TLS handshake.
    pub(crate) fn handshake_error(&self, chain_pem: &str, now: UnixTime) -> Option<rustls::Error> {
        let ServerTrust::Roots(root_certificates) = &self.trust else { return None };
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(root_certificates.iter().cloned());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let chain = tls_roots::parse_pem_roots(chain_pem).unwrap_or_default();
        let (Ok(verifier), Some((end_entity, intermediates)), Ok(host)) =
            (verifier, chain.split_first(), ServerName::try_from(self.host()))
        else {
            return Some(rustls::CertificateError::BadEncoding.into());
        };
        verifier.verify_server_cert(end_entity, intermediates, &host, &[], now).err()
    }

    /// Returns the host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port of the URL, or that of HTTPS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns true if a proxy is on the way to the agent.
    pub fn has_proxy(&self) -> bool {
        self.proxy.is_some()
    }

    /// Returns the scheme, host and port, without credentials.
    pub fn address(&self) -> &str {
        &self.address
    }
}
