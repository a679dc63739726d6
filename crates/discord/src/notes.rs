//! The notes that survive a restart, in `state/discord.md`: the last handled message of each
//! channel, for catching up; the last logins; and the messages of open questions and of notices
//! about waits, for closing them. The file has the notices among the questions.
//!
//! The file is read once, when the bot connects. After that, the notes in memory are used.
//! Questions and logins are saved at once, because a crash must neither leave working buttons nor
//! lose a login. Messages are saved every few seconds.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::warn;

use aetheel_dispatch::WaitTopic;
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::{ChannelNotes, DiscordNotes, FileError};

/// Interval between two saves. Messages that were handled in the last interval before a crash are
/// examined again.
const SAVE_INTERVAL: Duration = Duration::from_secs(2);

/// The notes in memory, which are written to the file.
pub(super) struct NotesCache {
    last_handled: Mutex<HashMap<u64, u64>>,
    /// The times of recent logins, including those of previous processes, in milliseconds since
    /// 1970.
    logins: Mutex<Vec<i64>>,
    /// Questions that a previous process left open: id, channel and message.
    open_questions: Mutex<Vec<(String, u64, u64)>>,
    /// The open notices about waits, by topic.
    waits: Mutex<HashMap<String, OpenWait>>,
    file: DiscordNotes,
}

/// The beginning of the id of a notice about a wait, in the file.
const WAIT: &str = "wait.";

#[derive(Clone, Debug)]
pub(super) struct OpenWait {
    /// The id in the file.
    id: String,
    pub(super) channel: u64,
    pub(super) message: u64,
}

impl OpenWait {
    fn topic_and_reason(&self) -> (&str, &str) {
        let rest = self.id.strip_prefix(WAIT).unwrap_or_default();
        rest.split_once('.').unwrap_or((rest, ""))
    }

    pub(super) fn has_reason(&self, reason: &str) -> bool {
        self.topic_and_reason().1 == reason
    }
}

/// Moves the notices about waits out of a list of questions.
fn take_waits(questions: &mut Vec<(String, u64, u64)>) -> impl Iterator<Item = (String, OpenWait)> {
    let waits = questions.extract_if(.., |(id, ..)| id.starts_with(WAIT));
    let waits: Vec<OpenWait> =
        waits.map(|(id, channel, message)| OpenWait { id, channel, message }).collect();
    waits.into_iter().map(|wait| (wait.topic_and_reason().0.to_owned(), wait))
}

impl NotesCache {
    /// Reads the notes of the previous process.
    pub(super) async fn read(file: DiscordNotes) -> Self {
        let mut questions = of_discord(file.questions().await);
        let waits = take_waits(&mut questions).collect();
        Self {
            last_handled: Mutex::new(numbers(file.seen().await).collect()),
            logins: Mutex::new(file.logins().await),
            open_questions: Mutex::new(questions),
            waits: Mutex::new(waits),
            file,
        }
    }

    pub(super) fn last_handled(&self, channel: u64) -> Option<u64> {
        self.last_handled.lock().get(&channel).copied()
    }

    /// Returns all channels with their last handled messages.
    pub(super) fn channels(&self) -> Vec<(u64, u64)> {
        self.last_handled.lock().iter().map(|(channel, message)| (*channel, *message)).collect()
    }

    /// Records that a message was handled: it is saved, or visibly refused. Ids of one channel may
    /// come in any order; the highest counts.
    pub(super) fn mark_handled(&self, channel: u64, message: u64) {
        let mut seen = self.last_handled.lock();
        let last = seen.entry(channel).or_default();
        *last = (*last).max(message);
        self.file.note_seen(ChannelId::discord(channel), MessageId::discord(message));
    }

    /// Records the position from which a new channel catches up. Saved at once, because without it
    /// the next process would not catch up at all after a crash.
    pub(super) fn start_channel(&self, channel: u64, message: u64) {
        self.mark_handled(channel, message);
        self.save_soon();
    }

    /// Returns the times of recent logins, including those of previous processes, in milliseconds
    /// since 1970.
    pub(super) fn logins(&self) -> Vec<i64> {
        self.logins.lock().clone()
    }

    pub(super) fn record_login(&self, now_ms: i64) {
        self.logins.lock().push(now_ms);
        self.file.note_login(now_ms);
        self.save_soon();
    }

