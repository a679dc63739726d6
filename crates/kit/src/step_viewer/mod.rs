//! The step viewer: shows a recorded turn step by step, and how another component would have
//! handled the same turn. The dashboard calls it the time machine.
//!
//! Owns the caches of step lists and of replays, and runs at most one replay at a time. Only
//! components that the operator admitted can replay a turn. A replay has the limits of normal
//! operation, and its failures do not affect the serving component. Unused entries are dropped
//! after [`CACHE_TIME`]. Tested by `tests/kit` and `tests/gateway/dashboard/step_viewer.rs`.
//!
//! | module | content |
//! |---|---|
//! | [`slicer`] | extracts one turn from the entries of a recording |
//! | [`steps`] | the steps of a turn, and their content |
//! | [`comparison`] | replays a turn with another component |
//! | [`search`] | searches steps for words |
//! | [`error`] | why a turn cannot be shown or replayed |

mod comparison;
mod error;
mod search;
mod slicer;
mod steps;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

pub use self::comparison::ComponentReplay;
use self::error::ReplayError;
pub use self::error::StepViewerError;
pub use self::search::StepSearch;
pub use self::slicer::STEPS;
pub use self::steps::{RecordedStep, StepSign, TurnFacts, TurnSteps};
use aetheel_model::agent::Action;
use aetheel_model::redact::Redactor;
use aetheel_turn::recording::{Recorder, kept_name, path_in};
use aetheel_turn::{Backends, KnownComponent};

/// Maximum number of recorded turns in the cache.
const MAX_CACHED_TURNS: usize = 4;
/// Maximum number of replays in the cache.
const MAX_CACHED_REPLAYS: usize = 2;
/// Maximum number of tasks that may read files at the same time, so that a slow disk blocks only so
/// many threads.
const MAX_READERS: usize = 4;
/// How long an unused entry stays in the caches.
const CACHE_TIME: Duration = Duration::from_secs(600);
/// Time limit for a replay.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a request waits for a replay before it reports the progress instead.
const COMPARISON_WAIT: Duration = Duration::from_secs(2);
/// The progress of a replay is updated after this number of steps.
const PROGRESS_STEPS: usize = 500;

/// Shows recorded turns step by step. Cheap to clone.
#[derive(Clone)]
pub struct StepViewer {
    inner: Arc<ViewerState>,
}

struct ViewerState {
    recorder: Recorder,
    backends: Arc<dyn Backends>,
    redactor: Redactor,
    /// Limits how many tasks read files at the same time.
    readers: Arc<Semaphore>,
    films: Mutex<CachedTurns>,
    readings: Mutex<CachedReplays>,
}

/// Step lists by file and turn.
type CachedTurns = Vec<CacheEntry<(PathBuf, String), Arc<TurnSteps>>>;
/// Replays by turn and digest of the component, including unfinished ones.
type CachedReplays = Vec<CacheEntry<(String, String), watch::Receiver<ComparisonState>>>;

struct CacheEntry<K, V> {
    key: K,
    value: V,
    last_used: Instant,
}

/// The state of a comparison with another component.
#[derive(Clone, Debug)]
pub enum ComparisonState {
    /// The replay is running, and has reached this step (index).
    Reads(usize),
    /// The replay is complete.
    Done(Arc<ComponentReplay>),
    /// The replay failed, for this reason.
    Failed(String),
    /// Another replay is running, and only one may run at a time.
    Busy,
}

/// The result of a request for a replay.
enum ReplaySlot {
    /// The replay is running or complete.
    Held(watch::Receiver<ComparisonState>),
    /// Another replay is running.
    Busy,
    /// The replay may begin.
    Free(watch::Sender<ComparisonState>, watch::Receiver<ComparisonState>),
}

impl StepViewer {
    /// Creates a step viewer for the recordings of this recorder.
    #[must_use]
    pub fn new(recorder: Recorder, backends: Arc<dyn Backends>, redactor: Redactor) -> Self {
        let (films, readings) = (Mutex::default(), Mutex::default());
        let readers = Arc::new(Semaphore::new(MAX_READERS));
        Self {
            inner: Arc::new(ViewerState { recorder, backends, redactor, readers, films, readings }),
        }
    }

