//! `state/sessions.md`: the session and settings that every lane has with each backend.

mod item;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

pub(super) use item::SavedBinding;
use item::is_setting;
use parking_lot::Mutex;

use super::FileError;
use super::state_file::{EntryError, EntryValue, StateEntry as _, StateFile, Token};
use aetheel_model::agent::{InvalidSessionId, SessionId};
use aetheel_model::event::Lane;

impl EntryValue for SessionId {
    fn to_text(&self) -> String {
        self.as_str().to_owned()
    }

    fn read(token: &Token) -> Result<Self, EntryError> {
        Self::new(token.text()).map_err(|error| EntryError::InvalidSession(Box::new(error)))
    }
}

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

/// A session that a person chose, with one setting of it.
pub struct ChosenSession {
    /// The agent's id of the session.
    pub id: SessionId,
    /// Whether the next turn continues a copy of the session.
    pub fork: bool,
    /// The name of the setting.
    pub setting: &'static str,
    /// The value of the setting, or `None` for the default.
    pub value: Option<String>,
}

/// All bindings. Cheap to clone; clones share everything.
///
/// Every call first reads the file again if somebody changed it.
#[derive(Clone, Debug)]
pub struct Bindings {
    file: StateFile<SavedBinding>,
    /// Locked only while the file is locked.
    epochs: Arc<Mutex<HashMap<Lane, u64>>>,
}

type SavedBindings = BTreeMap<(Lane, String), SavedBinding>;

/// Returns the entries of a lane with any backend.
fn of_lane<'a>(all: &'a SavedBindings, lane: &Lane) -> impl Iterator<Item = &'a SavedBinding> {
    let first = (lane.clone(), String::new());
    all.range(first..).map(|(_, item)| item).take_while(move |item| item.lane == *lane)
}

/// Returns the entry of a lane and backend, which is added if it is missing.
fn entry<'a>(all: &'a mut SavedBindings, lane: &Lane, backend: &str) -> &'a mut SavedBinding {
    let key = (lane.clone(), backend.to_owned());
    all.entry(key).or_insert_with(|| SavedBinding::new(lane, backend))
}

impl Bindings {
    /// Reads the file; a missing file is empty.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be read.
    pub(super) fn open(state: &Path) -> Result<Self, FileError> {
        Ok(Self { file: StateFile::open(state)?, epochs: Arc::default() })
    }

    pub(super) fn file(&self) -> &StateFile<SavedBinding> {
        &self.file
    }

    /// Returns the binding of a lane to a backend. It is empty if the file has no line about it.
    pub async fn get(&self, lane: &Lane, backend: &str) -> Binding {
        let (key, epochs) = ((lane.clone(), backend.to_owned()), Arc::clone(&self.epochs));
        self.file
            .look(move |file| {
                let epoch = epochs.lock().get(&key.0).copied().unwrap_or(0);
                match file.entries.get(&key).cloned() {
                    Some(SavedBinding { session, fork, settings, moved, .. }) => {
                        Binding { session, fork, settings, epoch, moved, unreadable: false }
                    }
                    None => {
                        let unreadable =
                            file.has_unreadable_line_with(&[&key.0.to_string(), &key.1]);
                        Binding { epoch, unreadable, ..Binding::default() }
                    }
                }
            })
            .await
    }

    /// Returns the backend chosen for a lane, or `None` if the operator's default applies.
    pub async fn active_backend(&self, lane: &Lane) -> Option<String> {
        let lane = lane.clone();
        self.file
            .look(move |file| {
                let mut current = of_lane(&file.entries, &lane).filter(|item| item.current);
                current.next().map(|item| item.backend.clone())
            })
            .await
    }

    /// Returns whether the file has a line about a lane.
    pub async fn has_lane(&self, lane: &Lane) -> bool {
        let lane = lane.clone();
        self.file.look(move |file| of_lane(&file.entries, &lane).next().is_some()).await
    }

    /// Returns the lanes that the file has lines about.
    pub async fn lanes(&self) -> Vec<Lane> {
        self.file
            .look(|file| {
                let mut lanes: Vec<Lane> =
                    file.entries.values().map(|item| item.lane.clone()).collect();
                lanes.dedup();
                lanes
            })
            .await
    }

