//! What the agent sends: answers, requests, notifications.

use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::rpc::Message;
use aetheel_backend_sdk::text::head;
use aetheel_backend_sdk::wit::{
    Action, AskKind, Decision, Diagnostic, FailureKind, Level, Line, Mode, Pipe, Safety, SteerOutcome, Steered, TurnRef,
};
use aetheel_backend_sdk::{Emit, failure};

use crate::agent::Agent;
use crate::client::{Abilities, Asked, Call, Client, Process, Steering};
use crate::config::{Config, What};
use crate::failure;
use crate::permission::{CANCELLED, Options};
use crate::session::{How, Stage};
use crate::spent::Meter;

impl<A: Agent> Client<A> {
    /// Takes a line of output in. Stderr is for logs: all agents put warnings and traces there.
    pub(crate) fn line(&mut self, line: &Line, out: &mut Vec<Action>) {
        let text = line.text.trim();
        if line.pipe == Pipe::Stderr || text.is_empty() {
            return;
        }
        match json::parse(text) {
            Ok(Value::Array(messages)) => messages.iter().for_each(|message| self.message(message, out)),
            Ok(message @ Value::Object(_)) => self.message(&message, out),
            _ if line.truncated => self.unknown(None, "line longer than the limit", None, text, out),
            _ => self.unknown(None, "line that is not a JSON object", None, text, out),
        }
    }

    fn message(&mut self, message: &Value, out: &mut Vec<Action>) {
        match self.calls.sort(message) {
            Message::Response(call, result) => self.response(call, result, out),
            Message::Request(id, method, params) => self.request(&id, method, params, out),
            Message::Notification(method, params) => self.notification(method, params, out),
            Message::Stray(_) => self.unknown(None, "answer to nothing that was asked", Some("id"), &message.to_string(), out),
            Message::Other => self.unknown(None, "message without a method and an id", None, &message.to_string(), out),
        }
    }

    fn response(&mut self, call: Call, result: Result<&Value, &Value>, out: &mut Vec<Action>) {
        match call {
            Call::Initialize => self.initialized(result, out),
            Call::Authenticate(session) => match result {
                Ok(_) => {
                    if let Some(session) = self.sessions.get_mut(&session) {
                        session.stage = Stage::Closed;
                    }
                    self.advance(session, out);
                }
                Err(error) => self.not_opened(session, failure(FailureKind::Authentication, failure::message(error)), out),
            },
            Call::Open(session, how) => self.opened(session, how, result, out),
            // Whether it could be closed or not, it can be opened anew.
            Call::Close(key) => {
                if let Some(session) = self.sessions.get_mut(&key).filter(|session| session.stage == Stage::Closing) {
                    session.stage = Stage::Closed;
                }
                self.advance(key, out);
            }
            Call::Set(session, turn, what, value) => self.set(session, turn, what, &value, result, out),
            Call::Prompt(session, turn) => self.prompted(session, turn, result, out),
            Call::Steer(message) => {
                let outcome = match result.ok().and_then(|result| result.text("outcome")) {
                    Some("injected") => SteerOutcome::Injected,
                    // It runs as a turn nobody waits for; not asked for by us.
                    Some("startedNewTurn") => SteerOutcome::Queued,
                    _ => SteerOutcome::NotNow,
                };
                out.push(Action::Steered(Steered { message, outcome }));
            }
            Call::List(query) => self.listed(query, result, out),
            Call::Delete(query) => self.deleted(query, result, out),
            Call::Other => {}
        }
    }

