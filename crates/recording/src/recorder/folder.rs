//! The folder of recordings while they are written: its files, their total size, and their removal.
//!
//! Only the thread that writes recordings uses it. Limits are enforced for every line: the oldest
//! recordings are removed to make room for it. If none can be removed, the recording is cut, and
//! its last line states the reason.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::retention::{self, StoredRecording};
use crate::format::{EntryKind, RecordingEntry};
use aetheel_runtime::figures;

/// Size of the write buffer of a recording, in bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// Space reserved for the last line of a recording that is cut, in bytes.
const LAST_LINE_BYTES: u64 = 512;
/// One recording may take this fraction of the folder's limit.
const PART: u64 = 4;

/// The limits of the folder of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingLimits {
    /// Maximum size of all recordings in bytes, without those of lost turns. One recording takes at
    /// most a quarter of it.
    pub bytes: u64,
    /// How long a recording is kept.
    pub age: Duration,
    /// Maximum size of the recordings of lost turns, in bytes.
    pub lost_bytes: u64,
    /// How long a recording of a lost turn is kept.
    pub lost_age: Duration,
}

impl RecordingLimits {
    /// No limits except the disk.
    pub const UNLIMITED: Self =
        Self { bytes: u64::MAX, age: Duration::MAX, lost_bytes: u64::MAX, lost_age: Duration::MAX };

    /// Returns the maximum size of one recording, in bytes.
    #[must_use]
    pub fn max_recording_bytes(&self) -> u64 {
        self.bytes / PART
    }
}

/// A recording file and its state, shared by its writer and the thread.
#[derive(Debug)]
pub(super) struct RecordingFile {
    pub(super) path: PathBuf,
    /// Whether nothing more is written to the file.
    pub(super) cut: AtomicBool,
    /// Whether the file was cut because there was no space, so that another recording may find
    /// some.
    pub(super) full: AtomicBool,
    /// Whether the file existed before this gateway process.
    continues: bool,
    /// The number of lines of this process that are written to the system, if something waits for
    /// them. It is `u64::MAX` once the recording is cut.
    pub(super) written: Option<watch::Sender<u64>>,
}

impl RecordingFile {
    pub(super) fn at(path: PathBuf) -> Self {
        Self {
            path,
            cut: AtomicBool::new(false),
            full: AtomicBool::new(false),
            continues: false,
            written: None,
        }
    }

    /// Makes the thread write each line as soon as possible and publish its progress.
    pub(super) fn written_ahead(self) -> Self {
        Self { written: Some(watch::Sender::new(0)), ..self }
    }

    pub(super) fn continued(self) -> Self {
        Self { continues: true, ..self }
    }

    /// Stops writing to the file and wakes everything that waits for its lines.
    pub(super) fn end(&self) {
        self.cut.store(true, Ordering::Relaxed);
        if let Some(written) = &self.written {
            written.send_replace(u64::MAX);
        }
    }
}

struct OpenRecording {
    target: Arc<RecordingFile>,
    file: File,
    /// Complete lines that are not written yet.
    waiting: Vec<u8>,
    /// The size of the file in bytes.
    written: u64,
    /// The number of lines added by this process.
    lines: u64,
}

impl OpenRecording {
    fn create(target: &Arc<RecordingFile>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).mode(0o600).create_new(!target.continues);
        let file = match options.open(&target.path) {
            // The first recording of a day, or somebody removed the folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(folder) = target.path.parent() {
                    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                }
                options.open(&target.path)?
            }
            opened => opened?,
        };
        let written = file.metadata()?.len();
        Ok(Self { target: Arc::clone(target), file, waiting: Vec::new(), written, lines: 0 })
    }

    fn bytes(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    /// Writes the buffer to the file. If that fails, the file is truncated to its last complete
    /// line.
    fn flush(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        if let Err(error) = self.file.write_all(&waiting) {
            let _ = self.file.set_len(self.written);
            return Err(error);
        }
        self.written += waiting.len() as u64;
        if let Some(written) = &self.target.written
            && !self.target.cut.load(Ordering::Relaxed)
        {
            written.send_replace(self.lines);
        }
        Ok(())
    }
}

