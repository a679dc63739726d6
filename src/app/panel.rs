//! What the Discord adapter shows of a channel and lets people choose for it.

use std::time::Duration;

use async_trait::async_trait;

use crate::agent::descriptor::Choice;
use crate::discord::{Asker, Panel};
use crate::dispatch::{Conversations, Dispatcher, QueueView, Setting, View};
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
}

fn lane(asker: &Asker) -> Lane {
    Lane::Channel(asker.channel)
}

#[async_trait]
impl Panel for Board {
    async fn view(&self, asker: &Asker) -> View {
        self.dispatcher.view(&lane(asker)).await
    }

    async fn queue(&self, asker: &Asker) -> QueueView {
        self.dispatcher.queue_of(&lane(asker))
    }

    async fn choose(&self, asker: &Asker, setting: Setting, value: Option<&str>) -> Result<String, String> {
        let chosen = self.dispatcher.choose(&lane(asker), setting, value).await;
        if let (Ok(said), Some(_)) = (&chosen, value) {
            tracing::info!(lane = %lane(asker), user = asker.user, "{said}");
        }
        chosen
    }

    async fn models(&self, asker: &Asker, wait: Duration) -> Vec<Choice> {
        self.dispatcher.models(&lane(asker), wait).await
    }

    async fn conversations(&self, asker: &Asker, wait: Duration) -> Conversations {
        self.dispatcher.conversations(&lane(asker), asker.owner, wait).await
    }

    async fn resume(&self, asker: &Asker, id: &str) -> Result<String, String> {
        let resumed = self.dispatcher.resume(&lane(asker), id, asker.owner, LOOK).await;
        if resumed.is_ok() {
            tracing::info!(lane = %lane(asker), user = asker.user, session = id, "a conversation was taken up again");
        }
        resumed
    }

    async fn compact(&self, asker: &Asker) -> Result<String, String> {
        self.dispatcher.compact(&lane(asker)).await
    }

    async fn ping(&self, asker: &Asker, name: Option<&str>) -> Result<String, String> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => self.dispatcher.backend_of(&lane(asker)).await,
        };
        self.dispatcher.ping(&name).await
    }
}
