//! A turn: how far it is, and what is told of it while it runs.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{Action, FailureKind, Outcome, StartTurn, TurnRef, Usage};
use aetheel_backend_sdk::{Emit, TurnResult};

use crate::failure;
use crate::native_id::NativeId;
use crate::story::{Story, plan};
use crate::tokens::Tokens;

/// A turn from its request to its end, with the story so far.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) key: TurnRef,
    pub(crate) stage: Stage,
    pub(crate) story: Story,
    pub(crate) spent: Tokens,
    /// Sums last told: the same ones again are no further use of the model.
    pub(crate) sums: Option<Tokens>,
    pub(crate) usage: Option<Usage>,
    /// Message and Codex' word of the last error that was not tried again.
    pub(crate) error: Option<(String, Value<'static>)>,
    /// Threads of sub-agents, and the tool each belongs to.
    pub(crate) children: Vec<(String, String)>,
    /// The thread that was asked for, and whether a copy of it was.
    pub(crate) asked: Option<NativeId>,
    pub(crate) fork: bool,
    /// The id the host has.
    pub(crate) known: Option<String>,
    /// The model that was chosen.
    pub(crate) model: Option<String>,
}

/// How far a turn is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// For the agent, or for its thread.
    Waiting,
    /// `turn/start` is not answered yet.
    Asked,
    /// The agent's id of it.
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
            asked: start.native_id.as_deref().and_then(NativeId::parse),
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

    /// Takes in what is told of a running turn. Returns false for what it does not know.
    pub(crate) fn told(&mut self, method: &str, params: &Value, out: &mut Vec<Action>) -> bool {
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
                let said = emit.required_text(params, "params.message", params);
                self.story.output(item, said, &mut emit);
            }
            "turn/plan/updated" => {
                for step in emit.required_list(params, "params.plan", params) {
                    emit.required_text(step, "params.plan[].step", params);
                }
                emit.plan(plan(params));
            }
            "thread/tokenUsage/updated" => {
                let told = emit.required_object(params, "params.tokenUsage", params);
                emit.required_object(told, "params.tokenUsage.total", params);
                emit.required_object(told, "params.tokenUsage.last", params);
                let sums = Tokens::read(&told["total"]);
                if self.sums.replace(sums) != Some(sums) {
                    self.spent = self.spent.plus(Tokens::read(&told["last"]));
                    let mut usage = self.spent.usage();
                    usage.context_used = told["last"].count("totalTokens");
                    usage.context_size = told.count("modelContextWindow");
                    self.usage = Some(usage.clone());
                    emit.usage(usage);
                }
            }
            "error" => {
                let error = &params["error"];
                let message = emit.required_text(error, "params.error.message", params);
                if params.is_true("willRetry") {
                    let why = error.text("additionalDetails").unwrap_or_default();
                    let told = if why.is_empty() {
                        message.to_owned()
                    } else {
                        format!("{message}: {why}")
                    };
                    let kind = match failure::failure(why, &error["codexErrorInfo"]).kind {
                        FailureKind::Other => FailureKind::Overloaded,
                        kind => kind,
                    };
                    // What it said so far it will say again.
                    self.story.answer.withdraw(&mut emit);
                    emit.retry(kind, told, None);
                } else {
                    self.error = Some((message.to_owned(), error["codexErrorInfo"].to_static()));
                }
            }
            "model/rerouted" => {
                emit.notice(format!(
                    "The model was changed to {} by its service.",
                    params.text("toModel").unwrap_or("another")
                ));
            }
            _ => return false,
        }
        true
    }
}
