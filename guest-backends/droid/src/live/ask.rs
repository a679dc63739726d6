//! Droid's questions: permissions for tools, approval of plans, and questions of the model.
//!
//! Every request is answered, and never with an error: Droid treats an error as an invalid message
//! and waits forever. An unknown request gets an answer that refuses both kinds of requests of
//! Droid 0.225.2.

use aetheel_backend_sdk::json::Value as Json;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{
    Answer, AskKind, Choice, Decision, FileChange, FileDiff, Question, ToolStart,
};
use aetheel_backend_sdk::{Emit, Offer};
use serde_json::json;

use super::Droid;
use super::turn::Turn;
use crate::tool;

const CANCEL: &str = r#"{"selectedOption":"cancel","cancelled":true,"answers":[]}"#;

/// A request of Droid that waits for the user.
#[derive(Debug)]
pub(super) struct Ask {
    /// The request's id, as JSON.
    id: String,
    wants: Wants,
}

#[derive(Debug)]
enum Wants {
    /// The id of the option that means "always", if it is offered.
    Permission(Option<String>),
    /// The questions with their indices.
    Answers(Vec<(u32, String)>),
}

impl Droid {
    pub(super) fn asked(
        &mut self,
        id: &str,
        method: &str,
        params: &Json,
        raw: &str,
        context: &mut LinkContext,
    ) {
        if self.asks.any(|ask| ask.id == id) {
            return;
        }
        let Some(turn) = self.turn.as_mut().filter(|turn| !turn.interrupted) else {
            return self.calls.result(context.proc(), id, CANCEL, context.out());
        };
        turn.reacted = true;
        let (title, kind, always, wants) = match method {
            "droid.request_permission" => {
                if turn.allows(params) {
                    return self.calls.result(
                        context.proc(),
                        id,
                        r#"{"selectedOption":"proceed_once"}"#,
                        context.out(),
                    );
                }
                permission(params)
            }
            "droid.ask_user" => questions(params),
            _ => {
                context.unrecognised(format!("request {method:?}"), Some("method"), raw);
                return self.calls.result(context.proc(), id, CANCEL, context.out());
            }
        };
        self.asks.ask(
            turn.key,
            title,
            kind,
            Offer { diffs: proposed(params), ..Offer::from(always) },
            Ask { id: id.to_owned(), wants },
            context.out(),
        );
    }

    pub(super) fn answered(&mut self, answer: Answer, context: &mut LinkContext) {
        let Some(Ask { id, wants }) = self.asks.take(answer.ask) else { return };
        let Some(turn) = &mut self.turn else { return };
        let result = match (wants, answer.decision) {
            (Wants::Permission(_), Decision::AllowOnce) => {
                json!({ "selectedOption": "proceed_once" })
            }
            (Wants::Permission(always), Decision::AllowAlways) => {
                json!({ "selectedOption": always.as_deref().unwrap_or("proceed_once") })
            }
            (Wants::Permission(_), decision) => {
                turn.refused(decision == Decision::DenyAndStop);
                match decision {
                    Decision::Deny(Some(comment)) => {
                        json!({ "selectedOption": "cancel", "comment": comment })
                    }
                    _ => json!({ "selectedOption": "cancel" }),
                }
            }
            (Wants::Answers(questions), Decision::Answers(given)) => {
                // Droid rejects incomplete answers, and the model asks again.
                let answer = |(index, question): &(u32, String)| {
                    let texts = given
                        .iter()
                        .find(|(id, _)| *id == index.to_string())
                        .map(|(_, texts)| texts.join(", "));
                    let text = texts
                        .filter(|text| !text.is_empty())
                        .unwrap_or_else(|| "(no answer)".to_owned());
                    json!({ "index": index, "question": question, "answer": text })
                };
                json!({ "cancelled": false, "answers": questions.iter().map(answer).collect::<Vec<_>>() })
            }
            (Wants::Answers(_), decision) => {
                turn.refused(decision == Decision::DenyAndStop);
                json!({ "cancelled": true, "answers": [] })
            }
        };
        self.calls.result(context.proc(), &id, &result.to_string(), context.out());
    }

    /// Withdraws a request that Droid settled itself, for example after an interrupt.
    pub(super) fn resolved(&mut self, request: &str, context: &mut LinkContext) {
        let id = json!(request).to_string();
        self.asks.withdraw(|ask| ask.id == id, context.out());
    }
}

impl Turn {
    /// Returns whether a request is allowed without asking: tools of the host, and edits of files in
    /// the working directory if the safety level allows them.
    fn allows(&self, params: &Json) -> bool {
        let uses = params.list("toolUses");
        let of_host = |tool: &Json| {
            let name = tool["toolUse"].text("name");
            name.is_some_and(|name| self.host_tools.iter().any(|of_host| of_host == name))
        };
        !uses.is_empty()
            && uses.iter().all(|tool| {
                if of_host(tool) || !self.may_edit() {
                    return of_host(tool);
                }
                let details = &tool["details"];
                let path =
                    details.text("filePath").or_else(|| tool["toolUse"]["input"].text("file_path"));
                matches!(tool.text("confirmationType"), Some("edit" | "create" | "apply_patch"))
                    && details.text("moveTo").is_none()
                    && path.is_some_and(|path| inside(path, &self.cwd))
            })
    }
}

