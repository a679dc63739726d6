//! The channel of a command or menu, and the person who used it.

use std::time::Duration;

use crate::access::asker::Asker;
use crate::ids;
use aetheel_dispatch::{
    ClaimAuthor, CommandAction, CommandCaller, CommandError, CommandReply, ConversationList,
    Dispatcher, LaneRequestError, LaneStatus, Setting,
};
use aetheel_model::agent::descriptor::DescriptorChoice;
use aetheel_model::audit::AuditKind;
use aetheel_model::id::{ChannelId, UserId};
use aetheel_store::workspace::AgentSchedule;

/// The channel of a command or menu, and the person who used it.
pub(super) struct ChannelScope {
    dispatcher: Dispatcher,
    caller: CommandCaller,
    pub(super) asker: Asker,
}

impl ChannelScope {
    pub(super) fn new(dispatcher: &Dispatcher, asker: Asker, name: &str) -> Self {
        if let Some(parent) = asker.parent {
            // A menu may be the first event of a thread since the start.
            dispatcher
                .settings
                .learn_parent(ChannelId::discord(asker.channel), ChannelId::discord(parent));
        }
        let author = ClaimAuthor {
            lane: ids::lane(asker.channel),
            person: Some(UserId::discord(asker.user)),
            name: Some(name.to_owned()),
        };
        let project_lane = ids::lane(asker.parent.unwrap_or(asker.channel));
        let caller = CommandCaller { author, project_lane, is_owner: asker.owner };
        Self { dispatcher: dispatcher.clone(), caller, asker }
    }

    /// Carries out a command that the console has, too.
    pub(super) async fn run(
        &self,
        action: CommandAction,
        given: &[(String, String)],
    ) -> Result<CommandReply, CommandError> {
        self.dispatcher.commands.run(action, &self.caller, given).await
    }

    pub(super) async fn view(&self) -> LaneStatus {
        self.dispatcher.observer.lane_status(&self.caller.author.lane).await
    }

    pub(super) fn later_turns(&self) -> Vec<AgentSchedule> {
        self.dispatcher.later_turns.in_lane(&self.caller.author.lane)
    }

    /// Calls [`aetheel_dispatch::LaterTurns::remove`], and logs the person who did it.
    pub(super) async fn remove_later_turn(&self, id: &str) -> bool {
        let lane = &self.caller.author.lane;
        let removed = self.dispatcher.later_turns.remove(lane, id).await;
        if removed {
            tracing::info!(%lane, user = self.asker.user, id, "a later turn was removed");
            self.caller.entry(AuditKind::LaterTurnRemoved).with("id", id).note();
        }
        removed
    }

    pub(super) async fn choose(
        &self,
        setting: Setting,
        value: &str,
    ) -> Result<String, LaneRequestError> {
        self.dispatcher.commands.choose(&self.caller, setting, Some(value)).await
    }

    /// Returns the models of a backend; without a name, those of the channel's backend.
    pub(super) async fn models_of(
        &self,
        backend: Option<&str>,
        wait: Duration,
    ) -> Vec<DescriptorChoice> {
        self.dispatcher.settings.models(&self.caller.author.lane, backend, wait).await
    }

    pub(super) async fn conversations(&self, wait: Duration) -> ConversationList {
        let lane = &self.caller.author.lane;
        self.dispatcher.conversations.list(lane, self.asker.owner, wait).await
    }
}
