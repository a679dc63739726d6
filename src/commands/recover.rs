//! `aetheel recover`: reads lost replies again with the current components, and makes the gateway
//! deliver them.

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::context::{block_on_command, start_log, with_sound_settings};
use crate::cli::{Common, exit};
use crate::startup::LoadedBackends;
use crate::startup::StartRefusal;
use crate::startup::settings::OperatorSettings;
use crate::terminal::{self, ColumnAlignment, OutputStyle, aligned};
use aetheel_model::event::Lane;
use aetheel_model::plain::{short_line, with_causes};
use aetheel_recording::Backend;
use aetheel_recording::reread::{RereadError, reread};
use aetheel_store::workspace::{FileError, LockError, LostState, LostTurn, LostTurns, Workspace};
use aetheel_turn::Backends as _;

const GATEWAY_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between two checks of the gateway's progress.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const MAX_SHOWN_CHARS: usize = 60;

/// A lost turn, and the outcome of reading it again.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct RecoveryRow {
    turn: String,
    /// When it was lost, as RFC 3339.
    when: String,
    lane: String,
    backend: String,
    /// `delivered`, `readable` or `unreadable`.
    outcome: &'static str,
    /// The reason for the outcome, or the next step.
    note: Option<String>,
    /// The beginning of the reply.
    text: Option<String>,
}

/// The reason why a lost reply cannot be read.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error("its backend is not in BACKENDS_DIR")]
    NoBackend,
    #[error("its backend is still the one that could not read it")]
    SameComponent,
    /// The backend cannot read it either.
    #[error(transparent)]
    Reread(#[from] RereadError),
}

