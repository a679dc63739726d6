//! The messages of one answer: creates, edits and deletes them until they show the wanted text.
//!
//! Operations are idempotent. A message that Discord may or may not have created keeps its nonce,
//! so that another attempt finds it instead of posting it twice. This also works after a restart,
//! because nonces are derived from the event and the ids of messages are saved with it. If delivery
//! stops in the middle, the last message says that the rest follows. Pinned by `tests/discord/`
//! (cut connections, deleted messages, late interactions, answers that are held up).

mod command;
mod place;
mod slot;
mod unsure;

use std::sync::Arc;

use serde_json::{Value, json};
use tracing::debug;

pub(super) use self::place::Place;
use self::slot::{Below, Slot};
use self::unsure::Unsure;
use super::Inner;
use super::rest::{RestError, Timeouts};
use super::stopping;
use aetheel_dispatch::PriorDelivery;
use aetheel_model::figures;

/// Label of the disabled button below a message while the next one does not exist.
const MORE: &str = "⏳ The rest follows";
/// A mark between the ids of a reply: the messages after it are below something else.
const BREAK: u64 = 0;

/// The messages of one answer.
pub(super) struct Live {
    inner: Arc<Inner>,
    place: Place,
    /// Messages that are not edited any more, because something else was posted below them.
    above: Vec<Slot>,
    slots: Vec<Slot>,
    traces: PriorDelivery,
    /// The event whose turn the stop button stops. `None` shows no button.
    stops: Option<u64>,
    /// The last message whose creation Discord did not confirm.
    unsure: Option<Unsure>,
    /// How often the message of each slot was given up and created again.
    anew: Vec<u32>,
    /// The ids that were saved last.
    noted: Vec<u64>,
    /// How many messages of previous processes precede these and cannot be edited.
    before: usize,
}

impl Live {
    /// Creates the messages of an answer. Continues with those that a previous process posted.
    pub(super) fn new(
        inner: Arc<Inner>,
        place: Place,
        traces: PriorDelivery,
        stops: Option<u64>,
    ) -> Self {
        let before = usize::from(
            place.command && place.token.is_none() && traces.resumed && traces.posted.is_empty(),
        );
        let noted = traces.posted.clone();
        let mut live = Self {
            inner,
            place,
            above: Vec::new(),
            slots: Vec::new(),
            noted,
            traces,
            stops,
            unsure: None,
            anew: Vec::new(),
            before,
        };
        for id in live.noted.clone() {
            if id == BREAK {
                live.stand_above();
                continue;
            }
            let slot = live.slot(live.slots.len());
            live.slots.push(Slot { id: Some(id), below: Below::Unknown, ..slot });
        }
        live
    }

    /// Returns a slot for a message that was not created yet.
    fn slot(&self, index: usize) -> Slot {
        let number = self.before + self.above.len() + index;
        let nonce = match self.anew.get(index) {
            None | Some(0) => format!("{}.{number}", self.traces.stem),
            Some(anew) => format!("{}.{number}.{anew}", self.traces.stem),
        };
        Slot { nonce, id: None, shown: String::new(), below: Below::Nothing, fixed: false }
    }

    /// Returns the nonce of a file of the answer. It is the same after a restart, so the file is
    /// not posted twice.
    pub(super) fn file_nonce(&self, number: usize) -> String {
        format!("{}.f{number}", self.traces.stem)
    }

    /// Returns the nonce of the answer's ping, which prevents a second one.
    pub(super) fn ping_nonce(&self) -> String {
        format!("{}.p", self.traces.stem)
    }

    /// Changes the nonce of a slot, so that its next message is a new one.
    fn give_up(&mut self, index: usize) {
        if self.anew.len() <= index {
            self.anew.resize(index + 1, 0);
        }
        self.anew[index] += 1;
    }

    /// Saves the ids of the messages, including the command's own.
    fn note(&mut self) {
        let mut ids: Vec<u64> = self.above.iter().filter_map(|slot| slot.id).collect();
        if !ids.is_empty() {
            ids.push(BREAK);
        }
        ids.extend(self.slots.iter().filter_map(|slot| slot.id));
        if ids != self.noted {
            (self.traces.note)(&ids);
            self.noted = ids;
        }
    }

    /// Returns the id of the first message, once it was posted.
    pub(super) fn first(&self) -> Option<u64> {
        self.slots.first().and_then(|slot| slot.id)
    }

