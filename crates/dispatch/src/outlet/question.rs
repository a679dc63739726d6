//! An agent's question as people see it, and its outcome. Pure.
//!
//! The whole text of a question is cleaned here before anybody sees it: secrets are redacted, and
//! characters that move a cursor or hide or reorder text are removed. People must be able to see
//! what they decide about.

use serde_json::Value;

use super::excerpt::{self, Excerpt};
use aetheel_model::agent::labels::{ALLOW_ONCE, ALLOW_SESSION};
use aetheel_model::agent::{
    self, AnswerForm, Ask, AskDecision, AskKind, AskOption, DecisionScope, TextForm,
};
use aetheel_model::id::UserId;
use aetheel_model::plain::clean_text;
use aetheel_model::redact::Redactor;

/// The maximum number of the agent's own options that people may choose from.
const OPTION_LIMIT: usize = 10;

/// The label of a choice to write files although another conversation uses them.
const WRITE_ANYWAY: &str = "Write anyway";
/// The label of a choice not to write files because another conversation uses them.
const DENY: &str = "Deny";
/// The label of the choice that lets the agent carry out its plan.
const ACCEPT_PLAN: &str = "Accept the plan";

/// A question that waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenQuestion {
    /// The id of the question in buttons, logs and state files. The same after a restart.
    pub id: String,
    /// The question on one line.
    pub title: String,
    /// The kind and the content of the question.
    pub subject: Subject,
    /// The meaning of "always" for this question; `None` if that is not offered.
    pub always: Option<String>,
    /// The agent's own options, if it has any. Their ids are never shown.
    pub options: Vec<AskOption>,
    /// The input of the tool as a JSON object, if the agent accepts a changed one.
    pub input: Option<String>,
    /// The user who is asked; `None` if no user asked for the turn.
    pub asker: Option<UserId>,
    /// Why people are asked, if another conversation uses the files of the request.
    pub collision: Option<String>,
}

/// The kind and the content of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// Whether the agent may use a tool.
    Permission {
        /// The agent's name for the tool.
        tool: String,
        /// The command, the changes, or other input of the tool.
        about: Option<Excerpt>,
    },
    /// Whether the agent should carry out this plan, in Markdown.
    Plan(String),
    /// One or more questions with options or free text.
    Questions(Vec<agent::Question>),
    /// A request to sign in at this address.
    SignIn(String),
}

/// How a question was closed.
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// A person decided, in Discord or at the terminal.
    Answered {
        /// The name of the person.
        by: String,
        /// The decision, with labels instead of ids and without secrets.
        decision: AskDecision,
    },
    /// The agent withdrew the question.
    Withdrawn,
    /// The question was not answered in time, so the agent's request was refused.
    Expired,
    /// The turn has ended.
    TurnEnded,
}

impl Settlement {
    /// Returns a line about the outcome for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let (by, decision) = match self {
            Self::Answered { by, decision } => (by, decision),
            Self::Withdrawn => return "The agent withdrew the question.".to_owned(),
            Self::Expired => {
                return "The question was not answered in time, so the agent was refused."
                    .to_owned();
            }
            Self::TurnEnded => return "No longer open: the turn is over.".to_owned(),
        };
        match decision {
            AskDecision::AllowOnce => format!("Allowed by {by}"),
            AskDecision::AllowAlways => format!("Allowed for this session by {by}"),
            AskDecision::AllowChanged(_) => format!("Allowed with changes by {by}"),
            AskDecision::Chosen(label) => format!("{by} chose: {}", single_line(label)),
            AskDecision::Declined => format!("{by} declined to answer"),
            AskDecision::Deny(None) => format!("Denied by {by}"),
            AskDecision::Deny(Some(words)) => format!("Denied by {by}: {}", single_line(words)),
            AskDecision::DenyAndStop => format!("Denied and stopped by {by}"),
            AskDecision::Answers(answers) => {
                let chosen: Vec<String> =
                    answers.iter().map(|(_, values)| single_line(&values.join(", "))).collect();
                format!("Answered by {by}: {}", chosen.join(" · "))
            }
            AskDecision::Dismissed => {
                "No one was available to answer, so the agent was refused.".to_owned()
            }
        }
    }
}

