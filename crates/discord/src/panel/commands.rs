//! The slash commands as a table: their names, options, permissions and required features.
//! Registration, help and dispatch use it.
//!
//! Discord allows 200 command creations a day, so commands are only sent if they changed.

use serde_json::{Value, json};
use tracing::{info, warn};

use crate::api::Api;
use crate::api::endpoints::Endpoint;
use crate::rest::RestError;
use crate::setup::options::DiscordOptions;
use aetheel_dispatch::{ArgumentKind, Command, CommandAccess, CommandAction, CommandArgument};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Ask,
    New,
    Reset,
    Stop,
    Steer,
    Dashboard,
    /// Shows or changes something through the module `panel`.
    Panel(PanelAction),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PanelAction {
    /// A command that the console has, too.
    Shared(CommandAction),
    /// Shows the turns that agents asked for, or removes one.
    Schedules,
    Help,
}

pub(crate) type SlashCommand = Command<Verb>;

// The types of the values in Discord's interface.
const TEXT: u8 = 3;
const ATTACHMENT: u8 = 11;

const fn words(name: &'static str, description: &'static str) -> CommandArgument {
    CommandArgument { name, description, kind: ArgumentKind::Required }
}

const fn file(name: &'static str, description: &'static str) -> CommandArgument {
    CommandArgument { name, description, kind: ArgumentKind::File }
}

/// Returns the row of a command that the console has, too.
const fn shared(action: CommandAction) -> SlashCommand {
    action.command().with_action(Verb::Panel(PanelAction::Shared(action)))
}

/// Returns a command as Discord registers it, under this name.
fn registration(command: &SlashCommand, name: &str) -> Value {
    let option = |takes: &CommandArgument| {
        json!({
            "type": if takes.kind == ArgumentKind::File { ATTACHMENT } else { TEXT },
            "name": takes.name,
            "description": takes.description,
            "required": takes.kind == ArgumentKind::Required,
            "autocomplete": takes.kind == ArgumentKind::Suggested,
        })
    };
    let options: Vec<Value> = command.arguments.iter().map(option).collect();
    // Manage Server. Discord shows the command to people who may manage the server, which is only a
    // hint, so the bot checks the access too.
    let owners = command.access == CommandAccess::Owners;
    let permissions = if owners { json!("32") } else { Value::Null };
    json!({
        "type": 1,
        "name": name,
        "description": command.description,
        "options": options,
        "default_member_permissions": permissions,
        "contexts": [0, 1],
    })
}

const RESET: &str = "Forget this channel's conversation and begin a new one";

/// All commands, in the order of the help.
const TABLE: [SlashCommand; 15] = [
    Command::new(
        Verb::Ask,
        "ask",
        "Ask the agent",
        &[
            words("prompt", "The task for the agent"),
            file("file", "A file for the agent"),
            CommandArgument::suggested("agent", "The agent that answers this prompt"),
            CommandArgument::suggested("model", "The model that answers this prompt"),
        ],
    ),
    Command::new(
        Verb::New,
        "new",
        "Begin a new conversation in a new thread",
        &[
            words("prompt", "The task for the agent in the thread"),
            file("file", "A file for the agent"),
            CommandArgument::suggested("agent", "The agent of the thread"),
            CommandArgument::suggested("model", "The model of the thread"),
        ],
    ),
    Command::new(Verb::Reset, "reset", RESET, &[]),
    Command::new(Verb::Stop, "stop", "Stop what the agent is doing in this channel", &[]),
    Command::new(
        Verb::Steer,
        "steer",
        "Send the agent a message while it works in this channel",
        &[words("message", "The message for the agent")],
    ),
    shared(CommandAction::Status),
    shared(CommandAction::Sessions),
    Command::new(
        Verb::Panel(PanelAction::Schedules),
        "schedules",
        "Show the turns that agents asked for in this channel, or remove one",
        &[CommandArgument::text("remove", "The id of the turn to remove")],
    ),
    shared(CommandAction::Settings),
    shared(CommandAction::Compact),
    shared(CommandAction::Project),
    shared(CommandAction::Usage),
    shared(CommandAction::Claim),
    Command::new(
        Verb::Dashboard,
        "dashboard",
        "Get a private link to the dashboard",
        &[CommandArgument::text("action", "`revoke` signs you out everywhere")],
    ),
    Command::new(
        Verb::Panel(PanelAction::Help),
        "help",
        "Show the commands that you can use here",
        &[],
    ),
];

/// Returns the commands, with or without `/dashboard`.
pub(crate) fn all(dashboard: bool) -> impl Iterator<Item = &'static SlashCommand> {
    TABLE.iter().filter(move |command| dashboard || command.action != Verb::Dashboard)
}

/// Returns the command with this name. With `alias`, `/ask` and `/reset` have a second name.
pub(crate) fn command(name: &str, alias: Option<&str>) -> Option<&'static SlashCommand> {
    let of = |verb: Verb| TABLE.iter().find(|command| command.action == verb);
    TABLE.iter().find(|command| command.name == name).or_else(|| match alias {
        Some(alias) if name == alias => of(Verb::Ask),
        Some(alias) if name.strip_suffix("-reset") == Some(alias) => of(Verb::Reset),
        _ => None,
    })
}

/// Returns the command that replaces one of an earlier version. People may still see such a command
/// for a moment after an update.
pub(crate) fn replacement(name: &str) -> Option<&'static str> {
    match name {
        "backend" => Some("/settings backend:"),
        "model" => Some("/settings model:"),
        "thinking" => Some("/settings thinking:"),
        "safety" => Some("/settings safety:"),
        "mode" => Some("/settings mode:"),
        "queue" => Some("/status"),
        "ping" => Some("/status check:"),
        _ => None,
    }
}

