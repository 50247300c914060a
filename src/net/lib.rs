//! Connections: SSH as a client, an HTTPS server, and the certificate authorities that TLS trusts.
//!
//! It uses `base`. Entry points: [`ssh::connect`], [`http_server::serve_connection`], [`tls_roots::system_roots`].

pub mod http_server;
pub mod ssh;
pub mod tls_roots;
