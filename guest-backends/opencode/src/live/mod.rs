//! `opencode serve`: one server for all sessions and directories, spoken to over HTTP, listened to over server-sent events.
//!
//! Owns who waits for what: the server for its start ([`server`]), a turn for its session ([`session`]) and its end
//! ([`turn`]), a person for an answer ([`asks`]). `tests/live.rs` pins it over recorded dialogues.

mod asks;
mod events;
mod link;
mod queries;
mod replies;
mod saved;
mod server;
mod session;
mod turn;

use std::collections::BTreeMap;

use aetheel_backend_sdk::wit::{
    Action, Command, Failure, Input, Outcome, Query, StartTurn, Steer, SteerOutcome, Steered, TimedInput, TurnDone, TurnRef,
};
use aetheel_backend_sdk::{Backend, wit};

use self::asks::Open;
use self::link::{Link, Purpose, Wait};
use self::queries::Listing;
use self::server::Server;
use self::session::{Model, Session};
use self::turn::{Interrupt, Next};
use crate::{failure, prompt};

/// The backend with one server for everything.
#[derive(Debug, Default)]
pub struct Live {
    link: Link,
    server: Server,
    sessions: BTreeMap<u32, Session>,
    /// Sub-agents by their sessions: whose they are, and the tool use they are.
    children: BTreeMap<String, Child>,
    asks: BTreeMap<u32, Open>,
    /// The model of sessions for which none was chosen, by directory.
    defaults: BTreeMap<String, Model>,
    /// What was asked before the server was there.
    queries: Vec<Query>,
    listings: BTreeMap<u32, Listing>,
}

#[derive(Debug)]
struct Child {
    session: u32,
    tool: Option<String>,
}

impl Backend for Live {
    fn describe() -> String {
        include_str!("../descriptor.json").to_owned()
    }

    fn handle(&mut self, input: TimedInput, out: &mut Vec<Action>) -> Result<(), String> {
        match input.input {
            Input::Command(command) => self.command(command, out),
            Input::Spawned(_) => {}
            Input::SpawnFailed(failed) => self.spawn_failed(&failed, out),
            Input::Line(line) => self.line(&line, out),
            Input::Exited(exited) => self.exited(&exited, out),
            Input::HttpResponse(response) => self.response(&response, out),
            Input::HttpFailed(failed) => {
                if let Some(purpose) = self.link.answered(failed.request) {
                    let failure = failure::of_silence(replies::what(&purpose), &failed);
                    self.refused(&purpose, &failure, out);
                }
            }
            Input::StreamOpened(opened) => self.stream_opened(opened.stream, opened.status, out),
            Input::StreamEvent(event) if self.server.hears(event.stream) => self.event(&event.data, out),
            Input::StreamEvent(_) => {}
            Input::StreamClosed(closed) => self.stream_closed(closed.stream, closed.message, out),
            Input::Timer(timer) => self.elapsed(timer, out),
        }
        Ok(())
    }

    fn save(&self) -> Option<String> {
        self.to_save()
    }

    fn load(&mut self, state: &str, _saved_by: &str) -> Result<(), String> {
        *self = Self::saved(state)?;
        Ok(())
    }
}

impl Live {
    fn command(&mut self, command: Command, out: &mut Vec<Action>) {
        match command {
            Command::StartTurn(start) => self.start(start, out),
            Command::Steer(steer) => self.steer(&steer, out),
            Command::Interrupt(turn) => self.interrupt(turn, out),
            Command::Answer(answer) => self.answer(answer.ask, &answer.decision, out),
            Command::CloseSession(session) => {
                self.sessions.retain(|key, known| *key != session || known.turn.is_some());
                self.children.retain(|_, child| child.session != session);
            }
            Command::Query(query) => self.query(query, out),
            Command::Shutdown => self.shutdown(out),
        }
    }

    fn start(&mut self, start: StartTurn, out: &mut Vec<Action>) {
        let turn = TurnRef { session: start.session, turn: start.turn };
        let model = start.settings.model.as_deref().map(prompt::model);
        let unfit = if prompt::is_empty(&start.parts) {
            Some(prompt::nothing())
        } else if let Some(Err(failure)) = model {
            Some(failure)
        } else if start.native_id.as_deref().is_some_and(|id| !prompt::is_session(id)) {
            Some(failure::of(wit::FailureKind::SessionUnknown, "the session id is not one of OpenCode"))
        } else if self.sessions.get(&start.session).is_some_and(|session| session.turn.is_some()) {
            Some(failure::of(wit::FailureKind::Unsupported, "the session has a turn already"))
        } else {
            None
        };
        if let Some(failure) = unfit {
            out.push(failed(turn, failure));
            return;
        }
        self.sessions.entry(start.session).or_insert_with(|| Session::new(turn.session)).begin(start);
        if self.ready(out) {
            self.advance(turn.session, out);
        }
    }

