//! Which certificate authorities TLS believes.

use rustls_pki_types::CertificateDer;

/// What the operating system trusts: a company's own authority works as it does for every other tool, and a
/// revoked one stops working.
pub fn system_roots() -> Vec<CertificateDer<'static>> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "a certificate of the operating system cannot be read");
    }
    found.certs
}

/// The certificates in a PEM text; `None` when it is not PEM, or holds none.
pub fn pem_roots(text: &str) -> Option<Vec<CertificateDer<'static>>> {
    let blocks = pem::parse_many(text).ok()?.into_iter().filter(|block| block.tag() == "CERTIFICATE");
    let roots: Vec<_> = blocks.map(|block| CertificateDer::from(block.into_contents())).collect();
    (!roots.is_empty()).then_some(roots)
}