    fn initialized(&mut self, result: Result<&Value, &Value>, out: &mut Vec<Action>) {
        let Process::Starting(proc) = self.process else { return };
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                self.fail_all(&failure::failure(error), out);
                self.leave(out);
                return;
            }
        };
        if let Some(version) = result.count("protocolVersion").filter(|version| *version != 1) {
            let message = format!("the agent speaks version {version} of the Agent Client Protocol, this backend version 1");
            self.fail_all(&failure(FailureKind::Protocol, message), out);
            self.leave(out);
            return;
        }
        self.can = abilities(result);
        self.process = Process::Ready(proc);
        let keys: Vec<u32> = self.sessions.keys().copied().collect();
        for key in keys {
            self.advance(key, out);
        }
        for query in std::mem::take(&mut self.queries) {
            self.query(query, out);
        }
    }

    fn opened(&mut self, key: u32, how: How, result: Result<&Value, &Value>, out: &mut Vec<Action>) {
        let Some(session) = self.sessions.get_mut(&key).filter(|session| session.stage == Stage::Opening) else { return };
        let result = match result {
            Ok(result) => result,
            Err(error) if failure::wants_sign_in(error) => {
                self.sign_in(key, error, out);
                return;
            }
            // It said that it can, and has no such method.
            Err(error) if how == How::Resume && self.can.load && error.number("code") == Some(-32601.0) => {
                session.stage = Stage::Closed;
                self.can.resume = false;
                self.advance(key, out);
                return;
            }
            Err(error) => {
                let failure = if how == How::New { failure::failure(error) } else { failure::open_failure(error) };
                self.not_opened(key, failure, out);
                return;
            }
        };
        if matches!(how, How::New | How::Fork) {
            session.native = result.text("sessionId").map(str::to_owned);
            session.called = session.native.clone().unwrap_or_default();
            session.fork = false;
            session.told = false;
        }
        if session.native.is_none() {
            self.not_opened(key, failure(FailureKind::Protocol, "the agent opened a session without telling its id"), out);
            return;
        }
        session.config = Config::read(result);
        if how == How::New {
            session.meter = Meter::new();
        }
        let stage = if how == How::Load { self.settle(out) } else { Stage::Ready };
        if let Some(session) = self.sessions.get_mut(&key) {
            session.stage = stage;
        }
        self.advance(key, out);
    }

    /// Signs in without a person where there is a way, once; else says what has to be done.
    fn sign_in(&mut self, key: u32, error: &Value, out: &mut Vec<Action>) {
        let method = self.agent.sign_in().map(str::to_owned);
        if let (Some(session), Some(method), Process::Ready(proc)) = (self.sessions.get_mut(&key), method, self.process)
            && !session.signed_in
        {
            session.signed_in = true;
            let params = serde_json::json!({ "methodId": method }).to_string();
            self.calls.request(proc, "authenticate", &params, Call::Authenticate(key), out);
            return;
        }
        let ways = if self.can.sign_ins.is_empty() { String::new() } else { format!(" (it offers: {})", self.can.sign_ins.join(", ")) };
        let message = format!("the agent is not signed in: {}; sign in with its own program or set its key{ways}", failure::message(error));
        self.not_opened(key, failure(FailureKind::Authentication, message), out);
    }

    fn not_opened(&mut self, key: u32, failure: aetheel_backend_sdk::wit::Failure, out: &mut Vec<Action>) {
        if let Some(session) = self.sessions.get_mut(&key) {
            session.stage = Stage::Closed;
            session.native = None;
            session.system = None;
            session.signed_in = false;
        }
        self.fail(key, failure, out);
    }

    fn set(&mut self, key: u32, turn: u32, what: What, value: &str, result: Result<&Value, &Value>, out: &mut Vec<Action>) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let open = session.turn.as_ref().filter(|open| open.key.turn == turn && !open.prompted);
        let (ours, everything) =
            (open.is_some(), open.is_some_and(|open| open.settings.safety == Safety::Danger && open.settings.mode == Mode::Build));
        match result {
            Ok(result) => {
                session.config.chosen(what, value);
                session.config.update(result.list("configOptions"));
                if ours {
                    self.advance(key, out);
                }
            }
            Err(_) if !ours => {}
            // OpenCode 1.18.33 has other efforts with every model. Where everything is allowed, requests are granted in any mode.
            Err(error) if what == What::Effort || (what == What::Mode && everything) => {
                let text = format!("the agent does not take {what} {value:?}: {}", failure::message(error));
                out.push(Action::Diagnostic(Diagnostic { level: Level::Warn, text }));
                self.advance(key, out);
            }
            Err(error) => {
                let kind = if what == What::Model { FailureKind::ModelNotFound } else { FailureKind::Unsupported };
                let message = format!("the agent does not take {what} {value:?}: {}", failure::message(error));
                self.fail(key, failure(kind, message), out);
            }
        }
    }

    fn prompted(&mut self, key: u32, turn: u32, result: Result<&Value, &Value>, out: &mut Vec<Action>) {
        let Some(open) = self.sessions.get_mut(&key).and_then(|session| session.turn.as_mut()).filter(|open| open.key.turn == turn) else {
            return;
        };
        open.answered(result, &mut Emit::new(open.key, out));
        if open.prompts == 0 {
            self.finish(key, out);
        }
    }

    fn request(&mut self, id: &str, method: &str, params: &Value, out: &mut Vec<Action>) {
        let Process::Ready(proc) = self.process else { return };
        if method != "session/request_permission" {
            self.calls.error(proc, id, -32601, "method not found: no such ability was declared", out);
            return;
        }
        let key = self.key_of(params);
        let open = key.and_then(|key| Some((key, self.sessions.get_mut(&key)?)));
        let Some((key, session)) = open.filter(|(_, session)| session.turn.as_ref().is_some_and(|turn| turn.prompts > 0 && !turn.stopping))
        else {
            self.calls.result(proc, id, CANCELLED, out);
            return;
        };
        let cwd = session.cwd.clone();
        let Some(turn) = session.turn.as_mut() else { return };
        let told = &params["toolCall"];
        let tool = told.text("toolCallId").unwrap_or_default().to_owned();
        let turn_key = turn.key;
        let (safety, mode) = (turn.settings.safety, turn.settings.mode);
        let start = turn.learn(&tool, told, &mut Emit::new(turn_key, out)).start.clone();
        let asked = Asked { id: id.to_owned(), session: key, tool, options: Options::read(params) };
        let granted = mode == Mode::Build
            && match safety {
                Safety::Default => false,
                Safety::Edit => told.text("kind") == Some("edit") && within(told, &cwd),
                Safety::Danger => true,
            };
        if granted && asked.options.allows_once() {
            // The agent has no mode for the level, or asks in it all the same.
            self.calls.result(proc, &asked.id, &asked.options.result(&Decision::AllowOnce), out);
            return;
        }
        // Leaving the agent's plan mode is asked for as the use of a tool (claude-agent-acp 0.49.0).
        let plan = told["rawInput"].text("plan").filter(|_| told.text("kind") == Some("switch_mode"));
        let kind = plan.map_or_else(|| AskKind::Permission(start.clone()), |plan| AskKind::PlanApproval(plan.to_owned()));
        self.ask(turn_key, start.title, kind, asked, out);
    }

    fn notification(&mut self, method: &str, params: &Value, out: &mut Vec<Action>) {
        match method {
            "session/update" => {
                let Some(key) = self.key_of(params) else { return };
                let Some(session) = self.sessions.get_mut(&key) else { return };
                let update = &params["update"];
                session.update(update);
                // Anything else is history, or about no turn.
                if let Some(turn) = session.turn.as_mut().filter(|turn| turn.prompts > 0) {
                    turn.update(self.now, update, &self.agent, &mut Emit::new(turn.key, out));
                }
            }
            // Extensions (`_auth/status_update` of codex-acp 2.6.0) and matters of the protocol itself.
            _ if method.starts_with('_') || method.starts_with("$/") => {}
            _ => self.unknown(self.key_of(params), &format!("notification {method:?}"), Some("method"), &params.to_string(), out),
        }
    }

    /// Tells what is not known in the turn of its session, else in one that is open, else in the log.
    fn unknown(&mut self, key: Option<u32>, what: &str, path: Option<&str>, raw: &str, out: &mut Vec<Action>) {
        let turn = |key: &u32| Some(self.sessions.get(key)?.turn.as_ref()?.key);
        match key.as_ref().and_then(turn).or_else(|| self.sessions.keys().find_map(turn)) {
            Some(TurnRef { session, turn }) => {
                Emit::new(TurnRef { session, turn }, out).unrecognised(what, path.map(str::to_owned), raw);
            }
            None => out.push(Action::Diagnostic(Diagnostic { level: Level::Warn, text: format!("{what}: {}", head(raw, 200)) })),
        }
    }
}