    /// Brings a turn of a session nearer to its prompt; nothing to do once that is sent.
    fn advance(&mut self, session: u32, out: &mut Vec<Action>) {
        let Some(known) = self.sessions.get_mut(&session) else { return };
        if let Err(failure) = known.advance(self.defaults.get(&known.cwd), &mut self.link, out) {
            self.fail(session, failure, out);
        }
    }

    fn steer(&mut self, steer: &Steer, out: &mut Vec<Action>) {
        let turn = TurnRef { session: steer.session, turn: steer.turn };
        if let Some(session) = self.sessions.get_mut(&steer.session)
            && let (Some(open), Some(native)) = (&mut session.turn, &session.native)
            && open.name == turn
            && open.can_be_steered()
            && steer.delivery == wit::Delivery::Steer
            && !prompt::is_empty(&steer.parts)
        {
            let body = session::body(&steer.parts, &open.settings, open.model.as_ref());
            open.expected += 1;
            let path = format!("/session/{native}/prompt_async");
            self.link.http(("POST", &path), Some(&session.cwd), body, Purpose::Steer { turn, message: steer.message }, out);
        } else {
            out.push(steered(steer.message, SteerOutcome::NotNow));
        }
    }

    fn interrupt(&mut self, turn: TurnRef, out: &mut Vec<Action>) {
        let Some(open) = self.turn(turn) else { return };
        if open.waiting.is_some() {
            open.interrupt = Some(Interrupt::default());
            self.end(turn.session, out);
        } else if open.interrupt.is_none() {
            self.abort(turn, out);
            self.link.wait(turn, Wait::Grace, out);
        }
    }

    fn abort(&mut self, turn: TurnRef, out: &mut Vec<Action>) {
        let Some(session) = self.sessions.get_mut(&turn.session) else { return };
        if let (Some(open), Some(native)) = (&mut session.turn, &session.native)
            && open.abort()
        {
            self.link.http(("POST", &format!("/session/{native}/abort")), Some(&session.cwd), Vec::new(), Purpose::Abort(turn), out);
        }
    }

    fn elapsed(&mut self, timer: u32, out: &mut Vec<Action>) {
        let Some((turn, wait)) = self.link.elapsed(timer) else { return };
        let Some(open) = self.turn(turn) else { return };
        let stray = wait == Wait::Grace && !open.begun;
        if let Some(session) = self.sessions.get_mut(&turn.session) {
            session.stray |= stray;
        }
        self.end(turn.session, out);
    }

    /// Does what follows from something the server said of a turn.
    fn follow(&mut self, turn: TurnRef, next: Next, out: &mut Vec<Action>) {
        match next {
            Next::Nothing => {}
            Next::End => self.end(turn.session, out),
            Next::EndSoon(wait) => self.link.wait(turn, wait, out),
            Next::AbortAgain => self.abort(turn, out),
            Next::Recovered => {
                self.link.cancel(turn, Some(Wait::Error), out);
                self.link.cancel(turn, Some(Wait::Unanswered), out);
            }
        }
    }

    /// The open turn of that name.
    fn turn(&mut self, turn: TurnRef) -> Option<&mut turn::Turn> {
        self.sessions.get_mut(&turn.session)?.turn.as_mut().filter(|open| open.name == turn)
    }

    /// Ends the open turn of a session in the way it went.
    fn end(&mut self, session: u32, out: &mut Vec<Action>) {
        let Some(known) = self.sessions.get_mut(&session) else { return };
        let Some(turn) = known.turn.take() else { return };
        self.link.cancel(turn.name, None, out);
        asks::withdraw(&mut self.asks, session, out);
        self.children.retain(|_, child| child.session != session);
        turn.end(&mut known.past, out);
    }

    /// Ends the open turn of a session as failed.
    fn fail(&mut self, session: u32, failure: Failure, out: &mut Vec<Action>) {
        self.end_as(session, Outcome::Failed(failure), out);
    }

    fn end_as(&mut self, session: u32, outcome: Outcome, out: &mut Vec<Action>) {
        let Some(known) = self.sessions.get_mut(&session) else { return };
        let Some(turn) = known.turn.take() else { return };
        self.link.cancel(turn.name, None, out);
        asks::withdraw(&mut self.asks, session, out);
        self.children.retain(|_, child| child.session != session);
        let TurnRef { session, turn: key } = turn.name;
        out.push(Action::TurnDone(TurnDone { session, turn: key, outcome, text: None, usage: turn.parts.usage() }));
    }
}

fn failed(turn: TurnRef, failure: Failure) -> Action {
    Action::TurnDone(TurnDone { session: turn.session, turn: turn.turn, outcome: Outcome::Failed(failure), text: None, usage: None })
}

fn steered(message: u32, outcome: SteerOutcome) -> Action {
    Action::Steered(Steered { message, outcome })
}
