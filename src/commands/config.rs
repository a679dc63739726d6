//! `aetheel config`: prints the settings, caps and limits in force, each with the line that says so.

use clap::Args;

use super::context::with_settings;
use crate::cli::{Common, exit};
use crate::startup::settings::OperatorSettings;
use crate::terminal::{fail, line};
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use aetheel_model::redact::is_secret_name;
use aetheel_settings::VARIABLES;
use aetheel_store::workspace::{SettingInForce, caps_in_force, lane_settings_in_force};

/// Settings that limit agents and people. They are printed even if they have their defaults.
const LIMITS: [&str; 12] = [
    "AGENT_BACKEND",
    "AGENT_SANDBOX",
    "ALLOWED_BACKENDS",
    "ALLOWED_CHANNELS",
    "ALLOWED_ROLES",
    "ALLOWED_TOOLS",
    "ALLOWED_USERS",
    "HOST_TOOLS",
    "MAX_CONCURRENT_QUERIES",
    "PERMISSION_MODE",
    "QUERY_TIMEOUT_MS",
    "USER_PROMPTS_PER_MINUTE",
];

/// The settings of a lane that `channels.md` may set, each with the variable that applies otherwise.
const OF_LANES: [(&str, &str); 5] = [
    ("backend", "AGENT_BACKEND"),
    ("backends", "ALLOWED_BACKENDS"),
    ("host-tools", "HOST_TOOLS"),
    ("safety", "PERMISSION_MODE"),
    ("tools", "ALLOWED_TOOLS"),
];

/// Arguments of `aetheel config`.
#[derive(Args, Debug)]
pub struct ConfigArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// Id of a channel, or another lane, whose settings are printed too
    channel: Option<String>,
}

impl ConfigArgs {
    pub(super) fn run(self) -> u8 {
        with_settings(&self.common, None, |settings| print_all(&settings, self.channel.as_deref()))
    }
}

/// Prints the settings, and those of a channel or another lane if one is named. Returns the exit
/// code.
fn print_all(settings: &OperatorSettings, lane: Option<&str>) -> u8 {
    let folder = &settings.config.config_dir;
    let of_group = |advanced: bool| VARIABLES.iter().filter(move |row| row.advanced == advanced);
    let rows = of_group(false).chain(of_group(true));
    let variables = rows.filter_map(|row| variable(settings, row.name));
    print(settings, "settings", variables.collect());
    print(settings, "caps", caps_in_force(folder));
    let Some(text) = lane else { return exit::OK };
    let id = text.trim_matches(['<', '#', '>']);
    let parsed = id.parse().ok().or_else(|| ChannelId::parse_nonzero(id).ok().map(Lane::Channel));
    let Some(lane) = parsed else {
        fail(&format!(
            "{text:?} is neither the id of a channel nor another lane; hint: copy the id from Discord, or write `console`"
        ));
        return exit::USAGE;
    };
    let mut rows = lane_settings_in_force(folder, &lane);
    for (key, name) in OF_LANES {
        if rows.iter().all(|row| row.name != key) {
            rows.extend(
                variable(settings, name).map(|row| SettingInForce { name: key.to_owned(), ..row }),
            );
        }
    }
    print(settings, &lane.to_string(), rows);
    exit::OK
}

/// Returns a variable that is set or limits something. `None` for secrets.
fn variable(settings: &OperatorSettings, name: &str) -> Option<SettingInForce> {
    if is_secret_name(name) {
        return None;
    }
    let row = VARIABLES.iter().find(|row| row.name == name)?;
    let set = settings.variables.get(name).filter(|value| !value.trim().is_empty());
    let origin = settings.origins.iter().find(|(variable, _)| variable == name);
    let source = match (set, std::env::var_os(name), origin) {
        (None, ..) => "default".to_owned(),
        (Some(_), Some(_), _) | (Some(_), None, None) => "environment".to_owned(),
        (Some(_), None, Some((_, origin))) => origin.replace(": line ", ":"),
    };
    let value = set.map_or(row.default, String::as_str).to_owned();
    (set.is_some() || LIMITS.contains(&name)).then(|| SettingInForce {
        name: name.to_owned(),
        value,
        source,
    })
}

fn print(settings: &OperatorSettings, title: &str, rows: Vec<SettingInForce>) {
    line(&format!("{title}:"));
    if rows.is_empty() {
        line("  none");
    }
    for SettingInForce { name, value, source } in rows {
        let value = if value.is_empty() { "(empty)".to_owned() } else { value };
        line(&settings.redactor.redact(format!("  {name} = {value}  ({source})")));
    }
}
