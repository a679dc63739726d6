//! Opens the session, and applies the settings that can be changed in a running process.

use aetheel_backend_sdk::json::Value as Json;
use aetheel_backend_sdk::live::{Agent as _, LinkContext};
use aetheel_backend_sdk::wit::{
    Failure, FailureKind, Mode, Outcome, Safety, StartTurn, SteerOutcome,
};
use aetheel_backend_sdk::{Emit, failure};
use serde_json::{Map, Value, json};

use super::{Call, Droid, query};
use crate::failure;
use crate::{plan, tool};

/// Droid's error code for an unknown session.
const NO_SESSION: f64 = -32004.0;

/// The settings of a session, as protocol values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Put {
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    pub(super) mode: String,
    pub(super) level: String,
    pub(super) tools: Vec<String>,
    /// The safety level of the turn that set them, or `None` if Droid reported them.
    pub(super) safety: Option<Safety>,
}

impl Put {
    pub(super) fn of(start: &StartTurn, emit: &mut Emit) -> Self {
        let settings = &start.settings;
        let mut tools = plan::tools(settings);
        if settings.mode == Mode::Plan && !tools.is_empty() {
            // Droid submits the plan with this tool.
            tools.push("ExitSpecMode".to_owned());
        }
        if !tools.is_empty() {
            tools.extend(tool::of_host(&start.tools));
        }
        Self {
            model: settings.model.clone(),
            effort: plan::effort(settings, emit),
            mode: if settings.mode == Mode::Plan { "spec" } else { "auto" }.to_owned(),
            // Higher levels rely on the model's statement about the risk of a command, and `low`
            // writes files in any directory. Therefore, `ask` allows edits in the working
            // directory, and a flag allows everything.
            level: "off".to_owned(),
            tools,
            safety: Some(settings.safety),
        }
    }

    /// Reads the settings that Droid reports for a session.
    fn reported(settings: &Json) -> Self {
        let text = |key| settings.text(key).map(str::to_owned);
        let tools = settings
            .list("restrictToolIds")
            .iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect();
        Self {
            model: text("modelId"),
            effort: text("reasoningEffort"),
            mode: text("interactionMode").unwrap_or_default(),
            level: text("autonomyLevel").unwrap_or_default(),
            tools,
            safety: None,
        }
    }

    /// Replaces settings that are not selected by the session's defaults, if they are known.
    pub(super) fn or(mut self, defaults: &Self, now: Option<&Self>) -> Self {
        self.model = self.model.or_else(|| defaults.model.clone()).or_else(|| now?.model.clone());
        self.effort =
            self.effort.or_else(|| defaults.effort.clone()).or_else(|| now?.effort.clone());
        self
    }

    /// Returns the parameters that change the current settings `now` to these settings, or `None`
    /// if nothing changes.
    pub(super) fn change_from(&self, now: Option<&Self>) -> Option<String> {
        let mut params = Map::new();
        let mut set = |name: &str, wanted: Value, is: Option<Value>| {
            if !wanted.is_null() && is.as_ref() != Some(&wanted) {
                params.insert(name.to_owned(), wanted);
            }
        };
        set("modelId", json!(self.model), now.map(|now| json!(now.model)));
        set("reasoningEffort", json!(self.effort), now.map(|now| json!(now.effort)));
        set("interactionMode", json!(self.mode), now.map(|now| json!(now.mode)));
        // "Always" decisions raised the level in Droid only. A lower safety level and planning
        // reset it.
        let lowered = |now: &&Self| {
            now.safety > self.safety || (self.mode == "spec" && now.mode != self.mode)
        };
        set(
            "autonomyLevel",
            json!(self.level),
            now.filter(|now| !lowered(now)).map(|now| json!(now.level)),
        );
        set("restrictToolIds", json!(self.tools), now.map(|now| json!(now.tools)));
        (!params.is_empty()).then(|| Value::Object(params).to_string())
    }
}

impl Droid {
    /// Creates or loads the session.
    pub(super) fn open(&mut self, wanted: Put, cwd: &str, context: &mut LinkContext) {
        if let Some((id, fork)) = self.resume.take() {
            let params = json!({ "sessionId": id }).to_string();
            return self.calls.request(
                context.proc(),
                "droid.load_session",
                &params,
                Call::Load { id, fork },
                context.out(),
            );
        }
        let mut params = json!({
            "machineId": "aetheel",
            "cwd": cwd,
            "interactionMode": wanted.mode,
            "autonomyLevel": wanted.level,
        });
        if let Some(model) = &wanted.model {
            params["modelId"] = json!(model);
        }
        if let Some(effort) = &wanted.effort {
            params["reasoningEffort"] = json!(effort);
        }
        if !wanted.tools.is_empty() {
            params["restrictToolIds"] = json!(wanted.tools);
        }
        self.calls.request(
            context.proc(),
            "droid.initialize_session",
            &params.to_string(),
            Call::New(wanted),
            context.out(),
        );
    }

