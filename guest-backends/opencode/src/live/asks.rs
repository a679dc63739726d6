//! Questions to the user: permissions and questions of the model.
//!
//! Every request is answered, unless the agent withdraws it. In OpenCode 1.18.33, a refused
//! permission without a message ends the turn, while the model continues after a message. An empty
//! answer to a question lets the model continue, while a rejection ends the turn.

use std::collections::BTreeMap;

use aetheel_backend_sdk::Offer;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{Action, AskKind, Choice, Decision, Question, ToolStart, TurnRef};
use serde_json::json;

use super::OpenCode;
use super::link::{Purpose, Wait, text};
use crate::{safety, tool};

const REFUSED: &str = "The user refused this. Continue without it.";
const NOBODY: &str = "The request was not answered. Continue without it.";
/// Maximum length of a title, in bytes.
const TITLE: usize = 160;

/// A request of the agent that waits for the user.
#[derive(Debug)]
pub(crate) struct Open {
    session: u32,
    request: String,
    what: What,
    /// Whether a sub-agent asks.
    child: bool,
}

#[derive(Debug)]
enum What {
    /// The permission, and the patterns that "always" covers.
    Permission(String, Vec<String>),
    /// The number of questions.
    Questions(usize),
}

/// Withdraws the open questions of a session.
pub(crate) fn withdraw(asks: &mut BTreeMap<u32, Open>, session: u32, out: &mut Vec<Action>) {
    asks.retain(|ask, open| {
        if open.session == session {
            out.push(Action::AskWithdrawn(*ask));
        }
        open.session != session
    });
}

impl OpenCode {
    pub(super) fn asked(
        &mut self,
        session: u32,
        kind: &str,
        request: &Value,
        context: &mut LinkContext,
    ) {
        let (Some(known), Some(id)) = (self.sessions.get(&session), request.text("id")) else {
            return;
        };
        // Without a turn of this link, no answer is expected.
        let Some(turn) = &known.turn else { return };
        if self.asks.values().any(|open| open.request == id) {
            return;
        }
        let child = request.text("sessionID") != known.native.as_deref();
        let name = turn.name;
        let (title, ask_kind, what, offer) = if kind == "question.asked" {
            let questions = request.list("questions");
            let title = questions
                .first()
                .and_then(|first| first.text("question"))
                .unwrap_or("OpenCode asks");
            (
                title.to_owned(),
                AskKind::Questions(questions.iter().enumerate().map(question).collect()),
                What::Questions(questions.len()),
                Offer::default(),
            )
        } else {
            let permission = request.text("permission").unwrap_or_default().to_owned();
            let always = texts(&request["always"]);
            if safety::granted(&turn.settings, &permission)
                || known.allowed.contains(&(permission.clone(), always.clone()))
            {
                return self.reply(
                    session,
                    id,
                    "permission",
                    "reply",
                    &json!({"reply": "once"}),
                    context,
                );
            }
            let start = about(
                &permission,
                request,
                turn.parts.used(request["tool"].text("callID").unwrap_or_default()),
            );
            let title = format!("OpenCode asks to use {permission}: {}", start.title);
            let label = (!always.is_empty()).then(|| {
                one_line(
                    &format!("Allow {permission} {} in this session", always.join(", ")),
                    TITLE,
                )
            });
            let offer = Offer { diffs: tool::proposed(&request["metadata"]), ..Offer::from(label) };
            (title, AskKind::Permission(start), What::Permission(permission, always), offer)
        };
        let ask = self.link.key();
        self.asks.insert(ask, Open { session, request: id.to_owned(), what, child });
        let title = one_line(&title, TITLE);
        context.emit(TurnRef { session, turn: name.turn }).ask(ask, title, ask_kind, offer);
    }

    pub(super) fn answered(&mut self, ask: u32, decision: &Decision, context: &mut LinkContext) {
        let Some(open) = self.asks.remove(&ask) else { return };
        let Open { session, request, what, child } = open;
        match &what {
            What::Permission(permission, always) => {
                let reply = match decision {
                    Decision::AllowOnce | Decision::AllowAlways => json!({"reply": "once"}),
                    Decision::Deny(why) => {
                        json!({"reply": "reject", "message": why.as_deref().unwrap_or(REFUSED)})
                    }
                    Decision::DenyAndStop => json!({"reply": "reject"}),
                    _ => json!({"reply": "reject", "message": NOBODY}),
                };
                self.reply(session, &request, "permission", "reply", &reply, context);
                if *decision == Decision::AllowAlways {
                    self.allow(session, permission, always, context);
                }
            }
            What::Questions(count) => {
                let answers = |texts: &dyn Fn(usize) -> Vec<String>| json!({"answers": (0..*count).map(texts).collect::<Vec<_>>()});
                let reply = match decision {
                    Decision::Answers(given) => answers(&|number| {
                        given
                            .iter()
                            .find(|(id, _)| *id == number.to_string())
                            .map(|(_, texts)| texts.clone())
                            .unwrap_or_default()
                    }),
                    Decision::Deny(Some(why)) => answers(&|_| vec![why.clone()]),
                    Decision::DenyAndStop => {
                        self.reply(session, &request, "question", "reject", &json!({}), context);
                        return self.stop_parent(session, child, context);
                    }
                    _ => answers(&|_| Vec::new()),
                };
                self.reply(session, &request, "question", "reply", &reply, context);
            }
        }
        if *decision == Decision::DenyAndStop {
            // After a refusal without a message, the server ends the turn as completed.
            if let Some(turn) =
                self.sessions.get_mut(&session).and_then(|session| session.turn.as_mut())
            {
                turn.stopped();
            }
            self.stop_parent(session, child, context);
        }
    }

