//! People's choices for a lane: its backend, and the model, thinking, safety and mode of that
//! backend.
//!
//! Choices are saved per lane and backend. Tested by `tests/gateway/choices.rs`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::effective::{
    EffectiveSettings, effort_id, id_list, parse_safety, planning, safety_word,
};
use super::error::{LaneRequestError, ValueProblem};
use super::listings::ListingKind;
use super::options::{Setting, levels, modes};
use crate::Shared;
use crate::deps::Choices;
use aetheel_model::agent::descriptor::{DescriptorChoice, Feature};
use aetheel_model::agent::{Descriptor, Mode, QueryResult};
use aetheel_model::event::{Lane, PromptChoice};
use aetheel_model::id::ChannelId;
use aetheel_model::plain::{one_line, with_causes};
use aetheel_store::workspace::{BindingsError, LaneSettings, is_plain_model};

/// The longest time to wait for the answer whether a backend can work.
const AVAILABILITY_TIMEOUT: Duration = Duration::from_secs(1);
/// The value that removes a choice.
const UNSET: &str = "unset";

/// Reads and changes the settings of lanes. Cheap to clone.
#[derive(Clone)]
pub struct Settings {
    pub(super) shared: Arc<Shared>,
}

impl Settings {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Records that a channel is a thread of another channel.
    pub fn learn_parent(&self, channel: ChannelId, parent: ChannelId) {
        self.shared.channels.parents.learn(channel, parent);
    }

    /// Returns whether a lane was used before, or `channels.md` names it.
    pub async fn knows(&self, lane: &Lane) -> bool {
        let workspace = &self.shared.deps.workspace;
        self.shared.lanes.is_busy(lane)
            || workspace.channels().await.lanes().any(|(known, _)| known == lane)
            || workspace.state.bindings.has_lane(lane).await
    }

    /// Returns whether the bot reads all messages of a channel and its threads, because of
    /// `require-mention: no`.
    pub async fn reads_all(&self, lane: &Lane) -> bool {
        let (_, settings) = self.shared.channels.backend_of(lane).await;
        settings.require_mention == Some(false)
    }

    /// Returns the backend of a lane.
    pub async fn backend_of(&self, lane: &Lane) -> String {
        self.shared.channels.backend_of(lane).await.0
    }

    /// Returns the names of the backends that people may choose in a lane.
    pub async fn backend_names(&self, lane: &Lane) -> Vec<String> {
        self.shared.channels.offered_names(lane).await
    }

    /// Chooses the backend of a lane, from its next turn on.
    ///
    /// # Errors
    /// [`LaneRequestError`] if the backend does not exist, is not offered there or cannot work
    /// here, or if the file cannot be written.
    pub async fn choose_backend(&self, lane: &Lane, name: &str) -> Result<(), LaneRequestError> {
        let backends = &self.shared.deps.backends;
        let (_, settings) = self.shared.channels.backend_of(lane).await;
        self.shared.channels.check_offered(lane, &settings, name)?;
        if let Some(reason) = backends.unavailable(name).await {
            return Err(LaneRequestError::Unavailable { name: name.to_owned(), reason });
        }
        let bindings = &self.shared.deps.workspace.state.bindings;
        self.saved(lane, bindings.set_backend(lane, name).await)
    }

    /// Returns the result of saving a choice. Lanes that wait are checked again, because they may wait
    /// for another backend or model.
    fn saved(&self, lane: &Lane, saved: Result<(), BindingsError>) -> Result<(), LaneRequestError> {
        self.shared.lanes.holds.on_reason_change();
        saved.map_err(|error| {
            tracing::error!(%lane, error = %with_causes(&error), "cannot save a choice");
            LaneRequestError::NotSaved
        })
    }

