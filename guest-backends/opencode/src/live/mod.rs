//! `opencode serve`: one server for all sessions and directories, with HTTP requests and
//! server-sent events.
//!
//! The SDK manages the process, the open turns, and queries that wait for the server. The other
//! modules handle the server's start and event stream ([`server`]), sessions ([`session`]), turns
//! ([`turn`]) and questions ([`asks`]). `tests/live.rs` tests recorded dialogues.

mod asks;
mod compaction;
mod events;
mod link;
mod queries;
mod replies;
mod saved;
mod server;
mod session;
mod turn;

use std::collections::BTreeMap;

use aetheel_backend_sdk::live::{self, Agent, LinkContext, Step};
use aetheel_backend_sdk::wit::{
    Action, Answer, Failure, FailureKind, Input, Line, Outcome, Query, Signal, Spawn, StartTurn,
    Steer, SteerOutcome, Stop, TurnRef,
};
use aetheel_backend_sdk::{TurnResult, failure};

use self::asks::Open;
use self::link::{Link, Purpose, Wait};
use self::queries::Listing;
use self::server::Stream;
use self::session::{Model, Session};
use self::turn::{Next, Turn};
use crate::{failure, prompt};

/// The backend with one server for all sessions.
pub type Live = live::Live<OpenCode>;

/// The state of a link with `opencode serve`.
#[derive(Debug, Default)]
pub struct OpenCode {
    link: Link,
    /// The server's event stream, after the health check.
    stream: Option<Stream>,
    sessions: BTreeMap<u32, Session>,
    /// Sub-agents by the ids of their sessions.
    children: BTreeMap<String, Child>,
    asks: BTreeMap<u32, Open>,
    /// The default model by directory, from sessions without a selected model.
    defaults: BTreeMap<String, Model>,
    listings: BTreeMap<u32, Listing>,
}

#[derive(Debug)]
struct Child {
    session: u32,
    tool: Option<String>,
}

impl Agent for OpenCode {
    const NAME: &'static str = "OpenCode's server";
    /// The server exits at once when it is terminated (1.18.33), and does not read stdin.
    const LEAVE_MS: u32 = 0;
    const GRACE_MS: u32 = 3000;
    const SHARED: bool = true;

    fn describe() -> String {
        include_str!("../descriptor.json").to_owned()
    }

    fn accept(&mut self, start: &StartTurn, _: &mut LinkContext) -> Result<(), Failure> {
        if prompt::is_empty(&start.parts) {
            return Err(prompt::nothing());
        }
        start.settings.model.as_deref().map(prompt::model).transpose()?;
        if start.native_id.as_deref().is_some_and(|id| !prompt::is_session(id)) {
            return Err(failure(
                FailureKind::SessionUnknown,
                "the session id is not one of OpenCode",
            ));
        }
        self.sessions
            .entry(start.session)
            .or_insert_with(|| Session::new(start.session))
            .begin(start);
        Ok(())
    }

    fn launch(&mut self, _: Option<&StartTurn>, _: &mut LinkContext) -> Result<Spawn, Failure> {
        // The process also counts as a key.
        self.link.key();
        Ok(server::plan())
    }

    /// Does nothing: the health check is sent when the server reports that it listens, see
    /// [`server`].
    fn spawned(&mut self, _: Option<String>, _: &mut LinkContext) {}

    fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        let Some(known) = self.sessions.get_mut(&start.session) else { return Step::Wait };
        known.advance(start, self.defaults.get(&known.cwd), &mut self.link, context)
    }

    fn line(&mut self, line: Line, context: &mut LinkContext) {
        self.said(&line, context);
    }

    fn finish(&mut self, turn: TurnRef, outcome: Outcome, context: &mut LinkContext) {
        self.link.cancel(turn, None, context.out());
        asks::withdraw(&mut self.asks, turn.session, context.out());
        self.children.retain(|_, child| child.session != turn.session);
        let result = match self
            .sessions
            .get_mut(&turn.session)
            .and_then(|known| Some((known.turn.take()?, &mut known.past)))
        {
            Some((open, past)) => open.end(outcome, past),
            None => TurnResult { outcome, text: None, usage: None },
        };
        context.end(turn, result);
    }

    fn interrupt(&mut self, turn: TurnRef, context: &mut LinkContext) {
        if self.turn(turn).is_some_and(|open| open.interrupt.is_none()) {
            self.abort(turn, context);
            self.link.wait(turn, Wait::Grace, context.out());
        }
    }

    fn steer(&mut self, steer: Steer, context: &mut LinkContext) {
        let turn = TurnRef { session: steer.session, turn: steer.turn };
        if let Some(session) = self.sessions.get_mut(&steer.session)
            && let (Some(open), Some(native)) = (&mut session.turn, &session.native)
            && open.name == turn
            && open.can_be_steered()
            && !prompt::is_empty(&steer.parts)
        {
            let body = session::body(&steer.parts, &open.settings, open.model.as_ref());
            open.expected += 1;
            let path = format!("/session/{native}/prompt_async");
            self.link.http(
                ("POST", &path),
                Some(&session.cwd),
                body,
                Purpose::Steer { turn, message: steer.message },
                context,
            );
        } else {
            context.steered(steer.message, SteerOutcome::NotNow);
        }
    }

    fn answer(&mut self, Answer { ask, decision }: Answer, context: &mut LinkContext) {
        self.answered(ask, &decision, context);
    }

    fn query(&mut self, query: Query, context: &mut LinkContext) {
        self.queried(query, context);
    }

    /// Removes a session. The server continues for the other sessions.
    fn close(&mut self, session: u32, context: &mut LinkContext) {
        if context.turn_of(session).is_none()
            && let Some(mut known) = self.sessions.remove(&session)
        {
            known.close(&mut self.link, context);
        }
        self.children.retain(|_, child| child.session != session);
    }

    fn shutdown(&mut self, context: &mut LinkContext) {
        for &proc in self.listings.keys() {
            context.action(Action::Stop(Stop {
                proc,
                signal: Signal::Terminate,
                grace_ms: Self::GRACE_MS,
            }));
        }
        context.leave();
    }

    fn forget(&mut self, why: &Failure, context: &mut LinkContext) {
        self.stream = None;
        let mut open_queries = Vec::new();
        for purpose in self.link.forget() {
            match purpose {
                Purpose::Query { query, .. } => {
                    open_queries.push(query);
                    context.refuse(query, why.clone());
                }
                Purpose::Steer { message, .. } => context.steered(message, SteerOutcome::Dropped),
                _ => {}
            }
        }
        for known in self.sessions.values_mut() {
            if let Some(open) =
                known.compaction.take().filter(|open| !open_queries.contains(&open.query()))
            {
                context.refuse(open.query(), why.clone());
            }
            known.orphaned();
        }
    }

    fn timer(&mut self, timer: u32, context: &mut LinkContext) {
        let Some((turn, wait)) = self.link.elapsed(timer) else { return };
        let Some(open) = self.turn(turn) else { return };
        let stray = wait == Wait::Grace && !open.begun;
        if let Some(session) = self.sessions.get_mut(&turn.session) {
            session.stray |= stray;
        }
        self.end(turn, context);
    }

    fn other(&mut self, input: Input, context: &mut LinkContext) {
        match input {
            Input::HttpResponse(response) => self.response(&response, context),
            Input::HttpFailed(failed) => self.unanswered(&failed, context),
            Input::StreamOpened(opened) => {
                self.stream_opened(opened.stream, opened.status, context)
            }
            Input::StreamEvent(event) if self.accepts_event(event.stream) => {
                self.event(&event.data, context)
            }
            Input::StreamClosed(closed) => {
                self.stream_closed(closed.stream, closed.message, context)
            }
            Input::Line(line) => self.listed(&line),
            Input::SpawnFailed(failed) => self.not_listed(failed, context),
            Input::Exited(exited) => self.all_listed(&exited, context),
            _ => {}
        }
    }

    fn save(&self, proc: u32) -> Option<String> {
        self.to_save(proc)
    }

    fn load(&mut self, state: &str, _: &str) -> Result<u32, String> {
        let proc;
        (*self, proc) = Self::saved(state)?;
        Ok(proc)
    }
}

impl OpenCode {
    fn abort(&mut self, turn: TurnRef, context: &mut LinkContext) {
        let Some(session) = self.sessions.get_mut(&turn.session) else { return };
        if let (Some(open), Some(native)) = (&mut session.turn, &session.native)
            && open.abort()
        {
            self.link.http(
                ("POST", &format!("/session/{native}/abort")),
                Some(&session.cwd),
                Vec::new(),
                Purpose::Abort(turn),
                context,
            );
        }
    }

    /// Performs the next step after an event of a turn.
    fn follow(&mut self, turn: TurnRef, next: Next, context: &mut LinkContext) {
        match next {
            Next::Nothing => {}
            Next::End => self.end(turn, context),
            Next::EndSoon(wait) => self.link.wait(turn, wait, context.out()),
            Next::AbortAgain => self.abort(turn, context),
            Next::Recovered => {
                self.link.cancel(turn, Some(Wait::Error), context.out());
                self.link.cancel(turn, Some(Wait::Unanswered), context.out());
            }
        }
    }

    /// Returns the turn if its prompt was sent.
    fn turn(&mut self, turn: TurnRef) -> Option<&mut Turn> {
        self.sessions.get_mut(&turn.session)?.turn.as_mut().filter(|open| open.name == turn)
    }

    /// Ends a turn with its outcome.
    fn end(&mut self, turn: TurnRef, context: &mut LinkContext) {
        if let Some(outcome) = self.turn(turn).map(|open| open.outcome()) {
            self.finish(turn, outcome, context);
        }
    }

    /// Ends the open turn of a session as failed.
    fn fail(&mut self, session: u32, failure: Failure, context: &mut LinkContext) {
        if let Some(turn) = context.turn_of(session) {
            self.finish(turn, Outcome::Failed(failure), context);
        }
    }
}
