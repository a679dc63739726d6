//! A question of an agent as people see it, and what became of it. Pure.
//!
//! Everything an agent says in a question goes through here before anybody sees it: secrets are blanked, and nothing in
//! it moves a cursor, hides or reorders what is read. Whoever decides should see what they decide about.

use serde_json::Value;

use crate::agent::{self, Ask, AskKind, Decision, ToolStart};
use crate::plain::clean_text;
use crate::redact::Redactor;

/// A question that waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenQuestion {
    /// Random; names the question in buttons, logs and state.
    pub id: String,
    /// One line.
    pub title: String,
    /// What is asked.
    pub subject: Subject,
    /// What "always" means here; none: not offered.
    pub always: Option<String>,
}

/// What a question is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// May the agent use this tool?
    Permission {
        /// The agent's name of the tool.
        tool: String,
        /// The command, the changes, or whatever else the tool would work on.
        about: Option<Excerpt>,
    },
    /// Shall the agent go on with this plan (markdown)?
    Plan(String),
    /// Questions with options or room for words, at least one.
    Questions(Vec<agent::Question>),
    /// Sign in at this address.
    SignIn(String),
}

/// Text to be shown as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// Name of the language, as a code block wants it.
    pub language: &'static str,
    /// The text.
    pub text: String,
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// Somebody decided.
    Answered {
        /// Who, as people know them.
        by: String,
        /// What; words without secrets.
        decision: Decision,
    },
    /// The agent no longer wants to know.
    Withdrawn,
    /// Nobody answered in time; the agent was told so.
    Expired,
    /// Its turn is over.
    TurnEnded,
}

impl Settlement {
    /// Says it in one line, for people.
    #[must_use]
    pub fn told(&self) -> String {
        let (by, decision) = match self {
            Self::Answered { by, decision } => (by, decision),
            Self::Withdrawn => return "The agent no longer asks.".to_owned(),
            Self::Expired => return "Nobody answered in time, so the agent was refused.".to_owned(),
            Self::TurnEnded => return "No longer open: the turn is over.".to_owned(),
        };
        match decision {
            Decision::AllowOnce => format!("Allowed by {by}"),
            Decision::AllowAlways => format!("Allowed for this session by {by}"),
            Decision::Deny(None) => format!("Denied by {by}"),
            Decision::Deny(Some(words)) => format!("Denied by {by}: {}", line(words)),
            Decision::DenyAndStop => format!("Denied and stopped by {by}"),
            Decision::Answers(answers) => {
                let chosen: Vec<String> = answers.iter().map(|(_, values)| line(&values.join(", "))).collect();
                format!("Answered by {by}: {}", chosen.join(" · "))
            }
            Decision::Dismissed => "Nobody was there to answer, so the agent was refused.".to_owned(),
        }
    }
}

impl OpenQuestion {
    /// Makes what people may see of an agent's question.
    pub(super) fn of(id: String, ask: &Ask, redactor: &Redactor) -> Self {
        let clean = |text: &str| redactor.clean(clean_text(text).into_owned());
        let subject = match &ask.kind {
            AskKind::Permission(tool) => Subject::Permission {
                tool: line(&clean(&tool.native_name)),
                about: excerpt(tool).map(|excerpt| Excerpt { text: clean(&excerpt.text), ..excerpt }),
            },
            AskKind::PlanApproval(plan) => Subject::Plan(clean(plan)),
            AskKind::Questions(questions) => Subject::Questions(
                questions
                    .iter()
                    .map(|question| agent::Question {
                        id: question.id.clone(),
                        text: clean(&question.text),
                        options: question.options.iter().map(|option| line(&clean(option))).collect(),
                        many: question.many,
                        // Without options there is nothing to choose.
                        free_text: question.free_text || question.options.is_empty(),
                    })
                    .collect(),
            ),
            AskKind::SignIn(address) => Subject::SignIn(line(&clean(address))),
        };
        Self { id, title: line(&clean(&ask.title)), subject, always: ask.always_label.as_deref().map(|label| line(&clean(label))) }
    }
}

/// On one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a tool would do, as far as it can be told from its input.
fn excerpt(tool: &ToolStart) -> Option<Excerpt> {
    let input: Value = serde_json::from_str(&tool.input).unwrap_or_default();
    let text = |language, text: String| (!text.trim().is_empty()).then_some(Excerpt { language, text });
    let target = tool.target.clone().unwrap_or_default();
    match tool.kind.as_str() {
        "bash" => {
            let command = if target.trim().is_empty() { word(&input, &["command", "cmd", "script"]).unwrap_or_default() } else { target };
            text("sh", command)
        }
        "file_write" | "file_edit" => {
            let mut changes = Vec::new();
            collect_changes(&input, 0, &mut changes);
            let path = if changes.iter().any(|change| change.contains(&target)) { String::new() } else { target };
            let whole = std::iter::once(path).chain(changes).filter(|part| !part.trim().is_empty()).collect::<Vec<_>>().join("\n");
            text("diff", whole)
        }
        _ if !target.trim().is_empty() => text("", target),
        _ => match &input {
            Value::Object(fields) if !fields.is_empty() => text("json", serde_json::to_string_pretty(&input).unwrap_or_default()),
            _ => None,
        },
    }
}

