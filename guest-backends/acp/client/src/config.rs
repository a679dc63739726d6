//! The options of a session: mode, model and effort.
//!
//! Agents offer them as `configOptions` that are distinguished by category (the newer method), as
//! `modes` and `models` with their own methods, or as both (codex-acp 2.6.0). Values are defined by
//! the agent.

use std::fmt;

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{Failure, FailureKind, Mode, Model, Settings};

use crate::agent::{Modes, PLANNING, well_known};

/// Mode ids of claude-agent-acp 0.49.0 to 0.101.0.
const PLAN: &str = "plan";
const BYPASS: &str = "bypassPermissions";
const ASKING: &str = "default";

/// An option of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Mode,
    Model,
    Effort,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mode => "mode",
            Self::Model => "model",
            Self::Effort => "effort",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    /// With `session/set_config_option` and this id.
    Option(String),
    /// With `session/set_mode`.
    Mode,
    /// With `session/set_model`.
    Model,
}

#[derive(Clone, Debug)]
struct Choice {
    way: Way,
    now: String,
    /// The value when the session was opened.
    first: String,
    /// The id and the name of each value.
    values: Vec<(String, String)>,
    /// Whether a value was set on this link. If the settings no longer select a value, the first
    /// one is restored.
    touched: bool,
}

/// The options of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    mode: Option<Choice>,
    model: Option<Choice>,
    effort: Option<Choice>,
}

impl Config {
    /// Reads the options from the answer that opened a session.
    pub(crate) fn read(result: &Value) -> Self {
        let mut config = Self::default();
        for option in result.list("configOptions") {
            let Some(choice) = config_option(option) else { continue };
            match option.text("category") {
                Some("mode") => config.mode = Some(choice),
                Some("model") => config.model = Some(choice),
                Some("thought_level") => config.effort = Some(choice),
                _ => {}
            }
        }
        let listed = |list: &Value, all: &str, id: &str, now: &str, way| {
            let values = list
                .list(all)
                .iter()
                .filter_map(|value| Some((value.text(id)?.to_owned(), label(value, id))))
                .collect::<Vec<_>>();
            let now = list.text(now)?.to_owned();
            Some(Choice { way, first: now.clone(), now, values, touched: false })
        };
        // Claude and Droid report modes both ways. The method is older and more reliable.
        if let Some(modes) =
            listed(&result["modes"], "availableModes", "id", "currentModeId", Way::Mode)
        {
            config.mode = Some(modes);
        }
        if config.model.is_none() {
            config.model = listed(
                &result["models"],
                "availableModels",
                "modelId",
                "currentModelId",
                Way::Model,
            );
        }
        config
    }

    /// Updates the values and current values from options that the agent sent again. Initial values
    /// are not changed.
    pub(crate) fn update(&mut self, options: &[Value]) {
        for option in options {
            let choice = match option.text("category") {
                Some("mode") => &mut self.mode,
                Some("model") => &mut self.model,
                Some("thought_level") => &mut self.effort,
                _ => continue,
            };
            if let (Some(choice), Some(new)) = (choice, config_option(option)) {
                choice.now = new.now;
                choice.values = new.values;
            }
        }
    }

    /// Sets the current mode after the agent changed it.
    pub(crate) fn mode_is(&mut self, mode: &str) {
        if let Some(choice) = &mut self.mode {
            mode.clone_into(&mut choice.now);
        }
    }

    /// Records that the agent accepted a value.
    pub(crate) fn chosen(&mut self, what: What, value: &str) {
        if let Some(choice) = self.choice(what) {
            value.clone_into(&mut choice.now);
            choice.touched = true;
        }
    }

    /// Returns the value to set for a turn's settings, or `None` if it is already set.
    ///
    /// # Errors
    /// Fails if the turn must only plan and the agent has no planning mode.
    pub(crate) fn wanted(
        &mut self,
        what: What,
        settings: &Settings,
        modes: &Modes,
    ) -> Result<Option<String>, Failure> {
        if what == What::Mode {
            return self.wanted_mode(settings, modes);
        }
        let asked = if what == What::Model { &settings.model } else { &settings.effort };
        let Some(choice) = self.choice(what) else { return Ok(None) };
        let value = match asked {
            Some(value) => value.clone(),
            None if choice.touched => choice.first.clone(),
            None => return Ok(None),
        };
        Ok(Some(value).filter(|value| *value != choice.now))
    }

