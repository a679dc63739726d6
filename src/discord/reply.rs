//! An answer while it takes shape: typing, drafts, the final text.
//!
//! One task a turn does the sending; `update` only takes note. Drafts are best effort and paced; the final text is
//! delivered whole or reported. A question stands below what was said before it; nobody types while it waits. The text is
//! the agent's, exactly, cut by [`crate::split`], or attached where it is too long; what we add stands below it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{Instrument as _, debug, error, warn};

use super::asks::{Board, Errand, Errands};
use super::below::{self, MESSAGE, beginning, hint, whole};
use super::live::{Live, Place};
use super::mention::one_line;
use super::nowhere::Nowhere;
use super::rest::{Patience, RestError, Upload};
use super::typing::Typing;
use super::waiting::Sign;
use super::{Discord, Inner, notices, pulses, threads};
use crate::agent::EventKind;
use crate::dispatch::{Answer, DeliveryError, Notice, Offer, OpenQuestion, Opened, Outlet, Reply, Settlement, Traces, Unseen};
use crate::event::{Attached, Event, Lane, Origin};
use crate::figures;
use crate::fold::Transcript;
use crate::schedule::says_nothing;
use crate::split::split;

/// Between two edits; Discord allows about one a second in a channel.
const PACE: Duration = Duration::from_millis(1_200);
/// Before the first draft, so that it is more than a syllable and quick answers need none.
const GATHER: Duration = Duration::from_millis(400);
/// Drafts are not worth more: the next one is better.
const DRAFT: Patience = Patience::new(Duration::from_secs(5), Duration::from_secs(10));
/// For one file.
const UPLOAD: Patience = Patience::new(Duration::from_secs(120), Duration::from_secs(240));

#[async_trait]
impl Outlet for Discord {
    fn open(&self, event: &Event) -> Box<dyn Reply> {
        self.open_kept(event, Traces::unkept())
    }

    fn open_kept(&self, event: &Event, traces: Traces) -> Box<dyn Reply> {
        let place = match (&event.origin, &event.lane) {
            (Origin::Message { channel, message }, _) => Some(Place { reply_to: Some(*message), ..Place::of(*channel) }),
            (Origin::Interaction { channel, .. }, _) => Some(self.inner.place_of_command(*channel, &event.origin)),
            (Origin::Internal { channel: Some(channel) }, _) | (_, Lane::Channel(channel)) => Some(Place::of(*channel)),
            _ => self.inner.options.output_channel.map(Place::of),
        };
        let sign = match &event.origin {
            Origin::Message { message: id, .. } | Origin::Interaction { interaction: id, .. } => self.inner.waiting.begun(*id),
            _ => None,
        };
        let unasked = matches!(event.origin, Origin::Internal { .. });
        match place {
            Some(place) => Box::new(ChannelReply::begin(&self.inner, place, sign, unasked, traces)),
            None => Box::new(Nowhere(event.lane.clone())),
        }
    }

    async fn pulse(&self) {
        pulses::arrived(&self.inner).await;
    }

    async fn fetch(&self, attached: &Attached, limit: u64) -> Result<Vec<u8>, String> {
        self.inner.files.fetch(attached, limit).await
    }

    async fn notify(&self, notice: Notice) -> Result<(), DeliveryError> {
        notices::post(&self.inner, notice).await
    }

    async fn open_thread(&self, event: &Event, traces: Traces) -> Result<Opened, String> {
        threads::open(&self.inner, event, traces).await
    }

    async fn leave_unfinished(&self, channel: Option<u64>, messages: &[u64]) {
        if let (Some(channel), Some(last)) = (channel.or(self.inner.options.output_channel), messages.last()) {
            notices::leave_unfinished(&self.inner, channel, *last).await;
        }
    }

    async fn settle_offer(&self, channel: u64, message: u64) {
        notices::settle(&self.inner, channel, message).await;
    }
}

impl Inner {
    /// Where a command is answered: in its own message, as long as that can be reached.
    pub(super) fn place_of_command(&self, channel: u64, origin: &Origin) -> Place {
        let door = match origin {
            Origin::Interaction { interaction, pass, .. } => {
                self.interactions.take_or_restore(*interaction, pass.as_ref(), self.options.windows.interaction)
            }
            _ => None,
        };
        Place { door, command: true, ..Place::of(channel) }
    }
}

/// What was told so far; the writer reads it when it has time.
struct Told {
    transcript: Mutex<Transcript>,
    errands: Errands,
    changed: Notify,
}

struct ChannelReply {
    told: Arc<Told>,
    answer: oneshot::Sender<Answer>,
    writer: JoinHandle<Result<(), DeliveryError>>,
}

