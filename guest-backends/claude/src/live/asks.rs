//! Claude Code's questions to users (`can_use_tool`), and the answers with their decisions.

use aetheel_backend_sdk::Offer;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{Answer, AskKind, Choice, Decision, Question, TurnRef};
use serde_json::json;

use super::{Conversation, host_tools};
use crate::tool;

const TITLE: usize = 160;
const LABEL: usize = 80;

/// Texts for the model.
const DENIED: &str = "The user denied this.";
const DISMISSED: &str = "The request for permission was not answered. Go on without it.";
const TOO_LARGE: &str =
    "The request for permission is too large to be shown. Do it in smaller steps.";
const DECLINED: &str = "The user does not want to answer this. Go on without the answers.";
const UNANSWERED: &str = "Nobody answered the questions. Go on without the answers.";

/// A request that waits for the user's decision.
#[derive(Debug)]
pub(super) struct Open {
    request: String,
    tool_use: String,
    input: String,
    /// Texts of the questions in order, or `None` for a permission.
    questions: Option<Vec<String>>,
    /// The permissions that "always" grants.
    always: Option<String>,
    /// Whether the agent accepts another input.
    changeable: bool,
}

#[derive(Debug, PartialEq)]
struct Always {
    label: String,
    permissions: String,
}

impl Conversation {
    /// Handles a request. Permissions and questions are sent to users, and other requests are
    /// refused.
    pub(super) fn handle_request(
        &mut self,
        message: &Value,
        text: &str,
        context: &mut LinkContext,
    ) {
        let request = message["request_id"].to_string();
        match (message["request"].text("subtype"), context.turn()) {
            (Some("can_use_tool"), Some(turn)) => {
                self.ask_permission(request, &message["request"], turn, context)
            }
            (Some("mcp_message"), _) => self.handle_mcp(message, context),
            (Some("can_use_tool"), None) => context.say(&deny(&request, DISMISSED, false)),
            (subtype, _) => {
                if self.turn.is_some() {
                    context.unrecognised(
                        format!("control request {:?}", subtype.unwrap_or_default()),
                        Some("request.subtype"),
                        text,
                    );
                }
                context.say(&respond("error", &request, r#""error":"not supported""#));
            }
        }
    }

    /// Asks for the permission to use a tool.
    fn ask_permission(
        &mut self,
        request: String,
        body: &Value,
        turn: TurnRef,
        context: &mut LinkContext,
    ) {
        if self.asks.any(|open| open.request == request) {
            return;
        }
        let (name, input) = (body.text("tool_name").unwrap_or_default(), &body["input"]);
        let verbatim = if input.is_null() { "{}".to_owned() } else { input.to_string() };
        // The host checks the calls of its own tools.
        if host_tools::is_offered(name, &self.process.offered) {
            return context.say(&allow(&request, &verbatim, None));
        }
        let tool_use = body.text("tool_use_id").unwrap_or_default();
        // "Always" would end planning.
        let always =
            if self.process.plans() { None } else { always(body.list("permission_suggestions")) };
        if let Some(always) =
            always.as_ref().filter(|always| self.granted.holds(&always.permissions))
        {
            return context.say(&allow(&request, &verbatim, Some(&always.permissions)));
        }
        let questions = if name == "AskUserQuestion" { questions(input) } else { Vec::new() };
        let mut open = Open {
            request,
            tool_use: tool_use.to_owned(),
            input: verbatim,
            questions: None,
            always: None,
            changeable: false,
        };
        let agent = body.text("agent_id").and_then(|agent| self.claude.tool_of_agent(agent));
        let mut offer = Offer { parent: agent.map(str::to_owned), ..Offer::default() };
        let (title, kind) = if !questions.is_empty() {
            open.questions = Some(
                input
                    .list("questions")
                    .iter()
                    .filter_map(|question| question.text("question"))
                    .map(str::to_owned)
                    .collect(),
            );
            (one_line(&questions[0].text, TITLE), AskKind::Questions(questions))
        } else if name == "ExitPlanMode" {
            let plan = input.text("plan").unwrap_or("Claude Code did not write a plan.");
            (
                "Claude Code wants to carry out its plan".to_owned(),
                AskKind::PlanApproval(plan.to_owned()),
            )
        } else {
            (offer.always, open.always) =
                always.map(|always| (always.label, always.permissions)).unzip();
            open.changeable = true;
            offer.changeable = true;
            offer.diffs = tool::proposed(name, input);
            let start = tool::start(tool_use, name, None, input);
            // Prefer the target to the model's description.
            let title = match &start.target {
                Some(target) => format!("{name}: {}", one_line(target, TITLE)),
                None => name.to_owned(),
            };
            (title, AskKind::Permission(start))
        };
        self.asks.ask(turn, title, kind, offer, open, context.out());
    }

    /// Sends the user's decision to the agent.
    pub(super) fn send_decision(
        &mut self,
        Answer { ask, decision }: Answer,
        context: &mut LinkContext,
    ) {
        let Some(open) = self.asks.take(ask) else { return };
        if let (Decision::AllowAlways, Some(always)) = (&decision, &open.always) {
            self.granted.give(always.clone());
        }
        let (line, refused) = open.reply(decision);
        if refused {
            self.claude.refuse(&open.tool_use);
        }
        context.say(&line);
    }

    /// Withdraws a request that the agent cancelled.
    pub(super) fn cancel_request(&mut self, message: &Value, context: &mut LinkContext) {
        let request = message["request_id"].to_string();
        self.asks.withdraw(|open| open.request == request, context.out());
        self.cancel_call(&request);
    }
}

impl Open {
    /// Returns the answer to the agent and whether it is a refusal.
    fn reply(&self, decision: Decision) -> (String, bool) {
        let deny = |message: &str, stop: bool| (deny(&self.request, message, stop), true);
        let allow =
            |input: &str, always: Option<&str>| (allow(&self.request, input, always), false);
        match (decision, &self.questions) {
            (Decision::AllowOnce, None) => allow(&self.input, None),
            (Decision::AllowChanged(input), None) if self.changeable => allow(&input, None),
            (Decision::AllowAlways, None) => allow(&self.input, self.always.as_deref()),
            (Decision::Answers(answers), Some(questions)) => {
                match with_answers(&self.input, questions, &answers) {
                    Some(input) => allow(&input, None),
                    None => deny(UNANSWERED, false),
                }
            }
            (Decision::Deny(Some(message)), _) => {
                deny(&format!("{DENIED} They said: {message}"), false)
            }
            (Decision::Deny(None), _) => deny(DENIED, false),
            (Decision::DenyAndStop, _) => deny(DENIED, true),
            (Decision::Declined, _) => deny(DECLINED, false),
            (_, Some(_)) => deny(UNANSWERED, false),
            (_, None) => deny(DISMISSED, false),
        }
    }
}

/// Returns the refusal of a truncated request if its id is readable.
pub(super) fn unreadable(line: &str) -> Option<String> {
    let (id, _) =
        line.strip_prefix(r#"{"type":"control_request","request_id":""#)?.split_once('"')?;
    Some(deny(&json!(id).to_string(), TOO_LARGE, false))
}

fn allow(request: &str, input: &str, permissions: Option<&str>) -> String {
    let permissions = permissions
        .map(|permissions| format!(r#","updatedPermissions":{permissions}"#))
        .unwrap_or_default();
    respond(
        "success",
        request,
        &format!(r#""response":{{"behavior":"allow","updatedInput":{input}{permissions}}}"#),
    )
}

fn deny(request: &str, message: &str, stop: bool) -> String {
    let mut response = json!({"behavior": "deny", "message": message});
    if stop {
        response["interrupt"] = json!(true);
    }
    respond("success", request, &format!(r#""response":{response}"#))
}

/// Returns a control response; `more` has additional fields as JSON text.
pub(super) fn respond(subtype: &str, request: &str, more: &str) -> String {
    format!(
        r#"{{"type":"control_response","response":{{"subtype":"{subtype}","request_id":{request},{more}}}}}"#
    )
}

/// Picks the meaning of "always" from Claude Code's suggestions. Rules are enough to stop it from
/// asking again. Without rules the request is about files, and the mode that edits files freely is
/// enough. The other suggestions exceed the question, and some would change Claude Code's settings
/// files.
fn always(suggestions: &[Value]) -> Option<Always> {
    let of = |kind: &str| {
        suggestions
            .iter()
            .filter(|suggestion| suggestion.text("type") == Some(kind))
            .collect::<Vec<_>>()
    };
    let rules: Vec<_> = of("addRules")
        .into_iter()
        .filter(|suggestion| suggestion.text("behavior") == Some("allow"))
        .collect();
    let edits: Vec<_> = of("setMode")
        .into_iter()
        .filter(|suggestion| suggestion.text("mode") == Some("acceptEdits"))
        .collect();
    let (chosen, label) = if !rules.is_empty() {
        let names: Vec<String> =
            rules.iter().flat_map(|rule| rule.list("rules")).filter_map(rule).collect();
        (rules, names.join(", "))
    } else if !edits.is_empty() {
        (edits, "edit files here".to_owned())
    } else {
        let directories = of("addDirectories");
        let names: Vec<&str> = directories
            .iter()
            .flat_map(|added| added.list("directories"))
            .filter_map(Value::as_str)
            .collect();
        let label = format!("use {}", names.join(", "));
        (directories, label)
    };
    if chosen.is_empty() {
        return None;
    }
    let chosen: Vec<serde_json::Value> = chosen
        .into_iter()
        .filter_map(|suggestion| {
            let mut suggestion: serde_json::Value =
                serde_json::from_str(&suggestion.to_string()).ok()?;
            suggestion["destination"] = json!("session");
            Some(suggestion)
        })
        .collect();
    Some(Always { label: one_line(&label, LABEL), permissions: json!(chosen).to_string() })
}

fn rule(rule: &Value) -> Option<String> {
    let tool = rule.text("toolName")?;
    Some(
        rule.text("ruleContent")
            .map_or_else(|| tool.to_owned(), |content| format!("{tool}({content})")),
    )
}

fn questions(input: &Value) -> Vec<Question> {
    let body = input
        .list("questions")
        .iter()
        .filter_map(|question| Some((question, question.text("question")?)));
    body.enumerate()
        .map(|(at, (question, text))| {
            let options = question.list("options");
            let label = |option: &Value| {
                option.text("label").or(option.as_str()).unwrap_or_default().to_owned()
            };
            let choice = |option: &Value| {
                let description = option
                    .text("description")
                    .filter(|description| !description.is_empty())
                    .map(str::to_owned);
                Choice { description, ..Choice::plain(label(option)) }
            };
            Question {
                id: at.to_string(),
                text: text.to_owned(),
                options: options.iter().map(choice).collect(),
                many: question.is_true("multiSelect"),
                free_text: true,
                ..Question::default()
            }
        })
        .collect()
}

/// Returns the input with the answers added, or `None` if there are no answers.
fn with_answers(
    input: &str,
    questions: &[String],
    answers: &[(String, Vec<String>)],
) -> Option<String> {
    let mut texts = serde_json::Map::new();
    for (id, chosen) in answers.iter().filter(|(_, chosen)| !chosen.is_empty()) {
        let question = questions.get(id.parse::<usize>().ok()?)?;
        texts.insert(question.clone(), json!(chosen.join(", ")));
    }
    let mut input: serde_json::Value = serde_json::from_str(input).ok()?;
    if texts.is_empty() {
        return None;
    }
    input.as_object_mut()?.insert("answers".to_owned(), texts.into());
    Some(input.to_string())
}
