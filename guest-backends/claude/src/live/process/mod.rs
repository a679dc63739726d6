//! The process of a conversation: its open requests and current settings.

mod saved;

use std::collections::BTreeMap;

use aetheel_backend_sdk::TOOL_SERVER;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{HostTool, Model, QueryResult, Settings, StartTurn};
use serde_json::json;

use crate::plan::{self, Fixed};

/// The purpose of a request to the agent.
#[derive(Debug)]
enum Request {
    Initialize,
    Interrupt,
    Setting(Setting),
    /// Checks that the agent responds, for this query.
    Health(u32),
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
    /// Whether the agent has reported that it is running or idle.
    pub(super) reports_state: bool,
    /// Whether the next turn needs a new process regardless of its settings.
    pub(super) stale: bool,
    /// The tools of the host that the process was offered. They cannot change.
    pub(super) offered: Vec<HostTool>,
    /// Settings that cannot change; `None` if the process serves no conversation.
    fixed: Option<Fixed>,
    model: Option<String>,
    effort: Option<String>,
    mode: String,
    may_bypass: bool,
    requests: u32,
    pending: BTreeMap<String, Request>,
}

impl Process {
    /// Starts tracking a new process for this turn. Without a turn it serves no conversation.
    /// Returns the first line to write to it.
    pub(super) fn begin(&mut self, start: Option<&StartTurn>) -> String {
        *self = Self { number: self.number + 1, ..Self::default() };
        if let Some(StartTurn { settings, tools, .. }) = start {
            self.offered.clone_from(tools);
            self.fixed = Some(Fixed::of(settings));
            self.model.clone_from(&settings.model);
            self.effort = plan::effort(settings).map(str::to_owned);
            plan::mode(settings).clone_into(&mut self.mode);
            self.may_bypass = self.mode == plan::BYPASS;
        }
        // Without this, Claude Code 2.1.330 keeps the system prompt that a conversation began with,
        // even if another one is passed later. 2.1.197 ignores the unknown field.
        let mut body = json!({ "systemPromptSnapshot": false });
        if !self.offered.is_empty() {
            body["sdkMcpServers"] = json!([TOOL_SERVER]);
        }
        self.ask(Request::Initialize, "initialize", body) + "\n"
    }

    /// Returns whether the process serves no conversation.
    pub(super) fn is_probe(&self) -> bool {
        self.fixed.is_none()
    }

    /// Returns whether a change of a setting is not answered yet.
    pub(super) fn is_changing(&self) -> bool {
        self.pending.values().any(|purpose| matches!(purpose, Request::Setting(_)))
    }

    /// Returns whether the process can serve this turn with its settings.
    pub(super) fn suits(&self, start: &StartTurn) -> bool {
        let settings = &start.settings;
        // `set_model` without a name does not restore the default of the environment.
        let no_model = settings.model.is_none() && self.model.is_some();
        let more_rights = plan::mode(settings) == plan::BYPASS && !self.may_bypass;
        // A process that may bypass permissions does not ask while planning either (2.1.197 to
        // 2.1.330).
        let free_to_plan = plan::mode(settings) == plan::PLAN && self.may_bypass;
        !self.stale
            && !no_model
            && !more_rights
            && !free_to_plan
            && self.offered == start.tools
            && self.fixed.as_ref() == Some(&Fixed::of(settings))
    }

    /// Requests the changes needed for these settings.
    pub(super) fn change(&mut self, settings: &Settings, context: &mut LinkContext) {
        if let Some(model) =
            settings.model.as_ref().filter(|model| self.model.as_ref() != Some(model))
        {
            self.request(
                Request::Setting(Setting::Model(model.clone())),
                "set_model",
                json!({ "model": model }),
                context,
            );
        }
        let effort = plan::effort(settings).map(str::to_owned);
        if self.effort != effort {
            let body = json!({"settings": {"effortLevel": effort}});
            self.request(
                Request::Setting(Setting::Effort(effort)),
                "apply_flag_settings",
                body,
                context,
            );
        }
        let mode = plan::mode(settings);
        if self.mode != mode {
            self.request(
                Request::Setting(Setting::Mode(mode)),
                "set_permission_mode",
                json!({ "mode": mode }),
                context,
            );
        }
    }

    /// Asks the agent to stop the turn.
    pub(super) fn interrupt(&mut self, context: &mut LinkContext) {
        self.request(Request::Interrupt, "interrupt", json!({}), context);
    }

    /// Checks that the agent responds.
    pub(super) fn check_health(&mut self, query: u32, context: &mut LinkContext) {
        self.request(Request::Health(query), "mcp_status", json!({}), context);
    }

    /// Returns the queries that an exited process has not answered.
    pub(super) fn take_unanswered(&mut self) -> impl Iterator<Item = u32> {
        std::mem::take(&mut self.pending).into_values().filter_map(|purpose| {
            if let Request::Health(query) = purpose { Some(query) } else { None }
        })
    }

    /// Returns a positive health report.
    pub(super) fn health(&self) -> QueryResult {
        let version =
            self.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
        QueryResult::Health(format!(
            "Claude Code{version} answers and offers {} models",
            self.models.len()
        ))
    }

    /// Records the mode that the agent reports.
    pub(super) fn in_mode(&mut self, mode: &str) {
        mode.clone_into(&mut self.mode);
    }

    /// Returns whether the agent only plans.
    pub(super) fn plans(&self) -> bool {
        self.mode == plan::PLAN
    }

    /// Handles the answer to a request. Returns false if there is no such request.
    pub(super) fn answered(&mut self, response: &Value, context: &mut LinkContext) -> bool {
        let Some(purpose) = response.text("request_id").and_then(|id| self.pending.remove(id))
        else {
            return false;
        };
        match purpose {
            Request::Initialize => {
                self.models =
                    response["response"].list("models").iter().filter_map(model).collect();
                context.ready();
            }
            Request::Health(query) => context.answer(query, self.health()),
            Request::Interrupt => {}
            // A new process takes the setting as a flag.
            Request::Setting(_) if response.text("subtype") == Some("error") => self.stale = true,
            Request::Setting(Setting::Model(model)) => self.model = Some(model),
            Request::Setting(Setting::Effort(effort)) => self.effort = effort,
            Request::Setting(Setting::Mode(mode)) => {
                self.stale |= response["response"].text("mode").is_some_and(|now| now != mode);
                self.in_mode(mode);
            }
        }
        true
    }

    fn request(
        &mut self,
        purpose: Request,
        subtype: &str,
        body: serde_json::Value,
        context: &mut LinkContext,
    ) {
        let line = self.ask(purpose, subtype, body);
        context.say(&line);
    }

    fn ask(&mut self, purpose: Request, subtype: &str, mut body: serde_json::Value) -> String {
        self.requests += 1;
        let id = format!("{}-{}", self.number, self.requests);
        body["subtype"] = json!(subtype);
        let line =
            json!({"type": "control_request", "request_id": id, "request": body}).to_string();
        self.pending.insert(id, purpose);
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
