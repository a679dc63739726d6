//! `aetheel policy replay`: compares a policy's decisions about recorded requests with the answers
//! of people.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::report::{ReplayReport, ReplayedRequest};
use crate::open;
use aetheel::cli::{PolicyReplayArgs, exit};
use aetheel::commands::context::start_log;
use aetheel::commands::kit::KitError;
use aetheel::startup::settings::OperatorSettings;
use aetheel::terminal;
use aetheel_dispatch::AUTOMATIC_REFUSALS;
use aetheel_kit::answered::{AnsweredRequest, RequestReader};
use aetheel_model::event::Lane;
use aetheel_model::policy::{PolicyContext, PolicyRequest, PolicyRuling};
use aetheel_model::redact::Redactor;
use aetheel_recording::{
    Header, MAX_READ_BYTES, ReadError, RecordingEntry, RecordingLines, newest,
};
use aetheel_runtime::ordinary::open_ordinary;
use aetheel_settings::Config;
use aetheel_store::workspace::{Channels, Workspace};

const MAX_LINE_BYTES: usize = 16 << 20;

/// The reason why a recording is left out.
#[derive(Debug, thiserror::Error)]
enum UnreadRecording {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Damaged(#[from] ReadError),
}

pub(crate) async fn run(settings: OperatorSettings, args: &PolicyReplayArgs) -> u8 {
    let OperatorSettings { config, redactor, .. } = settings;
    if let Err(code) = start_log(&redactor) {
        return code;
    }
    match replay(&config, &redactor, args).await {
        Ok(report) => {
            if args.json {
                terminal::json(&report);
            } else {
                report.print(&redactor);
            }
            if report.is_dangerous() { exit::FAILED } else { exit::OK }
        }
        Err(unable) => unable.report(),
    }
}

async fn replay(
    config: &Config,
    redactor: &Redactor,
    args: &PolicyReplayArgs,
) -> Result<ReplayReport, KitError> {
    let policy = super::policy(&open::engine()?, &args.component).await?;
    let facts = RecordedContexts::read(config, args.since).await;
    let mut report = ReplayReport::new(super::title(&policy), &policy);
    for path in recordings(config, args).await? {
        let read_path = path.clone();
        let read = tokio::task::spawn_blocking(move || read(&read_path));
        let requests = match read.await.map_err(io::Error::other) {
            Ok(Ok(requests)) => requests,
            Ok(Err(error)) => {
                report.leave_out(&path, &error.to_string());
                continue;
            }
            Err(error) => return Err(KitError::usage(error.to_string())),
        };
        report.recordings += 1;
        for request in requests {
            let context = facts.context_of(&request);
            // The same as in a running turn: people decide about a request without a vote.
            let Some(asked) = PolicyRequest::of(context, &request.ask, redactor) else { continue };
            let vote = policy.decide(&asked).await.bounded(redactor);
            let ruling = PolicyRuling::of(request.ask.ask, &asked, vec![vote], config.policy_allow);
            report.add(ReplayedRequest::new(&request, &ruling));
        }
    }
    Ok(report)
}

/// Returns the recordings to read, the oldest first.
async fn recordings(config: &Config, args: &PolicyReplayArgs) -> Result<Vec<PathBuf>, KitError> {
    if !args.recordings.is_empty() {
        return Ok(args.recordings.clone());
    }
    let folder = config.recordings_dir.clone();
    let listed = tokio::task::spawn_blocking(move || newest(&folder, usize::MAX)).await;
    let listed = listed.map_err(io::Error::other).and_then(|listed| listed);
    let mut paths = listed.map_err(|error| {
        KitError::usage(format!("RECORDINGS_DIR {}: {error}", config.recordings_dir.display()))
    })?;
    let day = |path: &Path| path.parent()?.file_name()?.to_str()?.parse::<Date>().ok();
    if let Some(since) = args.since {
        paths.retain(|path| day(path).is_none_or(|day| day >= since));
    }
    paths.reverse();
    Ok(paths)
}

/// Reads the requests of a recording. Blocks.
fn read(path: &Path) -> Result<Vec<AnsweredRequest>, UnreadRecording> {
    let file = open_ordinary(path)?;
    let mut lines = RecordingLines::new(file.take(MAX_READ_BYTES), MAX_LINE_BYTES);
    let header = Header::parse(lines.next_line()?.map_or(&b""[..], |line| line.bytes))?;
    let mut reader = RequestReader::new(header, &AUTOMATIC_REFUSALS);
    while let Some(line) = lines.next_line()? {
        let text = String::from_utf8_lossy(line.bytes);
        if line.is_too_long || !RequestReader::is_relevant(&text) {
            continue;
        }
        // A damaged line is like a missing one, and the last one may be incomplete.
        if let Ok(entry) = serde_json::from_str::<RecordingEntry>(&text) {
            reader.add(entry);
        }
    }
    Ok(reader.finish())
}

/// The facts about turns that recordings do not contain.
struct RecordedContexts {
    people: HashMap<String, String>,
    channels: Option<std::sync::Arc<Channels>>,
}

impl RecordedContexts {
    async fn read(config: &Config, since: Option<Date>) -> Self {
        let Ok(workspace) = Workspace::open(&config.config_dir).await else {
            return Self { people: HashMap::new(), channels: None };
        };
        let to = TimeZone::UTC.to_datetime(Timestamp::now()).date();
        let from = since.unwrap_or(Date::MIN);
        let turns = workspace.turns();
        let people = turns.days(from, to, HashMap::new(), |people, line| {
            if let Some(user) = line.user {
                people.insert(line.turn, user.to_string());
            }
        });
        Self { people: people.await, channels: Some(workspace.channels().await) }
    }

    fn context_of(&self, request: &AnsweredRequest) -> PolicyContext {
        let lane: Option<Lane> = request.lane.parse().ok();
        let settings = lane.and_then(|lane| Some(self.channels.as_ref()?.of(&lane)));
        PolicyContext {
            backend: request.backend.clone(),
            lane: request.lane.clone(),
            project: settings.and_then(|settings| settings.project),
            person: self.people.get(&request.turn).cloned(),
            safety: request.safety,
            cwd: request.cwd.clone(),
        }
    }
}
