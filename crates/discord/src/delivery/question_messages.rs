//! The messages of a turn's questions: posted, and closed when the questions are settled.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tracing::warn;

use super::context::BotContext;
use super::footer::MAX_FILE_BYTES;
use super::obstacle::ObstacleWatch;
use crate::api::NewMessage;
use crate::questions::{MessageLocation, layout, take_over};
use crate::rest::{RestError, Upload};
use aetheel_dispatch::{OpenQuestion, QuestionDismissal, Settlement};
use aetheel_model::id::UserId;

/// Posted in place of the file with the whole request, if the bot may not attach files.
const NO_FILE: &str = "⚠️ The request of the agent is longer than shown, and I may not attach it here: I need the permission Attach Files.";

/// An operation between two parts of the agent's text.
pub(crate) enum QuestionOperation {
    /// Posts a question below the text. A previous process may have posted it already, in the given
    /// message.
    Post(Box<OpenQuestion>, QuestionDismissal, String, Option<MessageLocation>),
    /// Replaces the last message of the question with this id by this text.
    Close(String, String),
    /// Leaves the text above a message that people wrote.
    Below(String),
    /// Resumes the text that a previous process left above a question or a message of people.
    ResumeAbove(String),
}

/// The operations that a turn requests. The task that writes the reply carries them out.
pub(crate) struct QuestionOperations {
    inner: Arc<BotContext>,
    list: Mutex<Vec<QuestionOperation>>,
}

impl QuestionOperations {
    pub(crate) fn new(inner: &Arc<BotContext>) -> Self {
        Self { inner: Arc::clone(inner), list: Mutex::default() }
    }

    /// Requests to post a question below `before`, the text so far.
    pub(crate) fn ask(&self, question: &OpenQuestion, unseen: QuestionDismissal, before: String) {
        let left = self.inner.questions.open(question);
        self.list.lock().push(QuestionOperation::Post(
            Box::new(question.clone()),
            unseen,
            before,
            left,
        ));
    }

    /// Requests to leave `before`, the text so far, above a message of people.
    pub(crate) fn go_below(&self, before: String) {
        self.list.lock().push(QuestionOperation::Below(before));
    }

    /// Requests to resume `before`, which a previous process left above a question or a message of
    /// people.
    pub(crate) fn resume_above(&self, before: String) {
        self.list.lock().push(QuestionOperation::ResumeAbove(before));
    }

    /// Requests to close a question that is settled.
    pub(crate) fn settled(&self, id: &str, how: &Settlement) {
        if let Some(content) = self.inner.questions.settle(id, how) {
            self.list.lock().push(QuestionOperation::Close(id.to_owned(), content));
        }
    }

    pub(crate) fn take(&self) -> Vec<QuestionOperation> {
        std::mem::take(&mut *self.list.lock())
    }
}

/// The parts of a question that are posted. The next attempt continues after them.
#[derive(Default)]
struct PostedSteps {
    /// Whether the subject of the question is attached as a file.
    file: bool,
    /// How many messages of the question's text are posted.
    pieces: usize,
    /// Whether these are new messages, because the messages of a previous process were deleted.
    reposted: bool,
}

impl PostedSteps {
    /// Returns the nonce of the next message of a question. It prevents a second message, also if a
    /// later process does not know whether this one posted it.
    fn nonce(&self, question: &str) -> String {
        let suffix = if self.reposted { ".anew" } else { "" };
        format!("{question}.{}{suffix}", usize::from(self.file) + self.pieces)
    }
}

pub(crate) struct QuestionMessages {
    inner: Arc<BotContext>,
    channel: u64,
    /// The message of the prompt.
    about: Option<u64>,
    /// The messages with buttons, by question.
    posted: HashMap<String, MessageLocation>,
}

impl QuestionMessages {
    pub(crate) fn new(inner: &Arc<BotContext>, channel: u64, about: Option<u64>) -> Self {
        Self { inner: Arc::clone(inner), channel, about, posted: HashMap::new() }
    }

