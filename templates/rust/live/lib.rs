//! A backend for {{name}}: one process for each conversation, which reads prompts from stdin and
//! prints JSON lines.
//!
//! The SDK (`sdk/`) manages the process and the turns. This file starts the agent, writes its input
//! and parses its output.

use aetheel_backend_sdk::json::Value as Json;
use aetheel_backend_sdk::live::{Agent, LinkContext, Live, Step, spawn};
use aetheel_backend_sdk::tool::{self, Tools};
use aetheel_backend_sdk::wit::{Failure, FailureKind, Line, Outcome, Spawn, StartTurn, TurnRef, Value};
use aetheel_backend_sdk::{Emit, TurnResult, failure, text, tokens};
use serde_json::json;

/// The state of a conversation.
#[derive(Debug, Default)]
pub struct Chat;

/// The backend.
pub type Backend = Live<Chat>;

aetheel_backend_sdk::export_backend!(crate::Backend);

/// The agent's tools: unified kinds (see `wit/types.wit`), names, and the input fields with the
/// target of a call.
const TOOLS: Tools =
    Tools::new(&[("bash", &["shell"], &["command"]), ("file_read", &["read"], &["path"]), ("file_edit", &["edit"], &["path"])]);

/// The fields that each type of line always has: texts and objects. The loss of a field that is not
/// listed here would go unnoticed.
const FIELDS: &[(&str, &[&str], &[&str])] = &[
    ("session", &["id"], &[]),
    ("text", &["text"], &[]),
    ("tool", &["id", "name"], &["input"]),
    ("tool-result", &["id", "output"], &[]),
    ("done", &[], &["usage"]),
    ("error", &["message"], &[]),
];

/// Reports the fields that a line lacks.
fn report_missing(said: &Json, raw: &str, emit: &mut Emit) {
    let kind = said.text("type").unwrap_or_default();
    for (_, texts, objects) in FIELDS.iter().filter(|(of, ..)| *of == kind) {
        emit.require(said, texts, objects, raw);
    }
    let target = match said.text("name") {
        Some("shell") => "input.command",
        Some("read" | "edit") => "input.path",
        _ => return,
    };
    emit.require(said, &[target], &[], raw);
}

impl Agent for Chat {
    const NAME: &'static str = "{{name}}";

    fn describe() -> String {
        include_str!("../descriptor.json").to_owned()
    }

    /// Returns the process for the first turn of a conversation. The host refuses flags that are
    /// not in `descriptor.json`.
    fn launch(&mut self, start: Option<&StartTurn>, _context: &mut LinkContext) -> Result<Spawn, Failure> {
        let mut arguments = vec!["--serve".to_owned()];
        if let Some(id) = start.and_then(|start| start.native_id.clone()) {
            arguments.extend(["--resume".to_owned(), id]);
        }
        Ok(spawn("{{name}}", arguments.into_iter().map(Value::Text)))
    }

    /// Sends a prompt. If the agent needs something else first, send that and return `Step::Wait`.
    fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        context.say(&format!(r#"{{"type":"prompt","text":{}}}"#, json!(text::prompt(&start.parts))));
        Step::Prompted
    }

    /// Asks the agent to stop. It reports the end of the turn in a line.
    fn interrupt(&mut self, _turn: TurnRef, context: &mut LinkContext) {
        context.say(r#"{"type":"stop"}"#);
    }

    /// Handles a line of output.
    fn line(&mut self, line: Line, context: &mut LinkContext) {
        let Some(said) = context.object(&line) else { return };
        let Some(turn) = context.turn() else { return };
        let text = |key| said.text(key).unwrap_or_default();
        let mut emit = context.emit(turn);
        report_missing(&said, &line.text, &mut emit);
        match text("type") {
            "session" => emit.session_ready(text("id"), None),
            "text" => emit.text(0, text("text")),
            "tool" => emit.tool_start(TOOLS.start(text("id"), text("name"), &said["input"])),
            "tool-result" => emit.tool_end(tool::end(text("id"), said.is_true("ok"), said.text("output").map(str::to_owned))),
            "done" => {
                let count = |key| said["usage"].count(key);
                let usage = count("input").map(|input| tokens(input, count("output").unwrap_or_default()));
                let outcome = if said.is_true("stopped") { Outcome::Interrupted } else { Outcome::Completed };
                context.end(turn, TurnResult { outcome, text: None, usage });
            }
            "error" => self.finish(turn, Outcome::Failed(failure(FailureKind::Other, text("message"))), context),
            // Unknown output is reported, because it shows that the agent changed.
            kind => emit.unrecognised(format!("line type {kind:?}"), Some("type".to_owned()), &line.text),
        }
    }
}
