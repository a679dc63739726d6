//! `state/turns/`: one line for each turn that ended, in a file for each day (of its end, in UTC).
//!
//! Owns the format of these lines ([`TurnLine`]), how long they are kept, and the sums of their
//! costs ([`costs`], [`CostSheet`]). A thread writes the lines (`writer`), so that turns do not
//! wait; `days` accesses the files. Files are read line by line, and only the results are kept in
//! memory. A power failure may lose the last lines. Tested here and in `tests/gateway/turns.rs`.

pub mod costs;
mod days;
mod line;
mod sheet;
mod writer;

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use tokio::sync::Semaphore;

use self::costs::LaneCosts;
pub use self::days::TurnRetention;
pub use self::line::{ANSWERED_LIMIT, ASKED_LIMIT, TurnLine, TurnStatus};
pub(super) use self::line::{read_text, write_text};
pub use self::sheet::CostSheet;
use self::writer::TurnWriter;
use super::blocking::blocking;
use aetheel_model::event::Lane;

/// Maximum number of bytes that one search reads.
const SEARCH_LIMIT: u64 = 256 << 20;
/// Maximum number of searches that run at the same time.
const READERS: usize = 2;
/// Maximum wait for lines that are not written yet.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The criteria of a search.
#[derive(Clone, Debug, Default)]
pub struct TurnSearch {
    /// Words that must all occur in the prompt, the answer, the person's name, the backend or the
    /// turn's id. Case is ignored. Empty for any turn.
    pub words: String,
    /// The lane, or `None` for any lane.
    pub lane: Option<Lane>,
    /// If set, only turns that ended before this time are found.
    pub before: Option<Timestamp>,
    /// Maximum number of turns that are returned.
    pub most: usize,
}

/// The finished turns. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct FinishedTurns(Arc<TurnsInner>);

#[derive(Debug)]
struct TurnsInner {
    folder: PathBuf,
    /// The writer thread. The first line starts it.
    writer: OnceLock<TurnWriter>,
    readers: Arc<Semaphore>,
}

impl FinishedTurns {
    /// Opens the turns in a folder, which is created with the first line.
    pub(super) fn new(folder: PathBuf) -> Self {
        let readers = Arc::new(Semaphore::new(READERS));
        Self(Arc::new(TurnsInner { folder, writer: OnceLock::new(), readers }))
    }

    /// Opens the finished turns of a configuration folder, for commands that read them whatever the
    /// state of the other files is.
    #[must_use]
    pub fn of_folder(config_dir: &Path) -> Self {
        Self::new(config_dir.join("state").join("turns"))
    }

    fn writer(&self) -> &TurnWriter {
        self.0.writer.get_or_init(|| TurnWriter::start(self.0.folder.clone()))
    }

    /// Queues the line of a turn to be written. Never waits: if the disk is too slow, the line is
    /// dropped and counted.
    pub fn note(&self, line: TurnLine) {
        self.writer().line(line.bounded(), false);
    }

    /// Does the same as [`FinishedTurns::note`], unless an earlier gateway process already wrote
    /// the turn.
    pub fn note_if_missing(&self, line: TurnLine) {
        self.writer().line(line.bounded(), true);
    }

    /// Waits until the system has everything queued so far, for at most a second.
    pub async fn flush(&self) {
        if let Some(writer) = self.0.writer.get() {
            let _ = tokio::time::timeout(FLUSH_TIMEOUT, writer.flush()).await;
        }
    }

    /// Removes lines and texts that are too old.
    ///
    /// # Errors
    /// Returns the error of the system; the next call continues where this one ended.
    pub async fn tidy(&self, retention: TurnRetention) -> io::Result<()> {
        self.writer().tidy(retention).await
    }

