//! A backend for {{name}}: one process for each turn, which reads the prompt from stdin and prints
//! JSON lines.
//!
//! The SDK (`sdk/`) manages the process and the turn. This file starts the agent and parses its
//! output.

use aetheel_backend_sdk::json::Value as Json;
use aetheel_backend_sdk::one_shot::{Agent, OneShot, prompt, spawn};
use aetheel_backend_sdk::tool::{self, Tools};
use aetheel_backend_sdk::wit::{Failure, FailureKind, Line, Spawn, StartTurn, Value};
use aetheel_backend_sdk::{Emit, TurnResult, tokens};

/// The state of a single turn.
#[derive(Debug, Default)]
pub struct Once;

/// The backend.
pub type Backend = OneShot<Once>;

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

impl Agent for Once {
    fn describe() -> String {
        include_str!("../descriptor.json").to_owned()
    }

    /// Returns the process to start. The host refuses flags that are not in `descriptor.json`.
    fn plan(&mut self, start: StartTurn, _emit: &mut Emit) -> Result<Spawn, Failure> {
        let mut arguments = vec!["--json".to_owned()];
        if let Some(id) = start.native_id {
            arguments.extend(["--resume".to_owned(), id]);
        }
        Ok(spawn("{{name}}", arguments.into_iter().map(Value::Text), prompt(&start.parts)))
    }

    /// Handles a line of output. After a result, the turn ends when the process exits.
    fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult> {
        let said = emit.object(&line)?;
        report_missing(&said, &line.text, emit);
        let text = |key| said.text(key).unwrap_or_default();
        match text("type") {
            "session" => emit.session_ready(text("id"), None),
            "text" => emit.text(0, text("text")),
            "tool" => emit.tool_start(TOOLS.start(text("id"), text("name"), &said["input"])),
            "tool-result" => emit.tool_end(tool::end(text("id"), said.is_true("ok"), said.text("output").map(str::to_owned))),
            "done" => {
                let count = |key| said["usage"].count(key);
                return Some(TurnResult::completed(count("input").map(|input| tokens(input, count("output").unwrap_or_default()))));
            }
            "error" => return Some(TurnResult::failed(FailureKind::Other, text("message"))),
            // Unknown output is reported, because it shows that the agent changed.
            kind => emit.unrecognised(format!("line type {kind:?}"), Some("type".to_owned()), &line.text),
        }
        None
    }

    /// Returns why a run without `done` and `error` failed, from the end of stderr.
    fn failure(&mut self, stderr: &str) -> Failure {
        aetheel_backend_sdk::failure(FailureKind::Other, stderr)
    }
}
