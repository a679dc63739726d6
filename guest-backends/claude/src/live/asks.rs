//! What Claude Code wants to know from people (`can_use_tool`), and how their decisions are told to it.

use std::collections::BTreeMap;

use aetheel_backend_sdk::Grants;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{Ask, AskKind, Decision, Question, Settings, TurnRef};
use serde_json::json;

use crate::tool;

const TITLE: usize = 160;
const LABEL: usize = 80;

/// The model is told these words.
const DENIED: &str = "The user denied this.";
const DISMISSED: &str = "Nobody answered the request for permission. Go on without it.";
const TOO_LARGE: &str = "Nobody could be asked for permission: the request is too large. Do it in smaller steps.";
const UNANSWERED: &str = "Nobody answered the questions. Go on without the answers.";

/// Open asks, and what was allowed for the session.
#[derive(Debug, Default)]
pub(super) struct Asks {
    last: u32,
    open: BTreeMap<u32, Open>,
    /// Sets of permissions allowed for the session: a process that was started anew has forgotten them.
    granted: Grants<String>,
}

#[derive(Debug)]
struct Open {
    request: String,
    tool_use: String,
    input: String,
    /// Texts of the questions, by their place. None: it is about a permission.
    questions: Option<Vec<String>>,
    always: Option<Always>,
}

#[derive(Debug, PartialEq)]
struct Always {
    label: String,
    permissions: String,
}

/// What becomes of a request.
pub(super) enum Wanted {
    /// People are asked.
    Ask(Box<Ask>),
    /// It needs no question: this is the answer.
    Answer(String),
    /// It is known already.
    Nothing,
}

/// What to tell the agent.
#[derive(Debug)]
pub(super) struct Told {
    /// The line for it.
    pub(super) line: String,
    /// The tool use that was refused.
    pub(super) refused: Option<String>,
}

impl Asks {
    /// Another conversation begins.
    pub(super) fn forget(&mut self) {
        self.granted.clear();
    }

    /// A turn with these settings begins. Returns whether something that was allowed no longer is: the process, which has
    /// been told of it, knows no way of forgetting.
    pub(super) fn begin(&mut self, settings: &Settings) -> bool {
        self.granted.begin(settings)
    }

    /// The turn is over: the host took back what is open.
    pub(super) fn close(&mut self) {
        self.open.clear();
    }

    /// Takes a `can_use_tool` request in. `plans`: "always" is not offered, as it would end the planning.
    pub(super) fn want(&mut self, line: &Value, turn: TurnRef, plans: bool) -> Wanted {
        let request = line["request_id"].to_string();
        if self.open.values().any(|open| open.request == request) {
            return Wanted::Nothing;
        }
        let asked = &line["request"];
        let (name, input) = (asked.text("tool_name").unwrap_or_default(), &asked["input"]);
        let verbatim = if input.is_null() { "{}".to_owned() } else { input.to_string() };
        let tool_use = asked.text("tool_use_id").unwrap_or_default();
        let always = if plans { None } else { always(asked.list("permission_suggestions")) };
        if let Some(always) = always.as_ref().filter(|always| self.granted.holds(&always.permissions)) {
            return Wanted::Answer(allow(&request, &verbatim, Some(&always.permissions)));
        }
        self.last += 1;
        let questions = if name == "AskUserQuestion" { questions(input) } else { Vec::new() };
        let mut open = Open { request, tool_use: tool_use.to_owned(), input: verbatim, questions: None, always: None };
        let (title, kind) = if !questions.is_empty() {
            open.questions =
                Some(input.list("questions").iter().filter_map(|question| question.text("question")).map(str::to_owned).collect());
            (one_line(&questions[0].text, TITLE), AskKind::Questions(questions))
        } else if name == "ExitPlanMode" {
            let plan = input.text("plan").unwrap_or("Claude Code wrote no plan down.");
            ("Claude Code wants to carry out its plan".to_owned(), AskKind::PlanApproval(plan.to_owned()))
        } else {
            open.always = always;
            let start = tool::start(tool_use, name, None, input);
            // What it is about rather than what the model calls it.
            let title = match &start.target {
                Some(target) => format!("{name}: {}", one_line(target, TITLE)),
                None => name.to_owned(),
            };
            (title, AskKind::Permission(start))
        };
        let always_label = open.always.as_ref().map(|always| always.label.clone());
        self.open.insert(self.last, open);
        Wanted::Ask(Box::new(Ask { ask: self.last, session: turn.session, turn: turn.turn, title, kind, always_label }))
    }

    /// Takes a decision in. None: the ask is not open any more.
    pub(super) fn decide(&mut self, ask: u32, decision: Decision) -> Option<Told> {
        let open = self.open.remove(&ask)?;
        let deny = |message: &str, stop: bool| Told { line: deny(&open.request, message, stop), refused: Some(open.tool_use.clone()) };
        let allow = |input: &str, always: Option<&Always>| Told {
            line: allow(&open.request, input, always.map(|always| always.permissions.as_str())),
            refused: None,
        };
        Some(match (decision, &open.questions) {
            (Decision::AllowOnce, None) => allow(&open.input, None),
            (Decision::AllowAlways, None) => {
                if let Some(always) = &open.always {
                    self.granted.give(always.permissions.clone());
                }
                allow(&open.input, open.always.as_ref())
            }
            (Decision::Answers(answers), Some(questions)) => match answered(&open.input, questions, &answers) {
                Some(input) => allow(&input, None),
                None => deny(UNANSWERED, false),
            },
            (Decision::Deny(Some(said)), _) => deny(&format!("{DENIED} They said: {said}"), false),
            (Decision::Deny(None), _) => deny(DENIED, false),
            (Decision::DenyAndStop, _) => deny(DENIED, true),
            (_, Some(_)) => deny(UNANSWERED, false),
            (_, None) => deny(DISMISSED, false),
        })
    }