    fn wanted_mode(
        &mut self,
        settings: &Settings,
        modes: &Modes,
    ) -> Result<Option<String>, Failure> {
        let given = modes.given(settings);
        let Some(choice) = &self.mode else {
            return if settings.mode == Mode::Plan { Err(no_plan_mode()) } else { Ok(None) };
        };
        let offered = |id: &&&str| choice.values.iter().any(|(value, _)| value == **id);
        let value = match given.or_else(|| well_known(settings).iter().find(offered).copied()) {
            Some(value) => value,
            None if settings.mode == Mode::Plan => return Err(no_plan_mode()),
            // The mode of a previous turn with a higher level or of planning is not kept.
            None => &choice.first,
        };
        let offers = |id: &str| choice.values.iter().any(|(value, _)| value == id);
        // In its planning mode, Claude Code does not ask for permissions if it is allowed to bypass
        // them. Therefore it runs in its asking mode, and this backend rejects changes.
        let value =
            if settings.mode == Mode::Plan && value == PLAN && offers(BYPASS) && offers(ASKING) {
                ASKING
            } else {
                value
            };
        Ok(Some(value.to_owned()).filter(|value| *value != choice.now))
    }

    /// Returns whether the agent is in its planning mode.
    pub(crate) fn plans(&self) -> bool {
        let plans = |choice: &Choice| PLANNING.contains(&choice.now.as_str());
        self.mode.as_ref().is_some_and(plans)
    }

    /// Returns whether the agent offers an option.
    pub(crate) fn offers(&mut self, what: What) -> bool {
        self.choice(what).is_some()
    }

    /// Returns the method and parameters that set an option. `session` is the agent's session id.
    pub(crate) fn request(
        &mut self,
        what: What,
        session: &str,
        value: &str,
    ) -> Option<(&'static str, String)> {
        let (session, value) = (serde_json::json!(session), serde_json::json!(value));
        Some(match &self.choice(what)?.way {
            Way::Option(id) => (
                "session/set_config_option",
                format!(
                    r#"{{"sessionId":{session},"configId":{},"value":{value}}}"#,
                    serde_json::json!(id)
                ),
            ),
            Way::Mode => {
                ("session/set_mode", format!(r#"{{"sessionId":{session},"modeId":{value}}}"#))
            }
            Way::Model => {
                ("session/set_model", format!(r#"{{"sessionId":{session},"modelId":{value}}}"#))
            }
        })
    }

    pub(crate) fn model(&self) -> Option<String> {
        self.model.as_ref().map(|model| model.now.clone())
    }

    /// Returns the models that the agent offers.
    pub(crate) fn models(&self) -> Vec<Model> {
        let efforts: Vec<String> = self
            .effort
            .as_ref()
            .map(|effort| effort.values.iter().map(|(id, _)| id.clone()).collect())
            .unwrap_or_default();
        let models = self.model.as_ref().map(|model| model.values.as_slice()).unwrap_or_default();
        models
            .iter()
            .map(|(id, label)| Model {
                id: id.clone(),
                label: label.clone(),
                efforts: efforts.clone(),
            })
            .collect()
    }

    fn choice(&mut self, what: What) -> Option<&mut Choice> {
        match what {
            What::Mode => self.mode.as_mut(),
            What::Model => self.model.as_mut(),
            What::Effort => self.effort.as_mut(),
        }
    }
}

fn no_plan_mode() -> Failure {
    let message =
        "the agent has no mode for planning only; name one for `plan` under `modes` in its profile"
            .to_owned();
    Failure { kind: FailureKind::Unsupported, message, retry_after_ms: None }
}

fn config_option(option: &Value) -> Option<Choice> {
    let now = option.text("currentValue")?.to_owned();
    let mut values = Vec::new();
    for value in option.list("options") {
        match value.text("value") {
            Some(id) => values.push((id.to_owned(), label(value, "value"))),
            // Options may come in groups.
            None => values.extend(
                value
                    .list("options")
                    .iter()
                    .filter_map(|v| Some((v.text("value")?.to_owned(), label(v, "value")))),
            ),
        }
    }
    Some(Choice {
        way: Way::Option(option.text("id")?.to_owned()),
        first: now.clone(),
        now,
        values,
        touched: false,
    })
}

fn label(value: &Value, id: &str) -> String {
    value.text("name").or_else(|| value.text(id)).unwrap_or_default().to_owned()
}