/// The reason why the gateway does not deliver the replies now.
#[derive(Debug, thiserror::Error)]
enum NotDelivered {
    #[error("no gateway runs: the next start delivers it")]
    NoGateway,
    #[error("not delivered: {}", with_causes(.0))]
    Request(#[source] FileError),
    #[error("not delivered: {}", with_causes(.0))]
    Lock(#[source] LockError),
}

/// Arguments of `aetheel recover`.
#[derive(Args, Debug)]
pub struct RecoverArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// Only show the replies that would be delivered
    #[arg(long)]
    dry_run: bool,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

impl RecoverArgs {
    pub(super) fn run(self) -> u8 {
        with_sound_settings(&self.common, |settings| block_on_command(recover(settings, &self)))
    }
}

async fn recover(settings: OperatorSettings, args: &RecoverArgs) -> Result<u8, u8> {
    let OperatorSettings { config, variables, redactor, .. } = settings;
    start_log(&redactor)?;
    let workspace = Workspace::open(&config.config_dir).await.map_err(|error| {
        let fault = format!("CONFIG_DIR: {}", with_causes(&error));
        StartRefusal::because(exit::CONFIG, fault).print()
    })?;
    let lost = workspace.state.lost.clone();
    let mut turns = lost.all().await;
    turns.retain(|turn| turn.state.is_open());
    let mut rows = Vec::new();
    if !turns.is_empty() {
        let loaded = LoadedBackends::load(&config, &variables)
            .await
            .map_err(|faults| StartRefusal::new(exit::UNAVAILABLE, faults).print())?;
        for turn in &turns {
            let read = match loaded.agents.get(&turn.backend) {
                Some(backend) => {
                    reread_turn(&*backend, &config.recordings_dir.join(&turn.recording), turn).await
                }
                None => Err(Unreadable::NoBackend),
            };
            rows.push(row(turn, read.map(|text| redactor.redact(text))));
        }
    }
    if !args.dry_run {
        deliver(&workspace, &lost, &turns, &mut rows).await;
    }
    let text = match serde_json::to_string_pretty(&rows) {
        Ok(text) if args.json => text + "\n",
        _ => table(&rows, OutputStyle::for_stdout()),
    };
    terminal::print(&redactor.redact(text));
    let is_unreadable = rows.iter().any(|row| row.outcome == "unreadable");
    Ok(if is_unreadable { exit::FAILED } else { exit::OK })
}

async fn reread_turn(
    backend: &dyn Backend,
    recording: &std::path::Path,
    turn: &LostTurn,
) -> Result<String, Unreadable> {
    if backend.generation().digest == turn.digest {
        return Err(Unreadable::SameComponent);
    }
    Ok(reread(backend, recording, &turn.turn).await?.text)
}

fn row(turn: &LostTurn, read: Result<String, Unreadable>) -> RecoveryRow {
    let when = jiff::Timestamp::from_millisecond(turn.at_ms)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .strftime("%Y-%m-%dT%H:%M:%SZ");
    let (outcome, note, text) = match read {
        Ok(text) => ("readable", None, Some(short_line(&text, MAX_SHOWN_CHARS))),
        Err(error) => ("unreadable", Some(short_line(&error.to_string(), MAX_SHOWN_CHARS)), None),
    };
    let (lane, backend) = (turn.lane.to_string(), turn.backend.clone());
    RecoveryRow {
        turn: turn.turn.clone(),
        when: when.to_string(),
        lane,
        backend,
        outcome,
        note,
        text,
    }
}

/// Makes the gateway deliver the readable replies. If none runs, the next one does it when it
/// starts.
async fn deliver(
    workspace: &Workspace,
    lost: &LostTurns,
    turns: &[LostTurn],
    rows: &mut [RecoveryRow],
) {
    let at_terminal = |row: &RecoveryRow| {
        turns.iter().any(|turn| turn.turn == row.turn && turn.lane == Lane::Console)
    };
    let mut wanted = Vec::new();
    for row in rows.iter_mut().filter(|row| row.outcome == "readable") {
        if at_terminal(row) {
            row.note = Some(
                "the prompt came from the terminal: `/recover` in `aetheel console` delivers it"
                    .to_owned(),
            );
        } else {
            wanted.push(row.turn.clone());
        }
    }
    if wanted.is_empty() {
        return;
    }
    let note = match request_delivery(workspace, lost, &wanted).await {
        Ok(()) => "the gateway did not confirm the delivery in time; see its log".to_owned(),
        Err(error) => error.to_string(),
    };
    let now = lost.all().await;
    for row in rows.iter_mut().filter(|row| wanted.contains(&row.turn)) {
        match now.iter().find(|turn| turn.turn == row.turn).map(|turn| turn.state) {
            Some(LostState::Delivered) => row.outcome = "delivered",
            Some(LostState::GivenUp) => {
                row.note = Some("given up: it could not be posted".to_owned())
            }
            _ => row.note = Some(note.clone()),
        }
    }
}

/// Requests the delivery, and waits until all turns are done or the time limit is over.
///
/// # Errors
/// Returns [`NotDelivered::NoGateway`] if no gateway runs, and another error if a file cannot be
/// written.
async fn request_delivery(
    workspace: &Workspace,
    lost: &LostTurns,
    wanted: &[String],
) -> Result<(), NotDelivered> {
    let until = Instant::now() + GATEWAY_TIMEOUT;
    let mut still = wanted.to_vec();
    while Instant::now() < until {
        if lost.requested().await.is_none() {
            // Requested again if the gateway has not loaded the new component yet.
            lost.request(&still).await.map_err(NotDelivered::Request)?;
        }
        match workspace.lock() {
            Ok(_nobody_else) => return Err(NotDelivered::NoGateway),
            Err(LockError::Other { .. }) => {}
            Err(error) => return Err(NotDelivered::Lock(error)),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        let now = lost.all().await;
        still.retain(|id| now.iter().any(|turn| turn.turn == *id && turn.state.is_open()));
        if still.is_empty() {
            // Removes a repeated request, whose turns are done.
            return lost.request_done().await.map_err(NotDelivered::Request);
        }
    }
    Ok(())
}

fn table(rows: &[RecoveryRow], style: OutputStyle) -> String {
    if rows.is_empty() {
        return "no reply is lost\n".to_owned();
    }
    let cells: Vec<[String; 5]> = rows
        .iter()
        .map(|row| [&*row.turn, &row.when, &row.lane, &row.backend, row.outcome].map(str::to_owned))
        .collect();
    let mut text = String::new();
    for (row, line) in rows.iter().zip(aligned(&cells, ColumnAlignment::Left)) {
        let outcome = match row.outcome {
            "unreadable" => style.bad(row.outcome),
            _ => style.good(row.outcome),
        };
        text.push_str(&line.replacen(row.outcome, &outcome, 1));
        for more in [&row.text, &row.note].into_iter().flatten() {
            text.push_str(&format!("  {more}"));
        }
        text.push('\n');
    }
    text
}
