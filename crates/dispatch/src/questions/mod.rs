//! The open questions of agents.
//!
//! This module checks who may answer a question and whether a decision fits it, and passes exactly
//! one decision per question to the agent. The outcome is shown through the [`ReplyHandle`] of the
//! turn. Tested by `tests/dispatch/asks.rs`.

mod fit;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use self::fit::{decision_for_people, fit_decision};
use super::observers::ChangeSignal;
use super::outlet::handle::ReplyHandle;
use super::outlet::question::{OpenQuestion, Settlement};
use super::turn_feed::TurnFeed;
use aetheel_model::agent::{Ask, AskDecision, AskKey, AskKind, AskOption, DecisionScope};
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::event::Lane;
use aetheel_model::id::{RoleId, UserId, UserOrRoleId};
use aetheel_model::observed::ObservedKind;
use aetheel_model::plain::hex;
use aetheel_model::prompt::Expansion;
use aetheel_model::redact::Redactor;
use aetheel_runtime::figures;
use aetheel_turn::Answerer;

/// A person who wants to answer a question or press a button.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Person {
    /// The person at the terminal. May only answer questions of the console.
    Terminal,
    /// A user of a chat platform.
    User {
        /// The user's id.
        id: UserId,
        /// The user's roles in the guild, including the role of everyone there.
        roles: Vec<RoleId>,
        /// Whether the user owns the bot's application.
        owner: bool,
        /// The displayed name.
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

    fn id(&self) -> Option<UserId> {
        match self {
            Self::Terminal => None,
            Self::User { id, .. } => Some(*id),
        }
    }
}

/// The reason why an answer was not accepted, worded for the person who gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerRefusal {
    /// The question was answered, withdrawn or not answered in time, or belongs to a previous
    /// process.
    #[error("This question is no longer open.")]
    Gone,
    /// The person neither asked for the turn nor is an approver.
    #[error(
        "You may not answer this question: only the person who asked, the bot's owner and its approvers may."
    )]
    NotYours,
    /// The answer does not fit. The question is still open.
    #[error("{0}")]
    Misfit(&'static str),
}

/// The turn that a question belongs to.
#[derive(Clone, Debug)]
pub(crate) struct QuestionContext {
    /// The correlation id of the turn, the same after a restart.
    pub(crate) turn: String,
    pub(crate) lane: Lane,
    /// The tracing span of the turn.
    pub(crate) span: tracing::Span,
    /// The person who asked for the turn; `None` if no user did.
    pub(crate) asker: Option<UserId>,
    /// The forms that the backend expands in people's messages, such as `@path`.
    pub(crate) expansion: Expansion,
    /// The observers of the turn.
    pub(crate) feed: TurnFeed,
    /// Why people are asked, if another conversation uses the files of the request.
    pub(crate) collision: Option<String>,
    /// The name of the person who decided, for a question that somebody else waits for.
    pub(crate) decided_by: Arc<OnceLock<String>>,
}

impl QuestionContext {
    /// Returns the audit entry about a decision. `by` is the kind of the decider.
    pub(crate) fn decided(&self, ask: &Ask, by: &'static str, decision: &str) -> AuditEntry {
        let tool = match &ask.kind {
            AskKind::Permission(tool) => Some(tool),
            _ => None,
        };
        AuditEntry::new(AuditKind::RequestDecided)
            .in_lane(&self.lane)
            .with("turn", &self.turn)
            .with_known("asker", self.asker)
            .with("about", kind_word(&ask.kind))
            .with_known("tool", tool.map(|tool| &tool.native_name))
            .with_known("tool-kind", tool.map(|tool| &tool.kind))
            .with("decider", by)
            .with("decision", decision)
    }
}

struct OpenQuestionEntry {
    context: QuestionContext,
    ask: Ask,
    shown: OpenQuestion,
    answerer: Answerer,
    reply: Arc<ReplyHandle>,
    asked_at: Instant,
}

/// The open questions of agents.
pub struct Questions {
    approvers: Vec<UserOrRoleId>,
    redactor: Redactor,
    open: Mutex<HashMap<String, OpenQuestionEntry>>,
    /// Notified whenever a question opens or closes.
    changes: ChangeSignal,
}

impl Questions {
    pub(crate) fn new(
        approvers: Vec<UserOrRoleId>,
        redactor: Redactor,
        changes: ChangeSignal,
    ) -> Self {
        Self { approvers, redactor, open: Mutex::default(), changes }
    }