    /// Returns whether a question waits for an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.posted.is_empty()
    }

    /// Posts a question. While Discord is not available, tries again until the question is posted
    /// or settled; `changed` is notified when it may be settled. Dismisses a question that can
    /// never be posted.
    pub(crate) async fn post(
        &mut self,
        question: &OpenQuestion,
        unseen: QuestionDismissal,
        changed: &Notify,
        mut left: Option<MessageLocation>,
    ) {
        if let Some(at) = left {
            // Also done if the question is settled by now, because the message has to show that.
            self.take_over(&question.id, at);
        }
        let mut steps = PostedSteps::default();
        let mut tries = 0;
        while self.inner.questions.is_open(&question.id) {
            let watch = ObstacleWatch::begin(&self.inner);
            let error = match self.try_show(question, &mut steps, &mut left).await {
                Ok(None) => return,
                Ok(Some(message)) => {
                    let at = MessageLocation { channel: self.channel, message };
                    self.take_over(&question.id, at);
                    self.inner.notes.question_opened(&question.id, self.channel, message);
                    return;
                }
                Err(error) => error,
            };
            let hint = if error.is_forbidden() {
                "; hint: the bot needs View Channel and Send Messages there"
            } else {
                ""
            };
            if tries == 0 && !error.is_forbidden() {
                warn!(channel = self.channel, question = question.id, %error, "discord does not accept a question now");
            }
            // People who cannot see a question cannot answer it, so the agent does not wait for the
            // permission.
            if error.is_forbidden()
                || !self.wait_for_retry(watch, &error, tries, &question.id, changed).await
            {
                warn!(channel = self.channel, question = question.id, %error, "cannot post a question{hint}");
                self.inner.questions.forget(&question.id);
                self.posted.remove(&question.id);
                unseen.dismiss();
                return;
            }
            tries += 1;
        }
    }

    /// Waits until another attempt may succeed or the question is settled. Returns `false` if no
    /// attempt can succeed.
    async fn wait_for_retry(
        &self,
        watch: ObstacleWatch,
        error: &RestError,
        tries: u32,
        id: &str,
        changed: &Notify,
    ) -> bool {
        let mut over = pin!(watch.wait_until_over(&self.inner, error, tries));
        let mut notified_here = false;
        let worth = loop {
            tokio::select! {
                worth = &mut over => break worth,
                () = changed.notified() => notified_here = true,
            }
            if !self.inner.questions.is_open(id) {
                break true;
            }
        };
        if notified_here {
            // Passes the notification on, because the writer waits for it, too.
            changed.notify_one();
        }
        worth
    }

    /// Binds a question to its message.
    pub(crate) fn take_over(&mut self, id: &str, at: MessageLocation) {
        self.posted.insert(id.to_owned(), at);
        self.inner.questions.set_location(id, at);
    }

    /// Shows a question. Returns its message, or `None` if a message of a previous process shows
    /// it.
    async fn try_show(
        &mut self,
        question: &OpenQuestion,
        steps: &mut PostedSteps,
        left: &mut Option<MessageLocation>,
    ) -> Result<Option<u64>, RestError> {
        if let Some(at) = *left {
            let (api, timeouts) = (&self.inner.api, self.inner.options.time_limits.send);
            if take_over(api, question, at, timeouts).await? {
                return Ok(None);
            }
            (*left, steps.reposted) = (None, true);
            self.posted.remove(&question.id);
        }
        self.try_post(question, steps).await.map(Some)
    }

    async fn try_post(
        &self,
        question: &OpenQuestion,
        steps: &mut PostedSteps,
    ) -> Result<u64, RestError> {
        let (api, timeouts) = (&self.inner.api, self.inner.options.time_limits.send);
        let (pieces, rows) = (layout::pieces(question, 0), layout::rows(question, 0));
        let id = question.id.as_str();
        if let (Some((name, text)), false) = (layout::full_text(question), steps.file) {
            let file = Upload {
                name: name.to_owned(),
                bytes: text.as_bytes().iter().copied().take(MAX_FILE_BYTES).collect(),
            };
            match api.post_files(self.channel, &steps.nonce(id), &[file], timeouts).await {
                Err(error) if error.is_forbidden() => {
                    warn!(channel = self.channel, %error, "cannot attach the subject of a question; hint: the bot needs Attach Files there");
                    api.post(self.channel, None, &steps.nonce(id), NO_FILE, timeouts).await?;
                }
                posted => posted?,
            }
            steps.file = true;
        }
        let last = pieces.len().saturating_sub(1);
        let mut posted = 0;
        for (number, piece) in pieces.iter().enumerate().skip(steps.pieces) {
            let rows = if number == last { &rows } else { &Value::Null };
            // The first message pings the person who is asked, and replies to the prompt.
            let asker = question.asker.and_then(UserId::as_discord);
            let (reply_to, ping) = if number == 0 { (self.about, asker) } else { (None, None) };
            let nonce = steps.nonce(id);
            let message = NewMessage { reply_to, ping, ..NewMessage::new(&nonce, piece, rows) };
            let shown = api.post_message(self.channel, message, timeouts).await?;
            posted = shown.id;
            // Discord knew the nonce from an earlier process, and a press has closed the message
            // before the turn was resumed.
            if shown.content.trim() != piece.trim() {
                api.edit_with(self.channel, posted, piece, rows, timeouts).await?;
            }
            steps.pieces += 1;
        }
        Ok(posted)
    }

    /// Closes the questions that were open when the turn ended.
    pub(crate) async fn close_all(&mut self) {
        let left: Vec<String> = self.posted.keys().cloned().collect();
        for id in left {
            if let Some(content) = self.inner.questions.settle(&id, &Settlement::TurnEnded) {
                self.close(&id, &content).await;
            }
        }
    }

    /// Shows the result of a question.
    pub(crate) async fn close(&mut self, id: &str, content: &str) {
        let Some(MessageLocation { channel, message }) = self.posted.remove(id) else { return };
        let (api, timeouts) = (&self.inner.api, self.inner.options.time_limits.send);
        match api.edit_with(channel, message, content, &serde_json::json!([]), timeouts).await {
            Err(error) if !error.is_forbidden() => {
                warn!(channel, question = id, %error, "cannot show the result of a question; a press of its button will");
            }
            // People cannot press the buttons of a message that the bot cannot reach.
            _ => self.inner.notes.question_closed(id),
        }
    }
}
