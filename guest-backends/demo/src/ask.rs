//! The questions of the demo agent, and the answers it gets.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{
    Answer, AnswerForm, AskKind, AskOption, Choice, Decision, FileChange, FileDiff, Question,
    Scope, ToolStart,
};
use aetheel_backend_sdk::{Emit, Offer};
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
    let offer = Offer {
        always: said.text("always").map(str::to_owned),
        options: said.list("options").iter().map(option).collect(),
        diffs: said.list("diffs").iter().map(diff).collect(),
        changeable: said.is_true("changeable"),
    };
    emit.ask(key, said.string("title"), kind, offer);
}

fn option(said: &Value) -> AskOption {
    let scope = match said.text("scope") {
        Some("session") => Scope::Session,
        Some("project") => Scope::Project,
        Some("user") => Scope::User,
        Some("always") => Scope::Always,
        _ => Scope::Once,
    };
    AskOption {
        id: said.string("id"),
        label: said.string("label"),
        allows: said.is_true("allows"),
        scope,
    }
}

/// Reads the change of a file.
pub(crate) fn diff(said: &Value) -> FileDiff {
    let text = |key| said.text(key).map(str::to_owned);
    let change = match said.text("change") {
        Some("added") => FileChange::Added,
        Some("deleted") => FileChange::Deleted,
        Some("renamed") => FileChange::Renamed,
        _ => FileChange::Edited,
    };
    FileDiff {
        path: said.string("path"),
        change,
        old_path: text("was"),
        binary: said.is_true("binary"),
        old_text: text("old"),
        new_text: text("new"),
        unified: text("diff"),
    }
}

fn choice(said: &Value) -> Option<Choice> {
    let label = said.as_str().or_else(|| said.text("label"))?;
    let id = said.text("id").unwrap_or(label).to_owned();
    Some(Choice { id, description: said.text("says").map(str::to_owned), ..Choice::plain(label) })
}

fn question(said: &Value) -> Question {
    Question {
        id: said.string("id"),
        text: said.string("text"),
        description: said.text("says").map(str::to_owned),
        form: match said.text("form") {
            Some("number") => AnswerForm::Number,
            Some("whole") => AnswerForm::Whole,
            Some("yes-no") => AnswerForm::YesNo,
            _ => AnswerForm::Text,
        },
        options: said.list("options").iter().filter_map(choice).collect(),
        many: said.is_true("many"),
        free_text: said.is_true("words"),
        optional: said.is_true("optional"),
        preset: said.list("preset").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        secret: said.is_true("secret"),
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
        Decision::AllowChanged(input) => {
            line["input"] = serde_json::from_str(&input).unwrap_or_default();
            json!("changed")
        }
        Decision::Chosen(id) => {
            line["option"] = json!(id);
            json!("chosen")
        }
        Decision::Dismissed => json!("dismissed"),
        Decision::Declined => json!("declined"),
    };
    line
}
