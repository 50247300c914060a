//! An agent that behaves up to one point, and stalls there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

type Stream = BufReader<StreamOwned<ServerConnection, TcpStream>>;

/// The point at which the agent stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StallPoint {
    /// After it has accepted the connection.
    Accepted,
    /// In the TLS handshake.
    Handshake,
    /// Before its answer, with one `100 Continue` after the other.
    Continue,
    /// In the headers of its answer.
    Headers,
    /// In the headers of its answer, which it sends at one byte a second.
    Drip,
    /// In the body of its answer.
    Body,
    /// At `get_task`, which it never answers.
    Task,
    /// In the body of an upload, which it does not read.
    Upload,
    /// In the body of a download.
    Download,
}

impl StallPoint {
    /// The points that any message reaches.
    pub(crate) const MESSAGE: [StallPoint; 6] = [
        StallPoint::Accepted,
        StallPoint::Handshake,
        StallPoint::Continue,
        StallPoint::Headers,
        StallPoint::Drip,
        StallPoint::Body,
    ];
}

/// Serves an agent whose id is `id`. The receiver gets a message when the agent has reached its point.
pub(crate) fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    id: &str,
    point: StallPoint,
) -> Receiver<()> {
    let (sender, receiver) = channel();
    let id = id.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (tls, id, sender) = (Arc::clone(&tls), id.clone(), sender.clone());
            std::thread::spawn(move || {
                // A client that disconnects ends the connection.
                let _ = serve_connection(stream, tls, &id, point, &sender);
            });
        }
    });
    receiver
}

/// Keeps a connection open without using it.
fn stall(sender: &Sender<()>) {
    let _ = sender.send(());
    std::thread::sleep(Duration::from_secs(100));
}

/// Serves one connection like an agent up to the point, and stalls there.
fn serve_connection(
    mut tcp: TcpStream,
    tls: Arc<ServerConfig>,
    id: &str,
    point: StallPoint,
    sender: &Sender<()>,
) -> std::io::Result<()> {
    match point {
        StallPoint::Accepted => stall(sender),
        StallPoint::Handshake => {
            tcp.read_exact(&mut [0; 64])?;
            // This is the head of a ServerHello, and a part of its content.
            tcp.write_all(&[0x16, 3, 3, 0, 122, 2, 0, 0, 118])?;
            stall(sender);
        }
        _ => {}
    }
    let connection = ServerConnection::new(tls).map_err(std::io::Error::other)?;
    let mut stream: Stream = BufReader::new(StreamOwned::new(connection, tcp));
    while let Some((verb, length)) = read_head(&mut stream)? {
        if verb == "PUT" {
            send(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n")?;
            if point == StallPoint::Upload {
                stall(sender);
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        match point {
            StallPoint::Continue => loop {
                send(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n")?;
                let _ = sender.send(());
                std::thread::sleep(Duration::from_millis(100));
            },
            StallPoint::Headers => {
                send(&mut stream, "HTTP/1.1 200 OK\r\nContent-Le")?;
                stall(sender);
            }
            StallPoint::Drip => {
                send(&mut stream, "HTTP/1.1 200 OK\r\nX-Drip: ")?;
                let _ = sender.send(());
                loop {
                    send(&mut stream, "x")?;
                    std::thread::sleep(Duration::from_secs(1));
                }
            }
            StallPoint::Body => {
                send(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"val")?;
                stall(sender);
            }
            StallPoint::Task if message["method"] == "get_task" => stall(sender),
            StallPoint::Download if verb == "GET" => {
                send(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nsome bytes")?;
                stall(sender);
            }
            _ => {}
        }
        let value = match message["method"].as_str() {
            Some("ping") => json!("pong"),
            Some("get_state") => json!({"agent_id": id, "job_state": "running"}),
            Some(_) if point == StallPoint::Task => json!({"agent_task_id": "1", "state": "running"}),
            Some("drain") => json!(0),
            Some("list_disk") => json!([]),
            Some("fetch_logs") => json!({"blobstore_id": "some-logs", "sha1": "0"}),
            _ => Value::Null,
        };
        let body = json!({"value": value}).to_string();
        send(&mut stream, &format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()))?;
    }
    Ok(())
}

/// Reads the head of a request. Returns its method and the length of its body.
fn read_head(stream: &mut Stream) -> std::io::Result<Option<(String, usize)>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let verb = line.split_whitespace().next().unwrap_or_default().to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    Ok(Some((verb, length)))
}

fn send(stream: &mut Stream, text: &str) -> std::io::Result<()> {
    stream.get_mut().write_all(text.as_bytes())?;
    stream.get_mut().flush()
}