    /// The agent does not want to know any more. Returns the ask to withdraw.
    pub(super) fn withdraw(&mut self, line: &Value) -> Option<u32> {
        let request = line["request_id"].to_string();
        let ask = self.open.iter().find(|(_, open)| open.request == request).map(|(ask, _)| *ask)?;
        self.open.remove(&ask);
        Some(ask)
    }
}

/// Returns the refusal of a request nobody can be asked about.
pub(super) fn nobody(line: &Value) -> String {
    deny(&line["request_id"].to_string(), DISMISSED, false)
}

/// Returns the refusal of a request whose line was cut off, as far as it still says which.
pub(super) fn unreadable(line: &str) -> Option<String> {
    let (id, _) = line.strip_prefix(r#"{"type":"control_request","request_id":""#)?.split_once('"')?;
    Some(deny(&json!(id).to_string(), TOO_LARGE, false))
}

/// Returns the answer to a request of an unknown kind.
pub(super) fn unsupported(line: &Value) -> String {
    let request = &line["request_id"];
    format!(r#"{{"type":"control_response","response":{{"subtype":"error","request_id":{request},"error":"not supported"}}}}"#) + "\n"
}

fn allow(request: &str, input: &str, permissions: Option<&str>) -> String {
    let permissions = permissions.map(|permissions| format!(r#","updatedPermissions":{permissions}"#)).unwrap_or_default();
    respond(request, &format!(r#"{{"behavior":"allow","updatedInput":{input}{permissions}}}"#))
}

fn deny(request: &str, message: &str, stop: bool) -> String {
    let mut response = json!({"behavior": "deny", "message": message});
    if stop {
        response["interrupt"] = json!(true);
    }
    respond(request, &response.to_string())
}

fn respond(request: &str, response: &str) -> String {
    format!(r#"{{"type":"control_response","response":{{"subtype":"success","request_id":{request},"response":{response}}}}}"#) + "\n"
}

/// What "always" is, of what Claude Code suggests. Rules alone keep it from asking again; where there are none it is
/// about files, and the mode that edits them freely does. Its other suggestions are wider than the question, and some
/// would be written to its settings.
fn always(suggestions: &[Value]) -> Option<Always> {
    let of = |kind: &str| suggestions.iter().filter(|suggestion| suggestion.text("type") == Some(kind)).collect::<Vec<_>>();
    let rules: Vec<_> = of("addRules").into_iter().filter(|suggestion| suggestion.text("behavior") == Some("allow")).collect();
    let edits: Vec<_> = of("setMode").into_iter().filter(|suggestion| suggestion.text("mode") == Some("acceptEdits")).collect();
    let (chosen, label) = if !rules.is_empty() {
        let names: Vec<String> = rules.iter().flat_map(|rule| rule.list("rules")).filter_map(rule).collect();
        (rules, names.join(", "))
    } else if !edits.is_empty() {
        (edits, "edit files here".to_owned())
    } else {
        let directories = of("addDirectories");
        let names: Vec<&str> = directories.iter().flat_map(|added| added.list("directories")).filter_map(Value::as_str).collect();
        let label = format!("use {}", names.join(", "));
        (directories, label)
    };
    if chosen.is_empty() {
        return None;
    }
    let chosen: Vec<serde_json::Value> = chosen
        .into_iter()
        .filter_map(|suggestion| {
            let mut suggestion: serde_json::Value = serde_json::from_str(&suggestion.to_string()).ok()?;
            suggestion["destination"] = json!("session");
            Some(suggestion)
        })
        .collect();
    Some(Always { label: one_line(&label, LABEL), permissions: json!(chosen).to_string() })
}

fn rule(rule: &Value) -> Option<String> {
    let tool = rule.text("toolName")?;
    Some(rule.text("ruleContent").map_or_else(|| tool.to_owned(), |content| format!("{tool}({content})")))
}

fn questions(input: &Value) -> Vec<Question> {
    let asked = input.list("questions").iter().filter_map(|question| Some((question, question.text("question")?)));
    asked
        .enumerate()
        .map(|(at, (question, text))| {
            let options = question.list("options");
            let label = |option: &Value| option.text("label").or(option.as_str()).unwrap_or_default().to_owned();
            let explained = options.iter().filter_map(|option| {
                let description = option.text("description").filter(|description| !description.is_empty())?;
                Some(format!("\n- {}: {description}", label(option)))
            });
            Question {
                id: at.to_string(),
                text: std::iter::once(text.to_owned()).chain(explained).collect(),
                options: options.iter().map(label).collect(),
                many: question.is_true("multiSelect"),
                free_text: true,
            }
        })
        .collect()
}

/// Returns the input with the answers in it. None: there are none.
fn answered(input: &str, questions: &[String], answers: &[(String, Vec<String>)]) -> Option<String> {
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
