//! The certificate of the HTTPS server: the one in the settings, or a generated one.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::settings::{Certificate, MbusEndpoint};
use base::{Error, Result};

/// Returns the TLS configuration of the server. Clients authenticate by password, not by certificate.
pub(super) fn server_config(certificate: &Certificate, endpoint: &MbusEndpoint) -> Result<Arc<ServerConfig>> {
    let (chain, key) = if certificate.certificate.trim().is_empty() {
        generate_pair(endpoint)?
    } else {
        parse_pair(certificate)?
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::failure("setting up TLS failed").with_source(error))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| {
            Error::invalid("the certificate and private key in env.bosh.mbus.cert do not belong together")
                .with_source(error)
                .with_hint("set both from the same variable of type certificate")
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A chain of certificates, and the key of the first one.
type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn parse_pair(certificate: &Certificate) -> Result<Pair> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate.certificate.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| Error::invalid("env.bosh.mbus.cert.certificate is not PEM").with_source(error))?;
    let key = PrivateKeyDer::from_pem_slice(certificate.private_key.as_bytes()).map_err(|error| {
        Error::invalid("env.bosh.mbus.cert.private_key is not a PEM key").with_source(error)
    })?;
    Ok((chain, key))
}

/// Generates a self-signed certificate. Clients cannot verify it, so it provides only encryption.
fn generate_pair(endpoint: &MbusEndpoint) -> Result<Pair> {
    let certificate_error =
        |error: rcgen::Error| Error::failure("generating a certificate failed").with_source(error);
    let names = vec![endpoint.host.clone(), "localhost".to_owned()];
    let certified_key = rcgen::generate_simple_self_signed(names).map_err(certificate_error)?;
    let key = PrivateKeyDer::try_from(certified_key.signing_key.serialize_der())
        .map_err(|error| Error::failure(format!("generating a certificate failed: {error}")))?;
    Ok((vec![certified_key.cert.der().clone()], key))
}
