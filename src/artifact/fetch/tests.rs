use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::*;
use crate::http::{ForwardProxy, Server, answer, part};
use crate::shared_cache::{SharedCacheSettings, SharedDirectory, SharedStorage};
use crate::tarballs::{sha1, sha256, sha512};
use base::ErrorKind;
use base::encoding::basic_authorization;
use base::events::{Event, Sink};

/// A cache for one test, with the events of its downloads.
struct FetchWorld {
    directory: tempfile::TempDir,
    env_vars: Vec<(String, String)>,
    events: Arc<Mutex<Vec<Event>>>,
    shared_cache: SharedCache,
}

struct EventRecorder(Arc<Mutex<Vec<Event>>>);

impl Sink for EventRecorder {
    fn receive(&self, event: &Event) {
        self.0.lock().push(event.clone());
    }
}

impl FetchWorld {
    fn new() -> Self {
        FetchWorld {
            directory: tempfile::tempdir().unwrap(),
            env_vars: Vec::new(),
            events: Arc::default(),
            shared_cache: SharedCache::default(),
        }
    }

    /// Returns a world with a shared cache in a directory.
    fn sharing(directory: &Path) -> Self {
        let world = FetchWorld::new();
        let directory = directory.to_owned();
        let settings = SharedCacheSettings {
            url: "file:///cache".to_owned(),
            needs_network: false,
            open: Box::new(move |_| -> Result<Arc<dyn SharedStorage>> {
                Ok(Arc::new(SharedDirectory::new(&directory, true)))
            }),
            may_upload: true,
            signing_key: None,
            reporter: Reporter::new(Arc::new(EventRecorder(Arc::clone(&world.events)))),
            interrupt_check: Arc::new(|| Ok(())),
        };
        FetchWorld { shared_cache: SharedCache::new(Vec::new(), settings), ..world }
    }

    fn with_variable(name: &str, value: impl Into<String>) -> Self {
        FetchWorld { env_vars: vec![(name.to_owned(), value.into())], ..FetchWorld::new() }
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("cache")
    }

    fn obtain_unless(
        &self,
        url: &str,
        expected: Option<&str>,
        interrupt_check: impl Fn() -> Result<()> + Send + Sync + 'static,
    ) -> Result<Source> {
        let cache = Cache::open(&self.root())?;
        let fetcher = Fetcher::new(&cache, &self.env_vars, Arc::new(interrupt_check))?;
        let fetcher = fetcher.with_shared_cache(&self.shared_cache);
        let url = ArtifactUrl::parse_userland(url, self.directory.path(), None)?;
        let expected: Option<Digest> = expected.map(|text| text.parse().unwrap());
        let reporter = Reporter::new(Arc::new(EventRecorder(Arc::clone(&self.events))));
        fetcher.obtain(&url, expected.as_ref(), "release 'x'", &reporter)
    }

    fn obtain(&self, url: &str, expected: Option<&str>) -> Result<Vec<u8>> {
        self.obtain_unless(url, expected, || Ok(())).map(|source| fs::read(source.path).unwrap())
    }

    /// Obtains a file, and reads it while it arrives. Counts the bytes read in `received`.
    fn read_arriving(
        &self,
        url: &str,
        expected: &str,
        read_count: &AtomicUsize,
    ) -> (Result<Source>, std::io::Result<Vec<u8>>) {
        let cache = Cache::open(&self.root()).unwrap();
        let fetcher = Fetcher::new(&cache, &self.env_vars, Arc::new(|| Ok(()))).unwrap();
        let fetcher = fetcher.with_shared_cache(&self.shared_cache);
        let url = ArtifactUrl::parse(url, self.directory.path(), None).unwrap();
        let reporter = Reporter::new(Arc::new(EventRecorder(Arc::clone(&self.events))));
        let content = Mutex::new(None);
        let read = |mut arriving: ArrivingFile<'_>| {
            let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
            *content.lock() = Some(loop {
                match arriving.read(&mut buffer) {
                    Ok(0) => break Ok(all),
                    Ok(count) => all.extend(&buffer[..count]),
                    Err(error) => break Err(error),
                }
                read_count.store(all.len(), Ordering::SeqCst);
            });
        };
        let expected: Digest = expected.parse().unwrap();
        let source = fetcher.obtain_and_read(&url, Some(&expected), "release 'x'", &reporter, Some(&read));
        (source, content.into_inner().unwrap())
    }

    /// Returns the names of the files in a directory of the cache.
    fn files(&self, part: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root().join(part)).into_iter().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn log(&self) -> String {
        format!("{:?}", self.events.lock())
    }
}