    /// Returns the line of a turn with this id.
    pub async fn find(&self, turn: &str) -> Option<TurnLine> {
        if turn.is_empty() {
            return None;
        }
        let turn = turn.to_owned();
        self.read(move |folder| {
            let mut found = None;
            for day in list_days(folder) {
                read_day(folder, day, |line| {
                    if days::may_mention(line, &turn) {
                        found = parse(line).filter(|line| line.turn == turn);
                    }
                    if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                if found.is_some() {
                    break;
                }
            }
            found
        })
        .await
    }

    /// Returns the turns that match a search, the newest first. Stops after reading 256 MiB.
    pub async fn search(&self, search: TurnSearch) -> Vec<TurnLine> {
        let words: Vec<String> = search.words.split_whitespace().map(str::to_lowercase).collect();
        self.read(move |folder| search_days(folder, &search, &words)).await
    }

    /// Passes all turns that ended on these days (in UTC, both included) to `take`, in order.
    /// Returns the value that `take` updated.
    pub async fn days<T: Send + 'static>(
        &self,
        from: Date,
        to: Date,
        mut sums: T,
        mut take: impl FnMut(&mut T, TurnLine) + Send + 'static,
    ) -> T {
        self.read(move |folder| {
            for day in list_days(folder).into_iter().rev().filter(|day| (from..=to).contains(day)) {
                read_day(folder, day, |line| {
                    if let Some(line) = parse(line) {
                        take(&mut sums, line);
                    }
                    ControlFlow::Continue(())
                });
            }
            sums
        })
        .await
    }

    /// Returns the costs of the turns of these days, by lane; see [`FinishedTurns::days`].
    pub async fn costs(&self, from: Date, to: Date) -> LaneCosts {
        self.days(from, to, LaneCosts::new(), |lanes, line| costs::add(lanes, &line)).await
    }

    /// Reads files on the blocking pool, after all queued lines were written.
    async fn read<T: Send + 'static>(&self, work: impl FnOnce(&Path) -> T + Send + 'static) -> T {
        self.flush().await;
        let alone = Arc::clone(&self.0.readers).acquire_owned().await;
        let folder = self.0.folder.clone();
        blocking(move || {
            // Held until the work is done, even if the caller no longer waits.
            let _alone = alone;
            work(&folder)
        })
        .await
    }
}

/// Returns the days that have turns, the latest first.
fn list_days(folder: &Path) -> Vec<Date> {
    days::days(folder).unwrap_or_else(|error| {
        tracing::warn!(folder = %folder.display(), %error, "cannot list the finished turns");
        Vec::new()
    })
}

/// Reads a day and returns its size in bytes. Logs an error.
fn read_day(folder: &Path, day: Date, take: impl FnMut(&[u8]) -> ControlFlow<()>) -> u64 {
    days::read(folder, day, take).unwrap_or_else(|error| {
        tracing::warn!(folder = %folder.display(), %day, %error, "cannot read the turns of a day");
        0
    })
}

fn parse(line: &[u8]) -> Option<TurnLine> {
    serde_json::from_slice(line).ok()
}

fn search_days(folder: &Path, search: &TurnSearch, words: &[String]) -> Vec<TurnLine> {
    let last = search.before.map_or(Date::MAX, days::day_of);
    let (mut found, mut bytes) = (Vec::new(), 0);
    for day in list_days(folder).into_iter().filter(|day| *day <= last) {
        let most = search.most.saturating_sub(found.len());
        if most == 0 || bytes > SEARCH_LIMIT {
            break;
        }
        let mut of_day = VecDeque::new();
        bytes += read_day(folder, day, |line| {
            if let Some(line) = parse(line).filter(|line| matches_search(line, search, words)) {
                if of_day.len() == most {
                    of_day.pop_front();
                }
                of_day.push_back(line);
            }
            ControlFlow::Continue(())
        });
        found.extend(of_day.into_iter().rev());
    }
    found
}

fn matches_search(line: &TurnLine, search: &TurnSearch, words: &[String]) -> bool {
    if search.lane.as_ref().is_some_and(|lane| *lane != line.lane)
        || search.before.is_some_and(|before| line.ended >= before)
    {
        return false;
    }
    if words.is_empty() {
        return true;
    }
    let texts = [line.asked.as_deref(), line.answered.as_deref(), line.name.as_deref()];
    let texts = texts.into_iter().flatten().chain([line.backend.as_str(), &line.turn]);
    let all = texts.collect::<Vec<_>>().join("\n").to_lowercase();
    words.iter().all(|word| all.contains(word.as_str()))
}

#[cfg(test)]
mod tests;
