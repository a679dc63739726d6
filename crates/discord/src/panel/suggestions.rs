//! Suggestions for an option that is being typed.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::commands::{PanelAction, Verb};
use super::scope::ChannelScope;
use crate::wire::InteractionData;
use aetheel_dispatch::{CommandAction, Setting, conversation_line};
use aetheel_model::agent::descriptor::DescriptorChoice;
use aetheel_model::plain::short_line;

const MAX_SUGGESTIONS: usize = 25;
/// Maximum number of characters of the name and of the value of a suggestion.
const MAX_SUGGESTION_CHARS: usize = 100;
/// How long an agent may take to list models or sessions. The suggestions must arrive within three
/// seconds.
const LISTING_TIMEOUT: Duration = Duration::from_millis(1_100);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct TypedOption {
    pub(super) command: String,
    name: String,
    text: String,
    /// The agent that the command names in another option.
    agent: Option<String>,
}

/// Returns the option that is being typed, or `None` if `data` contains none.
pub(super) fn typed_option(data: &InteractionData) -> Option<TypedOption> {
    let typed = data.options.iter().find(|option| option.focused)?;
    let agent = data
        .options
        .iter()
        .find(|option| !option.focused && matches!(option.name.as_str(), "agent" | "backend"));
    Some(TypedOption {
        agent: agent.and_then(|option| option.value.as_str()).map(str::to_owned),
        command: data.name.clone(),
        name: typed.name.clone(),
        text: typed.value.as_str().unwrap_or_default().trim().to_owned(),
    })
}

/// Returns the choices that match the typed text, in Discord's format.
pub(super) async fn choices(scope: &ChannelScope, verb: Verb, typed: &TypedOption) -> Vec<Value> {
    let all: Vec<DescriptorChoice> = match verb {
        Verb::Ask | Verb::New if typed.name == "agent" => offered(scope, Setting::Backend).await,
        Verb::Ask | Verb::New => scope.models_of(typed.agent.as_deref(), LISTING_TIMEOUT).await,
        Verb::Panel(PanelAction::Shared(CommandAction::Settings))
            if typed.name == Setting::Model.argument() =>
        {
            scope.models_of(typed.agent.as_deref(), LISTING_TIMEOUT).await
        }
        Verb::Panel(PanelAction::Shared(CommandAction::Settings)) => {
            let named = |setting: &Setting| setting.argument() == typed.name;
            match Setting::ALL.into_iter().find(named) {
                Some(setting) => offered(scope, setting).await,
                None => Vec::new(),
            }
        }
        Verb::Panel(PanelAction::Shared(CommandAction::Status)) if !scope.asker.owner => Vec::new(),
        Verb::Panel(PanelAction::Shared(CommandAction::Status | CommandAction::Project)) => {
            offered(scope, Setting::Backend).await
        }
        Verb::Panel(PanelAction::Shared(CommandAction::Sessions)) => {
            let now = Timestamp::now();
            let found = scope
                .conversations(LISTING_TIMEOUT)
                .await
                .all
                .into_iter()
                .filter(|known| typed.name == "fork" || !known.current);
            found
                .map(|known| DescriptorChoice {
                    label: conversation_line(&known, now),
                    id: known.id.to_string(),
                })
                .collect()
        }
        _ => Vec::new(),
    };
    fitting(all, &typed.text)
}

async fn offered(scope: &ChannelScope, setting: Setting) -> Vec<DescriptorChoice> {
    let option = scope.view().await.options.into_iter().find(|option| option.setting == setting);
    option.map(|option| option.choices).unwrap_or_default()
}

fn fitting(all: Vec<DescriptorChoice>, typed: &str) -> Vec<Value> {
    let typed = typed.to_lowercase();
    let fits = |choice: &DescriptorChoice| {
        choice.id.to_lowercase().contains(&typed) || choice.label.to_lowercase().contains(&typed)
    };
    let short =
        |choice: &DescriptorChoice| (1..=MAX_SUGGESTION_CHARS).contains(&choice.id.chars().count());
    let name = |choice: &DescriptorChoice| {
        let label = short_line(&choice.label, MAX_SUGGESTION_CHARS);
        if label.is_empty() { choice.id.clone() } else { label }
    };
    all.iter()
        .filter(|choice| fits(choice) && short(choice))
        .take(MAX_SUGGESTIONS)
        .map(|choice| json!({"name": name(choice), "value": choice.id}))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;

    use super::*;

    #[test]
    fn suggestions_match_ids_and_labels_and_are_at_most_25() {
        let choice =
            |id: &str, label: &str| DescriptorChoice { id: id.to_owned(), label: label.to_owned() };
        let all = vec![
            choice("opus", "Opus 5"),
            choice("sonnet", ""),
            choice(&"x".repeat(101), "long"),
            choice("y", &"z".repeat(200)),
        ];
        let ids = |typed: &str| {
            fitting(all.clone(), typed)
                .iter()
                .map(|choice| choice["value"].as_str().unwrap_or("").to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (ids("OPUS"), ids("5"), ids("nothing")),
            (vec!["opus".to_owned()], vec!["opus".to_owned()], vec![])
        );
        assert_eq!(ids(""), ["opus", "sonnet", "y"]);
        assert_eq!(
            fitting(all, "")[2]["name"].as_str().map(|name| name.chars().count()),
            Some(100)
        );
        assert_eq!(fitting(vec![choice("a", "A"); 60], "").len(), 25);
    }

    #[test]
    fn the_option_that_is_being_typed_is_read() {
        let data = |options: Value| {
            InteractionData::deserialize(json!({"name": "model", "options": options}))
                .expect("read")
        };
        let value = json!([{"name": "name", "type": 3, "value": " op", "focused": true}]);
        let typed = TypedOption {
            command: "model".to_owned(),
            name: "name".to_owned(),
            text: "op".to_owned(),
            agent: None,
        };
        assert_eq!(typed_option(&data(value)), Some(typed));
        assert_eq!(typed_option(&data(json!([]))), None);
    }
}
