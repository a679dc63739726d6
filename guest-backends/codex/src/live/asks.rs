//! The agent's questions to users, and the answers to the agent.
//!
//! Every request is answered, with the user's decision or, without one, with the mildest refusal.
//! `cancel` ends the turn, and `decline` lets the model continue. Neither has a text, so a message
//! that comes with a refusal is steered into the turn.
//!
//! Permissions for the session are stored here, and each use is answered with `accept`. Codex's own
//! `acceptForSession` covers the thread, and the protocol of 0.169.0 cannot revoke it when the
//! safety level is lowered.

use aetheel_backend_sdk::Offer;
use aetheel_backend_sdk::form::Form;
use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::wit::{AskKind, Choice, Decision, Part, Question, ToolStart, TurnRef};
use serde_json::{Map, json};

use super::{Call, Codex, wire};
use crate::tool;

/// A request of the agent that waits for the user.
#[derive(Debug)]
pub(super) struct Open {
    /// The agent's id of the request, as JSON.
    pub(super) id: String,
    session: u32,
    what: What,
    /// The permissions that "always" grants.
    always: Vec<Grant>,
}

/// A permission for the session: a command in its directory, changes of one file, or a set of
/// permissions.
pub(super) type Grant = String;

/// The form of an answer.
#[derive(Debug)]
enum What {
    /// Only a decision: `{"decision": …}`.
    Approval,
    /// The requested permissions, as JSON.
    Permissions(String),
    Questions,
    /// A form of an MCP server.
    Form(Form),
}

/// An additional action after the answer.
#[derive(Debug, PartialEq)]
enum Then {
    Nothing,
    Stop,
    Tell(String),
}

impl Codex {
    /// Handles a request of the agent.
    pub(super) fn request(
        &mut self,
        id: String,
        method: &str,
        params: &Value,
        line: &str,
        context: &mut LinkContext,
    ) {
        if method == "item/tool/call" {
            return self.call_tool(id, params, context);
        }
        let proc = context.proc();
        if !context.is_ready() || self.asks.any(|open| open.id == id) {
            return;
        }
        let item = params.text("itemId").unwrap_or_default();
        let turn = self.asked_of(params);
        let known = turn.and_then(|(session, _)| {
            self.sessions.get(&session)?.turn.as_ref()?.story.open_tool(item).cloned()
        });
        let reason = params.text("reason").filter(|reason| !reason.is_empty());
        let mut always = Vec::new();
        let mut diffs = Vec::new();
        let permission = |start: ToolStart, verb: &str, always: &str| {
            let title = format!(
                "{verb}: {}{}",
                start.title,
                reason.map(|reason| format!(" ({reason})")).unwrap_or_default()
            );
            (title, AskKind::Permission(start), Some(always.to_owned()))
        };
        let (what, (title, kind, always_label)) = match method {
            "item/commandExecution/requestApproval" => {
                let start = known
                    .or_else(|| tool::start("command_execution", params))
                    .map(|start| ToolStart { id: item.to_owned(), ..start });
                let Some(start) = start else { return };
                always = command(params);
                (What::Approval, permission(start, "Run", "Allow this command for the session"))
            }
            // The request does not contain the changes, but the item before it does.
            "item/fileChange/requestApproval" => {
                let start = known
                    .or_else(|| tool::start("file_change", params))
                    .map(|start| ToolStart { id: item.to_owned(), ..start });
                let Some(start) = start else { return };
                always = changes(params, &start.input);
                diffs = tool::diffs(&start);
                (
                    What::Approval,
                    permission(start, "Change", "Allow changes of these files for the session"),
                )
            }
            "item/permissions/requestApproval" => {
                let wanted = params["permissions"].to_string();
                always.push(wanted.clone());
                let start = plain(item, "request_permissions", "More permissions", &wanted);
                (
                    What::Permissions(wanted),
                    permission(start, "Allow", "Allow this for the session"),
                )
            }
            "item/tool/requestUserInput" => {
                let questions: Vec<Question> =
                    params.list("questions").iter().map(question).collect();
                (What::Questions, (first(&questions), AskKind::Questions(questions), None))
            }
            "mcpServer/elicitation/request" => {
                always.extend(server_tool(params).map(|(_, grant)| grant));
                elicitation(params)
            }
            method => {
                self.strange(&format!("request {method:?}"), params, line, context);
                // The tool fails and the turn continues.
                return self.calls.error(
                    proc,
                    &id,
                    -32601,
                    "method not found: the client does not support it",
                    context.out(),
                );
            }
        };
        let Some((session, turn)) = turn else {
            let (result, _) = what.reply(Decision::Dismissed);
            return self.calls.result(proc, &id, &result, context.out());
        };
        let granted = self
            .sessions
            .get(&session)
            .is_some_and(|session| always.iter().all(|grant| session.grants.holds(grant)));
        if granted && !always.is_empty() {
            let (result, _) = what.reply(Decision::AllowOnce);
            return self.calls.result(proc, &id, &result, context.out());
        }
        let offer = Offer {
            always: always_label.filter(|_| !always.is_empty()),
            diffs,
            parent: self.parent_of(params),
            deadline_ms: params.count("autoResolutionMs").filter(|ms| *ms > 0),
            ..Offer::default()
        };
        self.asks.ask(
            TurnRef { session, turn },
            title,
            kind,
            offer,
            Open { id, session, what, always },
            context.out(),
        );
    }

