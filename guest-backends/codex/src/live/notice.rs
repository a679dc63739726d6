//! Handles the notifications of `app-server` and finds the turn that each belongs to.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::{Agent as _, LinkContext};
use aetheel_backend_sdk::wit::{
    Action, Diagnostic, EventKind, Failure, FailureKind, Level, Outcome,
};

use super::turn::{Stage, Turn};
use super::{Codex, quota};
use crate::failure;
use crate::story::{self, ItemStage};
use crate::tool;

/// Notifications that repeat others or are not relevant for users.
const KNOWN: [&str; 35] = [
    "account/login/completed",
    "account/updated",
    "app/list/updated",
    "fs/changed",
    "hook/completed",
    "hook/started",
    "item/autoApprovalReview/completed",
    "item/autoApprovalReview/started",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "mcpServer/oauthLogin/completed",
    "mcpServer/startupStatus/updated",
    "model/safetyBuffering/updated",
    "model/verification",
    "modelProvider/authRecoveryCompleted",
    "modelProvider/authRecoveryStarted",
    "project/changed",
    "rawResponse/completed",
    "rawResponseItem/completed",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/archived",
    "thread/closed",
    "thread/deleted",
    "thread/environment/connected",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    "thread/settings/updated",
    "thread/started",
    "thread/status/changed",
    // Repeats each change for the whole turn.
    "turn/diff/updated",
    "turn/moderationMetadata",
];

impl Codex {
    pub(super) fn notification(
        &mut self,
        method: &str,
        params: &Value,
        line: &str,
        context: &mut LinkContext,
    ) {
        if let Some(field) = lacks(method, params) {
            let what = format!("notification {method:?} without `{field}`");
            return self.strange(&what, params, line, context);
        }
        match method {
            "turn/started" => {
                if let (Some(key), Some(id)) = (self.session_of(params), params["turn"].text("id"))
                {
                    self.running(key, None, id, context);
                }
            }
            "turn/completed" => self.completed(params, context),
            "item/started" => self.item(params, ItemStage::Started, context),
            "item/completed" => self.item(params, ItemStage::Completed, context),
            "serverRequest/resolved" => {
                let id = params["requestId"].to_string();
                // Also sent for requests that were answered.
                self.asks.withdraw(|open| open.id == id, context.out());
            }
            "account/rateLimits/updated" => self.rate_limits(&params["rateLimits"], context),
            "thread/compacted" => self.forget_prompt(params),
            "thread/name/updated" => {
                if let (Some(turn), Some(name)) = (self.turn_of(params), params.text("threadName"))
                {
                    turn.emit(context.out()).event(EventKind::Title(name.to_owned()));
                }
            }
            "warning" | "guardianWarning" => {
                self.warning(params.text("message").unwrap_or_default(), params, context)
            }
            // Concerns the machine (at the start) and this client.
            "configWarning" => log(Level::Warn, params, context.out()),
            "deprecationNotice" => log(Level::Debug, params, context.out()),
            _ if KNOWN.contains(&method) => {}
            // Belongs to a turn that has ended or not begun: a resumed thread reports the sums of
            // an old turn.
            _ if params.get("turnId").is_some() && self.running_of(params).is_none() => {}
            _ => {
                let Some(turn) = self.running_of(params) else {
                    return self.strange(
                        &format!("notification {method:?}"),
                        params,
                        line,
                        context,
                    );
                };
                if !turn.handle(method, params, context.out()) {
                    turn.emit(context.out()).unrecognised(
                        format!("notification {method:?}"),
                        Some("method".to_owned()),
                        line,
                    );
                }
            }
        }
    }

    /// Returns the open turn in a message's thread.
    pub(super) fn turn_of(&mut self, params: &Value) -> Option<&mut Turn> {
        let key = self.session_of(params)?;
        self.sessions.get_mut(&key)?.turn.as_mut()
    }

    /// Returns the turn that a message belongs to if it is running.
    pub(super) fn running_of(&mut self, params: &Value) -> Option<&mut Turn> {
        let id = params.text("turnId")?;
        self.turn_of(params)
            .filter(|turn| matches!(&turn.stage, Stage::Running(running) if running == id))
    }

    /// Returns the session that a message's thread belongs to. The thread may be that of a
    /// sub-agent.
    pub(super) fn session_of(&self, params: &Value) -> Option<u32> {
        let id = params.text("threadId")?;
        let (key, _) = self.sessions.iter().find(|(_, session)| {
            let own = session.thread.as_ref().is_some_and(|thread| thread.id.thread == id);
            own && session.turn.is_some()
        })?;
        Some(*key)
    }

