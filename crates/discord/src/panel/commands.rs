//! The slash commands as a table: their names, options, permissions and required features.
//! Registration, help and dispatch use it.
//!
//! Discord allows 200 command creations a day, so commands are only sent if they changed.

use serde_json::{Value, json};
use tracing::{info, warn};

use crate::api::Api;
use crate::rest::{RestError, Timeouts};
use aetheel_model::agent::descriptor::Feature;

/// The action of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Ask,
    New,
    Reset,
    Stop,
    Steer,
    /// Gives a link to the dashboard.
    Dashboard,
    /// Shows or changes something through the module `panel`.
    Panel(PanelAction),
}

/// A command of the panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PanelAction {
    /// Shows the state of the channel, or checks whether a backend can work.
    Status,
    /// Shows what the turns of the channel used, and the budgets.
    Usage,
    /// Lists conversations, or resumes one or a copy of it.
    Sessions,
    /// Shows the turns that agents asked for, or removes one.
    Schedules,
    /// Shows the settings, or chooses some.
    Settings,
    Compact,
    /// Shows or binds the channel's project.
    Project,
    /// Lists, takes or releases claims.
    Claim,
    Help,
}

/// The people who may use a command, among those who may use the bot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandAccess {
    Everyone,
    /// The application's owners. Discord shows the command to people who may manage the server,
    /// which is only a hint, so the bot checks this too.
    Owners,
}

/// A command that is registered with Discord.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlashCommand {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    options: &'static [CommandOption],
    pub(crate) access: CommandAccess,
    /// The feature of the backend without which the command is left out of the help.
    pub(crate) needs: Option<Feature>,
    pub(crate) verb: Verb,
}

#[derive(Clone, Copy, Debug)]
struct CommandOption {
    name: &'static str,
    description: &'static str,
    /// The type of the value in Discord's interface.
    kind: u8,
    required: bool,
    autocomplete: bool,
}

const TEXT: u8 = 3;
const ATTACHMENT: u8 = 11;

const fn free(name: &'static str, description: &'static str) -> CommandOption {
    CommandOption { name, description, kind: TEXT, required: false, autocomplete: false }
}

const fn words(name: &'static str, description: &'static str) -> CommandOption {
    CommandOption { required: true, ..free(name, description) }
}

const fn choice(name: &'static str, description: &'static str) -> CommandOption {
    CommandOption { autocomplete: true, ..free(name, description) }
}

const fn file(name: &'static str, description: &'static str) -> CommandOption {
    CommandOption { kind: ATTACHMENT, ..free(name, description) }
}

const fn everyone(
    name: &'static str,
    description: &'static str,
    takes: &'static [CommandOption],
    verb: Verb,
) -> SlashCommand {
    SlashCommand {
        name,
        description,
        options: takes,
        access: CommandAccess::Everyone,
        needs: None,
        verb,
    }
}

const fn panel(
    name: &'static str,
    description: &'static str,
    takes: &'static [CommandOption],
    order: PanelAction,
) -> SlashCommand {
    everyone(name, description, takes, Verb::Panel(order))
}

impl SlashCommand {
    const fn needing(self, feature: Feature) -> Self {
        Self { needs: Some(feature), ..self }
    }

    const fn for_owners(self) -> Self {
        Self { access: CommandAccess::Owners, ..self }
    }

    fn json(&self, name: &str) -> Value {
        let option = |takes: &CommandOption| json!({"type": takes.kind, "name": takes.name, "description": takes.description, "required": takes.required, "autocomplete": takes.autocomplete});
        let options: Vec<Value> = self.options.iter().map(option).collect();
        // Manage Server.
        let permissions =
            if self.access == CommandAccess::Owners { json!("32") } else { Value::Null };
        json!({"type": 1, "name": name, "description": self.description, "options": options, "default_member_permissions": permissions,
            "contexts": [0, 1]})
    }
}

const RESET: &str = "Forget this channel's conversation and begin a new one";

