//! Handles the agent's answers, requests and notifications.

use aetheel_backend_sdk::failure;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::live::{Agent as _, LinkContext};
use aetheel_backend_sdk::rpc::Message;
use aetheel_backend_sdk::wit::{
    Action, AskKind, Decision, FailureKind, Line, Pipe, SteerOutcome, TurnRef,
};

use crate::abilities::Abilities;
use crate::agent::Agent;
use crate::client::{Asked, Call, Client, Wants};
use crate::elicitation::{self, Elicitation};
use crate::failure;
use crate::host_tools;
use crate::permission::{CANCELLED, Options};
use crate::query;

impl<A: Agent> Client<A> {
    /// Handles a line of output. Stderr is ignored, because all agents write only warnings and
    /// traces to it.
    pub(crate) fn said(&mut self, line: &Line, context: &mut LinkContext) {
        let text = line.text.trim();
        if line.pipe == Pipe::Stderr || text.is_empty() {
            return;
        }
        match json::parse(text) {
            Ok(Value::Array(messages)) => {
                messages.iter().for_each(|message| self.message(message, context))
            }
            Ok(message @ Value::Object(_)) => self.message(&message, context),
            _ if line.truncated => context.unrecognised("line longer than the limit", None, text),
            _ => context.unrecognised("line that is not a JSON object", None, text),
        }
    }

    fn message(&mut self, message: &Value, context: &mut LinkContext) {
        match self.calls.sort(message) {
            Message::Response(call, result) => self.response(call, result, context),
            Message::Request(id, method, params) => self.request(&id, method, params, context),
            Message::Notification(method, params) => self.notification(method, params, context),
            Message::Stray(_) => {
                context.unrecognised("answer without a request", Some("id"), &message.to_string())
            }
            Message::Other => context.unrecognised(
                "message without a method and an id",
                None,
                &message.to_string(),
            ),
        }
    }

    fn response(&mut self, call: Call, result: Result<&Value, &Value>, context: &mut LinkContext) {
        match call {
            Call::Initialize => self.initialized(result, context),
            Call::Authenticate(session) => match result {
                Ok(_) => self.reopen(session),
                Err(error) => self.not_opened(
                    session,
                    failure(FailureKind::Authentication, failure::message(error)),
                    context,
                ),
            },
            Call::Open(session, how) => self.opened(session, how, result, context),
            Call::Close(session) => self.reopen(session),
            Call::Set(session, turn, what, value) => {
                self.set(TurnRef { session, turn }, what, &value, result, context)
            }
            Call::Prompt(session, turn) => {
                self.prompted(TurnRef { session, turn }, result, context)
            }
            Call::Steer(message) => {
                let outcome = match result.ok().and_then(|result| result.text("outcome")) {
                    Some("injected") => SteerOutcome::Injected,
                    // The agent runs the message as a turn of its own.
                    Some("startedNewTurn") => SteerOutcome::Queued,
                    _ => SteerOutcome::NotNow,
                };
                context.steered(message, outcome);
            }
            Call::List(query) => context.answer(query, query::listed(result)),
            Call::Other => {}
        }
    }

    fn initialized(&mut self, result: Result<&Value, &Value>, context: &mut LinkContext) {
        let why = match result
            .map(|result| (result, result.count("protocolVersion").filter(|version| *version != 1)))
        {
            Ok((result, None)) => {
                self.can = Abilities::read(result);
                self.greeted = true;
                return context.ready();
            }
            Ok((_, Some(version))) => {
                let message = format!(
                    "the agent speaks version {version} of the Agent Client Protocol, this backend version 1"
                );
                failure(FailureKind::Protocol, message)
            }
            Err(error) => failure::failure(error),
        };
        context.action(Action::CloseStdin(context.proc()));
        context.give_up(why);
    }

    fn prompted(
        &mut self,
        turn: TurnRef,
        result: Result<&Value, &Value>,
        context: &mut LinkContext,
    ) {
        let open = self
            .sessions
            .get_mut(&turn.session)
            .and_then(|session| session.turn.as_mut())
            .filter(|open| open.key == turn);
        if let Some(outcome) = open.and_then(|open| open.answered(result, &mut context.emit(turn)))
        {
            self.finish(turn, outcome, context);
        }
    }

