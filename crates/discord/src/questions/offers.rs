//! Offers: buttons that repeat an event, deliver a lost reply, or accept something else.

use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

use super::PressHandler;
use super::press::{Press, PressResponse};
use crate::api::MAX_MESSAGE_CHARS;
use crate::button::{Button, ButtonStyle, row};
use crate::text::markdown::escape;
use aetheel_dispatch::{Offer, OfferEffect, OfferRefusal, Person};
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::id::ChannelId;
use aetheel_model::plain::short_line;

/// The line below a failure whose reply was delivered.
pub(crate) const DELIVERED: &str = "-# 📬";

/// Accepts offers that the dispatcher does not know, when a person presses their button.
#[derive(Clone)]
pub struct OfferHandler(Arc<dyn Fn(String, Person) -> OfferFuture + Send + Sync>);

/// Resolves to the result, or to `None` if the handler does not know the offer.
type OfferFuture = Pin<Box<dyn Future<Output = Option<Result<OfferEffect, OfferRefusal>>> + Send>>;

impl OfferHandler {
    /// Creates a handler from a function that takes the id of an offer and the person who pressed.
    pub fn new<F>(press: impl Fn(String, Person) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<Result<OfferEffect, OfferRefusal>>> + Send + 'static,
    {
        Self(Arc::new(move |id, person| -> OfferFuture { Box::pin(press(id, person)) }))
    }

    /// Returns a handler that passes presses which this one does not know to `next`.
    #[must_use]
    pub fn or(self, next: Self) -> Self {
        Self::new(move |id, person| {
            let (first, next) = (self.clone(), next.clone());
            async move {
                match first.press(id.clone(), person.clone()).await {
                    None => next.press(id, person).await,
                    pressed => pressed,
                }
            }
        })
    }

    /// Passes the press of a person on. Returns `None` if the handler does not know the offer.
    pub(crate) async fn press(
        &self,
        id: String,
        person: Person,
    ) -> Option<Result<OfferEffect, OfferRefusal>> {
        (self.0)(id, person).await
    }
}

impl PressHandler {
    /// Repeats an event or delivers a lost reply, and removes the button. The flag is `false` if
    /// this node does not know the offer.
    pub(super) async fn press_offer(&self, id: &str, press: &Press) -> (PressResponse, bool) {
        let person = self.person(press);
        let content = press.content.as_deref().unwrap_or_default();
        // The response edits the notice of a wait, so that its end does not.
        let wait = press.message.and_then(|message| self.asks.notes.take_pressed_wait(message));
        let taken = self.accept_offer(id, &person, press).await;
        let known = taken != Err(OfferRefusal::Gone);
        if let Some(wait) = wait {
            match &taken {
                Ok(_) => self.asks.notes.wait_closed(&wait),
                Err(_) => self.asks.notes.put_back_wait(wait),
            }
        }
        if known {
            note_press(id, &person, press, taken.as_ref().err());
        }
        let reaction = match taken {
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
        press: &Press,
    ) -> Result<OfferEffect, OfferRefusal> {
        let is_admitted = self.admits(press);
        let here = press.channel.filter(|_| is_admitted).map(ChannelId::discord);
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
fn note_press(id: &str, person: &Person, press: &Press, refusal: Option<&OfferRefusal>) {
    let (user, name) = match person {
        Person::User { id, name, .. } => (Some(*id), Some(name.as_str())),
        Person::Terminal => (None, None),
    };
    AuditEntry::new(AuditKind::OfferPressed)
        .by(user, name)
        .with_known("lane", press.channel.map(crate::ids::lane))
        .with("offer", id)
        .with(
            "result",
            refusal.map_or_else(|| "accepted".to_owned(), |why| format!("refused: {why}")),
        )
        .note();
}

/// Returns the buttons of offers, or `null` for an empty list.
pub(crate) fn rows(offers: &[Offer]) -> Value {
    let button = |offer: &Offer| Button::Offer(&offer.id).show(&offer.label, ButtonStyle::Blue);
    let buttons: Vec<Value> = offers.iter().map(button).collect();
    if buttons.is_empty() { Value::Null } else { json!([row(buttons)]) }
}

/// Returns the text of a message whose offer was accepted.
pub(crate) fn accepted_text(content: &str, by: &Person, what: OfferEffect) -> String {
    let name = match by {
        Person::User { name, .. } => short_line(name, 64),
        Person::Terminal => "you".to_owned(),
    };
    let name = escape(&name);
    let text = match what {
        OfferEffect::Started => format!("{content}\n-# 🔁 Started again by {name}."),
        OfferEffect::Accepted => format!("{content}\n-# ✅ Accepted by {name}: it is loaded now."),
        OfferEffect::Decided(decision) => format!("{content}\n-# {decision} {name}."),
        OfferEffect::Delivered => format!("{content}\n{DELIVERED} Delivered for {name}."),
    };
    // The unfinished answer may fill the whole message.
    if text.chars().count() > MAX_MESSAGE_CHARS { content.to_owned() } else { text }
}
