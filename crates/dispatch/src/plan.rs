//! A turn that is ready to begin.

use std::path::PathBuf;
use std::sync::Arc;

use super::attachments::FetchedFiles;
use aetheel_model::agent::StartTurn;
use aetheel_model::prompt::Expansion;
use aetheel_recording::Backend;
use aetheel_store::workspace::{Binding, LaneSettings};
use aetheel_turn::ContinuedTurn;

/// A turn that is ready to begin or to continue.
pub struct TurnPlan {
    /// The backend.
    pub backend: Arc<dyn Backend>,
    /// The input that starts the turn.
    pub start: StartTurn,
    /// The operator's settings for the lane.
    pub lane: LaneSettings,
    /// The working directory.
    pub directory: PathBuf,
    /// The lines below the answer.
    pub notices: Vec<String>,
    /// Whether nothing may be changed.
    pub planning: bool,
    pub(crate) files: FetchedFiles,
    pub(crate) binding: Binding,
    /// The running turn, if a previous process began it.
    pub(crate) continued: Option<ContinuedTurn>,
}

impl TurnPlan {
    /// Returns the forms that the backend expands in people's messages, such as `@path`.
    #[must_use]
    pub fn expansion(&self) -> Expansion {
        Expansion::new(&self.backend.descriptor().expands, &self.directory)
    }
}
