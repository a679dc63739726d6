//! The settings of a lane with their current values and their choices, for display.
//!
//! The choices come from the descriptor of the lane's backend. Settings that it does not support
//! are left out. The module `settings` applies a choice. Tested by `tests/dispatch/view.rs`.

use std::collections::BTreeMap;

use super::ChannelContext;
use super::effective::{EffectiveSettings, LEVELS, names, planning, safety_word};
use aetheel_model::agent::descriptor::{DescriptorChoice, Feature};
use aetheel_model::agent::{Descriptor, Mode, Safety};
use aetheel_model::event::Lane;
use aetheel_store::workspace::LaneSettings;

/// A setting of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The backend of the lane.
    Backend,
    /// The model of the backend.
    Model,
    /// How much the model thinks.
    Effort,
    /// The level up to which the agent acts without asking.
    Safety,
    /// The mode of turns: build or plan.
    Mode,
}

impl Setting {
    /// All settings, in the order of display.
    pub const ALL: [Self; 5] = [Self::Backend, Self::Model, Self::Effort, Self::Safety, Self::Mode];

    /// Returns the title of the setting for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Backend => "Backend",
            Self::Model => "Model",
            Self::Effort => "Thinking",
            Self::Safety => "Safety",
            Self::Mode => "Mode",
        }
    }

    /// Returns the name of the setting in commands.
    #[must_use]
    pub fn argument(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Model => "model",
            Self::Effort => "thinking",
            Self::Safety => "safety",
            Self::Mode => "mode",
        }
    }

    /// Returns the name under which the setting is saved.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Model => names::MODEL,
            Self::Effort => names::EFFORT,
            Self::Safety => names::SAFETY,
            Self::Mode => names::MODE,
        }
    }
}

/// A setting with its current value and its choices.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingOption {
    /// The setting.
    pub setting: Setting,
    /// The id of the current value; `None` for the agent's default.
    pub current: Option<String>,
    /// Whether people chose the value in this lane.
    pub chosen: bool,
    /// The possible values with their labels.
    pub choices: Vec<DescriptorChoice>,
    /// Whether other values are possible too. Agents know more models than they list.
    pub open: bool,
}

impl SettingOption {
    /// Returns the current value for people.
    #[must_use]
    pub fn shown(&self) -> &str {
        let label = |id: &String| {
            self.choices.iter().find(|choice| choice.id == *id).map(|choice| choice.label.as_str())
        };
        self.current.as_ref().map_or("the agent's default", |id| {
            label(id).filter(|label| !label.is_empty()).unwrap_or(id)
        })
    }

    /// Returns the choices for off and on, if the setting has only these two.
    #[must_use]
    pub fn toggle(&self) -> Option<(&DescriptorChoice, &DescriptorChoice)> {
        let off = |choice: &DescriptorChoice| {
            matches!(choice.id.as_str(), "off" | "none" | "disabled" | "false")
        };
        match self.choices.as_slice() {
            [a, b] if self.setting == Setting::Effort && off(a) != off(b) => {
                Some(if off(a) { (a, b) } else { (b, a) })
            }
            _ => None,
        }
    }
}

impl ChannelContext {
    /// Returns the setting that selects the backend.
    pub(crate) async fn backend_option(
        &self,
        lane: &Lane,
        settings: &LaneSettings,
        name: &str,
    ) -> SettingOption {
        let chosen =
            self.deps.workspace.state.bindings.active_backend(lane).await.as_deref() == Some(name);
        SettingOption {
            setting: Setting::Backend,
            current: Some(name.to_owned()),
            chosen,
            choices: self.offered(lane, settings),
            open: false,
        }
    }

    /// Returns the settings that the backend of a lane supports. `own` has people's choices.
    pub(crate) fn options(
        &self,
        settings: &LaneSettings,
        descriptor: &Descriptor,
        now: &EffectiveSettings,
        own: &BTreeMap<String, String>,
    ) -> Vec<SettingOption> {
        let option = |setting: Setting, current: Option<String>, choices: Vec<DescriptorChoice>| {
            SettingOption {
                setting,
                current,
                chosen: own.contains_key(setting.name()),
                choices,
                open: setting == Setting::Model,
            }
        };
        let mut options = Vec::new();
        if descriptor.has(Feature::Model) {
            options.push(option(Setting::Model, now.model.clone(), descriptor.models.clone()));
        }
        if descriptor.has(Feature::Effort) {
            options.push(option(Setting::Effort, now.effort.clone(), descriptor.efforts.clone()));
        }
        options.push(option(
            Setting::Safety,
            Some(safety_word(now.safety).to_owned()),
            levels(now.ceiling),
        ));
        if descriptor.has(Feature::Plan) {
            let mode = if now.mode == Mode::Plan { "plan" } else { "build" };
            options.push(option(
                Setting::Mode,
                Some(mode.to_owned()),
                modes(planning(&self.deps.choices, settings)),
            ));
        }
        options
    }
}

/// Returns the safety levels up to a ceiling.
pub(super) fn levels(ceiling: Safety) -> Vec<DescriptorChoice> {
    let label = |safety: Safety| match safety {
        Safety::Default => "Ask before changes",
        Safety::Edit => "Edit files",
        Safety::Danger => "Everything without asking",
    };
    let allowed = LEVELS.into_iter().filter(|safety| *safety <= ceiling);
    allowed
        .map(|safety| DescriptorChoice {
            id: safety_word(safety).to_owned(),
            label: label(safety).to_owned(),
        })
        .collect()
}

/// Returns the modes that people may choose. With `planning`, only the mode for planning.
pub(super) fn modes(planning: bool) -> Vec<DescriptorChoice> {
    let all = [("build", "Build"), ("plan", "Plan only")];
    let allowed = all.into_iter().filter(|(id, _)| !planning || *id == "plan");
    allowed
        .map(|(id, label)| DescriptorChoice { id: id.to_owned(), label: label.to_owned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinking(ids: &[&str]) -> SettingOption {
        let choices = ids
            .iter()
            .map(|id| DescriptorChoice { id: (*id).to_owned(), label: id.to_uppercase() })
            .collect();
        SettingOption {
            setting: Setting::Effort,
            current: None,
            chosen: false,
            choices,
            open: false,
        }
    }

    #[test]
    fn only_on_and_off_are_a_toggle() {
        let of =
            |ids: &[&str]| thinking(ids).toggle().map(|(off, on)| (off.id.clone(), on.id.clone()));
        assert_eq!(of(&["on", "off"]), Some(("off".to_owned(), "on".to_owned())));
        assert_eq!(of(&["none", "high"]), Some(("none".to_owned(), "high".to_owned())));
        assert_eq!(
            (of(&["low", "high"]), of(&["off", "low", "high"]), of(&[])),
            (None, None, None)
        );
    }

    #[test]
    fn the_current_value_is_shown_by_its_label_or_its_id() {
        let mut option = thinking(&["low"]);
        assert_eq!(option.shown(), "the agent's default");
        option.current = Some("low".to_owned());
        assert_eq!(option.shown(), "LOW");
        option.current = Some("other".to_owned());
        assert_eq!(option.shown(), "other");
    }

    #[test]
    fn choices_above_the_ceiling_are_not_offered() {
        let ids = |choices: Vec<DescriptorChoice>| {
            choices.into_iter().map(|choice| choice.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(levels(Safety::Edit)), ["ask", "edit"]);
        assert_eq!(
            (ids(modes(true)), ids(modes(false))),
            (vec!["plan".to_owned()], vec!["build".to_owned(), "plan".to_owned()])
        );
    }
}
