//! Users' interactions with buttons, menus and modal windows, and checks of the components.

use std::time::Instant;

use serde_json::{Value, json};

use super::rest::Outcome;
use super::state::State;
use super::{LocalDiscord, rest};

/// A label and a value.
pub type Labelled = (String, String);

impl LocalDiscord {
    /// A user presses the button with this label. Returns the id of the interaction.
    pub fn press(&self, message: u64, user: u64, label: &str) -> u64 {
        let custom_id = self
            .button(message, label)
            .unwrap_or_else(|| panic!("no button {label:?} below {message}\n{}", self.story()));
        self.press_id(message, user, &custom_id)
    }

    /// A user presses a button that may no longer exist in the message.
    pub fn press_id(&self, message: u64, user: u64, custom_id: &str) -> u64 {
        self.interact(
            message,
            user,
            3,
            &json!({"component_type": 2, "custom_id": custom_id, "id": 2}),
        )
    }

    /// A user selects options of the only menu.
    pub fn choose(&self, message: u64, user: u64, options: &[&str]) -> u64 {
        self.choose_of(message, user, |_| true, options)
    }

    /// A user selects an option of the menu with this id.
    pub fn choose_in(&self, message: u64, user: u64, menu: &str, option: &str) -> u64 {
        self.choose_of(message, user, |id| id == menu, &[option])
    }

    /// Returns the options of a menu as pairs of label and value, and the selected value.
    pub fn menu(&self, message: u64, id: &str) -> Option<(Vec<Labelled>, Option<String>)> {
        let components = self.world.with(|state| state.messages[&message].components.clone());
        let menu = parts(&components).find(|part| part["type"] == 3 && part["custom_id"] == id)?;
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let options = menu["options"].as_array().expect("options").iter();
        let set = options
            .clone()
            .find(|option| option["default"] == true)
            .map(|option| text(&option["value"]));
        Some((
            options.map(|option| (text(&option["label"]), text(&option["value"]))).collect(),
            set,
        ))
    }

    fn choose_of(
        &self,
        message: u64,
        user: u64,
        id: impl Fn(&str) -> bool,
        options: &[&str],
    ) -> u64 {
        let components = self.world.with(|state| state.messages[&message].components.clone());
        let wanted =
            |part: &&Value| part["type"] == 3 && part["custom_id"].as_str().is_some_and(&id);
        let menu = parts(&components)
            .find(wanted)
            .unwrap_or_else(|| panic!("no menu below {message}: {components}"));
        let value = |label: &&str| {
            let options = menu["options"].as_array().expect("options");
            options
                .iter()
                .find(|option| option["label"] == **label)
                .unwrap_or_else(|| panic!("no option {label:?}"))["value"]
                .clone()
        };
        let values: Vec<Value> = options.iter().map(value).collect();
        let data =
            json!({"component_type": 3, "custom_id": menu["custom_id"], "values": values, "id": 2});
        self.interact(message, user, 3, &data)
    }

    /// A user submits the modal window that a press opened. Returns the id of the new interaction.
    pub async fn fill(&self, press: u64, user: u64, text: &str) -> u64 {
        let window = self.wait_for("a window", |local| local.interaction(press).window).await;
        let message = self.interaction(press).message.expect("the press belongs to a message");
        let input = &window["components"][0]["components"][0];
        let filled = json!({"type": 1, "id": 1, "components": [{"type": 4, "id": 2, "custom_id": input["custom_id"], "value": text}]});
        self.interact(
            message,
            user,
            5,
            &json!({"custom_id": window["custom_id"], "components": [filled]}),
        )
    }

    /// Returns the id of the button with this label.
    pub fn button(&self, message: u64, label: &str) -> Option<String> {
        let components = self.world.with(|state| state.messages[&message].components.clone());
        parts(&components)
            .find(|part| part["label"] == label)
            .and_then(|part| part["custom_id"].as_str())
            .map(str::to_owned)
    }

    /// Returns whether a message has the buttons of a question.
    pub fn asks(&self, message: u64) -> bool {
        let components = self.world.with(|state| state.messages[&message].components.clone());
        parts(&components)
            .any(|part| part["custom_id"].as_str().is_some_and(|id| id.starts_with("ask:")))
    }

    /// Returns the labels of a message's buttons.
    pub fn buttons(&self, message: u64) -> Vec<String> {
        let components = self.world.with(|state| state.messages[&message].components.clone());
        parts(&components).filter_map(|part| part["label"].as_str()).map(str::to_owned).collect()
    }

    fn interact(&self, message: u64, user: u64, kind: u8, data: &Value) -> u64 {
        let id = self.world.with(|state| {
            let of = state.messages[&message].clone();
            let mut event =
                rest::interaction_json(state, of.channel, user, kind, data, Some(message));
            event["message"] = state.message_json(&of, false);
            state.dispatch("INTERACTION_CREATE", &event);
            event["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")
        });
        self.world.notify();
        id
    }
}

fn parts(components: &Value) -> impl Iterator<Item = &Value> {
    components
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|row| row["components"].as_array().into_iter().flatten())
}

/// Lists where components violate Discord's rules.
pub(super) fn faults(components: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if components.as_array().is_some_and(|rows| rows.len() > 5) {
        found.push("more than five rows of components".to_owned());
    }
    let mut ids: Vec<&str> =
        parts(components).filter_map(|part| part["custom_id"].as_str()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() < all {
        found.push("two components have the same custom_id".to_owned());
    }
    for row in components.as_array().into_iter().flatten() {
        let row = row["components"].as_array().cloned().unwrap_or_default();
        if row.len() > 1 && row.iter().any(|part| part["type"] == 3) {
            found.push("a menu needs a row of its own".to_owned());
        }
        for part in row.iter().filter(|part| part["type"] == 2) {
            let link = part["style"] == 5;
            if part["label"].as_str().is_none_or(str::is_empty)
                || part["url"].is_string() != link
                || part["custom_id"].is_string() == link
            {
                found.push(format!("not a valid button: {part}"));
            }
        }
        for part in row.iter().filter(|part| part["type"] == 3) {
            let options = part["options"].as_array().map_or(0, Vec::len) as u64;
            if part["max_values"].as_u64().is_some_and(|most| most > options) {
                found.push(format!("a menu of {options} options allows more selections"));
            }
        }
    }
    found
}

/// Applies the bot's answer to a press or a selection: nothing, a changed message or a modal
/// window.
pub(super) fn acknowledge(state: &mut State, at: usize, body: &Value) -> Outcome {
    let kind = body["type"].as_u64().unwrap_or(0);
    let Some(message) = state.interactions[at].message else {
        state.violations.push(format!("callback type {kind} is for buttons, menus and windows"));
        return (400, json!({"code": 50035, "message": "Invalid Form Body"}));
    };
    state.interactions[at].acknowledged = Some((Instant::now(), kind));
    match kind {
        7 => {
            let (text, components) = (
                body["data"]["content"].as_str().unwrap_or_default().to_owned(),
                body["data"]["components"].clone(),
            );
            rest::edit(state, Some(message), &text, &components);
        }
        9 if state.interactions[at].kind == 3 => {
            state.interactions[at].window = Some(body["data"].clone())
        }
        9 => state.violations.push("a window cannot follow a window".to_owned()),
        _ => {}
    }
    (204, Value::Null)
}
