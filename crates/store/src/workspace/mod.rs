//! The operator's folder of markdown files: instructions for the agent, its memory, and the state
//! of the gateway.
//!
//! Owns every file below `CONFIG_DIR` and how it is read and written. Documents are read when they
//! are needed and never in the middle of a write. Memory is appended and synced. State files are
//! replaced atomically and can be edited by hand. Makes no decisions about turns. All calls do
//! their I/O on the blocking pool; dropping a future does not stop what it began. Each file here
//! has its own tests.
//!
//! | module | content |
//! |---|---|
//! | [`operator_file`], [`fields`], [`unread_entries`] | reading the operator's files |
//! | [`documents`], [`boot`], [`memory`], [`lane_memory`] | the files of the system prompt |
//! | [`channels`], [`budgets`], [`budget_names`] | projects, and caps on use |
//! | [`limit_files`], [`in_force`] | the limits in force, with their lines |
//! | [`heartbeats`], [`jobs`], [`hooks`], [`agents_layout`], [`webhooks`] | causes of turns |
//! | [`backend_notes`], [`accounts`], [`profiles`], [`backend_lock`] | backends and their agents |
//! | [`state_file`], [`workspace_state`], [`followed`] | state files in general |
//! | [`journal`], [`bindings`], [`history`], [`turns`] | events, sessions and turns |
//! | [`discord_notes`], [`deliveries`], [`blobs`] | messages, webhooks, files of answers |
//! | [`schedule_notes`], [`agent_schedules`] | schedules and later turns |
//! | [`usage_limits`], [`budget_notes`] | lanes that wait, and raised caps |
//! | [`claims`], [`collision_mutes`] | reserved files, and muted warnings |
//! | [`components`], [`rollouts`], [`live`], [`mending`] | versions of backends |
//! | [`drift`], [`baselines`], [`lost`] | output of agents that was not read |
//! | [`audit`], [`sign_ins`], [`shares`] | the audit log, and access to the dashboard |
//! | [`lock`], [`gateway_report`], [`inspection`], [`leftovers`] | the running gateway |
//! | [`handover`] | lines about lanes that move to another machine |
//! | [`stable_read`], [`mod@blocking`], [`file_error`] | access to files |

