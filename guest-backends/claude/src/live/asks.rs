//! The questions of Claude Code to people (`can_use_tool`), and how their decisions are told to it.

use aetheel_backend_sdk::Offer;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::live::LinkContext;
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{Answer, AskKind, Choice, Decision, Question, TurnRef};
use serde_json::json;

use super::Conversation;
use crate::tool;

const TITLE: usize = 160;
const LABEL: usize = 80;

/// The model is told these words.
const DENIED: &str = "The user denied this.";
const DISMISSED: &str = "Nobody answered the request for permission. Go on without it.";
const TOO_LARGE: &str =
    "Nobody could be asked for permission: the request is too large. Do it in smaller steps.";
const DECLINED: &str = "The user does not want to answer this. Go on without the answers.";
const UNANSWERED: &str = "Nobody answered the questions. Go on without the answers.";

/// A request that waits for people.
#[derive(Debug)]
pub(super) struct Open {
    request: String,
    tool_use: String,
    input: String,
    /// Texts of the questions, by their place. None: it is about a permission.
    questions: Option<Vec<String>>,
    /// The permissions that "always" gives.
    always: Option<String>,
    /// Whether it takes another input.
    changeable: bool,
}

#[derive(Debug, PartialEq)]
struct Always {
    label: String,
    permissions: String,
}

impl Conversation {
    /// Takes a request: a permission or a question goes to people, others are answered.
    pub(super) fn asked(&mut self, message: &Value, text: &str, context: &mut LinkContext) {
        let request = message["request_id"].to_string();
        match (message["request"].text("subtype"), context.turn()) {
            (Some("can_use_tool"), Some(turn)) => {
                self.wanted(request, &message["request"], turn, context)
            }
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

    /// It wants to use a tool.
    fn wanted(&mut self, request: String, asked: &Value, turn: TurnRef, context: &mut LinkContext) {
        if self.asks.any(|open| open.request == request) {
            return;
        }
        let (name, input) = (asked.text("tool_name").unwrap_or_default(), &asked["input"]);
        let verbatim = if input.is_null() { "{}".to_owned() } else { input.to_string() };
        let tool_use = asked.text("tool_use_id").unwrap_or_default();
        // It would end the planning.
        let always =
            if self.process.plans() { None } else { always(asked.list("permission_suggestions")) };
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
        let mut offer = Offer::default();
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
            let plan = input.text("plan").unwrap_or("Claude Code wrote no plan down.");
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
            // What it is about rather than what the model calls it.
            let title = match &start.target {
                Some(target) => format!("{name}: {}", one_line(target, TITLE)),
                None => name.to_owned(),
            };
            (title, AskKind::Permission(start))
        };
        self.asks.ask(turn, title, kind, offer, open, context.out());
    }

    /// Tells the agent the decision of people.
    pub(super) fn decided(&mut self, Answer { ask, decision }: Answer, context: &mut LinkContext) {
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

    /// The agent does not want to know any more.
    pub(super) fn withdrawn(&mut self, message: &Value, context: &mut LinkContext) {
        let request = message["request_id"].to_string();
        self.asks.withdraw(|open| open.request == request, context.out());
    }
}

impl Open {
    /// Returns what the agent is told of a decision, and whether that is a refusal.
    fn reply(&self, decision: Decision) -> (String, bool) {
        let deny = |message: &str, stop: bool| (deny(&self.request, message, stop), true);
        let allow =
            |input: &str, always: Option<&str>| (allow(&self.request, input, always), false);
        match (decision, &self.questions) {
            (Decision::AllowOnce, None) => allow(&self.input, None),
            (Decision::AllowChanged(input), None) if self.changeable => allow(&input, None),
            (Decision::AllowAlways, None) => allow(&self.input, self.always.as_deref()),
            (Decision::Answers(answers), Some(questions)) => {
                match answered(&self.input, questions, &answers) {
                    Some(input) => allow(&input, None),
                    None => deny(UNANSWERED, false),
                }
            }
            (Decision::Deny(Some(said)), _) => deny(&format!("{DENIED} They said: {said}"), false),
            (Decision::Deny(None), _) => deny(DENIED, false),
            (Decision::DenyAndStop, _) => deny(DENIED, true),
            (Decision::Declined, _) => deny(DECLINED, false),
            (_, Some(_)) => deny(UNANSWERED, false),
            (_, None) => deny(DISMISSED, false),
        }
    }
}

/// Returns the refusal of a request whose line was cut off, as far as it still says which.
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

/// Returns the answer to a request; `more` are fields as JSON.
fn respond(subtype: &str, request: &str, more: &str) -> String {
    format!(
        r#"{{"type":"control_response","response":{{"subtype":"{subtype}","request_id":{request},{more}}}}}"#
    )
}

/// Picks the meaning of "always" from the suggestions of Claude Code. Rules alone keep it from
/// asking again; where there are none it is about files, and the mode that edits them freely does.
/// Its other suggestions are wider than the question, and some would be written to its settings.
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
    let asked = input
        .list("questions")
        .iter()
        .filter_map(|question| Some((question, question.text("question")?)));
    asked
        .enumerate()
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

/// Returns the input with the answers in it. None: there are none.
fn answered(
    input: &str,
    questions: &[String],
    answers: &[(String, Vec<String>)],
) -> Option<String> {
    let mut told = serde_json::Map::new();
    for (id, chosen) in answers.iter().filter(|(_, chosen)| !chosen.is_empty()) {
        let question = questions.get(id.parse::<usize>().ok()?)?;
        told.insert(question.clone(), json!(chosen.join(", ")));
    }
    let mut input: serde_json::Value = serde_json::from_str(input).ok()?;
    if told.is_empty() {
        return None;
    }
    input.as_object_mut()?.insert("answers".to_owned(), told.into());
    Some(input.to_string())
}
