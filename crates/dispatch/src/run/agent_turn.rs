//! Runs a prepared turn with its agent and creates the answer.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::audience::{ToolGate, TurnAudience, TurnView};
use super::prepare::{PreparedTurn, TurnControls};
use super::redact_stream::StreamRedactor;
use super::{TurnRunner, artifacts, turn_log};
use crate::delegated::CallingTurn;
use crate::observers::LiveTurn;
use crate::outlet::handle::ReplyHandle;
use crate::outlet::limited::{CutTurn, LimitedTurn};
use crate::outlet::{TurnAnswer, messages};
use crate::persistence::EventProgress;
use crate::questions::QuestionContext;
use crate::questions::planning::Planning;
use crate::questions::policies::PolicyGate;
use crate::turn_feed::TurnFeed;
use aetheel_model::event::{AgentRights, Event, EventKind};
use aetheel_model::plain::folded;
use aetheel_model::prompt::Expansion;
use aetheel_model::tool_summary::tool_summary;
use aetheel_recording::{Ending, GuestFailure};
use aetheel_runtime::figures;
use aetheel_store::workspace::LaneSettings;
use aetheel_turn::{TurnRequest, TurnResult};

impl TurnRunner {
    /// Runs a prepared turn to its end, and creates its answer.
    pub(super) async fn run_prepared(
        &self,
        event: &Event,
        begun: PreparedTurn,
        lane: &LaneSettings,
        (stop, steers): TurnControls,
        reply: &Arc<ReplyHandle>,
        kept: &EventProgress,
    ) -> TurnAnswer {
        let PreparedTurn { id, backend, start, planning, files: taken, binding, continued } = begun;
        let planning_only = planning;
        let planning = Planning::new(planning);
        let by = Arc::clone(&backend);
        let (name, directory) = (backend.descriptor().name.clone(), PathBuf::from(&start.cwd));
        let asked_model = start.settings.model.clone();
        let requested = start.native_id.clone();
        let (label, generation) =
            (backend.descriptor().label().to_owned(), backend.generation().clone());
        tracing::Span::current()
            .record("backend", &name)
            .record("generation", tracing::field::display(&generation));
        tracing::info!(resume = requested.is_some(), "turn begins");
        turn_log::audit_begin(event, &id, &*backend, asked_model.as_deref(), continued.is_some());
        let shown = Arc::new(LiveTurn::new(self.shared.lanes.turn_changes.clone()));
        let expansion = Expansion::new(&backend.descriptor().expands, &directory);
        let lanes = &self.shared.lanes;
        lanes.set_backend(&event.lane, &id, &backend, &expansion, reply, &shown);
        let feed = TurnFeed::of(&self.shared.deps, event, &id, &name);
        feed.begun(event, lane, &*backend, &start, continued.is_some());
        let context = QuestionContext {
            turn: id.to_owned(),
            lane: event.lane.clone(),
            span: tracing::Span::current(),
            asker: event.asker,
            expansion: expansion.clone(),
            planning: planning.clone(),
            feed: feed.clone(),
            collision: None,
            decided_by: Arc::default(),
        };
        let monitor = &self.shared.collisions;
        let files = monitor.turn_files(&self.shared, event, lane, &directory).await;
        let calling = CallingTurn {
            event: event.clone(),
            backend: name.clone(),
            rights: AgentRights {
                safety: start.settings.safety,
                planning: planning_only,
                tools: start.tools.iter().map(|tool| tool.name.clone()).collect(),
            },
            checkout: files.checkout().clone(),
        };
        let policies = PolicyGate::of(&self.shared.deps, event, lane, &name, &start);
        let request = TurnRequest {
            id: id.clone(),
            event: event.sequence,
            lane: event.lane.clone(),
            backend,
            start,
            blobs: taken.blobs.clone(),
            stop,
            steers,
            continued,
        };
        let mut audience = TurnAudience {
            view: TurnView {
                stream: StreamRedactor::new(&self.shared.deps.redactor),
                shown,
                reply: reply.clone(),
            },
            questions: self.shared.questions.clone(),
            context,
            asks: HashMap::new(),
            kept: kept.clone(),
            first_tool: None,
            tools: ToolGate::new(&self.shared.deps.choices.allowed_tools, &by),
            policies: policies.clone(),
            files,
            budgets: self.shared.budgets.clone(),
            calls: (self.shared.calls.clone(), calling),
        };
        let mut result = aetheel_turn::run(request, &self.shared.links, &mut audience).await;
        // An empty answer to a heartbeat means that there is nothing to say.
        if event.kind == EventKind::Heartbeat {
            result.findings.allow_silence();
        }
        kept.hold_turn_place(std::mem::take(&mut result.slot));
        audience.flush();
        drop(audience);
        let mut notices = taken.notices.clone();
        drop(taken);
        self.report(&name, &result);
        feed.ended(&result, messages::failure_detail(&result.ending).as_deref());
        let (lost, requested_id) = (&self.shared.lost_replies, requested.as_deref());
        let offer = lost.keep_unread(event, &id, &name, &binding, requested_id, &result).await;
        self.shared.rollout.on_turn_end(&name, &id, &result);
        notices.extend(planning.notice(&self.shared.deps.redactor));
        notices.extend(policies.notice());
        notices.extend(
            self.save_session(event, &name, &binding, requested.as_deref(), &result, &directory)
                .await,
        );
        if binding.unreadable {
            notices.push(
                "The saved state of this conversation could not be read; this is a new one."
                    .to_owned(),
            );
        }
        let (files, left) = artifacts::store_artifacts(&self.shared.deps, &result.transcript).await;
        notices.extend(left);
        notices.extend(artifacts::notices(&result.transcript));
        let notices = folded(notices);
        let (channels, who, text) = (&self.shared.channels, on_behalf(event), result.text.clone());
        let (text, notices) = channels.remember(&event.lane, who.as_deref(), text, notices).await;
        let (is_resumed, now) = (requested.is_some(), self.shared.now());
        let local = now.to_zoned(TimeZone::system());
        let limit =
            LimitedTurn::of(&result, by.descriptor(), asked_model.clone(), is_resumed, &local);
        let cut = CutTurn::of(&result, by.descriptor(), is_resumed);
        let recordings = self.shared.deps.recorder.folder();
        let line = turn_log::line_of(event, now, &id, by.descriptor(), recordings, &result);
        TurnAnswer {
            failure: messages::failure_message(
                &result.ending,
                Some(&event.lane),
                self.shared.deps.host.limits.query_timeout,
                result.transcript.retry(),
                offer.is_some(),
                &id,
            ),
            detail: messages::failure_detail(&result.ending),
            agent_lost: result.findings.orphaned,
            paused: matches!(result.ending, Ending::Backend(GuestFailure::Paused(_))),
            limit,
            cut,
            text,
            notices,
            backend: label,
            model: result.session.and_then(|session| session.model).or(asked_model),
            usage: result.usage,
            took: result.took,
            tools: tool_summary(&result.transcript, &self.shared.deps.redactor),
            files,
            offer,
            continuation: None,
            ping: event.asker.filter(|_| lane.ping.is_some_and(|after| result.took >= after)),
            turn: Some(line),
        }
    }

    /// Logs and counts the result of a turn, and reports it to the drift monitor.
    pub(super) fn report(&self, backend: &str, result: &TurnResult) {
        let took_ms = u64::try_from(result.took.as_millis()).unwrap_or(u64::MAX);
        let (ending, recording) = (result.ending.word(), &result.link);
        match messages::failure_detail(&result.ending) {
            None => tracing::info!(recording, ending, took_ms, "turn ended"),
            Some(detail) => {
                let confined = self.shared.deps.host.reach_policy.is_some();
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
        let is_partial = self.shared.rollout.is_partial(backend, &result.generation);
        self.shared.drift.on_turn_end(backend, result, is_partial);
    }
}

/// Returns the name and id of the event's author, in the form used in the agent's memory.
fn on_behalf(event: &Event) -> Option<String> {
    let name = event.author.as_deref()?;
    Some(event.asker.map_or_else(|| name.to_owned(), |id| format!("{name}, {id}")))
}
