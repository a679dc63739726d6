//! A conversation: what the server calls it, what it was told of it, and the turn that is open.

use std::collections::BTreeSet;

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::{LinkContext, Step};
use aetheel_backend_sdk::wit::{Action, Chunk, Part, SessionReady, Settings, StartTurn, TurnRef};
use serde_json::json;

use super::compaction::Compaction;
use super::events::says_something;
use super::link::{Link, Purpose, text};
use super::turn::Turn;
use crate::{prompt, safety};

/// A model: its provider and its name there.
pub(crate) type Model = (String, String);

/// A conversation of the host, and the server's session for it.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) key: u32,
    pub(crate) cwd: String,
    pub(crate) native: Option<String>,
    /// The session it is to be a copy of.
    source: Option<String>,
    stage: Stage,
    /// The host knows what resumes it.
    reported: bool,
    /// The permission rules the server has for it.
    rules: Option<String>,
    /// Those of the last turn.
    level: Option<String>,
    /// The model its newest turn asks for.
    wanted: Option<String>,
    /// The model that answered last.
    pub(crate) model: Option<Model>,
    /// Whether a model was ever chosen for it: the server keeps the last one.
    pub(crate) chosen: bool,
    pub(crate) title: Option<String>,
    /// The grants of a person for the whole session: permission and patterns. The server would give
    /// them to all sessions of the directory (1.18.33), so it is not told.
    pub(crate) allowed: BTreeSet<(String, Vec<String>)>,
    /// Messages of the turn before: the server has late words about them.
    pub(crate) past: BTreeSet<String>,
    /// An interrupted prompt that never began; stopped when it does.
    pub(crate) stray: bool,
    /// Its history is being shortened.
    pub(crate) compaction: Option<Compaction>,
    /// The turn the server has the prompt of.
    pub(crate) turn: Option<Turn>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Unknown,
    /// Something about it is asked of the server.
    Asked,
    Ready,
}

impl Session {
    pub(crate) fn new(key: u32) -> Self {
        Self { key, ..Self::default() }
    }

    /// A session that was taken over.
    pub(crate) fn saved(
        key: u32,
        cwd: String,
        native: String,
        rules: Option<String>,
        chosen: bool,
    ) -> Self {
        Self {
            cwd,
            native: Some(native),
            stage: Stage::Ready,
            reported: true,
            level: rules.clone(),
            rules,
            chosen,
            ..Self::new(key)
        }
    }

    /// Returns the state that is worth saving.
    pub(crate) fn to_save(&self) -> Option<serde_json::Value> {
        let native = self.native.as_ref().filter(|_| self.stage == Stage::Ready)?;
        Some(json!({
            "key": self.key, "cwd": self.cwd, "native": native, "rules": self.rules, "model": self.model, "chosen": self.chosen,
            "title": self.title, "allowed": self.allowed,
        }))
    }

    /// A turn is wanted. Where it is of another native session than before, that one is turned to.
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
        self.wanted.clone_from(&settings.model);
        let level = safety::of_session(settings);
        // What was allowed for good was so at another level.
        if self.level.replace(level) != self.level {
            self.allowed.clear();
        }
    }

    /// Does the next thing towards the prompt of a turn: makes, copies or takes up the session,
    /// sets its permissions, sends the prompt.
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
        let rules = safety::of_session(&start.settings);
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
            (Some(native), _) => {
                let path = format!("/session/{native}/prompt_async");
                return self.prompt(start, &path, default, link, context);
            }
        }
        self.stage = Stage::Asked;
        Step::Wait
    }

    /// The server answered about the session: it exists, or its permissions are set.
    pub(crate) fn exists(&mut self, native: String, permitted: bool) {
        self.native = Some(native);
        self.source = None;
        if !permitted {
            // A copy has none of the permissions of the original.
            self.rules = None;
        }
        self.stage = if permitted { Stage::Ready } else { Stage::Unknown };
    }

    /// Whether the server was asked about it before, with success.
    pub(crate) fn was_ready(&self) -> bool {
        self.reported
    }

    /// Takes a new title from what the server says of the session. Returns whether there was one.
    pub(crate) fn retitled(&mut self, info: &Value) -> bool {
        let title = info
            .text("title")
            .filter(|title| says_something(title) && self.title.as_deref() != Some(*title));
        if let Some(title) = title {
            self.title = Some(title.to_owned());
        }
        title.is_some()
    }

    /// The server does not know the session, or did not answer about it.
    pub(crate) fn failed(&mut self) {
        self.stage = Stage::Unknown;
        self.reported = false;
        self.rules = None;
        self.native = None;
        self.source = None;
    }

    /// The server has gone; the session itself is on disk.
    pub(crate) fn orphaned(&mut self) {
        self.stage = Stage::Unknown;
        self.rules = None;
        self.stray = false;
    }

    /// Tells the host what resumes the session.
    pub(crate) fn ready(&mut self, model: Option<String>, context: &mut LinkContext) {
        let Some(native_id) = self.native.clone() else { return };
        self.reported = true;
        let (model, title) = (self.wanted.clone().or(model), self.title.clone());
        context.action(Action::SessionReady(SessionReady {
            session: self.key,
            native_id,
            model,
            title,
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
        // Names that are none were refused before.
        let model = settings.model.as_deref().and_then(|name| prompt::model(name).ok());
        // The server keeps the model of the last prompt, so one that was chosen once has to be
        // taken back.
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
