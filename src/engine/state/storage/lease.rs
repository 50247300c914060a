//! The lease: the lock of a state in a bucket, an object that names its holder and expires unless it is
//! renewed.
//!
//! Only the server's clock decides for other runs whether a lease has expired: they compare the date of the
//! object with the server's current time. The holder uses its own clock, counted from before it requested the
//! renewal. That clock runs while the machine sleeps and cannot be set. The holder considers its lease lost
//! well before another run may take it.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use object_store::UpdateVersion;
use parking_lot::{Condvar, Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::bucket_client::{BucketClient, Object, WriteCondition, WriteOutcome};
use super::http::Interruption;
use super::keeper::Keeper;
use super::{LOCK_DOCUMENT, STATE_DOCUMENT};
use crate::state::lock::{Holder, LockConflictHandler, in_use_error};
use crate::state::{call_rules, calls};
use base::encryption::Encryption;
use base::{Error, ErrorKind, Result, encoding};

/// The allowance for the dates of objects, which servers round to the second.
const DATE_TOLERANCE: Duration = Duration::from_secs(2);
/// The allowed lengths of a lease, in seconds. They also limit the length in an object.
pub(super) const LEASE_SECONDS: RangeInclusive<u64> = 3..=3600;

/// The number of lease lengths after which a run that waits at a prompt gives its lease back. This is 10
/// minutes for the usual lease of a minute.
const MAX_PROMPT_LEASES: u32 = 10;

/// The content of the lease object, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct LeaseContent {
    #[serde(flatten)]
    holder: Holder,
    /// The unique id of this lease.
    #[serde(rename = "owner")]
    lease_id: Uuid,
    /// Its length, counted from the server's date of the object.
    #[serde(rename = "lasts_seconds")]
    length_seconds: u64,
    /// The number of renewals.
    renewals: u64,
    /// The time at which it expires by the holder's clock. For information only.
    expires: String,
    /// True if it was taken over and its holder has not written the state yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_unfenced: bool,
}

/// The lease, held until dropped.
#[derive(Debug)]
pub(in crate::state) struct Lease {
    shared_lease: Arc<SharedLease>,
    renewal_thread: Option<JoinHandle<()>>,
    /// The holder of the expired lease, if this one was taken over.
    pub(in crate::state) previous_holder: Option<String>,
}

/// A lease that this process holds or held, shared with the threads that renew and give it back.
#[derive(Debug)]
pub(super) struct SharedLease {
    client: Arc<BucketClient>,
    calls_directory: PathBuf,
    encryption: Encryption,
    status: Mutex<LeaseStatus>,
    /// Wakes the thread that renews the lease.
    wake_up: Condvar,
    keeper: Mutex<Option<Keeper>>,
    /// True if the server was shown to respect conditional writes.
    respects_conditional_writes: Mutex<bool>,
}

/// The lease as this run last wrote or read it.
#[derive(Debug)]
struct LeaseStatus {
    content: LeaseContent,
    version: UpdateVersion,
    /// The time until which the lease is valid, by [`uptime`].
    valid_until: Duration,
    /// The reason why the lease is lost, if it is.
    lost_reason: Option<String>,
    /// The time since which the run waits for an answer at a prompt, by [`uptime`].
    prompting_since: Option<Duration>,
    has_ended: bool,
}

