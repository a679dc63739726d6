//! Converts between the host's types and those of contract version 0.1.
//!
//! Components of that version cannot send newer values. Newer values for such a component are
//! replaced by the closest older one, which never permits more than was decided.

use super::{Carry, Excess, bounded, record, shorten_answer, unbounded, variant};
use crate::bindings::older::aetheel::backend::types as wit;
use aetheel_model::agent::{self, Action, TimedInput};

/// Converts inputs to the generated types.
pub(crate) fn inputs(inputs: Vec<TimedInput>) -> Vec<wit::TimedInput> {
    unbounded(inputs)
}

/// Converts the actions that a guest returned.
///
/// # Errors
/// [`Excess`] if they exceed a limit.
pub(crate) fn actions(mut actions: Vec<wit::Action>) -> Result<Vec<Action>, Excess> {
    for action in &mut actions {
        if let wit::Action::TurnDone(done) = action {
            shorten_answer(&mut done.text);
        }
    }
    bounded(actions)
}

impl Carry<wit::Decision> for agent::AskDecision {
    fn carry(self, cap: usize) -> Result<wit::Decision, Excess> {
        Ok(match self {
            Self::AllowOnce => wit::Decision::AllowOnce,
            Self::AllowAlways => wit::Decision::AllowAlways,
            Self::Deny(words) => wit::Decision::Deny(words.carry(cap)?),
            Self::DenyAndStop => wit::Decision::DenyAndStop,
            Self::Answers(answers) => wit::Decision::Answers(answers.carry(cap)?),
            Self::Declined => wit::Decision::Deny(None),
            // Questions of contract 0.1 do not offer these decisions.
            Self::AllowChanged(_) | Self::Chosen(_) | Self::Dismissed => wit::Decision::Dismissed,
        })
    }
}

impl Carry<agent::TextEvent> for wit::Text {
    fn carry(self, cap: usize) -> Result<agent::TextEvent, Excess> {
        Ok(agent::TextEvent {
            part: self.part,
            text: self.text.carry(cap)?,
            replace: self.replace,
            parent: None,
        })
    }
}

impl Carry<agent::FileDiff> for wit::FileDiff {
    fn carry(self, cap: usize) -> Result<agent::FileDiff, Excess> {
        Ok(agent::FileDiff {
            path: self.path.carry(cap)?,
            old_text: self.old_text.carry(cap)?,
            new_text: self.new_text.carry(cap)?,
            unified: self.unified.carry(cap)?,
            ..agent::FileDiff::default()
        })
    }
}

impl Carry<agent::Usage> for wit::Usage {
    fn carry(self, _cap: usize) -> Result<agent::Usage, Excess> {
        let Self { input, output, cached, reasoning, cost_usd, context_used, context_size } = self;
        Ok(agent::Usage {
            input,
            output,
            cached,
            reasoning,
            cost_usd,
            context_used,
            context_size,
            ..agent::Usage::default()
        })
    }
}

impl Carry<agent::Question> for wit::Question {
    fn carry(self, cap: usize) -> Result<agent::Question, Excess> {
        let options = self
            .options
            .into_iter()
            .map(|option| Ok(agent::QuestionChoice::plain(option.carry(cap)?)));
        Ok(agent::Question {
            id: self.id.carry(cap)?,
            text: self.text.carry(cap)?,
            options: options.collect::<Result<_, Excess>>()?,
            many: self.many,
            free_text: self.free_text,
            ..agent::Question::default()
        })
    }
}

impl Carry<agent::Ask> for wit::Ask {
    fn carry(self, cap: usize) -> Result<agent::Ask, Excess> {
        Ok(agent::Ask {
            ask: self.ask,
            session: self.session,
            turn: self.turn,
            title: self.title.carry(cap)?,
            kind: self.kind.carry(cap)?,
            always_label: self.always_label.carry(cap)?,
            options: Vec::new(),
            diffs: Vec::new(),
            changeable: false,
        })
    }
}

variant!(agent::Safety => wit::Safety { ; Default, Edit, Danger });
variant!(agent::Mode => wit::Mode { ; Build, Plan });
variant!(agent::SteerDelivery => wit::Delivery { ; Steer, Queue, Replace });
variant!(agent::Pipe => wit::Pipe { ; Stdout, Stderr });
variant!(agent::Exit => wit::Exit { Code, Signal; Unknown });
variant!(agent::PromptPart => wit::Part { Text, Image, File; });
variant!(agent::QueryKind => wit::QueryKind { Rename, DeleteSession, Raw; Health, Models, Sessions, Compact });
variant!(agent::HostCommand => wit::Command {
    StartTurn, Steer, Interrupt, Answer, CloseSession, Query; Shutdown
});
variant!(agent::Input => wit::Input {
    Command, Spawned, SpawnFailed, Line, Exited, HttpResponse, HttpFailed, StreamOpened, StreamEvent, StreamClosed, Timer;
});