    /// Returns the models to choose from in a lane: those in the descriptor, and those that the
    /// agent lists within `wait`. Without `backend`, those of the lane's backend.
    pub async fn models(
        &self,
        lane: &Lane,
        backend: Option<&str>,
        wait: Duration,
    ) -> Vec<DescriptorChoice> {
        let (own, settings) = self.shared.channels.backend_of(lane).await;
        let named = backend.filter(|name| self.shared.channels.may_choose(lane, &settings, name));
        let name = named.map_or(own, str::to_owned);
        let Some(backend) = self.shared.serving(&name, lane) else { return Vec::new() };
        let descriptor = backend.descriptor();
        if !descriptor.has(Feature::Model) {
            return Vec::new();
        }
        let mut models = descriptor.models.clone();
        if let Some(QueryResult::Models(listed)) =
            self.shared.listings.ask(&backend, ListingKind::Models, wait).await.as_deref()
        {
            for model in listed.iter().filter(|model| is_plain_model(&model.id)) {
                if !models.iter().any(|known| known.id == model.id) {
                    models.push(DescriptorChoice {
                        id: model.id.clone(),
                        label: one_line(&model.label),
                    });
                }
            }
        }
        models
    }

    /// Checks the agent and the model that a person chose for a prompt.
    ///
    /// # Errors
    /// [`LaneRequestError`] if people may not choose them in the lane.
    pub async fn check_prompt_choice(
        &self,
        lane: &Lane,
        choice: &PromptChoice,
    ) -> Result<(), LaneRequestError> {
        let (own, settings) = self.shared.channels.backend_of(lane).await;
        let name = choice.backend.clone().unwrap_or(own);
        if let Some(chosen) = &choice.backend {
            self.shared.channels.check_offered(lane, &settings, chosen)?;
            // A person waits for the command, so a slow answer counts as none.
            let found =
                timeout(AVAILABILITY_TIMEOUT, self.shared.deps.backends.unavailable(chosen)).await;
            if let Some(reason) = found.ok().flatten() {
                return Err(LaneRequestError::Unavailable { name, reason });
            }
        }
        let Some(model) = &choice.model else { return Ok(()) };
        let Some(backend) = self.shared.serving(&name, lane) else {
            let offered = self.backend_names(lane).await;
            return Err(LaneRequestError::NoBackend { name, offered });
        };
        let descriptor = backend.descriptor();
        let now = self.shared.channels.in_force(lane, &settings, descriptor).await;
        let choosing = SettingChoice {
            choices: &self.shared.deps.choices,
            settings: &settings,
            descriptor,
            now: &now,
            backends: &[],
        };
        choosing.supported(Setting::Model)?;
        choosing.parse_value(Setting::Model, model).map(drop)
    }

    /// Chooses a setting of a lane and its backend, from the next turn on. Returns a message for
    /// the person who asked. Without a value, the message names the current value and the choices.
    ///
    /// # Errors
    /// [`LaneRequestError`] if the backend has no such setting or value, if the operator does not
    /// allow it, or if the file cannot be written.
    pub async fn choose(
        &self,
        lane: &Lane,
        setting: Setting,
        value: Option<&str>,
    ) -> Result<String, LaneRequestError> {
        let bindings = &self.shared.deps.workspace.state.bindings;
        if let (Setting::Backend, Some(name)) = (setting, value) {
            match name {
                UNSET => self.saved(lane, bindings.unset_backend(lane).await)?,
                name => self.choose_backend(lane, name).await?,
            }
            let name = self.backend_of(lane).await;
            let backend = self.shared.deps.backends.get(&name);
            let label = backend.map_or(name, |backend| backend.descriptor().label().to_owned());
            return Ok(format!("{} is {label} from now on.", setting.title()));
        }
        let (name, settings) = self.shared.channels.backend_of(lane).await;
        let Some(backend) = self.shared.serving(&name, lane) else {
            let offered = self.backend_names(lane).await;
            return Err(LaneRequestError::NoBackend { name, offered });
        };
        let descriptor = backend.descriptor();
        let now = self.shared.channels.in_force(lane, &settings, descriptor).await;
        let backends = self.shared.channels.offered(lane, &settings);
        let choosing = SettingChoice {
            choices: &self.shared.deps.choices,
            settings: &settings,
            descriptor,
            now: &now,
            backends: &backends,
        };
        choosing.supported(setting)?;
        let Some(value) = value else { return Ok(choosing.shown(setting)) };
        let value = if value == UNSET { None } else { Some(choosing.parse_value(setting, value)?) };
        let before = bindings.get(lane, &name).await;
        self.saved(lane, bindings.set_setting(lane, &name, setting.name(), value).await)?;
        let now = self.shared.channels.in_force(lane, &settings, descriptor).await;
        let choosing = SettingChoice { now: &now, ..choosing };
        // Claude Code, OpenCode and Droid resume a session with its previous model, and cannot be
        // asked to use their default.
        let kept = setting == Setting::Model
            && now.model.is_none()
            && before.session.is_some()
            && before.settings.contains_key(setting.name());
        let but = if kept {
            " This conversation may keep its model; `/reset` starts one without it."
        } else {
            ""
        };
        Ok(format!("{} is {} from now on.{but}", setting.title(), choosing.current(setting)))
    }
}