    /// Returns the lines that could not be read when the file was last read, each with its number.
    /// They stay in the file.
    pub async fn warnings(&self) -> Vec<String> {
        self.file.look(|file| file.warnings.clone()).await
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
        self.change(lane, backend, move |_, item| item.set(name, value)).await
    }

    /// Chooses the backend of a lane. Its sessions and settings with other backends stay.
    ///
    /// # Errors
    /// [`BindingsError::File`] if the file cannot be read or written.
    pub async fn set_backend(&self, lane: &Lane, backend: &str) -> Result<(), BindingsError> {
        let (lane, backend) = (lane.clone(), backend.to_owned());
        self.write(move |all| {
            entry(all, &lane, &backend);
            for item in all.values_mut().filter(|item| item.lane == lane) {
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
        self.write(move |all| {
            all.values_mut().filter(|item| item.lane == lane).for_each(|item| item.current = false);
        })
        .await
    }

    /// Binds a lane and backend to a session that a person chose. A running turn does not undo this.
    ///
    /// # Errors
    /// [`BindingsError`] if the name is invalid, or the file cannot be read or written.
    pub async fn resume(
        &self,
        lane: &Lane,
        backend: &str,
        chosen: ChosenSession,
    ) -> Result<(), BindingsError> {
        let ChosenSession { id, fork, setting, value } = chosen;
        if !is_setting(setting) {
            return Err(BindingsError::InvalidSetting(setting.to_owned()));
        }
        let (lane, backend) = (lane.clone(), backend.to_owned());
        let epochs = Arc::clone(&self.epochs);
        self.write(move |all| {
            *epochs.lock().entry(lane.clone()).or_default() += 1;
            let item = entry(all, &lane, &backend);
            item.bind(Some(id));
            item.fork = fork;
            item.set(setting.to_owned(), value);
        })
        .await
    }

    /// Returns the sessions that other lanes have with a backend.
    pub async fn sessions_of_other_lanes(&self, lane: &Lane, backend: &str) -> Vec<SessionId> {
        let (lane, backend) = (lane.clone(), backend.to_owned());
        self.file
            .look(move |file| {
                let all = file.entries.values();
                let others = all.filter(|item| item.lane != lane && item.backend == backend);
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
        let (lane, epochs) = (lane.clone(), Arc::clone(&self.epochs));
        self.write(move |all| {
            *epochs.lock().entry(lane.clone()).or_default() += 1;
            let items = all.values_mut().filter(|item| item.lane == lane);
            // After a reset, it no longer matters that a session stayed on another machine.
            let forget = |item: &mut SavedBinding| {
                let moved = std::mem::take(&mut item.moved);
                item.session.take().is_some() || moved
            };
            items.map(forget).filter(|had| *had).count() > 0
        })
        .await
    }

    /// Changes the entry of a lane and backend, given the lane's epoch.
    async fn change<T: Send + 'static>(
        &self,
        lane: &Lane,
        backend: &str,
        change: impl FnOnce(u64, &mut SavedBinding) -> T + Send + 'static,
    ) -> Result<T, BindingsError> {
        let (lane, backend, epochs) = (lane.clone(), backend.to_owned(), Arc::clone(&self.epochs));
        self.file
            .write(move |file| {
                let epoch = epochs.lock().get(&lane).copied().unwrap_or(0);
                let known = file.entries.get(&(lane.clone(), backend.clone())).cloned();
                let is_known = known.is_some();
                let mut item = known.unwrap_or_else(|| SavedBinding::new(&lane, &backend));
                let answer = change(epoch, &mut item);
                if item.is_worth_keeping() {
                    file.put(item)?;
                } else if is_known {
                    file.entries.remove(&item.key());
                    file.save()?;
                }
                Ok(answer)
            })
            .await
    }

    async fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut SavedBindings) -> T + Send + 'static,
    ) -> Result<T, BindingsError> {
        Ok(self.file.change(change).await?)
    }
}

#[cfg(test)]
mod tests;
