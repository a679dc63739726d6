//! Reads Kimaki: channels with directories, and scheduled tasks.
//!
//! Based on github.com/remorses/kimaki: `cli/src/schema.ts` at 108cb55 (the tables),
//! `cli/src/config.ts` at 1e8c09a (the folder) and `cli/src/cli-commands/task.ts` at 226fea3
//! (tasks, in UTC by default). The database is not read directly: its tables are read from the
//! output of `sqlite3 -json`.

use serde::Deserialize;
use serde_json::Value;

use super::error::{MigrateError, UnsupportedJob};
use super::ids::snowflake;
use super::imported::{ImportedChannel, ImportedConfig, ImportedJob};
use super::schedule::{self, SecondsField};
use super::source::{MAX_SETTINGS_BYTES, SourceFolder};

const TABLES: [&str; 3] = ["channel_directories", "channel_mention_mode", "scheduled_tasks"];
/// File names of the database, the current one first.
const DATABASES: [&str; 2] = ["kimaki.db", "discord-sessions.db"];

#[derive(Deserialize)]
struct Directory {
    channel_id: String,
    directory: String,
    channel_type: Option<String>,
}

#[derive(Deserialize)]
struct MentionMode {
    channel_id: String,
    enabled: i64,
}

#[derive(Deserialize)]
struct KimakiTask {
    status: String,
    schedule_kind: String,
    cron_expr: Option<String>,
    timezone: Option<String>,
    payload_json: String,
    prompt_preview: Option<String>,
    channel_id: Option<String>,
}

/// Reads everything that can be imported.
///
/// # Errors
/// The folder does not belong to Kimaki, or its tables have not been exported to files.
pub(super) fn read(source: &SourceFolder) -> Result<ImportedConfig, MigrateError> {
    let mut found = ImportedConfig::of("Kimaki");
    let folder = source.path.display();
    let database = DATABASES.into_iter().find(|name| source.has(name));
    let has_tables = TABLES.iter().any(|table| source.has(&format!("{table}.json")));
    let export = |database: &str| {
        let tables = TABLES.join(" ");
        format!(
            "for table in {tables}; do sqlite3 -json '{folder}/{database}' \"SELECT * FROM $table\" > '{folder}/'$table.json; done"
        )
    };
    match database {
        None if !has_tables => {
            return Err(MigrateError::OtherApp {
                folder: source.path.clone(),
                files: "neither kimaki.db nor discord-sessions.db",
            });
        }
        Some(database) if !has_tables => {
            return Err(MigrateError::Database { database, export: export(database) });
        }
        _ => {}
    }
    let modes: Vec<MentionMode> = read_table(source, "channel_mention_mode")?;
    for row in read_table::<Directory>(source, "channel_directories")? {
        let Some(id) = snowflake(&row.channel_id) else {
            found.skip(format!("channel {}: it does not have a Discord id", row.channel_id));
            continue;
        };
        if row.channel_type.as_deref() == Some("voice") {
            found.skip(format!("channel {id}: voice channels are not supported"));
            continue;
        }
        let is_mentioned =
            |mode: &MentionMode| mode.channel_id == row.channel_id && mode.enabled == 1;
        found.channels.push(ImportedChannel {
            id,
            name: None,
            needs_no_mention: !modes.iter().any(is_mentioned),
            directory: Some(row.directory),
        });
    }
    for row in read_table::<KimakiTask>(source, "scheduled_tasks")? {
        let called = row.prompt_preview.clone().unwrap_or_default();
        match convert_task(row) {
            Ok(Some(job)) => found.jobs.push(job),
            Ok(None) => {}
            Err(why) => found.skip(format!("task {called}: {why}")),
        }
    }
    for (what, why) in [
        ("tokens and API keys in the database", "set the bot's with `aetheel init`"),
        ("conversations and worktrees", "they are not imported"),
        (
            "models of channels",
            "they belong to OpenCode: choose OpenCode and a model with `/settings`",
        ),
    ] {
        found.skip(format!("{what}: {why}"));
    }
    Ok(found)
}

/// Reads the rows of an exported table. Returns no rows if the file is missing or empty.
fn read_table<Row: for<'a> Deserialize<'a>>(
    source: &SourceFolder,
    table: &'static str,
) -> Result<Vec<Row>, MigrateError> {
    let file = format!("{table}.json");
    let Some(text) = source.text(&file, MAX_SETTINGS_BYTES)? else { return Ok(Vec::new()) };
    serde_json::from_str(&text).map_err(|error| MigrateError::Table { table, error })
}

/// Converts a task, or returns `None` if it is finished.
fn convert_task(row: KimakiTask) -> Result<Option<ImportedJob>, UnsupportedJob> {
    if !["planned", "running"].contains(&row.status.as_str()) {
        return Ok(None);
    }
    let expression = match (row.schedule_kind.as_str(), row.cron_expr) {
        ("cron", Some(expression)) => expression,
        ("at", _) => return Err(UnsupportedJob::RunsOnce),
        _ => return Err(UnsupportedJob::UnknownSchedule),
    };
    let (when, _) = schedule::parse_cron(&expression, SecondsField::Elsewhere)?;
    let zone = schedule::known_zone(row.timezone.as_deref().unwrap_or("UTC"))?;
    let payload: Value = serde_json::from_str(&row.payload_json)?;
    let instruction = payload["prompt"].as_str().unwrap_or_default().to_owned();
    if payload["preRunCommand"].is_string() {
        return Err(UnsupportedJob::CommandBefore);
    }
    let name = row.prompt_preview.unwrap_or_else(|| instruction.clone());
    let channel = row.channel_id.as_deref().and_then(snowflake);
    Ok(Some(ImportedJob { name, when, instruction, channel, zone: Some(zone) }))
}
