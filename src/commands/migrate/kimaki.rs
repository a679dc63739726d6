//! Kimaki: channels with their directories, and scheduled tasks, which it keeps in a database.
//!
//! Read after github.com/remorses/kimaki: `cli/src/schema.ts` at 108cb55 (the tables),
//! `cli/src/config.ts` at 1e8c09a (the folder), `cli/src/cli-commands/task.ts` at 226fea3 (tasks,
//! whose times are UTC where none is named). Tables are read as `sqlite3 -json` prints them.

use serde::Deserialize;
use serde_json::Value;

use super::found::{Channel, Found, Job};
use super::ids::snowflake;
use super::schedule::{self, Seconds};
use super::source::{SETTINGS, Source};

const TABLES: [&str; 3] = ["channel_directories", "channel_mention_mode", "scheduled_tasks"];
/// Files of the database, the newest name first.
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
struct Task {
    status: String,
    schedule_kind: String,
    cron_expr: Option<String>,
    timezone: Option<String>,
    payload_json: String,
    prompt_preview: Option<String>,
    channel_id: Option<String>,
}

/// Reads all that is known.
///
/// # Errors
/// The folder is none of its, or its tables are not there as files.
pub(super) fn read(source: &Source) -> Result<Found, String> {
    let mut found = Found::of("Kimaki");
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
            let names = DATABASES.join(" nor ");
            return Err(format!("{folder}: there is neither {names}; name its folder with --from"));
        }
        Some(database) if !has_tables => {
            return Err(format!(
                "{database} is a database, which is not read here; run this, then the same again (no token is in these tables):\n  {}",
                export(database)
            ));
        }
        _ => {}
    }
    let modes: Vec<MentionMode> = table(source, "channel_mention_mode")?;
    for row in table::<Directory>(source, "channel_directories")? {
        let Some(id) = snowflake(&row.channel_id) else {
            found.leave(format!("channel {}: it has no id of Discord's", row.channel_id));
            continue;
        };
        if row.channel_type.as_deref() == Some("voice") {
            found.leave(format!("channel {id}: voice channels have no agent here"));
            continue;
        }
        let is_mentioned =
            |mode: &MentionMode| mode.channel_id == row.channel_id && mode.enabled == 1;
        found.channels.push(Channel {
            id,
            name: None,
            needs_no_mention: !modes.iter().any(is_mentioned),
            directory: Some(row.directory),
        });
    }
    for row in table::<Task>(source, "scheduled_tasks")? {
        let called = row.prompt_preview.clone().unwrap_or_default();
        match task(row) {
            Ok(Some(job)) => found.jobs.push(job),
            Ok(None) => {}
            Err(why) => found.leave(format!("task {called}: {why}")),
        }
    }
    for (what, why) in [
        ("tokens and API keys in the database", "set the bot's with `aetheel init`"),
        ("conversations and worktrees", "they begin anew"),
        ("models of channels", "they are OpenCode's: choose OpenCode and a model with `/settings`"),
    ] {
        found.leave(format!("{what}: {why}"));
    }
    Ok(found)
}

/// The rows of a table; none where it was not printed, or is empty.
fn table<Row: for<'a> Deserialize<'a>>(source: &Source, name: &str) -> Result<Vec<Row>, String> {
    let file = format!("{name}.json");
    let Some(text) = source.text(&file, SETTINGS)? else { return Ok(Vec::new()) };
    serde_json::from_str(&text).map_err(|error| {
        format!(
            "{file} is not what `sqlite3 -json` prints of the table `{name}` that is known: {error}"
        )
    })
}

/// A task that runs again and again; none: it is over.
fn task(row: Task) -> Result<Option<Job>, String> {
    if !["planned", "running"].contains(&row.status.as_str()) {
        return Ok(None);
    }
    let expression = match (row.schedule_kind.as_str(), row.cron_expr) {
        ("cron", Some(expression)) => expression,
        ("at", _) => return Err("it runs once; jobs here run again and again".to_owned()),
        _ => return Err("its schedule is of a kind that is not known".to_owned()),
    };
    let (when, _) = schedule::when(&expression, Seconds::Elsewhere)?;
    let zone = schedule::known_zone(row.timezone.as_deref().unwrap_or("UTC"))?;
    let payload: Value =
        serde_json::from_str(&row.payload_json).map_err(|error| error.to_string())?;
    let instruction = payload["prompt"].as_str().unwrap_or_default().to_owned();
    if payload["preRunCommand"].is_string() {
        return Err("a command runs before it, which does not run here".to_owned());
    }
    let name = row.prompt_preview.unwrap_or_else(|| instruction.clone());
    let channel = row.channel_id.as_deref().and_then(snowflake);
    Ok(Some(Job { name, when, instruction, channel, zone: Some(zone) }))
}
