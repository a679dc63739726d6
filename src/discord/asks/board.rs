//! The messages of one turn's questions: posted, and closed when the questions are over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tracing::warn;

use super::{lock, look};
use crate::discord::Inner;
use crate::discord::api::nonce;
use crate::discord::below::FILE;
use crate::discord::intake::Posted;
use crate::discord::rest::{RestError, Upload};
use crate::dispatch::{OpenQuestion, Settlement, Unseen};

/// Stands where the file would be.
const NO_FILE: &str =
    "⚠️ What the agent asks about is longer than is shown, and I may not attach it here: I need the permission Attach Files. (permission)";

/// Something to do about a question.
pub(in crate::discord) enum Errand {
    Post(OpenQuestion, Unseen),
    /// Its last message says this from now on.
    Close(String, String),
}

/// What is to be done, noted by the turn and done by its writer.
pub(in crate::discord) struct Errands {
    inner: Arc<Inner>,
    list: Mutex<Vec<Errand>>,
}

impl Errands {
    pub(in crate::discord) fn new(inner: &Arc<Inner>) -> Self {
        Self { inner: Arc::clone(inner), list: Mutex::default() }
    }

    /// The agent asks.
    pub(in crate::discord) fn ask(&self, question: &OpenQuestion, unseen: Unseen) {
        self.inner.asks.open(question);
        lock(&self.list).push(Errand::Post(question.clone(), unseen));
    }

    /// A question is over.
    pub(in crate::discord) fn settled(&self, id: &str, how: &Settlement) {
        if let Some(content) = self.inner.asks.settle(id, how) {
            lock(&self.list).push(Errand::Close(id.to_owned(), content));
        }
    }

    pub(in crate::discord) fn take(&self) -> Vec<Errand> {
        std::mem::take(&mut *lock(&self.list))
    }
}

/// The questions of one turn on the screen.
pub(in crate::discord) struct Board {
    inner: Arc<Inner>,
    channel: u64,
    /// The messages with buttons.
    posted: HashMap<String, u64>,
}

impl Board {
    pub(in crate::discord) fn new(inner: &Arc<Inner>, channel: u64) -> Self {
        Self { inner: Arc::clone(inner), channel, posted: HashMap::new() }
    }

    /// Whether somebody is being waited for.
    pub(in crate::discord) fn is_waiting(&self) -> bool {
        !self.posted.is_empty()
    }

    /// Posts a question, unless it is over already; one that cannot be posted is dismissed.
    pub(in crate::discord) async fn post(&mut self, question: &OpenQuestion, unseen: Unseen) {
        if !self.inner.asks.is_open(&question.id) {
            return;
        }
        match self.try_post(question).await {
            Ok(message) => {
                self.posted.insert(question.id.clone(), message);
                self.inner.asks.posted(Posted { id: question.id.clone(), channel: self.channel, message });
            }
            Err(error) => {
                let hint = if error.is_forbidden() { "\nhint: the bot needs View Channel and Send Messages there" } else { "" };
                warn!(channel = self.channel, question = question.id, %error, "cannot post a question{hint}");
                self.inner.asks.forget(&question.id);
                unseen.dismiss();
            }
        }
    }

    async fn try_post(&self, question: &OpenQuestion) -> Result<u64, RestError> {
        let (api, patience) = (&self.inner.api, self.inner.options.windows.send);
        let (pieces, rows) = (look::pieces(question, 0), look::rows(question, 0));
        if let Some((name, text)) = look::in_full(question) {
            let file = Upload { name: name.to_owned(), bytes: text.as_bytes().iter().copied().take(FILE).collect() };
            match api.post_file(self.channel, &nonce(), &file, patience).await {
                Err(error) if error.is_forbidden() => {
                    warn!(channel = self.channel, %error, "cannot attach what a question is about\nhint: the bot needs Attach Files there");
                    api.post(self.channel, None, &nonce(), NO_FILE, patience).await?;
                }
                posted => posted?,
            }
        }
        let (last, before) = pieces.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
        for piece in before {
            api.post(self.channel, None, &nonce(), piece, patience).await?;
        }
        Ok(api.post_with(self.channel, None, &nonce(), (last, &rows), patience).await?.id)
    }

    /// Closes what the turn left open: it ended without a word about it.
    pub(in crate::discord) async fn close_all(&mut self) {
        let left: Vec<String> = self.posted.keys().cloned().collect();
        for id in left {
            if let Some(content) = self.inner.asks.settle(&id, &Settlement::TurnEnded) {
                self.close(&id, &content).await;
            }
        }
    }

    /// Shows what became of a question.
    pub(in crate::discord) async fn close(&mut self, id: &str, content: &str) {
        let Some(message) = self.posted.remove(id) else { return };
        let (api, patience) = (&self.inner.api, self.inner.options.windows.send);
        match api.edit_with(self.channel, message, content, &serde_json::json!([]), patience).await {
            Err(error) if !error.is_forbidden() => {
                warn!(channel = self.channel, question = id, %error, "cannot show what became of a question; a click on it will");
            }
            // Where the message cannot be reached, nobody can click on it through us either.
            _ => self.inner.asks.closed(id),
        }
    }
}
