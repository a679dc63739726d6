//! What the demo agent asks, and how it is answered.

use aetheel_backend_sdk::Emit;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{Answer, AskKind, Decision, Question, ToolStart};
use serde_json::json;

/// Asks people what the agent wants to know; which kind it is, its fields say.
pub(crate) fn ask(said: &Value, emit: &mut Emit) {
    let key = said.count("ask").unwrap_or_default();
    let kind = if let Some(tool) = said.text("tool") {
        AskKind::Permission(ToolStart {
            id: format!("ask-{key}"),
            parent: None,
            kind: if tool == "shell" { "bash" } else { "file_edit" }.to_owned(),
            native_name: tool.to_owned(),
            title: said.string("title"),
            target: Some(said.string("about")),
            input: said.get("input").map_or_else(|| "{}".to_owned(), ToString::to_string),
        })
    } else if let Some(plan) = said.text("plan") {
        AskKind::PlanApproval(plan.to_owned())
    } else if let Some(address) = said.text("address") {
        AskKind::SignIn(address.to_owned())
    } else {
        AskKind::Questions(said.list("questions").iter().map(question).collect())
    };
    emit.ask(key, said.string("title"), kind, said.text("always").map(str::to_owned));
}

fn question(said: &Value) -> Question {
    Question {
        id: said.string("id"),
        text: said.string("text"),
        options: said.list("options").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        many: said.is_true("many"),
        free_text: said.is_true("words"),
    }
}

/// The line that tells the agent what people decided.
pub(crate) fn told(answer: Answer) -> serde_json::Value {
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
    line
}
