//! Trusted certificate authorities for TLS.

use rustls_pki_types::CertificateDer;

/// Returns the certificate authorities that the operating system trusts. Unreadable certificates are skipped.
pub fn load_system_roots() -> Vec<CertificateDer<'static>> {
    let result = rustls_native_certs::load_native_certs();
    for error in &result.errors {
        tracing::debug!(%error, "cannot read a certificate of the operating system");
    }
    result.certs
}

/// Returns the certificates in a PEM text, or `None` if it is not PEM or contains none.
pub fn parse_pem_roots(text: &str) -> Option<Vec<CertificateDer<'static>>> {
    let blocks = pem::parse_many(text).ok()?.into_iter().filter(|block| block.tag() == "CERTIFICATE");
    let roots: Vec<_> = blocks.map(|block| CertificateDer::from(block.into_contents())).collect();
    (!roots.is_empty()).then_some(roots)
}