impl Lease {
    /// Takes the lease once no other run holds a valid one, and starts to renew it in the background. While
    /// another run holds it, calls `on_conflict` with the error that names the holder, and tries again if it
    /// returns `Ok`.
    pub(super) fn take(
        client: &Arc<BucketClient>,
        holder: &Holder,
        calls_directory: &Path,
        encryption: &Encryption,
        on_conflict: &mut LockConflictHandler<'_>,
    ) -> Result<Self> {
        let lock_error = |error| Error::io(format!("locking '{}'", client.url(STATE_DOCUMENT)), error);
        let mut content = LeaseContent::new(holder, client.settings.lease_duration);
        // Most leases are free, so the first attempt writes without reading.
        let mut has_looked = false;
        loop {
            let lock_object = if has_looked { client.get(LOCK_DOCUMENT).map_err(lock_error)? } else { None };
            has_looked = true;
            let condition = match &lock_object {
                None => WriteCondition::Absent,
                Some(object) => match remaining_time(object, client.settings.lease_duration) {
                    Some(remaining_time) => {
                        on_conflict(lease_conflict_error(client, object, remaining_time))?;
                        continue;
                    }
                    None => WriteCondition::Version(object.version.clone()),
                },
            };
            let start = uptime();
            content.update_expiry();
            content.is_unfenced = call_rules::must_fence(lock_object.is_some());
            let WriteOutcome::Done(version) =
                client.put(LOCK_DOCUMENT, &content.bytes(), &condition).map_err(lock_error)?
            else {
                continue;
            };
            let previous_holder = lock_object.as_ref().map(|object| {
                tracing::warn!(lease = %String::from_utf8_lossy(&object.bytes),
                    "taking over a lease that ran out");
                let content = serde_json::from_slice::<LeaseContent>(&object.bytes);
                content.map_or_else(|_| "another run".to_owned(), |content| content.holder.to_string())
            });
            let valid_until = start + content.length();
            let status = LeaseStatus {
                content,
                version,
                valid_until,
                lost_reason: None,
                prompting_since: None,
                has_ended: false,
            };
            let shared_lease = Arc::new(SharedLease::new(client, calls_directory, encryption, status));
            let renewal_thread = Some(shared_lease.renew_in_background().map_err(lock_error)?);
            let lease = Lease { shared_lease, renewal_thread, previous_holder };
            lease.shared_lease.start_keeper()?;
            return Ok(lease);
        }
    }

    /// Continues the lease of a run that has ended. Returns `None` if the lease no longer belongs to that
    /// run.
    pub(super) fn inherit(
        client: &Arc<BucketClient>,
        lease_id: Uuid,
        calls_directory: &Path,
    ) -> io::Result<Option<Self>> {
        // The encryption is used only to start a keeper, which this process does not do.
        let encryption = &Encryption::default();
        let Some(object) = client.get(LOCK_DOCUMENT)? else { return Ok(None) };
        let content = serde_json::from_slice::<LeaseContent>(&object.bytes)
            .ok()
            .filter(|content| content.lease_id == lease_id);
        let Some(mut content) = content else { return Ok(None) };
        content.holder.command.push_str(" (ended; its CPI call is still running)");
        let version = object.version;
        let status = LeaseStatus {
            content,
            version,
            valid_until: Duration::ZERO,
            lost_reason: None,
            prompting_since: None,
            has_ended: false,
        };
        let shared_lease = Arc::new(SharedLease::new(client, calls_directory, encryption, status));
        // The first attempt may conflict with a last renewal by the run itself.
        let _ = shared_lease.renew() || shared_lease.renew();
        let renewal_thread = Some(shared_lease.renew_in_background()?);
        Ok(Some(Lease { shared_lease, renewal_thread, previous_holder: None }))
    }

    /// Returns the lease with its status, which is shared with the thread that renews it.
    pub(super) fn shared_lease(&self) -> &Arc<SharedLease> {
        &self.shared_lease
    }

    /// Ends without giving the lease back, so that it expires.
    pub(super) fn let_expire(self) {
        self.shared_lease.lock_status().lost_reason = Some("it is left to expire".to_owned());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let shared_lease = &self.shared_lease;
        shared_lease.client.interruption.begin_cleaning_up();
        shared_lease.lock_status().has_ended = true;
        shared_lease.wake_up.notify_all();
        if let Some(renewal_thread) = self.renewal_thread.take() {
            let _ = renewal_thread.join();
        }
        let keeper = shared_lease.keeper.lock().take();
        match keeper {
            // The keeper publishes the outcome of the calls, and then gives the lease back.
            Some(keeper) if !calls::find_marked_calls(&shared_lease.calls_directory).is_empty() => {
                keeper.hand_over(&shared_lease.calls_directory)
            }
            keeper => {
                let may_give_back = call_rules::may_give_back(shared_lease.lock_status().content.is_unfenced);
                let is_ours = shared_lease.lock_status().lost_reason.is_none()
                    && shared_lease.is_valid()
                    && may_give_back;
                let version = shared_lease.lock_status().version.clone();
                if is_ours && let Err(error) = shared_lease.client.delete(LOCK_DOCUMENT, Some(&version)) {
                    tracing::warn!(%error, "giving the lease back failed; it stays until it expires");
                }
                keeper.into_iter().for_each(Keeper::stop);
            }
        }
    }
}

