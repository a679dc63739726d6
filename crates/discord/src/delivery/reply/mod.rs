//! The delivery of one answer: typing, drafts, the final text.
//!
//! One task per turn sends the messages, and `update` only stores the newest state. Drafts are best
//! effort and paced. The final text is delivered completely, however long Discord delays it, and
//! after earlier answers of its channel. A question, or a message to the running turn, is posted
//! below the text before it and above the text after it. There is no typing indicator while a
//! question waits. The text is the agent's, unchanged except for redacted secrets.
//! [`aetheel_model::split`] cuts it into messages. A text that is too long is attached as a file.
//! Notices and the footer are posted below the text.

mod progress;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{Instrument as _, debug};

use self::progress::{Progress, until};
use super::context::BotContext;
use super::footer::answer_messages;
use super::live::{Live, ReplyTarget};
use super::preview::{draft, silence, status};
use super::question_messages::{QuestionMessages, QuestionOperation};
use super::queue::DeliveryTurn;
use super::queue_marker::QueueMarker;
use super::typing::Typing;
use crate::rest::Timeouts;
use crate::rest::rate_share::Rank;
use crate::text::quote;
use crate::text::tables::with_tables;
use aetheel_dispatch::{
    DeliveryError, OpenQuestion, PriorDelivery, QuestionDismissal, Reply, Settlement, TurnAnswer,
};
use aetheel_model::agent::AgentEventKind;
use aetheel_model::fold::Transcript;

/// Pause between two edits. Discord allows about one edit per second in a channel.
const EDIT_INTERVAL: Duration = Duration::from_millis(1_200);
/// Delay of the first draft, so that it is more than a syllable and quick answers need none.
const FIRST_DRAFT_GRACE: Duration = Duration::from_millis(400);
/// The status of a draft while a question waits for an answer.
const WAITS: &str = "-# ⏸️ waiting for your answer below";
/// Time limits of a draft. Short, because the next draft replaces one that fails.
const DRAFT_TIMEOUTS: Timeouts =
    Timeouts::new(Duration::from_secs(5), Duration::from_secs(10)).with_rank(Rank::Draft);

pub(crate) struct ChannelReply {
    inner: Arc<BotContext>,
    channel: u64,
    progress: Arc<Progress>,
    answer: oneshot::Sender<(TurnAnswer, DeliveryTurn)>,
    writer: JoinHandle<Result<(), DeliveryError>>,
}

impl ChannelReply {
    /// Starts the delivery of an answer. `awaited` is the event whose answer somebody waits for.
    pub(crate) fn begin(
        inner: &Arc<BotContext>,
        place: ReplyTarget,
        marker: Option<QueueMarker>,
        awaited: Option<u64>,
        traces: PriorDelivery,
    ) -> Self {
        let progress = Arc::new(Progress::new(inner));
        let (answer, given) = oneshot::channel();
        let channel = place.channel;
        let writer = ReplyWriter {
            inner: Arc::clone(inner),
            channel,
            questions: QuestionMessages::new(inner, channel, place.reply_to),
            marker,
            typing: None,
            posted: !traces.posted.is_empty(),
            heading: place.heading.clone(),
            live: Live::new(Arc::clone(inner), place, traces, awaited),
            text_above: String::new(),
            progress: Arc::clone(&progress),
            unasked: awaited.is_none(),
            shows_silence: false,
        };
        let writer = tokio::spawn(writer.run(given).in_current_span());
        Self { inner: Arc::clone(inner), channel, progress, answer, writer }
    }
}

#[async_trait]
impl Reply for ChannelReply {
    fn update(&mut self, event: &AgentEventKind, _transcript: &Transcript) {
        self.progress.apply(event);
    }

    fn ask(&mut self, question: &OpenQuestion, unseen: QuestionDismissal) {
        self.progress.operations.ask(question, unseen, self.progress.text());
        self.progress.changed.notify_one();
    }

    fn steered(&mut self) {
        self.progress.operations.go_below(self.progress.text());
        self.progress.changed.notify_one();
    }

    fn was_interrupted(&mut self) {
        self.progress.operations.resume_above(self.progress.text());
        self.progress.changed.notify_one();
    }

    fn question_settled(&mut self, id: &str, how: &Settlement) {
        self.progress.operations.settled(id, how);
        self.progress.changed.notify_one();
    }

