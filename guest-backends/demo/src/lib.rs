//! Backend for the demo agent, `aetheel demo-agent`: the smallest complete example of a backend.
//!
//! Reads the program's lines; [`ask`] reads its questions, [`call`] its calls of the gateway's
//! tools, and [`report`] its own tools, files and background work. The SDK implements the parts common to all one-shot agents.

mod ask;
mod call;
mod report;

use aetheel_backend_sdk::one_shot::{Agent, OneShot, spawn};
use aetheel_backend_sdk::rpc::write;
use aetheel_backend_sdk::wit::{
    Action, Answer, Chunk, EventKind, Failure, Line, Outcome, PutFile, Spawn, StartTurn,
    ToolResult, Usage, Value as Argument,
};
use aetheel_backend_sdk::{Emit, TurnResult, failure, text};
use serde_json::json;

/// The state of one turn of the demo agent.
#[derive(Debug, Default)]
pub struct Demo {
    usage: Option<Usage>,
}

/// The backend: one process per turn.
pub type Backend = OneShot<Demo>;

aetheel_backend_sdk::export_backend!(crate::Backend);

impl Agent for Demo {
    fn describe() -> String {
        include_str!("descriptor.json").to_owned()
    }

    fn plan(&mut self, start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure> {
        let mut arguments =
            ["demo-agent", "--talk"].map(|word| Argument::Text(word.to_owned())).to_vec();
        let mut option = |flag: &str, value: Argument| {
            arguments.extend([Argument::Text(flag.to_owned()), value])
        };
        if let Some(id) = start.native_id {
            option("--resume", Argument::Text(id));
        }
        if let Some(model) = start.settings.model {
            option("--model", Argument::Text(model));
        }
        if let Some(text) = start.settings.system_prompt {
            emit.action(Action::PutFile(PutFile {
                name: "system.md".to_owned(),
                body: vec![Chunk::Text(text)],
            }));
            option("--system-file", Argument::File("system.md".to_owned()));
        }
        let prompt = format!("{}\n", json!({"type": "prompt", "text": text::prompt(&start.parts)}));
        Ok(Spawn { keep_open: true, ..spawn("aetheel", arguments, vec![Chunk::Text(prompt)]) })
    }

    fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult> {
        let fields = emit.object(&line)?;
        let done = |outcome| Some(TurnResult { outcome, text: None, usage: self.usage.clone() });
        match fields.text("type").unwrap_or_default() {
            "done" => return done(Outcome::Completed),
            "interrupted" => return done(Outcome::Interrupted),
            "error" => {
                let kind = report::failure_kind_of(&fields);
                return done(Outcome::Failed(failure(kind, fields.string("message"))));
            }
            "hello" => {
                let session = emit.required_id(&fields, "session", &line.text);
                emit.session_ready(session, fields.text("model").map(str::to_owned))
            }
            "ask" => ask::ask(&fields, emit),
            "call" => call::request(&fields, emit),
            "text" | "thinking" | "tool-output" => report::text(&fields, &line.text, emit),
            "artifact" => emit.event(EventKind::Artifact(report::artifact(&fields))),
            "task" => emit.event(EventKind::Task(report::task(&fields))),
            "tool" => emit.tool_start(report::tool_start(&fields)),
            "tool-end" => emit.tool_end(report::tool_end(&fields)),
            "plan" => emit.plan(fields.list("steps").iter().map(report::step).collect()),
            "retry" => report::retry(&fields, emit),
            "usage" => self.usage = Some(report::usage(&fields)),
            other => emit.unrecognised(
                format!("line type {other:?}"),
                Some("type".to_owned()),
                &line.text,
            ),
        }
        None
    }

    fn answer(&mut self, answer: Answer, emit: &mut Emit) {
        emit.action(write(1, format!("{}\n", ask::decision_line(answer))));
    }

    fn tool_result(&mut self, result: ToolResult, emit: &mut Emit) {
        emit.action(write(1, format!("{}\n", call::result_line(&result))));
    }
}
