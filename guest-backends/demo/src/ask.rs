//! The demo agent's questions, and the answers to it.

use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::wit::{
    Answer, AnswerForm, AskKind, AskOption, Choice, Decision, FileChange, FileDiff, Question,
    Scope, ToolStart,
};
use aetheel_backend_sdk::{Emit, Offer};
use serde_json::json;

/// Asks the user a question. The fields of the line determine its kind.
pub(crate) fn ask(fields: &Value, emit: &mut Emit) {
    let key = fields.count("ask").unwrap_or_default();
    let kind = if let Some(tool) = fields.text("tool") {
        AskKind::Permission(ToolStart {
            id: format!("ask-{key}"),
            parent: None,
            kind: if tool == "shell" { "bash" } else { "file_edit" }.to_owned(),
            native_name: tool.to_owned(),
            title: fields.string("title"),
            target: Some(fields.string("about")),
            input: fields.get("input").map_or_else(|| "{}".to_owned(), ToString::to_string),
        })
    } else if let Some(plan) = fields.text("plan") {
        AskKind::PlanApproval(plan.to_owned())
    } else if let Some(address) = fields.text("address") {
        AskKind::SignIn(address.to_owned())
    } else {
        AskKind::Questions(fields.list("questions").iter().map(question).collect())
    };
    let offer = Offer {
        always: fields.text("always").map(str::to_owned),
        options: fields.list("options").iter().map(option).collect(),
        diffs: fields.list("diffs").iter().map(diff).collect(),
        changeable: fields.is_true("changeable"),
        parent: fields.text("parent").map(str::to_owned),
        deadline_ms: fields.count("deadline"),
    };
    emit.ask(key, fields.string("title"), kind, offer);
}

fn option(fields: &Value) -> AskOption {
    let scope = match fields.text("scope") {
        Some("session") => Scope::Session,
        Some("project") => Scope::Project,
        Some("user") => Scope::User,
        Some("always") => Scope::Always,
        _ => Scope::Once,
    };
    AskOption {
        id: fields.string("id"),
        label: fields.string("label"),
        allows: fields.is_true("allows"),
        scope,
    }
}

/// Reads the change of a file.
pub(crate) fn diff(fields: &Value) -> FileDiff {
    let text = |key| fields.text(key).map(str::to_owned);
    let change = match fields.text("change") {
        Some("added") => FileChange::Added,
        Some("deleted") => FileChange::Deleted,
        Some("renamed") => FileChange::Renamed,
        _ => FileChange::Edited,
    };
    FileDiff {
        path: fields.string("path"),
        change,
        old_path: text("was"),
        binary: fields.is_true("binary"),
        old_text: text("old"),
        new_text: text("new"),
        unified: text("diff"),
    }
}

fn choice(fields: &Value) -> Option<Choice> {
    let label = fields.as_str().or_else(|| fields.text("label"))?;
    let id = fields.text("id").unwrap_or(label).to_owned();
    Some(Choice { id, description: fields.text("says").map(str::to_owned), ..Choice::plain(label) })
}

fn question(fields: &Value) -> Question {
    Question {
        id: fields.string("id"),
        text: fields.string("text"),
        description: fields.text("says").map(str::to_owned),
        form: match fields.text("form") {
            Some("number") => AnswerForm::Number,
            Some("whole") => AnswerForm::Whole,
            Some("yes-no") => AnswerForm::YesNo,
            _ => AnswerForm::Text,
        },
        options: fields.list("options").iter().filter_map(choice).collect(),
        many: fields.is_true("many"),
        free_text: fields.is_true("words"),
        optional: fields.is_true("optional"),
        preset: fields.list("preset").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        placeholder: fields.text("example").map(str::to_owned),
        single_line: fields.is_true("line"),
        secret: fields.is_true("secret"),
    }
}

/// Returns the line that sends the user's decision to the agent.
pub(crate) fn decision_line(answer: Answer) -> serde_json::Value {
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