    pub(super) fn answered(&mut self, ask: u32, decision: Decision, context: &mut LinkContext) {
        let Some(open) = self.asks.take(ask).filter(|_| context.is_ready()) else { return };
        if decision == Decision::AllowAlways
            && let Some(session) = self.sessions.get_mut(&open.session)
        {
            open.always.into_iter().for_each(|grant| session.grants.give(grant));
        }
        let (result, then) = open.what.reply(decision);
        self.calls.result(context.proc(), &open.id, &result, context.out());
        match then {
            Then::Nothing => {}
            Then::Stop => self.stop(open.session, context),
            Then::Tell(text) => {
                let text = format!("[The request was refused with this message: {text}]");
                self.send_input(
                    open.session,
                    &wire::input(None, &[Part::Text(text)]),
                    Call::Note,
                    context,
                );
            }
        }
    }

    /// Returns the id of the tool use whose sub-agent sent a request.
    fn parent_of(&self, params: &Value) -> Option<String> {
        let thread = params.text("threadId")?;
        let turns = self.sessions.values().filter_map(|session| session.turn.as_ref());
        let mut children = turns.flat_map(|turn| &turn.children);
        children.find(|(child, _)| child == thread).map(|(_, tool)| tool.clone())
    }

    /// Returns the session and turn of a request. A sub-agent's request belongs to the turn that
    /// started it.
    pub(super) fn asked_of(&self, params: &Value) -> Option<(u32, u32)> {
        let thread = params.text("threadId").unwrap_or_default();
        let turns = || self.sessions.values().filter_map(|session| session.turn.as_ref());
        let own = self.session_of(params).and_then(|key| self.sessions.get(&key)?.turn.as_ref());
        let turn = own.or_else(|| {
            turns().find(|turn| turn.children.iter().any(|(child, _)| child == thread))
        })?;
        Some((turn.key.session, turn.key.turn))
    }
}

impl What {
    fn reply(self, decision: Decision) -> (String, Then) {
        let then = match &decision {
            Decision::DenyAndStop => Then::Stop,
            Decision::Deny(Some(text)) if !text.trim().is_empty() => Then::Tell(text.clone()),
            _ => Then::Nothing,
        };
        match self {
            // `cancel` also stops the turn.
            Self::Approval => match decision {
                Decision::AllowOnce | Decision::AllowAlways => {
                    (json!({ "decision": "accept" }).to_string(), then)
                }
                Decision::DenyAndStop => {
                    (json!({ "decision": "cancel" }).to_string(), Then::Nothing)
                }
                _ => (json!({ "decision": "decline" }).to_string(), then),
            },
            Self::Permissions(wanted) => match decision {
                Decision::AllowOnce | Decision::AllowAlways => {
                    (format!("{{\"permissions\":{wanted},\"scope\":\"turn\"}}"), then)
                }
                _ => (json!({ "permissions": {}, "scope": "turn" }).to_string(), then),
            },
            Self::Questions => {
                let given =
                    if let Decision::Answers(given) = decision { given } else { Vec::new() };
                let answers: Map<String, serde_json::Value> = given
                    .into_iter()
                    .map(|(id, texts)| (id, json!({ "answers": texts })))
                    .collect();
                (json!({ "answers": answers }).to_string(), then)
            }
            Self::Form(form) => {
                let nobody = decision == Decision::Dismissed;
                let content = match decision {
                    Decision::AllowOnce | Decision::AllowAlways => Some(Map::new()),
                    Decision::Answers(given) => Some(form.content(given)),
                    _ => None,
                };
                let action = match (&content, nobody) {
                    (Some(_), _) => "accept",
                    // Nothing was refused.
                    (None, true) => "cancel",
                    (None, false) => "decline",
                };
                (json!({ "action": action, "content": content, "_meta": null }).to_string(), then)
            }
        }
    }
}

