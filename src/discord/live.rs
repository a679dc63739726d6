//! The messages of one answer on the screen: made, edited, deleted until they show what they should.
//!
//! Idempotent: a message whose creation may or may not have reached Discord keeps its nonce, so that trying again finds
//! it instead of posting twice, also after a restart: nonces follow from the event, and the ids of messages are noted with
//! it. Pinned by `tests/discord.rs` (cut connections, deleted messages, late interactions).

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tracing::debug;

use super::Inner;
use super::api::Posted;
use super::interactions::Door;
use super::rest::{Patience, RestError};
use crate::dispatch::Traces;
use crate::figures;

/// What a command's own message says once its token is about to run out.
const FOLLOWS: &str = "-# This takes a while: the answer follows below.";

/// Where an answer goes.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) channel: u64,
    /// The message it answers.
    pub(super) reply_to: Option<u64>,
    /// The command it answers.
    pub(super) door: Option<Door>,
    /// Whether it answers a command, whose own message comes first; without a door it cannot be reached any more.
    pub(super) command: bool,
}

impl Place {
    /// A channel, in which nothing in particular is answered.
    pub(super) fn of(channel: u64) -> Self {
        Self { channel, reply_to: None, door: None, command: false }
    }
}

#[derive(Debug)]
struct Slot {
    nonce: String,
    /// None: not made, or not known to be.
    id: Option<u64>,
    shown: String,
}

/// The messages of one answer.
pub(super) struct Live {
    inner: Arc<Inner>,
    place: Place,
    slots: Vec<Slot>,
    traces: Traces,
    /// How often the message of each place was given up and made anew.
    anew: Vec<u32>,
    /// The ids that were noted last.
    noted: Vec<u64>,
    /// Messages of earlier lives that stand before ours and are out of reach.
    before: usize,
}

impl Live {
    /// Makes one that goes on with the messages of an earlier life, if there are any.
    pub(super) fn new(inner: Arc<Inner>, place: Place, traces: Traces) -> Self {
        let before = usize::from(place.command && place.door.is_none() && traces.resumed && traces.posted.is_empty());
        let mut live = Self { inner, place, slots: Vec::new(), noted: traces.posted.clone(), traces, anew: Vec::new(), before };
        for id in live.noted.clone() {
            let slot = live.slot(live.slots.len());
            live.slots.push(Slot { id: Some(id), ..slot });
        }
        live
    }

    /// A message to be made in this place.
    fn slot(&self, index: usize) -> Slot {
        let number = self.before + index;
        let nonce = match self.anew.get(index) {
            None | Some(0) => format!("{}.{number}", self.traces.stem),
            Some(anew) => format!("{}.{number}.{anew}", self.traces.stem),
        };
        Slot { nonce, id: None, shown: String::new() }
    }

    /// What keeps a file of the answer from being posted twice, also after a restart.
    pub(super) fn file_nonce(&self, number: usize) -> String {
        format!("{}.f{number}", self.traces.stem)
    }

    /// The next message of this place is another one.
    fn give_up(&mut self, index: usize) {
        if self.anew.len() <= index {
            self.anew.resize(index + 1, 0);
        }
        self.anew[index] += 1;
    }

    /// Notes which messages there are; a command's own message is one of them.
    fn note(&mut self) {
        let ids: Vec<u64> = self.slots.iter().filter_map(|slot| slot.id).collect();
        if ids != self.noted {
            (self.traces.note)(&ids);
            self.noted = ids;
        }
    }

    /// The first message.
    pub(super) fn first(&self) -> Option<u64> {
        self.slots.first().and_then(|slot| slot.id)
    }

    /// When the command's token must not be used any more, so that [`Live::leave_door`] is due.
    pub(super) fn door_closes(&self) -> Option<Instant> {
        self.place.door.as_ref().map(|door| door.closes)
    }

    /// Makes the messages show `pieces`, in order. `last` says that nothing comes after.
    ///
    /// Returns whether a message was posted.
    pub(super) async fn show(&mut self, pieces: &[String], last: bool, patience: Patience) -> Result<bool, RestError> {
        self.mind_door(patience).await;
        let had_door = self.place.door.is_some();
        let shown = self.try_show(pieces, last, patience).await;
        if shown.is_err() && had_door && self.place.door.is_none() {
            // The command's message is gone or its token is refused: begin again without.
            self.drop_from(1, patience).await;
            self.slots.clear();
            let shown = self.try_show(pieces, last, patience).await;
            self.note();
            return shown;
        }
        self.note();
        shown
    }

    async fn try_show(&mut self, pieces: &[String], last: bool, patience: Patience) -> Result<bool, RestError> {
        let mut posted = false;
        for (index, piece) in pieces.iter().enumerate() {
            if index == self.slots.len() {
                self.slots.push(self.slot(index));
            }
            let original = self.is_original(index);
            match self.slots[index].id {
                Some(_) if self.slots[index].shown == *piece => {}
                Some(id) => match self.edit(index, id, piece, patience).await {
                    // Somebody deleted it: what stands below would be out of order.
                    Err(error) if error.is_gone() && !original => {
                        self.drop_from(index, patience).await;
                        self.slots.push(self.slot(index));
                        self.make(index, piece, last, patience).await?;
                        figures::discord_message(last, true);
                        posted = true;
                    }
                    // Nothing can be edited in an archived thread; a new message brings it back, unless it is locked.
                    Err(error) if error.is_archived() => {
                        for at in index..self.slots.len() {
                            self.give_up(at);
                        }
                        let before = self.slots.split_off(index);
                        self.slots.push(self.slot(index));
                        self.make(index, piece, last, patience).await?;
                        self.delete(before, patience).await;
                        posted = true;
                    }
                    Err(error) => return Err(error),
                    Ok(()) => {
                        figures::discord_message(last, false);
                        piece.clone_into(&mut self.slots[index].shown);
                    }
                },
                None => {
                    self.make(index, piece, last, patience).await?;
                    figures::discord_message(last, true);
                    posted = true;
                }
            }
        }
        if self.slots.len() > pieces.len() {
            self.drop_from(pieces.len(), patience).await;
        }
        Ok(posted)
    }

