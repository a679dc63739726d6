//! The messages of one answer: creates, edits and deletes them until they show the wanted text.
//!
//! Operations are idempotent. A message that Discord may or may not have created keeps its nonce,
//! so that another attempt finds it instead of posting it twice. This also works after a restart,
//! because nonces are derived from the event and the ids of messages are saved with it. If delivery
//! stops in the middle, the last message says that the rest follows. Tested by `tests/discord/`
//! (cut connections, deleted messages, late interactions, delayed answers).

mod command;
mod nonces;
mod slot;
mod target;
mod unconfirmed;

use std::sync::Arc;

use serde_json::Value;
use tracing::debug;

use self::nonces::AnswerNonces;
use self::slot::{AnswerSlot, SlotButtons};
pub(crate) use self::target::ReplyTarget;
use self::unconfirmed::UnconfirmedPost;
use super::context::BotContext;
use crate::rest::{RestError, Timeouts};
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
    /// The ids that were saved last.
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
                Some(id) => match self.edit(index, id, (piece, below), timeouts).await {
                    // Somebody deleted it. The messages after it are created again, to keep the
                    // order.
                    Err(error) if error.is_gone() && !original => {
                        self.drop_from(index, timeouts).await;
                        self.slots.push(self.new_slot(index));
                        let below = self.buttons_of(index, pieces.len(), last);
                        self.create(index, (piece, below), last, timeouts).await?;
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
                        self.create(index, (piece, below), last, timeouts).await?;
                        self.delete(before, timeouts).await;
                        posted = true;
                    }
                    Err(error) => return Err(error),
                    Ok(()) => figures::discord_message(last, false),
                },
                None => {
                    self.create(index, (piece, below), last, timeouts).await?;
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
                self.edit(before, id, (&shown, SlotButtons::Nothing), timeouts).await?;
            }
        }
        if self.slots.len() > pieces.len() {
            self.drop_from(pieces.len(), timeouts).await;
        }
        Ok(posted)
    }

    /// Returns the buttons of the message at `index`, out of `count`.
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
        let found = self.inner.api.message(self.target.channel, id, timeouts).await;
        found.ok().map(|message| message.content.trim().to_owned())
    }

    /// Deletes the messages that were left above another message, because the messages below
    /// contain the whole text.
    pub(crate) async fn delete_frozen(&mut self, timeouts: Timeouts) {
        let above = std::mem::take(&mut self.frozen);
        self.delete(above, timeouts).await;
        self.save_ids();
    }

    /// Puts buttons below the last message.
    pub(crate) async fn set_buttons(
        &self,
        rows: &Value,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let Some((index, slot)) = self.slots.iter().enumerate().next_back() else { return Ok(()) };
        let (api, shown) = (&self.inner.api, slot.shown.as_str());
        match (&self.target.token, slot.id) {
            (Some(token), _) if index == 0 => {
                let application = self.inner.identity.application;
                api.edit_original_with(
                    application,
                    token.interaction,
                    &token.value,
                    (shown, rows),
                    timeouts,
                )
                .await
                .map(drop)
            }
            (_, Some(id)) => api.edit_with(self.target.channel, id, shown, rows, timeouts).await,
            (_, None) => Ok(()),
        }
    }

    async fn create(
        &mut self,
        index: usize,
        body: (&str, SlotButtons),
        last: bool,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        match self.try_create(index, body, last, timeouts).await {
            // A previous process created the message, and somebody deleted it.
            Err(error)
                if error.is_gone()
                    && self.slots[index].id.is_some()
                    && !self.is_original(index) =>
            {
                self.nonces.change(index);
                self.slots[index] = self.new_slot(index);
                self.try_create(index, body, last, timeouts).await
            }
            made => made,
        }
    }

    async fn try_create(
        &mut self,
        index: usize,
        body: (&str, SlotButtons),
        last: bool,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let (piece, below) = body;
        let rows =
            if below == SlotButtons::Nothing { Value::Null } else { below.rows(self.stop_event) };
        // An earlier attempt may have created the message with other buttons.
        let doubtful =
            self.unconfirmed.as_ref().is_some_and(|unsure| unsure.nonce == self.slots[index].nonce);
        let posted = match (&self.target.token, index) {
            (Some(_), 0) => self.edit_original(piece, &rows, timeouts).await?,
            (token, _) => {
                let token = token.clone();
                let reply_to = self.target.reply_to.filter(|_| index == 0);
                let nonce = self.slots[index].nonce.clone();
                let post = match self.find_unconfirmed(&nonce, timeouts).await {
                    Some(found) => Ok(found),
                    None => {
                        self.inner
                            .api
                            .post_with(
                                self.target.channel,
                                reply_to,
                                &nonce,
                                (piece, &rows),
                                timeouts,
                            )
                            .await
                    }
                };
                self.record_post(&nonce, piece, &post);
                match (post, token) {
                    // Without permission to post, the bot can still answer through the command.
                    // Such messages are never edited.
                    (Err(error), Some(token)) if error.is_forbidden() && last => {
                        let application = self.inner.identity.application;
                        let posted = self
                            .inner
                            .api
                            .follow_up(
                                application,
                                token.interaction,
                                &token.value,
                                piece,
                                timeouts,
                            )
                            .await?;
                        self.slots[index] = AnswerSlot {
                            id: Some(posted.id),
                            shown: piece.to_owned(),
                            fixed: true,
                            ..self.new_slot(index)
                        };
                        self.save_ids();
                        return Ok(());
                    }
                    (post, _) => post?,
                }
            }
        };
        self.slots[index].id = Some(posted.id);
        self.slots[index].shown = posted.content;
        // Saved at once: after a crash, Discord recognises the nonce for some minutes only.
        self.save_ids();
        // A different text means that Discord knew the nonce from an earlier attempt. A previous
        // process may also have deleted the message since, which only an edit reveals.
        if doubtful
            || self.slots[index].shown.trim() != piece.trim()
            || (self.prior.resumed && !self.is_original(index))
        {
            self.slots[index].buttons = SlotButtons::Unknown;
            return self.edit(index, posted.id, body, timeouts).await;
        }
        piece.clone_into(&mut self.slots[index].shown);
        self.slots[index].buttons = below;
        Ok(())
    }

    /// Edits a message. Leaves its buttons unchanged if they are already right.
    async fn edit(
        &mut self,
        index: usize,
        id: u64,
        (piece, below): (&str, SlotButtons),
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let rows = if self.slots[index].buttons == below {
            Value::Null
        } else {
            below.rows(self.stop_event)
        };
        if self.is_original(index) {
            self.edit_original(piece, &rows, timeouts).await?;
        } else {
            self.inner.api.edit_with(self.target.channel, id, piece, &rows, timeouts).await?;
        }
        piece.clone_into(&mut self.slots[index].shown);
        self.slots[index].buttons = below;
        Ok(())
    }

    /// Deletes the messages from `index` on.
    async fn drop_from(&mut self, index: usize, timeouts: Timeouts) {
        let index = index.min(self.slots.len());
        for at in index..self.slots.len() {
            self.nonces.change(at);
        }
        let slots = self.slots.split_off(index);
        self.delete(slots, timeouts).await;
    }

    async fn delete(&self, slots: Vec<AnswerSlot>, timeouts: Timeouts) {
        for slot in slots.into_iter().rev() {
            if let Some(id) = slot.id
                && let Err(error) = self.inner.api.delete(self.target.channel, id, timeouts).await
            {
                debug!(channel = self.target.channel, %error, "cannot delete a message");
            }
        }
    }
}
