//! The notes the adapter keeps over restarts in `state/discord.md`: the last message handled in
//! each channel, for catching up; the last logins; and where questions wait, for closing them.
//!
//! The file is read once, when the bot connects; from then on memory answers. Questions and logins
//! are saved at once, because a crash must neither leave buttons that look alive nor forget a
//! login; messages every few seconds.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::warn;

use aetheel_store::workspace::{DiscordNotes, FileError, Noted};

/// Between two saves. Messages handled in the last one before a crash are looked at again.
const SAVE_INTERVAL: Duration = Duration::from_secs(2);

/// The notes as memory has them; the file follows.
pub(super) struct Notes {
    seen: Mutex<HashMap<u64, u64>>,
    /// When the bot logged in lately, also in earlier lives; milliseconds since 1970.
    logins: Mutex<Vec<i64>>,
    /// Questions that an earlier life left open: id, channel and message.
    left_open: Mutex<Vec<(String, u64, u64)>>,
    file: DiscordNotes,
}

impl Notes {
    /// Reads what an earlier life left.
    pub(super) async fn read(file: DiscordNotes) -> Self {
        Self {
            seen: Mutex::new(file.seen().await.into_iter().collect()),
            logins: Mutex::new(file.logins().await),
            left_open: Mutex::new(file.questions().await),
            file,
        }
    }

    /// The last message handled in a channel.
    pub(super) fn last(&self, channel: u64) -> Option<u64> {
        self.seen.lock().get(&channel).copied()
    }

    /// All channels with the last message handled there.
    pub(super) fn channels(&self) -> Vec<(u64, u64)> {
        self.seen.lock().iter().map(|(channel, message)| (*channel, *message)).collect()
    }

    /// Notes that a prompt was taken and is safe, or was visibly refused. Ids of one channel may
    /// come in any order; the highest counts.
    pub(super) fn saw(&self, channel: u64, message: u64) {
        let mut seen = self.seen.lock();
        let last = seen.entry(channel).or_default();
        *last = (*last).max(message);
        self.file.note(channel, message);
    }

    /// Notes from where on a channel that nobody wrote in before is caught up with. Saved at once:
    /// after a crash nothing else says that there is anything to be caught up with.
    pub(super) fn begin(&self, channel: u64, message: u64) {
        self.saw(channel, message);
        self.save_soon();
    }

    /// When the bot logged in lately, also in earlier lives; milliseconds since 1970.
    pub(super) fn logins(&self) -> Vec<i64> {
        self.logins.lock().clone()
    }

    /// Notes that the bot is about to log in.
    pub(super) fn logging_in(&self, now_ms: i64) {
        self.logins.lock().push(now_ms);
        self.file.note_login(now_ms);
        self.save_soon();
    }

    /// Hands out those of the questions that an earlier life left open: id, channel and message.
    pub(super) fn take_left_open(&self, wanted: impl Fn(&str) -> bool) -> Vec<(String, u64, u64)> {
        self.left_open.lock().extract_if(.., |(id, ..)| wanted(id)).collect()
    }

    /// Writes down what is noted of channels.
    pub(super) async fn give(&self, wanted: impl Fn(u64) -> bool) -> String {
        self.file.lines_of(wanted).await
    }

    /// Forgets what [`Notes::give`] wrote down.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) async fn forget(&self, wanted: impl Fn(u64) -> bool) -> Result<(), FileError> {
        let Noted { channels, questions } =
            DiscordNotes::read_lines(&self.file.lines_of(&wanted).await);
        self.seen.lock().retain(|channel, _| !wanted(*channel));
        self.left_open.lock().retain(|(_, channel, _)| !wanted(*channel));
        for (channel, _) in channels {
            self.file.forget(channel);
        }
        for (question, ..) in questions {
            self.file.close_question(&question);
        }
        self.file.save().await.map(drop)
    }

    /// Notes what another node noted of some channels: how far they were handled, which are
    /// returned, and questions that it left open.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) async fn absorb(
        &self,
        lines: &str,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<Vec<u64>, FileError> {
        let Noted { mut channels, mut questions } = DiscordNotes::read_lines(lines);
        channels.retain(|(channel, _)| wanted(*channel));
        questions.retain(|(_, channel, _)| wanted(*channel));
        for (channel, message) in &channels {
            self.saw(*channel, *message);
        }
        for (question, channel, message) in &questions {
            self.file.open_question(question, *channel, *message);
        }
        {
            let mut left = self.left_open.lock();
            left.retain(|known| !questions.contains(known));
            left.extend(questions);
        }
        self.file.save().await?;
        Ok(channels.into_iter().map(|(channel, _)| channel).collect())
    }

    /// Notes where a question waits.
    pub(super) fn opened(&self, question: &str, channel: u64, message: u64) {
        self.file.open_question(question, channel, message);
        self.save_soon();
    }

    /// Notes that everybody sees what became of a question.
    pub(super) fn closed(&self, question: &str) {
        self.file.close_question(question);
        self.save_soon();
    }

    /// Saves every few seconds; never returns.
    pub(super) async fn keep_saving(&self) {
        loop {
            tokio::time::sleep(SAVE_INTERVAL).await;
            save(&self.file).await;
        }
    }

    /// Saves what was noted since the last time.
    pub(super) async fn save(&self) {
        save(&self.file).await;
    }

    fn save_soon(&self) {
        let file = self.file.clone();
        tokio::spawn(async move { save(&file).await });
    }
}

async fn save(file: &DiscordNotes) {
    if let Err(error) = file.save().await {
        warn!(%error, "cannot save state/discord.md; after a restart messages may be answered again, and buttons stay");
    }
}
