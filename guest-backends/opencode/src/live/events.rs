//! Handles the server's events for all of its directories (`/global/event`): `{"directory",
//! "payload": {"type", "properties"}}`.

use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::text::head;
use aetheel_backend_sdk::wit::{Action, Diagnostic, FailureKind, Level, TurnRef};

use super::compaction::CompactionEvent;
use super::link::Purpose;
use super::session::{Model, Session};
use super::turn::Next;
use super::{Child, OpenCode, failure};
use crate::todo;

/// Events that are not relevant for a turn: heartbeats, events for OpenCode's own user interfaces,
/// and events with better alternatives.
const IGNORED: [&str; 25] = [
    "catalog.updated",
    "command.executed",
    "file.edited",
    "file.watcher.updated",
    "global.disposed",
    "integration.connection.updated",
    "integration.updated",
    "message.removed",
    "models-dev.refreshed",
    "permission.v2.asked",
    "permission.v2.replied",
    "plugin.added",
    "project.directories.updated",
    "project.updated",
    "question.v2.asked",
    "question.v2.rejected",
    "question.v2.replied",
    "reference.updated",
    "server.connected",
    "server.heartbeat",
    "server.instance.disposed",
    "session.deleted",
    "session.diff",
    // Repeats other events in another format.
    "sync",
    "vcs.branch.updated",
];
/// Prefixes of further ignored events.
const IGNORED_FAMILIES: [&str; 9] = [
    "ide.",
    "installation.",
    "lsp.",
    "mcp.",
    "pty.",
    "session.next.",
    "tui.",
    "workspace.",
    "worktree.",
];

/// The paths that list open questions, each with the event of a single question.
const ASKS: [(&str, &str); 2] =
    [("/permission", "permission.asked"), ("/question", "question.asked")];

/// Prefixes of the server's temporary titles.
const PROVISIONAL: [&str; 2] = ["New session - ", "Child session - "];

impl OpenCode {
    pub(super) fn event(&mut self, data: &str, context: &mut LinkContext) {
        let parsed = json::parse(data).unwrap_or_default();
        let event = parsed.get("payload").unwrap_or(&parsed);
        let (kind, properties) = (event.text("type"), &event["properties"]);
        let Some(kind) = kind else {
            return self.unrecognised("server event without a type", None, data, context);
        };
        if IGNORED.contains(&kind) || IGNORED_FAMILIES.iter().any(|family| kind.starts_with(family))
        {
            return;
        }
        let native = properties.text("sessionID").unwrap_or_default();
        let info = &properties["info"];
        if kind == "message.updated" && (info.text("id").is_none() || info.text("role").is_none()) {
            self.unrecognised("message without an id or a role", Some(native), data, context);
        }
        if let Some(child) = self.children.get(native) {
            let session = child.session;
            return self.child_event(session, native, kind, properties, data, context);
        }
        let Some(session) =
            self.sessions.values_mut().find(|session| session.native.as_deref() == Some(native))
        else {
            return self.foreign(kind, properties, data, context);
        };
        match kind {
            "session.status" => match properties["status"].text("type") {
                Some("busy") => {
                    self.compaction_event(native, CompactionEvent::Busy, context);
                    self.busy(native, context);
                }
                Some("idle") => self.idle(native, context),
                Some("retry") => {
                    if let Some(turn) = retry(session, &properties["status"], context) {
                        self.abort(turn, context);
                    }
                }
                _ => self.unrecognised("session status", Some(native), data, context),
            },
            "session.idle" => self.idle(native, context),
            "session.error" => {
                self.compaction_event(
                    native,
                    CompactionEvent::Failed(failure::of_error(&properties["error"])),
                    context,
                );
                self.with_turn(native, |turn, _| turn.error(&properties["error"]), context);
            }
            "message.updated" => {
                let info = &properties["info"];
                if let Some(model) =
                    info.text("role").filter(|role| *role == "assistant").and_then(|_| model(info))
                {
                    session.model = Some(model);
                }
                if session.turn.is_none() {
                    // Messages of a copied session or of an interrupted prompt.
                    session.past.extend(info.text("id").map(str::to_owned));
                }
                self.with_turn(native, |turn, past| turn.message(info, past), context);
            }
            "message.part.updated" => self.part(native, &properties["part"], context),
            "message.part.delta" => {
                if let Some(turn) = &mut session.turn {
                    turn.delta(properties, context.out());
                }
            }
            "message.part.removed" => {
                if let (Some(turn), Some(part)) = (&mut session.turn, properties.text("partID")) {
                    turn.parts.removed(part, &mut context.emit(turn.name));
                }
            }
            "session.updated" | "session.created" => {
                self.updated(native, &properties["info"], context)
            }
            "session.compacted" => {
                if let Some(turn) = context.turn_of(session.key) {
                    context.emit(turn).compaction(true, None, None);
                }
                self.compaction_event(native, CompactionEvent::Shortened, context);
            }
            "todo.updated" => {
                if let Some(turn) = context.turn_of(session.key) {
                    context.emit(turn).plan(todo::plan(properties.list("todos")));
                }
            }
            "permission.asked" | "question.asked" => {
                let session = session.key;
                self.asked(session, kind, properties, context);
            }
            "permission.replied" | "question.replied" | "question.rejected" => {
                self.replied(properties, context)
            }
            other => {
                self.unrecognised(&format!("server event {other:?}"), Some(native), data, context)
            }
        }
    }