fn text(error: &Error) -> String {
    format!("{error:?} {:?}", error.hints())
}

#[test]
fn download_is_verified_and_cached() {
    let world = FetchWorld::new();
    let server = Server::for_file(b"content");
    let url = server.url("/x.tgz");
    for expected in
        [sha256(b"content"), sha1(b"content"), format!("{};sha256:{}", sha1(b"-"), &sha256(b"content")[7..])]
    {
        assert_eq!(world.obtain(&url, Some(&expected)).unwrap(), b"content");
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "not one request for each digest: {requests:?}");
    assert_eq!(requests[0].line, "GET /x.tgz HTTP/1.1");
    assert!(world.files("partial").is_empty());
    assert_eq!(world.files("downloads").len(), 2);
    assert!(world.log().contains("Downloading release 'x'") && world.log().contains("StageProgress"));
    // A file with the same digest is taken from the cache, without a request to its URL.
    assert_eq!(world.obtain("http://nowhere.invalid/y.tgz", Some(&sha1(b"content"))).unwrap(), b"content");
}

#[test]
fn file_is_copied_from_the_shared_cache() {
    let shared_directory = tempfile::tempdir().unwrap();
    let content = vec![b'x'; 5 << 20];
    let server = Server::for_file(&content);
    let url = server.url("/x.tgz");
    let first = FetchWorld::sharing(shared_directory.path());
    assert_eq!(first.obtain(&url, Some(&sha1(&content))).unwrap(), content);
    // Without a digest, there is no name for it.
    first.obtain(&url, None).unwrap();
    first.shared_cache.finish();
    assert_eq!(fs::read_dir(shared_directory.path().join("downloads")).unwrap().count(), 1);
    let request_count_before = server.requests().len();

    let second = FetchWorld::sharing(shared_directory.path());
    let read_count = AtomicUsize::new(0);
    let (source, arrived) = second.read_arriving(&url, &sha1(&content), &read_count);
    assert_eq!(fs::read(source.unwrap().path).unwrap(), content);
    assert_eq!(arrived.unwrap(), content, "the file was damaged while it was copied");
    assert_eq!(server.requests().len(), request_count_before);
    assert!(second.files("partial").is_empty());
    let world = FetchWorld { shared_cache: SharedCache::default(), ..second };
    assert_eq!(world.obtain(&url, Some(&sha1(&content))).unwrap(), content);
    assert_eq!(server.requests().len(), request_count_before, "the file was downloaded again");
}

