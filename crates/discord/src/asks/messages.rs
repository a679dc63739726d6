//! The messages of one turn's questions: posted, and closed when the questions are over.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tracing::warn;

use super::{At, continued, look};
use crate::Inner;
use crate::below::FILE;
use crate::holding::Watch;
use crate::rest::{RestError, Upload};
use aetheel_dispatch::{OpenQuestion, Settlement, Unseen};

/// Stands where the file would be.
const NO_FILE: &str = "⚠️ What the agent asks about is longer than is shown, and I may not attach it here: I need the permission Attach Files.";

/// Something to do between what the agent says.
pub(crate) enum QuestionOperation {
    /// The agent asks; so much was said before. An earlier life may show it already.
    Post(Box<OpenQuestion>, Unseen, String, Option<At>),
    /// Its last message says this from now on.
    Close(String, String),
    /// What was said until now stands above something that people wrote meanwhile.
    Below(String),
    /// In an earlier life something else stood below what was said until then.
    Stood(String),
}

/// What is to be done, noted by the turn and done by its writer.
pub(crate) struct QuestionOperations {
    inner: Arc<Inner>,
    list: Mutex<Vec<QuestionOperation>>,
}

impl QuestionOperations {
    pub(crate) fn new(inner: &Arc<Inner>) -> Self {
        Self { inner: Arc::clone(inner), list: Mutex::default() }
    }

    /// The agent asks, after it said `before`.
    pub(crate) fn ask(&self, question: &OpenQuestion, unseen: Unseen, before: String) {
        let left = self.inner.asks.open(question);
        self.list.lock().push(QuestionOperation::Post(
            Box::new(question.clone()),
            unseen,
            before,
            left,
        ));
    }

    /// People said something, after the agent said `before`.
    pub(crate) fn go_below(&self, before: String) {
        self.list.lock().push(QuestionOperation::Below(before));
    }

    /// In an earlier life something else stood below `before`.
    pub(crate) fn stood(&self, before: String) {
        self.list.lock().push(QuestionOperation::Stood(before));
    }

    /// A question is over.
    pub(crate) fn settled(&self, id: &str, how: &Settlement) {
        if let Some(content) = self.inner.asks.settle(id, how) {
            self.list.lock().push(QuestionOperation::Close(id.to_owned(), content));
        }
    }

    pub(crate) fn take(&self) -> Vec<QuestionOperation> {
        std::mem::take(&mut *self.list.lock())
    }
}

/// How much of a question is posted: a further try goes on behind it.
#[derive(Default)]
struct Steps {
    /// Whether what it is about was attached.
    file: bool,
    /// How many pieces of its text are there.
    pieces: usize,
    /// The messages of an earlier life are gone: these are others.
    anew: bool,
}

impl Steps {
    /// Names the next message of a question: Discord takes the same one twice as one, also from a
    /// later life that does not know whether this one posted it.
    fn nonce(&self, question: &str) -> String {
        let anew = if self.anew { ".anew" } else { "" };
        format!("{question}.{}{anew}", usize::from(self.file) + self.pieces)
    }
}

/// The questions of one turn on the screen.
pub(crate) struct QuestionMessages {
    inner: Arc<Inner>,
    channel: u64,
    /// The message of the prompt.
    about: Option<u64>,
    /// The messages with buttons.
    posted: HashMap<String, At>,
}

impl QuestionMessages {
    pub(crate) fn new(inner: &Arc<Inner>, channel: u64, about: Option<u64>) -> Self {
        Self { inner: Arc::clone(inner), channel, about, posted: HashMap::new() }
    }

