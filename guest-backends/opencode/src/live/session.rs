//! A conversation: its session on the server, the session's state, and the open turn.

use std::collections::BTreeSet;

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::{LinkContext, Step};
use aetheel_backend_sdk::wit::{Action, Chunk, Part, SessionReady, Settings, StartTurn, TurnRef};
use serde_json::json;

use super::compaction::Compaction;
use super::events::says_something;
use super::link::{Link, Purpose, text};
use super::turn::Turn;
use crate::{prompt, safety, tool_server};

/// A model: its provider and its name.
pub(crate) type Model = (String, String);

/// A conversation of the host, and the server's session for it.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) key: u32,
    pub(crate) cwd: String,
    pub(crate) native: Option<String>,
    /// The session to copy.
    source: Option<String>,
    stage: Stage,
    /// Whether the session's id was reported to the host.
    reported: bool,
    /// The permission rules that the server has for it.
    rules: Option<String>,
    /// The permission rules of the last turn.
    level: Option<String>,
    /// The model that the latest turn selects.
    wanted: Option<String>,
    /// The model that answered last.
    pub(crate) model: Option<Model>,
    /// Whether a model was ever selected. The server keeps the last one.
    pub(crate) chosen: bool,
    pub(crate) title: Option<String>,
    /// The permissions and patterns that the user allowed for the session. They are handled here,
    /// because the server would apply them to all sessions of the directory (1.18.33).
    pub(crate) allowed: BTreeSet<(String, Vec<String>)>,
    /// Messages of the previous turn, which may still get late events.
    pub(crate) past: BTreeSet<String>,
    /// Whether an interrupted prompt has not started yet. It is aborted when it does.
    pub(crate) stray: bool,
    /// The directory whose instance has the host's MCP server for the session.
    served_in: Option<String>,
    /// Whether the instance could not connect to that server. The next turn registers it again.
    unserved: bool,
    /// The compaction in progress.
    pub(crate) compaction: Option<Compaction>,
    /// The turn whose prompt was sent.
    pub(crate) turn: Option<Turn>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Unknown,
    /// A request about it is open.
    Asked,
    Ready,
}

impl Session {
    pub(crate) fn new(key: u32) -> Self {
        Self { key, ..Self::default() }
    }

    /// Creates a session from a saved state.
    pub(crate) fn saved(
        key: u32,
        cwd: String,
        native: String,
        rules: Option<String>,
        chosen: bool,
        served_in: Option<String>,
    ) -> Self {
        Self {
            cwd,
            native: Some(native),
            stage: Stage::Ready,
            reported: true,
            level: rules.clone(),
            rules,
            chosen,
            served_in,
            ..Self::new(key)
        }
    }

    /// Returns the state to save, or `None` if the session is not ready.
    pub(crate) fn to_save(&self) -> Option<serde_json::Value> {
        let native = self.native.as_ref().filter(|_| self.stage == Stage::Ready)?;
        Some(json!({
            "key": self.key, "cwd": self.cwd, "native": native, "rules": self.rules, "model": self.model, "chosen": self.chosen,
            "title": self.title, "allowed": self.allowed, "served-in": self.served_in.as_ref().filter(|_| !self.unserved),
        }))
    }

    /// Prepares for a turn. If the turn continues another session, that session replaces the
    /// current one.
    pub(crate) fn begin(&mut self, start: &StartTurn) {
        let StartTurn { native_id, cwd, settings, .. } = start;
        if native_id.is_some() && *native_id != self.native {
            if !start.fork {
                *self = Self { native: native_id.clone(), ..Self::new(self.key) };
            } else if *native_id != self.source {
                *self = Self { source: native_id.clone(), ..Self::new(self.key) };
            }
        }
        self.cwd.clone_from(cwd);
        if std::mem::take(&mut self.unserved) {
            self.served_in = None;
        }
        self.wanted.clone_from(&settings.model);
        let level = self.rules_of(start);
        // Permissions for the session were granted at another level.
        if self.level.replace(level) != self.level {
            self.allowed.clear();
        }
    }

    /// Performs the next step for a turn: creates, copies or resumes the session, sets its
    /// permissions, or sends the prompt.
    pub(crate) fn advance(
        &mut self,
        start: &StartTurn,
        default: Option<&Model>,
        link: &mut Link,
        context: &mut LinkContext,
    ) -> Step {
        if self.stage == Stage::Asked {
            return Step::Wait;
        }
        let rules = self.rules_of(start);
        let directory = Some(self.cwd.as_str());
        let permission = || text(format!("{{\"permission\":{rules}}}"));
        let session = self.key;
        match (&self.native, &self.source) {
            (None, None) => {
                link.http(
                    ("POST", "/session"),
                    directory,
                    permission(),
                    Purpose::Open { session, copy: false },
                    context,
                );
                self.rules = Some(rules);
            }
            (None, Some(source)) => {
                let path = format!("/session/{source}/fork");
                link.http(
                    ("POST", &path),
                    directory,
                    text("{}"),
                    Purpose::Open { session, copy: true },
                    context,
                );
            }
            (Some(native), _)
                if self.stage == Stage::Unknown || self.rules.as_ref() != Some(&rules) =>
            {
                link.http(
                    ("PATCH", &format!("/session/{native}")),
                    directory,
                    permission(),
                    Purpose::Permit { session },
                    context,
                );
                self.rules = Some(rules);
            }
            (Some(_), _) if !start.tools.is_empty() && self.served_in.as_deref() != directory => {
                let body = tool_server::registration(session);
                let purpose = Purpose::Serve { session };
                link.http(("POST", "/mcp"), directory, body, purpose, context);
                self.served_in = Some(self.cwd.clone());
            }
            (Some(native), _) => {
                let path = format!("/session/{native}/prompt_async");
                return self.prompt(start, &path, default, link, context);
            }
        }
        self.stage = Stage::Asked;
        Step::Wait
    }

