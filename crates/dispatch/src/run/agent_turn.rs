//! Runs a prepared turn with its agent and creates the answer.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use tokio::sync::mpsc;

use super::audience::{TurnAudience, TurnView};
use super::redact_stream::StreamRedactor;
use super::session::EndedSession;
use super::{EventTurn, artifacts, turn_log};
use crate::agent_run::{BegunRun, EndedRun, RunName};
use crate::deps::DispatcherDeps;
use crate::observers::LiveTurn;
use crate::outlet::limited::{CutTurn, LimitedTurn};
use crate::outlet::{Offer, TurnAnswer, messages};
use crate::part::{Gateway, TurnContext};
use crate::plan::TurnPlan;
use crate::questions::QuestionContext;
use aetheel_model::event::{Event, EventKind};
use aetheel_model::plain::folded;
use aetheel_model::tool_summary::tool_summary;
use aetheel_recording::{Ending, GuestFailure};
use aetheel_runtime::figures;
use aetheel_turn::{Steering, TurnRequest, TurnResult};

/// The lines below an answer, and the files and buttons of it.
struct AnswerParts {
    text: String,
    notices: Vec<String>,
    files: Vec<crate::AnswerFile>,
    offer: Option<Offer>,
}

impl EventTurn {
    /// Runs a prepared turn to its end, and creates its answer.
    pub(super) async fn run_agent(
        &mut self,
        mut plan: TurnPlan,
        steers: mpsc::UnboundedReceiver<Steering>,
    ) -> TurnAnswer {
        let turn = self.turn.clone();
        let (context, shown) = self.begin(&plan).await;
        let mut audience = TurnAudience {
            view: TurnView {
                stream: StreamRedactor::new(&turn.shared.deps.redactor),
                shown,
                reply: self.reply(),
            },
            questions: turn.shared.questions.clone(),
            context,
            asks: HashMap::new(),
            kept: turn.progress.clone(),
            first_tool: None,
            parts: &mut self.parts,
        };
        let request = TurnRequest {
            id: turn.id.clone(),
            event: turn.event.sequence,
            lane: turn.event.lane.clone(),
            backend: Arc::clone(&plan.backend),
            start: plan.start.clone(),
            blobs: plan.files.blobs.clone(),
            stop: turn.stop.clone(),
            steers,
            continued: plan.continued.take(),
        };
        let mut result = aetheel_turn::run(request, &turn.shared.links, &mut audience).await;
        // An empty answer to a heartbeat means that there is nothing to say.
        if turn.event.kind == EventKind::Heartbeat {
            result.findings.allow_silence();
        }
        turn.progress.hold_turn_place(std::mem::take(&mut result.slot));
        audience.flush();
        drop(audience);
        let parts = self.end_agent(&mut plan, &result).await;
        answer(&turn, &plan, result, parts)
    }

    /// Registers the turn as running, and lets the parts begin.
    async fn begin(&mut self, plan: &TurnPlan) -> (QuestionContext, Arc<LiveTurn>) {
        let (turn, reply) = (self.turn.clone(), self.reply());
        let TurnContext { event, id, shared, .. } = &*turn;
        let (backend, gateway) = (&plan.backend, Gateway { shared });
        let name = &backend.descriptor().name;
        tracing::Span::current()
            .record("backend", name)
            .record("generation", tracing::field::display(backend.generation()));
        tracing::info!(resume = plan.start.native_id.is_some(), "turn begins");
        let shown = Arc::new(LiveTurn::new(shared.lanes.turn_changes.clone()));
        let expansion = plan.expansion();
        shared.lanes.set_backend(&event.lane, id, backend, &expansion, &reply, &shown);
        let (start, lane, is_resumed) = (&plan.start, &plan.lane, plan.continued.is_some());
        gateway.agent_begins(&BegunRun { event, id, backend: &**backend, start, lane, is_resumed });
        let feed = gateway.feed(RunName { event, id, backend: name });
        for part in &mut self.parts {
            part.begin(plan, &feed).await;
        }
        let context = QuestionContext {
            turn: id.clone(),
            lane: event.lane.clone(),
            span: tracing::Span::current(),
            asker: event.asker,
            expansion,
            feed,
            collision: None,
            decided_by: Arc::default(),
        };
        (context, shown)
    }