impl SharedLease {
    fn new(
        client: &Arc<BucketClient>,
        calls_directory: &Path,
        encryption: &Encryption,
        status: LeaseStatus,
    ) -> Self {
        SharedLease {
            client: Arc::clone(client),
            calls_directory: calls_directory.to_owned(),
            encryption: encryption.clone(),
            status: Mutex::new(status),
            wake_up: Condvar::new(),
            keeper: Mutex::default(),
            respects_conditional_writes: Mutex::default(),
        }
    }

    fn lock_status(&self) -> MutexGuard<'_, LeaseStatus> {
        self.status.lock()
    }

    /// Returns true if no other run can have taken the lease yet, with some time to spare for the operation
    /// about to begin.
    fn is_valid(&self) -> bool {
        let status = self.lock_status();
        uptime() + status.content.length() / 6 < status.valid_until
    }

    /// Fails if the lease is lost. Makes no request.
    pub(super) fn check(&self) -> Result<()> {
        let is_valid = self.is_valid();
        let status = self.lock_status();
        let reason = match &status.lost_reason {
            // The lease was given back.
            _ if status.has_ended => return Ok(()),
            Some(reason) => reason.clone(),
            None if is_valid => return Ok(()),
            None => "it could not be renewed in time".to_owned(),
        };
        let url = self.client.url(STATE_DOCUMENT);
        Err(Error::new(ErrorKind::Locked, format!("the lease on '{url}' is lost: {reason}"))
            .with_note("this run stops here; everything that it did is in the state or the journal")
            .with_rerun_hint(
                "make sure that no other run works on this environment, then run the same command again",
            ))
    }

    /// Like [`SharedLease::check`], but also asks the server. If this succeeds, every later holder of the
    /// lease sees what this run announced before.
    pub(super) fn confirm(&self) -> Result<()> {
        self.check()?;
        let lock_object = self.client.get(LOCK_DOCUMENT).map_err(|error| {
            Error::io(
                format!(
                    "looking whether this run still has the lease on '{}'",
                    self.client.url(STATE_DOCUMENT)
                ),
                error,
            )
        })?;
        let lease_id = self.lock_status().content.lease_id;
        if let Err(reason) = check_lease_id(lease_id, lock_object.as_ref()) {
            self.lock_status().lost_reason = Some(reason);
        }
        self.check()
    }

    /// Starts the keeper, which takes over if this process is killed. The keeper gives the lease back when
    /// the outcome of all announced calls is known.
    fn start_keeper(&self) -> Result<()> {
        let settings = &self.client.settings;
        let Some(executable) = &settings.executable else { return Ok(()) };
        let lease_id = self.lock_status().content.lease_id;
        let keeper = Keeper::start(executable, settings, lease_id, &self.calls_directory, &self.encryption)?;
        *self.keeper.lock() = Some(keeper);
        Ok(())
    }

    /// Checks once that the server respects conditional writes, with two writes that it must reject. A server
    /// that accepts every write cannot provide a lock.
    ///
    /// The caller does this before the first effect of a run, so that a run without effects saves the
    /// requests.
    pub(super) fn verify_conditional_writes(&self) -> Result<()> {
        let mut respects_conditional_writes = self.respects_conditional_writes.lock();
        if *respects_conditional_writes {
            return Ok(());
        }
        let url = self.client.url(LOCK_DOCUMENT);
        let impossible_version =
            UpdateVersion { e_tag: Some("\"0x8D0000000000000\"".into()), version: Some("1".into()) };
        for (write_condition, condition) in [
            (WriteCondition::Absent, "If-None-Match"),
            (WriteCondition::Version(impossible_version), "If-Match"),
        ] {
            let content = LeaseContent {
                expires: "when the server ignores conditions".to_owned(),
                ..self.lock_status().content.clone()
            };
            let write_result = self.client.put(LOCK_DOCUMENT, &content.bytes(), &write_condition);
            if let WriteOutcome::Done(_) =
                write_result.map_err(|error| Error::io(format!("trying '{url}'"), error))?
            {
                return Err(Error::failure(format!(
                    "the server ignored the condition {condition} and wrote '{url}', so the state cannot be \
                     locked there"
                ))
                .with_hint("use a storage service with conditional writes (If-Match, If-None-Match)"));
            }
        }
        *respects_conditional_writes = true;
        Ok(())
    }

    fn renew_in_background(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let shared_lease = Arc::clone(self);
        std::thread::Builder::new().name("lease".to_owned()).spawn(move || shared_lease.keep_renewing())
    }

    fn keep_renewing(&self) {
        Interruption::exclude_this_thread();
        let length = self.lock_status().content.length();
        let mut pause = length / 3;
        loop {
            let mut status = self.lock_status();
            self.wake_up.wait_while_for(&mut status, |status| !status.has_ended, pause);
            if status.has_ended || status.lost_reason.is_some() {
                return;
            }
            let is_idle = status
                .prompting_since
                .is_some_and(|prompt_start| uptime() >= prompt_start + length * MAX_PROMPT_LEASES);
            drop(status);
            if is_idle {
                return self.give_back();
            }
            // A failed renewal is retried soon.
            pause = if self.renew() { length / 3 } else { length / 30 };
        }
    }

    /// Records that the run has written the state since it took over the lease.
    pub(super) fn mark_fenced(&self) {
        self.lock_status().content.is_unfenced = false;
    }

    /// Records that the run begins to wait at a prompt, or that it has an answer. The next renewal tells
    /// other runs.
    pub(super) fn set_prompting(&self, is_prompting: bool) {
        let mut status = self.lock_status();
        status.prompting_since = is_prompting.then(uptime);
        status.content.holder.is_prompting = is_prompting;
    }

    /// Gives the lease back while the operator does not answer. The run can then change nothing any more.
    fn give_back(&self) {
        let (version, length) = {
            let status = self.lock_status();
            (status.version.clone(), status.content.length())
        };
        let timeout = base::text::format_duration(length * MAX_PROMPT_LEASES);
        self.lock_status().lost_reason =
            Some(format!("this run gave it back, because a question was not answered within {timeout}"));
        if let Err(error) = self.client.delete(LOCK_DOCUMENT, Some(&version)) {
            tracing::warn!(%error, "giving the lease back failed; it stays until it expires");
        }
    }

    /// Renews the lease. Returns true on success.
    fn renew(&self) -> bool {
        let (content, version) = {
            let mut status = self.lock_status();
            status.content.renewals += 1;
            status.content.update_expiry();
            (status.content.clone(), status.version.clone())
        };
        let start = uptime();
        match self.client.put(LOCK_DOCUMENT, &content.bytes(), &WriteCondition::Version(version)) {
            Ok(WriteOutcome::Done(version)) => {
                let mut status = self.lock_status();
                status.version = version;
                status.valid_until = start + content.length();
                true
            }
            Ok(WriteOutcome::Conflict) => {
                // An earlier renewal may have succeeded although its answer was lost.
                let Ok(lock_object) = self.client.get(LOCK_DOCUMENT) else { return false };
                let check_result = check_lease_id(content.lease_id, lock_object.as_ref());
                let mut status = self.lock_status();
                match (check_result, lock_object) {
                    (Ok(()), Some(object)) => status.version = object.version,
                    (Ok(()), None) => {}
                    (Err(reason), _) => status.lost_reason = Some(reason),
                }
                false
            }
            Err(error) => {
                tracing::warn!(%error, "renewing the lease failed; trying again");
                false
            }
        }
    }
}

