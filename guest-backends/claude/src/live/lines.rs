//! Handles the agent's lines: the control protocol here, all others in [`Claude`] as part of a
//! turn.

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::live::{Agent as _, LinkContext};
use aetheel_backend_sdk::one_shot::LINGER_MS;
use aetheel_backend_sdk::wit::{Action, EventKind, Line, Outcome, TurnRef};

use super::turn::Turn;
use super::{Conversation, asks};
use crate::stream::Claude;

impl Conversation {
    pub(super) fn handle_line(&mut self, line: &Line, context: &mut LinkContext) {
        let text = line.text.trim();
        let parsed = json::parse(text).ok();
        let message = parsed.as_ref().unwrap_or(&Value::Null);
        match (message.text("type"), message.text("subtype")) {
            (Some("control_request"), _) => self.handle_request(message, text, context),
            (Some("control_response"), _) => {
                if !self.process.answered(&message["response"], context) && self.turn.is_some() {
                    context.unrecognised(
                        "control response without a request",
                        Some("response.request_id"),
                        text,
                    );
                }
            }
            (Some("control_cancel_request"), _) => self.cancel_request(message, context),
            (Some("system"), Some("session_state_changed")) => {
                let state = message.text("state");
                if state.is_none() {
                    context.unrecognised("no text in `state`", Some("state"), text);
                }
                self.state(state, context)
            }
            _ if text.is_empty() => {}
            _ => {
                if let Some(refusal) = asks::unreadable(text).filter(|_| parsed.is_none()) {
                    context.say(&refusal);
                }
                self.handle_output(parsed.as_ref(), text, line.truncated, context);
            }
        }
    }

    /// Handles a line that is not of the control protocol.
    fn handle_output(
        &mut self,
        message: Option<&Value>,
        text: &str,
        truncated: bool,
        context: &mut LinkContext,
    ) {
        if let Some(mode) = message.and_then(|message| message.text("permissionMode")) {
            self.process.in_mode(mode);
        }
        if let Some(message) = message.filter(|message| message.text("type") == Some("system")) {
            self.background(message);
        }
        let Some(turn) = &mut self.turn else {
            return outside_turn(message, text, truncated, context);
        };
        let mut emit = context.emit(turn.at);
        let result = self.claude.handle_line(message, text, truncated, &mut emit);
        if let Some(id) = self.claude.session() {
            self.native = Some(id.to_owned());
        }
        if let Some(result) = result {
            let aside = message
                .is_some_and(|message| message["origin"].text("kind") == Some("task-notification"));
            turn.result(result, aside, &mut emit);
            if context.turn().is_some() && turn.complete() && !self.process.reports_state {
                if turn.steered || !self.background.is_empty() {
                    self.linger = Some(context.set_timer(LINGER_MS));
                } else {
                    self.handle_idle(context);
                }
            }
        }
    }

    /// Tracks the work in the background.
    fn background(&mut self, message: &Value) {
        let id = || message.text("task_id").map(str::to_owned);
        match message.text("subtype") {
            Some("task_started") => self.background.extend(id()),
            Some("task_notification") => {
                self.background.retain(|task| Some(task.as_str()) != message.text("task_id"))
            }
            Some("task_updated")
                if message["patch"]
                    .text("status")
                    .is_some_and(|status| !matches!(status, "pending" | "running")) =>
            {
                self.background.retain(|task| Some(task.as_str()) != message.text("task_id"));
            }
            Some("background_tasks_changed") => {
                self.background = message
                    .list("tasks")
                    .iter()
                    .filter_map(|task| task.text("task_id").map(str::to_owned))
                    .collect();
            }
            _ => {}
        }
    }

    fn state(&mut self, state: Option<&str>, context: &mut LinkContext) {
        self.process.reports_state = true;
        match (state, self.session) {
            (Some("running"), Some(session)) if !self.process.stale => {
                if let Some(at) = context.begin(session) {
                    self.claude.begin(self.native.clone());
                    self.turn = Some(Turn::from_agent(at));
                }
            }
            (Some("idle"), _) => self.handle_idle(context),
            _ => {}
        }
    }

    /// Ends the turn of an idle agent if it has a result.
    pub(super) fn handle_idle(&mut self, context: &mut LinkContext) {
        if let (Some(at), Some(turn)) = (context.turn(), &self.turn)
            && turn.complete()
        {
            self.finish(at, Outcome::Completed, context);
        }
    }
}

/// Handles a line outside any turn: reports unrecognised output to the operator.
fn outside_turn(message: Option<&Value>, text: &str, truncated: bool, context: &mut LinkContext) {
    let mut events = Vec::new();
    Claude::default().handle_line(
        message,
        text,
        truncated,
        &mut Emit::new(TurnRef { session: 0, turn: 0 }, &mut events),
    );
    for event in events {
        if let Action::Event(event) = event
            && let EventKind::Unrecognised(unknown) = event.kind
        {
            context.unrecognised(unknown.what, unknown.path.as_deref(), &unknown.sample);
        }
    }
}