/// Returns whether a path is in a directory. It does not access the file system.
fn inside(path: &str, cwd: &str) -> bool {
    let below = if path.starts_with('/') {
        path.strip_prefix(cwd.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'))
    } else {
        Some(path)
    };
    below.is_some_and(|rest| {
        !rest.is_empty() && !rest.starts_with('~') && rest.split('/').all(|name| name != "..")
    })
}

fn permission(params: &Json) -> (String, AskKind, Option<String>, Wants) {
    let uses = params.list("toolUses");
    let option = params.list("options").iter().find(|option| {
        option.text("value").is_some_and(|value| value.starts_with("proceed_always"))
    });
    let always = option.and_then(|option| option.text("label")).map(str::to_owned);
    let wants =
        Wants::Permission(option.and_then(|option| option.text("value")).map(str::to_owned));
    if let [only] = uses
        && let Some(plan) = only["details"].text("plan")
    {
        let title = only["details"].text("title").unwrap_or("Plan");
        return (one_line(title, 160), AskKind::PlanApproval(plan.to_owned()), None, wants);
    }
    let tools: Vec<ToolStart> = uses.iter().map(about).collect();
    let reason = uses.iter().find_map(|tool| tool["details"].text("reason"));
    let title = match &tools[..] {
        [] => "Droid asks for permission".to_owned(),
        [tool] => labelled(tool),
        [tool, more @ ..] => format!("{} (and {} more)", labelled(tool), more.len()),
    };
    let title = reason
        .map_or_else(|| title.clone(), |reason| format!("{title}: {}", one_line(reason, 160)));
    (title, AskKind::Permission(together(tools)), always, wants)
}

fn labelled(tool: &ToolStart) -> String {
    if tool.title == tool.native_name {
        tool.title.clone()
    } else {
        format!("{}: {}", tool.native_name, tool.title)
    }
}

/// Combines several tool uses of one request, so that the user sees everything that they allow.
fn together(tools: Vec<ToolStart>) -> ToolStart {
    let inputs = tools.iter().map(|tool| tool.input.as_str()).collect::<Vec<_>>().join(",");
    let targets =
        tools.iter().filter_map(|tool| tool.target.as_deref()).collect::<Vec<_>>().join("\n");
    let several = tools.len() > 1;
    let first = tools.into_iter().next().unwrap_or_else(|| tool::TOOLS.start("", "", &Json::Null));
    if several {
        ToolStart { input: format!("[{inputs}]"), target: Some(targets), ..first }
    } else {
        first
    }
}

fn about(asked: &Json) -> ToolStart {
    let used = &asked["toolUse"];
    let details = &asked["details"];
    let mut tool = tool::TOOLS.start(
        used.text("id").unwrap_or_default(),
        used.text("name").unwrap_or_default(),
        &used["input"],
    );
    // The details may be more precise than the tool's input.
    let target = ["fullCommand", "filePath", "target", "command"]
        .into_iter()
        .find_map(|key| details.text(key));
    if let Some(target) = target {
        tool.title = one_line(target, 160);
        tool.target = Some(target.to_owned());
    }
    tool
}

/// Returns the changes of files that a request is about, or nothing if any of its tool uses is
/// something else, which the changes would hide.
fn proposed(params: &Json) -> Vec<FileDiff> {
    let change = |asked: &Json| {
        let (used, details) = (&asked["toolUse"], &asked["details"]);
        let path = details.text("filePath").or_else(|| used["input"].text("file_path"))?;
        let diff = tool::proposed(used.text("name")?, path, &used["input"])?;
        Some(match details.text("moveTo") {
            Some(to) => FileDiff {
                path: to.to_owned(),
                old_path: Some(diff.path),
                change: FileChange::Renamed,
                ..diff
            },
            None => diff,
        })
    };
    let changes: Option<Vec<FileDiff>> = params.list("toolUses").iter().map(change).collect();
    changes.unwrap_or_default()
}

fn questions(params: &Json) -> (String, AskKind, Option<String>, Wants) {
    let asked: Vec<(u32, &Json)> = params
        .list("questions")
        .iter()
        .map(|question| (question.count("index").unwrap_or_default(), question))
        .collect();
    let text = |question: &Json| question.text("question").unwrap_or_default().to_owned();
    let questions: Vec<Question> = asked
        .iter()
        .map(|(index, question)| Question {
            id: index.to_string(),
            text: text(question),
            options: question
                .list("options")
                .iter()
                .filter_map(Json::as_str)
                .map(Choice::plain)
                .collect(),
            many: question.is_true("multiSelect"),
            free_text: true,
            ..Question::default()
        })
        .collect();
    let title =
        asked.first().and_then(|(_, question)| question.text("topic")).unwrap_or("Droid asks");
    let title = one_line(title, 160);
    let wants =
        Wants::Answers(asked.iter().map(|(index, question)| (*index, text(question))).collect());
    (title, AskKind::Questions(questions), None, wants)
}

/// Explains why the turn ended.
pub(super) fn explain_refusal(emit: &mut Emit) {
    emit.notice("Droid ends its turn when something is refused");
}
