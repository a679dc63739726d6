//! Answers the buttons, menus and modal windows below questions and offers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tracing::{debug, info, warn};

use super::offers::accepted_text;
use super::press::PressResponse;
use super::{OfferHandler, QuestionBoard, QuestionStep};
use super::{layout, resumed};
use crate::access::asker::Asker;
use crate::access::identity::Identity;
use crate::api::Api;
use crate::button::{AskChoice, Button};
use crate::ids;
use crate::rest::Timeouts;
use crate::wire::Interaction;
use aetheel_dispatch::{
    AnswerRefusal, OfferEffect, OfferRefusal, Person, Questions, Recovery, Turns, WaitChoices,
    WarningMutes,
};
use aetheel_model::agent::AskDecision;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::id::{ChannelId, UserId};

/// Whether other nodes may know the question of a button.
pub(crate) enum OtherNodes {
    SingleNode,
    /// Other nodes may know the question. The function passes the press on to them. If none of them
    /// answers, this node does.
    Forward(Box<dyn FnOnce() + Send>),
    /// Another node passed the press on to this node. If no other node answers, that node does.
    Forwarded,
}

#[derive(Clone)]
pub(crate) struct PressHandler {
    pub(crate) api: Api,
    pub(crate) identity: Arc<Identity>,
    pub(crate) asks: Arc<QuestionBoard>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) recovery: Recovery,
    pub(crate) wait_choices: WaitChoices,
    pub(crate) turns: Turns,
    pub(crate) accept: Option<OfferHandler>,
    pub(crate) mutes: WarningMutes,
}