pub(super) struct RecordingsFolder {
    folder: PathBuf,
    limits: RecordingLimits,
    open: HashMap<PathBuf, OpenRecording>,
    /// The closed recordings, the oldest first.
    closed: BTreeSet<StoredRecording>,
    /// The size of all recordings in bytes.
    bytes: u64,
}

impl RecordingsFolder {
    /// Reads the folder, and removes recordings if they exceed the limits.
    pub(super) fn open(folder: PathBuf, limits: RecordingLimits) -> Self {
        let mut recordings =
            Self { folder, limits, open: HashMap::new(), closed: BTreeSet::new(), bytes: 0 };
        // A folder that cannot be listed is reported when it is tidied or written to.
        let _ = recordings.rescan();
        recordings.make_room(0);
        recordings
    }

    /// Adds a line that was recorded at time `t`.
    ///
    /// # Errors
    /// The system's error. The recording is cut there.
    pub(super) fn line(
        &mut self,
        target: &Arc<RecordingFile>,
        t: f64,
        line: &str,
    ) -> io::Result<()> {
        if self.limits.bytes == 0 {
            // The operator disabled recordings.
            target.end();
            return Ok(());
        }
        let size = line.len() as u64 + 1;
        if target.cut.load(Ordering::Relaxed) {
            figures::recording_cut(size);
            return Ok(());
        }
        let so_far = self.open.get(&target.path).map_or(0, OpenRecording::bytes);
        let refusal = if so_far + size + LAST_LINE_BYTES > self.limits.max_recording_bytes() {
            Some("one recording may take a quarter of RECORDINGS_MAX_MIB")
        } else {
            (!self.make_room(size + LAST_LINE_BYTES))
                .then_some("RECORDINGS_MAX_MIB is reached, and nothing older can go")
        };
        if let Some(why) = refusal {
            target.full.store(true, Ordering::Relaxed);
            return self.cut(target, t, size, why);
        }
        self.append(target, line).inspect_err(|_| {
            // The caller reports the error. Without space on the disk, this fails too.
            let _ = self.cut(target, t, size, "it could not be written to the disk");
        })
    }

    fn append(&mut self, target: &Arc<RecordingFile>, line: &str) -> io::Result<()> {
        if !self.open.contains_key(&target.path) {
            // A continued recording was counted among the closed ones.
            self.closed.retain(|closed| closed.path != target.path);
            self.open.insert(target.path.clone(), OpenRecording::create(target)?);
        }
        let Some(recording) = self.open.get_mut(&target.path) else { return Ok(()) };
        let before = recording.bytes();
        recording.lines += 1;
        recording.waiting.extend_from_slice(line.as_bytes());
        recording.waiting.push(b'\n');
        let done = if recording.waiting.len() >= BUFFER_BYTES { recording.flush() } else { Ok(()) };
        self.bytes = self.bytes + recording.bytes() - before;
        done
    }

    /// Continues a recording that was cut because a line could not be written. `checkpoint` is the
    /// line of a checkpoint, before which its link added `lines` lines. Does nothing if the
    /// recording was not cut, or has no space.
    ///
    /// # Errors
    /// The system's error. The recording stays cut.
    pub(super) fn resume_at(
        &mut self,
        target: &Arc<RecordingFile>,
        t: f64,
        lines: u64,
        checkpoint: &str,
    ) -> io::Result<()> {
        let is_cut = target.cut.load(Ordering::Relaxed) && !target.full.load(Ordering::Relaxed);
        let size = checkpoint.len() as u64 + LAST_LINE_BYTES;
        let Some(recording) = self.open.get(&target.path).filter(|_| is_cut) else { return Ok(()) };
        if recording.bytes() + size > self.limits.max_recording_bytes() || !self.make_room(size) {
            return Ok(());
        }
        let lost = lines.saturating_sub(self.open.get(&target.path).map_or(0, |open| open.lines));
        let lost = serde_json::to_string(&RecordingEntry { t, kind: EntryKind::Lost(lost) })
            .map_err(io::Error::other)?;
        self.append(target, &lost)?;
        self.append(target, checkpoint)?;
        if let Some(recording) = self.open.get_mut(&target.path) {
            recording.lines = lines + 1;
        }
        target.cut.store(false, Ordering::Relaxed);
        self.flush_one(&target.path).inspect_err(|_| target.end())?;
        tracing::info!(recording = %target.path.display(), "a recording that was cut continues with a checkpoint");
        Ok(())
    }