    fn idle(&mut self, native: &str, context: &mut LinkContext) {
        self.compaction_event(native, CompactionEvent::Idle, context);
        self.with_turn(native, |turn, _| turn.idle(), context);
    }

    /// Handles an event of a sub-agent. Its tool uses and questions belong to the turn that started
    /// it, but not its text.
    fn child_event(
        &mut self,
        session: u32,
        native: &str,
        kind: &str,
        properties: &Value,
        data: &str,
        context: &mut LinkContext,
    ) {
        match kind {
            "message.part.updated" => {
                let tool = self.children.get(native).and_then(|child| child.tool.clone());
                if let Some(turn) =
                    self.sessions.get_mut(&session).and_then(|session| session.turn.as_mut())
                {
                    turn.parts.part(
                        &properties["part"],
                        Some(tool.as_deref()),
                        &mut context.emit(turn.name),
                    );
                }
            }
            "permission.asked" | "question.asked" => self.asked(session, kind, properties, context),
            "permission.replied" | "question.replied" | "question.rejected" => {
                self.replied(properties, context)
            }
            "session.created" => self.foreign(kind, properties, data, context),
            "message.part.delta"
            | "message.part.removed"
            | "message.updated"
            | "session.compacted"
            | "session.error"
            | "session.idle"
            | "session.status"
            | "session.updated"
            | "todo.updated" => {}
            other => {
                self.unrecognised(&format!("server event {other:?}"), Some(native), data, context)
            }
        }
    }

    /// Handles an event of an unknown session, which may be a new sub-agent.
    fn foreign(&mut self, kind: &str, properties: &Value, data: &str, context: &mut LinkContext) {
        match kind {
            "session.created" | "session.updated" => {
                let (Some(id), Some(parent)) =
                    (properties["info"].text("id"), properties["info"].text("parentID"))
                else {
                    return;
                };
                let of_child =
                    self.children.get(parent).map(|child| (child.session, child.tool.clone()));
                let of_session = || {
                    let session = self
                        .sessions
                        .values()
                        .find(|session| session.native.as_deref() == Some(parent))?;
                    session.turn.as_ref().map(|turn| (turn.name.session, None))
                };
                if let Some((session, tool)) = of_child.or_else(of_session)
                    && !self.children.contains_key(id)
                {
                    self.children.insert(id.to_owned(), Child { session, tool });
                }
            }
            "session.error" if properties.text("sessionID").is_none() => {
                let failure = failure::of_error(&properties["error"]);
                context.action(Action::Diagnostic(Diagnostic {
                    level: Level::Warn,
                    text: format!("OpenCode's server: {}", failure.message),
                }));
            }
            // The session does not belong to this link, or its turn has ended.
            _ if properties.text("sessionID").is_some() => {}
            other => self.unrecognised(&format!("server event {other:?}"), None, data, context),
        }
    }

