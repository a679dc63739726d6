//! The task of one observer: passes events to its guest, and writes the lines that it returns.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;

use super::world::{ExtensionGuests, ObserverGuestWorld, call_guest};
use crate::bindings::observer::TurnObserver;
use crate::bindings::observer::exports::aetheel::observer::observer as wit;
use crate::breaker::Breaker;
use crate::instance::{Instance, refused};
use aetheel_model::observed::{ObservedEvent, ObservedKind};
use aetheel_recording::GuestFailure;
use aetheel_runtime::figures::{self, ObservedResult};
use aetheel_store::disk::RotatingLines;

/// Maximum number of events of one call.
const BATCH: usize = 256;
const LINE_BYTES: usize = 16 << 10;
/// Maximum size of the lines of one call in bytes.
const CALL_BYTES: usize = 1 << 20;

pub(super) struct ObserverWorker {
    pub(super) guests: Arc<ExtensionGuests<ObserverGuestWorld>>,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) output: RotatingLines,
}

type ObserverGuest = Instance<TurnObserver>;

impl ObserverWorker {
    /// Passes events to the observer until its queue is closed and empty.
    pub(super) async fn run(self, mut events: mpsc::Receiver<wit::Event>) {
        let (mut guest, mut breaker) = (None, Breaker::default());
        let mut batch = Vec::with_capacity(BATCH);
        while events.recv_many(&mut batch, BATCH).await > 0 {
            let count = batch.len() as u64;
            if breaker.open_for(Instant::now()).is_some() {
                figures::observed(&self.name, ObservedResult::Dropped, count);
            } else {
                match self.observe(guest.take(), &batch).await {
                    Ok((next, lines)) => {
                        figures::observed(&self.name, ObservedResult::Seen, count);
                        guest = Some(next);
                        self.write(lines).await;
                    }
                    Err(failure) => self.failed(&failure, count, &mut breaker),
                }
            }
            batch.clear();
        }
        if let Some(mut guest) = guest {
            match call_guest!(guest.aetheel_observer_observer.call_finish()) {
                Ok(lines) => self.write(lines).await,
                Err(failure) => self.failed(&failure, 0, &mut breaker),
            }
        }
    }

    async fn observe(
        &self,
        guest: Option<ObserverGuest>,
        events: &[wit::Event],
    ) -> Result<(ObserverGuest, Vec<String>), GuestFailure> {
        let mut guest = match guest {
            Some(guest) => guest,
            None => started(&self.guests).await?,
        };
        let lines = call_guest!(guest.aetheel_observer_observer.call_observe(events))?;
        Ok((guest, lines.map_err(refused)?))
    }

    /// Counts and logs a failure. After five within a minute, events are dropped for a while.
    fn failed(&self, failure: &GuestFailure, events: u64, breaker: &mut Breaker) {
        figures::observed(&self.name, ObservedResult::Failed, events);
        let (observer, version) = (&self.name, &self.version);
        let failure = failure.to_string().replace("the backend", "the observer");
        tracing::warn!(
            observer,
            version,
            failure,
            events,
            "an observer failed, so events are lost"
        );
        if breaker.record_failure(Instant::now()) {
            tracing::error!(
                observer,
                version,
                "5 failures within a minute: the observer gets no events for a while; hint: install a fixed version, or remove its file"
            );
        }
    }

    /// Appends lines to the observer's file. An error is logged, and the lines are lost.
    async fn write(&self, lines: Vec<String>) {
        let (lines, left_out) = bounded(lines);
        if left_out > 0 {
            tracing::warn!(
                observer = self.name,
                left_out,
                "the observer returned more than {CALL_BYTES} bytes at once, so lines are left out"
            );
        }
        if lines.is_empty() {
            return;
        }
        let output = self.output.clone();
        let written = tokio::task::spawn_blocking(move || output.append(&lines)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(observer = self.name, %error, "the lines of an observer cannot be written; hint: check the free space and the permissions of CONFIG_DIR");
        }
    }
}

