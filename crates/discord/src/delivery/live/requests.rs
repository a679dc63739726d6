//! The requests that post, change and delete the messages of a growing answer.

use serde_json::Value;
use tracing::debug;

use super::Live;
use super::slot::{AnswerSlot, SlotButtons};
use crate::api::NewMessage;
use crate::rest::{RestError, Timeouts};

impl Live {
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
                api.responses
                    .edit(application, token.interaction, &token.value, shown, rows, timeouts)
                    .await
                    .map(drop)
            }
            (_, Some(id)) => api.edit_with(self.target.channel, id, shown, rows, timeouts).await,
            (_, None) => Ok(()),
        }
    }

    pub(super) async fn create(
        &mut self,
        index: usize,
        piece: &str,
        below: SlotButtons,
        last: bool,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        match self.try_create(index, piece, below, last, timeouts).await {
            // A previous process created the message, and somebody deleted it.
            Err(error)
                if error.is_gone()
                    && self.slots[index].id.is_some()
                    && !self.is_original(index) =>
            {
                self.nonces.change(index);
                self.slots[index] = self.new_slot(index);
                self.try_create(index, piece, below, last, timeouts).await
            }
            made => made,
        }
    }

    pub(super) async fn try_create(
        &mut self,
        index: usize,
        piece: &str,
        below: SlotButtons,
        last: bool,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
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
                        let new = NewMessage { reply_to, ..NewMessage::new(&nonce, piece, &rows) };
                        self.inner.api.post_message(self.target.channel, new, timeouts).await
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
                            .responses
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
            return self.edit(index, posted.id, piece, below, timeouts).await;
        }
        piece.clone_into(&mut self.slots[index].shown);
        self.slots[index].buttons = below;
        Ok(())
    }

    /// Edits a message. Leaves its buttons unchanged if they are already right.
    pub(super) async fn edit(
        &mut self,
        index: usize,
        id: u64,
        piece: &str,
        below: SlotButtons,
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
    pub(super) async fn drop_from(&mut self, index: usize, timeouts: Timeouts) {
        let index = index.min(self.slots.len());
        for at in index..self.slots.len() {
            self.nonces.change(at);
        }
        let slots = self.slots.split_off(index);
        self.delete(slots, timeouts).await;
    }

    pub(super) async fn delete(&self, slots: Vec<AnswerSlot>, timeouts: Timeouts) {
        for slot in slots.into_iter().rev() {
            if let Some(id) = slot.id
                && let Err(error) = self.inner.api.delete(self.target.channel, id, timeouts).await
            {
                debug!(channel = self.target.channel, %error, "cannot delete a message");
            }
        }
    }
}
