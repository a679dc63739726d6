//! Serves the requests that arrive at a link: of drivers about their turns, and about the link.

use super::LinkTask;
use crate::link::{Begin, LinkQuery, LinkReport, LinkRequest};
use aetheel_model::agent::{
    AgentQuery, AskAnswer, AskDecision, AskKey, HostCommand, Input, Steer, TurnRef,
};
use aetheel_recording::EntryKind;

impl LinkTask {
    pub(super) async fn serve(&mut self, request: LinkRequest) {
        let turns = &self.machine.turns;
        match request {
            LinkRequest::Begin(begin) => self.begin(*begin),
            LinkRequest::Interrupt(turn) if turns.contains(turn) => {
                if self.guest.is_err() {
                    // Without a guest, nothing can ask the agent to interrupt the turn.
                    return self.machine.give_up(self.recording.now(), turn);
                }
                self.recording.host(EntryKind::Host("interrupting".to_owned()));
                self.input(Input::Command(HostCommand::Interrupt(turn)));
            }
            LinkRequest::GiveUp(turn) if turns.contains(turn) => {
                self.machine.give_up(self.recording.now(), turn);
            }
            LinkRequest::Answer(ask, decision) => self.answer(ask, decision),
            LinkRequest::Ruled(ruling) => self.record(EntryKind::Ruled(ruling)),
            LinkRequest::Steer(turn, parts, reply_tx) if turns.is_running(turn) => {
                let message = self.machine.replies.next();
                self.replies.steers.insert(message, reply_tx);
                let steer = Steer {
                    session: turn.session,
                    turn: turn.turn,
                    message,
                    parts,
                    fresh_id: uuid::Uuid::new_v4().to_string(),
                };
                self.input(Input::Command(HostCommand::Steer(steer)));
            }
            LinkRequest::End(turn, ending) => self.end(turn, ending),
            LinkRequest::Query(LinkQuery { session, kind, reply_tx }) => {
                let query = self.machine.replies.next();
                self.replies.queries.insert(query, reply_tx);
                self.input(Input::Command(HostCommand::Query(AgentQuery { query, session, kind })));
            }
            LinkRequest::CloseSession(session) => {
                if turns.sessions.get(session).is_some() {
                    self.input(Input::Command(HostCommand::CloseSession(session)));
                }
            }
            LinkRequest::Renew(backend, reply_tx) => {
                let _ = reply_tx.send(self.renew(backend).await);
            }
            LinkRequest::Retire => self.machine.retire(self.recording.now()),
            // The turn of these requests has already ended.
            LinkRequest::Interrupt(_) | LinkRequest::GiveUp(_) | LinkRequest::Steer(..) => {}
        }
    }

    fn begin(&mut self, begin: Begin) {
        let Begin { id, event, lane, mut start, blobs, reports } = begin;
        if !self.machine.closing.is_ending() && self.io.files.is_missing() {
            tracing::warn!("the agent's private folder is gone; the turn gets another agent");
            self.machine.retire(self.recording.now());
        }
        if self.machine.closing.is_ending() {
            let _ = reports.send(LinkReport::Refused);
            return;
        }
        // The link accepts the turn. The driver's time limits begin here.
        let _ = reports.send(LinkReport::Active);
        self.replies.add_turn(start.turn, reports);
        self.record(EntryKind::Turn {
            turn: id,
            event,
            lane: lane.to_string(),
            session: start.session,
            key: start.turn,
        });
        for blob in &blobs {
            // The contents are private and large, so only their digest is recorded.
            self.recording.host(EntryKind::Host(format!(
                "blob {}: {} bytes, sha256 {}",
                blob.key,
                blob.bytes.len(),
                blob.digest()
            )));
        }
        self.io.body_sources.add_blobs(start.turn, blobs);
        (self.usage.action_bytes, self.usage.calls) = (0, 0);
        self.log.turn_begins();
        self.log.renew_span(&self.deps, &self.machine.turns);
        start.agent_version = self.deps.agent_version();
        self.input(Input::Command(HostCommand::StartTurn(start)));
    }

    /// Removes a turn that the driver has finished.
    pub(super) fn end(&mut self, turn: TurnRef, ending: String) {
        self.replies.remove_turn(turn.turn);
        let Some(id) = self.machine.turns.id(turn.turn) else { return };
        self.record(EntryKind::Ending { turn: id, how: ending });
        self.log.renew_span(&self.deps, &self.machine.turns);
        self.io.body_sources.forget_blobs(turn.turn);
        self.io.ack_recorded(&self.machine, &self.recording);
        self.checkpoints.request();
        if self.machine.turns.is_empty() && self.recording.should_rotate() {
            self.machine.retire(self.recording.now());
        }
    }

    fn answer(&mut self, ask: AskKey, decision: AskDecision) {
        if self.machine.calls.answer(ask, &decision, &mut self.machine.turns) {
            return;
        }
        let Some(open) = self.machine.turns.asks.get(&ask) else { return };
        if let AskDecision::Answers(answers) = &decision {
            let secret = answers.iter().filter(|(id, _)| open.secrets.contains(id));
            self.recording.hide(secret.flat_map(|(_, words)| words));
        }
        self.input(Input::Command(HostCommand::Answer(AskAnswer { ask, decision })));
    }
}
