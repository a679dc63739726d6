//! The dependencies of a dispatcher, and the operator's settings for turns.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::tz::TimeZone;

use super::outlet::Outlet;
use super::outlet::messages::PromptRefusal;
use aetheel_model::agent::{AllowedTools, Mode, Safety};
use aetheel_model::budget::{BudgetGrant, BudgetNews, BudgetReport};
use aetheel_model::choice::CollisionMode;
use aetheel_model::event::NewEvent;
use aetheel_model::host_tool::HostToolKind;
use aetheel_model::id::{ChannelId, UserOrRoleId};
use aetheel_model::policy::PolicyCeiling;
use aetheel_model::queue::QueueLimits;
use aetheel_model::redact::Redactor;
use aetheel_model::rollout::Rollout;
use aetheel_recording::Recorder;
use aetheel_runtime::clock::Clock;
use aetheel_store::workspace::{Journal, Workspace};
use aetheel_turn::{Backends, Host, Launcher, Policies, TurnObservers};

/// Finds the node of a cluster that serves a lane, and sends events to it.
#[async_trait]
pub trait Router: Send + Sync {
    /// Returns whether an event does not belong to this node: its lane is assigned to another node
    /// or to none. Must not block.
    fn is_remote(&self, event: &NewEvent) -> bool;

    /// Returns whether this node serves the lane of a channel or thread, according to the database.
    /// A channel that no node serves is assigned to this node. Waits while the channel moves to
    /// another node, or the database is not available.
    async fn serves(&self, channel: ChannelId) -> bool;

    /// Sends an event to the node that serves its lane. Returns once the event is saved, so that
    /// the node will receive it. An event whose key was sent before is not sent again.
    ///
    /// # Errors
    /// [`PromptRefusal::NotSaved`] if the event was not sent, as far as this node knows.
    async fn send(&self, event: NewEvent) -> Result<(), PromptRefusal>;

    /// Returns the place where the nodes add up the use of budgets, or `None` if this node adds up
    /// its own turns only.
    fn cluster_budgets(&self) -> Option<&dyn ClusterBudgets> {
        None
    }

    /// Sends news about the files of shared directories to all nodes, which pass them to
    /// [`FileNeighbours::receive`](crate::FileNeighbours::receive). Returns at once.
    fn share_file_news(&self, news: String) {
        drop(news);
    }
}

/// The reason why the nodes of a cluster cannot exchange the use of budgets.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClusterBudgetsAway(pub String);

/// The place where the nodes of a cluster add up the use of budgets.
#[async_trait]
pub trait ClusterBudgets: Send + Sync {
    /// Reports the use of this node's turns, and returns what the other nodes reported.
    ///
    /// # Errors
    /// [`ClusterBudgetsAway`]; the use may have been reported.
    async fn exchange(&self, report: BudgetReport) -> Result<BudgetNews, ClusterBudgetsAway>;

    /// Saves the decisions about an account in place of those with this revision, or of none if it
    /// is zero. Returns their revision, or `None` if another node decided meanwhile.
    ///
    /// # Errors
    /// [`ClusterBudgetsAway`]; the decisions may have been saved.
    async fn save_grant(
        &self,
        grant: BudgetGrant,
        revision: i64,
    ) -> Result<Option<i64>, ClusterBudgetsAway>;
}

/// The dependencies of a [`Dispatcher`](crate::Dispatcher).
pub struct DispatcherDeps {
    /// The operator's settings for every turn.
    pub choices: Choices,
    /// The clock for all times that people see or that are saved, and for the waits until them.
    pub clock: Clock,
    /// The limits of the queue.
    pub limits: QueueLimits,
    /// The limits and the environment of agents.
    pub host: Host,
    /// The loaded backends.
    pub backends: Arc<dyn Backends>,
    /// The policies that decide about requests of agents.
    pub policies: Arc<dyn Policies>,
    /// The observers of turns.
    pub observers: Arc<dyn TurnObservers>,
    /// Starts the processes of agents, in the sandbox if one is configured.
    pub launcher: Arc<dyn Launcher>,
    /// Whether agents of the previous gateway process may have continued after it ended, so that
    /// their output is lost. If so, people are asked about turns that had begun.
    pub unwatched_agents: bool,
    /// Delivers answers and questions to people.
    pub outlet: Arc<dyn Outlet>,
    /// The operator's Markdown files, and the bindings of lanes.
    pub workspace: Workspace,
    /// Finds the nodes of lanes, if several machines serve the bot.
    pub router: Option<Arc<dyn Router>>,
    /// Saves accepted events across restarts. Without a journal, waiting events are lost when the
    /// program ends.
    pub journal: Option<Journal>,
    /// Writes the recordings of turns.
    pub recorder: Recorder,
    /// Removes secrets from answers.
    pub redactor: Redactor,
    /// Whether to roll back a backend that misreads more of its agent's output than its previous
    /// generation did.
    pub rollback: bool,
    /// How a new version of a backend replaces the one that serves.
    pub rollout: Rollout,
    /// The name of this machine in a cluster, which has rollouts of its own.
    pub machine: Option<String>,
}

/// The operator's settings for every turn. A backend ignores those it does not support.
#[derive(Clone, Debug)]
pub struct Choices {
    /// The backend of lanes for which no other backend is set.
    pub backend: String,
    /// The other backends that people may choose.
    pub backends: Vec<String>,
    /// The model, for [`Choices::backend`] only: other backends do not know it.
    pub model: Option<String>,
    /// The level of thinking, an id or label, for [`Choices::backend`] only.
    pub effort: Option<String>,
    /// The highest safety level of any lane.
    pub safety: Safety,
    /// Build or plan. With plan, lanes cannot build.
    pub mode: Mode,
    /// The tools that agents may use.
    pub allowed_tools: AllowedTools,
    /// The requests that policies may allow in place of people.
    pub policy_allow: PolicyCeiling,
    /// The tools of the host that agents may call.
    pub host_tools: Vec<HostToolKind>,
    /// Whether an agent is given the turns of other agents in its lane.
    pub recap_on_switch: bool,
    /// Whether lanes wait for the end of a usage limit, instead of failing.
    pub waits_for_limits: bool,
    /// The operator's time zone, in which the days of budgets begin.
    pub time_zone: TimeZone,
    /// The reaction to a file that two conversations use, unless `channels.md` overrides it.
    pub collisions: CollisionMode,
    /// The maximum number of model rounds per turn.
    pub max_turns: u32,
    /// The folders that may contain working directories of lanes.
    pub project_roots: Vec<PathBuf>,
    /// The maximum number of prompts per person and minute; `None` for no limit.
    pub prompts_per_minute: Option<u32>,
    /// The maximum size of a prompt, in bytes.
    pub prompt_limit: usize,
    /// The maximum number of files per prompt.
    pub attachments_max: usize,
    /// The maximum size of each file, in bytes.
    pub attachment_limit: u64,
    /// Users and roles that may answer every question.
    pub approvers: Vec<UserOrRoleId>,
}
