//! Saves and loads the state of a session between two turns, as JSON. Another instance continues
//! with the same process.

use aetheel_backend_sdk::json::{self, Value as Json};
use aetheel_backend_sdk::live::Asks;
use aetheel_backend_sdk::rpc::{Calls, Ids};
use aetheel_backend_sdk::wit::Safety;
use serde_json::{Value, json};

use super::open::Put;
use super::{Droid, ENVELOPE};
use crate::plan::Fixed;

/// The version of the format. Must be increased when the format changes.
const FORM: u32 = 1;

impl Droid {
    /// Returns the saved state, or `None` if a turn, a question or a request is open.
    pub(super) fn kept(&self, proc: u32) -> Option<String> {
        let Self { calls, fixed, resume, native, put, defaults, session, turn, asks } = self;
        if turn.is_some() || !asks.is_empty() || calls.open().next().is_some() {
            return None;
        }
        let state = json!({
            "form": FORM, "proc": proc, "calls": calls.last().to_string(), "asks": asks.last(), "session": session, "fixed": fixed.kept(),
            "native": native, "resume": resume, "put": put.as_ref().map(Put::kept), "defaults": defaults.kept(),
        });
        Some(state.to_string())
    }

    /// Returns the loaded state and the process.
    pub(super) fn taken_over(state: &str) -> Option<(Self, u32)> {
        let state = json::parse(state).ok()?;
        if state.count("form") != Some(FORM) {
            return None;
        }
        let resume = match state.list("resume") {
            [] => None,
            [id, fork] => Some((id.as_str()?.to_owned(), fork.as_bool()?)),
            _ => return None,
        };
        let put = Some(&state["put"]).filter(|put| !put.is_null());
        let taken = Self {
            calls: Calls::new(ENVELOPE, Ids::Strings)
                .counting_from(state.text("calls")?.parse().ok()?),
            fixed: Fixed::taken_over(&state["fixed"])?,
            resume,
            native: state.text("native").map(str::to_owned),
            put: match put {
                Some(put) => Some(Put::taken_over(put)?),
                None => None,
            },
            defaults: Put::taken_over(&state["defaults"])?,
            session: state.count("session")?,
            turn: None,
            asks: Asks::counting_from(state.count("asks")?),
        };
        Some((taken, state.count("proc")?))
    }
}

impl Put {
    fn kept(&self) -> Value {
        let Self { model, effort, mode, level, tools, safety } = self;
        let safety = safety.map(|safety| match safety {
            Safety::Default => "default",
            Safety::Edit => "edit",
            Safety::Danger => "danger",
        });
        json!({ "model": model, "effort": effort, "mode": mode, "level": level, "tools": tools, "safety": safety })
    }

    fn taken_over(kept: &Json) -> Option<Self> {
        let text = |key: &str| kept.text(key).map(str::to_owned);
        Some(Self {
            model: text("model"),
            effort: text("effort"),
            mode: text("mode")?,
            level: text("level")?,
            tools: kept.list("tools").iter().filter_map(Json::as_str).map(str::to_owned).collect(),
            safety: match kept.text("safety") {
                None => None,
                Some("default") => Some(Safety::Default),
                Some("edit") => Some(Safety::Edit),
                Some("danger") => Some(Safety::Danger),
                Some(_) => return None,
            },
        })
    }
}