mod accounts;
mod agent_schedules;
mod agents_layout;
mod audit;
mod backend_lock;
mod backend_notes;
mod baselines;
mod bindings;
mod blobs;
mod blocking;
mod boot;
mod budget_names;
mod budget_notes;
mod budgets;
mod channels;
mod claims;
mod collision_mutes;
mod components;
mod deliveries;
mod discord_notes;
mod documents;
mod drift;
mod fields;
mod file_error;
mod followed;
mod gateway_report;
mod handover;
mod heartbeats;
mod history;
mod hooks;
mod in_force;
mod inspection;
mod jobs;
mod journal;
mod lane_memory;
mod leftovers;
mod limit_files;
mod live;
mod lock;
mod lost;
mod memory;
mod mending;
mod operator_file;
mod profiles;
mod rollouts;
mod schedule_notes;
mod shares;
mod sign_ins;
mod stable_read;
mod state_file;
mod turns;
mod unread_entries;
mod usage_limits;
mod webhooks;
mod workspace_state;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use accounts::Account;
pub use agent_schedules::{AgentSchedule, CronTimes};
pub use audit::{
    AuditCheck, AuditFault, AuditHead, AuditLog, AuditPosition, AuditQuery, AuditReader,
    AuditRecord, AuditReport, AuditRow, AuditSlice, read_audit, verify_audit,
};
pub use backend_lock::{BackendLock, BackendLockError, LockedBackend};
pub use backend_notes::{BackendFile, BackendNotes, ChosenOption};
pub use baselines::SavedBaseline;
pub use bindings::{Binding, Bindings, BindingsError, ChosenSession};
pub use blobs::save_blob;
pub use boot::BootReport;
pub use budget_names::KnownNames;
pub use budgets::BudgetFile;
pub use channels::{
    Channels, DirectoryError, LaneSettings, UnwritableValue, directory as channel_directory,
    is_label, plain as is_plain_model, with_channel, with_project,
};
pub use claims::ClaimChangeError;
pub use collision_mutes::CollisionMute;
pub use components::{
    Components, KEPT_COMPONENTS, LastServed, ServedComponent, digest as component_digest,
};
pub use deliveries::{ClaimResult, Deliveries, DeliveryClaim};
pub use discord_notes::{ChannelNotes, DiscordNotes};
pub use documents::DOCUMENT_LIMIT;
pub use drift::{Drift, DriftKey, bound_drift};
pub use file_error::FileError;
pub use gateway_report::{GatewayReport, GatewayWork, ServiceUnit};
pub use heartbeats::{HeartbeatCheck, Heartbeats};
pub use history::{History, PastConversation};
pub use hooks::{Hook, HookInstruction, Hooks};
pub use in_force::{
    SettingInForce, caps_in_force, known_lanes, lane_settings_in_force, lanes_in_force,
};
pub use inspection::inspect;
pub use jobs::{CronJob, CronJobs};
pub use journal::{Journal, JournalEntry, JournalMark, LineStore, OFFER_SPAN_MS, PendingSave};
pub use lane_memory::{MemoryLocation, MemoryScope, format_notes, place as memory_place};
pub use leftovers::sweep_leftovers;
pub use limit_files::{LimitFiles, faults_of_channels};
pub use live::{LiveAnswer, LiveFolder, LiveHandover, LiveVersionFile};
pub use lock::{Lock, LockError, LockOwner, locked_by};
pub use lost::{LostState, LostTurn, LostTurns};
pub use mending::{MendingNote, MendingState};
pub use operator_file::OperatorFile;
pub use profiles::{Profile, ProfileFile, Profiles};
pub use rollouts::{
    EndedRollout, MAX_NOTED_DIFFERENCES, NotedDifference, RolloutEnd, RolloutNote, RolloutState,
};
pub use schedule_notes::ScheduleProgress;
pub use shares::{ShareError, Shares, TurnShare};
pub use sign_ins::SavedSignIn;
pub use state_file::{EntryError, StateEntry, StateFile, Token};
pub use turns::{
    ANSWERED_LIMIT, ASKED_LIMIT, CostSheet, FinishedTurns, TurnLine, TurnRetention, TurnSearch,
    TurnStatus, costs,
};
pub use usage_limits::LimitNote;
pub use webhooks::{CallRate, Webhook, WebhookFile, WebhookScheme, Webhooks};
pub use workspace_state::WorkspaceState;

use aetheel_model::event::{Lane, Sequence};
use aetheel_model::prompt::Documents;
use blocking::blocking;
use documents::DocumentFolder;
use limit_files::channels_file;

/// The configuration folder. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Workspace {
    documents: Arc<DocumentFolder>,
    channels: OperatorFile<Channels>,
    heartbeats: OperatorFile<Heartbeats>,
    jobs: OperatorFile<CronJobs>,
    hooks: OperatorFile<Hooks>,
    /// The files of the folder's state.
    pub state: WorkspaceState,
    budgets: BudgetFile,
    turns: FinishedTurns,
}

