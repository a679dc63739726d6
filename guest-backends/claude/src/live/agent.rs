//! The process of a conversation: how it was started, what it was asked and not yet answered, what is in force in it.

use std::collections::BTreeMap;

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::rpc::write;
use aetheel_backend_sdk::wit::{Action, Failure, Model, Settings, Spawn, StartTurn, TurnRef};
use serde_json::json;

use crate::plan::{self, Fixed};

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Did not answer `initialize` yet.
    Starting,
    Ready,
    /// Its stdin is closed.
    Leaving,
}

/// What a request of ours was for.
#[derive(Debug)]
enum Asked {
    Initialize,
    Interrupt,
    Setting(Setting),
    /// Whether it is there at all, for this query.
    Sign(u32),
}

/// What can be changed in a running process.
#[derive(Clone, Debug, PartialEq)]
enum Setting {
    Model(String),
    Effort(Option<String>),
    Mode(&'static str),
}

/// What has to happen before a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// Answers that are still to come.
    Patience,
    Restart,
}

/// What an answer of the agent brought about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Ready,
    /// It is there, for this query.
    Sign(u32),
    Other,
    /// It is an answer to nothing.
    Stray,
}

#[derive(Debug)]
pub(super) struct Agent {
    pub(super) proc: u32,
    pub(super) phase: Phase,
    pub(super) version: Option<String>,
    pub(super) models: Vec<Model>,
    /// It said at least once whether it is running or idle.
    pub(super) tells_state: bool,
    /// It is not what the next turn needs, whatever its settings.
    pub(super) stale: bool,
    /// None: it serves no conversation.
    fixed: Option<Fixed>,
    model: Option<String>,
    effort: Option<String>,
    mode: String,
    may_bypass: bool,
    requests: u32,
    asked: BTreeMap<String, Asked>,
}

impl Agent {
    /// Starts the process of a conversation.
    pub(super) fn start(proc: u32, resume: Option<(String, bool)>, start: &StartTurn, out: &mut Vec<Action>) -> Result<Self, Failure> {
        let settings = &start.settings;
        let mode = plan::mode(settings);
        let mut agent = Self {
            fixed: Some(Fixed::of(settings)),
            model: settings.model.clone(),
            effort: plan::effort(settings).map(str::to_owned),
            mode: mode.to_owned(),
            may_bypass: mode == plan::BYPASS,
            ..Self::new(proc)
        };
        let hello = agent.asks(Asked::Initialize, "initialize", json!({}));
        let turn = TurnRef { session: start.session, turn: start.turn };
        let spawn = plan::live(resume, start, hello, &mut Emit::new(turn, out))?;
        out.push(Action::Spawn(Spawn { proc, session: Some(start.session), ..spawn }));
        Ok(agent)
    }

    /// Starts a process that serves no conversation.
    pub(super) fn probe(proc: u32, session: Option<u32>, out: &mut Vec<Action>) -> Self {
        let mut agent = Self { stale: true, ..Self::new(proc) };
        let hello = agent.asks(Asked::Initialize, "initialize", json!({}));
        out.push(Action::Spawn(Spawn { proc, session, ..plan::probe(hello) }));
        agent
    }

    fn new(proc: u32) -> Self {
        Self {
            proc,
            phase: Phase::Starting,
            version: None,
            models: Vec::new(),
            tells_state: false,
            stale: false,
            fixed: None,
            model: None,
            effort: None,
            mode: String::new(),
            may_bypass: false,
            requests: 0,
            asked: BTreeMap::new(),
        }
    }

    /// Whether it serves no conversation.
    pub(super) fn is_probe(&self) -> bool {
        self.fixed.is_none()
    }

