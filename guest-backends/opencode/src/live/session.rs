//! A conversation: what the server calls it, what it was told of it, and the turn that is open.

use std::collections::BTreeSet;

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{Action, Chunk, Failure, SessionReady, Settings, StartTurn, TurnRef};
use serde_json::json;

use super::events::says_something;
use super::link::{Link, Purpose, text};
use super::turn::Turn;
use crate::{prompt, safety};

/// A model: its provider and its name there.
pub(crate) type Model = (String, String);

/// A conversation.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) key: u32,
    pub(crate) cwd: String,
    pub(crate) native: Option<String>,
    /// What it is to be a copy of.
    source: Option<String>,
    stage: Stage,
    /// The host knows what resumes it.
    reported: bool,
    /// The permission rules the server has for it.
    rules: Option<String>,
    /// Those of the last turn.
    level: Option<String>,
    /// The model that answered last.
    pub(crate) model: Option<Model>,
    /// Whether a model was ever chosen for it: the server keeps the last one.
    chosen: bool,
    pub(crate) title: Option<String>,
    /// What a person allowed for the whole session: permission and patterns. The server would allow it to all sessions of
    /// the directory (1.18.33), so it is not told.
    pub(crate) allowed: BTreeSet<(String, Vec<String>)>,
    /// Messages of the turn before: the server has late words about them.
    pub(crate) past: BTreeSet<String>,
    /// An interrupted prompt that never began; stopped when it does.
    pub(crate) stray: bool,
    pub(crate) turn: Option<Turn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Unknown,
    /// Something about it is asked of the server.
    Asked,
    Ready,
}

impl Session {
    pub(crate) fn new(key: u32) -> Self {
        Self {
            key,
            cwd: String::new(),
            native: None,
            source: None,
            stage: Stage::Unknown,
            reported: false,
            rules: None,
            level: None,
            model: None,
            chosen: false,
            title: None,
            allowed: BTreeSet::new(),
            past: BTreeSet::new(),
            stray: false,
            turn: None,
        }
    }

    /// A session that was taken over.
    pub(crate) fn saved(key: u32, cwd: String, native: String, rules: Option<String>, chosen: bool) -> Self {
        Self { cwd, native: Some(native), stage: Stage::Ready, reported: true, level: rules.clone(), rules, chosen, ..Self::new(key) }
    }

    /// What is worth saving.
    pub(crate) fn to_save(&self) -> Option<serde_json::Value> {
        let native = self.native.as_ref().filter(|_| self.stage == Stage::Ready)?;
        Some(json!({
            "key": self.key, "cwd": self.cwd, "native": native, "rules": self.rules, "model": self.model, "chosen": self.chosen,
            "title": self.title, "allowed": self.allowed,
        }))
    }

    /// Opens a turn. Where it is of another native session than before, that one is turned to.
    pub(crate) fn begin(&mut self, start: StartTurn) {
        let StartTurn { native_id, fork, ref cwd, .. } = start.clone();
        cwd.clone_into(&mut self.cwd);
        if fork && native_id.is_some() && native_id != self.native {
            if native_id != self.source {
                *self = Self { cwd: cwd.clone(), source: native_id, ..Self::new(self.key) };
            }
        } else if native_id.is_some() && native_id != self.native {
            *self = Self { cwd: cwd.clone(), native: native_id, ..Self::new(self.key) };
        }
        let level = safety::of_session(&start.settings);
        // What was allowed for good was so at another level.
        if self.level.replace(level) != self.level {
            self.allowed.clear();
        }
        self.turn = Some(Turn::new(start));
    }

    /// The turn that is open, by its name.
    pub(crate) fn turn_ref(&self) -> Option<TurnRef> {
        self.turn.as_ref().map(|turn| turn.name)
    }

    /// Does the next thing towards the prompt of a turn that waits: makes, copies or takes up the session, sets its
    /// permissions, sends the prompt.
    ///
    /// # Errors
    /// The prompt cannot be sent.
    pub(crate) fn advance(&mut self, default: Option<&Model>, link: &mut Link, out: &mut Vec<Action>) -> Result<(), Failure> {
        let Some(start) = self.turn.as_ref().and_then(|turn| turn.waiting.as_ref()) else { return Ok(()) };
        if self.stage == Stage::Asked {
            return Ok(());
        }
        let rules = safety::of_session(&start.settings);
        let directory = Some(self.cwd.as_str());
        let permission = || text(format!("{{\"permission\":{rules}}}"));
        let session = self.key;
        match (&self.native, &self.source) {
            (None, None) => {
                link.http(("POST", "/session"), directory, permission(), Purpose::Open { session, copy: false }, out);
                self.rules = Some(rules);
            }
            (None, Some(source)) => {
                let path = format!("/session/{source}/fork");
                link.http(("POST", &path), directory, text("{}"), Purpose::Open { session, copy: true }, out);
            }
            (Some(native), _) if self.stage == Stage::Unknown || self.rules.as_ref() != Some(&rules) => {
                link.http(("PATCH", &format!("/session/{native}")), directory, permission(), Purpose::Permit { session }, out);
                self.rules = Some(rules);
            }
            (Some(_), _) => return self.prompt(default, link, out),
        }
        self.stage = Stage::Asked;
        Ok(())
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

    /// Whether a model was ever chosen for it.
    pub(crate) fn was_chosen(&self) -> bool {
        self.chosen || self.turn.as_ref().is_some_and(|turn| turn.model.is_some())
    }

    /// Takes a new title from what the server says of the session. Returns whether there was one.
    pub(crate) fn retitled(&mut self, info: &Value) -> bool {
        let title = info.text("title").filter(|title| says_something(title) && self.title.as_deref() != Some(*title));
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
    pub(crate) fn ready(&mut self, model: Option<String>, out: &mut Vec<Action>) {
        let Some(native_id) = self.native.clone() else { return };
        self.reported = true;
        let asked = self.turn.as_ref().and_then(|turn| turn.settings.model.clone());
        let title = self.title.clone();
        out.push(Action::SessionReady(SessionReady { session: self.key, native_id, model: asked.or(model), title }));
    }

    fn prompt(&mut self, default: Option<&Model>, link: &mut Link, out: &mut Vec<Action>) -> Result<(), Failure> {
        let (Some(turn), Some(native)) = (&mut self.turn, &self.native) else { return Ok(()) };
        let Some(start) = turn.waiting.take() else { return Ok(()) };
        let model = start.settings.model.as_deref().map(prompt::model).transpose()?;
        // The server keeps the model of the last prompt, so one that was chosen once has to be taken back.
        let model = model.or_else(|| default.filter(|_| self.chosen).cloned());
        self.chosen |= start.settings.model.is_some();
        turn.model.clone_from(&model);
        let path = format!("/session/{native}/prompt_async");
        let body = body(&start.parts, &start.settings, model.as_ref());
        link.http(("POST", &path), Some(&self.cwd), body, Purpose::Prompt(turn.name), out);
        Ok(())
    }
}

/// Returns the body of a prompt.
pub(crate) fn body(parts: &[aetheel_backend_sdk::wit::Part], settings: &Settings, model: Option<&Model>) -> Vec<Chunk> {
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
