//! From an accepted event to a delivered answer.
//!
//! [`Dispatcher`] owns the queue of events and the running turns. Its fields are its services.
//!
//! An event runs in its lane and slot, its answer is delivered through the [`Outlet`], and the
//! state that must survive a restart is saved. Features such as budgets and hooks are
//! [parts](TurnPart) of its turn. A task that waits for a time of the wall clock sleeps for five
//! seconds at most and then compares the time again, because the machine may be suspended and its
//! clock may be set. This crate must not depend on an adapter such as
//! Discord. `tests/dispatch/` tests it.
//!
//! | module | content |
//! |---|---|
//! | [`outlet`] | the port to people: answers, questions, messages |
//! | [`deps`] | the operator's settings and the dependencies of a dispatcher |
//! | [`temp_dir`] | the folder for the files of a prompt |
//! | [`attachments`] | the files of prompts |
//! | [`cluster`] | the ports between the nodes of a cluster and an adapter |
//! | [`observers`] | observers of lanes and turns |
//! | [`persistence`] | the saved progress of each event |
//! | [`in_flight`] | deliveries in progress |
//! | [`agent_run`] | a turn of an agent, as parts and observers see it |
//! | [`turn_feed`] | the events of turns for observers |
//! | [`questions`] | questions that wait for people |
//! | [`channel`] | the settings of a lane: backend, directory, memory, sessions |
//! | [`thread`] | opening the thread of an event |
//! | [`recovery`] | unfinished events after a restart, and replies that could not be read |
//! | [`delivery`] | the delivery of answers |
//! | [`drift`] | output that backends do not recognise |
//! | [`claims`] | files that people and agents reserve |
//! | [`collisions`] | warnings about files that two conversations use |
//! | [`health`] | probes and metrics |
//! | [`delegated`] | calls of host tools that wait to be carried out |
//! | [`plan`] | a turn that is ready to begin |
//! | [`part`] | features that take part in turns |
//! | [`limits`] | the usage limits that lanes reached |
//! | [`budgets`] | sums and caps of what turns use |
//! | [`lanes`] | the queue and the running turns |
//! | [`rollout`] | new versions of backends that do not serve everybody yet |
//! | [`run`] | the stages of a turn, from its files to its answer |
//! | [`parts`] | the features that take part in turns, one file for each |
//! | [`intake`] | accepting, steering, withdrawing and rejecting events |
//! | [`host_calls`] | carrying out calls of host tools |
//! | [`status`] | the state of a lane as people see it |
//! | [`commands`] | the commands that show or change something, for all front ends |
//! | [`shutdown`] | ending the process without losing events |
//! | [`scheduler`] | starting the waiting events |
//! | [`assembly`] | creating the services, and starting their tasks |
//!
//! A module uses only modules above it in this table. Services also use [`Shared`], the state that
//! they share.

mod agent_run;
mod assembly;
mod attachments;
mod budgets;
mod channel;
mod claims;
mod cluster;
mod collisions;
mod commands;
mod delegated;
mod delivery;
mod deps;
mod drift;
mod health;
mod host_calls;
mod in_flight;
mod intake;
mod lanes;
mod limits;
mod observers;
mod outlet;
mod part;
pub mod parts;
mod persistence;
mod plan;
mod questions;
mod recovery;
mod rollout;
mod run;
mod scheduler;
mod shutdown;
mod status;
mod temp_dir;
mod thread;
mod turn_feed;

use std::sync::Arc;

use jiff::Timestamp;
use tokio_util::task::TaskTracker;

