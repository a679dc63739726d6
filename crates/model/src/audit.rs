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

/// Declares the kinds with their words in the log.
macro_rules! audit_kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal,)*) => {
        /// The event that an entry records. The words are part of the format and never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AuditKind {
            $($(#[$doc])* $kind,)*
        }

        impl AuditKind {
            /// All kinds, in the order of the documentation.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$kind),*];

            /// Returns the word of the kind in the log.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                }
            }
        }
    };
}

audit_kinds! {
    /// The gateway begins to serve.
    GatewayStarted = "gateway-started",
    /// The gateway ends, or hands its agents over to the next process.
    GatewayStopped = "gateway-stopped",
    /// A conversation at a terminal begins.
    ConsoleStarted = "console-started",
    /// A prompt was accepted into the queue.
    PromptAccepted = "prompt-accepted",
    /// A turn begins with its agent.
    TurnBegun = "turn-begun",
    /// A turn ended, or was refused before an agent ran.
    TurnEnded = "turn-ended",
    /// A request of an agent was decided by a person, a policy, a setting or a timeout.
    RequestDecided = "request-decided",
    /// A person changed a setting of a lane.
    SettingChanged = "setting-changed",
    /// Somebody stopped the turn of a lane, or removed its waiting prompts.
    TurnStopped = "turn-stopped",
    /// Somebody began a new conversation.
    ConversationReset = "conversation-reset",
    /// Somebody continues an earlier conversation, or a copy of one.
    ConversationResumed = "conversation-resumed",
    /// Somebody had a conversation shortened.
    ConversationCompacted = "conversation-compacted",
    /// Somebody removed a turn that an agent had asked for.
    LaterTurnRemoved = "later-turn-removed",
    /// A person or an agent reserved files.
    FilesReserved = "files-reserved",
    /// A person or an agent released reserved files.
    FilesReleased = "files-released",
    /// A person pressed the button of an offer.
    OfferPressed = "offer-pressed",
    /// An owner raised a cap, or suspended it until tomorrow.
    CapRaised = "cap-raised",
    /// A component begins to serve.
    ComponentLoaded = "component-loaded",
    /// The previous version of a component serves again.
    ComponentRolledBack = "component-rolled-back",
    /// A new version of a component was withdrawn.
    ComponentWithdrawn = "component-withdrawn",
    /// A person signed in to the dashboard.
    DashboardSignIn = "dashboard-sign-in",
    /// A person signed out of the dashboard.
    DashboardSignOut = "dashboard-sign-out",
    /// A person changed something from the dashboard, for example stopped a turn.
    DashboardAction = "dashboard-action",
    /// Entries could not be written and are missing before this one.
    EntriesLost = "entries-lost",
    /// The line before was cut off, for example when the gateway was killed.
    LineTorn = "line-torn",
    /// Newer entries than the last one were known, but are gone from the files.
    ChainBroken = "chain-broken",
    /// Entries were removed because of their age.
    EntriesExpired = "entries-expired",
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
