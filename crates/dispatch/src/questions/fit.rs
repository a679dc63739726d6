//! Checks that a decision fits its question, and converts it for the agent and for people. Pure.

use super::OpenQuestionEntry;
use crate::outlet::question::Subject;
use aetheel_model::agent::{AnswerForm, AskDecision, AskKind, AskOption, Question};
use aetheel_model::prompt::neutralise;

/// The maximum size of a person's text in one answer, in bytes.
const WORDS_LIMIT: usize = 16 << 10;

/// Converts a decision for the agent. The error is worded for the person who decided.
pub(super) fn fit_decision(
    entry: &OpenQuestionEntry,
    decision: AskDecision,
) -> Result<AskDecision, &'static str> {
    let own = |text: &str| {
        let words = neutralise(text.trim(), &entry.context.expansion, None);
        if words.len() > WORDS_LIMIT { Err("That is too long for an answer.") } else { Ok(words) }
    };
    match (decision, &entry.ask.kind, &entry.shown.subject) {
        (AskDecision::Deny(words), ..) => {
            let words = words
                .filter(|words| !words.trim().is_empty())
                .map(|words| own(&words))
                .transpose()?;
            Ok(AskDecision::Deny(words))
        }
        (decision @ (AskDecision::DenyAndStop | AskDecision::Dismissed), ..) => Ok(decision),
        (AskDecision::Declined, AskKind::Questions(_), _) => Ok(AskDecision::Declined),
        (AskDecision::Answers(given), AskKind::Questions(asked), Subject::Questions(shown)) => {
            let answers: Result<_, &str> = asked
                .iter()
                .zip(shown)
                .map(|(asked, shown)| {
                    let values = given
                        .iter()
                        .find(|(id, _)| *id == asked.id)
                        .map(|(_, values)| &values[..])
                        .unwrap_or_default();
                    let values: Result<Vec<String>, &str> =
                        values.iter().map(|value| value_of(shown, value, own)).collect();
                    let values = values?;
                    match values.len() {
                        0 if asked.optional => Ok(None),
                        0 => Err("Every question needs an answer."),
                        2.. if !asked.many => Err("This question takes only one answer."),
                        _ => Ok(Some((asked.id.clone(), values))),
                    }
                })
                .filter_map(Result::transpose)
                .collect();
            Ok(AskDecision::Answers(answers?))
        }
        (_, AskKind::Questions(_), _) => Err("This is a question: choose or write an answer."),
        (AskDecision::Answers(_) | AskDecision::Declined, ..) => {
            Err("This can only be allowed or denied.")
        }
        (AskDecision::AllowChanged(_), ..) if !entry.ask.changeable => Err("It cannot be changed."),
        (AskDecision::AllowChanged(input), ..) => match serde_json::from_str(&input) {
            Ok(serde_json::Value::Object(_)) if input.len() <= WORDS_LIMIT => {
                Ok(AskDecision::AllowChanged(input))
            }
            _ => Err("The input of the tool must be a JSON object."),
        },
        (AskDecision::Chosen(id), ..)
            if !entry.ask.options.iter().any(|option| option.id == id) =>
        {
            Err("This is not offered here.")
        }
        (AskDecision::AllowAlways, ..) if entry.ask.always_label.is_none() => {
            Err("Allowing it always is not offered here.")
        }
        (decision, ..) => Ok(decision),
    }
}

/// Converts a decision for people: with the labels of the chosen options, and without secrets.
pub(super) fn decision_for_people(
    entry: &OpenQuestionEntry,
    decision: &AskDecision,
) -> AskDecision {
    let label = |question: &Question, value: &String| {
        let chosen = question.options.iter().find(|option| option.id == *value);
        chosen.map_or_else(|| value.clone(), |option| option.label.clone())
    };
    match (decision, &entry.ask.kind) {
        (AskDecision::Answers(answers), AskKind::Questions(asked)) => AskDecision::Answers(
            answers
                .iter()
                .filter_map(|(id, values)| {
                    Some((asked.iter().find(|question| question.id == *id)?, values))
                })
                .map(|(question, values)| match question.secret {
                    true => (question.id.clone(), vec!["(a secret)".to_owned()]),
                    false => (
                        question.id.clone(),
                        values.iter().map(|value| label(question, value)).collect(),
                    ),
                })
                .collect(),
        ),
        (AskDecision::Chosen(id), _) => {
            let option = entry.ask.options.iter().find(|option| option.id == *id);
            AskDecision::Chosen(option.map_or_else(String::new, AskOption::full_label))
        }
        (other, _) => other.clone(),
    }
}

/// Returns the agent's value for a chosen option or a text. Options are matched by id or by their
/// shown label, because secrets in labels are redacted for people.
fn value_of(
    shown: &Question,
    value: &str,
    own: impl Fn(&str) -> Result<String, &'static str>,
) -> Result<String, &'static str> {
    if let Some(option) =
        shown.options.iter().find(|option| option.id == value || option.label == value)
    {
        return Ok(option.id.clone());
    }
    if !shown.free_text {
        return Err("Please choose one of the options.");
    }
    let words = own(value)?;
    match shown.form {
        _ if words.is_empty() => Err("Every question needs an answer."),
        AnswerForm::Whole if words.parse::<i64>().is_err() => {
            Err("The answer must be a whole number.")
        }
        AnswerForm::Number if !words.parse::<f64>().is_ok_and(f64::is_finite) => {
            Err("The answer must be a number.")
        }
        _ => Ok(words),
    }
}
