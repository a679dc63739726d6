//! The agent's own questions to people (`elicitation/create`): forms, and addresses to open.
//!
//! As in schema v1 of the protocol's SDK 2.4.0. claude-agent-acp 0.49.0 and codex-acp 2.6.0 (in its
//! collaboration mode `plan`) use forms for the questions of their models. Both have a second field
//! for an answer in own words, which becomes a part of the question. Fields for secrets are
//! codex-acp's extension.

use std::collections::BTreeMap;

use aetheel_backend_sdk::form::Form;
use aetheel_backend_sdk::json::Value;
use aetheel_backend_sdk::text::one_line;
use aetheel_backend_sdk::wit::{AskKind, Decision, Question, ToolStart};
use serde_json::json;

/// Maximum length of a title, in bytes.
const TITLE: usize = 160;

/// The answer to a request that no longer waits for a decision.
pub(crate) const CANCELLED: &str = r#"{"action":"cancel"}"#;

/// A request that waits for people.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elicitation {
    form: Form,
    /// For each question with such a field: its options, and the field for other answers.
    others: BTreeMap<String, (Vec<String>, String)>,
    /// Milliseconds until codex-acp 2.6.0 continues without an answer.
    pub(crate) deadline_ms: Option<u32>,
}

impl Elicitation {
    /// Reads a request, with its title and subject for people. Returns `None` if its mode is
    /// unknown.
    pub(crate) fn read(params: &Value) -> Option<(Self, String, AskKind)> {
        let message = params.text("message").filter(|message| !message.trim().is_empty());
        let message = message.unwrap_or("The agent asks");
        let title = one_line(message, TITLE);
        match params.text("mode") {
            Some("url") => {
                let kind = AskKind::SignIn(params.text("url")?.to_owned());
                Some((Self::default(), title, kind))
            }
            Some("form") => {
                let schema = &params["requestedSchema"];
                let (form, questions) = Form::read(schema);
                let deadline_ms =
                    params["_meta"]["codex"].count("autoResolutionMs").filter(|ms| *ms > 0);
                let mut elicitation = Self { form, deadline_ms, ..Self::default() };
                let mut questions = elicitation.join(questions, &schema["properties"]);
                if title != message
                    && let Some(first) = questions.first_mut()
                {
                    let rest = first.description.take().map(|text| format!("\n\n{text}"));
                    first.description = Some(format!("{message}{}", rest.unwrap_or_default()));
                }
                let kind = if questions.is_empty() {
                    AskKind::Permission(confirmation(&title, message))
                } else {
                    AskKind::Questions(questions)
                };
                Some((elicitation, title, kind))
            }
            _ => None,
        }
    }

    /// Makes each field for other answers a part of the question before it.
    fn join(&mut self, questions: Vec<Question>, fields: &Value) -> Vec<Question> {
        let mut joined: Vec<Question> = Vec::new();
        for mut question in questions {
            let codex = &fields[question.id.as_str()]["_meta"]["codex"];
            question.secret = codex.is_true("isSecret");
            if let Some(before) = joined.last_mut()
                && !before.options.is_empty()
                && (question.id == format!("{}_custom", before.id)
                    || codex.text("questionId") == Some(before.id.as_str()))
            {
                before.free_text = true;
                let options = before.options.iter().map(|option| option.id.clone()).collect();
                self.others.insert(before.id.clone(), (options, question.id));
                continue;
            }
            joined.push(question);
        }
        joined
    }

    /// Returns the result of the request for a decision.
    ///
    /// Without an answer it is `decline` also if nobody refused: after `cancel`, claude-agent-acp
    /// 0.49.0 ends the tool use instead of telling the model.
    pub(crate) fn result(&self, decision: &Decision) -> String {
        match decision {
            Decision::AllowOnce | Decision::AllowAlways => {
                json!({"action": "accept", "content": {}}).to_string()
            }
            Decision::Answers(given) => {
                let mut answers = Vec::new();
                for (id, texts) in given.iter().filter(|(_, texts)| !texts.is_empty()) {
                    let (options, other) = match self.others.get(id) {
                        Some((options, other)) => (options.as_slice(), other.as_str()),
                        None => (texts.as_slice(), ""),
                    };
                    let (chosen, written): (Vec<String>, Vec<String>) =
                        texts.iter().cloned().partition(|text| options.contains(text));
                    for (field, texts) in [(id.as_str(), chosen), (other, written)] {
                        if !texts.is_empty() {
                            answers.push((field.to_owned(), texts));
                        }
                    }
                }
                json!({"action": "accept", "content": self.form.content(answers)}).to_string()
            }
            Decision::DenyAndStop => CANCELLED.to_owned(),
            _ => r#"{"action":"decline"}"#.to_owned(),
        }
    }
}