impl LeaseContent {
    fn new(holder: &Holder, length: Duration) -> Self {
        let (lease_id, length_seconds) = (Uuid::new_v4(), length.as_secs());
        let expires = String::new();
        LeaseContent {
            holder: holder.clone(),
            lease_id,
            length_seconds,
            renewals: 0,
            expires,
            is_unfenced: false,
        }
    }

    fn update_expiry(&mut self) {
        self.expires = encoding::rfc3339(OffsetDateTime::now_utc() + self.length());
    }

    fn length(&self) -> Duration {
        Duration::from_secs(self.length_seconds.clamp(*LEASE_SECONDS.start(), *LEASE_SECONDS.end()))
    }

    fn bytes(&self) -> Vec<u8> {
        // The content consists of strings and numbers, which can always be encoded.
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }
}

/// Checks that an object is the lease with this id. The error describes what the bucket has instead.
fn check_lease_id(lease_id: Uuid, lock_object: Option<&Object>) -> Result<(), String> {
    let Some(object) = lock_object else { return Err("it was deleted".to_owned()) };
    match serde_json::from_slice::<LeaseContent>(&object.bytes) {
        Ok(content) if content.lease_id == lease_id => Ok(()),
        Ok(content) => Err(format!("{} has it now", content.holder)),
        Err(_) => Err("it was overwritten".to_owned()),
    }
}

