//! The state of a conversation and of the agent's session for it.

use aetheel_backend_sdk::Grants;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::LinkContext;

use crate::config::Config;
use crate::spent::Meter;
use crate::turn::Turn;

/// Milliseconds without an update after which the history of a loaded session is complete. Gemini
/// CLI 0.61.0 sends the history within two milliseconds.
const SETTLE_MS: u32 = 250;

/// The state of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The agent has not opened it.
    #[default]
    Closed,
    /// A request to close it is open. It is opened again afterwards.
    Closing,
    /// A request to open it is open.
    Opening,
    /// Opened from the agent's store. Gemini CLI 0.61.0 sends the history after it answered the
    /// request. The history is complete if nothing arrives before the timer fires.
    Settling { timer: u32, stirred: bool },
    /// It accepts prompts.
    Ready,
}

impl Stage {
    /// Starts to wait for the end of the history.
    pub(crate) fn settling(context: &mut LinkContext) -> Self {
        Self::Settling { timer: context.set_timer(SETTLE_MS), stirred: false }
    }
}

/// How a session is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    New,
    /// Loads a session. The agent sends its history again.
    Load,
    /// Resumes a session without its history.
    Resume,
    Fork,
}

/// A conversation of the host, and the agent's session for it.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) stage: Stage,
    /// The agent's id, once known.
    pub(crate) native: Option<String>,
    /// The id that the running agent uses: the same id, except after a load by Gemini CLI (see
    /// [`Abilities::spaced`]).
    ///
    /// [`Abilities::spaced`]: crate::abilities::Abilities::spaced
    pub(crate) called: String,
    /// Whether the agent's id was reported to the host.
    pub(crate) reported: bool,
    /// Whether the next request to open it makes a copy.
    pub(crate) fork: bool,
    pub(crate) cwd: String,
    pub(crate) turn: Option<Turn>,
    pub(crate) config: Config,
    /// The agent's current system prompt.
    pub(crate) system: Option<String>,
    pub(crate) meter: Meter,
    /// Whether something was allowed for the session. Only the agent knows the scope and duration.
    pub(crate) grants: Grants<()>,
    /// Whether the agent must forget its grants before the next prompt.
    pub(crate) lowered: bool,
    /// Whether authentication was tried for the current attempt to open the session.
    pub(crate) signed_in: bool,
}

impl Session {
    /// Prepares for a turn that continues the session `native`. If that is another session, it
    /// replaces this one.
    pub(crate) fn continues(&mut self, native: Option<String>, fork: bool) {
        let same = native == self.native || (native.is_none() && !self.reported);
        if fork || !same {
            let cwd = std::mem::take(&mut self.cwd);
            *self = Self { native, fork, cwd, ..Self::default() };
        }
    }

    /// Resets everything that does not survive a restart of the agent.
    pub(crate) fn forget(&mut self) {
        let Self { native, fork, cwd, turn, .. } = std::mem::take(self);
        *self = Self { native, fork, cwd, turn, ..Self::default() };
        if let Some(turn) = &mut self.turn {
            turn.applied.clear();
        }
    }

    /// Handles updates of the session's state, which can also arrive between turns.
    pub(crate) fn update(&mut self, update: &Value) {
        let kind = update.text("sessionUpdate");
        if let Stage::Settling { stirred, .. } = &mut self.stage {
            // Opening a session also causes other updates.
            *stirred |= kind.is_some_and(|kind| {
                kind.ends_with("_chunk") || kind.starts_with("tool_call") || kind == "plan"
            });
        }
        match kind {
            Some("config_option_update") => self.config.update(update.list("configOptions")),
            Some("current_mode_update") => {
                if let Some(mode) = update.text("currentModeId") {
                    self.config.mode_is(mode);
                }
            }
            Some("usage_update") => self.meter.update(update),
            _ => {}
        }
    }
}
