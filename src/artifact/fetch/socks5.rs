//! A SOCKS 5 client (RFC 1928) with user and password (RFC 1929). The proxy resolves host names.

use std::io::{self, Read, Write};

use super::proxy::ProxyCredentials;

const SOCKS_VERSION: u8 = 5;
/// The version of the exchange of user and password (RFC 1929).
const LOGIN_VERSION: u8 = 1;
const CONNECT_COMMAND: u8 = 1;
const RESERVED_BYTE: u8 = 0;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
// The types of addresses. The length of a host name is the byte before it.
const IPV4_ADDRESS: u8 = 1;
const HOST_NAME: u8 = 3;
const IPV6_ADDRESS: u8 = 4;

/// Logs in to the proxy at the other end of `stream`. An error of kind `PermissionDenied` is permanent.
pub(super) fn log_in(
    stream: &mut (impl Read + Write + ?Sized),
    credentials: Option<&ProxyCredentials>,
) -> io::Result<()> {
    let methods: &[u8] =
        if credentials.is_some() { &[NO_AUTHENTICATION, USER_AND_PASSWORD] } else { &[NO_AUTHENTICATION] };
    let mut greeting = vec![SOCKS_VERSION, u8::try_from(methods.len()).unwrap_or(1)];
    greeting.extend(methods);
    stream.write_all(&greeting)?;
    let [version, method] = take(stream)?;
    if version != SOCKS_VERSION {
        return Err(final_error("it does not speak SOCKS 5"));
    }
    match (method, credentials) {
        (NO_AUTHENTICATION, _) => {}
        (USER_AND_PASSWORD, Some((user, password))) => {
            let mut message = vec![LOGIN_VERSION];
            for text in [user, password] {
                message.push(length(text)?);
                message.extend(text.as_bytes());
            }
            stream.write_all(&message)?;
            let [_, status] = take(stream)?;
            if status != 0 {
                return Err(final_error("it refuses the user and password"));
            }
        }
        (_, None) => return Err(final_error("it requires a user and a password")),
        (_, Some(_)) => return Err(final_error("it does not support a user and password")),
    }
    Ok(())
}

/// Asks the proxy, after [`log_in`], for a connection to `host`. On success `stream` leads to `host`. An
/// error of kind `PermissionDenied` is permanent, and the caller reports it as one of the proxy: also a host
/// that the proxy does not allow, or whose name is too long.
pub(super) fn connect(stream: &mut (impl Read + Write + ?Sized), host: &str, port: u16) -> io::Result<()> {
    let mut request = vec![SOCKS_VERSION, CONNECT_COMMAND, RESERVED_BYTE];
    match host.parse() {
        Ok(std::net::IpAddr::V4(address)) => {
            request.push(IPV4_ADDRESS);
            request.extend(address.octets());
        }
        Ok(std::net::IpAddr::V6(address)) => {
            request.push(IPV6_ADDRESS);
            request.extend(address.octets());
        }
        Err(_) => {
            request.extend([HOST_NAME, length(host)?]);
            request.extend(host.as_bytes());
        }
    }
    request.extend(port.to_be_bytes());
    stream.write_all(&request)?;
    let [_, status, _, address_type] = take(stream)?;
    if status != 0 {
        return Err(status_error(status));
    }
    // The proxy's own address follows. It must be read, but is not used.
    let rest = match address_type {
        IPV4_ADDRESS => 4,
        IPV6_ADDRESS => 16,
        HOST_NAME => {
            let [length] = take(stream)?;
            usize::from(length)
        }
        _ => return Err(final_error("its answer is not valid")),
    };
    stream.read_exact(&mut vec![0; rest + 2])
}

fn take<const N: usize>(stream: &mut (impl Read + ?Sized)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn length(text: &str) -> io::Result<u8> {
    u8::try_from(text.len())
        .map_err(|_| final_error("in SOCKS 5, host, user and password may have at most 255 bytes each"))
}

/// Returns an error for a failure that a retry cannot change.
fn final_error(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

fn status_error(status: u8) -> io::Error {
    let (kind, text) = match status {
        2 => (io::ErrorKind::PermissionDenied, "does not allow the connection"),
        3 => (io::ErrorKind::NetworkUnreachable, "cannot reach the network"),
        4 => (io::ErrorKind::HostUnreachable, "cannot reach the host"),
        5 => (io::ErrorKind::ConnectionRefused, "reports that the host refused the connection"),
        6 => (io::ErrorKind::TimedOut, "reports that the host did not answer in time"),
        7 | 8 => (io::ErrorKind::PermissionDenied, "does not support this type of connection"),
        _ => (io::ErrorKind::Other, "failed to connect"),
    };
    io::Error::new(kind, format!("it {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that returns prepared bytes and records the bytes written to it.
    struct Script(io::Cursor<Vec<u8>>, Vec<u8>);

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn talk(
        answer: &[u8],
        host: &str,
        credentials: Option<&ProxyCredentials>,
    ) -> (io::Result<()>, Vec<u8>, u64) {
        let mut script = Script(io::Cursor::new(answer.to_vec()), Vec::new());
        let result = log_in(&mut script, credentials).and_then(|()| connect(&mut script, host, 443));
        let read = script.0.position();
        (result, script.1, read)
    }

    #[test]
    fn sends_unresolved_names_and_reads_only_the_reply() {
        let answer = [5, 0, 5, 0, 0, 1, 1, 2, 3, 4, 0, 80, b'H'];
        let (result, request, read) = talk(&answer, "a.com", None);
        result.unwrap();
        assert_eq!(request, b"\x05\x01\x00\x05\x01\x00\x03\x05a.com\x01\xbb");
        assert_eq!(read, 12);
        let (result, request, _) = talk(&[5, 0, 5, 0, 0, 3, 1, b'x', 0, 80], "1.2.3.4", None);
        result.unwrap();
        assert_eq!(&request[3..], [5, 1, 0, 1, 1, 2, 3, 4, 1, 0xbb]);
    }

    #[test]
    fn sends_user_and_password_if_required() {
        let login = ("me".to_owned(), "pw".to_owned());
        let (result, request, _) = talk(&[5, 2, 1, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0], "a", Some(&login));
        result.unwrap();
        assert_eq!(&request[..11], b"\x05\x02\x00\x02\x01\x02me\x02pw");
        let (result, _, _) = talk(&[5, 2, 1, 1], "a", Some(&login));
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let (result, _, _) = talk(&[5, 0xff], "a", None);
        assert!(result.unwrap_err().to_string().contains("requires a user"));
    }

    #[test]
    fn refusals_and_malformed_replies_are_errors() {
        let (result, _, _) = talk(&[5, 0, 5, 5, 0, 1], "a", None);
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(talk(b"HTTP/1.1 400", "a", None).0.is_err());
        assert!(talk(&[5], "a", None).0.is_err());
        assert!(talk(&[5, 0], &"a".repeat(300), None).0.is_err());
    }
}
