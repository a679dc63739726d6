//! The consequences of the entries of a recording.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use crate::link::action_error::ActionError;
use crate::link::{LinkReport, QueryReply};
use crate::tools::{CallKey, PostFile};
use aetheel_model::agent::{
    Action, DiagnosticLevel, Input, SteerOutcome, ToolResult, TurnKey, TurnRef, Unrecognised, Usage,
};
use aetheel_model::event::Lane;

/// A consequence of an entry of the recording.
#[derive(Debug)]
pub(in crate::link) enum LinkEffect {
    /// Report to the driver of a turn.
    Report(TurnKey, LinkReport),
    /// Pass an input to the guest.
    Input(Input),
    /// Add a note to the recording.
    Note(String),
    /// Perform an action on processes, files or the network.
    Perform(Action),
    /// Read the file of a call from the working directory of its session.
    ReadFile {
        call: CallKey,
        file: PostFile,
        cwd: PathBuf,
    },
    /// Return the result of a call.
    Return {
        result: ToolResult,
        is_refusal: bool,
    },
    /// Report something to the driver of a continued turn that a driver before it caused.
    Repeat(TurnKey, LinkReport),
    /// Show people once if the agent of a session lacks the tools of its turn.
    ShowMissingTools(TurnRef),
    /// Send the outcome of a message to a running turn to its author.
    Steered(u32, SteerOutcome),
    /// Send the answer to a query.
    Answered(u32, QueryReply),
    /// Deliver the answer of a turn that the agent began by itself.
    Unsolicited {
        lane: Lane,
        text: String,
        usage: Option<Usage>,
    },
    /// Log that the agent begins more than this number of turns by itself.
    TooManyUnsolicited(u32),
    /// Note an action that has no effect.
    Dropped(&'static str, ActionError),
    Diagnostic(DiagnosticLevel, String),
    Unknown(Unrecognised),
    /// Ask all processes to end, and kill them after this time.
    Terminate(Duration),
    /// Kill all processes.
    Kill,
}

/// The effects of the entries so far that nothing has performed yet, in order.
#[derive(Default)]
pub(in crate::link) struct LinkEffects(VecDeque<LinkEffect>);

impl LinkEffects {
    pub(in crate::link) fn push(&mut self, effect: LinkEffect) {
        self.0.push_back(effect);
    }

    /// Removes and returns the next effect.
    pub(in crate::link) fn next(&mut self) -> Option<LinkEffect> {
        self.0.pop_front()
    }

    pub(in crate::link) fn last(&self) -> Option<&LinkEffect> {
        self.0.back()
    }

    pub(in crate::link) fn note(&mut self, text: &str) {
        self.push(LinkEffect::Note(text.to_owned()));
    }

    pub(in crate::link) fn report(&mut self, turn: TurnKey, report: LinkReport) {
        self.push(LinkEffect::Report(turn, report));
    }

    pub(in crate::link) fn dropped(&mut self, what: &'static str, error: ActionError) {
        self.push(LinkEffect::Dropped(what, error));
    }
}
