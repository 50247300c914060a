//! Network code that more than one crate needs: an SSH client, an HTTP server, and trusted certificate
//! authorities.
//!
//! Uses only `base`.
//!
//! Entry points: [`ssh::connect`], for jumpboxes and tunnels; [`http_server::serve_connection`], for the
//! registry and the built-in agent; [`tls_roots::system_roots`].

pub mod http_server;
pub mod ssh;
pub mod tls_roots;
