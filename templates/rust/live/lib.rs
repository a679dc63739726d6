//! {{name}} as a backend: one process for a conversation, which hears prompts on stdin and prints JSON lines.
//!
//! The SDK (`sdk/`) sees to the life of the process and of the turns; here is what this agent is told and what it says.

use aetheel_backend_sdk::live::{Agent, LinkContext, Live, Step, spawn};
use aetheel_backend_sdk::tool::{self, Tools};
use aetheel_backend_sdk::wit::{Failure, FailureKind, Line, Outcome, Spawn, StartTurn, TurnRef, Value};
use aetheel_backend_sdk::{TurnResult, failure, text, tokens};
use serde_json::json;

/// The agent, as it speaks in one conversation.
#[derive(Debug, Default)]
pub struct Chat;

/// The backend.
pub type Backend = Live<Chat>;

aetheel_backend_sdk::export_backend!(crate::Backend);

/// Its tools: the unified kind (see `wit/types.wit`), their names, and the fields of the input that say what a use is about.
const TOOLS: Tools =
    Tools::new(&[("bash", &["shell"], &["command"]), ("file_read", &["read"], &["path"]), ("file_edit", &["edit"], &["path"])]);

impl Agent for Chat {
    const NAME: &'static str = "{{name}}";

    fn describe() -> String {
        include_str!("../descriptor.json").to_owned()
    }

    /// What to start, for the first turn of a conversation. Every flag must be in `descriptor.json`, or the host refuses it.
    fn launch(&mut self, start: Option<&StartTurn>, _context: &mut LinkContext) -> Result<Spawn, Failure> {
        let mut arguments = vec!["--serve".to_owned()];
        if let Some(id) = start.and_then(|start| start.native_id.clone()) {
            arguments.extend(["--resume".to_owned(), id]);
        }
        Ok(spawn("{{name}}", arguments.into_iter().map(Value::Text)))
    }

    /// Hands a prompt over. An agent that wants something else first is told that here, and the answer is `Step::Wait`.
    fn prompt(&mut self, start: &StartTurn, context: &mut LinkContext) -> Step {
        context.say(&format!(r#"{{"type":"prompt","text":{}}}"#, json!(text::prompt(&start.parts))));
        Step::Prompted
    }

    /// That it stopped, the agent says in a line.
    fn interrupt(&mut self, _turn: TurnRef, context: &mut LinkContext) {
        context.say(r#"{"type":"stop"}"#);
    }

    /// What a line means.
    fn line(&mut self, line: Line, context: &mut LinkContext) {
        let Some(said) = context.object(&line) else { return };
        let Some(turn) = context.turn() else { return };
        let text = |key| said.text(key).unwrap_or_default();
        let mut emit = context.emit(turn);
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
            // Never dropped: it is how people learn that the agent changed.
            kind => emit.unrecognised(format!("line type {kind:?}"), Some("type".to_owned()), &line.text),
        }
    }
}
