//! Questions of agents in Discord, as messages with buttons. The id of a button contains the
//! question and the choice; the state is kept here.
//!
//! A question is known here from before it is posted until its result is shown. The last settled
//! questions are remembered, so that a late click shows the result. All other questions are of a
//! previous process. Pinned by `tests/discord/asks.rs`.

mod continued;
mod look;
mod messages;
mod press;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::{debug, info, warn};

pub(super) use look::escape;
pub(super) use messages::{QuestionMessages, QuestionOperation, QuestionOperations};
pub(super) use press::Press;

use self::press::Choice;
use super::api::Api;
use super::asker::Asker;
use super::notes::Notes;
use super::rest::Timeouts;
use super::{Accept, Identity, notices, stopping};
use aetheel_dispatch::{
    Again, AgainRefusal, AnswerRefusal, Dispatcher, OpenQuestion, Person, Settlement, Subject,
};
use aetheel_model::agent::Decision;
use aetheel_model::event::Lane;
use aetheel_model::plain::short_line;

/// Discord waits three seconds for the acknowledgement of an interaction.
const ACK_TIMEOUTS: Timeouts =
    Timeouts::new(Duration::from_millis(1_500), Duration::from_millis(2_800));
/// For a private message after the acknowledgement.
const NOTE_TIMEOUTS: Timeouts = Timeouts::new(Duration::from_secs(5), Duration::from_secs(15));
/// How long other nodes may take to answer a press that this node does not know.
const OTHERS_GRACE: Duration = Duration::from_secs(1);
/// How many settled questions are remembered.
const REMEMBERED: usize = 256;

/// The questions of this process.
pub(super) struct Asks {
    open: Mutex<HashMap<String, Standing>>,
    /// The final messages of settled questions, by question.
    over: Mutex<VecDeque<(String, String)>>,
    /// Questions of a previous process that stay open until their turns ask them again.
    continuing: Mutex<HashMap<String, At>>,
    /// The messages of open questions.
    places: Mutex<HashMap<String, At>>,
    /// Saves the open questions for the next process.
    notes: Arc<Notes>,
}

/// The message with the buttons of a question.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    channel: u64,
    message: u64,
}

/// An open question.
struct Standing {
    question: OpenQuestion,
    /// Answers to the first questions of a list.
    given: Vec<(String, Vec<String>)>,
}

impl Asks {
    pub(super) fn new(notes: Arc<Notes>) -> Self {
        Self {
            open: Mutex::default(),
            over: Mutex::default(),
            continuing: Mutex::default(),
            places: Mutex::default(),
            notes,
        }
    }

    /// Registers a question before it can be seen. Returns the message in which a previous process
    /// shows it.
    fn open(&self, question: &OpenQuestion) -> Option<At> {
        let standing = Standing { question: question.clone(), given: Vec::new() };
        self.open.lock().insert(question.id.clone(), standing);
        // Removed last, so that a press finds the question in one of the two maps.
        self.continuing.lock().remove(&question.id)
    }

    /// Records the message of an open question.
    fn stands_at(&self, id: &str, at: At) {
        if self.is_open(id) {
            self.places.lock().insert(id.to_owned(), at);
        }
    }

    /// Removes a question that was never visible.
    fn forget(&self, id: &str) {
        self.places.lock().remove(id);
        self.open.lock().remove(id);
    }

    /// Removes a question and returns its final message, or `None` if it is not known.
    fn settle(&self, id: &str, how: &Settlement) -> Option<String> {
        self.places.lock().remove(id);
        let standing = self.open.lock().remove(id)?;
        let last = look::pieces(&standing.question, standing.given.len()).pop().unwrap_or_default();
        let content = look::over(&last, how);
        let mut over = self.over.lock();
        over.push_back((id.to_owned(), content.clone()));
        if over.len() > REMEMBERED {
            over.pop_front();
        }
        Some(content)
    }

