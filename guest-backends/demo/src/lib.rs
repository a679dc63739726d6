//! The demo agent, `aetheel demo-agent`, as a backend: the smallest whole example of one.
//!
//! Owns what the lines of `src/demo.rs` mean, and the lines that answer its questions; what all one-shot agents have in common comes from the SDK.

use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::one_shot::{Agent, OneShot, spawn};
use aetheel_backend_sdk::rpc::write;
use aetheel_backend_sdk::wit::{
    Action, Answer, AskKind, Chunk, Decision, Failure, FailureKind, Line, Outcome, Part, Pipe, PlanEntry, PlanStatus, PutFile, Question,
    Spawn, StartTurn, ToolEnd, ToolStart, ToolStatus, Usage, Value as Argument,
};
use aetheel_backend_sdk::{Emit, TurnResult};
use serde_json::json;

/// The demo agent, as it speaks in one turn.
#[derive(Debug, Default)]
pub struct Demo {
    usage: Option<Usage>,
}

/// The agent's process.
const PROC: u32 = 1;

/// The backend: one link, one turn, one process.
pub type Backend = OneShot<Demo>;

aetheel_backend_sdk::export_backend!(crate::Backend);

impl Agent for Demo {
    fn describe() -> String {
        include_str!("descriptor.json").to_owned()
    }

    fn plan(&mut self, start: StartTurn, emit: &mut Emit) -> Result<Spawn, Failure> {
        let mut arguments = ["demo-agent", "--talk"].map(|word| Argument::Text(word.to_owned())).to_vec();
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
        let prompt = format!("{}\n", json!({"type": "prompt", "text": texts.join("\n\n")}));
        Ok(Spawn { keep_open: true, ..spawn("aetheel", arguments, vec![Chunk::Text(prompt)]) })
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
            Some("ask") => {
                ask(&said, emit);
                return None;
            }
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

    fn answer(&mut self, answer: Answer, emit: &mut Emit) {
        let mut line = json!({"type": "answer", "ask": answer.ask});
        line["decision"] = match answer.decision {
            Decision::AllowOnce => json!("allow"),
            Decision::AllowAlways => json!("always"),
            Decision::Deny(words) => {
                line["words"] = json!(words);
                json!("deny")
            }
            Decision::DenyAndStop => json!("stop"),
            Decision::Answers(answers) => {
                line["answers"] = json!(answers);
                json!("answers")
            }
            Decision::Dismissed => json!("dismissed"),
        };
        emit.action(write(PROC, format!("{line}\n")));
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

/// What the agent asks, by the field that says so.
fn ask(said: &Value, emit: &mut Emit) {
    let field = |key: &str| said.text(key).unwrap_or_default().to_owned();
    let kind = if let Some(tool) = said.text("tool") {
        AskKind::Permission(ToolStart {
            id: format!("ask-{}", said.count("ask").unwrap_or_default()),
            parent: None,
            kind: if tool == "shell" { "bash" } else { "file_edit" }.to_owned(),
            native_name: tool.to_owned(),
            title: field("title"),
            target: Some(field("about")),
            input: said.get("input").map_or_else(|| "{}".to_owned(), ToString::to_string),
        })
    } else if let Some(plan) = said.text("plan") {
        AskKind::PlanApproval(plan.to_owned())
    } else if let Some(address) = said.text("address") {
        AskKind::SignIn(address.to_owned())
    } else {
        AskKind::Questions(said.list("questions").iter().map(question).collect())
    };
    emit.ask(said.count("ask").unwrap_or_default(), field("title"), kind, said.text("always").map(str::to_owned));
}

fn question(said: &Value) -> Question {
    Question {
        id: said.text("id").unwrap_or_default().to_owned(),
        text: said.text("text").unwrap_or_default().to_owned(),
        options: said.list("options").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        many: said.is_true("many"),
        free_text: said.is_true("words"),
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
