//! Asks people whether a call may be carried out, with the questions that agents ask.

use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;

use super::{HostCall, HostCallError};
use crate::delegated::PendingCall;
use crate::outlet::QuestionDismissal;
use crate::questions::QuestionContext;
use aetheel_model::agent::{Ask, AskDecision, AskKind, Question, QuestionChoice};
use aetheel_model::plain::cut;
use aetheel_turn::Answerer;

/// Maximum length of the agent's text in a question, in characters.
const MAX_SHOWN_CHARS: usize = 1_500;
/// The id of the only question in the form.
const QUESTION: &str = "allow";
const ALLOW: &str = "Allow";
/// The number of the question among those with its key: it is asked once.
const FIRST: u32 = 1;

/// Asks people whether a call may be carried out. `what` is the effect, in the gateway's words on one
/// line, and `text` the text that the agent passes on. The question keeps its id over restarts of
/// the gateway. Returns the name of the person who allowed it.
///
/// # Errors
/// [`HostCallError::NotAllowed`] if they refuse, or nobody answers.
pub(super) async fn ask(call: &HostCall, what: &str, text: &str) -> Result<String, HostCallError> {
    let HostCall { shared, pending } = call;
    let (decide, mut decisions) = mpsc::unbounded_channel();
    let key = pending.call.key;
    let ask = question(pending, what, text);
    let answerer = Answerer::new(key, decide);
    let decided_by = Arc::<OnceLock<String>>::default();
    let context = QuestionContext { decided_by: decided_by.clone(), ..pending.context.clone() };
    let shown = shared.questions.open(context, &ask, FIRST, answerer, &pending.reply);
    let (questions, id) = (shared.questions.clone(), shown.id.clone());
    let unseen = QuestionDismissal::new(move || {
        if questions.close(&id) {
            tracing::warn!(question = id, "nobody can see the question about a host tool");
        }
    });
    pending.reply.with(|reply| reply.ask(&shown, unseen));
    // Dropped without a decision if the turn ends, or nobody answers in time.
    match decisions.recv().await {
        Some((_, AskDecision::Answers(answers))) if is_allowed(&answers) => {
            Ok(decided_by.get().cloned().unwrap_or_default())
        }
        _ => Err(HostCallError::NotAllowed),
    }
}

fn question(pending: &PendingCall, what: &str, text: &str) -> Ask {
    let question = Question {
        id: QUESTION.to_owned(),
        text: cut(text.trim(), MAX_SHOWN_CHARS).into_owned(),
        options: vec![QuestionChoice::plain(ALLOW)],
        ..Question::default()
    };
    Ask {
        ask: pending.call.key,
        // They have no meaning for a question that no guest asked.
        session: 0,
        turn: 0,
        title: what.to_owned(),
        kind: AskKind::Questions(vec![question]),
        always_label: None,
        options: Vec::new(),
        diffs: Vec::new(),
        changeable: false,
        parent: None,
        deadline_ms: None,
    }
}

fn is_allowed(answers: &[(String, Vec<String>)]) -> bool {
    matches!(answers, [(id, values)] if id == QUESTION && *values == [ALLOW])
}