    /// Passes an event to the open turn of a session, and performs the next step.
    fn with_turn(
        &mut self,
        native: &str,
        handle: impl FnOnce(&mut super::turn::Turn, &mut std::collections::BTreeSet<String>) -> Next,
        context: &mut LinkContext,
    ) {
        let Some(session) =
            self.sessions.values_mut().find(|session| session.native.as_deref() == Some(native))
        else {
            return;
        };
        let Some(turn) = &mut session.turn else { return };
        let name = turn.name;
        let next = handle(turn, &mut session.past);
        self.follow(name, next, context);
    }

    fn busy(&mut self, native: &str, context: &mut LinkContext) {
        let Some(session) =
            self.sessions.values_mut().find(|session| session.native.as_deref() == Some(native))
        else {
            return;
        };
        if std::mem::take(&mut session.stray) && context.turn_of(session.key).is_none() {
            let turn = TurnRef { session: session.key, turn: 0 };
            self.link.http(
                ("POST", &format!("/session/{native}/abort")),
                Some(&session.cwd),
                Vec::new(),
                Purpose::Abort(turn),
                context,
            );
            return;
        }
        self.with_turn(native, |turn, _| turn.busy(), context);
    }

    fn part(&mut self, native: &str, part: &Value, context: &mut LinkContext) {
        let Some(session) =
            self.sessions.values_mut().find(|session| session.native.as_deref() == Some(native))
        else {
            return;
        };
        let Some(turn) = &mut session.turn else { return };
        // The tool use that started a sub-agent contains the sub-agent's session.
        if let (Some(id), Some(child)) =
            (part.text("id"), part["state"]["metadata"].text("sessionId"))
            && part.text("tool") == Some("task")
        {
            self.children.insert(
                child.to_owned(),
                Child { session: session.key, tool: Some(id.to_owned()) },
            );
        }
        turn.part(part, context.out());
    }

    fn updated(&mut self, native: &str, info: &Value, context: &mut LinkContext) {
        let Some(session) =
            self.sessions.values_mut().find(|session| session.native.as_deref() == Some(native))
        else {
            return;
        };
        if let (false, Some(model)) = (session.chosen, model(&info["model"])) {
            self.defaults.insert(session.cwd.clone(), model);
        }
        if session.retitled(info)
            && let (Some(turn), Some(title)) = (context.turn_of(session.key), session.title.clone())
        {
            context.emit(turn).event(aetheel_backend_sdk::wit::EventKind::Title(title));
        }
    }

    /// Reports unknown output in the session's turn if there is one, otherwise in any turn.
    fn unrecognised(
        &self,
        what: &str,
        native: Option<&str>,
        data: &str,
        context: &mut LinkContext,
    ) {
        let own = self
            .sessions
            .values()
            .find(|session| native.is_some() && session.native.as_deref() == native);
        let own = own.and_then(|session| context.turn_of(session.key));
        match own.or_else(|| self.sessions.keys().find_map(|key| context.turn_of(*key))) {
            Some(turn) => {
                context.emit(turn).unrecognised(what, Some("payload.type".to_owned()), data)
            }
            None => context.action(Action::Diagnostic(Diagnostic {
                level: Level::Debug,
                text: format!("{what}: {}", head(data, 300)),
            })),
        }
    }

    /// Requests the state of all turns after the event stream was opened again.
    pub(super) fn catch_up(&mut self, context: &mut LinkContext) {
        for session in self.sessions.values() {
            if let Some(turn) = &session.turn {
                self.link.http(
                    ("GET", "/session/status"),
                    Some(&session.cwd),
                    Vec::new(),
                    Purpose::Status(turn.name),
                    context,
                );
            }
        }
    }