    /// Waits until Discord accepts the answer. Dropping the future does not stop the delivery.
    async fn finish(self: Box<Self>, answer: TurnAnswer) -> Result<(), DeliveryError> {
        let lost = || DeliveryError::Refused("the delivery was cut off".to_owned());
        let turn = self.inner.delivery_queues.enter(self.channel);
        self.answer.send((answer, turn)).map_err(|_| lost())?;
        self.writer.await.map_err(|_| lost())?
    }
}

struct ReplyWriter {
    inner: Arc<BotContext>,
    channel: u64,
    live: Live,
    /// The prompt, shown above the first message.
    heading: Option<String>,
    /// The text that was posted above another message, such as a question.
    text_above: String,
    progress: Arc<Progress>,
    questions: QuestionMessages,
    /// The reaction or line shown while the prompt waited.
    marker: Option<QueueMarker>,
    /// The typing indicator. `None` while a question waits for an answer.
    typing: Option<Typing>,
    /// Whether a draft was posted.
    posted: bool,
    /// Whether nobody waits for the answer. Then neither typing nor drafts are shown, and an answer
    /// without content is not posted.
    unasked: bool,
    /// Whether a draft showed that the agent is silent. It then shows each later report as the last
    /// one until there is something else to show.
    shows_silence: bool,
}

impl ReplyWriter {
    async fn run(
        mut self,
        mut given: oneshot::Receiver<(TurnAnswer, DeliveryTurn)>,
    ) -> Result<(), DeliveryError> {
        self.start_typing();
        if let Some(marker) = self.marker.take() {
            marker.remove(&self.inner.api).await;
        }
        let mut shown = Instant::now();
        let mut next = shown + FIRST_DRAFT_GRACE;
        let answer = loop {
            let token_expires = self.live.token_expires();
            let progress = Arc::clone(&self.progress);
            tokio::select! {
                biased;
                answer = &mut given => break answer.ok(),
                () = until(token_expires) => {
                    self.live.abandon_token(DRAFT_TIMEOUTS).await;
                    self.progress.changed.notify_one();
                    continue;
                }
                () = progress.changed.notified() => {}
                () = progress.draft_due(shown) => {}
            }
            self.run_operations().await;
            next = next
                .max(Instant::now() + if self.posted { Duration::ZERO } else { FIRST_DRAFT_GRACE });
            tokio::select! {
                biased;
                answer = &mut given => break answer.ok(),
                () = tokio::time::sleep_until(next) => {}
            }
            if self.inner.delivery_queues.is_busy(self.channel) {
                // An earlier answer is still being delivered, and this answer must come after it.
                next = Instant::now() + EDIT_INTERVAL;
                self.progress.changed.notify_one();
                continue;
            }
            let pieces = self.draft();
            if pieces.is_empty() || self.unasked {
                continue;
            }
            match self.live.show(&pieces, false, DRAFT_TIMEOUTS).await {
                Ok(posted) => {
                    self.posted = true;
                    if let (true, Some(typing)) = (posted, &self.typing) {
                        typing.again();
                    }
                }
                Err(error) => {
                    debug!(channel = self.channel, %error, "cannot show a draft");
                    // The agent may report nothing for a long time, so the next attempt does not
                    // wait for a report.
                    if error.is_temporary() {
                        self.progress.changed.notify_one();
                    }
                }
            }
            shown = Instant::now();
            next = shown + EDIT_INTERVAL;
        };
        if let Some(typing) = self.typing.take() {
            typing.stop().await;
        }
        let settled = match answer {
            Some((answer, turn)) => self.settle(answer, turn).await,
            None => {
                // The turn ended without an answer. The text so far stays, without signs that work
                // continues.
                let text = self.progress.text();
                if self.posted && self.has_more(&text) {
                    let _ = self
                        .live
                        .show(
                            &answer_messages(&self.remaining_text(&text), &[]),
                            true,
                            DRAFT_TIMEOUTS,
                        )
                        .await;
                }
                Ok(())
            }
        };
        for operation in self.progress.operations.take() {
            match operation {
                QuestionOperation::Post(question, _, _, Some(at)) => {
                    self.questions.take_over(&question.id, at);
                }
                QuestionOperation::Close(id, content) => self.questions.close(&id, &content).await,
                _ => {}
            }
        }
        self.questions.close_all().await;
        settled
    }

