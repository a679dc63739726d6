//! Warns two conversations whose agents use the same file, and asks people before an agent writes a
//! file that another conversation uses.
//!
//! Each turn reports the files that its agent read and wrote ([`TurnFiles`]). One task ([`watch`])
//! resolves their paths, finds collisions, and posts a notice in both lanes ([`messages`]). Turns
//! never wait for it, except that a request for permission to write waits for an answer from it if
//! the lane's setting is `ask`. Agents in different checkouts never collide, because the paths of
//! their files differ. [`mutes`] has the buttons below the notices. `docs/collisions.md` describes
//! all of it. Tested by `tests/dispatch/collisions.rs` and `tests/dispatch/claims.rs`.

pub(crate) mod checkouts;
mod concurrent_claims;
mod messages;
pub(crate) mod mutes;
pub(crate) mod news;
pub(crate) mod watch;

use std::fs::Metadata;
use std::future::Future;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use self::checkouts::CheckoutPlace;
use self::news::FileNews;
use super::Shared;
use super::recovery::restart::notice_target;
use aetheel_model::agent::{Ask, AskKind, ToolEnd, ToolStart, ToolStatus};
use aetheel_model::choice::CollisionMode;
use aetheel_model::event::{Event, Lane};
use aetheel_model::file_use::{FileAccess, LaneFileUse};
use aetheel_model::id::ChannelId;
use aetheel_model::plain::short_line;
use aetheel_runtime::clock::Clock;
use aetheel_store::workspace::LaneSettings;
use aetheel_turn::WorkingDirectory;

/// The number of uses that may wait for the task. Further ones are dropped and logged.
const WAITING_USES: usize = 10_000;
/// The maximum length of a person's name in a notice, in characters.
const MAX_AUTHOR: usize = 80;
/// The longest time for which a request of an agent waits for the check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of files of a request that are checked.
const MAX_CHECKED_FILES: usize = 50;

/// A message to the task that finds collisions.
#[derive(Debug)]
pub(crate) enum FileReport {
    /// An agent used a file.
    Used(ReportedUse),
    /// An agent asks whether it may write files.
    Planned(PlannedWrite),
    /// Another machine sent news.
    News(FileNews),
}

/// The use of a file, before its path is resolved.
#[derive(Debug)]
pub(crate) struct ReportedUse {
    used: LaneFileUse,
    /// The id of the person who started the turn.
    person: Option<String>,
    /// The path, as the agent reported it.
    path: String,
    place: TurnPlace,
    /// Whether a previous process saw the use, and warned people about its collisions.
    repeated: bool,
}

/// Files that an agent is about to write.
#[derive(Debug)]
pub(crate) struct PlannedWrite {
    lane: Lane,
    person: Option<String>,
    paths: Vec<String>,
    checkout: CheckoutPlace,
    /// Receives why people must be asked, if they must.
    reply_tx: oneshot::Sender<Option<String>>,
}

/// The place of a turn: its working directory, and the channel for notices.
#[derive(Clone, Debug)]
struct TurnPlace {
    checkout: CheckoutPlace,
    channel: Option<ChannelId>,
}

/// Receives the uses of files from running turns.
#[derive(Clone, Debug)]
pub(crate) struct CollisionMonitor(mpsc::Sender<FileReport>);

impl CollisionMonitor {
    /// Creates a monitor, and the receiver for [`watch::warn_people`].
    pub(crate) fn new() -> (Self, mpsc::Receiver<FileReport>) {
        let (sender, receiver) = mpsc::channel(WAITING_USES);
        (Self(sender), receiver)
    }

    /// Returns the reporter for a turn in a working directory. It reports nothing if nobody would be
    /// warned in any lane.
    pub(crate) async fn turn_files(
        &self,
        shared: &Shared,
        event: &Event,
        settings: &LaneSettings,
        cwd: &Path,
    ) -> TurnFiles {
        let mode = mode_of(shared, settings);
        let is_on = |settings: &LaneSettings| {
            settings.collisions.is_some_and(|mode| mode != CollisionMode::Off)
        };
        let is_watched = mode != CollisionMode::Off
            || shared.deps.choices.collisions != CollisionMode::Off
            || shared.deps.workspace.channels().await.lanes().any(|(_, lane)| is_on(lane));
        TurnFiles {
            monitor: is_watched.then(|| self.clone()),
            asks: mode == CollisionMode::Ask,
            clock: shared.deps.clock.clone(),
            lane: event.lane.clone(),
            author: event.author.as_deref().map(|name| short_line(name, MAX_AUTHOR)),
            person: event.asker.map(|person| person.to_string()),
            place: TurnPlace {
                checkout: CheckoutPlace::of(cwd, settings, shared.deps.machine.is_some()),
                channel: notice_target(event).0,
            },
        }
    }
}

/// Returns what happens in a lane when two conversations use the same file.
fn mode_of(shared: &Shared, settings: &LaneSettings) -> CollisionMode {
    settings.collisions.unwrap_or(shared.deps.choices.collisions)
}

