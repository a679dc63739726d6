//! The operator's folder of markdown files: what the agent is told, what it remembers, what the
//! gateway keeps.
//!
//! Owns every file under `CONFIG_DIR` and how it is read and written: documents fresh and never
//! torn, memory appended and on disk, state replaced as a whole and mendable by hand. Decides
//! nothing about turns. All calls do their I/O on the blocking pool; dropping a future does not
//! stop what it began. Pinned by the tests of each file here.

mod backend_notes;
mod baselines;
mod bindings;
mod blobs;
mod boot;
mod channels;
mod components;
mod deliveries;
mod discord_notes;
mod documents;
mod drift;
mod fields;
mod followed;
mod fresh;
mod handover;
mod heartbeats;
mod history;
mod hooks;
mod inspection;
mod jobs;
mod journal;
mod ledger;
mod leftovers;
mod lock;
mod lost;
mod memory;
mod profiles;
mod remembered;
mod schedule_notes;
mod shares;
mod sign_ins;
mod turns;
mod webhooks;

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

pub use backend_notes::{BackendFile, BackendNotes, ChosenOption};
pub use baselines::BaselineNotes;
pub use bindings::{Binding, Bindings, BindingsError, SessionId};
pub use boot::Booted;
pub use channels::{
    Channels, LaneSettings, directory as channel_directory, is_label, plain as is_plain_model,
    with_channel, with_project,
};
pub use components::{Components, KEPT, Last, Served, digest as component_digest};
pub use deliveries::{Claim, Claimed, Deliveries};
pub use discord_notes::{DiscordNotes, Noted};
pub use drift::{Drift, DriftKey, DriftNotes, bound_drift};
pub use heartbeats::{Check, Heartbeats};
pub use history::{History, Past};
pub use hooks::{Hook, Hooks, Instruction};
pub use inspection::{StateFile, inspect};
pub use jobs::{CronJob, CronJobs};
pub use journal::{Entry, Journal, LineStore, OFFER_SPAN_MS, Saving};
pub use lock::{Held, Lock, Serving, locked_by};
pub use lost::{LostState, LostTurn, LostTurns};
pub use profiles::{Profile, ProfileFile, Profiles};
pub use remembered::{MemoryOf, Place, noted, place as memory_place};
pub use schedule_notes::{ScheduleNotes, Through};
pub use shares::{Share, Shares, Unshared};
pub use sign_ins::{SignIn, SignIns};
pub use turns::{
    ANSWERED_LIMIT, ASKED_LIMIT, Search, Sheet, TurnHow, TurnLine, Turns, TurnsKept, costs,
};
pub use webhooks::{Rate, Scheme, Webhook, WebhookFile, Webhooks};

use aetheel_model::event::{Lane, Sequence};
use aetheel_model::prompt::{Document, Documents};
use followed::Followed;

use crate::disk::Stamp;

/// Most bytes read of a document; of `memory.md` the last ones, of others the first.
pub const DOCUMENT_LIMIT: u64 = 1 << 20;

/// A file or folder that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} `{}`", path.display())]
pub struct FileError {
    doing: &'static str,
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

impl FileError {
    fn new(doing: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self { doing, path: path.to_owned(), source }
    }
}

/// The configuration folder. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Workspace {
    inner: Arc<Inner>,
    bindings: Bindings,
    history: History,
    notes: DiscordNotes,
    schedules: ScheduleNotes,
    drift: DriftNotes,
    baselines: BaselineNotes,
    lost: LostTurns,
    shares: Shares,
    turns: Turns,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    /// Held for writing while we append, so that no read of ours falls into it.
    appending: RwLock<()>,
    /// `memory.md` as we left it when we last appended.
    appended: Mutex<Option<Stamp>>,
    /// The files below `memory/` likewise.
    noted: Mutex<HashMap<PathBuf, Stamp>>,
    /// The last whole text of every document, for when one cannot be read.
    last: Mutex<[Option<String>; 6]>,
    channels: Mutex<Followed<Channels>>,
    heartbeats: Mutex<Followed<Heartbeats>>,
    jobs: Mutex<Followed<CronJobs>>,
    hooks: Mutex<Followed<Hooks>>,
}

