//! Between a running turn and its reply: events without secrets, questions, and what becomes of
//! them.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;

use super::question::Settlement;
use super::questions::{Context, Questions};
use super::reply::{Reply, Unseen};
use super::veil::Veil;
use crate::agent::descriptor::Feature;
use crate::agent::{
    AllowedTools, Ask, AskKey, AskKind, Decision, EventKind, ToolStart, ToolStatus, permits,
};
use crate::figures;
use crate::fold::Transcript;
use crate::plain::one_line;
use crate::turn::{Answerer, Audience, Backend, Settled};
use crate::workspace::Saving;

use super::keeping::Kept;

/// The reply of a turn, shared with whoever answers its questions while it runs.
pub(super) struct Stage(Mutex<Option<Box<dyn Reply>>>);

impl Stage {
    pub(super) fn new(reply: Box<dyn Reply>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(reply))))
    }

    /// Tells the reply something, unless it was taken.
    pub(super) fn with(&self, tell: impl FnOnce(&mut dyn Reply)) {
        if let Some(reply) = self.0.lock().as_mut() {
            tell(&mut **reply);
        }
    }

    /// Takes the reply, for its end.
    pub(super) fn take(&self) -> Option<Box<dyn Reply>> {
        self.0.lock().take()
    }
}

/// Follows one turn on behalf of its reply. Dropping it closes what is still open.
pub(super) struct Follower<'a> {
    pub(super) veil: Veil<'a>,
    pub(super) stage: Arc<Stage>,
    pub(super) questions: Arc<Questions>,
    pub(super) context: Context,
    /// Ids of the questions asked and not settled.
    pub(super) asked: HashMap<AskKey, String>,
    pub(super) kept: Kept,
    /// The first tool, until it is on disk that there was one.
    pub(super) first_tool: Option<(Saving, EventKind, Transcript)>,
    pub(super) tools: Gate,
}

/// Holds a turn's agent to the tools that the operator allows, where it asks.
pub(super) struct Gate {
    pub(super) allowed: AllowedTools,
    pub(super) backend: Arc<dyn Backend>,
}

impl Gate {
    fn permits(&self, tool: &ToolStart) -> bool {
        let descriptor = self.backend.descriptor();
        permits(&self.allowed, descriptor, tool, descriptor.has(Feature::AllowedTools))
    }

    /// Tells the operator of a tool that was used all the same.
    fn watch(&self, tool: &ToolStart) {
        let changes = matches!(tool.kind.as_str(), "bash" | "file_write" | "file_edit");
        if changes && !self.permits(tool) {
            let (tool, backend) = (one_line(&tool.native_name), &self.backend.descriptor().name);
            tracing::error!(
                tool,
                backend,
                "the agent used a tool that ALLOWED_TOOLS does not name without asking; choose another backend"
            );
        }
    }
}

impl Follower<'_> {
    /// Shows what is held back, because nothing more comes, or something else comes first.
    pub(super) fn lift(&mut self, transcript: &Transcript) {
        self.veil.lift(|event| self.stage.with(|reply| reply.update(event, transcript)));
    }
}

impl Audience for Follower<'_> {
    fn event(&mut self, event: &EventKind, transcript: &Transcript) {
        if matches!(event, EventKind::ToolStart(_))
            && let Some(saving) = self.kept.used_tool()
        {
            // Nobody sees of it what a crash could take back.
            self.first_tool = Some((saving, event.clone(), transcript.clone()));
            return;
        }
        if let EventKind::ToolEnd(end) = event
            && end.status == ToolStatus::Ok
            && let Some(tool) = transcript.tool(&end.id)
        {
            self.tools.watch(&tool.start);
        }
        self.veil.pass(event, |event| self.stage.with(|reply| reply.update(event, transcript)));
    }

    fn before_more(&mut self) -> Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> {
        let (saving, event, transcript) = self.first_tool.take()?;
        let shown = async move {
            // Where it cannot be written now, it is as soon as may be.
            saving.done().await;
            self.veil
                .pass(&event, |event| self.stage.with(|reply| reply.update(event, &transcript)));
        };
        Some(Box::pin(shown))
    }

    fn ask(&mut self, ask: &Ask, answer: Answerer) {
        if let AskKind::Permission(tool) = &ask.kind
            && !self.tools.permits(tool)
        {
            tracing::warn!(
                tool = one_line(&tool.native_name),
                kind = tool.kind,
                "refused the agent a tool that ALLOWED_TOOLS does not name"
            );
            answer.decide(Decision::Deny(Some(
                "The operator does not allow this tool here.".to_owned(),
            )));
            return;
        }
        if let Some(refusal) = self.context.planning.refusal(&ask.kind) {
            tracing::info!(title = one_line(&ask.title), "refused the agent what is no planning");
            answer.decide(refusal);
            return;
        }
        let question = self.questions.open(self.context.clone(), ask, answer, &self.stage);
        if let Some(before) = self.asked.insert(ask.ask, question.id.clone()) {
            self.questions.close(&before);
        }
        let (questions, id) = (Arc::clone(&self.questions), question.id.clone());
        let unseen = Unseen::new(move || {
            if questions.close(&id) {
                figures::question("unseen");
                tracing::warn!(
                    question = id,
                    "nobody can see the agent's question; it was dismissed"
                );
            }
        });
        self.stage.with(|reply| reply.ask(&question, unseen));
    }

    fn settled(&mut self, ask: AskKey, how: Settled) {
        let Some(id) = self.asked.remove(&ask) else { return };
        // Otherwise somebody was quicker, and it was told.
        if self.questions.close(&id) {
            let (how, word) = match how {
                Settled::Withdrawn => (Settlement::Withdrawn, "withdrawn"),
                Settled::Expired => (Settlement::Expired, "expired"),
                Settled::TurnEnded => (Settlement::TurnEnded, "turn-ended"),
            };
            figures::question(word);
            tracing::info!(question = id, ?how, "question closed without an answer");
            self.stage.with(|reply| reply.settled(&id, &how));
        }
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        for id in self.asked.values() {
            self.questions.close(id);
        }
    }
}