impl Workspace {
    /// Opens the folder. Creates it and its `state` folder if they are missing; [`Workspace::boot`]
    /// creates other files.
    ///
    /// # Errors
    /// [`FileError`] if the folder cannot be created, or if its state or a file of the operator's
    /// that contains limits or instructions cannot be read.
    pub async fn open(folder: &Path) -> Result<Self, FileError> {
        let folder = folder.to_owned();
        blocking(move || {
            let folder = std::path::absolute(&folder)
                .map_err(|source| FileError::new("find", &folder, source))?;
            let state = folder.join("state");
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&state);
            made.map_err(|source| FileError::new("create the folder", &state, source))?;
            let agents = folder.join("agents.md");
            let workspace = Self {
                state: WorkspaceState::open(&state)?,
                channels: channels_file(&folder).into(),
                heartbeats: OperatorFile::at(folder.join("heartbeat.md"), Heartbeats::parse),
                jobs: OperatorFile::at(agents.clone(), CronJobs::parse),
                hooks: OperatorFile::at(agents, Hooks::parse),
                budgets: BudgetFile::new(&folder),
                turns: FinishedTurns::new(state.join("turns")),
                documents: Arc::new(DocumentFolder::new(folder)),
            };
            workspace.channels.lock().require()?;
            workspace.hooks.lock().require()?;
            workspace.heartbeats.lock().require()?;
            workspace.jobs.lock().require()?;
            let _ = workspace.budgets.require()?;
            workspace.documents.require()?;
            Ok(workspace)
        })
        .await
    }

    /// Returns the configuration folder as an absolute path.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.documents.folder
    }

    /// Returns the finished turns.
    #[must_use]
    pub fn turns(&self) -> FinishedTurns {
        self.turns.clone()
    }

    /// Returns the files with limits.
    #[must_use]
    pub fn limit_files(&self) -> LimitFiles {
        LimitFiles { channels: self.channels.clone(), budgets: self.budgets.clone() }
    }

    /// Returns the operator's budgets.
    #[must_use]
    pub fn budgets(&self) -> &BudgetFile {
        &self.budgets
    }

    /// Returns the heartbeats, read again if the file changed, or `None` if there is no
    /// `heartbeat.md`.
    pub async fn heartbeats(&self) -> Option<Arc<Heartbeats>> {
        let file = self.heartbeats.clone();
        blocking(move || {
            let (heartbeats, _) = file.read();
            file.lock().is_there().then_some(heartbeats)
        })
        .await
    }

    /// Returns the cron jobs of `agents.md`, read again if the file changed.
    pub async fn cron_jobs(&self) -> Arc<CronJobs> {
        self.jobs.refresh().await.0
    }

    /// Opens the journal of accepted events, `state/queue.md`. Must be called only once, because
    /// two journals would not know of each other's events.
    ///
    /// # Errors
    /// [`FileError`] if it cannot be read or written.
    pub async fn journal(&self) -> Result<Journal, FileError> {
        self.journal_at(jiff::Timestamp::now().as_millisecond()).await
    }

    /// Opens the journal as [`Workspace::journal`] does, at a Unix time in milliseconds.
    ///
    /// # Errors
    /// [`FileError`] if it cannot be read or written.
    pub async fn journal_at(&self, now_ms: i64) -> Result<Journal, FileError> {
        Journal::open(self.folder().join("state"), now_ms).await
    }

    /// Opens a journal whose lines are in another store, which contains `text` now. New numbers are
    /// above `first`, the start of a block that only this process uses.
    ///
    /// # Errors
    /// [`FileError`] if it cannot be read or written.
    pub async fn journal_in(
        &self,
        text: String,
        store: Box<dyn LineStore>,
        first: Sequence,
    ) -> Result<Journal, FileError> {
        Journal::open_with(text, store, first).await
    }

    /// Makes sure that no other gateway uses this folder while the lock exists.
    ///
    /// # Errors
    /// [`LockError`] if another gateway has the lock, or the file cannot be locked.
    pub fn lock(&self) -> Result<Lock, LockError> {
        Lock::acquire(self.folder())
    }

    /// Returns the operator's settings for channels and projects, read again if the file changed.
    pub async fn channels(&self) -> Arc<Channels> {
        let (channels, changed) = self.channels.refresh().await;
        log_warnings(&channels.warnings, changed);
        channels
    }

    /// Returns the operator's instructions for hooks, read again if the file changed.
    pub async fn hooks(&self) -> Arc<Hooks> {
        let (hooks, changed) = self.hooks.refresh().await;
        log_warnings(&hooks.warnings, changed);
        hooks
    }

    /// Makes sure that the files of `boot.md` exist, or without a `boot.md` those of the system
    /// prompt. With `only_look` it creates none.
    ///
    /// # Errors
    /// [`FileError`] names the file that cannot be read or created.
    pub async fn boot(&self, only_look: bool) -> Result<BootReport, FileError> {
        let folder = self.folder().to_owned();
        blocking(move || boot::boot(&folder, only_look)).await
    }

    /// Records that the agent received the instructions of the first start, so that it does not
    /// receive them again.
    ///
    /// # Errors
    /// [`FileError`]; the next start passes them to the agent again.
    pub async fn mark_instructed(&self) -> Result<(), FileError> {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let folder = self.folder().to_owned();
        blocking(move || boot::mark_instructed(&folder, &now)).await
    }

    /// Writes entries into the section of a lane in `channels.md`; an empty value removes an entry.
    /// `called` is the name of the lane for people. The rest of the file stays unchanged.
    ///
    /// # Errors
    /// [`FileError`]; the file is unchanged.
    pub async fn bind_channel(
        &self,
        lane: &Lane,
        called: Option<&str>,
        entries: Vec<(&'static str, String)>,
    ) -> Result<(), FileError> {
        let (channels, path) = (self.channels.clone(), self.folder().join("channels.md"));
        let (lane, called) = (lane.clone(), called.map(str::to_owned));
        blocking(move || {
            // Locked, so that two changes do not undo each other.
            let mut channels = channels.lock();
            let entries: Vec<_> = entries
                .iter()
                .map(|(key, value)| (*key, Some(value.as_str()).filter(|value| !value.is_empty())))
                .collect();
            channels.note_own_write(channels::bind(&path, &lane, called.as_deref(), &entries)?);
            Ok(())
        })
        .await
    }

    /// Returns the working directory that the operator chose, with its links resolved; see
    /// [`LaneSettings::directory`]. It must be below one of `roots`; `~/` is the home folder.
    ///
    /// # Errors
    /// [`DirectoryError`] if there is no such directory, or it is below none of the roots.
    pub async fn directory(
        &self,
        text: &str,
        roots: &[PathBuf],
        home: Option<&str>,
    ) -> Result<PathBuf, DirectoryError> {
        let (text, roots, home) = (text.to_owned(), roots.to_vec(), home.map(str::to_owned));
        blocking(move || channels::directory(&text, &roots, home.as_deref())).await
    }

    /// Reads all documents and the notes of a location as they are now, and creates `memory.md` if
    /// it is missing.
    ///
    /// Takes well under a millisecond, up to 60 ms if another program has just written a file, and
    /// at most 100 ms while files are being written. If a file keeps changing or cannot be read,
    /// its last complete text is used, if there is one, and a warning is added.
    pub async fn read_documents_in(&self, place: &MemoryLocation) -> Documents {
        let (documents, place) = (Arc::clone(&self.documents), place.clone());
        blocking(move || documents.read_in(&place)).await
    }

    /// Appends text to the memory of a location and returns once it is on disk. Blank text is
    /// ignored. If the file is replaced meanwhile, the text is appended to the new file.
    ///
    /// # Errors
    /// [`FileError`]; the file still has exactly its earlier content.
    pub async fn append_memory_in(
        &self,
        place: &MemoryLocation,
        text: &str,
    ) -> Result<(), FileError> {
        let documents = Arc::clone(&self.documents);
        let (place, text) = (place.clone(), text.to_owned());
        blocking(move || documents.append_in(&place, &text)).await
    }
}

fn log_warnings(warnings: &[String], changed: bool) {
    for warning in warnings.iter().filter(|_| changed) {
        tracing::warn!("{warning}");
    }
}

#[cfg(test)]
mod tests;
