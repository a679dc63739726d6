//! Reads from a recording which requests for tools people were asked about, and what they answered.

use std::collections::HashMap;

use aetheel_model::agent::{
    Action, Ask, AskAnswer, AskDecision, AskKey, AskKind, HostCommand, Input, Safety, TurnKey,
};
use aetheel_recording::{EntryKind, Header, RecordingEntry};

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// People allowed it.
    Allowed,
    /// People denied it, with their words if they wrote any.
    Denied(Option<String>),
    /// The question was not answered: it expired, was withdrawn, or its turn ended.
    Unanswered,
    /// The operator's settings or a policy decided.
    Automatic,
}

/// A request for a tool, with its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct AnsweredRequest {
    /// The correlation id of the turn.
    pub turn: String,
    /// The name of the backend.
    pub backend: String,
    /// The lane of the turn, as it is written in recordings.
    pub lane: String,
    /// The safety level of the turn.
    pub safety: Safety,
    /// The working directory.
    pub cwd: String,
    /// The request.
    pub ask: Ask,
    /// Its outcome.
    pub outcome: RequestOutcome,
}

#[derive(Clone, Debug)]
struct RequestTurn {
    id: String,
    lane: String,
    safety: Safety,
    cwd: String,
}

/// Collects the requests of a recording from its entries.
#[derive(Debug)]
pub struct RequestReader<'a> {
    backend: String,
    /// The texts with which the gateway refuses requests by itself.
    refusals: &'a [&'a str],
    /// Id and lane of the turn that begins next.
    next: Option<(String, String)>,
    turns: HashMap<TurnKey, RequestTurn>,
    open: HashMap<AskKey, usize>,
    found: Vec<AnsweredRequest>,
}

