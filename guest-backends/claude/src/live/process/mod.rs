//! The process of a conversation: what it was asked and not yet answered, and what is in force in
//! it.

mod kept;

use std::collections::BTreeMap;

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{Model, QueryResult, Settings};
use serde_json::json;

use crate::plan::{self, Fixed};

/// The purpose of a request of ours.
#[derive(Debug)]
enum Asked {
    Initialize,
    Interrupt,
    Setting(Setting),
    /// Whether it is there at all, for this query.
    Sign(u32),
}

/// A setting that can be changed in a running process.
#[derive(Clone, Debug, PartialEq)]
enum Setting {
    Model(String),
    Effort(Option<String>),
    Mode(&'static str),
}

#[derive(Debug, Default)]
pub(super) struct Process {
    number: u32,
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

impl Process {
    /// Another process begins, with these settings; without, it serves no conversation. Returns
    /// what is said to it first.
    pub(super) fn begin(&mut self, settings: Option<&Settings>) -> String {
        *self = Self { number: self.number + 1, ..Self::default() };
        if let Some(settings) = settings {
            self.fixed = Some(Fixed::of(settings));
            self.model.clone_from(&settings.model);
            self.effort = plan::effort(settings).map(str::to_owned);
            plan::mode(settings).clone_into(&mut self.mode);
            self.may_bypass = self.mode == plan::BYPASS;
        }
        // Claude Code 2.1.330 otherwise goes on with the system prompt that a conversation began
        // with, whatever it is given later. 2.1.197 does not know the field and ignores it.
        self.ask(Asked::Initialize, "initialize", json!({ "systemPromptSnapshot": false })) + "\n"
    }

    /// Whether it serves no conversation.
    pub(super) fn is_probe(&self) -> bool {
        self.fixed.is_none()
    }

    /// Whether it was asked to change a setting and did not answer.
    pub(super) fn is_changing(&self) -> bool {
        self.asked.values().any(|asked| matches!(asked, Asked::Setting(_)))
    }

    /// Whether it can become what a turn with these settings needs.
    pub(super) fn suits(&self, settings: &Settings) -> bool {
        // `set_model` without a name does not go back to what the environment says.
        let no_model = settings.model.is_none() && self.model.is_some();
        let more_rights = plan::mode(settings) == plan::BYPASS && !self.may_bypass;
        // Where it may bypass permissions it asks nobody while planning either (2.1.197 to
        // 2.1.330).
        let free_to_plan = plan::mode(settings) == plan::PLAN && self.may_bypass;
        !self.stale
            && !no_model
            && !more_rights
            && !free_to_plan
            && self.fixed.as_ref() == Some(&Fixed::of(settings))
    }

    /// Asks it to change what is not as in these settings.
    pub(super) fn change(&mut self, settings: &Settings, context: &mut LinkContext) {
        if let Some(model) =
            settings.model.as_ref().filter(|model| self.model.as_ref() != Some(model))
        {
            self.request(
                Asked::Setting(Setting::Model(model.clone())),
                "set_model",
                json!({ "model": model }),
                context,
            );
        }
        let effort = plan::effort(settings).map(str::to_owned);
        if self.effort != effort {
            let body = json!({"settings": {"effortLevel": effort}});
            self.request(
                Asked::Setting(Setting::Effort(effort)),
                "apply_flag_settings",
                body,
                context,
            );
        }
        let mode = plan::mode(settings);
        if self.mode != mode {
            self.request(
                Asked::Setting(Setting::Mode(mode)),
                "set_permission_mode",
                json!({ "mode": mode }),
                context,
            );
        }
    }

    /// Asks it to stop what it does.
    pub(super) fn interrupt(&mut self, context: &mut LinkContext) {
        self.request(Asked::Interrupt, "interrupt", json!({}), context);
    }

    /// Asks for a sign of life.
    pub(super) fn sign(&mut self, query: u32, context: &mut LinkContext) {
        self.request(Asked::Sign(query), "mcp_status", json!({}), context);
    }

    /// It is gone: returns the queries it was asked about and did not answer.
    pub(super) fn unanswered(&mut self) -> impl Iterator<Item = u32> {
        std::mem::take(&mut self.asked)
            .into_values()
            .filter_map(|asked| if let Asked::Sign(query) = asked { Some(query) } else { None })
    }

    /// Says that it is well.
    pub(super) fn health(&self) -> QueryResult {
        let version =
            self.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
        QueryResult::Health(format!(
            "Claude Code{version} answers and offers {} models",
            self.models.len()
        ))
    }

    /// It says itself which mode it is in.
    pub(super) fn in_mode(&mut self, mode: &str) {
        mode.clone_into(&mut self.mode);
    }

    /// Whether it plans only.
    pub(super) fn plans(&self) -> bool {
        self.mode == plan::PLAN
    }

    /// Takes the answer to a request of ours in. Returns false when it is an answer to nothing.
    pub(super) fn answered(&mut self, response: &Value, context: &mut LinkContext) -> bool {
        let Some(asked) = response.text("request_id").and_then(|id| self.asked.remove(id)) else {
            return false;
        };
        match asked {
            Asked::Initialize => {
                self.models =
                    response["response"].list("models").iter().filter_map(model).collect();
                context.ready();
            }
            Asked::Sign(query) => context.answer(query, self.health()),
            Asked::Interrupt => {}
            // A new process takes the setting as a flag.
            Asked::Setting(_) if response.text("subtype") == Some("error") => self.stale = true,
            Asked::Setting(Setting::Model(model)) => self.model = Some(model),
            Asked::Setting(Setting::Effort(effort)) => self.effort = effort,
            Asked::Setting(Setting::Mode(mode)) => {
                self.stale |= response["response"].text("mode").is_some_and(|now| now != mode);
                self.in_mode(mode);
            }
        }
        true
    }

    fn request(
        &mut self,
        asked: Asked,
        subtype: &str,
        body: serde_json::Value,
        context: &mut LinkContext,
    ) {
        let line = self.ask(asked, subtype, body);
        context.say(&line);
    }

    fn ask(&mut self, asked: Asked, subtype: &str, mut body: serde_json::Value) -> String {
        self.requests += 1;
        let id = format!("{}-{}", self.number, self.requests);
        body["subtype"] = json!(subtype);
        let line =
            json!({"type": "control_request", "request_id": id, "request": body}).to_string();
        self.asked.insert(id, asked);
        line
    }
}

fn model(model: &Value) -> Option<Model> {
    let id = model.text("value")?;
    Some(Model {
        id: id.to_owned(),
        label: model.text("displayName").unwrap_or(id).to_owned(),
        efforts: model
            .list("supportedEffortLevels")
            .iter()
            .filter_map(|effort| effort.as_str().map(str::to_owned))
            .collect(),
    })
}
