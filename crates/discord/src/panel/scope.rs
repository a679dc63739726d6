//! The channel of a command or menu, and the person who used it.

use std::time::Duration;

use crate::asker::Asker;
use aetheel_dispatch::{Conversations, Dispatcher, LaneStatus, ProjectBinding, QueueView, Setting};
use aetheel_model::agent::descriptor::DescriptorChoice;
use aetheel_model::event::Lane;

/// How long an agent may take to list its sessions before one is resumed.
const RESUME_TIMEOUT: Duration = Duration::from_secs(8);

/// The channel of a command or menu, and the person who used it.
pub(super) struct ChannelScope {
    dispatcher: Dispatcher,
    lane: Lane,
    pub(super) asker: Asker,
}

impl ChannelScope {
    pub(super) fn new(dispatcher: &Dispatcher, asker: Asker) -> Self {
        if let Some(parent) = asker.parent {
            // A menu may be the first event of a thread since the start.
            dispatcher.learn_parent(asker.channel, parent);
        }
        Self { dispatcher: dispatcher.clone(), lane: Lane::Channel(asker.channel), asker }
    }

    pub(super) async fn view(&self) -> LaneStatus {
        self.dispatcher.lane_status(&self.lane).await
    }

    pub(super) fn queue(&self) -> QueueView {
        self.dispatcher.queue_of(&self.lane)
    }

    /// Calls [`Dispatcher::choose`], and logs a change.
    pub(super) async fn choose(
        &self,
        setting: Setting,
        value: Option<&str>,
    ) -> Result<String, String> {
        let chosen = self.dispatcher.choose(&self.lane, setting, value).await;
        if let (Ok(report), Some(_)) = (&chosen, value) {
            tracing::info!(lane = %self.lane, user = self.asker.user, "{report}");
        }
        chosen
    }

    pub(super) async fn models(&self, wait: Duration) -> Vec<DescriptorChoice> {
        self.dispatcher.models(&self.lane, wait).await
    }

    pub(super) async fn conversations(&self, wait: Duration) -> Conversations {
        self.dispatcher.conversations(&self.lane, self.asker.owner, wait).await
    }

    /// Calls [`Dispatcher::resume`], and logs the person who did it.
    pub(super) async fn resume(&self, id: &str) -> Result<String, String> {
        let resumed =
            self.dispatcher.resume(&self.lane, id, self.asker.owner, RESUME_TIMEOUT).await;
        if resumed.is_ok() {
            tracing::info!(lane = %self.lane, user = self.asker.user, session = id, "a conversation was resumed");
        }
        resumed
    }

    pub(super) async fn compact(&self) -> Result<String, String> {
        self.dispatcher.compact(&self.lane).await
    }

    /// Binds the channel to a project. A thread uses the project of its channel.
    pub(super) async fn project(&self, project: &ProjectBinding) -> Result<String, String> {
        let lane = Lane::Channel(self.asker.parent.unwrap_or(self.asker.channel));
        self.dispatcher.bind_project(&lane, None, project).await
    }

    /// Checks whether a backend can work; without a name, the backend of the channel.
    pub(super) async fn ping(&self, name: Option<&str>) -> Result<String, String> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => self.dispatcher.backend_of(&self.lane).await,
        };
        self.dispatcher.ping(&name).await
    }
}