    pub(super) fn response(
        &mut self,
        call: Call,
        result: Result<&Json, &Json>,
        raw: &str,
        context: &mut LinkContext,
    ) {
        if let Some(query) = query::of_call(&call) {
            return self.query_answered(query, &call, result, context);
        }
        match (call, result) {
            (Call::New(wanted), Ok(result)) => match result.text("sessionId") {
                Some(id) => self.made(id, wanted, result),
                // Without the id no prompt can be sent, and asking again would not end.
                None => {
                    context.unrecognised(
                        "no id in `result.sessionId`",
                        Some("result.sessionId"),
                        raw,
                    );
                    let why = "Droid opened a session without an id";
                    self.fail(failure(FailureKind::Protocol, why), context);
                }
            },
            (Call::Load { id, fork: true }, Ok(_)) => {
                self.native = Some(id);
                self.calls.request(
                    context.proc(),
                    "droid.fork_session",
                    "{}",
                    Call::Fork,
                    context.out(),
                );
            }
            (Call::Load { id, fork: false }, Ok(result)) => {
                self.native = Some(id);
                self.put = Some(Put::reported(&result["settings"]));
                self.defaults = Put::default();
            }
            // The copy is another session, which is not open yet.
            (Call::Fork, Ok(result)) => {
                self.resume = self
                    .native
                    .take()
                    .and(result.text("newSessionId"))
                    .map(|id| (id.to_owned(), false));
                if self.resume.is_none() {
                    context.unrecognised(
                        "no id in `result.newSessionId`",
                        Some("result.newSessionId"),
                        raw,
                    );
                    let why = "Droid copied a session without reporting its id";
                    self.fail(failure(FailureKind::Protocol, why), context);
                }
            }
            (Call::Settings(put), Ok(_)) => self.put = Some(put),
            (Call::Load { id, .. }, Err(error)) if error.number("code") != Some(NO_SESSION) => {
                // The session may exist nevertheless.
                self.resume = Some((id, false));
                self.refused(error, context);
            }
            (Call::Load { .. }, Err(_)) => self.fail(
                failure(FailureKind::SessionUnknown, "Droid does not know the session"),
                context,
            ),
            (Call::Settings(_), Err(error)) => {
                // Some of the settings may be in force.
                self.put = None;
                self.refused(error, context);
            }
            (Call::Fork, Err(error)) => {
                self.resume = self.native.take().map(|id| (id, true));
                self.refused(error, context);
            }
            (Call::New(_) | Call::Prompt, Err(error)) => self.refused(error, context),
            (Call::Steer(message), Err(_)) => {
                if let Some(turn) = &mut self.turn
                    && turn.forget(message)
                {
                    context.steered(message, SteerOutcome::NotNow);
                    if turn.is_over() {
                        self.complete(context);
                    }
                }
            }
            _ => {}
        }
    }

    fn made(&mut self, id: &str, wanted: Put, result: &Json) {
        self.native = Some(id.to_owned());
        let reported = Put::reported(&result["settings"]);
        self.defaults = Put {
            model: if wanted.model.is_none() { reported.model.clone() } else { None },
            effort: if wanted.effort.is_none() { reported.effort.clone() } else { None },
            ..Put::default()
        };
        // Droid ignores an unknown model here. When the model is set again, Droid reports that it
        // is unknown. An effort that the model does not support becomes the nearest one, which is
        // acceptable.
        self.put = Some(Put {
            model: reported.model,
            effort: wanted.effort.clone().or(reported.effort),
            mode: reported.mode,
            level: reported.level,
            tools: wanted.tools,
            safety: wanted.safety,
        });
    }

    /// Ends the turn because Droid refused a request.
    fn refused(&mut self, error: &Json, context: &mut LinkContext) {
        let message = error.text("message").unwrap_or("Droid refused a request without a reason");
        self.fail(failure::of_model(message), context);
    }

    fn fail(&mut self, why: Failure, context: &mut LinkContext) {
        if let Some(turn) = context.turn_of(self.session) {
            self.finish(turn, Outcome::Failed(why), context);
        }
    }
}
