//! The backends that people may choose: those that the operator lists for all lanes or for the
//! channel, and the backends that are configured there. The console may choose any.
//!
//! A choice is checked when it is made, and each time it is used later. Tested by
//! `tests/gateway/allowed_backends.rs`.

use super::ChannelContext;
use super::error::LaneRequestError;
use aetheel_model::agent::descriptor::DescriptorChoice;
use aetheel_model::event::Lane;
use aetheel_store::workspace::LaneSettings;

impl ChannelContext {
    /// Returns whether people may choose a backend for a lane. `settings` are the operator's
    /// settings for the lane and the channel of its thread.
    pub(crate) fn may_choose(&self, lane: &Lane, settings: &LaneSettings, name: &str) -> bool {
        let choices = &self.deps.choices;
        let listed = settings.backends.as_ref().unwrap_or(&choices.backends);
        *lane == Lane::Console
            || name == choices.backend
            || settings.backend.as_deref() == Some(name)
            || listed.iter().any(|listed| listed == name)
    }

    /// Returns the ids and labels of the backends that people may choose in a lane and that can
    /// work here.
    pub(crate) fn offered(&self, lane: &Lane, settings: &LaneSettings) -> Vec<DescriptorChoice> {
        let backends = &self.deps.backends;
        let label = |name: &str| {
            backends
                .get(name)
                .map_or_else(|| name.to_owned(), |backend| backend.descriptor().label().to_owned())
        };
        let mut names = backends.offered();
        names.retain(|name| self.may_choose(lane, settings, name));
        names.into_iter().map(|id| DescriptorChoice { label: label(&id), id }).collect()
    }

    /// Returns the names of the backends that people may choose in a lane.
    pub(super) async fn offered_names(&self, lane: &Lane) -> Vec<String> {
        let (_, settings) = self.backend_of(lane).await;
        self.offered(lane, &settings).into_iter().map(|choice| choice.id).collect()
    }

    /// Checks whether a backend can be chosen in a lane.
    ///
    /// # Errors
    /// [`LaneRequestError`] if there is no such backend, or if the operator does not allow it.
    pub(super) fn check_offered(
        &self,
        lane: &Lane,
        settings: &LaneSettings,
        name: &str,
    ) -> Result<(), LaneRequestError> {
        let offered = || self.offered(lane, settings).into_iter().map(|choice| choice.id).collect();
        let name = name.to_owned();
        if self.deps.backends.get(&name).is_none() {
            return Err(LaneRequestError::NoBackend { name, offered: offered() });
        }
        if !self.may_choose(lane, settings, &name) {
            return Err(LaneRequestError::NotOffered { name, offered: offered() });
        }
        Ok(())
    }

    /// Returns a notice about an earlier choice that is no longer allowed. Each choice is reported
    /// once per process.
    pub(crate) fn fallback_notice(
        &self,
        lane: &Lane,
        refused: Option<&str>,
        now: &str,
    ) -> Option<String> {
        let refused = refused?;
        let warning = format!(
            "{lane} chose {refused}, which is not allowed there (ALLOWED_BACKENDS); {now} answers"
        );
        if !self.reports_first(&warning) {
            return None;
        }
        tracing::warn!("{warning}");
        Some(format!(
            "{refused} was chosen here, but the operator does not allow it any more: {now} answers."
        ))
    }
}
