//! PEM as OpenSSL and Go write it: lines of 64, `\n`.

/// `der` under a label such as `CERTIFICATE`.
pub(super) fn encode(label: &str, der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(label, der), config)
}

/// The blocks in a text, in order; none if it is not PEM.
pub(super) fn blocks(text: &str) -> Vec<pem::Pem> {
    pem::parse_many(text).unwrap_or_default()
}

/// The DER of the certificates in a text, in order.
pub(super) fn certificates(text: &str) -> Vec<Vec<u8>> {
    blocks(text)
        .into_iter()
        .filter(|block| matches!(block.tag(), "CERTIFICATE" | "TRUSTED CERTIFICATE" | "X509 CERTIFICATE"))
        .map(pem::Pem::into_contents)
        .collect()
}
