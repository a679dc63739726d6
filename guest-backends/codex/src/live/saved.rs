//! Saves the state of an idle link as JSON. Another version of the backend continues with the same
//! process, which accepts no second `initialize`.

use aetheel_backend_sdk::Grants;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::live::Asks;
use aetheel_backend_sdk::rpc::{Calls, Ids};
use serde_json::json;

use super::Codex;
use super::session::{Session, Thread};
use super::wire::{InForce, Policy};
use crate::limits::Limits;
use crate::native_id::NativeId;

/// Version of the format; increase it with every change.
const FORM: u32 = 3;
/// The format without the number of requests. A link that was restored from it counted from 1
/// again, so its recording can be replayed only that way.
const FORM_WITHOUT_CALLS: u32 = 2;

impl Codex {
    /// Returns `None` if the link is not idle.
    pub(super) fn saved(&self, proc: u32) -> Option<String> {
        let idle = self.calls.open().next().is_none() && self.asks.is_empty();
        if !idle || self.sessions.values().any(|session| session.compacting.is_some()) {
            return None;
        }
        let threads = self.sessions.iter().filter_map(|(key, session)| {
            Some((key, session.thread.as_ref()?, session.grants.given()))
        });
        let sessions: Vec<serde_json::Value> = threads
            .map(|(key, thread, grants)| {
                let allowed: Vec<_> = grants.iter().map(|(reach, what)| json!({ "reach": reach, "what": what })).collect();
                let InForce { policy, cwd, model, effort, plan, limits } = &thread.in_force;
                json!({
                    "session": key, "id": thread.id.to_string(), "reported": thread.reported, "approval": policy.approval, "sandbox": policy.sandbox,
                    "cwd": cwd, "model": model, "effort": effort, "plan": plan, "own-model": thread.model, "own-effort": thread.effort,
                    "allowed": allowed, "limits": limits.names(),
                })
            })
            .collect();
        let state = json!({
            "form": FORM, "proc": proc, "calls": self.calls.last().to_string(), "asks": self.asks.last(), "sessions": sessions,
        });
        Some(state.to_string())
    }

    /// Restores a link and returns the key of its process.
    pub(super) fn restored(state: &str) -> Option<(Self, u32)> {
        let state = json::parse(state).ok()?;
        let calls = match state.count("form")? {
            FORM => state.text("calls")?.parse().ok()?,
            FORM_WITHOUT_CALLS => 0,
            _ => return None,
        };
        let sessions = state.list("sessions").iter();
        let restored = Self {
            calls: Calls::new("", Ids::Numbers).counting_from(calls),
            asks: Asks::counting_from(state.count("asks")?),
            sessions: sessions
                .map(|saved| Some((saved.count("session")?, session(saved)?)))
                .collect::<Option<_>>()?,
            ..Self::default()
        };
        Some((restored, state.count("proc")?))
    }
}

fn session(saved: &Value) -> Option<Session> {
    let text = |key: &str| saved.text(key).map(str::to_owned);
    let in_force = InForce {
        policy: Policy::named(saved.text("approval")?, saved.text("sandbox")?)?,
        cwd: text("cwd")?,
        model: text("model"),
        effort: text("effort"),
        plan: saved["plan"].as_bool()?,
        limits: Limits::named(saved.list("limits").iter().filter_map(Value::as_str))?,
    };
    let id = NativeId::parse(saved.text("id")?)?;
    let grant = |given: &Value| {
        Some((u8::try_from(given.count("reach")?).ok()?, given.text("what")?.to_owned()))
    };
    let grants = Grants::restored(saved.list("allowed").iter().filter_map(grant).collect());
    let thread = Thread {
        id,
        reported: text("reported")?,
        in_force,
        model: text("own-model"),
        effort: text("own-effort"),
    };
    Some(Session::with(thread, grants))
}