    fn rules_of(&self, start: &StartTurn) -> String {
        let server = (!start.tools.is_empty()).then(|| tool_server::of_session(self.key));
        safety::of_session(&start.settings, server.as_deref())
    }

    /// Handles the end of the request that registers the host's MCP server. The turn begins in any
    /// case.
    pub(crate) fn served(&mut self, connected: bool) {
        self.stage = Stage::Ready;
        self.unserved = !connected;
    }

    /// Removes the host's MCP server, which calls nothing any more.
    pub(crate) fn close(&mut self, link: &mut Link, context: &mut LinkContext) {
        if let Some(directory) = self.served_in.take() {
            let path = format!("/mcp/{}/disconnect", tool_server::of_session(self.key));
            link.http(("POST", &path), Some(&directory), Vec::new(), Purpose::Unserve, context);
        }
    }

    /// Handles the server's confirmation that the session exists. `permitted` is true if its
    /// permissions are set.
    pub(crate) fn exists(&mut self, native: String, permitted: bool) {
        self.native = Some(native);
        self.source = None;
        if !permitted {
            // A copy has no permissions.
            self.rules = None;
        }
        self.stage = if permitted { Stage::Ready } else { Stage::Unknown };
    }

    /// Returns whether the session was reported to the host.
    pub(crate) fn was_ready(&self) -> bool {
        self.reported
    }

    /// Updates the title from the server's description of the session. Returns whether it changed.
    pub(crate) fn retitled(&mut self, info: &Value) -> bool {
        let title = info
            .text("title")
            .filter(|title| says_something(title) && self.title.as_deref() != Some(*title));
        if let Some(title) = title {
            self.title = Some(title.to_owned());
        }
        title.is_some()
    }

    /// Resets the session after a failed request about it.
    pub(crate) fn failed(&mut self) {
        self.stage = Stage::Unknown;
        self.reported = false;
        self.rules = None;
        self.native = None;
        self.source = None;
    }

    /// Resets the session after the server exited. The session remains on disk.
    pub(crate) fn orphaned(&mut self) {
        self.stage = Stage::Unknown;
        self.rules = None;
        self.stray = false;
        self.served_in = None;
    }

    /// Reports the session's id to the host.
    pub(crate) fn ready(&mut self, model: Option<String>, context: &mut LinkContext) {
        let Some(native_id) = self.native.clone() else { return };
        self.reported = true;
        let (model, title) = (self.wanted.clone().or(model), self.title.clone());
        context.action(Action::SessionReady(SessionReady {
            session: self.key,
            native_id,
            model,
            title,
            tools: Vec::new(),
        }));
    }

    fn prompt(
        &mut self,
        start: &StartTurn,
        path: &str,
        default: Option<&Model>,
        link: &mut Link,
        context: &mut LinkContext,
    ) -> Step {
        let settings = &start.settings;
        // Invalid names were rejected earlier.
        let model = settings.model.as_deref().and_then(|name| prompt::model(name).ok());
        // The server keeps the model of the last prompt, so the default has to be restored
        // explicitly.
        let model = model.or_else(|| default.filter(|_| self.chosen).cloned());
        self.chosen |= settings.model.is_some();
        let body = body(&start.parts, settings, model.as_ref());
        let turn = TurnRef { session: start.session, turn: start.turn };
        link.http(("POST", path), Some(&self.cwd), body, Purpose::Prompt(turn), context);
        self.turn = Some(Turn::new(turn, settings.clone(), model));
        Step::Prompted
    }
}

/// Returns the body of a prompt.
pub(crate) fn body(parts: &[Part], settings: &Settings, model: Option<&Model>) -> Vec<Chunk> {
    let mut body = text("{");
    prompt::message(parts, &mut body);
    let mut rest = format!(",\"agent\":{}", json!(prompt::agent(settings.mode)));
    if let Some((provider, model)) = model {
        rest += &format!(",\"model\":{}", json!({"providerID": provider, "modelID": model}));
    }
    if let Some(effort) = &settings.effort {
        rest += &format!(",\"variant\":{}", json!(effort));
    }
    if let Some(system) = settings.system_prompt.as_ref().filter(|text| !text.is_empty()) {
        rest += &format!(",\"system\":{}", json!(system));
    }
    body.extend(text(rest + "}"));
    body
}