/// Registers all commands at once, if the registered ones differ. A failure is only logged, because
/// mentions work without commands.
pub(crate) async fn register(api: &Api, application: u64, options: &DiscordOptions) {
    match try_register(api, application, options).await {
        Ok(true) => info!("registered the slash commands"),
        Ok(false) => {}
        Err(error) => {
            warn!(%error, "cannot register the slash commands; mentions work without them")
        }
    }
}

async fn try_register(
    api: &Api,
    application: u64,
    options: &DiscordOptions,
) -> Result<bool, RestError> {
    let timeouts = options.time_limits.send;
    let wanted = desired_commands(options.settings.command_alias.as_deref(), options.dashboard);
    let found = api.get::<Value>(Endpoint::Commands { application }, timeouts).await?;
    if is_unchanged(&wanted, &found) {
        return Ok(false);
    }
    api.send(Endpoint::PutCommands { application }, Some(Value::Array(wanted)), timeouts).await?;
    Ok(true)
}

fn desired_commands(alias: Option<&str>, dashboard: bool) -> Vec<Value> {
    let mut commands: Vec<Value> =
        all(dashboard).map(|command| registration(command, command.name)).collect();
    for name in alias.into_iter().flat_map(|alias| [alias.to_owned(), format!("{alias}-reset")]) {
        // An alias does not replace a command of the same name.
        if let Some(command) = command(&name, alias).filter(|command| command.name != name) {
            commands.push(registration(command, &name));
        }
    }
    commands
}

/// Returns whether the registered commands are the wanted ones. Compares only the fields that the
/// bot sets, because Discord adds fields, and leaves out empty lists and default values.
fn is_unchanged(wanted: &[Value], found: &Value) -> bool {
    let essence = |command: &Value| {
        let flag = |value: &Value| value.as_bool().unwrap_or(false);
        let options: Vec<Value> = command["options"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|option| {
                json!([
                    option["type"],
                    option["name"],
                    option["description"],
                    flag(&option["required"]),
                    flag(&option["autocomplete"]),
                    option["choices"]
                ])
            })
            .collect();
        let mut contexts: Vec<u64> = command["contexts"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_u64)
            .collect();
        contexts.sort_unstable();
        let kind = command["type"].as_u64().unwrap_or(1);
        json!([
            command["name"],
            kind,
            command["description"],
            command["default_member_permissions"],
            contexts,
            options
        ])
        .to_string()
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

    /// The commands as Discord returns them.
    fn registered() -> Value {
        let mut found = json!(desired_commands(Some("claude"), true));
        for command in found.as_array_mut().expect("an array") {
            command["id"] = json!("1");
            command["version"] = json!("2");
            command["integration_types"] = json!([0]);
            let fields = command.as_object_mut().expect("an object");
            if fields["options"].as_array().is_some_and(Vec::is_empty) {
                fields.remove("options");
            }
            for option in
                fields.get_mut("options").and_then(Value::as_array_mut).into_iter().flatten()
            {
                option.as_object_mut().expect("an object").retain(|_, value| *value != false);
            }
        }
        found.as_array_mut().expect("an array").reverse();
        found
    }

    #[test]
    fn only_fields_that_we_set_count_as_changes() {
        assert!(is_unchanged(&desired_commands(Some("claude"), true), &registered()));
        assert!(!is_unchanged(&desired_commands(None, true), &registered()));
        let last = registered().as_array().expect("an array").len() - 1;
        assert_eq!(registered()[last]["name"], "ask");
        for (field, value) in [
            ("description", json!("other")),
            ("default_member_permissions", json!("8")),
            ("contexts", json!([0])),
        ] {
            let mut found = registered();
            found[last][field] = value;
            assert!(!is_unchanged(&desired_commands(Some("claude"), true), &found), "{field}");
        }
        for (field, value) in [
            ("autocomplete", json!(true)),
            ("choices", json!([{"name": "a", "value": "a"}])),
            ("required", json!(false)),
        ] {
            let mut found = registered();
            found[last]["options"][0][field] = value;
            assert!(!is_unchanged(&desired_commands(Some("claude"), true), &found), "{field}");
        }
    }

    #[test]
    fn the_dashboard_command_exists_only_with_a_dashboard() {
        let names = |dashboard| all(dashboard).map(|command| command.name).collect::<Vec<_>>();
        assert!(names(true).contains(&"dashboard") && !names(false).contains(&"dashboard"));
        assert_eq!(names(true).len(), names(false).len() + 1);
    }

    #[test]
    fn the_table_keeps_discords_limits_and_has_unique_names() {
        let mut names: Vec<&str> = TABLE.iter().map(|command| command.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len());
        for command in TABLE {
            assert!(
                command.name.len() <= 32
                    && (1..=100).contains(&command.description.chars().count()),
                "{}",
                command.name
            );
            assert!(
                command.arguments.iter().all(|takes| takes.description.chars().count() <= 100),
                "{}",
                command.name
            );
        }
    }

    #[test]
    fn an_alias_is_a_second_name_and_never_replaces_a_command() {
        let verb = |name: &str, alias| command(name, alias).map(|command| command.action);
        assert_eq!(verb("claude", Some("claude")), Some(Verb::Ask));
        assert_eq!(verb("claude-reset", Some("claude")), Some(Verb::Reset));
        assert_eq!((verb("claude", None), verb("stop", None)), (None, Some(Verb::Stop)));
        assert_eq!(
            verb("status", Some("status")),
            Some(Verb::Panel(PanelAction::Shared(CommandAction::Status)))
        );
        assert_eq!(
            desired_commands(Some("status"), true)
                .iter()
                .filter(|command| command["name"] == "status")
                .count(),
            1
        );
    }
}
