use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use base::redact::Redactor;
use base::secret::Secret;
use stall::StallPoint;

#[path = "../../../tests/it/support/stall.rs"]
mod stall;

/// Timeouts that are short, but long enough for a handshake on a busy machine.
const SHORT_TIMEOUTS: AgentTimeouts = AgentTimeouts {
    connect: Duration::from_millis(500),
    message: Duration::from_secs(1),
    digest: Duration::from_millis(1500),
    stall: Duration::from_millis(500),
    cleanup: Duration::from_secs(1),
    search: Duration::from_secs(1),
};

/// The time that a busy machine may add to a timeout.
const MAX_DELAY: Duration = Duration::from_secs(15);

/// A client of an agent that stalls, and a receiver that is notified when it does.
struct StalledAgent {
    agent: Agent,
    interrupt: Arc<AtomicBool>,
    stall_receiver: std::sync::mpsc::Receiver<()>,
}

fn stalled_at(point: StallPoint, timeouts: AgentTimeouts) -> StalledAgent {
    let certified_key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = rustls_pki_types::PrivatePkcs8KeyDer::from(certified_key.signing_key.serialize_der());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified_key.cert.der().clone()], key.into())
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stall_receiver = stall::serve(listener, Arc::new(tls), "some-agent", point);
    let redactor = Redactor::default();
    let mbus = Secret::new(format!("https://mbus:secret@{address}"), &redactor);
    let endpoint = AgentEndpoint::new(&mbus, Some(&certified_key.cert.pem()), &redactor).unwrap();
    let interrupt = Arc::new(AtomicBool::new(false));
    let interrupt_flag = Arc::clone(&interrupt);
    let signal_check = Arc::new(move || interrupt_flag.load(Ordering::SeqCst).then_some(2));
    let agent = Agent::with_timeouts(endpoint, "director", signal_check, Clock::start(), timeouts);
    StalledAgent { agent, interrupt, stall_receiver }
}

/// Makes the request that stalls at `point`, and returns its error.
fn reach(agent: &Agent, point: StallPoint) -> AgentError {
    match point {
        StallPoint::Task => agent.perform("compile_package", json!([])).unwrap_err(),
        StallPoint::Upload => {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(64 << 20).unwrap();
            agent.put_blob("some-id", file.path(), &mut |_| {}).unwrap_err()
        }
        StallPoint::Download => agent.get_blob("some-id", &mut io::sink()).unwrap_err(),
        _ => agent.send("get_state", json!([])).unwrap_err(),
    }
}

fn points() -> impl Iterator<Item = StallPoint> {
    StallPoint::MESSAGE.into_iter().chain([StallPoint::Task, StallPoint::Upload, StallPoint::Download])
}

#[test]
fn request_to_a_stalled_agent_times_out() {
    let threads = points().map(|point| {
        std::thread::spawn(move || {
            let StalledAgent { agent, .. } = stalled_at(point, SHORT_TIMEOUTS);
            let (method, problem, timeout) = match point {
                StallPoint::Accepted | StallPoint::Handshake => {
                    ("get_state", "no TLS connection within 0.5 s", SHORT_TIMEOUTS.connect)
                }
                StallPoint::Continue | StallPoint::Headers | StallPoint::Drip | StallPoint::Body => {
                    ("get_state", "no complete answer within 1.0 s", SHORT_TIMEOUTS.message)
                }
                StallPoint::Task => ("get_task", "no complete answer within 1.0 s", SHORT_TIMEOUTS.message),
                StallPoint::Upload => ("put blob", "no byte was transferred for 0.5 s", SHORT_TIMEOUTS.stall),
                StallPoint::Download => {
                    ("get blob", "no byte was transferred for 0.5 s", SHORT_TIMEOUTS.stall)
                }
            };
            let start = Instant::now();
            let error = reach(&agent, point);
            let duration = start.elapsed();
            assert!(duration >= timeout && duration < timeout + MAX_DELAY, "{point:?}: {duration:?}");
            assert!(matches!(error, AgentError::Stalled { .. }), "{point:?}: {error}");
            let expected = format!("{} did not answer `{method}`: {problem}", agent.address());
            assert_eq!(error.to_string(), expected, "{point:?}");
            assert_eq!(base::Error::from(error).kind(), base::ErrorKind::AgentUnreachable);
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn signal_ends_the_wait_for_a_stalled_agent() {
    let threads = points().map(|point| {
        std::thread::spawn(move || {
            let StalledAgent { agent, interrupt, stall_receiver } = stalled_at(point, AGENT_TIMEOUTS);
            let reach_thread = std::thread::spawn(move || reach(&agent, point));
            stall_receiver.recv_timeout(Duration::from_secs(60)).unwrap();
            let start = Instant::now();
            interrupt.store(true, Ordering::SeqCst);
            let error = reach_thread.join().unwrap();
            let duration = start.elapsed();
            assert!(duration < Duration::from_secs(10), "{point:?}: {duration:?}");
            assert!(matches!(error, AgentError::Interrupted { signal: 2, .. }), "{point:?}: {error}");
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn ping_is_limited_by_the_agent_timeout() {
    let StalledAgent { agent, .. } =
        stalled_at(StallPoint::Headers, AgentTimeouts { message: AGENT_TIMEOUTS.message, ..SHORT_TIMEOUTS });
    let start = Instant::now();
    let error = agent.wait_until_ready(Duration::from_millis(500), &mut |_| {}).unwrap_err();
    assert!(matches!(error, AgentError::Stalled { .. }), "{error}");
    assert!(
        start.elapsed() < Duration::from_millis(500) + SHORT_TIMEOUTS.connect * 2 + MAX_DELAY,
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn cleanup_continues_briefly_after_a_signal() {
    let StalledAgent { agent, interrupt, .. } = stalled_at(StallPoint::Upload, AGENT_TIMEOUTS);
    interrupt.store(true, Ordering::SeqCst);
    assert!(matches!(agent.get_state().unwrap_err(), AgentError::Interrupted { .. }));
    agent.remove_blob("some-id").unwrap();

    let StalledAgent { agent, interrupt, .. } = stalled_at(StallPoint::Body, AGENT_TIMEOUTS);
    interrupt.store(true, Ordering::SeqCst);
    let start = Instant::now();
    agent.remove_blob("some-id").unwrap_err();
    assert!(start.elapsed() < AGENT_TIMEOUTS.cleanup + MAX_DELAY, "{:?}", start.elapsed());
}
