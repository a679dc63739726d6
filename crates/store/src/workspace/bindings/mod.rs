//! `state/sessions.md`: the session and settings that every lane has with each backend.

mod item;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

pub(super) use item::SavedBinding;
use item::is_setting;
use parking_lot::{Mutex, MutexGuard};

use super::ledger::{LedgerEntry as _, LedgerFile, line_of, parse_entries};
use super::{FileError, blocking};
use aetheel_model::agent::{InvalidSessionId, SessionId};
use aetheel_model::event::{Lane, LaneFilter};

const HEADING: &str = "# Sessions

The conversation that each lane continues, one line for each lane and backend. Aetheel reads this file again whenever it changes:
remove `session` and its id to begin a new conversation, or a whole line to forget its settings too.

";

/// The reason why a binding was not saved.
#[derive(Debug, thiserror::Error)]
pub enum BindingsError {
    /// The id does not have the form of a session id.
    #[error(transparent)]
    InvalidSession(#[from] InvalidSessionId),
    /// The name does not have the form of a setting's name, or is `session` or `current`.
    #[error(
        "setting name {0:?} must be lower-case letters, digits and `-`, and neither `session` nor `current`"
    )]
    InvalidSetting(String),
    /// The file could not be read or written. A change that could not be written stays in force
    /// until the program ends, and is written with the next change.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The state of a lane with one backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// The session to continue.
    pub session: Option<SessionId>,
    /// Whether the next turn continues a copy of the session, which then is the session.
    pub fork: bool,
    /// The settings chosen for this lane and backend, by name.
    pub settings: BTreeMap<String, String>,
    /// Counts how often the lane was reset or resumed a session since the program began; see
    /// [`Bindings::set_session_if`].
    pub epoch: u64,
    /// Whether its session stayed on another machine and the lane has had no other session since.
    pub moved: bool,
    /// Whether the file has a line about it that could not be read.
    pub unreadable: bool,
}

/// All bindings. Cheap to clone; clones share everything.
///
/// Every call first reads the file again if somebody changed it.
#[derive(Clone, Debug)]
pub struct Bindings(Arc<Mutex<BindingsState>>);

#[derive(Debug)]
struct BindingsState {
    ledger: LedgerFile<SavedBinding>,
    epochs: HashMap<Lane, u64>,
}

impl BindingsState {
    /// Returns the entries of a lane with any backend.
    fn of(&self, lane: &Lane) -> impl Iterator<Item = &SavedBinding> {
        let first = (lane.clone(), String::new());
        self.ledger
            .entries
            .range(first..)
            .map(|(_, item)| item)
            .take_while(move |item| item.lane == *lane)
    }
}

