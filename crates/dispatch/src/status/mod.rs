//! The status of a lane: its backend and settings, its running turn and its waiting events.
//!
//! This module only reads. [`overview`] has the status of all lanes, [`backends`] that of all
//! backends, which owners can roll back, [`usage`] has the sums of a lane, [`limits`] the operator's
//! limits for it, and [`render`] formats a status. The module `channel` has
//! the settings that people may choose. Tested by `tests/dispatch/view.rs`.

pub(super) mod backends;
mod limits;
pub(super) mod overview;
pub(super) mod render;
pub(super) mod transcripts;
mod usage;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Shared;
use super::budgets;
use super::channel::options::SettingOption;
use super::claims::ClaimDesk;
use super::collisions::checkouts::CheckoutPlace;
use super::collisions::mutes::WarningMutes;
use super::health::Stats;
use super::lanes::EventSummary;
use super::outlet::messages;
use super::part::{Gateway, NextTurn};
use aetheel_model::agent::descriptor::{Descriptor, Feature};
use aetheel_model::agent::{Safety, SessionId};
use aetheel_model::budget::BudgetSubject;
use aetheel_model::event::{Event, Lane};
use aetheel_model::permission::reads_only;
use aetheel_runtime::figures;
use aetheel_store::workspace::SettingInForce;
use aetheel_turn::{Backends, Host};

/// The longest time to wait for the answer whether a backend can work.
const AVAILABILITY_TIMEOUT: Duration = Duration::from_secs(1);

/// The backend that answers in a lane.
#[derive(Clone, Debug, Default)]
pub struct LaneBackend {
    /// The name of the backend.
    pub name: String,
    /// The name of the backend for people.
    pub label: String,
    /// The features of the backend; empty if it is not loaded.
    pub features: Vec<Feature>,
    /// The current generation of the backend.
    pub generation: Option<String>,
    /// The version that the agent reported.
    pub agent_version: Option<String>,
}

impl LaneBackend {
    /// Returns whether the backend has a feature.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}

/// The status of a lane.
#[derive(Clone, Debug, Default)]
pub struct LaneStatus {
    /// The backend that answers.
    pub backend: LaneBackend,
    /// The settings that the backend supports, with their current values.
    pub options: Vec<SettingOption>,
    /// How the agent is confined.
    pub sandbox: String,
    /// The working directory of the agent. Shown to owners only.
    pub directory: Option<PathBuf>,
    /// The session that the next prompt continues.
    pub session: Option<SessionId>,
    /// The running turns and the waiting events.
    pub queue: QueueView,
    /// The time since the dispatcher was created.
    pub up: Duration,
    /// The reserved files in the working directory, one line per claim.
    pub claims: Vec<String>,
    /// The warnings about files that people muted here, in words.
    pub muted: Vec<String>,
    /// Warnings for everybody, and warnings for owners.
    pub warnings: (Vec<String>, Vec<String>),
    /// Whether agents may use no tool that changes anything.
    pub reads_only: bool,
    /// The settings and caps that the operator set for the lane.
    pub limits: Vec<SettingInForce>,
}

/// The running turns and the waiting events, in a lane and in total.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// The running turn of the lane.
    pub running: Option<EventSummary>,
    /// The waiting events of the lane, the next one first.
    pub waiting: Vec<EventSummary>,
    /// The number of running turns in all lanes.
    pub all_running: usize,
    /// The number of waiting events in all lanes.
    pub all_waiting: usize,
    /// The maximum number of turns that run at the same time.
    pub slots: usize,
}

/// Shows the state of lanes and turns. Cheap to clone.
#[derive(Clone)]
pub struct Observer {
    shared: Arc<Shared>,
}

