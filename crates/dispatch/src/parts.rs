//! The parts that a dispatcher is made of, and the operator's choices.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::outlet::Outlet;
use super::outlet::messages::Refusal;
use aetheel_model::agent::{AllowedTools, Mode, Safety};
use aetheel_model::event::NewEvent;
use aetheel_model::queue::Limits;
use aetheel_model::redact::Redactor;
use aetheel_store::workspace::{Journal, Workspace};
use aetheel_turn::recording::Recorder;
use aetheel_turn::{Backends, Host, Launcher};

/// Knows which node has a lane, and the way there.
#[async_trait]
pub trait Router: Send + Sync {
    /// Whether an event is not for this node: its lane is another's, or nobody's yet. Returns at
    /// once.
    fn elsewhere(&self, event: &NewEvent) -> bool;

    /// Returns whether this node serves the lane of a channel or thread, as the database says. A
    /// channel that no node serves becomes this node's. While the channel is on its way to another
    /// node, or the database is away, this waits.
    async fn serves(&self, channel: u64) -> bool;

    /// Sends it to whoever has its lane; returns when it is safe. One that was sent before, by its
    /// key, is not sent twice.
    ///
    /// # Errors
    /// [`Refusal::NotSaved`]: it was not sent, as far as is known.
    async fn send(&self, event: NewEvent) -> Result<(), Refusal>;
}

/// The operator's choices, and the parts that a dispatcher works with.
pub struct Parts {
    /// The operator's choices for every turn.
    pub choices: Choices,
    /// Bounds of the queue.
    pub limits: Limits,
    /// The limits and surroundings of agents.
    pub host: Host,
    /// The backends that understand them.
    pub backends: Arc<dyn Backends>,
    /// Starts the processes of agents, confined where that is set.
    pub launcher: Arc<dyn Launcher>,
    /// Whether agents of the last gateway may have worked after it ended, with their output lost.
    /// People are then asked about turns that had begun.
    pub unwatched_agents: bool,
    /// Delivers answers and questions to the people who wait.
    pub outlet: Arc<dyn Outlet>,
    /// The operator's Markdown files, and bindings.
    pub workspace: Workspace,
    /// Knows the events of other nodes' lanes, where several machines share a bot.
    pub router: Option<Arc<dyn Router>>,
    /// Keeps accepted events over the death of the program; none: they live in memory, and what
    /// waits dies with it.
    pub journal: Option<Journal>,
    /// Writes recordings of agents' runs.
    pub recorder: Recorder,
    /// Keeps secrets out of answers.
    pub redactor: Redactor,
    /// A backend that reads worse than the one before is rolled back.
    pub rollback: bool,
}

/// The operator's choices for every turn; a backend ignores those it does not support.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Backend of lanes without a choice of their own.
    pub backend: String,
    /// Backends that people may choose beside it.
    pub backends: Vec<String>,
    /// Model, for that backend only: another one would not know it.
    pub model: Option<String>,
    /// Level of effort, an id or label, for that backend only.
    pub effort: Option<String>,
    /// The level in force, the most a lane may have.
    pub safety: Safety,
    /// Build or plan; plan allows nothing else.
    pub mode: Mode,
    /// Tools that agents may use.
    pub allowed_tools: AllowedTools,
    /// Most rounds of the model in a turn.
    pub max_turns: u32,
    /// Where working directories of lanes may be.
    pub project_roots: Vec<PathBuf>,
    /// Most prompts of one person; none: any number.
    pub prompts_per_minute: Option<u32>,
    /// Most bytes of a prompt.
    pub prompt_limit: usize,
    /// Most files with a prompt.
    pub attachments_max: usize,
    /// Most bytes of each file.
    pub attachment_limit: u64,
    /// Discord users and roles that may answer every question.
    pub approvers: Vec<u64>,
}
