//! Serves the requests that arrive at a link: of drivers about their turns, and about the link.

use super::{LinkTask, TurnCounters};
use crate::link::sessions::LinkSession;
use crate::link::turns::OpenTurn;
use crate::link::{Begin, LinkQuery, LinkReport, LinkRequest};
use aetheel_model::agent::{
    AgentQuery, AskAnswer, AskDecision, AskKey, HostCommand, Input, StartTurn, Steer, TurnRef,
};
use aetheel_model::event::Lane;
use aetheel_recording::EntryKind;

impl LinkTask {
    pub(super) async fn serve(&mut self, request: LinkRequest) {
        match request {
            LinkRequest::Begin(begin) => self.begin(*begin),
            LinkRequest::Interrupt(turn) if self.turns.contains(turn) => {
                if self.guest.is_err() {
                    // Without a guest, nothing can ask the agent to interrupt the turn.
                    return self.give_up(turn);
                }
                if self.is_one_shot() {
                    self.closing.interrupt();
                }
                self.recording.host(EntryKind::Host("interrupting".to_owned()));
                self.input(Input::Command(HostCommand::Interrupt(turn)));
            }
            LinkRequest::GiveUp(turn) if self.turns.contains(turn) => self.give_up(turn),
            LinkRequest::Answer(ask, decision) => self.answer(ask, decision),
            LinkRequest::Ruled(ruling) => self.recording.host(EntryKind::Ruled(ruling)),
            LinkRequest::Steer(turn, parts, reply_tx) if self.turns.is_running(turn) => {
                let steer = Steer {
                    session: turn.session,
                    turn: turn.turn,
                    message: self.replies.steer(reply_tx),
                    parts,
                    fresh_id: uuid::Uuid::new_v4().to_string(),
                };
                self.input(Input::Command(HostCommand::Steer(steer)));
            }
            LinkRequest::End(turn, ending) => self.end(turn, ending),
            LinkRequest::Query(query) => self.query(query),
            LinkRequest::CloseSession(session) => {
                if self.turns.sessions.close(session) {
                    self.calls.session_closes(session);
                    self.input(Input::Command(HostCommand::CloseSession(session)));
                }
            }
            LinkRequest::Renew(backend, reply_tx) => {
                let _ = reply_tx.send(self.renew(backend).await);
            }
            LinkRequest::Retire => self.retire(),
            // The turn of these requests has already ended.
            LinkRequest::Interrupt(_) | LinkRequest::GiveUp(_) | LinkRequest::Steer(..) => {}
        }
    }

    fn begin(&mut self, begin: Begin) {
        let Begin { id, event, lane, mut start, blobs, reports } = begin;
        if !self.closing.is_ending() && self.files.is_missing() {
            tracing::warn!("the agent's private folder is gone; the turn gets another agent");
            self.retire();
        }
        if self.closing.is_ending() {
            let _ = reports.send(LinkReport::Refused);
            return;
        }
        let turn = TurnRef { session: start.session, turn: start.turn };
        // The link accepts the turn. The driver's time limits begin here.
        let _ = reports.send(LinkReport::Active);
        self.recording.host(EntryKind::Turn {
            turn: id.clone(),
            event,
            lane: lane.to_string(),
            session: turn.session,
            key: turn.turn,
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
        self.body_sources.add_blobs(turn.turn, blobs);
        self.open_turn(OpenTurn { turn, id, event, reports, done: false }, lane, &start);
        start.agent_version.clone_from(&self.agent_version);
        self.renew_span();
        self.input(Input::Command(HostCommand::StartTurn(start)));
    }

    /// Adds a turn that begins, or that began before a restart of the gateway.
    pub(super) fn open_turn(&mut self, open: OpenTurn, lane: Lane, start: &StartTurn) {
        if self.turns.is_empty() {
            self.ledger.clear();
            self.state.set_output(false);
        }
        self.agent_version = self.deps.host.agent_version(self.name());
        self.calls.turn_begins(open.turn, &start.tools);
        self.turns.begin(open, LinkSession::of(lane, start));
        self.state.set_turns(self.turns.len());
        self.counters = TurnCounters::default();
        self.processes.turn_begins();
        self.closing.turn_begins();
    }

    /// Removes a turn that the driver has finished.
    pub(super) fn end(&mut self, turn: TurnRef, ending: String) {
        let Some(open) = self.turns.end(turn.turn) else { return };
        self.end_calls(turn);
        self.renew_span();
        self.recording.host(EntryKind::Ending { turn: open.id, how: ending });
        self.body_sources.forget_blobs(turn.turn);
        self.ack_recorded();
        self.checkpoints.request();
        if open.done {
            self.turn_ended();
        } else {
            if self.turns.is_empty() {
                // The driver was dropped in the middle of the turn, for example by a panic. The
                // agent must not continue.
                self.processes.kill();
            }
            self.retire();
        }
    }

    fn answer(&mut self, ask: AskKey, decision: AskDecision) {
        if self.answer_call(ask, &decision) {
            return;
        }
        let Some(secrets) = self.turns.close_ask(ask) else { return };
        if let AskDecision::Answers(answers) = &decision {
            let secret = answers.iter().filter(|(id, _)| secrets.contains(id));
            self.recording.hide(secret.flat_map(|(_, words)| words));
        }
        self.input(Input::Command(HostCommand::Answer(AskAnswer { ask, decision })));
    }

    fn query(&mut self, query: LinkQuery) {
        let LinkQuery { session, kind, reply_tx } = query;
        let query = self.replies.query(session, reply_tx);
        self.closing.used(self.deps.host.limits.link_idle);
        self.input(Input::Command(HostCommand::Query(AgentQuery { query, session, kind })));
    }
}
