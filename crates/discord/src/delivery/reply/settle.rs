//! The final delivery of an answer: complete, after earlier answers of the channel, as soon as
//! Discord accepts it, and as a file if it is too long.

use std::time::Duration;

use serde_json::Value;
use tracing::{debug, error, info, warn};

use super::ReplyWriter;
use crate::api::NewMessage;
use crate::delivery::footer::{self, answer_messages, hint};
use crate::delivery::obstacle::ObstacleWatch;
use crate::delivery::preview::{self, messages_above_file};
use crate::delivery::queue::DeliveryTurn;
use crate::questions::offers;
use crate::rest::{RestError, Timeouts, Upload};
use aetheel_dispatch::{AnswerFile, DeliveryError, Offer, TurnAnswer};
use aetheel_model::id::UserId;
use aetheel_model::schedule::is_silent;
use aetheel_runtime::figures;

/// Maximum number of files of a message (Discord's documentation of uploads, 2026-08).
const MAX_FILES: usize = 10;
/// First number of the files that the agent made. Smaller numbers are for the parts of a long
/// answer.
const MADE: usize = 100;
const UPLOAD_TIMEOUTS: Timeouts = Timeouts::new(Duration::from_secs(120), Duration::from_secs(240));

#[derive(Default)]
struct FileGroup {
    /// The number of the first file in its answer.
    first: usize,
    files: Vec<Upload>,
}

impl FileGroup {
    /// Returns whether a file of this size does not fit into the message.
    fn is_full(&self, bytes: usize) -> bool {
        let size: usize = self.files.iter().map(|file| file.bytes.len()).sum();
        self.files.len() >= MAX_FILES || size + bytes > footer::MAX_FILE_BYTES
    }

    fn add(&mut self, number: usize, file: Upload) {
        if self.files.is_empty() {
            self.first = number;
        }
        self.files.push(file);
    }
}

impl ReplyWriter {
    /// Delivers the answer after the earlier answers of its channel, as soon as Discord accepts it.
    /// Parts of it that are already visible stay.
    pub(super) async fn settle(
        &mut self,
        answer: TurnAnswer,
        mut turn: DeliveryTurn,
    ) -> Result<(), DeliveryError> {
        turn.wait().await;
        let mut tries = 0;
        loop {
            let watch = ObstacleWatch::begin(&self.inner);
            let Err(error) = self.try_settle(&answer).await else { break };
            let length = answer.text.chars().count();
            if tries == 0 {
                figures::discord_send_failed();
                warn!(channel = self.channel, length, %error, "discord does not accept an answer now{}", hint(&error));
            }
            if !watch.wait_until_over(&self.inner, &error, tries).await {
                error!(channel = self.channel, length, %error, "cannot send an answer to discord{}", hint(&error));
                return Err(match error {
                    RestError::TokenRefused => DeliveryError::Later(error.to_string()),
                    error if error.is_unknown_channel() => DeliveryError::Gone(error.to_string()),
                    error => DeliveryError::Refused(error.to_string()),
                });
            }
            tries += 1;
        }
        if tries > 0 {
            info!(channel = self.channel, tries, "discord accepted an answer that was delayed");
        }
        self.put_offer(answer.offer.as_ref()).await;
        if let Some(person) = answer.ping.and_then(UserId::as_discord) {
            let text = format!(
                "<@{person}>\n-# The answer is ready, after {}.",
                footer::time(answer.took)
            );
            let timeouts = self.inner.options.time_limits.send;
            let nonce = self.live.nonces.ping();
            let message =
                NewMessage { ping: Some(person), ..NewMessage::new(&nonce, &text, &Value::Null) };
            if let Err(error) = self.inner.api.post_message(self.channel, message, timeouts).await {
                debug!(channel = self.channel, %error, "cannot ping the person who asked");
            }
        }
        Ok(())
    }

