use super::LinkContext;
use crate::end::{TurnResult, failure};
use crate::one_shot;
use crate::wit::{
    Answer, Chunk, Exited, Failure, FailureKind, Input, Line, Outcome, Query, Signal, Spawn,
    StartTurn, Steer, SteerOutcome, TurnRef, Value,
};
#[cfg(doc)]
use crate::{Backend, live::Asks};

/// The knowledge of a backend about an agent that lives on. Made anew for every link.
#[allow(unused_variables, reason = "the names say what the defaults have no use for")]
pub trait Agent: Default + 'static {
    /// The agent's name for people, in messages about its end.
    const NAME: &'static str = "the agent";
    /// Milliseconds the agent may take to leave once its stdin is closed. Then it is stopped. 0: it
    /// is stopped at once, as a server that does not listen to its stdin.
    const LEAVE_MS: u32 = 2000;
    /// Milliseconds between SIGTERM and SIGKILL.
    const GRACE_MS: u32 = 2000;
    /// Whether the next process starts, for a turn that waits, while the last one still leaves: for
    /// agents that are slow at it, or never do. By default it is waited for.
    const OVERLAPS: bool = false;
    /// Whether the process is nobody's in particular, so that the host gives it the least any
    /// session may have. Otherwise it is that of the session and the turn it is started for.
    const SHARED: bool = false;

    /// Returns the descriptor, see [`Backend::describe`].
    fn describe() -> String;

    /// Looks at a turn the host wants, before anything is done for it.
    ///
    /// # Errors
    /// The turn fails with it.
    fn accept(&mut self, start: &StartTurn, context: &mut LinkContext) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns the process to start, for a turn or, before any, for a question of the host; see
    /// [`spawn`]. `proc`, `session` and `turn` are filled in.
    ///
    /// # Errors
    /// Everything that waits for it fails with it.
    fn launch(
        &mut self,
        start: Option<&StartTurn>,
        context: &mut LinkContext,
    ) -> Result<Spawn, Failure>;

    /// The process runs. Agents that want a greeting get it here, and are [`LinkContext::ready`] when they
    /// answered it.
    fn spawned(&mut self, agent_version: Option<String>, context: &mut LinkContext) {
        context.ready();
    }

    /// Does the next thing a waiting turn needs; the agent is ready.
    fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step;

    /// Takes a line of output in, also outside of turns.
    fn line(&mut self, line: Line, context: &mut LinkContext);

    /// Ends a turn: called here when the agent says that it is over, and by the engine when it
    /// cannot go on. All other last actions of a turn are emitted in it; a [`LinkContext::end`] is
    /// its last word.
    fn finish(&mut self, turn: TurnRef, outcome: Outcome, context: &mut LinkContext) {
        context.end(turn, TurnResult { outcome, text: None, usage: None });
    }

    /// Asks the agent to stop a turn it works on; that it does is for [`Agent::line`] to see. By
    /// default it gets SIGINT.
    fn interrupt(&mut self, turn: TurnRef, context: &mut LinkContext) {
        context.stop(Signal::Interrupt);
    }

    /// Adds a message to a running turn, or says with [`LinkContext::steered`] that it cannot be.
    fn steer(&mut self, steer: Steer, context: &mut LinkContext) {
        context.steered(steer.message, SteerOutcome::NotNow);
    }

    /// Takes the decision about a question of the agent in, see [`Asks`].
    fn answer(&mut self, answer: Answer, context: &mut LinkContext) {}

    /// Answers a question of the host ([`LinkContext::answer`]), or puts it off until the agent is ready
    /// ([`LinkContext::later`]).
    fn query(&mut self, query: Query, context: &mut LinkContext) {
        context.refuse(
            query.query,
            failure(FailureKind::Unsupported, format!("{} has no such thing", Self::NAME)),
        );
    }

    /// A session is not needed any more. By default the agent leaves, which is right where a link
    /// has one session.
    fn close(&mut self, session: u32, context: &mut LinkContext) {
        context.leave();
    }

    /// The link is about to be closed.
    fn shutdown(&mut self, context: &mut LinkContext) {
        context.leave();
    }

    /// Says goodbye, where closing its stdin is not all the agent wants to hear.
    fn leave(&mut self, context: &mut LinkContext) {}

    /// The process is gone, or never came: what was asked of it will not be answered.
    fn forget(&mut self, why: &Failure, context: &mut LinkContext) {}

    /// Returns how a turn ends whose agent is gone. `prompted`: the agent had its prompt. Questions
    /// that wait for it are refused with the failure it returns for a turn that waits.
    fn lost(&mut self, exited: &Exited, prompted: bool, why: Failure) -> Outcome {
        Outcome::Lost(why)
    }

    /// A timer of its own ran out ([`LinkContext::set_timer`]).
    fn timer(&mut self, timer: u32, context: &mut LinkContext) {}

    /// Takes everything else in: HTTP, streams, processes beside the agent's (from [`BESIDE`] up).
    fn other(&mut self, input: Input, context: &mut LinkContext) {}

    /// Returns the state of an idle link, whose agent is process `proc`; by default a link cannot
    /// move.
    fn save(&self, proc: u32) -> Option<String> {
        None
    }

    /// Takes over the state that `save` of another generation returned; returns the agent's
    /// process.
    ///
    /// # Errors
    /// The state does not fit; by default none does.
    fn load(&mut self, state: &str, saved_by: &str) -> Result<u32, String> {
        Err(format!("this backend takes over no state, not even from version {saved_by}"))
    }
}

/// Keys of processes beside the agent's begin here. Those below are for the agent's own, which are
/// counted from 1.
pub const BESIDE: u32 = 0x8000_0000;

/// How far a turn is on its way to the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The agent has its prompt.
    Prompted,
    /// Something has to be answered first; asked again after the next input.
    Wait,
    /// Only a new process can do it: the agent leaves and is started again.
    Restart,
    /// It cannot be done.
    Fail(Failure),
}

/// Returns the plan for a process that lives on.
pub fn spawn(program: &str, arguments: impl IntoIterator<Item = Value>) -> Spawn {
    Spawn { keep_open: true, ..one_shot::spawn(program, arguments, Vec::<Chunk>::new()) }
}