/// Starts a guest and passes the operator's options to it.
pub(super) async fn started(
    guests: &ExtensionGuests<ObserverGuestWorld>,
) -> Result<ObserverGuest, GuestFailure> {
    let mut guest = guests.start().await?;
    call_guest!(guest.aetheel_observer_observer.call_configure(&guests.options))?
        .map_err(refused)?;
    Ok(guest)
}

/// Returns lines that are short and have no line breaks, and the number of lines that were left
/// out.
fn bounded(lines: Vec<String>) -> (Vec<String>, usize) {
    let (mut short_lines, mut size, all) = (Vec::new(), 0, lines.len());
    for mut line in lines {
        line.truncate(line.floor_char_boundary(LINE_BYTES));
        size += line.len() + 1;
        if size > CALL_BYTES {
            break;
        }
        if line.contains(char::is_control) {
            line = line.replace(char::is_control, " ");
        }
        short_lines.push(line);
    }
    let left_out = all - short_lines.len();
    (short_lines, left_out)
}

pub(super) fn converted(event: &ObservedEvent) -> wit::Event {
    let kind = match event.kind.clone() {
        ObservedKind::TurnBegun {
            trigger,
            person,
            project,
            backend_version,
            model,
            is_resumed: resumed,
            // Not part of the contract.
            waited_ms: _,
        } => wit::EventKind::TurnBegun(wit::TurnBegun {
            trigger,
            person,
            project,
            backend_version,
            model,
            resumed,
        }),
        ObservedKind::ToolBegun { id, parent, tool_kind: kind, tool, target } => {
            wit::EventKind::ToolBegun(wit::ToolBegun { id, parent, kind, tool, target })
        }
        ObservedKind::ToolEnded { id, status, exit_code } => {
            let status = status.to_owned();
            wit::EventKind::ToolEnded(wit::ToolEnded { id, status, exit_code })
        }
        ObservedKind::QuestionOpened { question, about, title } => {
            let kind = about.to_owned();
            wit::EventKind::QuestionOpened(wit::QuestionOpened { question, kind, title })
        }
        ObservedKind::QuestionClosed { question, result, person } => {
            let outcome = result.to_owned();
            wit::EventKind::QuestionClosed(wit::QuestionClosed { question, outcome, person })
        }
        ObservedKind::PolicyDecided { tool, target, effect, reason } => {
            let effect = effect.to_owned();
            wit::EventKind::PolicyDecided(wit::PolicyDecided { tool, target, effect, reason })
        }
        ObservedKind::TurnEnded { ending, failure, took_ms, tools, model, usage } => {
            wit::EventKind::TurnEnded(wit::TurnEnded {
                ending: ending.to_owned(),
                failure,
                took_ms: took_ms as f64,
                tools,
                model,
                usage: usage.map(|usage| wit::Usage {
                    input: usage.input,
                    output: usage.output,
                    cached: usage.cached,
                    cost_usd: usage.cost_usd,
                }),
            })
        }
    };
    let turn = &event.turn;
    wit::Event {
        at_ms: event.at_ms as f64,
        turn: turn.turn.clone(),
        lane: turn.lane.clone(),
        backend: turn.backend.clone(),
        kind,
    }
}

/// Returns the event with which an observer is tested before it is used.
pub(super) fn first_event() -> wit::Event {
    wit::Event {
        at_ms: 946_684_800_000.0,
        turn: "00000000".to_owned(),
        lane: "console".to_owned(),
        backend: "candidate".to_owned(),
        kind: wit::EventKind::TurnBegun(wit::TurnBegun {
            trigger: "message".to_owned(),
            person: None,
            project: None,
            backend_version: "1".to_owned(),
            model: None,
            resumed: false,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_short_and_have_no_line_breaks() {
        let (lines, left_out) = bounded(vec!["a\nb\u{1b}c".to_owned(), "x".repeat(1 << 20)]);
        assert_eq!((lines[0].as_str(), lines[1].len(), left_out), ("a b c", LINE_BYTES, 0));
        let (lines, left_out) = bounded(vec!["x".repeat(LINE_BYTES); 1_000]);
        assert!(lines.len() < 64 && lines.len() + left_out == 1_000, "{}", lines.len());
    }
}
