//! Stands for `artifacts` in a build without it.

use std::path::PathBuf;

use super::fetched::FetchedBackend;
use crate::cli::exit;
use crate::commands::kit::KitError;
use crate::startup::OptionalPart;
use crate::startup::settings::OperatorSettings;
use aetheel_store::workspace::{BackendLock, LockedBackend};

/// Refuses all artifacts.
pub(super) struct ArtifactAccess;

impl ArtifactAccess {
    pub(super) fn new(_: &OperatorSettings, _: Option<PathBuf>) -> Self {
        Self
    }

    pub(super) async fn fetch_named(
        &self,
        _: &str,
        _: &BackendLock,
        _: bool,
    ) -> Result<(FetchedBackend, String), KitError> {
        Err(refusal())
    }

    pub(super) async fn fetch_locked(&self, _: &LockedBackend) -> Result<FetchedBackend, KitError> {
        Err(refusal())
    }
}

fn refusal() -> KitError {
    KitError { code: exit::UNAVAILABLE, text: OptionalPart::Registry.absence(), hint: None }
}
