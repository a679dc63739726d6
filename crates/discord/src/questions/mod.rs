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
mod resumed;
pub(crate) mod stop_button;
mod subject;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tracing::{debug, info, warn};

pub use offers::OfferHandler;
pub(super) use press::Press;
pub(super) use resumed::take_over;

use self::press::{PressChoice, PressResponse};
use crate::access::asker::Asker;
use crate::access::identity::Identity;
use crate::api::Api;
use crate::ids;
use crate::notes::NotesCache;
use crate::rest::Timeouts;
use aetheel_dispatch::{
    AnswerRefusal, OpenQuestion, Person, Questions, Recovery, Settlement, Subject, Turns,
    WaitChoices, WarningMutes,
};
use aetheel_model::agent::AskDecision;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::id::UserId;
use aetheel_model::plain::short_line;

/// Time limits of the acknowledgement of an interaction, for which Discord waits three seconds.
const ACK_TIMEOUTS: Timeouts =
    Timeouts::new(Duration::from_millis(1_500), Duration::from_millis(2_800));
/// Time limits of a private message after the acknowledgement.
const NOTE_TIMEOUTS: Timeouts = Timeouts::new(Duration::from_secs(5), Duration::from_secs(15));
/// How long other nodes may take to answer a press of a button that this node does not know.
const OTHERS_GRACE: Duration = Duration::from_secs(1);
/// How many settled questions are remembered.
const REMEMBERED: usize = 256;

/// The questions of this process.
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

/// The message with the buttons of a question.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageLocation {
    pub(super) channel: u64,
    pub(super) message: u64,
}

/// An open question.
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
        let standing = QuestionProgress { question: question.clone(), answers: Vec::new() };
        self.open.lock().insert(question.id.clone(), standing);
        // Removed after the question was added to `open`, so that a press always finds it in one of
        // the two maps.
        self.resuming.lock().remove(&question.id)
    }

    /// Records the message of an open question.
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
        let standing = self.open.lock().remove(id)?;
        let last =
            layout::pieces(&standing.question, standing.answers.len()).pop().unwrap_or_default();
        let content = layout::settled_text(&last, how);
        let mut over = self.settled.lock();
        over.push_back((id.to_owned(), content.clone()));
        if over.len() > REMEMBERED {
            over.pop_front();
        }
        Some(content)
    }

    /// Returns whether this process knows the question of a button. Also returns `true` for a
    /// button that does not belong to a question.
    fn knows(&self, button: &str) -> bool {
        PressChoice::read(button).is_none_or(|(id, _)| {
            self.is_open(id)
                || self.is_resuming(id)
                || self.settled.lock().iter().any(|(known, _)| known == id)
        })
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

    /// Returns whether a question is a list of questions.
    fn is_list(&self, id: &str) -> bool {
        self.open
            .lock()
            .get(id)
            .is_some_and(|standing| matches!(standing.question.subject, Subject::Questions(_)))
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
        self.open.lock().get(id).map(|standing| standing.question.clone())
    }
}

enum QuestionStep {
    Gone,
    Next(PressResponse),
    All(Vec<(String, Vec<String>)>),
}

/// Whether other nodes may know the question of a button.
pub(super) enum OtherNodes {
    SingleNode,
    /// Other nodes may know the question. The function passes the press on to them. If none of them
    /// answers, this node does.
    Forward(Box<dyn FnOnce() + Send>),
    /// Another node passed the press on to this node. If no other node answers, that node does.
    Forwarded,
}

/// Answers presses of buttons.
#[derive(Clone)]
pub(super) struct PressHandler {
    pub(super) api: Api,
    pub(super) identity: Arc<Identity>,
    pub(super) asks: Arc<QuestionBoard>,
    pub(super) questions: Arc<Questions>,
    pub(super) recovery: Recovery,
    pub(super) wait_choices: WaitChoices,
    pub(super) turns: Turns,
    pub(super) accept: Option<OfferHandler>,
    pub(super) mutes: WarningMutes,
}

