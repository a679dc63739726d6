//! What the Discord adapter asks of the rest: intake, access, last-seen messages, open questions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::access::{self, Access, Request};
use crate::agent::Decision;
use crate::agents::acceptance::Acceptance;
use crate::app::panel::Board;
use crate::config::AllowLists;
use crate::discord::{Asker, Desk, Gate, Intake, NotTaken, OpenQuestions, Posted, Seen, Steering};
use crate::dispatch::{
    Accepted, Again, AgainRefusal, AnswerRefusal, Declined, Dispatcher, Person, Pulse, Refusal,
    Stopped,
};
use crate::event::{Lane, NewEvent, Sequence};
use crate::workspace::DiscordNotes;

/// How often last-seen ids are written; at most this much is looked at again after a crash.
const SAVE: Duration = Duration::from_secs(2);

/// Puts the desk together. Last-seen ids are saved by [`keep_saving`], questions at once.
pub async fn desk(
    dispatcher: Dispatcher,
    acceptance: Acceptance,
    allowed: AllowLists,
    notes: DiscordNotes,
) -> Desk {
    let known = notes.seen().await.into_iter().collect();
    let logins = notes.logins().await;
    let questions = notes.questions().await.into_iter();
    let left_over =
        questions.map(|(id, channel, message)| Posted { id, channel, message }).collect();
    Desk {
        panel: Arc::new(Board::new(dispatcher.clone())),
        intake: Arc::new(Counter { dispatcher, acceptance }),
        gate: Arc::new(Door { allowed }),
        questions: Arc::new(Book { left_over, notes: notes.clone() }),
        seen: Arc::new(Marks { known: Mutex::new(known), logins: Mutex::new(logins), notes }),
    }
}

/// Saves last-seen ids every few seconds; never returns.
pub async fn keep_saving(notes: DiscordNotes) {
    loop {
        tokio::time::sleep(SAVE).await;
        save(&notes).await;
    }
}

/// Saves last-seen ids now.
pub async fn save(notes: &DiscordNotes) {
    if let Err(error) = notes.save().await {
        tracing::warn!(%error, "cannot save state/discord.md; after a restart messages may be answered again, and buttons stay");
    }
}

struct Counter {
    dispatcher: Dispatcher,
    acceptance: Acceptance,
}

#[async_trait]
impl Intake for Counter {
    fn submit(&self, event: NewEvent) -> Result<Accepted, NotTaken> {
        match self.dispatcher.submit(event) {
            // Discord says some things twice, and catching up finds what was taken before a
            // restart.
            Err(Refusal::Known) => Ok(Accepted::unkept(0, 0)),
            taken => taken.map_err(|refusal| NotTaken {
                text: refusal.to_string(),
                later: matches!(refusal, Refusal::NotSaved | Refusal::ShuttingDown),
            }),
        }
    }

    fn pulse(&self, pulse: Pulse) {
        self.dispatcher.pulse(pulse);
    }

    async fn decline(&self, event: NewEvent, why: &str) -> Result<Option<Declined>, Refusal> {
        self.dispatcher.decline(event, why).await
    }

    fn declined(&self, declined: Declined) {
        self.dispatcher.declined(declined);
    }

    async fn stop(&self, lane: &Lane) -> Stopped {
        self.dispatcher.stop_for_good(lane).await
    }

    async fn stop_turn(&self, lane: &Lane, event: Sequence) -> bool {
        self.dispatcher.stop_turn(lane, event).await
    }

    async fn steer(&self, event: NewEvent) -> Result<Steering, String> {
        let underway = self.dispatcher.steer(event).await.map_err(|refusal| refusal.to_string())?;
        Ok(Box::pin(async move { underway.outcome().await.told().map(str::to_owned) }))
    }

    fn answer(
        &self,
        question: &str,
        person: &Person,
        decision: Decision,
    ) -> Result<(), AnswerRefusal> {
        self.dispatcher.answer(question, person, decision)
    }