    /// Whether somebody is being waited for.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.posted.is_empty()
    }

    /// Posts a question, however long Discord keeps it from that, unless it is over by then;
    /// `changed` is told of that. One that cannot be posted at all is dismissed.
    pub(crate) async fn post(
        &mut self,
        question: &OpenQuestion,
        unseen: Unseen,
        changed: &Notify,
        mut left: Option<At>,
    ) {
        if let Some(at) = left {
            // Also where it is over by now: that is shown there.
            self.take_over(&question.id, at);
        }
        let mut steps = Steps::default();
        let mut tries = 0;
        while self.inner.asks.is_open(&question.id) {
            let watch = Watch::begin(&self.inner);
            let error = match self.try_show(question, &mut steps, &mut left).await {
                Ok(None) => return,
                Ok(Some(message)) => {
                    let at = At { channel: self.channel, message };
                    self.take_over(&question.id, at);
                    self.inner.notes.opened(&question.id, self.channel, message);
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
                warn!(channel = self.channel, question = question.id, %error, "discord does not take a question now");
            }
            // Nobody answers where nobody sees it: the agent is not kept waiting for the operator.
            if error.is_forbidden()
                || !self.outlast(watch, &error, tries, &question.id, changed).await
            {
                warn!(channel = self.channel, question = question.id, %error, "cannot post a question{hint}");
                self.inner.asks.forget(&question.id);
                self.posted.remove(&question.id);
                unseen.dismiss();
                return;
            }
            tries += 1;
        }
    }

    /// Waits until another try is worth it, or the question is over. False: no try ever is.
    async fn outlast(
        &self,
        watch: Watch,
        error: &RestError,
        tries: u32,
        id: &str,
        changed: &Notify,
    ) -> bool {
        let mut over = pin!(watch.over(&self.inner, error, tries));
        let mut notified_here = false;
        let worth = loop {
            tokio::select! {
                worth = &mut over => break worth,
                () = changed.notified() => notified_here = true,
            }
            if !self.inner.asks.is_open(id) {
                break true;
            }
        };
        if notified_here {
            // For whoever else it was told to.
            changed.notify_one();
        }
        worth
    }

    /// Binds a question to its message.
    pub(crate) fn take_over(&mut self, id: &str, at: At) {
        self.posted.insert(id.to_owned(), at);
        self.inner.asks.stands_at(id, at);
    }

    /// Shows a question; returns its message where that is another one than an earlier life left.
    async fn try_show(
        &mut self,
        question: &OpenQuestion,
        steps: &mut Steps,
        left: &mut Option<At>,
    ) -> Result<Option<u64>, RestError> {
        if let Some(at) = *left {
            let (api, timeouts) = (&self.inner.api, self.inner.options.windows.send);
            if continued::take_over(api, question, at, timeouts).await? {
                return Ok(None);
            }
            (*left, steps.anew) = (None, true);
            self.posted.remove(&question.id);
        }
        self.try_post(question, steps).await.map(Some)
    }

    async fn try_post(&self, question: &OpenQuestion, steps: &mut Steps) -> Result<u64, RestError> {
        let (api, timeouts) = (&self.inner.api, self.inner.options.windows.send);
        let (pieces, rows) = (look::pieces(question, 0), look::rows(question, 0));
        let id = question.id.as_str();
        if let (Some((name, text)), false) = (look::in_full(question), steps.file) {
            let file = Upload {
                name: name.to_owned(),
                bytes: text.as_bytes().iter().copied().take(FILE).collect(),
            };
            match api.post_file(self.channel, &steps.nonce(id), &file, timeouts).await {
                Err(error) if error.is_forbidden() => {
                    warn!(channel = self.channel, %error, "cannot attach what a question is about; hint: the bot needs Attach Files there");
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
            // The first one calls whoever is asked, below what they asked.
            let (about, asker) =
                if number == 0 { (self.about, question.asker) } else { (None, None) };
            posted = api
                .call_for(self.channel, about, asker, &steps.nonce(id), (piece, rows), timeouts)
                .await?
                .id;
            steps.pieces += 1;
        }
        Ok(posted)
    }

    /// Closes what the turn left open: it ended without a word about it.
    pub(crate) async fn close_all(&mut self) {
        let left: Vec<String> = self.posted.keys().cloned().collect();
        for id in left {
            if let Some(content) = self.inner.asks.settle(&id, &Settlement::TurnEnded) {
                self.close(&id, &content).await;
            }
        }
    }

    /// Shows what became of a question.
    pub(crate) async fn close(&mut self, id: &str, content: &str) {
        let Some(At { channel, message }) = self.posted.remove(id) else { return };
        let (api, timeouts) = (&self.inner.api, self.inner.options.windows.send);
        match api.edit_with(channel, message, content, &serde_json::json!([]), timeouts).await {
            Err(error) if !error.is_forbidden() => {
                warn!(channel, question = id, %error, "cannot show what became of a question; a click on it will");
            }
            // Where the message cannot be reached, nobody can click on it through us either.
            _ => self.inner.notes.closed(id),
        }
    }
}