/// A choice that somebody makes, with its context.
struct SettingChoice<'a> {
    choices: &'a Choices,
    settings: &'a LaneSettings,
    descriptor: &'a Descriptor,
    now: &'a EffectiveSettings,
    backends: &'a [DescriptorChoice],
}

impl SettingChoice<'_> {
    fn supported(&self, setting: Setting) -> Result<(), LaneRequestError> {
        let (feature, what) = match setting {
            Setting::Model => (Feature::Model, "choice of models"),
            Setting::Effort => (Feature::Effort, "levels of thinking"),
            Setting::Mode => (Feature::Plan, "mode for planning"),
            Setting::Safety | Setting::Backend => return Ok(()),
        };
        if self.descriptor.has(feature) {
            Ok(())
        } else {
            Err(LaneRequestError::NoSetting { backend: self.descriptor.label().to_owned(), what })
        }
    }

    /// Checks a value, and returns it as it is saved.
    fn parse_value(&self, setting: Setting, value: &str) -> Result<String, LaneRequestError> {
        let refused = |problem: ValueProblem| {
            Err(LaneRequestError::Value { problem, offered: self.offered(setting) })
        };
        let named = || value.to_owned();
        match setting {
            Setting::Backend => Ok(value.to_owned()),
            // Agents know more models than they list.
            Setting::Model if is_plain_model(value) => Ok(value.to_owned()),
            Setting::Model => refused(ValueProblem::Model(named())),
            Setting::Effort => effort_id(self.descriptor, value)
                .map_or_else(|| refused(ValueProblem::Effort(named())), Ok),
            Setting::Safety => match parse_safety(value) {
                Some(wanted) if wanted <= self.now.ceiling => Ok(value.to_owned()),
                Some(_) => refused(ValueProblem::SafetyRefused(named())),
                None => refused(ValueProblem::Safety(named())),
            },
            Setting::Mode => match value {
                "plan" => Ok(value.to_owned()),
                "build" if planning(self.choices, self.settings) => {
                    refused(ValueProblem::OnlyPlanning)
                }
                "build" => Ok(value.to_owned()),
                _ => refused(ValueProblem::Mode(named())),
            },
        }
    }

    fn current(&self, setting: Setting) -> String {
        let label = |id: &str, choices: &[DescriptorChoice]| {
            let known =
                choices.iter().find(|choice| choice.id == id).map(|choice| choice.label.as_str());
            known.filter(|label| !label.is_empty()).unwrap_or(id).to_owned()
        };
        let chosen = |value: &Option<String>, choices: &[DescriptorChoice]| {
            value
                .as_deref()
                .map_or_else(|| "the agent's default".to_owned(), |value| label(value, choices))
        };
        match setting {
            Setting::Backend => self.descriptor.label().to_owned(),
            Setting::Model => chosen(&self.now.model, &self.descriptor.models),
            Setting::Effort => chosen(&self.now.effort, &self.descriptor.efforts),
            Setting::Safety => label(safety_word(self.now.safety), &levels(self.now.ceiling)),
            Setting::Mode => {
                label(if self.now.mode == Mode::Plan { "plan" } else { "build" }, &modes(false))
            }
        }
    }

    fn offered(&self, setting: Setting) -> String {
        match setting {
            Setting::Backend => id_list(self.backends),
            Setting::Model if self.descriptor.models.is_empty() => {
                "those the agent knows, by its own names".to_owned()
            }
            Setting::Model => {
                format!("{} and others the agent knows", id_list(&self.descriptor.models))
            }
            Setting::Effort => id_list(&self.descriptor.efforts),
            Setting::Safety => id_list(&levels(self.now.ceiling)),
            Setting::Mode => id_list(&modes(planning(self.choices, self.settings))),
        }
    }

    fn shown(&self, setting: Setting) -> String {
        format!(
            "{} is {}; there are: {}",
            setting.title(),
            self.current(setting),
            self.offered(setting)
        )
    }
}