    fn item(&mut self, params: &Value, stage: ItemStage, context: &mut LinkContext) {
        let item = &params["item"];
        if let Some(turn) = self.running_of(params) {
            if tool::name(item) == "collab_tool_call" {
                let tool = item.text("id").unwrap_or_default();
                let threads = item.list("receiverThreadIds").iter().filter_map(Value::as_str);
                turn.children.extend(threads.map(|thread| (thread.to_owned(), tool.to_owned())));
            }
            let mut emit = aetheel_backend_sdk::Emit::new(turn.key, context.out());
            if turn.story.item(item, stage, &mut emit) {
                self.forget_prompt(params);
            }
        } else if stage == ItemStage::Completed && tool::name(item) == "agent_message" {
            self.report_child(params, item.text("text").unwrap_or_default(), context);
        } else if stage == ItemStage::Completed && tool::name(item) == "context_compaction" {
            self.forget_prompt(params);
        }
    }

    /// Reports text of a sub-agent as output of the tool that started it.
    fn report_child(&mut self, params: &Value, text: &str, context: &mut LinkContext) {
        let thread = params.text("threadId").unwrap_or_default();
        for turn in self.sessions.values().filter_map(|session| session.turn.as_ref()) {
            if let Some((_, tool)) = turn.children.iter().rev().find(|(child, _)| child == thread) {
                turn.story.output(tool, text, &mut turn.emit(context.out()));
            }
        }
    }

    fn completed(&mut self, params: &Value, context: &mut LinkContext) {
        let ended = &params["turn"];
        let running = self
            .turn_of(params)
            .is_some_and(|turn| matches!(&turn.stage, Stage::Running(_) | Stage::Asked));
        if !running {
            return self.compacted(params, context);
        }
        let Some(key) = self.session_of(params) else { return };
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let ours =
            |turn: &Turn| matches!(&turn.stage, Stage::Running(id) if ended.text("id") == Some(id));
        let Some(turn) = session.turn.as_mut().filter(|turn| ours(turn)) else { return };
        let outcome = match ended.text("status") {
            Some("completed") => Outcome::Completed,
            Some("interrupted") => Outcome::Interrupted,
            Some("failed") => {
                let error = &ended["error"];
                match (error.text("message"), &turn.error) {
                    (Some(message), _) => failure::outcome(message, &error["codexErrorInfo"]),
                    (None, Some((message, info))) => failure::outcome(message, info),
                    (None, None) => failure::outcome("the turn failed", &Value::Null),
                }
            }
            status => {
                let message = format!("Codex ended the turn as {:?}", status.unwrap_or("nothing"));
                Outcome::Failed(Failure {
                    kind: FailureKind::Protocol,
                    message,
                    retry_after_ms: None,
                })
            }
        };
        let turn = turn.key;
        if outcome == Outcome::Interrupted || context.is_interrupted(key) {
            self.end_commands(key, context);
        }
        self.finish(turn, outcome, context);
    }

    /// Reports the allowances of the account in all open turns, which share them.
    fn rate_limits(&self, limits: &Value, context: &mut LinkContext) {
        let quota = quota::of(limits);
        if quota.is_empty() {
            return;
        }
        for turn in self.sessions.values().filter_map(|session| session.turn.as_ref()) {
            turn.emit(context.out()).event(EventKind::Quota(quota.clone()));
        }
    }

    /// Marks the system prompt of a thread as unknown, so that it is sent again.
    fn forget_prompt(&mut self, params: &Value) {
        let id = params.text("threadId");
        for thread in self.sessions.values_mut().filter_map(|session| session.thread.as_mut()) {
            if Some(thread.id.thread.as_str()) == id {
                thread.id.prompt_hash = None;
            }
        }
    }

    fn warning(&mut self, text: &str, params: &Value, context: &mut LinkContext) {
        match self.turn_of(params) {
            Some(turn) => story::warn(text, &mut turn.emit(context.out())),
            None => context.action(Action::Diagnostic(Diagnostic {
                level: Level::Warn,
                text: text.to_owned(),
            })),
        }
    }
}

/// Returns the field that should name a notification's turn, if it is missing.
fn lacks(method: &str, params: &Value) -> Option<&'static str> {
    let thread = ("threadId", params.text("threadId"));
    let turn = ("turnId", params.text("turnId"));
    let inner = ("turn.id", params["turn"].text("id"));
    let needed = match method {
        "turn/started" | "turn/completed" => [thread, inner],
        _ if method.starts_with("item/") && !KNOWN.contains(&method) => [thread, turn],
        _ => return None,
    };
    needed.into_iter().find(|(_, value)| value.is_none()).map(|(field, _)| field)
}

fn log(level: Level, params: &Value, out: &mut Vec<Action>) {
    let text = params.text("summary").unwrap_or_default().to_owned();
    out.push(Action::Diagnostic(Diagnostic { level, text }));
}
