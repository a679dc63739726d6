//! Reads `OpenClaw`: `openclaw.json`, the markdown files of the workspace, and cron jobs.
//!
//! Based on github.com/openclaw/openclaw: `src/cron/types.ts` at 001978f (the store of version 1,
//! `cron/jobs.json`), `src/cron/store.ts` at 0549437 (the store in `state/openclaw.sqlite`),
//! `src/config/types.discord.ts` at 00a6449, `docs/concepts/agent-workspace.md` and
//! `docs/gateway/heartbeat.md` at 013c24e, and `docs/channels/discord.md` at 0105e90. These are the
//! versions 2026.1 to 2026.7.

use serde::Deserialize;
use serde_json::Value;

use crate::LocalMachine;
use crate::error::{MigrateError, UnsupportedJob};
use crate::ids::{channel_id, snowflake};
use crate::imported::{ImportedConfig, ImportedDocument, ImportedJob, JobSchedule};
use crate::json::json5;
use crate::schedule;
use crate::source::{MAX_DOCUMENT_BYTES, MAX_SETTINGS_BYTES, SourceFolder};
use aetheel_model::prompt::Document;
use aetheel_model::schedule::ActiveHours;

const DOCUMENTS: [(&str, Document); 6] = [
    ("IDENTITY.md", Document::Identity),
    ("SOUL.md", Document::Soul),
    ("AGENTS.md", Document::Agents),
    ("USER.md", Document::User),
    ("TOOLS.md", Document::Tools),
    ("MEMORY.md", Document::Memory),
];
/// Number of daily notes that `OpenClaw` shows its agents at the start of a session: today's and
/// yesterday's.
const MAX_DAILY_NOTES: usize = 2;
/// File with the output of `openclaw cron list --all --json`.
const EXPORT: &str = "cron/export.json";

/// Reads everything that can be imported.
///
/// # Errors
/// The folder does not belong to `OpenClaw`, or its version is unknown.
pub(crate) fn read(
    source: &SourceFolder,
    here: &LocalMachine,
) -> Result<ImportedConfig, MigrateError> {
    let mut found = ImportedConfig::default();
    let text = source
        .text("openclaw.json", MAX_SETTINGS_BYTES)?
        .ok_or_else(|| MigrateError::OtherApp(source.path.clone()))?;
    let config =
        json5(&text).map_err(|error| MigrateError::Syntax { file: "openclaw.json", error })?;
    found.secrets.add_settings("openclaw.json", &config);
    if let Some(env) = source.text(".env", MAX_SETTINGS_BYTES)? {
        found.secrets.add_env(".env", &env);
    }
    let version = config.pointer("/meta/lastTouchedVersion").and_then(Value::as_str);
    if let Some(version) = version.filter(|version| !version.starts_with("2026.")) {
        return Err(MigrateError::AppVersion(version.to_owned()));
    }
    found.version = version.map(str::to_owned);
    let heartbeat = import_documents(source, &config, here, &mut found);
    import_heartbeat(&config, heartbeat, here, &mut found);
    import_jobs(source, here, &mut found)?;
    import_channels(&config, &mut found);
    Ok(found)
}

/// Imports the default agent's documents. Returns the text of its `HEARTBEAT.md`.
fn import_documents(
    source: &SourceFolder,
    config: &Value,
    here: &LocalMachine,
    found: &mut ImportedConfig,
) -> Option<String> {
    let agents: Vec<&Value> =
        config.pointer("/agents/list").and_then(Value::as_array).into_iter().flatten().collect();
    let default = agents
        .iter()
        .find(|agent| agent["default"] == true)
        .or_else(|| agents.first())
        .copied()
        .unwrap_or(&Value::Null);
    for agent in agents.iter().filter(|agent| agent["id"] != default["id"]) {
        let id = agent["id"].as_str().unwrap_or("without an id");
        found.skip(format!("agent {id}: only the personality of the default agent is imported"));
    }
    let named = default["workspace"]
        .as_str()
        .or_else(|| config.pointer("/agents/defaults/workspace").and_then(Value::as_str));
    let other = match named.map(|named| here.path(named)) {
        Some(path) if path != source.path.join("workspace") && path.is_absolute() => {
            SourceFolder::open(&path).ok()
        }
        _ => None,
    };
    // If the configured workspace does not exist, the folder was copied from another machine.
    let (workspace, below) = match &other {
        Some(other) => (other, ""),
        None => (source, "workspace/"),
    };
    for (name, into) in DOCUMENTS {
        import_document(workspace, below, name, into, found);
    }
    let mut daily = workspace.names(&format!("{below}memory"), ".md").unwrap_or_else(|error| {
        found.skip(error.to_string());
        Vec::new()
    });
    // Daily notes are named by their date. Other names may contain anything.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    daily.retain(|name| name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(plain));
    let older = daily.len().saturating_sub(MAX_DAILY_NOTES);
    for name in &daily[older..] {
        import_document(workspace, below, &format!("memory/{name}"), Document::Memory, found);
    }
    if older > 0 {
        found.skip(format!(
            "{older} older daily {} in {}: `memory.md` is part of every prompt; copy what is to be remembered into it",
            if older == 1 { "note" } else { "notes" },
            workspace.path.join(below).join("memory").display()
        ));
    }
    for (name, why) in [
        ("BOOT.md", "add it to agents.md as the hook `startup`"),
        ("skills", "agents have their own skills"),
    ] {
        if workspace.has(&format!("{below}{name}")) {
            found.skip(format!("{name}: {why}"));
        }
    }
    workspace.text(&format!("{below}HEARTBEAT.md"), MAX_DOCUMENT_BYTES).unwrap_or_else(|error| {
        found.skip(error.to_string());
        None
    })
}