/// Whether all that is to be edited lies in a folder.
fn within(told: &Value, cwd: &str) -> bool {
    let locations = told.list("locations").iter().map(|at| at.text("path"));
    let diffs = told.list("content").iter().filter(|piece| piece.text("type") == Some("diff")).map(|piece| piece.text("path"));
    let mut paths = locations.chain(diffs).peekable();
    let inside = |path: Option<&str>| {
        let below = path.and_then(|path| path.strip_prefix(cwd)?.strip_prefix('/'));
        below.is_some_and(|below| below.split('/').all(|step| step != ".."))
    };
    paths.peek().is_some() && paths.all(inside)
}

fn abilities(result: &Value) -> Abilities {
    let agent = &result["agentCapabilities"];
    let session = &agent["sessionCapabilities"];
    let has = |ability: &str| session.get(ability).is_some_and(|value| !value.is_null());
    let info = &result["agentInfo"];
    let name = info.text("title").or_else(|| info.text("name")).unwrap_or("the agent");
    let methods = result.list("authMethods");
    let steering = if result["_meta"]["steering"].is_true("supported") || agent["_meta"]["steering"].is_true("supported") {
        Steering::Method
    } else if agent["_meta"]["claudeCode"].is_true("promptQueueing") {
        Steering::Prompt
    } else {
        Steering::None
    };
    Abilities {
        spaced: info.text("name") == Some("gemini-cli"),
        name: info.text("version").map_or_else(|| name.to_owned(), |version| format!("{name} {version}")),
        load: agent.is_true("loadSession"),
        resume: has("resume"),
        fork: has("fork"),
        close: has("close"),
        list: has("list"),
        delete: has("delete"),
        images: agent["promptCapabilities"].is_true("image"),
        system_prompt: has("systemPrompt"),
        steering,
        sign_ins: methods.iter().filter_map(|method| method.text("name").or_else(|| method.text("id"))).map(str::to_owned).collect(),
    }
}
