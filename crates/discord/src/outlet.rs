//! Discord as the [`Outlet`] of the dispatcher, for answers, questions and notices.

use std::sync::Arc;

use async_trait::async_trait;

use super::live::Place;
use super::nowhere::Nowhere;
use super::reply::ChannelReply;
use super::{Discord, Inner, heading, notices, pulses, threads};
use aetheel_dispatch::{DeliveryError, Notice, Opened, Outlet, PriorDelivery, Reply, Said};
use aetheel_model::event::{Attached, Event, Lane, Origin};

#[async_trait]
impl Outlet for Discord {
    fn open(&self, event: &Event) -> Box<dyn Reply> {
        self.open_kept(event, PriorDelivery::unkept())
    }

    fn open_kept(&self, event: &Event, traces: PriorDelivery) -> Box<dyn Reply> {
        let place = match (&event.origin, &event.lane) {
            (Origin::Message { channel, message }, _) => {
                Some(Place { reply_to: Some(*message), ..Place::of(*channel) })
            }
            (Origin::Interaction { channel, .. }, _) => {
                Some(self.inner.place_of_command(*channel, event))
            }
            (Origin::Internal { channel: Some(channel) }, _) | (_, Lane::Channel(channel)) => {
                Some(Place::of(*channel))
            }
            _ => self.inner.options.output_channel.map(Place::of),
        };
        let marker = match &event.origin {
            Origin::Message { message: id, .. } | Origin::Interaction { interaction: id, .. } => {
                self.inner.waiting.begun(*id)
            }
            _ => None,
        };
        if let (Origin::Message { channel, message }, None) = (&event.origin, &marker) {
            self.inner.forget_earlier(event, *channel, *message);
        }
        let unasked = matches!(event.origin, Origin::Internal { .. });
        match place {
            Some(place) => Box::new(ChannelReply::begin(
                &self.inner,
                place,
                marker,
                (!unasked).then_some(event.sequence),
                traces,
            )),
            None => Box::new(Nowhere(event.lane.clone())),
        }
    }

    async fn probe(&self) {
        pulses::arrived(&self.inner).await;
    }

    async fn fetch(&self, attached: &Attached, limit: u64) -> Result<Vec<u8>, String> {
        self.inner.files.fetch(attached, limit).await
    }

    async fn recap(&self, event: &Event) -> Vec<Said> {
        self.inner.recap(event).await
    }

    async fn notify(&self, notice: Notice) -> Result<(), DeliveryError> {
        notices::post(&self.inner, notice).await
    }

    async fn open_thread(&self, event: &Event, traces: PriorDelivery) -> Result<Opened, String> {
        threads::open(&self.inner, event, traces).await
    }

    async fn give_up(
        &self,
        event: &Event,
        notice: Notice,
        traces: PriorDelivery,
    ) -> Result<(), DeliveryError> {
        notices::give_up(&self.inner, event, notice, &traces).await
    }

    async fn put_away(&self, event: &Event) {
        self.inner.put_away(event).await;
    }

    fn continue_questions(&self, ids: &[String]) {
        self.inner.asks.go_on_with(ids);
    }

    fn close_question(&self, id: &str) {
        let (inner, id) = (Arc::clone(&self.inner), id.to_owned());
        tokio::spawn(async move {
            inner.asks.give_up(&inner.api, &id, inner.options.windows.send).await;
        });
    }

    async fn settle_offer(&self, channel: u64, message: u64) {
        notices::settle(&self.inner, channel, message).await;
    }
}

impl Inner {
    /// Returns the destination of a command's answer: the command's own message, as long as it can
    /// be edited.
    pub(super) fn place_of_command(&self, channel: u64, event: &Event) -> Place {
        let token = match &event.origin {
            Origin::Interaction { interaction, pass, .. } => self.interactions.take_or_restore(
                *interaction,
                pass.as_ref(),
                self.options.windows.interaction,
            ),
            _ => None,
        };
        Place {
            token,
            command: true,
            heading: heading::of(event, &self.options.redactor),
            ..Place::of(channel)
        }
    }
}