impl Bindings {
    /// Reads the file; a missing file is empty.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let state =
            BindingsState { ledger: LedgerFile::open(path, HEADING)?, epochs: HashMap::new() };
        Ok(Self(Arc::new(Mutex::new(state))))
    }

    /// Returns the binding of a lane to a backend. It is empty if the file has no line about it.
    pub async fn get(&self, lane: &Lane, backend: &str) -> Binding {
        let key = (lane.clone(), backend.to_owned());
        self.read(move |state| {
            let epoch = state.epochs.get(&key.0).copied().unwrap_or(0);
            match state.ledger.entries.get(&key).cloned() {
                Some(SavedBinding { session, fork, settings, moved, .. }) => {
                    Binding { session, fork, settings, epoch, moved, unreadable: false }
                }
                None => {
                    let unreadable =
                        state.ledger.has_unreadable_line_with(&[&key.0.to_string(), &key.1]);
                    Binding { epoch, unreadable, ..Binding::default() }
                }
            }
        })
        .await
    }

    /// Returns the backend chosen for a lane, or `None` if the operator's default applies.
    pub async fn active_backend(&self, lane: &Lane) -> Option<String> {
        let lane = lane.clone();
        self.read(move |state| {
            state.of(&lane).find(|item| item.current).map(|item| item.backend.clone())
        })
        .await
    }

    /// Returns whether the file has a line about a lane.
    pub async fn has_lane(&self, lane: &Lane) -> bool {
        let lane = lane.clone();
        self.read(move |state| state.of(&lane).next().is_some()).await
    }

    /// Returns the lanes that the file has lines about.
    pub async fn lanes(&self) -> Vec<Lane> {
        self.read(|state| {
            let mut lanes: Vec<Lane> =
                state.ledger.entries.values().map(|item| item.lane.clone()).collect();
            lanes.dedup();
            lanes
        })
        .await
    }

    /// Returns the lines that could not be read when the file was last read, each with its number.
    /// They stay in the file.
    pub async fn warnings(&self) -> Vec<String> {
        self.read(|state| state.ledger.warnings.clone()).await
    }

    /// Binds a lane and backend to a session, or with `None` forgets the present one.
    ///
    /// # Errors
    /// [`BindingsError::File`] if the file cannot be read or written.
    pub async fn set_session(
        &self,
        lane: &Lane,
        backend: &str,
        session: Option<SessionId>,
    ) -> Result<(), BindingsError> {
        self.change(lane, backend, move |_, item| item.bind(session)).await
    }

    /// Binds a lane and backend to a session, unless the lane was reset or resumed a session since
    /// its epoch was `epoch`. So a turn that began before a reset does not undo it. Returns whether
    /// the session was bound.
    ///
    /// # Errors
    /// [`BindingsError::File`] if the file cannot be read or written.
    pub async fn set_session_if(
        &self,
        lane: &Lane,
        backend: &str,
        session: Option<SessionId>,
        epoch: u64,
    ) -> Result<bool, BindingsError> {
        self.change(lane, backend, move |now, item| {
            let current = now == epoch;
            if current {
                item.bind(session);
            }
            current
        })
        .await
    }

    /// Saves a setting for a lane and backend, or with `None` forgets it.
    ///
    /// # Errors
    /// [`BindingsError`] if the name is invalid, or the file cannot be read or written.
    pub async fn set_setting(
        &self,
        lane: &Lane,
        backend: &str,
        name: &str,
        value: Option<String>,
    ) -> Result<(), BindingsError> {
        if !is_setting(name) {
            return Err(BindingsError::InvalidSetting(name.to_owned()));
        }
        let name = name.to_owned();
        self.change(lane, backend, move |_, item| match value {
            Some(value) => drop(item.settings.insert(name, value)),
            None => drop(item.settings.remove(&name)),
        })
        .await
    }

    /// Chooses the backend of a lane. Its sessions and settings with other backends stay.
    ///
    /// # Errors
    /// [`BindingsError::File`] if the file cannot be read or written.
    pub async fn set_backend(&self, lane: &Lane, backend: &str) -> Result<(), BindingsError> {
        let (lane, backend) = (lane.clone(), backend.to_owned());
        self.write(move |state| {
            state
                .ledger
                .entries
                .entry((lane.clone(), backend.clone()))
                .or_insert_with(|| SavedBinding::new(&lane, &backend));
            for item in state.ledger.entries.values_mut().filter(|item| item.lane == lane) {
                item.current = item.backend == backend;
            }
        })
        .await
    }

    /// Removes the choice of a backend, so that the operator's default applies. Sessions and
    /// settings stay.
    ///
    /// # Errors
    /// [`BindingsError::File`] if the file cannot be read or written.
    pub async fn unset_backend(&self, lane: &Lane) -> Result<(), BindingsError> {
        let lane = lane.clone();
        self.write(move |state| {
            state
                .ledger
                .entries
                .values_mut()
                .filter(|item| item.lane == lane)
                .for_each(|item| item.current = false)
        })
        .await
    }

    /// Binds a lane and backend to a session that a person chose, together with one setting of that
    /// session. With `fork`, the next turn continues a copy of the session. A running turn does not
    /// undo this.
    ///
    /// # Errors
    /// [`BindingsError`] if the name is invalid, or the file cannot be read or written.
    pub async fn resume(
        &self,
        lane: &Lane,
        backend: &str,
        (session, fork): (SessionId, bool),
        (name, value): (&str, Option<String>),
    ) -> Result<(), BindingsError> {
        if !is_setting(name) {
            return Err(BindingsError::InvalidSetting(name.to_owned()));
        }
        let (lane, backend, name) = (lane.clone(), backend.to_owned(), name.to_owned());
        self.write(move |state| {
            *state.epochs.entry(lane.clone()).or_default() += 1;
            let item = state
                .ledger
                .entries
                .entry((lane.clone(), backend.clone()))
                .or_insert_with(|| SavedBinding::new(&lane, &backend));
            item.bind(Some(session));
            item.fork = fork;
            match value {
                Some(value) => drop(item.settings.insert(name, value)),
                None => drop(item.settings.remove(&name)),
            }
        })
        .await
    }

    /// Returns the sessions that other lanes have with a backend.
    pub async fn sessions_of_other_lanes(&self, lane: &Lane, backend: &str) -> Vec<SessionId> {
        let (lane, backend) = (lane.clone(), backend.to_owned());
        self.read(move |state| {
            let others = state
                .ledger
                .entries
                .values()
                .filter(|item| item.lane != lane && item.backend == backend);
            others.filter_map(|item| item.session.clone()).collect()
        })
        .await
    }

    /// Forgets the sessions of a lane with all backends, also for running turns. Its settings stay.
    /// Returns whether there was a session.
    ///
    /// # Errors
    /// [`BindingsError::File`] if the file cannot be read or written.
    pub async fn reset(&self, lane: &Lane) -> Result<bool, BindingsError> {
        let lane = lane.clone();
        self.write(move |state| {
            *state.epochs.entry(lane.clone()).or_default() += 1;
            let items = state.ledger.entries.values_mut().filter(|item| item.lane == lane);
            // After a reset, it no longer matters that a session stayed on another machine.
            let forget = |item: &mut SavedBinding| {
                let moved = std::mem::take(&mut item.moved);
                item.session.take().is_some() || moved
            };
            items.map(forget).filter(|had| *had).count() > 0
        })
        .await
    }

    /// Returns the lines about some lanes.
    pub(super) async fn lines_of(&self, lanes: LaneFilter) -> String {
        self.read(move |state| {
            let of = state.ledger.entries.values().filter(|item| lanes(&item.lane));
            of.map(line_of).collect()
        })
        .await
    }

    /// Forgets everything about some lanes.
    pub(super) async fn forget_all(&self, lanes: LaneFilter) -> Result<(), BindingsError> {
        self.write(move |state| state.ledger.entries.retain(|_, item| !lanes(&item.lane))).await
    }

    /// Imports lines of another machine, except those about a lane and backend that are known here.
    /// Their sessions stay on that machine; the binding only records that there was one.
    pub(super) async fn import(&self, lines: &str) -> Result<(), BindingsError> {
        let items: Vec<SavedBinding> = parse_entries(lines);
        self.write(move |state| {
            for item in items.into_iter().filter(|item| !item.lane.is_local()) {
                let item = SavedBinding {
                    moved: item.moved || item.session.is_some(),
                    session: None,
                    fork: false,
                    ..item
                };
                state.ledger.entries.entry(item.key()).or_insert(item);
            }
        })
        .await
    }

    async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&BindingsState) -> T + Send + 'static,
    ) -> T {
        let bindings = self.clone();
        blocking(move || {
            let mut state = bindings.lock();
            if let Err(error) = state.ledger.refresh() {
                tracing::warn!(error = %error.source, "{error}; the content that was read last stays in force");
            }
            look(&state)
        })
        .await
    }

    async fn change<T: Send + 'static>(
        &self,
        lane: &Lane,
        backend: &str,
        change: impl FnOnce(u64, &mut SavedBinding) -> T + Send + 'static,
    ) -> Result<T, BindingsError> {
        let key = (lane.clone(), backend.to_owned());
        self.with(move |state| {
            let epoch = state.epochs.get(&key.0).copied().unwrap_or(0);
            let known = state.ledger.entries.get(&key);
            let mut item = known.cloned().unwrap_or_else(|| SavedBinding::new(&key.0, &key.1));
            let is_known = known.is_some();
            let answer = change(epoch, &mut item);
            if item.is_worth_keeping() {
                state.ledger.put(item)?;
            } else if is_known {
                state.ledger.entries.remove(&key);
                state.ledger.save()?;
            }
            Ok(answer)
        })
        .await
    }

    async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut BindingsState) -> T + Send + 'static,
    ) -> Result<T, BindingsError> {
        self.with(move |state| {
            let answer = change(state);
            state.ledger.entries.retain(|_, item| item.is_worth_keeping());
            state.ledger.save()?;
            Ok(answer)
        })
        .await
    }

    async fn with<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut BindingsState) -> Result<T, BindingsError> + Send + 'static,
    ) -> Result<T, BindingsError> {
        let bindings = self.clone();
        blocking(move || {
            let mut state = bindings.lock();
            state.ledger.refresh()?;
            change(&mut state)
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, BindingsState> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests;
