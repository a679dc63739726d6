//! Binding a channel to a project at run time: the working directory and the backend of the channel
//! are written into `channels.md`.
//!
//! Only directories below the operator's project roots are accepted. The callers check who may bind
//! a channel. Tested by `tests/gateway/projects.rs`.

use super::error::LaneRequestError;
use super::settings::Settings;
use aetheel_model::event::Lane;
use aetheel_model::plain::with_causes;

/// The lines to write for a channel. `None` keeps a line, and an empty text removes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectBinding {
    /// A directory below one of `PROJECT_ROOTS`. A relative path is below the first of them.
    pub directory: Option<String>,
    /// The backend of the channel.
    pub backend: Option<String>,
}

impl Settings {
    /// Binds a lane to a project from its next turn on. An empty `project` changes nothing.
    /// `called` is the displayed name of the channel. Returns a message that describes the binding.
    ///
    /// # Errors
    /// [`LaneRequestError`] if the directory or backend cannot be used, or if the file cannot be
    /// written. Nothing was changed.
    pub async fn bind_project(
        &self,
        lane: &Lane,
        called: Option<&str>,
        project: &ProjectBinding,
    ) -> Result<String, LaneRequestError> {
        let parts = &self.shared.deps;
        if *project == ProjectBinding::default() {
            return Ok(self.project(lane).await);
        }
        let named = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        if let Some(directory) = named(&project.directory) {
            let home = parts.host.variables.get("HOME").map(String::as_str);
            let found = parts
                .workspace
                .directory(directory.trim(), &parts.choices.project_roots, home)
                .await;
            found.map_err(|error| {
                tracing::warn!(%lane, fault = error.to_string(), "a project was refused");
                LaneRequestError::NotAProject(directory)
            })?;
        }
        if let Some(backend) = named(&project.backend) {
            let (_, settings) = self.shared.channels.backend_of(lane).await;
            self.shared.channels.check_offered(lane, &settings, &backend)?;
            if let Some(reason) = parts.backends.unavailable(&backend).await {
                return Err(LaneRequestError::Unavailable { name: backend, reason });
            }
        }
        let entries = [("directory", &project.directory), ("backend", &project.backend)];
        let entries: Vec<_> = entries
            .into_iter()
            .filter_map(|(key, value)| Some((key, value.as_ref()?.trim().to_owned())))
            .collect();
        parts.workspace.bind_channel(lane, called, entries).await.map_err(|error| {
            tracing::error!(%lane, error = %with_causes(&error), "cannot write channels.md");
            LaneRequestError::ProjectNotSaved
        })?;
        tracing::info!(%lane, directory = project.directory, backend = project.backend, "a channel was bound to a project");
        Ok(self.project(lane).await)
    }

    async fn project(&self, lane: &Lane) -> String {
        let settings = self.shared.deps.workspace.channels().await.of(lane);
        let directory = settings.directory.map_or_else(
            || "the gateway's workspace".to_owned(),
            |directory| format!("`{directory}`"),
        );
        let backend = settings
            .backend
            .map_or_else(|| "the default".to_owned(), |backend| format!("`{backend}`"));
        format!("This channel's agent works in {directory}; backend: {backend}.")
    }
}
