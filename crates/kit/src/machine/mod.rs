//! The time machine: a recorded turn step by step, and the same turn as another component would
//! have understood it.
//!
//! Owns what is held of recordings that somebody looks at, and the one reading that may go on at a
//! time. Only components that the operator let in read anything, each under the limits of serving
//! and on trial: how they fail is nothing to what serves. Nothing is kept when nobody looks.
//! Pinned by `tests/kit/machine.rs` and `tests/gateway/dashboard/machine.rs`.
//!
//! | room | owns |
//! |---|---|
//! | [`cutter`] | one turn out of the entries of a recording |
//! | [`film`] | where the steps of a turn stand, and what is in one |
//! | [`lines`] | lines of a file |
//! | [`reading`] | another component's reading |
//! | [`search`] | words in steps |

mod cutter;
mod film;
mod lines;
mod reading;
mod search;

use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

pub use self::cutter::STEPS;
pub use self::film::{Facts, Film, Sign, Step};
pub use self::reading::Reading;
pub use self::search::Found;
use aetheel_model::agent::Action;
use aetheel_model::redact::Redactor;
use aetheel_turn::recording::Recorder;
use aetheel_turn::{Backends, KnownComponent};

/// Recorded turns that are held, and readings.
const FILMS: usize = 4;
const READINGS: usize = 2;
/// How many read files at a time: a slow disk holds no more threads up.
const READERS: usize = 4;
/// How long something is held that nobody looks at.
const HELD: Duration = Duration::from_secs(600);
/// Longest time for a reading.
const READING_TIMEOUT: Duration = Duration::from_secs(60);
/// How long somebody waits for a reading before it is said that it goes on.
const PATIENCE: Duration = Duration::from_secs(2);
/// Steps after which it is said how far a reading is.
const TELL_EVERY: usize = 500;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Machine {
    inner: Arc<Inner>,
}

struct Inner {
    recorder: Recorder,
    backends: Arc<dyn Backends>,
    redactor: Redactor,
    /// Places of those who read files at a time.
    readers: Arc<Semaphore>,
    films: Mutex<Films>,
    readings: Mutex<Readings>,
}

/// Films by file and turn.
type Films = Vec<Held<(PathBuf, String), Arc<Film>>>;
/// Readings by turn and digest, each while it comes about.
type Readings = Vec<Held<(String, String), watch::Receiver<Compared>>>;

struct Held<K, V> {
    key: K,
    value: V,
    looked: Instant,
}

/// How far the comparison with another component is.
#[derive(Clone, Debug)]
pub enum Compared {
    /// It reads; it has come to this step (index).
    Reads(usize),
    /// It has read the turn.
    Done(Arc<Reading>),
    /// It cannot read it; why.
    Failed(String),
    /// Another reading goes on, and there is only one at a time.
    Busy,
}

/// The place of a reading.
enum Place {
    /// It has begun, or is done.
    Held(watch::Receiver<Compared>),
    /// Another one goes on.
    Busy,
    /// It may begin.
    Free(watch::Sender<Compared>, watch::Receiver<Compared>),
}

impl Machine {
    /// Makes one for the recordings of this recorder.
    #[must_use]
    pub fn new(recorder: Recorder, backends: Arc<dyn Backends>, redactor: Redactor) -> Self {
        let (films, readings) = (Mutex::default(), Mutex::default());
        let readers = Arc::new(Semaphore::new(READERS));
        Self { inner: Arc::new(Inner { recorder, backends, redactor, readers, films, readings }) }
    }