    /// Ends a recording early, with a last line that says why.
    fn cut(&mut self, target: &Arc<RecordingFile>, t: f64, size: u64, why: &str) -> io::Result<()> {
        target.end();
        figures::recording_cut(size);
        tracing::warn!(recording = %target.path.display(), why, "a recording is cut; the rest of its link is not recorded");
        if !self.open.contains_key(&target.path) {
            return Ok(());
        }
        let last =
            serde_json::to_string(&RecordingEntry { t, kind: EntryKind::Cut(why.to_owned()) })
                .map_err(io::Error::other)?;
        self.append(target, &last)?;
        self.flush_one(&target.path)
    }

    fn flush_one(&mut self, path: &Path) -> io::Result<()> {
        let Some(recording) = self.open.get_mut(path) else { return Ok(()) };
        let before = recording.bytes();
        let done = recording.flush();
        if done.is_err() && recording.target.written.is_some() {
            // A line is missing, so nothing may depend on the lines after it.
            recording.target.end();
        }
        self.bytes = self.bytes + recording.bytes() - before;
        done
    }

    pub(super) fn close(&mut self, target: &Arc<RecordingFile>) -> io::Result<()> {
        let done = self.flush_one(&target.path);
        if let Some(recording) = self.open.remove(&target.path) {
            self.closed.insert(StoredRecording {
                modified: SystemTime::now(),
                path: target.path.clone(),
                bytes: recording.written,
            });
        }
        done
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let paths: Vec<PathBuf> = self.open.keys().cloned().collect();
        // Every recording is written, even if others fail.
        paths.iter().map(|path| self.flush_one(path)).fold(Ok(()), Result::and)
    }

    /// Writes the buffers of recordings whose progress something waits for.
    pub(super) fn flush_awaited(&mut self) -> io::Result<()> {
        let awaited = |recording: &&OpenRecording| {
            recording.target.written.is_some() && !recording.waiting.is_empty()
        };
        let paths: Vec<PathBuf> = self
            .open
            .values()
            .filter(awaited)
            .map(|recording| recording.target.path.clone())
            .collect();
        paths.iter().map(|path| self.flush_one(path)).fold(Ok(()), Result::and)
    }

    /// Keeps a recording of a lost turn, with all lines so far, within the limits for lost turns.
    pub(super) fn keep(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.flush_one(from)?;
        retention::keep(from, to)?;
        retention::prune_lost(
            &self.folder,
            self.limits.lost_age,
            self.limits.lost_bytes,
            SystemTime::now(),
        )
        .map(drop)
    }

    /// Reads the folder again, because other programs may have changed it, and removes recordings
    /// that are too old. Returns the number of removed recordings.
    pub(super) fn tidy(&mut self) -> io::Result<usize> {
        // The writers of these recordings ended without closing them.
        let left: Vec<Arc<RecordingFile>> = self
            .open
            .values()
            .filter(|recording| Arc::strong_count(&recording.target) == 1)
            .map(|recording| Arc::clone(&recording.target))
            .collect();
        left.iter().map(|target| self.close(target)).fold(Ok(()), Result::and)?;
        self.rescan()?;
        let now = SystemTime::now();
        let old = |closed: &&StoredRecording| {
            now.duration_since(closed.modified).is_ok_and(|age| age > self.limits.age)
        };
        let gone: Vec<StoredRecording> = self.closed.iter().filter(old).cloned().collect();
        let removed = gone.into_iter().filter(|closed| self.remove(closed)).count();
        let before = self.closed.len();
        self.make_room(0);
        let lost =
            retention::prune_lost(&self.folder, self.limits.lost_age, self.limits.lost_bytes, now)?;
        Ok(removed + (before - self.closed.len()) + lost)
    }

    /// Lists the recordings and computes their total size.
    fn rescan(&mut self) -> io::Result<()> {
        let found = retention::recordings(&self.folder, SystemTime::now())?;
        self.closed =
            found.into_iter().filter(|closed| !self.open.contains_key(&closed.path)).collect();
        self.bytes = self.closed.iter().map(|closed| closed.bytes).sum::<u64>()
            + self.open.values().map(OpenRecording::bytes).sum::<u64>();
        Ok(())
    }

