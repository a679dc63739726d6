//! Observers: components that read the events of turns and write lines of their own.
//!
//! Each observer has a bounded queue and one task, `observer_worker`, which calls its guest beside
//! the turns.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::loaded::{ExtensionInfo, ExtensionRefusal, LoadedExtension};
use super::observer_worker::{ObserverWorker, converted, first_event, started};
use super::set::ExtensionSet;
use super::world::{self, ExtensionGuests, ExtensionWorld, ObserverGuestWorld, call_guest};
use crate::bindings::observer::exports::aetheel::observer::observer as wit;
use crate::engine::Engine;
use crate::error::AdmissionError;
use crate::trust::TrustGate;
use aetheel_model::extension::{ExtensionDescriptor, ExtensionKind};
use aetheel_model::observed::ObservedEvent;
use aetheel_runtime::figures::{self, ObservedResult};
use aetheel_store::disk::RotatingLines;
use aetheel_turn::TurnObservers;

const QUEUE: usize = 4_096;
/// Maximum time that observers have for their last lines when the gateway ends.
const CLOSE_TIME: Duration = Duration::from_secs(2);

pub(super) struct ObserverComponent {
    guests: Arc<ExtensionGuests<ObserverGuestWorld>>,
    /// The queue of its task, which begins with the first event.
    queue: OnceLock<mpsc::Sender<wit::Event>>,
    dropped: AtomicU64,
}

impl ExtensionWorld for ObserverComponent {
    const KIND: ExtensionKind = ExtensionKind::Observer;
    const CONTRACT: &'static str = "aetheel:observer/observer";
    const VERSION: &'static str = "0.1";
    type World = ObserverGuestWorld;

    async fn prepare(
        guests: ExtensionGuests<ObserverGuestWorld>,
    ) -> Result<(ExtensionDescriptor, Self), AdmissionError> {
        let failed = |step| move |failure| AdmissionError::Trial { step, failure };
        let mut guest = guests.start().await.map_err(failed("its start"))?;
        let text = call_guest!(guest.aetheel_observer_observer.call_describe())
            .map_err(failed("its `describe`"))?;
        let again = call_guest!(guest.aetheel_observer_observer.call_describe())
            .map_err(failed("its `describe`"))?;
        let descriptor = world::descriptor(&text, &again)?;
        let configured =
            call_guest!(guest.aetheel_observer_observer.call_configure(&guests.options))
                .map_err(failed("its `configure`"))?;
        configured.map_err(|reason| guests.options_refused(&reason))?;
        drop(guest);
        let mut guest = started(&guests).await.map_err(failed("its start"))?;
        let events = [first_event()];
        let observed = call_guest!(guest.aetheel_observer_observer.call_observe(&events));
        let observed = observed.map_err(failed("its first `observe`"))?;
        let refused = |reason| AdmissionError::Trial {
            step: "its first `observe`",
            failure: crate::instance::refused(reason),
        };
        observed.map_err(refused)?;
        let (queue, dropped) = (OnceLock::new(), AtomicU64::new(0));
        Ok((descriptor, Self { guests: Arc::new(guests), queue, dropped }))
    }
}

impl LoadedExtension<ObserverComponent> {
    /// Passes an event to the observer's task, or drops and counts it if the queue is full.
    fn notify(&self, event: &ObservedEvent, folder: &Path, tasks: &ObserverTasks) {
        let name = &self.descriptor.name;
        let queue = self.extension.queue.get_or_init(|| {
            let (queue, events) = mpsc::channel(QUEUE);
            let worker = ObserverWorker {
                guests: Arc::clone(&self.extension.guests),
                name: name.clone(),
                version: self.descriptor.version.clone(),
                output: RotatingLines::new(&folder.join(name), "lines"),
            };
            tasks.lock().push(tokio::spawn(worker.run(events)));
            queue
        });
        if queue.try_send(converted(event)).is_err() {
            figures::observed(name, ObservedResult::Dropped, 1);
            let before = self.extension.dropped.fetch_add(1, Ordering::Relaxed);
            // At 1, 2, 4, 8 … lost events, so that a slow observer does not fill the log.
            if (before + 1).is_power_of_two() {
                tracing::warn!(
                    observer = name,
                    dropped = before + 1,
                    "the observer is too slow, so events are dropped"
                );
            }
        }
    }
}

type ObserverTasks = Mutex<Vec<JoinHandle<()>>>;

/// The observers of a folder. Dropping it ends the watch.
pub struct ObserverSet {
    set: ExtensionSet<ObserverComponent>,
    /// The folder of the observers' lines.
    output: PathBuf,
    tasks: ObserverTasks,
}

impl ObserverSet {
    /// Loads the observers of `observers` in the backends folder, and follows its changes from then
    /// on. Each writes its lines to a folder of its name in `output`. Returns the files that are
    /// not used.
    pub async fn start(
        engine: Engine,
        backends: &Path,
        output: PathBuf,
        gate: TrustGate,
    ) -> (Self, Vec<ExtensionRefusal>) {
        let (set, refused) = ExtensionSet::start(engine, backends, gate).await;
        (Self { set, output, tasks: Mutex::default() }, refused)
    }

    /// Describes the observers that are in use now, by name.
    #[must_use]
    pub fn list(&self) -> Vec<ExtensionInfo> {
        self.set.list()
    }

    /// Ends all observers, after each has read its waiting events and written its last lines, or
    /// after two seconds.
    pub async fn close(&self) {
        self.set.clear();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        let ended = async {
            for task in tasks {
                let _ = task.await; // a panic was logged
            }
        };
        let _ = tokio::time::timeout(CLOSE_TIME, ended).await;
    }
}

impl TurnObservers for ObserverSet {
    fn is_empty(&self) -> bool {
        self.set.current().is_empty()
    }

    fn notify(&self, event: &ObservedEvent) {
        for observer in self.set.current().values() {
            observer.notify(event, &self.output, &self.tasks);
        }
    }
}

/// An observer that was loaded from a file of any folder, to try it.
pub struct LoadedObserver(LoadedExtension<ObserverComponent>);

impl LoadedObserver {
    /// Admits an observer in the same way as loading does, except for its trust.
    ///
    /// # Errors
    /// [`AdmissionError`], the reason why it could not be used.
    pub async fn open(engine: &Engine, path: &Path) -> Result<Self, AdmissionError> {
        LoadedExtension::open(engine, path).await.map(Self)
    }

    /// Returns the observer's description of itself.
    #[must_use]
    pub fn descriptor(&self) -> &ExtensionDescriptor {
        &self.0.descriptor
    }

    /// Returns the SHA-256 of its file, in lower-case hex.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.0.digest
    }
}
