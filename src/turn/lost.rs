//! Turns whose answer no parser could read: keeping their recordings, and reading them again with a newer one.
//!
//! Owns the folder `lost` below the recordings and what counts as an answer; which turns were lost is noted in
//! [`crate::workspace::LostTurns`], what becomes of them is decided in `dispatch`. Pinned by the tests below,
//! `tests/dispatch/lost.rs` and `tests/gateway/recovery.rs`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::recording::What;
use super::replay::{Batches, Tape, replay};
use super::{Backend, pruning};
use crate::agent::descriptor::Sharing;
use crate::agent::{Command, Input, Outcome, SessionReady, Usage};

/// Where kept recordings are, below the folder of all.
pub const FOLDER: &str = "lost";

/// Longest time for reading one turn again.
const READING: Duration = Duration::from_secs(20);
/// Inputs a call.
const BATCH: usize = 256;

/// What a newer parser reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Reread {
    /// The agent's text; empty when it only used tools.
    pub text: String,
    /// The agent never came to its end: this is what it had said until then.
    pub cut: bool,
    /// The agent's session.
    pub session: Option<SessionReady>,
    /// Tokens and money.
    pub usage: Option<Usage>,
    /// Where the agent worked.
    pub cwd: Option<String>,
    /// From the turn's start to its end.
    pub took: Duration,
}

/// Keeps a recording under another name: the same file, or where that is not possible a copy of what there is. One that is
/// kept already stays. Blocks.
///
/// # Errors
/// What the system says.
pub(super) fn keep(from: &Path, to: &Path) -> io::Result<()> {
    let folder = to.parent().ok_or(io::ErrorKind::InvalidInput)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    match fs::hard_link(from, to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
        // Not every file system can.
        Err(_) => {
            let mut copy = match OpenOptions::new().create_new(true).write(true).mode(0o600).open(to) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
                copy => copy?,
            };
            io::copy(&mut File::open(from)?, &mut copy)?;
            copy.sync_all()
        }
        Ok(()) => fs::set_permissions(to, fs::Permissions::from_mode(0o600)),
    }
}

/// Removes kept recordings older than `max_age`, then the oldest until the rest is within `max_bytes`. `folder` is that of
/// all recordings. Returns how many went. Blocks.
///
/// # Errors
/// When the folder cannot be listed. A single file that cannot be removed is skipped.
pub fn prune(folder: &Path, max_age: Duration, max_bytes: u64, now: SystemTime) -> io::Result<usize> {
    let mut files = Vec::new();
    match pruning::recordings_in(&folder.join(FOLDER), now, &mut files) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
        Ok(()) => Ok(pruning::prune_files(files, max_age, max_bytes, now)),
    }
}

/// Tells a recording once more to a backend, up to the end of a turn, and returns the answer it finds there. Takes at most
/// 20 s; dropping the future leaves nothing behind.
///
/// # Errors
/// Why there is no answer, in words for the operator.
pub async fn reread(backend: &dyn Backend, recording: &Path, turn: &str) -> Result<Reread, String> {
    let path = recording.to_owned();
    let read = tokio::task::spawn_blocking(move || tape(&path)).await.map_err(|error| error.to_string())?;
    let told = tokio::time::timeout(READING, answer(backend, read?, turn)).await;
    told.unwrap_or_else(|_| Err(format!("reading it takes longer than {} s", READING.as_secs())))
}

fn tape(path: &Path) -> Result<Tape, String> {
    let bytes = fs::read(path).map_err(|error| format!("the recording cannot be opened: {error}"))?;
    let text = String::from_utf8_lossy(&bytes);
    // It may still be written to.
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    Tape::read(whole)
}