    /// Removes and returns the wanted questions that a previous process left open: id, channel and
    /// message.
    pub(super) fn take_open_questions(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> Vec<(String, u64, u64)> {
        self.open_questions.lock().extract_if(.., |(id, ..)| wanted(id)).collect()
    }

    /// Returns the notes about the wanted channels, as lines of the file.
    pub(super) async fn export(&self, wanted: impl Fn(ChannelId) -> bool) -> String {
        self.file.lines_of(wanted).await
    }

    /// Removes the notes that [`NotesCache::export`] returned.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) async fn forget(&self, wanted: impl Fn(u64) -> bool) -> Result<(), FileError> {
        let lines = self.file.lines_of(|channel| channel.as_discord().is_some_and(&wanted)).await;
        let ChannelNotes { channels, questions } = DiscordNotes::read_lines(&lines);
        self.last_handled.lock().retain(|channel, _| !wanted(*channel));
        self.open_questions.lock().retain(|(_, channel, _)| !wanted(*channel));
        self.waits.lock().retain(|_, wait| !wanted(wait.channel));
        for (channel, _) in channels {
            self.file.forget(channel);
        }
        for (question, ..) in questions {
            self.file.close_question(&question);
        }
        self.file.save().await.map(drop)
    }

    /// Imports the notes of another node: the last handled messages, whose channels are returned,
    /// and open questions.
    ///
    /// # Errors
    /// [`FileError`].
    pub(super) async fn import(
        &self,
        lines: &str,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<Vec<u64>, FileError> {
        let ChannelNotes { channels, questions } = DiscordNotes::read_lines(lines);
        let mut channels: Vec<(u64, u64)> = numbers(channels).collect();
        let mut questions = of_discord(questions);
        channels.retain(|(channel, _)| wanted(*channel));
        questions.retain(|(_, channel, _)| wanted(*channel));
        for (channel, message) in &channels {
            self.mark_handled(*channel, *message);
        }
        for (question, channel, message) in &questions {
            self.file.open_question(
                question,
                ChannelId::discord(*channel),
                MessageId::discord(*message),
            );
        }
        self.waits.lock().extend(take_waits(&mut questions));
        {
            let mut left = self.open_questions.lock();
            left.retain(|known| !questions.contains(known));
            left.extend(questions);
        }
        self.file.save().await?;
        Ok(channels.into_iter().map(|(channel, _)| channel).collect())
    }

    pub(super) fn question_opened(&self, question: &str, channel: u64, message: u64) {
        self.file.open_question(question, ChannelId::discord(channel), MessageId::discord(message));
        self.save_soon();
    }

    /// Records that the result of a question is visible.
    pub(super) fn question_closed(&self, question: &str) {
        self.file.close_question(question);
        self.save_soon();
    }

    /// Records the message of a notice about a wait.
    pub(super) fn wait_opened(&self, wait: &WaitTopic, channel: u64, message: u64) {
        let id = format!("{WAIT}{}.{}", wait.topic, wait.reason);
        self.question_opened(&id, channel, message);
        self.waits.lock().insert(wait.topic.clone(), OpenWait { id, channel, message });
    }

    pub(super) fn wait(&self, topic: &str) -> Option<OpenWait> {
        self.waits.lock().get(topic).cloned()
    }

    /// Removes the open notice about a wait, which is then closed by the caller.
    pub(super) fn take_wait(&self, topic: &str) -> Option<OpenWait> {
        self.waits.lock().remove(topic)
    }

    /// Removes the open notice with this message, because a person pressed a button of it.
    pub(super) fn take_pressed_wait(&self, message: u64) -> Option<OpenWait> {
        let mut waits = self.waits.lock();
        waits.extract_if(|_, wait| wait.message == message).map(|(_, wait)| wait).next()
    }

    /// Adds a notice again that is open after all.
    pub(super) fn put_back_wait(&self, wait: OpenWait) {
        self.waits.lock().insert(wait.topic_and_reason().0.to_owned(), wait);
    }

    /// Records that the end of a wait is visible.
    pub(super) fn wait_closed(&self, wait: &OpenWait) {
        self.question_closed(&wait.id);
    }

    /// Saves the notes every few seconds; never returns.
    pub(super) async fn keep_saving(&self) {
        loop {
            tokio::time::sleep(SAVE_INTERVAL).await;
            save(&self.file).await;
        }
    }

    pub(super) async fn save(&self) {
        save(&self.file).await;
    }

    fn save_soon(&self) {
        let file = self.file.clone();
        tokio::spawn(async move { save(&file).await });
    }
}

fn numbers(
    ids: impl IntoIterator<Item = (ChannelId, MessageId)>,
) -> impl Iterator<Item = (u64, u64)> {
    ids.into_iter().filter_map(|(channel, message)| channel.as_discord().zip(message.as_discord()))
}

/// Returns questions with the numbers of their channels and messages.
fn of_discord(questions: Vec<(String, ChannelId, MessageId)>) -> Vec<(String, u64, u64)> {
    let question = |(id, channel, message): (String, ChannelId, MessageId)| {
        Some((id, channel.as_discord()?, message.as_discord()?))
    };
    questions.into_iter().filter_map(question).collect()
}

async fn save(file: &DiscordNotes) {
    if let Err(error) = file.save().await {
        warn!(error = %with_causes(&error), "cannot save state/discord.md; after a restart messages may be answered again, and buttons stay");
    }
}
