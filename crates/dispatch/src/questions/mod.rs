//! The questions that are open: who may answer them, and what fits. Exactly one decision about each
//! reaches its agent.
//!
//! The outcome of a question goes out through the [`ReplyHandle`] of its turn. [`planning`] answers
//! for people where only a plan is wanted. Pinned by `tests/dispatch/asks.rs`.

mod fit;
pub(crate) mod planning;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use self::fit::{fit, shown};
use self::planning::Planning;
use super::outlet::handle::ReplyHandle;
use super::outlet::question::{OpenQuestion, Settlement};
use super::watching::Stir;
use aetheel_model::agent::{Ask, AskKey, AskKind, Decision};
use aetheel_model::event::Lane;
use aetheel_model::figures;
use aetheel_model::plain::hex;
use aetheel_model::prompt::Expansion;
use aetheel_model::redact::Redactor;
use aetheel_turn::Answerer;

/// Somebody who wants to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Person {
    /// Whoever sits at the terminal: may answer what is asked there, and nothing else.
    Terminal,
    /// A Discord user.
    User {
        /// The user's id.
        id: u64,
        /// The user's roles in the guild, and the guild's own id, which is the role of everyone
        /// there.
        roles: Vec<u64>,
        /// Whether the user owns the bot's application.
        owner: bool,
        /// The name people know.
        name: String,
    },
}

impl Person {
    fn name(&self) -> &str {
        match self {
            Self::Terminal => "you",
            Self::User { name, .. } => name,
        }
    }

    fn id(&self) -> u64 {
        match self {
            Self::Terminal => 0,
            Self::User { id, .. } => *id,
        }
    }
}

/// Why an answer was not taken, in words for the person who gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerRefusal {
    /// Answered already, withdrawn, expired, or of another life of the gateway.
    #[error("This question is no longer open.")]
    Gone,
    /// Neither asked for the turn nor may approve.
    #[error(
        "This question is not yours to answer: whoever asked, the bot's owner and its approvers may."
    )]
    NotYours,
    /// It is still open for a better answer.
    #[error("{0}")]
    Misfit(&'static str),
}

/// The turn that asks.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// Its correlation id, the same for every life of the gateway.
    pub(crate) turn: String,
    pub(crate) lane: Lane,
    /// Marks the lines of the log.
    pub(crate) span: tracing::Span,
    /// The person who asked for the turn; none: nobody in Discord.
    pub(crate) asker: Option<u64>,
    /// Forms that the backend would expand in people's words.
    pub(crate) expansion: Expansion,
    /// Whether it only plans.
    pub(crate) planning: Planning,
}

struct Entry {
    context: Context,
    ask: Ask,
    shown: OpenQuestion,
    answerer: Answerer,
    reply: Arc<ReplyHandle>,
    asked: Instant,
}

/// All open questions.
pub(crate) struct Questions {
    approvers: Vec<u64>,
    redactor: Redactor,
    open: Mutex<HashMap<String, Entry>>,
    /// Told whenever one opens or is over.
    stir: Stir,
}

impl Questions {
    pub(crate) fn new(approvers: Vec<u64>, redactor: Redactor, stir: Stir) -> Self {
        Self { approvers, redactor, open: Mutex::default(), stir }
    }

