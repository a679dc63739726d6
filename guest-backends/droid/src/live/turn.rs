//! A turn from its prompt to `agent_turn_completed`, and the commands of users during it.

use std::collections::BTreeMap;

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::failure;
use aetheel_backend_sdk::json::Value as Json;
use aetheel_backend_sdk::live::{Agent as _, LinkContext};
use aetheel_backend_sdk::rpc::Calls;
use aetheel_backend_sdk::wit::{
    Action, Chunk, FailureKind, FileDiff, Mode, Outcome, Part, Safety, Settings, StartTurn, Steer,
    SteerOutcome, TurnRef, Usage,
};
use serde_json::json;

use super::{Call, Droid, ask};
use crate::answer::Answer;
use crate::failure::{self, Reason};
use crate::{plan, tool, usage};

/// The turn whose prompt was sent.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) key: TurnRef,
    settings: Settings,
    pub(super) cwd: String,
    /// Droid's names of the host's tools.
    pub(super) host_tools: Vec<String>,
    pub(super) interrupted: bool,
    pub(super) usage: Option<Usage>,
    /// Whether Droid reacted to the prompt.
    pub(super) reacted: bool,
    /// Whether Droid echoed the prompt. Droid echoes each message when it passes it to the model:
    /// first the prompt, then steered messages.
    pub(super) echoed: bool,
    /// Steered messages that the model has not received yet.
    pub(super) steers: Vec<u32>,
    pub(super) answer: Answer,
    tools: BTreeMap<String, Tool>,
    /// The tools of the message that is being written.
    pub(super) announced: Vec<String>,
    pub(super) error: Option<String>,
    /// Whether the user refused something.
    refused: bool,
    /// Whether the user also asked to stop the turn.
    stop: bool,
    /// The end that Droid reported, while a steered message continues the turn.
    pub(super) over: Option<(Reason, String)>,
}

#[derive(Debug, Default)]
struct Tool {
    /// Whether the start was reported with an input.
    reported: bool,
    ended: bool,
    writes: Option<FileDiff>,
}

