//! A proxy between the program and the agent that forwards all messages and records the exchanges.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;

/// Returns the configuration of a TLS server with this certificate and key (PEM).
pub(crate) fn tls(certificate: &str, key: &str) -> Arc<ServerConfig> {
    let certificates = pem::parse_many(certificate)
        .unwrap()
        .into_iter()
        .map(|block| CertificateDer::from(block.into_contents()))
        .collect();
    let key = PrivateKeyDer::try_from(pem::parse(key).unwrap().into_contents()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    Arc::new(config)
}

/// One exchange with the agent.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    /// `POST`, `PUT`, `GET`.
    pub http_method: String,
    /// The message; null for a blob.
    pub message: Value,
    /// The answer to the message; null for a blob.
    pub answer: Value,
}

impl Exchange {
    /// Returns the message's method, or the verb of a blob request.
    pub(crate) fn name(&self) -> String {
        match self.message["method"].as_str() {
            Some(method) => method.to_owned(),
            None => format!("{} blob", self.http_method),
        }
    }
}

/// An observer of the exchanges. The proxy forwards nothing while one of its methods runs.
pub(crate) trait Listener: Send + Sync {
    /// Observes a request before it is forwarded. The returned number is passed to [`Self::hear_answer`].
    fn hear_request(&self, _name: &str) -> usize {
        0
    }

    /// Returns the answer to forward in place of the agent's answer, if any.
    fn replace(&self, _exchange: &Exchange) -> Option<Value> {
        None
    }

    /// Observes the agent's answer before it is forwarded.
    fn hear_answer(&self, request_number: usize, exchange: Exchange);
}

impl<F: Fn(Exchange) + Send + Sync> Listener for F {
    fn hear_answer(&self, _request_number: usize, exchange: Exchange) {
        self(exchange);
    }
}

/// The path of a file. While the file exists, its content replaces the agent's id.
type Disguise = Arc<Mutex<Option<PathBuf>>>;

/// The proxy. It stops on drop.
pub(crate) struct AgentProxy {
    exchanges: Arc<Mutex<Vec<Exchange>>>,
    disguise: Disguise,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl AgentProxy {
    /// Listens on `address` and forwards to the agent at `agent`.
    pub(crate) fn start(address: SocketAddr, agent: SocketAddr, tls: Arc<ServerConfig>) -> AgentProxy {
        let exchanges = Arc::<Mutex<Vec<Exchange>>>::default();
        let recorded_exchanges = exchanges.clone();
        let record = move |exchange: Exchange| recorded_exchanges.lock().unwrap().push(exchange);
        let mut proxy = AgentProxy::start_with(address, agent, tls, record);
        proxy.exchanges = exchanges;
        proxy
    }

    /// Starts a proxy that passes its exchanges to a listener.
    pub(crate) fn start_with(
        address: SocketAddr,
        agent: SocketAddr,
        tls: Arc<ServerConfig>,
        exchange_listener: impl Listener + 'static,
    ) -> AgentProxy {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let exchange_listener: Arc<dyn Listener> = Arc::new(exchange_listener);
        let stop = Arc::new(AtomicBool::new(false));
        let disguise = Disguise::default();
        let thread = std::thread::spawn({
            let (stop, disguise) = (stop.clone(), disguise.clone());
            move || {
                while !stop.load(Ordering::SeqCst) {
                    let Ok((stream, _)) = listener.accept() else {
                        std::thread::sleep(Duration::from_millis(2));
                        continue;
                    };
                    let (tls, exchange_listener, disguise) =
                        (tls.clone(), exchange_listener.clone(), disguise.clone());
                    std::thread::spawn(move || {
                        // If a client disconnects, only its connection ends.
                        let _ = serve(stream, tls, agent, &*exchange_listener, &disguise);
                    });
                }
            }
        });
        AgentProxy { exchanges: Arc::default(), disguise, stop, thread: Some(thread) }
    }

    /// Replaces the agent's id with the content of this file, while the file exists.
    pub(crate) fn disguise(&self, file: PathBuf) {
        *self.disguise.lock().unwrap() = Some(file);
    }

    /// Returns the exchanges since the last call.
    pub(crate) fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut self.exchanges.lock().unwrap())
    }
}

impl Drop for AgentProxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Passes the requests of a connection on to the agent. The listener can hold each of them and replace
/// answers, and the disguise replaces the agent's id.
fn serve(
    stream: TcpStream,
    tls: Arc<ServerConfig>,
    agent: SocketAddr,
    listener: &dyn Listener,
    disguise: &Disguise,
) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.set_nodelay(true)?;
    let connection = ServerConnection::new(tls).map_err(std::io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    let client = client();
    loop {
        let Some(request) = Request::read(&mut stream)? else { return Ok(()) };
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let mut exchange =
            Exchange { http_method: request.http_method.clone(), message, answer: Value::Null };
        let request_number = listener.hear_request(&exchange.name());
        let (status, mut body) = match request.pass_on(&client, agent) {
            Some(answer) => answer,
            // Without an agent, the connection is closed, as at the agent's own port.
            None => return Ok(()),
        };
        if !exchange.message.is_null() {
            exchange.answer = serde_json::from_slice(&body).unwrap_or_default();
            let other = disguise.lock().unwrap().as_ref().and_then(|file| std::fs::read_to_string(file).ok());
            if let Some(id) = other.filter(|_| exchange.answer["value"]["agent_id"].is_string()) {
                exchange.answer["value"]["agent_id"] = id.into();
                body = exchange.answer.to_string().into_bytes();
            }
        }
        if let Some(other) = listener.replace(&exchange) {
            body = other.to_string().into_bytes();
            exchange.answer = other;
        }
        listener.hear_answer(request_number, exchange);
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.get_mut().write_all(head.as_bytes())?;
        stream.get_mut().write_all(&body)?;
        stream.get_mut().flush()?;
    }
}

fn client() -> ureq::Agent {
    let tls = ureq::tls::TlsConfig::builder()
        .provider(ureq::tls::TlsProvider::Rustls)
        .disable_verification(true)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .build();
    let config = ureq::Agent::config_builder().tls_config(tls).http_status_as_error(false).proxy(None);
    config.timeout_global(Some(super::process::WAIT_TIMEOUT)).build().new_agent()
}

/// A complete HTTP request.
pub(crate) struct Request {
    /// The HTTP method.
    pub http_method: String,
    /// The request target.
    pub path: String,
    /// The `Authorization` header.
    pub authorization: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// Reads a request. Returns `None` at the end of the connection.
    pub(crate) fn read<S: Read + Write>(stream: &mut BufReader<S>) -> std::io::Result<Option<Request>> {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (http_method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (mut length, mut authorization, mut expects) = (0, String::new(), false);
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap_or(0),
                "authorization" => authorization = value.to_owned(),
                "expect" => expects = true,
                _ => {}
            }
        }
        if expects {
            stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            stream.get_mut().flush()?;
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        Ok(Some(Request { http_method, path, authorization, body }))
    }

    fn pass_on(&self, client: &ureq::Agent, agent: SocketAddr) -> Option<(u16, Vec<u8>)> {
        let url = format!("https://{agent}{}", self.path);
        let authorization = ("Authorization", &self.authorization);
        let response = match self.http_method.as_str() {
            "POST" => client.post(url).header(authorization.0, authorization.1).send(&self.body[..]),
            "PUT" => client.put(url).header(authorization.0, authorization.1).send(&self.body[..]),
            _ => client.get(url).header(authorization.0, authorization.1).call(),
        };
        let mut response = response.ok()?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(u64::MAX).read_to_vec().ok()?;
        Some((status, body))
    }
}
