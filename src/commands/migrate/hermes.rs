//! Reads Hermes Agent: `SOUL.md`, memories, cron jobs, `config.yaml` and `.env`.
//!
//! Based on github.com/NousResearch/hermes-agent: `cron/jobs.py` at 0006718 (`cron/jobs.json`),
//! `website/docs/user-guide/features/cron.md` at 0006718,
//! `website/docs/user-guide/messaging/discord.md` at 0067253 (`config.yaml`, `.env`), and
//! `tools/memory_tool.py` (entries of `memories/*.md` are separated by lines `§`).

use serde::Deserialize;
use serde_json::Value;

use super::Here;
use super::formats::{json5, texts, yaml};
use super::found::{Channel, Found, Job, Text};
use super::ids::{id, snowflake};
use super::schedule::{self, Seconds};
use super::secrets::env;
use super::source::{DOCUMENT, SETTINGS, Source};
use crate::prompt::Document;

/// Reads everything that can be imported.
///
/// # Errors
/// The folder does not belong to Hermes Agent, or its format is unknown.
pub(super) fn read(source: &Source, here: &Here) -> Result<Found, String> {
    let mut found = Found::of("Hermes Agent");
    if !["config.yaml", "SOUL.md", "cron/jobs.json"].iter().any(|name| source.has(name)) {
        return Err(format!(
            "{}: there is neither config.yaml nor SOUL.md nor cron/jobs.json; name its folder with --from",
            source.path.display()
        ));
    }
    let config = source.text("config.yaml", SETTINGS)?.unwrap_or_default();
    let config = yaml(&config).map_err(|fault| format!("config.yaml: {fault}"))?;
    let variables = source.text(".env", SETTINGS)?.unwrap_or_default();
    found.secrets.of_env(".env", &variables);
    found.secrets.of_settings("config.yaml", &config);
    for (name, into, list) in [
        ("SOUL.md", Document::Soul, false),
        ("memories/MEMORY.md", Document::Memory, true),
        ("memories/USER.md", Document::User, true),
    ] {
        match source.text(name, DOCUMENT) {
            Ok(Some(text)) => {
                let text = if list { entries(&text) } else { text };
                found.texts.push(Text { into, from: name.to_owned(), text });
            }
            Ok(None) => {}
            Err(fault) => found.leave(fault),
        }
    }
    let zone = texts(&config, &["timezone"]).pop();
    let zone = match zone.map(|zone| schedule::known_zone(&zone)) {
        Some(Ok(zone)) => Some(zone),
        Some(Err(fault)) => return Err(format!("config.yaml: timezone: {fault}")),
        None => here.zone.clone(),
    };
    channels(&config, &variables, &mut found);
    jobs(source, &zone, &mut found)?;
    for (name, why) in [
        ("skills", "agents have their own skills"),
        ("sessions", "conversations are not imported"),
        ("profiles", "each is a separate installation: import one with --from"),
    ] {
        if source.has(name) {
            found.leave(format!("{name}: {why}"));
        }
    }
    Ok(found)
}

/// Converts entries separated by lines `§` to a list.
fn entries(text: &str) -> String {
    let entries = text.split("\n§\n").map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(|entry| format!("- {}\n", entry.replace('\n', "\n  "))).collect()
}

/// Imports the channels in which the app answers without being mentioned.
fn channels(config: &Value, variables: &str, found: &mut Found) {
    let variable = |name: &str| {
        let mut all = env(variables).filter(|(known, value)| *known == name && !value.is_empty());
        all.next().map(|(_, value)| vec![value.to_owned()])
    };
    let value =
        |name: &str, key: &str| variable(name).unwrap_or_else(|| texts(config, &["discord", key]));
    let free = value("DISCORD_FREE_RESPONSE_CHANNELS", "free_response_channels");
    for word in free.iter().flat_map(|value| value.split(',')).map(str::trim) {
        match snowflake(word) {
            Some(id) => {
                found.channels.push(Channel { id, needs_no_mention: true, ..Channel::default() });
            }
            None if word.is_empty() => {}
            None => found.leave(format!("channel {word}: its id is unknown")),
        }
    }
    for (name, key, why) in [
        ("DISCORD_ALLOWED_USERS", "", "set who may use the bot with `aetheel init --users`"),
        ("DISCORD_ALLOWED_ROLES", "", "set who may use the bot with `aetheel init --roles`"),
        (
            "DISCORD_ALLOWED_CHANNELS",
            "allowed_channels",
            "set where it answers with `aetheel init --channels`",
        ),
        (
            "DISCORD_IGNORED_CHANNELS",
            "ignored_channels",
            "ALLOWED_CHANNELS lists the channels that are answered",
        ),
        ("DISCORD_HOME_CHANNEL", "", "set OUTPUT_CHANNEL_ID in settings.env to it"),
    ] {
        let set =
            if key.is_empty() { variable(name).unwrap_or_default() } else { value(name, key) };
        if !set.is_empty() {
            found.leave(format!("{name} ({}): {why}", set.join(",")));
        }
    }
    if value("DISCORD_REQUIRE_MENTION", "require_mention") == ["false"] {
        found.leave("answers without a mention everywhere: set this for each channel (`require-mention: no` in channels.md)");
    }
}