record!(agent::TurnSettings => wit::Settings { model, safety, mode, effort, system_prompt, allowed_tools, max_turns, options });
record!(agent::Attachment => wit::Attachment { blob, name, media_type, size, path });
record!(agent::StartTurn => wit::StartTurn { session, turn, cwd, native_id, fork, fresh_id, one_shot, settings, parts });
record!(agent::Steer => wit::Steer { session, turn, message, parts, delivery, fresh_id });
record!(agent::TurnRef => wit::TurnRef { session, turn });
record!(agent::AskAnswer => wit::Answer { ask, decision });
record!(agent::AgentQuery => wit::Query { query, session, kind });
record!(agent::Spawned => wit::Spawned { proc, agent_version });
record!(agent::SpawnFailed => wit::SpawnFailed { proc, message, not_found });
record!(agent::AgentLine => wit::Line { proc, pipe, text, truncated });
record!(agent::Exited => wit::Exited { proc, how, stderr_tail });
record!(agent::HttpResponse => wit::HttpResponse { request, status, body });
record!(agent::HttpFailed => wit::HttpFailed { request, message, timed_out });
record!(agent::StreamOpened => wit::StreamOpened { stream, status });
record!(agent::StreamEvent => wit::StreamEvent { stream, name, id, data });
record!(agent::StreamClosed => wit::StreamClosed { stream, message });
record!(agent::TimedInput => wit::TimedInput { at_ms, input });

variant!(wit::Value => agent::ArgumentValue { Text, File, Secret; Port, Inherit });
variant!(wit::Chunk => agent::Chunk { Text, Base64, Secret; });
variant!(wit::Signal => agent::Signal { ; Interrupt, Terminate, Kill });
variant!(wit::FailureKind => agent::FailureKind {
    ; NotFound, Authentication, RateLimited, Overloaded, BadRequest, ModelNotFound, ContextFull, SessionUnknown, Protocol,
    Crashed, TimedOut, Refused, Unsupported, Other
});
variant!(wit::ToolStatus => agent::ToolStatus { ; Ok, Failed, Denied, Cancelled, Unknown });
variant!(wit::PlanStatus => agent::PlanStatus { ; Pending, Active, Done });
variant!(wit::SteerOutcome => agent::SteerOutcome { ; Injected, Queued, NotNow, Dropped });
variant!(wit::Level => agent::DiagnosticLevel { ; Debug, Info, Warn, Error });
variant!(wit::Outcome => agent::TurnOutcome { Failed, Lost, Limit; Completed, Interrupted });
variant!(wit::AskKind => agent::AskKind { Permission, PlanApproval, Questions, SignIn; });
variant!(wit::QueryResult => agent::QueryResult { Health, Models, Sessions, Raw, Failed; Done });
variant!(wit::EventKind => agent::AgentEventKind {
    Text, Thinking, ToolStart, ToolOutput, ToolEnd, Plan, Usage, Retry, Notice, Mode, Title, Unrecognised, Raw;
});
variant!(wit::Action => agent::Action {
    Spawn, Write, CloseStdin, Stop, PutFile, Http, OpenStream, CloseStream, SetTimer, CancelTimer, SessionReady, TurnBegun,
    Event, Ask, AskWithdrawn, Steered, TurnDone, QueryAnswer, Diagnostic;
});

record!(wit::Variable => agent::AgentVariable { name, value });
record!(wit::BasicAuth => agent::BasicAuth { user, secret });
record!(wit::Spawn => agent::Spawn { proc, program, arguments, environment, stdin, keep_open, listens, basic_auth, session, turn });
record!(wit::Write => agent::Write { proc, body });
record!(wit::Stop => agent::StopProcess { proc, signal, grace_ms });
record!(wit::PutFile => agent::PutFile { name, body });
record!(wit::HttpRequest => agent::HttpRequest { request, proc, method, path, body, timeout_ms });
record!(wit::OpenStream => agent::OpenStream { stream, proc, path });
record!(wit::SetTimer => agent::SetTimer { timer, after_ms });
record!(wit::Failure => agent::AgentFailure { kind, message, retry_after_ms });
record!(wit::SessionReady => agent::SessionReady { session, native_id, model, title });
record!(wit::TurnRef => agent::TurnRef { session, turn });
record!(wit::ToolStart => agent::ToolStart { id, parent, kind, native_name, title, target, input });
record!(wit::ToolOutput => agent::ToolOutput { id, text });
record!(wit::ToolEnd => agent::ToolEnd { id, status, output, exit_code, diffs });
record!(wit::PlanEntry => agent::PlanEntry { text, status });
record!(wit::Unrecognised => agent::Unrecognised { what, path, sample });
record!(wit::Event => agent::AgentEvent { session, turn, kind });
record!(wit::Steered => agent::SteerResult { message, outcome });
record!(wit::TurnDone => agent::TurnDone { session, turn, outcome, text, usage });
record!(wit::Model => agent::Model { id, label, efforts });
record!(wit::SessionInfo => agent::SessionInfo { native_id, title, cwd, updated });
record!(wit::QueryAnswer => agent::QueryAnswer { query, answer });
record!(wit::Diagnostic => agent::Diagnostic { level, text });
