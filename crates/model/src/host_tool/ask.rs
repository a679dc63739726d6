//! The tool `aetheel_ask`: a question of the agent to people. Agents get the comments of [`AskPeople`]
//! as descriptions.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::agent::{Ask, AskDecision, AskKey, AskKind, Question, QuestionChoice, TurnRef};

const MAX_ASK_OPTIONS: usize = 25;
const MAX_OPTION_CHARS: usize = 200;
const MAX_QUESTION_CHARS: usize = 4_000;
/// The id of the only question in the form.
const QUESTION: &str = "answer";

/// Asks the people in the chat a question and waits for the answer. Use it only if you cannot
/// continue without a decision or a fact that only they know. The result is the answer, or a note
/// that there was no answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct AskPeople {
    /// The question, understandable without further context.
    question: String,
    /// Answers to choose from. People may also write their own answer.
    #[schemars(length(max = MAX_ASK_OPTIONS))]
    options: Option<Vec<String>>,
    /// Whether several options may be chosen. The default is false.
    many: Option<bool>,
}

impl AskPeople {
    /// Checks the limits.
    ///
    /// # Errors
    /// Returns the limit that is violated.
    pub fn check(&self) -> Result<(), &'static str> {
        let options = self.options.as_deref().unwrap_or_default();
        let is_long = |option: &String| option.chars().count() > MAX_OPTION_CHARS;
        if self.question.trim().is_empty() {
            Err("the question is empty")
        } else if self.question.chars().count() > MAX_QUESTION_CHARS {
            Err("the question has more than 4000 characters")
        } else if options.len() > MAX_ASK_OPTIONS {
            Err("there are more than 25 options")
        } else if options.iter().any(|option| option.trim().is_empty() || is_long(option)) {
            Err("an option is empty or has more than 200 characters")
        } else if (1..options.len()).any(|at| options[..at].contains(&options[at])) {
            Err("two options are the same")
        } else {
            Ok(())
        }
    }

    /// Returns the question for people.
    #[must_use]
    pub fn ask(&self, ask: AskKey, turn: TurnRef) -> Ask {
        let options = self.options.iter().flatten();
        let question = Question {
            id: QUESTION.to_owned(),
            text: self.question.clone(),
            options: options.map(|option| QuestionChoice::plain(option.as_str())).collect(),
            many: self.many == Some(true),
            free_text: true,
            ..Question::default()
        };
        Ask {
            ask,
            session: turn.session,
            turn: turn.turn,
            title: "The agent asks".to_owned(),
            kind: AskKind::Questions(vec![question]),
            always_label: None,
            options: Vec::new(),
            diffs: Vec::new(),
            changeable: false,
            parent: None,
            deadline_ms: None,
        }
    }

    /// Returns the decision for a result, to show a recorded call to people.
    #[must_use]
    pub fn decision(text: String) -> AskDecision {
        AskDecision::Answers(vec![(QUESTION.to_owned(), vec![text])])
    }
}

/// Returns the result for the model.
#[must_use]
pub fn answer_text(decision: &AskDecision) -> String {
    match decision {
        AskDecision::Answers(answers) => {
            let values: Vec<&str> =
                answers.iter().flat_map(|(_, values)| values).map(String::as_str).collect();
            values.join("\n")
        }
        AskDecision::Declined | AskDecision::Deny(_) | AskDecision::DenyAndStop => {
            "They saw the question and do not want to answer it. Continue without an answer."
                .to_owned()
        }
        _ => "The question got no answer. Continue without it, or say in your answer what you need to know.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_has_a_text() {
        let chosen = vec![("answer".to_owned(), vec!["red".to_owned(), "blue".to_owned()])];
        assert_eq!(answer_text(&AskDecision::Answers(chosen)), "red\nblue");
        assert!(answer_text(&AskDecision::Declined).contains("do not want"));
        assert!(answer_text(&AskDecision::Dismissed).contains("got no answer"));
    }

    #[test]
    fn options_must_differ() {
        let ask = |options: &[&str]| AskPeople {
            question: "Which?".to_owned(),
            options: Some(options.iter().map(|option| (*option).to_owned()).collect()),
            many: None,
        };
        assert!(ask(&["a", "b"]).check().is_ok());
        assert!(ask(&["a", "b", "a"]).check().is_err());
        assert!(ask(&["a", ""]).check().is_err());
    }
}