impl PressHandler {
    /// Answers a press within Discord's three seconds.
    pub(super) async fn answer(&self, press: Press, elsewhere: OtherNodes) {
        let (mut reaction, known) = self.response(&press).await;
        let may_be_answered = match elsewhere {
            OtherNodes::Forwarded if !known => return,
            OtherNodes::Forward(pass_on) if !known => {
                pass_on();
                tokio::time::sleep(OTHERS_GRACE).await;
                // The turn may have been resumed here in the meantime.
                (reaction, _) = self.response(&press).await;
                true
            }
            _ => false,
        };
        self.respond(&press, reaction, may_be_answered).await;
    }

    /// Carries out a press. The flag is `false` if this node does not know the subject of the
    /// button.
    async fn response(&self, press: &Press) -> (PressResponse, bool) {
        let button = &press.custom_id;
        match (offers::offer_of(button), stop_button::event_of(button)) {
            (Some(id), _) => self.press_offer(id, press).await,
            (_, Some(event)) => (self.stop(event, press).await, true),
            _ => {
                let known = self.asks.knows(button);
                (self.choice_response(press), known)
            }
        }
    }

    /// Sends a response to Discord. `may_be_answered` means that another node may have sent one
    /// before.
    async fn respond(&self, press: &Press, reaction: PressResponse, may_be_answered: bool) {
        let (interaction, token) = (press.interaction, press.token.as_str());
        let no_mentions = json!({"parse": []});
        let (body, note) = match reaction {
            PressResponse::Accept => (json!({"type": 6}), None),
            PressResponse::Show(content, rows) => (
                json!({"type": 7, "data": {"content": content, "components": rows, "allowed_mentions": no_mentions}}),
                None,
            ),
            PressResponse::Close(content, note) => (
                json!({"type": 7, "data": {"content": content, "components": [], "allowed_mentions": no_mentions}}),
                Some(note),
            ),
            PressResponse::Window(window) => (json!({"type": 9, "data": window}), None),
            PressResponse::Private(text) => (
                json!({"type": 4, "data": {"content": text, "flags": 64, "allowed_mentions": no_mentions}}),
                None,
            ),
        };
        match self
            .api
            .first_callback((interaction, token), body, may_be_answered, ACK_TIMEOUTS)
            .await
        {
            Ok(false) if may_be_answered => return,
            Ok(_) => {}
            Err(error) => {
                warn!(interaction, %error, "cannot answer the press of a button in time");
                return;
            }
        }
        if let Some(note) = note
            && let Err(error) = self
                .api
                .follow_up_privately(
                    self.identity.application,
                    interaction,
                    token,
                    &note,
                    NOTE_TIMEOUTS,
                )
                .await
        {
            debug!(interaction, %error, "cannot report that a question is no longer open");
        }
    }

