//! `state/queue.md`: every accepted event and how far it came, so that none is lost when the
//! program dies.
//!
//! Owns the file and what it says; decides nothing about what becomes of events after a restart. An
//! event that was reported as saved is on disk (fdatasync). Writing happens on one thread: what
//! waits is written at once and synced once. Pinned by the tests below (the file cut at every
//! byte), `tests/dispatch/kept.rs` and `tests/gateway/chaos.rs`.

mod leaving;
mod pages;
mod record;
mod store;
mod writer;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use parking_lot::Mutex;
use tokio::sync::watch;

pub use self::pages::{Entry, OFFER_SPAN_MS};
pub use self::store::LineStore;

use self::pages::{LARGEST, Pages};
use self::record::{Finished, Mark, Record};
use self::store::LineFile;
use self::writer::{Job, Writer};
use super::{FileError, blocking};
use crate::disk::{read_ordinary, replace};
use aetheel_model::event::{Event, Lane, Sequence};
use aetheel_model::vigil;

/// Largest file of an earlier life that is read.
const MOST: u64 = 1 << 30;

/// The journal of one gateway. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Journal {
    pages: Arc<Mutex<Pages>>,
    jobs: Arc<Mutex<Sender<Job>>>,
    /// The last try to write failed.
    failing: Arc<AtomicBool>,
}

/// Tells whether something reached the disk.
#[derive(Clone, Debug)]
pub struct Saving(watch::Receiver<Option<bool>>);

impl Saving {
    /// Waits until it is on disk; false when it cannot be written.
    pub async fn done(mut self) -> bool {
        // A writer that is gone has written nothing.
        self.0.wait_for(Option::is_some).await.is_ok_and(|done| *done == Some(true))
    }
}

impl Journal {
    /// Reads the file of an earlier life, makes it short, and goes on with it.
    ///
    /// # Errors
    /// [`FileError`] when it cannot be read or written.
    pub(super) async fn open(folder: PathBuf) -> Result<Self, FileError> {
        blocking(move || {
            Self::begin(&folder.join("queue.md"), jiff::Timestamp::now().as_millisecond())
        })
        .await
    }

    fn begin(path: &Path, now_ms: i64) -> Result<Self, FileError> {
        let failed = |source| FileError::new("write", path, source);
        let text = read_text(path)?;
        if text.is_empty() {
            replace(path, b"").map_err(failed)?;
        }
        let whole = LineFile::is_whole(path);
        let file = LineFile::open(path.to_owned()).map_err(failed)?;
        Self::go_on(path, (&text, 0), Box::new(file), (now_ms, whole))
    }

    /// Goes on with lines that are kept elsewhere, by whoever is the only one to write there.
    /// Numbers are given above `first`, which is that of a block of [`aetheel_model::event::BLOCK_BITS`]
    /// bits that nobody else gives numbers of.
    ///
    /// # Errors
    /// [`FileError`] when they cannot be read or written.
    pub(super) async fn open_in(
        text: String,
        store: Box<dyn LineStore>,
        first: Sequence,
    ) -> Result<Self, FileError> {
        blocking(move || {
            let name = PathBuf::from(store.name());
            let now_ms = jiff::Timestamp::now().as_millisecond();
            Self::go_on(&name, (&text, first), store, (now_ms, true))
        })
        .await
    }

    fn go_on(
        place: &Path,
        (text, first): (&str, Sequence),
        mut store: Box<dyn LineStore>,
        (now_ms, whole): (i64, bool),
    ) -> Result<Self, FileError> {
        let (mut pages, warnings) = read(place, text, first)?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let doubted = pages.open.values_mut().map(|entry| !whole && entry.doubt());
        let doubtful = doubted.filter(|doubted| *doubted).count();
        if doubtful > 0 {
            tracing::warn!(
                turns = doubtful,
                "the queue is incomplete, so the agents of turns that had begun may have used a tool"
            );
        }
        for event in pages.prune(now_ms) {
            tracing::info!(event = event.sequence, lane = %event.lane, "an event of an earlier life of the gateway is given up: nobody waits for it");
            pages
                .apply(&Record::Mark(event.sequence, Mark::Finished(Finished::of(&event, now_ms))));
        }
        let failed = |source| FileError::new("write", place, source);
        let short = pages.render();
        store.replace(&short).map_err(failed)?;
        let pages = Arc::new(Mutex::new(pages));
        let (jobs, received) = channel();
        let failing = Arc::new(AtomicBool::new(false));
        let writer =
            Writer::on(store, short.len(), Arc::clone(&pages), received, Arc::clone(&failing));
        vigil::thread("journal", move || writer.run()).map_err(failed)?;
        Ok(Self { pages, jobs: Arc::new(Mutex::new(jobs)), failing })
    }

