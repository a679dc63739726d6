//! What the adapter needs of the rest of the program, besides being its
//! [`Outlet`](crate::dispatch::Outlet).

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use super::panel::Panel;
use crate::agent::Decision;
use crate::dispatch::{
    Accepted, Again, AgainRefusal, AnswerRefusal, Declined, HealthProbe, Person, Refusal, Stopped,
};
use crate::event::{Lane, NewEvent, Sequence};

/// Why a prompt is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTaken {
    /// In words for the user.
    pub text: String,
    /// It may be taken later, by this life or the next: nobody is to be told that it never is.
    pub later: bool,
}

/// What to tell the user of a message for a running turn, as soon as that is known, at most at the
/// end of the turn; none: the answer that comes says enough.
pub type Steering = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// Where prompts go. Called in the order of arrival for each channel; must not block for long.
#[async_trait]
pub trait Intake: Send + Sync {
    /// Offers a prompt.
    ///
    /// # Errors
    /// [`NotTaken`]. One that was taken before is no error.
    fn submit(&self, event: NewEvent) -> Result<Accepted, NotTaken>;

    /// Sends a health probe on the way that prompts take.
    fn probe(&self, probe: HealthProbe) {
        probe.complete();
    }

    /// Keeps that a prompt is refused; then people are to be told, and [`Intake::declined`] says
    /// that they were. None: it was taken or refused before.
    ///
    /// # Errors
    /// [`Refusal::NotSaved`]: nobody may be told that it is final.
    async fn decline(&self, event: NewEvent, why: &str) -> Result<Option<Declined>, Refusal>;

    /// People were told of a refusal.
    fn declined(&self, declined: Declined);

    /// Stops the running turn of a lane and forgets what waits there, for good, whatever dies. May
    /// be called while another call is under way.
    async fn stop(&self, lane: &Lane) -> Stopped;

    /// Stops the turn of an event, if it is the one that runs in a lane, for good; what waits there
    /// goes on. False: it does not run. May be called while another call is under way.
    async fn stop_turn(&self, lane: &Lane, event: Sequence) -> bool;

    /// Hands a message to the running turn of its lane, or takes it as a prompt where that is not
    /// possible. Returns once it is kept. May be called while another call is under way.
    ///
    /// # Errors
    /// Why it is not taken, in words for the user.
    async fn steer(&self, event: NewEvent) -> Result<Steering, String>;

    /// Takes a person's decision about a question of an agent. Called on the gateway's thread: must
    /// not block.
    ///
    /// # Errors
    /// [`AnswerRefusal`], in words for the user.
    fn answer(
        &self,
        question: &str,
        person: &Person,
        decision: Decision,
    ) -> Result<(), AnswerRefusal>;

    /// Takes what a person wrote in a lane as the answer to the question that is open there. None:
    /// it decides nothing.
    fn answer_in_words(
        &self,
        lane: &Lane,
        person: &Person,
        words: &str,
    ) -> Option<Result<(), AnswerRefusal>>;

    /// Whether a person may answer a question. Called on the gateway's thread: must not block.
    ///
    /// # Errors
    /// [`AnswerRefusal`], in words for the user.
    fn may_answer(&self, question: &str, person: &Person) -> Result<(), AnswerRefusal>;

    /// Learns that a channel is a thread of another one, before anything else comes from it. Called
    /// on the gateway's thread: must not block.
    fn learn(&self, channel: u64, parent: u64);

    /// Whether a lane was used before, or the operator wrote about it.
    async fn knows(&self, lane: &Lane) -> bool;

    /// Whether everything that people write in a channel is for the bot.
    async fn reads_all(&self, lane: &Lane) -> bool;

    /// Takes a prompt back that waits, by its event's key; false when it does not wait.
    fn withdraw(&self, key: &str) -> bool;

    /// Changes a prompt that waits, by its event's key; false when it does not wait.
    ///
    /// # Errors
    /// Why the new one is not taken, in words for the user; the old one stands.
    fn amend(&self, key: &str, prompt: &str) -> Result<bool, String>;

    /// Does an event again, or delivers a lost reply, whose offer a person took up; see
    /// [`Offer`](crate::dispatch::Offer). `admitted` says that the person may use the bot there.
    /// Returns within two seconds.
    ///
    /// # Errors
    /// [`AgainRefusal`], in words for the user.
    async fn again(
        &self,
        id: &str,
        person: &Person,
        admitted: bool,
    ) -> Result<Again, AgainRefusal> {
        let _ = (id, person, admitted);
        Err(AgainRefusal::Gone)
    }

    /// Forgets the lane's session, so that its next prompt begins a new one; false when there was
    /// none.
    ///
    /// # Errors
    /// Why it could not be forgotten, in words for the user.
    async fn reset(&self, lane: &Lane) -> Result<bool, String>;
}

/// Somebody who wants to use the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The user.
    pub user: u64,
    /// The user's roles in the guild; empty in direct messages.
    pub roles: Vec<u64>,
    /// The channel or thread.
    pub channel: u64,
    /// The channel the thread belongs to.
    pub parent: Option<u64>,
    /// None: a direct message.
    pub guild: Option<u64>,
    /// Whether the user owns the bot's application, alone or in a team.
    pub owner: bool,
}

/// Who may use the bot.
pub trait Gate: Send + Sync {
    /// Decides; called on the gateway's thread, so it must answer from memory.
    ///
    /// # Errors
    /// Why not, for the operator's log.
    fn admit(&self, asker: &Asker) -> Result<(), String>;
}

impl<F: Fn(&Asker) -> Result<(), String> + Send + Sync> Gate for F {
    fn admit(&self, asker: &Asker) -> Result<(), String> {
        self(asker)
    }
}

/// The last message handled in each channel, kept over restarts, so that missed ones can be caught
/// up with.
pub trait Seen: Send + Sync {
    /// The last one of a channel.
    fn last(&self, channel: u64) -> Option<u64>;
    /// All channels with their last message.
    fn channels(&self) -> Vec<(u64, u64)>;
    /// A prompt was taken and is safe, or was visibly refused. Ids of one channel may come in any
    /// order; the highest counts.
    fn saw(&self, channel: u64, message: u64);
    /// When the bot logged in lately, also in earlier lives of the program; milliseconds since
    /// 1970.
    fn logins(&self) -> Vec<i64> {
        Vec::new()
    }
    /// The bot is about to log in. Must not block.
    fn logging_in(&self, now_ms: i64) {
        let _ = now_ms;
    }
}

/// Where an open question stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// The question's id.
    pub id: String,
    /// Channel or thread.
    pub channel: u64,
    /// The message with the buttons.
    pub message: u64,
}

/// The open questions, kept over restarts, so that their messages can be closed.
pub trait OpenQuestions: Send + Sync {
    /// Those that an earlier life of the program left open.
    fn left_over(&self) -> Vec<Posted>;
    /// A question was posted. Must not block.
    fn opened(&self, question: Posted);
    /// What became of a question is shown. Must not block.
    fn closed(&self, id: &str);
}

/// All of it.
#[derive(Clone)]
pub struct Desk {
    /// See [`Intake`].
    pub intake: Arc<dyn Intake>,
    /// See [`Gate`].
    pub gate: Arc<dyn Gate>,
    /// See [`Panel`].
    pub panel: Arc<dyn Panel>,
    /// See [`Seen`].
    pub seen: Arc<dyn Seen>,
    /// See [`OpenQuestions`].
    pub questions: Arc<dyn OpenQuestions>,
}
