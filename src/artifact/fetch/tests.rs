use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use super::*;
use crate::ErrorKind;
use crate::artifact::Location;
use crate::artifact::tarballs::{sha1, sha256};
use crate::artifact::testing::stage;

/// An HTTP server on loopback that gives one prepared answer per connection, then goes away.
struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    fn new(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let thread = thread::spawn(move || {
            for answer in answers {
                let (mut client, _) = listener.accept().unwrap();
                let mut request = String::new();
                let mut reader = BufReader::new(client.try_clone().unwrap());
                while reader.read_line(&mut request).unwrap() > 2 {}
                seen.lock().unwrap().push(request);
                client.write_all(&answer).unwrap();
            }
        });
        Server { port, requests, thread: Some(thread) }
    }

    fn obtain(&self, authority: &str, path: &str, expected: Option<&str>, work: &Path) -> Result<PathBuf> {
        let url = format!("http://{authority}127.0.0.1:{}{path}", self.port);
        let location = Location::parse(&url, work, None).unwrap();
        let expected = expected.map(|text| text.parse().unwrap());
        location.obtain(expected.as_ref(), work, &stage()).map(|source| source.path)
    }

    /// What was asked, once every prepared answer was fetched.
    fn requests(mut self) -> Vec<String> {
        self.thread.take().unwrap().join().unwrap();
        self.requests.lock().unwrap().clone()
    }
}

fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())
            .into_bytes();
    answer.extend(body);
    answer
}

#[test]
fn a_download_is_verified() {
    let work = tempfile::tempdir().unwrap();
    let server = Server::new(vec![answer("200 OK", b"content")]);
    let path = server.obtain("", "/x.tgz", Some(&sha256(b"content")), work.path()).unwrap();
    assert_eq!(fs::read(path).unwrap(), b"content");
    let requests = server.requests();
    assert!(requests[0].starts_with("GET /x.tgz HTTP/1.1\r\n"), "{requests:?}");
}

#[test]
fn a_wrong_digest_leaves_no_file() {
    let work = tempfile::tempdir().unwrap();
    let server = Server::new(vec![answer("200 OK", b"content")]);
    let error = server.obtain("", "/x.tgz", Some(&sha1(b"other")), work.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains(&sha1(b"content")), "{error}");
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn the_status_comes_before_the_digest_and_is_not_asked_again() {
    let work = tempfile::tempdir().unwrap();
    let server = Server::new(vec![answer("404 Not Found", b"<html>")]);
    let error = server.obtain("", "/x.tgz", Some(&sha1(b"other")), work.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Environment);
    let text = error.chain().join(": ");
    assert!(text.contains("404") && text.contains("/x.tgz"), "{text}");
    assert_eq!(server.requests().len(), 1);
    assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
}

#[test]
fn what_may_pass_is_tried_again() {
    let work = tempfile::tempdir().unwrap();
    let mut broken = answer("200 OK", b"content");
    broken.truncate(broken.len() - 3);
    let server = Server::new(vec![answer("503 Busy", b""), broken, answer("200 OK", b"content")]);
    let path = server.obtain("", "/x.tgz", Some(&sha1(b"content")), work.path()).unwrap();
    assert_eq!(fs::read(path).unwrap(), b"content");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn credentials_are_sent_and_not_shown() {
    let work = tempfile::tempdir().unwrap();
    let server = Server::new(vec![answer("403 Forbidden", b"")]);
    let error = server.obtain("user:s3cr%65t@", "/x.tgz?token=t0ken", None, work.path()).unwrap_err();
    let text = format!("{error:?} {:?}", error.hints());
    assert!(!text.contains("s3cret") && !text.contains("t0ken"), "{text}");
    assert!(text.contains("credentials"), "{text}");
    let requests = server.requests();
    // base64 of user:s3cret
    assert!(requests[0].to_lowercase().contains("authorization: basic dxnlcjpzm2nyzxq="), "{requests:?}");
    assert!(requests[0].contains("?token=t0ken"), "{requests:?}");
}

#[test]
fn a_redirect_is_followed() {
    let work = tempfile::tempdir().unwrap();
    let moved =
        b"HTTP/1.1 302 Found\r\nLocation: /y.tgz\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec();
    let server = Server::new(vec![moved, answer("200 OK", b"content")]);
    let path = server.obtain("", "/x.tgz", None, work.path()).unwrap();
    assert_eq!(fs::read(path).unwrap(), b"content");
    assert!(server.requests()[1].starts_with("GET /y.tgz"));
}

#[test]
fn nobody_there_is_an_environment_error_that_names_the_url() {
    let work = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/x.tgz");
    let location = Location::parse(&url, work.path(), None).unwrap();
    let error = location.obtain(None, work.path(), &stage()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Environment);
    assert!(error.to_string().contains(&url), "{error}");
}