    fn request(&mut self, id: &str, method: &str, params: &Value, context: &mut LinkContext) {
        if !context.is_ready() {
            return;
        }
        let proc = context.proc();
        if method == "elicitation/create" {
            return self.elicit(id, params, context);
        }
        if method != "session/request_permission" {
            return self.calls.error(
                proc,
                id,
                -32601,
                "method not found: the client does not support it",
                context.out(),
            );
        }
        let open = self
            .key_of(params)
            .and_then(|key| self.sessions.get_mut(&key))
            .and_then(|session| Some((session.turn.as_mut()?, &session.cwd)));
        let Some((turn, cwd)) = open.filter(|(turn, _)| turn.runs()) else {
            return self.calls.result(proc, id, CANCELLED, context.out());
        };
        let call = &params["toolCall"];
        let tool = call.text("toolCallId").unwrap_or_default().to_owned();
        let key = turn.key;
        let known = turn.learn(&tool, call, &mut context.emit(key));
        let (start, claude_name) = (known.start.clone(), known.claude_name.clone());
        // claude-agent-acp 0.49.0 asks for permission to leave its plan mode as a tool use.
        let plan =
            call["rawInput"].text("plan").filter(|_| call.text("kind") == Some("switch_mode"));
        let options = Options::read(params);
        let granted = turn.may_everything()
            || host_tools::is_one_of(claude_name.as_deref(), &turn.host_tools)
            || (turn.may_edit() && call.text("kind") == Some("edit") && within(call, cwd));
        if granted && options.allows_once() {
            // The agent has no mode for the level, or asks despite its mode.
            return self.calls.result(
                proc,
                id,
                &options.result(&Decision::AllowOnce),
                context.out(),
            );
        }
        if turn.only_looks() && !looks(call) && start.kind != "todo" {
            // Not every agent enforces this itself: some have no planning mode, or one without
            // restrictions.
            turn.denied(&tool);
            turn.held_back = true;
            context.emit(key).notice(format!("not done while only planning: {}", start.title));
            return self.calls.result(
                proc,
                id,
                &options.result(&Decision::Deny(None)),
                context.out(),
            );
        }
        let kind = plan.map_or_else(
            || AskKind::Permission(start.clone()),
            |plan| AskKind::PlanApproval(plan.to_owned()),
        );
        let wants = Wants::Permission { tool, options, plan: plan.is_some() };
        let asked = Asked { id: id.to_owned(), session: key.session, wants };
        self.ask(key, start.title, kind, asked, context);
    }

    /// Handles a question of the agent. Without a turn, nobody can be asked.
    fn elicit(&mut self, id: &str, params: &Value, context: &mut LinkContext) {
        let turn = self.key_of(params).and_then(|key| self.sessions.get(&key)?.turn.as_ref());
        let turn = turn.filter(|turn| turn.runs()).map(|turn| turn.key);
        match (turn, Elicitation::read(params)) {
            (Some(turn), Some((elicitation, title, kind))) => {
                let wants = Wants::Elicitation(elicitation);
                let asked = Asked { id: id.to_owned(), session: turn.session, wants };
                self.ask(turn, title, kind, asked, context);
            }
            _ => self.calls.result(context.proc(), id, elicitation::CANCELLED, context.out()),
        }
    }

    /// Withdraws a request whose answer the agent no longer needs.
    fn cancelled(&mut self, id: &str, context: &mut LinkContext) {
        let mut answer = None;
        self.asked.withdraw(
            |asked| {
                let fits = asked.id == id;
                if fits {
                    answer = Some(asked.wants.cancelled());
                }
                fits
            },
            context.out(),
        );
        if let Some(answer) = answer {
            self.calls.result(context.proc(), id, answer, context.out());
        }
    }

    fn notification(&mut self, method: &str, params: &Value, context: &mut LinkContext) {
        match method {
            "session/update" => {
                let Some(session) = self.key_of(params).and_then(|key| self.sessions.get_mut(&key))
                else {
                    if params.text("sessionId").is_none() {
                        let (what, raw) = ("session update without a session", params.to_string());
                        context.unrecognised(what, Some("params.sessionId"), &raw);
                    }
                    return;
                };
                let update = &params["update"];
                session.update(update);
                // Other updates are history or do not belong to a turn.
                if let Some(turn) = session.turn.as_mut().filter(|turn| turn.prompts > 0) {
                    turn.update(context.now(), update, &self.agent, &mut context.emit(turn.key));
                }
            }
            "$/cancel_request" if context.is_ready() => {
                self.cancelled(&params["requestId"].to_string(), context)
            }
            // The person who opened the address answers.
            "elicitation/complete" => {}
            // Extensions (`_auth/status_update` of codex-acp 2.6.0) and protocol-level
            // notifications.
            _ if method.starts_with('_') || method.starts_with("$/") => {}
            _ => {
                let (what, raw) = (format!("notification {method:?}"), params.to_string());
                match self.key_of(params).and_then(|key| context.turn_of(key)) {
                    Some(turn) => {
                        context.emit(turn).unrecognised(what, Some("method".to_owned()), &raw)
                    }
                    None => context.unrecognised(what, Some("method"), &raw),
                }
            }
        }
    }
}

/// Returns whether a tool use only reads or leaves the plan mode. A tool use without a kind may do
/// anything.
fn looks(call: &Value) -> bool {
    matches!(call.text("kind"), Some("read" | "search" | "fetch" | "think" | "switch_mode"))
}

/// Returns whether all files of an edit are in the folder `cwd`.
fn within(call: &Value, cwd: &str) -> bool {
    let locations = call.list("locations").iter().map(|at| at.text("path"));
    let diffs = call
        .list("content")
        .iter()
        .filter(|piece| piece.text("type") == Some("diff"))
        .map(|piece| piece.text("path"));
    let mut paths = locations.chain(diffs).peekable();
    let inside = |path: Option<&str>| {
        let below = path.and_then(|path| path.strip_prefix(cwd)?.strip_prefix('/'));
        below.is_some_and(|below| below.split('/').all(|step| step != ".."))
    };
    paths.peek().is_some() && paths.all(inside)
}