    /// Removes the oldest recordings until `size` bytes fit. Returns false if they do not fit.
    fn make_room(&mut self, size: u64) -> bool {
        while self.bytes.saturating_add(size) > self.limits.bytes {
            let Some(oldest) = self.closed.first().cloned() else { return false };
            if !self.remove(&oldest) {
                return false;
            }
        }
        true
    }

    /// Removes a closed recording. Returns false if it could not be removed.
    fn remove(&mut self, closed: &StoredRecording) -> bool {
        match fs::remove_file(&closed.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return false,
            _ => {}
        }
        if self.closed.remove(closed) {
            self.bytes -= closed.bytes;
        }
        if let Some(day) = closed.path.parent() {
            // Fails, as intended, while other recordings of the day remain.
            let _ = fs::remove_dir(day);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(folder: &Path, name: &str) -> Arc<RecordingFile> {
        Arc::new(RecordingFile::at(folder.join("2026-01-02").join(name)))
    }

    fn room(bytes: u64) -> RecordingLimits {
        RecordingLimits { bytes, ..RecordingLimits::UNLIMITED }
    }

    /// Returns the size of the recordings in a folder, in bytes.
    fn on_disk(folder: &Path) -> u64 {
        retention::recordings(folder, SystemTime::now())
            .unwrap()
            .iter()
            .map(|file| file.bytes)
            .sum()
    }

    fn left(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = retention::recordings(folder, SystemTime::now())
            .unwrap()
            .iter()
            .map(|file| file.path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_cut_recording_continues_with_a_checkpoint_after_a_note_about_the_gap() {
        let folder = tempfile::tempdir().unwrap();
        let mut recordings = RecordingsFolder::open(folder.path().to_owned(), room(1 << 20));
        let file = RecordingFile::at(folder.path().join("2026-01-02").join("a.jsonl"));
        let target = Arc::new(file.written_ahead());
        let written = target.written.as_ref().unwrap().subscribe();
        recordings.resume_at(&target, 0.5, 0, "not cut").unwrap();
        recordings.line(&target, 1.0, LINE).unwrap();
        recordings.cut(&target, 2.0, 10, "it could not be written to the disk").unwrap();
        recordings.line(&target, 3.0, "dropped").unwrap();
        assert_eq!(*written.borrow(), u64::MAX);
        recordings.resume_at(&target, 4.0, 5, "the checkpoint").unwrap();
        assert_eq!(*written.borrow(), 6);
        recordings.line(&target, 5.0, "the next line").unwrap();
        recordings.flush().unwrap();
        assert_eq!(*written.borrow(), 7);
        let text = fs::read_to_string(&target.path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines.len()), (LINE, 5), "{text}");
        assert!(lines[1].contains(r#""cut":"#), "{text}");
        // Two lines of five were written: the first one and the reason.
        assert_eq!(lines[2], r#"{"t":4.0,"lost":3}"#);
        assert_eq!(lines[3..], ["the checkpoint", "the next line"]);
        target.full.store(true, Ordering::Relaxed);
        target.end();
        recordings.resume_at(&target, 6.0, 8, "too large").unwrap();
        recordings.flush().unwrap();
        assert_eq!(fs::read_to_string(&target.path).unwrap(), text);
    }

    const LINE: &str = r#"{"t":1.0,"host":"0123456789012345678901234567890123456789012345678901234567890123456789"}"#;

    #[test]
    fn the_folder_stays_within_its_limit_and_the_oldest_recordings_are_removed_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut recordings = RecordingsFolder::open(folder.path().to_owned(), room(40_000));
        for number in 0..50 {
            let target = target(folder.path(), &format!("{number:02}.jsonl"));
            for _ in 0..60 {
                recordings.line(&target, 1.0, LINE).unwrap();
                recordings.flush().unwrap();
                assert!(on_disk(folder.path()) <= 40_000);
            }
            recordings.close(&target).unwrap();
        }
        let left = left(folder.path());
        assert_eq!(left.last().map(String::as_str), Some("49"));
        assert_eq!(left.len(), 7, "as many as fit: {left:?}");
    }

    #[test]
    fn one_recording_takes_a_quarter_and_ends_with_a_line_about_the_cut() {
        let folder = tempfile::tempdir().unwrap();
        let mut recordings = RecordingsFolder::open(folder.path().to_owned(), room(40_000));
        let chatty = target(folder.path(), "chatty.jsonl");
        for _ in 0..10_000 {
            recordings.line(&chatty, 7.5, LINE).unwrap();
        }
        assert!(chatty.full.load(Ordering::Relaxed));
        recordings.close(&chatty).unwrap();
        let text = fs::read_to_string(&chatty.path).unwrap();
        assert!(text.len() <= 10_000 && text.len() > 9_000, "{}", text.len());
        let last: RecordingEntry = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert!(
            matches!(&last, RecordingEntry { t: 7.5, kind: EntryKind::Cut(why) } if why.contains("RECORDINGS_MAX_MIB")),
            "{last:?}"
        );
    }

    #[test]
    fn if_all_recordings_are_open_they_are_cut_and_none_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut recordings = RecordingsFolder::open(folder.path().to_owned(), room(40_000));
        let places: Vec<_> =
            (0..8).map(|number| target(folder.path(), &format!("{number}.jsonl"))).collect();
        for _ in 0..200 {
            places.iter().for_each(|target| recordings.line(target, 1.0, LINE).unwrap());
        }
        recordings.flush().unwrap();
        assert!(on_disk(folder.path()) <= 44_000, "{}", on_disk(folder.path()));
        assert!(places.iter().all(|target| target.cut.load(Ordering::Relaxed)));
        for target in &places {
            let text = fs::read_to_string(&target.path).unwrap();
            assert!(
                text.lines().all(|line| serde_json::from_str::<RecordingEntry>(line).is_ok()),
                "only complete lines"
            );
        }
    }

    #[test]
    fn old_recordings_count_towards_the_limit_until_they_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let day = folder.path().join("2026-01-01");
        fs::create_dir_all(&day).unwrap();
        for name in ["a", "b"] {
            fs::write(day.join(format!("{name}.jsonl")), vec![b'x'; 30_000]).unwrap();
        }
        let mut recordings = RecordingsFolder::open(folder.path().to_owned(), room(40_000));
        assert_eq!(left(folder.path()).len(), 1, "the folder exceeded its limit at the start");
        fs::remove_dir_all(&day).unwrap();
        recordings.tidy().unwrap();
        let target = target(folder.path(), "c.jsonl");
        for _ in 0..100 {
            recordings.line(&target, 1.0, LINE).unwrap();
        }
        assert!(!target.cut.load(Ordering::Relaxed));
    }

    #[test]
    fn a_disk_error_cuts_a_recording_without_marking_it_full() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("2026-01-02"), "in the way").unwrap();
        let mut recordings = RecordingsFolder::open(folder.path().to_owned(), room(40_000));
        let target = target(folder.path(), "a.jsonl");
        assert!(recordings.line(&target, 1.0, LINE).is_err());
        assert!(recordings.line(&target, 1.0, LINE).is_ok(), "reported once");
        assert!(target.cut.load(Ordering::Relaxed) && !target.full.load(Ordering::Relaxed));
    }

    #[test]
    fn with_a_limit_of_zero_nothing_is_recorded_and_no_recording_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let mut recordings = RecordingsFolder::open(folder.path().to_owned(), room(0));
        let target = target(folder.path(), "a.jsonl");
        recordings.line(&target, 1.0, LINE).unwrap();
        recordings.close(&target).unwrap();
        assert!(!target.path.exists() && !target.full.load(Ordering::Relaxed));
    }

    #[test]
    fn a_recording_whose_writer_vanished_is_closed_and_can_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut recordings = RecordingsFolder::open(
            folder.path().to_owned(),
            RecordingLimits { age: Duration::ZERO, ..room(40_000) },
        );
        let gone = target(folder.path(), "gone.jsonl");
        recordings.line(&gone, 1.0, LINE).unwrap();
        assert_eq!(recordings.tidy().unwrap(), 0, "it is being written");
        drop(gone);
        assert_eq!(recordings.tidy().unwrap(), 1);
    }
}