    /// Posts and closes questions, in the order they came up.
    async fn run_operations(&mut self) {
        for operation in self.progress.operations.take() {
            match operation {
                QuestionOperation::Post(question, unseen, before, left) => {
                    if !self.resume_above(&before).await {
                        self.continue_below(before).await;
                    }
                    if let Some(typing) = self.typing.take() {
                        typing.stop().await;
                    }
                    self.questions.post(&question, unseen, &self.progress.changed, left).await;
                }
                QuestionOperation::Below(before) => self.continue_below(before).await,
                QuestionOperation::ResumeAbove(before) => drop(self.resume_above(&before).await),
                QuestionOperation::Close(id, content) => self.questions.close(&id, &content).await,
            }
        }
        if !self.questions.is_waiting() {
            self.start_typing();
        }
    }

    /// Takes over the text that a previous process left above another message, if `before` ends
    /// with it. Otherwise returns `false`.
    async fn resume_above(&mut self, before: &str) -> bool {
        if !self.text_above.is_empty() || before.trim().is_empty() {
            return false;
        }
        // Not with the rank of drafts: those are left out while many requests are sent, as after a
        // start.
        let timeouts = DRAFT_TIMEOUTS.with_rank(Rank::Answer);
        let Some(text) = self.live.last_frozen_text(timeouts).await else { return false };
        let stood = !text.is_empty() && with_tables(before.trim_end()).trim_end().ends_with(&text);
        if stood {
            before.trim_end().clone_into(&mut self.text_above);
        }
        stood
    }

    /// Posts the text so far and leaves it there, because another message is posted below it.
    async fn continue_below(&mut self, before: String) {
        // If the agent replaced the text above, the whole answer is posted below in the end.
        if self.text_below(&before).is_none_or(|rest| rest.trim().is_empty()) {
            // A command's own message that is still empty would otherwise stay above.
            if !self.posted {
                self.live.abandon_token(DRAFT_TIMEOUTS).await;
            }
            return;
        }
        if self.text_above.is_empty() && self.live.has_frozen() {
            // The text above is not known, so posting the text so far would double it. The whole
            // answer replaces it in the end.
            self.live.continue_below(DRAFT_TIMEOUTS).await;
            self.posted = false;
            return;
        }
        let (pieces, timeouts) = (
            answer_messages(&self.remaining_text(&before), &[]),
            DRAFT_TIMEOUTS.with_rank(Rank::Answer),
        );
        let shown = self.live.show(&pieces, true, timeouts).await;
        self.live.continue_below(timeouts).await;
        self.posted = false;
        match shown {
            Ok(_) => before.trim_end().clone_into(&mut self.text_above),
            Err(error) => {
                // The draft is not essential: the whole text is posted below in the end.
                debug!(channel = self.channel, %error, "cannot show a draft");
                self.text_above.clear();
            }
        }
    }

    /// Returns the part of a text that follows the text posted above, or `None` if the text does
    /// not begin with that.
    fn text_below<'t>(&self, text: &'t str) -> Option<&'t str> {
        let rest = text.strip_prefix(&self.text_above)?;
        Some(if self.text_above.is_empty() { rest } else { rest.trim_start_matches(['\n', ' ']) })
    }

    /// Returns whether a text continues after the part that was posted above.
    fn has_more(&self, text: &str) -> bool {
        !self.text_below(text).unwrap_or(text).trim().is_empty()
    }

    /// Returns the part of a text that is not posted above. If nothing was posted above, the prompt
    /// comes first.
    fn remaining_text(&self, text: &str) -> String {
        match self.text_below(text) {
            Some(rest) if !self.text_above.is_empty() => rest.to_owned(),
            _ => quote::with_quote(self.heading.as_deref(), text),
        }
    }

    fn start_typing(&mut self) {
        if self.typing.is_none() && !self.unasked {
            self.typing = Some(Typing::start(self.inner.api.clone(), self.channel));
        }
    }

    /// Returns the draft to show now: the text so far, and the agent's current action if there is
    /// room.
    fn draft(&mut self) -> Vec<String> {
        let now = std::time::Instant::now();
        let (text, status, silent) = {
            let transcript = self.progress.transcript.lock();
            let activity = self.progress.activity.lock();
            let text = transcript.text();
            let is_shown = self.shows_silence && !self.has_more(&text);
            let status = status(&transcript, |id| activity.long_since(id, now));
            (text, status, activity.silent_since(now, is_shown))
        };
        let status = match self.questions.is_waiting() {
            // The question already shows which tool would run.
            true => self.posted.then(|| WAITS.to_owned()),
            false => status.or_else(|| {
                self.shows_silence |= silent.is_some();
                silent.map(silence)
            }),
        };
        if status.is_none() && !self.has_more(&text) {
            return Vec::new();
        }
        draft(&self.remaining_text(&text), status, self.drafted())
    }
}
