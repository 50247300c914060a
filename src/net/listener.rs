//! Finds the process on this machine that listens at an address, for messages about an address in use.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};

/// The hint for a VM whose address another program needs.
pub const OTHER_ADDRESS_HINT: &str = "replace the address everywhere in the manifest";

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN_STATE: &str = "0A";

/// A process that listens at an address of this machine.
#[derive(Debug, PartialEq, Eq)]
pub enum Listener {
    /// A process that this user may inspect.
    Process {
        /// Its id.
        pid: u32,
        /// The name of its program.
        name: String,
    },
    /// A process whose sockets this user may not see. It runs as the user with this id.
    ProcessOfUser(u32),
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listener::Process { pid, name } => write!(f, "process {pid} ({name}) on this machine"),
            Listener::ProcessOfUser(uid) => write!(f, "a process of user {uid} on this machine"),
        }
    }
}

/// Finds the listener at an address. Returns `None` if the address is not one of this machine, or no socket
/// listens there.
pub fn find(host: &str, port: u16) -> Option<Listener> {
    let address = (host, port).to_socket_addrs().ok()?.next()?.ip();
    // Only addresses of this machine can be bound.
    UdpSocket::bind((address, 0)).ok()?;
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let (inode, uid) = tables.iter().find_map(|table| find_listening_socket(table, address, port))?;
    Some(find_process_with_socket(inode).unwrap_or(Listener::ProcessOfUser(uid)))
}

/// Finds the socket that listens at an address in the text of `/proc/net/tcp` or `/proc/net/tcp6`. Returns
/// its inode and the user id of its process.
fn find_listening_socket(table: &str, address: IpAddr, port: u16) -> Option<(u64, u32)> {
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local_address, state) = (fields.get(1)?, fields.get(3)?);
        let (listener_address, listener_port) = local_address.split_once(':')?;
        let listener_address = parse_address(listener_address)?;
        // A socket of all IPv6 addresses usually has those of IPv4, too.
        let has_all = listener_address.is_unspecified() && (listener_address.is_ipv6() || address.is_ipv4());
        let has_address = has_all || listener_address.to_canonical() == address.to_canonical();
        let has_port = u16::from_str_radix(listener_port, 16).ok()? == port;
        (*state == LISTEN_STATE && has_port && has_address).then_some(())?;
        Some((fields.get(9)?.parse().ok()?, fields.get(7)?.parse().ok()?))
    })
}

/// Parses an address in the form of the kernel: words of 32 bits, each in the byte order of the machine.
fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |start: usize| Some(u32::from_str_radix(hex.get(start..start + 8)?, 16).ok()?.to_ne_bytes());
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (index, chunk) in bytes.chunks_mut(4).enumerate() {
                chunk.copy_from_slice(&word(index * 8)?);
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

/// Finds the process that has this socket open.
fn find_process_with_socket(inode: u64) -> Option<Listener> {
    let link = format!("socket:[{inode}]");
    fs::read_dir("/proc").ok()?.flatten().find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let mut files = fs::read_dir(process.path().join("fd")).ok()?.flatten();
        files.find(|file| {
            fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == link.as_str())
        })?;
        let name = fs::read_to_string(process.path().join("comm")).ok()?;
        Some(Listener::Process { pid, name: name.trim_end().to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn finds_the_process_that_listens() {
        for address in ["127.0.0.9:0", "0.0.0.0:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let host = if address.starts_with('[') { "::1" } else { "127.0.0.9" };
            let Some(Listener::Process { pid, .. }) = find(host, port) else { panic!("{address}") };
            assert_eq!(pid, std::process::id(), "{address}");
            drop(listener);
            // Another test may be starting a process, which has the socket until it runs its program.
            let is_gone = || {
                std::thread::sleep(std::time::Duration::from_millis(20));
                find(host, port).is_none()
            };
            assert!((0..500).any(|_| is_gone()), "{address}");
        }
        assert_eq!(find("192.0.2.1", 80), None, "an address of another machine was found");
    }

    #[test]
    fn sockets_of_other_addresses_do_not_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  \
                     timeout inode\n\
             \x20  0: 0100007F:1AD4 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 4711 1\n\
             \x20  1: 0200007F:1AD4 0100007F:0001 01 00000000:00000000 00:00000000 00000000  1000 0 4712 1\n";
        let find_socket = |address: [u8; 4], port| find_listening_socket(table, IpAddr::from(address), port);
        if cfg!(target_endian = "little") {
            assert_eq!(find_socket([127, 0, 0, 1], 6868), Some((4711, 1000)));
        }
        assert_eq!(find_socket([127, 0, 0, 2], 6868), None, "a connected socket was found");
        assert_eq!(find_socket([127, 0, 0, 1], 80), None);
        // One socket for all IPv4 addresses.
        let table = "header\n 0: 00000000:0050 00000000:0000 0A 0:0 0:0 0 1000 0 4713 1\n";
        let find_socket = |address: IpAddr| find_listening_socket(table, address, 80);
        assert_eq!(find_socket(Ipv4Addr::LOCALHOST.into()), Some((4713, 1000)));
        assert_eq!(find_socket(Ipv6Addr::LOCALHOST.into()), None);
    }
}
