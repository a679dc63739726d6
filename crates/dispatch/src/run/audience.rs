//! Connects a running turn to its reply: shows redacted events, and opens the questions of the
//! agent.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::redact_stream::StreamRedactor;
use crate::delegated::CallContext;
use crate::observers::LiveTurn;
use crate::outlet::QuestionDismissal;
use crate::outlet::handle::ReplyHandle;
use crate::outlet::question::Settlement;
use crate::part::{PartOfTurn, Refusal};
use crate::persistence::EventProgress;
use crate::questions::{QuestionContext, Questions, question_id};
use aetheel_model::agent::{AgentEventKind, Ask, AskDecision, AskKey, AskKind};
use aetheel_model::fold::Transcript;
use aetheel_model::observed::ObservedKind;
use aetheel_model::policy::PolicyRuling;
use aetheel_store::workspace::PendingSave;
use aetheel_turn::{
    Answerer, AskCloseReason, Audience, DelegatedCall, Judgement, NewsKind, TurnNews,
};

/// Shows one turn in its reply. Dropping it closes the open questions.
pub(super) struct TurnAudience<'a> {
    pub(super) view: TurnView<'a>,
    pub(super) questions: Arc<Questions>,
    pub(super) context: QuestionContext,
    pub(super) asks: HashMap<AskKey, AskProgress>,
    pub(super) kept: EventProgress,
    /// The start of the first tool, until its record is on disk.
    pub(super) first_tool: Option<(PendingSave, AgentEventKind)>,
    pub(super) parts: &'a mut [Box<dyn PartOfTurn>],
}

/// The parts of a turn that people and observers see, without secrets.
pub(super) struct TurnView<'a> {
    pub(super) stream: StreamRedactor<'a>,
    /// The visible part of the turn.
    pub(super) shown: Arc<LiveTurn>,
    pub(super) reply: Arc<ReplyHandle>,
}

/// The last question that the backend asked with one key.
#[derive(Default)]
pub(super) struct AskProgress {
    /// The id of the open question.
    open: Option<String>,
    /// Why people are asked about the files of the request, until they are asked.
    collision: Option<String>,
}

impl TurnView<'_> {
    /// Shows an event with the transcript so far, and passes it to observers. Both have no secrets.
    fn pass(&mut self, event: &AgentEventKind, observe: impl Fn(&AgentEventKind)) {
        let Self { stream, shown, reply } = self;
        stream.pass(event, |event| {
            observe(event);
            show(shown, reply, event);
        });
    }
}

impl TurnAudience<'_> {
    /// Shows everything that was held back, before the end of the turn or another part of it.
    pub(super) fn flush(&mut self) {
        self.pass_first_tool();
        let TurnView { stream, shown, reply } = &mut self.view;
        stream.flush(|event| {
            self.context.feed.agent_event(event);
            show(shown, reply, event);
        });
    }

    /// Shows an event of the agent.
    fn on_event(&mut self, event: &AgentEventKind, news: &TurnNews) {
        // A first tool is still pending here only if the turn is being stopped, which does not wait
        // for the disk.
        self.pass_first_tool();
        let saving = event.tool_start().and_then(|_| self.kept.record_tool_use());
        // The journal has the record of a replayed tool already, or gets it soon.
        if let Some(saving) = saving.filter(|_| !news.replayed) {
            // The tool is shown once its record is on disk. Otherwise, after a crash, people could
            // have seen a tool that the next process does not know of.
            self.first_tool = Some((saving, event.clone()));
            return;
        }
        let feed = &self.context.feed;
        self.view.pass(event, |event| match news.at_ms {
            // The observers got it from the previous process.
            Some(at_ms) => feed.past_event(event, at_ms),
            None if news.replayed => {}
            None => feed.agent_event(event),
        });
    }

    fn pass_first_tool(&mut self) {
        if let Some((_, event)) = self.first_tool.take() {
            self.view.pass(&event, |event| self.context.feed.agent_event(event));
        }
    }

    fn on_ruling(&mut self, ask: &Ask, ruling: &PolicyRuling) {
        if let Some(reason) = ruling.collision() {
            self.asks.entry(ask.ask).or_default().collision = Some(reason.to_owned());
        }
        if ruling.is_final() {
            let policy = ruling.decisive().map(|vote| vote.policy.as_str());
            let entry = self.context.decided(ask, "policy", ruling.effect.word());
            entry.with_known("policy", policy).note();
        }
    }

    /// Returns whether people are asked before a call is carried out.
    fn asks_people(&self, call: &DelegatedCall) -> bool {
        self.parts.iter().any(|part| part.asks_people(call))
    }

    fn on_settled(&mut self, ask: AskKey, how: AskCloseReason) {
        let asked = self.asks.get_mut(&ask).and_then(|progress| progress.open.take());
        let Some(id) = asked else { return };
        let (how, word) = match how {
            AskCloseReason::Withdrawn => (Settlement::Withdrawn, "withdrawn"),
            AskCloseReason::Expired => (Settlement::Expired, "expired"),
            AskCloseReason::TurnEnded => (Settlement::TurnEnded, "turn-ended"),
        };
        // Otherwise a person has answered in the meantime, and the reply shows that.
        if self.questions.close_unanswered(&id, word) {
            tracing::info!(question = id, ?how, "question closed without an answer");
            let question = id.clone();
            let closed = ObservedKind::QuestionClosed { question, result: word, person: None };
            self.context.feed.send(closed);
            self.view.reply.with(|reply| reply.question_settled(&id, &how));
        }
    }
}