pub use self::agent_run::{BegunRun, EndedRun, RunName};
pub use self::budgets::decisions::Budgets;
pub use self::channel::effective::{EffectiveSettings, effective_settings};
pub use self::channel::error::{LaneDirectoryError, LaneRequestError, ValueProblem};
pub use self::channel::options::{Setting, SettingOption};
pub use self::channel::projects::ProjectBinding;
pub use self::channel::sessions::{Conversation, ConversationList, Conversations};
pub use self::channel::settings::Settings;
pub use self::claims::{ClaimAuthor, ClaimDesk, ClaimError, ClaimOrder, MachineClaim};
pub use self::cluster::{ChannelFilter, ClusterChat, ClusterMail, ClusterMessage, LoginHistory};
pub use self::collisions::mutes::WarningMutes;
pub use self::collisions::news::FileNeighbours;
pub use self::commands::{
    ArgumentKind, Command, CommandAccess, CommandAction, CommandArgument, CommandCaller,
    CommandError, CommandReply, Commands,
};
pub use self::delegated::CallContext;
pub use self::deps::{Choices, ClusterBudgets, ClusterBudgetsAway, DispatcherDeps, Router};
pub use self::health::{HealthProbe, Stats};
pub use self::host_calls::due::LaterTurns;
pub use self::intake::router::Placement;
pub use self::intake::{Accepted, Intake, PendingSteering, SavedRefusal, SteeringResult};
pub use self::lanes::panics::catch_panic;
pub use self::lanes::stop::StopResult;
pub use self::lanes::wait_choices::WaitChoices;
pub use self::lanes::waits::{LaneWait, Waits};
pub use self::lanes::{EventSummary, Turns};
pub use self::observers::TurnWatch;
pub use self::outlet::answer::{AnswerFile, TurnAnswer};
pub use self::outlet::excerpt::Excerpt;
pub use self::outlet::limited::{CutTurn, LimitedTurn, ReachedLimit};
pub use self::outlet::messages::PromptRefusal;
pub use self::outlet::question::{OpenQuestion, Settlement, Subject};
pub use self::outlet::{
    ChannelError, DeliveryError, Notice, Offer, OpenedThread, Outlet, PriorDelivery,
    QuestionDismissal, RECAP_MESSAGES, RecapMessage, Reply, WaitTopic,
};
pub use self::part::{
    Gate, Gateway, ListedWait, NextTurn, Outcome, PartOfTurn, Refusal, TurnContext, TurnPart,
    TurnRefusal, Wait, WaitDecider,
};
pub use self::persistence::NextStart;
pub use self::plan::TurnPlan;
pub use self::questions::{AnswerRefusal, Person, Questions};
pub use self::recovery::import::LaneTransfer;

pub use self::parts::AUTOMATIC_REFUSALS;
pub use self::recovery::offer::{OfferEffect, OfferRefusal};
pub use self::recovery::redeliver::Redelivery;
pub use self::recovery::restart::{ImportedEvents, Recovery};
pub use self::rollout::{MAX_WAITING_COMPARISONS, RolloutDecision, RolloutView, Rollouts};
pub use self::run::turn_renderer::{RecordedEnd, TurnRenderer};
pub use self::status::backends::{BackendControl, BackendView, PingError, RollbackError};
pub use self::status::overview::{LaneView, RunningTurn};
pub use self::status::render::{
    StatusRow, conversation_line, queue_rows, session_rows, status_rows,
};
pub use self::status::transcripts::TurnHistory;
pub use self::status::{LaneBackend, LaneStatus, Observer, QueueView};
pub use self::turn_feed::TurnFeed;

use self::budgets::BudgetMonitor;
use self::budgets::notices::BudgetNotices;
use self::channel::ChannelContext;
use self::channel::listings::Listings;
use self::collisions::CollisionMonitor;
use self::collisions::news::NeighbourClaims;
use self::delegated::CallQueue;
use self::delivery::AnswerDelivery;
use self::drift::DriftMonitor;
use self::health::DispatcherHealth;
use self::host_calls::HandOffTimes;
use self::intake::rate_limit::RateLimit;
use self::lanes::LaneRegistry;
use self::lanes::paused::WaitNotices;
use self::limits::UsageLimits;
use self::persistence::EventPersistence;
use self::recovery::unread::LostReplies;
use self::rollout::RolloutMonitor;
use aetheel_model::event::Lane;
use aetheel_recording::Backend;
use aetheel_runtime::clock::Clock;
use aetheel_turn::{Links, ToolEndpoints};

/// Accepts events, runs their turns and delivers their answers. Cheap to clone.
///
/// Each field is a service that can be cloned and passed to the part of the program that needs it.
#[derive(Clone)]
pub struct Dispatcher {
    /// The clock of the other services.
    pub clock: Clock,
    /// Accepts events.
    pub intake: Intake,
    /// Stops turns and waits for them.
    pub turns: Turns,
    /// Ends the wait for a usage limit by people's decision.
    pub wait_choices: WaitChoices,
    /// The lanes that wait for the end of a usage limit or at the cap of a budget.
    pub waits: Waits,
    /// The budgets.
    pub budgets: Budgets,
    /// The open questions of agents.
    pub questions: Arc<Questions>,
    /// The settings of lanes.
    pub settings: Settings,
    /// The turns that agents asked for at later times.
    pub later_turns: LaterTurns,
    /// The conversations of lanes.
    pub conversations: Conversations,
    /// Continues the events of a previous process.
    pub recovery: Recovery,
    /// Delivers lost replies.
    pub redelivery: Redelivery,
    /// Moves lanes between nodes.
    pub transfer: LaneTransfer,
    /// The state of lanes and turns.
    pub observer: Observer,
    /// The finished turns.
    pub history: TurnHistory,
    /// The loaded backends.
    pub backends: BackendControl,
    /// The rollouts of new versions of backends.
    pub rollouts: Rollouts,
    /// The commands of people.
    pub commands: Commands,
    /// The files that people and agents reserved.
    pub claims: ClaimDesk,
    /// The muted warnings about files.
    pub mutes: WarningMutes,
    /// The files that agents of other machines use.
    pub file_neighbours: FileNeighbours,
    /// The links whose agents call tools through the MCP server.
    pub tool_endpoints: ToolEndpoints,
    shared: Arc<Shared>,
}