impl OpenQuestion {
    /// Creates the visible form of an agent's question.
    pub fn of(id: String, ask: &Ask, asker: Option<UserId>, redactor: &Redactor) -> Self {
        let clean = |text: &str| redactor.redact(clean_text(text).into_owned());
        let about = match &ask.kind {
            AskKind::Permission(tool) => {
                excerpt::of_diffs(&ask.diffs).or_else(|| excerpt::of_tool(tool))
            }
            _ => None,
        };
        let mut cleaned = ask.clone();
        cleaned.for_each_text(&mut |form, text| match form {
            TextForm::Line => *text = single_line(&clean(text)),
            TextForm::Block | TextForm::Data => *text = clean(text),
        });
        let subject = match cleaned.kind {
            AskKind::Permission(tool) => Subject::Permission {
                tool: tool.native_name,
                about: about.map(|excerpt| Excerpt { text: clean(&excerpt.text), ..excerpt }),
            },
            AskKind::PlanApproval(plan) => Subject::Plan(plan),
            AskKind::Questions(questions) => Subject::Questions(
                questions
                    .into_iter()
                    .map(|question| agent::Question {
                        // A question without options needs free text.
                        free_text: question.free_text
                            || (question.options.is_empty() && question.form != AnswerForm::YesNo),
                        ..question
                    })
                    .map(|question| match (question.form, question.options.is_empty()) {
                        (AnswerForm::YesNo, true) => {
                            let options = [("yes", "Yes"), ("no", "No")];
                            let options = options.map(|(id, label)| agent::QuestionChoice {
                                id: id.to_owned(),
                                ..agent::QuestionChoice::plain(label)
                            });
                            agent::Question { options: options.to_vec(), ..question }
                        }
                        _ => question,
                    })
                    .collect(),
            ),
            AskKind::SignIn(address) => Subject::SignIn(address),
        };
        let always = cleaned.always_label;
        let takes_options = matches!(subject, Subject::Permission { .. } | Subject::Plan(_));
        let mut options = if takes_options { cleaned.options } else { Vec::new() };
        // The options are sorted so that the first one grants the least.
        options.sort_by_key(|option| (!option.allows, option.scope));
        options.truncate(OPTION_LIMIT);
        // A redacted input would be a different input.
        let input = match &ask.kind {
            AskKind::Permission(tool) if ask.changeable && clean(&tool.input) == tool.input => {
                Some(tool.input.clone())
            }
            _ => None,
        };
        let mut title = cleaned.title;
        if ask.parent.is_some() {
            title.push_str(" (a sub-agent asks)");
        }
        Self { id, title, subject, always, options, input, asker, collision: None }
    }

    /// Returns the words that decide a question, each with its label and its decision. Not meant
    /// for [`Subject::Questions`].
    #[must_use]
    pub fn choices(&self) -> Vec<(&'static str, String, AskDecision)> {
        if let Subject::SignIn(_) = self.subject {
            return vec![
                ("done", "I have signed in".to_owned(), AskDecision::AllowOnce),
                ("cancel", "Cancel".to_owned(), AskDecision::Deny(None)),
                ("stop", "Cancel and stop".to_owned(), AskDecision::DenyAndStop),
            ];
        }
        let mut choices = match self.options.is_empty() {
            true => vec![("allow", self.allow_label().to_owned(), AskDecision::AllowOnce)],
            false => Vec::new(),
        };
        // If the agent has options of its own, "always" is one of them.
        choices.extend(
            self.always()
                .filter(|_| self.options.is_empty())
                .map(|label| ("always", label, AskDecision::AllowAlways)),
        );
        for option in &self.options {
            let word = match (option.allows, option.scope) {
                (true, DecisionScope::Once) => "allow",
                (true, _) => "always",
                (false, DecisionScope::Once) => continue,
                (false, _) => "never",
            };
            choices.push((word, self.option_label(option), AskDecision::Chosen(option.id.clone())));
        }
        let deny = format!("{}; `deny WHY` says why", self.deny_label());
        choices.push(("deny", deny, AskDecision::Deny(None)));
        choices.push(("stop", "Deny and stop".to_owned(), AskDecision::DenyAndStop));
        choices
    }

    /// Returns why people are asked, if another conversation uses the files of the request.
    #[must_use]
    pub fn collision_note(&self) -> Option<String> {
        let reason = self.collision.as_ref()?;
        Some(format!("Another conversation uses the same files: {reason}"))
    }

