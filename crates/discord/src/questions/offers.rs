//! Offers: buttons that repeat an event, deliver a lost reply, or accept something else.

use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::MAX_MESSAGE_CHARS;
use crate::button::{Button, ButtonStyle, row};
use crate::text::markdown::escape;
use aetheel_dispatch::{Offer, OfferEffect, OfferRefusal, Person};
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

/// Returns the buttons of offers, or `null` for an empty list.
pub(crate) fn rows(offers: &[Offer]) -> Value {
    let button = |offer: &Offer| Button::Offer(&offer.id).show(&offer.label, ButtonStyle::Blue);
    let buttons: Vec<Value> = offers.iter().map(button).collect();
    if buttons.is_empty() { Value::Null } else { json!([row(buttons)]) }
}

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
