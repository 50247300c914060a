//! TLS to a server with a known certificate, which is accepted even if it has expired.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use ureq::unversioned::transport::time::{Duration, Instant};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

/// Returns TLS settings of a client that trusts these roots. A server that presents exactly one of
/// `known_certificates` is accepted even if the certificate has expired.
pub fn tls_config(
    roots: impl IntoIterator<Item = CertificateDer<'static>>,
    known_certificates: Vec<CertificateDer<'static>>,
) -> Result<Arc<ClientConfig>, rustls::Error> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let webpki_verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider))
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let verifier = Arc::new(Verifier { webpki_verifier, known_certificates });
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    Ok(Arc::new(builder.with_no_client_auth()))
}

/// Verifies as usual. A known certificate that has expired is verified as of the end of its validity.
#[derive(Debug)]
struct Verifier {
    webpki_verifier: Arc<WebPkiServerVerifier>,
    known_certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.webpki_verifier.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext {
                not_after, ..
            })) if self.known_certificates.iter().any(|certificate| certificate == end_entity) => {
                self.webpki_verifier.verify_server_cert(end_entity, intermediates, name, ocsp, not_after)
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki_verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki_verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki_verifier.supported_verify_schemes()
    }
}

/// Wraps connections in TLS with these settings. ureq's own connector takes no verifier.
pub(crate) struct TlsConnector(pub(crate) Arc<ClientConfig>);

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConnector")
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = TlsConnection;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        transport: Option<In>,
    ) -> Result<Option<TlsConnection>, ureq::Error> {
        let Some(transport) = transport else { return Ok(None) };
        let host = details.uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| ureq::Error::Tls("the host is neither a name nor an address"))?;
        let mut connection = ClientConnection::new(Arc::clone(&self.0), name)?;
        let mut transport = TransportAdapter::new(transport.boxed(), details.current_time.clone());
        transport.set_timeout(remaining_timeout(details));
        connection.complete_io(&mut transport)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(TlsConnection { buffers, stream: StreamOwned::new(connection, transport) }))
    }
}

/// Returns the timeout of the connection without the time that it took so far.
fn remaining_timeout(details: &ConnectionDetails<'_>) -> NextTimeout {
    let mut timeout = details.timeout;
    if let (Duration::Exact(connect_timeout), Instant::Exact(start)) = (timeout.after, details.now) {
        timeout.after = Duration::Exact(connect_timeout.saturating_sub(start.elapsed()));
    }
    timeout
}

/// A TLS connection with ureq's buffers.
pub(crate) struct TlsConnection {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for TlsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Transport for TlsConnection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        Ok(self.stream.write_all(&self.buffers.output()[..amount])?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;

    const HOST: &str = "192.0.2.1";

    /// Returns a certificate of `host` that is valid during `year`.
    fn issue_certificate(authority: &Issuer<'_, KeyPair>, host: &str, year: i32) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(year, 1, 1);
        params.not_after = rcgen::date_time_ymd(year + 1, 1, 1);
        params.signed_by(&KeyPair::generate().unwrap(), authority).unwrap().der().clone()
    }

    #[test]
    fn accepts_only_known_expired_certificates() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap().der().clone();
        let authority = Issuer::new(params, key);
        let mut foreign_params = CertificateParams::new(Vec::new()).unwrap();
        foreign_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let foreign_authority = Issuer::new(foreign_params, KeyPair::generate().unwrap());

        let known_certificate = issue_certificate(&authority, HOST, 2020);
        let certificate_of_other_host = issue_certificate(&authority, "192.0.2.2", 2020);
        let foreign_certificate = issue_certificate(&foreign_authority, HOST, 2020);
        let mut roots = RootCertStore::empty();
        roots.add(root).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let webpki_verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let verifier = Verifier {
            webpki_verifier,
            known_certificates: vec![
                known_certificate.clone(),
                certificate_of_other_host.clone(),
                foreign_certificate.clone(),
            ],
        };
        let accepts = |certificate: &CertificateDer<'_>| {
            let host = ServerName::try_from(HOST).unwrap();
            // A day in 2025.
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_740_000_000));
            verifier.verify_server_cert(certificate, &[], &host, &[], now).is_ok()
        };
        assert!(accepts(&known_certificate));
        assert!(accepts(&issue_certificate(&authority, HOST, 2025)), "a valid certificate is rejected");
        assert!(
            !accepts(&issue_certificate(&authority, HOST, 2020)),
            "an expired certificate that is not known is accepted"
        );
        assert!(!accepts(&certificate_of_other_host), "a known certificate of another host is accepted");
        assert!(!accepts(&foreign_certificate), "a known certificate of another CA is accepted");
    }
}
