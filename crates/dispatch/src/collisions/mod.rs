//! Warns two conversations whose agents use the same file.
//!
//! Each turn reports the files that its agent read and wrote ([`TurnFiles`]). One task resolves
//! their paths, finds collisions ([`FileUses`]), and posts a notice in both lanes ([`messages`]).
//! Turns never wait for it. Agents in different checkouts never collide, because the paths of their
//! files differ. `docs/collisions.md` describes all of it. Tested by `tests/dispatch/collisions.rs`.

mod messages;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use self::messages::FilePlace;
use super::Shared;
use super::outlet::Notice;
use super::recovery::restart::notice_target;
use aetheel_model::agent::{ToolEnd, ToolStart, ToolStatus};
use aetheel_model::event::{Event, Lane};
use aetheel_model::figures;
use aetheel_model::file_use::{Collision, FileAccess, FileUses, LaneFileUse};
use aetheel_model::id::ChannelId;
use aetheel_model::lease::boot_ms;
use aetheel_model::plain::short_line;

/// How long the use of a file counts, in milliseconds.
const WINDOW_MS: u64 = 15 * 60 * 1_000;
/// Collisions within this time share one notice per lane.
const NOTICE_DELAY: Duration = Duration::from_millis(800);
/// The number of uses that may wait for the task. Further ones are dropped and logged.
const WAITING_USES: usize = 10_000;
/// The maximum length of a person's name in a notice, in characters.
const MAX_AUTHOR: usize = 80;

/// The use of a file, before its path is resolved.
#[derive(Debug)]
pub(crate) struct ReportedUse {
    used: LaneFileUse,
    /// The path, as the agent reported it.
    path: String,
    place: TurnPlace,
    /// Whether a previous process saw the use, and warned people about its collisions.
    repeated: bool,
}

/// The place of a turn: its working directory, and the channel for notices.
#[derive(Clone, Debug)]
struct TurnPlace {
    cwd: PathBuf,
    channel: Option<ChannelId>,
}

/// Receives the uses of files from running turns.
#[derive(Clone, Debug)]
pub(crate) struct CollisionMonitor(mpsc::Sender<ReportedUse>);

impl CollisionMonitor {
    /// Creates a monitor, and the receiver for [`warn_people`].
    pub(crate) fn new() -> (Self, mpsc::Receiver<ReportedUse>) {
        let (sender, receiver) = mpsc::channel(WAITING_USES);
        (Self(sender), receiver)
    }

    /// Returns the reporter for a turn in a working directory.
    pub(crate) fn turn_files(&self, event: &Event, cwd: &Path) -> TurnFiles {
        TurnFiles {
            monitor: self.clone(),
            lane: event.lane.clone(),
            author: event.author.as_deref().map(|name| short_line(name, MAX_AUTHOR)),
            place: TurnPlace { cwd: cwd.to_owned(), channel: notice_target(event).0 },
        }
    }
}

/// Reports the files that one turn uses.
pub(crate) struct TurnFiles {
    monitor: CollisionMonitor,
    lane: Lane,
    author: Option<String>,
    place: TurnPlace,
}

impl TurnFiles {
    /// Reports the files of a tool use that has ended. `repeated` is `true` if a previous process
    /// reported them before.
    pub(crate) fn on_tool_end(&self, end: &ToolEnd, start: Option<&ToolStart>, repeated: bool) {
        let succeeded = end.status == ToolStatus::Ok;
        let target = start.filter(|_| succeeded).and_then(|start| {
            let access = match start.kind.as_str() {
                "file_read" => FileAccess::Read,
                "file_write" | "file_edit" => FileAccess::Write,
                _ => return None,
            };
            Some((start.target.as_deref()?, access))
        });
        // The agent reports a change also if a later step of the tool failed.
        let changed = end.diffs.iter().flat_map(|diff| {
            [Some(diff.path.as_str()), diff.old_path.as_deref()].into_iter().flatten()
        });
        for (path, access) in
            target.into_iter().chain(changed.map(|path| (path, FileAccess::Write)))
        {
            let (lane, author) = (self.lane.clone(), self.author.clone());
            let reported = ReportedUse {
                used: LaneFileUse { lane, author, access, at_ms: boot_ms() },
                path: path.to_owned(),
                place: self.place.clone(),
                repeated,
            };
            if self.monitor.0.try_send(reported).is_err() {
                tracing::warn!(lane = %self.lane, "a use of a file is not checked for collisions: too many are waiting");
            }
        }
    }
}

