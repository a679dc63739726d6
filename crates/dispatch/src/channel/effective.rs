//! The effective settings of a lane, from the operator's settings for all lanes, the operator's
//! settings for the channel, and people's choices. Pure.
//!
//! The operator's settings limit people's choices. Settings that a backend does not support are
//! left out.

use std::collections::BTreeMap;

use crate::deps::Choices;
use aetheel_model::agent::descriptor::{DescriptorChoice, Feature};
use aetheel_model::agent::{AllowedTools, Descriptor, Mode, Safety};
use aetheel_model::event::AgentRights;
use aetheel_model::host_tool::HostToolKind;
use aetheel_store::workspace::LaneSettings;

/// The settings in force for a lane and a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveSettings {
    /// The model; `None` for the agent's default.
    pub model: Option<String>,
    /// The id of the level of thinking, from the descriptor; `None` for the agent's default.
    pub effort: Option<String>,
    /// The level up to which the agent acts without asking. At most [`EffectiveSettings::ceiling`].
    pub safety: Safety,
    /// The mode of the agent. `Build` if the backend has no mode for planning.
    pub mode: Mode,
    /// Whether nothing may be changed, even if the backend has no mode for planning.
    pub planning: bool,
    /// The highest safety level that people may choose here.
    pub ceiling: Safety,
    /// Warnings for the operator about settings that have no effect.
    pub warnings: Vec<String>,
}

/// The names of people's choices in a lane's binding.
pub(super) mod names {
    pub(crate) const MODEL: &str = "model";
    pub(crate) const EFFORT: &str = "effort";
    pub(crate) const SAFETY: &str = "safety";
    pub(crate) const MODE: &str = "mode";
    pub(crate) const ALL: [&str; 4] = [MODEL, EFFORT, SAFETY, MODE];
}

/// Computes the effective settings. `own` has people's choices for the lane and the backend, `lane`
/// the operator's settings for the lane, and `choices` the operator's settings for all lanes.
#[must_use]
pub fn effective_settings(
    choices: &Choices,
    lane: &LaneSettings,
    own: &BTreeMap<String, String>,
    descriptor: &Descriptor,
) -> EffectiveSettings {
    let mut warnings = Vec::new();
    let default = descriptor.name == choices.backend;
    let meant = lane.backend.as_ref().map_or(default, |backend| *backend == descriptor.name);
    let chosen = |name: &str, lane: &Option<String>, all: &Option<String>| {
        let lane = lane.clone().filter(|_| meant);
        own.get(name).cloned().or(lane).or_else(|| all.clone().filter(|_| default))
    };
    let model = chosen(names::MODEL, &lane.model, &choices.model)
        .filter(|_| descriptor.has(Feature::Model));
    let wanted = chosen(names::EFFORT, &lane.effort, &choices.effort)
        .filter(|_| descriptor.has(Feature::Effort));
    let effort = wanted.as_deref().and_then(|wanted| effort_id(descriptor, wanted));
    if let (Some(wanted), None) = (&wanted, &effort) {
        warnings.push(format!(
            "backend `{}` has no level of thinking {wanted:?}, only {}; it is ignored",
            descriptor.name,
            id_list(&descriptor.efforts)
        ));
    }
    let unkept =
        choices.allowed_tools != AllowedTools::All && !descriptor.has(Feature::AllowedTools);
    let ceiling = lane.safety.map_or(choices.safety, |safety| safety.min(choices.safety));
    let ceiling = if unkept { Safety::Default } else { ceiling };
    if unkept {
        warnings.push(format!(
            "`{}` cannot limit its own tools, so Aetheel does it: the agent asks before each change, and anything not in ALLOWED_TOOLS is refused; set ALLOWED_TOOLS=* or choose another backend",
            descriptor.name
        ));
    }
    if lane.safety.is_some_and(|safety| safety > choices.safety) {
        warnings.push(format!(
            "channels.md asks for safety `{}`, PERMISSION_MODE allows `{}`",
            safety_word(lane.safety.unwrap_or(ceiling)),
            safety_word(ceiling)
        ));
    }
    let excluded = |kind: &&HostToolKind| !choices.host_tools.contains(kind);
    for kind in lane.host_tools.iter().flatten().filter(excluded) {
        warnings.push(format!(
            "channels.md names the host tool `{}`, HOST_TOOLS does not; it is not offered",
            kind.name()
        ));
    }
    let safety = own
        .get(names::SAFETY)
        .and_then(|text| parse_safety(text))
        .map_or(ceiling, |safety| safety.min(ceiling));
    let plan = planning(choices, lane) || own.get(names::MODE).is_some_and(|mode| mode == "plan");
    let (mode, safety) = match (plan, descriptor.has(Feature::Plan)) {
        // In their mode for planning, agents differ in the actions that they take without asking.
        // At this level they always ask.
        _ if unkept => (Mode::Build, Safety::Default),
        (true, true) => (Mode::Plan, safety),
        // Only planning is allowed, so the agent must ask before each change.
        (true, false) => (Mode::Build, Safety::Default),
        (false, _) => (Mode::Build, safety),
    };
    EffectiveSettings { model, effort, safety, mode, planning: plan, ceiling, warnings }
}