    /// Returns whether this process knows the question of a button. Also returns `true` for a
    /// button that does not belong to a question.
    fn knows(&self, button: &str) -> bool {
        Choice::read(button).is_none_or(|(id, _)| {
            self.is_open(id)
                || self.is_coming_back(id)
                || self.over.lock().iter().any(|(known, _)| known == id)
        })
    }

    fn is_open(&self, id: &str) -> bool {
        self.open.lock().contains_key(id)
    }

    /// Closes the questions that a previous process left open.
    pub(super) async fn close_earlier(&self, api: &Api, timeouts: Timeouts) {
        let left = self.notes.take_left_open(|_| true);
        let count = left.len();
        for (id, channel, message) in left {
            self.close_one(api, &id, At { channel, message }, timeouts).await;
        }
        if count > 0 {
            info!(count, "closed questions that an earlier run left open");
        }
    }

    /// Returns the response to a press on a question that is not open any more.
    fn gone(&self, id: &str, content: Option<&str>) -> Reaction {
        let refusal = AnswerRefusal::Gone.to_string();
        let known = self
            .over
            .lock()
            .iter()
            .find(|(known, _)| known == id)
            .map(|(_, content)| content.clone());
        match (known, content) {
            (Some(content), _) => Reaction::Close(content, refusal),
            // The result will be shown soon.
            (None, _) if self.is_open(id) => Reaction::Private(refusal),
            (None, Some(content)) => Reaction::Close(look::stale(content, false), refusal),
            (None, None) => Reaction::Private(refusal),
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
    fn step(
        &self,
        id: &str,
        step: usize,
        value: impl FnOnce(&aetheel_model::agent::Question) -> Vec<String>,
    ) -> Step {
        let mut open = self.open.lock();
        let Some(Standing { question, given }) = open.get_mut(id) else { return Step::Gone };
        let Subject::Questions(questions) = &question.subject else { return Step::Gone };
        let Some(asked) = questions.get(step).filter(|_| step == given.len()) else {
            // A button of a question that was answered already.
            return Step::Next(Reaction::Show(
                look::pieces(question, given.len()).pop().unwrap_or_default(),
                look::rows(question, given.len()),
            ));
        };
        let values = value(asked);
        if (values.is_empty() && !asked.optional)
            || (!asked.free_text
                && !values
                    .iter()
                    .all(|value| asked.options.iter().any(|option| option.id == *value)))
        {
            return Step::Next(Reaction::Private("Please choose one of the options.".to_owned()));
        }
        let mut all = given.clone();
        all.push((asked.id.clone(), values));
        if all.len() == questions.len() {
            return Step::All(all);
        }
        *given = all;
        let next = given.len();
        Step::Next(Reaction::Show(
            look::pieces(question, next).pop().unwrap_or_default(),
            look::rows(question, next),
        ))
    }

    fn question(&self, id: &str) -> Option<OpenQuestion> {
        self.open.lock().get(id).map(|standing| standing.question.clone())
    }
}

enum Step {
    Gone,
    Next(Reaction),
    All(Vec<(String, Vec<String>)>),
}

/// The response to a press.
#[derive(Debug)]
enum Reaction {
    /// Changes nothing, because the message will be edited soon.
    Accept,
    /// Changes the text and the buttons of the message.
    Show(String, Value),
    /// Changes the text of the message, removes its buttons, and shows a private text.
    Close(String, String),
    /// Opens a modal window.
    Window(Value),
    /// Shows a text that only the person who pressed can see.
    Private(String),
}

/// Whether other nodes may know the question of a button.
pub(super) enum Elsewhere {
    Nobody,
    /// The function asks the other nodes. If none of them answers, this node does.
    Others(Box<dyn FnOnce() + Send>),
    /// Another node asked. It answers if no other node does.
    Passed,
}

/// Answers presses of buttons.
#[derive(Clone)]
pub(super) struct Presses {
    pub(super) api: Api,
    pub(super) identity: Arc<Identity>,
    pub(super) asks: Arc<Asks>,
    pub(super) dispatcher: Dispatcher,
    pub(super) accept: Option<Accept>,
}

impl Presses {
    /// Answers a press within Discord's three seconds.
    pub(super) async fn answer(&self, press: Press, elsewhere: Elsewhere) {
        let (reaction, known) = self.reaction(&press).await;
        let may_be_answered = match elsewhere {
            Elsewhere::Passed if !known => return,
            Elsewhere::Others(pass_on) if !known => {
                pass_on();
                tokio::time::sleep(OTHERS_GRACE).await;
                true
            }
            _ => false,
        };
        self.tell(&press, reaction, may_be_answered).await;
    }

    /// Carries out a press. The flag is `false` if this node does not know the subject of the
    /// button.
    async fn reaction(&self, press: &Press) -> (Reaction, bool) {
        let button = &press.custom_id;
        match (notices::offer_of(button), stopping::event_of(button)) {
            (Some(id), _) => self.again(id, press).await,
            (_, Some(event)) => (self.stop(event, press).await, true),
            _ => {
                let known = self.asks.knows(button);
                (self.react(press), known)
            }
        }
    }

    /// Sends a response to Discord. With `may_be_answered`, another node may have sent one before.
    async fn tell(&self, press: &Press, reaction: Reaction, may_be_answered: bool) {
        let (interaction, token) = (press.interaction, press.token.as_str());
        let none = json!({"parse": []});
        let (body, note) = match reaction {
            Reaction::Accept => (json!({"type": 6}), None),
            Reaction::Show(content, rows) => (
                json!({"type": 7, "data": {"content": content, "components": rows, "allowed_mentions": none}}),
                None,
            ),
            Reaction::Close(content, note) => (
                json!({"type": 7, "data": {"content": content, "components": [], "allowed_mentions": none}}),
                Some(note),
            ),
            Reaction::Window(window) => (json!({"type": 9, "data": window}), None),
            Reaction::Private(text) => (
                json!({"type": 4, "data": {"content": text, "flags": 64, "allowed_mentions": none}}),
                None,
            ),
        };
        match self.api.first_callback(interaction, token, body, ACK_TIMEOUTS).await {
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
                .note(self.identity.application, interaction, token, &note, NOTE_TIMEOUTS)
                .await
        {
            debug!(interaction, %error, "cannot report that a question is no longer open");
        }
    }

    fn react(&self, press: &Press) -> Reaction {
        let Some((id, choice)) = Choice::read(&press.custom_id) else {
            return Reaction::Private("I do not know this button any more.".to_owned());
        };
        let person = self.person(press);
        let refused = |refusal: AnswerRefusal| match refusal {
            AnswerRefusal::Gone => self.asks.gone(id, press.content.as_deref()),
            other => Reaction::Private(other.to_string()),
        };
        if self.asks.is_coming_back(id) {
            return Reaction::Private(continued::COMING_BACK.to_owned());
        }
        // Checked first, so that people who may not answer see no window and answer no part.
        if let Err(refusal) = self.dispatcher.may_answer(id, &person) {
            return refused(refusal);
        }
        let words = press.text.clone();
        let decision = match (choice, words) {
            (Choice::Allow, _) => Decision::AllowOnce,
            (Choice::Always, _) => Decision::AllowAlways,
            (Choice::Deny, _) if self.asks.is_list(id) => Decision::Declined,
            (Choice::Deny, _) => Decision::Deny(None),
            (Choice::Own(at), _) => match self
                .asks
                .question(id)
                .and_then(|question| Some(question.options.get(at)?.id.clone()))
            {
                Some(option) => Decision::Chosen(option),
                None => return self.asks.gone(id, press.content.as_deref()),
            },
            (Choice::Change, Some(input)) => Decision::AllowChanged(input),
            (Choice::Skip(step), _) => match self.asks.step(id, step, |_| vec![]) {
                Step::All(answers) => Decision::Answers(answers),
                Step::Next(reaction) => return reaction,
                Step::Gone => return self.asks.gone(id, press.content.as_deref()),
            },
            (Choice::Stop, _) => Decision::DenyAndStop,
            (Choice::Why, Some(words)) => Decision::Deny(Some(words)),
            (Choice::Why | Choice::Change | Choice::Write(_), None) => {
                return self.asks.question(id).map_or_else(
                    || self.asks.gone(id, press.content.as_deref()),
                    |question| Reaction::Window(look::modal(&question, choice)),
                );
            }
            (Choice::Write(step), Some(words)) => match self.asks.step(id, step, |_| vec![words]) {
                Step::All(answers) => Decision::Answers(answers),
                Step::Next(reaction) => return reaction,
                Step::Gone => return self.asks.gone(id, press.content.as_deref()),
            },
            (Choice::Option(step, _) | Choice::Menu(step), _) => {
                let chosen: Vec<usize> = match choice {
                    Choice::Option(_, at) => vec![at],
                    _ => press.values.iter().filter_map(|value| value.parse().ok()).collect(),
                };
                let values = |asked: &aetheel_model::agent::Question| {
                    chosen
                        .iter()
                        .filter_map(|at| asked.options.get(*at).map(|option| option.id.clone()))
                        .collect()
                };
                match self.asks.step(id, step, values) {
                    Step::All(answers) => Decision::Answers(answers),
                    Step::Next(reaction) => return reaction,
                    Step::Gone => return self.asks.gone(id, press.content.as_deref()),
                }
            }
        };
        match self.dispatcher.answer(id, &person, decision) {
            Ok(()) => Reaction::Accept,
            Err(refusal) => refused(refusal),
        }
    }

    /// Repeats an event or delivers a lost reply, and removes the button. The flag is `false` if
    /// this node does not know the offer.
    async fn again(&self, id: &str, press: &Press) -> (Reaction, bool) {
        let person = self.person(press);
        let content = press.content.as_deref().unwrap_or_default();
        let taken = self.taken_up(id, &person, press).await;
        let known = taken != Err(AgainRefusal::Gone);
        let reaction = match taken {
            Ok(what) => Reaction::Show(notices::taken_up(content, &person, what), json!([])),
            Err(refusal @ (AgainRefusal::Gone | AgainRefusal::Delivered)) => {
                Reaction::Close(content.to_owned(), refusal.to_string())
            }
            Err(refusal) => Reaction::Private(refusal.to_string()),
        };
        (reaction, known)
    }

    /// Passes the press on an offer to the component that made the offer.
    async fn taken_up(
        &self,
        id: &str,
        person: &Person,
        press: &Press,
    ) -> Result<Again, AgainRefusal> {
        if let Some(accept) = &self.accept
            && let Some(pressed) = accept.0(id.to_owned(), person.clone()).await
        {
            return pressed;
        }
        self.dispatcher.again(id, person, self.admits(press)).await
    }

    /// Stops a turn. The answer of the turn removes the button; if the turn is not running, this
    /// removes it.
    async fn stop(&self, event: u64, press: &Press) -> Reaction {
        if !self.admits(press) {
            return Reaction::Private("You may not use me here.".to_owned());
        }
        let Some(channel) = press.channel else {
            return Reaction::Private(stopping::OVER.to_owned());
        };
        if self.dispatcher.stop_turn(&Lane::Channel(channel), event).await {
            info!(event, channel, user = press.user.id, "a person stopped a turn by its button");
            return Reaction::Accept;
        }
        Reaction::Close(press.content.clone().unwrap_or_default(), stopping::OVER.to_owned())
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
        let name = short_line(press.nick.as_deref().unwrap_or(press.user.shown()), 64);
        let roles = press.roles.iter().copied().chain(press.guild).collect();
        Person::User {
            id: press.user.id,
            roles,
            owner: self.identity.owners.contains(&press.user.id),
            name,
        }
    }
}
