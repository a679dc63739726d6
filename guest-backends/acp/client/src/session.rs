//! A conversation: where it stands with the agent, and what the agent knows.

use aetheel_backend_sdk::Grants;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::LinkContext;

use crate::config::Config;
use crate::spent::Meter;
use crate::turn::Turn;

/// Milliseconds without a word after which a loaded session's history is taken to be told: Gemini
/// CLI 0.61.0 tells it within two.
const SETTLE_MS: u32 = 250;

/// Where a session stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The agent has not opened it.
    #[default]
    Closed,
    /// Asked to be closed, to be opened anew.
    Closing,
    /// Asked to be opened.
    Opening,
    /// Opened from the agent's store. Gemini CLI 0.61.0 tells the history after it said so: it is
    /// over when nothing came for the time of this timer.
    Settling { timer: u32, stirred: bool },
    /// It takes prompts from now on.
    Ready,
}

impl Stage {
    /// Waits for the history to be told.
    pub(crate) fn settling(context: &mut LinkContext) -> Self {
        Self::Settling { timer: context.set_timer(SETTLE_MS), stirred: false }
    }
}

/// How a session is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    New,
    /// With its history told again.
    Load,
    /// Its history stays untold.
    Resume,
    Fork,
}

/// A conversation of the host, and the agent's session for it.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) stage: Stage,
    /// The agent's id, once known.
    pub(crate) native: Option<String>,
    /// The id by which the running agent knows it: that one, but for a load of Gemini CLI (see
    /// [`Abilities::spaced`]).
    ///
    /// [`Abilities::spaced`]: crate::abilities::Abilities::spaced
    pub(crate) called: String,
    /// The host knows that id.
    pub(crate) told: bool,
    /// The next opening makes a copy.
    pub(crate) fork: bool,
    pub(crate) cwd: String,
    pub(crate) turn: Option<Turn>,
    pub(crate) config: Config,
    /// The system prompt the agent has.
    pub(crate) system: Option<String>,
    pub(crate) meter: Meter,
    /// Something was allowed for the session. The agent alone knows its reach and its length.
    pub(crate) grants: Grants<()>,
    /// The agent is to forget that before the next prompt.
    pub(crate) lowered: bool,
    /// Signing in was tried for this opening.
    pub(crate) signed_in: bool,
}

impl Session {
    /// Prepares for a turn that continues `native`: another session than this one is opened
    /// instead.
    pub(crate) fn continues(&mut self, native: Option<String>, fork: bool) {
        let same = native == self.native || (native.is_none() && !self.told);
        if fork || !same {
            let cwd = std::mem::take(&mut self.cwd);
            *self = Self { native, fork, cwd, ..Self::default() };
        }
    }

    /// Keeps what holds whatever process the agent is.
    pub(crate) fn forget(&mut self) {
        let Self { native, fork, cwd, turn, .. } = std::mem::take(self);
        *self = Self { native, fork, cwd, turn, ..Self::default() };
        if let Some(turn) = &mut self.turn {
            turn.applied.clear();
        }
    }

    /// Takes in what changes what is known of the session, turn or not.
    pub(crate) fn update(&mut self, update: &Value) {
        let kind = update.text("sessionUpdate");
        if let Stage::Settling { stirred, .. } = &mut self.stage {
            // Other updates follow opening a session anyhow.
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
