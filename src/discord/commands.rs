//! The slash commands: what they are, and registering them when they changed.
//!
//! Discord allows 200 command creations a day, so nothing is sent when nothing changed.

use serde_json::{Value, json};
use tracing::{info, warn};

use super::api::Api;
use super::rest::{Patience, RestError};

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Ask,
    New,
    Reset,
    Stop,
    Steer,
}

/// Returns what a command of this name does.
pub(super) fn verb(name: &str, alias: Option<&str>) -> Option<Verb> {
    match (name, alias) {
        ("ask", _) => Some(Verb::Ask),
        ("new", _) => Some(Verb::New),
        ("reset", _) => Some(Verb::Reset),
        ("stop", _) => Some(Verb::Stop),
        ("steer", _) => Some(Verb::Steer),
        (_, Some(alias)) if name == alias => Some(Verb::Ask),
        (_, Some(alias)) if name.strip_suffix("-reset") == Some(alias) => Some(Verb::Reset),
        _ => None,
    }
}

/// Registers the commands, all at once, if they are not as they should be. A failure is logged: mentions work without.
pub(super) async fn register(api: &Api, application: u64, alias: Option<&str>, patience: Patience) {
    match try_register(api, application, alias, patience).await {
        Ok(true) => info!("registered the slash commands"),
        Ok(false) => {}
        Err(error) => warn!(%error, "cannot register the slash commands; mentions work without them"),
    }
}

async fn try_register(api: &Api, application: u64, alias: Option<&str>, patience: Patience) -> Result<bool, RestError> {
    let wanted = wanted(alias);
    let found = api.commands(application, patience).await?;
    if same(&wanted, &found) {
        return Ok(false);
    }
    api.put_commands(application, Value::Array(wanted), patience).await?;
    Ok(true)
}

fn wanted(alias: Option<&str>) -> Vec<Value> {
    let ask = |name: &str| {
        json!({"type": 1, "name": name, "description": "Ask the agent", "options": [
            {"type": 3, "name": "prompt", "description": "What the agent should do", "required": true},
        ]})
    };
    let new = json!({"type": 1, "name": "new", "description": "Begin a new conversation in a thread of its own", "options": [
        {"type": 3, "name": "prompt", "description": "What the agent should do there", "required": true},
    ]});
    let plain = |name: &str, description: &str| json!({"type": 1, "name": name, "description": description, "options": []});
    let reset = "Forget this channel's conversation and begin a new one";
    let steer = json!({"type": 1, "name": "steer", "description": "Tell the agent something while it works in this channel", "options": [
        {"type": 3, "name": "message", "description": "What it should know", "required": true},
    ]});
    let mut commands = vec![ask("ask"), new, plain("reset", reset), plain("stop", "Stop what the agent is doing in this channel"), steer];
    if let Some(alias) = alias {
        commands.extend([ask(alias), plain(&format!("{alias}-reset"), reset)]);
    }
    commands
}

/// Discord adds fields of its own and leaves out empty lists: compare only what we set.
fn same(wanted: &[Value], found: &Value) -> bool {
    let essence = |command: &Value| {
        let options: Vec<Value> = command["options"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|option| json!([option["type"], option["name"], option["description"], option["required"].as_bool().unwrap_or(false)]))
            .collect();
        json!([command["name"], command["type"].as_u64().unwrap_or(1), command["description"], options]).to_string()
    };
    let sorted = |commands: &[Value]| {
        let mut all: Vec<String> = commands.iter().map(essence).collect();
        all.sort();
        all
    };
    found.as_array().is_some_and(|found| sorted(wanted) == sorted(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_discord_adds_is_no_change_and_a_new_description_is() {
        let mut found = json!(wanted(Some("claude")));
        for command in found.as_array_mut().expect("an array") {
            command["id"] = json!("1");
            command["version"] = json!("2");
            if command["options"].as_array().is_some_and(Vec::is_empty) {
                command.as_object_mut().expect("an object").remove("options");
            }
        }
        found.as_array_mut().expect("an array").reverse();
        assert!(same(&wanted(Some("claude")), &found));
        assert!(!same(&wanted(None), &found));
        found[0]["description"] = json!("other");
        assert!(!same(&wanted(Some("claude")), &found));
    }

    #[test]
    fn an_alias_is_a_second_name() {
        assert_eq!(verb("claude", Some("claude")), Some(Verb::Ask));
        assert_eq!(verb("claude-reset", Some("claude")), Some(Verb::Reset));
        assert_eq!(verb("claude", None), None);
        assert_eq!(verb("stop", None), Some(Verb::Stop));
    }
}
