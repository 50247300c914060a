//! Errors of the TLS, HTTP and SSH libraries in plain English, for causes of messages.

use std::io;

use russh::ChannelOpenFailure;
use rustls::CertificateError;

use crate::http_client::UnresolvedHost;
use base::encoding::minute;
use base::error::os_problem;
use base::text::comma_list;

/// Returns true if the connection failed because the server's certificate is not accepted.
pub fn is_untrusted(error: &ureq::Error) -> bool {
    matches!(tls_error(error), Some(rustls::Error::InvalidCertificate(_)))
}

/// Returns true if the server does not answer with TLS, such as one that serves plain HTTP.
pub fn is_without_tls(error: &ureq::Error) -> bool {
    matches!(tls_error(error), Some(rustls::Error::InvalidMessage(_)))
}

/// Returns true if the host name has no address.
pub fn is_unresolved(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::HostNotFound => true,
        ureq::Error::Io(error) => error.get_ref().is_some_and(|inner| inner.is::<UnresolvedHost>()),
        _ => false,
    }
}

fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(problem) => Some(problem),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref::<rustls::Error>(),
        _ => None,
    }
}

/// Returns true if the certificate is refused because it is that of a certificate authority.
pub fn is_of_authority(problem: &CertificateError) -> bool {
    matches!(problem, CertificateError::Other(other) if other.0.to_string().contains("CaUsedAsEndEntity"))
}

/// Describes a failed TLS handshake, in a clause about the server.
pub fn tls_problem(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(problem) => match problem {
            CertificateError::Expired => "its certificate has expired".to_owned(),
            CertificateError::ExpiredContext { not_after, .. } => {
                format!("its certificate expired on {}", minute(not_after.as_secs()))
            }
            CertificateError::NotValidYet => "its certificate is not valid yet".to_owned(),
            CertificateError::NotValidYetContext { not_before, .. } => {
                format!("its certificate is not valid before {}", minute(not_before.as_secs()))
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is not signed by a certificate authority that is trusted here".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another host".to_owned()
            }
            other if is_of_authority(other) => {
                "its certificate is a CA certificate, not that of a server".to_owned()
            }
            CertificateError::BadEncoding => {
                "its certificate is damaged, or is not an X.509 certificate".to_owned()
            }
            CertificateError::Other(other) if other.0.to_string().contains("UnsupportedCertVersion") => {
                "its certificate is of X.509 version 1, and version 3 is needed: sign it with extensions, \
                 such as subjectAltName (`openssl x509 -req -extfile FILE`)"
                    .to_owned()
            }
            CertificateError::Other(other) => {
                format!("its certificate cannot be used: {}", split_words(&other.0.to_string()))
            }
            other => format!("its certificate cannot be used: {}", split_words(&other.to_string())),
        },
        rustls::Error::InvalidMessage(_) => "it does not answer with TLS".to_owned(),
        rustls::Error::AlertReceived(alert) => {
            format!("it refused the TLS connection ({})", split_words(&format!("{alert:?}")))
        }
        rustls::Error::PeerIncompatible(_) => {
            "it offers no version of TLS or cipher that this program supports".to_owned()
        }
        other => format!("the TLS connection failed ({other})"),
    }
}

/// Returns the words of a name in camel case, which the libraries show for many errors. Returns any other
/// text unchanged.
fn split_words(name: &str) -> String {
    if !name.chars().all(|letter| letter.is_ascii_alphanumeric()) {
        return name.to_owned();
    }
    let words = name.chars().enumerate().map(|(index, letter)| match letter {
        'A'..='Z' if index > 0 => format!(" {}", letter.to_ascii_lowercase()),
        _ => letter.to_ascii_lowercase().to_string(),
    });
    words.collect()
}

/// Describes a failed HTTP request.
pub fn http_problem(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Rustls(error) => untrusted_problem(error),
        ureq::Error::Io(error) => io_problem(error),
        ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
            "the server did not accept a connection in time".to_owned()
        }
        ureq::Error::Timeout(_) => "the server did not answer in time".to_owned(),
        ureq::Error::HostNotFound => "the host name does not resolve (DNS)".to_owned(),
        ureq::Error::ConnectionFailed => "the server cannot be reached".to_owned(),
        ureq::Error::Protocol(_) => "the server does not answer with valid HTTP".to_owned(),
        other => other.to_string(),
    }
}

fn untrusted_problem(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(_) => {
            "the server does not answer with TLS: if it serves plain HTTP, write http:// in the URL"
                .to_owned()
        }
        other => format!("the server is not trusted: {}", tls_problem(other)),
    }
}