impl<'a> RequestReader<'a> {
    /// Begins with the first line of a recording. `refusals` has the texts with which the gateway
    /// refuses requests without asking people.
    #[must_use]
    pub fn new(header: Header, refusals: &'a [&'a str]) -> Self {
        Self {
            backend: header.backend,
            refusals,
            next: None,
            turns: HashMap::new(),
            open: HashMap::new(),
            found: Vec::new(),
        }
    }

    /// Returns whether a line may concern a request. Most lines are output of agents and need no
    /// parsing.
    #[must_use]
    pub fn is_relevant(line: &str) -> bool {
        let beginning = line.get(..120).unwrap_or(line);
        ["\"turn\":", "\"command\":", "\"ask\":", "\"ask-withdrawn\":", "\"ruled\":"]
            .iter()
            .any(|word| beginning.contains(word))
    }

    /// Adds an entry of the recording.
    pub fn add(&mut self, entry: RecordingEntry) {
        match entry.kind {
            EntryKind::Turn { turn, lane, .. } => self.next = Some((turn, lane)),
            EntryKind::In(Input::Command(HostCommand::StartTurn(start))) => {
                if let Some((id, lane)) = self.next.take() {
                    let (safety, cwd) = (start.settings.safety, start.cwd);
                    self.turns.insert(start.turn, RequestTurn { id, lane, safety, cwd });
                }
            }
            EntryKind::Out(Action::Ask(ask)) => self.ask(ask),
            EntryKind::Out(Action::AskWithdrawn(ask)) => drop(self.open.remove(&ask)),
            EntryKind::Ruled(ruling) if ruling.is_final() => {
                if let Some(at) = self.open.remove(&ruling.ask) {
                    self.found[at].outcome = RequestOutcome::Automatic;
                }
            }
            EntryKind::In(Input::Command(HostCommand::Answer(answer))) => self.answer(answer),
            _ => {}
        }
    }

    fn ask(&mut self, ask: Ask) {
        let Some(turn) = self.turns.get(&ask.turn) else { return };
        if !matches!(ask.kind, AskKind::Permission(_)) {
            return;
        }
        self.open.insert(ask.ask, self.found.len());
        let RequestTurn { id, lane, safety, cwd } = turn.clone();
        let (backend, outcome) = (self.backend.clone(), RequestOutcome::Unanswered);
        self.found.push(AnsweredRequest { turn: id, backend, lane, safety, cwd, ask, outcome });
    }

    fn answer(&mut self, answer: AskAnswer) {
        let Some(at) = self.open.remove(&answer.ask) else { return };
        let request = &mut self.found[at];
        request.outcome = match answer.decision {
            AskDecision::AllowOnce | AskDecision::AllowAlways | AskDecision::AllowChanged(_) => {
                RequestOutcome::Allowed
            }
            AskDecision::Chosen(id) => {
                let allows =
                    request.ask.options.iter().any(|option| option.id == id && option.allows);
                if allows { RequestOutcome::Allowed } else { RequestOutcome::Denied(None) }
            }
            AskDecision::Deny(Some(words)) if self.refusals.contains(&words.as_str()) => {
                RequestOutcome::Automatic
            }
            AskDecision::Deny(words) => RequestOutcome::Denied(words),
            AskDecision::DenyAndStop => RequestOutcome::Denied(None),
            AskDecision::Answers(_) | AskDecision::Declined | AskDecision::Dismissed => {
                RequestOutcome::Unanswered
            }
        };
    }

    /// Returns the requests in the order in which they were made.
    #[must_use]
    pub fn finish(self) -> Vec<AnsweredRequest> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::{StartTurn, ToolStart};
    use aetheel_model::policy::{PolicyEffect, PolicyRuling};

    fn ask(key: AskKey) -> EntryKind {
        let tool = ToolStart {
            id: "t".into(),
            parent: None,
            kind: "bash".into(),
            native_name: "Bash".into(),
            title: "run".into(),
            target: Some("ls".into()),
            input: "{}".into(),
        };
        EntryKind::Out(Action::Ask(Ask {
            ask: key,
            session: 1,
            turn: 1,
            title: "May I?".into(),
            kind: AskKind::Permission(tool),
            always_label: None,
            options: Vec::new(),
            diffs: Vec::new(),
            changeable: false,
            parent: None,
            deadline_ms: None,
        }))
    }

    fn answer(ask: AskKey, decision: AskDecision) -> EntryKind {
        EntryKind::In(Input::Command(HostCommand::Answer(AskAnswer { ask, decision })))
    }

    #[test]
    fn the_answers_of_people_are_told_from_those_of_settings_and_policies() {
        let header = Header {
            aetheel_recording: 1,
            link: "l".into(),
            backend: "b".into(),
            backend_version: "1".into(),
            generation: 1,
            digest: String::new(),
            agent_version: None,
            started: String::new(),
        };
        let (turn, lane) = ("t1".to_owned(), "console".to_owned());
        let denied = |words: &str| AskDecision::Deny(Some(words.to_owned()));
        let (effect, votes) = (PolicyEffect::Deny, Vec::new());
        let ruling = PolicyRuling { ask: 5, effect, over_ceiling: false, votes };
        let start = HostCommand::StartTurn(StartTurn::plain("Hello", Safety::Edit));
        let entries = [
            EntryKind::Turn { turn, event: 1, lane, session: 1, key: 1 },
            EntryKind::In(Input::Command(start)),
            ask(1),
            answer(1, AskDecision::AllowAlways),
            ask(1),
            answer(1, denied("not now")),
            ask(2),
            answer(2, denied("by the settings")),
            ask(3),
            answer(3, AskDecision::Dismissed),
            ask(4),
            EntryKind::Out(Action::AskWithdrawn(4)),
            ask(5),
            EntryKind::Ruled(ruling),
            answer(5, denied("by a policy")),
        ];
        let mut reader = RequestReader::new(header, &["by the settings"]);
        for kind in entries {
            let line = serde_json::to_string(&RecordingEntry { t: 1.0, kind }).expect("JSON");
            assert!(RequestReader::is_relevant(&line), "{line}");
            reader.add(serde_json::from_str(&line).expect("an entry"));
        }
        let found = reader.finish();
        let outcomes: Vec<_> = found.iter().map(|request| request.outcome.clone()).collect();
        assert_eq!(
            outcomes,
            [
                RequestOutcome::Allowed,
                RequestOutcome::Denied(Some("not now".to_owned())),
                RequestOutcome::Automatic,
                RequestOutcome::Unanswered,
                RequestOutcome::Unanswered,
                RequestOutcome::Automatic,
            ]
        );
        assert_eq!((found[0].turn.as_str(), found[0].safety), ("t1", Safety::Edit));
    }
}