impl EffectiveSettings {
    /// Lowers the settings to the rights of a turn in which an agent asked for this one.
    pub(crate) fn limit_to(&mut self, rights: &AgentRights, has_plan: bool) {
        self.safety = self.safety.min(rights.safety);
        if rights.planning && !self.planning {
            self.planning = true;
            match has_plan {
                true => self.mode = Mode::Plan,
                false => self.safety = Safety::Default,
            }
        }
    }
}

/// Returns the tools of the host that a turn in a lane is offered. `rights` are those of the turn in
/// which an agent asked for it.
#[must_use]
pub(crate) fn offered_tools(
    choices: &Choices,
    lane: &LaneSettings,
    rights: Option<&AgentRights>,
) -> Vec<HostToolKind> {
    let is_named = |kind: &HostToolKind| match &lane.host_tools {
        Some(named) => named.contains(kind),
        None => !kind.is_opt_in(),
    };
    let had = |kind: &HostToolKind| {
        rights.is_none_or(|rights| rights.tools.iter().any(|name| name == kind.name()))
    };
    choices.host_tools.iter().copied().filter(|kind| is_named(kind) && had(kind)).collect()
}

/// Returns whether the operator only allows planning.
pub(super) fn planning(choices: &Choices, lane: &LaneSettings) -> bool {
    choices.mode == Mode::Plan || lane.mode == Some(Mode::Plan)
}

/// Returns the id of a level of thinking that is given by its id or its label.
pub(super) fn effort_id(descriptor: &Descriptor, wanted: &str) -> Option<String> {
    let fits = |choice: &&DescriptorChoice| {
        choice.id.eq_ignore_ascii_case(wanted) || choice.label.eq_ignore_ascii_case(wanted)
    };
    descriptor.efforts.iter().find(fits).map(|choice| choice.id.clone())
}

/// Parses the word of a safety level. `default` is the former word for `ask`.
pub(super) fn parse_safety(word: &str) -> Option<Safety> {
    LEVELS
        .into_iter()
        .find(|safety| safety_word(*safety) == word)
        .or_else(|| (word == "default").then_some(Safety::Default))
}

/// All levels, the strictest first.
pub(super) const LEVELS: [Safety; 3] = [Safety::Default, Safety::Edit, Safety::Danger];

pub(super) fn safety_word(safety: Safety) -> &'static str {
    match safety {
        Safety::Default => "ask",
        Safety::Edit => "edit",
        Safety::Danger => "danger",
    }
}