    /// Makes the messages show `pieces`, in order. `last` means that nothing follows.
    ///
    /// Returns whether a message was posted.
    pub(super) async fn show(
        &mut self,
        pieces: &[String],
        last: bool,
        timeouts: Timeouts,
    ) -> Result<bool, RestError> {
        self.check_token(timeouts).await;
        let had_token = self.place.token.is_some();
        let shown = self.try_show(pieces, last, timeouts).await;
        if shown.is_err() && had_token && self.place.token.is_none() {
            // The command's message was deleted or its token rejected: start again without it.
            self.drop_from(1, timeouts).await;
            self.slots.clear();
            let shown = self.try_show(pieces, last, timeouts).await;
            self.note();
            return shown;
        }
        self.note();
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
                self.slots.push(self.slot(index));
            }
            let below = self.below(index, pieces.len(), last);
            let original = self.is_original(index);
            match self.slots[index].id {
                Some(_) if self.slots[index].is(piece, below) => {}
                Some(id) => match self.edit(index, id, (piece, below), timeouts).await {
                    // Somebody deleted it. The messages after it are created again, to keep the
                    // order.
                    Err(error) if error.is_gone() && !original => {
                        self.drop_from(index, timeouts).await;
                        self.slots.push(self.slot(index));
                        let below = self.below(index, pieces.len(), last);
                        self.make(index, (piece, below), last, timeouts).await?;
                        figures::discord_message(last, true);
                        posted = true;
                    }
                    // Messages of an archived thread cannot be edited. A new message reopens the
                    // thread, unless it is locked.
                    Err(error) if error.is_archived() => {
                        for at in index..self.slots.len() {
                            self.give_up(at);
                        }
                        let before = self.slots.split_off(index);
                        self.slots.push(self.slot(index));
                        let below = self.below(index, pieces.len(), last);
                        self.make(index, (piece, below), last, timeouts).await?;
                        self.delete(before, timeouts).await;
                        posted = true;
                    }
                    Err(error) => return Err(error),
                    Ok(()) => figures::discord_message(last, false),
                },
                None => {
                    self.make(index, (piece, below), last, timeouts).await?;
                    figures::discord_message(last, true);
                    posted = true;
                }
            }
            // The previous message no longer needs its "the rest follows". A draft leaves that to
            // the next edit.
            if let Some(before) = index.checked_sub(1).filter(|_| last)
                && let Slot { id: Some(id), shown, .. } = &self.slots[before]
                && !self.slots[before].is(shown, Below::Nothing)
            {
                let (id, shown) = (*id, shown.clone());
                self.edit(before, id, (&shown, Below::Nothing), timeouts).await?;
            }
        }
        if self.slots.len() > pieces.len() {
            self.drop_from(pieces.len(), timeouts).await;
        }
        Ok(posted)
    }

    /// Returns the buttons of the message at `index`, out of `count`.
    fn below(&self, index: usize, count: usize, last: bool) -> Below {
        let goes_on = index + 1 < count;
        match self.stops {
            _ if goes_on && self.slots.get(index + 1).is_some_and(|next| next.id.is_some()) => {
                Below::Nothing
            }
            Some(_) if !last => Below::Stop,
            _ if goes_on => Below::More,
            _ => Below::Nothing,
        }
    }

    fn rows(&self, below: Below) -> Value {
        match (below, self.stops) {
            (Below::More, _) => {
                json!([{"type": 1, "components": [{"type": 2, "style": 2, "label": MORE, "custom_id": "more", "disabled": true}]}])
            }
            (Below::Stop, Some(event)) => stopping::row(event),
            _ => json!([]),
        }
    }

    /// Leaves the existing messages as they are and continues in new ones, because something else
    /// was posted below them.
    pub(super) async fn go_below(&mut self, timeouts: Timeouts) {
        if self.slots.iter().all(|slot| slot.id.is_none()) {
            // Nothing was posted yet. A command's own message points to the answer below.
            return self.leave_token(timeouts).await;
        }
        self.stand_above();
        self.note();
    }

    fn stand_above(&mut self) {
        self.above.append(&mut self.slots);
        self.anew.clear();
        self.place = Place::of(self.place.channel);
    }

    /// Returns whether this process or a previous one left messages above something else.
    pub(super) fn has_above(&self) -> bool {
        !self.above.is_empty()
    }

    /// Returns the text of the last message that a previous process left above something else, or
    /// `None` if no such message exists, it cannot be read, or this process posted it.
    pub(super) async fn says_above(&self, timeouts: Timeouts) -> Option<String> {
        let id = self.above.last().filter(|slot| slot.shown.is_empty())?.id?;
        let found = self.inner.api.message(self.place.channel, id, timeouts).await;
        found.ok().map(|message| message.content.trim().to_owned())
    }

    /// Deletes the messages above something else, because those below contain the whole text.
    pub(super) async fn drop_above(&mut self, timeouts: Timeouts) {
        let above = std::mem::take(&mut self.above);
        self.delete(above, timeouts).await;
        self.note();
    }

    /// Puts buttons below the last message.
    pub(super) async fn put_below(
        &self,
        rows: &Value,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let Some((index, slot)) = self.slots.iter().enumerate().next_back() else { return Ok(()) };
        let (api, shown) = (&self.inner.api, slot.shown.as_str());
        match (&self.place.token, slot.id) {
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
            (_, Some(id)) => api.edit_with(self.place.channel, id, shown, rows, timeouts).await,
            (_, None) => Ok(()),
        }
    }

    async fn make(
        &mut self,
        index: usize,
        body: (&str, Below),
        last: bool,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        match self.try_make(index, body, last, timeouts).await {
            // A previous process created it, and somebody deleted it.
            Err(error)
                if error.is_gone()
                    && self.slots[index].id.is_some()
                    && !self.is_original(index) =>
            {
                self.give_up(index);
                self.slots[index] = self.slot(index);
                self.try_make(index, body, last, timeouts).await
            }
            made => made,
        }
    }

    async fn try_make(
        &mut self,
        index: usize,
        body: (&str, Below),
        last: bool,
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let (piece, below) = body;
        let rows = if below == Below::Nothing { Value::Null } else { self.rows(below) };
        // An earlier attempt may have created it with other buttons.
        let doubtful =
            self.unsure.as_ref().is_some_and(|unsure| unsure.nonce == self.slots[index].nonce);
        let posted = match (&self.place.token, index) {
            (Some(_), 0) => self.edit_original(piece, &rows, timeouts).await?,
            (token, _) => {
                let token = token.clone();
                let reply_to = self.place.reply_to.filter(|_| index == 0);
                let nonce = self.slots[index].nonce.clone();
                let post = match self.find(&nonce, timeouts).await {
                    Some(found) => Ok(found),
                    None => {
                        self.inner
                            .api
                            .post_with(
                                self.place.channel,
                                reply_to,
                                &nonce,
                                (piece, &rows),
                                timeouts,
                            )
                            .await
                    }
                };
                self.was_made(&nonce, piece, &post);
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
                        self.slots[index] = Slot {
                            id: Some(posted.id),
                            shown: piece.to_owned(),
                            fixed: true,
                            ..self.slot(index)
                        };
                        self.note();
                        return Ok(());
                    }
                    (post, _) => post?,
                }
            }
        };
        self.slots[index].id = Some(posted.id);
        self.slots[index].shown = posted.content;
        // Saved at once: after a crash, Discord recognises the nonce for some minutes only.
        self.note();
        // A different text means that Discord knew the nonce from an earlier attempt. A previous
        // process may also have deleted the message since, which only an edit reveals.
        if doubtful
            || self.slots[index].shown.trim() != piece.trim()
            || (self.traces.resumed && !self.is_original(index))
        {
            self.slots[index].below = Below::Unknown;
            return self.edit(index, posted.id, body, timeouts).await;
        }
        piece.clone_into(&mut self.slots[index].shown);
        self.slots[index].below = below;
        Ok(())
    }

    /// Edits a message. Leaves its buttons alone if they are already right.
    async fn edit(
        &mut self,
        index: usize,
        id: u64,
        (piece, below): (&str, Below),
        timeouts: Timeouts,
    ) -> Result<(), RestError> {
        let rows = if self.slots[index].below == below { Value::Null } else { self.rows(below) };
        if self.is_original(index) {
            self.edit_original(piece, &rows, timeouts).await?;
        } else {
            self.inner.api.edit_with(self.place.channel, id, piece, &rows, timeouts).await?;
        }
        piece.clone_into(&mut self.slots[index].shown);
        self.slots[index].below = below;
        Ok(())
    }

    /// Deletes the messages from `index` on.
    async fn drop_from(&mut self, index: usize, timeouts: Timeouts) {
        let index = index.min(self.slots.len());
        for at in index..self.slots.len() {
            self.give_up(at);
        }
        let slots = self.slots.split_off(index);
        self.delete(slots, timeouts).await;
    }

    async fn delete(&self, slots: Vec<Slot>, timeouts: Timeouts) {
        for slot in slots.into_iter().rev() {
            if let Some(id) = slot.id
                && let Err(error) = self.inner.api.delete(self.place.channel, id, timeouts).await
            {
                debug!(channel = self.place.channel, %error, "cannot delete a message");
            }
        }
    }
}