fn show(shown: &LiveTurn, reply: &ReplyHandle, event: &AgentEventKind) {
    shown.apply(event, |transcript| reply.with(|reply| reply.update(event, transcript)));
}

impl Audience for TurnAudience<'_> {
    fn on(&mut self, news: &TurnNews, transcript: &Transcript) {
        self.parts.iter_mut().for_each(|part| part.on(news, transcript));
        match &news.kind {
            NewsKind::Event(event) => self.on_event(event, news),
            NewsKind::Ruled(ask, ruling) if !news.replayed => self.on_ruling(ask, ruling),
            NewsKind::Ruled(..) | NewsKind::Answered(..) => {}
            NewsKind::Settled(ask, how) => self.on_settled(*ask, *how),
            // People did not see these.
            NewsKind::Asked(ask) if refuse(self.parts, ask).is_some() => {}
            NewsKind::Called(call) if !self.asks_people(call) => {}
            NewsKind::Asked(_) | NewsKind::Called(_) | NewsKind::Steered => {
                self.view.reply.with(|reply| reply.was_interrupted());
            }
        }
    }

    fn until_durable(&mut self) -> Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> {
        let (saving, _) = self.first_tool.as_ref()?;
        let saving = saving.clone();
        let shown = async move {
            self.kept.retry_until_saved(saving).await;
            self.pass_first_tool();
        };
        Some(Box::pin(shown))
    }

    fn judge(&mut self, ask: &Ask) -> Option<Judgement> {
        // No policy can allow what the operator's settings exclude.
        let is_request = matches!(ask.kind, AskKind::Permission(_));
        if !is_request || self.parts.iter().any(|part| part.excludes(ask)) {
            return None;
        }
        self.parts.iter_mut().fold(None, |earlier, part| part.judge(ask, earlier))
    }

    fn ask(&mut self, ask: &Ask, time: u32, answer: Answerer) {
        if let Some(Refusal { by, reason }) = refuse(self.parts, ask) {
            self.context.decided(ask, by, "deny").note();
            answer.decide(AskDecision::Deny(Some(reason)));
            return;
        }
        let progress = self.asks.entry(ask.ask).or_default();
        let collision = progress.collision.take();
        let context = QuestionContext { collision, ..self.context.clone() };
        let question = self.questions.open(context, ask, time, answer, &self.view.reply);
        if let Some(before) = progress.open.replace(question.id.clone()) {
            self.questions.close(&before);
        }
        let (questions, id) = (Arc::clone(&self.questions), question.id.clone());
        let unseen = QuestionDismissal::new(move || {
            if questions.close_unanswered(&id, "unseen") {
                tracing::warn!(
                    question = id,
                    "nobody can see the agent's question; it was dismissed"
                );
            }
        });
        self.view.reply.with(|reply| reply.ask(&question, unseen));
    }

    fn delegate(&mut self, call: &DelegatedCall, answer: Answerer) {
        // After a restart, the question has the same id.
        let id = question_id(&self.context.turn, call.key, 1);
        self.asks.entry(call.key).or_default().open = Some(id);
        let context =
            CallContext { question: &self.context, reply: &self.view.reply, progress: &self.kept };
        let mut answer = Some(answer);
        for part in self.parts.iter_mut() {
            answer = answer.and_then(|answer| part.delegate(call, answer, &context));
        }
        // Dropping it fails the call.
        drop(answer);
    }
}

/// Returns the refusal of a request that the operator's settings exclude.
fn refuse(parts: &mut [Box<dyn PartOfTurn>], ask: &Ask) -> Option<Refusal> {
    parts.iter_mut().find_map(|part| part.refuse(ask))
}

impl Drop for TurnAudience<'_> {
    fn drop(&mut self) {
        for id in self.asks.values().filter_map(|progress| progress.open.as_ref()) {
            self.questions.close(id);
        }
    }
}