/// Formats the ids of choices as a list for people.
pub(super) fn id_list(choices: &[DescriptorChoice]) -> String {
    let ids: Vec<String> = choices.iter().map(|choice| format!("`{}`", choice.id)).collect();
    ids.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::choice::CollisionMode;
    use aetheel_model::policy::PolicyCeiling;

    fn choices() -> Choices {
        Choices {
            backend: "a".into(),
            backends: vec![],
            model: Some("all".into()),
            effort: Some("low".into()),
            safety: Safety::Edit,
            mode: Mode::Build,
            allowed_tools: AllowedTools::All,
            policy_allow: PolicyCeiling::All,
            host_tools: Vec::new(),
            recap_on_switch: true,
            waits_for_limits: true,
            collisions: CollisionMode::Warn,
            time_zone: jiff::tz::TimeZone::UTC,
            max_turns: 25,
            project_roots: vec![],
            prompts_per_minute: None,
            prompt_limit: 1,
            attachments_max: 1,
            attachment_limit: 1,
            approvers: Vec::new(),
        }
    }

    fn descriptor(name: &str, features: &str) -> Descriptor {
        let json = format!(
            r#"{{"name":"{name}","version":"1","programs":[{{"name":"x"}}],"features":{features},
            "efforts":[{{"id":"low","label":"Low"}},{{"id":"high","label":"Very high"}}]}}"#
        );
        Descriptor::parse(&json).expect("valid")
    }

    const ALL: &str = r#"["model","effort","plan"]"#;

    fn own(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_backend_that_cannot_limit_its_tools_asks_before_each_change() {
        let choices = Choices {
            safety: Safety::Danger,
            allowed_tools: AllowedTools::Only(vec!["Read".into()]),
            ..choices()
        };
        let chosen = own(&[("safety", "danger"), ("mode", "plan")]);
        let lane = LaneSettings { safety: Some(Safety::Danger), ..LaneSettings::default() };
        let found = effective_settings(&choices, &lane, &chosen, &descriptor("a", ALL));
        assert_eq!(
            (found.safety, found.mode, found.ceiling),
            (Safety::Default, Mode::Build, Safety::Default)
        );
        assert!(found.warnings[0].contains("cannot limit its own tools"), "{found:?}");
        let able = descriptor("a", r#"["model","effort","plan","allowed-tools"]"#);
        assert_eq!(
            effective_settings(&choices, &LaneSettings::default(), &own(&[]), &able).safety,
            Safety::Danger
        );
        let all = Choices { allowed_tools: AllowedTools::All, ..choices };
        assert_eq!(
            effective_settings(&all, &LaneSettings::default(), &own(&[]), &descriptor("a", ALL))
                .safety,
            Safety::Danger
        );
    }

    #[test]
    fn peoples_choices_override_the_channel_and_the_channel_overrides_the_defaults() {
        let lane = LaneSettings {
            model: Some("lane".into()),
            effort: Some("high".into()),
            ..LaneSettings::default()
        };
        let of = |lane: &LaneSettings, own: &BTreeMap<String, String>| {
            let found = effective_settings(&choices(), lane, own, &descriptor("a", ALL));
            (found.model.unwrap(), found.effort.unwrap())
        };
        assert_eq!(of(&LaneSettings::default(), &own(&[])), ("all".to_owned(), "low".to_owned()));
        assert_eq!(of(&lane, &own(&[])), ("lane".to_owned(), "high".to_owned()));
        assert_eq!(
            of(&lane, &own(&[("model", "mine"), ("effort", "Very High")])),
            ("mine".to_owned(), "high".to_owned())
        );
    }

    #[test]
    fn a_model_applies_only_to_its_backend() {
        let b = descriptor("b", ALL);
        let mut lane = LaneSettings { model: Some("lane".into()), ..LaneSettings::default() };
        assert_eq!(
            effective_settings(&choices(), &lane, &own(&[]), &b).model,
            None,
            "both models are meant for the default backend"
        );
        lane.backend = Some("b".into());
        assert_eq!(
            effective_settings(&choices(), &lane, &own(&[]), &b).model.as_deref(),
            Some("lane")
        );
        assert_eq!(
            effective_settings(&choices(), &lane, &own(&[]), &descriptor("a", ALL))
                .model
                .as_deref(),
            Some("all")
        );
    }

    #[test]
    fn safety_never_exceeds_the_operators_ceiling() {
        let of = |lane: Option<Safety>, mine: &str| {
            let lane = LaneSettings { safety: lane, ..LaneSettings::default() };
            let found = effective_settings(
                &choices(),
                &lane,
                &own(&[("safety", mine)]),
                &descriptor("a", ALL),
            );
            (found.safety, found.ceiling, found.warnings.len())
        };
        assert_eq!(of(None, "danger"), (Safety::Edit, Safety::Edit, 0));
        assert_eq!(of(Some(Safety::Danger), "danger"), (Safety::Edit, Safety::Edit, 1));
        assert_eq!(of(Some(Safety::Default), "edit"), (Safety::Default, Safety::Default, 0));
        assert_eq!(of(None, "default"), (Safety::Default, Safety::Edit, 0));
        assert_eq!(of(None, "nonsense"), (Safety::Edit, Safety::Edit, 0));
    }

    #[test]
    fn planning_without_backend_support_uses_the_strictest_level() {
        let lane = LaneSettings { mode: Some(Mode::Plan), ..LaneSettings::default() };
        let of = |lane: &LaneSettings, mine: &[(&str, &str)], features: &str| {
            let found =
                effective_settings(&choices(), lane, &own(mine), &descriptor("a", features));
            (found.mode, found.safety, found.planning)
        };
        assert_eq!(
            of(&lane, &[("mode", "build")], ALL),
            (Mode::Plan, Safety::Edit, true),
            "the operator wants plans only"
        );
        assert_eq!(of(&lane, &[], "[]"), (Mode::Build, Safety::Default, true));
        assert_eq!(
            of(&LaneSettings::default(), &[("mode", "plan")], ALL),
            (Mode::Plan, Safety::Edit, true)
        );
        assert_eq!(of(&LaneSettings::default(), &[], ALL), (Mode::Build, Safety::Edit, false));
    }

    #[test]
    fn a_lane_has_the_tools_that_it_names_up_to_those_of_the_operator_and_of_the_asking_turn() {
        use HostToolKind::{Ask, Claim, HandOff, PostFile, Remind};
        let all = Choices { host_tools: HostToolKind::ALL.into(), ..choices() };
        let usual = LaneSettings::default();
        assert_eq!(offered_tools(&all, &usual, None), [PostFile, Ask, Claim]);
        let lane = LaneSettings { host_tools: Some(vec![Remind, HandOff]), ..usual };
        assert_eq!(offered_tools(&all, &lane, None), [Remind, HandOff]);
        let few = Choices { host_tools: vec![Ask, Remind], ..choices() };
        assert_eq!(offered_tools(&few, &lane, None), [Remind]);
        let found = effective_settings(&few, &lane, &own(&[]), &descriptor("a", ALL));
        assert!(found.warnings[0].contains("`aetheel_handoff`"), "{found:?}");
        let rights = AgentRights {
            safety: Safety::Default,
            planning: true,
            tools: vec!["aetheel_handoff".to_owned()],
        };
        assert_eq!(offered_tools(&all, &lane, Some(&rights)), [HandOff]);
        let mut found = effective_settings(&all, &lane, &own(&[]), &descriptor("a", ALL));
        found.limit_to(&rights, true);
        assert_eq!((found.safety, found.mode), (Safety::Default, Mode::Plan));
    }

    #[test]
    fn unsupported_settings_are_left_out_and_an_unknown_effort_is_reported() {
        let found = effective_settings(
            &choices(),
            &LaneSettings::default(),
            &own(&[]),
            &descriptor("a", "[]"),
        );
        assert_eq!((found.model, found.effort, found.warnings), (None, None, vec![]));
        let found = effective_settings(
            &choices(),
            &LaneSettings::default(),
            &own(&[("effort", "extreme")]),
            &descriptor("a", ALL),
        );
        assert_eq!(found.effort, None);
        assert!(found.warnings[0].contains("`low`, `high`"), "{:?}", found.warnings);
    }
}
