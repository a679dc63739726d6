//! The status of a lane: who answers in it and how, what runs and waits.
//!
//! Decides nothing and changes nothing. [`overview`] is all lanes at once, [`backends`] all
//! backends, which an owner may roll back; [`render`] words one; what people may choose stands in
//! `channel`. Pinned by `tests/dispatch/view.rs`.

pub(super) mod backends;
pub(super) mod overview;
pub(super) mod render;
mod transcripts;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use super::channel::options::SettingOption;
use super::lanes::EventSummary;
use super::outlet::messages;
use super::{Dispatcher, Inner};
use aetheel_model::agent::Safety;
use aetheel_model::agent::descriptor::{Descriptor, Feature};
use aetheel_model::event::{Event, Lane};
use aetheel_store::workspace::SessionId;

/// Longest wait for whether a backend can work.
const AVAILABILITY_TIMEOUT: Duration = Duration::from_secs(1);

/// The status of a lane.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The name of who answers.
    pub backend: String,
    /// The same for people.
    pub label: String,
    /// The features of the backend; empty when it is not loaded.
    pub features: Vec<Feature>,
    /// Which load of it serves.
    pub generation: Option<String>,
    /// The version that its agent answered when it was asked.
    pub agent_version: Option<String>,
    /// The settings that the backend supports, with what is in force.
    pub options: Vec<SettingOption>,
    /// How the agent is confined.
    pub sandbox: String,
    /// Where the agent works; for owners.
    pub directory: Option<PathBuf>,
    /// The conversation that the next prompt continues.
    pub session: Option<SessionId>,
    /// The turns that run and the events that wait.
    pub queue: QueueView,
    /// Since the dispatcher was made.
    pub up: Duration,
    /// Things that somebody should do something about; the second half is for owners.
    pub warnings: (Vec<String>, Vec<String>),
}

impl View {
    /// Whether the active backend has a feature.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}

/// The turns that run and the events that wait, in a lane and overall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// The running turn of the lane.
    pub running: Option<EventSummary>,
    /// The events that wait in the lane, next first.
    pub waiting: Vec<EventSummary>,
    /// Running turns of all lanes.
    pub all_running: usize,
    /// The number of events that wait in all lanes.
    pub all_waiting: usize,
    /// Turns that may run at the same time.
    pub slots: usize,
}

impl Dispatcher {
    /// The status of a lane.
    pub async fn view(&self, lane: &Lane) -> View {
        let inner = &self.inner;
        let (name, settings, refused) = inner.channels.answering(lane).await;
        let backend = inner.parts.backends.get(&name);
        let descriptor = backend.as_ref().map(|backend| backend.descriptor());
        let directory = inner.channels.directory_of(&settings).await;
        let (mut warnings, mut for_owners) = (Vec::new(), Vec::new());
        let mut options = vec![inner.channels.backend_option(lane, &settings, &name).await];
        match descriptor {
            Some(descriptor) => {
                let in_force = inner.channels.in_force(lane, &settings, descriptor).await;
                let own = inner.parts.workspace.bindings().get(lane, &name).await.settings;
                options.extend(inner.channels.options(&settings, descriptor, &in_force, &own));
                warnings.extend(inner.unable(&name).await);
                warnings.extend(inner.own_sandbox(descriptor, in_force.safety));
                for_owners.extend(in_force.warnings);
            }
            None => warnings.push(format!(
                "The backend {name} is not there: choose another one with /backend."
            )),
        }
        if let Some(refused) = &refused {
            warnings.push(format!(
                "{refused} was chosen here, but the operator does not allow it: {name} answers."
            ));
        }
        if let Err(fault) = &directory {
            warnings
                .push("The working directory of this channel cannot be used: nothing runs here until the operator mends it.".to_owned());
            for_owners.push(fault.clone());
        }
        for_owners.extend(inner.parts.backends.unaccepted(&name));
        for_owners.extend(inner.parts.workspace.bindings().warnings().await);
        let agent_version = inner.links.host().agent_version(&name);
        let drift = backend.as_ref().and_then(|backend| {
            inner.drift.summary(&name, backend.generation(), agent_version.as_deref())
        });
        for_owners.extend(drift);
        for_owners.extend(inner.lost.summary(&name).await);
        View {
            label: descriptor.map_or(name.as_str(), |descriptor| descriptor.label()).to_owned(),
            features: descriptor.map(|descriptor| descriptor.features.clone()).unwrap_or_default(),
            generation: backend.as_ref().map(|backend| backend.generation().to_string()),
            agent_version,
            options,
            sandbox: inner.links.host().sandbox.clone(),
            directory: directory.ok(),
            session: inner.parts.workspace.bindings().get(lane, &name).await.session,
            queue: self.queue_of(lane),
            up: inner.health.uptime(),
            warnings: (warnings, for_owners),
            backend: name,
        }
    }

    /// The turns that run and the events that wait in a lane.
    #[must_use]
    pub fn queue_of(&self, lane: &Lane) -> QueueView {
        let running =
            self.inner.lanes.running.lock().get(lane).map(|running| running.summary.clone());
        let queue = self.inner.lanes.queue.lock();
        let accepted = |event: &Event| {
            Timestamp::from_millisecond(event.accepted_ms).unwrap_or(Timestamp::UNIX_EPOCH)
        };
        let clean = |summary: EventSummary| EventSummary {
            who: self.inner.parts.redactor.clean(summary.who),
            words: self.inner.parts.redactor.clean(summary.words),
            ..summary
        };
        QueueView {
            running: running.map(clean),
            waiting: queue
                .waiting_in(lane)
                .map(|event| clean(EventSummary::of(event, accepted(event))))
                .collect(),
            all_running: queue.running(),
            all_waiting: queue.waiting(),
            slots: self.inner.parts.limits.max_concurrent.max(1),
        }
    }
}

impl Inner {
    /// Returns what people should know of an agent that confines its own commands at a safety level.
    fn own_sandbox(&self, descriptor: &Descriptor, safety: Safety) -> Option<String> {
        if !descriptor.own_sandbox || safety == Safety::Danger {
            return None;
        }
        Some(match self.links.host().mounts {
            true => messages::own_sandbox_hides(descriptor.label()),
            false => messages::own_sandbox_fails(descriptor.label()),
        })
    }

    /// Why a backend cannot work, as far as that is known soon.
    async fn unable(&self, name: &str) -> Option<String> {
        let reason =
            tokio::time::timeout(AVAILABILITY_TIMEOUT, self.parts.backends.unavailable(name))
                .await
                .ok()
                .flatten()?;
        Some(format!("{name} cannot work here: {reason}."))
    }
}
