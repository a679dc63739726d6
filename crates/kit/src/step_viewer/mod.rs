//! The step viewer: shows a recorded turn step by step. The dashboard calls it the time machine.
//!
//! Owns the cache of step lists. Unused entries are dropped after [`CACHE_TIME`]. Tested by
//! `tests/kit` and `tests/gateway/dashboard/step_viewer.rs`.
//!
//! | module | content |
//! |---|---|
//! | [`slicer`] | extracts one turn from the entries of a recording |
//! | [`steps`] | the steps of a turn, and their content |
//! | [`search`] | searches steps for words |
//! | [`error`] | why a turn cannot be shown |

mod error;
mod search;
mod slicer;
mod steps;

use std::cmp::Reverse;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

pub use self::error::StepViewerError;
pub use self::search::StepSearch;
pub use self::slicer::STEPS;
pub use self::steps::{RecordedStep, StepSign, TurnFacts, TurnSteps};
use aetheel_model::redact::Redactor;
use aetheel_recording::{Recorder, kept_name, path_in};

const MAX_CACHED_TURNS: usize = 4;
/// Maximum number of tasks that may read files at the same time, so that a slow disk blocks only so
/// many threads.
const MAX_READERS: usize = 4;
/// How long an unused entry stays in the cache.
const CACHE_TIME: Duration = Duration::from_secs(600);

/// Shows recorded turns step by step. Cheap to clone.
#[derive(Clone)]
pub struct StepViewer {
    inner: Arc<ViewerState>,
}

struct ViewerState {
    recorder: Recorder,
    redactor: Redactor,
    /// Limits how many tasks read files at the same time.
    readers: Arc<Semaphore>,
    films: Mutex<Vec<CachedTurn>>,
}

/// The steps of a turn in a file.
struct CachedTurn {
    path: PathBuf,
    turn: String,
    steps: Arc<TurnSteps>,
    last_used: Instant,
}

impl StepViewer {
    /// Creates a step viewer for the recordings of this recorder.
    #[must_use]
    pub fn new(recorder: Recorder, redactor: Redactor) -> Self {
        let readers = Arc::new(Semaphore::new(MAX_READERS));
        let films = Mutex::default();
        Self { inner: Arc::new(ViewerState { recorder, redactor, readers, films }) }
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
            let own_name = kept_name(&turn);
            let path = recording_path(recorder.folder(), &named)
                .or_else(|why| recording_path(recorder.folder(), &own_name).map_err(|_| why))?;
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
        let is_it = |held: &CachedTurn| held.path == path && held.turn == turn;
        {
            let mut films = self.inner.films.lock();
            let held = films.iter_mut().find(|held| is_it(held));
            if let Some(held) = held.filter(|held| held.steps.still_fits(&metadata)) {
                held.last_used = Instant::now();
                return Ok(Arc::clone(&held.steps));
            }
        }
        let film = Arc::new(TurnSteps::open(file, &turn)?);
        let mut films = self.inner.films.lock();
        films.retain(|held| !is_it(held));
        films.sort_by_key(|held| Reverse(held.last_used));
        films.truncate(MAX_CACHED_TURNS - 1);
        let (steps, last_used) = (Arc::clone(&film), Instant::now());
        films.push(CachedTurn { path, turn, steps, last_used });
        Ok(film)
    }

    /// Returns the first step (index) after this one that contains all these words, in its input or
    /// in its actions.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read any more.
    pub async fn search(
        &self,
        film: &Arc<TurnSteps>,
        after: usize,
        words: &str,
    ) -> Result<StepSearch, StepViewerError> {
        let (film, redactor) = (Arc::clone(film), self.inner.redactor.clone());
        let words = words.to_lowercase();
        let found =
            self.run_blocking(move || search::search(&film, after, &words, &redactor)).await?;
        found.map_err(StepViewerError::Reread)
    }

    /// Drops unused cache entries after [`CACHE_TIME`].
    fn sweep_later(&self) {
        let inner = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            tokio::time::sleep(CACHE_TIME + Duration::from_secs(1)).await;
            if let Some(inner) = inner.upgrade() {
                inner.films.lock().retain(|held| held.last_used.elapsed() < CACHE_TIME);
            }
        });
    }
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