    /// Leaves the command's own message behind; what follows are ordinary messages.
    pub(super) async fn leave_door(&mut self, patience: Patience) {
        let Some(mut door) = self.place.door.take() else { return };
        // Taken early enough that the token still has a minute.
        if door.ack.wait_for(|ack| *ack != super::interactions::Ack::Pending).await.is_ok_and(|ack| *ack == super::interactions::Ack::Taken)
        {
            let application = self.inner.identity.application;
            if let Err(error) = self.inner.api.edit_original(application, door.interaction, &door.token, FOLLOWS, patience).await {
                debug!(channel = self.place.channel, %error, "cannot say that the answer follows");
            }
        }
        self.drop_from(1, patience).await;
        self.slots.clear();
        self.note();
    }

    async fn mind_door(&mut self, patience: Patience) {
        let Some(door) = &mut self.place.door else { return };
        if !door.is_open().await {
            self.leave_door(patience).await;
        }
    }

    /// Puts buttons below the last message.
    pub(super) async fn put_below(&self, rows: &Value, patience: Patience) -> Result<(), RestError> {
        let Some((index, slot)) = self.slots.iter().enumerate().next_back() else { return Ok(()) };
        let (api, shown) = (&self.inner.api, slot.shown.as_str());
        match (&self.place.door, slot.id) {
            (Some(door), _) if index == 0 => {
                let application = self.inner.identity.application;
                api.edit_original_with(application, door.interaction, &door.token, (shown, rows), patience).await.map(drop)
            }
            (_, Some(id)) => api.edit_with(self.place.channel, id, shown, rows, patience).await,
            (_, None) => Ok(()),
        }
    }

    fn is_original(&self, index: usize) -> bool {
        index == 0 && self.place.door.is_some()
    }

    async fn make(&mut self, index: usize, piece: &str, last: bool, patience: Patience) -> Result<(), RestError> {
        match self.try_make(index, piece, last, patience).await {
            // An earlier life made it, and somebody deleted it.
            Err(error) if error.is_gone() && self.slots[index].id.is_some() && !self.is_original(index) => {
                self.give_up(index);
                self.slots[index] = self.slot(index);
                self.try_make(index, piece, last, patience).await
            }
            made => made,
        }
    }

    async fn try_make(&mut self, index: usize, piece: &str, last: bool, patience: Patience) -> Result<(), RestError> {
        let posted = match (&self.place.door, index) {
            (Some(_), 0) => self.edit_original(piece, patience).await?,
            (door, _) => {
                let reply_to = self.place.reply_to.filter(|_| index == 0);
                let post = self.inner.api.post(self.place.channel, reply_to, &self.slots[index].nonce, piece, patience).await;
                match (post, door) {
                    // Where the bot may not post it can still answer through the command; such messages stay as they are.
                    (Err(error), Some(door)) if error.is_forbidden() && last => {
                        let application = self.inner.identity.application;
                        self.inner.api.follow_up(application, door.interaction, &door.token, piece, patience).await?
                    }
                    (post, _) => post?,
                }
            }
        };
        self.slots[index].id = Some(posted.id);
        self.slots[index].shown = posted.content;
        // As soon as may be: after a crash the nonce finds it for some minutes only.
        self.note();
        // The nonce was known: an earlier try did arrive, with older text. An earlier life may also have deleted it since,
        // which shows only when it is edited.
        if self.slots[index].shown.trim() != piece.trim() || (self.traces.resumed && !self.is_original(index)) {
            self.edit(index, posted.id, piece, patience).await?;
        }
        piece.clone_into(&mut self.slots[index].shown);
        Ok(())
    }

    async fn edit(&mut self, index: usize, id: u64, piece: &str, patience: Patience) -> Result<(), RestError> {
        if self.is_original(index) {
            return self.edit_original(piece, patience).await.map(drop);
        }
        self.inner.api.edit(self.place.channel, id, piece, patience).await
    }

    /// Gives the door up when Discord refuses it.
    async fn edit_original(&mut self, piece: &str, patience: Patience) -> Result<Posted, RestError> {
        let door = self.place.door.as_ref().expect("asked only with a door");
        let application = self.inner.identity.application;
        let edited = self.inner.api.edit_original(application, door.interaction, &door.token, piece, patience).await;
        if matches!(edited, Err(RestError::Refused { status: 401 | 404, .. })) {
            self.place.door = None;
        }
        edited
    }

    /// Deletes the messages from one on.
    async fn drop_from(&mut self, index: usize, patience: Patience) {
        let index = index.min(self.slots.len());
        for at in index..self.slots.len() {
            self.give_up(at);
        }
        let slots = self.slots.split_off(index);
        self.delete(slots, patience).await;
    }

    async fn delete(&self, slots: Vec<Slot>, patience: Patience) {
        for slot in slots.into_iter().rev() {
            if let Some(id) = slot.id
                && let Err(error) = self.inner.api.delete(self.place.channel, id, patience).await
            {
                debug!(channel = self.place.channel, %error, "cannot delete a message");
            }
        }
    }
}