    /// Makes one attempt to show the whole answer. Reuses the messages that exist.
    async fn try_settle(&mut self, answer: &TurnAnswer) -> Result<(), RestError> {
        let timeouts = self.inner.options.time_limits.send;
        if self.unasked
            && answer.failure.is_none()
            && answer.notices.is_empty()
            && is_silent(&answer.text)
        {
            // The text above a question is deleted too.
            let _ = self.live.show(&[], true, timeouts).await;
            self.live.delete_frozen(timeouts).await;
            return Ok(());
        }
        let lines = footer::lines(answer, &self.inner.options.settings.footer, !self.unasked);
        // The text above is unknown if a previous process posted it, and not part of the answer if
        // the agent replaced it.
        let above = if self.text_above.is_empty() && self.live.has_frozen() {
            None
        } else {
            self.text_below(&answer.text)
        };
        let text = self.remaining_text(&answer.text);
        let as_file =
            self.is_long(&answer.text) && self.settle_as_file(&text, &answer.text, &lines).await?;
        if !as_file {
            self.live.show(&answer_messages(&text, &lines), true, timeouts).await?;
        }
        if above.is_none() {
            self.live.delete_frozen(timeouts).await;
        }
        self.put_files(&answer.files).await?;
        Ok(())
    }

    /// Posts the files that the agent made below the answer, as many in a message as Discord
    /// accepts. Files that it never accepts are left out.
    async fn put_files(&self, files: &[AnswerFile]) -> Result<(), RestError> {
        let mut group = FileGroup::default();
        for (number, AnswerFile { name, path }) in files.iter().enumerate() {
            let bytes = match tokio::fs::read(path).await {
                Ok(bytes) if bytes.len() <= footer::MAX_FILE_BYTES => bytes,
                Ok(bytes) => {
                    warn!(
                        channel = self.channel,
                        name,
                        size = bytes.len(),
                        "a file of the agent is too large for discord"
                    );
                    continue;
                }
                Err(error) => {
                    warn!(channel = self.channel, name, %error, "cannot read a file of the agent any more");
                    continue;
                }
            };
            if group.is_full(bytes.len()) {
                self.put_group(std::mem::take(&mut group)).await?;
            }
            group.add(number, Upload { name: name.clone(), bytes });
        }
        self.put_group(group).await
    }

    async fn put_group(&self, group: FileGroup) -> Result<(), RestError> {
        let FileGroup { first, files } = group;
        if files.is_empty() {
            return Ok(());
        }
        let nonce = self.live.nonces.file(MADE + first);
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        match self.inner.api.post_files(self.channel, &nonce, &files, UPLOAD_TIMEOUTS).await {
            Ok(()) => info!(channel = self.channel, ?names, "posted files of the agent"),
            Err(error) if error.is_temporary() || error.is_unknown_channel() => return Err(error),
            Err(error) => {
                let hint = upload_hint(&error);
                warn!(channel = self.channel, ?names, %error, "cannot attach files of the agent{hint}");
            }
        }
        Ok(())
    }

    /// Puts the button of an offer below the answer. A failure is only logged, because the answer
    /// is delivered.
    async fn put_offer(&self, offer: Option<&Offer>) {
        if let Some(offer) = offer
            && let Err(error) = self
                .live
                .set_buttons(
                    &offers::rows(std::slice::from_ref(offer)),
                    self.inner.options.time_limits.send,
                )
                .await
        {
            warn!(channel = self.channel, offer = offer.id, %error, "cannot put a button below an answer");
        }
    }

    /// Returns how many messages an answer may have while it grows, and above its file.
    pub(super) fn drafted(&self) -> usize {
        preview::max_messages(self.inner.options.settings.long_answer)
    }

    fn is_long(&self, text: &str) -> bool {
        preview::is_long(text, self.inner.options.settings.long_answer)
    }

    /// Delivers the beginning of `text` as messages and the whole `answer` as a file below them.
    /// Returns `false` if no file can be attached.
    async fn settle_as_file(
        &mut self,
        text: &str,
        answer: &str,
        below: &[String],
    ) -> Result<bool, RestError> {
        let pieces = messages_above_file(text, answer, self.drafted(), below);
        self.live.show(&pieces, true, self.inner.options.time_limits.send).await?;
        for (number, (name, bytes)) in footer::files(answer).into_iter().enumerate() {
            match self
                .inner
                .api
                .post_files(
                    self.channel,
                    &self.live.nonces.file(number),
                    &[Upload { name, bytes }],
                    UPLOAD_TIMEOUTS,
                )
                .await
            {
                Ok(()) => {}
                Err(error) if error.is_temporary() || error.is_unknown_channel() => {
                    return Err(error);
                }
                Err(error) => {
                    let hint = upload_hint(&error);
                    warn!(channel = self.channel, %error, "cannot attach a long answer; it goes out as messages{hint}");
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Returns the operator's next step after a refused upload, for the end of a log line.
fn upload_hint(error: &RestError) -> &'static str {
    if error.is_forbidden() { "; hint: the bot needs Attach Files there" } else { "" }
}