/// The state that the services share.
pub(crate) struct Shared {
    pub(crate) deps: Arc<DispatcherDeps>,
    /// The features that take part in turns, in the order in which they are asked.
    pub(crate) parts: Vec<Arc<dyn TurnPart>>,
    pub(crate) links: Links,
    pub(crate) listings: Listings,
    pub(crate) lanes: LaneRegistry,
    pub(crate) rate_limit: RateLimit,
    pub(crate) durability: Arc<EventPersistence>,
    pub(crate) delivery: Arc<AnswerDelivery>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) channels: ChannelContext,
    pub(crate) drift: Arc<DriftMonitor>,
    pub(crate) rollout: Arc<RolloutMonitor>,
    pub(crate) collisions: CollisionMonitor,
    pub(crate) neighbours: NeighbourClaims,
    pub(crate) calls: CallQueue,
    pub(crate) hand_offs: HandOffTimes,
    pub(crate) limits: UsageLimits,
    pub(crate) wait_notices: WaitNotices,
    pub(crate) budgets: Arc<BudgetMonitor>,
    pub(crate) budget_notices: Arc<BudgetNotices>,
    pub(crate) lost_replies: Arc<LostReplies>,
    pub(crate) health: DispatcherHealth,
    pub(crate) tasks: TaskTracker,
}

impl Shared {
    /// Returns the time of the wall clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    /// Returns the version of a backend that serves a lane.
    pub(crate) fn serving(&self, name: &str, lane: &Lane) -> Option<Arc<dyn Backend>> {
        let parent = self.channels.parents.of(lane).and_then(|parent| parent.channel());
        self.rollout.serving(name, lane, parent)
    }
}

impl Dispatcher {
    /// Creates a dispatcher with an empty queue. `turn_parts` are the features that take part in turns,
    /// in the order in which they are asked. Must be called within a Tokio runtime, as must
    /// [`Intake::submit`].
    #[must_use]
    pub fn new(deps: DispatcherDeps, turn_parts: Vec<Arc<dyn TurnPart>>) -> Self {
        let (shared, receivers) = assembly::shared(deps, turn_parts);
        receivers.start(&shared);
        Self {
            clock: shared.deps.clock.clone(),
            intake: Intake::new(shared.clone()),
            turns: Turns::new(shared.clone()),
            wait_choices: WaitChoices::new(shared.clone()),
            waits: Waits::new(shared.clone()),
            budgets: Budgets::new(shared.clone()),
            questions: shared.questions.clone(),
            settings: Settings::new(shared.clone()),
            later_turns: LaterTurns::new(shared.clone()),
            conversations: Conversations::new(shared.clone()),
            recovery: Recovery::new(shared.clone()),
            redelivery: Redelivery::new(shared.clone()),
            transfer: LaneTransfer::new(shared.clone()),
            observer: Observer::new(shared.clone()),
            history: TurnHistory::new(shared.clone()),
            backends: BackendControl::new(shared.clone()),
            rollouts: Rollouts::new(shared.clone()),
            commands: Commands {
                clock: shared.deps.clock.clone(),
                observer: Observer::new(shared.clone()),
                settings: Settings::new(shared.clone()),
                conversations: Conversations::new(shared.clone()),
                backends: BackendControl::new(shared.clone()),
                claims: ClaimDesk::new(shared.clone()),
                redelivery: Redelivery::new(shared.clone()),
            },
            claims: ClaimDesk::new(shared.clone()),
            mutes: WarningMutes::new(shared.clone()),
            file_neighbours: FileNeighbours::new(shared.clone()),
            tool_endpoints: shared.links.tool_endpoints().clone(),
            shared,
        }
    }
}