/// Returns the permissions for a command: the same command in the same directory with the same
/// access.
fn command(params: &Value) -> Vec<Grant> {
    let fields = ["command", "cwd", "additionalPermissions", "networkApprovalContext"];
    let named: Vec<(&str, serde_json::Value)> = fields
        .into_iter()
        .filter_map(|field| {
            Some((field, json!(params.get(field).filter(|value| !value.is_null())?)))
        })
        .collect();
    if named.is_empty() { Vec::new() } else { vec![json!({ "command": named }).to_string()] }
}

/// Returns the permissions for a change: changes of each of its files, which the previous item
/// contains.
fn changes(params: &Value, input: &str) -> Vec<Grant> {
    let input = json::parse(input).unwrap_or(Value::Null);
    let root = params.text("grantRoot").map(|root| json!({ "root": root }).to_string());
    let files = input
        .list("changes")
        .iter()
        .filter_map(|change| change.text("path"))
        .map(|path| json!({ "file": path }).to_string());
    files.chain(root).collect()
}

/// Returns the use of an MCP tool from the question's `_meta`, and the permission for it: this tool
/// of this server.
fn server_tool(params: &Value) -> Option<(ToolStart, Grant)> {
    let meta = &params["_meta"];
    let (server, tool) = (params.text("serverName")?, meta.text("tool_name")?);
    let form = &params["requestedSchema"]["properties"];
    if meta.text("codex_approval_kind") != Some("mcp_tool_call")
        || form.as_object().is_some_and(|fields| !fields.is_empty())
    {
        return None;
    }
    let called = format!("{server}.{tool}");
    let input = Some(&meta["tool_params"])
        .filter(|input| !input.is_null())
        .map_or_else(|| "{}".to_owned(), Value::to_string);
    Some((
        ToolStart { kind: "mcp".to_owned(), ..plain("elicitation", &called, &called, &input) },
        json!({ "mcp": [server, tool] }).to_string(),
    ))
}

/// Reads an MCP server's question: a form without fields asks for permission, one with an address
/// asks to open it.
fn elicitation(params: &Value) -> (What, (String, AskKind, Option<String>)) {
    let server = params.text("serverName").unwrap_or("an MCP server");
    let message = params.text("message").or_else(|| params.text("title")).unwrap_or_default();
    let title = format!("{server}: {message}");
    if let Some(url) = params.text("url") {
        return (What::Form(Form::default()), (title, AskKind::SignIn(url.to_owned()), None));
    }
    if let Some((start, _)) = server_tool(params) {
        let always = format!("Allow {} for the session", start.native_name);
        return (What::Form(Form::default()), (title, AskKind::Permission(start), Some(always)));
    }
    let (form, questions) = Form::read(&params["requestedSchema"]);
    if questions.is_empty() {
        let start =
            ToolStart { kind: "mcp".to_owned(), ..plain("elicitation", server, message, "{}") };
        return (What::Form(form), (title, AskKind::Permission(start), None));
    }
    (What::Form(form), (title, AskKind::Questions(questions), None))
}

fn question(entry: &Value) -> Question {
    let option = |option: &Value| {
        let description =
            option.text("description").filter(|text| !text.is_empty()).map(str::to_owned);
        Some(Choice { description, ..Choice::plain(option.text("label")?) })
    };
    let options: Vec<Choice> = entry.list("options").iter().filter_map(option).collect();
    Question {
        id: entry.text("id").unwrap_or_default().to_owned(),
        text: entry
            .text("question")
            .or_else(|| entry.text("header"))
            .unwrap_or_default()
            .to_owned(),
        free_text: entry.is_true("isOther") || options.is_empty(),
        options,
        secret: entry.is_true("isSecret"),
        ..Question::default()
    }
}