/// Returns the remaining time of a lease, or `None` if it has expired. Without a time from the server, the
/// lease never expires.
fn remaining_time(object: &Object, usual_length: Duration) -> Option<Duration> {
    let content = serde_json::from_slice::<LeaseContent>(&object.bytes);
    let length = content.map_or(usual_length, |content| content.length()) + DATE_TOLERANCE;
    let now = object.now.unwrap_or(SystemTime::UNIX_EPOCH);
    let age = now.duration_since(object.written_at).unwrap_or(Duration::ZERO);
    length.checked_sub(age).filter(|remaining_time| !remaining_time.is_zero())
}

fn lease_conflict_error(client: &BucketClient, object: &Object, remaining_time: Duration) -> Error {
    let holder = serde_json::from_slice::<LeaseContent>(&object.bytes).ok().map(|content| content.holder);
    let lock = client.url(LOCK_DOCUMENT);
    in_use_error(
        holder.as_ref(),
        format!(
            "if that run was killed, its lease '{lock}' expires in {}",
            base::text::format_duration(remaining_time)
        ),
    )
}

/// Returns the time since boot. This clock cannot be set, and runs while the machine sleeps.
fn uptime() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    // On other systems the monotonic clock does the same.
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &[u8], age: Option<u64>) -> Object {
        let written_at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let version = UpdateVersion { e_tag: None, version: None };
        let now = age.map(|age| written_at + Duration::from_secs(age));
        Object { bytes: text.to_vec(), version, written_at, now }
    }

    #[test]
    fn lease_expires_by_server_time_and_its_length() {
        let content = LeaseContent::new(&Holder::this_process("create-env"), Duration::from_secs(30)).bytes();
        let usual_length = Duration::from_secs(60);
        let seconds =
            |text: &[u8], age| remaining_time(&object(text, age), usual_length).map(|time| time.as_secs());
        assert_eq!(seconds(&content, Some(0)), Some(32));
        assert_eq!(seconds(&content, Some(31)), Some(1));
        assert_eq!(seconds(&content, Some(32)), None);
        assert_eq!(seconds(b"damaged", Some(40)), Some(22), "a damaged lease has another length than ours");
        assert_eq!(seconds(b"damaged", Some(62)), None);
        assert!(seconds(&content, None).is_some(), "the lease of a server without a clock has expired");
        let endless = String::from_utf8(content.clone()).unwrap().replace(": 30,", ": 18446744073709551615,");
        assert_eq!(
            seconds(endless.as_bytes(), Some(0)),
            Some(3602),
            "a lease is longer than the longest one"
        );
    }
}
