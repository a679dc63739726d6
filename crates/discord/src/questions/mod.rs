//! Questions of agents in Discord, as messages with buttons. The id of a button contains the
//! question and the choice; [`QuestionBoard`] has the state of the questions.
//!
//! A question is registered before it is posted and removed when its result is shown. The last
//! settled questions are remembered, so that a late click shows the result. All other questions
//! belong to a previous process. Tested by `tests/discord/asks.rs`.

mod agent_text;
pub(super) mod layout;
pub(super) mod offers;
mod press;
mod pressed;
mod resumed;
mod subject;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::info;

pub use offers::OfferHandler;
pub(crate) use pressed::{OtherNodes, PressHandler};
pub(super) use resumed::take_over;

use self::press::PressResponse;
use crate::api::Api;
use crate::notes::NotesCache;
use crate::rest::Timeouts;
use aetheel_dispatch::{AnswerRefusal, OpenQuestion, Settlement, Subject};

/// How many settled questions are remembered.
const REMEMBERED: usize = 256;

pub(super) struct QuestionBoard {
    open: Mutex<HashMap<String, QuestionProgress>>,
    /// The final messages of settled questions, by question.
    settled: Mutex<VecDeque<(String, String)>>,
    /// Questions of a previous process that stay open until their turns ask them again.
    resuming: Mutex<HashMap<String, MessageLocation>>,
    /// The messages of open questions.
    locations: Mutex<HashMap<String, MessageLocation>>,
    /// Saves the open questions for the next process.
    notes: Arc<NotesCache>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MessageLocation {
    pub(super) channel: u64,
    pub(super) message: u64,
}

struct QuestionProgress {
    question: OpenQuestion,
    /// Answers to the first questions of a list.
    answers: Vec<(String, Vec<String>)>,
}

impl QuestionBoard {
    pub(super) fn new(notes: Arc<NotesCache>) -> Self {
        Self {
            open: Mutex::default(),
            settled: Mutex::default(),
            resuming: Mutex::default(),
            locations: Mutex::default(),
            notes,
        }
    }

    /// Registers a question before it can be seen. Returns the message in which a previous process
    /// shows it.
    pub(super) fn open(&self, question: &OpenQuestion) -> Option<MessageLocation> {
        let progress = QuestionProgress { question: question.clone(), answers: Vec::new() };
        self.open.lock().insert(question.id.clone(), progress);
        // Removed after the question was added to `open`, so that a press always finds it in one of
        // the two maps.
        self.resuming.lock().remove(&question.id)
    }

    pub(super) fn set_location(&self, id: &str, at: MessageLocation) {
        if self.is_open(id) {
            self.locations.lock().insert(id.to_owned(), at);
        }
    }

    /// Removes a question that was never visible.
    pub(super) fn forget(&self, id: &str) {
        self.locations.lock().remove(id);
        self.open.lock().remove(id);
    }

    /// Removes a question and returns its final message, or `None` if it is not known.
    pub(super) fn settle(&self, id: &str, how: &Settlement) -> Option<String> {
        self.locations.lock().remove(id);
        let progress = self.open.lock().remove(id)?;
        let last =
            layout::pieces(&progress.question, progress.answers.len()).pop().unwrap_or_default();
        let content = layout::settled_text(&last, how);
        let mut over = self.settled.lock();
        over.push_back((id.to_owned(), content.clone()));
        if over.len() > REMEMBERED {
            over.pop_front();
        }
        Some(content)
    }

    fn knows(&self, id: &str) -> bool {
        self.is_open(id)
            || self.is_resuming(id)
            || self.settled.lock().iter().any(|(known, _)| known == id)
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.lock().contains_key(id)
    }

    /// Closes the questions that a previous process left open.
    pub(super) async fn close_stale(&self, api: &Api, timeouts: Timeouts) {
        let left = self.notes.take_open_questions(|_| true);
        let count = left.len();
        for (id, channel, message) in left {
            self.close_one(api, &id, MessageLocation { channel, message }, timeouts).await;
        }
        if count > 0 {
            info!(count, "closed questions that an earlier run left open");
        }
    }

    /// Returns the response to a press on a question that is not open any more.
    fn closed_response(&self, id: &str, content: Option<&str>) -> PressResponse {
        let refusal = AnswerRefusal::Gone.to_string();
        let known = self
            .settled
            .lock()
            .iter()
            .find(|(known, _)| known == id)
            .map(|(_, content)| content.clone());
        match (known, content) {
            (Some(content), _) => PressResponse::Close(content, refusal),
            // The result will be shown soon.
            (None, _) if self.is_open(id) => PressResponse::Private(refusal),
            (None, Some(content)) => {
                PressResponse::Close(layout::stale_text(content, false), refusal)
            }
            (None, None) => PressResponse::Private(refusal),
        }
    }

    fn is_list(&self, id: &str) -> bool {
        self.open
            .lock()
            .get(id)
            .is_some_and(|progress| matches!(progress.question.subject, Subject::Questions(_)))
    }

    /// Records the answer to one question of a list. Returns all answers after the last one.
    fn answer_step(
        &self,
        id: &str,
        step: usize,
        value: impl FnOnce(&aetheel_model::agent::Question) -> Vec<String>,
    ) -> QuestionStep {
        let mut open = self.open.lock();
        let Some(QuestionProgress { question, answers: given }) = open.get_mut(id) else {
            return QuestionStep::Gone;
        };
        let Subject::Questions(questions) = &question.subject else { return QuestionStep::Gone };
        let Some(asked) = questions.get(step).filter(|_| step == given.len()) else {
            // A button of a question that was answered already.
            return QuestionStep::Next(PressResponse::Show(
                layout::pieces(question, given.len()).pop().unwrap_or_default(),
                layout::rows(question, given.len()),
            ));
        };
        let values = value(asked);
        if (values.is_empty() && !asked.optional)
            || (!asked.free_text
                && !values
                    .iter()
                    .all(|value| asked.options.iter().any(|option| option.id == *value)))
        {
            return QuestionStep::Next(PressResponse::Private(
                "Please choose one of the options.".to_owned(),
            ));
        }
        let mut all = given.clone();
        all.push((asked.id.clone(), values));
        if all.len() == questions.len() {
            return QuestionStep::All(all);
        }
        *given = all;
        let next = given.len();
        QuestionStep::Next(PressResponse::Show(
            layout::pieces(question, next).pop().unwrap_or_default(),
            layout::rows(question, next),
        ))
    }

    fn question(&self, id: &str) -> Option<OpenQuestion> {
        self.open.lock().get(id).map(|progress| progress.question.clone())
    }
}

enum QuestionStep {
    Gone,
    Next(PressResponse),
    All(Vec<(String, Vec<String>)>),
}
