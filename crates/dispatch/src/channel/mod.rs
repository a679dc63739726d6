//! The settings and the memory of a lane, which usually is a channel or thread.
//!
//! [`ChannelContext`] computes them from the operator's files and people's choices. People choose
//! through [`settings`] and [`projects`]. [`effective`] has the settings in force, [`options`]
//! the values to choose from, and [`offers`] the allowed backends. [`sessions`] resumes
//! conversations, [`listings`] asks agents for their models and sessions, and [`memory`] has the
//! system prompt and the agent's notes.
//!
//! A thread has its own session. It inherits the settings of its channel, unless it has a setting
//! of its own.

pub(crate) mod effective;
pub(crate) mod error;
pub(crate) mod listings;
mod memory;
mod offers;
pub(crate) mod options;
pub(crate) mod projects;
pub(crate) mod sessions;
pub(crate) mod settings;
mod thread_parents;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use self::effective::{EffectiveSettings, effective_settings, names};
use self::error::LaneDirectoryError;
use self::thread_parents::ThreadParents;
use super::deps::DispatcherDeps;
use aetheel_model::agent::Descriptor;
use aetheel_model::event::Lane;
use aetheel_store::workspace::{Binding, BindingsError, LaneSettings};

/// The setting in a binding that records the working directory of the session.
pub(super) const DIRECTORY: &str = "directory";

/// Computes the settings of each lane from the operator's files and people's choices.
pub(crate) struct ChannelContext {
    deps: Arc<DispatcherDeps>,
    pub(crate) parents: ThreadParents,
    /// Warnings about settings without effect that were already reported.
    reported: Mutex<HashSet<String>>,
    /// The warnings about the documents from the last time they were read.
    document_warnings: Mutex<Vec<String>>,
}

impl ChannelContext {
    pub(crate) fn new(deps: Arc<DispatcherDeps>) -> Self {
        Self {
            deps,
            parents: ThreadParents::default(),
            reported: Mutex::default(),
            document_warnings: Mutex::default(),
        }
    }

    /// Marks a warning as reported. Returns `true` if it was not reported before by this process.
    fn reports_first(&self, warning: &str) -> bool {
        self.reported.lock().insert(warning.to_owned())
    }

    /// Returns the backend of a lane, and the operator's settings for the lane.
    pub(crate) async fn backend_of(&self, lane: &Lane) -> (String, LaneSettings) {
        let (name, settings, _) = self.resolve_backend(lane).await;
        (name, settings)
    }

    /// Returns the backend of a lane, the operator's settings for the lane, and a chosen backend
    /// that is not allowed. A thread takes precedence over its channel. In each, people's choice
    /// takes precedence over the operator's.
    pub(crate) async fn resolve_backend(
        &self,
        lane: &Lane,
    ) -> (String, LaneSettings, Option<String>) {
        let (channels, bindings) =
            (self.deps.workspace.channels().await, &self.deps.workspace.state.bindings);
        let own = channels.of(lane);
        let parent = self.parents.of(lane);
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
        (name.unwrap_or_else(|| self.deps.choices.backend.clone()), settings, refused)
    }

    /// Returns people's choices for a lane and a backend.
    pub(crate) async fn chosen(&self, lane: &Lane, backend: &str) -> BTreeMap<String, String> {
        let bindings = &self.deps.workspace.state.bindings;
        let mut own = bindings.get(lane, backend).await.settings;
        if let Some(parent) = self.parents.of(lane) {
            let mut above = bindings.get(&parent, backend).await.settings;
            for name in names::ALL {
                if let (false, Some(value)) = (own.contains_key(name), above.remove(name)) {
                    own.insert(name.to_owned(), value);
                }
            }
        }
        own
    }

    /// Returns the working directory of a lane's agent.
    ///
    /// # Errors
    /// [`LaneDirectoryError`] if no agent may run there.
    pub(crate) async fn directory_of(
        &self,
        settings: &LaneSettings,
    ) -> Result<PathBuf, LaneDirectoryError> {
        if let Some(fault) = &settings.fault {
            return Err(LaneDirectoryError::Entry(fault.clone()));
        }
        let Some(directory) = &settings.directory else { return Ok(self.deps.host.cwd.clone()) };
        let home = self.deps.host.variables.get("HOME").map(String::as_str);
        let roots = &self.deps.choices.project_roots;
        Ok(self.deps.workspace.directory(directory, roots, home).await?)
    }

    /// Returns the effective settings of a lane and a backend. Logs each warning once.
    pub(crate) async fn in_force(
        &self,
        lane: &Lane,
        settings: &LaneSettings,
        descriptor: &Descriptor,
    ) -> EffectiveSettings {
        let own = self.chosen(lane, &descriptor.name).await;
        let found = effective_settings(&self.deps.choices, settings, &own, descriptor);
        for warning in &found.warnings {
            if self.reports_first(warning) {
                tracing::warn!(%lane, "{warning}");
            }
        }
        found
    }

    /// Records the working directory of a lane's session, if it has changed.
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
        let bindings = &self.deps.workspace.state.bindings;
        bindings.set_setting(lane, backend, DIRECTORY, directory.cloned()).await
    }

    /// Returns a working directory as text, or `None` if it is the default one.
    pub(crate) fn non_default_directory(&self, directory: &Path) -> Option<String> {
        (directory != self.deps.host.cwd).then(|| directory.to_string_lossy().into_owned())
    }
}
