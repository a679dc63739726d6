//! The menus of `/settings`, with the choices that the active backend supports. Pure.
//!
//! A menu contains everything about its choices, so that it works after a restart.

use serde_json::{Value, json};

use super::{Response, page};
use crate::button::{self, Button, ButtonStyle};
use aetheel_dispatch::{LaneStatus, SettingOption};
use aetheel_model::agent::descriptor::DescriptorChoice;
use aetheel_model::plain::short_line;

/// The value that resets a setting.
pub(super) const UNSET: &str = "unset";
/// Maximum number of options of a menu, including the one that resets the setting.
const MAX_MENU_ITEMS: usize = 25;
const MAX_LABEL_CHARS: usize = 100;

pub(super) fn settings(view: &LaneStatus) -> Response {
    let mut lines = vec![format!(
        "Settings of this channel with **{}**; changes apply from the next message on.",
        page::escaped(&view.backend.label)
    )];
    let mut rows = Vec::new();
    for option in &view.options {
        match row(option) {
            Some(row) => rows.push(row),
            None if option.open => lines.push(format!(
                "Model: {}; `/settings model:` accepts any name that the agent knows.",
                page::escaped(option.shown())
            )),
            // This setting has no choices.
            None => {}
        }
    }
    Response {
        text: page::cut_to_page(&lines.join("\n")),
        private: true,
        components: Value::Array(rows),
    }
}

/// Returns the menu of a setting, or a button if the setting can only be on or off. Returns `None`
/// if the setting has no choices.
fn row(option: &SettingOption) -> Option<Value> {
    let button = |value| Button::Setting(option.setting, Some(value));
    if let Some((off, on)) = option.toggle() {
        let is_on = option.current.as_ref() == Some(&on.id);
        let (now, other) = if is_on { ("on", off) } else { ("off", on) };
        let label = match &option.current {
            Some(_) => format!("{}: {now}", option.setting.title()),
            None => format!("{}: {}", option.setting.title(), option.shown()),
        };
        let style = if is_on { ButtonStyle::Green } else { ButtonStyle::Grey };
        let mut buttons = vec![button(&other.id).show(&label, style)];
        if option.chosen {
            buttons.push(button(UNSET).show("Default", ButtonStyle::Grey));
        }
        return Some(button::row(buttons));
    }
    // Longer ids can only be chosen by the command of the setting.
    let mut choices: Vec<DescriptorChoice> = option
        .choices
        .iter()
        .filter(|choice| choice.id.chars().count() <= MAX_LABEL_CHARS)
        .cloned()
        .collect();
    if choices.is_empty() || (choices.len() < 2 && !option.open) {
        return None;
    }
    let current = option.current.as_ref().filter(|_| option.chosen);
    choices.truncate(MAX_MENU_ITEMS - 1);
    if let Some(current) = current.filter(|id| {
        id.chars().count() <= MAX_LABEL_CHARS && !choices.iter().any(|choice| choice.id == **id)
    }) {
        choices.truncate(MAX_MENU_ITEMS - 2);
        choices.push(DescriptorChoice { id: current.clone(), label: option.shown().to_owned() });
    }
    let usual =
        if option.chosen { "Default".to_owned() } else { format!("Default: {}", option.shown()) };
    let item = |value: &str, label: &str, is_set: bool| {
        let label = short_line(label, MAX_LABEL_CHARS);
        json!({"label": if label.is_empty() { value } else { &label }, "value": value, "default": is_set,
            "description": if value == UNSET { "the value set by the operator or the agent" } else { option.setting.title() }})
    };
    let mut options = vec![item(UNSET, &usual, current.is_none())];
    options.extend(
        choices.iter().map(|choice| item(&choice.id, &choice.label, current == Some(&choice.id))),
    );
    let id = Button::Setting(option.setting, None).to_string();
    Some(button::row(vec![json!({
        "type": 3, "custom_id": id, "options": options, "min_values": 1, "max_values": 1, "placeholder": option.setting.title(),
    })]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_dispatch::Setting;

    fn option(
        setting: Setting,
        ids: &[&str],
        current: Option<&str>,
        chosen: bool,
    ) -> SettingOption {
        let choices = ids
            .iter()
            .map(|id| DescriptorChoice { id: (*id).to_owned(), label: format!("The {id}") })
            .collect();
        SettingOption {
            setting,
            current: current.map(str::to_owned),
            chosen,
            choices,
            open: setting == Setting::Model,
        }
    }

    fn options(row: &Value) -> (Vec<&str>, Vec<&str>) {
        let options = || row["components"][0]["options"].as_array().into_iter().flatten();
        let value = |option: &'_ Value| option["value"].as_str().map(str::to_owned);
        let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        (
            options().filter_map(value).map(leak).collect(),
            options()
                .filter(|option| option["default"] == true)
                .filter_map(value)
                .map(leak)
                .collect(),
        )
    }

    #[test]
    fn the_current_choice_is_selected_and_the_default_can_be_restored() {
        let shown = row(&option(Setting::Model, &["a", "b"], Some("b"), true)).expect("a menu");
        assert_eq!(options(&shown), (vec!["unset", "a", "b"], vec!["b"]));
        let shown = row(&option(Setting::Model, &["a", "b"], Some("b"), false)).expect("a menu");
        assert_eq!(
            (options(&shown).1, shown["components"][0]["options"][0]["label"].as_str()),
            (vec!["unset"], Some("Default: The b"))
        );
        let shown = row(&option(Setting::Model, &["a"], Some("by hand"), true)).expect("a menu");
        assert_eq!(options(&shown), (vec!["unset", "a", "by hand"], vec!["by hand"]));
    }

    #[test]
    fn a_menu_has_at_most_25_options_and_always_the_current_choice() {
        let many: Vec<String> = (0..60).map(|number| format!("m{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let shown = row(&option(Setting::Model, &many, Some("m59"), true)).expect("a menu");
        let (values, set) = options(&shown);
        assert_eq!((values.len(), set), (25, vec!["m59"]));
    }

    #[test]
    fn on_and_off_are_a_button_and_settings_without_choice_are_left_out() {
        let shown =
            row(&option(Setting::Effort, &["off", "on"], Some("off"), true)).expect("a button");
        assert_eq!(shown["components"][0]["custom_id"], "set:thinking:on");
        assert_eq!(shown["components"][0]["label"], "Thinking: off");
        assert_eq!(row(&option(Setting::Safety, &["default"], Some("default"), false)), None);
        assert_eq!(row(&option(Setting::Model, &[], None, false)), None);
    }
}