    /// Opens a question and returns what people see of it. To be shown after this returned.
    pub(crate) fn open(
        &self,
        context: Context,
        (ask, time): (&Ask, u32),
        answerer: Answerer,
        reply: &Arc<ReplyHandle>,
    ) -> OpenQuestion {
        let mut open = self.open.lock();
        let id = question_id(&context.turn, ask.ask, time);
        let shown = OpenQuestion::of(id.clone(), ask, context.asker, &self.redactor);
        figures::question("opened");
        tracing::info!(question = id, kind = kind(&ask.kind), "question opened");
        let entry = Entry {
            context,
            ask: ask.clone(),
            shown: shown.clone(),
            answerer,
            reply: Arc::clone(reply),
            asked: Instant::now(),
        };
        open.insert(id, entry);
        self.stir.tell();
        shown
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// The open questions of a lane as people see them, the oldest first.
    pub(crate) fn open_in(&self, lane: &Lane) -> Vec<OpenQuestion> {
        let open = self.open.lock();
        let mut found: Vec<_> = open.values().filter(|entry| entry.context.lane == *lane).collect();
        found.sort_by_key(|entry| entry.asked);
        found.into_iter().map(|entry| entry.shown.clone()).collect()
    }

    /// Closes a question without an answer; false when it was not open any more.
    pub(crate) fn close(&self, id: &str) -> bool {
        // Dropped after the lock is free: the agent learns of it by that.
        let entry = self.open.lock().remove(id);
        self.stir.tell();
        entry.is_some()
    }

    /// Whether a person may answer a question.
    pub(crate) fn may_answer(&self, id: &str, person: &Person) -> Result<(), AnswerRefusal> {
        let open = self.open.lock();
        let entry = open.get(id).ok_or(AnswerRefusal::Gone)?;
        if self.may(entry, person) {
            return Ok(());
        }
        let _turn = entry.context.span.enter();
        tracing::warn!(
            question = id,
            user = person.id(),
            name = person.name(),
            "refused an answer: neither asker nor approver"
        );
        Err(AnswerRefusal::NotYours)
    }

    /// Takes what somebody wrote as the decision about the latest question of a lane. None: it
    /// decides nothing.
    pub(crate) fn answer_in_words(
        &self,
        lane: &Lane,
        person: &Person,
        words: &str,
    ) -> Option<Result<(), AnswerRefusal>> {
        let (id, decision) = {
            let open = self.open.lock();
            let latest = open
                .iter()
                .filter(|(_, entry)| entry.context.lane == *lane)
                .max_by_key(|(_, entry)| entry.asked);
            let (id, entry) = latest?;
            (id.clone(), entry.shown.in_words(words)?)
        };
        Some(self.answer(&id, person, decision))
    }

    /// Takes a decision: the first that fits wins.
    pub(crate) fn answer(
        &self,
        id: &str,
        person: &Person,
        decision: Decision,
    ) -> Result<(), AnswerRefusal> {
        self.may_answer(id, person)?;
        let (entry, decision) = {
            let mut open = self.open.lock();
            let entry = open.get(id).ok_or(AnswerRefusal::Gone)?;
            let decision = fit(entry, decision).map_err(AnswerRefusal::Misfit)?;
            let Some(entry) = open.remove(id) else { return Err(AnswerRefusal::Gone) };
            (entry, decision)
        };
        self.stir.tell();
        let _turn = entry.context.span.enter();
        figures::question("answered");
        tracing::info!(
            question = id,
            user = person.id(),
            name = person.name(),
            decision = word(&decision),
            "question answered"
        );
        let shown = self.clean(&shown(&entry, &decision));
        let by = self.redactor.clean(person.name().to_owned());
        let mut taken = Err(AnswerRefusal::Gone);
        // Before the agent hears of it and asks for more.
        entry.context.planning.decided(&entry.ask, &decision);
        // Both at once: with the decision the turn may end, and the reply with it.
        entry.reply.with(|reply| {
            if entry.answerer.decide(decision) {
                reply.settled(id, &Settlement::Answered { by, decision: shown });
                taken = Ok(());
            }
        });
        taken
    }

    fn may(&self, entry: &Entry, person: &Person) -> bool {
        self.may_act(entry.context.asker, &entry.context.lane, person)
    }

    /// Whether a person may decide about something that was asked for in a lane.
    pub(crate) fn may_act(&self, asker: Option<u64>, lane: &Lane, person: &Person) -> bool {
        match person {
            Person::Terminal => *lane == Lane::Console,
            Person::User { id, roles, owner, .. } => {
                *owner
                    || asker == Some(*id)
                    || self.approvers.iter().any(|listed| listed == id || roles.contains(listed))
            }
        }
    }

    /// A decision as it may be shown.
    fn clean(&self, decision: &Decision) -> Decision {
        let clean = |text: &String| self.redactor.clean(text.clone());
        match decision {
            Decision::Deny(words) => Decision::Deny(words.as_ref().map(clean)),
            Decision::Chosen(label) => Decision::Chosen(clean(label)),
            Decision::AllowChanged(input) => Decision::AllowChanged(clean(input)),
            Decision::Answers(answers) => Decision::Answers(
                answers
                    .iter()
                    .map(|(id, values)| (id.clone(), values.iter().map(clean).collect()))
                    .collect(),
            ),
            other => other.clone(),
        }
    }
}

/// The id of a question, the same for every life of the gateway. `time` counts from 1 how often the
/// guest asked under this key in the turn.
pub(crate) fn question_id(turn: &str, ask: AskKey, time: u32) -> String {
    short_hash(&format!("{turn}/{ask}/{time}"))
}

fn short_hash(of: &str) -> String {
    hex(&Sha256::digest(of)[..8])
}

fn kind(kind: &AskKind) -> &'static str {
    match kind {
        AskKind::Permission(_) => "permission",
        AskKind::PlanApproval(_) => "plan approval",
        AskKind::Questions(_) => "questions",
        AskKind::SignIn(_) => "sign-in",
    }
}

fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::AllowOnce => "allow once",
        Decision::AllowAlways => "allow always",
        Decision::AllowChanged(_) => "allow changed",
        Decision::Chosen(_) => "chosen",
        Decision::Declined => "declined",
        Decision::Deny(_) => "deny",
        Decision::DenyAndStop => "deny and stop",
        Decision::Answers(_) => "answers",
        Decision::Dismissed => "dismissed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_follows_from_turn_key_and_how_often_it_was_used() {
        let first = question_id("1f0c9a2e", 9, 1);
        assert_eq!(first, question_id("1f0c9a2e", 9, 1));
        assert!(first.len() == 16 && first.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(first, question_id("1f0c9a2e", 8, 1));
        assert_ne!(first, question_id("1f0c9a2f", 9, 1));
        assert_ne!(first, question_id("1f0c9a2e", 9, 2));
    }
}
