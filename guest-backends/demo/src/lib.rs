//! The demo agent, `aetheel demo-agent`, as a backend: the smallest whole example of one.
//!
//! Owns what the lines of `src/demo.rs` mean; what all one-shot agents have in common comes from the SDK.

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::one_shot::{Agent, OneShot, TurnResult, spawn};
use aetheel_backend_sdk::wit::{
    Action, Chunk, Failure, FailureKind, Line, Outcome, Part, Pipe, PlanEntry, PlanStatus, PutFile, Spawn, StartTurn, ToolEnd, ToolStart,
    ToolStatus, Usage, Value as Argument,
};

/// The demo agent, as it speaks in one turn.
#[derive(Debug, Default)]
pub struct Demo {
    usage: Option<Usage>,
}

/// The backend: one link, one turn, one process.
pub type Backend = OneShot<Demo>;

aetheel_backend_sdk::export_backend!(crate::Backend);

impl Agent for Demo {
    fn describe() -> String {
        include_str!("descriptor.json").to_owned()
    }

    fn plan(&mut self, start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure> {
        let mut arguments = vec![Argument::Text("demo-agent".to_owned())];
        let mut option = |flag: &str, value: Argument| arguments.extend([Argument::Text(flag.to_owned()), value]);
        if let Some(id) = start.native_id {
            option("--resume", Argument::Text(id));
        }
        if let Some(model) = start.settings.model {
            option("--model", Argument::Text(model));
        }
        if let Some(text) = start.settings.system_prompt {
            emit.action(Action::PutFile(PutFile { name: "system.md".to_owned(), body: vec![Chunk::Text(text)] }));
            option("--system-file", Argument::File("system.md".to_owned()));
        }
        let texts: Vec<String> = start
            .parts
            .into_iter()
            .map(|part| match part {
                Part::Text(text) => text,
                Part::Image(file) | Part::File(file) => file.name,
            })
            .collect();
        Ok(spawn("aetheel", arguments, vec![Chunk::Text(texts.join("\n\n"))]))
    }

    fn line(&mut self, line: Line, emit: &mut Emit) -> Option<TurnResult> {
        if line.pipe == Pipe::Stderr {
            return None;
        }
        let said = json::parse(&line.text).unwrap_or_default();
        let field = |key: &str| said.text(key).unwrap_or_default().to_owned();
        let outcome = match said.text("type") {
            Some("hello") => {
                emit.session_ready(field("session"), said.text("model").map(str::to_owned));
                return None;
            }
            Some("done") => Outcome::Completed,
            Some("interrupted") => Outcome::Interrupted,
            Some("error") => Outcome::Failed(Failure { kind: kind(said.text("kind")), message: field("message"), retry_after_ms: None }),
            Some(event) => {
                self.event(event, &said, &line.text, emit);
                return None;
            }
            None => {
                emit.unrecognised("line that is not an object with a type", None, &line.text);
                return None;
            }
        };
        Some(TurnResult { outcome, text: None, usage: self.usage })
    }
}

impl Demo {
    fn event(&mut self, event: &str, said: &Value, raw: &str, emit: &mut Emit) {
        let field = |key: &str| said.text(key).unwrap_or_default().to_owned();
        match event {
            "text" => emit.text(0, field("text")),
            "thinking" => emit.thinking(0, field("text")),
            "tool" => emit.tool_start(ToolStart {
                id: field("id"),
                parent: None,
                kind: if said.text("tool") == Some("shell") { "bash" } else { "file_read" }.to_owned(),
                native_name: field("tool"),
                title: field("about"),
                target: Some(field("about")),
                input: "{}".to_owned(),
            }),
            "tool-output" => emit.tool_output(field("id"), field("text")),
            "tool-end" => {
                let status = if said.is_true("ok") { ToolStatus::Ok } else { ToolStatus::Failed };
                emit.tool_end(ToolEnd { id: field("id"), status, output: None, exit_code: None, diffs: Vec::new() });
            }
            "plan" => emit.plan(said.list("steps").iter().map(step).collect()),
            "retry" => emit.retry(kind(said.text("kind")), field("message"), said.count("after_ms")),
            "usage" => {
                let count = |key| said.count(key).unwrap_or_default();
                self.usage = Some(Usage {
                    input: count("input"),
                    output: count("output"),
                    cached: 0,
                    reasoning: 0,
                    cost_usd: None,
                    context_used: None,
                    context_size: None,
                });
            }
            _ => emit.unrecognised(format!("line type {event:?}"), Some("type".to_owned()), raw),
        }
    }
}

fn step(step: &Value) -> PlanEntry {
    let status = match step.text("status") {
        Some("done") => PlanStatus::Done,
        Some("active") => PlanStatus::Active,
        _ => PlanStatus::Pending,
    };
    PlanEntry { text: step.text("text").unwrap_or_default().to_owned(), status }
}

fn kind(kind: Option<&str>) -> FailureKind {
    match kind {
        Some("authentication") => FailureKind::Authentication,
        Some("rate-limited") => FailureKind::RateLimited,
        Some("overloaded") => FailureKind::Overloaded,
        Some("bad-request") => FailureKind::BadRequest,
        Some("model-not-found") => FailureKind::ModelNotFound,
        Some("context-full") => FailureKind::ContextFull,
        Some("session-unknown") => FailureKind::SessionUnknown,
        Some("refused") => FailureKind::Refused,
        _ => FailureKind::Other,
    }
}