/// All commands, in the order of the help.
const TABLE: [SlashCommand; 15] = [
    everyone(
        "ask",
        "Ask the agent",
        &[
            words("prompt", "The task for the agent"),
            file("file", "A file for the agent"),
            choice("agent", "The agent that answers this prompt"),
            choice("model", "The model that answers this prompt"),
        ],
        Verb::Ask,
    ),
    everyone(
        "new",
        "Begin a new conversation in a new thread",
        &[
            words("prompt", "The task for the agent in the thread"),
            file("file", "A file for the agent"),
            choice("agent", "The agent of the thread"),
            choice("model", "The model of the thread"),
        ],
        Verb::New,
    ),
    everyone("reset", RESET, &[], Verb::Reset),
    everyone("stop", "Stop what the agent is doing in this channel", &[], Verb::Stop),
    everyone(
        "steer",
        "Send the agent a message while it works in this channel",
        &[words("message", "The message for the agent")],
        Verb::Steer,
    ),
    panel(
        "status",
        "Show the backend, the prompts and the settings of this channel",
        &[choice("check", "For owners: a backend to check")],
        PanelAction::Status,
    ),
    panel(
        "sessions",
        "List the conversations of this channel, or continue one",
        &[
            choice("resume", "The conversation to resume"),
            choice("fork", "The conversation to continue a copy of"),
        ],
        PanelAction::Sessions,
    )
    .needing(Feature::Resume),
    panel(
        "schedules",
        "Show the turns that agents asked for in this channel, or remove one",
        &[free("remove", "The id of the turn to remove")],
        PanelAction::Schedules,
    ),
    panel(
        "settings",
        "Show and change the settings of this channel",
        &[
            choice("backend", "The backend that answers; `unset` for the default"),
            choice("model", "The model; `unset` for the default"),
            choice("thinking", "How much the model thinks; `unset` for the default"),
            choice(
                "safety",
                "The level up to which the agent acts without asking; `unset` for the default",
            ),
            choice("mode", "`build` or `plan`"),
        ],
        PanelAction::Settings,
    ),
    panel(
        "compact",
        "Compact this channel's conversation, so that it takes less of the model's context",
        &[],
        PanelAction::Compact,
    )
    .needing(Feature::Compact),
    panel(
        "project",
        "Show or change the folder that this channel's agent works in",
        &[
            free("directory", "The folder; `unset` for the default"),
            choice("backend", "The backend; `unset` for the default"),
        ],
        PanelAction::Project,
    )
    .for_owners(),
    panel(
        "usage",
        "Show what this channel used in the last days, and the budgets that apply here",
        &[],
        PanelAction::Usage,
    ),
    panel(
        "claim",
        "Show the files that are reserved here, or reserve or release some",
        &[
            free("paths", "Files or folders to reserve, separated by commas; `src/*.rs` works too"),
            free("for", "How long, such as `30m` or `2h`; without it, an hour"),
            free("reason", "The reason, for other people"),
            free("release", "The claim to release, by its id; `all` for those of this channel"),
        ],
        PanelAction::Claim,
    ),
    everyone(
        "dashboard",
        "Get a private link to the dashboard",
        &[free("action", "`revoke` signs you out everywhere")],
        Verb::Dashboard,
    ),
    panel("help", "Show the commands that you can use here", &[], PanelAction::Help),
];

/// Returns the commands, with or without `/dashboard`.
pub(crate) fn all(dashboard: bool) -> impl Iterator<Item = &'static SlashCommand> {
    TABLE.iter().filter(move |command| dashboard || command.verb != Verb::Dashboard)
}

/// Returns the command with this name. With `alias`, `/ask` and `/reset` have a second name.
pub(crate) fn command(name: &str, alias: Option<&str>) -> Option<&'static SlashCommand> {
    let of = |verb: Verb| TABLE.iter().find(|command| command.verb == verb);
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
pub(crate) async fn register(
    api: &Api,
    application: u64,
    offered: (Option<&str>, bool),
    timeouts: Timeouts,
) {
    match try_register(api, application, offered, timeouts).await {
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
    offered: (Option<&str>, bool),
    timeouts: Timeouts,
) -> Result<bool, RestError> {
    let wanted = desired_commands(offered);
    let found = api.commands(application, timeouts).await?;
    if is_unchanged(&wanted, &found) {
        return Ok(false);
    }
    api.put_commands(application, Value::Array(wanted), timeouts).await?;
    Ok(true)
}

fn desired_commands((alias, dashboard): (Option<&str>, bool)) -> Vec<Value> {
    let mut commands: Vec<Value> =
        all(dashboard).map(|command| command.json(command.name)).collect();
    for name in alias.into_iter().flat_map(|alias| [alias.to_owned(), format!("{alias}-reset")]) {
        // An alias does not replace a command of the same name.
        if let Some(command) = command(&name, alias).filter(|command| command.name != name) {
            commands.push(command.json(&name));
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
        let mut found = json!(desired_commands((Some("claude"), true)));
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
        assert!(is_unchanged(&desired_commands((Some("claude"), true)), &registered()));
        assert!(!is_unchanged(&desired_commands((None, true)), &registered()));
        let last = registered().as_array().expect("an array").len() - 1;
        assert_eq!(registered()[last]["name"], "ask");
        for (field, value) in [
            ("description", json!("other")),
            ("default_member_permissions", json!("8")),
            ("contexts", json!([0])),
        ] {
            let mut found = registered();
            found[last][field] = value;
            assert!(!is_unchanged(&desired_commands((Some("claude"), true)), &found), "{field}");
        }
        for (field, value) in [
            ("autocomplete", json!(true)),
            ("choices", json!([{"name": "a", "value": "a"}])),
            ("required", json!(false)),
        ] {
            let mut found = registered();
            found[last]["options"][0][field] = value;
            assert!(!is_unchanged(&desired_commands((Some("claude"), true)), &found), "{field}");
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
                command.options.iter().all(|takes| takes.description.chars().count() <= 100),
                "{}",
                command.name
            );
        }
    }

    #[test]
    fn an_alias_is_a_second_name_and_never_replaces_a_command() {
        let verb = |name: &str, alias| command(name, alias).map(|command| command.verb);
        assert_eq!(verb("claude", Some("claude")), Some(Verb::Ask));
        assert_eq!(verb("claude-reset", Some("claude")), Some(Verb::Reset));
        assert_eq!((verb("claude", None), verb("stop", None)), (None, Some(Verb::Stop)));
        assert_eq!(verb("status", Some("status")), Some(Verb::Panel(PanelAction::Status)));
        assert_eq!(
            desired_commands((Some("status"), true))
                .iter()
                .filter(|command| command["name"] == "status")
                .count(),
            1
        );
    }
}
