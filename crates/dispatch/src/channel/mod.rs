//! The context of a channel, or any other lane: who answers there and how, where its agent works,
//! and what it remembers.
//!
//! [`ChannelContext`] works it out from the operator's files and people's choices. People choose
//! through [`settings`] and [`projects`]; [`mod@effective`] says what is in force, [`options`] what
//! there is to choose from, [`offers`] which backends. [`sessions`] takes conversations up again,
//! [`listings`] asks agents what they know, [`memory`] is what the agent of a lane is given to read
//! and notes.
//!
//! A thread has a session of its own; the settings of its channel hold where it has none of its
//! own.

pub(crate) mod effective;
pub(crate) mod listings;
mod memory;
mod offers;
pub(crate) mod options;
pub(crate) mod projects;
pub(crate) mod sessions;
mod settings;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use self::effective::{Effective, effective, names};
use super::parts::Parts;
use aetheel_model::agent::Descriptor;
use aetheel_model::event::Lane;
use aetheel_store::workspace::{Binding, BindingsError, LaneSettings};

/// The setting beside a session that says where it was made.
pub(super) const DIRECTORY: &str = "directory";
/// Threads remembered; a forgotten one is remembered again with its next message.
const THREAD_LIMIT: usize = 10_000;

/// The context of each lane, from the operator's files and people's choices.
pub(crate) struct ChannelContext {
    parts: Arc<Parts>,
    /// The channels of threads.
    parents: Mutex<HashMap<u64, u64>>,
    /// Warnings about settings that are not in force, each reported once.
    reported: Mutex<HashSet<String>>,
    /// Warnings about the documents when they were last read.
    document_warnings: Mutex<Vec<String>>,
}

impl ChannelContext {
    pub(crate) fn new(parts: Arc<Parts>) -> Self {
        Self {
            parts,
            parents: Mutex::default(),
            reported: Mutex::default(),
            document_warnings: Mutex::default(),
        }
    }

    /// Whether a warning is new in this life of the gateway; from now on it is not.
    fn reports_first(&self, warning: &str) -> bool {
        self.reported.lock().insert(warning.to_owned())
    }

    pub(crate) fn learn(&self, channel: u64, parent: u64) {
        let mut parents = self.parents.lock();
        if parents.len() >= THREAD_LIMIT {
            parents.clear();
        }
        parents.insert(channel, parent);
    }

    /// The lane of the channel that a lane's thread belongs to.
    pub(crate) fn parent_of(&self, lane: &Lane) -> Option<Lane> {
        let Lane::Channel(channel) = lane else { return None };
        self.parents.lock().get(channel).map(|parent| Lane::Channel(*parent))
    }

    /// The backend that answers in a lane, and the operator's settings of it.
    pub(crate) async fn backend_of(&self, lane: &Lane) -> (String, LaneSettings) {
        let (name, settings, _) = self.answering(lane).await;
        (name, settings)
    }

    /// The backend that answers in a lane, the operator's settings of it, and a backend that people
    /// chose and that is not allowed. A thread goes before its channel; in either, what people
    /// chose before what the operator wrote.
    pub(crate) async fn answering(&self, lane: &Lane) -> (String, LaneSettings, Option<String>) {
        let (channels, bindings) =
            (self.parts.workspace.channels().await, self.parts.workspace.bindings());
        let own = channels.of(lane);
        let parent = self.parent_of(lane);
        let above = parent.as_ref().map(|parent| channels.of(parent));
        let settings = above.as_ref().map_or_else(|| own.clone(), |above| own.clone().or(above));
        let (mut name, mut refused) = (None, None);
        for (lane, written) in
            std::iter::once((lane, &own)).chain(parent.as_ref().zip(above.as_ref()))
        {
            if let Some(chosen) = bindings.active_backend(lane).await {
                if self.may_choose(lane, &settings, &chosen) {
                    name = Some(chosen);
                } else {
                    refused.get_or_insert(chosen);
                }
            }
            name = name.or_else(|| written.backend.clone());
            if name.is_some() {
                break;
            }
        }
        (name.unwrap_or_else(|| self.parts.choices.backend.clone()), settings, refused)
    }

    /// People's choices for a lane and backend.
    pub(crate) async fn chosen(&self, lane: &Lane, backend: &str) -> BTreeMap<String, String> {
        let bindings = self.parts.workspace.bindings();
        let mut own = bindings.get(lane, backend).await.settings;
        if let Some(parent) = self.parent_of(lane) {
            let mut above = bindings.get(&parent, backend).await.settings;
            for name in names::ALL {
                if let (false, Some(value)) = (own.contains_key(name), above.remove(name)) {
                    own.insert(name.to_owned(), value);
                }
            }
        }
        own
    }

    /// Where a lane's agent works.
    ///
    /// # Errors
    /// Why it must not work at all, for the operator.
    pub(crate) async fn directory_of(&self, settings: &LaneSettings) -> Result<PathBuf, String> {
        if let Some(fault) = &settings.fault {
            return Err(fault.clone());
        }
        let Some(directory) = &settings.directory else { return Ok(self.parts.host.cwd.clone()) };
        let home = self.parts.host.variables.get("HOME").map(String::as_str);
        self.parts.workspace.directory(directory, &self.parts.choices.project_roots, home).await
    }

    /// The settings in force for a lane and backend; others that were set are logged once.
    pub(crate) async fn in_force(
        &self,
        lane: &Lane,
        settings: &LaneSettings,
        descriptor: &Descriptor,
    ) -> Effective {
        let own = self.chosen(lane, &descriptor.name).await;
        let found = effective(&self.parts.choices, settings, &own, descriptor);
        for warning in &found.warnings {
            if self.reports_first(warning) {
                tracing::warn!(%lane, "{warning}");
            }
        }
        found
    }

    /// Notes with the session of a lane that it works in another directory than before.
    pub(crate) async fn note_directory(
        &self,
        lane: &Lane,
        backend: &str,
        binding: &Binding,
        directory: Option<&String>,
    ) -> Result<(), BindingsError> {
        if binding.settings.get(DIRECTORY) == directory {
            return Ok(());
        }
        let bindings = self.parts.workspace.bindings();
        bindings.set_setting(lane, backend, DIRECTORY, directory.cloned()).await
    }

    /// A working directory other than the usual one.
    pub(crate) fn elsewhere(&self, directory: &Path) -> Option<String> {
        (directory != self.parts.host.cwd).then(|| directory.to_string_lossy().into_owned())
    }
}