#[test]
fn nothing_is_downloaded_offline() {
    let (world, shared_directory) = (FetchWorld::new(), tempfile::tempdir().unwrap());
    let server = Server::for_file(b"content");
    let (url, digest) = (server.url("/x.tgz"), sha1(b"content"));
    let obtain = |world: &FetchWorld, expected: Option<&str>| {
        let cache = Cache::open(&world.root()).unwrap();
        let fetcher = Fetcher::new(&cache, &world.env_vars, Arc::new(|| Ok(()))).unwrap();
        let fetcher = fetcher.with_shared_cache(&world.shared_cache).offline();
        let url = ArtifactUrl::parse(&url, world.directory.path(), None).unwrap();
        let expected: Option<Digest> = expected.map(|text| text.parse().unwrap());
        let reporter = Reporter::new(Arc::new(EventRecorder(Arc::clone(&world.events))));
        fetcher.obtain(&url, expected.as_ref(), "release 'x'", &reporter)
    };
    let error = obtain(&world, Some(&digest)).unwrap_err();
    assert!(error.to_string().ends_with("is in no cache, and --offline forbids the download"), "{error}");
    assert!(error.notes().is_empty());
    assert!(obtain(&world, None).unwrap_err().notes()[0].contains("by its digest"));
    assert!(server.requests().is_empty() && world.files("partial").is_empty());

    let online = FetchWorld::sharing(shared_directory.path());
    online.obtain(&url, Some(&digest)).unwrap();
    online.shared_cache.finish();
    let other = FetchWorld::sharing(shared_directory.path());
    assert_eq!(fs::read(obtain(&other, Some(&digest)).unwrap().path).unwrap(), b"content");
    obtain(&online, Some(&digest)).unwrap();
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn wrong_content_of_the_shared_cache_is_downloaded_instead() {
    let shared_directory = tempfile::tempdir().unwrap();
    let content = vec![b'x'; 5 << 20];
    let server = Server::for_file(&content);
    let url = server.url("/x.tgz");
    let first = FetchWorld::sharing(shared_directory.path());
    first.obtain(&url, Some(&sha1(&content))).unwrap();
    first.shared_cache.finish();
    let object = shared_directory.path().join(format!("downloads/sha1-{}", sha1(&content)));
    let wrong_content = vec![b'y'; content.len()];
    fs::write(&object, &wrong_content).unwrap();

    let second = FetchWorld::sharing(shared_directory.path());
    let (source, arrived) = second.read_arriving(&url, &sha1(&content), &AtomicUsize::new(0));
    assert_eq!(fs::read(source.unwrap().path).unwrap(), content);
    assert!(arrived.is_err(), "wrong first bytes are accepted");
    assert!(second.log().contains("does not match"), "{}", second.log());
    second.shared_cache.finish();
    assert_eq!(fs::read(&object).unwrap(), content, "the damaged object was not replaced");
}

#[test]
fn partial_download_stays_if_the_shared_cache_lacks_the_file() {
    let shared_directory = tempfile::tempdir().unwrap();
    let world = FetchWorld::sharing(shared_directory.path());
    let is_down = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let content = b"0123456789";
    let server_is_down = Arc::clone(&is_down);
    let server = Server::start(move |request, request_number| {
        let response = part(request, content, "\"1\"");
        match server_is_down.load(Ordering::SeqCst) {
            true if request_number == 0 => response[..response.len() - 5].to_vec(),
            true => answer("503 Service Unavailable", &[], b""),
            false => response,
        }
    });
    world.obtain(&server.url("/x.tgz"), Some(&sha1(content))).unwrap_err();
    is_down.store(false, Ordering::SeqCst);
    assert_eq!(world.obtain(&server.url("/x.tgz"), Some(&sha1(content))).unwrap(), content);
    assert_eq!(server.requests().last().unwrap().header("range"), Some("bytes=5-"));
}

#[test]
fn wrong_digest_leaves_no_file() {
    let world = FetchWorld::new();
    let server = Server::for_file(b"content");
    let error = world.obtain(&server.url("/x.tgz"), Some(&sha1(b"other"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(text(&error).contains(&sha1(b"content")) && text(&error).contains("/x.tgz"), "{error:?}");
    assert!(world.files("partial").is_empty() && world.files("downloads").is_empty());
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn wrong_file_is_recognised() {
    for (content, note) in [
        (&b"<!DOCTYPE html><p>Sign in"[..], "it is 25 B of HTML, not a tarball: open the URL in a browser"),
        (b"", "it is empty"),
    ] {
        let world = FetchWorld::new();
        let server = Server::for_file(content);
        let error = world.obtain(&server.url("/x.tgz"), Some(&sha1(b"other"))).unwrap_err();
        assert_eq!((error.notes(), error.hints()), (&[note.to_owned()][..], &[][..]));
    }
}

#[test]
fn failed_attempts_are_counted() {
    let hints_after_failure = |answers: fn(&[u8]) -> Vec<u8>| {
        let world = FetchWorld::new();
        let server = Server::start(move |_, request_number| {
            if request_number == 0 { answers(b"cont") } else { answer("500 Broken", &[], b"") }
        });
        let url = server.url("/x.tgz");
        let error = world.obtain(&format!("{url}?token=hidden"), Some(&sha1(b"content"))).unwrap_err();
        assert_eq!(error.to_string(), format!("downloading '{url}' failed (5 attempts)"));
        assert_eq!(error.chain()[1], "the server answered 500 Internal Server Error");
        let failure = format!("downloading '{url}' failed: the server answered 500 Internal Server Error");
        for attempt in 3..=5 {
            let expected = format!("Warning {{ text: \"{failure}; attempt {attempt} of 5 in 0.1 s\", ");
            assert!(world.log().contains(&expected), "{}", world.log());
        }
        assert!(!world.log().contains("hidden"), "{}", world.log());
        error.hints().concat()
    };
    let nothing = hints_after_failure(|_| answer("500 Broken", &[], b""));
    assert!(nothing.ends_with("then run the same command again"), "{nothing}");
    // A transfer that broke off is kept.
    let part = hints_after_failure(|body| {
        answer("200 OK", &[], &[body, b"ent"].concat())[..].strip_suffix(b"ent").unwrap().to_vec()
    });
    assert!(part.ends_with(": the download continues where it stopped"), "{part}");
}

#[test]
fn error_status_is_reported_at_once_and_not_retried() {
    for (status, hint) in [("404 Not Found", "check the URL"), ("401 Unauthorized", "credentials")] {
        let world = FetchWorld::new();
        let server = Server::start(move |_, _| answer(status, &[], b"<html>"));
        let error = world.obtain(&server.url("/x.tgz"), Some(&sha1(b"other"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failure);
        assert!(text(&error).contains(status) && text(&error).contains(hint), "{error:?}");
        assert_eq!(server.requests().len(), 1);
        assert!(world.files("partial").is_empty());
    }
}

#[test]
fn broken_transfer_is_resumed_and_verified_as_a_whole() {
    let world = FetchWorld::new();
    let content: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    let body = content.clone();
    let server = Server::start(move |request, request_number| match request_number {
        0 => answer("503 Busy", &[], b""),
        1 | 2 => {
            let mut cut_part = part(request, &body, "\"v1\"");
            cut_part.truncate(cut_part.len() / 2);
            cut_part
        }
        _ => part(request, &body, "\"v1\""),
    });
    assert!(world.obtain(&server.url("/x.tgz"), Some(&sha512(&content))).unwrap() == content);
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    let range_start = |index: usize| -> usize {
        let range: &str = requests[index].header("range").unwrap();
        range.strip_prefix("bytes=").unwrap().strip_suffix('-').unwrap().parse().unwrap()
    };
    assert_eq!(requests[1].header("range"), None);
    assert!(0 < range_start(2) && range_start(2) < range_start(3), "{requests:?}");
    assert_eq!(requests[2].header("if-range"), Some("\"v1\""));
    assert!(world.log().contains("attempt 2 of 5 in "), "{}", world.log());
}

#[test]
fn file_is_read_while_it_arrives() {
    let world = FetchWorld::new();
    let content = vec![7; 500_000];
    let read_count = Arc::new(AtomicUsize::new(0));
    // The number of bytes that were read before the server sent the rest.
    let early = Arc::new(AtomicUsize::new(0));
    let server = Server::start({
        let (body, read_count, early) = (content.clone(), Arc::clone(&read_count), Arc::clone(&early));
        move |request, request_number| {
            let mut all = part(request, &body, "\"v1\"");
            if request_number == 0 {
                all.truncate(400_000);
                return all;
            }
            let deadline = Instant::now() + Duration::from_secs(30);
            while read_count.load(Ordering::SeqCst) == 0 && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(5));
            }
            early.store(read_count.load(Ordering::SeqCst), Ordering::SeqCst);
            all
        }
    });
    let (source, read) = world.read_arriving(&server.url("/x.tgz"), &sha1(&content), &read_count);
    assert!(fs::read(source.unwrap().path).unwrap() == content && read.unwrap() == content);
    assert_ne!(early.load(Ordering::SeqCst), 0);
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn reader_of_an_arriving_file_never_sees_the_end_of_a_wrong_one() {
    let world = FetchWorld::new();
    let read_count = AtomicUsize::new(0);
    let server = Server::for_file(b"content");
    let (source, read) = world.read_arriving(&server.url("/x.tgz"), &sha1(b"other"), &read_count);
    assert!(source.is_err() && read.is_err());

    // The server has another version when the download is resumed.
    let server = Server::start(|request, request_number| match request_number {
        0 => {
            let mut all = part(request, &[1; 500_000], "\"v1\"");
            all.truncate(400_000);
            all
        }
        _ => part(request, &[2; 500_000], "\"v2\""),
    });
    let (source, read) = world.read_arriving(&server.url("/y.tgz"), &sha1(&[2; 500_000]), &read_count);
    assert!(source.is_ok() && read.is_err());
}

#[test]
fn unfinished_download_is_resumed_by_the_next_run() {
    let world = FetchWorld::new();
    let content = vec![7; 500_000];
    let body = content.clone();
    let server = Server::start(move |request, request_number| {
        let mut all = part(request, &body, "\"v1\"");
        if request_number == 0 {
            all.truncate(400_000);
        }
        all
    });
    let url = server.url("/x.tgz");
    let events = Arc::clone(&world.events);
    let stop = move || match format!("{:?}", events.lock()).contains("attempt 2 of 5 in ") {
        true => Err(Error::new(ErrorKind::Interrupted(2), "interrupted")),
        false => Ok(()),
    };
    let error = world.obtain_unless(&url, Some(&sha1(&content)), stop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted(2));
    assert_eq!(world.files("partial").len(), 2);
    assert!(world.obtain(&url, Some(&sha1(&content))).unwrap() == content);
    assert!(server.requests().last().unwrap().header("range").is_some());
    assert!(world.files("partial").is_empty());
}

#[test]
fn partial_download_of_another_version_is_discarded() {
    for honest in [true, false] {
        let world = FetchWorld::new();
        let (old, new) = (vec![1; 300_000], vec![2; 300_000]);
        let expected = sha256(&new);
        let server = Server::start(move |request, request_number| match request_number {
            0 => {
                let mut cut_part = part(request, &old, "\"old\"");
                cut_part.truncate(200_000);
                cut_part
            }
            // A server with the same tag for both versions sends the rest of the new one.
            _ if honest => part(request, &new, "\"new\""),
            _ => part(request, &new, "\"old\""),
        });
        let content = world.obtain(&server.url("/x.tgz"), Some(&expected)).unwrap();
        assert!(content == vec![2; 300_000], "honest: {honest}");
        assert_eq!(server.requests().len(), if honest { 2 } else { 3 });
    }
}

#[test]
fn damaged_file_in_the_cache_is_downloaded_again() {
    let world = FetchWorld::new();
    let server = Server::for_file(b"content");
    let expected = sha256(b"content");
    let path = world.obtain_unless(&server.url("/x.tgz"), Some(&expected), || Ok(())).unwrap().path;
    fs::write(&path, b"c0ntent").unwrap();
    assert_eq!(world.obtain(&server.url("/x.tgz"), Some(&expected)).unwrap(), b"content");
    assert_eq!(server.requests().len(), 2);
    assert!(world.log().contains("is damaged"), "{}", world.log());
}

#[test]
fn concurrent_requests_download_a_file_once() {
    let world = FetchWorld::new();
    let server = Server::start(|request, _| {
        std::thread::sleep(Duration::from_millis(300));
        part(request, b"content", "\"v1\"")
    });
    let url = server.url("/x.tgz");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(world.obtain(&url, Some(&sha1(b"content"))).unwrap(), b"content"));
        }
    });
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn credentials_are_sent_but_not_displayed() {
    let world = FetchWorld::new();
    let server = Server::start(|_, _| answer("403 Forbidden", &[], b""));
    let url = format!("http://user:s3cr%65t@127.0.0.1:{}/x.tgz?token=t0ken", server.port());
    let error = world.obtain(&url, None).unwrap_err();
    let output = text(&error) + &world.log();
    assert!(
        !output.contains("s3cret") && !output.contains("s3cr%65t") && !output.contains("t0ken"),
        "{output}"
    );
    assert!(output.contains("credentials"), "{output}");
    let requests = server.requests();
    // base64 of user:s3cret
    assert_eq!(requests[0].header("authorization"), Some("Basic dXNlcjpzM2NyZXQ="));
    assert_eq!(requests[0].path(), "/x.tgz?token=t0ken");
}

#[test]
fn credentials_do_not_follow_redirects_to_another_host() {
    let world = FetchWorld::new();
    let target_server = Server::for_file(b"content");
    let target = format!("http://127.0.0.1:{}/y.tgz?sig=s3cret", target_server.port());
    let first_server = Server::start(move |_, _| answer("302 Found", &[("Location", &target)], b""));
    let url = format!("http://user:pass@localhost:{}/x.tgz", first_server.port());
    assert_eq!(world.obtain(&url, Some(&sha256(b"content"))).unwrap(), b"content");
    assert!(first_server.requests()[0].header("authorization").is_some());
    assert!(target_server.requests()[0].header("authorization").is_none());
    assert!(!world.log().contains("s3cret"));
}

#[test]
fn credentials_do_not_follow_redirects_to_another_port() {
    let world = FetchWorld::new();
    let target_server = Server::for_file(b"content");
    let target = format!("http://127.0.0.1:{}/y.tgz", target_server.port());
    let first_server = Server::start(move |request, _| match request.path() {
        "/x.tgz" => answer("302 Found", &[("Location", "/again.tgz")], b""),
        _ => answer("307 Temporary Redirect", &[("Location", &target)], b""),
    });
    let url = format!("http://user:pass@127.0.0.1:{}/x.tgz", first_server.port());
    assert_eq!(world.obtain(&url, Some(&sha256(b"content"))).unwrap(), b"content");
    let requests = first_server.requests();
    assert!(requests.len() == 2 && requests.iter().all(|request| request.header("authorization").is_some()));
    assert!(target_server.requests()[0].header("authorization").is_none());
}

#[test]
fn endless_redirects_are_an_error() {
    let world = FetchWorld::new();
    let circle = Server::start(|_, _| answer("302 Found", &[("Location", "/x.tgz")], b""));
    let error = world.obtain(&circle.url("/x.tgz"), None).unwrap_err();
    assert!(text(&error).contains("more than 10 redirects"), "{error:?}");
    assert_eq!(circle.requests().len(), 11);
    let redirecting_server =
        Server::start(|_, _| answer("302 Found", &[("Location", "file:///etc/passwd")], b""));
    let error = world.obtain(&redirecting_server.url("/x.tgz"), None).unwrap_err();
    assert!(text(&error).contains("no usable target"), "{error:?}");
}

#[test]
fn server_without_tls_is_not_asked_again() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/x.tgz", listener.local_addr().unwrap().port());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert_ne!(stream.read(&mut [0; 4096]).unwrap(), 0);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let world = FetchWorld::new();
    let error = world.obtain(&url, None).unwrap_err();
    assert!(text(&error).contains("if it serves plain HTTP, write http:// in the URL"), "{error:?}");
    assert_eq!(error.hints(), [format!("check the URL: `curl -IL '{url}'`")]);
    assert!(!world.log().contains("attempt 2"), "{}", world.log());
    server.join().unwrap();
}

#[test]
fn refused_connection_is_retried_until_interrupted() {
    let world = FetchWorld::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/x.tgz");
    let stop = |events: Arc<Mutex<Vec<Event>>>| {
        move || match format!("{:?}", events.lock()).contains("attempt 3 of 5 in ") {
            true => Err(Error::new(ErrorKind::Interrupted(15), "interrupted")),
            false => Ok(()),
        }
    };
    // A signal ends the pause between two attempts.
    let error = world.obtain_unless(&url, None, stop(Arc::clone(&world.events))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted(15));
    assert!(world.log().contains("; attempt 3 of 5 in 0.1 s"), "{}", world.log());
}

#[test]
fn http_proxy_gets_absolute_urls_and_its_credentials() {
    let server = Server::for_file(b"content");
    let proxy = ForwardProxy::http();
    let world =
        FetchWorld::with_variable("http_proxy", format!("http://me:s3cret@127.0.0.1:{}", proxy.port()));
    let url = format!("http://releases.test:{}/x.tgz?q=1", server.port());
    assert_eq!(world.obtain(&url, Some(&sha1(b"content"))).unwrap(), b"content");
    // base64 of me:s3cret
    assert_eq!(proxy.targets(), [format!("GET {url} Basic bWU6czNjcmV0")]);
    assert_eq!(
        server.requests()[0].header("host"),
        Some(format!("releases.test:{}", server.port()).as_str())
    );
}

#[test]
fn https_goes_through_a_connect_tunnel() {
    let proxy = ForwardProxy::http();
    let (server, _) = Server::start_tls(|request, _| part(request, b"content", "\"v1\""));
    let world = FetchWorld::with_variable("HTTPS_PROXY", format!("127.0.0.1:{}", proxy.port()));
    let url = format!("https://releases.test:{}/x.tgz", server.port());
    let events = Arc::clone(&world.events);
    let stop = move || match format!("{:?}", events.lock()).contains("attempt 2 of 5 in ") {
        true => Err(Error::new(ErrorKind::Interrupted(2), "interrupted")),
        false => Ok(()),
    };
    // The server's certificate is not trusted. It must also be refused through a proxy.
    let error = world.obtain_unless(&url, None, stop).unwrap_err();
    assert_eq!(proxy.targets()[0], format!("CONNECT releases.test:{}", server.port()));
    assert!(
        (text(&error) + &world.log()).to_lowercase().contains("certificate"),
        "{error:?} {}",
        world.log()
    );
    assert!(server.requests().is_empty());
}

#[test]
fn socks_proxy_resolves_names_and_checks_passwords() {
    let server = Server::for_file(b"content");
    let proxy = ForwardProxy::socks5(Some(("me", "s3cret")));
    let world =
        FetchWorld::with_variable("BOSH_ALL_PROXY", format!("socks5://me:s3cret@127.0.0.1:{}", proxy.port()));
    let url = format!("http://releases.test:{}/x.tgz", server.port());
    assert_eq!(world.obtain(&url, Some(&sha1(b"content"))).unwrap(), b"content");
    assert_eq!(proxy.targets(), [format!("releases.test:{}", server.port())]);

    let refused_world =
        FetchWorld::with_variable("BOSH_ALL_PROXY", format!("socks5://me:wr0ng@127.0.0.1:{}", proxy.port()));
    let error = refused_world.obtain(&url, None).unwrap_err();
    assert!(text(&error).contains("refuses the user and password"), "{error:?}");
    assert!(!(text(&error) + &refused_world.log()).contains("wr0ng"));
    assert_eq!(proxy.targets().len(), 1);
}

#[test]
fn missing_jumpbox_key_is_an_error_without_retries() {
    let world =
        FetchWorld::with_variable("BOSH_ALL_PROXY", "ssh+socks5://me@127.0.0.1:1?private-key=/no/such/key");
    let start = std::time::Instant::now();
    let error = world.obtain("http://releases.test/x.tgz", None).unwrap_err();
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(text(&error).contains("/no/such/key") && text(&error).contains("127.0.0.1:1"), "{error:?}");
}

#[test]
fn signal_ends_a_stalled_download() {
    use std::io::{Read as _, Write as _};
    use std::sync::atomic::AtomicBool;

    let direct: fn(u16) -> FetchWorld = |_| FetchWorld::new();
    let http: fn(u16) -> FetchWorld =
        |port| FetchWorld::with_variable("http_proxy", format!("http://127.0.0.1:{port}"));
    let socks: fn(u16) -> FetchWorld =
        |port| FetchWorld::with_variable("BOSH_ALL_PROXY", format!("socks5://127.0.0.1:{port}"));
    let (headers, body) =
        ("HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome");
    for (answer, proxy) in [
        ("", direct),
        (headers, direct),
        (body, direct),
        ("", http),
        (body, http),
        ("", socks),
        ("\x05", socks),
    ] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stream_sender, stream_receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer.as_bytes());
                let _ = stream_sender.send(stream);
            }
        });
        let stop = Arc::new(AtomicBool::new(false));
        let stop_flag = Arc::clone(&stop);
        let interrupt_check = move || match stop_flag.load(Ordering::SeqCst) {
            true => Err(Error::new(ErrorKind::Interrupted(2), "interrupted")),
            false => Ok(()),
        };
        let url = format!("http://127.0.0.1:{port}/x.tgz");
        let thread =
            std::thread::spawn(move || proxy(port).obtain_unless(&url, None, interrupt_check).unwrap_err());
        let _stream = stream_receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        let start = std::time::Instant::now();
        stop.store(true, Ordering::SeqCst);
        let error = thread.join().unwrap();
        assert_eq!(error.kind(), ErrorKind::Interrupted(2), "{answer:?}: {error:?}");
        assert!(start.elapsed() < Duration::from_secs(10), "{answer:?}: {:?}", start.elapsed());
    }
}