    /// Keeps secrets out of what is shown: there may be some that were none when it was recorded.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.inner.redactor
    }

    /// Opens a turn of a recording, named by its path below the folder of recordings.
    ///
    /// # Errors
    /// Why there is nothing to look at, in words for an owner.
    pub async fn open(&self, recording: &str, turn: &str) -> Result<Arc<Film>, String> {
        let (recorder, named) = (self.inner.recorder.clone(), recording.to_owned());
        let (machine, turn) = (self.clone(), turn.to_owned());
        let opened = self.work(move || {
            // What was recorded last may not be with the system yet.
            recorder.flush();
            let kept = format!("lost/{turn}.jsonl");
            let path = inside(recorder.folder(), &named)
                .or_else(|why| inside(recorder.folder(), &kept).map_err(|_| why))?;
            machine.open_now(path, turn)
        });
        let film = opened.await??;
        self.sweep_later();
        Ok(film)
    }

    /// Does what blocks because it reads recordings, when there is a place for it.
    ///
    /// # Errors
    /// When the gateway is going away.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let place = Arc::clone(&self.inner.readers).acquire_owned().await;
        let worked = tokio::task::spawn_blocking(move || {
            // Until it is done, whether or not anybody still waits for it.
            let _place = place;
            work()
        });
        worked.await.map_err(|_| "the gateway is going away".to_owned())
    }

    fn open_now(&self, path: PathBuf, turn: String) -> Result<Arc<Film>, String> {
        let gone = |error: std::io::Error| format!("the recording cannot be opened: {error}");
        let file = File::open(&path).map_err(gone)?;
        let metadata = file.metadata().map_err(gone)?;
        let key = (path, turn);
        {
            let mut films = self.inner.films.lock();
            let held = films.iter_mut().find(|held| held.key == key);
            if let Some(held) = held.filter(|held| held.value.still_fits(&metadata)) {
                held.looked = Instant::now();
                return Ok(Arc::clone(&held.value));
            }
        }
        let film = Arc::new(Film::open(file, &key.1)?);
        hold(&mut self.inner.films.lock(), key, Arc::clone(&film), FILMS);
        Ok(film)
    }

    /// The components that are known of a backend.
    pub async fn components(&self, backend: &str) -> Vec<KnownComponent> {
        self.inner.backends.components(backend).await
    }

    /// How far another component's reading of a turn is; it begins to read where it has not yet.
    /// `digest` is that of one of [`Machine::components`].
    pub async fn compare(
        &self,
        film: &Arc<Film>,
        turn: &str,
        backend: &str,
        digest: &str,
    ) -> Compared {
        let key = (turn.to_owned(), digest.to_owned());
        let mut state = match self.place(&key) {
            Place::Held(state) => state,
            Place::Busy => return Compared::Busy,
            Place::Free(tell, state) => {
                self.begin(Arc::clone(film), backend.to_owned(), key.1.clone(), tell);
                state
            }
        };
        let over = async {
            let over = state.wait_for(|state| !matches!(state, Compared::Reads(_))).await;
            // It was dropped on its way.
            over.map_or_else(
                |_| Compared::Failed("the reading broke off".to_owned()),
                |it| it.clone(),
            )
        };
        let told = tokio::time::timeout(PATIENCE, over).await.ok();
        let told = told.unwrap_or_else(|| state.borrow().clone());
        if matches!(told, Compared::Failed(_)) {
            // Whoever asks again tries again.
            self.inner.readings.lock().retain(|held| held.key != key);
        }
        self.sweep_later();
        told
    }

    fn place(&self, key: &(String, String)) -> Place {
        let mut readings = self.inner.readings.lock();
        if let Some(held) = readings.iter_mut().find(|held| held.key == *key) {
            held.looked = Instant::now();
            return Place::Held(held.value.clone());
        }
        if readings.iter().any(|held| matches!(*held.value.borrow(), Compared::Reads(_))) {
            return Place::Busy;
        }
        let (tell, state) = watch::channel(Compared::Reads(0));
        hold(&mut readings, key.clone(), state.clone(), READINGS);
        Place::Free(tell, state)
    }

    fn begin(
        &self,
        film: Arc<Film>,
        backend: String,
        digest: String,
        tell: watch::Sender<Compared>,
    ) {
        let (backends, redactor) = (Arc::clone(&self.inner.backends), self.inner.redactor.clone());
        tokio::spawn(async move {
            let reads = async {
                let component = backends.on_trial(&backend, &digest).await?;
                let at = |step: usize| {
                    if step.is_multiple_of(TELL_EVERY) {
                        tell.send_replace(Compared::Reads(step));
                    }
                };
                reading::read(film, &*component, &redactor, at).await
            };
            let read = tokio::time::timeout(READING_TIMEOUT, reads).await;
            let read = read.unwrap_or_else(|_| {
                Err(format!("reading it takes longer than {} s", READING_TIMEOUT.as_secs()))
            });
            tell.send_replace(match read {
                Ok(reading) => Compared::Done(Arc::new(reading)),
                Err(why) => Compared::Failed(redactor.clean(why)),
            });
        });
    }

    /// The first step (index) after this one with all these words in it, in what was told or in
    /// what came of it, there or in the other reading.
    ///
    /// # Errors
    /// The file cannot be read any more.
    pub async fn search(
        &self,
        film: &Arc<Film>,
        after: usize,
        words: &str,
        other: Option<Arc<Reading>>,
    ) -> Result<Found, String> {
        let (film, redactor) = (Arc::clone(film), self.inner.redactor.clone());
        let words = words.to_lowercase();
        let found = self
            .work(move || search::search(&film, after, &words, other.as_deref(), &redactor))
            .await?;
        found.map_err(|error| format!("the recording cannot be read any more: {error}"))
    }

    /// Lets go of what nobody looks at, once it was held long enough.
    fn sweep_later(&self) {
        let inner = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            tokio::time::sleep(HELD + Duration::from_secs(1)).await;
            if let Some(inner) = inner.upgrade() {
                inner.films.lock().retain(|held| held.looked.elapsed() < HELD);
                inner.readings.lock().retain(|held| held.looked.elapsed() < HELD);
            }
        });
    }
}

