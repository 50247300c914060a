//! Network code below the crates that use it: an SSH client, an HTTP server, connections of HTTP clients,
//! and trusted certificate authorities.
//!
//! Uses only `base`.
//!
//! Entry points: [`ssh::connect`], for jumpboxes and tunnels; [`ssh::verify`], for signatures;
//! [`http_server::serve_connection`], for the registry and the built-in agent;
//! [`http_client::create_client`]; [`tls_roots::load_system_roots`]; [`known_certificate::tls_config`];
//! [`plain_errors`], errors of libraries in plain English; [`listener::find`].

pub mod http_client;
pub mod http_server;
pub mod known_certificate;
pub mod listener;
pub mod plain_errors;
pub mod ssh;
pub mod tls_roots;