fn first(questions: &[Question]) -> String {
    questions.first().map_or_else(|| "A question".to_owned(), |question| question.text.clone())
}

fn plain(id: &str, name: &str, title: &str, input: &str) -> ToolStart {
    ToolStart {
        id: id.to_owned(),
        parent: None,
        kind: "other".to_owned(),
        native_name: name.to_owned(),
        title: title.to_owned(),
        target: None,
        input: input.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_answered_with_the_types_of_their_fields() {
        let params = json::parse(
            r#"{"serverName":"db","message":"Which?","requestedSchema":{"properties":{"n":{"type":"integer","title":"How many"},
            "ok":{"type":"boolean"},"c":{"type":"string","default":"red","enum":["red","blue"],"enumNames":["red","the blue one"]}},
            "required":["c"]}}"#,
        )
        .expect("JSON");
        let (what, (title, kind, _)) = elicitation(&params);
        let AskKind::Questions(questions) = kind else { panic!("{kind:?}") };
        assert_eq!((title.as_str(), questions.len()), ("db: Which?", 3));
        let (nobody, _) = elicitation(&params).0.reply(Decision::Dismissed);
        let (declined, _) = elicitation(&params).0.reply(Decision::Declined);
        assert!(
            nobody.contains(r#""action":"cancel""#) && declined.contains(r#""action":"decline""#),
            "{nobody} {declined}"
        );
        let answers = [("n", "3"), ("ok", "yes"), ("c", "red"), ("stray", "x")]
            .map(|(id, text)| (id.to_owned(), vec![text.to_owned()]));
        let (reply, _) = what.reply(Decision::Answers(answers.to_vec()));
        assert_eq!(
            reply,
            r#"{"_meta":null,"action":"accept","content":{"c":"red","n":3,"ok":true}}"#
        );
    }

    #[test]
    fn a_question_about_an_mcp_tool_shows_only_its_arguments() {
        let params = json::parse(
            r#"{"serverName":"srv","mode":"form","_meta":{"codex_approval_kind":"mcp_tool_call","persist":["session","always"],"tool_name":"put",
            "tool_params":{"where":"/etc/x"}},"message":"Allow the srv MCP server to run tool \"put\"?","requestedSchema":{"type":"object","properties":{}}}"#,
        )
        .expect("JSON");
        let (what, (title, kind, always)) = elicitation(&params);
        let AskKind::Permission(start) = kind else { panic!("{kind:?}") };
        assert_eq!(
            (start.native_name.as_str(), start.kind.as_str(), start.input.as_str()),
            ("srv.put", "mcp", r#"{"where":"/etc/x"}"#)
        );
        assert_eq!(
            (title.as_str(), always.as_deref()),
            (
                "srv: Allow the srv MCP server to run tool \"put\"?",
                Some("Allow srv.put for the session")
            )
        );
        assert_eq!(
            what.reply(Decision::AllowAlways).0,
            r#"{"_meta":null,"action":"accept","content":{}}"#
        );
        assert_eq!(
            server_tool(&params).map(|(_, grant)| grant).as_deref(),
            Some(r#"{"mcp":["srv","put"]}"#)
        );

        let params = json::parse(r#"{"serverName":"srv","_meta":{"noise":1},"message":"Go on?","requestedSchema":{"properties":{}}}"#)
            .expect("JSON");
        let (_, (_, kind, _)) = elicitation(&params);
        let AskKind::Permission(start) = kind else { panic!("{kind:?}") };
        assert_eq!(start.input, "{}", "the question has no other content");
    }

    #[test]
    fn permissions_are_granted_as_requested() {
        let what = || What::Permissions(r#"{"network":{"enabled":true}}"#.to_owned());
        let reply = |decision| what().reply(decision);
        assert_eq!(
            reply(Decision::AllowOnce).0,
            r#"{"permissions":{"network":{"enabled":true}},"scope":"turn"}"#
        );
        assert_eq!(
            reply(Decision::AllowAlways).0,
            reply(Decision::AllowOnce).0,
            "the permission is stored in the backend"
        );
        assert_eq!(
            reply(Decision::Dismissed),
            (r#"{"permissions":{},"scope":"turn"}"#.to_owned(), Then::Nothing)
        );
        assert_eq!(
            reply(Decision::DenyAndStop),
            (r#"{"permissions":{},"scope":"turn"}"#.to_owned(), Then::Stop)
        );
    }
}