/// Hands on what a component wants done at the steps up to this one (index): as recorded, or, where
/// another reading has something else, that.
///
/// # Errors
/// The file cannot be read any more.
pub fn retell(
    film: &Film,
    upto: usize,
    other: Option<&Reading>,
    mut take: impl FnMut(&Action),
) -> std::io::Result<()> {
    let mut told = 0;
    // Steps without recorded actions at which the other one has some.
    let between = |from: usize, to: usize, take: &mut dyn FnMut(&Action)| {
        let mut at = from;
        while let Some(step) = other.and_then(|other| other.next(at)).filter(|step| *step < to) {
            let actions = other.and_then(|other| other.actions(step)).flatten();
            actions.iter().flatten().for_each(&mut *take);
            at = step + 1;
        }
    };
    film.actions(upto, |step, action| {
        if told <= step {
            between(told, step + 1, &mut take);
            told = step + 1;
        }
        if !other.is_some_and(|other| other.differs(step)) {
            take(&action);
        }
    })?;
    between(told, upto.saturating_add(1), &mut take);
    Ok(())
}

fn hold<K: PartialEq, V>(all: &mut Vec<Held<K, V>>, key: K, value: V, most: usize) {
    all.retain(|held| held.key != key);
    while all.len() >= most {
        let oldest = all.iter().enumerate().min_by_key(|(_, held)| held.looked).map(|(at, _)| at);
        all.swap_remove(oldest.unwrap_or(0));
    }
    all.push(Held { key, value, looked: Instant::now() });
}

/// The file of a recording, if its name leads nowhere else.
fn inside(folder: &Path, named: &str) -> Result<PathBuf, String> {
    let gone = || "the recording is not there any more: recordings go with their age, and for want of room";
    let named = Path::new(named);
    let plain = named.components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || named.extension().is_none_or(|extension| extension != "jsonl") {
        return Err("the record of this turn names no recording".to_owned());
    }
    let folder = folder.canonicalize().map_err(|_| gone())?;
    let path = folder.join(named).canonicalize().map_err(|_| gone())?;
    if !path.starts_with(&folder) || !path.is_file() {
        return Err("the record of this turn names no recording".to_owned());
    }
    Ok(path)
}