/// A registry with one image for the architecture of this machine and one for another. It wants a token, and
/// redirects to another server for layers, as public ones do.
struct ImageRegistry {
    server: Server,
    layer_server: Server,
    /// The digest of the index.
    digest: String,
}

const TOKEN_HEADER: &str = "Bearer t0ken";

impl ImageRegistry {
    fn start() -> Self {
        let architecture = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
        let layer_server = Server::for_file(b"a layer");
        let layer_url = layer_server.url("/layer");
        let layers = format!(r#"{{"layers": [{{"digest": "{}"}}]}}"#, sha256(b"a layer"));
        let manifest = |architecture: &str, digest: &str| {
            format!(r#"{{"digest": "{digest}", "platform": {{"architecture": "{architecture}"}}}}"#)
        };
        let manifests =
            [manifest("other", &sha256(b"")), manifest(architecture, &sha256(layers.as_bytes()))].join(",");
        let index = format!(r#"{{"manifests": [{manifests}]}}"#);
        let digest = sha256(index.as_bytes());
        let server = Server::start(move |request, _| {
            let (path, host) = (request.path(), request.header("host").unwrap_or_default());
            let challenge = format!(r#"Bearer realm="http://{host}/token?a=b",service="it""#);
            let authorization = request.header("authorization").unwrap_or_default();
            let is_document = path.contains("/manifests/");
            if path == "/token?a=b&service=it&scope=repository%3Ao%2Fx%3Apull"
                && authorization == basic_authorization("us", "pa55")
            {
                return answer("200 OK", &[], br#"{"token": "t0ken"}"#);
            }
            if authorization != TOKEN_HEADER {
                return answer("401 Unauthorized", &[("WWW-Authenticate", &challenge)], b"");
            }
            if is_document && !request.header("accept").unwrap_or_default().contains("image.index.v1+json") {
                return answer("406 Not Acceptable", &[], b"");
            }
            match path.strip_prefix("/v2/o/x/").unwrap_or_default() {
                "manifests/1" => answer("200 OK", &[], index.as_bytes()),
                path if is_document && path.ends_with(&sha256(index.as_bytes())) => {
                    answer("200 OK", &[], index.as_bytes())
                }
                path if is_document && path.ends_with(&sha256(layers.as_bytes())) => {
                    answer("200 OK", &[], layers.as_bytes())
                }
                path if path == format!("blobs/{}", sha256(b"a layer")) => {
                    answer("307 Temporary Redirect", &[("Location", &layer_url)], b"")
                }
                _ => answer("404 Not Found", &[], b""),
            }
        });
        ImageRegistry { server, layer_server, digest }
    }

    fn url(&self, user: &str, image: &str) -> String {
        format!("oci://{user}127.0.0.1:{}/{image}", self.server.port())
    }
}

#[test]
fn image_is_downloaded_with_a_token_of_the_registry() {
    let (world, registry) = (FetchWorld::new(), ImageRegistry::start());
    let url = registry.url("us:pa55@", "o/x:1");
    let source = world.obtain_unless(&url, None, || Ok(())).unwrap();
    let blobs: Vec<_> =
        source.image.unwrap().iter().map(|blob| (blob.is_layer, fs::read(&blob.path).unwrap())).collect();
    assert_eq!(blobs.len(), 2, "not the manifest of this machine and its layer");
    assert_eq!(blobs[1], (true, b"a layer".to_vec()));
    let tokens =
        registry.server.requests().iter().filter(|request| request.path().contains("/token")).count();
    assert_eq!(tokens, 1);
    // The token is for the registry alone.
    assert!(registry.layer_server.requests().iter().all(|request| request.header("authorization").is_none()));

    let request_count_before = registry.server.requests().len();
    world.obtain_unless(&url, None, || Ok(())).unwrap();
    let requests_after = registry.server.requests();
    let paths: Vec<&str> =
        requests_after[request_count_before..].iter().map(|request| request.path()).collect();
    assert!(paths.iter().all(|path| path.contains("/manifests/1") || path.contains("/token")), "{paths:?}");
}

#[test]
fn image_with_a_digest_is_obtained_without_a_request() {
    let (world, registry) = (FetchWorld::new(), ImageRegistry::start());
    let url = registry.url("us:pa55@", &format!("o/x@{}", registry.digest));
    let source = world.obtain_unless(&url, None, || Ok(())).unwrap();
    assert_eq!(sha256(&fs::read(&source.path).unwrap()), registry.digest);
    let request_count_before = registry.server.requests().len();
    world.obtain_unless(&url, None, || Ok(())).unwrap();
    assert_eq!(registry.server.requests().len(), request_count_before);

    // The index has another digest than the manifest.
    let result =
        FetchWorld::new().obtain_unless(&registry.url("us:pa55@", "o/x:1"), Some(&sha256(b"")), || Ok(()));
    assert!(text(&result.unwrap_err()).contains(&registry.digest[7..]));
}

#[test]
fn refusing_registry_is_explained_without_the_password() {
    let (world, registry) = (FetchWorld::new(), ImageRegistry::start());
    for (user, image, parts) in [
        ("us:wr0ng@", "o/x:1", ["gave no token", "it answered 401", "oci://USER:PASSWORD@HOST"]),
        ("us:pa55@", "o/x:2", ["/v2/o/x/manifests/2' failed", "404", "its tag"]),
        ("us:pa55@", &format!("o/x@{}", sha256(b"")), ["manifests/sha256:", "404", "its digest"]),
    ] {
        let error = text(&world.obtain_unless(&registry.url(user, image), None, || Ok(())).unwrap_err());
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains("wr0ng") && !error.contains("pa55"), "{error}");
    }
}

#[test]
fn wrong_documents_of_an_image_are_refused() {
    for (document, problem) in [
        ("[", "is not valid"),
        ("{}", "has 0 layers"),
        (r#"{"layers": [{"digest": "sha256:1"}]}"#, "64 hex digits"),
        (r#"{"manifests": [{"digest": "x", "platform": {"architecture": "vax"}}]}"#, "no image for"),
        (r#"{"layers": [{"digest": "a9993e364706816aba3e25717850c26c9cd0d89d"}]}"#, "SHA-1"),
    ] {
        let server = Server::for_file(document.as_bytes());
        let url = format!("oci://127.0.0.1:{}/x", server.port());
        let error = text(&FetchWorld::new().obtain_unless(&url, None, || Ok(())).unwrap_err());
        assert!(error.contains(problem), "{document}: {error}");
    }
}
