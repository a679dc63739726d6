//! Reads Hermes Agent: `SOUL.md`, memories, cron jobs, `config.yaml` and `.env`.
//!
//! Based on github.com/NousResearch/hermes-agent: `cron/jobs.py` at 0006718 (`cron/jobs.json`),
//! `website/docs/user-guide/features/cron.md` at 0006718,
//! `website/docs/user-guide/messaging/discord.md` at 0067253 (`config.yaml`, `.env`), and
//! `tools/memory_tool.py` (entries of `memories/*.md` are separated by lines `§`).

use serde::Deserialize;
use serde_json::Value;

use super::LocalMachine;
use super::error::{MigrateError, UnsupportedJob};
use super::formats::{json5, texts, yaml};
use super::ids::{channel_id, snowflake};
use super::imported::{ImportedChannel, ImportedConfig, ImportedDocument, ImportedJob};
use super::schedule::{self, SecondsField};
use super::secrets::parse_env;
use super::source::{MAX_DOCUMENT_BYTES, MAX_SETTINGS_BYTES, SourceFolder};
use crate::prompt::Document;

/// Reads everything that can be imported.
///
/// # Errors
/// The folder does not belong to Hermes Agent, or its format is unknown.
pub(super) fn read(
    source: &SourceFolder,
    here: &LocalMachine,
) -> Result<ImportedConfig, MigrateError> {
    let mut found = ImportedConfig::of("Hermes Agent");
    if !["config.yaml", "SOUL.md", "cron/jobs.json"].iter().any(|name| source.has(name)) {
        return Err(MigrateError::OtherApp {
            folder: source.path.clone(),
            files: "neither config.yaml nor SOUL.md nor cron/jobs.json",
        });
    }
    let config = source.text("config.yaml", MAX_SETTINGS_BYTES)?.unwrap_or_default();
    let config =
        yaml(&config).map_err(|error| MigrateError::Syntax { file: "config.yaml", error })?;
    let variables = source.text(".env", MAX_SETTINGS_BYTES)?.unwrap_or_default();
    found.secrets.add_env(".env", &variables);
    found.secrets.add_settings("config.yaml", &config);
    for (name, into, list) in [
        ("SOUL.md", Document::Soul, false),
        ("memories/MEMORY.md", Document::Memory, true),
        ("memories/USER.md", Document::User, true),
    ] {
        match source.text(name, MAX_DOCUMENT_BYTES) {
            Ok(Some(text)) => {
                let text = if list { entries(&text) } else { text };
                found.texts.push(ImportedDocument { into, from: name.to_owned(), text });
            }
            Ok(None) => {}
            Err(error) => found.skip(error.to_string()),
        }
    }
    let zone = texts(&config, &["timezone"]).pop();
    let zone = match zone {
        Some(zone) => Some(schedule::known_zone(&zone).map_err(MigrateError::TimeZone)?),
        None => here.zone.clone(),
    };
    import_channels(&config, &variables, &mut found);
    import_jobs(source, &zone, &mut found)?;
    for (name, why) in [
        ("skills", "agents have their own skills"),
        ("sessions", "conversations are not imported"),
        ("profiles", "each is a separate installation: import one with --from"),
    ] {
        if source.has(name) {
            found.skip(format!("{name}: {why}"));
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
fn import_channels(config: &Value, variables: &str, found: &mut ImportedConfig) {
    let variable = |name: &str| {
        let mut all =
            parse_env(variables).filter(|(known, value)| *known == name && !value.is_empty());
        all.next().map(|(_, value)| vec![value.to_owned()])
    };
    let value =
        |name: &str, key: &str| variable(name).unwrap_or_else(|| texts(config, &["discord", key]));
    let free = value("DISCORD_FREE_RESPONSE_CHANNELS", "free_response_channels");
    for word in free.iter().flat_map(|value| value.split(',')).map(str::trim) {
        match snowflake(word) {
            Some(id) => {
                found.channels.push(ImportedChannel::without_mention(id));
            }
            None if word.is_empty() => {}
            None => found.skip(format!("channel {word}: its id is unknown")),
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
            found.skip(format!("{name} ({}): {why}", set.join(",")));
        }
    }
    if value("DISCORD_REQUIRE_MENTION", "require_mention") == ["false"] {
        found.skip("answers without a mention everywhere: set this for each channel (`require-mention: no` in channels.md)");
    }
}

#[derive(Deserialize)]
struct HermesJob {
    name: Option<String>,
    #[serde(default)]
    prompt: String,
    schedule: HermesSchedule,
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
enum HermesSchedule {
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

fn import_jobs(
    source: &SourceFolder,
    zone: &Option<String>,
    found: &mut ImportedConfig,
) -> Result<(), MigrateError> {
    let file = "cron/jobs.json";
    let Some(text) = source.text(file, MAX_SETTINGS_BYTES)? else { return Ok(()) };
    let store = json5(&text).map_err(|error| MigrateError::Syntax { file, error })?;
    let missing = "it does not contain the list `jobs`";
    let jobs = store["jobs"].as_array().ok_or(MigrateError::NoJobs { file, missing })?;
    for (at, job) in jobs.iter().enumerate() {
        let named = job["name"].as_str().or(job["id"].as_str());
        let called = named.map_or_else(|| format!("number {}", at + 1), str::to_owned);
        match convert_job(job, &called, zone) {
            Ok((job, notes)) => {
                let name = &job.name;
                found.skipped.extend(notes.iter().map(|note| format!("cron job {name}: {note}")));
                found.jobs.push(job);
            }
            Err(why) => found.skip(format!("cron job {called}: {why}")),
        }
    }
    Ok(())
}

/// Converts a job. Also returns notes about its parts that are not imported.
fn convert_job(
    job: &Value,
    called: &str,
    zone: &Option<String>,
) -> Result<(ImportedJob, Vec<&'static str>), UnsupportedJob> {
    let job: HermesJob = HermesJob::deserialize(job)?;
    if !job.enabled {
        return Err(UnsupportedJob::Paused);
    }
    if job.no_agent || job.prompt.trim().is_empty() {
        return Err(UnsupportedJob::OnlyScript);
    }
    if job.repeat.is_some_and(|repeat| repeat.times.is_some()) {
        return Err(UnsupportedJob::LimitedRuns);
    }
    let when = match job.schedule {
        HermesSchedule::Cron { expr } => schedule::parse_cron(&expr, SecondsField::Elsewhere)?.0,
        HermesSchedule::Interval { minutes } => schedule::interval(minutes.saturating_mul(60))?,
        HermesSchedule::Once {} => return Err(UnsupportedJob::RunsOnce),
        HermesSchedule::Other => return Err(UnsupportedJob::UnknownSchedule),
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
        (Some(to), _) => channel_id(&Value::from(to.split(':').next().unwrap_or_default())),
        (None, Some(origin)) if deliver.is_empty() || deliver == "origin" => {
            channel_id(&origin["chat_id"])
        }
        _ => None,
    };
    if channel.is_none() && !["", "origin", "discord", "local"].contains(&deliver.as_str()) {
        notes.push("its destination; its answers go to OUTPUT_CHANNEL_ID");
    }
    let name = job.name.unwrap_or_else(|| called.to_owned());
    let zone = zone.clone();
    Ok((ImportedJob { name, when, instruction: job.prompt, channel, zone }, notes))
}