async fn answer(backend: &dyn Backend, mut tape: Tape, turn: &str) -> Result<Reread, String> {
    let key = tape.key_of(turn).ok_or("the recording does not tell of this turn")?;
    let begun = tape.entries.iter().position(|entry| matches!(&entry.what, What::Turn { turn: id, .. } if id == turn)).unwrap_or(0);
    if let Some(end) = tape.entries.iter().position(|entry| matches!(&entry.what, What::Ending { turn: id, .. } if id == turn)) {
        tape.entries.truncate(end + 1);
    }
    if tape.entries.iter().any(|entry| matches!(entry.what, What::Lost(_))) {
        return Err("the recording has gaps: the disk was too slow for it".to_owned());
    }
    let cwd = tape.entries.iter().find_map(|entry| match &entry.what {
        What::In(Input::Command(Command::StartTurn(start))) if start.turn == key => Some(start.cwd.clone()),
        _ => None,
    });
    let last = tape.entries.last().map_or(0.0, |entry| entry.t);
    let took = Duration::try_from_secs_f64((last - tape.entries.get(begun).map_or(0.0, |entry| entry.t)) / 1000.0).unwrap_or_default();
    let mut replayed = replay(backend, &tape.entries, Batches::Of(BATCH)).await.map_err(|failure| failure.to_string())?;
    let failed = replayed.failure.take().map(|(_, failure)| failure.to_string());
    let told = replayed.turns.remove(&key).unwrap_or_default();
    let text = told.text();
    let said = !text.trim().is_empty();
    let lasting = backend.descriptor().sharing != Sharing::Turn;
    let cut = match told.done.as_ref().map(|done| &done.outcome) {
        Some(Outcome::Completed) if said || !told.transcript.tools().is_empty() => false,
        Some(Outcome::Completed) => return Err("it finds the end of the turn, but no answer".to_owned()),
        Some(Outcome::Interrupted | Outcome::Limit(_)) if said => true,
        Some(Outcome::Interrupted | Outcome::Limit(_)) => return Err("the agent was stopped before it answered".to_owned()),
        Some(Outcome::Failed(failure) | Outcome::Lost(failure)) => return Err(format!("the agent failed: {}", failure.message)),
        None => match failed {
            Some(failure) => return Err(failure),
            // A long-lived agent goes with its guest, in mid-turn.
            None if lasting && said => true,
            None => return Err("it does not find the end of the turn".to_owned()),
        },
    };
    let usage = told.done.as_ref().and_then(|done| done.usage).or(told.transcript.usage());
    Ok(Reread { text, cut, session: told.session, usage, cwd, took })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str, bytes: usize, age_s: u64, now: SystemTime) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, vec![b'x'; bytes]).expect("written");
        let at = now - Duration::from_secs(age_s);
        File::options().write(true).open(&path).expect("open").set_modified(at).expect("set");
    }

    fn left(folder: &Path) -> Vec<String> {
        let files = fs::read_dir(folder.join(FOLDER)).into_iter().flatten().flatten();
        let mut names: Vec<String> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_kept_recording_outlives_the_ordinary_pruning_and_has_limits_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let (folder, now) = (folder.path(), SystemTime::now());
        file(folder, "2026-01-01/a.jsonl", 10, 900, now);
        file(folder, "2026-01-01/b.jsonl", 10, 500, now);
        for name in ["a", "b"] {
            let from = folder.join(format!("2026-01-01/{name}.jsonl"));
            keep(&from, &folder.join(FOLDER).join(format!("{name}.jsonl"))).expect("kept");
            keep(&from, &folder.join(FOLDER).join(format!("{name}.jsonl"))).expect("kept once more");
        }
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&folder.join(FOLDER)), mode(&folder.join("lost/a.jsonl"))), (0o700, 0o600));
        assert_eq!(pruning::prune(folder, Duration::from_secs(100), 1 << 20, now).expect("pruned"), 2);
        assert!(!folder.join("2026-01-01").exists());
        assert_eq!(left(folder), ["a.jsonl", "b.jsonl"], "both are still there");
        assert_eq!(prune(folder, Duration::from_secs(1000), 15, now).expect("pruned"), 1);
        assert_eq!(left(folder), ["b.jsonl"], "the older one was over the size");
        assert_eq!(prune(folder, Duration::from_secs(100), 1 << 20, now).expect("pruned"), 1);
        assert_eq!(left(folder), Vec::<String>::new());
        assert_eq!(prune(folder, Duration::ZERO, 0, now).expect("nothing is there"), 0);
    }

    #[test]
    fn what_is_written_after_it_was_kept_is_kept_too() {
        use std::io::Write as _;
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("x.jsonl"), folder.path().join("lost/x.jsonl"));
        let mut open = File::create(&from).expect("made");
        keep(&from, &to).expect("kept");
        open.write_all(b"more").expect("written");
        assert_eq!(fs::read(&to).expect("there"), b"more");
        assert!(keep(&folder.path().join("gone.jsonl"), &folder.path().join("lost/gone.jsonl")).is_err());
    }
}
