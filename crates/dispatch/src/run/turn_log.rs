//! The lines of finished turns in `state/turns`. Each turn gets exactly one line, even if it fails
//! or the gateway restarts. (The log's line about a turn's end is not written here.)
//!
//! A turn's line is saved in the journal together with its answer. A process that delivers the
//! answer of a previous process checks whether that process wrote the line. Tested by
//! `tests/gateway/turns.rs`.

use std::path::Path;

use jiff::Timestamp;

use crate::deps::DispatcherDeps;
use crate::outlet::TurnAnswer;
use crate::part::Gateway;
use aetheel_model::agent::Descriptor;
use aetheel_model::budget::BudgetSubject;
use aetheel_model::event::{Event, EventOrigin};
use aetheel_model::plain::clean_text;
use aetheel_model::shown_time::readable;
use aetheel_recording::Ending;
use aetheel_store::workspace::{TurnLine, TurnStatus};
use aetheel_turn::TurnResult;

/// The failure of a turn that the gateway did not start or resume.
const REFUSED: &str = "refused";

/// Returns the line of a turn that ran an agent and has ended, without its texts. `recordings` is the folder of
/// all recordings.
pub(crate) fn line_of(
    event: &Event,
    ended: Timestamp,
    id: &str,
    backend: &Descriptor,
    recordings: &Path,
    result: &TurnResult,
) -> Box<TurnLine> {
    let how = match &result.ending {
        Ending::Completed => TurnStatus::Done,
        Ending::Interrupted | Ending::ShutDown => TurnStatus::Stopped,
        ending => TurnStatus::Failed(word(ending)),
    };
    Box::new(TurnLine {
        took_ms: u64::try_from(result.took.as_millis()).unwrap_or(u64::MAX),
        component: backend.version.clone(),
        digest: result.generation.digest.clone(),
        agent_version: result.agent_version.clone(),
        tools: u32::try_from(result.transcript.tools().len()).unwrap_or(u32::MAX),
        usage: result.usage.clone(),
        recording: result.recording.strip_prefix(recordings).ok().map(Path::to_owned),
        link: Some(result.link.clone()),
        ..line_without_agent(event, ended, id, &backend.name, how)
    })
}

/// Returns the line of a turn that ended without having run an agent.
fn line_without_agent(
    event: &Event,
    ended: Timestamp,
    id: &str,
    backend: &str,
    how: TurnStatus,
) -> TurnLine {
    TurnLine {
        ended,
        took_ms: 0,
        turn: id.to_owned(),
        event: event.sequence,
        lane: event.lane.clone(),
        parent: event.parent,
        project: None,
        kind: event.kind,
        user: event.asker,
        name: event.author.clone(),
        message: match event.origin {
            EventOrigin::Message { message, .. } => Some(message),
            _ => None,
        },
        backend: backend.to_owned(),
        component: String::new(),
        digest: String::new(),
        agent_version: None,
        model: None,
        how,
        tools: 0,
        usage: None,
        recording: None,
        link: None,
        asked: None,
        answered: None,
    }
}

/// Returns the kind of an agent's failure, or the word for the ending.
fn word(ending: &Ending) -> String {
    let kind = match ending {
        Ending::Agent(failure) => serde_json::to_value(failure.kind).ok(),
        _ => None,
    };
    let kind = kind.as_ref().and_then(serde_json::Value::as_str);
    kind.unwrap_or(ending.word()).to_owned()
}

impl TurnAnswer {
    /// Returns the answer with the line of its turn, which is added if no agent ran.
    pub(super) fn with_line(
        mut self,
        event: &Event,
        ended: Timestamp,
        id: &str,
        subject: &BudgetSubject,
        stopped: bool,
    ) -> Self {
        let line = self.turn.get_or_insert_with(|| {
            let how =
                if stopped { TurnStatus::Stopped } else { TurnStatus::Failed(REFUSED.to_owned()) };
            Box::new(line_without_agent(event, ended, id, &self.backend, how))
        });
        (line.parent, line.project) = (subject.parent, subject.project.clone());
        self
    }
}

/// Records a turn that has ended. `by_earlier` states whether a previous process ended it, which may
/// have recorded it.
pub(crate) fn note(gateway: Gateway<'_>, event: &Event, answer: &TurnAnswer, by_earlier: bool) {
    let deps = &gateway.shared.deps;
    let Some(line) = whole_line(deps, event, answer) else { return };
    // Parts may read the saved lines.
    match by_earlier {
        true => deps.workspace.turns().note_if_missing(line.clone()),
        false => deps.workspace.turns().note(line.clone()),
    }
    gateway.turn_ended(&line, by_earlier);
}

/// Returns the line of a turn, with the texts of the prompt and the answer. Returns `None` if
/// the answer is not the result of a turn.
fn whole_line(deps: &DispatcherDeps, event: &Event, answer: &TurnAnswer) -> Option<TurnLine> {
    let line = (**answer.turn.as_ref()?).clone();
    let plain = |text: &str| deps.redactor.redact(clean_text(text).into_owned());
    let zone = &deps.choices.time_zone;
    let failure = answer.failure.as_ref().map(|failure| readable(failure, zone));
    let said = [Some(answer.text.as_str()), failure.as_deref()];
    let said: Vec<&str> =
        said.into_iter().flatten().filter(|text| !text.trim().is_empty()).collect();
    Some(TurnLine {
        name: line.name.as_deref().map(plain),
        model: answer.model.clone(),
        asked: Some(plain(&event.prompt)),
        answered: Some(plain(&said.join("\n\n"))),
        ..line
    })
}
