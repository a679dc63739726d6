//! Stands for `dashboard` in a build without it. No value of these types exists.

use std::sync::Arc;

use super::core::Core;
use crate::startup::StartRefusal;
use aetheel_discord::Discord;
use aetheel_model::redact::Redactor;
use aetheel_settings::Config;
use aetheel_store::workspace::Workspace;
use aetheel_turn::Backends;

pub(super) enum Dashboard {}

impl Drop for Dashboard {
    fn drop(&mut self) {
        match *self {}
    }
}

pub(super) enum BoundDashboard {}

/// Returns `None`, because the start refuses the settings of a dashboard.
pub(super) async fn bind(
    _config: &Config,
    _workspace: &Workspace,
    _redactor: &Redactor,
) -> Result<Option<BoundDashboard>, StartRefusal> {
    Ok(None)
}

impl BoundDashboard {
    pub(super) fn open(self, _: &Core, _: Discord, _: Arc<dyn Backends>) -> Dashboard {
        match self {}
    }
}