    /// Returns the redactor for everything that is shown. A recording may contain strings that
    /// became secrets only later.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.inner.redactor
    }

    /// Opens a turn of a recording, given by its path in the folder of recordings.
    ///
    /// # Errors
    /// Returns an error, with a text for an owner, if the turn cannot be shown.
    pub async fn open(
        &self,
        recording: &str,
        turn: &str,
    ) -> Result<Arc<TurnSteps>, StepViewerError> {
        let (recorder, named) = (self.inner.recorder.clone(), recording.to_owned());
        let (machine, turn) = (self.clone(), turn.to_owned());
        let opened = self.run_blocking(move || {
            // The latest entries may still be in the recorder's buffer.
            recorder.flush();
            let kept = kept_name(&turn);
            let path = recording_path(recorder.folder(), &named)
                .or_else(|why| recording_path(recorder.folder(), &kept).map_err(|_| why))?;
            machine.open_blocking(path, turn)
        });
        let film = opened.await??;
        self.sweep_later();
        Ok(film)
    }

    /// Runs a function that reads recordings on the blocking pool, as soon as the limit allows it.
    ///
    /// # Errors
    /// Returns [`StepViewerError::ShuttingDown`] if the gateway is shutting down.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StepViewerError> {
        let place = Arc::clone(&self.inner.readers).acquire_owned().await;
        let worked = tokio::task::spawn_blocking(move || {
            // Held until the work is done, even if the caller has stopped waiting.
            let _place = place;
            work()
        });
        worked.await.map_err(|_| StepViewerError::ShuttingDown)
    }

    fn open_blocking(
        &self,
        path: PathBuf,
        turn: String,
    ) -> Result<Arc<TurnSteps>, StepViewerError> {
        let file = File::open(&path).map_err(StepViewerError::Open)?;
        let metadata = file.metadata().map_err(StepViewerError::Open)?;
        let key = (path, turn);
        {
            let mut films = self.inner.films.lock();
            let held = films.iter_mut().find(|held| held.key == key);
            if let Some(held) = held.filter(|held| held.value.still_fits(&metadata)) {
                held.last_used = Instant::now();
                return Ok(Arc::clone(&held.value));
            }
        }
        let film = Arc::new(TurnSteps::open(file, &key.1)?);
        insert_cached(&mut self.inner.films.lock(), key, Arc::clone(&film), MAX_CACHED_TURNS);
        Ok(film)
    }

    /// Returns the known components of a backend.
    pub async fn components(&self, backend: &str) -> Vec<KnownComponent> {
        self.inner.backends.components(backend).await
    }

    /// Returns the state of the comparison with another component, and starts the replay if
    /// necessary. `digest` must belong to one of [`StepViewer::components`].
    pub async fn compare(
        &self,
        film: &Arc<TurnSteps>,
        turn: &str,
        backend: &str,
        digest: &str,
    ) -> ComparisonState {
        let key = (turn.to_owned(), digest.to_owned());
        let mut state = match self.replay_slot(&key) {
            ReplaySlot::Held(state) => state,
            ReplaySlot::Busy => return ComparisonState::Busy,
            ReplaySlot::Free(progress, state) => {
                self.begin(Arc::clone(film), backend.to_owned(), key.1.clone(), progress);
                state
            }
        };
        let over = async {
            let over = state.wait_for(|state| !matches!(state, ComparisonState::Reads(_))).await;
            // The sender was dropped before the end.
            over.map_or_else(
                |_| ComparisonState::Failed("the replay was interrupted".to_owned()),
                |it| it.clone(),
            )
        };
        let reached = tokio::time::timeout(COMPARISON_WAIT, over).await.ok();
        let reached = reached.unwrap_or_else(|| state.borrow().clone());
        if matches!(reached, ComparisonState::Failed(_)) {
            // The next request tries again.
            self.inner.readings.lock().retain(|held| held.key != key);
        }
        self.sweep_later();
        reached
    }

    fn replay_slot(&self, key: &(String, String)) -> ReplaySlot {
        let mut readings = self.inner.readings.lock();
        if let Some(held) = readings.iter_mut().find(|held| held.key == *key) {
            held.last_used = Instant::now();
            return ReplaySlot::Held(held.value.clone());
        }
        if readings.iter().any(|held| matches!(*held.value.borrow(), ComparisonState::Reads(_))) {
            return ReplaySlot::Busy;
        }
        let (progress, state) = watch::channel(ComparisonState::Reads(0));
        insert_cached(&mut readings, key.clone(), state.clone(), MAX_CACHED_REPLAYS);
        ReplaySlot::Free(progress, state)
    }

    fn begin(
        &self,
        film: Arc<TurnSteps>,
        backend: String,
        digest: String,
        progress: watch::Sender<ComparisonState>,
    ) {
        let (backends, redactor) = (Arc::clone(&self.inner.backends), self.inner.redactor.clone());
        tokio::spawn(async move {
            let reads = async {
                let component = backends.open_on_trial(&backend, &digest).await?;
                let at = |step: usize| {
                    if step.is_multiple_of(PROGRESS_STEPS) {
                        progress.send_replace(ComparisonState::Reads(step));
                    }
                };
                comparison::read(film, &*component, &redactor, at).await
            };
            let read = tokio::time::timeout(REPLAY_TIMEOUT, reads).await;
            let read = read.unwrap_or(Err(ReplayError::Timeout));
            progress.send_replace(match read {
                Ok(reading) => ComparisonState::Done(Arc::new(reading)),
                Err(error) => ComparisonState::Failed(redactor.redact(error.to_string())),
            });
        });
    }

    /// Returns the first step (index) after this one that contains all these words, in its input or
    /// in its actions, including those of the other replay.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read any more.
    pub async fn search(
        &self,
        film: &Arc<TurnSteps>,
        after: usize,
        words: &str,
        other: Option<Arc<ComponentReplay>>,
    ) -> Result<StepSearch, StepViewerError> {
        let (film, redactor) = (Arc::clone(film), self.inner.redactor.clone());
        let words = words.to_lowercase();
        let found = self
            .run_blocking(move || search::search(&film, after, &words, other.as_deref(), &redactor))
            .await?;
        found.map_err(StepViewerError::Reread)
    }

    /// Drops unused cache entries after [`CACHE_TIME`].
    fn sweep_later(&self) {
        let inner = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            tokio::time::sleep(CACHE_TIME + Duration::from_secs(1)).await;
            if let Some(inner) = inner.upgrade() {
                inner.films.lock().retain(|held| held.last_used.elapsed() < CACHE_TIME);
                inner.readings.lock().retain(|held| held.last_used.elapsed() < CACHE_TIME);
            }
        });
    }
}