/// The first of these fields that is a text.
fn word(input: &Value, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| input[*name].as_str()).map(str::to_owned)
}

/// Finds changes of files in a tool's input, however the agent writes them: a unified diff, the text before and after, or
/// the whole new file.
fn collect_changes(input: &Value, depth: u8, found: &mut Vec<String>) {
    let signed = |sign: char, text: &str| text.lines().map(|line| format!("{sign}{line}")).collect::<Vec<_>>().join("\n");
    if let Value::Object(fields) = input {
        if let Some(diff) = word(input, &["diff", "unified_diff", "unified", "patch"]) {
            return found.push(diff.trim_end().to_owned());
        }
        let old = word(input, &["old_string", "old_text", "oldText", "old_str", "oldString"]);
        let new = word(input, &["new_string", "new_text", "newText", "new_str", "newString", "content"]);
        if let Some(new) = new {
            let path = word(input, &["path", "file_path", "filePath"]).unwrap_or_default();
            let parts = [path, signed('-', &old.unwrap_or_default()), signed('+', &new)];
            return found.push(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n"));
        }
        if depth < 4 {
            for (name, value) in fields {
                // Keyed by path.
                let at = found.len();
                collect_changes(value, depth + 1, found);
                if found.len() > at && name.contains(['/', '.']) && !found[at].contains(name.as_str()) {
                    found[at] = format!("{name}\n{}", found[at]);
                }
            }
        }
    } else if let Value::Array(items) = input
        && depth < 4
    {
        items.iter().for_each(|item| collect_changes(item, depth + 1, found));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(kind: &str, target: Option<&str>, input: &Value) -> ToolStart {
        ToolStart {
            id: "t".to_owned(),
            parent: None,
            kind: kind.to_owned(),
            native_name: "Tool".to_owned(),
            title: String::new(),
            target: target.map(str::to_owned),
            input: input.to_string(),
        }
    }

    fn shown(kind: &str, target: Option<&str>, input: &Value) -> String {
        excerpt(&tool(kind, target, input)).map(|excerpt| excerpt.text).unwrap_or_default()
    }

    #[test]
    fn a_command_is_shown_whole_wherever_the_agent_tells_it() {
        assert_eq!(shown("bash", Some("ls\nrm x"), &json!({})), "ls\nrm x");
        assert_eq!(shown("bash", None, &json!({"command": "make"})), "make");
        assert_eq!(shown("web_fetch", Some("https://example.com"), &json!({"prompt": "p"})), "https://example.com");
        assert_eq!(shown("mcp", None, &json!({"a": 1})), "{\n  \"a\": 1\n}");
        assert_eq!(shown("mcp", None, &json!({})), "");
    }

    #[test]
    fn changes_are_found_however_an_agent_writes_them() {
        for (input, expected) in [
            (json!({"file_path": "a.rs", "old_string": "one\ntwo", "new_string": "three"}), "a.rs\n-one\n-two\n+three"),
            (json!({"file_path": "a.rs", "content": "all"}), "a.rs\n+all"),
            (
                json!({"changes": {"src/a.rs": {"update": {"unified_diff": "@@ -1 +1 @@\n-x\n+y\n"}}}}),
                "a.rs\nsrc/a.rs\n@@ -1 +1 @@\n-x\n+y",
            ),
            (json!({"content": [{"type": "diff", "path": "/a.rs", "oldText": null, "newText": "y"}]}), "/a.rs\n+y"),
            (json!({"edits": [{"old_str": "x", "new_str": "y"}, {"old_str": "p", "new_str": "q"}]}), "a.rs\n-x\n+y\n-p\n+q"),
            (json!({}), "a.rs"),
        ] {
            assert_eq!(
                shown("file_edit", Some("a.rs"), &input).replace("a.rs\nsrc/a.rs", "src/a.rs"),
                expected.replace("a.rs\nsrc/a.rs", "src/a.rs")
            );
        }
    }

    #[test]
    fn secrets_and_what_hides_or_reorders_text_are_shown_to_nobody() {
        let redactor = Redactor::new(&["sk-\"canary\"-1".to_owned().into()]);
        let mut start = tool("bash", None, &json!({"command": "curl -H sk-\"canary\"-1 \u{202e}gpj.exe\u{1b}[2K"}));
        start.native_name = "Bash\n\u{202e}".to_owned();
        let ask = Ask {
            ask: 1,
            session: 1,
            turn: 1,
            title: "Run\nsk-\"canary\"-1?".to_owned(),
            kind: AskKind::Permission(start),
            always_label: None,
        };
        let question = OpenQuestion::of("q".to_owned(), &ask, &redactor);
        assert_eq!(question.title, "Run ***?");
        let about = Some(Excerpt { language: "sh", text: "curl -H *** gpj.exe".to_owned() });
        assert_eq!(question.subject, Subject::Permission { tool: "Bash".to_owned(), about });
    }
}