/// Imports a document, if it exists.
fn import_document(
    source: &SourceFolder,
    below: &str,
    name: &str,
    into: Document,
    found: &mut ImportedConfig,
) {
    match source.text(&format!("{below}{name}"), MAX_DOCUMENT_BYTES) {
        Ok(Some(text)) => found.texts.push(ImportedDocument { into, from: name.to_owned(), text }),
        Ok(None) => {}
        Err(error) => found.skip(error.to_string()),
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OpenclawHeartbeat {
    every: Option<String>,
    prompt: Option<String>,
    target: Option<String>,
    to: Option<Value>,
    active_hours: Option<Hours>,
}

#[derive(Deserialize)]
struct Hours {
    start: String,
    end: String,
    timezone: Option<String>,
}

/// Imports the heartbeat of the default agent.
fn import_heartbeat(
    config: &Value,
    checklist: Option<String>,
    here: &LocalMachine,
    found: &mut ImportedConfig,
) {
    let about = config.pointer("/agents/defaults/heartbeat").cloned().unwrap_or_default();
    let about: OpenclawHeartbeat = match serde_json::from_value(about.clone()) {
        Ok(about) => about,
        Err(_) if about.is_null() => OpenclawHeartbeat::default(),
        Err(error) => return found.skip(format!("the heartbeat: {error}")),
    };
    // `OpenClaw` skips a heartbeat whose file contains only blank lines and headings.
    let says = |text: &String| {
        let words = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        text.lines().any(words)
    };
    let Some(instruction) = about.prompt.or(checklist.filter(says)) else { return };
    let every = about.every.as_deref().unwrap_or("30m");
    let seconds = match schedule::parse_duration(every) {
        Ok(0) => return found.skip("the heartbeat: it is switched off".to_owned()),
        Ok(seconds) => seconds,
        Err(fault) => return found.skip(format!("the heartbeat: {fault}")),
    };
    let mut zone = here.zone.clone();
    let mut active = None;
    if let Some(hours) = about.active_hours {
        if let Some(Ok(named)) = hours.timezone.as_deref().map(schedule::known_zone) {
            zone = Some(named);
        }
        match format!("{}-{}", hours.start, hours.end).parse::<ActiveHours>() {
            Ok(hours) => active = Some(hours.to_string()),
            Err(fault) => return found.skip(format!("the heartbeat: {fault}")),
        }
    }
    if let Err(fault) = schedule::interval(seconds) {
        return found.skip(format!("the heartbeat: {fault}"));
    }
    let when = JobSchedule::Every { seconds, active };
    let channel = about
        .to
        .as_ref()
        .and_then(channel_id)
        .filter(|_| about.target.as_deref() == Some("discord"));
    let name = "OpenClaw heartbeat".to_owned();
    found.jobs.push(ImportedJob { name, when, instruction, channel, zone });
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OpenclawJob {
    name: Option<String>,
    #[serde(default = "yes")]
    enabled: bool,
    schedule: OpenclawSchedule,
    payload: OpenclawPayload,
    delivery: Option<OpenclawDelivery>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum OpenclawSchedule {
    At {},
    Every {
        every_ms: u64,
    },
    Cron {
        expr: String,
        tz: Option<String>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum OpenclawPayload {
    SystemEvent {
        text: String,
    },
    AgentTurn {
        message: String,
        /// Destination of the answer in older jobs, which have no `delivery`.
        deliver: Option<bool>,
        channel: Option<String>,
        to: Option<Value>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct OpenclawDelivery {
    mode: Option<String>,
    channel: Option<String>,
    to: Option<Value>,
}

fn import_jobs(
    source: &SourceFolder,
    here: &LocalMachine,
    found: &mut ImportedConfig,
) -> Result<(), MigrateError> {
    let export = source.text(EXPORT, MAX_SETTINGS_BYTES)?;
    if export.is_none() && source.has("state/openclaw.sqlite") {
        let folder = source.path.display();
        found.skip(format!(
            "cron jobs: they are in a database (state/openclaw.sqlite); run `openclaw cron list --all --json > {folder}/{EXPORT}`, then repeat this command"
        ));
        return Ok(());
    }
    let (file, text) = match export {
        Some(text) => (EXPORT, text),
        None => match source.text("cron/jobs.json", MAX_SETTINGS_BYTES)? {
            Some(text) => ("cron/jobs.json", text),
            None => return Ok(()),
        },
    };
    let store: Value = json5(&text).map_err(|error| MigrateError::Syntax { file, error })?;
    if !store["version"].is_null() && store["version"] != 1 {
        return Err(MigrateError::StoreVersion { file, version: store["version"].clone() });
    }
    let jobs = store["jobs"].as_array().ok_or(MigrateError::NoJobs(file))?;
    for (at, job) in jobs.iter().enumerate() {
        let named = job["name"].as_str().or(job["id"].as_str());
        let called = named.map_or_else(|| format!("number {}", at + 1), str::to_owned);
        match convert_job(job, &called, here) {
            Ok(job) => found.jobs.push(job),
            Err(why) => found.skip(format!("cron job {called}: {why}")),
        }
    }
    Ok(())
}

fn convert_job(
    job: &Value,
    called: &str,
    here: &LocalMachine,
) -> Result<ImportedJob, UnsupportedJob> {
    let job: OpenclawJob = OpenclawJob::deserialize(job)?;
    if !job.enabled {
        return Err(UnsupportedJob::SwitchedOff);
    }
    let (when, zone) = match job.schedule {
        OpenclawSchedule::Cron { expr, tz } => {
            let zone = tz.map(|tz| schedule::known_zone(&tz)).transpose()?;
            (schedule::parse_cron(&expr)?, zone.or_else(|| here.zone.clone()))
        }
        OpenclawSchedule::Every { every_ms } => {
            (schedule::interval(every_ms / 1_000)?, here.zone.clone())
        }
        OpenclawSchedule::At {} => return Err(UnsupportedJob::RunsOnce),
        OpenclawSchedule::Other => return Err(UnsupportedJob::UnknownSchedule),
    };
    let mut delivery = job.delivery;
    let instruction = match job.payload {
        OpenclawPayload::SystemEvent { text } => text,
        OpenclawPayload::AgentTurn { message, deliver, channel, to } => {
            let legacy = OpenclawDelivery { mode: None, channel, to };
            delivery = delivery.or(Some(legacy).filter(|_| deliver != Some(false)));
            message
        }
        OpenclawPayload::Other => return Err(UnsupportedJob::NoAgent),
    };
    let discord = delivery.filter(|to| {
        to.mode.as_deref() != Some("webhook") && to.channel.as_deref() == Some("discord")
    });
    let channel = discord.and_then(|to| channel_id(to.to.as_ref()?));
    let name = job.name.unwrap_or_else(|| called.to_owned());
    Ok(ImportedJob { name, when, instruction, channel, zone })
}

/// Imports the channels in which the app answers without being mentioned.
fn import_channels(config: &Value, found: &mut ImportedConfig) {
    let mut people = 0;
    let accounts = config.pointer("/channels/discord/accounts").and_then(Value::as_object);
    let accounts = accounts.into_iter().flat_map(|accounts| accounts.values());
    for account in config.pointer("/channels/discord").into_iter().chain(accounts) {
        people += account["allowFrom"].as_array().map_or(0, Vec::len);
        for (guild, about) in account["guilds"].as_object().into_iter().flatten() {
            people += about["users"].as_array().map_or(0, Vec::len);
            if about["requireMention"] == false {
                found.skip(format!(
                    "server {guild}: answers without a mention: set this for each channel (`require-mention: no` in channels.md)"
                ));
            }
            for (name, channel) in about["channels"].as_object().into_iter().flatten() {
                let Some(id) = snowflake(name) else {
                    found.skip(format!("channel {name}: its id is unknown"));
                    continue;
                };
                if channel["requireMention"] == false {
                    found.channels.push(id);
                }
                if channel["systemPrompt"].is_string() {
                    found.skip(format!("channel {id}: channels cannot have their own system prompt; write an AGENTS.md or CLAUDE.md into its directory"));
                }
                if channel["enabled"] == false || channel["allow"] == false {
                    found.skip(format!("channel {id}: it is switched off; set the channels to answer in ALLOWED_CHANNELS"));
                }
            }
        }
    }
    if people > 0 {
        found.skip(format!(
            "its access lists (length: {people}): set who may use the bot with `aetheel init`"
        ));
    }
    if config["bindings"].as_array().is_some_and(|bindings| !bindings.is_empty()) {
        found.skip("bindings of channels to agents: give a channel its directory or backend with `/project` or in channels.md");
    }
}