/// Describes a failed connection or transfer. The errors of TLS and of the resolver arrive inside an
/// [`io::Error`].
pub fn io_problem(error: &io::Error) -> String {
    let inner_error = error.get_ref();
    if let Some(error) = inner_error.and_then(|inner_error| inner_error.downcast_ref::<rustls::Error>()) {
        return untrusted_problem(error);
    }
    if let Some(error) = inner_error.and_then(|inner_error| inner_error.downcast_ref::<UnresolvedHost>()) {
        let problem = error.to_string();
        // The standard library says twice that the name does not resolve.
        let problem = problem.strip_prefix("failed to lookup address information: ").unwrap_or(&problem);
        return format!("the host name does not resolve (DNS): {problem}");
    }
    if let Some(error) = inner_error.and_then(|inner_error| inner_error.downcast_ref::<ureq::Error>()) {
        return http_problem(error);
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the server closed the connection too early".to_owned(),
        _ => os_problem(error),
    }
}

/// Describes a failed SSH session or channel.
pub fn ssh_problem(error: &russh::Error) -> String {
    match error {
        russh::Error::Disconnect | russh::Error::HUP | russh::Error::SendError | russh::Error::RecvError => {
            "the server closed the connection".to_owned()
        }
        russh::Error::ConnectionTimeout
        | russh::Error::KeepaliveTimeout
        | russh::Error::InactivityTimeout
        | russh::Error::Elapsed(_) => "the server does not answer".to_owned(),
        russh::Error::Version => "the server does not answer with SSH 2".to_owned(),
        russh::Error::NoCommonAlgo { kind, theirs, .. } => {
            format!("no algorithm for {kind:?} in common; the server offers {}", comma_list(theirs))
        }
        russh::Error::ChannelOpenFailure(ChannelOpenFailure::ConnectFailed) => {
            "the target refused the connection or did not answer".to_owned()
        }
        russh::Error::ChannelOpenFailure(ChannelOpenFailure::AdministrativelyProhibited) => {
            "its sshd does not allow it (AllowTcpForwarding)".to_owned()
        }
        russh::Error::IO(error) => io_problem(error),
        other => format!("the SSH protocol failed ({other})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls_pki_types::UnixTime;
    use std::time::Duration;

    #[test]
    fn errors_of_libraries_are_plain() {
        let date = UnixTime::since_unix_epoch(Duration::from_secs(1_769_904_000));
        let tls_error = |problem: CertificateError| rustls::Error::InvalidCertificate(problem);
        let expiry_error = CertificateError::ExpiredContext { time: date, not_after: date };
        assert_eq!(tls_problem(&tls_error(expiry_error)), "its certificate expired on 2026-02-01 00:00 UTC");
        let io_error = io::Error::other(tls_error(CertificateError::UnknownIssuer));
        assert_eq!(
            http_problem(&ureq::Error::Io(io_error)),
            "the server is not trusted: its certificate is not signed by a certificate authority that is \
             trusted here"
        );
        assert_eq!(
            tls_problem(&rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)),
            "it does not answer with TLS"
        );
        let plain = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        assert_eq!(
            http_problem(&ureq::Error::Rustls(plain)),
            "the server does not answer with TLS: if it serves plain HTTP, write http:// in the URL"
        );
        assert_eq!(http_problem(&ureq::Error::HostNotFound), "the host name does not resolve (DNS)");
        assert_eq!(ssh_problem(&russh::Error::Disconnect), "the server closed the connection");
        let other = |name: &'static str| {
            let name: Box<dyn std::error::Error + Send + Sync> = name.into();
            tls_error(CertificateError::Other(rustls::OtherError(name.into())))
        };
        assert!(tls_problem(&other("UnsupportedCertVersion")).contains("X.509 version 1, and version 3"));
        for (error, problem) in [
            (other("UnsupportedCriticalExtension"), "cannot be used: unsupported critical extension"),
            (tls_error(CertificateError::Revoked), "cannot be used: revoked"),
            (tls_error(CertificateError::BadEncoding), "is damaged, or is not an X.509 certificate"),
        ] {
            assert_eq!(tls_problem(&error), format!("its certificate {problem}"));
        }
        assert_eq!(
            tls_problem(&rustls::Error::AlertReceived(rustls::AlertDescription::HandshakeFailure)),
            "it refused the TLS connection (handshake failure)"
        );
        let io_error = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(io_problem(&io_error), "connection refused");
    }
}