    fn choice_response(&self, press: &Press) -> PressResponse {
        let Some((id, choice)) = PressChoice::read(&press.custom_id) else {
            return PressResponse::Private("I do not know this button any more.".to_owned());
        };
        let person = self.person(press);
        let refused = |refusal: AnswerRefusal| match refusal {
            AnswerRefusal::Gone => self.asks.closed_response(id, press.content.as_deref()),
            other => PressResponse::Private(other.to_string()),
        };
        if self.asks.is_resuming(id) {
            return PressResponse::Private(resumed::RESUMING_TEXT.to_owned());
        }
        // Checked first, so that people who may not answer cannot open the window or answer a part.
        if let Err(refusal) = self.questions.may_answer(id, &person) {
            return refused(refusal);
        }
        let words = press.text.clone();
        let decision = match (choice, words) {
            (PressChoice::Allow, _) => AskDecision::AllowOnce,
            (PressChoice::Always, _) => AskDecision::AllowAlways,
            (PressChoice::Deny, _) if self.asks.is_list(id) => AskDecision::Declined,
            (PressChoice::Deny, _) => AskDecision::Deny(None),
            (PressChoice::AgentOption(at), _) => match self
                .asks
                .question(id)
                .and_then(|question| Some(question.options.get(at)?.id.clone()))
            {
                Some(option) => AskDecision::Chosen(option),
                None => return self.asks.closed_response(id, press.content.as_deref()),
            },
            (PressChoice::Change, Some(input)) => AskDecision::AllowChanged(input),
            (PressChoice::Skip(step), _) => match self.asks.answer_step(id, step, |_| vec![]) {
                QuestionStep::All(answers) => AskDecision::Answers(answers),
                QuestionStep::Next(reaction) => return reaction,
                QuestionStep::Gone => {
                    return self.asks.closed_response(id, press.content.as_deref());
                }
            },
            (PressChoice::Stop, _) => AskDecision::DenyAndStop,
            (PressChoice::DenyWithReason, Some(words)) => AskDecision::Deny(Some(words)),
            (PressChoice::DenyWithReason | PressChoice::Change | PressChoice::Write(_), None) => {
                return self.asks.question(id).map_or_else(
                    || self.asks.closed_response(id, press.content.as_deref()),
                    |question| PressResponse::Window(layout::modal(&question, choice)),
                );
            }
            (PressChoice::Write(step), Some(words)) => {
                match self.asks.answer_step(id, step, |_| vec![words]) {
                    QuestionStep::All(answers) => AskDecision::Answers(answers),
                    QuestionStep::Next(reaction) => return reaction,
                    QuestionStep::Gone => {
                        return self.asks.closed_response(id, press.content.as_deref());
                    }
                }
            }
            (PressChoice::Option(step, _) | PressChoice::Menu(step), _) => {
                let chosen: Vec<usize> = match choice {
                    PressChoice::Option(_, at) => vec![at],
                    _ => press.values.iter().filter_map(|value| value.parse().ok()).collect(),
                };
                let values = |asked: &aetheel_model::agent::Question| {
                    chosen
                        .iter()
                        .filter_map(|at| asked.options.get(*at).map(|option| option.id.clone()))
                        .collect()
                };
                match self.asks.answer_step(id, step, values) {
                    QuestionStep::All(answers) => AskDecision::Answers(answers),
                    QuestionStep::Next(reaction) => return reaction,
                    QuestionStep::Gone => {
                        return self.asks.closed_response(id, press.content.as_deref());
                    }
                }
            }
        };
        match self.questions.answer(id, &person, decision) {
            Ok(()) => PressResponse::Accept,
            Err(refusal) => refused(refusal),
        }
    }

    /// Stops a turn. The button is removed when the answer of the turn is shown. If the turn is not
    /// running, this removes the button.
    async fn stop(&self, event: u64, press: &Press) -> PressResponse {
        if !self.admits(press) {
            return PressResponse::Private("You may not use me here.".to_owned());
        }
        let Some(channel) = press.channel else {
            return PressResponse::Private(stop_button::NOT_RUNNING.to_owned());
        };
        if self.turns.stop_turn(&ids::lane(channel), event).await {
            info!(event, channel, user = press.user.id, "a person stopped a turn by its button");
            AuditEntry::new(AuditKind::TurnStopped)
                .by(Some(UserId::discord(press.user.id)), Some(press.user.display_name()))
                .in_lane(&ids::lane(channel))
                .with("event", event)
                .with("running", "yes")
                .note();
            return PressResponse::Accept;
        }
        PressResponse::Close(
            press.content.clone().unwrap_or_default(),
            stop_button::NOT_RUNNING.to_owned(),
        )
    }

    /// Returns whether the person may use the bot in the channel.
    fn admits(&self, press: &Press) -> bool {
        press.channel.is_some_and(|channel| {
            let asker = Asker {
                user: press.user.id,
                roles: press.roles.clone(),
                channel,
                parent: press.parent,
                guild: press.guild,
                owner: self.identity.owners.contains(&press.user.id),
            };
            self.identity.admit(&asker).is_ok()
        })
    }

    fn person(&self, press: &Press) -> Person {
        let name = short_line(press.nick.as_deref().unwrap_or(press.user.display_name()), 64);
        let roles = ids::roles_with_everyone(&press.roles, press.guild);
        Person::User {
            id: UserId::discord(press.user.id),
            roles,
            owner: self.identity.owners.contains(&press.user.id),
            name,
        }
    }
}