    /// Returns the label of the choice that allows the request once.
    #[must_use]
    pub fn allow_label(&self) -> &'static str {
        match &self.subject {
            _ if self.collision.is_some() => WRITE_ANYWAY,
            Subject::Plan(_) => ACCEPT_PLAN,
            _ => ALLOW_ONCE,
        }
    }

    /// Returns the label of the choice that denies the request.
    #[must_use]
    pub fn deny_label(&self) -> &'static str {
        DENY
    }

    /// Returns the label of an option of the agent.
    #[must_use]
    pub fn option_label(&self, option: &AskOption) -> String {
        match (&self.collision, option.scope) {
            (Some(_), DecisionScope::Once) if option.allows => WRITE_ANYWAY.to_owned(),
            (Some(_), DecisionScope::Once) => DENY.to_owned(),
            _ => option.full_label(),
        }
    }

    /// Returns the label of the button that always allows the request, or `None` if that is not
    /// offered.
    #[must_use]
    pub fn always(&self) -> Option<String> {
        self.always.as_deref().map(|label| match label {
            "" => ALLOW_SESSION.to_owned(),
            label if label.to_lowercase().starts_with("always") => label.to_owned(),
            label => format!("Always allow: {label}"),
        })
    }

    /// Parses a decision from a line that somebody wrote. Returns `None` if the line is not a
    /// decision. For [`Subject::Questions`], only the label of an option counts, and only if there
    /// is one question: any other text may be meant for somebody else.
    #[must_use]
    pub fn parse_decision(&self, line: &str) -> Option<AskDecision> {
        let line = line.trim();
        if let Subject::Questions(questions) = &self.subject {
            let [asked] = &questions[..] else { return None };
            let option = asked
                .options
                .iter()
                .find(|option| option.label.to_lowercase() == line.to_lowercase())?;
            return Some(AskDecision::Answers(vec![(asked.id.clone(), vec![option.id.clone()])]));
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if word.eq_ignore_ascii_case("change") && self.input.is_some() {
            return serde_json::from_str::<serde_json::Map<String, Value>>(rest)
                .is_ok()
                .then(|| AskDecision::AllowChanged(rest.to_owned()));
        }
        let word = match word.to_lowercase().as_str() {
            "y" | "yes" => "allow".to_owned(),
            "n" | "no" => "deny".to_owned(),
            other => other.to_owned(),
        };
        let (word, _, decision) = self.choices().into_iter().find(|(name, ..)| *name == word)?;
        match (decision, rest.trim()) {
            (decision, "") => Some(decision),
            (AskDecision::Deny(_), why) if word == "deny" => {
                Some(AskDecision::Deny(Some(why.to_owned())))
            }
            _ => None,
        }
    }
}

/// Joins all words on one line.
fn single_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::outlet::excerpt::tests::tool;

    #[test]
    fn secrets_and_characters_that_hide_or_reorder_text_are_removed() {
        let redactor = Redactor::new(&["sk-\"canary\"-1".to_owned().into()]);
        let mut start = tool(
            "bash",
            None,
            &json!({"command": "curl -H sk-\"canary\"-1 \u{202e}gpj.exe\u{1b}[2K"}),
        );
        start.native_name = "Bash\n\u{202e}".to_owned();
        let ask = Ask {
            ask: 1,
            session: 1,
            turn: 1,
            title: "Run\nsk-\"canary\"-1?".to_owned(),
            kind: AskKind::Permission(start),
            always_label: None,
            options: Vec::new(),
            diffs: Vec::new(),
            changeable: false,
            parent: None,
            deadline_ms: None,
        };
        let question = OpenQuestion::of("q".to_owned(), &ask, None, &redactor);
        assert_eq!(question.title, "Run ***?");
        let about = Some(Excerpt { language: "sh", text: "curl -H *** gpj.exe".to_owned() });
        assert_eq!(question.subject, Subject::Permission { tool: "Bash".to_owned(), about });
    }

    #[test]
    fn the_label_of_always_starts_with_always() {
        let called = |label: Option<&str>| {
            let subject = Subject::Plan(String::new());
            OpenQuestion {
                id: String::new(),
                title: String::new(),
                subject,
                always: label.map(str::to_owned),
                options: vec![],
                input: None,
                asker: None,
                collision: None,
            }
            .always()
        };
        assert_eq!(called(Some("npm test")).as_deref(), Some("Always allow: npm test"));
        assert_eq!(called(Some("Always for make")).as_deref(), Some("Always for make"));
        assert_eq!(called(Some("")).as_deref(), Some("Allow for this session"));
        assert_eq!(called(None), None);
    }

    #[test]
    fn only_unambiguous_text_is_taken_as_a_decision() {
        let of = |subject| OpenQuestion {
            id: String::new(),
            title: String::new(),
            subject,
            always: Some(String::new()),
            options: vec![],
            input: None,
            asker: None,
            collision: None,
        };
        let permission = of(Subject::Permission { tool: "Bash".to_owned(), about: None });
        assert_eq!(permission.parse_decision(" Yes "), Some(AskDecision::AllowOnce));
        assert_eq!(permission.parse_decision("always"), Some(AskDecision::AllowAlways));
        assert_eq!(
            permission.parse_decision("deny not now"),
            Some(AskDecision::Deny(Some("not now".to_owned())))
        );
        assert_eq!(permission.parse_decision("allow me to explain"), None);
        let asked = |id: &str| agent::Question {
            id: id.to_owned(),
            options: vec!["Red".into()],
            free_text: true,
            ..agent::Question::default()
        };
        let one = of(Subject::Questions(vec![asked("a")]));
        assert_eq!(
            one.parse_decision("red"),
            Some(AskDecision::Answers(vec![("a".to_owned(), vec!["Red".to_owned()])]))
        );
        assert_eq!(one.parse_decision("blue"), None, "it may be meant for somebody else");
        assert_eq!(
            of(Subject::Questions(vec![asked("a"), asked("b")])).parse_decision("red"),
            None
        );
    }
}