    /// Reads the file as a start would, and changes nothing: how many events are open, and what
    /// cannot be read, a line each. What is just being written at its end is left out. Blocks.
    pub(super) fn look(path: &Path) -> Result<(usize, Vec<String>), FileError> {
        let text = read_text(path)?;
        let tail = text.rfind('\n').map_or(0, |end| end + 1);
        let whole = if Record::is_checked(&text[tail..]) { &text } else { &text[..tail] };
        let (pages, warnings) = read(path, whole, 0)?;
        Ok((pages.open().count(), warnings))
    }

    /// Whether nothing can be written at the moment. It is found out by trying, once a second.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::SeqCst)
    }

    /// The first number of the block that numbers are given of; zero: there are no blocks.
    #[must_use]
    pub fn first(&self) -> Sequence {
        self.pages.lock().first()
    }

    /// Numbers are given of another block from now on, if it is a later one.
    pub fn number_from(&self, first: Sequence) {
        self.pages.lock().number_from(first);
    }

    /// Returns the lanes in which lines of a journal have open events.
    #[must_use]
    pub fn open_lanes(text: &str) -> Vec<Lane> {
        let (pages, _) = Pages::read(text, 0);
        let lanes: BTreeSet<Lane> = pages.open().map(|entry| entry.event.lane.clone()).collect();
        lanes.into_iter().collect()
    }

    /// Takes over the lines of another node's journal about some lanes, but for what is known here
    /// and what never leaves a node. Events that are over count whatever their lane: they are only
    /// known by their keys. Returns the events that are open now and were not before, oldest first, once
    /// all of it is safe; none: it cannot be written, and nothing was taken over.
    pub async fn absorb(&self, text: &str, lanes: impl Fn(&Lane) -> bool) -> Option<Vec<Sequence>> {
        let (news, saving) = {
            // Held until it is on its way, so that the file says it in the same order.
            let mut pages = self.pages.lock();
            let (mut theirs, warnings) = Pages::read(text, 0);
            theirs.open.retain(|_, entry| lanes(&entry.event.lane));
            for warning in warnings {
                tracing::warn!("the journal of another node: {warning}");
            }
            let news = pages.news(theirs);
            let (told, saving) = watch::channel(None);
            let mut line = String::new();
            if !news.is_empty() {
                line = Record::Mark(pages.last(), Mark::Absorbed(news.lines())).write();
                pages.absorb(&news);
            }
            self.send(Job { line, or_never: true, told: Some(told) });
            (news, Saving(saving))
        };
        if !saving.done().await {
            self.pages.lock().give_back(&news);
            return None;
        }
        Some(news.open().map(|entry| entry.event.sequence).collect())
    }

    /// The lines about some lanes, for another node: what is open there and what was finished
    /// lately.
    #[must_use]
    pub fn lines_of(&self, lanes: impl Fn(&Lane) -> bool) -> String {
        self.pages.lock().of(lanes).lines()
    }

    /// Another node has what is open in some lanes now. Waits until that is on disk; false when it
    /// cannot be written, and is tried again. What was finished there is known by its key only.
    pub async fn given(&self, lanes: impl Fn(&Lane) -> bool) -> bool {
        let open = {
            let mut pages = self.pages.lock();
            pages.forget_messages_in(&lanes);
            pages.open_in(lanes)
        };
        for event in open {
            self.mark(event.sequence, Mark::Given);
        }
        self.flush().await
    }

    /// The highest sequence number given so far.
    #[must_use]
    pub fn last(&self) -> Sequence {
        self.pages.lock().last()
    }

    /// Whether an event with this key is open, or was finished lately (the last 4,096 of 24 hours).
    #[must_use]
    pub fn knows(&self, key: &str) -> bool {
        self.pages.lock().knows(key)
    }

    /// The events that are not finished, oldest first.
    #[must_use]
    pub fn open_events(&self) -> Vec<Entry> {
        self.pages.lock().open().cloned().collect()
    }

    /// How far an event came; none: it is not open.
    #[must_use]
    pub fn entry(&self, sequence: Sequence) -> Option<Entry> {
        self.pages.lock().entry(sequence).cloned()
    }

    /// Channel and id of every Discord message that was taken and is still known.
    #[must_use]
    pub fn messages(&self) -> Vec<(u64, u64)> {
        self.pages.lock().messages().collect()
    }

    /// Keeps an accepted event. When it cannot be written, [`Journal::forget`] it.
    pub fn accepted(&self, event: &Event) -> Saving {
        self.write(Record::Accepted(Box::new(event.clone()), None), true)
    }

    /// Keeps an event together with what it came to, so that it is only delivered, whatever dies
    /// when.
    pub fn accepted_answered(&self, event: &Event, answer: String) -> Saving {
        self.write(Record::Accepted(Box::new(event.clone()), Some(answer)), true)
    }

    /// Forgets an event that could not be written.
    pub fn forget(&self, sequence: Sequence) {
        self.pages.lock().forget(sequence);
    }

    /// Notes that a turn begins.
    pub fn started(&self, sequence: Sequence) -> Saving {
        self.mark(sequence, Mark::Started)
    }

    /// Notes that the agent used a tool.
    pub fn used_tool(&self, sequence: Sequence) -> Saving {
        self.mark(sequence, Mark::Tool)
    }

    /// Notes that the agent may have used a tool that nobody saw.
    pub fn doubt(&self, sequence: Sequence) -> Saving {
        self.mark(sequence, Mark::Doubtful)
    }

    /// Notes the messages of the reply.
    pub fn posted(&self, sequence: Sequence, messages: &[u64]) {
        self.mark(sequence, Mark::Posted(messages.to_vec()));
    }

    /// Notes what the turn came to, before anybody is told.
    pub fn answered(&self, sequence: Sequence, answer: String) -> Saving {
        self.mark(sequence, Mark::Answered(answer))
    }

    /// Notes that a turn was given up and begins again with the next start.
    pub fn waits(&self, sequence: Sequence) {
        self.mark(sequence, Mark::Waiting);
    }

    /// Notes that the agent of another event's turn took it in.
    pub fn heard(&self, sequence: Sequence, turn: Sequence) {
        self.mark(sequence, Mark::Heard(turn));
    }

    /// Notes that people were asked whether to do it again; `aside` when it was set aside.
    pub fn offered(&self, sequence: Sequence, now_ms: i64, aside: bool) {
        self.mark(sequence, Mark::Offered { at_ms: now_ms, aside });
    }

    /// Makes an offered event one that waits, as if nothing had happened to it, but for the
    /// messages of its reply. When it cannot be written, [`Journal::put_back`] what it was.
    pub fn again(&self, sequence: Sequence) -> Saving {
        self.write(Record::Mark(sequence, Mark::Again), true)
    }

    /// Makes an event what it was before something that could not be written.
    pub fn put_back(&self, entry: Entry) {
        self.pages.lock().put_back(entry);
    }

    /// Checks an event off.
    pub fn finished(&self, event: &Event, now_ms: i64) -> Saving {
        self.mark(event.sequence, Mark::Finished(Finished::of(event, now_ms)))
    }

    /// Waits until everything so far is on disk; false when it cannot be written.
    pub async fn flush(&self) -> bool {
        let (told, saving) = watch::channel(None);
        self.send(Job { line: String::new(), or_never: true, told: Some(told) });
        Saving(saving).done().await
    }

    fn mark(&self, sequence: Sequence, mark: Mark) -> Saving {
        self.write(Record::Mark(sequence, mark), false)
    }

    fn write(&self, record: Record, or_never: bool) -> Saving {
        let line = record.write();
        let (told, saving) = watch::channel(None);
        // Held until it is on its way, so that the file says it in the same order.
        let mut pages = self.pages.lock();
        pages.apply(&record);
        self.send(Job { line, or_never, told: Some(told) });
        Saving(saving)
    }

    fn send(&self, job: Job) {
        // The writer lives as long as we do; where it panicked, whoever waits is told that nothing
        // was written.
        let _ = self.jobs.lock().send(job);
    }
}

/// The text of the file; a missing one is an empty one.
fn read_text(path: &Path) -> Result<String, FileError> {
    match read_ordinary(path, MOST) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(FileError::new("read", path, source)),
    }
}

/// What the file says, and what of it cannot be read, a line each.
fn read(path: &Path, text: &str, first: Sequence) -> Result<(Pages, Vec<String>), FileError> {
    let (pages, warnings) = Pages::read(text, first);
    if pages.highest() > LARGEST {
        let fault = format!(
            "an event has the number {}, which no gateway gave it; mend or remove that line",
            pages.highest()
        );
        let fault = std::io::Error::new(std::io::ErrorKind::InvalidData, fault);
        return Err(FileError::new("read", path, fault));
    }
    let named = |warning| format!("`{}` {warning}", path.display());
    Ok((pages, warnings.into_iter().map(named).collect()))
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Journal")
    }
}

#[cfg(test)]
mod tests;