    /// Opens a question and returns its visible form. The caller shows it afterwards.
    pub(crate) fn open(
        &self,
        context: QuestionContext,
        ask: &Ask,
        time: u32,
        answerer: Answerer,
        reply: &Arc<ReplyHandle>,
    ) -> OpenQuestion {
        let mut open = self.open.lock();
        let id = question_id(&context.turn, ask.ask, time);
        let held = context.collision.as_ref().map(|_| limited_to_once(ask));
        let ask = held.as_ref().unwrap_or(ask);
        let mut shown = OpenQuestion::of(id.clone(), ask, context.asker, &self.redactor);
        shown.collision.clone_from(&context.collision);
        figures::count_question("opened");
        tracing::info!(question = id, kind = kind_word(&ask.kind), "question opened");
        context.feed.send(ObservedKind::QuestionOpened {
            question: id.clone(),
            about: kind_word(&ask.kind),
            title: context.feed.clean(&ask.title),
        });
        let entry = OpenQuestionEntry {
            context,
            ask: ask.clone(),
            shown: shown.clone(),
            answerer,
            reply: Arc::clone(reply),
            asked_at: Instant::now(),
        };
        open.insert(id, entry);
        self.changes.notify();
        shown
    }

    /// Returns the number of open questions.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// Returns the open questions of a lane, the oldest first.
    pub(crate) fn open_in(&self, lane: &Lane) -> Vec<OpenQuestion> {
        let open = self.open.lock();
        let mut found: Vec<_> = open.values().filter(|entry| entry.context.lane == *lane).collect();
        found.sort_by_key(|entry| entry.asked_at);
        found.into_iter().map(|entry| entry.shown.clone()).collect()
    }

    /// Closes a question without an answer. Returns false if it was not open.
    pub(crate) fn close(&self, id: &str) -> bool {
        // The entry is dropped after the lock is released, which notifies the agent.
        let entry = self.open.lock().remove(id);
        self.changes.notify();
        entry.is_some()
    }

    /// Closes a question as [`Questions::close`] does, and adds the reason to the metrics and the
    /// audit log.
    pub(crate) fn close_unanswered(&self, id: &str, reason: &'static str) -> bool {
        let entry = self.open.lock().remove(id);
        self.changes.notify();
        if let Some(OpenQuestionEntry { context, ask, .. }) = &entry {
            figures::count_question(reason);
            context.decided(ask, "nobody", reason).with("question", id).note();
        }
        entry.is_some()
    }

    /// Checks whether a person may answer a question, for questions that take several steps. Logs a
    /// refusal.
    ///
    /// # Errors
    /// [`AnswerRefusal`], worded for that person.
    pub fn may_answer(&self, id: &str, person: &Person) -> Result<(), AnswerRefusal> {
        let open = self.open.lock();
        let entry = open.get(id).ok_or(AnswerRefusal::Gone)?;
        if self.may(entry, person) {
            return Ok(());
        }
        let _turn = entry.context.span.enter();
        tracing::warn!(
            question = id,
            user = person.id().map(UserId::to_field),
            name = person.name(),
            "refused an answer: neither asker nor approver"
        );
        Err(AnswerRefusal::NotYours)
    }

