//! Saves the state of a conversation between two turns as JSON. The process keeps running in
//! another instance and accepts no second `initialize`.

use aetheel_backend_sdk::Grants;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::live::Asks;
use serde_json::json;

use super::Conversation;
use super::process::Process;
use crate::stream::Claude;

/// Version of the format; increase it with every change.
const FORM: u32 = 1;

impl Conversation {
    /// Returns `None` if a turn or a question is open.
    pub(super) fn save_state(&self, proc: u32) -> Option<String> {
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
            "process": self.process.save_state()?, "claude": self.claude.save_state(),
        });
        Some(state.to_string())
    }

    /// Restores a conversation and returns the key of its process.
    pub(super) fn restore(state: &str) -> Option<(Self, u32)> {
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
            claude: Claude::restore(&state["claude"])?,
            process: Process::restore(&state["process"])?,
            asks: Asks::counting_from(state.count("asks")?),
            granted: Grants::restored(
                state.list("granted").iter().map(grant).collect::<Option<_>>()?,
            ),
            ..Self::default()
        };
        Some((taken, state.count("proc")?))
    }
}
