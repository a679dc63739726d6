//! {{name}} as a backend: a process for every turn, which reads the prompt on stdin and prints JSON lines.
//!
//! The SDK (`sdk/`) sees to the life of the turn; here is what this agent is told and what it says.

use aetheel_backend_sdk::one_shot::{Agent, OneShot, prompt, spawn};
use aetheel_backend_sdk::tool::{self, Tools};
use aetheel_backend_sdk::wit::{Failure, FailureKind, Line, Spawn, StartTurn, Value};
use aetheel_backend_sdk::{Emit, TurnResult, tokens};

/// The agent, as it speaks in one turn.
#[derive(Debug, Default)]
pub struct Once;

/// The backend.
pub type Backend = OneShot<Once>;

aetheel_backend_sdk::export_backend!(crate::Backend);

/// Its tools: the unified kind (see `wit/types.wit`), their names, and the fields of the input that say what a use is about.
const TOOLS: Tools =
    Tools::new(&[("bash", &["shell"], &["command"]), ("file_read", &["read"], &["path"]), ("file_edit", &["edit"], &["path"])]);

impl Agent for Once {
    fn describe() -> String {
        include_str!("../descriptor.json").to_owned()
    }

    /// What to start. Every flag must be in `descriptor.json`, or the host refuses it.
    fn plan(&mut self, start: StartTurn, _emit: &mut Emit) -> Result<Spawn, Failure> {
        let mut arguments = vec!["--json".to_owned()];
        if let Some(id) = start.native_id {
            arguments.extend(["--resume".to_owned(), id]);
        }
        Ok(spawn("{{name}}", arguments.into_iter().map(Value::Text), prompt(&start.parts)))
    }

    /// What a line means. A result ends the turn once the process has exited.
    fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult> {
        let said = emit.object(&line)?;
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
            // Never dropped: it is how people learn that the agent changed.
            kind => emit.unrecognised(format!("line type {kind:?}"), Some("type".to_owned()), &line.text),
        }
        None
    }

    /// Why a run failed that printed neither `done` nor `error`, given the end of stderr.
    fn failure(&mut self, stderr: &str) -> Failure {
        aetheel_backend_sdk::failure(FailureKind::Other, stderr)
    }
}