impl Observer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns the current counts and sets the metrics. Takes the dispatcher's locks, so a call
    /// that returns shows that none of them is held forever.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (waiting, accepted_ms, running) = {
            let queue = self.shared.lanes.queue.lock();
            let mut waiting = queue.lanes().waiting();
            let count = waiting.len();
            (count, waiting.next().map(|event| event.accepted_ms), queue.lanes().running())
        };
        let oldest_ms = accepted_ms
            .map(|accepted| self.shared.deps.clock.now_ms().saturating_sub(accepted).max(0));
        let _ = self.shared.lanes.running.lock().len();
        let (links, questions) = (self.shared.links.count(), self.shared.questions.count());
        figures::set_queue(waiting, oldest_ms, running);
        figures::set_open(links, questions);
        Stats { waiting, oldest_ms, running, links, questions }
    }

    /// Returns the status of a lane.
    pub async fn lane_status(&self, lane: &Lane) -> LaneStatus {
        let shared = &self.shared;
        let (name, settings, refused) = shared.channels.resolve_backend(lane).await;
        let backend = shared.serving(&name, lane);
        let descriptor = backend.as_ref().map(|backend| backend.descriptor());
        let directory = shared.channels.directory_of(&settings).await;
        let (mut warnings, mut for_owners) = (Vec::new(), Vec::new());
        let mut options = vec![shared.channels.backend_option(lane, &settings, &name).await];
        match descriptor {
            Some(descriptor) => {
                let in_force = shared.channels.in_force(lane, &settings, descriptor).await;
                let own = shared.deps.workspace.state.bindings.get(lane, &name).await.settings;
                options.extend(shared.channels.options(&settings, descriptor, &in_force, &own));
                warnings.extend(backend_problem(&*shared.deps.backends, &name).await);
                let host = shared.links.host();
                warnings.extend(own_sandbox_warning(host, descriptor, in_force.safety));
                for_owners.extend(in_force.warnings);
            }
            None => warnings.push(format!(
                "The backend {name} is not loaded: choose another one with /settings."
            )),
        }
        let (waits, subject) = self.waits_of(lane).await;
        warnings.extend(waits);
        warnings.extend(refused.map(|refused| {
            format!(
                "{refused} was chosen here, but the operator does not allow it: {name} answers."
            )
        }));
        if let Err(fault) = &directory {
            warnings
                .push("The working directory of this channel cannot be used: nothing runs here until the operator fixes it.".to_owned());
            for_owners.push(fault.to_string());
        }
        for_owners.extend(shared.deps.backends.unaccepted(&name));
        for_owners.extend(shared.deps.workspace.state.bindings.warnings().await);
        let agent_version = shared.links.host().agent_version(&name);
        let drift = backend.as_ref().and_then(|backend| {
            shared.drift.summary(&name, backend.generation(), agent_version.as_deref())
        });
        for_owners.extend(drift);
        for_owners.extend(shared.rollout.summary(&name));
        for_owners.extend(shared.lost_replies.summary(&name).await);
        let claims = match &directory {
            Ok(directory) => {
                let is_cluster = shared.deps.machine.is_some();
                let checkout = CheckoutPlace::of(directory, &settings, is_cluster);
                ClaimDesk::new(shared.clone()).status(lane, checkout).await
            }
            Err(_) => Vec::new(),
        };
        LaneStatus {
            options,
            sandbox: shared.links.host().sandbox.clone(),
            directory: directory.ok(),
            session: shared.deps.workspace.state.bindings.get(lane, &name).await.session,
            queue: self.queue_of(lane),
            up: shared.health.uptime(),
            claims,
            muted: WarningMutes::new(shared.clone()).status(lane),
            warnings: (warnings, for_owners),
            reads_only: reads_only(&shared.deps.choices.allowed_tools),
            limits: limits::of_lane(shared, lane, &subject),
            backend: LaneBackend {
                label: descriptor.map_or(name.as_str(), |descriptor| descriptor.label()).to_owned(),
                features: descriptor.map(|known| known.features.clone()).unwrap_or_default(),
                generation: backend.as_ref().map(|backend| backend.generation().to_string()),
                agent_version,
                name,
            },
        }
    }

    /// Returns why the next turn of a lane waits, and the properties by which budgets select it.
    async fn waits_of(&self, lane: &Lane) -> (Vec<String>, BudgetSubject) {
        let shared = &self.shared;
        // A cap for each person applies to the prompt that waits.
        let waiting = {
            let queue = shared.lanes.queue.lock();
            queue.lanes().paused().find(|event| event.lane == *lane).cloned()
        };
        let subject = match &waiting {
            Some(event) => budgets::subject_of(shared, event).await,
            None => budgets::lane_subject(shared, lane).await,
        };
        let (next, mut waits) = (NextTurn { lane, event: waiting.as_ref() }, Vec::new());
        for part in &shared.parts {
            let wait = part.wait(Gateway { shared }, next).await;
            waits.extend(wait.and_then(|wait| wait.status));
        }
        (waits, subject)
    }

    /// Returns the running turn and the waiting events of a lane.
    #[must_use]
    pub fn queue_of(&self, lane: &Lane) -> QueueView {
        let running =
            self.shared.lanes.running.lock().get(lane).map(|running| running.summary.clone());
        let queue = self.shared.lanes.queue.lock();
        let accepted = |event: &Event| {
            Timestamp::from_millisecond(event.accepted_ms).unwrap_or(Timestamp::UNIX_EPOCH)
        };
        let clean = |summary: EventSummary| EventSummary {
            who: self.shared.deps.redactor.redact(summary.who),
            words: self.shared.deps.redactor.redact(summary.words),
            ..summary
        };
        let waits = self.shared.lanes.wait_reasons(&queue, lane);
        let waiting = queue.lanes().waiting_in(lane).zip(waits).map(|(event, wait)| EventSummary {
            wait,
            ..clean(EventSummary::of(event, accepted(event)))
        });
        QueueView {
            running: running.map(clean),
            waiting: waiting.collect(),
            all_running: queue.lanes().running(),
            all_waiting: queue.lanes().waiting().len(),
            slots: self.shared.deps.limits.max_concurrent.max(1),
        }
    }
}

/// Returns a warning about an agent that confines its own commands at a safety level.
fn own_sandbox_warning(host: &Host, descriptor: &Descriptor, safety: Safety) -> Option<String> {
    if !descriptor.own_sandbox || safety == Safety::Danger {
        return None;
    }
    Some(match host.mounts {
        true => messages::own_sandbox_hides(descriptor.label()),
        false => messages::own_sandbox_fails(descriptor.label()),
    })
}

/// Returns why a backend cannot work. `None` if it can, or if that is not known in time.
async fn backend_problem(backends: &dyn Backends, name: &str) -> Option<String> {
    let reason = tokio::time::timeout(AVAILABILITY_TIMEOUT, backends.unavailable(name))
        .await
        .ok()
        .flatten()?;
    Some(format!("{name} cannot work here: {reason}."))
}
