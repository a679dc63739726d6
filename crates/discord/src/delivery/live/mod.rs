//! The messages of one answer: creates, edits and deletes them until they show the wanted text.
//!
//! Operations are idempotent. A message that Discord may or may not have created keeps its nonce,
//! so that another attempt finds it instead of posting it twice. This also works after a restart,
//! because nonces are derived from the event and the ids of messages are saved with it. If delivery
//! stops in the middle, the last message says that the rest follows. Tested by `tests/discord/`
//! (cut connections, deleted messages, late interactions, delayed answers).

mod command;
mod nonces;
mod requests;
mod slot;
mod target;
mod unconfirmed;

use std::sync::Arc;

use self::nonces::AnswerNonces;
use self::slot::{AnswerSlot, SlotButtons};
pub(crate) use self::target::ReplyTarget;
use self::unconfirmed::UnconfirmedPost;
use super::context::BotContext;
use crate::api::endpoints::Endpoint;
use crate::rest::{RestError, Timeouts};
use crate::wire::Message;
use aetheel_dispatch::PriorDelivery;
use aetheel_model::id::MessageId;
use aetheel_runtime::figures;

/// A separator in the saved ids of a reply. Another message, such as a question, was posted between
/// the messages before and after it.
const BREAK: u64 = 0;

/// The messages of one answer.
pub(crate) struct Live {
    inner: Arc<BotContext>,
    target: ReplyTarget,
    /// Messages that are not edited any more, because another message, such as a question, was
    /// posted below them.
    frozen: Vec<AnswerSlot>,
    slots: Vec<AnswerSlot>,
    prior: PriorDelivery,
    /// The event whose turn the stop button stops. `None` shows no button.
    stop_event: Option<u64>,
    /// The last message whose creation Discord did not confirm.
    unconfirmed: Option<UnconfirmedPost>,
    pub(crate) nonces: AnswerNonces,
    saved_ids: Vec<u64>,
    /// How many messages of previous processes precede these and cannot be edited.
    unreachable: usize,
}

impl Live {
    /// Creates the messages of an answer. Continues with those that a previous process posted.
    pub(crate) fn new(
        inner: Arc<BotContext>,
        place: ReplyTarget,
        traces: PriorDelivery,
        stops: Option<u64>,
    ) -> Self {
        let before = usize::from(
            place.command && place.token.is_none() && traces.resumed && traces.posted.is_empty(),
        );
        let noted = traces.posted.iter().filter_map(|id| id.as_discord()).collect();
        let nonces = AnswerNonces::new(traces.stem.clone());
        let mut live = Self {
            inner,
            target: place,
            frozen: Vec::new(),
            slots: Vec::new(),
            saved_ids: noted,
            prior: traces,
            stop_event: stops,
            unconfirmed: None,
            nonces,
            unreachable: before,
        };
        for id in live.saved_ids.clone() {
            if id == BREAK {
                live.freeze();
                continue;
            }
            let slot = live.new_slot(live.slots.len());
            live.slots.push(AnswerSlot { id: Some(id), buttons: SlotButtons::Unknown, ..slot });
        }
        live
    }

    /// Returns a slot for a message that does not exist yet.
    fn new_slot(&self, index: usize) -> AnswerSlot {
        let number = self.unreachable + self.frozen.len() + index;
        AnswerSlot {
            nonce: self.nonces.of_message(index, number),
            id: None,
            shown: String::new(),
            buttons: SlotButtons::Nothing,
            fixed: false,
        }
    }

    /// Saves the ids of the messages, including the command's own.
    fn save_ids(&mut self) {
        let mut ids: Vec<u64> = self.frozen.iter().filter_map(|slot| slot.id).collect();
        if !ids.is_empty() {
            ids.push(BREAK);
        }
        ids.extend(self.slots.iter().filter_map(|slot| slot.id));
        if ids != self.saved_ids {
            let posted: Vec<MessageId> = ids.iter().copied().map(MessageId::discord).collect();
            (self.prior.note)(&posted);
            self.saved_ids = ids;
        }
    }

    /// Returns the id of the first message, once it was posted.
    pub(crate) fn first(&self) -> Option<u64> {
        self.slots.first().and_then(|slot| slot.id)
    }

    /// Makes the messages show `pieces`, in order. `last` means that nothing follows.
    ///
    /// Returns whether a message was posted.
    pub(crate) async fn show(
        &mut self,
        pieces: &[String],
        last: bool,
        timeouts: Timeouts,
    ) -> Result<bool, RestError> {
        self.check_token(timeouts).await;
        let had_token = self.target.token.is_some();
        let shown = self.try_show(pieces, last, timeouts).await;
        if shown.is_err() && had_token && self.target.token.is_none() {
            // The command's message was deleted or its token rejected: start again without it.
            self.drop_from(1, timeouts).await;
            self.slots.clear();
            let shown = self.try_show(pieces, last, timeouts).await;
            self.save_ids();
            return shown;
        }
        self.save_ids();
        shown
    }