impl ChannelReply {
    fn begin(inner: &Arc<Inner>, place: Place, sign: Option<Sign>, unasked: bool, traces: Traces) -> Self {
        let told = Arc::new(Told { transcript: Mutex::default(), errands: Errands::new(inner), changed: Notify::new() });
        let (answer, given) = oneshot::channel();
        let writer = Writer {
            inner: Arc::clone(inner),
            channel: place.channel,
            board: Board::new(inner, place.channel),
            sign,
            typing: None,
            posted: !traces.posted.is_empty(),
            live: Live::new(Arc::clone(inner), place, traces),
            told: Arc::clone(&told),
            unasked,
        };
        Self { told, answer, writer: tokio::spawn(writer.run(given).in_current_span()) }
    }
}

#[async_trait]
impl Reply for ChannelReply {
    fn update(&mut self, event: &EventKind, _transcript: &Transcript) {
        // Folding again costs as much as the event is long; copying the whole text each time would not.
        self.told.transcript.lock().expect("folding does not panic").apply(event);
        self.told.changed.notify_one();
    }

    fn ask(&mut self, question: &OpenQuestion, unseen: Unseen) {
        self.told.errands.ask(question, unseen);
        self.told.changed.notify_one();
    }

    fn settled(&mut self, id: &str, how: &Settlement) {
        self.told.errands.settled(id, how);
        self.told.changed.notify_one();
    }

    /// Dropping the future does not stop the delivery.
    async fn finish(self: Box<Self>, answer: Answer) -> Result<(), DeliveryError> {
        let lost = || DeliveryError("the delivery was cut off".to_owned());
        self.answer.send(answer).map_err(|_| lost())?;
        self.writer.await.map_err(|_| lost())?
    }
}

struct Writer {
    inner: Arc<Inner>,
    channel: u64,
    live: Live,
    told: Arc<Told>,
    board: Board,
    /// What was shown while the prompt waited.
    sign: Option<Sign>,
    /// None while somebody is being waited for.
    typing: Option<Typing>,
    /// Whether there is a draft to take back.
    posted: bool,
    /// Nobody waits: there is no typing and no draft, and of an answer that says nothing no message.
    unasked: bool,
}

impl Writer {
    async fn run(mut self, mut given: oneshot::Receiver<Answer>) -> Result<(), DeliveryError> {
        self.type_on();
        if let Some(sign) = self.sign.take() {
            sign.take_back(&self.inner.api).await;
        }
        let mut next = Instant::now() + GATHER;
        let answer = loop {
            let door_closes = self.live.door_closes();
            let told = Arc::clone(&self.told);
            tokio::select! {
                biased;
                answer = &mut given => break answer.ok(),
                () = until(door_closes) => {
                    self.live.leave_door(DRAFT).await;
                    self.told.changed.notify_one();
                    continue;
                }
                () = told.changed.notified() => {}
            }
            self.run_errands().await;
            next = next.max(Instant::now() + if self.posted { Duration::ZERO } else { GATHER });
            tokio::select! {
                biased;
                answer = &mut given => break answer.ok(),
                () = tokio::time::sleep_until(next) => {}
            }
            let pieces = self.draft();
            if pieces.is_empty() || self.unasked {
                continue;
            }
            match self.live.show(&pieces, false, DRAFT).await {
                Ok(posted) => {
                    self.posted = true;
                    if let (true, Some(typing)) = (posted, &self.typing) {
                        typing.again();
                    }
                }
                Err(error) => debug!(channel = self.channel, %error, "cannot show a draft"),
            }
            next = Instant::now() + PACE;
        };
        if let Some(typing) = self.typing.take() {
            typing.stop().await;
        }
        let settled = match answer {
            Some(answer) => self.settle(answer).await,
            None => {
                // The turn vanished without an answer: leave what there is, without pretending that work goes on.
                let pieces = split(&self.clean(self.text()), MESSAGE);
                if self.posted && !pieces.is_empty() {
                    let _ = self.live.show(&pieces, true, DRAFT).await;
                }
                Ok(())
            }
        };
        for errand in self.told.errands.take() {
            if let Errand::Close(id, content) = errand {
                self.board.close(&id, &content).await;
            }
        }
        self.board.close_all().await;
        settled
    }

    /// Posts and closes questions, in the order they came up.
    async fn run_errands(&mut self) {
        for errand in self.told.errands.take() {
            match errand {
                Errand::Post(question, unseen) => {
                    // What was said before the question stands above it.
                    let pieces = split(&self.clean(self.text()), MESSAGE);
                    if !pieces.is_empty() {
                        match self.live.show(&pieces, false, DRAFT).await {
                            Ok(_) => self.posted = true,
                            Err(error) => debug!(channel = self.channel, %error, "cannot show a draft"),
                        }
                    }
                    if let Some(typing) = self.typing.take() {
                        typing.stop().await;
                    }
                    self.board.post(&question, unseen).await;
                }
                Errand::Close(id, content) => self.board.close(&id, &content).await,
            }
        }
        if !self.board.is_waiting() {
            self.type_on();
        }
    }

