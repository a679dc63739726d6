//! The thread that writes entries, so that nothing waits for the disk. Entries that cannot be
//! written, or arrive faster than the disk can write, are counted, and the gap becomes an entry.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::chain::AuditChain;
use super::files::{AuditFiles, AuditGap};
use aetheel_model::audit::{AuditEntry, AuditSink};
use aetheel_model::redact::Redactor;
use aetheel_runtime::supervisor;

const MAX_WAITING_ENTRIES: usize = 4_096;
const MAX_BATCH: usize = 256;
/// Delay before a gap is written again after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Interval at which entries are removed because of their age.
const EXPIRE_INTERVAL: Duration = Duration::from_hours(24);

enum AuditWriterCommand {
    Entry(Timestamp, AuditEntry),
    Flush(SyncSender<()>),
}

/// The audit log of a gateway. The thread ends when this is dropped.
pub struct AuditLog {
    commands: SyncSender<AuditWriterCommand>,
    /// Number of entries that found the queue full.
    overflow: Arc<AtomicU64>,
}

impl AuditLog {
    /// Starts the thread that writes below `config_dir`, and removes entries older than
    /// `retention`.
    #[must_use]
    pub fn start(config_dir: &Path, retention: Duration, redactor: Redactor) -> Self {
        let (commands, received) = mpsc::sync_channel(MAX_WAITING_ENTRIES);
        let overflow = Arc::<AtomicU64>::default();
        let files = AuditFiles::new(config_dir);
        // A file that cannot be read is reported by `aetheel audit verify`.
        let earlier = files.gap().ok().flatten();
        let mut writer = AuditWriter {
            files,
            retention,
            redactor,
            chain: None,
            overflow: Arc::clone(&overflow),
            lost: None,
            earlier,
            expires: None,
            warned: false,
        };
        if let Err(error) = supervisor::spawn_thread("audit log", move || writer.run(&received)) {
            tracing::error!(%error, "cannot start the thread that writes the audit log");
        }
        Self { commands, overflow }
    }
}

impl AuditSink for AuditLog {
    fn note(&self, entry: AuditEntry) {
        if self.commands.try_send(AuditWriterCommand::Entry(Timestamp::now(), entry)).is_err() {
            self.overflow.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn flush(&self, limit: Duration) {
        let (done_tx, done) = mpsc::sync_channel(1);
        if self.commands.try_send(AuditWriterCommand::Flush(done_tx)).is_ok() {
            let _ = done.recv_timeout(limit);
        }
    }
}

struct AuditWriter {
    files: AuditFiles,
    retention: Duration,
    redactor: Redactor,
    /// The open end of the chain, or `None` before the first entry and after a failure.
    chain: Option<AuditChain>,
    overflow: Arc<AtomicU64>,
    /// The entries of this process that were not written.
    lost: Option<AuditGap>,
    /// The entries that an earlier process lost, or one that still runs. It may write the entry
    /// about them itself.
    earlier: Option<AuditGap>,
    /// When old entries are removed next.
    expires: Option<Instant>,
    /// Whether the present failure was logged.
    warned: bool,
}

impl AuditWriter {
    fn run(&mut self, commands: &Receiver<AuditWriterCommand>) {
        loop {
            let knows_gap = self.gaps().next().is_some();
            let wait = if knows_gap { RETRY_INTERVAL } else { EXPIRE_INTERVAL };
            let first = match commands.recv_timeout(wait) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let (mut entries, mut flushed) = (Vec::new(), Vec::new());
            for command in first.into_iter().chain(commands.try_iter().take(MAX_BATCH)) {
                match command {
                    AuditWriterCommand::Entry(time, entry) => entries.push((time, entry)),
                    AuditWriterCommand::Flush(done) => flushed.push(done),
                }
            }
            self.write(entries);
            for done in flushed {
                let _ = done.try_send(());
            }
        }
    }

    /// Writes entries, after an entry about those that were lost before.
    fn write(&mut self, entries: Vec<(Timestamp, AuditEntry)>) {
        self.count_lost(self.overflow.swap(0, Ordering::Relaxed));
        let count = entries.len() as u64;
        match self.append(&entries) {
            Ok(()) => {
                (self.lost, self.earlier) = (None, None);
                if std::mem::take(&mut self.warned) {
                    tracing::info!("the audit log is written again");
                }
            }
            Err(error) => {
                self.chain = None;
                self.count_lost(count);
                self.save_gap();
                if !std::mem::replace(&mut self.warned, true) {
                    tracing::warn!(%error, "the audit log cannot be written, so entries are missing; hint: free disk space or repair the folder state/audit");
                }
            }
        }
    }

    fn append(&mut self, entries: &[(Timestamp, AuditEntry)]) -> std::io::Result<()> {
        let gaps: Vec<AuditGap> = self.gaps().collect();
        let chain = match &mut self.chain {
            Some(chain) => chain,
            closed => closed.insert(AuditChain::open(&self.files, &self.redactor)?),
        };
        chain.append_after(&gaps, entries, &self.redactor)?;
        if self.expires.is_none_or(|expires| expires <= Instant::now()) {
            self.expires = Some(Instant::now() + EXPIRE_INTERVAL);
            if let Err(error) = chain.expire(self.retention, &self.redactor) {
                tracing::warn!(%error, "cannot remove old entries of the audit log");
            }
        }
        Ok(())
    }

    fn gaps(&self) -> impl Iterator<Item = AuditGap> {
        self.earlier.into_iter().chain(self.lost)
    }

    /// Notes the number of lost entries for the next process, in case that this one ends before it
    /// can write an entry about them.
    fn save_gap(&self) {
        let Some(gap) = AuditGap::sum(self.gaps()) else { return };
        if let Err(error) = self.files.save_gap(&gap) {
            tracing::debug!(%error, "cannot save the number of lost entries in state/audit-head.md");
        }
    }

    fn count_lost(&mut self, count: u64) {
        if count > 0 {
            let lost = self.lost.get_or_insert_with(|| AuditGap { count: 0, since: whole_ms() });
            lost.count += count;
        }
    }
}

/// Returns the current time in whole milliseconds, as the second place has it.
fn whole_ms() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