/// Describes a form without fields, which only asks for consent.
fn confirmation(title: &str, message: &str) -> ToolStart {
    ToolStart {
        id: String::new(),
        parent: None,
        kind: "other".to_owned(),
        native_name: "elicitation".to_owned(),
        title: title.to_owned(),
        target: None,
        input: json!({ "message": message }).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use aetheel_backend_sdk::json;

    use super::*;

    fn read(params: &str) -> (Elicitation, String, AskKind) {
        Elicitation::read(&json::parse(params).expect("JSON")).expect("a known mode")
    }

    fn answers(given: &[(&str, &[&str])]) -> Decision {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Decision::Answers(
            given.iter().map(|(id, given)| ((*id).to_owned(), texts(given))).collect(),
        )
    }

    #[test]
    fn answers_in_own_words_go_to_the_field_for_them() {
        // claude-agent-acp 0.49.0 and codex-acp 2.6.0.
        for other in [
            r#""q_custom":{"type":"string","title":"Other"}"#,
            r#""q_custom":{"type":"string","_meta":{"codex":{"questionId":"q","role":"user_note"}}}"#,
        ] {
            let params = format!(
                r#"{{"mode":"form","sessionId":"s","message":"Which?","requestedSchema":{{"properties":{{"q":{{"type":"string","oneOf":[{{"const":"A","title":"A"}},{{"const":"B","title":"B"}}]}},{other},"pin":{{"type":"string","_meta":{{"codex":{{"isSecret":true}}}}}}}}}}}}"#
            );
            let (elicitation, title, kind) = read(&params);
            let AskKind::Questions(questions) = kind else { panic!("{kind:?}") };
            let seen: Vec<_> =
                questions.iter().map(|it| (it.id.as_str(), it.free_text, it.secret)).collect();
            assert_eq!(
                (title.as_str(), seen),
                ("Which?", vec![("q", true, false), ("pin", true, true)])
            );
            let result = |given| elicitation.result(&answers(given));
            assert_eq!(
                result(&[("q", &["B"]), ("pin", &[])]),
                r#"{"action":"accept","content":{"q":"B"}}"#
            );
            assert_eq!(
                result(&[("q", &["neither"])]),
                r#"{"action":"accept","content":{"q_custom":"neither"}}"#
            );
        }
    }

    #[test]
    fn a_message_that_is_too_long_for_a_title_is_shown_with_the_first_question() {
        let long = "long ".repeat(100);
        let (_, title, kind) = read(&format!(
            r#"{{"mode":"form","message":"{long}","requestedSchema":{{"properties":{{"q":{{"type":"string","title":"Why?","description":"In short"}}}}}}}}"#
        ));
        let AskKind::Questions(questions) = kind else { panic!("{kind:?}") };
        assert!(title.len() < long.len(), "{title}");
        assert_eq!(questions[0].description, Some(format!("{long}\n\nIn short")));
    }

    #[test]
    fn every_decision_has_a_result() {
        let (url, _, kind) = read(
            r#"{"mode":"url","message":"Sign in","url":"https://example.org","elicitationId":"e"}"#,
        );
        assert_eq!(kind, AskKind::SignIn("https://example.org".to_owned()));
        let (_, _, kind) = read(r#"{"mode":"form","message":"Sure?","requestedSchema":{}}"#);
        assert!(matches!(kind, AskKind::Permission(_)), "{kind:?}");
        for (decision, action) in [
            (Decision::AllowOnce, "accept"),
            (Decision::Deny(None), "decline"),
            (Decision::Declined, "decline"),
            (Decision::Dismissed, "decline"),
            (Decision::DenyAndStop, "cancel"),
        ] {
            let result = url.result(&decision);
            assert!(result.contains(action), "{decision:?}: {result}");
        }
        let unknown = json::parse(r#"{"mode":"_voice","message":"?"}"#).expect("JSON");
        assert!(Elicitation::read(&unknown).is_none());
    }
}
