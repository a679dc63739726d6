//! Inputs that no recording contains: commands at the wrong time, and inputs with unknown keys.

use crate::simulator::PROMPT;
use crate::trial::{TrialStep, stdout_line};
use aetheel_model::agent::{
    AgentQuery, AskAnswer, AskDecision, Exit, Exited, HostCommand, HttpFailed, HttpResponse, Input,
    PromptPart, QueryKind, SpawnFailed, Spawned, Steer, StreamClosed, StreamEvent, StreamOpened,
    ToolResult, TurnRef,
};

/// A key that guests do not use.
const UNKNOWN_KEY: u32 = 987_654;

pub(super) fn foreign_turn() -> TrialStep {
    TrialStep::foreign(Input::Command(HostCommand::Interrupt(TurnRef {
        session: UNKNOWN_KEY,
        turn: UNKNOWN_KEY,
    })))
}

pub(super) fn steer(turn: TurnRef) -> TrialStep {
    let (session, turn) = (turn.session, turn.turn);
    let parts = vec![PromptPart::Text(format!("--stop {PROMPT}"))];
    let fresh_id = "00000000-0000-4000-8000-000000000001".to_owned();
    TrialStep::foreign(Input::Command(HostCommand::Steer(Steer {
        session,
        turn,
        message: 900,
        parts,
        fresh_id,
    })))
}

pub(super) fn queries(session: u32) -> Vec<TrialStep> {
    let kinds = [QueryKind::Health, QueryKind::Models, QueryKind::Sessions, QueryKind::Compact];
    let ask = |(number, kind): (usize, QueryKind)| {
        let session = (number % 2 == 0).then_some(session);
        TrialStep::foreign(Input::Command(HostCommand::Query(AgentQuery {
            query: 900 + u32::try_from(number).unwrap_or_default(),
            session,
            kind,
        })))
    };
    kinds.into_iter().enumerate().map(ask).collect()
}

/// Returns inputs with keys that the guest never used.
pub(super) fn about_unknown_keys() -> Vec<TrialStep> {
    let key = UNKNOWN_KEY;
    let inputs = [
        stdout_line(key, "{\"type\":\"result\"}"),
        Input::Spawned(Spawned { proc: key, agent_version: None }),
        Input::SpawnFailed(SpawnFailed { proc: key, message: String::new(), not_found: false }),
        Input::Exited(Exited { proc: key, how: Exit::Code(0), stderr_tail: String::new() }),
        Input::HttpResponse(HttpResponse { request: key, status: 200, body: "{}".into() }),
        Input::HttpFailed(HttpFailed { request: key, message: String::new(), timed_out: true }),
        Input::StreamOpened(StreamOpened { stream: key, status: 500 }),
        Input::StreamEvent(StreamEvent {
            stream: key,
            name: Some("x".into()),
            id: None,
            data: "{".into(),
        }),
        Input::StreamClosed(StreamClosed { stream: key, message: None }),
        Input::Timer(key),
        Input::ToolResult(ToolResult { call: key, text: "x".into(), failed: false }),
        Input::Command(HostCommand::Answer(AskAnswer {
            ask: key,
            decision: AskDecision::AllowAlways,
        })),
        Input::Command(HostCommand::Answer(AskAnswer {
            ask: key,
            decision: AskDecision::Answers(vec![("q".into(), vec!["a".into()])]),
        })),
        Input::Command(HostCommand::CloseSession(key)),
    ];
    inputs.map(TrialStep::foreign).into()
}
