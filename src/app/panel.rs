//! What the Discord adapter shows of a channel and lets people choose for it.

use std::time::Duration;

use async_trait::async_trait;

use crate::agent::descriptor::Choice;
use crate::discord::{Asker, Panel};
use crate::dispatch::{Conversations, Dispatcher, Project, QueueView, Setting, View};
use crate::event::Lane;

/// For what an agent tells of its sessions, where one is to be taken up.
const LOOK: Duration = Duration::from_secs(8);

/// The dispatcher, as people in Discord see it.
pub struct Board {
    dispatcher: Dispatcher,
}

impl Board {
    /// Makes one.
    #[must_use]
    pub fn new(dispatcher: Dispatcher) -> Self {
        Self { dispatcher }
    }

    fn lane(&self, asker: &Asker) -> Lane {
        if let Some(parent) = asker.parent {
            // A menu may be the first thing that is heard of a thread since the start.
            self.dispatcher.learn(asker.channel, parent);
        }
        Lane::Channel(asker.channel)
    }
}

#[async_trait]
impl Panel for Board {
    async fn view(&self, asker: &Asker) -> View {
        self.dispatcher.view(&self.lane(asker)).await
    }

    async fn queue(&self, asker: &Asker) -> QueueView {
        self.dispatcher.queue_of(&self.lane(asker))
    }

    async fn choose(
        &self,
        asker: &Asker,
        setting: Setting,
        value: Option<&str>,
    ) -> Result<String, String> {
        let chosen = self.dispatcher.choose(&self.lane(asker), setting, value).await;
        if let (Ok(said), Some(_)) = (&chosen, value) {
            tracing::info!(lane = %self.lane(asker), user = asker.user, "{said}");
        }
        chosen
    }

    async fn models(&self, asker: &Asker, wait: Duration) -> Vec<Choice> {
        self.dispatcher.models(&self.lane(asker), wait).await
    }

    async fn conversations(&self, asker: &Asker, wait: Duration) -> Conversations {
        self.dispatcher.conversations(&self.lane(asker), asker.owner, wait).await
    }

    async fn resume(&self, asker: &Asker, id: &str) -> Result<String, String> {
        let resumed = self.dispatcher.resume(&self.lane(asker), id, asker.owner, LOOK).await;
        if resumed.is_ok() {
            tracing::info!(lane = %self.lane(asker), user = asker.user, session = id, "a conversation was taken up again");
        }
        resumed
    }

    async fn compact(&self, asker: &Asker) -> Result<String, String> {
        self.dispatcher.compact(&self.lane(asker)).await
    }

    async fn project(&self, asker: &Asker, project: &Project) -> Result<String, String> {
        // A thread works where its channel does.
        let lane = Lane::Channel(asker.parent.unwrap_or(asker.channel));
        self.dispatcher.bind_project(&lane, None, project).await
    }

    async fn ping(&self, asker: &Asker, name: Option<&str>) -> Result<String, String> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => self.dispatcher.backend_of(&self.lane(asker)).await,
        };
        self.dispatcher.ping(&name).await
    }
}