    /// Does what has to be done before a prompt with these settings.
    pub(super) fn prepare(&mut self, settings: &Settings, out: &mut Vec<Action>) -> Need {
        if self.asked.values().any(|asked| matches!(asked, Asked::Setting(_))) {
            return Need::Patience;
        }
        let mode = plan::mode(settings);
        // `set_model` without a name does not go back to what the environment says.
        let no_model = settings.model.is_none() && self.model.is_some();
        let more_rights = mode == plan::BYPASS && !self.may_bypass;
        if self.stale || no_model || more_rights || self.fixed != Some(Fixed::of(settings)) {
            return Need::Restart;
        }
        let effort = plan::effort(settings).map(str::to_owned);
        if let Some(model) = settings.model.as_ref().filter(|model| self.model.as_ref() != Some(model)) {
            self.request(Asked::Setting(Setting::Model(model.clone())), "set_model", json!({ "model": model }), out);
        }
        if self.effort != effort {
            let body = json!({"settings": {"effortLevel": effort}});
            self.request(Asked::Setting(Setting::Effort(effort)), "apply_flag_settings", body, out);
        }
        if self.mode != mode {
            self.request(Asked::Setting(Setting::Mode(mode)), "set_permission_mode", json!({ "mode": mode }), out);
        }
        if self.asked.values().any(|asked| matches!(asked, Asked::Setting(_))) { Need::Patience } else { Need::Nothing }
    }

    /// Asks it to stop what it does.
    pub(super) fn interrupt(&mut self, out: &mut Vec<Action>) {
        self.request(Asked::Interrupt, "interrupt", json!({}), out);
    }

    /// Asks for a sign of life.
    pub(super) fn sign(&mut self, query: u32, out: &mut Vec<Action>) {
        self.request(Asked::Sign(query), "mcp_status", json!({}), out);
    }

    /// Queries it was asked about and did not answer.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = u32> {
        self.asked.values().filter_map(|asked| if let Asked::Sign(query) = asked { Some(*query) } else { None })
    }

    /// It says itself which mode it is in.
    pub(super) fn in_mode(&mut self, mode: &str) {
        mode.clone_into(&mut self.mode);
    }

    /// Whether it plans only.
    pub(super) fn plans(&self) -> bool {
        self.mode == "plan"
    }

    /// Takes the answer to a request of ours in.
    pub(super) fn answered(&mut self, response: &Value) -> Answered {
        let Some(asked) = response.text("request_id").and_then(|id| self.asked.remove(id)) else { return Answered::Stray };
        let refused = response.text("subtype") == Some("error");
        match asked {
            Asked::Initialize => {
                self.models = response["response"].list("models").iter().filter_map(model).collect();
                if self.phase == Phase::Starting {
                    self.phase = Phase::Ready;
                }
                Answered::Ready
            }
            Asked::Sign(query) => Answered::Sign(query),
            Asked::Interrupt => Answered::Other,
            // A new process takes the setting as a flag.
            Asked::Setting(_) if refused => {
                self.stale = true;
                Answered::Other
            }
            Asked::Setting(setting) => {
                match setting {
                    Setting::Model(model) => self.model = Some(model),
                    Setting::Effort(effort) => self.effort = effort,
                    Setting::Mode(mode) => {
                        self.stale |= response["response"].text("mode").is_some_and(|now| now != mode);
                        self.in_mode(mode);
                    }
                }
                Answered::Other
            }
        }
    }

    fn request(&mut self, asked: Asked, subtype: &str, body: serde_json::Value, out: &mut Vec<Action>) {
        let line = self.asks(asked, subtype, body);
        out.push(write(self.proc, line));
    }

    fn asks(&mut self, asked: Asked, subtype: &str, mut body: serde_json::Value) -> String {
        self.requests += 1;
        let id = format!("{}-{}", self.proc, self.requests);
        body["subtype"] = json!(subtype);
        let line = format!("{}\n", json!({"type": "control_request", "request_id": id, "request": body}));
        self.asked.insert(id, asked);
        line
    }
}

fn model(model: &Value) -> Option<Model> {
    let id = model.text("value")?;
    Some(Model {
        id: id.to_owned(),
        label: model.text("displayName").unwrap_or(id).to_owned(),
        efforts: model.list("supportedEffortLevels").iter().filter_map(|effort| effort.as_str().map(str::to_owned)).collect(),
    })
}