    /// Withdraws a question that was answered, by this link or elsewhere.
    pub(super) fn replied(&mut self, properties: &Value, context: &mut LinkContext) {
        let Some(request) = properties.text("requestID") else { return };
        self.asks.retain(|ask, open| {
            if open.request == request {
                context.action(Action::AskWithdrawn(*ask));
            }
            open.request != request
        });
    }

    /// Allows something for the rest of the session, and answers the open requests that it covers.
    fn allow(
        &mut self,
        session: u32,
        permission: &str,
        always: &[String],
        context: &mut LinkContext,
    ) {
        let Some(known) = self.sessions.get_mut(&session).filter(|_| !always.is_empty()) else {
            return;
        };
        known.allowed.insert((permission.to_owned(), always.to_vec()));
        let covered = |open: &Open| {
            open.session == session
                && matches!(&open.what, What::Permission(p, a) if p == permission && a == always)
        };
        let asks: Vec<u32> =
            self.asks.iter().filter(|(_, open)| covered(open)).map(|(ask, _)| *ask).collect();
        for ask in asks {
            context.action(Action::AskWithdrawn(ask));
            self.answered(ask, &Decision::AllowOnce, context);
        }
    }

    /// Interrupts the turn if a sub-agent was refused. The refusal ends only the sub-agent, and the
    /// agent that started it would continue.
    fn stop_parent(&mut self, session: u32, child: bool, context: &mut LinkContext) {
        if let Some(turn) = context.turn_of(session).filter(|_| child) {
            self.abort(turn, context);
            self.link.wait(turn, Wait::Grace, context.out());
        }
    }

    fn reply(
        &mut self,
        session: u32,
        id: &str,
        kind: &str,
        how: &str,
        body: &serde_json::Value,
        context: &mut LinkContext,
    ) {
        // The id becomes part of a path.
        if !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return;
        }
        let directory = self.sessions.get(&session).map(|session| session.cwd.as_str());
        self.link.http(
            ("POST", &format!("/{kind}/{id}/{how}")),
            directory,
            text(body),
            Purpose::Reply,
            context,
        );
    }
}

/// Returns the subject of a permission request: the tool use, or the request's own data.
fn about(permission: &str, request: &Value, used: Option<&ToolStart>) -> ToolStart {
    let patterns = texts(&request["patterns"]).join(", ");
    // The metadata may contain more than the tool's input, such as a path outside of the directory
    // or a diff.
    let input = match (&request["metadata"], used) {
        (Value::Object(metadata), _) if !metadata.is_empty() => request["metadata"].to_string(),
        (_, Some(used)) => used.input.clone(),
        _ => json!({"patterns": texts(&request["patterns"])}).to_string(),
    };
    let title = match used {
        Some(used) if patterns.is_empty() => used.title.clone(),
        _ if patterns.is_empty() => permission.to_owned(),
        _ => one_line(&patterns, TITLE),
    };
    let id = used
        .map_or_else(|| request.text("id").unwrap_or_default().to_owned(), |used| used.id.clone());
    let target = used
        .and_then(|used| used.target.clone())
        .or_else(|| Some(patterns).filter(|patterns| !patterns.is_empty()));
    let kind = match used {
        Some(used) if tool::kind(permission) == "other" => used.kind.clone(),
        _ => tool::kind(permission).to_owned(),
    };
    let native_name = used.map_or_else(|| permission.to_owned(), |used| used.native_name.clone());
    ToolStart {
        id,
        parent: used.and_then(|used| used.parent.clone()),
        kind,
        native_name,
        title,
        target,
        input,
    }
}

fn question((number, question): (usize, &Value)) -> Question {
    Question {
        id: number.to_string(),
        text: question.text("question").unwrap_or_default().to_owned(),
        options: question.list("options").iter().filter_map(choice).collect(),
        many: question.is_true("multiple"),
        free_text: question.get("custom").and_then(json::Value::as_bool).unwrap_or(true),
        ..Question::default()
    }
}

fn choice(option: &Value) -> Option<Choice> {
    let description = option.text("description").filter(|said| !said.is_empty()).map(str::to_owned);
    Some(Choice { description, ..Choice::plain(option.text("label")?) })
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array()
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
