//! Reads cc-connect: projects, channels with directories, and cron jobs.
//!
//! Based on github.com/chenhg5/cc-connect: `config.example.toml` at 005aa87 (projects, heartbeats,
//! `data_dir`), `core/cron.go` at 02c24a2 (`crons/jobs.json`) and `core/workspace_binding.go` at
//! 1aa2239 (`workspace_bindings.json`). Cron expressions are those of robfig/cron, in the time zone
//! of the machine.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::LocalMachine;
use super::error::{MigrateError, UnsupportedJob};
use super::ids::{channel_of_key, snowflake};
use super::imported::{ImportedChannel, ImportedConfig, ImportedJob, ImportedProject};
use super::schedule::{self, SecondsField};
use super::source::{MAX_SETTINGS_BYTES, SourceFolder};

#[derive(Deserialize)]
struct CcConnectConfig {
    data_dir: Option<String>,
    #[serde(default)]
    projects: Vec<ProjectConfig>,
}

#[derive(Deserialize)]
struct ProjectConfig {
    name: String,
    mode: Option<String>,
    #[serde(default)]
    agent: CcConnectAgent,
    #[serde(default)]
    platforms: Vec<ChatPlatform>,
    heartbeat: Option<CcConnectHeartbeat>,
}

#[derive(Deserialize, Default)]
struct CcConnectAgent {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    options: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct ChatPlatform {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    options: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct CcConnectHeartbeat {
    #[serde(default)]
    enabled: bool,
    #[serde(default = "half_an_hour")]
    interval_mins: u64,
    #[serde(default)]
    session_key: String,
    #[serde(default)]
    prompt: String,
}

fn half_an_hour() -> u64 {
    30
}

/// Reads everything that can be imported.
///
/// # Errors
/// The folder does not belong to cc-connect, or its format is unknown.
pub(super) fn read(
    source: &SourceFolder,
    here: &LocalMachine,
) -> Result<ImportedConfig, MigrateError> {
    let mut found = ImportedConfig::of("cc-connect");
    let text = source.text("config.toml", MAX_SETTINGS_BYTES)?.ok_or_else(|| {
        MigrateError::OtherApp { folder: source.path.clone(), files: "no config.toml" }
    })?;
    // `message` does not quote the file, which may contain tokens.
    let whole: Value =
        toml::from_str(&text).map_err(|error| MigrateError::Toml(error.message().to_owned()))?;
    found.secrets.add_settings("config.toml", &whole);
    let config = CcConnectConfig::deserialize(&whole).map_err(|error| {
        let reason = found.secrets.redactor().redact(error.to_string());
        MigrateError::UnknownFormat { file: "config.toml", reason }
    })?;
    if let Some(data) = config.data_dir.filter(|data| !data.trim().is_empty()) {
        found.skip(format!(
            "cron jobs and bindings in {data}: copy `crons` and `workspace_bindings.json` from there beside config.toml, then run this again"
        ));
    }
    for project in config.projects {
        import_project(project, here, &mut found);
    }
    import_bindings(source, &mut found)?;
    import_jobs(source, here, &mut found)?;
    for (name, why) in [
        ("sessions", "conversations are not imported"),
        ("commands", "agents have their own commands"),
    ] {
        if source.has(name) {
            found.skip(format!("{name}: {why}"));
        }
    }
    Ok(found)
}

fn import_project(project: ProjectConfig, here: &LocalMachine, found: &mut ImportedConfig) {
    let ProjectConfig { name, mode, agent, platforms, heartbeat } = project;
    for platform in platforms.iter().filter(|platform| platform.kind != "discord") {
        found.skip(format!("project {name}: {} is not Discord", platform.kind));
    }
    for platform in platforms.iter().filter(|platform| platform.kind == "discord") {
        let people = platform.options.get("allow_from").and_then(Value::as_str).unwrap_or("*");
        if people != "*" {
            found.skip(format!(
                "project {name}: its allow_from ({people}): set who may use the bot with `aetheel init --users`"
            ));
        }
    }
    let option = |key: &str| agent.options.get(key).and_then(Value::as_str);
    if mode.as_deref() != Some("multi-workspace")
        && let Some(directory) = option("work_dir").filter(|path| !path.is_empty())
    {
        found
            .projects
            .push(ImportedProject { name: name.clone(), directory: directory.to_owned() });
    }
    if !["", "claudecode"].contains(&agent.kind.as_str()) {
        found.skip(format!(
            "project {name}: its agent {}: choose a backend with `aetheel init`, or with `backend` in channels.md",
            agent.kind
        ));
    }
    for key in ["mode", "model", "reasoning_effort", "allowed_tools", "disallowed_tools"] {
        if agent.options.contains_key(key) {
            found.skip(format!(
                "project {name}: `{key}`: see docs/configuration.md for the corresponding setting"
            ));
        }
    }
    let Some(heartbeat) = heartbeat.filter(|heartbeat| heartbeat.enabled) else { return };
    let called = format!("heartbeat of project {name}");
    if heartbeat.prompt.trim().is_empty() {
        found.skip(format!(
            "{called}: its instruction is HEARTBEAT.md in its work_dir; copy it into heartbeat.md"
        ));
        return;
    }
    match schedule::interval(heartbeat.interval_mins.saturating_mul(60)) {
        Ok(when) => found.jobs.push(ImportedJob {
            name: format!("{name} heartbeat"),
            when,
            instruction: heartbeat.prompt,
            channel: channel_of_key(&heartbeat.session_key),
            zone: here.zone.clone(),
        }),
        Err(fault) => found.skip(format!("{called}: {fault}")),
    }
}

#[derive(Deserialize)]
struct WorkspaceBinding {
    #[serde(default)]
    channel_name: String,
    workspace: String,
}

/// Imports the channels with directories.
fn import_bindings(source: &SourceFolder, found: &mut ImportedConfig) -> Result<(), MigrateError> {
    let file = "workspace_bindings.json";
    let Some(text) = source.text(file, MAX_SETTINGS_BYTES)? else { return Ok(()) };
    let all: BTreeMap<String, BTreeMap<String, WorkspaceBinding>> = serde_json::from_str(&text)
        .map_err(|error| MigrateError::UnknownFormat { file, reason: error.to_string() })?;
    for (key, bound) in all.into_values().flatten() {
        // Keys of earlier versions do not name the platform; a Discord id is recognized by its
        // length.
        match channel_of_key(&key).or_else(|| snowflake(&key).filter(|_| key.len() >= 17)) {
            Some(id) => found.channels.push(ImportedChannel {
                id,
                name: Some(bound.channel_name).filter(|name| !name.is_empty()),
                directory: Some(bound.workspace),
                needs_no_mention: false,
            }),
            None => found.skip(format!("channel {key}: it is not a Discord channel")),
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct CcConnectJob {
    #[serde(default)]
    session_key: String,
    cron_expr: String,
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    exec: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    enabled: bool,
}

fn import_jobs(
    source: &SourceFolder,
    here: &LocalMachine,
    found: &mut ImportedConfig,
) -> Result<(), MigrateError> {
    let file = "crons/jobs.json";
    let Some(text) = source.text(file, MAX_SETTINGS_BYTES)? else { return Ok(()) };
    let jobs: Vec<Value> = serde_json::from_str(&text)
        .map_err(|error| MigrateError::UnknownFormat { file, reason: error.to_string() })?;
    for (at, job) in jobs.iter().enumerate() {
        let named =
            job["description"].as_str().filter(|text| !text.is_empty()).or(job["id"].as_str());
        let called = named.map_or_else(|| format!("number {}", at + 1), str::to_owned);
        match convert_job(job, here) {
            Ok(job) => found.jobs.push(job),
            Err(why) => found.skip(format!("cron job {called}: {why}")),
        }
    }
    Ok(())
}

fn convert_job(job: &Value, here: &LocalMachine) -> Result<ImportedJob, UnsupportedJob> {
    let job: CcConnectJob = CcConnectJob::deserialize(job)?;
    if !job.enabled {
        return Err(UnsupportedJob::SwitchedOff);
    }
    if !job.exec.is_empty() || job.prompt.trim().is_empty() {
        return Err(UnsupportedJob::OnlyCommand);
    }
    let (when, zone) = schedule::parse_cron(&job.cron_expr, SecondsField::Elsewhere)?;
    let channel = channel_of_key(&job.session_key);
    let name = if job.description.is_empty() { job.prompt.clone() } else { job.description };
    Ok(ImportedJob {
        name,
        when,
        instruction: job.prompt,
        channel,
        zone: zone.or_else(|| here.zone.clone()),
    })
}