#[derive(Deserialize)]
struct CronJob {
    name: Option<String>,
    #[serde(default)]
    prompt: String,
    schedule: Schedule,
    #[serde(default = "yes")]
    enabled: bool,
    deliver: Option<Value>,
    origin: Option<Value>,
    repeat: Option<Repeat>,
    script: Option<Value>,
    #[serde(default)]
    no_agent: bool,
    workdir: Option<String>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct Repeat {
    times: Option<u64>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Schedule {
    Once {},
    Interval {
        minutes: u64,
    },
    Cron {
        expr: String,
    },
    #[serde(other)]
    Other,
}

fn jobs(source: &Source, zone: &Option<String>, found: &mut Found) -> Result<(), String> {
    let Some(text) = source.text("cron/jobs.json", SETTINGS)? else { return Ok(()) };
    let store = json5(&text).map_err(|fault| format!("cron/jobs.json: {fault}"))?;
    let jobs =
        store["jobs"].as_array().ok_or("cron/jobs.json: it does not contain the list `jobs`")?;
    for (at, job) in jobs.iter().enumerate() {
        let named = job["name"].as_str().or(job["id"].as_str());
        let called = named.map_or_else(|| format!("number {}", at + 1), str::to_owned);
        match one(job, &called, zone) {
            Ok((job, notes)) => {
                let name = &job.name;
                found.left_out.extend(notes.iter().map(|note| format!("cron job {name}: {note}")));
                found.jobs.push(job);
            }
            Err(why) => found.leave(format!("cron job {called}: {why}")),
        }
    }
    Ok(())
}

/// Converts a job. Also returns notes about its parts that are not imported.
fn one(
    job: &Value,
    called: &str,
    zone: &Option<String>,
) -> Result<(Job, Vec<&'static str>), String> {
    let job: CronJob = CronJob::deserialize(job).map_err(|error| error.to_string())?;
    if !job.enabled {
        return Err("it is paused".to_owned());
    }
    if job.no_agent || job.prompt.trim().is_empty() {
        return Err("it runs a script without an agent".to_owned());
    }
    if job.repeat.is_some_and(|repeat| repeat.times.is_some()) {
        return Err("it ends after a number of runs; such jobs are not supported".to_owned());
    }
    let when = match job.schedule {
        Schedule::Cron { expr } => schedule::when(&expr, Seconds::Elsewhere)?.0,
        Schedule::Interval { minutes } => schedule::every(minutes.saturating_mul(60))?,
        Schedule::Once {} => return Err("it runs once; such jobs are not supported".to_owned()),
        Schedule::Other => return Err("its kind of schedule is unknown".to_owned()),
    };
    let mut notes = Vec::new();
    if job.script.is_some_and(|script| !script.is_null()) {
        notes.push("its script is not run; describe in the instruction what it does");
    }
    if job.workdir.is_some() {
        notes.push("its working directory: jobs run in WORKSPACE_DIR");
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let deliver = job.deliver.as_ref().map(text).unwrap_or_default();
    let origin = job.origin.filter(|origin| origin["platform"] == "discord");
    let channel = match (deliver.strip_prefix("discord:"), origin) {
        // A thread may follow after the channel.
        (Some(to), _) => id(&Value::from(to.split(':').next().unwrap_or_default())),
        (None, Some(origin)) if deliver.is_empty() || deliver == "origin" => id(&origin["chat_id"]),
        _ => None,
    };
    if channel.is_none() && !["", "origin", "discord", "local"].contains(&deliver.as_str()) {
        notes.push("its destination; its answers go to OUTPUT_CHANNEL_ID");
    }
    let name = job.name.unwrap_or_else(|| called.to_owned());
    let zone = zone.clone();
    Ok((Job { name, when, instruction: job.prompt, channel, zone }, notes))
}
