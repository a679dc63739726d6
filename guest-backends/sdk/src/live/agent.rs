use super::LinkContext;
use crate::end::{TurnResult, failure};
use crate::one_shot;
use crate::wit::{
    Answer, Chunk, Exited, Failure, FailureKind, Input, Line, Outcome, Query, Signal, Spawn,
    StartTurn, Steer, SteerOutcome, ToolResult, TurnRef, Value,
};
#[cfg(doc)]
use crate::{Backend, live::Asks};

/// The agent-specific part of a backend for a long-lived agent. A new instance is created for each
/// link.
#[allow(unused_variables, reason = "parameter names document what the defaults do not use")]
pub trait Agent: Default + 'static {
    /// The agent's name for users, used in messages about its exit.
    const NAME: &'static str = "the agent";
    /// Milliseconds the agent may take to exit after its stdin is closed, before it is stopped. 0
    /// stops it at once, for servers that do not read their stdin.
    const LEAVE_MS: u32 = 2000;
    /// Milliseconds between SIGTERM and SIGKILL.
    const GRACE_MS: u32 = 2000;
    /// Whether the next process may start for a waiting turn while the last one still exits: for
    /// agents that exit slowly or never. By default the next process waits.
    const OVERLAPS: bool = false;
    /// Whether the process belongs to no session, so that the host grants it only what every
    /// session may have. Otherwise it belongs to the session and turn it is started for.
    const SHARED: bool = false;

    /// Returns the descriptor, see [`Backend::describe`].
    fn describe() -> String;

    /// Checks a turn that the host starts, before anything else is done for it.
    ///
    /// # Errors
    /// An error fails the turn.
    fn accept(&mut self, start: &StartTurn, context: &mut LinkContext) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns the process to start (see [`spawn`]): for a turn, or for a query of the host if
    /// there was no turn yet. The caller fills in `proc`, `session` and `turn`.
    ///
    /// # Errors
    /// An error fails everything that waits for the process.
    fn launch(
        &mut self,
        start: Option<&StartTurn>,
        context: &mut LinkContext,
    ) -> Result<Spawn, Failure>;

    /// Called when the process runs. Agents that need a handshake start it here and call
    /// [`LinkContext::ready`] once it is complete.
    fn spawned(&mut self, agent_version: Option<String>, context: &mut LinkContext) {
        context.ready();
    }

    /// Performs the next step of a waiting turn. Called only when the agent is ready.
    fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step;

    /// Handles a line of output, also outside turns.
    fn line(&mut self, line: Line, context: &mut LinkContext);

    /// Ends a turn. The backend calls it when the agent reports that the turn is over;
    /// [`Live`](super::Live) calls it when the turn cannot continue. Emit all other actions of the
    /// turn before [`LinkContext::end`], which must be the last.
    fn finish(&mut self, turn: TurnRef, outcome: Outcome, context: &mut LinkContext) {
        context.end(turn, TurnResult { outcome, text: None, usage: None });
    }

    /// Asks the agent to stop a turn; [`Agent::line`] handles the agent's reaction. The default
    /// sends SIGINT.
    fn interrupt(&mut self, turn: TurnRef, context: &mut LinkContext) {
        context.stop(Signal::Interrupt);
    }

    /// Adds a message to a running turn, or reports with [`LinkContext::steered`] that this is not
    /// possible.
    fn steer(&mut self, steer: Steer, context: &mut LinkContext) {
        context.steered(steer.message, SteerOutcome::NotNow);
    }

    /// Handles the decision about a question of the agent, see [`Asks`].
    fn answer(&mut self, answer: Answer, context: &mut LinkContext) {}

    /// Handles the result of a call of a tool of the host ([`LinkContext::tool_request`]). The
    /// result of a turn that has ended may be missing.
    fn tool_result(&mut self, result: ToolResult, context: &mut LinkContext) {}

    /// Answers a query of the host ([`LinkContext::answer`]), or defers it until the agent is ready
    /// ([`LinkContext::later`]).
    fn query(&mut self, query: Query, context: &mut LinkContext) {
        context.refuse(
            query.query,
            failure(
                FailureKind::Unsupported,
                format!("{} does not support this query", Self::NAME),
            ),
        );
    }

    /// Closes a session. By default the agent exits, which is right for links with one session.
    fn close(&mut self, session: u32, context: &mut LinkContext) {
        context.leave();
    }

    /// Called before the link is closed.
    fn shutdown(&mut self, context: &mut LinkContext) {
        context.leave();
    }

    /// Called before the agent's stdin is closed, for agents that need a message to exit.
    fn leave(&mut self, context: &mut LinkContext) {}

    /// Called when the process exited or could not be started: open requests will not be answered.
    fn forget(&mut self, why: &Failure, context: &mut LinkContext) {}

    /// Returns the outcome of a turn whose agent exited. `prompted` is true if the agent had its
    /// prompt. Waiting queries fail with the failure that this returns for a turn without a prompt.
    fn lost(&mut self, exited: &Exited, prompted: bool, why: Failure) -> Outcome {
        Outcome::Lost(why)
    }

    /// Called when a timer set with [`LinkContext::set_timer`] expires.
    fn timer(&mut self, timer: u32, context: &mut LinkContext) {}

    /// Handles all other inputs: HTTP, streams, and processes besides the agent's (keys from
    /// [`BESIDE`] up).
    fn other(&mut self, input: Input, context: &mut LinkContext) {}

    /// Returns the state of an idle link whose agent is process `proc`. The default returns `None`,
    /// which means that the link cannot move.
    fn save(&self, proc: u32) -> Option<String> {
        None
    }

    /// Restores the state that `save` of another version returned, and returns the key of the
    /// agent's process.
    ///
    /// # Errors
    /// Fails if the state does not fit. The default always fails.
    fn load(&mut self, state: &str, saved_by: &str) -> Result<u32, String> {
        Err(format!("this backend saves no state and cannot load that of version {saved_by}"))
    }
}

/// First key for processes besides the agent's own. The agent's processes are numbered from 1.
pub const BESIDE: u32 = 0x8000_0000;

/// The progress of a turn that waits for its prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The agent has the prompt.
    Prompted,
    /// The agent must answer something first; [`Agent::prompt`] is called again after the next
    /// input.
    Wait,
    /// The turn needs a new process: the agent is asked to exit and is started again.
    Restart,
    /// The turn must fail.
    Fail(Failure),
}

/// Returns the plan for a process that serves many turns.
pub fn spawn(program: &str, arguments: impl IntoIterator<Item = Value>) -> Spawn {
    Spawn { keep_open: true, ..one_shot::spawn(program, arguments, Vec::<Chunk>::new()) }
}