/// Reports the files that one turn uses.
pub(crate) struct TurnFiles {
    /// `None` if nobody would be warned.
    monitor: Option<CollisionMonitor>,
    /// Whether people are asked before the agent writes a file of another conversation.
    asks: bool,
    clock: Clock,
    lane: Lane,
    author: Option<String>,
    person: Option<String>,
    place: TurnPlace,
}

impl TurnFiles {
    /// Reports the files of a tool use that has ended. `repeated` is `true` if a previous process
    /// reported them before.
    pub(crate) fn on_tool_end(&self, end: &ToolEnd, start: Option<&ToolStart>, repeated: bool) {
        let Some(monitor) = &self.monitor else { return };
        let succeeded = end.status == ToolStatus::Ok;
        let target = start.filter(|_| succeeded).and_then(|start| {
            let access = match start.kind.as_str() {
                "file_read" => FileAccess::Read,
                "file_write" | "file_edit" => FileAccess::Write,
                _ => return None,
            };
            Some((start.target.as_deref()?, access))
        });
        // The agent reports a change also if a later step of the tool failed, and some agents if it
        // was declined.
        let diffs = if end.status == ToolStatus::Denied { &[][..] } else { &end.diffs[..] };
        let changed = diffs.iter().flat_map(|diff| {
            [Some(diff.path.as_str()), diff.old_path.as_deref()].into_iter().flatten()
        });
        for (path, access) in
            target.into_iter().chain(changed.map(|path| (path, FileAccess::Write)))
        {
            let (lane, author) = (self.lane.clone(), self.author.clone());
            let reported = FileReport::Used(ReportedUse {
                used: LaneFileUse { lane, author, access, at_ms: self.clock.boot_ms() },
                person: self.person.clone(),
                path: path.to_owned(),
                place: self.place.clone(),
                repeated,
            });
            if monitor.0.try_send(reported).is_err() {
                tracing::warn!(lane = %self.lane, "a use of a file is not checked for collisions: too many are waiting");
            }
        }
    }

    /// Begins to check whether people must be asked before the agent writes the files of a request.
    /// Returns `None` if the request writes no files, or nobody is asked in this lane. The result
    /// is the reason, for people.
    pub(crate) fn check(
        &self,
        ask: &Ask,
    ) -> Option<impl Future<Output = Option<String>> + Send + use<>> {
        let monitor = self.monitor.clone().filter(|_| self.asks)?;
        let AskKind::Permission(tool) = &ask.kind else { return None };
        let target =
            tool.target.iter().filter(|_| matches!(tool.kind.as_str(), "file_write" | "file_edit"));
        let changed =
            ask.diffs.iter().flat_map(|diff| [Some(&diff.path), diff.old_path.as_ref()]).flatten();
        // A request for several files may name them on the lines of its target.
        let paths = target.flat_map(|target| target.lines()).chain(changed.map(String::as_str));
        let mut paths: Vec<String> = paths.map(str::to_owned).collect();
        paths.sort();
        paths.dedup();
        paths.truncate(MAX_CHECKED_FILES);
        if paths.is_empty() {
            return None;
        }
        let (reply_tx, reply) = oneshot::channel();
        let (lane, person) = (self.lane.clone(), self.person.clone());
        let checkout = self.place.checkout.clone();
        let planned = FileReport::Planned(PlannedWrite {
            lane: lane.clone(),
            person,
            paths,
            checkout,
            reply_tx,
        });
        Some(async move {
            let checked = async {
                monitor.0.send(planned).await.ok()?;
                reply.await.ok()
            };
            match timeout(CHECK_TIMEOUT, checked).await {
                Ok(Some(reason)) => reason,
                Ok(None) | Err(_) => {
                    tracing::warn!(%lane, "cannot check in time whether another conversation uses the files of a request");
                    None
                }
            }
        })
    }
}

/// A file that an agent uses.
struct ResolvedFile {
    /// The identity of the working directory.
    directory: PathBuf,
    /// The identity of the file's name.
    path: PathBuf,
    /// The identity of the file, or `None` if it does not exist.
    node: Option<FileNode>,
}

/// Identifies a file under all its names, also after it was renamed: device, number and time of
/// creation, because numbers of deleted files are used again.
type FileNode = (u64, u64, SystemTime);

/// Returns a file if it is below the working directory. A deleted file is found through its folder.
/// Blocks while it accesses the file system.
fn resolve(checkout: &CheckoutPlace, path: &str) -> Option<ResolvedFile> {
    let cwd = &checkout.directory;
    let path = cwd.join(path);
    let found = path.canonicalize().ok().or_else(|| {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    })?;
    let opened = WorkingDirectory::open(cwd).ok()?;
    let below = found.strip_prefix(opened.path()).ok()?;
    let directory = checkout.identity(&opened);
    let path = directory.join(below);
    let metadata = std::fs::metadata(&found).ok().filter(Metadata::is_file);
    let node = metadata.and_then(|file| Some((file.dev(), file.ino(), file.created().ok()?)));
    Some(ResolvedFile { directory, path, node })
}