    fn answer_in_words(
        &self,
        lane: &Lane,
        person: &Person,
        words: &str,
    ) -> Option<Result<(), AnswerRefusal>> {
        self.dispatcher.answer_in_words(lane, person, words)
    }

    fn may_answer(&self, question: &str, person: &Person) -> Result<(), AnswerRefusal> {
        self.dispatcher.may_answer(question, person)
    }

    fn learn(&self, channel: u64, parent: u64) {
        self.dispatcher.learn(channel, parent);
    }

    async fn knows(&self, lane: &Lane) -> bool {
        self.dispatcher.knows(lane).await
    }

    async fn reads_all(&self, lane: &Lane) -> bool {
        self.dispatcher.reads_all(lane).await
    }

    fn withdraw(&self, key: &str) -> bool {
        self.dispatcher.withdraw(key)
    }

    fn amend(&self, key: &str, prompt: &str) -> Result<bool, String> {
        self.dispatcher.amend(key, prompt).map_err(|refusal| refusal.to_string())
    }

    async fn again(
        &self,
        id: &str,
        person: &Person,
        admitted: bool,
    ) -> Result<Again, AgainRefusal> {
        if let Some(pressed) = self.acceptance.press(id, person).await {
            return pressed;
        }
        self.dispatcher.again(id, person, admitted).await
    }

    async fn reset(&self, lane: &Lane) -> Result<bool, String> {
        self.dispatcher.reset(lane).await
    }
}

struct Door {
    allowed: AllowLists,
}

impl Gate for Door {
    fn admit(&self, asker: &Asker) -> Result<(), String> {
        let owners = if asker.owner { vec![asker.user] } else { Vec::new() };
        let request = Request {
            author: asker.user,
            is_bot: false,
            is_webhook: false,
            is_self: false,
            roles: &asker.roles,
            channel: asker.channel,
            parent_channel: asker.parent,
            guild: asker.guild,
            owners: &owners,
        };
        match access::decide(&self.allowed, &request) {
            Access::Allowed => Ok(()),
            Access::Ignored(why) => Err(why.to_string()),
            Access::Refused(why) => Err(why.to_string()),
        }
    }
}

struct Marks {
    known: Mutex<HashMap<u64, u64>>,
    /// Lately, also in earlier lives.
    logins: Mutex<Vec<i64>>,
    notes: DiscordNotes,
}

impl Seen for Marks {
    fn last(&self, channel: u64) -> Option<u64> {
        self.known.lock().get(&channel).copied()
    }

    fn channels(&self) -> Vec<(u64, u64)> {
        self.known.lock().iter().map(|(channel, message)| (*channel, *message)).collect()
    }

    fn saw(&self, channel: u64, message: u64) {
        let mut known = self.known.lock();
        let last = known.entry(channel).or_default();
        *last = (*last).max(message);
        self.notes.note(channel, message);
    }

    fn logins(&self) -> Vec<i64> {
        self.logins.lock().clone()
    }

    fn logging_in(&self, now_ms: i64) {
        self.logins.lock().push(now_ms);
        self.notes.note_login(now_ms);
        let notes = self.notes.clone();
        // At once: a crash before the next save must count.
        tokio::spawn(async move { save(&notes).await });
    }
}

/// Open questions, on disk as soon as may be: a crash must not leave buttons that look alive.
struct Book {
    left_over: Vec<Posted>,
    notes: DiscordNotes,
}

impl Book {
    fn save(&self) {
        let notes = self.notes.clone();
        tokio::spawn(async move { save(&notes).await });
    }
}

impl OpenQuestions for Book {
    fn left_over(&self) -> Vec<Posted> {
        self.left_over.clone()
    }

    fn opened(&self, question: Posted) {
        self.notes.open_question(&question.id, question.channel, question.message);
        self.save();
    }

    fn closed(&self, id: &str) {
        self.notes.close_question(id);
        self.save();
    }
}
