//! The channel of a command or menu, and the person who used it.

use std::time::Duration;

use crate::access::asker::Asker;
use crate::ids;
use aetheel_dispatch::{
    BackendControl, ClaimAuthor, ClaimDesk, ClaimError, ClaimOrder, ConversationList,
    Conversations, Dispatcher, LaneRequestError, LaneStatus, LaterTurns, Observer, PingError,
    ProjectBinding, Setting, Settings,
};
use aetheel_model::agent::descriptor::DescriptorChoice;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::event::Lane;
use aetheel_model::id::{ChannelId, UserId};
use aetheel_store::workspace::AgentSchedule;

/// How long an agent may take to list its sessions before one is resumed.
const RESUME_TIMEOUT: Duration = Duration::from_secs(8);

/// The services of the dispatcher that the panel uses.
#[derive(Clone)]
pub(crate) struct PanelServices {
    observer: Observer,
    settings: Settings,
    conversations: Conversations,
    backends: BackendControl,
    claims: ClaimDesk,
    later_turns: LaterTurns,
}

impl PanelServices {
    pub(crate) fn of(dispatcher: &Dispatcher) -> Self {
        Self {
            observer: dispatcher.observer.clone(),
            settings: dispatcher.settings.clone(),
            conversations: dispatcher.conversations.clone(),
            backends: dispatcher.backends.clone(),
            claims: dispatcher.claims.clone(),
            later_turns: dispatcher.later_turns.clone(),
        }
    }
}

/// The channel of a command or menu, and the person who used it.
pub(super) struct ChannelScope {
    services: PanelServices,
    lane: Lane,
    pub(super) asker: Asker,
    /// The displayed name of the person.
    name: String,
}

impl ChannelScope {
    pub(super) fn new(services: &PanelServices, asker: Asker, name: &str) -> Self {
        if let Some(parent) = asker.parent {
            // A menu may be the first event of a thread since the start.
            services
                .settings
                .learn_parent(ChannelId::discord(asker.channel), ChannelId::discord(parent));
        }
        let (lane, name) = (ids::lane(asker.channel), name.to_owned());
        Self { services: services.clone(), lane, asker, name }
    }

    pub(super) async fn view(&self) -> LaneStatus {
        self.services.observer.lane_status(&self.lane).await
    }

    /// Returns the turns that agents asked for in this channel.
    pub(super) fn later_turns(&self) -> Vec<AgentSchedule> {
        self.services.later_turns.in_lane(&self.lane)
    }

    /// Calls [`LaterTurns::remove`], and logs the person who did it.
    pub(super) async fn remove_later_turn(&self, id: &str) -> bool {
        let removed = self.services.later_turns.remove(&self.lane, id).await;
        if removed {
            tracing::info!(lane = %self.lane, user = self.asker.user, id, "a later turn was removed");
            entry(self, AuditKind::LaterTurnRemoved).with("id", id).note();
        }
        removed
    }

    /// Calls [`Settings::choose`], and logs a change.
    pub(super) async fn choose(
        &self,
        setting: Setting,
        value: Option<&str>,
    ) -> Result<String, LaneRequestError> {
        let chosen = self.services.settings.choose(&self.lane, setting, value).await;
        if let (Ok(report), Some(_)) = (&chosen, value) {
            tracing::info!(lane = %self.lane, user = self.asker.user, "{report}");
            entry(self, AuditKind::SettingChanged)
                .with("setting", setting.name())
                .with_known("value", value)
                .note();
        }
        chosen
    }

    /// Returns the models of a backend; without a name, those of the channel's backend.
    pub(super) async fn models_of(
        &self,
        backend: Option<&str>,
        wait: Duration,
    ) -> Vec<DescriptorChoice> {
        self.services.settings.models(&self.lane, backend, wait).await
    }

    pub(super) async fn conversations(&self, wait: Duration) -> ConversationList {
        self.services.conversations.list(&self.lane, self.asker.owner, wait).await
    }

    /// Calls [`Conversations::resume`], and logs the person who did it.
    pub(super) async fn resume(&self, id: &str) -> Result<String, LaneRequestError> {
        let resumed = self
            .services
            .conversations
            .resume(&self.lane, id, self.asker.owner, RESUME_TIMEOUT)
            .await;
        if resumed.is_ok() {
            tracing::info!(lane = %self.lane, user = self.asker.user, session = id, "a conversation was resumed");
            entry(self, AuditKind::ConversationResumed).with("session", id).note();
        }
        resumed
    }

    /// Calls [`Conversations::fork`], and logs the person who did it.
    pub(super) async fn fork(&self, id: &str) -> Result<String, LaneRequestError> {
        let forked = self
            .services
            .conversations
            .fork(&self.lane, id, self.asker.owner, RESUME_TIMEOUT)
            .await;
        if forked.is_ok() {
            tracing::info!(lane = %self.lane, user = self.asker.user, session = id, "a conversation was copied");
            let entry = entry(self, AuditKind::ConversationResumed).with("session", id);
            entry.with("copy", "yes").note();
        }
        forked
    }

    pub(super) async fn compact(&self) -> Result<String, LaneRequestError> {
        let compacted = self.services.conversations.compact(&self.lane).await;
        if compacted.is_ok() {
            entry(self, AuditKind::ConversationCompacted).note();
        }
        compacted
    }

    pub(super) async fn usage(&self) -> Vec<String> {
        let person = UserId::discord(self.asker.user);
        self.services.observer.usage(&self.lane, Some(person)).await
    }

    pub(super) async fn claims(&self) -> Result<String, ClaimError> {
        self.services.claims.list(&self.lane).await
    }

    /// Reserves files for the person.
    pub(super) async fn claim(&self, order: ClaimOrder) -> Result<String, ClaimError> {
        self.services.claims.take(self.claim_author(), order).await
    }

    fn claim_author(&self) -> ClaimAuthor {
        ClaimAuthor {
            lane: self.lane.clone(),
            person: Some(UserId::discord(self.asker.user)),
            name: Some(self.name.clone()),
        }
    }

    /// Releases a claim of the channel; an owner may release every claim.
    pub(super) async fn release_claim(&self, id: &str) -> Result<String, ClaimError> {
        let released =
            self.services.claims.release(&self.claim_author(), id, self.asker.owner).await;
        if released.is_ok() {
            tracing::info!(lane = %self.lane, user = self.asker.user, claim = id, "a person released reserved files");
        }
        released
    }

    /// Binds the channel to a project. A thread uses the project of its channel.
    pub(super) async fn project(
        &self,
        project: &ProjectBinding,
    ) -> Result<String, LaneRequestError> {
        let lane = ids::lane(self.asker.parent.unwrap_or(self.asker.channel));
        let bound = self.services.settings.bind_project(&lane, None, project).await;
        let ProjectBinding { directory, backend } = project;
        if bound.is_ok() && (directory.is_some() || backend.is_some()) {
            entry(self, AuditKind::SettingChanged)
                .in_lane(&lane)
                .with("setting", "project")
                .with_known("value", directory.as_ref())
                .with_known("backend", backend.as_ref())
                .note();
        }
        bound
    }

    /// Checks whether a backend can work.
    pub(super) async fn ping(&self, name: &str) -> Result<String, PingError> {
        self.services.backends.ping(name).await
    }
}

/// Begins an entry of the audit log about the person in a channel.
fn entry(scope: &ChannelScope, kind: AuditKind) -> AuditEntry {
    AuditEntry::new(kind)
        .by(Some(UserId::discord(scope.asker.user)), Some(&scope.name))
        .in_lane(&scope.lane)
}