    /// Saves the session of the turn and the files of its answer, and lets the parts end.
    async fn end_agent(&mut self, plan: &mut TurnPlan, result: &TurnResult) -> AnswerParts {
        let turn = self.turn.clone();
        let TurnContext { event, id, shared, .. } = &*turn;
        // The agent needs the files of the prompt no more.
        drop(std::mem::take(&mut plan.files));
        let name = plan.backend.descriptor().name.clone();
        report(&shared.deps, &name, result);
        let (lost, requested) = (&shared.lost_replies, plan.start.native_id.as_deref());
        let offer = lost.keep_unread(event, id, &name, &plan.binding, requested, result).await;
        let run = RunName { event, id, backend: &name };
        Gateway { shared }.agent_ended(&EndedRun { name: run, result });
        let mut notices = std::mem::take(&mut plan.notices);
        self.parts.iter_mut().for_each(|part| part.notices(&mut notices));
        notices.extend(EndedSession { turn: &turn, plan, result }.save().await);
        if plan.binding.unreadable {
            notices.push(
                "The saved state of this conversation could not be read; this is a new one."
                    .to_owned(),
            );
        }
        let (files, left) = artifacts::store_artifacts(&shared.deps, &result.transcript).await;
        notices.extend(left);
        notices.extend(artifacts::notices(&result.transcript));
        let (who, text) = (on_behalf(event), result.text.clone());
        let channels = &shared.channels;
        let (text, notices) =
            channels.remember(&event.lane, who.as_deref(), text, folded(notices)).await;
        AnswerParts { text, notices, files, offer }
    }
}

/// Returns the answer of a turn that has ended.
fn answer(
    turn: &TurnContext,
    plan: &TurnPlan,
    result: TurnResult,
    parts: AnswerParts,
) -> TurnAnswer {
    let TurnContext { event, id, shared, .. } = turn;
    let AnswerParts { text, notices, files, offer } = parts;
    let (descriptor, now) = (plan.backend.descriptor(), turn.now());
    let is_resumed = plan.start.native_id.is_some();
    let asked_model = plan.start.settings.model.clone();
    let local = now.to_zoned(TimeZone::system());
    let recordings = shared.deps.recorder.folder();
    TurnAnswer {
        failure: messages::failure_message(
            &result.ending,
            Some(&event.lane),
            shared.deps.host.limits.query_timeout,
            result.transcript.retry(),
            offer.is_some(),
            id,
        ),
        detail: messages::failure_detail(&result.ending),
        agent_lost: result.findings.orphaned,
        paused: matches!(result.ending, Ending::Backend(GuestFailure::Paused(_))),
        limit: LimitedTurn::of(&result, descriptor, asked_model.clone(), is_resumed, &local),
        cut: CutTurn::of(&result, descriptor, is_resumed),
        turn: Some(turn_log::line_of(event, now, id, descriptor, recordings, &result)),
        text,
        notices,
        backend: descriptor.label().to_owned(),
        tools: tool_summary(&result.transcript, &shared.deps.redactor),
        model: result.session.and_then(|session| session.model).or(asked_model),
        usage: result.usage,
        took: result.took,
        files,
        offer,
        continuation: None,
        ping: event.asker.filter(|_| plan.lane.ping.is_some_and(|after| result.took >= after)),
    }
}

/// Logs and counts the result of an agent's turn.
pub(crate) fn report(deps: &DispatcherDeps, backend: &str, result: &TurnResult) {
    let took_ms = u64::try_from(result.took.as_millis()).unwrap_or(u64::MAX);
    let (ending, recording) = (result.ending.word(), &result.link);
    match messages::failure_detail(&result.ending) {
        None => tracing::info!(recording, ending, took_ms, "turn ended"),
        Some(detail) => {
            let confined = deps.host.reach_policy.is_some();
            let hint = messages::sandbox_hint(&result.ending).filter(|_| confined);
            tracing::warn!(recording, ending, took_ms, detail, hint, "turn failed");
        }
    }
    figures::turn_ended(backend, ending, result.took);
    for (what, count) in result.transcript.unrecognised() {
        tracing::debug!(
            what,
            count,
            "the agent sent output that this backend does not recognise; a newer backend may"
        );
    }
}

/// Returns the name and id of the event's author, in the form used in the agent's memory.
fn on_behalf(event: &Event) -> Option<String> {
    let name = event.author.as_deref()?;
    Some(event.asker.map_or_else(|| name.to_owned(), |id| format!("{name}, {id}")))
}