    /// Takes a message that a person wrote in a lane as the answer to the question that is open
    /// there. Returns `None` if the message is not an answer. It may be a prompt then.
    #[must_use]
    pub fn answer_from_text(
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
                .max_by_key(|(_, entry)| entry.asked_at);
            let (id, entry) = latest?;
            (id.clone(), entry.shown.parse_decision(words)?)
        };
        Some(self.answer(&id, person, decision))
    }

    /// Applies a person's decision about an agent's question. The first valid decision wins: it is
    /// sent to the agent and shown to everybody who sees the question. Returns at once.
    ///
    /// # Errors
    /// [`AnswerRefusal`], worded for that person. After [`AnswerRefusal::Misfit`] the question is
    /// still open.
    pub fn answer(
        &self,
        id: &str,
        person: &Person,
        decision: AskDecision,
    ) -> Result<(), AnswerRefusal> {
        self.may_answer(id, person)?;
        let (entry, decision) = {
            let mut open = self.open.lock();
            let entry = open.get(id).ok_or(AnswerRefusal::Gone)?;
            let decision = fit_decision(entry, decision).map_err(AnswerRefusal::Misfit)?;
            let Some(entry) = open.remove(id) else { return Err(AnswerRefusal::Gone) };
            (entry, decision)
        };
        self.changes.notify();
        let _turn = entry.context.span.enter();
        figures::count_question("answered");
        tracing::info!(
            question = id,
            user = person.id().map(UserId::to_field),
            name = person.name(),
            decision = decision_word(&decision),
            "question answered"
        );
        entry.context.feed.send(ObservedKind::QuestionClosed {
            question: id.to_owned(),
            result: decision_word(&decision),
            person: person.id().map(|id| id.to_string()),
        });
        let shown = self.clean(&decision_for_people(&entry, &decision));
        let by = self.redactor.redact(person.name().to_owned());
        let audit = entry.context.decided(&entry.ask, "person", decision_word(&decision));
        let audit = audit.by(person.id(), Some(person.name())).with("question", id);
        let _ = entry.context.decided_by.set(by.clone());
        let mut taken = Err(AnswerRefusal::Gone);
        // The decision is sent and shown under the lock of the reply, because the decision may end
        // the turn, which takes the reply.
        entry.reply.with(|reply| {
            if entry.answerer.decide(decision) {
                reply.question_settled(id, &Settlement::Answered { by, decision: shown });
                audit.note();
                taken = Ok(());
            }
        });
        taken
    }

    fn may(&self, entry: &OpenQuestionEntry, person: &Person) -> bool {
        self.may_decide(entry.context.asker, &entry.context.lane, person)
    }

    /// Returns whether a person may decide about a request of `asker` in a lane. The asker, owners
    /// and approvers may.
    #[must_use]
    pub fn may_decide(&self, asker: Option<UserId>, lane: &Lane, person: &Person) -> bool {
        match person {
            Person::Terminal => *lane == Lane::Console,
            Person::User { id, roles, owner, .. } => {
                *owner
                    || asker == Some(*id)
                    || self.approvers.contains(&(*id).into())
                    || roles.iter().any(|role| self.approvers.contains(&(*role).into()))
            }
        }
    }

    /// Removes secrets from a decision.
    fn clean(&self, decision: &AskDecision) -> AskDecision {
        let mut decision = decision.clone();
        decision.for_each_text(&mut |_, text| {
            *text = self.redactor.redact(std::mem::take(text));
        });
        decision
    }
}

/// Returns a request that people can only allow or deny once, because another conversation uses its
/// files at the moment.
fn limited_to_once(ask: &Ask) -> Ask {
    let mut once = Ask { always_label: None, ..ask.clone() };
    let is_once = |option: &AskOption| option.scope == DecisionScope::Once;
    // An agent with options of its own needs one of them.
    if once.options.iter().any(|option| option.allows && is_once(option)) {
        once.options.retain(is_once);
    }
    once
}

/// Returns the id of a question, which is the same after a restart. `time` counts, from 1, how
/// often the backend has used the key `ask` in the turn.
pub(crate) fn question_id(turn: &str, ask: AskKey, time: u32) -> String {
    short_hash(&format!("{turn}/{ask}/{time}"))
}

fn short_hash(of: &str) -> String {
    hex(&Sha256::digest(of)[..8])
}

fn kind_word(kind: &AskKind) -> &'static str {
    match kind {
        AskKind::Permission(_) => "permission",
        AskKind::PlanApproval(_) => "plan approval",
        AskKind::Questions(_) => "questions",
        AskKind::SignIn(_) => "sign-in",
    }
}

fn decision_word(decision: &AskDecision) -> &'static str {
    match decision {
        AskDecision::AllowOnce => "allow once",
        AskDecision::AllowAlways => "allow always",
        AskDecision::AllowChanged(_) => "allow changed",
        AskDecision::Chosen(_) => "chosen",
        AskDecision::Declined => "declined",
        AskDecision::Deny(_) => "deny",
        AskDecision::DenyAndStop => "deny and stop",
        AskDecision::Answers(_) => "answers",
        AskDecision::Dismissed => "dismissed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_depends_on_turn_key_and_use_count() {
        let first = question_id("1f0c9a2e", 9, 1);
        assert_eq!(first, question_id("1f0c9a2e", 9, 1));
        assert!(first.len() == 16 && first.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(first, question_id("1f0c9a2e", 8, 1));
        assert_ne!(first, question_id("1f0c9a2f", 9, 1));
        assert_ne!(first, question_id("1f0c9a2e", 9, 2));
    }
}
