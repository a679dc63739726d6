//! The state of a turn, and the events of a running one.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{Action, FailureKind, Outcome, StartTurn, TurnRef, Usage};
use aetheel_backend_sdk::{Emit, TurnResult};

use crate::failure;
use crate::native_id::NativeId;
use crate::story::{Story, plan};
use crate::tokens::Tokens;

/// A turn from its request to its end.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) key: TurnRef,
    pub(crate) stage: Stage,
    pub(crate) story: Story,
    pub(crate) spent: Tokens,
    /// The last sums; equal ones report no further use of the model.
    pub(crate) sums: Option<Tokens>,
    pub(crate) usage: Option<Usage>,
    /// Message and error code of the last error that was not retried.
    pub(crate) error: Option<(String, Value<'static>)>,
    /// Threads of sub-agents, with the tool that each belongs to.
    pub(crate) children: Vec<(String, String)>,
    /// The requested thread, and whether to continue a copy of it.
    pub(crate) requested: Option<NativeId>,
    pub(crate) fork: bool,
    /// The id that the host knows.
    pub(crate) known: Option<String>,
    /// The chosen model.
    pub(crate) model: Option<String>,
}

/// The progress of a turn.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Waits for the agent or for its thread.
    Waiting,
    /// `turn/start` is not answered yet.
    Asked,
    /// Running, with the agent's id of the turn.
    Running(String),
}

impl Turn {
    pub(crate) fn new(start: &StartTurn) -> Self {
        Self {
            key: TurnRef { session: start.session, turn: start.turn },
            stage: Stage::Waiting,
            story: Story::default(),
            spent: Tokens::default(),
            sums: None,
            usage: None,
            error: None,
            children: Vec::new(),
            requested: start.native_id.as_deref().and_then(NativeId::parse),
            fork: start.fork,
            known: start.native_id.clone(),
            model: start.settings.model.clone(),
        }
    }

    pub(crate) fn emit<'a>(&self, out: &'a mut Vec<Action>) -> Emit<'a> {
        Emit::new(self.key, out)
    }

    /// Ends the turn and returns its result.
    pub(crate) fn result(mut self, outcome: Outcome, out: &mut Vec<Action>) -> TurnResult {
        self.story.end(&mut Emit::new(self.key, out));
        let text = if outcome == Outcome::Completed { self.story.answer.last() } else { None };
        TurnResult { outcome, text, usage: self.usage }
    }

    /// Handles a notification about a running turn. Returns false if it is unknown.
    pub(crate) fn handle(&mut self, method: &str, params: &Value, out: &mut Vec<Action>) -> bool {
        let mut emit = Emit::new(self.key, out);
        let (mut item, mut delta) = ("", "");
        if method.ends_with("elta") || method == "item/reasoning/summaryPartAdded" {
            item = emit.required_id(params, "params.itemId", params);
        }
        if method.ends_with("elta") {
            delta = emit.required_text(params, "params.delta", params);
        }
        match method {
            "item/agentMessage/delta" | "item/plan/delta" => {
                self.story.answer.more(item, false, delta, &mut emit)
            }
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                self.story.answer.more(item, true, delta, &mut emit)
            }
            "item/reasoning/summaryPartAdded" => self.story.answer.paragraph(item, true, &mut emit),
            "item/commandExecution/outputDelta" => self.story.output(item, delta, &mut emit),
            "item/mcpToolCall/progress" => {
                item = emit.required_id(params, "params.itemId", params);
                let text = emit.required_text(params, "params.message", params);
                self.story.output(item, text, &mut emit);
            }
            "turn/plan/updated" => {
                for step in emit.required_list(params, "params.plan", params) {
                    emit.required_text(step, "params.plan[].step", params);
                }
                emit.plan(plan(params));
            }
            "thread/tokenUsage/updated" => {
                let counts = emit.required_object(params, "params.tokenUsage", params);
                emit.required_object(counts, "params.tokenUsage.total", params);
                emit.required_object(counts, "params.tokenUsage.last", params);
                let sums = Tokens::read(&counts["total"]);
                if self.sums.replace(sums) != Some(sums) {
                    self.spent = self.spent.plus(Tokens::read(&counts["last"]));
                    let mut usage = self.spent.usage();
                    usage.context_used = counts["last"].count("totalTokens");
                    usage.context_size = counts.count("modelContextWindow");
                    self.usage = Some(usage.clone());
                    emit.usage(usage);
                }
            }
            "error" => {
                let error = &params["error"];
                let message = emit.required_text(error, "params.error.message", params);
                if params.is_true("willRetry") {
                    let why = error.text("additionalDetails").unwrap_or_default();
                    let reason = if why.is_empty() {
                        message.to_owned()
                    } else {
                        format!("{message}: {why}")
                    };
                    let kind = match failure::failure(why, &error["codexErrorInfo"]).kind {
                        FailureKind::Other => FailureKind::Overloaded,
                        kind => kind,
                    };
                    // The model will repeat what it wrote so far.
                    self.story.answer.withdraw(&mut emit);
                    emit.retry(kind, reason, None);
                } else {
                    self.error = Some((message.to_owned(), error["codexErrorInfo"].to_static()));
                }
            }
            "model/rerouted" => {
                emit.notice(format!(
                    "The model provider changed the model to {}.",
                    params.text("toModel").unwrap_or("another")
                ));
            }
            _ => return false,
        }
        true
    }
}
