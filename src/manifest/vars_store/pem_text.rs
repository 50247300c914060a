//! PEM in the form of OpenSSL and Go: lines of 64 characters that end with a line feed.

/// Encodes `der` under a label such as `CERTIFICATE`.
pub(super) fn encode(label: &str, der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(label, der), config)
}

/// Returns the PEM blocks of a text in order. Returns an empty list if it is not PEM.
pub(super) fn parse_blocks(text: &str) -> Vec<pem::Pem> {
    pem::parse_many(text).unwrap_or_default()
}

/// Returns the DER of the certificates in a text, in order.
pub(super) fn certificates(text: &str) -> Vec<Vec<u8>> {
    parse_blocks(text)
        .into_iter()
        .filter(|block| matches!(block.tag(), "CERTIFICATE" | "TRUSTED CERTIFICATE" | "X509 CERTIFICATE"))
        .map(pem::Pem::into_contents)
        .collect()
}