/// Calls `take` with the actions of the steps up to the one at index `upto`: the recorded ones or,
/// where `other` differs, those of the other replay.
///
/// # Errors
/// Returns an error if the file cannot be read any more.
pub fn replay_actions(
    film: &TurnSteps,
    upto: usize,
    other: Option<&ComponentReplay>,
    mut take: impl FnMut(&Action),
) -> std::io::Result<()> {
    let mut next = 0;
    // Steps without recorded actions for which the other replay has some.
    let between = |from: usize, to: usize, take: &mut dyn FnMut(&Action)| {
        let mut at = from;
        while let Some(step) = other.and_then(|other| other.next(at)).filter(|step| *step < to) {
            let actions = other.and_then(|other| other.actions(step)).flatten();
            actions.iter().flatten().for_each(&mut *take);
            at = step + 1;
        }
    };
    film.actions(upto, |step, action| {
        if next <= step {
            between(next, step + 1, &mut take);
            next = step + 1;
        }
        if !other.is_some_and(|other| other.differs(step)) {
            take(&action);
        }
    })?;
    between(next, upto.saturating_add(1), &mut take);
    Ok(())
}

fn insert_cached<K: PartialEq, V>(all: &mut Vec<CacheEntry<K, V>>, key: K, value: V, most: usize) {
    all.retain(|held| held.key != key);
    while all.len() >= most {
        let oldest =
            all.iter().enumerate().min_by_key(|(_, held)| held.last_used).map(|(at, _)| at);
        all.swap_remove(oldest.unwrap_or(0));
    }
    all.push(CacheEntry { key, value, last_used: Instant::now() });
}

/// Returns the path of an existing recording, if its name does not lead out of the folder.
fn recording_path(folder: &Path, name: &str) -> Result<PathBuf, StepViewerError> {
    let path = path_in(folder, name).ok_or(StepViewerError::NotARecording)?;
    match path.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(path),
        Ok(_) => Err(StepViewerError::NotARecording),
        Err(_) => Err(StepViewerError::Deleted),
    }
}
