//! Binding a channel to a project at run time: its working directory and who answers there, written
//! into `channels.md`.
//!
//! Only paths below the operator's roots are taken. The adapters decide who may do this. Pinned
//! by `tests/gateway/projects.rs`.

use crate::Dispatcher;
use aetheel_model::event::Lane;

/// The lines to write about a channel; none: as it is, an empty text: not any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// Below one of `PROJECT_ROOTS`; a relative one is meant from the first of them.
    pub directory: Option<String>,
    /// The backend that answers.
    pub backend: Option<String>,
}

impl Dispatcher {
    /// Binds a lane to a project, from its next turn on; with nothing to write, says what it is
    /// bound to. `called` is the name people know the channel by. Returns the words for the person
    /// who asked.
    ///
    /// # Errors
    /// When the directory or backend cannot be used, or the file cannot be written; nothing was
    /// changed. In words for the person who asked.
    pub async fn bind_project(
        &self,
        lane: &Lane,
        called: Option<&str>,
        project: &Project,
    ) -> Result<String, String> {
        let parts = &self.inner.parts;
        if *project == Project::default() {
            return Ok(self.project(lane).await);
        }
        let named = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        if let Some(directory) = named(&project.directory) {
            let home = parts.host.variables.get("HOME").map(String::as_str);
            let found = parts
                .workspace
                .directory(directory.trim(), &parts.choices.project_roots, home)
                .await;
            found.map_err(|fault| {
                tracing::warn!(%lane, fault, "a project was refused");
                format!("{directory:?} cannot be used: it must be a folder below PROJECT_ROOTS.")
            })?;
        }
        if let Some(backend) = named(&project.backend) {
            let (_, settings) = self.inner.channels.backend_of(lane).await;
            if let Some(why) = self.inner.channels.not_offered(lane, &settings, &backend) {
                return Err(why);
            }
            if let Some(reason) = parts.backends.unavailable(&backend).await {
                return Err(format!("{backend} cannot be used here: {reason}."));
            }
        }
        let entries = [("directory", &project.directory), ("backend", &project.backend)];
        let entries: Vec<_> = entries
            .into_iter()
            .filter_map(|(key, value)| Some((key, value.as_ref()?.trim().to_owned())))
            .collect();
        parts.workspace.bind_channel(lane, called, entries).await.map_err(|error| {
            tracing::error!(%lane, %error, "cannot write channels.md");
            "The project could not be saved: channels.md cannot be written. (storage)".to_owned()
        })?;
        tracing::info!(%lane, directory = project.directory, backend = project.backend, "a channel was bound to a project");
        Ok(self.project(lane).await)
    }

    async fn project(&self, lane: &Lane) -> String {
        let settings = self.inner.parts.workspace.channels().await.of(lane);
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