/// Finds collisions among the reported uses and warns people, until the dispatcher is dropped.
pub(crate) async fn warn_people(shared: Weak<Shared>, mut reported: mpsc::Receiver<ReportedUse>) {
    let mut found = FoundCollisions::default();
    let mut uses = FileUses::new(WINDOW_MS);
    while let Some(first) = reported.recv().await {
        found.find(&mut uses, first).await;
        let until = Instant::now() + NOTICE_DELAY;
        while !found.is_empty()
            && let Ok(Some(next)) = timeout_at(until, reported.recv()).await
        {
            found.find(&mut uses, next).await;
        }
        let Some(shared) = shared.upgrade() else { return };
        for (lane, (channel, places)) in std::mem::take(&mut found.by_lane) {
            warn_lane(&shared, &lane, channel, &places).await;
        }
    }
}

/// The collisions that people are not warned about yet, by the lane that is to be warned.
#[derive(Default)]
struct FoundCollisions {
    by_lane: BTreeMap<Lane, (Option<ChannelId>, Vec<FilePlace>)>,
    /// The place of the latest turn in each lane that used a file.
    places: BTreeMap<Lane, TurnPlace>,
}

impl FoundCollisions {
    fn is_empty(&self) -> bool {
        self.by_lane.is_empty()
    }

    /// Records a use, and keeps the collisions that it causes.
    async fn find(&mut self, uses: &mut FileUses, reported: ReportedUse) {
        let ReportedUse { used, path, place: TurnPlace { cwd, channel }, repeated } = reported;
        let resolved = tokio::task::spawn_blocking(move || resolve(&cwd, &path)).await;
        let Some((cwd, path)) = resolved.ok().flatten() else { return };
        self.places.insert(used.lane.clone(), TurnPlace { cwd, channel });
        for Collision { path, earlier, later } in uses.record(&path, used) {
            if repeated {
                continue;
            }
            figures::count_collision();
            tracing::info!(path = %path.display(), lane = %later.lane, other = %earlier.lane, "two conversations use the same file");
            self.add(FilePlace::new(&path, &later, &earlier));
            self.add(FilePlace::new(&path, &earlier, &later));
        }
    }

    fn add(&mut self, place: FilePlace) {
        let Some(TurnPlace { cwd, channel }) = self.places.get(&place.here.lane) else { return };
        let places = self.by_lane.entry(place.here.lane.clone()).or_insert((*channel, Vec::new()));
        places.1.push(place.below(cwd));
    }
}

/// Posts a notice in a lane, unless warnings are off there.
async fn warn_lane(shared: &Shared, lane: &Lane, channel: Option<ChannelId>, places: &[FilePlace]) {
    let (_, settings) = shared.channels.backend_of(lane).await;
    if !settings.collisions.unwrap_or(shared.deps.choices.collisions) {
        return;
    }
    // A lane without a channel is that of the console, or its people read no notices.
    if channel.is_none() && *lane != Lane::Console {
        return;
    }
    let text = shared.deps.redactor.redact(messages::warning(places, boot_ms()));
    let notice = Notice { channel, about: None, text, offers: Vec::new() };
    if let Err(error) = shared.deps.outlet.notify(notice).await {
        tracing::warn!(%lane, %error, "cannot post the warning about files that two conversations use");
    }
}

/// Returns the working directory and the file, both without links, if the file is below the
/// directory. A deleted file is found through its folder. Blocks while it accesses the file system.
fn resolve(cwd: &Path, path: &str) -> Option<(PathBuf, PathBuf)> {
    let path = cwd.join(path);
    let found = path.canonicalize().ok().or_else(|| {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    })?;
    let cwd = cwd.canonicalize().ok()?;
    found.starts_with(&cwd).then_some((cwd, found))
}
