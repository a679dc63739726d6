//! The state of a conversation between two turns, as JSON, for another instance: the process goes
//! on and takes no second `initialize`.

use aetheel_backend_sdk::Grants;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::live::Asks;
use serde_json::json;

use super::Conversation;
use super::process::Process;
use crate::stream::Claude;

/// Raised when the form changes.
const FORM: u32 = 1;

impl Conversation {
    /// None: something is open, or there is nothing to take over.
    pub(super) fn kept(&self, proc: u32) -> Option<String> {
        if self.turn.is_some() || !self.asks.is_empty() {
            return None;
        }
        let granted: Vec<_> = self
            .granted
            .given()
            .iter()
            .map(|(reach, what)| json!({ "reach": reach, "what": what }))
            .collect();
        let state = json!({
            "form": FORM, "proc": proc, "session": self.session, "native": self.native, "asks": self.asks.last(), "granted": granted,
            "process": self.process.kept()?, "claude": self.claude.kept(),
        });
        Some(state.to_string())
    }

    /// Returns the process, too.
    pub(super) fn taken_over(state: &str) -> Option<(Self, u32)> {
        let state = json::parse(state).ok()?;
        if state.count("form") != Some(FORM) {
            return None;
        }
        let grant = |given: &Value| {
            Some((u8::try_from(given.count("reach")?).ok()?, given.text("what")?.to_owned()))
        };
        let taken = Self {
            session: state.count("session"),
            native: state.text("native").map(str::to_owned),
            claude: Claude::taken_over(&state["claude"])?,
            process: Process::taken_over(&state["process"])?,
            asks: Asks::counting_from(state.count("asks")?),
            granted: Grants::restored(
                state.list("granted").iter().map(grant).collect::<Option<_>>()?,
            ),
            ..Self::default()
        };
        Some((taken, state.count("proc")?))
    }
}
