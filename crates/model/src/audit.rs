//! The entries of the audit log, and the function with which the program adds them.
//!
//! There is one audit log for the whole program, as there is one supervisor. Before a log is
//! connected ([`connect`]), entries are dropped, so that commands and tests need none.
//! `workspace/audit` in the crate `store` writes them; `docs/audit.md` lists the kinds.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::OnceLock;
use std::time::Duration;

use crate::event::Lane;
use crate::id::UserId;

/// The event that an entry records. The words are part of the format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditKind {
    /// The gateway begins to serve.
    GatewayStarted,
    /// The gateway ends, or hands its agents over to the next process.
    GatewayStopped,
    /// A conversation at a terminal begins.
    ConsoleStarted,
    /// A prompt was accepted into the queue.
    PromptAccepted,
    /// A turn begins with its agent.
    TurnBegun,
    /// A turn ended, or was refused before an agent ran.
    TurnEnded,
    /// A request of an agent was decided by a person, a policy, a setting or a timeout.
    RequestDecided,
    /// A person changed a setting of a lane.
    SettingChanged,
    /// Somebody stopped the turn of a lane, or removed its waiting prompts.
    TurnStopped,
    /// Somebody began a new conversation.
    ConversationReset,
    /// Somebody continues an earlier conversation, or a copy of one.
    ConversationResumed,
    /// Somebody had a conversation shortened.
    ConversationCompacted,
    /// Somebody removed a turn that an agent had asked for.
    LaterTurnRemoved,
    /// A person or an agent reserved files.
    FilesReserved,
    /// A person or an agent released reserved files.
    FilesReleased,
    /// A person pressed the button of an offer.
    OfferPressed,
    /// An owner raised a cap, or suspended it until tomorrow.
    CapRaised,
    /// A component begins to serve.
    ComponentLoaded,
    /// The previous version of a component serves again.
    ComponentRolledBack,
    /// A new version of a component was withdrawn.
    ComponentWithdrawn,
    /// A person signed in to the dashboard.
    DashboardSignIn,
    /// A person signed out of the dashboard.
    DashboardSignOut,
    /// A person changed something from the dashboard, for example stopped a turn.
    DashboardAction,
    /// Entries could not be written and are missing before this one.
    EntriesLost,
    /// The line before was cut off, for example when the gateway was killed.
    LineTorn,
    /// Newer entries than the last one were known, but are gone from the files.
    ChainBroken,
    /// Entries were removed because of their age.
    EntriesExpired,
}

impl AuditKind {
    /// All kinds, in the order of the documentation.
    pub const ALL: [Self; 27] = [
        Self::GatewayStarted,
        Self::GatewayStopped,
        Self::ConsoleStarted,
        Self::PromptAccepted,
        Self::TurnBegun,
        Self::TurnEnded,
        Self::RequestDecided,
        Self::SettingChanged,
        Self::TurnStopped,
        Self::ConversationReset,
        Self::ConversationResumed,
        Self::ConversationCompacted,
        Self::LaterTurnRemoved,
        Self::FilesReserved,
        Self::FilesReleased,
        Self::OfferPressed,
        Self::CapRaised,
        Self::ComponentLoaded,
        Self::ComponentRolledBack,
        Self::ComponentWithdrawn,
        Self::DashboardSignIn,
        Self::DashboardSignOut,
        Self::DashboardAction,
        Self::EntriesLost,
        Self::LineTorn,
        Self::ChainBroken,
        Self::EntriesExpired,
    ];

    /// Returns the word of the kind in the log.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::GatewayStarted => "gateway-started",
            Self::GatewayStopped => "gateway-stopped",
            Self::ConsoleStarted => "console-started",
            Self::PromptAccepted => "prompt-accepted",
            Self::TurnBegun => "turn-begun",
            Self::TurnEnded => "turn-ended",
            Self::RequestDecided => "request-decided",
            Self::SettingChanged => "setting-changed",
            Self::TurnStopped => "turn-stopped",
            Self::ConversationReset => "conversation-reset",
            Self::ConversationResumed => "conversation-resumed",
            Self::ConversationCompacted => "conversation-compacted",
            Self::LaterTurnRemoved => "later-turn-removed",
            Self::FilesReserved => "files-reserved",
            Self::FilesReleased => "files-released",
            Self::OfferPressed => "offer-pressed",
            Self::CapRaised => "cap-raised",
            Self::ComponentLoaded => "component-loaded",
            Self::ComponentRolledBack => "component-rolled-back",
            Self::ComponentWithdrawn => "component-withdrawn",
            Self::DashboardSignIn => "dashboard-sign-in",
            Self::DashboardSignOut => "dashboard-sign-out",
            Self::DashboardAction => "dashboard-action",
            Self::EntriesLost => "entries-lost",
            Self::LineTorn => "line-torn",
            Self::ChainBroken => "chain-broken",
            Self::EntriesExpired => "entries-expired",
        }
    }
}

/// An entry for the audit log. Contains no texts of people or agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// The recorded event.
    pub kind: AuditKind,
    /// The details, by name. The log removes secrets and control characters from the values, and
    /// cuts them.
    pub fields: BTreeMap<&'static str, String>,
}

impl AuditEntry {
    /// Creates an entry without details.
    #[must_use]
    pub fn new(kind: AuditKind) -> Self {
        Self { kind, fields: BTreeMap::new() }
    }

    /// Adds a detail.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.fields.insert(name, value.to_string());
        self
    }

    /// Adds a detail if it is known.
    #[must_use]
    pub fn with_known(self, name: &'static str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds the person, by id and displayed name.
    #[must_use]
    pub fn by(self, person: Option<UserId>, name: Option<&str>) -> Self {
        self.with_known("person", person).with_known("name", name)
    }

    /// Adds the lane.
    #[must_use]
    pub fn in_lane(self, lane: &Lane) -> Self {
        self.with("lane", lane)
    }

    /// Sends the entry to the log. Never waits: if the log cannot be written fast enough, the entry
    /// is counted, and the gap becomes an entry.
    pub fn note(self) {
        if let Some(log) = LOG.get() {
            log.note(self);
        }
    }
}

/// A log that receives the entries of the program.
pub trait AuditSink: Send + Sync {
    /// Queues an entry. Must not wait.
    fn note(&self, entry: AuditEntry);

    /// Waits until the queued entries were written, at most for `limit`. Blocks.
    fn flush(&self, limit: Duration);
}

static LOG: OnceLock<Box<dyn AuditSink>> = OnceLock::new();

/// Connects the log of the program. Only the first call has an effect.
pub fn connect(log: Box<dyn AuditSink>) {
    let _ = LOG.set(log);
}

/// Waits until the queued entries were written, at most for `limit`. Blocks.
pub fn flush(limit: Duration) {
    if let Some(log) = LOG.get() {
        log.flush(limit);
    }
}
