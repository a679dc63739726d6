//! What is noted of a turn that has ended, for people who look back: once a turn, whatever became
//! of it and of the gateway.
//!
//! A turn's line goes with its answer into the journal: a life that delivers the answer of an
//! earlier one finds out whether that had noted the turn. Pinned by `tests/gateway/turns.rs`.

use std::path::Path;

use crate::Inner;
use crate::outlet::Answer;
use aetheel_model::agent::Descriptor;
use aetheel_model::event::{Event, Origin};
use aetheel_model::plain::clean_text;
use aetheel_store::workspace::{TurnHow, TurnLine};
use aetheel_turn::{Ending, TurnResult};

/// The word for a turn that the gateway let no agent begin, or go on with.
const REFUSED: &str = "refused";

/// The line of a turn that an agent worked on, without its texts. `recordings` is the folder of all
/// recordings.
pub(super) fn line_of(
    event: &Event,
    id: &str,
    backend: &Descriptor,
    recordings: &Path,
    result: &TurnResult,
) -> Box<TurnLine> {
    let how = match &result.ending {
        Ending::Completed => TurnHow::Done,
        Ending::Interrupted | Ending::ShutDown => TurnHow::Stopped,
        ending => TurnHow::Failed(word(ending)),
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
        ..line_without_agent(event, id, &backend.name, how)
    })
}

/// The line of a turn that ends now, and of which no agent knows anything.
fn line_without_agent(event: &Event, id: &str, backend: &str, how: TurnHow) -> TurnLine {
    TurnLine {
        ended: jiff::Timestamp::now(),
        took_ms: 0,
        turn: id.to_owned(),
        event: event.sequence,
        lane: event.lane.clone(),
        kind: event.kind,
        user: event.asker,
        name: event.author.clone(),
        message: match event.origin {
            Origin::Message { message, .. } => Some(message),
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

/// The kind of an agent's failure, else the word of the ending.
fn word(ending: &Ending) -> String {
    let kind = match ending {
        Ending::Agent(failure) => serde_json::to_value(failure.kind).ok(),
        _ => None,
    };
    let kind = kind.as_ref().and_then(serde_json::Value::as_str);
    kind.unwrap_or(ending.word()).to_owned()
}

impl Answer {
    /// Returns it with a line, where no agent gave it one.
    pub(super) fn with_line(mut self, event: &Event, id: &str, stopped: bool) -> Self {
        self.turn.get_or_insert_with(|| {
            let how = if stopped { TurnHow::Stopped } else { TurnHow::Failed(REFUSED.to_owned()) };
            Box::new(line_without_agent(event, id, &self.backend, how))
        });
        self
    }
}

impl Inner {
    /// Notes a turn that ended in this life.
    pub(super) fn note_turn(&self, event: &Event, answer: &Answer) {
        if let Some(line) = self.whole_line(event, answer) {
            self.parts.workspace.turns().note(line);
        }
    }

    /// Notes a turn that ended in an earlier life, unless that did.
    pub(super) fn note_turn_of_earlier(&self, event: &Event, answer: &Answer) {
        if let Some(line) = self.whole_line(event, answer) {
            self.parts.workspace.turns().note_of_earlier(line);
        }
    }

    /// The line of an answer, with what was asked and answered; none: no turn of its own came to
    /// it.
    fn whole_line(&self, event: &Event, answer: &Answer) -> Option<TurnLine> {
        let line = (**answer.turn.as_ref()?).clone();
        let plain = |text: &str| self.parts.redactor.clean(clean_text(text).into_owned());
        let said = [Some(answer.text.as_str()), answer.failure.as_deref()];
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
}