impl Workspace {
    /// Opens the folder. It and its `state` folder are made when missing, and nothing else: that is
    /// for [`Workspace::boot`].
    ///
    /// # Errors
    /// [`FileError`] if the folder cannot be made, or its state or a file of the operator's that
    /// holds limits or instructions cannot be read.
    pub async fn open(folder: &Path) -> Result<Self, FileError> {
        let folder = folder.to_owned();
        blocking(move || {
            let folder = std::path::absolute(&folder)
                .map_err(|source| FileError::new("find", &folder, source))?;
            let state = folder.join("state");
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&state);
            made.map_err(|source| FileError::new("make the folder", &state, source))?;
            let bindings = Bindings::open(&state.join("sessions.md"))?;
            let history = History::open(&state.join("history.md"))?;
            let notes = DiscordNotes::open(&state.join("discord.md"))?;
            let schedules = ScheduleNotes::open(&state.join("schedules.md"))?;
            let drift = DriftNotes::open(&state.join("drift.md"))?;
            let baselines = BaselineNotes::open(&state.join("baselines.md"))?;
            let lost = LostTurns::open(&state)?;
            let shares = Shares::open(&state.join("shares.md"))?;
            let turns = Turns::at(state.join("turns"));
            let inner = Inner {
                appending: RwLock::new(()),
                appended: Mutex::default(),
                noted: Mutex::default(),
                last: Mutex::default(),
                channels: Mutex::new(Followed::new(folder.join("channels.md"), Channels::parse)),
                hooks: Mutex::new(Followed::new(folder.join("agents.md"), Hooks::parse)),
                heartbeats: Mutex::new(Followed::new(
                    folder.join("heartbeat.md"),
                    Heartbeats::parse,
                )),
                jobs: Mutex::new(Followed::new(folder.join("agents.md"), CronJobs::parse)),
                folder,
            };
            inner.channels.lock().require()?;
            inner.hooks.lock().require()?;
            inner.heartbeats.lock().require()?;
            inner.jobs.lock().require()?;
            inner.require_documents()?;
            let inner = Arc::new(inner);
            Ok(Self {
                inner,
                bindings,
                history,
                notes,
                schedules,
                drift,
                baselines,
                lost,
                shares,
                turns,
            })
        })
        .await
    }

    /// The configuration folder, as an absolute path.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.inner.folder
    }

    /// Path of `memory.md`, absolute.
    #[must_use]
    pub fn memory_path(&self) -> PathBuf {
        self.inner.path(Document::Memory)
    }

    /// Which session and settings every lane has.
    #[must_use]
    pub fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// Which conversations every channel had.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// How far every Discord channel was read, and where questions wait.
    #[must_use]
    pub fn discord_notes(&self) -> &DiscordNotes {
        &self.notes
    }

    /// The read-only links to turns.
    #[must_use]
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Up to when heartbeats and cron jobs were looked after.
    #[must_use]
    pub fn schedule_notes(&self) -> &ScheduleNotes {
        &self.schedules
    }

    /// The heartbeats, read again when the file changed; none: there is no `heartbeat.md`.
    pub async fn heartbeats(&self) -> Option<Arc<Heartbeats>> {
        let inner = Arc::clone(&self.inner);
        blocking(move || {
            let mut heartbeats = inner.heartbeats.lock();
            heartbeats.refresh();
            heartbeats.is_there().then(|| heartbeats.value())
        })
        .await
    }

    /// The cron jobs of `agents.md`, read again when it changed.
    pub async fn cron_jobs(&self) -> Arc<CronJobs> {
        let inner = Arc::clone(&self.inner);
        blocking(move || {
            let mut jobs = inner.jobs.lock();
            jobs.refresh();
            jobs.value()
        })
        .await
    }

    /// Opens the journal of accepted events, `state/queue.md`. Once a program: two would not know
    /// of each other.
    ///
    /// # Errors
    /// [`FileError`].
    pub async fn journal(&self) -> Result<Journal, FileError> {
        Journal::open(self.inner.folder.join("state")).await
    }

    /// The journal of which another place keeps the lines; `text` is what it has now. Numbers are
    /// given above `first`, the first one of a block that nobody else gives numbers of.
    ///
    /// # Errors
    /// [`FileError`].
    pub async fn journal_in(
        &self,
        text: String,
        store: Box<dyn LineStore>,
        first: Sequence,
    ) -> Result<Journal, FileError> {
        Journal::open_in(text, store, first).await
    }

    /// Makes sure that no other gateway serves this folder, for as long as the lock lives.
    ///
    /// # Errors
    /// [`Held`] by whom, or that the file cannot be locked.
    pub fn lock(&self) -> Result<Lock, Held> {
        Lock::take(&self.inner.folder)
    }

    /// The operator's settings for channels and projects, read again when the file changed.
    pub async fn channels(&self) -> Arc<Channels> {
        self.follow(|inner| &inner.channels, |channels| &channels.warnings).await
    }

    /// The operator's words for the turns of the gateway's life, read again when the file changed.
    pub async fn hooks(&self) -> Arc<Hooks> {
        self.follow(|inner| &inner.hooks, |hooks| &hooks.warnings).await
    }

    /// Reads a followed file again if it changed, and then logs what is wrong in it.
    async fn follow<T: Send + Sync + 'static>(
        &self,
        file: fn(&Inner) -> &Mutex<Followed<T>>,
        warnings: fn(&T) -> &Vec<String>,
    ) -> Arc<T> {
        let inner = Arc::clone(&self.inner);
        blocking(move || {
            let mut file = file(&inner).lock();
            if file.refresh() {
                for warning in warnings(&file.value()) {
                    tracing::warn!("{warning}");
                }
            }
            file.value()
        })
        .await
    }

    /// Sees to it that the files of `boot.md` are there; with `only_look` nothing is made. Without
    /// a `boot.md` those of the system prompt are made.
    ///
    /// # Errors
    /// [`FileError`] names the file that cannot be read or made.
    pub async fn boot(&self, only_look: bool) -> Result<Booted, FileError> {
        let inner = Arc::clone(&self.inner);
        blocking(move || boot::boot(&inner.folder, only_look)).await
    }

    /// Notes that the agent was handed the instructions of the first start, so that they are not
    /// handed over again.
    ///
    /// # Errors
    /// [`FileError`]; the next start hands them over again.
    pub async fn instructed(&self) -> Result<(), FileError> {
        let (inner, now) = (
            Arc::clone(&self.inner),
            jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        );
        blocking(move || boot::instructed(&inner.folder, &now)).await
    }

    /// Writes entries into the section of a lane in `channels.md`, an empty value taking one out.
    /// `called` is the name people know the lane by. Everything else in the file stays as it
    /// stands.
    ///
    /// # Errors
    /// [`FileError`]; the file is as it was.
    pub async fn bind_channel(
        &self,
        lane: &Lane,
        called: Option<&str>,
        entries: Vec<(&'static str, String)>,
    ) -> Result<(), FileError> {
        let (inner, lane, called) =
            (Arc::clone(&self.inner), lane.clone(), called.map(str::to_owned));
        blocking(move || {
            // Held, so that two changes do not undo each other.
            let _channels = inner.channels.lock();
            let entries: Vec<_> = entries
                .iter()
                .map(|(key, value)| (*key, Some(value.as_str()).filter(|value| !value.is_empty())))
                .collect();
            channels::bind(&inner.folder.join("channels.md"), &lane, called.as_deref(), &entries)
        })
        .await
    }

    /// The working directory that the operator means, its links resolved; see
    /// [`LaneSettings::directory`]. It must be below one of `roots`; `~/` is the home folder.
    ///
    /// # Errors
    /// What is wrong with it, for the operator.
    pub async fn directory(
        &self,
        text: &str,
        roots: &[PathBuf],
        home: Option<&str>,
    ) -> Result<PathBuf, String> {
        let (text, roots, home) = (text.to_owned(), roots.to_vec(), home.map(str::to_owned));
        blocking(move || channels::directory(&text, &roots, home.as_deref())).await
    }

    /// Reads all documents as they are now; `memory.md` is made when missing.
    ///
    /// Takes well under a millisecond, up to 60 ms where somebody else wrote a file just before,
    /// and at most 100 ms while files are being written. One that does not come to rest, or cannot
    /// be read, stands in with its last whole text (nothing, if there is none), and a warning says
    /// so.
    pub async fn read(&self) -> Documents {
        let inner = Arc::clone(&self.inner);
        blocking(move || inner.read()).await
    }

    /// Appends text to `memory.md` and returns when it is on disk. A blank text is nothing.
    ///
    /// Survives `memory.md` being replaced meanwhile: the text is appended to what stands under
    /// that name.
    ///
    /// # Errors
    /// [`FileError`]; what was in the file before is still there, and nothing else.
    pub async fn append_memory(&self, text: &str) -> Result<(), FileError> {
        let (inner, text) = (Arc::clone(&self.inner), text.to_owned());
        blocking(move || {
            let _alone = inner.appending.write();
            let stamp = memory::append(&inner.path(Document::Memory), &text)?;
            *inner.appended.lock() = stamp;
            Ok(())
        })
        .await
    }
}

/// Runs file work where it may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only work that has not begun is cancelled, by a runtime that drops its tasks, this
            // one among them.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests;