    fn type_on(&mut self) {
        if self.typing.is_none() && !self.unasked {
            self.typing = Some(Typing::start(self.inner.api.clone(), self.channel));
        }
    }

    async fn settle(&mut self, answer: Answer) -> Result<(), DeliveryError> {
        let answer = answer.cleaned(&self.inner.options.redactor);
        if self.unasked && answer.failure.is_none() && answer.notices.is_empty() && says_nothing(&answer.text) {
            // What stood above a question goes as well.
            let _ = self.live.show(&[], true, self.inner.options.windows.send).await;
            return Ok(());
        }
        let below = below::lines(&answer, &self.inner.options.footer, !self.unasked);
        let offer = answer.offer.as_ref();
        if self.is_long(&answer.text) {
            match self.settle_as_file(&answer.text, &below).await {
                Ok(()) => {
                    self.put_offer(offer).await;
                    return Ok(());
                }
                Err(error) => {
                    let hint = if error.is_forbidden() { "\nhint: the bot needs Attach Files there" } else { "" };
                    warn!(channel = self.channel, %error, "cannot attach a long answer; it goes out as messages{hint}");
                }
            }
        }
        let pieces = whole(&answer.text, &below);
        let patience = self.inner.options.windows.send;
        let mut shown = self.live.show(&pieces, true, patience).await;
        if shown.as_ref().is_err_and(RestError::is_passing) {
            // What is on the screen stays; this goes on where the first try ended.
            shown = self.live.show(&pieces, true, patience).await;
        }
        if shown.is_ok() {
            self.put_offer(offer).await;
        }
        shown.map(drop).map_err(|error| {
            figures::discord_send_failed();
            let length: usize = pieces.iter().map(|piece| piece.chars().count()).sum();
            error!(channel = self.channel, length, %error, "cannot send an answer to discord{}", hint(&error));
            DeliveryError(error.to_string())
        })
    }

    /// Without its button an answer is still one.
    async fn put_offer(&self, offer: Option<&Offer>) {
        if let Some(offer) = offer
            && let Err(error) = self.live.put_below(&notices::row(offer), self.inner.options.windows.send).await
        {
            warn!(channel = self.channel, offer = offer.id, %error, "cannot put a button below an answer");
        }
    }

    fn is_long(&self, text: &str) -> bool {
        // No text has more characters than bytes.
        self.inner.options.long_answer.is_some_and(|most| text.len() > most && text.chars().count() > most)
    }

    /// Delivers the beginning as a message and the whole as a file below it.
    async fn settle_as_file(&mut self, text: &str, below: &[String]) -> Result<(), RestError> {
        let note = format!("The whole answer ({} characters) is attached below.", text.chars().count());
        let pieces = whole(&beginning(text, &note), below);
        self.live.show(&pieces, true, self.inner.options.windows.send).await?;
        for (number, (name, bytes)) in below::files(text).into_iter().enumerate() {
            self.inner.api.post_file(self.channel, &self.live.file_nonce(number), &Upload { name, bytes }, UPLOAD).await?;
        }
        Ok(())
    }

    fn text(&self) -> String {
        self.told.transcript.lock().expect("folding does not panic").text()
    }

    /// What to show now: the text so far, and what the agent is doing where there is room for it.
    fn draft(&self) -> Vec<String> {
        let (text, status) = {
            let transcript = self.told.transcript.lock().expect("folding does not panic");
            (transcript.text(), status(&transcript))
        };
        let text = self.clean(text);
        let mut pieces = if self.is_long(&text) {
            vec![beginning(&text, &format!("{} characters so far; the whole answer will be a file.", text.chars().count()))]
        } else {
            split(&text, MESSAGE)
        };
        if let Some(status) = status.map(|status| self.clean(status)) {
            match pieces.last_mut() {
                Some(piece) if piece.chars().count() + status.chars().count() < MESSAGE => {
                    piece.push('\n');
                    piece.push_str(&status);
                }
                Some(_) => {}
                None => pieces.push(status),
            }
        }
        pieces
    }

    fn clean(&self, text: String) -> String {
        self.inner.options.redactor.clean(text)
    }
}

async fn until(when: Option<std::time::Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when.into()).await,
        None => std::future::pending().await,
    }
}

/// One short line on what the agent is doing.
fn status(transcript: &Transcript) -> Option<String> {
    if let Some(failure) = transcript.retry() {
        return Some(format!("-# ⏳ trying again: {}", one_line(failure, 100)));
    }
    let tool = transcript.open_tools().next_back()?;
    let what = [Some(tool.start.title.as_str()), tool.start.target.as_deref()].into_iter().flatten().find(|text| !text.trim().is_empty());
    Some(match what {
        Some(what) => format!("-# 🔧 {}: {}", one_line(&tool.start.native_name, 40), one_line(what, 100)),
        None => format!("-# 🔧 {}", one_line(&tool.start.native_name, 40)),
    })
}