impl PressHandler {
    /// Answers a press within Discord's three seconds.
    pub(crate) async fn answer(&self, press: Interaction, elsewhere: OtherNodes) {
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
    async fn response(&self, press: &Interaction) -> (PressResponse, bool) {
        match Button::read(&press.data.custom_id) {
            Some(Button::Offer(id)) => self.press_offer(id, press).await,
            Some(Button::Stop(event)) => (self.stop(event, press).await, true),
            Some(Button::Ask(id, choice)) => {
                let known = self.asks.knows(id);
                (self.choice_response(id, choice, press), known)
            }
            _ => (PressResponse::Private("I do not know this button any more.".to_owned()), true),
        }
    }

    /// Sends a response to Discord. `may_be_answered` means that another node may have sent one
    /// before.
    async fn respond(&self, press: &Interaction, reaction: PressResponse, may_be_answered: bool) {
        let (interaction, token) = (press.id, press.token.as_str());
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
            .responses
            .first_callback(interaction, token, body, may_be_answered, ACK_TIMEOUTS)
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
                .responses
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

    fn choice_response(&self, id: &str, choice: AskChoice, press: &Interaction) -> PressResponse {
        let person = self.person(press);
        let refused = |refusal: AnswerRefusal| match refusal {
            AnswerRefusal::Gone => self.asks.closed_response(id, press.content()),
            other => PressResponse::Private(other.to_string()),
        };
        if self.asks.is_resuming(id) {
            return PressResponse::Private(resumed::RESUMING_TEXT.to_owned());
        }
        // Checked first, so that people who may not answer cannot open the window or answer a part.
        if let Err(refusal) = self.questions.may_answer(id, &person) {
            return refused(refusal);
        }
        let words = press.text().map(str::to_owned);
        let decision = match (choice, words) {
            (AskChoice::Allow, _) => AskDecision::AllowOnce,
            (AskChoice::Always, _) => AskDecision::AllowAlways,
            (AskChoice::Deny, _) if self.asks.is_list(id) => AskDecision::Declined,
            (AskChoice::Deny, _) => AskDecision::Deny(None),
            (AskChoice::AgentOption(at), _) => match self
                .asks
                .question(id)
                .and_then(|question| Some(question.options.get(at)?.id.clone()))
            {
                Some(option) => AskDecision::Chosen(option),
                None => return self.asks.closed_response(id, press.content()),
            },
            (AskChoice::Change, Some(input)) => AskDecision::AllowChanged(input),
            (AskChoice::Skip(step), _) => match self.asks.answer_step(id, step, |_| vec![]) {
                QuestionStep::All(answers) => AskDecision::Answers(answers),
                QuestionStep::Next(reaction) => return reaction,
                QuestionStep::Gone => {
                    return self.asks.closed_response(id, press.content());
                }
            },
            (AskChoice::Stop, _) => AskDecision::DenyAndStop,
            (AskChoice::DenyWithReason, Some(words)) => AskDecision::Deny(Some(words)),
            (AskChoice::DenyWithReason | AskChoice::Change | AskChoice::Write(_), None) => {
                return self.asks.question(id).map_or_else(
                    || self.asks.closed_response(id, press.content()),
                    |question| PressResponse::Window(layout::modal(&question, choice)),
                );
            }
            (AskChoice::Write(step), Some(words)) => {
                match self.asks.answer_step(id, step, |_| vec![words]) {
                    QuestionStep::All(answers) => AskDecision::Answers(answers),
                    QuestionStep::Next(reaction) => return reaction,
                    QuestionStep::Gone => {
                        return self.asks.closed_response(id, press.content());
                    }
                }
            }
            (AskChoice::Option(step, _) | AskChoice::Menu(step), _) => {
                let chosen: Vec<usize> = match choice {
                    AskChoice::Option(_, at) => vec![at],
                    _ => press.data.values.iter().filter_map(|value| value.parse().ok()).collect(),
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
                        return self.asks.closed_response(id, press.content());
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
    async fn stop(&self, event: u64, press: &Interaction) -> PressResponse {
        if !self.admits(press) {
            return PressResponse::Private("You may not use me here.".to_owned());
        }
        let channel = press.channel;
        if self.turns.stop_turn(&ids::lane(channel), event).await {
            info!(event, channel, user = press.user().id, "a person stopped a turn by its button");
            AuditEntry::new(AuditKind::TurnStopped)
                .by(Some(UserId::discord(press.user().id)), Some(press.user().display_name()))
                .in_lane(&ids::lane(channel))
                .with("event", event)
                .with("running", "yes")
                .note();
            return PressResponse::Accept;
        }
        PressResponse::Close(press.content().unwrap_or_default().to_owned(), NOT_RUNNING.to_owned())
    }

    /// Returns whether the person may use the bot in the channel.
    pub(super) fn admits(&self, press: &Interaction) -> bool {
        self.identity.admit(&Asker::of(press, &self.identity)).is_ok()
    }

    pub(super) fn person(&self, press: &Interaction) -> Person {
        let roles = ids::roles_with_everyone(press.roles(), press.guild);
        Person::User {
            id: UserId::discord(press.user().id),
            roles,
            owner: self.identity.owners.contains(&press.user().id),
            name: press.name(),
        }
    }
}

/// Time limits of the acknowledgement of an interaction, for which Discord waits three seconds.
const ACK_TIMEOUTS: Timeouts =
    Timeouts::new(Duration::from_millis(1_500), Duration::from_millis(2_800));
/// The reply to a press of the stop button that comes too late.
const NOT_RUNNING: &str = "This is not running any more.";
/// Time limits of a private message after the acknowledgement.
const NOTE_TIMEOUTS: Timeouts = Timeouts::new(Duration::from_secs(5), Duration::from_secs(15));
/// How long other nodes may take to answer a press of a button that this node does not know.
const OTHERS_GRACE: Duration = Duration::from_secs(1);

impl PressHandler {
    /// Repeats an event or delivers a lost reply, and removes the button. The flag is `false` if
    /// this node does not know the offer.
    pub(super) async fn press_offer(&self, id: &str, press: &Interaction) -> (PressResponse, bool) {
        let person = self.person(press);
        let content = press.content().unwrap_or_default();
        // The response edits the notice of a wait, so that its end does not.
        let wait = press.message().and_then(|message| self.asks.notes.take_pressed_wait(message));
        let outcome = self.accept_offer(id, &person, press).await;
        let known = outcome != Err(OfferRefusal::Gone);
        if let Some(wait) = wait {
            match &outcome {
                Ok(_) => self.asks.notes.wait_closed(&wait),
                Err(_) => self.asks.notes.put_back_wait(wait),
            }
        }
        if known {
            note_press(id, &person, press, outcome.as_ref().err());
        }
        let reaction = match outcome {
            Ok(what) => PressResponse::Show(accepted_text(content, &person, what), json!([])),
            Err(refusal @ (OfferRefusal::Gone | OfferRefusal::Delivered)) => {
                PressResponse::Close(content.to_owned(), refusal.to_string())
            }
            Err(refusal) => PressResponse::Private(refusal.to_string()),
        };
        (reaction, known)
    }

    /// Passes the press on an offer to the component that made the offer.
    async fn accept_offer(
        &self,
        id: &str,
        person: &Person,
        press: &Interaction,
    ) -> Result<OfferEffect, OfferRefusal> {
        let is_admitted = self.admits(press);
        let here = is_admitted.then(|| ChannelId::discord(press.channel));
        if let Some(pressed) = self.mutes.press(id, person, here).await {
            return pressed;
        }
        if let Some(accept) = &self.accept
            && let Some(pressed) = accept.press(id.to_owned(), person.clone()).await
        {
            return pressed;
        }
        if let Some(pressed) = self.wait_choices.press(id, is_admitted).await {
            return pressed;
        }
        self.recovery.accept_offer(id, person, is_admitted).await
    }
}

/// Adds the press of an offer's button to the audit log.
fn note_press(id: &str, person: &Person, press: &Interaction, refusal: Option<&OfferRefusal>) {
    let (user, name) = match person {
        Person::User { id, name, .. } => (Some(*id), Some(name.as_str())),
        Person::Terminal => (None, None),
    };
    AuditEntry::new(AuditKind::OfferPressed)
        .by(user, name)
        .in_lane(&ids::lane(press.channel))
        .with("offer", id)
        .with(
            "result",
            refusal.map_or_else(|| "accepted".to_owned(), |why| format!("refused: {why}")),
        )
        .note();
}