    async fn try_show(
        &mut self,
        pieces: &[String],
        last: bool,
        timeouts: Timeouts,
    ) -> Result<bool, RestError> {
        let mut posted = false;
        for (index, piece) in pieces.iter().enumerate() {
            if index == self.slots.len() {
                self.slots.push(self.new_slot(index));
            }
            let below = self.buttons_of(index, pieces.len(), last);
            let original = self.is_original(index);
            match self.slots[index].id {
                Some(_) if self.slots[index].shows(piece, below) => {}
                Some(id) => match self.edit(index, id, piece, below, timeouts).await {
                    // Somebody deleted it. The messages after it are created again, to keep the
                    // order.
                    Err(error) if error.is_gone() && !original => {
                        self.drop_from(index, timeouts).await;
                        self.slots.push(self.new_slot(index));
                        let below = self.buttons_of(index, pieces.len(), last);
                        self.create(index, piece, below, last, timeouts).await?;
                        figures::discord_message(last, true);
                        posted = true;
                    }
                    // Messages of an archived thread cannot be edited. A new message reopens the
                    // thread, unless it is locked.
                    Err(error) if error.is_archived() => {
                        for at in index..self.slots.len() {
                            self.nonces.change(at);
                        }
                        let before = self.slots.split_off(index);
                        self.slots.push(self.new_slot(index));
                        let below = self.buttons_of(index, pieces.len(), last);
                        self.create(index, piece, below, last, timeouts).await?;
                        self.delete(before, timeouts).await;
                        posted = true;
                    }
                    Err(error) => return Err(error),
                    Ok(()) => figures::discord_message(last, false),
                },
                None => {
                    self.create(index, piece, below, last, timeouts).await?;
                    figures::discord_message(last, true);
                    posted = true;
                }
            }
            // The previous message no longer needs its button "The rest follows". A draft leaves
            // that to the next edit.
            if let Some(before) = index.checked_sub(1).filter(|_| last)
                && let AnswerSlot { id: Some(id), shown, .. } = &self.slots[before]
                && !self.slots[before].shows(shown, SlotButtons::Nothing)
            {
                let (id, shown) = (*id, shown.clone());
                self.edit(before, id, &shown, SlotButtons::Nothing, timeouts).await?;
            }
        }
        if self.slots.len() > pieces.len() {
            self.drop_from(pieces.len(), timeouts).await;
        }
        Ok(posted)
    }

    fn buttons_of(&self, index: usize, count: usize, last: bool) -> SlotButtons {
        let goes_on = index + 1 < count;
        match self.stop_event {
            _ if goes_on && self.slots.get(index + 1).is_some_and(|next| next.id.is_some()) => {
                SlotButtons::Nothing
            }
            Some(_) if !last => SlotButtons::Stop,
            _ if goes_on => SlotButtons::More,
            _ => SlotButtons::Nothing,
        }
    }

    /// Leaves the existing messages as they are and continues in new ones, because another message,
    /// such as a question, was posted below them.
    pub(crate) async fn continue_below(&mut self, timeouts: Timeouts) {
        if self.slots.iter().all(|slot| slot.id.is_none()) {
            // Nothing was posted yet. A command's own message points to the answer below.
            return self.abandon_token(timeouts).await;
        }
        self.freeze();
        self.save_ids();
    }

    fn freeze(&mut self) {
        self.frozen.append(&mut self.slots);
        self.nonces.reset();
        self.target = ReplyTarget::in_channel(self.target.channel);
    }

    /// Returns whether this process or a previous one left messages above another message, such as
    /// a question.
    pub(crate) fn has_frozen(&self) -> bool {
        !self.frozen.is_empty()
    }

    /// Returns the text of the last message that a previous process left above another message.
    /// `None` if no such message exists, it cannot be read, or this process posted it.
    pub(crate) async fn last_frozen_text(&self, timeouts: Timeouts) -> Option<String> {
        let id = self.frozen.last().filter(|slot| slot.shown.is_empty())?.id?;
        let found = self
            .inner
            .api
            .get::<Message>(
                Endpoint::Message { channel: self.target.channel, message: id },
                timeouts,
            )
            .await;
        found.ok().map(|message| message.content.trim().to_owned())
    }

    /// Deletes the messages that were left above another message, because the messages below
    /// contain the whole text.
    pub(crate) async fn delete_frozen(&mut self, timeouts: Timeouts) {
        let above = std::mem::take(&mut self.frozen);
        self.delete(above, timeouts).await;
        self.save_ids();
    }
}
