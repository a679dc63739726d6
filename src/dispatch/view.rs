//! What there is to show about a lane: who answers in it and how, what runs and waits.
//!
//! Decides nothing and changes nothing. How it is worded stands in `pages`; what people may choose,
//! in `settings`. Pinned by `tests/dispatch/view.rs`.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use super::knobs::Knob;
use super::{Dispatcher, Inner};
use crate::agent::descriptor::Feature;
use crate::event::{Event, EventKind, Lane};
use crate::plain::short_line;
use crate::workspace::SessionId;

/// Characters of a prompt that others get to see.
const WORDS: usize = 60;
/// Longest look at whether a backend can work.
const LOOK: Duration = Duration::from_secs(1);

/// What there is to show about a lane.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The name of who answers.
    pub backend: String,
    /// The same for people.
    pub label: String,
    /// What it can do; empty when it is not loaded.
    pub features: Vec<Feature>,
    /// Which load of it serves.
    pub generation: Option<String>,
    /// What its agent said when it was asked for its version.
    pub agent_version: Option<String>,
    /// What can be chosen, with what is in force. Only what the backend supports.
    pub knobs: Vec<Knob>,
    /// How the agent is confined.
    pub sandbox: String,
    /// Where the agent works; for owners.
    pub directory: Option<PathBuf>,
    /// The conversation that the next prompt continues.
    pub session: Option<SessionId>,
    /// What runs and waits.
    pub queue: QueueView,
    /// Since the dispatcher was made.
    pub up: Duration,
    /// What somebody should do something about; the second half is for owners.
    pub warnings: (Vec<String>, Vec<String>),
}

impl View {
    /// Whether the active backend has a feature.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}

/// What runs and waits in a lane, and overall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// The running turn of the lane.
    pub running: Option<Glimpse>,
    /// What waits in the lane, next first.
    pub waiting: Vec<Glimpse>,
    /// Running turns of all lanes.
    pub all_running: usize,
    /// What waits in all lanes.
    pub all_waiting: usize,
    /// Turns that may run at the same time.
    pub slots: usize,
}

/// An event as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glimpse {
    /// Who wrote, or what asked.
    pub who: String,
    /// The first words: one plain line.
    pub words: String,
    /// Since it waits or runs.
    pub since: Timestamp,
}

impl Glimpse {
    pub(super) fn of(event: &Event, since: Timestamp) -> Self {
        let who = match (&event.author, event.kind) {
            (Some(author), _) => author.clone(),
            (None, EventKind::Message) => "somebody".to_owned(),
            (None, EventKind::Heartbeat) => "heartbeat".to_owned(),
            (None, EventKind::Cron) => "cron job".to_owned(),
            (None, EventKind::Hook) => "hook".to_owned(),
            (None, EventKind::Webhook) => "webhook".to_owned(),
        };
        Self { who: short_line(&who, WORDS), words: short_line(&event.prompt, WORDS), since }
    }
}

impl Dispatcher {
    /// What there is to show about a lane.
    pub async fn view(&self, lane: &Lane) -> View {
        let inner = &self.inner;
        let (name, settings, refused) = inner.answering(lane).await;
        let backend = inner.parts.backends.get(&name);
        let descriptor = backend.as_ref().map(|backend| backend.descriptor());
        let directory = inner.directory_of(&settings).await;
        let (mut warnings, mut for_owners) = (Vec::new(), Vec::new());
        let mut knobs = vec![inner.backend_knob(lane, &settings, &name).await];
        match descriptor {
            Some(descriptor) => {
                let in_force = inner.in_force(lane, &settings, descriptor).await;
                let own = inner.parts.workspace.bindings().get(lane, &name).await.settings;
                knobs.extend(inner.knobs(&settings, descriptor, &in_force, &own));
                warnings.extend(inner.unable(&name).await);
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
            inner.radar.summary(&name, backend.generation(), agent_version.as_deref())
        });
        for_owners.extend(drift);
        for_owners.extend(inner.lost_summary(&name).await);
        View {
            label: descriptor.map_or(name.as_str(), |descriptor| descriptor.label()).to_owned(),
            features: descriptor.map(|descriptor| descriptor.features.clone()).unwrap_or_default(),
            generation: backend.as_ref().map(|backend| backend.generation().to_string()),
            agent_version,
            knobs,
            sandbox: inner.links.host().sandbox.clone(),
            directory: directory.ok(),
            session: inner.parts.workspace.bindings().get(lane, &name).await.session,
            queue: self.queue_of(lane),
            up: inner.began.elapsed(),
            warnings: (warnings, for_owners),
            backend: name,
        }
    }

    /// What runs and waits in a lane.
    #[must_use]
    pub fn queue_of(&self, lane: &Lane) -> QueueView {
        let running = self.inner.running.lock().get(lane).map(|running| running.glimpse.clone());
        let queue = self.inner.queue.lock();
        let accepted = |event: &Event| {
            Timestamp::from_millisecond(event.accepted_ms).unwrap_or(Timestamp::UNIX_EPOCH)
        };
        let clean = |glimpse: Glimpse| Glimpse {
            who: self.inner.parts.redactor.clean(glimpse.who),
            words: self.inner.parts.redactor.clean(glimpse.words),
            ..glimpse
        };
        QueueView {
            running: running.map(clean),
            waiting: queue
                .waiting_in(lane)
                .map(|event| clean(Glimpse::of(event, accepted(event))))
                .collect(),
            all_running: queue.running(),
            all_waiting: queue.waiting(),
            slots: self.inner.parts.limits.max_concurrent.max(1),
        }
    }
}

impl Inner {
    /// Why a backend cannot work, as far as that is known soon.
    async fn unable(&self, name: &str) -> Option<String> {
        let reason = tokio::time::timeout(LOOK, self.parts.backends.unavailable(name))
            .await
            .ok()
            .flatten()?;
        Some(format!("{name} cannot work here: {reason}."))
    }
}