impl Turn {
    pub(super) fn new(start: &StartTurn) -> Self {
        Self {
            key: super::name(start),
            settings: start.settings.clone(),
            cwd: start.cwd.clone(),
            host_tools: tool::of_host(&start.tools).collect(),
            interrupted: false,
            usage: None,
            reacted: false,
            echoed: false,
            steers: Vec::new(),
            answer: Answer::default(),
            tools: BTreeMap::new(),
            announced: Vec::new(),
            error: None,
            refused: false,
            stop: false,
            over: None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.is_some() && self.steers.is_empty()
    }

    pub(super) fn may_edit(&self) -> bool {
        self.settings.mode == Mode::Build && self.settings.safety != Safety::Default
    }

    pub(super) fn refused(&mut self, stop: bool) {
        self.refused = true;
        self.stop |= stop;
    }

    /// Removes a steered message. Returns `false` if it is unknown.
    pub(super) fn forget(&mut self, message: u32) -> bool {
        let before = self.steers.len();
        self.steers.retain(|steer| *steer != message);
        self.steers.len() < before
    }
}

/// Sends a user message.
pub(super) fn say(parts: &[Part], call: Call, calls: &mut Calls<Call>, context: &mut LinkContext) {
    let images = plan::images(parts);
    let mut text = plan::prompt(parts, true);
    if text.trim().is_empty() {
        text = plan::prompt(parts, false);
    }
    let mut params = json!({ "text": text });
    if images.is_empty() {
        return calls.request(
            context.proc(),
            "droid.add_user_message",
            &params.to_string(),
            call,
            context.out(),
        );
    }
    // Marks the place for bytes that the host inserts. JSON escapes control characters, so the mark
    // cannot occur elsewhere in the line.
    const HERE: char = '\u{1}';
    params["images"] = images
        .iter()
        .map(|image| json!({ "type": "base64", "mediaType": image.media_type, "data": "bytes" }))
        .collect();
    let params = params.to_string().replace(r#""data":"bytes""#, &format!(r#""data":"{HERE}""#));
    calls.request(context.proc(), "droid.add_user_message", &params, call, context.out());
    if let Some(Action::Write(write)) = context.out().last_mut()
        && let [Chunk::Text(line)] = &write.body[..]
    {
        let pieces: Vec<String> = line.split(HERE).map(str::to_owned).collect();
        let mut blobs = images.iter().map(|image| Chunk::Base64(image.blob));
        write.body = pieces
            .into_iter()
            .flat_map(|piece| [Some(Chunk::Text(piece)), blobs.next()])
            .flatten()
            .collect();
    }
}

impl Droid {
    pub(super) fn steered(&mut self, steer: &Steer, context: &mut LinkContext) {
        let open = |turn: &&mut Turn| {
            turn.key.turn == steer.turn && !turn.interrupted && turn.over.is_none()
        };
        match self.turn.as_mut().filter(open) {
            Some(turn) => {
                turn.steers.push(steer.message);
                say(&steer.parts, Call::Steer(steer.message), &mut self.calls, context);
            }
            _ => context.steered(steer.message, SteerOutcome::NotNow),
        }
    }

    /// Handles the end of the turn, or of its part before a steered message.
    pub(super) fn completed(&mut self, note: &Json, raw: &str, context: &mut LinkContext) {
        let Some(turn) = &mut self.turn else { return };
        if let Some(more) = usage::of_turn(note) {
            match &mut turn.usage {
                Some(sum) => usage::add(sum, &more),
                none => *none = Some(more),
            }
        }
        let word = note.text("reason").unwrap_or_default();
        let reason = Reason::of(word);
        if reason == Reason::Unknown {
            let path = Some("params.notification.reason".to_owned());
            context.emit(turn.key).unrecognised(format!("end of a turn {word:?}"), path, raw);
        }
        turn.over = Some((reason, word.to_owned()));
        // Droid immediately runs a message that arrived too late for this run.
        if reason != Reason::Completed || turn.steers.is_empty() {
            self.complete(context);
        }
    }

    /// Ends the turn with the outcome that Droid reported.
    pub(super) fn complete(&mut self, context: &mut LinkContext) {
        let Some(turn) = &mut self.turn else { return };
        let Some((reason, word)) = turn.over.take() else { return };
        let error = turn.error.take();
        let outcome = match reason {
            _ if turn.interrupted || turn.stop => Outcome::Interrupted,
            Reason::Cancelled => Outcome::Interrupted,
            Reason::Completed => Outcome::Completed,
            Reason::ProcessExit if error.is_none() && turn.answer.has_text() => Outcome::Completed,
            Reason::ProcessExit => {
                Outcome::Lost(failure(FailureKind::Crashed, "Droid is shutting down"))
            }
            Reason::Failed(kind) => {
                Outcome::Failed(failure::of_reason(kind, &word, error.as_deref()))
            }
            Reason::Unknown => {
                Outcome::Failed(failure::of_reason(FailureKind::Other, &word, error.as_deref()))
            }
        };
        if outcome == Outcome::Completed && turn.refused {
            ask::explain_refusal(&mut context.emit(turn.key));
        }
        let key = turn.key;
        self.finish(key, outcome, context);
    }
}

impl Turn {
    /// Reports the start of a tool use. Droid announces it with an empty input, and then reports it
    /// twice with its input.
    pub(super) fn tool_start(&mut self, used: &Json, emit: &mut Emit) {
        let (id, name, input) = (
            used.text("id").unwrap_or_default(),
            used.text("name").unwrap_or_default(),
            &used["input"],
        );
        let empty = input.as_object().is_none_or(aetheel_backend_sdk::json::Object::is_empty);
        let known = self.tools.get(id);
        if known.is_some_and(|tool| tool.reported || tool.ended || empty) {
            return;
        }
        emit.tool_start(tool::TOOLS.start(id, name, input));
        self.tools.insert(
            id.to_owned(),
            Tool { reported: !empty, ended: false, writes: tool::writes(name, input) },
        );
        if let Some(plan) = tool::todos(name, input) {
            emit.plan(plan);
        }
    }

    /// Reports the end of a tool use. After an interrupt, Droid may report a result twice.
    pub(super) fn tool_end(&mut self, id: &str, is_error: bool, output: String, emit: &mut Emit) {
        let tool = self.tools.entry(id.to_owned()).or_default();
        if std::mem::replace(&mut tool.ended, true) {
            return;
        }
        let end =
            tool::end(id, is_error, output, tool.writes.take(), self.refused && !self.interrupted);
        emit.tool_end(end);
    }

    pub(super) fn progress(&mut self, id: &str, update: &Json, emit: &mut Emit) {
        if self.tools.get(id).is_some_and(|tool| tool.ended) {
            return;
        }
        // When a command starts, `status` has an empty text. Sub-agents report their tool uses and
        // texts here.
        let said = match update.text("type") {
            Some("tool_call") => update.text("toolName").map(|name| format!("[{name}]")),
            Some("tool_result") => None,
            _ => update
                .text("text")
                .or_else(|| update.text("details"))
                .or_else(|| update.text("error"))
                .map(str::to_owned),
        };
        if let Some(said) = said.filter(|said| !said.is_empty()) {
            emit.tool_output(id, format!("{said}\n"));
        }
    }
}