    pub(super) fn status(&mut self, turn: TurnRef, body: &Value, context: &mut LinkContext) {
        let Some(session) = self.sessions.get(&turn.session) else { return };
        let Some(native) =
            session.native.as_ref().filter(|_| context.turn_of(session.key) == Some(turn))
        else {
            return;
        };
        let idle = matches!(body[native.as_str()].text("type"), None | Some("idle"));
        let path = format!("/session/{native}/message");
        self.link.http(
            ("GET", &path),
            Some(&session.cwd),
            Vec::new(),
            Purpose::Messages { turn, idle },
            context,
        );
    }

    pub(super) fn caught_up(
        &mut self,
        turn: TurnRef,
        idle: bool,
        body: &Value,
        context: &mut LinkContext,
    ) {
        let Some(session) = self.sessions.get_mut(&turn.session) else { return };
        let Some(open) = session.turn.as_mut().filter(|open| open.name == turn) else { return };
        let messages = body.as_array().unwrap_or_default();
        let is_asked = |message: &&Value| message["info"].text("role") == Some("user");
        let first = match open.first() {
            Some(first) => {
                messages.iter().position(|message| message["info"].text("id") == Some(first))
            }
            None => messages.iter().rposition(|message| {
                is_asked(&message)
                    && !session.past.contains(message["info"].text("id").unwrap_or_default())
            }),
        };
        let Some(first) = first else { return };
        open.begun |= messages[first..]
            .iter()
            .any(|message| message["info"].text("role") == Some("assistant"));
        for message in &messages[first..] {
            open.message(&message["info"], &mut session.past);
            for part in message.list("parts") {
                open.missed(part, context.out());
            }
        }
        if idle {
            let next = open.idle();
            return self.follow(turn, next, context);
        }
        let cwd = session.cwd.clone();
        for (path, kind) in ASKS {
            let purpose = Purpose::Asks { turn, kind };
            self.link.http(("GET", path), Some(&cwd), Vec::new(), purpose, context);
        }
    }

    /// Handles the open questions after a reconnection. Known questions are not asked again.
    pub(super) fn asked_meanwhile(
        &mut self,
        turn: TurnRef,
        kind: &str,
        body: &Value,
        context: &mut LinkContext,
    ) {
        for request in body.as_array().unwrap_or_default() {
            let of = request.text("sessionID").unwrap_or_default();
            let own = self.sessions.get(&turn.session);
            let own = own.is_some_and(|session| session.native.as_deref() == Some(of));
            let child = self.children.get(of).is_some_and(|child| child.session == turn.session);
            if context.turn_of(turn.session) == Some(turn) && (own || child) {
                self.asked(turn.session, kind, request, context);
            }
        }
    }
}

/// Returns the model that an object refers to.
pub(super) fn model(of: &Value) -> Option<Model> {
    let name = of.text("modelID").or_else(|| of.text("id"))?;
    Some((of.text("providerID")?.to_owned(), name.to_owned()))
}

/// Returns whether a title is not empty or temporary.
pub(super) fn says_something(title: &str) -> bool {
    !title.is_empty() && !PROVISIONAL.iter().any(|beginning| title.starts_with(beginning))
}

/// Reports that the agent tries a request again. Returns the turn if it has to be interrupted.
fn retry(session: &mut Session, status: &Value, context: &mut LinkContext) -> Option<TurnRef> {
    let turn = context.turn_of(session.key)?;
    let failure = failure::of_words(status.text("message").unwrap_or_default());
    let kind =
        if failure.kind == FailureKind::Other { FailureKind::Overloaded } else { failure.kind };
    let attempt = status.count("attempt").unwrap_or(1);
    context.emit(turn).retry(kind, format!("attempt {attempt}: {}", failure.message), None);
    let open = session.turn.as_mut().filter(|open| open.name == turn)?;
    open.retry(failure, status.number("next")).then_some(turn)
}
